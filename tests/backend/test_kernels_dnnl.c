/* The oneDNN shim, compared with plain loops: every kind of convolution, strided products, packed weights, and one primitive on several
 * threads. Skipped if the library is not installed. */
#include "check.h"

#include "backend/native/kernels/dnnl/dnnl.h"

#include <pthread.h>

static _Thread_local uint64_t random_state = 7;

static float random_float(void)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (float)(random_state >> 48) / 32768.0f - 1.0f;
}

static int64_t pick(int64_t n) { return (int64_t)((random_float() + 1) / 2 * (float)n) % n; }

/* Multiples of 1/32 up to 1: sums of up to 2^14 products are exact in f32, so every order of summation and every machine give the same
 * result. */
static float *filled(int64_t n)
{
    float *p = malloc((size_t)n * sizeof *p + 64);
    for (int64_t i = 0; i < n; i++)
        p[i] = floorf(random_float() * 32) / 32;
    return p;
}

static int64_t or1(int64_t n) { return n ? n : 1; }

static int64_t out_of(const mf_dnnl_conv *c, int i)
{
    return (c->in[i] + c->pad_low[i] + c->pad_high[i] - (c->kernel[i] - 1) * or1(c->dilation[i]) - 1) / or1(c->stride[i]) + 1;
}

/* For each product x[n,h,w,ci] w[kh,kw,ci,co] that contributes to y[n,p,q,co]: adds it to the array that is to be computed. */
static void plain_conv(const mf_dnnl_conv *c, const float *x, const float *w, const float *y, double *out)
{
    int64_t P = out_of(c, 0), Q = out_of(c, 1), groups = or1(c->groups), in = c->in_channels / groups, co = c->out_channels;
    for (int64_t n = 0; n < c->batch; n++)
        for (int64_t p = 0; p < P; p++)
            for (int64_t q = 0; q < Q; q++)
                for (int64_t k = 0; k < c->kernel[0] * c->kernel[1]; k++) {
                    int64_t h = p * or1(c->stride[0]) + k / c->kernel[1] * or1(c->dilation[0]) - c->pad_low[0];
                    int64_t v = q * or1(c->stride[1]) + k % c->kernel[1] * or1(c->dilation[1]) - c->pad_low[1];
                    if (h < 0 || h >= c->in[0] || v < 0 || v >= c->in[1])
                        continue;
                    for (int64_t o = 0; o < co; o++)
                        for (int64_t i = 0; i < in; i++) {
                            int64_t xi = ((n * c->in[0] + h) * c->in[1] + v) * c->in_channels + o / (co / groups) * in + i;
                            int64_t wi = (k * in + i) * co + o, yi = ((n * P + p) * Q + q) * co + o;
                            if (c->kind == MF_DNNL_FORWARD)
                                out[yi] += (double)x[xi] * (double)w[wi];
                            else if (c->kind == MF_DNNL_BACKWARD_DATA)
                                out[xi] += (double)y[yi] * (double)w[wi];
                            else
                                out[wi] += (double)x[xi] * (double)y[yi];
                        }
                }
}

static bool same(const float *got, const double *want, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (got[i] != want[i])
            return false;
    return true;
}

static void check_conv(const mf_dnnl_conv *c)
{
    int64_t xs = c->batch * c->in[0] * c->in[1] * c->in_channels, ys = c->batch * out_of(c, 0) * out_of(c, 1) * c->out_channels;
    int64_t ws = c->kernel[0] * c->kernel[1] * c->in_channels / or1(c->groups) * c->out_channels;
    const mf_dnnl_primitive *p = mf_dnnl_conv_create(c, &(bool){ 0 });
    REQUIRE(p);
    CHECK(mf_dnnl_conv_create(c, &(bool){ 0 }) == p);
    float *x = filled(xs), *w = filled(ws), *y = filled(ys);
    int64_t outs = c->kind == MF_DNNL_FORWARD ? ys : c->kind == MF_DNNL_BACKWARD_DATA ? xs : ws;
    const float *in0 = c->kind == MF_DNNL_BACKWARD_DATA ? y : x, *in1 = c->kind == MF_DNNL_BACKWARD_WEIGHTS ? y : w;
    double *want = calloc((size_t)outs, sizeof *want);
    float *out = filled(outs);
    void *scratch = aligned_alloc(64, mf_dnnl_scratch_bytes(p) + 64);
    plain_conv(c, x, w, y, want);
    CHECK(mf_dnnl_run(p, in0, in1, out, scratch));
    if (!CHECK(same(out, want, outs)))
        CHECK_NOTE("kind %d by %s", c->kind, mf_dnnl_describe(p));
    if (mf_dnnl_packed_bytes(p)) {
        float *again = filled(outs);
        void *packed = aligned_alloc(64, (mf_dnnl_packed_bytes(p) + 63) & ~(size_t)63);
        if (c->kind == MF_DNNL_BACKWARD_WEIGHTS)
            CHECK(mf_dnnl_run_packed(p, in0, in1, packed, scratch) && mf_dnnl_unpack(p, packed, again, scratch));
        else
            CHECK(mf_dnnl_pack(p, in1, packed, scratch) && mf_dnnl_run_packed(p, in0, packed, again, scratch));
        CHECK_BYTES(again, out, (size_t)outs * sizeof *out);
        CHECK(mf_dnnl_same_packing(p, p));
        free(packed);
        free(again);
    }
    free(x), free(w), free(y), free(want), free(out), free(scratch);
}

