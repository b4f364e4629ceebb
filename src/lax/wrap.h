/* What the public wrappers share: operands checked, dtypes promoted as JAX does, shapes broadcast as NumPy does, axes normalised.
 * Contract: a function that returns bool says whether it worked; when not, *x (or *a, v[0], *error) is the error value to return:
 *     if (!mf_promote2(&a, &b, "add")) return a;
 * `op` is the user's name of the operation and opens every message. Scalars that are ready are converted on the spot, so numbers in
 * the user's expressions show up in programs as constants of the right type and not as conversions. */
#ifndef MF_LAX_WRAP_H
#define MF_LAX_WRAP_H

#include "ops/ops.h"
#include "trace/trace.h"

/* ---- one operand */
bool mf_wrap_array(mf_value *x, const char *op); /* an array or tracer; a tree or a static is an error */
/* Likewise the operands of op from number `first` on (the first one is 1). An error is in v[0]; the others' are handled with it. */
bool mf_wrap_arrays(mf_value *v, int count, int first, const char *op);
mf_array *mf_concrete(mf_value x);                                /* borrowed; NULL for a tracer, a deleted array, or inside a trace */
mf_value mf_convert_value(mf_value x, mf_dtype dtype, bool weak); /* x itself when nothing changes */
/* Another look at a's memory; offset (bytes) counts from a's own first element. where[i]: the new axis that is the whole of a's axis i,
 * or -2 - k where only its element k is left, or -1. For arrays that mf_concrete gives. */
mf_value mf_view_value(const mf_array *a, const mf_type *type, int64_t offset, const int64_t *strides, const int *where);
/* The same where the new axis that comes of axis i holds only some of its elements: from first[i] on, every step[i]-th. */
mf_value mf_view_part(const mf_array *a, const mf_type *type, int64_t offset, const int64_t *strides, const int *where,
                      const int64_t *first, const int64_t *step);
mf_value mf_broadcast_value(mf_value x, int rank, const int64_t *dims); /* NumPy's rules; a view held once where nothing is traced */
bool mf_wrap_inexact(mf_value *x, const char *op);                      /* integers and bool become floats (weak stays weak) */

mf_dtype mf_inexact_dtype(mf_dtype dtype); /* f64 for 64-bit integers, f32 for others and bool */

/* ---- several operands */
bool mf_promote_dtypes(mf_value *v, int count, const char *op);     /* arrays all, of one dtype and weak flag */
bool mf_broadcast_shapes(mf_value *v, int count, const char *op);   /* and of one shape */
bool mf_promote2(mf_value *a, mf_value *b, const char *op);         /* both of these */
bool mf_promote2_inexact(mf_value *a, mf_value *b, const char *op); /* and integers become floats: true division */
bool mf_promote3(mf_value *a, mf_value *b, mf_value *c, const char *op);

/* ---- axes */
bool mf_normal_axis(int64_t axis, int rank, const char *op, int64_t *out, mf_value *error); /* negative counts from the end */
/* False, with an error: there is no memory. */
bool mf_intern_list(const int64_t *list, int count, const mf_intlist **out, mf_value *error);
/* A number, mf_axes(...), or MF_ALL, as a sorted list of distinct axes. */
bool mf_normal_axes(mf_axis axis, int rank, const char *op, const mf_intlist **out, mf_value *error);
bool mf_normal_ints(const mf_ints *axes, int rank, const char *op, const mf_intlist **out, mf_value *error); /* in the order given */

/* ---- trees of operands: the leaves of a list or tuple as values of the innermost scope; count up to `room`, -1 with *error. */
int mf_parts_of(mf_value parts, mf_value *out, int room, const char *op, mf_value *error);
int mf_part_count(mf_value parts); /* leaves; 1 for a leaf */

#endif
