/* 3 by 3 convolutions by Winograd tiles, compared with plain loops: every padding, odd sizes, images and kernels with gaps, forward and
 * reversed, in every tier. With multiples of 1/32 all sums are exact and the results equal; with other numbers the tiers' bits are
 * equal. */
#include "backend/native/kernels/tier.h"
#include "check.h"

#include <math.h>

static const char *const tier_names[] = { "generic", "avx2", "avx512" };
enum { TIERS = 3, CASES = 60, GUARD = 64 };

static uint64_t random_state = 88172645463325252u;

static int64_t pick(int64_t n)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)(random_state >> 33) % n;
}

static void *room(int64_t elements)
{
    float *p = aligned_alloc(64, ((size_t)(elements + GUARD) * sizeof *p + 63) / 64 * 64);
    for (int64_t i = 0; p && i < elements + GUARD; i++)
        p[i] = 77;
    return p;
}

static bool guarded(const float *p, int64_t elements)
{
    for (int64_t i = elements; i < elements + GUARD; i++)
        if (p[i] != 77)
            return false;
    return true;
}

typedef struct conv_case {
    mf_winograd g;
    int64_t images, x_count, y_count, w_count, w_first; /* w_first: the first element of a reversed kernel */
    float *x, *y, *w, *dw;
} conv_case;

/* Strides with or without a gap between columns, rows and images. */
static int64_t lay(int64_t *strides, int64_t images, const int64_t *size, int64_t channels)
{
    strides[2] = channels + 16 * pick(2);
    strides[1] = size[1] * strides[2] + 3 * pick(2);
    strides[0] = size[0] * strides[1] + 5 * pick(2);
    strides[2] = size[1] > 1 ? strides[2] : 0; /* the stride of a single column may be anything */
    return images * strides[0];
}

static conv_case make_case(bool whole)
{
    conv_case c = { .images = 1 + pick(3) };
    mf_winograd *g = &c.g;
    for (int i = 0; i < 2; i++) {
        g->channels[i] = 16 * (1 + pick(3));
        g->in[i] = pick(8) ? 3 + pick(16) : 1;
        g->pad[i] = pick(5) - 1;
        g->out[i] = g->in[i] + g->pad[i] - 2 + pick(4);
        g->out[i] = g->out[i] < 1 ? 1 : g->out[i];
    }
    c.x_count = lay(g->x, c.images, g->in, g->channels[0]);
    c.y_count = lay(g->y, c.images, g->out, g->channels[1]);
    c.w_count = 9 * g->channels[0] * g->channels[1];
    bool turned = pick(2), backwards = pick(2);
    g->w[0] = turned ? 1 : g->channels[1];
    g->w[1] = turned ? g->channels[0] : 1;
    for (int i = 0; i < 2; i++)
        g->w[2 + i] = (backwards ? -1 : 1) * (i ? 1 : 3) * g->channels[0] * g->channels[1];
    c.w_first = backwards ? -2 * (g->w[2] + g->w[3]) : 0;
    float **parts[] = { &c.x, &c.y, &c.w, &c.dw };
    const int64_t counts[] = { c.x_count, c.y_count, c.w_count, c.w_count };
    for (int i = 0; i < 4; i++) {
        *parts[i] = room(counts[i]);
        for (int64_t k = 0; k < counts[i]; k++)
            (*parts[i])[k] = whole ? (float)(pick(65) - 32) / 32 : (float)pick(1 << 20) / (1 << 19) - 1;
    }
    return c;
}

static void free_case(conv_case *c)
{
    free(c->x);
    free(c->y);
    free(c->w);
    free(c->dw);
}

/* Computes y from x and w, or w from x and y, with plain loops, into out; gaps are left unchanged. */
static void plainly(const conv_case *c, bool weights, float *out)
{
    const mf_winograd *g = &c->g;
    int64_t pairs = g->channels[0] * g->channels[1];
    double *sums = calloc((size_t)(weights ? c->w_count : c->y_count), sizeof *sums);
    for (int64_t at = 0; sums && at < c->images * g->out[0] * g->out[1] * 9; at++) {
        int64_t n = at / 9 / g->out[1] / g->out[0], p = at / 9 / g->out[1] % g->out[0], q = at / 9 % g->out[1];
        int64_t row = p + at % 9 / 3 - g->pad[0], column = q + at % 3 - g->pad[1];
        bool inside = row >= 0 && row < g->in[0] && column >= 0 && column < g->in[1];
        const float *x = c->x + n * g->x[0] + row * g->x[1] + column * g->x[2];
        int64_t y = n * g->y[0] + p * g->y[1] + q * g->y[2], w = c->w_first + at % 9 / 3 * g->w[2] + at % 3 * g->w[3];
        for (int64_t i = 0; inside && i < pairs; i++) {
            int64_t in = i / g->channels[1], o = i % g->channels[1], k = w + in * g->w[0] + o * g->w[1];
            if (weights)
                sums[k] += (double)x[in] * (double)c->y[y + o];
            else
                sums[y + o] += (double)x[in] * (double)c->w[k];
        }
    }
    for (int64_t i = 0; sums && weights && i < c->w_count; i++)
        out[i] = (float)sums[i];
    for (int64_t i = 0; sums && !weights && i < c->images * g->out[0] * g->out[1]; i++) {
        int64_t at = i / g->out[1] / g->out[0] * g->y[0] + i / g->out[1] % g->out[0] * g->y[1] + i % g->out[1] * g->y[2];
        for (int64_t o = 0; o < g->channels[1]; o++)
            out[at + o] = (float)sums[at + o];
    }
    free(sums);
}

