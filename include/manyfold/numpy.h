/* manyfold/numpy.h - operations on arrays under NumPy's names and with jax.numpy's behaviour:
 * arithmetic, comparisons, shape, products, reductions, sorting, sampled functions.
 *
 * Shapes open a comment: (m, k), (k, n) -> (m, n) takes two values of these shapes and returns one.
 * "..." is any number of dimensions, which broadcast against one another where several operands
 * have them; () is a scalar or a C number; x is any array, and a result of its shape.
 * Dtypes promote as in JAX with x64 disabled: weakly typed numbers give way, i32 with u32 is i32,
 * and a result has 64 bits only where an operand has. Where a comment says "floats", integers and
 * bools become f32. Outside a transform an operation runs at once; inside it becomes an equation of
 * the program being traced. Gradients are JAX's.
 * Results belong to the innermost scope; any thread. Errors: MF_ERROR_SHAPE where shapes do not
 * broadcast or fit, MF_ERROR_DTYPE where an operation is not defined for a dtype, MF_ERROR_AXIS for
 * an axis out of bounds (a negative axis counts from the end). */
#ifndef MANYFOLD_NUMPY_H
#define MANYFOLD_NUMPY_H
#ifndef MF_CHECK_HEADERS_
#pragma GCC system_header
#endif

#include <manyfold/function.h>

MF_BEGIN_

#define MF_INTS0 ((mf_ints){ .count = 0 }) /* an empty list: mostly "the default" */

/* ---- arithmetic. (...), (...) -> (...): of two operands, element by element. Of two bool arrays
 * mf_add is "or", mf_mul is "and", and mf_sub is MF_ERROR_DTYPE; C's true is the integer 1 */
mf_value mf_add(mf_value a, mf_value b);
mf_value mf_sub(mf_value a, mf_value b);
mf_value mf_mul(mf_value a, mf_value b);
mf_value mf_div(mf_value a, mf_value b);          /* true division; floats */
mf_value mf_floor_divide(mf_value a, mf_value b); /* rounded towards minus infinity, as // */
mf_value mf_remainder(mf_value a, mf_value b); /* %: has the divisor's sign; integers: x % 0 is 0 */
/* A C integer as exponent multiplies (mf_integer_pow); a negative one makes floats of integers. An
 * array of integer exponents keeps integers, with 1 / a truncated. */
mf_value mf_pow(mf_value a, mf_value b);
mf_value mf_atan2(mf_value a, mf_value b);     /* the angle of the point (b, a); floats */
mf_value mf_nextafter(mf_value a, mf_value b); /* the next float after a towards b */
mf_value mf_maximum(mf_value a, mf_value b);   /* NaN if either is; 0 is greater than -0 */
mf_value mf_minimum(mf_value a, mf_value b);
mf_value mf_logaddexp(mf_value a, mf_value b); /* log(e^a + e^b), without overflow */
mf_value mf_hypot(mf_value a, mf_value b);     /* sqrt(a^2 + b^2), without overflow; floats */
mf_value mf_fmod(mf_value a, mf_value b);      /* C's remainder: has the dividend's sign */
mf_value mf_fmax(mf_value a, mf_value b);      /* the other one where one is NaN */
mf_value mf_fmin(mf_value a, mf_value b);
mf_value mf_copysign(mf_value a, mf_value b);        /* |a| with the sign of b; floats */
mf_value mf_heaviside(mf_value x, mf_value at_zero); /* 0, at_zero or 1, by the sign of x; floats */
mf_value mf_logaddexp2(mf_value a, mf_value b);      /* log2(2^a + 2^b), without overflow */
/* (...), (...) -> tuple of (...), (...): (floor_divide, remainder) */
mf_value mf_divmod(mf_value a, mf_value b);
/* (...), (...) -> (...): of integers, never negative: the greatest common divisor, the least common
 * multiple; of two zeros 0 */
mf_value mf_gcd(mf_value a, mf_value b);
mf_value mf_lcm(mf_value a, mf_value b);

/* ---- comparisons and logic. (...), (...) -> (...): bool, element by element; NaN equals nothing,
 * complex numbers are ordered by real, then imaginary part; logic takes what is not 0 as true */
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

