/* eigh and svd as loops of StableHLO: one-sided Jacobi rotations (M. R. Hestenes, 1958) of all disjoint pairs of columns at once; the pairs
 * change from round to round as in a tournament (R. P. Brent, F. T. Luk, 1985), until in a whole sweep no two columns deviated from
 * orthogonality by more than rounding. Then the matrix times the rotations has orthogonal columns, whose norms are the singular values.
 * Invariants: the loop ends, since the number of sweeps is limited. A matrix that is not finite is replaced by zeros during the loop, so
 * that it does not delay the others of the batch, and all of its results are NaN. An extra column that makes the number of columns even is
 * zero and is never rotated. */
#include "ops/linalg/factors_hlo.h"
#include "ops/linalg/matrices_hlo.h"

#include "ops/params.h"

#include <float.h>
#include <math.h>

enum { SWEEPS = 40 }; /* convergence is quadratic: 6 to 10 are usual */

static double epsilon_of(mf_dtype d) { return d == MF_F32 || d == MF_C64 ? FLT_EPSILON : DBL_EPSILON; }

/* ---- rounds */

/* state: the round; the two halves of the columns, and of the rotations' columns; the greatest deviation from orthogonality in this
 * sweep. */
enum { ROUND, LEFT, RIGHT, V_LEFT, V_RIGHT, OFF, STATES };

typedef struct turn {                 /* by pair: one number per pair, along the columns */
    mf_hlo_value cosine, sine, phase; /* phase: the right column is multiplied by it first */
} turn;

static mf_hlo_value square_norms(mf_hlo *h, mf_hlo_value x)
{
    return hm_sum(h, hm_real_part(h, hm_times(h, hm_conjugate(h, x), x)), x.type->rank - 2);
}

/* J. Demmel, K. Veselic, "Jacobi's method is more accurate than QR", SIAM J. Matrix Anal. Appl. 13 (1992): the criterion is the product of
 * two columns relative to their norms. */
static turn find_turn(mf_hlo *h, mf_hlo_value left, mf_hlo_value right, mf_hlo_value *off)
{
    mf_hlo_value a = square_norms(h, left), b = square_norms(h, right), one = h_full(h, a.type, 1), none = h_full(h, a.type, 0);
    mf_hlo_value g = hm_sum(h, hm_times(h, hm_conjugate(h, left), right), left.type->rank - 2);
    mf_hlo_value size = h_op(h, "abs", a.type, &g, 1, NULL);
    mf_hlo_value norms = hm_times(h, h_unary(h, "sqrt", a), h_unary(h, "sqrt", b)), some = hm_compare(h, "GT", norms, none);
    mf_hlo_value relative = h_select(h, some, hm_over(h, size, h_select(h, some, norms, one)), none);
    double least = epsilon_of(g.type->dtype);
    mf_hlo_value turns = hm_compare(h, "GT", relative, h_full(h, a.type, least)), by = h_select(h, turns, size, one);
    mf_hlo_value zeta = hm_over(h, hm_minus(h, b, a), hm_plus(h, by, by)), length = h_unary(h, "abs", zeta);
    mf_hlo_value tangent = hm_over(h, one, hm_plus(h, length, h_unary(h, "sqrt", hm_plus(h, one, hm_times(h, zeta, zeta)))));
    tangent = h_select(h, hm_compare(h, "GE", zeta, none), tangent, h_unary(h, "negate", tangent));
    tangent = h_select(h, turns, tangent, none);
    turn t = { .cosine = hm_over(h, one, h_unary(h, "sqrt", hm_plus(h, one, hm_times(h, tangent, tangent)))) };
    t.sine = hm_times(h, t.cosine, tangent);
    t.phase = hm_over(h, hm_conjugate(h, g), hm_as_dtype(h, by, g.type->dtype));
    t.phase = h_select(h, turns, t.phase, h_full(h, t.phase.type, 1));
    *off = relative;
    return t;
}