typedef struct results {
    float *y, *dw;
    bool finite, written_inside;
} results;

static results run_tier(const mf_tier *tier, const conv_case *c)
{
    results r = { room(c->y_count), room(c->w_count), false, false };
    int64_t packed = mf_winograd_packed(&c->g), sizes[2];
    for (int i = 0; i < 2; i++)
        sizes[i] = (int64_t)(mf_winograd_scratch(&c->g, i) / sizeof(float));
    float *p = room(packed), *s = room(sizes[0]), *sums = room(sizes[1]);
    tier->dense->winograd_pack(&c->g, c->w + c->w_first, p);
    r.finite = tier->dense->winograd_images(&c->g, c->images, c->x, p, r.y, s) &&
               tier->dense->winograd_weights(&c->g, c->images, c->x, c->y, r.dw + c->w_first, sums);
    r.written_inside = guarded(p, packed) && guarded(s, sizes[0]) && guarded(sums, sizes[1]) && guarded(r.y, c->y_count) &&
                       guarded(r.dw, c->w_count);
    free(p);
    free(s);
    free(sums);
    return r;
}

static void free_results(results *r)
{
    free(r->y);
    free(r->dw);
}

TEST(tiles_equal_plain_loops)
{
    for (int round = 0; round < CASES; round++) {
        conv_case c = make_case(true);
        float *y = room(c.y_count), *dw = room(c.w_count);
        plainly(&c, false, y);
        plainly(&c, true, dw);
        for (int t = 0; t < TIERS; t++) {
            const mf_tier *tier = mf_tier_named(tier_names[t]);
            if (!tier)
                continue;
            results r = run_tier(tier, &c);
            bool same = true;
            for (int64_t i = 0; i < c.y_count; i++)
                same = same && r.y[i] == y[i];
            for (int64_t i = 0; i < c.w_count; i++)
                same = same && r.dw[i] == dw[i];
            if (!CHECK(same && r.finite && r.written_inside))
                CHECK_NOTE("case %d in %s", round, tier_names[t]);
            free_results(&r);
        }
        free(y);
        free(dw);
        free_case(&c);
    }
}

TEST(tiles_have_equal_bits_in_every_tier)
{
    const mf_tier *plain = mf_tier_named("generic");
    for (int round = 0; round < CASES; round++) {
        conv_case c = make_case(false);
        results want = run_tier(plain, &c);
        for (int t = 1; t < TIERS; t++) {
            const mf_tier *tier = mf_tier_named(tier_names[t]);
            if (!tier)
                continue;
            results r = run_tier(tier, &c);
            CHECK_BYTES(r.y, want.y, (size_t)c.y_count * sizeof(float));
            CHECK_BYTES(r.dw, want.dw, (size_t)c.w_count * sizeof(float));
            free_results(&r);
        }
        free_results(&want);
        free_case(&c);
    }
}

/* A single infinity, NaN or overflowing sum is detected wherever it is. */
TEST(what_is_not_finite_is_said)
{
    static const float bad[] = { INFINITY, -INFINITY, NAN, 3e38f };
    for (int round = 0; round < CASES; round++) {
        conv_case c = make_case(true);
        for (int i = 0; i < 2; i++) {
            c.g.pad[i] = 1;
            c.g.out[i] = c.g.in[i] < c.g.out[i] ? c.g.in[i] : c.g.out[i];
        }
        int64_t place = pick(c.g.out[0]) * c.g.x[1] + pick(c.g.out[1]) * c.g.x[2];
        for (int64_t i = 0; i < c.g.channels[0]; i++)
            c.x[place + i] = bad[round % 4];
        for (int64_t i = 0; i < c.w_count; i++)
            c.w[i] = 1;
        for (int t = 0; t < TIERS; t++) {
            const mf_tier *tier = mf_tier_named(tier_names[t]);
            if (!tier)
                continue;
            results r = run_tier(tier, &c);
            CHECK(!r.finite);
            free_results(&r);
        }
        free_case(&c);
    }
}
