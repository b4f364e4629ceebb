/* Ops that move elements without computing: broadcast_in_dim reshape transpose rev slice pad concatenate iota squeeze expand_dims.
 * Invariant: all but iota are linear in their operands, and the transpose of each is one or two of the others and a sum. Evaluation
 * is one strided copy per operand, whatever the dtype. The public wrappers are in shape_wrap.c. */
#include "ops/emit.h"
#include <string.h>

static bool increasing(const mf_intlist *list, int64_t end)
{
    for (int i = 0; i < list->count; i++)
        if (list->at[i] < 0 || list->at[i] >= end || (i && list->at[i] <= list->at[i - 1])) return false;
    return true;
}

static int64_t position(const mf_intlist *list, int64_t x)
{
    for (int i = 0; i < list->count; i++)
        if (list->at[i] == x) return i;
    return -1;
}

/* list with every entry at or behind `axis` one further. */
static const mf_intlist *shifted(const mf_intlist *list, int axis)
{
    int64_t out[MF_RANK + 1];
    for (int i = 0; i < list->count && i <= MF_RANK; i++) out[i] = list->at[i] + (list->at[i] >= axis);
    return mf_ints_intern(out, list->count);
}

/* list with x before its entry number `at`. */
static const mf_intlist *inserted(const mf_intlist *list, int at, int64_t x)
{
    int64_t out[MF_RANK + 2];
    int count = list->count <= MF_RANK ? list->count : MF_RANK;
    for (int i = 0, k = 0; k <= count; k++) out[k] = k == at ? x : list->at[i++];
    return mf_ints_intern(out, count + 1);
}

static void fill(void *out, int64_t count, int element, const void *value)
{
    char *p = out;
    for (int64_t i = 0; i < count; i++, p += element) memcpy(p, value, (size_t)element);
}

/* ---- broadcast_in_dim */
static mf_error_object *broadcast_type(mf_type_context *c)
{
    const mf_broadcast_params *p = c->params;
    const mf_type *t = c->in[0];
    if (p->broadcast_dimensions->count != t->rank)
        return mf_type_error(c, MF_ERROR_SHAPE, "broadcast_dimensions must have one entry for each of the operand's %d dimensions, not %d",
                             t->rank, p->broadcast_dimensions->count);
    if (!increasing(p->broadcast_dimensions, p->shape->count))
        return mf_type_error(c, MF_ERROR_AXIS, "broadcast_dimensions must increase and be dimensions of the shape, which has rank %d",
                             p->shape->count);
    for (int i = 0; i < t->rank; i++) {
        int64_t want = p->shape->at[p->broadcast_dimensions->at[i]];
        if (t->dims[i] != 1 && t->dims[i] != want)
            return mf_type_error(c, MF_ERROR_SHAPE, "the operand's dimension %d must be 1 or %lld", i, (long long)want);
    }
    c->out[0] = mf_type_get(t->dtype, t->weak, p->shape->count, p->shape->at);
    return NULL;
}

/* Sums over what is new or was 1, then puts the 1s back. */
static void broadcast_transpose(mf_builder *b, const mf_eqn *e, const bool *linear, mf_var *const *in, mf_var *const *ct, mf_var **ct_in)
{
    const mf_broadcast_params *p = e->params;
    const mf_type *t = e->in[0]->type;
    int64_t sum[MF_RANK], ones[MF_RANK];
    int sums = 0, one_count = 0;
    for (int i = 0; i < p->shape->count; i++) {
        int64_t from = position(p->broadcast_dimensions, i);
        if (from < 0 || t->dims[from] == 1) sum[sums++] = i;
    }
    for (int i = 0; i < t->rank; i++)
        if (t->dims[i] == 1) ones[one_count++] = i;
    mf_var *x = e_reduce_sum(b, ct[0], mf_ints_intern(sum, sums));
    (void)linear, (void)in;
    ct_in[0] = one_count ? mf_emit(b, &mf_op_expand_dims, &(mf_axes_params){ mf_ints_intern(ones, one_count) }, 1, x) : x;
}

static void broadcast_batch(mf_batch_context *c, const mf_eqn *e, mf_var *const *in, const int *in_axis, mf_var **out, int *out_axis)
{
    const mf_broadcast_params *p = e->params;
    mf_broadcast_params wide = { inserted(p->shape, 0, c->size), inserted(shifted(p->broadcast_dimensions, 0), 0, 0) };
    out[0] = mf_emit(c->b, e->op, &wide, 1, e_batched_at(c, in[0], in_axis[0], 0));
    out_axis[0] = 0;
}

