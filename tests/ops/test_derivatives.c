/* Values and derivatives of functions of one number against JAX's where their pieces meet: first, second and third. The rows are what
 *     f = lambda x: <the expression>; g = jax.grad; [h(jnp.float32(x)) for h in (f, g(f), g(g(f)), g(g(g(f))))]
 * gives in jax 0.10.2 on the CPU, with optax 0.2. */
#include <manyfold.h>

#include "check.h"

static mf_value logaddexp_2(mf_value x) { return mf_logaddexp(x, 2.0); }
static mf_value logaddexp_nothing(mf_value x) { return mf_logaddexp(x, -(double)INFINITY); }
static mf_value logaddexp_square(mf_value x) { return mf_logaddexp(x, mf_mul(x, x)); }
static mf_value cumlogsumexp_last(mf_value x) { return mf_get(mf_cumlogsumexp(mf_mul(x, mf_array(MF_F32, MF_SHAPE(3), 1, 2, 1)), 0), 2); }
static mf_value log_cosh_2(mf_value x) { return mf_log_cosh(x, mf_f(2)); }
static mf_value leaky_relu(mf_value x) { return mf_leaky_relu(x); }
static mf_value elu(mf_value x) { return mf_elu(x); }
static mf_value celu(mf_value x) { return mf_celu(x); }
static mf_value celu_2(mf_value x) { return mf_celu(x, 2.0); }
static mf_value maximum_0(mf_value x) { return mf_maximum(x, 0.0); }
static mf_value clip_0_2(mf_value x) { return mf_clip(x, 0.0, 2.0); }
static mf_value huber_0(mf_value x) { return mf_huber_loss(x, mf_f(0)); }
static mf_value hinge_1(mf_value x) { return mf_hinge_loss(x, mf_f(1)); }

static mf_value hypot_4(mf_value x) { return mf_hypot(x, 4.0); }
static mf_value hypot_twice(mf_value x) { return mf_hypot(x, x); }
static mf_value fmod_3(mf_value x) { return mf_fmod(x, 3.0); }
static mf_value nansum(mf_value x) { return mf_nansum(mf_mul(x, mf_array(MF_F32, MF_SHAPE(3), 1, (double)NAN, 2))); }
static mf_value interp(mf_value x)
{
    return mf_interp(x, mf_array(MF_F32, MF_SHAPE(3), 1, 2, 4), mf_array(MF_F32, MF_SHAPE(3), 10, 20, 0));
}

typedef struct derivative_row {
    const char *jax;
    mf_value (*f)(mf_value x);
    double x, expected[4];
} derivative_row;

