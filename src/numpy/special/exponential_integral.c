/* Exponential integrals: expi, exp1, expn. Invariant: derivatives are functions of this family; the branch of a `where` that is not
 * selected gets a harmless argument. */
#include "numpy/floats.h"
#include "numpy/special/rational.h"

#include <float.h>
#include <math.h>

#define EULER 0.57721566490153286061

/* ---- expi: the rational approximations of Cephes (Moshier): for x up to 2 of (expi(x) - log(x) - EULER) / x in x; beyond, for x up to
 * 4, 8, 16, 32, 64 and above, of x (x e^-x expi(x) - 1) in 1 / x */
static const double p1[] = { -5.350447357812542947283e0, 2.185049168816613393830e2,  -4.176572384826693777058e3,
                             5.541176756393557601232e4,  -3.313381331178144034309e5, 1.592627163384945414220e6 };
static const double q1[] = { 1.0,
                             -5.250547959112862969197e1,
                             1.259616186786790571525e3,
                             -1.756549581973534652631e4,
                             1.493062117002725991967e5,
                             -7.294949239640527645655e5,
                             1.592627163384945429726e6 };
static const double p2[] = { 1.981808503259689673238e-2,  -1.271645625984917501326e0,  -2.088160335681228318920e0,
                             2.755544509187936721172e0,   -4.409507048701600257171e-1, 4.665623805935891391017e-2,
                             -1.545042679673485262580e-3, 7.059980605299617478514e-5 };
static const double q2[] = { 1.0,
                             1.476498670914921440652e0,
                             5.629177174822436244827e-1,
                             1.699017897879307263248e-1,
                             2.291647179034212017463e-2,
                             4.450150439728752875043e-3,
                             1.727439612206521482874e-4,
                             3.953167195549672482304e-5 };
static const double p3[] = { -1.373215375871208729803e0,  -7.084559133740838761406e-1, 1.580806855547941010501e0,
                             -2.601500427425622944234e-1, 2.994674694113713763365e-2,  -1.038086040188744005513e-3,
                             4.371064420753005429514e-5,  2.141783679522602903795e-6 };
static const double q3[] = { 1.0,
                             8.585231423622028380768e-1,
                             4.483285822873995129957e-1,
                             7.687932158124475434091e-2,
                             2.449868241021887685904e-2,
                             8.832165941927796567926e-4,
                             4.590952299511353531215e-4,
                             -4.729848351866523044863e-6,
                             2.665195537390710170105e-6 };
static const double p4[] = { -2.106934601691916512584e0, 1.732733869664688041885e0,   -2.423619178935841904839e-1,
                             2.322724180937565842585e-2, 2.372880440493179832059e-4,  -8.343219561192552752335e-5,
                             1.363408795605250394881e-5, -3.655412321999253963714e-7, 1.464941733975961318456e-8,
                             6.176407863710360207074e-10 };
static const double q4[] = { 1.0,
                             -2.298062239901678075778e-1,
                             1.105077041474037862347e-1,
                             -1.566542966630792353556e-2,
                             2.761106850817352773874e-3,
                             -2.089148012284048449115e-4,
                             1.708528938807675304186e-5,
                             -4.459311796356686423199e-7,
                             1.394634930353847498145e-8,
                             6.150865933977338354138e-10 };
static const double p5[] = { -2.458119367674020323359e-1, -1.483382253322077687183e-1, 7.248291795735551591813e-2,
                             -1.348315687380940523823e-2, 1.342775069788636972294e-3,  -7.942465637159712264564e-5,
                             2.644179518984235952241e-6,  -4.239473659313765177195e-8 };
static const double q5[] = { 1.0,
                             -1.044225908443871106315e-1,
                             -2.676453128101402655055e-1,
                             9.695000254621984627876e-2,
                             -1.601745692712991078208e-2,
                             1.496414899205908021882e-3,
                             -8.462452563778485013756e-5,
                             2.728938403476726394024e-6,
                             -4.239462431819542051337e-8 };
static const double p6[] = { 1.212561118105456670844e-1,  -5.823133179043894485122e-1, 2.348887314557016779211e-1,
                             -3.040034318113248237280e-2, 1.510082146865190661777e-3,  -2.523137095499571377122e-5 };
