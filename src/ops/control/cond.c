/* cond: runs one of several programs, selected by an i32 index that is clamped to the valid range. Operands: the index, then the branches'.
 * Invariant: all branches take the same types and give the same; transforms keep that by emitting zeros where one branch has nothing (a
 * tangent, a residual, a cotangent) and another has something. */
#include "ops/control/nested.h"

static const mf_cond_params *cond_of(const mf_eqn *e) { return e->params; }

static int branch_count(const mf_eqn *e) { return cond_of(e)->branches.count; }

static const mf_program *branch(const mf_eqn *e, int k) { return cond_of(e)->branches.at[k]; }

static void drop_all(mf_program **branches, int count)
{
    for (int k = 0; branches && k < count; k++)
        mf_drop(branches[k]);
}

static void emit_cond(mf_builder *b, mf_program **branches, int count, mf_variable *const *in, int in_count, mf_variable **out)
{
    mf_cond_params p = { { count, branches } };
    mf_emit_into(b, &mf_op_cond, &p, in, in_count, out, branches[0]->out_count);
}

static mf_error_object *cond_type_rule(mf_type_context *c)
{
    const mf_program_list *branches = &((const mf_cond_params *)c->params)->branches;
    if (branches->count < 1 || c->in_count < 1)
        return mf_type_error(c, MF_ERROR_ARGUMENT, "an index and at least one branch are needed");
    if (c->in[0]->dtype != MF_I32 || c->in[0]->rank)
        return mf_type_error(c, MF_ERROR_DTYPE, "the index must be an int32 scalar");
    const mf_program *first = branches->at[0];
    const mf_type **out = mf_type_outputs(c, first->out_count);
    for (int o = 0; out && o < first->out_count; o++)
        out[o] = first->out[o]->type;
    for (int k = 0; k < branches->count && out; k++) {
        const mf_program *p = branches->at[k];
        if (p->in_count != c->in_count - 1 || p->out_count != first->out_count)
            return mf_type_error(c, MF_ERROR_TREE, "branch %d takes %d inputs and gives %d results; %d and %d are needed", k, p->in_count,
                                 p->out_count, c->in_count - 1, first->out_count);
        mf_error_object *error = nested_check(c, 1, p, 0, p->in_count, "branch");
        if (!error)
            error = nested_check_results(c, p, 0, out, p->out_count, "branch");
        if (error)
            return error;
        for (int o = 0; o < p->out_count; o++)
            out[o] = nested_join(out[o], p->out[o]->type);
    }
    return NULL;
}

/* ---- forward mode */

/* Two rounds: the first finds the outputs that have a tangent in any branch, the second gives those in all branches. */
static bool differentiate_branches(mf_builder *b, const mf_eqn *e, const bool *has, bool *gives, mf_program **made)
{
    mf_error_object *error = NULL;
    bool *one = nested_alloc(b, e->out_count, sizeof *one);
    for (int round = 0; round < 2 && one; round++)
        for (int k = 0; k < branch_count(e); k++) {
            for (int o = 0; o < e->out_count; o++)
                one[o] = round ? gives[o] : false;
            made[k] = mf_jvp_program(branch(e, k), b->env, has, one, &error);
            if (!made[k]) {
                nested_fail(b, error);
                return false;
            }
            for (int o = 0; o < e->out_count; o++)
                gives[o] = gives[o] || one[o];
            if (!round) {
                mf_drop(made[k]);
                made[k] = NULL;
            }
        }
    return one;
}

static void cond_jvp(mf_builder *b, const mf_eqn *e, mf_variable *const *in, mf_variable *const *tin, mf_variable **out, mf_variable **tout)
{
    bool *has = nested_alloc(b, e->in_count, sizeof *has), *gives = nested_alloc(b, e->out_count, sizeof *gives);
    mf_program **made = nested_alloc(b, branch_count(e), sizeof *made);
    nested_list operands = nested_list_new(b, 2 * e->in_count);
    mf_variable **results = nested_alloc(b, 2 * e->out_count, sizeof *results);
    if (b->error)
        return;
    for (int i = 0; i < e->in_count; i++) {
        nested_put(&operands, in[i]);
        has[i] = i + 1 < e->in_count && tin[i + 1];
    }
    for (int i = 1; i < e->in_count; i++)
        if (tin[i])
            nested_put(&operands, tin[i]);
    if (differentiate_branches(b, e, has, gives, made))
        emit_cond(b, made, branch_count(e), operands.at, operands.count, results);
    for (int o = 0, t = e->out_count; o < e->out_count && !b->error; o++) {
        out[o] = results[o];
        tout[o] = gives[o] ? results[t++] : NULL;
    }
    drop_all(made, branch_count(e));
}

