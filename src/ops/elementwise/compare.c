/* Elementwise comparisons: eq ne lt le gt ge. Invariant: operands of one type, a bool result of their shape. A NaN is unequal to everything
 * and neither less nor greater. */
#include "ir/kernel.h"
#include "ops/elementwise/loops.h"

static mf_error_object *compare_type(mf_type_context *c)
{
    mf_error_object *e = mf_type_ordered2(c);
    if (!e)
        c->out[0] = mf_type_with_dtype(c->in[0], MF_BOOL);
    return e;
}

/* Keys can be tested for equality but have no order. */
static mf_error_object *equality_type(mf_type_context *c)
{
    if (c->in_count != 2 || c->in[0]->dtype != MF_KEY)
        return compare_type(c);
    mf_error_object *e = mf_type_like_first(c);
    if (!e)
        c->out[0] = mf_type_with_dtype(c->in[0], MF_BOOL);
    return e;
}

MF_LOWER_RULE(compare_lower) { return k->compare(k, e->op->name, in[0], in[1]); }

/* Complex numbers: the imaginary parts decide where the real parts are equal. */
static void compare_complex(const mf_loop_compare *rule, const mf_eqn *e, const void *const *in, uint8_t *out)
{
    mf_dtype dtype = e->in[0]->type->dtype, part = dtype == MF_C64 ? MF_F32 : MF_F64;
    int64_t size = mf_dtype_size(part);
    for (int64_t i = 0; i < e->in[0]->type->size; i++) {
        const char *x = (const char *)in[0] + 2 * i * size, *y = (const char *)in[1] + 2 * i * size;
        double re[2] = { mf_load_f64(part, x), mf_load_f64(part, y) };
        double im[2] = { mf_load_f64(part, x + size), mf_load_f64(part, y + size) };
        out[i] = re[0] == re[1] ? rule->real(im[0], im[1]) : rule->real(re[0], re[1]);
    }
}

static void compare(const mf_loop_compare *rule, const mf_eqn *e, const void *const *in, void *out)
{
    const mf_type *t = e->in[0]->type;
    if (mf_dtype_is_complex(t->dtype))
        compare_complex(rule, e, in, out);
    else
        mf_run_compare(rule, t->dtype, t->size, in[0], in[1], out);
}

#define COMPARE_EVALUATE(name, sign)                                                         \
    static bool name##_real(double x, double y) { return x sign y; }                         \
    static bool name##_integer(int64_t x, int64_t y) { return x sign y; }                    \
    static bool name##_natural(uint64_t x, uint64_t y) { return x sign y; }                  \
    MF_EVALUATE_RULE(name##_evaluate)                                                        \
    {                                                                                        \
        static const mf_loop_compare rule = { name##_real, name##_integer, name##_natural }; \
        compare(&rule, e, in, out[0]);                                                       \
        return NULL;                                                                         \
    }

/* The direction is the op's name in capitals. */
MF_HLO_RULE(compare_hlo)
{
    const char direction[] = { (char)(e->op->name[0] - 'a' + 'A'), (char)(e->op->name[1] - 'a' + 'A'), 0 };
    out[0] = h_compare(h, direction, false, in[0], in[1]);
}

/* The six ops differ only in the comparison. */
#define COMPARE_ROW(word, type)         \
    const mf_op mf_op_##word = {        \
        .name = #word,                  \
        MF_ELEMENTWISE_ROW,             \
        .type_rule = type,              \
        .jvp = mf_jvp_zero,             \
        .transpose = mf_transpose_none, \
        .cost = mf_cost_elementwise,    \
        .lower = compare_lower,         \
        .evaluate = word##_evaluate,    \
        MF_HLO_BY(compare_hlo),         \
        .samples = word##_samples,      \
    }

COMPARE_EVALUATE(eq, ==)
static const char *const eq_samples[] = {
    "f32[4]{=1,2,nan,0} f32[4]{=1,3,nan,-0.0} -> bool[4]{=1,0,0,1}",
    "i32[2]{=1,2} i32[2]{=1,3} -> bool[2]{=1,0}",
    "bool[2]{=1,0} bool[2]{=1,1} -> bool[2]{=1,0}",
    "bf16[2,3]{-2:2} bf16[2,3]{-2:2}",
    "c64[3]{=1,2,1,2,nan,0} c64[3]{=1,2,1,3,nan,0} -> bool[3]{=1,0,0}",
    NULL,
};
COMPARE_ROW(eq, equality_type);

COMPARE_EVALUATE(ne, !=)
static const char *const ne_samples[] = {
    "f32[4]{=1,2,nan,0} f32[4]{=1,3,nan,-0.0} -> bool[4]{=0,1,1,0}",
    "u8[2]{=1,2} u8[2]{=1,3} -> bool[2]{=0,1}",
    "f64[2,3]{-2:2} f64[2,3]{-2:2}",
    "c128[3]{=1,2,1,2,nan,0} c128[3]{=1,2,1,3,nan,0} -> bool[3]{=0,1,1}",
    NULL,
};
COMPARE_ROW(ne, equality_type);

COMPARE_EVALUATE(lt, <)
static const char *const lt_samples[] = {
    "f32[4]{=1,2,nan,3} f32[4]{=1,3,nan,2} -> bool[4]{=0,1,0,0}",
    "i32[2]{=-1,2} i32[2]{=1,2} -> bool[2]{=1,0}",
    "u32[2]{=4294967295,2} u32[2]{=1,3} -> bool[2]{=0,1}",
    "f16[2,3]{-2:2} f16[2,3]{-2:2}",
    "c64[4]{=1,2,1,-1,0,5,nan,0} c64[4]{=1,1,1,-1,3,0,nan,1} -> bool[4]{=0,0,1,0}",
    NULL,
};
COMPARE_ROW(lt, compare_type);

COMPARE_EVALUATE(le, <=)
static const char *const le_samples[] = {
    "f32[4]{=1,2,nan,3} f32[4]{=1,3,nan,2} -> bool[4]{=1,1,0,0}",
    "i64[2]{=-1,9223372036854775807} i64[2]{=1,2} -> bool[2]{=1,0}",
    "bool[2]{=0,1} bool[2]{=1,0} -> bool[2]{=1,0}",
    NULL,
};
COMPARE_ROW(le, compare_type);

COMPARE_EVALUATE(gt, >)
static const char *const gt_samples[] = {
    "f32[4]{=1,2,nan,3} f32[4]{=1,3,nan,2} -> bool[4]{=0,0,0,1}",
    "i8[2]{=-1,2} i8[2]{=1,-2} -> bool[2]{=0,1}",
    "u64[2]{=18446744073709551615,2} u64[2]{=1,3} -> bool[2]{=1,0}",
    NULL,
};
COMPARE_ROW(gt, compare_type);

COMPARE_EVALUATE(ge, >=)
static const char *const ge_samples[] = {
    "f32[4]{=1,2,nan,3} f32[4]{=1,3,nan,2} -> bool[4]{=1,0,0,1}",
    "i16[2]{=-1,2} i16[2]{=1,2} -> bool[2]{=0,1}",
    "f64[2,3]{-2:2} f64[2,3]{-2:2}",
    "c128[4]{=1,2,1,-1,0,5,nan,0} c128[4]{=1,1,1,-1,3,0,nan,1} -> bool[4]{=1,1,0,0}",
    NULL,
};
COMPARE_ROW(ge, compare_type);
