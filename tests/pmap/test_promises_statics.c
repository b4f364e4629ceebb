/* Promises about static arguments: compile-time constants on which C code can branch, folded, recompiled exactly if one changes. */
#include "peer.h"

static int traces;
static mf_value affine(mf_value a, mf_value x, mf_value b)
{
    traces++;
    return mf_add(mf_mul(x, a), b);
}
static mf_value either(mf_value x, mf_value how)
{
    traces++;
    return mf_item_i64(how) > 2 ? mf_neg(x) : mf_mul(x, mf_psum(1, "i"));
}
static mf_value scaled(void *factor, mf_value x, mf_value n)
{
    traces++;
    return mf_mul(mf_mul(x, n), *(double *)factor);
}
static mf_value folded(mf_value x, mf_value n) { return mf_add(x, mf_div(mf_mul(mf_add(n, 3), n), 4)); }

#define X F32(1, 2, 3)

/* Checks the result of a call, and that it was traced and compiled `count` times. */
#define EXPECT_COMPILED(count, call, ...)                                         \
    do {                                                                          \
        mf_cache_counters before_ = mf_cache_read();                              \
        traces = 0;                                                               \
        EXPECT(call, __VA_ARGS__);                                                \
        CHECK_EQ_INT(traces, count);                                              \
        CHECK_EQ_INT(mf_cache_read().compilations - before_.compilations, count); \
    } while (0)

TEST(several_recompile_when_one_changes)
{
    mf_function f = mf_pmap(affine, .static_broadcasted_argnums = MF_INTS(0, 2));
    mf_function again = mf_pmap(affine, .static_broadcasted_argnums = MF_INTS(0, 2));
    mf_value x = X;
    EXPECT_COMPILED(1, mf_call(f, 2, x, 1), 3, 5, 7);
    EXPECT_COMPILED(0, mf_call(f, 2, x, 1), 3, 5, 7);
    EXPECT_COMPILED(1, mf_call(f, 2, x, 2), 4, 6, 8);
    EXPECT_COMPILED(1, mf_call(f, 3, x, 2), 5, 8, 11);
    EXPECT_COMPILED(0, mf_call(f, 2, x, 1), 3, 5, 7);
    EXPECT_COMPILED(0, mf_call(again, 3, x, 2), 5, 8, 11);
    EXPECT_COMPILED(1, mf_call(f, 2, x, 1.0), 3, 5, 7); /* another type is another value */
    EXPECT(mf_call(mf_pmap(affine, .static_broadcasted_argnums = MF_INTS(-1, 0)), 2, x, 1), 3, 5, 7);
}

TEST(control_flow_of_c)
{
    mf_function f = mf_pmap(either, "i", .static_broadcasted_argnums = MF_INTS(1));
    mf_value x = X;
    EXPECT_COMPILED(1, mf_call(f, x, 3), -1, -2, -3);
    EXPECT_COMPILED(1, mf_call(f, x, 2), 3, 6, 9);
    EXPECT_COMPILED(0, mf_call(f, x, 3), -1, -2, -3);
}

TEST(of_closures)
{
    double two = 2, five = 5;
    mf_value x = X;
    mf_function by_two = mf_pmap(mf_closure(scaled, &two), .static_broadcasted_argnums = MF_INTS(1));
    EXPECT_COMPILED(1, mf_call(by_two, x, 3), 6, 12, 18);
    double other_two = 2; /* equal bytes elsewhere */
    mf_function by_other = mf_pmap(mf_closure(scaled, &other_two), .static_broadcasted_argnums = MF_INTS(1));
    mf_function by_five = mf_pmap(mf_closure(scaled, &five), .static_broadcasted_argnums = MF_INTS(1));
    EXPECT_COMPILED(0, mf_call(by_other, x, 3), 6, 12, 18);
    EXPECT_COMPILED(1, mf_call(by_five, x, 3), 15, 30, 45);
}

/* A computation of static arguments only becomes one number in the program. */
TEST(arithmetic_folds)
{
    mf_value x = X;
    mf_function f = mf_pmap(folded, .static_broadcasted_argnums = MF_INTS(1));
    const char *text = mf_as_text(mf_lower(f, x, 5), MF_TEXT_OPTIMIZED);
    CHECK_CONTAINS(text, "add a 1e+01:f32[]");
    CHECK(!strstr(text, " mul ") && !strstr(text, " div "));
    EXPECT(mf_call(f, x, 5), 11, 12, 13);
}

static mf_value sine_of(mf_value x, mf_value n) { return mf_mul(x, mf_sin(mf_mul(0.5, n))); }
static mf_value sum_of_table(mf_value x, mf_value n)
{
    static const float numbers[100] = { 1, 2.5, 3 };
    mf_value table = mf_mul(mf_from_host(MF_F32, MF_SHAPE(100), numbers), n);
    return mf_mul(x, mf_sum(mf_exp(table)));
}

TEST(functions_and_sums_fold)
{
    mf_value x = X;
    mf_function f = mf_pmap(sine_of, .static_broadcasted_argnums = MF_INTS(1));
    CHECK(!strstr(mf_as_text(mf_lower(f, x, 3), MF_TEXT_OPTIMIZED), " sin "));
    EXPECT(mf_call(f, x, 0), 0, 0, 0);
    mf_value by_hand = mf_mul(x, mf_sin(mf_mul(0.5, 3)));
    CHECK(mf_item_bool(mf_array_equal(mf_call(f, x, 3), by_hand)));
    f = mf_pmap(sum_of_table, .static_broadcasted_argnums = MF_INTS(1));
    const char *text = mf_as_text(mf_lower(f, x, 0), MF_TEXT_OPTIMIZED);
    CHECK(!strstr(text, " exp ") && !strstr(text, "reduce_sum"));
    EXPECT(mf_call(f, x, 0), 100, 200, 300);
}

