/* The native engine's leaf kernels: accuracy of the polynomials, equal bits in every instruction set, and the documented
 * orders and semantics against plain loops. */
#include "check.h"

#include "backend/native/kernels/tier.h"

#include <math.h>

static const char *const tier_names[] = { "generic", "avx2", "avx512" };
enum { TIERS = 3 };

static uint64_t random_state = 88172645463325252u;

static uint64_t random_bits(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static float random_float(void) { return (float)((int64_t)(random_bits() % 20001) - 10000) / 4096.0f; }

static float from_bits(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static uint32_t to_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static size_t size_of(mf_dtype d)
{
    switch (d) {
    case MF_BOOL:
    case MF_I8:
    case MF_U8: return 1;
    case MF_I16:
    case MF_U16:
    case MF_F16:
    case MF_BF16: return 2;
    case MF_I64:
    case MF_U64:
    case MF_C64:
    case MF_F64: return 8;
    case MF_C128: return 16;
    default: return 4;
    }
}

static mf_tile_fn *tile_of(const mf_tier *tier, const char *op, mf_dtype in, mf_dtype out)
{
    for (size_t i = 0; i < tier->tile->count; i++) {
        const mf_tile_entry *e = &tier->tile->entries[i];
        if (!strcmp(e->op, op) && e->in == in && e->out == out)
            return e->run;
    }
    return NULL;
}

/* ---- accuracy ---- */

static double logistic(double x) { return 1 / (1 + exp(-x)); }
static double rsqrt(double x) { return 1 / sqrt(x); }

/* The error in units in the last place of the exact result, which is at least the smallest subnormal. */
static double ulps(float got, double exact)
{
    float rounded = (float)exact;
    if (isnan(exact) || isinf(rounded) || rounded == 0)
        return isnan(exact)                                           ? (isnan(got) ? 0 : 1e9)
               : got == rounded && !signbit(got) == !signbit(rounded) ? 0
               : fabs((double)got - exact) < 1.5e-45                  ? 1
               : isinf(rounded) && fabsf(got) == 0x1.fffffep127f      ? 1
                                                                      : 1e9;
    int exponent;
    frexp(exact, &exponent);
    double unit = ldexp(1, exponent - 24 < -149 ? -149 : exponent - 24);
    return fabs((double)got - exact) / unit;
}

typedef struct accuracy_case {
    const char *op;
    double (*exact)(double);
    double bound;
} accuracy_case;

static const accuracy_case accuracy_cases[] = {
    { "exp", exp, 1.1 },   { "exp2", exp2, 1.1 },         { "expm1", expm1, 1.6 }, { "log", log, 1.1 },   { "log1p", log1p, 1.6 },
    { "tanh", tanh, 2.4 }, { "logistic", logistic, 2.5 }, { "erf", erf, 1.6 },     { "sin", sin, 1.6 },   { "cos", cos, 1.6 },
    { "tan", tan, 2.6 },   { "sqrt", sqrt, 0.5001 },      { "rsqrt", rsqrt, 1.5 }, { "cbrt", cbrt, 1.1 }, { "floor", floor, 0 },
    { "ceil", ceil, 0 },   { "round", rint, 0 },
};

/* Every 4,999th of all floats, then a denser sweep where the functions vary. */
static float sweep(uint32_t i, uint32_t n)
{
    if (i < n / 2)
        return from_bits(i * 2u * (uint32_t)(0x100000000u / n) + i % 7);
    return ((float)(i - n / 2) / (float)(n / 2) - 0.5f) * (i & 1 ? 40.0f : 4.0f);
}

TEST(polynomials_are_accurate)
{
    enum { N = 1 << 19 };
    for (size_t c = 0; c < sizeof accuracy_cases / sizeof *accuracy_cases; c++) {
        const accuracy_case *a = &accuracy_cases[c];
        mf_tile_fn *run = mf_tile_lookup(a->op, MF_F32, MF_F32);
        REQUIRE(run);
        double worst = 0;
        float x[MF_TILE], y[MF_TILE], at = 0;
        for (uint32_t i = 0; i < N; i += MF_TILE) {
            for (uint32_t j = 0; j < MF_TILE; j++)
                x[j] = sweep(i + j, N);
            run(y, (const void *const[]){ x }, MF_TILE);
            for (uint32_t j = 0; j < MF_TILE; j++) {
                double error = ulps(y[j], a->exact((double)x[j]));
                if (error > worst)
                    worst = error, at = x[j];
            }
        }
        if (getenv("MF_SHOW"))
            printf("%s %.3f at %a\n", a->op, worst, (double)at);
        if (!CHECK(worst <= a->bound))
            CHECK_NOTE("%s is %g ulp off at %a", a->op, worst, (double)at);
    }
}

TEST(pow_is_accurate)
{
    static const float special[] = {
        0.0f,        -0.0f,      1.0f,        -1.0f,      2.0f,        -2.0f,      3.0f,       -3.0f,           0.5f,
        -0.5f,       2.5f,       INFINITY,    -INFINITY,  NAN,         0x1p-149f,  -0x1p-149f, 0x1.fffffep127f, 8388609.0f,
        16777216.0f, 8388607.5f, 0.99999994f, 1.0000001f, -8388609.0f, 33554432.0f
    };
    enum { S = sizeof special / sizeof *special };
    mf_tile_fn *run = mf_tile_lookup("pow", MF_F32, MF_F32);
    float x[MF_TILE], y[MF_TILE], z[MF_TILE];
    double worst = 0;
    for (int round = 0; round < 400; round++) {
        for (int i = 0; i < MF_TILE; i++) {
            int k = round * MF_TILE + i;
            bool listed = k < S * S;
            x[i] = listed ? special[k % S] : from_bits((uint32_t)random_bits() & 0x7fffffff);
            y[i] = listed ? special[k / S] : random_float() * (k % 3 ? 30.0f : 1.0f);
            if (!listed && k % 2)
                x[i] = 1.0f + random_float() / 8;
        }
        run(z, (const void *const[]){ x, y }, MF_TILE);
        for (int i = 0; i < MF_TILE; i++) {
            double error = ulps(z[i], pow((double)x[i], (double)y[i]));
            if (error > worst)
                worst = error;
            if (!CHECK(error <= 1.2))
                CHECK_NOTE("pow(%a, %a) = %a", (double)x[i], (double)y[i], (double)z[i]);
        }
    }
    if (getenv("MF_SHOW"))
        printf("pow %.3f\n", worst);
}

TEST(inverse_error_function)
{
    mf_tile_fn *run = mf_tile_lookup("erf_inv", MF_F32, MF_F32), *run64 = mf_tile_lookup("erf_inv", MF_F64, MF_F64);
    float x[MF_TILE], y[MF_TILE];
    double x64[MF_TILE], y64[MF_TILE];
    for (int i = 0; i < MF_TILE; i++)
        x64[i] = x[i] = (float)(i - 256) / 256.0f;
    run(y, (const void *const[]){ x }, MF_TILE);
    run64(y64, (const void *const[]){ x64 }, MF_TILE);
    for (int i = 0; i < MF_TILE; i++) {
        CHECK_NEAR(y[i], y64[i], 1e-6);
        if (i)
            CHECK_NEAR(erf(y64[i]), x64[i], 1e-15);
    }
    CHECK(isinf(y[0]) && y[0] < 0);
}

TEST(signed_zeros_and_special_values)
{
    static const char *const odd[] = { "expm1", "log1p", "tanh", "erf", "sin", "tan", "cbrt", "floor", "ceil", "round", "sqrt", "sign" };
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        float x[3] = { -0.0f, 0.0f, NAN }, y[3];
        mf_tile_lookup(odd[i], MF_F32, MF_F32)(y, (const void *const[]){ x }, 3);
        if (!CHECK(to_bits(y[0]) == 0x80000000u && to_bits(y[1]) == 0 && isnan(y[2])))
            CHECK_NOTE("%s", odd[i]);
    }
}

/* ---- equal bits in every tier, for every entry of the table ---- */

/* A complex number counts as two parts. */
static void to_parts(mf_dtype *dtype, size_t *n)
{
    if (*dtype != MF_C64 && *dtype != MF_C128)
        return;
    *dtype = *dtype == MF_C64 ? MF_F32 : MF_F64;
    *n *= 2;
}

static void fill(mf_dtype dtype, void *out, size_t n)
{
    unsigned char *bytes = out;
    to_parts(&dtype, &n);
    size_t size = size_of(dtype);
    for (size_t i = 0; i < n; i++) {
        uint64_t u = random_bits(), pick = random_bits() % 4;
        float f = random_float();
        double d = (double)f;
        if (dtype == MF_BOOL)
            u &= 1;
        if (pick == 0 && dtype != MF_BOOL)
            u &= 15;
        if (pick && dtype == MF_F32)
            memcpy(&u, &f, 4);
        if (pick && dtype == MF_BF16)
            u = to_bits(f) >> 16;
        if (pick && dtype == MF_F16)
            u = (u & 0x83ff) | 0x3800;
        if (pick && dtype == MF_F64)
            memcpy(&u, &d, 8);
        memcpy(bytes + i * size, &u, size);
    }
}

/* NaN payloads may differ: replaces every NaN by the same one. */
static void same_nans(mf_dtype dtype, void *p, size_t n)
{
    to_parts(&dtype, &n);
    for (size_t i = 0; i < n; i++) {
        if (dtype == MF_F32 && isnan(((float *)p)[i]))
            ((float *)p)[i] = NAN;
        if (dtype == MF_F64 && isnan(((double *)p)[i]))
            ((double *)p)[i] = (double)NAN;
        uint16_t *h = (uint16_t *)p + i;
        if (dtype == MF_F16 && (*h & 0x7fff) > 0x7c00)
            *h = 0x7e00;
        if (dtype == MF_BF16 && (*h & 0x7fff) > 0x7f80)
            *h = 0x7fc0;
    }
}

TEST(tiles_have_equal_bits_in_every_tier)
{
    enum { N = 203 };
    uint64_t a[2 * N], b[2 * N], c[2 * N], out[TIERS][2 * N];
    uint8_t which[N];
    const mf_tier *generic = mf_tier_named("generic");
    for (size_t e = 0; e < generic->tile->count; e++) {
        const mf_tile_entry *entry = &generic->tile->entries[e];
        fill(entry->in, a, N);
        fill(entry->in, b, N);
        fill(entry->in, c, N);
        fill(MF_BOOL, which, N);
        const void *first = strcmp(entry->op, "select_n") ? (const void *)a : which;
        for (int t = 0; t < TIERS; t++) {
            const mf_tier *tier = mf_tier_named(tier_names[t]);
            if (!tier)
                continue;
            memset(out[t], 0, sizeof out[t]);
            tile_of(tier, entry->op, entry->in, entry->out)(out[t], (const void *const[]){ first, b, c }, N);
            same_nans(entry->out, out[t], N);
            if (!CHECK_BYTES(out[t], out[0], N * size_of(entry->out)))
                CHECK_NOTE("%s %d in %s", entry->op, entry->in, tier_names[t]);
        }
    }
}

/* ---- integers and conversions ---- */

static int64_t integer_op(const char *op, mf_dtype dtype, int64_t x, int64_t y)
{
    int64_t out = 0;
    mf_tile_fn *run = mf_tile_lookup(op, dtype, dtype);
    if (!CHECK(run))
        return 0;
    run(&out, (const void *const[]){ &x, &y }, 1);
    return dtype == MF_I32 ? (int32_t)out : dtype == MF_I8 ? (int8_t)out : out;
}

TEST(integers_have_no_traps)
{
    CHECK_EQ_INT(integer_op("div", MF_I32, 5, 0), -1);
    CHECK_EQ_INT(integer_op("rem", MF_I32, 5, 0), 5);
    CHECK_EQ_INT(integer_op("div", MF_I32, INT32_MIN, -1), INT32_MIN);
    CHECK_EQ_INT(integer_op("rem", MF_I32, INT32_MIN, -1), 0);
    CHECK_EQ_INT(integer_op("div", MF_I64, INT64_MIN, -1), INT64_MIN);
    CHECK_EQ_INT(integer_op("div", MF_I8, -128, -1), -128);
    CHECK_EQ_INT(integer_op("div", MF_U32, 5, 0), UINT32_MAX);
    CHECK_EQ_INT(integer_op("rem", MF_I32, -7, 3), -1);
    CHECK_EQ_INT(integer_op("shift_left", MF_I32, 1, 40), 0);
    CHECK_EQ_INT(integer_op("shift_left", MF_I32, 1, 31), INT32_MIN);
    CHECK_EQ_INT(integer_op("shift_left", MF_I32, 1, -1), 0);
    CHECK_EQ_INT(integer_op("shift_right_logical", MF_I32, -1, 28), 15);
    CHECK_EQ_INT(integer_op("shift_right_logical", MF_I8, -1, 4), 15);
    CHECK_EQ_INT(integer_op("shift_right_arithmetic", MF_I32, -16, 2), -4);
    CHECK_EQ_INT(integer_op("shift_right_arithmetic", MF_I32, -16, 99), -1);
    CHECK_EQ_INT(integer_op("abs", MF_I32, INT32_MIN, 0), INT32_MIN);
    CHECK_EQ_INT(integer_op("mul", MF_I32, 65537, 65537), 131073);
    CHECK_EQ_INT(integer_op("pow", MF_I32, -3, 3), -27);
    CHECK_EQ_INT(integer_op("sign", MF_I64, -5, 0), -1);
}

TEST(conversions_saturate)
{
    float x[6] = { 3e10f, -3e10f, NAN, 2.9f, -2.9f, INFINITY };
    int32_t i32[6];
    uint8_t u8[6];
    mf_tile_lookup("convert_element_type", MF_F32, MF_I32)(i32, (const void *const[]){ x }, 6);
    mf_tile_lookup("convert_element_type", MF_F32, MF_U8)(u8, (const void *const[]){ x }, 6);
    CHECK_BYTES(i32, ((int32_t[]){ INT32_MAX, INT32_MIN, 0, 2, -2, INT32_MAX }), sizeof i32);
    CHECK_BYTES(u8, ((uint8_t[]){ 255, 0, 0, 2, 0, 255 }), sizeof u8);
}

/* The definition: the nearest finite f16, ties to even. */
static uint16_t nearest_f16(float x)
{
    double a = fabs((double)x), unit = ldexp(1, -24);
    uint16_t sign = signbit(x) ? 0x8000 : 0;
    if (isnan(x))
        return 0x7e00 | sign;
    int exponent;
    frexp(a, &exponent);
    if (exponent > -14)
        unit = ldexp(1, exponent - 11);
    double rounded = rint(a / unit) * unit;
    if (rounded > 65504)
        return sign | 0x7c00;
    if (rounded < ldexp(1, -14))
        return (uint16_t)(sign | (uint16_t)(rounded / ldexp(1, -24)));
    double mantissa = frexp(rounded, &exponent);
    return (uint16_t)(sign | (uint16_t)((exponent + 14) << 10) | (uint16_t)((mantissa * 2 - 1) * 1024));
}

TEST(half_precision_rounds_to_even)
{
    float x[MF_TILE], back[MF_TILE];
    uint16_t h[MF_TILE];
    for (uint32_t block = 0; block < 65536; block += MF_TILE) { /* every f16 survives a round trip */
        for (uint32_t i = 0; i < MF_TILE; i++)
            h[i] = (uint16_t)(block + i);
        mf_tile_lookup("convert_element_type", MF_F16, MF_F32)(x, (const void *const[]){ h }, MF_TILE);
        for (int i = 0; i < MF_TILE; i++) {
            int e = h[i] >> 10 & 31, m = h[i] & 1023;
            double v = e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
            if (e == 31)
                CHECK(m ? isnan(x[i]) : isinf(x[i]) && !!signbit(x[i]) == h[i] >> 15);
            else
                CHECK(x[i] == (float)(h[i] >> 15 ? -v : v) && !!signbit(x[i]) == (h[i] >> 15));
        }
    }
    for (int round = 0; round < 200; round++) {
        for (int i = 0; i < MF_TILE; i++)
            x[i] = i % 2 ? from_bits((uint32_t)random_bits()) : random_float() * from_bits((uint32_t)(96 + random_bits() % 48) << 23);
        mf_tile_lookup("convert_element_type", MF_F32, MF_F16)(h, (const void *const[]){ x }, MF_TILE);
        for (int i = 0; i < MF_TILE; i++)
            if (!CHECK(isnan(x[i]) ? (h[i] & 0x7fff) == 0x7e00 : h[i] == nearest_f16(x[i])))
                CHECK_NOTE("%a gives %x", (double)x[i], h[i]);
        mf_tile_lookup("convert_element_type", MF_F32, MF_BF16)(h, (const void *const[]){ x }, MF_TILE);
        mf_tile_lookup("convert_element_type", MF_BF16, MF_F32)(back, (const void *const[]){ h }, MF_TILE);
        for (int i = 0; i < MF_TILE; i++) {
            if (isnan(x[i]) || fabsf(x[i]) > 3e38f)
                continue;
            float low = from_bits(to_bits(x[i]) & 0xffff0000), high = from_bits((to_bits(x[i]) & 0xffff0000) + 0x10000);
            double to_low = fabs((double)x[i] - low), to_high = fabs((double)high - x[i]);
            bool up = to_high < to_low || (to_high == to_low && to_bits(low) >> 16 & 1);
            CHECK(to_bits(back[i]) == to_bits(up ? high : low));
        }
    }
}

/* ---- pooling ---- */

static void pool_case(mf_pool *pool, int round)
{
    *pool = (mf_pool){ .spatial = 1 + round % 3, .batch = 2, .channels = round % 4 == 0 ? 70 : 1 + round % 33 };
    for (int i = 0; i < pool->spatial; i++) {
        pool->in[i] = 4 + (int64_t)(random_bits() % 6);
        pool->window[i] = round % 5 == 0 ? 2 : 1 + (int64_t)(random_bits() % 3);
        pool->stride[i] = round % 5 == 0 ? 2 : 1 + (int64_t)(random_bits() % 3);
        pool->dilation[i] = round % 5 == 0 ? 1 : 1 + (int64_t)(random_bits() % 2);
        pool->pad_low[i] = round % 5 == 0 ? 0 : (int64_t)(random_bits() % 2);
        pool->pad_high[i] = round % 5 == 0 ? 0 : (int64_t)(random_bits() % 2);
    }
}

/* Straightforward loops over the f32 windows. */
static void plain_pool(const mf_pool_plan *p, const float *x, const float *dy, float *max, float *sum, float *dmax, float *dsum)
{
    int64_t C = p->channels, image = p->in[0] * p->in[1] * p->in[2] * C, o = 0;
    memset(dmax, 0, (size_t)(image * p->batch) * 4);
    memset(dsum, 0, (size_t)(image * p->batch) * 4);
    for (int64_t n = 0; n < p->batch; n++)
        for (int64_t d = 0; d < p->out[0]; d++)
            for (int64_t h = 0; h < p->out[1]; h++)
                for (int64_t w = 0; w < p->out[2]; w++)
                    for (int64_t c = 0; c < C; c++, o++) {
                        float best = 0, most = -INFINITY, total = 0;
                        int64_t at = -1, first = 1;
                        for (int64_t k = 0; k < p->window[0] * p->window[1] * p->window[2]; k++) {
                            int64_t i = d * p->stride[0] + k / (p->window[1] * p->window[2]) * p->dilation[0] - p->low[0];
                            int64_t j = h * p->stride[1] + k / p->window[2] % p->window[1] * p->dilation[1] - p->low[1];
                            int64_t l = w * p->stride[2] + k % p->window[2] * p->dilation[2] - p->low[2];
                            bool in = i >= 0 && i < p->in[0] && j >= 0 && j < p->in[1] && l >= 0 && l < p->in[2];
                            int64_t index = n * image + ((i * p->in[1] + j) * p->in[2] + l) * C + c;
                            float v = in ? x[index] : -INFINITY;
                            if (first || !(best >= v))
                                best = v, at = in ? index : -1;
                            first = 0;
                            if (v > most || isnan(v))
                                most = v;
                            if (in)
                                total += v, dsum[index] += dy[o];
                        }
                        if (at >= 0)
                            dmax[at] += dy[o];
                        max[o] = most;
                        sum[o] = total;
                    }
}

TEST(pooling_equals_plain_loops)
{
    enum { MOST = 2 * 10 * 10 * 10 * 70 };
    static float x[MOST], dy[MOST], got[MOST], y[MOST], sum[MOST], dmax[MOST], dsum[MOST];
    static uint8_t places[MOST];
    for (int round = 0; round < 60; round++) {
        mf_pool pool;
        mf_pool_plan plan;
        pool_case(&pool, round);
        mf_pool_make_plan(&plan, &pool);
        size_t inputs = (size_t)(plan.batch * plan.channels * plan.in[0] * plan.in[1] * plan.in[2]);
        size_t outputs = (size_t)(plan.batch * plan.channels * plan.out[0] * plan.out[1] * plan.out[2]);
        for (size_t i = 0; i < inputs; i++)
            x[i] = (float)(random_bits() % 5) - (random_bits() % 50 ? 2.0f : NAN);
        for (size_t i = 0; i < outputs; i++)
            dy[i] = random_float();
        plain_pool(&plan, x, dy, y, sum, dmax, dsum);
        for (int t = 0; t < TIERS; t++) {
            const mf_tier *tier = mf_tier_named(tier_names[t]);
            if (!tier)
                continue;
            CHECK(tier->dense->pool_max(MF_F32, &plan, x, got, NULL));
            same_nans(MF_F32, got, outputs);
            same_nans(MF_F32, y, outputs);
            CHECK_BYTES(got, y, outputs * 4);
            CHECK(tier->dense->pool_sum(MF_F32, &plan, x, got));
            same_nans(MF_F32, got, outputs);
            same_nans(MF_F32, sum, outputs);
            CHECK_BYTES(got, sum, outputs * 4);
            CHECK(tier->dense->pool_max_grad(MF_F32, &plan, x, NULL, dy, got));
            CHECK_BYTES(got, dmax, inputs * 4);
            CHECK(tier->dense->pool_max(MF_F32, &plan, x, got, places)); /* the gradient needs nothing else of x */
            same_nans(MF_F32, got, outputs);
            CHECK_BYTES(got, y, outputs * 4);
            CHECK(tier->dense->pool_max_grad(MF_F32, &plan, NULL, places, dy, got));
            CHECK_BYTES(got, dmax, inputs * 4);
            mf_pool_plan back = plan; /* the gradient's windows, dilated by the strides */
            for (int i = 0; i < 3; i++) {
                back.in[i] = plan.out[i];
                back.out[i] = plan.in[i];
                back.base[i] = plan.stride[i];
                back.stride[i] = 1;
                back.low[i] = (plan.window[i] - 1) * plan.dilation[i] - plan.low[i];
            }
            CHECK(tier->dense->pool_sum(MF_F32, &back, dy, got));
            if (!CHECK_BYTES(got, dsum, inputs * 4))
                CHECK_NOTE("round %d", round);
        }
    }
}

TEST(pooling_of_other_floats_agrees)
{
    mf_pool pool = {
        .spatial = 2, .batch = 1, .channels = 17, .in = { 7, 6 }, .window = { 3, 2 }, .stride = { 2, 2 }, .pad_low = { 1, 0 }
    };
    enum { IN = 7 * 6 * 17, OUT = 3 * 3 * 17 };
    float x[IN], y[OUT], dy[OUT], dx[IN];
    double x64[IN], y64[OUT], dy64[OUT], dx64[IN];
    uint16_t h[IN], hy[OUT], hdy[OUT], hdx[IN];
    CHECK_EQ_INT(mf_pool_out(&pool, 0) * mf_pool_out(&pool, 1), 9);
    for (int i = 0; i < IN; i++)
        x64[i] = x[i] = (float)(random_bits() % 64), h[i] = (uint16_t)(to_bits(x[i]) >> 16);
    for (int i = 0; i < OUT; i++)
        dy64[i] = dy[i] = (float)(random_bits() % 16), hdy[i] = (uint16_t)(to_bits(dy[i]) >> 16);
    CHECK(mf_pool_max(MF_F32, &pool, x, y, NULL) && mf_pool_max(MF_F64, &pool, x64, y64, NULL) && mf_pool_max(MF_BF16, &pool, h, hy, NULL));
    for (int i = 0; i < OUT; i++)
        CHECK(y64[i] == (double)y[i] && from_bits((uint32_t)hy[i] << 16) == y[i]);
    CHECK(mf_pool_max_grad(MF_F32, &pool, x, NULL, dy, dx) && mf_pool_max_grad(MF_F64, &pool, x64, NULL, dy64, dx64) &&
          mf_pool_max_grad(MF_BF16, &pool, h, NULL, hdy, hdx));
    for (int i = 0; i < IN; i++)
        CHECK(dx64[i] == (double)dx[i] && from_bits((uint32_t)hdx[i] << 16) == dx[i]);
    uint8_t at[OUT], at64[OUT], hat[OUT];
    CHECK(mf_pool_max(MF_F32, &pool, x, y, at) && mf_pool_max(MF_F64, &pool, x64, y64, at64) && mf_pool_max(MF_BF16, &pool, h, hy, hat));
    CHECK_BYTES(at64, at, sizeof at);
    CHECK_BYTES(hat, at, sizeof at);
    double again[IN];
    CHECK(mf_pool_max_grad(MF_F64, &pool, NULL, at64, dy64, again));
    CHECK_BYTES(again, dx64, sizeof again);
    CHECK(!mf_pool_max(MF_I32, &pool, x, y, NULL));
}

/* ---- products ---- */

static float plain_lanes(const float *a, int64_t as, const float *b, int64_t bs, int64_t k)
{
    float lane[16] = { 0 };
    for (int64_t i = 0; i < k; i++)
        lane[i % 16] = fmaf(a[i * as], b[i * bs], lane[i % 16]);
    for (int half = 8; half; half /= 2)
        for (int l = 0; l < half; l++)
            lane[l] += lane[l + half];
    return lane[0];
}

static float plain_chains(const float *a, int64_t as, const float *b, int64_t bs, int64_t k)
{
    float sum = 0;
    for (int64_t from = 0; from < k; from += MF_GEMM_DEPTH) {
        float chain = 0;
        for (int64_t i = from; i < k && i < from + MF_GEMM_DEPTH; i++)
            chain = fmaf(a[i * as], b[i * bs], chain);
        sum = from ? sum + chain : chain;
    }
    return sum;
}

/* The same product computed in pieces: columns packed in reverse order, rows in pieces of an odd size. */
static bool pieces_agree(const mf_tier *tier, const mf_gemm *g, const float *a, const float *b, const double *a64, const double *b64,
                         const float *want, const double *want64)
{
    size_t packed = (size_t)mf_gemm_packed(g), count = (size_t)(g->m * g->n);
    float *p = aligned_alloc(64, packed * 4), *c = malloc(count * 4);
    double *p64 = aligned_alloc(64, packed * 8), *c64 = malloc(count * 8);
    memset(p, 255, packed * 4);
    memset(p64, 255, packed * 8);
    memset(c, 255, count * 4);
    memset(c64, 255, count * 8);
    for (int64_t from = (g->n - 1) / MF_GEMM_COLUMNS * MF_GEMM_COLUMNS; from >= 0; from -= MF_GEMM_COLUMNS) {
        int64_t to = from + MF_GEMM_COLUMNS < g->n ? from + MF_GEMM_COLUMNS : g->n;
        tier->dense->gemm_pack_f32(g, b, p, from, to);
        tier->dense->gemm_pack_f64(g, b64, p64, from, to);
    }
    for (int64_t from = 0, to; from < g->m; from = to) {
        to = from + 13 < g->m ? from + 13 : g->m;
        tier->dense->gemm_rows_f32(g, a, p, c, from, to);
        tier->dense->gemm_rows_f64(g, a64, p64, c64, from, to);
    }
    bool same = !memcmp(c, want, count * 4) && !memcmp(c64, want64, count * 8);
    free(p);
    free(c);
    free(p64);
    free(c64);
    return same;
}

TEST(products_keep_their_order)
{
    static const int64_t sizes[] = { 1, 2, 3, 7, 16, 17, 33, 64, 70, 300, 512, 800 };
    static float a[800 * 70], b[800 * 70], c[70 * 70];
    static double a64[800 * 70], b64[800 * 70], c64[70 * 70];
    for (size_t i = 0; i < sizeof a / 4; i++)
        a64[i] = a[i] = random_float(), b64[i] = b[i] = random_float();
    for (int round = 0; round < 200; round++) {
        int64_t m = sizes[random_bits() % 9], n = sizes[random_bits() % 9], k = sizes[random_bits() % 12];
        bool ta = random_bits() & 1, tb = random_bits() & 1;
        mf_gemm g = { m, n, k, { ta ? 1 : k, ta ? m : 1 }, { tb ? 1 : n, tb ? k : 1 }, { n, 1 } };
        for (int t = 0; t < TIERS; t++) {
            const mf_tier *tier = mf_tier_named(tier_names[t]);
            if (!tier)
                continue;
            memset(c, 255, sizeof c);
            tier->dense->gemm_f32(&g, a, b, c);
            tier->dense->gemm_f64(&g, a64, b64, c64);
            bool same = true, near = true;
            for (int64_t i = 0; i < m; i++)
                for (int64_t j = 0; j < n; j++) {
                    const float *row = a + i * g.a[0], *column = b + j * g.b[1];
                    float want = m == 1 || n == 1 ? plain_lanes(row, g.a[1], column, g.b[0], k)
                                                  : plain_chains(row, g.a[1], column, g.b[0], k);
                    same = same && to_bits(want) == to_bits(c[i * n + j]);
                    near = near && fabs(c64[i * n + j] - (double)want) < 1e-3;
                }
            if (!CHECK(same && near) || (m > 1 && n > 1 && !CHECK(pieces_agree(tier, &g, a, b, a64, b64, c, c64))))
                CHECK_NOTE("m %d n %d k %d %s", (int)m, (int)n, (int)k, tier_names[t]);
        }
    }
}

/* ---- reductions ---- */

static float plain_chunk(const float *p, size_t n, size_t stride)
{
    float lane[16] = { 0 };
    for (size_t i = 0; i < n; i++)
        lane[i % 16] += p[i * stride];
    for (int half = 8; half; half /= 2)
        for (int l = 0; l < half; l++)
            lane[l] += lane[l + half];
    return lane[0];
}

static float plain_sum(const float *p, size_t n, size_t stride)
{
    if (n <= 4096)
        return plain_chunk(p, n, stride);
    size_t half = 4096;
    while (half * 2 < n)
        half *= 2;
    float left = plain_sum(p, half, stride);
    return left + plain_sum(p + half * stride, n - half, stride);
}

TEST(reductions_keep_their_order)
{
    static float x[5 * 30000], out[80];
    static const size_t lengths[] = { 0, 1, 5, 16, 100, 4096, 4097, 12288, 12289, 20480, 30000 };
    for (size_t i = 0; i < sizeof x / 4; i++)
        x[i] = random_float();
    for (int t = 0; t < TIERS; t++) {
        const mf_tier *tier = mf_tier_named(tier_names[t]);
        if (!tier)
            continue;
        for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++) {
            size_t n = lengths[l];
            CHECK(tier->reduce->rows(MF_REDUCE_SUM, MF_F32, x, out, 5, n, 30000, false));
            for (size_t r = 0; r < 5; r++)
                CHECK_EQ_UINT(to_bits(out[r]), to_bits(plain_sum(x + r * 30000, n, 1)));
            size_t columns = n > 3000 ? 5 : 45;
            CHECK(tier->reduce->columns(MF_REDUCE_SUM, MF_F32, x, out, n, columns, (ptrdiff_t)columns, false));
            for (size_t c = 0; c < columns; c++)
                if (!CHECK(to_bits(out[c]) == to_bits(plain_sum(x + c, n, columns))))
                    CHECK_NOTE("columns of %d", (int)n);
        }
    }
}

