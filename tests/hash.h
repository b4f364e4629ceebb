/* 64-bit FNV-1a hashes of bytes in memory and of the f32 values of a result, for tests that compare bits. */
#ifndef TESTS_HASH_H
#define TESTS_HASH_H

#include <manyfold.h>

#include <stdlib.h>

#define HASH_START UINT64_C(0xcbf29ce484222325)

static inline uint64_t hash_bytes(const void *data, size_t bytes, uint64_t hash)
{
    const unsigned char *at = (const unsigned char *)data;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static inline uint64_t hash_of(mf_value v, uint64_t hash)
{
    size_t count = (size_t)mf_size(v);
    float *p = (float *)malloc(count * sizeof *p + 1);
    if (p && mf_to_host(v, MF_F32, p, count) == MF_OK)
        hash = hash_bytes(p, count * sizeof *p, hash);
    free(p);
    return hash;
}

static inline uint64_t hash_parts(mf_value parts, uint64_t hash)
{
    for (int i = 0; i < mf_len(parts); i++)
        hash = hash_of(mf_get(parts, i), hash);
    return hash;
}

#endif