/* clang-format off */
static const derivative_row rows[] = {
    { "jnp.logaddexp(x, 2.)", logaddexp_2, 2, { 2.69314718, 0.5, 0.25, 0 } },
    { "jnp.logaddexp(x, 2.)", logaddexp_2, 1, { 2.31326175, 0.268941402, 0.196611926, 0.0908577517 } },
    { "jnp.logaddexp(x, 2.)", logaddexp_2, INFINITY, { INFINITY, 1, 0, 0 } },
    { "jnp.logaddexp(x, 2.)", logaddexp_2, -INFINITY, { 2, 0, 0, 0 } },
    { "jnp.logaddexp(x, -jnp.inf)", logaddexp_nothing, 1, { 1, 1, 0, 0 } },
    { "jnp.logaddexp(x, -jnp.inf)", logaddexp_nothing, INFINITY, { INFINITY, 1, 0, 0 } },
    { "jnp.logaddexp(x, -jnp.inf)", logaddexp_nothing, -INFINITY, { -INFINITY, NAN, NAN, NAN } },
    { "jnp.logaddexp(x, x * x)", logaddexp_square, 1, { 1.69314718, 1.5, 1.25, 1.5 } },
    { "jnp.logaddexp(x, x * x)", logaddexp_square, 0, { 0.693147182, 0.5, 1.25, -1.5 } },
    { "jnp.logaddexp(x, x * x)", logaddexp_square, 3, { 9.00247574, 5.98763657, 2.0567224, -0.232803792 } },
    { "lax.cumlogsumexp(x * jnp.array([1., 2., 1.]))[2]", cumlogsumexp_last, 0, { 1.09861231, 1.33333325, 0.222222328, 0.0740740299 } },
    { "lax.cumlogsumexp(x * jnp.array([1., 2., 1.]))[2]", cumlogsumexp_last, 1, { 2.55144477, 1.5761168, 0.244206458, -0.0371766686 } },
    { "optax.log_cosh(x, 2.)", log_cosh_2, 2, { 0, 0, 1, 0 } },
    { "optax.log_cosh(x, 2.)", log_cosh_2, 1, { 0.433780789, -0.761594176, 0.419974387, 0.639700055 } },
    { "optax.log_cosh(x, 2.)", log_cosh_2, 5, { 2.30932856, 0.995054662, 0.00986613706, -0.0196345486 } },
    { "jax.nn.softplus(x)", mf_softplus, 0, { 0.693147182, 0.5, 0.25, 0 } },
    { "jax.nn.softplus(x)", mf_softplus, -0.0, { 0.693147182, 0.5, 0.25, 0 } },
    { "jax.nn.softplus(x)", mf_softplus, 1, { 1.31326175, 0.731058538, 0.196611956, -0.0908577442 } },
    { "jax.nn.softplus(x)", mf_softplus, -30, { 9.35762291e-14, 9.35762291e-14, 9.35762291e-14, 9.35762291e-14 } },
    { "jax.nn.softplus(x)", mf_softplus, 30, { 30, 1, 0, 0 } },
    { "jax.nn.log_sigmoid(x)", mf_log_sigmoid, 0, { -0.693147182, 0.5, -0.25, -0.0 } },
    { "jax.nn.log_sigmoid(x)", mf_log_sigmoid, 1, { -0.313261688, 0.268941402, -0.196611926, 0.0908577517 } },
    { "jax.nn.log_sigmoid(x)", mf_log_sigmoid, -1, { -1.31326175, 0.731058538, -0.196611956, -0.0908577442 } },
    { "jax.nn.relu(x)", mf_relu, 0, { 0, 0, 0, 0 } },
    { "jax.nn.relu(x)", mf_relu, -0.0, { 0, 0, 0, 0 } },
    { "jax.nn.relu(x)", mf_relu, 1, { 1, 1, 0, 0 } },
    { "jax.nn.relu(x)", mf_relu, NAN, { NAN, 0, 0, 0 } },
    { "jax.nn.leaky_relu(x)", leaky_relu, 0, { 0, 1, 0, 0 } },
    { "jax.nn.leaky_relu(x)", leaky_relu, -0.0, { -0.0, 1, 0, 0 } },
    { "jax.nn.leaky_relu(x)", leaky_relu, -1, { -0.00999999978, 0.00999999978, 0, 0 } },
    { "jax.nn.leaky_relu(x)", leaky_relu, NAN, { NAN, 0.00999999978, 0, 0 } },
    { "jax.nn.elu(x)", elu, 0, { 0, 1, 1, 1 } },
    { "jax.nn.elu(x)", elu, -0.0, { -0.0, 1, 1, 1 } },
    { "jax.nn.elu(x)", elu, -1, { -0.63212055, 0.36787945, 0.36787945, 0.36787945 } },
    { "jax.nn.elu(x)", elu, 1, { 1, 1, 0, 0 } },
    { "jax.nn.relu6(x)", mf_relu6, 0, { 0, 0, 0, 0 } },
    { "jax.nn.relu6(x)", mf_relu6, 6, { 6, 0, 0, 0 } },
    { "jax.nn.relu6(x)", mf_relu6, 1, { 1, 1, 0, 0 } },
    { "jax.nn.relu6(x)", mf_relu6, -1, { 0, 0, 0, 0 } },
    { "jax.nn.relu6(x)", mf_relu6, 7, { 6, 0, 0, 0 } },
    { "jax.nn.relu6(x)", mf_relu6, NAN, { NAN, 0, 0, 0 } },
    { "jax.nn.hard_tanh(x)", mf_hard_tanh, 1, { 1, 1, 0, 0 } },
    { "jax.nn.hard_tanh(x)", mf_hard_tanh, -1, { -1, 1, 0, 0 } },
    { "jax.nn.hard_tanh(x)", mf_hard_tanh, 0.5, { 0.5, 1, 0, 0 } },
    { "jax.nn.hard_tanh(x)", mf_hard_tanh, 2, { 1, 0, 0, 0 } },
    { "jax.nn.hard_tanh(x)", mf_hard_tanh, NAN, { NAN, 1, 0, 0 } },
    { "jax.nn.hard_sigmoid(x)", mf_hard_sigmoid, 3, { 1, 0, 0, 0 } },
    { "jax.nn.hard_sigmoid(x)", mf_hard_sigmoid, -3, { 0, 0, 0, 0 } },
    { "jax.nn.hard_sigmoid(x)", mf_hard_sigmoid, 1, { 0.666666687, 0.166666672, 0, 0 } },
    { "jax.nn.hard_sigmoid(x)", mf_hard_sigmoid, 4, { 1, 0, 0, 0 } },
    { "jax.nn.hard_sigmoid(x)", mf_hard_sigmoid, NAN, { NAN, 0, 0, 0 } },
    { "jax.nn.hard_swish(x)", mf_hard_swish, 3, { 3, 1, 0, 0 } },
    { "jax.nn.hard_swish(x)", mf_hard_swish, -3, { -0.0, 0, 0, 0 } },
    { "jax.nn.hard_swish(x)", mf_hard_swish, 1, { 0.666666687, 0.833333373, 0.333333343, 0 } },
    { "jax.nn.hard_swish(x)", mf_hard_swish, -4, { -0.0, 0, 0, 0 } },
    { "jax.nn.hard_swish(x)", mf_hard_swish, 4, { 4, 1, 0, 0 } },
    { "jax.nn.hard_swish(x)", mf_hard_swish, NAN, { NAN, NAN, 0, 0 } },
    { "jax.nn.celu(x)", celu, 0, { 0, 1, 0.25, 0.125 } },
    { "jax.nn.celu(x)", celu, -0.0, { 0, 1, 0.25, 0.125 } },
    { "jax.nn.celu(x)", celu, -1, { -0.63212055, 0.36787945, 0.36787945, 0.36787945 } },
    { "jax.nn.celu(x)", celu, 1, { 1, 1, 0, 0 } },
    { "jax.nn.celu(x, 2.)", celu_2, 0, { 0, 1, 0.125, 0.03125 } },
    { "jax.nn.celu(x, 2.)", celu_2, -1, { -0.786938667, 0.606530666, 0.303265333, 0.151632667 } },
    { "jax.nn.celu(x, 2.)", celu_2, 1, { 1, 1, 0, 0 } },
    { "jax.nn.selu(x)", mf_selu, 0, { 0, 1.75809932, 1.75809932, 1.75809932 } },
    { "jax.nn.selu(x)", mf_selu, -0.0, { -0.0, 1.75809932, 1.75809932, 1.75809932 } },
    { "jax.nn.selu(x)", mf_selu, -1, { -1.11133075, 0.64676863, 0.64676863, 0.64676863 } },
    { "jax.nn.selu(x)", mf_selu, 1, { 1.05070102, 1.05070102, 0, 0 } },
    { "jnp.abs(x)", mf_abs, 0, { 0, 1, 0, 0 } },
    { "jnp.abs(x)", mf_abs, -0.0, { 0, 1, 0, 0 } },
    { "jnp.maximum(x, 0.)", maximum_0, 0, { 0, 0.5, 0, 0 } },
    { "jnp.maximum(x, 0.)", maximum_0, -0.0, { 0, 0.5, 0, 0 } },
    { "jnp.maximum(x, 0.)", maximum_0, 1, { 1, 1, 0, 0 } },
    { "jnp.clip(x, 0., 2.)", clip_0_2, 0, { 0, 0.5, 0, 0 } },
    { "jnp.clip(x, 0., 2.)", clip_0_2, 2, { 2, 0.5, 0, 0 } },
    { "jnp.clip(x, 0., 2.)", clip_0_2, 1, { 1, 1, 0, 0 } },
    { "optax.huber_loss(x, 0.)", huber_0, 0, { 0, 0, 1, 0 } },
    { "optax.huber_loss(x, 0.)", huber_0, 1, { 0.5, 1, 0.25, 0 } },
    { "optax.huber_loss(x, 0.)", huber_0, -1, { 0.5, -1, 0.25, 0 } },
    { "optax.huber_loss(x, 0.)", huber_0, 2, { 1.5, 1, 0, 0 } },
    { "optax.hinge_loss(x, 1.)", hinge_1, 1, { 0, -0.5, 0, 0 } },
    { "optax.hinge_loss(x, 1.)", hinge_1, 0, { 1, -1, 0, 0 } },
    { "optax.hinge_loss(x, 1.)", hinge_1, 2, { 0, -0.0, 0, 0 } },
    { "jnp.arcsinh(x)", mf_asinh, 0, { 0, 1, -0.0, -1 } },
    { "jnp.arcsinh(x)", mf_asinh, 0.001, { 0.000999999931, 0.999999583, -0.000999998651, -0.999995649 } },
    { "jnp.arcsinh(x)", mf_asinh, -2, { -1.44363546, 0.44721359, 0.17888543, 0.125219807 } },
    { "jnp.arcsinh(x)", mf_asinh, 1000000, { 14.5086575, 9.99999997e-07, -9.99999996e-13, 2.0000003e-18 } },
    { "jnp.arcsinh(x)", mf_asinh, 1e-20, { 9.99999968e-21, 1, -9.99999968e-21, -1 } },
    { "jnp.arccosh(x)", mf_acosh, 1.5, { 0.962423623, 0.89442718, -1.07331252, 3.14838362 } },
    { "jnp.arccosh(x)", mf_acosh, 2, { 1.31695795, 0.577350259, -0.384900182, 0.577350259 } },
    { "jnp.arccosh(x)", mf_acosh, 20000, { 10.5966349, 4.99999987e-05, -2.49999998e-09, 2.49999972e-13 } },
    { "jnp.arccosh(x)", mf_acosh, 0.5, { NAN, NAN, NAN, NAN } },
    { "jnp.arctanh(x)", mf_atanh, 0, { 0, 1, 0, 2 } },
    { "jnp.arctanh(x)", mf_atanh, 0.5, { 0.549306154, 1.33333337, 1.77777791, 8.29629707 } },
    { "jnp.arctanh(x)", mf_atanh, -0.999, { -3.80020761, 500.256561, -500012.688, 1.00003853e+09 } },
    { "jnp.arctanh(x)", mf_atanh, 1e-10, { 1.00000001e-10, 1, 0, 2 } },
    { "jnp.arctanh(x)", mf_atanh, 2, { NAN, -0.333333343, 0.444444448, -0.962962985 } },
    { "jnp.log2(x)", mf_log2, 3, { 1.58496249, 0.48089835, -0.16029945, 0.1068663 } },
    { "jnp.log2(x)", mf_log2, 8, { 3, 0.180336878, -0.0225421097, 0.00563552743 } },
    { "jnp.log2(x)", mf_log2, 0, { -INFINITY, INFINITY, -INFINITY, INFINITY } },
    { "jnp.log10(x)", mf_log10, 2, { 0.30103001, 0.217147246, -0.108573623, 0.108573623 } },
    { "jnp.log10(x)", mf_log10, 1000, { 3, 0.000434294489, -4.34294492e-07, 8.68588979e-10 } },
    { "jnp.trunc(x)", mf_trunc, 1.5, { 1, 0, 0, 0 } },
    { "jnp.trunc(x)", mf_trunc, -1.5, { -1, 0, 0, 0 } },
    { "jnp.trunc(x)", mf_trunc, -0.25, { -0.0, 0, 0, 0 } },
    { "jnp.trunc(x)", mf_trunc, NAN, { NAN, 0, 0, 0 } },
    { "jnp.hypot(x, 4.)", hypot_4, 3, { 5, 0.600000024, 0.128000006, -0.0460800007 } },
    { "jnp.hypot(x, 4.)", hypot_4, 0, { 4, 0, 0.25, 0 } },
    { "jnp.hypot(x, 4.)", hypot_4, -3, { 5, -0.600000024, 0.128000006, 0.0460800007 } },
    { "jnp.hypot(x, x)", hypot_twice, 2, { 2.82842708, 1.41421354, 0, 2.98023224e-08 } },
    { "jnp.hypot(x, x)", hypot_twice, -1, { 1.41421354, -1.41421354, 0, -1.1920929e-07 } },
    { "jnp.fmod(x, 3.)", fmod_3, -5, { -2, 1, 0, 0 } },
    { "jnp.fmod(x, 3.)", fmod_3, 5, { 2, 1, 0, 0 } },
    { "jnp.fmod(x, 3.)", fmod_3, 0.5, { 0.5, 1, 0, 0 } },
    { "jnp.nansum(x * jnp.array([1., jnp.nan, 2.]))", nansum, 2, { 6, NAN, 0, 0 } },
    { "jnp.interp(x, jnp.array([1., 2., 4.]), jnp.array([10., 20., 0.]))", interp, 0.5, { 10, 0, 0, 0 } },
    { "jnp.interp(x, jnp.array([1., 2., 4.]), jnp.array([10., 20., 0.]))", interp, 1, { 10, 10, 0, 0 } },
    { "jnp.interp(x, jnp.array([1., 2., 4.]), jnp.array([10., 20., 0.]))", interp, 1.5, { 15, 10, 0, 0 } },
    { "jnp.interp(x, jnp.array([1., 2., 4.]), jnp.array([10., 20., 0.]))", interp, 2, { 20, -10, 0, 0 } },
    { "jnp.interp(x, jnp.array([1., 2., 4.]), jnp.array([10., 20., 0.]))", interp, 3.5, { 5, -10, 0, 0 } },
    { "jnp.interp(x, jnp.array([1., 2., 4.]), jnp.array([10., 20., 0.]))", interp, 4, { 0, -10, 0, 0 } },
    { "jnp.interp(x, jnp.array([1., 2., 4.]), jnp.array([10., 20., 0.]))", interp, 9, { 0, -0.0, 0, 0 } },
};
/* clang-format on */

