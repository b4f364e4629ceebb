/* While memory is short, a result is an out-of-memory error, or exact: each allocation of the library fails once, alone and with all later
 * ones, in convolutions, products, maps and training steps, and in every function that takes a length. runtime/test_memory_out.c looks for
 * leaks. */
#include "failing_malloc.h"

#include "check.h"
#include "safety/lengths.h"

static void quiet(mf_status status, const char *message, void *context) { (void)status, (void)message, (void)context; }

/* ------------------------------------------------------------------ programs */

static mf_value convolved(mf_value x, mf_value w) { return mf_conv_general_dilated(x, w, .padding = MF_SAME); }
static mf_value convolved_sum(mf_value x, mf_value w) { return mf_sum(convolved(x, w)); }
static mf_value image(void) { return mf_ones(MF_SHAPE(2, 12, 12, 16), MF_F32); }
static mf_value filter(void) { return mf_ones(MF_SHAPE(3, 3, 16, 16), MF_F32); }

/* The value of all elements if they are equal, else NaN. */
static mf_value all_of(mf_value x)
{
    mf_value low = mf_min(x), high = mf_max(x);
    return mf_where(mf_equal(low, high), low, (double)NAN);
}

static mf_value convolution(void) { return all_of(mf_get(convolved(image(), filter()), mf_index_slice(mf_range(0, 2)), 3, 3)); }
static mf_value both_gradients(void)
{
    mf_value g = mf_call(mf_grad(convolved_sum, .argnums = MF_INTS(0, 1)), image(), filter());
    return mf_add(all_of(mf_get(mf_get(g, 0), 1, 5, 5)), all_of(mf_get(mf_get(g, 1), 1, 1)));
}
static mf_value product(void) { return all_of(mf_matmul(mf_ones(MF_SHAPE(160, 160), MF_F32), mf_ones(MF_SHAPE(160, 160), MF_F32))); }
static mf_value half_product(void) { return all_of(mf_matmul(mf_ones(MF_SHAPE(128, 128), MF_BF16), mf_ones(MF_SHAPE(128, 256), MF_BF16))); }

static mf_value loss(mf_value w, mf_value x) { return mf_mean(mf_square(mf_matmul(x, w))); }
static mf_value step(mf_value w, mf_value x) { return mf_sub(w, mf_mul(64, mf_pmean(mf_call(mf_grad(loss), w, x), "i"))); }
static mf_value training_step(void)
{
    mf_function f = mf_pmap(step, .axis_name = "i", .in_axes = mf_axes(MF_NONE, 0), .out_axes = MF_NONE);
    return all_of(mf_call(f, mf_ones(MF_SHAPE(64, 64), MF_F32), mf_ones(MF_SHAPE(4, 32, 64), MF_F32)));
}

static mf_value shares(mf_value x) { return mf_psum(mf_all_gather(mf_mul(x, mf_axis_index("i")), 0, "i"), "i"); }
static mf_value mapped(void) { return mf_sum(mf_call(mf_pmap(shares, "i"), mf_ones(MF_SHAPE(4, 128), MF_F32))); }
static mf_value ordered(mf_value x) { return mf_tuple(mf_get(mf_cumsum(x, 0), -1), mf_get(mf_sort_descending(x, 0), 0)); }
static mf_value sorted(void)
{
    mf_value both_of = mf_call(mf_jit(ordered), mf_arange(1000, MF_F32));
    return mf_add(mf_get(both_of, 0), mf_get(both_of, 1));
}

/* 1 if two draws use two different keys. */
static mf_value draws(void)
{
    mf_state rngs = mf_random_state(1);
    mf_value first = mf_random_next(rngs);
    return mf_any(mf_not_equal(first, mf_random_next(rngs)));
}
/* A running average after two updates, from 0 towards 2, by a half each time. */
static mf_value averages(void)
{
    mf_module norm = mf_nn_batch_norm(mf_random_state(1), 1, .momentum = 0.5);
    mf_value x = mf_full(MF_SHAPE(4, 1), 2.0), both = mf_add(mf_call(norm, x), mf_call(norm, x));
    return mf_add(mf_sum(both), mf_sum(mf_state_value(mf_member_state(norm, "mean"))));
}
static mf_value scale(mf_module self, mf_value x) { return mf_mul(mf_state_value(mf_member_state(self, "w")), x); }
/* A parameter after two SGD steps with gradient 1 and rate 1/4, and the number of steps. */
static mf_value descent(void)
{
    mf_module described = mf_module_new("Model", scale, "w", mf_param_state(1.0)), optimizer = mf_nn_optimizer(described, mf_sgd(0.25));
    for (int i = 0; i < 2; i++) {
        mf_status status = mf_nn_optimizer_update(optimizer, mf_dict("w", mf_f(1)));
        if (status)
            return mf_make_error(status, "no step");
    }
    mf_module model = mf_member_module(optimizer, "model");
    return mf_add(mf_state_value(mf_member_state(model, "w")), mf_state_value(mf_member_state(optimizer, "step")));
}

