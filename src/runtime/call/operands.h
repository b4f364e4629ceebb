/* Chooses where a call runs, and moves its operands there. See operands.c. */
#ifndef MF_RUNTIME_CALL_OPERANDS_H
#define MF_RUNTIME_CALL_OPERANDS_H

#include "array/array.h"

/* Operands that were replaced by copies on another client. */
typedef struct mf_moved_operands {
    int count;
    mf_array **was; /* by operand, borrowed; NULL: it did not move. NULL altogether: nothing moved */
} mf_moved_operands;

/* Whether all operands are on this client already. */
static inline bool mf_operands_are_on(const mf_client *client, mf_array *const *in, int count)
{
    for (int i = 0; i < count; i++)
        if (mf_array_client(in[i]) != client)
            return false;
    return true;
}

/* Chooses where a call runs: on `named`, else on the client of the committed operands, else on the default one. Operands on other
 * clients that are not committed are replaced in `in` by copies. An error names two clients, or is an operand's; then nothing is
 * replaced. */
mf_error_object *mf_operands_place(const mf_client *named, mf_array **in, int count, const mf_client **client, mf_moved_operands *moved);
/* Undoes the replacement. donated (may be NULL), by operand: the call was given it and used the copy, so the original is deleted. */
void mf_operands_restore(mf_moved_operands *moved, mf_array **in, const bool *donated);

#endif
