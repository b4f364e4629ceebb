/* Interned array types: dtype, weak flag, shape. Equal types have one address. Rank is at most MF_RANK inside the library. */
#ifndef MF_ARRAY_TYPES_TYPE_H
#define MF_ARRAY_TYPES_TYPE_H

#include "array/types/dtype.h"
#include "base/text/string.h"

#define MF_RANK 16 /* more than the public limit of 8: nested maps add batch axes */

typedef struct mf_type {
    mf_dtype dtype;
    bool weak; /* of a number without a dtype of its own (a Python scalar in JAX): yields in promotion */
    int rank;
    int64_t size;          /* elements */
    int64_t bytes;         /* contiguous, row by row */
    int64_t dims[MF_RANK]; /* zero beyond rank */
} mf_type;

const mf_type *mf_type_get(mf_dtype dtype, bool weak, int rank, const int64_t *dims); /* NULL when the rank or size is too large */
const mf_type *mf_type_scalar(mf_dtype dtype, bool weak);
const mf_type *mf_type_with_dtype(const mf_type *t, mf_dtype dtype); /* the result is strong */
const mf_type *mf_type_strong(const mf_type *t);
const mf_type *mf_type_with_shape(const mf_type *t, int rank, const int64_t *dims);
const mf_type *mf_type_without_axis(const mf_type *t, int axis);
const mf_type *mf_type_insert_axis(const mf_type *t, int axis, int64_t size);
const mf_type *mf_type_of_shape(mf_dtype dtype, mf_shape shape); /* NULL for a bad shape */
/* Whether the last call on this thread that returned no type was out of memory, rather than given a bad argument. */
bool mf_type_memory_was_out(void);
bool mf_type_same_shape(const mf_type *a, const mf_type *b);
void mf_type_print(mf_text *t, const mf_type *type); /* f32[2,3], f32[]{weak} as "f32[]*" */
const mf_type *mf_type_parse(const char **s);        /* the inverse; NULL on bad text */
const char *mf_type_name(const mf_type *type);       /* "float32[2,3]" for messages; lives as long as the process */

#endif
