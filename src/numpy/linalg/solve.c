/* Linear systems, inverses and determinants, by matrix factorisations.
 * Invariant: a vector b gives a vector, a matrix of columns gives a matrix. First derivatives reuse the factors of the value and do not
 * differentiate the factorisation; only higher derivatives do. */
#include "numpy/floats.h"

#include <math.h>
#include <string.h>

/* ---- by a Cholesky factor */

static mf_value solve_lower(mf_value l, mf_value b, bool transposed)
{
    return mf_triangular_solve(l, b, .left_side = true, .lower = true, .transpose_a = transposed, .conjugate_a = transposed);
}

mf_value(mf_cho_solve)(mf_value l, mf_value b)
{
    MF_LAYER;
    bool vector = mf_ndim(b) >= 0 && mf_ndim(b) == mf_ndim(l) - 1;
    b = vector ? mf_expand_dims(b, -1) : b;
    mf_value x = solve_lower(l, solve_lower(l, b, false), true);
    return vector ? mf_squeeze(x, -1) : x;
}

mf_value(mf_solve_spd)(mf_value a, mf_value b)
{
    MF_LAYER;
    return mf_cho_solve(mf_cholesky(a), b);
}

/* ---- checks, which return an error or None */

static mf_value check_square(mf_value a, const char *what)
{
    if (mf_is_error(a))
        return a;
    if (mf_ndim(a) < 2 || mf_dim(a, -1) != mf_dim(a, -2))
        return mf_make_error(MF_ERROR_SHAPE, "%s: the last two dimensions must be those of a square matrix, not %s", what,
                             mf_str(mf_shape_of(a)));
    return mf_none();
}

/* ---- solve */

/* x with its batch dimensions broadcast against those of y. */
static mf_value with_batch_of(mf_value x, mf_value y)
{
    int rank = mf_ndim(x) > mf_ndim(y) ? mf_ndim(x) : mf_ndim(y), mine = rank - mf_ndim(x), its = rank - mf_ndim(y);
    mf_shape shape = { .rank = rank };
    bool same = mine == 0;
    for (int i = 0; i < rank; i++) {
        int64_t own = i < mine ? 1 : mf_dim(x, i - mine), other = i < its ? 1 : mf_dim(y, i - its);
        shape.dims[i] = i >= rank - 2 || own != 1 ? own : other;
        same = same && shape.dims[i] == own;
    }
    return same ? x : mf_broadcast_to(x, shape);
}

static mf_value rows_permuted(mf_value x, mf_value permutation)
{
    return mf_take_along_axis(x, mf_broadcast_to(mf_expand_dims(permutation, -1), mf_shape_of(x)), mf_ndim(x) - 2);
}

/* Solves a x = b by the LU factors of a. NaN if the factors are not finite: some BLAS libraries skip products with 0, which would hide
 * it. */
static mf_value lu_solve(mf_value factors, mf_value b)
{
    mf_value lu = mf_get(factors, 0), x = rows_permuted(b, mf_get(factors, 2));
    mf_value finite = mf_all(mf_isfinite(lu), .axis = mf_axes(-2, -1), .keepdims = true);
    x = mf_triangular_solve(lu, x, .left_side = true, .lower = true, .unit_diagonal = true);
    x = mf_triangular_solve(lu, x, .left_side = true);
    return mf_where(finite, x, mf_full_like(x, mf_f((double)NAN)));
}

static mf_value solution(mf_value a, mf_value b) { return lu_solve(mf_lu(a), b); }

/* a dx = db - da x */
static mf_value solution_rule(mf_value primals, mf_value tangents)
{
    mf_value a = mf_get(primals, 0), factors = mf_lu(a), x = lu_solve(factors, mf_get(primals, 1));
    return mf_tuple(x, lu_solve(factors, mf_sub(mf_get(tangents, 1), mf_matmul(mf_get(tangents, 0), x))));
}

