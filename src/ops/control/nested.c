/* Shared by the ops with nested programs. Invariant: nothing here depends on a particular op; programs are returned with one reference. */
#include "ops/control/nested.h"

const char *const nested_no_samples[] = { NULL };

void *nested_alloc(mf_builder *b, int count, size_t size)
{
    void *at = b->error ? NULL : mf_arena_alloc(&b->program->arena, ((size_t)count + 1) * size);
    if (!at)
        mf_builder_fail_memory(b);
    return at;
}

void nested_fail(mf_builder *b, mf_error_object *e) { mf_builder_fail(b, e ? e : mf_error_out_of_memory()); }

/* ---- types */

bool nested_fits(const mf_type *a, const mf_type *b) { return a->dtype == b->dtype && mf_type_same_shape(a, b); }

const mf_type *nested_join(const mf_type *a, const mf_type *b) { return a == b ? a : mf_type_strong(a); }

mf_error_object *nested_check(const mf_type_context *c, int from, const mf_program *p, int first, int count, const char *what)
{
    if (first + count > p->in_count || from + count > c->in_count)
        return mf_type_error(c, MF_ERROR_ARGUMENT, "the %s takes %d inputs, which do not match the operands", what, p->in_count);
    for (int i = 0; i < count; i++)
        if (!nested_fits(c->in[from + i], p->in[first + i]->type))
            return mf_type_error(c, MF_ERROR_SHAPE, "input %d of the %s is %s, but operand %d is %s", first + i, what,
                                 mf_type_name(p->in[first + i]->type), from + i, mf_type_name(c->in[from + i]));
    return NULL;
}

mf_error_object *nested_check_results(const mf_type_context *c, const mf_program *p, int first, const mf_type *const *want, int count,
                                      const char *what)
{
    if (first + count > p->out_count)
        return mf_type_error(c, MF_ERROR_ARGUMENT, "the %s gives %d results, at least %d are needed", what, p->out_count, first + count);
    for (int i = 0; i < count; i++)
        if (!nested_fits(want[i], p->out[first + i]->type))
            return mf_type_error(c, MF_ERROR_SHAPE, "result %d of the %s is %s where %s is needed", first + i, what,
                                 mf_type_name(p->out[first + i]->type), mf_type_name(want[i]));
    return NULL;
}

/* ---- emitting */

nested_list nested_list_new(mf_builder *b, int capacity) { return (nested_list){ .at = nested_alloc(b, capacity, sizeof(mf_variable *)) }; }

void nested_put(nested_list *l, mf_variable *v)
{
    if (l->at)
        l->at[l->count++] = v;
}

mf_program *nested_rewire(const mf_program *p, const mf_axis_env *env, const int *order, int in_count, const mf_type *const *extra,
                          const int *out, int out_count, mf_error_object **error)
{
    mf_builder b;
    mf_builder_init(&b, env);
    mf_variable **in = nested_alloc(&b, p->in_count, sizeof *in), **all = nested_alloc(&b, p->out_count, sizeof *all);
    mf_variable **results = nested_alloc(&b, out_count, sizeof *results);
    for (int i = 0; i < in_count && in; i++) {
        mf_variable *v = mf_builder_input(&b, order[i] >= 0 ? p->in[order[i]]->type : extra[-1 - order[i]]);
        if (order[i] >= 0)
            in[order[i]] = v;
    }
    if (!b.error)
        mf_inline(&b, p, in, all);
    for (int o = 0; o < out_count && !b.error; o++)
        results[o] = all[out[o]];
    return mf_builder_finish(&b, results, b.error ? 0 : out_count, error);
}

/* ---- splitting */

bool *nested_known(mf_partial_context *c, const mf_eqn *e)
{
    bool *known = mf_partial_alloc(c, e->in_count, sizeof *known);
    for (int i = 0; known && i < e->in_count; i++)
        known[i] = mf_partial_is_known(c, e->in[i]);
    return known;
}

void nested_parts_drop(nested_parts *parts)
{
    mf_drop(parts->known);
    mf_drop(parts->unknown);
    parts->known = parts->unknown = NULL;
}

