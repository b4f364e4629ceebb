/* Elementwise arithmetic of two operands: add sub mul div rem pow max min atan2 nextafter. One operand: unary.c; functions: math.c;
 * selecting and copying: choose.c; the public functions: elementwise_wrap.c. Invariant: operands and result have one shape and dtype; the
 * public functions have broadcast and promoted them. Integers wrap; where C is undefined, results follow XLA: x/0 = -1, x%0 = x, INT_MIN/-1
 * = INT_MIN. */
#include "ir/kernel.h"
#include "ops/elementwise/loops.h"
#include <math.h>

/* x + y, where either may be missing. */
static mf_variable *sum_of(mf_builder *b, mf_variable *x, mf_variable *y) { return !x ? y : !y ? x : e_add(b, x, y); }

/* ---- add */
MF_JVP_RULE(add_jvp)
{
    mf_copy_eqn(b, e, in, out);
    tout[0] = sum_of(b, tin[0], tin[1]);
}

MF_TRANSPOSE_RULE(add_transpose)
{
    (void)b, (void)e, (void)in;
    ct_in[0] = linear[0] ? ct[0] : NULL;
    ct_in[1] = linear[1] ? ct[0] : NULL;
}

static double add_real(double x, double y) { return x + y; }
static int64_t add_integer(int64_t x, int64_t y) { return (int64_t)((uint64_t)x + (uint64_t)y); }
static uint64_t add_natural(uint64_t x, uint64_t y) { return x + y; }
static double complex add_complex(double complex x, double complex y) { return x + y; }
MF_EVALUATE2_COMPLEX(add_evaluate, add_complex, add_real, add_integer, add_natural, NULL)

MF_LOWER_RULE(add_lower)
{
    (void)e;
    return k->add(k, in[0], in[1]);
}

static const char *const add_samples[] = {
    "f32[2,3]{-2:2} f32[2,3]{-2:2}",
    "f64[]{-2:2} f64[]{-2:2}",
    "f16[3]{=1,2,65504} f16[3]{=0.5,-2,65504} -> f16[3]{=1.5,0,inf}",
    "bf16[2]{=256,1} bf16[2]{=1,1} -> bf16[2]{=256,2}",
    "i32[2]{=2147483647,-5} i32[2]{=1,3} -> i32[2]{=-2147483648,-2}",
    "u8[2]{=255,7} u8[2]{=1,3} -> u8[2]{=0,10}",
    "i64[1]{=9223372036854775807} i64[1]{=1} -> i64[1]{=-9223372036854775808}",
    "c64[2]{=1,2,3,4} c64[2]{=1,-2,0.5,0} -> c64[2]{=2,0,3.5,4}",
    "c128[2,3]{-2:2} c128[2,3]{-2:2}",
    NULL,
};
const mf_op mf_op_add = {
    .name = "add",
    MF_ELEMENTWISE_ROW,
    .type_rule = mf_type_numeric2,
    .jvp = add_jvp,
    .transpose = add_transpose,
    .cost = mf_cost_elementwise,
    .lower = add_lower,
    .evaluate = add_evaluate,
    MF_HLO("add"),
    .samples = add_samples,
};

/* ---- sub */
MF_JVP_RULE(sub_jvp)
{
    mf_copy_eqn(b, e, in, out);
    if (tin[0] && tin[1])
        tout[0] = e_sub(b, tin[0], tin[1]);
    else
        tout[0] = tin[0] ? tin[0] : e_neg(b, tin[1]);
}

MF_TRANSPOSE_RULE(sub_transpose)
{
    (void)e, (void)in;
    ct_in[0] = linear[0] ? ct[0] : NULL;
    ct_in[1] = linear[1] ? e_neg(b, ct[0]) : NULL;
}

static double sub_real(double x, double y) { return x - y; }
static int64_t sub_integer(int64_t x, int64_t y) { return (int64_t)((uint64_t)x - (uint64_t)y); }
static uint64_t sub_natural(uint64_t x, uint64_t y) { return x - y; }
static double complex sub_complex(double complex x, double complex y) { return x - y; }
MF_EVALUATE2_COMPLEX(sub_evaluate, sub_complex, sub_real, sub_integer, sub_natural, NULL)

