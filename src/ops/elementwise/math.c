/* Elementwise functions of one float (some also of a complex number): exp exp2 log log1p expm1 tanh logistic sin cos tan asin acos atan
 * sinh cosh sqrt rsqrt cbrt erf erf_inv lgamma. Invariant: the reference uses the C library's double functions and rounds once, so f32
 * results are nearly always correctly rounded. erf_inv alone is a polynomial, the same as XLA's, because random normals must agree with
 * JAX's. */
#include "ir/kernel.h"
#include "ops/elementwise/loops.h"
#include <math.h>
#include <string.h>

static mf_cost function_cost(const mf_eqn *e)
{
    mf_cost cost = mf_cost_elementwise(e);
    cost.flops *= e->op->weight;
    return cost;
}

/* The derivative as an expression of the operand x and the result y. */
#define DERIVATIVE(name, expression)                      \
    MF_JVP_RULE(name)                                     \
    {                                                     \
        mf_copy_eqn(b, e, in, out);                       \
        mf_variable *x = in[0], *y = out[0], *t = tin[0]; \
        (void)x, (void)y;                                 \
        tout[0] = expression;                             \
    }

/* The fields that the ops share. An engine without a function of this name evaluates by the reference. */
#define MATH_ROW(word, type, additions, near, ...) \
    const mf_op mf_op_##word = {                   \
        .name = #word,                             \
        MF_ELEMENTWISE_ROW,                        \
        .weight = additions,                       \
        .approximate = near,                       \
        .type_rule = type,                         \
        .jvp = word##_jvp,                         \
        .transpose = mf_transpose_none,            \
        .cost = function_cost,                     \
        .lower = mf_lower_by_name,                 \
        .evaluate = word##_evaluate,               \
        __VA_ARGS__,                               \
        .samples = word##_samples,                 \
    }

static mf_variable *call(mf_builder *b, const mf_op *op, mf_variable *x) { return e_unary(b, op, x); }
static mf_variable *squared(mf_builder *b, mf_variable *x) { return e_unary(b, &mf_op_square, x); }
static mf_variable *one_minus(mf_builder *b, mf_variable *x) { return e_sub(b, e_full(b, x->type, 1), x); }

/* ---- exponentials and logarithms */
DERIVATIVE(exp_jvp, e_mul(b, t, y))
MF_EVALUATE1_COMPLEX(exp_evaluate, cexp, exp, NULL, NULL, NULL)
static const char *const exp_samples[] = {
    "f32[2,3]{-2:2}",
    "f64[3]{-2:2}",
    "f32[4]{=-inf,0,inf,nan} -> f32[4]{=0,1,inf,nan}",
    "f16[2]{=0,12} -> f16[2]{=1,inf}",
    "bf16[3]{-2:2}",
    "c64[3]{-1:1}",
    "c128[700]{-3:3}",
    NULL,
};
MATH_ROW(exp, mf_type_inexact1, 5, true, MF_HLO("exponential"));

DERIVATIVE(exp2_jvp, e_mul(b, t, e_scale(b, y, M_LN2)))
static double complex exp2_complex(double complex x) { return cexp(x * M_LN2); }
MF_EVALUATE1_COMPLEX(exp2_evaluate, exp2_complex, exp2, NULL, NULL, NULL)
static const char *const exp2_samples[] = {
    "f32[2,3]{-2:2}", "f64[3]{-2:2}", "f32[4]{=-1,3,-149,128} -> f32[4]{=0.5,8,1.40129846e-45,inf}", "f16[3]{-2:2}", "c64[3]{-1:1}", NULL,
};
MF_HLO_RULE(exp2_hlo)
{
    const mf_type *t = e->out[0]->type;
    if (mf_dtype_is_complex(t->dtype))
        out[0] = h_unary(h, "exponential", h_binary(h, "multiply", in[0], h_full(h, t, M_LN2)));
    else
        out[0] = h_binary(h, "power", h_full(h, t, 2), in[0]);
}
MATH_ROW(exp2, mf_type_inexact1, 5, true, MF_HLO_BY(exp2_hlo));

