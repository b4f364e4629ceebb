/* The polynomials of f64 (kernels/tile/polynomial64.def) against long double: over the ranges where they are curved, over all exponents, over
 * all bits, and at the values where definitions change. Every tier gives the same bits. */
#include "backend/native/kernels/tier.h"
#include "check.h"

#include <float.h>
#include <math.h>

typedef long double real;

static real logisticl(real x) { return 1 / (1 + expl(-x)); }

typedef struct accuracy_case {
    const char *op;
    real (*exact)(real);
    double low, high; /* the range where the function varies */
    double bound;     /* ulp */
} accuracy_case;

static const accuracy_case cases[] = {
    { "exp", expl, -750, 710, 1.1 }, { "exp2", exp2l, -1076, 1025, 1.2 },       { "expm1", expm1l, -50, 710, 1.9 },
    { "log", logl, 0, 10, 0.9 },     { "log1p", log1pl, -1, 10, 1.2 },          { "tanh", tanhl, -30, 30, 1.6 },
    { "erf", erfl, -7, 7, 1.2 },     { "logistic", logisticl, -750, 750, 2.4 }, { "sin", sinl, -1e4, 1e4, 0.9 },
    { "cos", cosl, -1e4, 1e4, 0.9 },
};
enum { CASES = sizeof cases / sizeof *cases };

static mf_tile_fn *find(const mf_tier *tier, const char *op)
{
    for (size_t i = 0; i < tier->tile->count; i++) {
        const mf_tile_entry *e = &tier->tile->entries[i];
        if (!strcmp(e->op, op) && e->in == MF_F64 && e->out == MF_F64)
            return e->run;
    }
    return NULL;
}

static uint64_t noise(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static double of_bits(uint64_t u)
{
    double x;
    memcpy(&x, &u, sizeof x);
    return x;
}

static double argument(const accuracy_case *c, int way, uint64_t *state)
{
    uint64_t u = noise(state);
    double part = (double)(u >> 11) * 0x1p-53;
    switch (way % 4) {
    case 0: return c->low + (c->high - c->low) * part;
    case 1: return (part * 2 - 1) * (way & 4 ? 1 : 3);
    case 2: return ldexp(u & 1 ? part + 1 : -part - 1, (int)(noise(state) % 2100) - 1060);
    default: return of_bits(u);
    }
}

static const double special[] = { 0.0,    -0.0,    1,       -1,       0.5,     -0.5,    0.55,     -0.55,     2,
                                  6,      -6,      0x1p-54, -0x1p-54, 0x1p-53, 5e-324,  -5e-324,  0x1p-1022, -0x1p-1022,
                                  0x1p30, -0x1p30, 1e22,    -1e22,    709.7,   709.8,   -745.1,   -745.2,    1023.999,
                                  1024,   -1074.9, -1075.1, -37.5,    36.9,    DBL_MAX, -DBL_MAX, INFINITY,  -INFINITY };

/* Fills x with MF_TILE arguments of this round. */
static void fill(const accuracy_case *c, int round, double *x, uint64_t *state)
{
    enum { SPECIAL = sizeof special / sizeof *special };
    for (int i = 0; i < MF_TILE; i++)
        x[i] = round == 0 && i < SPECIAL ? special[i] : round == 0 && i == SPECIAL ? (double)NAN : argument(c, round, state);
}

/* The error in units in the last place of the exact result, which is at least the smallest subnormal. */
static double ulps(double got, real exact)
{
    double rounded = (double)exact;
    int exponent;
    if (isnan(rounded) || isnan(got))
        return isnan(rounded) && isnan(got) ? 0 : 1e9;
    if (got == rounded)
        return signbit(got) == signbit(rounded) ? 0 : 1e9;
    if (isinf(got) || isinf(rounded))
        return 1e9;
    frexp(rounded, &exponent);
    exponent = exponent < -1021 ? -1021 : exponent;
    return (double)fabsl(((real)got - exact) / ldexpl(1, exponent - DBL_MANT_DIG));
}

TEST(polynomials_are_accurate)
{
    /* if long double is no wider than double, its own results are off by an ulp */
    const double slack = LDBL_MANT_DIG > DBL_MANT_DIG ? 0 : 1;
    for (int k = 0; k < CASES; k++) {
        const accuracy_case *c = &cases[k];
        mf_tile_fn *run = find(mf_tier_current(), c->op);
        REQUIRE(run);
        uint64_t state = 88172645463325252u;
        double worst = 0, at = 0, x[MF_TILE], y[MF_TILE];
        for (int round = 0; round < 600; round++) {
            fill(c, round, x, &state);
            run(y, (const void *const[]){ x }, MF_TILE);
            for (int i = 0; i < MF_TILE; i++) {
                double error = ulps(y[i], c->exact((real)x[i]));
                if (error > worst)
                    worst = error, at = x[i];
            }
        }
        if (!CHECK(worst <= c->bound + slack))
            CHECK_NOTE("%s is %g ulp off at %a", c->op, worst, at);
    }
}

TEST(tiers_give_the_same_bits)
{
    static const char *const names[] = { "generic", "avx2", "avx512", "neon" };
    for (int k = 0; k < CASES; k++) {
        mf_tile_fn *run = find(mf_tier_current(), cases[k].op);
        uint64_t state = 362436069u;
        for (int round = 0; round < 16; round++) {
            double x[MF_TILE], y[MF_TILE], other[MF_TILE];
            size_t n = MF_TILE - (size_t)round; /* the last vector is partial */
            fill(&cases[k], round, x, &state);
            run(y, (const void *const[]){ x }, n);
            for (size_t t = 0; t < sizeof names / sizeof *names; t++) {
                const mf_tier *tier = mf_tier_named(names[t]);
                if (!tier)
                    continue;
                find(tier, cases[k].op)(other, (const void *const[]){ x }, n);
                for (size_t i = 0; i < n; i++)
                    if (!isnan(y[i]) || !isnan(other[i]))
                        if (!CHECK_BYTES(&other[i], &y[i], sizeof *y))
                            CHECK_NOTE("%s of %a, %s", cases[k].op, x[i], names[t]);
            }
        }
    }
}
