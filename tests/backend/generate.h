/* Random programs made from the ops: their samples say which operands and parameters are valid, so a new op takes part by itself.
 * Maps, loops, branches, calls, collectives, batching and both derivatives are put around and among the ops' equations.
 *
 * What makes results comparable between engines, and between single and double precision:
 *   every float operand lies in the range that its sample names (it is clamped or squashed into it where that is not known), and
 *   an op that is not continuous gets whole numbers only, which are exact in every precision.
 * The same seed gives the same program on every machine. */
#ifndef MF_TESTS_GENERATE_H
#define MF_TESTS_GENERATE_H

#include "ir/op.h"

enum { GENERATED_INPUTS = 10, GENERATED_DEVICES = 8 };

typedef struct generated {
    mf_program *p;
    double low[GENERATED_INPUTS], high[GENERATED_INPUTS]; /* the range of the inputs' values */
    bool whole[GENERATED_INPUTS];                         /* integers only */
} generated;

/* False with *error (one reference) if a type rule rejects an equation, which is a bug of the generator or of the rule. */
bool generate_program(uint64_t seed, generated *out, mf_error_object **error);
mf_array *generated_input(const generated *g, int input, uint64_t seed);

#endif
