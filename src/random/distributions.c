/* Distributions made of uniform and normal numbers, on the public header only. Formulas and the order of draws are those of
 * jax/_src/random, so values agree with JAX's as closely as logarithms and sums do.
 * Invariant: a number depends on its key and its position alone, also in gamma, whose loop runs for each element by itself. */
#include <manyfold.h>

#include <float.h>

static mf_dtype float_or_default(mf_dtype dtype) { return dtype == MF_DTYPE_DEFAULT ? MF_F32 : dtype; }

/* The least normal number of a float dtype, and the distance from 1 to the next. */
static double tiny_of(mf_dtype d) { return d == MF_F64 ? DBL_MIN : d == MF_F16 ? 0x1p-14 : (double)FLT_MIN; }
static double epsilon_of(mf_dtype d)
{
    return d == MF_F64 ? DBL_EPSILON : d == MF_F16 ? 0x1p-10 : d == MF_BF16 ? 0x1p-7 : (double)FLT_EPSILON;
}

static mf_value uniform_from(mf_value key, mf_shape shape, mf_dtype dtype, double low)
{
    return mf_random_uniform_in(key, shape, dtype, mf_f(low), mf_f(1));
}

mf_value(mf_random_exponential)(mf_value key, mf_shape shape, mf_dtype dtype)
{
    MF_LAYER;
    return mf_neg(mf_log1p(mf_neg(mf_random_uniform(key, shape, dtype)))); /* of 1 - u, so that the logarithm's argument is never 0 */
}

mf_value(mf_random_gumbel)(mf_value key, mf_shape shape, mf_dtype dtype)
{
    MF_LAYER;
    dtype = float_or_default(dtype);
    return mf_neg(mf_log(mf_neg(mf_log(uniform_from(key, shape, dtype, tiny_of(dtype))))));
}

mf_value(mf_random_laplace)(mf_value key, mf_shape shape, mf_dtype dtype)
{
    MF_LAYER;
    dtype = float_or_default(dtype);
    mf_value u = uniform_from(key, shape, dtype, epsilon_of(dtype) / 2 - 1);
    return mf_mul(mf_sign(u), mf_log1p(mf_neg(mf_abs(u))));
}

mf_value(mf_random_cauchy)(mf_value key, mf_shape shape, mf_dtype dtype)
{
    MF_LAYER;
    dtype = float_or_default(dtype);
    mf_value u = uniform_from(key, shape, dtype, epsilon_of(dtype));
    return mf_tan(mf_mul(mf_scalar(3.141592653589793, dtype), mf_sub(u, mf_scalar(0.5, dtype))));
}

/* ---- choices */

