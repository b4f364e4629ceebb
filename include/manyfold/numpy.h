/* manyfold/numpy.h - operations on arrays under NumPy's names: arithmetic and comparisons, shape,
 * products, reductions, order.
 *
 * Shapes open a comment: (m, k), (k, n) -> (m, n) takes two values of these shapes and gives one.
 * "..." is any number of dimensions, which broadcast against one another where several operands
 * have them; () is a scalar, or a C number; x is any array, and a result of its shape.
 * Dtypes promote as in JAX with x64 off: weak numbers give way, i32 with u32 is i32, and only an
 * operand of 64 bits gives a result of 64. Outside a transform an operation runs at once; inside
 * it becomes an equation of the program being traced. Gradients are JAX's.
 * Results belong to the innermost scope; any thread. Errors: MF_ERROR_SHAPE where shapes do not
 * broadcast or fit, MF_ERROR_DTYPE where an operation is not defined for a dtype, MF_ERROR_AXIS
 * for an axis beyond the rank; a negative axis counts from the end. */
#ifndef MANYFOLD_NUMPY_H
#define MANYFOLD_NUMPY_H
#ifndef MF_CHECK_HEADERS_
#pragma GCC system_header
#endif

#include <manyfold/function.h>

MF_BEGIN_

#define MF_INTS0 ((mf_ints){ .count = 0 })

/* ---- arithmetic. (...), (...) -> (...): of two operands, element by element */
mf_value mf_add(mf_value a, mf_value b);
mf_value mf_sub(mf_value a, mf_value b);
mf_value mf_mul(mf_value a, mf_value b);
mf_value mf_div(mf_value a, mf_value b);          /* true division: integers become floats */
mf_value mf_floor_divide(mf_value a, mf_value b); /* towards minus infinity, as NumPy's // */
mf_value mf_remainder(mf_value a, mf_value b);    /* NumPy's %: the divisor's sign; x % 0 is 0 */
/* An integer constant as exponent is integer_pow; a negative one on integers gives floats. */
mf_value mf_pow(mf_value a, mf_value b);
mf_value mf_atan2(mf_value a, mf_value b);     /* the angle of (b, a); floats */
mf_value mf_nextafter(mf_value a, mf_value b); /* the next float of a towards b */
mf_value mf_maximum(mf_value a, mf_value b);   /* NaN wins; 0 is greater than -0 */
mf_value mf_minimum(mf_value a, mf_value b);
mf_value mf_logaddexp(mf_value a, mf_value b); /* log(e^a + e^b) without overflow */
mf_value mf_hypot(mf_value a, mf_value b);     /* sqrt(a^2 + b^2) without overflow; floats */
mf_value mf_fmod(mf_value a, mf_value b);      /* C's remainder: the dividend's sign */
mf_value mf_fmax(mf_value a, mf_value b);      /* the other one where one is NaN */
mf_value mf_fmin(mf_value a, mf_value b);
mf_value mf_copysign(mf_value a, mf_value b);        /* the magnitude of a, the sign of b; floats */
mf_value mf_heaviside(mf_value x, mf_value at_zero); /* 0, at_zero or 1 by x's sign; floats */
mf_value mf_logaddexp2(mf_value a, mf_value b);      /* log2(2^a + 2^b) without overflow */
/* (...), (...) -> tuple of (...), (...): floor_divide and remainder */
mf_value mf_divmod(mf_value a, mf_value b);
/* (...), (...) -> (...): integers, never negative: the greatest common divisor, the least common
 * multiple; of two zeros 0 */
mf_value mf_gcd(mf_value a, mf_value b);
mf_value mf_lcm(mf_value a, mf_value b);

/* ---- comparisons and logic. (...), (...) -> (...): bool, of two operands; NaN equals nothing */
mf_value mf_equal(mf_value a, mf_value b);
mf_value mf_not_equal(mf_value a, mf_value b);
mf_value mf_less(mf_value a, mf_value b);
mf_value mf_less_equal(mf_value a, mf_value b);
mf_value mf_greater(mf_value a, mf_value b);
mf_value mf_greater_equal(mf_value a, mf_value b);
mf_value mf_logical_and(mf_value a, mf_value b);
mf_value mf_logical_or(mf_value a, mf_value b);
mf_value mf_logical_xor(mf_value a, mf_value b);
/* (...) -> (...): bool */
mf_value mf_logical_not(mf_value x);

