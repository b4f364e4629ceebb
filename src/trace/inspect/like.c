/* Arrays filled with one number, of a given shape or of another value's shape and dtype: mf_full, mf_zeros_like and others. Invariant: a
 * known number makes the array at once, in a trace too; one that is traced, or not ready, is broadcast by the public op. */
#include "trace/trace.h"

#include <manyfold/array.h>
#include <manyfold/numpy.h>

/* The type of v, if it is a ready array of rank 0, and its element converted to dtype (MF_DTYPE_DEFAULT: its own). NULL if v cannot be read
 * without waiting. */
static const mf_type *ready_scalar(mf_value v, mf_dtype dtype, void *element)
{
    const mf_array *a = (const mf_array *)mf_handle_get_as(v.handle, &mf_array_class);
    if (!a || a->type->rank || (a->future && atomic_load(&a->future->state) != 1))
        return NULL;
    mf_error_object *deleted = mf_array_element_as(a, dtype ? dtype : a->type->dtype, element);
    mf_error_ignore(deleted); /* the op that uses the value reports it */
    return deleted ? NULL : a->type;
}

static mf_value filled(const mf_type *t, const void *element)
{
    mf_array *a = t ? mf_array_made(mf_array_fill(t, element)) : NULL;
    return mf_value_new(a ? (void *)a : mf_error_out_of_memory());
}

mf_value(mf_full)(mf_shape shape, mf_value fill)
{
    MF_ENTER(MF_FORKED);
    unsigned char element[16];
    const mf_type *t = ready_scalar(fill, MF_DTYPE_DEFAULT, element);
    if (!t)
        return mf_broadcast_to(fill, shape);
    if (!mf_type_of_shape(t->dtype, shape))
        return mf_fail(MF_ERROR_SHAPE, "mf_full: %s is no shape of at most %d dimensions", mf_str_shape(shape), MF_MAX_RANK);
    return filled(mf_type_get(t->dtype, t->weak, shape.rank, shape.dims), element);
}

static mf_value constant_like(const char *what, mf_value x, int64_t number)
{
    mf_object *o = mf_object_of(x);
    const mf_type *t = mf_object_type(o);
    unsigned char element[16] = { 0 };
    if (!t)
        return mf_value_new(mf_no_array(what, o));
    mf_store_i64(t->dtype, element, number);
    return filled(t, element);
}

mf_value(mf_zeros_like)(mf_value x)
{
    MF_ENTER(MF_FORKED);
    return constant_like("mf_zeros_like", x, 0);
}

mf_value(mf_ones_like)(mf_value x)
{
    MF_ENTER(MF_FORKED);
    return constant_like("mf_ones_like", x, 1);
}

mf_value(mf_full_like)(mf_value x, mf_value fill)
{
    MF_ENTER(MF_FORKED);
    mf_object *o = mf_object_of(x);
    const mf_type *t = mf_object_type(o);
    unsigned char element[16] = { 0 };
    if (!t)
        return mf_value_new(mf_no_array("mf_full_like", o));
    if (t->dtype == MF_KEY || !ready_scalar(fill, t->dtype, element))
        return mf_astype(mf_broadcast_to(fill, mf_shape_of(x)), t->dtype);
    return filled(t, element);
}
