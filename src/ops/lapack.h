/* The two LAPACK routines behind linalg.c, for one matrix in row-major order.
 * Invariant: the library is loaded at the first call and never before, so programs without linear algebra do not pay for it. */
#ifndef MF_OPS_LAPACK_H
#define MF_OPS_LAPACK_H

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

#endif