/* ---- bits. (...), (...) -> (...): of integers, and the first three of bools */
mf_value mf_bitwise_and(mf_value a, mf_value b);
mf_value mf_bitwise_or(mf_value a, mf_value b);
mf_value mf_bitwise_xor(mf_value a, mf_value b);
mf_value mf_left_shift(mf_value a, mf_value b);  /* a shift by the width or more gives 0 */
mf_value mf_right_shift(mf_value a, mf_value b); /* arithmetic for signed, else logical */
/* (...) -> (...) */
mf_value mf_bitwise_not(mf_value x);

/* ---- functions of one operand. x -> x, element by element */
mf_value mf_neg(mf_value x);
mf_value mf_abs(mf_value x); /* of complex numbers the magnitude, real */
mf_value mf_square(mf_value x);
mf_value mf_sign(mf_value x); /* -1, 0, 1 or NaN, in x's dtype; real */
/* x -> x: to integers, in x's dtype, real; round: half to even */
mf_value mf_floor(mf_value x);
mf_value mf_ceil(mf_value x);
mf_value mf_round(mf_value x);
mf_value mf_trunc(mf_value x); /* towards zero */
/* x -> x: floats and complex numbers; integers become f32 */
mf_value mf_reciprocal(mf_value x);
mf_value mf_sqrt(mf_value x);
mf_value mf_exp(mf_value x);
mf_value mf_log(mf_value x);
mf_value mf_log2(mf_value x);
mf_value mf_log10(mf_value x);
mf_value mf_sin(mf_value x);
mf_value mf_cos(mf_value x);
mf_value mf_tan(mf_value x);
mf_value mf_sinh(mf_value x);
mf_value mf_cosh(mf_value x);
mf_value mf_tanh(mf_value x);
/* x -> x: floats, and but for cbrt, deg2rad, rad2deg and sinc complex numbers; integers become f32 */
mf_value mf_cbrt(mf_value x);
mf_value mf_exp2(mf_value x);
mf_value mf_expm1(mf_value x); /* e^x - 1, exact about 0 */
mf_value mf_log1p(mf_value x); /* log(1 + x), exact about 0 */
mf_value mf_asin(mf_value x);
mf_value mf_acos(mf_value x);
mf_value mf_atan(mf_value x);
mf_value mf_asinh(mf_value x);
mf_value mf_acosh(mf_value x);
mf_value mf_atanh(mf_value x);
mf_value mf_deg2rad(mf_value x);
mf_value mf_rad2deg(mf_value x);
mf_value mf_sinc(mf_value x); /* sin(pi x) / (pi x), 1 at 0 */
/* x -> x: bool */
mf_value mf_isfinite(mf_value x);
mf_value mf_isnan(mf_value x);
mf_value mf_isinf(mf_value x);
mf_value mf_isposinf(mf_value x); /* real, as isneginf and signbit */
mf_value mf_isneginf(mf_value x);
mf_value mf_signbit(mf_value x); /* also of -0 and of a NaN with a sign */
/* x -> x: in another dtype; float to integer saturates, NaN gives 0 */
mf_value mf_astype(mf_value x, mf_dtype dtype);
/* x -> x: NaN and the infinities as numbers: 0 and the dtype's greatest and least, or what .nan,
 * .posinf and .neginf say, scalars. */
typedef struct mf_nan_to_num_options {
    mf_value nan, posinf, neginf;
    mf_reserved reserved_;
} mf_nan_to_num_options;
mf_value mf_nan_to_num(mf_value x);
mf_value mf_nan_to_num_opt(mf_value x, const mf_nan_to_num_options *o);

/* ---- complex numbers. x -> x: the real part, the imaginary one, the conjugate, the phase; of real
 * numbers themselves, zeros, themselves, 0 or pi. Where an operation has no sense for complex
 * numbers (orders, bits, rounding) MF_ERROR_DTYPE says so. */
