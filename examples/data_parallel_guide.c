/* The guide "Data Parallelism with pmap" in C, from its first step to its pitfalls, in its order and under its headings. Every device holds
 * the same model and works on its shard of each batch; pmean averages the gradients, so all devices make the same update. data_parallel.c
 * is the complete program that the guide ends with. */
#include <manyfold.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

enum { num_classes = 10, image_count = 256, total_batch_size = 128 };

static void section(const char *title) { printf("\n== %s\n", title); }
static void heading(const char *title) { printf("\n%s\n", title); }
static mf_value count_up(mf_value sum, mf_value x) { return mf_add(sum, (long long)mf_size(x)); }
static double first(mf_value x) { return mf_item_f64(mf_get(x, 0)); } /* x: one value per device, all equal */

/* ---- Step 2: Define Your Model */

static mf_value cnn_call(mf_module self, mf_value x)
{
    x = mf_relu(mf_call(mf_member_module(self, "conv1"), x));
    x = mf_max_pool(x, .window_shape = MF_INTS(2, 2), .strides = MF_INTS(2, 2));
    x = mf_relu(mf_call(mf_member_module(self, "conv2"), x));
    x = mf_max_pool(x, .window_shape = MF_INTS(2, 2), .strides = MF_INTS(2, 2));
    x = mf_reshape(x, MF_SHAPE(mf_dim(x, 0), -1));
    return mf_call(mf_member_module(self, "dense"), x);
}

static mf_module cnn(mf_state rngs)
{
    mf_module conv1 = mf_nn_conv(rngs, 3, 32, .kernel_size = MF_INTS(3, 3));
    mf_module conv2 = mf_nn_conv(rngs, 32, 64, .kernel_size = MF_INTS(3, 3));
    return mf_module_new("CNNModel", cnn_call, "conv1", conv1, "conv2", conv2, "dense", mf_nn_linear(rngs, 64 * 8 * 8, num_classes));
}

/* ---- Step 4: Create Parallel Training Step. The step merges the optimiser's structure (the context) with its values (the argument). */

typedef struct loss_context {
    mf_module model;
    mf_value batch;
} loss_context;

static mf_value loss_fn(void *context)
{
    loss_context *c = context;
    mf_value label = mf_get(c->batch, "label"), logits = mf_call(c->model, mf_get(c->batch, "image"));
    mf_value loss = mf_mean(mf_softmax_cross_entropy(logits, mf_one_hot(label, num_classes)));
    return mf_tuple(loss, mf_dict("accuracy", mf_mean(mf_equal(mf_argmax(logits, -1), label))));
}

static mf_value train_step(void *optimizer, mf_value state, mf_value batch)
{
    mf_module merged = mf_module_merge(*(mf_module *)optimizer, state);
    loss_context c = { mf_member_module(merged, "model"), batch };
    mf_function grad_fn = mf_value_and_grad(mf_closure(loss_fn, &c), .has_aux = true, .states = mf_of_type(MF_PARAM_STATE));
    mf_value loss_and_metrics, loss, metrics, grads;
    mf_unpack(mf_call(grad_fn), &loss_and_metrics, &grads);
    mf_unpack(loss_and_metrics, &loss, &metrics);
    grads = mf_pmean(grads, "devices"); /* all devices have the same gradient from here on */
    loss = mf_pmean(loss, "devices");
    metrics = mf_pmean(metrics, "devices");
    mf_nn_optimizer_update(merged, grads);
    return mf_tuple(mf_module_values(merged, mf_everything()), loss, metrics);
}

/* ---- the first six steps */

/* Images of noise; each class is a little brighter than the class before it. */
static mf_value pictures(void)
{
    mf_value key = mf_random_key(1), label = mf_remainder(mf_arange(image_count), num_classes);
    mf_value noise = mf_random_normal(key, MF_SHAPE(image_count, 32, 32, 3));
    mf_value light = mf_reshape(mf_astype(label, MF_F32), MF_SHAPE(image_count, 1, 1, 1));
    return mf_dict("image", mf_add(mf_mul(noise, 0.1), mf_div(light, num_classes)), "label", label);
}