/* ---- partial evaluation */

/* The residuals of all branches share slots: each branch fills slots of the right types and sets the others to zero. */
typedef struct slots {
    int count;
    const mf_type **types;
    int **of; /* by branch and (computed) residual: its slot */
} slots;

static int computed_residuals(const nested_parts *p) { return p->known->out_count - p->known_out_count; }

static bool assign_slots(mf_partial_context *c, const nested_parts *parts, int branches, slots *s)
{
    int most = 0;
    for (int k = 0; k < branches; k++)
        most += computed_residuals(&parts[k]);
    s->types = mf_partial_alloc(c, most, sizeof *s->types);
    s->of = mf_partial_alloc(c, branches, sizeof *s->of);
    bool *taken = mf_partial_alloc(c, most, sizeof *taken);
    if (!s->types || !s->of || !taken)
        return false;
    for (int k = 0; k < branches; k++) {
        int n = computed_residuals(&parts[k]);
        if (!(s->of[k] = mf_partial_alloc(c, n, sizeof *s->of[k])))
            return false;
        for (int i = 0; i < s->count; i++)
            taken[i] = false;
        for (int r = 0; r < n; r++) {
            const mf_type *t = parts[k].known->out[parts[k].known_out_count + r]->type;
            int at = 0;
            while (at < s->count && (taken[at] || s->types[at] != t))
                at++;
            if (at == s->count)
                s->types[s->count++] = t;
            taken[at] = true;
            s->of[k][r] = at;
        }
    }
    return true;
}

/* The known branch: takes all known operands; gives the known outputs, then the slots. */
static mf_program *known_branch(mf_partial_context *c, const mf_eqn *e, const bool *known, const nested_parts *p, const slots *s,
                                const int *slot_of)
{
    mf_builder b;
    mf_error_object *error = NULL;
    mf_builder_init(&b, c->env);
    mf_variable **all = nested_alloc(&b, e->in_count, sizeof *all), **in = nested_alloc(&b, e->in_count, sizeof *in);
    mf_variable **made = nested_alloc(&b, p->known->out_count, sizeof *made),
                **out = nested_alloc(&b, p->known_out_count + s->count, sizeof *out);
    for (int i = 1; i < e->in_count && !b.error; i++)
        if (known[i])
            all[i - 1] = mf_builder_input(&b, e->in[i]->type);
    for (int i = 0; i < p->known_in_count && !b.error; i++)
        in[i] = all[p->known_from[i]];
    if (!b.error)
        mf_inline(&b, p->known, in, made);
    for (int o = 0; o < p->known_out_count && !b.error; o++)
        out[o] = made[o];
    for (int r = 0; r < computed_residuals(p) && !b.error; r++)
        out[p->known_out_count + slot_of[r]] = made[p->known_out_count + r];
    for (int i = 0; i < s->count && !b.error; i++)
        if (!out[p->known_out_count + i])
            out[p->known_out_count + i] = e_full(&b, s->types[i], 0);
    mf_program *result = mf_builder_finish(&b, out, b.error ? 0 : p->known_out_count + s->count, &error);
    if (!result)
        mf_partial_fail(c, error);
    return result;
}

