/* Public functions that are compositions of others, against JAX, by rows (expressions.h). */
#include "check.h"
#include "expressions.h"

#define OF_COMPLEX(f) \
    static mf_value f##_parts(mf_value x) { return mf_sum(mf_mul(parts(mf_##f(mf_complex(x, F(0.5, -1, 2)))), F(1, 2, 3))); }
OF_COMPLEX(asin)
OF_COMPLEX(acos)
OF_COMPLEX(atan)
OF_COMPLEX(asinh)
OF_COMPLEX(acosh)
OF_COMPLEX(atanh)
OF_COMPLEX(expm1)
OF_COMPLEX(log1p)
OF_COMPLEX(exp2)

SUM_OF(sinc_sum, mf_sinc(x))
SUM_OF(whole_powers_sum, mf_pow(x, I(0, 1, 2, -1)))
SUM_OF(nanmean_sum, mf_nanmean(x))
SUM_OF(nanmax_sum, mf_nanmax(x))
SUM_OF(nanmedian_sum, mf_nanmedian(x))
SUM_OF(cov_sum, mf_mul(mf_cov(x), spread()))
SUM_OF(interp_sum, mf_interp(F(0, 1, 1.5, 2, 3, 4, 9), x, F(10, 20, 0)))
SUM_OF(interp_values_sum, mf_interp(F(0, 1, 1.5, 2, 3, 4, 9), F(1, 2, 4), x))
SUM_OF(segment_sum_sum, mf_mul(mf_segment_sum(x, I(0, 2, -1, 5), 3), F(1, 2, 3)))
SUM_OF(segment_max_sum, mf_mul(mf_segment_max(x, I(0, 1, 1, 0), 2), F(1, 2)))
SUM_OF(trapezoid_sum, mf_trapezoid(F(1, 4, 9), x))
SUM_OF(complex_convolve_sum, mf_abs(mf_convolve(mf_mul(x, mf_c(0, 1)), mf_add(F(1, 2), mf_c(0, 1)))))
SUM_OF(convolve_sum, mf_mul(mf_convolve(x, F(1, 2)), F(1, 2, 3, 4)))
SUM_OF(polyval_sum, mf_polyval(F(1, 2, 3), x))
SUM_OF(cross_sum, mf_get(mf_cross(x, F(4, 5, 7)), 0))
SUM_OF(erfc_sum, mf_erfc(x))
SUM_OF(ndtr_sum, mf_ndtr(x))
SUM_OF(log_ndtr_sum, mf_log_ndtr(x))
SUM_OF(ndtri_sum, mf_ndtri(x))
SUM_OF(digamma_sum, mf_digamma(x))
SUM_OF(polygamma_sum, mf_polygamma(1, x))
SUM_OF(betaln_sum, mf_betaln(x, F(2, 3, 20)))
SUM_OF(gammainc_sum, mf_gammainc(F(0.5, 2, 30), x))
SUM_OF(gammainc_a_sum, mf_gammainc(x, F(0.5, 3, 25)))
SUM_OF(gammaincc_sum, mf_gammaincc(x, F(0.5, 3, 25)))
SUM_OF(multigammaln_sum, mf_multigammaln(x, 3))
SUM_OF(i0_sum, mf_i0(x))
SUM_OF(i0e_sum, mf_i0e(x))
SUM_OF(i1_sum, mf_i1(x))
SUM_OF(i1e_sum, mf_i1e(x))
SUM_OF(betainc_sum, mf_betainc(F(0.5, 2, 30), F(3, 0.7, 40), x))
static mf_value betainc_of_a(mf_value a) { return mf_betainc(a, D(3, 0.7), D(0.2, 0.6)); }
SUM_OF(polyfit_sum, mf_mul(mf_polyfit(x, F(1, 0, 2, 3), 1), F(1, 2)))
SUM_OF(xlogy_sum, mf_xlogy(x, F(2, 3, 1)))
SUM_OF(xlogy_y_sum, mf_xlogy(F(0, 3, 1), x))
SUM_OF(xlog1py_sum, mf_xlog1py(x, F(2, 3, 1)))
SUM_OF(entr_sum, mf_entr(x))
SUM_OF(rel_entr_sum, mf_rel_entr(x, F(0.5, 2, 1)))
SUM_OF(logit_sum, mf_logit(x))
SUM_OF(gamma_draws, mf_random_loggamma(key(), x, MF_SHAPE(3), MF_F32))
SUM_OF(beta_draws, mf_random_beta(key(), x, F(1, 2, 3), MF_SHAPE(3), MF_F32))

SUM_OF(mish_sum, mf_mish(x))
SUM_OF(glu_sum, mf_glu(x))
SUM_OF(gelu_sum, mf_gelu_exact(x))
SUM_OF(expm_sum, mf_mul(mf_expm(x), spread()))

