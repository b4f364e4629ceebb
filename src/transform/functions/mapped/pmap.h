/* What others ask of pmap. */
#ifndef MF_TRANSFORM_FUNCTIONS_MAPPED_PMAP_H
#define MF_TRANSFORM_FUNCTIONS_MAPPED_PMAP_H

#include "ops/params.h"
#include "trace/function.h"

/* Devices that one index of the axis has: of named ones an equal share, whatever became of the maps inside; else as many as those need. */
int64_t mf_pmap_span(const mf_pmap_params *m);
int64_t mf_program_replicas(const mf_program *p); /* devices that one run of p occupies: the largest product of nested maps */

#endif
