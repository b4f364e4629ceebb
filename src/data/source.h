/* The internals of a source, for the loader and for the implementations of sources. Uses the public API only. */
#ifndef MF_DATA_SOURCE_H
#define MF_DATA_SOURCE_H

#include "io/regular.h"

#include <manyfold.h>

typedef struct mf_column {
    mf_dtype dtype;
    mf_shape shape; /* of a row */
    size_t size;    /* bytes of a row */
    char *data;     /* all rows, contiguous, if the source is in memory; else NULL */
} mf_column;

struct mf_source {
    int64_t rows;
    mf_column *columns;
    int column_count;
    mf_value structure; /* kept: a row's tree, with a placeholder for each column */
    mf_source_read read;
    void *context;
    mf_source_end end; /* may be NULL */
    char **classes;    /* the class names of a folder of images, sorted, NULL-terminated; else NULL */
    mf_value error;    /* kept: why it could not be opened; else unset */
};

/* A source without rows that holds this error. NULL if out of memory. */
mf_source *mf_source_failed(mf_value error);
/* The size of an element in bytes; 0 if the dtype is not one of numbers. */
size_t mf_data_width(mf_dtype dtype);
/* Like mf_map_regular, but an empty file is an error. */
mf_value mf_data_map(const char *path, mf_mapping *m);

#endif
