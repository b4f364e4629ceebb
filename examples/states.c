/* A spiking neural network that learns Fashion-MNIST as a stream: it sees an image row by row, as spikes, and its neurons keep state
 * between the rows.
 *
 * Everything that changes is a state of a module, and mf_pmap2 maps states by rules: each device has its own voltages and spikes, the
 * random state that draws input spikes is split, parameters and optimiser are replicated. A filter selects the parameters to train: by
 * default the recurrent connections keep their random initial values. The test feeds the trained network one row per call; the states carry
 * what it has seen before. See docs/STATES.md. */
#include <manyfold.h>

#define PROGRAM "states"
#include "going_on.h"
#include "states_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { side = 28, classes = 10, most_repeats = 20 };

/* ---- the command line */

typedef struct settings {
    long long devices, epochs, batch, neurons, repeats, seed;
    long long limit; /* training images; 0: all */
    double learning_rate, decay;
    const char *frozen, *data, *out;
    bool resume;
} settings;

static const char usage[] =
    "usage: states [OPTION]...\n"
    "Trains a spiking network on Fashion-MNIST, row by row, data-parallel, its states mapped by rules; tests and saves it.\n"
    "\n"
    "  --devices N    devices to train on (8)\n"
    "  --epochs N     passes over the training images (10)\n"
    "  --batch N      images a step, over all devices (256)\n"
    "  --neurons N    neurons that spike (128)\n"
    "  --repeats N    steps of time that a row is shown (1)\n"
    "  --decay PART   of a voltage that is left after a step of time (0.9)\n"
    "  --lr RATE      Adam's learning rate (0.005)\n"
    "  --frozen PATH  parameters that are not trained, by their place: \"lif\", \"kernel\" (lif/recurrent); \"\": none\n"
    "  --seed N       of the parameters, the order of the images and all spikes (0)\n"
    "  --data FOLDER  with the four gzip'd IDX files (where Debian's dataset-fashion-mnist puts them)\n"
    "  --out FOLDER   for parameters, checkpoints, spikes and curves (out)\n"
    "  --limit N      training images to use, the first N (0: all)\n"
    "  --resume       go on from the newest checkpoint in the folder after --out, up to --epochs in all\n"
    "  --help         this text\n";

static bool set_option(void *of, int option, const char *text)
{
    settings *s = of;
    const long long most = 1 << 20;
    switch (option) {
    case 'd': return whole_number(text, 1, 1024, &s->devices);
    case 'e': return whole_number(text, 1, most, &s->epochs);
    case 'b': return whole_number(text, 1, most, &s->batch);
    case 'n': return whole_number(text, 1, 1 << 14, &s->neurons);
    case 'p': return whole_number(text, 1, most_repeats, &s->repeats);
    case 's': return whole_number(text, 0, INT64_MAX, &s->seed);
    case 'l': return whole_number(text, 0, INT64_MAX, &s->limit);
    case 'r': return number(text, &s->learning_rate) && s->learning_rate >= 1e-9 && s->learning_rate <= 1e9;
    case 'y': return number(text, &s->decay) && s->decay >= 0 && s->decay <= 1;
    case 'f': s->frozen = text; return true;
    case 'i': s->data = text; return true;
    case 'o': s->out = text; return true;
    case 'R': s->resume = true; return true;
    default: return false;
    }
}

/* Returns false if the program is to exit now, with *status. */
static bool read_settings(settings *s, int argc, char **argv, int *status)
{
    static const struct option options[] = {
        { "devices", required_argument, NULL, 'd' }, { "epochs", required_argument, NULL, 'e' },  { "batch", required_argument, NULL, 'b' },
        { "neurons", required_argument, NULL, 'n' }, { "repeats", required_argument, NULL, 'p' }, { "decay", required_argument, NULL, 'y' },
        { "lr", required_argument, NULL, 'r' },      { "frozen", required_argument, NULL, 'f' },  { "seed", required_argument, NULL, 's' },
        { "data", required_argument, NULL, 'i' },    { "out", required_argument, NULL, 'o' },     { "limit", required_argument, NULL, 'l' },
        { "resume", no_argument, NULL, 'R' },        { "help", no_argument, NULL, 'h' },          { 0 },
    };
    if (!read_options(argc, argv, options, usage, set_option, s, status))
        return false;
    const char *wrong = optind < argc ? "takes options alone" : s->batch % s->devices ? "--batch must be divisible by --devices" : NULL;
    if (wrong)
        fprintf(stderr, "states: %s\n", wrong);
    return !wrong;
}

