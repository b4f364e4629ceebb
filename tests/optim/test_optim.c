/* Optimisers, compared with their formulas in double precision: Adam with bias correction, SGD with momentum and Nesterov momentum,
 * schedules. */
#include <manyfold.h>

#include "check.h"

enum { SIZE = 4, STEPS = 20 };

static const double start[SIZE] = { 1, -2, 0.5, 3 };

/* A gradient that changes with the step, the same on both sides: exact in f32. */
static double gradient(int step, int i) { return (double)((step * 7 + i * 3) % 11 - 5) / 8; }

static mf_value gradients(int step)
{
    double g[SIZE];
    for (int i = 0; i < SIZE; i++)
        g[i] = gradient(step, i);
    return mf_array_n(MF_F32, MF_SHAPE(SIZE), g, SIZE);
}

static void check_values(mf_value v, const double *expected)
{
    double x[SIZE];
    CHECK_STR(mf_error(v), NULL);
    CHECK_EQ_INT(mf_to_host(v, MF_F64, x, SIZE), MF_OK);
    for (int i = 0; i < SIZE; i++)
        CHECK_NEAR(x[i], expected[i], 1e-5);
}

/* Runs STEPS steps of o on {"a": SIZE numbers, "b": one}; `expected` is the final "a", and its first element the final "b". */
static void check_steps(mf_optimizer o, const double *expected)
{
    mf_value params = mf_dict("a", mf_array_n(MF_F32, MF_SHAPE(SIZE), start, SIZE), "b", mf_scalar(start[0], MF_F32));
    mf_value state = mf_optim_init(o, params);
    for (int step = 1; step <= STEPS; step++) {
        mf_value g = gradients(step);
        params = mf_optim_update(o, mf_dict("a", g, "b", mf_get(g, 0)), &state, params);
    }
    check_values(mf_get(params, "a"), expected);
    CHECK_NEAR(mf_item_f64(mf_get(params, "b")), expected[0], 1e-5);
    CHECK_EQ_INT(mf_item_i64(mf_get(state, "count")), STEPS);
}

/* ---- Adam */

typedef struct adam {
    double rate, b1, b2, eps;
} adam;

static void adam_formula(const adam *o, double *p)
{
    for (int i = 0; i < SIZE; i++) {
        double m = 0, v = 0;
        p[i] = start[i];
        for (int step = 1; step <= STEPS; step++) {
            double g = gradient(step, i);
            m = o->b1 * m + (1 - o->b1) * g;
            v = o->b2 * v + (1 - o->b2) * g * g;
            p[i] -= o->rate * (m / (1 - pow(o->b1, step))) / (sqrt(v / (1 - pow(o->b2, step))) + o->eps);
        }
    }
}

TEST(adam_follows_its_formula)
{
    MF_SCOPE;
    double expected[SIZE];
    adam_formula(&(adam){ 1e-3, 0.9, 0.999, 1e-8 }, expected);
    check_steps(mf_adam(), expected);
    adam_formula(&(adam){ 0.05, 0.8, 0.99, 1e-3 }, expected);
    check_steps(mf_adam(.learning_rate = 0.05, .b1 = 0.8, .b2 = 0.99, .eps = 1e-3), expected);
}

TEST(adam_takes_zero_for_a_choice)
{
    MF_SCOPE;
    double expected[SIZE];
    adam_formula(&(adam){ 1e-2, 0, 0.999, 1e-8 }, expected);
    check_steps(mf_adam(.learning_rate = 1e-2, .b1 = 0), expected);
}

TEST(adam_moves_by_the_rate_first)
{
    MF_SCOPE;
    mf_optimizer o = mf_adam(.learning_rate = 0.25);
    mf_value params = mf_scalar(1, MF_F32), state = mf_optim_init(o, params);
    params = mf_optim_update(o, mf_scalar(1e-3, MF_F32), &state, params); /* m / sqrt(v) is the gradient's sign */
    CHECK_NEAR(mf_item_f64(params), 0.75, 1e-5);
}

/* ---- SGD */

static void sgd_formula(double rate, double momentum, bool nesterov, double *p)
{
    for (int i = 0; i < SIZE; i++) {
        double trace = 0;
        p[i] = start[i];
        for (int step = 1; step <= STEPS; step++) {
            double g = gradient(step, i);
            trace = g + momentum * trace;
            p[i] -= rate * (nesterov ? g + momentum * trace : trace);
        }
    }
}

TEST(sgd_follows_its_formula)
{
    MF_SCOPE;
    double expected[SIZE];
    sgd_formula(0.1, 0, false, expected);
    check_steps(mf_sgd(.learning_rate = 0.1), expected);
    sgd_formula(0.1, 0.9, false, expected);
    check_steps(mf_sgd(.learning_rate = 0.1, .momentum = 0.9), expected);
    sgd_formula(0.1, 0.9, true, expected);
    check_steps(mf_sgd(.learning_rate = 0.1, .momentum = 0.9, .nesterov = true), expected);
}

/* ---- schedules: functions of the step count */

static mf_value halving(mf_value count) { return mf_div(1, mf_pow(2.0, mf_astype(count, MF_F32))); }

