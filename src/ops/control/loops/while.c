/* while: the body runs on the carry as long as the condition holds. Operands: the condition's constants, the body's, the carry. Invariant:
 * the carry keeps its types; transforms find by a fixpoint iteration which parts of it have a property (a tangent, a batch dimension, a
 * device axis). There is no reverse mode: the number of rounds is unknown, and so is the memory for residuals. */
#include "ops/control/nested.h"

static const mf_while_params *loop_of(const mf_eqn *e) { return e->params; }

static int cond_consts(const mf_eqn *e) { return (int)loop_of(e)->cond_consts; }
static int body_consts(const mf_eqn *e) { return (int)loop_of(e)->body_consts; }
static int consts(const mf_eqn *e) { return cond_consts(e) + body_consts(e); } /* position of the carry */

static mf_error_object *check_condition(const mf_type_context *c, const mf_while_params *w, int carry)
{
    const mf_program *p = w->cond;
    if (p->in_count != w->cond_consts + carry || p->out_count != 1)
        return mf_type_error(c, MF_ERROR_TREE, "the condition takes %d inputs and gives %d results; %d and 1 are needed", p->in_count,
                             p->out_count, (int)w->cond_consts + carry);
    if (p->out[0]->type->dtype != MF_BOOL || p->out[0]->type->rank)
        return mf_type_error(c, MF_ERROR_DTYPE, "the condition must give a bool scalar, not %s", mf_type_name(p->out[0]->type));
    mf_error_object *error = nested_check(c, 0, p, 0, (int)w->cond_consts, "condition");
    return error ? error : nested_check(c, (int)(w->cond_consts + w->body_consts), p, (int)w->cond_consts, carry, "condition");
}

static mf_error_object *while_type_rule(mf_type_context *c)
{
    const mf_while_params *w = c->params;
    int first = (int)(w->cond_consts + w->body_consts), carry = c->in_count - first;
    if (carry < 0 || w->body->in_count != w->body_consts + carry || w->body->out_count != carry)
        return mf_type_error(c, MF_ERROR_TREE, "the body takes %d inputs and gives %d results, which do not match %d operands",
                             w->body->in_count, w->body->out_count, c->in_count);
    mf_error_object *error = check_condition(c, w, carry);
    if (!error)
        error = nested_check(c, (int)w->cond_consts, w->body, 0, w->body->in_count, "body");
    if (!error)
        error = nested_check_results(c, w->body, 0, c->in + first, carry, "body");
    const mf_type **out = error ? NULL : mf_type_outputs(c, carry);
    for (int o = 0; out && o < carry; o++)
        out[o] = nested_join(c->in[first + o], w->body->out[o]->type);
    return error;
}

/* ---- forward mode */

/* Orders the inputs as a loop needs them: constants and their tangents, the carry and its tangents. */
static mf_program *ordered_body(mf_builder *b, const mf_eqn *e, const bool *has, const mf_program *p)
{
    mf_error_object *error = NULL;
    int n = e->in_count - cond_consts(e), count = 0, outs = 0;
    int *order = nested_alloc(b, p->in_count, sizeof *order), *tangent = nested_alloc(b, n, sizeof *tangent);
    int *out = nested_alloc(b, p->out_count, sizeof *out);
    if (b->error)
        return NULL;
    for (int i = 0, at = n; i < n; i++)
        tangent[i] = has[i] ? at++ : -1;
    for (int part = 0; part < 2; part++) {
        int from = part ? body_consts(e) : 0, to = part ? n : body_consts(e);
        for (int i = from; i < to; i++)
            order[count++] = i;
        for (int i = from; i < to; i++)
            if (has[i])
                order[count++] = tangent[i];
    }
    for (; outs < p->out_count; outs++)
        out[outs] = outs;
    mf_program *result = nested_rewire(p, b->env, order, count, NULL, out, outs, &error);
    if (!result)
        nested_fail(b, error);
    return result;
}

