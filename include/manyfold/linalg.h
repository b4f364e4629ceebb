/* manyfold/linalg.h - linear algebra under the names of numpy.linalg and jax.lax.linalg:
 * factorisations and solvers, by LAPACK, and norms. LAPACK is loaded at its first use; without it
 * (Debian: liblapack3) the result is an MF_ERROR_IO that says so.
 *
 * Shapes open a comment as in manyfold/base.h. Matrices are the last two dimensions of arrays of
 * f32, f64, c64 or c128 (integers become f32); the leading ones, "...", are batches. All have
 * gradients, unless stated. Matrices that are singular, not positive definite, or not finite, and
 * iterations that do not converge, give infinities and NaN, not errors.
 * Results belong to the innermost scope; any thread. Errors: MF_ERROR_SHAPE for too few dimensions,
 * a matrix that is not square where it must be, or operands that do not fit; MF_ERROR_DTYPE. */
#ifndef MANYFOLD_LINALG_H
#define MANYFOLD_LINALG_H
#ifndef MF_CHECK_HEADERS_
#pragma GCC system_header
#endif

#include <manyfold/numpy.h>

MF_BEGIN_

/* ---- factorisations */
/* (..., n, n) -> (..., n, n): Cholesky: the lower triangular L with a = L L^H, for a positive
 * definite a, of which only the Hermitian part (a + a^H) / 2 counts; NaN where that is not positive
 * definite */
mf_value mf_cholesky(mf_value a);
/* (..., n, n), (..., n, k) -> (..., n, k): lax.linalg.triangular_solve: with .left_side the x of
 * op(a) x = b, else, for b of (..., k, n), the x of x op(a) = b, where op transposes (.transpose_a)
 * and conjugates (.conjugate_a). a is upper triangular, or with .lower lower; its other triangle is
 * not read, nor with .unit_diagonal its diagonal, taken as 1. */
typedef struct mf_solve_options {
    bool left_side, lower, transpose_a, conjugate_a, unit_diagonal;
    mf_reserved reserved_;
} mf_solve_options;
mf_value mf_triangular_solve_opt(mf_value a, mf_value b, const mf_solve_options *o);
/* (..., n, n), (..., n, k) -> (..., n, k): the x of L L^H x = b, with mf_cholesky's L; b may also
 * be a vector, (n) */
mf_value mf_cho_solve(mf_value l, mf_value b);
/* (..., n, n), (..., n, k) -> (..., n, k): the x of a x = b for a positive definite a; b as
 * above */
mf_value mf_solve_spd(mf_value a, mf_value b);
/* (..., n, n) -> tuple of (..., n, n), (..., n), (..., n): lax.linalg.lu: the factors L and U in
 * one matrix (L's diagonal of ones is not stored); the pivots: the row with which each row was
 * exchanged; the permutation that results from them (both i32) */
mf_value mf_lu(mf_value a);
typedef enum mf_qr_mode {
    MF_QR_REDUCED = 0,
    MF_QR_COMPLETE,
    MF_QR_R
} mf_qr_mode;
/* (..., m, n) -> tuple of (..., m, k), (..., k, n): np.linalg.qr: Q and R, where k = min(m, n), or
 * with MF_QR_COMPLETE k = m; with MF_QR_R only R. Derivatives need m >= n, of complete factors m =
 * n (MF_ERROR_SHAPE). */
typedef struct mf_qr_options {
    mf_qr_mode mode;
    mf_reserved reserved_;
} mf_qr_options;
mf_value mf_qr(mf_value a);
mf_value mf_qr_opt(mf_value a, const mf_qr_options *o);
/* (..., m, n) -> tuple of (..., m, m), (..., k), (..., n, n): np.linalg.svd: U, S and V^H, where k
 * = min(m, n) and S is real and descending. .full_matrices = false: only the first k columns of U
 * and rows of V^H. .compute_uv = false: only S. Full U and V^H have derivatives for square matrices
 * only. Vectors of equal singular values have no derivative (NaN). */