TEST(asks_the_schedule_for_the_rate)
{
    MF_SCOPE;
    mf_optimizer o = mf_adam(.schedule = mf_fn(halving));
    mf_value params = mf_scalar(4, MF_F32), state = mf_optim_init(o, params);
    double expected = 4;
    for (int step = 0; step < 4; step++) {
        params = mf_optim_update(o, mf_scalar(1, MF_F32), &state, params); /* a constant gradient of 1: the update is the learning rate */
        expected -= pow(0.5, step);
        CHECK_NEAR(mf_item_f64(params), expected, 1e-5);
    }
}

/* ---- inside transforms */

static mf_value one_step(void *optimizer, mf_value params, mf_value state, mf_value grads)
{
    params = mf_optim_update(*(mf_optimizer *)optimizer, grads, &state, params);
    return mf_tuple(params, state);
}

TEST(runs_compiled_and_mapped)
{
    MF_SCOPE;
    mf_optimizer o = mf_adam(.learning_rate = 0.1);
    mf_value params = mf_array_n(MF_F32, MF_SHAPE(SIZE), start, SIZE), state = mf_optim_init(o, params), compiled = params;
    mf_value rows = mf_stack(mf_list(params, params), 0);
    mf_function jitted = mf_jit(mf_closure(one_step, &o));
    mf_value compiled_state = state;
    for (int step = 1; step <= 3; step++) {
        params = mf_optim_update(o, gradients(step), &state, params);
        mf_unpack(mf_call(jitted, compiled, compiled_state, gradients(step)), &compiled, &compiled_state);
    }
    CHECK(mf_item_bool(mf_allclose(params, compiled)));
    CHECK_EQ_INT(mf_item_i64(mf_get(compiled_state, "count")), 3);
    mf_function mapped = mf_vmap(mf_closure(one_step, &o), .in_axes = mf_axes(0, MF_NONE, MF_NONE));
    mf_value stepped = mf_get(mf_call(mapped, rows, mf_optim_init(o, params), gradients(1)), 0);
    CHECK(mf_item_bool(mf_array_equal(mf_get(stepped, 0), mf_get(stepped, 1))));
}

/* ---- as values */

TEST(equal_options_are_one_optimizer)
{
    MF_SCOPE;
    mf_optimizer o = mf_adam(.learning_rate = 0.1), same = mf_adam(.learning_rate = 0.1);
    mf_value params = mf_scalar(1, MF_F32), state = mf_optim_init(o, params);
    mf_call(mf_jit(mf_closure(one_step, &o)), params, state, params);
    int64_t before = mf_cache_read().traces;
    mf_call(mf_jit(mf_closure(one_step, &o)), params, state, params);
    CHECK_EQ_INT(mf_cache_read().traces - before, 0);
    mf_call(mf_jit(mf_closure(one_step, &same)), params, state, params);
    CHECK_EQ_INT(mf_cache_read().traces - before, 0);
    mf_value a = mf_optim_update(o, params, &(mf_value){ state.handle }, params),
             b = mf_optim_update(same, params, &(mf_value){ state.handle }, params);
    CHECK(mf_item_bool(mf_array_equal(a, b)));
}

TEST(keeps_the_parameters_dtype)
{
    MF_SCOPE;
    mf_optimizer o = mf_adam();
    mf_value params = mf_ones(MF_SHAPE(3), MF_BF16), state = mf_optim_init(o, params);
    params = mf_optim_update(o, mf_ones(MF_SHAPE(3), MF_BF16), &state, params);
    CHECK_EQ_INT(mf_dtype_of(params), MF_BF16);
    CHECK_EQ_INT(mf_dtype_of(mf_get(state, "mu")), MF_BF16);
}

TEST(no_options_are_the_defaults)
{
    CHECK(mf_adam_opt(NULL).handle == mf_adam().handle);
    CHECK(mf_sgd_opt(NULL).handle == mf_sgd().handle);
}

TEST(errors_travel)
{
    MF_SCOPE;
    mf_optimizer none = { 0 }, adam = mf_adam();
    mf_value x = mf_ones(MF_SHAPE(3), MF_F32), state = mf_optim_init(adam, x);
    CHECK_EQ_INT(mf_error_status(mf_optim_init(none, x)), MF_ERROR_ARGUMENT);
    CHECK_EQ_INT(mf_error_status(mf_optim_update(none, x, &state, x)), MF_ERROR_ARGUMENT);
    CHECK_EQ_INT(mf_error_status(mf_optim_update(adam, mf_make_error(MF_ERROR_IO, "no gradients"), &state, x)), MF_ERROR_IO);
    (void)mf_error(state);
    state = mf_optim_init(mf_sgd(.learning_rate = 0.1), x);
    mf_value foreign = mf_optim_update(adam, x, &state, x);
    CHECK_EQ_INT(mf_error_status(foreign), MF_ERROR_TREE);
    CHECK_CONTAINS(mf_error(foreign),
                   "the state of adam is a dict of count, mu, nu, but this one has count: mf_optim_init of another optimizer");
    CHECK(!mf_is_error(state));
}
