/* Trees of axes stored in an mf_axis. Invariant: a tree is interned and never freed; its mf_axis is its address with the top bit set, a
 * value that no axis number, MF_NONE or MF_ALL has. */
#include "tree/tree.h"

#include "base/memory/alloc.h"

#include <manyfold/tree.h>

#include <stdlib.h>
#include <string.h>

typedef struct axis_tree {
    int count, depth;        /* depth: the number of levels of trees below */
    const mf_namelist *keys; /* NULL: a tuple */
    mf_axis at[];
} axis_tree;

static _Atomic(mf_interner *) trees;

bool mf_axis_is_tree(mf_axis axis) { return axis > MF_ALL && axis < INT64_MIN / 2; }

static const axis_tree *tree_of(mf_axis axis)
{
    return (const axis_tree *)(uintptr_t)((uint64_t)axis & ~((uint64_t)1 << 63)); /* NOLINT(performance-no-int-to-ptr) */
}

/* The result when a tree of axes cannot be made: out of memory, a negative count, or nesting too deep. It is out of bounds for every rank,
 * so the function that takes it reports an error. */
static const mf_axis no_axis = INT64_MAX;

static mf_axis intern_tree(const mf_namelist *keys, const mf_axis *axes, int count)
{
    MF_PARENT_ONLY(no_axis);
    size_t size = sizeof(axis_tree) + (size_t)count * sizeof *axes;
    axis_tree *t = mf_calloc(1, size);
    if (!t)
        return no_axis;
    t->count = count;
    t->keys = keys;
    if (count)
        memcpy(t->at, axes, (size_t)count * sizeof *axes);
    for (int i = 0; i < count; i++)
        if (mf_axis_is_tree(axes[i]) && tree_of(axes[i])->depth >= t->depth)
            t->depth = tree_of(axes[i])->depth + 1;
    const void *found = t->depth >= MF_TREE_DEPTH ? NULL : mf_interner_get(mf_interner_static(&trees), t, size);
    mf_free(t);
    return found ? (mf_axis)((uint64_t)(uintptr_t)found | (uint64_t)1 << 63) : no_axis;
}

mf_axis mf_axes_n(const mf_axis *axes, int count) { return count < 0 ? no_axis : intern_tree(NULL, axes, count); }

static int by_key(const void *a, const void *b) { return strcmp(((const mf_named_axis *)a)->key, ((const mf_named_axis *)b)->key); }

mf_axis mf_axes_dict_n(const mf_named_axis *axes, int count)
{
    MF_PARENT_ONLY(no_axis);
    if (count < 0)
        return no_axis;
    mf_named_axis *sorted = mf_alloc((size_t)count * sizeof *sorted);
    const char **keys = mf_alloc((size_t)count * sizeof *keys);
    mf_axis *at = mf_alloc((size_t)count * sizeof *at), result = no_axis;
    if (sorted && keys && at) {
        if (count)
            memcpy(sorted, axes, (size_t)count * sizeof *sorted);
        qsort(sorted, (size_t)count, sizeof *sorted, by_key);
        for (int i = 0; i < count; i++) {
            keys[i] = sorted[i].key;
            at[i] = sorted[i].axis;
        }
        const mf_namelist *names = mf_names_intern(keys, count);
        result = names ? intern_tree(names, at, count) : no_axis;
    }
    mf_free(sorted);
    mf_free(keys);
    mf_free(at);
    return result;
}

int mf_axis_count(mf_axis axis) { return mf_axis_is_tree(axis) ? tree_of(axis)->count : 1; }
mf_axis mf_axis_at(mf_axis axis, int index) { return mf_axis_is_tree(axis) ? tree_of(axis)->at[index] : axis; }

mf_ints mf_axes_of(mf_axis axis, int rank)
{
    mf_ints out = { .count = -1 }, named = { .count = axis == MF_ALL ? rank : mf_axis_count(axis) };
    unsigned seen = 0;
    if (rank < 0 || rank > MF_MAX_RANK || named.count > rank)
        return out;
    for (int i = 0; i < named.count; i++) {
        mf_axis at = axis == MF_ALL ? i : mf_axis_at(axis, i);
        if (at < -rank || at >= rank || seen >> (at < 0 ? at + rank : at) & 1)
            return out;
        named.at[i] = at < 0 ? at + rank : at;
        seen |= 1u << named.at[i];
    }
    return named;
}

/* ---- text */

void mf_axis_print(mf_text *t, mf_axis axis)
{
    if (axis == MF_NONE)
        mf_text_put(t, "None");
    else if (axis == MF_ALL)
        mf_text_put(t, "all");
    else if (!mf_axis_is_tree(axis))
        mf_text_add(t, "%lld", (long long)axis);
    if (!mf_axis_is_tree(axis))
        return;
    const axis_tree *tree = tree_of(axis);
    mf_text_put(t, tree->keys ? "{" : "(");
    for (int i = 0; i < tree->count; i++) {
        mf_text_put(t, i ? ", " : "");
        if (tree->keys)
            mf_text_add(t, "'%s': ", tree->keys->at[i]);
        mf_axis_print(t, tree->at[i]);
    }
    mf_text_put(t, tree->keys ? "}" : tree->count == 1 ? ",)" : ")");
}

/* ---- expansion */

typedef struct expansion {
    mf_text path;
    mf_axis *out;
    int count;
} expansion;

/* Writes the axes of each leaf of s to x. Where axes and tree differ, false, and t says how. */
static bool expand(expansion *x, mf_axis axis, const mf_structure *s, mf_text *t)
{
    if (!mf_axis_is_tree(axis)) {
        for (int i = 0; i < s->leaf_count; i++)
            x->out[x->count++] = axis;
        return true;
    }
    const axis_tree *tree = tree_of(axis);
    bool alike = tree->keys ? s->kind == MF_NODE_DICT && tree->keys == s->keys
                            : (s->kind == MF_NODE_TUPLE || s->kind == MF_NODE_LIST) && tree->count == s->child_count;
    if (!alike) {
        mf_text_add(t, "at %s the axes are ", x->path.count ? x->path.at : "the top");
        mf_axis_print(t, axis);
        mf_text_put(t, ", but the value is ");
        mf_structure_describe(t, s);
        return false;
    }
    size_t length = x->path.count;
    for (int i = 0; i < tree->count; i++) {
        if (tree->keys)
            mf_text_add(&x->path, "['%s']", tree->keys->at[i]);
        else
            mf_text_add(&x->path, "[%d]", i);
        if (!expand(x, tree->at[i], s->children[i], t))
            return false;
        x->path.count = length;
        if (x->path.at)
            x->path.at[length] = 0;
    }
    return true;
}

mf_error_object *mf_axes_expand(mf_axis axes, const mf_structure *s, const char *what, mf_axis *out)
{
    expansion x = { .out = out };
    mf_text why = { 0 };
    mf_error_object *error = NULL;
    if (!expand(&x, axes, s, &why)) {
        mf_text_put(&why, "; the whole: axes ");
        mf_axis_print(&why, axes);
        mf_text_put(&why, ", value ");
        mf_structure_print(&why, s);
        error = why.failed ? mf_error_out_of_memory()
                           : mf_error_new(MF_ERROR_TREE, "%s must be a tree prefix of the corresponding value: %s", what, why.at);
    }
    mf_text_free(&x.path);
    mf_text_free(&why);
    return error;
}
