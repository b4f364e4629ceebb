/* Our side of the benchmark: the workloads of peers/jax_bench.py under the same names, driven one repetition at a time over standard
 * input, one JSON line an answer, so that a driver can alternate the two programs. With --only NAME... it needs no driver. */
#include <manyfold.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

static int devices = 8;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double rss_mib(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)u.ru_maxrss / 1024;
}

/* ---- the workloads. Each keeps its state in a static value and is one function that makes one call and waits for it. */

static mf_value twice(mf_value x) { return mf_mul(x, 2); }
static mf_value normalize(mf_value x) { return mf_div(x, mf_psum(x, "i")); }
static mf_value all_reduce(mf_value x) { return mf_psum(x, "i"); }
static mf_value replicate(mf_value x) { return x; }

static mf_value tiny(void) { return mf_reshape(mf_arange(4 * devices, MF_F32), MF_SHAPE(devices, 4)); }

static mf_value state;

static void prepare_tiny(void) { mf_assign(&state, tiny()); }
static void call_double(void) { mf_block_until_ready(mf_call(mf_pmap(twice), state)); }
static void call_psum(void) { mf_block_until_ready(mf_call(mf_pmap(normalize, .axis_name = "i"), state)); }

static void prepare_mib(int mib)
{
    mf_value ones = mf_ones(MF_SHAPE(devices, (int64_t)mib << 18), MF_F32);
    mf_assign(&state, mf_call(mf_pmap(twice), ones));
    mf_block_until_ready(state);
    /* a copy with a row for each device: what a device computes, not one row held once */
    mf_assign(&state, mf_call(mf_pmap(twice), mf_add(mf_reshape(mf_arange(devices, MF_F32), MF_SHAPE(devices, 1)), state)));
    mf_block_until_ready(state);
}
static void prepare_1(void) { prepare_mib(1); }
static void prepare_16(void) { prepare_mib(16); }
static void prepare_64(void) { prepare_mib(64); }
static void call_all_reduce(void) { mf_block_until_ready(mf_call(mf_pmap(all_reduce, .axis_name = "i"), state)); }

static mf_value squared_error(mf_value params, mf_value x, mf_value y)
{
    mf_value w, b;
    mf_unpack(params, &w, &b);
    return mf_mean(mf_square(mf_sub(mf_add(mf_dot(x, w), b), y)));
}

static mf_value descend(mf_value p, mf_value g, mf_value rate) { return mf_sub(p, mf_mul(rate, g)); }

static mf_value regression_step(mf_value params, mf_value x, mf_value y, mf_value rate)
{
    mf_value loss, grads;
    mf_unpack(mf_call(mf_value_and_grad(squared_error), params, x, y), &loss, &grads);
    grads = mf_pmean(grads, "batch");
    return mf_tuple(mf_tree_map(descend, params, grads, rate), mf_pmean(loss, "batch"));
}

static mf_value regression_x, regression_y;

static void prepare_regression(void)
{
    /* different rows, or what is the same on all devices would be computed once */
    mf_value x = mf_mul(mf_reshape(mf_arange(devices * 500, MF_F32), MF_SHAPE(devices, 100, 5)), 1e-4);
    mf_value y = mf_mul(mf_reshape(mf_arange(devices * 100, MF_F32), MF_SHAPE(devices, 100)), 1e-3);
    mf_assign(&regression_x, mf_call(mf_pmap(twice), x));
    mf_assign(&regression_y, mf_call(mf_pmap(twice), y));
    mf_value params = mf_tuple(mf_ones(MF_SHAPE(5), MF_F32), mf_ones(MF_SHAPE0, MF_F32));
    mf_assign(&state, mf_call(mf_pmap(replicate, .in_axes = MF_NONE, .out_axes = 0, .axis_size = devices), params));
}

static void call_regression(void)
{
    mf_function step = mf_pmap(regression_step, .axis_name = "batch", .in_axes = mf_axes(0, 0, 0, MF_NONE),
                               .static_broadcasted_argnums = MF_INTS(3));
    mf_value next, loss;
    mf_unpack(mf_call(step, state, regression_x, regression_y, 0.05), &next, &loss);
    mf_assign(&state, next);
    mf_block_until_ready(loss);
    mf_block_until_ready(next);
}