static int input_position(const mf_program *p, const mf_variable *v)
{
    for (int i = 0; i < p->in_count; i++)
        if (p->in[i] == v)
            return i;
    return -1;
}

/* Removes from the known program the residuals that are just inputs, and the unused inputs. */
static bool forward_residuals(mf_partial_context *c, nested_parts *parts, const int *position)
{
    mf_program *k = parts->known;
    int outs = 0, ins = 0;
    int *out = mf_partial_alloc(c, k->out_count, sizeof *out), *in = mf_partial_alloc(c, k->in_count, sizeof *in);
    bool *used_out = mf_partial_alloc(c, k->out_count, sizeof *used_out), *used_in = mf_partial_alloc(c, k->in_count, sizeof *used_in);
    if (mf_partial_failed(c))
        return false;
    for (int o = 0; o < k->out_count; o++) {
        int at = o < parts->known_out_count ? -1 : input_position(k, k->out[o]);
        if (o >= parts->known_out_count)
            parts->forward[o - parts->known_out_count] = at < 0 ? -1 : position[at];
        used_out[o] = at < 0;
        if (at < 0)
            out[outs++] = o;
    }
    mf_error_object *error = NULL;
    if (!mf_program_uses(k, used_out, used_in)) {
        mf_partial_fail(c, mf_error_out_of_memory());
        return false;
    }
    for (int i = 0; i < k->in_count; i++)
        if (used_in[i]) {
            in[ins] = i;
            parts->known_from[ins++] = position[i];
        }
    parts->known_in_count = ins;
    parts->known = mf_program_select(k, in, ins, out, outs, &error);
    mf_drop(k);
    if (!parts->known)
        mf_partial_fail(c, error);
    return parts->known;
}

bool nested_split(mf_partial_context *c, const mf_axis_env *env, const mf_program *p, const bool *known_in, const bool *force_unknown,
                  nested_parts *parts)
{
    mf_partial_result r;
    mf_error_object *error = NULL;
    *parts = (nested_parts){ .known_out = mf_partial_alloc(c, p->out_count, sizeof(bool)) };
    int *position = mf_partial_alloc(c, p->in_count, sizeof *position), count = 0;
    parts->known_from = mf_partial_alloc(c, p->in_count, sizeof *parts->known_from);
    if (mf_partial_failed(c))
        return false;
    for (int i = 0; i < p->in_count; i++)
        if (known_in[i])
            position[count++] = i;
    if (!mf_partial_eval_program(p, env, known_in, force_unknown, parts->known_out, &r, &error)) {
        mf_partial_fail(c, error);
        return false;
    }
    parts->known = r.known;
    parts->unknown = r.unknown;
    parts->residual_count = r.residual_count;
    for (int o = 0; o < p->out_count; o++)
        parts->known_out_count += parts->known_out[o];
    parts->forward = mf_partial_alloc(c, r.residual_count, sizeof *parts->forward);
    if (parts->forward && forward_residuals(c, parts, position))
        return true;
    nested_parts_drop(parts);
    return false;
}

void nested_known_operands(mf_partial_context *c, const mf_eqn *e, const nested_parts *parts, mf_variable **in)
{
    for (int i = 0; i < parts->known_in_count; i++)
        in[i] = mf_partial_known(c, e->in[parts->known_from[i]]);
}

void nested_set_known(mf_partial_context *c, const mf_eqn *e, const nested_parts *parts, mf_variable *const *out)
{
    for (int o = 0, from = 0; o < e->out_count; o++)
        if (parts->known_out[o])
            mf_partial_set_known(c, e->out[o], out[from++]);
}

void nested_set_unknown(mf_partial_context *c, const mf_eqn *e, const nested_parts *parts, mf_variable *const *out)
{
    for (int o = 0, from = 0; o < e->out_count; o++)
        if (!parts->known_out[o])
            mf_partial_set_unknown(c, e->out[o], out[from++]);
}

/* ---- transposing */

