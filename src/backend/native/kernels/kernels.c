/* The public interface of the kernels: finds the tier of this machine once and calls through its table. */
#define _GNU_SOURCE
#include "kernels.h"

#include "base/error.h"
#include "tier.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* ---- tiers ---- */

static const mf_tier generic = { "generic", &mf_tile_generic, &mf_dense_generic, &mf_reduce_generic, &mf_line_generic };
#if defined(__x86_64__)
static const mf_tier avx2 = { "avx2", &mf_tile_avx2, &mf_dense_avx2, &mf_reduce_avx2, &mf_line_avx2 };
static const mf_tier avx512 = { "avx512", &mf_tile_avx512, &mf_dense_avx512, &mf_reduce_avx512, &mf_line_avx512 };
#endif

const mf_tier *mf_tier_named(const char *name)
{
    if (!strcmp(name, "generic"))
        return &generic;
#if defined(__x86_64__)
    __builtin_cpu_init();
    bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
    bool has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    if (!strcmp(name, "avx2"))
        return has_avx2 ? &avx2 : NULL;
    if (!strcmp(name, "avx512"))
        return has_avx512 ? &avx512 : NULL;
#endif
    return NULL;
}

static const char *const names[] = { "avx512", "avx2", "generic" };
enum { TIERS = sizeof names / sizeof *names };

/* The tier that MF_CPU_ISA names or the best one of this machine, whichever is lower. amx and avx512_bf16 cap oneDNN only: our kernels
 * use no bf16 instructions. */
static const mf_tier *choose_tier(void)
{
    static _Atomic bool warned;
    const char *cap = getenv("MF_CPU_ISA");
    size_t best = 0, from = 0;
    while (best < TIERS - 1 && !mf_tier_named(names[best]))
        best++;
    if (!cap || !*cap || !strcmp(cap, "amx") || !strcmp(cap, "avx512_bf16"))
        return mf_tier_named(names[best]);
    while (from < TIERS && strcmp(cap, names[from]) != 0)
        from++;
    if (from == TIERS)
        mf_warn_once(&warned, "MF_CPU_ISA=%s is ignored: it can be amx, avx512_bf16, avx512, avx2 or generic", cap);
    else if (from < best)
        mf_warn_once(&warned, "MF_CPU_ISA=%s: this machine has only %s", cap, names[best]);
    return mf_tier_named(names[from < TIERS && from > best ? from : best]);
}

const mf_tier *mf_tier_current(void)
{
    static _Atomic(const mf_tier *) chosen; /* every thread makes the same choice */
    const mf_tier *tier = atomic_load_explicit(&chosen, memory_order_acquire);
    if (tier)
        return tier;
    tier = choose_tier();
    atomic_store_explicit(&chosen, tier, memory_order_release);
    return tier;
}

const char *mf_kernels_isa(void) { return mf_tier_current()->name; }
bool mf_kernels_avx512(void) { return !strcmp(mf_kernels_isa(), "avx512"); }

mf_tile_fn *mf_tile_lookup(const char *op, mf_dtype in, mf_dtype out)
{
    const mf_tier *tier = mf_tier_current();
    for (size_t i = 0; i < tier->tile->count; i++) {
        const mf_tile_entry *t = &tier->tile->entries[i];
        if (t->in == in && t->out == out && !strcmp(t->op, op))
            return t->run;
    }
    return NULL;
}

/* ---- pooling ---- */

static int64_t or1(int64_t n) { return n ? n : 1; }

int64_t mf_pool_out(const mf_pool *p, int i)
{
    int64_t dilated = p->in[i] ? (p->in[i] - 1) * or1(p->base[i]) + 1 : 0;
    int64_t extent = dilated + p->pad_low[i] + p->pad_high[i] - ((p->window[i] - 1) * or1(p->dilation[i]) + 1);
    return extent < 0 ? 0 : extent / or1(p->stride[i]) + 1;
}

void mf_pool_make_plan(mf_pool_plan *plan, const mf_pool *p)
{
    *plan = (mf_pool_plan){ .batch = p->batch, .channels = p->channels };
    for (int i = 0, from = p->spatial - 3; i < 3; i++, from++) {
        bool given = from >= 0;
        plan->in[i] = given ? p->in[from] : 1;
        plan->out[i] = given ? mf_pool_out(p, from) : 1;
        plan->window[i] = given ? p->window[from] : 1;
        plan->stride[i] = given ? or1(p->stride[from]) : 1;
        plan->dilation[i] = given ? or1(p->dilation[from]) : 1;
        plan->base[i] = given ? or1(p->base[from]) : 1;
        plan->low[i] = given ? p->pad_low[from] : 0;
    }
}

