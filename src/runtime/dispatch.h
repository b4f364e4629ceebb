/* What dispatch.c and cache.c share. */
#ifndef MF_RUNTIME_DISPATCH_H
#define MF_RUNTIME_DISPATCH_H

void mf_cache_count_compilation(void);
void mf_cache_clear_ops(void); /* the cache of one-op programs */

#endif
