/* The normal distribution: erfc, erfcx, ndtr, log_ndtr, ndtri. Invariant: tails keep full relative accuracy: they are never computed as 1
 * minus a number near 1. Rational approximations: Cephes (Moshier, ndtr.c, ndtri.c). */
#include "numpy/floats.h"
#include "numpy/special/rational.h"

#include <math.h>

/* ---- erfc: 1 - erf for |x| < 1, else e^(-x^2) times an approximation; for negative x 2 minus that */
/* f32: polynomials in 1 / x^2, divided by x, for x below 2 and above. */
static const double single_near[] = { 2.326819970068386e-2,  -1.387039388740657e-1, 3.687424674597105e-1,
                                      -5.824733027278666e-1, 6.210004621745983e-1,  -4.944515323274145e-1,
                                      3.404879937665872e-1,  -2.741127028184656e-1, 5.638259427386472e-1 };
static const double single_far[] = { -1.047766399936249e+1, 1.297719955372516e+1, -7.495518717768503e+0, 2.921019019210786e+0,
                                     -1.015265279202700e+0, 4.218463358204948e-1, -2.820767439740514e-1, 5.641895067754075e-1 };
/* f64: rational functions, for x below 8 and above. */
static const double near_p[] = { 2.46196981473530512524e-10, 5.64189564831068821977e-1, 7.46321056442269912687e0,
                                 4.86371970985681366614e1,   1.96520832956077098242e2,  5.26445194995477358631e2,
                                 9.34528527171957607540e2,   1.02755188689515710272e3,  5.57535335369399327526e2 };
static const double near_q[] = { 1,
                                 1.32281951154744992508e1,
                                 8.67072140885989742329e1,
                                 3.54937778887819891062e2,
                                 9.75708501743205489753e2,
                                 1.82390916687909736289e3,
                                 2.24633760818710981792e3,
                                 1.65666309194161350182e3,
                                 5.57535340817727675546e2 };
static const double far_p[] = { 5.64189583547755073984e-1, 1.27536670759978104416e0, 5.01905042251180477414e0,
                                6.16021097993053585195e0,  7.40974269950448939160e0, 2.97886665372100240670e0 };
static const double far_q[] = { 1,
                                2.26052863220117276590e0,
                                9.39603524938001434673e0,
                                1.20489539808096656605e1,
                                1.70814450747565897222e1,
                                9.60896809063285878198e0,
                                3.36907645100081516050e0 };

/* e^(-x^2), accurately: x is split into a part with few bits, whose square is exact, and a small rest. */
static mf_value bell(mf_value x)
{
    mf_value coarse = mf_div(mf_round(mf_mul(x, 16)), 16), rest = mf_sub(x, coarse);
    return mf_mul(mf_exp(mf_neg(mf_square(coarse))), mf_exp(mf_neg(mf_mul(rest, mf_add(x, coarse)))));
}

static mf_value tail_f32(mf_value x)
{
    mf_value inverse = mf_reciprocal(x), square = mf_square(inverse);
    return mf_mul(inverse, mf_where(mf_less(x, 2), special_polynomial(single_near, RATIONAL_COUNT(single_near), square),
                                    special_polynomial(single_far, RATIONAL_COUNT(single_far), square)));
}

static mf_value tail_f64(mf_value x)
{
    mf_value near = mf_minimum(x, 8), far = mf_maximum(x, 8);
    return mf_where(
        mf_less(x, 8),
        mf_div(special_polynomial(near_p, RATIONAL_COUNT(near_p), near), special_polynomial(near_q, RATIONAL_COUNT(near_q), near)),
        mf_div(special_polynomial(far_p, RATIONAL_COUNT(far_p), far), special_polynomial(far_q, RATIONAL_COUNT(far_q), far)));
}

/* erfc(x) for x >= 1; above 30 it is 0 in f32 and f64. */
static mf_value erfc_tail(mf_value x)
{
    mf_value beyond = mf_greater(x, 30), inside = mf_where(beyond, 1, x);
    return mf_where(beyond, 0, mf_mul(bell(inside), mf_dtype_of(x) == MF_F64 ? tail_f64(inside) : tail_f32(inside)));
}

static mf_value erfc_of(mf_value x)
{
    mf_value size = mf_abs(x), inside = mf_less(size, 1), tail = erfc_tail(mf_where(inside, 1, size));
    return mf_where(inside, mf_sub(1, mf_erf(x)), mf_where(mf_less(x, 0), mf_sub(2, tail), tail));
}

