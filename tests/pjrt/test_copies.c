/* Transfers between host and devices, counted by the fake plugin: no data is transferred twice without need, and host memory stays valid
 * while a plugin reads it. */
#include "check.h"
#include "fake/fake_plugin.h"

#include "backend/pjrt/pjrt_api.h"

#include <manyfold.h>

#include <dlfcn.h>
#include <stdlib.h>

static __typeof__(fake_plugin_copies) *copies;
static __typeof__(fake_plugin_living) *living;
static __typeof__(fake_plugin_version) *version;

static mf_device_list devices(void)
{
    static char path[4096];
    if (!copies) {
        snprintf(path, sizeof path, "%s/tests/fake_plugin.so", getenv("MF_BUILD_DIR"));
        void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        copies = library ? (__typeof__(copies))(uintptr_t)dlsym(library, "fake_plugin_copies") : NULL;
        living = library ? (__typeof__(living))(uintptr_t)dlsym(library, "fake_plugin_living") : NULL;
        version = library ? (__typeof__(version))(uintptr_t)dlsym(library, "fake_plugin_version") : NULL;
        CHECK_EQ_INT(mf_register_plugin("fake plugin", path, NULL), MF_OK);
    }
    return mf_devices_of("fake plugin");
}

static void forget_copies(void)
{
    for (int way = 0; way < FAKE_WAYS; way++)
        (void)copies(way);
}

static mf_value first(mf_value x, mf_value y) { return mf_add(x, y); } /* the fake plugin returns x */
static mf_value on(mf_value v, int device) { return mf_device_put(v, devices().at[device]); }

TEST(what_is_on_a_device_goes_to_another_without_the_host)
{
    MF_SCOPE;
    REQUIRE(devices().count == 4);
    mf_value x = on(mf_arange(1000, MF_F32), 0), y = mf_call(mf_jit(first), x, x);
    CHECK_EQ_INT(mf_block_until_ready(y), MF_OK);
    forget_copies();
    mf_value there = on(y, 2);
    CHECK_EQ_INT(mf_device_id(mf_devices_of_array(there).at[0]), 2);
    CHECK_EQ_INT(copies(FAKE_TO_DEVICE), 1);
    CHECK_EQ_INT(copies(FAKE_TO_HOST), 0);
    CHECK_EQ_INT(copies(FAKE_FROM_HOST), 0);
    mf_value z = mf_call(mf_jit(first), there, there);
    CHECK_EQ_INT(copies(FAKE_FROM_HOST), 0);
    CHECK_NEAR(mf_item_f64(mf_get(z, 999)), 999, 0);
}

static mf_value sum_of(mf_value x) { return mf_psum(x, "i"); }

TEST(rows_go_to_other_devices_without_the_host)
{
    MF_SCOPE;
    REQUIRE(devices().count == 4);
    mf_device turned[4];
    for (int i = 0; i < 4; i++)
        turned[i] = devices().at[3 - i];
    mf_value rows = mf_place(mf_arange(4, MF_F32), devices());
    mf_value r = mf_call(mf_pmap(sum_of, .axis_name = "i", .backend = "fake plugin"), rows);
    CHECK_EQ_INT(mf_block_until_ready(r), MF_OK);
    forget_copies();
    mf_value placed = mf_place(r, (mf_device_list){ 4, turned });
    CHECK_EQ_INT(copies(FAKE_TO_DEVICE), 4);
    mf_value again = mf_call(mf_pmap(sum_of, .axis_name = "i", .devices = { 4, turned }), r); /* the operand is another map's result */
    CHECK_EQ_INT(copies(FAKE_TO_DEVICE), 4);
    CHECK_EQ_INT(copies(FAKE_TO_HOST) + copies(FAKE_FROM_HOST), 0);
    CHECK_STR(mf_str(placed), "[0. 1. 2. 3.]");
    CHECK_STR(mf_str(again), "[0. 1. 2. 3.]");
}

static mf_value rows_of_rows(mf_value x) { return mf_call(mf_pmap(sum_of, .axis_name = "i"), x); }

TEST(what_a_nested_map_gave_stays_on_its_devices)
{
    MF_SCOPE;
    REQUIRE(devices().count == 4);
    mf_function f = mf_pmap(rows_of_rows, .axis_name = "j", .backend = "fake plugin");
    mf_value r = mf_call(f, mf_reshape(mf_arange(4, MF_F32), MF_SHAPE(2, 2)));
    CHECK_EQ_INT(mf_devices_of_array(r).count, 4);
    forget_copies();
    mf_value again = mf_call(f, mf_call(f, r));
    CHECK_EQ_INT(mf_block_until_ready(again), MF_OK);
    CHECK_EQ_INT(copies(FAKE_TO_DEVICE) + copies(FAKE_TO_HOST) + copies(FAKE_FROM_HOST), 0);
}

