/* manyfold/indexing.h - elements by position: take, and functional updates, JAX's x.at[...].
 * Indexing itself, x[path], is mf_get in manyfold/tree.h.
 *
 * Shapes open a comment as in manyfold/base.h; n is the size of the indexed axis. Indices are
 * integers; negative ones count from the end. Indices out of bounds are no errors, as in JAX:
 * writes are dropped, and reads give JAX's "fill": NaN, of signed integers the least, of unsigned
 * ones the greatest, of bools true.
 * Results belong to the innermost scope; any thread. Errors: MF_ERROR_DTYPE for indices that are
 * not integers, MF_ERROR_SHAPE where an update does not broadcast, MF_ERROR_AXIS. */
#ifndef MANYFOLD_INDEXING_H
#define MANYFOLD_INDEXING_H
#ifndef MF_CHECK_HEADERS_
#pragma GCC system_header
#endif

#include <manyfold/numpy.h>

MF_BEGIN_

/* ---- reading */
/* What an index out of bounds reads: the fill; the nearest element (negative
 * indices are then clamped to 0, not counted from the end); the element at the index modulo the
 * size. */
typedef enum mf_take_mode {
    MF_TAKE_FILL = 0,
    MF_TAKE_CLIP,
    MF_TAKE_WRAP
} mf_take_mode;
typedef struct mf_take_options {
    mf_take_mode mode;
    mf_reserved reserved_;
} mf_take_options;
/* (..., n, ...), indices -> (..., indices' shape, ...): jnp.take: the slices of x along an axis at
 * the indices; MF_ALL, the default: elements of the raveled x. mf_take(x, i), mf_take(x, i, 0,
 * .mode = MF_TAKE_CLIP) */
mf_value mf_take(mf_value x, mf_value indices, mf_axis axis MF_DEFAULT_(MF_ALL));
mf_value mf_take_opt(mf_value x, mf_value indices, mf_axis axis, const mf_take_options *o);
/* (..., n, ...), (..., k, ...) -> (..., k, ...): jnp.take_along_axis: from each line along the
 * axis, the elements at that line's own indices */
mf_value mf_take_along_axis(mf_value x, mf_value indices, int axis MF_DEFAULT_(-1));

/* ---- updates along axis 0. (n, ...), indices, update -> (n, ...): a copy of x after
 * x.at[indices].set(update), or .add, .multiply, .min and .max. The update broadcasts to the
 * indices' shape followed by x's other dimensions. An index that occurs several times is updated
 * several times, in order; the last set wins. Ties of min and max share the gradient. */
mf_value mf_index_update(mf_value x, mf_value indices, mf_value update);
mf_value mf_index_add(mf_value x, mf_value indices, mf_value update);
mf_value mf_index_multiply(mf_value x, mf_value indices, mf_value update);
mf_value mf_index_min(mf_value x, mf_value indices, mf_value update);
mf_value mf_index_max(mf_value x, mf_value indices, mf_value update);

/* ---- updates at a path. x, update, path -> x: a copy of x after x.at[path].set(update), and the
 * others: mf_at_add(x, 1, mf_range(0, 2), 3). A path is that of mf_get in an array: numbers,
 * ranges, None, arrays of indices. The update broadcasts to the shape of x[path]. Out of bounds,
 * elements of index arrays are dropped; a number is MF_ERROR_AXIS. */
mf_value mf_at_set_n(mf_value x, mf_value update, const mf_value *path, int count);
mf_value mf_at_add_n(mf_value x, mf_value update, const mf_value *path, int count);
mf_value mf_at_multiply_n(mf_value x, mf_value update, const mf_value *path, int count);
mf_value mf_at_min_n(mf_value x, mf_value update, const mf_value *path, int count);
mf_value mf_at_max_n(mf_value x, mf_value update, const mf_value *path, int count);

#ifndef __cplusplus
/* clang-format off */
#define mf_take(x, ...) MF_QUIET_(mf_value, __extension__ ({ \
    mf_value mf_a_ = MF_V_(x, "mf_take: x"); \
    mf_value mf_b_ = MF_V_(MF_FIRST_(__VA_ARGS__, 0), "mf_take: indices"); \
    struct { mf_reserved begin_; mf_axis axis; mf_take_mode mode; } mf_o_ = \
        { .axis = MF_ALL, .begin_ = 0, MF_REST_(__VA_ARGS__, .begin_ = 0) }; \
    mf_take_opt(mf_a_, mf_b_, mf_o_.axis, &(mf_take_options){ .mode = mf_o_.mode }); }))
/* clang-format on */
#endif

MF_END_

#ifdef __cplusplus
inline mf_value mf_take(mf_value x, mf_value indices, mf_axis axis, const mf_take_options &o)
{
    return mf_take_opt(x, indices, axis, &o);
}
#endif

#include <manyfold/lift/indexing.h>

#endif
