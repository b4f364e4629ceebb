/* The header of a safetensors file: its length in 8 bytes, then JSON with the name, dtype, shape and offsets of each tensor. */
#ifndef MF_IO_SAFETENSORS_HEADER_H
#define MF_IO_SAFETENSORS_HEADER_H

#include <manyfold.h>

#define ST_MOST_HEADER ((uint64_t)100000000) /* the format's limit */

enum { ST_LENGTH = 8 }; /* the bytes of the length */

typedef struct st_dtype {
    const char *name;
    mf_dtype dtype;
    int size;
} st_dtype;

typedef struct st_tensor {
    char *name;
    const st_dtype *dtype;
    mf_shape shape;
    uint64_t begin, end; /* of its bytes, relative to the end of the header */
    size_t at;           /* the offset of its entry in the header's JSON */
} st_tensor;

typedef struct st_file {
    const char *path;
    const unsigned char *bytes;
    size_t size, data; /* data: the offset of the tensors */
    st_tensor *tensors;
    size_t count, capacity;
    mf_value metadata; /* a dict of strings; unset if the file has none */
    char wrong[320];   /* room for an error message that names a tensor */
} st_file;

/* NULL if the format does not have the dtype. The addresses are comparable: the reference library writes tensors in descending order of
 * them. */
const st_dtype *st_dtype_of(mf_dtype dtype);
/* Parses the header of f, whose path, bytes and size are set, into the other members. Returns an error or unset; st_forget must follow in
 * either case. */
mf_value st_read_header(st_file *f);
void st_forget(st_file *f);
mf_value st_damaged(const st_file *f, size_t at, const char *expected);
mf_value st_out_of_memory(const char *path);

#endif
