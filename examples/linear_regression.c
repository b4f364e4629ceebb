/* Data-parallel linear regression: each device holds a shard of the samples, gradients are averaged over the devices, and every device
 * makes the same update, so the parameters stay equal everywhere. The program checks this bit for bit after every step.
 *
 *     linear_regression [--devices N] */
#include <manyfold.h>

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { feature_dim = 5, samples_per_device = 100, num_epochs = 50 };

/* ---- the model */

static mf_value linear_model(mf_value params, mf_value x)
{
    mf_value w, b;
    mf_unpack(params, &w, &b);
    return mf_add(mf_dot(x, w), b);
}

static mf_value mean_squared_error(mf_value params, mf_value x, mf_value y)
{
    mf_value error = mf_sub(linear_model(params, x), y);
    return mf_mean(mf_pow(error, 2));
}

/* ---- one step, as each device runs it */

static mf_value descend(mf_value p, mf_value g, mf_value learning_rate) { return mf_sub(p, mf_mul(learning_rate, g)); }

static mf_value distributed_train_step(mf_value params, mf_value x_shard, mf_value y_shard, mf_value learning_rate)
{
    mf_value loss, grads;
    mf_unpack(mf_call(mf_value_and_grad(mean_squared_error), params, x_shard, y_shard), &loss, &grads);
    mf_value avg_grads = mf_pmean(grads, "batch");
    mf_value new_params = mf_tree_map(descend, params, avg_grads, learning_rate);
    return mf_tuple(new_params, mf_pmean(loss, "batch"));
}

static mf_value broadcast(mf_value x) { return x; }
static mf_value first(mf_value x) { return mf_get(x, 0); }

/* ---- the data */

typedef struct samples {
    mf_value key, true_w, true_b, x, y; /* key: for later draws */
} samples;

static samples draw_samples(int num_devices)
{
    int64_t n = (int64_t)samples_per_device * num_devices;
    mf_value key = mf_random_key(0), w_key, b_key, x_key, noise_key;
    mf_unpack(mf_random_split(key, 5), &key, &w_key, &b_key, &x_key, &noise_key);
    samples s = { .key = key };
    s.true_w = mf_random_normal(w_key, MF_SHAPE(feature_dim));
    s.true_b = mf_random_normal(b_key, MF_SHAPE());
    s.x = mf_random_normal(x_key, MF_SHAPE(n, feature_dim));
    mf_value noise = mf_mul(mf_random_normal(noise_key, MF_SHAPE(n)), 0.1);
    s.y = mf_add(mf_add(mf_dot(s.x, s.true_w), s.true_b), noise);
    return s;
}

static mf_value initial_params(mf_value key)
{
    mf_value rest, w_init_key, b_init_key;
    mf_unpack(mf_random_split(key, 3), &rest, &w_init_key, &b_init_key);
    mf_value initial_w = mf_random_normal(w_init_key, MF_SHAPE(feature_dim));
    return mf_tuple(initial_w, mf_random_normal(b_init_key, MF_SHAPE()));
}

/* ---- the check: row d of a stacked parameter is device d's copy */

static bool same_bits_on_all(mf_value stacked)
{
    int64_t devices = mf_dim(stacked, 0), count = mf_size(stacked);
    float *rows = malloc((size_t)(count > 0 ? count : 1) * sizeof *rows);
    bool same = rows && count > 0 && mf_to_host(stacked, MF_F32, rows, (size_t)count) == MF_OK;
    size_t row = same ? (size_t)(count / devices) : 0;
    for (int64_t d = 1; same && d < devices; d++)
        same = memcmp(rows, rows + (size_t)d * row, row * sizeof *rows) == 0;
    free(rows);
    return same;
}

/* ---- training */