static mf_error_object *broadcast_evaluate(const mf_eqn *e, const void *const *in, void *const *out)
{
    const mf_broadcast_params *p = e->params;
    const mf_type *from = e->in[0]->type, *to = e->out[0]->type;
    int64_t own[MF_RANK], strides[MF_RANK] = { 0 }, out_strides[MF_RANK];
    mf_contiguous_strides(from, own);
    mf_contiguous_strides(to, out_strides);
    for (int i = 0; i < from->rank; i++)
        if (from->dims[i] != 1) strides[p->broadcast_dimensions->at[i]] = own[i];
    mf_copy_strided(to->rank, to->dims, mf_dtype_size(to->dtype), out[0], out_strides, in[0], strides);
    return NULL;
}

static const mf_param broadcast_params[] = {
    MF_PARAM(mf_broadcast_params, shape, MF_PARAM_INTS),
    MF_PARAM(mf_broadcast_params, broadcast_dimensions, MF_PARAM_INTS),
    { NULL, 0, 0 },
};
static const char *const broadcast_samples[] = {
    "[shape=(2,3), broadcast_dimensions=()] f32[]{-2:2}",
    "[shape=(2,3), broadcast_dimensions=(1)] f32[3]{=1,2,3} -> f32[2,3]{=1,2,3,1,2,3}",
    "[shape=(2,3), broadcast_dimensions=(0)] i32[2]{=1,2} -> i32[2,3]{=1,1,1,2,2,2}",
    "[shape=(2,3), broadcast_dimensions=(0,1)] f32[2,1]{-2:2}",
    "[shape=(2,3,2,1), broadcast_dimensions=(1,3)] f64[3,1]{-2:2}",
    "[shape=(0,3), broadcast_dimensions=(1)] f32[3]{-2:2}",
    "[shape=(2,0), broadcast_dimensions=(1)] f32[1]{-2:2}",
    "[shape=(), broadcast_dimensions=()] bool[]{=1}",
    "[shape=(4), broadcast_dimensions=(0)] bf16[4]{-2:2}",
    NULL,
};
const mf_op mf_op_broadcast_in_dim = {
    .name = "broadcast_in_dim",
    .params = broadcast_params,
    .params_size = sizeof(mf_broadcast_params),
    .type_rule = broadcast_type,
    .jvp = mf_jvp_linear,
    .transpose = broadcast_transpose,
    .partial_eval = mf_partial_eval_all_or_nothing,
    .dce = mf_dce_whole,
    .batch = broadcast_batch,
    .variance = mf_variance_join,
    .cost = mf_cost_bytes,
    .lower = mf_lower_none,
    .evaluate = broadcast_evaluate,
    .samples = broadcast_samples,
};

/* ---- reshape */
static mf_error_object *reshape_type(mf_type_context *c)
{
    const mf_shape_params *p = c->params;
    const mf_type *t = c->in[0];
    for (int i = 0; i < p->shape->count; i++)
        if (p->shape->at[i] < 0)
            return mf_type_error(c, MF_ERROR_SHAPE, "sizes must not be negative, but the new dimension %d is %lld", i,
                                 (long long)p->shape->at[i]);
    c->out[0] = mf_type_get(t->dtype, t->weak, p->shape->count, p->shape->at);
    if (c->out[0] && c->out[0]->size != t->size)
        return mf_type_error(c, MF_ERROR_SHAPE, "the number of elements must not change: the new shape %s has %lld, the operand %lld",
                             mf_type_name(c->out[0]), (long long)c->out[0]->size, (long long)t->size);
    return NULL;
}

static void back_to_shape(mf_builder *b, const mf_eqn *e, const bool *linear, mf_var *const *in, mf_var *const *ct, mf_var **ct_in)
{
    (void)linear, (void)in;
    ct_in[0] = e_reshape_type(b, ct[0], e->in[0]->type);
}

static void reshape_batch(mf_batch_context *c, const mf_eqn *e, mf_var *const *in, const int *in_axis, mf_var **out, int *out_axis)
{
    const mf_shape_params *p = e->params;
    mf_shape_params wide = { inserted(p->shape, 0, c->size) };
    out[0] = mf_emit(c->b, e->op, &wide, 1, e_batched_at(c, in[0], in_axis[0], 0));
    out_axis[0] = 0;
}

