/* Arrays on devices with separate memory: each device holds its part, which is ready when that device is done. */
#include "array/array.h"
#include "check.h"
#include "fake/fake_client.h"

#include "runtime/device.h"

#include <manyfold.h>

static mf_device_list four(void)
{
    (void)mf_set_num_cpu_devices(4);
    fake_client_register();
    return mf_devices_of("fake");
}

static const mf_array *array_of(mf_value v) { return (const mf_array *)mf_object_of(v); }
static const mf_buffer *part(mf_value v, int k)
{
    int64_t at;
    return mf_array_part(array_of(v), k, &at);
}
static bool is_pending(mf_value v) { return array_of(v)->future && !atomic_load(&array_of(v)->future->state); }

static mf_value placed(void) { return mf_place(mf_reshape(mf_arange(8, MF_F32), MF_SHAPE(4, 2)), four()); }

TEST(each_device_has_its_part)
{
    MF_SCOPE;
    mf_value v = placed();
    const mf_array *a = array_of(v);
    REQUIRE(a->buffer->part_count == 4);
    CHECK(!a->buffer->data && !mf_buffer_host(a->buffer));
    for (int k = 0; k < 4; k++) {
        float row[2];
        CHECK(part(v, k) == a->buffer->parts[k] && part(v, k)->device == k && part(v, k)->bytes == sizeof row);
        fake_client.to_host(part(v, k), 0, sizeof row, row);
        CHECK(row[0] == (float)(2 * k) && row[1] == (float)(2 * k + 1));
    }
    CHECK_STR(mf_str(v), "[[0. 1.]\n [2. 3.]\n [4. 5.]\n [6. 7.]]");
    CHECK_STR(mf_str(mf_sum(v)), "28.0");
}

TEST(a_row_is_a_view_of_one_device_and_holds_nothing_of_the_others)
{
    MF_SCOPE;
    int before = fake_buffers;
    mf_value v = placed(), row = mf_get(v, 2), same = mf_shard(v, 2);
    CHECK(array_of(row)->buffer == part(v, 2) && array_of(same)->buffer == part(v, 2));
    CHECK_EQ_INT(mf_devices_of_array(row).count, 1);
    CHECK_EQ_INT(mf_device_id(mf_devices_of_array(row).at[0]), 2);
    mf_value element = mf_get(v, 3, 1);
    CHECK(array_of(element)->buffer == part(v, 3));
    CHECK_NEAR(mf_item_f64(element), 7, 0);
    CHECK_EQ_INT(mf_delete(v), MF_OK);
    CHECK_EQ_INT(fake_buffers - before, 2);
    CHECK_STR(mf_str(row), "[4. 5.]");
}

static const mf_slice odd_rows = { true, 1, 4, 2 }, backwards = { true, MF_END, MF_NONE, -1 };

TEST(views_of_several_devices_stay_in_parts)
{
    MF_SCOPE;
    mf_value v = placed(), some = mf_get(v, odd_rows), turned = mf_transpose(v, MF_INTS0), column = mf_get(v, mf_range(0, MF_END), 1);
    CHECK(array_of(some)->buffer == array_of(v)->buffer && part(some, 1)->device == 3);
    CHECK(array_of(turned)->buffer == array_of(v)->buffer && part(turned, 1)->device == 1);
    CHECK_STR(mf_str(some), "[[2. 3.]\n [6. 7.]]");
    CHECK_STR(mf_str(turned), "[[0. 2. 4. 6.]\n [1. 3. 5. 7.]]");
    CHECK_STR(mf_str(column), "[1. 3. 5. 7.]");
    CHECK_STR(mf_str(mf_ravel(v)), "[0. 1. 2. 3. 4. 5. 6. 7.]");
    CHECK_STR(mf_str(mf_reshape(v, MF_SHAPE(2, 4))), "[[0. 1. 2. 3.]\n [4. 5. 6. 7.]]");
    CHECK_STR(mf_str(mf_get(v, mf_range(0, MF_END), backwards)), "[[1. 0.]\n [3. 2.]\n [5. 4.]\n [7. 6.]]");
}

static mf_value total(mf_value x) { return mf_psum(x, "i"); }
static mf_value doubled(mf_value x) { return mf_mul(x, 2); }

TEST(what_is_held_once_each_device_has)
{
    MF_SCOPE;
    mf_device_list reversed = mf_device_slice(four(), 0, 4);
    mf_device order[] = { reversed.at[3], reversed.at[2], reversed.at[1], reversed.at[0] };
    mf_value v = mf_call(mf_pmap(total, "i", .devices = { 4, order }), mf_reshape(mf_arange(8, MF_F32), MF_SHAPE(4, 2)));
    CHECK_STR(mf_str(v), "[[12. 16.]\n [12. 16.]\n [12. 16.]\n [12. 16.]]");
    REQUIRE(array_of(v)->strides[0] == 0 && array_of(v)->buffer->part_count == 4);
    for (int k = 0; k < 4; k++) {
        float row[2];
        CHECK_EQ_INT(part(v, k)->device, 3 - k);
        fake_client.to_host(part(v, k), 0, sizeof row, row);
        CHECK(row[0] == 12 && row[1] == 16);
        CHECK(array_of(mf_get(v, k))->buffer == part(v, k));
    }
    mf_value once = mf_call(mf_pmap(total, "i", .devices = { 4, order }, .out_axes = MF_NONE), v);
    CHECK_EQ_INT(array_of(once)->buffer->part_count, 0);
    CHECK_STR(mf_str(once), "[48. 64.]");
}

