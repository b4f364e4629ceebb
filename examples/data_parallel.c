/* Data-parallel training: a small convolutional network on Fashion-MNIST, over any number of devices.
 *
 * Every device holds the same parameters and works on its shard of each batch; pmean averages the gradients over the devices, so all
 * devices make the same update. After each epoch all devices together evaluate every test image: the last, smaller batch is padded and
 * masked. The program saves the trained parameters, and `data_parallel --predict 0 1 2` loads them to classify single test images on one
 * device.
 *
 * `mpirun -n 2 data_parallel --devices 4` trains on eight devices of two processes and gives bit-identical parameters: each process loads
 * its own part of each batch; process 0 prints and saves.
 *
 * With --checkpoint N the program saves its complete training state every N steps. When started again it resumes from there and ends with
 * bit-identical parameters, also when the same total number of devices is divided among another number of processes. */
#include <manyfold.h>

#define PROGRAM "data_parallel"
#include "command_line.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { num_classes = 10 };

static const char *const class_names[num_classes] = { "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
                                                      "Sandal",      "Shirt",   "Sneaker",  "Bag",   "Ankle boot" };

/* ---- the model: the module holds the structure, a tree holds the parameters */

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
    mf_module conv1 = mf_nn_conv(rngs, 1, 32, .kernel_size = MF_INTS(3, 3));
    mf_module conv2 = mf_nn_conv(rngs, 32, 64, .kernel_size = MF_INTS(3, 3));
    mf_module dense = mf_nn_linear(rngs, 64 * 8 * 8, num_classes);
    return mf_module_new("CNNModel", cnn_call, "conv1", conv1, "conv2", conv2, "dense", dense);
}

/* ---- one step of training, as each device runs it */

typedef struct trainer {
    mf_module model;
    mf_optimizer adam;
} trainer; /* constant during training: the context of the closures below */

MF_RECORD(train_state, params, opt_state);

typedef struct loss_context {
    mf_module model;
    mf_value batch;
} loss_context;

static mf_value loss_fn(void *context, mf_value params)
{
    loss_context *c = context;
    mf_value label = mf_get(c->batch, "label");
    mf_value logits = mf_apply(c->model, params, mf_get(c->batch, "image"));
    mf_value loss = mf_mean(mf_softmax_cross_entropy(logits, mf_one_hot(label, num_classes)));
    mf_value accuracy = mf_mean(mf_equal(mf_argmax(logits, -1), label));
    return mf_tuple(loss, mf_dict("accuracy", accuracy));
}

static mf_value train_step(void *context, mf_value state, mf_value batch)
{
    trainer *t = context;
    train_state s = train_state_unpack(state);
    loss_context c = { t->model, batch };
    mf_function grad_fn = mf_value_and_grad(mf_closure(loss_fn, &c), .has_aux = true);
    mf_value loss_and_metrics, loss, metrics, grads;
    mf_unpack(mf_call(grad_fn, s.params), &loss_and_metrics, &grads);
    mf_unpack(loss_and_metrics, &loss, &metrics);
    grads = mf_pmean(grads, "devices");
    loss = mf_pmean(loss, "devices");
    metrics = mf_pmean(metrics, "devices");
    s.params = mf_optim_update(t->adam, grads, &s.opt_state, s.params);
    return mf_tuple(train_state_pack(s), loss, metrics);
}

/* ---- evaluation: sums over the unmasked images of all devices */

static mf_value eval_step(void *context, mf_value params, mf_value batch)
{
    trainer *t = context;
    mf_value label = mf_get(batch, "label"), mask = mf_get(batch, "mask");
    mf_value logits = mf_apply(t->model, params, mf_get(batch, "image"));
    mf_value loss = mf_softmax_cross_entropy(logits, mf_one_hot(label, num_classes));
    mf_value correct = mf_equal(mf_argmax(logits, -1), label);
    mf_value sums = mf_dict("loss", mf_sum(mf_mul(loss, mask)), "correct", mf_sum(mf_mul(correct, mask)), "images", mf_sum(mask));
    return mf_psum(sums, "devices");
}

static mf_value predict(void *context, mf_value params, mf_value image)
{
    trainer *t = context;
    mf_value logits = mf_apply(t->model, params, mf_expand_dims(image, 0));
    return mf_softmax(mf_squeeze(logits, 0), -1);
}

