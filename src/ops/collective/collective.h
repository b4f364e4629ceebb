/* What the ops of the collectives share: their axes and groups, and arithmetic on a batch dimension that is one of their axes.
 * Groups are the members of each in turn, all of one length: groups of different sizes, which only psum, pmax and pmin take, end in -1. */
#ifndef MF_OPS_COLLECTIVE_COLLECTIVE_H
#define MF_OPS_COLLECTIVE_COLLECTIVE_H

#include "ops/control/nested.h"

/* ---- axes and groups */
mf_error_object *collective_check_axes(const mf_type_context *c, const mf_namelist *axes); /* every name is bound */
mf_error_object *collective_check(const mf_type_context *c, const mf_namelist *axes, const mf_intlist *groups, int64_t group_size,
                                  bool uneven);
int64_t collective_total_size(const mf_axis_env *env, const mf_namelist *axes); /* members of all axes together; they must be bound */
int64_t collective_participants(const mf_axis_env *env, const mf_namelist *axes, const mf_intlist *groups, int64_t group_size);
uint64_t collective_bits_of(const mf_axis_env *env, const mf_namelist *axes); /* as variance */
const mf_intlist *collective_no_groups(void);
/* Of a list of pairs, source and target in turn: the first number that lies outside 0 .. size-1 or that is named twice as what it is; *at -1:
 * none. False: memory is out. */
bool collective_find_misfit(const int64_t *perm, int count, int64_t size, int *at);

/* ---- under vmap */
bool collective_over_batch(const mf_batch_context *c, const mf_namelist *axes); /* the mapped axis is one of them */
const mf_namelist *collective_without(const mf_namelist *axes, const char *name);
void collective_refuse(mf_batch_context *c, const mf_eqn *e, const char *what);
/* Rows of x along dimension 0 in another order; -1 gives zeros. */
mf_variable *collective_pick_rows(mf_builder *b, mf_variable *x, const int64_t *order, int count);
mf_variable *collective_widen(mf_builder *b, mf_variable *x); /* f16 and bf16 as f32 */
mf_variable *collective_reduce_dimension(mf_builder *b, const mf_op *op, mf_variable *x, int axis);
/* Dimension 0, the members, becomes two: groups, and the places in each; and back. */
mf_variable *collective_into_groups(mf_builder *b, mf_variable *x, const mf_intlist *groups, int64_t group_size);
mf_variable *collective_out_of_groups(mf_builder *b, mf_variable *x, const mf_intlist *groups);
/* Dimension axis and the one behind it as one; and one dimension as two, the first of size n. */
mf_variable *collective_merge_dimensions(mf_builder *b, mf_variable *x, int axis);
mf_variable *collective_part_dimension(mf_builder *b, mf_variable *x, int axis, int64_t n);

#endif
