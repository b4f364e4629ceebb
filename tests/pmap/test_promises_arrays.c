/* Promises about the results of maps: forwarding without a copy, any number of mapped axes, slicing in both directions. */
#include "peer.h"

__attribute__((constructor)) static void many_devices(void) { setenv("MF_NUM_CPU_DEVICES", "256", 1); }

FN(same, v)
FN(twice, mf_mul(2, v))
FN(beside, mf_tuple(v, mf_mul(2, v), v))
FN(summed, mf_psum(v, "i"))

static bool one_memory(mf_value a, mf_value b)
{
    const void *of_a = mf_unsafe_buffer_pointer(a);
    return of_a && of_a == mf_unsafe_buffer_pointer(b);
}

TEST(what_a_map_hands_on_is_shared)
{
    mf_value x = mf_call(mf_pmap(twice), FLOATS(8, 1024)), once = mf_call(mf_pmap(summed, "i"), x);
    CHECK(one_memory(mf_call(mf_pmap(same), x), x));
    CHECK(one_memory(mf_call(mf_pmap(same, .in_axes = 1, .out_axes = 1), mf_get(x, mf_range(0, 8), mf_range(0, 8))), x));
    CHECK(one_memory(mf_call(mf_pmap(same, .in_axes = MF_NONE, .axis_size = 8), x), x));
    CHECK(one_memory(mf_call(mf_pmap(same), once), once));
    mf_value r = mf_call(mf_jit(mf_pmap(beside)), x);
    CHECK(one_memory(mf_get(r, 0), x) && one_memory(mf_get(r, 2), x));
    EXPECT_SAME(r, mf_tuple(x, twice(x), x));
    EXPECT_SAME(mf_call(mf_pmap(same, .out_axes = 1), x), mf_transpose(x, MF_INTS0));
}

/* The result is on the map's devices, wherever the argument was. */
TEST(what_a_map_hands_on_lies_on_its_devices)
{
    mf_value r = mf_call(mf_pmap(same, .devices = mf_device_slice(mf_devices(), 16, 24)), FLOATS(8, 4));
    CHECK_EQ_INT(mf_devices_of_array(r).count, 8);
    CHECK_EQ_INT(mf_device_id(mf_devices_of_array(mf_get(r, 3)).at[0]), 19);
    r = mf_call(mf_pmap(mf_pmap(same), .devices = mf_device_slice(mf_devices(), 16, 24)), FLOATS(4, 2));
    CHECK_EQ_INT(mf_device_id(mf_devices_of_array(mf_get(r, 3, 0)).at[0]), 22);
}

FN(a_tree_handed_on, mf_call(mf_pmap(beside, "j"), v))
FN(index_and_value, mf_add(mf_mul(v, 256), mf_axis_index("a", "b", "c", "d")))

/* Inside other maps and loops the same, by value. */
static mf_value below(mf_value c) { return mf_less(mf_get(c, 0), 3); }
static mf_value turn(mf_value c)
{
    mf_value r = mf_call(mf_pmap(beside), mf_get(c, 1));
    return mf_tuple(mf_add(mf_get(c, 0), 1), mf_add(mf_get(r, 0), mf_get(r, 1)));
}
FN(loop, mf_get(mf_while(below, turn, mf_tuple(0, v)), 1))

TEST(handed_on_inside)
{
    mf_value x = WAVES(4, 2, 3);
    EXPECT_SAME(mf_call(mf_pmap(a_tree_handed_on, "i"), x), mf_tuple(x, twice(x), x));
    EXPECT_SAME(mf_call(mf_vmap(mf_pmap(same), .in_axes = 1), x), mf_transpose(x, MF_INTS(1, 0, 2)));
    EXPECT_SAME(mf_call(mf_pmap(loop), x), mf_mul(x, 27));
    EXPECT_SAME(loop(x), mf_mul(x, 27));
}

static mf_function eight_maps(mf_function f)
{
    static const char *const names[] = { "h", "g", "f", "e", "d", "c", "b", "a" };
    for (int i = 0; i < 8; i++)
        f = mf_pmap(f, names[i]);
    return f;
}

