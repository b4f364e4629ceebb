/* A variational autoencoder on Fashion-MNIST: it learns to encode images of clothes as 20 latent numbers, and to decode such codes to
 * images.
 *
 * Every device holds the same parameters and works on its shard of each batch, with its own random key; gradients are averaged over the
 * devices, so all devices make the same Adam update. In the end the program decodes random codes to new images, and saves test images
 * together with their reconstructions. See docs/VAE.md. */
#include <manyfold.h>

#define PROGRAM "vae"
#include "going_on.h"
#include "vae_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* side: of an image. A picture is a grid of rows x columns images; in that of reconstructions every other row has test images. */
enum { side = 28, columns = 16, rows = 10, pictured = rows * columns / 2 };

/* ---- the command line */

typedef struct settings {
    long long devices, epochs, batch, hidden, latents, seed;
    long long limit; /* training images; 0: all */
    double learning_rate;
    const char *data, *out;
    bool generate, resume;
} settings;

static const char usage[] =
    "usage: vae [OPTION]...\n"
    "Trains a variational autoencoder on Fashion-MNIST, data-parallel, saves it and lets it draw; or loads it to draw alone.\n"
    "\n"
    "  --devices N    devices to train on (8)\n"
    "  --epochs N     passes over the training images (20)\n"
    "  --batch N      images a step, over all devices (256)\n"
    "  --hidden N     width of the two hidden layers (512)\n"
    "  --latents N    numbers of a code (20)\n"
    "  --lr RATE      Adam's learning rate (0.001)\n"
    "  --seed N       of the parameters, the order of the images and all draws (0)\n"
    "  --data FOLDER  with the four gzip'd IDX files (where Debian's dataset-fashion-mnist puts them)\n"
    "  --out FOLDER   for parameters, checkpoints, pictures and curves (out)\n"
    "  --limit N      training images to use, the first N (0: all)\n"
    "  --resume       go on from the newest checkpoint in the folder after --out, up to --epochs in all\n"
    "  --generate     train nothing; load the parameters, of the same --hidden and --latents, and draw\n"
    "  --help         this text\n";

static bool set_option(void *of, int option, const char *text)
{
    settings *s = of;
    const long long most = 1 << 20;
    switch (option) {
    case 'd': return whole_number(text, 1, 1024, &s->devices);
    case 'e': return whole_number(text, 1, most, &s->epochs);
    case 'b': return whole_number(text, 1, most, &s->batch);
    case 'w': return whole_number(text, 1, 1 << 16, &s->hidden);
    case 'z': return whole_number(text, 1, 1 << 16, &s->latents);
    case 's': return whole_number(text, 0, INT64_MAX, &s->seed);
    case 'l': return whole_number(text, 0, INT64_MAX, &s->limit);
    case 'r': return number(text, &s->learning_rate) && s->learning_rate > 0;
    case 'i': s->data = text; return true;
    case 'o': s->out = text; return true;
    case 'R': s->resume = true; return true;
    case 'g': s->generate = true; return true;
    default: return false;
    }
}

/* Returns false if the program is to exit now, with *status. */
static bool read_settings(settings *s, int argc, char **argv, int *status)
{
    static const struct option options[] = {
        { "devices", required_argument, NULL, 'd' }, { "epochs", required_argument, NULL, 'e' },
        { "batch", required_argument, NULL, 'b' },   { "hidden", required_argument, NULL, 'w' },
        { "latents", required_argument, NULL, 'z' }, { "lr", required_argument, NULL, 'r' },
        { "seed", required_argument, NULL, 's' },    { "data", required_argument, NULL, 'i' },
        { "out", required_argument, NULL, 'o' },     { "limit", required_argument, NULL, 'l' },
        { "resume", no_argument, NULL, 'R' },        { "generate", no_argument, NULL, 'g' },
        { "help", no_argument, NULL, 'h' },          { 0 },
    };
    if (!read_options(argc, argv, options, usage, set_option, s, status))
        return false;
    const char *wrong = optind < argc ? "takes options alone" : s->batch % s->devices ? "--batch must be divisible by --devices" : NULL;
    if (wrong)
        fprintf(stderr, "vae: %s\n", wrong);
    return !wrong;
}

