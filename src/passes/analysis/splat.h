/* Splats: values that are one number everywhere, that is a literal scalar, possibly broadcast or reshaped. For fold and simplify. */
#ifndef MF_PASSES_ANALYSIS_SPLAT_H
#define MF_PASSES_ANALYSIS_SPLAT_H

#include "ir/op.h"

/* The scalar constant that fills v, or NULL. */
mf_variable *mf_splat_of(mf_variable *v);
/* Whether v is x everywhere. 0 and -0 differ. Always false for bool. */
bool mf_splat_is(mf_variable *v, double x);

#endif
