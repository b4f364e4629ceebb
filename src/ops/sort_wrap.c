/* The public sorts. */
#include "ops/wrap.h"

#include <manyfold/ops.h>
#include <manyfold/tree.h>

static bool sort_axis(mf_value *x, int axis, const char *op, mf_sort_params *p)
{
    if (!mf_wrap_array(x, op))
        return false;
    p->keys = 1;
    return mf_normal_axis(axis, mf_value_type(*x)->rank, op, &p->axis, x);
}

mf_value mf_sort(mf_value x, int axis)
{
    MF_ENTER;
    mf_sort_params p;
    return sort_axis(&x, axis, "sort", &p) ? mf_bind(&mf_op_sort, &p, 1, x) : x;
}

mf_value mf_argsort(mf_value x, int axis)
{
    MF_ENTER;
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

mf_value mf_sort_key_value(mf_value keys, mf_value values, int axis)
{
    MF_ENTER;
    mf_sort_params p;
    if (!mf_wrap_array(&values, "sort_key_value"))
        return values;
    if (!sort_axis(&keys, axis, "sort_key_value", &p))
        return keys;
    mf_value out[2];
    mf_bind_n(&mf_op_sort, &p, (const mf_value[]){ keys, values }, 2, out, 2);
    return mf_tuple_n(out, 2);
}