/* ---- the CNN step of the data-parallel guide, in f32 or with bf16 activations */

static mf_dtype cnn_dtype = MF_F32;

static mf_value cast(mf_value x) { return mf_astype(x, cnn_dtype); }

static mf_value conv_block(mf_value x, mf_value kernel, mf_value bias)
{
    mf_value y = mf_conv_general_dilated(x, kernel, .padding = MF_SAME);
    return mf_max_pool(mf_relu(mf_add(y, bias)), .window_shape = MF_INTS(2, 2), .strides = MF_INTS(2, 2));
}

static mf_value objective(mf_value params, mf_value x, mf_value label)
{
    mf_value p = cnn_dtype == MF_F32 ? params : mf_tree_map(cast, params);
    x = conv_block(cast(x), mf_get(p, "k1"), mf_get(p, "b1"));
    x = conv_block(x, mf_get(p, "k2"), mf_get(p, "b2"));
    mf_value flat = mf_reshape(x, MF_SHAPE(mf_dim(x, 0), -1));
    mf_value logits = mf_astype(mf_add(mf_matmul(flat, mf_get(p, "w")), mf_get(p, "b")), MF_F32);
    mf_value loss = mf_mean(mf_softmax_cross_entropy(logits, mf_one_hot(label, 10)));
    return mf_tuple(loss, mf_mean(mf_equal(mf_argmax(logits, -1), label)));
}

static mf_value cnn_step(void *context, mf_value p, mf_value opt, mf_value x, mf_value label)
{
    mf_optimizer *adam = context;
    mf_value both, grads;
    mf_unpack(mf_call(mf_value_and_grad(objective, .has_aux = true), p, x, label), &both, &grads);
    grads = mf_pmean(grads, "devices");
    both = mf_pmean(both, "devices");
    mf_value next = mf_optim_update(*adam, grads, &opt, p);
    return mf_tuple(next, opt, both);
}

static mf_optimizer adam;
static mf_value cnn_params, cnn_opt, images, labels;

static void prepare_cnn(mf_dtype dtype)
{
    int64_t batch = 128 / devices;
    cnn_dtype = dtype;
    if (!adam.handle)
        adam = mf_adam();
    mf_value key = mf_random_key(0), k = mf_random_split(key, 8);
    mf_value p = mf_dict("k1", mf_mul(mf_random_normal(mf_get(k, 0), MF_SHAPE(3, 3, 3, 32), MF_F32), 0.05), "b1",
                         mf_zeros(MF_SHAPE(32), MF_F32), "k2", mf_mul(mf_random_normal(mf_get(k, 1), MF_SHAPE(3, 3, 32, 64), MF_F32), 0.05),
                         "b2", mf_zeros(MF_SHAPE(64), MF_F32), "w",
                         mf_mul(mf_random_normal(mf_get(k, 2), MF_SHAPE(4096, 10), MF_F32), 0.05), "b", mf_zeros(MF_SHAPE(10), MF_F32));
    mf_assign(&cnn_opt, mf_replicate(mf_optim_init(adam, p), mf_device_slice(mf_devices(), 0, devices)));
    mf_assign(&cnn_params, mf_replicate(p, mf_device_slice(mf_devices(), 0, devices)));
    mf_assign(&images, mf_call(mf_pmap(twice), mf_random_normal(mf_get(k, 3), MF_SHAPE(devices, batch, 32, 32, 3), MF_F32)));
    mf_assign(&labels, mf_call(mf_pmap(twice), mf_random_randint(mf_get(k, 4), MF_SHAPE(devices, batch), mf_i(0), mf_i(5), MF_I32)));
}
static void prepare_cnn_f32(void) { prepare_cnn(MF_F32); }
static void prepare_cnn_bf16(void) { prepare_cnn(MF_BF16); }

static void call_cnn(void)
{
    mf_function step = mf_pmap(mf_closure(cnn_step, &adam), .axis_name = "devices", .donate_argnums = MF_INTS(0, 1));
    mf_value p, opt, loss;
    mf_unpack(mf_call(step, cnn_params, cnn_opt, images, labels), &p, &opt, &loss);
    mf_assign(&cnn_params, p);
    mf_assign(&cnn_opt, opt);
    mf_block_until_ready(loss);
    mf_block_until_ready(p);
}

/* ---- the driver's protocol */

