/* Programs as StableHLO modules. */
#ifndef MF_STABLEHLO_HLO_MODULE_H
#define MF_STABLEHLO_HLO_MODULE_H

#include "ir/program.h"

/* Appends "module @name ... { func.func public @main ... }": p as one program of so many replicas. Where p is one map and nothing else,
 * arguments and results are each device's own: without the mapped axes. Else every replica has all of them. Keys are pairs of ui32.
 * donated: by input of p, NULL for none. NULL, or an error that names the op that has no rule. */
mf_error_object *mf_hlo_module(mf_text *t, const char *name, const mf_program *p, int64_t replicas, const bool *donated);

/* Along which axes arguments and results of that module are each device's own rows, by input and output of p; MF_NONE: each device has all.
 * Where p is one map and nothing else, the map; else NULL. */
const mf_eqn *mf_hlo_axes(const mf_program *p, int64_t *in_axes, int64_t *out_axes);

#endif
