/* A safetensors file's header: eight bytes that tell its length, then JSON with name, dtype, shape and place of each tensor. */
#ifndef MF_IO_SAFETENSORS_HEADER_H
#define MF_IO_SAFETENSORS_HEADER_H

#include <manyfold.h>

#define ST_MOST_HEADER ((uint64_t)100000000) /* the format's own bound */

enum { ST_LENGTH = 8 }; /* of what tells the length */

typedef struct st_dtype {
    const char *name;
    mf_dtype dtype;
    int size;
} st_dtype;

typedef struct st_tensor {
    char *name;
    const st_dtype *dtype;
    mf_shape shape;
    uint64_t begin, end; /* of its bytes, behind the header */
    size_t at;           /* where the header tells of it */
} st_tensor;

typedef struct st_file {
    const char *path;
    const unsigned char *bytes;
    size_t size, data; /* data: where the tensors begin */
    st_tensor *tensors;
    size_t count, room;
    mf_value metadata; /* of all strings, unset: the file has none */
    char wrong[320];   /* what was expected of a tensor, and which */
} st_file;

/* NULL: the format has none. Addresses ascend in the order in which the format's library writes tensors. */
const st_dtype *st_dtype_of(mf_dtype dtype);
/* Fills in the rest of a file whose path, bytes and size are there. Error or unset; st_forget ends it in either case. */
mf_value st_read_header(st_file *f);
void st_forget(st_file *f);
mf_value st_damaged(const st_file *f, size_t at, const char *expected);
mf_value st_out_of_memory(const char *path);

#endif