/* ---- data */

/* (n, 28 * 28), without labels: the first `limit` images; 0: all */
static mf_value load_images(const settings *s, const char *split, long long limit)
{
    mf_value dataset = mf_load_fashion_mnist(s->data, split);
    if (report_dataset_error(dataset, s->data))
        return dataset;
    mf_value images = vae_pixels(mf_get(dataset, "image"));
    return limit && limit < mf_dim(images, 0) ? mf_get(images, mf_range(0, limit)) : images;
}

static bool enough(mf_value images, const char *split, long long least)
{
    if (mf_dim(images, 0) < least)
        fprintf(stderr, "vae: %lld images to %s with are too few: %lld are needed\n", (long long)mf_dim(images, 0), split, least);
    return mf_dim(images, 0) >= least;
}

/* NULL after an error, which has been printed. The loader copies the rows it needs, so the scope may release the dataset. */
static mf_loader *open_loader(const settings *s, const char *split)
{
    MF_SCOPE;
    bool train = strcmp(split, "train") == 0;
    mf_value images = load_images(s, split, train ? s->limit : 0);
    if (mf_is_error(images) || !enough(images, split, train ? s->batch : pictured))
        return NULL;
    return mf_loader_open(mf_dict("image", images), .batch_size = s->batch, .shuffle = train, .shuffle_seed = (uint64_t)s->seed,
                          .pad_last = !train, .prefetch = train ? 2 : 0);
}

/* ---- training */

enum { costs = 3 };
static const char *const cost_names[costs] = { "loss", "reconstruction", "kl" };

typedef struct tally { /* sums over `count` images or batches */
    double sums[costs], count;
} tally;

typedef struct run {
    const settings *settings;
    vae_trainer trainer;
    mf_function step, evaluate;
    mf_value state;
    mf_value pending; /* the mean costs of the last step queued, not read yet */
    mf_loader *train, *test;
    going_on checkpoints;
    mf_logbook *book;
} run;

static void add(tally *t, mf_value per_device, double count)
{
    for (int i = 0; i < costs; i++)
        t->sums[i] += mf_item_f64(mf_get(per_device, cost_names[i], 0)); /* the same on all devices */
    t->count += count;
}

static mf_value means_of(const tally *t)
{
    return mf_dict("loss", t->sums[0] / t->count, "reconstruction", t->sums[1] / t->count, "kl", t->sums[2] / t->count);
}

static bool finish_pending(run *r, tally *t)
{
    MF_SCOPE;
    if (!r->pending.handle)
        return true;
    if (report_error(r->pending))
        return false;
    add(t, r->pending, 1);
    mf_clear(&r->pending);
    return true;
}

/* Reading a result blocks until it is computed, so a step's loss is read only after the next step has been dispatched. */
static bool queue_step(run *r, tally *t, mf_value batch)
{
    MF_SCOPE;
    mf_value next, means, images = mf_shard_batch(mf_get(batch, "image"), mf_local_device_count());
    mf_unpack(mf_call(r->step, r->state, images), &next, &means);
    if (report_error(next) || !finish_pending(r, t))
        return false;
    mf_assign(&r->state, next);
    mf_assign(&r->pending, means);
    return true;
}

static bool train_epoch(run *r, long long epoch, tally *t)
{
    char label[48], text[64];
    snprintf(label, sizeof label, "Epoch %lld/%lld, batch", epoch, r->settings->epochs);
    mf_progress *p = mf_progress_open(label, mf_loader_batches(r->train), .unit = "images", .per_step = (double)r->settings->batch);
    bool good = true;
    for (mf_value batch; good && mf_loader_next(r->train, &batch);) {
        good = !report_error(batch) && queue_step(r, t, batch) && (t->count > 0 || finish_pending(r, t));
        snprintf(text, sizeof text, "loss %.2f", t->count > 0 ? t->sums[0] / t->count : 0);
        mf_progress_step(p, text);
    }
    good = good && finish_pending(r, t);
    mf_progress_close(p);
    return good;
}

