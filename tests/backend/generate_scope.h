/* Internals of the generator: the program under construction, the facts known about its values, and how a value is made to fit. */
#ifndef MF_TESTS_GENERATE_SCOPE_H
#define MF_TESTS_GENERATE_SCOPE_H

#include "constant.h"
#include "generate.h"
#include "ops/ops.h"

typedef struct fact {
    double low, high; /* infinite: unknown */
    bool whole;       /* integers that are exact in the value's dtype; always true of integer dtypes */
    bool uniform;     /* the same on all devices, for all inputs */
} fact;

typedef struct slot {
    mf_variable *v; /* NULL: there is none */
    fact f;
} slot;

enum { SLOTS = 64 };

typedef struct generator {
    uint64_t state;
    int left; /* the number of equations that may still be added */
    generated *out;
} generator;

typedef struct scope {
    generator *g;
    mf_builder b;
    bool top, collectives;
    int depth, count;
    slot at[SLOTS];
} scope;

uint64_t draw(generator *g);
int pick(generator *g, int n); /* 0 .. n-1 */
bool chance(generator *g, int percent);

scope scope_open(generator *g, const mf_axis_env *env, int depth);
void scope_add(scope *s, mf_variable *v, fact f);
/* A new value of this type: an input of the program, or a constant. */
slot scope_fresh(scope *s, const mf_type *type, fact f);
slot scope_result(scope *s);                           /* a value that is worth returning */
slot scope_find(scope *s, mf_dtype dtype, bool whole); /* a random existing value */
/* A value of exactly this type, made from existing ones; its facts lie within the range if that is finite. */
slot scope_value(scope *s, const mf_type *type, double low, double high, bool whole);
slot scope_reshaped(scope *s, slot x, const mf_type *shape);
slot scope_ranged(scope *s, slot x, double low, double high);

/* Adds equations until there are `count` or the program is full. */
void scope_fill(scope *s, int count);
/* generate_ops.c: one equation of an op; generate_nested.c: everything else. */
void add_row(scope *s);
void add_nested(scope *s);
fact fact_of_result(const mf_eqn *e, const fact *in, int output);
bool in_list(const char *name, const char *const *list);

static inline fact fact_any(void) { return (fact){ -1 / 0.0, 1 / 0.0, false, false }; }
static inline fact fact_range(double low, double high, bool whole) { return (fact){ low, high, whole, false }; }

#endif
