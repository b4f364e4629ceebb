/* Rebuilds the inputs of cnn.py in C, bit for bit: parameters, synthetic images and labels, and the hash that proves it.
 * One generator (state' = state * 1664525 + 1013904223 mod 2^32, the upper 24 bits are the draw) serves everything;
 * each array has a seed of its own and is filled in row-major order. cnn.py holds the same formulas in NumPy. */
#ifndef MANYFOLD_TESTS_ORACLE_CNN_INPUTS_H
#define MANYFOLD_TESTS_ORACLE_CNN_INPUTS_H

#include <stddef.h>
#include <stdint.h>

enum { CNN_SIDE = 32, CNN_CLASSES = 10, CNN_BATCH = 128, CNN_STEPS = 5, CNN_PARAMETERS = 6 };

typedef struct cnn_parameter {
    const char *name;
    int rank;
    int shape[4];
    uint32_t seed;
    float scale; /* a power of two, so that every product is exact */
} cnn_parameter;

static const cnn_parameter cnn_parameters[CNN_PARAMETERS] = {
    { "k1", 4, { 3, 3, 1, 32 }, 1, 0.5f }, { "b1", 1, { 32 }, 2, 0.0625f },       { "k2", 4, { 3, 3, 32, 64 }, 3, 0.125f },
    { "b2", 1, { 64 }, 4, 0.0625f },       { "w", 2, { 4096, 10 }, 5, 0.03125f }, { "b", 1, { 10 }, 6, 0.0625f },
};

static inline uint32_t cnn_draw(uint32_t *state)
{
    *state = *state * UINT32_C(1664525) + UINT32_C(1013904223);
    return *state >> 8;
}

/* Uniform in [-scale, scale). */
static inline void cnn_fill_parameter(const cnn_parameter *p, float *out)
{
    size_t count = 1;
    for (int i = 0; i < p->rank; i++)
        count *= (size_t)p->shape[i];
    uint32_t state = p->seed;
    for (size_t i = 0; i < count; i++)
        out[i] = (float)((int32_t)cnn_draw(&state) - (1 << 23)) * (1.0f / (1 << 23)) * p->scale;
}

/* One batch: labels, then images (batch, row, column), both from seed 100 + step. Noise in [0, 0.5); in a band of rows, whose position
 * depends on the label, 0.5 is added. */
static inline void cnn_fill_batch(int step, float *images, int32_t *labels)
{
    uint32_t state = 100 + (uint32_t)step;
    for (int n = 0; n < CNN_BATCH; n++)
        labels[n] = (int32_t)(cnn_draw(&state) % CNN_CLASSES);
    for (int n = 0; n < CNN_BATCH; n++)
        for (int row = 0; row < CNN_SIDE; row++)
            for (int column = 0; column < CNN_SIDE; column++)
                *images++ = (float)cnn_draw(&state) * (0.5f / (1 << 24)) + (row * CNN_CLASSES / CNN_SIDE == labels[n] ? 0.5f : 0.0f);
}

/* FNV-1a, 64 bits, over the bytes in memory (little-endian machines). */
static inline uint64_t cnn_hash(const void *data, size_t bytes)
{
    const unsigned char *at = (const unsigned char *)data;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
    return hash;
}

#endif
