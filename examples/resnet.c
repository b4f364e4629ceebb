/* Data-parallel training of a 20-layer ResNet on Fashion-MNIST, with what it takes to train one well.
 *
 * Every device holds the same parameters and works on its shard of each batch. Random crops and flips are part of the compiled step, batch
 * normalisation uses the statistics of the whole batch, and the mean gradient makes one SGD update with momentum, with a learning rate that
 * warms up and then follows a cosine. After each epoch the program evaluates all test images, writes losses and accuracies to a logbook,
 * which draws their curves, and saves a checkpoint; --resume continues from the newest one, bit-identically. See docs/RESNET.md. */
#include <manyfold.h>

#define PROGRAM "resnet"
#include "going_on.h"
#include "resnet_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { num_classes = 10, image_size = 28 }; /* mf_load_fashion_mnist pads the images to 32 by 32 */

/* ---- the command line */

typedef struct settings {
    long long devices, epochs, batch, width, blocks, seed;
    long long limit; /* training images; 0: all */
    long long pause; /* epochs after which to stop; 0: all */
    double learning_rate, weight_decay, label_smoothing;
    const char *data, *out;
    bool plain, resume;
} settings;

static const char usage[] = "usage: resnet [OPTION]...\n"
                            "Trains a residual network on Fashion-MNIST, data-parallel, and draws how it went.\n"
                            "\n"
                            "  --devices N      devices to train on (2)\n"
                            "  --epochs N       passes over the training images (16)\n"
                            "  --batch N        images a step, over all devices (128)\n"
                            "  --width N        channels of the first third of the layers; the others have 2 and 4 times as many (16)\n"
                            "  --blocks N       blocks of two layers in each third: 3 make 20 layers in all (3)\n"
                            "  --lr RATE        the greatest learning rate (0.1)\n"
                            "  --decay RATE     how much the kernels decay (0.0005)\n"
                            "  --smoothing A    of the labels: a part A of each goes to all classes alike (0.1)\n"
                            "  --no-augment     show the images as they are, neither cut nor mirrored\n"
                            "  --seed N         of the parameters, the order of the images and how they are cut (0)\n"
                            "  --data FOLDER    with the four gzip'd IDX files (where Debian's dataset-fashion-mnist puts them)\n"
                            "  --limit N        training images to use, the first N (0: all)\n"
                            "  --out FOLDER     for curves, metrics, checkpoints and the trained parameters (out)\n"
                            "  --pause N        stop after so many epochs in all, to go on later with --resume (0: no)\n"
                            "  --resume         go on from the newest checkpoint in the folder after --out\n"
                            "  --help           this text\n";

static bool set_option(void *of, int option, const char *text)
{
    settings *s = of;
    const long long most = 1 << 20;
    switch (option) {
    case 'd': return whole_number(text, 1, 1024, &s->devices);
    case 'e': return whole_number(text, 1, most, &s->epochs);
    case 'b': return whole_number(text, 1, most, &s->batch);
    case 'w': return whole_number(text, 1, 1024, &s->width);
    case 'n': return whole_number(text, 1, resnet_most_blocks / 3, &s->blocks);
    case 's': return whole_number(text, 0, INT64_MAX, &s->seed);
    case 'l': return whole_number(text, 0, INT64_MAX, &s->limit);
    case 'p': return whole_number(text, 0, most, &s->pause);
    case 'r': return number(text, &s->learning_rate) && s->learning_rate >= 1e-9 && s->learning_rate < 1e9;
    case 'c': return number(text, &s->weight_decay) && s->weight_decay >= 0 && s->weight_decay < 1;
    case 'a': return number(text, &s->label_smoothing) && s->label_smoothing >= 0 && s->label_smoothing < 1;
    case 'i': s->data = text; return true;
    case 'o': s->out = text; return true;
    case 'P': s->plain = true; return true;
    case 'R': s->resume = true; return true;
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
        { "width", required_argument, NULL, 'w' },
        { "blocks", required_argument, NULL, 'n' },
        { "lr", required_argument, NULL, 'r' },
        { "decay", required_argument, NULL, 'c' },
        { "smoothing", required_argument, NULL, 'a' },
        { "seed", required_argument, NULL, 's' },
        { "data", required_argument, NULL, 'i' },
        { "limit", required_argument, NULL, 'l' },
        { "out", required_argument, NULL, 'o' },
        { "pause", required_argument, NULL, 'p' },
        { "no-augment", no_argument, NULL, 'P' },
        { "resume", no_argument, NULL, 'R' },
        { "help", no_argument, NULL, 'h' },
        { 0 },
    };
    if (!read_options(argc, argv, options, usage, set_option, s, status))
        return false;
    if (optind < argc)
        fputs("resnet: takes options alone\n", stderr);
    return optind == argc;
}

/* ---- data */

static mf_value first_rows(void *count, mf_value x) { return mf_get(x, mf_range(0, *(const long long *)count)); }