DERIVATIVE(log_jvp, e_div(b, t, x))
MF_EVALUATE1_COMPLEX(log_evaluate, clog, log, NULL, NULL, NULL)
static const char *const log_samples[] = {
    "f32[2,3]{0.5:2}", "f64[3]{0.5:2}", "f32[4]{=0,1,-1,inf} -> f32[4]{=-inf,0,nan,inf}", "bf16[3]{0.5:2}", "c64[3]{0.5:2}", NULL,
};
MATH_ROW(log, mf_type_inexact1, 16, true, MF_HLO("log"));

DERIVATIVE(log1p_jvp, e_div(b, t, e_shift(b, x, 1)))
static double complex complex_of(double re, double im) /* re + im * I would give NaN for an infinite im */
{
    double complex z;
    memcpy(&z, (double[]){ re, im }, sizeof z);
    return z;
}

/* |1 + z|^2 - 1 = x (2 + x) + y^2 cancels where |1 + z| is near 1, so it is computed in long double there. */
static double complex log1p_complex(double complex z)
{
    double x = creal(z), y = cimag(z),
           part = fabs(x) < 2 && fabs(y) < 2 ? (double)log1pl(((long double)x * (2 + (long double)x) + (long double)y * y)) / 2
                                             : log(hypot(1 + x, y));
    return complex_of(part, atan2(y, 1 + x));
}
MF_EVALUATE1_COMPLEX(log1p_evaluate, log1p_complex, log1p, NULL, NULL, NULL)
static const char *const log1p_samples[] = {
    "f32[2,3]{-0.5:2}",
    "f64[3]{-0.5:2}",
    "f32[4]{=-1,-2,-0.0,1e-20} -> f32[4]{=-inf,nan,-0.0,1e-20}",
    "f16[3]{-0.5:2}",
    "c64[3]{-0.5:2}",
    "c64[2]{=1e-20,0,-0.0,1e-30} -> c64[2]{=1e-20,0,0,1e-30}",
    NULL,
};
MATH_ROW(log1p, mf_type_inexact1, 16, true, MF_HLO("log_plus_one"));

DERIVATIVE(expm1_jvp, e_mul(b, t, e_shift(b, y, 1)))
/* e^x cos y - 1, written so that 1 - cos y does not cancel. */
static double complex expm1_complex(double complex z)
{
    double x = creal(z), y = cimag(z), half = sin(y / 2);
    return y == 0 ? complex_of(expm1(x), y) : complex_of(expm1(x) * cos(y) - 2 * half * half, exp(x) * sin(y));
}
MF_EVALUATE1_COMPLEX(expm1_evaluate, expm1_complex, expm1, NULL, NULL, NULL)
static const char *const expm1_samples[] = {
    "f32[2,3]{-2:2}",
    "f64[3]{-2:2}",
    "f32[4]{=-inf,-0.0,1e-20,inf} -> f32[4]{=-1,-0.0,1e-20,inf}",
    "bf16[3]{-2:2}",
    "c64[3]{-1:1}",
    "c64[2]{=1e-20,0,0,9.5367431640625e-07} -> c64[2]{=1e-20,0,-4.547473508864641e-13,9.5367431640625e-07}",
    NULL,
};
MATH_ROW(expm1, mf_type_inexact1, 16, true, MF_HLO("exponential_minus_one"));

/* (1 - y)(1 + y) does not cancel near 1, unlike 1 - y^2 */
DERIVATIVE(tanh_jvp, e_mul(b, e_add(b, t, e_mul(b, t, y)), one_minus(b, y)))
MF_EVALUATE1_COMPLEX(tanh_evaluate, ctanh, tanh, NULL, NULL, NULL)
static const char *const tanh_samples[] = {
    "f32[2,3]{-2:2}", "f64[3]{-2:2}", "f32[4]{=-inf,-0.0,100,nan} -> f32[4]{=-1,-0.0,1,nan}", "f16[3]{-2:2}", "c64[3]{-1:1}", NULL,
};
MATH_ROW(tanh, mf_type_inexact1, 16, true, MF_HLO("tanh"));

