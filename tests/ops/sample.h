/* Reads and runs the samples of the ops' rows. README.md in this folder has the grammar. Nothing here is specific to an op. */
#ifndef MF_TESTS_SAMPLE_H
#define MF_TESTS_SAMPLE_H

#include "runtime/compile/segment_compiler.h"

enum { SAMPLE_MAX = 12 };

typedef struct sample_operand {
    const mf_type *type;
    double low, high;   /* the range of random values */
    const char *values; /* the text behind "=", up to "}"; NULL: random values */
} sample_operand;

typedef struct sample {
    const mf_op *op;
    const char *text;
    mf_arena arena;
    const mf_axis_env *over; /* the map around the equation; NULL: none */
    void *params;            /* NULL: none */
    int in_count, out_count; /* out_count 0: no expected results */
    sample_operand in[SAMPLE_MAX], out[SAMPLE_MAX];
} sample;

/* False after a failed check, which names op, sample and position. */
bool sample_read(sample *s, const mf_op *op, const char *text);
void sample_free(sample *s);
bool sample_fail(const sample *s, const char *format, ...) __attribute__((format(printf, 2, 3))); /* a failed check; false */
bool sample_fail_error(const sample *s, const char *what, mf_error_object *e);                    /* takes the reference */

/* A copy in double precision, with floats of every width as f64: it shares arena and texts, and has its own params. */
void sample_as_f64(sample *copy, const sample *s, void *params, size_t room);
bool sample_has_half(const sample *s);
/* The values of an operand as an array; random ones are determined by `seed`. */
mf_array *sample_array(const sample_operand *o, uint64_t seed);
mf_array *random_array(const mf_type *type, double low, double high, uint64_t seed);
/* The program with this one equation, or with the map around it; NULL and *error if the type rule rejects it. */
mf_program *sample_program(const sample *s, mf_error_object **error);

/* Runs p; the results are contiguous. NULL, or the error (new reference). */
mf_error_object *run_program(const mf_program *p, const mf_segment_compiler *compiler, mf_array *const *in, mf_array **out);
/* The same on another client's first devices; arrays are the CPU's. */
mf_error_object *run_program_on(const mf_client *client, const mf_program *p, mf_array *const *in, mf_array **out);
void drop_arrays(mf_array **arrays, int count);

#endif
