/* dynamic_slice and dynamic_update_slice: windows of static size whose start is an operand, clamped so that the window is inside. gather
 * and scatter are in index_gather.c and index_scatter.c, the public functions in index_wrap.c and subscript.c. Invariant: when a start is
 * batched, they become a gather or a scatter of one window per example. */
#include "ops/index/index_windows.h"
#include "ops/shape/shape.h"
#include "transform/rules/tangent.h"
#include <string.h>

enum { CLIP = 0 }; /* the mode of a gather */

/* ---- dynamic_slice: clamped starts, static sizes */
static mf_error_object *check_starts(const mf_type_context *c, int first, int rank)
{
    if (c->in_count != first + rank)
        return mf_type_error(c, MF_ERROR_ARGUMENT, "one start index for each of the operand's %d dimensions is needed, not %d", rank,
                             c->in_count - first);
    for (int i = first; i < c->in_count; i++) {
        if (c->in[i]->rank != 0)
            return mf_type_error(c, MF_ERROR_SHAPE, "start indices must be scalars");
        if (!mf_dtype_is_int(c->in[i]->dtype))
            return mf_type_error(c, MF_ERROR_DTYPE, "start indices must be integers");
    }
    return NULL;
}

static mf_error_object *dynamic_slice_type(mf_type_context *c)
{
    const mf_intlist *sizes = ((const mf_sizes_params *)c->params)->sizes;
    if (c->in_count < 1)
        return mf_type_error(c, MF_ERROR_ARGUMENT, "an operand is needed");
    const mf_type *t = c->in[0];
    if (sizes->count != t->rank)
        return mf_type_error(c, MF_ERROR_SHAPE, "sizes must have one entry for each of the operand's %d dimensions, not %d", t->rank,
                             sizes->count);
    for (int i = 0; i < t->rank; i++)
        if (sizes->at[i] < 0 || sizes->at[i] > t->dims[i])
            return mf_type_error(c, MF_ERROR_SHAPE, "size %lld is too large for dimension %d of size %lld", (long long)sizes->at[i], i,
                                 (long long)t->dims[i]);
    c->out[0] = mf_type_with_shape(t, t->rank, sizes->at);
    return check_starts(c, 1, t->rank);
}

#define OPERANDS (MF_RANK + 2)

static void dynamic_slice_jvp(mf_builder *b, const mf_eqn *e, mf_variable *const *in, mf_variable *const *tin, mf_variable **out,
                              mf_variable **tout)
{
    mf_variable *moved[OPERANDS];
    mf_copy_eqn(b, e, in, out);
    for (int i = 0; i < e->in_count; i++)
        moved[i] = in[i];
    moved[0] = tin[0];
    tout[0] = tin[0] ? mf_emit_eqn(b, e->op, e->params, moved, e->in_count)->out[0] : NULL;
}

static void dynamic_slice_transpose(mf_builder *b, const mf_eqn *e, const bool *linear, mf_variable *const *in, mf_variable *const *ct,
                                    mf_variable **ct_in)
{
    mf_variable *moved[OPERANDS];
    if (!linear[0])
        return;
    moved[0] = mf_tangent_zeros(b, e->in[0]->type);
    moved[1] = ct[0];
    for (int i = 1; i < e->in_count; i++)
        moved[i + 1] = in[i];
    ct_in[0] = mf_emit_eqn(b, &mf_op_dynamic_update_slice, NULL, moved, e->in_count + 1)->out[0];
}

/* Stacks the scalar starts into index vectors [size, count] of one dtype that holds all of them. */
/* As index_signed_hlo, in dtype. */
static mf_variable *signed_start(mf_builder *b, mf_variable *x, mf_dtype dtype)
{
    x = x->type->dtype == MF_U64 ? e_binary(b, &mf_op_min, x, e_full(b, x->type, 0x1p62)) : x;
    return e_convert(b, x, dtype);
}

mf_hlo_value index_signed_hlo(mf_hlo *h, mf_hlo_value x)
{
    x = x.type->dtype == MF_U64 ? h_binary(h, "minimum", x, h_full(h, x.type, 0x1p62)) : x;
    return h_convert(h, x, MF_I64);
}