DERIVATIVE(logistic_jvp, e_mul(b, t, e_mul(b, y, one_minus(b, y))))
static double complex logistic_complex(double complex x) { return 1 / (1 + cexp(-x)); }
static double logistic(double x) { return 1 / (1 + exp(-x)); }
MF_EVALUATE1_COMPLEX(logistic_evaluate, logistic_complex, logistic, NULL, NULL, NULL)
static const char *const logistic_samples[] = {
    "f32[2,3]{-2:2}", "f64[3]{-2:2}", "f32[4]{=-inf,0,100,nan} -> f32[4]{=0,0.5,1,nan}", "bf16[3]{-2:2}", "c64[3]{-1:1}", NULL,
};
MATH_ROW(logistic, mf_type_inexact1, 16, true, MF_HLO("logistic"));

/* ---- trigonometry */
DERIVATIVE(sin_jvp, e_mul(b, t, call(b, &mf_op_cos, x)))
MF_EVALUATE1_COMPLEX(sin_evaluate, csin, sin, NULL, NULL, NULL)
static const char *const sin_samples[] = {
    "f32[2,3]{-4:4}", "f64[3]{-4:4}", "f32[3]{-1e5:1e5}", "f32[2]{=-0.0,inf} -> f32[2]{=-0.0,nan}", "f16[3]{-4:4}", "c64[3]{-1:1}", NULL,
};
MATH_ROW(sin, mf_type_inexact1, 16, true, MF_HLO("sine"));

DERIVATIVE(cos_jvp, e_mul(b, t, e_neg(b, call(b, &mf_op_sin, x))))
MF_EVALUATE1_COMPLEX(cos_evaluate, ccos, cos, NULL, NULL, NULL)
static const char *const cos_samples[] = {
    "f32[2,3]{-4:4}", "f64[3]{-4:4}", "f32[3]{-1e5:1e5}", "f32[2]{=0,inf} -> f32[2]{=1,nan}", "bf16[3]{-4:4}", "c64[3]{-1:1}", NULL,
};
MATH_ROW(cos, mf_type_inexact1, 16, true, MF_HLO("cosine"));

DERIVATIVE(tan_jvp, e_mul(b, t, e_shift(b, squared(b, y), 1)))
MF_EVALUATE1_COMPLEX(tan_evaluate, ctan, tan, NULL, NULL, NULL)
static const char *const tan_samples[] = {
    "f32[2,3]{-1:1}", "f64[3]{-1:1}", "f32[2]{=-0.0,inf} -> f32[2]{=-0.0,nan}", "f16[3]{-1:1}", "c64[3]{-1:1}", NULL,
};
MATH_ROW(tan, mf_type_inexact1, 16, true, MF_HLO("tan"));

DERIVATIVE(asin_jvp, e_mul(b, t, call(b, &mf_op_rsqrt, one_minus(b, squared(b, x)))))
MF_EVALUATE1_COMPLEX(asin_evaluate, casin, asin, NULL, NULL, NULL)
static const char *const asin_samples[] = {
    "f32[2,3]{-0.8:0.8}",
    "f64[3]{-0.8:0.8}",
    "f32[2]{=-0.0,2} -> f32[2]{=-0.0,nan}",
    "bf16[3]{-0.8:0.8}",
    "c64[3]{-2:2}",
    "c64[2]{=2,0,2,-0.0} -> c64[2]{=1.57079637,1.31695795,1.57079637,-1.31695795}",
    NULL,
};
MATH_ROW(asin, mf_type_inexact1, 16, true, MF_HLO("chlo.asin"));

DERIVATIVE(acos_jvp, e_mul(b, t, e_neg(b, call(b, &mf_op_rsqrt, one_minus(b, squared(b, x))))))
MF_EVALUATE1_COMPLEX(acos_evaluate, cacos, acos, NULL, NULL, NULL)
static const char *const acos_samples[] = {
    "f32[2,3]{-0.8:0.8}", "f64[3]{-0.8:0.8}", "f32[2]{=1,2} -> f32[2]{=0,nan}", "f16[3]{-0.8:0.8}", "c64[3]{-2:2}", NULL,
};
MATH_ROW(acos, mf_type_inexact1, 16, true, MF_HLO("chlo.acos"));

