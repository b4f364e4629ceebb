/* Special functions against JAX, by rows (expressions.h). */
#include "check.h"
#include "expressions.h"

SUM_OF(gamma_sum, mf_gamma(x))
SUM_OF(beta_sum, mf_beta(x, F(0.5, 2, 3)))
SUM_OF(factorial_sum, mf_factorial(x))
SUM_OF(comb_sum, mf_comb(x, F(1, 2, 3)))
SUM_OF(poch_sum, mf_poch(x, F(0.5, 2, 3)))
SUM_OF(poch_m_sum, mf_poch(F(0.5, 2, 3), x))
SUM_OF(boxcox_sum, mf_boxcox(x, F(0.5, 2, 0)))
SUM_OF(boxcox_lmbda_sum, mf_boxcox(F(0.5, 2, 3), x))
SUM_OF(boxcox1p_sum, mf_boxcox1p(x, F(0.5, 2, 0)))
SUM_OF(erfcx_sum, mf_erfcx(x))
SUM_OF(expi_sum, mf_expi(x))
SUM_OF(exp1_sum, mf_exp1(x))
SUM_OF(expn_sum, mf_expn(3, x))
SUM_OF(expn_0_sum, mf_expn(0, x))
SUM_OF(spence_sum, mf_spence(x))
SUM_OF(bessel_jn_sum, mf_mul(mf_bessel_jn(x, 2), mf_reshape(F(1, 2, 3), MF_SHAPE(3, 1))))

static void gamma_and_counting(void)
{
    ROW(2e-5, "gamma(F(0.5, 1, 2.5, 6, -0.5, -1.5, 30, 40, nan))", mf_gamma(F(0.5, 1, 2.5, 6, -0.5, -1.5, 30, 40, nan_)))
    ROW(1e-12, "gamma(D(0.5, 1, 2.5, 6, -0.5, -1.5, 30))", mf_gamma(D(0.5, 1, 2.5, 6, -0.5, -1.5, 30)))
    ROW(0, "gamma(F(0, -0., -1, -2))", mf_gamma(F(0, -0., -1, -2)))
    ROW(2e-6, "(gamma(I(1, 5)), factorial(I(0, 5, -1)), comb(I(5, 5, 5), I(2, 0, 6)))",
        mf_tuple(mf_gamma(I(1, 5)), mf_factorial(I(0, 5, -1)), mf_comb(I(5, 5, 5), I(2, 0, 6))))
    ROW(0, "gammasgn(F(2, -0.5, -1.5, 0, -0., -3, nan, inf))", mf_gammasgn(F(2, -0.5, -1.5, 0, -0., -3, nan_, inf)))
    ROW(3e-6, "beta(F(0.5, 2, 10, 30), F(0.5, 30, 20, 0.25))", mf_beta(F(0.5, 2, 10, 30), F(0.5, 30, 20, 0.25)))
    ROW(1e-8, "beta(D(0.5, 2, 10), D(0.5, 30, 20))", mf_beta(D(0.5, 2, 10), D(0.5, 30, 20)))
    ROW(3e-6, "factorial(F(0, 0.5, 3, 10, -0.5, nan))", mf_factorial(F(0, 0.5, 3, 10, -0.5, nan_)))
    ROW(3e-6, "comb(F(5, 10, 20, -1, 3), F(2, 2.5, 10, 1, -1))", mf_comb(F(5, 10, 20, -1, 3), F(2, 2.5, 10, 1, -1)))
    ROW(1e-12, "(comb(D(5, 30), D(2, 7)), factorial(D(3, 20)), poch(D(0.5, 2), D(3, 0.25)))",
        mf_tuple(mf_comb(D(5, 30), D(2, 7)), mf_factorial(D(3, 20)), mf_poch(D(0.5, 2), D(3, 0.25))))
    ROW(3e-6, "poch(F(0.5, 2, 3, -0.5, 2), F(3, 0.25, 0, 2, -0.5))", mf_poch(F(0.5, 2, 3, -0.5, 2), F(3, 0.25, 0, 2, -0.5)))
    ROW(2e-6, "(boxcox(F(0.5, 2, 3, 1e-3), F(0.5, 2, 0, -1)), boxcox1p(F(0.5, 2, 3, 1e-8), F(0.5, 2, 0, -1)))",
        mf_tuple(mf_boxcox(F(0.5, 2, 3, 1e-3), F(0.5, 2, 0, -1)), mf_boxcox1p(F(0.5, 2, 3, 1e-8), F(0.5, 2, 0, -1))))
    ROW(0, "(boxcox(F(-1, nan), F(0, 1)), boxcox1p(F(-2, nan), F(0, 1)))",
        mf_tuple(mf_boxcox(F(-1, nan_), F(0, 1)), mf_boxcox1p(F(-2, nan_), F(0, 1))))
    ROW(5e-3, "(gamma(H(0.5, 3)), beta(H(0.5, 3), H(1, 2)), factorial(H(3)))",
        mf_tuple(mf_gamma(H(0.5, 3)), mf_beta(H(0.5, 3), H(1, 2)), mf_factorial(H(3))))
    ROW(5e-6, "grad(lambda x: sum(gamma(x)))(F(0.5, 3, -1.5))", mf_call(mf_grad(gamma_sum), F(0.5, 3, -1.5)))
    ROW(5e-6, "grad(lambda x: sum(beta(x, F(0.5, 2, 3))))(F(0.5, 3, 1.5))", mf_call(mf_grad(beta_sum), F(0.5, 3, 1.5)))
    ROW(5e-6, "grad(lambda x: sum(factorial(x)))(F(0.5, 3, 1.5))", mf_call(mf_grad(factorial_sum), F(0.5, 3, 1.5)))
    ROW(5e-6, "grad(lambda x: sum(comb(x, F(1, 2, 3))))(F(5, 2.5, 1))", mf_call(mf_grad(comb_sum), F(5, 2.5, 1)))
    ROW(5e-6, "grad(lambda x: sum(poch(x, F(0.5, 2, 3))))(F(5, 2.5, 1))", mf_call(mf_grad(poch_sum), F(5, 2.5, 1)))
    ROW(5e-6, "grad(lambda x: sum(poch(F(0.5, 2, 3), x)))(F(5, 2.5, 1))", mf_call(mf_grad(poch_m_sum), F(5, 2.5, 1)))
    ROW(2e-6, "grad(lambda x: sum(boxcox(x, F(0.5, 2, 0))))(F(0.5, 2, 3))", mf_call(mf_grad(boxcox_sum), F(0.5, 2, 3)))
    ROW(5e-6, "grad(lambda x: sum(boxcox(F(0.5, 2, 3), x)))(F(0.5, 2, 0))", mf_call(mf_grad(boxcox_lmbda_sum), F(0.5, 2, 0)))
    ROW(2e-6, "grad(lambda x: sum(boxcox1p(x, F(0.5, 2, 0))))(F(0.5, 2, 3))", mf_call(mf_grad(boxcox1p_sum), F(0.5, 2, 3)))
}

