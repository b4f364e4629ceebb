/* Samples of rows, read and run. The grammar is in README.md beside this file. Nothing here knows a particular op. */
#ifndef MF_TESTS_SAMPLE_H
#define MF_TESTS_SAMPLE_H

#include "runtime/compile/segment_compiler.h"

enum { SAMPLE_MAX = 12 };

typedef struct sample_operand {
    const mf_type *type;
    double low, high;   /* of random values */
    const char *values; /* behind "=", up to "}"; NULL: random */
} sample_operand;

typedef struct sample {
    const mf_op *op;
    const char *text;
    mf_arena arena;
    const mf_axis_env *over; /* the map that the equation stands in; NULL: none */
    void *params;            /* NULL: none */
    int in_count, out_count; /* out_count 0: no expected results */
    sample_operand in[SAMPLE_MAX], out[SAMPLE_MAX];
} sample;

/* False after a failed check that names op, sample and place. */
bool sample_read(sample *s, const mf_op *op, const char *text);
void sample_free(sample *s);
bool sample_fail(const sample *s, const char *format, ...) __attribute__((format(printf, 2, 3))); /* a failed check; false */
bool sample_fail_error(const sample *s, const char *what, mf_error_object *e);                    /* takes the reference */

/* A copy in double precision, floats of every width becoming f64: same arena and texts, params of its own in `params`. */
void sample_as_f64(sample *copy, const sample *s, void *params, size_t room);
bool sample_has_half(const sample *s);
/* The values of an operand as an array; `seed` picks the random ones. */
mf_array *sample_array(const sample_operand *o, uint64_t seed);
mf_array *random_array(const mf_type *type, double low, double high, uint64_t seed);
/* The program of the one equation, or of the map that it stands in; NULL and *error when the type rule objects. */
mf_program *sample_program(const sample *s, mf_error_object **error);

/* Runs p; the results are contiguous. NULL, or the error (new reference). */
mf_error_object *run_program(const mf_program *p, const mf_segment_compiler *compiler, mf_array *const *in, mf_array **out);
/* The same on another client's first devices; arrays are the CPU's. */
mf_error_object *run_program_on(const mf_client *client, const mf_program *p, mf_array *const *in, mf_array **out);
void drop_arrays(mf_array **arrays, int count);

#endif