static mf_value first_images(mf_value data, int count)
{
    mf_slice some = mf_range(0, count);
    return mf_dict("image", mf_get(mf_get(data, "image"), some), "label", mf_get(mf_get(data, "label"), some));
}

static void check_devices(void)
{
    heading("Step 1: Check Available Devices");
    printf("Available devices: %d\n", mf_local_device_count());
    printf("Devices: %s\n", mf_str(mf_local_devices()));
}

static void training_loop(mf_module optimizer, mf_value *state, mf_value data)
{
    heading("Step 6: Training Loop");
    mf_function step = mf_pmap(mf_closure(train_step, &optimizer), "devices", .donate_argnums = MF_INTS(0));
    mf_loader *loader = mf_loader_open(data, .batch_size = total_batch_size, .shuffle = true);
    for (int epoch = 0; epoch < 3; epoch++) {
        mf_value batch, loss_sum = mf_scalar(0, MF_F32);
        int batches = 0;
        while (mf_loader_next(loader, &batch)) {
            mf_value loss, metrics;
            mf_unpack(mf_call(step, *state, mf_shard_batch(batch, mf_local_device_count())), state, &loss, &metrics);
            loss_sum = mf_add(loss_sum, mf_get(loss, 0)); /* stays on the device */
            batches++;
        }
        printf("Epoch %d: Loss=%.2f\n", epoch + 1, mf_item_f64(loss_sum) / batches);
    }
    mf_loader_close(loader);
}

/* ---- Deep Dive: Gradient Synchronization */

static mf_value synchronized(mf_value grad) { return mf_pmean(grad, "devices"); }

static void during_pmean(void)
{
    heading("What Happens During pmean");
    mf_value grads = mf_add(mf_array_n(MF_F32, MF_SHAPE(3, 1), (double[]){ 1.0, 1.5, 0.5 }, 3), mf_arange(3, MF_F32));
    mf_value after = mf_call(mf_pmap(synchronized, "devices"), grads);
    for (int device = 0; device < 3; device++)
        printf("Device %d: grad = %s, after pmean %s\n", device, mf_str(mf_get(grads, device)), mf_str(mf_get(after, device)));
}

/* ---- Advanced Techniques. The model's structure is the context, its parameters are an argument, as with Flax's apply. */

typedef struct settings {
    mf_module model;
    mf_optimizer tx;
} settings;

static mf_value mean_loss(void *model, mf_value params, mf_value batch)
{
    mf_value logits = mf_apply(*(mf_module *)model, params, mf_get(batch, "image"));
    return mf_mean(mf_softmax_cross_entropy_with_integer_labels(logits, mf_get(batch, "label")));
}

typedef struct micro_context {
    mf_module model;
    mf_value params;
} micro_context;

static mf_value add_up(mf_value a, mf_value b) { return mf_add(a, b); }

static mf_value accumulate(void *context, mf_value sums, mf_value microbatch)
{
    micro_context *c = context;
    mf_value grads = mf_call(mf_grad(mf_closure(mean_loss, &c->model)), c->params, microbatch);
    return mf_tuple(mf_tree_map(add_up, sums, grads), mf_none());
}

static mf_value zeros(mf_value x) { return mf_zeros_like(x); }
static mf_value divide(void *count, mf_value x) { return mf_div(x, *(int *)count); }

/* batches: on each device (microbatches, images, ...) */
static mf_value train_step_with_accumulation(void *context, mf_value state, mf_value batches)
{
    settings *s = context;
    micro_context c = { s->model, mf_get(state, "params") };
    int count = (int)mf_dim(mf_get(batches, "label"), 0);
    mf_value sums = mf_get(mf_scan(mf_closure(accumulate, &c), mf_tree_map(zeros, c.params), batches), 0);
    mf_value grads = mf_pmean(mf_tree_map(mf_closure(divide, &count), sums), "devices");
    return mf_train_state_apply_gradients(s->tx, state, grads);
}

