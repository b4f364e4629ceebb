/* The interface by which tracing runs things at once; runtime/call/ implements it. */
#ifndef MF_TRACE_DISPATCH_H
#define MF_TRACE_DISPATCH_H

#include "trace/function.h"

/* Runs one op on arrays, through the cache of one-op programs, on the client `named` (NULL: where the arrays are). out: new references.
 * Returns NULL or an error (new reference). */
mf_error_object *mf_dispatch_op(const mf_client *named, const mf_op *op, const void *params, mf_array *const *in, int in_count,
                                mf_object **out, int out_count);

/* Runs a traced program on concrete leaves, compiling it the first time, and updates the cells. */
mf_value mf_dispatch_traced(mf_traced *t, mf_object *const *leaves, const bool *donated);

/* Brackets a callback from a run: runs inside it get memory of their own on this thread. NULL when out of memory.
 * (runtime/pool/scratch.c) */
void *mf_run_memory_suspend(void);
void mf_run_memory_resume(void *suspended);

#endif
