/* check_replicated of trees. Invariant: outside maps, the rows of an array are compared at once, bit by bit. */
#include "ops/collective/collective.h"
#include "lax/wrap.h"
#include <manyfold/collective.h>
#include <string.h>

/* Outside maps: compares the rows of an array along its leading axis, one per device. */
static mf_value check_rows(const mf_array *a, const char *leaf)
{
    mf_error_object *error = mf_array_wait(a);
    if (error)
        return mf_value_new(error);
    if (!a->type->rank || !a->type->dims[0])
        return mf_fail(MF_ERROR_SHAPE, "check_replicated: %s has no axis of replicas (%s)", *leaf ? leaf : "the value",
                       mf_type_name(a->type));
    if (!a->strides[0])
        return mf_value_of(a);
    mf_literal *rows = mf_literal_rows_of((mf_array *)(uintptr_t)a, &error);
    if (error)
        return mf_value_new(error);
    int64_t count = a->type->dims[0], bytes = a->type->bytes / count;
    const unsigned char *data = rows->data;
    mf_text differ = { 0 };
    for (int64_t i = 1; i < count; i++)
        if (memcmp(data, data + i * bytes, (size_t)bytes) != 0)
            mf_text_add(&differ, differ.count ? ", %lld" : "%lld", (long long)i);
    mf_value r = differ.count ? mf_fail(MF_ERROR_DEVICE, "check_replicated: %s differs between replicas: %s hold other bits than replica 0",
                                        *leaf ? leaf : "the value", differ.at)
                              : mf_value_of(a);
    mf_text_free(&differ);
    mf_drop(rows);
    return r;
}

static mf_value check_leaf(mf_object *o, const char *axis_name, const char *leaf)
{
    mf_value x = mf_expect_array(mf_value_of(o), "check_replicated");
    if (!mf_value_type(x))
        return x;
    const mf_array *a = mf_trace_current() ? NULL : (const mf_array *)mf_handle_get_as(x.handle, &mf_array_class);
    if (!axis_name)
        return a ? check_rows(a, leaf) : mf_fail(MF_ERROR_AXIS, "check_replicated: inside a map it needs the axis name");
    const char *name = mf_intern(axis_name);
    mf_replicated_params p = { mf_names_intern(&name, 1), mf_intern(leaf) };
    return mf_bind(&mf_op_check_replicated, &p, 1, x);
}

mf_value(mf_check_replicated)(mf_value tree, const char *axis_name)
{
    MF_ENTER(MF_FORKED);
    mf_object *o = mf_retain(mf_object_of(tree)), *const * leaves, *self, **out;
    int n;
    if (!o || mf_object_is(o, &mf_error_class)) {
        mf_drop(o);
        return o ? tree : mf_fail(MF_ERROR_ARGUMENT, "check_replicated of an unset value");
    }
    const mf_structure *s = mf_tree_flatten(o, &leaves, &n, &self);
    mf_value first = { 0 };
    out = mf_alloc(((size_t)n + 1) * sizeof *out);
    for (int i = 0; out && i < n; i++) {
        mf_text path = { 0 };
        mf_structure_leaf_path(&path, s, i);
        mf_value v = check_leaf(leaves[i], axis_name, path.count ? path.at : "");
        mf_text_free(&path);
        out[i] = mf_object_of(v);
        if (!mf_object_is(out[i], &mf_error_class))
            continue;
        if (first.handle)
            mf_error_join((mf_error_object *)mf_object_of(first), (mf_error_object *)out[i]);
        else
            first = v;
    }
    mf_object *built = out && !first.handle ? mf_tree_build(s, out) : NULL;
    mf_free(out);
    mf_drop(o);
    return first.handle ? first : mf_value_new(built ? (void *)built : mf_error_out_of_memory());
}
