/* A source's inside, for the loader and for those that make sources. Public API only. */
#ifndef MF_DATA_SOURCE_H
#define MF_DATA_SOURCE_H

#include "io/regular.h"

#include <manyfold.h>

typedef struct mf_column {
    mf_dtype dtype;
    mf_shape shape; /* of a row */
    size_t size;    /* bytes of a row */
    char *data;     /* of sources in memory: every row, one behind the other; else NULL */
} mf_column;

struct mf_source {
    int64_t rows;
    mf_column *columns;
    int column_count;
    mf_value structure; /* kept: the tree with a small leaf for each column */
    mf_source_read read;
    void *context;
    mf_source_end end; /* may be NULL */
    char **classes;    /* of a folder of images: sorted, and NULL; else NULL */
    mf_value error;    /* kept: what opening found; unset when all was well */
};

/* A source of no rows whose error this is; with `end` called when it is closed. NULL: there is no memory. */
mf_source *mf_source_failed(mf_value error);
/* The bytes of an element; 0: there is no such number. */
size_t mf_data_width(mf_dtype dtype);
/* As mf_map_regular, and an empty file is an error. */
mf_value mf_data_map(const char *path, mf_mapping *m);

#endif
