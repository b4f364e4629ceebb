/* .npy files as a source: memory-mapped and read row by row. Invariant: a header is checked against the file's size before any row is
 * read. */
#include "io/numpy/npy.h"

#include "io/regular.h"

#include <manyfold/data.h>

#include <stdlib.h>
#include <string.h>

typedef struct mapped_file {
    mf_mapping all;
    size_t data, row; /* the offset of the elements; the bytes in a row */
} mapped_file;

typedef struct mapped_files {
    mapped_file *at;
    int count;
} mapped_files;

static mf_value read_row(void *context, int64_t row, void *const *places)
{
    const mapped_files *m = context;
    for (int i = 0; i < m->count; i++)
        memcpy(places[i], m->at[i].all.bytes + m->at[i].data + (size_t)row * m->at[i].row, m->at[i].row);
    return (mf_value){ 0 };
}

static void end(void *context)
{
    mapped_files *m = context;
    for (int i = 0; i < m->count; i++)
        mf_unmap(&m->at[i].all);
    free(m->at);
    free(m);
}

static mf_value map_file(const char *path, mapped_file *f)
{
    mf_value error = mf_map_regular(path, &f->all);
    return error.handle ? error : mf_npy_look(path, f->all.bytes, f->all.size, &f->data);
}

/* Maps a file. Returns the struct of a row and sets *rows to the number of rows, or returns an error. */
static mf_value map_leaf(mf_value path, mapped_file *f, int64_t *rows)
{
    size_t length;
    const char *text = mf_static_data(path, &length);
    if (!text)
        return mf_make_error(MF_ERROR_ARGUMENT, "mf_source_npy: the leaves are paths, not %s", mf_str(path));
    mf_value all = map_file(text, f);
    mf_shape shape = mf_shape_of(all);
    if (mf_is_error(all))
        return all;
    if (shape.rank < 1)
        return mf_make_error(MF_ERROR_SHAPE, "%s: expected an array with rows, found a scalar", text);
    *rows = shape.dims[0];
    shape.rank--;
    memmove(shape.dims, shape.dims + 1, (size_t)shape.rank * sizeof *shape.dims);
    mf_value row = mf_struct(shape, mf_dtype_of(all));
    f->row = mf_npy_width(mf_dtype_of(all));
    for (int i = 0; i < shape.rank; i++)
        f->row *= (size_t)shape.dims[i];
    return row;
}

static mf_value map_leaves(mf_value leaves, mapped_files *m, mf_value *rows_of, int64_t *rows)
{
    for (int i = 0; i < m->count; i++) {
        int64_t count = 0;
        rows_of[i] = map_leaf(mf_get(leaves, i), &m->at[i], &count);
        if (mf_is_error(rows_of[i]))
            return rows_of[i];
        if (i && count != *rows)
            return mf_make_error(MF_ERROR_SHAPE, "%s: expected %lld rows, as the first file has, found %lld",
                                 (const char *)mf_static_data(mf_get(leaves, i), &(size_t){ 0 }), (long long)*rows, (long long)count);
        *rows = count;
    }
    return mf_list_n(rows_of, m->count);
}

mf_source *(mf_source_npy)(mf_value paths)
{
    MF_LAYER;
    MF_SCOPE;
    mf_value leaves = mf_is_error(paths) ? paths : mf_tree_leaves(paths);
    int64_t rows = 0;
    mapped_files *m = calloc(1, sizeof *m);
    int count = mf_is_error(leaves) ? 0 : mf_len(leaves);
    mf_value *rows_of = calloc((size_t)count + 1, sizeof *rows_of);
    mf_value like = leaves;
    if (m && rows_of && (m->at = calloc((size_t)count + 1, sizeof *m->at))) {
        m->count = count;
        if (!mf_is_error(leaves))
            like = map_leaves(leaves, m, rows_of, &rows);
        if (!mf_is_error(like))
            like = mf_tree_unflatten(paths, like);
    } else {
        like = mf_make_error(MF_ERROR_MEMORY, "mf_source_npy: out of memory");
    }
    free(rows_of);
    if (m && m->at)
        return mf_source_new(like, rows, read_row, m, end);
    free(m);
    return mf_source_new(like, 0, read_row, NULL, NULL);
}
