/* Counterparts of the peer's tests of the arrays that maps take and give: shards, views, copies, eager operations, keys, deletion. */
#include "peer.h"

#include <pthread.h>

FN(same, v)
FN(twice, mf_mul(2, v))

static bool shares_memory(mf_value part, mf_value whole)
{
    const char *at = mf_unsafe_buffer_pointer(part), *from = mf_unsafe_buffer_pointer(whole);
    return at && from && at >= from && at < from + mf_size(whole) * 4;
}

/* ---- looking without rendezvous */

TEST(a_row_is_a_view)
{
    mf_value x = mf_call(mf_pmap(same), mf_mul(1, mf_add(FLOATS(8, 8), 0))), row = mf_get(x, -1), copy = mf_copy(row);
    EXPECT_SAME(row, F32(56, 57, 58, 59, 60, 61, 62, 63));
    CHECK_EQ_INT(mf_devices_of_array(row).count, 1);
    CHECK_EQ_INT(mf_device_id(mf_devices_of_array(row).at[0]), 7); /* it stays on the device that has it */
    CHECK(shares_memory(row, x));
    EXPECT_SAME(copy, row);
    CHECK(mf_devices_of_array(copy).at == mf_devices_of_array(row).at);
    CHECK(mf_unsafe_buffer_pointer(copy) != mf_unsafe_buffer_pointer(row));
}

TEST(get_item)
{
    mf_value x = FLOATS(8, 4), y = mf_call(mf_pmap(twice, "i"), x);
    EXPECT_SAME(mf_get(y, 0), mf_mul(2, mf_get(x, 0)));
    EXPECT_SAME(mf_get(y, 3, mf_range(1, 3)), F32(26, 28));
    EXPECT_SAME(mf_get(y, mf_range(2, 5)), mf_mul(2, mf_get(x, mf_range(2, 5))));
    mf_device_list on = mf_devices_of_array(mf_get(y, mf_range(2, 5)));
    REQUIRE(CHECK_EQ_INT(on.count, 3));
    CHECK_EQ_INT(mf_device_id(on.at[2]), 4);
    on = mf_devices_of_array(mf_get(y, ((mf_slice){ true, 1, 8, 3 })));
    REQUIRE(CHECK_EQ_INT(on.count, 3));
    CHECK_EQ_INT(mf_device_id(on.at[1]), 4);
}

TEST(indexing_copies_nothing)
{
    mf_value x = mf_call(mf_pmap(same), INTS(8, 4));
    mf_block_until_ready(x);
    int64_t before = mf_memory_stats().requests;
    for (int i = 0; i < 8; i++) {
        mf_value row = mf_get(x, i);
        CHECK(shares_memory(row, x));
        CHECK_EQ_INT(mf_device_id(mf_devices_of_array(row).at[0]), i);
    }
    CHECK_EQ_INT(mf_memory_stats().requests, before);
    for (int i = 0; i < mf_len(x); i++)
        EXPECT_SAME(mf_get(x, i), mf_get(INTS(8, 4), i));
}

typedef struct reader {
    pthread_t thread;
    mf_value x;
    int index;
    bool good;
} reader;
static void *read_rows(void *context)
{
    reader *r = context;
    r->good = true;
    for (int i = 0; i < 10; i++) {
        MF_SCOPE;
        mf_value part = r->index % 2 ? mf_get(r->x, r->index) : mf_get(r->x, mf_range(r->index, r->index + 1));
        int numbers[500];
        r->good &= mf_to_host(part, MF_I32, numbers, 500) == MF_OK && numbers[0] == r->index * 500 && numbers[499] == r->index * 500 + 499;
    }
    return NULL;
}

TEST(indexing_from_many_threads)
{
    reader readers[10];
    mf_value x = mf_keep(mf_call(mf_pmap(same), INTS(8, 5, 100)));
    for (int i = 0; i < 10; i++) {
        readers[i] = (reader){ .x = x, .index = i % 8 };
        REQUIRE(pthread_create(&readers[i].thread, NULL, read_rows, &readers[i]) == 0);
    }
    for (int i = 0; i < 10; i++) {
        pthread_join(readers[i].thread, NULL);
        CHECK(readers[i].good);
    }
    mf_release(x);
}

/* ---- in, out, and in again */

