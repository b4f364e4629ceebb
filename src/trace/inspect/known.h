/* The values of constant expressions, found while a program is still being traced. Invariant: they are computed as the ops would be outside
 * any function, so with the same bits; nothing is added to the program. */
#ifndef MF_TRACE_INSPECT_KNOWN_H
#define MF_TRACE_INSPECT_KNOWN_H

#include "ir/op.h"

#define MF_KNOWN_MAX 4096 /* the most elements of a result or intermediate value */

/* The values computed so far, by the ids of one program's variables. Zero-initialised. */
typedef struct mf_known {
    mf_literal **values; /* retained; NULL: not computed yet */
    int capacity;
    /* The known value of an input of the program, borrowed, or NULL if unknown. The function is NULL if no input is known. */
    mf_literal *(*input)(void *context, const mf_variable *v, mf_error_object **error);
    void *context;
} mf_known;
void mf_known_free(mf_known *k);

/* Whether e is a pure computation without nested programs: equal operands give equal results. */
bool mf_eqn_is_plain(const mf_eqn *e);
/* The value of a variable that follows from constants through plain equations of at most MF_KNOWN_MAX elements, borrowed from k. NULL
 * without an error: it depends on an input or is too large. NULL and *error: an op failed. */
mf_literal *mf_known_value(mf_known *k, const mf_variable *v, mf_error_object **error);
/* Evaluates e on these operands as its op would be outside any function: one reference each, or an error and no results. */
mf_error_object *mf_eqn_evaluate_alone(const mf_eqn *e, mf_literal *const *in, mf_literal **out);

#endif
