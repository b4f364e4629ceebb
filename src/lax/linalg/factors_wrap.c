/* The public functions lu, qr, eigh and svd. Invariant: integers are converted to floats; results are tuples in NumPy's order. */
#include "lax/wrap.h"

#include <manyfold/linalg.h>

mf_value(mf_lu)(mf_value a)
{
    MF_ENTER(MF_FORKED);
    mf_value out[3];
    if (!mf_wrap_inexact(&a, "lu"))
        return a;
    mf_bind_n(&mf_op_lu, NULL, &a, 1, out, 3);
    return mf_tuple_n(out, 3);
}

mf_value mf_qr_opt(mf_value a, const mf_qr_options *o)
{
    MF_ENTER(MF_FORKED);
    mf_qr_mode mode = o ? o->mode : MF_QR_REDUCED;
    mf_qr_params p = { .full_matrices = mode == MF_QR_COMPLETE };
    mf_value out[2];
    if (!mf_wrap_inexact(&a, "qr"))
        return a;
    if (mode < MF_QR_REDUCED || mode > MF_QR_R)
        return mf_fail(MF_ERROR_ARGUMENT, "qr: there is no mode %d", (int)mode);
    mf_bind_n(&mf_op_qr, &p, &a, 1, out, 2);
    return mode == MF_QR_R ? out[1] : mf_tuple_n(out, 2);
}

mf_value(mf_qr)(mf_value a)
{
    MF_ENTER(MF_FORKED);
    return mf_qr_opt(a, NULL);
}

mf_value mf_svd_opt(mf_value a, const mf_svd_options *o)
{
    MF_ENTER(MF_FORKED);
    mf_svd_params p = { .full_matrices = !o || o->full_matrices, .compute_uv = !o || o->compute_uv };
    mf_value out[3];
    if (!mf_wrap_inexact(&a, "svd"))
        return a;
    p.full_matrices = p.full_matrices && p.compute_uv;
    mf_bind_n(&mf_op_svd, &p, &a, 1, out, p.compute_uv ? 3 : 1);
    return p.compute_uv ? mf_tuple_n((const mf_value[]){ out[1], out[0], out[2] }, 3) : out[0];
}

mf_value(mf_svd)(mf_value a)
{
    MF_ENTER(MF_FORKED);
    return mf_svd_opt(a, NULL);
}

/* The Hermitian matrix that has a triangle of a. */
static mf_value from_triangle(mf_value a, bool lower)
{
    mf_value inside = lower ? mf_tril(a, -1) : mf_triu(a, 1), diagonal = mf_sub(lower ? mf_tril(a, 0) : mf_triu(a, 0), inside);
    return mf_add(mf_add(inside, mf_conj(mf_swapaxes(inside, -1, -2))), diagonal);
}

mf_value mf_eigh_opt(mf_value a, const mf_eigh_options *o)
{
    MF_ENTER(MF_FORKED);
    mf_triangle triangle = o ? o->triangle : MF_TRIANGLE_BOTH;
    mf_value out[2];
    if (!mf_wrap_inexact(&a, "eigh"))
        return a;
    if (triangle < MF_TRIANGLE_BOTH || triangle > MF_TRIANGLE_UPPER)
        return mf_fail(MF_ERROR_ARGUMENT, "eigh: there is no triangle %d", (int)triangle);
    const mf_type *t = mf_value_type(a);
    if (triangle != MF_TRIANGLE_BOTH && t->rank >= 2 && t->dims[t->rank - 1] == t->dims[t->rank - 2])
        a = from_triangle(a, triangle == MF_TRIANGLE_LOWER);
    mf_bind_n(&mf_op_eigh, NULL, &a, 1, out, 2);
    return mf_tuple_n(out, 2);
}

mf_value(mf_eigh)(mf_value a)
{
    MF_ENTER(MF_FORKED);
    return mf_eigh_opt(a, NULL);
}
