/* Whole programs under maps that span processes: every result has the bits that one process gives, however the devices are spread. */
#include "check.h"
#include "spread.h"

__attribute__((constructor)) static void devices(void) { setenv("MF_NUM_CPU_DEVICES", "8", 1); }

#define PMAP(...)                              \
    mf_pmap_opt(mf_fn(FIRST_(__VA_ARGS__, 0)), \
                &(mf_pmap_options){ .axis_name = "i", .devices = h->devices, REST_(__VA_ARGS__, .reserved_ = 0) })
#define FIRST_(f, ...) f
#define REST_(f, ...)  __VA_ARGS__

/* Numbers whose sum depends on the order of addition. */
static mf_value numbers(mf_shape shape)
{
    int64_t n = 1;
    for (int i = 0; i < shape.rank; i++)
        n *= shape.dims[i];
    return mf_reshape(mf_mul(mf_sin(mf_mul(mf_arange(n, MF_F32), 1.7)), mf_add(mf_remainder(mf_arange(n, MF_F32), 5), 0.3)), shape);
}

static mf_value rows(mf_value v) { return mf_dict("rows", v); }
static mf_value same(mf_value v) { return mf_dict("same", v); }

/* ------------------------------------------------------------------ linear regression, data-parallel */

static mf_value squared_error(mf_value params, mf_value x, mf_value y)
{
    return mf_mean(mf_pow(mf_sub(mf_add(mf_dot(x, mf_get(params, 0)), mf_get(params, 1)), y), 2));
}
static mf_value descend(mf_value p, mf_value g, mf_value rate) { return mf_sub(p, mf_mul(rate, g)); }
static mf_value regression_step(mf_value params, mf_value x, mf_value y, mf_value rate)
{
    mf_value loss, grads;
    mf_unpack(mf_call(mf_value_and_grad(squared_error), params, x, y), &loss, &grads);
    return mf_tuple(mf_tree_map(descend, params, mf_pmean(grads, "i"), rate), mf_pmean(loss, "i"));
}
static mf_value itself(mf_value x) { return x; }

static mf_value regression_data(void) { return mf_tuple(numbers(MF_SHAPE(8, 10, 5)), numbers(MF_SHAPE(8, 10))); }

static mf_value regression(const spread_here *h)
{
    mf_value first = mf_tuple(numbers(MF_SHAPE(5)), 0.5f), data = spread_rows(h, regression_data()), losses[20];
    mf_value params = mf_call(PMAP(itself, .in_axes = MF_NONE), first);
    mf_function step = PMAP(regression_step, .in_axes = mf_axes(0, 0, 0, MF_NONE), .static_broadcasted_argnums = MF_INTS(3));
    for (int i = 0; i < 20; i++)
        mf_unpack(mf_call(step, params, mf_get(data, 0), mf_get(data, 1), 0.05), &params, &losses[i]);
    return rows(mf_tuple(params, mf_stack(mf_list_n(losses, 20), 1)));
}

/* The same with parameters that are held once, whose memory is donated. */
static mf_value regression_held_once(const spread_here *h)
{
    mf_value params = mf_tuple(numbers(MF_SHAPE(5)), mf_scalar(0.5, MF_F32)), data = spread_rows(h, regression_data()), loss;
    mf_function step = PMAP(regression_step, .in_axes = mf_axes(MF_NONE, 0, 0, MF_NONE), .out_axes = MF_NONE, .donate_argnums = MF_INTS(0));
    for (int i = 0; i < 20; i++)
        mf_unpack(mf_call(step, params, mf_get(data, 0), mf_get(data, 1), 0.05), &params, &loss);
    return same(mf_tuple(params, loss));
}

/* ------------------------------------------------------------------ gradients */

static mf_value sum_of_squares(mf_value x) { return mf_sum(mf_psum(mf_square(x), "i")); }
static mf_value grad_of_psum(mf_value x) { return mf_call(mf_grad(sum_of_squares), x); }
static mf_value mean_error(mf_value w, mf_value x) { return mf_pmean(mf_sum(mf_tanh(mf_dot(x, w))), "i"); }
static mf_value value_and_grad_of_pmean(mf_value w, mf_value x) { return mf_call(mf_value_and_grad(mean_error), w, x); }
static mf_value value_and_grad_inside(const spread_here *h)
{
    return rows(mf_call(PMAP(value_and_grad_of_pmean, .in_axes = mf_axes(MF_NONE, 0)), numbers(MF_SHAPE(4)),
                        spread_rows(h, numbers(MF_SHAPE(8, 3, 4)))));
}

