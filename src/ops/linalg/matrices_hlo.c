/* Building blocks for the rules of factorisations. Invariant: values have a type even after a failure. */
#include "ops/linalg/matrices_hlo.h"

#include "ir/text/number_text.h"

#include <string.h>

/* Returns t, or after failing another type, so that callers need no check. */
static const mf_type *sound(mf_hlo *h, const mf_type *t, const mf_type *other)
{
    if (!t)
        h_fail(h, NULL);
    return t ? t : other;
}

const mf_type *hm_vector(mf_hlo *h, const mf_type *matrix, mf_dtype dtype, int64_t n)
{
    int64_t dims[MF_RANK];
    memcpy(dims, matrix->dims, sizeof dims);
    dims[matrix->rank - 2] = n;
    return sound(h, mf_type_get(dtype, false, matrix->rank - 1, dims), matrix);
}

const mf_type *hm_matrix(mf_hlo *h, const mf_type *matrix, int64_t rows, int64_t columns)
{
    int64_t dims[MF_RANK];
    memcpy(dims, matrix->dims, sizeof dims);
    dims[matrix->rank - 2] = rows;
    dims[matrix->rank - 1] = columns;
    return sound(h, mf_type_get(matrix->dtype, false, matrix->rank, dims), matrix);
}

mf_dtype hm_real(mf_dtype d)
{
    int count;
    return mf_number_dtype(d, &count);
}

bool hm_is_complex(mf_hlo_value x) { return x.type && mf_dtype_is_complex(x.type->dtype); }

/* Broadcasts x to the type's shape; x lacks axis `but`, or the last axes. */
static mf_hlo_value broadcast(mf_hlo *h, mf_hlo_value x, const mf_type *type, int but)
{
    int64_t where[MF_RANK];
    int count = 0;
    for (int i = 0; x.type && count < x.type->rank; i++)
        if (i != but)
            where[count++] = i;
    return h_broadcast(h, x, sound(h, mf_type_with_dtype(type, x.type->dtype), type), mf_ints_intern(where, count));
}

mf_hlo_value hm_row(mf_hlo *h, mf_hlo_value v, const mf_type *matrix) { return broadcast(h, v, matrix, matrix->rank - 2); }
mf_hlo_value hm_column(mf_hlo *h, mf_hlo_value v, const mf_type *matrix) { return broadcast(h, v, matrix, matrix->rank - 1); }
mf_hlo_value hm_all(mf_hlo *h, mf_hlo_value number, const mf_type *type) { return broadcast(h, number, type, type->rank); }

mf_hlo_value hm_index(mf_hlo *h, const mf_type *type, int axis)
{
    return h_iota(h, sound(h, mf_type_with_dtype(type, MF_I32), type), axis);
}

static mf_hlo_value reduced(mf_hlo *h, mf_reducer r, mf_hlo_value x, int axis)
{
    return h_reduce(h, r, x, mf_ints_intern((int64_t[]){ axis }, 1));
}

mf_hlo_value hm_sum(mf_hlo *h, mf_hlo_value x, int axis) { return reduced(h, MF_REDUCE_SUM, x, axis); }
mf_hlo_value hm_most(mf_hlo *h, mf_hlo_value x, int axis) { return reduced(h, MF_REDUCE_MAX, x, axis); }
mf_hlo_value hm_masked(mf_hlo *h, mf_hlo_value mask, mf_hlo_value x) { return h_select(h, mask, x, h_full(h, x.type, 0)); }
mf_hlo_value hm_picked(mf_hlo *h, mf_hlo_value mask, mf_hlo_value x, int axis) { return hm_sum(h, hm_masked(h, mask, x), axis); }

mf_hlo_value hm_compare(mf_hlo *h, const char *how, mf_hlo_value x, mf_hlo_value y) { return h_compare(h, how, false, x, y); }
mf_hlo_value hm_plus(mf_hlo *h, mf_hlo_value x, mf_hlo_value y) { return h_binary(h, "add", x, y); }
mf_hlo_value hm_times(mf_hlo *h, mf_hlo_value x, mf_hlo_value y) { return h_binary(h, "multiply", x, y); }
mf_hlo_value hm_minus(mf_hlo *h, mf_hlo_value x, mf_hlo_value y) { return h_binary(h, "subtract", x, y); }
mf_hlo_value hm_over(mf_hlo *h, mf_hlo_value x, mf_hlo_value y) { return h_binary(h, "divide", x, y); }
mf_hlo_value hm_and(mf_hlo *h, mf_hlo_value x, mf_hlo_value y) { return h_binary(h, "and", x, y); }
mf_hlo_value hm_conjugate(mf_hlo *h, mf_hlo_value x) { return hm_is_complex(x) ? h_conjugate(h, x) : x; }
mf_hlo_value hm_is_zero(mf_hlo *h, mf_hlo_value x) { return hm_compare(h, "EQ", x, h_full(h, x.type, 0)); }

