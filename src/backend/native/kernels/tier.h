/* What one instruction-set tier offers: the same kernels, compiled once per tier from the same .inc files.
 *
 * Invariant: all tiers give the same bits. So elementwise code must not depend on the vector width, a reduction follows the order
 * documented in its file (16 lanes, whatever the hardware's width), and a fused multiply-add is fused in every tier.
 * Private to kernels/ and its test; users include kernels.h. */
#ifndef MF_BACKEND_NATIVE_KERNELS_TIER_H
#define MF_BACKEND_NATIVE_KERNELS_TIER_H

#include "kernels.h"

typedef struct mf_tile_entry {
    const char *op;
    mf_dtype in, out;
    mf_tile_fn *run;
} mf_tile_entry;

/* A pool with defaults filled in, and missing spatial dimensions prepended with size 1. */
typedef struct mf_pool_plan {
    int64_t batch, channels;
    int64_t in[3], out[3], window[3], stride[3], dilation[3], base[3], low[3];
} mf_pool_plan;

typedef struct mf_tile_kernels {
    const mf_tile_entry *entries;
    size_t count;
} mf_tile_kernels;

typedef struct mf_dense_kernels {
    bool (*pool_max)(mf_dtype, const mf_pool_plan *, const void *x, void *y, uint8_t *at);
    bool (*pool_max_grad)(mf_dtype, const mf_pool_plan *, const void *x, const uint8_t *at, const void *dy, void *dx);
    bool (*pool_sum)(mf_dtype, const mf_pool_plan *, const void *x, void *y);
    void (*gemm_f32)(const mf_gemm *, const float *a, const float *b, float *c);
    void (*gemm_f64)(const mf_gemm *, const double *a, const double *b, double *c);
    void (*gemm_pack_f32)(const mf_gemm *, const float *b, float *packed, int64_t from, int64_t to);
    void (*gemm_pack_f64)(const mf_gemm *, const double *b, double *packed, int64_t from, int64_t to);
    void (*gemm_rows_f32)(const mf_gemm *, const float *a, const float *packed, float *c, int64_t from, int64_t to);
    void (*gemm_rows_f64)(const mf_gemm *, const double *a, const double *packed, double *c, int64_t from, int64_t to);
    void (*winograd_pack)(const mf_winograd *, const float *w, float *packed);
    bool (*winograd_images)(const mf_winograd *, int64_t images, const float *x, const float *packed, float *y, float *scratch);
    bool (*winograd_weights)(const mf_winograd *, int64_t images, const float *x, const float *dy, float *dw, float *scratch);
} mf_dense_kernels;

typedef struct mf_reduce_kernels {
    bool (*rows)(mf_reducer, mf_dtype, const void *in, void *out, size_t rows, size_t n, ptrdiff_t stride, bool wide);
    bool (*columns)(mf_reducer, mf_dtype, const void *in, void *out, size_t n, size_t columns, ptrdiff_t stride, bool wide);
    void (*sum_products)(const float *a, const float *b, float *out, size_t n, size_t columns);
    bool (*all)(mf_reducer, mf_dtype, const void *const *in, size_t inputs, void *out, size_t n, bool stream);
} mf_reduce_kernels;

typedef struct mf_line_type { /* for one dtype; see kernels.h */
    void (*join_run)(mf_reducer how, void *out, const void *in, int64_t n);
    void (*join_each)(mf_reducer how, char *out, const int64_t *to, const char *in, const int64_t *from, int64_t n);
    void (*run_lines)(mf_reducer how, const void *in, void *out, int64_t lines, int64_t n, int64_t line_stride, int64_t step);
    void (*run_columns)(mf_reducer how, const void *in, void *out, int64_t columns, int64_t n, int64_t step);
    void (*arg_lines)(int sign, const void *in, int64_t lines, int64_t n, int64_t *out);
    void (*arg_columns)(int sign, const void *in, int64_t columns, int64_t n, int64_t step, int64_t *out);
    void (*window_start)(void *acc, const void *identity, int64_t n);
    void (*window_join)(mf_reducer how, void *acc, const void *in, const int64_t *offsets, int64_t count, int64_t n);
    void (*window_end)(void *out, const void *acc, int64_t n);
} mf_line_type;

typedef struct mf_line_kernels {
    mf_line_type of[MF_KEY + 1]; /* by dtype; complex numbers and keys have none */
    void (*threefry)(const uint32_t *k0, const uint32_t *k1, bool one_key, const uint32_t *x0, const uint32_t *x1, uint32_t *y0,
                     uint32_t *y1, int64_t n);
    void (*count_offsets)(int64_t first, int64_t step, int64_t n, int64_t *offsets);
    void (*add_indices)(const int32_t *index, int64_t stride, int64_t n, int64_t last, int64_t bytes, bool clip, int64_t *offsets);
    void (*take_run)(int size, char *out, int64_t out_stride, const char *in, int64_t step, const int32_t *index, int64_t n, int64_t last,
                     int64_t bytes, const char *fill);
    void (*product_32)(int64_t m, int64_t n, int64_t k, const void *a, const void *b, void *c);
    void (*product_64)(int64_t m, int64_t n, int64_t k, const void *a, const void *b, void *c);
} mf_line_kernels;

typedef struct mf_tier {
    const char *name;
    const mf_tile_kernels *tile;
    const mf_dense_kernels *dense;
    const mf_reduce_kernels *reduce;
    const mf_line_kernels *line;
} mf_tier;

extern const mf_tile_kernels mf_tile_generic, mf_tile_avx2, mf_tile_avx512;
extern const mf_dense_kernels mf_dense_generic, mf_dense_avx2, mf_dense_avx512;
extern const mf_reduce_kernels mf_reduce_generic, mf_reduce_avx2, mf_reduce_avx512;
extern const mf_line_kernels mf_line_generic, mf_line_avx2, mf_line_avx512;

/* The best tier of this machine, capped by MF_CPU_ISA; decided once. */
const mf_tier *mf_tier_current(void);

/* NULL if this machine cannot run it. */
const mf_tier *mf_tier_named(const char *name);

void mf_pool_make_plan(mf_pool_plan *plan, const mf_pool *pool);

#endif
