/* NumPy's everyday functions that are compositions of others, against JAX, by rows (expressions.h). */
#include "check.h"
#include "expressions.h"

SUM_OF(diagonal_sum, mf_mul(mf_diagonal(x, 1, 0, 2), F(1, 2, 3)))
SUM_OF(nancumsum_sum, mf_mul(mf_nancumsum(x), F(1, 2, 3)))
SUM_OF(select_sum, mf_select(mf_list(mf_greater(x, 2), mf_greater(x, 0)), mf_list(mf_square(x), mf_mul(x, 3)), 0))
SUM_OF(unwrap_sum, mf_mul(mf_unwrap(x), F(1, 2, 3, 4)))
SUM_OF(vecdot_sum, mf_vecdot(x, grid()))
SUM_OF(polymul_sum, mf_mul(mf_polymul(x, F(1, 2)), F(1, 2, 3, 4)))
SUM_OF(polydiv_sum, mf_mul(mf_get(mf_polydiv(F(1, 2, 3, 4), x), 0), F(1, 2, 3)))
SUM_OF(poly_sum, mf_mul(mf_poly(x), F(1, 2, 3, 4)))
SUM_OF(polyint_sum, mf_mul(mf_polyint(x, 2), F(1, 2, 3, 4, 5)))
SUM_OF(multi_dot_sum, mf_multi_dot(mf_list(F(1, 2), x, F(3, 4))))
SUM_OF(eigvalsh_sum, mf_mul(mf_eigvalsh(x), F(1, 2)))
SUM_OF(cond_sum, mf_linalg_cond(x))
SUM_OF(log1mexp_sum, mf_log1mexp(x))
SUM_OF(logmeanexp_sum, mf_mul(mf_logmeanexp(x, 0), F(1, 2, 3)))
SUM_OF(sparse_plus_sum, mf_sparse_plus(x))
SUM_OF(toeplitz_sum, mf_mul(mf_toeplitz(x, F(7, 8, 9)), grid()))
SUM_OF(roots_sum, mf_pow(mf_abs(mf_roots(x)), 3.))
/* The real and the imaginary parts, each sorted: the order of roots is that of an algorithm. */
static mf_value sorted_parts(mf_value z) { return mf_stack(mf_list(mf_sort(mf_real(z)), mf_sort(mf_imag(z))), 0); }
static mf_value complex_pair(void) { return mf_complex(F(1, 2), F(3, -1)); }
static mf_value wave(void) { return F(0, 3, 6, 9, -9, 3.1415927, 0, -3.1415927); }