static void signs_and_steps(void)
{
    ROW(0, "copysign(F(1, -2, 0, inf), F(-0., 3, -1, -2))", mf_copysign(F(1, -2, 0, inf), F(-0., 3, -1, -2)))
    ROW(0, "copysign(H(1, -2), H(-0., 3))", mf_copysign(H(1, -2), H(-0., 3)))
    ROW(0, "copysign(I(1, -2), I(-3, 0))", mf_copysign(I(1, -2), I(-3, 0)))
    ROW(0, "signbit(F(-0., 0, -1, inf, -inf))", mf_signbit(F(-0., 0, -1, inf, -inf)))
    ROW(0, "signbit(B(-0., 2))", mf_signbit(B(-0., 2)))
    ROW(0, "signbit(I(-1, 0, 1))", mf_signbit(I(-1, 0, 1)))
    ROW(0, "heaviside(F(-1, 0, 2, nan), 0.5)", mf_heaviside(F(-1, 0, 2, nan_), 0.5))
    ROW(0, "fmax(F(1, nan, 3, nan), F(2, 5, nan, nan))", mf_fmax(F(1, nan_, 3, nan_), F(2, 5, nan_, nan_)))
    ROW(0, "fmin(F(1, nan, 3, nan), F(2, 5, nan, nan))", mf_fmin(F(1, nan_, 3, nan_), F(2, 5, nan_, nan_)))
    ROW(0, "isposinf(F(inf, -inf, nan, 1))", mf_isposinf(F(inf, -inf, nan_, 1)))
    ROW(0, "isneginf(F(inf, -inf, nan, 1))", mf_isneginf(F(inf, -inf, nan_, 1)))
    ROW(3e-6, "parts(arcsin(lax.complex(F(0.5, -2, 0.001, 3), F(0.25, 1.5, -3, -0.001))))",
        parts(mf_asin(mf_complex(F(0.5, -2, 0.001, 3), F(0.25, 1.5, -3, -0.001)))))
    ROW(3e-6, "parts(arccos(lax.complex(F(0.5, -2, 0.001, 3), F(0.25, 1.5, -3, -0.001))))",
        parts(mf_acos(mf_complex(F(0.5, -2, 0.001, 3), F(0.25, 1.5, -3, -0.001)))))
    ROW(3e-6, "parts(arctan(lax.complex(F(0.5, -2, 0.001, 3), F(0.25, 1.5, -3, -0.001))))",
        parts(mf_atan(mf_complex(F(0.5, -2, 0.001, 3), F(0.25, 1.5, -3, -0.001)))))
    ROW(3e-6, "parts(arcsinh(lax.complex(F(0.5, -2, 0.001, 3), F(0.25, 1.5, -3, -0.001))))",
        parts(mf_asinh(mf_complex(F(0.5, -2, 0.001, 3), F(0.25, 1.5, -3, -0.001)))))
    ROW(3e-6, "parts(arccosh(lax.complex(F(0.5, -2, 0.001, 3), F(0.25, 1.5, -3, -0.001))))",
        parts(mf_acosh(mf_complex(F(0.5, -2, 0.001, 3), F(0.25, 1.5, -3, -0.001)))))
    ROW(3e-6, "parts(arctanh(lax.complex(F(0.5, -2, 0.001, 3), F(0.25, 1.5, -3, -0.001))))",
        parts(mf_atanh(mf_complex(F(0.5, -2, 0.001, 3), F(0.25, 1.5, -3, -0.001)))))
    ROW(3e-6, "parts(expm1(lax.complex(F(0.5, -2, 0.001, 3), F(0.25, 1.5, -3, -0.001))))",
        parts(mf_expm1(mf_complex(F(0.5, -2, 0.001, 3), F(0.25, 1.5, -3, -0.001)))))
    ROW(3e-6, "parts(log1p(lax.complex(F(0.5, -2, 0.001, 3), F(0.25, 1.5, -3, -0.001))))",
        parts(mf_log1p(mf_complex(F(0.5, -2, 0.001, 3), F(0.25, 1.5, -3, -0.001)))))
    ROW(3e-6, "parts(exp2(lax.complex(F(0.5, -2, 0.001, 3), F(0.25, 1.5, -3, -0.001))))",
        parts(mf_exp2(mf_complex(F(0.5, -2, 0.001, 3), F(0.25, 1.5, -3, -0.001)))))
    ROW(3e-6, "parts(sign(lax.complex(F(0.5, -2, 0.001, 3), F(0.25, 1.5, -3, -0.001))))",
        parts(mf_sign(mf_complex(F(0.5, -2, 0.001, 3), F(0.25, 1.5, -3, -0.001)))))
    ROW(1e-5, "grad(lambda x: sum(parts(arcsin(lax.complex(x, F(0.5, -1, 2)))) * F(1, 2, 3)))(F(0.3, -2, 1))",
        mf_call(mf_grad(asin_parts), F(0.3, -2, 1)))
    ROW(1e-5, "grad(lambda x: sum(parts(arccos(lax.complex(x, F(0.5, -1, 2)))) * F(1, 2, 3)))(F(0.3, -2, 1))",
        mf_call(mf_grad(acos_parts), F(0.3, -2, 1)))
    ROW(1e-5, "grad(lambda x: sum(parts(arctan(lax.complex(x, F(0.5, -1, 2)))) * F(1, 2, 3)))(F(0.3, -2, 1))",
        mf_call(mf_grad(atan_parts), F(0.3, -2, 1)))
    ROW(1e-5, "grad(lambda x: sum(parts(arcsinh(lax.complex(x, F(0.5, -1, 2)))) * F(1, 2, 3)))(F(0.3, -2, 1))",
        mf_call(mf_grad(asinh_parts), F(0.3, -2, 1)))
    ROW(1e-5, "grad(lambda x: sum(parts(arccosh(lax.complex(x, F(0.5, -1, 2)))) * F(1, 2, 3)))(F(0.3, 2, 1))",
        mf_call(mf_grad(acosh_parts), F(0.3, 2, 1))) /* JAX's slope has the wrong sign left of 0 */
    ROW(1e-5, "grad(lambda x: sum(parts(arctanh(lax.complex(x, F(0.5, -1, 2)))) * F(1, 2, 3)))(F(0.3, -2, 1))",
        mf_call(mf_grad(atanh_parts), F(0.3, -2, 1)))
    ROW(1e-5, "grad(lambda x: sum(parts(expm1(lax.complex(x, F(0.5, -1, 2)))) * F(1, 2, 3)))(F(0.3, -2, 1))",
        mf_call(mf_grad(expm1_parts), F(0.3, -2, 1)))
    ROW(1e-5, "grad(lambda x: sum(parts(log1p(lax.complex(x, F(0.5, -1, 2)))) * F(1, 2, 3)))(F(0.3, -2, 1))",
        mf_call(mf_grad(log1p_parts), F(0.3, -2, 1)))
    ROW(1e-5, "grad(lambda x: sum(parts(exp2(lax.complex(x, F(0.5, -1, 2)))) * F(1, 2, 3)))(F(0.3, -2, 1))",
        mf_call(mf_grad(exp2_parts), F(0.3, -2, 1)))
    ROW(1e-12, "parts(log1p(lax.complex(D(1e-9, -0.5, -1.5, 1e200), D(1e-9, 0.8, 1e-3, 1e200))))",
        parts(mf_log1p(mf_complex(D(1e-9, -0.5, -1.5, 1e200), D(1e-9, 0.8, 1e-3, 1e200)))))
    ROW(1e-12, "parts(arccosh(lax.complex(D(0.5, -3, 0, 1), D(0, 0, 2, 0))))", parts(mf_acosh(mf_complex(D(0.5, -3, 0, 1), D(0, 0, 2, 0)))))
    ROW(2e-7, "deg2rad(F(180, -90, 1))", mf_deg2rad(F(180, -90, 1)))
    ROW(2e-7, "rad2deg(F(1, -2, 0))", mf_rad2deg(F(1, -2, 0)))
    ROW(1e-6, "sinc(F(0, 0.001, 0.5, -2.5, 10.25))", mf_sinc(F(0, 0.001, 0.5, -2.5, 10.25)))
    ROW(1e-14, "sinc(D(0, 0.001, 0.003, 0.5, -2.5))", mf_sinc(D(0, 0.001, 0.003, 0.5, -2.5)))
    ROW(1e-6, "logaddexp2(F(1, -inf, 100), F(2, 3, 100))", mf_logaddexp2(F(1, -inf, 100), F(2, 3, 100)))
    ROW(0, "divmod(F(7, -7, 7.5), F(2, 2, -2))", mf_divmod(F(7, -7, 7.5), F(2, 2, -2)))
    ROW(0, "divmod(I(7, -7), 2)", mf_divmod(I(7, -7), 2))
    ROW(0, "gcd(I(12, -18, 0, 7), I(18, 12, 0, 0))", mf_gcd(I(12, -18, 0, 7), I(18, 12, 0, 0)))
    ROW(0, "gcd(I(12, 15, 7), 9)", mf_gcd(I(12, 15, 7), 9))
    ROW(0, "lcm(I(12, -18, 0, 7), I(18, 12, 0, 0))", mf_lcm(I(12, -18, 0, 7), I(18, 12, 0, 0)))
    ROW(0, "trunc(F(-1.5, 1.5, -0.25, 3))", mf_trunc(F(-1.5, 1.5, -0.25, 3)))
    ROW(0, "fmod(F(-5, 5, 5.5), F(3, -3, 2))", mf_fmod(F(-5, 5, 5.5), F(3, -3, 2)))
    ROW(0, "fmod(I(5, -5), I(3, 3))", mf_fmod(I(5, -5), I(3, 3)))
    ROW(2e-7, "hypot(F(3, 0, inf, 0), F(4, 0, nan, -2))", mf_hypot(F(3, 0, inf, 0), F(4, 0, nan_, -2)))
    ROW(1e-3, "(hypot(H(3, 1), I(4, 2)), hypot(I(3, 1), 4), hypot(F(3, 1) > 2, F(3, 1) > 0))",
        mf_tuple(mf_hypot(H(3, 1), I(4, 2)), mf_hypot(I(3, 1), 4), mf_hypot(mf_greater(F(3, 1), 2), mf_greater(F(3, 1), 0))))
    ROW(0, "(fmod(I(5, -5, 0), I(0, 0, 0)), fmod(I(5, -5), 0), fmod(F(5, -5), 0))",
        mf_tuple(mf_fmod(I(5, -5, 0), I(0, 0, 0)), mf_fmod(I(5, -5), 0), mf_fmod(F(5, -5), 0)))
    ROW(2e-7, "(logaddexp(F(3, 1) > 2, F(3, 1) > 0), copysign(F(3, 1) > 2, F(3, 1) > 0))",
        mf_tuple(mf_logaddexp(mf_greater(F(3, 1), 2), mf_greater(F(3, 1), 0)), mf_copysign(mf_greater(F(3, 1), 2), mf_greater(F(3, 1), 0))))
    ROW(2e-7, "log2(F(8, 0, -1))", mf_log2(F(8, 0, -1)))
    ROW(0, "isclose(F(1, inf, nan, 1e6), F(1.00001, inf, nan, 1e6 + 11))",
        mf_isclose(F(1, inf, nan_, 1e6), F(1.00001, inf, nan_, 1e6 + 11)))
    ROW(1e-9, "grad(lambda x: sum(sinc(x)))(D(0, 0.001, 0.5, -2.5))", mf_call(mf_grad(sinc_sum), D(0, 0.001, 0.5, -2.5)))
    ROW(1e-6, "hessian(lambda x: sum(sinc(x)))(D(0, 0.5))", mf_call(mf_hessian(sinc_sum), D(0, 0.5)))
    ROW(1e-6, "grad(lambda x: sum(x ** I(0, 1, 2, -1)))(F(0, 0, 0, 3))", mf_call(mf_grad(whole_powers_sum), F(0, 0, 0, 3)))
}

