/* The leaf kernels of the native engine: C functions on raw pointers, independent of the rest of the library.
 *
 * Every function runs on the calling thread, allocates nothing that outlives the call, may be called from any thread, and picks its
 * instruction set at run time. Pointers need only the alignment of their element.
 * Results have the same bits in every instruction set; the order of each reduction is documented at its function.
 * A function that returns bool returns false for a dtype it does not support, and has then written nothing. */
#ifndef MF_BACKEND_NATIVE_KERNELS_KERNELS_H
#define MF_BACKEND_NATIVE_KERNELS_KERNELS_H

#include "ir/reducer.h"

#include <manyfold/base.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The current tier: "generic", "avx2" or "avx512". */
const char *mf_kernels_isa(void);
bool mf_kernels_avx512(void); /* whether the tier is "avx512" */

/* ---- tiles ---- */

enum { MF_TILE = 512 };

/* out[i] = op(in[0][i], in[1][i], ...) for i < n, n at most MF_TILE. out may be equal to an input, but must not overlap one otherwise. */
typedef void mf_tile_fn(void *out, const void *const *in, size_t n);

/* The kernel of an op by its name and the dtypes of its operands and result; NULL if there is none. tile.inc lists them. Names are those
 * of the op rows. "select_n" takes a bool, the value for false and the value for true; "clamp" takes low, x, high; `in` is the dtype of
 * x. `in` and `out` differ for "convert_element_type", comparisons, and the ops that make complex numbers of their parts or the reverse.
 * round is to even. */
mf_tile_fn *mf_tile_lookup(const char *op, mf_dtype in, mf_dtype out);

/* ---- pooling: N-spatial-C, contiguous; to split the work, split the batch ---- */

typedef struct mf_pool {
    int spatial; /* 1 to 3 */
    int64_t batch, channels;
    int64_t in[3], window[3];
    int64_t stride[3], dilation[3]; /* 0 means 1 */
    int64_t base[3];                /* dilation of the operand, for sums only; 0 means 1 */
    int64_t pad_low[3], pad_high[3];
} mf_pool;

int64_t mf_pool_out(const mf_pool *pool, int dimension);

/* f32, f64, f16, bf16. A NaN in the window wins. Unless `at` is NULL, it receives for each element of y the index within its window of
 * the element that mf_pool_max_grad selects; windows have at most MF_POOL_PLACES elements. */
enum { MF_POOL_PLACES = 256 };
bool mf_pool_max(mf_dtype dtype, const mf_pool *pool, const void *x, void *y, uint8_t *at);

/* select_and_scatter_add with `ge`, as in JAX: the gradient goes to the first maximum in row-major window order (padding counts as
 * -inf), windows are summed in row-major order. dx is overwritten. `at` is what mf_pool_max wrote, and then x is not read; or NULL. */
bool mf_pool_max_grad(mf_dtype dtype, const mf_pool *pool, const void *x, const uint8_t *at, const void *dy, void *dx);

/* Sums from 0 in row-major window order; f16 and bf16 are summed in f32 and rounded once. Average pooling divides afterwards. The
 * gradient is such a sum too, over the cotangent dilated by the strides. */
bool mf_pool_sum(mf_dtype dtype, const mf_pool *pool, const void *x, void *y);

/* ---- our own matrix products ---- */

/* c[m,n] = a[m,k] b[k,n]; strides count elements, {row, column}, and are arbitrary.
 * Order: with m = 1 or n = 1, a dot product (16 lanes: lane l takes k = l, l+16, ... with fused multiply-adds from 0, lanes fold in
 * halves: l += l+8, l+4, l+2, l+1). Otherwise k is split into blocks of MF_GEMM_DEPTH; each is one chain of fused multiply-adds in
 * ascending k, from 0, and the blocks' sums are added in order. */
enum { MF_GEMM_DEPTH = 512 };

typedef struct mf_gemm {
    int64_t m, n, k;
    int64_t a[2], b[2], c[2];
} mf_gemm;

void mf_gemm_f32(const mf_gemm *shape, const float *a, const float *b, float *c);
void mf_gemm_f64(const mf_gemm *shape, const double *a, const double *b, double *c);

/* Large products in pieces, for m, n > 1 and k > 0, with the same bits. First all columns of b are packed, in pieces [from, to) that
 * begin at multiples of MF_GEMM_COLUMNS and end at one or at n; packed has mf_gemm_packed(shape) elements, 64-byte aligned. Then rows
 * [from, to) of c are computed; pieces of a multiple of MF_GEMM_ROWS waste nothing. The pieces of each stage may run concurrently, in
 * any order. */
enum { MF_GEMM_COLUMNS = 64, MF_GEMM_ROWS = 12 };
int64_t mf_gemm_packed(const mf_gemm *shape);
void mf_gemm_pack(mf_dtype dtype, const mf_gemm *shape, const void *b, void *packed, int64_t from, int64_t to);
void mf_gemm_rows(mf_dtype dtype, const mf_gemm *shape, const void *a, const void *packed, void *c, int64_t from, int64_t to);

