/* Moving elements without computing anything: strided copies, fills, conversions. */
#ifndef MF_BACKEND_NATIVE_STEPS_COPY_STEP_H
#define MF_BACKEND_NATIVE_STEPS_COPY_STEP_H

#include "ir/op.h"

/* Like mf_copy_strided, with help from idle workers; at most MF_FACTORS axes. mf_native_move: contiguous bytes, which may be in place
 * already. */
void mf_native_copy(int rank, const int64_t *dims, int element, void *out, const int64_t *to, const void *in, const int64_t *from);
void mf_native_move(void *out, const void *in, int64_t bytes);
/* Where element i (row-major) of a copy comes from, in bytes, like `from`. */
static inline int64_t mf_place_in_copy(int rank, const int64_t *dims, const int64_t *from, int64_t i)
{
    int64_t bytes = 0;
    for (int d = rank - 1; d >= 0; i /= dims[d--])
        bytes += i % dims[d] * from[d];
    return bytes;
}
void mf_native_fill(void *out, int64_t count, int element, const void *value);

void mf_native_convert(mf_dtype to, void *out, mf_dtype from, const void *in, int64_t count); /* for dtypes that have a tile kernel */

#endif