static void joining(void)
{
    ROW(0, "atleast_1d(F(3)[0])", mf_atleast_1d(mf_get(F(3), 0)))
    ROW(0, "atleast_2d(F(1, 2))", mf_atleast_2d(F(1, 2)))
    ROW(0, "(atleast_3d(F(3)[0]), atleast_3d(F(1, 2)), atleast_3d(grid), atleast_3d(cube))",
        mf_tuple(mf_atleast_3d(mf_get(F(3), 0)), mf_atleast_3d(F(1, 2)), mf_atleast_3d(grid()), mf_atleast_3d(cube())))
    ROW(0, "hstack([F(1, 2), I(3), F(4)])", mf_hstack(mf_list(F(1, 2), I(3), F(4))))
    ROW(0, "hstack([F(3)[0], F(4)])", mf_hstack(mf_list(mf_get(F(3), 0), F(4))))
    ROW(0, "hstack([grid, grid])", mf_hstack(mf_list(grid(), grid())))
    ROW(0, "hstack(grid)", mf_hstack(grid()))
    ROW(0, "vstack([F(1, 2, 3), grid])", mf_vstack(mf_list(F(1, 2, 3), grid())))
    ROW(0, "vstack(grid)", mf_vstack(grid()))
    ROW(0, "dstack([F(1, 2), I(3, 4)])", mf_dstack(mf_list(F(1, 2), I(3, 4))))
    ROW(0, "dstack((grid, grid))", mf_dstack(mf_tuple(grid(), grid())))
    ROW(0, "column_stack([F(1, 2), grid, F(8, 9)])", mf_column_stack(mf_list(F(1, 2), grid(), F(8, 9))))
    ROW(0, "append(grid, I(7, 8))", mf_append(grid(), I(7, 8)))
    ROW(0, "append(grid, grid, axis=-1)", mf_append(grid(), grid(), -1))
    ROW(0, "block_diag(grid, F(7), F(8, 9))", mf_block_diag(mf_list(grid(), F(7), F(8, 9))))
    ROW(0, "array_split(F(1, 2, 3, 4, 5, 6, 7), 3)", mf_array_split(F(1, 2, 3, 4, 5, 6, 7), 3))
    ROW(0, "array_split(grid, 2, axis=1)", mf_array_split(grid(), 2, 1))
    ROW(0, "array_split(F(1, 2), 3)", mf_array_split(F(1, 2), 3))
    ROW(0, "(rot90(grid), rot90(grid, 2), rot90(cube, -1), rot90(grid, 5))",
        mf_tuple(mf_rot90(grid()), mf_rot90(grid(), 2), mf_rot90(cube(), -1), mf_rot90(grid(), 5)))
    ROW(0, "tri(3, 4, -1, f32)", mf_tri(3, 4, -1, MF_F32))
    ROW(0, "mean(F(1, 2, 5), dtype=i32)", mf_mean(F(1, 2, 5), .dtype = MF_I32))
    ROW(0, "unravel_index(I(-20, -7, -6, -1, 0, 5, 6, 100), (2, 3))", mf_unravel_index(I(-20, -7, -6, -1, 0, 5, 6, 100), MF_SHAPE(2, 3)))
    ROW(0, "unravel_index(I(0, 7, 11), (2, 3, 2))", mf_unravel_index(I(0, 7, 11), MF_SHAPE(2, 3, 2)))
    ROW(0, "ravel_multi_index((I(0, 1), I(2, 0), I(1, 1)), (2, 3, 2), mode='wrap')",
        mf_ravel_multi_index(mf_tuple(I(0, 1), I(2, 0), I(1, 1)), MF_SHAPE(2, 3, 2)))
    ROW(0, "kron(whole[:, :2], I(1, 10))", mf_kron(mf_reshape(I(3, 1, 6, -5), MF_SHAPE(2, 2)), I(1, 10)))
    ROW(0, "cross(F(1, 2, 3), F(4, 5, 7))", mf_cross(F(1, 2, 3), F(4, 5, 7)))
    ROW(0, "grad(lambda x: cross(x, F(4, 5, 7))[0])(F(1, 2, 3))", mf_call(mf_grad(cross_sum), F(1, 2, 3)))
}

static void reductions(void)
{
    ROW(2e-7, "average(grid, axis=1, weights=F(1, 2, 3))", mf_average(grid(), F(1, 2, 3), 1))
    ROW(2e-7, "average(abs(whole), weights=abs(whole))", mf_average(mf_abs(whole()), mf_abs(whole())))
    ROW(0, "(nansum(holes, 1), nanprod(holes, 1), nanmax(holes, 1), nanmin(holes, 1), nanmean(holes, 1))",
        mf_tuple(mf_nansum(holes(), 1), mf_nanprod(holes(), 1), mf_nanmax(holes(), 1), mf_nanmin(holes(), 1), mf_nanmean(holes(), 1)))
    ROW(2e-7, "(nanvar(holes, 1), nanstd(holes, 1), nanvar(F(1, nan, 2, 4), ddof=1))",
        mf_tuple(mf_nanvar(holes(), 1), mf_nanstd(holes(), 1), mf_nanvar(F(1, nan_, 2, 4), .ddof = 1)))
    ROW(0, "(nanmax(whole), nansum(whole), nanprod(I(2, 3)))", mf_tuple(mf_nanmax(whole()), mf_nansum(whole()), mf_nanprod(I(2, 3))))
    ROW(0, "(nanargmax(holes, axis=1), nanargmin(holes, axis=1), nanargmax(F(nan, 2, 5, nan)), nanargmin(whole))",
        mf_tuple(mf_nanargmax(holes(), 1), mf_nanargmin(holes(), 1), mf_nanargmax(F(nan_, 2, 5, nan_)), mf_nanargmin(whole())))
    ROW(2e-7, "(nanmedian(holes, axis=1), nanmedian(F(nan, 1, 4, 2)))", mf_tuple(mf_nanmedian(holes(), 1), mf_nanmedian(F(nan_, 1, 4, 2))))
    ROW(2e-7, "nanquantile(F(nan, 1, 4, 2, 9), F(0, 0.3, 1))", mf_nanquantile(F(nan_, 1, 4, 2, 9), F(0, 0.3, 1)))
    ROW(2e-7, "nanpercentile(holes, 25, axis=0)", mf_nanpercentile(holes(), 25, 0))
    ROW(2e-7, "percentile(grid, F(10, 50), axis=1)", mf_percentile(grid(), F(10, 50), 1))
    ROW(0, "(ptp(whole), ptp(grid, axis=0))", mf_tuple(mf_ptp(whole()), mf_ptp(grid(), 0)))
    ROW(0, "(count_nonzero(grid), count_nonzero(grid, axis=1))", mf_tuple(mf_count_nonzero(grid()), mf_count_nonzero(grid(), 1)))
    ROW(1e-6, "(cov(whole), cov(whole, rowvar=False, bias=True), cov(F(1, 2, 4)))",
        mf_tuple(mf_cov(whole()), mf_cov(whole(), .columns = true, .bias = true), mf_cov(F(1, 2, 4))))
    ROW(1e-6, "(corrcoef(whole), corrcoef(F(1, 2, 4)))", mf_tuple(mf_corrcoef(whole()), mf_corrcoef(F(1, 2, 4))))
    ROW(0, "histogram(F(1, 2, 2, 5, 9), 4)", mf_histogram(F(1, 2, 2, 5, 9), 4))
    ROW(1e-6, "histogram(F(1, 2, 2, 5, 9, nan), 3, range=(2, 8))", mf_histogram(F(1, 2, 2, 5, 9, nan_), 3, .low = mf_f(2), .high = mf_f(8)))
    ROW(1e-6, "histogram(F(1, 2, 4), 2, weights=F(0.5, 1, 2), density=True)",
        mf_histogram(F(1, 2, 4), 2, .weights = F(0.5, 1, 2), .density = true))
    ROW(0, "histogram(I(3, 3, 3), 2)", mf_histogram(I(3, 3, 3), 2))
    ROW(0, "(digitize(F(0, 1, 2.5, 9), F(1, 2, 3)), digitize(F(0, 1, 2.5, 9), F(1, 2, 3), right=True))",
        mf_tuple(mf_digitize(F(0, 1, 2.5, 9), F(1, 2, 3)), mf_digitize(F(0, 1, 2.5, 9), F(1, 2, 3), true)))
    ROW(0, "(digitize(F(0, 1, 2.5, 9), F(3, 2, 1)), digitize(F(0, 1, 2.5, 9), F(3, 2, 1), right=True))",
        mf_tuple(mf_digitize(F(0, 1, 2.5, 9), F(3, 2, 1)), mf_digitize(F(0, 1, 2.5, 9), F(3, 2, 1), true)))
    ROW(0, "(ops.segment_sum(F(1, 2, 3, 4), I(0, 2, -1, 5), 3), ops.segment_prod(F(1, 2, 3, 4), I(0, 2, 0, 5), 3))",
        mf_tuple(mf_segment_sum(F(1, 2, 3, 4), I(0, 2, -1, 5), 3), mf_segment_prod(F(1, 2, 3, 4), I(0, 2, 0, 5), 3)))
    ROW(0, "(ops.segment_max(whole, I(0, 0), 2), ops.segment_min(F(1, 2, 3), I(2, 0, 2), 3))",
        mf_tuple(mf_segment_max(whole(), I(0, 0), 2), mf_segment_min(F(1, 2, 3), I(2, 0, 2), 3)))
    ROW(0, "grad(lambda x: nanmean(x))(F(1, nan, 2))", mf_call(mf_grad(nanmean_sum), F(1, nan_, 2)))
    ROW(0, "grad(lambda x: nanmax(x))(F(1, nan, 2))", mf_call(mf_grad(nanmax_sum), F(1, nan_, 2)))
    ROW(0, "grad(lambda x: nanmedian(x))(F(1, nan, 2))", mf_call(mf_grad(nanmedian_sum), F(1, nan_, 2)))
    ROW(1e-6, "grad(lambda x: sum(cov(x) * spread))(grid * grid)", mf_call(mf_grad(cov_sum), mf_mul(grid(), grid())))
    ROW(0, "grad(lambda x: sum(ops.segment_sum(x, I(0, 2, -1, 5), 3) * F(1, 2, 3)))(F(1, 2, 3, 4))",
        mf_call(mf_grad(segment_sum_sum), F(1, 2, 3, 4)))
    ROW(0, "grad(lambda x: sum(ops.segment_max(x, I(0, 1, 1, 0), 2) * F(1, 2)))(F(1, 2, 3, 4))",
        mf_call(mf_grad(segment_max_sum), F(1, 2, 3, 4)))
}

