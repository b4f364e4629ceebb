/* random_gamma_grad(a, x): the derivative with respect to a of a draw x from the gamma distribution of shape a, its probability held fixed
 * (implicit reparameterisation: Figurnov, Mohamed and Mnih 2018): dx/da = -(dP/da) / (dP/dx), with the regularised incomplete gamma
 * function P(a, x). Invariant: computed in double, by a series of P where x is small and by the continued fraction of 1 - P elsewhere, each
 * differentiated term by term; the factors x^a e^-x / gamma(a) cancel, so nothing over- or underflows. */
#include "ops/elementwise/loops.h"
#include "transform/rules/sweep.h"

#include <math.h>

enum { MOST_TERMS = 50000 };

/* The logarithmic derivative of gamma at x > 0: the asymptotic series from 8 on, and the recurrence below. */
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
    double dp0 = 0, dp = 0, dq0 = 0, dq = -1;    /* their derivatives with respect to a */
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
    if (a > 1e8) /* the normal approximation: the draw is a + z sqrt(a) to this order */
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
    cost.flops = 400.0 * (double)e->out[0]->type->size; /* for some tens of terms */
    return cost;
}

/* ---- the same as StableHLO: all elements at once in double precision, each until its sum has converged */
static mf_hlo_value number(mf_hlo *h, mf_hlo_value like, double x) { return h_full(h, like.type, x); }
static mf_hlo_value plus(mf_hlo *h, mf_hlo_value x, mf_hlo_value y) { return h_binary(h, "add", x, y); }
static mf_hlo_value minus(mf_hlo *h, mf_hlo_value x, mf_hlo_value y) { return h_binary(h, "subtract", x, y); }
static mf_hlo_value times(mf_hlo *h, mf_hlo_value x, mf_hlo_value y) { return h_binary(h, "multiply", x, y); }
static mf_hlo_value over(mf_hlo *h, mf_hlo_value x, mf_hlo_value y) { return h_binary(h, "divide", x, y); }
static mf_hlo_value size_of(mf_hlo *h, mf_hlo_value x) { return h_unary(h, "abs", x); }

static mf_hlo_value digamma_hlo(mf_hlo *h, mf_hlo_value x)
{
    static const double series[] = { 1.0 / 12, 691.0 / 32760, 1.0 / 132, 1.0 / 240, 1.0 / 252, 1.0 / 120, 1.0 / 12 };
    mf_hlo_value zero = number(h, x, 0), one = number(h, x, 1), below = zero;
    for (int i = 0; i < 8; i++) {
        mf_hlo_value low = h_compare(h, "LT", false, x, number(h, x, 8));
        below = plus(h, below, h_select(h, low, over(h, one, x), zero));
        x = plus(h, x, h_select(h, low, one, zero));
    }
    mf_hlo_value y = over(h, one, times(h, x, x)), tail = number(h, x, series[0]);
    for (int i = 1; i < 7; i++)
        tail = minus(h, number(h, x, series[i]), times(h, y, tail));
    mf_hlo_value main = minus(h, h_unary(h, "log", x), over(h, number(h, x, 0.5), x));
    return minus(h, minus(h, main, times(h, y, tail)), below);
}

/* A loop over n from 1 on. Its state: a, x, the `count` values that `next` computes, and which elements continue. */
typedef void step_hlo(mf_hlo *h, mf_hlo_value n, mf_hlo_value a, mf_hlo_value x, const mf_hlo_value *was, mf_hlo_value *is,
                      mf_hlo_value *ended);
enum { MOST_STATE = 10 };

static void until_converged(mf_hlo *h, step_hlo *next, mf_hlo_value a, mf_hlo_value x, mf_hlo_value active, mf_hlo_value *state, int count)
{
    mf_hlo_value in[MOST_STATE + 4] = { h_scalar(h, MF_F64, 1), a, x, active }, body[MOST_STATE + 4], out[MOST_STATE + 4];
    mf_hlo_value is[MOST_STATE], ended;
    int all = count + 4;
    for (int i = 0; i < all; i++) {
        in[i] = i < 4 ? in[i] : state[i - 4];
        body[i] = out[i] = in[i];
    }
    int64_t axes[MF_RANK];
    for (int i = 0; i < a.type->rank; i++)
        axes[i] = i;
    h_open(h, "while", in, all, out, all, NULL);
    h_region(h, body, all);
    mf_hlo_value more = h_reduce(h, MF_REDUCE_OR, body[3], mf_ints_intern(axes, a.type->rank));
    more = h_binary(h, "and", more, h_compare(h, "LT", false, body[0], h_scalar(h, MF_F64, MOST_TERMS)));
    h_return(h, &more, 1);
    h_region(h, body, all);
    next(h, h_broadcast(h, body[0], a.type, mf_ints_of(0)), body[1], body[2], body + 4, is, &ended);
    for (int i = 0; i < count; i++)
        body[4 + i] = h_select(h, body[3], is[i], body[4 + i]);
    body[0] = plus(h, body[0], h_scalar(h, MF_F64, 1));
    body[3] = h_binary(h, "and", body[3], h_unary(h, "not", ended));
    h_return(h, body, all);
    h_close(h, in, all, out, all);
    for (int i = 0; i < count; i++)
        state[i] = out[4 + i];
}

