/* What calls, eager ops and the stages ahead of time share. */
#ifndef MF_RUNTIME_CALL_CALL_H
#define MF_RUNTIME_CALL_CALL_H

#include "runtime/executable.h"
#include "trace/function.h"

/* The client's executable of a traced program for arrays that lie as these (in NULL: for any), compiled at the first call of that kind.
 * Borrowed from t. */
mf_executable *mf_dispatch_compile(mf_traced *t, const mf_client *client, mf_array *const *in, const bool *donated,
                                   mf_error_object **error);
/* Also compiles for arrays that lie as these leaves of a call and what the cells hold now, where all of them are arrays. NULL or an error. */
mf_error_object *mf_dispatch_compile_like(mf_traced *t, const mf_client *client, mf_object *const *leaves, const bool *donated);
/* Runs a traced program on the client, by the one that fits in a list of executables that were made of it; one of them is the client's for
 * any arrays. first NULL: by the list of t's own, on the client that its maps and its operands name. */
mf_value mf_dispatch_executable(mf_traced *t, mf_executable *first, const mf_client *client, mf_object *const *leaves, const bool *donated);
/* A call of t failed before its run began: tells the processes that it would have exchanged with. */
void mf_dispatch_missed(const mf_traced *t, mf_error_object *why);
/* The client that the program's maps name, or NULL. */
const mf_client *mf_traced_client(mf_traced *t, mf_error_object **error);
/* NULL, or an error: an array is gone, or is donated and named twice in the call. Views of a donated one may be there: its memory is
 * then not taken. donated: NULL for none. */
mf_error_object *mf_check_arrays(mf_array *const *in, int count, const bool *donated);

#endif