/* reshape, squeeze and expand_dims: the same elements in the same order. */
static mf_error_object *same_bytes(const mf_eqn *e, const void *const *in, void *const *out)
{
    if (e->out[0]->type->bytes > 0) memcpy(out[0], in[0], (size_t)e->out[0]->type->bytes);
    return NULL;
}

static const mf_param shape_params[] = { MF_PARAM(mf_shape_params, shape, MF_PARAM_INTS), { NULL, 0, 0 } };
static const char *const reshape_samples[] = {
    "[shape=(3,2)] f32[2,3]{=1,2,3,4,5,6} -> f32[3,2]{=1,2,3,4,5,6}",
    "[shape=(6)] f32[2,3]{-2:2}",
    "[shape=()] f32[1,1]{-2:2}",
    "[shape=(1,1)] i32[]{-9:9}",
    "[shape=(0,5)] f32[2,0]{-2:2}",
    "[shape=(2,1,3,1)] bf16[3,2]{-2:2}",
    NULL,
};
const mf_op mf_op_reshape = {
    .name = "reshape",
    .params = shape_params,
    .params_size = sizeof(mf_shape_params),
    .type_rule = reshape_type,
    .jvp = mf_jvp_linear,
    .transpose = back_to_shape,
    .partial_eval = mf_partial_eval_all_or_nothing,
    .dce = mf_dce_whole,
    .batch = reshape_batch,
    .variance = mf_variance_join,
    .cost = mf_cost_bytes,
    .lower = mf_lower_none,
    .evaluate = same_bytes,
    .samples = reshape_samples,
};

/* ---- transpose */
static mf_error_object *transpose_type(mf_type_context *c)
{
    const mf_intlist *order = ((const mf_permutation_params *)c->params)->permutation;
    const mf_type *t = c->in[0];
    int64_t dims[MF_RANK];
    bool fine = order->count == t->rank;
    for (int i = 0; fine && i < t->rank; i++) {
        fine = position(order, i) >= 0;
        if (order->at[i] >= 0 && order->at[i] < t->rank) dims[i] = t->dims[order->at[i]];
    }
    if (!fine) return mf_type_error(c, MF_ERROR_AXIS, "the permutation must name each of the operand's %d dimensions once", t->rank);
    c->out[0] = mf_type_with_shape(t, t->rank, dims);
    return NULL;
}

static void transpose_transpose(mf_builder *b, const mf_eqn *e, const bool *linear, mf_var *const *in, mf_var *const *ct, mf_var **ct_in)
{
    const mf_intlist *order = ((const mf_permutation_params *)e->params)->permutation;
    int inverse[MF_RANK];
    for (int i = 0; i < order->count; i++) inverse[order->at[i]] = i;
    (void)linear, (void)in;
    ct_in[0] = e_transpose(b, ct[0], inverse);
}

static void transpose_batch(mf_batch_context *c, const mf_eqn *e, mf_var *const *in, const int *in_axis, mf_var **out, int *out_axis)
{
    const mf_intlist *order = ((const mf_permutation_params *)e->params)->permutation;
    mf_permutation_params wide = { inserted(shifted(order, in_axis[0]), 0, in_axis[0]) };
    out[0] = mf_emit(c->b, e->op, &wide, 1, in[0]);
    out_axis[0] = 0;
}

static mf_error_object *transpose_evaluate(const mf_eqn *e, const void *const *in, void *const *out)
{
    const mf_intlist *order = ((const mf_permutation_params *)e->params)->permutation;
    const mf_type *to = e->out[0]->type;
    int64_t own[MF_RANK], strides[MF_RANK], out_strides[MF_RANK];
    mf_contiguous_strides(e->in[0]->type, own);
    mf_contiguous_strides(to, out_strides);
    for (int i = 0; i < to->rank; i++) strides[i] = own[order->at[i]];
    mf_copy_strided(to->rank, to->dims, mf_dtype_size(to->dtype), out[0], out_strides, in[0], strides);
    return NULL;
}

