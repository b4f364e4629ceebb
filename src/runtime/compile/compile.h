/* Compiling programs; see compile.c. */
#ifndef MF_RUNTIME_COMPILE_COMPILE_H
#define MF_RUNTIME_COMPILE_COMPILE_H

#include "runtime/executable.h"

/* load->program as it was traced, not yet optimised. One reference, or NULL and *error. Any thread. */
mf_executable *mf_compile_program(const mf_load_request *load, mf_error_object **error);

#endif
