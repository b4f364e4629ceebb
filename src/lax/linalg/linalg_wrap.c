/* The public functions cholesky and triangular_solve, and norms; solvers made of them are in numpy/linalg/solve.c. Invariant: integers are
 * converted to floats; the operands of a solve get one dtype and broadcast leading dimensions. A norm is real, also for complex numbers;
 * where it is a square root, its gradient at 0 is NaN, as in JAX. */
#include "lax/wrap.h"

#include <manyfold/linalg.h>

#include <math.h>

mf_value(mf_cholesky)(mf_value a)
{
    MF_ENTER(MF_FORKED);
    return mf_wrap_inexact(&a, "cholesky") ? mf_bind(&mf_op_cholesky, NULL, 1, a) : a;
}

/* Broadcasts the leading dimensions of both against each other. */
static bool join_batches(mf_value *v)
{
    const mf_type *t[2] = { mf_value_type(v[0]), mf_value_type(v[1]) };
    int rank = t[0]->rank > t[1]->rank ? t[0]->rank : t[1]->rank;
    for (int i = 0; i < 2; i++) {
        int64_t dims[MF_RANK];
        const mf_type *other = t[1 - i];
        for (int k = 0; k < rank; k++) {
            int mine = k - (rank - t[i]->rank), its = k - (rank - other->rank);
            int64_t own = mine < 0 ? 1 : t[i]->dims[mine], theirs = its < 0 ? 1 : other->dims[its];
            dims[k] = k >= rank - 2 || own != 1 ? own : theirs;
        }
        v[i] = mf_broadcast_value(v[i], rank, dims);
        if (!mf_value_type(v[i])) {
            v[0] = v[i];
            return false;
        }
    }
    return true;
}

mf_value mf_triangular_solve_opt(mf_value a, mf_value b, const mf_solve_options *o)
{
    MF_ENTER(MF_FORKED);
    static const mf_solve_options none;
    mf_value v[2] = { a, b };
    o = o ? o : &none;
    if (!mf_promote_dtypes(v, 2, "triangular_solve") || !mf_wrap_inexact(&v[0], "triangular_solve"))
        return v[0];
    if (!mf_wrap_inexact(&v[1], "triangular_solve"))
        return v[1];
    if (mf_value_type(v[0])->rank < 2 || mf_value_type(v[1])->rank < 2)
        return mf_fail(MF_ERROR_SHAPE, "triangular_solve: a and b need two dimensions, got %s and %s", mf_type_name(mf_value_type(v[0])),
                       mf_type_name(mf_value_type(v[1])));
    if (!join_batches(v))
        return v[0];
    mf_solve_params p = { o->left_side, o->lower, o->transpose_a, o->conjugate_a && o->transpose_a, o->unit_diagonal };
    if (o->conjugate_a && !o->transpose_a)
        v[0] = mf_conj(v[0]);
    return mf_bind(&mf_op_triangular_solve, &p, 2, v[0], v[1]);
}

/* ---- norms */
static mf_axis axis_of(const mf_intlist *axes)
{
    mf_axis list[MF_RANK];
    for (int i = 0; i < axes->count; i++)
        list[i] = axes->at[i];
    return mf_axes_n(list, axes->count);
}

static mf_value total(mf_value x, mf_axis axis, bool keepdims)
{
    return mf_sum_opt(x, &(mf_reduce_options){ .axis = axis, .keepdims = keepdims });
}

/* The greatest or the least of magnitudes; the greatest of none is 0. */
static mf_value largest(mf_value x, mf_axis axis, double ord, bool keepdims)
{
    mf_reduce_options o = { .axis = axis, .keepdims = keepdims };
    const mf_type *t = mf_value_type(x); /* NULL of an error */
    if (ord > 0 && t && t->size == 0)
        return total(x, axis, keepdims);
    return ord > 0 ? mf_max_opt(x, &o) : mf_min_opt(x, &o);
}

static mf_value euclidean(mf_value x, mf_axis axis, bool keepdims)
{
    return mf_sqrt(total(mf_real(mf_mul(x, mf_conj(x))), axis, keepdims));
}

static mf_value vector_norm(mf_value x, mf_axis axis, double ord, bool keepdims)
{
    x = mf_abs(x);
    if (isinf(ord))
        return largest(x, axis, ord, keepdims);
    if (ord == 1)
        return total(x, axis, keepdims);
    return mf_pow(total(mf_pow(x, mf_f(ord)), axis, keepdims), mf_f(1 / ord));
}

/* The greatest, the least, or the sum of the singular values. */
static mf_value norm_by_values(mf_value x, const mf_intlist *axes, double ord, bool keepdims)
{
    int from[MF_RANK], n = 0, rank = mf_value_type(x)->rank;
    for (int i = 0; i < rank; i++)
        if (i != axes->at[0] && i != axes->at[1])
            from[n++] = i;
    mf_ints order = { .count = rank };
    for (int i = 0; i < rank; i++)
        order.at[i] = i < n ? from[i] : axes->at[i - n];
    mf_value s = mf_svd_opt(mf_transpose(x, order), &(mf_svd_options){ .compute_uv = false });
    mf_value norm = ord == MF_NUCLEAR ? total(s, -1, false) : largest(s, -1, ord, false);
    return keepdims ? mf_expand_dims(mf_expand_dims(norm, (int)(axes->at[0] < axes->at[1] ? axes->at[0] : axes->at[1])),
                                     (int)(axes->at[0] < axes->at[1] ? axes->at[1] : axes->at[0]))
                    : norm;
}

/* Sums along rows or columns, then the greatest or the least of them. The axes are in ascending order; row is the one that counts rows. */
static mf_value matrix_norm(mf_value x, const mf_intlist *axes, int64_t row, double ord, bool keepdims)
{
    int64_t column = axes->at[row == axes->at[0]];
    bool of_rows = isinf(ord);
    if (ord == 2 || ord == -2 || ord == MF_NUCLEAR)
        return norm_by_values(x, axes, ord, keepdims);
    if (!of_rows && ord != 1 && ord != -1)
        return mf_fail(MF_ERROR_ARGUMENT,
                       "norm: a matrix norm has the order 1, -1, 2, -2, an infinity, MF_NUCLEAR or, for Frobenius', none; not %g", ord);
    mf_value sums = total(mf_abs(x), of_rows ? column : row, true);
    mf_value norm = largest(sums, of_rows ? row : column, ord, true);
    return keepdims ? norm : mf_squeeze(norm, axis_of(axes));
}

mf_value mf_norm_opt(mf_value x, const mf_norm_options *o)
{
    MF_ENTER(MF_FORKED);
    static const mf_norm_options everything = { .axis = MF_ALL };
    const mf_intlist *axes;
    mf_value error;
    o = o ? o : &everything;
    if (!mf_wrap_inexact(&x, "norm"))
        return x;
    int rank = mf_value_type(x)->rank;
    if (!mf_normal_axes(o->axis, rank, "norm", &axes, &error))
        return error;
    if (o->ord == 0 || (o->ord == 2 && axes->count == 1))
        return euclidean(x, axis_of(axes), o->keepdims);
    if (axes->count == 1)
        return vector_norm(x, axes->at[0], o->ord, o->keepdims);
    if (axes->count == 2)
        return matrix_norm(x, axes, mf_axes_of(o->axis, rank).at[0], o->ord, o->keepdims);
    return mf_fail(MF_ERROR_AXIS, "norm: an order needs one axis or two, not %d", axes->count);
}

mf_value(mf_norm)(mf_value x)
{
    MF_ENTER(MF_FORKED);
    return mf_norm_opt(x, NULL);
}