TEST(convolutions_equal_plain_loops)
{
    if (!mf_dnnl_supports(MF_F32))
        SKIP("oneDNN is not installed");
    for (int round = 0; round < 45; round++) {
        int64_t groups = round % 4 == 3 ? 2 : 1;
        mf_dnnl_conv c = { .kind = (mf_dnnl_conv_kind)(round % 3),
                           .dtype = MF_F32,
                           .spatial = 2,
                           .batch = 1 + pick(3),
                           .groups = groups,
                           .in_channels = groups * (1 + pick(20)),
                           .out_channels = groups * (1 + pick(40)) };
        for (int i = 0; i < 2; i++) {
            c.in[i] = 5 + pick(8);
            c.kernel[i] = 1 + pick(3);
            c.stride[i] = pick(3);
            c.dilation[i] = pick(3);
            c.pad_low[i] = pick(2);
            c.pad_high[i] = pick(2);
        }
        check_conv(&c);
    }
}

/* NCHW and OIHW given by strides. */
TEST(convolution_with_strides)
{
    if (!mf_dnnl_supports(MF_F32))
        SKIP("oneDNN is not installed");
    mf_dnnl_conv c = { .kind = MF_DNNL_FORWARD,
                       .dtype = MF_F32,
                       .spatial = 2,
                       .batch = 2,
                       .in_channels = 3,
                       .out_channels = 4,
                       .in = { 6, 5 },
                       .kernel = { 3, 3 },
                       .pad_low = { 1, 1 },
                       .pad_high = { 1, 1 },
                       .x_strides = { 90, 30, 5, 1 },
                       .w_strides = { 27, 9, 3, 1 },
                       .y_strides = { 120, 30, 5, 1 } };
    const mf_dnnl_primitive *p = mf_dnnl_conv_create(&c, &(bool){ 0 });
    REQUIRE(p);
    float *x = filled(180), *w = filled(108), out[240];
    void *scratch = aligned_alloc(64, (mf_dnnl_scratch_bytes(p) + 127) & ~(size_t)63);
    CHECK(mf_dnnl_run(p, x, w, out, scratch));
    for (int64_t n = 0; n < 2; n++)
        for (int64_t o = 0; o < 4; o++)
            for (int64_t h = 0; h < 6; h++)
                for (int64_t v = 0; v < 5; v++) {
                    double want = 0;
                    for (int64_t i = 0; i < 27; i++) {
                        int64_t y = h + i / 3 % 3 - 1, z = v + i % 3 - 1;
                        if (y >= 0 && y < 6 && z >= 0 && z < 5)
                            want += (double)x[n * 90 + i / 9 * 30 + y * 5 + z] * (double)w[o * 27 + i];
                    }
                    CHECK(out[n * 120 + o * 30 + h * 5 + v] == want);
                }
    free(x), free(w), free(scratch);
}