/* ---- bits. (...), (...) -> (...): of integers; mf_bitwise_... also of bools */
mf_value mf_bitwise_and(mf_value a, mf_value b);
mf_value mf_bitwise_or(mf_value a, mf_value b);
mf_value mf_bitwise_xor(mf_value a, mf_value b);
mf_value mf_left_shift(mf_value a, mf_value b);  /* by the width or more: 0 */
mf_value mf_right_shift(mf_value a, mf_value b); /* arithmetic if signed, else logical */
/* (...) -> (...) */
mf_value mf_bitwise_not(mf_value x);

/* ---- functions of one operand. x -> x, element by element */
mf_value mf_neg(mf_value x);
mf_value mf_abs(mf_value x); /* of complex numbers the magnitude, a float */
mf_value mf_square(mf_value x);
mf_value mf_sign(mf_value x); /* -1, 0, 1 or NaN, in x's dtype; of complex numbers x / |x| */
/* x -> x: rounded, in x's dtype; real numbers. mf_round rounds halves to even */
mf_value mf_floor(mf_value x);
mf_value mf_ceil(mf_value x);
mf_value mf_round(mf_value x);
mf_value mf_trunc(mf_value x); /* towards zero */
/* x -> x: of floats and complex numbers */
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
/* x -> x: of floats, and all but cbrt, deg2rad, rad2deg and sinc of complex numbers */
mf_value mf_cbrt(mf_value x);
mf_value mf_exp2(mf_value x);
mf_value mf_expm1(mf_value x); /* e^x - 1, accurate near 0 */
mf_value mf_log1p(mf_value x); /* log(1 + x), accurate near 0 */
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
mf_value mf_isposinf(mf_value x); /* of real numbers, as are isneginf and signbit */
mf_value mf_isneginf(mf_value x);
mf_value mf_signbit(mf_value x); /* also of -0 and of NaN */
/* x -> x: converted to another dtype. Floats to integers: truncated towards zero and saturated, NaN
 * becomes 0; integers to smaller ones wrap around */
mf_value mf_astype(mf_value x, mf_dtype dtype);
/* x -> x: replaces NaN by 0 and infinities by the dtype's largest and smallest number, or by the
 * scalars .nan, .posinf and .neginf */
typedef struct mf_nan_to_num_options {
    mf_value nan, posinf, neginf;
    mf_reserved reserved_;
} mf_nan_to_num_options;
mf_value mf_nan_to_num(mf_value x);
mf_value mf_nan_to_num_opt(mf_value x, const mf_nan_to_num_options *o);

/* ---- complex numbers. x -> x: the real part, the imaginary part, the conjugate, the phase angle
 * in radians; of real numbers x, zeros, x, and 0 or pi. Operations that are not defined for complex
 * numbers (bits, rounding, clip, argmax, medians and quantiles) are MF_ERROR_DTYPE; sorting,
 * extrema and comparisons order them by real, then imaginary part. */
mf_value mf_real(mf_value x);
mf_value mf_imag(mf_value x);
mf_value mf_conj(mf_value x);
mf_value mf_angle(mf_value x);

/* ---- selecting. (...), (...), (...) -> (...): a where c is true, else b; x limited to [low,
 * high] */
mf_value mf_where(mf_value c, mf_value a, mf_value b);
mf_value mf_clip(mf_value x, mf_value low, mf_value high);
/* conditions, choices, () -> (...): lists of equal length: each element is that of the first choice
 * whose condition is true, or otherwise `otherwise` (JAX's default: 0) */
mf_value mf_select(mf_value conditions, mf_value choices, mf_value otherwise);