static void arranging(void)
{
    ROW(0, "(diagonal(grid), diagonal(grid, 1), diagonal(grid, -1), diagonal(grid, 5), diagonal(whole.T, -2))",
        mf_tuple(mf_diagonal(grid()), mf_diagonal(grid(), 1), mf_diagonal(grid(), -1), mf_diagonal(grid(), 5),
                 mf_diagonal(mf_transpose(whole(), MF_INTS0), -2)))
    ROW(0, "(diagonal(cube), diagonal(cube, 0, 1, 2), diagonal(cube, 0, 2, 0), diagonal(cube, -1, -1, 1))",
        mf_tuple(mf_diagonal(cube()), mf_diagonal(cube(), 0, 1, 2), mf_diagonal(cube(), 0, 2, 0), mf_diagonal(cube(), -1, -1, 1)))
    ROW(0, "(*tril_indices(3), *tril_indices(2, 1, 4), *tril_indices(2, -5), *triu_indices(3)[:1])",
        mf_tuple(mf_get(mf_tril_indices(3, 3), 0), mf_get(mf_tril_indices(3, 3), 1), mf_get(mf_tril_indices(2, 4, 1), 0),
                 mf_get(mf_tril_indices(2, 4, 1), 1), mf_get(mf_tril_indices(2, 2, -5), 0), mf_get(mf_tril_indices(2, 2, -5), 1),
                 mf_get(mf_triu_indices(3, 3), 0)))
    ROW(0, "(*triu_indices(3), *triu_indices(4, 1, 2), *triu_indices(2, -5))",
        mf_tuple(mf_get(mf_triu_indices(3, 3), 0), mf_get(mf_triu_indices(3, 3), 1), mf_get(mf_triu_indices(4, 2, 1), 0),
                 mf_get(mf_triu_indices(4, 2, 1), 1), mf_get(mf_triu_indices(2, 2, -5), 0), mf_get(mf_triu_indices(2, 2, -5), 1)))
    ROW(0, "(argwhere(grid, size=3), argwhere(F(0, 2, 0, nan), size=3), flatnonzero(grid, size=6), flatnonzero(whole, size=2))",
        mf_tuple(mf_argwhere(grid(), 3), mf_argwhere(F(0, 2, 0, nan_), 3), mf_flatnonzero(grid(), 6), mf_flatnonzero(whole(), 2)))
    ROW(0, "(lexsort((F(1, 2, 1, 2), I(3, 3, 1, 1))), lexsort((I(3, 1, 2), )), lexsort(whole), lexsort((whole, grid), axis=0))",
        mf_tuple(mf_lexsort(mf_tuple(F(1, 2, 1, 2), I(3, 3, 1, 1))), mf_lexsort(mf_tuple(I(3, 1, 2))), mf_lexsort(whole()),
                 mf_lexsort(mf_tuple(whole(), grid()), 0)))
    ROW(0, "(select([grid > 3, grid > 1], [grid * grid, whole]), select([whole > 2], [1.5], 7))",
        mf_tuple(mf_select(mf_list(mf_greater(grid(), 3), mf_greater(grid(), 1)), mf_list(mf_mul(grid(), grid()), whole()), 0),
                 mf_select(mf_list(mf_greater(whole(), 2)), mf_list(1.5), 7)))
    ROW(0, "(nancumsum(holes), nancumsum(holes, 1), nancumprod(holes, 0), nancumsum(whole, 1))",
        mf_tuple(mf_nancumsum(holes()), mf_nancumsum(holes(), 1), mf_nancumprod(holes(), 0), mf_nancumsum(whole(), 1)))
    ROW(0, "grad(lambda x: sum(diagonal(x, 1, 0, 2) * F(1, 2, 3)))(cube)", mf_call(mf_grad(diagonal_sum), cube()))
    ROW(0, "grad(lambda x: sum(nancumsum(x) * F(1, 2, 3)))(F(1, nan, 2))", mf_call(mf_grad(nancumsum_sum), F(1, nan_, 2)))
    ROW(0, "grad(lambda x: sum(select([x > 2, x > 0], [square(x), x * 3])))(F(3, 1, -1))", mf_call(mf_grad(select_sum), F(3, 1, -1)))
}

static void sampling(void)
{
    ROW(2e-6, "(unwrap(F(0, 3, 6, 9, -9, 3.1415927, 0, -3.1415927)), unwrap(F(0, 3, 6, 1, 0), period=4), unwrap(grid * 5, axis=0))",
        mf_tuple(mf_unwrap(wave()), mf_unwrap(F(0, 3, 6, 1, 0), 4), mf_unwrap(mf_mul(grid(), 5), .axis = 0)))
    ROW(2e-6, "(logspace(0, 3, 4), logspace(-1, 2, 5, endpoint=False, base=2), geomspace(1, 1000, 4), geomspace(-0.5, -8, 5))",
        mf_tuple(mf_logspace(0, 3, 4), mf_logspace(-1, 2, 5, .exclude_endpoint = true, .base = 2), mf_geomspace(1, 1000, 4),
                 mf_geomspace(-0.5, -8, 5)))
    ROW(1e-6, "(hanning(7) + 1, hamming(7), blackman(7) + 1, bartlett(7), kaiser(7, 5.), hanning(1), kaiser(1, 2.), hamming(0))",
        mf_tuple(mf_add(mf_hanning(7), 1), mf_hamming(7), mf_add(mf_blackman(7), 1), mf_bartlett(7), mf_kaiser(7, 5.), mf_hanning(1),
                 mf_kaiser(1, 2.), mf_hamming(0)))
    ROW(1e-6, "(hanning(8) + 1, blackman(4) + 1, bartlett(2), kaiser(6, 0.))",
        mf_tuple(mf_add(mf_hanning(8), 1), mf_add(mf_blackman(4), 1), mf_bartlett(2), mf_kaiser(6, 0.)))
    ROW(2e-6, "grad(lambda x: sum(unwrap(x) * F(1, 2, 3, 4)))(F(0, 3, 9, 1))", mf_call(mf_grad(unwrap_sum), F(0, 3, 9, 1)))
}

