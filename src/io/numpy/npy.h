/* NumPy's array format in memory: the contents of .npy files and of the members of .npz files. Uses the public API only. */
#ifndef MF_IO_NUMPY_NPY_H
#define MF_IO_NUMPY_NPY_H

#include <manyfold.h>

/* The array in these bytes. `file` and `member`, which may be NULL, are for error messages. */
mf_value mf_npy_parse(const char *file, const char *member, const unsigned char *bytes, size_t size);
/* The struct of the array in these bytes, and the offset of its elements. An error unless these can be used in place: in C order and native
 * byte order. */
mf_value mf_npy_look(const char *file, const unsigned char *bytes, size_t size, size_t *data);
/* The size of an element in bytes; 0 if the format does not have the dtype. */
size_t mf_npy_width(mf_dtype dtype);
/* The contents of a file for an array, malloc'd; waits for the array. On failure returns NULL and sets *status; the scope reports the
 * error. */
unsigned char *mf_npy_format(const char *file, mf_value array, size_t *size, mf_status *status);

#endif