mf_value(mf_solve)(mf_value a, mf_value b)
{
    mf_value wrong = mf_is_error(b) ? b : check_square(a, "solve");
    if (mf_is_error(wrong))
        return wrong;
    bool vector = mf_ndim(b) == 1;
    b = vector ? mf_expand_dims(b, -1) : b;
    if (mf_ndim(b) < 2 || mf_dim(b, -2) != mf_dim(a, -1))
        return mf_make_error(MF_ERROR_SHAPE, "solve: a of shape %s does not fit the rows of b, %s", mf_str(mf_shape_of(a)),
                             mf_str(mf_shape_of(b)));
    numpy_promote_float(&a, &b);
    mf_value wide = with_batch_of(a, b);
    b = with_batch_of(b, a);
    if (mf_is_error(wide) || mf_is_error(b))
        return mf_is_error(wide) ? wide : b;
    mf_value x = mf_call(mf_custom_jvp(solution, solution_rule), wide, b);
    return vector ? mf_squeeze(x, -1) : x;
}

mf_value(mf_inv)(mf_value a)
{
    MF_LAYER;
    mf_value wrong = check_square(a, "inv");
    a = numpy_float(a);
    return mf_is_error(wrong) ? wrong : mf_solve(a, mf_eye(mf_dim(a, -1), mf_dtype_of(a)));
}

/* ---- determinants */

static mf_value diagonal(mf_value a) { return mf_einsum("...ii->...i", a); }
static mf_value trace(mf_value a) { return mf_sum(diagonal(a), -1); }

/* The sign of the permutation: -1 for an odd number of row exchanges, else 1. */
static mf_value parity(mf_value pivots, mf_dtype dtype)
{
    mf_value moved = mf_sum(mf_not_equal(pivots, mf_arange(mf_dim(pivots, -1), MF_I32)), -1);
    return mf_astype(mf_sub(1, mf_mul(2, mf_remainder(moved, 2))), dtype);
}

static mf_value determinant(mf_value a)
{
    mf_value factors = mf_lu(a);
    return mf_mul(parity(mf_get(factors, 1), mf_dtype_of(a)), mf_prod(diagonal(mf_get(factors, 0)), -1));
}

/* adj(a) b for n >= 4: det(a) a^-1 b by the LU factors, with the last pivot cancelled from the determinant, because it is 0 if a has rank n
 * - 1. If another pivot is 0, a is taken to have a lower rank, for which the adjugate is 0. */
static mf_value adjugate_times(mf_value a, mf_value b)
{
    int n = (int)mf_dim(a, -1);
    mf_value factors = mf_lu(a), lu = mf_get(factors, 0), sign = parity(mf_get(factors, 1), mf_dtype_of(a));
    mf_value minors = mf_mul(mf_cumprod(diagonal(lu), mf_ndim(a) - 2), mf_expand_dims(sign, -1));
    mf_value whole = mf_expand_dims(mf_slice_in_dim(minors, n - 1, n, 1, mf_ndim(a) - 2), -1);
    mf_value but_last = mf_expand_dims(mf_slice_in_dim(minors, n - 2, n - 1, 1, mf_ndim(a) - 2), -1);
    mf_value last = mf_equal(mf_arange(n, MF_I32), n - 1), last_row = mf_expand_dims(last, -1);
    lu = mf_where(mf_logical_and(last, last_row), mf_reciprocal(but_last), lu);
    mf_value ones = mf_ones_like(mf_slice_in_dim(lu, 0, 1, 1, mf_ndim(a) - 1));
    mf_value tried = mf_triangular_solve(lu, ones, .left_side = true);
    mf_value flat = mf_any(mf_logical_not(mf_isfinite(tried)), .axis = -2, .keepdims = true);
    mf_value x = rows_permuted(mf_where(flat, mf_zeros_like(b), b), mf_get(factors, 2));
    x = mf_triangular_solve(lu, x, .left_side = true, .lower = true, .unit_diagonal = true);
    x = mf_triangular_solve(lu, mf_where(last_row, x, mf_mul(x, whole)), .left_side = true);
    return mf_where(flat, mf_zeros_like(x), x);
}

/* Jacobi's formula: d det(a) = tr(adj(a) da). */
static mf_value determinant_rule(mf_value primals, mf_value tangents)
{
    mf_value a = mf_get(primals, 0);
    return mf_tuple(determinant(a), trace(adjugate_times(a, mf_get(tangents, 0))));
}

static mf_value entry(mf_value a, int row, int column)
{
    int rank = mf_ndim(a);
    mf_value line = mf_slice_in_dim(mf_slice_in_dim(a, row, row + 1, 1, rank - 2), column, column + 1, 1, rank - 1);
    return mf_squeeze(line, mf_axes(-2, -1));
}