mf_value mf_real(mf_value x);
mf_value mf_imag(mf_value x);
mf_value mf_conj(mf_value x);
mf_value mf_angle(mf_value x);

/* ---- choosing. (...), (...), (...) -> (...): a where c holds, else b; x held between two
 * bounds */
mf_value mf_where(mf_value c, mf_value a, mf_value b);
mf_value mf_clip(mf_value x, mf_value low, mf_value high);

/* ---- shape. The elements stay; they are copied only where they have to be. */
/* (...) -> shape: row by row; one dimension may be -1, what is left over */
mf_value mf_reshape(mf_value x, mf_shape shape);
/* (...) -> (n): all elements, row by row */
mf_value mf_ravel(mf_value x);
/* (...) -> (...): dimension i of the result is axes[i] of x; MF_INTS0: reversed */
mf_value mf_transpose(mf_value x, mf_ints axes);
/* (..., m, ..., n, ...) -> (..., n, ..., m, ...): two dimensions change places */
mf_value mf_swapaxes(mf_value x, int a, int b);
/* (...) -> (...): one dimension goes elsewhere, the others keep their order */
mf_value mf_moveaxis(mf_value x, int from, int to);
/* (...) -> shape: repeated, as broadcasting does; an array outside transforms is held once */
mf_value mf_broadcast_to(mf_value x, mf_shape shape);
/* (...) -> (..., 1, ...): a dimension of size 1 more, at `axis` of the result */
mf_value mf_expand_dims(mf_value x, int axis);
/* (..., 1, ...) -> (...): that dimension less; MF_ALL: every dimension of size 1 */
mf_value mf_squeeze(mf_value x, mf_axis axis MF_DEFAULT_(MF_ALL));
/* x -> x: backwards along an axis, mf_axes(...) or MF_ALL */
mf_value mf_flip(mf_value x, mf_axis axis MF_DEFAULT_(MF_ALL));
/* parts -> (..., sum of n, ...): a list or tuple of (..., n, ...), joined along an axis that they
 * have; or an array, whose rows they are. Dtypes promote. */
mf_value mf_concatenate(mf_value parts, int axis MF_DEFAULT_(0));
/* parts -> (..., count, ...): a list or tuple of arrays of one shape, joined along a new axis */
mf_value mf_stack(mf_value parts, int axis MF_DEFAULT_(0));
/* (..., n, ...) -> list: so many arrays of (..., n / sections, ...); MF_ERROR_SHAPE unless n
 * divides */
mf_value mf_split(mf_value x, int sections, int axis MF_DEFAULT_(0));
/* (..., m, n) -> (..., m, n): zero above, or below, diagonal number k (positive: above the main) */
mf_value mf_tril(mf_value x, int k MF_DEFAULT_(0));
mf_value mf_triu(mf_value x, int k MF_DEFAULT_(0));
/* (..., n) -> (..., reps * n): the whole, so often along the last dimensions */
mf_value mf_tile(mf_value x, mf_ints reps);
/* (..., n, ...) -> (..., count * n, ...): each element so often; MF_ALL: of the raveled array */
mf_value mf_repeat(mf_value x, int64_t count, mf_axis axis MF_DEFAULT_(MF_ALL));
/* x -> x: what leaves at the end comes in at the front, along an axis or each of mf_axes(...);
 * MF_ALL: through all elements */
mf_value mf_roll(mf_value x, int64_t shift, mf_axis axis MF_DEFAULT_(MF_ALL));
/* (..., m, ...) -> (..., m - n, ...): the n-th difference of neighbours */
mf_value mf_diff(mf_value x, int n MF_DEFAULT_(1), int axis MF_DEFAULT_(-1));
/* (n) -> (n + |k|, n + |k|), or (m, n) -> (d): a vector on the k-th diagonal of zeros, or that
 * diagonal of a matrix */
mf_value mf_diag(mf_value x, int k MF_DEFAULT_(0));
/* parts -> list: of vectors (m), (n), ... a grid (m, n, ...) each, or, unless ij, (n, m, ...):
 * NumPy's "ij" and "xy" */
