/* Ops that cut and join: slice pad concatenate iota. Invariant: slice, pad and concatenate are linear in all operands together, and their
 * transposes are among them. Evaluation is one strided copy per operand, whatever the dtype. */
#include "ops/shape/shape.h"

#include "base/memory/vector.h"
#include <string.h>

static void fill(void *out, int64_t count, int element, const void *value)
{
    char *p = out;
    for (int64_t i = 0; i < count; i++, p += element)
        memcpy(p, value, (size_t)element);
}

/* ---- slice */
static mf_error_object *slice_type(mf_type_context *c)
{
    const mf_slice_params *p = c->params;
    const mf_type *t = c->in[0];
    int64_t dims[MF_RANK];
    if (p->start->count != t->rank || p->limit->count != t->rank || p->strides->count != t->rank)
        return mf_type_error(c, MF_ERROR_SHAPE, "start, limit and strides must have one entry for each of the operand's %d dimensions",
                             t->rank);
    for (int i = 0; i < t->rank; i++) {
        int64_t start = p->start->at[i], limit = p->limit->at[i], stride = p->strides->at[i];
        if (start < 0 || limit < start || limit > t->dims[i])
            return mf_type_error(c, MF_ERROR_AXIS, "in dimension %d, start %lld and limit %lld do not bound a range within its size %lld",
                                 i, (long long)start, (long long)limit, (long long)t->dims[i]);
        if (stride < 1)
            return mf_type_error(c, MF_ERROR_ARGUMENT, "strides must be positive, but number %d is %lld", i, (long long)stride);
        dims[i] = limit == start ? 0 : (limit - start - 1) / stride + 1;
    }
    c->out[0] = mf_type_with_shape(t, t->rank, dims);
    return NULL;
}

static void slice_transpose(mf_builder *b, const mf_eqn *e, const bool *linear, mf_variable *const *in, mf_variable *const *ct,
                            mf_variable **ct_in)
{
    const mf_slice_params *p = e->params;
    const mf_type *t = e->in[0]->type, *cut = e->out[0]->type;
    int64_t high[MF_RANK], interior[MF_RANK];
    for (int i = 0; i < t->rank; i++) {
        int64_t covered = cut->dims[i] ? 1 + (cut->dims[i] - 1) * p->strides->at[i] : 0;
        high[i] = t->dims[i] - p->start->at[i] - covered;
        interior[i] = p->strides->at[i] - 1;
    }
    (void)linear, (void)in;
    ct_in[0] = e_pad(b, ct[0], 0, p->start->at, high, interior);
}

static void slice_batch(mf_batch_context *c, const mf_eqn *e, mf_variable *const *in, const int *in_axis, mf_variable **out, int *out_axis)
{
    const mf_slice_params *p = e->params;
    int at = in_axis[0];
    mf_slice_params wide = { shape_inserted(p->start, at, 0), shape_inserted(p->limit, at, c->size), shape_inserted(p->strides, at, 1) };
    out[0] = mf_emit(c->b, e->op, &wide, 1, in[0]);
    out_axis[0] = at;
}

static mf_error_object *slice_evaluate(const mf_eqn *e, const void *const *in, void *const *out)
{
    const mf_slice_params *p = e->params;
    const mf_type *to = e->out[0]->type;
    int64_t strides[MF_RANK], out_strides[MF_RANK], first = 0;
    if (to->size == 0)
        return NULL;
    mf_contiguous_strides(e->in[0]->type, strides);
    mf_contiguous_strides(to, out_strides);
    for (int i = 0; i < to->rank; i++) {
        first += p->start->at[i] * strides[i];
        strides[i] *= p->strides->at[i];
    }
    mf_copy_strided(to->rank, to->dims, mf_dtype_size(to->dtype), out[0], out_strides, (const char *)in[0] + first, strides);
    return NULL;
}

static const mf_param slice_params[] = {
    MF_PARAM(mf_slice_params, start, MF_PARAM_INTS),
    MF_PARAM(mf_slice_params, limit, MF_PARAM_INTS),
    MF_PARAM(mf_slice_params, strides, MF_PARAM_INTS),
    { 0 },
};
static const char *const slice_samples[] = {
    "[start=(1), limit=(4), strides=(1)] f32[5]{=1,2,3,4,5} -> f32[3]{=2,3,4}",
    "[start=(1,0), limit=(5,3), strides=(2,1)] f32[6,3]{-2:2}",
    "[start=(0,1), limit=(5,4), strides=(3,2)] f32[5,4]{-2:2}",
    "[start=(2), limit=(2), strides=(1)] f32[4]{-2:2}",
    "[start=(0), limit=(0), strides=(2)] i8[0]{-2:2}",
    "[start=(), limit=(), strides=()] f64[]{-2:2}",
    NULL,
};
MF_HLO_RULE(slice_hlo)
{
    const mf_slice_params *p = e->params;
    out[0] = h_slice(h, in[0], e->out[0]->type, p->start->at, p->limit->at, p->strides->at);
}