static const mf_param permutation_params[] = { MF_PARAM(mf_permutation_params, permutation, MF_PARAM_INTS), { NULL, 0, 0 } };
static const char *const transpose_samples[] = {
    "[permutation=(1,0)] f32[2,3]{=1,2,3,4,5,6} -> f32[3,2]{=1,4,2,5,3,6}",
    "[permutation=(2,0,1)] f32[2,3,4]{-2:2}",
    "[permutation=(0,2,1)] bool[2,3,2]{0:1}",
    "[permutation=(3,1,0,2)] f64[2,1,3,2]{-2:2}",
    "[permutation=()] f32[]{-2:2}",
    "[permutation=(1,0)] i16[0,3]{-2:2}",
    NULL,
};
const mf_op mf_op_transpose = {
    .name = "transpose",
    .params = permutation_params,
    .params_size = sizeof(mf_permutation_params),
    .type_rule = transpose_type,
    .jvp = mf_jvp_linear,
    .transpose = transpose_transpose,
    .partial_eval = mf_partial_eval_all_or_nothing,
    .dce = mf_dce_whole,
    .batch = transpose_batch,
    .variance = mf_variance_join,
    .cost = mf_cost_bytes,
    .lower = mf_lower_none,
    .evaluate = transpose_evaluate,
    .samples = transpose_samples,
};

/* ---- rev */
static bool distinct(const mf_intlist *axes, int rank)
{
    unsigned seen = 0;
    for (int i = 0; i < axes->count; i++) {
        if (axes->at[i] < 0 || axes->at[i] >= rank || (seen >> axes->at[i] & 1)) return false;
        seen |= 1u << axes->at[i];
    }
    return true;
}

static mf_error_object *rev_type(mf_type_context *c)
{
    if (!distinct(((const mf_axes_params *)c->params)->axes, c->in[0]->rank))
        return mf_type_error(c, MF_ERROR_AXIS, "axes must be distinct dimensions of the operand, which has rank %d", c->in[0]->rank);
    c->out[0] = c->in[0];
    return NULL;
}

static void rev_transpose(mf_builder *b, const mf_eqn *e, const bool *linear, mf_var *const *in, mf_var *const *ct, mf_var **ct_in)
{
    (void)linear, (void)in;
    ct_in[0] = e_rev(b, ct[0], ((const mf_axes_params *)e->params)->axes);
}

static void rev_batch(mf_batch_context *c, const mf_eqn *e, mf_var *const *in, const int *in_axis, mf_var **out, int *out_axis)
{
    mf_axes_params wide = { shifted(((const mf_axes_params *)e->params)->axes, in_axis[0]) };
    out[0] = mf_emit(c->b, e->op, &wide, 1, in[0]);
    out_axis[0] = in_axis[0];
}

static mf_error_object *rev_evaluate(const mf_eqn *e, const void *const *in, void *const *out)
{
    const mf_intlist *axes = ((const mf_axes_params *)e->params)->axes;
    const mf_type *t = e->out[0]->type;
    int64_t strides[MF_RANK], out_strides[MF_RANK], first = 0;
    if (t->size == 0) return NULL;
    mf_contiguous_strides(t, out_strides);
    mf_contiguous_strides(t, strides);
    for (int i = 0; i < axes->count; i++) {
        int64_t a = axes->at[i];
        first += (t->dims[a] - 1) * strides[a];
        strides[a] = -strides[a];
    }
    mf_copy_strided(t->rank, t->dims, mf_dtype_size(t->dtype), out[0], out_strides, (const char *)in[0] + first, strides);
    return NULL;
}

static const mf_param axes_params[] = { MF_PARAM(mf_axes_params, axes, MF_PARAM_INTS), { NULL, 0, 0 } };
static const char *const rev_samples[] = {
    "[axes=(0)] f32[3]{=1,2,3} -> f32[3]{=3,2,1}",
    "[axes=(1)] f32[2,3]{-2:2}",
    "[axes=(2,0)] i32[2,3,4]{-9:9}",
    "[axes=()] f32[]{-2:2}",
    "[axes=(0)] f64[0,2]{-2:2}",
    NULL,
};
const mf_op mf_op_rev = {
    .name = "rev",
    .params = axes_params,
    .params_size = sizeof(mf_axes_params),
    .type_rule = rev_type,
    .jvp = mf_jvp_linear,
    .transpose = rev_transpose,
    .partial_eval = mf_partial_eval_all_or_nothing,
    .dce = mf_dce_whole,
    .batch = rev_batch,
    .variance = mf_variance_join,
    .cost = mf_cost_bytes,
    .lower = mf_lower_none,
    .evaluate = rev_evaluate,
    .samples = rev_samples,
};