static mf_value train_step_plain(void *context, mf_value state, mf_value batch)
{
    settings *s = context;
    mf_value loss, grads;
    mf_unpack(mf_call(mf_value_and_grad(mf_closure(mean_loss, &s->model)), mf_get(state, "params"), batch), &loss, &grads);
    state = mf_train_state_apply_gradients(s->tx, state, mf_pmean(grads, "devices"));
    return mf_tuple(state, mf_pmean(loss, "devices"));
}

static mf_value distance(mf_value most, mf_value x) { return mf_maximum(most, mf_max(mf_abs(x))); }
static mf_value difference(mf_value a, mf_value b) { return mf_sub(a, b); }
static const char *equal_to_1e_6(mf_value a, mf_value b)
{
    return mf_item_f64(mf_tree_reduce(distance, mf_tree_map(difference, a, b), 0.0)) <= 1e-6 ? "yes" : "no";
}

/* Broadcasts the state to all devices. out_axes = None requires a result that is the same on all of them. */
static mf_function parallel(mf_function step) { return mf_pmap(step, "devices", .in_axes = mf_axes(MF_NONE, 0), .out_axes = MF_NONE); }

static mf_value cut(void *count, mf_value x) /* (devices, images, ...) to (devices, count, images / count, ...) */
{
    mf_shape from = mf_shape_of(x), to = { .rank = from.rank + 1, .dims = { from.dims[0], *(int *)count, from.dims[1] / *(int *)count } };
    for (int i = 2; i < from.rank; i++)
        to.dims[i + 1] = from.dims[i];
    return mf_reshape(x, to);
}

static void gradient_accumulation(settings s, mf_value state, mf_value batch)
{
    heading("1. Gradient Accumulation with pmap");
    int microbatches = 4;
    mf_value large = mf_get(mf_call(parallel(mf_closure(train_step_plain, &s)), state, batch), 0);
    mf_value small = mf_call(parallel(mf_closure(train_step_with_accumulation, &s)), state,
                             mf_tree_map(mf_closure(cut, &microbatches), batch));
    printf("%d microbatches a device, one update: step %s\n", microbatches, mf_str(mf_get(small, "step")));
    printf("equals the large batch to 1e-6: %s\n", equal_to_1e_6(mf_get(large, "params"), mf_get(small, "params")));
}

static mf_value to_bf16(mf_value x) { return mf_astype(x, MF_BF16); }

static mf_value mixed_loss(void *model, mf_value params, mf_value batch)
{
    mf_value x = mf_astype(mf_get(batch, "image"), MF_BF16); /* forward pass in bfloat16 */
    mf_value logits = mf_apply(*(mf_module *)model, mf_tree_map(to_bf16, params), x);
    logits = mf_astype(logits, MF_F32); /* loss in float32 */
    return mf_mean(mf_softmax_cross_entropy_with_integer_labels(logits, mf_get(batch, "label")));
}

static mf_value train_step_mixed_precision(void *context, mf_value state, mf_value batch)
{
    settings *s = context;
    mf_value loss, grads;
    mf_unpack(mf_call(mf_value_and_grad(mf_closure(mixed_loss, &s->model)), mf_get(state, "params"), batch), &loss, &grads);
    grads = mf_pmean(grads, "devices"); /* the gradients are float32, as the parameters are */
    return mf_tuple(mf_train_state_apply_gradients(s->tx, state, grads), mf_pmean(loss, "devices"));
}

static void mixed_precision(settings s, mf_value state, mf_value batch)
{
    heading("2. Mixed Precision Training");
    mf_value mixed = state, loss, mixed_loss_value;
    for (int step = 0; step < 4; step++) {
        mf_unpack(mf_call(parallel(mf_closure(train_step_plain, &s)), state, batch), &state, &loss);
        mf_unpack(mf_call(parallel(mf_closure(train_step_mixed_precision, &s)), mixed, batch), &mixed, &mixed_loss_value);
        double f32 = mf_item_f64(loss), bf16 = mf_item_f64(mixed_loss_value);
        printf("step %d: loss %.2f in float32, within 1%% of it in bfloat16: %s\n", step, f32,
               bf16 > 0.99 * f32 && bf16 < 1.01 * f32 ? "yes" : "no");
    }
    printf("weights are kept in %s\n", mf_str(mf_dtype_of(mf_get(mixed, "params", "dense", "kernel"))));
}