static const double q6[] = { 1.0,
                             -1.002252150365854016662e0,
                             2.928709694872224144953e-1,
                             -3.337004338674007801307e-2,
                             1.560544881127388842819e-3,
                             -2.523137093603234562648e-5 };
static const double p7[] = { -7.657847078286127362028e-1, 6.886192415566705051750e-1,  -2.132598113545206124553e-1,
                             3.346107552384193813594e-2,  -3.076541477344756050249e-3, 1.747119316454907477380e-4,
                             -6.103711682274170530369e-6, 1.218032765428652199087e-7,  -1.086076102793290233007e-9 };
static const double q7[] = { 1.0,
                             -1.888802868662308731041e0,
                             1.066691687211408896850e0,
                             -2.751915982306380647738e-1,
                             3.930852688233823569726e-2,
                             -3.414684558602365085394e-3,
                             1.866844370703555398195e-4,
                             -6.345146083130515357861e-6,
                             1.239754287483206878024e-7,
                             -1.086076102793126632978e-9 };

typedef struct expi_piece {
    double end;
    const double *p, *q;
    int p_count, q_count;
} expi_piece;
#define PIECE(end, p, q)                                \
    {                                                   \
        end, p, q, RATIONAL_COUNT(p), RATIONAL_COUNT(q) \
    }
static const expi_piece pieces[] = {
    PIECE(4, p2, q2), PIECE(8, p3, q3), PIECE(16, p4, q4), PIECE(32, p5, q5), PIECE(64, p6, q6), PIECE((double)INFINITY, p7, q7),
};

static mf_value expi_of_positive(mf_value x)
{
    mf_value near = mf_less_equal(x, 2), small = mf_where(near, x, 1), large = mf_where(near, 4, x), w = mf_reciprocal(large);
    mf_value series = mf_mul(small,
                             mf_div(special_polynomial(p1, RATIONAL_COUNT(p1), small), special_polynomial(q1, RATIONAL_COUNT(q1), small)));
    mf_value share = mf_zeros_like(x);
    for (int i = (int)(sizeof pieces / sizeof *pieces) - 1; i >= 0; i--) {
        const expi_piece *e = &pieces[i];
        mf_value here = mf_div(special_polynomial(e->p, e->p_count, w), special_polynomial(e->q, e->q_count, w));
        share = mf_where(mf_less_equal(large, e->end), here, share);
    }
    mf_value far = mf_where(mf_isinf(large), large, mf_mul(mf_mul(mf_exp(large), w), mf_add(mf_mul(w, share), 1)));
    return mf_where(near, mf_add(mf_add(series, EULER), mf_log(small)), far);
}

/* ---- expn: a power series up to x = 1, beyond a continued fraction (Numerical Recipes, 6.3) */

/* The carry is (open, i, b, c, d, fraction); the order is added to the count i of terms. */
static mf_value is_open(mf_value carry) { return mf_logical_and(mf_less(mf_get(carry, 1), 1000), mf_any(mf_get(carry, 0))); }

static mf_value next_convergent(void *order, mf_value carry)
{
    mf_value open, i, b, c, d, sum;
    mf_unpack(carry, &open, &i, &b, &c, &d, &sum);
    i = mf_add(i, 1);
    mf_value term = mf_neg(mf_mul(i, mf_add(i, *(int *)order - 1))), next = mf_add(b, 2);
    mf_value inverse = mf_reciprocal(mf_add(mf_mul(term, d), next)), after = mf_add(next, mf_div(term, c)), factor = mf_mul(after, inverse);
    mf_value epsilon = mf_scalar(numpy_epsilon(b), mf_dtype_of(b));
    mf_value goes_on = mf_logical_and(open, mf_greater(mf_abs(mf_sub(factor, 1)), epsilon));
    return mf_tuple(goes_on, i, next, mf_where(open, after, c), mf_where(open, inverse, d), mf_where(open, mf_mul(sum, factor), sum));
}

/* e^x expn(x), for x > 1. */
static mf_value fraction(int n, mf_value x, mf_value used)
{
    mf_dtype type = mf_dtype_of(x);
    mf_value b = mf_add(x, n), d = mf_reciprocal(b), most = mf_full_like(x, mf_scalar(type == MF_F64 ? DBL_MAX : (double)FLT_MAX, type));
    return mf_get(mf_while(is_open, mf_closure(next_convergent, &n), mf_tuple(used, mf_scalar(0, type), b, most, d, d)), 5);
}

