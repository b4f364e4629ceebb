/* Products: dot, matmul and dot_general. Invariant: NumPy's pairing of axes becomes one dot_general, whose result is transposed where the
 * order of axes requires it. */
#include "ops/shape/shape.h"
#include "lax/wrap.h"
#include <manyfold/lax.h>
#include <string.h>

static bool two_arrays(mf_value *v, const char *op) { return mf_promote_dtypes(v, 2, op); }

mf_value(mf_dot)(mf_value a, mf_value b)
{
    MF_ENTER(MF_FORKED);
    mf_value v[2] = { a, b };
    if (!two_arrays(v, "dot"))
        return v[0];
    const mf_type *x = mf_value_type(v[0]), *y = mf_value_type(v[1]);
    const mf_intlist *none = mf_ints_of(0);
    mf_dot_params p = { none, none, none, none, MF_DTYPE_DEFAULT };
    if (x->rank && y->rank) {
        p.lhs_contract = mf_ints_of(1, x->rank - 1);
        p.rhs_contract = mf_ints_of(1, y->rank == 1 ? 0 : y->rank - 2);
        if (x->dims[x->rank - 1] != y->dims[p.rhs_contract->at[0]])
            return mf_fail(MF_ERROR_SHAPE, "dot: the contracted sizes of %s and %s differ", mf_type_name(x), mf_type_name(y));
    }
    return mf_bind(&mf_op_dot_general, &p, 2, v[0], v[1]);
}

/* How matmul pairs leading dimensions. A dimension that only one operand has, or that is 1 in the other, is a free dimension. */
typedef struct pairing {
    mf_ints lhs_batch, rhs_batch; /* positions in the operands after squeezing */
    mf_ints lhs_squeeze, rhs_squeeze;
    int lhs_other, rhs_other; /* number of dimensions that are free in this operand */
    int order[MF_RANK];       /* by leading dimension: k for the k-th batch dimension; 100 + k, 200 + k for the k-th free one of lhs, rhs */
    int rank;
} pairing;

static void put(mf_ints *list, int64_t x)
{
    if (list->count < MF_MAX_RANK)
        list->at[list->count++] = x;
}

static bool pair_up(pairing *p, const mf_type *x, const mf_type *y)
{
    int xs = x->rank > 1 ? x->rank - 2 : 0, ys = y->rank > 1 ? y->rank - 2 : 0, x_at = 0, y_at = 0;
    p->rank = xs > ys ? xs : ys;
    for (int i = 0; i < p->rank; i++) {
        int xi = i - (p->rank - xs), yi = i - (p->rank - ys);
        int64_t m = xi < 0 ? -1 : x->dims[xi], n = yi < 0 ? -1 : y->dims[yi];
        if (m == n) {
            p->order[i] = p->lhs_batch.count;
            put(&p->lhs_batch, x_at++);
            put(&p->rhs_batch, y_at++);
        } else if (m < 0 || (m == 1 && n >= 0)) {
            p->order[i] = 200 + p->rhs_other++;
            if (m == 1)
                put(&p->lhs_squeeze, xi);
            y_at++;
        } else if (n < 0 || n == 1) {
            p->order[i] = 100 + p->lhs_other++;
            if (n == 1)
                put(&p->rhs_squeeze, yi);
            x_at++;
        } else
            return false;
    }
    return true;
}

static mf_value without(mf_value x, const mf_ints *axes)
{
    const mf_type *t = mf_value_type(x);
    mf_shape shape = { .rank = 0 };
    if (axes->count == 0)
        return x;
    for (int i = 0; i < t->rank; i++) {
        bool gone = false;
        for (int k = 0; k < axes->count; k++)
            gone = gone || axes->at[k] == i;
        if (!gone)
            shape.dims[shape.rank++] = t->dims[i];
    }
    return mf_reshape(x, shape);
}

/* Transposes from (batch, free of lhs, m, free of rhs, n) to NumPy's order. */
static mf_value in_order(mf_value x, const pairing *p, bool has_m, bool has_n)
{
    mf_ints order = { .count = 0 };
    int batch = p->lhs_batch.count, m = batch + p->lhs_other, first_rhs = m + has_m;
    for (int i = 0; i < p->rank; i++) {
        int at = p->order[i];
        put(&order, at >= 200 ? first_rhs + at - 200 : at >= 100 ? batch + at - 100 : at);
    }
    if (has_m)
        put(&order, m);
    if (has_n)
        put(&order, first_rhs + p->rhs_other);
    return order.count ? mf_transpose(x, order) : x;
}

mf_value(mf_matmul)(mf_value a, mf_value b)
{
    MF_ENTER(MF_FORKED);
    mf_value v[2] = { a, b };
    if (!two_arrays(v, "matmul"))
        return v[0];
    const mf_type *x = mf_value_type(v[0]), *y = mf_value_type(v[1]);
    pairing p = { .rank = 0 };
    if (x->rank == 0 || y->rank == 0)
        return mf_fail(MF_ERROR_SHAPE, "matmul: operands need at least one dimension, got %s and %s", mf_type_name(x), mf_type_name(y));
    if (x->rank > MF_MAX_RANK || y->rank > MF_MAX_RANK || x->dims[x->rank - 1] != y->dims[y->rank > 1 ? y->rank - 2 : 0] ||
        !pair_up(&p, x, y))
        return mf_fail(MF_ERROR_SHAPE, "matmul: incompatible shapes %s and %s", mf_type_name(x), mf_type_name(y));
    bool has_m = x->rank > 1, has_n = y->rank > 1;
    mf_value l = without(v[0], &p.lhs_squeeze), r = without(v[1], &p.rhs_squeeze);
    if (!mf_value_type(l) || !mf_value_type(r))
        return mf_value_type(l) ? r : l;
    mf_dot_params d = { mf_ints_of(1, mf_value_type(l)->rank - 1), mf_ints_of(1, mf_value_type(r)->rank - 1 - has_n),
                        mf_ints_intern(p.lhs_batch.at, p.lhs_batch.count), mf_ints_intern(p.rhs_batch.at, p.rhs_batch.count),
                        MF_DTYPE_DEFAULT };
    mf_value out = mf_bind(&mf_op_dot_general, &d, 2, l, r);
    return mf_value_type(out) ? in_order(out, &p, has_m, has_n) : out;
}

mf_value mf_dot_general_opt(mf_value a, mf_value b, const mf_dot_options *o)
{
    MF_ENTER(MF_FORKED);
    static const mf_dot_options none;
    mf_value v[2] = { a, b }, error;
    if (!two_arrays(v, "dot_general"))
        return v[0];
    int xs = mf_value_type(v[0])->rank, ys = mf_value_type(v[1])->rank;
    mf_dot_params p;
    if (!o)
        o = &none;
    if (!mf_normal_ints(&o->lhs_contracting, xs, "dot_general", &p.lhs_contract, &error) ||
        !mf_normal_ints(&o->rhs_contracting, ys, "dot_general", &p.rhs_contract, &error) ||
        !mf_normal_ints(&o->lhs_batch, xs, "dot_general", &p.lhs_batch, &error) ||
        !mf_normal_ints(&o->rhs_batch, ys, "dot_general", &p.rhs_batch, &error))
        return error;
    p.preferred = o->preferred_element_type;
    return mf_bind(&mf_op_dot_general, &p, 2, v[0], v[1]);
}
