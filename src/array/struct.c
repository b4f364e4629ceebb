/* Structs: an array's shape and dtype without numbers, for arguments whose types alone are used, and for describing results.
 * Invariant: a struct is not an operand; functions that need numbers refuse it by its class. */
#include "array/array.h"

#include <manyfold/array.h>

const mf_class mf_struct_class = { "a struct (a shape and a dtype without numbers)", NULL };

mf_object *mf_struct_new(const mf_type *type)
{
    mf_struct_object *s = type ? mf_object_new(&mf_struct_class, sizeof *s) : NULL;
    if (s)
        s->type = type;
    return s ? &s->object : NULL;
}

const mf_type *mf_struct_type(const mf_object *o) { return mf_object_is(o, &mf_struct_class) ? ((const mf_struct_object *)o)->type : NULL; }

mf_value mf_struct(mf_shape shape, mf_dtype dtype)
{
    MF_ENTER(MF_FORKED);
    const mf_type *type = mf_type_of_shape(dtype == MF_DTYPE_DEFAULT ? MF_F32 : dtype, shape);
    if (!type)
        return mf_fail(MF_ERROR_SHAPE, "mf_struct: this is no shape of an array (rank %d)", shape.rank);
    mf_object *o = mf_struct_new(type);
    return mf_value_new(o ? (void *)o : mf_error_out_of_memory());
}
