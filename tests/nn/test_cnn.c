/* The first five steps of the small CNN, data-parallel on 8 devices, against JAX's (tests/oracle/cnn.txt, made by cnn.py): from the same
 * parameters and batches, losses, accuracies, the first gradients and the last parameters. Inputs come from tests/oracle/cnn_inputs.h, and
 * with Debian's dataset-fashion-mnist from real images; their hashes prove them. */
#include <manyfold.h>

#include "check.h"
#include "oracle/cnn_inputs.h"

#include <unistd.h>

enum { DEVICES = 8, PIXELS = CNN_SIDE * CNN_SIDE };

/* ---- the known answers */

typedef struct known_run {
    uint64_t images[CNN_STEPS], labels[CNN_STEPS];
    double loss[CNN_STEPS], accuracy[CNN_STEPS];
    double gradient_norm[CNN_PARAMETERS], parameter_norm[CNN_PARAMETERS];
} known_run;

static int parameter_index(const char *name)
{
    for (int i = 0; i < CNN_PARAMETERS; i++)
        if (strcmp(cnn_parameters[i].name, name) == 0)
            return i;
    return 0;
}

static void read_line(const char *line, const char *run, known_run *k)
{
    char kind[32], name[32], parameter[8];
    int step;
    unsigned long long images, labels;
    double value;
    if (sscanf(line, "batch %31s %d fnv_images=%llx fnv_labels=%llx", name, &step, &images, &labels) == 4 && strcmp(name, run) == 0) {
        k->images[step - 1] = images;
        k->labels[step - 1] = labels;
    } else if (sscanf(line, "%31s %31s %d %la", kind, name, &step, &value) == 4 && strcmp(name, run) == 0) {
        *(strcmp(kind, "loss") == 0 ? &k->loss[step - 1] : &k->accuracy[step - 1]) = value;
    } else if (sscanf(line, "%31s %31s %d %7s %la", kind, name, &step, parameter, &value) == 5 && strcmp(name, run) == 0) {
        int i = parameter_index(parameter);
        *(strcmp(kind, "gradient_norm") == 0 ? &k->gradient_norm[i] : &k->parameter_norm[i]) = value;
    }
}

static bool read_known(const char *run, known_run *k)
{
    char line[512];
    FILE *f = fopen(MF_TESTS_DIR "/oracle/cnn.txt", "r");
    memset(k, 0, sizeof *k);
    if (!f)
        return false;
    while (fgets(line, sizeof line, f))
        read_line(line, run, k);
    fclose(f);
    return k->loss[CNN_STEPS - 1] != 0 && k->gradient_norm[0] != 0 && k->parameter_norm[5] != 0;
}

/* ---- the model, as users write it */

static mf_value cnn_call(mf_module self, mf_value x)
{
    x = mf_relu(mf_call(mf_member_module(self, "conv1"), x));
    x = mf_max_pool(x, .window_shape = MF_INTS(2, 2), .strides = MF_INTS(2, 2));
    x = mf_relu(mf_call(mf_member_module(self, "conv2"), x));
    x = mf_max_pool(x, .window_shape = MF_INTS(2, 2), .strides = MF_INTS(2, 2));
    return mf_call(mf_member_module(self, "dense"), mf_reshape(x, MF_SHAPE(mf_dim(x, 0), -1)));
}

static mf_module cnn(void)
{
    mf_state rngs = mf_random_state(0);
    mf_module conv1 = mf_nn_conv(rngs, 1, 32, .kernel_size = MF_INTS(3, 3)), conv2 = mf_nn_conv(rngs, 32, 64, .kernel_size = MF_INTS(3, 3));
    return mf_module_new("CNN", cnn_call, "conv1", conv1, "conv2", conv2, "dense", mf_nn_linear(rngs, 4096, CNN_CLASSES));
}

typedef struct trainer {
    mf_module model;
    mf_optimizer adam;
} trainer;