const mf_op mf_op_slice = {
    .name = "slice",
    .view = MF_VIEW_STRIDES,
    .params = slice_params,
    .params_size = sizeof(mf_slice_params),
    .type_rule = slice_type,
    .jvp = mf_jvp_linear,
    .transpose = slice_transpose,
    .partial_eval = mf_partial_eval_all_or_nothing,
    .dce = mf_dce_whole,
    .batch = slice_batch,
    .variance = mf_variance_join,
    .cost = mf_cost_bytes,
    .lower = mf_lower_none,
    .evaluate = slice_evaluate,
    MF_HLO_BY(slice_hlo),
    .samples = slice_samples,
};

/* ---- pad */
static mf_error_object *pad_type(mf_type_context *c)
{
    const mf_pad_params *p = c->params;
    const mf_type *t = c->in[0];
    int64_t dims[MF_RANK];
    if (c->in[1]->rank != 0)
        return mf_type_error(c, MF_ERROR_SHAPE, "the padding value must be a scalar");
    if (c->in[1]->dtype != t->dtype)
        return mf_type_error(c, MF_ERROR_DTYPE, "the operand and the padding value must have one dtype");
    if (p->low->count != t->rank || p->high->count != t->rank || p->interior->count != t->rank)
        return mf_type_error(c, MF_ERROR_SHAPE, "low, high and interior must have one entry for each of the operand's %d dimensions",
                             t->rank);
    for (int i = 0; i < t->rank; i++) {
        if (p->interior->at[i] < 0)
            return mf_type_error(c, MF_ERROR_ARGUMENT, "interior padding must not be negative");
        int64_t low = p->low->at[i], high = p->high->at[i], between, most = INT64_MAX / 4; /* the sum of three stays in range */
        if (low < -most || low > most || high < -most || high > most || p->interior->at[i] > most)
            return mf_type_error(c, MF_ERROR_SHAPE, "dimension %d would be too large after padding", i);
        if (__builtin_mul_overflow(t->dims[i] ? t->dims[i] - 1 : 0, p->interior->at[i], &between) ||
            __builtin_add_overflow(t->dims[i], between, &dims[i]) || __builtin_add_overflow(dims[i], low, &dims[i]) ||
            __builtin_add_overflow(dims[i], high, &dims[i]))
            return mf_type_error(c, MF_ERROR_SHAPE, "dimension %d would be too large after padding", i);
        if (dims[i] < 0)
            return mf_type_error(c, MF_ERROR_SHAPE, "dimension %d would have the size %lld after padding", i, (long long)dims[i]);
    }
    c->out[0] = mf_type_get(t->dtype, t->weak && c->in[1]->weak, t->rank, dims);
    return NULL;
}

/* Undoes the padding: crops (or pads, where the original cropped) and takes every (interior + 1)-th element. */
static mf_variable *unpadded(mf_builder *b, const mf_eqn *e, mf_variable *ct)
{
    const mf_pad_params *p = e->params;
    int64_t low[MF_RANK], high[MF_RANK], start[MF_RANK] = { 0 }, strides[MF_RANK];
    for (int i = 0; i < p->low->count; i++) {
        low[i] = -p->low->at[i];
        high[i] = -p->high->at[i];
        strides[i] = p->interior->at[i] + 1;
    }
    mf_variable *x = e_pad(b, ct, 0, low, high, NULL);
    return e_slice(b, x, start, x->type->dims, strides);
}

static void pad_transpose(mf_builder *b, const mf_eqn *e, const bool *linear, mf_variable *const *in, mf_variable *const *ct,
                          mf_variable **ct_in)
{
    mf_variable *x = unpadded(b, e, ct[0]);
    (void)in;
    if (linear[0])
        ct_in[0] = x;
    if (linear[1])
        ct_in[1] = e_sub(b, e_reduce_to_scalar(b, ct[0]), e_reduce_to_scalar(b, x));
}

