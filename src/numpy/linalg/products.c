/* NumPy's products: outer, inner, vdot, tensordot, kron, cross, vecdot, matvec, vecmat. einsum is in einsum.c; dot and matmul wrap
 * primitives. Invariant: each is one dot_general and gets its gradients and batching from it; kron and cross are elementwise products. */
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

mf_value(mf_kron)(mf_value a, mf_value b)
{
    MF_LAYER;
    mf_shape wide_a = { .rank = 0 }, wide_b = { .rank = 0 }, shape = { .rank = 0 };
    while (mf_ndim(a) >= 0 && mf_ndim(a) < mf_ndim(b))
        a = mf_expand_dims(a, 0);
    while (mf_ndim(b) >= 0 && mf_ndim(b) < mf_ndim(a))
        b = mf_expand_dims(b, 0);
    if (mf_is_error(a) || mf_is_error(b) || 2 * mf_ndim(a) > MF_MAX_RANK)
        return mf_is_error(a) || mf_is_error(b)
                   ? mf_mul(a, b)
                   : mf_make_error(MF_ERROR_SHAPE, "kron: arrays have at most %d dimensions, not %d", MF_MAX_RANK / 2, mf_ndim(a));
    for (int i = 0; i < mf_ndim(a); i++) {
        wide_a.dims[wide_a.rank++] = mf_dim(a, i);
        wide_a.dims[wide_a.rank++] = 1;
        wide_b.dims[wide_b.rank++] = 1;
        wide_b.dims[wide_b.rank++] = mf_dim(b, i);
        shape.dims[shape.rank++] = mf_dim(a, i) * mf_dim(b, i);
    }
    return mf_reshape(mf_mul(mf_reshape(a, wide_a), mf_reshape(b, wide_b)), shape);
}

mf_value(mf_cross)(mf_value a, mf_value b)
{
    MF_LAYER;
    if (mf_is_error(a) || mf_is_error(b))
        return mf_mul(a, b);
    if (mf_ndim(a) < 1 || mf_ndim(b) < 1 || mf_dim(a, -1) != 3 || mf_dim(b, -1) != 3)
        return mf_make_error(MF_ERROR_SHAPE, "cross: the last dimensions must have size 3");
    return mf_sub(mf_mul(mf_roll(a, -1, -1), mf_roll(b, -2, -1)), mf_mul(mf_roll(a, -2, -1), mf_roll(b, -1, -1)));
}

mf_value(mf_vecdot)(mf_value a, mf_value b, int axis)
{
    MF_LAYER;
    return mf_sum(mf_mul(mf_conj(a), b), .axis = axis);
}

mf_value(mf_matvec)(mf_value a, mf_value b)
{
    MF_LAYER;
    return mf_squeeze(mf_matmul(a, mf_expand_dims(b, -1)), -1);
}

mf_value(mf_vecmat)(mf_value a, mf_value b)
{
    MF_LAYER;
    return mf_squeeze(mf_matmul(mf_expand_dims(mf_conj(a), -2), b), -2);
}