static void order_and_samples(void)
{
    ROW(0, "isin(whole, I(6, 1, 9))", mf_isin(whole(), I(6, 1, 9)))
    ROW(0, "isin(F(1, nan, 2.5), I(1, 2))", mf_isin(F(1, nan_, 2.5), I(1, 2)))
    ROW(0, "unique(I(3, 1, 3, 2, 1), size=3)", mf_unique(I(3, 1, 3, 2, 1), 3))
    ROW(0, "unique(F(3, 1, 3, nan, 1, nan), size=5)", mf_unique(F(3, 1, 3, nan_, 1, nan_), 5))
    ROW(0, "unique(I(3, 1, 3, 2, 1), size=2)", mf_unique(I(3, 1, 3, 2, 1), 2))
    ROW(0, "unique(whole, size=8, fill_value=-7)", mf_unique(whole(), 8, .fill_value = mf_i(-7)))
    ROW(0, "nonzero(grid, size=6)", mf_nonzero(grid(), 6))
    ROW(0, "nonzero(F(0, 2, 0, -1, nan), size=2)", mf_nonzero(F(0, 2, 0, -1, nan_), 2))
    ROW(2e-7, "interp(F(0, 1, 1.5, 2, 3, 4, 9, nan), F(1, 2, 4), F(10, 20, 0))",
        mf_interp(F(0, 1, 1.5, 2, 3, 4, 9, nan_), F(1, 2, 4), F(10, 20, 0)))
    ROW(0, "(trapezoid(F(1, 2, 4)), trapezoid(whole, dx=0.5, axis=0), trapezoid(grid, F(1, 2, 4)), trapezoid(grid, grid * grid))",
        mf_tuple(mf_trapezoid(F(1, 2, 4)), mf_trapezoid(whole(), .dx = 0.5, .axis = 0), mf_trapezoid(grid(), F(1, 2, 4)),
                 mf_trapezoid(grid(), mf_mul(grid(), grid()))))
    ROW(0, "gradient(F(1, 2, 4, 7))", mf_gradient(F(1, 2, 4, 7)))
    ROW(0, "gradient(grid * grid, 0.5)", mf_gradient(mf_mul(grid(), grid()), 0.5))
    ROW(0, "gradient(grid * grid, axis=1)", mf_gradient(mf_mul(grid(), grid()), 1, 1))
    ROW(0, "polyval(F(1, 2, 3), F(0, 1, -2))", mf_polyval(F(1, 2, 3), F(0, 1, -2)))
    ROW(0, "polyval(I(1, 2, 3), I(4, 5))", mf_polyval(I(1, 2, 3), I(4, 5)))
    ROW(0, "(vander(F(1, 2, 3)), vander(I(2, 3), 4, increasing=True))",
        mf_tuple(mf_vander(F(1, 2, 3)), mf_vander(I(2, 3), .columns = 4, .increasing = true)))
    ROW(0, "(vander(I(1, 2, -3), 3), vander(I(1, 2, -3).astype('int8'), 4), vander(H(1, 2), increasing=True))",
        mf_tuple(mf_vander(I(1, 2, -3), .columns = 3), mf_vander(mf_astype(I(1, 2, -3), MF_I8), .columns = 4),
                 mf_vander(H(1, 2), .increasing = true)))
    ROW(1e-6, "(convolve(F(1, 2, 3), F(0, 1, 0.5)), convolve(F(1, 2, 3, 4), F(1, 2), 'same'), convolve(F(1, 2, 3), F(1, 2), 'valid'))",
        mf_tuple(mf_convolve(F(1, 2, 3), F(0, 1, 0.5)), mf_convolve(F(1, 2, 3, 4), F(1, 2), MF_CONVOLVE_SAME),
                 mf_convolve(F(1, 2, 3), F(1, 2), MF_CONVOLVE_VALID)))
    ROW(1e-6, "(convolve(F(1, 2), F(1, 2, 3, 4), 'same'), convolve(F(1, 2, 3, 4, 5), F(1, 2, 7), 'same'), convolve(I(1, 2, 3), I(4, 5)))",
        mf_tuple(mf_convolve(F(1, 2), F(1, 2, 3, 4), MF_CONVOLVE_SAME), mf_convolve(F(1, 2, 3, 4, 5), F(1, 2, 7), MF_CONVOLVE_SAME),
                 mf_convolve(I(1, 2, 3), I(4, 5))))
    ROW(1e-6, "(correlate(F(1, 2, 3), F(0, 1, 0.5)), correlate(F(1, 2, 3, 4), F(1, 2), 'full'), correlate(F(1, 2), F(1, 2, 5), 'full'))",
        mf_tuple(mf_correlate(F(1, 2, 3), F(0, 1, 0.5)), mf_correlate(F(1, 2, 3, 4), F(1, 2), MF_CONVOLVE_FULL),
                 mf_correlate(F(1, 2), F(1, 2, 5), MF_CONVOLVE_FULL)))
    ROW(1e-6, "(correlate(F(1, 2, 3, 4), F(1, 2), 'same'), correlate(F(1, 2), F(1, 2, 5, 3), 'same'))",
        mf_tuple(mf_correlate(F(1, 2, 3, 4), F(1, 2), MF_CONVOLVE_SAME), mf_correlate(F(1, 2), F(1, 2, 5, 3), MF_CONVOLVE_SAME)))
    ROW(1e-3, "(interp(I(0, 2, 3), I(1, 4), H(10, 20)), interp(H(0, 2, 3), I(1, 4), I(10, 20)), interp(I(0, 2), H(1, 4), H(10, 20)))",
        mf_tuple(mf_interp(I(0, 2, 3), I(1, 4), H(10, 20)), mf_interp(H(0, 2, 3), I(1, 4), I(10, 20)),
                 mf_interp(I(0, 2), H(1, 4), H(10, 20))))
    ROW(0, "grad(lambda x: sum(interp(F(0, 1, 1.5, 2, 3, 4, 9), x, F(10, 20, 0))))(F(1, 2, 4))", mf_call(mf_grad(interp_sum), F(1, 2, 4)))
    ROW(0, "grad(lambda x: sum(interp(F(0, 1, 1.5, 2, 3, 4, 9), F(1, 2, 4), x)))(F(10, 20, 0))",
        mf_call(mf_grad(interp_values_sum), F(10, 20, 0)))
    ROW(0, "grad(lambda x: trapezoid(F(1, 4, 9), x))(F(1, 2, 4))", mf_call(mf_grad(trapezoid_sum), F(1, 2, 4)))
    ROW(1e-6, "(convolve(F(1, 2, 3) * 1j, F(1, 2) + 1j), correlate(F(1, 2, 3) + 2j, F(1, 2) - 1j))",
        mf_tuple(mf_convolve(mf_mul(F(1, 2, 3), mf_c(0, 1)), mf_add(F(1, 2), mf_c(0, 1))),
                 mf_correlate(mf_add(F(1, 2, 3), mf_c(0, 2)), mf_sub(F(1, 2), mf_c(0, 1)))))
    ROW(1e-6, "correlate(F(1, 2) + 2j, F(1, 2, 3) * 1j, 'full')",
        mf_correlate(mf_add(F(1, 2), mf_c(0, 2)), mf_mul(F(1, 2, 3), mf_c(0, 1)), MF_CONVOLVE_FULL))
    ROW(1e-6, "grad(lambda x: sum(abs(convolve(x * 1j, F(1, 2) + 1j))))(F(1, 2, 3))", mf_call(mf_grad(complex_convolve_sum), F(1, 2, 3)))
    ROW(1e-6, "grad(lambda x: sum(convolve(x, F(1, 2)) * F(1, 2, 3, 4)))(F(1, 2, 3))", mf_call(mf_grad(convolve_sum), F(1, 2, 3)))
    ROW(0, "grad(lambda x: sum(polyval(F(1, 2, 3), x)))(F(0, 1, -2))", mf_call(mf_grad(polyval_sum), F(0, 1, -2)))
}