/* NULL after an error, which has been printed. The loader copies the rows it needs, so the scope may release the dataset. */
static mf_loader *open_loader(const settings *s, bool train)
{
    MF_SCOPE;
    mf_value dataset = mf_load_fashion_mnist(s->data, train ? "train" : "test");
    if (report_dataset_error(dataset, s->data))
        return NULL;
    int64_t images = mf_dim(mf_get(dataset, "label"), 0);
    if (train && s->limit && s->limit < images)
        dataset = mf_tree_map(mf_closure(first_rows, &s->limit), dataset);
    return having_batches(mf_loader_open(dataset, .batch_size = s->batch, .shuffle = train, .shuffle_seed = (uint64_t)s->seed,
                                         .pad_last = !train, .prefetch = 2));
}

/* ---- training */

typedef struct resnet_judge {
    resnet_trainer trainer;
    mf_module metrics;
} resnet_judge;

typedef struct run {
    const settings *settings;
    resnet_judge judge;
    mf_function step, evaluate;
    mf_value state;
    mf_value pending; /* loss and accuracy of the last step queued, not read yet */
    double loss, accuracy, steps;
    mf_loader *train, *test;
    going_on checkpoints;
    mf_logbook *book;
} run;

static bool finish_pending(run *r)
{
    MF_SCOPE;
    if (!r->pending.handle)
        return true;
    if (report_error(r->pending))
        return false;
    r->loss += mf_item_f64(mf_get(r->pending, "loss", 0)); /* the same on all devices: read device 0's */
    r->accuracy += mf_item_f64(mf_get(r->pending, "accuracy", 0));
    r->steps++;
    mf_clear(&r->pending);
    return true;
}

/* Reading a result blocks until it is computed, so a step's loss is read only after the next step has been dispatched. */
static bool queue_step(run *r, mf_value batch)
{
    MF_SCOPE;
    mf_value next, metrics;
    mf_unpack(mf_call(r->step, r->state, mf_shard_batch(batch, mf_local_device_count())), &next, &metrics);
    if (report_error(next) || !finish_pending(r))
        return false;
    mf_assign(&r->state, next);
    mf_assign(&r->pending, metrics);
    return true;
}

static bool train_epoch(run *r, long long epoch)
{
    char label[48], text[64];
    snprintf(label, sizeof label, "Epoch %lld/%lld, batch", epoch, r->settings->epochs);
    mf_progress *p = mf_progress_open(label, mf_loader_batches(r->train), .unit = "images", .per_step = (double)r->settings->batch);
    bool good = true;
    r->loss = r->accuracy = r->steps = 0;
    for (mf_value batch; good && mf_loader_next(r->train, &batch);) {
        good = !report_error(batch) && queue_step(r, batch);
        double steps = r->steps > 0 ? r->steps : 1;
        snprintf(text, sizeof text, "loss %.4f, accuracy %.4f", r->loss / steps, r->accuracy / steps);
        if (good)
            mf_progress_step(p, text);
    }
    mf_progress_close(p);
    return good && finish_pending(r);
}

/* ---- evaluation: sums over the unmasked images of all devices */

static mf_value eval_step(void *judge, mf_value params, mf_value stats, mf_value batch)
{
    const resnet_judge *j = judge;
    mf_value logits = resnet_logits(&j->trainer, params, stats, mf_get(batch, "image")), labels = mf_get(batch, "label");
    mf_value losses = mf_softmax_cross_entropy_with_integer_labels(logits, labels);
    mf_value seen = mf_dict("logits", logits, "labels", labels, "loss", losses, "mask", mf_get(batch, "mask"));
    return mf_psum(mf_call(j->metrics, seen), "devices");
}

/* {"loss", "accuracy"} over all test images. */
static mf_value evaluate(run *r)
{
    mf_value sums = { 0 };
    for (mf_value batch; mf_loader_next(r->test, &batch);) {
        mf_value rows = mf_shard_batch(batch, mf_local_device_count());
        mf_value more = mf_unreplicate(mf_call(r->evaluate, mf_get(r->state, "params"), mf_get(r->state, "stats"), rows));
        sums = sums.handle ? mf_tree_map(mf_fn(mf_add), sums, more) : more;
    }
    return mf_nn_metric_result(r->judge.metrics, sums);
}

static mf_value checkpoint_of(const run *r)
{
    const settings *s = r->settings;
    const double which[] = { (double)s->epochs, (double)s->batch, (double)s->limit,   (double)s->seed,
                             s->learning_rate,  s->weight_decay,  s->label_smoothing, s->plain };
    return progress_of(which, sizeof which / sizeof *which, r->train, mf_unreplicate(r->state));
}

/* ---- epochs */