TEST(reductions_of_every_type_agree_in_every_tier)
{
    enum { N = 5000 };
    static uint64_t x[N], row[TIERS][4], columns[TIERS][70];
    for (int d = MF_BOOL; d <= MF_F64; d++)
        for (mf_reducer op = MF_REDUCE_SUM; op <= MF_REDUCE_MIN; op++) {
            fill((mf_dtype)d, x, N);
            size_t size = size_of((mf_dtype)d);
            for (int t = 0; t < TIERS; t++) {
                const mf_tier *tier = mf_tier_named(tier_names[t]);
                if (!tier)
                    continue;
                bool known = tier->reduce->rows(op, (mf_dtype)d, x, row[t], 1, N, N, false);
                CHECK(known == (d != MF_BOOL || op != MF_REDUCE_SUM));
                tier->reduce->columns(op, (mf_dtype)d, x, columns[t], N / 70, 70, 70, false);
                same_nans((mf_dtype)d, row[t], 1);
                same_nans((mf_dtype)d, columns[t], 70);
                CHECK_BYTES(row[t], row[0], size);
                CHECK_BYTES(columns[t], columns[0], 70 * size);
            }
        }
}

TEST(all_reduces_of_every_type_agree_in_every_tier)
{
    enum { N = 617, MOST = 8 };
    static _Alignas(64) uint64_t x[MOST * N], first[N], out[N + 1];
    for (int d = MF_BOOL; d <= MF_F64; d++)
        for (mf_reducer op = d == MF_BOOL ? MF_REDUCE_PROD : MF_REDUCE_SUM; op <= MF_REDUCE_MIN; op++) {
            fill((mf_dtype)d, x, MOST * N);
            size_t size = size_of((mf_dtype)d);
            const void *in[MOST];
            for (size_t i = 0; i < MOST; i++)
                in[i] = (const char *)x + i * N * size;
            for (size_t inputs = 1; inputs <= MOST; inputs++)
                for (int way = 0; way < 4 * TIERS; way++) { /* tier, non-temporal stores or not, aligned or not */
                    const mf_tier *tier = mf_tier_named(tier_names[way / 4]);
                    char *to = way ? (char *)out + (way & 1) * size : (char *)first;
                    if (!tier)
                        continue;
                    CHECK(tier->reduce->all(op, (mf_dtype)d, in, inputs, to, N, way & 2));
                    same_nans((mf_dtype)d, to, N);
                    if (!CHECK_BYTES(to, first, N * size))
                        CHECK_NOTE("dtype %d, op %d, %d inputs, way %d", d, op, (int)inputs, way);
                }
        }
}

