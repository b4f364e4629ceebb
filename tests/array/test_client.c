/* Arrays in memory that the host cannot read: every look at their numbers goes through the client. */
#include "array/literal.h"
#include "check.h"
#include "fake_client.h"

#include <manyfold/array.h>
#include <manyfold/device.h>
#include <manyfold/function.h>
#include <manyfold/ops.h>

static mf_value on_fake(mf_value v)
{
    mf_error_object *error = NULL;
    mf_array *a = mf_array_on(&fake_client, (mf_array *)mf_object_of(v), &error);
    CHECK(a && !error && mf_array_client(a) == &fake_client);
    return mf_value_new(a);
}

TEST(its_memory_is_unreadable)
{
    int ends[2];
    MF_SCOPE;
    const mf_array *a = (mf_array *)mf_object_of(on_fake(mf_arange(8, MF_F32)));
    REQUIRE(pipe(ends) == 0);
    CHECK(write(ends[1], a->buffer->data, 4) == -1); /* the kernel says so without a signal */
    close(ends[0]);
    close(ends[1]);
}

TEST(numbers_are_read_through_the_client)
{
    MF_SCOPE;
    mf_value v = on_fake(mf_arange(6, MF_F32)), one = on_fake(mf_scalar(2.5, MF_F64));
    double out[6];
    CHECK_EQ_INT(mf_to_host(v, MF_F64, out, 6), MF_OK);
    CHECK_NEAR(out[5], 5, 0);
    CHECK_NEAR(mf_item_f64(one), 2.5, 0);
    double element = 0;
    CHECK(!mf_array_element((mf_array *)mf_object_of(one), &element) && element == 2.5);
    mf_text t = { 0 };
    mf_array_print(&t, (mf_array *)mf_object_of(v));
    CHECK_STR(t.at, "[0. 1. 2. 3. 4. 5.]");
    mf_text_free(&t);
    CHECK(mf_unsafe_buffer_pointer(v) == NULL);
    CHECK_EQ_INT(mf_first_error(NULL), MF_ERROR_DEVICE);
}

TEST(views_and_copies_stay_where_they_are)
{
    MF_SCOPE;
    mf_value v = on_fake(mf_arange(6, MF_I32));
    const mf_array *a = (mf_array *)mf_object_of(v);
    const mf_type *t = mf_type_get(MF_I32, false, 1, (const int64_t[]){ 3 });
    mf_array *odd = mf_array_view(a, t, 4, (const int64_t[]){ 8 }, a->sharding),
             *turned = mf_array_view(a, t, 20, (const int64_t[]){ -8 }, a->sharding);
    int32_t out[3];
    CHECK(!mf_array_copy_out(odd, MF_I32, out) && out[0] == 1 && out[2] == 5);
    CHECK(!mf_array_copy_out(turned, MF_I32, out) && out[0] == 5 && out[2] == 1);
    mf_error_object *error = NULL;
    mf_array *copy = mf_array_copy(turned, &error);
    CHECK(copy && mf_array_client(copy) == &fake_client && copy->buffer != a->buffer && mf_array_is_contiguous(copy));
    CHECK(!mf_array_copy_out(copy, MF_I32, out) && out[0] == 5);
    mf_literal *l = mf_literal_of(turned, &error);
    CHECK(l && ((const int32_t *)(const void *)l->data)[0] == 5);
    mf_drop(l);
    mf_drop(copy);
    mf_drop(odd);
    mf_drop(turned);
}

static mf_value captured;
static mf_value add_captured(mf_value x) { return mf_add(x, captured); }

TEST(a_constant_of_a_program_leaves_the_device)
{
    MF_SCOPE;
    captured = on_fake(mf_arange(6, MF_F32));
    double out[6];
    CHECK_EQ_INT(mf_to_host(mf_call(mf_jit(add_captured), mf_zeros(MF_SHAPE(6), MF_F32)), MF_F64, out, 6), MF_OK);
    CHECK_NEAR(out[5], 5, 0);
}

TEST(an_op_over_two_clients_names_both_until_one_is_moved)
{
    MF_SCOPE;
    mf_value here = mf_arange(6, MF_F32), there = on_fake(here), sum = mf_add(here, there);
    CHECK(mf_is_error(sum));
    CHECK_EQ_INT(mf_error_status(sum), MF_ERROR_DEVICE);
    CHECK_CONTAINS(mf_error(sum), "fake");
    CHECK_CONTAINS(mf_error(sum), "cpu");
    mf_value moved = mf_device_put(there, mf_devices().at[0]);
    CHECK_NEAR(mf_item_f64(mf_sum(mf_add(here, moved))), 30, 0);
}

static mf_value negate(mf_value x) { return mf_neg(x); }

TEST(a_refused_call_gives_back_what_was_donated)
{
    MF_SCOPE;
    mf_value there = on_fake(mf_arange(6, MF_F32)), y = mf_call(mf_jit(negate, .donate_argnums = MF_INTS(0)), there);
    CHECK_EQ_INT(mf_error_status(y), MF_ERROR_DEVICE);
    CHECK(!mf_is_deleted(there));
    double out[6];
    CHECK_EQ_INT(mf_to_host(there, MF_F64, out, 6), MF_OK);
    CHECK_NEAR(out[4], 4, 0);
}

TEST(rows_of_an_array_are_on_its_client)
{
    MF_SCOPE;
    mf_value v = on_fake(mf_reshape(mf_arange(6, MF_F32), MF_SHAPE(2, 3))), row = mf_get(v, 1);
    const mf_array *a = (mf_array *)mf_object_of(row);
    CHECK(mf_array_client(a) == &fake_client && a->sharding == mf_sharding_single(&fake_client, 0));
    CHECK(mf_array_copy_out((mf_array *)mf_object_of(row), MF_F32, (float[3]){ 0 }) == NULL);
    CHECK_EQ_INT(mf_devices_of_array(v).count, 0);
}

TEST(memory_is_given_back)
{
    {
        MF_SCOPE;
        mf_value v = on_fake(mf_arange(6, MF_F32));
        CHECK(fake_buffers == 1);
        CHECK_EQ_INT(mf_delete(v), MF_OK);
        CHECK(mf_is_error(v) && mf_error(v));
    }
    CHECK_EQ_INT(fake_buffers, 0);
}