/* The loss summed over this device's unmasked images, divided by the number of unmasked images on all devices. A device without any
 * contributes 0, where its own mean would be 0 / 0. */
static mf_value masked_loss(void *model, mf_value params, mf_value batch)
{
    mf_value logits = mf_apply(*(mf_module *)model, params, mf_get(batch, "image")), mask = mf_get(batch, "mask");
    mf_value loss = mf_softmax_cross_entropy_with_integer_labels(logits, mf_get(batch, "label"));
    return mf_div(mf_sum(mf_mul(loss, mask)), mf_psum(mf_sum(mask), "devices"));
}

static mf_value train_step_dynamic(void *context, mf_value state, mf_value batch)
{
    settings *s = context;
    mf_value loss, grads;
    mf_unpack(mf_call(mf_value_and_grad(mf_closure(masked_loss, &s->model)), mf_get(state, "params"), batch), &loss, &grads);
    mf_unpack(mf_psum(mf_tuple(loss, grads), "devices"), &loss, &grads);
    return mf_tuple(mf_train_state_apply_gradients(s->tx, state, grads), loss);
}

static void dynamic_batches(settings s, mf_value state, mf_value data)
{
    heading("3. Dynamic Batch Sizes");
    const int counts[] = { 128, 100, 3 };
    for (int i = 0; i < 3; i++) {
        mf_value batch = first_images(data, counts[i]), sharded = mf_shard_batch(batch, mf_local_device_count(), .pad_last = true);
        mf_value next, loss, one, grads;
        mf_unpack(mf_call(parallel(mf_closure(train_step_dynamic, &s)), state, sharded), &next, &loss);
        mf_unpack(mf_call(mf_value_and_grad(mf_closure(mean_loss, &s.model)), mf_get(state, "params"), batch), &one, &grads);
        mf_value alone = mf_train_state_apply_gradients(s.tx, state, grads);
        mf_value images = mf_sum(mf_get(sharded, "mask"), .axis = -1);
        printf("%d images, by device %s\n", counts[i], mf_str(mf_astype(images, MF_I32)));
        printf("  the loss and the step of one device with all images, to 1e-6: %s, %s\n", equal_to_1e_6(loss, one),
               equal_to_1e_6(mf_get(next, "params"), mf_get(alone, "params")));
    }
}

/* ---- Performance Optimization */

static void batch_size_selection(void)
{
    heading("Batch Size Selection");
    int per_device = 32, devices = mf_local_device_count(), total = per_device * devices;
    double base_rate = 1e-3, scaled_rate = base_rate * total / 32;                         /* linear scaling rule */
    mf_function rate = mf_warmup_cosine_decay_schedule(base_rate, scaled_rate, 100, 1000); /* warm up to that rate */
    printf("%d images a device on %d devices: total %d, learning rate %g\n", per_device, devices, total, scaled_rate);
    printf("warmed up: %.4f at step 0, %.4f at 50, %.4f at 100, %.4f at 1000\n", mf_item_f64(mf_call(rate, 0)),
           mf_item_f64(mf_call(rate, 50)), mf_item_f64(mf_call(rate, 100)), mf_item_f64(mf_call(rate, 1000)));
}

static void device_utilization(settings s, mf_value state, mf_value batch)
{
    heading("Monitoring Device Utilization");
    const char *path = "data_parallel_guide.trace.json"; /* for chrome://tracing or ui.perfetto.dev */
    struct stat written;
    mf_status status = mf_profiler_start_trace(path);
    (void)mf_block_until_ready(mf_call(parallel(mf_closure(train_step_plain, &s)), state, batch));
    if (status == MF_OK)
        status = mf_profiler_stop_trace();
    printf("%s has been written: %s\n", path, status == MF_OK && stat(path, &written) == 0 && written.st_size > 0 ? "yes" : "no");
}

