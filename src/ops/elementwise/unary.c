/* Elementwise arithmetic of one operand: neg abs sign floor ceil round square integer_pow is_finite. Invariant: the result has the
 * operand's shape and dtype, except that is_finite gives bool and abs of complex numbers floats. Integers wrap. */
#include "ir/kernel.h"
#include "ops/elementwise/loops.h"
#include <math.h>

/* ---- neg */
MF_TRANSPOSE_RULE(neg_transpose)
{
    (void)e, (void)linear, (void)in;
    ct_in[0] = e_neg(b, ct[0]);
}

static double neg_real(double x) { return -x; }
static int64_t neg_integer(int64_t x) { return (int64_t)(0 - (uint64_t)x); }
static uint64_t neg_natural(uint64_t x) { return 0 - x; }
static double complex neg_complex(double complex x) { return -x; }
MF_EVALUATE1_COMPLEX(neg_evaluate, neg_complex, neg_real, neg_integer, neg_natural, NULL)

static const char *const neg_samples[] = {
    "f32[2,3]{-2:2}",
    "f64[3]{-2:2}",
    "f32[2]{=0,-0.0} -> f32[2]{=-0.0,0}",
    "i32[2]{=-2147483648,5} -> i32[2]{=-2147483648,-5}",
    "u8[2]{=1,0} -> u8[2]{=255,0}",
    "bf16[3]{-2:2}",
    "c64[2]{=1,2,-3,0.5} -> c64[2]{=-1,-2,3,-0.5}",
    NULL,
};
const mf_op mf_op_neg = {
    .name = "neg",
    MF_ELEMENTWISE_ROW,
    .type_rule = mf_type_numeric1,
    .jvp = mf_jvp_linear,
    .transpose = neg_transpose,
    .cost = mf_cost_elementwise,
    .lower = mf_lower_by_name,
    .evaluate = neg_evaluate,
    MF_HLO("negate"),
    .samples = neg_samples,
};

/* ---- abs: the derivative at 0 is 1, as in JAX; of a complex number the modulus, a float */
static mf_error_object *abs_type(mf_type_context *c)
{
    mf_error_object *e = mf_type_numeric1(c);
    if (!e && mf_dtype_is_complex(c->in[0]->dtype))
        c->out[0] = mf_type_with_dtype(c->in[0], c->in[0]->dtype == MF_C64 ? MF_F32 : MF_F64);
    return e;
}

/* The tangent's component along x: Re(t conj(x)) / |x|, and 0 at 0. */
static mf_variable *along(mf_builder *b, mf_variable *t, mf_variable *x, mf_variable *size)
{
    mf_variable *nowhere = e_compare(b, &mf_op_eq, size, e_zeros_like(b, size));
    mf_variable *length = e_select(b, nowhere, e_full(b, size->type, 1), size);
    return e_unary(b, &mf_op_real, e_mul(b, t, e_div(b, e_unary(b, &mf_op_conj, x), e_convert(b, length, x->type->dtype))));
}

MF_JVP_RULE(abs_jvp)
{
    mf_copy_eqn(b, e, in, out);
    if (mf_dtype_is_complex(in[0]->type->dtype))
        tout[0] = along(b, tin[0], in[0], out[0]);
    else
        tout[0] = e_select(b, e_compare(b, &mf_op_ge, in[0], e_zeros_like(b, in[0])), tin[0], e_neg(b, tin[0]));
}

static int64_t abs_integer(int64_t x) { return x < 0 ? neg_integer(x) : x; }
static uint64_t same_natural(uint64_t x) { return x; }
MF_EVALUATE1(abs_of_real, fabs, abs_integer, same_natural, NULL)

MF_EVALUATE_RULE(abs_evaluate)
{
    mf_dtype part = e->out[0]->type->dtype;
    int64_t size = mf_dtype_size(part);
    const char *x = in[0];
    if (!mf_dtype_is_complex(e->in[0]->type->dtype))
        return abs_of_real(e, in, out);
    for (int64_t i = 0; i < e->out[0]->type->size; i++)
        mf_store_f64(part, (char *)out[0] + i * size,
                     hypot(mf_load_f64(part, x + 2 * i * size), mf_load_f64(part, x + (2 * i + 1) * size)));
    return NULL;
}