/* The condition with unused inputs for the carry's tangents. */
static mf_program *wider_condition(mf_builder *b, const mf_eqn *e, const bool *has_carry)
{
    mf_error_object *error = NULL;
    const mf_program *p = loop_of(e)->cond;
    int count = p->in_count, extras = 0;
    int *order = nested_alloc(b, p->in_count + e->out_count, sizeof *order), zero = 0;
    const mf_type **extra = nested_alloc(b, e->out_count, sizeof *extra);
    if (b->error)
        return NULL;
    for (int i = 0; i < count; i++)
        order[i] = i;
    for (int o = 0; o < e->out_count; o++)
        if (has_carry[o]) {
            extra[extras] = mf_tangent_type(p->in[cond_consts(e) + o]->type);
            order[count++] = -1 - extras++;
        }
    mf_program *result = nested_rewire(p, b->env, order, count, extra, &zero, 1, &error);
    if (!result)
        nested_fail(b, error);
    return result;
}

static void emit_loop(mf_builder *b, mf_program *cond, mf_program *body, int64_t cond_constants, int64_t body_constants,
                      const nested_list *in, mf_variable **out)
{
    mf_while_params p = { cond, body, cond_constants, body_constants };
    if (cond && body)
        mf_emit_into(b, &mf_op_while, &p, in->at, in->count, out, body->out_count);
}

static void while_jvp(mf_builder *b, const mf_eqn *e, mf_variable *const *in, mf_variable *const *tin, mf_variable **out,
                      mf_variable **tout)
{
    int nc = cond_consts(e), nb = body_consts(e), first = consts(e), body_tangents = 0;
    bool *has = nested_alloc(b, e->in_count, sizeof *has), *gives = nested_alloc(b, e->out_count, sizeof *gives);
    nested_list operands = nested_list_new(b, 2 * e->in_count);
    mf_variable **results = nested_alloc(b, 2 * e->out_count, sizeof *results);
    if (b->error)
        return;
    for (int i = nc; i < e->in_count; i++)
        has[i - nc] = tin[i];
    mf_program *p = nested_loop_jvp(b, loop_of(e)->body, body_consts(e), e->out_count, has, gives);
    mf_program *body = p ? ordered_body(b, e, has, p) : NULL, *cond = body ? wider_condition(b, e, has + nb) : NULL;
    for (int i = 0; i < first; i++)
        nested_put(&operands, in[i]);
    for (int i = nc; i < first; i++)
        if (tin[i]) {
            nested_put(&operands, tin[i]);
            body_tangents++;
        }
    for (int i = first; i < e->in_count; i++)
        nested_put(&operands, in[i]);
    for (int i = first; i < e->in_count && cond; i++)
        if (has[i - nc])
            nested_put(&operands, mf_tangent_or_zeros(b, tin[i], in[i]->type));
    emit_loop(b, cond, body, nc, nb + body_tangents, &operands, results);
    for (int o = 0, t = e->out_count; o < e->out_count && !b->error; o++) {
        out[o] = results[o];
        tout[o] = gives[o] ? results[t++] : NULL;
    }
    mf_drop(p);
    mf_drop(body);
    mf_drop(cond);
}

/* ---- partial evaluation */

/* Finds the parts of the carry that the known operands determine in every round; the result is the body's known_in. */
static bool find_known_carry(mf_partial_context *c, const mf_eqn *e, bool *known_in)
{
    bool *known_out = mf_partial_alloc(c, e->out_count, sizeof *known_out), shrunk = true;
    mf_error_object *error = NULL;
    mf_partial_result r = { 0 };
    while (shrunk && known_out) {
        shrunk = false;
        if (!mf_partial_eval_program(loop_of(e)->body, c->env, known_in, NULL, known_out, &r, &error)) {
            mf_partial_fail(c, error);
            return false;
        }
        for (int o = 0; o < e->out_count; o++) {
            shrunk = shrunk || (known_in[body_consts(e) + o] && !known_out[o]);
            known_in[body_consts(e) + o] = known_in[body_consts(e) + o] && known_out[o];
        }
        mf_drop(r.unknown);
        mf_drop(r.known);
    }
    return known_out;
}