/* ---- slice */
static mf_error_object *slice_type(mf_type_context *c)
{
    const mf_slice_params *p = c->params;
    const mf_type *t = c->in[0];
    int64_t dims[MF_RANK];
    if (p->start->count != t->rank || p->limit->count != t->rank || p->strides->count != t->rank)
        return mf_type_error(c, MF_ERROR_SHAPE, "start, limit and strides must have one entry for each of the operand's %d dimensions", t->rank);
    for (int i = 0; i < t->rank; i++) {
        int64_t start = p->start->at[i], limit = p->limit->at[i], stride = p->strides->at[i];
        if (start < 0 || limit < start || limit > t->dims[i])
            return mf_type_error(c, MF_ERROR_AXIS, "in dimension %d, start %lld and limit %lld do not bound a range within its size %lld", i,
                                 (long long)start, (long long)limit, (long long)t->dims[i]);
        if (stride < 1) return mf_type_error(c, MF_ERROR_ARGUMENT, "strides must be positive, but number %d is %lld", i, (long long)stride);
        dims[i] = limit == start ? 0 : (limit - start - 1) / stride + 1;
    }
    c->out[0] = mf_type_with_shape(t, t->rank, dims);
    return NULL;
}

static void slice_transpose(mf_builder *b, const mf_eqn *e, const bool *linear, mf_var *const *in, mf_var *const *ct, mf_var **ct_in)
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

static void slice_batch(mf_batch_context *c, const mf_eqn *e, mf_var *const *in, const int *in_axis, mf_var **out, int *out_axis)
{
    const mf_slice_params *p = e->params;
    int at = in_axis[0];
    mf_slice_params wide = { inserted(p->start, at, 0), inserted(p->limit, at, c->size), inserted(p->strides, at, 1) };
    out[0] = mf_emit(c->b, e->op, &wide, 1, in[0]);
    out_axis[0] = at;
}

