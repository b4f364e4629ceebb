/* Counterparts of the peer's tests of derivatives through maps and their collectives, of custom rules and of remat. */
#include "peer.h"

/* ---- first and second derivatives against differences. F maps an array to an array. */

typedef struct checked {
    mf_function f;
    mf_value weights; /* of the results, in a scalar loss */
} checked;
static mf_value loss_of(void *context, mf_value x)
{
    const checked *c = context;
    return mf_sum(mf_mul(c->weights, mf_call_n(c->f, &x, 1)));
}

static mf_value weights_like(mf_value y) { return mf_add(0.5, mf_cos(mf_mul(2.3, filled_in_order(MF_F32, mf_shape_of(y))))); }

/* (f(x + e v) - f(x - e v)) / 2e against jvp, then against vjp: <w, jvp v> = <vjp w, v>. */
static void check_once(mf_function f, mf_value x, double e, double near)
{
    mf_value v = mf_sin(mf_add(1, mf_mul(1.3, filled_in_order(MF_F32, mf_shape_of(x)))));
    mf_value ahead = mf_add(x, mf_mul(e, v)), behind = mf_sub(x, mf_mul(e, v)), pair = mf_jvp(f, mf_tuple(x), mf_tuple(v));
    mf_value difference = mf_div(mf_sub(mf_call_n(f, &ahead, 1), mf_call_n(f, &behind, 1)), 2 * e);
    EXPECT_CLOSE(mf_get(pair, 1), difference, near);
    mf_function pullback;
    mf_value w = weights_like(mf_vjp(f, mf_tuple(x), &pullback)), back = mf_get(mf_call(pullback, w), 0);
    EXPECT_CLOSE(mf_sum(mf_mul(back, v)), mf_sum(mf_mul(w, mf_get(pair, 1))), near);
}

/* And the same for the gradient of a scalar made of it. */
static void check_twice(mf_function f, mf_value x, double e, double near)
{
    check_once(f, x, e, near);
    checked c = { f, weights_like(mf_call_n(f, &x, 1)) };
    check_once(mf_grad(mf_closure(loss_of, &c)), x, e, near);
}

/* ---- plain */

FN(wave, mf_sin(v))
FN(mapped_wave, mf_call(mf_pmap(wave, "i"), v))
FN(wave_loss, mf_sum(mapped_wave(v)))
FN(slope, mf_get(mf_jvp(mapped_wave, mf_tuple(v), mf_tuple(mf_ones_like(v))), 1))
FN(slope_loss, mf_sum(slope(v)))
static mf_value slope_by_vjp(mf_value v)
{
    mf_function pullback;
    mf_vjp(mapped_wave, mf_tuple(v), &pullback);
    return mf_get(mf_call(pullback, mf_ones_like(v)), 0);
}

TEST(linear_map_at_a_point)
{
    mf_value x = FLOATS(8, 4);
    EXPECT_CLOSE(slope(x), mf_cos(x), 1e-5);
    EXPECT_CLOSE(slope_by_vjp(x), mf_cos(x), 1e-5); /* what partial evaluation leaves, applied to ones */
    CHECK_CONTAINS(mf_program_text(slope, x), "cos");
}

TEST(gradient)
{
    mf_value x = FLOATS(8, 4);
    EXPECT_CLOSE(mf_call(mf_grad(wave_loss), x), mf_cos(x), 1e-5);
}

FN(device_wave, mf_call(mf_pmap(wave, "i", .devices = mf_devices()), v))
FN(device_wave_loss, mf_sum(device_wave(v)))

TEST(gradient_on_named_devices) { EXPECT_CLOSE(mf_call(mf_grad(device_wave_loss), FLOATS(8, 4)), mf_cos(FLOATS(8, 4)), 1e-5); }

TEST(gradient_of_jvp) { EXPECT_CLOSE(mf_call(mf_grad(slope_loss), FLOATS(8, 4)), mf_neg(mf_sin(FLOATS(8, 4))), 1e-5); }

FN(sum, mf_psum(v, "i"))

TEST(gradient_of_psum) { check_twice(mf_pmap(sum, "i"), FLOATS(8, 4), 1, 1e-4); }

FN2(sum_of_product, x, y, mf_psum(mf_mul(mf_mul(5, mf_cos(x)), mf_sin(y)), "i"))
FN2(two_arguments_loss, x, y, mf_sum(mf_call(mf_pmap(sum_of_product, "i"), x, y)))

