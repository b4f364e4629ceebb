/* remat: a call. Its partial evaluation passes on only the inputs and the values that its policy saves; the rest is recomputed. In all else
 * it is like any call (call_op.c). `differentiated` marks the half that recomputes, which the passes keep separate from the original. */
#include "ops/control/nested.h"

#include "transform/rules/policy.h"

static const mf_remat_params *remat_of(const mf_eqn *e) { return e->params; }

static mf_error_object *remat_type_rule(mf_type_context *c)
{
    const mf_remat_params *p = c->params;
    if (!mf_policy_known(p->policy))
        return mf_type_error(c, MF_ERROR_ARGUMENT, "there is no policy '%s'", p->policy);
    return nested_call_type(c);
}

/* The half that recomputes and continues. Inputs: the known operands, the unknown ones, the saved values. */
static mf_program *recompute(mf_partial_context *c, const mf_program *p, const bool *known, const nested_parts *parts, const mf_kept *kept)
{
    mf_builder b;
    mf_error_object *error = NULL;
    mf_builder_init(&b, c->env);
    mf_variable **all = nested_alloc(&b, p->in_count, sizeof *all), **out = nested_alloc(&b, parts->unknown->out_count, sizeof *out);
    mf_variable **in = nested_alloc(&b, p->in_count + parts->residual_count + kept->count, sizeof *in);
    mf_variable **made = nested_alloc(&b, kept->again->out_count, sizeof *made);
    int count = 0, residual = 0;
    for (int pass = 0; pass < 2 && !b.error; pass++)
        for (int i = 0; i < p->in_count; i++)
            if (known[i] == !pass)
                all[i] = mf_builder_input(&b, p->in[i]->type);
    for (int i = 0; i < parts->known_in_count && !b.error; i++)
        in[i] = all[parts->known_from[i]];
    for (int i = 0; i < kept->count && !b.error; i++)
        in[parts->known_in_count + i] = mf_builder_input(&b, kept->again->in[parts->known_in_count + i]->type);
    if (!b.error)
        mf_inline(&b, kept->again, in, made);
    for (int r = 0; r < parts->residual_count && !b.error; r++)
        in[count++] = parts->forward[r] >= 0 ? all[parts->forward[r]] : made[residual++];
    for (int i = 0; i < p->in_count && !b.error; i++)
        if (!known[i])
            in[count++] = all[i];
    if (!b.error)
        mf_inline(&b, parts->unknown, in, out);
    mf_program *result = mf_builder_finish(&b, out, b.error ? 0 : parts->unknown->out_count, &error);
    if (!result)
        mf_partial_fail(c, error);
    return result;
}

/* out: the known results, then the saved values. */
static void emit_known(mf_partial_context *c, const mf_eqn *e, const nested_parts *parts, const mf_kept *kept, mf_variable **out)
{
    mf_variable **in = mf_partial_alloc(c, e->in_count, sizeof *in);
    if (!in)
        return;
    nested_known_operands(c, e, parts, in);
    nested_call call = nested_call_of(e, kept->known);
    if (kept->known->out_count)
        mf_emit_into(&c->known_builder, e->op, &call.remat, in, parts->known_in_count, out, kept->known->out_count);
    nested_set_known(c, e, parts, out);
}

static void emit_unknown(mf_partial_context *c, const mf_eqn *e, const bool *known, const nested_parts *parts, const mf_kept *kept,
                         mf_variable *const *made)
{
    mf_program *again = recompute(c, remat_of(e)->program, known, parts, kept), *u;
    int operands = e->in_count + kept->count, count = 0, position = 0;
    mf_variable **in = mf_partial_alloc(c, operands, sizeof *in), **out = mf_partial_alloc(c, e->out_count, sizeof *out);
    bool *used_in = mf_partial_alloc(c, operands, sizeof *used_in), *used_out = mf_partial_alloc(c, e->out_count, sizeof *used_out);
    mf_error_object *error = NULL;
    if (!again || !in || !out || !used_in || !used_out)
        goto done;
    for (int o = 0; o < again->out_count; o++)
        used_out[o] = true;
    u = nested_prune(again, used_out, used_in, &error);
    if (!u) {
        mf_partial_fail(c, error);
        goto done;
    }
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < e->in_count; i++)
            if (known[i] == !pass && used_in[position++])
                in[count++] = mf_partial_unknown(c, e->in[i]);
    for (int i = 0; i < kept->count; i++)
        if (used_in[position++])
            in[count++] = mf_partial_residual(c, made[parts->known_out_count + i]);
    nested_call call = nested_call_of(e, u);
    call.remat.differentiated = true;
    if (u->out_count)
        mf_emit_into(&c->unknown_builder, e->op, &call.remat, in, count, out, u->out_count);
    nested_set_unknown(c, e, parts, out);
    mf_drop(u);