/* The unknown branch: takes the slots, the known operands that any branch forwards, and the unknown operands. */
static mf_program *unknown_branch(mf_partial_context *c, const mf_eqn *e, const bool *known, const bool *forwarded, const nested_parts *p,
                                  const slots *s, const int *slot_of)
{
    mf_builder b;
    mf_error_object *error = NULL;
    int count = 0, made = 0;
    mf_builder_init(&b, c->env);
    mf_variable **all = nested_alloc(&b, e->in_count, sizeof *all), **slot = nested_alloc(&b, s->count, sizeof *slot);
    mf_variable **in = nested_alloc(&b, e->in_count + p->residual_count, sizeof *in),
                **out = nested_alloc(&b, p->unknown->out_count, sizeof *out);
    for (int i = 0; i < s->count && !b.error; i++)
        slot[i] = mf_builder_input(&b, s->types[i]);
    for (int pass = 0; pass < 2 && !b.error; pass++)
        for (int i = 1; i < e->in_count; i++)
            if (pass ? !known[i] : forwarded[i])
                all[i - 1] = mf_builder_input(&b, e->in[i]->type);
    for (int r = 0; r < p->residual_count && !b.error; r++)
        in[count++] = p->forward[r] >= 0 ? all[p->forward[r]] : slot[slot_of[made++]];
    for (int i = 1; i < e->in_count && !b.error; i++)
        if (!known[i])
            in[count++] = all[i - 1];
    if (!b.error)
        mf_inline(&b, p->unknown, in, out);
    mf_program *result = mf_builder_finish(&b, out, b.error ? 0 : p->unknown->out_count, &error);
    if (!result)
        mf_partial_fail(c, error);
    return result;
}

/* An output that is unknown in any branch is made unknown in all. */
static bool split_branches(mf_partial_context *c, const mf_eqn *e, const bool *known, nested_parts *parts)
{
    bool *force = mf_partial_alloc(c, e->out_count, sizeof *force);
    for (int round = 0; round < 2 && force; round++)
        for (int k = 0; k < branch_count(e); k++) {
            if (!nested_split(c, c->env, branch(e, k), known + 1, force, &parts[k]))
                return false;
            for (int o = 0; o < e->out_count; o++)
                force[o] = force[o] || !parts[k].known_out[o];
            if (!round)
                nested_parts_drop(&parts[k]);
        }
    return force;
}

static void emit_known(mf_partial_context *c, const mf_eqn *e, const bool *known, const nested_parts *parts, const slots *s,
                       mf_variable **out)
{
    int branches = branch_count(e), count = 0;
    mf_program **made = mf_partial_alloc(c, branches, sizeof *made);
    mf_variable **in = mf_partial_alloc(c, e->in_count, sizeof *in);
    bool good = made && in && parts[0].known_out_count + s->count > 0;
    for (int k = 0; good && k < branches; k++)
        good = (made[k] = known_branch(c, e, known, &parts[k], s, s->of[k]));
    for (int i = 0; good && i < e->in_count; i++)
        if (known[i])
            in[count++] = mf_partial_known(c, e->in[i]);
    if (good)
        emit_cond(&c->known_builder, made, branches, in, count, out);
    drop_all(made, branches);
}

static void emit_unknown(mf_partial_context *c, const mf_eqn *e, const bool *known, const nested_parts *parts, const slots *s,
                         mf_variable **out)
{
    int branches = branch_count(e), count = 0;
    mf_program **made = mf_partial_alloc(c, branches, sizeof *made);
    mf_variable **in = mf_partial_alloc(c, e->in_count + s->count, sizeof *in);
    bool *forwarded = mf_partial_alloc(c, e->in_count, sizeof *forwarded);
    bool good = made && in && forwarded && parts[0].unknown->out_count > 0;
    for (int k = 0; good && k < branches; k++)
        for (int r = 0; r < parts[k].residual_count; r++)
            if (parts[k].forward[r] >= 0)
                forwarded[parts[k].forward[r] + 1] = true;
    for (int k = 0; good && k < branches; k++)
        good = (made[k] = unknown_branch(c, e, known, forwarded, &parts[k], s, s->of[k]));
    if (good)
        in[count++] = mf_partial_unknown(c, e->in[0]);
    for (int i = 0; good && i < s->count; i++)
        in[count++] = mf_partial_residual(c, out[parts[0].known_out_count + i]);
    for (int pass = 0; pass < 2 && good; pass++)
        for (int i = 1; i < e->in_count; i++)
            if (pass ? !known[i] : forwarded[i])
                in[count++] = mf_partial_unknown(c, e->in[i]);
    if (good)
        emit_cond(&c->unknown_builder, made, branches, in, count, out);
    drop_all(made, branches);
}

