/* Named default rules: the usual case of each rule of an op, and the values that say why a rule does not exist. Invariant: none of them
 * depends on the op that it is used for; ops that they emit are found by name in the table. */
#include "ir/kernel.h"
#include "ir/op.h"
#include <stdarg.h>
#include <stdio.h>

/* ---- types */
#define SPARE_OUTPUTS 8

const mf_type **mf_type_outputs(mf_type_context *c, int count)
{
    static _Thread_local const mf_type *spare[SPARE_OUTPUTS]; /* lets rules write without a check; out_count -1 tells the builder */
    const mf_type **out = mf_arena_alloc(c->arena, (size_t)count * sizeof *out + 1);
    c->out_count = out ? count : -1;
    c->out = out ? out : spare;
    return out || count <= SPARE_OUTPUTS ? c->out : NULL;
}

mf_error_object *mf_type_error(const mf_type_context *c, mf_status status, const char *format, ...)
{
    char sentence[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    mf_text types = { 0 };
    for (int i = 0; i < c->in_count; i++)
        mf_text_add(&types, "%s%s", i ? ", " : " (operands: ", mf_type_name(c->in[i]));
    if (c->in_count > 0)
        mf_text_put(&types, ")");
    mf_error_object *e = mf_error_new(status, "%s: %s%s", c->op->name, sentence, types.at && !types.failed ? types.at : "");
    mf_text_free(&types);
    return e;
}

mf_error_object *mf_type_like_first(mf_type_context *c)
{
    if (c->in_count < 1)
        return mf_type_error(c, MF_ERROR_ARGUMENT, "at least one operand is needed");
    bool weak = true;
    for (int i = 0; i < c->in_count; i++) {
        if (c->in[i]->dtype != c->in[0]->dtype)
            return mf_type_error(c, MF_ERROR_DTYPE, "the operands' dtypes must be equal");
        if (!mf_type_same_shape(c->in[i], c->in[0]))
            return mf_type_error(c, MF_ERROR_SHAPE, "the operands' shapes must be equal");
        weak = weak && c->in[i]->weak;
    }
    c->out[0] = weak ? c->in[0] : mf_type_strong(c->in[0]);
    return NULL;
}

/* ---- derivatives */
void mf_jvp_zero(mf_builder *b, const mf_eqn *e, mf_variable *const *in, mf_variable *const *tin, mf_variable **out, mf_variable **tout)
{
    (void)tin;
    mf_copy_eqn(b, e, in, out);
    for (int i = 0; i < e->out_count; i++)
        tout[i] = NULL;
}

/* Zeros of a type: a broadcast scalar. */
static mf_variable *zeros(mf_builder *b, const mf_type *type)
{
    mf_variable *scalar = mf_builder_number(b, type->dtype, type->weak, 0.0);
    const mf_op *op = mf_op_find("broadcast_in_dim", 16);
    if (type->rank == 0 || b->error || !op)
        return scalar;
    struct {
        const mf_intlist *shape, *dimensions;
    } params = { mf_ints_intern(type->dims, type->rank), mf_ints_intern(NULL, 0) };
    return mf_emit(b, op, &params, 1, scalar);
}

void mf_jvp_linear(mf_builder *b, const mf_eqn *e, mf_variable *const *in, mf_variable *const *tin, mf_variable **out, mf_variable **tout)
{
    mf_copy_eqn(b, e, in, out);
    mf_variable **t = b->error ? NULL : mf_calloc((size_t)e->in_count + 1, sizeof *t);
    if (!t && !b->error)
        mf_builder_fail(b, mf_error_out_of_memory());
    for (int i = 0; t && i < e->in_count; i++)
        t[i] = tin[i] ? tin[i] : zeros(b, in[i]->type);
    if (t)
        mf_copy_eqn(b, e, t, tout);
    for (int i = 0; i < e->out_count; i++)
        if (!t || !mf_dtype_is_inexact(e->out[i]->type->dtype))
            tout[i] = NULL;
    mf_free(t);
}

void mf_transpose_none(mf_builder *b, const mf_eqn *e, const bool *linear, mf_variable *const *in, mf_variable *const *ct,
                       mf_variable **ct_in)
{
    (void)linear, (void)in, (void)ct;
    for (int i = 0; i < e->in_count; i++)
        ct_in[i] = NULL;
    mf_builder_fail(b, mf_error_new_at(e->address, MF_ERROR_ARGUMENT, "%s is not linear, so it has no transpose", e->op->name));
}

/* ---- the rest */
bool mf_dce_whole(const mf_eqn *e, const bool *used_out, bool *used_in, const void **params)
{
    (void)e, (void)used_out, (void)used_in, (void)params;
    return false;
}

void mf_variance_join(const mf_eqn *e, const mf_axis_env *env, const uint64_t *in, uint64_t *out)
{
    (void)env;
    uint64_t all = 0;
    for (int i = 0; i < e->in_count; i++)
        all |= in[i];
    for (int i = 0; i < e->out_count; i++)
        out[i] = all;
}

mf_cost mf_cost_bytes(const mf_eqn *e)
{
    mf_cost cost = { 0, 0 };
    for (int i = 0; i < e->in_count; i++)
        cost.bytes += (double)e->in[i]->type->bytes;
    for (int i = 0; i < e->out_count; i++)
        cost.bytes += (double)e->out[i]->type->bytes;
    return cost;
}

mf_cost mf_cost_elementwise(const mf_eqn *e)
{
    mf_cost cost = mf_cost_bytes(e);
    for (int i = 0; i < e->out_count; i++)
        cost.flops += (double)e->out[i]->type->size;
    return cost;
}

mf_kernel_value mf_lower_none(mf_kernel_builder *k, const mf_eqn *e, const mf_kernel_value *in)
{
    (void)k, (void)e, (void)in;
    return 0;
}

mf_kernel_value mf_lower_by_name(mf_kernel_builder *k, const mf_eqn *e, const mf_kernel_value *in)
{
    return k->call(k, e->op->name, in, e->in_count);
}

mf_error_object *mf_evaluate_by_runtime(const mf_eqn *e, const void *const *in, void *const *out)
{
    (void)in, (void)out;
    return mf_error_new(MF_ERROR_ARGUMENT, "%s is stepped by the runtime and cannot be evaluated alone", e->op->name);
}