static mf_value loss_and_accuracy(void *context, mf_value params, mf_value batch)
{
    trainer *t = context;
    mf_value label = mf_get(batch, "label"), logits = mf_apply(t->model, params, mf_get(batch, "image"));
    mf_value loss = mf_mean(mf_softmax_cross_entropy(logits, mf_one_hot(label, CNN_CLASSES)));
    return mf_tuple(loss, mf_mean(mf_equal(mf_argmax(logits, -1), label)));
}

static mf_value train_step(void *context, mf_value state, mf_value batch)
{
    trainer *t = context;
    mf_value params = mf_get(state, "params"), opt_state = mf_get(state, "opt_state"), loss_accuracy, grads;
    mf_function f = mf_value_and_grad(mf_closure(loss_and_accuracy, t), .has_aux = true);
    mf_unpack(mf_call(f, params, batch), &loss_accuracy, &grads);
    grads = mf_pmean(grads, "devices");
    loss_accuracy = mf_pmean(loss_accuracy, "devices");
    params = mf_optim_update(t->adam, grads, &opt_state, params);
    return mf_tuple(mf_dict("params", params, "opt_state", opt_state), loss_accuracy, grads);
}

/* ---- inputs */

static mf_value known_parameter(const char *name)
{
    const cnn_parameter *p = &cnn_parameters[parameter_index(name)];
    static float values[4096 * 10];
    mf_shape shape = { .rank = p->rank };
    for (int i = 0; i < p->rank; i++)
        shape.dims[i] = p->shape[i];
    cnn_fill_parameter(p, values);
    return mf_from_host(MF_F32, shape, values);
}

static mf_value known_parameters(void)
{
    return mf_dict("conv1", mf_dict("kernel", known_parameter("k1"), "bias", known_parameter("b1")), "conv2",
                   mf_dict("kernel", known_parameter("k2"), "bias", known_parameter("b2")), "dense",
                   mf_dict("kernel", known_parameter("w"), "bias", known_parameter("b")));
}

static mf_value parameter_of(mf_value tree, int which)
{
    static const char *const modules[] = { "conv1", "conv1", "conv2", "conv2", "dense", "dense" };
    return mf_get(tree, modules[which], which % 2 ? "bias" : "kernel");
}

static double norm(mf_value x) { return sqrt(mf_item_f64(mf_sum(mf_square(mf_astype(x, MF_F64))))); }

/* A batch of the synthetic run, or of the dataset's images in the order of the file; verified by its hashes. */
static mf_value batch_of(mf_value dataset, int step, const known_run *k)
{
    static float images[CNN_BATCH * PIXELS];
    static int32_t labels[CNN_BATCH];
    if (dataset.handle) {
        mf_slice rows = mf_range((int64_t)step * CNN_BATCH, (int64_t)(step + 1) * CNN_BATCH);
        CHECK_EQ_INT(mf_to_host(mf_get(dataset, "image", rows), MF_F32, images, CNN_BATCH * PIXELS), MF_OK);
        CHECK_EQ_INT(mf_to_host(mf_get(dataset, "label", rows), MF_I32, labels, CNN_BATCH), MF_OK);
    } else {
        cnn_fill_batch(step, images, labels);
    }
    CHECK_EQ_UINT(cnn_hash(images, sizeof images), k->images[step]);
    CHECK_EQ_UINT(cnn_hash(labels, sizeof labels), k->labels[step]);
    mf_value image = mf_from_host(MF_F32, MF_SHAPE(CNN_BATCH, CNN_SIDE, CNN_SIDE, 1), images);
    return mf_dict("image", image, "label", mf_from_host(MF_I32, MF_SHAPE(CNN_BATCH), labels));
}

/* ---- the comparison */

static void check_norms(mf_value tree, const double *known, double tolerance, const char *what)
{
    for (int i = 0; i < CNN_PARAMETERS; i++)
        if (!CHECK_NEAR(norm(parameter_of(tree, i)) / known[i], 1, tolerance))
            CHECK_NOTE("%s of %s", what, cnn_parameters[i].name);
}

