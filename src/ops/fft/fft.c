/* fft: Fourier transforms along the last dimension (complex, real to complex, and complex to real) and their plans. Invariant: a plan is
 * made once per dtype and length and kept for good, as long as all kept plans take at most 64 MiB; for a plan that does not fit, each
 * evaluation makes its own. Looking up kept plans takes no lock. */
#include "ops/fft/fft.h"

#include "base/memory/alloc.h"
#include "ops/linalg/matrices.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

enum { GREATEST_RADIX = 31, KEPT_BYTES = 1 << 26, BUCKETS = 256 };

/* ---- plans */

/* cos and sin of 2 pi k / n, 0 <= k < n, reduced to the first eighth of the circle. */
static void turn_by(int64_t k, int64_t n, double *cosine, double *sine)
{
    int64_t eighth = 8 * k / n, part = eighth % 2 ? (eighth + 1) * n - 8 * k : 8 * k - eighth * n; /* in units of 1 / (8 n) */
    double angle = 2 * 3.14159265358979323846 * (double)part / (8 * (double)n), c = cos(angle), s = sin(angle);
    bool steep = eighth % 4 == 1 || eighth % 4 == 2;
    double x = steep ? s : c, y = steep ? c : s;
    *cosine = eighth >= 2 && eighth < 6 ? -x : x;
    *sine = eighth >= 4 ? -y : y;
}

/* e^(-2 pi i k / n) for k = j, or j^2 with `squares`, j < count, in two new arrays. */
static bool new_table(mf_dtype real, int64_t count, int64_t n, bool squares, void **re, void **im)
{
    int size = mf_dtype_size(real);
    *re = mf_alloc((size_t)(count * size) + 1);
    *im = mf_alloc((size_t)(count * size) + 1);
    for (int64_t j = 0, k = 0; *re && *im && j < count; j++) {
        double c, s;
        turn_by(k, n, &c, &s);
        mf_store_f64(real, (char *)*re + j * size, c);
        mf_store_f64(real, (char *)*im + j * size, -s);
        k = squares ? (k + 2 * j + 1) % n : k + 1;
    }
    return *re && *im;
}

static void plan_free(mf_fft_plan *p)
{
    if (!p)
        return;
    plan_free(p->inner);
    void *parts[] = { p->wr, p->wi, p->cr, p->ci, p->sr, p->si };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        mf_free(parts[i]);
    mf_free(p);
}

/* Radices: fours first, then primes in ascending order. False: a prime factor is too large. */
static bool factor(mf_fft_plan *p)
{
    int64_t left = p->n;
    for (int radix = 4; left > 1; radix = radix == 4 ? 2 : radix == 2 ? 3 : radix + 2) {
        if (radix > GREATEST_RADIX)
            return false;
        for (; left % radix == 0; left /= radix)
            p->radices[p->count++] = radix;
    }
    return true;
}

/* The smallest length, at least `least`, without a prime factor above 5. */
static int64_t smooth_length(int64_t least)
{
    int64_t best = INT64_MAX;
    for (int64_t five = 1; five < 2 * least && five <= INT64_MAX / 10; five *= 5)
        for (int64_t n = five; n < 2 * least && n <= INT64_MAX / 6; n *= 3) {
            int64_t m = n;
            while (m < least)
                m *= 2;
            best = m < best ? m : best;
        }
    return best;
}

static mf_fft_plan *plan_new(mf_dtype real, int64_t n);