/* If the index is unknown, nothing of the cond is known. */
static void cond_partial_eval(mf_partial_context *c, const mf_eqn *e)
{
    slots s = { 0 };
    bool *known = nested_known(c, e);
    nested_parts *parts = mf_partial_alloc(c, branch_count(e), sizeof *parts);
    if (!known || !parts)
        return;
    if (!known[0]) {
        mf_partial_all_unknown(c, e);
        return;
    }
    if (split_branches(c, e, known, parts) && assign_slots(c, parts, branch_count(e), &s)) {
        mf_variable **out = mf_partial_alloc(c, e->out_count + s.count, sizeof *out);
        if (out) {
            emit_known(c, e, known, parts, &s, out);
            nested_set_known(c, e, parts, out);
            if (!mf_partial_failed(c))
                emit_unknown(c, e, known, parts, &s, out);
            nested_set_unknown(c, e, parts, out);
        }
    }
    for (int k = 0; k < branch_count(e); k++)
        nested_parts_drop(&parts[k]);
}

/* ---- transposition */

static bool transpose_branches(mf_builder *b, const mf_eqn *e, const bool *linear, const bool *has, bool *gives, mf_program **made)
{
    mf_error_object *error = NULL;
    bool *one = nested_alloc(b, e->in_count, sizeof *one);
    for (int round = 0; round < 2 && one; round++)
        for (int k = 0; k < branch_count(e); k++) {
            for (int i = 0; i + 1 < e->in_count; i++)
                one[i] = round ? gives[i] : false;
            made[k] = mf_transpose_program(branch(e, k), b->env, linear, has, one, &error);
            if (!made[k]) {
                nested_fail(b, error);
                return false;
            }
            for (int i = 0; i + 1 < e->in_count; i++)
                gives[i] = gives[i] || one[i];
            if (!round) {
                mf_drop(made[k]);
                made[k] = NULL;
            }
        }
    return one;
}

static void cond_transpose(mf_builder *b, const mf_eqn *e, const bool *linear, mf_variable *const *in, mf_variable *const *ct,
                           mf_variable **ct_in)
{
    bool *has = nested_alloc(b, e->out_count, sizeof *has), *gives = nested_alloc(b, e->in_count, sizeof *gives);
    mf_program **made = nested_alloc(b, branch_count(e), sizeof *made);
    nested_list operands = nested_list_new(b, e->in_count + e->out_count);
    mf_variable **results = nested_alloc(b, e->in_count, sizeof *results);
    if (b->error)
        return;
    for (int i = 0; i < e->in_count; i++)
        if (!linear[i])
            nested_put(&operands, in[i]);
    for (int o = 0; o < e->out_count; o++)
        if ((has[o] = ct[o]))
            nested_put(&operands, ct[o]);
    if (transpose_branches(b, e, linear + 1, has, gives, made))
        emit_cond(b, made, branch_count(e), operands.at, operands.count, results);
    ct_in[0] = NULL;
    for (int i = 1, from = 0; i < e->in_count && !b->error; i++)
        ct_in[i] = gives[i - 1] ? results[from++] : NULL;
    drop_all(made, branch_count(e));
}

/* ---- dead code, batching, the rest */

static bool prune_branches(const mf_eqn *e, const bool *used_out, const bool *used_in, mf_program **made, mf_error_object **error)
{
    int *in = mf_alloc(((size_t)e->in_count + (size_t)e->out_count) * sizeof *in), ins = 0, outs = 0;
    int *out = in ? in + e->in_count : NULL;
    bool good = in;
    for (int i = 1; good && i < e->in_count; i++)
        if (used_in[i])
            in[ins++] = i - 1;
    for (int o = 0; good && o < e->out_count; o++)
        if (used_out[o])
            out[outs++] = o;
    for (int k = 0; good && k < branch_count(e); k++)
        good = (made[k] = mf_program_select(branch(e, k), in, ins, out, outs, error));
    mf_free(in);
    return good;
}

