/* Calls: jit and remat. Both run their program in place; they differ in what crosses partial evaluation: jit hands residuals over,
 * remat hands its inputs over and computes again. Invariant: the program is closed, operands are its inputs in order. */
#include "ops/nested.h"

static const mf_jit_params *call_of(const mf_eqn *e) { return e->params; }

static mf_error_object *call_type_rule(mf_type_context *c)
{
    const mf_program *p = ((const mf_jit_params *)c->params)->program;
    if (c->in_count != p->in_count)
        return mf_type_error(c, MF_ERROR_ARGUMENT, "%d operands for a program of %d inputs", c->in_count, p->in_count);
    mf_error_object *error = nested_check(c, 0, p, 0, p->in_count, "program");
    const mf_type **out = error ? NULL : mf_type_outputs(c, p->out_count);
    for (int o = 0; out && o < p->out_count; o++)
        out[o] = p->out[o]->type;
    return error;
}

static void call_jvp(mf_builder *b, const mf_eqn *e, mf_variable *const *in, mf_variable *const *tin, mf_variable **out, mf_variable **tout)
{
    const mf_jit_params *old = call_of(e);
    mf_error_object *error = NULL;
    bool *has = nested_room(b, e->in_count, sizeof *has), *gives = nested_room(b, e->out_count, sizeof *gives);
    nested_list operands = nested_list_new(b, 2 * e->in_count);
    mf_variable **results = nested_room(b, 2 * e->out_count, sizeof *results);
    if (b->error)
        return;
    for (int i = 0; i < e->in_count; i++) {
        has[i] = tin[i];
        nested_put(&operands, in[i]);
    }
    for (int i = 0; i < e->in_count; i++)
        if (tin[i])
            nested_put(&operands, tin[i]);
    mf_program *p = mf_jvp_program(old->program, b->env, has, gives, &error);
    if (!p) {
        nested_fail(b, error);
        return;
    }
    mf_emit_into(b, e->op, &(mf_jit_params){ p, old->name }, operands.at, operands.count, results, p->out_count);
    for (int o = 0, t = e->out_count; o < e->out_count; o++) {
        out[o] = results[o];
        tout[o] = gives[o] ? results[t++] : NULL;
    }
    mf_drop(p);
}

static void call_transpose(mf_builder *b, const mf_eqn *e, const bool *linear, mf_variable *const *in, mf_variable *const *ct,
                           mf_variable **ct_in)
{
    nested_transpose_call(b, e->op == &mf_op_remat ? e->op : &mf_op_jit, call_of(e)->program, call_of(e)->name, e, linear, in, ct, ct_in);
}

static bool call_dce(const mf_eqn *e, const bool *used_out, bool *used_in, const void **params)
{
    mf_error_object *error = NULL;
    mf_program *p = nested_prune(call_of(e)->program, used_out, used_in, &error);
    mf_jit_params *smaller = p ? mf_alloc(sizeof *smaller) : NULL;
    if (smaller)
        *smaller = (mf_jit_params){ p, call_of(e)->name };
    else
        mf_drop(p);
    nested_forget(error);
    *params = smaller;
    return smaller;
}

static void call_batch(mf_batch_context *c, const mf_eqn *e, mf_variable *const *in, const int *in_axis, mf_variable **out, int *out_axis)
{
    mf_error_object *error = NULL;
    for (int o = 0; o < e->out_count; o++)
        out_axis[o] = -2;
    mf_program *p = mf_batch_program(call_of(e)->program, c->b->env, c->axis_name, c->size, in_axis, out_axis, &error);
    if (p)
        mf_emit_into(c->b, e->op, &(mf_jit_params){ p, call_of(e)->name }, in, e->in_count, out, e->out_count);
    else
        nested_fail(c->b, error);
    mf_drop(p);
}

static void call_variance(const mf_eqn *e, const mf_axis_env *env, const uint64_t *in, uint64_t *out)
{
    nested_variance(call_of(e)->program, env, in, out);
}

static mf_cost call_cost(const mf_eqn *e) { return nested_cost(call_of(e)->program); }

static const mf_param call_params[] = { MF_PARAM(mf_jit_params, name, MF_PARAM_NAME),
                                        MF_PARAM(mf_jit_params, program, MF_PARAM_PROGRAM),
                                        { NULL, 0, 0 } };

/* The known half becomes a call of its own, and its residuals cross. */
static void jit_partial_eval(mf_partial_context *c, const mf_eqn *e)
{
    nested_parts parts;
    const char *name = call_of(e)->name;
    bool *known = nested_known(c, e);
    if (!known || !nested_split(c, c->env, call_of(e)->program, known, NULL, &parts))
        return;
    mf_variable **in = mf_partial_room(c, e->in_count + parts.residual_count, sizeof *in);
    mf_variable **out = mf_partial_room(c, e->out_count + parts.residual_count, sizeof *out);
    if (in && out) {
        mf_builder *k = &c->known_builder, *u = &c->unknown_builder;
        int count = 0, made = parts.known_out_count;
        nested_known_operands(c, e, &parts, in);
        if (parts.known->out_count)
            mf_emit_into(k, e->op, &(mf_jit_params){ parts.known, name }, in, parts.known_in_count, out, parts.known->out_count);
        nested_set_known(c, e, &parts, out);
        for (int r = 0; r < parts.residual_count; r++)
            in[count++] = parts.forward[r] >= 0 ? mf_partial_unknown(c, e->in[parts.forward[r]]) : mf_partial_residual(c, out[made++]);
        for (int i = 0; i < e->in_count; i++)
            if (!known[i])
                in[count++] = mf_partial_unknown(c, e->in[i]);
        if (parts.unknown->out_count)
            mf_emit_into(u, e->op, &(mf_jit_params){ parts.unknown, name }, in, count, out, parts.unknown->out_count);
        nested_set_unknown(c, e, &parts, out);
    }
    nested_parts_drop(&parts);
}