mf_value mf_meshgrid(mf_value parts, bool ij);
/* (...) -> (1, ...): at least so many dimensions, the new ones of size 1 in front; a matrix as
 * 3-d is (m, n, 1), a vector (1, n, 1) */
mf_value mf_atleast_1d(mf_value x);
mf_value mf_atleast_2d(mf_value x);
mf_value mf_atleast_3d(mf_value x);
/* parts -> (...): concatenate along axis 1 (vectors: 0), along axis 0 of at least 2-d, along axis 2
 * of at least 3-d; vectors as the columns of a matrix, (n, count) */
mf_value mf_hstack(mf_value parts);
mf_value mf_vstack(mf_value parts);
mf_value mf_dstack(mf_value parts);
mf_value mf_column_stack(mf_value parts);
/* (..., m, ...), (..., n, ...) -> (..., m + n, ...): MF_ALL: both raveled */
mf_value mf_append(mf_value x, mf_value values, mf_axis axis MF_DEFAULT_(MF_ALL));
/* parts -> (sum of m, sum of n): of (m, n), ... one matrix with them on its diagonal
 * (jax.scipy.linalg) */
mf_value mf_block_diag(mf_value parts);
/* (..., n, ...) -> list: as split, where n % sections parts are longer by one */
mf_value mf_array_split(mf_value x, int sections, int axis MF_DEFAULT_(0));
/* (m, n, ...) -> (n, m, ...): turned k times from the first axis towards the second; for an even k
 * (m, n, ...) */
mf_value mf_rot90(mf_value x, int k MF_DEFAULT_(1));
/* -> (rows, columns): ones up to diagonal number k, zeros above it; MF_DTYPE_DEFAULT: f32 */
mf_value mf_tri(int64_t rows, int64_t columns, int k, mf_dtype dtype);
/* (...) -> tuple of (...): row-major places in an array of that shape as an index a dimension, and
 * back; places beyond its end wrap around */
mf_value mf_unravel_index(mf_value indices, mf_shape shape);
mf_value mf_ravel_multi_index(mf_value multi_index, mf_shape shape);

/* ---- products. f16 and bf16 are summed in f32 and rounded once; MF_ERROR_SHAPE names the
 * sizes. */
/* (..., k), (..., k, n) -> (..., ..., n): over the last dimension of a and the last but one of b,
 * or the only one; a scalar multiplies */
mf_value mf_dot(mf_value a, mf_value b);
/* (..., m, k), (..., k, n) -> (..., m, n): a batch of products; vectors stand for one row of a,
 * one column of b */
mf_value mf_matmul(mf_value a, mf_value b);
/* (m), (n) -> (m, n): every product; arrays are raveled */
mf_value mf_outer(mf_value a, mf_value b);
/* (..., k), (..., k) -> (..., ...): over the last dimensions */
mf_value mf_inner(mf_value a, mf_value b);
/* (k), (k) -> (): of the raveled operands, the first conjugated */
mf_value mf_vdot(mf_value a, mf_value b);
/* (..., k), (k, ...) -> (..., ...): over the last `axes` dimensions of a and the first of b */
mf_value mf_tensordot(mf_value a, mf_value b, int axes MF_DEFAULT_(2));
/* (...), (...) -> (..., ...): over those dimensions of each, pair by pair */
mf_value mf_tensordot_axes(mf_value a, mf_value b, mf_ints a_axes, mf_ints b_axes);
/* operands -> by the subscripts: mf_einsum("ij,jk->ik", a, b), mf_einsum("...ii", a). Without an
 * arrow the subscripts that occur once, in alphabetical order. At most 16 operands, contracted
 * from the left to the right. MF_ERROR_ARGUMENT and MF_ERROR_SHAPE name the subscript. */
mf_value mf_einsum_n(const char *subscripts, const mf_value *operands, int count);
/* (m, n), (p, q) -> (m p, n q): every element of a times the whole of b; up to 4 dimensions */
mf_value mf_kron(mf_value a, mf_value b);
/* (..., 3), (..., 3) -> (..., 3): the vector product */
mf_value mf_cross(mf_value a, mf_value b);
/* (m, n, ...) -> (...): the sum of x[i, i] */
mf_value mf_trace(mf_value x);