void nested_transpose_call(mf_builder *b, const nested_call *like, const mf_eqn *e, const bool *linear, mf_variable *const *in,
                           mf_variable *const *ct, mf_variable **ct_in)
{
    nested_call call = *like;
    mf_error_object *error = NULL;
    bool *has = nested_alloc(b, e->out_count, sizeof *has), *gives = nested_alloc(b, e->in_count, sizeof *gives);
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
    mf_program *p = mf_transpose_program(like->jit.program, b->env, linear, has, gives, &error);
    if (!p) {
        nested_fail(b, error);
        return;
    }
    call.jit.program = p;
    mf_emit_into(b, call.op, &call.jit, operands.at, operands.count, results, p->out_count);
    for (int i = 0, from = 0; i < e->in_count; i++)
        ct_in[i] = gives[i] ? results[from++] : NULL;
    mf_drop(p);
}

/* ---- loops */

mf_program *nested_loop_jvp(mf_builder *b, const mf_program *body, int consts, int carries, bool *has, bool *gives)
{
    mf_error_object *error = NULL;
    for (;;) {
        bool grew = false;
        for (int o = 0; o < body->out_count; o++)
            gives[o] = o < carries && has[consts + o];
        mf_program *p = mf_jvp_program(body, b->env, has, gives, &error);
        if (!p)
            nested_fail(b, error);
        for (int o = 0; p && o < carries; o++) {
            grew = grew || (gives[o] && !has[consts + o]);
            has[consts + o] = gives[o];
        }
        if (!p || !grew)
            return p;
        mf_drop(p);
    }
}

mf_program *nested_loop_batch(mf_batch_context *c, const mf_program *body, int consts, int carries, int *axis, int *out_axis)
{
    mf_error_object *error = NULL;
    for (bool grew = true;;) {
        for (int o = 0; o < body->out_count; o++)
            out_axis[o] = grew || o >= carries ? MF_BATCH_ANYWHERE : axis[consts + o];
        mf_program *p = mf_batch_program(body, c->b->env, c->axis_name, c->size, axis, out_axis, &error);
        if (!p)
            nested_fail(c->b, error);
        if (!p || !grew)
            return p;
        mf_drop(p);
        grew = false;
        for (int o = 0; o < carries; o++)
            if (out_axis[o] >= 0 && axis[consts + o] < 0) {
                axis[consts + o] = 0;
                grew = true;
            }
    }
}

/* ---- the rest */

void nested_forget(mf_error_object *e) { mf_error_ignore(e); }

mf_program *nested_prune(const mf_program *p, const bool *used_out, bool *used_in, mf_error_object **error)
{
    int *in = mf_alloc(((size_t)p->in_count + (size_t)p->out_count + 1) * sizeof *in), ins = 0, outs = 0;
    mf_program *result = NULL;
    if (!in || !mf_program_uses(p, used_out, used_in)) {
        mf_free(in);
        *error = mf_error_out_of_memory();
        return NULL;
    }
    int *out = in + p->in_count;
    for (int i = 0; i < p->in_count; i++)
        if (used_in[i])
            in[ins++] = i;
    for (int o = 0; o < p->out_count; o++)
        if (used_out[o])
            out[outs++] = o;
    result = mf_program_select(p, in, ins, out, outs, error);
    mf_free(in);
    return result;
}

void nested_variance(const mf_program *p, const mf_axis_env *env, const uint64_t *in, uint64_t *out)
{
    uint64_t *masks = mf_variance_of(p, env, in);
    for (int o = 0; o < p->out_count; o++)
        out[o] = masks ? masks[p->out[o]->id] : ~(uint64_t)0; /* out of memory: the result may vary over everything */
    mf_free(masks);
}

mf_cost nested_cost(const mf_program *p)
{
    mf_cost sum = { 0, 0 };
    for (int i = 0; i < p->eqn_count; i++) {
        mf_cost one = p->eqns[i]->op->cost(p->eqns[i]);
        sum.flops += one.flops;
        sum.bytes += one.bytes;
    }
    return sum;
}
