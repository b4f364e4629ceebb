/* The verifier of plans: steps through every block like a run, and tracks which registers hold a value.
 * Invariant: a plan that passes reads no empty register, moves nothing that is read again, and has no device read a uniform value before
 * waiting for it. */
#include "runtime/plan/plan.h"

#include <stdio.h>
#include <string.h>

typedef struct block_state {
    const mf_block *block, *uniform; /* uniform NULL: not in a map, or this is the uniform block itself */
    bool *holds;                     /* by register of the block */
    bool *known;                     /* by register of the uniform block: has been waited for */
    const char *name;
    mf_error_object *error;
} block_state;

static void wrong(block_state *s, const mf_instr *in, const char *what, int ref)
{
    if (s->error)
        return;
    char at[32] = "its end";
    if (in)
        snprintf(at, sizeof at, "instruction %d", in->position);
    s->error = mf_error_new(MF_ERROR_ARGUMENT, "plan: %s, %s: %sr%d %s", s->name, at, ref < 0 ? "~" : "", ref < 0 ? ~ref : ref, what);
}

static bool in_range(block_state *s, const mf_instr *in, int ref)
{
    const mf_block *b = ref < 0 ? s->uniform : s->block;
    if (b && (ref < 0 ? ~ref : ref) < b->register_count)
        return true;
    wrong(s, in, "does not exist", ref);
    return false;
}

static void read(block_state *s, const mf_instr *in, int ref)
{
    if (!in_range(s, in, ref))
        return;
    if (ref >= 0 ? !s->holds[ref] : !s->known[~ref])
        wrong(s, in, ref >= 0 ? "is read but holds nothing" : "is read, but nobody waited for it", ref);
}

static void write(block_state *s, const mf_instr *in, int ref)
{
    if (!in_range(s, in, ref))
        return;
    if (ref < 0) /* the devices share this collective: its result is there when the instruction is over */
        s->known[~ref] = true;
    else if (s->holds[ref])
        wrong(s, in, "is written twice", ref);
    else
        s->holds[ref] = true;
}

static void check_moves(block_state *s, const mf_instr *in)
{
    for (int i = 0; i < in->in_count && in->moves; i++) {
        if (!in->moves[i])
            continue;
        if (in->in[i] < 0 || !mf_instr_is_last_use(in, in->in[i]))
            wrong(s, in, "is moved, but this is not its last use", in->in[i]);
        for (int k = i + 1; k < in->in_count; k++)
            if (in->in[k] == in->in[i])
                wrong(s, in, "is moved before it is read again", in->in[i]);
    }
}

static void check_aliases(block_state *s, const mf_instr *in)
{
    for (int o = 0; o < in->out_count && in->kernel && in->kernel->alias; o++) {
        int i = in->kernel->alias[o];
        if (i >= in->in_count)
            wrong(s, in, "takes the memory of no operand", in->out[o]);
        else if (i >= 0 && !in->moves[i])
            wrong(s, in, "takes the memory of an operand that stays", in->out[o]);
    }
}

static mf_error_object *verify_block(const char *name, const mf_block *b, const mf_block *uniform);

static void check_instr(block_state *s, const mf_instr *in)
{
    for (int i = 0; i < in->in_count; i++) {
        if (in->kind != MF_DO_AWAIT)
            read(s, in, in->in[i]);
        else if (in->in[i] < 0 || in->in[i] >= (s->uniform ? s->uniform : s->block)->register_count)
            wrong(s, in, "does not exist", in->in[i]);
        else if (s->uniform)
            s->known[in->in[i]] = true;
        else
            s->holds[in->in[i]] = true; /* a collective of the devices has written it */
    }
    if (s->error)
        return;
    check_moves(s, in);
    check_aliases(s, in);
    if (in->map && (in->in_count != in->map->in_count || in->out_count != in->map->out_count))
        wrong(s, in, "stands in a call of a map that has other operands or results", in->out_count ? in->out[0] : 0);
    for (int i = 0; i < in->block_count && !s->error; i++)
        s->error = verify_block("nested", in->blocks[i], s->uniform ? s->uniform : NULL);
    for (int o = 0; o < in->out_count; o++)
        write(s, in, in->out[o]);
    for (int i = 0; i < in->last_use_count && !s->error; i++) {
        if (in->last_uses[i] < 0 || in->last_uses[i] >= s->block->register_count)
            wrong(s, in, "does not exist", in->last_uses[i]);
        else if (!s->holds[in->last_uses[i]])
            wrong(s, in, "ends but holds nothing", in->last_uses[i]);
        else
            s->holds[in->last_uses[i]] = false;
    }
}

