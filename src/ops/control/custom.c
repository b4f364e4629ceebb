/* custom_jvp_call and custom_vjp_call: programs with derivatives given by the user; custom_linear: the tangents of a custom_vjp_call, which
 * have only a transpose. Invariants: when not differentiated, the call is its program; a rule is traced when a derivative is needed; under
 * vmap the rule is wrapped in one that batches the programs of the inner rule. */
#include "ops/control/custom.h"

#include "ops/control/nested.h"

static const mf_custom_params *custom_of(const mf_eqn *e) { return e->params; }

static const mf_custom_rule *rule_of(const mf_eqn *e) { return custom_of(e)->rule; }

/* ---- checks of the rules' programs */

static int inexact_count(mf_variable *const *vars, int count)
{
    int n = 0;
    for (int i = 0; i < count; i++)
        n += mf_tangent_type(vars[i]->type) != NULL;
    return n;
}

static bool check_counts(mf_builder *b, const mf_eqn *e, const mf_program *p, const char *what, int in_count, int out_least)
{
    if (p->in_count == in_count && p->out_count >= out_least)
        return true;
    nested_fail(b, mf_error_new(MF_ERROR_TREE, "%s %s: the %s rule takes %d values and gives %d where %d and %d are needed", e->op->name,
                                rule_of(e)->head.name ? rule_of(e)->head.name : "", what, p->in_count, p->out_count, in_count, out_least));
    return false;
}

/* Checks that the rule's result o has the type of the call's. */
static bool check_result(mf_builder *b, const mf_eqn *e, const char *what, int o, const mf_type *is, const mf_type *want)
{
    if (b->error || nested_fits(is, want))
        return !b->error;
    nested_fail(b, mf_error_new(MF_ERROR_SHAPE, "%s %s: result %d of the %s rule is %s, but %s is needed", e->op->name,
                                rule_of(e)->head.name ? rule_of(e)->head.name : "", o, what, mf_type_name(is), mf_type_name(want)));
    return false;
}

/* A rule does not receive the captures of its function, so it cannot differentiate with respect to them. */
static bool check_captures(mf_builder *b, const mf_eqn *e, mf_variable *const *tin)
{
    for (int i = 0; i < custom_of(e)->consts; i++)
        if (tin[i]) {
            nested_fail(b, mf_error_new(MF_ERROR_TRACER,
                                        "%s %s: the function captured a value that is being differentiated; pass it as an "
                                        "argument",
                                        e->op->name, rule_of(e)->head.name ? rule_of(e)->head.name : ""));
            return false;
        }
    return true;
}

static const mf_type **primal_types(mf_builder *b, const mf_eqn *e)
{
    int first = (int)custom_of(e)->consts;
    const mf_type **types = nested_alloc(b, e->in_count, sizeof *types);
    for (int i = first; types && i < e->in_count; i++)
        types[i - first] = e->in[i]->type;
    return types;
}

/* ---- custom_jvp_call */

static void inline_jvp(mf_builder *b, const mf_eqn *e, const mf_program *p, mf_variable *const *in, mf_variable *const *tin,
                       mf_variable **out, mf_variable **tout)
{
    int first = (int)custom_of(e)->consts, count = 0;
    mf_variable **operands = nested_alloc(b, 2 * e->in_count, sizeof *operands), **results = nested_alloc(b, p->out_count, sizeof *results);
    if (b->error)
        return;
    for (int i = first; i < e->in_count; i++)
        operands[count++] = in[i];
    for (int i = first; i < e->in_count; i++)
        if (mf_tangent_type(e->in[i]->type))
            operands[count++] = mf_tangent_or_zeros(b, tin[i], e->in[i]->type);
    mf_inline(b, p, operands, results);
    for (int o = 0, t = e->out_count; o < e->out_count; o++) {
        const mf_type *type = mf_tangent_type(e->out[o]->type);
        out[o] = results[o];
        check_result(b, e, "jvp", o, results[o]->type, e->out[o]->type);
        if (type && check_result(b, e, "jvp", t, results[t]->type, type))
            tout[o] = results[t++];
    }
}