static mf_value masked_sum(void *mask, mf_value x) { return mf_psum(mf_sum(mf_mul(x, *(mf_value *)mask)), "devices"); }

/* -> (dict of costs, number of images): sums over the unmasked images of all devices. */
static mf_value eval_step(void *model, mf_value params, mf_value batch, mf_value key)
{
    mf_value mask = mf_get(batch, "mask");
    mf_value sums = mf_tree_map(mf_closure(masked_sum, &mask), vae_costs(*(mf_module *)model, params, mf_get(batch, "image"), key));
    return mf_tuple(sums, mf_psum(mf_sum(mask), "devices"));
}

/* Uses the same random keys after every epoch, so that the results can be compared. */
static bool evaluate(run *r, tally *t)
{
    int devices = mf_local_device_count();
    mf_value params = mf_get(r->state, "params");
    for (mf_value batch; mf_loader_next(r->test, &batch);) {
        MF_SCOPE;
        mf_value key = mf_random_fold_in(mf_random_key((uint64_t)r->settings->seed), mf_i(mf_loader_position(r->test))), sums, images;
        mf_unpack(mf_call(r->evaluate, params, mf_shard_batch(batch, devices), mf_random_split(key, devices)), &sums, &images);
        if (report_error(sums))
            return false;
        add(t, sums, mf_item_f64(mf_get(images, 0)));
    }
    return true;
}

/* The training state includes every device's own key. */
static mf_value checkpoint_of(const run *r)
{
    const settings *s = r->settings;
    const double which[] = { (double)s->batch, (double)s->limit, (double)s->seed, s->learning_rate };
    mf_value state = mf_set(mf_unreplicate(r->state), mf_get(r->state, "key"), "key");
    return progress_of(which, sizeof which / sizeof *which, r->train, state);
}

static bool train_epochs(run *r)
{
    long long first = mf_loader_position(r->train) / mf_loader_batches(r->train);
    for (long long epoch = first + 1; epoch <= r->settings->epochs; epoch++) {
        MF_SCOPE;
        tally trained = { 0 }, tested = { 0 };
        if (!train_epoch(r, epoch, &trained) || !evaluate(r, &tested))
            return false;
        printf("Epoch %lld/%lld: test loss %.2f: reconstruction %.2f, KL %.2f\n", epoch, r->settings->epochs, tested.sums[0] / tested.count,
               tested.sums[1] / tested.count, tested.sums[2] / tested.count);
        if (mf_logbook_write(r->book, epoch, mf_dict("train", means_of(&trained), "test", means_of(&tested))) != MF_OK ||
            mf_checkpoint_manager_save(r->checkpoints.manager, epoch, checkpoint_of(r)) != MF_OK)
            return false; /* mf_exit_status reports the failure */
    }
    printf("\n%s\n", mf_logbook_table(r->book));
    return true;
}

/* ---- pictures */

static bool save_picture(const settings *s, const char *name, mf_value images, const char *what)
{
    char path[4096];
    if (report_error(images) || !path_in(s->out, name, path, sizeof path))
        return false;
    mf_value grid = mf_make_grid(mf_reshape(images, MF_SHAPE(-1, side, side)), .nrow = columns, .pad_value = 0.25);
    if (mf_save_png(path, grid) != MF_OK)
        return false;
    printf("%s saved as %s\n", what, path);
    return true;
}

/* Interleaves rows: each row of images above the row of their reconstructions. */
static mf_value in_turns(mf_value images, mf_value drawn)
{
    mf_value both = mf_list(mf_reshape(images, MF_SHAPE(rows / 2, columns, -1)), mf_reshape(drawn, MF_SHAPE(rows / 2, columns, -1)));
    return mf_reshape(mf_stack(both, 1), MF_SHAPE(rows * columns, -1));
}

