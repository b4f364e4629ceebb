/* Short emitters for the rules of every family: each appends the equation that its name says. Shapes and dtypes must already fit
 * (primitives do not broadcast or promote); the helpers here make scalars of the right type. */
#ifndef MF_OPS_EMIT_H
#define MF_OPS_EMIT_H

#include "ir/op.h"
#include "ir/stablehlo.h"
#include "ops/ops.h"

/* constants */
mf_variable *e_scalar(mf_builder *b, mf_dtype dtype, double x);    /* rank 0, strong */
mf_variable *e_full(mf_builder *b, const mf_type *type, double x); /* broadcast scalar */
mf_variable *e_zeros_like(mf_builder *b, const mf_variable *x);
/* elementwise, equal types */
mf_variable *e_add(mf_builder *b, mf_variable *x, mf_variable *y);
mf_variable *e_sub(mf_builder *b, mf_variable *x, mf_variable *y);
mf_variable *e_mul(mf_builder *b, mf_variable *x, mf_variable *y);
mf_variable *e_div(mf_builder *b, mf_variable *x, mf_variable *y);
mf_variable *e_max(mf_builder *b, mf_variable *x, mf_variable *y);
mf_variable *e_neg(mf_builder *b, mf_variable *x);
mf_variable *e_unary(mf_builder *b, const mf_op *op, mf_variable *x);
mf_variable *e_binary(mf_builder *b, const mf_op *op, mf_variable *x, mf_variable *y);
mf_variable *e_scale(mf_builder *b, mf_variable *x, double factor);                     /* x * full(factor) */
mf_variable *e_shift(mf_builder *b, mf_variable *x, double term);                       /* x + full(term) */
mf_variable *e_compare(mf_builder *b, const mf_op *op, mf_variable *x, mf_variable *y); /* bool of x's shape */
mf_variable *e_select(mf_builder *b, mf_variable *predicate, mf_variable *yes, mf_variable *no);
mf_variable *e_convert(mf_builder *b, mf_variable *x, mf_dtype dtype);           /* x itself when nothing changes */
mf_variable *e_convert_type(mf_builder *b, mf_variable *x, const mf_type *type); /* dtype and weak flag of type */
/* shape */
mf_variable *e_reshape(mf_builder *b, mf_variable *x, int rank, const int64_t *dims);
mf_variable *e_reshape_type(mf_builder *b, mf_variable *x, const mf_type *like); /* the shape of like */
mf_variable *e_transpose(mf_builder *b, mf_variable *x, const int *permutation);
mf_variable *e_move_axis(mf_builder *b, mf_variable *x, int from, int to);
mf_variable *e_broadcast(mf_builder *b, mf_variable *x, int rank, const int64_t *dims, const mf_intlist *where); /* broadcast_in_dim */
mf_variable *e_broadcast_axis(mf_builder *b, mf_variable *x, int axis, int64_t size); /* a new axis of that size */
mf_variable *e_expand(mf_builder *b, mf_variable *x, int axis);                       /* a new axis of size 1 */
mf_variable *e_squeeze(mf_builder *b, mf_variable *x, int axis);
mf_variable *e_slice(mf_builder *b, mf_variable *x, const int64_t *start, const int64_t *limit, const int64_t *strides);
mf_variable *e_slice_axis(mf_builder *b, mf_variable *x, int axis, int64_t start, int64_t limit);
mf_variable *e_pad(mf_builder *b, mf_variable *x, double value, const int64_t *low, const int64_t *high, const int64_t *interior);
mf_variable *e_concatenate(mf_builder *b, mf_variable *const *parts, int count, int axis);
/* Takes along the axis from each line of x the elements at the line of indices, which must be in bounds; all other dimensions are equal. */
mf_variable *e_take_along(mf_builder *b, mf_variable *x, mf_variable *index, int axis);
mf_variable *e_iota(mf_builder *b, mf_dtype dtype, int rank, const int64_t *dims, int axis);
mf_variable *e_rev(mf_builder *b, mf_variable *x, const mf_intlist *axes);
/* reductions and products */
mf_variable *e_reduce_sum(mf_builder *b, mf_variable *x, const mf_intlist *axes);
mf_variable *e_reduce_max(mf_builder *b, mf_variable *x, const mf_intlist *axes);
mf_variable *e_reduce_to_scalar(mf_builder *b, mf_variable *x);
mf_variable *e_dot_general(mf_builder *b, mf_variable *x, mf_variable *y, const mf_intlist *lhs_contract, const mf_intlist *rhs_contract,
                           const mf_intlist *lhs_batch, const mf_intlist *rhs_batch);
/* The jvp of a bilinear op: a term for each operand's tangent, with the other operand unchanged (JAX's defbilinear). */
void e_jvp_bilinear(mf_builder *b, const mf_eqn *e, mf_variable *const *in, mf_variable *const *tin, mf_variable **out, mf_variable **tout);
/* batching: x with its batch dimension at `to` (moved there, or broadcast when axis is -1) */
mf_variable *e_batched_at(mf_batch_context *c, mf_variable *x, int axis, int to);

#endif