static void custom_jvp_jvp(mf_builder *b, const mf_eqn *e, mf_variable *const *in, mf_variable *const *tin, mf_variable **out,
                           mf_variable **tout)
{
    mf_error_object *error = NULL;
    int first = (int)custom_of(e)->consts, count = e->in_count - first;
    const mf_type **types = primal_types(b, e);
    if (!types || !check_captures(b, e, tin))
        return;
    mf_program *p = rule_of(e)->trace_jvp(rule_of(e), types, count, &error);
    if (!p) {
        nested_fail(b, error);
        return;
    }
    if (check_counts(b, e, p, "jvp", count + inexact_count(e->in + first, count), e->out_count + inexact_count(e->out, e->out_count)))
        inline_jvp(b, e, p, in, tin, out, tout);
    mf_drop(p);
}

static void custom_transpose(mf_builder *b, const mf_eqn *e, const bool *linear, mf_variable *const *in, mf_variable *const *ct,
                             mf_variable **ct_in)
{
    nested_call call = { &mf_op_jit, { { custom_of(e)->program, rule_of(e)->head.name } } };
    nested_transpose_call(b, &call, e, linear, in, ct, ct_in);
}

/* ---- rules under vmap */

typedef struct batched_rule {
    mf_custom_rule rule;
    mf_custom_rule *inner; /* retained */
    const char *axis_name;
    int64_t size;
    int count;
    int *in_axis; /* by primal */
} batched_rule;

static void batched_destroy(mf_object *o)
{
    mf_drop(((batched_rule *)o)->inner);
    mf_free(((batched_rule *)o)->in_axis);
}

static const mf_class batched_class = { "custom rule", batched_destroy };

/* The types without their batch dimension. axis: by type; NULL: 0 for all. */
static const mf_type **unbatched(mf_arena *arena, const mf_type *const *types, int count, const int *axis)
{
    const mf_type **out = mf_arena_alloc(arena, ((size_t)count + 1) * sizeof *out);
    for (int i = 0; out && i < count; i++)
        out[i] = axis && axis[i] < 0 ? types[i] : mf_type_without_axis(types[i], axis ? axis[i] : 0);
    return out;
}

/* Batches p, whose reference it takes; all outputs have their batch in front, or where out_axis says. */
static mf_program *batch_all(const batched_rule *r, mf_program *p, const int *in_axis, int *out_axis, mf_error_object **error)
{
    mf_program *result = p && in_axis && out_axis ? mf_batch_program(p, r->rule.env, r->axis_name, r->size, in_axis, out_axis, error)
                                                  : NULL;
    if (p && !(in_axis && out_axis))
        *error = mf_error_out_of_memory();
    mf_drop(p);
    return result;
}

static mf_program *batched_jvp(const mf_custom_rule *rule, const mf_type *const *types, int count, mf_error_object **error)
{
    const batched_rule *r = (const batched_rule *)rule;
    mf_arena arena = { 0 };
    const mf_type **inner = unbatched(&arena, types, count, r->in_axis);
    int *in_axis = mf_arena_alloc(&arena, (2 * (size_t)count + 1) * sizeof *in_axis), n = count;
    mf_program *p = inner ? r->inner->trace_jvp(r->inner, inner, count, error) : NULL;
    int *out_axis = p ? mf_arena_alloc(&arena, ((size_t)p->out_count + 1) * sizeof *out_axis) : NULL; /* zeros: batch in front */
    for (int i = 0; in_axis && i < count; i++) {
        in_axis[i] = r->in_axis[i];
        if (mf_tangent_type(types[i]))
            in_axis[n++] = r->in_axis[i];
    }
    if (!inner)
        *error = mf_error_out_of_memory();
    mf_program *result = batch_all(r, p, in_axis, out_axis, error);
    mf_arena_free(&arena);
    return result;
}