static mf_variable *starts_together(mf_batch_context *c, mf_variable *const *start, const int *axis, int count)
{
    mf_variable *column[MF_RANK];
    mf_dtype dtype = MF_I32;
    for (int i = 0; i < count; i++)
        if (mf_dtype_size(start[i]->type->dtype) + (mf_dtype_is_unsigned(start[i]->type->dtype) ? 1 : 0) > 4)
            dtype = MF_I64;
    for (int i = 0; i < count; i++) {
        mf_variable *x = e_batched_at(c, signed_start(c->b, start[i], dtype), axis[i], 0);
        column[i] = e_expand(c->b, x, 1);
    }
    return e_concatenate(c->b, column, count, 1);
}

static const mf_intlist *counting(int from, int count)
{
    int64_t list[MF_RANK + 1];
    for (int i = 0; i < count; i++)
        list[i] = from + i;
    return mf_ints_intern(list, count);
}

static bool any_batched(const int *in_axis, int from, int end)
{
    for (int i = from; i < end; i++)
        if (in_axis[i] >= 0)
            return true;
    return false;
}

static mf_variable *zero_start(mf_builder *b, const mf_eqn *e, int first)
{
    return e_scalar(b, e->in_count > first ? e->in[first]->type->dtype : MF_I32, 0);
}

static void dynamic_slice_batch(mf_batch_context *c, const mf_eqn *e, mf_variable *const *in, const int *in_axis, mf_variable **out,
                                int *out_axis)
{
    const mf_intlist *sizes = ((const mf_sizes_params *)e->params)->sizes, *none = mf_ints_of(0);
    int rank = sizes->count, at = in_axis[0];
    if (!any_batched(in_axis, 1, e->in_count)) {
        mf_variable *moved[OPERANDS];
        for (int i = 0, k = 1; i <= rank; i++)
            moved[i + 1] = i == at ? zero_start(c->b, e, 1) : in[k++];
        moved[0] = in[0];
        mf_sizes_params wide = { shape_inserted(sizes, at, c->size) };
        out[0] = mf_emit_eqn(c->b, e->op, &wide, moved, rank + 2)->out[0];
        out_axis[0] = at;
        return;
    }
    bool both = at >= 0;
    mf_variable *x = both ? e_move_axis(c->b, in[0], at, 0) : in[0];
    mf_gather_params p = { counting(1, rank), none, counting(both, rank), none, none, sizes, CLIP };
    if (both) {
        p.operand_batching_dims = p.start_indices_batching_dims = mf_ints_of(1, 0);
        p.slice_sizes = shape_inserted(sizes, 0, 1);
    }
    out[0] = mf_emit(c->b, &mf_op_gather, &p, 2, x, starts_together(c, in + 1, in_axis + 1, rank));
    out_axis[0] = 0;
}

static void clamped_offset(const mf_eqn *e, const void *const *in, int first, const int64_t *sizes, const int64_t *strides, int64_t *offset)
{
    const mf_type *t = e->in[0]->type;
    *offset = 0;
    for (int i = 0; i < t->rank; i++) {
        mf_dtype dtype = e->in[first + i]->type->dtype;
        int64_t last = t->dims[i] - sizes[i], start = mf_load_i64(dtype, in[first + i]);
        if (start < 0)
            start = dtype == MF_U64 ? last : 0; /* a u64 of 2^63 or more is large, not negative */
        *offset += (start > last ? last : start) * strides[i];
    }
}

static mf_error_object *dynamic_slice_evaluate(const mf_eqn *e, const void *const *in, void *const *out)
{
    const mf_type *t = e->in[0]->type, *to = e->out[0]->type;
    int64_t strides[MF_RANK], out_strides[MF_RANK], offset;
    if (to->size == 0)
        return NULL;
    mf_contiguous_strides(t, strides);
    mf_contiguous_strides(to, out_strides);
    clamped_offset(e, in, 1, to->dims, strides, &offset);
    mf_copy_strided(t->rank, to->dims, mf_dtype_size(t->dtype), out[0], out_strides, (const char *)in[0] + offset, strides);
    return NULL;
}

static mf_cost result_bytes_twice(const mf_eqn *e) { return (mf_cost){ 0, 2 * (double)e->out[0]->type->bytes }; }

