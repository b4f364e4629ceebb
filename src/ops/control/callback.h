/* Functions of the user's that a program calls while it runs: what pure_callback and io_callback carry. */
#ifndef MF_OPS_CONTROL_CALLBACK_H
#define MF_OPS_CONTROL_CALLBACK_H

#include "ops/params.h"
#include "tree/tree.h"

/* Immutable, counted, made once a call of mf_pure_callback or mf_io_callback. */
typedef struct mf_host_call {
    mf_custom_rule_head head;
    mf_object *function; /* retained mf_function_object */
    int argument_count;
    const mf_structure **arguments; /* of leaf_count leaves in all, the operands */
    const mf_structure *result;
    const mf_type **types; /* by leaf of the result; when it has none, the equation gives one bool that nobody reads */
} mf_host_call;
extern const mf_class mf_host_call_class;

bool mf_is_host_call(const mf_eqn *e); /* a print or a callback */

/* How many {} a format of debug_print has; -1: a brace stands alone. "{{" and "}}" are braces. */
int mf_format_placeholders(const char *format);

#endif
