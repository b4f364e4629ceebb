/* check_replicated: its operand, of which every replica of the axes must hold the same bits. Declared uniform from there on; the runtime
 * compares when the program runs, and says which leaf and which devices differ. Invariant: a check changes no value and is never removed. */
#include "ops/collective/collective.h"

#include <manyfold/collective.h>
#include <string.h>

static const mf_replicated_params *check_of(const mf_eqn *e) { return e->params; }

static const mf_param replicated_params[] = { MF_PARAM_AS(mf_replicated_params, axes, MF_PARAM_NAMES, MF_ROLE_AXES),
                                              MF_PARAM(mf_replicated_params, leaf, MF_PARAM_NAME),
                                              { 0 } };

static mf_error_object *replicated_type_rule(mf_type_context *c)
{
    c->out[0] = c->in_count ? c->in[0] : NULL;
    return collective_check(c, ((const mf_replicated_params *)c->params)->axes, collective_no_groups(), 0, false);
}

static void replicated_variance(const mf_eqn *e, const mf_axis_env *env, const uint64_t *in, uint64_t *out)
{
    out[0] = in[0] & ~collective_bits_of(env, check_of(e)->axes);
}

/* Values are checked, their derivatives are not: these differ between replicas in the middle of a step. */
static void replicated_jvp(mf_builder *b, const mf_eqn *e, mf_variable *const *in, mf_variable *const *tin, mf_variable **out,
                           mf_variable **tout)
{
    out[0] = mf_emit(b, e->op, e->params, 1, in[0]);
    tout[0] = tin[0];
}

static void replicated_batch(mf_batch_context *c, const mf_eqn *e, mf_variable *const *in, const int *in_axis, mf_variable **out,
                             int *out_axis)
{
    mf_replicated_params p = *check_of(e);
    out_axis[0] = in_axis[0];
    out[0] = in[0];
    if (collective_over_batch(c, p.axes)) {
        if (in_axis[0] >= 0) {
            collective_refuse(c, e, "a mapped value is not known to be the same everywhere, and nothing compares it");
            return;
        }
        p.axes = collective_without(p.axes, c->axis_name);
    }
    if (p.axes->count)
        out[0] = mf_emit(c->b, e->op, &p, 1, in[0]);
}

static const char *const check_replicated_samples[] = {
    "i=2: [axes=(i), leaf=x] f32[2,2]{=1,nan,1,nan} -> f32[2,2]{=1,nan,1,nan}",
    "i=3: [axes=(i), leaf=x] i32[3]{=7,7,7} -> i32[3]{=7,7,7}",
    NULL,
};

const mf_op mf_op_check_replicated = {
    .name = "check_replicated",
    .collective = MF_COLLECTIVE_COMPARE,
    .params = replicated_params,
    .params_size = sizeof(mf_replicated_params),
    .flags = MF_OP_COLLECTIVE | MF_OP_EFFECT,
    .type_rule = replicated_type_rule,
    .jvp = replicated_jvp,
    .transpose = mf_transpose_none,
    .partial_eval = mf_partial_eval_all_or_nothing,
    .dce = mf_dce_whole,
    .batch = replicated_batch,
    .variance = replicated_variance,
    .cost = mf_cost_bytes,
    .lower = mf_lower_none,
    .evaluate = mf_evaluate_by_runtime,
    MF_HLO_BY(mf_hlo_same), /* that all have the same is for the host to see, which gets one from each device */
    .samples = check_replicated_samples,
};
