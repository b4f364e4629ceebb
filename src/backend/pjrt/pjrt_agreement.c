/* Whether the devices of a map agree on which collectives they come to. XLA's wait for one another, and one that waits in vain stops the
 * process; so a collective in a branch or a loop is refused where the predicate may differ between those who take part.
 * Invariant: a program that passes has no such collective, by declared variance alone: some that would have agreed are refused too.
 * By the same variance: which checks have to be made when the program runs. */
#include "backend/pjrt/pjrt.h"

#include "base/alloc.h"
#include "ops/control/callback.h"
#include "ops/rows.h"
#include "passes/passes.h"
#include "runtime/plan/plan.h"
#include "trace/check_list.h"

static mf_error_object *check(const mf_program *p, const mf_axis_env *env, const uint64_t *in, uint64_t differs, mf_hlo_findings *wanted);

static uint64_t bit_of(const mf_axis_env *env, const mf_axis_env *binder)
{
    int depth = binder ? mf_axis_env_depth(env, binder) : 64;
    return depth < 64 ? (uint64_t)1 << depth : ~(uint64_t)0;
}

/* Over which binders the members of e differ. */
static uint64_t members_of(const mf_eqn *e, const mf_axis_env *env)
{
    const mf_namelist *axes;
    const mf_intlist *groups;
    int64_t size;
    uint64_t members = 0;
    mf_collective_members(e, &axes, &groups, &size);
    for (int i = 0; axes && i < axes->count; i++)
        members |= bit_of(env, mf_axis_env_find(env, axes->at[i]));
    return members;
}

static mf_error_object *refuse(const mf_eqn *e)
{
    return mf_error_new_at(e->address, MF_ERROR_ARGUMENT,
                           "%s stands in a branch or a loop whose predicate may differ between the devices that take part: on a PJRT "
                           "plugin they would wait for one another without end",
                           e->op->name);
}

/* The predicate of a loop, by what its carry is after any number of rounds. False when memory is out. */
static bool predicate_of_while(const mf_eqn *e, const mf_axis_env *env, const uint64_t *masks, uint64_t *predicate)
{
    const mf_while_params *w = e->params;
    uint64_t *in = mf_alloc(((size_t)w->cond->in_count + 1) * sizeof *in);
    for (int i = 0; in && i < w->cond->in_count; i++)
        in[i] = i < w->cond_consts ? masks[e->in[i]->id] : masks[e->out[i - w->cond_consts]->id];
    uint64_t *inside = in ? mf_variance_of(w->cond, env, in) : NULL;
    *predicate = inside ? inside[w->cond->out[0]->id] : 0;
    mf_free(inside);
    mf_free(in);
    return inside != NULL;
}

/* Input i of nested program k: by the operand that it is, a carry as it is after any number of rounds. */
static uint64_t input_of(const mf_eqn *e, const mf_axis_env *env, const uint64_t *masks, int k, int i)
{
    const mf_program *p = *mf_params_program_at(e->op, e->params, k);
    if (e->op == &mf_op_cond)
        return masks[e->in[i + 1]->id];
    if (e->op == &mf_op_while) {
        const mf_while_params *w = e->params;
        int64_t consts = p == w->cond ? w->cond_consts : w->body_consts;
        return i >= consts ? masks[e->out[i - consts]->id] : masks[e->in[p == w->cond ? i : i + w->cond_consts]->id];
    }
    if (e->op == &mf_op_scan) {
        const mf_scan_params *s = e->params;
        return i >= s->consts && i < s->consts + s->carry ? masks[e->out[i - s->consts]->id] : masks[e->in[i]->id];
    }
    if (e->op == &mf_op_pmap) {
        const mf_pmap_params *m = e->params;
        const mf_axis_env *inside = mf_params_env(e->op, e->params, env);
        return masks[e->in[i]->id] | (m->in_axes->at[i] == MF_NONE ? 0 : bit_of(inside, inside));
    }
    return p->in_count == e->in_count ? masks[e->in[i]->id] : ~(uint64_t)0;
}

static mf_error_object *check_nested(const mf_eqn *e, const mf_axis_env *env, const uint64_t *masks, uint64_t differs,
                                     mf_hlo_findings *wanted)
{
    mf_error_object *error = NULL;
    for (int k = 0, n = mf_params_program_count(e->op, e->params); k < n && !error; k++) {
        const mf_program *p = *mf_params_program_at(e->op, e->params, k);
        uint64_t *in = mf_alloc(((size_t)p->in_count + 1) * sizeof *in);
        for (int i = 0; in && i < p->in_count; i++)
            in[i] = input_of(e, env, masks, k, i);
        error = in ? check(p, mf_params_env(e->op, e->params, env), in, differs, wanted) : mf_error_out_of_memory();
        mf_free(in);
    }
    return error;
}

/* A call of the host, which may fail; a check of values that differ by declaration; of those that do not where somebody wants to know it
 * nevertheless; and of numbers. */
static bool only_a_run_says(const mf_eqn *e, const mf_axis_env *env, const uint64_t *masks)
{
    if (mf_is_host_call(e))
        return true;
    if (e->op != &mf_op_check_replicated)
        return e->op == &mf_op_check_nan;
    return (members_of(e, env) & masks[e->in[0]->id]) || mf_check_is_on(MF_CHECK_REPLICATED);
}

static mf_error_object *check_eqn(const mf_eqn *e, const mf_axis_env *env, const uint64_t *masks, uint64_t differs, mf_hlo_findings *wanted)
{
    if (only_a_run_says(e, env, masks) && !mf_vector_push(&wanted->wanted, e))
        return mf_error_out_of_memory();
    if (e->op->collective && (members_of(e, env) & differs))
        return refuse(e);
    uint64_t predicate = e->op == &mf_op_cond ? masks[e->in[0]->id] : 0;
    if (e->op == &mf_op_while && !predicate_of_while(e, env, masks, &predicate))
        return mf_error_out_of_memory();
    return check_nested(e, env, masks, differs | predicate, wanted);
}

/* differs: over which binders the devices may have come here or not. */
static mf_error_object *check(const mf_program *p, const mf_axis_env *env, const uint64_t *in, uint64_t differs, mf_hlo_findings *wanted)
{
    uint64_t *masks = mf_variance_of(p, env, in);
    mf_error_object *error = masks ? NULL : mf_error_out_of_memory();
    for (int i = 0; i < p->eqn_count && !error; i++)
        error = check_eqn(p->eqns[i], env, masks, differs, wanted);
    mf_free(masks);
    return error;
}

mf_error_object *pjrt_check_agreement(const mf_program *p, mf_hlo_findings *wanted)
{
    uint64_t *in = mf_calloc((size_t)p->in_count + 1, sizeof *in);
    mf_error_object *error = in ? check(p, NULL, in, 0, wanted) : mf_error_out_of_memory();
    mf_free(in);
    return error;
}
