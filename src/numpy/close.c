/* Comparing arrays: array_equal and allclose, which return one bool, and isclose, elementwise.
 * Invariant: array_equal is false for different shapes; allclose broadcasts, as NumPy's does. */
#include <manyfold.h>

#include <string.h>

mf_value(mf_array_equal)(mf_value a, mf_value b)
{
    mf_shape s = mf_shape_of(a), t = mf_shape_of(b);
    if (s.rank < 0 || t.rank < 0) /* an error or a tree: mf_equal reports it */
        return mf_all(mf_equal(a, b));
    if (s.rank != t.rank || memcmp(s.dims, t.dims, (size_t)s.rank * sizeof *s.dims) != 0)
        return mf_b(false);
    return mf_all(mf_equal(a, b));
}

/* |a - b| <= 1e-8 + 1e-5 |b|; infinities are close to themselves, NaN to nothing. */
mf_value(mf_isclose)(mf_value a, mf_value b)
{
    MF_LAYER;
    mf_value near = mf_less_equal(mf_abs(mf_sub(mf_mul(a, 1.0), b)), mf_add(mf_mul(mf_abs(b), 1e-5), 1e-8));
    mf_value finite = mf_logical_and(mf_isfinite(a), mf_isfinite(b));
    return mf_where(finite, near, mf_equal(a, b));
}

mf_value(mf_allclose)(mf_value a, mf_value b)
{
    MF_LAYER;
    return mf_all(mf_isclose(a, b));
}
