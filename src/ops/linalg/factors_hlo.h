/* Factorisations as StableHLO, which has no operations for them: loops of other operations. lu and qr have LAPACK's signs, eigh and svd
 * their own. */
#ifndef MF_OPS_LINALG_FACTORS_HLO_H
#define MF_OPS_LINALG_FACTORS_HLO_H

#include "ir/stablehlo.h"

void mf_lu_hlo(mf_hlo *h, const mf_eqn *e, const mf_hlo_value *in, mf_hlo_value *out);
void mf_qr_hlo(mf_hlo *h, const mf_eqn *e, const mf_hlo_value *in, mf_hlo_value *out);
void mf_eigh_hlo(mf_hlo *h, const mf_eqn *e, const mf_hlo_value *in, mf_hlo_value *out);
void mf_svd_hlo(mf_hlo *h, const mf_eqn *e, const mf_hlo_value *in, mf_hlo_value *out);

#endif