TEST(products_equal_plain_loops)
{
    if (!mf_dnnl_supports(MF_F32))
        SKIP("oneDNN is not installed");
    for (int round = 0; round < 24; round++) {
        int64_t m = 1 + pick(40), n = 1 + pick(40), k = 1 + pick(60), batch = 1 + pick(3);
        bool ta = round & 1, tb = round & 2, shared = round & 4;
        mf_dnnl_matmul t = { .dtype = MF_F32,
                             .result = MF_F32,
                             .batch_rank = 1,
                             .batch = { batch },
                             .m = m,
                             .n = n,
                             .k = k,
                             .a_strides = { m * k, ta ? 1 : k, ta ? m : 1 },
                             .b_strides = { shared ? 0 : n * k, tb ? 1 : n, tb ? k : 1 } };
        const mf_dnnl_primitive *p = mf_dnnl_matmul_create(&t, &(bool){ 0 });
        if (!CHECK(p))
            continue;
        float *a = filled(batch * m * k), *b = filled(batch * n * k), *c = filled(batch * m * n);
        void *scratch = aligned_alloc(64, (mf_dnnl_scratch_bytes(p) + 127) & ~(size_t)63);
        CHECK(mf_dnnl_run(p, a, b, c, scratch));
        bool good = true;
        for (int64_t i = 0; i < batch * m * n; i++) {
            const float *row = a + i / (m * n) * t.a_strides[0] + i / n % m * t.a_strides[1];
            const float *column = b + i / (m * n) * t.b_strides[0] + i % n * t.b_strides[2];
            double want = 0;
            for (int64_t j = 0; j < k; j++)
                want += (double)row[j * t.a_strides[2]] * (double)column[j * t.b_strides[1]];
            good = good && c[i] == want;
        }
        if (!CHECK(good))
            CHECK_NOTE("%d %d %d of %d by %s", (int)m, (int)n, (int)k, (int)batch, mf_dnnl_describe(p));
        free(a), free(b), free(c), free(scratch);
    }
}

TEST(what_cannot_be_is_refused)
{
    mf_dnnl_conv c = { .kind = MF_DNNL_FORWARD,
                       .dtype = MF_F64,
                       .spatial = 2,
                       .batch = 1,
                       .in_channels = 1,
                       .out_channels = 1,
                       .in = { 4, 4 },
                       .kernel = { 3, 3 } };
    CHECK(!mf_dnnl_conv_create(&c, &(bool){ 0 }));
    c.dtype = MF_F32;
    c.batch = 0;
    CHECK(!mf_dnnl_conv_create(&c, &(bool){ 0 }));
    c.batch = 1;
    c.kernel[0] = 9;
    CHECK(!mf_dnnl_conv_create(&c, &(bool){ 0 }));
    CHECK(!mf_dnnl_supports(MF_I32));
}

typedef struct worker {
    const float *x, *w, *want;
    bool same;
} worker;

static const mf_dnnl_conv shared_conv = { .kind = MF_DNNL_FORWARD,
                                          .dtype = MF_F32,
                                          .spatial = 2,
                                          .batch = 2,
                                          .in_channels = 8,
                                          .out_channels = 16,
                                          .in = { 12, 12 },
                                          .kernel = { 3, 3 },
                                          .pad_low = { 1, 1 },
                                          .pad_high = { 1, 1 } };
enum { SHARED_OUT = 2 * 12 * 12 * 16 };

static void *work(void *at)
{
    worker *t = at;
    const mf_dnnl_primitive *p = mf_dnnl_conv_create(&shared_conv, &(bool){ 0 });
    void *scratch = aligned_alloc(64, (mf_dnnl_scratch_bytes(p) + 127) & ~(size_t)63);
    float *out = filled(SHARED_OUT);
    t->same = true;
    for (int i = 0; i < 50; i++) {
        memset(out, 0, SHARED_OUT * sizeof *out);
        t->same = mf_dnnl_run(p, t->x, t->w, out, scratch) && t->same;
        if (t->want)
            t->same = t->same && !memcmp(out, t->want, SHARED_OUT * sizeof *out);
    }
    if (!t->want)
        t->want = out;
    else
        free(out);
    free(scratch);
    return NULL;
}

TEST(one_primitive_on_many_threads)
{
    if (!mf_dnnl_supports(MF_F32))
        SKIP("oneDNN is not installed");
    float *x = filled(2 * 12 * 12 * 8), *w = filled(3 * 3 * 8 * 16);
    worker first = { x, w, NULL, false }, workers[4];
    work(&first);
    CHECK(first.same);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        workers[i] = (worker){ x, w, first.want, false };
        pthread_create(&threads[i], NULL, work, &workers[i]);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        CHECK(workers[i].same);
    }
    free((void *)(uintptr_t)first.want), free(x), free(w);
}