static const mf_param sizes_params[] = { MF_PARAM(mf_sizes_params, sizes, MF_PARAM_INTS), { 0 } };
static const char *const dynamic_slice_samples[] = {
    "[sizes=(2)] f32[4]{=1,2,3,4} i32[]{=1} -> f32[2]{=2,3}",
    "[sizes=(2)] f32[4]{=1,2,3,4} i32[]{=9} -> f32[2]{=3,4}",
    "[sizes=(2)] f32[4]{=1,2,3,4} i32[]{=-1} -> f32[2]{=1,2}",
    "[sizes=(2,3)] f32[3,4]{-2:2} i32[]{0:3} i32[]{0:3}",
    "[sizes=(1,0)] f64[3,4]{-2:2} i64[]{0:3} i64[]{0:3}",
    "[sizes=()] bool[]{=1}",
    "[sizes=(3)] i16[3]{-9:9} u8[]{=200}",
    NULL,
};
/* StableHLO needs all starts to have one dtype; an op's may differ. i64 holds each of them. */
static const mf_hlo_value *alike_starts(mf_hlo *h, const mf_eqn *e, const mf_hlo_value *in, int first, mf_hlo_value *alike)
{
    for (int i = 0; i < e->in_count; i++)
        alike[i] = in[i];
    for (int i = first + 1; i < e->in_count; i++)
        if (in[i].type->dtype != in[first].type->dtype) {
            for (int k = first; k < e->in_count; k++)
                alike[k] = index_signed_hlo(h, in[k]);
            break;
        }
    return alike;
}

MF_HLO_RULE(dynamic_slice_hlo)
{
    mf_hlo_value alike[MF_RANK + 2];
    if (e->in_count == 1)
        out[0] = in[0];
    else
        out[0] = h_op(h, "dynamic_slice", e->out[0]->type, alike_starts(h, e, in, 1, alike), e->in_count, "slice_sizes = %s",
                      h_ints(h, ((const mf_sizes_params *)e->params)->sizes));
}

const mf_op mf_op_dynamic_slice = {
    .name = "dynamic_slice",
    .params = sizes_params,
    .params_size = sizeof(mf_sizes_params),
    .type_rule = dynamic_slice_type,
    .jvp = dynamic_slice_jvp,
    .transpose = dynamic_slice_transpose,
    .partial_eval = mf_partial_eval_all_or_nothing,
    .dce = mf_dce_whole,
    .batch = dynamic_slice_batch,
    .variance = mf_variance_join,
    .cost = result_bytes_twice,
    .lower = mf_lower_none,
    .evaluate = dynamic_slice_evaluate,
    MF_HLO_BY(dynamic_slice_hlo),
    .samples = dynamic_slice_samples,
};

/* ---- dynamic_update_slice */
static mf_error_object *dynamic_update_slice_type(mf_type_context *c)
{
    if (c->in_count < 2)
        return mf_type_error(c, MF_ERROR_ARGUMENT, "an operand and an update are needed");
    const mf_type *t = c->in[0], *u = c->in[1];
    if (u->dtype != t->dtype)
        return mf_type_error(c, MF_ERROR_DTYPE, "the update's dtype must be the operand's");
    if (u->rank != t->rank)
        return mf_type_error(c, MF_ERROR_SHAPE, "the update's rank must be the operand's");
    for (int i = 0; i < t->rank; i++)
        if (u->dims[i] > t->dims[i])
            return mf_type_error(c, MF_ERROR_SHAPE, "the update is larger than the operand in dimension %d", i);
    c->out[0] = t->weak && !u->weak ? mf_type_strong(t) : t;
    return check_starts(c, 2, t->rank);
}

static void dynamic_update_slice_jvp(mf_builder *b, const mf_eqn *e, mf_variable *const *in, mf_variable *const *tin, mf_variable **out,
                                     mf_variable **tout)
{
    mf_variable *moved[OPERANDS];
    mf_copy_eqn(b, e, in, out);
    for (int i = 0; i < e->in_count; i++)
        moved[i] = in[i];
    tout[0] = NULL;
    if (!tin[0] && !tin[1])
        return;
    for (int i = 0; i < 2; i++)
        moved[i] = mf_tangent_or_zeros(b, tin[i], e->in[i]->type);
    tout[0] = mf_emit_eqn(b, e->op, NULL, moved, e->in_count)->out[0];
}

