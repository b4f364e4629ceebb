/* Mapping and reducing over trees with the user's functions. Invariant: each call runs in a scope of its own, so only its result stays. */
#include "tree/tree.h"

#include "base/alloc.h"

#include <manyfold/function.h>

typedef struct mapping {
    mf_function f;
    int count;         /* of trees */
    mf_object **trees; /* retained */
    mf_object *const **leaves;
    bool *single; /* this tree is one leaf and serves every call */
    mf_value *arguments;
} mapping;

static mf_value value_or_memory(void *object) { return mf_value_new(object ? object : mf_error_out_of_memory()); }

/* f of the i-th leaves: a new reference. */
static mf_object *call(mapping *m, int i)
{
    MF_SCOPE;
    for (int k = 0; k < m->count; k++)
        m->arguments[k] = mf_value_of(m->leaves[k][m->single[k] ? 0 : i]);
    mf_object *o = mf_object_of(mf_call_n(m->f, m->arguments, m->count));
    return o ? mf_retain(o) : &mf_error_new(MF_ERROR_ARGUMENT, "mf_tree_map: the function returned an unset value")->object;
}

/* The result over one node; an error of a call is the whole result, for what follows would be noise. */
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

/* Fills m from the trees; the first one's structure, or NULL and *error. */
static const mf_structure *prepare(mapping *m, const mf_value *trees, mf_error_object **error)
{
    const mf_structure *first = NULL;
    for (int k = 0; k < m->count && !*error; k++) {
        int n;
        mf_object *o = m->trees[k] = mf_retain(mf_object_of(trees[k]));
        const mf_structure *s = mf_tree_flatten(o, &m->leaves[k], &n, &m->trees[k]);
        if (!o)
            *error = mf_error_new(MF_ERROR_ARGUMENT, "mf_tree_map: tree %d is an unset value", k);
        else if (mf_object_is(o, &mf_error_class))
            *error = mf_retain(o);
        else if (k == 0)
            first = s;
        else if (s != first && s->kind != MF_NODE_LEAF)
            *error = parted(first, s, k);
        m->single[k] = k > 0 && s->kind == MF_NODE_LEAF;
    }
    return *error ? NULL : first;
}

mf_value mf_tree_map_n(mf_function f, const mf_value *trees, int count)
{
    MF_ENTER;
    if (count < 1)
        return mf_fail(MF_ERROR_ARGUMENT, "mf_tree_map: no tree to map over");
    mapping m = { .f = f,
                  .count = count,
                  .trees = mf_calloc((size_t)count, sizeof *m.trees),
                  .leaves = mf_calloc((size_t)count, sizeof *m.leaves),
                  .single = mf_calloc((size_t)count, sizeof *m.single),
                  .arguments = mf_calloc((size_t)count, sizeof *m.arguments) };
    mf_error_object *error = m.trees && m.leaves && m.single && m.arguments ? NULL : mf_error_out_of_memory();
    int next = 0;
    const mf_structure *s = error ? NULL : prepare(&m, trees, &error);
    mf_value v = s ? value_or_memory(over(&m, s, &next)) : mf_value_new(error);
    for (int k = 0; m.trees && k < count; k++)
        mf_drop(m.trees[k]);
    mf_free(m.trees);
    mf_free((void *)m.leaves);
    mf_free(m.single);
    mf_free(m.arguments);
    return v;
}

mf_value mf_tree_reduce(mf_function f, mf_value tree, mf_value initial)
{
    MF_ENTER;
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