MF_LOWER_RULE(sub_lower)
{
    (void)e;
    return k->sub(k, in[0], in[1]);
}

static const char *const sub_samples[] = {
    "f32[2,3]{-2:2} f32[2,3]{-2:2}",
    "f64[3]{-2:2} f64[3]{-2:2}",
    "i32[2]{=-2147483648,5} i32[2]{=1,3} -> i32[2]{=2147483647,2}",
    "u16[2]{=0,7} u16[2]{=1,3} -> u16[2]{=65535,4}",
    "c64[3]{-2:2} c64[3]{-2:2}",
    "f16[2]{-2:2} f16[2]{-2:2}",
    NULL,
};
const mf_op mf_op_sub = {
    .name = "sub",
    MF_ELEMENTWISE_ROW,
    .type_rule = mf_type_numeric2,
    .jvp = sub_jvp,
    .transpose = sub_transpose,
    .cost = mf_cost_elementwise,
    .lower = sub_lower,
    .evaluate = sub_evaluate,
    MF_HLO("subtract"),
    .samples = sub_samples,
};

/* ---- mul */
MF_JVP_RULE(mul_jvp)
{
    mf_copy_eqn(b, e, in, out);
    tout[0] = sum_of(b, tin[0] ? e_mul(b, tin[0], in[1]) : NULL, tin[1] ? e_mul(b, in[0], tin[1]) : NULL);
}

/* Linear in one operand at a time; the other is known. */
MF_TRANSPOSE_RULE(mul_transpose)
{
    if (linear[0] && linear[1])
        mf_transpose_none(b, e, linear, in, ct, ct_in);
    else if (linear[0])
        ct_in[0] = e_mul(b, ct[0], in[1]);
    else
        ct_in[1] = e_mul(b, in[0], ct[0]);
}

static double mul_real(double x, double y) { return x * y; }
static int64_t mul_integer(int64_t x, int64_t y) { return (int64_t)((uint64_t)x * (uint64_t)y); }
static uint64_t mul_natural(uint64_t x, uint64_t y) { return x * y; }
static double complex mul_complex(double complex x, double complex y) { return x * y; }
MF_EVALUATE2_COMPLEX(mul_evaluate, mul_complex, mul_real, mul_integer, mul_natural, NULL)

MF_LOWER_RULE(mul_lower)
{
    (void)e;
    return k->mul(k, in[0], in[1]);
}

static const char *const mul_samples[] = {
    "f32[2,3]{-2:2} f32[2,3]{-2:2}",
    "f64[3]{-2:2} f64[3]{-2:2}",
    "i32[2]{=65536,-5} i32[2]{=65536,3} -> i32[2]{=0,-15}",
    "i8[2]{=127,-128} i8[2]{=2,-1} -> i8[2]{=-2,-128}",
    "f16[2]{=256,3} f16[2]{=256,0.5} -> f16[2]{=inf,1.5}",
    "c64[1]{=1,2} c64[1]{=3,-4} -> c64[1]{=11,2}",
    "c64[2,3]{-2:2} c64[2,3]{-2:2}",
    "bf16[3]{-2:2} bf16[3]{-2:2}",
    NULL,
};
const mf_op mf_op_mul = {
    .name = "mul",
    MF_ELEMENTWISE_ROW,
    .type_rule = mf_type_numeric2,
    .jvp = mul_jvp,
    .transpose = mul_transpose,
    .cost = mf_cost_elementwise,
    .lower = mul_lower,
    .evaluate = mul_evaluate,
    MF_HLO("multiply"),
    .samples = mul_samples,
};

/* ---- div */
static mf_variable *power_of(mf_builder *b, mf_variable *x, int64_t y)
{
    return mf_emit(b, &mf_op_integer_pow, &(mf_power_params){ y }, 1, x);
}

