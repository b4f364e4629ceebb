/* Ops that select and copy: select_n clamp stop_gradient copy. Invariant: select_n's predicate and clamp's bounds have the operand's shape
 * or are scalars (as in lax); a rule that needs equal shapes broadcasts them. select_n and copy work on every dtype, bytewise. */
#include "ir/kernel.h"
#include "ops/elementwise/loops.h"
#include <string.h>

/* x broadcast to the shape of `like`. */
static mf_variable *widen(mf_builder *b, mf_variable *x, const mf_type *like)
{
    return e_broadcast(b, x, like->rank, like->dims, mf_ints_of(0));
}
/* Moves the batch of operand x to the front, where operands may be scalars: unbatched scalars stay scalars. */
static mf_variable *batch_operand(mf_batch_context *c, mf_variable *x, int axis, const mf_type *unbatched, const mf_type *shape)
{
    if (unbatched->rank == shape->rank)
        return e_batched_at(c, x, axis, 0);
    if (axis < 0)
        return x;
    int64_t dims[MF_RANK + 1] = { c->size };
    memcpy(dims + 1, shape->dims, (size_t)shape->rank * sizeof *dims);
    return e_broadcast(c->b, x, shape->rank + 1, dims, mf_ints_of(1, 0));
}

/* Whether all operands are batched along one axis and none is a scalar among arrays; then nothing needs to move. */
static bool batched_alike(const mf_eqn *e, const int *in_axis)
{
    for (int i = 0; i < e->in_count; i++)
        if (in_axis[i] < 0 || in_axis[i] != in_axis[0] || e->in[i]->type->rank != e->out[0]->type->rank)
            return false;
    return true;
}

MF_BATCH_RULE(choose_batch)
{
    mf_variable *moved[3];
    bool alike = batched_alike(e, in_axis);
    for (int i = 0; i < 3; i++)
        moved[i] = alike ? in[i] : batch_operand(c, in[i], in_axis[i], e->in[i]->type, e->out[0]->type);
    mf_copy_eqn(c->b, e, moved, out);
    out_axis[0] = alike ? in_axis[0] : 0;
}

/* ---- select_n: predicate, value where false, value where true */
static mf_error_object *select_type(mf_type_context *c)
{
    mf_error_object *e = mf_check_operands(c, 3);
    if (e)
        return e;
    const mf_type *p = c->in[0], *no = c->in[1], *yes = c->in[2];
    if (p->dtype != MF_BOOL)
        return mf_type_error(c, MF_ERROR_DTYPE, "the predicate must be bool, not %s", mf_dtype_name(p->dtype));
    if (no->dtype != yes->dtype)
        return mf_type_error(c, MF_ERROR_DTYPE, "the two cases must have one dtype");
    if (!mf_type_same_shape(no, yes))
        return mf_type_error(c, MF_ERROR_SHAPE, "the two cases must have one shape");
    if (p->rank != 0 && !mf_type_same_shape(p, no))
        return mf_type_error(c, MF_ERROR_SHAPE, "the predicate must be a scalar or have the shape of the cases");
    c->out[0] = no->weak && yes->weak ? no : mf_type_strong(no);
    return NULL;
}

MF_JVP_RULE(select_jvp)
{
    mf_copy_eqn(b, e, in, out);
    const mf_type *t = (tin[1] ? tin[1] : tin[2])->type;
    mf_variable *no = tin[1] ? tin[1] : e_full(b, t, 0), *yes = tin[2] ? tin[2] : e_full(b, t, 0);
    tout[0] = e_select(b, in[0], yes, no);
}

MF_TRANSPOSE_RULE(select_transpose)
{
    (void)e;
    mf_variable *zero = e_zeros_like(b, ct[0]);
    ct_in[0] = NULL;
    ct_in[1] = linear[1] ? e_select(b, in[0], zero, ct[0]) : NULL;
    ct_in[2] = linear[2] ? e_select(b, in[0], ct[0], zero) : NULL;
}

MF_EVALUATE_RULE(select_evaluate)
{
    const mf_type *t = e->out[0]->type;
    const uint8_t *p = in[0];
    size_t size = (size_t)mf_dtype_size(t->dtype), step = e->in[0]->type->rank || t->rank == 0;
    for (size_t i = 0; i < (size_t)t->size; i++)
        memmove((char *)out[0] + i * size, (const char *)(p[i * step] ? in[2] : in[1]) + i * size, size);
    return NULL;
}

