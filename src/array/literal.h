/* Literals: the constants of programs. Invariant: a literal is host memory, complete from the beginning and never changed once its maker
 * has shared it; it belongs to no device. A stride of 0 means held once. */
#ifndef MF_ARRAY_LITERAL_H
#define MF_ARRAY_LITERAL_H

#include "array/array.h"

typedef struct mf_literal {
    mf_object object;
    const mf_type *type;
    const unsigned char *data; /* the first element, in buffer or in small */
    mf_buffer *buffer;         /* NULL: at most 16 bytes, in small */
    int64_t strides[MF_RANK];  /* bytes */
    bool is_number;            /* as in mf_array: a number of the user's program, with all its digits */
    _Alignas(16) unsigned char small[MF_ARRAY_INLINE];
    double number[2];
} mf_literal;

/* A row-major literal, to be filled through *bytes (bytes may be NULL) before anybody else sees it; NULL when out of memory. */
mf_literal *mf_literal_new(const mf_type *type, void **bytes);
mf_literal *mf_literal_number(mf_dtype dtype, bool weak, double x);
/* The elements of a, which a's deletion does not change. Shares a's memory if that is host memory. Waits; NULL and *error on failure. */
mf_literal *mf_literal_of(mf_array *a, mf_error_object **error);
mf_literal *mf_literal_rows_of(mf_array *a, mf_error_object **error);      /* the same, in row-major order */
void mf_literal_extent(const mf_literal *l, int64_t *low, int64_t *bytes); /* the elements lie in `bytes` bytes from data + low on */
bool mf_literal_is_contiguous(const mf_literal *l);
mf_literal *mf_literal_contiguous(mf_literal *l); /* itself (retained) or a copy; NULL when out of memory */
/* Whether both are equal, judged without reading large memory: the same memory, or equal bits of at most 16 bytes. */
bool mf_literal_same(const mf_literal *a, const mf_literal *b);
mf_array *mf_literal_array(mf_literal *l); /* a ready array that shares l's memory; NULL when out of memory */
/* Copies to a, made by mf_array_on_devices, the part of l that device number k of its sharding holds (k is 0, and the part is all of l, if
 * devices share memory). False when out of memory. */
bool mf_array_put_part(mf_array *a, int k, const mf_literal *l);
/* A ready array of sharding p: a copy, or on the CPU the same memory. NULL when out of memory or if p is NULL. */
mf_array *mf_array_of_literal(const mf_sharding *p, mf_literal *l);

#endif
