/* LU and QR as loops of StableHLO, a column a round, over all matrices of a batch at once. What LAPACK does with rows and columns of
 * changing number is done with all of them here, and masks choose: a round costs as much as the first.
 * Invariants: a value picked by a mask is the sum of itself and zeros, so it keeps its bits but for the sign of a zero; pivots and signs
 * are LAPACK's (getf2, geqr2, larfg), so that factors agree with the host's to rounding. */
#include "ops/linalg/factors_hlo.h"

#include "ir/number_text.h"
#include "ops/params.h"

#include <math.h>
#include <string.h>

/* ------------------------------------------------------------------ matrices (..., rows, columns), vectors (..., n), numbers (...) */

static const mf_type *vector_of(const mf_type *matrix, mf_dtype dtype, int64_t n)
{
    int64_t dims[MF_RANK];
    memcpy(dims, matrix->dims, sizeof dims);
    dims[matrix->rank - 2] = n;
    return mf_type_get(dtype, false, matrix->rank - 1, dims);
}

static const mf_type *matrix_of(const mf_type *matrix, int64_t rows, int64_t columns)
{
    int64_t dims[MF_RANK];
    memcpy(dims, matrix->dims, sizeof dims);
    dims[matrix->rank - 2] = rows;
    dims[matrix->rank - 1] = columns;
    return mf_type_get(matrix->dtype, false, matrix->rank, dims);
}

static mf_dtype real_dtype(mf_dtype d)
{
    int count;
    return mf_number_dtype(d, &count);
}

static bool is_complex(mf_hlo_value x) { return x.type && mf_dtype_is_complex(x.type->dtype); }

/* x as it is along all axes of the type but one, or but the last ones. */
static mf_hlo_value spread(mf_hlo *h, mf_hlo_value x, const mf_type *type, int but)
{
    int64_t where[MF_RANK];
    int count = 0;
    for (int i = 0; x.type && count < x.type->rank; i++)
        if (i != but)
            where[count++] = i;
    return h_broadcast(h, x, type, mf_ints_intern(where, count));
}

static mf_hlo_value as_row(mf_hlo *h, mf_hlo_value v, const mf_type *matrix) { return spread(h, v, matrix, matrix->rank - 2); }
static mf_hlo_value as_column(mf_hlo *h, mf_hlo_value v, const mf_type *matrix) { return spread(h, v, matrix, matrix->rank - 1); }
static mf_hlo_value all(mf_hlo *h, mf_hlo_value number, const mf_type *type) { return spread(h, number, type, type->rank); }

static mf_hlo_value index_along(mf_hlo *h, const mf_type *type, int axis) { return h_iota(h, mf_type_with_dtype(type, MF_I32), axis); }

static mf_hlo_value reduced(mf_hlo *h, mf_reducer r, mf_hlo_value x, int axis)
{
    return h_reduce(h, r, x, mf_ints_intern((int64_t[]){ axis }, 1));
}

static mf_hlo_value sum(mf_hlo *h, mf_hlo_value x, int axis) { return reduced(h, MF_REDUCE_SUM, x, axis); }
static mf_hlo_value masked(mf_hlo *h, mf_hlo_value mask, mf_hlo_value x) { return h_select(h, mask, x, h_full(h, x.type, 0)); }
static mf_hlo_value picked(mf_hlo *h, mf_hlo_value mask, mf_hlo_value x, int axis) { return sum(h, masked(h, mask, x), axis); }

static mf_hlo_value compare(mf_hlo *h, const char *how, mf_hlo_value x, mf_hlo_value y) { return h_compare(h, how, false, x, y); }
static mf_hlo_value times(mf_hlo *h, mf_hlo_value x, mf_hlo_value y) { return h_binary(h, "multiply", x, y); }
static mf_hlo_value minus(mf_hlo *h, mf_hlo_value x, mf_hlo_value y) { return h_binary(h, "subtract", x, y); }
static mf_hlo_value over(mf_hlo *h, mf_hlo_value x, mf_hlo_value y) { return h_binary(h, "divide", x, y); }
static mf_hlo_value and (mf_hlo * h, mf_hlo_value x, mf_hlo_value y) { return h_binary(h, "and", x, y); }
static mf_hlo_value conjugate(mf_hlo *h, mf_hlo_value x) { return is_complex(x) ? h_conjugate(h, x) : x; }
static mf_hlo_value is_zero(mf_hlo *h, mf_hlo_value x) { return compare(h, "EQ", x, h_full(h, x.type, 0)); }