static const char *const abs_samples[] = {
    "f32[4]{=-2,-0.0,1.5,nan} -> f32[4]{=2,0,1.5,nan}",
    "f64[3]{0.5:2}",
    "f32[2,3]{-2:-0.5}",
    "i32[2]{=-2147483648,-5} -> i32[2]{=-2147483648,5}",
    "u8[2]{=200,5} -> u8[2]{=200,5}",
    "f16[3]{-2:-0.5}",
    "c64[2]{=3,-4,0,0} -> f32[2]{=5,0}",
    "c128[2,3]{-2:2}",
    NULL,
};
/* StableHLO's abs is not defined for unsigned integers. */
MF_HLO_RULE(abs_hlo) { out[0] = mf_dtype_is_unsigned(in[0].type->dtype) ? in[0] : h_op(h, "abs", e->out[0]->type, in, 1, NULL); }

const mf_op mf_op_abs = {
    .name = "abs",
    MF_ELEMENTWISE_ROW,
    .type_rule = abs_type,
    .jvp = abs_jvp,
    .transpose = mf_transpose_none,
    .cost = mf_cost_elementwise,
    .lower = mf_lower_by_name,
    .evaluate = abs_evaluate,
    MF_HLO_BY(abs_hlo),
    .samples = abs_samples,
};

/* ---- sign floor ceil round: derivative 0 */
static double sign_real(double x) { return x == 0 || x != x ? x : x > 0 ? 1 : -1; }
static int64_t sign_integer(int64_t x) { return (x > 0) - (x < 0); }
static uint64_t sign_natural(uint64_t x) { return x != 0; }
static double complex sign_complex(double complex x) { return x == 0 ? x : x / cabs(x); }
MF_EVALUATE1_COMPLEX(sign_evaluate, sign_complex, sign_real, sign_integer, sign_natural, NULL)
MF_EVALUATE1(floor_evaluate, floor, NULL, NULL, NULL)
MF_EVALUATE1(ceil_evaluate, ceil, NULL, NULL, NULL)
MF_EVALUATE1(round_evaluate, nearbyint, NULL, NULL, NULL) /* C's default rounding mode is half to even */

/* The sign of a complex number is its direction, which the tangent's component across x turns; JAX has 0 here. */
MF_JVP_RULE(sign_jvp)
{
    mf_variable *x = in[0];
    mf_jvp_zero(b, e, in, tin, out, tout);
    if (!mf_dtype_is_complex(x->type->dtype))
        return;
    mf_variable *size = e_unary(b, &mf_op_abs, x), *nowhere = e_compare(b, &mf_op_eq, size, e_zeros_like(b, size));
    mf_variable *length = e_convert(b, e_select(b, nowhere, e_full(b, size->type, 1), size), x->type->dtype);
    mf_variable *outwards = e_convert(b, along(b, tin[0], x, size), x->type->dtype);
    tout[0] = e_select(b, nowhere, e_zeros_like(b, x), e_div(b, e_sub(b, tin[0], e_mul(b, out[0], outwards)), length));
}

static const char *const sign_samples[] = {
    "f32[5]{=-2,-0.0,0,1.5,nan} -> f32[5]{=-1,-0.0,0,1,nan}",
    "f64[3]{0.5:2}",
    "i32[3]{=-7,0,7} -> i32[3]{=-1,0,1}",
    "u8[2]{=200,0} -> u8[2]{=1,0}",
    "f16[3]{-2:-0.5}",
    "c64[2]{=3,-4,0,0} -> c64[2]{=0.6,-0.8,0,0}",
    "c128[3]{-2:2}",
    NULL,
};
MF_HLO_RULE(sign_hlo)
{
    (void)e;
    out[0] = mf_dtype_is_unsigned(in[0].type->dtype) ? h_binary(h, "minimum", in[0], h_full(h, in[0].type, 1)) : h_unary(h, "sign", in[0]);
}

