/* The values of constant expressions; see known.h. */
#include "trace/inspect/known.h"

#include "trace/dispatch.h"

#define DEEPEST 1000 /* the longest chain of equations that is followed */

void mf_known_free(mf_known *k)
{
    for (int i = 0; i < k->capacity; i++)
        mf_drop(k->values[i]);
    mf_free(k->values);
}

bool mf_eqn_is_plain(const mf_eqn *e)
{
    return e->out_count > 0 && !(e->op->flags & (MF_OP_COLLECTIVE | MF_OP_CONTROL | MF_OP_EFFECT | MF_OP_HOST)) &&
           e->op->evaluate != mf_evaluate_by_runtime && mf_params_program_count(e->op, e->params) == 0;
}

static bool fits(const mf_eqn *e)
{
    for (int i = 0; i < e->out_count; i++)
        if (e->out[i]->type->size > MF_KNOWN_MAX)
            return false;
    return true;
}

static mf_literal *known_below(mf_known *k, const mf_variable *v, int depth, mf_error_object **error);

static bool grow(mf_known *k, const mf_eqn *e)
{
    int before = k->capacity, most = 0;
    for (int i = 0; i < e->out_count; i++)
        most = e->out[i]->id >= most ? e->out[i]->id + 1 : most;
    if (!mf_grow(&k->values, &k->capacity, most, sizeof *k->values))
        return false;
    for (int i = before; i < k->capacity; i++)
        k->values[i] = NULL;
    return true;
}

mf_error_object *mf_eqn_evaluate_alone(const mf_eqn *e, mf_literal *const *in, mf_literal **out)
{
    mf_array **from = mf_calloc((size_t)e->in_count + 1, sizeof *from);
    mf_object **made = mf_calloc((size_t)e->out_count + 1, sizeof *made);
    mf_error_object *error = from && made ? NULL : mf_error_out_of_memory();
    for (int i = 0; i < e->in_count && !error; i++)
        if (!(from[i] = mf_literal_array(in[i])))
            error = mf_error_out_of_memory();
    if (!error)
        error = mf_dispatch_op(&mf_client_cpu, e->op, e->params, from, e->in_count, made, e->out_count);
    for (int i = 0; i < e->out_count && !error; i++)
        out[i] = mf_literal_of((mf_array *)made[i], &error);
    for (int i = 0; from && i < e->in_count; i++)
        mf_drop(from[i]);
    for (int i = 0; made && i < e->out_count; i++) {
        mf_drop(made[i]);
        if (error) {
            mf_drop(out[i]);
            out[i] = NULL;
        }
    }
    mf_free(from);
    mf_free(made);
    return error;
}

/* Evaluates e if its operands are known. */
static mf_error_object *run(mf_known *k, const mf_eqn *e, int depth, bool *known)
{
    mf_error_object *error = NULL;
    mf_literal **in = mf_alloc(((size_t)e->in_count + 1) * sizeof *in), **out = mf_calloc((size_t)e->out_count + 1, sizeof *out);
    *known = in && out && grow(k, e);
    if (!*known)
        error = mf_error_out_of_memory();
    for (int i = 0; *known && i < e->in_count; i++)
        *known = (in[i] = known_below(k, e->in[i], depth, &error)) != NULL;
    if (*known) {
        error = mf_eqn_evaluate_alone(e, in, out);
        *known = !error;
    }
    for (int i = 0; *known && i < e->out_count; i++)
        k->values[e->out[i]->id] = out[i];
    mf_free(in);
    mf_free(out);
    return error;
}

static mf_literal *known_below(mf_known *k, const mf_variable *v, int depth, mf_error_object **error)
{
    if (v->constant)
        return v->constant;
    if (v->id < k->capacity && k->values[v->id])
        return k->values[v->id];
    if (!v->producer && k->input)
        return k->input(k->context, v, error);
    bool known = false;
    if (v->producer && depth < DEEPEST && mf_eqn_is_plain(v->producer) && fits(v->producer))
        *error = run(k, v->producer, depth + 1, &known);
    return known ? k->values[v->id] : NULL;
}

mf_literal *mf_known_value(mf_known *k, const mf_variable *v, mf_error_object **error)
{
    *error = NULL;
    return known_below(k, v, 0, error);
}