TEST(a_plugin_that_copies_nothing_itself_goes_by_the_host)
{
    MF_SCOPE;
    REQUIRE(devices().count == 4);
    mf_value x = on(mf_arange(4, MF_F32), 0), y = mf_call(mf_jit(first), x, x);
    version(0, 115, 0, PJRT_BUFFER_COPY_TO_DEVICE);
    CHECK_STR(mf_str(on(y, 1)), "[0. 1. 2. 3.]");
    version(0, 115, 0, -1);
}

TEST(a_number_crosses_once_for_each_device)
{
    MF_SCOPE;
    REQUIRE(devices().count == 4);
    mf_function f = mf_pmap(first, .axis_name = "i", .in_axes = mf_axes(0, MF_NONE), .backend = "fake plugin");
    mf_value x = mf_place(mf_arange(4, MF_F32), devices());
    CHECK_EQ_INT(mf_block_until_ready(mf_call(f, x, 0.5f)), MF_OK);
    forget_copies();
    for (int i = 0; i < 10; i++)
        CHECK_EQ_INT(mf_block_until_ready(mf_call(f, x, 0.5f)), MF_OK);
    CHECK_EQ_INT(copies(FAKE_FROM_HOST), 0);
    CHECK_EQ_INT(mf_block_until_ready(mf_call(f, x, 0.25f)), MF_OK);
    CHECK_EQ_INT(copies(FAKE_FROM_HOST), 1);
    CHECK_EQ_INT(copies(FAKE_TO_DEVICE), 3); /* from one device to the others */
}

TEST(a_small_array_crosses_once_for_each_device)
{
    MF_SCOPE;
    REQUIRE(devices().count == 4);
    mf_function f = mf_jit(first);
    mf_value x = on(mf_arange(16, MF_F32), 0), y = on(mf_reshape(mf_arange(16, MF_F32), MF_SHAPE(2, 8)), 0);
    CHECK_EQ_INT(mf_block_until_ready(mf_call(f, x, mf_arange(16, MF_F32))), MF_OK);
    forget_copies();
    for (int i = 0; i < 10; i++)
        CHECK_EQ_INT(mf_block_until_ready(mf_call(f, x, mf_arange(16, MF_F32))), MF_OK);
    CHECK_EQ_INT(copies(FAKE_FROM_HOST), 0);
    CHECK_EQ_INT(mf_block_until_ready(mf_call(f, y, mf_reshape(mf_arange(16, MF_F32), MF_SHAPE(2, 8)))), MF_OK); /* of another shape */
    CHECK_EQ_INT(copies(FAKE_FROM_HOST), 1);
    for (int i = 0; i < 2; i++)
        CHECK_EQ_INT(mf_block_until_ready(mf_call(f, on(mf_arange(17, MF_F32), 0), mf_arange(17, MF_F32))), MF_OK);
    CHECK_EQ_INT(copies(FAKE_FROM_HOST), 4);
}

static mf_value second(mf_value x, mf_value y) { return mf_mul(y, x); }

TEST(a_number_that_others_hold_is_not_taken)
{
    MF_SCOPE;
    REQUIRE(devices().count == 4);
    mf_function f = mf_jit(second, .donate_argnums = MF_INTS(0));
    for (int i = 0; i < 3; i++) {
        mf_value half = on(mf_scalar(0.5, MF_F32), 1), r = mf_call(f, half, on(mf_scalar(2, MF_F32), 1));
        CHECK_EQ_INT(mf_block_until_ready(r), MF_OK);
        CHECK(mf_is_error(mf_add(half, 1)));
    }
}

TEST(the_hosts_memory_is_read_in_place_and_stays)
{
    REQUIRE(devices().count == 4);
    int buffers = living(FAKE_BUFFER), waiting = living(FAKE_EVENT);
    {
        MF_SCOPE;
        forget_copies();
        mf_value x = on(mf_arange(100000, MF_F32), 0), y;
        {
            MF_SCOPE;
            mf_value alone = on(mf_add(mf_arange(100000, MF_F32), 1), 0);
            y = mf_keep(mf_call(mf_jit(first), alone, x));
        }
        CHECK_EQ_INT(copies(FAKE_FROM_HOST), 2);
        CHECK_EQ_INT(copies(FAKE_ALIAS), 2);
        for (int i = 0; i < 4; i++) /* meanwhile memory of that size is reused */
            CHECK_NEAR(mf_item_f64(mf_get(mf_zeros(MF_SHAPE(100000), MF_F32), 7)), 0, 0);
        mf_value again = mf_call(mf_jit(first), x, x);
        CHECK_NEAR(mf_item_f64(mf_get(again, 99999)), 99999, 0);
        CHECK_NEAR(mf_item_f64(mf_get(y, 99999)), 100000, 0);
        mf_release(y);
    }
    CHECK_EQ_INT(living(FAKE_BUFFER), buffers);
    CHECK_EQ_INT(living(FAKE_EVENT), waiting);
}
