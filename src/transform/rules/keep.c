/* Splits a forward pass by a policy: the values to be saved become results of it, and everything else is emitted a second time, for the
 * backward pass to recompute. Nested programs of calls, maps and scans are split likewise; any other equation is saved or not as a whole.
 * Invariant: both programs have p's inputs in p's order; the saved values come last in both. */
#include "transform/rules/policy.h"

#include "ops/ops.h"
#include "transform/rules/sweep.h"

typedef struct keeper {
    const char *policy;
    const mf_namelist *names;
    mf_builder known, again;
    mf_arena arena;
    mf_variable **first, **second; /* by variable id of p: its variable in known, in again */
    int count, capacity;
    mf_variable **kept; /* variables of known; the inputs of again beyond p's are the same values */
} keeper;

/* known gives p's outputs, then all saved values; again gives p's outputs. Nothing is pruned yet. */
static bool split(const mf_program *p, const mf_axis_env *env, const char *policy, const mf_namelist *names, mf_kept *out,
                  mf_error_object **error);

static void *alloc(keeper *k, int count, size_t size)
{
    void *at = mf_arena_alloc(&k->arena, ((size_t)count + 1) * size);
    if (!at)
        mf_builder_fail_memory(&k->known);
    return at;
}

static mf_variable *use(mf_builder *b, mf_variable **map, const mf_variable *v)
{
    if (!map[v->id])
        map[v->id] = v->constant ? mf_builder_constant(b, v->constant) : mf_poison(b);
    return map[v->id];
}

/* Saves a value of known; returns its variable in again. */
static mf_variable *keep(keeper *k, mf_variable *v)
{
    if (!mf_grow(&k->kept, &k->capacity, k->count + 1, sizeof *k->kept)) {
        mf_builder_fail_memory(&k->known);
        return mf_poison(&k->again);
    }
    k->kept[k->count++] = v;
    return mf_builder_input(&k->again, v->type);
}

static void bind(mf_variable **map, const mf_eqn *e, mf_variable *const *out)
{
    for (int o = 0; o < e->out_count; o++)
        map[e->out[o]->id] = out[o];
}

/* ---- equations with programs */

static const mf_intlist *extended(keeper *k, const mf_intlist *list, int more)
{
    int64_t *at = alloc(k, list->count + more, sizeof *at);
    for (int i = 0; at && i < list->count; i++)
        at[i] = list->at[i];
    return at ? mf_ints_intern(at, list->count + more) : NULL; /* saved values are stacked along axis 0 */
}

/* A copy of e's params with the program of one half. NULL after a failure. */
static const void *half(keeper *k, const mf_eqn *e, mf_program *p, int more_in, int more_out)
{
    union {
        mf_jit_params jit;
        mf_remat_params remat;
        mf_pmap_params pmap;
        mf_scan_params scan;
    } *at = alloc(k, 1, sizeof *at);
    if (!at)
        return NULL;
    if (e->op == &mf_op_jit) {
        at->jit = *(const mf_jit_params *)e->params;
        at->jit.program = p;
    } else if (e->op == &mf_op_remat) {
        at->remat = *(const mf_remat_params *)e->params;
        at->remat.program = p;
    } else if (e->op == &mf_op_scan) {
        at->scan = *(const mf_scan_params *)e->params;
        at->scan.body = p;
    } else {
        at->pmap = *(const mf_pmap_params *)e->params;
        at->pmap.program = p;
        at->pmap.in_axes = extended(k, at->pmap.in_axes, more_in);
        at->pmap.out_axes = extended(k, at->pmap.out_axes, more_out);
        at->pmap.donated = mf_ints_intern(NULL, 0);
    }
    return at;
}

/* If result o of the second call is just a saved operand, stacked the same way: that operand; else -1. */
static int forwarded(const mf_eqn *e, const mf_program *again, int o)
{
    bool same = true;
    if (e->op == &mf_op_pmap)
        same = ((const mf_pmap_params *)e->params)->out_axes->at[o] == 0;
    else if (e->op == &mf_op_scan)
        same = o >= ((const mf_scan_params *)e->params)->carry;
    for (int i = e->in_count; same && i < again->in_count; i++)
        if (again->out[o] == again->in[i])
            return i;
    return -1;
}

/* The body's saved values are results of the first call and operands of the second, stacked for a map or scan. */
static void split_nested(keeper *k, const mf_eqn *e, mf_variable *const *in, mf_variable **in_again)
{
    mf_kept body;
    mf_error_object *error = NULL;
    const mf_program *p = *mf_params_program_at(e->op, e->params, 0);
    if (!split(p, mf_params_env(e->op, e->params, k->known.env), k->policy, k->names, &body, &error)) {
        mf_builder_fail(&k->known, error);
        return;
    }
    mf_variable **out = alloc(k, e->out_count + body.count, sizeof *out), **operands = alloc(k, e->in_count + body.count, sizeof *operands);
    const void *known = half(k, e, body.known, 0, body.count), *again = half(k, e, body.again, body.count, 0);
    if (out && operands && known && again) {
        mf_emit_into(&k->known, e->op, known, in, e->in_count, out, e->out_count + body.count);
        bind(k->first, e, out);
        for (int i = 0; i < e->in_count; i++)
            operands[i] = in_again[i];
        for (int i = 0; i < body.count; i++)
            operands[e->in_count + i] = keep(k, out[e->out_count + i]);
        mf_emit_into(&k->again, e->op, again, operands, e->in_count + body.count, out, e->out_count);
        for (int o = 0; o < e->out_count; o++) {
            int from = forwarded(e, body.again, o);
            out[o] = from < 0 ? out[o] : operands[from];
        }
        bind(k->second, e, out);
    }
    mf_drop(body.known);
    mf_drop(body.again);
}