/* The body restricted to the known carry. */
static mf_program *carried_only(mf_partial_context *c, const mf_eqn *e, const bool *known_in)
{
    const mf_program *body = loop_of(e)->body;
    mf_error_object *error = NULL;
    int *in = mf_partial_alloc(c, body->in_count, sizeof *in), *out = mf_partial_alloc(c, body->out_count, sizeof *out), ins = 0, outs = 0;
    if (mf_partial_failed(c))
        return NULL;
    for (int i = 0; i < body->in_count; i++)
        if (known_in[i])
            in[ins++] = i;
    for (int o = 0; o < body->out_count; o++)
        if (known_in[body_consts(e) + o])
            out[outs++] = o;
    mf_program *result = mf_program_select(body, in, ins, out, outs, &error);
    if (!result)
        mf_partial_fail(c, error);
    return result;
}

/* The condition on the known carry, or NULL if it needs more than that. */
static mf_program *known_condition(mf_partial_context *c, const mf_eqn *e, const bool *known_carry)
{
    const mf_program *p = loop_of(e)->cond;
    mf_error_object *error = NULL;
    bool *used = mf_partial_alloc(c, p->in_count, sizeof *used), yes = true;
    int *in = mf_partial_alloc(c, p->in_count, sizeof *in), ins = 0, zero = 0;
    if (!used || !in || !mf_program_uses(p, &yes, used))
        return NULL;
    for (int i = 0; i < p->in_count; i++) {
        bool known = i < cond_consts(e) || known_carry[i - cond_consts(e)];
        if (used[i] && !known)
            return NULL;
        if (known)
            in[ins++] = i;
    }
    mf_program *result = mf_program_select(p, in, ins, &zero, 1, &error);
    if (!result)
        mf_partial_fail(c, error);
    return result;
}

static void emit_known_loop(mf_partial_context *c, const mf_eqn *e, const bool *known_in, mf_program *cond, mf_program *body)
{
    int nc = cond_consts(e), nb = body_consts(e), known_consts = 0, from = 0;
    nested_list operands = { .at = mf_partial_alloc(c, e->in_count, sizeof(mf_variable *)) };
    mf_variable **out = mf_partial_alloc(c, e->out_count, sizeof *out);
    if (!operands.at || !out)
        return;
    for (int i = 0; i < e->in_count; i++)
        if (i < nc || known_in[i - nc]) {
            nested_put(&operands, mf_partial_known(c, e->in[i]));
            known_consts += i >= nc && i < nc + nb;
        }
    emit_loop(&c->known_builder, cond, body, nc, known_consts, &operands, out);
    for (int o = 0; o < e->out_count; o++)
        if (known_in[nb + o]) {
            mf_partial_set_known(c, e->out[o], out[from++]);
            mf_partial_set_unknown(c, e->out[o], NULL); /* what the unknown side computes again is not linear, so this value is used */
        }
}

/* The part of the carry that no unknown value reaches runs on the known side; the unknown side runs the whole loop again. */
static void while_partial_eval(mf_partial_context *c, const mf_eqn *e)
{
    int nc = cond_consts(e), nb = body_consts(e);
    bool *known = nested_known(c, e), all = true;
    mf_program *cond = NULL, *body = NULL;
    if (!known)
        return;
    for (int i = 0; i < nc; i++)
        all = all && known[i];
    if (all && find_known_carry(c, e, known + nc))
        cond = known_condition(c, e, known + nc + nb);
    if (mf_partial_failed(c))
        goto done;
    mf_partial_all_unknown(c, e);
    body = cond ? carried_only(c, e, known + nc) : NULL;
    if (body && body->out_count)
        emit_known_loop(c, e, known + nc, cond, body);
done:
    mf_drop(cond);
    mf_drop(body);
}

static void while_transpose(mf_builder *b, const mf_eqn *e, const bool *linear, mf_variable *const *in, mf_variable *const *ct,
                            mf_variable **ct_in)
{
    (void)e, (void)linear, (void)in, (void)ct, (void)ct_in;
    mf_builder_fail(b,
                    mf_error_new(MF_ERROR_ARGUMENT, "Reverse-mode differentiation does not work for while loops or fori loops with dynamic "
                                                    "start/stop values. Try using scan, or a fori loop with static start/stop."));
}

