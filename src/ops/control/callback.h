/* The user's functions that a program calls while it runs, as pure_callback and io_callback carry them. */
#ifndef MF_OPS_CONTROL_CALLBACK_H
#define MF_OPS_CONTROL_CALLBACK_H

#include "ops/params.h"
#include "tree/tree.h"

/* Immutable and counted; made by each call of mf_pure_callback or mf_io_callback. */
typedef struct mf_host_call {
    mf_custom_rule_head head;
    mf_object *function; /* retained mf_function_object */
    int argument_count;
    const mf_structure **arguments; /* the arguments' structures; their leaves are the operands */
    const mf_structure *result;
    const mf_type **types; /* by leaf of the result; if there are none, the equation gives one unused bool */
} mf_host_call;
extern const mf_class mf_host_call_class;

bool mf_is_host_call(const mf_eqn *e); /* whether e is a print or a callback */

/* The number of placeholders {} in a debug_print format; -1: a single brace. "{{" and "}}" print braces. */
int mf_format_placeholders(const char *format);

#endif
