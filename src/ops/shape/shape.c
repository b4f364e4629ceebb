/* Ops that rearrange elements: broadcast_in_dim reshape transpose rev squeeze expand_dims. Cutting and joining is in shape_cut.c; the
 * public functions are in shape_wrap.c. Invariant: each is linear in its operand, and its transpose is made of one or two of the others and
 * a sum. Evaluation is one strided copy, whatever the dtype. */
#include "ops/shape/shape.h"

#include "base/memory/alloc.h"
#include <string.h>

/* ---- lists of axes */
bool shape_increasing(const mf_intlist *list, int64_t end)
{
    for (int i = 0; i < list->count; i++)
        if (list->at[i] < 0 || list->at[i] >= end || (i && list->at[i] <= list->at[i - 1]))
            return false;
    return true;
}

bool shape_distinct(const mf_intlist *list, int64_t end)
{
    for (int i = 0; i < list->count; i++)
        if (list->at[i] < 0 || list->at[i] >= end || shape_position(list, list->at[i]) != i)
            return false;
    return true;
}

int64_t shape_position(const mf_intlist *list, int64_t x)
{
    for (int i = 0; i < list->count; i++)
        if (list->at[i] == x)
            return i;
    return -1;
}

const mf_intlist *shape_shifted(const mf_intlist *list, int64_t axis)
{
    int64_t out[MF_RANK + 1];
    int count = list->count <= MF_RANK ? list->count : MF_RANK;
    for (int i = 0; i < count; i++)
        out[i] = list->at[i] + (list->at[i] >= axis);
    return mf_ints_intern(out, count);
}

const mf_intlist *shape_inserted(const mf_intlist *list, int at, int64_t x)
{
    int64_t out[MF_RANK + 2];
    int count = list->count <= MF_RANK ? list->count : MF_RANK;
    for (int i = 0, k = 0; k <= count; k++)
        out[k] = k == at ? x : list->at[i++];
    return mf_ints_intern(out, count + 1);
}

const mf_intlist *shape_dims(const mf_type *t) { return mf_ints_intern(t->dims, t->rank); }

/* ---- evaluation */
void *shape_packed(const mf_type *t, const void *x, const int64_t *axes, mf_dtype dtype)
{
    int64_t dims[MF_RANK], strides[MF_RANK], own[MF_RANK], out_strides[MF_RANK];
    int element = mf_dtype_size(t->dtype);
    void *moved = mf_alloc((size_t)t->bytes + 16), *out = mf_alloc((size_t)t->size * (size_t)mf_dtype_size(dtype) + 16);
    mf_contiguous_strides(t, own);
    for (int i = 0; i < t->rank; i++) {
        dims[i] = t->dims[axes[i]];
        strides[i] = own[axes[i]];
    }
    int64_t step = element;
    for (int i = t->rank - 1; i >= 0; step *= dims[i--])
        out_strides[i] = step;
    if (moved && out) {
        mf_copy_strided(t->rank, dims, element, moved, out_strides, x, strides);
        mf_convert(dtype, out, t->dtype, moved, t->size);
    }
    if (!moved) {
        mf_free(out);
        out = NULL;
    }
    mf_free(moved);
    return out;
}

#define MOST_STEP ((int64_t)1 << 31)

mf_error_object *shape_check_steps(const mf_type_context *c, const char *name, const mf_intlist *list, bool positive)
{
    for (int i = 0; i < list->count; i++) {
        int64_t x = list->at[i];
        if (positive && x < 1)
            return mf_type_error(c, MF_ERROR_ARGUMENT, "%s must be positive, but entry %d is %lld", name, i, (long long)x);
        if (x > MOST_STEP || x < -MOST_STEP)
            return mf_type_error(c, MF_ERROR_ARGUMENT, "%s: entry %d is %lld, but can be 2^31 at most", name, i, (long long)x);
    }
    return NULL;
}

int64_t shape_dilated(int64_t size, int64_t dilation)
{
    int64_t most = INT64_MAX / 4, reach;
    if (size == 0)
        return 0;
    return __builtin_mul_overflow(size - 1, dilation, &reach) || reach >= most ? most : reach + 1;
}

void shape_same_padding(int64_t size, int64_t window, int64_t dilation, int64_t stride, int64_t *low, int64_t *high)
{
    *low = *high = 0;
    if (window < 0 || dilation < 1 || stride < 1 || stride > MOST_STEP)
        return;
    int64_t last = size > 0 ? (size - 1) / stride * stride : -stride; /* start of the last window without padding */
    int64_t total = last - size + shape_dilated(window, dilation);
    if (total < 0)
        return;
    *low = total / 2;
    *high = total - *low;
}