static mf_hlo_value magnitude(mf_hlo *h, mf_hlo_value part) { return h_unary(h, "abs", part); }

/* Of the real and the imaginary part, joined. */
static mf_hlo_value parts(mf_hlo *h, const char *join, mf_hlo_value x)
{
    if (!is_complex(x))
        return magnitude(h, x);
    return h_binary(h, join, magnitude(h, h_part(h, "real", x)), magnitude(h, h_part(h, "imag", x)));
}

static mf_hlo_value with_parts(mf_hlo *h, mf_hlo_value real, mf_hlo_value imaginary, mf_dtype dtype)
{
    return h_op(h, "complex", mf_type_with_dtype(real.type, dtype), (mf_hlo_value[]){ real, imaginary }, 2, NULL);
}

static mf_hlo_value as_dtype(mf_hlo *h, mf_hlo_value real, mf_dtype dtype)
{
    return mf_dtype_is_complex(dtype) ? with_parts(h, real, h_full(h, real.type, 0), dtype) : real;
}

/* ------------------------------------------------------------------ rounds */

enum { MOST_STATE = 4 };

typedef void round_fn(mf_hlo *h, const mf_hlo_value *state, mf_hlo_value *next);

/* state[0] counts the rounds from 0 to `count`; the round makes the other ones anew. */
static void repeat(mf_hlo *h, round_fn *round, int64_t count, mf_hlo_value *state, int states)
{
    mf_hlo_value inside[MOST_STATE], next[MOST_STATE], out[MOST_STATE];
    state[0] = h_scalar(h, MF_I32, 0);
    for (int i = 0; i < states; i++)
        inside[i].type = out[i].type = state[i].type;
    h_open(h, "while", state, states, out, states, NULL);
    h_region(h, inside, states);
    mf_hlo_value go = compare(h, "LT", inside[0], h_scalar(h, MF_I32, (double)count));
    h_return(h, &go, 1);
    h_region(h, inside, states);
    round(h, inside, next);
    next[0] = h_binary(h, "add", inside[0], h_scalar(h, MF_I32, 1));
    h_return(h, next, states);
    h_close(h, state, states, out, states);
    memcpy(state, out, (size_t)states * sizeof *out);
}

/* ------------------------------------------------------------------ lu */

/* In which row of each matrix the pivot is: of the magnitudes from row k on the first of the greatest, as i_amax has it, which begins
 * with that of row k and goes on to greater ones, so a NaN is one in row k alone. */
static mf_hlo_value pivot_of(mf_hlo *h, mf_hlo_value column, mf_hlo_value index, mf_hlo_value k)
{
    int axis = column.type->rank - 1;
    mf_hlo_value size = parts(h, "add", column), nan = compare(h, "NE", size, size);
    size = h_select(h, nan, h_select(h, compare(h, "EQ", index, k), h_full(h, size.type, INFINITY), h_full(h, size.type, -1)), size);
    size = h_select(h, compare(h, "LT", index, k), h_full(h, size.type, -1), size);
    mf_hlo_value most = all(h, reduced(h, MF_REDUCE_MAX, size, axis), size.type);
    mf_hlo_value none = h_full(h, index.type, (double)index.type->dims[axis]);
    return reduced(h, MF_REDUCE_MIN, h_select(h, compare(h, "EQ", size, most), index, none), axis);
}

/* Both of x, with what the masks choose exchanged. */
static mf_hlo_value exchanged(mf_hlo *h, mf_hlo_value x, mf_hlo_value first, mf_hlo_value at_first, mf_hlo_value second,
                              mf_hlo_value at_second)
{
    return h_select(h, first, at_second, h_select(h, second, at_first, x));
}