TEST(eight_mapped_axes)
{
    mf_value x = INTS(2, 2, 2, 2, 2, 2, 2, 2), y = mf_call(eight_maps(mf_fn(index_and_value)), x);
    REQUIRE(CHECK_EQ_INT(mf_devices_of_array(y).count, 256));
    for (int d = 0; d < 256; d += 51) {
        mf_value shard = mf_shard(y, d);
        EXPECT(shard, d * 256 + d / 16);
        CHECK_EQ_INT(mf_device_id(mf_devices_of_array(y).at[d]), d);
        CHECK_EQ_INT(mf_device_id(mf_devices_of_array(shard).at[0]), d);
    }
    mf_value part = mf_get(y, 1, 0, mf_range(0, 2), 1, 1, 0); /* axes 2, 6 and 7 are left */
    REQUIRE(CHECK_EQ_INT(mf_devices_of_array(part).count, 8));
    CHECK_EQ_INT(mf_device_id(mf_devices_of_array(part).at[5]), 128 + 32 + 16 + 8 + 1);
    CHECK_EQ_INT(mf_devices_of_array(mf_call(eight_maps(mf_fn(twice)), y)).count, 256);
}

TEST(five_mapped_axes_of_several_sizes)
{
    mf_function f = mf_pmap(mf_pmap(mf_pmap(mf_pmap(mf_pmap(twice, .out_axes = 1), .in_axes = 1), .out_axes = 1))); /* 3 x 2 x 2 x 2 x 3 */
    mf_value x = INTS(3, 2, 2, 3, 2, 4);
    mf_value y = mf_call(f, x),
             z = mf_call(mf_vmap(mf_vmap(mf_vmap(mf_vmap(mf_vmap(twice, .out_axes = 1), .in_axes = 1), .out_axes = 1))), x);
    EXPECT_SAME(y, z);
    CHECK_EQ_INT(mf_devices_of_array(y).count, 72);
}

TEST(backwards)
{
    mf_value x = INTS(5), y = mf_call(mf_pmap(same), INTS(4, 3));
    EXPECT(mf_get(x, ((mf_slice){ true, MF_END, MF_NONE, -1 })), 4, 3, 2, 1, 0);
    EXPECT(mf_get(x, ((mf_slice){ true, MF_END, MF_NONE, -2 })), 4, 2, 0);
    EXPECT(mf_get(x, ((mf_slice){ true, 3, 0, -2 })), 3, 1);
    EXPECT(mf_get(x, ((mf_slice){ true, -2, -4, -1 })), 3, 2);
    EXPECT(mf_get(x, ((mf_slice){ true, 0, MF_NONE, -3 })), 0);
    CHECK_STR(mf_str(mf_shape_of(mf_get(x, ((mf_slice){ true, 1, 3, -1 })))), "(0,)");
    CHECK_STR(mf_str(mf_shape_of(mf_get(x, ((mf_slice){ true, -9, MF_NONE, -1 })))), "(0,)");
    EXPECT(mf_get(y, ((mf_slice){ true, MF_END, MF_NONE, -2 }), ((mf_slice){ true, 1, MF_NONE, -1 })), 10, 9, 4, 3);
    EXPECT(mf_get(y, 2, ((mf_slice){ true, MF_END, MF_NONE, -1 })), 8, 7, 6);
    EXPECT(mf_set(x, I32(7, 8), ((mf_slice){ true, 3, 1, -1 })), 0, 1, 8, 7, 4);
}

FN(turned_row, mf_get(v, ((mf_slice){ true, MF_END, MF_NONE, -1 })))
FN(first_of_turned, mf_mul(mf_get(turned_row(v), 0), mf_get(v, 1)))

TEST(backwards_when_traced)
{
    EXPECT(mf_call(mf_pmap(turned_row), INTS(2, 3)), 2, 1, 0, 5, 4, 3);
    EXPECT(mf_call(mf_pmap(mf_grad(first_of_turned)), FLOATS(2, 3)), 0, 2, 1, 0, 5, 4);
}
