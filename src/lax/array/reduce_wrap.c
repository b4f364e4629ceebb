/* The public reductions and cumulative reductions; mf_mean and others that are made of these are in numpy/. Invariant: an axis is read in
 * one place (reduced), from a number, mf_axes(...) or MF_ALL. Sums and products of bool and small integers are computed in 32 bits of the
 * same signedness. */
#include "lax/wrap.h"

#include <manyfold/numpy.h>

static const mf_reduce_options everything = { .axis = MF_ALL };

static mf_dtype accumulator(mf_dtype d)
{
    if (d == MF_BOOL || d == MF_I8 || d == MF_I16)
        return MF_I32;
    return d == MF_U8 || d == MF_U16 ? MF_U32 : d;
}

/* Restores the reduced axes with size 1. */
static mf_value keep_dims(mf_value x, const mf_intlist *axes)
{
    return axes->count ? mf_bind(&mf_op_expand_dims, &(mf_axes_params){ axes }, 1, x) : x;
}

/* Replaces elements outside the mask by the identity, which does not affect the result. */
static bool masked(mf_value *x, mf_value where, double identity, const char *name)
{
    const mf_type *t = mf_value_type(*x);
    mf_value v[3] = { where, *x, mf_convert_value(mf_f(identity), t->dtype, t->weak) };
    if (mf_wrap_array(&v[0], name))
        v[0] = mf_convert_value(v[0], MF_BOOL, false);
    bool fine = mf_wrap_arrays(v, 3, 1, name) && mf_broadcast_shapes(v, 3, name);
    *x = fine ? mf_bind(&mf_op_select_n, NULL, 3, v[0], v[2], v[1]) : v[0];
    return !mf_is_error(*x);
}

/* Reduces x by op as the options say. */
static mf_value reduced(const char *name, const mf_op *op, mf_value x, const mf_reduce_options *o, double identity)
{
    const mf_intlist *axes;
    mf_value error;
    if (o->where.handle && !masked(&x, o->where, identity, name))
        return x;
    if (!mf_normal_axes(o->axis, mf_value_type(x)->rank, name, &axes, &error))
        return error;
    x = mf_bind(op, &(mf_axes_params){ axes }, 1, x);
    return o->keepdims ? keep_dims(x, axes) : x;
}

static mf_value accumulated(const char *name, const mf_op *op, mf_value x, const mf_reduce_options *o, double identity)
{
    o = o ? o : &everything;
    if (!mf_wrap_array(&x, name))
        return x;
    const mf_type *t = mf_value_type(x);
    mf_dtype dtype = o->dtype ? o->dtype : accumulator(t->dtype);
    if (dtype != t->dtype)
        x = mf_convert_value(x, dtype, false);
    return mf_is_error(x) ? x : reduced(name, op, x, o, identity);
}

mf_value mf_sum_opt(mf_value x, const mf_reduce_options *o)
{
    MF_ENTER(MF_FORKED);
    return accumulated("sum", &mf_op_reduce_sum, x, o, 0);
}

mf_value mf_prod_opt(mf_value x, const mf_reduce_options *o)
{
    MF_ENTER(MF_FORKED);
    return accumulated("prod", &mf_op_reduce_prod, x, o, 1);
}

/* ---- max and min: there must be at least one element */
static bool reduces_nothing(const mf_type *t, const mf_intlist *axes)
{
    for (int i = 0; i < axes->count; i++)
        if (t->dims[axes->at[i]] == 0)
            return true;
    return false;
}

static mf_value extreme(const char *name, const mf_op *op, mf_value x, const mf_reduce_options *o, bool greatest)
{
    const mf_intlist *axes;
    mf_value error;
    o = o ? o : &everything;
    if (!mf_wrap_array(&x, name))
        return x;
    const mf_type *t = mf_value_type(x);
    if (!mf_normal_axes(o->axis, t->rank, name, &axes, &error))
        return error;
    if (reduces_nothing(t, axes))
        return mf_fail(MF_ERROR_SHAPE, "%s of no elements: %s has an empty axis among those reduced", name, mf_type_name(t));
    x = reduced(name, op, x, o, greatest ? mf_dtype_lowest(t->dtype) : mf_dtype_highest(t->dtype));
    return o->dtype ? mf_convert_value(x, o->dtype, false) : x;
}