/* ---- shape. The elements stay the same, in row-major order; they are copied only where needed. */
/* (...) -> shape: one dimension may be -1, and is computed from the others */
mf_value mf_reshape(mf_value x, mf_shape shape);
/* (...) -> (n): all elements as a vector */
mf_value mf_ravel(mf_value x);
/* (...) -> (...): dimension i of the result is dimension axes[i] of x; MF_INTS0 reverses all */
mf_value mf_transpose(mf_value x, mf_ints axes);
/* (..., m, ..., n, ...) -> (..., n, ..., m, ...): swaps two dimensions */
mf_value mf_swapaxes(mf_value x, int a, int b);
/* (...) -> (...): moves one dimension, while the others keep their order */
mf_value mf_moveaxis(mf_value x, int from, int to);
/* (...) -> shape: NumPy's broadcasting; outside transforms the repeated elements are stored once */
mf_value mf_broadcast_to(mf_value x, mf_shape shape);
/* (...) -> (..., 1, ...): a new dimension of size 1, number `axis` of the result */
mf_value mf_expand_dims(mf_value x, int axis);
/* (..., 1, ...) -> (...): without that dimension; MF_ALL: without all dimensions of size 1 */
mf_value mf_squeeze(mf_value x, mf_axis axis MF_DEFAULT_(MF_ALL));
/* x -> x: reversed along an axis, mf_axes(...) or MF_ALL */
mf_value mf_flip(mf_value x, mf_axis axis MF_DEFAULT_(MF_ALL));
/* parts -> (..., sum of n, ...): joins a list or tuple of (..., n, ...) along an existing axis; or
 * the rows of one array. Dtypes promote */
mf_value mf_concatenate(mf_value parts, int axis MF_DEFAULT_(0));
/* parts -> (..., count, ...): joins a list or tuple of arrays of one shape along a new axis */
mf_value mf_stack(mf_value parts, int axis MF_DEFAULT_(0));
/* (..., n, ...) -> list: `sections` arrays of (..., n / sections, ...); MF_ERROR_SHAPE unless
 * sections divides n */
mf_value mf_split(mf_value x, int sections, int axis MF_DEFAULT_(0));
/* (..., m, n) -> (..., m, n): the lower triangle, and the upper one; the rest is 0. k: the diagonal
 * that bounds it, positive above the main one */
mf_value mf_tril(mf_value x, int k MF_DEFAULT_(0));
mf_value mf_triu(mf_value x, int k MF_DEFAULT_(0));
/* (..., n) -> (..., reps * n): x repeated as a whole, reps[i] times along the last dimensions */
mf_value mf_tile(mf_value x, mf_ints reps);
/* (..., n, ...) -> (..., count * n, ...): each element repeated; MF_ALL: of the raveled array */
mf_value mf_repeat(mf_value x, int64_t count, mf_axis axis MF_DEFAULT_(MF_ALL));
/* x -> x: rotated along an axis, or each of mf_axes(...); what leaves at the end returns at the
 * front. MF_ALL: rotates the raveled elements */
mf_value mf_roll(mf_value x, int64_t shift, mf_axis axis MF_DEFAULT_(MF_ALL));
/* (..., m, ...) -> (..., m - n, ...): the n-th differences of neighbours */
mf_value mf_diff(mf_value x, int n MF_DEFAULT_(1), int axis MF_DEFAULT_(-1));
/* (n) -> (n + |k|, n + |k|), or (m, n) -> (d): a matrix with x on its k-th diagonal, or the k-th
 * diagonal of a matrix */
mf_value mf_diag(mf_value x, int k MF_DEFAULT_(0));
/* (..., m, ..., n, ...) -> (..., d): np.diagonal: the diagonal number `offset` of the matrices
 * along two axes */
mf_value mf_diagonal(mf_value x, int offset MF_DEFAULT_(0), int axis1 MF_DEFAULT_(0),
                     int axis2 MF_DEFAULT_(1));
/* parts -> list: for vectors (m), (n), ... one array of shape (m, n, ...) each if ij (NumPy's
 * "ij"), else (n, m, ...) ("xy", NumPy's default) */
mf_value mf_meshgrid(mf_value parts, bool ij);
/* (...) -> (1, ...): with at least so many dimensions; new ones, of size 1, come first, but
 * atleast_3d makes a matrix (m, n, 1) and a vector (1, n, 1) */
mf_value mf_atleast_1d(mf_value x);
mf_value mf_atleast_2d(mf_value x);
mf_value mf_atleast_3d(mf_value x);
/* parts -> (...): joins along axis 1 (vectors: 0); along axis 0 of at least 2-d; along axis 2 of at
 * least 3-d; vectors as the columns of a matrix, (n, count) */
