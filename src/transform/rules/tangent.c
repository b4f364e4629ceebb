/* Tangents and cotangents as variables. Invariant: a tangent has its primal's dtype and shape and is never weakly typed, so that programs
 * of tangents fit together whatever constants made them. */
#include "transform/rules/tangent.h"

#include "ops/emit.h"
#include "transform/rules/sweep.h"

const mf_type *mf_tangent_type(const mf_type *t) { return mf_dtype_is_inexact(t->dtype) ? mf_type_strong(t) : NULL; }

static mf_variable *filled(mf_builder *b, const mf_type *primal, double x)
{
    const mf_type *t = mf_tangent_type(primal);
    return t && !b->error ? e_full(b, t, x) : mf_poison(b);
}

mf_variable *mf_tangent_zeros(mf_builder *b, const mf_type *primal) { return filled(b, primal, 0); }

mf_variable *mf_cotangent_zeros(mf_builder *b, const mf_type *primal) { return e_full(b, mf_type_strong(primal), 0); }

mf_variable *mf_tangent_ones(mf_builder *b, const mf_type *primal) { return filled(b, primal, 1); }

mf_variable *mf_tangent_or_zeros(mf_builder *b, mf_variable *t, const mf_type *primal) { return t ? t : mf_tangent_zeros(b, primal); }

mf_variable *mf_tangent_fit(mf_builder *b, mf_variable *t, const mf_type *primal, const char *op)
{
    const mf_type *want = mf_tangent_type(primal);
    if (!t || b->error || t->type == want)
        return t;
    if (want && t->type->dtype == want->dtype && mf_type_same_shape(t->type, want))
        return e_convert_type(b, t, want);
    mf_builder_fail(b, mf_error_new(MF_ERROR_SHAPE, "%s: its derivative gave %s for a value of type %s", op, mf_type_name(t->type),
                                    mf_type_name(primal)));
    return mf_poison(b);
}

mf_variable *mf_tangent_add(mf_builder *b, mf_variable *x, mf_variable *y)
{
    if (!x || !y)
        return x ? x : y;
    return b->error ? mf_poison(b) : e_add(b, x, y);
}