static mf_value coupled(mf_value w, mf_value x) { return mf_mul(x, mf_psum(mf_sin(mf_mul(x, w)), "i")); }
typedef struct outside {
    mf_function map;
} outside;
static mf_value loss_outside(void *context, mf_value w, mf_value x) { return mf_sum(mf_call(((outside *)context)->map, w, x)); }
static mf_value grad_outside(const spread_here *h)
{
    outside o = { PMAP(coupled, .in_axes = mf_axes(MF_NONE, 0)) };
    mf_function g = mf_grad(mf_closure(loss_outside, &o), .argnums = MF_INTS(0, 1));
    mf_value x = spread_rows(h, numbers(MF_SHAPE(8, 3))), w = numbers(MF_SHAPE(3)), plain = mf_call(g, w, x),
             compiled = mf_call(mf_jit(g), w, x);
    return mf_dict("same", mf_tuple(mf_get(plain, 0), mf_get(compiled, 0)), "rows", mf_tuple(mf_get(plain, 1), mf_get(compiled, 1)));
}
static mf_value mean_outside_none(void *context, mf_value w, mf_value x) { return mf_sum(mf_call(((outside *)context)->map, w, x)); }
static mf_value mean_of_coupled(mf_value w, mf_value x) { return mf_pmean(mf_mul(x, mf_sin(mf_mul(x, w))), "i"); }
static mf_value grad_outside_of_none(const spread_here *h)
{
    outside o = { PMAP(mean_of_coupled, .in_axes = mf_axes(MF_NONE, 0), .out_axes = MF_NONE) };
    mf_function g = mf_value_and_grad(mf_closure(mean_outside_none, &o), .argnums = MF_INTS(0, 1));
    mf_value r = mf_call(g, numbers(MF_SHAPE(3)), spread_rows(h, numbers(MF_SHAPE(8, 3))));
    return mf_dict("same", mf_tuple(mf_get(r, 0), mf_get(r, 1, 0)), "rows", mf_get(r, 1, 1));
}

static mf_value block(mf_value x) { return mf_tanh(mf_mul(mf_psum(mf_tanh(x), "i"), x)); }
static mf_value remat_loss(mf_value x) { return mf_sum(mf_call(mf_remat(block), mf_call(mf_remat(block), x))); }
static mf_value grad_of_remat(mf_value x) { return mf_call(mf_grad(remat_loss), x); }
static mf_value jvp_inside(mf_value x) { return mf_jvp(mf_fn(block), mf_tuple(x), mf_tuple(mf_ones_like(x))); }

/* ------------------------------------------------------------------ with the other transforms */

static mf_value normalised(mf_value x) { return mf_div(x, mf_psum(mf_abs(x), "i")); }
static mf_value row_softmax(mf_value x) { return mf_softmax(mf_mul(x, mf_pmax(mf_max(x), "i")), -1); }
static mf_value jitted(mf_value x) { return mf_call(mf_jit(normalised), x); }
static mf_value mapped_softmax(mf_value x) { return mf_call(mf_vmap(row_softmax), x); }

static mf_value twice_inside(const void *context, mf_value x)
{
    const spread_here *h = *(const spread_here *const *)context;
    mf_function f = PMAP(normalised);
    return mf_call(f, mf_mul(mf_call(f, x), 2));
}
static mf_value twice(void *context, mf_value x) { return twice_inside(context, x); }
static mf_value pmap_in_jit(const spread_here *h)
{
    mf_function f = mf_jit(mf_closure(twice, &h));
    return rows(mf_call(f, mf_call(f, spread_rows(h, numbers(MF_SHAPE(8, 3))))));
}
static mf_value pmap_in_vmap(const spread_here *h)
{
    mf_function f = mf_vmap(PMAP(normalised), .in_axes = 1, .out_axes = 1);
    return rows(mf_call(f, spread_rows(h, numbers(MF_SHAPE(8, 5, 3)))));
}
static mf_value step_of_scan(void *context, mf_value carry, mf_value t)
{
    mf_value next = mf_add(twice_inside(context, carry), t);
    return mf_tuple(next, mf_sum(mf_call(mf_pmap(normalised, "i", .devices = (*(const spread_here **)context)->devices), next), 1));
}
static mf_value pmap_in_scan(const spread_here *h)
{
    mf_value r = mf_scan(mf_closure(step_of_scan, &h), spread_rows(h, numbers(MF_SHAPE(8, 3))), mf_arange(4, MF_F32));
    return rows(mf_tuple(mf_get(r, 0), mf_transpose(mf_get(r, 1), MF_INTS(1, 0))));
}
static mf_value ahead_of_time(const spread_here *h)
{
    mf_value x = spread_rows(h, numbers(MF_SHAPE(8, 3)));
    return rows(mf_call(mf_compile(PMAP(normalised), x), x));
}