mf_value mf_hstack(mf_value parts);
mf_value mf_vstack(mf_value parts);
mf_value mf_dstack(mf_value parts);
mf_value mf_column_stack(mf_value parts);
/* (..., m, ...), (..., n, ...) -> (..., m + n, ...): joins two arrays; MF_ALL: both raveled */
mf_value mf_append(mf_value x, mf_value values, mf_axis axis MF_DEFAULT_(MF_ALL));
/* parts -> (sum of m, sum of n): jax.scipy.linalg.block_diag: a matrix with the matrices (m, n),
 * ... on its diagonal */
mf_value mf_block_diag(mf_value parts);
/* (m), (n) -> (m, n): jax.scipy.linalg.toeplitz: the matrix with constant diagonals whose first
 * column is c and whose first row is r, but for r[0]. SciPy's default is r = conj(c) */
mf_value mf_toeplitz(mf_value c, mf_value r);
/* (..., n, ...) -> list: as mf_split, but the first n % sections parts are longer by one */
mf_value mf_array_split(mf_value x, int sections, int axis MF_DEFAULT_(0));
/* (m, n, ...) -> (n, m, ...): rotated k times by 90 degrees, from the first axis towards the
 * second; for an even k (m, n, ...) */
mf_value mf_rot90(mf_value x, int k MF_DEFAULT_(1));
/* -> (rows, columns): ones on and below diagonal number k, zeros above; f32 by default */
mf_value mf_tri(int64_t rows, int64_t columns, int k MF_DEFAULT_(0),
                mf_dtype dtype MF_DEFAULT_({}));
/* -> tuple of (count), (count): i32: the rows and columns of the elements of a (rows, columns)
 * matrix on and below diagonal number k, or on and above it */
mf_value mf_tril_indices(int64_t rows, int64_t columns, int k MF_DEFAULT_(0));
mf_value mf_triu_indices(int64_t rows, int64_t columns, int k MF_DEFAULT_(0));
/* (...) -> tuple of (...): row-major positions in an array of that shape become one index for each
 * dimension, and back. A negative position counts from the end, and one beyond either end is clipped,
 * as in JAX; the way back checks no bounds */
mf_value mf_unravel_index(mf_value indices, mf_shape shape);
mf_value mf_ravel_multi_index(mf_value multi_index, mf_shape shape);

/* ---- products. f16 and bf16 are summed in f32 and rounded once, at the end; MF_ERROR_SHAPE names
 * the sizes that differ. */
/* (..., k), (..., k, n) -> (..., ..., n): np.dot: sums over the last dimension of a and the last
 * but one of b (or its only one); a scalar multiplies */
mf_value mf_dot(mf_value a, mf_value b);
/* (..., m, k), (..., k, n) -> (..., m, n): matrix products, batched over the leading dimensions; a
 * vector a is a row, a vector b a column */
mf_value mf_matmul(mf_value a, mf_value b);
/* (m), (n) -> (m, n): all products a[i] b[j]; arrays are raveled first */
mf_value mf_outer(mf_value a, mf_value b);
/* (..., k), (..., k) -> (..., ...): sums over the last dimension of both */
mf_value mf_inner(mf_value a, mf_value b);
/* (k), (k) -> (): the dot product of the raveled operands, the first one conjugated */
mf_value mf_vdot(mf_value a, mf_value b);
/* (..., k), (k, ...) -> (..., ...): sums over the last `axes` dimensions of a and the first of b */
mf_value mf_tensordot(mf_value a, mf_value b, int axes MF_DEFAULT_(2));
/* (...), (...) -> (..., ...): sums over a_axes[i] of a with b_axes[i] of b */
mf_value mf_tensordot_axes(mf_value a, mf_value b, mf_ints a_axes, mf_ints b_axes);
/* operands -> by the subscripts: np.einsum: mf_einsum("ij,jk->ik", a, b), mf_einsum("...ii", a).
 * Without an arrow the result has the subscripts that occur once, in alphabetical order. At most 16
 * operands, contracted from left to right. MF_ERROR_ARGUMENT and MF_ERROR_SHAPE name the
 * subscript. */
