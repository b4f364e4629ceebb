/* Bits of integers and bools: and or xor not shift_left shift_right_logical shift_right_arithmetic population_count clz. Invariant: a shift
 * by the width or more (also by a negative count, read as unsigned) leaves no bit: the result is 0, or copies of the sign for the
 * arithmetic right shift. */
#include "ir/kernel.h"
#include "ops/elementwise/loops.h"

static int64_t and_integer(int64_t x, int64_t y) { return x & y; }
static uint64_t and_natural(uint64_t x, uint64_t y) { return x & y; }
static int64_t or_integer(int64_t x, int64_t y) { return x | y; }
static uint64_t or_natural(uint64_t x, uint64_t y) { return x | y; }
static int64_t xor_integer(int64_t x, int64_t y) { return x ^ y; }
static uint64_t xor_natural(uint64_t x, uint64_t y) { return x ^ y; }
static int64_t not_integer(int64_t x) { return ~x; }
static uint64_t not_natural(uint64_t x) { return ~x; }
MF_EVALUATE2(and_evaluate, NULL, and_integer, and_natural, NULL)
MF_EVALUATE2(or_evaluate, NULL, or_integer, or_natural, NULL)
MF_EVALUATE2(xor_evaluate, NULL, xor_integer, xor_natural, NULL)
MF_EVALUATE1(not_evaluate, NULL, not_integer, not_natural, NULL)

static const char *const and_samples[] = {
    "bool[4]{=0,0,1,1} bool[4]{=0,1,0,1} -> bool[4]{=0,0,0,1}",
    "i32[2]{=-1,12} i32[2]{=7,10} -> i32[2]{=7,8}",
    "u8[2,3]{0:255} u8[2,3]{0:255}",
    NULL,
};
const mf_op mf_op_and = {
    .name = "and",
    MF_ELEMENTWISE_ROW,
    .type_rule = mf_type_logical2,
    .jvp = mf_jvp_zero,
    .transpose = mf_transpose_none,
    .cost = mf_cost_elementwise,
    .lower = mf_lower_by_name,
    .evaluate = and_evaluate,
    MF_HLO("and"),
    .samples = and_samples,
};

static const char *const or_samples[] = {
    "bool[4]{=0,0,1,1} bool[4]{=0,1,0,1} -> bool[4]{=0,1,1,1}",
    "i32[2]{=-8,12} i32[2]{=7,10} -> i32[2]{=-1,14}",
    "u16[2,3]{0:65535} u16[2,3]{0:65535}",
    NULL,
};
const mf_op mf_op_or = {
    .name = "or",
    MF_ELEMENTWISE_ROW,
    .type_rule = mf_type_logical2,
    .jvp = mf_jvp_zero,
    .transpose = mf_transpose_none,
    .cost = mf_cost_elementwise,
    .lower = mf_lower_by_name,
    .evaluate = or_evaluate,
    MF_HLO("or"),
    .samples = or_samples,
};

static const char *const xor_samples[] = {
    "bool[4]{=0,0,1,1} bool[4]{=0,1,0,1} -> bool[4]{=0,1,1,0}",
    "i32[2]{=-1,12} i32[2]{=7,10} -> i32[2]{=-8,6}",
    "u64[2]{=18446744073709551615,1} u64[2]{=1,1} -> u64[2]{=18446744073709551614,0}",
    NULL,
};
const mf_op mf_op_xor = {
    .name = "xor",
    MF_ELEMENTWISE_ROW,
    .type_rule = mf_type_logical2,
    .jvp = mf_jvp_zero,
    .transpose = mf_transpose_none,
    .cost = mf_cost_elementwise,
    .lower = mf_lower_by_name,
    .evaluate = xor_evaluate,
    MF_HLO("xor"),
    .samples = xor_samples,
};