MF_LOWER_RULE(select_lower)
{
    (void)e;
    return k->select(k, in[0], in[2], in[1]);
}

static const char *const select_samples[] = {
    "bool[2,3]{0:1} f32[2,3]{-2:2} f32[2,3]{-2:2}",
    "bool[]{=1} f32[3]{=1,2,3} f32[3]{=4,5,6} -> f32[3]{=4,5,6}",
    "bool[3]{=1,0,1} i32[3]{=1,2,3} i32[3]{=4,5,6} -> i32[3]{=4,2,6}",
    "bool[3]{0:1} f64[3]{-2:2} f64[3]{-2:2}",
    "bool[2]{=0,1} bool[2]{=0,0} bool[2]{=1,1} -> bool[2]{=0,1}",
    "bool[3]{0:1} bf16[3]{-2:2} bf16[3]{-2:2}",
    NULL,
};
MF_HLO_RULE(select_hlo)
{
    (void)e;
    out[0] = h_select(h, in[0], in[2], in[1]);
}

const mf_op mf_op_select_n = {
    .name = "select_n",
    .flags = MF_OP_ELEMENTWISE,
    .type_rule = select_type,
    .jvp = select_jvp,
    .transpose = select_transpose,
    .partial_eval = mf_partial_eval_all_or_nothing,
    .dce = mf_dce_whole,
    .batch = choose_batch,
    .variance = mf_variance_join,
    .cost = mf_cost_elementwise,
    .lower = select_lower,
    .evaluate = select_evaluate,
    MF_HLO_BY(select_hlo),
    .samples = select_samples,
};

/* ---- clamp: low, x, high; min(high, max(low, x)) */
static mf_error_object *clamp_type(mf_type_context *c)
{
    mf_error_object *e = mf_check_operands(c, 3);
    if (e)
        return e;
    const mf_type *x = c->in[1];
    for (int i = 0; i < 3; i += 2) {
        if (c->in[i]->dtype != x->dtype)
            return mf_type_error(c, MF_ERROR_DTYPE, "the operands' dtypes must be equal");
        if (c->in[i]->rank != 0 && !mf_type_same_shape(c->in[i], x))
            return mf_type_error(c, MF_ERROR_SHAPE, "a bound must be a scalar or have the shape of the operand");
    }
    if (!mf_dtype_is_float(x->dtype) && !mf_dtype_is_int(x->dtype))
        return mf_type_error(c, MF_ERROR_DTYPE, "is defined for floats and integers, not for %s", mf_dtype_name(x->dtype));
    c->out[0] = x->weak && c->in[0]->weak && c->in[2]->weak ? x : mf_type_strong(x);
    return NULL;
}

/* Each operand's tangent is used where that operand is the result; at a bound all are zero (as in lax). */
MF_JVP_RULE(clamp_jvp)
{
    const mf_type *t = in[1]->type;
    mf_copy_eqn(b, e, in, out);
    mf_variable *low = widen(b, in[0], t), *x = in[1], *high = widen(b, in[2], t), *sum = NULL;
    for (int i = 0; i < 3; i++) {
        if (!tin[i])
            continue;
        mf_variable *above = e_compare(b, &mf_op_gt, i == 0 ? low : x, i == 0 ? x : low);
        mf_variable *counts = i == 2 ? e_compare(b, &mf_op_lt, high, x)
                                     : e_binary(b, &mf_op_and, above, e_compare(b, &mf_op_lt, i == 0 ? low : x, high));
        mf_variable *tangent = widen(b, tin[i], t), *part = e_select(b, counts, tangent, e_zeros_like(b, tangent));
        sum = sum ? e_add(b, sum, part) : part;
    }
    tout[0] = sum;
}

static double clamp_real(double low, double x, double high) { return mf_lesser_real(high, mf_greater_real(low, x)); }

MF_EVALUATE_RULE(clamp_evaluate)
{
    const mf_type *t = e->out[0]->type;
    int64_t size = mf_dtype_size(t->dtype), low = e->in[0]->type->rank ? size : 0, high = e->in[2]->type->rank ? size : 0;
    bool is_float = mf_dtype_is_float(t->dtype), is_signed = mf_dtype_is_signed(t->dtype);
    for (int64_t i = 0; i < t->size; i++) {
        const char *p = (const char *)in[0] + i * low, *q = (const char *)in[1] + i * size, *r = (const char *)in[2] + i * high;
        char *o = (char *)out[0] + i * size;
        if (is_float) {
            mf_store_f64(t->dtype, o, clamp_real(mf_load_f64(t->dtype, p), mf_load_f64(t->dtype, q), mf_load_f64(t->dtype, r)));
            continue;
        }
        int64_t a = mf_load_i64(t->dtype, p), x = mf_load_i64(t->dtype, q), z = mf_load_i64(t->dtype, r);
        x = (is_signed ? x < a : (uint64_t)x < (uint64_t)a) ? a : x;
        mf_store_i64(t->dtype, o, (is_signed ? x > z : (uint64_t)x > (uint64_t)z) ? z : x);
    }
    return NULL;
}