static void integrals(void)
{
    ROW(4e-6, "expi(F(-20, -2, -1, -0.25, 0.25, 0.5, 2, 3, 6, 12, 20, 40, 80, 100, nan))",
        mf_expi(F(-20, -2, -1, -0.25, 0.25, 0.5, 2, 3, 6, 12, 20, 40, 80, 100, nan_)))
    ROW(1e-13, "expi(D(-20, -2, -1, -0.25, 0.25, 0.5, 2, 3, 6, 12, 20, 40, 80, 600))",
        mf_expi(D(-20, -2, -1, -0.25, 0.25, 0.5, 2, 3, 6, 12, 20, 40, 80, 600)))
    ROW(3e-6, "exp1(F(0, 1e-6, 0.25, 1, 1.01, 2, 20, 80, -1, nan))", mf_exp1(F(0, 1e-6, 0.25, 1, 1.01, 2, 20, 80, -1, nan_)))
    ROW(1e-13, "exp1(D(1e-6, 0.25, 1, 1.01, 2, 20, 600))", mf_exp1(D(1e-6, 0.25, 1, 1.01, 2, 20, 600)))
    ROW(3e-6, "(expn(0, F(0, 0.25, 2, -1)), expn(2, F(0.25, 1, 2, 20)), expn(3, F(0.25, 1, 2, 20)), expn(40, F(0.5, 3)))",
        mf_tuple(mf_expn(0, F(0, 0.25, 2, -1)), mf_expn(2, F(0.25, 1, 2, 20)), mf_expn(3, F(0.25, 1, 2, 20)), mf_expn(40, F(0.5, 3))))
    ROW(1e-13, "(expn(2, D(0.25, 1, 2, 20)), expn(5, D(0.25, 1, 2, 20)))",
        mf_tuple(mf_expn(2, D(0.25, 1, 2, 20)), mf_expn(5, D(0.25, 1, 2, 20))))
    ROW(3e-6, "spence(F(0, 0.01, 0.25, 0.75, 1, 1.25, 1.75, 3, 1e6, -1))", mf_spence(F(0, 0.01, 0.25, 0.75, 1, 1.25, 1.75, 3, 1e6, -1)))
    ROW(1e-13, "spence(D(0.01, 0.25, 0.75, 1.25, 1.75, 3, 1e6))", mf_spence(D(0.01, 0.25, 0.75, 1.25, 1.75, 3, 1e6)))
    ROW(3e-6, "erfcx(F(-3, -0.5, 0, 0.5, 1, 2, 5, 20, 1e6))", mf_erfcx(F(-3, -0.5, 0, 0.5, 1, 2, 5, 20, 1e6)))
    ROW(1e-12, "erfcx(D(-3, -0.5, 0, 0.5, 1, 2, 5, 20, 1e9))", mf_erfcx(D(-3, -0.5, 0, 0.5, 1, 2, 5, 20, 1e9)))
    ROW(2e-6, "(bessel_jn(F(0.5, 2, -3, 10), v=3), bessel_jn(F(30), v=0, n_iter=80))",
        mf_tuple(mf_bessel_jn(F(0.5, 2, -3, 10), 3), mf_bessel_jn(F(30), 0, 80)))
    ROW(1e-12, "bessel_jn(D(0.5, 2, -3, 10), v=2)", mf_bessel_jn(D(0.5, 2, -3, 10), 2))
    ROW(5e-3, "(expi(F(1, 3)).astype(H(1).dtype), exp1(F(1, 3)).astype(H(1).dtype))", mf_tuple(mf_expi(H(1, 3)), mf_exp1(H(1, 3))))
    ROW(3e-6, "grad(lambda x: sum(expi(x)))(F(-2, 0.5, 20))", mf_call(mf_grad(expi_sum), F(-2, 0.5, 20)))
    ROW(3e-6, "grad(lambda x: sum(exp1(x)))(F(0.25, 1, 20))", mf_call(mf_grad(exp1_sum), F(0.25, 1, 20)))
    ROW(3e-6, "grad(lambda x: sum(expn(3, x)))(F(0.25, 1, 20))", mf_call(mf_grad(expn_sum), F(0.25, 1, 20)))
    ROW(3e-6, "grad(lambda x: sum(exp(-x) / x))(F(0.25, 1, 20))", mf_call(mf_grad(expn_0_sum), F(0.25, 1, 20))) /* JAX's is NaN */
    ROW(1e-5, "grad(lambda x: sum(spence(x)))(F(0.25, 3))", mf_call(mf_grad(spence_sum), F(0.25, 3)))
    ROW(1e-5, "grad(lambda x: sum(erfcx(x)))(F(-1, 0, 0.5, 3, 20))", mf_call(mf_grad(erfcx_sum), F(-1, 0, 0.5, 3, 20)))
    ROW(1e-5, "grad(lambda x: sum(bessel_jn(x, v=2) * F(1, 2, 3).reshape(3, 1)))(F(0.5, 2, 10))",
        mf_call(mf_grad(bessel_jn_sum), F(0.5, 2, 10)))
}