/* ------------------------------------------------------------------ parameters */

static mf_value scaled_sum(mf_value x, mf_value w) { return mf_tuple(mf_add(mf_mul(x, w), mf_psum(w, "i")), mf_psum(mf_mul(x, w), "i")); }
static mf_value axes(const spread_here *h)
{
    mf_function f = PMAP(scaled_sum, .in_axes = mf_axes(1, MF_NONE), .out_axes = mf_axes(0, MF_NONE));
    mf_value r = mf_call(f, mf_transpose(spread_rows(h, numbers(MF_SHAPE(8, 3))), MF_INTS(1, 0)), 0.7f);
    return mf_dict("rows", mf_get(r, 0), "same", mf_get(r, 1));
}
static mf_value index_and_size(mf_value x)
{
    return mf_tuple(mf_add(x, mf_axis_index("i")), mf_mul(x, mf_psum(1, "i")), mf_axis_size("i"), mf_axis_index("i"));
}
static mf_value no_rows(void) { return mf_tuple(mf_axis_index("i"), mf_psum(mf_axis_index("i"), "i")); }
static mf_value without_arguments(const spread_here *h) { return rows(mf_call(PMAP(no_rows))); }
static mf_value by_keyword(mf_value x, mf_value more) { return mf_add(mf_psum(x, "i"), mf_get(more, "bias")); }
static mf_value keywords(const spread_here *h)
{
    mf_value x = spread_rows(h, numbers(MF_SHAPE(8, 2)));
    return rows(mf_call(PMAP(by_keyword), x, mf_kwargs("bias", x)));
}
static mf_value global_size(const spread_here *h)
{
    return rows(mf_call(PMAP(normalised, .axis_size = 8), spread_rows(h, numbers(MF_SHAPE(8, 2)))));
}

#define GROUPS mf_list(mf_list(0, 4, 1, 5), mf_list(2, 6, 3, 7))
#define UNEVEN mf_list(mf_list(6, 1, 4), mf_list(2, 5), mf_list(0, 3, 7))
static mf_value in_groups(mf_value x)
{
    return mf_tuple(mf_psum(x, "i", .axis_index_groups = GROUPS), mf_all_gather(x, 0, "i", .axis_index_groups = GROUPS),
                    mf_pmean(x, "i", .axis_index_groups = UNEVEN), mf_pmax(x, "i", .axis_index_groups = UNEVEN));
}
static mf_value others(mf_value x)
{
    return mf_tuple(mf_pargmax(x, "i"), mf_pargmin(x, "i"), mf_pbroadcast(x, "i", 5), mf_pshuffle(x, "i", mf_list(7, 6, 5, 4, 3, 2, 1, 0)),
                    mf_pswapaxes(x, 0, "i"));
}
static mf_value checked(mf_value x, mf_value w)
{
    mf_value sum = mf_check_replicated(mf_psum(x, "i"), "i"); /* follows from the axes */
    return mf_add(sum, mf_check_replicated(mf_all_gather(w, 0, "i"), "i"));
}
static mf_value replicated(const spread_here *h)
{
    mf_value x = spread_rows(h, numbers(MF_SHAPE(8, 3))), w = spread_rows(h, mf_ones(MF_SHAPE(8), MF_F32));
    return rows(mf_tuple(mf_call(PMAP(checked), mf_get(x, mf_range(0, MF_END), 0), w),
                         mf_call(PMAP(scaled_sum, .replicated_argnums = MF_INTS(1)), x, w)));
}

/* ------------------------------------------------------------------ control flow */

