/* Solutions by a Cholesky factor.
 * Invariant: a vector goes in and comes out as a vector, a matrix of columns as one. */
#include <manyfold.h>

static mf_value solve_lower(mf_value l, mf_value b, bool transposed)
{
    return mf_triangular_solve(l, b, .left_side = true, .lower = true, .transpose_a = transposed, .conjugate_a = transposed);
}

mf_value mf_cho_solve(mf_value l, mf_value b)
{
    bool vector = mf_ndim(b) >= 0 && mf_ndim(b) == mf_ndim(l) - 1;
    b = vector ? mf_expand_dims(b, -1) : b;
    mf_value x = solve_lower(l, solve_lower(l, b, false), true);
    return vector ? mf_squeeze(x, -1) : x;
}

mf_value mf_solve_spd(mf_value a, mf_value b) { return mf_cho_solve(mf_cholesky(a), b); }