static bool draw(const settings *s, mf_module model, mf_value params)
{
    MF_SCOPE;
    mf_value codes = mf_random_normal(mf_random_key((uint64_t)s->seed), MF_SHAPE(rows * columns, s->latents));
    mf_value samples = mf_call(mf_jit(mf_closure(vae_generate, &model)), params, codes);
    if (!save_picture(s, "samples.png", samples, "Samples"))
        return false;
    mf_value images = load_images(s, "test", pictured);
    if (mf_is_error(images) || !enough(images, "test", pictured))
        return false;
    mf_value drawn = mf_call(mf_jit(mf_closure(vae_reconstruct, &model)), params, images);
    return save_picture(s, "reconstructions.png", in_turns(images, drawn), "Test images, each row above its reconstruction,");
}

/* ---- the two modes: train, generate */

static double parameter_count(mf_value leaves)
{
    double count = 0;
    for (int i = 0; i < mf_len(leaves); i++)
        count += (double)mf_size(mf_get(leaves, i));
    return count;
}

static mf_module model_of(const settings *s)
{
    vae_size size = { side * side, (int)s->hidden, (int)s->latents };
    return vae(mf_random_state((uint64_t)s->seed), &size);
}

static bool open_files(run *r)
{
    MF_SCOPE;
    mf_value state;
    r->checkpoints = (going_on){ r->settings->out, r->settings->resume, "epochs", "--epochs", NULL };
    if (!begin_or_go_on(&r->checkpoints, checkpoint_of(r), r->train, &state))
        return false;
    mf_assign(&r->state, vae_replicated(state));
    r->book = mf_logbook_open(r->settings->out);
    return !report_error(r->state);
}

static bool start(run *r)
{
    const settings *s = r->settings;
    if (!(r->train = open_loader(s, "train")) || !(r->test = open_loader(s, "test")))
        return false;
    mf_value params = mf_module_values(r->trainer.model, mf_of_type(MF_PARAM_STATE));
    mf_assign(&r->state, vae_first_state(&r->trainer, params, mf_random_key((uint64_t)s->seed)));
    if (report_error(r->state) || !open_files(r))
        return false;
    printf("%d devices with %lld images each a step; %.0f parameters\n", mf_device_count(), s->batch / mf_device_count(),
           parameter_count(mf_tree_leaves(params)));
    return true;
}

static bool save(const settings *s, mf_value params)
{
    char path[4096];
    bool saved = path_in(s->out, "vae.npz", path, sizeof path) && mf_save_npz(path, params) == MF_OK; /* mf_exit_status reports a failure */
    if (saved)
        printf("Trained parameters saved as %s\n", path);
    return saved;
}

static bool train(const settings *s)
{
    mf_set_num_cpu_devices((int)s->devices);
    run r = { .settings = s, .trainer = { model_of(s), mf_adam(.learning_rate = s->learning_rate) } };
    r.step = mf_pmap(mf_closure(vae_train_step, &r.trainer), "devices", .donate_argnums = MF_INTS(0));
    r.evaluate = mf_pmap(mf_closure(eval_step, &r.trainer.model), "devices");
    bool ok = start(&r) && train_epochs(&r);
    mf_value params = ok ? mf_unreplicate(mf_get(r.state, "params")) : mf_none();
    ok = ok && save(s, params) && draw(s, r.trainer.model, params);
    ok = mf_checkpoint_manager_close(r.checkpoints.manager) == MF_OK && ok;
    ok = mf_logbook_close(r.book) == MF_OK && ok;
    mf_clear(&r.state);
    mf_loader_close(r.train);
    mf_loader_close(r.test);
    return ok;
}

static bool load(const settings *s)
{
    char path[4096];
    mf_module model = model_of(s);
    if (!path_in(s->out, "vae.npz", path, sizeof path))
        return false;
    mf_value params = mf_load_tree(path, mf_module_values(model, mf_of_type(MF_PARAM_STATE)));
    return !report_error(params) && draw(s, model, params);
}

int main(int argc, char **argv)
{
    settings s = { .devices = 8, .epochs = 20, .batch = 256, .hidden = 512, .latents = 20, .learning_rate = 1e-3, .out = "out" };
    int status;
    if (!read_settings(&s, argc, argv, &status))
        return status;
    bool ok = s.generate ? load(&s) : train(&s);
    status = mf_exit_status();
    return ok ? status : EXIT_FAILURE;
}