/* ---- the command line */

typedef struct settings {
    long long devices, epochs, batch, seed;
    long long limit;      /* training images; 0: all */
    long long checkpoint; /* steps between checkpoints; 0: save none */
    double learning_rate;
    const char *data, *out;
    bool predict;
    char **indices; /* the arguments of --predict */
    int index_count;
} settings;

static const char usage[] =
    "usage: data_parallel [OPTION]...\n"
    "       data_parallel --predict [--data FOLDER] [--out FOLDER] IMAGE_INDEX...\n"
    "Trains a convolutional network on Fashion-MNIST, data-parallel, and saves it; or loads it to classify single test images.\n"
    "\n"
    "  --devices N    devices to train on, of each process (8)\n"
    "  --epochs N     passes over the training images (3)\n"
    "  --batch N      images a step, over all devices (128)\n"
    "  --lr RATE      Adam's learning rate (0.001)\n"
    "  --seed N       of the parameters and the order of the images (0)\n"
    "  --data FOLDER  with the four gzip'd IDX files (where Debian's dataset-fashion-mnist puts them)\n"
    "  --out FOLDER   for the trained parameters (out)\n"
    "  --limit N      training images to use, the first N (0: all)\n"
    "  --checkpoint N save a checkpoint every N steps and after each epoch, and go on from the one that is there (0: no)\n"
    "  --predict      classify the test images of the given numbers on one device\n"
    "  --help         this text\n";

static bool set_option(void *of, int option, const char *text)
{
    settings *s = of;
    const long long most = 1 << 20;
    switch (option) {
    case 'd': return whole_number(text, 1, most, &s->devices);
    case 'e': return whole_number(text, 1, most, &s->epochs);
    case 'b': return whole_number(text, 1, most, &s->batch);
    case 's': return whole_number(text, 0, INT64_MAX, &s->seed);
    case 'l': return whole_number(text, 0, INT64_MAX, &s->limit);
    case 'c': return whole_number(text, 0, INT64_MAX, &s->checkpoint);
    case 'r': return number(text, &s->learning_rate) && s->learning_rate > 0;
    case 'i': s->data = text; return true;
    case 'o': s->out = text; return true;
    case 'p': s->predict = true; return true;
    default: return false;
    }
}

/* Returns false if the program is to exit now, with *status. */
static bool read_settings(settings *s, int argc, char **argv, int *status)
{
    static const struct option options[] = {
        { "devices", required_argument, NULL, 'd' },
        { "epochs", required_argument, NULL, 'e' },
        { "batch", required_argument, NULL, 'b' },
        { "lr", required_argument, NULL, 'r' },
        { "seed", required_argument, NULL, 's' },
        { "data", required_argument, NULL, 'i' },
        { "out", required_argument, NULL, 'o' },
        { "limit", required_argument, NULL, 'l' },
        { "checkpoint", required_argument, NULL, 'c' },
        { "predict", no_argument, NULL, 'p' },
        { "help", no_argument, NULL, 'h' },
        { 0 },
    };
    if (!read_options(argc, argv, options, usage, set_option, s, status))
        return false;
    s->indices = argv + optind;
    s->index_count = argc - optind;
    if (s->predict == (s->index_count > 0))
        return true;
    fprintf(stderr, "data_parallel: %s\n",
            s->predict ? "--predict needs the numbers of test images" : "only --predict takes further words");
    return false;
}

/* ---- data */

static bool is_first(void) { return mf_process_index() == 0; } /* the process that prints and saves */

static mf_value first_rows(void *count, mf_value x) { return mf_get(x, mf_range(0, *(long long *)count)); }

static mf_value load(const settings *s, const char *split, int64_t *images)
{
    mf_value dataset = mf_load_fashion_mnist(s->data, split);
    if (report_dataset_error(dataset, s->data))
        return dataset;
    *images = mf_dim(mf_get(dataset, "label"), 0);
    if (strcmp(split, "train") != 0 || !s->limit || s->limit >= *images)
        return dataset;
    *images = s->limit;
    return mf_tree_map(mf_closure(first_rows, &s->limit), dataset);
}

