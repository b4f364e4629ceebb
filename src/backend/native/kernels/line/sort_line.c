/* Sorting a line, or selecting its greatest elements: a stable LSD radix sort of (key, position) pairs by bytes; insertion sort for short
 * lines.
 * Invariants: keys are unsigned and ordered as the values are: NaN last, -0 and 0 equal (for the greatest: IEEE's total order); a byte
 * that is the same in all keys costs only its counting; with several keys the last one is sorted by first. */
#include "backend/native/kernels/kernels.h"

#include <string.h>

enum { SHORT = 48, BUCKETS = 256, SAMPLE = 512, FEW = 16 };

/* ---- keys */

/* Flips all bits of a negative number, and only the sign of others; without a branch, since signs may be random. */
#define FLIPPED(u, sign, most) ((u) ^ ((sign) | ((0 - (((u) & (sign)) != 0)) & (most))))

static uint32_t key_of_float(uint32_t u, uint32_t sign, uint32_t infinity, uint32_t most)
{
    if ((u & ~sign) > infinity)
        return most;
    return u == sign ? sign : FLIPPED(u, sign, most);
}

static uint64_t key_of_double(uint64_t u)
{
    const uint64_t sign = (uint64_t)1 << 63;
    if ((u & ~sign) > (uint64_t)0x7ff << 52)
        return UINT64_MAX;
    return u == sign ? sign : FLIPPED(u, sign, UINT64_MAX);
}

#define READ(type) \
    type u;        \
    memcpy(&u, p, sizeof u)

static uint32_t key_32(mf_dtype dtype, const char *p)
{
    switch (dtype) {
    case MF_F32: {
        READ(uint32_t);
        return key_of_float(u, 0x80000000u, 0x7f800000u, UINT32_MAX);
    }
    case MF_F16: {
        READ(uint16_t);
        return key_of_float(u, 0x8000u, 0x7c00u, 0xffffu);
    }
    case MF_BF16: {
        READ(uint16_t);
        return key_of_float(u, 0x8000u, 0x7f80u, 0xffffu);
    }
    case MF_I32: {
        READ(uint32_t);
        return u ^ 0x80000000u;
    }
    case MF_U32: {
        READ(uint32_t);
        return u;
    }
    case MF_I16: {
        READ(uint16_t);
        return u ^ 0x8000u;
    }
    case MF_U16: {
        READ(uint16_t);
        return u;
    }
    case MF_I8: {
        READ(uint8_t);
        return u ^ 0x80u;
    }
    default: {
        READ(uint8_t);
        return u;
    }
    }
}

static uint64_t key_64(mf_dtype dtype, const char *p)
{
    READ(uint64_t);
    return dtype == MF_F64 ? key_of_double(u) : dtype == MF_I64 ? u ^ (uint64_t)1 << 63 : u;
}

static bool is_64(mf_dtype dtype) { return dtype == MF_F64 || dtype == MF_I64 || dtype == MF_U64; }

/* ---- sorting one kind of element; KEY gives its unsigned key, of `bytes` bytes */

/* Sorts a, with b as workspace; returns whichever of the two holds the result. */
#define SORT(name, type, KEY, bytes)                                                               \
    static void place_##name(type *a, int64_t i, type x) /* among i in order, behind its equals */ \
    {                                                                                              \
        for (; i > 0 && KEY(a[i - 1]) > KEY(x); i--)                                               \
            a[i] = a[i - 1];                                                                       \
        a[i] = x;                                                                                  \
    }                                                                                              \
                                                                                                   \
    static type *sort_##name(type *restrict a, type *restrict b, int64_t n)                        \
    {                                                                                              \
        uint32_t count[bytes][BUCKETS];                                                            \
        if (n <= SHORT) {                                                                          \
            for (int64_t i = 1; i < n; i++)                                                        \
                place_##name(a, i, a[i]);                                                          \
            return a;                                                                              \
        }                                                                                          \
        memset(count, 0, sizeof count);                                                            \
        for (int64_t i = 0; i < n; i++)                                                            \
            for (int d = 0; d < (bytes); d++)                                                      \
                count[d][KEY(a[i]) >> (8 * d) & 255]++;                                            \
        for (int d = 0; d < (bytes); d++) {                                                        \
            if (!starts_from_counts(count[d], KEY(a[0]) >> (8 * d) & 255, n))                      \
                continue;                                                                          \
            for (int64_t i = 0; i < n; i++)                                                        \
                b[count[d][KEY(a[i]) >> (8 * d) & 255]++] = a[i];                                  \
            type *other = a;                                                                       \
            a = b;                                                                                 \
            b = other;                                                                             \
        }                                                                                          \
        return a;                                                                                  \
    }

/* The k least of a, in order, with a and b as workspace; BEHIND orders pairs by key and position. A bound is chosen that few elements
 * besides those k do not exceed: these are extracted without a branch, and sorted. For small k, the bound is the k-th least of the minima
 * of interleaved groups; else it comes from a sample, and if it was too low, greater elements of the sample are tried. */
