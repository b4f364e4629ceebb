/* What dispatch.c, cache.c and ahead.c share. */
#ifndef MF_RUNTIME_DISPATCH_H
#define MF_RUNTIME_DISPATCH_H

#include "runtime/executable.h"
#include "trace/function.h"

/* The executable of a traced program, compiled at the first call. Borrowed from t. */
mf_executable *mf_dispatch_compile(mf_traced *t, const bool *donated, mf_error_object **error);
/* Runs a traced program by an executable made of it; NULL: its own. */
mf_value mf_dispatch_executable(mf_traced *t, mf_executable *x, mf_object *const *leaves, const bool *donated);
void mf_cache_count_compilation(void);
void mf_cache_clear_ops(void); /* the cache of one-op programs */
int64_t mf_cache_op_count(void);

#endif
