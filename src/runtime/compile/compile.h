/* Compiling programs; see compile.c. */
#ifndef MF_RUNTIME_COMPILE_COMPILE_H
#define MF_RUNTIME_COMPILE_COMPILE_H

#include "runtime/executable.h"

/* p as it was traced; donated, in: as for mf_executable_compile. One reference, or NULL and *error. Any thread. */
mf_executable *mf_compile_program(const mf_program *p, const bool *donated, mf_array *const *in, mf_error_object **error);

#endif
