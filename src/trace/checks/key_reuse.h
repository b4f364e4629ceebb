/* Random keys that are used twice: MF_CHECK=keys. See trace/checks/key_reuse.c. */
#ifndef MF_TRACE_CHECKS_KEY_REUSE_H
#define MF_TRACE_CHECKS_KEY_REUSE_H

#include "ir/program.h"

/* Of a program as the user's function was traced. NULL, or an error that names both uses. */
mf_error_object *mf_keys_check(const mf_program *p);
/* Of a program that is about to run on these arrays: they are marked as used. NULL, or an error: one was used before. */
mf_error_object *mf_keys_use(const mf_program *p, mf_array *const *in);

#endif