static void apply(mf_hlo *h, const turn *t, mf_hlo_value *left, mf_hlo_value *right)
{
    const mf_type *type = left->type;
    mf_hlo_value c = hm_row(h, hm_as_dtype(h, t->cosine, type->dtype), type), s = hm_row(h, hm_as_dtype(h, t->sine, type->dtype), type);
    mf_hlo_value l = *left, r = hm_times(h, *right, hm_row(h, t->phase, type));
    *left = hm_minus(h, hm_times(h, c, l), hm_times(h, s, r));
    *right = hm_plus(h, hm_times(h, s, l), hm_times(h, c, r));
}

static mf_hlo_value joined(mf_hlo *h, const mf_hlo_value *list, int count)
{
    const mf_type *t = list[0].type;
    int64_t columns = 0;
    for (int i = 0; i < count; i++)
        columns += list[i].type->dims[t->rank - 1];
    return count == 1
               ? list[0]
               : h_op(h, "concatenate", hm_matrix(h, t, t->dims[t->rank - 2], columns), list, count, "dimension = %d : i64", t->rank - 1);
}

/* Round-robin: the first column stays, the others move one place, along the left half and back along the right one. With n columns, every
 * pair has met once after n - 1 rounds, and all columns are back in their places. */
static void seat(mf_hlo *h, mf_hlo_value *left, mf_hlo_value *right)
{
    int64_t half = left->type->dims[left->type->rank - 1];
    if (half == 1)
        return;
    mf_hlo_value l[] = { hm_columns(h, *left, 0, 1), hm_columns(h, *right, 0, 1), half > 2 ? hm_columns(h, *left, 1, half - 2) : *left };
    mf_hlo_value r[] = { hm_columns(h, *right, 1, half - 1), hm_columns(h, *left, half - 1, 1) };
    *left = joined(h, l, half > 2 ? 3 : 2);
    *right = joined(h, r, 2);
}

static void jacobi_round(mf_hlo *h, const mf_hlo_value *state, mf_hlo_value *next)
{
    mf_hlo_value off;
    for (int i = LEFT; i <= V_RIGHT; i++)
        next[i] = state[i];
    turn t = find_turn(h, state[LEFT], state[RIGHT], &off);
    for (int i = LEFT; i <= V_LEFT; i += 2) {
        apply(h, &t, &next[i], &next[i + 1]);
        seat(h, &next[i], &next[i + 1]);
    }
    int64_t axes[MF_RANK];
    for (int i = 0; i < off.type->rank; i++)
        axes[i] = i;
    off = h_reduce(h, MF_REDUCE_MAX, off, mf_ints_intern(axes, off.type->rank));
    next[OFF] = h_binary(h, "maximum", state[OFF], off);
}

static void sweep(mf_hlo *h, const mf_hlo_value *state, mf_hlo_value *next)
{
    const mf_type *t = state[LEFT].type;
    for (int i = 0; i < OFF; i++)
        next[i] = state[i];
    next[OFF] = h_full(h, state[OFF].type, 0);
    hm_repeat(h, jacobi_round, 2 * t->dims[t->rank - 1] - 1, NULL, next, STATES);
}

/* ---- matrices */

/* Replaces x by x v, whose columns are orthogonal; v is square and unitary. */
static void turn_columns(mf_hlo *h, mf_hlo_value *x, mf_hlo_value *v)
{
    const mf_type *t = x->type;
    int64_t n = t->dims[t->rank - 1], half = (n + 1) / 2, low[MF_RANK] = { 0 }, high[MF_RANK] = { 0 };
    mf_hlo_value wide = *x, all = hm_identity(h, hm_matrix(h, t, 2 * half, 2 * half));
    high[t->rank - 1] = 2 * half - n;
    if (n % 2)
        wide = h_pad(h, wide, h_scalar(h, t->dtype, 0), low, high, low);
    const mf_type *number = mf_type_scalar(hm_real(t->dtype), false);
    double rows = (double)t->dims[t->rank - 2], least = epsilon_of(t->dtype) * (4 + sqrt(rows));
    mf_hlo_value state[STATES] = { [LEFT] = hm_columns(h, wide, 0, half),
                                   [RIGHT] = hm_columns(h, wide, half, half),
                                   [V_LEFT] = hm_columns(h, all, 0, half),
                                   [V_RIGHT] = hm_columns(h, all, half, half),
                                   [OFF] = h_full(h, number, 1) };
    hm_repeat(h, sweep, SWEEPS, &least, state, STATES);
    *x = hm_corner(h, joined(h, &state[LEFT], 2), t);
    *v = hm_corner(h, joined(h, &state[V_LEFT], 2), hm_matrix(h, t, n, n));
}