MF_JVP_RULE(div_jvp)
{
    mf_copy_eqn(b, e, in, out);
    mf_variable *by_x = tin[0] ? e_div(b, tin[0], in[1]) : NULL;
    mf_variable *by_y = tin[1] ? e_mul(b, e_mul(b, e_neg(b, tin[1]), in[0]), power_of(b, in[1], -2)) : NULL;
    tout[0] = sum_of(b, by_x, by_y);
}

MF_TRANSPOSE_RULE(div_transpose)
{
    if (linear[1])
        mf_transpose_none(b, e, linear, in, ct, ct_in);
    else
        ct_in[0] = e_div(b, ct[0], in[1]);
}

static double div_real(double x, double y) { return x / y; }
static int64_t div_integer(int64_t x, int64_t y) { return y == 0 ? -1 : y == -1 ? (int64_t)(0 - (uint64_t)x) : x / y; }
static uint64_t div_natural(uint64_t x, uint64_t y) { return y == 0 ? UINT64_MAX : x / y; }
static double complex div_complex(double complex x, double complex y) { return x / y; }
MF_EVALUATE2_COMPLEX(div_evaluate, div_complex, div_real, div_integer, div_natural, NULL)

MF_LOWER_RULE(div_lower)
{
    (void)e;
    return k->div(k, in[0], in[1]);
}

static const char *const div_samples[] = {
    "f32[2,3]{-2:2} f32[2,3]{0.5:2}",
    "f64[3]{-2:2} f64[3]{0.5:2}",
    "f32[4]{=1,-1,0,5.5} f32[4]{=0,0,0,2} -> f32[4]{=inf,-inf,nan,2.75}",
    "i32[5]{=5,-7,7,-2147483648,9} i32[5]{=0,2,-2,-1,3} -> i32[5]{=-1,-3,-3,-2147483648,3}",
    "i8[2]{=-128,5} i8[2]{=-1,0} -> i8[2]{=-128,-1}",
    "i64[2]{=-9223372036854775808,5} i64[2]{=-1,0} -> i64[2]{=-9223372036854775808,-1}",
    "u32[2]{=5,7} u32[2]{=0,2} -> u32[2]{=4294967295,3}",
    "u64[1]{=5} u64[1]{=0} -> u64[1]{=18446744073709551615}",
    "c64[1]{=11,2} c64[1]{=3,-4} -> c64[1]{=1,2}",
    "c128[3]{-2:2} c128[3]{0.5:2}",
    "bf16[3]{-2:2} bf16[3]{0.5:2}",
    NULL,
};
const mf_op mf_op_div = {
    .name = "div",
    .weight = 5,
    MF_ELEMENTWISE_ROW,
    .type_rule = mf_type_numeric2,
    .jvp = div_jvp,
    .transpose = div_transpose,
    .cost = mf_cost_elementwise,
    .lower = div_lower,
    .evaluate = div_evaluate,
    MF_HLO("divide"),
    .samples = div_samples,
};

/* ---- rem: has the dividend's sign */
MF_JVP_RULE(rem_jvp)
{
    mf_copy_eqn(b, e, in, out);
    mf_variable *by_y = NULL;
    if (tin[1]) {
        mf_variable *ratio = e_div(b, in[0], in[1]);
        mf_variable *whole = e_mul(b, e_unary(b, &mf_op_sign, ratio), e_unary(b, &mf_op_floor, e_unary(b, &mf_op_abs, ratio)));
        by_y = e_mul(b, e_neg(b, tin[1]), whole);
    }
    tout[0] = sum_of(b, tin[0], by_y);
}

static int64_t rem_integer(int64_t x, int64_t y) { return y == 0 ? x : y == -1 ? 0 : x % y; }
static uint64_t rem_natural(uint64_t x, uint64_t y) { return y == 0 ? x : x % y; }
MF_EVALUATE2(rem_evaluate, fmod, rem_integer, rem_natural, NULL)

