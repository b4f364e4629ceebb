/* Index arrays as gather and scatter need them. */
#ifndef MF_LAX_ARRAY_INDEX_WRAP_H
#define MF_LAX_ARRAY_INDEX_WRAP_H

#include "lax/wrap.h"

/* The modes of a gather. JAX's x[...] is IN_BOUNDS; its gradient drops updates that are out of bounds. */
enum { GATHER_CLIP = 0, GATHER_FILL = 1, GATHER_IN_BOUNDS = 2 };

mf_array *index_number(mf_value v);       /* NULL unless it is an array of rank 0 */
mf_value index_error(mf_error_object *e); /* NULL: out of memory */
mf_value index_scalar(mf_dtype dtype, int64_t x);
/* The index with negative values counted from the end, converted to at least 32 bits; or an error. */
mf_value index_wrapped(mf_value index, int64_t size, const char *op);
mf_value index_dynamic_slice(mf_value x, const mf_value *starts, const int64_t *sizes);
/* The list 0, 1, ..., at - 1, at + width, at + width + 1, ... of `count` numbers. */
const mf_intlist *index_around(int at, int width, int count);
/* Stacks index arrays of one shape into index vectors: [shape..., count]. */
mf_value index_vectors(mf_value *index, int count);
/* For x.at[...].add(update) and similar, which compute in the dtype to which both promote and return x's own: promotes both; *given is x's
 * type. False: x is the error. */
bool index_promoted(mf_value *x, mf_value *update, const mf_type **given, const char *name);

#endif
