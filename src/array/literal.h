/* Literals: the constants of programs. Invariant: a literal is host memory, there from the beginning and never changed once its maker has
 * shown it to somebody; no device holds it. A stride of 0 means held once. */
#ifndef MF_ARRAY_LITERAL_H
#define MF_ARRAY_LITERAL_H

#include "array/array.h"

typedef struct mf_literal {
    mf_object object;
    const mf_type *type;
    const unsigned char *data; /* the first element, in buffer or in small */
    mf_buffer *buffer;         /* NULL: up to 16 bytes, in small */
    int64_t strides[MF_RANK];  /* bytes */
    bool is_number;            /* as in mf_array: a C number, and all its digits */
    _Alignas(16) unsigned char small[MF_ARRAY_INLINE];
    double number[2];
} mf_literal;

/* Row by row, to be filled through `bytes` (may be NULL) before anybody else sees it; NULL when out of memory. */
mf_literal *mf_literal_new(const mf_type *type, void **bytes);
mf_literal *mf_literal_number(mf_dtype dtype, bool weak, double x);
/* What a holds, whatever becomes of a: its own memory where that is the host's, and is not taken from a. Waits; NULL and *error. */
mf_literal *mf_literal_of(mf_array *a, mf_error_object **error);
mf_literal *mf_literal_rows_of(mf_array *a, mf_error_object **error);      /* the same, row by row */
void mf_literal_extent(const mf_literal *l, int64_t *low, int64_t *bytes); /* its elements lie in data + low, so many bytes */
bool mf_literal_is_contiguous(const mf_literal *l);
mf_literal *mf_literal_contiguous(mf_literal *l); /* itself (retained) or a copy; NULL when out of memory */
/* Whether both are the same numbers by their looks alone: one piece of memory, or both at most 16 bytes. */
bool mf_literal_same(const mf_literal *a, const mf_literal *b);
mf_array *mf_literal_array(mf_literal *l); /* ready, of the same memory; NULL when out of memory */
/* Gives a, made by mf_array_on_devices, what device number k of its sharding holds of l (of devices that share memory, 0: all). False when
 * memory is out. */
bool mf_array_put_part(mf_array *a, int k, const mf_literal *l);
/* Ready, sharded so: a copy, or the CPU's same memory; NULL likewise, or where p is. */
mf_array *mf_array_of_literal(const mf_sharding *p, mf_literal *l);

#endif