static const char *const not_samples[] = {
    "bool[2]{=0,1} -> bool[2]{=1,0}",
    "i32[3]{=0,-1,5} -> i32[3]{=-1,0,-6}",
    "u8[2]{=0,15} -> u8[2]{=255,240}",
    NULL,
};
const mf_op mf_op_not = {
    .name = "not",
    MF_ELEMENTWISE_ROW,
    .type_rule = mf_type_logical1,
    .jvp = mf_jvp_zero,
    .transpose = mf_transpose_none,
    .cost = mf_cost_elementwise,
    .lower = mf_lower_by_name,
    .evaluate = not_evaluate,
    MF_HLO("not"),
    .samples = not_samples,
};

/* ---- shifts. Left: truncating to the width drops the bits shifted out. Right: the bits above the width matter, so the operands are read
 * as unsigned (logical) or as signed (arithmetic), whatever the dtype. */
static uint64_t left_natural(uint64_t x, uint64_t y) { return y < 64 ? x << y : 0; }
static int64_t left_integer(int64_t x, int64_t y) { return (int64_t)left_natural((uint64_t)x, (uint64_t)y); }
static uint64_t right_natural(uint64_t x, uint64_t y) { return y < 64 ? x >> y : 0; }
static int64_t right_integer(int64_t x, int64_t y) { return x >> ((uint64_t)y < 64 ? y : 63); }
MF_EVALUATE2(left_evaluate, NULL, left_integer, left_natural, NULL)

static mf_dtype of_width(int size, bool is_signed)
{
    switch (size) {
    case 1: return is_signed ? MF_I8 : MF_U8;
    case 2: return is_signed ? MF_I16 : MF_U16;
    case 4: return is_signed ? MF_I32 : MF_U32;
    default: return is_signed ? MF_I64 : MF_U64;
    }
}

static void run_right(const mf_eqn *e, bool is_signed, const void *const *in, void *const *out)
{
    static const mf_loop2 rule = { NULL, right_integer, right_natural, NULL };
    const mf_type *t = e->out[0]->type;
    mf_run_loop2(&rule, of_width(mf_dtype_size(t->dtype), is_signed), t->size, in[0], in[1], out[0]);
}

MF_EVALUATE_RULE(logical_evaluate)
{
    run_right(e, false, in, out);
    return NULL;
}

MF_EVALUATE_RULE(arithmetic_evaluate)
{
    run_right(e, true, in, out);
    return NULL;
}

MF_LOWER_RULE(left_lower) { return k->call(k, "shl", in, e->in_count); }
MF_LOWER_RULE(logical_lower) { return k->call(k, "shr_logical", in, e->in_count); }
MF_LOWER_RULE(arithmetic_lower) { return k->call(k, "shr_arithmetic", in, e->in_count); }

static const char *const left_samples[] = {
    "i32[4]{=1,1,5,1} i32[4]{=40,31,1,-1} -> i32[4]{=0,-2147483648,10,0}",
    "u8[3]{=255,1,1} u8[3]{=4,8,255} -> u8[3]{=240,0,0}",
    "u64[2]{=1,1} u64[2]{=63,64} -> u64[2]{=9223372036854775808,0}",
    NULL,
};
const mf_op mf_op_shift_left = {
    .name = "shift_left",
    .weight = 5,
    MF_ELEMENTWISE_ROW,
    .type_rule = mf_type_integer2,
    .jvp = mf_jvp_zero,
    .transpose = mf_transpose_none,
    .cost = mf_cost_elementwise,
    .lower = left_lower,
    .evaluate = left_evaluate,
    MF_HLO("shift_left"),
    .samples = left_samples,
};

static const char *const logical_samples[] = {
    "i32[3]{=-1,-1,8} i32[3]{=28,32,1} -> i32[3]{=15,0,4}",
    "u8[3]{=255,128,1} u8[3]{=4,7,8} -> u8[3]{=15,1,0}",
    "i8[2]{=-128,-1} i8[2]{=7,-1} -> i8[2]{=1,0}",
    NULL,
};
const mf_op mf_op_shift_right_logical = {
    .name = "shift_right_logical",
    .weight = 5,
    MF_ELEMENTWISE_ROW,
    .type_rule = mf_type_integer2,
    .jvp = mf_jvp_zero,
    .transpose = mf_transpose_none,
    .cost = mf_cost_elementwise,
    .lower = logical_lower,
    .evaluate = logical_evaluate,
    MF_HLO("shift_right_logical"),
    .samples = logical_samples,
};

