/* Small programs on the public API, one for every kind of work that the library does: each gives one number that is known. */
#ifndef MF_TESTS_SMALL_PROGRAMS_H
#define MF_TESTS_SMALL_PROGRAMS_H

#include <manyfold.h>

typedef struct small_program {
    const char *name;
    mf_value (*run)(void); /* a scalar, or the error that came instead; may be called any number of times */
    double expected;
} small_program;

extern const small_program small_programs[];
extern const int small_program_count;

void small_programs_open(void); /* 4 devices; writes the files that some of them read */
void small_programs_close(void);

#endif