/* The columns of x, sorted by their keys (one per column). */
static mf_hlo_value sorted(mf_hlo *h, const char *direction, mf_hlo_value keys, mf_hlo_value x)
{
    mf_hlo_value in[2] = { hm_row(h, keys, x.type), x }, out[2] = { { 0, in[0].type }, { 0, x.type } };
    mf_hlo_value pairs[4];
    for (int i = 0; i < 4; i++)
        pairs[i].type = mf_type_scalar(in[i / 2].type->dtype, false);
    h_open(h, "sort", in, 2, out, 2, "dimension = %d : i64, is_stable = true", x.type->rank - 1);
    h_region(h, pairs, 4);
    mf_hlo_value first = hm_compare(h, direction, pairs[0], pairs[1]);
    h_return(h, &first, 1);
    h_close(h, in, 2, out, 2);
    return out[1];
}

static mf_hlo_value sorted_keys(mf_hlo *h, const char *direction, mf_hlo_value keys)
{
    mf_hlo_value out = { 0, keys.type },
                 pair[2] = { { 0, mf_type_scalar(keys.type->dtype, false) }, { 0, mf_type_scalar(keys.type->dtype, false) } };
    h_open(h, "sort", &keys, 1, &out, 1, "dimension = %d : i64, is_stable = true", keys.type->rank - 1);
    h_region(h, pair, 2);
    mf_hlo_value first = hm_compare(h, direction, pair[0], pair[1]);
    h_return(h, &first, 1);
    h_close(h, &keys, 1, &out, 1);
    return out;
}

/* x divided by its greatest part, *scale, so that squares neither over- nor underflow. *finite: whether all of x is finite; if not, the
 * result is zero. */
static mf_hlo_value scaled(mf_hlo *h, mf_hlo_value x, mf_hlo_value *scale, mf_hlo_value *finite)
{
    const mf_type *t = x.type;
    const mf_intlist *both = mf_ints_intern((int64_t[]){ t->rank - 2, t->rank - 1 }, 2);
    *finite = h_reduce(h, MF_REDUCE_AND, hm_is_zero(h, hm_minus(h, x, x)), both);
    x = hm_masked(h, hm_all(h, *finite, t), x);
    mf_hlo_value most = h_reduce(h, MF_REDUCE_MAX, hm_parts(h, "maximum", x), both);
    *scale = h_select(h, hm_is_zero(h, most), h_full(h, most.type, 1), most);
    return hm_over(h, x, hm_all(h, hm_as_dtype(h, *scale, t->dtype), t));
}

static mf_hlo_value or_nan(mf_hlo *h, mf_hlo_value finite, mf_hlo_value x)
{
    mf_hlo_value nan = h_full(h, mf_type_with_dtype(x.type, hm_real(x.type->dtype)), NAN);
    nan = hm_is_complex(x) ? hm_complex(h, nan, nan, x.type->dtype) : nan;
    return h_select(h, hm_all(h, finite, x.type), x, nan);
}

static void give_zeros(mf_hlo *h, const mf_eqn *e, mf_hlo_value *out)
{
    for (int o = 0; o < e->out_count; o++) {
        const mf_type *t = e->out[o]->type;
        out[o] = o && t->size ? hm_identity(h, t) : h_full(h, t, 0);
    }
}

/* Computes the singular vectors of a + c, where c is at least the magnitude of the most negative eigenvalue: they are a's eigenvectors. The
 * error is of the order of the greatest eigenvalue's last bit, as for any backward stable method. */