/* The transform of the conjugate chirp around 0, divided by its length; computed in double. */
static bool new_spectrum(mf_fft_plan *p, mf_fft_plan *inner)
{
    int64_t m = inner->n, n = p->n;
    int size = mf_dtype_size(p->real);
    double *line = mf_calloc((size_t)(2 * m), sizeof *line);
    mf_fft_plan *wide = plan_new(MF_F64, m);
    p->sr = mf_alloc((size_t)(m * size));
    p->si = mf_alloc((size_t)(m * size));
    bool good = line && wide && p->sr && p->si;
    for (int64_t j = 0, k = 0; good && j < n; k = (k + 2 * j + 1) % (2 * n), j++) {
        double *to = line + 2 * j, *mirror = line + 2 * (j ? m - j : 0);
        turn_by(k, 2 * n, &to[0], &to[1]);
        mirror[0] = to[0];
        mirror[1] = to[1];
    }
    good = good && mf_fft_lines_f64(&(mf_fft_lines){ MF_FFT, m, 1, wide, wide }, line, line);
    for (int64_t k = 0; good && k < m; k++) {
        mf_store_f64(p->real, (char *)p->sr + k * size, line[2 * k] / (double)m);
        mf_store_f64(p->real, (char *)p->si + k * size, line[2 * k + 1] / (double)m);
    }
    plan_free(wide);
    mf_free(line);
    return good;
}

static mf_fft_plan *plan_new(mf_dtype real, int64_t n)
{
    mf_fft_plan *p = mf_calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->real = real;
    p->n = n;
    bool good = new_table(real, n, n, false, &p->wr, &p->wi);
    if (good && !factor(p)) {
        p->inner = plan_new(real, smooth_length(2 * n - 1));
        good = p->inner && new_table(real, n, 2 * n, true, &p->cr, &p->ci) && new_spectrum(p, p->inner);
    }
    if (!good) {
        plan_free(p);
        p = NULL;
    }
    return p;
}

static int64_t plan_bytes(const mf_fft_plan *p)
{
    int64_t numbers = 2 * p->n + (p->inner ? 2 * p->n + 2 * p->inner->n : 0);
    return numbers * mf_dtype_size(p->real) + (p->inner ? plan_bytes(p->inner) : 0);
}

static _Atomic(mf_fft_plan *) kept[BUCKETS];
static pthread_mutex_t keeping = PTHREAD_MUTEX_INITIALIZER;
static int64_t kept_bytes;

static mf_fft_plan *plan_find(mf_dtype real, int64_t n)
{
    for (mf_fft_plan *p = atomic_load(&kept[n % BUCKETS]); p; p = p->next)
        if (p->n == n && p->real == real)
            return p;
    return NULL;
}

/* Keeps p if there is room; returns another thread's plan if that was kept first. */
static mf_fft_plan *plan_keep(mf_fft_plan *p)
{
    pthread_mutex_lock(&keeping);
    mf_fft_plan *found = plan_find(p->real, p->n);
    int64_t bytes = plan_bytes(p);
    if (!found && kept_bytes + bytes <= KEPT_BYTES) {
        kept_bytes += bytes;
        p->kept = true;
        p->next = atomic_load(&kept[p->n % BUCKETS]);
        atomic_store(&kept[p->n % BUCKETS], p);
    }
    pthread_mutex_unlock(&keeping);
    if (found)
        plan_free(p);
    return found ? found : p;
}

/* NULL: out of memory. Released by plan_done. */
static mf_fft_plan *plan_get(mf_dtype real, int64_t n)
{
    mf_fft_plan *p = plan_find(real, n);
    if (p)
        return p;
    p = plan_new(real, n);
    return p ? plan_keep(p) : NULL;
}

static void plan_done(mf_fft_plan *p)
{
    if (p && !p->kept)
        plan_free(p);
}

/* ---- the op */

static mf_dtype real_of(mf_dtype d) { return d == MF_C64 ? MF_F32 : d == MF_C128 ? MF_F64 : d; }
static mf_dtype complex_of(mf_dtype d) { return d == MF_F32 ? MF_C64 : d == MF_F64 ? MF_C128 : d; }
static int64_t last_of(const mf_type *t) { return t->dims[t->rank - 1]; }

