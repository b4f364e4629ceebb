/* Bessel functions of the first kind: bessel_jn; modified ones: i0 and i1, and i0e and i1e, which are scaled by e^-|x|.
 * Invariant: no intermediate value overflows unless the result does, and derivatives are functions of this family. */
#include "numpy/floats.h"

#include <math.h>

/* Chebyshev coefficients (of C. Clenshaw's expansions, recomputed to 40 digits); the first one counts half. near, for x <= 8: of e^-x I0(x)
 * and e^-x I1(x) / x in the variable x / 4 - 1. far, for x > 8: of sqrt(x) e^-x I0(x) and sqrt(x) e^-x I1(x) in the variable 16 / x - 1. */
static const double i0_near[] = {
    0.676795274409476085,     -0.304682672343198399,    0.171620901522208775,     -0.0949010970480476444,   0.0493052842396707085,
    -0.0237374148058994688,   0.0105464603945949983,    -0.00432430999505057594,  0.0016394756169413358,    -0.000576375574538582366,
    0.000188502885095841656,  -0.000057541950100821037, 0.0000164484480707288971, -4.41673835845875056e-6,  1.11738753912010372e-6,
    -2.67079385394061173e-7,  6.04699502254191895e-8,   -1.30002500998624804e-8,  2.65982372468238665e-9,   -5.18979560163526291e-10,
    9.67580903537323691e-11,  -1.72682629144155571e-11, 2.95505266312963983e-12,  -4.85644678311192946e-13, 7.67618549860493562e-14,
    -1.16853328779934517e-14, 1.71539128555513303e-15,  -2.43127984654795469e-16, 3.3307945188222381e-17,
};
static const double i0_far[] = {
    0.804490411014108832,     0.00336911647825569409,   0.0000688975834691682398, 2.89137052083475648e-6,  2.04891858946906374e-7,
    2.26666899049817806e-8,   3.39623202570838635e-9,   4.94060238822496959e-10,  1.18891471078464383e-11, -3.14991652796324136e-11,
    -1.32158118404477131e-11, -1.79417853150680612e-12, 7.18012445138366623e-13,  3.8527783827421427e-13,  1.54008621752140983e-14,
    -4.15056934728722209e-14, -9.55484669882830765e-15, 3.81168066935262242e-15,  1.77256013305652638e-15, -3.42548561967721913e-16,
    -2.82762398051658348e-16, 3.46122286769746109e-17,  4.46562142029676e-17,
};
static const double i1_near[] = {
    0.252587186443633655,     -0.176416518357834055,     0.102643658689847095,     -0.0529459812080949914,   0.0247264490306265168,
    -0.0105640848946261982,   0.00415642294431288816,    -0.00151357245063125315,  0.000512285956168575773,  -0.000161760815825896746,
    0.0000478156510755005423, -0.0000132731636560394358, 3.47025130813767848e-6,   -8.56872026469545474e-7,  2.00329475355213526e-7,
    -4.44505912879632808e-8,  9.38153738649577178e-9,    -1.88724975172282929e-9,  3.62559028155211704e-10,  -6.66348972350202774e-11,
    1.17361862988909016e-11,  -1.98397439776494372e-12,  3.22379336594557471e-13,  -5.04218550472791169e-14, 7.60068429473540693e-15,
    -1.10559694773538631e-15, 1.55363195773620047e-16,   -2.11142121435816608e-17,
};
static const double i1_far[] = {
    0.77857623501828012,     -0.00976109749136146841,  -0.000110588938762623716, -3.88256480887769039e-6,  -2.51223623787020893e-7,
    -2.63146884688951951e-8, -3.83538038596423702e-9,  -5.58974346219658381e-10, -1.89749581235054123e-11, 3.25260358301548824e-11,
    1.41258074366137813e-11, 2.03562854414708951e-12,  -7.19855177624590851e-13, -4.08355111109219732e-13, -2.10154184277266431e-14,
    4.27244001671195135e-14, 1.04202769841288028e-14,  -3.8144030724370078e-15,  -1.88035477551078245e-15, 3.30820231092092828e-16,
    2.96262899764595014e-16, -3.20952592199342396e-17, -4.65030536848935833e-17,
};

typedef struct chebyshev {
    const double *coefficients;
    int single, both; /* the number of coefficients that f32 and f64 need */
} chebyshev;
#define ALL_OF(table) ((int)(sizeof(table) / sizeof *(table)))
static const chebyshev near_of[] = { { i0_near, 19, ALL_OF(i0_near) }, { i1_near, 19, ALL_OF(i1_near) } };
static const chebyshev far_of[] = { { i0_far, 7, ALL_OF(i0_far) }, { i1_far, 7, ALL_OF(i1_far) } };

/* The value of the series at t, by Clenshaw's recurrence. */
static mf_value sum_at(const chebyshev *c, mf_value t)
{
    mf_dtype d = mf_dtype_of(t);
    mf_value twice = mf_add(t, t), next = mf_zeros_like(t), after = next, last = next;
    for (int i = (d == MF_F64 ? c->both : c->single) - 1; i >= 0; i--) {
        last = after;
        after = next;
        next = mf_add(mf_sub(mf_mul(twice, after), last), mf_scalar(c->coefficients[i], d));
    }
    return mf_mul(mf_sub(next, last), 0.5);
}

