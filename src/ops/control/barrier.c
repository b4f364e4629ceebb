/* Ops that matter to transforms and passes and compute nothing: optimization_barrier, whose results the passes do not recognise as its
 * operands, and checkpoint_name, the name by which a policy of remat finds a value. Invariant: neither is ever run. Simplification
 * removes the names. Scheduling and fusion keep the order that a barrier sets: whatever reads its results comes after everything that
 * computes its operands. */
#include "ops/emit.h"
#include "ops/elementwise/loops.h"
#include "transform/rules/sweep.h"
#include "tree/tree.h"

#include <string.h>

/* ---- optimization_barrier */

static mf_error_object *barrier_type(mf_type_context *c)
{
    const mf_type **out = mf_type_outputs(c, c->in_count);
    for (int i = 0; out && i < c->in_count; i++)
        out[i] = c->in[i];
    return out ? NULL : mf_error_out_of_memory();
}

/* Passes the variables that are not NULL through one barrier; the others stay NULL. */
static void through_barrier(mf_builder *b, mf_variable *const *in, int count, mf_variable **out)
{
    mf_variable **some = mf_arena_alloc(&b->program->arena, (2 * (size_t)count + 1) * sizeof(mf_variable *)), **made = some + count;
    int n = 0;
    for (int i = 0; some && i < count; i++)
        if (in[i])
            some[n++] = in[i];
    if (some)
        mf_emit_into(b, &mf_op_optimization_barrier, NULL, some, n, made, n);
    for (int i = 0, next = 0; i < count; i++)
        out[i] = !in[i] ? NULL : some ? made[next++] : mf_poison(b);
}

MF_JVP_RULE(barrier_jvp)
{
    through_barrier(b, in, e->in_count, out);
    through_barrier(b, tin, e->in_count, tout);
}

MF_TRANSPOSE_RULE(barrier_transpose)
{
    (void)linear, (void)in;
    through_barrier(b, ct, e->in_count, ct_in);
}

MF_BATCH_RULE(barrier_batch)
{
    mf_emit_into(c->b, e->op, NULL, in, e->in_count, out, e->out_count);
    memcpy(out_axis, in_axis, (size_t)e->in_count * sizeof *out_axis);
}

static void each_its_own(const mf_eqn *e, const mf_axis_env *env, const uint64_t *in, uint64_t *out)
{
    (void)env;
    for (int i = 0; i < e->in_count; i++)
        out[i] = in[i];
}

MF_EVALUATE_RULE(barrier_evaluate)
{
    for (int i = 0; i < e->in_count; i++)
        memmove(out[i], in[i], (size_t)e->out[i]->type->bytes);
    return NULL;
}

static mf_cost barrier_cost(const mf_eqn *e)
{
    (void)e;
    return (mf_cost){ 0 };
}

static const char *const barrier_samples[] = {
    "f32[2]{=1,-2} i8[3]{=1,2,3} -> f32[2]{=1,-2} i8[3]{=1,2,3}",
    "f64[2,3]{-2:2}",
    "f64[3]{-2:2} f64[2,2]{-2:2}",
    NULL,
};
MF_HLO_RULE(barrier_hlo)
{
    if (e->in_count)
        h_ops(h, "optimization_barrier", in, e->in_count, out, e->out_count);
}

const mf_op mf_op_optimization_barrier = {
    .name = "optimization_barrier",
    .flags = MF_OP_BARRIER,
    .type_rule = barrier_type,
    .jvp = barrier_jvp,
    .transpose = barrier_transpose,
    .partial_eval = mf_partial_eval_all_or_nothing,
    .dce = mf_dce_whole,
    .batch = barrier_batch,
    .variance = each_its_own,
    .cost = barrier_cost,
    .lower = mf_lower_none,
    .evaluate = barrier_evaluate,
    MF_HLO_BY(barrier_hlo),
    .samples = barrier_samples,
};

/* ---- checkpoint_name */

static const mf_param name_params[] = { MF_PARAM(mf_name_params, name, MF_PARAM_NAME), { 0 } };

static mf_error_object *name_type(mf_type_context *c)
{
    if (!((const mf_name_params *)c->params)->name)
        return mf_type_error(c, MF_ERROR_ARGUMENT, "has no name");
    mf_error_object *e = mf_check_operands(c, 1);
    if (!e)
        c->out[0] = c->in[0];
    return e;
}

/* The tangent is not a value of the forward pass, so it gets no name. */
MF_JVP_RULE(name_jvp)
{
    out[0] = mf_emit(b, e->op, e->params, 1, in[0]);
    tout[0] = tin[0];
}

MF_TRANSPOSE_RULE(name_transpose)
{
    (void)b, (void)e, (void)linear, (void)in;
    ct_in[0] = ct[0];
}

MF_EVALUATE_RULE(name_evaluate)
{
    memmove(out[0], in[0], (size_t)e->out[0]->type->bytes);
    return NULL;
}

MF_LOWER_RULE(name_lower)
{
    (void)k, (void)e;
    return in[0];
}

static const char *const name_samples[] = { "[name=x] f32[2]{=1,-2} -> f32[2]{=1,-2}", "[name=x] f64[2,3]{-2:2}", "[name=x] i32[2]{=1,2}",
                                            NULL };
const mf_op mf_op_checkpoint_name = {
    .name = "checkpoint_name",
    .params = name_params,
    .params_size = sizeof(mf_name_params),
    MF_ELEMENTWISE_ROW,
    .type_rule = name_type,
    .jvp = name_jvp,
    .transpose = name_transpose,
    .cost = mf_cost_bytes,
    .lower = name_lower,
    .evaluate = name_evaluate,
    MF_HLO_BY(mf_hlo_same),
    .samples = name_samples,
};
