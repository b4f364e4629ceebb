/* manyfold/collective.h - communication between the replicas of a map, over whole trees, under
 * jax.lax's names: mf_psum(x, "i"), mf_psum(x, "rows", "cols").
 *
 * Inside mf_pmap, or mf_vmap with an axis name. Shapes open a comment as in manyfold/numpy.h, those
 * of one replica, and n is the size of the axis; leaves are arrays or numbers of any dtype.
 * axis_index_groups: a list of lists of indices, or unset for everybody; psum, pmean, pmax and pmin
 * take groups of different sizes. Gradients are pmap's: psum transposes to psum.
 * Results belong to the innermost scope; any thread. Errors: MF_ERROR_AXIS for a name that no
 * enclosing map binds, with those in scope; MF_ERROR_SHAPE; of a map over processes
 * MF_ERROR_PEER. */
#ifndef MANYFOLD_COLLECTIVE_H
#define MANYFOLD_COLLECTIVE_H
#ifndef MF_CHECK_HEADERS_
#pragma GCC system_header
#endif

#include <manyfold/numpy.h>

MF_BEGIN_

/* Flat names, so that mf_psum(x, "rows", "cols") needs no braces */
typedef struct mf_collective_options {
    const char *axis_name, *axis_name_2, *axis_name_3, *axis_name_4;
    mf_value axis_index_groups;
    bool tiled;
    mf_reserved reserved_;
} mf_collective_options;

/* tree -> tree: the sum, mean, greatest and least over the axis, the same on every replica. Sums in
 * one fixed order (a balanced tree over the devices; f16 and bf16 in f32, rounded once, at the
 * end). A C number folds: mf_psum(1, "i") is the axis size. bool counts; NaN wins. */
mf_value mf_psum_opt(mf_value x, const mf_collective_options *o);
mf_value mf_pmean_opt(mf_value x, const mf_collective_options *o);
mf_value mf_pmax_opt(mf_value x, const mf_collective_options *o);
mf_value mf_pmin_opt(mf_value x, const mf_collective_options *o);
/* tree of (...) -> tree of (..., n, ...): everybody's x: a new axis of the axis size at `axis`, or
 * with .tiled concatenated along it */
mf_value mf_all_gather_opt(mf_value x, int axis, const mf_collective_options *o);
/* tree of (..., n, ...) -> tree of (...): the sum, of which each keeps its part of dimension
 * scatter_dimension; with .tiled (..., k n, ...) -> (..., k, ...) */
mf_value mf_psum_scatter_opt(mf_value x, int scatter_dimension, const mf_collective_options *o);
/* tree of (..., n, ...) -> tree of (..., n, ...): dimension split_axis is split among the replicas,
 * and what arrives is stacked along concat_axis; with .tiled it is concatenated, (a n, b) to
 * (a, b n) */
mf_value mf_all_to_all_opt(mf_value x, int split_axis, int concat_axis,
                           const mf_collective_options *o);
/* tree of (..., n, ...) -> tree of (..., n, ...): the mapped axis and dimension `axis` change
 * places */
mf_value mf_pswapaxes_opt(mf_value x, int axis, const mf_collective_options *o);
/* x -> x: i32, for every element the least index of a replica that holds the extremum; a NaN wins.
 * One axis name */
mf_value mf_pargmax_opt(mf_value x, const mf_collective_options *o);
mf_value mf_pargmin_opt(mf_value x, const mf_collective_options *o);
/* tree, pairs -> tree: what the source had: a list of (source, target) tuples; who receives nothing
 * gets zeros. MF_ERROR_AXIS where a source or a target stands twice, or is none */
mf_value mf_ppermute(mf_value x, const char *axis_name, mf_value pairs);
/* tree, list -> tree: the sources, one an index */
mf_value mf_pshuffle(mf_value x, const char *axis_name, mf_value permutation);
/* tree -> tree: that of replica number `source` */
mf_value mf_pbroadcast(mf_value x, const char *axis_name, int source);
/* tree -> tree: as it is, declared to be the same on all replicas. What follows from the maps' axes
 * alone costs nothing; anything else is compared bit by bit when the program runs, between
 * processes by a hash of 128 bits, and MF_ERROR_DEVICE names the leaf and the devices that differ.
 * Gradients pass. Outside maps, with no axis name: the rows of every leaf along its leading axis. */
mf_value mf_check_replicated(mf_value tree, const char *axis_name);
/* -> (): this replica's index along the axis, i32, and the axis size, a constant; of several names
 * row-major, the first outermost */
mf_value mf_axis_index(const char *axis_name);
mf_value mf_axis_size(const char *axis_name);
mf_value mf_axis_index_opt(const mf_collective_options *o);
mf_value mf_axis_size_opt(const mf_collective_options *o);

MF_END_

#include <manyfold/lift/collective.h>

#endif