#define LEAST(name, type, BEHIND)                                                                       \
    static type *least_##name(type *restrict a, type *restrict b, int64_t n, int64_t k)                 \
    {                                                                                                   \
        type sample[2 * SAMPLE], *sorted;                                                               \
        bool few = k <= FEW && n < 8 * SAMPLE;                                                          \
        int64_t most = few ? 2 * k : n / 16, count = 2;                                                 \
        while (count < most && count < (few ? n : SAMPLE))                                              \
            count *= 2;                                                                                 \
        count = count < n ? count : n;                                                                  \
        for (int64_t i = 0; i < count; i++)                                                             \
            sample[i] = a[few ? i : i * n / count];                                                     \
        for (int64_t i = few ? count : n, l = 0; i < n; i++, l = l + 1 == count ? 0 : l + 1)            \
            sample[l] = BEHIND(sample[l], a[i]) ? a[i] : sample[l];                                     \
        sorted = sort_##name(sample, sample + SAMPLE, count);                                           \
        int64_t share = k * count / n, left = 0;                                                        \
        for (int64_t rank = few ? k - 1 : share + share / 4 + 4; rank < count && left < k; rank *= 2) { \
            left = 0;                                                                                   \
            for (int64_t i = 0; i < n; i++) {                                                           \
                b[left] = a[i];                                                                         \
                left += !BEHIND(a[i], sorted[rank]);                                                    \
            }                                                                                           \
        }                                                                                               \
        return left < k ? sort_##name(a, b, n) : sort_##name(b, a, left);                               \
    }

/* Prefix sums of the counts. False if all n are in one bucket, that of `first`: nothing has to move. */
static bool starts_from_counts(uint32_t *at, uint64_t first, int64_t n)
{
    uint32_t start = 0;
    if (at[first] == n)
        return false;
    for (int k = 0; k < BUCKETS; k++) {
        uint32_t here = at[k];
        at[k] = start;
        start += here;
    }
    return true;
}

typedef struct wide {
    uint64_t key, position;
} wide;

#define PAIR_KEY(x) (uint32_t)((x) >> 32) /* above the position */
#define WIDE_KEY(x) (x).key
#define WORD_KEY(x) (x)

SORT(pairs, uint64_t, PAIR_KEY, 4)
SORT(wide, wide, WIDE_KEY, 8)
SORT(words, uint32_t, WORD_KEY, 4) /* integers without positions: the keys are the values */
#define PAIR_BEHIND(x, y) ((x) > (y))
#define WIDE_BEHIND(x, y) ((x).key > (y).key || ((x).key == (y).key && (x).position > (y).position))
LEAST(pairs, uint64_t, PAIR_BEHIND)
LEAST(wide, wide, WIDE_BEHIND)

/* ---- lines */

#define FILL_PAIRS(dtype, size)     \
    for (int64_t i = 0; i < n; i++) \
    a[i] = (uint64_t)key_32(dtype, in + i * (size)) << 32 | (uint32_t)i

/* A constant dtype lets the compiler see one conversion in the loop. */
static void first_pairs(uint64_t *a, mf_dtype dtype, const char *in, int64_t n)
{
    switch (dtype) {
    case MF_F32: FILL_PAIRS(MF_F32, 4); break;
    case MF_I32: FILL_PAIRS(MF_I32, 4); break;
    case MF_U32: FILL_PAIRS(MF_U32, 4); break;
    case MF_F16: FILL_PAIRS(MF_F16, 2); break;
    case MF_BF16: FILL_PAIRS(MF_BF16, 2); break;
    case MF_I16: FILL_PAIRS(MF_I16, 2); break;
    case MF_U16: FILL_PAIRS(MF_U16, 2); break;
    case MF_I8: FILL_PAIRS(MF_I8, 1); break;
    default: FILL_PAIRS(MF_U8, 1); break;
    }
}

static int key_size(mf_dtype dtype)
{
    bool one = dtype == MF_BOOL || dtype == MF_I8 || dtype == MF_U8;
    return is_64(dtype) ? 8 : one ? 1 : dtype == MF_F32 || dtype == MF_I32 || dtype == MF_U32 ? 4 : 2;
}

/* Sorts the order so far by one more key; first: there is none yet. */
static void order_narrow(uint32_t *order, bool first, mf_dtype dtype, const char *in, int64_t n, void *workspace)
{
    uint64_t *a = workspace, *b = a + n;
    int size = key_size(dtype);
    if (first)
        first_pairs(a, dtype, in, n);
    else
        for (int64_t i = 0; i < n; i++)
            a[i] = (uint64_t)key_32(dtype, in + (int64_t)order[i] * size) << 32 | order[i];
    a = sort_pairs(a, b, n);
    for (int64_t i = 0; i < n; i++)
        order[i] = (uint32_t)a[i];
}

