/* Shared by the public wrappers: checking operands, promoting dtypes as JAX does, broadcasting shapes as NumPy does, normalising axes.
 * Contract: a function that returns bool returns whether it succeeded; if not, *x (or *a, v[0], *error) is the error value to return:
 *     if (!mf_promote2(&a, &b, "add")) return a;
 * `op` is the user's name of the operation and begins every message. Ready scalars are converted at once, so that numbers in the user's
 * expressions appear in programs as constants of the right type and not as conversions. */
#ifndef MF_LAX_WRAP_H
#define MF_LAX_WRAP_H

#include "ops/ops.h"
#include "trace/trace.h"

/* ---- one operand */
bool mf_wrap_array(mf_value *x, const char *op); /* requires an array or tracer; a tree or a static is an error */
/* The same for the operands of op, numbered from `first` on (the first operand is 1). An error is in v[0]; the others' errors are joined to
 * it. */
bool mf_wrap_arrays(mf_value *v, int count, int first, const char *op);
mf_array *mf_concrete(mf_value x);                                /* borrowed; NULL: a tracer, deleted, pending, or in a trace */
mf_value mf_convert_value(mf_value x, mf_dtype dtype, bool weak); /* x itself when nothing changes */
/* A view of a's memory; offset (bytes) counts from a's own first element. where[i]: the new axis that is the whole of a's axis i, or -2 - k
 * if only its element k is left, or -1. For arrays that mf_concrete returns. */
mf_value mf_view_value(const mf_array *a, const mf_type *type, int64_t offset, const int64_t *strides, const int *where);
/* The same where the new axis made of axis i has only some of its elements: from first[i] on, every step[i]-th. */
mf_value mf_view_part(const mf_array *a, const mf_type *type, int64_t offset, const int64_t *strides, const int *where,
                      const int64_t *first, const int64_t *step);
mf_value mf_broadcast_value(mf_value x, int rank, const int64_t *dims); /* NumPy's rules; outside traces a view with strides of 0 */
bool mf_wrap_inexact(mf_value *x, const char *op);                      /* converts integers and bool to floats (weak stays weak) */

mf_dtype mf_inexact_dtype(mf_dtype dtype); /* f64 for 64-bit integers; f32 for bool and other integers */

/* ---- several operands */
bool mf_promote_dtypes(mf_value *v, int count, const char *op);     /* makes all of them arrays of one dtype and weak flag */
bool mf_broadcast_shapes(mf_value *v, int count, const char *op);   /* broadcasts all to one shape */
bool mf_promote2(mf_value *a, mf_value *b, const char *op);         /* both of these */
bool mf_promote2_inexact(mf_value *a, mf_value *b, const char *op); /* and converts integers to floats, for true division */
bool mf_promote3(mf_value *a, mf_value *b, mf_value *c, const char *op);

/* ---- axes */
bool mf_normal_axis(int64_t axis, int rank, const char *op, int64_t *out, mf_value *error); /* a negative axis counts from the end */
/* False, with an error: out of memory. */
bool mf_intern_list(const int64_t *list, int count, const mf_intlist **out, mf_value *error);
/* Reads a number, mf_axes(...), or MF_ALL as a sorted list of distinct axes. */
bool mf_normal_axes(mf_axis axis, int rank, const char *op, const mf_intlist **out, mf_value *error);
bool mf_normal_ints(const mf_ints *axes, int rank, const char *op, const mf_intlist **out, mf_value *error); /* in the order given */

/* ---- trees of operands. Stores the leaves of a list or tuple as values of the innermost scope; returns their number, or -1 with
 * *error. */
int mf_parts_of(mf_value parts, mf_value *out, int capacity, const char *op, mf_value *error);
int mf_part_count(mf_value parts); /* number of leaves; 1 for a leaf */

#endif