TEST(gradient_in_two_arguments)
{
    mf_value x = mf_mul(0.25, FLOATS(8, 4)), y = mf_add(4, x);
    mf_value expected = mf_tuple(mf_mul(-40, mf_mul(mf_sin(x), mf_sin(y))),
                                 mf_mul(40, mf_mul(mf_cos(x), mf_cos(y)))); /* every replica gives the sum */
    EXPECT_CLOSE(mf_call(mf_grad(two_arguments_loss, .argnums = MF_INTS(0, 1)), x, y), expected, 1e-4);
}

/* ---- collectives */

#define PAIRS mf_list(mf_tuple(0, 1), mf_tuple(2, 3), mf_tuple(4, 5), mf_tuple(6, 7))
FN(gather, mf_all_gather(v, 0, "i"))
FN(gather_tiled, mf_all_gather(v, 0, "i", .tiled = true))
FN(gather_in_pairs, mf_all_gather(v, 0, "i", .axis_index_groups = PAIRS))
FN(scatter, mf_psum_scatter(v, 0, "i"))
FN(scatter_tiled, mf_psum_scatter(v, 0, "i", .tiled = true))
FN(scatter_in_pairs, mf_psum_scatter(v, 0, "i", .axis_index_groups = PAIRS))

TEST(gradients_of_gather_and_scatter)
{
    check_twice(mf_pmap(gather, "i"), FLOATS(8, 8), 1, 1e-3);
    check_twice(mf_pmap(gather_tiled, "i"), FLOATS(8, 8), 1, 1e-3);
    check_twice(mf_pmap(gather_in_pairs, "i"), FLOATS(8, 2), 1, 1e-3);
    check_twice(mf_pmap(scatter, "i"), FLOATS(8, 8), 1, 1e-3);
    check_twice(mf_pmap(scatter_tiled, "i"), FLOATS(8, 8), 1, 1e-3);
    check_twice(mf_pmap(scatter_in_pairs, "i"), FLOATS(8, 2), 1, 1e-3);
}

OVER(weighted_swap, x, mf_sum(mf_mul(mf_pswapaxes(x, 1, "i"), w)))
FN2(grad_of_swap, x, w, mf_call(mf_grad(mf_closure(weighted_swap, &w)), x))

TEST(gradient_of_pswapaxes)
{
    mf_value w = FLOATS(8), r = mf_call(mf_pmap(grad_of_swap, "i"), FLOATS(8, 1, 8), w); /* each element's weight is its target's */
    EXPECT_SAME(r, mf_reshape(mf_broadcast_to(w, MF_SHAPE(8, 8)), MF_SHAPE(8, 1, 8)));
}

#define FOURS mf_list(mf_list(0, 1, 2, 3), mf_list(4, 5, 6, 7))
OVER(weighted_exchange, x, mf_sum(mf_mul(mf_all_to_all(x, 0, 1, "i", .axis_index_groups = FOURS), w)))
FN2(grad_of_exchange, x, w, mf_call(mf_grad(mf_closure(weighted_exchange, &w)), x))

TEST(gradient_of_all_to_all_in_groups)
{
    mf_value r = mf_call(mf_pmap(grad_of_exchange, "i"), FLOATS(8, 4, 1), FLOATS(8));
    double expected[32]; /* piece k goes to member k of the group, whose weight is its number */
    for (int i = 0; i < 32; i++)
        expected[i] = i / 16 * 4 + i % 4;
    EXPECT_SAME(r, mf_array_n(MF_F32, MF_SHAPE(8, 4, 1), expected, 32));
}

/* A gradient within a gradient, whose cotangents through psum are zero for one of two parameters. */
FN2(meta_loss, params, meta, mf_mul(mf_mul(meta, mf_get(params, 1)), mf_get(params, 0)))
static mf_value meta_inner(void *params, mf_value meta)
{
    mf_value p = *(mf_value *)params, grads = mf_psum(mf_call(mf_grad(meta_loss), p, meta), "i");
    return mf_mul(mf_get(p, 1), mf_add(mf_get(p, 0), mf_get(grads, 0)));
}
FN(meta_gradient, mf_call(mf_grad(mf_closure(meta_inner, &v)), 4.0))
FN(meta_by_parts, mf_call(mf_pmap(meta_gradient, "i"), mf_tuple(mf_get(v, mf_range(0, 1)), mf_get(v, mf_range(1, 2)))))