/* ---- batching */

static mf_program *batch_body(mf_batch_context *c, const mf_eqn *e, int *axis)
{
    int *out_axis = nested_alloc(c->b, e->out_count, sizeof *out_axis);
    return out_axis ? nested_loop_batch(c, loop_of(e)->body, body_consts(e), e->out_count, axis, out_axis) : NULL;
}

static mf_program *batch_condition(mf_batch_context *c, const mf_eqn *e, const int *in_axis, const int *carry_axis, bool *batched)
{
    mf_error_object *error = NULL;
    int *axis = nested_alloc(c->b, loop_of(e)->cond->in_count, sizeof *axis), out = MF_BATCH_ANYWHERE;
    if (!axis)
        return NULL;
    for (int i = 0; i < loop_of(e)->cond->in_count; i++)
        axis[i] = i < cond_consts(e) ? in_axis[i] : carry_axis[i - cond_consts(e)];
    mf_program *p = mf_batch_program(loop_of(e)->cond, c->b->env, c->axis_name, c->size, axis, &out, &error);
    if (!p)
        nested_fail(c->b, error);
    *batched = out >= 0;
    return p;
}

/* A condition that holds as long as any example's does. */
static mf_program *any_condition(mf_batch_context *c, const mf_program *cond)
{
    mf_builder b;
    mf_error_object *error = NULL;
    mf_builder_init(&b, c->b->env);
    mf_variable **in = nested_alloc(&b, cond->in_count, sizeof *in), *out = NULL;
    for (int i = 0; i < cond->in_count && !b.error; i++)
        in[i] = mf_builder_input(&b, cond->in[i]->type);
    if (!b.error)
        mf_inline(&b, cond, in, &out);
    if (!b.error)
        out = mf_emit(&b, &mf_op_reduce_or, &(mf_axes_params){ mf_ints_of(1, 0) }, 1, out);
    mf_program *p = mf_builder_finish(&b, &out, b.error ? 0 : 1, &error);
    if (!p)
        nested_fail(c->b, error);
    return p;
}

/* The body, in which only examples whose own condition holds advance. Inputs: the condition's constants, the body's, the carry. */
static mf_program *masked_body(mf_batch_context *c, const mf_eqn *e, const mf_program *cond, const mf_program *body)
{
    mf_builder b;
    mf_error_object *error = NULL;
    int nc = cond_consts(e), count = nc + body->in_count;
    mf_builder_init(&b, c->b->env);
    mf_variable **in = nested_alloc(&b, count, sizeof *in), **in_cond = nested_alloc(&b, cond->in_count, sizeof *in_cond);
    mf_variable **out = nested_alloc(&b, e->out_count, sizeof *out), *goes = NULL;
    for (int i = 0; i < count && !b.error; i++)
        in[i] = mf_builder_input(&b, i < nc ? cond->in[i]->type : body->in[i - nc]->type);
    for (int i = 0; i < cond->in_count && !b.error; i++)
        in_cond[i] = i < nc ? in[i] : in[body_consts(e) + i];
    if (!b.error)
        mf_inline(&b, cond, in_cond, &goes);
    if (!b.error)
        mf_inline(&b, body, in + nc, out);
    for (int o = 0; o < e->out_count && !b.error; o++) {
        mf_variable *mask = e_broadcast(&b, goes, out[o]->type->rank, out[o]->type->dims, mf_ints_of(1, 0));
        out[o] = e_select(&b, mask, out[o], e_convert_type(&b, in[consts(e) + o], out[o]->type));
    }
    mf_program *p = mf_builder_finish(&b, out, b.error ? 0 : e->out_count, &error);
    if (!p)
        nested_fail(c->b, error);
    return p;
}