static const struct program {
    const char *name;
    mf_value (*run)(void);
    double expected;
} programs[] = {
    { "convolution", convolution, 144 },
    { "both gradients", both_gradients, 144 + 288 },
    { "product", product, 160 },
    { "product of bf16", half_product, 128 },
    { "training step", training_step, 1 - 64 * 2 },
    { "map", mapped, 4 * 4 * 6 * 128 },
    { "sort and sum", sorted, 499500 + 999 },
    { "draws", draws, 1 },
    { "averages", averages, 1.5 },
    { "descent", descent, 0.5 + 2 },
};

/* What stands for axes that there is no memory for is out of bounds of every rank; and a value that a policy's program could not take over
 * is missed by the next equation. */
static bool short_of_memory(mf_status status, const char *text)
{
    return status == MF_ERROR_MEMORY || (status == MF_ERROR_AXIS && strstr(text, "9223372036854775807")) ||
           strstr(text, "a transform went on without a value");
}

/* False if no allocation failed. */
static bool fail_once(const struct program *p, int64_t n, bool all)
{
    MF_SCOPE;
    mf_clear_caches();
    failing_start(n, all);
    mf_value v = p->run();
    mf_status status = mf_block_until_ready(v);
    bool failed = failing_stop();
    if (!CHECK(status ? failed && short_of_memory(status, mf_str(v)) : mf_item_f64(v) == p->expected))
        CHECK_NOTE("%s, allocation %d fails%s: %s", p->name, (int)n, all ? " and all that follow" : "", mf_str(v));
    (void)mf_error(v);
    return failed;
}

static void fail_each(bool all)
{
    int64_t failures = 0;
    mf_set_error_hook(quiet, NULL);
    (void)mf_set_num_cpu_devices(4);
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        int64_t n = 1;
        while (n < 100000 && fail_once(&programs[i], n, all) && check_failures < 10)
            n++;
        CHECK(n > 10);
        failures += n - 1;
    }
    printf("(%lld allocations failed) ", (long long)failures);
    mf_set_error_hook(NULL, NULL);
}

TEST(a_program_is_exact_or_an_error_when_one_allocation_fails) { fail_each(false); }
TEST(a_program_is_exact_or_an_error_when_all_fail_from_one_on) { fail_each(true); }

/* ------------------------------------------------------------------ functions */

enum { TEXT = 4096 };

typedef struct attempt {
    const char *call;
    int64_t n; /* the number of the allocation that fails; 0: none, -1: not counted yet */
    bool failed;
    mf_scope *scope;
    mf_status status; /* the status if none fails, */
    char text[TEXT];  /* and the result as text */
} attempt;

static bool begin(attempt *a)
{
    if ((a->n > 0 && !a->failed) || check_failures > 20)
        return false;
    a->scope = mf_scope_open();
    mf_clear_caches();
    if (++a->n)
        failing_start(a->n, false);
    return true;
}

static bool right(const attempt *a, mf_status status, const char *text)
{
    if (status)
        return (a->failed && short_of_memory(status, text)) || status == a->status;
    return !a->status && !strncmp(text, a->text, TEXT - 1);
}

static void end(attempt *a, mf_value v)
{
    mf_status status = mf_block_until_ready(v);
    a->failed = failing_stop() && a->n;
    const char *text = mf_str(v);
    if (!a->n) {
        a->status = status;
        strncpy(a->text, text, TEXT - 1);
    } else if (!CHECK(right(a, status, text))) {
        CHECK_NOTE("%s, allocation %d fails: %.300s instead of %.300s", a->call, (int)a->n, text, a->text);
    }
    (void)mf_error(v);
    mf_scope_close(a->scope);
}

#define X(made)                                                                      \
    for (attempt tried = { .call = #made, .n = -1, .failed = true }; begin(&tried);) \
        end(&tried, made);

TEST(a_function_of_a_shape_is_right_or_an_error)
{
    mf_set_error_hook(quiet, NULL);
    const mf_shape s = MF_SHAPE(4);
    SHAPES(X)
    mf_set_error_hook(NULL, NULL);
}

TEST(a_function_of_a_list_is_right_or_an_error)
{
    mf_set_error_hook(quiet, NULL);
    for (int64_t entry = 0; entry < 2; entry++) {
        const mf_ints l = MF_INTS(entry);
        LISTS(X)
    }
    mf_set_error_hook(NULL, NULL);
}

TEST(a_function_of_a_count_is_right_or_an_error)
{
    MF_SCOPE;
    mf_set_error_hook(quiet, NULL);
    const mf_value one[] = { vector(), vector() };
    const int n = 1;
    COUNTS(X)
    SIZES(X)
    mf_set_error_hook(NULL, NULL);
}

TEST(a_function_of_an_axis_is_right_or_an_error)
{
    MF_SCOPE;
    mf_set_error_hook(quiet, NULL);
    const mf_value one[] = { vector(), vector() };
    static const char *const names[] = { "name" };
    const int a = 0, n = 1;
    AXES(X)
    NUMBERS(X)
    mf_set_error_hook(NULL, NULL);
}