/* ---- convolutions of 3 by 3 in f32, without strides or dilation, by Winograd's F(2x2, 3x3) ---- */

/* Two by two elements of the result need 16 products per pair of channels instead of 36: y = A^T (U * B^T d B) A, where U = G g G^T for the
 * kernel g, and d is the 4 by 4 window of the operand that they read. B^T = {1 0 -1 0, 0 1 1 0, 0 -1 1 0, 0 1 0 -1}, G = {1 0 0, 1/2 1/2
 * 1/2, 1/2 -1/2 1/2, 0 0 1}, A^T = {1 1 1 0, 0 1 -1 -1}: A. Lavin, S. Gray, "Fast Algorithms for Convolutional Neural Networks", CVPR 2016,
 * section 4.1. The only fractions are halves, so small integers stay exact, and rounding errors are about those of a direct sum.
 * Order: each product is a chain of fused multiply-adds over the channels, or over the tiles of a block, and the blocks' sums are added
 * in order. */
typedef struct mf_winograd {
    int64_t channels[2];   /* of the operand and the result: multiples of MF_WINOGRAD_CHANNELS */
    int64_t in[2], out[2]; /* rows and columns */
    int64_t pad[2];        /* rows and columns of zero padding before the operand */
    int64_t x[3], y[3];    /* strides in elements of image, row and column; channels are contiguous */
    int64_t w[4];          /* strides in elements of operand channel, result channel, row and column */
} mf_winograd;
enum { MF_WINOGRAD_CHANNELS = 16 };

/* Tiles that go through all stages together: with 16 channels as many as keep their points in the first-level cache (a sixth faster than
 * 28). */
static inline int64_t mf_winograd_block_tiles(const mf_winograd *g) { return g->channels[0] + g->channels[1] <= 32 ? 14 : 28; }
/* The distance in elements from one point's tiles to the next point's: an odd number of cache lines, so that the 16 points do not map to
 * the same cache set. */
static inline int64_t mf_winograd_point_stride(int64_t tiles, int64_t channels) { return (tiles * channels / 16 | 1) * 16; }
bool mf_winograd_is_fast(void); /* on this machine: if fused multiply-add is an instruction */
int64_t mf_winograd_tiles(const mf_winograd *g);
int64_t mf_winograd_packed(const mf_winograd *g);               /* elements; 64-byte aligned */
size_t mf_winograd_scratch(const mf_winograd *g, bool weights); /* bytes; 64-byte aligned */
void mf_winograd_pack(const mf_winograd *g, const float *w, float *packed);
/* The convolution y, and the gradient dw from the cotangent dy, which is strided like y, as dw is like w. False: something is not finite,
 * and the output must not be used: an infinity or NaN of an operand has reached more results than it should. */
bool mf_winograd_images(const mf_winograd *g, int64_t images, const float *x, const float *packed, float *y, void *scratch);
bool mf_winograd_weights(const mf_winograd *g, int64_t images, const float *x, const float *dy, float *dw, void *scratch);

/* ---- reductions: in max and min the first NaN wins, and 0 is greater than -0 ---- */

/* out[r] = reduce(in[r*stride + 0 .. n-1]), stride in elements; all number types (f16 and bf16 are computed in f32 and rounded once;
 * wide: their results stay f32, to be combined further). Order: see reduce.inc. n = 0 gives the identity. */
bool mf_reduce_rows(mf_reducer op, mf_dtype dtype, const void *in, void *out, size_t rows, size_t n, ptrdiff_t stride, bool wide);

/* out[c] = reduce(in[0 .. n-1][c]), rows `stride` elements apart; the same order as mf_reduce_rows. */
bool mf_reduce_columns(mf_reducer op, mf_dtype dtype, const void *in, void *out, size_t n, size_t columns, ptrdiff_t stride, bool wide);

/* out[c] = the sum of a[r][c] b[r][c], each product rounded, over contiguous rows r < n; b may be a. The order is that of
 * mf_reduce_columns. */
void mf_sum_products(const float *a, const float *b, float *out, size_t n, size_t columns);

/* If n is split at multiples of MF_REDUCE_CHUNK * 2^j, mf_all_reduce combines the pieces' results to the same bits. */

/* out[i] = in[0][i] op in[1][i] op ...: a balanced tree over the inputs in order (neighbours pair up level by level, an odd one moves
 * up; f16 and bf16 in f32, rounded once), in cache-sized pieces. out may be equal to an input. With `stream` the result bypasses the
 * caches: for results above 16 MiB that are not read soon. To split the work, offset the pointers: the result does not depend on the
 * split. */
bool mf_all_reduce(mf_reducer op, mf_dtype dtype, const void *const *in, size_t inputs, void *out, size_t n, bool stream);

