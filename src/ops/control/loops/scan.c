/* scan: the body runs `length` times on a carry and on slices of the xs. Operands: constants, carry, xs; results: carry, ys. xs and ys are
 * stacked by round along axis 0; `reverse` starts with the last round. Invariant: the carry keeps its types; transforms find by a fixpoint
 * iteration which parts of it have a property (a tangent, a batch dimension). Reverse mode runs the loop backwards, on the residuals that
 * scan_partial_eval.c has stacked. */
#include "ops/control/loops/scan.h"

static mf_error_object *check_xs(const mf_type_context *c, const mf_scan_params *s, int i)
{
    const mf_type *t = c->in[i], *slice = t->rank ? mf_type_without_axis(t, 0) : NULL;
    if (!slice || t->dims[0] != s->length)
        return mf_type_error(c, MF_ERROR_SHAPE, "scanned operand %d is %s; its first dimension must be the length %lld", i, mf_type_name(t),
                             (long long)s->length);
    if (!nested_fits(slice, s->body->in[i]->type))
        return mf_type_error(c, MF_ERROR_SHAPE, "a slice of scanned operand %d is %s, but the body takes %s", i, mf_type_name(slice),
                             mf_type_name(s->body->in[i]->type));
    return NULL;
}

static mf_error_object *scan_type_rule(mf_type_context *c)
{
    const mf_scan_params *s = c->params;
    int first = (int)s->consts, xs = first + (int)s->carry;
    if (s->length < 0 || c->in_count != s->body->in_count || xs > c->in_count || s->carry > s->body->out_count)
        return mf_type_error(c, MF_ERROR_TREE, "%d operands for a body of %d inputs and %d results", c->in_count, s->body->in_count,
                             s->body->out_count);
    mf_error_object *error = nested_check(c, 0, s->body, 0, xs, "body");
    if (!error)
        error = nested_check_results(c, s->body, 0, c->in + first, (int)s->carry, "body");
    for (int i = xs; i < c->in_count && !error; i++)
        error = check_xs(c, s, i);
    const mf_type **out = error ? NULL : mf_type_outputs(c, s->body->out_count);
    for (int o = 0; out && o < s->body->out_count; o++) {
        const mf_type *t = s->body->out[o]->type;
        out[o] = o < s->carry ? nested_join(c->in[first + o], t) : mf_type_insert_axis(t, 0, s->length);
    }
    return error;
}

void scan_emit(mf_builder *b, const mf_eqn *e, mf_program *body, int64_t constants, int64_t carry, bool reverse, const nested_list *in,
               mf_variable **out)
{
    mf_scan_params p = { body, scan_of(e)->length, constants, carry, reverse };
    mf_emit_into(b, &mf_op_scan, &p, in->at, in->count, out, body->out_count);
}

/* ---- forward mode */

static mf_program *ordered_derivative(mf_builder *b, const mf_eqn *e, const bool *has, const bool *gives, const mf_program *p)
{
    mf_error_object *error = NULL;
    int count = 0, outs = 0;
    int *order = nested_alloc(b, p->in_count, sizeof *order), *out = nested_alloc(b, p->out_count, sizeof *out);
    if (b->error)
        return NULL;
    for (int part = 0; part < 3; part++) {
        for (int i = 0; i < e->in_count; i++)
            if (scan_part(e, i) == part)
                order[count++] = i;
        for (int i = 0, at = e->in_count; i < e->in_count; at += has[i++])
            if (scan_part(e, i) == part && has[i])
                order[count++] = at;
        for (int o = 0; o < e->out_count; o++)
            if (scan_result_part(e, o) == part)
                out[outs++] = o;
        for (int o = 0, at = e->out_count; o < e->out_count; at += gives[o++])
            if (scan_result_part(e, o) == part && gives[o])
                out[outs++] = at;
    }
    mf_program *result = nested_rewire(p, b->env, order, count, NULL, out, outs, &error);
    if (!result)
        nested_fail(b, error);
    return result;
}

