/* Declared variance: over which binders of the environment each variable may vary. It follows from the ops' rules alone, which recurse into
 * nested programs through this function. Invariant: a mask has at least the bits that the operands and the op imply. */
#include "base/memory/vector.h"
#include "passes/passes.h"

static void propagate(const mf_eqn *e, const mf_axis_env *env, uint64_t *mask, uint64_t *in, uint64_t *out)
{
    for (int i = 0; i < e->in_count; i++)
        in[i] = mask[e->in[i]->id];
    for (int i = 0; i < e->out_count; i++)
        out[i] = 0;
    e->op->variance(e, env, in, out);
    for (int i = 0; i < e->out_count; i++)
        mask[e->out[i]->id] = out[i];
}

static bool propagate_all(const mf_program *p, const mf_axis_env *env, uint64_t *mask)
{
    for (int k = 0; k < p->eqn_count; k++) {
        const mf_eqn *e = p->eqns[k];
        MF_SMALL_ARRAY(uint64_t, in, 32, e->in_count + e->out_count);
        if (!in)
            return false;
        propagate(e, env, mask, in, in + e->in_count);
    }
    return true;
}

uint64_t *mf_variance_of(const mf_program *p, const mf_axis_env *env, const uint64_t *in)
{
    uint64_t *mask = mf_calloc((size_t)p->var_count + 1, sizeof *mask); /* constants: 0 */
    if (!mask)
        return NULL;
    for (int i = 0; i < p->in_count; i++)
        mask[p->in[i]->id] = in[i];
    if (propagate_all(p, env, mask))
        return mask;
    mf_free(mask);
    return NULL;
}