/* ---- data */

/* {"image": (n, 28, 28), "label": (n)}: without the border that mf_load_fashion_mnist adds */
static mf_value load(const settings *s, const char *split)
{
    mf_value dataset = mf_load_fashion_mnist(s->data, split);
    if (report_dataset_error(dataset, s->data))
        return dataset;
    mf_value images = mf_squeeze(mf_get(dataset, "image"), -1), labels = mf_get(dataset, "label");
    images = mf_pad(images, 0.0f, MF_INTS(0, -2, -2), MF_INTS(0, -2, -2), MF_INTS(0, 0, 0));
    if (strcmp(split, "train") != 0 || !s->limit || s->limit >= mf_dim(labels, 0))
        return mf_dict("image", images, "label", labels);
    return mf_dict("image", mf_get(images, mf_range(0, s->limit)), "label", mf_get(labels, mf_range(0, s->limit)));
}

/* NULL after an error, which has been printed. The loader copies the rows it needs, so the scope may release the dataset. */
static mf_loader *open_loader(const settings *s, const char *split)
{
    MF_SCOPE;
    bool train = strcmp(split, "train") == 0;
    mf_value dataset = load(s, split);
    if (mf_is_error(dataset))
        return NULL;
    return having_batches(mf_loader_open(dataset, .batch_size = s->batch, .shuffle = train, .shuffle_seed = (uint64_t)s->seed,
                                         .pad_last = !train, .prefetch = train ? 2 : 0));
}

/* ---- training */

typedef struct run {
    const settings *settings;
    snn_trainer trainer;
    mf_function step, look, judge;
    mf_value pending;                     /* the metrics of the last step queued, not read yet */
    double loss, accuracy, spikes, steps; /* sums over the epoch so far */
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
    r->spikes += mf_item_f64(mf_get(r->pending, "spikes", 0));
    r->steps++;
    mf_clear(&r->pending);
    return true;
}

/* Reading a result blocks until it is computed, so a step's loss is read only after the next step has been dispatched. */
static bool queue_step(run *r, mf_value batch)
{
    MF_SCOPE;
    mf_value sharded = mf_shard_batch(batch, mf_local_device_count());
    mf_value means = mf_call(r->step, mf_get(sharded, "image"), mf_get(sharded, "label"));
    if (!finish_pending(r))
        return false;
    mf_assign(&r->pending, means);
    return true;
}

static bool train_epoch(run *r, long long epoch)
{
    char label[48], text[64];
    snprintf(label, sizeof label, "Epoch %lld/%lld, batch", epoch, r->settings->epochs);
    mf_progress *p = mf_progress_open(label, mf_loader_batches(r->train), .unit = "images", .per_step = (double)r->settings->batch);
    bool good = true;
    r->loss = r->accuracy = r->spikes = r->steps = 0;
    for (mf_value batch; good && mf_loader_next(r->train, &batch);) {
        good = !report_error(batch) && queue_step(r, batch) && (r->steps > 0 || finish_pending(r));
        snprintf(text, sizeof text, "loss %.4f, accuracy %.4f", r->steps > 0 ? r->loss / r->steps : 0,
                 r->steps > 0 ? r->accuracy / r->steps : 0);
        mf_progress_step(p, text);
    }
    good = good && finish_pending(r);
    mf_progress_close(p);
    return good;
}

/* ---- streaming evaluation: one row per call; between calls, voltages and spikes stay on their devices */

/* sums (n, classes), x (n, width) -> (n, classes): adds the readout voltages of one step */
static mf_value look(void *model, mf_value sums, mf_value x) { return mf_add(sums, mf_call(*(mf_module *)model, x)); }

/* sums of voltages, labels, mask -> {"loss", "correct", "images"}: sums over the unmasked images of all devices */
static mf_value judge(void *steps, mf_value sums, mf_value labels, mf_value mask)
{
    mf_value losses = mf_softmax_cross_entropy_with_integer_labels(mf_div(sums, (double)*(int64_t *)steps), labels);
    mf_value correct = mf_equal(mf_argmax(sums, -1), labels);
    mf_value counted = mf_dict("loss", mf_sum(mf_mul(losses, mask)), "correct", mf_sum(mf_mul(correct, mask)), "images", mf_sum(mask));
    return mf_psum(counted, "devices");
}

