/* A scan some of whose rounds are one: see unroll.c. */
#ifndef MF_TRANSFORM_FUNCTIONS_CONTROL_UNROLL_H
#define MF_TRANSFORM_FUNCTIONS_CONTROL_UNROLL_H

#include "ops/ops.h"
#include "trace/dispatch.h"

enum { UNROLL_MOST = 4096 }; /* copies of a body: what nobody means is no program that fills the memory */

/* Binds a scan of the operands (consts, carry, xs) with so many rounds in one, 2 to its length; out as mf_bind_n's. */
mf_error_object *mf_bind_unrolled_scan(const mf_scan_params *params, int64_t unroll, const mf_value *in, int in_count, mf_value *out,
                                       int out_count);

#endif