/* The rule of Sarrus, for n <= 3. */
static mf_value small_determinant(mf_value a)
{
    int n = (int)mf_dim(a, -1);
    if (n == 1)
        return entry(a, 0, 0);
    if (n == 2)
        return mf_sub(mf_mul(entry(a, 0, 0), entry(a, 1, 1)), mf_mul(entry(a, 0, 1), entry(a, 1, 0)));
    mf_value sum = mf_zeros_like(entry(a, 0, 0));
    for (int falling = 1; falling >= 0; falling--)
        for (int k = 0; k < 3; k++) {
            int step = falling ? 1 : 2;
            mf_value product = mf_mul(mf_mul(entry(a, 0, k), entry(a, 1, (k + step) % 3)), entry(a, 2, (k + 2 * step) % 3));
            sum = falling ? mf_add(sum, product) : mf_sub(sum, product);
        }
    return sum;
}

mf_value(mf_det)(mf_value a)
{
    MF_LAYER;
    mf_value wrong = check_square(a, "det");
    if (mf_is_error(wrong))
        return wrong;
    a = numpy_float(a);
    if (mf_dim(a, -1) >= 1 && mf_dim(a, -1) <= 3)
        return mf_call(mf_jit(small_determinant), a);
    return mf_call(mf_custom_jvp(determinant, determinant_rule), a);
}

static mf_value sign_and_logarithm(mf_value a)
{
    mf_value factors = mf_lu(a), d = diagonal(mf_get(factors, 0)), size = mf_abs(d);
    mf_value zero = mf_any(mf_equal(d, 0), .axis = -1),
             signs = numpy_is_complex(a) ? mf_div(d, mf_astype(size, mf_dtype_of(d))) : mf_sign(d);
    mf_value sign = mf_mul(parity(mf_get(factors, 1), mf_dtype_of(a)), mf_prod(signs, -1));
    return mf_tuple(mf_where(zero, mf_zeros_like(sign), sign), mf_sum(mf_log(size), -1));
}

/* d log det(a) = tr(a^-1 da): the real part is the derivative of the logarithm, the imaginary part that of the phase. */
static mf_value sign_and_logarithm_rule(mf_value primals, mf_value tangents)
{
    mf_value a = mf_get(primals, 0), out = sign_and_logarithm(a), sign = mf_get(out, 0);
    mf_value change = trace(solution(a, mf_get(tangents, 0))), real = mf_real(change);
    mf_value turn = numpy_is_complex(a) ? mf_mul(mf_sub(change, mf_astype(real, mf_dtype_of(a))), sign) : mf_zeros_like(sign);
    return mf_tuple(out, mf_tuple(turn, real));
}

mf_value(mf_slogdet)(mf_value a)
{
    MF_LAYER;
    mf_value wrong = check_square(a, "slogdet");
    return mf_is_error(wrong) ? wrong : mf_call(mf_custom_jvp(sign_and_logarithm, sign_and_logarithm_rule), numpy_float(a));
}

/* ---- pinv */

static mf_value adjoint(mf_value a) { return mf_conj(mf_swapaxes(a, -1, -2)); }

static mf_value inverse_by_values(void *context, mf_value a)
{
    const double *rtol = context;
    mf_value parts = mf_svd(a, .full_matrices = false), s = mf_get(parts, 1), ut = adjoint(mf_get(parts, 0));
    int axis = mf_ndim(s) - 1;
    mf_value least = mf_mul(mf_slice_in_dim(s, 0, 1, 1, axis), *rtol), one = mf_ones_like(s);
    mf_value kept = mf_greater(s, least), broken = mf_isnan(s);
    mf_value inverse = mf_where(mf_logical_or(kept, broken), mf_div(one, mf_where(kept, s, mf_where(broken, s, one))), mf_zeros_like(s));
    return mf_matmul(adjoint(mf_get(parts, 2)), mf_mul(mf_astype(mf_expand_dims(inverse, -1), mf_dtype_of(a)), ut));
}