static void products(void)
{
    ROW(0, "(vecdot(grid, grid), vecdot(grid, whole, axis=0), vecdot(F(1, 2), I(3, 4)))",
        mf_tuple(mf_vecdot(grid(), grid()), mf_vecdot(grid(), whole(), 0), mf_vecdot(F(1, 2), I(3, 4))))
    ROW(0, "parts(vecdot(lax.complex(F(1, 2), F(3, -1)), lax.complex(F(1, 2), F(3, -1)) * 1j))",
        parts(mf_vecdot(complex_pair(), mf_mul(complex_pair(), mf_c(0, 1)))))
    ROW(0, "(matvec(grid, F(1, 2, 3)), matvec(cube, F(1, 2)), vecmat(F(1, 2), grid), vecmat(F(1, 2, 3), cube))",
        mf_tuple(mf_matvec(grid(), F(1, 2, 3)), mf_matvec(cube(), F(1, 2)), mf_vecmat(F(1, 2), grid()), mf_vecmat(F(1, 2, 3), cube())))
    ROW(0, "parts(vecmat(lax.complex(F(1, 2), F(3, -1)), grid))", parts(mf_vecmat(complex_pair(), grid())))
    ROW(0,
        "(linalg.multi_dot([grid, whole.T, grid]), linalg.multi_dot([F(1, 2), grid, whole.T]), "
        "linalg.multi_dot([F(1, 2), spread, F(3, 4)]))",
        mf_tuple(mf_multi_dot(mf_list(grid(), mf_transpose(whole(), MF_INTS0), grid())),
                 mf_multi_dot(mf_list(F(1, 2), grid(), mf_transpose(whole(), MF_INTS0))),
                 mf_multi_dot(mf_list(F(1, 2), spread(), F(3, 4)))))
    ROW(3e-6, "(linalg.eigvalsh(spread), linalg.svdvals(grid), linalg.svdvals(stack([spread, 2 * spread])))",
        mf_tuple(mf_eigvalsh(spread()), mf_svdvals(grid()), mf_svdvals(mf_stack(mf_list(spread(), mf_mul(2, spread()))))))
    ROW(5e-6, "(linalg.cond(spread), linalg.cond(grid, 2), linalg.cond(spread, -2), linalg.cond(spread, 1), linalg.cond(spread, inf))",
        mf_tuple(mf_linalg_cond(spread()), mf_linalg_cond(grid(), 2), mf_linalg_cond(spread(), -2), mf_linalg_cond(spread(), 1),
                 mf_linalg_cond(spread(), inf)))
    ROW(0, "grad(lambda x: sum(vecdot(x, grid)))(whole * 1.)", mf_call(mf_grad(vecdot_sum), mf_mul(whole(), 1.)))
    ROW(0, "grad(lambda x: linalg.multi_dot([F(1, 2), x, F(3, 4)]))(spread)", mf_call(mf_grad(multi_dot_sum), spread()))
    ROW(1e-5, "grad(lambda x: sum(linalg.eigvalsh(x) * F(1, 2)))(spread)", mf_call(mf_grad(eigvalsh_sum), spread()))
    ROW(1e-5, "grad(lambda x: linalg.cond(x))(spread)", mf_call(mf_grad(cond_sum), spread()))
}