static mf_value add_sums(mf_value c, mf_value t)
{
    mf_value next = mf_tanh(mf_sub(mf_psum(mf_mul(c, t), "i"), c));
    return mf_tuple(next, mf_pmax(next, "i"));
}
static mf_value scanned(mf_value x) { return mf_scan(add_sums, x, mf_arange(5, MF_F32)); }
static mf_value small(mf_value c) { return mf_less(mf_pmax(mf_sum(mf_abs(c)), "i"), 100); }
static mf_value grown(mf_value c) { return mf_add(c, mf_mul(mf_abs(mf_pmean(c, "i")), 0.5)); }
static mf_value while_all(mf_value x) { return mf_while(small, grown, x); }
static mf_value small_here(mf_value c) { return mf_less(mf_sum(mf_abs(c)), 100); }
static mf_value doubled(mf_value c) { return mf_add(mf_mul(c, 2), 0.1); }
static mf_value while_own(mf_value x) { return mf_psum(mf_while(small_here, doubled, x), "i"); }
static mf_value sum_of_all(mf_value x) { return mf_psum(x, "i"); }
static mf_value negative(mf_value x) { return mf_neg(x); }
static mf_value branches(mf_value x)
{
    mf_value up = mf_cond(mf_greater(mf_psum(mf_sum(x), "i"), -1000), sum_of_all, negative, x);
    mf_value down = mf_cond(mf_greater(mf_psum(mf_sum(x), "i"), 1000), sum_of_all, negative, x);
    return mf_tuple(up, down, mf_cond(mf_greater(mf_sum(x), 0), negative, itself, up));
}
static mf_value add_mean(mf_value c, mf_value t) { return mf_tuple(mf_tanh(mf_add(mf_pmean(mf_mul(c, t), "i"), c)), t); }
static mf_value grad_of_scan_loss(mf_value x) { return mf_sum(mf_get(mf_scan(add_mean, x, mf_arange(5, MF_F32)), 0)); }
static mf_value grad_of_scan(mf_value x) { return mf_call(mf_grad(grad_of_scan_loss), x); }

/* ------------------------------------------------------------------ a small convolutional network */

static mf_value network(mf_module self, mf_value x)
{
    x = mf_avg_pool(mf_relu(mf_call(mf_member_module(self, "conv"), x)), .window_shape = MF_INTS(2, 2), .strides = MF_INTS(2, 2));
    return mf_call(mf_member_module(self, "dense"), mf_reshape(x, MF_SHAPE(-1, 64)));
}
typedef struct trainer {
    mf_module model;
    mf_optimizer adam;
    mf_value batch;
} trainer;
static mf_value network_loss(void *context, mf_value params)
{
    trainer *t = context;
    mf_value logits = mf_apply(t->model, params, mf_get(t->batch, "image"));
    return mf_mean(mf_softmax_cross_entropy(logits, mf_one_hot(mf_get(t->batch, "label"), 10)));
}
static mf_value network_step(void *context, mf_value params, mf_value opt_state, mf_value batch)
{
    trainer t = *(trainer *)context;
    mf_value loss, grads;
    t.batch = batch;
    mf_unpack(mf_call(mf_value_and_grad(mf_closure(network_loss, &t)), params), &loss, &grads);
    params = mf_optim_update(t.adam, mf_pmean(grads, "i"), &opt_state, params);
    return mf_tuple(params, opt_state, mf_pmean(loss, "i"));
}
static mf_value convolutional(const spread_here *h)
{
    mf_state rngs = mf_random_state(3);
    mf_module conv = mf_nn_conv(rngs, 1, 4, .kernel_size = MF_INTS(3, 3)), dense = mf_nn_linear(rngs, 64, 10);
    trainer t = { .model = mf_module_new("Network", network, "conv", conv, "dense", dense), .adam = mf_adam(0.01) };
    mf_value params = mf_module_values(t.model, mf_everything()), opt_state = mf_optim_init(t.adam, params), loss;
    mf_value batch = mf_dict("image", numbers(MF_SHAPE(8, 3, 8, 8, 1)), "label",
                             mf_reshape(mf_remainder(mf_arange(24, MF_I32), 10), MF_SHAPE(8, 3)));
    batch = spread_rows(h, batch);
    mf_function step = PMAP(mf_closure(network_step, &t), .in_axes = mf_axes(MF_NONE, MF_NONE, 0), .out_axes = MF_NONE,
                            .donate_argnums = MF_INTS(0, 1));
    for (int i = 0; i < 4; i++)
        mf_unpack(mf_call(step, params, opt_state, batch), &params, &opt_state, &loss);
    return same(mf_tuple(params, loss));
}

/* ------------------------------------------------------------------ large gradients: several exchanges overlap the backward pass */

