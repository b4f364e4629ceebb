/* The StableHLO rules of the ops over sliding windows (window.c). */
#ifndef MF_OPS_REDUCE_WINDOW_HLO_H
#define MF_OPS_REDUCE_WINDOW_HLO_H

#include "ir/stablehlo.h"

void mf_window_hlo(mf_hlo *h, const mf_eqn *e, const mf_hlo_value *in, mf_hlo_value *out);
void mf_select_gather_hlo(mf_hlo *h, const mf_eqn *e, const mf_hlo_value *in, mf_hlo_value *out);
void mf_select_scatter_hlo(mf_hlo *h, const mf_eqn *e, const mf_hlo_value *in, mf_hlo_value *out);

#endif