static mf_hlo_value magnitude(mf_hlo *h, mf_hlo_value part) { return h_unary(h, "abs", part); }

mf_hlo_value hm_real_part(mf_hlo *h, mf_hlo_value x) { return hm_is_complex(x) ? h_part(h, "real", x) : x; }

mf_hlo_value hm_parts(mf_hlo *h, const char *join, mf_hlo_value x)
{
    if (!hm_is_complex(x))
        return magnitude(h, x);
    return h_binary(h, join, magnitude(h, h_part(h, "real", x)), magnitude(h, h_part(h, "imag", x)));
}

mf_hlo_value hm_complex(mf_hlo *h, mf_hlo_value real, mf_hlo_value imaginary, mf_dtype dtype)
{
    return h_op(h, "complex", mf_type_with_dtype(real.type, dtype), (mf_hlo_value[]){ real, imaginary }, 2, NULL);
}

mf_hlo_value hm_as_dtype(mf_hlo *h, mf_hlo_value real, mf_dtype dtype)
{
    return mf_dtype_is_complex(dtype) ? hm_complex(h, real, h_full(h, real.type, 0), dtype) : real;
}

mf_hlo_value hm_identity(mf_hlo *h, const mf_type *t)
{
    mf_hlo_value same = hm_compare(h, "EQ", hm_index(h, t, t->rank - 2), hm_index(h, t, t->rank - 1));
    return h_select(h, same, h_full(h, t, 1), h_full(h, t, 0));
}

mf_hlo_value hm_corner(mf_hlo *h, mf_hlo_value x, const mf_type *type)
{
    int64_t start[MF_RANK] = { 0 }, strides[MF_RANK];
    for (int i = 0; i < type->rank; i++)
        strides[i] = 1;
    return mf_type_same_shape(x.type, type) ? x : h_slice(h, x, type, start, type->dims, strides);
}

mf_hlo_value hm_columns(mf_hlo *h, mf_hlo_value x, int64_t from, int64_t count)
{
    int64_t start[MF_RANK] = { 0 }, limit[MF_RANK], strides[MF_RANK], dims[MF_RANK];
    int last = x.type->rank - 1;
    for (int i = 0; i <= last; i++) {
        dims[i] = limit[i] = x.type->dims[i];
        strides[i] = 1;
    }
    start[last] = from;
    limit[last] = from + count;
    dims[last] = count;
    return h_slice(h, x, sound(h, mf_type_get(x.type->dtype, false, last + 1, dims), x.type), start, limit, strides);
}

mf_hlo_value hm_adjoint(mf_hlo *h, mf_hlo_value x)
{
    const mf_type *t = x.type;
    int64_t order[MF_RANK];
    for (int i = 0; i < t->rank; i++)
        order[i] = i < t->rank - 2 ? i : 2 * t->rank - 3 - i;
    const mf_type *transposed = hm_matrix(h, t, t->dims[t->rank - 1], t->dims[t->rank - 2]);
    return hm_conjugate(h, h_op(h, "transpose", transposed, &x, 1, "permutation = %s", h_array(h, order, t->rank)));
}

/* ---- rounds */

void hm_repeat(mf_hlo *h, hm_round *round, int64_t count, const double *least, mf_hlo_value *state, int states)
{
    mf_hlo_value inside[HM_MOST_STATE], next[HM_MOST_STATE], out[HM_MOST_STATE];
    state[0] = h_scalar(h, MF_I32, 0);
    for (int i = 0; i < states; i++)
        inside[i].type = out[i].type = state[i].type;
    h_open(h, "while", state, states, out, states, NULL);
    h_region(h, inside, states);
    mf_hlo_value go = hm_compare(h, "LT", inside[0], h_scalar(h, MF_I32, (double)count)), last = inside[states - 1];
    if (least)
        go = hm_and(h, go, hm_compare(h, "GT", last, h_full(h, last.type, *least)));
    h_return(h, &go, 1);
    h_region(h, inside, states);
    round(h, inside, next);
    next[0] = hm_plus(h, inside[0], h_scalar(h, MF_I32, 1));
    h_return(h, next, states);
    h_close(h, state, states, out, states);
    memcpy(state, out, (size_t)states * sizeof *out);
}
