/* The arithmetic of collectives, and conversion of whole arrays by the tile kernels.
 * Invariant: a result's bits do not depend on how the elements are cut. */
#include "base/vector.h"
#include "backend/native/native.h"
#include "backend/native/kernels/kernels.h"

#include <string.h>

bool mf_native_runs_here(void)
{
#if defined(__x86_64__)
    return strcmp(mf_kernels_isa(), "generic") != 0; /* the floor is AVX2 with FMA */
#else
    return true;
#endif
}

enum { STREAM_BYTES = 32 << 20, MOST_INPUTS = 256 }; /* from the first on a result goes past the caches */

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

void mf_native_convert(mf_dtype to, void *out, mf_dtype from, const void *in, int64_t count)
{
    mf_tile_fn *run = mf_tile_lookup("convert_element_type", from, to);
    int64_t in_size = mf_dtype_size(from), out_size = mf_dtype_size(to);
    for (int64_t i = 0; i < count; i += MF_TILE) {
        const void *block = (const char *)in + i * in_size;
        run((char *)out + i * out_size, &block, (size_t)(count - i < MF_TILE ? count - i : MF_TILE));
    }
}

bool mf_native_avx512(void) { return !strcmp(mf_kernels_isa(), "avx512"); }