static mf_error_object *fft_type(mf_type_context *c)
{
    const mf_fft_params *p = c->params;
    const mf_type *t = c->in[0];
    bool to_real = p->kind == MF_IRFFT, of_real = p->kind == MF_RFFT;
    if (p->kind < MF_FFT || p->kind > MF_IRFFT)
        return mf_type_error(c, MF_ERROR_ARGUMENT, "there is no kind %lld", (long long)p->kind);
    if (of_real ? t->dtype != MF_F32 && t->dtype != MF_F64 : !mf_dtype_is_complex(t->dtype))
        return mf_type_error(c, MF_ERROR_DTYPE, "of this kind takes %s, not %s", of_real ? "float32 and float64" : "complex numbers",
                             mf_dtype_name(t->dtype));
    if (t->rank < 1 || p->length < 1 || last_of(t) != (to_real ? p->length / 2 + 1 : p->length))
        return mf_type_error(c, MF_ERROR_SHAPE, "the last dimension does not fit the length %lld", (long long)p->length);
    if (p->length > (int64_t)1 << 40)
        return mf_type_error(c, MF_ERROR_SHAPE, "lengths are 2^40 at most");
    int64_t dims[MF_RANK];
    memcpy(dims, t->dims, sizeof dims);
    dims[t->rank - 1] = of_real ? p->length / 2 + 1 : p->length;
    c->out[0] = mf_type_get(to_real ? real_of(t->dtype) : complex_of(t->dtype), false, t->rank, dims);
    return NULL;
}

static mf_variable *transformed(mf_builder *b, mf_variable *x, mf_fft_kind kind, int64_t length)
{
    return mf_emit(b, &mf_op_fft, &(mf_fft_params){ kind, length }, 1, x);
}

/* How often each number of a real row's half spectrum occurs in the full one. */
static mf_variable *weights(mf_builder *b, const mf_type *t, int64_t length, double scale)
{
    mf_variable *place = e_iota(b, MF_I32, t->rank, t->dims, t->rank - 1), *two = e_full(b, t, 2 * scale), *one = e_full(b, t, scale);
    const mf_type *places = place->type;
    mf_variable *inner = e_select(b, e_compare(b, &mf_op_eq, place, e_full(b, places, 0)), one, two);
    if (length % 2)
        return inner;
    int64_t middle = length / 2;
    return e_select(b, e_compare(b, &mf_op_eq, place, e_full(b, places, (double)middle)), one, inner);
}

/* A complex transform is symmetric, so it is its own transpose. The transpose of the real transform pads with zeros, transforms, and takes
 * the real part. The transpose of the inverse real transform is the conjugate of the real transform, where a number that stands for two
 * counts twice. */
MF_TRANSPOSE_RULE(fft_transpose)
{
    const mf_fft_params *p = e->params;
    mf_variable *t = ct[0];
    int rank = t->type->rank;
    int64_t none[MF_RANK] = { 0 }, high[MF_RANK] = { 0 };
    (void)linear, (void)in;
    if (p->kind == MF_RFFT) {
        high[rank - 1] = p->length - last_of(t->type);
        ct_in[0] = e_unary(b, &mf_op_real, transformed(b, e_pad(b, t, 0, none, high, none), MF_FFT, p->length));
    } else if (p->kind == MF_IRFFT) {
        mf_variable *x = e_unary(b, &mf_op_conj, transformed(b, t, MF_RFFT, p->length));
        ct_in[0] = e_mul(b, x, weights(b, x->type, p->length, 1 / (double)p->length));
    } else {
        ct_in[0] = transformed(b, t, (mf_fft_kind)p->kind, p->length);
    }
}

static mf_cost fft_cost(const mf_eqn *e)
{
    const mf_fft_params *p = e->params;
    mf_cost cost = mf_cost_bytes(e);
    cost.flops = 5 * (double)e->out[0]->type->size * log2((double)p->length + 1);
    return cost;
}