/* ---- cumulative extremes */

static bool is_before(uint32_t a, uint32_t b, bool greatest) /* -0 is less than 0 */
{
    int32_t x = (int32_t)a < 0 ? (int32_t)(a ^ 0x7fffffff) : (int32_t)a, y = (int32_t)b < 0 ? (int32_t)(b ^ 0x7fffffff) : (int32_t)b;
    return greatest ? x > y : x < y;
}

static bool is_nan_of(uint32_t a) { return (a & 0x7fffffff) > 0x7f800000; }

/* A straightforward loop: the first NaN stays. */
static void run_plainly(const uint32_t *x, uint32_t *o, int n, bool greatest)
{
    for (int i = 0; i < n; i++)
        o[i] = !i || (!is_nan_of(o[i - 1]) && (is_nan_of(x[i]) || is_before(x[i], o[i - 1], greatest))) ? x[i] : o[i - 1];
}

TEST(running_extremes_of_rows)
{
    enum { ROWS = 11, MOST = 1100 };
    static const int lengths[] = { 1, 5, 16, 31, 32, 33, 64, 100, 255, 256, 257, 300, 520, MOST };
    static const uint32_t special[] = { 0, 0x80000000, 0x7f800000, 0xff800000, 0x7fc00001, 0xffc00002, 0x7f800003, 1, 0x80000001 };
    static uint32_t x[ROWS * MOST], want[ROWS * MOST], got[ROWS * MOST];
    for (int t = 0; t < TIERS; t++) {
        const mf_tier *tier = mf_tier_named(tier_names[t]);
        uint32_t state = 1;
        for (size_t l = 0; tier && l < sizeof lengths / sizeof *lengths; l++)
            for (int kind = 0; kind < 8; kind++) { /* numbers; rising; with some NaNs; special values only; each forward and reversed */
                int n = lengths[l];
                bool greatest = kind & 1;
                for (int i = 0; i < ROWS * n; i++) {
                    state = state * 1664525 + 1013904223;
                    uint32_t bits = state >> 7;
                    float number = kind / 2 == 1 ? (float)i * (greatest ? 1.0f : -1.0f) : (float)(bits % 20001) - 10000;
                    memcpy(&x[i], &number, sizeof number);
                    if (kind / 2 == 3 || (kind / 2 == 2 && bits % 700 == 0))
                        x[i] = special[(bits >> 10) % (sizeof special / sizeof *special)];
                }
                for (int r = 0; r < ROWS; r++)
                    run_plainly(x + r * n, want + r * n, n, greatest);
                tier->line->of[MF_F32].run_lines(greatest ? MF_REDUCE_MAX : MF_REDUCE_MIN, x, got, ROWS, n, n, 1);
                if (!CHECK(memcmp(got, want, (size_t)(ROWS * n) * sizeof *got) == 0))
                    CHECK_NOTE("%s, rows of %d, kind %d", tier_names[t], n, kind);
            }
    }
}