const mf_op mf_op_jit = {
    .name = "jit",
    .params = call_params,
    .params_size = sizeof(mf_jit_params),
    .flags = MF_OP_CONTROL,
    .type_rule = call_type_rule,
    .jvp = call_jvp,
    .transpose = call_transpose,
    .partial_eval = jit_partial_eval,
    .dce = call_dce,
    .batch = call_batch,
    .variance = call_variance,
    .cost = call_cost,
    .lower = mf_lower_none,
    .evaluate = mf_evaluate_by_runtime,
    .samples = nested_no_samples,
};

/* The unknown half of a remat: the known program again, then the unknown one. Inputs: the known inputs that are used, then the unknown. */
static mf_program *recompute(mf_partial_context *c, const mf_program *p, const bool *known, const nested_parts *parts)
{
    mf_builder b;
    mf_error_object *error = NULL;
    mf_builder_init(&b, c->env);
    mf_variable **all = nested_room(&b, p->in_count, sizeof *all);
    mf_variable **in = nested_room(&b, p->in_count + parts->residual_count, sizeof *in),
                **made = nested_room(&b, parts->known->out_count, sizeof *made);
    mf_variable **out = nested_room(&b, parts->unknown->out_count, sizeof *out);
    int count = 0, residual = parts->known_out_count;
    for (int pass = 0; pass < 2 && !b.error; pass++)
        for (int i = 0; i < p->in_count; i++)
            if (known[i] == !pass)
                all[i] = mf_builder_input(&b, p->in[i]->type);
    for (int i = 0; i < parts->known_in_count && !b.error; i++)
        in[i] = all[parts->known_from[i]];
    if (!b.error)
        mf_inline(&b, parts->known, in, made);
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

static void remat_emit_known(mf_partial_context *c, const mf_eqn *e, const nested_parts *parts)
{
    mf_error_object *error = NULL;
    int count = parts->known_out_count;
    int *keep = mf_partial_room(c, count, sizeof *keep);
    mf_variable **in = mf_partial_room(c, e->in_count, sizeof *in), **out = mf_partial_room(c, count, sizeof *out);
    if (!keep || !in || !out)
        return;
    for (int o = 0; o < count; o++)
        keep[o] = o;
    mf_program *k = mf_program_select(parts->known, NULL, parts->known->in_count, keep, count, &error);
    if (!k) {
        mf_partial_fail(c, error);
        return;
    }
    nested_known_operands(c, e, parts, in);
    if (count)
        mf_emit_into(&c->known_builder, e->op, &(mf_jit_params){ k, call_of(e)->name }, in, parts->known_in_count, out, count);
    nested_set_known(c, e, parts, out);
    mf_drop(k);
}

static void remat_emit_unknown(mf_partial_context *c, const mf_eqn *e, const bool *known, const nested_parts *parts)
{
    const mf_program *p = call_of(e)->program;
    mf_program *again = recompute(c, p, known, parts), *u;
    mf_variable **in = mf_partial_room(c, e->in_count, sizeof *in), **out = mf_partial_room(c, e->out_count, sizeof *out);
    bool *used_in = mf_partial_room(c, e->in_count, sizeof *used_in), *used_out = mf_partial_room(c, e->out_count, sizeof *used_out);
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
    int count = 0, position = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < e->in_count; i++)
            if (known[i] == !pass && used_in[position++])
                in[count++] = mf_partial_unknown(c, e->in[i]);
    if (u->out_count)
        mf_emit_into(&c->unknown_builder, e->op, &(mf_jit_params){ u, call_of(e)->name }, in, count, out, u->out_count);
    nested_set_unknown(c, e, parts, out);
    mf_drop(u);
done:
    mf_drop(again);
}

/* Residuals are the inputs; what lies between is computed again on the unknown side. */
static void remat_partial_eval(mf_partial_context *c, const mf_eqn *e)
{
    nested_parts parts;
    bool *known = nested_known(c, e);
    if (!known || !nested_split(c, c->env, call_of(e)->program, known, NULL, &parts))
        return;
    remat_emit_known(c, e, &parts);
    remat_emit_unknown(c, e, known, &parts);
    nested_parts_drop(&parts);
}

const mf_op mf_op_remat = {
    .name = "remat",
    .params = call_params,
    .params_size = sizeof(mf_jit_params),
    .flags = MF_OP_CONTROL,
    .type_rule = call_type_rule,
    .jvp = call_jvp,
    .transpose = call_transpose,
    .partial_eval = remat_partial_eval,
    .dce = call_dce,
    .batch = call_batch,
    .variance = call_variance,
    .cost = call_cost,
    .lower = mf_lower_none,
    .evaluate = mf_evaluate_by_runtime,
    .samples = nested_no_samples,
};
