/* Batches of matrix products on raw memory, cut into tasks.
 *
 * Invariant: which kernel runs and how the work is cut follows from shapes and the dtype alone; how our own kernels are cut does not
 * affect a result. */
#ifndef MF_BACKEND_NATIVE_PRODUCTS_PRODUCT_H
#define MF_BACKEND_NATIVE_PRODUCTS_PRODUCT_H

#include "backend/native/kernels/dnnl/dnnl.h"
#include "backend/native/kernels/kernels.h"

enum { MF_PRODUCT_BATCH = MF_DNNL_BATCH }; /* the most dimensions of the batch */

typedef struct mf_product { /* the product: set by the user */
    mf_dtype dtype, result; /* of a and b, of c */
    mf_gemm shape;          /* of one product of the batch */
    int batch_rank;
    int64_t batch[MF_PRODUCT_BATCH];
    int64_t a_batch[MF_PRODUCT_BATCH], b_batch[MF_PRODUCT_BATCH], c_batch[MF_PRODUCT_BATCH]; /* strides, in elements */

    /* how it runs: set by mf_product_plan */
    void (*task)(void *context, int64_t index);
    int64_t count, tasks;
    int64_t piece;            /* per task: products, columns of c, columns of b (packed), or part of the dimension that is cut (oneDNN) */
    int64_t packers;          /* packed: tasks that pack b, per product */
    int64_t most, full, tail; /* packed: rows of a full task; full tasks; tasks with fewer and fewer rows */
    int64_t least;
    const mf_dnnl_primitive *whole, *rest; /* oneDNN, else NULL: for a task; for the last one. The planner's caller releases them */
    int64_t each;                          /* oneDNN: tasks per product of the batch, or for the batch as a whole */
    int64_t next[3];                       /* oneDNN: bytes between tasks in a, b and c */
    size_t task_scratch;
    size_t scratch_bytes;
    bool no_memory; /* memory is out, nothing is planned */
} mf_product;

/* False: there is no kernel for these dtypes, or others are better at this size, or memory is out. There always is one for f32 to f32
 * and f64 to f64. */
bool mf_product_plan(mf_product *p);
bool mf_product_is_ours(const mf_product *p); /* runs by our own kernels, and in their order, not by oneDNN */

/* Any thread; other threads help. scratch: p->scratch_bytes, 64-byte aligned. False: out of memory. */
bool mf_product_run(const mf_product *p, const void *a, const void *b, void *c, char *scratch);

#endif
