/* gather, with XLA's dimension numbers: one window of the operand per index vector. scatter is in index_scatter.c. Invariant: nothing
 * outside the operand is read; the modes are those of index_windows.h. */
#include "ops/index/index_windows.h"
#include "transform/rules/tangent.h"

static mf_error_object *gather_shape(mf_type_context *c, const index_numbers *d, const int64_t *sizes)
{
    const mf_type *x = c->in[0], *indices = c->in[1];
    int64_t dims[2 * MF_RANK], kept[MF_RANK];
    int rank = indices->rank - 1 + d->window->count, n = 0, window = 0, batch = 0;
    for (int i = 0; i < x->rank; i++)
        if (index_is_kept(d, i))
            kept[n++] = sizes[i];
    for (int i = 0; i < rank; i++)
        dims[i] = mf_ints_has(d->window, i) ? kept[window++] : indices->dims[batch++];
    c->out[0] = mf_type_get(x->dtype, x->weak, rank, dims);
    return NULL;
}

static mf_error_object *gather_type(mf_type_context *c)
{
    const mf_intlist *sizes = ((const mf_gather_params *)c->params)->slice_sizes;
    const index_numbers d = index_numbers_of_gather(c->params);
    const mf_type *x = c->in[0];
    mf_error_object *e = index_check(c, &d, c->in[1]->rank - 1 + d.window->count);
    if (e)
        return e;
    if (sizes->count != x->rank)
        return mf_type_error(c, MF_ERROR_SHAPE, "slice_sizes must have one entry for each of the operand's dimensions");
    for (int i = 0; i < x->rank; i++) {
        if (sizes->at[i] < 0 || sizes->at[i] > x->dims[i])
            return mf_type_error(c, MF_ERROR_SHAPE, "slice size %lld does not fit dimension %d of size %lld", (long long)sizes->at[i], i,
                                 (long long)x->dims[i]);
        if (!index_is_kept(&d, i) && sizes->at[i] > 1)
            return mf_type_error(c, MF_ERROR_SHAPE, "the slice size of collapsed or batching dimension %d must be at most 1", i);
    }
    return gather_shape(c, &d, sizes->at);
}

static void gather_jvp(mf_builder *b, const mf_eqn *e, mf_variable *const *in, mf_variable *const *tin, mf_variable **out,
                       mf_variable **tout)
{
    mf_gather_params p = *(const mf_gather_params *)e->params;
    if (p.mode == INDEX_FILL)
        p.mode = INDEX_FILL_ZERO;
    mf_copy_eqn(b, e, in, out);
    tout[0] = tin[0] ? mf_emit(b, e->op, &p, 2, tin[0], in[1]) : NULL;
}

static void gather_transpose(mf_builder *b, const mf_eqn *e, const bool *linear, mf_variable *const *in, mf_variable *const *ct,
                             mf_variable **ct_in)
{
    const index_numbers d = index_numbers_of_gather(e->params);
    mf_scatter_params p = { d.window,           d.collapsed,        d.map,
                            d.operand_batching, d.indices_batching, d.mode == INDEX_FILL_ZERO ? INDEX_FILL : d.mode };
    if (linear[0])
        ct_in[0] = mf_emit(b, &mf_op_scatter_add, &p, 3, mf_tangent_zeros(b, e->in[0]->type), in[1], ct[0]);
}

static void gather_batch(mf_batch_context *c, const mf_eqn *e, mf_variable *const *in, const int *in_axis, mf_variable **out, int *out_axis)
{
    mf_gather_params p = *(const mf_gather_params *)e->params;
    bool operand = in_axis[0] >= 0, indices = in_axis[1] >= 0;
    mf_variable *x = operand ? e_move_axis(c->b, in[0], in_axis[0], 0) : in[0];
    mf_variable *i = indices ? e_move_axis(c->b, in[1], in_axis[1], 0) : in[1];
    p.offset_dims = shape_shifted(p.offset_dims, 0);
    if (operand) {
        p.collapsed_slice_dims = shape_shifted(p.collapsed_slice_dims, 0);
        p.start_index_map = shape_shifted(p.start_index_map, 0);
        p.operand_batching_dims = shape_shifted(p.operand_batching_dims, 0);
        p.slice_sizes = shape_inserted(p.slice_sizes, 0, indices ? c->size > 0 : c->size);
    }
    if (indices)
        p.start_indices_batching_dims = shape_shifted(p.start_indices_batching_dims, 0);
    if (operand && indices) {
        p.operand_batching_dims = shape_inserted(p.operand_batching_dims, 0, 0);
        p.start_indices_batching_dims = shape_inserted(p.start_indices_batching_dims, 0, 0);
    } else if (operand)
        p.offset_dims = shape_inserted(p.offset_dims, 0, 0);
    out[0] = mf_emit(c->b, e->op, &p, 2, x, i);
    out_axis[0] = 0;
}