/* dP = -P dA P + P P^H dA^H (1 - A P) + (1 - P A) dA^H P^H P. G. H. Golub, V. Pereyra, "The differentiation of pseudo-inverses and
 * nonlinear least squares problems whose variables separate", SIAM Journal on Numerical Analysis 10 (1973). */
static mf_value inverse_rule(void *context, mf_value primals, mf_value tangents)
{
    mf_value a = mf_get(primals, 0), da = mf_get(tangents, 0), p = inverse_by_values(context, a), dah = adjoint(da), ph = adjoint(p);
    mf_value outer = mf_matmul(mf_matmul(p, ph), dah), inner = mf_matmul(dah, mf_matmul(ph, p));
    mf_value change = mf_sub(mf_sub(outer, mf_matmul(mf_matmul(outer, a), p)), mf_matmul(mf_matmul(p, da), p));
    return mf_tuple(p, mf_add(change, mf_sub(inner, mf_matmul(p, mf_matmul(a, inner)))));
}

mf_value mf_pinv_opt(mf_value a, const mf_pinv_options *o)
{
    MF_LAYER;
    a = numpy_float(a);
    if (mf_is_error(a))
        return a;
    if (mf_ndim(a) < 2)
        return mf_make_error(MF_ERROR_SHAPE, "pinv: a matrix needs two dimensions, not the shape %s", mf_str(mf_shape_of(a)));
    int64_t rows = mf_dim(a, -2), columns = mf_dim(a, -1);
    if (rows == 0 || columns == 0)
        return mf_swapaxes(a, -1, -2);
    double rtol = 10 * (double)(rows > columns ? rows : columns) * numpy_epsilon(a);
    rtol = o && o->rtol > 0 ? o->rtol : rtol;
    return mf_call(mf_custom_jvp(mf_closure(inverse_by_values, &rtol), mf_closure(inverse_rule, &rtol)), a);
}

mf_value(mf_pinv)(mf_value a) { return mf_pinv_opt(a, NULL); }

/* ---- lstsq */

static mf_value squares_left(mf_value a, mf_value x, mf_value b)
{
    mf_value left = mf_abs(mf_sub(b, mf_matmul(a, x)));
    return mf_sum(mf_mul(left, left), 0);
}

mf_value mf_lstsq_opt(mf_value a, mf_value b, const mf_lstsq_options *o)
{
    MF_LAYER;
    if (mf_is_error(a) || mf_is_error(b))
        return mf_is_error(a) ? a : b;
    if (mf_ndim(a) != 2 || mf_ndim(b) < 1 || mf_ndim(b) > 2 || mf_dim(a, 0) != mf_dim(b, 0))
        return mf_make_error(MF_ERROR_SHAPE, "lstsq: a matrix and a vector or matrix of as many rows are needed, not %s and %s",
                             mf_str(mf_shape_of(a)), mf_str(mf_shape_of(b)));
    numpy_promote_float(&a, &b);
    int64_t rows = mf_dim(a, 0), columns = mf_dim(a, 1), most = rows > columns ? rows : columns;
    bool vector = mf_ndim(b) == 1;
    double rcond = o && o->rcond > 0 ? o->rcond : (double)most * numpy_epsilon(a);
    if (rows == 0 || columns == 0)
        return mf_make_error(MF_ERROR_SHAPE, "lstsq: %s has no elements", mf_str(mf_shape_of(a)));
    b = vector ? mf_expand_dims(b, 1) : b;
    mf_value parts = mf_svd(a, .full_matrices = false), s = mf_get(parts, 1), one = mf_ones_like(s);
    mf_value kept = mf_logical_and(mf_greater(s, 0), mf_greater_equal(s, mf_mul(mf_slice_in_dim(s, 0, 1, 1, 0), rcond)));
    mf_value inverse = mf_where(kept, mf_div(one, mf_where(kept, s, one)), mf_zeros_like(s));
    mf_value projected = mf_matmul(adjoint(mf_get(parts, 0)), b),
             scaled = mf_mul(mf_astype(mf_expand_dims(inverse, 1), mf_dtype_of(a)), projected);
    mf_value x = mf_matmul(adjoint(mf_get(parts, 2)), scaled), left = squares_left(a, x, b);
    return mf_tuple(vector ? mf_squeeze(x, 1) : x, left, mf_sum(mf_astype(kept, MF_I32)), s);
}
