/* manyfold/ops.h - operations on arrays, under lax's and NumPy's names.
 *
 * Operands are arrays, tracers, or C numbers; dtypes promote and shapes broadcast as in JAX
 * (weak numbers give way). The table of promotion is that of JAX with x64 off, so i32 with u32
 * is i32; only an operand of 64 bits gives a result of 64. Outside a transform an operation runs
 * at once; inside it becomes an equation of the program being traced. Errors: MF_ERROR_SHAPE
 * where shapes do not broadcast or fit, MF_ERROR_DTYPE where the operation is not defined for a
 * dtype, MF_ERROR_AXIS for an axis beyond the rank. */
#ifndef MANYFOLD_OPS_H
#define MANYFOLD_OPS_H
#ifndef MF_CHECK_HEADERS_
#pragma GCC system_header
#endif

#include <manyfold/function.h>

MF_BEGIN_

/* ---- two operands, elementwise, with promotion and broadcasting */
mf_value mf_add(mf_value a, mf_value b);
mf_value mf_sub(mf_value a, mf_value b);
mf_value mf_mul(mf_value a, mf_value b);
mf_value mf_div(mf_value a, mf_value b);          /* true division: integers become floats */
mf_value mf_floor_divide(mf_value a, mf_value b); /* towards minus infinity, as NumPy's // */
mf_value mf_remainder(mf_value a, mf_value b);    /* NumPy's %: the divisor's sign; x % 0 is 0 */
/* lax.div: integers truncate; x/0 is -1 (unsigned: all ones), INT_MIN/-1 is INT_MIN */
mf_value mf_lax_div(mf_value a, mf_value b);

mf_value mf_lax_rem(mf_value a, mf_value b); /* lax.rem: the dividend's sign; x%0 is x */
/* An integer constant as exponent is integer_pow; a negative one on integers gives floats */
mf_value mf_pow(mf_value a, mf_value b);

mf_value mf_atan2(mf_value a, mf_value b);
mf_value mf_nextafter(mf_value a, mf_value b);
/* NaN wins; 0 is greater than -0 */
mf_value mf_maximum(mf_value a, mf_value b);
mf_value mf_minimum(mf_value a, mf_value b);

mf_value mf_equal(mf_value a, mf_value b);
mf_value mf_not_equal(mf_value a, mf_value b);
mf_value mf_less(mf_value a, mf_value b);
mf_value mf_less_equal(mf_value a, mf_value b);
mf_value mf_greater(mf_value a, mf_value b);
mf_value mf_greater_equal(mf_value a, mf_value b);
mf_value mf_logical_and(mf_value a, mf_value b);
mf_value mf_logical_or(mf_value a, mf_value b);
mf_value mf_logical_xor(mf_value a, mf_value b);
mf_value mf_bitwise_and(mf_value a, mf_value b);
mf_value mf_bitwise_or(mf_value a, mf_value b);
mf_value mf_bitwise_xor(mf_value a, mf_value b);
mf_value mf_left_shift(mf_value a, mf_value b); /* a shift by the width or more gives 0 */
/* Arithmetic for signed, logical for unsigned dtypes */
mf_value mf_right_shift(mf_value a, mf_value b);

mf_value mf_right_shift_logical(mf_value a, mf_value b);
mf_value mf_logaddexp(mf_value a, mf_value b); /* log(e^a + e^b) without overflow */
/* ---- one operand, elementwise; integers become floats where the result is not integral */
mf_value mf_neg(mf_value x);
mf_value mf_abs(mf_value x);
mf_value mf_sign(mf_value x);
mf_value mf_square(mf_value x);
/* round: half to even */
mf_value mf_floor(mf_value x);
mf_value mf_ceil(mf_value x);
mf_value mf_round(mf_value x);

mf_value mf_sqrt(mf_value x);
mf_value mf_rsqrt(mf_value x);
mf_value mf_cbrt(mf_value x);
mf_value mf_exp(mf_value x);
mf_value mf_exp2(mf_value x);
mf_value mf_expm1(mf_value x);
mf_value mf_log(mf_value x);
mf_value mf_log1p(mf_value x);
mf_value mf_sin(mf_value x);
mf_value mf_cos(mf_value x);
mf_value mf_tan(mf_value x);
mf_value mf_asin(mf_value x);
mf_value mf_acos(mf_value x);
mf_value mf_atan(mf_value x);
mf_value mf_sinh(mf_value x);
mf_value mf_cosh(mf_value x);
mf_value mf_tanh(mf_value x);
mf_value mf_sigmoid(mf_value x);
mf_value mf_erf(mf_value x);
mf_value mf_erf_inv(mf_value x);
mf_value mf_lgamma(mf_value x);
mf_value mf_reciprocal(mf_value x);
mf_value mf_integer_pow(mf_value x, int y);
mf_value mf_logical_not(mf_value x);
mf_value mf_bitwise_not(mf_value x);
/* integers: the bits that are set; the zeros before the first of them */
mf_value mf_population_count(mf_value x);
mf_value mf_clz(mf_value x);

