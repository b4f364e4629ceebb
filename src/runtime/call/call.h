/* What calls, eager ops and the stages ahead of time share. */
#ifndef MF_RUNTIME_CALL_CALL_H
#define MF_RUNTIME_CALL_CALL_H

#include "runtime/executable.h"
#include "trace/function.h"

/* The executable of a traced program, compiled at the first call. Borrowed from t. */
mf_executable *mf_dispatch_compile(mf_traced *t, const bool *donated, mf_error_object **error);
/* Runs a traced program by an executable made of it; NULL: its own. */
mf_value mf_dispatch_executable(mf_traced *t, mf_executable *x, mf_object *const *leaves, const bool *donated);
/* NULL, or an error: an array is gone, or is donated and named twice in the call. Views of a donated one may be there: its memory is then not
 * taken. donated: NULL for none. */
mf_error_object *mf_check_arrays(mf_array *const *in, int count, const bool *donated);

#endif
