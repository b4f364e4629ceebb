/* optimization_barrier and checkpoint_name over trees. Invariant: leaves that are not arrays are passed through. */
#include "ops/emit.h"
#include "ops/elementwise/loops.h"
#include "lax/wrap.h"
#include "transform/rules/sweep.h"
#include "tree/tree.h"
#include <manyfold/control.h>
#include <manyfold/transforms.h>
#include <string.h>

static bool is_array(const mf_object *o) { return mf_object_type(o); }

/* Passes the arrays among the leaves through one equation (name NULL: a barrier) or one each; other leaves are kept. */
static mf_object *rebuilt(mf_object *o, const char *name)
{
    mf_object *const *leaves, *self;
    int count, n = 0;
    const mf_structure *s = mf_tree_flatten(o, &leaves, &count, &self);
    mf_value *in = mf_calloc(2 * (size_t)count + 1, sizeof *in), *out = in + count;
    mf_object **made = mf_calloc((size_t)count + 1, sizeof *made), *tree = NULL;
    for (int i = 0; in && i < count; i++)
        if (is_array(leaves[i]))
            in[n++] = mf_value_of(leaves[i]);
    for (int i = 0; in && name && i < n; i++)
        out[i] = mf_bind(&mf_op_checkpoint_name, &(mf_name_params){ name }, 1, in[i]);
    if (in && !name && n)
        mf_bind_n(&mf_op_optimization_barrier, NULL, in, n, out, n);
    for (int i = 0, next = 0; in && made && i < count; i++)
        made[i] = is_array(leaves[i]) ? mf_object_of(out[next++]) : leaves[i];
    if (in && made)
        tree = mf_tree_build(s, made);
    mf_free(in);
    mf_free(made);
    return tree;
}

static mf_value over_tree(mf_value tree, const char *name)
{
    mf_object *o = mf_object_of(tree);
    if (!o)
        return mf_fail(MF_ERROR_ARGUMENT, "an unset value is no tree of arrays");
    mf_object *made = rebuilt(o, name);
    return mf_value_new(made ? (void *)made : mf_error_out_of_memory());
}

mf_value(mf_optimization_barrier)(mf_value tree)
{
    MF_ENTER(MF_FORKED);
    return over_tree(tree, NULL);
}

mf_value(mf_checkpoint_name)(mf_value tree, const char *name)
{
    MF_ENTER(MF_FORKED);
    if (!name)
        return mf_fail(MF_ERROR_ARGUMENT, "mf_checkpoint_name: a value needs a name");
    return over_tree(tree, mf_intern(name));
}