mf_value mf_isfinite(mf_value x);
mf_value mf_isnan(mf_value x);
mf_value mf_isinf(mf_value x);
mf_value mf_astype(mf_value x, mf_dtype dtype);  /* float to integer saturates, NaN gives 0 */
mf_value mf_bitcast(mf_value x, mf_dtype dtype); /* dtypes of one width */
mf_value mf_stop_gradient(mf_value x);           /* over a whole tree */
/* ---- complex numbers. Where an operation has no sense for them (orders, bits, rounding)
 * MF_ERROR_DTYPE says so. */
mf_value mf_complex(mf_value re, mf_value im); /* floats of one width: c64 or c128 */
/* Of real numbers: themselves, zeros, themselves */
mf_value mf_real(mf_value x);
mf_value mf_imag(mf_value x);
mf_value mf_conj(mf_value x);

mf_value mf_angle(mf_value x);
/* ---- three operands */
mf_value mf_where(mf_value c, mf_value a, mf_value b);
mf_value mf_clip(mf_value x, mf_value low, mf_value high);
/* ---- shape */
mf_value mf_reshape(mf_value x, mf_shape shape); /* one dimension may be -1 */
mf_value mf_ravel(mf_value x);
mf_value mf_transpose(mf_value x, mf_ints axes); /* MF_INTS0: reversed */
mf_value mf_swapaxes(mf_value x, int a, int b);
mf_value mf_moveaxis(mf_value x, int from, int to);
mf_value mf_broadcast_to(mf_value x, mf_shape shape); /* an array outside transforms is held once */
mf_value mf_expand_dims(mf_value x, int axis);
/* MF_ALL: every dimension of size 1 */
mf_value mf_squeeze(mf_value x, mf_axis axis MF_DEFAULT_(MF_ALL));
/* lax.rev; an axis, mf_axes(...) or MF_ALL */
mf_value mf_flip(mf_value x, mf_axis axis MF_DEFAULT_(MF_ALL));
/* parts: a list or tuple; or an array, whose rows they are */
mf_value mf_concatenate(mf_value parts, int axis MF_DEFAULT_(0));

mf_value mf_stack(mf_value parts, int axis MF_DEFAULT_(0));
mf_value mf_split(mf_value x, int sections, int axis MF_DEFAULT_(0)); /* a list */
/* lax.pad: negative low and high crop */
mf_value mf_pad(mf_value x, mf_value value, mf_ints low, mf_ints high, mf_ints interior);
/* lax.slice; strides may be MF_INTS0 */
mf_value mf_slice_in(mf_value x, mf_ints start, mf_ints limit, mf_ints strides);

mf_value mf_slice_in_dim(mf_value x, int64_t start, int64_t limit, int64_t stride, int axis);
/* starts: a list of scalars; clamped */
mf_value mf_dynamic_slice(mf_value x, mf_value starts, mf_shape sizes);

mf_value mf_dynamic_update_slice(mf_value x, mf_value update, mf_value starts); /* likewise */
mf_value mf_dynamic_slice_in_dim(mf_value x, mf_value start, int64_t size, int axis);
mf_value mf_dynamic_update_slice_in_dim(mf_value x, mf_value update, mf_value start, int axis);
mf_value mf_iota(mf_dtype dtype, mf_shape shape, int axis);
mf_value mf_tril(mf_value x, int k MF_DEFAULT_(0));
mf_value mf_triu(mf_value x, int k MF_DEFAULT_(0));
mf_value mf_tile(mf_value x, mf_ints reps); /* the whole, so often along the last dimensions */
/* Each element; MF_ALL: of the raveled array */
mf_value mf_repeat(mf_value x, int64_t count, mf_axis axis MF_DEFAULT_(MF_ALL));
/* What leaves at the end comes in at the front; MF_ALL: through all elements */
mf_value mf_roll(mf_value x, int64_t shift, mf_axis axis MF_DEFAULT_(MF_ALL));
/* The n-th difference of neighbours */
mf_value mf_diff(mf_value x, int n MF_DEFAULT_(1), int axis MF_DEFAULT_(-1));
/* A vector on the k-th diagonal of zeros, or that diagonal of a matrix */
mf_value mf_diag(mf_value x, int k MF_DEFAULT_(0));
/* A list of grids, one a vector; ij: matrix order, else the first two swap (NumPy's "xy") */
mf_value mf_meshgrid(mf_value parts, bool ij);
/* ---- indexing. Out of bounds: gathers give NaN or the least integer for take (JAX's "fill"),
 * scatters drop. Negative indices count from the end. */
