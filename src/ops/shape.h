/* Lists of axes: positions in increasing order, and what batching does to them.
 * Invariant: lists are interned; nothing here changes one. */
#ifndef MF_OPS_SHAPE_H
#define MF_OPS_SHAPE_H

#include "ops/emit.h"

bool shape_increasing(const mf_intlist *list, int64_t end);                  /* distinct, sorted, within [0, end) */
bool shape_distinct(const mf_intlist *list, int64_t end);                    /* distinct, within [0, end) */
int64_t shape_position(const mf_intlist *list, int64_t x);                   /* -1 when absent */
const mf_intlist *shape_shifted(const mf_intlist *list, int64_t axis);       /* every entry at or behind axis one further */
const mf_intlist *shape_inserted(const mf_intlist *list, int at, int64_t x); /* x before entry number `at` */
const mf_intlist *shape_dims(const mf_type *t);

#endif
