/* Properties of values of any kind, tracers included: kinds, types, sizes, parts. Invariant: nothing here waits for an array, and only
 * unpacking a traced array adds equations. */
#include "trace/function.h"
#include "trace/trace.h"
#include "tree/index.h"

#include <manyfold/array.h>
#include <manyfold/numpy.h>

/* ---- types */

/* The type of an array, a traced value or a struct. */
static const mf_type *type_seen(mf_value v)
{
    const mf_object *o = mf_object_of(v);
    const mf_type *t = mf_struct_type(o);
    return t ? t : mf_object_type(o);
}

mf_shape(mf_shape_of)(mf_value v)
{
    MF_ENTER((mf_shape){ .rank = -1 });
    const mf_type *t = type_seen(v);
    mf_shape shape = { .rank = -1 };
    if (!t || t->rank > MF_MAX_RANK)
        return shape;
    shape.rank = t->rank;
    memcpy(shape.dims, t->dims, (size_t)t->rank * sizeof t->dims[0]);
    return shape;
}

mf_dtype(mf_dtype_of)(mf_value v)
{
    MF_ENTER(MF_DTYPE_DEFAULT);
    const mf_type *t = type_seen(v);
    return t ? t->dtype : MF_DTYPE_DEFAULT;
}

bool(mf_weak_type_of)(mf_value v)
{
    MF_ENTER(false);
    const mf_type *t = type_seen(v);
    return t && t->weak;
}

int(mf_ndim)(mf_value v)
{
    MF_ENTER(-1);
    const mf_type *t = type_seen(v);
    return t ? t->rank : -1;
}

int64_t(mf_size)(mf_value v)
{
    MF_ENTER(-1);
    const mf_type *t = type_seen(v);
    return t ? t->size : -1;
}

/* The error for a value without a type. */
mf_error_object *mf_no_array(const char *what, mf_object *o)
{
    if (mf_object_is(o, &mf_error_class))
        return mf_retain(o);
    return mf_error_new(MF_ERROR_ARGUMENT, "%s: %s is no array", what, mf_object_words(o));
}

int64_t(mf_dim)(mf_value v, int axis)
{
    MF_ENTER(-1);
    mf_object *o = mf_object_of(v);
    const mf_type *t = type_seen(v);
    int at = t && axis < 0 ? axis + t->rank : axis;
    if (t && at >= 0 && at < t->rank)
        return t->dims[at];
    (void)mf_error_remember(t ? mf_error_new(MF_ERROR_AXIS, "mf_dim: axis %d of %s", axis, mf_type_name(t)) : mf_no_array("mf_dim", o));
    return -1;
}

int(mf_len)(mf_value v)
{
    MF_ENTER(-1);
    mf_object *o = mf_object_of(v);
    if (mf_object_is(o, &mf_tree_class))
        return ((const mf_tree *)o)->structure->child_count;
    const mf_type *t = mf_object_type(o);
    if (t && t->rank && t->dims[0] <= INT32_MAX)
        return (int)t->dims[0];
    if (!mf_object_is(o, &mf_error_class))
        (void)mf_error_remember(mf_error_new(MF_ERROR_ARGUMENT, "mf_len: %s has no length", t ? mf_type_name(t) : mf_object_words(o)));
    return -1;
}

/* ---- unpacking */

static mf_error_object *cannot_unpack(const mf_object *o, int count)
{
    const mf_type *t = mf_object_type(o);
    if (t && t->rank)
        return mf_error_new(MF_ERROR_TREE, "mf_unpack: %s has %lld rows, not %d", mf_type_name(t), (long long)t->dims[0], count);
    if (!mf_object_is(o, &mf_tree_class))
        return mf_error_new(MF_ERROR_TREE, "mf_unpack: %s is not a tuple or list of %d", t ? mf_type_name(t) : mf_object_words(o), count);
    mf_text text = { 0 };
    mf_structure_print(&text, ((const mf_tree *)o)->structure);
    mf_error_object *e = mf_error_new(MF_ERROR_TREE, "mf_unpack: %s is not a tuple or list of %d", text.at ? text.at : "a tree", count);
    mf_text_free(&text);
    return e;
}

static mf_value unpacked(mf_object *o, mf_value whole, int i)
{
    if (!mf_object_is(o, &mf_tree_class)) {
        mf_value row = mf_i(i);
        return mf_index_array(whole, &row, 1);
    }
    mf_object *child = mf_tree_child((const mf_tree *)o, i);
    return mf_value_new(child ? (void *)child : mf_error_out_of_memory());
}

void mf_unpack_n(mf_value tree, mf_value *const *variables, int count)
{
    for (int i = 0; i < count && mf_process_forked(); i++)
        *variables[i] = MF_FORKED;
    MF_ENTER();
    mf_object *o = mf_retain(mf_object_of(tree)); /* retained, since a variable may hold the tree itself */
    const mf_structure *s = mf_object_is(o, &mf_tree_class) ? ((const mf_tree *)o)->structure : NULL;
    const mf_type *t = mf_object_type(o);
    bool fits = s ? (s->kind == MF_NODE_TUPLE || s->kind == MF_NODE_LIST) && s->child_count == count : t && t->rank && t->dims[0] == count;
    mf_error_object *error = fits ? NULL : mf_object_is(o, &mf_error_class) ? mf_retain(o) : cannot_unpack(o, count);
    for (int i = 0; i < count; i++)
        *variables[i] = error ? mf_value_of(error) : unpacked(o, tree, i);
    mf_drop(error);
    mf_drop(o);
}

mf_kind(mf_kind_of)(mf_value v)
{
    MF_ENTER(MF_KIND_ERROR);
    static const mf_kind kinds[] = { [MF_NODE_LEAF] = MF_KIND_STATIC,
                                     [MF_NODE_NONE] = MF_KIND_NONE,
                                     [MF_NODE_TUPLE] = MF_KIND_TUPLE,
                                     [MF_NODE_LIST] = MF_KIND_LIST,
                                     [MF_NODE_DICT] = MF_KIND_DICT };
    mf_object *o = mf_object_of(v);
    if (!o)
        return MF_KIND_UNSET;
    if (mf_object_is(o, &mf_error_class))
        return MF_KIND_ERROR;
    if (mf_object_is(o, &mf_tree_class))
        return kinds[((const mf_tree *)o)->structure->kind];
    return mf_object_is(o, &mf_array_class)    ? MF_KIND_ARRAY
           : mf_object_is(o, &mf_tracer_class) ? MF_KIND_TRACER
           : mf_object_is(o, &mf_struct_class) ? MF_KIND_STRUCT
                                               : MF_KIND_STATIC;
}
