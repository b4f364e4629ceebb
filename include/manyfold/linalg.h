/* manyfold/linalg.h - linear algebra: norms, and factors and solutions by LAPACK, which is loaded at the first use. Without it
 * (Debian: liblapack3) a result is an MF_ERROR_IO that says so.
 *
 * Matrices are the last two dimensions of arrays of f32, f64, c64 or c128; the leading ones are batches. Everything has gradients. */
#ifndef MANYFOLD_LINALG_H
#define MANYFOLD_LINALG_H

#include <manyfold/ops.h>

MF_BEGIN_

/* The lower factor L of a positive definite a = L L^H, of whose Hermitian part it is taken; NaN where a is not positive definite. */
mf_value mf_cholesky(mf_value a);
/* lax.linalg.triangular_solve: x of op(a) x = b with .left_side, else of x op(a) = b; a is upper triangular unless .lower. The other
 * triangle is not read, nor the diagonal with .unit_diagonal. */
typedef struct mf_solve_options { bool left_side, lower, transpose_a, conjugate_a, unit_diagonal; mf_reserved reserved_; } mf_solve_options;
mf_value mf_triangular_solve_opt(mf_value a, mf_value b, const mf_solve_options *o);
mf_value mf_cho_solve(mf_value l, mf_value b);           /* x of L L^H x = b, for mf_cholesky's L; b: a vector or a matrix of columns */
mf_value mf_solve_spd(mf_value a, mf_value b);           /* x of a x = b for a positive definite a; b likewise */

/* Of one axis the vector norm of any order; of all (the default) or two the 2-norm of the elements (Frobenius), or with two axes .ord 1
 * and INFINITY the greatest sum of magnitudes in a column, in a row (of the two axes the first counts rows). .ord 0, the default, is 2. */
typedef struct mf_norm_options { mf_reserved begin_; mf_axis axis MF_DEFAULT_(MF_ALL); double ord; bool keepdims; mf_reserved reserved_; } mf_norm_options;
mf_value mf_norm(mf_value x), mf_norm_opt(mf_value x, const mf_norm_options *o);
#ifndef __cplusplus
#define mf_triangular_solve(a, ...) mf_triangular_solve_opt(mf_v(a), mf_v(MF_FIRST_(__VA_ARGS__, 0)), MF_OPTIONS_(mf_solve_options, __VA_ARGS__))
#define mf_norm(...) MF_QUIET_(mf_norm_opt(mf_v(MF_FIRST_(__VA_ARGS__, 0)), \
    &(mf_norm_options){ .axis = MF_ALL, .begin_ = 0, MF_REST_(__VA_ARGS__, .reserved_ = 0) }))
#endif

MF_END_

#endif