static mf_program *batched_forward(const mf_custom_rule *rule, const mf_type *const *types, int count, mf_error_object **error)
{
    const batched_rule *r = (const batched_rule *)rule;
    mf_arena arena = { 0 };
    const mf_type **inner = unbatched(&arena, types, count, r->in_axis);
    mf_program *p = inner ? r->inner->trace_forward(r->inner, inner, count, error) : NULL;
    int *out_axis = p ? mf_arena_alloc(&arena, ((size_t)p->out_count + 1) * sizeof *out_axis) : NULL;
    if (!inner)
        *error = mf_error_out_of_memory();
    mf_program *result = batch_all(r, p, r->in_axis, out_axis, error);
    mf_arena_free(&arena);
    return result;
}

/* The cotangent of a primal that all examples share is the sum of the examples' cotangents. p is batched, with those cotangents' batch in
 * front. */
static mf_program *sum_shared(const batched_rule *r, mf_program *p, const bool *shared, mf_error_object **error)
{
    mf_builder b;
    mf_builder_init(&b, r->rule.env);
    mf_variable **in = nested_alloc(&b, p->in_count, sizeof *in), **out = nested_alloc(&b, p->out_count, sizeof *out);
    for (int i = 0; i < p->in_count && !b.error; i++)
        in[i] = mf_builder_input(&b, p->in[i]->type);
    if (!b.error)
        mf_inline(&b, p, in, out);
    for (int o = 0; o < p->out_count && !b.error; o++)
        if (shared[o])
            out[o] = e_reduce_sum(&b, out[o], mf_ints_of(1, 0));
    mf_program *result = mf_builder_finish(&b, out, b.error ? 0 : p->out_count, error);
    mf_drop(p);
    return result;
}

static mf_program *batched_backward(const mf_custom_rule *rule, const mf_type *const *types, int count, const mf_type *const *primals,
                                    int primal_count, mf_error_object **error)
{
    const batched_rule *r = (const batched_rule *)rule;
    mf_arena arena = { 0 };
    const mf_type **inner = unbatched(&arena, types, count, NULL), **inner_primals = unbatched(&arena, primals, primal_count, r->in_axis);
    int *in_axis = mf_arena_alloc(&arena, ((size_t)count + 1) * sizeof *in_axis); /* zeros: batch in front */
    int *out_axis = mf_arena_alloc(&arena, ((size_t)primal_count + 1) * sizeof *out_axis), outs = 0;
    bool *shared = mf_arena_alloc(&arena, (size_t)primal_count + 1);
    bool memory = inner && inner_primals && in_axis && out_axis && shared;
    for (int i = 0; memory && i < primal_count; i++)
        if (mf_tangent_type(primals[i])) {
            shared[outs] = r->in_axis[i] < 0;
            out_axis[outs++] = r->in_axis[i] < 0 ? 0 : r->in_axis[i];
        }
    mf_program *p = memory ? r->inner->trace_backward(r->inner, inner, count, inner_primals, primal_count, error) : NULL;
    if (!memory)
        *error = mf_error_out_of_memory();
    if (p && (p->out_count != outs || p->in_count != count)) {
        *error = mf_error_new(MF_ERROR_TREE, "custom_vjp %s: the backward rule gives %d cotangents, %d are needed",
                              r->rule.head.name ? r->rule.head.name : "", p->out_count, outs);
        mf_drop(p);
        p = NULL;
    }
    p = batch_all(r, p, in_axis, out_axis, error);
    p = p ? sum_shared(r, p, shared, error) : NULL;
    mf_arena_free(&arena);
    return p;
}