TEST(zero_cotangents_through_psum)
{
    /* mpo (net + psum(meta mpo)) has the derivative psum(mpo) mpo in meta */
    EXPECT(mf_call(mf_pmap(meta_gradient, "i"), mf_tuple(F32(2), F32(3))), 9);
    EXPECT(mf_call(mf_pmap(meta_gradient, "i"), mf_tuple(F32(2, 5), F32(3, 4))), 21, 28);
    check_twice(mf_fn(meta_by_parts), F32(2, 3), 1e-2, 1e-3);
}

/* ---- in and out axes */

FN3(sine_of_three, x, y, z, mf_sin(mf_add(mf_add(x, y), z)))
FN3(mapped_loss, x, y, z, mf_sum(mf_call(mf_pmap(sine_of_three, .in_axes = mf_axes(1, 2, MF_NONE)), x, y, z)))
FN3(batched_loss, x, y, z, mf_sum(mf_call(mf_vmap(sine_of_three, .in_axes = mf_axes(1, 2, MF_NONE)), x, y, z)))

TEST(gradient_through_in_axes)
{
    mf_value x = FLOATS(5, 8, 7), y = FLOATS(5, 7, 8), z = FLOATS(5, 7);
    mf_value r = mf_call(mf_grad(mapped_loss, .argnums = MF_INTS(0, 1, 2)), x, y, z);
    EXPECT_CLOSE(r, mf_call(mf_grad(batched_loss, .argnums = MF_INTS(0, 1, 2)), x, y, z), 1e-5);
    CHECK_STR(mf_str(mf_shape_of(mf_get(r, 1))), "(5, 7, 8)");
    CHECK_STR(mf_str(mf_shape_of(mf_get(r, 2))), "(5, 7)");
}

/* sin(x + y) z for every choice of axes: the derivatives of a map and of the same batch agree to second order. */
typedef struct every_axis {
    mf_axis in, out;
    bool by_pmap;
    mf_shape shapes[3];
} every_axis;
FN3(sine_times, x, y, z, mf_mul(mf_sin(mf_add(x, y)), z))
static mf_value every_axis_loss(void *context, mf_value flat)
{
    const every_axis *c = context;
    mf_value parts[3];
    int64_t at = 0;
    for (int k = 0; k < 3; k++) {
        int64_t n = 1;
        for (int i = 0; i < c->shapes[k].rank; i++)
            n *= c->shapes[k].dims[i];
        parts[k] = mf_reshape(mf_get(flat, mf_range(at, at + n)), c->shapes[k]);
        at += n;
    }
    mf_function f = c->by_pmap ? mf_pmap(sine_times, .in_axes = c->in, .out_axes = c->out)
                               : mf_vmap(sine_times, .in_axes = c->in, .out_axes = c->out);
    mf_value y = mf_call_n(f, parts, 3);
    return mf_sum(mf_mul(y, weights_like(y)));
}
static mf_value grad_and_directional(every_axis *c, mf_value flat)
{
    mf_function gradient = mf_grad(mf_closure(every_axis_loss, c));
    return mf_jvp(gradient, mf_tuple(flat), mf_tuple(mf_cos(flat)));
}

TEST(second_derivatives_for_every_choice_of_axes)
{
    static const int64_t shapes[3][2] = { { 3, 4 }, { 3, 1 }, { 1, 4 } };
    for (int k = 0; k < 63; k++) { /* -1: not mapped */
        MF_SCOPE;
        int axes[3] = { k % 4 - 1, k / 4 % 4 - 1, k / 16 % 4 - 1 };
        if (axes[0] < 0 && axes[1] < 0 && axes[2] < 0)
            continue;
        every_axis c = { .out = k % 3 };
        mf_axis in[3];
        int64_t total = 0;
        for (int a = 0; a < 3; a++) {
            int64_t n = 1;
            in[a] = axes[a] < 0 ? MF_NONE : axes[a];
            for (int d = 0, from = 0; d < 2 + (axes[a] >= 0); d++)
                n *= c.shapes[a].dims[c.shapes[a].rank++] = d == axes[a] ? 8 : shapes[a][from++];
            total += n;
        }
        c.in = mf_axes_n(in, 3);
        mf_value flat = mf_sin(FLOATS(total)), expected = grad_and_directional(&c, flat);
        c.by_pmap = true;
        if (!EXPECT_CLOSE(grad_and_directional(&c, flat), expected, 1e-4))
            CHECK_NOTE("in_axes %d %d %d, out_axes %lld", axes[0], axes[1], axes[2], (long long)c.out);
    }
}