/* The greatest of logits plus gumbels has the softmax's probabilities. */
mf_value(mf_random_categorical)(mf_value key, mf_value logits, int axis, mf_shape draws)
{
    MF_LAYER;
    mf_shape shape = mf_shape_of(logits), whole = draws;
    if (shape.rank < 0)
        return mf_add(logits, 0); /* the error itself, or what says that this is no array */
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

/* -1 of what is no shape. */
static int64_t count_of(mf_shape shape)
{
    int64_t n = 1;
    for (int i = 0; i < shape.rank && i < MF_MAX_RANK; i++)
        if (shape.dims[i] < 0 || __builtin_mul_overflow(n, shape.dims[i], &n))
            return -1;
    return n;
}

/* Positions among n, one a draw: by the running sum of p, or without replacement by the greatest logarithms plus gumbels. */
static mf_value weighted(mf_value key, int64_t n, mf_shape shape, const mf_choice_options *o)
{
    mf_dtype dtype = mf_dtype_of(o->p);
    bool is_float = dtype == MF_F64 || dtype == MF_F16 || dtype == MF_BF16;
    mf_value p = is_float ? o->p : mf_astype(o->p, MF_F32);
    if (mf_is_error(p))
        return p;
    dtype = mf_dtype_of(p);
    if (mf_ndim(p) != 1 || mf_dim(p, 0) != n)
        return mf_make_error(MF_ERROR_SHAPE, "choice: p must be a vector of %lld probabilities, not %s", (long long)n,
                             mf_str(mf_shape_of(p)));
    if (o->without_replacement) {
        mf_value keys = mf_add(mf_random_gumbel(key, MF_SHAPE(n), dtype), mf_log(p));
        return mf_reshape(mf_get(mf_top_k(keys, count_of(shape), -1), 1), shape);
    }
    mf_value sums = mf_cumsum(p, 0), u = mf_sub(mf_scalar(1, dtype), mf_random_uniform(key, shape, dtype));
    return mf_searchsorted(sums, mf_mul(mf_get(sums, n - 1), u), false);
}

static mf_value unweighted(mf_value key, int64_t n, mf_shape shape, bool replace)
{
    if (replace)
        return mf_random_randint(key, shape, mf_i(0), mf_i(n), MF_I32);
    return mf_reshape(mf_slice_in_dim(mf_random_permutation(key, n), 0, count_of(shape), 1, 0), shape);
}

mf_value mf_random_choice_opt(mf_value key, mf_value x, mf_shape shape, const mf_choice_options *o)
{
    MF_LAYER;
    static const mf_choice_options none;
    o = o ? o : &none;
    if (mf_ndim(x) < 0)
        return mf_add(x, 0);
    bool numbers = mf_ndim(x) == 0; /* of 0 .. x - 1 */
    int axis = numbers || o->axis >= 0 ? o->axis : o->axis + mf_ndim(x);
    if (!numbers && (axis < 0 || axis >= mf_ndim(x)))
        return mf_make_error(MF_ERROR_AXIS, "choice: axis %d is out of bounds for an array of rank %d", o->axis, mf_ndim(x));
    int64_t n = numbers ? mf_item_i64(x) : mf_dim(x, axis), draws = count_of(shape);
    if (n < 1 && draws)
        return mf_make_error(MF_ERROR_ARGUMENT, "choice: there is nothing to choose from");
    if (o->without_replacement && draws > n)
        return mf_make_error(MF_ERROR_ARGUMENT, "choice: %lld draws without replacement from %lld", (long long)draws, (long long)n);
    mf_value at = o->p.handle ? weighted(key, n, shape, o) : unweighted(key, n, shape, !o->without_replacement);
    return numbers ? at : mf_take(x, at, axis);
}

/* ---- gamma, by Marsaglia and Tsang: (1 + c normal)^3 times d, accepted or drawn again */

/* Carries are (key, x, v, c): the cubic's base is positive at last. */
static mf_value base_is_not_positive(mf_value carry) { return mf_less_equal(mf_get(carry, 2), mf_zeros_like(mf_get(carry, 2))); }

static mf_value next_base(mf_value carry)
{
    mf_value keys = mf_random_split(mf_get(carry, 0), 2), c = mf_get(carry, 3);
    mf_value x = mf_random_normal(mf_get(keys, 1), MF_SHAPE0, mf_dtype_of(c));
    return mf_tuple(mf_get(keys, 0), x, mf_add(mf_ones_like(x), mf_mul(x, c)), c);
}

/* Carries are (key, x squared, v cubed, u, c, d). */
static mf_value is_rejected(mf_value carry)
{
    mf_value x = mf_get(carry, 1), v = mf_get(carry, 2), u = mf_get(carry, 3), d = mf_get(carry, 5), one = mf_ones_like(v);
    mf_value quick = mf_greater_equal(u, mf_sub(one, mf_mul(mf_mul(x, x), 0.0331)));
    mf_value bound = mf_add(mf_mul(x, 0.5), mf_mul(d, mf_add(mf_sub(one, v), mf_log(v))));
    return mf_logical_and(quick, mf_greater_equal(mf_log(u), bound));
}

static mf_value next_trial(mf_value carry)
{
    mf_value keys = mf_random_split(mf_get(carry, 0), 3), c = mf_get(carry, 4), zero = mf_zeros_like(c);
    mf_value base = mf_while(base_is_not_positive, next_base, mf_tuple(mf_get(keys, 1), zero, mf_sub(zero, 1), c));
    mf_value x = mf_get(base, 1), v = mf_get(base, 2);
    mf_value u = mf_random_uniform(mf_get(keys, 2), MF_SHAPE0, mf_dtype_of(c));
    return mf_tuple(mf_get(keys, 0), mf_mul(x, x), mf_mul(mf_mul(v, v), v), u, c, mf_get(carry, 5));
}

/* Below 1: gamma(a) = gamma(a + 1) u^(1/a). */
static mf_value gamma_of_one(mf_value key, mf_value a)
{
    mf_dtype dtype = mf_dtype_of(a);
    mf_value one = mf_ones_like(a), zero = mf_zeros_like(a), third = mf_scalar(1.0 / 3, dtype), large = mf_greater_equal(a, one);
    mf_value d = mf_sub(mf_where(large, a, mf_add(a, one)), third), c = mf_div(third, mf_sqrt(d)), keys = mf_random_split(key, 2);
    mf_value accepted = mf_while(is_rejected, next_trial, mf_tuple(mf_get(keys, 0), zero, one, mf_add(one, one), c, d));
    mf_value u = mf_sub(one, mf_random_uniform(mf_get(keys, 1), MF_SHAPE0, dtype));
    return mf_mul(mf_mul(d, mf_get(accepted, 2)), mf_where(large, one, mf_pow(u, mf_div(one, a))));
}

static mf_value gamma_of_each(mf_value keys, mf_value a) { return mf_call(mf_vmap(gamma_of_one), keys, a); }

/* Differentiating the accepted draw would forget how acceptance moves; keys have no tangent. */
static mf_value gamma_jvp(mf_value primals, mf_value tangents)
{
    mf_value a = mf_get(primals, 1), draws = gamma_of_each(mf_get(primals, 0), a);
    return mf_tuple(draws, mf_mul(mf_get(tangents, 1), mf_random_gamma_grad(a, draws)));
}

mf_value(mf_random_gamma)(mf_value key, mf_value a, mf_shape shape, mf_dtype dtype)
{
    dtype = float_or_default(dtype);
    if (dtype != MF_F32 && dtype != MF_F64 && dtype != MF_F16 && dtype != MF_BF16)
        return mf_make_error(MF_ERROR_DTYPE, "random gamma comes in floats, not %s", mf_str_dtype(dtype));
    a = mf_broadcast_to(mf_astype(a, dtype), shape);
    if (mf_is_error(a))
        return a;
    int64_t count = count_of(shape);
    if (count == 0)
        return a;
    mf_value each = mf_call(mf_custom_jvp(gamma_of_each, gamma_jvp), mf_random_split(key, (int)count), mf_ravel(a));
    return mf_reshape(each, shape);
}