/* Losses stay on the devices; reading one blocks until its step is done. */
static void host_transfers(settings s, mf_value state, mf_value batch)
{
    heading("Avoiding Host-Device Transfers");
    mf_function step = parallel(mf_closure(train_step_plain, &s));
    mf_value loss = mf_none();
    for (int i = 0; i <= 8; i++) {
        mf_unpack(mf_call(step, state, batch), &state, &loss);
        if (i % 4 == 0)
            printf("Step %d: Loss=%.2f\n", i, mf_item_f64(loss));
    }
}

/* ---- Common Pitfalls, and the error message of each */

static mf_value careless_step(void *context, mf_value state, mf_value batch)
{
    settings *s = context;
    mf_value grads = mf_call(mf_grad(mf_closure(mean_loss, &s->model)), mf_get(state, "params"), batch);
    return mf_train_state_apply_gradients(s->tx, state, grads); /* missing: grads = mf_pmean(grads, "devices") */
}

static void pitfalls(settings s, mf_value state, mf_value data)
{
    heading("1. Batch Size Not Divisible by Device Count");
    printf("100: %s\n", mf_error(mf_shard_batch(first_images(data, 100), 8)));
    printf("96: %s\n", mf_str(mf_shape_of(mf_get(mf_shard_batch(first_images(data, 96), 8), "image"))));

    heading("2. Forgetting pmean");
    mf_value sharded = mf_shard_batch(first_images(data, 16), mf_local_device_count());
    printf("%s\n", mf_error(mf_call(parallel(mf_closure(careless_step, &s)), state, sharded)));

    heading("3. Incorrect Data Sharding");
    printf("%s\n", mf_error(mf_call(parallel(mf_closure(train_step_plain, &s)), state, first_images(data, total_batch_size))));
}

int main(void)
{
    section("Implementation Guide");
    check_devices();
    mf_value data = pictures(), batch = first_images(data, total_batch_size);

    heading("Step 2: Define Your Model");
    mf_module model = cnn(mf_random_state(0));
    int parameters = (int)mf_item_i64(mf_tree_reduce(count_up, mf_module_values(model, mf_of_type(MF_PARAM_STATE)), 0));
    printf("%d parameters\n", parameters);

    heading("Step 3: Replicate Model Across Devices");
    mf_module optimizer = mf_nn_optimizer(model, mf_adam(1e-3));
    mf_value state = mf_replicate(mf_module_values(optimizer, mf_everything()), mf_local_devices());
    printf("conv1's kernel: %s\n", mf_str(mf_shape_of(mf_get(state, "model", "conv1", "kernel"))));

    heading("Step 4: Create Parallel Training Step");
    mf_value sharded = mf_shard_batch(batch, mf_local_device_count()), next, loss, metrics;
    mf_unpack(mf_call(mf_pmap(mf_closure(train_step, &optimizer), "devices"), state, sharded), &next, &loss, &metrics);
    printf("step %d, loss %.2f, on %d devices\n", (int)first(mf_get(next, "step")), first(loss), mf_len(loss));

    heading("Step 5: Prepare Data for pmap");
    printf("%s becomes %s\n", mf_str(mf_shape_of(mf_get(batch, "image"))), mf_str(mf_shape_of(mf_get(sharded, "image"))));

    training_loop(optimizer, &state, data);

    section("Deep Dive: Gradient Synchronization");
    during_pmean();
    heading("Communication Cost");
    printf("%d bytes of gradients a device and step, whatever the batch size\n", 4 * parameters);

    section("Advanced Techniques");
    settings s = { model, mf_sgd(0.02, 0.9) };
    mf_value simple = mf_train_state_create(s.tx, mf_module_values(model, mf_everything()));
    gradient_accumulation(s, simple, sharded);
    mixed_precision(s, simple, sharded);
    dynamic_batches(s, simple, data);

    section("Performance Optimization");
    batch_size_selection();
    device_utilization(s, simple, sharded);
    host_transfers(s, simple, sharded);

    section("Common Pitfalls");
    pitfalls(s, simple, data);
    return mf_exit_status();
}
