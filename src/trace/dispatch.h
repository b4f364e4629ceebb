/* The interface that tracing calls to run things at once; runtime/dispatch.c implements it. */
#ifndef MF_TRACE_DISPATCH_H
#define MF_TRACE_DISPATCH_H

#include "trace/function.h"

/* One op on arrays, through the cache of one-op programs. out: new references. NULL or an error (new reference). */
mf_error_object *mf_dispatch_op(const mf_op *op, const void *params, mf_array *const *in, int in_count, mf_object **out, int out_count);
/* A traced program on concrete leaves: compiles (once a traced program and donation pattern) and runs it, moves the cells on. */
mf_value mf_dispatch_traced(mf_traced *t, mf_object *const *leaves, const bool *donated);
/* The cache of traced functions. find gives a new reference or NULL. */
mf_traced *mf_cache_find(const mf_function_object *f, const mf_signature *s);
void mf_cache_put(mf_function_object *f, const mf_signature *s, mf_traced *t);

#endif