static void all_rows(void)
{
    gamma_and_counting();
    integrals();
}

TEST(values_and_gradients_are_jax_s)
{
    MF_SCOPE;
    all_rows();
    expressions_compare("special.txt");
}

/* ---- inside transforms, and errors */
static mf_value integral(mf_value x) { return mf_exp1(x); }

TEST(loops_are_mapped)
{
    MF_SCOPE;
    mf_value x = F(0.5, 1.5, 40);
    CHECK_STR(mf_str(mf_allclose(mf_call(mf_jit(mf_vmap(integral)), x), integral(x))), "True");
}

TEST(ends_and_poles)
{
    MF_SCOPE;
    CHECK_STR(mf_str(mf_expi(F(0, inf, -inf))), "[-inf  inf  -0.]");
    CHECK_STR(mf_str(mf_exp1(F(inf))), "[0.]");
    CHECK_STR(mf_str(mf_expn(2, mf_zeros(MF_SHAPE(0), MF_F32))), "[]");
    CHECK_STR(mf_str(mf_expn(2, F(0))), "[1.]"); /* JAX says 0.5 */
    CHECK_STR(mf_str(mf_call(mf_grad(spence_sum), F(1))), "[-1.]");
}

TEST(what_does_not_fit_is_an_error)
{
    MF_SCOPE;
    mf_value x = F(1, 2), z = mf_c(0, 1);
    struct {
        mf_value value;
        const char *expected;
    } refused[] = {
        { mf_gamma(z), "gamma: is defined for floats, not for complex64" },
        { mf_beta(z, 1), "beta: is defined for floats, not for complex64" },
        { mf_poch(x, F(1, 2, 3)), "add" },
        { mf_expi(z), "expi: is defined for floats, not for complex64" },
        { mf_expn(-1, x), "expn: the order must not be negative, not -1" },
        { mf_bessel_jn(x, -1), "bessel_jn: an order from 0 to 63" },
        { mf_bessel_jn(x, 3, 2), "bessel_jn: an order from 0 to 63" },
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        CHECK_CONTAINS(mf_error(refused[i].value), refused[i].expected);
}