static void polynomials(void)
{
    ROW(0, "(polyadd(F(1, 2, 3), F(4, 5)), polyadd(I(1), I(2, 3)), polysub(F(1, 2), F(4, 5, 6)), polysub(I(1, 2), F(1, 2)))",
        mf_tuple(mf_polyadd(F(1, 2, 3), F(4, 5)), mf_polyadd(I(1), I(2, 3)), mf_polysub(F(1, 2), F(4, 5, 6)), mf_polysub(I(1, 2), F(1, 2))))
    ROW(1e-6, "(polymul(F(1, 2, 3), F(4, 5)), polymul(I(1, 2), I(2, 3)), polymul(F(), F(2, 3)))",
        mf_tuple(mf_polymul(F(1, 2, 3), F(4, 5)), mf_polymul(I(1, 2), I(2, 3)), mf_polymul(mf_zeros(MF_SHAPE(0), MF_F32), F(2, 3))))
    ROW(1e-6, "(*polydiv(F(1, 2, 3, 4), F(2, 1)), *polydiv(F(1, 2), F(1, 2, 3)), *polydiv(I(1, 2, 3), I(2, 5)))",
        mf_tuple(mf_get(mf_polydiv(F(1, 2, 3, 4), F(2, 1)), 0), mf_get(mf_polydiv(F(1, 2, 3, 4), F(2, 1)), 1),
                 mf_get(mf_polydiv(F(1, 2), F(1, 2, 3)), 0), mf_get(mf_polydiv(F(1, 2), F(1, 2, 3)), 1),
                 mf_get(mf_polydiv(I(1, 2, 3), I(2, 5)), 0), mf_get(mf_polydiv(I(1, 2, 3), I(2, 5)), 1)))
    ROW(1e-6, "(poly(F(1, 2, 3)), poly(I(2, -1)), poly(F()), poly(5.))",
        mf_tuple(mf_poly(F(1, 2, 3)), mf_poly(I(2, -1)), mf_poly(mf_zeros(MF_SHAPE(0), MF_F32)), mf_poly(5.)))
    ROW(1e-6, "parts(poly(lax.complex(F(1, 2), F(3, -1))))", parts(mf_poly(complex_pair())))
    ROW(1e-6, "(polyder(F(1, 2, 3, 4)), polyder(F(1, 2, 3, 4), 2), polyder(I(1, 2, 3)), polyder(F(1, 2), 0), polyder(F(3)))",
        mf_tuple(mf_polyder(F(1, 2, 3, 4)), mf_polyder(F(1, 2, 3, 4), 2), mf_polyder(I(1, 2, 3)), mf_polyder(F(1, 2), 0), mf_polyder(F(3))))
    ROW(1e-6, "(polyint(F(1, 2, 3)), polyint(F(1, 2, 3), 2), polyint(I(1, 2)), polyint(F(1, 2), 0), polyint(D(1, 2)))",
        mf_tuple(mf_polyint(F(1, 2, 3)), mf_polyint(F(1, 2, 3), 2), mf_polyint(I(1, 2)), mf_polyint(F(1, 2), 0), mf_polyint(D(1, 2))))
    ROW(1e-6, "grad(lambda x: sum(polymul(x, F(1, 2)) * F(1, 2, 3, 4)))(F(1, 2, 3))", mf_call(mf_grad(polymul_sum), F(1, 2, 3)))
    ROW(1e-6, "grad(lambda x: sum(polydiv(F(1, 2, 3, 4), x)[0] * F(1, 2, 3)))(F(2, 1))", mf_call(mf_grad(polydiv_sum), F(2, 1)))
    ROW(1e-6, "grad(lambda x: sum(poly(x) * F(1, 2, 3, 4)))(F(1, 2, 3))", mf_call(mf_grad(poly_sum), F(1, 2, 3)))
    ROW(1e-6, "grad(lambda x: sum(polyint(x, 2) * F(1, 2, 3, 4, 5)))(F(1, 2, 3))", mf_call(mf_grad(polyint_sum), F(1, 2, 3)))
}

