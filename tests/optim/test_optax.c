/* Every optimiser, chain and schedule, compared with Optax's numbers (tests/oracle/optim.txt, computed by optim.py): the parameters to 1e-6
 * over 100 steps with the same gradients, step by step and compiled. */
#include "check.h"

#include <manyfold.h>

enum { SIZE = 13, STEPS = 100 };

static double start_of(int k) { return ((k * 5) % 13 - 6) / 4.0; }
static double gradient(int t, int k, bool at_inf) { return at_inf && t % 3 == 0 ? (double)INFINITY : ((t * 7 + k * 3) % 11 - 5) / 8.0; }

static mf_value tree(const double *x)
{
    mf_value bias = mf_array_n(MF_F32, MF_SHAPE(2), x + 3, 2), kernel = mf_array_n(MF_F32, MF_SHAPE(4, 2), x + 5, 8);
    return mf_dict("a", mf_array_n(MF_F32, MF_SHAPE(3), x, 3), "b", mf_dict("bias", bias, "kernel", kernel));
}

static void flat(mf_value tree, double *x)
{
    CHECK_EQ_INT(mf_to_host(mf_get(tree, "a"), MF_F64, x, 3), MF_OK);
    CHECK_EQ_INT(mf_to_host(mf_get(tree, "b", "bias"), MF_F64, x + 3, 2), MF_OK);
    CHECK_EQ_INT(mf_to_host(mf_get(tree, "b", "kernel"), MF_F64, x + 5, 8), MF_OK);
}

/* ---- the oracle's cases */

static mf_value is_matrix(mf_value path, mf_value x)
{
    (void)path;
    return mf_b(mf_ndim(x) == 2);
}

typedef struct named {
    const char *name;
    mf_optimizer o;
} named;

enum { ALL = 46 };

