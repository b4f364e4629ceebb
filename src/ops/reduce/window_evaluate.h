/* The evaluation of the ops over sliding windows (window.c). */
#ifndef MF_OPS_REDUCE_WINDOW_EVALUATE_H
#define MF_OPS_REDUCE_WINDOW_EVALUATE_H

#include "ops/params.h"
#include "ops/ops.h"

/* The number of windows along dimension i of an operand with that size. */
int64_t mf_window_count(const mf_window_params *p, int i, int64_t size);
mf_error_object *mf_window_evaluate(const mf_eqn *e, const void *const *in, void *const *out);
mf_error_object *mf_select_scatter_evaluate(const mf_eqn *e, const void *const *in, void *const *out);
mf_error_object *mf_select_gather_evaluate(const mf_eqn *e, const void *const *in, void *const *out);

#endif
