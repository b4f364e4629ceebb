/* A convolution as a step. conv_describe.c recognises it, conv_step.c decides how it is cut; it runs as images (conv_images.c) or as a
 * sum over images, the gradient of the weights (conv_weights.c). */
#ifndef MF_BACKEND_NATIVE_PRODUCTS_CONV_STEP_H
#define MF_BACKEND_NATIVE_PRODUCTS_CONV_STEP_H

#include "backend/native/kernels/dnnl/dnnl.h"
#include "backend/native/kernels/kernels.h"
#include "backend/native/products/conv_zeros.h"
#include "backend/native/segment_build.h"

enum { MF_CONV_MOST_TASKS = 16 };

typedef struct mf_conv_step {
    mf_native_step step;
    mf_dnnl_conv d;                   /* of a full call */
    mf_dtype from;                    /* the stored dtype; d.dtype is that of the arithmetic */
    int64_t offset[2];                /* of the operands, in elements */
    int64_t counts[3];                /* elements of the operands' memory and of the result */
    int64_t dims[2][MF_DNNL_SPATIAL]; /* of the operands */
    const mf_dnnl_primitive *whole, *rest;
    bool by_tiles; /* `tiles` computes finite images, `whole` and `rest` the others */
    mf_winograd tiles;
    int64_t batch, images, images_a_task, tasks; /* images: per call */
    mf_conv_zeros zeros;
    bool packed;    /* the sum over images is packed until it is complete */
    bool by_images; /* images follow one another in memory, in operand 0 and in the result */
    bool reversed;  /* operand 1 is dense, and is read from a copy that is reversed in all spatial dimensions */
    size_t task_scratch;
} mf_conv_step;

/* Bytes up to the next multiple of 64. */
static inline size_t mf_conv_aligned(int64_t bytes) { return ((size_t)bytes + 63) / 64 * 64; }

static inline bool mf_conv_is_data(const mf_conv_step *s) { return s->d.kind == MF_DNNL_BACKWARD_DATA; }
static inline bool mf_conv_sums(const mf_conv_step *s) { return s->d.kind == MF_DNNL_BACKWARD_WEIGHTS; }

/* Elements from image to image in operand 0 and in the result, for a convolution that gives images. */
static inline int64_t mf_conv_in_image(const mf_conv_step *s) { return mf_conv_is_data(s) ? s->d.y_strides[0] : s->d.x_strides[0]; }
static inline int64_t mf_conv_out_image(const mf_conv_step *s) { return mf_conv_is_data(s) ? s->d.x_strides[0] : s->d.y_strides[0]; }

static inline const mf_conv_step *mf_conv_of(const mf_native_step *step) { return (const mf_conv_step *)(const void *)step; }

/* Describes e on the layouts that its operands have in the memory of roots: sets s->d, its offsets, sizes and zeros. False: not
 * supported, or b->error. */
bool mf_conv_describe(mf_build *b, const mf_eqn *e, mf_conv_step *s, mf_variable **roots);
/* Plans how s runs, after it was cut and its primitives were made: sets s->step. */
void mf_conv_plan_images(mf_conv_step *s);
void mf_conv_plan_weights(mf_conv_step *s);

#endif
