/* Shared by the ops of the collectives: their axes and groups, and arithmetic on a batch dimension that is one of their axes. Groups are a
 * list of the members of each in turn, all of one length: groups of different sizes, which only psum, pmax and pmin allow, are padded with
 * -1. */
#ifndef MF_OPS_COLLECTIVE_COLLECTIVE_H
#define MF_OPS_COLLECTIVE_COLLECTIVE_H

#include "ops/control/nested.h"

/* ---- axes and groups */
mf_error_object *collective_check_axes(const mf_type_context *c, const mf_namelist *axes); /* an error unless every name is bound */
mf_error_object *collective_check(const mf_type_context *c, const mf_namelist *axes, const mf_intlist *groups, int64_t group_size,
                                  bool uneven);
int64_t collective_total_size(const mf_axis_env *env, const mf_namelist *axes); /* members of all axes together; they must be bound */
int64_t collective_participants(const mf_axis_env *env, const mf_namelist *axes, const mf_intlist *groups, int64_t group_size);
uint64_t collective_bits_of(const mf_axis_env *env, const mf_namelist *axes); /* as a variance mask */
const mf_intlist *collective_no_groups(void);
/* In a list of alternating sources and targets: the position of the first number that is outside 0 .. size-1 or repeated in its role, or -1
 * in *at if there is none. False: out of memory. */
bool collective_find_misfit(const int64_t *perm, int count, int64_t size, int *at);

/* ---- under vmap */
bool collective_over_batch(const mf_batch_context *c, const mf_namelist *axes); /* whether the mapped axis is one of them */
const mf_namelist *collective_without(const mf_namelist *axes, const char *name);
void collective_refuse(mf_batch_context *c, const mf_eqn *e, const char *what);
/* Reorders the rows of x along dimension 0; -1 gives zeros. */
mf_variable *collective_pick_rows(mf_builder *b, mf_variable *x, const int64_t *order, int count);
mf_variable *collective_widen(mf_builder *b, mf_variable *x); /* converts f16 and bf16 to f32 */
mf_variable *collective_reduce_dimension(mf_builder *b, const mf_op *op, mf_variable *x, int axis);
/* Splits dimension 0, the members, into two (groups, and positions in each), and joins them again. */
mf_variable *collective_into_groups(mf_builder *b, mf_variable *x, const mf_intlist *groups, int64_t group_size);
mf_variable *collective_out_of_groups(mf_builder *b, mf_variable *x, const mf_intlist *groups);
/* Merges dimension `axis` and the next one; and splits a dimension into two, the first of size n. */
mf_variable *collective_merge_dimensions(mf_builder *b, mf_variable *x, int axis);
mf_variable *collective_part_dimension(mf_builder *b, mf_variable *x, int axis, int64_t n);

#endif
