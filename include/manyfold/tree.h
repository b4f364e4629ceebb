/* manyfold/tree.h - pytrees: tuples, lists, dicts with sorted keys and None, nested, with values
 * at the leaves.
 *
 * A tree is immutable: mf_set gives another one. Where trees do not have one structure, or a
 * path leads nowhere, MF_ERROR_TREE names the place. */
#ifndef MANYFOLD_TREE_H
#define MANYFOLD_TREE_H
#ifndef MF_CHECK_HEADERS_
#pragma GCC system_header
#endif

#include <manyfold/base.h>

MF_BEGIN_

/* ------------------------------------------------------------------ trees */
mf_value mf_none(void);
mf_value mf_tuple_n(const mf_value *items, int count);
mf_value mf_list_n(const mf_value *items, int count);
mf_value mf_dict_n(const mf_value *keys_and_values, int count);
/* As the last argument of mf_call: mapped over axis 0; arrives as a dict */
mf_value mf_kwargs_n(const mf_value *keys_and_values, int count);
/* The part of a tree that the path names: a key for each dict, a number for each tuple or list;
 * and from an array on, NumPy's x[path]: numbers (a negative one from the end), ranges
 * (mf_range, mf_slice), None for a new dimension, integers traced or in arrays, which broadcast
 * and take the place of the dimensions that they index, or go in front where they do not stand
 * together. A number out of bounds is MF_ERROR_AXIS, what is not known while tracing is moved
 * inside. mf_set: the tree, or the array, with another leaf there; an array's update is
 * broadcast. */
mf_value mf_get_n(mf_value tree, const mf_value *path, int count);
mf_value mf_set_n(mf_value tree, mf_value leaf, const mf_value *path, int count);
int mf_len(mf_value v); /* items of a tree, first dimension of an array; -1 on an error */
const char *mf_key(mf_value dict, int index); /* dict keys are sorted, as in JAX */
void mf_unpack_n(mf_value tree, mf_value *const *variables, int count);
mf_value mf_tree_map_n(mf_function f, const mf_value *trees, int count);
/* f(path, leaf, ...); the path: a string, "['layers'][0]['w']" */
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
mf_kind mf_kind_of(mf_value v);         /* looking at an error does not handle it */
mf_value mf_tree_leaves(mf_value tree); /* a list */
mf_value mf_tree_unflatten(mf_value like, mf_value leaves);
mf_value mf_tree_reduce(mf_function f, mf_value tree, mf_value initial);
mf_axis mf_axes_n(const mf_axis *axes, int count);
typedef struct mf_named_axis {
    const char *key;
    mf_axis axis;
} mf_named_axis;
mf_axis mf_axes_dict_n(const mf_named_axis *axes, int count);
#ifndef __cplusplus
#define mf_unpack(x, ...) \
    mf_unpack_n(mf_v(x), (mf_value *const[]){ __VA_ARGS__ }, MF_COUNT_(__VA_ARGS__))
#define mf_axes(...) mf_axes_n((const mf_axis[]){ __VA_ARGS__ }, MF_COUNT_(__VA_ARGS__))
#define mf_axes_dict(...) \
    mf_axes_dict_n((const mf_named_axis[]){ __VA_ARGS__ }, MF_COUNT_(__VA_ARGS__) / 2)
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

#include <manyfold/lift/tree.h>

#endif
