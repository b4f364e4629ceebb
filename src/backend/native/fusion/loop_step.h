/* While and scan over rather small values as one step of a segment (loop_step.c); the runtime steps through other loops. */
#ifndef MF_BACKEND_NATIVE_FUSION_LOOP_STEP_H
#define MF_BACKEND_NATIVE_FUSION_LOOP_STEP_H

#include "backend/native/native_kernel.h"
#include "backend/native/segment_build.h"

bool mf_native_takes_loop(const mf_eqn *e);
/* The body (loop_rows.c) for the first of *parts equal parts of the rows, which all inputs but the first `consts` and all results have
 * along their first dimension. NULL: it cannot be cut, there are too few rows, or b->error. The caller drops it. */
mf_program *mf_loop_cut_rows(mf_build *b, const mf_program *body, int64_t consts, int *parts);
/* Whether mf_loop_cut_rows would give one. False with *error: out of memory. */
bool mf_loop_has_parts(const mf_program *body, int64_t consts, mf_error_object **error);
/* Whether e is a product that feeds the scan `reader` and may be computed in its rounds; see mf_segment_compiler's feeds. */
bool mf_native_feeds(const mf_eqn *e, const mf_eqn *reader);
/* p, with the products that feed scans moved into their rounds (loop_feed.c): one reference, or NULL and *error. */
mf_program *mf_feed_loops(const mf_program *p, mf_error_object **error);
typedef struct mf_loop_plan {
    const mf_native_kernel *cond, *body; /* cond NULL: a scan */
    int cond_consts, body_consts, carry;
    int64_t length; /* of a scan */
    bool reverse;   /* of a scan */
} mf_loop_plan;

#endif
