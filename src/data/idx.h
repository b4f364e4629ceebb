/* What the readers of this room share: IDX files as raw bytes, and images as they are handed out. */
#ifndef MANYFOLD_DATA_IDX_H
#define MANYFOLD_DATA_IDX_H

#include <manyfold.h>

/* An IDX file's array: big-endian elements turned to the machine's order. */
typedef struct idx_array {
    mf_dtype dtype;
    mf_shape shape;
    int64_t count; /* of elements */
    void *data;    /* malloc'd; the caller frees it */
} idx_array;

/* On failure the result is an MF_ERROR_IO or MF_ERROR_MEMORY and array->data is NULL; on success it is unset. */
mf_value idx_read(const char *path, idx_array *array);

/* "folder/name" in `out` of `size` bytes; false when it does not fit. */
bool data_path(char *out, size_t size, const char *folder, const char *name);

/* {"image": f32[shape], "label": i32[n]} of malloc'd arrays, which it frees. */
mf_value data_labelled_images(mf_shape shape, float *images, int32_t *labels);

#endif