/* The slices of x along axis at the indices. .mode says what becomes of those out of bounds: the
 * fill; the nearest that is in bounds (a negative one then is below all, not counted from the
 * end); the remainder by the size. */
typedef enum mf_take_mode {
    MF_TAKE_FILL = 0,
    MF_TAKE_CLIP,
    MF_TAKE_WRAP
} mf_take_mode;
typedef struct mf_take_options {
    mf_take_mode mode;
    mf_reserved reserved_;
} mf_take_options;
/* MF_ALL, the default: of the flattened array, as NumPy */
mf_value mf_take(mf_value x, mf_value indices, mf_axis axis MF_DEFAULT_(MF_ALL));

mf_value mf_take_opt(mf_value x, mf_value indices, mf_axis axis, const mf_take_options *o);
mf_value mf_take_along_axis(mf_value x, mf_value indices, int axis MF_DEFAULT_(-1));
/* x.at[indices].set(update) along axis 0 */
mf_value mf_index_update(mf_value x, mf_value indices, mf_value update);
/* x.at[indices].add(update): repeated indices add up, in order */
mf_value mf_index_add(mf_value x, mf_value indices, mf_value update);
/* x.at[indices].multiply(update) */
mf_value mf_index_multiply(mf_value x, mf_value indices, mf_value update);
/* Ties share the gradient */
mf_value mf_index_min(mf_value x, mf_value indices, mf_value update);
mf_value mf_index_max(mf_value x, mf_value indices, mf_value update);
/* x.at[path].set(update), .add, .multiply, .min and .max: x with what mf_get(x, path...) names
 * changed. The path is that of mf_get: numbers, ranges, None, arrays of indices. The update is
 * broadcast to what is named; a place named twice is changed twice, set by the last. What lies
 * out of bounds is dropped, but a number that does is an error. Ties of min and max share the
 * gradient. x.at[path].get() is mf_get. */
mf_value mf_at_set_n(mf_value x, mf_value update, const mf_value *path, int count);
mf_value mf_at_add_n(mf_value x, mf_value update, const mf_value *path, int count);
mf_value mf_at_multiply_n(mf_value x, mf_value update, const mf_value *path, int count);
mf_value mf_at_min_n(mf_value x, mf_value update, const mf_value *path, int count);
mf_value mf_at_max_n(mf_value x, mf_value update, const mf_value *path, int count);
/* How often each of 0 .. length-1 occurs in x (i32); what is greater is dropped, negative counts
 * as 0 */
mf_value mf_bincount(mf_value x, int64_t length);
/* One where x is the class, else zero, along a new dimension: the last, or .axis of the result;
 * f32 or .dtype. */
typedef struct mf_one_hot_options {
    mf_reserved begin_;
    int axis MF_DEFAULT_(-1);
    mf_dtype dtype;
    mf_reserved reserved_;
} mf_one_hot_options;
mf_value mf_one_hot(mf_value x, int num_classes);
mf_value mf_one_hot_opt(mf_value x, int num_classes, const mf_one_hot_options *o);
/* ---- products */
mf_value mf_dot(mf_value a, mf_value b);
mf_value mf_matmul(mf_value a, mf_value b);
typedef struct mf_dot_options {
    mf_ints lhs_contracting, rhs_contracting, lhs_batch, rhs_batch;
    mf_dtype preferred_element_type;
    mf_reserved reserved_;
} mf_dot_options;
/* vdot: of the raveled operands, the first conjugated */
mf_value mf_outer(mf_value a, mf_value b);
mf_value mf_inner(mf_value a, mf_value b);
mf_value mf_vdot(mf_value a, mf_value b);
/* Over the last axes of a and the first of b */
mf_value mf_tensordot(mf_value a, mf_value b, int axes MF_DEFAULT_(2));

mf_value mf_tensordot_axes(mf_value a, mf_value b, mf_ints a_axes, mf_ints b_axes);
/* NumPy's einsum: mf_einsum("ij,jk->ik", a, b), mf_einsum("...ii", a). Without "->" the
 * subscripts that occur once, in alphabetical order. At most 16 operands, contracted from the
 * left to the right. MF_ERROR_ARGUMENT and MF_ERROR_SHAPE name the subscript. */
