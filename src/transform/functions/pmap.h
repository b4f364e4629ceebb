/* What others ask of pmap. */
#ifndef MF_TRANSFORM_FUNCTIONS_PMAP_H
#define MF_TRANSFORM_FUNCTIONS_PMAP_H

#include "trace/function.h"

#include <manyfold/function.h>

int64_t mf_program_replicas(const mf_program *p); /* devices that one run of p occupies: the largest product of nested maps */

#endif
