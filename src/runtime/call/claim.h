/* What a call claims of the cells that it writes: their memory, to compute in place. See runtime/call/claim.c. */
#ifndef MF_RUNTIME_CALL_CLAIM_H
#define MF_RUNTIME_CALL_CLAIM_H

#include "runtime/executable.h"
#include "trace/function.h"

typedef struct mf_claims {
    mf_cell_claim few[16], *at; /* by cell; NULL: none */
    bool flags[64], *moved;     /* by input */
} mf_claims;

/* held: the cells' values, each with one reference of the caller's; they are among `in`. Waits for all of `in` where a claim is worth it.
 * An error (an operand's): nothing was claimed. */
mf_error_object *mf_claims_begin(mf_claims *c, const mf_traced *t, const mf_executable *x, mf_array *const *in, mf_object *const *held);
/* The run has begun and will give out; or, when out is NULL, ended in this error. Cells that were taken hold what follows. */
void mf_claims_settle(mf_claims *c, const mf_traced *t, mf_array *const *in, mf_array *const *out, mf_error_object *error);
bool mf_claims_took(const mf_claims *c, int cell);
void mf_claims_end(mf_claims *c); /* after settling; gives up its memory */

#endif
