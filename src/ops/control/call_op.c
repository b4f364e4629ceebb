/* Calls: what jit and remat share, and jit. Both run their program in place; they differ in partial evaluation, where jit passes on all
 * residuals. Invariant: the program is closed; the operands are its inputs in order. */
#include "ops/control/nested.h"

#include <string.h>

static const mf_jit_params *call_of(const mf_eqn *e) { return e->params; }

nested_call nested_call_of(const mf_eqn *e, mf_program *p)
{
    nested_call call = { .op = e->op };
    if (e->op == &mf_op_remat)
        call.remat = *(const mf_remat_params *)e->params;
    else
        call.jit = *call_of(e);
    call.jit.program = p;
    return call;
}

mf_error_object *nested_call_type(mf_type_context *c)
{
    const mf_program *p = *(mf_program *const *)c->params;
    if (c->in_count != p->in_count)
        return mf_type_error(c, MF_ERROR_ARGUMENT, "%d operands for a program of %d inputs", c->in_count, p->in_count);
    mf_error_object *error = nested_check(c, 0, p, 0, p->in_count, "program");
    const mf_type **out = error ? NULL : mf_type_outputs(c, p->out_count);
    for (int o = 0; out && o < p->out_count; o++)
        out[o] = p->out[o]->type;
    return error;
}

void nested_call_jvp(mf_builder *b, const mf_eqn *e, mf_variable *const *in, mf_variable *const *tin, mf_variable **out, mf_variable **tout)
{
    mf_error_object *error = NULL;
    bool *has = nested_alloc(b, e->in_count, sizeof *has), *gives = nested_alloc(b, e->out_count, sizeof *gives);
    nested_list operands = nested_list_new(b, 2 * e->in_count);
    mf_variable **results = nested_alloc(b, 2 * e->out_count, sizeof *results);
    if (b->error)
        return;
    for (int i = 0; i < e->in_count; i++) {
        has[i] = tin[i];
        nested_put(&operands, in[i]);
    }
    for (int i = 0; i < e->in_count; i++)
        if (tin[i])
            nested_put(&operands, tin[i]);
    mf_program *p = mf_jvp_program(call_of(e)->program, b->env, has, gives, &error);
    if (!p) {
        nested_fail(b, error);
        return;
    }
    nested_call call = nested_call_of(e, p);
    mf_emit_into(b, e->op, &call.jit, operands.at, operands.count, results, p->out_count);
    for (int o = 0, t = e->out_count; o < e->out_count; o++) {
        out[o] = results[o];
        tout[o] = gives[o] ? results[t++] : NULL;
    }
    mf_drop(p);
}

void nested_call_transpose(mf_builder *b, const mf_eqn *e, const bool *linear, mf_variable *const *in, mf_variable *const *ct,
                           mf_variable **ct_in)
{
    nested_call call = nested_call_of(e, call_of(e)->program);
    nested_transpose_call(b, &call, e, linear, in, ct, ct_in);
}

bool nested_call_dce(const mf_eqn *e, const bool *used_out, bool *used_in, const void **params)
{
    mf_error_object *error = NULL;
    mf_program *p = nested_prune(call_of(e)->program, used_out, used_in, &error);
    void *smaller = p ? mf_alloc(e->op->params_size) : NULL;
    nested_call call = nested_call_of(e, p);
    if (smaller)
        memcpy(smaller, &call.jit, e->op->params_size);
    else
        mf_drop(p);
    nested_forget(error);
    *params = smaller;
    return smaller;
}

void nested_call_batch(mf_batch_context *c, const mf_eqn *e, mf_variable *const *in, const int *in_axis, mf_variable **out, int *out_axis)
{
    mf_error_object *error = NULL;
    for (int o = 0; o < e->out_count; o++)
        out_axis[o] = MF_BATCH_ANYWHERE;
    mf_program *p = mf_batch_program(call_of(e)->program, c->b->env, c->axis_name, c->size, in_axis, out_axis, &error);
    nested_call call = nested_call_of(e, p);
    if (p)
        mf_emit_into(c->b, e->op, &call.jit, in, e->in_count, out, e->out_count);
    else
        nested_fail(c->b, error);
    mf_drop(p);
}

void nested_call_variance(const mf_eqn *e, const mf_axis_env *env, const uint64_t *in, uint64_t *out)
{
    nested_variance(call_of(e)->program, env, in, out);
}

mf_cost nested_call_cost(const mf_eqn *e) { return nested_cost(call_of(e)->program); }

static const mf_param call_params[] = { MF_PARAM(mf_jit_params, name, MF_PARAM_NAME),
                                        MF_PARAM(mf_jit_params, program, MF_PARAM_PROGRAM),
                                        { 0 } };

/* The known half becomes a call of its own, whose residuals are passed on. */
static void jit_partial_eval(mf_partial_context *c, const mf_eqn *e)
{
    nested_parts parts;
    const char *name = call_of(e)->name;
    bool *known = nested_known(c, e);
    if (!known || !nested_split(c, c->env, call_of(e)->program, known, NULL, &parts))
        return;
    mf_variable **in = mf_partial_alloc(c, e->in_count + parts.residual_count, sizeof *in);
    mf_variable **out = mf_partial_alloc(c, e->out_count + parts.residual_count, sizeof *out);
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

static const char *const jit_samples[] = {
    "[name=f, program=(a: f32[2], b: f32[2]) {\n"
    "c: f32[2] = mul a b\n"
    "d: f32[2] = sub c a\n"
    "return d, b }] f32[2]{=1,2} f32[2]{=3,4} -> f32[2]{=2,6} f32[2]{=3,4}",
    "[name=f, program=(a: f64[3], n: i32[3]) {\n"
    "b: f64[3] = mul a a\n"
    "c: f64[3] = mul a b\n"
    "m: i32[3] = add n n\n"
    "return c, m }] f64[3] i32[3]{0:9}",
    NULL,
};

const mf_op mf_op_jit = {
    .name = "jit",
    .params = call_params,
    .params_size = sizeof(mf_jit_params),
    .flags = MF_OP_CONTROL | MF_OP_CALL | MF_OP_SPLITS,
    .type_rule = nested_call_type,
    .jvp = nested_call_jvp,
    .transpose = nested_call_transpose,
    .partial_eval = jit_partial_eval,
    .dce = nested_call_dce,
    .batch = nested_call_batch,
    .variance = nested_call_variance,
    .cost = nested_call_cost,
    .lower = mf_lower_none,
    .evaluate = mf_evaluate_by_runtime,
    MF_HLO_BY(mf_hlo_call),
    .samples = jit_samples,
};
