/* oneDNN behind a shim: convolutions and large matrix products as primitives on raw pointers.
 *
 * A primitive is created once per distinct problem (equal problems share one, so eight devices cost one creation); of the unused ones the
 * most recently requested are kept, up to mf_dnnl_cache_most in all. A primitive may run on several threads at once, each with its own
 * scratch.
 * Every call runs on the calling thread alone; the caller splits the work. The library is loaded at the first creation, never before.
 * NULL from a create function means that this machine or this library cannot do it, and the caller needs another way. oneDNN picks its
 * code by instruction set, so its results may differ in the last bits between kinds of machines. */
#ifndef MF_BACKEND_NATIVE_KERNELS_DNNL_DNNL_H
#define MF_BACKEND_NATIVE_KERNELS_DNNL_DNNL_H

#include <manyfold/base.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MF_DNNL_SPATIAL = 3, MF_DNNL_BATCH = 4 };

typedef enum mf_dnnl_conv_kind {
    MF_DNNL_FORWARD,          /* in0 = x,  in1 = w,  out = y  */
    MF_DNNL_BACKWARD_DATA,    /* in0 = dy, in1 = w,  out = dx */
    MF_DNNL_BACKWARD_WEIGHTS, /* in0 = x,  in1 = dy, out = dw, always f32 */
} mf_dnnl_conv_kind;

/* Always described as the forward convolution, whatever the kind. Spatial dimensions are listed outermost first.
 * Strides count elements and are given as {n, c, spatial...} for x and y, {o, i, spatial...} for w (i runs within a
 * group); all zero means dense N-spatial-C and spatial-I-O, JAX's NHWC and HWIO. */
typedef struct mf_dnnl_conv {
    mf_dnnl_conv_kind kind;
    mf_dtype dtype;                                   /* MF_F32 or MF_BF16 */
    int spatial;                                      /* 1 to 3 */
    int64_t batch, in_channels, out_channels, groups; /* groups 0 means 1 */
    int64_t in[MF_DNNL_SPATIAL], kernel[MF_DNNL_SPATIAL];
    int64_t stride[MF_DNNL_SPATIAL], dilation[MF_DNNL_SPATIAL]; /* 0 means 1; dilation 1 is none */
    int64_t pad_low[MF_DNNL_SPATIAL], pad_high[MF_DNNL_SPATIAL];
    int64_t x_strides[2 + MF_DNNL_SPATIAL], w_strides[2 + MF_DNNL_SPATIAL], y_strides[2 + MF_DNNL_SPATIAL];
} mf_dnnl_conv;

/* c[batch..., m, n] = sum_k a[batch..., m, k] b[batch..., k, n]. Strides count elements, {batch..., row, column}, so a
 * transposed operand swaps two numbers. All zero means dense row-major; a batch stride of 0 in a or b repeats it. */
typedef struct mf_dnnl_matmul {
    mf_dtype dtype, result; /* of a and b, of c: MF_F32 or MF_BF16; sums are f32 */
    int batch_rank;         /* 0 to 4 */
    int64_t batch[MF_DNNL_BATCH], m, n, k;
    int64_t a_strides[MF_DNNL_BATCH + 2], b_strides[MF_DNNL_BATCH + 2], c_strides[MF_DNNL_BATCH + 2];
} mf_dnnl_matmul;

typedef struct mf_dnnl_primitive mf_dnnl_primitive;

/* Whether oneDNN can be loaded and supports this dtype; for bf16, only if that is faster than f32. Loads oneDNN. Any thread. */
bool mf_dnnl_supports(mf_dtype dtype);

/* Any thread. The primitive lives until its user releases it. NULL: unsupported, or an empty dimension; or *no_memory, and a later call
 * may succeed. */
const mf_dnnl_primitive *mf_dnnl_conv_create(const mf_dnnl_conv *conv, bool *no_memory);
const mf_dnnl_primitive *mf_dnnl_matmul_create(const mf_dnnl_matmul *matmul, bool *no_memory);
void mf_dnnl_release(void *primitive);
int mf_dnnl_cache_count(void);
extern _Atomic int mf_dnnl_cache_most; /* for tests */

/* Bytes of scratch that each concurrent call needs, 64-byte aligned; the contents need not be kept between calls. */
size_t mf_dnnl_scratch_bytes(const mf_dnnl_primitive *primitive);

/* Runs on this thread. in0, in1 and out as the kind says (a, b and c of a product). False: out of memory. */
bool mf_dnnl_run(const mf_dnnl_primitive *primitive, const void *in0, const void *in1, void *out, void *scratch);

/* If the library prefers another layout for the weights (in1, or out of MF_DNNL_BACKWARD_WEIGHTS), they are reordered in each run; to do
 * that once, if mf_dnnl_packed_bytes is not 0, pack in1 or unpack out, and run with the packed form. One packed form serves all
 * primitives with the same packing; packed results may be summed element by element. */
size_t mf_dnnl_packed_bytes(const mf_dnnl_primitive *primitive);
bool mf_dnnl_same_packing(const mf_dnnl_primitive *one, const mf_dnnl_primitive *other);
bool mf_dnnl_pack(const mf_dnnl_primitive *primitive, const void *in1, void *packed, void *scratch);
bool mf_dnnl_unpack(const mf_dnnl_primitive *primitive, const void *packed, void *out, void *scratch);
bool mf_dnnl_run_packed(const mf_dnnl_primitive *primitive, const void *in0, const void *in1, void *out, void *scratch);

/* The library's name for the code it chose ("jit:avx512_core", …); for profiles. */
const char *mf_dnnl_describe(const mf_dnnl_primitive *primitive);

#endif
