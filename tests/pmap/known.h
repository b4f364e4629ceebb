/* Reads the known answers in tests/oracle (its README describes the format) and compares results with them. */
#ifndef MF_TESTS_KNOWN_H
#define MF_TESTS_KNOWN_H

#include <manyfold.h>

enum { KNOWN_MAX = 8, KNOWN_LINE = 8192 };

typedef struct known_array {
    mf_dtype dtype;
    mf_shape shape;
    int count;
    double *numbers;
} known_array;

typedef struct known_case {
    char name[96];
    double rtol, atol;
    char source[1024]; /* the expression that was evaluated */
    int in_count, out_count, print_count;
    known_array in[KNOWN_MAX], out[KNOWN_MAX];
    char *print[64]; /* what print() showed, line by line; print_count 0: not asked */
} known_case;

/* Runs a program of the case's name over its inputs. An unset value: there is none of this name. */
typedef mf_value (*known_program)(const char *name, const mf_value *in);

/* Cases where another answer is meant; ends with a NULL. */
typedef struct known_skip {
    const char *name, *reason;
} known_skip;

/* Every case of tests/oracle/<file>: evaluates, compares, counts. Checks fail with the case's name and source. */
void known_run(const char *file, known_program program, int expected_cases, const known_skip *skips);

#endif
