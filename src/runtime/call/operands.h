/* Where a call runs, and its operands there. See operands.c. */
#ifndef MF_RUNTIME_CALL_OPERANDS_H
#define MF_RUNTIME_CALL_OPERANDS_H

#include "array/array.h"

/* Operands that were replaced by copies on another client. */
typedef struct mf_moved_operands {
    int count;
    mf_array **was; /* by operand, borrowed; NULL: it was there already. NULL altogether: nothing was moved */
} mf_moved_operands;

/* All operands are on this client, so nothing needs to be settled. */
static inline bool mf_operands_are_on(const mf_client *client, mf_array *const *in, int count)
{
    for (int i = 0; i < count; i++)
        if (mf_array_client(in[i]) != client)
            return false;
    return true;
}

/* On which client the call runs: on `named`, else on that of the committed operands, else on the default one. Operands that are elsewhere
 * and not committed are replaced in `in` by copies there. An error names two clients, or is an operand's; then nothing was replaced. */
mf_error_object *mf_operands_settle(const mf_client *named, mf_array **in, int count, const mf_client **client, mf_moved_operands *moved);
/* Puts back what was replaced. donated (may be NULL), by operand: it was given to the call, which took the copy. */
void mf_operands_restore(mf_moved_operands *moved, mf_array **in, const bool *donated);

#endif