/* Windows are accumulated row by row, wherever there are zeros of both signs and NaNs. */
TEST(extremes_of_windows)
{
    enum { MOST = 100, ROWS = 9 };
    static const int lengths[] = { 1, 7, 16, 33, 64, MOST };
    static const uint32_t special[] = { 0, 0x80000000, 0x3f800000, 0xbf800000, 0, 0x80000000, 0x7fc00001, 0xffc00002 };
    static uint32_t x[ROWS * MOST], want[2][MOST], got[MOST];
    uint32_t state = 3;
    for (int round = 0; round < 3 * 2 * ROWS * 6; round++) {
        int kind = round % 3, rows = round / 6 % ROWS + 1, n = lengths[round / 6 / ROWS % 6]; /* numbers; zeros of both signs; with NaNs */
        bool greatest = round / 3 % 2;
        int64_t offsets[ROWS];
        for (int i = 0; i < ROWS * MOST; i++) {
            state = state * 1664525 + 1013904223;
            float number = (float)(state >> 20) - 2000;
            memcpy(&x[i], &number, sizeof number);
            if (kind && (state >> 12) % 3 == 0)
                x[i] = special[(state >> 14) % (kind == 1 ? 6 : 8)];
        }
        for (int r = 0; r < rows; r++)
            offsets[r] = (ROWS - 1 - r) * MOST;
        memcpy(want[0], x + 5, sizeof want[0]);
        for (int r = 0; r < rows; r++)
            for (int i = 0; i < n; i++) {
                uint32_t pair[] = { want[0][i], x[offsets[r] + i] };
                run_plainly(pair, want[1], 2, greatest);
                want[0][i] = want[1][1];
            }
        for (int t = 0; t < TIERS; t++) {
            const mf_tier *tier = mf_tier_named(tier_names[t]);
            memcpy(got, x + 5, sizeof got);
            if (tier)
                tier->line->of[MF_F32].window_join(greatest ? MF_REDUCE_MAX : MF_REDUCE_MIN, got, x, offsets, rows, n);
            if (tier && !CHECK(memcmp(got, want[0], sizeof got) == 0))
                CHECK_NOTE("%s, %d rows of %d, kind %d", tier_names[t], rows, n, kind);
        }
    }
}