DERIVATIVE(atan_jvp, e_div(b, t, e_shift(b, squared(b, x), 1)))
MF_EVALUATE1_COMPLEX(atan_evaluate, catan, atan, NULL, NULL, NULL)
static const char *const atan_samples[] = {
    "f32[2,3]{-2:2}", "f64[3]{-2:2}", "f32[4]{=-0.0,inf,-inf,nan} -> f32[4]{=-0.0,1.57079637,-1.57079637,nan}",
    "bf16[3]{-2:2}",  "c64[3]{-2:2}", NULL
};
MF_HLO_RULE(atan_hlo) /* for real numbers, what chlo.atan expands to */
{
    const mf_type *t = e->out[0]->type;
    out[0] = mf_dtype_is_complex(t->dtype) ? h_unary(h, "chlo.atan", in[0]) : h_atan2(h, in[0], h_full(h, t, 1));
}
MATH_ROW(atan, mf_type_inexact1, 16, true, MF_HLO_BY(atan_hlo));

DERIVATIVE(sinh_jvp, e_mul(b, t, call(b, &mf_op_cosh, x)))
MF_EVALUATE1_COMPLEX(sinh_evaluate, csinh, sinh, NULL, NULL, NULL)
static const char *const sinh_samples[] = { "f32[2,3]{-2:2}", "f64[3]{-2:2}", "f32[2]{=-0.0,100} -> f32[2]{=-0.0,inf}",
                                            "f16[3]{-2:2}",   "c64[3]{-1:1}", NULL };
MATH_ROW(sinh, mf_type_inexact1, 16, true, MF_HLO("chlo.sinh"));

DERIVATIVE(cosh_jvp, e_mul(b, t, call(b, &mf_op_sinh, x)))
MF_EVALUATE1_COMPLEX(cosh_evaluate, ccosh, cosh, NULL, NULL, NULL)
static const char *const cosh_samples[] = { "f32[2,3]{-2:2}", "f64[3]{-2:2}", "f32[2]{=0,100} -> f32[2]{=1,inf}",
                                            "bf16[3]{-2:2}",  "c64[3]{-1:1}", NULL };
MATH_ROW(cosh, mf_type_inexact1, 16, true, MF_HLO("chlo.cosh"));

/* ---- roots */
DERIVATIVE(sqrt_jvp, e_mul(b, t, e_div(b, e_full(b, y->type, 0.5), y)))
MF_EVALUATE1_COMPLEX(sqrt_evaluate, csqrt, sqrt, NULL, NULL, NULL)
static const char *const sqrt_samples[] = {
    "f32[2,3]{0.5:2}",
    "f64[3]{0.5:2}",
    "f32[5]{=4,-0.0,-1,inf,2} -> f32[5]{=2,-0.0,nan,inf,1.41421354}",
    "bf16[2]{=4,9} -> bf16[2]{=2,3}",
    "c64[3]{0.5:2}",
    NULL,
};
MATH_ROW(sqrt, mf_type_inexact1, 5, false, MF_HLO("sqrt"));

DERIVATIVE(rsqrt_jvp, e_mul(b, t, e_mul(b, e_full(b, y->type, -0.5), e_div(b, y, x))))
static double complex rsqrt_complex(double complex x) { return 1 / csqrt(x); }
static double rsqrt(double x) { return 1 / sqrt(x); }
MF_EVALUATE1_COMPLEX(rsqrt_evaluate, rsqrt_complex, rsqrt, NULL, NULL, NULL)
static const char *const rsqrt_samples[] = {
    "f32[2,3]{0.5:2}",
    "f64[3]{0.5:2}",
    "f32[4]{=4,0,-1,inf} -> f32[4]{=0.5,inf,nan,0}",
    "f16[2]{=4,0.25} -> f16[2]{=0.5,2}",
    "c64[3]{0.5:2}",
    NULL,
};
MATH_ROW(rsqrt, mf_type_inexact1, 5, true, MF_HLO("rsqrt"));

DERIVATIVE(cbrt_jvp, e_mul(b, t, e_scale(b, mf_emit(b, &mf_op_integer_pow, &(mf_power_params){ -2 }, 1, y), 1.0 / 3)))
MF_EVALUATE1(cbrt_evaluate, cbrt, NULL, NULL, NULL)
static const char *const cbrt_samples[] = {
    "f32[2,3]{0.5:2}", "f64[3]{-2:-0.5}", "f32[3]{=-8,-0.0,27} -> f32[3]{=-2,-0.0,3}", "bf16[2]{=8,-1} -> bf16[2]{=2,-1}", NULL,
};
MATH_ROW(cbrt, mf_type_float1, 16, true, MF_HLO("cbrt"));