static void pad_batch(mf_batch_context *c, const mf_eqn *e, mf_variable *const *in, const int *in_axis, mf_variable **out, int *out_axis)
{
    const mf_pad_params *p = e->params;
    int at = in_axis[0] < 0 ? 0 : in_axis[0];
    mf_variable *x = e_batched_at(c, in[0], in_axis[0], at);
    mf_pad_params wide = { shape_inserted(p->low, at, 0), shape_inserted(p->high, at, 0), shape_inserted(p->interior, at, 0) };
    out_axis[0] = at;
    if (in_axis[1] < 0) {
        out[0] = mf_emit(c->b, e->op, &wide, 2, x, in[1]);
        return;
    }
    /* a padding value per example: pad with zeros, and select by a padded mask */
    const mf_type *mask = mf_type_with_dtype(x->type, MF_BOOL);
    mf_variable *padded = mf_emit(c->b, e->op, &wide, 2, x, e_scalar(c->b, x->type->dtype, 0));
    mf_variable *inside = mf_emit(c->b, e->op, &wide, 2, e_full(c->b, mask, 1), e_scalar(c->b, MF_BOOL, 0));
    mf_variable *around = e_broadcast(c->b, in[1], padded->type->rank, padded->type->dims, mf_ints_of(1, at));
    out[0] = e_select(c->b, inside, padded, e_convert_type(c->b, around, padded->type));
}

static mf_error_object *pad_evaluate(const mf_eqn *e, const void *const *in, void *const *out)
{
    const mf_pad_params *p = e->params;
    const mf_type *from = e->in[0]->type, *to = e->out[0]->type;
    int64_t strides[MF_RANK], out_strides[MF_RANK], count[MF_RANK], first = 0, out_first = 0;
    int element = mf_dtype_size(to->dtype);
    fill(out[0], to->size, element, in[1]);
    mf_contiguous_strides(from, strides);
    mf_contiguous_strides(to, out_strides);
    for (int i = 0; i < to->rank; i++) {
        int64_t step = p->interior->at[i] + 1, low = p->low->at[i];
        int64_t begin = low < 0 ? (-low + step - 1) / step : 0; /* the elements [begin, end) stay inside */
        int64_t end = to->dims[i] > low ? (to->dims[i] - low + step - 1) / step : 0;
        if (end > from->dims[i])
            end = from->dims[i];
        if (end <= begin)
            return NULL;
        count[i] = end - begin;
        first += begin * strides[i];
        out_first += (low + begin * step) * out_strides[i];
        out_strides[i] *= step;
    }
    mf_copy_strided(to->rank, count, element, (char *)out[0] + out_first, out_strides, (const char *)in[0] + first, strides);
    return NULL;
}

static const mf_param pad_params[] = {
    MF_PARAM(mf_pad_params, low, MF_PARAM_INTS),
    MF_PARAM(mf_pad_params, high, MF_PARAM_INTS),
    MF_PARAM(mf_pad_params, interior, MF_PARAM_INTS),
    { 0 },
};
static const char *const pad_samples[] = {
    "[low=(1), high=(2), interior=(0)] f32[2]{=1,2} f32[]{=9} -> f32[5]{=9,1,2,9,9}",
    "[low=(0), high=(1), interior=(2)] f32[3]{=1,2,3} f32[]{=0} -> f32[8]{=1,0,0,2,0,0,3,0}",
    "[low=(-1), high=(-1), interior=(1)] f32[3]{=1,2,3} f32[]{=7} -> f32[3]{=7,2,7}",
    "[low=(-2), high=(1), interior=(0)] i32[4]{-9:9} i32[]{=5}",
    "[low=(-3), high=(4), interior=(2)] f32[3]{-2:2} f32[]{-2:2}",
    "[low=(1,0), high=(0,2), interior=(1,0)] f32[2,3]{-2:2} f32[]{-2:2}",
    "[low=(-5), high=(3), interior=(0)] f32[2]{-2:2} f32[]{-2:2}",
    "[low=(2), high=(1), interior=(3)] f32[0]{-2:2} f32[]{-2:2}",
    "[low=(), high=(), interior=()] f64[]{-2:2} f64[]{-2:2}",
    NULL,
};
MF_HLO_RULE(pad_hlo)
{
    const mf_pad_params *p = e->params;
    out[0] = h_pad(h, in[0], in[1], p->low->at, p->high->at, p->interior->at);
}

const mf_op mf_op_pad = {
    .name = "pad",
    .params = pad_params,
    .params_size = sizeof(mf_pad_params),
    .type_rule = pad_type,
    .jvp = mf_jvp_linear,
    .transpose = pad_transpose,
    .partial_eval = mf_partial_eval_all_or_nothing,
    .dce = mf_dce_whole,
    .batch = pad_batch,
    .variance = mf_variance_join,
    .cost = mf_cost_bytes,
    .lower = mf_lower_none,
    .evaluate = pad_evaluate,
    MF_HLO_BY(pad_hlo),
    .samples = pad_samples,
};