typedef struct mf_svd_options {
    mf_reserved begin_;
    bool full_matrices MF_DEFAULT_(true), compute_uv MF_DEFAULT_(true);
    mf_reserved reserved_;
} mf_svd_options;
mf_value mf_svd(mf_value a);
mf_value mf_svd_opt(mf_value a, const mf_svd_options *o);
/* (..., n, n) -> tuple of (..., n), (..., n, n): np.linalg.eigh, for Hermitian matrices: the
 * eigenvalues, real and ascending, and the eigenvectors, as columns. By default of (a + a^H) / 2;
 * else of the matrix that one triangle of a gives. Vectors of equal eigenvalues have no derivative
 * (NaN). */
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
/* (..., n, n) -> (..., n): np.linalg.eigvalsh: the eigenvalues of eigh alone, ascending */
mf_value mf_eigvalsh(mf_value a);
/* (..., m, n) -> (..., min(m, n)): np.linalg.svdvals: the singular values alone, descending */
mf_value mf_svdvals(mf_value a);
/* ---- solving */
/* (..., n, n), (..., n, k) -> (..., n, k): the x of a x = b; b may also be a vector, (n) */
mf_value mf_solve(mf_value a, mf_value b);
/* (..., n, n) -> (..., n, n): the inverse */
mf_value mf_inv(mf_value a);
/* (..., n, n) -> (...): the determinant; its gradient is also right for singular matrices */
mf_value mf_det(mf_value a);
/* (..., n, n) -> tuple of (...), (...): the sign of the determinant (of complex matrices its phase,
 * a number of magnitude 1), and the logarithm of its magnitude */
mf_value mf_slogdet(mf_value a);
/* (..., m, n) -> (..., n, m): the Moore-Penrose inverse. Singular values up to .rtol times the
 * greatest count as zero; 0: 10 max(m, n) epsilon. The gradient is right for matrices of full
 * rank. */
typedef struct mf_pinv_options {
    double rtol;
    mf_reserved reserved_;
} mf_pinv_options;
mf_value mf_pinv(mf_value a);
mf_value mf_pinv_opt(mf_value a, const mf_pinv_options *o);
/* (m, n), (m, k) -> tuple of (n, k), (k), (), (min(m, n)): jnp.linalg.lstsq: the x that minimises
 * |a x - b|, and of several the shortest; the squared residual of each column; the rank (i32); the
 * singular values. b may also be a vector. Singular values up to .rcond times the greatest count as
 * zero; 0: max(m, n) epsilon. */
typedef struct mf_lstsq_options {
    double rcond;
    mf_reserved reserved_;
} mf_lstsq_options;
mf_value mf_lstsq_opt(mf_value a, mf_value b, const mf_lstsq_options *o);

/* ---- products, powers and rank */
/* arrays -> (m, n): np.linalg.multi_dot: the matrix product of 2 to 16 matrices, in the order with
 * the fewest multiplications; the first and the last may be vectors */
mf_value mf_multi_dot(mf_value arrays);
/* (..., n, n) -> (..., n, n): a^n, by repeated squaring; of a negative n that of the inverse */
mf_value mf_matrix_power(mf_value a, int n);
/* (..., n, n) -> (..., n, n): jax.scipy.linalg.expm: the matrix exponential, by scaling and
 * squaring with the Pade approximant of order 13; with more than 16 squarings it is NaN */
mf_value mf_expm(mf_value a);
/* (..., m, n) -> (...): i32: the number of singular values above .rtol times the greatest; 0:
 * max(m, n) epsilon */
typedef struct mf_matrix_rank_options {
    double rtol;
    mf_reserved reserved_;
} mf_matrix_rank_options;
mf_value mf_matrix_rank(mf_value a);
mf_value mf_matrix_rank_opt(mf_value a, const mf_matrix_rank_options *o);

/* (..., m, n) -> (...): np.linalg.cond: the greatest singular value over the least; with ord 1, -1,
 * INFINITY or -INFINITY the norm times that of the inverse, of ord -2 the reciprocal */
mf_value mf_linalg_cond(mf_value a, double ord MF_DEFAULT_(0));

/* ---- norms */
/* (...) -> (...): np.linalg.norm: without the axes, or with .keepdims with size 1 there. axis:
 * MF_ALL (the default), a number, or mf_axes of two, of which the first counts rows.
 *   .ord 0, the default: the root of the sum of squares of magnitudes, over any number of axes (of
 *   a vector the 2-norm, of a matrix Frobenius').
 *   One axis: the vector norm of order .ord, any other number, INFINITY or -INFINITY.
 *   Two axes: .ord 1 and INFINITY: the greatest sum of magnitudes in a column, in a row; -1 and
 *   -INFINITY: the least; 2 and -2: the greatest and the least singular value; MF_NUCLEAR: the sum
 *   of the singular values. */
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