static void check_run(const char *name, mf_value dataset)
{
    known_run k;
    REQUIRE(read_known(name, &k));
    mf_set_num_cpu_devices(DEVICES);
    trainer t = { cnn(), mf_adam(.learning_rate = 1e-3) };
    mf_value params = known_parameters();
    mf_value state = mf_replicate(mf_dict("params", params, "opt_state", mf_optim_init(t.adam, params)), mf_local_devices());
    mf_function step = mf_pmap(mf_closure(train_step, &t), .axis_name = "devices", .donate_argnums = MF_INTS(0));
    for (int i = 0; i < CNN_STEPS; i++) {
        MF_SCOPE;
        mf_value next, loss_accuracy, grads;
        mf_unpack(mf_call(step, state, mf_shard_batch(batch_of(dataset, i, &k), DEVICES)), &next, &loss_accuracy, &grads);
        REQUIRE(CHECK_STR(mf_error(next), NULL));
        double loss = mf_item_f64(mf_get(loss_accuracy, 0, 0));
        if (!CHECK_NEAR(loss / k.loss[i], 1, 1e-4))
            CHECK_NOTE("%s, step %d: loss %.7f, JAX's %.7f", name, i + 1, loss, k.loss[i]);
        CHECK_NEAR(mf_item_f64(mf_get(loss_accuracy, 1, 0)), k.accuracy[i], 1.0 / CNN_BATCH); /* a near tie may be decided either way */
        if (i == 0)
            check_norms(mf_unreplicate(grads), k.gradient_norm, 1e-5, "the first gradient");
        mf_assign(&state, next);
    }
    check_norms(mf_unreplicate(mf_get(state, "params")), k.parameter_norm, 1e-3, "the last parameters");
}

TEST(inputs_are_the_known_ones)
{
    char line[512], name[8], dims[32];
    unsigned long long hash;
    int found = 0;
    static float values[4096 * 10];
    FILE *f = fopen(MF_TESTS_DIR "/oracle/cnn.txt", "r");
    REQUIRE(f);
    while (fgets(line, sizeof line, f))
        if (sscanf(line, "parameter %7s %31s fnv=%llx", name, dims, &hash) == 3) {
            const cnn_parameter *p = &cnn_parameters[parameter_index(name)];
            size_t count = 1;
            for (int i = 0; i < p->rank; i++)
                count *= (size_t)p->shape[i];
            cnn_fill_parameter(p, values);
            CHECK_EQ_UINT(cnn_hash(values, count * sizeof *values), hash);
            found++;
        }
    fclose(f);
    CHECK_EQ_INT(found, CNN_PARAMETERS);
}

TEST(synthetic_losses_are_jaxs)
{
    MF_SCOPE;
    check_run("synthetic", (mf_value){ 0 });
}

TEST(fashion_losses_are_jaxs)
{
    MF_SCOPE;
    if (access("/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz", R_OK) != 0)
        SKIP("dataset-fashion-mnist is not installed");
    mf_value dataset = mf_load_fashion_mnist(NULL, "train");
    REQUIRE(!mf_error(dataset));
    check_run("fashion", dataset);
}

TEST(initial_parameters_have_flax_shapes_and_scale)
{
    MF_SCOPE;
    mf_value params = mf_module_values(cnn(), mf_of_type(MF_PARAM_STATE));
    CHECK_STR(mf_str(mf_shape_of(mf_get(params, "conv1", "kernel"))), "(3, 3, 1, 32)");
    CHECK_STR(mf_str(mf_shape_of(mf_get(params, "conv2", "kernel"))), "(3, 3, 32, 64)");
    CHECK_STR(mf_str(mf_shape_of(mf_get(params, "dense", "kernel"))), "(4096, 10)");
    CHECK_NEAR(mf_item_f64(mf_sum(mf_abs(mf_get(params, "dense", "bias")))), 0, 0);
    CHECK_NEAR(mf_item_f64(mf_std(mf_get(params, "dense", "kernel"))) * sqrt(4096), 1, 0.02);
    CHECK_NEAR(mf_item_f64(mf_std(mf_get(params, "conv2", "kernel"))) * sqrt(288), 1, 0.02);
    CHECK(mf_item_f64(mf_max(mf_abs(mf_get(params, "dense", "kernel")))) <= 2 / .87962566103423978 / 64);
}
