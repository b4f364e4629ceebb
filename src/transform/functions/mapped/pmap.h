/* Device counts of maps, for other files. */
#ifndef MF_TRANSFORM_FUNCTIONS_MAPPED_PMAP_H
#define MF_TRANSFORM_FUNCTIONS_MAPPED_PMAP_H

#include "ops/params.h"
#include "trace/function.h"

/* The number of devices of one index of the axis: an equal share of named devices, whatever the maps inside need; else as many as those
 * need. */
int64_t mf_pmap_span(const mf_pmap_params *m);
int64_t mf_program_replicas(const mf_program *p); /* devices that one run of p occupies: the largest product of nested maps */

#endif
