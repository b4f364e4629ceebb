/* Copies of a program, including nested programs, that differ in one respect: in double precision, with random rounding errors added, or
 * with one equation replaced by something simpler. The result depends only on the arguments. */
#ifndef MF_TESTS_REWRITE_H
#define MF_TESTS_REWRITE_H

#include "ir/op.h"

typedef enum cut_way { CUT_TO_OPERAND, CUT_TO_ZEROS, CUT_TO_ONES } cut_way;

/* Floats of every width become f64. */
mf_program *program_in_f64(const mf_program *p, mf_error_object **error);
/* The same, but every float result is changed by up to twice its rounding error in its own dtype; exact results stay. */
mf_program *program_with_noise(const mf_program *p, uint64_t seed, mf_error_object **error);
/* Replaces equation number `target`, counted through the nested programs in the order of the text, by an operand of its result's type,
 * zeros or ones, and removes dead code. NULL without an error if that is impossible or there is no such equation. */
mf_program *program_with_cut(const mf_program *p, int target, cut_way way);
int program_equations(const mf_program *p); /* including nested programs */

/* `element` repeated over a type, as an equation. */
mf_variable *emit_filled(mf_builder *b, const mf_type *type, double element);

#endif