bool mf_pool_max(mf_dtype dtype, const mf_pool *pool, const void *x, void *y, uint8_t *at)
{
    mf_pool_plan plan;
    mf_pool_make_plan(&plan, pool);
    return mf_tier_current()->dense->pool_max(dtype, &plan, x, y, at);
}

bool mf_pool_max_grad(mf_dtype dtype, const mf_pool *pool, const void *x, const uint8_t *at, const void *dy, void *dx)
{
    mf_pool_plan plan;
    mf_pool_make_plan(&plan, pool);
    return mf_tier_current()->dense->pool_max_grad(dtype, &plan, x, at, dy, dx);
}

bool mf_pool_sum(mf_dtype dtype, const mf_pool *pool, const void *x, void *y)
{
    mf_pool_plan plan;
    mf_pool_make_plan(&plan, pool);
    return mf_tier_current()->dense->pool_sum(dtype, &plan, x, y);
}

/* ---- plain forwarding ---- */

void mf_gemm_f32(const mf_gemm *shape, const float *a, const float *b, float *c) { mf_tier_current()->dense->gemm_f32(shape, a, b, c); }

void mf_gemm_f64(const mf_gemm *shape, const double *a, const double *b, double *c) { mf_tier_current()->dense->gemm_f64(shape, a, b, c); }

int64_t mf_gemm_packed(const mf_gemm *g) { return g->k * ((g->n + MF_GEMM_COLUMNS - 1) / MF_GEMM_COLUMNS * MF_GEMM_COLUMNS); }

void mf_gemm_pack(mf_dtype dtype, const mf_gemm *g, const void *b, void *packed, int64_t from, int64_t to)
{
    const mf_dense_kernels *d = mf_tier_current()->dense;
    if (dtype == MF_F64)
        d->gemm_pack_f64(g, b, packed, from, to);
    else
        d->gemm_pack_f32(g, b, packed, from, to);
}

void mf_gemm_rows(mf_dtype dtype, const mf_gemm *g, const void *a, const void *packed, void *c, int64_t from, int64_t to)
{
    const mf_dense_kernels *d = mf_tier_current()->dense;
    if (dtype == MF_F64)
        d->gemm_rows_f64(g, a, packed, c, from, to);
    else
        d->gemm_rows_f32(g, a, packed, c, from, to);
}

bool mf_winograd_is_fast(void) { return mf_tier_current() != &generic; }

int64_t mf_winograd_tiles(const mf_winograd *g) { return (g->out[0] + 1) / 2 * ((g->out[1] + 1) / 2); }

int64_t mf_winograd_packed(const mf_winograd *g) { return 16 * g->channels[0] * g->channels[1]; }

/* The points of a block's operand and products, and the sums of the kernel's points, as winograd_rooms lays them out. */
size_t mf_winograd_scratch(const mf_winograd *g, bool weights)
{
    const int64_t block = mf_winograd_block_tiles(g);
    const int64_t points = 16 * (mf_winograd_point_stride(block, g->channels[0]) + mf_winograd_point_stride(block, g->channels[1]));
    return (size_t)(points + (weights ? mf_winograd_packed(g) : 0)) * sizeof(float);
}

void mf_winograd_pack(const mf_winograd *g, const float *w, float *packed) { mf_tier_current()->dense->winograd_pack(g, w, packed); }

bool mf_winograd_images(const mf_winograd *g, int64_t images, const float *x, const float *packed, float *y, void *scratch)
{
    return mf_tier_current()->dense->winograd_images(g, images, x, packed, y, scratch);
}

bool mf_winograd_weights(const mf_winograd *g, int64_t images, const float *x, const float *dy, float *dw, void *scratch)
{
    return mf_tier_current()->dense->winograd_weights(g, images, x, dy, dw, scratch);
}

bool mf_reduce_rows(mf_reducer op, mf_dtype dtype, const void *in, void *out, size_t rows, size_t n, ptrdiff_t stride, bool wide)
{
    return mf_tier_current()->reduce->rows(op, dtype, in, out, rows, n, stride, wide);
}