static void split_equation(keeper *k, const mf_eqn *e)
{
    mf_variable **in = alloc(k, e->in_count, sizeof *in), **again = alloc(k, e->in_count, sizeof *again), **out;
    out = alloc(k, e->out_count, sizeof *out);
    if (!in || !again || !out)
        return;
    for (int i = 0; i < e->in_count; i++) {
        in[i] = use(&k->known, k->first, e->in[i]);
        again[i] = use(&k->again, k->second, e->in[i]);
    }
    k->known.address = k->again.address = e->address;
    if (k->policy && (e->op->flags & MF_OP_SPLITS)) {
        split_nested(k, e, in, again);
        return;
    }
    mf_copy_eqn(&k->known, e, in, out);
    bind(k->first, e, out);
    if (k->known.error)
        return;
    if (mf_policy_saves(k->policy, k->names, e))
        for (int o = 0; o < e->out_count; o++)
            out[o] = keep(k, out[o]);
    else
        mf_copy_eqn(&k->again, e, again, out);
    bind(k->second, e, out);
}

static bool finish(keeper *k, const mf_program *p, mf_kept *out, mf_error_object **error)
{
    mf_variable **first = alloc(k, p->out_count + k->count, sizeof *first), **second = alloc(k, p->out_count, sizeof *second);
    bool good = first && second && !k->known.error;
    for (int o = 0; good && o < p->out_count; o++) {
        first[o] = use(&k->known, k->first, p->out[o]);
        second[o] = use(&k->again, k->second, p->out[o]);
    }
    for (int i = 0; good && i < k->count; i++)
        first[p->out_count + i] = k->kept[i];
    out->count = k->count;
    out->known = mf_builder_finish(&k->known, first, good ? p->out_count + k->count : 0, error);
    if (!out->known) {
        mf_builder_abandon(&k->again);
        return false;
    }
    out->again = mf_builder_finish(&k->again, second, p->out_count, error);
    if (!out->again)
        mf_drop(out->known);
    return out->again;
}

static bool split(const mf_program *p, const mf_axis_env *env, const char *policy, const mf_namelist *names, mf_kept *out,
                  mf_error_object **error)
{
    keeper k = { .policy = policy, .names = names };
    *out = (mf_kept){ 0 };
    mf_builder_init(&k.known, env);
    mf_builder_init(&k.again, env);
    k.first = alloc(&k, p->var_count, sizeof *k.first);
    k.second = alloc(&k, p->var_count, sizeof *k.second);
    for (int i = 0; k.first && k.second && i < p->in_count; i++) {
        k.first[p->in[i]->id] = mf_builder_input(&k.known, p->in[i]->type);
        k.second[p->in[i]->id] = mf_builder_input(&k.again, p->in[i]->type);
    }
    for (int i = 0; i < p->eqn_count && !k.known.error && !k.again.error; i++)
        split_equation(&k, p->eqns[i]);
    bool good = finish(&k, p, out, error);
    mf_free(k.kept);
    mf_arena_free(&k.arena);
    return good;
}

/* ---- pruning */

static bool prune(const mf_program *p, int first, mf_kept *out, mf_error_object **error)
{
    mf_kept all = *out;
    int n = p->in_count, others = p->out_count - first, used = 0;
    int *in = mf_calloc((size_t)(n + all.count + p->out_count + all.count) + 1, sizeof *in), *to = in ? in + n + all.count : NULL;
    bool *wants = mf_calloc((size_t)(p->out_count + n + all.count) + 1, sizeof *wants), *needs = wants ? wants + p->out_count : NULL;
    *out = (mf_kept){ 0 };
    for (int o = first; wants && o < p->out_count; o++)
        wants[o] = true;
    if (in && wants && mf_program_uses(all.again, wants, needs)) {
        for (int i = 0; i < n; i++)
            in[i] = i;
        for (int o = 0; o < others; o++)
            to[o] = first + o;
        for (int i = 0; i < all.count; i++)
            if (needs[n + i])
                in[n + used++] = n + i;
        out->count = used;
        out->again = mf_program_select(all.again, in, n + used, to, others, error);
        for (int o = 0; o < first; o++)
            to[o] = o;
        for (int i = 0; i < used; i++)
            to[first + i] = p->out_count + in[n + i] - n;
        out->known = out->again ? mf_program_select(all.known, NULL, n, to, first + used, error) : NULL;
        if (!out->known)
            mf_drop(out->again);
    } else {
        *error = mf_error_out_of_memory();
    }
    mf_free(in);
    mf_free(wants);
    return out->known;
}

bool mf_keep_by_policy(const mf_program *p, const mf_axis_env *env, const char *policy, const mf_namelist *names, int first, mf_kept *out,
                       mf_error_object **error)
{
    if (!split(p, env, policy, names, out, error))
        return false;
    mf_program *known = out->known, *again = out->again;
    bool good = prune(p, first, out, error);
    mf_drop(known);
    mf_drop(again);
    return good;
}