/* ---- concatenate */
static bool alike_except(const mf_type *a, const mf_type *b, int64_t axis)
{
    if (a->rank != b->rank)
        return false;
    for (int i = 0; i < a->rank; i++)
        if (i != axis && a->dims[i] != b->dims[i])
            return false;
    return true;
}

static mf_error_object *concatenate_type(mf_type_context *c)
{
    int64_t axis = ((const mf_axis_params *)c->params)->axis, dims[MF_RANK], total = 0;
    if (c->in_count < 1)
        return mf_type_error(c, MF_ERROR_ARGUMENT, "at least one operand is needed");
    const mf_type *t = c->in[0];
    bool weak = true;
    if (axis < 0 || axis >= t->rank)
        return mf_type_error(c, MF_ERROR_AXIS, "dimension %lld is out of bounds for operands of rank %d", (long long)axis, t->rank);
    for (int i = 0; i < c->in_count; i++) {
        if (c->in[i]->dtype != t->dtype)
            return mf_type_error(c, MF_ERROR_DTYPE, "the operands' dtypes must be equal");
        if (!alike_except(t, c->in[i], axis))
            return mf_type_error(c, MF_ERROR_SHAPE, "the operands' shapes may differ in dimension %lld only", (long long)axis);
        total += c->in[i]->dims[axis];
        weak = weak && c->in[i]->weak;
    }
    for (int i = 0; i < t->rank; i++)
        dims[i] = i == axis ? total : t->dims[i];
    c->out[0] = mf_type_get(t->dtype, weak, t->rank, dims);
    return NULL;
}

static void concatenate_transpose(mf_builder *b, const mf_eqn *e, const bool *linear, mf_variable *const *in, mf_variable *const *ct,
                                  mf_variable **ct_in)
{
    int axis = (int)((const mf_axis_params *)e->params)->axis;
    int64_t start = 0;
    (void)in;
    for (int i = 0; i < e->in_count; i++) {
        int64_t limit = start + e->in[i]->type->dims[axis];
        if (linear[i])
            ct_in[i] = e_slice_axis(b, ct[0], axis, start, limit);
        start = limit;
    }
}

static void concatenate_batch(mf_batch_context *c, const mf_eqn *e, mf_variable *const *in, const int *in_axis, mf_variable **out,
                              int *out_axis)
{
    int64_t axis = ((const mf_axis_params *)e->params)->axis;
    MF_SMALL_ARRAY(mf_variable *, parts, 8, e->in_count);
    int at = -1;
    for (int i = 0; i < e->in_count && at < 0; i++)
        at = in_axis[i];
    if (at < 0)
        at = 0;
    if (!parts)
        mf_builder_fail(c->b, mf_error_out_of_memory());
    for (int i = 0; parts && i < e->in_count; i++)
        parts[i] = e_batched_at(c, in[i], in_axis[i], at);
    mf_axis_params wide = { axis + (axis >= at) };
    out[0] = mf_emit_eqn(c->b, e->op, &wide, parts ? parts : in, e->in_count)->out[0];
    out_axis[0] = at;
}

static mf_error_object *concatenate_evaluate(const mf_eqn *e, const void *const *in, void *const *out)
{
    int64_t axis = ((const mf_axis_params *)e->params)->axis, strides[MF_RANK], out_strides[MF_RANK];
    int element = mf_dtype_size(e->out[0]->type->dtype);
    char *at = out[0];
    mf_contiguous_strides(e->out[0]->type, out_strides);
    for (int i = 0; i < e->in_count; i++) {
        const mf_type *t = e->in[i]->type;
        if (t->size == 0)
            continue;
        mf_contiguous_strides(t, strides);
        mf_copy_strided(t->rank, t->dims, element, at, out_strides, in[i], strides);
        at += t->dims[axis] * out_strides[axis];
    }
    return NULL;
}

static const mf_param axis_params[] = { MF_PARAM(mf_axis_params, axis, MF_PARAM_INT), { 0 } };
static const char *const concatenate_samples[] = {
    "[axis=0] f32[2]{=1,2} f32[3]{=3,4,5} -> f32[5]{=1,2,3,4,5}",
    "[axis=1] f32[2,1]{-2:2} f32[2,3]{-2:2} f32[2,2]{-2:2}",
    "[axis=0] f32[1,3]{-2:2} f32[2,3]{-2:2}",
    "[axis=1] i32[2,0,2]{-9:9} i32[2,2,2]{-9:9}",
    "[axis=0] bool[2]{0:1}",
    "[axis=0] f64[0]{-2:2} f64[0]{-2:2}",
    NULL,
};
MF_HLO_RULE(concatenate_hlo)
{
    out[0] = h_op(h, "concatenate", e->out[0]->type, in, e->in_count, "dimension = %lld : i64",
                  (long long)((const mf_axis_params *)e->params)->axis);
}

