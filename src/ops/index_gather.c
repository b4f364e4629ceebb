/* gather, scatter and scatter_add, with XLA's dimension numbers.
 *
 * Invariant: each sees one window per index vector, and index vectors are taken in row-major order: of several updates of one element
 * the last one stays, and sums add up in that order. A window lies inside the operand as a whole or counts as out of bounds as a
 * whole. Modes: 0 moves it inside, 1 gives the fill value or drops the update, 2 is the caller's word that it is inside (where it is
 * not, gather moves it and scatter drops it, as XLA on the CPU), 3 is 1 with zero as the fill value: the derivative of a gather with 1. */
#include "ops/shape.h"
#include "transform/tangent.h"
#include <math.h>
#include <string.h>

enum { CLIP, FILL, IN_BOUNDS, FILL_ZERO };

/* ---- gather and scatter: the dimension numbers under one set of names. `window`: the dimensions of the other side (gather's result,
 * scatter's updates) that run along the window; `collapsed`: the operand's dimensions that are 1 in it and missing there. */
typedef struct numbers {
    const mf_intlist *window, *collapsed, *map, *operand_batching, *indices_batching;
    int64_t mode;
} numbers;

static numbers of_gather(const void *params)
{
    const mf_gather_params *p = params;
    return (numbers){ p->offset_dims,           p->collapsed_slice_dims,        p->start_index_map,
                      p->operand_batching_dims, p->start_indices_batching_dims, p->mode };
}

static numbers of_scatter(const void *params)
{
    const mf_scatter_params *p = params;
    return (numbers){ p->update_window_dims,    p->inserted_window_dims,          p->scatter_dims_to_operand_dims,
                      p->operand_batching_dims, p->scatter_indices_batching_dims, p->mode };
}

static bool is_kept(const numbers *d, int64_t i) { return !mf_ints_has(d->collapsed, i) && !mf_ints_has(d->operand_batching, i); }

static mf_error_object *check_batching(const mf_type_context *c, const numbers *d)
{
    const mf_type *x = c->in[0], *indices = c->in[1];
    if (d->operand_batching->count != d->indices_batching->count)
        return mf_type_error(c, MF_ERROR_SHAPE, "the operand and the indices must have equally many batching dimensions");
    if (!shape_distinct(d->operand_batching, x->rank) || !shape_distinct(d->indices_batching, indices->rank - 1))
        return mf_type_error(c, MF_ERROR_AXIS, "batching dimensions must be distinct dimensions of the operand and of the indices");
    for (int i = 0; i < d->operand_batching->count; i++) {
        int64_t m = x->dims[d->operand_batching->at[i]], n = indices->dims[d->indices_batching->at[i]];
        if (m != n)
            return mf_type_error(c, MF_ERROR_SHAPE, "batching dimension number %d has size %lld in the operand and %lld in the indices", i,
                                 (long long)m, (long long)n);
        if (mf_ints_has(d->collapsed, d->operand_batching->at[i]) || mf_ints_has(d->map, d->operand_batching->at[i]))
            return mf_type_error(c, MF_ERROR_AXIS, "a batching dimension can neither be indexed nor be collapsed besides");
    }
    return NULL;
}

