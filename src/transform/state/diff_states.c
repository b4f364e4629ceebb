/* Gradients with respect to state cells; see diff_states.h. */
#include "transform/state/diff_states.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void mf_diff_states_free(mf_diff_states *d) { mf_free(d->at.at); }

/* Orders paths name by name, as a dict of dicts is sorted. */
static int by_path(const void *a, const void *b)
{
    const unsigned char *x = (const unsigned char *)((const mf_diff_state *)a)->path,
                        *y = (const unsigned char *)((const mf_diff_state *)b)->path;
    while (*x && *x == *y)
        x++, y++;
    return (*x == '/' ? 1 : *x * 2) - (*y == '/' ? 1 : *y * 2);
}

/* The name in path that starts at `from`. */
static const char *name_at(const char *path, size_t from)
{
    mf_text t = { 0 };
    mf_text_putn(&t, path + from, strcspn(path + from, "/"));
    const char *name = t.failed ? NULL : mf_intern(t.at);
    mf_text_free(&t);
    return name;
}

/* The structure of entries whose paths are equal up to `from`. */
static const mf_structure *structure_of(const mf_diff_state *d, int count, size_t from)
{
    const char **names = mf_alloc(((size_t)count + 1) * sizeof *names);
    const mf_structure **children = mf_alloc(((size_t)count + 1) * sizeof *children), *made = NULL;
    bool good = names && children;
    int n = 0;
    for (int i = 0, next; good && i < count; i = next, n++) {
        const char *name = names[n] = name_at(d[i].path, from);
        size_t length = name ? strlen(name) : 0, end = from + length;
        for (next = i + 1; next < count && strncmp(d[next].path + from, d[i].path + from, length) == 0 && d[next].path[end] == '/'; next++)
            ;
        children[n] = d[i].path[end] ? structure_of(d + i, next - i, end + 1) : d[i].cell->read_structure;
        good = name && children[n];
    }
    if (good)
        made = mf_structure_node(MF_NODE_DICT, mf_names_intern(names, n), children, n);
    mf_free(names);
    mf_free(children);
    return made;
}

static mf_error_object *check_types(const mf_touched_cell *c, const mf_traced *t, int input, const char *path, const char *what)
{
    for (int i = 0; i < c->read_structure->leaf_count; i++) {
        const mf_type *type = t->program->in[input + i]->type;
        if (!mf_dtype_is_inexact(type->dtype))
            return mf_error_new(
                MF_ERROR_DTYPE,
                "grad requires real- or complex-valued inputs (input dtype that is a sub-dtype of floating), but state %s of "
                "%s is %s",
                path, what, mf_type_name(type));
    }
    return NULL;
}

/* An error if two states have the same path, or one's path is a prefix of another's. */
static mf_error_object *check_paths(const mf_diff_states *d, const char *what)
{
    for (int i = 1; i < d->at.count; i++) {
        const char *before = d->at.at[i - 1].path, *path = d->at.at[i].path;
        size_t n = strlen(before);
        if (strncmp(before, path, n) == 0 && (!path[n] || path[n] == '/'))
            return mf_error_new(MF_ERROR_TREE, "%s: two states are at %s: give them different paths as members of one module", what,
                                before);
    }
    return NULL;
}

mf_error_object *mf_diff_states_find(mf_diff_states *d, const mf_traced *t, const mf_filter_object *filter, bool allow_int,
                                     const char *what)
{
    int input = t->program->in_count - mf_traced_read_count(t);
    mf_error_object *error = NULL;
    for (int i = 0; i < t->cell_count && !error; i++) {
        const mf_touched_cell *c = &t->cells[i];
        char number[16];
        snprintf(number, sizeof number, "%d", d->at.count);
        if (mf_filter_accepts(filter, c->cell, c->path)) {
            const char *path = c->path ? c->path : mf_intern(number);
            error = allow_int ? NULL : check_types(c, t, input, path, what);
            if (!mf_vector_push(&d->at, (mf_diff_state){ path, c, input }))
                error = error ? error : mf_error_out_of_memory();
        }
        input += c->read_structure->leaf_count;
    }
    if (!error && !d->at.count)
        error = mf_error_new(MF_ERROR_ARGUMENT, "%s: it reads no state that the filter of .states accepts", what);
    if (error)
        return error;
    qsort(d->at.at, (size_t)d->at.count, sizeof *d->at.at, by_path);
    error = check_paths(d, what);
    d->structure = error ? NULL : structure_of(d->at.at, d->at.count, 0);
    return error || d->structure ? error : mf_error_out_of_memory();
}
