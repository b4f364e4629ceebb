/* Batches of matrix products on raw memory, cut into tasks.
 *
 * Invariant: which kernel runs and how the work is cut follows from shapes and the dtype alone; our own kernels' cuts show in no result. */
#ifndef MF_BACKEND_NATIVE_PRODUCTS_PRODUCT_H
#define MF_BACKEND_NATIVE_PRODUCTS_PRODUCT_H

#include "backend/native/kernels/dnnl/dnnl.h"
#include "backend/native/kernels/kernels.h"

enum { MF_PRODUCT_BATCH = MF_DNNL_BATCH }; /* dimensions of the batch, at most */

typedef struct mf_product { /* what it is: filled in by the user */
    mf_dtype dtype, result; /* of a and b, of c */
    mf_gemm shape;          /* of one product of the batch */
    int batch_rank;
    int64_t batch[MF_PRODUCT_BATCH];
    int64_t a_batch[MF_PRODUCT_BATCH], b_batch[MF_PRODUCT_BATCH], c_batch[MF_PRODUCT_BATCH]; /* strides, in elements */

    /* how it is done: by mf_product_plan */
    void (*task)(void *context, int64_t index);
    int64_t count, tasks;
    int64_t piece;            /* a task's products, columns of c, (packed) columns of b, or (oneDNN) what of the dimension that is cut */
    int64_t packers;          /* packed: tasks that pack one product's b */
    int64_t most, full, tail; /* packed: rows of a full task, full tasks, tasks of ever fewer rows */
    int64_t least;
    const mf_dnnl_primitive *whole, *rest; /* oneDNN, or NULL: of a task; of the last one. Who planned releases them */
    int64_t each;                          /* oneDNN: tasks of one product of the batch, or of all of it as one */
    int64_t next[3];                       /* oneDNN: bytes from task to task in a, b and c */
    size_t task_scratch;
    size_t scratch_bytes;
    bool no_memory; /* nothing is planned */
} mf_product;

/* False: there is no kernel for these dtypes, in this size others are better, or memory is out. f32 to f32 and f64 to f64 there always is. */
bool mf_product_plan(mf_product *p);
bool mf_product_is_ours(const mf_product *p); /* by our own kernels, in whose order; not oneDNN's */

/* Any thread; others help. scratch: p->scratch_bytes, 64-byte aligned. False: out of memory. */
bool mf_product_run(const mf_product *p, const void *a, const void *b, void *c, char *scratch);

#endif