static batched_rule *wrap_rule(mf_batch_context *c, const mf_eqn *e, const int *in_axis)
{
    int first = (int)custom_of(e)->consts;
    batched_rule *r = mf_object_new(&batched_class, sizeof *r);
    if (!r)
        return NULL;
    const mf_custom_rule *inner = rule_of(e);
    r->inner = mf_retain(inner);
    r->rule.head.name = inner->head.name;
    r->rule.env = c->b->env;
    r->rule.trace_jvp = inner->trace_jvp ? batched_jvp : NULL;
    r->rule.trace_forward = inner->trace_forward ? batched_forward : NULL;
    r->rule.trace_backward = inner->trace_backward ? batched_backward : NULL;
    r->axis_name = c->axis_name;
    r->size = c->size;
    r->count = e->in_count - first;
    r->in_axis = mf_alloc(((size_t)r->count + 1) * sizeof *r->in_axis);
    for (int i = 0; r->in_axis && i < r->count; i++)
        r->in_axis[i] = in_axis[first + i];
    if (r->in_axis)
        return r;
    mf_drop(r);
    return NULL;
}

static void custom_batch(mf_batch_context *c, const mf_eqn *e, mf_variable *const *in, const int *in_axis, mf_variable **out, int *out_axis)
{
    mf_error_object *error = NULL;
    for (int o = 0; o < e->out_count; o++)
        out_axis[o] = 0;
    batched_rule *r = wrap_rule(c, e, in_axis);
    mf_program *p = r ? mf_batch_program(custom_of(e)->program, c->b->env, c->axis_name, c->size, in_axis, out_axis, &error) : NULL;
    mf_custom_params made = { p, r, custom_of(e)->consts };
    if (p)
        mf_emit_into(c->b, e->op, &made, in, e->in_count, out, e->out_count);
    else
        nested_fail(c->b, error);
    mf_drop(p);
    mf_drop(r);
}

static void custom_variance(const mf_eqn *e, const mf_axis_env *env, const uint64_t *in, uint64_t *out)
{
    nested_variance(custom_of(e)->program, env, in, out);
}

static mf_cost custom_cost(const mf_eqn *e) { return nested_cost(custom_of(e)->program); }

static const mf_param custom_params[] = { MF_PARAM(mf_custom_params, rule, MF_PARAM_RULE),
                                          MF_PARAM(mf_custom_params, consts, MF_PARAM_INT),
                                          MF_PARAM(mf_custom_params, program, MF_PARAM_PROGRAM),
                                          { 0 } };

const mf_op mf_op_custom_jvp_call = {
    .name = "custom_jvp_call",
    .params = custom_params,
    .params_size = sizeof(mf_custom_params),
    .flags = MF_OP_CONTROL | MF_OP_CALL,
    .type_rule = nested_call_type,
    .jvp = custom_jvp_jvp,
    .transpose = custom_transpose,
    .partial_eval = mf_partial_eval_all_or_nothing,
    .dce = mf_dce_whole,
    .batch = custom_batch,
    .variance = custom_variance,
    .cost = custom_cost,
    .lower = mf_lower_none,
    .evaluate = mf_evaluate_by_runtime,
    MF_HLO_BY(mf_hlo_call),
    .samples = nested_no_samples,
};

/* ---- custom_vjp_call */

/* The types of the residuals, then those of the cotangents. */
static const mf_type **backward_types(mf_builder *b, const mf_eqn *e, const mf_program *forward, int *count)
{
    const mf_type **types = nested_alloc(b, forward->out_count, sizeof *types);
    *count = 0;
    for (int r = e->out_count; types && r < forward->out_count; r++)
        types[(*count)++] = forward->out[r]->type;
    for (int o = 0; types && o < e->out_count; o++)
        if (mf_tangent_type(e->out[o]->type))
            types[(*count)++] = mf_tangent_type(e->out[o]->type);
    return types;
}

static void emit_linear(mf_builder *b, const mf_eqn *e, mf_program *backward, int residuals, mf_variable *const *from_forward,
                        mf_variable *const *tin, mf_variable **tout)
{
    int first = (int)custom_of(e)->consts, count = 0, outs = backward->in_count - residuals;
    mf_variable **in = nested_alloc(b, residuals + e->in_count, sizeof *in), **out = nested_alloc(b, outs, sizeof *out);
    mf_custom_linear_params p = { backward, residuals };
    if (b->error)
        return;
    for (int r = 0; r < residuals; r++)
        in[count++] = from_forward[e->out_count + r];
    for (int i = first; i < e->in_count; i++)
        if (mf_tangent_type(e->in[i]->type))
            in[count++] = mf_tangent_or_zeros(b, tin[i], e->in[i]->type);
    mf_emit_into(b, &mf_op_custom_linear, &p, in, count, out, outs);
    for (int o = 0, at = 0; o < e->out_count; o++)
        tout[o] = mf_tangent_type(e->out[o]->type) ? out[at++] : NULL;
}

