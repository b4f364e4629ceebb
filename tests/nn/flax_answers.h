/* Known answers of flax.nnx (tests/oracle/nn.txt, made by nn.py; README.md there says what the lines are). */
#ifndef MF_TESTS_FLAX_ANSWERS_H
#define MF_TESTS_FLAX_ANSWERS_H

#include <manyfold.h>

typedef struct flax_answers {
    int in_count, din_count;
    mf_value in[4], mask, params, stats, after, grads, cotangent, out, din[4]; /* dicts by name; unset: no such line */
} flax_answers;

/* What stands under "<kind> <name>". False, and a failed check, when there is nothing. */
bool flax_read(const char *kind, const char *name, flax_answers *a);
/* Whether the arrays, or dicts of them, agree to the tolerance, relative to the greatest that is expected, or to 1. */
bool flax_near(const char *name, const char *what, mf_value got, mf_value expected, double tolerance);

#endif