mf_value mf_einsum_n(const char *subscripts, const mf_value *operands, int count);
/* (m, n), (p, q) -> (m p, n q): the Kronecker product; up to 4 dimensions */
mf_value mf_kron(mf_value a, mf_value b);
/* (..., 3), (..., 3) -> (..., 3): the cross product */
mf_value mf_cross(mf_value a, mf_value b);
/* (..., n), (..., n) -> (...): sums conj(a) b over an axis; (..., m, n), (..., n) -> (..., m): of
 * matrices with vectors; (..., m), (..., m, n) -> (..., n): of conjugated vectors with matrices */
mf_value mf_vecdot(mf_value a, mf_value b, int axis MF_DEFAULT_(-1));
mf_value mf_matvec(mf_value a, mf_value b);
mf_value mf_vecmat(mf_value a, mf_value b);
/* (m, n, ...) -> (...): the sum of x[i, i] */
mf_value mf_trace(mf_value x);

/* ---- reductions. (...) -> (...): without the reduced axes; with .keepdims they have size 1.
 * mf_sum(x), mf_sum(x, 0), mf_sum(x, .axis = mf_axes(0, 1), .keepdims = true).
 *   axis: a number, mf_axes(...), or MF_ALL, the default.
 *   where: a mask of the elements that count, which broadcasts to x.
 *   dtype: of the sum and the result; mean truncates to integers at the end, var and std stay floats.
 *   ddof: var and std divide by n - ddof.
 * Sums are computed in one order, which depends only on the operation and the shape. Of no elements
 * sum is 0, prod 1, mean, var and std NaN, any false, all true; max and min are MF_ERROR_SHAPE. */
typedef struct mf_reduce_options {
    mf_reserved begin_;
    mf_axis axis MF_DEFAULT_(MF_ALL);
    bool keepdims;
    mf_dtype dtype;
    mf_value where;
    int ddof;
    mf_reserved reserved_;
} mf_reduce_options;
mf_value mf_sum(mf_value x); /* bools and small integers are summed in i32 (unsigned: u32) */
mf_value mf_sum_opt(mf_value x, const mf_reduce_options *o);
mf_value mf_prod(mf_value x);
mf_value mf_prod_opt(mf_value x, const mf_reduce_options *o);
mf_value mf_mean(mf_value x); /* floats, as var and std */
mf_value mf_mean_opt(mf_value x, const mf_reduce_options *o);
mf_value mf_var(mf_value x);
mf_value mf_var_opt(mf_value x, const mf_reduce_options *o);
mf_value mf_std(mf_value x);
mf_value mf_std_opt(mf_value x, const mf_reduce_options *o);
mf_value mf_max(mf_value x); /* NaN if any element is */
mf_value mf_max_opt(mf_value x, const mf_reduce_options *o);
mf_value mf_min(mf_value x);
mf_value mf_min_opt(mf_value x, const mf_reduce_options *o);
mf_value mf_any(mf_value x); /* bool */
mf_value mf_any_opt(mf_value x, const mf_reduce_options *o);
mf_value mf_all(mf_value x);
mf_value mf_all_opt(mf_value x, const mf_reduce_options *o);
/* The same without NaN elements. Where there are only NaN: 0, 1, and otherwise NaN */
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
/* (..., n, ...) -> (...): the maximum minus the minimum; the number of elements that are not 0,
 * i32 */
mf_value mf_ptp(mf_value x, mf_axis axis MF_DEFAULT_(MF_ALL));
mf_value mf_count_nonzero(mf_value x, mf_axis axis MF_DEFAULT_(MF_ALL));
/* (..., n, ...), (n) -> (...): the weighted mean; the weights may also have x's shape */
mf_value mf_average(mf_value x, mf_value weights, mf_axis axis MF_DEFAULT_(MF_ALL));
/* (m, ...), (m) -> (num_segments, ...): jax.ops.segment_sum: the sums (products, ...) of the rows
 * with the same segment number; rows with a number out of bounds are dropped. An empty segment is
 * 0, 1, and the dtype's lowest and highest value */
mf_value mf_segment_sum(mf_value x, mf_value segment_ids, int64_t num_segments);
mf_value mf_segment_prod(mf_value x, mf_value segment_ids, int64_t num_segments);
mf_value mf_segment_max(mf_value x, mf_value segment_ids, int64_t num_segments);
mf_value mf_segment_min(mf_value x, mf_value segment_ids, int64_t num_segments);
/* (..., n, ...) -> (...): i32: the position of the first maximum (minimum), or of the first NaN.
 * MF_ALL: in the raveled array */