/* An operand is kept if any branch needs it. The list of branches is stored behind the params, in the same allocation. */
static bool cond_dce(const mf_eqn *e, const bool *used_out, bool *used_in, const void **params)
{
    mf_error_object *error = NULL;
    int count = branch_count(e);
    mf_cond_params *smaller = mf_calloc(1, sizeof *smaller + (size_t)count * sizeof(mf_program *));
    bool *one = mf_calloc((size_t)e->in_count + 1, sizeof *one), good = smaller && one;
    for (int i = 0; i < e->in_count; i++)
        used_in[i] = i == 0;
    for (int k = 0; good && k < count; k++) {
        good = mf_program_uses(branch(e, k), used_out, one);
        for (int i = 1; good && i < e->in_count; i++)
            used_in[i] = used_in[i] || one[i - 1];
    }
    if (good) {
        smaller->branches = (mf_program_list){ count, (mf_program **)(smaller + 1) };
        good = prune_branches(e, used_out, used_in, smaller->branches.at, &error);
    }
    if (!good && smaller) {
        drop_all(smaller->branches.at, smaller->branches.count);
        mf_free(smaller);
    }
    mf_free(one);
    nested_forget(error);
    *params = good ? smaller : NULL;
    return good;
}

static bool batch_branches(mf_batch_context *c, const mf_eqn *e, const int *in_axis, int *out_axis, mf_program **made)
{
    mf_error_object *error = NULL;
    int *one = nested_alloc(c->b, e->out_count, sizeof *one);
    for (int round = 0; round < 2 && one; round++)
        for (int k = 0; k < branch_count(e); k++) {
            for (int o = 0; o < e->out_count; o++)
                one[o] = round ? out_axis[o] : MF_BATCH_ANYWHERE;
            made[k] = mf_batch_program(branch(e, k), c->b->env, c->axis_name, c->size, in_axis + 1, one, &error);
            if (!made[k]) {
                nested_fail(c->b, error);
                return false;
            }
            for (int o = 0; o < e->out_count && !round; o++)
                out_axis[o] = one[o] >= 0 ? 0 : out_axis[o];
            if (!round) {
                mf_drop(made[k]);
                made[k] = NULL;
            }
        }
    return one;
}

/* For an index that differs by example: all branches run, and each example selects. index and x have their batch in front. */
static mf_variable *pick(mf_builder *b, mf_variable *index, mf_variable *x, mf_variable *otherwise, int branch_number)
{
    mf_variable *is = e_compare(b, &mf_op_ge, index, e_full(b, index->type, branch_number));
    return e_select(b, e_broadcast(b, is, x->type->rank, x->type->dims, mf_ints_of(1, 0)), x, otherwise);
}

static void select_branches(mf_batch_context *c, const mf_eqn *e, mf_program **made, mf_variable *index, mf_variable *const *in,
                            mf_variable **out)
{
    mf_variable **one = nested_alloc(c->b, e->out_count, sizeof *one);
    for (int k = 0; k < branch_count(e) && !c->b->error; k++) {
        mf_inline(c->b, made[k], in + 1, k ? one : out);
        for (int o = 0; o < e->out_count && k && !c->b->error; o++)
            out[o] = pick(c->b, index, one[o], out[o], k);
    }
}

static void cond_batch(mf_batch_context *c, const mf_eqn *e, mf_variable *const *in, const int *in_axis, mf_variable **out, int *out_axis)
{
    mf_program **made = nested_alloc(c->b, branch_count(e), sizeof *made);
    for (int o = 0; o < e->out_count; o++)
        out_axis[o] = in_axis[0] >= 0 ? 0 : -1;
    if (!made || !batch_branches(c, e, in_axis, out_axis, made)) {
        drop_all(made, branch_count(e));
        return;
    }
    if (in_axis[0] >= 0)
        select_branches(c, e, made, in[0], in, out);
    else
        emit_cond(c->b, made, branch_count(e), in, e->in_count, out);
    drop_all(made, branch_count(e));
}

