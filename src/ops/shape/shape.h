/* Lists of axes: positions in increasing order, and what batching does to them.
 * Invariant: lists are interned; nothing here changes one. */
#ifndef MF_OPS_SHAPE_SHAPE_H
#define MF_OPS_SHAPE_SHAPE_H

#include "ops/emit.h"

bool shape_increasing(const mf_intlist *list, int64_t end);                  /* distinct, sorted, within [0, end) */
bool shape_distinct(const mf_intlist *list, int64_t end);                    /* distinct, within [0, end) */
int64_t shape_position(const mf_intlist *list, int64_t x);                   /* -1 when absent */
const mf_intlist *shape_shifted(const mf_intlist *list, int64_t axis);       /* every entry at or behind axis one further */
const mf_intlist *shape_inserted(const mf_intlist *list, int at, int64_t x); /* x before entry number `at` */
const mf_intlist *shape_dims(const mf_type *t);
/* For evaluation: x with its axes in this order, row by row as `dtype`; mf_free it. NULL when memory is out. */
void *shape_packed(const mf_type *t, const void *x, const int64_t *axes, mf_dtype dtype);
/* Of sliding windows: an error where an entry of the list is so large that what is made of two of them may overflow, or is not positive. */
mf_error_object *shape_check_steps(const mf_type_context *c, const char *name, const mf_intlist *list, bool positive);
int64_t shape_dilated(int64_t size, int64_t dilation); /* the extent of that many elements, dilation apart; INT64_MAX / 4 is the most */
/* Such that ceil(size / stride) windows fit, the odd one at the end. 0 where the type rule will refuse the operands. */
void shape_same_padding(int64_t size, int64_t window, int64_t dilation, int64_t stride, int64_t *low, int64_t *high);
int64_t shape_windows(int64_t size, int64_t low, int64_t high, int64_t base_dilation, int64_t window, int64_t window_dilation,
                      int64_t stride);

#endif
