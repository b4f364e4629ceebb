/* The cache of traced functions; see cache.c. */
#ifndef MF_TRACE_CACHE_H
#define MF_TRACE_CACHE_H

#include "trace/function.h"

#include <manyfold/debug.h>

/* A function is traced once even if two threads call it cold. mf_cache_begin returns the traced program, or NULL with a *ticket: then the
 * caller traces and must end the ticket, and other threads with the same key wait meanwhile. NULL with a NULL ticket: this thread is
 * already tracing this key (recursion), or memory is out; then trace without the cache. */
typedef struct mf_cache_ticket mf_cache_ticket;
mf_traced *mf_cache_begin(mf_function_object *f, const mf_signature *s, mf_cache_ticket **ticket);
void mf_cache_end(mf_cache_ticket *ticket, mf_traced *t); /* t may be NULL; a program with captures is not kept */
/* Whether the cells that the program reads still hold values of the types it was traced for, as seen from the current trace. */
bool mf_traced_cells_match(const mf_traced *t);
/* What a program counts for in traced_now: 1, and 1 more per MiB of its constants. */
int64_t mf_cache_weight(const mf_program *p);
void mf_cache_count_compilation(void);
void mf_cache_count_segment(void);
mf_cache_counters mf_cache_traces(void); /* all counters except ops, which is 0 */
void mf_cache_clear_traces(void);

#endif