const mf_op mf_op_sign = {
    .name = "sign",
    MF_ELEMENTWISE_ROW,
    .type_rule = mf_type_numeric1,
    .jvp = sign_jvp,
    .transpose = mf_transpose_none,
    .cost = mf_cost_elementwise,
    .lower = mf_lower_by_name,
    .evaluate = sign_evaluate,
    MF_HLO_BY(sign_hlo),
    .samples = sign_samples,
};

static const char *const floor_samples[] = {
    "f32[5]{=-1.5,-0.0,0.7,1,inf} -> f32[5]{=-2,-0.0,0,1,inf}",
    "f64[2]{=0.3,1.7}",
    "bf16[2]{=-1.5,2.5} -> bf16[2]{=-2,2}",
    NULL,
};
const mf_op mf_op_floor = {
    .name = "floor",
    .weight = 5,
    MF_ELEMENTWISE_ROW,
    .type_rule = mf_type_float1,
    .jvp = mf_jvp_zero,
    .transpose = mf_transpose_none,
    .cost = mf_cost_elementwise,
    .lower = mf_lower_by_name,
    .evaluate = floor_evaluate,
    MF_HLO("floor"),
    .samples = floor_samples,
};

static const char *const ceil_samples[] = {
    "f32[5]{=-1.5,-0.5,0.7,1,inf} -> f32[5]{=-1,-0.0,1,1,inf}",
    "f64[2]{=0.3,1.7}",
    "f16[2]{=-1.5,2.5} -> f16[2]{=-1,3}",
    NULL,
};
const mf_op mf_op_ceil = {
    .name = "ceil",
    .weight = 5,
    MF_ELEMENTWISE_ROW,
    .type_rule = mf_type_float1,
    .jvp = mf_jvp_zero,
    .transpose = mf_transpose_none,
    .cost = mf_cost_elementwise,
    .lower = mf_lower_by_name,
    .evaluate = ceil_evaluate,
    MF_HLO("ceil"),
    .samples = ceil_samples,
};

static const char *const round_samples[] = {
    "f32[6]{=-1.5,-0.5,0.5,1.5,2.5,8388607.5} -> f32[6]{=-2,-0.0,0,2,2,8388608}",
    "f64[2]{=0.3,1.7}",
    "bf16[2]{=-1.5,2.5} -> bf16[2]{=-2,2}",
    NULL,
};
const mf_op mf_op_round = {
    .name = "round",
    .weight = 5,
    MF_ELEMENTWISE_ROW,
    .type_rule = mf_type_float1,
    .jvp = mf_jvp_zero,
    .transpose = mf_transpose_none,
    .cost = mf_cost_elementwise,
    .lower = mf_lower_by_name,
    .evaluate = round_evaluate,
    MF_HLO("round_nearest_even"),
    .samples = round_samples,
};

/* ---- square */
MF_JVP_RULE(square_jvp)
{
    mf_copy_eqn(b, e, in, out);
    tout[0] = e_mul(b, tin[0], e_scale(b, in[0], 2));
}

static double square_real(double x) { return x * x; }
static int64_t square_integer(int64_t x) { return (int64_t)((uint64_t)x * (uint64_t)x); }
static uint64_t square_natural(uint64_t x) { return x * x; }
static double complex square_complex(double complex x) { return x * x; }
MF_EVALUATE1_COMPLEX(square_evaluate, square_complex, square_real, square_integer, square_natural, NULL)

MF_LOWER_RULE(square_lower)
{
    (void)e;
    return k->mul(k, in[0], in[0]);
}

static const char *const square_samples[] = {
    "f32[2,3]{-2:2}",
    "f64[3]{-2:2}",
    "i32[2]{=65536,-3} -> i32[2]{=0,9}",
    "u8[1]{=16} -> u8[1]{=0}",
    "bf16[3]{-2:2}",
    "c64[1]{=1,2} -> c64[1]{=-3,4}",
    "c64[2]{-2:2}",
    NULL,
};
MF_HLO_RULE(square_hlo)
{
    (void)e;
    out[0] = h_binary(h, "multiply", in[0], in[0]);
}

