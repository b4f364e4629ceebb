/* LU and QR as loops of StableHLO, one column per round, over all matrices of a batch at once. Where LAPACK works on ever fewer rows and
 * columns, this works on all of them with masks, so every round costs as much as the first. Invariant: pivots and signs are LAPACK's
 * (getf2, geqr2, larfg), so factors agree with the host's up to rounding. */
#include "ops/linalg/factors_hlo.h"

#include "ops/linalg/matrices_hlo.h"

#include <math.h>

/* ---- lu */

/* The row of each matrix's pivot: the first of the greatest magnitudes from row k on. As in i_amax, which starts with row k's magnitude and
 * replaces it by greater ones, a NaN is the pivot only if it is in row k. */
static mf_hlo_value pivot_of(mf_hlo *h, mf_hlo_value column, mf_hlo_value index, mf_hlo_value k)
{
    int axis = column.type->rank - 1;
    mf_hlo_value size = hm_parts(h, "add", column), nan = hm_compare(h, "NE", size, size);
    size = h_select(h, nan, h_select(h, hm_compare(h, "EQ", index, k), h_full(h, size.type, INFINITY), h_full(h, size.type, -1)), size);
    size = h_select(h, hm_compare(h, "LT", index, k), h_full(h, size.type, -1), size);
    mf_hlo_value most = hm_all(h, hm_most(h, size, axis), size.type);
    mf_hlo_value none = h_full(h, index.type, (double)index.type->dims[axis]);
    return h_reduce(h, MF_REDUCE_MIN, h_select(h, hm_compare(h, "EQ", size, most), index, none), mf_ints_intern((int64_t[]){ axis }, 1));
}

/* x with the rows that the two masks select exchanged. */
static mf_hlo_value exchanged(mf_hlo *h, mf_hlo_value x, mf_hlo_value first, mf_hlo_value at_first, mf_hlo_value second,
                              mf_hlo_value at_second)
{
    return h_select(h, first, at_second, h_select(h, second, at_first, x));
}

/* state: the round, the matrix, the row that each row was exchanged with, the order of the rows. */
static void lu_round(mf_hlo *h, const mf_hlo_value *state, mf_hlo_value *next)
{
    mf_hlo_value a = state[1];
    const mf_type *t = a.type, *indices = state[2].type;
    int row_axis = t->rank - 2, column_axis = t->rank - 1;
    mf_hlo_value rows = hm_index(h, t, row_axis), columns = hm_index(h, t, column_axis), index = hm_index(h, indices, row_axis);
    mf_hlo_value k = hm_all(h, state[0], rows.type), k_vector = hm_all(h, state[0], index.type);
    mf_hlo_value here = hm_compare(h, "EQ", columns, k), in_k = hm_compare(h, "EQ", rows, k), at_k = hm_compare(h, "EQ", index, k_vector);
    mf_hlo_value pivot = pivot_of(h, hm_picked(h, here, a, column_axis), index, k_vector);
    mf_hlo_value in_pivot = hm_compare(h, "EQ", rows, hm_all(h, pivot, rows.type));
    mf_hlo_value pivots = hm_all(h, pivot, index.type), at_pivot = hm_compare(h, "EQ", index, pivots);
    mf_hlo_value row_k = hm_picked(h, in_k, a, row_axis), row = hm_picked(h, in_pivot, a, row_axis);
    a = exchanged(h, a, in_k, hm_row(h, row_k, t), in_pivot, hm_row(h, row, t));
    mf_hlo_value order_k = hm_picked(h, at_k, state[3], row_axis), order_pivot = hm_picked(h, at_pivot, state[3], row_axis);
    next[2] = h_select(h, at_k, pivots, state[2]);
    next[3] = exchanged(h, state[3], at_k, hm_all(h, order_k, indices), at_pivot, hm_all(h, order_pivot, indices));
    mf_hlo_value column = hm_picked(h, here, a, column_axis), by = hm_all(h, hm_picked(h, at_k, row, row_axis), column.type);
    mf_hlo_value stays = h_binary(h, "or", hm_is_zero(h, by), hm_compare(h, "NE", by, by)); /* JAX's LAPACK does not divide by a NaN */
    mf_hlo_value l = hm_column(h, h_select(h, stays, column, hm_over(h, column, by)), t);
    mf_hlo_value rest = h_select(h, hm_compare(h, "GT", columns, k), hm_minus(h, a, hm_times(h, l, hm_row(h, row, t))), a);
    next[1] = h_select(h, hm_compare(h, "GT", rows, k), h_select(h, here, l, rest), a);
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
    hm_repeat(h, lu_round, t->dims[t->rank - 1], NULL, state, 4);
    for (int o = 0; o < 3; o++)
        out[o] = state[o + 1];
}

/* ---- qr */

/* H = 1 - tau v v^H maps a column's elements from k on to (beta, 0, ...). If they have that form already, tau is 0. */
typedef struct reflector {
    mf_hlo_value v, tau, beta; /* v: a vector; tau, beta: numbers */
} reflector;