/* NULL after an error, which has been printed. The loader copies the rows it needs, so the scope may release the dataset. */
static mf_loader *open_loader(const settings *s, const char *split, int64_t *images)
{
    MF_SCOPE;
    mf_value dataset = load(s, split, images);
    if (mf_is_error(dataset))
        return NULL;
    bool train = strcmp(split, "train") == 0;
    return having_batches(mf_loader_open(dataset, .batch_size = s->batch, .shuffle = train, .shuffle_seed = (uint64_t)s->seed,
                                         .pad_last = !train, .shard_by_process = true));
}

/* ---- training */

typedef struct result { /* doubles only: a checkpoint stores the struct as an array */
    double train_loss, train_accuracy, test_loss, test_accuracy, tested, seconds;
} result;
enum { result_size = sizeof(result) / sizeof(double) };

typedef struct tally { /* sums over the epoch so far; doubles only, as above */
    double loss, accuracy, steps;
} tally;

typedef struct run {
    const settings *settings;
    mf_function step, evaluate;
    mf_value state;
    mf_value pending; /* loss and metrics of the last step queued, not read yet */
    tally tally;
    result *results; /* by epoch */
    mf_loader *train, *test;
} run;

static bool finish_pending(run *r)
{
    tally *t = &r->tally;
    if (!r->pending.handle)
        return true;
    MF_SCOPE;
    if (report_error(r->pending))
        return false;
    t->loss += mf_item_f64(mf_get(r->pending, 0, 0)); /* the same on all devices: read device 0's */
    t->accuracy += mf_item_f64(mf_get(r->pending, 1, "accuracy", 0));
    t->steps++;
    mf_clear(&r->pending);
    return true;
}

/* Reading a result blocks until it is computed, so a step's loss is read only after the next step has been dispatched. */
static bool queue_step(run *r, mf_value batch)
{
    MF_SCOPE;
    mf_value next, loss, metrics;
    mf_value sharded = mf_shard_batch(batch, mf_local_device_count());
    mf_unpack(mf_call(r->step, r->state, sharded), &next, &loss, &metrics);
    if (report_error(next) || !finish_pending(r))
        return false;
    mf_assign(&r->state, next);
    mf_assign(&r->pending, mf_tuple(loss, metrics));
    return true;
}

/* ---- checkpoints: everything that the remaining training depends on */

static mf_value numbers(const void *at, size_t bytes) { return mf_from_host(MF_F64, MF_SHAPE((int64_t)(bytes / sizeof(double))), at); }

static mf_value progress_of(const run *r)
{
    const settings *s = r->settings;
    const double which[] = { (double)s->seed, (double)s->batch, (double)s->limit, s->learning_rate };
    return mf_dict("run", numbers(which, sizeof which), "position", mf_scalar((double)mf_loader_position(r->train), MF_I64), "tally",
                   numbers(&r->tally, sizeof r->tally), "results", numbers(r->results, (size_t)s->epochs * sizeof *r->results), "state",
                   mf_unreplicate(r->state));
}

/* Every process must call this. */
static bool save_checkpoint(run *r)
{
    MF_SCOPE;
    char path[4096];
    if (!r->settings->checkpoint)
        return true;
    return path_in(r->settings->out, "checkpoint", path, sizeof path) && finish_pending(r) && make_folder(r->settings->out) &&
           mf_save_checkpoint(path, progress_of(r), mf_none()) == MF_OK; /* mf_exit_status reports a failure */
}

static bool load_checkpoint(run *r)
{
    MF_SCOPE;
    char path[4096], index[4096];
    if (!r->settings->checkpoint || !path_in(r->settings->out, "checkpoint/index.npz", index, sizeof index) || access(index, F_OK) != 0)
        return true;
    if (!path_in(r->settings->out, "checkpoint", path, sizeof path))
        return false;
    mf_value now = progress_of(r), whole = mf_get(mf_load_checkpoint(path, now, mf_none()), 0);
    if (report_error(whole))
        return false;
    if (!mf_item_bool(mf_all(mf_equal(mf_get(whole, "run"), mf_get(now, "run"))))) {
        fprintf(stderr, "data_parallel: %s is of a run with another --seed, --batch, --limit or --lr\n", path);
        return false;
    }
    mf_assign(&r->state, mf_replicate(mf_get(whole, "state"), mf_local_devices()));
    mf_to_host(mf_get(whole, "tally"), MF_F64, &r->tally, sizeof r->tally / sizeof(double));
    mf_to_host(mf_get(whole, "results"), MF_F64, r->results, (size_t)r->settings->epochs * result_size);
    int64_t position = mf_item_i64(mf_get(whole, "position"));
    if (is_first())
        printf("Going on from %s, after %lld steps\n", path, (long long)position);
    return mf_loader_seek(r->train, position) == MF_OK;
}

