/* manyfold/collective.h - communication between the replicas of a map, over whole trees, under
 * jax.lax's names: mf_psum(x, "i"), mf_psum(x, "rows", "cols") over two axes.
 *
 * For use inside mf_pmap, or mf_vmap with an axis name. Shapes open a comment as in
 * manyfold/base.h; they are those of one replica, and n is the size of the axis. Leaves are arrays
 * or numbers of any dtype. .axis_index_groups: a list of lists of indices, each of which is a group
 * of its own; unset: all replicas are one group. Groups may have different sizes in psum, pmean,
 * pmax and pmin only. Gradients are those of JAX's pmap: psum transposes to psum.
 * Results belong to the innermost scope; any thread. Errors: MF_ERROR_AXIS for an axis name that no
 * enclosing map binds (the message lists those in scope); MF_ERROR_SHAPE; in a map over several
 * processes, MF_ERROR_PEER. */
#ifndef MANYFOLD_COLLECTIVE_H
#define MANYFOLD_COLLECTIVE_H
#ifndef MF_CHECK_HEADERS_
#pragma GCC system_header
#endif

#include <manyfold/numpy.h>

MF_BEGIN_

/* The axis names are separate members, so that mf_psum(x, "rows", "cols") needs no braces. tiled is
 * for all_gather, psum_scatter and all_to_all. */
typedef struct mf_collective_options {
    const char *axis_name, *axis_name_2, *axis_name_3, *axis_name_4;
    mf_value axis_index_groups;
    bool tiled;
    mf_reserved reserved_;
} mf_collective_options;

/* tree -> tree: the sum, mean, maximum and minimum over the axis, the same on every replica. Sums
 * have one fixed order, a balanced tree over the replicas; f16 and bf16 are summed in f32 and
 * rounded once, at the end. Bools are counted (psum); NaN wins (pmax, pmin). A C number is folded
 * at trace time: mf_psum(1, "i") is the axis size. */
mf_value mf_psum_opt(mf_value x, const mf_collective_options *o);
mf_value mf_pmean_opt(mf_value x, const mf_collective_options *o);
mf_value mf_pmax_opt(mf_value x, const mf_collective_options *o);
mf_value mf_pmin_opt(mf_value x, const mf_collective_options *o);
/* tree of (...) -> tree of (..., n, ...): every replica's x, stacked along a new dimension `axis`;
 * with .tiled, concatenated along the existing dimension `axis` */
mf_value mf_all_gather_opt(mf_value x, int axis, const mf_collective_options *o);
/* tree of (..., n, ...) -> tree of (...): the sum, of which each replica keeps its row of dimension
 * scatter_dimension; with .tiled (..., k n, ...) -> (..., k, ...): its block of k rows */
mf_value mf_psum_scatter_opt(mf_value x, int scatter_dimension, const mf_collective_options *o);
/* tree of (..., n, ...) -> tree of (..., n, ...): row i of dimension split_axis goes to replica i,
 * and what arrives is stacked along concat_axis; with .tiled, blocks instead of rows, concatenated:
 * with split_axis 0 and concat_axis 1, (a n, b) -> (a, b n) */
mf_value mf_all_to_all_opt(mf_value x, int split_axis, int concat_axis,
                           const mf_collective_options *o);
/* tree of (..., n, ...) -> tree of (..., n, ...): exchanges the mapped axis with dimension
 * `axis` */
mf_value mf_pswapaxes_opt(mf_value x, int axis, const mf_collective_options *o);
/* x -> x: i32: for each element the index of the first replica that holds the maximum (minimum);
 * NaN wins. Takes one axis name */
mf_value mf_pargmax_opt(mf_value x, const mf_collective_options *o);
mf_value mf_pargmin_opt(mf_value x, const mf_collective_options *o);
/* tree, pairs -> tree: sends x along pairs, a list of (source, target) tuples; a replica that
 * receives nothing gets zeros. MF_ERROR_AXIS where a source or a target occurs twice or is out of
 * bounds */
mf_value mf_ppermute(mf_value x, const char *axis_name, mf_value pairs);
/* tree, list -> tree: replica i receives the x of replica permutation[i] */
mf_value mf_pshuffle(mf_value x, const char *axis_name, mf_value permutation);
/* tree -> tree: the x of replica number `source`, on every replica */
mf_value mf_pbroadcast(mf_value x, const char *axis_name, int source);
/* tree -> tree: unchanged, but declared to be the same on all replicas, so that an unmapped result
 * may follow from it. Where that is known already, it costs nothing. Otherwise the replicas' values
 * are compared bit by bit when the program runs (between processes by a 128-bit hash), and
 * MF_ERROR_DEVICE names the leaf and the devices that differ. Gradients pass through. Outside maps,
 * with axis_name NULL: compares the rows of every leaf along its leading axis. */
mf_value mf_check_replicated(mf_value tree, const char *axis_name);
/* -> (): i32: this replica's index along the axis; and the size of the axis, a constant. Of several
 * names: the row-major index over all, the first name varying slowest, and the product of sizes */
mf_value mf_axis_index(const char *axis_name);
mf_value mf_axis_size(const char *axis_name);
mf_value mf_axis_index_opt(const mf_collective_options *o);
mf_value mf_axis_size_opt(const mf_collective_options *o);

MF_END_

#include <manyfold/lift/collective.h>

#endif