static const char *const rem_samples[] = {
    "f32[2]{=5.5,-7.25} f32[2]{=2,3} -> f32[2]{=1.5,-1.25}",
    "f64[3]{=5.5,-7.25,3.5} f64[3]{=2,3,-1.5}",
    "i32[5]{=5,-7,7,-2147483648,9} i32[5]{=0,2,-2,-1,3} -> i32[5]{=5,-1,1,0,0}",
    "u8[2]{=5,7} u8[2]{=0,2} -> u8[2]{=5,1}",
    "f16[1]{=5.5} f16[1]{=2} -> f16[1]{=1.5}",
    NULL,
};
const mf_op mf_op_rem = {
    .name = "rem",
    .weight = 16,
    MF_ELEMENTWISE_ROW,
    .type_rule = mf_type_number2,
    .jvp = rem_jvp,
    .transpose = mf_transpose_none,
    .cost = mf_cost_elementwise,
    .lower = mf_lower_by_name,
    .evaluate = rem_evaluate,
    MF_HLO("remainder"),
    .samples = rem_samples,
};

/* ---- pow. The derivative with respect to the exponent uses log 1 instead of log 0, so that a base of 0 gives 0, as in JAX. */
MF_JVP_RULE(pow_jvp)
{
    mf_copy_eqn(b, e, in, out);
    mf_variable *x = in[0], *y = in[1], *by_x = NULL, *by_y = NULL;
    if (tin[0])
        by_x = e_mul(b, tin[0], e_mul(b, y, e_binary(b, &mf_op_pow, x, e_shift(b, y, -1))));
    if (tin[1]) {
        mf_variable *base = e_select(b, e_compare(b, &mf_op_eq, x, e_zeros_like(b, x)), e_full(b, x->type, 1), x);
        by_y = e_mul(b, tin[1], e_mul(b, e_unary(b, &mf_op_log, base), out[0]));
    }
    tout[0] = sum_of(b, by_x, by_y);
}

static int64_t pow_integer(int64_t x, int64_t y)
{
    if (y < 0)
        return x == -1 ? (y & 1 ? -1 : 1) : x == 1;
    return (int64_t)mf_power_natural((uint64_t)x, (uint64_t)y);
}
/* cpow gives NaN for 0 to the power 0. */
static double complex pow_complex(double complex x, double complex y) { return y == 0 ? 1 : cpow(x, y); }
MF_EVALUATE2_COMPLEX(pow_evaluate, pow_complex, pow, pow_integer, mf_power_natural, NULL)

static mf_hlo_value bit_of(mf_hlo *h, const mf_type *type, int bit)
{
    uint64_t element = UINT64_C(1) << bit; /* little-endian: the low bytes are those of a narrower integer */
    return h_bytes(h, type, &element);
}

/* Multiplies squares for each bit of the exponent, since XLA's "power" uses only six bits. For a negative exponent the lowest bit is that
 * of its magnitude, which suffices for the bases 1 and -1; other bases give 0. */
static mf_hlo_value pow_of_integers(mf_hlo *h, mf_hlo_value x, mf_hlo_value y)
{
    bool sign = mf_dtype_is_signed(x.type->dtype);
    int bits = 8 * mf_dtype_size(x.type->dtype) - sign;
    mf_hlo_value zero = h_full(h, x.type, 0), one = h_full(h, x.type, 1), power = one, square = x;
    for (int bit = 0; bit < bits; bit++) {
        mf_hlo_value has = h_compare(h, "NE", false, h_binary(h, "and", y, bit_of(h, x.type, bit)), zero);
        power = h_binary(h, "multiply", power, h_select(h, has, square, one));
        square = bit + 1 < bits ? h_binary(h, "multiply", square, square) : square;
    }
    if (!sign)
        return power;
    mf_hlo_value negative = h_compare(h, "LT", false, y, zero), other = h_compare(h, "NE", false, h_unary(h, "abs", x), one);
    return h_select(h, h_op(h, "and", negative.type, (mf_hlo_value[]){ negative, other }, 2, NULL), zero, power);
}

/* Complex 0 to the power 0 is 1 on every client. */
MF_HLO_RULE(pow_hlo)
{
    const mf_type *t = e->out[0]->type;
    out[0] = mf_dtype_is_int(t->dtype) ? pow_of_integers(h, in[0], in[1]) : h_binary(h, "power", in[0], in[1]);
    if (mf_dtype_is_complex(t->dtype))
        out[0] = h_select(h, h_compare(h, "EQ", false, in[1], h_full(h, t, 0)), h_full(h, t, 1), out[0]);
}

