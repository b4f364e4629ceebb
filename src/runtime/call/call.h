/* What calls, eager ops and ahead-of-time stages share. */
#ifndef MF_RUNTIME_CALL_CALL_H
#define MF_RUNTIME_CALL_CALL_H

#include "runtime/executable.h"
#include "trace/function.h"

/* The client's executable of a traced program that fits these arrays (in NULL: any), compiled when none does. Borrowed from t. */
mf_executable *mf_dispatch_compile(mf_traced *t, const mf_client *client, mf_array *const *in, const bool *donated,
                                   mf_error_object **error);
/* Compiles for arrays that lie as these leaves of a call and the current values of the cells, if all of them are arrays. NULL or an
 * error. */
mf_error_object *mf_dispatch_compile_like(mf_traced *t, const mf_client *client, mf_object *const *leaves, const bool *donated);
/* Runs a traced program on the client by the best fit of a list of its executables, one of which is the client's for any arrays. first
 * NULL: by t's own list, on the client that its maps or its operands name. */
mf_value mf_dispatch_executable(mf_traced *t, mf_executable *first, const mf_client *client, mf_object *const *leaves, const bool *donated);
/* A call of t failed before its run began: tells the processes with which it would have exchanged. */
void mf_dispatch_missed(const mf_traced *t, mf_error_object *why);
/* The client that the program's maps name, or NULL. */
const mf_client *mf_traced_client(mf_traced *t, mf_error_object **error);
/* NULL, or an error: an array was deleted, or is donated and passed twice. Other views of a donated array may exist; its memory is then
 * not reused. donated: NULL for none. */
mf_error_object *mf_check_arrays(mf_array *const *in, int count, const bool *donated);

#endif
