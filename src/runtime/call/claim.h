/* The claims of a call on the memory of the cells that it writes, to compute in place. See runtime/call/claim.c. */
#ifndef MF_RUNTIME_CALL_CLAIM_H
#define MF_RUNTIME_CALL_CLAIM_H

#include "runtime/executable.h"
#include "trace/function.h"

typedef struct mf_claims {
    mf_cell_claim few[16], *at; /* by cell; NULL: none */
    bool flags[64], *moved;     /* by input */
} mf_claims;

/* held: the cells' values, with one reference each of the caller's; they are among `in`. If claims are worth it, waits for all of `in`.
 * An error is an operand's; then nothing is claimed. */
mf_error_object *mf_claims_begin(mf_claims *c, const mf_traced *t, const mf_executable *x, mf_array *const *in, mf_object *const *held);
/* The run has begun, and `out` are its results; or it has failed with `error`, and `out` is NULL. Claimed cells get their next values. */
void mf_claims_release(mf_claims *c, const mf_traced *t, mf_array *const *in, mf_array *const *out, mf_error_object *error);
bool mf_claims_took(const mf_claims *c, int cell);
void mf_claims_free(mf_claims *c); /* after mf_claims_release */

#endif
