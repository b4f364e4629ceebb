/* Replicating and sharding arrays over devices, and the reverse. */
#include <manyfold.h>

#include "check.h"
#include "fake/fake_client.h"

TEST(replicates_and_back)
{
    MF_SCOPE;
    mf_set_num_cpu_devices(8);
    mf_value tree = mf_dict("b", mf_scalar(3, MF_F32), "w", mf_arange(4, MF_I32));
    mf_value copies = mf_replicate(tree, mf_local_devices());
    CHECK_STR(mf_str(mf_shape_of(mf_get(copies, "w"))), "(8, 4)");
    CHECK_STR(mf_str(mf_get(copies, "b")), "[3. 3. 3. 3. 3. 3. 3. 3.]");
    CHECK(mf_item_bool(mf_array_equal(mf_get(mf_unreplicate(copies), "w"), mf_get(tree, "w"))));
    CHECK_STR(mf_str(mf_get(mf_unreplicate(copies), "b")), "3.0");
    CHECK_STR(mf_str(mf_shape_of(mf_replicate(mf_arange(4, MF_I32), mf_device_slice(mf_devices(), 0, 3)))), "(3, 4)");
}

TEST(replicas_are_held_once)
{
    MF_SCOPE;
    mf_set_num_cpu_devices(8);
    mf_value large = mf_add(mf_arange(1 << 20, MF_F32), 1);
    CHECK_EQ_INT(mf_block_until_ready(large), MF_OK);
    int64_t before = mf_memory_stats().live_bytes;
    CHECK_STR(mf_error(mf_replicate(large, mf_devices())), NULL);
    CHECK(mf_memory_stats().live_bytes - before < 1 << 20);
}

TEST(shards_a_batch)
{
    MF_SCOPE;
    mf_value batch = mf_dict("image", mf_zeros(MF_SHAPE(16, 2, 3), MF_F32), "label", mf_arange(16, MF_I32));
    mf_value sharded = mf_shard_batch(batch, 8);
    CHECK_STR(mf_str(mf_shape_of(mf_get(sharded, "image"))), "(8, 2, 2, 3)");
    CHECK_STR(mf_str(mf_get(sharded, "label", 3)), "[6 7]");
}

static mf_value square(mf_value x) { return mf_square(x); }

TEST(sharding_commits_nothing)
{
    MF_SCOPE;
    mf_set_num_cpu_devices(8);
    fake_client_register();
    mf_value batch = mf_dict("x", mf_arange(15, MF_F32));
    if (strcmp(mf_device_platform(mf_devices().at[0]), "cpu") == 0) { /* shards are not committed: the map chooses its devices */
        mf_value sharded = mf_get(mf_shard_batch(batch, 8, .pad_last = true), "x");
        mf_value there = mf_call(mf_pmap(square, .backend = "fake"), sharded);
        CHECK_STR(mf_str(mf_get(there, 7)), "[196.   0.]");
        CHECK_STR(mf_device_platform(mf_devices_of_array(there).at[7]), "fake");
    } else { /* separate memory: the rows are transferred at once */
        CHECK_EQ_INT(mf_devices_of_array(mf_get(mf_shard_batch(batch, 5), "x")).count, 5);
    }
}

TEST(sharding_leaves_what_was_put_on_other_devices_there)
{
    MF_SCOPE;
    mf_set_num_cpu_devices(8);
    fake_client_register();
    const char *other = strcmp(mf_device_platform(mf_devices().at[0]), "cpu") == 0 ? "fake" : "cpu";
    mf_value x = mf_device_put(mf_arange(16, MF_F32), mf_devices_of(other).at[2]), sharded = mf_shard_batch(x, 8);
    CHECK_STR(mf_str(mf_get(sharded, 3)), "[6. 7.]");
    CHECK_STR(mf_device_platform(mf_devices_of_array(sharded).at[0]), other);
    CHECK_STR(mf_device_platform(mf_devices_of_array(mf_call(mf_pmap(square), sharded)).at[1]), other);
}

