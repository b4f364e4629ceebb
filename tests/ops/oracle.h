/* Known answers: reading the files of tests/oracle (README.md there says how they are written) and comparing. */
#ifndef MF_TESTS_ORACLE_H
#define MF_TESTS_ORACLE_H

#include <manyfold.h>

enum { ORACLE_MAX = 8, ORACLE_ATTRIBUTES = 16 };

typedef struct oracle_case {
    char name[64];
    const char *file;
    int line, attribute_count, in_count, out_count;
    char key[ORACLE_ATTRIBUTES][40], value[ORACLE_ATTRIBUTES][160];
    mf_value in[ORACLE_MAX], out[ORACLE_MAX];
} oracle_case;

/* Calls visit for every case of tests/oracle/<file>, each in its own scope; a missing or malformed file fails a check. */
void oracle_read(const char *file, void (*visit)(const oracle_case *c));

const char *oracle_text(const oracle_case *c, const char *key); /* NULL when absent */
double oracle_number(const oracle_case *c, const char *key, double otherwise);
mf_dtype oracle_dtype(const oracle_case *c, const char *key);             /* MF_DTYPE_DEFAULT when absent */
mf_ints oracle_ints(const oracle_case *c, const char *key);               /* "0,2"; "-" is empty */
mf_ints oracle_column(const oracle_case *c, const char *key, int column); /* of "1:2,0:1" */
mf_shape oracle_shape(const oracle_case *c, const char *key);
bool oracle_is(const oracle_case *c, const char *key, const char *value);

/* Whether `got` equals `expected`: dtype, shape, and every element within the case's rtol and atol, or bit for bit if it has none (all NaNs
 * are equal; the sign of zero is compared only if signed_zeros). A failure prints the position. */
bool oracle_same(const oracle_case *c, int index, mf_value got, mf_value expected, bool signed_zeros);

#endif
