/* pmap with rules for state cells: what mf_pmap and the stateful maps are made of. */
#ifndef MF_TRANSFORM_PMAP_H
#define MF_TRANSFORM_PMAP_H

#include "trace/function.h"

#include <manyfold/function.h>

int64_t mf_program_replicas(const mf_program *p); /* devices that one run of p occupies: the largest product of nested maps */
mf_function mf_pmap_with_rules(mf_function f, const mf_pmap_options *o, const mf_cell_rules *rules);

#endif
