/* Any op that has no kernel here: the row's own evaluation, as one step. */
#include "backend/native/native.h"

static mf_error_object *run(const mf_native_step *s, void *const *values, char *scratch)
{
    void *few[16], **pointers = s->scratch_bytes ? (void **)(void *)(scratch + s->scratch_offset) : few;
    for (int i = 0; i < s->in_count; i++)
        pointers[i] = values[s->in[i]];
    for (int o = 0; o < s->out_count; o++)
        pointers[s->in_count + o] = values[s->out[o]];
    return s->eqn->op->evaluate(s->eqn, (const void *const *)pointers, pointers + s->in_count);
}

void mf_build_evaluate(mf_build *b, const mf_eqn *e)
{
    mf_native_step *s = mf_step_new(b, sizeof *s, e);
    if (!s)
        return;
    int count = e->in_count + e->out_count;
    mf_cost cost = e->op->cost(e);
    s->run = run;
    s->scratch_bytes = count > 16 ? (size_t)count * sizeof(void *) : 0;
    s->cost = 20 + cost.flops + cost.bytes / 2; /* plain loops */
    mf_build_step(b, s, e->in, e->in_count, e->out, e->out_count);
}