static const char *const pow_samples[] = {
    "f32[2,3]{0.5:2} f32[2,3]{-2:2}",
    "f64[3]{0.5:2} f64[3]{-2:2}",
    "f32[5]{=2,-2,0,1,-8} f32[5]{=3,3,0,nan,0.5} -> f32[5]{=8,-8,1,1,nan}",
    "i32[4]{=2,-3,5,0} i32[4]{=10,3,0,0} -> i32[4]{=1024,-27,1,1}",
    "i32[4]{=3,-3,1,-1} i32[4]{=64,1000001,-5,-5} -> i32[4]{=2038349057,1295716605,1,-1}",
    "i32[4]{=-1,2,0,3} i32[4]{=-2147483648,-1,-3,2147483647} -> i32[4]{=1,0,0,-1431655765}",
    "i8[3]{=127,3,-128} i8[3]{=-1,127,-2} -> i8[3]{=0,-85,0}",
    "u8[2]{=3,2} u8[2]{=255,7} -> u8[2]{=171,128}",
    "i64[3]{=3,-7,1} i64[3]{=9223372036854775807,65,-9223372036854775808}",
    "u64[2]{=3,7} u64[2]{=18446744073709551615,9223372036854775808}",
    "i16[3]{-9:9} i16[3]{-3:300}",
    "c64[2]{=0,0,3,4} c64[2]{=0,0,0,0} -> c64[2]{=1,0,1,0}",
    "c64[3]{0.5:2} c64[3]{-2:2}",
    "bf16[3]{0.5:2} bf16[3]{-2:2}",
    NULL,
};
const mf_op mf_op_pow = {
    .name = "pow",
    .approximate = true,
    .weight = 16,
    MF_ELEMENTWISE_ROW,
    .type_rule = mf_type_numeric2,
    .jvp = pow_jvp,
    .transpose = mf_transpose_none,
    .cost = mf_cost_elementwise,
    .lower = mf_lower_by_name,
    .evaluate = pow_evaluate,
    MF_HLO_BY(pow_hlo),
    .samples = pow_samples,
};

/* ---- max, min: at a tie each operand gets half of the tangent */
static mf_variable *share_of(mf_builder *b, mf_variable *x, mf_variable *other, mf_variable *chosen)
{
    mf_variable *one = e_full(b, x->type, 1), *zero = e_zeros_like(b, x);
    mf_variable *mine = e_select(b, e_compare(b, &mf_op_eq, x, chosen), one, zero);
    return e_div(b, mine, e_select(b, e_compare(b, &mf_op_eq, other, chosen), e_full(b, x->type, 2), one));
}

MF_JVP_RULE(extreme_jvp)
{
    mf_copy_eqn(b, e, in, out);
    mf_variable *by_x = tin[0] ? e_mul(b, tin[0], share_of(b, in[0], in[1], out[0])) : NULL;
    mf_variable *by_y = tin[1] ? e_mul(b, tin[1], share_of(b, in[1], in[0], out[0])) : NULL;
    tout[0] = sum_of(b, by_x, by_y);
}

static int64_t max_integer(int64_t x, int64_t y) { return x > y ? x : y; }
static uint64_t max_natural(uint64_t x, uint64_t y) { return x > y ? x : y; }
static int64_t min_integer(int64_t x, int64_t y) { return x < y ? x : y; }
static uint64_t min_natural(uint64_t x, uint64_t y) { return x < y ? x : y; }
MF_EVALUATE2_COMPLEX(max_evaluate, mf_greater_complex, mf_greater_real, max_integer, max_natural, NULL)
MF_EVALUATE2_COMPLEX(min_evaluate, mf_lesser_complex, mf_lesser_real, min_integer, min_natural, NULL)

