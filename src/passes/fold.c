/* Constant folding by the rows' evaluate.
 * Invariant: a folded program gives the same bits as the unfolded one on every backend. So floats are folded only through ops that are
 * exact or correctly rounded everywhere (the list below); exp and its kin are left to the engine's own polynomials. Only literals are
 * folded, results stay small, and a value that is one number everywhere stays a broadcast scalar. */
#include "ops/emit.h"
#include "passes/rewrite.h"
#include "passes/splat.h"

#define FOLD_MAX 4096 /* elements of a result */

static const mf_op *const exact[] = {
    &mf_op_add,
    &mf_op_sub,
    &mf_op_mul,
    &mf_op_div,
    &mf_op_neg,
    &mf_op_abs,
    &mf_op_sign,
    &mf_op_floor,
    &mf_op_ceil,
    &mf_op_round,
    &mf_op_max,
    &mf_op_min,
    &mf_op_sqrt,
    &mf_op_square,
    &mf_op_select_n,
    &mf_op_clamp,
    &mf_op_convert_element_type,
    &mf_op_bitcast_convert_type,
    &mf_op_stop_gradient,
    &mf_op_copy,
    &mf_op_broadcast_in_dim,
    &mf_op_reshape,
    &mf_op_transpose,
    &mf_op_rev,
    &mf_op_slice,
    &mf_op_pad,
    &mf_op_concatenate,
    &mf_op_squeeze,
    &mf_op_expand_dims,
    &mf_op_dynamic_slice,
    &mf_op_dynamic_update_slice,
};

static bool is_exact(const mf_eqn *e)
{
    for (int i = 0; i < (int)(sizeof exact / sizeof exact[0]); i++)
        if (e->op == exact[i])
            return true;
    for (int i = 0; i < e->out_count; i++)
        if (mf_dtype_is_inexact(e->out[i]->type->dtype))
            return false;
    return true;
}

static bool may_evaluate(const mf_eqn *e)
{
    return e->in_count > 0 && e->out_count > 0 && !(e->op->flags & (MF_OP_COLLECTIVE | MF_OP_CONTROL | MF_OP_EFFECT)) &&
           e->op->evaluate != mf_evaluate_by_runtime && mf_params_program_count(e->op, e->params) == 0 && is_exact(e);
}

/* ---- all operands literal */
static bool worth_folding(const mf_eqn *e, mf_variable *const *in)
{
    int64_t taken = 1, given = 0;
    for (int i = 0; i < e->in_count; i++) {
        if (!mf_is_literal(in[i]->constant))
            return false;
        taken += in[i]->type->size;
    }
    for (int i = 0; i < e->out_count; i++)
        given += e->out[i]->type->size;
    return given <= FOLD_MAX && given <= taken; /* growing is broadcasting: free where it is used, costly as a constant */
}

/* Fills results; false leaves the equation as it is (no memory, or evaluate objects). */
static bool evaluate(mf_rewrite *r, const mf_eqn *e, mf_variable *const *in, mf_array **results)
{
    const void **from = mf_rewrite_room(r, e->in_count, sizeof *from);
    void **to = mf_rewrite_room(r, e->out_count, sizeof *to);
    if (!from || !to)
        return false;
    for (int i = 0; i < e->in_count; i++)
        from[i] = mf_array_data(in[i]->constant);
    for (int i = 0; i < e->out_count; i++) {
        if (!(results[i] = mf_array_new(e->out[i]->type)))
            return false;
        to[i] = mf_array_data(results[i]);
    }
    mf_error_object *error = e->op->evaluate(e, from, to);
    if (error)
        atomic_store(&error->observed, true); /* it will come up again when the program runs */
    mf_drop(error);
    return !error;
}

static bool fold(mf_rewrite *r, const mf_eqn *e, mf_variable *const *in, mf_variable **out)
{
    mf_array **results = mf_rewrite_room(r, e->out_count, sizeof *results);
    bool good = results && evaluate(r, e, in, results);
    for (int i = 0; results && i < e->out_count; i++) {
        if (good)
            out[i] = mf_builder_constant(r->b, results[i]);
        mf_drop(results[i]);
    }
    return good;
}

/* ---- elementwise over broadcast scalars: the op over the scalars, broadcast */
static mf_variable *fold_splats(mf_rewrite *r, const mf_eqn *e, mf_variable *const *in)
{
    if (!(e->op->flags & MF_OP_ELEMENTWISE) || e->out_count != 1 || e->out[0]->type->rank == 0)
        return NULL;
    mf_variable **scalars = mf_rewrite_room(r, e->in_count, sizeof *scalars), *result = NULL;
    for (int i = 0; scalars && i < e->in_count; i++)
        if (!(scalars[i] = mf_splat_of(in[i])))
            return NULL;
    mf_eqn *small = scalars ? mf_emit_eqn(r->b, e->op, e->params, scalars, e->in_count) : NULL; /* dead once it is evaluated */
    if (!small || r->b->error || small->out[0]->type->rank != 0 || !fold(r, small, scalars, &result))
        return NULL;
    const mf_type *type = e->out[0]->type;
    return e_broadcast(r->b, result, type->rank, type->dims, mf_ints_intern(NULL, 0));
}

static void fold_equation(mf_rewrite *r, const mf_eqn *e, mf_variable **in)
{
    mf_variable **out = mf_rewrite_room(r, e->out_count, sizeof *out), *splat;
    if (!out)
        return;
    if (!may_evaluate(e))
        mf_rewrite_copy(r, e, in);
    else if (worth_folding(e, in) && fold(r, e, in, out))
        for (int i = 0; i < e->out_count; i++)
            r->map[e->out[i]->id] = out[i];
    else if ((splat = fold_splats(r, e, in)) && splat->type == e->out[0]->type)
        mf_rewrite_bind(r, e, splat);
    else
        mf_rewrite_copy(r, e, in);
}

mf_program *mf_pass_fold(const mf_program *p, const mf_axis_env *env, mf_error_object **error)
{
    return mf_rewrite_program(p, env, fold_equation, mf_pass_fold, NULL, error);
}