mf_value mf_argmax(mf_value x, mf_axis axis MF_DEFAULT_(MF_ALL));
mf_value mf_argmin(mf_value x, mf_axis axis MF_DEFAULT_(MF_ALL));
/* The same ignoring NaN; -1 where all are NaN */
mf_value mf_nanargmax(mf_value x, mf_axis axis MF_DEFAULT_(MF_ALL));
mf_value mf_nanargmin(mf_value x, mf_axis axis MF_DEFAULT_(MF_ALL));
/* (..., n, ...) -> (...): the median, interpolated between neighbours; NaN if any element is.
 * Floats. Several axes, mf_axes(...), are reduced together */
mf_value mf_median(mf_value x, mf_axis axis MF_DEFAULT_(MF_ALL));
/* (..., n, ...), q -> q's shape, then (...): quantiles, linearly interpolated; q is a number in [0,
 * 1] or a vector of them, and is clamped */
mf_value mf_quantile(mf_value x, mf_value q, mf_axis axis MF_DEFAULT_(MF_ALL));
mf_value mf_percentile(mf_value x, mf_value q,
                       mf_axis axis MF_DEFAULT_(MF_ALL)); /* q in [0, 100] */
mf_value mf_nanquantile(mf_value x, mf_value q, mf_axis axis MF_DEFAULT_(MF_ALL)); /* without NaN */
mf_value mf_nanpercentile(mf_value x, mf_value q, mf_axis axis MF_DEFAULT_(MF_ALL));
/* (..., n, ...) -> (...): the median without NaN */
mf_value mf_nanmedian(mf_value x, mf_axis axis MF_DEFAULT_(MF_ALL));
/* (m, n) -> (m, m): the covariance (divided by n - 1, or with .bias by n) and the correlation of m
 * variables with n observations each; .columns: x is (n, m). A single variable gives a scalar. */
typedef struct mf_cov_options {
    bool columns, bias;
    mf_reserved reserved_;
} mf_cov_options;
mf_value mf_cov(mf_value x);
mf_value mf_cov_opt(mf_value x, const mf_cov_options *o);
mf_value mf_corrcoef(mf_value x);
mf_value mf_corrcoef_opt(mf_value x, const mf_cov_options *o);
/* (...) -> (length): i32: how often each number 0, ..., length - 1 occurs; larger numbers are
 * dropped, negative ones count as 0 */
mf_value mf_bincount(mf_value x, int64_t length);
/* (...) -> tuple of (bins), (bins + 1): the counts, as floats, and the edges of bins of equal width
 * from .low to .high (mf_f(0), not 0), by default x's minimum and maximum; elements outside do not
 * count. .weights, of x's shape: sums these instead of counting. .density: scaled so that the
 * integral is 1. */
typedef struct mf_histogram_options {
    mf_value low, high, weights;
    bool density;
    mf_reserved reserved_;
} mf_histogram_options;
mf_value mf_histogram(mf_value x, int64_t bins);
mf_value mf_histogram_opt(mf_value x, int64_t bins, const mf_histogram_options *o);
/* (...), (n) -> (...): i32: the bin i of each x, with bins[i - 1] <= x < bins[i], or if right
 * bins[i - 1] < x <= bins[i]. The bins ascend or descend */
mf_value mf_digitize(mf_value x, mf_value bins, bool right MF_DEFAULT_(false));

/* ---- cumulative operations. x -> x: from the front, or with .reverse from the back: mf_cumsum(x,
 * 0), mf_cumsum(x, 0, .reverse = true). MF_ALL, the default of cumsum and cumprod, gives (n), of
 * the raveled x; the default of the others is axis 0. The dtype is x's; of bools i32. */
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
/* x -> x: cumsum and cumprod with NaN taken as 0 and 1 */
mf_value mf_nancumsum(mf_value x, mf_axis axis MF_DEFAULT_(MF_ALL));
mf_value mf_nancumprod(mf_value x, mf_axis axis MF_DEFAULT_(MF_ALL));

/* ---- sorting and searching. x -> x: along the last axis by default; MF_ALL sorts the raveled x
 * and gives (n) */
