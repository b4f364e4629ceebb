/* Building blocks of StableHLO for factorisations: matrices (..., rows, columns), vectors (..., n) and numbers (...) of one batch, selected
 * by masks, and loops. Selecting by a mask adds zeros to the value, which keeps its bits except for the sign of a zero. */
#ifndef MF_OPS_LINALG_MATRICES_HLO_H
#define MF_OPS_LINALG_MATRICES_HLO_H

#include "ir/stablehlo.h"

/* ---- types, with the matrix's batch */
const mf_type *hm_vector(mf_hlo *h, const mf_type *matrix, mf_dtype dtype, int64_t n);
const mf_type *hm_matrix(mf_hlo *h, const mf_type *matrix, int64_t rows, int64_t columns);
mf_dtype hm_real(mf_dtype dtype);

/* ---- shapes: a value broadcast to that shape, with its own dtype, along the axes that it lacks */
mf_hlo_value hm_row(mf_hlo *h, mf_hlo_value vector, const mf_type *matrix);
mf_hlo_value hm_column(mf_hlo *h, mf_hlo_value vector, const mf_type *matrix);
mf_hlo_value hm_all(mf_hlo *h, mf_hlo_value number, const mf_type *type);
mf_hlo_value hm_index(mf_hlo *h, const mf_type *type, int axis);                 /* i32 */
mf_hlo_value hm_corner(mf_hlo *h, mf_hlo_value x, const mf_type *type);          /* the first rows and columns, as many as the type has */
mf_hlo_value hm_columns(mf_hlo *h, mf_hlo_value x, int64_t from, int64_t count); /* columns of a matrix, or elements of a vector */
mf_hlo_value hm_adjoint(mf_hlo *h, mf_hlo_value x);

/* ---- arithmetic */
mf_hlo_value hm_sum(mf_hlo *h, mf_hlo_value x, int axis);
mf_hlo_value hm_most(mf_hlo *h, mf_hlo_value x, int axis);
mf_hlo_value hm_masked(mf_hlo *h, mf_hlo_value mask, mf_hlo_value x); /* x where the mask holds, else 0 */
mf_hlo_value hm_picked(mf_hlo *h, mf_hlo_value mask, mf_hlo_value x, int axis);
mf_hlo_value hm_compare(mf_hlo *h, const char *how, mf_hlo_value x, mf_hlo_value y);
mf_hlo_value hm_is_zero(mf_hlo *h, mf_hlo_value x);
mf_hlo_value hm_times(mf_hlo *h, mf_hlo_value x, mf_hlo_value y);
mf_hlo_value hm_plus(mf_hlo *h, mf_hlo_value x, mf_hlo_value y);
mf_hlo_value hm_minus(mf_hlo *h, mf_hlo_value x, mf_hlo_value y);
mf_hlo_value hm_over(mf_hlo *h, mf_hlo_value x, mf_hlo_value y);
mf_hlo_value hm_and(mf_hlo *h, mf_hlo_value x, mf_hlo_value y);
mf_hlo_value hm_conjugate(mf_hlo *h, mf_hlo_value x);
mf_hlo_value hm_real_part(mf_hlo *h, mf_hlo_value x);
mf_hlo_value hm_parts(mf_hlo *h, const char *join, mf_hlo_value x); /* the magnitudes of real and imaginary part, combined by `join` */
mf_hlo_value hm_complex(mf_hlo *h, mf_hlo_value real, mf_hlo_value imaginary, mf_dtype dtype);
mf_hlo_value hm_as_dtype(mf_hlo *h, mf_hlo_value real, mf_dtype dtype);
mf_hlo_value hm_identity(mf_hlo *h, const mf_type *type);
bool hm_is_complex(mf_hlo_value x);

/* ---- rounds: state[0] counts from 0 to `count`; the round computes the rest of the state. With `least` the loop ends early, when the last
 * element of the state, a number, is no greater than that. */
enum { HM_MOST_STATE = 8 };
typedef void hm_round(mf_hlo *h, const mf_hlo_value *state, mf_hlo_value *next);
void hm_repeat(mf_hlo *h, hm_round *round, int64_t count, const double *least, mf_hlo_value *state, int states);

/* From factors_hlo.c: stores r in the first rows of *a, and q with all its columns. */
void hm_qr(mf_hlo *h, mf_hlo_value *a, mf_hlo_value *q);

#endif