static mf_value row_of(mf_value images, long long step, long long repeats)
{
    return mf_squeeze(mf_slice_in_dim(images, step / repeats, step / repeats + 1, 1, 2), 2);
}

/* images (devices, n, 28, 28) -> (devices, n, classes). If rasters is not NULL, it receives the spikes of each device's first image. */
static mf_value watch(run *r, mf_value images, mf_value *rasters)
{
    const long long repeats = r->settings->repeats;
    mf_value sums = mf_zeros(MF_SHAPE(mf_dim(images, 0), mf_dim(images, 1), classes));
    for (long long i = 0; i < side * repeats; i++) {
        sums = mf_call(r->look, sums, row_of(images, i, repeats));
        if (rasters)
            rasters[i] = mf_slice_in_dim(snn_value(r->trainer.model, "lif/spikes"), 0, 1, 1, 1);
    }
    return sums;
}

typedef struct score {
    double loss, accuracy;
} score;

static bool evaluate(run *r, score *out)
{
    double loss = 0, correct = 0, images = 0;
    for (mf_value batch; mf_loader_next(r->test, &batch);) {
        MF_SCOPE;
        if (report_error(batch) || snn_reset(r->trainer.model) != MF_OK)
            return false;
        mf_value sharded = mf_shard_batch(batch, mf_local_device_count());
        mf_value sums = mf_call(r->judge, watch(r, mf_get(sharded, "image"), NULL), mf_get(sharded, "label"), mf_get(sharded, "mask"));
        if (report_error(sums))
            return false;
        loss += mf_item_f64(mf_get(sums, "loss", 0));
        correct += mf_item_f64(mf_get(sums, "correct", 0));
        images += mf_item_f64(mf_get(sums, "images", 0));
    }
    *out = (score){ loss / images, correct / images };
    return true;
}

/* The optimiser module contains the model, so this saves all states. */
static mf_value checkpoint_of(const run *r)
{
    const settings *s = r->settings;
    const double which[] = { (double)s->batch, (double)s->limit, (double)s->seed, (double)s->repeats, s->learning_rate, s->decay };
    return progress_of(which, sizeof which / sizeof *which, r->train, mf_module_values(r->trainer.optimizer, mf_everything()));
}

static bool train_epochs(run *r)
{
    score tested = { 0 };
    long long first = mf_loader_position(r->train) / mf_loader_batches(r->train);
    for (long long epoch = first + 1; epoch <= r->settings->epochs; epoch++) {
        MF_SCOPE;
        if (!train_epoch(r, epoch) || !evaluate(r, &tested))
            return false;
        printf("Epoch %lld/%lld: test loss %.4f, test accuracy %.4f; a neuron spikes in %.1f %% of the steps\n", epoch, r->settings->epochs,
               tested.loss, tested.accuracy, 100 * r->spikes / r->steps);
        mf_value train = mf_dict("loss", r->loss / r->steps, "accuracy", r->accuracy / r->steps, "spikes", r->spikes / r->steps);
        mf_value test = mf_dict("loss", tested.loss, "accuracy", tested.accuracy);
        if (mf_logbook_write(r->book, epoch, mf_dict("train", train, "test", test)) != MF_OK ||
            mf_checkpoint_manager_save(r->checkpoints.manager, epoch, checkpoint_of(r)) != MF_OK)
            return false; /* mf_exit_status reports the failure */
    }
    printf("\n%s\n", mf_logbook_table(r->book));
    return true;
}

/* ---- a picture: each device's first test image above the spikes that it causes. Time goes to the right, so the image is transposed. */

static mf_value enlarge(mf_value x, int64_t factor) { return mf_repeat(mf_repeat(x, factor, 1), factor, 2); }

static bool draw(run *r)
{
    MF_SCOPE;
    const settings *s = r->settings;
    char path[4096];
    mf_value batch, rasters[side * most_repeats];
    if (!mf_loader_next(r->test, &batch) || report_error(batch) || snn_reset(r->trainer.model) != MF_OK)
        return false;
    mf_value images = mf_get(mf_shard_batch(batch, mf_local_device_count()), "image");
    watch(r, images, rasters);
    mf_value spikes = mf_squeeze(mf_stack(mf_list_n(rasters, (int)(side * s->repeats)), -1), 1); /* (devices, neurons, time) */
    mf_value first = mf_transpose(mf_squeeze(mf_slice_in_dim(images, 0, 1, 1, 1), 1), MF_INTS(0, 2, 1));
    mf_value tiles = mf_concatenate(mf_list(enlarge(first, 3 * s->repeats), enlarge(spikes, 3)), 1);
    if (report_error(tiles) || !path_in(s->out, "spikes.png", path, sizeof path) ||
        mf_save_png(path, mf_make_grid(tiles, .nrow = 8, .padding = 4, .pad_value = 0.25)) != MF_OK)
        return false;
    printf("Spikes saved as %s\n", path);
    return true;
}