mf_value mf_einsum_n(const char *subscripts, const mf_value *operands, int count);
mf_value mf_dot_general_opt(mf_value a, mf_value b, const mf_dot_options *o);
/* ---- reductions. axis: a number, mf_axes(0, 1), or MF_ALL, the default of the macros:
 * mf_sum(x), mf_sum(x, 0), mf_sum(x, .axis = mf_axes(0, 1), .keepdims = true). where: a mask of
 * elements that count. One order, fixed by op and shape. */
/* ddof: var and std divide by n - ddof */
typedef struct mf_reduce_options {
    mf_reserved begin_;
    mf_axis axis MF_DEFAULT_(MF_ALL);
    bool keepdims;
    mf_dtype dtype;
    mf_value where;
    int ddof;
    mf_reserved reserved_;
} mf_reduce_options;
/* Bool and small integers sum in i32 */
mf_value mf_sum(mf_value x);
mf_value mf_sum_opt(mf_value x, const mf_reduce_options *o);

mf_value mf_prod(mf_value x);
mf_value mf_prod_opt(mf_value x, const mf_reduce_options *o);
/* Of integers: f32 */
mf_value mf_mean(mf_value x);
mf_value mf_mean_opt(mf_value x, const mf_reduce_options *o);

mf_value mf_var(mf_value x);
mf_value mf_trace(mf_value x); /* the sum of x[i, i] */
mf_value mf_var_opt(mf_value x, const mf_reduce_options *o);
mf_value mf_std(mf_value x);
mf_value mf_std_opt(mf_value x, const mf_reduce_options *o);
mf_value mf_max(mf_value x);
mf_value mf_max_opt(mf_value x, const mf_reduce_options *o);
mf_value mf_min(mf_value x);
mf_value mf_min_opt(mf_value x, const mf_reduce_options *o);
mf_value mf_any(mf_value x);
mf_value mf_any_opt(mf_value x, const mf_reduce_options *o);
mf_value mf_all(mf_value x);
mf_value mf_all_opt(mf_value x, const mf_reduce_options *o);
/* An axis of the functions from here on that is left out is JAX's: all of the elements (MF_ALL)
 * for argmax, argmin, cumsum, cumprod, median, quantile and logsumexp, the first for cummax,
 * cummin and cumlogsumexp, the last for sorts, top_k and softmax. MF_ALL: x is raveled. */
/* i32; the first of equals; a NaN wins */
mf_value mf_argmax(mf_value x, mf_axis axis MF_DEFAULT_(MF_ALL));
mf_value mf_argmin(mf_value x, mf_axis axis MF_DEFAULT_(MF_ALL));
/* Running results: mf_cumsum(x, 0), mf_cumsum(x, 0, .reverse = true) from the back to the front. */
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
/* Stable, ascending; -0 and 0 are equal, NaN last */
mf_value mf_sort(mf_value x, mf_axis axis MF_DEFAULT_(-1));
mf_value mf_argsort(mf_value x, mf_axis axis MF_DEFAULT_(-1));
/* Stable too; NaN first */
mf_value mf_sort_descending(mf_value x, mf_axis axis MF_DEFAULT_(-1));
mf_value mf_argsort_descending(mf_value x, mf_axis axis MF_DEFAULT_(-1));
/* A tuple: the k greatest, greatest first, and their positions (i32). Floats in IEEE total
 * order: NaN, inf, ..., 0, -0, ..., -inf, NaN with a sign. */
mf_value mf_top_k(mf_value x, int64_t k, int axis MF_DEFAULT_(-1));
/* Linear between neighbours; axis: a number or MF_ALL; q: a number, or a list, whose dimension
 * comes first; NaN where there is one */
mf_value mf_median(mf_value x, mf_axis axis MF_DEFAULT_(MF_ALL));
mf_value mf_quantile(mf_value x, mf_value q, mf_axis axis MF_DEFAULT_(MF_ALL));
/* i32 positions at which each x keeps the order, behind its equals if right */
mf_value mf_searchsorted(mf_value sorted, mf_value x, bool right MF_DEFAULT_(false));
/* A tuple of both, ordered by keys; stable */
mf_value mf_sort_key_value(mf_value keys, mf_value values, int axis);

