/* Reading elements of values on the host. Invariants: a failed read leaves an error that must still be handled. Reading a traced value
 * fails the call being traced, unless the value follows from constants (known.h): C would continue with a number that is not known. */
#include "trace/trace.h"

#include <manyfold/array.h>

#include <math.h>

mf_array *mf_readable(mf_value v, const char *what, mf_error_object **error)
{
    mf_object *o = mf_object_of(v);
    if (mf_object_is(o, &mf_array_class))
        return (mf_array *)o;
    mf_array *known = mf_object_is(o, &mf_tracer_class) ? mf_trace_known((mf_tracer *)o, error) : NULL;
    if (known || *error)
        return known;
    if (mf_object_is(o, &mf_error_class))
        *error = mf_retain(o);
    else if (mf_object_is(o, &mf_tracer_class))
        *error = mf_trace_refuse((const mf_tracer *)o, what);
    else
        *error = mf_error_new(MF_ERROR_ARGUMENT, "%s: %s has no elements to read", what, mf_object_words(o));
    return NULL;
}

static mf_status item(mf_value v, mf_dtype dtype, void *out)
{
    mf_error_object *error = NULL;
    mf_array *a = mf_readable(v, "mf_item", &error);
    if (a && a->type->size != 1)
        error = mf_error_new(MF_ERROR_SHAPE, "mf_item: only an array of one element is a number; this one is %s", mf_type_name(a->type));
    else if (a)
        error = mf_array_copy_out(a, dtype, out);
    return mf_error_remember(error);
}

double(mf_item_f64)(mf_value v)
{
    MF_ENTER(NAN);
    double x = 0;
    return !item(v, MF_F64, &x) ? x : mf_trace_is_stuck() ? -INFINITY : (double)NAN;
}

int64_t(mf_item_i64)(mf_value v)
{
    MF_ENTER(0);
    int64_t x = 0;
    return !item(v, MF_I64, &x) ? x : mf_trace_is_stuck() ? INT64_MAX : 0;
}

bool(mf_item_bool)(mf_value v)
{
    MF_ENTER(false);
    bool x = false;
    return !item(v, MF_BOOL, &x) ? x : mf_trace_is_stuck();
}

mf_status(mf_to_host)(mf_value v, mf_dtype dtype, void *out, size_t count)
{
    MF_ENTER(MF_FORK_STATUS);
    mf_error_object *error = NULL;
    mf_array *a = mf_readable(v, "mf_to_host", &error);
    if (a && dtype == MF_DTYPE_DEFAULT)
        dtype = a->type->dtype;
    if (a && (size_t)a->type->size != count)
        error = mf_error_new(MF_ERROR_SHAPE, "mf_to_host: room for %zu elements, but %s has %lld", count, mf_type_name(a->type),
                             (long long)a->type->size);
    else if (a && !mf_dtype_size(dtype))
        error = mf_error_new(MF_ERROR_DTYPE, "mf_to_host: %d is no dtype", (int)dtype);
    else if (a)
        error = mf_array_copy_out(a, dtype, out);
    return mf_error_remember(error);
}
