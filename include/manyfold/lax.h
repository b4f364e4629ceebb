/* manyfold/lax.h - operations under jax.lax's names: those that NumPy lacks or defines differently:
 * some elementwise functions, static and dynamic slices, top_k, general products, convolutions and
 * windowed reductions.
 *
 * Shapes open a comment as in manyfold/base.h: "..." is any number of dimensions. Unlike in JAX,
 * operands promote and broadcast where several are (...). A list (mf_ints) has one entry for each
 * dimension; MF_INTS0 is the default.
 * Results belong to the innermost scope; any thread. Errors: MF_ERROR_SHAPE, MF_ERROR_DTYPE and
 * MF_ERROR_AXIS as in manyfold/numpy.h. */
#ifndef MANYFOLD_LAX_H
#define MANYFOLD_LAX_H
#ifndef MF_CHECK_HEADERS_
#pragma GCC system_header
#endif

#include <manyfold/numpy.h>

MF_BEGIN_

/* ---- elementwise. (...), (...) -> (...) */
/* lax.div: integers truncate towards zero; x / 0 is -1 (unsigned: all ones), INT_MIN / -1 is
 * INT_MIN */
mf_value mf_lax_div(mf_value a, mf_value b);
mf_value mf_lax_rem(mf_value a, mf_value b); /* lax.rem: the dividend's sign; x % 0 is x */
mf_value mf_right_shift_logical(mf_value a, mf_value b); /* fills with zeros, also if signed */
/* (...), (...) -> (...): c64 or c128, from real and imaginary parts of the same dtype, f32 or
 * f64 */
mf_value mf_complex(mf_value re, mf_value im);
/* x -> x: x^y by repeated multiplication; integers with a negative y become f32 */
mf_value mf_integer_pow(mf_value x, int y);
/* x -> x: of floats; integers become f32 */
mf_value mf_rsqrt(mf_value x);   /* 1 / sqrt(x), also of complex numbers */
mf_value mf_erf(mf_value x);     /* the error function */
mf_value mf_erf_inv(mf_value x); /* its inverse */
mf_value mf_lgamma(mf_value x);  /* log |gamma(x)| */
/* x -> x: of integers: the number of bits that are set; the number of leading zeros */
mf_value mf_population_count(mf_value x);
mf_value mf_clz(mf_value x);
/* x -> x: the bits reinterpreted as a dtype of the same width */
mf_value mf_bitcast(mf_value x, mf_dtype dtype);
/* tree -> tree: unchanged, but constant for differentiation */
mf_value mf_stop_gradient(mf_value x);

/* ---- static slices: positions are C numbers */
/* x, () -> by low and high: lax.pad: adds low and high elements `value` before and behind each
 * dimension, and `interior` between neighbours; negative low and high cut elements off */
mf_value mf_pad(mf_value x, mf_value value, mf_ints low, mf_ints high, mf_ints interior);
/* x -> (limit - start) / strides, rounded up: x[start:limit:strides], one entry for each
 * dimension */
mf_value mf_slice_in(mf_value x, mf_ints start, mf_ints limit, mf_ints strides);
/* (..., n, ...) -> (..., (limit - start) / stride, ...): the same along one dimension */
mf_value mf_slice_in_dim(mf_value x, int64_t start, int64_t limit, int64_t stride, int axis);
/* ---- dynamic slices: positions are values. A negative start counts from the end; then
 * it is clamped, so that the whole slice lies inside x */
/* x, starts -> sizes: starts is a list of integer scalars, one for each dimension */
mf_value mf_dynamic_slice(mf_value x, mf_value starts, mf_shape sizes);
/* x, update, starts -> x: x with the slice of update's shape, at starts, replaced by update */
mf_value mf_dynamic_update_slice(mf_value x, mf_value update, mf_value starts);
/* (..., n, ...), () -> (..., size, ...): along one dimension */
mf_value mf_dynamic_slice_in_dim(mf_value x, mf_value start, int64_t size, int axis);
/* (..., n, ...), (..., size, ...), () -> (..., n, ...): along one dimension */
mf_value mf_dynamic_update_slice_in_dim(mf_value x, mf_value update, mf_value start, int axis);
/* -> shape: lax.broadcasted_iota: each element's index along an axis; i32 by default */
mf_value mf_iota(mf_dtype dtype, mf_shape shape, int axis);

/* ---- the greatest elements */
/* (..., n, ...) -> tuple of (..., k, ...): the k greatest elements, in descending order, and their
 * positions (i32). Floats are in IEEE total order: NaN, inf, ..., 0, -0, ..., -inf, NaN with a
 * sign. */
mf_value mf_top_k(mf_value x, int64_t k, int axis MF_DEFAULT_(-1));

/* ---- products and convolutions */
/* x, y -> batch dimensions, then the free ones of a, then those of b: lax.dot_general: sums the
 * products over the contracting dimensions, which are paired, as are the batch dimensions. With
 * nothing set, all products, as mf_tensordot with 0 axes. */
typedef struct mf_dot_options {
    mf_ints lhs_contracting, rhs_contracting, lhs_batch, rhs_batch;
    mf_dtype preferred_element_type;
    mf_reserved reserved_;
} mf_dot_options;
mf_value mf_dot_general_opt(mf_value a, mf_value b, const mf_dot_options *o);
/* (n, h, w, c), (kh, kw, c, f) -> (n, h', w', f): lax.conv_general_dilated, over any number of
 * spatial dimensions. Lists have one entry for each of them; strides and dilations are 1 by
 * default. padding is MF_VALID by default, or MF_SAME, or padding_low and padding_high.
 * dimension_numbers give another layout, in JAX's notation. f16 and bf16 are summed in f32.
 * MF_ERROR_SHAPE where groups do not divide features or batch, or dimension_numbers do not fit the
 * operands. */
typedef struct mf_conv_options {
    mf_ints window_strides, lhs_dilation, rhs_dilation;
    mf_padding padding;
    mf_ints padding_low, padding_high;
    const char *dimension_numbers; /* NULL: "NHWC,HWIO->NHWC", or its like in other dimensions */
    int64_t feature_group_count, batch_group_count;
    mf_dtype preferred_element_type;
    mf_reserved reserved_;
} mf_conv_options;
mf_value mf_conv_general_dilated(mf_value x, mf_value kernel);
mf_value mf_conv_general_dilated_opt(mf_value x, mf_value kernel, const mf_conv_options *o);
/* (...) -> (...): lax.reduce_window with sum, max or min, over every dimension. Lists have one
 * entry for each dimension; strides and dilations are 1 by default; padding is none by default.
 * Elements in the padding (negative padding crops) and between dilated ones count as 0, the lowest
 * or the highest value. NaN wins in max and min; f16 and bf16 are summed in f32. Entries of lists,
 * also of convolutions, are at most 2^31 (MF_ERROR_ARGUMENT). */
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
