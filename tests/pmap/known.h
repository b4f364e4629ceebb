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
    char *print[64]; /* the output of print(), line by line; print_count 0: not tested */
} known_case;

/* Runs the program of this name on its inputs. Returns an unset value if there is none. */
typedef mf_value (*known_program)(const char *name, const mf_value *in);

/* Cases in which the library's answer differs intentionally; ends with a NULL. */
typedef struct known_skip {
    const char *name, *reason;
} known_skip;

/* Evaluates, compares and counts every case of tests/oracle/<file>. A failed check prints the case's name and source. */
void known_run(const char *file, known_program program, int expected_cases, const known_skip *skips);

#endif