/* The sum of (-x)^k / ((n - 1 - k) k!) over all k but n - 1, plus (-x)^(n-1) / (n-1)! (digamma(n) - log(x)): for 0 < x <= 1. */
static mf_value series(int n, mf_value x)
{
    enum { TERMS = 24 };
    mf_value power = mf_ones_like(x), sum = mf_zeros_like(x), minus = mf_neg(x);
    double digamma = -EULER;
    for (int k = 1; k < n; k++)
        digamma += 1.0 / k;
    for (int k = 0; k < TERMS; k++) {
        mf_value factor = k == n - 1 ? mf_sub(digamma, mf_log(x)) : mf_f(1.0 / (n - 1 - k));
        sum = mf_add(sum, mf_mul(power, factor));
        power = mf_div(mf_mul(power, minus), k + 1);
    }
    return sum;
}

static mf_value expn_value(void *order, mf_value x)
{
    int n = *(int *)order;
    mf_value inside = mf_greater(x, 0), at_zero = mf_where(mf_equal(x, 0), n < 2 ? (double)INFINITY : 1.0 / (n - 1), (double)NAN);
    mf_value right = mf_greater(x, 1), large = mf_where(right, x, 2), small = mf_where(mf_logical_and(inside, mf_logical_not(right)), x, 1);
    mf_value fall = mf_exp(mf_neg(large)); /* 0 at infinity, where the fraction is NaN */
    mf_value far = n == 0 ? mf_div(fall, large) : mf_mul(fall, fraction(n, mf_where(mf_isinf(large), 2, large), right));
    mf_value near = n == 0 ? mf_div(mf_exp(mf_neg(small)), small) : series(n, small);
    return mf_where(inside, mf_where(right, far, near), at_zero);
}

static mf_value expn_jvp(void *order, mf_value primals, mf_value tangents);

static mf_value expn_at(int n, mf_value x) { return mf_call(mf_custom_jvp(mf_closure(expn_value, &n), mf_closure(expn_jvp, &n)), x); }

/* expn' = -expn of order n - 1; for n = 0, whose value is e^-x / x, -(1 + 1 / x) times the value. */
static mf_value expn_jvp(void *order, mf_value primals, mf_value tangents)
{
    int n = *(int *)order;
    mf_value x = mf_get(primals, 0), y = expn_at(n, x);
    mf_value slope = n > 0 ? expn_at(n - 1, x) : mf_mul(y, mf_add(mf_reciprocal(x), 1));
    return mf_tuple(y, mf_neg(mf_mul(mf_get(tangents, 0), slope)));
}

static mf_value expn_of(void *order, mf_value x) { return expn_at(*(int *)order, x); }

mf_value(mf_expn)(int n, mf_value x)
{
    MF_LAYER;
    if (n < 0)
        return mf_make_error(MF_ERROR_ARGUMENT, "expn: the order must not be negative, not %d", n);
    return numpy_call_wide(mf_jit(mf_closure(expn_of, &n)), numpy_real_float(x, "expn"));
}

mf_value(mf_exp1)(mf_value x)
{
    MF_LAYER;
    int n = 1;
    return numpy_call_wide(mf_jit(mf_closure(expn_of, &n)), numpy_real_float(x, "exp1"));
}

static mf_value expi_value(mf_value x)
{
    mf_value right = mf_greater(x, 0), left = mf_less(x, 0);
    mf_value either = mf_where(right, expi_of_positive(mf_where(right, x, 1)),
                               mf_neg(expn_value(&(int){ 1 }, mf_where(left, mf_neg(x), 1))));
    return mf_where(mf_logical_or(left, right), either, mf_where(mf_equal(x, 0), -(double)INFINITY, (double)NAN));
}

static mf_value expi_jvp(mf_value primals, mf_value tangents)
{
    mf_value x = mf_get(primals, 0);
    return mf_tuple(mf_call(mf_custom_jvp(expi_value, expi_jvp), x), mf_mul(mf_get(tangents, 0), mf_div(mf_exp(x), x)));
}

static mf_value expi_of(mf_value x) { return mf_call(mf_custom_jvp(expi_value, expi_jvp), x); }

mf_value(mf_expi)(mf_value x) { return numpy_call_wide(mf_jit(expi_of), numpy_real_float(x, "expi")); }
