/* Partial evaluation: splits a program into the part that the known inputs determine and the rest. Invariant: an equation is on the known
 * side exactly when all its operands are known. A value that the unknown side needs from the known side crosses as a residual, once, and
 * neither side has an unused equation or residual. Constants, and equations that only rearrange constants (a broadcast zero, an iota), are
 * repeated on the unknown side: a residual would cost more. */
#include "transform/rules/partial.h"

#include "transform/rules/sweep.h"
#include "transform/rules/tangent.h"

/* ---- failing */

bool mf_partial_failed(const mf_partial_context *c) { return c->known_builder.error || c->unknown_builder.error; }

void mf_partial_fail(mf_partial_context *c, mf_error_object *e) { mf_builder_fail(&c->unknown_builder, e); }

void *mf_partial_alloc(mf_partial_context *c, int count, size_t size)
{
    void *at = mf_arena_alloc(&c->arena, ((size_t)count + 1) * size);
    if (!at)
        mf_partial_fail(c, mf_error_out_of_memory());
    return at;
}

/* ---- variables on either side */

bool mf_partial_is_known(const mf_partial_context *c, const mf_variable *v) { return v->constant || c->known[v->id]; }

mf_variable *mf_partial_known(mf_partial_context *c, const mf_variable *v)
{
    if (!c->known[v->id] && v->constant)
        c->known[v->id] = mf_builder_constant(&c->known_builder, v->constant);
    return c->known[v->id] ? c->known[v->id] : mf_poison(&c->known_builder);
}

mf_variable *mf_partial_residual(mf_partial_context *c, mf_variable *known)
{
    for (int i = 0; i < c->residual_count; i++)
        if (c->residuals[i] == known)
            return c->residual_inputs[i];
    if (known->constant)
        return mf_builder_constant(&c->unknown_builder, known->constant);
    int capacity = c->residual_capacity, also = c->residual_capacity;
    if (!mf_grow(&c->residuals, &capacity, c->residual_count + 1, sizeof *c->residuals) ||
        !mf_grow(&c->residual_inputs, &also, c->residual_count + 1, sizeof *c->residual_inputs)) {
        mf_builder_fail_memory(&c->unknown_builder);
        return mf_poison(&c->unknown_builder);
    }
    c->residual_capacity = capacity < also ? capacity : also;
    mf_variable *input = mf_builder_input(&c->unknown_builder, known->type);
    c->residuals[c->residual_count] = known;
    c->residual_inputs[c->residual_count++] = input;
    return input;
}

/* Constants and equations that only rearrange them. */
static bool is_cheap(const mf_variable *v)
{
    const mf_eqn *e = v->producer;
    if (v->constant)
        return true;
    if (!e || e->out_count != 1 || (e->op->flags & (MF_OP_COLLECTIVE | MF_OP_CONTROL | MF_OP_EFFECT | MF_OP_HOST)) ||
        e->op->cost(e).flops > 0)
        return false;
    for (int i = 0; i < e->in_count; i++)
        if (!is_cheap(e->in[i]))
            return false;
    return true;
}

static mf_variable *make_again(mf_partial_context *c, const mf_eqn *e)
{
    mf_variable **in = mf_partial_alloc(c, e->in_count, sizeof *in), *out = NULL;
    if (!in)
        return mf_poison(&c->unknown_builder);
    for (int i = 0; i < e->in_count; i++)
        in[i] = mf_partial_unknown(c, e->in[i]);
    mf_copy_eqn(&c->unknown_builder, e, in, &out);
    return out ? out : mf_poison(&c->unknown_builder);
}

mf_variable *mf_partial_unknown(mf_partial_context *c, const mf_variable *v)
{
    mf_variable **slot = &c->unknown[v->id];
    if (*slot)
        return *slot;
    if (v->constant)
        *slot = mf_builder_constant(&c->unknown_builder, v->constant);
    else if (!c->known[v->id])
        *slot = mf_poison(&c->unknown_builder);
    else if (is_cheap(v))
        *slot = make_again(c, v->producer);
    else
        *slot = mf_partial_residual(c, c->known[v->id]);
    return *slot;
}

