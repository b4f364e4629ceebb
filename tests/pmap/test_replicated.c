/* Values that must be the same on all devices: declared, checked, and a training step that forgets to average its gradients. */
#include "peer.h"

/* ---- inside maps */

FN(checked, mf_check_replicated(v, "i"))
FN(checked_sum, mf_check_replicated(mf_psum(v, "i"), "i"))
FN(checked_and_used, mf_mul(mf_check_replicated(v, "i"), 2))
static mf_value checked_and_forgotten(mf_value v)
{
    (void)mf_check_replicated(v, "i");
    return v;
}

static mf_value checked_outside(void *unused, mf_value v)
{
    (void)unused;
    return mf_check_replicated(v, NULL);
}

TEST(what_is_the_same_passes)
{
    EXPECT(mf_call(mf_pmap(checked_sum, "i"), FLOATS(8)), 28, 28, 28, 28, 28, 28, 28, 28);
    EXPECT(mf_call(mf_pmap(checked_sum, "i", .out_axes = MF_NONE), FLOATS(8)), 28);
    EXPECT(mf_call(mf_pmap(checked, "i", .out_axes = MF_NONE), F32(5, 5, 5, 5)), 5); /* mapped, but equal */
    EXPECT(mf_call(mf_pmap(checked_and_used, "i"), mf_replicate(mf_f(3), mf_devices())), 6, 6, 6, 6, 6, 6, 6, 6);
}

TEST(what_differs_is_named)
{
    mf_value tree = mf_dict("b", mf_replicate(FLOATS(3), mf_devices()), "w", mf_list(F32(7, 7, 7, 8, 7, 9, 7, 7)));
    mf_value r = mf_call(mf_pmap(checked, "i"), tree);
    mf_block_until_ready(r);
    EXPECT_ERROR(mf_get(r, "w", 0), "['w'][0] differs over the axis i: devices 3, 5 hold other bits than device 0");
    EXPECT_ERROR(mf_call(mf_pmap(checked_and_used, "i"), F32(1, 2)), "device 1 holds other bits than device 0");
    EXPECT_ERROR(mf_call(mf_pmap(checked_and_forgotten, "i"), F32(1, 2)), "device 1 holds other bits");
    EXPECT(mf_call(mf_pmap(checked_and_used, "i"), F32(4, 4)), 8, 8); /* later calls work */
}

TEST(bits_count)
{
    EXPECT_ERROR(mf_call(mf_pmap(checked_and_used, "i"), F32(0, -0.0)), "device 1");
    mf_value nan = mf_call(mf_pmap(checked, "i"), F32(NAN, NAN));
    CHECK(isnan(mf_item_f64(mf_get(nan, 1))));
}

FN(rows_checked, mf_call(mf_vmap(checked), v))
FN(checked_square, mf_mul(mf_check_replicated(v, "i"), mf_check_replicated(v, "i")))
FN(checked_square_loss, mf_sum(mf_call(mf_pmap(checked_square, "i"), v)))

TEST(under_transforms)
{
    EXPECT_SAME(mf_call(mf_pmap(rows_checked, "i"), eight_times(FLOATS(3, 2))), eight_times(FLOATS(3, 2)));
    EXPECT_SAME(mf_call(mf_vmap(mf_pmap(checked, "i"), .in_axes = 1, .out_axes = 1), eight_times(FLOATS(3))), eight_times(FLOATS(3)));
    EXPECT(mf_call(mf_grad(checked_square_loss), F32(3, 3)), 6, 6);
    EXPECT_ERROR(mf_call(mf_grad(checked_square_loss), F32(3, 4)), "device 1");
    EXPECT_ERROR(mf_call(mf_vmap(checked, "i"), FLOATS(3)), "check_replicated: under vmap over axis i");
}

FN(over_outer, mf_check_replicated(v, "i"))

TEST(one_of_two_axes)
{
    mf_value x = mf_reshape(F32(1, 2, 3, 4, 1, 2, 3, 4), MF_SHAPE(2, 4));
    EXPECT_SAME(mf_call(mf_pmap(mf_pmap(over_outer, "j"), "i"), x), x);
    mf_value bad = mf_reshape(F32(1, 2, 3, 4, 1, 2, 0, 4), MF_SHAPE(2, 4));
    EXPECT_ERROR(mf_call(mf_pmap(mf_pmap(over_outer, "j"), "i"), bad), "device 6 holds other bits than device 2");
}

TEST(outside_maps)
{
    mf_value good = mf_dict("w", mf_reshape(F32(1, 2, 1, 2), MF_SHAPE(2, 2)));
    EXPECT_SAME(mf_check_replicated(good, NULL), good);
    EXPECT_SAME(mf_check_replicated(mf_replicate(FLOATS(3), mf_devices()), NULL), eight_times(FLOATS(3)));
    EXPECT_ERROR(mf_check_replicated(mf_dict("w", F32(1, 1, 2)), NULL), "['w'] differs between replicas: 2 hold other bits than replica 0");
    EXPECT_ERROR(mf_check_replicated(mf_f(1), NULL), "no axis of replicas");
}

