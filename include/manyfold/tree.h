/* manyfold/tree.h - pytrees, as jax.tree's: tuples, lists, dicts and None, nested, with values at
 * the leaves; indexing x[...] of trees and arrays; and trees of axes.
 *
 * Leaves have any shapes and dtypes; a comment opens with the arguments and the result: trees ->
 * tree. The keys of a dict are sorted. Trees are immutable: mf_set returns a new one. A tree keeps
 * its leaves alive, and belongs to the innermost scope. A tree with an error inside counts as that
 * error. Any thread. Errors: MF_ERROR_TREE, which names the place, where the structures of trees
 * differ or a path leads nowhere. */
#ifndef MANYFOLD_TREE_H
#define MANYFOLD_TREE_H
#ifndef MF_CHECK_HEADERS_
#pragma GCC system_header
#endif

#include <manyfold/base.h>

MF_BEGIN_

/* ---- making trees. -> None */
mf_value mf_none(void);
/* trees -> tuple, list: mf_tuple(x, 1), mf_list(x, y), mf_list() for an empty one */
mf_value mf_tuple_n(const mf_value *items, int count);
mf_value mf_list_n(const mf_value *items, int count);
/* keys and trees -> dict: mf_dict("w", w, "b", b); count counts keys and trees. MF_ERROR_TREE for a
 * key given twice */
mf_value mf_dict_n(const mf_value *keys_and_values, int count);
/* keys and trees -> dict: keyword arguments, as the last argument of mf_call. f receives a dict; a
 * map maps it over axis 0, whatever in_axes says */
mf_value mf_kwargs_n(const mf_value *keys_and_values, int count);
/* ---- parts of trees and arrays */
/* tree, path -> tree: the part at the path: mf_get(params, "layers", 0, "w"). A path has a key for
 * each dict and a number for each tuple or list (negative: from the end). Once it reaches an array,
 * the rest is NumPy's x[...]: numbers, ranges (mf_range, mf_slice), None for a new dimension,
 * traced integers and arrays of integers. Arrays of indices broadcast together and take the place
 * of the dimensions that they index, or come first where those are not adjacent. A number out of
 * bounds is MF_ERROR_AXIS; traced indices and arrays of indices are clamped, as in JAX. */
mf_value mf_get_n(mf_value tree, const mf_value *path, int count);
/* tree, leaf, path -> tree: a copy with another leaf at the path: mf_set(params, w, "layers", 0,
 * "w"). In an array the leaf is broadcast; a new last key is added to its dict */
mf_value mf_set_n(mf_value tree, mf_value leaf, const mf_value *path, int count);
/* tree -> C: the number of items, or of an array the size of its first dimension; -1 on an error
 * and for a scalar */
int mf_len(mf_value v);
/* dict -> C: key number `index` in sorted order; NULL when out of range. Lives as long as the
 * process */
const char *mf_key(mf_value dict, int index);
/* tree -> C: stores the items in variables: mf_unpack(pair, &a, &b). Where their number differs,
 * the variables become errors */
void mf_unpack_n(mf_value tree, mf_value *const *variables, int count);

/* ---- operations on leaves */
/* trees -> tree: jax.tree.map: the first tree with f(leaf, ...) in place of each leaf; the other
 * trees must have its structure */
mf_value mf_tree_map_n(mf_function f, const mf_value *trees, int count);
/* trees -> tree: jax.tree_util.tree_map_with_path: f(path, leaf, ...), where path is a string like
 * "['layers'][0]['w']" */
mf_value mf_tree_map_with_path_n(mf_function f, const mf_value *trees, int count);
/* What a value is. A tracer is an array whose numbers are not known yet, during a trace. */
typedef enum mf_kind {
    MF_KIND_UNSET = 0,
    MF_KIND_ERROR,
    MF_KIND_NONE,
    MF_KIND_TUPLE,
    MF_KIND_LIST,
    MF_KIND_DICT,
    MF_KIND_ARRAY,
    MF_KIND_TRACER,
    MF_KIND_STRUCT,
    MF_KIND_STATIC
} mf_kind;
/* any -> C: does not handle an error */
mf_kind mf_kind_of(mf_value v);
/* tree -> list: the leaves from left to right, those of dicts in the order of their keys */
mf_value mf_tree_leaves(mf_value tree);
/* tree, list -> tree: the leaves in the structure of `like` */
mf_value mf_tree_unflatten(mf_value like, mf_value leaves);
/* tree, value -> value: jax.tree.reduce: f(...f(f(initial, leaf), leaf)..., leaf) */
mf_value mf_tree_reduce(mf_function f, mf_value tree, mf_value initial);

