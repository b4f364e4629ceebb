/* Attention, and an LSTM over sequences, forward and backward, with the library's layers. */
#include "workload.h"

/* size: the length; a batch of 8, 8 heads; factor: the depth of a head */
static void prepare_attention(const workload *w)
{
    for (int i = 0; i < 3; i++)
        mf_assign(&held[i], normal((uint64_t)i, MF_SHAPE(8, w->size, 8, w->factor)));
}
static mf_value attend(mf_value q, mf_value k, mf_value v) { return mf_dot_product_attention(q, k, v, .is_causal = true); }
static mf_value attention_loss(mf_value q, mf_value k, mf_value v) { return mf_mean(mf_square(attend(q, k, v))); }
static void call_attention(void) { finish(mf_call(mf_jit(attend), held[0], held[1], held[2])); }
static void call_attention_gradient(void)
{
    finish(mf_call(mf_jit(mf_grad(attention_loss, .argnums = MF_INTS(0, 1, 2))), held[0], held[1], held[2]));
}

/* size: the length; factor: the numbers in a step and the units of the cell; a batch of 16 */
static mf_module lstm;
static void prepare_lstm(const workload *w)
{
    int units = (int)w->factor;
    if (lstm.handle)
        mf_release((mf_value){ lstm.handle });
    mf_module made = mf_nn_rnn(mf_nn_optimized_lstm_cell(mf_random_state(0), units, units));
    lstm = (mf_module){ mf_keep((mf_value){ made.handle }).handle };
    mf_value kernels = mf_dict("kernel", mf_mul(normal(0, MF_SHAPE(units, 4 * units)), 0.05)), x = normal(2, MF_SHAPE(16, w->size, units));
    mf_value recurrent = mf_dict("kernel", mf_mul(normal(1, MF_SHAPE(units, 4 * units)), 0.05), "bias",
                                 mf_zeros(MF_SHAPE(4 * units), MF_F32));
    mf_assign(&held[0], mf_dict("cell", mf_dict("dense_i", kernels, "dense_h", recurrent)));
    mf_assign(&held[1], x);
}
static mf_value lstm_loss(mf_value params, mf_value x) { return mf_mean(mf_square(mf_apply(lstm, params, x))); }
static void call_lstm(void) { finish(mf_call(mf_jit(mf_module_pure(lstm)), held[0], held[1])); }
static void call_lstm_gradient(void) { finish(mf_call(mf_jit(mf_grad(lstm_loss)), held[0], held[1])); }

static const workload rows[] = {
    { .name = "attention_16x8", prepare_attention, call_attention, 20, .size = 16, .factor = 8, .small = true },
    { .name = "attention_grad_16x8", prepare_attention, call_attention_gradient, 20, .size = 16, .factor = 8, .small = true },
    { .name = "lstm_20x8", prepare_lstm, call_lstm, 20, .size = 20, .factor = 8, .small = true },
    { .name = "lstm_grad_20x8", prepare_lstm, call_lstm_gradient, 20, .size = 20, .factor = 8, .small = true },
    { .name = "attention_256x64", prepare_attention, call_attention, 5, .size = 256, .factor = 64 },
    { .name = "attention_grad_256x64", prepare_attention, call_attention_gradient, 3, .size = 256, .factor = 64 },
    { .name = "lstm_1000x128", prepare_lstm, call_lstm, 1, .size = 1000, .factor = 128 },
    { .name = "lstm_grad_1000x128", prepare_lstm, call_lstm_gradient, 1, .size = 1000, .factor = 128 },
};

const workload_list sequence_workloads = { rows, sizeof rows / sizeof *rows };
