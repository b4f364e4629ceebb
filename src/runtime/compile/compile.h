/* Compiling programs; see compile.c. */
#ifndef MF_RUNTIME_COMPILE_COMPILE_H
#define MF_RUNTIME_COMPILE_COMPILE_H

#include "runtime/executable.h"

/* p as it was traced; donated[i] (may be NULL): input i's memory may be reused. One reference, or NULL and *error. Any thread. */
mf_executable *mf_compile_program(const mf_program *p, const bool *donated, mf_error_object **error);

#endif