TEST(derivatives_are_jax_s_where_pieces_meet)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        MF_SCOPE;
        const derivative_row *r = &rows[i];
        mf_function f = mf_fn(r->f);
        mf_value x = mf_scalar(r->x, MF_F32);
        for (int order = 0; order < 4; order++, f = mf_grad(f))
            if (!CHECK_NEAR(mf_item_f64(mf_call(f, x)), r->expected[order], 4e-6))
                CHECK_NOTE("derivative %d of %s at %g", order, r->jax, r->x);
    }
}

/* jax.hessian(jnp.logaddexp, (0, 1))(2., 2.), computed in both ways. */
static mf_value by_both(mf_value x) { return mf_logaddexp(mf_get(x, 0), mf_get(x, 1)); }

TEST(the_hessian_of_logaddexp_of_equals_is_symmetric)
{
    MF_SCOPE;
    mf_value x = mf_array(MF_F32, MF_SHAPE(2), 2, 2);
    CHECK_STR(mf_str(mf_round(mf_mul(1000, mf_call(mf_hessian(by_both), x)))), "[[ 250. -250.]\n [-250.  250.]]");
    CHECK_STR(mf_str(mf_round(mf_mul(1000, mf_call(mf_jacrev(mf_grad(by_both)), x)))), "[[ 250. -250.]\n [-250.  250.]]");
    CHECK_STR(mf_str(mf_round(mf_mul(1000, mf_call(mf_jacfwd(mf_jacfwd(by_both)), x)))), "[[ 250. -250.]\n [-250.  250.]]");
}
