/* The LAPACK routines for linalg.c and factors.c, each for one row-major matrix. Invariant: the library is loaded at the first call, so
 * programs without linear algebra do not pay for it. */
#ifndef MF_OPS_LINALG_LAPACK_H
#define MF_OPS_LINALG_LAPACK_H

#include "base/error.h"

/* Returns NULL, or a new error that says what is missing. */
mf_error_object *mf_lapack_load(void);

/* ---- the routines: call mf_lapack_load first; f32, f64, c64, c128 */
/* Replaces the lower triangle of the n by n matrix a by its Cholesky factor; the upper triangle is unchanged. False: not positive
 * definite. */
bool mf_lapack_cholesky(mf_dtype dtype, int n, void *a);

typedef struct mf_lapack_solve {
    bool left, lower, transposed, conjugated, unit; /* op(a) x = b or x op(a) = b; conjugated only with transposed */
    int rows, columns;                              /* of b */
} mf_lapack_solve;
void mf_lapack_triangular_solve(mf_dtype dtype, const mf_lapack_solve *how, const void *a, void *b); /* replaces b by x */

/* The following allocate workspace; they return NULL, or a new error if out of memory or if sizes exceed LAPACK's int. */
mf_error_object *mf_lapack_lu(mf_dtype dtype, int n, const void *a, void *lu, int32_t *pivots); /* row i was exchanged with pivots[i] */
mf_error_object *mf_lapack_qr(mf_dtype dtype, int m, int n, bool full, const void *a, void *q, void *r);
/* Reads the lower triangle. w: real, ascending; v: the vectors are columns. */
mf_error_object *mf_lapack_eigh(mf_dtype dtype, int n, const void *a, void *w, void *v, bool *converged);
typedef enum mf_lapack_vectors { MF_LAPACK_NONE, MF_LAPACK_THIN, MF_LAPACK_FULL } mf_lapack_vectors;
mf_error_object *mf_lapack_svd(mf_dtype dtype, int m, int n, mf_lapack_vectors which, const void *a, void *s, void *u, void *vt,
                               bool *converged); /* s: real, descending; u and vt are untouched if not requested */

#endif
