/* Stateful functions under parallel maps: mf_pmap2 is pmap with rules that say how to map each state that the function reads or writes.
 * A random state is split. */
#include <manyfold.h>

#include <stdio.h>

/* A model with one parameter; each call adds its argument to it. */
static mf_value affine_call(mf_module self, mf_value delta)
{
    mf_state weight = mf_member_state(self, "weight");
    return mf_state_set_value(weight, mf_add(mf_state_value(weight), delta));
}

static mf_module affine(int size) { return mf_module_new("Affine", affine_call, "weight", mf_param_state(mf_ones(MF_SHAPE(size)))); }

static mf_value weight_of(mf_module model) { return mf_state_value(mf_member_state(model, "weight")); }

static mf_value add_with_scale(mf_value delta, mf_value scale) { return mf_add(delta, scale); }

static mf_value sample_normal(mf_value scale) { return mf_mul(mf_random_normal(mf_random_next(mf_random_default()), MF_SHAPE()), scale); }

static mf_value sample_shared(mf_value key, mf_value scale) { return mf_mul(mf_random_normal(key, MF_SHAPE()), scale); }

static mf_function donating_pmap(mf_function f, const mf_pmap_options *options)
{
    mf_pmap_options with_donation = *options;
    with_donation.donate_argnums = MF_INTS(0);
    return mf_pmap_opt(f, &with_donation);
}

static void parameters(mf_state_axis_rules params_over_0)
{
    int n = mf_local_device_count();
    mf_module model = affine(n);
    mf_function pmapped_update = mf_pmap2(model, "devices", .state_in_axes = params_over_0, .state_out_axes = params_over_0);
    mf_value per_device_delta = mf_reshape(mf_arange(n * 4, MF_F32), MF_SHAPE(n, 4));
    mf_value updated = mf_call(pmapped_update, per_device_delta); /* each device gets its own delta */
    printf("updated shape: %s\n", mf_str(mf_shape_of(updated)));
    printf("final weights: %s\n", mf_str(weight_of(model)));
}

static void some_devices(mf_state_axis_rules params_over_0)
{
    mf_device_list logical_devices = mf_device_slice(mf_devices(), 0, 2);
    mf_module model = affine(logical_devices.count);
    mf_function pairwise_update = mf_pmap2(model, "pair", .devices = logical_devices, .state_in_axes = params_over_0,
                                           .state_out_axes = params_over_0);
    mf_value ones = mf_ones(MF_SHAPE(4));
    mf_call(pairwise_update, mf_stack(mf_list(ones, mf_neg(ones))));
    printf("weights after pairwise update: %s\n", mf_str(weight_of(model)));

    printf("%s\n", mf_function_type(pairwise_update));
    printf("origin fun: %s\n", mf_str(mf_function_origin(pairwise_update)));
    printf("state_in_axes: %s\n", mf_str_state_axis_rules(mf_function_state_in_axes(pairwise_update)));
}

/* A random state is split, so that every device draws from its own key. A key passed as an argument can be broadcast to all devices. */
static void random_numbers(void)
{
    mf_value per_device_scales = mf_linspace(1.0, 2.0, mf_local_device_count());
    mf_random_seed(0);
    mf_print(mf_call(mf_pmap2(sample_normal, "devices"), per_device_scales));
    mf_function shared = mf_pmap2(sample_shared, "devices", .in_axes = mf_axes(MF_NONE, 0));
    mf_print(mf_call(shared, mf_random_key(0), per_device_scales));
}

static void own_mapping_function(mf_state_axis_rules params_over_0)
{
    int n = mf_local_device_count();
    mf_module model = affine(n);
    mf_function custom_pmap = mf_stateful_mapping(model, "devices", .state_in_axes = params_over_0, .state_out_axes = params_over_0,
                                                  .mapping_fn = donating_pmap);
    mf_call(custom_pmap, mf_ones(MF_SHAPE(n, 4)));
    mf_print(weight_of(model));
}

int main(void)
{
    mf_set_num_cpu_devices(8);
    printf("local device count: %d\n", mf_local_device_count());
    mf_state_axis_rules params_over_0 = MF_STATE_AXES(0, mf_of_type(MF_PARAM_STATE));
    parameters(params_over_0);
    some_devices(params_over_0);
    mf_print(mf_call(mf_pmap2(add_with_scale, "devices", .in_axes = mf_axes(0, MF_NONE)), mf_arange(mf_local_device_count()), 0.5));
    random_numbers();
    own_mapping_function(params_over_0);
    return mf_exit_status();
}