/* bool: or, and */
MF_LOWER_RULE(max_lower) { return k->call(k, e->in[0]->type->dtype == MF_BOOL ? "or" : "max", in, 2); }
MF_LOWER_RULE(min_lower) { return k->call(k, e->in[0]->type->dtype == MF_BOOL ? "and" : "min", in, 2); }

static const char *const max_samples[] = {
    "f32[2,3]{-2:2} f32[2,3]{-2:2}",
    "f64[3]{-2:2} f64[3]{-2:2}",
    "f32[5]{=1,nan,3,-0.0,0} f32[5]{=2,1,nan,0,-0.0} -> f32[5]{=2,nan,nan,0,0}",
    "i32[2]{=-5,3} i32[2]{=4,-3} -> i32[2]{=4,3}",
    "u8[2]{=200,3} u8[2]{=4,5} -> u8[2]{=200,5}",
    "bool[4]{=0,0,1,1} bool[4]{=0,1,0,1} -> bool[4]{=0,1,1,1}",
    "bf16[3]{-2:2} bf16[3]{-2:2}",
    "c64[4]{=1,2,1,-1,0,5,2,0} c64[4]{=1,1,1,-1,3,0,nan,0} -> c64[4]{=1,2,1,-1,3,0,nan,0}",
    NULL,
};
MF_HLO_RULE(extreme_hlo) { out[0] = h_join(h, e->op == &mf_op_max ? MF_REDUCE_MAX : MF_REDUCE_MIN, in[0], in[1]); }

const mf_op mf_op_max = {
    .name = "max",
    MF_ELEMENTWISE_ROW,
    .type_rule = mf_type_ordered2,
    .jvp = extreme_jvp,
    .transpose = mf_transpose_none,
    .cost = mf_cost_elementwise,
    .lower = max_lower,
    .evaluate = max_evaluate,
    MF_HLO_BY(extreme_hlo),
    .samples = max_samples,
};

static const char *const min_samples[] = {
    "f32[2,3]{-2:2} f32[2,3]{-2:2}",
    "f64[3]{-2:2} f64[3]{-2:2}",
    "f32[5]{=1,nan,3,-0.0,0} f32[5]{=2,1,nan,0,-0.0} -> f32[5]{=1,nan,nan,-0.0,-0.0}",
    "i32[2]{=-5,3} i32[2]{=4,-3} -> i32[2]{=-5,-3}",
    "bool[4]{=0,0,1,1} bool[4]{=0,1,0,1} -> bool[4]{=0,0,0,1}",
    "f16[3]{-2:2} f16[3]{-2:2}",
    "c128[4]{=1,2,1,-1,0,5,2,0} c128[4]{=1,1,1,-1,3,0,nan,0} -> c128[4]{=1,1,1,-1,0,5,nan,0}",
    NULL,
};
const mf_op mf_op_min = {
    .name = "min",
    MF_ELEMENTWISE_ROW,
    .type_rule = mf_type_ordered2,
    .jvp = extreme_jvp,
    .transpose = mf_transpose_none,
    .cost = mf_cost_elementwise,
    .lower = min_lower,
    .evaluate = min_evaluate,
    MF_HLO_BY(extreme_hlo),
    .samples = min_samples,
};

/* ---- atan2 */
MF_JVP_RULE(atan2_jvp)
{
    mf_copy_eqn(b, e, in, out);
    mf_variable *x = in[0], *y = in[1], *norm = e_add(b, e_unary(b, &mf_op_square, x), e_unary(b, &mf_op_square, y));
    mf_variable *by_x = tin[0] ? e_mul(b, tin[0], e_div(b, y, norm)) : NULL;
    mf_variable *by_y = tin[1] ? e_mul(b, tin[1], e_div(b, e_neg(b, x), norm)) : NULL;
    tout[0] = sum_of(b, by_x, by_y);
}

MF_EVALUATE2(atan2_evaluate, atan2, NULL, NULL, NULL)