static mf_error_object *slice_evaluate(const mf_eqn *e, const void *const *in, void *const *out)
{
    const mf_slice_params *p = e->params;
    const mf_type *to = e->out[0]->type;
    int64_t strides[MF_RANK], out_strides[MF_RANK], first = 0;
    if (to->size == 0) return NULL;
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
    { NULL, 0, 0 },
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
const mf_op mf_op_slice = {
    .name = "slice",
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
    .samples = slice_samples,
};

/* ---- pad */
static mf_error_object *pad_type(mf_type_context *c)
{
    const mf_pad_params *p = c->params;
    const mf_type *t = c->in[0];
    int64_t dims[MF_RANK];
    if (c->in[1]->rank != 0) return mf_type_error(c, MF_ERROR_SHAPE, "the padding value must be a scalar");
    if (c->in[1]->dtype != t->dtype) return mf_type_error(c, MF_ERROR_DTYPE, "the operand and the padding value must have one dtype");
    if (p->low->count != t->rank || p->high->count != t->rank || p->interior->count != t->rank)
        return mf_type_error(c, MF_ERROR_SHAPE, "low, high and interior must have one entry for each of the operand's %d dimensions", t->rank);
    for (int i = 0; i < t->rank; i++) {
        if (p->interior->at[i] < 0) return mf_type_error(c, MF_ERROR_ARGUMENT, "interior padding must not be negative");
        int64_t spread = t->dims[i] ? 1 + (t->dims[i] - 1) * (p->interior->at[i] + 1) : 0;
        dims[i] = p->low->at[i] + spread + p->high->at[i];
        if (dims[i] < 0)
            return mf_type_error(c, MF_ERROR_SHAPE, "dimension %d would have the size %lld after padding", i, (long long)dims[i]);
    }
    c->out[0] = mf_type_get(t->dtype, t->weak && c->in[1]->weak, t->rank, dims);
    return NULL;
}

/* Undoes the padding: crops (or pads, where it cropped) and takes every interior + 1st element. */
static mf_var *unpadded(mf_builder *b, const mf_eqn *e, mf_var *ct)
{
    const mf_pad_params *p = e->params;
    int64_t low[MF_RANK], high[MF_RANK], start[MF_RANK] = { 0 }, strides[MF_RANK];
    for (int i = 0; i < p->low->count; i++) {
        low[i] = -p->low->at[i];
        high[i] = -p->high->at[i];
        strides[i] = p->interior->at[i] + 1;
    }
    mf_var *x = e_pad(b, ct, 0, low, high, NULL);
    return e_slice(b, x, start, x->type->dims, strides);
}

static void pad_transpose(mf_builder *b, const mf_eqn *e, const bool *linear, mf_var *const *in, mf_var *const *ct, mf_var **ct_in)
{
    mf_var *x = unpadded(b, e, ct[0]);
    (void)in;
    if (linear[0]) ct_in[0] = x;
    if (linear[1]) ct_in[1] = e_sub(b, e_reduce_to_scalar(b, ct[0]), e_reduce_to_scalar(b, x));
}

static void pad_batch(mf_batch_context *c, const mf_eqn *e, mf_var *const *in, const int *in_axis, mf_var **out, int *out_axis)
{
    const mf_pad_params *p = e->params;
    int at = in_axis[0] < 0 ? 0 : in_axis[0];
    mf_var *x = e_batched_at(c, in[0], in_axis[0], at);
    mf_pad_params wide = { inserted(p->low, at, 0), inserted(p->high, at, 0), inserted(p->interior, at, 0) };
    out_axis[0] = at;
    if (in_axis[1] < 0) {
        out[0] = mf_emit(c->b, e->op, &wide, 2, x, in[1]);
        return;
    }
    /* a padding value of its own for each: pad with anything and choose by a padded mask */
    const mf_type *mask = mf_type_with_dtype(x->type, MF_BOOL);
    mf_var *padded = mf_emit(c->b, e->op, &wide, 2, x, e_scalar(c->b, x->type->dtype, 0));
    mf_var *inside = mf_emit(c->b, e->op, &wide, 2, e_full(c->b, mask, 1), e_scalar(c->b, MF_BOOL, 0));
    mf_var *around = e_broadcast(c->b, in[1], padded->type->rank, padded->type->dims, mf_ints_of(1, at));
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
        if (end > from->dims[i]) end = from->dims[i];
        if (end <= begin) return NULL;
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
    { NULL, 0, 0 },
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
    .samples = pad_samples,
};

/* ---- concatenate */
static bool alike_except(const mf_type *a, const mf_type *b, int64_t axis)
{
    if (a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; i++)
        if (i != axis && a->dims[i] != b->dims[i]) return false;
    return true;
}

static mf_error_object *concatenate_type(mf_type_context *c)
{
    int64_t axis = ((const mf_axis_params *)c->params)->axis, dims[MF_RANK], total = 0;
    if (c->in_count < 1) return mf_type_error(c, MF_ERROR_ARGUMENT, "at least one operand is needed");
    const mf_type *t = c->in[0];
    bool weak = true;
    if (axis < 0 || axis >= t->rank)
        return mf_type_error(c, MF_ERROR_AXIS, "dimension %lld is out of bounds for operands of rank %d", (long long)axis, t->rank);
    for (int i = 0; i < c->in_count; i++) {
        if (c->in[i]->dtype != t->dtype) return mf_type_error(c, MF_ERROR_DTYPE, "the operands' dtypes must be equal");
        if (!alike_except(t, c->in[i], axis))
            return mf_type_error(c, MF_ERROR_SHAPE, "the operands' shapes may differ in dimension %lld only", (long long)axis);
        total += c->in[i]->dims[axis];
        weak = weak && c->in[i]->weak;
    }
    for (int i = 0; i < t->rank; i++) dims[i] = i == axis ? total : t->dims[i];
    c->out[0] = mf_type_get(t->dtype, weak, t->rank, dims);
    return NULL;
}

static void concatenate_transpose(mf_builder *b, const mf_eqn *e, const bool *linear, mf_var *const *in, mf_var *const *ct, mf_var **ct_in)
{
    int axis = (int)((const mf_axis_params *)e->params)->axis;
    int64_t start = 0;
    (void)in;
    for (int i = 0; i < e->in_count; i++) {
        int64_t limit = start + e->in[i]->type->dims[axis];
        if (linear[i]) ct_in[i] = e_slice_axis(b, ct[0], axis, start, limit);
        start = limit;
    }
}

static void concatenate_batch(mf_batch_context *c, const mf_eqn *e, mf_var *const *in, const int *in_axis, mf_var **out, int *out_axis)
{
    int64_t axis = ((const mf_axis_params *)e->params)->axis;
    mf_var *few[8], **parts = e->in_count <= 8 ? few : mf_alloc((size_t)e->in_count * sizeof *parts);
    int at = -1;
    for (int i = 0; i < e->in_count && at < 0; i++) at = in_axis[i];
    if (at < 0) at = 0;
    if (!parts) mf_builder_fail(c->b, mf_error_out_of_memory());
    for (int i = 0; parts && i < e->in_count; i++) parts[i] = e_batched_at(c, in[i], in_axis[i], at);
    mf_axis_params wide = { axis + (axis >= at) };
    out[0] = mf_emit_eqn(c->b, e->op, &wide, parts ? parts : in, e->in_count)->out[0];
    out_axis[0] = at;
    if (parts != few) mf_free(parts);
}

static mf_error_object *concatenate_evaluate(const mf_eqn *e, const void *const *in, void *const *out)
{
    int64_t axis = ((const mf_axis_params *)e->params)->axis, strides[MF_RANK], out_strides[MF_RANK];
    int element = mf_dtype_size(e->out[0]->type->dtype);
    char *at = out[0];
    mf_contiguous_strides(e->out[0]->type, out_strides);
    for (int i = 0; i < e->in_count; i++) {
        const mf_type *t = e->in[i]->type;
        if (t->size == 0) continue;
        mf_contiguous_strides(t, strides);
        mf_copy_strided(t->rank, t->dims, element, at, out_strides, in[i], strides);
        at += t->dims[axis] * out_strides[axis];
    }
    return NULL;
}

static const mf_param axis_params[] = { MF_PARAM(mf_axis_params, axis, MF_PARAM_INT), { NULL, 0, 0 } };
static const char *const concatenate_samples[] = {
    "[axis=0] f32[2]{=1,2} f32[3]{=3,4,5} -> f32[5]{=1,2,3,4,5}",
    "[axis=1] f32[2,1]{-2:2} f32[2,3]{-2:2} f32[2,2]{-2:2}",
    "[axis=0] f32[1,3]{-2:2} f32[2,3]{-2:2}",
    "[axis=1] i32[2,0,2]{-9:9} i32[2,2,2]{-9:9}",
    "[axis=0] bool[2]{0:1}",
    "[axis=0] f64[0]{-2:2} f64[0]{-2:2}",
    NULL,
};
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
    .samples = concatenate_samples,
};

