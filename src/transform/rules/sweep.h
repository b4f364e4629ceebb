/* Dead code elimination inside transforms, and queries about equations with nested programs. The ops' dce rules are used here as in the dce
 * pass; a smaller equation has the operands with used_in and the used results. */
#ifndef MF_TRANSFORM_RULES_SWEEP_H
#define MF_TRANSFORM_RULES_SWEEP_H

#include "ir/op.h"

/* p with some of its inputs, reordered, and some of its outputs, without equations that are not needed. An input that is needed must be
 * among the chosen. in and out are positions in p; in may be NULL to keep all. One reference, or NULL and *error. */
mf_program *mf_program_select(const mf_program *p, const int *in, int in_count, const int *out, int out_count, mf_error_object **error);
/* Which inputs the outputs with used_out need. False when out of memory. */
bool mf_program_uses(const mf_program *p, const bool *used_out, bool *used_in);

bool mf_eqn_mentions(const mf_eqn *e, const char *axis); /* whether e uses this axis of its environment, not an inner map's of that name */
const mf_eqn *mf_program_mention(const mf_program *p, const char *axis); /* the first equation that does, also nested; NULL: none */

/* mf_emit_eqn for any number of results; after a failure these are poison, so callers need no check. */
void mf_emit_into(mf_builder *b, const mf_op *op, const void *params, mf_variable *const *in, int in_count, mf_variable **out,
                  int out_count);
mf_variable *mf_poison(mf_builder *b); /* a placeholder after a failure */
void mf_builder_fail_memory(mf_builder *b);

#endif
