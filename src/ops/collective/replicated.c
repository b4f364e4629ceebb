/* check_replicated: its operand must have the same bits on every replica of the axes, and is declared uniform from there on. The runtime
 * compares when the program runs, and reports which leaf and which devices differ. Invariant: a check changes no value and is never
 * removed. */
#include "ops/checks.h"
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

/* Only values are checked; their derivatives may differ between replicas in the middle of a step. */
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

mf_error_object *mf_replicated_error(const mf_eqn *e, const void *location, const char *differ, int count, int first)
{
    const mf_replicated_params *p = check_of(e);
    return mf_error_new_at(location ? location : e->address, MF_ERROR_DEVICE,
                           "check_replicated: %s differs over the axis %s: device%s %s %s other bits than device %d",
                           *p->leaf ? p->leaf : "the value", p->axes->at[0], count > 1 ? "s" : "", differ, count > 1 ? "hold" : "holds",
                           first);
}

static mf_dtype bits_of(mf_dtype d)
{
    switch (mf_dtype_size(d)) {
    case 2: return MF_U16;
    case 4: return MF_U32;
    default: return MF_U64;
    }
}

typedef struct comparison {
    mf_hlo_value is_first, differs; /* bools */
    const char *groups;
} comparison;

/* Broadcasts the first replica's bits by an all-reduce sum, to which the other replicas add zeros; records whether this replica's bits
 * differ. */
static mf_hlo_value value_of_first(mf_hlo *h, mf_hlo_value x, comparison *c)
{
    mf_dtype d = x.type->dtype;
    bool is_float = mf_dtype_is_float(d);
    const mf_type *type = mf_type_with_dtype(x.type, is_float ? bits_of(d) : d == MF_BOOL ? MF_U32 : d);
    mf_hlo_value bits = is_float ? h_op(h, "bitcast_convert", type, &x, 1, NULL) : h_convert(h, x, type->dtype);
    mf_hlo_value given = h_select(h, c->is_first, bits, h_full(h, type, 0)), all = { 0, type };
    h_open(h, "all_reduce", &given, 1, &all, 1, "replica_groups = %s", c->groups);
    h_reducer_region(h, MF_REDUCE_SUM, type->dtype);
    h_close(h, &given, 1, &all, 1);
    mf_hlo_value row = h_reshape(h, h_compare(h, "NE", false, bits, all), mf_type_get(MF_BOOL, false, 1, &type->size));
    mf_hlo_value differs = h_reduce(h, MF_REDUCE_OR, row, mf_ints_of(1, 0));
    c->differs = c->differs.type ? h_binary(h, "or", c->differs, differs) : differs;
    return is_float ? h_op(h, "bitcast_convert", x.type, &all, 1, NULL) : h_convert(h, all, d);
}

/* All continue with the first replica's value, so that none waits for another whose predicate differs; the host reports the difference. */
MF_HLO_RULE(replicated_hlo)
{
    const mf_namelist *axes = check_of(e)->axes;
    out[0] = in[0];
    if (!h_looks_at(h, e) || !in[0].type->size)
        return;
    comparison c = { .groups = h_groups(h, axes, collective_no_groups(), 0) };
    c.is_first = h_compare(h, "EQ", false, h_axis_index(h, axes), h_scalar(h, MF_I32, 0));
    if (mf_dtype_is_complex(in[0].type->dtype)) {
        mf_hlo_value parts[2] = { value_of_first(h, h_part(h, "real", in[0]), &c), value_of_first(h, h_part(h, "imag", in[0]), &c) };
        out[0] = h_op(h, "complex", in[0].type, parts, 2, NULL);
    } else {
        out[0] = value_of_first(h, in[0], &c);
    }
    h_find(h, e, 0, c.differs, (mf_hlo_value){ 0, NULL }, h_roots(h, axes, NULL, 0));
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
    MF_HLO_BY(replicated_hlo),
    .samples = check_replicated_samples,
};