/* ---- iota */
static mf_error_object *iota_type(mf_type_context *c)
{
    const mf_iota_params *p = c->params;
    if (!mf_dtype_is_int(p->dtype) && !mf_dtype_is_inexact(p->dtype))
        return mf_type_error(c, MF_ERROR_DTYPE, "it is not defined for %s", p->dtype ? mf_dtype_name(p->dtype) : "the default dtype");
    if (p->axis < 0 || p->axis >= p->shape->count)
        return mf_type_error(c, MF_ERROR_AXIS, "dimension %lld is out of bounds for a shape of rank %d", (long long)p->axis, p->shape->count);
    c->out[0] = mf_type_get(p->dtype, false, p->shape->count, p->shape->at);
    return NULL;
}

static void iota_batch(mf_batch_context *c, const mf_eqn *e, mf_var *const *in, const int *in_axis, mf_var **out, int *out_axis)
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
    for (int i = t->rank - 1; i > p->axis; i--) inner *= t->dims[i];
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
    { NULL, 0, 0 },
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
const mf_op mf_op_iota = {
    .name = "iota",
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
    .samples = iota_samples,
};

/* ---- squeeze */
static mf_error_object *squeeze_type(mf_type_context *c)
{
    const mf_intlist *axes = ((const mf_axes_params *)c->params)->axes;
    const mf_type *t = c->in[0];
    int64_t dims[MF_RANK];
    int rank = 0;
    if (!increasing(axes, t->rank))
        return mf_type_error(c, MF_ERROR_AXIS, "axes must increase and be dimensions of the operand, which has rank %d", t->rank);
    for (int i = 0; i < t->rank; i++) {
        if (!mf_ints_has(axes, i))
            dims[rank++] = t->dims[i];
        else if (t->dims[i] != 1)
            return mf_type_error(c, MF_ERROR_SHAPE, "dimension %d has size %lld, and only those of size 1 can be removed", i,
                                 (long long)t->dims[i]);
    }
    c->out[0] = mf_type_with_shape(t, rank, dims);
    return NULL;
}