void mf_eigh_hlo(mf_hlo *h, const mf_eqn *e, const mf_hlo_value *in, mf_hlo_value *out)
{
    const mf_type *t = e->out[1]->type;
    if (!t->size) {
        give_zeros(h, e, out);
        return;
    }
    mf_hlo_value x = { in[0].name, t }, scale, finite, v;
    x = scaled(h, x, &scale, &finite);
    x = hm_times(h, hm_plus(h, x, hm_adjoint(h, x)), h_full(h, t, 0.5));
    mf_hlo_value sizes = hm_sum(h, hm_parts(h, "add", x), t->rank - 1), c = hm_most(h, sizes, t->rank - 2);
    x = hm_plus(h, x, hm_times(h, hm_identity(h, t), hm_all(h, hm_as_dtype(h, c, t->dtype), t)));
    turn_columns(h, &x, &v);
    mf_hlo_value w = hm_sum(h, hm_real_part(h, hm_times(h, hm_conjugate(h, v), x)), t->rank - 2);
    w = hm_times(h, hm_minus(h, w, hm_all(h, c, w.type)), hm_all(h, scale, w.type));
    out[0] = or_nan(h, finite, sorted_keys(h, "LT", w));
    out[1] = or_nan(h, finite, sorted(h, "LT", w, v));
}

/* ---- svd */

static mf_hlo_value phases(mf_hlo *h, mf_hlo_value x)
{
    mf_hlo_value one = h_full(h, x.type, 1), none = hm_is_zero(h, x);
    mf_hlo_value size = h_op(h, "abs", hm_parts(h, "add", x).type, &x, 1, NULL);
    return h_select(h, none, one, hm_over(h, x, h_select(h, none, one, hm_as_dtype(h, size, x.type->dtype))));
}

/* A unitary matrix whose first columns are those of x, divided by their norms; x has orthogonal columns of decreasing norm. For a zero
 * column it has any that fits. */
static mf_hlo_value completed(mf_hlo *h, mf_hlo_value x)
{
    const mf_type *t = x.type;
    int64_t m = t->dims[t->rank - 2], n = t->dims[t->rank - 1], low[MF_RANK] = { 0 }, high[MF_RANK] = { 0 };
    mf_hlo_value r = x, q;
    hm_qr(h, &r, &q);
    mf_hlo_value same = hm_compare(h, "EQ", hm_index(h, t, t->rank - 2), hm_index(h, t, t->rank - 1));
    mf_hlo_value phase = phases(h, hm_picked(h, same, r, t->rank - 2));
    high[t->rank - 2] = m - n;
    if (m > n)
        phase = h_pad(h, phase, h_scalar(h, t->dtype, 1), low, high, low);
    return hm_times(h, q, hm_row(h, phase, q.type));
}

/* For a matrix with at least as many rows as columns; otherwise of the adjoint, whose vectors are the same with u and v exchanged. */
void mf_svd_hlo(mf_hlo *h, const mf_eqn *e, const mf_hlo_value *in, mf_hlo_value *out)
{
    const mf_type *t = e->in[0]->type;
    if (!t->size) {
        give_zeros(h, e, out);
        return;
    }
    bool wide = t->dims[t->rank - 2] < t->dims[t->rank - 1];
    mf_hlo_value x = { in[0].name, mf_type_strong(t) }, scale, finite, v;
    x = scaled(h, wide ? hm_adjoint(h, x) : x, &scale, &finite);
    turn_columns(h, &x, &v);
    mf_hlo_value s = h_unary(h, "sqrt", square_norms(h, x));
    mf_hlo_value values = hm_times(h, sorted_keys(h, "GT", s), hm_all(h, scale, s.type));
    out[0] = or_nan(h, finite, values);
    if (e->out_count == 1)
        return;
    mf_hlo_value u = completed(h, sorted(h, "GT", s, x));
    v = sorted(h, "GT", s, v);
    out[1] = or_nan(h, finite, hm_corner(h, wide ? v : u, e->out[1]->type));
    out[2] = or_nan(h, finite, hm_corner(h, hm_adjoint(h, wide ? u : v), e->out[2]->type));
}