static mf_hlo_value norm_of(mf_hlo *h, mf_hlo_value x)
{
    int axis = x.type->rank - 1;
    mf_hlo_value most = hm_most(h, hm_parts(h, "maximum", x), axis);
    mf_hlo_value scale = h_select(h, hm_is_zero(h, most), h_full(h, most.type, 1), most);
    x = hm_over(h, x, hm_as_dtype(h, hm_all(h, scale, x.type), x.type->dtype));
    mf_hlo_value square = hm_times(h, x, hm_conjugate(h, x));
    return hm_times(h, scale, h_unary(h, "sqrt", hm_sum(h, hm_real_part(h, square), axis)));
}

static reflector reflect(mf_hlo *h, mf_hlo_value column, mf_hlo_value index, mf_hlo_value k)
{
    const mf_type *t = column.type;
    int axis = t->rank - 1;
    mf_hlo_value at_k = hm_compare(h, "EQ", index, k), tail = hm_masked(h, hm_compare(h, "GT", index, k), column);
    mf_hlo_value alpha = hm_picked(h, at_k, column, axis), norm = norm_of(h, hm_masked(h, hm_compare(h, "GE", index, k), column));
    mf_hlo_value real = hm_real_part(h, alpha), none = h_full(h, norm.type, 0);
    mf_hlo_value done = hm_is_zero(h, hm_most(h, hm_parts(h, "maximum", tail), axis));
    if (hm_is_complex(alpha))
        done = hm_and(h, done, hm_is_zero(h, h_part(h, "imag", alpha)));
    mf_hlo_value beta = h_select(h, hm_compare(h, "GE", real, none), h_unary(h, "negate", norm), norm);
    mf_hlo_value safe = h_select(h, done, h_full(h, beta.type, 1), beta), tau = hm_over(h, hm_minus(h, safe, real), safe);
    if (hm_is_complex(alpha))
        tau = hm_complex(h, tau, h_unary(h, "negate", hm_over(h, h_part(h, "imag", alpha), safe)), t->dtype);
    mf_hlo_value by = hm_minus(h, alpha, hm_as_dtype(h, beta, t->dtype));
    by = h_select(h, done, h_full(h, by.type, 1), by);
    reflector r = { .tau = h_select(h, done, h_full(h, tau.type, 0), tau),
                    .beta = h_select(h, done, alpha, hm_as_dtype(h, beta, t->dtype)) };
    r.v = h_select(h, at_k, h_full(h, t, 1), hm_over(h, tail, hm_all(h, by, t)));
    return r;
}

/* state: the round, the matrix that becomes r, the one that becomes q with all its columns. */
static void qr_round(mf_hlo *h, const mf_hlo_value *state, mf_hlo_value *next)
{
    mf_hlo_value a = state[1], q = state[2];
    const mf_type *t = a.type, *square = q.type, *vector = hm_vector(h, t, t->dtype, t->dims[t->rank - 2]);
    int row_axis = t->rank - 2, column_axis = t->rank - 1;
    mf_hlo_value rows = hm_index(h, t, row_axis), columns = hm_index(h, t, column_axis), index = hm_index(h, vector, row_axis);
    mf_hlo_value k = hm_all(h, state[0], rows.type), here = hm_compare(h, "EQ", columns, k);
    reflector r = reflect(h, hm_picked(h, here, a, column_axis), index, hm_all(h, state[0], index.type));
    mf_hlo_value v = hm_column(h, r.v, t), conjugate = hm_conjugate(h, r.v);
    mf_hlo_value along = hm_row(h, hm_sum(h, hm_times(h, hm_conjugate(h, v), a), row_axis), t);
    a = hm_minus(h, a, hm_times(h, hm_all(h, hm_conjugate(h, r.tau), t), hm_times(h, v, along)));
    next[1] = h_select(h, hm_and(h, here, hm_compare(h, "EQ", rows, k)), hm_all(h, r.beta, t), a);
    along = hm_column(h, hm_sum(h, hm_times(h, q, hm_row(h, r.v, square)), column_axis), square);
    next[2] = hm_minus(h, q, hm_times(h, hm_all(h, r.tau, square), hm_times(h, along, hm_row(h, conjugate, square))));
}

void hm_qr(mf_hlo *h, mf_hlo_value *a, mf_hlo_value *q)
{
    const mf_type *t = a->type;
    int64_t m = t->dims[t->rank - 2], n = t->dims[t->rank - 1];
    mf_hlo_value state[] = { *a, *a, hm_identity(h, hm_matrix(h, t, m, m)) };
    hm_repeat(h, qr_round, m < n ? m : n, NULL, state, 3);
    *a = state[1];
    *q = state[2];
}

void mf_qr_hlo(mf_hlo *h, const mf_eqn *e, const mf_hlo_value *in, mf_hlo_value *out)
{
    const mf_type *t = e->in[0]->type, *r = e->out[1]->type;
    mf_hlo_value a = { in[0].name, mf_type_strong(t) }, q;
    if (!t->size) {
        out[0] = e->out[0]->type->size ? hm_identity(h, e->out[0]->type) : h_full(h, e->out[0]->type, 0);
        out[1] = h_full(h, r, 0);
        return;
    }
    hm_qr(h, &a, &q);
    out[0] = hm_corner(h, q, e->out[0]->type);
    out[1] = hm_masked(h, hm_compare(h, "LE", hm_index(h, r, r->rank - 2), hm_index(h, r, r->rank - 1)), hm_corner(h, a, r));
}