/* x -> x: ascending and stable; -0 equals 0, NaN last. argsort gives the positions, i32 */
mf_value mf_sort(mf_value x, mf_axis axis MF_DEFAULT_(-1));
mf_value mf_argsort(mf_value x, mf_axis axis MF_DEFAULT_(-1));
/* x -> x: descending and stable; NaN first */
mf_value mf_sort_descending(mf_value x, mf_axis axis MF_DEFAULT_(-1));
mf_value mf_argsort_descending(mf_value x, mf_axis axis MF_DEFAULT_(-1));
/* x, x -> tuple: (keys, values), sorted by the keys; stable. Both have one shape */
mf_value mf_sort_key_value(mf_value keys, mf_value values, int axis);
/* (n), (...) -> (...): i32: the position at which each x would have to be inserted to keep the
 * order: before equal elements, or if right behind them */
mf_value mf_searchsorted(mf_value sorted, mf_value x, bool right MF_DEFAULT_(false));
/* (...), (...) -> (...): bool: whether each x is an element of `among` */
mf_value mf_isin(mf_value x, mf_value among);
/* (...) -> (size): the distinct elements in ascending order: the first `size` of them, or filled up
 * with .fill_value (mf_i(0), not 0; by default the least element) */
typedef struct mf_unique_options {
    mf_value fill_value;
    mf_reserved reserved_;
} mf_unique_options;
mf_value mf_unique(mf_value x, int64_t size);
mf_value mf_unique_opt(mf_value x, int64_t size, const mf_unique_options *o);
/* (...) -> tuple of (size): the indices, one array for each dimension, of the first `size` elements
 * that are not 0; filled up with 0 */
mf_value mf_nonzero(mf_value x, int64_t size);
/* (...) -> (size, rank): the same indices, one row for each element; (...) -> (size): in the
 * raveled array */
mf_value mf_argwhere(mf_value x, int64_t size);
mf_value mf_flatnonzero(mf_value x, int64_t size);
/* keys -> x: i32: the positions that sort by the last of several keys of one shape, where that is
 * equal by the one before, and so on; stable. A list, or the rows of an array */
mf_value mf_lexsort(mf_value keys, mf_axis axis MF_DEFAULT_(-1));

/* ---- sampled functions, polynomials */
/* (...), (n), (n) -> (...): np.interp: the piecewise linear function through the points (xp, fp),
 * with ascending xp; constant beyond both ends */
mf_value mf_interp(mf_value x, mf_value xp, mf_value fp);
/* (..., n, ...) -> (...): np.trapezoid: the integral along .axis by the trapezoidal rule, with
 * spacing .dx, or at the positions .x, a vector or an array of y's shape */
typedef struct mf_trapezoid_options {
    mf_reserved begin_;
    mf_value x;
    double dx MF_DEFAULT_(1);
    mf_axis axis MF_DEFAULT_(-1);
    mf_reserved reserved_;
} mf_trapezoid_options;
mf_value mf_trapezoid(mf_value y);
mf_value mf_trapezoid_opt(mf_value y, const mf_trapezoid_options *o);
/* (..., n, ...) -> (..., n, ...): np.gradient: central differences divided by the spacing,
 * one-sided at both ends; of several axes (MF_ALL: each) a list */
mf_value mf_gradient(mf_value x, double spacing MF_DEFAULT_(1), mf_axis axis MF_DEFAULT_(MF_ALL));
/* x -> x: np.unwrap: jumps of half a period or more are undone by whole periods */
mf_value mf_unwrap(mf_value x, double period MF_DEFAULT_(6.283185307179586),
                   int axis MF_DEFAULT_(-1));
/* -> (count): f32: base^y for evenly spaced y from start to stop (.base: 10 by default); from start
 * to stop with one quotient between neighbours (MF_ERROR_ARGUMENT if their signs differ) */
typedef struct mf_logspace_options {
    double base;
    mf_dtype dtype;
    bool exclude_endpoint;
    mf_reserved reserved_;
} mf_logspace_options;
mf_value mf_logspace(double start, double stop, int64_t count);
mf_value mf_logspace_opt(double start, double stop, int64_t count, const mf_logspace_options *o);
mf_value mf_geomspace(double start, double stop, int64_t count);
/* -> (count): f32: NumPy's symmetric windows, which fall from 1 in the middle: 0.5 + 0.5 cos,
 * 0.54 + 0.46 cos, 0.42 + 0.5 cos + 0.08 cos(2 ...), a triangle, and i0(beta sqrt(1 - t^2)) */