static void special(void)
{
    ROW(3e-6, "erfc(F(-3, -0.5, 0, 0.25, 0.75, 1, 2, 5, 9, 12, inf, -inf, nan))",
        mf_erfc(F(-3, -0.5, 0, 0.25, 0.75, 1, 2, 5, 9, 12, inf, -inf, nan_)))
    ROW(1e-13, "erfc(D(-3, -0.5, 0, 0.25, 0.75, 1, 2, 7.5, 9, 26))", mf_erfc(D(-3, -0.5, 0, 0.25, 0.75, 1, 2, 7.5, 9, 26)))
    ROW(3e-3, "erfc(H(-1, 0.5, 2)).astype(f32)", mf_astype(mf_erfc(H(-1, 0.5, 2)), MF_F32))
    ROW(3e-6, "ndtr(F(-10, -3, -0.5, 0, 0.25, 3, 9, inf))", mf_ndtr(F(-10, -3, -0.5, 0, 0.25, 3, 9, inf)))
    ROW(1e-13, "ndtr(D(-30, -3, -0.5, 0, 0.25, 3))", mf_ndtr(D(-30, -3, -0.5, 0, 0.25, 3)))
    ROW(3e-6, "log_ndtr(F(-100, -12, -9, -3, 0, 1, 4, 6, 9))", mf_log_ndtr(F(-100, -12, -9, -3, 0, 1, 4, 6, 9)))
    ROW(1e-10, "log_ndtr(D(-100, -25, -9, -3, 0, 1, 4, 6, 9))", mf_log_ndtr(D(-100, -25, -9, -3, 0, 1, 4, 6, 9)))
    ROW(3e-6, "ndtri(F(0, 1e-30, 0.01, 0.2, 0.5, 0.7, 0.99, 1))", mf_ndtri(F(0, 1e-30, 0.01, 0.2, 0.5, 0.7, 0.99, 1)))
    ROW(1e-12, "ndtri(D(1e-300, 0.01, 0.2, 0.5, 0.7, 0.99))", mf_ndtri(D(1e-300, 0.01, 0.2, 0.5, 0.7, 0.99)))
    ROW(3e-6, "digamma(F(0.1, 1, 2.5, 30, -1.5))", mf_digamma(F(0.1, 1, 2.5, 30, -1.5)))
    ROW(1e-12, "digamma(D(0.1, 1, 2.5, 30, -1.5))", mf_digamma(D(0.1, 1, 2.5, 30, -1.5)))
    ROW(3e-6, "(polygamma(1, F(0.1, 1, 2.5, 30)), polygamma(3, F(0.5, 2)), polygamma(0, F(2)))",
        mf_tuple(mf_polygamma(1, F(0.1, 1, 2.5, 30)), mf_polygamma(3, F(0.5, 2)), mf_polygamma(0, F(2))))
    ROW(3e-6, "zeta(F(2, 3.5, 10, 1.01), F(1, 0.25, 3, 40))", mf_zeta(F(2, 3.5, 10, 1.01), F(1, 0.25, 3, 40)))
    ROW(1e-12, "zeta(D(2, 3.5, 10, 1.01, 30), D(1, 0.25, 3, 40, 2))", mf_zeta(D(2, 3.5, 10, 1.01, 30), D(1, 0.25, 3, 40, 2)))
    ROW(0, "zeta(F(1, 0.5, 2), F(2, 2, -1))", mf_zeta(F(1, 0.5, 2), F(2, 2, -1)))
    ROW(3e-6, "betaln(F(0.5, 2, 10, 1e-3, 1000), F(0.5, 30, 20, 5, 3))", mf_betaln(F(0.5, 2, 10, 1e-3, 1000), F(0.5, 30, 20, 5, 3)))
    ROW(1e-8, "betaln(D(0.5, 2, 10, 1e-3, 1000), D(0.5, 30, 20, 5, 3))", mf_betaln(D(0.5, 2, 10, 1e-3, 1000), D(0.5, 30, 20, 5, 3)))
    ROW(1e-5, "gammainc(F(0.5, 0.5, 2, 2, 30, 30, 1, 0), F(0.1, 4, 1, 9, 20, 45, 0, 2))",
        mf_gammainc(F(0.5, 0.5, 2, 2, 30, 30, 1, 0), F(0.1, 4, 1, 9, 20, 45, 0, 2)))
    ROW(1e-5, "gammaincc(F(0.5, 0.5, 2, 2, 30, 30, 1, 0), F(0.1, 4, 1, 9, 20, 45, 0, 2))",
        mf_gammaincc(F(0.5, 0.5, 2, 2, 30, 30, 1, 0), F(0.1, 4, 1, 9, 20, 45, 0, 2)))
    ROW(0, "(gammainc(F(2, -1, nan, 0, 3), F(-1, 2, 2, 0, inf)), gammaincc(F(2, 3), F(inf, 0)))",
        mf_tuple(mf_gammainc(F(2, -1, nan_, 0, 3), F(-1, 2, 2, 0, inf)), mf_gammaincc(F(2, 3), F(inf, 0))))
    ROW(1e-12, "gammainc(D(0.5, 2, 30), D(4, 1, 45))", mf_gammainc(D(0.5, 2, 30), D(4, 1, 45)))
    ROW(3e-6, "multigammaln(F(3, 10.5), 3)", mf_multigammaln(F(3, 10.5), 3))
    ROW(2e-6, "xlogy(F(0, 0, 2, 0), F(0, 3, 5, nan))", mf_xlogy(F(0, 0, 2, 0), F(0, 3, 5, nan_)))
    ROW(2e-6, "xlog1py(F(0, 0, 2), F(-1, 3, 1e-8))", mf_xlog1py(F(0, 0, 2), F(-1, 3, 1e-8)))
    ROW(2e-6, "entr(F(-1, 0, 0.5, 1, 3))", mf_entr(F(-1, 0, 0.5, 1, 3)))
    ROW(2e-6, "rel_entr(F(0, 0.5, 2, -1, 1), F(0, 0.25, 3, 1, 0))", mf_rel_entr(F(0, 0.5, 2, -1, 1), F(0, 0.25, 3, 1, 0)))
    ROW(2e-6, "kl_div(F(0, 0.5, 2), F(3, 0.25, 3))", mf_kl_div(F(0, 0.5, 2), F(3, 0.25, 3)))
    ROW(2e-6, "logit(F(0, 0.25, 0.5, 0.9, 1, 2))", mf_logit(F(0, 0.25, 0.5, 0.9, 1, 2)))
}