TEST(integer_reductions_and_identities)
{
    int32_t x[5] = { 3, -7, INT32_MAX, 5, 1 }, out;
    CHECK(mf_reduce_rows(MF_REDUCE_MAX, MF_I32, x, &out, 1, 5, 5, false) && out == INT32_MAX);
    CHECK(mf_reduce_rows(MF_REDUCE_MIN, MF_I32, x, &out, 1, 5, 5, false) && out == -7);
    CHECK(mf_reduce_rows(MF_REDUCE_SUM, MF_I32, x, &out, 1, 5, 5, false) && out == INT32_MIN + 1);
    CHECK(mf_reduce_rows(MF_REDUCE_MIN, MF_I32, x, &out, 1, 0, 5, false) && out == INT32_MAX);
    uint8_t b[3] = { 1, 1, 1 }, all = 7;
    CHECK(mf_reduce_rows(MF_REDUCE_MIN, MF_BOOL, b, &all, 1, 0, 3, false) && all == 1);
    CHECK(mf_reduce_rows(MF_REDUCE_MIN, MF_BOOL, b, &all, 1, 3, 3, false) && all == 1);
    float f[3] = { 1, NAN, 3 }, m;
    CHECK(mf_reduce_rows(MF_REDUCE_MAX, MF_F32, f, &m, 1, 3, 3, false) && isnan(m));
}