static mf_cost gather_cost(const mf_eqn *e) { return (mf_cost){ 0, 2 * (double)e->out[0]->type->bytes }; }

static mf_error_object *gather_evaluate(const mf_eqn *e, const void *const *in, void *const *out)
{
    static const int64_t held_once[MF_RANK];
    index_numbers d = index_numbers_of_gather(e->params);
    const mf_type *x = e->in[0]->type, *to = e->out[0]->type;
    const mf_intlist *sizes = ((const mf_gather_params *)e->params)->slice_sizes;
    char fill[16];
    int element = mf_dtype_size(x->dtype);
    int64_t from, side, whole[MF_RANK];
    index_windows w;
    if (to->size == 0)
        return NULL;
    if (d.mode == INDEX_IN_BOUNDS)
        d.mode = INDEX_CLIP;
    index_fill_value(x->dtype, d.mode, fill);
    index_open(&w, &d, x, e->in[1]->type, in[1], to, NULL, sizes->at);
    for (int i = 0; i < x->rank; i++)
        whole[i] = index_is_kept(&d, i) ? sizes->at[i] : 1;
    for (int64_t i = 0; i < w.count; i++) {
        bool inside = index_next(&w, &from, &side);
        mf_copy_strided(x->rank, whole, element, (char *)out[0] + side, w.side_strides, inside ? (const char *)in[0] + from : fill,
                        inside ? w.operand_strides : held_once);
    }
    return NULL;
}

static const mf_param gather_params[] = {
    MF_PARAM(mf_gather_params, offset_dims, MF_PARAM_INTS),
    MF_PARAM(mf_gather_params, collapsed_slice_dims, MF_PARAM_INTS),
    MF_PARAM(mf_gather_params, start_index_map, MF_PARAM_INTS),
    MF_PARAM(mf_gather_params, operand_batching_dims, MF_PARAM_INTS),
    MF_PARAM(mf_gather_params, start_indices_batching_dims, MF_PARAM_INTS),
    MF_PARAM(mf_gather_params, slice_sizes, MF_PARAM_INTS),
    MF_PARAM(mf_gather_params, mode, MF_PARAM_INT),
    { 0 },
};
static const char *const gather_samples[] = {
    "[offset_dims=(1), collapsed_slice_dims=(0), start_index_map=(0), slice_sizes=(1,2)] f32[3,2]{=1,2,3,4,5,6} i32[2,1]{=2,9} "
    "-> f32[2,2]{=5,6,5,6}",
    "[offset_dims=(1), collapsed_slice_dims=(0), start_index_map=(0), slice_sizes=(1,3), mode=3] f32[4,3]{-2:2} i32[5,1]{-1:5}",
    "[offset_dims=(1), collapsed_slice_dims=(0), start_index_map=(0), slice_sizes=(1,1), mode=1] i32[2,1]{=7,8} i32[2,1]{=1,-1} "
    "-> i32[2,1]{=8,-2147483648}",
    "[collapsed_slice_dims=(0,1), start_index_map=(0,1), slice_sizes=(1,1)] f32[4,3]{-2:2} i32[3,2]{-1:4}",
    "[collapsed_slice_dims=(0,1), start_index_map=(1,0), slice_sizes=(1,1)] f32[4,3]{-2:2} i32[2,2,2]{-1:4}",
    "[offset_dims=(1,2), start_index_map=(0,1), slice_sizes=(2,2)] f32[4,3]{-2:2} i32[2,2]{-1:4}",
    "[offset_dims=(0), collapsed_slice_dims=(0), start_index_map=(0), slice_sizes=(1,2), mode=2] f64[4,3]{-2:2} i64[2,2,1]{0:3}",
    "[collapsed_slice_dims=(1), start_index_map=(1), operand_batching_dims=(0), start_indices_batching_dims=(0), slice_sizes=(1,1)] "
    "f32[2,4]{-2:2} i32[2,3,1]{0:3}",
    "[offset_dims=(0), collapsed_slice_dims=(0), start_index_map=(0), slice_sizes=(1,3)] bf16[4,3]{-2:2} i32[1]{=2}",
    "[offset_dims=(1), collapsed_slice_dims=(0), start_index_map=(0), slice_sizes=(1,2)] f32[3,2]{-2:2} i32[0,1]{0:1}",
    "[offset_dims=(0,1), slice_sizes=(2,2)] f32[3,2]{-2:2} i32[0]{0:1}",
    NULL,
};
/* Whether each index vector's window is entirely inside: a bool of the index vectors' shape. */
static mf_hlo_value inside_hlo(mf_hlo *h, const mf_eqn *e, mf_hlo_value indices)
{
    const mf_gather_params *p = e->params;
    const index_numbers d = index_numbers_of_gather(p);
    mf_hlo_value wide = index_signed_hlo(h, indices);
    int axis = wide.type->rank - 1;
    mf_hlo_value high = index_last_starts(h, &d, e->in[0]->type, p->slice_sizes->at, wide.type);
    mf_hlo_value low = h_compare(h, "GE", false, wide, h_full(h, wide.type, 0)); /* a u64 of 2^63 or more is negative: outside too */
    return h_reduce(h, MF_REDUCE_AND, h_binary(h, "and", low, h_compare(h, "LE", false, wide, high)), mf_ints_of(1, axis));
}

