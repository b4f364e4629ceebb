/* Values that are one number everywhere: a literal scalar, or one seen through broadcasts and reshapes. What fold and simplify look for. */
#ifndef MF_PASSES_SPLAT_H
#define MF_PASSES_SPLAT_H

#include "ir/op.h"

/* The scalar constant that fills v, or NULL. */
mf_variable *mf_splat_of(mf_variable *v);
/* v is x everywhere; zeros of either sign are told apart. Never for bool. */
bool mf_splat_is(mf_variable *v, double x);

#endif