/* ---- epochs */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool train_epoch(run *r, int epoch, result *out)
{
    char label[48], text[64];
    snprintf(label, sizeof label, "Epoch %d/%lld, batch", epoch + 1, r->settings->epochs);
    int64_t batches = mf_loader_batches(r->train);
    mf_progress *p = mf_progress_open(label, batches, .done = mf_loader_position(r->train) % batches, .unit = "images",
                                      .per_step = (double)r->settings->batch, .silent = !is_first());
    bool good = true;
    for (mf_value batch; good && mf_loader_next(r->train, &batch);) {
        int64_t position = mf_loader_position(r->train);
        good = !report_error(batch) && queue_step(r, batch) && (r->tally.steps > 0 || finish_pending(r));
        if (!good)
            break;
        snprintf(text, sizeof text, "loss %.4f, accuracy %.4f", r->tally.loss / r->tally.steps, r->tally.accuracy / r->tally.steps);
        mf_progress_step(p, text);
        if (r->settings->checkpoint && position % batches && position % r->settings->checkpoint == 0)
            good = save_checkpoint(r);
    }
    mf_progress_close(p);
    if (!good || !finish_pending(r))
        return false;
    out->train_loss = r->tally.loss / r->tally.steps;
    out->train_accuracy = r->tally.accuracy / r->tally.steps;
    r->tally = (tally){ 0 };
    return true;
}

static bool evaluate(run *r, result *out)
{
    double loss = 0, correct = 0, images = 0;
    for (mf_value batch; mf_loader_next(r->test, &batch);) {
        MF_SCOPE;
        mf_value sharded = mf_shard_batch(batch, mf_local_device_count());
        mf_value sums = mf_call(r->evaluate, mf_get(r->state, "params"), sharded);
        if (report_error(sums))
            return false;
        loss += mf_item_f64(mf_get(sums, "loss", 0));
        correct += mf_item_f64(mf_get(sums, "correct", 0));
        images += mf_item_f64(mf_get(sums, "images", 0));
    }
    out->test_loss = loss / images;
    out->test_accuracy = correct / images;
    out->tested = images;
    return true;
}

static void print_table(const result *results, long long epochs)
{
    printf("\nEpoch  Train loss  Train accuracy  Test loss  Test accuracy  Seconds\n");
    for (long long i = 0; i < epochs; i++)
        printf("%5lld  %10.4f  %14.4f  %9.4f  %13.4f  %7.1f\n", i + 1, results[i].train_loss, results[i].train_accuracy,
               results[i].test_loss, results[i].test_accuracy, results[i].seconds);
    printf("\n%.0f test images evaluated; test accuracy %.4f\n", results[epochs - 1].tested, results[epochs - 1].test_accuracy);
}

static bool train_epochs(run *r)
{
    int first = (int)(mf_loader_position(r->train) / mf_loader_batches(r->train));
    for (int epoch = first; epoch < r->settings->epochs; epoch++) {
        result *out = &r->results[epoch];
        double started = now();
        if (!train_epoch(r, epoch, out) || !evaluate(r, out))
            return false;
        out->seconds = now() - started;
        if (is_first())
            printf("Epoch %d/%lld: test loss %.4f, test accuracy %.4f\n", epoch + 1, r->settings->epochs, out->test_loss,
                   out->test_accuracy);
        if (!save_checkpoint(r))
            return false;
    }
    return true;
}

/* ---- the trained parameters */

static const char parameter_file[] = "fashion_mnist_cnn.npz";

static bool save(const run *r)
{
    char path[4096];
    if (!path_in(r->settings->out, parameter_file, path, sizeof path) || !make_folder(r->settings->out))
        return false;
    bool saved = mf_save_npz(path, mf_unreplicate(mf_get(r->state, "params"))) == MF_OK; /* mf_exit_status reports a failure */
    if (saved)
        printf("Trained parameters saved as %s\n", path);
    return saved;
}