static const char *const arithmetic_samples[] = {
    "i32[4]{=-16,-1,8,-5} i32[4]{=2,32,1,40} -> i32[4]{=-4,-1,4,-1}",
    "u8[2]{=255,64} u8[2]{=4,8} -> u8[2]{=255,0}",
    "i64[2]{=-9223372036854775808,5} i64[2]{=63,64} -> i64[2]{=-1,0}",
    NULL,
};
const mf_op mf_op_shift_right_arithmetic = {
    .name = "shift_right_arithmetic",
    .weight = 5,
    MF_ELEMENTWISE_ROW,
    .type_rule = mf_type_integer2,
    .jvp = mf_jvp_zero,
    .transpose = mf_transpose_none,
    .cost = mf_cost_elementwise,
    .lower = arithmetic_lower,
    .evaluate = arithmetic_evaluate,
    MF_HLO("shift_right_arithmetic"),
    .samples = arithmetic_samples,
};

/* ---- population_count, clz: only the element's own bits, not those added by widening */
static uint64_t own_bits(mf_dtype d, const void *p)
{
    int width = 8 * mf_dtype_size(d);
    return (uint64_t)mf_load_i64(d, p) & (width == 64 ? UINT64_MAX : ((uint64_t)1 << width) - 1);
}

MF_EVALUATE_RULE(population_count_evaluate)
{
    const mf_type *t = e->out[0]->type;
    int64_t size = mf_dtype_size(t->dtype);
    for (int64_t i = 0; i < t->size * size; i += size)
        mf_store_i64(t->dtype, (char *)out[0] + i, __builtin_popcountll(own_bits(t->dtype, (const char *)in[0] + i)));
    return NULL;
}

MF_EVALUATE_RULE(clz_evaluate)
{
    const mf_type *t = e->out[0]->type;
    int64_t size = mf_dtype_size(t->dtype);
    for (int64_t i = 0; i < t->size * size; i += size) {
        uint64_t bits = own_bits(t->dtype, (const char *)in[0] + i);
        mf_store_i64(t->dtype, (char *)out[0] + i, bits ? __builtin_clzll(bits) - (64 - 8 * size) : 8 * size);
    }
    return NULL;
}

static mf_error_object *count_type(mf_type_context *c)
{
    mf_error_object *e = mf_type_logical1(c);
    if (!e && c->in[0]->dtype == MF_BOOL)
        return mf_type_error(c, MF_ERROR_DTYPE, "is defined for integers, not for bool");
    return e;
}

#define COUNT_ROW(word, operation)      \
    const mf_op mf_op_##word = {        \
        .name = #word,                  \
        .weight = 5,                    \
        MF_ELEMENTWISE_ROW,             \
        .type_rule = count_type,        \
        .jvp = mf_jvp_zero,             \
        .transpose = mf_transpose_none, \
        .cost = mf_cost_elementwise,    \
        .lower = mf_lower_none,         \
        .evaluate = word##_evaluate,    \
        MF_HLO(operation),              \
        .samples = word##_samples,      \
    }
static const char *const population_count_samples[] = {
    "i32[4]{=0,-1,5,-2147483648} -> i32[4]{=0,32,2,1}",
    "u8[2]{=255,7} -> u8[2]{=8,3}",
    "i64[2]{=-1,1} -> i64[2]{=64,1}",
    NULL,
};
COUNT_ROW(population_count, "popcnt");

static const char *const clz_samples[] = {
    "i32[4]{=0,-1,5,1} -> i32[4]{=32,0,29,31}",
    "u8[3]{=255,7,0} -> u8[3]{=0,5,8}",
    "i64[2]{=-1,1} -> i64[2]{=0,63}",
    NULL,
};
COUNT_ROW(clz, "count_leading_zeros");