static void scan_jvp(mf_builder *b, const mf_eqn *e, mf_variable *const *in, mf_variable *const *tin, mf_variable **out, mf_variable **tout)
{
    bool *has = nested_alloc(b, e->in_count, sizeof *has), *gives = nested_alloc(b, e->out_count, sizeof *gives);
    nested_list operands = nested_list_new(b, 2 * e->in_count);
    mf_variable **results = nested_alloc(b, 2 * e->out_count, sizeof *results);
    int64_t parts[3] = { 0 };
    int at = 0;
    if (b->error)
        return;
    for (int i = 0; i < e->in_count; i++)
        has[i] = tin[i];
    mf_program *p = nested_loop_jvp(b, scan_of(e)->body, scan_consts(e), scan_carries(e), has, gives);
    mf_program *body = p ? ordered_derivative(b, e, has, gives, p) : NULL;
    for (int part = 0; part < 3 && body; part++) {
        for (int i = 0; i < e->in_count; i++)
            if (scan_part(e, i) == part)
                nested_put(&operands, in[i]);
        for (int i = 0; i < e->in_count; i++)
            if (scan_part(e, i) == part && has[i])
                nested_put(&operands, mf_tangent_or_zeros(b, tin[i], in[i]->type));
        parts[part] = operands.count;
    }
    if (body)
        scan_emit(b, e, body, parts[0], parts[1] - parts[0], scan_of(e)->reverse, &operands, results);
    for (int part = 1; part < 3 && !b->error; part++) {
        for (int o = 0; o < e->out_count; o++)
            if (scan_result_part(e, o) == part)
                out[o] = results[at++];
        for (int o = 0; o < e->out_count; o++)
            if (scan_result_part(e, o) == part)
                tout[o] = gives[o] ? results[at++] : NULL;
    }
    mf_drop(p);
    mf_drop(body);
}

/* ---- transposition */

/* The parameters of the transposed loop. Its carry: the cotangents of the carry, then the sums of those of the linear constants. */
typedef struct transposition {
    const mf_eqn *e;
    const bool *linear;
    bool *has;   /* by result: whether its cotangent is an input */
    bool *gives; /* by input: whether its cotangent is an output */
} transposition;

static bool is(const transposition *t, int input, int part, bool linear)
{
    return scan_part(t->e, input) == part && t->linear[input] == linear;
}

/* The body of the transposed loop. Inputs: plain constants; carry cotangents, sums; ys cotangents, plain xs. Outputs: carry cotangents,
 * sums; xs cotangents. back: the transposed body, which takes plain inputs, then cotangents, and gives cotangents of linear inputs. */
static mf_program *transposed_body(mf_builder *outer, const transposition *t, const mf_program *back)
{
    const mf_eqn *e = t->e;
    mf_builder b;
    mf_error_object *error = NULL;
    mf_builder_init(&b, outer->env);
    mf_variable **plain = nested_alloc(&b, e->in_count, sizeof *plain), **sum = nested_alloc(&b, e->in_count, sizeof *sum);
    mf_variable **ct = nested_alloc(&b, e->out_count, sizeof *ct), **in = nested_alloc(&b, e->in_count + e->out_count, sizeof *in);
    mf_variable **made = nested_alloc(&b, e->in_count, sizeof *made), **out = nested_alloc(&b, e->in_count, sizeof *out);
    const mf_program *body = scan_of(e)->body;
    int count = 0, outs = 0;
    for (int i = 0; i < e->in_count && !b.error; i++)
        if (is(t, i, 0, false))
            plain[i] = mf_builder_input(&b, body->in[i]->type);
    for (int o = 0; o < scan_carries(e) && !b.error; o++)
        ct[o] = mf_builder_input(&b, mf_tangent_type(body->out[o]->type));
    for (int i = 0; i < e->in_count && !b.error; i++)
        if (is(t, i, 0, true) && t->gives[i])
            sum[i] = mf_builder_input(&b, mf_tangent_type(body->in[i]->type));
    for (int o = scan_carries(e); o < e->out_count && !b.error; o++)
        if (t->has[o])
            ct[o] = mf_builder_input(&b, mf_tangent_type(body->out[o]->type));
    for (int i = 0; i < e->in_count && !b.error; i++)
        if (is(t, i, 2, false))
            plain[i] = mf_builder_input(&b, body->in[i]->type);
    for (int i = 0; i < e->in_count && !b.error; i++)
        if (!t->linear[i])
            in[count++] = plain[i];
    for (int o = 0; o < e->out_count && !b.error; o++)
        if (t->has[o])
            in[count++] = ct[o];
    if (!b.error)
        mf_inline(&b, back, in, made);
    for (int i = 0, at = 0; i < e->in_count && !b.error; i++) /* indexed by input from now on */
        sum[i] = t->gives[i] ? mf_tangent_add(&b, sum[i], made[at++]) : NULL;
    static const int order[3] = { 1, 0, 2 };
    for (int part = 0; part < 3 && !b.error; part++)
        for (int i = 0; i < e->in_count; i++)
            if (is(t, i, order[part], true) && t->gives[i])
                out[outs++] = sum[i];
    mf_program *p = mf_builder_finish(&b, out, b.error ? 0 : outs, &error);
    if (!p)
        nested_fail(outer, error);
    return p;
}

