/* Opt-in checks of what programs compute: MF_CHECK in the environment, or mf_set_checks. */
#ifndef MF_PASSES_CHECKS_H
#define MF_PASSES_CHECKS_H

#include <stdbool.h>

bool mf_checks_nan(void);

#endif
