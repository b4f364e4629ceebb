/* Indices, as gathers and scatters take them. */
#ifndef MF_LAX_INDEX_WRAP_H
#define MF_LAX_INDEX_WRAP_H

#include "lax/wrap.h"

/* A gather's modes. JAX's x[...] is in bounds, whose gradient drops what is out of them. */
enum { GATHER_CLIP = 0, GATHER_FILL = 1, GATHER_IN_BOUNDS = 2 };

mf_array *index_number(mf_value v);       /* NULL unless it is an array of rank 0 */
mf_value index_error(mf_error_object *e); /* NULL: memory is short */
mf_value index_scalar(mf_dtype dtype, int64_t x);
/* An integer index with what is negative counted from the end, of at least 32 bits; or an error. */
mf_value index_wrapped(mf_value index, int64_t size, const char *op);
mf_value index_dynamic_slice(mf_value x, const mf_value *starts, const int64_t *sizes);
/* 0, 1, ... before `at`, then going on `width` further, count numbers in all. */
const mf_intlist *index_around(int at, int width, int count);
/* Index arrays of one shape as index vectors: [shape..., count]. */
mf_value index_vectors(mf_value *index, int count);
/* For x.at[...].add(update) and its like, which compute in the dtype that both promote to and give x's own: promotes both; *given is x's
 * type. False: x is the error. */
bool index_promoted(mf_value *x, mf_value *update, const mf_type **given, const char *name);

#endif
