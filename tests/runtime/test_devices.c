/* Devices: their number is fixed at first use; lists, slices and names; what is refused in the child of a fork. */
#include "check.h"
#include "run_text.h"

#include <manyfold/device.h>

#include <sys/wait.h>
#include <unistd.h>

TEST(devices_are_set_before_first_use)
{
    CHECK(mf_set_num_cpu_devices(0) == MF_ERROR_ARGUMENT);
    CHECK(mf_set_num_cpu_devices(6) == MF_OK);
    mf_device_list all = mf_devices();
    CHECK_EQ_INT(all.count, 6);
    CHECK_EQ_INT(mf_device_count(), 6);
    CHECK(mf_set_num_cpu_devices(7) == MF_ERROR_DEVICE);
    CHECK(mf_set_num_cpu_devices(6) == MF_OK);
    for (int i = 0; i < 6; i++)
        CHECK_EQ_INT(mf_device_id(all.at[i]), i);
    CHECK_EQ_INT(mf_device_id((mf_device){ 3 }), -1);
    CHECK_STR(mf_device_platform(all.at[0]), "cpu");
    mf_device_list last = mf_device_slice(all, -2, MF_END);
    CHECK_EQ_INT(last.count, 2);
    CHECK_EQ_INT(mf_device_id(last.at[0]), 4);
    CHECK_EQ_INT(mf_device_slice(all, 4, 2).count, 0);
    CHECK_EQ_INT(mf_devices_of("cpu").count, 6);
    CHECK_EQ_INT(mf_devices_of("tpu").count, 0);
}

TEST(backends_go_by_name)
{
    CHECK(mf_set_default_backend("reference") == MF_OK);
    CHECK_STR(mf_default_backend(), "reference");
    CHECK(mf_set_default_backend("tpu") == MF_ERROR_ARGUMENT);
    const char *message = NULL;
    mf_first_error(&message);
}

TEST(a_map_over_chosen_devices)
{
    mf_error_object *error = NULL;
    mf_executable *x = executable_of(
        "program (a: f32[2]) { b: f32[2] = pmap[axis_size=2, in_axes=(0), out_axes=(0), devices=(5,3), program=(x: f32[]) { y: f32[] = neg x\n return y }] a\n return b }",
        NULL, &error);
    REQUIRE(x);
    mf_array *a = counting("f32[2]", 1), *out[1];
    REQUIRE(CHECK(start(x, &a, out)));
    CHECK_EQ_INT(out[0]->sharding->device_count, 2);
    CHECK_EQ_INT(out[0]->sharding->devices[0], 5);
    CHECK_EQ_INT(out[0]->sharding->devices[1], 3);
    mf_drop(out[0]);
    mf_drop(a);
    mf_drop(x);
}

TEST(after_fork_a_run_is_an_error)
{
    mf_error_object *error = NULL;
    mf_executable *x = executable_of("program (a: f32[2]) { b: f32[2] = neg a\n return b }", NULL, &error);
    REQUIRE(x);
    mf_array *a = counting("f32[2]", 1), *out[1];
    mf_executable_inline_below(0);
    REQUIRE(CHECK(start(x, &a, out)));
    mf_drop(out[0]);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        _exit(mf_executable_run(x, &a, NULL, out) == &mf_error_fork_object ? 0 : 1);
    int status = -1;
    waitpid(child, &status, 0);
    CHECK_EQ_INT(status, 0);
    mf_executable_inline_below(200000);
    mf_drop(a);
    mf_drop(x);
}
