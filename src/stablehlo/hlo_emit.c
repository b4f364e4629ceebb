/* Short emitters for the rules: each appends the operation that its name says. Types must already fit. Invariant: an emitter that has
 * nothing to do returns its operand. */
#include "ir/text/number_text.h"
#include "stablehlo/hlo.h"

#include <string.h>

enum { MOST_COUNTED = 1 << 16 }; /* in elements */

mf_hlo_value h_unary(mf_hlo *h, const char *op, mf_hlo_value x) { return h_op(h, op, x.type, &x, 1, NULL); }

mf_hlo_value h_binary(mf_hlo *h, const char *op, mf_hlo_value x, mf_hlo_value y)
{
    return h_op(h, op, x.type, (mf_hlo_value[]){ x, y }, 2, NULL);
}

static const mf_type *truth_of(const mf_type *t) { return t ? mf_type_with_dtype(t, MF_BOOL) : NULL; }

/* StableHLO compares complex numbers for equality only. */
static mf_hlo_value compare_parts(mf_hlo *h, const char *direction, mf_hlo_value x, mf_hlo_value y)
{
    mf_hlo_value xr = h_part(h, "real", x), xi = h_part(h, "imag", x), yr = h_part(h, "real", y), yi = h_part(h, "imag", y);
    return h_select(h, h_compare(h, "EQ", false, xr, yr), h_compare(h, direction, false, xi, yi), h_compare(h, direction, false, xr, yr));
}

mf_hlo_value h_compare(mf_hlo *h, const char *direction, bool total, mf_hlo_value x, mf_hlo_value y)
{
    if (x.type && mf_dtype_is_complex(x.type->dtype) && strcmp(direction, "EQ") != 0 && strcmp(direction, "NE") != 0)
        return compare_parts(h, direction, x, y);
    mf_dtype d = x.type ? x.type->dtype : MF_F32;
    const char *kind = mf_dtype_is_inexact(d) ? (total ? "TOTALORDER" : "FLOAT") : mf_dtype_is_signed(d) ? "SIGNED" : "UNSIGNED";
    return h_op(h, "compare", truth_of(x.type), (mf_hlo_value[]){ x, y }, 2,
                "compare_type = #stablehlo<comparison_type %s>, comparison_direction = #stablehlo<comparison_direction %s>", kind,
                direction);
}

mf_hlo_value h_select(mf_hlo *h, mf_hlo_value predicate, mf_hlo_value yes, mf_hlo_value no)
{
    return h_op(h, "select", yes.type, (mf_hlo_value[]){ predicate, yes, no }, 3, NULL);
}

mf_hlo_value h_convert(mf_hlo *h, mf_hlo_value x, mf_dtype dtype)
{
    if (!x.type || x.type->dtype == dtype)
        return x;
    return h_op(h, "convert", mf_type_with_dtype(x.type, dtype), &x, 1, NULL);
}

mf_dtype h_product_dtype(const mf_hlo *h, mf_dtype dtype) { return h->for_cpu && (dtype == MF_BF16 || dtype == MF_F16) ? MF_F32 : dtype; }

mf_hlo_value h_part(mf_hlo *h, const char *which, mf_hlo_value x)
{
    int count;
    return h_op(h, which, x.type ? mf_type_with_dtype(x.type, mf_number_dtype(x.type->dtype, &count)) : NULL, &x, 1, NULL);
}

mf_hlo_value h_conjugate(mf_hlo *h, mf_hlo_value x)
{
    mf_hlo_value re = h_part(h, "real", x), im = h_unary(h, "negate", h_part(h, "imag", x));
    return h_op(h, "complex", x.type, (mf_hlo_value[]){ re, im }, 2, NULL);
}

mf_hlo_value h_reshape(mf_hlo *h, mf_hlo_value x, const mf_type *type)
{
    if (x.type && type && mf_type_same_shape(x.type, type))
        return x;
    return h_op(h, "reshape", type, &x, 1, NULL);
}

mf_hlo_value h_broadcast(mf_hlo *h, mf_hlo_value x, const mf_type *type, const mf_intlist *where)
{
    return h_op(h, "broadcast_in_dim", type, &x, 1, "broadcast_dimensions = %s", h_ints(h, where));
}

