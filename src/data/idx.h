/* Helpers that the dataset readers share: IDX files as raw bytes, and datasets of labelled images. */
#ifndef MF_DATA_IDX_H
#define MF_DATA_IDX_H

#include <manyfold.h>

/* The array in an IDX file, with its elements converted to native byte order. */
typedef struct idx_array {
    mf_dtype dtype;
    mf_shape shape;
    int64_t count; /* of elements */
    void *data;    /* malloc'd; the caller frees it */
} idx_array;

/* Returns unset, or MF_ERROR_IO or MF_ERROR_MEMORY, and then array->data is NULL. */
mf_value idx_read(const char *path, idx_array *array);

/* Writes "folder/name" to `out` of `size` bytes; false if it does not fit. */
bool data_path(char *out, size_t size, const char *folder, const char *name);

/* {"image": f32[shape], "label": i32[n]}. Frees the two malloc'd arrays. */
mf_value data_labelled_images(mf_shape shape, float *images, int32_t *labels);

#endif
