/* The table of dtypes, and JAX's promotion. Invariant: all facts about a dtype are in its one row. Promotion is the least upper bound in
 * JAX's lattice, whose edges are below as in JAX's documentation, but in 32 bits where neither operand has 64. */
#include "array/types/dtype.h"

#include <float.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

enum { SIGNED = 1, UNSIGNED = 2, FLOAT = 4, COMPLEX = 8 };

static const struct row {
    const char *name, *brief;
    int size, kind;
    double max, lowest, highest;
} rows[MF_KEY + 1] = {
    [MF_DTYPE_DEFAULT] = { "default", "default", 0, 0, 0, 0, 0 },
    [MF_BOOL] = { "bool", "bool", 1, 0, 1, 0, 1 },
    [MF_I8] = { "int8", "i8", 1, SIGNED, INT8_MAX, INT8_MIN, INT8_MAX },
    [MF_I16] = { "int16", "i16", 2, SIGNED, INT16_MAX, INT16_MIN, INT16_MAX },
    [MF_I32] = { "int32", "i32", 4, SIGNED, INT32_MAX, INT32_MIN, INT32_MAX },
    [MF_I64] = { "int64", "i64", 8, SIGNED, 0x1p63, -0x1p63, 0x1p63 }, /* as doubles: out of int64's range by one, but stores saturate */
    [MF_U8] = { "uint8", "u8", 1, UNSIGNED, UINT8_MAX, 0, UINT8_MAX },
    [MF_U16] = { "uint16", "u16", 2, UNSIGNED, UINT16_MAX, 0, UINT16_MAX },
    [MF_U32] = { "uint32", "u32", 4, UNSIGNED, UINT32_MAX, 0, UINT32_MAX },
    [MF_U64] = { "uint64", "u64", 8, UNSIGNED, 0x1p64, 0, 0x1p64 },
    [MF_F16] = { "float16", "f16", 2, FLOAT, 65504, -INFINITY, INFINITY },
    [MF_BF16] = { "bfloat16", "bf16", 2, FLOAT, 0x1.fep127, -INFINITY, INFINITY },
    [MF_F32] = { "float32", "f32", 4, FLOAT, (double)FLT_MAX, -INFINITY, INFINITY },
    [MF_F64] = { "float64", "f64", 8, FLOAT, DBL_MAX, -INFINITY, INFINITY },
    [MF_C64] = { "complex64", "c64", 8, COMPLEX, (double)FLT_MAX, -INFINITY, INFINITY },
    [MF_C128] = { "complex128", "c128", 16, COMPLEX, DBL_MAX, -INFINITY, INFINITY },
    [MF_KEY] = { "key<fry>", "key", 8, 0, 0, 0, 0 },
};

static const struct row *row_of(mf_dtype d) { return &rows[(unsigned)d <= MF_KEY ? d : MF_DTYPE_DEFAULT]; }

int mf_dtype_size(mf_dtype d) { return row_of(d)->size; }
const char *mf_dtype_name(mf_dtype d) { return row_of(d)->name; }
const char *mf_dtype_short(mf_dtype d) { return row_of(d)->brief; }
bool mf_dtype_is_float(mf_dtype d) { return row_of(d)->kind == FLOAT; }
bool mf_dtype_is_signed(mf_dtype d) { return row_of(d)->kind == SIGNED; }
bool mf_dtype_is_unsigned(mf_dtype d) { return row_of(d)->kind == UNSIGNED; }
bool mf_dtype_is_int(mf_dtype d) { return row_of(d)->kind & (SIGNED | UNSIGNED); }
bool mf_dtype_is_complex(mf_dtype d) { return row_of(d)->kind == COMPLEX; }
bool mf_dtype_is_inexact(mf_dtype d) { return row_of(d)->kind & (FLOAT | COMPLEX); }
double mf_dtype_max(mf_dtype d) { return row_of(d)->max; }
double mf_dtype_lowest(mf_dtype d) { return row_of(d)->lowest; }
double mf_dtype_highest(mf_dtype d) { return row_of(d)->highest; }