static mf_value inner(mf_value x) { return mf_call(mf_pmap(doubled, "j"), x); }

TEST(mapped_axes_anywhere_and_more_than_one)
{
    MF_SCOPE;
    mf_value x = mf_reshape(mf_arange(8, MF_F32), MF_SHAPE(4, 2));
    mf_value last = mf_call(mf_pmap(doubled, "i", .devices = four(), .out_axes = 1), x);
    CHECK_EQ_INT(array_of(last)->sharding->axes[0], 1);
    CHECK(part(last, 3)->device == 3 && part(last, 3)->bytes == 2 * sizeof(float));
    CHECK_STR(mf_str(last), "[[ 0.  4.  8. 12.]\n [ 2.  6. 10. 14.]]");
    CHECK_STR(mf_str(mf_call(mf_pmap(doubled, "i", .devices = four(), .in_axes = 1), last)),
              "[[ 0.  4.]\n [ 8. 12.]\n [16. 20.]\n [24. 28.]]");
    mf_value both = mf_call(mf_pmap(inner, "i", .devices = four()), mf_reshape(mf_arange(4, MF_F32), MF_SHAPE(2, 2)));
    CHECK_EQ_INT(array_of(both)->sharding->axis_count, 2);
    CHECK_EQ_INT(mf_device_id(mf_devices_of_array(mf_get(both, 1, 0)).at[0]), 2);
    CHECK_STR(mf_str(mf_get(both, 1)), "[4. 6.]");
}

TEST(moving_between_devices_copies)
{
    MF_SCOPE;
    mf_value v = placed(), one = mf_device_put(v, four().at[1]), back = mf_place(one, four()), again = mf_place(back, four());
    CHECK(array_of(one)->buffer->part_count == 0 && array_of(one)->buffer->device == 1);
    CHECK(array_of(back)->buffer->part_count == 4 && array_of(again)->buffer == array_of(back)->buffer);
    CHECK_STR(mf_str(back), mf_str(v));
    mf_value copy = mf_copy(v);
    CHECK(part(copy, 3) != part(v, 3) && part(copy, 3)->device == 3);
    mf_value empty = mf_place(mf_zeros(MF_SHAPE(4, 0), MF_F32), four());
    CHECK_STR(mf_str(mf_call(mf_pmap(doubled, "i", .devices = four()), empty)), "[]");
}

TEST(a_scalar_is_converted_where_it_is)
{
    mf_value s = mf_device_put(mf_scalar(3, MF_F32), mf_devices().at[2]);
    mf_block_until_ready(s);
    CHECK_EQ_INT(mf_device_id(mf_devices_of_array(mf_astype(s, MF_F64)).at[0]), 2);
}

TEST(a_part_is_there_when_its_device_is_done)
{
    MF_SCOPE;
    mf_value x = placed();
    mf_function f = mf_pmap(doubled, "i", .devices = four());
    fake_hold_device(1);
    mf_value y = mf_call(f, x), first = mf_get(y, 0), held = mf_get(y, 1), later = mf_call(f, y), at_end = mf_add(held, 1);
    CHECK_STR(mf_str(first), "[0. 2.]");
    CHECK(is_pending(y) && is_pending(held) && is_pending(later) && is_pending(at_end));
    fake_hold_device(-1);
    CHECK_STR(mf_str(at_end), "[5. 7.]");
    CHECK_STR(mf_str(later), "[[ 0.  4.]\n [ 8. 12.]\n [16. 20.]\n [24. 28.]]");
}

static mf_value checked(mf_value x) { return mf_check_replicated(mf_mul(x, 2), "i"); }

TEST(a_run_that_fails_is_the_error_of_what_waits_for_it)
{
    MF_SCOPE;
    mf_function f = mf_pmap(checked, "i", .devices = four());
    fake_hold_device(1);
    mf_value x = mf_call(mf_pmap(doubled, "i", .devices = four()), placed()), y = mf_call(f, x), row = mf_get(y, 0);
    mf_value z = mf_call(mf_pmap(doubled, "i", .devices = four()), y);
    fake_hold_device(-1);
    CHECK_EQ_INT(mf_error_status(z), MF_ERROR_DEVICE);
    CHECK_CONTAINS(mf_error(z), "differs over the axis i");
    CHECK_EQ_INT(mf_error_status(row), MF_ERROR_DEVICE);
    CHECK_EQ_INT(mf_error_status(y), MF_ERROR_DEVICE);
}

TEST(what_is_pending_may_be_donated)
{
    MF_SCOPE;
    mf_function f = mf_pmap(doubled, "i", .devices = four(), .donate_argnums = MF_INTS(0));
    fake_hold_device(2);
    mf_value x = mf_call(f, placed()), y = mf_call(f, x);
    CHECK(mf_is_deleted(x) && is_pending(y));
    fake_hold_device(-1);
    CHECK_STR(mf_str(mf_get(y, 3)), "[24. 28.]");
}
