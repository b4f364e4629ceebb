/* A small evaluator for the tests of transforms: runs a program on all replicas of the surrounding axes at once, step by step, with the
 * ops' own evaluate for arithmetic and plain loops for maps, collectives and control flow. It shares no code with the runtime.
 * Values are stacked: replica after replica (outermost axis first), each contiguous. Branches of a cond are all evaluated and picked
 * from, replica by replica, so programs must not depend on which replicas run them. */
#ifndef MF_TESTS_TRANSFORM_EVALUATE_H
#define MF_TESTS_TRANSFORM_EVALUATE_H

#include "ir/op.h"

typedef struct value {
    const mf_type *type; /* the type on one replica */
    char *data;          /* malloc'ed: one value for each replica */
} value;

/* env: the axes in scope, whose product is the number of replicas. out: p->out_count fresh values. False with a message on stdout. */
bool evaluate(const mf_program *p, const mf_axis_env *env, const value *in, value *out);
value value_new(const mf_type *type, int64_t replicas);                    /* zeros */
value value_random(const mf_type *type, int64_t replicas, unsigned *seed); /* floats in [-1, 1], integers 0 or 1 */
void value_free(value *values, int count);
double value_at(const value *v, int64_t replica, int64_t element);
void value_set(value *v, int64_t replica, int64_t element, double x);

#endif
