/* manyfold/linalg.h - linear algebra under numpy.linalg's and lax.linalg's names: norms, and
 * factors and solutions by LAPACK, which is loaded at the first use. Without it (Debian:
 * liblapack3) a result is an MF_ERROR_IO that says so.
 *
 * Shapes open a comment as in manyfold/numpy.h. Matrices are the last two dimensions of arrays of
 * f32, f64, c64 or c128; the leading ones, "...", are batches. Everything has gradients. What is
 * singular, not positive definite, does not converge or is not finite gives infinities and NaN,
 * not an error.
 * Results belong to the innermost scope; any thread. Errors: MF_ERROR_SHAPE for too few
 * dimensions, a matrix that should be square, operands that do not fit; MF_ERROR_DTYPE. */
#ifndef MANYFOLD_LINALG_H
#define MANYFOLD_LINALG_H
#ifndef MF_CHECK_HEADERS_
#pragma GCC system_header
#endif

#include <manyfold/numpy.h>

MF_BEGIN_

/* ---- factors */
/* (..., n, n) -> (..., n, n): the lower factor L of a positive definite a = L L^H, of whose
 * Hermitian part it is taken; NaN where a is not positive definite */
mf_value mf_cholesky(mf_value a);
/* (..., n, n), (..., n, k) -> (..., n, k): lax.linalg.triangular_solve: x of op(a) x = b with
 * .left_side, else, of b (..., k, n), of x op(a) = b; a is upper triangular unless .lower. The
 * other triangle is not read, nor the diagonal with .unit_diagonal. */
typedef struct mf_solve_options {
    bool left_side, lower, transpose_a, conjugate_a, unit_diagonal;
    mf_reserved reserved_;
} mf_solve_options;
mf_value mf_triangular_solve_opt(mf_value a, mf_value b, const mf_solve_options *o);
/* (..., n, n), (..., n, k) -> (..., n, k): x of L L^H x = b, for mf_cholesky's L; b: also a
 * vector */
mf_value mf_cho_solve(mf_value l, mf_value b);
/* (..., n, n), (..., n, k) -> (..., n, k): x of a x = b for a positive definite a; b likewise */
mf_value mf_solve_spd(mf_value a, mf_value b);
/* (..., n, n) -> tuple of (..., n, n), (..., n), (..., n): the factors in one matrix (L has ones on
 * its diagonal), the row that each row was exchanged with, and the permutation that comes of it
 * (both i32) */
mf_value mf_lu(mf_value a);
typedef enum mf_qr_mode {
    MF_QR_REDUCED = 0,
    MF_QR_COMPLETE,
    MF_QR_R
} mf_qr_mode;
/* (..., m, n) -> tuple of (..., m, k), (..., k, n): Q and R, k the lesser of m and n, or of
 * complete factors m; with MF_QR_R R alone. Derivatives need at least as many rows as columns, of
 * complete factors as many (MF_ERROR_SHAPE). */
typedef struct mf_qr_options {
    mf_qr_mode mode;
    mf_reserved reserved_;
} mf_qr_options;
mf_value mf_qr(mf_value a);
mf_value mf_qr_opt(mf_value a, const mf_qr_options *o);
/* (..., m, n) -> tuple of (..., m, m), (..., k), (..., n, n): U, S and V^H, k the lesser of m and
 * n, S real and descending; S alone with .compute_uv = false. The full U and V^H, of which
 * .full_matrices = false leaves the first k columns and rows, have derivatives where a is square.
 * Vectors of equal singular values have none (NaN). */
typedef struct mf_svd_options {
    mf_reserved begin_;
    bool full_matrices MF_DEFAULT_(true), compute_uv MF_DEFAULT_(true);
    mf_reserved reserved_;
} mf_svd_options;
mf_value mf_svd(mf_value a);
mf_value mf_svd_opt(mf_value a, const mf_svd_options *o);
/* (..., n, n) -> tuple of (..., n), (..., n, n): of a Hermitian matrix eigenvalues, real and
 * ascending, and vectors, the columns. Of (a + a^H) / 2, or of what one triangle says. Vectors of
 * equal eigenvalues have no derivative (NaN). */