static int optimizers(named *all)
{
    mf_filter kernels = mf_path_contains("kernel"), in_b = mf_path_contains("b");
    mf_function warm = mf_warmup_cosine_decay_schedule(0.0, 0.02, 10, 100, .end_value = 0.001);
    const named made[] = {
        { "sgd", mf_sgd(0.01) },
        { "sgd_schedule", mf_sgd(.schedule = mf_linear_schedule(0.02, 0.001, 80, 5)) },
        { "momentum", mf_sgd(0.01, 0.9) },
        { "nesterov", mf_sgd(0.01, 0.9, true) },
        { "adam", mf_adam(0.01) },
        { "adam_nesterov", mf_adam(0.01, 0.8, 0.99, 1e-6, .eps_root = 1e-5, .nesterov = true) },
        { "adam_schedule", mf_adam(.schedule = warm) },
        { "adamw", mf_adamw(0.01, .weight_decay = 0.05) },
        { "adamw_mask", mf_adamw(0.01, .weight_decay = 0.05, .mask = kernels) },
        { "rmsprop", mf_rmsprop(0.01) },
        { "rmsprop_outside", mf_rmsprop(0.01, 0.8, 1e-4, 0.5, .eps_in_sqrt = false, .bias_correction = true) },
        { "rmsprop_centered", mf_rmsprop(0.01, 0.9, 1e-3, .centered = true) },
        { "rmsprop_centered_corrected", mf_rmsprop(0.005, 0.9, 1e-2, .centered = true, .bias_correction = true) },
        { "rmsprop_momentum", mf_rmsprop(0.002, .momentum = 0.9) },
        { "rmsprop_nesterov", mf_rmsprop(0.002, .momentum = 0.9, .nesterov = true) },
        { "adagrad", mf_adagrad(0.05) },
        { "lamb", mf_lamb(0.01, .weight_decay = 0.01) },
        { "lion", mf_lion(0.001) },
        { "lion_mask", mf_lion(0.001, 0.8, 0.9, .weight_decay = 0.1, .mask_fn = mf_fn(is_matrix)) },
        { "clip", mf_chain(mf_clip_updates(0.25), mf_sgd(0.01)) },
        { "clip_by_global_norm", mf_chain(mf_clip_by_global_norm(1.0), mf_adamw(.schedule = warm)) },
        { "blocks", mf_chain(mf_add_decayed_weights(0.01, kernels), mf_trace_updates(0.8), mf_scale_by_rss(), mf_scale_updates(0.5),
                             mf_scale_by_schedule(mf_exponential_decay(1.0, 20, 0.5)), mf_scale_by_learning_rate(0.02)) },
        { "trust_ratio", mf_chain(mf_scale_by_trust_ratio(0.1, 0.5, 1e-3), mf_scale_updates(-0.01)) },
        { "sign", mf_chain(mf_scale_by_sign(), mf_scale_updates(-0.001)) },
        { "ema", mf_chain(mf_ema(0.9), mf_scale_updates(-0.01)) },
        { "ema_biased", mf_chain(mf_ema(0.9, .debias = false), mf_scale_updates(-0.01)) },
        { "masked", mf_masked(mf_adam(0.01), in_b) },
        { "frozen", mf_multi_transform(in_b, mf_set_to_zero(), mf_everything(), mf_adam(0.01)) },
        { "multi_steps", mf_multi_steps(mf_adam(0.01), 4) },
        { "apply_if_finite_at_inf", mf_apply_if_finite(mf_adam(0.01), 5) },
        { "adamax", mf_adamax(0.01) },
        { "adamax_decay", mf_adamax(0.01, .weight_decay = 0.05, .mask = kernels) },
        { "adabelief", mf_adabelief(0.01) },
        { "adabelief_nesterov", mf_adabelief(0.01, 0.8, 0.99, 1e-6, .eps_root = 1e-6, .nesterov = true) },
        { "radam", mf_radam(0.01) },
        { "radam_nesterov", mf_radam(0.01, 0.8, 0.95, 1e-6, .eps_root = 1e-5, .threshold = 4.5, .nesterov = true) },
        { "amsgrad", mf_amsgrad(.schedule = warm, .b1 = 0.8, .b2 = 0.9) },
        { "yogi", mf_yogi(0.01) },
        { "adadelta", mf_adadelta(0.5, .weight_decay = 0.01, .mask = kernels) },
        { "adafactor", mf_adafactor(0.01) },
        { "adafactor_factored", mf_adafactor(.schedule = warm, .min_dim_size_to_factor = 2, .decay_rate = 0.7, .clipping_threshold = 0.5,
                                             .momentum = 0.9, .weight_decay_rate = 0.01, .mask = kernels) },
        { "adafactor_plain", mf_adafactor(0.01, .no_multiply_by_parameter_scale = true, .clipping_threshold = 0, .no_factored = true) },
        { "lars", mf_lars(0.1, 0.01, .trust_coefficient = 0.05, .mask = kernels) },
        { "clip_by_block_rms", mf_chain(mf_clip_by_block_rms(0.25), mf_sgd(0.01)) },
        { "adaptive_grad_clip", mf_chain(mf_adaptive_grad_clip(0.1, 0.01), mf_sgd(0.01)) },
        { "zero_nans_at_inf", mf_chain(mf_scale_by_sign(), mf_add_decayed_weights(0.01), mf_zero_nans(), mf_sgd(0.01)) },
    };
    _Static_assert(sizeof made / sizeof *made == ALL, "as many as are asked for");
    memcpy(all, made, sizeof made);
    return ALL;
}

/* ---- steps */

/* Reads the 13 numbers of that line; false if there is none. */
static bool known_steps(const char *name, int t, double *x)
{
    FILE *f = fopen(MF_TESTS_DIR "/oracle/optim.txt", "r");
    char line[1024], start[128];
    bool found = false;
    int n = snprintf(start, sizeof start, "steps %s %d ", name, t);
    while (f && !found && fgets(line, sizeof line, f))
        if ((found = strncmp(line, start, (size_t)n) == 0)) {
            char *at = line + n;
            for (int k = 0; k < SIZE; k++)
                x[k] = strtod(at, &at);
        }
    if (f)
        fclose(f);
    return found;
}