/* ---- setting up and running */

static double size_of(mf_value tree)
{
    mf_value leaves = mf_tree_leaves(tree);
    double count = 0;
    for (int i = 0; i < mf_len(leaves); i++)
        count += (double)mf_size(mf_get(leaves, i));
    return count;
}

/* Sets *frozen to the filter of the parameters that are not trained. False, after a message, if --frozen matches no parameter. */
static bool choose(const settings *s, mf_module model, mf_filter *frozen)
{
    *frozen = *s->frozen ? mf_path_contains(s->frozen) : mf_filter_not(mf_everything());
    mf_filter param = mf_of_type(MF_PARAM_STATE);
    if (*s->frozen && size_of(mf_module_values(model, mf_filter_all(param, *frozen))) == 0) {
        fprintf(stderr, "states: --frozen '%s' is in no parameter's path\n", s->frozen);
        return false;
    }
    return true;
}

static void show(const run *r)
{
    mf_print(r->trainer.model);
    printf("%.0f of %.0f parameters are trained\n", size_of(mf_module_values(r->trainer.model, r->trainer.trained)),
           size_of(mf_module_values(r->trainer.model, mf_of_type(MF_PARAM_STATE))));
}

static bool open_files(run *r)
{
    MF_SCOPE;
    mf_value states;
    r->checkpoints = (going_on){ r->settings->out, r->settings->resume, "epochs", "--epochs", NULL };
    if (!begin_or_go_on(&r->checkpoints, checkpoint_of(r), r->train, &states) || mf_module_update(r->trainer.optimizer, states) != MF_OK)
        return false;
    r->book = mf_logbook_open(r->settings->out);
    show(r);
    return true;
}

static bool save(run *r)
{
    char path[4096];
    mf_value params = mf_module_values(r->trainer.model, mf_of_type(MF_PARAM_STATE));
    bool saved = path_in(r->settings->out, "states.npz", path, sizeof path) && mf_save_npz(path, params) == MF_OK;
    if (saved)
        printf("Trained parameters saved as %s\n", path);
    return saved;
}

static bool train(const settings *s)
{
    mf_set_num_cpu_devices((int)s->devices);
    run r = { .settings = s };
    snn_size size = { side, (int)s->neurons, classes, s->decay };
    mf_module model = snn(mf_random_state((uint64_t)s->seed), &size, MF_SHAPE(s->devices, s->batch / s->devices));
    mf_filter frozen;
    int64_t steps = side * s->repeats;
    bool ok = (r.train = open_loader(s, "train")) && (r.test = open_loader(s, "test")) && choose(s, model, &frozen);
    if (ok) {
        r.trainer = snn_train(model, frozen, s->learning_rate, s->repeats);
        r.step = snn_map(mf_closure(snn_train_step, &r.trainer));
        r.look = snn_map(mf_closure(look, &r.trainer.model));
        r.judge = mf_pmap(mf_closure(judge, &steps), "devices");
        ok = open_files(&r) && train_epochs(&r) && save(&r) && draw(&r);
    }
    ok = mf_checkpoint_manager_close(r.checkpoints.manager) == MF_OK && ok;
    ok = mf_logbook_close(r.book) == MF_OK && ok;
    mf_loader_close(r.train);
    mf_loader_close(r.test);
    return ok;
}

int main(int argc, char **argv)
{
    settings s = { .devices = 8,
                   .epochs = 10,
                   .batch = 256,
                   .neurons = 128,
                   .repeats = 1,
                   .learning_rate = 5e-3,
                   .decay = 0.9,
                   .frozen = "lif/recurrent",
                   .out = "out" };
    int status;
    if (!read_settings(&s, argc, argv, &status))
        return status;
    bool ok = train(&s);
    status = mf_exit_status();
    return ok ? status : EXIT_FAILURE;
}