static void run_forward(mf_builder *b, const mf_eqn *e, const mf_program *forward, const mf_type *const *primals, int primal_count,
                        mf_variable *const *in, mf_variable *const *tin, mf_variable **out, mf_variable **tout)
{
    mf_error_object *error = NULL;
    int count;
    const mf_type **types = backward_types(b, e, forward, &count);
    mf_variable **results = nested_alloc(b, forward->out_count, sizeof *results);
    if (b->error)
        return;
    mf_inline(b, forward, in + custom_of(e)->consts, results);
    for (int o = 0; o < e->out_count; o++) {
        out[o] = results[o];
        check_result(b, e, "forward", o, results[o]->type, e->out[o]->type);
    }
    mf_program *backward = b->error ? NULL : rule_of(e)->trace_backward(rule_of(e), types, count, primals, primal_count, &error);
    if (!backward)
        nested_fail(b, error);
    else if (check_counts(b, e, backward, "backward", count, inexact_count(e->in + custom_of(e)->consts, primal_count)))
        emit_linear(b, e, backward, forward->out_count - e->out_count, results, tin, tout);
    mf_drop(backward);
}

/* The forward rule replaces the function; its tangents are left to custom_linear, for transposition. */
static void custom_vjp_jvp(mf_builder *b, const mf_eqn *e, mf_variable *const *in, mf_variable *const *tin, mf_variable **out,
                           mf_variable **tout)
{
    mf_error_object *error = NULL;
    int count = e->in_count - (int)custom_of(e)->consts;
    const mf_type **types = primal_types(b, e);
    if (!types || !check_captures(b, e, tin))
        return;
    mf_program *forward = rule_of(e)->trace_forward(rule_of(e), types, count, &error);
    if (!forward) {
        nested_fail(b, error);
        return;
    }
    if (check_counts(b, e, forward, "forward", count, e->out_count))
        run_forward(b, e, forward, types, count, in, tin, out, tout);
    mf_drop(forward);
}

const mf_op mf_op_custom_vjp_call = {
    .name = "custom_vjp_call",
    .params = custom_params,
    .params_size = sizeof(mf_custom_params),
    .flags = MF_OP_CONTROL | MF_OP_CALL,
    .type_rule = nested_call_type,
    .jvp = custom_vjp_jvp,
    .transpose = custom_transpose,
    .partial_eval = mf_partial_eval_all_or_nothing,
    .dce = mf_dce_whole,
    .batch = custom_batch,
    .variance = custom_variance,
    .cost = custom_cost,
    .lower = mf_lower_none,
    .evaluate = mf_evaluate_by_runtime,
    MF_HLO_BY(mf_hlo_call),
    .samples = nested_no_samples,
};

/* ---- custom_linear */

static const mf_custom_linear_params *linear_of(const mf_eqn *e) { return e->params; }

/* Operands: residuals, then tangents with the types of the cotangents that `backward` gives. Results have the types of the cotangents it
 * takes. */
static mf_error_object *linear_type_rule(mf_type_context *c)
{
    const mf_custom_linear_params *p = c->params;
    int residuals = (int)p->residuals, outs = p->backward->in_count - residuals;
    if (outs < 0 || c->in_count != residuals + p->backward->out_count)
        return mf_type_error(c, MF_ERROR_ARGUMENT, "%d operands do not match the backward rule", c->in_count);
    mf_error_object *error = nested_check(c, 0, p->backward, 0, residuals, "backward rule");
    if (!error)
        error = nested_check_results(c, p->backward, 0, c->in + residuals, p->backward->out_count, "backward rule");
    const mf_type **out = error ? NULL : mf_type_outputs(c, outs);
    for (int o = 0; out && o < outs; o++)
        out[o] = p->backward->in[residuals + o]->type;
    return error;
}