static mf_value scaled(int order, mf_value x)
{
    mf_value size = mf_abs(x), is_near = mf_less_equal(size, 8), small = mf_where(is_near, size, 8), large = mf_where(is_near, 8, size);
    mf_value near = sum_at(&near_of[order], mf_sub(mf_mul(small, 0.25), 1));
    mf_value far = mf_div(sum_at(&far_of[order], mf_sub(mf_div(16, large), 1)), mf_sqrt(large));
    if (order == 0)
        return mf_where(is_near, near, far);
    return mf_where(is_near, mf_mul(near, x), mf_mul(far, mf_sign(x)));
}

/* The function that a rule computes: its order, 0 or 1, and whether it is scaled by e^-|x|. */
typedef struct bessel {
    int order, exponential;
} bessel;

static mf_value tangent_of(void *of, mf_value primals, mf_value tangents);

static mf_value value_of(void *of, mf_value x)
{
    const bessel *f = of;
    mf_value y = scaled(f->order, x);
    return f->exponential ? y : mf_mul(y, mf_exp(mf_abs(x)));
}

static mf_value bessel_of(int order, int exponential, mf_value x)
{
    bessel f = { order, exponential };
    return mf_call(mf_custom_jvp(mf_closure(value_of, &f), mf_closure(tangent_of, &f)), x);
}

/* I0' = I1 and I1' = I0 - I1 / x, which is 1/2 at 0; for the scaled functions minus sign(x) times the function. */
static mf_value tangent_of(void *of, mf_value primals, mf_value tangents)
{
    const bessel *f = of;
    mf_value x = mf_get(primals, 0), y = bessel_of(f->order, f->exponential, x), other = bessel_of(1 - f->order, f->exponential, x);
    mf_value zero = mf_equal(x, 0);
    mf_value slope = f->order == 0 ? other : mf_where(zero, 0.5, mf_sub(other, mf_div(y, mf_where(zero, 1, x))));
    if (f->exponential)
        slope = mf_sub(slope, mf_mul(mf_sign(x), y));
    return mf_tuple(y, mf_mul(mf_get(tangents, 0), slope));
}

static mf_value i0_of(mf_value x) { return bessel_of(0, false, x); }
static mf_value i0e_of(mf_value x) { return bessel_of(0, true, x); }
static mf_value i1_of(mf_value x) { return bessel_of(1, false, x); }
static mf_value i1e_of(mf_value x) { return bessel_of(1, true, x); }

mf_value(mf_i0)(mf_value x) { return numpy_call_wide(mf_jit(i0_of), numpy_real_float(x, "i0")); }
mf_value(mf_i0e)(mf_value x) { return numpy_call_wide(mf_jit(i0e_of), numpy_real_float(x, "i0e")); }
mf_value(mf_i1)(mf_value x) { return numpy_call_wide(mf_jit(i1_of), numpy_real_float(x, "i1")); }
mf_value(mf_i1e)(mf_value x) { return numpy_call_wide(mf_jit(i1e_of), numpy_real_float(x, "i1e")); }

/* ---- bessel_jn: Miller's backward recurrence J(k) = 2 (k + 1) / z J(k + 1) - J(k + 2) from arbitrary numbers, which the sum J(0) + 2
 * J(2) + 2 J(4) + ... = 1 scales (Zhang and Jin, Computation of Special Functions, 5) */
enum { MILLER_ORDERS = 64, MILLER_ROUNDS = 500 };

typedef struct miller {
    int64_t order, rounds;
} miller;

static mf_value bessel_jn_of(void *context, mf_value z)
{
    const miller *m = context;
    mf_value after = mf_zeros_like(z), next = mf_full_like(z, mf_f(1e-16)), sum = after, first = after;
    mf_value all[MILLER_ORDERS] = { { 0 } };
    for (int64_t k = m->rounds; k >= 0; k--) {
        mf_value value = mf_sub(mf_div(mf_mul(next, 2 * ((double)k + 1)), z), after);
        if (k % 2 == 0)
            sum = mf_add(sum, mf_mul(value, 2));
        if (k <= m->order)
            all[k] = value;
        after = next;
        next = first = value;
    }
    return mf_div(mf_stack(mf_list_n(all, (int)m->order + 1), 0), mf_sub(sum, first));
}

mf_value(mf_bessel_jn)(mf_value z, int v, int n_iter)
{
    MF_LAYER;
    if (v < 0 || v >= MILLER_ORDERS || n_iter < v || n_iter > MILLER_ROUNDS)
        return mf_make_error(MF_ERROR_ARGUMENT,
                             "bessel_jn: an order from 0 to %d and from that many to %d iterations are needed, not %d and %d",
                             MILLER_ORDERS - 1, MILLER_ROUNDS, v, n_iter);
    const miller m = { v, n_iter };
    return numpy_call_wide(mf_jit(mf_closure(bessel_jn_of, &m)), numpy_real_float(z, "bessel_jn"));
}