static float plain_tree(const float *const *in, size_t inputs, size_t i)
{
    if (inputs == 1)
        return in[0][i];
    size_t half = 1;
    while (half * 2 < inputs)
        half *= 2;
    float left = plain_tree(in, half, i);
    return left + plain_tree(in + half, inputs - half, i);
}

TEST(all_reduce_is_a_balanced_tree)
{
    enum { N = 5003 };
    static float x[17][N];
    static _Alignas(64) float out[N + 1];
    const float *in[17];
    for (int d = 0; d < 17; d++) {
        in[d] = x[d];
        for (int i = 0; i < N; i++)
            x[d][i] = random_float();
    }
    for (size_t inputs = 1; inputs <= 17; inputs++)
        for (int way = 0; way < 4; way++) { /* non-temporal stores or not, aligned or not */
            float *to = out + way % 2;
            CHECK(mf_all_reduce(MF_REDUCE_SUM, MF_F32, (const void *const *)in, inputs, to, N, way / 2));
            bool same = true;
            for (size_t i = 0; i < N; i++)
                same = same && to_bits(to[i]) == to_bits(plain_tree(in, inputs, i));
            if (!CHECK(same))
                CHECK_NOTE("%d inputs, way %d", (int)inputs, way);
        }
    float first = plain_tree(in, 8, N - 1);
    CHECK(mf_all_reduce(MF_REDUCE_SUM, MF_F32, (const void *const *)in, 8, x[0], N, false));
    CHECK_EQ_UINT(to_bits(x[0][N - 1]), to_bits(first));
}
