/* Lists of axes, and the arithmetic of windows, padding and dilation. Invariant: lists are interned; nothing here changes one. */
#ifndef MF_OPS_SHAPE_SHAPE_H
#define MF_OPS_SHAPE_SHAPE_H

#include "ops/emit.h"

bool shape_increasing(const mf_intlist *list, int64_t end);                  /* distinct, sorted, within [0, end) */
bool shape_distinct(const mf_intlist *list, int64_t end);                    /* distinct, within [0, end) */
int64_t shape_position(const mf_intlist *list, int64_t x);                   /* -1 when absent */
const mf_intlist *shape_shifted(const mf_intlist *list, int64_t axis);       /* adds 1 to every entry from `axis` on */
const mf_intlist *shape_inserted(const mf_intlist *list, int at, int64_t x); /* inserts x before entry `at` */
const mf_intlist *shape_dims(const mf_type *t);
/* For evaluation: x with its axes in this order, packed in row-major order as `dtype`; free it with mf_free. NULL when out of memory. */
void *shape_packed(const mf_type *t, const void *x, const int64_t *axes, mf_dtype dtype);
/* For sliding windows: an error if an entry of the list is not positive (when it must be), or so large that computing with two may
 * overflow. */
mf_error_object *shape_check_steps(const mf_type_context *c, const char *name, const mf_intlist *list, bool positive);
int64_t shape_dilated(int64_t size, int64_t dilation); /* the extent of `size` elements that are `dilation` apart; at most INT64_MAX / 4 */
/* The padding with which ceil(size / stride) windows fit; an odd one goes to the end. 0 where the type rule will refuse the operands. */
void shape_same_padding(int64_t size, int64_t window, int64_t dilation, int64_t stride, int64_t *low, int64_t *high);
int64_t shape_windows(int64_t size, int64_t low, int64_t high, int64_t base_dilation, int64_t window, int64_t window_dilation,
                      int64_t stride);

#endif
