/* The windows of gather and scatter: XLA's dimension numbers, and the iteration over index vectors. Invariant: index vectors are visited in
 * row-major order; a window is inside the operand, or it is out of bounds as a whole. Modes: 0 clamps it; 1 gives the fill value or drops
 * the update; 2 is the caller's promise that it is inside (if it is not, gather clamps and scatter drops, as XLA does on the CPU); 3 is 1
 * with zero as the fill value, for the derivative of a gather with mode 1. */
#ifndef MF_OPS_INDEX_INDEX_WINDOWS_H
#define MF_OPS_INDEX_INDEX_WINDOWS_H

#include "ops/shape/shape.h"

enum { INDEX_CLIP, INDEX_FILL, INDEX_IN_BOUNDS, INDEX_FILL_ZERO };

/* The dimension numbers of gather and scatter under common names. `window`: the dimensions of the other side (gather's result, scatter's
 * updates) that run along the window; `collapsed`: the operand's dimensions of size 1 in the window that the other side lacks. */
typedef struct index_numbers {
    const mf_intlist *window, *collapsed, *map, *operand_batching, *indices_batching;
    int64_t mode;
} index_numbers;
index_numbers index_numbers_of_gather(const void *params);
index_numbers index_numbers_of_scatter(const void *params);
bool index_is_kept(const index_numbers *d, int64_t i); /* whether dimension i of the operand runs along the window */
/* For type rules. side_rank: the rank of gather's result or of scatter's updates. */
mf_error_object *index_check(const mf_type_context *c, const index_numbers *d, int side_rank);

/* Iterates over the index vectors: for each, where its window begins in the operand and on the other side, whose layout is `strides`
 * (bytes), or row-major if NULL. */
typedef struct index_windows {
    const index_numbers *d;
    const mf_type *operand, *indices;
    int64_t size[MF_RANK];                                   /* of the window, by dimension of the operand */
    int64_t operand_strides[MF_RANK], side_strides[MF_RANK]; /* in bytes, by dimension of the operand */
    int batch_rank;
    int64_t batch_strides[MF_RANK]; /* in bytes on the other side, by dimension of the indices */
    int64_t at[MF_RANK];            /* the current position among the index vectors */
    const char *vector;
    int64_t count, vector_bytes;
} index_windows;
void index_open(index_windows *w, const index_numbers *d, const mf_type *operand, const mf_type *indices, const void *index_data,
                const mf_type *side, const int64_t *strides, const int64_t *size);
/* Returns the offsets of the current window and advances. False: the window is out of bounds. */
bool index_next(index_windows *w, int64_t *operand_offset, int64_t *side_offset);
/* Indices in i64. A u64 of 2^63 or more is large, not negative: it becomes 2^62, which is beyond every dimension. */
mf_hlo_value index_signed_hlo(mf_hlo *h, mf_hlo_value x);
/* As StableHLO: the last start at which a window is inside, for each element of index vectors of type `wide` (i64); sizes as above. */
mf_hlo_value index_last_starts(mf_hlo *h, const index_numbers *d, const mf_type *operand, const int64_t *size, const mf_type *wide);
/* What gather gives out of bounds: NaN, the least signed integer, the greatest unsigned one, true; zero in all modes but INDEX_FILL. */
void index_fill_value(mf_dtype dtype, int64_t mode, void *out);

#endif
