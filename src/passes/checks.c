/* Opt-in checks. "nan": after every equation that computes inexact numbers, look for NaNs that its operands do not have. "replicated":
 * every device of a map also computes the values that are the same for all (runtime/compile/schedule/schedule.c), and the results of each
 * such equation are compared; for a map over processes, so are the unmapped arguments that the processes pass. Invariant: values do not
 * change; a program compiled without a check does not have it (trace/checks/check_list.c). The pass runs after dead code, which needs no
 * check, is removed, and before all passes that rewrite. */
#include "ops/emit.h"
#include "ops/params.h"
#include "ops/ops.h"
#include "passes/rewrite.h"
#include "trace/checks/check_list.h"

/* ---- NaNs */

static bool computes(const mf_eqn *e)
{
    if ((e->op->flags & (MF_OP_COLLECTIVE | MF_OP_CONTROL | MF_OP_EFFECT)) || mf_params_program_count(e->op, e->params))
        return false; /* nested programs are checked by themselves; sums over devices have a check of their own */
    for (int i = 0; i < e->out_count; i++)
        if (mf_dtype_is_inexact(e->out[i]->type->dtype))
            return true;
    return false;
}

/* Sums over devices, in which an infinity and its negative give a NaN. */
static bool sums_devices(const mf_eqn *e)
{
    bool sum = e->op->reduced == MF_REDUCED_DEVICES && e->op->reducer == MF_REDUCE_SUM;
    return sum && e->in_count == 1 && mf_dtype_is_inexact(e->in[0]->type->dtype);
}

/* A NaN where some device's operand has one, else zero. */
static mf_variable *nan_of_devices(mf_builder *b, const mf_eqn *e, mf_variable *x)
{
    mf_variable *flags = e_convert(b, e_compare(b, &mf_op_ne, x, x), MF_F32);
    mf_eqn *count = b->error ? NULL : mf_emit_eqn(b, e->op, e->params, &flags, 1);
    return count ? e_unary(b, &mf_op_sqrt, e_neg(b, count->out[0])) : NULL;
}

static void check_equation(mf_rewrite *r, const mf_eqn *e, mf_variable **in)
{
    int count = 0, results = 0;
    mf_variable **looked_at = mf_rewrite_alloc(r, e->in_count + e->out_count, sizeof(mf_variable *));
    mf_rewrite_copy(r, e, in);
    if (r->b->error || !looked_at || !(computes(e) || sums_devices(e)))
        return;
    for (int i = 0; i < e->out_count; i++)
        if (mf_dtype_is_inexact(e->out[i]->type->dtype))
            looked_at[count++] = r->map[e->out[i]->id];
    results = count;
    if (sums_devices(e))
        looked_at[count++] = nan_of_devices(r->b, e, in[0]);
    for (int i = 0; i < e->in_count && !sums_devices(e); i++)
        if (mf_dtype_is_inexact(in[i]->type->dtype))
            looked_at[count++] = in[i];
    if (!r->b->error)
        mf_emit_eqn(r->b, &mf_op_check_nan, &(mf_check_nan_params){ mf_intern(e->op->name), results }, looked_at, count);
}

static mf_program *check_nans(const mf_program *p, const mf_axis_env *env, mf_error_object **error)
{
    return mf_rewrite_program(p, env, check_equation, check_nans, NULL, error);
}

/* ---- replicas */

typedef struct replicas { /* for a map's body; zero for the program itself */
    const uint64_t *mask; /* variance by variable; NULL: not inside a map */
    uint64_t bit;
    const char *axis;
    bool spans; /* whether the map spans processes */
} replicas;

static void check_replicas(mf_rewrite *r, const mf_eqn *e, mf_variable **in);

static void check_same(mf_rewrite *r, const mf_variable *v, const char *name)
{
    const replicas *body = r->state;
    mf_replicated_params same = { mf_names_intern(&body->axis, 1), mf_intern(name) };
    if (!r->b->error && !(body->mask[v->id] & body->bit))
        mf_emit_eqn(r->b, &mf_op_check_replicated, &same, &r->map[v->id], 1);
}

/* Compares the unmapped inputs of a map over processes, each of which passes a value of its own. */
static void check_inputs(mf_rewrite *r)
{
    const replicas *body = r->state;
    for (int i = 0; body->spans && i < r->source->in_count; i++)
        check_same(r, r->source->in[i], "an argument that is not mapped");
}

/* The body of the map e with checks. r is the state of the program that contains e. */
static mf_program *check_body(const mf_rewrite *r, const mf_eqn *e, const mf_pmap_params *params, mf_error_object **error)
{
    const replicas *outer = r->state;
    const mf_axis_env *env = mf_params_env(e->op, params, r->b->env);
    int depth = mf_axis_env_depth(env, env);
    replicas body = { .bit = depth < 63 ? (uint64_t)1 << depth : 0, .axis = params->axis_name, .spans = params->local->count };
    uint64_t *varies = mf_alloc(((size_t)e->in_count + 1) * sizeof *varies);
    for (int i = 0; varies && i < e->in_count; i++)
        varies[i] = (outer->mask ? outer->mask[e->in[i]->id] : 0) | (params->in_axes->at[i] == INT64_MIN ? 0 : body.bit);
    body.mask = varies ? mf_variance_of(params->program, env, varies) : NULL;
    mf_program *made = body.mask ? mf_rewrite_program_from(params->program, env, check_inputs, check_replicas, NULL, &body, error) : NULL;
    if (!made && !*error)
        *error = mf_error_out_of_memory();
    mf_free((void *)(uintptr_t)body.mask);
    mf_free(varies);
    return made;
}

static void check_map(mf_rewrite *r, const mf_eqn *e, mf_variable **in)
{
    mf_pmap_params params = *(const mf_pmap_params *)e->params;
    mf_error_object *error = NULL;
    if (!params.axis_name)
        params.axis_name = mf_intern("devices");
    params.program = check_body(r, e, &params, &error);
    if (params.program)
        mf_rewrite_replace(r, e, &params, in, e->in_count, NULL);
    else
        mf_builder_fail(r->b, error);
    mf_drop(params.program);
}

static void check_replicas(mf_rewrite *r, const mf_eqn *e, mf_variable **in)
{
    const replicas *body = r->state;
    if (e->op == &mf_op_pmap)
        check_map(r, e, in);
    else
        mf_rewrite_copy(r, e, in);
    if (!body->mask || (e->op->flags & (MF_OP_COLLECTIVE | MF_OP_EFFECT)))
        return;
    for (int o = 0; o < e->out_count; o++)
        check_same(r, e->out[o], e->op->name);
}

/* ---- the pass */

mf_program *mf_pass_check(const mf_program *p, const mf_axis_env *env, mf_error_object **error)
{
    mf_program *at = mf_check_is_on(MF_CHECK_NAN) ? check_nans(p, env, error) : mf_retain((mf_program *)(uintptr_t)p);
    if (!at || !mf_check_is_on(MF_CHECK_REPLICATED))
        return at;
    mf_program *made = mf_rewrite_program(at, env, check_replicas, NULL, &(replicas){ 0 }, error);
    mf_drop(at);
    return made;
}
