/* Counterparts of the peer's tests of maps on named devices. */
#include "peer.h"

FN(same, v)
FN(minus_sum, mf_sub(v, mf_psum(v, "i")))
FN(sum, mf_psum(v, "i"))
FN(gram, mf_matmul(v, mf_transpose(v, MF_INTS0)))

TEST(order_of_devices)
{
    mf_device_list all = mf_devices(), on = mf_devices_of_array(mf_call(mf_pmap(same), INTS(8)));
    REQUIRE(CHECK_EQ_INT(on.count, all.count));
    for (int i = 0; i < all.count; i++)
        CHECK(on.at[i].handle == all.at[i].handle);
}

TEST(all_devices)
{
    mf_value x = FLOATS(8, 4);
    EXPECT_SAME(mf_call(mf_pmap(minus_sum, "i", .devices = mf_devices()), x), mf_sub(x, mf_sum(x, 0)));
}

TEST(one_device_and_another)
{
    mf_value x = mf_mul(0.1, WAVES(1, 60, 60)), expected = mf_expand_dims(gram(mf_get(x, 0)), 0);
    for (int i = 0; i < 2; i++) {
        mf_value r = mf_call(mf_pmap(gram, .devices = mf_device_slice(mf_devices(), i, i + 1)), x);
        EXPECT_CLOSE(r, expected, 1e-5);
        CHECK_EQ_INT(mf_device_id(mf_devices_of_array(r).at[0]), i);
    }
}

TEST(no_devices)
{
    EXPECT_ERROR(mf_call(mf_pmap(minus_sum, "i", .devices = mf_device_slice(mf_devices(), 0, 0)), FLOATS(8, 4)),
                 "'devices' argument is empty");
}

TEST(a_size_that_is_not_that_of_the_devices)
{
    mf_function f = mf_pmap(sum, "i", .devices = mf_devices());
    const char *text = "Leading axis size of input to pmapped function must equal the number of local devices passed to pmap.";
    EXPECT_ERROR(mf_call(f, mf_ones(MF_SHAPE(1), MF_F32)), text);
    EXPECT_ERROR(mf_call(f, mf_ones(MF_SHAPE(1), MF_F32)), "Got axis_size=1, num_local_devices=8.");
    EXPECT_ERROR(mf_call(f, mf_ones(MF_SHAPE(9), MF_F32)), text);
    EXPECT_ERROR(mf_call(f, mf_ones(MF_SHAPE(9), MF_F32)), "Got axis_size=9, num_local_devices=8.");
}

FN(one_more, mf_add(v, 1))
FN(sum_of_jitted, mf_psum(mf_call(mf_jit(one_more), v), "i"))
FN(map_on_all, mf_call(mf_pmap(sum, "i", .devices = mf_devices()), v))

TEST(jit_within)
{
    EXPECT_SAME(mf_call(mf_pmap(sum_of_jitted, "i", .devices = mf_devices()), mf_ones(MF_SHAPE(8, 1), MF_F32)),
                mf_full(MF_SHAPE(8, 1), mf_scalar(16, MF_F32)));
}

TEST(jit_around)
{
    EXPECT_SAME(mf_call(mf_jit(map_on_all), mf_ones(MF_SHAPE(8, 1), MF_F32)), mf_full(MF_SHAPE(8, 1), mf_scalar(8, MF_F32)));
}