/* x where the window is inside, else the mode's fill value. */
static mf_hlo_value filled_hlo(mf_hlo *h, const mf_eqn *e, mf_hlo_value indices, mf_hlo_value x)
{
    const mf_gather_params *p = e->params;
    const mf_type *t = e->out[0]->type;
    unsigned char fill[16] = { 0 };
    int64_t batch[MF_RANK];
    int count = 0;
    for (int i = 0; i < t->rank; i++)
        if (!mf_ints_has(p->offset_dims, i))
            batch[count++] = i;
    index_fill_value(t->dtype, p->mode, fill);
    mf_hlo_value inside = h_broadcast(h, inside_hlo(h, e, indices), mf_type_with_dtype(t, MF_BOOL), mf_ints_intern(batch, count));
    return h_select(h, inside, x, h_bytes(h, t, fill));
}

MF_HLO_RULE(gather_hlo)
{
    const mf_gather_params *p = e->params;
    out[0] = h_op(h, "gather", e->out[0]->type, in, 2,
                  "dimension_numbers = #stablehlo.gather<offset_dims = %s, collapsed_slice_dims = %s, operand_batching_dims = %s, "
                  "start_indices_batching_dims = %s, start_index_map = %s, index_vector_dim = %d>, indices_are_sorted = false, "
                  "slice_sizes = %s",
                  h_list(h, p->offset_dims), h_list(h, p->collapsed_slice_dims), h_list(h, p->operand_batching_dims),
                  h_list(h, p->start_indices_batching_dims), h_list(h, p->start_index_map), e->in[1]->type->rank - 1,
                  h_ints(h, p->slice_sizes));
    if (p->mode == INDEX_FILL || p->mode == INDEX_FILL_ZERO)
        out[0] = filled_hlo(h, e, in[1], out[0]);
}

const mf_op mf_op_gather = {
    .name = "gather",
    .operands = 2,
    .params = gather_params,
    .params_size = sizeof(mf_gather_params),
    .type_rule = gather_type,
    .jvp = gather_jvp,
    .transpose = gather_transpose,
    .partial_eval = mf_partial_eval_all_or_nothing,
    .dce = mf_dce_whole,
    .batch = gather_batch,
    .variance = mf_variance_join,
    .cost = gather_cost,
    .lower = mf_lower_none,
    .evaluate = gather_evaluate,
    MF_HLO_BY(gather_hlo),
    .samples = gather_samples,
};