static void zeros(void)
{
    ROW(1e-5, "(sort(parts(roots(F(1, -6, 11, -6)))), sort(parts(roots(F(2, 0, 8)))), sort(parts(roots(I(1, -1, 0)))))",
        mf_tuple(sorted_parts(mf_roots(F(1, -6, 11, -6))), sorted_parts(mf_roots(F(2, 0, 8))), sorted_parts(mf_roots(I(1, -1, 0)))))
    ROW(1e-4, "sort(parts(roots(F(1, 2, -3, 4, -5, 6, 7, 1000))))", sorted_parts(mf_roots(F(1, 2, -3, 4, -5, 6, 7, 1000))))
    ROW(1e-10, "(sort(parts(roots(D(1, 2, -3, 4, -5, 6, 7, 1000)))), sort(parts(roots(D(1e-3, 200, 3, -4e5)))))",
        mf_tuple(sorted_parts(mf_roots(D(1, 2, -3, 4, -5, 6, 7, 1000))), sorted_parts(mf_roots(D(1e-3, 200, 3, -4e5)))))
    ROW(1e-7, "sort(parts(roots(poly(arange(1., 11.) * D(1)))))", sorted_parts(mf_roots(mf_poly(mf_arange_step(1, 11, 1, MF_F64)))))
    ROW(1e-5, "(sort(parts(roots(lax.complex(F(1, 2, 3), F(0, 1, -1))))), roots(F(3)), roots(F()))",
        mf_tuple(sorted_parts(mf_roots(mf_complex(F(1, 2, 3), F(0, 1, -1)))), mf_roots(F(3)), mf_roots(mf_zeros(MF_SHAPE(0), MF_F32))))
    ROW(1e-4, "grad(lambda x: sum(abs(roots(x, strip_zeros=False)) ** 3))(F(1, -6, 11, -6))", mf_call(mf_grad(roots_sum), F(1, -6, 11, -6)))
    ROW(1e-4, "grad(lambda x: sum(abs(roots(x, strip_zeros=False)) ** 3))(F(2, 1, 3, 1))", mf_call(mf_grad(roots_sum), F(2, 1, 3, 1)))
}

static void functions_of_nn(void)
{
    ROW(2e-6, "(log1mexp(F(0, 1e-6, 0.5, 0.7, 1, 20, -1, nan)), log1mexp(I(1, 3)), log1mexp(D(1e-9, 0.5, 30))[:2])",
        mf_tuple(mf_log1mexp(F(0, 1e-6, 0.5, 0.7, 1, 20, -1, nan_)), mf_log1mexp(I(1, 3)), mf_log1mexp(D(1e-9, 0.5))))
    ROW(2e-6, "(logmeanexp(grid), logmeanexp(grid, axis=1), logmeanexp(F(1000, 1001)), logmeanexp(whole, axis=0))",
        mf_tuple(mf_logmeanexp(grid()), mf_logmeanexp(grid(), 1), mf_logmeanexp(F(1000, 1001)), mf_logmeanexp(whole(), 0)))
    ROW(0, "(sparse_plus(F(-2, -1, -0.5, 0, 1, 3)), sparse_sigmoid(F(-2, -1, -0.5, 0, 1, 3)))",
        mf_tuple(mf_sparse_plus(F(-2, -1, -0.5, 0, 1, 3)), mf_sparse_sigmoid(F(-2, -1, -0.5, 0, 1, 3))))
    ROW(0, "(toeplitz(F(1, 2, 3), F(1, 8, 9, 5)), toeplitz(I(1, 2), I(7)), toeplitz(I(1, 2), F(0.5, 3)))",
        mf_tuple(mf_toeplitz(F(1, 2, 3), F(1, 8, 9, 5)), mf_toeplitz(I(1, 2), I(7)), mf_toeplitz(I(1, 2), F(0.5, 3))))
    ROW(3e-6, "grad(lambda x: sum(log1mexp(x)))(F(0.01, 0.5, 1, 20))", mf_call(mf_grad(log1mexp_sum), F(0.01, 0.5, 1, 20)))
    ROW(3e-6, "grad(lambda x: sum(logmeanexp(x, axis=0) * F(1, 2, 3)))(grid)", mf_call(mf_grad(logmeanexp_sum), grid()))
    ROW(0, "grad(lambda x: sum(sparse_plus(x)))(F(-2, -0.5, 0, 3))", mf_call(mf_grad(sparse_plus_sum), F(-2, -0.5, 0, 3)))
    ROW(0, "grad(lambda x: sum(toeplitz(x, F(7, 8, 9)) * grid))(F(1, 2))", mf_call(mf_grad(toeplitz_sum), F(1, 2)))
}

static void all_rows(void)
{
    arranging();
    sampling();
    products();
    polynomials();
    zeros();
    functions_of_nn();
}