TEST(results_are_arguments)
{
    mf_value x = FLOATS(8, 4), y = mf_call(mf_pmap(twice, "i"), x), z = mf_call(mf_pmap(twice, "i"), y);
    EXPECT_SAME(y, mf_mul(2, x));
    EXPECT_SAME(z, mf_mul(4, x));
    EXPECT_SAME(mf_call(mf_pmap(twice, "i"), mf_device_put(x, mf_devices().at[3])), y);
    EXPECT_SAME(mf_add(y, y), z); /* at once, outside any map */
    EXPECT_SAME(mf_sum(y), mf_scalar(992, MF_F32));
    CHECK_EQ_INT(mf_devices_of_array(mf_add(y, y)).count, 8);
    CHECK_CONTAINS(mf_str(z), "124.");
}

OVER(plus_captured, z, mf_add(z, w))

TEST(rows_on_the_devices_in_reverse)
{
    mf_device reversed[8];
    for (int i = 0; i < 8; i++)
        reversed[i] = mf_devices().at[7 - i];
    mf_value y = mf_call(mf_pmap(twice, "i"), FLOATS(8, 4)), rows[8];
    for (int i = 0; i < 8; i++)
        rows[i] = mf_get(y, 7 - i);
    mf_value moved = mf_device_put_sharded(mf_list_n(rows, 8), (mf_device_list){ 8, reversed });
    CHECK_EQ_INT(mf_device_id(mf_devices_of_array(moved).at[0]), 7);
    EXPECT_SAME(mf_call(mf_pmap(twice, "i"), moved), mf_mul(4, mf_flip(FLOATS(8, 4), 0)));
    EXPECT_SAME(mf_call(mf_jit(mf_closure(plus_captured, &moved)), 7), mf_add(moved, 7));
}

TEST(reshaping)
{
    static const mf_shape from[] = { { 2, { 1, 1 } }, { 1, { 1 } }, { 1, { 1 } }, { 2, { 4, 7 } } };
    static const mf_shape to[] = { { 1, { 1 } }, { 2, { 1, 1 } }, { 0, { 0 } }, { 3, { 2, 2, 7 } } };
    for (int i = 0; i < 4; i++) {
        mf_value x = filled_in_order(MF_I32, from[i]);
        EXPECT_SAME(mf_reshape(mf_call(mf_pmap(same), x), to[i]), mf_reshape(x, to[i]));
    }
}

TEST(waiting)
{
    mf_value x = mf_call(mf_pmap(same), INTS(8));
    CHECK_EQ_INT(mf_block_until_ready(x), MF_OK);
    CHECK_EQ_INT(mf_block_until_ready(x), MF_OK);
}

FN2(times, x, y, mf_mul(x, y))
FN2(pair, x, y, mf_tuple(x, y))

static void check_shards(mf_value x, mf_value expected)
{
    mf_device_list on = mf_devices_of_array(x);
    REQUIRE(CHECK_EQ_INT(on.count, 8));
    for (int i = 0; i < 8; i++) {
        EXPECT_SAME(mf_shard(x, i), mf_get(expected, i));
        CHECK_EQ_INT(mf_device_id(on.at[i]), i);
    }
    EXPECT_SAME(x, expected);
}

TEST(shards_of_a_result)
{
    mf_value x = mf_call(mf_pmap(same), INTS(8, 2));
    check_shards(mf_call(mf_pmap(times), x, x), mf_square(INTS(8, 2)));
}

TEST(shards_of_an_argument_used_twice)
{
    mf_value x = mf_call(mf_pmap(same), INTS(8, 2)), r = mf_call(mf_pmap(pair), x, x);
    check_shards(mf_get(r, 0), INTS(8, 2));
    check_shards(mf_get(r, 1), INTS(8, 2));
    EXPECT_ERROR(mf_shard(x, 8), "shard 8 of an array on 8 devices");
}

FN2(first_made_equal, x, y, mf_tuple(mf_pmax(x, "i"), y))

/* JAX returns device 0's value for a varying result with out_axes=None; here that is an error, so a collective makes the result uniform
 * first. */
TEST(unmapped_in_and_out)
{
    mf_value x = INTS(8, 2);
    mf_function f = mf_pmap(first_made_equal, "i", .in_axes = mf_axes(0, MF_NONE), .out_axes = mf_axes(MF_NONE, 0));
    mf_value r = mf_call(f, mf_call(mf_pmap(same), x), x);
    EXPECT(mf_get(r, 0), 14, 15);
    EXPECT_SAME(mf_get(r, 1), eight_times(x));
    EXPECT_SAME(mf_shard(mf_get(r, 1), 5), x);
    EXPECT_ERROR(mf_call(mf_pmap(pair, .in_axes = mf_axes(0, MF_NONE), .out_axes = mf_axes(MF_NONE, 0)), x, x), "out_axes is none");
}

