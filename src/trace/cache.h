/* The cache of traced functions; see cache.c. */
#ifndef MF_TRACE_CACHE_H
#define MF_TRACE_CACHE_H

#include "trace/function.h"

#include <manyfold/debug.h>

/* A function is traced once even when two threads call it cold: begin gives the traced program, or NULL
 * with *ticket: the caller traces and must end the ticket; other threads with the same key wait meanwhile. A NULL ticket with NULL
 * result means the same thread is tracing this key already (recursion): trace without the cache. */
typedef struct mf_cache_ticket mf_cache_ticket;
mf_traced *mf_cache_begin(mf_function_object *f, const mf_signature *s, mf_cache_ticket **ticket);
void mf_cache_end(mf_cache_ticket *ticket, mf_traced *t); /* t NULL or with captures: not kept */
/* Whether what the program read of cells still has the types it was traced for, seen from the current trace. */
bool mf_traced_cells_match(const mf_traced *t);
/* What a program counts for where the oldest go when others come: 1, and one more a MiB of its constants. */
int64_t mf_cache_weight(const mf_program *p);
void mf_cache_count_compilation(void);
void mf_cache_count_segment(void);
mf_cache_counters mf_cache_traces(void); /* all but ops, which is 0 */
void mf_cache_clear_traces(void);

#endif