void mf_partial_set_known(mf_partial_context *c, const mf_variable *v, mf_variable *known) { c->known[v->id] = known; }

void mf_partial_set_unknown(mf_partial_context *c, const mf_variable *v, mf_variable *unknown) { c->unknown[v->id] = unknown; }

/* ---- whole equations */

static void copy_whole(mf_partial_context *c, const mf_eqn *e, bool to_known)
{
    mf_builder *b = to_known ? &c->known_builder : &c->unknown_builder;
    mf_variable **in = mf_partial_alloc(c, e->in_count, sizeof *in), **out = mf_partial_alloc(c, e->out_count, sizeof *out);
    if (!in || !out)
        return;
    for (int i = 0; i < e->in_count; i++)
        in[i] = to_known ? mf_partial_known(c, e->in[i]) : mf_partial_unknown(c, e->in[i]);
    if (!b->error)
        mf_copy_eqn(b, e, in, out);
    for (int o = 0; o < e->out_count; o++)
        (to_known ? c->known : c->unknown)[e->out[o]->id] = b->error ? mf_poison(b) : out[o];
}

void mf_partial_all_known(mf_partial_context *c, const mf_eqn *e) { copy_whole(c, e, true); }

void mf_partial_all_unknown(mf_partial_context *c, const mf_eqn *e) { copy_whole(c, e, false); }

void mf_partial_eval_all_or_nothing(mf_partial_context *c, const mf_eqn *e)
{
    bool known = true;
    for (int i = 0; i < e->in_count; i++)
        known = known && mf_partial_is_known(c, e->in[i]);
    copy_whole(c, e, known);
}

static void split(mf_partial_context *c, const mf_eqn *e)
{
    bool known = true;
    for (int i = 0; i < e->in_count; i++)
        known = known && mf_partial_is_known(c, e->in[i]);
    c->known_builder.address = c->unknown_builder.address = e->address;
    if (known)
        mf_partial_all_known(c, e);
    else
        e->op->partial_eval(c, e);
}

/* ---- both programs */

static bool begin(mf_partial_context *c, const mf_program *p, const mf_axis_env *env, const bool *known_in)
{
    *c = (mf_partial_context){ .env = env };
    mf_builder_init(&c->known_builder, env);
    mf_builder_init(&c->unknown_builder, env);
    c->known = mf_partial_alloc(c, p->var_count, sizeof *c->known);
    c->unknown = mf_partial_alloc(c, p->var_count, sizeof *c->unknown);
    for (int i = 0; c->known && c->unknown && i < p->in_count; i++) {
        const mf_variable *v = p->in[i];
        if (known_in[i])
            c->known[v->id] = mf_builder_input(&c->known_builder, v->type);
        else
            c->unknown[v->id] = mf_builder_input(&c->unknown_builder, v->type);
    }
    return c->known && c->unknown;
}

/* The unknown program, with inputs still in order of creation: the unknown inputs, then the residuals. */
static mf_program *finish_unknown(mf_partial_context *c, const mf_program *p, const bool *force, bool *known_out, mf_error_object **error)
{
    mf_variable **out = mf_partial_alloc(c, p->out_count, sizeof *out);
    int count = 0;
    for (int o = 0; out && !mf_partial_failed(c) && o < p->out_count; o++) {
        known_out[o] = mf_partial_is_known(c, p->out[o]) && !(force && force[o]);
        if (!known_out[o])
            out[count++] = mf_partial_unknown(c, p->out[o]);
    }
    return mf_builder_finish(&c->unknown_builder, out, count, error);
}