TEST(values_and_gradients_are_jax_s)
{
    MF_SCOPE;
    all_rows();
    expressions_compare("numpy.txt");
}

/* ---- inside transforms, and errors */
static mf_value coefficients(mf_value zeros) { return mf_poly(zeros); }
static mf_value there_and_back(mf_value zeros) { return mf_sort(mf_real(mf_roots(mf_poly(zeros)))); }

TEST(rows_are_mapped)
{
    MF_SCOPE;
    CHECK_STR(mf_str(mf_get(mf_call(mf_jit(mf_vmap(coefficients)), grid()), 1)), mf_str(mf_poly(F(3, 4, 5))));
    mf_value back = mf_call(mf_jit(mf_vmap(there_and_back)), grid());
    CHECK_NEAR(mf_item_f64(mf_max(mf_abs(mf_sub(back, grid())))), 0, 1e-4);
    CHECK_NEAR(mf_item_f64(mf_max(mf_abs(mf_roots(F(1, 0, 0))))), 0, 1e-20);
    CHECK_STR(mf_str(mf_real(mf_roots(F(0, 1, 2)))), "[nan nan]");
}

TEST(what_does_not_fit_is_an_error)
{
    MF_SCOPE;
    mf_value x = F(1, 2), square = spread(), empty = mf_zeros(MF_SHAPE(0), MF_F32), wrong = mf_add(x, F(1, 2, 3));
    struct {
        mf_value value;
        const char *expected;
    } refused[] = {
        { mf_diagonal(x), "diagonal: axis 1 is out of bounds for an array of rank 1" },
        { mf_diagonal(square, 0, 1, -1), "diagonal: two axes are needed, not axis 1 twice" },
        { mf_select(mf_list(x), mf_list(x, x), 0), "select: as many conditions as choices are needed, at least one, not 1 and 2" },
        { mf_lexsort(mf_list()), "lexsort: at least one key is needed" },
        { mf_argwhere(mf_f(1), 1), "nonzero: at least one dimension is needed" },
        { mf_flatnonzero(x, -1), "nonzero: the size must not be negative, not -1" },
        { mf_unwrap(mf_c(0, 1)), "unwrap: is defined for floats, not for complex64" },
        { mf_geomspace(-1, 1, 3), "geomspace: the ends must have one sign and not be 0, not -1 and 1" },
        { mf_polyadd(square, x), "polyadd: a vector of coefficients is needed, not 2 dimensions" },
        { mf_polymul(x, square), "polymul: a vector of coefficients is needed, not 2 dimensions" },
        { mf_polydiv(x, empty), "polydiv: the divisor has no coefficients" },
        { mf_polyder(x, -1), "polyder: the order must not be negative, not -1" },
        { mf_polyint(x, -1), "polyint: the order must not be negative, not -1" },
        { mf_toeplitz(square, x), "toeplitz: two vectors are needed, not (2, 2) and (2,)" },
        { mf_log1mexp(mf_c(0, 1)), "log1mexp: is defined for floats, not for complex64" },
        { mf_roots(square), "roots: a vector of coefficients is needed, not 2 dimensions" },
        { mf_poly(square), "poly: a vector of coefficients is needed, not 2 dimensions" },
        { mf_multi_dot(mf_list(x)), "multi_dot: 2 to 16 arrays are needed, not 1" },
        { mf_multi_dot(mf_list(square, x, square)), "multi_dot: array 1 has 1 dimensions" },
        { mf_linalg_cond(x), "linalg_cond: a matrix needs two dimensions, not 1" },
        { mf_linalg_cond(grid(), 1), "linalg_cond: a square matrix is needed, not the shape (2, 3)" },
        { mf_vecdot(x, F(1, 2, 3)), "mul" },
        { mf_poly(wrong), "add" },
        { mf_polyint(wrong), "add" },
        { mf_diagonal(wrong), "add" },
        { mf_multi_dot(mf_list(wrong, square)), "add" },
        { mf_lexsort(mf_list(wrong)), "add" },
        { mf_select(mf_list(wrong), mf_list(x), 0), "add" },
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        CHECK_CONTAINS(mf_error(refused[i].value), refused[i].expected);
}