static double parameter_count(mf_value leaves)
{
    double count = 0;
    for (int i = 0; i < mf_len(leaves); i++)
        count += (double)mf_size(mf_get(leaves, i));
    return count;
}

/* ---- the two modes: train, predict */

static bool start(run *r, trainer *t)
{
    const settings *s = r->settings;
    int64_t train_images = 0, test_images = 0;
    mf_value divides = mf_shard_batch(mf_zeros(MF_SHAPE(s->batch)), mf_device_count());
    if (report_error(divides) || !(r->train = open_loader(s, "train", &train_images)) || !(r->test = open_loader(s, "test", &test_images)))
        return false;
    mf_value params = mf_module_values(t->model, mf_of_type(MF_PARAM_STATE));
    mf_value state = train_state_pack((train_state){ .params = params, .opt_state = mf_optim_init(t->adam, params) });
    r->state = mf_replicate(state, mf_local_devices());
    r->step = mf_pmap(mf_closure(train_step, t), "devices", .donate_argnums = MF_INTS(0));
    r->evaluate = mf_pmap(mf_closure(eval_step, t), "devices");
    if (is_first())
        printf("%lld training images, %lld test images; %d devices with %lld images each a step; %.0f parameters\n",
               (long long)train_images, (long long)test_images, mf_device_count(), s->batch / mf_device_count(),
               parameter_count(mf_tree_leaves(params)));
    return !report_error(r->state);
}

static bool train(const settings *s)
{
    mf_set_num_cpu_devices((int)s->devices);
    trainer t = { cnn(mf_random_state((uint64_t)s->seed)), mf_adam(.learning_rate = s->learning_rate) };
    run r = { .settings = s, .results = calloc((size_t)s->epochs, sizeof(result)) };
    bool ok = r.results && start(&r, &t) && load_checkpoint(&r) && train_epochs(&r);
    if (ok && is_first()) {
        print_table(r.results, s->epochs);
        ok = save(&r);
    }
    mf_loader_close(r.train);
    mf_loader_close(r.test);
    free(r.results);
    return ok;
}

static bool predict_image(mf_function classify, mf_value params, mf_value dataset, const char *word)
{
    MF_SCOPE;
    long long index, most = mf_dim(mf_get(dataset, "label"), 0) - 1;
    if (!whole_number(word, 0, most, &index)) {
        fprintf(stderr, "data_parallel: '%s' is no test image; they are numbered from 0 to %lld\n", word, most);
        return false;
    }
    float chances[num_classes];
    mf_value answer = mf_call(classify, params, mf_get(dataset, "image", index));
    if (report_error(answer) || mf_to_host(answer, MF_F32, chances, num_classes) != MF_OK)
        return false;
    int best = 0;
    for (int i = 1; i < num_classes; i++)
        best = chances[i] > chances[best] ? i : best;
    int64_t label = mf_item_i64(mf_get(dataset, "label", index));
    printf("Test image %lld: %s (%.1f %%); labelled %s\n", index, class_names[best], 100 * (double)chances[best], class_names[label]);
    return true;
}

static bool predict_images(const settings *s)
{
    mf_set_num_cpu_devices(1);
    trainer t = { .model = cnn(mf_random_state(0)) };
    char path[4096];
    int64_t images;
    if (!path_in(s->out, parameter_file, path, sizeof path))
        return false;
    mf_value params = mf_load_tree(path, mf_module_values(t.model, mf_of_type(MF_PARAM_STATE)));
    mf_value dataset = report_error(params) ? params : load(s, "test", &images);
    bool ok = !mf_is_error(dataset);
    mf_function classify = mf_jit(mf_closure(predict, &t));
    for (int i = 0; ok && i < s->index_count; i++)
        ok = predict_image(classify, params, dataset, s->indices[i]);
    return ok;
}

int main(int argc, char **argv)
{
    settings s = { .devices = 8, .epochs = 3, .batch = 128, .learning_rate = 1e-3, .out = "out" };
    int status;
    if (!read_settings(&s, argc, argv, &status))
        return status;
    bool ok = s.predict ? predict_images(&s) : train(&s);
    status = mf_exit_status();
    return ok ? status : EXIT_FAILURE;
}