done:
    mf_drop(again);
}

static void remat_partial_eval(mf_partial_context *c, const mf_eqn *e)
{
    nested_parts parts;
    mf_kept kept;
    mf_error_object *error = NULL;
    bool *known = nested_known(c, e);
    if (!known || !nested_split(c, c->env, remat_of(e)->program, known, NULL, &parts))
        return;
    if (mf_keep_by_policy(parts.known, c->env, remat_of(e)->policy, remat_of(e)->names, parts.known_out_count, &kept, &error)) {
        mf_variable **made = mf_partial_alloc(c, kept.known->out_count, sizeof *made);
        if (made)
            emit_known(c, e, &parts, &kept, made);
        if (made && !mf_partial_failed(c))
            emit_unknown(c, e, known, &parts, &kept, made);
        mf_drop(kept.known);
        mf_drop(kept.again);
    } else {
        mf_partial_fail(c, error);
    }
    nested_parts_drop(&parts);
}

static const mf_param remat_params[] = { MF_PARAM(mf_remat_params, name, MF_PARAM_NAME),
                                         MF_PARAM(mf_remat_params, policy, MF_PARAM_NAME),
                                         MF_PARAM(mf_remat_params, names, MF_PARAM_NAMES),
                                         MF_PARAM(mf_remat_params, prevent_cse, MF_PARAM_BOOL),
                                         MF_PARAM(mf_remat_params, differentiated, MF_PARAM_BOOL),
                                         MF_PARAM(mf_remat_params, program, MF_PARAM_PROGRAM),
                                         { 0 } };

static const char *const remat_samples[] = {
    "[name=f, program=(a: f32[2], b: f32[2]) {\n"
    "c: f32[2] = mul a b\n"
    "return c }] f32[2]{=1,2} f32[2]{=3,4} -> f32[2]{=3,8}",
    "[name=f, program=(a: f64[3], b: f64[3]) {\n"
    "c: f64[3] = mul a a\n"
    "d: f64[3] = mul c b\n"
    "e: f64[3] = mul d d\n"
    "return e }] f64[3] f64[3]",
    NULL,
};

/* A recomputation's operands go through a barrier, since XLA would merge it with the original otherwise. */
MF_HLO_RULE(remat_hlo)
{
    const mf_remat_params *p = e->params;
    mf_hlo_value *held = h_alloc(h, e->in_count, sizeof *held);
    for (int i = 0; held && i < e->in_count; i++)
        held[i] = in[i];
    if (held && p->prevent_cse && p->differentiated && e->in_count)
        h_ops(h, "optimization_barrier", in, e->in_count, held, e->in_count);
    if (held)
        h_program(h, p->program, held, out);
}

const mf_op mf_op_remat = {
    .name = "remat",
    .params = remat_params,
    .params_size = sizeof(mf_remat_params),
    .flags = MF_OP_CONTROL | MF_OP_CALL | MF_OP_SPLITS,
    .type_rule = remat_type_rule,
    .jvp = nested_call_jvp,
    .transpose = nested_call_transpose,
    .partial_eval = remat_partial_eval,
    .dce = nested_call_dce,
    .batch = nested_call_batch,
    .variance = nested_call_variance,
    .cost = nested_call_cost,
    .lower = mf_lower_none,
    .evaluate = mf_evaluate_by_runtime,
    MF_HLO_BY(remat_hlo),
    .samples = remat_samples,
};
