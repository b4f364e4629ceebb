/* Trees to named leaves, and back. Invariant: leaves are in the order of the tree. */
#include "io/leaves.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void add_leaf(mf_named_leaves *l, const char *name, mf_value value)
{
    if (l->count == l->capacity) {
        int capacity = l->capacity ? l->capacity * 2 : 16;
        mf_named_leaf *more = realloc(l->at, (size_t)capacity * sizeof *more);
        if (!more) {
            l->failed = true;
            return;
        }
        l->at = more;
        l->capacity = capacity;
    }
    char *copy = strdup(*name ? name : "arr_0"); /* the name that np.savez(path, array) gives an array */
    if (!copy)
        l->failed = true;
    else
        l->at[l->count++] = (mf_named_leaf){ .name = copy, .value = value };
}

static void collect(mf_named_leaves *l, const char *name, mf_value v)
{
    int children = mf_ndim(v) < 0 && !mf_is_error(v) ? mf_len(v) : -1;
    if (children < 0)
        add_leaf(l, name, v);
    for (int i = 0; i < children; i++) {
        const char *key = mf_key(v, i);
        char number[16];
        snprintf(number, sizeof number, "%d", i);
        size_t length = strlen(name) + strlen(key ? key : number) + 2;
        char *path = malloc(length);
        if (!path) {
            l->failed = true;
            return;
        }
        const char *part = key ? key : number;
        snprintf(path, length, "%s%s%s", name, *name || !*part ? "/" : "", part);
        collect(l, path, key ? mf_get(v, key) : mf_get(v, i));
        free(path);
    }
}

mf_named_leaves mf_leaves_of(mf_value tree)
{
    mf_named_leaves l = { 0 };
    collect(&l, "", tree);
    return l;
}

void mf_leaves_free(mf_named_leaves *l)
{
    for (int i = 0; i < l->count; i++)
        free(l->at[i].name);
    free(l->at);
    *l = (mf_named_leaves){ 0 };
}

/* The file's array for a leaf of `like`, marked in requested[], or an error that names it. */
static mf_value fitting(const char *path, const mf_named_leaf *like, mf_value file, bool *requested)
{
    int at = 0;
    for (const char *key; (key = mf_key(file, at)) && strcmp(key, like->name) != 0; at++) {
    }
    if (!mf_key(file, at))
        return mf_make_error(MF_ERROR_IO, "%s: expected an array named %s", path, like->name);
    requested[at] = true;
    mf_value found = mf_get(file, like->name);
    mf_shape want = mf_shape_of(like->value), have = mf_shape_of(found);
    bool same = want.rank == have.rank && mf_dtype_of(found) == mf_dtype_of(like->value);
    for (int i = 0; i < want.rank && same; i++)
        same = want.dims[i] == have.dims[i];
    if (same)
        return found;
    return mf_make_error(MF_ERROR_IO, "%s: %s: expected %s%s, the file has %s%s", path, like->name, mf_str_dtype(mf_dtype_of(like->value)),
                         mf_str(want), mf_str_dtype(mf_dtype_of(found)), mf_str(have));
}

/* An error if the file has arrays that were not requested: it is probably the wrong file. Else unset. */
static mf_value unrequested_error(const char *path, mf_value file, const bool *requested)
{
    const char *key;
    for (int i = 0; (key = mf_key(file, i)); i++)
        if (!requested[i])
            return mf_make_error(MF_ERROR_IO, "%s: the file has %s, which is not asked for; .partial leaves it there", path, key);
    return (mf_value){ 0 };
}

mf_value mf_leaves_fit(const char *path, mf_value like, mf_value file, bool partial)
{
    mf_named_leaves l = mf_leaves_of(like);
    mf_value v = { 0 }, *arrays = l.failed ? NULL : calloc((size_t)l.count + 1, sizeof *arrays);
    bool *requested = calloc((size_t)mf_len(file) + 1, sizeof *requested);
    if (!arrays || !requested)
        v = mf_make_error(MF_ERROR_MEMORY, "out of memory");
    for (int i = 0; i < l.count && !v.handle; i++) {
        arrays[i] = fitting(path, &l.at[i], file, requested);
        if (mf_is_error(arrays[i]))
            v = arrays[i];
    }
    if (!v.handle && !partial)
        v = unrequested_error(path, file, requested);
    if (!v.handle)
        v = mf_tree_unflatten(like, mf_list_n(arrays, l.count));
    free(arrays);
    free(requested);
    mf_leaves_free(&l);
    return v;
}
