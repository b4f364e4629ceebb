/* Polynomials as vectors of coefficients, highest power first: polyval, polyfit, vander, poly, polyadd, polysub, polymul, polydiv, polyder,
 * polyint. Invariant: nothing is trimmed, so every result has a static shape. */
#include "numpy/floats.h"

/* ---- values and fits */ mf_value(mf_polyval)(mf_value p, mf_value x)
{
    MF_LAYER;
    if (mf_ndim(p) != 1)
        return mf_is_error(p) ? p : mf_make_error(MF_ERROR_SHAPE, "polyval: the coefficients must have one dimension, not %d", mf_ndim(p));
    mf_value sum = mf_mul(mf_zeros_like(x), mf_zeros(MF_SHAPE0, mf_dtype_of(p)));
    for (int64_t i = 0; i < mf_dim(p, 0); i++)
        sum = mf_add(mf_mul(sum, x), mf_get(p, i));
    return sum;
}

mf_value mf_vander_opt(mf_value x, const mf_vander_options *o)
{
    MF_LAYER;
    if (mf_ndim(x) != 1)
        return mf_is_error(x) ? x : mf_make_error(MF_ERROR_SHAPE, "vander: a vector is needed, not %d dimensions", mf_ndim(x));
    int64_t columns = o && o->columns != MF_END ? o->columns : mf_dim(x, 0);
    if (columns < 0)
        return mf_make_error(MF_ERROR_ARGUMENT, "vander: the number of columns must not be negative, not %lld", (long long)columns);
    mf_dtype d = mf_dtype_of(x); /* small integers stay as they are */
    mf_value powers = mf_pow(mf_expand_dims(x, 1), mf_astype(mf_arange(columns, MF_I32), d > MF_BOOL && d < MF_F16 ? d : MF_I32));
    return o && o->increasing ? powers : mf_flip(powers, 1);
}

mf_value(mf_vander)(mf_value x) { return mf_vander_opt(x, NULL); }

/* Normalises the columns of the Vandermonde matrix, because powers of x differ by orders of magnitude. */
mf_value(mf_polyfit)(mf_value x, mf_value y, int64_t degree)
{
    MF_LAYER;
    x = numpy_float(x);
    y = numpy_float(y);
    if (mf_ndim(x) != 1 || mf_ndim(y) < 1 || mf_ndim(y) > 2 || mf_dim(x, 0) != mf_dim(y, 0) || mf_dim(x, 0) < 1)
        return mf_is_error(x)   ? x
               : mf_is_error(y) ? y
                                : mf_make_error(MF_ERROR_SHAPE, "polyfit: a vector and as many rows are needed, not %s and %s",
                                                mf_str(mf_shape_of(x)), mf_str(mf_shape_of(y)));
    if (degree < 0 || degree == INT64_MAX)
        return mf_make_error(MF_ERROR_ARGUMENT, "polyfit: the degree must be at least 0 and below 2^63 - 1, not %lld", (long long)degree);
    mf_value powers = mf_vander(x, .columns = degree + 1);
    mf_value length = mf_sqrt(mf_sum(mf_square(powers), 0)), safe = mf_where(mf_equal(length, 0), 1, length);
    mf_value found = mf_lstsq(mf_div(powers, safe), y, .rcond = (double)mf_dim(x, 0) * numpy_epsilon(x));
    return mf_is_error(found) ? found : mf_div(mf_get(found, 0), mf_ndim(y) == 1 ? safe : mf_expand_dims(safe, 1));
}

/* ---- arithmetic */
/* Unset, or an error: p is none, or is no vector. */
static mf_value no_polynomial(const char *op, mf_value p)
{
    if (mf_is_error(p) || mf_ndim(p) == 1)
        return mf_is_error(p) ? p : (mf_value){ 0 };
    return mf_make_error(MF_ERROR_SHAPE, "%s: a vector of coefficients is needed, not %d dimensions", op, mf_ndim(p));
}

static mf_value no_polynomials(const char *op, mf_value a, mf_value b)
{
    mf_value wrong = no_polynomial(op, a);
    return wrong.handle ? wrong : no_polynomial(op, b);
}

/* With zeros in front, as long as the longer one. */
static mf_value extended(mf_value p, mf_value other)
{
    int64_t more = mf_dim(other, 0) - mf_dim(p, 0);
    return more > 0 ? mf_concatenate(mf_list(mf_zeros(MF_SHAPE(more), mf_dtype_of(p)), p), 0) : p;
}

