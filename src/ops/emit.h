/* Short emitters for the rules of every family: each appends the equation its name says. Shapes and dtypes must already fit
 * (primitives do not broadcast or promote); scalars are made of the right type by the helpers here. */
#ifndef MF_OPS_EMIT_H
#define MF_OPS_EMIT_H

#include "ir/op.h"
#include "ops/rows.h"

/* constants */
mf_var *e_scalar(mf_builder *b, mf_dtype dtype, double x);    /* rank 0, strong */
mf_var *e_full(mf_builder *b, const mf_type *type, double x); /* broadcast scalar */
mf_var *e_zeros_like(mf_builder *b, const mf_var *x);
/* elementwise, equal types */
mf_var *e_add(mf_builder *b, mf_var *x, mf_var *y);
mf_var *e_sub(mf_builder *b, mf_var *x, mf_var *y);
mf_var *e_mul(mf_builder *b, mf_var *x, mf_var *y);
mf_var *e_div(mf_builder *b, mf_var *x, mf_var *y);
mf_var *e_max(mf_builder *b, mf_var *x, mf_var *y);
mf_var *e_neg(mf_builder *b, mf_var *x);
mf_var *e_unary(mf_builder *b, const mf_op *op, mf_var *x);
mf_var *e_binary(mf_builder *b, const mf_op *op, mf_var *x, mf_var *y);
mf_var *e_scale(mf_builder *b, mf_var *x, double factor);                /* x * full(factor) */
mf_var *e_shift(mf_builder *b, mf_var *x, double term);                  /* x + full(term) */
mf_var *e_compare(mf_builder *b, const mf_op *op, mf_var *x, mf_var *y); /* bool of x's shape */
mf_var *e_select(mf_builder *b, mf_var *predicate, mf_var *yes, mf_var *no);
mf_var *e_convert(mf_builder *b, mf_var *x, mf_dtype dtype);           /* x itself when nothing changes */
mf_var *e_convert_type(mf_builder *b, mf_var *x, const mf_type *type); /* dtype and weak flag of type */
/* shape */
mf_var *e_reshape(mf_builder *b, mf_var *x, int rank, const int64_t *dims);
mf_var *e_reshape_type(mf_builder *b, mf_var *x, const mf_type *like); /* the shape of like */
mf_var *e_transpose(mf_builder *b, mf_var *x, const int *permutation);
mf_var *e_move_axis(mf_builder *b, mf_var *x, int from, int to);
mf_var *e_broadcast(mf_builder *b, mf_var *x, int rank, const int64_t *dims, const mf_intlist *where); /* broadcast_in_dim */
mf_var *e_broadcast_axis(mf_builder *b, mf_var *x, int axis, int64_t size);                            /* a new axis of that size */
mf_var *e_expand(mf_builder *b, mf_var *x, int axis);                                                  /* a new axis of size 1 */
mf_var *e_squeeze(mf_builder *b, mf_var *x, int axis);
mf_var *e_slice(mf_builder *b, mf_var *x, const int64_t *start, const int64_t *limit, const int64_t *strides);
mf_var *e_slice_axis(mf_builder *b, mf_var *x, int axis, int64_t start, int64_t limit);
mf_var *e_pad(mf_builder *b, mf_var *x, double value, const int64_t *low, const int64_t *high, const int64_t *interior);
mf_var *e_concatenate(mf_builder *b, mf_var *const *parts, int count, int axis);
mf_var *e_iota(mf_builder *b, mf_dtype dtype, int rank, const int64_t *dims, int axis);
mf_var *e_rev(mf_builder *b, mf_var *x, const mf_intlist *axes);
/* reductions and products */
mf_var *e_reduce_sum(mf_builder *b, mf_var *x, const mf_intlist *axes);
mf_var *e_reduce_max(mf_builder *b, mf_var *x, const mf_intlist *axes);
mf_var *e_reduce_to_scalar(mf_builder *b, mf_var *x);
mf_var *e_dot_general(mf_builder *b, mf_var *x, mf_var *y, const mf_intlist *lhs_contract, const mf_intlist *rhs_contract,
                      const mf_intlist *lhs_batch, const mf_intlist *rhs_batch);
/* batching helpers: x with its batch dimension at `to` (moved there, or broadcast when axis is -1) */
mf_var *e_batched_at(mf_batch_context *c, mf_var *x, int axis, int to);

#endif