typedef struct workload {
    const char *name, *first_name; /* the second asks for its first call */
    void (*prepare)(void);
    void (*call)(void);
    int calls;
    bool ready;
    double first;
    int rounds;
} workload;

static workload workloads[] = {
    { "dispatch_double", "first_call_double", prepare_tiny, call_double, 100, false, 0, 0 },
    { "dispatch_psum", "first_call_psum", prepare_tiny, call_psum, 100, false, 0, 0 },
    { "psum_1MiB", "", prepare_1, call_all_reduce, 3, false, 0, 0 },
    { "psum_16MiB", "", prepare_16, call_all_reduce, 3, false, 0, 0 },
    { "psum_64MiB", "", prepare_64, call_all_reduce, 3, false, 0, 0 },
    { "linear_regression_step", "first_call_linear_regression", prepare_regression, call_regression, 50, false, 0, 0 },
    { "cnn_step_float32_128", "first_call_cnn_step_float32_128", prepare_cnn_f32, call_cnn, 3, false, 0, 0 },
    { "cnn_step_bfloat16_128", "first_call_cnn_step_bfloat16_128", prepare_cnn_bf16, call_cnn, 3, false, 0, 0 },
};
enum { COUNT = sizeof workloads / sizeof *workloads };

static double timed(void (*call)(void))
{
    MF_SCOPE;
    double start = now();
    call();
    return now() - start;
}

static const workload *current;

/* The state of one workload is alive at a time, so that memory figures are its own. */
static void make_ready(workload *w)
{
    if (current == w)
        return;
    mf_value *held[] = { &state, &regression_x, &regression_y, &cnn_params, &cnn_opt, &images, &labels };
    for (size_t i = 0; i < sizeof held / sizeof *held; i++)
        mf_clear(held[i]);
    {
        MF_SCOPE;
        w->prepare();
    }
    double first = timed(w->call);
    if (!w->ready)
        w->first = first;
    timed(w->call);
    w->ready = true;
    current = w;
}

static void run(const char *name, double startup)
{
    bool first = strncmp(name, "first_call_", 11) == 0;
    double seconds = startup;
    int calls = 1;
    workload *w = NULL;
    if (strcmp(name, "startup") != 0) {
        for (int i = 0; i < COUNT; i++)
            if (strcmp(first ? workloads[i].first_name : workloads[i].name, name) == 0)
                w = &workloads[i];
        if (!w) {
            printf("{\"name\": \"%s\", \"error\": \"unknown workload\"}\n", name);
            fflush(stdout);
            return;
        }
        make_ready(w);
        seconds = w->first;
        if (!first) {
            calls = w->calls;
            seconds = 0;
            for (int i = 0; i < calls; i++)
                seconds += timed(w->call) / calls;
        }
        w->rounds++;
    }
    const char *message;
    if (mf_first_error(&message) != MF_OK) {
        printf("{\"name\": \"%s\", \"error\": \"%s\"}\n", name, message);
        exit(1);
    }
    printf("{\"peer\": \"manyfold\", \"devices\": %d, \"name\": \"%s\", \"seconds\": %.9g, \"calls\": %d, \"rss_mib\": %.1f}\n", devices,
           name, seconds, calls, rss_mib());
    fflush(stdout);
}

int main(int argc, char **argv)
{
    double start = now();
    int first = 1, repeat = 7;
    if (argc > 1 && strcmp(argv[1], "--list") == 0) {
        for (int i = 0; i < COUNT; i++)
            printf("%s%s%s\n", workloads[i].name, *workloads[i].first_name ? "\n" : "", workloads[i].first_name);
        return 0;
    }
    if (argc > 2 && strcmp(argv[1], "--devices") == 0) {
        devices = atoi(argv[2]);
        first = 3;
    }
    mf_set_num_cpu_devices(devices);
    mf_devices();
    double startup = now() - start;
    if (first < argc && strcmp(argv[first], "--only") == 0) {
        for (int i = 0; i < repeat; i++)
            for (int k = first + 1; k < argc; k++)
                run(argv[k], startup);
        return mf_exit_status();
    }
    printf("{\"name\": \"ready\"}\n");
    fflush(stdout);
    char line[256];
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\r\n")] = 0;
        if (*line)
            run(line, startup);
    }
    return mf_exit_status();
}