static mf_value layer(mf_value x, mf_value w) { return mf_tanh(mf_mul(mf_dot(x, w), 0.1f)); }
static mf_value deep_loss(mf_value params, mf_value x)
{
    for (int i = 0; i < 4; i++)
        x = layer(x, mf_get(params, i));
    return mf_mean(mf_square(x));
}
static mf_value deep_step(mf_value params, mf_value x)
{
    mf_value loss, grads;
    mf_unpack(mf_call(mf_value_and_grad(deep_loss), params, x), &loss, &grads);
    return mf_tuple(mf_tree_map(descend, params, mf_pmean(grads, "i"), 0.5f), mf_pmean(loss, "i"));
}
static mf_value large_gradients(const spread_here *h)
{
    mf_value x = spread_rows(h, numbers(MF_SHAPE(8, 3, 520))), w = numbers(MF_SHAPE(520, 520)), loss;
    mf_value params = mf_tuple(w, mf_mul(w, 0.5f), mf_neg(w), mf_sin(w));
    mf_function step = PMAP(deep_step, .in_axes = mf_axes(MF_NONE, 0), .out_axes = MF_NONE);
    for (int i = 0; i < 3; i++)
        mf_unpack(mf_call(step, params, x), &params, &loss);
    return same(mf_tuple(params, loss));
}

/* Many calls in flight: the results of most are not read, and the others are read in another order than that of the calls. */
static mf_value calls_in_flight(const spread_here *h)
{
    mf_value x = spread_rows(h, numbers(MF_SHAPE(8, 700))), all[30];
    mf_function f = PMAP(normalised), g = PMAP(sum_of_all);
    for (int i = 0; i < 30; i++)
        all[i] = mf_call(i % 3 ? f : g, i % 5 ? x : mf_add(x, i));
    return rows(mf_tuple(all[29], all[3], all[17]));
}

/* ------------------------------------------------------------------ the table */

/* Bodies of one mapped argument. */
static const struct {
    const char *name;
    mf_value (*body)(mf_value);
    mf_shape shape;
} bodies[] = {
    { "gradient of psum", grad_of_psum, { 2, { 8, 3 } } },
    { "remat", grad_of_remat, { 2, { 8, 3 } } },
    { "forward mode", jvp_inside, { 2, { 8, 3 } } },
    { "jit in pmap", jitted, { 2, { 8, 3 } } },
    { "vmap in pmap", mapped_softmax, { 3, { 8, 3, 4 } } },
    { "index and size", index_and_size, { 1, { 8 } } },
    { "groups", in_groups, { 2, { 8, 3 } } },
    { "other collectives", others, { 2, { 8, 8 } } },
    { "scan", scanned, { 2, { 8, 3 } } },
    { "while, together", while_all, { 2, { 8, 3 } } },
    { "while, each for itself", while_own, { 2, { 8, 3 } } },
    { "cond", branches, { 2, { 8, 3 } } },
    { "gradient of scan", grad_of_scan, { 2, { 8, 3 } } },
};

static mf_value run_body(const spread_here *h)
{
    int i = *(const int *)h->context;
    return rows(mf_call(PMAP(bodies[i].body), spread_rows(h, numbers(bodies[i].shape))));
}

TEST(bodies_over_processes)
{
    for (int i = 0; i < (int)(sizeof bodies / sizeof *bodies); i++)
        spread_check(bodies[i].name, run_body, &i, 8, spread_of_eight);
}

static const struct {
    const char *name;
    spread_program run;
} programs[] = {
    { "regression", regression },
    { "regression, held once", regression_held_once },
    { "value and gradient of pmean", value_and_grad_inside },
    { "gradient from outside", grad_outside },
    { "gradient from outside of out_axes=None", grad_outside_of_none },
    { "pmap in jit", pmap_in_jit },
    { "pmap in vmap", pmap_in_vmap },
    { "pmap in scan", pmap_in_scan },
    { "ahead of time", ahead_of_time },
    { "axes", axes },
    { "without arguments", without_arguments },
    { "keywords", keywords },
    { "global axis_size", global_size },
    { "replicated", replicated },
    { "convolutional network", convolutional },
    { "calls in flight", calls_in_flight },
};

TEST(programs_over_processes)
{
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        spread_check(programs[i].name, programs[i].run, NULL, 8, spread_of_eight);
}

TEST(large_gradients_over_processes)
{
    static const char *const owners[] = { "00001111", "00011111", "01010101", "01234567", NULL };
    spread_check("large gradients", large_gradients, NULL, 8, owners);
}
