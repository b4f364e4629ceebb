/* Trees (pytrees): a tree value is an interned structure and its leaves in order; every other object is a leaf by itself. Invariant: equal
 * structures have one address; dict keys are sorted; None is a structure without leaves. Leaves are arrays, tracers, statics (strings,
 * bytes, modules), or errors; never trees. */
#ifndef MF_TREE_TREE_H
#define MF_TREE_TREE_H

#include "base/handles/handle.h"
#include "base/memory/intern.h"
#include "base/text/string.h"

typedef enum mf_node_kind { MF_NODE_LEAF, MF_NODE_NONE, MF_NODE_TUPLE, MF_NODE_LIST, MF_NODE_DICT } mf_node_kind;

/* The limit on nesting: trees are walked by recursion, which must fit the smallest stack of a thread. */
#define MF_TREE_DEPTH 256

typedef struct mf_structure {
    mf_node_kind kind;
    int child_count;
    int leaf_count;
    int depth;               /* levels of nodes; 0 for a leaf */
    const mf_namelist *keys; /* of a dict, sorted; else NULL */
    const struct mf_structure *children[];
} mf_structure;

const mf_structure *mf_structure_leaf(void);
const mf_structure *mf_structure_none(void);
const mf_structure *mf_structure_node(mf_node_kind kind, const mf_namelist *keys, const mf_structure *const *children, int count);
void mf_structure_print(mf_text *t, const mf_structure *s); /* PyTreeDef-like: ({'b': *, 'w': *}, *) */
/* The same with the leaves printed in place of the asterisks. */
typedef void (*mf_leaf_printer)(mf_text *t, mf_object *leaf);
void mf_structure_print_leaves(mf_text *t, const mf_structure *s, mf_object *const *leaves, mf_leaf_printer print_leaf);
/* A node in words: "a tuple of 2", "a dict with keys {b, w}"; appended to t. */
void mf_structure_describe(mf_text *t, const mf_structure *s);
/* The path of leaf i, as JAX writes it: "[0]['w']"; appended to t. */
void mf_structure_leaf_path(mf_text *t, const mf_structure *s, int leaf);
/* Appends where two structures differ: "at [1]: a dict with keys {b, w} against a tuple of 2". */
void mf_structure_difference(mf_text *t, const mf_structure *a, const mf_structure *b);

typedef struct mf_tree {
    mf_object object;
    const mf_structure *structure; /* never a single leaf */
    int count;
    bool kwargs;         /* a dict of keyword arguments, which are mapped over axis 0 */
    mf_object *leaves[]; /* retained */
} mf_tree;
extern const mf_class mf_tree_class;
/* What o is, for messages: "None", "a tuple of 2", "a string", "an unset value"; interned. */
const char *mf_object_words(const mf_object *o);

/* Views any object as structure and leaves: an object that is no tree is one leaf. The leaves are borrowed from o. */
const mf_structure *mf_tree_flatten(mf_object *o, mf_object *const **leaves, int *count, mf_object **self /* storage for that leaf */);
/* Retains the leaves; a leaf structure gives the leaf itself (retained). NULL when out of memory. */
mf_object *mf_tree_build(const mf_structure *s, mf_object *const *leaves);
mf_object *mf_tree_child(const mf_tree *t, int index); /* a new reference */
/* A node over children that are leaves or trees (borrowed). Returns a new reference, an error if the nesting would be too deep, or NULL
 * when out of memory. */
mf_object *mf_tree_node(mf_node_kind kind, const mf_namelist *keys, mf_object *const *children, int count);
mf_object *mf_first_error_in(mf_object *o); /* the first error leaf, borrowed, or NULL; handling it handles the others too */

/* Statics: leaves that are compile-time constants, compared by kind and bytes. Interned: equal statics are one object. */
typedef struct mf_static_object {
    mf_object object;
    enum { MF_STATIC_STRING, MF_STATIC_BYTES, MF_STATIC_MODULE, MF_STATIC_SLICE } what;
    mf_slice slice;
    mf_object *module; /* retained */
    size_t size;
    const char *bytes; /* interned */
} mf_static_object;
extern const mf_class mf_static_class;
mf_static_object *mf_static_string_new(const char *s);
const char *mf_static_text(const mf_object *o); /* the text of a static string, interned; NULL for any other object */
void mf_static_print(mf_text *t, const mf_static_object *s);

/* Expands an axis specification (mf_axis: an integer, MF_NONE, or an interned tree of them), a prefix of the tree, over a structure: out
 * gets leaf_count entries, MF_NONE where not mapped. Returns NULL, or a new error that names the path where prefix and tree differ. */
mf_error_object *mf_axes_expand(mf_axis axes, const mf_structure *s, const char *what, mf_axis *out);
bool mf_axis_is_tree(mf_axis axis);
void mf_axis_print(mf_text *t, mf_axis axis);
/* The items of a tree of axes (as mf_axes(0, 1) for a reduction); an axis that is no tree is its own only item. */
int mf_axis_count(mf_axis axis);
mf_axis mf_axis_at(mf_axis axis, int index);

#endif