/* state: term, slope, sum, slopes */
static void series_step(mf_hlo *h, mf_hlo_value n, mf_hlo_value a, mf_hlo_value x, const mf_hlo_value *was, mf_hlo_value *is,
                        mf_hlo_value *ended)
{
    mf_hlo_value r = plus(h, a, n), ratio = over(h, x, r), small = number(h, a, 1e-17);
    is[1] = times(h, minus(h, was[1], over(h, was[0], r)), ratio);
    is[0] = times(h, was[0], ratio);
    is[2] = plus(h, was[2], is[0]);
    is[3] = plus(h, was[3], is[1]);
    mf_hlo_value slope_ends = h_compare(h, "LE", false, size_of(h, is[1]), times(h, small, size_of(h, is[3])));
    *ended = h_binary(h, "and", h_compare(h, "LT", false, is[0], times(h, small, is[2])), slope_ends);
}

/* state: p0, p, q0, q, their derivatives in this order, value, slope */
static void fraction_step(mf_hlo *h, mf_hlo_value n, mf_hlo_value a, mf_hlo_value x, const mf_hlo_value *was, mf_hlo_value *is,
                          mf_hlo_value *ended)
{
    mf_hlo_value one = number(h, a, 1), small = number(h, a, 1e-16), c = times(h, n, minus(h, a, n));
    mf_hlo_value b = plus(h, minus(h, plus(h, x, one), a), plus(h, n, n));
    mf_hlo_value last[4]; /* p1, q1 and their derivatives */
    for (int k = 0; k < 2; k++) {
        const mf_hlo_value *v = was + 2 * k, *d = was + 4 + 2 * k;
        last[k] = plus(h, times(h, b, v[1]), times(h, c, v[0]));
        mf_hlo_value from_b = minus(h, times(h, b, d[1]), v[1]), from_c = plus(h, times(h, c, d[0]), times(h, n, v[0]));
        last[2 + k] = plus(h, from_b, from_c);
    }
    mf_hlo_value scale = over(h, one, last[1]);
    for (int k = 0; k < 4; k++) {
        is[2 * k] = times(h, was[2 * k + 1], scale);
        is[2 * k + 1] = k == 1 ? one : times(h, last[k], scale);
    }
    is[8] = is[1];
    is[9] = minus(h, is[5], times(h, is[8], is[7]));
    mf_hlo_value value_ends = h_compare(h, "LE", false, size_of(h, minus(h, is[8], was[8])), times(h, small, size_of(h, is[8])));
    mf_hlo_value slope_ends = h_compare(h, "LE", false, size_of(h, minus(h, is[9], was[9])), times(h, small, size_of(h, is[9])));
    *ended = h_binary(h, "and", value_ends, slope_ends);
}

static mf_hlo_value by_series_hlo(mf_hlo *h, mf_hlo_value a, mf_hlo_value x, mf_hlo_value active)
{
    mf_hlo_value one = number(h, a, 1), zero = number(h, a, 0), state[4] = { one, zero, one, zero };
    until_converged(h, series_step, a, x, active, state, 4);
    mf_hlo_value logs = minus(h, h_unary(h, "log", x), digamma_hlo(h, plus(h, a, one)));
    return times(h, over(h, h_unary(h, "negate", x), a), plus(h, times(h, state[2], logs), state[3]));
}

static mf_hlo_value by_fraction_hlo(mf_hlo *h, mf_hlo_value a, mf_hlo_value x, mf_hlo_value active)
{
    mf_hlo_value one = number(h, a, 1), zero = number(h, a, 0), q = minus(h, plus(h, x, one), a), value = over(h, one, q);
    mf_hlo_value state[MOST_STATE] = { zero, one, one, q, zero, zero, zero, number(h, a, -1), value, over(h, value, q) };
    until_converged(h, fraction_step, a, x, active, state, MOST_STATE);
    mf_hlo_value logs = minus(h, h_unary(h, "log", x), digamma_hlo(h, a));
    return times(h, x, plus(h, times(h, state[8], logs), state[9]));
}

MF_HLO_RULE(gamma_grad_hlo)
{
    mf_hlo_value a = h_convert(h, in[0], MF_F64), x = h_convert(h, in[1], MF_F64);
    mf_hlo_value zero = number(h, a, 0), one = number(h, a, 1), top = number(h, a, INFINITY);
    mf_hlo_value good_a = h_binary(h, "and", h_compare(h, "GT", false, a, zero), h_compare(h, "LT", false, a, top));
    mf_hlo_value good_x = h_binary(h, "and", h_compare(h, "GE", false, x, zero), h_compare(h, "LT", false, x, top));
    mf_hlo_value valid = h_binary(h, "and", good_a, good_x), at_zero = h_compare(h, "EQ", false, x, zero);
    mf_hlo_value large = h_compare(h, "GT", false, a, number(h, a, 1e8));
    mf_hlo_value sums = h_binary(h, "and", valid, h_unary(h, "not", h_binary(h, "or", at_zero, large)));
    mf_hlo_value sa = h_select(h, sums, a, one), sx = h_select(h, sums, x, one);
    mf_hlo_value near = h_binary(h, "or", h_compare(h, "LE", false, sx, one), h_compare(h, "LE", false, sx, sa));
    mf_hlo_value far = h_unary(h, "not", near);
    mf_hlo_value series = by_series_hlo(h, sa, sx, h_binary(h, "and", sums, near));
    mf_hlo_value y = h_select(h, near, series, by_fraction_hlo(h, sa, sx, h_binary(h, "and", sums, far)));
    y = h_select(h, large, times(h, plus(h, over(h, x, a), one), number(h, a, 0.5)), y);
    y = h_select(h, valid, h_select(h, at_zero, zero, y), number(h, a, NAN));
    out[0] = h_convert(h, y, e->out[0]->type->dtype);
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
    MF_HLO_BY(gamma_grad_hlo),
    .samples = gamma_grad_samples,
};
