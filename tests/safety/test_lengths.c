/* Invalid lengths, sizes and entries are errors in every public function that takes a shape, a list or a count: never a crash, a hang or a
 * number. Each function is one line of a table; each line is tested with every invalid length of its kind. */
#include "check.h"
#include "safety/lengths.h"

#include <limits.h>
#include <string.h>

#define FAR ((int64_t)1 << 62)

static void quiet(mf_status status, const char *message, void *context)
{
    (void)status;
    (void)message;
    (void)context;
}

static void check_error(const char *name, mf_value v, const char *what, long long length)
{
    (void)mf_block_until_ready(v);
    if (!CHECK(mf_is_error(v)))
        CHECK_NOTE("%s of %s %lld", name, what, length);
    (void)mf_error(v);
}

/* ---- shapes */
static const mf_shape bad_shapes[] = {
    { .rank = 9 },
    { .rank = 33 },
    { .rank = 100000 },
    { .rank = INT_MAX },
    { .rank = -1 },
    { .rank = INT_MIN },
    { 1, { -5 } },
    { 1, { INT64_MIN } },
    { 2, { -1, -1 } },
    { 2, { -4, -1 } },
    { 2, { 0, -5 } },
    { 1, { FAR } },
    { 1, { INT64_MAX } },
    { 2, { FAR, 4 } },
    { 2, { (int64_t)1 << 32, (int64_t)1 << 32 } },
    { 3, { 1 << 21, 1 << 21, 1 << 22 } },
    { 3, { (int64_t)1 << 32, (int64_t)1 << 31, 2 } },
    { 8, { 256, 256, 256, 256, 256, 256, 256, 256 } },
};

TEST(shapes)
{
    mf_set_error_hook(quiet, NULL);
    for (size_t k = 0; k < sizeof bad_shapes / sizeof *bad_shapes; k++) {
        MF_SCOPE;
        const mf_shape s = bad_shapes[k];
#define X(call) check_error(#call, call, "shape number", (long long)k);
        SHAPES(X)
        COMPOSED_DRAWS(X)
#undef X
        CHECK(mf_str_shape(s) != NULL);
    }
    mf_set_error_hook(NULL, NULL);
}

/* ---- lists */
static const mf_ints bad_lists[] = {
    { .count = 9 },
    { .count = 33 },
    { .count = 100000 },
    { .count = INT_MAX },
    { .count = -1 },
    { .count = INT_MIN },
    { .count = 1, .at = { FAR } },
    { .count = 1, .at = { INT64_MAX } },
    { .count = 1, .at = { INT64_MIN } },
};

TEST(lists)
{
    mf_set_error_hook(quiet, NULL);
    for (size_t k = 0; k < sizeof bad_lists / sizeof *bad_lists; k++) {
        MF_SCOPE;
        const mf_ints l = bad_lists[k];
#define X(call) check_error(#call, call, "list number", (long long)k);
        LISTS(X)
#undef X
    }
    mf_set_error_hook(NULL, NULL);
}

/* Padding that removes more than the array has on both sides can still give a valid size: then the result is only padding, or an error, and
 * nothing outside is read. */
TEST(padding_far_outside)
{
    static const int64_t far[] = { INT64_MAX, FAR, FAR / 2 - 1, (int64_t)1 << 40, 100 };
    mf_set_error_hook(quiet, NULL);
    for (size_t k = 0; k < sizeof far / sizeof *far; k++)
        for (int turned = 0; turned < 2; turned++) {
            MF_SCOPE;
            mf_ints out = MF_INTS(far[k] - 1), in = MF_INTS(-far[k]);
            mf_value v = mf_pad(vector(), 7.0f, turned ? out : in, turned ? in : out, MF_INTS(0));
            (void)mf_block_until_ready(v);
            float all[3] = { 0 };
            if (mf_to_host(v, MF_F32, all, 3) == MF_OK)
                for (int i = 0; i < 3; i++)
                    CHECK_NEAR(all[i], 7, 0);
            else if (!CHECK(mf_is_error(v) && far[k] >= FAR))
                CHECK_NOTE("padding by %lld: %s", (long long)far[k], mf_error(v));
        }
    mf_set_error_hook(NULL, NULL);
}

/* ---- negative counts; the elements are in the caller's memory, so a count that is too large is detected only if there is a limit */
TEST(counts)
{
    static const int bad[] = { -1, -5, INT_MIN / 2 };
    mf_set_error_hook(quiet, NULL);
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        MF_SCOPE;
        const int n = bad[k];
        const mf_value one[] = { vector() };
#define X(call) check_error(#call, call, "count", n);
        COUNTS(X)
#undef X
    }
    mf_set_error_hook(NULL, NULL);
}

/* Sizes larger than memory, or than 64 bits. */
TEST(sizes)
{
    static const int64_t bad[] = { (int64_t)1 << 56, FAR, INT64_MAX };
    mf_set_error_hook(quiet, NULL);
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        MF_SCOPE;
        const int64_t n = bad[k];
#define X(call) check_error(#call, call, "size", n);
        SIZES(X)
#undef X
    }
    mf_set_error_hook(NULL, NULL);
}

TEST(axes)
{
    static const int bad[] = { 9, -9, 100000, INT_MAX, INT_MIN };
    mf_set_error_hook(quiet, NULL);
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        MF_SCOPE;
        const int a = bad[k];
#define X(call) check_error(#call, call, "axis", a);
        AXES(X)
#undef X
    }
    mf_set_error_hook(NULL, NULL);
}

/* Checks for a readable result, or an error, within a short time. */
static void check_ends(const char *name, mf_value v, int number)
{
    if (!CHECK(mf_is_error(v) || mf_block_until_ready(v) == MF_OK))
        CHECK_NOTE("%s of %d", name, number);
    (void)mf_error(v);
}