mf_value(mf_polyadd)(mf_value a1, mf_value a2)
{
    MF_LAYER;
    mf_value wrong = no_polynomials("polyadd", a1, a2);
    return wrong.handle ? wrong : mf_add(extended(a1, a2), extended(a2, a1));
}

mf_value(mf_polysub)(mf_value a1, mf_value a2)
{
    MF_LAYER;
    mf_value wrong = no_polynomials("polysub", a1, a2);
    return wrong.handle ? wrong : mf_sub(extended(a1, a2), extended(a2, a1));
}

static mf_value at_least_one(mf_value p) { return mf_dim(p, 0) > 0 ? p : mf_zeros(MF_SHAPE(1), mf_dtype_of(p)); }

mf_value(mf_polymul)(mf_value a1, mf_value a2)
{
    MF_LAYER;
    mf_value wrong = no_polynomials("polymul", a1, a2);
    return wrong.handle ? wrong : mf_convolve(at_least_one(a1), at_least_one(a2));
}

/* Long division: each coefficient of the quotient is read off the front of what is left. */
mf_value(mf_polydiv)(mf_value u, mf_value v)
{
    MF_LAYER;
    mf_value wrong = no_polynomials("polydiv", u, v);
    if (wrong.handle)
        return wrong;
    if (mf_dim(v, 0) < 1)
        return mf_make_error(MF_ERROR_SHAPE, "polydiv: the divisor has no coefficients");
    mf_value one = numpy_float(mf_mul(mf_ones(MF_SHAPE0, mf_dtype_of(u)), mf_ones(MF_SHAPE0, mf_dtype_of(v))));
    u = mf_mul(u, one);
    v = mf_mul(v, one);
    int64_t n = mf_dim(v, 0), rounds = mf_dim(u, 0) - n + 1;
    mf_value first = mf_get(v, 0), quotient = mf_zeros(MF_SHAPE(rounds > 1 ? rounds : 1), mf_dtype_of(u));
    for (int64_t k = 0; k < rounds; k++) {
        mf_value factor = mf_div(mf_get(u, k), first);
        quotient = mf_index_update(quotient, mf_i(k), factor);
        u = mf_at_add(u, mf_neg(mf_mul(v, factor)), mf_range(k, k + n));
    }
    return mf_tuple(quotient, u);
}

mf_value(mf_poly)(mf_value seq_of_zeros)
{
    MF_LAYER;
    mf_value zeros = mf_atleast_1d(numpy_float(seq_of_zeros)), wrong = no_polynomial("poly", zeros);
    if (wrong.handle)
        return wrong;
    mf_value one = mf_ones(MF_SHAPE(1), mf_dtype_of(zeros)), product = one;
    if (mf_dim(zeros, 0) == 0)
        return mf_squeeze(one);
    for (int64_t i = 0; i < mf_dim(zeros, 0); i++)
        product = mf_convolve(product, mf_concatenate(mf_list(one, mf_neg(mf_slice_in_dim(zeros, i, i + 1, 1, 0))), 0));
    return product;
}

/* ---- calculus */
/* Of the powers m, m + 1, ...: the products x (x - 1) ... (x - m + 1), in descending order. */
static mf_value falling(int64_t count, int m, mf_dtype d)
{
    mf_value power = mf_flip(mf_arange_opt(m, m + count, d)), product = mf_ones_like(power);
    for (int i = 0; i < m; i++)
        product = mf_mul(product, mf_sub(power, i));
    return product;
}

mf_value(mf_polyder)(mf_value p, int m)
{
    MF_LAYER;
    mf_value wrong = no_polynomial("polyder", p);
    if (wrong.handle)
        return wrong;
    if (m < 0)
        return mf_make_error(MF_ERROR_ARGUMENT, "polyder: the order must not be negative, not %d", m);
    p = numpy_float(p);
    int64_t left = mf_dim(p, 0) - m;
    if (left < 1)
        return mf_zeros(MF_SHAPE(0), mf_dtype_of(p));
    return m == 0 ? p : mf_mul(mf_slice_in_dim(p, 0, left, 1, 0), falling(left, m, mf_dtype_of(p)));
}

mf_value(mf_polyint)(mf_value p, int m)
{
    MF_LAYER;
    mf_value wrong = no_polynomial("polyint", p);
    if (wrong.handle)
        return wrong;
    if (m < 0)
        return mf_make_error(MF_ERROR_ARGUMENT, "polyint: the order must not be negative, not %d", m);
    p = numpy_float(p);
    mf_dtype d = mf_dtype_of(p);
    return m == 0 ? p : mf_concatenate(mf_list(mf_div(p, falling(mf_dim(p, 0), m, d)), mf_zeros(MF_SHAPE(m), d)), 0);
}