/* state: the round, the matrix, what each row was exchanged with, the order of the rows. */
static void lu_round(mf_hlo *h, const mf_hlo_value *state, mf_hlo_value *next)
{
    mf_hlo_value a = state[1];
    const mf_type *t = a.type, *indices = state[2].type;
    int row_axis = t->rank - 2, column_axis = t->rank - 1;
    mf_hlo_value rows = index_along(h, t, row_axis), columns = index_along(h, t, column_axis), index = index_along(h, indices, row_axis);
    mf_hlo_value k = all(h, state[0], rows.type), k_vector = all(h, state[0], index.type);
    mf_hlo_value here = compare(h, "EQ", columns, k), in_k = compare(h, "EQ", rows, k), at_k = compare(h, "EQ", index, k_vector);
    mf_hlo_value pivot = pivot_of(h, picked(h, here, a, column_axis), index, k_vector);
    mf_hlo_value in_pivot = compare(h, "EQ", rows, all(h, pivot, rows.type));
    mf_hlo_value pivots = all(h, pivot, index.type), at_pivot = compare(h, "EQ", index, pivots);
    mf_hlo_value row_k = picked(h, in_k, a, row_axis), row = picked(h, in_pivot, a, row_axis);
    a = exchanged(h, a, in_k, as_row(h, row_k, t), in_pivot, as_row(h, row, t));
    mf_hlo_value order_k = picked(h, at_k, state[3], row_axis), order_pivot = picked(h, at_pivot, state[3], row_axis);
    next[2] = h_select(h, at_k, pivots, state[2]);
    next[3] = exchanged(h, state[3], at_k, all(h, order_k, indices), at_pivot, all(h, order_pivot, indices));
    mf_hlo_value column = picked(h, here, a, column_axis), by = all(h, picked(h, at_k, row, row_axis), column.type);
    mf_hlo_value l = as_column(h, h_select(h, is_zero(h, by), column, over(h, column, by)), t);
    mf_hlo_value rest = h_select(h, compare(h, "GT", columns, k), minus(h, a, times(h, l, as_row(h, row, t))), a);
    next[1] = h_select(h, compare(h, "GT", rows, k), h_select(h, here, l, rest), a);
}

void mf_lu_hlo(mf_hlo *h, const mf_eqn *e, const mf_hlo_value *in, mf_hlo_value *out)
{
    const mf_type *t = e->out[0]->type, *indices = e->out[1]->type;
    if (!t->size) {
        for (int o = 0; o < 3; o++)
            out[o] = h_full(h, e->out[o]->type, 0);
        return;
    }
    mf_hlo_value state[] = { in[0], { in[0].name, t }, h_full(h, indices, 0), h_iota(h, indices, indices->rank - 1) };
    repeat(h, lu_round, t->dims[t->rank - 1], state, 4);
    for (int o = 0; o < 3; o++)
        out[o] = state[o + 1];
}

/* ------------------------------------------------------------------ qr */

/* H = 1 - tau v v^H brings a column's elements from k on to (beta, 0, ...). Where they are that already, tau is 0. */
typedef struct reflector {
    mf_hlo_value v, tau, beta; /* a vector, and numbers */
} reflector;

static mf_hlo_value norm_of(mf_hlo *h, mf_hlo_value x)
{
    int axis = x.type->rank - 1;
    mf_hlo_value most = reduced(h, MF_REDUCE_MAX, parts(h, "maximum", x), axis);
    mf_hlo_value scale = h_select(h, is_zero(h, most), h_full(h, most.type, 1), most);
    x = over(h, x, as_dtype(h, all(h, scale, mf_type_with_dtype(x.type, real_dtype(x.type->dtype))), x.type->dtype));
    mf_hlo_value square = times(h, x, conjugate(h, x));
    return times(h, scale, h_unary(h, "sqrt", sum(h, is_complex(square) ? h_part(h, "real", square) : square, axis)));
}