/* Which inputs of the body the transposition treats as linear. The whole carry is: a part that starts at a constant (a zero tangent) is
 * linear from its first round on. NULL after a failure. */
static bool *linear_inputs(mf_builder *b, const mf_eqn *e, const bool *linear)
{
    bool *all = nested_alloc(b, e->in_count, sizeof *all);
    for (int i = 0; all && i < e->in_count; i++) {
        all[i] = linear[i] || scan_part(e, i) == 1;
        if (scan_part(e, i) != 1 || mf_tangent_type(e->in[i]->type))
            continue;
        nested_fail(b, mf_error_new(MF_ERROR_ARGUMENT, "scan: its transpose needs a carry that is linear in all its parts; part %d is %s",
                                    i - scan_consts(e), mf_type_name(e->in[i]->type)));
        return NULL;
    }
    return all;
}

/* All cotangents of the carry take part; missing ones are made zero. */
static mf_program *transpose_body(mf_builder *b, transposition *t)
{
    const mf_eqn *e = t->e;
    mf_error_object *error = NULL;
    for (int o = 0; o < scan_carries(e); o++)
        t->has[o] = true;
    for (int i = 0; i < e->in_count; i++)
        t->gives[i] = scan_part(e, i) == 1;
    mf_program *p = mf_transpose_program(scan_of(e)->body, b->env, t->linear, t->has, t->gives, &error);
    if (!p)
        nested_fail(b, error);
    return p;
}

static void scan_transpose(mf_builder *b, const mf_eqn *e, const bool *linear, mf_variable *const *in, mf_variable *const *ct,
                           mf_variable **ct_in)
{
    transposition t = { e, linear_inputs(b, e, linear), nested_alloc(b, e->out_count, sizeof(bool)),
                        nested_alloc(b, e->in_count, sizeof(bool)) };
    nested_list operands = nested_list_new(b, 2 * (e->in_count + e->out_count));
    mf_variable **results = nested_alloc(b, e->in_count, sizeof *results);
    if (b->error)
        return;
    for (int o = scan_carries(e); o < e->out_count; o++)
        t.has[o] = ct[o];
    mf_program *back = transpose_body(b, &t), *body = back ? transposed_body(b, &t, back) : NULL;
    for (int i = 0; i < scan_consts(e) && body; i++)
        if (!linear[i])
            nested_put(&operands, in[i]);
    int constants = operands.count;
    for (int o = 0; o < scan_carries(e) && body; o++)
        nested_put(&operands, mf_tangent_or_zeros(b, ct[o], e->out[o]->type));
    for (int i = 0; i < scan_consts(e) && body; i++)
        if (t.gives[i])
            nested_put(&operands, mf_tangent_zeros(b, e->in[i]->type));
    int carry = operands.count - constants;
    for (int o = scan_carries(e); o < e->out_count && body; o++)
        if (t.has[o])
            nested_put(&operands, ct[o]);
    for (int i = scan_xs_from(e); i < e->in_count && body; i++)
        if (!linear[i])
            nested_put(&operands, in[i]);
    if (body)
        scan_emit(b, e, body, constants, carry, !scan_of(e)->reverse, &operands, results);
    static const int order[3] = { 1, 0, 2 };
    for (int part = 0, at = 0; part < 3 && !b->error; part++)
        for (int i = 0; i < e->in_count; i++)
            if (scan_part(e, i) == order[part])
                ct_in[i] = t.gives[i] ? results[at++] : NULL;
    mf_drop(back);
    mf_drop(body);
}

/* ---- dead code */

/* Extends used_out and used_in to the inputs and results of the smaller loop: a part of the carry that is needed in either is in both. */
static bool close_over_carry(const mf_eqn *e, bool *used_out, bool *used_in)
{
    for (bool grew = true; grew;) {
        grew = false;
        if (!mf_program_uses(scan_of(e)->body, used_out, used_in))
            return false;
        for (int o = 0; o < scan_carries(e); o++) {
            bool either = used_out[o] || used_in[scan_consts(e) + o];
            grew = grew || (either && !used_out[o]);
            used_out[o] = used_in[scan_consts(e) + o] = either;
        }
    }
    return true;
}

static mf_program *smaller_body(const mf_eqn *e, const bool *used_out, const bool *used_in, mf_error_object **error)
{
    int *in = mf_alloc((size_t)(e->in_count + e->out_count + 1) * sizeof *in), ins = 0, outs = 0;
    int *out = in ? in + e->in_count : NULL;
    mf_program *p = NULL;
    for (int i = 0; in && i < e->in_count; i++)
        if (used_in[i])
            in[ins++] = i;
    for (int o = 0; in && o < e->out_count; o++)
        if (used_out[o])
            out[outs++] = o;
    if (in)
        p = mf_program_select(scan_of(e)->body, in, ins, out, outs, error);
    mf_free(in);
    return p;
}