static void special_gradients(void)
{
    ROW(3e-6, "grad(lambda x: sum(erfc(x)))(F(-3, 0, 0.75, 2, 6))", mf_call(mf_grad(erfc_sum), F(-3, 0, 0.75, 2, 6)))
    ROW(3e-6, "hessian(lambda x: sum(erfc(x)))(F(0.75, 2))", mf_call(mf_hessian(erfc_sum), F(0.75, 2)))
    ROW(3e-6, "grad(lambda x: sum(ndtr(x)))(F(-5, 0, 0.75, 2))", mf_call(mf_grad(ndtr_sum), F(-5, 0, 0.75, 2)))
    ROW(1e-4, "grad(lambda x: sum(log_ndtr(x)))(F(-50, -9, 0, 2, 6))", mf_call(mf_grad(log_ndtr_sum), F(-50, -9, 0, 2, 6)))
    ROW(1e-5, "grad(lambda x: sum(ndtri(x)))(F(0.01, 0.3, 0.5, 0.95))", mf_call(mf_grad(ndtri_sum), F(0.01, 0.3, 0.5, 0.95)))
    ROW(1e-5, "grad(lambda x: sum(digamma(x)))(F(0.5, 1, 20))", mf_call(mf_grad(digamma_sum), F(0.5, 1, 20)))
    ROW(1e-5, "grad(lambda x: sum(polygamma(1, x)))(F(0.5, 1, 20))", mf_call(mf_grad(polygamma_sum), F(0.5, 1, 20)))
    ROW(1e-5, "grad(lambda x: sum(betaln(x, F(2, 3, 20))))(F(0.5, 4, 30))", mf_call(mf_grad(betaln_sum), F(0.5, 4, 30)))
    ROW(1e-5, "grad(lambda x: sum(gammainc(F(0.5, 2, 30), x)))(F(0.5, 3, 25))", mf_call(mf_grad(gammainc_sum), F(0.5, 3, 25)))
    ROW(1e-4, "grad(lambda x: sum(gammainc(x, F(0.5, 3, 25))))(F(0.5, 2, 30))", mf_call(mf_grad(gammainc_a_sum), F(0.5, 2, 30)))
    ROW(1e-4, "grad(lambda x: sum(gammaincc(x, F(0.5, 3, 25))))(F(0.5, 2, 30))", mf_call(mf_grad(gammaincc_sum), F(0.5, 2, 30)))
    ROW(1e-5, "grad(lambda x: sum(multigammaln(x, 3)))(F(3, 10.5))", mf_call(mf_grad(multigammaln_sum), F(3, 10.5)))
    ROW(2e-6, "(i0(F(0, -0.5, 3, 8, 8.1, -60, nan)), i0e(F(0, -0.5, 3, 8, 8.1, 1e6, inf)))",
        mf_tuple(mf_i0(F(0, -0.5, 3, 8, 8.1, -60, nan_)), mf_i0e(F(0, -0.5, 3, 8, 8.1, 1e6, inf))))
    ROW(2e-6, "(i1(F(0, -0.5, 3, 8, 8.1, -60, nan)), i1e(F(-0.0, -0.5, 3, 8, -8.1, 1e6, inf)))",
        mf_tuple(mf_i1(F(0, -0.5, 3, 8, 8.1, -60, nan_)), mf_i1e(F(-0.0, -0.5, 3, 8, -8.1, 1e6, inf))))
    ROW(1e-13, "(i0(D(0.1, 2, 7.9, 30)), i0e(D(0.1, 2, 7.9, 3000)), i1(D(0.1, 2, 7.9, 30)), i1e(D(0.1, 2, 7.9, 3000)))",
        mf_tuple(mf_i0(D(0.1, 2, 7.9, 30)), mf_i0e(D(0.1, 2, 7.9, 3000)), mf_i1(D(0.1, 2, 7.9, 30)), mf_i1e(D(0.1, 2, 7.9, 3000))))
    ROW(0.004, "i0(H(1, 3))", mf_i0(H(1, 3)))
    ROW(5e-6, "grad(lambda x: sum(i0(x)))(F(0.5, -2, 9))", mf_call(mf_grad(i0_sum), F(0.5, -2, 9))) /* at 0 JAX says 1 */
    ROW(5e-6, "grad(lambda x: sum(i0e(x)))(F(-2, 5, 9))", mf_call(mf_grad(i0e_sum), F(-2, 5, 9)))
    ROW(5e-6, "grad(lambda x: sum(i1(x)))(F(0, -2, 9))", mf_call(mf_grad(i1_sum), F(0, -2, 9)))
    ROW(5e-6, "grad(lambda x: sum(i1e(x)))(F(0, -2, 9))", mf_call(mf_grad(i1e_sum), F(0, -2, 9)))
    ROW(5e-6, "betainc(F(0.5, 2, 30, 1, 200), F(3, 0.7, 40, 1, 0.1), F(0.1, 0.9, 0.45, 0.3, 0.99))",
        mf_betainc(F(0.5, 2, 30, 1, 200), F(3, 0.7, 40, 1, 0.1), F(0.1, 0.9, 0.45, 0.3, 0.99)))
    ROW(1e-11, "betainc(D(0.5, 2, 3000, 1e-3), D(3, 0.7, 4000, 2), D(0.1, 0.9, 0.43, 0.5))",
        mf_betainc(D(0.5, 2, 3000, 1e-3), D(3, 0.7, 4000, 2), D(0.1, 0.9, 0.43, 0.5)))
    ROW(0, "betainc(F(1, 2, -1, 2, 2, nan), F(1, 3, 1, 0, 2, 1), F(0, 1, 0.5, 0.5, 1.5, 0.5))",
        mf_betainc(F(1, 2, -1, 2, 2, nan_), F(1, 3, 1, 0, 2, 1), F(0, 1, 0.5, 0.5, 1.5, 0.5)))
    ROW(0, "betainc(F(2, 2, 0, 0, 0, inf, 2, inf), F(0, 0, 2, 2, 0, 2, inf, inf), F(0.5, 1, 0, 0.5, 0.5, 0.5, 0.5, 0.5))",
        mf_betainc(F(2, 2, 0, 0, 0, inf, 2, inf), F(0, 0, 2, 2, 0, 2, inf, inf), F(0.5, 1, 0, 0.5, 0.5, 0.5, 0.5, 0.5)))
    ROW(0.004, "betainc(H(1.5), H(2), H(0.25))", mf_betainc(H(1.5), H(2), H(0.25)))
    ROW(1e-5, "grad(lambda x: sum(betainc(F(0.5, 2, 30), F(3, 0.7, 40), x)))(F(0.1, 0.9, 0.45))",
        mf_call(mf_grad(betainc_sum), F(0.1, 0.9, 0.45)))
    ROW(1e-7, "(betainc(D(0.50001, 2.00001), D(3, 0.7), D(0.2, 0.6)) - betainc(D(0.49999, 1.99999), D(3, 0.7), D(0.2, 0.6))) / 0.00002",
        mf_get(mf_jvp(betainc_of_a, mf_tuple(D(0.5, 2)), mf_tuple(D(1, 1))), 1))
    ROW(1e-5, "polyfit(F(0, 1, 2, 3, 4), F(1, 0, 2, 5, 9), 2)", mf_polyfit(F(0, 1, 2, 3, 4), F(1, 0, 2, 5, 9), 2))
    ROW(1e-10, "polyfit(D(1, 2, 4, 8, 16), D(1, 3, 2, 5, 4), 3)", mf_polyfit(D(1, 2, 4, 8, 16), D(1, 3, 2, 5, 4), 3))
    ROW(1e-5, "polyfit(F(0, 1), grid[:, :2], 1)", mf_polyfit(F(0, 1), mf_slice_in_dim(grid(), 0, 2, 1, 1), 1))
    ROW(1e-4, "grad(lambda x: sum(polyfit(x, F(1, 0, 2, 3), 1) * F(1, 2)))(F(0, 1, 2, 4))", mf_call(mf_grad(polyfit_sum), F(0, 1, 2, 4)))
    ROW(2e-6, "grad(lambda x: sum(xlogy(x, F(2, 3, 1))))(F(0, 3, 2))", mf_call(mf_grad(xlogy_sum), F(0, 3, 2)))
    ROW(2e-6, "grad(lambda x: sum(xlogy(F(0, 3, 1), x)))(F(2, 3, 1))", mf_call(mf_grad(xlogy_y_sum), F(2, 3, 1)))
    ROW(2e-6, "grad(lambda x: sum(xlog1py(x, F(2, 3, 1))))(F(0, 3, 2))", mf_call(mf_grad(xlog1py_sum), F(0, 3, 2)))
    ROW(2e-6, "grad(lambda x: sum(entr(x)))(F(0.25, 1, 3))", mf_call(mf_grad(entr_sum), F(0.25, 1, 3)))
    ROW(2e-6, "grad(lambda x: sum(rel_entr(x, F(0.5, 2, 1))))(F(0.25, 1, 3))", mf_call(mf_grad(rel_entr_sum), F(0.25, 1, 3)))
    ROW(2e-6, "grad(lambda x: sum(logit(x)))(F(0.25, 0.5, 0.9))", mf_call(mf_grad(logit_sum), F(0.25, 0.5, 0.9)))
}