const mf_op mf_op_square = {
    .name = "square",
    MF_ELEMENTWISE_ROW,
    .type_rule = mf_type_numeric1,
    .jvp = square_jvp,
    .transpose = mf_transpose_none,
    .cost = mf_cost_elementwise,
    .lower = square_lower,
    .evaluate = square_evaluate,
    MF_HLO_BY(square_hlo),
    .samples = square_samples,
};

/* ---- integer_pow: repeated squaring, the same products in the same order everywhere; a negative power is the reciprocal of the positive
 * one */
static mf_error_object *power_type(mf_type_context *c)
{
    int64_t y = ((const mf_power_params *)c->params)->y;
    mf_error_object *e = mf_type_numeric1(c);
    if (!e && y < 0 && !mf_dtype_is_inexact(c->in[0]->dtype))
        return mf_type_error(c, MF_ERROR_DTYPE, "integers cannot be raised to the negative power %lld", (long long)y);
    return e;
}

MF_JVP_RULE(power_jvp)
{
    int64_t y = ((const mf_power_params *)e->params)->y;
    mf_copy_eqn(b, e, in, out);
    tout[0] = y == 0 ? NULL
                     : e_mul(b, tin[0], e_scale(b, mf_emit(b, &mf_op_integer_pow, &(mf_power_params){ y - 1 }, 1, in[0]), (double)y));
}

/* The magnitude of y, correct for INT64_MIN too. */
static uint64_t power_count(int64_t y) { return y < 0 ? 0 - (uint64_t)y : (uint64_t)y; }

#define POWER_OF_FLOAT(name, type)                      \
    static type name(type x, int64_t y)                 \
    {                                                   \
        type power = 1;                                 \
        bool any = false;                               \
        for (uint64_t n = power_count(y); n; n >>= 1) { \
            if (n & 1)                                  \
                power = any ? power * x : x;            \
            any = any || n & 1;                         \
            if (n > 1)                                  \
                x = x * x;                              \
        }                                               \
        return y < 0 ? 1 / power : power;               \
    }
POWER_OF_FLOAT(power_f32, float)
POWER_OF_FLOAT(power_f64, double)
POWER_OF_FLOAT(power_c64, float complex)
POWER_OF_FLOAT(power_c128, double complex)

static void power_half(mf_dtype dtype, const uint16_t *x, uint16_t *out, int64_t count, int64_t y)
{
    for (int64_t i = 0; i < count; i++)
        if (dtype == MF_F16)
            out[i] = mf_f32_to_f16(power_f32(mf_f16_to_f32(x[i]), y));
        else
            out[i] = mf_f32_to_bf16(power_f32(mf_bf16_to_f32(x[i]), y));
}

MF_EVALUATE_RULE(power_evaluate)
{
    int64_t y = ((const mf_power_params *)e->params)->y;
    const mf_type *t = e->out[0]->type;
    int size = mf_dtype_size(t->dtype);
    if (t->dtype == MF_F16 || t->dtype == MF_BF16) {
        power_half(t->dtype, in[0], out[0], t->size, y);
        return NULL;
    }
    for (int64_t i = 0; i < t->size; i++)
        if (t->dtype == MF_F32)
            ((float *)out[0])[i] = power_f32(((const float *)in[0])[i], y);
        else if (t->dtype == MF_F64)
            ((double *)out[0])[i] = power_f64(((const double *)in[0])[i], y);
        else if (t->dtype == MF_C64)
            ((float complex *)out[0])[i] = power_c64(((const float complex *)in[0])[i], y);
        else if (t->dtype == MF_C128)
            ((double complex *)out[0])[i] = power_c128(((const double complex *)in[0])[i], y);
        else /* the low bits of a power depend only on the low bits of the base */
            mf_store_i64(t->dtype, (char *)out[0] + i * size,
                         (int64_t)mf_power_natural((uint64_t)mf_load_i64(t->dtype, (const char *)in[0] + i * size), (uint64_t)y));
    return NULL;
}