static mf_value branches_by_table(mf_value x, mf_value n)
{
    mf_value table = mf_mul(mf_sin(mf_arange(100, MF_F32)), n), half = mf_mul(0.5, n);
    float two[2];
    if (mf_to_host(mf_add(mf_arange(2, MF_F32), half), MF_F32, two, 2) != MF_OK || two[1] != two[0] + 1)
        return mf_none();
    mf_value first = mf_call(mf_jit(affine, .static_argnums = MF_INTS(0)), half, x, 1); /* a static that was computed */
    return mf_item_f64(mf_sum(table)) > 0 && mf_item_i64(half) == 2 ? first : mf_neg(first);
}
static mf_value reads_x(mf_value x, mf_value n) { return mf_item_f64(mf_mul(mf_sum(x), n)) > 0 ? x : n; }
static mf_value reads_many(mf_value x, mf_value n) { return mf_item_f64(mf_sum(mf_mul(mf_arange(4097, MF_F32), n))) > 0 ? x : n; }

/* In the body of a loop or a branch, too, where it is captured. */
static mf_value add_if_greater(void *around, mf_value sum, mf_value x)
{
    mf_value doubled = mf_mul(*(mf_value *)around, 2);
    return mf_tuple(mf_item_f64(doubled) > 6 ? mf_add(sum, x) : mf_sub(sum, x), mf_none());
}
static mf_value signed_half(void *around, mf_value x) { return mf_item_f64(*(mf_value *)around) > 3 ? x : mf_neg(x); }
static mf_value loops_by_table(mf_value x, mf_value n)
{
    mf_value limit = mf_max(mf_mul(mf_arange(3, MF_F32), mf_mul(0.5, n)));
    mf_value sum = mf_get(mf_scan(mf_closure(add_if_greater, &limit), mf_f(0), mf_stack(mf_list(x, x), 0)), 0);
    return mf_add(sum, mf_cond(mf_greater(x, 100), mf_closure(signed_half, &n), mf_closure(signed_half, &limit), x));
}
static mf_value loops_by_argument(mf_value x, mf_value n)
{
    mf_value of_x = mf_mul(x, n);
    return mf_get(mf_scan(mf_closure(add_if_greater, &of_x), mf_f(0), mf_stack(mf_list(x, x), 0)), 0);
}

TEST(what_is_known_outside_can_be_read_in_a_body)
{
    mf_value x = X;
    mf_function f = mf_pmap(loops_by_table, .static_broadcasted_argnums = MF_INTS(1));
    EXPECT(mf_call(f, x, 4.0), 3, 6, 9);
    EXPECT(mf_call(f, x, 3.0), -3, -6, -9);
    CHECK_CONTAINS(mf_error(mf_call(mf_pmap(loops_by_argument, .static_broadcasted_argnums = MF_INTS(1)), x, 4.0)), "C cannot branch");
}

TEST(what_follows_from_statics_can_be_read)
{
    mf_value x = X;
    mf_function f = mf_pmap(branches_by_table, .static_broadcasted_argnums = MF_INTS(1));
    EXPECT(mf_call(f, x, 4.0), 3, 5, 7);
    EXPECT(mf_call(f, x, -4.0), 1, 3, 5);
    CHECK_CONTAINS(mf_error(mf_call(mf_pmap(reads_x, .static_broadcasted_argnums = MF_INTS(1)), x, 2.0)),
                   "C cannot branch on a traced value");
    CHECK_CONTAINS(mf_error(mf_call(mf_pmap(reads_many, .static_broadcasted_argnums = MF_INTS(1)), x, 2.0)), "C cannot branch");
}

TEST(arrays_without_dimensions_are_numbers)
{
    mf_function f = mf_pmap(folded, .static_broadcasted_argnums = MF_INTS(1));
    EXPECT(mf_call(f, X, mf_add(mf_scalar(4, MF_F32), 1)), 11, 12, 13);
    EXPECT_ERROR(mf_call(f, X, X), "non-hashable static argument 1 of pmap(folded): float32[3] has no equality");
}

TEST(mistakes)
{
    mf_function f = mf_pmap(affine, .static_broadcasted_argnums = MF_INTS(0, 2));
    EXPECT_ERROR(mf_call(f, 1, X),
                 "pmapped function has static_broadcasted_argnums=(0, 2) but was called with only 2 positional arguments. All static "
                 "broadcasted arguments must be passed positionally.");
    EXPECT_ERROR(mf_call(mf_pmap(folded, .static_broadcasted_argnums = MF_INTS(-3)), X, 2), "static_broadcasted_argnums=(-3,)");
    EXPECT_ERROR(mf_call(mf_jit(folded, .static_argnums = MF_INTS(1)), X),
                 "jitted function has static_argnums=(1,) but was called with only 1 positional argument.");
    EXPECT_ERROR(mf_call(f, mf_make_error(MF_ERROR_IO, "went wrong before"), X, 1), "went wrong before");
}
