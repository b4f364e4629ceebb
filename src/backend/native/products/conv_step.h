/* A convolution as a step, for the files that recognise it (conv_describe.c), decide how it is cut (conv_step.c), and run it: as images
 * (conv_images.c) or as a sum over images, the gradient of the weights (conv_weights.c). */
#ifndef MF_BACKEND_NATIVE_PRODUCTS_CONV_STEP_H
#define MF_BACKEND_NATIVE_PRODUCTS_CONV_STEP_H

#include "backend/native/kernels/dnnl/dnnl.h"
#include "backend/native/kernels/kernels.h"
#include "backend/native/products/conv_zeros.h"
#include "backend/native/segment_build.h"

enum { MF_CONV_MOST_TASKS = 16 };

typedef struct mf_conv_step {
    mf_native_step step;
    mf_dnnl_conv d;                   /* of a whole call */
    mf_dtype from;                    /* stored; d.dtype: computed */
    int64_t offset[2];                /* elements, of the operands */
    int64_t counts[3];                /* elements of the operands' memory and of the result */
    int64_t dims[2][MF_DNNL_SPATIAL]; /* of the operands */
    const mf_dnnl_primitive *whole, *rest;
    bool by_tiles; /* `tiles` computes what is finite, `whole` and `rest` what is not */
    mf_winograd tiles;
    int64_t batch, images, images_a_task, tasks; /* images: of a call */
    mf_conv_zeros zeros;
    bool packed;    /* the sum over images is, until it is complete */
    bool by_images; /* images follow each other in memory, in operand 0 and in the result */
    bool turned;    /* operand 1 is dense and is read the other way round in all spatial dimensions, from a copy */
    size_t task_scratch;
} mf_conv_step;

/* Bytes up to the next multiple of 64. */
static inline size_t mf_conv_aligned(int64_t bytes) { return ((size_t)bytes + 63) / 64 * 64; }

static inline bool mf_conv_is_data(const mf_conv_step *s) { return s->d.kind == MF_DNNL_BACKWARD_DATA; }
static inline bool mf_conv_sums(const mf_conv_step *s) { return s->d.kind == MF_DNNL_BACKWARD_WEIGHTS; }

/* Elements from image to image of operand 0 and of the result, of a convolution that gives images. */
static inline int64_t mf_conv_in_image(const mf_conv_step *s) { return mf_conv_is_data(s) ? s->d.y_strides[0] : s->d.x_strides[0]; }
static inline int64_t mf_conv_out_image(const mf_conv_step *s) { return mf_conv_is_data(s) ? s->d.x_strides[0] : s->d.y_strides[0]; }

static inline const mf_conv_step *mf_conv_of(const mf_native_step *step) { return (const mf_conv_step *)(const void *)step; }

/* What e is, on the layouts of its operands as they lie in the memory of roots: fills s->d, its offsets, sizes and zeros. False: not ours, or
 * b->error. */
bool mf_conv_describe(mf_build *b, const mf_eqn *e, mf_conv_step *s, mf_variable **roots);
/* How s runs, once it is cut and its primitives are made: fills s->step. */
void mf_conv_plan_images(mf_conv_step *s);
void mf_conv_plan_weights(mf_conv_step *s);

#endif