/* ---- reductions. (...) -> (...): the axes fall away, or with .keepdims have size 1. axis: a
 * number, mf_axes(0, 1), or MF_ALL, the default of the macros: mf_sum(x), mf_sum(x, 0),
 * mf_sum(x, .axis = mf_axes(0, 1), .keepdims = true). where: a mask of the elements that count,
 * which broadcasts to x. dtype: of sum, prod, mean, var and std. ddof: var and std divide by
 * n - ddof. One order, fixed by op and shape. */
typedef struct mf_reduce_options {
    mf_reserved begin_;
    mf_axis axis MF_DEFAULT_(MF_ALL);
    bool keepdims;
    mf_dtype dtype;
    mf_value where;
    int ddof;
    mf_reserved reserved_;
} mf_reduce_options;
mf_value mf_sum(mf_value x); /* bool and small integers in i32 */
mf_value mf_sum_opt(mf_value x, const mf_reduce_options *o);
mf_value mf_prod(mf_value x);
mf_value mf_prod_opt(mf_value x, const mf_reduce_options *o);
mf_value mf_mean(mf_value x); /* of integers f32, as var and std */
mf_value mf_mean_opt(mf_value x, const mf_reduce_options *o);
mf_value mf_var(mf_value x);
mf_value mf_var_opt(mf_value x, const mf_reduce_options *o);
mf_value mf_std(mf_value x);
mf_value mf_std_opt(mf_value x, const mf_reduce_options *o);
mf_value mf_max(mf_value x); /* NaN wins */
mf_value mf_max_opt(mf_value x, const mf_reduce_options *o);
mf_value mf_min(mf_value x);
mf_value mf_min_opt(mf_value x, const mf_reduce_options *o);
mf_value mf_any(mf_value x); /* bool */
mf_value mf_any_opt(mf_value x, const mf_reduce_options *o);
mf_value mf_all(mf_value x);
mf_value mf_all_opt(mf_value x, const mf_reduce_options *o);
/* without what is NaN; of nothing: 0, 1, and of the others NaN */
mf_value mf_nansum(mf_value x);
mf_value mf_nansum_opt(mf_value x, const mf_reduce_options *o);
mf_value mf_nanprod(mf_value x);
mf_value mf_nanprod_opt(mf_value x, const mf_reduce_options *o);
mf_value mf_nanmean(mf_value x);
mf_value mf_nanmean_opt(mf_value x, const mf_reduce_options *o);
mf_value mf_nanvar(mf_value x);
mf_value mf_nanvar_opt(mf_value x, const mf_reduce_options *o);
mf_value mf_nanstd(mf_value x);
mf_value mf_nanstd_opt(mf_value x, const mf_reduce_options *o);
mf_value mf_nanmax(mf_value x);
mf_value mf_nanmax_opt(mf_value x, const mf_reduce_options *o);
mf_value mf_nanmin(mf_value x);
mf_value mf_nanmin_opt(mf_value x, const mf_reduce_options *o);
/* (..., n, ...) -> (...): the greatest less the least; how many are not 0 (i32) */
mf_value mf_ptp(mf_value x, mf_axis axis MF_DEFAULT_(MF_ALL));
mf_value mf_count_nonzero(mf_value x, mf_axis axis MF_DEFAULT_(MF_ALL));
/* (..., n, ...), (n) -> (...): the mean with weights, which may also have x's shape */
mf_value mf_average(mf_value x, mf_value weights, mf_axis axis MF_DEFAULT_(MF_ALL));
/* (m, ...), (m) -> (num_segments, ...): jax.ops.segment_sum: the sums of the rows with one number;
 * numbers out of bounds are dropped. Of no rows 0, 1, the lowest and the highest of the dtype. */
