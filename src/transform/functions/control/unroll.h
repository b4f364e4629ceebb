/* A scan with several rounds in one; see unroll.c. */
#ifndef MF_TRANSFORM_FUNCTIONS_CONTROL_UNROLL_H
#define MF_TRANSFORM_FUNCTIONS_CONTROL_UNROLL_H

#include "ops/ops.h"
#include "trace/dispatch.h"

enum { UNROLL_MOST = 4096 }; /* copies of a body; more would be a mistake that fills memory with one program */

/* Binds a scan of these operands (consts, carry, xs) with `unroll` rounds in one, from 2 to its length; out as for mf_bind_n. */
mf_error_object *mf_bind_unrolled_scan(const mf_scan_params *params, int64_t unroll, const mf_value *in, int in_count, mf_value *out,
                                       int out_count);

#endif
