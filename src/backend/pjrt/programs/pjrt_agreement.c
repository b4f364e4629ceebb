/* Whether the devices of a map agree on which collectives they execute. XLA's wait for one another, and one that waits in vain aborts the
 * process; so where the predicate of a branch or loop with a collective may differ between the participants, they compare it first, and a
 * difference is reported (hlo_agree.c).
 * Invariant: every such branch or loop is in the list. Only declared variance counts, so some whose devices always agree are in it too.
 * The same variance decides which checks must be made at run time. */
#include "backend/pjrt/pjrt.h"

#include "base/memory/alloc.h"
#include "ops/control/callback.h"
#include "ops/ops.h"
#include "passes/passes.h"
#include "trace/checks/check_list.h"

/* Where devices meet: a collective, or the agreement on a predicate. */
typedef struct sync_point {
    mf_hlo_agreement among; /* .of: the collective */
    uint64_t members;       /* the binders over which the participants differ */
} sync_point;
typedef struct sync_points {
    mf_hlo_findings *list;
    MF_VECTOR(sync_point) points;
} sync_points;

static bool check(sync_points *w, const mf_program *p, const mf_axis_env *env, const uint64_t *in);

static uint64_t bit_of(const mf_axis_env *env, const mf_axis_env *binder)
{
    int depth = binder ? mf_axis_env_depth(env, binder) : 64;
    return depth < 64 ? (uint64_t)1 << depth : ~(uint64_t)0;
}

static uint64_t members_of(const mf_namelist *axes, const mf_axis_env *env)
{
    uint64_t members = 0;
    for (int i = 0; axes && i < axes->count; i++)
        members |= bit_of(env, mf_axis_env_find(env, axes->at[i]));
    return members;
}

static sync_point sync_point_of(const mf_eqn *e, const mf_axis_env *env)
{
    sync_point m = { .among.of = e };
    mf_collective_members(e, &m.among.axes, &m.among.groups, &m.among.group_size);
    m.members = members_of(m.among.axes, env);
    return m;
}

/* The synchronisation's axes that are also bound here, and its groups if that is all of its axes. */
static mf_hlo_agreement seen_from(const sync_point *m, const mf_axis_env *env)
{
    mf_hlo_agreement a = m->among;
    const char *names[64];
    int count = 0;
    for (int i = 0; i < a.axes->count; i++) {
        const mf_axis_env *binder = mf_axis_env_find(env, a.axes->at[i]);
        if (count < 64 && binder && (bit_of(env, binder) & m->members))
            names[count++] = a.axes->at[i];
    }
    if (count < a.axes->count)
        a.groups = NULL;
    a.axes = mf_names_intern(names, count);
    return a;
}

/* Extends a to the devices of b: all groups of both axes, unless they are the same. */
static void widen(mf_hlo_agreement *a, const mf_hlo_agreement *b)
{
    const char *names[128];
    int count = 0;
    if (a->axes == b->axes && a->groups == b->groups && a->group_size == b->group_size)
        return;
    for (int i = 0; i < a->axes->count && count < 64; i++)
        names[count++] = a->axes->at[i];
    for (int i = 0; i < b->axes->count && count < 128; i++)
        if (mf_names_find(a->axes, b->axes->at[i]) < 0)
            names[count++] = b->axes->at[i];
    a->axes = mf_names_intern(names, count);
    a->groups = NULL;
}

static mf_hlo_agreement *agreement_of(sync_points *w, const mf_eqn *e)
{
    for (int i = 0; i < w->list->agreements.count; i++)
        if (w->list->agreements.at[i].on == e)
            return &w->list->agreements.at[i];
    return NULL;
}

/* Makes all who meet in e, from point `from` on, agree on its predicate, where it may differ between them. */
static bool agree(sync_points *w, const mf_eqn *e, const mf_axis_env *env, uint64_t predicate, int from)
{
    mf_hlo_agreement *a = agreement_of(w, e);
    bool needed = false;
    for (int i = from; i < w->points.count; i++) {
        if (!(w->points.at[i].members & predicate))
            continue;
        mf_hlo_agreement other = seen_from(&w->points.at[i], env);
        other.on = e;
        needed = true;
        if (!other.axes)
            return false;
        if (a)
            widen(a, &other);
        else if (mf_vector_push(&w->list->agreements, other))
            a = &w->list->agreements.at[w->list->agreements.count - 1];
        if (!a || !a->axes)
            return false;
    }
    return !needed || mf_vector_push(&w->points, (sync_point){ *a, members_of(a->axes, env) });
}

/* The variance of a loop's predicate, by that of its carry after any number of iterations. False: out of memory. */
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

/* The variance of input i of nested program k: that of its operand, or of a carry after any number of iterations. */
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

static bool check_nested(sync_points *w, const mf_eqn *e, const mf_axis_env *env, const uint64_t *masks)
{
    bool ok = true;
    for (int k = 0, n = mf_params_program_count(e->op, e->params); k < n && ok; k++) {
        const mf_program *p = *mf_params_program_at(e->op, e->params, k);
        uint64_t *in = mf_alloc(((size_t)p->in_count + 1) * sizeof *in);
        for (int i = 0; in && i < p->in_count; i++)
            in[i] = input_of(e, env, masks, k, i);
        ok = in && check(w, p, mf_params_env(e->op, e->params, env), in);
        mf_free(in);
    }
    return ok;
}

/* A host call, which may fail; a check of values that are declared to differ, or of any value if the check is switched on; and a NaN
 * check. */
static bool known_only_at_run_time(const mf_eqn *e, const mf_axis_env *env, const uint64_t *masks)
{
    if (mf_is_host_call(e))
        return true;
    if (e->op != &mf_op_check_replicated)
        return e->op == &mf_op_check_nan;
    return (sync_point_of(e, env).members & masks[e->in[0]->id]) || mf_check_is_on(MF_CHECK_REPLICATED);
}

/* False: out of memory, as everywhere here. */
static bool check_eqn(sync_points *w, const mf_eqn *e, const mf_axis_env *env, const uint64_t *masks)
{
    int from = w->points.count;
    uint64_t predicate = e->op == &mf_op_cond ? masks[e->in[0]->id] : 0;
    if (known_only_at_run_time(e, env, masks) && !mf_vector_push(&w->list->wanted, e))
        return false;
    if (e->op->collective && !mf_vector_push(&w->points, sync_point_of(e, env)))
        return false;
    if (e->op == &mf_op_while && !predicate_of_while(e, env, masks, &predicate))
        return false;
    return check_nested(w, e, env, masks) && agree(w, e, env, predicate, from);
}

static bool check(sync_points *w, const mf_program *p, const mf_axis_env *env, const uint64_t *in)
{
    uint64_t *masks = mf_variance_of(p, env, in);
    bool ok = masks != NULL;
    for (int i = 0; i < p->eqn_count && ok; i++)
        ok = check_eqn(w, p->eqns[i], env, masks);
    mf_free(masks);
    return ok;
}

mf_error_object *pjrt_check_agreement(const mf_program *p, mf_hlo_findings *list)
{
    sync_points w = { .list = list };
    uint64_t *in = mf_calloc((size_t)p->in_count + 1, sizeof *in);
    bool ok = in && check(&w, p, NULL, in);
    mf_free(in);
    mf_free(w.points.at);
    return ok ? NULL : mf_error_out_of_memory();
}