mf_value mf_hanning(int64_t count);
mf_value mf_hamming(int64_t count);
mf_value mf_blackman(int64_t count);
mf_value mf_bartlett(int64_t count);
mf_value mf_kaiser(int64_t count, double beta);
/* (n), (...) -> (...): p[0] x^(n-1) + ... + p[n-1] */
mf_value mf_polyval(mf_value p, mf_value x);
/* (n), (n) or (n, k) -> (degree + 1) or (degree + 1, k): np.polyfit: the coefficients for
 * mf_polyval, highest power first, that minimise the sum of the squares of polyval(p, x) - y */
mf_value mf_polyfit(mf_value x, mf_value y, int64_t degree);
/* (n) -> (n + 1): np.poly: the coefficients of the polynomial with these zeros and 1 in front;
 * floats; of no zeros the number 1 */
mf_value mf_poly(mf_value seq_of_zeros);
/* (n) -> (n - 1): np.roots: the zeros, c64 or c128, in no particular order; zeros at 0 count. NaN
 * if p[0] is 0. Multiple zeros are as inaccurate as in NumPy, and have no derivative. Meant for
 * degrees up to some tens */
mf_value mf_roots(mf_value p);
/* (m), (n) -> (max(m, n)): the sum and the difference; (m), (n) -> (m + n - 1): the product,
 * floats. Leading zeros stay */
mf_value mf_polyadd(mf_value a1, mf_value a2);
mf_value mf_polysub(mf_value a1, mf_value a2);
mf_value mf_polymul(mf_value a1, mf_value a2);
/* (m), (n) -> tuple of (max(m - n + 1, 1)), (m): the quotient, and the remainder with its leading
 * zeros, as in JAX; floats */
mf_value mf_polydiv(mf_value u, mf_value v);
/* (n) -> (n - m), or (n + m): the m-th derivative; the m-th integral, with constants 0; floats */
mf_value mf_polyder(mf_value p, int m MF_DEFAULT_(1));
mf_value mf_polyint(mf_value p, int m MF_DEFAULT_(1));
/* (n) -> (n, .columns): the powers of each x, from .columns - 1 down to 0, or with .increasing from
 * 0 up; n columns by default */
typedef struct mf_vander_options {
    mf_reserved begin_;
    int64_t columns MF_DEFAULT_(MF_END);
    bool increasing;
    mf_reserved reserved_;
} mf_vander_options;
mf_value mf_vander(mf_value x);
mf_value mf_vander_opt(mf_value x, const mf_vander_options *o);
/* (n), (k) -> (n + k - 1), the longer one's size, or (n - k + 1): in the modes full (mf_convolve's
 * default), same and valid (mf_correlate's default), as NumPy's. mf_correlate: the sum of a[n + i]
 * conj(v[i]). Floats */
typedef enum mf_convolve_mode {
    MF_CONVOLVE_FULL = 0,
    MF_CONVOLVE_SAME,
    MF_CONVOLVE_VALID
} mf_convolve_mode;
mf_value mf_convolve(mf_value a, mf_value v, mf_convolve_mode mode MF_DEFAULT_(MF_CONVOLVE_FULL));
mf_value mf_correlate(mf_value a, mf_value v, mf_convolve_mode mode MF_DEFAULT_(MF_CONVOLVE_VALID));

/* ---- comparing whole arrays, and the norm of a tree */
/* x, y -> (): bool: whether shapes and elements are equal */
mf_value mf_array_equal(mf_value a, mf_value b);
/* (...), (...) -> (...): bool, |a - b| <= 1e-8 + 1e-5 |b|, as NumPy */
mf_value mf_isclose(mf_value a, mf_value b);
/* (...), (...) -> (): bool: whether mf_isclose holds everywhere */
mf_value mf_allclose(mf_value a, mf_value b);
/* tree -> (): optax.global_norm: the square root of the sum of the squares of all leaves */
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
