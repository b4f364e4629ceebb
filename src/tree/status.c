/* The status of values: error, ready, deleted. Invariant: a question about an array waits for it, since a pending array may still become an
 * error; asking for an error's text or code handles it. */
#include "tree/tree.h"

#include "array/array.h"

#include <manyfold/array.h>

#include <string.h>

/* The error of one leaf, a new reference, or NULL. */
static mf_error_object *error_of_leaf(mf_object *o)
{
    if (mf_object_is(o, &mf_error_class))
        return mf_retain(o);
    return mf_object_is(o, &mf_array_class) ? mf_array_wait((const mf_array *)o) : NULL;
}

/* The first error in a value, a new reference, or NULL; waits for the arrays. Handling it handles the others too. */
static mf_error_object *error_in(mf_value v)
{
    mf_object *o = mf_object_of(v), *self, *const * leaves;
    int count;
    mf_error_object *first = NULL;
    if (!o)
        return NULL;
    mf_tree_flatten(o, &leaves, &count, &self);
    for (int i = 0; i < count; i++) {
        mf_error_object *e = error_of_leaf(leaves[i]);
        if (e && first)
            mf_error_join(first, e);
        if (!first)
            first = e;
        else if (e)
            mf_error_ignore(e);
    }
    return first;
}

/* The result is borrowed from v's object or from the innermost scope. */
static mf_error_object *seen_error(mf_value v)
{
    mf_error_object *e = error_in(v);
    if (!e)
        return NULL;
    mf_error_handle(e);
    if (&e->object == mf_object_of(v))
        mf_drop(e);
    else
        (void)mf_value_new(e); /* the scope keeps the error and its message alive */
    return e;
}

/* Whether a leaf is an error or has failed; makes and handles no error. */
static bool is_bad_leaf(mf_object *o)
{
    if (!mf_object_is(o, &mf_array_class))
        return mf_object_is(o, &mf_error_class);
    mf_array *a = (mf_array *)o;
    if (atomic_load(&a->deleted))
        return true;
    mf_error_object *e = mf_array_wait(a);
    mf_drop(e); /* the future still holds it */
    return e != NULL;
}

bool(mf_is_error)(mf_value v)
{
    MF_ENTER(true);
    mf_object *o = mf_object_of(v), *self, *const * leaves;
    int count = 0;
    bool bad = false;
    if (o)
        mf_tree_flatten(o, &leaves, &count, &self);
    for (int i = 0; i < count && !bad; i++)
        bad = is_bad_leaf(leaves[i]);
    return bad;
}

const char *(mf_error)(mf_value v)
{
    MF_ENTER(MF_FORK_WORDS);
    mf_error_object *e = seen_error(v);
    return e ? e->message : NULL;
}

mf_status(mf_error_status)(mf_value v)
{
    MF_ENTER(MF_FORK_STATUS);
    mf_error_object *e = seen_error(v);
    return e ? e->status : MF_OK;
}

const char *(mf_error_place)(mf_value v)
{
    MF_ENTER(NULL);
    mf_error_object *e = seen_error(v);
    return e ? mf_error_place_text(e) : NULL;
}

mf_status(mf_block_until_ready)(mf_value v)
{
    MF_ENTER(MF_FORK_STATUS);
    mf_object *o = mf_retain(mf_object_of(v)), *self, *const * leaves;
    int count = 0;
    mf_error_object *first = NULL;
    if (o)
        mf_tree_flatten(o, &leaves, &count, &self);
    for (int i = 0; i < count; i++) { /* waits for all arrays, even after an error */
        mf_error_object *e = error_of_leaf(leaves[i]);
        if (first)
            mf_drop(e);
        else
            first = e;
    }
    mf_drop(o);
    return mf_error_remember(first);
}

/* ---- deleting */

bool(mf_is_deleted)(mf_value v)
{
    MF_ENTER(false);
    mf_object *o = mf_object_of(v), *self, *const * leaves;
    int count = 0;
    if (o)
        mf_tree_flatten(o, &leaves, &count, &self);
    for (int i = 0; i < count; i++)
        if (mf_object_is(leaves[i], &mf_array_class) && atomic_load(&((mf_array *)leaves[i])->deleted))
            return true;
    return false;
}

static void delete_array(mf_array *a)
{
    const char *expected = NULL;
    mf_error_object *failed = a->future ? mf_array_wait(a) : NULL; /* the memory may still be written to */
    mf_error_ignore(failed);
    if (!atomic_compare_exchange_strong(&a->deleted, &expected, "deleted"))
        return;
    mf_drop(mf_array_give_up(a)); /* if somebody is reading, the memory is freed with the array */
}

mf_status(mf_delete)(mf_value v)
{
    MF_ENTER(MF_FORK_STATUS);
    mf_object *o = mf_object_of(v), *self, *const * leaves;
    int count = 0;
    if (o)
        mf_tree_flatten(o, &leaves, &count, &self);
    for (int i = 0; i < count; i++) {
        if (mf_object_is(leaves[i], &mf_error_class)) /* for instance the error of a stale handle */
            return mf_error_remember(mf_retain(leaves[i]));
        if (!mf_object_is(leaves[i], &mf_array_class))
            return mf_error_remember(mf_error_new(MF_ERROR_ARGUMENT, "mf_delete: %s is no array", leaves[i]->kind->name));
    }
    if (!o)
        return mf_error_remember(mf_error_new(MF_ERROR_ARGUMENT, "mf_delete: the value is unset"));
    for (int i = 0; i < count; i++)
        delete_array((mf_array *)leaves[i]);
    return MF_OK;
}