MF_LOWER_RULE(power_lower)
{
    int64_t y = ((const mf_power_params *)e->params)->y;
    mf_dtype dtype = e->out[0]->type->dtype;
    mf_kernel_value x = in[0], power = k->constant(k, dtype, 1);
    bool any = false;
    for (uint64_t n = power_count(y); n; n >>= 1) {
        if (n & 1)
            power = any ? k->mul(k, power, x) : x;
        any = any || n & 1;
        if (n > 1)
            x = k->mul(k, x, x);
    }
    return y < 0 ? k->div(k, k->constant(k, dtype, 1), power) : power;
}

static const mf_param power_params[] = { MF_PARAM(mf_power_params, y, MF_PARAM_INT), { 0 } };
static const char *const power_samples[] = {
    "[y=2] f32[2,3]{-2:2}",
    "[y=3] f64[3]{-2:2}",
    "[y=-2] f32[3]{0.5:2}",
    "[y=0] f32[3]{=0,nan,2} -> f32[3]{=1,1,1}",
    "[y=1] f32[2]{=3,-4} -> f32[2]{=3,-4}",
    "[y=5] i32[3]{=2,-3,100} -> i32[3]{=32,-243,1410065408}",
    "[y=2] u8[2]{=16,3} -> u8[2]{=0,9}",
    "[y=7] bf16[3]{0.5:2}",
    "[y=3] c64[3]{-2:2}",
    "[y=-2] c128[2]{0.5:2}",
    NULL,
};
MF_HLO_RULE(power_hlo)
{
    int64_t y = ((const mf_power_params *)e->params)->y;
    mf_hlo_value x = in[0], one = h_full(h, e->out[0]->type, 1), power = one;
    bool any = false;
    for (uint64_t n = power_count(y); n; n >>= 1) {
        if (n & 1)
            power = any ? h_binary(h, "multiply", power, x) : x;
        any = any || n & 1;
        if (n > 1)
            x = h_binary(h, "multiply", x, x);
    }
    out[0] = y < 0 ? h_binary(h, "divide", one, power) : power;
}

const mf_op mf_op_integer_pow = {
    .name = "integer_pow",
    .weight = 16,
    MF_ELEMENTWISE_ROW,
    .params = power_params,
    .params_size = sizeof(mf_power_params),
    .type_rule = power_type,
    .jvp = power_jvp,
    .transpose = mf_transpose_none,
    .cost = mf_cost_elementwise,
    .lower = power_lower,
    .evaluate = power_evaluate,
    MF_HLO_BY(power_hlo),
    .samples = power_samples,
};

/* ---- is_finite */
static mf_error_object *finite_type(mf_type_context *c)
{
    mf_error_object *e = mf_type_float1(c);
    if (!e)
        c->out[0] = mf_type_with_dtype(c->in[0], MF_BOOL);
    return e;
}

static bool finite_pair(double x, double y)
{
    (void)y;
    return isfinite(x);
}

MF_EVALUATE_RULE(finite_evaluate)
{
    static const mf_loop_compare rule = { finite_pair, NULL, NULL };
    mf_run_compare(&rule, e->in[0]->type->dtype, e->in[0]->type->size, in[0], in[0], out[0]);
    return NULL;
}

static const char *const finite_samples[] = {
    "f32[4]{=1,inf,-inf,nan} -> bool[4]{=1,0,0,0}",
    "f64[2]{=1e300,inf} -> bool[2]{=1,0}",
    "f16[2]{=65504,inf} -> bool[2]{=1,0}",
    "bf16[2]{=1,nan} -> bool[2]{=1,0}",
    NULL,
};
const mf_op mf_op_is_finite = {
    .name = "is_finite",
    MF_ELEMENTWISE_ROW,
    .type_rule = finite_type,
    .jvp = mf_jvp_zero,
    .transpose = mf_transpose_none,
    .cost = mf_cost_elementwise,
    .lower = mf_lower_by_name,
    .evaluate = finite_evaluate,
    MF_HLO("is_finite"),
    .samples = finite_samples,
};