/* ---- the error function, its inverse, the logarithm of gamma */
DERIVATIVE(erf_jvp, e_mul(b, t, e_scale(b, call(b, &mf_op_exp, e_neg(b, squared(b, x))), M_2_SQRTPI)))
MF_EVALUATE1(erf_evaluate, erf, NULL, NULL, NULL)
static const char *const erf_samples[] = {
    "f32[2,3]{-2:2}", "f64[3]{-2:2}", "f32[3]{=-inf,-0.0,10} -> f32[3]{=-1,-0.0,1}", "f16[3]{-2:2}", NULL,
};
MATH_ROW(erf, mf_type_float1, 16, true, MF_HLO("chlo.erf"));

/* M. Giles, "Approximating the erfinv function": polynomials in w = -log(1 - x^2), single and double, as XLA evaluates them. */
#define HORNER(type, name)                             \
    static type name(const type *c, int count, type w) \
    {                                                  \
        type p = c[0];                                 \
        for (int i = 1; i < count; i++)                \
            p = c[i] + p * w;                          \
        return p;                                      \
    }
HORNER(float, horner_f32)
HORNER(double, horner_f64)
#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

static float erf_inv_f32(float x)
{
    static const float middle[] = { 2.81022636e-08f, 3.43273939e-07f, -3.5233877e-06f, -4.39150654e-06f, 0.00021858087f,
                                    -0.00125372503f, -0.00417768164f, 0.246640727f,    1.50140941f };
    static const float tail[] = { -0.000200214257f, 0.000100950558f, 0.00134934322f, -0.00367342844f, 0.00573950773f,
                                  -0.0076224613f,   0.00943887047f,  1.00167406f,    2.83297682f };
    float w = -log1pf(-(x * x));
    if (fabsf(x) == 1)
        return x * INFINITY;
    return x * (w < 5 ? horner_f32(middle, COUNT(middle), w - 2.5f) : horner_f32(tail, COUNT(tail), sqrtf(w) - 3));
}

static double erf_inv_f64(double x)
{
    static const double middle[] = {
        -3.6444120640178196996e-21, -1.685059138182016589e-19,  1.2858480715256400167e-18,  1.115787767802518096e-17,
        -1.333171662854620906e-16,  2.0972767875968561637e-17,  6.6376381343583238325e-15,  -4.0545662729752068639e-14,
        -8.1519341976054721522e-14, 2.6335093153082322977e-12,  -1.2975133253453532498e-11, -5.4154120542946279317e-11,
        1.051212273321532285e-09,   -4.1126339803469836976e-09, -2.9070369957882005086e-08, 4.2347877827932403518e-07,
        -1.3654692000834678645e-06, -1.3882523362786468719e-05, 0.0001867342080340571352,   -0.00074070253416626697512,
        -0.0060336708714301490533,  0.24015818242558961693,     1.6536545626831027356,
    };
    static const double outer[] = {
        2.2137376921775787049e-09,  9.0756561938885390979e-08, -2.7517406297064545428e-07, 1.8239629214389227755e-08,
        1.5027403968909827627e-06,  -4.013867526981545969e-06, 2.9234449089955446044e-06,  1.2475304481671778723e-05,
        -4.7318229009055733981e-05, 6.8284851459573175448e-05, 2.4031110387097893999e-05,  -0.0003550375203628474796,
        0.00095328937973738049703,  -0.0016882755560235047313, 0.0024914420961078508066,   -0.0037512085075692412107,
        0.005370914553590063617,    1.0052589676941592334,     3.0838856104922207635,
    };
    static const double tail[] = {
        -2.7109920616438573243e-11, -2.5556418169965252055e-10, 1.5076572693500548083e-09,  -3.7894654401267369937e-09,
        7.6157012080783393804e-09,  -1.4960026627149240478e-08, 2.9147953450901080826e-08,  -6.7711997758452339498e-08,
        2.2900482228026654717e-07,  -9.9298272942317002539e-07, 4.5260625972231537039e-06,  -1.9681778105531670567e-05,
        7.5995277030017761139e-05,  -0.00021503011930044477347, -0.00013871931833623122026, 1.0103004648645343977,
        4.8499064014085844221,
    };
    /* Near the ends, x * x would lose the last digits of 1 - x^2; 1 - |x| is exact there. */
    double a = fabs(x), w = a < 0.5 ? -log1p(-(x * x)) : -log((1 - a) * (1 + a));
    if (a == 1)
        return x * INFINITY;
    if (w < 6.25)
        return x * horner_f64(middle, COUNT(middle), w - 3.125);
    return x * (w < 16 ? horner_f64(outer, COUNT(outer), sqrt(w) - 3.25) : horner_f64(tail, COUNT(tail), sqrt(w) - 5));
}

