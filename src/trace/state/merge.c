/* Splitting a module's values by filters, and merging values into a module of the same structure (nnx.split, nnx.merge). Invariant: a state
 * or module that is shared in the old module is shared in the new one. */
#include "trace/state/module.h"

#include <manyfold/tree.h>
#include <string.h>

mf_value mf_module_split_n(mf_module m, const mf_filter *filters, int count)
{
    MF_ENTER(MF_FORKED);
    mf_error_object *e = NULL;
    if (!mf_module_of(m, &e))
        return mf_value_new(e);
    if (count < 1)
        return mf_fail(MF_ERROR_ARGUMENT, "mf_module_split needs at least one filter");
    mf_value *parts = mf_alloc((size_t)count * sizeof *parts), all;
    if (!parts)
        return mf_value_new(mf_error_out_of_memory());
    for (int i = 0; i < count; i++) {
        mf_filter first[] = { filters[i], mf_filter_not(mf_filter_any_n(filters, i)) };
        parts[i] = mf_module_values(m, i ? mf_filter_all_n(first, 2) : filters[0]);
    }
    mf_value rest = mf_module_values(m, mf_filter_not(mf_filter_any_n(filters, count)));
    if (mf_len(rest) > 0)
        all = mf_fail(MF_ERROR_ARGUMENT, "mf_module_split: no filter accepts the states below %s; the last one may be mf_everything()",
                      mf_key(rest, 0));
    else
        all = mf_first_error_in(mf_object_of(rest)) ? rest : mf_tuple_n(parts, count);
    mf_free(parts);
    return all;
}

/* A merge in progress: which new objects were made for which old ones, so that shared objects stay shared. */
typedef struct merge {
    MF_VECTOR(mf_object *) from; /* cells and modules of the old module, borrowed */
    MF_VECTOR(mf_object *) to;   /* their counterparts in the new one, retained */
} merge;

static mf_object *merged_already(const merge *w, const mf_object *from)
{
    for (int i = 0; i < w->to.count; i++)
        if (w->from.at[i] == from)
            return w->to.at[i];
    return NULL;
}

static bool note_merged(merge *w, mf_object *from, mf_object *to)
{
    if (!mf_vector_push(&w->from, from))
        return false;
    if (mf_vector_push(&w->to, to)) {
        mf_retain(to);
        return true;
    }
    w->from.count--;
    return false;
}

/* Stores in `out` the parts named `name` of those dicts that have one; returns their number. */
static int parts_named(const char *name, const mf_value *values, int count, mf_value *out)
{
    int n = 0;
    for (int i = 0; i < count; i++)
        for (int k = 0, keys = mf_len(values[i]); k < keys; k++) {
            const char *key = mf_key(values[i], k);
            if (key && strcmp(key, name) == 0)
                out[n++] = mf_get_n(values[i], (const mf_value[]){ mf_string(key) }, 1);
        }
    return n;
}

/* Checks that the values are dicts whose keys name states or modules. */
static mf_error_object *check_names(const mf_module_object *m, const char *path, const mf_value *values, int count)
{
    for (int i = 0; i < count; i++) {
        if (mf_kind_of(values[i]) != MF_KIND_DICT)
            return mf_error_new(MF_ERROR_TREE, "mf_module_merge: the values of %s%s%s are no dict", m->type, path ? " at " : "",
                                path ? path : "");
        for (int k = 0, keys = mf_len(values[i]); k < keys; k++) {
            const char *key = mf_key(values[i], k);
            if (!mf_module_holder(m, key))
                return mf_error_new(MF_ERROR_TREE, "mf_module_merge: module %s has no state or module named %s", m->type,
                                    mf_module_path(path, key));
        }
    }
    return NULL;
}

static mf_object *merged(merge *w, mf_module_object *m, const char *path, const mf_value *values, int count, mf_error_object **error);

/* A new cell in place of c, or the one that was already made for it. A new reference. */
static mf_object *merged_cell(merge *w, mf_state_cell *c, const char *path, const mf_value *values, int count, mf_error_object **error)
{
    mf_object *before = merged_already(w, &c->object);
    if (before)
        return mf_retain(before);
    if (count != 1) {
        *error = mf_error_new(
            MF_ERROR_TREE, count ? "mf_module_merge: state %s is in several of the trees" : "mf_module_merge: the values have no %s", path);
        return NULL;
    }
    mf_state_cell *fresh = mf_cell_new_in_trace(c->type, values[0], error);
    if (!fresh)
        return NULL;
    fresh->name = path;
    if (note_merged(w, &c->object, &fresh->object))
        return &fresh->object;
    mf_drop(fresh);
    *error = mf_error_out_of_memory();
    return NULL;
}

static mf_error_object *merge_members(merge *w, const mf_module_object *m, mf_module_object *to, const char *path, const mf_value *values,
                                      int count)
{
    mf_value *parts = mf_alloc(((size_t)count + 1) * sizeof *parts);
    mf_error_object *error = parts ? check_names(m, path, values, count) : mf_error_out_of_memory();
    for (int i = 0; i < m->count && !error; i++) {
        const mf_module_member *x = &m->members[i];
        mf_module_member *y = &to->members[i];
        *y = *x;
        y->object = NULL;
        to->count = i + 1;
        if (x->kind > MF_MEMBER_MODULE) {
            y->object = mf_retain(x->object);
            continue;
        }
        y->first = !merged_already(w, x->object);
        const char *at = mf_module_path(path, x->name);
        int n = parts_named(x->name, values, count, parts);
        y->object = x->kind == MF_MEMBER_STATE ? merged_cell(w, (mf_state_cell *)x->object, at, parts, n, &error)
                                               : merged(w, (mf_module_object *)x->object, at, parts, n, &error);
    }
    mf_free(parts);
    return error;
}

/* A module like m whose states hold the values, or the one already made for m. A new reference. */
static mf_object *merged(merge *w, mf_module_object *m, const char *path, const mf_value *values, int count, mf_error_object **error)
{
    mf_object *before = merged_already(w, &m->object);
    if (before)
        return mf_retain(before);
    mf_module_object *to = mf_module_object_new(m->type, m->call, m->inputs, m->count);
    if (to) {
        to->depth = m->depth;
        to->function_depth = m->function_depth;
        to->taken = path != NULL;
        *error = merge_members(w, m, to, path, values, count);
        if (!*error && note_merged(w, &m->object, &to->object))
            return &to->object;
    }
    mf_drop(to);
    if (!*error)
        *error = mf_error_out_of_memory();
    return NULL;
}

/* The first error in v, a new reference, or NULL. */
static mf_error_object *error_in(mf_value v)
{
    mf_object *inside = mf_first_error_in(mf_object_of(v));
    return inside ? mf_retain(inside) : NULL;
}

mf_module mf_module_merge_n(mf_module handle, const mf_value *values, int count)
{
    MF_ENTER((mf_module){ MF_FORK_HANDLE });
    mf_error_object *e = NULL;
    mf_module_object *m = mf_module_of(handle, &e);
    if (!e && count < 0)
        e = mf_error_new(MF_ERROR_ARGUMENT, "mf_module_merge of %d trees", count);
    for (int i = 0; i < count && !e; i++)
        e = error_in(values[i]);
    merge w = { 0 };
    mf_object *made = m && !e ? merged(&w, m, NULL, values, count, &e) : NULL;
    for (int i = 0; i < w.to.count; i++)
        mf_drop(w.to.at[i]);
    mf_free(w.from.at);
    mf_free(w.to.at);
    return (mf_module){ mf_handle_new(made ? made : (void *)e) };
}