static void squeeze_transpose(mf_builder *b, const mf_eqn *e, const bool *linear, mf_var *const *in, mf_var *const *ct, mf_var **ct_in)
{
    (void)linear, (void)in;
    ct_in[0] = mf_emit(b, &mf_op_expand_dims, e->params, 1, ct[0]);
}

static void squeeze_batch(mf_batch_context *c, const mf_eqn *e, mf_var *const *in, const int *in_axis, mf_var **out, int *out_axis)
{
    mf_axes_params wide = { shifted(((const mf_axes_params *)e->params)->axes, in_axis[0]) };
    out[0] = mf_emit(c->b, e->op, &wide, 1, in[0]);
    out_axis[0] = in_axis[0];
    for (int i = 0; i < wide.axes->count; i++) out_axis[0] -= wide.axes->at[i] < in_axis[0];
}

static const char *const squeeze_samples[] = {
    "[axes=(0)] f32[1,3]{-2:2}",
    "[axes=(0,2)] f32[1,3,1]{-2:2}",
    "[axes=(1)] i32[2,1,3,1]{-9:9}",
    "[axes=(0)] bool[1]{=1}",
    "[axes=()] f64[2]{-2:2}",
    "[axes=(1)] f32[0,1]{-2:2}",
    NULL,
};
const mf_op mf_op_squeeze = {
    .name = "squeeze",
    .params = axes_params,
    .params_size = sizeof(mf_axes_params),
    .type_rule = squeeze_type,
    .jvp = mf_jvp_linear,
    .transpose = squeeze_transpose,
    .partial_eval = mf_partial_eval_all_or_nothing,
    .dce = mf_dce_whole,
    .batch = squeeze_batch,
    .variance = mf_variance_join,
    .cost = mf_cost_bytes,
    .lower = mf_lower_none,
    .evaluate = same_bytes,
    .samples = squeeze_samples,
};

/* ---- expand_dims: axes are positions in the result */
static mf_error_object *expand_type(mf_type_context *c)
{
    const mf_intlist *axes = ((const mf_axes_params *)c->params)->axes;
    const mf_type *t = c->in[0];
    int64_t dims[MF_RANK];
    int rank = t->rank + axes->count, next = 0;
    if (rank > MF_RANK) return mf_type_error(c, MF_ERROR_SHAPE, "the result would have rank %d; at most %d is possible", rank, MF_RANK);
    if (!increasing(axes, rank))
        return mf_type_error(c, MF_ERROR_AXIS, "axes must increase and be dimensions of the result, which has rank %d", rank);
    for (int i = 0; i < rank; i++) dims[i] = mf_ints_has(axes, i) ? 1 : t->dims[next++];
    c->out[0] = mf_type_with_shape(t, rank, dims);
    return NULL;
}

static void expand_transpose(mf_builder *b, const mf_eqn *e, const bool *linear, mf_var *const *in, mf_var *const *ct, mf_var **ct_in)
{
    (void)linear, (void)in;
    ct_in[0] = mf_emit(b, &mf_op_squeeze, e->params, 1, ct[0]);
}

static void expand_batch(mf_batch_context *c, const mf_eqn *e, mf_var *const *in, const int *in_axis, mf_var **out, int *out_axis)
{
    mf_axes_params wide = { shifted(((const mf_axes_params *)e->params)->axes, 0) };
    out[0] = mf_emit(c->b, e->op, &wide, 1, e_batched_at(c, in[0], in_axis[0], 0));
    out_axis[0] = 0;
}

static const char *const expand_samples[] = {
    "[axes=(0)] f32[3]{-2:2}",
    "[axes=(1,3)] f32[2,3]{-2:2}",
    "[axes=(0)] i32[]{-9:9}",
    "[axes=(2)] bool[2,0]{0:1}",
    "[axes=()] f64[2]{-2:2}",
    NULL,
};
const mf_op mf_op_expand_dims = {
    .name = "expand_dims",
    .params = axes_params,
    .params_size = sizeof(mf_axes_params),
    .type_rule = expand_type,
    .jvp = mf_jvp_linear,
    .transpose = expand_transpose,
    .partial_eval = mf_partial_eval_all_or_nothing,
    .dce = mf_dce_whole,
    .batch = expand_batch,
    .variance = mf_variance_join,
    .cost = mf_cost_bytes,
    .lower = mf_lower_none,
    .evaluate = same_bytes,
    .samples = expand_samples,
};