/* side_rank: the rank of gather's result or of scatter's updates. */
static mf_error_object *check_numbers(const mf_type_context *c, const numbers *d, int side_rank)
{
    const mf_type *x = c->in[0], *indices = c->in[1];
    if (!mf_dtype_is_int(indices->dtype))
        return mf_type_error(c, MF_ERROR_DTYPE, "the indices must be integers");
    if (indices->rank < 1 || indices->dims[indices->rank - 1] != d->map->count)
        return mf_type_error(c, MF_ERROR_SHAPE,
                             "the last dimension of the indices must have one entry for each of the %d indexed dimensions", d->map->count);
    if (d->mode < CLIP || d->mode > FILL_ZERO)
        return mf_type_error(c, MF_ERROR_ARGUMENT, "there is no mode %lld", (long long)d->mode);
    if (!shape_distinct(d->map, x->rank))
        return mf_type_error(c, MF_ERROR_AXIS, "indexed dimensions must be distinct dimensions of the operand");
    if (!shape_increasing(d->collapsed, x->rank))
        return mf_type_error(c, MF_ERROR_AXIS, "collapsed dimensions must increase and be dimensions of the operand");
    if (d->window->count != x->rank - d->collapsed->count - d->operand_batching->count)
        return mf_type_error(c, MF_ERROR_SHAPE,
                             "%d window dimensions do not cover the %d of the operand that are neither collapsed nor batching",
                             d->window->count, x->rank - d->collapsed->count - d->operand_batching->count);
    if (!shape_increasing(d->window, side_rank))
        return mf_type_error(c, MF_ERROR_AXIS, "window dimensions must increase and lie within rank %d", side_rank);
    return check_batching(c, d);
}

/* One index vector after the other: where its window begins in the operand and where on the other side. */
typedef struct windows {
    const numbers *d;
    const mf_type *operand, *indices;
    int64_t size[MF_RANK];                                   /* of the window, by dimension of the operand */
    int64_t operand_strides[MF_RANK], side_strides[MF_RANK]; /* bytes, by dimension of the operand */
    int batch_rank;
    int64_t batch_strides[MF_RANK]; /* bytes of the other side, by dimension of the indices */
    int64_t at[MF_RANK];            /* the position among the index vectors */
    const char *vector;
    int64_t count, vector_bytes;
} windows;

static void open_windows(windows *w, const numbers *d, const mf_type *operand, const mf_type *indices, const void *index_data,
                         const mf_type *side, const int64_t *size)
{
    int64_t own[MF_RANK];
    *w = (windows){ .d = d, .operand = operand, .indices = indices, .batch_rank = indices->rank - 1, .vector = index_data, .count = 1 };
    mf_contiguous_strides(operand, w->operand_strides);
    mf_contiguous_strides(side, own);
    for (int i = 0, next = 0; i < operand->rank; i++) {
        w->size[i] = size[i];
        w->side_strides[i] = is_kept(d, i) ? own[d->window->at[next++]] : 0;
    }
    for (int i = 0, next = 0; i < side->rank; i++)
        if (!mf_ints_has(d->window, i) && next < w->batch_rank)
            w->batch_strides[next++] = own[i];
    for (int i = 0; i < w->batch_rank; i++)
        w->count *= indices->dims[i];
    w->vector_bytes = d->map->count * (int64_t)mf_dtype_size(indices->dtype);
}

/* The offsets of the current window, then moves on. False: it is not inside. */
static bool next_window(windows *w, int64_t *operand_offset, int64_t *side_offset)
{
    int64_t start[MF_RANK] = { 0 };
    int element = mf_dtype_size(w->indices->dtype);
    bool inside = true;
    *operand_offset = *side_offset = 0;
    for (int k = 0; k < w->d->map->count; k++) {
        int64_t x = mf_load_i64(w->indices->dtype, w->vector + k * element);
        start[w->d->map->at[k]] = w->indices->dtype == MF_U64 && x < 0 ? INT64_MAX : x;
    }
    for (int k = 0; k < w->d->operand_batching->count; k++)
        start[w->d->operand_batching->at[k]] = w->at[w->d->indices_batching->at[k]];
    for (int i = 0; i < w->operand->rank; i++) {
        int64_t last = w->operand->dims[i] - w->size[i];
        if (w->d->mode == CLIP)
            start[i] = start[i] < 0 ? 0 : start[i] > last ? last : start[i];
        inside = inside && start[i] >= 0 && start[i] <= last && (w->size[i] > 0 || is_kept(w->d, i));
        *operand_offset += inside ? start[i] * w->operand_strides[i] : 0;
    }
    for (int i = 0; i < w->batch_rank; i++)
        *side_offset += w->at[i] * w->batch_strides[i];
    w->vector += w->vector_bytes;
    for (int i = w->batch_rank - 1; i >= 0 && ++w->at[i] == w->indices->dims[i]; i--)
        w->at[i] = 0;
    return inside;
}

