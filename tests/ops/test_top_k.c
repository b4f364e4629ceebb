/* top_k selects before it sorts: for every kind of line, the result must be the beginning of the whole line sorted by XLA's total order,
 * bit for bit (-NaN, -inf, ..., -0, 0, ..., inf, NaN; the first of equal elements first). */
#include "check.h"

#include <manyfold.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST = 9000 };

typedef struct entry {
    int64_t key;
    int position;
} entry;

static int by_order(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->key != y->key)
        return x->key > y->key ? -1 : 1;
    return x->position - y->position;
}

static int64_t order_of(int64_t bits, int64_t most) { return bits < 0 ? bits ^ most : bits; }

static uint64_t random_bits(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    return *state ^= *state << 17;
}

enum { RANDOM, BITS, RISING, FALLING, PIPE, EQUAL, ONE_APART, SAMPLED, TIES, SPECIAL, KINDS };

static double value_of(int kind, int i, int n, uint64_t *state)
{
    static const double special[] = { -0.0, 0.0, NAN, -NAN, INFINITY, -INFINITY, 1, -1 };
    switch (kind) {
    case RISING: return i;
    case FALLING: return -i;
    case PIPE: return i < n / 2 ? i : n - i;
    case EQUAL: return 3;
    case ONE_APART: return i == n / 3 ? 4 : 3;
    case SAMPLED: return i % (n / 512 + 1) ? i : 1e6 + i; /* the elements at the sampled positions are the greatest */
    case TIES: return (double)(random_bits(state) % 5);
    case SPECIAL: return special[random_bits(state) % 8];
    default: return (double)(random_bits(state) % 100000) / 7 - 5000;
    }
}

static bool matches_f32(const float *line, int n, int k)
{
    static entry sorted[LONGEST];
    static float values[LONGEST];
    static int32_t at[LONGEST];
    for (int i = 0; i < n; i++) {
        int32_t bits;
        memcpy(&bits, &line[i], sizeof bits);
        sorted[i] = (entry){ order_of(bits, INT32_MAX), i };
    }
    qsort(sorted, (size_t)n, sizeof *sorted, by_order);
    MF_SCOPE;
    mf_value v, p;
    mf_unpack(mf_top_k(mf_from_host(MF_F32, MF_SHAPE(n), line), k), &v, &p);
    mf_to_host(v, MF_F32, values, k);
    mf_to_host(p, MF_I32, at, k);
    for (int i = 0; i < k; i++)
        if (at[i] != sorted[i].position || memcmp(&values[i], &line[at[i]], sizeof *line) != 0)
            return false;
    return true;
}

static bool matches_f64(const double *line, int n, int k)
{
    static entry sorted[LONGEST];
    static double values[LONGEST];
    static int32_t at[LONGEST];
    for (int i = 0; i < n; i++) {
        int64_t bits;
        memcpy(&bits, &line[i], sizeof bits);
        sorted[i] = (entry){ order_of(bits, INT64_MAX), i };
    }
    qsort(sorted, (size_t)n, sizeof *sorted, by_order);
    MF_SCOPE;
    mf_value v, p;
    mf_unpack(mf_top_k(mf_from_host(MF_F64, MF_SHAPE(n), line), k), &v, &p);
    mf_to_host(v, MF_F64, values, k);
    mf_to_host(p, MF_I32, at, k);
    for (int i = 0; i < k; i++)
        if (at[i] != sorted[i].position || memcmp(&values[i], &line[at[i]], sizeof *line) != 0)
            return false;
    return true;
}

/* The reference inserts each element among all before it: long lines would only take long. */
static bool too_long(int n) { return n > 513 && strcmp(mf_default_backend(), "reference") == 0; }

TEST(selected_as_a_full_sort_would)
{
    static const int lengths[] = { 1, 2, 7, 31, 33, 64, 500, 511, 513, 1000, 4095, 4096, 4097, LONGEST };
    static const int counts[] = { 1, 2, 3, 15, 16, 17, 47, 48, 49, 50, 100, 333, 1000, 4000, LONGEST };
    static float narrow[LONGEST];
    static double wide[LONGEST];
    uint64_t state = 88172645463325252u;
    for (int kind = 0; kind < KINDS; kind++)
        for (size_t l = 0; l < sizeof lengths / sizeof *lengths && !too_long(lengths[l]); l++) {
            int n = lengths[l];
            for (int i = 0; i < n; i++) {
                uint64_t bits = random_bits(&state);
                wide[i] = value_of(kind, i, n, &state);
                narrow[i] = (float)wide[i];
                if (kind == BITS) { /* including NaNs with any payload */
                    memcpy(&wide[i], &bits, sizeof bits);
                    memcpy(&narrow[i], &bits, sizeof *narrow);
                }
            }
            for (size_t c = 0; c < sizeof counts / sizeof *counts && counts[c] <= n; c++)
                if (!CHECK(matches_f32(narrow, n, counts[c]) && matches_f64(wide, n, counts[c])))
                    CHECK_NOTE("kind %d, %d of %d", kind, counts[c], n);
        }
}