static void cond_variance(const mf_eqn *e, const mf_axis_env *env, const uint64_t *in, uint64_t *out)
{
    uint64_t *one = mf_alloc(((size_t)e->out_count + 1) * sizeof *one);
    for (int o = 0; o < e->out_count; o++)
        out[o] = one ? in[0] : ~(uint64_t)0;
    for (int k = 0; one && k < branch_count(e); k++) {
        nested_variance(branch(e, k), env, in + 1, one);
        for (int o = 0; o < e->out_count; o++)
            out[o] |= one[o];
    }
    mf_free(one);
}

static mf_cost cond_cost(const mf_eqn *e)
{
    mf_cost most = { 0, 0 };
    for (int k = 0; k < branch_count(e); k++) {
        mf_cost one = nested_cost(branch(e, k));
        most.flops = one.flops > most.flops ? one.flops : most.flops;
        most.bytes = one.bytes > most.bytes ? one.bytes : most.bytes;
    }
    return most;
}

static const mf_param cond_params[] = { MF_PARAM(mf_cond_params, branches, MF_PARAM_PROGRAMS), { 0 } };

static const char *const cond_samples[] = {
    "[branches=[(x: f32[2]) {\n"
    "return x }, (x: f32[2]) {\n"
    "c: f32[2] = neg x\n"
    "return c }]] i32[]{=1} f32[2]{=1,-2} -> f32[2]{=-1,2}",
    "[branches=[(x: f32[2]) {\n"
    "return x }, (x: f32[2]) {\n"
    "c: f32[2] = neg x\n"
    "return c }]] i32[]{=-7} f32[2]{=1,-2} -> f32[2]{=1,-2}",
    "[branches=[(x: f64[3], y: f64[3]) {\n"
    "c: f64[3] = mul x y\n"
    "return c, y }, (x: f64[3], y: f64[3]) {\n"
    "c: f64[3] = mul x x\n"
    "return c, x }]] i32[]{0:1} f64[3] f64[3]",
    NULL,
};

MF_HLO_RULE(cond_hlo)
{
    const mf_cond_params *p = e->params;
    const mf_type *scalar = mf_type_scalar(MF_I32, false);
    mf_hlo_value last = h_full(h, scalar, p->branches.count - 1);
    mf_hlo_value index = h_op(h, "clamp", scalar, (mf_hlo_value[]){ h_full(h, scalar, 0), in[0], last }, 3, NULL);
    index = h_agreed_branch(h, e, index);
    mf_hlo_value *results = h_alloc(h, e->out_count + 1, sizeof *results);
    mf_hlo_value *all = h_alloc(h, e->out_count + 1, sizeof *all), found = { 0, NULL };
    if (!results || !all)
        return;
    for (int o = 0; o < e->out_count; o++)
        all[o].type = out[o].type;
    int count = h_put_found(h, all, e->out_count);
    if (count > e->out_count)
        found = all[e->out_count];
    h_open(h, "case", &index, 1, all, count, NULL);
    for (int k = 0; results && k < p->branches.count; k++) {
        h_region(h, NULL, 0);
        h_set_found(h, found);
        h_program(h, p->branches.at[k], in + 1, results);
        h_return(h, results, h_put_found(h, results, e->out_count));
    }
    h_close(h, &index, 1, all, count);
    h_set_found(h, all[e->out_count]);
    for (int o = 0; o < e->out_count; o++)
        out[o] = all[o];
}

const mf_op mf_op_cond = {
    .name = "cond",
    .params = cond_params,
    .params_size = sizeof(mf_cond_params),
    .flags = MF_OP_CONTROL,
    .type_rule = cond_type_rule,
    .jvp = cond_jvp,
    .transpose = cond_transpose,
    .partial_eval = cond_partial_eval,
    .dce = cond_dce,
    .batch = cond_batch,
    .variance = cond_variance,
    .cost = cond_cost,
    .lower = mf_lower_none,
    .evaluate = mf_evaluate_by_runtime,
    MF_HLO_BY(cond_hlo),
    .samples = cond_samples,
};