bool mf_reduce_columns(mf_reducer op, mf_dtype dtype, const void *in, void *out, size_t n, size_t columns, ptrdiff_t stride, bool wide)
{
    return mf_tier_current()->reduce->columns(op, dtype, in, out, n, columns, stride, wide);
}

void mf_sum_products(const float *a, const float *b, float *out, size_t n, size_t columns)
{
    mf_tier_current()->reduce->sum_products(a, b, out, n, columns);
}

bool mf_all_reduce(mf_reducer op, mf_dtype dtype, const void *const *in, size_t inputs, void *out, size_t n, bool stream)
{
    return mf_tier_current()->reduce->all(op, dtype, in, inputs, out, n, stream);
}

/* ---- lines ---- */

static const mf_line_type *line_of(mf_dtype dtype)
{
    const mf_line_type *l = &mf_tier_current()->line->of[dtype];
    return l->join_run ? l : NULL;
}

bool mf_line_knows(mf_dtype dtype) { return line_of(dtype) != NULL; }

void mf_join_run(mf_reducer how, mf_dtype dtype, void *out, const void *in, int64_t n) { line_of(dtype)->join_run(how, out, in, n); }

void mf_join_each(mf_reducer how, mf_dtype dtype, char *out, const int64_t *to, const char *in, const int64_t *from, int64_t n)
{
    line_of(dtype)->join_each(how, out, to, in, from, n);
}

void mf_running_lines(mf_reducer how, mf_dtype dtype, const void *in, void *out, int64_t lines, int64_t n, int64_t line_stride,
                      int64_t step)
{
    line_of(dtype)->run_lines(how, in, out, lines, n, line_stride, step);
}

void mf_running_columns(mf_reducer how, mf_dtype dtype, const void *in, void *out, int64_t columns, int64_t n, int64_t step)
{
    line_of(dtype)->run_columns(how, in, out, columns, n, step);
}

void mf_arg_lines(int sign, mf_dtype dtype, const void *in, int64_t lines, int64_t n, int64_t *out)
{
    line_of(dtype)->arg_lines(sign, in, lines, n, out);
}

void mf_arg_columns(int sign, mf_dtype dtype, const void *in, int64_t columns, int64_t n, int64_t step, int64_t *out)
{
    line_of(dtype)->arg_columns(sign, in, columns, n, step, out);
}

void mf_window_start(mf_dtype dtype, void *acc, const void *identity, int64_t n) { line_of(dtype)->window_start(acc, identity, n); }

void mf_window_join(mf_reducer how, mf_dtype dtype, void *acc, const void *in, const int64_t *offsets, int64_t count, int64_t n)
{
    line_of(dtype)->window_join(how, acc, in, offsets, count, n);
}

void mf_window_end(mf_dtype dtype, void *out, const void *acc, int64_t n) { line_of(dtype)->window_end(out, acc, n); }

void mf_count_offsets(int64_t first, int64_t step, int64_t n, int64_t *offsets)
{
    mf_tier_current()->line->count_offsets(first, step, n, offsets);
}

void mf_add_indices(const int32_t *index, int64_t stride, int64_t n, int64_t last, int64_t bytes, bool clip, int64_t *offsets)
{
    mf_tier_current()->line->add_indices(index, stride, n, last, bytes, clip, offsets);
}

void mf_take_run(int size, char *out, int64_t out_stride, const char *in, int64_t step, const int32_t *index, int64_t n, int64_t last,
                 int64_t bytes, const char *fill)
{
    mf_tier_current()->line->take_run(size, out, out_stride, in, step, index, n, last, bytes, fill);
}

void mf_threefry_words(const uint32_t *k0, const uint32_t *k1, bool one_key, const uint32_t *x0, const uint32_t *x1, uint32_t *y0,
                       uint32_t *y1, int64_t n)
{
    mf_tier_current()->line->threefry(k0, k1, one_key, x0, x1, y0, y1, n);
}

void mf_integer_dot(bool wide, int64_t m, int64_t n, int64_t k, const void *a, const void *b, void *c)
{
    const mf_line_kernels *l = mf_tier_current()->line;
    (wide ? l->product_64 : l->product_32)(m, n, k, a, b, c);
}