static void random_draws(void)
{
    ROW(4e-6, "random.logistic(key, (7,), f32)", mf_random_logistic(key(), MF_SHAPE(7), MF_F32))
    ROW(0, "random.rademacher(key, (7,), i32)", mf_random_rademacher(key(), MF_SHAPE(7), MF_I32))
    ROW(4e-6, "random.maxwell(key, (2, 3), f32)", mf_random_maxwell(key(), MF_SHAPE(2, 3), MF_F32))
    ROW(4e-6, "random.lognormal(key, F(0.5, 1, 2), (2, 3), f32)", mf_random_lognormal(key(), F(0.5, 1, 2), MF_SHAPE(2, 3), MF_F32))
    ROW(4e-6, "random.pareto(key, F(0.5, 1, 2), (2, 3), f32)", mf_random_pareto(key(), F(0.5, 1, 2), MF_SHAPE(2, 3), MF_F32))
    ROW(4e-6, "random.rayleigh(key, F(0.5, 1, 2), (2, 3), f32)", mf_random_rayleigh(key(), F(0.5, 1, 2), MF_SHAPE(2, 3), MF_F32))
    ROW(4e-6, "random.wald(key, F(0.5, 1, 2), (2, 3), f32)", mf_random_wald(key(), F(0.5, 1, 2), MF_SHAPE(2, 3), MF_F32))
    ROW(4e-6, "random.weibull_min(key, 2., 1.5, (7,), f32)", mf_random_weibull_min(key(), 2., 1.5, MF_SHAPE(7), MF_F32))
    ROW(4e-6, "random.triangular(key, -1., 0.5, 2., (7,), f32)", mf_random_triangular(key(), -1., 0.5, 2., MF_SHAPE(7), MF_F32))
    ROW(0, "random.geometric(key, F(0.2, 0.5, 0.9), (3, 3), i32)", mf_random_geometric(key(), F(0.2, 0.5, 0.9), MF_SHAPE(3, 3), MF_I32))
    ROW(0, "random.binomial(key, F(0, 5, 20, 100, 1e6, 30), F(0.5, 0.3, 0.9, 0.25, 0.5, 1), (5, 6))",
        mf_random_binomial(key(), F(0, 5, 20, 100, 1e6, 30), F(0.5, 0.3, 0.9, 0.25, 0.5, 1), MF_SHAPE(5, 6), MF_F32))
    ROW(0, "random.binomial(key, F(-1, nan, 3, 3, 3, inf), F(0.5, 0.5, nan, -0.5, 1.5, 0.5), (6,))",
        mf_random_binomial(key(), F(-1, nan_, 3, 3, 3, inf), F(0.5, 0.5, nan_, -0.5, 1.5, 0.5), MF_SHAPE(6), MF_F32))
    ROW(0, "random.binomial(key, D(40, 7), D(0.4, 0.1), (4, 2), f64)",
        mf_random_binomial(key(), D(40, 7), D(0.4, 0.1), MF_SHAPE(4, 2), MF_F64))
    ROW(0, "random.poisson(key, F(0, 0.5, 4, 9.5, 10, 50, 1e4), (3, 7), i32)",
        mf_random_poisson(key(), F(0, 0.5, 4, 9.5, 10, 50, 1e4), MF_SHAPE(3, 7), MF_I32))
    ROW(1e-5, "random.loggamma(key, F(1e-3, 0.5, 1, 7), (2, 4), f32)",
        mf_random_loggamma(key(), F(1e-3, 0.5, 1, 7), MF_SHAPE(2, 4), MF_F32))
    ROW(1e-5, "random.beta(key, F(0.5, 2), F(1, 30), (3, 2), f32)", mf_random_beta(key(), F(0.5, 2), F(1, 30), MF_SHAPE(3, 2), MF_F32))
    ROW(1e-5, "random.dirichlet(key, F(0.5, 2, 1), (4,), f32)", mf_random_dirichlet(key(), F(0.5, 2, 1), MF_SHAPE(4), MF_F32))
    ROW(1e-5, "random.chisquare(key, F(1, 5), (3, 2), f32)", mf_random_chisquare(key(), F(1, 5), MF_SHAPE(3, 2), MF_F32))
    ROW(1e-5, "random.f(key, F(1, 5), F(4, 3), (2,), f32)", mf_random_f(key(), F(1, 5), F(4, 3), MF_SHAPE(2), MF_F32))
    ROW(1e-5, "random.t(key, F(1, 5), (3, 2), f32)", mf_random_t(key(), F(1, 5), MF_SHAPE(3, 2), MF_F32))
    ROW(1e-5, "random.generalized_normal(key, 1.5, (5,), f32)", mf_random_generalized_normal(key(), 1.5, MF_SHAPE(5), MF_F32))
    ROW(1e-5, "random.ball(key, 3, 2, (4,), f32)", mf_random_ball(key(), 3, 2, MF_SHAPE(4), MF_F32))
    ROW(1e-5, "random.multivariate_normal(key, F(1, 2), spread, (3,), f32)",
        mf_random_multivariate_normal(key(), F(1, 2), spread(), MF_SHAPE(3), MF_F32))
    ROW(1e-5, "random.orthogonal(key, 3, (2,), f32)", mf_random_orthogonal(key(), 3, MF_SHAPE(2), MF_F32))
    ROW(1e-4, "grad(lambda x: sum(random.loggamma(key, x, (3,), f32)))(F(0.5, 1, 7))", mf_call(mf_grad(gamma_draws), F(0.5, 1, 7)))
    ROW(1e-4, "grad(lambda x: sum(random.beta(key, x, F(1, 2, 3), (3,), f32)))(F(0.5, 1, 7))", mf_call(mf_grad(beta_draws), F(0.5, 1, 7)))
}

static void activations_and_matrices(void)
{
    ROW(2e-6, "(mish(F(-30, -1, 0, 2, 50)), soft_sign(F(-3, 0, 1)), squareplus(F(-3, 0, 1)), squareplus(F(1), 2.))",
        mf_tuple(mf_mish(F(-30, -1, 0, 2, 50)), mf_soft_sign(F(-3, 0, 1)), mf_squareplus(F(-3, 0, 1)), mf_squareplus(F(1), 2.)))
    ROW(2e-6, "(glu(F(1, 2, 3, 4)), glu(grid, axis=0))", mf_tuple(mf_glu(F(1, 2, 3, 4)), mf_glu(grid(), 0)))
    ROW(1e-5, "(standardize(grid), standardize(grid, axis=0, epsilon=0.1))",
        mf_tuple(mf_standardize(grid()), mf_standardize(grid(), .axis = 0, .epsilon = 0.1)))
    ROW(3e-6, "gelu(F(-9, -3, -1, 0, 0.5, 3), approximate=False)", mf_gelu_exact(F(-9, -3, -1, 0, 0.5, 3)))
    ROW(2e-6, "grad(lambda x: sum(mish(x)))(F(-30, -1, 0, 2, 50))", mf_call(mf_grad(mish_sum), F(-30, -1, 0, 2, 50)))
    ROW(2e-6, "grad(lambda x: sum(glu(x)))(F(1, 2, 3, 4))", mf_call(mf_grad(glu_sum), F(1, 2, 3, 4)))
    ROW(5e-6, "grad(lambda x: sum(gelu(x, approximate=False)))(F(-3, 0, 0.5, 3))", mf_call(mf_grad(gelu_sum), F(-3, 0, 0.5, 3)))
    ROW(2e-6, "(linalg.matrix_power(spread, 5), linalg.matrix_power(spread, -2), linalg.matrix_power(spread, 0))",
        mf_tuple(mf_matrix_power(spread(), 5), mf_matrix_power(spread(), -2), mf_matrix_power(spread(), 0)))
    ROW(0, "(linalg.matrix_rank(spread), linalg.matrix_rank(grid - grid), linalg.matrix_rank(outer(F(1, 2), F(3, 4))))",
        mf_tuple(mf_matrix_rank(spread()), mf_matrix_rank(mf_sub(grid(), grid())), mf_matrix_rank(mf_outer(F(1, 2), F(3, 4)))))
    ROW(5e-6, "(expm(spread), expm(-9 * spread), expm(stack([spread, spread * 0])))",
        mf_tuple(mf_expm(spread()), mf_expm(mf_mul(-9, spread())), mf_expm(mf_stack(mf_list(spread(), mf_mul(spread(), 0))))))
    ROW(1e-12, "expm(D(10, 2.5, 2.5, 5).reshape(2, 2))", mf_expm(mf_reshape(D(10, 2.5, 2.5, 5), MF_SHAPE(2, 2))))
    ROW(0, "(expm(grid[:0, :0]), expm(zeros((0, 2, 2))))",
        mf_tuple(mf_expm(mf_zeros(MF_SHAPE(0, 0), MF_F32)), mf_expm(mf_zeros(MF_SHAPE(0, 2, 2), MF_F32))))
    ROW(0, "(linalg.norm(grid, 1, axis=(1, 0)), linalg.norm(grid, -inf, axis=(1, 0)), linalg.norm(cube, inf, axis=(2, 0), keepdims=True))",
        mf_tuple(mf_norm(grid(), .ord = 1, .axis = mf_axes(1, 0)), mf_norm(grid(), .ord = -inf, .axis = mf_axes(1, 0)),
                 mf_norm(cube(), .ord = inf, .axis = mf_axes(2, 0), .keepdims = true)))
    ROW(0, "(linalg.norm(zeros(0), inf), linalg.norm(zeros((3, 0)), 1), linalg.norm(zeros((0, 3)), inf), linalg.norm(zeros((2, 0)), 2))",
        mf_tuple(mf_norm(mf_zeros(MF_SHAPE(0), MF_F32), .ord = inf), mf_norm(mf_zeros(MF_SHAPE(3, 0), MF_F32), .ord = 1),
                 mf_norm(mf_zeros(MF_SHAPE(0, 3), MF_F32), .ord = inf), mf_norm(mf_zeros(MF_SHAPE(2, 0), MF_F32), .ord = 2)))
    ROW(0, "linalg.lstsq(grid * 0, F(1, 2))", mf_lstsq(mf_mul(grid(), 0), F(1, 2)))
    ROW(1e-5, "grad(lambda x: sum(expm(x) * spread))(F(0, 3, -3, 0).reshape(2, 2))",
        mf_call(mf_grad(expm_sum), mf_reshape(F(0, 3, -3, 0), MF_SHAPE(2, 2))))
}