/* If the condition differs by example, the whole carry is batched. */
static void mask_loop(mf_batch_context *c, const mf_eqn *e, const int *in_axis, int *axis, mf_program **cond, mf_program **body)
{
    bool batched;
    mf_drop(*cond);
    mf_drop(*body);
    for (int o = 0; o < e->out_count; o++)
        axis[body_consts(e) + o] = 0;
    *body = batch_body(c, e, axis);
    *cond = *body ? batch_condition(c, e, in_axis, axis + body_consts(e), &batched) : NULL;
    mf_program *masked = *cond ? masked_body(c, e, *cond, *body) : NULL, *any = *cond ? any_condition(c, *cond) : NULL;
    mf_drop(*cond);
    mf_drop(*body);
    *cond = any;
    *body = masked;
}

static void while_batch(mf_batch_context *c, const mf_eqn *e, mf_variable *const *in, const int *in_axis, mf_variable **out, int *out_axis)
{
    int nc = cond_consts(e), nb = body_consts(e), first = consts(e);
    bool masked = false;
    int *axis = nested_alloc(c->b, e->in_count, sizeof *axis);
    nested_list operands = nested_list_new(c->b, e->in_count + nc);
    if (c->b->error)
        return;
    for (int i = nc; i < e->in_count; i++)
        axis[i - nc] = i < first || in_axis[i] < 0 ? in_axis[i] : 0;
    mf_program *body = batch_body(c, e, axis), *cond = body ? batch_condition(c, e, in_axis, axis + nb, &masked) : NULL;
    if (cond && masked)
        mask_loop(c, e, in_axis, axis, &cond, &body);
    for (int i = 0; i < nc; i++)
        nested_put(&operands, in[i]);
    for (int i = 0; i < nc && masked; i++)
        nested_put(&operands, in[i]); /* once more, for the body's own evaluation of the condition */
    for (int i = nc; i < first; i++)
        nested_put(&operands, in[i]);
    for (int i = first; i < e->in_count && cond && body; i++)
        nested_put(&operands, axis[i - nc] >= 0 ? e_batched_at(c, in[i], in_axis[i], 0) : in[i]);
    emit_loop(c->b, cond, body, nc, nb + (masked ? nc : 0), &operands, out);
    for (int o = 0; o < e->out_count; o++)
        out_axis[o] = axis[nb + o];
    mf_drop(cond);
    mf_drop(body);
}

/* ---- the rest */

/* A result varies over the axes of the predicate, of its initial value, and of the body's result. */
static void while_variance(const mf_eqn *e, const mf_axis_env *env, const uint64_t *in, uint64_t *out)
{
    int nc = cond_consts(e), nb = body_consts(e), first = consts(e);
    uint64_t *of_cond = mf_alloc((2 * (size_t)e->in_count + 2 * (size_t)e->out_count + 2) * sizeof *of_cond);
    uint64_t *of_body = of_cond ? of_cond + e->in_count + 1 : NULL, *next = of_cond ? of_body + e->in_count : NULL, predicate = 0;
    for (int o = 0; o < e->out_count; o++)
        out[o] = of_cond ? in[first + o] : ~(uint64_t)0;
    for (bool grew = of_cond; grew;) {
        grew = false;
        for (int i = 0; i < e->in_count; i++) {
            of_cond[i < nc ? i : i < first ? e->in_count : i - nb] = in[i];
            if (i >= nc)
                of_body[i - nc] = in[i];
        }
        for (int o = 0; o < e->out_count; o++)
            of_cond[nc + o] = of_body[nb + o] = out[o];
        nested_variance(loop_of(e)->cond, env, of_cond, &predicate);
        nested_variance(loop_of(e)->body, env, of_body, next);
        for (int o = 0; o < e->out_count; o++) {
            uint64_t joined = out[o] | next[o] | predicate;
            grew = grew || joined != out[o];
            out[o] = joined;
        }
    }
    mf_free(of_cond);
}

/* The number of rounds is a guess. */
static mf_cost while_cost(const mf_eqn *e)
{
    mf_cost test = nested_cost(loop_of(e)->cond), round = nested_cost(loop_of(e)->body);
    return (mf_cost){ 100 * (test.flops + round.flops), 100 * (test.bytes + round.bytes) };
}