mf_hlo_value h_count(mf_hlo *h, mf_hlo_value x)
{
    bool few = x.type && x.type->rank == 1 && x.type->size <= MOST_COUNTED && mf_dtype_is_int(x.type->dtype);
    return h->for_cpu && few ? h_op(h, "optimization_barrier", x.type, &x, 1, NULL) : x;
}

/* When x is 1, XLA's CPU compiler turns atan2 into atan, whose vectorised form is grossly wrong in version 0.115. So where y is large both
 * are halved, which changes no angle, and hides x from the compiler. */
static mf_hlo_value halved_where_large(mf_hlo *h, mf_hlo_value y)
{
    mf_hlo_value one = h_full(h, y.type, 1);
    return h_select(h, h_compare(h, "GT", false, h_unary(h, "abs", y), one), h_full(h, y.type, 0.5), one);
}

mf_hlo_value h_atan2(mf_hlo *h, mf_hlo_value y, mf_hlo_value x)
{
    if (!h->for_cpu || h_failed(h))
        return h_binary(h, "atan2", y, x);
    mf_hlo_value scale = halved_where_large(h, y);
    return h_binary(h, "atan2", h_binary(h, "multiply", y, scale), h_binary(h, "multiply", x, scale));
}

mf_hlo_value h_iota(mf_hlo *h, const mf_type *type, int64_t axis)
{
    return h_count(h, h_op(h, "iota", type, NULL, 0, "iota_dimension = %lld : i64", (long long)axis));
}

mf_hlo_value h_slice(mf_hlo *h, mf_hlo_value x, const mf_type *type, const int64_t *start, const int64_t *limit, const int64_t *strides)
{
    int n = type ? type->rank : 0;
    return h_op(h, "slice", type, &x, 1, "start_indices = %s, limit_indices = %s, strides = %s", h_array(h, start, n), h_array(h, limit, n),
                h_array(h, strides, n));
}

mf_hlo_value h_pad(mf_hlo *h, mf_hlo_value x, mf_hlo_value value, const int64_t *low, const int64_t *high, const int64_t *interior)
{
    if (!x.type)
        return x;
    int64_t dims[MF_RANK];
    int n = x.type->rank;
    for (int i = 0; i < n; i++)
        dims[i] = x.type->dims[i] + low[i] + high[i] + interior[i] * (x.type->dims[i] ? x.type->dims[i] - 1 : 0);
    return h_op(h, "pad", mf_type_get(x.type->dtype, false, n, dims), (mf_hlo_value[]){ x, value }, 2,
                "edge_padding_low = %s, edge_padding_high = %s, interior_padding = %s", h_array(h, low, n), h_array(h, high, n),
                h_array(h, interior, n));
}

/* Appends an index per axis to the operands; returns their number. */
static int row_operands(mf_hlo *h, mf_hlo_value *operands, int count, int rank, mf_hlo_value index, int axis)
{
    mf_hlo_value zero = h_scalar(h, index.type ? index.type->dtype : MF_I32, 0);
    for (int i = 0; i < rank; i++)
        operands[count++] = i == axis ? index : zero;
    return count;
}

mf_hlo_value h_row(mf_hlo *h, mf_hlo_value x, mf_hlo_value index, int axis)
{
    mf_hlo_value operands[MF_RANK + 2] = { x };
    const mf_type *row = x.type ? mf_type_without_axis(x.type, axis) : NULL, *one = row ? mf_type_insert_axis(row, axis, 1) : NULL;
    if (!one) {
        h_fail(h, NULL);
        return x;
    }
    int count = row_operands(h, operands, 1, x.type->rank, index, axis);
    mf_hlo_value cut = h_op(h, "dynamic_slice", one, operands, count, "slice_sizes = %s", h_array(h, one->dims, one->rank));
    return h_reshape(h, cut, row);
}

mf_hlo_value h_put_row(mf_hlo *h, mf_hlo_value x, mf_hlo_value row, mf_hlo_value index, int axis)
{
    mf_hlo_value operands[MF_RANK + 2] = { x };
    const mf_type *one = row.type ? mf_type_insert_axis(row.type, axis, 1) : NULL;
    if (!one || !x.type) {
        h_fail(h, NULL);
        return x;
    }
    operands[1] = h_reshape(h, row, one);
    int count = row_operands(h, operands, 2, x.type->rank, index, axis);
    return h_op(h, "dynamic_update_slice", x.type, operands, count, NULL);
}

