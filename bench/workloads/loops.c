/* Workloads of loops on one device: a while loop, a fori loop, a recurrent cell over the steps of a sequence, and its gradient. */
#include "workload.h"

/* `size` iterations */
static int64_t length;
static void prepare_number(const workload *w)
{
    length = w->size;
    mf_assign(&held[0], mf_zeros(MF_SHAPE0, MF_F32));
    mf_assign(&held[1], mf_scalar((double)w->size, MF_F32));
}

static mf_value below(mf_value carry) { return mf_less(mf_get(carry, 0), mf_get(carry, 1)); }
static mf_value next(mf_value carry) { return mf_tuple(mf_add(mf_get(carry, 0), 1), mf_get(carry, 1)); }
static mf_value count(mf_value x, mf_value end) { return mf_get(mf_while(below, next, mf_tuple(x, end)), 0); }
static void call_while(void) { finish(mf_call(mf_jit(count), held[0], held[1])); }

static mf_value halve(mf_value i, mf_value x) { return mf_add(mf_mul(x, 0.5), mf_astype(i, MF_F32)); }
static mf_value halve_often(mf_value x) { return mf_fori_loop(0, length, halve, x); }
static void call_fori(void) { finish(mf_call(mf_jit(halve_often), held[0])); }

/* `size` steps of a cell of `factor` units: h = tanh(w h + x) */
static void prepare_rnn(const workload *w)
{
    mf_assign(&held[0], mf_mul(normal(0, MF_SHAPE(w->factor, w->factor)), 0.2));
    mf_assign(&held[1], mf_zeros(MF_SHAPE(w->factor), MF_F32));
    mf_assign(&held[2], normal(1, MF_SHAPE(w->size, w->factor)));
}
static mf_value cell(mf_value w, mf_value h, mf_value x)
{
    mf_value made = mf_tanh(mf_add(mf_matmul(w, h), x));
    return mf_tuple(made, made);
}
static mf_value rnn(mf_value w, mf_value h, mf_value x) { return mf_get(mf_scan(mf_partial(cell, w), h, x), 1); }
static mf_value rnn_loss(mf_value w, mf_value h, mf_value x) { return mf_mean(mf_square(rnn(w, h, x))); }
static void call_rnn(void) { finish(mf_call(mf_jit(rnn), held[0], held[1], held[2])); }
static void call_rnn_gradient(void) { finish(mf_call(mf_jit(mf_grad(rnn_loss)), held[0], held[1], held[2])); }

static const workload rows[] = {
    { .name = "while_1000", prepare_number, call_while, 100, .size = 1000, .small = true },
    { .name = "fori_1000", prepare_number, call_fori, 100, .size = 1000, .small = true },
    { .name = "rnn_1000x16", prepare_rnn, call_rnn, 50, .size = 1000, .factor = 16, .small = true },
    { .name = "rnn_grad_1000x16", prepare_rnn, call_rnn_gradient, 20, .size = 1000, .factor = 16, .small = true },
    { .name = "rnn_1000x64", prepare_rnn, call_rnn, 10, .size = 1000, .factor = 64, .small = true },
    { .name = "rnn_grad_1000x64", prepare_rnn, call_rnn_gradient, 5, .size = 1000, .factor = 64 },
};

const workload_list loop_workloads = { rows, sizeof rows / sizeof *rows };