static const mf_param while_params[] = { MF_PARAM(mf_while_params, cond_consts, MF_PARAM_INT),
                                         MF_PARAM(mf_while_params, body_consts, MF_PARAM_INT),
                                         MF_PARAM(mf_while_params, cond, MF_PARAM_PROGRAM),
                                         MF_PARAM(mf_while_params, body, MF_PARAM_PROGRAM),
                                         { 0 } };

static const char *const while_samples[] = {
    "[cond_consts=1, body_consts=0, cond=(n: i32[], i: i32[], x: f32[2]) {\n"
    "p: bool[] = lt i n\n"
    "return p }, body=(i: i32[], x: f32[2]) {\n"
    "j: i32[] = add i 1:i32[]\n"
    "y: f32[2] = add x x\n"
    "return j, y }] i32[]{=3} i32[]{=0} f32[2]{=1,-2} -> i32[]{=3} f32[2]{=8,-16}",
    "[cond_consts=0, body_consts=1, cond=(i: i32[], x: f64[3]) {\n"
    "p: bool[] = lt i 3:i32[]\n"
    "return p }, body=(w: f64[3], i: i32[], x: f64[3]) {\n"
    "j: i32[] = add i 1:i32[]\n"
    "y: f64[3] = mul x w\n"
    "return j, y }] f64[3] i32[]{0:2} f64[3]",
    NULL,
};

/* The predicate of the constants and the carry, which are all in the loop's state. */
static mf_hlo_value predicate_hlo(mf_hlo *h, const mf_eqn *e, const mf_hlo_value *state)
{
    int n = e->in_count, first = consts(e);
    mf_hlo_value *given = h_alloc(h, n, sizeof *given), go = { 0, NULL };
    for (int i = 0; given && i < cond_consts(e); i++)
        given[i] = state[i];
    for (int i = first; given && i < n; i++)
        given[cond_consts(e) + i - first] = state[i];
    if (given)
        h_program(h, loop_of(e)->cond, given, &go);
    return h_agreed_round(h, e, go);
}

/* If findings are reported, the predicate is computed before the loop and at the end of each round, because its own region returns only a
 * bool. */
MF_HLO_RULE(while_hlo)
{
    int n = e->in_count, first = consts(e), count = n;
    bool ahead = h_reports(h);
    mf_hlo_value *start = h_alloc(h, n + 2, sizeof *start), *results = h_alloc(h, n + 2, sizeof *results);
    mf_hlo_value *state = h_alloc(h, n + 2, sizeof *state), *given = h_alloc(h, n + 2, sizeof *given);
    if (!start || !results || !state || !given)
        return;
    for (int i = 0; i < n; i++)
        start[i] = in[i];
    if (ahead)
        start[count++] = predicate_hlo(h, e, in);
    count = h_put_found(h, start, count);
    for (int i = 0; i < count; i++)
        results[i].type = state[i].type = start[i].type;
    h_open(h, "while", start, count, results, count, NULL);
    h_region(h, state, count);
    mf_hlo_value go = ahead ? state[n] : predicate_hlo(h, e, state);
    h_return(h, &go, 1);
    h_region(h, state, count);
    h_set_found(h, state[n + 1]);
    h_program(h, loop_of(e)->body, state + cond_consts(e), given + first);
    for (int i = 0; i < first; i++)
        given[i] = state[i];
    if (ahead)
        given[n] = predicate_hlo(h, e, given);
    h_return(h, given, h_put_found(h, given, ahead ? n + 1 : n));
    h_close(h, start, count, results, count);
    h_set_found(h, results[n + 1]);
    for (int i = first; i < n; i++)
        out[i - first] = results[i];
}

const mf_op mf_op_while = {
    .name = "while",
    .params = while_params,
    .params_size = sizeof(mf_while_params),
    .flags = MF_OP_CONTROL | MF_OP_LOOP,
    .type_rule = while_type_rule,
    .jvp = while_jvp,
    .transpose = while_transpose,
    .partial_eval = while_partial_eval,
    .dce = mf_dce_whole,
    .batch = while_batch,
    .variance = while_variance,
    .cost = while_cost,
    .lower = mf_lower_none,
    .evaluate = mf_evaluate_by_runtime,
    MF_HLO_BY(while_hlo),
    .samples = while_samples,
};
