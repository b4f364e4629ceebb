/* Shared by the ops of linear algebra: checks, emitters for matrices in the last two dimensions, and parts of their evaluation. */
#ifndef MF_OPS_LINALG_MATRICES_H
#define MF_OPS_LINALG_MATRICES_H

#include "ops/elementwise/loops.h"

/* Checks for f32, f64, c64 or c128 and at least two dimensions, the last two within LAPACK's int; and for square matrices. NULL or a new
 * error. */
mf_error_object *mf_check_matrix(const mf_type_context *c, const mf_type *t);
mf_error_object *mf_check_square(const mf_type_context *c, const mf_type *t);
int64_t mf_matrix_count(const mf_type *t);

mf_variable *e_matrix_transpose(mf_builder *b, mf_variable *x, bool conjugate);  /* transposed and, if asked, conjugated */
mf_variable *e_where_row(mf_builder *b, const mf_op *how, const mf_variable *x); /* compares row index and column index */
mf_variable *e_only_where(mf_builder *b, const mf_op *how, mf_variable *x);      /* x where that comparison holds, else 0 */
mf_variable *e_matmul(mf_builder *b, mf_variable *x, mf_variable *y);
mf_variable *e_triangular_solve(mf_builder *b, mf_variable *a, mf_variable *x, mf_solve_params p);
mf_variable *e_eye(mf_builder *b, const mf_variable *x); /* identities of x's type */
mf_variable *e_diagonal(mf_builder *b, mf_variable *x);
mf_variable *e_real_part(mf_builder *b, mf_variable *x);

/* The batch rule for ops whose params hold with one more leading dimension; at most 2 operands. */
void mf_batch_leading(mf_batch_context *c, const mf_eqn *e, mf_variable *const *in, const int *in_axis, mf_variable **out, int *out_axis);

void mf_hermitian_lower(mf_dtype dtype, int64_t n, const void *a, void *out); /* the lower triangle of (a + a^H) / 2, zeros above */
void mf_fill_nan(mf_dtype dtype, void *x, int64_t count);                     /* fills both parts of complex numbers */
bool mf_all_finite(mf_dtype dtype, const void *x, int64_t count);

#endif
