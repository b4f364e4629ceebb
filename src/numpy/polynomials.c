/* Polynomials as vectors of coefficients, highest power first: polyval, polyfit, vander, poly, polyadd, polysub, polymul, polydiv, polyder,
 * polyint, roots. Invariant: nothing is trimmed, so every result has a static shape. */
#include "numpy/floats.h"

#include <math.h>

/* ---- values and fits */

mf_value(mf_polyval)(mf_value p, mf_value x)
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
    mf_dtype d = mf_dtype_of(x); /* the exponents are of this dtype, as in JAX */
    mf_value powers = mf_pow(mf_expand_dims(x, 1), mf_astype(mf_arange(columns, MF_I32), d > MF_BOOL ? d : MF_I32));
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
    numpy_promote_float(&u, &v);
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

/* ---- roots, by the simultaneous iteration of Aberth and Ehrlich, which needs no eigenvalues of matrices that are not symmetric: Newton's
 * steps, in which each root repels the others (Aberth, Math. Comp. 27, 1973) */
enum { ROUNDS = 200 };

/* p(z) and p'(z). */
static void evaluate(mf_value p, mf_value z, mf_value *value, mf_value *slope)
{
    *value = *slope = mf_zeros_like(z);
    for (int64_t i = 0; i < mf_dim(p, 0); i++) {
        *slope = mf_add(mf_mul(*slope, z), *value);
        *value = mf_add(mf_mul(*value, z), mf_get(p, i));
    }
}

/* numerator / denominator, or 0 where the denominator is. */
static mf_value quotient(mf_value numerator, mf_value denominator)
{
    mf_value none = mf_equal(denominator, 0);
    return mf_where(none, 0, mf_div(numerator, mf_where(none, 1, denominator)));
}

/* The carry is (open, rounds, z, p). */
static mf_value is_open(mf_value carry) { return mf_logical_and(mf_less(mf_get(carry, 1), ROUNDS), mf_any(mf_get(carry, 0))); }

static mf_value next_roots(mf_value carry)
{
    mf_value z = mf_get(carry, 2), p = mf_get(carry, 3), value, slope;
    evaluate(p, z, &value, &slope);
    mf_value difference = mf_sub(mf_expand_dims(z, 1), mf_expand_dims(z, 0)),
             repulsion = mf_sum(quotient(mf_ones_like(difference), difference), .axis = 1);
    mf_value step = quotient(value, mf_sub(slope, mf_mul(value, repulsion)));
    mf_value epsilon = mf_scalar(numpy_epsilon(z), mf_dtype_of(mf_abs(z)));
    mf_value open = mf_greater(mf_abs(step), mf_mul(mf_abs(z), epsilon));
    return mf_tuple(open, mf_add(mf_get(carry, 1), 1), mf_sub(z, step), p);
}

/* Points on a circle around the mean of the roots. The greatest |p[k]|^(1/k) is at least half the magnitude of every root. */
static mf_value first_roots(mf_value p, int64_t n)
{
    mf_value size = mf_abs(mf_slice_in_dim(p, 1, MF_END, 1, 0)), index = mf_arange(n, mf_dtype_of(size));
    mf_value radius = mf_max(mf_pow(size, mf_reciprocal(mf_add(index, 1)))), angle = mf_add(mf_mul(index, 2 * M_PI / (double)n), 0.4);
    radius = mf_where(mf_equal(radius, 0), 1, radius);
    mf_value circle = mf_complex(mf_mul(mf_cos(angle), radius), mf_mul(mf_sin(angle), radius));
    return mf_sub(circle, mf_div(mf_get(p, 1), (double)n));
}

/* The roots of a complex p; if real, those that rounding alone keeps from the real axis are on it. */
static mf_value roots_of(mf_value p, bool real)
{
    int64_t n = mf_dim(p, 0) - 1;
    p = mf_div(p, mf_get(p, 0));
    mf_value z = first_roots(p, n), open = mf_ones(MF_SHAPE(n), MF_BOOL);
    z = mf_get(mf_while(is_open, next_roots, mf_tuple(open, mf_scalar(0, MF_I32), z, p)), 2);
    if (!real)
        return z;
    mf_value near = mf_less_equal(mf_abs(mf_imag(z)), mf_mul(mf_abs(z), 8 * (double)n * numpy_epsilon(z)));
    return mf_complex(mf_real(z), mf_where(near, 0, mf_imag(z)));
}

static mf_value roots_of_real(mf_value p) { return roots_of(p, true); }
static mf_value roots_of_complex(mf_value p) { return roots_of(p, false); }

/* Derivatives are those of one Newton step from the roots, whose value is 0. */
mf_value(mf_roots)(mf_value p)
{
    MF_LAYER;
    mf_value wrong = no_polynomial("roots", p), value, slope;
    if (wrong.handle)
        return wrong;
    p = numpy_float(p);
    bool real = !numpy_is_complex(p), wide = mf_dtype_of(p) == MF_F64 || mf_dtype_of(p) == MF_C128;
    mf_value line = mf_astype(p, wide ? MF_C128 : MF_C64);
    if (mf_dim(p, 0) < 2)
        return mf_zeros(MF_SHAPE(0), mf_dtype_of(line));
    mf_value z = mf_call(mf_jit(real ? roots_of_real : roots_of_complex), mf_stop_gradient(line));
    z = mf_stop_gradient(z);
    evaluate(line, z, &value, &slope);
    mf_value step = quotient(value, slope);
    return mf_sub(z, mf_sub(step, mf_stop_gradient(step)));
}