static bool one_epoch(run *r, long long epoch)
{
    MF_SCOPE;
    if (!train_epoch(r, epoch))
        return false;
    mf_value test = evaluate(r), train = mf_dict("loss", r->loss / r->steps, "accuracy", r->accuracy / r->steps);
    if (report_error(test))
        return false;
    printf("Epoch %lld/%lld: test loss %.4f, test accuracy %.4f\n", epoch, r->settings->epochs, mf_item_f64(mf_get(test, "loss")),
           mf_item_f64(mf_get(test, "accuracy")));
    fflush(stdout);
    return mf_logbook_write(r->book, epoch, mf_dict("train", train, "test", test)) == MF_OK &&
           mf_checkpoint_manager_save(r->checkpoints.manager, epoch, checkpoint_of(r)) == MF_OK; /* mf_exit_status reports a failure */
}

static bool train_epochs(run *r)
{
    const settings *s = r->settings;
    long long first = mf_loader_position(r->train) / mf_loader_batches(r->train), last = s->epochs;
    if (s->pause && s->pause < last)
        last = s->pause;
    for (long long epoch = first + 1; epoch <= last; epoch++)
        if (!one_epoch(r, epoch))
            return false;
    const char *table = first < last ? mf_logbook_table(r->book) : NULL;
    if (table)
        printf("\n%s\n", table);
    return true;
}

/* ---- setting up and running */

static double parameter_count(mf_value leaves)
{
    double count = 0;
    for (int i = 0; i < mf_len(leaves); i++)
        count += (double)mf_size(mf_get(leaves, i));
    return count;
}

static bool open_files(run *r)
{
    MF_SCOPE;
    mf_value state;
    r->checkpoints = (going_on){ r->settings->out, r->settings->resume, "epochs", "--devices", NULL };
    if (!begin_or_go_on(&r->checkpoints, checkpoint_of(r), r->train, &state))
        return false;
    mf_assign(&r->state, mf_replicate(state, mf_local_devices()));
    r->book = mf_logbook_open(r->settings->out);
    return !report_error(r->state);
}

static bool start(run *r)
{
    const settings *s = r->settings;
    mf_value divides = mf_shard_batch(mf_zeros(MF_SHAPE(s->batch)), mf_device_count());
    if (report_error(divides) || !(r->train = open_loader(s, true)) || !(r->test = open_loader(s, false)))
        return false;
    r->judge.trainer.tx = resnet_optimizer(s->learning_rate, s->weight_decay, s->epochs * mf_loader_batches(r->train));
    r->step = mf_pmap(mf_closure(resnet_train_step, &r->judge.trainer), "devices", .donate_argnums = MF_INTS(0));
    r->evaluate = mf_pmap(mf_closure(eval_step, &r->judge), "devices");
    resnet_state first = resnet_first_state(&r->judge.trainer, (uint64_t)s->seed);
    mf_assign(&r->state, mf_replicate(resnet_state_pack(first), mf_local_devices()));
    if (report_error(r->state) || !open_files(r))
        return false;
    printf("%d devices with %lld images each a step, %lld steps an epoch; %lld layers, %.0f parameters\n", mf_device_count(),
           s->batch / mf_device_count(), (long long)mf_loader_batches(r->train), 6 * s->blocks + 2,
           parameter_count(mf_tree_leaves(first.params)));
    return true;
}

static bool save(const run *r)
{
    MF_SCOPE;
    char path[4096];
    if (!path_in(r->settings->out, "resnet.safetensors", path, sizeof path))
        return false;
    mf_value state = mf_unreplicate(r->state);
    bool saved = mf_save_safetensors(path, mf_dict("params", mf_get(state, "params"), "stats", mf_get(state, "stats"))) == MF_OK;
    if (saved)
        printf("Curves drawn as %s/curves.png and curves.svg; trained parameters saved as %s\n", r->settings->out, path);
    return saved;
}

static bool train(const settings *s)
{
    mf_set_num_cpu_devices((int)s->devices);
    resnet_size size = { num_classes, 1, (int)s->width, 3, (int)s->blocks };
    run r = { .settings = s,
              .judge = { .trainer = { .model = resnet(mf_random_state((uint64_t)s->seed), &size),
                                      .label_smoothing = s->label_smoothing,
                                      .size = image_size,
                                      .augment = !s->plain },
                         .metrics = mf_nn_multi_metric("loss", mf_nn_average("loss"), "accuracy", mf_nn_accuracy()) } };
    bool ok = start(&r) && train_epochs(&r);
    ok = mf_checkpoint_manager_close(r.checkpoints.manager) == MF_OK && ok; /* waits for pending writes */
    ok = mf_logbook_close(r.book) == MF_OK && ok;
    ok = ok && save(&r);
    mf_clear(&r.state);
    mf_loader_close(r.train);
    mf_loader_close(r.test);
    return ok;
}

int main(int argc, char **argv)
{
    settings s = { .devices = 2,
                   .epochs = 16,
                   .batch = 128,
                   .width = 16,
                   .blocks = 3,
                   .learning_rate = 0.1,
                   .weight_decay = 5e-4,
                   .label_smoothing = 0.1,
                   .out = "out" };
    int status;
    if (!read_settings(&s, argc, argv, &status))
        return status;
    bool ok = train(&s);
    status = mf_exit_status();
    return ok ? status : EXIT_FAILURE;
}