mf_value mf_max_opt(mf_value x, const mf_reduce_options *o)
{
    MF_ENTER(MF_FORKED);
    return extreme("max", &mf_op_reduce_max, x, o, true);
}

mf_value mf_min_opt(mf_value x, const mf_reduce_options *o)
{
    MF_ENTER(MF_FORKED);
    return extreme("min", &mf_op_reduce_min, x, o, false);
}

/* ---- any and all: of values converted to bool */
static mf_value truth_reduced(const char *name, const mf_op *op, mf_value x, const mf_reduce_options *o, double identity)
{
    o = o ? o : &everything;
    if (!mf_wrap_array(&x, name))
        return x;
    x = mf_convert_value(x, MF_BOOL, false);
    x = mf_is_error(x) ? x : reduced(name, op, x, o, identity);
    return o->dtype ? mf_convert_value(x, o->dtype, false) : x;
}

mf_value mf_any_opt(mf_value x, const mf_reduce_options *o)
{
    MF_ENTER(MF_FORKED);
    return truth_reduced("any", &mf_op_reduce_or, x, o, 0);
}

mf_value mf_all_opt(mf_value x, const mf_reduce_options *o)
{
    MF_ENTER(MF_FORKED);
    return truth_reduced("all", &mf_op_reduce_and, x, o, 1);
}

/* ---- plain functions, with default options */
#define PLAIN(word)                             \
    mf_value(mf_##word)(mf_value x)             \
    {                                           \
        MF_ENTER(MF_FORKED);                    \
        return mf_##word##_opt(x, &everything); \
    }
PLAIN(sum)
PLAIN(prod)
PLAIN(max)
PLAIN(min)
PLAIN(any)
PLAIN(all)

/* ---- along one axis */
/* For MF_ALL, x is flattened. False with an error in *x. */
static bool one_axis(mf_value *x, mf_axis axis, const char *op, int64_t *at)
{
    if (!mf_wrap_array(x, op))
        return false;
    if (axis == MF_ALL)
        *x = mf_ravel(*x);
    return mf_value_type(*x) && mf_normal_axis(axis == MF_ALL ? 0 : axis, mf_value_type(*x)->rank, op, at, x);
}

static mf_value arg(mf_value x, mf_axis axis, const mf_op *op)
{
    mf_arg_params p = { 0, MF_I32 };
    return one_axis(&x, axis, op->name, &p.axis) ? mf_bind(op, &p, 1, x) : x;
}

mf_value(mf_argmax)(mf_value x, mf_axis axis)
{
    MF_ENTER(MF_FORKED);
    return arg(x, axis, &mf_op_argmax);
}

mf_value(mf_argmin)(mf_value x, mf_axis axis)
{
    MF_ENTER(MF_FORKED);
    return arg(x, axis, &mf_op_argmin);
}

static mf_value cumulative(mf_value x, const mf_cumulative_options *o, const mf_op *op)
{
    mf_cum_params p = { 0, o && o->reverse };
    if (!one_axis(&x, o ? o->axis : 0, op->name, &p.axis))
        return x;
    return mf_bind(op, &p, 1, mf_value_type(x)->dtype == MF_BOOL ? mf_convert_value(x, MF_I32, false) : x);
}

#define CUMULATIVE(name)                                                 \
    mf_value mf_##name##_opt(mf_value x, const mf_cumulative_options *o) \
    {                                                                    \
        MF_ENTER(MF_FORKED);                                             \
        return cumulative(x, o, &mf_op_##name);                          \
    }                                                                    \
    mf_value(mf_##name)(mf_value x, mf_axis axis) { return mf_##name##_opt(x, &(mf_cumulative_options){ .axis = axis }); }
CUMULATIVE(cumsum)
CUMULATIVE(cumprod)
CUMULATIVE(cummax)
CUMULATIVE(cummin)