mf_value mf_segment_sum(mf_value x, mf_value segment_ids, int64_t num_segments);
mf_value mf_segment_prod(mf_value x, mf_value segment_ids, int64_t num_segments);
mf_value mf_segment_max(mf_value x, mf_value segment_ids, int64_t num_segments);
mf_value mf_segment_min(mf_value x, mf_value segment_ids, int64_t num_segments);
/* (..., n, ...) -> (...): i32, the first of equals; a NaN wins. MF_ALL: in the raveled array */
mf_value mf_argmax(mf_value x, mf_axis axis MF_DEFAULT_(MF_ALL));
mf_value mf_argmin(mf_value x, mf_axis axis MF_DEFAULT_(MF_ALL));
/* without what is NaN; -1 where nothing else is */
mf_value mf_nanargmax(mf_value x, mf_axis axis MF_DEFAULT_(MF_ALL));
mf_value mf_nanargmin(mf_value x, mf_axis axis MF_DEFAULT_(MF_ALL));
/* (..., n, ...) -> (...): linear between neighbours; NaN where there is one. f32 of integers; of
 * several axes together, mf_axes(...) */
mf_value mf_median(mf_value x, mf_axis axis MF_DEFAULT_(MF_ALL));
/* (..., n, ...), q -> q's shape, then (...): likewise; q: a number in [0, 1], or a vector */
mf_value mf_quantile(mf_value x, mf_value q, mf_axis axis MF_DEFAULT_(MF_ALL));
mf_value mf_percentile(mf_value x, mf_value q,
                       mf_axis axis MF_DEFAULT_(MF_ALL)); /* q in [0, 100] */
mf_value mf_nanquantile(mf_value x, mf_value q, mf_axis axis MF_DEFAULT_(MF_ALL)); /* without NaN */
mf_value mf_nanpercentile(mf_value x, mf_value q, mf_axis axis MF_DEFAULT_(MF_ALL));
/* (..., n, ...) -> (...): without what is NaN */
mf_value mf_nanmedian(mf_value x, mf_axis axis MF_DEFAULT_(MF_ALL));
/* (m, n) -> (m, m): of m variables and n observations the covariance, over n - 1 or with .bias n,
 * and the correlation; .columns: of (n, m). One variable gives a number. */
typedef struct mf_cov_options {
    bool columns, bias;
    mf_reserved reserved_;
} mf_cov_options;
mf_value mf_cov(mf_value x);
mf_value mf_cov_opt(mf_value x, const mf_cov_options *o);
mf_value mf_corrcoef(mf_value x);
mf_value mf_corrcoef_opt(mf_value x, const mf_cov_options *o);
/* (...) -> (length): i32, how often each of 0 .. length-1 occurs; what is greater is dropped,
 * negative counts as 0 */
mf_value mf_bincount(mf_value x, int64_t length);
/* (...) -> tuple of (bins), (bins + 1): how often, in floats, and the edges of equal bins between
 * .low and .high (mf_f(0), not 0), x's least and greatest unless said; what lies outside does not
 * count. .weights: of x's shape, summed in place of ones; .density: so that the integral is 1. */
typedef struct mf_histogram_options {
    mf_value low, high, weights;
    bool density;
    mf_reserved reserved_;
} mf_histogram_options;
mf_value mf_histogram(mf_value x, int64_t bins);
mf_value mf_histogram_opt(mf_value x, int64_t bins, const mf_histogram_options *o);
/* (...), (n) -> (...): i32, the bin of each x: bins[i - 1] <= x < bins[i], or with right
 * bins[i - 1] < x <= bins[i]; the bins may descend */
mf_value mf_digitize(mf_value x, mf_value bins, bool right MF_DEFAULT_(false));

/* ---- running results. x -> x: from the front, or with .reverse from the back: mf_cumsum(x, 0),
 * mf_cumsum(x, 0, .reverse = true). Of MF_ALL, the default of sums and products, (n): the raveled
 * x; the default of the others is axis 0. */
