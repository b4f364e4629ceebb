/* Batching of elementwise equations: all operands get their batch dimension in the same place; then the equation holds unchanged.
 * Invariant: operands that are all batched along one axis stay unchanged, so a map over a late axis costs no transposition. */
#include "ops/emit.h"

#include "base/memory/vector.h"
#include <string.h>

mf_variable *e_batched_at(mf_batch_context *c, mf_variable *x, int axis, int to)
{
    return axis < 0 ? e_broadcast_axis(c->b, x, to, c->size) : e_move_axis(c->b, x, axis, to);
}

/* The axis along which every operand is batched, or 0; also 0 for ops that are not elementwise but hold with one more leading axis. */
static int common_axis(const mf_eqn *e, const int *in_axis)
{
    if (!(e->op->flags & MF_OP_ELEMENTWISE) || e->in_count == 0 || in_axis[0] < 0)
        return 0;
    for (int i = 1; i < e->in_count; i++)
        if (in_axis[i] != in_axis[0] || e->in[i]->type->rank != e->in[0]->type->rank)
            return 0;
    return in_axis[0];
}

void mf_batch_elementwise(mf_batch_context *c, const mf_eqn *e, mf_variable *const *in, const int *in_axis, mf_variable **out,
                          int *out_axis)
{
    MF_SMALL_ARRAY(mf_variable *, moved, 8, e->in_count);
    int axis = common_axis(e, in_axis);
    if (!moved)
        mf_builder_fail(c->b, mf_error_out_of_memory());
    for (int i = 0; moved && i < e->in_count; i++)
        moved[i] = e_batched_at(c, in[i], in_axis[i], axis);
    mf_copy_eqn(c->b, e, moved ? moved : in, out);
    for (int i = 0; i < e->out_count; i++)
        out_axis[i] = axis;
}