int64_t shape_windows(int64_t size, int64_t low, int64_t high, int64_t base_dilation, int64_t window, int64_t window_dilation,
                      int64_t stride)
{
    int64_t padded = low + shape_dilated(size, base_dilation) + high, extent = shape_dilated(window, window_dilation);
    return padded < extent ? 0 : (padded - extent) / stride + 1;
}

/* ---- broadcast_in_dim */
static mf_error_object *broadcast_type(mf_type_context *c)
{
    const mf_broadcast_params *p = c->params;
    const mf_type *t = c->in[0];
    if (p->broadcast_dimensions->count != t->rank)
        return mf_type_error(c, MF_ERROR_SHAPE, "broadcast_dimensions must have one entry for each of the operand's %d dimensions, not %d",
                             t->rank, p->broadcast_dimensions->count);
    if (!shape_increasing(p->broadcast_dimensions, p->shape->count))
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

/* Sums over axes that are new or were of size 1, then restores the latter. */
static void broadcast_transpose(mf_builder *b, const mf_eqn *e, const bool *linear, mf_variable *const *in, mf_variable *const *ct,
                                mf_variable **ct_in)
{
    const mf_broadcast_params *p = e->params;
    const mf_type *t = e->in[0]->type;
    int64_t sum[MF_RANK], ones[MF_RANK];
    int sums = 0, one_count = 0;
    for (int i = 0; i < p->shape->count; i++) {
        int64_t from = shape_position(p->broadcast_dimensions, i);
        if (from < 0 || t->dims[from] == 1)
            sum[sums++] = i;
    }
    for (int i = 0; i < t->rank; i++)
        if (t->dims[i] == 1)
            ones[one_count++] = i;
    mf_variable *x = e_reduce_sum(b, ct[0], mf_ints_intern(sum, sums));
    (void)linear, (void)in;
    ct_in[0] = one_count ? mf_emit(b, &mf_op_expand_dims, &(mf_axes_params){ mf_ints_intern(ones, one_count) }, 1, x) : x;
}

static void broadcast_batch(mf_batch_context *c, const mf_eqn *e, mf_variable *const *in, const int *in_axis, mf_variable **out,
                            int *out_axis)
{
    const mf_broadcast_params *p = e->params;
    mf_broadcast_params wide = { shape_inserted(p->shape, 0, c->size), shape_inserted(shape_shifted(p->broadcast_dimensions, 0), 0, 0) };
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
        if (from->dims[i] != 1)
            strides[p->broadcast_dimensions->at[i]] = own[i];
    mf_copy_strided(to->rank, to->dims, mf_dtype_size(to->dtype), out[0], out_strides, in[0], strides);
    return NULL;
}

static const mf_param broadcast_params[] = {
    MF_PARAM(mf_broadcast_params, shape, MF_PARAM_INTS),
    MF_PARAM(mf_broadcast_params, broadcast_dimensions, MF_PARAM_INTS),
    { 0 },
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
MF_HLO_RULE(broadcast_hlo)
{
    out[0] = h_broadcast(h, in[0], e->out[0]->type, ((const mf_broadcast_params *)e->params)->broadcast_dimensions);
}

const mf_op mf_op_broadcast_in_dim = {
    .name = "broadcast_in_dim",
    .view = MF_VIEW_STRIDES,
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
    MF_HLO_BY(broadcast_hlo),
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

static void back_to_shape(mf_builder *b, const mf_eqn *e, const bool *linear, mf_variable *const *in, mf_variable *const *ct,
                          mf_variable **ct_in)
{
    (void)linear, (void)in;
    ct_in[0] = e_reshape_type(b, ct[0], e->in[0]->type);
}

static void reshape_batch(mf_batch_context *c, const mf_eqn *e, mf_variable *const *in, const int *in_axis, mf_variable **out,
                          int *out_axis)
{
    const mf_shape_params *p = e->params;
    mf_shape_params wide = { shape_inserted(p->shape, 0, c->size) };
    out[0] = mf_emit(c->b, e->op, &wide, 1, e_batched_at(c, in[0], in_axis[0], 0));
    out_axis[0] = 0;
}

/* reshape, squeeze and expand_dims: the same elements in the same order. */
static mf_error_object *same_bytes(const mf_eqn *e, const void *const *in, void *const *out)
{
    if (e->out[0]->type->bytes > 0)
        memcpy(out[0], in[0], (size_t)e->out[0]->type->bytes);
    return NULL;
}

static const mf_param shape_params[] = { MF_PARAM(mf_shape_params, shape, MF_PARAM_INTS), { 0 } };
static const char *const reshape_samples[] = {
    "[shape=(3,2)] f32[2,3]{=1,2,3,4,5,6} -> f32[3,2]{=1,2,3,4,5,6}",
    "[shape=(6)] f32[2,3]{-2:2}",
    "[shape=()] f32[1,1]{-2:2}",
    "[shape=(1,1)] i32[]{-9:9}",
    "[shape=(0,5)] f32[2,0]{-2:2}",
    "[shape=(2,1,3,1)] bf16[3,2]{-2:2}",
    NULL,
};
MF_HLO_RULE(reshape_hlo) { out[0] = h_reshape(h, in[0], e->out[0]->type); }

const mf_op mf_op_reshape = {
    .name = "reshape",
    .view = MF_VIEW_RESHAPE,
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
    MF_HLO_BY(reshape_hlo),
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
        fine = shape_position(order, i) >= 0;
        if (order->at[i] >= 0 && order->at[i] < t->rank)
            dims[i] = t->dims[order->at[i]];
    }
    if (!fine)
        return mf_type_error(c, MF_ERROR_AXIS, "the permutation must name each of the operand's %d dimensions once", t->rank);
    c->out[0] = mf_type_with_shape(t, t->rank, dims);
    return NULL;
}

static void transpose_transpose(mf_builder *b, const mf_eqn *e, const bool *linear, mf_variable *const *in, mf_variable *const *ct,
                                mf_variable **ct_in)
{
    const mf_intlist *order = ((const mf_permutation_params *)e->params)->permutation;
    int inverse[MF_RANK];
    for (int i = 0; i < order->count; i++)
        inverse[order->at[i]] = i;
    (void)linear, (void)in;
    ct_in[0] = e_transpose(b, ct[0], inverse);
}

static void transpose_batch(mf_batch_context *c, const mf_eqn *e, mf_variable *const *in, const int *in_axis, mf_variable **out,
                            int *out_axis)
{
    const mf_intlist *order = ((const mf_permutation_params *)e->params)->permutation;
    mf_permutation_params wide = { shape_inserted(shape_shifted(order, in_axis[0]), 0, in_axis[0]) };
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
    for (int i = 0; i < to->rank; i++)
        strides[i] = own[order->at[i]];
    mf_copy_strided(to->rank, to->dims, mf_dtype_size(to->dtype), out[0], out_strides, in[0], strides);
    return NULL;
}

static const mf_param permutation_params[] = { MF_PARAM(mf_permutation_params, permutation, MF_PARAM_INTS), { 0 } };
static const char *const transpose_samples[] = {
    "[permutation=(1,0)] f32[2,3]{=1,2,3,4,5,6} -> f32[3,2]{=1,4,2,5,3,6}",
    "[permutation=(2,0,1)] f32[2,3,4]{-2:2}",
    "[permutation=(0,2,1)] bool[2,3,2]{0:1}",
    "[permutation=(3,1,0,2)] f64[2,1,3,2]{-2:2}",
    "[permutation=()] f32[]{-2:2}",
    "[permutation=(1,0)] i16[0,3]{-2:2}",
    NULL,
};
MF_HLO_RULE(permute_hlo)
{
    out[0] = h_op(h, "transpose", e->out[0]->type, in, 1, "permutation = %s",
                  h_ints(h, ((const mf_permutation_params *)e->params)->permutation));
}

const mf_op mf_op_transpose = {
    .name = "transpose",
    .view = MF_VIEW_STRIDES,
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
    MF_HLO_BY(permute_hlo),
    .samples = transpose_samples,
};

/* ---- rev */
static mf_error_object *rev_type(mf_type_context *c)
{
    if (!shape_distinct(((const mf_axes_params *)c->params)->axes, c->in[0]->rank))
        return mf_type_error(c, MF_ERROR_AXIS, "axes must be distinct dimensions of the operand, which has rank %d", c->in[0]->rank);
    c->out[0] = c->in[0];
    return NULL;
}

static void rev_transpose(mf_builder *b, const mf_eqn *e, const bool *linear, mf_variable *const *in, mf_variable *const *ct,
                          mf_variable **ct_in)
{
    (void)linear, (void)in;
    ct_in[0] = e_rev(b, ct[0], ((const mf_axes_params *)e->params)->axes);
}

static void rev_batch(mf_batch_context *c, const mf_eqn *e, mf_variable *const *in, const int *in_axis, mf_variable **out, int *out_axis)
{
    mf_axes_params wide = { shape_shifted(((const mf_axes_params *)e->params)->axes, in_axis[0]) };
    out[0] = mf_emit(c->b, e->op, &wide, 1, in[0]);
    out_axis[0] = in_axis[0];
}

static mf_error_object *rev_evaluate(const mf_eqn *e, const void *const *in, void *const *out)
{
    const mf_intlist *axes = ((const mf_axes_params *)e->params)->axes;
    const mf_type *t = e->out[0]->type;
    int64_t strides[MF_RANK], out_strides[MF_RANK], first = 0;
    if (t->size == 0)
        return NULL;
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

static const mf_param axes_params[] = { MF_PARAM(mf_axes_params, axes, MF_PARAM_INTS), { 0 } };
static const char *const rev_samples[] = {
    "[axes=(0)] f32[3]{=1,2,3} -> f32[3]{=3,2,1}",
    "[axes=(1)] f32[2,3]{-2:2}",
    "[axes=(2,0)] i32[2,3,4]{-9:9}",
    "[axes=()] f32[]{-2:2}",
    "[axes=(0)] f64[0,2]{-2:2}",
    NULL,
};
MF_HLO_RULE(rev_hlo)
{
    out[0] = h_op(h, "reverse", e->out[0]->type, in, 1, "dimensions = %s", h_ints(h, ((const mf_axes_params *)e->params)->axes));
}

const mf_op mf_op_rev = {
    .name = "rev",
    .view = MF_VIEW_STRIDES,
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
    MF_HLO_BY(rev_hlo),
    .samples = rev_samples,
};

/* ---- squeeze */
static mf_error_object *squeeze_type(mf_type_context *c)
{
    const mf_intlist *axes = ((const mf_axes_params *)c->params)->axes;
    const mf_type *t = c->in[0];
    int64_t dims[MF_RANK];
    int rank = 0;
    if (!shape_increasing(axes, t->rank))
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

static void squeeze_transpose(mf_builder *b, const mf_eqn *e, const bool *linear, mf_variable *const *in, mf_variable *const *ct,
                              mf_variable **ct_in)
{
    (void)linear, (void)in;
    ct_in[0] = mf_emit(b, &mf_op_expand_dims, e->params, 1, ct[0]);
}

static void squeeze_batch(mf_batch_context *c, const mf_eqn *e, mf_variable *const *in, const int *in_axis, mf_variable **out,
                          int *out_axis)
{
    mf_axes_params wide = { shape_shifted(((const mf_axes_params *)e->params)->axes, in_axis[0]) };
    out[0] = mf_emit(c->b, e->op, &wide, 1, in[0]);
    out_axis[0] = in_axis[0];
    for (int i = 0; i < wide.axes->count; i++)
        out_axis[0] -= wide.axes->at[i] < in_axis[0];
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
    .view = MF_VIEW_RESHAPE,
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
    MF_HLO_BY(reshape_hlo),
    .samples = squeeze_samples,
};

/* ---- expand_dims: axes are positions in the result */
static mf_error_object *expand_type(mf_type_context *c)
{
    const mf_intlist *axes = ((const mf_axes_params *)c->params)->axes;
    const mf_type *t = c->in[0];
    int64_t dims[MF_RANK];
    int rank = t->rank + axes->count, next = 0;
    if (rank > MF_RANK)
        return mf_type_error(c, MF_ERROR_SHAPE, "the result would have rank %d; at most %d is possible", rank, MF_RANK);
    if (!shape_increasing(axes, rank))
        return mf_type_error(c, MF_ERROR_AXIS, "axes must increase and be dimensions of the result, which has rank %d", rank);
    for (int i = 0; i < rank; i++)
        dims[i] = mf_ints_has(axes, i) ? 1 : t->dims[next++];
    c->out[0] = mf_type_with_shape(t, rank, dims);
    return NULL;
}

static void expand_transpose(mf_builder *b, const mf_eqn *e, const bool *linear, mf_variable *const *in, mf_variable *const *ct,
                             mf_variable **ct_in)
{
    (void)linear, (void)in;
    ct_in[0] = mf_emit(b, &mf_op_squeeze, e->params, 1, ct[0]);
}

static void expand_batch(mf_batch_context *c, const mf_eqn *e, mf_variable *const *in, const int *in_axis, mf_variable **out, int *out_axis)
{
    mf_axes_params wide = { shape_shifted(((const mf_axes_params *)e->params)->axes, 0) };
    out[0] = mf_emit(c->b, e->op, &wide, 1, e_batched_at(c, in[0], in_axis[0], 0));
    out_axis[0] = 0;
}

static const char *const expand_samples[] = {
    "[axes=(0)] f32[3]{-2:2}",   "[axes=(1,3)] f32[2,3]{-2:2}", "[axes=(0)] i32[]{-9:9}",
    "[axes=(2)] bool[2,0]{0:1}", "[axes=()] f64[2]{-2:2}",      NULL,
};
const mf_op mf_op_expand_dims = {
    .name = "expand_dims",
    .view = MF_VIEW_RESHAPE,
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
    MF_HLO_BY(reshape_hlo),
    .samples = expand_samples,
};
