/* Known answers of flax.nnx (tests/oracle/nn.txt, made by nn.py; README.md there says what the lines are). */
#ifndef MF_TESTS_FLAX_ANSWERS_H
#define MF_TESTS_FLAX_ANSWERS_H

#include <manyfold.h>

typedef struct flax_answers {
    int in_count, din_count;
    mf_value in[4], mask, params, stats, after, grads, cotangent, out, din[4]; /* dicts by name; unset if there is no such line */
} flax_answers;

/* Reads the answers under "<kind> <name>". If there are none, fails a check and returns false. */
bool flax_read(const char *kind, const char *name, flax_answers *a);
/* Whether the arrays, or dicts of arrays, agree within the tolerance, relative to the largest expected element, or to 1. */
bool flax_near(const char *name, const char *what, mf_value got, mf_value expected, double tolerance);

#endif