TEST(says_which_batches_divide)
{
    MF_SCOPE;
    CHECK_STR(mf_error(mf_shard_batch(mf_zeros(MF_SHAPE(100, 2), MF_F32), 8)),
              "Batch size 100 must be divisible by num_devices 8; the nearest sizes that are: 96 and 104");
    CHECK_STR(mf_error(mf_shard_batch(mf_zeros(MF_SHAPE(5), MF_F32), 8)),
              "Batch size 5 must be divisible by num_devices 8; the nearest size that is: 8");
    mf_value half_right = mf_dict("image", mf_zeros(MF_SHAPE(8), MF_F32), "label", mf_zeros(MF_SHAPE(12), MF_F32));
    CHECK_EQ_INT(mf_error_status(mf_shard_batch(half_right, 8)), MF_ERROR_SHAPE);
    CHECK_STR(mf_error(mf_shard_batch(half_right, 8)),
              "Batch size 12 must be divisible by num_devices 8; the nearest sizes that are: 8 and 16; leaf ['label']");
    CHECK_STR(mf_error(mf_shard_batch(half_right, 8, .pad_last = true)),
              "mf_shard_batch: leaf ['label'] has 12 rows, the first leaf has 8");
    CHECK_STR(mf_error(mf_shard_batch(mf_list(mf_zeros(MF_SHAPE(8), MF_F32), 1.0), 8)),
              "mf_shard_batch: leaf [1] is a scalar, which has no batch axis");
}

TEST(fills_up_and_masks)
{
    MF_SCOPE;
    mf_value batch = mf_dict("image", mf_ones(MF_SHAPE(3, 2), MF_F32), "label", mf_arange(3, MF_I32));
    mf_value sharded = mf_shard_batch(batch, 4, .pad_last = true);
    CHECK_STR(mf_str(mf_get(sharded, "image")), "[[[1. 1.]]\n\n [[1. 1.]]\n\n [[1. 1.]]\n\n [[0. 0.]]]");
    CHECK_STR(mf_str(mf_get(sharded, "label")), "[[0]\n [1]\n [2]\n [0]]");
    CHECK_STR(mf_str(mf_get(sharded, "mask")), "[[1.]\n [1.]\n [1.]\n [0.]]");
    mf_value whole = mf_shard_batch(mf_dict("label", mf_arange(8, MF_I32)), 4, .pad_last = true);
    CHECK_STR(mf_str(mf_get(whole, "mask", 3)), "[1. 1.]"); /* always present, so that a step always gets the same tree */
    mf_value masked = mf_dict("label", mf_arange(3, MF_I32), "mask", mf_array_n(MF_F32, MF_SHAPE(3), (double[]){ 1, 1, 0 }, 3));
    CHECK_STR(mf_str(mf_get(mf_shard_batch(masked, 2, .pad_last = true), "mask", 1)), "[0. 0.]");
    CHECK_CONTAINS(mf_error(mf_shard_batch(mf_arange(3, MF_I32), 2, .pad_last = true)), "takes a dict of arrays");
    CHECK_CONTAINS(mf_error(mf_shard_batch(mf_dict(), 2, .pad_last = true)), "takes a dict of arrays");
    mf_value uneven = mf_dict("image", mf_zeros(MF_SHAPE(3, 2), MF_F32), "label", mf_arange(4, MF_I32));
    CHECK_CONTAINS(mf_error(mf_shard_batch(uneven, 2, .pad_last = true)), "leaf ['label'] has 4 rows, the first leaf has 3");
}

TEST(refuses_what_has_no_room)
{
    MF_SCOPE;
    mf_value deep = mf_zeros(MF_SHAPE(1, 1, 1, 1, 1, 1, 1, 1), MF_F32);
    CHECK_EQ_INT(mf_error_status(mf_replicate(deep, mf_devices())), MF_ERROR_SHAPE);
    CHECK_EQ_INT(mf_error_status(mf_shard_batch(deep, 1)), MF_ERROR_SHAPE);
    CHECK_EQ_INT(mf_error_status(mf_shard_batch(mf_scalar(1, MF_F32), 1)), MF_ERROR_SHAPE);
    CHECK_EQ_INT(mf_error_status(mf_unreplicate(mf_scalar(1, MF_F32))), MF_ERROR_SHAPE);
    CHECK_EQ_INT(mf_error_status(mf_shard_batch(deep, 0)), MF_ERROR_ARGUMENT);
    CHECK_EQ_INT(mf_error_status(mf_replicate(deep, (mf_device_list){ 0 })), MF_ERROR_DEVICE);
}

TEST(puts_and_gets)
{
    MF_SCOPE;
    mf_set_num_cpu_devices(8);
    mf_value x = mf_arange(3, MF_I32);
    CHECK_STR(mf_str(mf_device_get(mf_device_put(x, mf_devices().at[5]))), "[0 1 2]");
    CHECK_EQ_INT(mf_error_status(mf_device_put(x, (mf_device){ 0 })), MF_ERROR_DEVICE);
}