static mf_value erfc_jvp(mf_value primals, mf_value tangents)
{
    mf_value x = mf_get(primals, 0), slope = mf_mul(bell(mf_clip(x, -30, 30)), -1.1283791670955126);
    return mf_tuple(mf_call(mf_custom_jvp(erfc_of, erfc_jvp), x), mf_mul(mf_get(tangents, 0), slope));
}

static mf_value erfc_compiled(mf_value x) { return mf_call(mf_custom_jvp(erfc_of, erfc_jvp), x); }

mf_value(mf_erfc)(mf_value x) { return numpy_call_wide(mf_jit(erfc_compiled), numpy_real_float(x, "erfc")); }

/* ---- erfcx: e^(x^2) erfc(x): for x >= 1 the approximation without the factor e^(-x^2); 0.5641895835477563 is 1 / sqrt(pi) */
static mf_value erfcx_of(mf_value x)
{
    bool wide = mf_dtype_of(x) == MF_F64;
    double far = wide ? 1e8 : 1e4; /* from here on 1 / (sqrt(pi) x) is exact, and x^2 finite */
    mf_value right = mf_greater_equal(x, 1), beyond = mf_greater(x, far), large = mf_where(right, mf_minimum(x, far), 1);
    mf_value small = mf_where(right, 0, x), inside = mf_mul(mf_exp(mf_square(small)), erfc_of(small));
    mf_value tail = mf_where(beyond, mf_div(0.5641895835477563, mf_where(beyond, x, 1)), wide ? tail_f64(large) : tail_f32(large));
    return mf_where(right, tail, inside);
}

static mf_value erfcx_jvp(mf_value primals, mf_value tangents)
{
    mf_value x = mf_get(primals, 0), y = mf_call(mf_custom_jvp(erfcx_of, erfcx_jvp), x);
    return mf_tuple(y, mf_mul(mf_get(tangents, 0), mf_sub(mf_mul(mf_mul(x, y), 2), 1.1283791670955126)));
}

static mf_value erfcx_compiled(mf_value x) { return mf_call(mf_custom_jvp(erfcx_of, erfcx_jvp), x); }

mf_value(mf_erfcx)(mf_value x) { return numpy_call_wide(mf_jit(erfcx_compiled), numpy_real_float(x, "erfcx")); }

/* ---- ndtr: the cumulative distribution function */
static mf_value ndtr_of(mf_value x)
{
    mf_value w = mf_mul(x, mf_scalar(0.7071067811865476, mf_dtype_of(x)));
    return mf_mul(erfc_compiled(mf_neg(w)), 0.5);
}

mf_value(mf_ndtr)(mf_value x) { return numpy_call_wide(mf_jit(ndtr_of), numpy_real_float(x, "ndtr")); }

/* For very negative x by the asymptotic series, for large x as -ndtr(-x), since log(1 - p) is about -p. */
static mf_value log_ndtr_value(mf_value x)
{
    bool wide = mf_dtype_of(x) == MF_F64;
    double from = wide ? -20 : -10, to = wide ? 8 : 5;
    mf_value left = mf_less(x, from), right = mf_greater(x, to), low = mf_minimum(x, from), square = mf_square(low);
    mf_value series = mf_add(1, mf_div(mf_sub(mf_div(mf_sub(3, mf_div(15, square)), square), 1), square));
    mf_value tail = mf_add(mf_sub(mf_mul(square, -0.5), mf_log(mf_neg(low))), mf_sub(mf_log(series), 0.9189385332046727));
    mf_value inside = ndtr_of(mf_where(right, mf_neg(x), mf_maximum(x, from)));
    return mf_where(right, mf_neg(inside), mf_where(left, tail, mf_log(inside)));
}

static mf_value log_ndtr_jvp(mf_value primals, mf_value tangents)
{
    mf_value x = mf_get(primals, 0), value = mf_call(mf_custom_jvp(log_ndtr_value, log_ndtr_jvp), x);
    mf_value slope = mf_exp(mf_sub(mf_sub(mf_mul(mf_square(x), -0.5), 0.9189385332046727), value));
    return mf_tuple(value, mf_mul(mf_get(tangents, 0), slope));
}

static mf_value log_ndtr_of(mf_value x) { return mf_call(mf_custom_jvp(log_ndtr_value, log_ndtr_jvp), x); }

mf_value(mf_log_ndtr)(mf_value x) { return numpy_call_wide(mf_jit(log_ndtr_of), numpy_real_float(x, "log_ndtr")); }