static mf_value replicated(mf_value params)
{
    mf_value copies = mf_call(mf_pmap(broadcast, .in_axes = MF_NONE, .out_axes = 0), params);
    printf("Shape of initial w: %s\n", mf_str(mf_shape_of(mf_get(params, 0))));
    printf("Shape of replicated w: %s\n", mf_str(mf_shape_of(mf_get(copies, 0))));
    printf("Shape of initial b: %s\n", mf_str(mf_shape_of(mf_get(params, 1))));
    printf("Shape of replicated b: %s\n", mf_str(mf_shape_of(mf_get(copies, 1))));
    return copies;
}

/* Trains *params. Returns the number of steps after which all devices had bit-equal parameters. */
static int train(mf_value *params, mf_value sharded_x, mf_value sharded_y)
{
    mf_function p_train_step = mf_pmap(distributed_train_step, "batch", .in_axes = mf_axes(0, 0, 0, MF_NONE), .out_axes = 0,
                                       .static_broadcasted_argnums = MF_INTS(3));
    int same = 0;
    for (int epoch = 0; epoch < num_epochs; epoch++) {
        MF_SCOPE;
        mf_value next, loss;
        mf_unpack(mf_call(p_train_step, *params, sharded_x, sharded_y, 0.05), &next, &loss);
        mf_assign(params, next);
        if (mf_is_error(next))
            break;
        same += same_bits_on_all(mf_get(next, 0)) && same_bits_on_all(mf_get(next, 1));
        if ((epoch + 1) % 10 == 0)
            printf("Epoch %d/%d, Loss: %.4f\n", epoch + 1, num_epochs, mf_item_f64(mf_get(loss, 0)));
    }
    return same;
}

static void run(int num_devices)
{
    samples s = draw_samples(num_devices);
    mf_value sharded_x = mf_reshape(s.x, MF_SHAPE(num_devices, samples_per_device, feature_dim));
    mf_value sharded_y = mf_reshape(s.y, MF_SHAPE(num_devices, samples_per_device));
    printf("Total samples: %d\n", samples_per_device * num_devices);
    printf("Samples per device: %d\n", samples_per_device);
    printf("Shape of sharded X: %s\n", mf_str(mf_shape_of(sharded_x)));
    printf("Shape of sharded y: %s\n", mf_str(mf_shape_of(sharded_y)));

    mf_value current_params = replicated(initial_params(s.key));
    printf("\nStarting distributed training...\n");
    int same = train(&current_params, sharded_x, sharded_y);

    mf_value final_params = mf_tree_map(first, current_params);
    printf("\nTraining finished.\n");
    printf("Learned w: %s\n", mf_str(mf_get(final_params, 0)));
    printf("True w:  %s\n", mf_str(s.true_w));
    printf("Learned b: %s\n", mf_str(mf_get(final_params, 1)));
    printf("True b:  %s\n", mf_str(s.true_b));
    if (num_devices > 1)
        printf("Devices 0 and 1 agree on w: %s\n", mf_str(mf_allclose(mf_get(current_params, 0, 0), mf_get(current_params, 0, 1))));
    printf("Parameters bit-equal on all devices after %d of %d steps\n", same, num_epochs);
}

int main(int argc, char **argv)
{
    static const struct option options[] = { { "devices", required_argument, NULL, 'd' }, { "help", no_argument, NULL, 'h' }, { 0 } };
    int num_devices = 8, option;
    while ((option = getopt_long(argc, argv, "d:h", options, NULL)) != -1) {
        if (option == 'd' && (num_devices = atoi(optarg)) > 0)
            continue;
        printf("usage: linear_regression [--devices N]\nLinear regression on N devices (8), data-parallel.\n");
        return option == 'h' ? EXIT_SUCCESS : EXIT_FAILURE;
    }
    mf_set_num_cpu_devices(num_devices);
    printf("Number of available devices: %d\n", mf_local_device_count());
    if (num_devices < 2)
        printf("Warning: This example is best run with multiple devices (real or simulated).\n");
    run(num_devices);
    return mf_exit_status();
}
