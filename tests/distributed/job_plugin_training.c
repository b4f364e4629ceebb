/* Several processes train one model, each on the devices of a plugin: a map over the process's own devices, and then the mean over
 * processes. Compared with the same training as one map over all processes' CPU devices. Uses XLA's CPU plugin; skipped if there is none.
 * Jobs: 2+2 1+3 */
#include "pjrt/cpu_plugin.h"

static mf_device_list devices(void)
{
    char path[4096], options[64];
    snprintf(options, sizeof options, "cpu_device_count=%d", mf_local_device_count());
    if (!find_cpu_plugin(path, sizeof path))
        return (mf_device_list){ 0 };
    CHECK_EQ_INT(mf_register_plugin("xla", path, options), MF_OK);
    return mf_devices_of("xla");
}

static mf_value loss(mf_value w, mf_value x, mf_value y) { return mf_mean(mf_square(mf_sub(mf_matmul(x, w), y))); }
static mf_value gradient(mf_value w, mf_value x, mf_value y) { return mf_psum(mf_call(mf_grad(loss), w, x, y), "i"); }
static mf_value sum_of_all(mf_value g) { return mf_sum(g, 0); }
static mf_value descend(mf_value w, mf_value gradient_sum) { return mf_sub(w, mf_mul(0.1f / (float)mf_device_count(), gradient_sum)); }

TEST(two_ways_to_the_same_parameters)
{
    mf_device_list here = devices();
    if (!here.count)
        SKIP("no plugin");
    mf_value key = mf_random_fold_in(mf_random_key(0), mf_process_index());
    mf_value x = mf_random_normal(key, MF_SHAPE(here.count, 16, 3), MF_F32), y = mf_matmul(x, mf_array(MF_F32, MF_SHAPE(3), 1, 2, 3));
    mf_function on_plugin = mf_pmap(gradient, .axis_name = "i", .devices = here, .in_axes = mf_axes(MF_NONE, 0, 0), .out_axes = MF_NONE);
    mf_function on_cpu = mf_pmap(gradient, .axis_name = "i", .in_axes = mf_axes(MF_NONE, 0, 0), .out_axes = MF_NONE);
    mf_value w = mf_zeros(MF_SHAPE(3), MF_F32), v = w;
    for (int i = 0; i < 50; i++) {
        w = descend(w, mf_tree_map(mf_fn(sum_of_all), mf_process_allgather(mf_call(on_plugin, w, x, y))));
        v = descend(v, mf_call(on_cpu, v, x, y));
    }
    float trained[3], expected[3];
    REQUIRE(CHECK_EQ_INT(mf_to_host(w, MF_F32, trained, 3), MF_OK) && CHECK_EQ_INT(mf_to_host(v, MF_F32, expected, 3), MF_OK));
    for (int i = 0; i < 3; i++)
        CHECK_NEAR(trained[i], expected[i], 1e-5);
    CHECK_NEAR(mf_item_f64(mf_get(w, 2)), 3, 0.5);
}
