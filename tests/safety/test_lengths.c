/* Lengths, sizes and entries that no array has are errors in every public function that takes a shape, a list or a count: never a crash,
 * a hang or a number. A function is one line of a table here; every line meets every bad length of its kind. */
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

/* What is outside the array on both sides gives a legal size: padding alone, or an error, but nothing that is read. */
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

/* ---- counts that are negative; what is counted lies with the caller, so a count too large is known only where there is a limit */
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

/* Sizes that memory does not have, or that do not fit 64 bits. */
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
