/* Mapping and reducing over trees with the user's functions. Invariant: each call runs in a scope of its own, so only its result
 * survives. */
#include "tree/tree.h"

#include "base/memory/alloc.h"

#include <manyfold/function.h>

typedef struct mapping {
    mf_function f;
    int count;                     /* of trees */
    bool with_path;                /* f's first argument is the path of the leaf */
    const mf_structure *structure; /* of the first tree */
    mf_object **trees;             /* retained */
    mf_object *const **leaves;
    bool *single; /* the tree is a single leaf, which is passed to every call */
    mf_value *arguments;
} mapping;

static mf_value value_or_memory(void *object) { return mf_value_new(object ? object : mf_error_out_of_memory()); }

static mf_value path_of(const mf_structure *s, int leaf)
{
    mf_text t = { 0 };
    mf_structure_leaf_path(&t, s, leaf);
    mf_value v = t.failed ? mf_value_new(mf_error_out_of_memory()) : mf_string(t.at ? t.at : "");
    mf_text_free(&t);
    return v;
}

/* Calls f on the i-th leaves; returns a new reference. */
static mf_object *call(mapping *m, int i)
{
    MF_SCOPE;
    if (m->with_path)
        m->arguments[0] = path_of(m->structure, i);
    for (int k = 0; k < m->count; k++)
        m->arguments[k + m->with_path] = mf_value_of(m->leaves[k][m->single[k] ? 0 : i]);
    mf_object *o = mf_object_of(mf_call_n(m->f, m->arguments, m->count + m->with_path));
    return o ? mf_retain(o) : &mf_error_new(MF_ERROR_ARGUMENT, "mf_tree_map: the function returned an unset value")->object;
}

/* The result for one node. If a call gives an error, that error is the whole result and the mapping stops. */
static mf_object *over(mapping *m, const mf_structure *s, int *next)
{
    if (s->kind == MF_NODE_LEAF)
        return call(m, (*next)++);
    if (s->kind == MF_NODE_NONE)
        return mf_tree_build(s, NULL);
    mf_object **children = mf_calloc((size_t)s->child_count, sizeof *children), *o = NULL;
    bool whole = children != NULL;
    for (int i = 0; i < s->child_count && whole; i++) {
        children[i] = over(m, s->children[i], next);
        whole = children[i] != NULL;
        if (mf_object_is(children[i], &mf_error_class)) {
            o = mf_retain(children[i]);
            whole = false;
        }
    }
    if (whole)
        o = mf_tree_node(s->kind, s->keys, children, s->child_count);
    for (int i = 0; children && i < s->child_count; i++)
        mf_drop(children[i]);
    mf_free(children);
    return o;
}

static mf_error_object *parted(const mf_structure *a, const mf_structure *b, int which)
{
    mf_text t = { 0 };
    mf_structure_difference(&t, a, b);
    mf_error_object *e = t.failed ? mf_error_out_of_memory()
                                  : mf_error_new(MF_ERROR_TREE, "mf_tree_map: the first tree and tree %d part %s", which, t.at);
    mf_text_free(&t);
    return e;
}

/* Takes tree k into m; returns NULL or an error. */
static mf_error_object *take(mapping *m, int k, mf_value tree)
{
    int n;
    mf_object *o = m->trees[k] = mf_retain(mf_object_of(tree));
    const mf_structure *s = mf_tree_flatten(o, &m->leaves[k], &n, &m->trees[k]);
    if (!o)
        return mf_error_new(MF_ERROR_ARGUMENT, "mf_tree_map: tree %d is an unset value", k);
    if (mf_object_is(o, &mf_error_class))
        return mf_retain(o);
    if (k == 0)
        m->structure = s;
    else if (s != m->structure && s->kind != MF_NODE_LEAF)
        return parted(m->structure, s, k);
    m->single[k] = k > 0 && s->kind == MF_NODE_LEAF;
    return NULL;
}

static mf_value map(mapping *m, const mf_value *trees)
{
    if (!m->trees || !m->leaves || !m->single || !m->arguments)
        return mf_value_new(mf_error_out_of_memory());
    for (int k = 0; k < m->count; k++) {
        mf_error_object *error = take(m, k, trees[k]);
        if (error) {
            for (int i = k + 1; i < m->count; i++) {
                mf_object *other = mf_first_error_in(mf_object_of(trees[i]));
                if (other)
                    mf_error_join(error, (mf_error_object *)other);
            }
            return mf_value_new(error);
        }
    }
    int next = 0;
    return value_or_memory(over(m, m->structure, &next));
}

static mf_value map_trees(mf_function f, const mf_value *trees, int count, bool with_path)
{
    if (count < 1)
        return mf_fail(MF_ERROR_ARGUMENT, "mf_tree_map: no tree to map over");
    size_t n = (size_t)count;
    mapping m = { f,
                  count,
                  with_path,
                  mf_structure_leaf(),
                  mf_calloc(n, sizeof *m.trees),
                  mf_calloc(n, sizeof *m.leaves),
                  mf_calloc(n, sizeof *m.single),
                  mf_calloc(n + 1, sizeof *m.arguments) };
    mf_value v = map(&m, trees);
    for (int k = 0; m.trees && k < count; k++)
        mf_drop(m.trees[k]);
    mf_free(m.trees);
    mf_free((void *)m.leaves);
    mf_free(m.single);
    mf_free(m.arguments);
    return v;
}

mf_value mf_tree_map_n(mf_function f, const mf_value *trees, int count)
{
    MF_ENTER(MF_FORKED);
    return map_trees(f, trees, count, false);
}

mf_value mf_tree_map_with_path_n(mf_function f, const mf_value *trees, int count)
{
    MF_ENTER(MF_FORKED);
    return map_trees(f, trees, count, true);
}

mf_value(mf_tree_reduce)(mf_function f, mf_value tree, mf_value initial)
{
    MF_ENTER(MF_FORKED);
    mf_object *o = mf_retain(mf_object_of(tree)), *so_far = mf_retain(mf_object_of(initial)), *self, *const * leaves;
    int count = 0;
    if (mf_object_is(o, &mf_error_class)) {
        mf_drop(so_far);
        return mf_value_new(o);
    }
    if (o)
        mf_tree_flatten(o, &leaves, &count, &self);
    for (int i = 0; i < count && so_far && !mf_object_is(so_far, &mf_error_class); i++) {
        MF_SCOPE;
        const mf_value arguments[] = { mf_value_of(so_far), mf_value_of(leaves[i]) };
        mf_object *next = mf_retain(mf_object_of(mf_call_n(f, arguments, 2)));
        mf_drop(so_far);
        so_far = next;
    }
    mf_value v = o && so_far ? mf_value_of(so_far)
                             : mf_fail(MF_ERROR_ARGUMENT, "mf_tree_reduce: %s unset", o ? "a value is" : "the tree is");
    mf_drop(so_far);
    mf_drop(o);
    return v;
}