static void check_against(const named *o, int t, mf_value params)
{
    double expected[SIZE], x[SIZE];
    if (!known_steps(o->name, t, expected))
        return;
    flat(params, x);
    for (int k = 0; k < SIZE; k++)
        if (!CHECK_NEAR(x[k], expected[k], 1e-6))
            CHECK_NOTE("%s: parameter %d after step %d", o->name, k, t);
}

static mf_value step(void *optimizer, mf_value params, mf_value state, mf_value grads)
{
    params = mf_optim_update(*(mf_optimizer *)optimizer, grads, &state, params);
    return mf_tuple(params, state);
}

static mf_value gradients(const named *o, int t)
{
    double g[SIZE];
    for (int k = 0; k < SIZE; k++)
        g[k] = gradient(t, k, strstr(o->name, "_at_inf") != NULL);
    return tree(g);
}

static void run(const named *o, bool compiled)
{
    MF_SCOPE;
    double x[SIZE];
    for (int k = 0; k < SIZE; k++)
        x[k] = start_of(k);
    mf_value params = tree(x), state = mf_optim_init(o->o, params);
    mf_function f = mf_jit(mf_closure(step, &o->o));
    for (int t = 1; t <= STEPS; t++) {
        if (compiled)
            mf_unpack(mf_call(f, params, state, gradients(o, t)), &params, &state);
        else
            params = mf_optim_update(o->o, gradients(o, t), &state, params);
        if (!CHECK_STR(mf_error(params), NULL))
            return;
        check_against(o, t, params);
    }
    CHECK(known_steps(o->name, STEPS, x));
}

TEST(as_optax_compiled)
{
    MF_SCOPE;
    named all[ALL];
    int count = optimizers(all);
    for (int i = 0; i < count; i++)
        run(&all[i], true);
}

TEST(as_optax_one_operation_after_the_other)
{
    MF_SCOPE;
    named all[ALL];
    int count = optimizers(all);
    for (int i = 0; i < count; i += 3)
        run(&all[i], false);
}

/* ---- schedules */

static void check_schedule(const char *name, mf_function schedule)
{
    FILE *f = fopen(MF_TESTS_DIR "/oracle/optim.txt", "r");
    char line[1024], which[64];
    int count, checked = 0;
    double expected;
    mf_function compiled = mf_jit(schedule);
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "schedule %63s %d %la", which, &count, &expected) == 3 && strcmp(which, name) == 0) {
            bool near = CHECK_NEAR(mf_item_f64(mf_call(schedule, count)), expected, 2e-7);
            near &= CHECK_NEAR(mf_item_f64(mf_call(compiled, mf_scalar(count, MF_I32))), expected, 2e-7);
            if (!near)
                CHECK_NOTE("%s at %d", name, count);
            checked++;
        }
    if (f)
        fclose(f);
    CHECK_EQ_INT(checked, 15);
}

