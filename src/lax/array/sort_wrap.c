/* The public sorts. Invariant: sorts are stable in both directions; NaN is greater than all numbers. */
#include "lax/wrap.h"

#include <manyfold/tree.h>
#include <manyfold/lax.h>

static bool sort_axis(mf_value *x, mf_axis axis, const char *op, mf_sort_params *p)
{
    if (!mf_wrap_array(x, op))
        return false;
    if (axis == MF_ALL)
        *x = mf_ravel(*x);
    p->keys = 1;
    return mf_value_type(*x) && mf_normal_axis(axis == MF_ALL ? 0 : axis, mf_value_type(*x)->rank, op, &p->axis, x);
}

mf_value(mf_sort)(mf_value x, mf_axis axis)
{
    MF_ENTER(MF_FORKED);
    mf_sort_params p;
    return sort_axis(&x, axis, "sort", &p) ? mf_bind(&mf_op_sort, &p, 1, x) : x;
}

mf_value(mf_argsort)(mf_value x, mf_axis axis)
{
    MF_ENTER(MF_FORKED);
    mf_sort_params p;
    if (!sort_axis(&x, axis, "argsort", &p))
        return x;
    const mf_type *t = mf_value_type(x);
    mf_iota_params iota = { MF_I32, mf_ints_intern(t->dims, t->rank), p.axis };
    mf_value out[2], positions;
    mf_bind_n(&mf_op_iota, &iota, NULL, 0, &positions, 1);
    mf_bind_n(&mf_op_sort, &p, (const mf_value[]){ x, positions }, 2, out, 2);
    return out[1];
}

/* ---- descending: reverse, sort, reverse, so that equal elements keep their order and NaN comes first */
static mf_value reversed(mf_value x, int64_t axis) { return mf_bind(&mf_op_rev, &(mf_axes_params){ mf_ints_of(1, (int)axis) }, 1, x); }

/* x and the positions of its elements, greatest first. */
static void sort_down(mf_value x, const mf_sort_params *p, mf_value out[2])
{
    const mf_type *t = mf_value_type(x);
    mf_iota_params iota = { MF_I32, mf_ints_intern(t->dims, t->rank), p->axis };
    mf_value positions, up[2];
    mf_bind_n(&mf_op_iota, &iota, NULL, 0, &positions, 1);
    mf_bind_n(&mf_op_sort, p, (const mf_value[]){ reversed(x, p->axis), reversed(positions, p->axis) }, 2, up, 2);
    for (int i = 0; i < 2; i++)
        out[i] = reversed(up[i], p->axis);
}

mf_value(mf_sort_descending)(mf_value x, mf_axis axis)
{
    MF_ENTER(MF_FORKED);
    mf_sort_params p;
    return sort_axis(&x, axis, "sort_descending", &p) ? reversed(mf_bind(&mf_op_sort, &p, 1, x), p.axis) : x;
}

mf_value(mf_argsort_descending)(mf_value x, mf_axis axis)
{
    MF_ENTER(MF_FORKED);
    mf_sort_params p;
    mf_value out[2];
    if (!sort_axis(&x, axis, "argsort_descending", &p))
        return x;
    sort_down(x, &p, out);
    return out[1];
}

mf_value(mf_top_k)(mf_value x, int64_t k, int axis)
{
    MF_ENTER(MF_FORKED);
    mf_sort_params p;
    mf_value out[2];
    if (!sort_axis(&x, axis, "top_k", &p))
        return x;
    const mf_type *t = mf_value_type(x);
    if (k < 0 || k > t->dims[p.axis])
        return mf_fail(MF_ERROR_ARGUMENT, "top_k: k must lie between 0 and %lld, the size of axis %lld, but it is %lld",
                       (long long)t->dims[p.axis], (long long)p.axis, (long long)k);
    x = mf_moveaxis(x, (int)p.axis, -1);
    mf_bind_n(&mf_op_top_k, &(mf_top_k_params){ k }, &x, 1, out, 2);
    for (int i = 0; i < 2; i++)
        out[i] = mf_moveaxis(out[i], -1, (int)p.axis);
    return mf_tuple_n(out, 2);
}

mf_value(mf_sort_key_value)(mf_value keys, mf_value values, int axis)
{
    MF_ENTER(MF_FORKED);
    mf_sort_params p;
    if (!mf_wrap_array(&values, "sort_key_value"))
        return values;
    if (!sort_axis(&keys, axis, "sort_key_value", &p))
        return keys;
    mf_value out[2];
    mf_bind_n(&mf_op_sort, &p, (const mf_value[]){ keys, values }, 2, out, 2);
    return mf_tuple_n(out, 2);
}
