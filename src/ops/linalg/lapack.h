/* The LAPACK routines behind linalg.c and factors.c, for one matrix in row-major order.
 * Invariant: the library is loaded at the first call and never before, so programs without linear algebra do not pay for it. */
#ifndef MF_OPS_LINALG_LAPACK_H
#define MF_OPS_LINALG_LAPACK_H

#include "base/error.h"

/* NULL, or a new error that says what is missing. */
mf_error_object *mf_lapack_load(void);

/* After mf_lapack_load; f32, f64, c64, c128. */
/* The lower triangle of the n by n matrix at a becomes its Cholesky factor; the upper one is left alone. False: not positive definite. */
bool mf_lapack_cholesky(mf_dtype dtype, int n, void *a);

typedef struct mf_lapack_solve {
    bool left, lower, transposed, conjugated, unit; /* op(a) x = b or x op(a) = b; conjugated only with transposed */
    int rows, columns;                              /* of b */
} mf_lapack_solve;
void mf_lapack_triangular_solve(mf_dtype dtype, const mf_lapack_solve *how, const void *a, void *b); /* b becomes x */

/* Those below take workspace of their own; they return NULL, or a new error where memory is out or LAPACK cannot count so far. */
mf_error_object *mf_lapack_lu(mf_dtype dtype, int n, const void *a, void *lu, int32_t *pivots); /* row i was exchanged with pivots[i] */
mf_error_object *mf_lapack_qr(mf_dtype dtype, int m, int n, bool full, const void *a, void *q, void *r);
/* Reads the lower triangle. w: real, ascending; v: the vectors are columns. */
mf_error_object *mf_lapack_eigh(mf_dtype dtype, int n, const void *a, void *w, void *v, bool *converged);
typedef enum mf_lapack_vectors { MF_LAPACK_NONE, MF_LAPACK_THIN, MF_LAPACK_FULL } mf_lapack_vectors;
mf_error_object *mf_lapack_svd(mf_dtype dtype, int m, int n, mf_lapack_vectors which, const void *a, void *s, void *u, void *vt,
                               bool *converged); /* s: real, descending; u and vt are not touched where there are none */

#endif
