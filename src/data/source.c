/* Sources: datasets that are read row by row, from memory or from files. Invariants: reading a row depends only on its number, so any
 * thread may read any row at any time; a source that could not be opened has no rows and holds the error. */
#include "data/source.h"

#include <stdlib.h>
#include <string.h>

size_t mf_data_width(mf_dtype dtype)
{
    switch (dtype) {
    case MF_BOOL:
    case MF_I8:
    case MF_U8: return 1;
    case MF_I16:
    case MF_U16:
    case MF_F16:
    case MF_BF16: return 2;
    case MF_I32:
    case MF_U32:
    case MF_F32: return 4;
    case MF_I64:
    case MF_U64:
    case MF_F64:
    case MF_C64: return 8;
    case MF_C128: return 16;
    default: return 0;
    }
}

mf_value mf_data_map(const char *path, mf_mapping *m)
{
    mf_value error = mf_map_regular(path, m);
    return error.handle || m->bytes ? error : mf_make_error(MF_ERROR_IO, "%s: cannot be read: it is empty", path);
}

/* ---- construction */

static mf_value placeholder(mf_value leaf)
{
    (void)leaf;
    return mf_b(false);
}

static mf_value out_of_memory(void) { return mf_make_error(MF_ERROR_MEMORY, "a source: out of memory"); }

/* Allocates a column for each leaf of the tree and keeps its structure. Returns an error or unset. */
static mf_value make_columns(mf_source *s, mf_value tree, mf_value leaves)
{
    mf_value structure = mf_tree_map(placeholder, tree);
    int count = mf_is_error(leaves) ? -1 : mf_len(leaves);
    if (count < 0 || mf_is_error(structure))
        return count < 0 ? leaves : structure;
    if (!count)
        return mf_make_error(MF_ERROR_TREE, "mf_loader_open: the dataset has no arrays");
    s->columns = calloc((size_t)count, sizeof *s->columns);
    if (!s->columns)
        return out_of_memory();
    s->column_count = count;
    s->structure = mf_keep(structure);
    return (mf_value){ 0 };
}

static mf_source *begin(void) { return calloc(1, sizeof(mf_source)); }

static mf_source *with_error(mf_source *s, mf_value error)
{
    if (s && error.handle) {
        s->error = mf_keep(error);
        s->rows = 0;
    }
    return s;
}

mf_source *mf_source_failed(mf_value error) { return with_error(begin(), error); }

static mf_value read_leaf(mf_column *c, mf_value leaf, int64_t *rows)
{
    if (mf_is_error(leaf))
        return leaf;
    mf_shape shape = mf_shape_of(leaf);
    int64_t count = mf_size(leaf);
    c->dtype = mf_dtype_of(leaf);
    if (shape.rank < 1 || !mf_data_width(c->dtype))
        return mf_make_error(MF_ERROR_SHAPE, "mf_loader_open: a leaf of the dataset is no array with rows: %s%s", mf_str_dtype(c->dtype),
                             shape.rank < 0 ? "" : mf_str_shape(shape));
    *rows = shape.dims[0];
    c->shape.rank = shape.rank - 1;
    memcpy(c->shape.dims, shape.dims + 1, sizeof shape.dims - sizeof *shape.dims);
    c->size = *rows ? (size_t)(count / *rows) * mf_data_width(c->dtype) : 0;
    c->data = malloc((size_t)count * mf_data_width(c->dtype) + 1);
    if (!c->data)
        return mf_make_error(MF_ERROR_MEMORY, "mf_loader_open: out of memory");
    mf_status status = mf_to_host(leaf, c->dtype, c->data, (size_t)count);
    if (status == MF_OK)
        return (mf_value){ 0 };
    const char *why = mf_error(leaf);
    return mf_make_error(status, "mf_loader_open: the dataset could not be read%s%s", why ? ": " : "", why ? why : "");
}

static mf_value read_leaves(mf_source *s, mf_value leaves)
{
    for (int i = 0; i < s->column_count; i++) {
        int64_t rows = 0;
        mf_value error = read_leaf(&s->columns[i], mf_get(leaves, i), &rows);
        if (error.handle)
            return error;
        if (i && rows != s->rows)
            return mf_make_error(MF_ERROR_SHAPE, "mf_loader_open: the dataset's arrays have %lld and %lld rows; one leading size is needed",
                                 (long long)s->rows, (long long)rows);
        s->rows = rows;
    }
    return (mf_value){ 0 };
}

mf_source *(mf_source_arrays)(mf_value dataset)
{
    MF_LAYER;
    MF_SCOPE;
    mf_source *s = begin();
    if (!s)
        return NULL;
    if (mf_is_error(dataset))
        return with_error(s, dataset);
    mf_value leaves = mf_tree_leaves(dataset), error = make_columns(s, dataset, leaves);
    return with_error(s, error.handle ? error : read_leaves(s, leaves));
}

static mf_value read_types(mf_source *s, mf_value leaves)
{
    for (int i = 0; i < s->column_count; i++) {
        mf_column *c = &s->columns[i];
        mf_value leaf = mf_get(leaves, i);
        if (mf_is_error(leaf))
            return leaf;
        c->dtype = mf_dtype_of(leaf);
        c->shape = mf_shape_of(leaf);
        c->size = mf_data_width(c->dtype);
        if (!c->size || c->shape.rank < 0 || c->shape.rank == MF_MAX_RANK)
            return mf_make_error(MF_ERROR_SHAPE, "mf_source_new: a leaf of the row is no array of numbers of at most 7 dimensions: %s",
                                 mf_str(leaf));
        for (int k = 0; k < c->shape.rank; k++)
            c->size *= (size_t)c->shape.dims[k];
    }
    return (mf_value){ 0 };
}

mf_source *(mf_source_new)(mf_value row, int64_t rows, mf_source_read read, void *context, mf_source_end end)
{
    MF_LAYER;
    MF_SCOPE;
    mf_source *s = begin();
    if (!s) {
        if (end)
            end(context);
        return NULL;
    }
    s->read = read;
    s->context = context;
    s->end = end;
    s->rows = rows;
    mf_value leaves = mf_is_error(row) ? row : mf_tree_leaves(row), error = make_columns(s, row, leaves);
    if (!error.handle)
        error = read_types(s, leaves);
    if (!error.handle && (rows < 0 || !read))
        error = mf_make_error(MF_ERROR_ARGUMENT, "mf_source_new: %s", read ? "a negative number of rows" : "no function that reads them");
    return with_error(s, error);
}

/* ---- queries */

int64_t mf_source_rows(const mf_source *s) { return s ? s->rows : 0; }

const char *mf_source_class(const mf_source *s, int index)
{
    int count = 0;
    while (s && s->classes && s->classes[count])
        count++;
    return index >= 0 && index < count ? s->classes[index] : NULL;
}

void mf_source_close(mf_source *s)
{
    MF_LAYER;
    if (!s)
        return;
    if (s->end)
        s->end(s->context);
    for (int i = 0; i < s->column_count; i++)
        free(s->columns[i].data);
    for (char **c = s->classes; c && *c; c++)
        free(*c);
    free(s->classes);
    free(s->columns);
    if (s->structure.handle)
        mf_release(s->structure);
    if (s->error.handle)
        mf_release(s->error);
    free(s);
}