TEST(numbers_of_any_size)
{
    static const int any[] = { 0, 9, -9, 1 << 20, INT_MAX, INT_MIN + 1, INT_MIN };
    static const char *const names[] = { "name" };
    mf_set_error_hook(quiet, NULL);
    for (size_t k = 0; k < sizeof any / sizeof *any; k++) {
        MF_SCOPE;
        const int n = any[k];
        const mf_value one[] = { vector() };
#define X(call) check_ends(#call, call, n);
        NUMBERS(X)
#undef X
    }
    mf_set_error_hook(NULL, NULL);
}

/* ---- valid, large parameters are quick if there is little to compute */
static bool sums_to(mf_value v, double first)
{
    float got = 0;
    mf_value one = mf_slice_in_dim(v, 0, 1, 1, 0);
    return mf_to_host(one, MF_F32, &got, 1) == MF_OK && (double)got == first;
}

TEST(windows_far_beyond_the_array)
{
    MF_SCOPE;
    const int64_t far = (int64_t)1 << 31;
    mf_value x = mf_ones(MF_SHAPE(8), MF_F32);
    CHECK(sums_to(mf_reduce_window_sum(x, .window = MF_INTS(far), .padding_low = MF_INTS(far - 1)), 1));
    CHECK(sums_to(mf_reduce_window_sum(x, .window = MF_INTS(far), .padding = MF_SAME, .strides = MF_INTS(far - 1)), 8));
    CHECK(sums_to(mf_reduce_window_max(x, .window = MF_INTS(far), .padding_high = MF_INTS(far)), 1));
    CHECK(sums_to(mf_reduce_window_sum(mf_astype(x, MF_I32), .window = MF_INTS(far), .padding_low = MF_INTS(far - 3)), 3));
}

static mf_value far_pools(mf_value x)
{
    const int64_t far = (int64_t)1 << 31;
    mf_value line = mf_reshape(x, MF_SHAPE(1, 8, 1));
    return mf_sum(mf_max_pool(line, .window_shape = MF_INTS(far), .strides = MF_INTS(far), .padding = MF_SAME));
}

static mf_value far_and_spread(mf_value x)
{
    const int64_t far = (int64_t)1 << 28;
    return mf_sum(mf_reduce_window_min(x, .window = MF_INTS(7 * far + 1), .strides = MF_INTS(far), .base_dilation = MF_INTS(far)));
}

TEST(gradients_of_windows_far_beyond_the_array)
{
    MF_SCOPE;
    mf_value x = mf_arange(8, MF_F32), g = mf_call(mf_grad(far_pools), x);
    CHECK_NEAR(mf_item_f64(mf_get(g, 7)), 1, 0);
    CHECK_NEAR(mf_item_f64(mf_sum(g)), 1, 0);
    g = mf_call(mf_grad(far_and_spread), x);
    CHECK_NEAR(mf_item_f64(mf_get(g, 0)), 1, 0);
    CHECK_NEAR(mf_item_f64(mf_sum(g)), 1, 0);
}

static mf_value spread_by(void *far, mf_value x)
{
    mf_value line = mf_reshape(x, MF_SHAPE(1, 8, 1)), three = mf_ones(MF_SHAPE(3, 1, 1), MF_F32);
    return mf_sum(
        mf_square(mf_conv_general_dilated(line, three, .dimension_numbers = "NWC,WIO->NWC", .lhs_dilation = MF_INTS(*(int64_t *)far),
                                          .padding_low = MF_INTS(*(int64_t *)far), .padding_high = MF_INTS(*(int64_t *)far))));
}

/* For these oneDNN would generate code position by position. */
TEST(convolutions_with_far_padding_and_strides)
{
    for (int64_t far = 3; far < 1000000; far *= 50) {
        MF_SCOPE;
        mf_value x = mf_arange(8, MF_F32), f = mf_call(mf_value_and_grad(mf_closure(spread_by, &far)), x);
        CHECK_NEAR(mf_item_f64(mf_get(f, 0)), 3 * 140, 0); /* each element contributes to three distinct positions */
        CHECK_NEAR(mf_item_f64(mf_sum(mf_get(f, 1))), 3 * 2 * 28, 0);
    }
}

/* oneDNN counts in int and crashed on these: more memory than there is. */
TEST(products_over_more_than_an_int_counts)
{
    MF_SCOPE;
    const int64_t far = (int64_t)1 << 50;
    mf_set_error_hook(quiet, NULL);
    check_error("matmul", mf_matmul(mf_zeros(MF_SHAPE(2, far), MF_F32), mf_zeros(MF_SHAPE(far, 2), MF_F32)), "inner size", far);
    check_error("dot", mf_dot(mf_zeros(MF_SHAPE(far), MF_F32), mf_zeros(MF_SHAPE(far), MF_F32)), "size", far);
    check_error("conv", mf_conv_general_dilated(mf_zeros(MF_SHAPE(1, far, 1, 1), MF_F32), mf_ones(MF_SHAPE(1, 1, 1, 1), MF_F32)), "size",
                far);
    mf_set_error_hook(NULL, NULL);
}

TEST(diagonals_far_outside)
{
    MF_SCOPE;
    mf_value x = mf_ones(MF_SHAPE(4, 3), MF_F32);
    CHECK_NEAR(mf_item_f64(mf_sum(mf_tril(x, INT_MAX))), 12, 0);
    CHECK_NEAR(mf_item_f64(mf_sum(mf_tril(x, INT_MIN))), 0, 0);
    CHECK_NEAR(mf_item_f64(mf_sum(mf_triu(x, INT_MAX))), 0, 0);
    CHECK_NEAR(mf_item_f64(mf_sum(mf_triu(x, INT_MIN))), 12, 0);
}