OVER(sine_with_outer, y, mf_sin(mf_add(w, y)))
FN2(captured_by_pmap, x, y, mf_sum(mf_call(mf_pmap(mf_closure(sine_with_outer, &x), .in_axes = 1, .out_axes = 2), y)))
FN2(captured_by_vmap, x, y, mf_sum(mf_call(mf_vmap(mf_closure(sine_with_outer, &x), .in_axes = 1, .out_axes = 2), y)))

TEST(gradient_of_a_captured_value)
{
    mf_value x = FLOATS(5, 7), y = FLOATS(5, 8, 7);
    EXPECT_CLOSE(mf_call(mf_grad(captured_by_pmap), x, y), mf_call(mf_grad(captured_by_vmap), x, y), 1e-5);
}

FN(first_of_one, mf_get(mf_call(mf_pmap(wave), mf_reshape(v, MF_SHAPE(1))), 0))

TEST(a_map_of_one_within_a_gradient) { EXPECT_CLOSE(mf_call(mf_grad(first_of_one), 3.0), mf_cos(3.0), 1e-6); }

TEST(a_second_vjp_compiles_nothing)
{
    for (int size = 1; size <= 2; size++) {
        mf_value x = mf_ones(MF_SHAPE(size), MF_F32);
        mf_function f = mf_pmap(wave), pullback;
        mf_vjp(f, mf_tuple(x), &pullback);
        mf_call(pullback, x);
        mf_cache_counters before = mf_cache_read();
        mf_vjp(f, mf_tuple(x), &pullback);
        EXPECT_CLOSE(mf_get(mf_call(pullback, x), 0), mf_cos(x), 1e-6);
        CHECK_EQ_INT(mf_cache_read().compilations, before.compilations);
        CHECK_EQ_INT(mf_cache_read().traces, before.traces);
    }
}

/* ---- custom rules */

FN(exponential, mf_exp(v))
FN2(four_times, p, t, mf_tuple(mf_exp(mf_get(p, 0)), mf_mul(mf_get(t, 0), 4)))
FN2(own_jvp, x, t, mf_jvp(mf_custom_jvp(exponential, four_times), mf_tuple(x), mf_tuple(t)))

TEST(custom_jvp)
{
    mf_value x = mf_mul(0.2, FLOATS(8, 5)), r = mf_call(mf_pmap(own_jvp), x, x);
    EXPECT_SAME(r, mf_call(mf_vmap(own_jvp), x, x));
    EXPECT_CLOSE(r, mf_tuple(mf_exp(x), mf_mul(4, x)), 1e-5);
}

FN(keep, mf_tuple(mf_exp(v), v))
FN2(five_times, saved, ct, ((void)saved, mf_tuple(mf_mul(ct, 5))))
FN(own_vjp, mf_call(mf_custom_vjp(exponential, keep, five_times), v))

TEST(custom_vjp)
{
    mf_value r = mf_call(mf_pmap(mf_grad(own_vjp)), FLOATS(8));
    EXPECT_SAME(r, mf_call(mf_vmap(mf_grad(own_vjp)), FLOATS(8)));
    EXPECT(r, 5, 5, 5, 5, 5, 5, 5, 5);
}

/* ---- remat */

FN(wave_of_wave, mf_sin(mf_sin(v)))
FN(double_wave_loss, mf_sum(mf_call(mf_remat(mf_pmap(wave_of_wave)), v)))

TEST(remat_of_pmap)
{
    check_twice(mf_remat(mf_pmap(wave_of_wave)), F32(0), 1e-2, 1e-3);
    check_twice(mf_remat(mf_pmap(wave_of_wave)), mf_mul(0.3, FLOATS(8)), 1e-2, 1e-3);
    const char *text = mf_program_text(mf_grad(double_wave_loss), FLOATS(1)); /* what lies between is computed again, so both are there */
    CHECK_CONTAINS(text, "sin");
    CHECK_CONTAINS(text, "cos");
    CHECK_CONTAINS(text, "remat");
}

static mf_value toss(mf_value key) { return mf_random_bernoulli(mf_random_fold_in(key, mf_axis_index("i")), 0.5, MF_SHAPE0); }

TEST(axis_index_in_remat)
{
    mf_value keys = mf_random_split(mf_random_key(0), 8);
    EXPECT_SAME(mf_call(mf_pmap(mf_remat(toss), "i"), keys), mf_call(mf_pmap(toss, "i"), keys));
}