typedef struct mf_cumulative_options {
    mf_reserved begin_;
    mf_axis axis MF_DEFAULT_(0);
    bool reverse;
    mf_reserved reserved_;
} mf_cumulative_options;
mf_value mf_cumsum(mf_value x, mf_axis axis MF_DEFAULT_(MF_ALL));
mf_value mf_cumsum_opt(mf_value x, const mf_cumulative_options *o);
mf_value mf_cumprod(mf_value x, mf_axis axis MF_DEFAULT_(MF_ALL));
mf_value mf_cumprod_opt(mf_value x, const mf_cumulative_options *o);
mf_value mf_cummax(mf_value x, mf_axis axis MF_DEFAULT_(0));
mf_value mf_cummax_opt(mf_value x, const mf_cumulative_options *o);
mf_value mf_cummin(mf_value x, mf_axis axis MF_DEFAULT_(0));
mf_value mf_cummin_opt(mf_value x, const mf_cumulative_options *o);
mf_value mf_cumlogsumexp(mf_value x, mf_axis axis MF_DEFAULT_(0));
mf_value mf_cumlogsumexp_opt(mf_value x, const mf_cumulative_options *o);

/* ---- order. x -> x: along the last axis unless said; of MF_ALL (n), the raveled x */
/* x -> x: stable, ascending; -0 and 0 are equal, NaN last. argsort: the positions, i32 */
mf_value mf_sort(mf_value x, mf_axis axis MF_DEFAULT_(-1));
mf_value mf_argsort(mf_value x, mf_axis axis MF_DEFAULT_(-1));
/* x -> x: stable too; NaN first */
mf_value mf_sort_descending(mf_value x, mf_axis axis MF_DEFAULT_(-1));
mf_value mf_argsort_descending(mf_value x, mf_axis axis MF_DEFAULT_(-1));
/* x, x -> tuple: both, ordered by keys; stable. Operands of one shape */
mf_value mf_sort_key_value(mf_value keys, mf_value values, int axis);
/* (n), (...) -> (...): i32 positions at which each x keeps the order, behind its equals if right */
mf_value mf_searchsorted(mf_value sorted, mf_value x, bool right MF_DEFAULT_(false));
/* (...), (...) -> (...): bool, whether each x is among the others */
mf_value mf_isin(mf_value x, mf_value among);
/* (...) -> (size): what there is, once each, in order; where there are more, the first ones, where
 * fewer, .fill_value (mf_i(0), not 0), or the least of x */
typedef struct mf_unique_options {
    mf_value fill_value;
    mf_reserved reserved_;
} mf_unique_options;
mf_value mf_unique(mf_value x, int64_t size);
mf_value mf_unique_opt(mf_value x, int64_t size, const mf_unique_options *o);
/* (...) -> tuple of (size): the indices, one array a dimension, of the first `size` elements that
 * are not 0; 0 where there are fewer */
mf_value mf_nonzero(mf_value x, int64_t size);

/* ---- functions known by samples, and polynomials */
/* (...), (n), (n) -> (...): the line through the points (xp, fp), of which xp ascends; flat beyond
 * both ends */
mf_value mf_interp(mf_value x, mf_value xp, mf_value fp);
/* (..., n, ...) -> (...): the integral along .axis by trapezoids, over steps of .dx or the places
 * .x, a vector or of y's shape */
typedef struct mf_trapezoid_options {
    mf_reserved begin_;
    mf_value x;
    double dx MF_DEFAULT_(1);
    mf_axis axis MF_DEFAULT_(-1);
    mf_reserved reserved_;
} mf_trapezoid_options;
mf_value mf_trapezoid(mf_value y);
mf_value mf_trapezoid_opt(mf_value y, const mf_trapezoid_options *o);
/* (..., n, ...) -> (..., n, ...): central differences over the spacing, one-sided at both ends;
 * of several axes (MF_ALL: each) a list */
mf_value mf_gradient(mf_value x, double spacing MF_DEFAULT_(1), mf_axis axis MF_DEFAULT_(MF_ALL));
/* (n), (...) -> (...): p[0] x^(n-1) + ... + p[n-1] */
mf_value mf_polyval(mf_value p, mf_value x);
/* (n) -> (n, .columns): the powers of each x from .columns - 1 down to 0, or with .increasing from 0
 * up; n columns unless said */
typedef struct mf_vander_options {
    mf_reserved begin_;
    int64_t columns MF_DEFAULT_(MF_END);
    bool increasing;
    mf_reserved reserved_;
} mf_vander_options;
mf_value mf_vander(mf_value x);
mf_value mf_vander_opt(mf_value x, const mf_vander_options *o);
/* (n), (n) or (n, k) -> (degree + 1) or (degree + 1, k): coefficients for polyval, the greatest
 * power's first, for which the squares of polyval(p, x) - y sum up to the least */