static void all_rows(void)
{
    signs_and_steps();
    joining();
    reductions();
    order_and_samples();
    special();
    special_gradients();
    random_draws();
    activations_and_matrices();
}

TEST(values_and_gradients_are_jax_s)
{
    MF_SCOPE;
    all_rows();
    expressions_compare("expressions.txt");
}

/* ---- inside transforms */
static mf_value share_below(mf_value x) { return mf_gammainc(mf_add(x, 1), x); }
static mf_value greatest_divisor(mf_value x) { return mf_gcd(x, 12); }
static mf_value events(mf_value k) { return mf_random_poisson(k, F(0.5, 20), MF_SHAPE(2), MF_I32); }

/* A loop that runs until every element is done gives each what it has alone. */
TEST(loops_are_mapped)
{
    MF_SCOPE;
    mf_value x = F(0.5, 3, 40), keys = mf_random_split(key(), 3), draws = mf_call(mf_vmap(events), keys);
    CHECK_STR(mf_str(mf_allclose(mf_call(mf_vmap(share_below), x), share_below(x))), "True");
    CHECK_STR(mf_str(mf_call(mf_jit(mf_vmap(greatest_divisor)), I(18, 5, 24))), "[ 6  1 12]");
    for (int i = 0; i < 3; i++)
        CHECK_STR(mf_str(mf_get(draws, i)), mf_str(events(mf_get(keys, i))));
}

TEST(what_does_not_fit_is_an_error)
{
    MF_SCOPE;
    mf_value x = F(1, 2), z = mf_c(0, 1), wide = mf_ones(MF_SHAPE(1, 1, 1, 1, 1), MF_F32), square = spread();
    struct {
        mf_value value;
        const char *expected;
    } refused[] = {
        { mf_interp(x, x, F(1, 2, 3)), "interp: xp and fp must be vectors of one size" },
        { mf_cross(x, x), "cross: the last dimensions must have size 3" },
        { mf_kron(wide, wide), "kron: arrays have at most 4 dimensions" },
        { mf_segment_sum(x, I(0, 1), -1), "segment_sum: the number of segments must not be negative" },
        { mf_segment_max(mf_f(1), I(0, 1), 1), "segment_max: a number has no rows" },
        { mf_average(square, x), "average: one axis is needed" },
        { mf_block_diag(mf_list(x, wide)), "block_diag: part 1 has 5 dimensions, not two" },
        { mf_hstack(mf_list(x, square)), "concatenate" },
        { mf_array_split(x, 0), "array_split: at least one section is needed, not 0" },
        { mf_rot90(x), "rot90: at least two dimensions are needed, not 1" },
        { mf_unravel_index(I(1), MF_SHAPE(2, 0)), "unravel_index: there are no indices for an array of shape (2, 0)" },
        { mf_ravel_multi_index(mf_tuple(I(1)), MF_SHAPE(2, 3)), "ravel_multi_index: 1 indices for 2 dimensions" },
        { mf_histogram(x, 0), "histogram: at least one bin is needed, and fewer than 2^63 - 1, not 0" },
        { mf_digitize(x, square), "digitize: the bins must have one dimension, not 2" },
        { mf_unique(x, -1), "unique: the size must not be negative, not -1" },
        { mf_nonzero(mf_f(1), 1), "nonzero: at least one dimension is needed" },
        { mf_gradient(F(1)), "gradient: at least two elements are needed along axis 0, not 1" },
        { mf_polyval(square, x), "polyval: the coefficients must have one dimension, not 2" },
        { mf_astype(x, MF_DTYPE_DEFAULT), "astype: 0 is no dtype" },
        { mf_astype(x, (mf_dtype)99), "astype: 99 is no dtype" },
        { mf_vander(square), "vander: a vector is needed, not 2 dimensions" },
        { mf_convolve(square, x), "convolve: two vectors are needed, not (2, 2) and (2,)" },
        { mf_cov(wide), "cov: at most two dimensions" },
        { mf_gcd(x, x), "gcd and lcm: are defined for integers, not for float32" },
        { mf_hypot(z, z), "hypot: is defined for floats, not for complex64" },
        { mf_floor_divide(mf_c(5, 1), 2), "rem: is defined for floats and integers, not for complex64" },
        { mf_remainder(7, mf_c(5, 1)), "rem: is defined for floats and integers, not for complex64" },
        { mf_heaviside(z, x), "heaviside: is defined for floats, not for complex64" },
        { mf_interp(mf_mul(x, z), x, x), "interp: x and xp must be real" },
        { mf_trunc(z), "trunc: is defined for floats, not for complex64" },
        { mf_erfc(z), "erfc: is defined for floats, not for complex64" },
        { mf_gammainc(z, 1), "gammainc: is defined for floats, not for complex64" },
        { mf_expm(grid()), "expm: a square matrix is needed, not the shape (2, 3)" },
        { mf_matrix_power(x, 2), "matrix_power: a square matrix is needed, not the shape (2,)" },
        { mf_matrix_rank(x), "matrix_rank: a matrix needs two dimensions, not 1" },
        { mf_glu(F(1, 2, 3)), "split: axis 0 of float32[3] does not divide into 2 equal parts" },
        { mf_polygamma(-1, x), "polygamma: the order must not be negative, not -1" },
        { mf_multigammaln(x, 0), "multigammaln: the dimension must be positive, not 0" },
        { mf_random_poisson(key(), x, MF_SHAPE(2), MF_F32), "poisson needs an integer dtype, not float32" },
        { mf_random_binomial(key(), x, x, MF_SHAPE(2), MF_I32), "binomial needs float32 or float64, not int32" },
        { mf_polyfit(square, x, 1), "polyfit: a vector and as many rows are needed, not (2, 2) and (2,)" },
        { mf_polyfit(x, x, -1), "polyfit: the degree must be at least 0" },
        { mf_i0(z), "i0: is defined for floats, not for complex64" },
        { mf_betainc(z, 1, 1), "betainc: is defined for floats, not for complex64" },
        { mf_random_gamma(key(), x, MF_SHAPE(2), MF_I32), "random gamma needs a float dtype, not int32" },
        { mf_random_dirichlet(key(), 1.0, MF_SHAPE(2), MF_F32), "dirichlet: alpha needs a dimension" },
        { mf_random_multivariate_normal(key(), x, F(1, 2), MF_SHAPE(2), MF_F32), "multivariate_normal: a mean of shape (..., n)" },
        { mf_vstack(mf_add(F(1, 2), F(1, 2, 3))), "add" },
        { mf_cov(mf_add(F(1, 2), F(1, 2, 3))), "add" },
        { mf_xlogy(mf_add(F(1, 2), F(1, 2, 3)), 1), "add" },
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        CHECK_CONTAINS(mf_error(refused[i].value), refused[i].expected);
}
