/* Small programs that use the public API, one for each kind of work that the library does; the result of each is a known number. */
#ifndef MF_TESTS_SMALL_PROGRAMS_H
#define MF_TESTS_SMALL_PROGRAMS_H

#include <manyfold.h>

typedef struct small_program {
    const char *name;
    mf_value (*run)(void); /* returns a scalar, or an error; may be called repeatedly */
    double expected;
} small_program;

extern const small_program small_programs[];
extern const int small_program_count;

void small_programs_open(void); /* sets 4 devices; writes the files that some programs read */
void small_programs_close(void);

#endif