static const char *const atan2_samples[] = {
    "f32[2,3]{0.5:2} f32[2,3]{-2:2}",
    "f64[3]{-2:2} f64[3]{0.5:2}",
    "f32[3]{=0,0,-0.0} f32[3]{=1,0,0} -> f32[3]{=0,0,-0.0}",
    "f32[4]{=inf,3e38,2,nan} f32[4]{=inf,0,-inf,1} -> f32[4]{=0.785398185,1.57079637,3.14159274,nan}",
    "f16[3]{0.5:2} f16[3]{0.5:2}",
    "f16[3]{=0.5,65504,65504} f16[3]{=65504,65504,0.5}",
    NULL,
};
MF_HLO_RULE(atan2_hlo)
{
    (void)e;
    out[0] = h_atan2(h, in[0], in[1]);
}
const mf_op mf_op_atan2 = {
    .name = "atan2",
    .approximate = true,
    .weight = 16,
    MF_ELEMENTWISE_ROW,
    .type_rule = mf_type_float2,
    .jvp = atan2_jvp,
    .transpose = mf_transpose_none,
    .cost = mf_cost_elementwise,
    .lower = mf_lower_by_name,
    .evaluate = atan2_evaluate,
    MF_HLO_BY(atan2_hlo),
    .samples = atan2_samples,
};

/* ---- nextafter: x and one unit in the last place, so the derivative is 1 in x and 0 in y */
MF_JVP_RULE(nextafter_jvp)
{
    mf_copy_eqn(b, e, in, out);
    tout[0] = tin[0];
}

/* f16 and bf16 are sign and magnitude: incrementing the bits moves away from zero. */
static uint16_t next_half(mf_dtype dtype, uint16_t x, uint16_t y)
{
    float fx = dtype == MF_F16 ? mf_f16_to_f32(x) : mf_bf16_to_f32(x);
    float fy = dtype == MF_F16 ? mf_f16_to_f32(y) : mf_bf16_to_f32(y);
    if (fx != fx || fy != fy)
        return dtype == MF_F16 ? mf_f32_to_f16(NAN) : mf_f32_to_bf16(NAN);
    if (fx == fy)
        return y;
    if (fx == 0)
        return (uint16_t)((y & 0x8000u) | 1);
    return (uint16_t)((fx < fy) == (fx > 0) ? x + 1 : x - 1);
}

MF_EVALUATE_RULE(nextafter_evaluate)
{
    static const mf_loop2 rule = { nextafter, NULL, NULL, nextafterf };
    const mf_type *t = e->out[0]->type;
    if (t->dtype != MF_F16 && t->dtype != MF_BF16) {
        mf_run_loop2(&rule, t->dtype, t->size, in[0], in[1], out[0]);
        return NULL;
    }
    for (int64_t i = 0; i < t->size; i++)
        ((uint16_t *)out[0])[i] = next_half(t->dtype, ((const uint16_t *)in[0])[i], ((const uint16_t *)in[1])[i]);
    return NULL;
}

/* The engine computes f16 and bf16 as f32, whose neighbours are different. */
MF_LOWER_RULE(nextafter_lower) { return mf_dtype_size(e->out[0]->type->dtype) == 2 ? 0 : k->call(k, "nextafter", in, 2); }

static const char *const nextafter_samples[] = {
    "f32[3]{=1,0,-1} f32[3]{=2,1,-1} -> f32[3]{=1.00000012,1.40129846e-45,-1}",
    "f64[2]{=1,1} f64[2]{=2,0}",
    "f16[3]{=1,1,0} f16[3]{=2,-2,-1} -> f16[3]{=1.0009765625,0.99951171875,-5.960464477539063e-08}",
    "bf16[2]{=1,nan} bf16[2]{=2,1} -> bf16[2]{=1.0078125,nan}",
    NULL,
};
const mf_op mf_op_nextafter = {
    .name = "nextafter",
    .weight = 16,
    MF_ELEMENTWISE_ROW,
    .type_rule = mf_type_float2,
    .jvp = nextafter_jvp,
    .transpose = mf_transpose_none,
    .cost = mf_cost_elementwise,
    .lower = nextafter_lower,
    .evaluate = nextafter_evaluate,
    MF_HLO("chlo.next_after"),
    .samples = nextafter_samples,
};