mf_value mf_polyfit(mf_value x, mf_value y, int64_t degree);
/* (n), (k) -> (n + k - 1), of the longer one's size, or (n - k + 1): full (NumPy's default), same,
 * valid (correlate's default). correlate: the sum of a[n + i] conj(v[i]). */
typedef enum mf_convolve_mode {
    MF_CONVOLVE_FULL = 0,
    MF_CONVOLVE_SAME,
    MF_CONVOLVE_VALID
} mf_convolve_mode;
mf_value mf_convolve(mf_value a, mf_value v, mf_convolve_mode mode MF_DEFAULT_(MF_CONVOLVE_FULL));
mf_value mf_correlate(mf_value a, mf_value v, mf_convolve_mode mode MF_DEFAULT_(MF_CONVOLVE_VALID));

/* ---- whole arrays */
/* x, y -> (): bool; false where shapes differ */
mf_value mf_array_equal(mf_value a, mf_value b);
/* (...), (...) -> (...): bool, |a - b| <= 1e-8 + 1e-5 |b|, as NumPy */
mf_value mf_isclose(mf_value a, mf_value b);
/* (...), (...) -> (): bool, isclose everywhere */
mf_value mf_allclose(mf_value a, mf_value b);
/* tree -> (): the square root of the sum of all leaves' squares (optax.global_norm) */
mf_value mf_global_norm(mf_value tree);

MF_END_

#include <manyfold/lift/numpy.h>

#ifdef __cplusplus
/* Arithmetic and comparisons element by element, as the functions of these names; a % b is NumPy's,
 * with the divisor's sign, and a / b is true division. One operand may be a number. */
inline mf_value operator+(mf_value a, mf_value b) { return mf_add(a, b); }
inline mf_value operator-(mf_value a, mf_value b) { return mf_sub(a, b); }
inline mf_value operator*(mf_value a, mf_value b) { return mf_mul(a, b); }
inline mf_value operator/(mf_value a, mf_value b) { return mf_div(a, b); }
inline mf_value operator%(mf_value a, mf_value b) { return mf_remainder(a, b); }
inline mf_value operator-(mf_value x) { return mf_neg(x); }
inline mf_value operator+(mf_value x) { return x; }
inline mf_value operator==(mf_value a, mf_value b) { return mf_equal(a, b); }
inline mf_value operator!=(mf_value a, mf_value b) { return mf_not_equal(a, b); }
inline mf_value operator<(mf_value a, mf_value b) { return mf_less(a, b); }
inline mf_value operator<=(mf_value a, mf_value b) { return mf_less_equal(a, b); }
inline mf_value operator>(mf_value a, mf_value b) { return mf_greater(a, b); }
inline mf_value operator>=(mf_value a, mf_value b) { return mf_greater_equal(a, b); }
inline mf_value operator&(mf_value a, mf_value b) { return mf_bitwise_and(a, b); }
inline mf_value operator|(mf_value a, mf_value b) { return mf_bitwise_or(a, b); }
inline mf_value operator^(mf_value a, mf_value b) { return mf_bitwise_xor(a, b); }
inline mf_value operator~(mf_value x) { return mf_bitwise_not(x); }
inline mf_value operator<<(mf_value a, mf_value b) { return mf_left_shift(a, b); }
inline mf_value operator>>(mf_value a, mf_value b) { return mf_right_shift(a, b); }
inline mf_value &operator+=(mf_value &a, mf_value b) { return a = mf_add(a, b); }
inline mf_value &operator-=(mf_value &a, mf_value b) { return a = mf_sub(a, b); }
inline mf_value &operator*=(mf_value &a, mf_value b) { return a = mf_mul(a, b); }
inline mf_value &operator/=(mf_value &a, mf_value b) { return a = mf_div(a, b); }
inline mf_value mf_value::operator[](mf_value index) const { return mf_get(*this, index); }
#endif
#endif
