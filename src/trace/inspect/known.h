/* The values that follow from constants alone, while a program is still being written: what an expression of numbers comes to.
 * Invariant: computed as the ops would be outside of any function, so with the same bits; nothing is added to the program. */
#ifndef MF_TRACE_INSPECT_KNOWN_H
#define MF_TRACE_INSPECT_KNOWN_H

#include "ir/op.h"

#define MF_KNOWN_MAX 4096 /* elements of a value in between, and of a result */

/* What has been computed, by the ids of one program's variables. All zero at the start. */
typedef struct mf_known {
    mf_literal **values; /* retained; NULL: not yet */
    int capacity;
    /* What an input of the program is known to be, borrowed; NULL: nothing is. The first is NULL where no input is known. */
    mf_literal *(*input)(void *context, const mf_variable *v, mf_error_object **error);
    void *context;
} mf_known;
void mf_known_free(mf_known *k);

/* Whether e computes: the same results for the same operands, no programs inside. */
bool mf_eqn_is_plain(const mf_eqn *e);
/* Variables of a program that follow from constants through plain equations of at most MF_KNOWN_MAX elements: v's value,
 * borrowed from k. NULL without an error: it depends on an input or is too large. NULL and *error: an op failed. */
mf_literal *mf_known_value(mf_known *k, const mf_variable *v, mf_error_object **error);
/* e's results for these operands, as the op gives them outside of any function; one reference each, or an error and none. */
mf_error_object *mf_eqn_evaluate_apart(const mf_eqn *e, mf_literal *const *in, mf_literal **out);

#endif
