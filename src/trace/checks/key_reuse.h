/* MF_CHECK=keys: random keys that are used twice; see key_reuse.c. */
#ifndef MF_TRACE_CHECKS_KEY_REUSE_H
#define MF_TRACE_CHECKS_KEY_REUSE_H

#include "ir/program.h"

/* Checks a program as the user's function was traced. Returns NULL, or an error that names both uses. */
mf_error_object *mf_keys_check(const mf_program *p);
/* For a program about to run on these arrays: marks the keys as used. Returns NULL, or an error: a key was used before. */
mf_error_object *mf_keys_use(const mf_program *p, mf_array *const *in);

#endif
