/* Distributions of vectors and matrices: multivariate_normal, orthogonal. Invariant: the draws are those of jax.random; a covariance is
 * factored by Cholesky decomposition. */
#include "random/draws.h"

mf_value(mf_random_multivariate_normal)(mf_value key, mf_value mean, mf_value cov, mf_shape shape, mf_dtype dtype)
{
    MF_LAYER;
    dtype = random_float(dtype);
    if (mf_is_error(mean) || mf_is_error(cov))
        return mf_is_error(mean) ? mean : cov;
    if (mf_ndim(mean) < 1 || mf_ndim(cov) < 2 || mf_dim(cov, -1) != mf_dim(mean, -1) || mf_dim(cov, -2) != mf_dim(mean, -1))
        return mf_make_error(
            MF_ERROR_SHAPE, "multivariate_normal: a mean of shape (..., n) and a covariance of shape (..., n, n) are needed, not %s and %s",
            mf_str(mf_shape_of(mean)), mf_str(mf_shape_of(cov)));
    if (shape.rank < 0 || shape.rank >= MF_MAX_RANK)
        return mf_make_error(MF_ERROR_SHAPE, "multivariate_normal: at most %d dimensions, not %d", MF_MAX_RANK - 1, shape.rank);
    shape.dims[shape.rank++] = mf_dim(mean, -1);
    mf_value factor = mf_cholesky(mf_astype(cov, dtype)), normals = mf_random_normal(key, shape, dtype);
    mf_value correlated = mf_squeeze(mf_matmul(factor, mf_expand_dims(normals, -1)), -1);
    return mf_add(mf_astype(mean, dtype), correlated);
}

/* The Q factor of a matrix of normal numbers, with the signs that make R's diagonal positive: uniform in the Haar measure. */
mf_value(mf_random_orthogonal)(mf_value key, int n, mf_shape shape, mf_dtype dtype)
{
    MF_LAYER;
    dtype = random_float(dtype);
    if (shape.rank < 0 || shape.rank > MF_MAX_RANK - 2 || n < 0)
        return mf_make_error(MF_ERROR_SHAPE, "orthogonal: %d dimensions of matrices of size %d", shape.rank, n);
    shape.dims[shape.rank++] = n;
    shape.dims[shape.rank++] = n;
    mf_value factors = mf_qr(mf_random_normal(key, shape, dtype)), q = mf_get(factors, 0);
    mf_value diagonal = mf_sum(mf_mul(mf_get(factors, 1), mf_eye(n, dtype)), -2, .keepdims = true);
    return mf_mul(q, mf_div(diagonal, mf_abs(diagonal)));
}