TEST(an_unspread_argument)
{
    mf_value x = mf_device_put(INTS(8, 2), mf_devices().at[2]);
    CHECK_EQ_INT(mf_devices_of_array(x).count, 1);
    check_shards(mf_call(mf_pmap(same), x), INTS(8, 2));
}

TEST(an_argument_on_other_devices)
{
    mf_device reversed[8];
    for (int i = 0; i < 8; i++)
        reversed[i] = mf_devices().at[7 - i];
    mf_value x = mf_call(mf_pmap(same), INTS(8, 2)), y = mf_call(mf_pmap(same, .devices = { 8, reversed }), x);
    EXPECT_SAME(y, x);
    CHECK_EQ_INT(mf_device_id(mf_devices_of_array(y).at[0]), 7);
    EXPECT_SAME(mf_shard(y, 0), mf_get(x, 0));
}

FN(wave, mf_sin(v))
FN(other_wave, mf_cos(v))

/* Between two maps, the host computes something with data-dependent shapes for each device's row. */
static mf_value square_what_is_not_zero(mf_value row)
{
    double numbers[3], kept[3];
    int n = 0;
    mf_to_host(row, MF_F64, numbers, 3);
    for (int i = 0; i < 3; i++)
        if (numbers[i] != 0)
            kept[n++] = numbers[i] * numbers[i];
    for (int i = 0, k = 0; i < 3; i++)
        numbers[i] = numbers[i] != 0 ? kept[k++] : 0;
    return mf_array_n(MF_F32, MF_SHAPE(3), numbers, 3);
}

TEST(work_of_the_host_between_maps)
{
    mf_value x = mf_reshape(F32(1, 0, 0, 0, 2, 3), MF_SHAPE(2, 3)), y = mf_call(mf_pmap(wave), x);
    mf_value z = mf_device_put_sharded(mf_list(square_what_is_not_zero(mf_get(y, 0)), square_what_is_not_zero(mf_get(y, 1))),
                                       mf_device_slice(mf_local_devices(), 0, 2));
    EXPECT_CLOSE(mf_call(mf_pmap(other_wave), z), mf_cos(mf_square(mf_sin(x))), 1e-6);
}

TEST(one_sharding_for_all_results)
{
    mf_function f = mf_pmap(same);
    mf_value a = mf_call(f, INTS(8, 2)), b = mf_call(f, a), c = mf_call(f, b);
    EXPECT_SAME(c, INTS(8, 2));
    CHECK(mf_devices_of_array(a).at == mf_devices_of_array(b).at);
    CHECK(mf_devices_of_array(a).at == mf_devices_of_array(c).at);
}

/* ---- copies */

FN(sum_of_all, mf_psum(v, "i"))

TEST(copy_of_a_replicated_result)
{
    mf_value x = mf_call(mf_pmap(sum_of_all, "i", .out_axes = MF_NONE), INTS(8)), copy = mf_copy(x);
    EXPECT(copy, 28);
    CHECK_STR(mf_str(mf_shape_of(copy)), "()");
}

TEST(copies_stay_where_the_original_is)
{
    for (int axis = 0; axis < 2; axis++) {
        mf_value x = mf_call(mf_pmap(same, .in_axes = axis, .out_axes = axis), axis ? INTS(5, 8) : INTS(8, 5)), copy = mf_copy(x);
        EXPECT_SAME(copy, x);
        CHECK(mf_devices_of_array(copy).at == mf_devices_of_array(x).at);
        for (int i = 0; i < 8; i++) {
            EXPECT_SAME(mf_shard(copy, i), mf_shard(x, i));
            CHECK(mf_unsafe_buffer_pointer(mf_shard(copy, i)) != mf_unsafe_buffer_pointer(mf_shard(x, i)));
        }
    }
}

FN(double_scalar, mf_reshape(mf_add(v, v), MF_SHAPE0))

TEST(stacking_rows_again)
{
    mf_value z = mf_call(mf_pmap(double_scalar), mf_arange(8, MF_I32)), rows[8];
    for (int i = 0; i < 8; i++)
        rows[i] = mf_get(z, i);
    EXPECT(mf_stack(mf_list_n(rows, 8), 0), 0, 2, 4, 6, 8, 10, 12, 14);
}

