/* The parts of a scan's equation, for the files with its rules: scan.c and scan_partial_eval.c. */
#ifndef MF_OPS_CONTROL_LOOPS_SCAN_H
#define MF_OPS_CONTROL_LOOPS_SCAN_H

#include "ops/control/nested.h"

static inline const mf_scan_params *scan_of(const mf_eqn *e) { return e->params; }

static inline int scan_consts(const mf_eqn *e) { return (int)scan_of(e)->consts; }
static inline int scan_carries(const mf_eqn *e) { return (int)scan_of(e)->carry; }
static inline int scan_xs_from(const mf_eqn *e) { return scan_consts(e) + scan_carries(e); } /* position of the first xs */

/* Which part an input of the equation or of the body is: 0 a constant, 1 the carry, 2 xs. Results: 1 the carry, 2 ys. */
static inline int scan_part(const mf_eqn *e, int input) { return input < scan_consts(e) ? 0 : input < scan_xs_from(e) ? 1 : 2; }
static inline int scan_result_part(const mf_eqn *e, int output) { return output < scan_carries(e) ? 1 : 2; }

/* Emits a loop like e's with these differences. */
void scan_emit(mf_builder *b, const mf_eqn *e, mf_program *body, int64_t constants, int64_t carry, bool reverse, const nested_list *in,
               mf_variable **out);
void scan_partial_eval(mf_partial_context *c, const mf_eqn *e);

#endif
