/* First steps with parallel maps: scale an array on every device, add a broadcast value, sum across devices. Set MF_NUM_CPU_DEVICES to
 * choose the number of devices.
 *
 * As in JAX, a mapped function is traced: its C code runs once for each signature (shapes and dtypes of the arguments), so its printf
 * prints during tracing and not in later calls. */
#include <manyfold.h>

#include <stdio.h>

static mf_value scale_by_two(mf_value x)
{
    printf("Compiling and running scale_by_two...\n");
    return mf_mul(x, 2);
}

static mf_value scale_and_add(mf_value x, mf_value y)
{
    printf("Compiling and running scale_and_add on device %d...\n", mf_process_index());
    return mf_add(mf_mul(x, 2), y);
}

static mf_value scale_and_sum(mf_value x)
{
    printf("Compiling and running scale_and_sum on device %d...\n", mf_process_index());
    mf_value scaled_x = mf_mul(x, 2);
    mf_value local_sum = mf_sum(scaled_x); /* on this device */
    mf_value global_sum = mf_psum(local_sum, "devices");
    return mf_tuple(scaled_x, global_sum);
}

static void scale(mf_value sharded_data)
{
    mf_function parallel_scale = mf_pmap(scale_by_two);
    mf_value result = mf_call(parallel_scale, sharded_data);
    printf("\nOutput shape: %s\n", mf_str(mf_shape_of(result)));
    printf("Output type: %s\n", mf_str(mf_dtype_of(result)));
    printf("Output content:\n%s\n", mf_str(result));

    mf_value again = mf_call(parallel_scale, mf_add(sharded_data, 100));
    printf("\nCalled again, without tracing:\n%s\n", mf_str(again));
}

static void scale_and_broadcast(mf_value sharded_data)
{
    mf_value scalar_y = mf_scalar(100.0, MF_F32);
    mf_function parallel_scale_add = mf_pmap(scale_and_add, .in_axes = mf_axes(0, MF_NONE));
    mf_value result_add = mf_call(parallel_scale_add, sharded_data, scalar_y);
    printf("\nInput x shape: %s\n", mf_str(mf_shape_of(sharded_data)));
    printf("Input y: %s\n", mf_str(scalar_y));
    printf("\nOutput shape: %s\n", mf_str(mf_shape_of(result_add)));
    printf("Output content:\n%s\n", mf_str(result_add));
}

static void sum_across(mf_value sharded_data, int total_data_size)
{
    mf_value result_scaled, result_sum;
    mf_function parallel_scale_sum = mf_pmap(scale_and_sum, "devices");
    mf_unpack(mf_call(parallel_scale_sum, sharded_data), &result_scaled, &result_sum);
    mf_value expected_sum = mf_sum(mf_mul(mf_arange(total_data_size), 2));
    printf("\nOutput scaled data shape: %s\n", mf_str(mf_shape_of(result_scaled)));
    printf("Output scaled data:\n%s\n", mf_str(result_scaled));
    printf("\nOutput sum shape: %s\n", mf_str(mf_shape_of(result_sum)));
    printf("Output sum (replicated across devices):\n%s\n", mf_str(result_sum));
    printf("Expected global sum: %s\n", mf_str(expected_sum));
    printf("Sum computed by pmap (device 0): %s\n", mf_str(mf_get(result_sum, 0)));
}

int main(void)
{
    int num_devices = mf_device_count();
    printf("Number of devices available: %d\n", num_devices);
    printf("Available devices: %s\n", mf_str(mf_devices()));

    int data_size_per_device = 4, total_data_size = num_devices * data_size_per_device;
    mf_value global_data = mf_arange(total_data_size);
    mf_value sharded_data = mf_reshape(global_data, MF_SHAPE(num_devices, data_size_per_device));
    printf("Global data shape: %s\n", mf_str(mf_shape_of(global_data)));
    printf("Sharded data shape: %s\n", mf_str(mf_shape_of(sharded_data)));
    printf("Sharded data:\n%s\n", mf_str(sharded_data));

    scale(sharded_data);
    scale_and_broadcast(sharded_data);
    sum_across(sharded_data, total_data_size);
    return mf_exit_status();
}