/* Keeps the loop whole if a part of the carry is needed inside but its final value is not used, since the smaller equation would have to
 * omit that result. */
static bool scan_dce(const mf_eqn *e, const bool *used_out, bool *used_in, const void **params)
{
    mf_error_object *error = NULL;
    bool *closed = mf_alloc((size_t)e->out_count + 1), same = true;
    for (int o = 0; closed && o < e->out_count; o++)
        closed[o] = used_out[o];
    bool good = closed && close_over_carry(e, closed, used_in);
    for (int o = 0; good && o < e->out_count; o++)
        same = same && closed[o] == used_out[o];
    mf_program *body = good && same ? smaller_body(e, used_out, used_in, &error) : NULL;
    mf_scan_params *smaller = body ? mf_alloc(sizeof *smaller) : NULL;
    if (smaller) {
        *smaller = *scan_of(e);
        smaller->body = body;
        smaller->consts = smaller->carry = 0;
        for (int i = 0; i < scan_xs_from(e); i++) {
            smaller->consts += used_in[i] && i < scan_consts(e);
            smaller->carry += used_in[i] && i >= scan_consts(e);
        }
    } else {
        mf_drop(body);
    }
    mf_free(closed);
    nested_forget(error);
    *params = smaller;
    return smaller;
}

/* ---- batching */

/* xs keep their batch dimension where it is, unless it is in front of the rounds. */
static void scan_batch(mf_batch_context *c, const mf_eqn *e, mf_variable *const *in, const int *in_axis, mf_variable **out, int *out_axis)
{
    int *axis = nested_alloc(c->b, e->in_count, sizeof *axis);
    nested_list operands = nested_list_new(c->b, e->in_count);
    if (c->b->error)
        return;
    for (int i = 0; i < e->in_count; i++) {
        axis[i] = in_axis[i];
        if (in_axis[i] >= 0 && scan_part(e, i) == 1)
            axis[i] = 0;
        if (in_axis[i] >= 0 && scan_part(e, i) == 2)
            axis[i] = in_axis[i] > 0 ? in_axis[i] - 1 : 0;
    }
    mf_program *body = nested_loop_batch(c, scan_of(e)->body, scan_consts(e), scan_carries(e), axis, out_axis);
    for (int i = 0; i < e->in_count && body; i++) {
        mf_variable *x = in[i];
        if (scan_part(e, i) == 1 && axis[i] >= 0)
            x = e_batched_at(c, x, in_axis[i], 0);
        if (scan_part(e, i) == 2 && in_axis[i] == 0)
            x = e_move_axis(c->b, x, 0, 1);
        nested_put(&operands, x);
    }
    if (body)
        scan_emit(c->b, e, body, scan_consts(e), scan_carries(e), scan_of(e)->reverse, &operands, out);
    for (int o = scan_carries(e); o < e->out_count; o++)
        out_axis[o] += out_axis[o] >= 0;
    mf_drop(body);
}

/* ---- the rest */

static void scan_variance(const mf_eqn *e, const mf_axis_env *env, const uint64_t *in, uint64_t *out)
{
    uint64_t *of_body = mf_alloc(((size_t)e->in_count + 1) * sizeof *of_body);
    for (int i = 0; of_body && i < e->in_count; i++)
        of_body[i] = in[i];
    for (int o = 0; o < e->out_count; o++)
        out[o] = ~(uint64_t)0;
    for (bool grew = of_body; grew;) {
        grew = false;
        nested_variance(scan_of(e)->body, env, of_body, out);
        for (int o = 0; o < scan_carries(e); o++) {
            uint64_t joined = out[o] | of_body[scan_consts(e) + o];
            grew = grew || joined != of_body[scan_consts(e) + o];
            out[o] = of_body[scan_consts(e) + o] = joined;
        }
    }
    mf_free(of_body);
}

static mf_cost scan_cost(const mf_eqn *e)
{
    mf_cost one = nested_cost(scan_of(e)->body);
    return (mf_cost){ one.flops * (double)scan_of(e)->length, one.bytes * (double)scan_of(e)->length };
}

