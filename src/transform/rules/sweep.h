/* Dead code within the transforms, and what they ask about equations with nested programs.
 * Ops' dce is called here as by the dce pass; a smaller equation has the operands with used_in and the results that are used. */
#ifndef MF_TRANSFORM_RULES_SWEEP_H
#define MF_TRANSFORM_RULES_SWEEP_H

#include "ir/op.h"

/* p with some of its inputs, in another order, and some of its outputs; equations that are not needed are gone. An input that is
 * needed must be among those chosen. in and out are positions in p; in may be NULL when all are kept. One reference, or NULL and *error. */
mf_program *mf_program_select(const mf_program *p, const int *in, int in_count, const int *out, int out_count, mf_error_object **error);
/* Which inputs the outputs with used_out need. False when memory is out. */
bool mf_program_uses(const mf_program *p, const bool *used_out, bool *used_in);

bool mf_eqn_mentions(const mf_eqn *e, const char *axis); /* uses this axis of its surroundings; an inner map of the name hides it */
const mf_eqn *mf_program_mention(const mf_program *p, const char *axis); /* the first that does, also inside of others; NULL: none */

/* mf_emit_eqn for any number of results; after a failure they are poison, so callers go on without a look. */
void mf_emit_into(mf_builder *b, const mf_op *op, const void *params, mf_variable *const *in, int in_count, mf_variable **out,
                  int out_count);
mf_variable *mf_poison(mf_builder *b); /* something to go on with after a failure */
void mf_builder_fail_memory(mf_builder *b);

#endif
