/* Corner cases: several axes or none where one is expected, complex numbers where there is no order, more degrees of freedom than elements.
 * The numbers are those of jax 0.10.2 for the expression in the comment. */
#include <manyfold.h>

#include "check.h"

static mf_value grid(void) { return mf_reshape(mf_arange(6, MF_I32), MF_SHAPE(2, 3)); }
static mf_value cube(void) { return mf_mul(mf_sin(mf_reshape(mf_arange(24, MF_F32), MF_SHAPE(2, 3, 4))), 5); }
static mf_value complexes(void) { return mf_complex(mf_zeros(MF_SHAPE(3), MF_F32), mf_array(MF_F32, MF_SHAPE(3), 1, 0, 2)); }

static void check_values(mf_value x, const double *expected, int count)
{
    CHECK_EQ_INT(mf_size(x), count);
    for (int i = 0; i < count; i++)
        CHECK_NEAR(mf_item_f64(mf_get(mf_ravel(x), i)), expected[i], 1e-6);
}

TEST(median_and_quantile_of_several_axes)
{
    MF_SCOPE;
    check_values(mf_median(cube(), mf_axes(0, 2)), (double[]){ 2.6761372, -2.5972264, 1.008168 }, 3); /* jnp.median(x, axis=(0, 2)) */
    check_values(mf_median(cube(), mf_axes(2, 0)), (double[]){ 2.6761372, -2.5972264, 1.008168 }, 3);
    check_values(mf_median(cube(), mf_axes(-1)), (double[]){ 2.4564772, -2.590545, -0.32975662, 2.6761372, -2.5972264, 2.0695107 }, 6);
    mf_value both = mf_quantile(cube(), mf_array(MF_F32, MF_SHAPE(2), 0.25, 0.5), mf_axes(0, 1)); /* jnp.quantile(x, q, axis=(0, 1)) */
    CHECK_EQ_INT(mf_dim(both, 0), 2);
    check_values(both, (double[]){ -2.3720276, -3.080818, -2.3893485, -2.9969265, -0.7197583, 2.0807137, -0.720667, 0.72749305 }, 8);
    check_values(mf_quantile(cube(), 0.3, mf_axes(0, 1, 2)), (double[]){ -2.6865888 }, 1);
}

/* NumPy's axis=None */
TEST(none_is_every_axis_of_a_reduction)
{
    MF_SCOPE;
    CHECK_NEAR(mf_item_f64(mf_sum(grid(), MF_NONE)), 15, 0);
    CHECK_NEAR(mf_item_f64(mf_mean(grid(), MF_NONE)), 2.5, 0);
    CHECK_NEAR(mf_item_f64(mf_var(mf_astype(grid(), MF_F32), MF_NONE)), 35.0 / 12, 1e-6);
    CHECK_NEAR(mf_item_f64(mf_sum(mf_softmax(cube(), MF_NONE))), 1, 1e-6);
}

static mf_value two_from(mf_value start) { return mf_dynamic_slice_in_dim(mf_arange(5, MF_F32), start, 2, 0); }

/* A u64 of 2^63 or more is beyond the end, not in front of the beginning: alone, and under vmap, where starts become indices. */
TEST(the_greatest_start_is_at_the_end)
{
    MF_SCOPE;
    mf_value greatest = mf_from_host(MF_U64, MF_SHAPE(2), (uint64_t[]){ UINT64_MAX, 1 });
    CHECK_STR(mf_str(two_from(mf_get(greatest, 0))), "[3. 4.]");
    CHECK_STR(mf_str(mf_call(mf_vmap(two_from), greatest)), "[[3. 4.]\n [1. 2.]]");
}

TEST(a_range_of_more_than_there_can_be)
{
    CHECK_CONTAINS(mf_error(mf_arange_opt(INT64_MIN, 5, MF_I64)), "no range of 9223372036854775807 elements");
}

TEST(roll_along_several_axes)
{
    MF_SCOPE;
    CHECK_STR(mf_str(mf_roll(grid(), 1, mf_axes(0, 1))), "[[5 3 4]\n [2 0 1]]"); /* jnp.roll(x, 1, axis=(0, 1)) */
}

