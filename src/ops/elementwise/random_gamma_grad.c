/* random_gamma_grad(a, x): how a draw x of the gamma distribution of shape a moves with a, its probability held fixed (implicit
 * reparameterisation: Figurnov, Mohamed and Mnih 2018): dx/da = -(dP/da) / (dP/dx) of the regularised incomplete gamma function P(a, x).
 * Invariant: computed in double by a series of P where x is small, by the continued fraction of 1 - P elsewhere, each differentiated term
 * by term; both factors x^a e^-x / gamma(a) cancel, so nothing over- or underflows. */
#include "ops/elementwise/loops.h"
#include "transform/rules/sweep.h"

#include <math.h>

enum { MOST_TERMS = 50000 };

/* The logarithmic derivative of gamma at x > 0: the asymptotic series from 8 on, and the recurrence to get there. */
static double digamma(double x)
{
    double below = 0;
    while (x < 8) {
        below += 1 / x;
        x += 1;
    }
    double y = 1 / (x * x);
    double tail = y * (1.0 / 12 - y * (1.0 / 120 - y * (1.0 / 252 - y * (1.0 / 240 - y * (1.0 / 132 - y * (691.0 / 32760 - y / 12))))));
    return log(x) - 0.5 / x - tail - below;
}

/* P = x^a e^-x / gamma(a + 1) S with S = sum over n of x^n / ((a + 1) ... (a + n)). */
static double by_series(double a, double x)
{
    double term = 1, slope = 0, sum = 1, slopes = 0;
    for (int n = 1; n < MOST_TERMS; n++) {
        double r = a + n;
        slope = (slope - term / r) * (x / r);
        term *= x / r;
        sum += term;
        slopes += slope;
        if (term < 1e-17 * sum && fabs(slope) <= 1e-17 * fabs(slopes))
            break;
    }
    return -x / a * (sum * (log(x) - digamma(a + 1)) + slopes);
}

/* 1 - P = x^a e^-x / gamma(a) / (x + 1 - a - 1 (1 - a) / (x + 3 - a - 2 (2 - a) / ...)), by the recurrence of its convergents p / q. */
static double by_fraction(double a, double x)
{
    double p0 = 0, p = 1, q0 = 1, q = x + 1 - a; /* the last two convergents */
    double dp0 = 0, dp = 0, dq0 = 0, dq = -1;    /* by a */
    double value = p / q, slope = (dp - value * dq) / q;
    for (int n = 1; n < MOST_TERMS; n++) {
        double c = n * (a - n), dc = n, b = x + 1 - a + 2.0 * n;
        double p1 = b * p + c * p0, q1 = b * q + c * q0;
        double dp1 = b * dp - p + c * dp0 + dc * p0, dq1 = b * dq - q + c * dq0 + dc * q0;
        double scale = 1 / q1, before = value, slope_before = slope;
        p0 = p * scale, q0 = q * scale, dp0 = dp * scale, dq0 = dq * scale;
        p = p1 * scale, q = 1, dp = dp1 * scale, dq = dq1 * scale;
        value = p;
        slope = dp - value * dq;
        if (fabs(value - before) <= 1e-16 * fabs(value) && fabs(slope - slope_before) <= 1e-16 * fabs(slope))
            break;
    }
    return x * (value * (log(x) - digamma(a)) + slope);
}

static double gamma_grad(double a, double x)
{
    if (!(a > 0) || !(x >= 0) || isinf(x) || isinf(a))
        return NAN;
    if (x == 0)
        return 0;
    if (a > 1e8) /* the normal distribution's: the draw is a + z sqrt(a) to this order */
        return (x / a + 1) / 2;
    return x <= 1 || x <= a ? by_series(a, x) : by_fraction(a, x);
}

MF_EVALUATE2(gamma_grad_evaluate, gamma_grad, NULL, NULL, NULL)

MF_JVP_RULE(gamma_grad_jvp)
{
    (void)in, (void)tin;
    mf_builder_fail(b, mf_error_new(MF_ERROR_ARGUMENT,
                                    "Differentiation rule for '%s' not implemented: a draw of gamma has first derivatives", e->op->name));
    out[0] = tout[0] = mf_poison(b);
}

static mf_cost gamma_grad_cost(const mf_eqn *e)
{
    mf_cost cost = mf_cost_bytes(e);
    cost.flops = 400.0 * (double)e->out[0]->type->size; /* some tens of terms */
    return cost;
}

static const char *const gamma_grad_samples[] = {
    "f32[4]{=1,-1,2,0.5} f32[4]{=0,1,nan,inf} -> f32[4]{=0,nan,nan,nan}",
    "f32[6]{=0.01,0.5,1,3,30,1000} f32[6]{=0.001,0.2,2,9,25,1100}",
    "bf16[2]{=1,8} bf16[2]{=2,5}",
    NULL,
};
const mf_op mf_op_random_gamma_grad = {
    .name = "random_gamma_grad",
    MF_ELEMENTWISE_ROW,
    .type_rule = mf_type_float2,
    .jvp = gamma_grad_jvp,
    .transpose = mf_transpose_none,
    .cost = gamma_grad_cost,
    .lower = mf_lower_none,
    .evaluate = gamma_grad_evaluate,
    MF_NO_HLO("it is summed until it converges, in double precision on the host"),
    .samples = gamma_grad_samples,
};