mf_error_object *mf_fft_evaluate(const mf_eqn *e, const void *const *in, void *const *out, mf_fft_run *single, mf_fft_run *wide)
{
    const mf_fft_params *p = e->params;
    const mf_type *t = e->in[0]->type;
    mf_dtype real = real_of(t->dtype);
    bool halves = p->kind >= MF_RFFT && p->length % 2 == 0;
    if (t->size == 0)
        return NULL;
    mf_fft_plan *table = plan_get(real, p->length), *plan = halves ? plan_get(real, p->length / 2) : table;
    mf_fft_lines lines = { (mf_fft_kind)p->kind, p->length, t->size / last_of(t), plan, table };
    bool good = plan && table && (real == MF_F32 ? single : wide)(&lines, in[0], out[0]);
    plan_done(table);
    if (halves)
        plan_done(plan);
    return good ? NULL : mf_error_out_of_memory();
}

MF_EVALUATE_RULE(fft_evaluate) { return mf_fft_evaluate(e, in, out, mf_fft_lines_f32, mf_fft_lines_f64); }

static const mf_param fft_params[] = {
    MF_PARAM(mf_fft_params, kind, MF_PARAM_INT),
    MF_PARAM(mf_fft_params, length, MF_PARAM_INT),
    { 0 },
};
static const char *const fft_samples[] = {
    "[length=1] c64[1]{=3,-2} -> c64[1]{=3,-2}",
    "[length=2] c64[2]{=1,2,3,4} -> c64[2]{=4,6,-2,-2}",
    "[length=4] c64[4]{=1,0,0,0,0,0,0,0} -> c64[4]{=1,0,1,0,1,0,1,0}",
    "[kind=1, length=4] c128[2,4]{=4,0,0,0,0,0,0,0,0,0,4,0,0,0,0,0} -> c128[2,4]{=1,0,1,0,1,0,1,0,1,0,0,1,-1,0,0,-1}",
    "[kind=2, length=4] f32[4]{=1,2,3,4} -> c64[3]{=10,0,-2,2,-2,0}",
    "[kind=3, length=4] c64[3]{=10,0,-2,2,-2,0} -> f32[4]{=1,2,3,4}",
    "[length=6] c64[2,6]",
    "[kind=1, length=12] c64[12]",
    "[length=37] c64[37]",
    "[kind=2, length=9] f32[2,9]",
    "[kind=2, length=10] f32[2,10]",
    "[kind=3, length=9] c64[2,5]",
    "[kind=3, length=10] c64[6]",
    "[kind=3, length=1] c64[2,1]",
    "[kind=2, length=2] f32[3,2]",
    "[length=5] c64[0,5]",
    "[length=60] c64[19,60]", /* full vectors on every machine */
    "[kind=2, length=74] f32[17,74]",
    "[kind=3, length=14] c64[21,8]",
    NULL,
};
MF_HLO_RULE(fft_hlo)
{
    static const char *const kinds[] = { "FFT", "IFFT", "RFFT", "IRFFT" };
    const mf_fft_params *p = e->params;
    if (!e->out[0]->type->size)
        out[0] = h_full(h, e->out[0]->type, 0);
    else
        out[0] = h_op(h, "fft", e->out[0]->type, in, 1, "fft_length = %s, fft_type = #stablehlo<fft_type %s>", h_array(h, &p->length, 1),
                      kinds[p->kind]);
}

const mf_op mf_op_fft = {
    .name = "fft",
    .params = fft_params,
    .params_size = sizeof(mf_fft_params),
    .operands = 1,
    .unit_rank = 1,
    .type_rule = fft_type,
    .jvp = mf_jvp_linear,
    .transpose = fft_transpose,
    .partial_eval = mf_partial_eval_all_or_nothing,
    .dce = mf_dce_whole,
    .batch = mf_batch_leading,
    .variance = mf_variance_join,
    .cost = fft_cost,
    .lower = mf_lower_none,
    .evaluate = fft_evaluate,
    MF_HLO_BY(fft_hlo),
    .samples = fft_samples,
};
