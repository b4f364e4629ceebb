/* manyfold/lax.h - operations under jax.lax's names: what NumPy has no word for, and what it does
 * in another way; special functions, slices by numbers and by values, convolutions and windows.
 *
 * Shapes open a comment as in manyfold/numpy.h: "..." is any number of dimensions. Operands promote
 * and broadcast where several are (...). Lists have an entry a dimension; MF_INTS0 is none.
 * Results belong to the innermost scope; any thread. Errors: MF_ERROR_SHAPE, MF_ERROR_DTYPE and
 * MF_ERROR_AXIS as there. */
#ifndef MANYFOLD_LAX_H
#define MANYFOLD_LAX_H
#ifndef MF_CHECK_HEADERS_
#pragma GCC system_header
#endif

#include <manyfold/numpy.h>

MF_BEGIN_

/* ---- element by element. (...), (...) -> (...) */
/* lax.div: integers truncate; x/0 is -1 (unsigned: all ones), INT_MIN/-1 is INT_MIN */
mf_value mf_lax_div(mf_value a, mf_value b);
mf_value mf_lax_rem(mf_value a, mf_value b); /* lax.rem: the dividend's sign; x%0 is x */
mf_value mf_right_shift_logical(mf_value a, mf_value b);
/* (...), (...) -> (...): two floats of one width as c64 or c128 */
mf_value mf_complex(mf_value re, mf_value im);
/* x -> x: x^y by products; of integers with a negative y f32 */
mf_value mf_integer_pow(mf_value x, int y);
/* x -> x: floats; integers become f32. rsqrt also of complex numbers */
mf_value mf_rsqrt(mf_value x);
mf_value mf_erf(mf_value x);
mf_value mf_erf_inv(mf_value x);
mf_value mf_lgamma(mf_value x);
/* x -> x: of integers the bits that are set; the zeros before the first of them */
mf_value mf_population_count(mf_value x);
mf_value mf_clz(mf_value x);
/* x -> x: the same bits as another dtype of one width */
mf_value mf_bitcast(mf_value x, mf_dtype dtype);
/* tree -> tree: as it is, and constant to derivatives */
mf_value mf_stop_gradient(mf_value x);

/* ---- slices, by numbers */
/* x, () -> by low and high: x with `value` before, behind and, `interior` of them, between its
 * elements; negative low and high crop */
mf_value mf_pad(mf_value x, mf_value value, mf_ints low, mf_ints high, mf_ints interior);
/* x -> (limit - start, over strides): x[start:limit:strides], a dimension an entry */
mf_value mf_slice_in(mf_value x, mf_ints start, mf_ints limit, mf_ints strides);
/* (..., n, ...) -> (..., (limit - start) / stride, ...): of one dimension */
mf_value mf_slice_in_dim(mf_value x, int64_t start, int64_t limit, int64_t stride, int axis);
/* ---- slices, by values: a start that would go over the end is moved inside */
/* x, starts -> sizes: a list of integer scalars, one a dimension */
mf_value mf_dynamic_slice(mf_value x, mf_value starts, mf_shape sizes);
/* x, update, starts -> x: x with the update, of its rank, in place of that slice */
mf_value mf_dynamic_update_slice(mf_value x, mf_value update, mf_value starts);
/* (..., n, ...), () -> (..., size, ...): of one dimension */
mf_value mf_dynamic_slice_in_dim(mf_value x, mf_value start, int64_t size, int axis);
/* (..., n, ...), (..., size, ...), () -> (..., n, ...) */
mf_value mf_dynamic_update_slice_in_dim(mf_value x, mf_value update, mf_value start, int axis);
/* -> shape: each element's index along an axis */
mf_value mf_iota(mf_dtype dtype, mf_shape shape, int axis);

/* ---- order */
/* (..., n, ...) -> tuple of (..., k, ...): the k greatest, greatest first, and their positions
 * (i32). Floats in IEEE total order: NaN, inf, ..., 0, -0, ..., -inf, NaN with a sign. */
mf_value mf_top_k(mf_value x, int64_t k, int axis MF_DEFAULT_(-1));

/* ---- products and convolutions */
/* x, y -> batch dimensions, then those left of a, then those left of b: a sum of products over the
 * contracting ones, which pair up as the batch ones do. All unset: the matrices' product without
 * batch or contraction. */
typedef struct mf_dot_options {
    mf_ints lhs_contracting, rhs_contracting, lhs_batch, rhs_batch;
    mf_dtype preferred_element_type;
    mf_reserved reserved_;
} mf_dot_options;
mf_value mf_dot_general_opt(mf_value a, mf_value b, const mf_dot_options *o);
/* (n, h, w, c), (kh, kw, c, f) -> (n, h', w', f): lax.conv_general_dilated, of any number of
 * spatial dimensions; .dimension_numbers say another order. Lists have an entry a spatial
 * dimension; unset: ones; padding: MF_VALID unless said. f16 and bf16 sum in f32. MF_ERROR_SHAPE
 * where features or batch do not divide into the groups, or dimension_numbers do not suit the
 * operands. */
typedef struct mf_conv_options {
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
/* (...) -> (...): lax.reduce_window with sum, max or min, over every dimension. A list has an entry
 * a dimension; unset: ones, and no padding. What lies in the padding (negative: it crops) or
 * between dilated elements acts as 0, the lowest or the highest value; NaN wins, and f16 and bf16
 * are summed in f32. Entries are 2^31 at most (MF_ERROR_ARGUMENT), also those of convolutions. */
typedef struct mf_window_options {
    mf_ints window, strides;
    mf_padding padding;
    mf_ints padding_low, padding_high, base_dilation, window_dilation;
    mf_reserved reserved_;
} mf_window_options;
mf_value mf_reduce_window_sum_opt(mf_value x, const mf_window_options *o);
mf_value mf_reduce_window_max_opt(mf_value x, const mf_window_options *o);
mf_value mf_reduce_window_min_opt(mf_value x, const mf_window_options *o);

MF_END_

#include <manyfold/lift/lax.h>

#endif