MF_LOWER_RULE(clamp_lower)
{
    (void)e;
    mf_kernel_value pair[2] = { in[0], in[1] };
    pair[1] = k->call(k, "max", pair, 2);
    pair[0] = in[2];
    return k->call(k, "min", pair, 2);
}

static const char *const clamp_samples[] = {
    "f32[]{=-1} f32[5]{=-2,-1,0.5,3,nan} f32[]{=1} -> f32[5]{=-1,-1,0.5,1,nan}",
    "f32[2]{=1,-1} f32[2]{=0,0} f32[2]{=-1,1} -> f32[2]{=-1,0}",
    "f64[2,3]{-3:-2} f64[2,3]{-1:1} f64[2,3]{2:3}",
    "f32[]{=-1.5} f32[2,3]{-1:1} f32[2,3]{2:3}",
    "i32[]{=0} i32[3]{=-5,3,12} i32[]{=10} -> i32[3]{=0,3,10}",
    "u8[]{=3} u8[3]{=1,100,255} u8[]{=200} -> u8[3]{=3,100,200}",
    "bf16[3]{-3:-2} bf16[3]{-1:1} bf16[3]{2:3}",
    NULL,
};
const mf_op mf_op_clamp = {
    .name = "clamp",
    .flags = MF_OP_ELEMENTWISE,
    .type_rule = clamp_type,
    .jvp = clamp_jvp,
    .transpose = mf_transpose_none,
    .partial_eval = mf_partial_eval_all_or_nothing,
    .dce = mf_dce_whole,
    .batch = choose_batch,
    .variance = mf_variance_join,
    .cost = mf_cost_elementwise,
    .lower = clamp_lower,
    .evaluate = clamp_evaluate,
    MF_HLO("clamp"),
    .samples = clamp_samples,
};

/* ---- stop_gradient and copy: the operand itself */
static mf_error_object *same_type(mf_type_context *c)
{
    mf_error_object *e = mf_check_operands(c, 1);
    if (!e)
        c->out[0] = c->in[0];
    return e;
}

MF_EVALUATE_RULE(same_evaluate)
{
    memmove(out[0], in[0], (size_t)e->out[0]->type->bytes);
    return NULL;
}

MF_LOWER_RULE(same_lower)
{
    (void)k, (void)e;
    return in[0];
}

static const char *const stop_samples[] = { "f32[2]{=1,-2} -> f32[2]{=1,-2}", "f64[3]{-2:2}", "i8[2]{=1,2} -> i8[2]{=1,2}", NULL };
const mf_op mf_op_stop_gradient = {
    .name = "stop_gradient",
    .view = MF_VIEW_RESHAPE,
    MF_ELEMENTWISE_ROW,
    .type_rule = same_type,
    .jvp = mf_jvp_zero,
    .transpose = mf_transpose_none,
    .cost = mf_cost_bytes,
    .lower = same_lower,
    .evaluate = same_evaluate,
    MF_HLO_BY(mf_hlo_same),
    .samples = stop_samples,
};

MF_TRANSPOSE_RULE(copy_transpose)
{
    (void)b, (void)e, (void)linear, (void)in;
    ct_in[0] = ct[0];
}

static const char *const copy_samples[] = {
    "f32[2,3]{-2:2}", "f64[]{-2:2}", "bool[2]{=1,0} -> bool[2]{=1,0}", "bf16[3]{-2:2}", NULL,
};
const mf_op mf_op_copy = {
    .name = "copy",
    .view = MF_VIEW_RESHAPE,
    MF_ELEMENTWISE_ROW,
    .type_rule = same_type,
    .jvp = mf_jvp_linear,
    .transpose = copy_transpose,
    .cost = mf_cost_bytes,
    .lower = same_lower,
    .evaluate = same_evaluate,
    MF_HLO_BY(mf_hlo_same),
    .samples = copy_samples,
};