static void order_wide(uint32_t *order, bool first, mf_dtype dtype, const char *in, int64_t n, void *workspace)
{
    wide *a = workspace, *b = a + n;
    for (int64_t i = 0; i < n; i++) {
        uint32_t at = first ? (uint32_t)i : order[i];
        a[i] = (wide){ key_64(dtype, in + (int64_t)at * 8), at };
    }
    a = sort_wide(a, b, n);
    for (int64_t i = 0; i < n; i++)
        order[i] = (uint32_t)a[i].position;
}

size_t mf_sort_workspace_bytes(const mf_dtype *key, int keys, int64_t n)
{
    size_t pair = sizeof(uint64_t);
    for (int k = 0; k < keys; k++)
        pair = is_64(key[k]) ? sizeof(wide) : pair;
    return (size_t)n * (2 * pair + sizeof(uint32_t));
}

const uint32_t *mf_sort_order(const mf_dtype *key, int keys, const char *const *in, int64_t n, void *workspace)
{
    bool wide_keys = mf_sort_workspace_bytes(key, keys, 1) > 2 * sizeof(uint64_t) + sizeof(uint32_t);
    uint32_t *order = (uint32_t *)(void *)((char *)workspace + (size_t)n * 2 * (wide_keys ? sizeof(wide) : sizeof(uint64_t)));
    for (int k = keys - 1; k >= 0; k--) {
        if (is_64(key[k]))
            order_wide(order, k == keys - 1, key[k], in[k], n, workspace);
        else
            order_narrow(order, k == keys - 1, key[k], in[k], n, workspace);
    }
    return order;
}

/* ---- values without positions */

bool mf_sort_values(mf_dtype dtype, const char *in, char *out, int64_t n, void *workspace)
{
    uint32_t *a = workspace, *b = a + n, sign = 0x80000000u;
    bool minus_zero = false;
    if (n <= SHORT || (dtype != MF_F32 && dtype != MF_I32 && dtype != MF_U32))
        return false;
    memcpy(a, in, (size_t)n * sizeof *a);
    if (dtype == MF_F32) {
        for (int64_t i = 0; i < n; i++)
            minus_zero |= a[i] == sign;
        if (minus_zero)
            return false;
        for (int64_t i = 0; i < n; i++)
            a[i] = key_of_float(a[i], sign, 0x7f800000u, UINT32_MAX);
    } else if (dtype == MF_I32) {
        for (int64_t i = 0; i < n; i++)
            a[i] ^= sign;
    }
    a = sort_words(a, b, n);
    for (int64_t i = 0; i < n; i++) {
        uint32_t u = a[i];
        u = dtype == MF_U32 ? u : dtype == MF_I32 ? u ^ sign : u & sign ? u ^ sign : ~u;
        memcpy(out + i * 4, &u, sizeof u);
    }
    return true;
}

/* ---- the greatest: the least of reversed keys, floats in IEEE's total order */

#define FILL_TOTAL(type, sign, most)                                           \
    for (int64_t i = 0; i < n; i++) {                                          \
        type u;                                                                \
        memcpy(&u, in + i * (int64_t)sizeof u, sizeof u);                      \
        a[i] = (uint64_t)FLIPPED((uint32_t)u, sign, most) << 32 | (uint32_t)i; \
    }

static void first_total(uint64_t *a, mf_dtype dtype, const char *in, int64_t n)
{
    if (dtype == MF_F32) {
        FILL_TOTAL(uint32_t, 0x80000000u, UINT32_MAX)
    } else if (dtype == MF_F16 || dtype == MF_BF16) {
        FILL_TOTAL(uint16_t, 0x8000u, 0xffffu)
    } else {
        first_pairs(a, dtype, in, n);
    }
}

static uint64_t total_64(mf_dtype dtype, const char *p)
{
    READ(uint64_t);
    return dtype == MF_F64 ? FLIPPED(u, (uint64_t)1 << 63, UINT64_MAX) : key_64(dtype, p);
}

void mf_top_k_line(mf_dtype dtype, const char *in, int64_t n, int64_t k, char *values, int32_t *positions, void *workspace)
{
    int size = key_size(dtype);
    if (is_64(dtype)) {
        wide *a = workspace;
        for (int64_t i = 0; i < n; i++)
            a[i] = (wide){ ~total_64(dtype, in + i * 8), (uint64_t)i };
        a = least_wide(a, a + n, n, k);
        for (int64_t i = 0; i < k; i++)
            positions[i] = (int32_t)a[i].position;
    } else {
        uint64_t *a = workspace;
        first_total(a, dtype, in, n);
        for (int64_t i = 0; i < n; i++)
            a[i] ^= (uint64_t)UINT32_MAX << 32;
        a = least_pairs(a, a + n, n, k);
        for (int64_t i = 0; i < k; i++)
            positions[i] = (int32_t)(uint32_t)a[i];
    }
    for (int64_t i = 0; i < k; i++)
        memcpy(values + i * size, in + positions[i] * (int64_t)size, (size_t)size);
}