/* ---- trees of axes, for in_axes and out_axes: mf_axes(0, MF_NONE) has one axis for each argument
 * or item, mf_axes_dict("x", 0, ...) one for each key. They may be nested, and are interned, so
 * they live as long as the process. */
mf_axis mf_axes_n(const mf_axis *axes, int count);
typedef struct mf_named_axis {
    const char *key;
    mf_axis axis;
} mf_named_axis;
mf_axis mf_axes_dict_n(const mf_named_axis *axes, int count);
/* axis -> C: for an array of `rank` dimensions, the axes that a number, mf_axes(...) of numbers or
 * MF_ALL names, as numbers from 0; count is -1 where one is out of bounds or named twice */
mf_ints mf_axes_of(mf_axis axis, int rank);
#ifndef __cplusplus
#define mf_unpack(x, ...)                                                                     \
    mf_unpack_n(MF_V_(x, "mf_unpack: tree"), (mf_value *const[]){ MF_NUMBERS_(__VA_ARGS__) }, \
                MF_LENGTH_(__VA_ARGS__))
#define mf_axes(...) \
    mf_axes_n((const mf_axis[]){ MF_NUMBERS_(__VA_ARGS__) }, MF_LENGTH_(__VA_ARGS__))
#define mf_axes_dict(...) \
    mf_axes_dict_n((const mf_named_axis[]){ MF_NUMBERS_(__VA_ARGS__) }, MF_LENGTH_(__VA_ARGS__) / 2)
#endif
/* As an index of mf_get and mf_set: x[start:stop]; stop may be MF_END. -1 counts from the end */
mf_slice mf_range(int64_t start, int64_t stop);

/* Structs as dicts: MF_RECORD(linear, w, b); declares
 *     typedef struct linear { mf_value w, b; } linear;
 *     mf_value linear_pack(linear);    gives {"b": b, "w": w}
 *     linear linear_unpack(mf_value);  the way back, from a dict with exactly these keys */
mf_value mf_record_pack_(const char *type, const char *fields, const mf_value *values, size_t size);
void mf_record_unpack_(const char *type, const char *fields, mf_value tree, mf_value *values,
                       size_t size);
#define MF_RECORD(type, ...)                                                                   \
    typedef struct type {                                                                      \
        mf_value __VA_ARGS__;                                                                  \
    } type;                                                                                    \
    __attribute__((unused)) static inline mf_value type##_pack(type record)                    \
    {                                                                                          \
        return mf_record_pack_(#type, #__VA_ARGS__, (const mf_value *)&record, sizeof record); \
    }                                                                                          \
    __attribute__((unused)) static inline type type##_unpack(mf_value tree)                    \
    {                                                                                          \
        type record;                                                                           \
        mf_record_unpack_(#type, #__VA_ARGS__, tree, (mf_value *)&record, sizeof record);      \
        return record;                                                                         \
    }                                                                                          \
    struct type

MF_END_

#ifdef __cplusplus
template <class... A> inline mf_axis mf_axes(A... a)
{
    const mf_axis v[] = { mf_axis(a)... };
    return mf_axes_n(v, (int)sizeof...(A));
}
inline void mf_name_axes_(mf_named_axis *) {}
template <class... P>
inline void mf_name_axes_(mf_named_axis *to, const char *key, mf_axis axis, P... pairs)
{
    *to = { key, axis };
    mf_name_axes_(to + 1, pairs...);
}
template <class... P> inline mf_axis mf_axes_dict(P... pairs)
{
    static_assert(sizeof...(P) % 2 == 0, "each key has an axis");
    mf_named_axis v[sizeof...(P) / 2 + 1];
    mf_name_axes_(v, pairs...);
    return mf_axes_dict_n(v, (int)(sizeof...(P) / 2));
}
template <class... V> inline void mf_unpack(mf_value tree, V *...variables)
{
    mf_value *const v[] = { variables... };
    mf_unpack_n(tree, v, (int)sizeof...(V));
}
#endif

#include <manyfold/lift/tree.h>

#endif
