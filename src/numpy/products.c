/* Products with NumPy's names: outer, inner, vdot, tensordot. einsum is in einsum.c, dot and matmul are primitives' wrappers.
 * Invariant: each is one dot_general, so gradients and maps are dot_general's. */
#include <manyfold.h>

mf_value(mf_outer)(mf_value a, mf_value b) { return mf_dot_general_opt(mf_ravel(a), mf_ravel(b), NULL); }

mf_value(mf_inner)(mf_value a, mf_value b)
{
    if (mf_ndim(a) <= 0 || mf_ndim(b) <= 0)
        return mf_mul(a, b);
    return mf_dot_general(a, b, .lhs_contracting = MF_INTS(-1), .rhs_contracting = MF_INTS(-1));
}

mf_value(mf_vdot)(mf_value a, mf_value b)
{
    return mf_dot_general(mf_conj(mf_ravel(a)), mf_ravel(b), .lhs_contracting = MF_INTS(0), .rhs_contracting = MF_INTS(0));
}

mf_value(mf_tensordot)(mf_value a, mf_value b, int axes)
{
    mf_dot_options o = { .preferred_element_type = MF_DTYPE_DEFAULT };
    if (mf_is_error(a))
        return a;
    if (axes < 0 || axes > MF_MAX_RANK || axes > mf_ndim(a))
        return mf_make_error(MF_ERROR_AXIS, "tensordot: %d axes of an array with %d dimensions cannot be contracted", axes, mf_ndim(a));
    for (int i = 0; i < axes; i++) {
        o.lhs_contracting.at[o.lhs_contracting.count++] = mf_ndim(a) - axes + i;
        o.rhs_contracting.at[o.rhs_contracting.count++] = i;
    }
    return mf_dot_general_opt(a, b, &o);
}

mf_value(mf_tensordot_axes)(mf_value a, mf_value b, mf_ints a_axes, mf_ints b_axes)
{
    return mf_dot_general(a, b, .lhs_contracting = a_axes, .rhs_contracting = b_axes);
}