mf_value mf_logsumexp(mf_value x, mf_axis axis MF_DEFAULT_(MF_ALL));
mf_value mf_softmax(mf_value x, mf_axis axis MF_DEFAULT_(-1));
mf_value mf_log_softmax(mf_value x, mf_axis axis MF_DEFAULT_(-1));
/* Gelu by tanh, as in JAX */
mf_value mf_relu(mf_value x);
mf_value mf_gelu(mf_value x);
mf_value mf_silu(mf_value x);
mf_value mf_softplus(mf_value x);
mf_value mf_gelu_exact(mf_value x); /* by erf: jax.nn.gelu(x, approximate=False) */
mf_value mf_leaky_relu(mf_value x, double negative_slope MF_DEFAULT_(0.01));
mf_value mf_elu(mf_value x, double alpha MF_DEFAULT_(1.0));
mf_value mf_hard_swish(mf_value x);
/* NaN and the infinities as numbers: 0 and the dtype's greatest and least, or what .nan, .posinf
 * and .neginf say. */
typedef struct mf_nan_to_num_options {
    mf_value nan, posinf, neginf;
    mf_reserved reserved_;
} mf_nan_to_num_options;
mf_value mf_nan_to_num(mf_value x);
mf_value mf_nan_to_num_opt(mf_value x, const mf_nan_to_num_options *o);
mf_value mf_global_norm(mf_value tree); /* the square root of the sum of all leaves' squares */
mf_value mf_array_equal(mf_value a, mf_value b); /* bool scalar; false where shapes differ */
mf_value mf_allclose(mf_value a, mf_value b);    /* rtol 1e-5, atol 1e-8, as NumPy */
/* ---- convolution and windows */
/* lax.conv_general_dilated. Lists have an entry a spatial dimension; unset: ones. f16 and bf16
 * sum in f32. MF_ERROR_SHAPE where features or batch do not divide into the groups, or
 * dimension_numbers do not suit the operands. */
typedef struct mf_conv_options {
    /* padding: MF_VALID unless said */
    mf_ints window_strides, lhs_dilation, rhs_dilation;
    mf_padding padding;
    mf_ints padding_low, padding_high;
    const char *dimension_numbers; /* "NHWC,HWIO->NHWC" when NULL */
    int64_t feature_group_count, batch_group_count;
    mf_dtype preferred_element_type;
    mf_reserved reserved_;
} mf_conv_options;
mf_value mf_conv_general_dilated(mf_value x, mf_value kernel);
mf_value mf_conv_general_dilated_opt(mf_value x, mf_value kernel, const mf_conv_options *o);
/* Over every dimension of x: lax.reduce_window with sum, max or min. A list has an entry a
 * dimension; unset: ones, and no padding. What lies in the padding (negative: it crops) or
 * between dilated elements acts as 0, the lowest or the highest value; NaN wins, and f16 and
 * bf16 are summed in f32. Entries are 2^31 at most (MF_ERROR_ARGUMENT), also those of
 * convolutions. */
typedef struct mf_window_options {
    mf_ints window, strides;
    mf_padding padding;
    mf_ints padding_low, padding_high, base_dilation, window_dilation;
    mf_reserved reserved_;
} mf_window_options;
mf_value mf_reduce_window_sum_opt(mf_value x, const mf_window_options *o);
mf_value mf_reduce_window_max_opt(mf_value x, const mf_window_options *o);
mf_value mf_reduce_window_min_opt(mf_value x, const mf_window_options *o);
/* NHWC pooling over the spatial dimensions, which stand before the last, as flax's; window_shape
 * has an entry for each. Strides default to 1, padding to MF_VALID; average counts the padding. */
typedef struct mf_pool_options {
    mf_ints window_shape, strides;
    mf_padding padding;
    mf_reserved reserved_;
} mf_pool_options;
mf_value mf_max_pool_opt(mf_value x, const mf_pool_options *o);
mf_value mf_avg_pool_opt(mf_value x, const mf_pool_options *o);

#define MF_INTS0 ((mf_ints){ .count = 0 })
#ifndef __cplusplus
#define mf_take(x, ...) MF_TAKE_I_(MF_COMMA_(__VA_ARGS__), x, __VA_ARGS__)
#define MF_TAKE_I_(axis, ...) MF_TAKE_P_(axis, __VA_ARGS__)
#define MF_TAKE_P_(axis, ...) MF_TAKE_##axis##_(__VA_ARGS__)
#define MF_TAKE_0_(x, indices) \
    mf_take_opt(mf_v(x), mf_v(indices), MF_ALL, (const mf_take_options *)0)
#define MF_TAKE_1_(x, indices, ...)                                \
    mf_take_opt(mf_v(x), mf_v(indices), MF_FIRST_(__VA_ARGS__, 0), \
                MF_OPTIONS_(mf_take_options, __VA_ARGS__))
#endif

MF_END_

#include <manyfold/lift/ops.h>

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
