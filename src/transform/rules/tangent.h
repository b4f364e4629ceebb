/* Tangents and cotangents as variables: NULL is the symbolic zero; their types are strong. */
#ifndef MF_TRANSFORM_RULES_TANGENT_H
#define MF_TRANSFORM_RULES_TANGENT_H

#include "transform/transform.h"

mf_variable *mf_tangent_zeros(mf_builder *b, const mf_type *primal); /* of the tangent type */
/* The cotangent that a user gets for an input on which nothing depends: zeros of the strong type, for integers too (JAX's float0 has no
 * counterpart in C). */
mf_variable *mf_cotangent_zeros(mf_builder *b, const mf_type *primal);
mf_variable *mf_tangent_ones(mf_builder *b, const mf_type *primal);
mf_variable *mf_tangent_or_zeros(mf_builder *b, mf_variable *t, const mf_type *primal); /* t, or zeros when it is NULL */
mf_variable *mf_tangent_add(mf_builder *b, mf_variable *x, mf_variable *y);             /* either may be NULL */
/* t with exactly the tangent type of a value of type `primal`. Another shape or dtype is a mistake of the rule that made t: an error that
 * names the op. */
mf_variable *mf_tangent_fit(mf_builder *b, mf_variable *t, const mf_type *primal, const char *op);

#endif
