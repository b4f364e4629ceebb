/* Functions of NumPy's that are sums of chosen, weighted or multiplied elements, and comparisons, against jax 0.10.2: the expression stands
 * beside each, with jnp's arrays left out. */
#include <manyfold.h>

#include "check.h"

#define F32(...) mf_array(MF_F32, MF_SHAPE(sizeof((double[]){ __VA_ARGS__ }) / sizeof(double)), __VA_ARGS__)
#define I32(...) mf_array(MF_I32, MF_SHAPE(sizeof((double[]){ __VA_ARGS__ }) / sizeof(double)), __VA_ARGS__)
static const double nan_ = (double)NAN, inf = (double)INFINITY;

static mf_value mean_of_numbers(mf_value x) { return mf_nanmean(x); }
static mf_value all_queries(mf_value xp, mf_value fp) { return mf_sum(mf_interp(F32(0, 1, 1.5, 2, 3, 4, 9), xp, fp)); }
static mf_value segments(mf_value x) { return mf_sum(mf_mul(mf_segment_sum(x, I32(0, 2, -1, 5), 3), F32(1, 2, 3))); }
static mf_value first_row(mf_value a, mf_value b) { return mf_get(mf_cross(a, b), 0); }

TEST(values_are_jax_s)
{
    MF_SCOPE;
    mf_value grid = mf_reshape(mf_arange(6, MF_F32), MF_SHAPE(2, 3)), whole = mf_astype(grid, MF_I32);
    mf_value holes = mf_reshape(F32(1, nan_, 2, nan_, nan_, nan_), MF_SHAPE(2, 3)), matrix = mf_reshape(I32(1, 2, 3, 4), MF_SHAPE(2, 2));
    struct {
        mf_value value;
        const char *jax, *expected;
    } rows[] = {
        { mf_average(grid, F32(1, 2, 3), 1), "average(grid, axis=1, weights=[1, 2, 3])", "[1.3333334 4.3333335]" },
        { mf_average(whole, whole), "average(whole, weights=whole)", "3.6666667" },
        { mf_nansum(F32(1, nan_, 2)), "nansum([1, nan, 2])", "3.0" },
        { mf_nanmean(holes, 1), "nanmean(holes, axis=1)", "[1.5 nan]" },
        { mf_segment_sum(F32(1, 2, 3, 4), I32(0, 2, -1, 5), 3), "segment_sum([1, 2, 3, 4], [0, 2, -1, 5], 3)", "[1. 0. 2.]" },
        { mf_interp(F32(0, 1, 1.5, 2, 3, 4, 9, nan_), F32(1, 2, 4), F32(10, 20, 0)), "interp([0, 1, 1.5, 2, 3, 4, 9, nan], ...)",
          "[10. 10. 15. 20. 10.  0.  0. nan]" },
        { mf_kron(matrix, I32(1, 10)), "kron([[1, 2], [3, 4]], [1, 10])", "[[ 1 10  2 20]\n [ 3 30  4 40]]" },
        { mf_cross(F32(1, 2, 3), mf_reshape(F32(4, 5, 7, 0, 1, 0), MF_SHAPE(2, 3))), "cross([1, 2, 3], [[4, 5, 7], [0, 1, 0]])",
          "[[-1.  5. -3.]\n [-3.  0.  1.]]" },
        { mf_isclose(F32(1, inf, nan_, 1e6), F32(1.00001, inf, nan_, 1e6 + 11)), "isclose(...)", "[False  True False False]" },
        { mf_trunc(F32(-1.5, 1.5, -0.25, 3)), "trunc([-1.5, 1.5, -0.25, 3])", "[-1.  1. -0.  3.]" },
        { mf_trunc(I32(1, -2)), "trunc([1, -2])", "[ 1 -2]" },
        { mf_fmod(F32(-5, 5, 5.5), F32(3, -3, 2)), "fmod([-5, 5, 5.5], [3, -3, 2])", "[-2.   2.   1.5]" },
        { mf_fmod(I32(5, -5), I32(3, 3)), "fmod([5, -5], [3, 3])", "[ 2 -2]" },
        { mf_hypot(F32(3, 0, inf, 0), F32(4, 0, nan_, -2)), "hypot([3, 0, inf, 0], [4, 0, nan, -2])", "[ 5.  0. inf  2.]" },
        { mf_log2(F32(8, 0, -1)), "log2([8, 0, -1])", "[  3. -inf  nan]" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!CHECK_STR(mf_str(rows[i].value), rows[i].expected))
            CHECK_NOTE("%s", rows[i].jax);
    CHECK_EQ_INT(mf_dtype_of(mf_hypot(mf_i(3), mf_i(4))), MF_F32);
    CHECK_NEAR(mf_item_f64(mf_imag(mf_log2(mf_c(0, 1)))), 2.26618, 1e-6);
}

TEST(gradients_are_jax_s)
{
    MF_SCOPE;
    mf_value xp = F32(1, 2, 4), fp = F32(10, 20, 0), slopes = mf_call(mf_grad(all_queries, .argnums = MF_INTS(0, 1)), xp, fp);
    CHECK_STR(mf_str(mf_get(slopes, 0)), "[-15.  10.  15.]"); /* grad(lambda xp: interp(q, xp, fp).sum())(xp), and by fp */
    CHECK_STR(mf_str(mf_get(slopes, 1)), "[2.5 2.  2.5]");
    CHECK_STR(mf_str(mf_call(mf_grad(mean_of_numbers), F32(1, nan_, 2))), "[0.5 0.  0.5]"); /* grad(nanmean)([1, nan, 2]) */
    CHECK_STR(mf_str(mf_call(mf_grad(segments), F32(1, 2, 3, 4))), "[1. 3. 0. 0.]");
    CHECK_STR(mf_str(mf_call(mf_grad(first_row), F32(1, 2, 3), F32(4, 5, 7))), "[ 0.  7. -5.]");
}

TEST(what_does_not_fit_is_an_error)
{
    MF_SCOPE;
    mf_value x = F32(1, 2), z = mf_c(0, 1), wide = mf_ones(MF_SHAPE(1, 1, 1, 1, 1), MF_F32);
    CHECK_CONTAINS(mf_error(mf_interp(x, x, F32(1, 2, 3))), "interp: xp and fp must be vectors of one size");
    CHECK_CONTAINS(mf_error(mf_cross(x, x)), "cross: the last dimensions must have size 3");
    CHECK_CONTAINS(mf_error(mf_kron(wide, wide)), "kron: arrays have at most 4 dimensions");
    CHECK_CONTAINS(mf_error(mf_segment_sum(x, I32(0, 1), -1)), "the number of segments must not be negative");
    CHECK_CONTAINS(mf_error(mf_average(mf_ones(MF_SHAPE(2, 2), MF_F32), x)), "average: one axis is needed");
    CHECK_EQ_INT(mf_error_status(mf_asinh(z)), MF_ERROR_DTYPE);
    CHECK_EQ_INT(mf_error_status(mf_hypot(z, z)), MF_ERROR_DTYPE);
    CHECK_EQ_INT(mf_error_status(mf_trunc(z)), MF_ERROR_DTYPE);
}
