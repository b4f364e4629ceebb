/* Partial application: a function with its first arguments bound. Invariant: the bound values live as long as the function. */
#include "trace/function.h"

#include <manyfold/function.h>

typedef struct partial_options {
    int count;
    mf_object *bound[MF_MAX_ARGUMENTS]; /* retained */
} partial_options;

static void partial_destroy(mf_function_object *f)
{
    partial_options *o = f->options;
    for (int i = 0; i < o->count; i++)
        mf_drop(o->bound[i]);
}

static mf_value partial_call(mf_function_object *f, const mf_value *arguments, int count)
{
    const partial_options *o = f->options;
    mf_value all[MF_MAX_ARGUMENTS];
    if (o->count + count > MF_MAX_ARGUMENTS)
        return mf_function_arity_error(f, MF_MAX_ARGUMENTS - o->count, count);
    for (int i = 0; i < o->count; i++)
        all[i] = mf_value_of(o->bound[i]);
    for (int i = 0; i < count; i++)
        all[o->count + i] = arguments[i];
    return mf_call_n((mf_function){ mf_handle_new(mf_retain(f->inner)) }, all, o->count + count);
}

static const mf_function_class partial_class = {
    .name = "partial", .trace = mf_trace_by_calling, .call = partial_call, .destroy = partial_destroy
};

mf_function mf_partial_n(mf_function f, const mf_value *first, int count)
{
    MF_ENTER((mf_function){ MF_FORK_HANDLE });
    mf_error_object *error = NULL;
    mf_function_object *inner = mf_function_of(f, &error);
    if (!inner)
        return (mf_function){ mf_handle_new(error) };
    partial_options o = { 0 };
    if (count < 0 || count > MF_MAX_ARGUMENTS)
        return (mf_function){ mf_handle_new(
            mf_error_new(MF_ERROR_ARGUMENT, "mf_partial binds at most %d arguments, not %d", MF_MAX_ARGUMENTS, count)) };
    for (int i = 0; i < count; i++)
        o.bound[o.count++] = mf_retain(mf_object_of(first[i]));
    return mf_function_make(&partial_class, inner, &o, sizeof o);
}