/* ---- lines: number types (not complex, not keys) ---- */

bool mf_line_knows(mf_dtype dtype);

/* out[i] = out[i] combined with in[i], rounded each time. In max and min the first NaN wins, and 0 is greater than -0. For bool,
 * addition is or. */
void mf_join_run(mf_reducer how, mf_dtype dtype, void *out, const void *in, int64_t n);
/* One element at a time: the element at out + to[i] bytes with the one at in + from[i] bytes. to[i] = INT64_MIN: skipped. */
void mf_join_each(mf_reducer how, mf_dtype dtype, char *out, const int64_t *to, const char *in, const int64_t *from, int64_t n);

/* Cumulative results: each element is combined with the result before it; f16 and bf16 run in f32. In max and min NaN propagates, and 0
 * is greater than -0. Lines of n > 0 elements with stride `step`, `line_stride` apart. in must not be out. */
void mf_running_lines(mf_reducer how, mf_dtype dtype, const void *in, void *out, int64_t lines, int64_t n, int64_t line_stride,
                      int64_t step);
/* The same for interleaved lines: rows of `columns` elements, `step` elements apart. */
void mf_running_columns(mf_reducer how, mf_dtype dtype, const void *in, void *out, int64_t columns, int64_t n, int64_t step);

/* The index of the greatest (sign > 0) or least element of each line of n > 0 elements: the first of equals; NaN is the extreme. */
void mf_arg_lines(int sign, mf_dtype dtype, const void *in, int64_t lines, int64_t n, int64_t *out);
/* The same for at most MF_ARG_COLUMNS interleaved lines, rows `step` elements apart; n is below 2^31. */
enum { MF_ARG_COLUMNS = 256 };
void mf_arg_columns(int sign, mf_dtype dtype, const void *in, int64_t columns, int64_t n, int64_t step, int64_t *out);

/* Windows over rows: n accumulators, of 8 bytes for 8-byte types and of 4 for others, start from one element, accumulate `count` rows in
 * order (n elements from each offset on; NaN wins), and are rounded into the result. */
void mf_window_start(mf_dtype dtype, void *acc, const void *identity, int64_t n);
void mf_window_join(mf_reducer how, mf_dtype dtype, void *acc, const void *in, const int64_t *offsets, int64_t count, int64_t n);
void mf_window_end(mf_dtype dtype, void *out, const void *acc, int64_t n);

/* Offsets into an operand in bytes: adds to each its index, clipped to [0, last], times `bytes`; the indices are `stride` numbers apart.
 * An offset of MF_OUTSIDE stays so, and without `clip` an offset whose index is out of range becomes MF_OUTSIDE. */
#define MF_OUTSIDE INT64_MIN
void mf_count_offsets(int64_t first, int64_t step, int64_t n, int64_t *offsets); /* first, first + step and so on */
void mf_add_indices(const int32_t *index, int64_t stride, int64_t n, int64_t last, int64_t bytes, bool clip, int64_t *offsets);

/* Gathers elements of 1, 2, 4, 8 or 16 bytes to positions `out_stride` bytes apart in out: the i-th is at in + i * step + index[i] * bytes.
 * An index outside of [0, last] gives the fill, or is clipped if there is none. */
void mf_take_run(int size, char *out, int64_t out_stride, const char *in, int64_t step, const int32_t *index, int64_t n, int64_t last,
                 int64_t bytes, const char *fill);

/* threefry2x32 of n pairs of words; one_key: k0 and k1 point to one word each. */
void mf_threefry_words(const uint32_t *k0, const uint32_t *k1, bool one_key, const uint32_t *x0, const uint32_t *x1, uint32_t *y0,
                       uint32_t *y1, int64_t n);

/* c[m,n] = a[m,k] b[k,n], contiguous matrices of 32-bit or, if wide, 64-bit words; sums wrap. */
void mf_integer_dot(bool wide, int64_t m, int64_t n, int64_t k, const void *a, const void *b, void *c);

/* ---- sorting a line of n < 2^32 elements; workspace: mf_sort_workspace_bytes, aligned to 8 ---- */

size_t mf_sort_workspace_bytes(const mf_dtype *key, int keys, int64_t n);
/* The positions in ascending, stable order of the first key, then the second and so on; NaN is last, -0 and 0 are equal. The result is
 * in the workspace. */
const uint32_t *mf_sort_order(const mf_dtype *key, int keys, const char *const *in, int64_t n, void *workspace);
/* Sorts the values themselves, where that needs no positions; false: it does, and nothing is written. */
bool mf_sort_values(mf_dtype dtype, const char *in, char *out, int64_t n, void *workspace);
/* The k greatest, the first of equals first, and their positions; NaN is the greatest. Room as for one key. */
void mf_top_k_line(mf_dtype dtype, const char *in, int64_t n, int64_t k, char *values, int32_t *positions, void *workspace);

#endif