mf_dtype mf_dtype_parse(const char *s, int length)
{
    for (int d = MF_BOOL; d <= MF_KEY; d++)
        if ((int)strlen(rows[d].brief) == length && !memcmp(rows[d].brief, s, (size_t)length))
            return (mf_dtype)d;
    return MF_DTYPE_DEFAULT;
}

/* ---- promotion */

/* Nodes of the lattice: the dtypes, and the weak integer, float and complex types between them. */
enum { WEAK_INT = MF_C128 + 1, WEAK_FLOAT, WEAK_COMPLEX, NODES };
#define BIT(n) (1u << (n))

static const uint32_t edges[NODES] = {
    [MF_BOOL] = BIT(WEAK_INT),
    [WEAK_INT] = BIT(MF_U8) | BIT(MF_I8),
    [MF_U8] = BIT(MF_I16) | BIT(MF_U16),
    [MF_U16] = BIT(MF_I32) | BIT(MF_U32),
    [MF_U32] = BIT(MF_I64) | BIT(MF_U64),
    [MF_U64] = BIT(WEAK_FLOAT),
    [MF_I8] = BIT(MF_I16),
    [MF_I16] = BIT(MF_I32),
    [MF_I32] = BIT(MF_I64),
    [MF_I64] = BIT(WEAK_FLOAT),
    [WEAK_FLOAT] = BIT(MF_BF16) | BIT(MF_F16) | BIT(WEAK_COMPLEX),
    [MF_BF16] = BIT(MF_F32),
    [MF_F16] = BIT(MF_F32),
    [MF_F32] = BIT(MF_F64) | BIT(MF_C64),
    [MF_F64] = BIT(MF_C128),
    [WEAK_COMPLEX] = BIT(MF_C64),
    [MF_C64] = BIT(MF_C128),
};

static uint8_t joins[NODES][NODES];

static uint32_t everything_above(int node)
{
    uint32_t above = BIT(node), before;
    do {
        before = above;
        for (int n = 0; n < NODES; n++)
            if (above & BIT(n))
                above |= edges[n];
    } while (above != before);
    return above;
}

static void fill_joins(void)
{
    uint32_t above[NODES];
    for (int n = 0; n < NODES; n++)
        above[n] = everything_above(n);
    for (int a = MF_BOOL; a < NODES; a++)
        for (int b = MF_BOOL; b < NODES; b++) {
            uint32_t common = above[a] & above[b];
            for (int n = MF_BOOL; n < NODES; n++) /* the least upper bound is below all other common bounds */
                if (common & BIT(n) && above[n] == common)
                    joins[a][b] = (uint8_t)n;
        }
}

static int node_of(mf_dtype d, bool weak)
{
    if (!weak || d == MF_BOOL)
        return (int)d;
    return mf_dtype_is_int(d) ? WEAK_INT : mf_dtype_is_float(d) ? WEAK_FLOAT : WEAK_COMPLEX;
}

mf_dtype mf_dtype_promote(mf_dtype a, bool a_weak, mf_dtype b, bool b_weak, bool *weak)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    bool ignored;
    weak = weak ? weak : &ignored;
    *weak = a_weak && b_weak;
    if (a == b)
        return a;
    if ((unsigned)a > MF_C128 || (unsigned)b > MF_C128 || !a || !b) /* keys promote with nothing else */
        return MF_DTYPE_DEFAULT;
    pthread_once(&once, fill_joins);
    /* Two weak types join as their strong counterparts, and the result is weak. */
    int node = *weak ? joins[a][b] : joins[node_of(a, a_weak)][node_of(b, b_weak)];
    if (node == MF_I64 && mf_dtype_size(a) < 8 && mf_dtype_size(b) < 8) /* u32 with a signed integer */
        node = MF_I32;
    if (node < WEAK_INT)
        return (mf_dtype)node;
    *weak = true;
    return node == WEAK_INT ? MF_I32 : node == WEAK_FLOAT ? MF_F32 : MF_C64;
}