/* ---- ndtri: the inverse of ndtr, by one approximation for the centre and two for the tails */
static const double centre_p[] = { -5.99633501014107895267e1, 9.80010754185999661536e1, -5.66762857469070293439e1, 1.39312609387279679503e1,
                                   -1.23916583867381258016e0 };
static const double centre_q[] = { 1,
                                   1.95448858338141759834e0,
                                   4.67627912898881538453e0,
                                   8.63602421390890590575e1,
                                   -2.25462687854119370527e2,
                                   2.00260212380060660359e2,
                                   -8.20372256168333339912e1,
                                   1.59056225126211695515e1,
                                   -1.18331621121330003142e0 };
static const double tail_p[] = { 4.05544892305962419923e0,   3.15251094599893866154e1,   5.71628192246421288162e1,
                                 4.40805073893200834700e1,   1.46849561928858024014e1,   2.18663306850790267539e0,
                                 -1.40256079171354495875e-1, -3.50424626827848203418e-2, -8.57456785154685413611e-4 };
static const double tail_q[] = { 1,
                                 1.57799883256466749731e1,
                                 4.53907635128879210584e1,
                                 4.13172038254672030440e1,
                                 1.50425385692907503408e1,
                                 2.50464946208309415979e0,
                                 -1.42182922854787788574e-1,
                                 -3.80806407691578277194e-2,
                                 -9.33259480895457427372e-4 };
static const double end_p[] = { 3.23774891776946035970e0,  6.91522889068984211695e0,  3.93881025292474443415e0,
                                1.33303460815807542389e0,  2.01485389549179081538e-1, 1.23716634817820021358e-2,
                                3.01581553508235416007e-4, 2.65806974686737550832e-6, 6.23974539184983293730e-9 };
static const double end_q[] = { 1,
                                6.02427039364742014255e0,
                                3.67983563856160859403e0,
                                1.37702099489081330271e0,
                                2.16236993594496635890e-1,
                                1.34204006088543189037e-2,
                                3.28014464682127739104e-4,
                                2.89247864745380683936e-6,
                                6.79019408009981274425e-9 };

static mf_value ndtri_value(mf_value p)
{
    mf_value right = mf_greater(p, 0.8646647167633873), tail = mf_where(right, mf_sub(1, p), p); /* 1 - e^-2 */
    mf_value ends = mf_less_equal(tail, 0), safe = mf_where(ends, 0.5, tail), w = mf_sub(safe, 0.5), square = mf_square(w);
    mf_value centre = mf_div(special_polynomial(centre_p, RATIONAL_COUNT(centre_p), square),
                             special_polynomial(centre_q, RATIONAL_COUNT(centre_q), square));
    centre = mf_mul(mf_add(w, mf_mul(mf_mul(w, square), centre)), -2.5066282746310002);
    mf_value z = mf_sqrt(mf_mul(mf_log(mf_minimum(safe, 0.5)), -2)), inverse = mf_reciprocal(z),
             first = mf_sub(z, mf_mul(mf_log(z), inverse));
    mf_value near = mf_div(special_polynomial(tail_p, RATIONAL_COUNT(tail_p), inverse),
                           special_polynomial(tail_q, RATIONAL_COUNT(tail_q), inverse));
    mf_value end = mf_div(special_polynomial(end_p, RATIONAL_COUNT(end_p), inverse),
                          special_polynomial(end_q, RATIONAL_COUNT(end_q), inverse));
    mf_value x = mf_sub(first, mf_mul(mf_where(mf_less(z, 8), near, end), inverse));
    x = mf_where(mf_greater(safe, 0.1353352832366127), centre, x);
    x = mf_where(right, x, mf_neg(x));
    x = mf_where(mf_equal(p, 0), -(double)INFINITY, mf_where(mf_equal(p, 1), (double)INFINITY, x));
    return mf_where(mf_logical_or(mf_less(p, 0), mf_greater(p, 1)), (double)NAN, x);
}

/* dx/dp = 1 / density(x). */
static mf_value ndtri_jvp(mf_value primals, mf_value tangents)
{
    mf_value x = mf_call(mf_custom_jvp(ndtri_value, ndtri_jvp), mf_get(primals, 0));
    return mf_tuple(x, mf_mul(mf_get(tangents, 0), mf_mul(mf_exp(mf_mul(mf_square(x), 0.5)), 2.5066282746310002)));
}

static mf_value ndtri_of(mf_value p) { return mf_call(mf_custom_jvp(ndtri_value, ndtri_jvp), p); }

mf_value(mf_ndtri)(mf_value p) { return numpy_call_wide(mf_jit(ndtri_of), numpy_real_float(p, "ndtri")); }