const mf_op mf_op_concatenate = {
    .name = "concatenate",
    .params = axis_params,
    .params_size = sizeof(mf_axis_params),
    .type_rule = concatenate_type,
    .jvp = mf_jvp_linear,
    .transpose = concatenate_transpose,
    .partial_eval = mf_partial_eval_all_or_nothing,
    .dce = mf_dce_whole,
    .batch = concatenate_batch,
    .variance = mf_variance_join,
    .cost = mf_cost_bytes,
    .lower = mf_lower_none,
    .evaluate = concatenate_evaluate,
    MF_HLO_BY(concatenate_hlo),
    .samples = concatenate_samples,
};

/* ---- iota */
static mf_error_object *iota_type(mf_type_context *c)
{
    const mf_iota_params *p = c->params;
    if (!mf_dtype_is_int(p->dtype) && !mf_dtype_is_inexact(p->dtype))
        return mf_type_error(c, MF_ERROR_DTYPE, "it is not defined for %s", p->dtype ? mf_dtype_name(p->dtype) : "the default dtype");
    if (p->axis < 0 || p->axis >= p->shape->count)
        return mf_type_error(c, MF_ERROR_AXIS, "dimension %lld is out of bounds for a shape of rank %d", (long long)p->axis,
                             p->shape->count);
    c->out[0] = mf_type_get(p->dtype, false, p->shape->count, p->shape->at);
    return NULL;
}

static void iota_batch(mf_batch_context *c, const mf_eqn *e, mf_variable *const *in, const int *in_axis, mf_variable **out, int *out_axis)
{
    (void)in_axis;
    mf_copy_eqn(c->b, e, in, out);
    out_axis[0] = -1;
}

static mf_error_object *iota_evaluate(const mf_eqn *e, const void *const *in, void *const *out)
{
    const mf_iota_params *p = e->params;
    const mf_type *t = e->out[0]->type;
    int64_t inner = 1, element = mf_dtype_size(t->dtype), at = 0;
    for (int i = t->rank - 1; i > p->axis; i--)
        inner *= t->dims[i];
    (void)in;
    for (char *o = out[0]; at < t->size; at++, o += element) {
        int64_t x = at / inner % t->dims[p->axis];
        if (mf_dtype_is_int(t->dtype))
            mf_store_i64(t->dtype, o, x);
        else
            mf_store_f64(t->dtype, o, (double)x);
    }
    return NULL;
}

static const mf_param iota_params[] = {
    MF_PARAM(mf_iota_params, dtype, MF_PARAM_DTYPE),
    MF_PARAM(mf_iota_params, shape, MF_PARAM_INTS),
    MF_PARAM(mf_iota_params, axis, MF_PARAM_INT),
    { 0 },
};
static const char *const iota_samples[] = {
    "[dtype=i32, shape=(3), axis=0] -> i32[3]{=0,1,2}",
    "[dtype=f32, shape=(2,3), axis=1] -> f32[2,3]{=0,1,2,0,1,2}",
    "[dtype=u8, shape=(2,2,2), axis=1] -> u8[2,2,2]{=0,0,1,1,0,0,1,1}",
    "[dtype=u8, shape=(300), axis=0]",
    "[dtype=bf16, shape=(300), axis=0]",
    "[dtype=i32, shape=(0,3), axis=0]",
    NULL,
};
MF_HLO_RULE(iota_hlo)
{
    (void)in;
    out[0] = h_iota(h, e->out[0]->type, ((const mf_iota_params *)e->params)->axis);
}

const mf_op mf_op_iota = {
    .name = "iota",
    .view = MF_VIEW_GENERATED,
    .params = iota_params,
    .params_size = sizeof(mf_iota_params),
    .type_rule = iota_type,
    .jvp = mf_jvp_zero,
    .transpose = mf_transpose_none,
    .partial_eval = mf_partial_eval_all_or_nothing,
    .dce = mf_dce_whole,
    .batch = iota_batch,
    .variance = mf_variance_join,
    .cost = mf_cost_bytes,
    .lower = mf_lower_none,
    .evaluate = iota_evaluate,
    MF_HLO_BY(iota_hlo),
    .samples = iota_samples,
};
