/* NumPy's array format in memory, for the files that hold it: .npy and the members of .npz. Public API only. */
#ifndef MF_IO_NUMPY_NPY_H
#define MF_IO_NUMPY_NPY_H

#include <manyfold.h>

/* The array in these bytes; `file` and `member` (may be NULL) go into messages. */
mf_value mf_npy_parse(const char *file, const char *member, const unsigned char *bytes, size_t size);
/* What is in these bytes, a struct, and where the elements begin, if they can be read where they lie: in C order and the machine's. */
mf_value mf_npy_look(const char *file, const unsigned char *bytes, size_t size, size_t *data);
/* The bytes of an element. */
size_t mf_npy_width(mf_dtype dtype);
/* The bytes for an array, in memory of malloc; waits for it. On failure NULL, and the error is remembered or reported by its scope. */
unsigned char *mf_npy_format(const char *file, mf_value array, size_t *size, mf_status *status);

#endif