/* ---- a training step: parameters are stacked, one copy for each device; batches are shards */

FN2(loss, w, x, mf_mean(mf_square(mf_sub(mf_mul(mf_get(w, "w"), x), 1))))
static mf_value update(mf_value w, mf_value g) { return mf_sub(w, mf_mul(0.1, g)); }
FN2(good_step, w, x, mf_tree_map(update, w, mf_pmean(mf_call(mf_grad(loss), w, x), "batch")))
FN2(bad_step, w, x, mf_tree_map(update, w, mf_call(mf_grad(loss), w, x))) /* the pmean was forgotten */
FN2(bad_step_checked, w, x, mf_check_replicated(bad_step(w, x), "batch"))

TEST(a_check_outside_maps_waits)
{
    mf_function f = mf_pmap(checked_sum, "i"), g = mf_pmap(checked_and_used, "i");
    for (int i = 0; i < 20; i++) {
        mf_value sum = mf_check_replicated(mf_call(f, FLOATS(8)), NULL), used = mf_call(g, mf_replicate(mf_f(3), mf_devices()));
        EXPECT(sum, 28, 28, 28, 28, 28, 28, 28, 28);
        EXPECT_ERROR(mf_check_replicated(mf_mul(used, FLOATS(8)), NULL), "hold other bits than replica 0");
    }
    EXPECT_ERROR(mf_call(mf_jit(mf_closure(checked_outside, &(int){ 0 })), FLOATS(8)), "inside a map it needs the axis name");
}

TEST(a_handled_check_leaves_no_siblings)
{
    mf_value tree = mf_dict("a", F32(1, 2, 3), "b", F32(4, 5, 6), "c", F32(7, 7, 7));
    while (mf_first_error(NULL) != MF_OK)
        continue;
    EXPECT_ERROR(mf_check_replicated(tree, NULL), "['a'] differs between replicas");
    CHECK_EQ_INT(mf_first_error(NULL), MF_OK);
    EXPECT_ERROR(mf_call(mf_pmap(checked, "i"), tree), "['a'] differs over the axis i");
    CHECK_EQ_INT(mf_first_error(NULL), MF_OK);
    mf_value r = mf_call(mf_pmap(checked, "i"), tree); /* one result of a run stands for all of them */
    EXPECT_ERROR(mf_get(r, "b"), "differs over the axis i");
    CHECK_EQ_INT(mf_first_error(NULL), MF_OK);
}

TEST(a_forgotten_mean_fails_when_traced)
{
    mf_value w = mf_replicate(mf_dict("w", mf_scalar(0.5, MF_F32)), mf_devices()), x = WAVES(8, 4);
    mf_function good = mf_pmap(good_step, "batch", .out_axes = MF_NONE, .replicated_argnums = MF_INTS(0));
    mf_function bad = mf_pmap(bad_step, "batch", .out_axes = MF_NONE, .replicated_argnums = MF_INTS(0));
    mf_value next = mf_call(good, w, x);
    CHECK_STR(mf_str(mf_shape_of(mf_get(next, "w"))), "()");
    EXPECT_SAME(next, mf_unreplicate(mf_call(mf_pmap(good_step, "batch"), w, x)));
    EXPECT_ERROR(mf_call(bad, w, x), "the result['w']");
    EXPECT_ERROR(mf_call(bad, w, x), "varies over the mapped axis 'batch'");
}

TEST(a_forgotten_mean_fails_when_run)
{
    mf_value w = mf_replicate(mf_dict("w", mf_scalar(0.5, MF_F32)), mf_devices());
    mf_value r = mf_call(mf_pmap(bad_step_checked, "batch"), w, WAVES(8, 4));
    EXPECT_ERROR(mf_get(r, "w"), "['w'] differs over the axis batch: devices 1, 2, 3, 4, 5, 6, 7 hold other bits than device 0");
    mf_value drifted = mf_call(mf_pmap(bad_step, "batch"), w, WAVES(8, 4)); /* a step later the parameters themselves differ */
    EXPECT_ERROR(mf_call(mf_pmap(good_step, "batch", .replicated_argnums = MF_INTS(0)), drifted, WAVES(8, 4)),
                 "differs over the axis batch");
}

TEST(bad_argnums)
{
    EXPECT_ERROR(mf_call(mf_pmap(good_step, .replicated_argnums = MF_INTS(0)), FLOATS(8), FLOATS(8)),
                 "replicated_argnums needs an axis_name");
    EXPECT_ERROR(mf_call(mf_pmap(good_step, "batch", .replicated_argnums = MF_INTS(2)), FLOATS(8), FLOATS(8)), "names argument 2 of 2");
}