static const mf_param scan_params[] = { MF_PARAM(mf_scan_params, length, MF_PARAM_INT),   MF_PARAM(mf_scan_params, consts, MF_PARAM_INT),
                                        MF_PARAM(mf_scan_params, carry, MF_PARAM_INT),    MF_PARAM(mf_scan_params, reverse, MF_PARAM_BOOL),
                                        MF_PARAM(mf_scan_params, body, MF_PARAM_PROGRAM), { 0 } };

static const char *const scan_samples[] = {
    "[length=3, carry=1, body=(c: f32[], x: f32[]) {\n"
    "d: f32[] = add c x\n"
    "return d, c }] f32[]{=1} f32[3]{=1,2,3} -> f32[]{=7} f32[3]{=1,2,4}",
    "[length=3, carry=1, reverse=true, body=(c: i32[], x: i32[]) {\n"
    "d: i32[] = add c x\n"
    "return d, c }] i32[]{=1} i32[3]{=1,2,3} -> i32[]{=7} i32[3]{=6,4,1}",
    "[length=4, consts=1, carry=1, body=(w: f64[2], c: f64[2], x: f64[2]) {\n"
    "d: f64[2] = mul c w\n"
    "e: f64[2] = add d x\n"
    "return e, d }] f64[2] f64[2] f64[4,2]",
    NULL,
};

/* As a while. Its state: the round, the constants and the carry, the xs, the ys. */
MF_HLO_RULE(scan_hlo)
{
    const mf_scan_params *p = e->params;
    int fixed = (int)(p->consts + p->carry), rows = e->in_count - fixed, made = e->out_count - (int)p->carry;
    int n = 1 + e->in_count + made, ys = 1 + e->in_count;
    mf_hlo_value *start = h_alloc(h, n + 1, sizeof *start), *state = h_alloc(h, n, sizeof *state),
                 *results = h_alloc(h, n, sizeof *results);
    mf_hlo_value *given = h_alloc(h, e->in_count, sizeof *given), *gave = h_alloc(h, e->out_count, sizeof *gave), go;
    if (!start || !state || !results || !given || !gave)
        return;
    start[0] = h_scalar(h, MF_I32, 0);
    for (int i = 0; i < e->in_count; i++)
        start[1 + i] = in[i];
    for (int i = 0; i < made; i++)
        start[ys + i] = h_full(h, e->out[p->carry + i]->type, 0);
    for (int i = 0; i < p->carry; i++)
        out[i] = in[p->consts + i];
    for (int i = 0; i < made; i++)
        out[p->carry + i] = start[ys + i];
    if (!p->length)
        return;
    int found = n;
    n = h_put_found(h, start, n);
    for (int i = 0; i < n; i++)
        state[i].type = results[i].type = start[i].type;
    h_open(h, "while", start, n, results, n, NULL);
    h_region(h, state, n);
    go = h_compare(h, "LT", false, state[0], h_scalar(h, MF_I32, (double)p->length));
    h_return(h, &go, 1);
    h_region(h, state, n);
    h_set_found(h, state[found]);
    mf_hlo_value at = p->reverse ? h_binary(h, "subtract", h_scalar(h, MF_I32, (double)p->length - 1), state[0]) : state[0];
    for (int i = 0; i < fixed; i++)
        given[i] = state[1 + i];
    for (int i = 0; i < rows; i++)
        given[fixed + i] = h_row(h, state[1 + fixed + i], at, 0);
    h_program(h, p->body, given, gave);
    state[0] = h_binary(h, "add", state[0], h_scalar(h, MF_I32, 1));
    for (int i = 0; i < p->carry; i++)
        state[1 + p->consts + i] = gave[i];
    for (int i = 0; i < made; i++)
        state[ys + i] = h_put_row(h, state[ys + i], gave[p->carry + i], at, 0);
    h_return(h, state, h_put_found(h, state, found));
    h_close(h, start, n, results, n);
    h_set_found(h, results[found]);
    for (int i = 0; i < p->carry; i++)
        out[i] = results[1 + p->consts + i];
    for (int i = 0; i < made; i++)
        out[p->carry + i] = results[ys + i];
}

const mf_op mf_op_scan = {
    .name = "scan",
    .params = scan_params,
    .params_size = sizeof(mf_scan_params),
    .flags = MF_OP_CONTROL | MF_OP_LOOP | MF_OP_SPLITS,
    .type_rule = scan_type_rule,
    .jvp = scan_jvp,
    .transpose = scan_transpose,
    .partial_eval = scan_partial_eval,
    .dce = scan_dce,
    .batch = scan_batch,
    .variance = scan_variance,
    .cost = scan_cost,
    .lower = mf_lower_none,
    .evaluate = mf_evaluate_by_runtime,
    MF_HLO_BY(scan_hlo),
    .samples = scan_samples,
};
