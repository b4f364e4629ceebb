/* Spence's function, the dilogarithm of 1 - x, by the rational approximation of Cephes (Moshier) around 1. */
#include "numpy/floats.h"
#include "numpy/special/rational.h"

#include <math.h>

static const double p[] = { 4.65128586073990045278E-5, 7.31589045238094711071E-3, 1.33847639578309018650E-1, 8.79691311754530315341E-1,
                            2.71149851196553469920E0,  4.25697156008121755724E0,  3.29771340985225106936E0,  1.00000000000000000126E0 };
static const double q[] = { 6.90990488912553276999E-4, 2.54043763932544379113E-2, 2.82974860602568089943E-1, 1.41172597751831069617E0,
                            3.63800533345137075418E0,  5.03278880143316990390E0,  3.54771340985225096217E0,  9.99999999999999998740E-1 };

/* Arguments above 1.5 are reflected to 1 / x, those below 0.5 to 1 - x. */
static mf_value spence_value(mf_value x)
{
    mf_value inside = mf_greater(x, 0), safe = mf_where(inside, x, 1), beyond = mf_greater(safe, 1.5);
    mf_value y = mf_where(mf_greater(safe, 2), mf_reciprocal(safe), safe), high = mf_greater(y, 1.5), low = mf_less(y, 0.5);
    mf_value w = mf_where(high, mf_sub(mf_reciprocal(y), 1), mf_where(low, mf_neg(y), mf_sub(y, 1)));
    mf_value f = mf_neg(mf_mul(w, mf_div(special_polynomial(p, RATIONAL_COUNT(p), w), special_polynomial(q, RATIONAL_COUNT(q), w))));
    mf_value log_y = mf_log(y), rest = mf_log1p(mf_neg(mf_where(low, y, 0.25)));
    f = mf_where(low, mf_sub(mf_sub(M_PI * M_PI / 6, mf_mul(log_y, rest)), f), f);
    f = mf_where(beyond, mf_sub(mf_mul(mf_square(log_y), -0.5), f), f);
    return mf_where(inside, f, mf_where(mf_equal(x, 0), M_PI * M_PI / 6, (double)NAN));
}

/* log(x) / (1 - x), which is -1 at 1. */
static mf_value spence_jvp(mf_value primals, mf_value tangents)
{
    mf_value x = mf_get(primals, 0), one = mf_equal(x, 1), safe = mf_where(one, 2, x);
    mf_value slope = mf_where(one, -1, mf_div(mf_log(safe), mf_sub(1, safe)));
    return mf_tuple(mf_call(mf_custom_jvp(spence_value, spence_jvp), x), mf_mul(mf_get(tangents, 0), slope));
}

static mf_value spence_of(mf_value x) { return mf_call(mf_custom_jvp(spence_value, spence_jvp), x); }

mf_value(mf_spence)(mf_value x) { return numpy_call_wide(mf_jit(spence_of), numpy_real_float(x, "spence")); }
