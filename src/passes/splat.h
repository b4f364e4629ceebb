/* Values that are one number everywhere: a literal scalar, or one seen through broadcasts and reshapes. What fold and simplify look for. */
#ifndef MF_PASSES_SPLAT_H
#define MF_PASSES_SPLAT_H

#include "ir/op.h"

/* The scalar literal that fills v, or NULL. Only literals count (ready from the start): what a pass does must not depend on time. */
mf_variable *mf_splat_of(mf_variable *v);
/* v is x everywhere; zeros of either sign are told apart. Never for bool. */
bool mf_splat_is(mf_variable *v, double x);
bool mf_is_literal(const mf_array *a); /* contiguous and ready from the start */

#endif