DERIVATIVE(erf_inv_jvp, e_mul(b, t, e_scale(b, call(b, &mf_op_exp, squared(b, y)), 1 / M_2_SQRTPI)))
MF_EVALUATE1(erf_inv_evaluate, erf_inv_f64, NULL, NULL, erf_inv_f32)
static const char *const erf_inv_samples[] = {
    "f32[2,3]{-0.9:0.9}",  "f64[3]{-0.9:0.9}",  "f32[4]{=-1,-0.0,1,2} -> f32[4]{=-inf,-0.0,inf,nan}",
    "f32[3]{0.99:0.9999}", "bf16[3]{-0.9:0.9}", NULL,
};
MATH_ROW(erf_inv, mf_type_float1, 16, true, MF_HLO("chlo.erf_inv"));

/* digamma(x): for x >= 1/2 by Lanczos' sum (g = 7), below by reflection: psi(1-x) - pi / tan(pi x). */
static mf_variable *digamma(mf_builder *b, mf_variable *x)
{
    static const double lanczos[] = { 676.520368121885098567009190444019, -1259.13921672240287047156078755283,
                                      771.3234287776530788486528258894,   -176.61502916214059906584551354,
                                      12.507343278686904814458936853,     -0.13857109526572011689554707,
                                      9.984369578019570859563e-6,         1.50563273514931155834e-7 };
    mf_variable *half = e_full(b, x->type, 0.5), *reflects = e_compare(b, &mf_op_lt, x, half);
    mf_variable *z = e_select(b, reflects, e_neg(b, x), e_shift(b, x, -1)); /* psi(z + 1) */
    mf_variable *sum = e_full(b, x->type, 0.99999999999980993227684700473478), *slope = e_zeros_like(b, x);
    for (int i = 0; i < COUNT(lanczos); i++) {
        mf_variable *place = e_shift(b, z, i + 1), *term = e_div(b, e_full(b, x->type, lanczos[i]), place);
        slope = e_sub(b, slope, e_div(b, term, place));
        sum = e_add(b, sum, term);
    }
    mf_variable *t = e_shift(b, z, 7.5);
    mf_variable *psi = e_sub(b, e_add(b, call(b, &mf_op_log, t), e_div(b, slope, sum)), e_div(b, e_full(b, x->type, 7), t));
    mf_variable *turn = e_scale(b, e_add(b, x, call(b, &mf_op_abs, call(b, &mf_op_floor, e_add(b, x, half)))), M_PI);
    mf_variable *mirrored = e_sub(b, psi, e_div(b, e_full(b, x->type, M_PI), call(b, &mf_op_tan, turn)));
    mf_variable *value = e_select(b, reflects, mirrored, psi);
    mf_variable *pole = e_binary(b, &mf_op_and, e_compare(b, &mf_op_le, x, e_zeros_like(b, x)),
                                 e_compare(b, &mf_op_eq, x, call(b, &mf_op_floor, x)));
    return e_select(b, pole, e_full(b, x->type, NAN), value);
}

DERIVATIVE(lgamma_jvp, e_mul(b, t, digamma(b, x)))
static double lgamma_without_sign(double x) /* lgamma writes a global variable */
{
    int sign;
    return lgamma_r(x, &sign);
}
MF_EVALUATE1(lgamma_evaluate, lgamma_without_sign, NULL, NULL, NULL)
static const char *const lgamma_samples[] = {
    "f32[2,3]{0.5:4}", "f64[3]{0.5:4}", "f64[3]{-0.8:-0.2}", "f32[3]{=1,2,-1} -> f32[3]{=0,0,inf}", "f16[3]{3:5}", NULL,
};
MATH_ROW(lgamma, mf_type_float1, 16, true, MF_HLO("chlo.lgamma"));
