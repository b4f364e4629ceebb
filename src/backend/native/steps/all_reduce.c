/* The arithmetic of collectives.
 * Invariant: a result's bits do not depend on how the elements are divided into calls. */
#include "backend/native/native.h"

#include "backend/native/kernels/kernels.h"
#include "array/types/dtype.h"
#include "base/memory/vector.h"

enum { STREAM_BYTES = 32 << 20, MOST_INPUTS = 256 }; /* STREAM_BYTES: larger results bypass the caches */

bool mf_native_all_reduce(mf_reducer how, mf_dtype dtype, const void *const *in, int n, void *out, int64_t count, int64_t from, int64_t to)
{
    int64_t size = mf_dtype_size(dtype);
    MF_SMALL_ARRAY(const void *, moved, MOST_INPUTS, n);
    if (!moved)
        return false;
    for (int i = 0; i < n; i++)
        moved[i] = (const char *)in[i] + from * size;
    if (to > from)
        mf_all_reduce(how, dtype, moved, (size_t)n, (char *)out + from * size, (size_t)(to - from), count * size >= STREAM_BYTES);
    return true;
}