static mf_error_object *no_forward_mode(void)
{
    return mf_error_new(MF_ERROR_ARGUMENT, "can't apply forward-mode differentiation (jvp) to a custom_vjp function.");
}

static void linear_jvp(mf_builder *b, const mf_eqn *e, mf_variable *const *in, mf_variable *const *tin, mf_variable **out,
                       mf_variable **tout)
{
    (void)e, (void)in, (void)tin, (void)out, (void)tout;
    nested_fail(b, no_forward_mode());
}

static void linear_transpose(mf_builder *b, const mf_eqn *e, const bool *linear, mf_variable *const *in, mf_variable *const *ct,
                             mf_variable **ct_in)
{
    const mf_program *backward = linear_of(e)->backward;
    int residuals = (int)linear_of(e)->residuals;
    mf_variable **operands = nested_alloc(b, backward->in_count, sizeof *operands);
    for (int r = 0; operands && r < residuals; r++) {
        operands[r] = linear[r] ? NULL : in[r];
        if (linear[r])
            nested_fail(b, no_forward_mode());
    }
    if (b->error)
        return;
    for (int o = 0; o < e->out_count; o++)
        operands[residuals + o] = mf_tangent_or_zeros(b, ct[o], e->out[o]->type);
    mf_inline(b, backward, operands, ct_in + residuals);
}

static void linear_batch(mf_batch_context *c, const mf_eqn *e, mf_variable *const *in, const int *in_axis, mf_variable **out, int *out_axis)
{
    const mf_program *backward = linear_of(e)->backward;
    mf_error_object *error = NULL;
    int residuals = (int)linear_of(e)->residuals;
    int *axis = nested_alloc(c->b, backward->in_count, sizeof *axis), *given = nested_alloc(c->b, backward->out_count, sizeof *given);
    mf_variable **operands = nested_alloc(c->b, e->in_count, sizeof *operands);
    if (c->b->error)
        return;
    for (int i = 0; i < e->in_count; i++)
        operands[i] = i < residuals ? in[i] : e_batched_at(c, in[i], in_axis[i], 0);
    for (int i = 0; i < residuals; i++)
        axis[i] = in_axis[i];
    mf_program *p = mf_batch_program(backward, c->b->env, c->axis_name, c->size, axis, given, &error);
    if (p)
        mf_emit_into(c->b, e->op, &(mf_custom_linear_params){ p, residuals }, operands, e->in_count, out, e->out_count);
    else
        nested_fail(c->b, error);
    for (int o = 0; o < e->out_count; o++)
        out_axis[o] = 0;
    mf_drop(p);
}

static mf_error_object *linear_evaluate(const mf_eqn *e, const void *const *in, void *const *out)
{
    (void)e, (void)in, (void)out;
    return no_forward_mode();
}

static const mf_param linear_params[] = { MF_PARAM(mf_custom_linear_params, residuals, MF_PARAM_INT),
                                          MF_PARAM(mf_custom_linear_params, backward, MF_PARAM_PROGRAM),
                                          { 0 } };

const mf_op mf_op_custom_linear = {
    .name = "custom_linear",
    .params = linear_params,
    .params_size = sizeof(mf_custom_linear_params),
    .flags = MF_OP_NEVER_RUN,
    .type_rule = linear_type_rule,
    .jvp = linear_jvp,
    .transpose = linear_transpose,
    .partial_eval = mf_partial_eval_all_or_nothing,
    .dce = mf_dce_whole,
    .batch = linear_batch,
    .variance = mf_variance_join,
    .cost = mf_cost_bytes,
    .lower = mf_lower_none,
    .evaluate = linear_evaluate,
    MF_NO_HLO("it stands for a backward pass and is transposed away before a program runs"),
    .samples = nested_no_samples,
};