/* ---- placing */

static mf_value from(int i) { return mf_arange_opt(i, i + 4, MF_I32); }

TEST(put_sharded)
{
    mf_value parts[8], expected[8];
    for (int i = 0; i < 8; i++)
        expected[i] = parts[i] = from(i);
    check_shards(mf_device_put_sharded(mf_list_n(parts, 8), mf_local_devices()), mf_stack(mf_list_n(expected, 8), 0));
    EXPECT_ERROR(mf_device_put_sharded(mf_list_n(parts, 7), mf_local_devices()), "7 parts for 8 devices");
}

TEST(put_sharded_trees)
{
    mf_value parts[8], rows[8];
    for (int i = 0; i < 8; i++) {
        rows[i] = from(i);
        parts[i] = mf_tuple(i, rows[i]);
    }
    mf_value r = mf_device_put_sharded(mf_list_n(parts, 8), mf_local_devices());
    check_shards(mf_get(r, 0), mf_arange(8, MF_I32));
    check_shards(mf_get(r, 1), mf_stack(mf_list_n(rows, 8), 0));
}

TEST(put_sharded_parts_from_the_devices)
{
    mf_value parts[8];
    for (int i = 0; i < 8; i++)
        parts[i] = mf_device_put(mf_i(i), mf_devices().at[i]); /* virtual devices: each part is written to its shard once */
    check_shards(mf_device_put_sharded(mf_list_n(parts, 8), mf_devices()), mf_arange(8, MF_I32));
}

TEST(put_replicated)
{
    mf_value x = mf_arange_opt(1, 40, MF_I32), y = mf_replicate(x, mf_local_devices());
    check_shards(y, eight_times(x));
    for (int i = 1; i < 8; i++)
        CHECK(mf_unsafe_buffer_pointer(mf_shard(y, i)) == mf_unsafe_buffer_pointer(mf_shard(y, 0))); /* held once */
}

TEST(put_replicated_trees)
{
    mf_value x = mf_dict("a", mf_arange_opt(1, 5, MF_I32), "b", mf_arange(3, MF_I32)), y = mf_replicate(x, mf_local_devices());
    check_shards(mf_get(y, "a"), eight_times(mf_get(x, "a")));
    check_shards(mf_get(y, "b"), eight_times(mf_get(x, "b")));
}

TEST(words) { CHECK_STR(mf_str(mf_replicate(mf_i(1), mf_devices())), "[1 1 1 1 1 1 1 1]"); }

TEST(deleting_twice)
{
    mf_value x = mf_replicate(mf_i(1), mf_devices());
    CHECK_EQ_INT(mf_delete(x), MF_OK);
    CHECK_EQ_INT(mf_delete(x), MF_OK);
    CHECK(mf_is_deleted(x));
    EXPECT_ERROR(mf_get(x, 0), "Array has been deleted");
    EXPECT_ERROR(mf_shard(x, 0), "Array has been deleted");
    EXPECT_ERROR(mf_copy(x), "Array has been deleted");
}

/* ---- keys */

FN(fold_in, mf_random_fold_in(v, 0))
FN(bits, mf_random_bits(v, MF_SHAPE0, MF_U32))

TEST(keys_spread_and_replicated)
{
    mf_function f = mf_pmap(fold_in, "i", .axis_size = 8, .devices = mf_local_devices());
    mf_value keys = mf_random_split(mf_random_key(0), 8), parts[8];
    for (int i = 0; i < 8; i++)
        parts[i] = mf_get(keys, i);
    mf_value spread = mf_call(f, mf_device_put_sharded(mf_list_n(parts, 8), mf_local_devices()));
    EXPECT_SAME(spread, mf_call(mf_vmap(fold_in), keys));
    EXPECT_SAME(mf_call(f, mf_replicate(mf_random_key(1), mf_local_devices())), eight_times(mf_random_fold_in(mf_random_key(1), 0)));
}

TEST(bits_of_keys)
{
    mf_value keys = mf_random_split(mf_random_key(0), 8), a = mf_call(mf_pmap(bits), keys), b = mf_call(mf_jit(mf_pmap(bits)), keys);
    EXPECT_SAME(a, b);
    EXPECT_SAME(a, mf_call(mf_vmap(bits), keys));
    EXPECT(mf_get(a, mf_range(0, 1)), mf_item_f64(mf_random_bits(mf_get(keys, 0), MF_SHAPE0, MF_U32)));
}