static mf_program *finish_known(mf_partial_context *c, const mf_program *p, const bool *known_out, const bool *used,
                                mf_error_object **error)
{
    mf_variable **out = mf_partial_alloc(c, p->out_count + c->residual_count, sizeof *out);
    int count = 0;
    bool good = out && !mf_partial_failed(c);
    if (!good)
        mf_builder_fail_memory(&c->known_builder); /* the unknown program is finished, so the failure is reported by this one */
    for (int o = 0; good && o < p->out_count; o++)
        if (known_out[o])
            out[count++] = mf_partial_known(c, p->out[o]);
    for (int r = 0; good && r < c->residual_count; r++)
        if (used[r])
            out[count++] = c->residuals[r];
    return mf_builder_finish(&c->known_builder, out, count, error);
}

static mf_program *swept(mf_partial_context *c, mf_program *p, const int *in, int in_count, mf_error_object **error)
{
    int *out = p ? mf_partial_alloc(c, p->out_count, sizeof *out) : NULL;
    mf_program *result = NULL;
    for (int o = 0; out && o < p->out_count; o++)
        out[o] = o;
    if (out)
        result = mf_program_select(p, in, in_count, out, p->out_count, error);
    else if (p)
        *error = mf_error_out_of_memory();
    mf_drop(p);
    return result;
}

/* Finds which residuals the unknown program needs, and the order of its inputs: those residuals, then the unknown inputs. */
static bool order_inputs(mf_partial_context *c, const mf_program *unknown, bool *used, int *order, int *count)
{
    int own = unknown->in_count - c->residual_count;
    bool *all = mf_partial_alloc(c, unknown->out_count, sizeof *all), *needs = mf_partial_alloc(c, unknown->in_count, sizeof *needs);
    *count = 0;
    for (int o = 0; all && o < unknown->out_count; o++)
        all[o] = true;
    if (!all || !needs || !mf_program_uses(unknown, all, needs))
        return false;
    for (int r = 0; r < c->residual_count; r++) {
        used[r] = needs[own + r];
        if (used[r])
            order[(*count)++] = own + r;
    }
    for (int i = 0; i < own; i++)
        order[(*count)++] = i;
    return true;
}

static bool finish(mf_partial_context *c, const mf_program *p, const bool *force, bool *known_out, mf_partial_result *result,
                   mf_error_object **error)
{
    int count = 0;
    mf_program *unknown = finish_unknown(c, p, force, known_out, error);
    if (!unknown) {
        mf_builder_abandon(&c->known_builder);
        return false;
    }
    int *order = mf_partial_alloc(c, unknown->in_count, sizeof *order);
    bool *used = mf_partial_alloc(c, c->residual_count, sizeof *used);
    if (!order || !used || !order_inputs(c, unknown, used, order, &count)) {
        *error = mf_error_out_of_memory();
        mf_drop(unknown);
        mf_builder_abandon(&c->known_builder);
        return false;
    }
    int own = unknown->in_count - c->residual_count;
    result->residual_count = count - own;
    mf_program *known = finish_known(c, p, known_out, used, error);
    result->unknown = known ? swept(c, unknown, order, count, error) : (mf_drop(unknown), NULL);
    int known_inputs = known ? known->in_count : 0;
    result->known = result->unknown ? swept(c, known, NULL, known_inputs, error) : (mf_drop(known), NULL);
    if (!result->known)
        mf_drop(result->unknown);
    return result->known;
}

bool mf_partial_eval_program(const mf_program *p, const mf_axis_env *env, const bool *known_in, const bool *force_unknown, bool *known_out,
                             mf_partial_result *result, mf_error_object **error)
{
    mf_partial_context c;
    bool good = begin(&c, p, env, known_in);
    *result = (mf_partial_result){ 0 };
    for (int i = 0; good && i < p->eqn_count && !mf_partial_failed(&c); i++)
        split(&c, p->eqns[i]);
    good = finish(&c, p, force_unknown, known_out, result, error);
    if (!good)
        *result = (mf_partial_result){ 0 };
    mf_free(c.residuals);
    mf_free(c.residual_inputs);
    mf_arena_free(&c.arena);
    return good;
}