static void dynamic_update_slice_transpose(mf_builder *b, const mf_eqn *e, const bool *linear, mf_variable *const *in,
                                           mf_variable *const *ct, mf_variable **ct_in)
{
    mf_variable *moved[OPERANDS];
    for (int i = 2; i < e->in_count; i++)
        moved[i] = in[i];
    if (linear[0]) {
        moved[0] = ct[0];
        moved[1] = mf_tangent_zeros(b, e->in[1]->type);
        ct_in[0] = mf_emit_eqn(b, e->op, NULL, moved, e->in_count)->out[0];
    }
    if (linear[1]) {
        mf_sizes_params p = { shape_dims(e->in[1]->type) };
        moved[1] = ct[0];
        ct_in[1] = mf_emit_eqn(b, &mf_op_dynamic_slice, &p, moved + 1, e->in_count - 1)->out[0];
    }
}

static void dynamic_update_slice_batch(mf_batch_context *c, const mf_eqn *e, mf_variable *const *in, const int *in_axis, mf_variable **out,
                                       int *out_axis)
{
    int rank = e->in[0]->type->rank;
    const mf_intlist *none = mf_ints_of(0), *first = mf_ints_of(1, 0);
    mf_variable *moved[OPERANDS + 1], *x = e_batched_at(c, in[0], in_axis[0], 0), *u = e_batched_at(c, in[1], in_axis[1], 0);
    out_axis[0] = 0;
    if (any_batched(in_axis, 2, e->in_count)) {
        mf_scatter_params p = { counting(1, rank), none, counting(1, rank), first, first, CLIP };
        out[0] = mf_emit(c->b, &mf_op_scatter, &p, 3, x, starts_together(c, in + 2, in_axis + 2, rank), u);
        return;
    }
    moved[0] = x;
    moved[1] = u;
    moved[2] = zero_start(c->b, e, 2);
    for (int i = 0; i < rank; i++)
        moved[3 + i] = in[2 + i];
    out[0] = mf_emit_eqn(c->b, e->op, NULL, moved, rank + 3)->out[0];
}

static mf_error_object *dynamic_update_slice_evaluate(const mf_eqn *e, const void *const *in, void *const *out)
{
    const mf_type *t = e->in[0]->type, *u = e->in[1]->type;
    int64_t strides[MF_RANK], own[MF_RANK], offset;
    if (t->bytes && out[0] != in[0])
        memcpy(out[0], in[0], (size_t)t->bytes);
    if (u->size == 0)
        return NULL;
    mf_contiguous_strides(t, strides);
    mf_contiguous_strides(u, own);
    clamped_offset(e, in, 2, u->dims, strides, &offset);
    mf_copy_strided(t->rank, u->dims, mf_dtype_size(t->dtype), (char *)out[0] + offset, strides, in[1], own);
    return NULL;
}

static const char *const dynamic_update_slice_samples[] = {
    "f32[4]{=1,2,3,4} f32[2]{=8,9} i32[]{=1} -> f32[4]{=1,8,9,4}",
    "f32[4]{=1,2,3,4} f32[2]{=8,9} i32[]{=7} -> f32[4]{=1,2,8,9}",
    "f32[4]{=1,2,3,4} f32[2]{=8,9} i32[]{=-3} -> f32[4]{=8,9,3,4}",
    "f32[3,4]{-2:2} f32[2,2]{-2:2} i32[]{0:3} i32[]{0:3}",
    "f64[3,4]{-2:2} f64[0,2]{-2:2} i32[]{0:3} i32[]{0:3}",
    "bool[]{=0} bool[]{=1} -> bool[]{=1}",
    "i32[2,2]{-9:9} i32[2,1]{-9:9} i64[]{=0} i64[]{=1}",
    NULL,
};
MF_HLO_RULE(update_slice_hlo)
{
    mf_hlo_value alike[MF_RANK + 2];
    out[0] = e->in_count == 2 ? in[1]
                              : h_op(h, "dynamic_update_slice", e->out[0]->type, alike_starts(h, e, in, 2, alike), e->in_count, NULL);
}

const mf_op mf_op_dynamic_update_slice = {
    .name = "dynamic_update_slice",
    .type_rule = dynamic_update_slice_type,
    .jvp = dynamic_update_slice_jvp,
    .transpose = dynamic_update_slice_transpose,
    .partial_eval = mf_partial_eval_all_or_nothing,
    .dce = mf_dce_whole,
    .batch = dynamic_update_slice_batch,
    .variance = mf_variance_join,
    .cost = mf_cost_bytes,
    .lower = mf_lower_none,
    .evaluate = dynamic_update_slice_evaluate,
    MF_HLO_BY(update_slice_hlo),
    .samples = dynamic_update_slice_samples,
};
