/* The interface that tracing calls to run things at once; runtime/call/ implements it. */
#ifndef MF_TRACE_DISPATCH_H
#define MF_TRACE_DISPATCH_H

#include "trace/function.h"

/* One op on arrays, through the cache of one-op programs: on the client named (NULL: where they are). out: new references. NULL or an error
 * (new reference). */
mf_error_object *mf_dispatch_op(const mf_client *named, const mf_op *op, const void *params, mf_array *const *in, int in_count,
                                mf_object **out, int out_count);

/* A traced program on concrete leaves: compiles (once) and runs it, moves the cells on. */
mf_value mf_dispatch_traced(mf_traced *t, mf_object *const *leaves, const bool *donated);

/* Around what a run calls back into: runs inside it get memory of their own on this thread. NULL when memory is out.
 * (runtime/pool/scratch.c) */
void *mf_run_memory_suspend(void);
void mf_run_memory_resume(void *suspended);

#endif
