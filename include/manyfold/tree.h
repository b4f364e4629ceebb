/* manyfold/tree.h - pytrees: tuples, lists, dicts with sorted keys and None, nested, with values
 * at the leaves, as jax.tree's; and x[...], parts of trees and arrays.
 *
 * Leaves have any shapes and dtypes; a comment opens with what goes in and comes out: trees ->
 * tree. A tree is immutable: mf_set gives another one. It holds its leaves, and belongs to the
 * innermost scope. An error as a part of a tree is the tree's error. Any thread. Errors: where
 * trees do not have one structure, or a path leads nowhere, MF_ERROR_TREE names the place. */
#ifndef MANYFOLD_TREE_H
#define MANYFOLD_TREE_H
#ifndef MF_CHECK_HEADERS_
#pragma GCC system_header
#endif

#include <manyfold/base.h>

MF_BEGIN_

/* ---- making. -> None */
mf_value mf_none(void);
/* trees -> tuple, list: mf_tuple(x, 1), mf_list() */
mf_value mf_tuple_n(const mf_value *items, int count);
mf_value mf_list_n(const mf_value *items, int count);
/* keys and trees -> dict: mf_dict("w", w, "b", b), its keys sorted; MF_ERROR_TREE for a key
 * twice */
mf_value mf_dict_n(const mf_value *keys_and_values, int count);
/* keys and trees -> dict: as the last argument of mf_call: mapped over axis 0; arrives as a dict */
mf_value mf_kwargs_n(const mf_value *keys_and_values, int count);

/* ---- parts */
/* tree, path -> tree: the part that the path names: a key for each dict, a number for each tuple or
 * list;
 * and from an array on, NumPy's x[path]: numbers (a negative one from the end), ranges
 * (mf_range, mf_slice), None for a new dimension, integers traced or in arrays, which broadcast
 * and take the place of the dimensions that they index, or go in front where they do not stand
 * together. A number out of bounds is MF_ERROR_AXIS, what is not known while tracing is moved
 * inside. */
mf_value mf_get_n(mf_value tree, const mf_value *path, int count);
/* tree, leaf, path -> tree: with another leaf there; an array's update is broadcast */
mf_value mf_set_n(mf_value tree, mf_value leaf, const mf_value *path, int count);
/* tree -> C: items of a tree, or the first dimension of an array; -1 on an error */
int mf_len(mf_value v);
/* dict -> C: its keys are sorted, as in JAX; NULL beyond. Lives as long as the process */
const char *mf_key(mf_value dict, int index);
/* tree -> C: its items into as many variables: mf_unpack(pair, &a, &b), which are errors where the
 * number is another */
void mf_unpack_n(mf_value tree, mf_value *const *variables, int count);

/* ---- leaves */
/* trees -> tree: f(leaf, ...) in place of each leaf of the first; the others have its structure */
mf_value mf_tree_map_n(mf_function f, const mf_value *trees, int count);
/* trees -> tree: f(path, leaf, ...); the path: a string, "['layers'][0]['w']" */
mf_value mf_tree_map_with_path_n(mf_function f, const mf_value *trees, int count);
/* What a value is. A tracer is an array of which no number is known yet. */
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
/* any -> C: looking at an error does not handle it */
mf_kind mf_kind_of(mf_value v);
/* tree -> list: from the left to the right, dicts by their keys */
mf_value mf_tree_leaves(mf_value tree);
/* tree, list -> tree: leaves in the structure of like */
mf_value mf_tree_unflatten(mf_value like, mf_value leaves);
/* tree, value -> value: f(...f(f(initial, leaf), leaf)..., leaf) */
mf_value mf_tree_reduce(mf_function f, mf_value tree, mf_value initial);

/* ---- trees of axes, for in_axes and out_axes: mf_axes(0, MF_NONE), one an argument or item, and
 * mf_axes_dict("x", 0, ...) for a dict. Interned for the life of the process. */
mf_axis mf_axes_n(const mf_axis *axes, int count);
typedef struct mf_named_axis {
    const char *key;
    mf_axis axis;
} mf_named_axis;
mf_axis mf_axes_dict_n(const mf_named_axis *axes, int count);
/* axis -> C: those of `rank` dimensions that a number, mf_axes(...) of numbers or MF_ALL names, none
 * negative; count is -1 where one is beyond the rank or named twice */
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
mf_slice mf_range(int64_t start, int64_t stop); /* x[start:stop]; stop may be MF_END */

/* MF_RECORD(linear, w, b); declares   typedef struct linear { mf_value w, b; } linear;   and two
 * functions:
 * mf_value linear_pack(linear) gives {"b": b, "w": w};  linear linear_unpack(mf_value) is the way
 * back. */
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