TEST(schedules_as_optax)
{
    MF_SCOPE;
    check_schedule("constant", mf_constant_schedule(0.25));
    check_schedule("linear", mf_linear_schedule(0.1, 0.01, 20));
    check_schedule("linear_later", mf_linear_schedule(0.1, 0.5, 20, 10));
    check_schedule("polynomial", mf_polynomial_schedule(1.0, 0.1, 2, 50, 5));
    check_schedule("cosine", mf_cosine_decay_schedule(0.1, 100));
    check_schedule("cosine_alpha", mf_cosine_decay_schedule(0.1, 50, .alpha = 0.25, .exponent = 2));
    check_schedule("warmup_cosine", mf_warmup_cosine_decay_schedule(0.01, 0.1, 10, 100, .end_value = 0.005));
    check_schedule("exponential", mf_exponential_decay(0.1, 10, 0.5));
    check_schedule("exponential_staircase",
                   mf_exponential_decay(0.1, 10, 0.5, .transition_begin = 5, .staircase = true, .end_value = 0.001));
    check_schedule("exponential_up", mf_exponential_decay(0.1, 10, 1.5, .end_value = 0.75));
    mf_function warm = mf_warmup_cosine_decay_schedule(0.0, 0.02, 10, 100, .end_value = 0.001);
    mf_function first = mf_join_schedules(mf_linear_schedule(0.1, 0.5, 10), 10, mf_constant_schedule(0.25));
    check_schedule("joined", mf_join_schedules(first, 20, warm));
    check_schedule("warmup_constant", mf_warmup_constant_schedule(0.1, 0.5, 20));
    check_schedule("warmup_exponential", mf_warmup_exponential_decay_schedule(0.01, 0.1, 10, 20, 0.5, .transition_begin = 5,
                                                                              .staircase = true, .end_value = 0.001));
    check_schedule("linear_onecycle", mf_linear_onecycle_schedule(100, 0.5));
    check_schedule("cosine_onecycle", mf_cosine_onecycle_schedule(100, 0.5, .pct_start = 0.2, .div_factor = 10, .final_div_factor = 100));
    check_schedule("piecewise", mf_piecewise_constant_schedule(1.0, 10, 0.5, 50, 0.1, 20, 0.25));
}

/* ---- copies that follow */
TEST(target_networks)
{
    MF_SCOPE;
    mf_value now = mf_dict("w", mf_array(MF_F32, MF_SHAPE(2), 1, 2)), old = mf_dict("w", mf_array(MF_F32, MF_SHAPE(2), 3, 6));
    CHECK_STR(mf_str(mf_get(mf_incremental_update(now, old, 0.25), "w")), "[2.5 5. ]");
    CHECK_STR(mf_str(mf_get(mf_incremental_update(now, old, mf_scalar(0.25, MF_F32)), "w")), "[2.5 5. ]");
    CHECK_STR(mf_str(mf_get(mf_periodic_update(now, old, 6, 3), "w")), "[1. 2.]");
    CHECK_STR(mf_str(mf_get(mf_periodic_update(now, old, 7, 3), "w")), "[3. 6.]");
}

TEST(wrong_options)
{
    MF_SCOPE;
    mf_value params = mf_array(MF_F32, MF_SHAPE(2), 1, 2);
    CHECK_CONTAINS(mf_error(mf_optim_init(mf_adafactor(.min_dim_size_to_factor = -1), params)), "adafactor: min_dim_size_to_factor");
    CHECK_CONTAINS(mf_error(mf_call(mf_linear_onecycle_schedule(0, 0.5), 1)), "onecycle_schedule: transition_steps is 0");
    mf_optimizer clip = mf_adaptive_grad_clip(0.1);
    mf_value wide = mf_ones(MF_SHAPE(1, 2, 1, 2, 1, 1), MF_F32), state = mf_optim_init(clip, wide);
    CHECK_CONTAINS(mf_error(mf_optim_update(clip, wide, &state, wide)), "adaptive_grad_clip: parameters have at most 5 dimensions, not 6");
}

/* Optax's numbers with jax_enable_x64: 5 steps along the sines of the parameters, from 1 and -2. */
TEST(parameters_in_f64_are_moved_in_f64)
{
    MF_SCOPE;
    const struct {
        mf_optimizer o;
        double x[2];
    } cases[] = {
        { mf_adam(0.05), { 0.75097615838741871, -1.7496412744094889 } },
        { mf_adam(0.05, .nesterov = true), { 0.71542008930024181, -1.7087326337011188 } },
        { mf_rmsprop(0.05, .bias_correction = true), { 0.75875734717286492, -1.7459875155791766 } },
    };
    for (int i = 0; i < 3; i++) {
        mf_value x = mf_array(MF_F64, MF_SHAPE(2), 1, -2), state = mf_optim_init(cases[i].o, x);
        for (int t = 0; t < 5; t++)
            x = mf_optim_update(cases[i].o, mf_sin(x), &state, x);
        for (int k = 0; k < 2; k++)
            CHECK_NEAR(mf_item_f64(mf_get(x, k)), cases[i].x[k], 1e-14);
    }
}
