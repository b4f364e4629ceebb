/* The interface that tracing calls to run things at once; runtime/dispatch.c implements it. */
#ifndef MF_TRACE_DISPATCH_H
#define MF_TRACE_DISPATCH_H

#include "trace/function.h"

/* One op on arrays, through the cache of one-op programs. out: new references. NULL or an error (new reference). */
mf_error_object *mf_dispatch_op(const mf_op *op, const void *params, mf_array *const *in, int in_count, mf_object **out, int out_count);
int mf_device_total(void); /* virtual devices of this process (runtime/devices.c) */

/* A traced program on concrete leaves: compiles (once) and runs it, moves the cells on. */
mf_value mf_dispatch_traced(mf_traced *t, mf_object *const *leaves, const bool *donated);

/* Around what a run calls back into: runs inside it get memory of their own on this thread. NULL when memory is out. (runtime/tasks.c) */
void *mf_run_memory_suspend(void);
void mf_run_memory_resume(void *suspended);

/* The cache of traced functions. A function is traced once even when two threads call it cold: begin gives the traced program, or NULL
 * with *ticket: the caller traces and must end the ticket; other threads with the same key wait meanwhile. A NULL ticket with NULL
 * result means the same thread is tracing this key already (recursion): trace without the cache. */
typedef struct mf_cache_ticket mf_cache_ticket;
mf_traced *mf_cache_begin(mf_function_object *f, const mf_signature *s, mf_cache_ticket **ticket);
void mf_cache_end(mf_cache_ticket *ticket, mf_traced *t); /* t NULL or with captures: not kept */
/* Whether what the program read of cells still has the types it was traced for, seen from the current trace. */
bool mf_traced_cells_match(const mf_traced *t);

#endif