/* ---- gather */
static mf_error_object *gather_shape(mf_type_context *c, const numbers *d, const int64_t *sizes)
{
    const mf_type *x = c->in[0], *indices = c->in[1];
    int64_t dims[2 * MF_RANK], kept[MF_RANK];
    int rank = indices->rank - 1 + d->window->count, n = 0, window = 0, batch = 0;
    for (int i = 0; i < x->rank; i++)
        if (is_kept(d, i))
            kept[n++] = sizes[i];
    for (int i = 0; i < rank; i++)
        dims[i] = mf_ints_has(d->window, i) ? kept[window++] : indices->dims[batch++];
    c->out[0] = mf_type_get(x->dtype, x->weak, rank, dims);
    return NULL;
}

static mf_error_object *gather_type(mf_type_context *c)
{
    const mf_intlist *sizes = ((const mf_gather_params *)c->params)->slice_sizes;
    const numbers d = of_gather(c->params);
    const mf_type *x = c->in[0];
    mf_error_object *e = check_numbers(c, &d, c->in[1]->rank - 1 + d.window->count);
    if (e)
        return e;
    if (sizes->count != x->rank)
        return mf_type_error(c, MF_ERROR_SHAPE, "slice_sizes must have one entry for each of the operand's dimensions");
    for (int i = 0; i < x->rank; i++) {
        if (sizes->at[i] < 0 || sizes->at[i] > x->dims[i])
            return mf_type_error(c, MF_ERROR_SHAPE, "slice size %lld does not fit dimension %d of size %lld", (long long)sizes->at[i], i,
                                 (long long)x->dims[i]);
        if (!is_kept(&d, i) && sizes->at[i] > 1)
            return mf_type_error(c, MF_ERROR_SHAPE, "the slice size of collapsed or batching dimension %d must be at most 1", i);
    }
    return gather_shape(c, &d, sizes->at);
}

static void gather_jvp(mf_builder *b, const mf_eqn *e, mf_var *const *in, mf_var *const *tin, mf_var **out, mf_var **tout)
{
    mf_gather_params p = *(const mf_gather_params *)e->params;
    if (p.mode == FILL)
        p.mode = FILL_ZERO;
    mf_copy_eqn(b, e, in, out);
    tout[0] = tin[0] ? mf_emit(b, e->op, &p, 2, tin[0], in[1]) : NULL;
}

static void gather_transpose(mf_builder *b, const mf_eqn *e, const bool *linear, mf_var *const *in, mf_var *const *ct, mf_var **ct_in)
{
    const numbers d = of_gather(e->params);
    mf_scatter_params p = { d.window, d.collapsed, d.map, d.operand_batching, d.indices_batching, d.mode == FILL_ZERO ? FILL : d.mode };
    if (linear[0])
        ct_in[0] = mf_emit(b, &mf_op_scatter_add, &p, 3, mf_tangent_zeros(b, e->in[0]->type), in[1], ct[0]);
}

