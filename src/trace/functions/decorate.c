/* Decorated functions: the user's own transforms. Such a function holds another function and passes it to a C function, which is traced.
 * Invariant: a decoration is a function like any other, interned by the decorator, its context's bytes and the inner function. */
#include "trace/function.h"

#include <manyfold/function.h>

#include <stdio.h>
#include <string.h>

typedef struct decoration {
    mf_decorator call;
    const char *name; /* interned: "jacfwd(f)" */
    size_t size;
} decoration; /* the context follows, 16-byte aligned */

enum { CONTEXT_OFFSET = (sizeof(decoration) + 15) / 16 * 16 };

static mf_value decorated_call(mf_function_object *f, const mf_value *arguments, int count)
{
    const decoration *d = f->options;
    mf_function inner = { mf_handle_new(mf_retain(f->inner)) };
    return d->call((const char *)f->options + CONTEXT_OFFSET, inner, arguments, count);
}

static mf_traced *decorated_trace(mf_function_object *f, const mf_signature *s, mf_error_object **error)
{
    return mf_trace_by(f, decorated_call, s, error);
}

static const char *decorated_name(const void *options) { return ((const decoration *)options)->name; }

static const mf_function_class decorated_class = { .name = "decorated", .trace = decorated_trace, .name_of = decorated_name };
static const mf_function_class alike_class = {
    .name = "decorated", .trace = decorated_trace, .name_of = decorated_name, .static_argnums = mf_inner_statics
};

static mf_function decorate(const mf_function_class *kind, mf_function f, const char *name, mf_decorator call, const void *context,
                            size_t size)
{
    mf_error_object *error = NULL;
    mf_function_object *inner = mf_function_of(f, &error);
    if (inner && !call)
        error = mf_error_new(MF_ERROR_ARGUMENT, "mf_decorate: a NULL decorator");
    if (error)
        return (mf_function){ mf_handle_new(error) };
    char *bytes = mf_calloc(1, CONTEXT_OFFSET + size), label[160];
    if (!bytes)
        return (mf_function){ mf_handle_new(mf_error_out_of_memory()) };
    snprintf(label, sizeof label, "%s(%s)", name ? name : "decorated", inner->name);
    decoration *d = (decoration *)(void *)bytes;
    *d = (decoration){ call, mf_intern(label), size };
    if (size)
        memcpy(bytes + CONTEXT_OFFSET, context, size);
    mf_function made = mf_function_make(kind, inner, bytes, CONTEXT_OFFSET + size);
    mf_free(bytes);
    return made;
}

mf_function mf_decorate_n(mf_function f, const char *name, mf_decorator call, const void *context, size_t size)
{
    MF_ENTER((mf_function){ MF_FORK_HANDLE });
    return decorate(&decorated_class, f, name, call, context, size);
}

mf_function mf_decorate_alike(mf_function f, const char *name, mf_decorator call, const void *context, size_t size)
{
    MF_ENTER((mf_function){ MF_FORK_HANDLE });
    return decorate(&alike_class, f, name, call, context, size);
}