typedef enum mf_triangle {
    MF_TRIANGLE_BOTH = 0,
    MF_TRIANGLE_LOWER,
    MF_TRIANGLE_UPPER
} mf_triangle;
typedef struct mf_eigh_options {
    mf_triangle triangle;
    mf_reserved reserved_;
} mf_eigh_options;
mf_value mf_eigh(mf_value a);
mf_value mf_eigh_opt(mf_value a, const mf_eigh_options *o);
/* ---- solutions */
/* (..., n, n), (..., n, k) -> (..., n, k): x of a x = b; b: also one vector, (n) */
mf_value mf_solve(mf_value a, mf_value b);
/* (..., n, n) -> (..., n, n) */
mf_value mf_inv(mf_value a);
/* (..., n, n) -> (...): its gradient holds for singular matrices too */
mf_value mf_det(mf_value a);
/* (..., n, n) -> tuple of (...), (...): the determinant's sign (of complex ones its phase) and the
 * logarithm of its magnitude */
mf_value mf_slogdet(mf_value a);
/* (..., m, n) -> (..., n, m): the pseudo-inverse; singular values up to .rtol times the greatest
 * count as zero; 0: 10 max(m, n) epsilon. Of full rank it has a gradient. */
typedef struct mf_pinv_options {
    double rtol;
    mf_reserved reserved_;
} mf_pinv_options;
mf_value mf_pinv(mf_value a);
mf_value mf_pinv_opt(mf_value a, const mf_pinv_options *o);
/* (m, n), (m, k) -> tuple of (n, k), (k), (), (min(m, n)): jnp.linalg.lstsq: the x for which
 * |a x - b| is least, and of several the shortest; the squares of what is left a column, the rank
 * (i32) and the singular values. b: also a vector. Singular values up to .rcond times the greatest
 * count as zero; 0: max(m, n) epsilon. */
typedef struct mf_lstsq_options {
    double rcond;
    mf_reserved reserved_;
} mf_lstsq_options;
mf_value mf_lstsq_opt(mf_value a, mf_value b, const mf_lstsq_options *o);

/* ---- powers and rank */
/* (..., n, n) -> (..., n, n): a to the n-th, by squaring; of a negative n the inverse's */
mf_value mf_matrix_power(mf_value a, int n);
/* (..., n, n) -> (..., n, n): jax.scipy.linalg.expm: the exponential, by Pade's approximation of order
 * 13 and at most 16 squarings, beyond which it is NaN */
mf_value mf_expm(mf_value a);
/* (..., m, n) -> (...): i32, how many singular values are above .rtol times the greatest; 0: max(m, n)
 * epsilon */
typedef struct mf_matrix_rank_options {
    double rtol;
    mf_reserved reserved_;
} mf_matrix_rank_options;
mf_value mf_matrix_rank(mf_value a);
mf_value mf_matrix_rank_opt(mf_value a, const mf_matrix_rank_options *o);

/* ---- norms */
/* (...) -> (...): without the axes, or with .keepdims of size 1 there. Of one axis the vector
 * norm of any order; of all (the default) or two the 2-norm of the elements (Frobenius), or with
 * two axes .ord 1 and INFINITY the greatest sum of magnitudes in a column, in a row (of the two
 * axes the first counts rows), -1 and -INFINITY the least; 2 and -2 the greatest and the least
 * singular value, MF_NUCLEAR their sum. .ord 0, the default: 2 of a vector, Frobenius of a
 * matrix. */
#define MF_NUCLEAR 1e300
typedef struct mf_norm_options {
    mf_reserved begin_;
    mf_axis axis MF_DEFAULT_(MF_ALL);
    double ord;
    bool keepdims;
    mf_reserved reserved_;
} mf_norm_options;
mf_value mf_norm(mf_value x);
mf_value mf_norm_opt(mf_value x, const mf_norm_options *o);

MF_END_

#include <manyfold/lift/linalg.h>

#endif