static void gather_batch(mf_batch_context *c, const mf_eqn *e, mf_var *const *in, const int *in_axis, mf_var **out, int *out_axis)
{
    mf_gather_params p = *(const mf_gather_params *)e->params;
    bool operand = in_axis[0] >= 0, indices = in_axis[1] >= 0;
    mf_var *x = operand ? e_move_axis(c->b, in[0], in_axis[0], 0) : in[0];
    mf_var *i = indices ? e_move_axis(c->b, in[1], in_axis[1], 0) : in[1];
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

/* NaN, the least integer, the greatest unsigned one, true. */
static void fill_value(mf_dtype dtype, int64_t mode, void *out)
{
    memset(out, 0, (size_t)mf_dtype_size(dtype));
    if (mode != FILL)
        return;
    if (mf_dtype_is_complex(dtype)) {
        mf_dtype part = dtype == MF_C64 ? MF_F32 : MF_F64;
        mf_store_f64(part, out, NAN);
        mf_store_f64(part, (char *)out + mf_dtype_size(part), NAN);
    } else if (mf_dtype_is_float(dtype))
        mf_store_f64(dtype, out, NAN);
    else if (mf_dtype_is_signed(dtype))
        mf_store_i64(dtype, out, dtype == MF_I64 ? INT64_MIN : -((int64_t)1 << (8 * mf_dtype_size(dtype) - 1)));
    else if (dtype != MF_KEY)
        mf_store_i64(dtype, out, dtype == MF_BOOL ? 1 : -1);
}

static mf_cost gather_cost(const mf_eqn *e) { return (mf_cost){ 0, 2 * (double)e->out[0]->type->bytes }; }

static mf_error_object *gather_evaluate(const mf_eqn *e, const void *const *in, void *const *out)
{
    static const int64_t held_once[MF_RANK];
    numbers d = of_gather(e->params);
    const mf_type *x = e->in[0]->type, *to = e->out[0]->type;
    const mf_intlist *sizes = ((const mf_gather_params *)e->params)->slice_sizes;
    char fill[16];
    int element = mf_dtype_size(x->dtype);
    int64_t from, side, whole[MF_RANK];
    windows w;
    if (to->size == 0)
        return NULL;
    if (d.mode == IN_BOUNDS)
        d.mode = CLIP;
    fill_value(x->dtype, d.mode, fill);
    open_windows(&w, &d, x, e->in[1]->type, in[1], to, sizes->at);
    for (int i = 0; i < x->rank; i++)
        whole[i] = is_kept(&d, i) ? sizes->at[i] : 1;
    for (int64_t i = 0; i < w.count; i++) {
        bool inside = next_window(&w, &from, &side);
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
    { NULL, 0, 0 },
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
const mf_op mf_op_gather = {
    .name = "gather",
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
    .samples = gather_samples,
};

/* ---- scatter and scatter_add: operand, indices, updates */
/* The size of the window by dimension of the operand. */
static void window_sizes(const numbers *d, const mf_type *operand, const mf_type *updates, int64_t *size)
{
    for (int i = 0, next = 0; i < operand->rank; i++)
        size[i] = is_kept(d, i) ? updates->dims[d->window->at[next++]] : 1;
}

static mf_error_object *scatter_type(mf_type_context *c)
{
    const numbers d = of_scatter(c->params);
    const mf_type *x = c->in[0], *indices = c->in[1], *u = c->in[2];
    int64_t size[MF_RANK];
    mf_error_object *e = check_numbers(c, &d, u->rank);
    if (e)
        return e;
    if (u->dtype != x->dtype)
        return mf_type_error(c, MF_ERROR_DTYPE, "the updates' dtype must be the operand's");
    if (u->rank != indices->rank - 1 + d.window->count)
        return mf_type_error(c, MF_ERROR_SHAPE, "the updates must have rank %d", indices->rank - 1 + d.window->count);
    window_sizes(&d, x, u, size);
    for (int i = 0; i < x->rank; i++)
        if (is_kept(&d, i) && size[i] > x->dims[i])
            return mf_type_error(c, MF_ERROR_SHAPE, "the window is larger than the operand in dimension %d", i);
    for (int i = 0, next = 0; i < u->rank; i++)
        if (!mf_ints_has(d.window, i) && u->dims[i] != indices->dims[next++])
            return mf_type_error(c, MF_ERROR_SHAPE, "the updates' dimension %d must have the size of the indices' dimension %d", i,
                                 next - 1);
    c->out[0] = x->weak && !u->weak ? mf_type_strong(x) : x;
    return NULL;
}

/* scatter_add and, as the last update of an element always wins, scatter too are linear in operand and updates together. */
static void scatter_jvp(mf_builder *b, const mf_eqn *e, mf_var *const *in, mf_var *const *tin, mf_var **out, mf_var **tout)
{
    mf_copy_eqn(b, e, in, out);
    tout[0] = NULL;
    if (!tin[0] && !tin[2])
        return;
    tout[0] = mf_emit(b, e->op, e->params, 3, mf_tangent_or_zeros(b, tin[0], e->in[0]->type), in[1],
                      mf_tangent_or_zeros(b, tin[2], e->in[2]->type));
}

/* What the updates' places hold in x. */
static mf_var *gathered(mf_builder *b, const mf_eqn *e, mf_var *x, mf_var *indices)
{
    const numbers d = of_scatter(e->params);
    int64_t size[MF_RANK];
    window_sizes(&d, e->in[0]->type, e->in[2]->type, size);
    mf_gather_params p = { d.window,
                           d.collapsed,
                           d.map,
                           d.operand_batching,
                           d.indices_batching,
                           mf_ints_intern(size, e->in[0]->type->rank),
                           d.mode == CLIP ? CLIP : FILL_ZERO };
    return mf_emit(b, &mf_op_gather, &p, 2, x, indices);
}

static void scatter_add_transpose(mf_builder *b, const mf_eqn *e, const bool *linear, mf_var *const *in, mf_var *const *ct, mf_var **ct_in)
{
    if (linear[0])
        ct_in[0] = ct[0];
    if (linear[2])
        ct_in[2] = gathered(b, e, ct[0], in[1]);
}

/* Which updates stayed: numbers them, scatters the numbers and sees which ones are still there. */
static mf_var *winners(mf_builder *b, const mf_eqn *e, mf_var *indices)
{
    const mf_type *u = e->in[2]->type;
    mf_dtype dtype = u->size < INT32_MAX ? MF_I32 : MF_I64;
    mf_var *number = e_shift(b, e_reshape_type(b, e_iota(b, dtype, 1, &u->size, 0), u), 1);
    mf_var *nothing = e_full(b, mf_type_with_dtype(e->in[0]->type, dtype), 0);
    mf_var *left = gathered(b, e, mf_emit(b, &mf_op_scatter, e->params, 3, nothing, indices, number), indices);
    return e_compare(b, &mf_op_eq, left, number);
}

static void scatter_transpose(mf_builder *b, const mf_eqn *e, const bool *linear, mf_var *const *in, mf_var *const *ct, mf_var **ct_in)
{
    mf_var *none = mf_tangent_zeros(b, e->in[2]->type);
    if (linear[0])
        ct_in[0] = mf_emit(b, e->op, e->params, 3, ct[0], in[1], none);
    if (linear[2])
        ct_in[2] = e_select(b, winners(b, e, in[1]), gathered(b, e, ct[0], in[1]), none);
}

static void scatter_batch(mf_batch_context *c, const mf_eqn *e, mf_var *const *in, const int *in_axis, mf_var **out, int *out_axis)
{
    mf_scatter_params p = *(const mf_scatter_params *)e->params;
    mf_var *x = e_batched_at(c, in[0], in_axis[0], 0), *u = e_batched_at(c, in[2], in_axis[2], 0), *i = in[1];
    p.update_window_dims = shape_shifted(p.update_window_dims, 0);
    p.inserted_window_dims = shape_shifted(p.inserted_window_dims, 0);
    p.scatter_dims_to_operand_dims = shape_shifted(p.scatter_dims_to_operand_dims, 0);
    p.operand_batching_dims = shape_shifted(p.operand_batching_dims, 0);
    if (in_axis[1] < 0)
        p.update_window_dims = shape_inserted(p.update_window_dims, 0, 0);
    else {
        i = e_move_axis(c->b, i, in_axis[1], 0);
        p.operand_batching_dims = shape_inserted(p.operand_batching_dims, 0, 0);
        p.scatter_indices_batching_dims = shape_inserted(shape_shifted(p.scatter_indices_batching_dims, 0), 0, 0);
    }
    out[0] = mf_emit(c->b, e->op, &p, 3, x, i, u);
    out_axis[0] = 0;
}

/* out += in for one element; f16 and bf16 round after each addition. */
static void add_element(mf_dtype dtype, char *out, const char *in)
{
    if (dtype == MF_F32) {
        float x, y;
        memcpy(&x, out, sizeof x);
        memcpy(&y, in, sizeof y);
        x += y;
        memcpy(out, &x, sizeof x);
    } else if (mf_dtype_is_complex(dtype)) {
        mf_dtype part = dtype == MF_C64 ? MF_F32 : MF_F64;
        add_element(part, out, in);
        add_element(part, out + mf_dtype_size(part), in + mf_dtype_size(part));
    } else if (mf_dtype_is_float(dtype))
        mf_store_f64(dtype, out, mf_load_f64(dtype, out) + mf_load_f64(dtype, in)); /* a double holds the sum of two halves well enough */
    else if (dtype == MF_BOOL)
        mf_store_i64(dtype, out, mf_load_i64(dtype, out) | mf_load_i64(dtype, in));
    else
        mf_store_i64(dtype, out, (int64_t)((uint64_t)mf_load_i64(dtype, out) + (uint64_t)mf_load_i64(dtype, in)));
}

static void add_row(mf_dtype dtype, int64_t n, char *out, int64_t out_step, const char *in, int64_t in_step)
{
    for (int64_t i = 0; i < n; i++)
        add_element(dtype, out + i * out_step, in + i * in_step);
}

static void add_window(const windows *w, int axis, char *out, const char *in)
{
    int last = w->operand->rank - 1;
    if (axis >= last) {
        add_row(w->operand->dtype, last < 0 ? 1 : w->size[last], out, last < 0 ? 0 : w->operand_strides[last], in,
                last < 0 ? 0 : w->side_strides[last]);
        return;
    }
    for (int64_t i = 0; i < w->size[axis]; i++)
        add_window(w, axis + 1, out + i * w->operand_strides[axis], in + i * w->side_strides[axis]);
}

static mf_error_object *scatter_evaluate(const mf_eqn *e, const void *const *in, void *const *out)
{
    const numbers d = of_scatter(e->params);
    const mf_type *x = e->in[0]->type, *u = e->in[2]->type;
    int64_t size[MF_RANK], to, from;
    windows w;
    if (x->bytes && out[0] != in[0])
        memcpy(out[0], in[0], (size_t)x->bytes);
    if (u->size == 0)
        return NULL;
    window_sizes(&d, x, u, size);
    open_windows(&w, &d, x, e->in[1]->type, in[1], u, size);
    for (int64_t i = 0; i < w.count; i++) {
        if (!next_window(&w, &to, &from))
            continue;
        if (e->op == &mf_op_scatter)
            mf_copy_strided(x->rank, w.size, mf_dtype_size(x->dtype), (char *)out[0] + to, w.operand_strides, (const char *)in[2] + from,
                            w.side_strides);
        else
            add_window(&w, 0, (char *)out[0] + to, (const char *)in[2] + from);
    }
    return NULL;
}

static const mf_param scatter_params[] = {
    MF_PARAM(mf_scatter_params, update_window_dims, MF_PARAM_INTS),
    MF_PARAM(mf_scatter_params, inserted_window_dims, MF_PARAM_INTS),
    MF_PARAM(mf_scatter_params, scatter_dims_to_operand_dims, MF_PARAM_INTS),
    MF_PARAM(mf_scatter_params, operand_batching_dims, MF_PARAM_INTS),
    MF_PARAM(mf_scatter_params, scatter_indices_batching_dims, MF_PARAM_INTS),
    MF_PARAM(mf_scatter_params, mode, MF_PARAM_INT),
    { NULL, 0, 0 },
};
/* clang-format off */
#define SCATTER_SAMPLES                                                                                                                \
    "[update_window_dims=(1), inserted_window_dims=(0), scatter_dims_to_operand_dims=(0), mode=1] "                                    \
    "f32[4,3]{-2:2} i32[4,1]{=2,0,2,9} f32[4,3]{-2:2}",                                                                                \
    "[update_window_dims=(1), inserted_window_dims=(0), scatter_dims_to_operand_dims=(0)] "                                            \
    "f32[4,3]{-2:2} i32[4,1]{=2,-1,4,2} f32[4,3]{-2:2}",                                                                               \
    "[inserted_window_dims=(0,1), scatter_dims_to_operand_dims=(0,1), mode=1] f32[4,3]{-2:2} i32[3,2]{=0,1,3,2,0,1} f32[3]{-2:2}",     \
    "[update_window_dims=(1,2), scatter_dims_to_operand_dims=(0,1), mode=1] f64[4,3]{-2:2} i32[2,2]{=0,1,3,2} f64[2,2,2]{-2:2}",       \
    "[inserted_window_dims=(1), scatter_dims_to_operand_dims=(1), operand_batching_dims=(0), scatter_indices_batching_dims=(0)] "      \
    "f32[2,4]{-2:2} i32[2,3,1]{0:3} f32[2,3]{-2:2}",                                                                                   \
    "[update_window_dims=(1), inserted_window_dims=(0), scatter_dims_to_operand_dims=(0)] "                                            \
    "f32[4,3]{-2:2} i64[0,1]{0:1} f32[0,3]{-2:2}",                                                                                     \
    "[update_window_dims=(0), inserted_window_dims=(0), scatter_dims_to_operand_dims=(0)] i32[3,2]{-9:9} i32[1]{=1} i32[2]{-9:9}"
static const char *const scatter_samples[] = {
    "[inserted_window_dims=(0), scatter_dims_to_operand_dims=(0), mode=1] f32[3]{=1,2,3} i32[4,1]{=0,5,0,2} f32[4]{=7,8,9,4} -> f32[3]{=9,2,4}",
    SCATTER_SAMPLES, NULL,
};
static const char *const scatter_add_samples[] = {
    "[inserted_window_dims=(0), scatter_dims_to_operand_dims=(0), mode=1] i32[3]{=1,2,3} i32[4,1]{=0,5,0,2} i32[4]{=7,8,9,4} -> i32[3]{=17,2,7}",
    SCATTER_SAMPLES, NULL,
};
/* clang-format on */
const mf_op mf_op_scatter = {
    .name = "scatter",
    .params = scatter_params,
    .params_size = sizeof(mf_scatter_params),
    .type_rule = scatter_type,
    .jvp = scatter_jvp,
    .transpose = scatter_transpose,
    .partial_eval = mf_partial_eval_all_or_nothing,
    .dce = mf_dce_whole,
    .batch = scatter_batch,
    .variance = mf_variance_join,
    .cost = mf_cost_bytes,
    .lower = mf_lower_none,
    .evaluate = scatter_evaluate,
    .samples = scatter_samples,
};

const mf_op mf_op_scatter_add = {
    .name = "scatter_add",
    .params = scatter_params,
    .params_size = sizeof(mf_scatter_params),
    .type_rule = scatter_type,
    .jvp = scatter_jvp,
    .transpose = scatter_add_transpose,
    .partial_eval = mf_partial_eval_all_or_nothing,
    .dce = mf_dce_whole,
    .batch = scatter_batch,
    .variance = mf_variance_join,
    .cost = mf_cost_elementwise,
    .lower = mf_lower_none,
    .evaluate = scatter_evaluate,
    .samples = scatter_add_samples,
};
