/* Workloads of pmap itself: tiny calls, all-reduces of every size, the linear-regression step. */
#include "workload.h"

static mf_value twice(mf_value x) { return mf_mul(x, 2); }
static mf_value normalize(mf_value x) { return mf_div(x, mf_psum(x, "i")); }
static mf_value all_reduce(mf_value x) { return mf_psum(x, "i"); }
static mf_value replicate(mf_value x) { return x; }

/* An ordinary array, as a user's first call would get. */
static void prepare_tiny(const workload *w)
{
    (void)w;
    mf_assign(&held[0], mf_reshape(mf_arange(4 * devices, MF_F32), MF_SHAPE(devices, 4)));
}
static void call_double(void) { finish(mf_call(mf_pmap(twice), held[0])); }
static void call_psum(void) { finish(mf_call(mf_pmap(normalize, .axis_name = "i"), held[0])); }

/* Warms up a process: traces, compiles and runs a function with a gradient and a collective, too large for the tile kernels. */
static mf_value energy(mf_value x) { return mf_sum(mf_mul(mf_tanh(x), mf_exp(mf_neg(mf_square(x))))); }
static mf_value warming(mf_value x) { return mf_psum(mf_call(mf_grad(energy), x), "i"); }
static void prepare_warming(const workload *w)
{
    (void)w;
    mf_assign(&held[0], mf_reshape(mf_arange(20000 * devices, MF_F32), MF_SHAPE(devices, 20000)));
}
static void call_warming(void) { finish(mf_call(mf_pmap(warming, .axis_name = "i"), held[0])); }

/* size: KiB per device. Each device's row has different values, because equal rows would be stored once. */
static void prepare_all_reduce(const workload *w)
{
    mf_value row = mf_ones(MF_SHAPE(devices, w->size << 8), MF_F32);
    mf_value rows = mf_add(mf_reshape(mf_arange(devices, MF_F32), MF_SHAPE(devices, 1)), row);
    mf_assign(&held[0], mf_call(mf_pmap(twice), rows));
    finish(held[0]);
}
static void call_all_reduce(void) { finish(mf_call(mf_pmap(all_reduce, .axis_name = "i"), held[0])); }

static mf_value squared_error(mf_value params, mf_value x, mf_value y)
{
    mf_value w, b;
    mf_unpack(params, &w, &b);
    return mf_mean(mf_square(mf_sub(mf_add(mf_dot(x, w), b), y)));
}

static mf_value descend(mf_value p, mf_value g, mf_value rate) { return mf_sub(p, mf_mul(rate, g)); }

static mf_value regression_step(mf_value params, mf_value x, mf_value y, mf_value rate)
{
    mf_value loss, grads;
    mf_unpack(mf_call(mf_value_and_grad(squared_error), params, x, y), &loss, &grads);
    grads = mf_pmean(grads, "batch");
    return mf_tuple(mf_tree_map(descend, params, grads, rate), mf_pmean(loss, "batch"));
}

static void prepare_regression(const workload *w)
{
    (void)w;
    mf_value x = mf_mul(mf_reshape(mf_arange(devices * 500, MF_F32), MF_SHAPE(devices, 100, 5)), 1e-4);
    mf_value y = mf_mul(mf_reshape(mf_arange(devices * 100, MF_F32), MF_SHAPE(devices, 100)), 1e-3);
    mf_value params = mf_tuple(mf_ones(MF_SHAPE(5), MF_F32), mf_ones(MF_SHAPE0, MF_F32));
    mf_assign(&held[0], mf_call(mf_pmap(replicate, .in_axes = MF_NONE, .out_axes = 0, .axis_size = mf_device_count()), params));
    mf_assign(&held[1], mf_call(mf_pmap(replicate), x));
    mf_assign(&held[2], mf_call(mf_pmap(replicate), y));
}

static void call_regression(void)
{
    mf_function step = mf_pmap(regression_step, .axis_name = "batch", .in_axes = mf_axes(0, 0, 0, MF_NONE),
                               .static_broadcasted_argnums = MF_INTS(3));
    mf_value next, loss;
    mf_unpack(mf_call(step, held[0], held[1], held[2], 0.05), &next, &loss);
    mf_assign(&held[0], next);
    finish(loss);
    finish(next);
}

#define ALL_REDUCE(text, kib, times)                                                                        \
    {                                                                                                       \
        .name = "psum_" text, prepare_all_reduce, call_all_reduce, times, .size = kib, .small = (kib) <= 64 \
    }

static const workload rows[] = {
    { .name = "warming", prepare_warming, call_warming, 10, .small = true },
    { .name = "dispatch_double", prepare_tiny, call_double, 100, .small = true },
    { .name = "dispatch_psum", prepare_tiny, call_psum, 100, .small = true },
    { .name = "linear_regression_step", prepare_regression, call_regression, 50, .small = true },
    ALL_REDUCE("1KiB", 1, 50),
    ALL_REDUCE("4KiB", 4, 50),
    ALL_REDUCE("16KiB", 16, 50),
    ALL_REDUCE("64KiB", 64, 20),
    ALL_REDUCE("256KiB", 256, 10),
    ALL_REDUCE("1MiB", 1 << 10, 5),
    ALL_REDUCE("4MiB", 4 << 10, 3),
    ALL_REDUCE("16MiB", 16 << 10, 3),
    ALL_REDUCE("64MiB", 64 << 10, 2),
    ALL_REDUCE("256MiB", 256 << 10, 1),
};

const workload_list map_workloads = { rows, sizeof rows / sizeof *rows };
