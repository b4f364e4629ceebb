/* Arrays in memory that the host cannot read: every access to their numbers goes through the client. */
#include "array/literal.h"
#include "check.h"
#include "fake/fake_client.h"

#include "runtime/device.h"

#include <unistd.h>

#include <manyfold.h>

static mf_value on_fake(mf_value v)
{
    mf_error_object *error = NULL;
    mf_array *a = mf_array_on(&fake_client, (mf_array *)mf_object_of(v), &error);
    CHECK(a && !error && mf_array_client(a) == &fake_client);
    return mf_value_new(a);
}

TEST(its_memory_is_unreadable)
{
    REQUIRE(mf_set_num_cpu_devices(4) == MF_OK);
    int ends[2];
    MF_SCOPE;
    const mf_array *a = (mf_array *)mf_object_of(on_fake(mf_arange(8, MF_F32)));
    REQUIRE(pipe(ends) == 0);
    CHECK(write(ends[1], a->buffer->data, 4) == -1); /* the kernel reports EFAULT instead of a signal */
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

static mf_device fake_device(int id)
{
    fake_client_register();
    mf_device_list all = mf_devices_of("fake");
    return id < all.count ? all.at[id] : (mf_device){ 0 };
}

TEST(clients_and_their_devices_stand_side_by_side)
{
    mf_device here = mf_devices().at[1], there = fake_device(1);
    CHECK(here.handle != there.handle);
    CHECK_EQ_INT(mf_device_id(there), 1);
    CHECK_EQ_INT(mf_device_local_ordinal(there), 1);
    CHECK_EQ_INT(mf_device_process(there), 0);
    CHECK_STR(mf_device_platform(there), "fake");
    CHECK_STR(mf_device_platform(here), "cpu");
    CHECK_EQ_INT(mf_devices_of("fake").count, mf_devices().count);
    mf_device none = { there.handle + 0xffff };
    CHECK(mf_device_id(none) == -1 && mf_device_process(none) == -1 && !mf_device_platform(none));
    static const mf_client other = { .platform = "fake" };
    mf_error_object *error = mf_client_register(&other);
    CHECK(error);
    mf_error_ignore(error);
}

TEST(what_nobody_committed_moves_to_what_is)
{
    MF_SCOPE;
    mf_value here = mf_arange(6, MF_F32), there = mf_device_put(here, fake_device(2)), sum = mf_add(here, mf_mul(there, 2));
    mf_device_list where = mf_devices_of_array(sum);
    CHECK(where.count == 1 && where.at[0].handle == fake_device(2).handle);
    CHECK_NEAR(mf_item_f64(mf_sum(sum)), 45, 0);
    CHECK(mf_array_client((const mf_array *)mf_object_of(here)) == &mf_client_cpu);
}

TEST(an_op_over_two_clients_names_both_until_one_is_moved)
{
    MF_SCOPE;
    mf_value here = mf_device_put(mf_arange(6, MF_F32), mf_devices().at[0]), there = mf_device_put(here, fake_device(0));
    mf_value sum = mf_add(here, there);
    CHECK_EQ_INT(mf_error_status(sum), MF_ERROR_DEVICE);
    CHECK_CONTAINS(mf_error(sum), "fake");
    CHECK_CONTAINS(mf_error(sum), "cpu");
    mf_value moved = mf_device_put(there, mf_devices().at[0]);
    CHECK_NEAR(mf_item_f64(mf_sum(mf_add(here, moved))), 30, 0);
    mf_value called = mf_call(mf_jit(mf_add), here, there);
    CHECK_EQ_INT(mf_error_status(called), MF_ERROR_DEVICE);
    CHECK_CONTAINS(mf_error(called), "fake");
}

static mf_value negate(mf_value x) { return mf_neg(x); }
static mf_value total(mf_value x) { return mf_psum(x, "i"); }

TEST(one_function_runs_on_either_client)
{
    MF_SCOPE;
    mf_value here = mf_arange(6, MF_F32), there = mf_device_put(here, fake_device(0));
    mf_function f = mf_jit(negate);
    for (int i = 0; i < 3; i++) {
        CHECK(mf_array_client((const mf_array *)mf_object_of(mf_call(f, here))) == &mf_client_cpu);
        mf_value y = mf_call(f, there);
        CHECK(mf_array_client((const mf_array *)mf_object_of(y)) == &fake_client);
        CHECK_STR(mf_str(y), "[-0. -1. -2. -3. -4. -5.]");
    }
}

TEST(a_map_runs_where_its_backend_or_devices_are)
{
    MF_SCOPE;
    mf_device chosen[] = { fake_device(3), fake_device(1) }, mixed[] = { fake_device(0), mf_devices().at[1] };
    mf_value x = mf_arange(2, MF_F32);
    mf_value by_name = mf_call(mf_pmap(total, "i", .backend = "fake"), x);
    mf_value by_devices = mf_call(mf_pmap(total, "i", .devices = { 2, chosen }), x);
    CHECK_STR(mf_str(by_name), "[1. 1.]");
    CHECK_STR(mf_str(by_devices), "[1. 1.]");
    mf_device_list where = mf_devices_of_array(by_devices);
    CHECK(where.count == 2 && where.at[0].handle == chosen[0].handle && where.at[1].handle == chosen[1].handle);
    CHECK_STR(mf_device_platform(mf_devices_of_array(by_name).at[1]), "fake");
    mf_value refused = mf_call(mf_pmap(total, "i", .backend = "cpu"), by_name);
    CHECK_EQ_INT(mf_error_status(refused), MF_ERROR_DEVICE);
    CHECK_CONTAINS(mf_error(refused), "fake");
    mf_value two = mf_call(mf_pmap(total, "i", .devices = { 2, mixed }), x);
    CHECK_EQ_INT(mf_error_status(two), MF_ERROR_DEVICE);
    CHECK_CONTAINS(mf_error(two), "fake");
    CHECK_EQ_INT(mf_error_status(mf_place(x, (mf_device_list){ 2, mixed })), MF_ERROR_DEVICE);
    mf_function compiled = mf_compile(mf_pmap(total, "i", .backend = "fake"), x);
    CHECK_STR(mf_str(mf_call(compiled, x)), "[1. 1.]");
}

TEST(what_is_donated_is_gone_on_either_client)
{
    MF_SCOPE;
    mf_function f = mf_jit(negate, .donate_argnums = MF_INTS(0));
    mf_value there = mf_device_put(mf_arange(6, MF_F32), fake_device(0));
    CHECK_STR(mf_str(mf_call(f, there)), "[-0. -1. -2. -3. -4. -5.]");
    CHECK(mf_is_deleted(there));
    mf_value here = mf_arange(2, MF_F32); /* the device gets a copy, which can be donated */
    CHECK_STR(mf_str(mf_call(mf_pmap(negate, .backend = "fake", .donate_argnums = MF_INTS(0)), here)), "[-0. -1.]");
    CHECK(mf_is_deleted(here));
}

static mf_value refuse(mf_value x, mf_value y) { return (void)y, mf_neg(x); }

TEST(a_refused_call_gives_back_what_was_donated)
{
    MF_SCOPE;
    mf_value here = mf_device_put(mf_arange(6, MF_F32), mf_devices().at[0]), there = mf_device_put(here, fake_device(0));
    mf_value y = mf_call(mf_jit(refuse, .donate_argnums = MF_INTS(0)), there, here);
    CHECK_EQ_INT(mf_error_status(y), MF_ERROR_DEVICE);
    CHECK(!mf_is_deleted(there));
    double out[6];
    CHECK_EQ_INT(mf_to_host(there, MF_F64, out, 6), MF_OK);
    CHECK_NEAR(out[4], 4, 0);
}

TEST(a_default_client_is_where_things_are_made)
{
    MF_SCOPE;
    fake_client_register();
    CHECK_EQ_INT(mf_set_default_backend("fake"), MF_OK);
    CHECK_STR(mf_default_backend(), "fake");
    mf_value x = mf_mul(mf_arange(4, MF_F32), mf_full(MF_SHAPE(4), mf_f(2)));
    CHECK(mf_array_client((const mf_array *)mf_object_of(x)) == &fake_client);
    CHECK_EQ_INT(mf_set_default_backend("cpu"), MF_OK);
    CHECK_STR(mf_str(x), "[0. 2. 4. 6.]");
    CHECK_STR(mf_str(mf_add(x, mf_arange(4, MF_F32))), "[0. 3. 6. 9.]");
}

TEST(rows_of_an_array_are_on_its_client)
{
    MF_SCOPE;
    mf_value v = on_fake(mf_reshape(mf_arange(6, MF_F32), MF_SHAPE(2, 3))), row = mf_get(v, 1);
    const mf_array *a = (mf_array *)mf_object_of(row);
    CHECK(mf_array_client(a) == &fake_client && a->sharding == mf_sharding_default(&fake_client));
    CHECK(mf_array_copy_out((mf_array *)mf_object_of(row), MF_F32, (float[3]){ 0 }) == NULL);
    mf_device_list where = mf_devices_of_array(v);
    CHECK(where.count == 1 && where.at[0].handle == fake_device(0).handle);
}

TEST(memory_is_given_back)
{
    {
        MF_SCOPE;
        mf_value v = on_fake(mf_arange(6, MF_F32));
        CHECK_EQ_INT(fake_buffers, 1);
        CHECK_EQ_INT(mf_delete(v), MF_OK);
        CHECK(mf_is_error(v) && mf_error(v));
    }
    CHECK_EQ_INT(fake_buffers, 0);
}

static int one_device(const mf_client *c)
{
    (void)c;
    return 1;
}

TEST(a_client_may_hold_memory_alone)
{
    MF_SCOPE;
    static mf_client plain;
    plain = fake_client;
    plain.platform = "memory";
    plain.backend = NULL;
    plain.device_count = one_device;
    REQUIRE(!mf_client_register(&plain));
    mf_value x = mf_device_put(mf_arange(4, MF_F32), mf_devices_of("memory").at[0]), back = mf_device_put(x, mf_devices().at[0]);
    CHECK_STR(mf_str(x), "[0. 1. 2. 3.]");
    CHECK_STR(mf_str(mf_add(back, 1)), "[1. 2. 3. 4.]");
    mf_value refused = mf_add(x, 1);
    CHECK_EQ_INT(mf_error_status(refused), MF_ERROR_DEVICE);
    CHECK_CONTAINS(mf_error(refused), "devices of memory hold memory, but run no programs");
    mf_value many = mf_call(mf_pmap(total, "i", .backend = "memory"), mf_arange(4, MF_F32));
    CHECK_CONTAINS(mf_error(many), "requires 4 replicas, but only 1 memory devices");
}

TEST(a_process_has_so_many_clients_and_no_more)
{
    static mf_client more[MF_MOST_CLIENTS];
    static char names[MF_MOST_CLIENTS][8];
    mf_error_object *error = NULL;
    for (int i = 0; i < MF_MOST_CLIENTS && !error; i++) {
        snprintf(names[i], sizeof names[i], "more%d", i);
        more[i] = fake_client;
        more[i].platform = names[i];
        error = mf_client_register(&more[i]);
    }
    REQUIRE(error);
    CHECK_CONTAINS(error->message, "16");
    mf_error_ignore(error);
}
