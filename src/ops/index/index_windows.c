/* The windows of gather and scatter; see index_windows.h. */
#include "ops/index/index_windows.h"

#include <math.h>
#include <string.h>

index_numbers index_numbers_of_gather(const void *params)
{
    const mf_gather_params *p = params;
    return (index_numbers){ p->offset_dims,           p->collapsed_slice_dims,        p->start_index_map,
                            p->operand_batching_dims, p->start_indices_batching_dims, p->mode };
}

index_numbers index_numbers_of_scatter(const void *params)
{
    const mf_scatter_params *p = params;
    return (index_numbers){ p->update_window_dims,    p->inserted_window_dims,          p->scatter_dims_to_operand_dims,
                            p->operand_batching_dims, p->scatter_indices_batching_dims, p->mode };
}

bool index_is_kept(const index_numbers *d, int64_t i) { return !mf_ints_has(d->collapsed, i) && !mf_ints_has(d->operand_batching, i); }

static mf_error_object *check_batching(const mf_type_context *c, const index_numbers *d)
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

mf_error_object *index_check(const mf_type_context *c, const index_numbers *d, int side_rank)
{
    const mf_type *x = c->in[0], *indices = c->in[1];
    if (!mf_dtype_is_int(indices->dtype))
        return mf_type_error(c, MF_ERROR_DTYPE, "the indices must be integers");
    if (indices->rank < 1 || indices->dims[indices->rank - 1] != d->map->count)
        return mf_type_error(c, MF_ERROR_SHAPE,
                             "the last dimension of the indices must have one entry for each of the %d indexed dimensions", d->map->count);
    if (d->mode < INDEX_CLIP || d->mode > INDEX_FILL_ZERO)
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

void index_open(index_windows *w, const index_numbers *d, const mf_type *operand, const mf_type *indices, const void *index_data,
                const mf_type *side, const int64_t *strides, const int64_t *size)
{
    int64_t own[MF_RANK];
    *w = (index_windows){
        .d = d, .operand = operand, .indices = indices, .batch_rank = indices->rank - 1, .vector = index_data, .count = 1
    };
    mf_contiguous_strides(operand, w->operand_strides);
    if (strides)
        memcpy(own, strides, (size_t)side->rank * sizeof *own);
    else
        mf_contiguous_strides(side, own);
    for (int i = 0, next = 0; i < operand->rank; i++) {
        w->size[i] = size[i];
        w->side_strides[i] = index_is_kept(d, i) ? own[d->window->at[next++]] : 0;
    }
    for (int i = 0, next = 0; i < side->rank; i++)
        if (!mf_ints_has(d->window, i) && next < w->batch_rank)
            w->batch_strides[next++] = own[i];
    for (int i = 0; i < w->batch_rank; i++)
        w->count *= indices->dims[i];
    w->vector_bytes = d->map->count * (int64_t)mf_dtype_size(indices->dtype);
}

bool index_next(index_windows *w, int64_t *operand_offset, int64_t *side_offset)
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
        if (w->d->mode == INDEX_CLIP)
            start[i] = start[i] < 0 ? 0 : start[i] > last ? last : start[i];
        inside = inside && start[i] >= 0 && start[i] <= last && (w->size[i] > 0 || index_is_kept(w->d, i));
        *operand_offset += inside ? start[i] * w->operand_strides[i] : 0;
    }
    for (int i = 0; i < w->batch_rank; i++)
        *side_offset += w->at[i] * w->batch_strides[i];
    w->vector += w->vector_bytes;
    for (int i = w->batch_rank - 1; i >= 0 && ++w->at[i] == w->indices->dims[i]; i--)
        w->at[i] = 0;
    return inside;
}

mf_hlo_value index_last_starts(mf_hlo *h, const index_numbers *d, const mf_type *operand, const int64_t *size, const mf_type *wide)
{
    int64_t count = d->map->count, last[MF_RANK];
    const mf_type *line = mf_type_get(MF_I64, false, 1, &count);
    void *bytes;
    mf_literal *limits = line ? mf_literal_new(line, &bytes) : NULL;
    if (!limits) {
        h_fail(h, NULL);
        return (mf_hlo_value){ 0, wide };
    }
    for (int64_t k = 0; k < count; k++)
        last[k] = operand->dims[d->map->at[k]] - size[d->map->at[k]];
    memcpy(bytes, last, (size_t)count * sizeof *last);
    mf_hlo_value high = h_broadcast(h, h_literal(h, limits), wide, mf_ints_of(1, wide->rank - 1));
    mf_drop(limits);
    return high;
}

void index_fill_value(mf_dtype dtype, int64_t mode, void *out)
{
    memset(out, 0, (size_t)mf_dtype_size(dtype));
    if (mode != INDEX_FILL)
        return;
    if (mf_dtype_is_complex(dtype)) {
        mf_dtype part = dtype == MF_C64 ? MF_F32 : MF_F64;
        mf_store_f64(part, out, NAN);
        mf_store_f64(part, (char *)out + mf_dtype_size(part), 0);
    } else if (mf_dtype_is_float(dtype))
        mf_store_f64(dtype, out, NAN);
    else if (mf_dtype_is_signed(dtype))
        mf_store_i64(dtype, out, dtype == MF_I64 ? INT64_MIN : -((int64_t)1 << (8 * mf_dtype_size(dtype) - 1)));
    else if (dtype != MF_KEY)
        mf_store_i64(dtype, out, dtype == MF_BOOL ? 1 : -1);
}
