/* Rows of public functions, against JAX: the expression stands beside each, with the names of tests/oracle/expressions.py, which reads the rows
 * of every test that includes this file and writes what JAX makes of them. To add a row, add a line and run it.
 * Invariant: rows and answers are in one order; an answer to another expression than the row's is a failure. */
#ifndef MF_TESTS_EXPRESSIONS_H
#define MF_TESTS_EXPRESSIONS_H

#include <manyfold.h>

#include <math.h>

#define VECTOR(dtype, ...) mf_array(dtype, MF_SHAPE(sizeof((double[]){ __VA_ARGS__ }) / sizeof(double)), __VA_ARGS__)
#define F(...)             VECTOR(MF_F32, __VA_ARGS__)
#define D(...)             VECTOR(MF_F64, __VA_ARGS__)
#define H(...)             VECTOR(MF_F16, __VA_ARGS__)
#define B(...)             VECTOR(MF_BF16, __VA_ARGS__)
#define I(...)             VECTOR(MF_I32, __VA_ARGS__)
#define SUM_OF(name, expression) \
    static mf_value name(mf_value x) { return mf_sum(expression); }

#define nan_ ((double)NAN)
#define inf  ((double)INFINITY)
static inline mf_value grid(void) { return mf_reshape(mf_arange(6, MF_F32), MF_SHAPE(2, 3)); }
static inline mf_value cube(void) { return mf_reshape(mf_arange(12, MF_F32), MF_SHAPE(2, 3, 2)); }
static inline mf_value whole(void) { return mf_reshape(I(3, 1, 2, 6, -5, 4), MF_SHAPE(2, 3)); }
static inline mf_value holes(void) { return mf_reshape(F(1, nan_, 2, nan_, nan_, nan_), MF_SHAPE(2, 3)); }
static inline mf_value spread(void) { return mf_reshape(F(2, 0.5, 0.5, 1), MF_SHAPE(2, 2)); }
static inline mf_value key(void) { return mf_random_key(42); }
static inline mf_value parts(mf_value z) { return mf_stack(mf_list(mf_real(z), mf_imag(z)), 0); }

/* A row: an array, or a tuple or list of them, is what JAX says of the expression, within rtol (0: bit for bit). */
#define ROW(rtol, expression, value) expressions_add(expression, value);
void expressions_add(const char *expression, mf_value value);
/* Compares all rows so far with the answers in tests/oracle/<file>. */
void expressions_compare(const char *file);

#endif