/* ---- reducers */
mf_dtype h_sum_dtype(mf_dtype dtype) { return dtype == MF_F16 || dtype == MF_BF16 ? MF_F32 : dtype; }

static const char *joining(mf_reducer r, mf_dtype d)
{
    switch (r) {
    case MF_REDUCE_SUM: return d == MF_BOOL ? "or" : "add";
    case MF_REDUCE_PROD: return d == MF_BOOL ? "and" : "multiply";
    case MF_REDUCE_MAX: return "maximum";
    case MF_REDUCE_MIN: return "minimum";
    case MF_REDUCE_AND: return "and";
    default: return "or";
    }
}

mf_hlo_value h_join(mf_hlo *h, mf_reducer r, mf_hlo_value x, mf_hlo_value y)
{
    if (r == MF_REDUCE_SET || !x.type)
        return y;
    if (mf_dtype_is_complex(x.type->dtype) && (r == MF_REDUCE_MAX || r == MF_REDUCE_MIN))
        return h_select(h, h_compare(h, r == MF_REDUCE_MAX ? "GT" : "LT", false, x, y), x, y);
    return h_binary(h, joining(r, x.type->dtype), x, y);
}

/* The integer identities: for max and min the least and the greatest integer, for and and or all bits and none. */
static uint64_t identity_bits(mf_reducer r, mf_dtype d)
{
    uint64_t top = (uint64_t)1 << (8 * mf_dtype_size(d) - 1);
    switch (r) {
    case MF_REDUCE_PROD: return 1;
    case MF_REDUCE_MAX: return mf_dtype_is_signed(d) ? top : 0;
    case MF_REDUCE_MIN: return d == MF_BOOL ? 1 : mf_dtype_is_signed(d) ? top - 1 : UINT64_MAX;
    case MF_REDUCE_AND: return d == MF_BOOL ? 1 : UINT64_MAX;
    default: return 0;
    }
}

mf_hlo_value h_identity(mf_hlo *h, mf_reducer r, const mf_type *type)
{
    unsigned char element[16] = { 0 };
    if (!type)
        return h_full(h, type, 0);
    int numbers;
    mf_dtype d = type->dtype, real = mf_number_dtype(d, &numbers);
    double x = r == MF_REDUCE_PROD ? 1 : r == MF_REDUCE_MAX ? mf_dtype_lowest(real) : r == MF_REDUCE_MIN ? mf_dtype_highest(real) : 0;
    if (mf_dtype_is_inexact(d)) {
        mf_store_f64(real, element, x);
        if (numbers > 1)
            mf_store_f64(real, element + mf_dtype_size(real), r == MF_REDUCE_PROD ? 0 : x);
    } else {
        mf_store_i64(d, element, (int64_t)identity_bits(r, d));
    }
    return h_bytes(h, type, element);
}

void h_reducer_region(mf_hlo *h, mf_reducer r, mf_dtype dtype)
{
    mf_hlo_value in[2] = { { 0, mf_type_scalar(dtype, false) }, { 0, mf_type_scalar(dtype, false) } };
    h_region(h, in, 2);
    mf_hlo_value one = h_join(h, r, in[0], in[1]);
    h_return(h, &one, 1);
}

mf_hlo_value h_reduce(mf_hlo *h, mf_reducer r, mf_hlo_value x, const mf_intlist *axes)
{
    if (!x.type || !axes->count)
        return x;
    mf_dtype narrow = x.type->dtype, dtype = r == MF_REDUCE_MAX || r == MF_REDUCE_MIN ? narrow : h_sum_dtype(narrow);
    int64_t dims[MF_RANK];
    int rank = 0;
    for (int i = 0; i < x.type->rank; i++)
        if (!mf_ints_has(axes, i))
            dims[rank++] = x.type->dims[i];
    mf_hlo_value in[2] = { h_convert(h, x, dtype), h_identity(h, r, mf_type_scalar(dtype, false)) };
    mf_hlo_value out = { 0, mf_type_get(dtype, false, rank, dims) };
    h_open(h, "reduce", in, 2, &out, 1, "dimensions = %s", h_ints(h, axes));
    h_reducer_region(h, r, dtype);
    h_close(h, in, 2, &out, 1);
    return h_convert(h, out, narrow);
}