static void begin(block_state *s)
{
    const mf_block *b = s->block;
    for (int i = 0; i < b->in_count; i++)
        if (b->in[i] >= b->register_count)
            wrong(s, NULL, "is an input but does not exist", b->in[i]);
        else if (b->in[i] >= 0)
            s->holds[b->in[i]] = true;
    for (int c = 0; c < b->constant_count; c++)
        if (b->constants[c] >= 0 && b->constants[c] < b->register_count)
            s->holds[b->constants[c]] = true;
        else
            wrong(s, NULL, "is a constant but does not exist", b->constants[c]);
    for (int i = 0; s->uniform && i < s->uniform->in_count; i++)
        if (s->uniform->in[i] >= 0 && s->uniform->in[i] < s->uniform->register_count)
            s->known[s->uniform->in[i]] = true;
    for (int c = 0; s->uniform && c < s->uniform->constant_count; c++)
        if (s->uniform->constants[c] >= 0 && s->uniform->constants[c] < s->uniform->register_count)
            s->known[s->uniform->constants[c]] = true;
}

static void end(block_state *s)
{
    const mf_block *b = s->block;
    for (int o = 0; o < b->out_count; o++)
        if (in_range(s, NULL, b->out[o]) && b->out[o] >= 0)
            read(s, NULL, b->out[o]);
    for (int r = 0; r < b->register_count; r++)
        if (b->destination[r] >= 0 && (b->destination[r] >= b->out_count || b->out[b->destination[r]] != r))
            wrong(s, NULL, "is computed in the memory of a result that it is not", r);
}

/* Inside a device's nested blocks everything that was waited for outside is known. Which values these are is not tracked, so all count
 * as known. */
static mf_error_object *verify_block(const char *name, const mf_block *b, const mf_block *uniform)
{
    block_state s = { .block = b, .uniform = uniform, .name = name };
    s.holds = mf_calloc((size_t)b->register_count + 1, 1);
    s.known = uniform ? mf_calloc((size_t)uniform->register_count + 1, 1) : NULL;
    if (!s.holds || (uniform && !s.known))
        s.error = mf_error_out_of_memory();
    if (!s.error)
        begin(&s);
    if (!s.error && uniform && !strcmp(name, "nested"))
        memset(s.known, true, (size_t)uniform->register_count);
    for (int i = 0; i < b->instr_count && !s.error; i++)
        check_instr(&s, b->instrs[i]);
    if (!s.error)
        end(&s);
    mf_free(s.holds);
    mf_free(s.known);
    return s.error;
}

static mf_error_object *verify_map(const mf_map_plan *m)
{
    mf_error_object *error = verify_block("device", m->device, m->uniform);
    error = error ? error : verify_block("uniform", m->uniform, NULL);
    for (int o = 0; o < m->out_count && !error; o++) {
        const mf_map_output *out = &m->out[o];
        int given = out->donor > out->forward ? out->donor : out->forward;
        if (given >= m->in_count || (given >= 0 && (m->shards[given] != out->shard || m->axes[given] == INT64_MIN)))
            error = mf_error_new(MF_ERROR_ARGUMENT,
                                 "plan: result %d of a map takes the memory of input %d, which is none or lies otherwise", o, given);
    }
    return error;
}

mf_error_object *mf_plan_verify(const mf_plan *plan)
{
    mf_error_object *error = verify_block("program", plan->top, NULL);
    for (const mf_map_plan *m = plan->maps; m && !error; m = m->next)
        error = verify_map(m);
    return error;
}