TEST(a_wrong_axis_is_told_in_the_functions_own_name)
{
    MF_SCOPE;
    mf_value x = cube();
    mf_axis two = mf_axes(0, 1);
    struct {
        mf_value value;
        const char *words;
    } rows[] = {
        { mf_sort(x, two), "sort: axis must be one number here" },
        { mf_argsort(x, two), "argsort: axis must be one number here" },
        { mf_sort_descending(x, MF_NONE), "sort_descending: axis must be one number here" },
        { mf_argmax(x, two), "argmax: axis must be one number here" },
        { mf_argmin(x, MF_NONE), "argmin: axis must be one number here" },
        { mf_cumsum(x, two), "cumsum: axis must be one number here" },
        { mf_cumlogsumexp(x, two), "cumlogsumexp: axis must be one number here" },
        { mf_take(x, 0, two), "take: axis must be one number here" },
        { mf_repeat(x, 2, two), "repeat: axis must be one number here" },
        { mf_repeat(x, 2, 3), "repeat: axis 3 is out of bounds for an array of rank 3" },
        { mf_roll(x, 2, -4), "roll: axis -4 is out of bounds for an array of rank 3" },
        { mf_roll(x, 2, mf_axes(0, 3)), "roll: an axis is out of bounds for an array of rank 3, or named twice, or no number" },
        { mf_mean(x, 3), "mean: axis 3 is out of bounds for an array of rank 3" },
        { mf_var(x, -4, .ddof = 1), "var: axis -4 is out of bounds for an array of rank 3" },
        { mf_std(x, mf_axes(0, 0)), "std: an axis is out of bounds for an array of rank 3, or named twice, or no number" },
        { mf_softmax(x, 3), "softmax: axis 3 is out of bounds for an array of rank 3" },
        { mf_log_softmax(x, 3), "log_softmax: axis 3 is out of bounds for an array of rank 3" },
        { mf_logsumexp(x, mf_axes(1, 4)), "logsumexp: an axis is out of bounds for an array of rank 3, or named twice, or no number" },
        { mf_median(x, 7), "median: axis 7 is out of bounds for an array of rank 3" },
        { mf_median(x, MF_NONE), "median: an axis is out of bounds for an array of rank 3, or named twice, or no number" },
        { mf_quantile(x, 0.5, mf_axes(1, -2)), "quantile: an axis is out of bounds for an array of rank 3, or named twice, or no number" },
        { mf_diff(x, 1, 3), "diff: axis 3 is out of bounds for an array of rank 3" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_CONTAINS(mf_error(rows[i].value), rows[i].words);
        CHECK_EQ_INT(mf_error_status(rows[i].value), MF_ERROR_AXIS);
    }
}

TEST(axes_are_read_from_the_front)
{
    mf_ints all = mf_axes_of(MF_ALL, 3), named = mf_axes_of(mf_axes(-1, 0), 3);
    CHECK_EQ_INT(all.count, 3);
    CHECK_EQ_INT(named.count, 2);
    CHECK_EQ_INT(named.at[0], 2);
    CHECK_EQ_INT(mf_axes_of(-2, 3).at[0], 1);
    mf_axis bad[] = { 3, -4, MF_NONE, mf_axes(0, 0), mf_axes(0, -3), mf_axes(0, mf_axes(1)), mf_axes(0, 1, 2, 2), mf_axes(0, MF_NONE) };
    for (int i = 0; i < 8; i++)
        CHECK_EQ_INT(mf_axes_of(bad[i], 3).count, -1);
}

/* jnp.clip, jnp.median and jnp.quantile raise ValueError. */
TEST(complex_numbers_have_no_order)
{
    MF_SCOPE;
    mf_value z = complexes(), x = mf_ones(MF_SHAPE(3), MF_F32);
    mf_value refused[] = {
        mf_median(z),   mf_quantile(z, 0.5), mf_clip(z, 0.5, 1.0), mf_clip(x, mf_c(0, 1), 1.0), mf_clip(z, 0.5, mf_none()),
        mf_top_k(z, 1), mf_argmax(z),        mf_floor(z)
    };
    for (int i = 0; i < 8; i++)
        CHECK_EQ_INT(mf_error_status(refused[i]), MF_ERROR_DTYPE);
    CHECK_CONTAINS(mf_error(refused[0]), "median: complex numbers have no order");
    CHECK_CONTAINS(mf_error(refused[2]), "clip: complex numbers have no order");
}

/* ---- complex logarithms of sums. Rows: a, b, jnp.logaddexp(a, b), and its derivative by a (holomorphic) */
static mf_value at(const double *part) { return mf_astype(mf_c(part[0], part[1]), MF_C64); }

static void check_complex(mf_value z, const double *expected)
{
    CHECK_NEAR(mf_item_f64(mf_real(z)), expected[0], 4e-6);
    CHECK_NEAR(mf_item_f64(mf_imag(z)), expected[1], 4e-6);
}

static mf_value real_part(mf_value a, mf_value b) { return mf_real(mf_logaddexp(a, b)); }

TEST(logaddexp_of_complex_numbers)
{
    static const double rows[][8] = {
        { 0, 0, 0, 1, 0.56256294, 0.5, 0.5, -0.27315125 },
        { 0, 1, 0, 2, 0.56256294, 1.5, 0.5, -0.27315125 },
        { 1, 2, 1, -2, 0.8164301, 3.1415923, 0.5000004, -1.0925198 },
        { 100, 3, -100, 1, 100, 3, 1, 0 },
        { 3, 3, 3, 3, 3.6931472, 3, 0.5, 0 },
        { 0, 0.5, -2, 1, 0.11390687, 0.55793023, 0.89084417, -0.051664617 },
        { -20, 1, 3, 0, 3, 0, 5.544517e-11, 8.635074e-11 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        MF_SCOPE;
        mf_value a = at(rows[i]), b = at(rows[i] + 2), slope = mf_call(mf_grad(real_part), a, b);
        mf_value sum = mf_logaddexp(a, b);
        CHECK_NEAR(mf_item_f64(mf_real(sum)), rows[i][4], 4e-6);
        CHECK_NEAR(fabs(mf_item_f64(mf_imag(sum))), fabs(rows[i][5]), 4e-6); /* pi and -pi are the same angle */
        check_complex(mf_conj(slope), (const double[]){ rows[i][6], -rows[i][7] });
    }
}

/* jax.nn.softplus, jax.nn.log_sigmoid, lax.cumlogsumexp of complex numbers */
TEST(softplus_of_complex_numbers)
{
    MF_SCOPE;
    mf_value z = complexes();
    check_complex(mf_softplus(mf_c(0, 1)), (const double[]){ 0.56256294, 0.5 });
    check_complex(mf_softplus(mf_c(1, -2)), (const double[]){ 0.9063238, -1.6238286 });
    check_complex(mf_log_sigmoid(mf_c(0, 1)), (const double[]){ -0.56256294, 0.5 });
    check_complex(mf_get(mf_cumlogsumexp(z, 0), 2), (const double[]){ 0.73265857, 1 });
}

/* jnp.var(x, ddof=n) */
TEST(no_degrees_of_freedom_are_nan)
{
    MF_SCOPE;
    mf_value x = mf_arange(3, MF_F32), y = mf_array(MF_F32, MF_SHAPE(3), 1, 2, 4);
    CHECK_NEAR(mf_item_f64(mf_var(x, .ddof = 2)), 2, 1e-6);
    CHECK_NEAR(mf_item_f64(mf_std(x, .ddof = 2)), 1.4142135, 1e-6);
    for (int ddof = 3; ddof < 5; ddof++) {
        CHECK(isnan(mf_item_f64(mf_var(x, .ddof = ddof))));
        CHECK(isnan(mf_item_f64(mf_std(x, .ddof = ddof))));
    }
    CHECK(isnan(mf_item_f64(mf_var(y, .ddof = 1, .where = mf_array(MF_BOOL, MF_SHAPE(3), 1, 0, 0)))));
    CHECK_NEAR(mf_item_f64(mf_var(y, .ddof = 1, .where = mf_array(MF_BOOL, MF_SHAPE(3), 1, 0, 1))), 4.5, 1e-6);
}

TEST(the_square_of_a_truth_is_an_integer)
{
    MF_SCOPE;
    mf_value squares = mf_square(mf_array(MF_BOOL, MF_SHAPE(2), 1, 0)); /* jnp.square(jnp.array([True, False])) */
    CHECK_EQ_INT(mf_dtype_of(squares), MF_I32);
    CHECK_STR(mf_str(squares), "[1 0]");
}

/* Rows so long that oneDNN would plan its code for arbitrary weight layouts for seconds (backend/native/kernels/dnnl/dnnl_conv.c). */
TEST(a_convolution_of_a_long_row)
{
    MF_SCOPE;
    enum { LENGTH = 50001 };
    mf_value x = mf_remainder(mf_arange(LENGTH, MF_F32), 7), k = mf_array(MF_F32, MF_SHAPE(3, 1, 1), 1, -2, 4);
    mf_value y = mf_conv_general_dilated(mf_reshape(x, MF_SHAPE(1, LENGTH, 1)), k, .padding = MF_SAME);
    mf_value padded = mf_pad(x, 0, MF_INTS(1), MF_INTS(1), MF_INTS(0)), expected = mf_zeros_like(x);
    for (int i = 0; i < 3; i++)
        expected = mf_add(expected, mf_mul(mf_slice_in_dim(padded, i, i + LENGTH, 1, 0), mf_get(mf_ravel(k), i)));
    CHECK(mf_item_bool(mf_array_equal(mf_ravel(y), expected)));
}
