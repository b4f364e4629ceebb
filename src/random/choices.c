/* categorical and choice. Invariant: the draws are those of jax.random, in the same order. */
#include "random/draws.h"

/* The Gumbel-max trick: the argmax of logits plus Gumbel noise has the softmax's probabilities. */
mf_value(mf_random_categorical)(mf_value key, mf_value logits, int axis, mf_shape draws)
{
    MF_LAYER;
    mf_shape shape = mf_shape_of(logits), whole = draws;
    if (shape.rank < 0)
        return mf_add(logits, 0); /* the error itself, or the error that logits are no array */
    if (axis < -shape.rank || axis >= shape.rank)
        return mf_make_error(MF_ERROR_AXIS, "categorical: axis %d is out of bounds for logits of rank %d", axis, shape.rank);
    if (draws.rank < 0 || draws.rank > MF_MAX_RANK - shape.rank)
        return mf_make_error(MF_ERROR_SHAPE, "categorical: %d dimensions of draws are too many for logits of rank %d", draws.rank,
                             shape.rank);
    for (int i = 0; i < shape.rank; i++)
        whole.dims[whole.rank++] = shape.dims[i];
    mf_value noise = mf_random_gumbel(key, whole, mf_dtype_of(logits));
    return mf_argmax(mf_add(noise, logits), axis < 0 ? axis : axis - shape.rank);
}

/* Indices below n with probabilities p: by the cumulative sum of p; without replacement, the top k of log(p) plus Gumbel noise. */
static mf_value weighted(mf_value key, int64_t n, mf_shape shape, const mf_choice_options *o)
{
    mf_dtype dtype = mf_dtype_of(o->p);
    mf_value p = random_is_float(dtype) ? o->p : mf_astype(o->p, MF_F32);
    if (mf_is_error(p))
        return p;
    dtype = mf_dtype_of(p);
    if (mf_ndim(p) != 1 || mf_dim(p, 0) != n)
        return mf_make_error(MF_ERROR_SHAPE, "choice: p must be a vector of %lld probabilities, not %s", (long long)n,
                             mf_str(mf_shape_of(p)));
    if (o->without_replacement) {
        mf_value keys = mf_add(mf_random_gumbel(key, MF_SHAPE(n), dtype), mf_log(p));
        return mf_reshape(mf_get(mf_top_k(keys, random_count(shape), -1), 1), shape);
    }
    mf_value sums = mf_cumsum(p, 0), u = mf_sub(mf_scalar(1, dtype), mf_random_uniform(key, shape, dtype));
    return mf_searchsorted(sums, mf_mul(mf_get(sums, n - 1), u), false);
}

static mf_value unweighted(mf_value key, int64_t n, mf_shape shape, bool replace)
{
    if (replace)
        return mf_random_randint(key, shape, mf_i(0), mf_i(n), MF_I32);
    return mf_reshape(mf_slice_in_dim(mf_random_permutation(key, n), 0, random_count(shape), 1, 0), shape);
}

mf_value mf_random_choice_opt(mf_value key, mf_value x, mf_shape shape, const mf_choice_options *o)
{
    MF_LAYER;
    static const mf_choice_options none;
    o = o ? o : &none;
    if (mf_ndim(x) < 0)
        return mf_add(x, 0);
    bool numbers = mf_ndim(x) == 0; /* choose from 0 .. x - 1 */
    int axis = numbers || o->axis >= 0 ? o->axis : o->axis + mf_ndim(x);
    if (!numbers && (axis < 0 || axis >= mf_ndim(x)))
        return mf_make_error(MF_ERROR_AXIS, "choice: axis %d is out of bounds for an array of rank %d", o->axis, mf_ndim(x));
    int64_t n = numbers ? mf_item_i64(x) : mf_dim(x, axis), draws = random_count(shape);
    if (n < 1 && draws)
        return mf_make_error(MF_ERROR_ARGUMENT, "choice: there is nothing to choose from");
    if (o->without_replacement && draws > n)
        return mf_make_error(MF_ERROR_ARGUMENT, "choice: %lld draws without replacement from %lld", (long long)draws, (long long)n);
    mf_value at = o->p.handle ? weighted(key, n, shape, o) : unweighted(key, n, shape, !o->without_replacement);
    return numbers ? at : mf_take(x, at, axis);
}