static reflector reflect(mf_hlo *h, mf_hlo_value column, mf_hlo_value index, mf_hlo_value k)
{
    const mf_type *t = column.type;
    int axis = t->rank - 1;
    mf_hlo_value at_k = compare(h, "EQ", index, k), tail = masked(h, compare(h, "GT", index, k), column);
    mf_hlo_value alpha = picked(h, at_k, column, axis), norm = norm_of(h, masked(h, compare(h, "GE", index, k), column));
    mf_hlo_value real = is_complex(alpha) ? h_part(h, "real", alpha) : alpha, none = h_full(h, norm.type, 0);
    mf_hlo_value done = is_zero(h, reduced(h, MF_REDUCE_MAX, parts(h, "maximum", tail), axis));
    if (is_complex(alpha))
        done = and(h, done, is_zero(h, h_part(h, "imag", alpha)));
    mf_hlo_value beta = h_select(h, compare(h, "GE", real, none), h_unary(h, "negate", norm), norm);
    mf_hlo_value safe = h_select(h, done, h_full(h, beta.type, 1), beta), tau = over(h, minus(h, safe, real), safe);
    if (is_complex(alpha))
        tau = with_parts(h, tau, h_unary(h, "negate", over(h, h_part(h, "imag", alpha), safe)), t->dtype);
    mf_hlo_value by = minus(h, alpha, as_dtype(h, beta, t->dtype));
    by = h_select(h, done, h_full(h, by.type, 1), by);
    reflector r = { .tau = h_select(h, done, h_full(h, tau.type, 0), tau), .beta = h_select(h, done, alpha, as_dtype(h, beta, t->dtype)) };
    r.v = h_select(h, at_k, h_full(h, t, 1), over(h, tail, all(h, by, t)));
    return r;
}

/* state: the round, what becomes r, what becomes q with all its columns. */
static void qr_round(mf_hlo *h, const mf_hlo_value *state, mf_hlo_value *next)
{
    mf_hlo_value a = state[1], q = state[2];
    const mf_type *t = a.type, *square = q.type, *vector = vector_of(t, t->dtype, t->dims[t->rank - 2]);
    int row_axis = t->rank - 2, column_axis = t->rank - 1;
    mf_hlo_value rows = index_along(h, t, row_axis), columns = index_along(h, t, column_axis), index = index_along(h, vector, row_axis);
    mf_hlo_value k = all(h, state[0], rows.type), here = compare(h, "EQ", columns, k);
    reflector r = reflect(h, picked(h, here, a, column_axis), index, all(h, state[0], index.type));
    mf_hlo_value v = as_column(h, r.v, t), turned = conjugate(h, r.v);
    mf_hlo_value along = as_row(h, sum(h, times(h, conjugate(h, v), a), row_axis), t);
    a = minus(h, a, times(h, all(h, conjugate(h, r.tau), t), times(h, v, along)));
    next[1] = h_select(h, and(h, here, compare(h, "EQ", rows, k)), all(h, r.beta, t), a);
    along = as_column(h, sum(h, times(h, q, as_row(h, r.v, square)), column_axis), square);
    next[2] = minus(h, q, times(h, all(h, r.tau, square), times(h, along, as_row(h, turned, square))));
}

static mf_hlo_value identity(mf_hlo *h, const mf_type *t)
{
    mf_hlo_value same = compare(h, "EQ", index_along(h, t, t->rank - 2), index_along(h, t, t->rank - 1));
    return h_select(h, same, h_full(h, t, 1), h_full(h, t, 0));
}

/* The first rows and columns, as many as the type has. */
static mf_hlo_value corner(mf_hlo *h, mf_hlo_value x, const mf_type *type)
{
    int64_t start[MF_RANK] = { 0 }, strides[MF_RANK];
    for (int i = 0; i < type->rank; i++)
        strides[i] = 1;
    return mf_type_same_shape(x.type, type) ? x : h_slice(h, x, type, start, type->dims, strides);
}

void mf_qr_hlo(mf_hlo *h, const mf_eqn *e, const mf_hlo_value *in, mf_hlo_value *out)
{
    const mf_type *t = e->in[0]->type, *q = e->out[0]->type, *r = e->out[1]->type;
    int64_t m = t->dims[t->rank - 2], n = t->dims[t->rank - 1];
    if (!t->size) {
        out[0] = q->size ? identity(h, q) : h_full(h, q, 0);
        out[1] = h_full(h, r, 0);
        return;
    }
    const mf_type *square = matrix_of(t, m, m);
    mf_hlo_value state[] = { in[0], { in[0].name, mf_type_strong(t) }, identity(h, square) };
    repeat(h, qr_round, m < n ? m : n, state, 3);
    mf_hlo_value lower = corner(h, state[1], r);
    out[0] = corner(h, state[2], q);
    out[1] = masked(h, compare(h, "LE", index_along(h, r, r->rank - 2), index_along(h, r, r->rank - 1)), lower);
}
