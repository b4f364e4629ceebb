/* Copies of a program that differ in one respect, nested programs included: in double precision, with the errors of rounding added at
 * random, or with one equation replaced by something simpler. What a copy computes follows from the arguments alone. */
#ifndef MF_TESTS_REWRITE_H
#define MF_TESTS_REWRITE_H

#include "ir/op.h"

typedef enum cut_way { CUT_TO_OPERAND, CUT_TO_ZEROS, CUT_TO_ONES } cut_way;

/* Floats of every width become f64. */
mf_program *program_in_f64(const mf_program *p, mf_error_object **error);
/* The same, and every float result is moved by up to twice the error that rounding it to its own dtype makes: nothing where it is exact. */
mf_program *program_with_noise(const mf_program *p, uint64_t seed, mf_error_object **error);
/* The equation `target`, counted through the nested programs in the order of the text, replaced by an operand of its results' type, zeros
 * or ones; dead code is removed. NULL without an error where that is impossible or there is no such equation. */
mf_program *program_with_cut(const mf_program *p, int target, cut_way way);
int program_equations(const mf_program *p); /* with those of nested programs */

/* `element` repeated over a type, as an equation. */
mf_variable *emit_filled(mf_builder *b, const mf_type *type, double element);

#endif
