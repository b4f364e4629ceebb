/* A small byte-level GPT. It learns to write like the text it is given: by default the licences that every Debian machine has.
 *
 * Every device holds the same parameters and works on its shard of each batch, in micro-batches whose gradients a scan accumulates; the
 * means over all devices make one AdamW update, with clipped gradients and a learning rate that warms up and then decays. With --bf16 the
 * model computes in bfloat16, while parameters, accumulated gradients and losses stay float32. The trained model generates text one token
 * at a time, with a KV cache of all tokens before it. See docs/GPT.md. */
#include <manyfold.h>

#define PROGRAM "gpt"
#include "going_on.h"
#include "gpt_model.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { bytes = 256 }; /* the vocabulary size: a token is a byte */

/* ---- the command line */

typedef struct settings {
    long long devices, steps, batch, accumulate, length, layers, heads, features, seed, sample;
    long long pause; /* steps after which to stop; 0: all */
    double learning_rate, dropout, temperature;
    const char *text, *out, *prompt;
    bool bf16, generate, resume;
} settings;

static const char usage[] = "usage: gpt [OPTION]...\n"
                            "Trains a GPT on text, data-parallel, saves it and lets it write; or loads it to write alone.\n"
                            "\n"
                            "  --devices N      devices to train on (8)\n"
                            "  --steps N        steps of training (600)\n"
                            "  --batch N        windows of text a step, over all devices (64)\n"
                            "  --accumulate N   micro-batches that each device cuts its part into (2)\n"
                            "  --length N       tokens that the model sees (128)\n"
                            "  --layers N       blocks of attention and two linear layers (4)\n"
                            "  --heads N        heads of attention (4)\n"
                            "  --features N     numbers for a token (128)\n"
                            "  --lr RATE        AdamW's greatest learning rate (0.002)\n"
                            "  --dropout RATE   what is dropped in training (0.1)\n"
                            "  --bf16           compute in bfloat16; parameters stay float32\n"
                            "  --seed N         of the parameters, the order of the windows and what is written (0)\n"
                            "  --text PATH      a text, or a folder of some (Debian's licences, /usr/share/common-licenses)\n"
                            "  --out FOLDER     for curves, metrics, checkpoints and the trained parameters (out)\n"
                            "  --pause N        stop after so many steps in all, to go on later with --resume (0: no)\n"
                            "  --resume         go on from the newest checkpoint in the folder after --out\n"
                            "  --generate       train nothing; load the parameters, of the same --layers, --heads and --features\n"
                            "  --sample N       bytes to write (400)\n"
                            "  --prompt TEXT    what to go on from (\"The \")\n"
                            "  --temperature T  0: always the likeliest byte; 1: as often as the model thinks (0.8)\n"
                            "  --help           this text\n";

static bool set_option(void *of, int option, const char *text)
{
    settings *s = of;
    const long long most = 1 << 20;
    switch (option) {
    case 'd': return whole_number(text, 1, 1024, &s->devices);
    case 'n': return whole_number(text, 1, most, &s->steps);
    case 'b': return whole_number(text, 1, most, &s->batch);
    case 'a': return whole_number(text, 1, most, &s->accumulate);
    case 'l': return whole_number(text, 1, 1 << 14, &s->length);
    case 'L': return whole_number(text, 1, gpt_most_layers, &s->layers);
    case 'H': return whole_number(text, 1, 1 << 10, &s->heads);
    case 'f': return whole_number(text, 2, 1 << 14, &s->features);
    case 's': return whole_number(text, 0, INT64_MAX, &s->seed);
    case 'S': return whole_number(text, 0, most, &s->sample);
    case 'r': return number(text, &s->learning_rate) && s->learning_rate >= 1e-9 && s->learning_rate < 1e9;
    case 'D': return number(text, &s->dropout) && s->dropout >= 0 && s->dropout < 1;
    case 'T': return number(text, &s->temperature) && s->temperature >= 0 && s->temperature < 1e9;
    case 't': s->text = text; return true;
    case 'o': s->out = text; return true;
    case 'p': s->prompt = text; return *text != 0;
    case 'B': s->bf16 = true; return true;
    case 'P': return whole_number(text, 0, most, &s->pause);
    case 'R': s->resume = true; return true;
    case 'g': s->generate = true; return true;
    default: return false;
    }
}

/* The error message if settings do not fit one another; NULL if they do. */
static const char *wrong_numbers(const settings *s)
{
    if (s->features % s->heads || s->features / s->heads % 2)
        return "--features must be divisible by --heads, into even parts";
    if (s->batch % (s->devices * s->accumulate))
        return "--batch must be divisible by --devices times --accumulate";
    return NULL;
}

/* Returns false if the program is to exit now, with *status. */
static bool read_settings(settings *s, int argc, char **argv, int *status)
{
    static const struct option options[] = {
        { "devices", required_argument, NULL, 'd' }, { "steps", required_argument, NULL, 'n' },
        { "batch", required_argument, NULL, 'b' },   { "accumulate", required_argument, NULL, 'a' },
        { "length", required_argument, NULL, 'l' },  { "layers", required_argument, NULL, 'L' },
        { "heads", required_argument, NULL, 'H' },   { "features", required_argument, NULL, 'f' },
        { "lr", required_argument, NULL, 'r' },      { "dropout", required_argument, NULL, 'D' },
        { "bf16", no_argument, NULL, 'B' },          { "seed", required_argument, NULL, 's' },
        { "text", required_argument, NULL, 't' },    { "out", required_argument, NULL, 'o' },
        { "generate", no_argument, NULL, 'g' },      { "sample", required_argument, NULL, 'S' },
        { "prompt", required_argument, NULL, 'p' },  { "temperature", required_argument, NULL, 'T' },
        { "pause", required_argument, NULL, 'P' },   { "resume", no_argument, NULL, 'R' },
        { "help", no_argument, NULL, 'h' },          { 0 },
    };
    if (!read_options(argc, argv, options, usage, set_option, s, status))
        return false;
    const char *wrong = optind < argc ? "takes options alone" : wrong_numbers(s);
    if (wrong)
        fprintf(stderr, "gpt: %s\n", wrong);
    return !wrong;
}

/* ---- the text: one file, or all files of a folder concatenated */

typedef struct text {
    unsigned char *at;
    size_t size;
    int files;
} text;

static bool complain(const char *path)
{
    fprintf(stderr, "gpt: %s: %s\n", path, strerror(errno));
    return false;
}

static bool add_file(text *t, const char *path)
{
    FILE *f = fopen(path, "rb");
    unsigned char part[1 << 14];
    size_t count = 0;
    bool ok = f != NULL;
    while (ok && (count = fread(part, 1, sizeof part, f)) > 0) {
        unsigned char *more = realloc(t->at, t->size + count);
        ok = more != NULL;
        if (ok) {
            t->at = memcpy(more + t->size, part, count) ? more : NULL;
            t->size += count;
        }
    }
    ok = ok && !ferror(f);
    t->files++;
    if (!ok)
        complain(path);
    if (f)
        (void)fclose(f);
    return ok;
}

/* Regular files only: the links in /usr/share/common-licenses are second names of the same files. */
static bool add_folder(text *t, const char *folder)
{
    struct dirent **entries = NULL;
    int count = scandir(folder, &entries, NULL, alphasort);
    bool ok = count >= 0 || complain(folder);
    for (int i = 0; i < count; i++) {
        char path[4096];
        struct stat info;
        int n = snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        if (ok && n > 0 && (size_t)n < sizeof path && lstat(path, &info) == 0 && S_ISREG(info.st_mode))
            ok = add_file(t, path);
        free(entries[i]);
    }
    free(entries);
    return ok;
}

static bool read_text(text *t, const char *path)
{
    struct stat info;
    if (stat(path, &info) != 0)
        return complain(path);
    return S_ISDIR(info.st_mode) ? add_folder(t, path) : add_file(t, path);
}

/* Windows of length + 1 bytes that begin `stride` bytes apart: i32 (n, length + 1). */
static mf_value windows_of(const unsigned char *at, size_t size, int64_t length, int64_t stride)
{
    int64_t count = (int64_t)size > length ? ((int64_t)size - length - 1) / stride + 1 : 0;
    int32_t *tokens = malloc((size_t)(count + 1) * (size_t)(length + 1) * sizeof *tokens);
    if (!tokens)
        return mf_make_error(MF_ERROR_MEMORY, "no memory for %lld windows of text", (long long)count);
    for (int64_t i = 0; i < count; i++)
        for (int64_t k = 0; k <= length; k++)
            tokens[i * (length + 1) + k] = at[i * stride + k];
    mf_value windows = mf_from_host(MF_I32, MF_SHAPE(count, length + 1), tokens);
    free(tokens);
    return windows;
}

/* ---- training */

typedef struct gpt_run {
    const settings *settings;
    gpt_trainer trainer;
    mf_function step, evaluate;
    mf_value state;
    mf_value pending; /* the loss of the last step queued, not read yet */
    double loss, counted;
    size_t text_size;
    mf_loader *train, *test; /* test: the last tenth of the text */
    going_on checkpoints;
    mf_logbook *book;
} gpt_run;

/* NULL after an error, which has been printed. The loader copies the rows it needs, so the scope may release the windows. */
static mf_loader *open_loader(const settings *s, const text *t, bool train)
{
    MF_SCOPE;
    size_t cut = t->size - t->size / 10;
    mf_value windows = train ? windows_of(t->at, cut, s->length, s->length / 4 + 1)
                             : windows_of(t->at + cut, t->size - cut, s->length, s->length);
    if (report_error(windows))
        return NULL;
    if (mf_dim(windows, 0) >= s->batch)
        return mf_loader_open(windows, .batch_size = s->batch, .shuffle = train, .shuffle_seed = (uint64_t)s->seed);
    fprintf(stderr, "gpt: %zu bytes of text are too few to %s with: %lld windows of %lld are needed\n", t->size, train ? "train" : "test",
            s->batch, s->length + 1);
    return NULL;
}

/* Never ends: after the last batch of an epoch comes the first of the next. mf_loader_next returns false between them. */
static mf_value next_batch(mf_loader *l)
{
    mf_value batch = { 0 };
    if (!mf_loader_next(l, &batch) && !mf_loader_next(l, &batch))
        return mf_make_error(MF_ERROR_ARGUMENT, "the text has no batch");
    return batch;
}

static bool finish_pending(gpt_run *r)
{
    if (!r->pending.handle)
        return true;
    if (report_error(r->pending))
        return false;
    r->loss += mf_item_f64(mf_get(r->pending, 0)); /* the same on all devices */
    r->counted++;
    mf_clear(&r->pending);
    return true;
}

/* Reading a result blocks until it is computed, so a step's loss is read only after the next step has been dispatched. */
static bool queue_step(gpt_run *r)
{
    MF_SCOPE;
    mf_value next, loss, batch = mf_shard_batch(next_batch(r->train), mf_local_device_count());
    mf_unpack(mf_call(r->step, r->state, batch), &next, &loss);
    if (report_error(next) || !finish_pending(r))
        return false;
    mf_assign(&r->state, next);
    mf_assign(&r->pending, loss);
    return true;
}

static mf_value eval_step(void *trainer, mf_value params, mf_value tokens)
{
    return mf_pmean(gpt_loss(trainer, params, tokens), "devices");
}

/* The mean loss over the test text; NaN after an error, which has been printed. */
static double evaluate(gpt_run *r)
{
    double loss = 0;
    int64_t batches = mf_loader_batches(r->test);
    mf_value params = mf_get(r->state, "params");
    for (int64_t i = 0; i < batches; i++) {
        MF_SCOPE;
        mf_value mean = mf_call(r->evaluate, params, mf_shard_batch(next_batch(r->test), mf_local_device_count()));
        if (report_error(mean))
            return NAN;
        loss += mf_item_f64(mf_get(mean, 0)) / (double)batches;
    }
    return loss;
}

/* The training state includes the key that dropout draws from. */
static mf_value checkpoint_of(const gpt_run *r)
{
    const settings *s = r->settings;
    const double which[] = { (double)s->steps, (double)s->batch,     (double)s->accumulate, (double)s->length, (double)s->heads,
                             (double)s->seed,  (double)r->text_size, s->learning_rate,      s->dropout,        s->bf16 };
    mf_value state = mf_dict("trained", mf_unreplicate(r->state), "rngs", mf_module_values(r->trainer.model, mf_of_type(MF_RANDOM_STATE)));
    return progress_of(which, sizeof which / sizeof *which, r->train, state);
}

/* Called after every tenth of the training: writes a point of the curves and a checkpoint. */
static bool report(gpt_run *r, long long step)
{
    MF_SCOPE;
    double test = evaluate(r), train = r->loss / r->counted;
    if (isnan(test))
        return false;
    r->loss = r->counted = 0; /* the next report averages the steps after this one */
    return mf_logbook_write(r->book, step, mf_dict("train", mf_dict("loss", train), "test", mf_dict("loss", test))) == MF_OK &&
           mf_checkpoint_manager_save(r->checkpoints.manager, step, checkpoint_of(r)) == MF_OK; /* mf_exit_status reports a failure */
}

static long long steps_done(const gpt_run *r) { return mf_loader_position(r->train); }

static bool train_steps(gpt_run *r)
{
    const settings *s = r->settings;
    long long first = steps_done(r), last = s->pause && s->pause < s->steps ? s->pause : s->steps;
    mf_progress *p = mf_progress_open("Step", s->steps, .unit = "tokens", .per_step = (double)(s->batch * s->length), .done = first);
    bool ok = true;
    for (long long i = first + 1; ok && i <= last; i++) {
        char text[64];
        bool reports = i % (s->steps / 10 + 1) == 0 || i == last;
        ok = queue_step(r) && (!reports || finish_pending(r));
        snprintf(text, sizeof text, "loss %.4f", r->counted > 0 ? r->loss / r->counted : 0);
        mf_progress_step(p, text);
        ok = ok && (!reports || report(r, i));
    }
    mf_progress_close(p);
    if (ok && first < last)
        printf("\n%s\n", mf_logbook_table(r->book));
    return ok;
}

static bool test(gpt_run *r)
{
    double loss = evaluate(r);
    if (!isnan(loss))
        printf("Test loss %.4f: %.3f bits a byte\n", loss, loss / log(2));
    return !isnan(loss);
}

static double parameter_count(mf_value leaves)
{
    double count = 0;
    for (int i = 0; i < mf_len(leaves); i++)
        count += (double)mf_size(mf_get(leaves, i));
    return count;
}

/* AdamW as usual for GPTs: weight decay on kernels only; linear warm-up over the first twentieth of the steps, then cosine decay. */
static mf_optimizer optimizer_of(const settings *s)
{
    mf_function rate = mf_warmup_cosine_decay_schedule(0, s->learning_rate, s->steps / 20 + 1, s->steps + 1,
                                                       .end_value = s->learning_rate / 10);
    return mf_chain(mf_clip_by_global_norm(1),
                    mf_adamw(.schedule = rate, .b2 = 0.99, .weight_decay = 0.1, .mask = mf_path_contains("kernel")));
}

static bool open_files(gpt_run *r)
{
    MF_SCOPE;
    mf_value state;
    r->checkpoints = (going_on){ r->settings->out, r->settings->resume, "steps", "--devices", NULL };
    if (!begin_or_go_on(&r->checkpoints, checkpoint_of(r), r->train, &state))
        return false;
    mf_assign(&r->state, mf_replicate(mf_get(state, "trained"), mf_local_devices()));
    r->book = mf_logbook_open(r->settings->out);
    return !report_error(r->state) && mf_module_update(r->trainer.model, mf_get(state, "rngs")) == MF_OK;
}

static bool start(gpt_run *r)
{
    const settings *s = r->settings;
    text t = { 0 };
    bool ok = read_text(&t, s->text) && (r->train = open_loader(s, &t, true)) && (r->test = open_loader(s, &t, false));
    r->text_size = t.size;
    free(t.at);
    mf_value params = mf_module_values(r->trainer.model, mf_of_type(MF_PARAM_STATE));
    gpt_state first = { .params = params, .opt_state = mf_optim_init(r->trainer.tx, params) };
    mf_assign(&r->state, mf_replicate(gpt_state_pack(first), mf_local_devices()));
    if (!ok || report_error(r->state) || !open_files(r))
        return false;
    printf("%zu bytes of text in %d files; %d devices with %lld windows of %lld bytes each a step, %lld at a time; %.0f parameters\n",
           t.size, t.files, mf_device_count(), s->batch / mf_device_count(), s->length, s->batch / mf_device_count() / s->accumulate,
           parameter_count(mf_tree_leaves(params)));
    return true;
}

/* ---- the trained parameters */

static bool save(const gpt_run *r, mf_value params)
{
    char path[4096];
    if (!path_in(r->settings->out, "gpt.npz", path, sizeof path))
        return false;
    bool saved = mf_save_npz(path, params) == MF_OK; /* mf_exit_status reports a failure */
    if (saved)
        printf("Trained parameters saved as %s\n", path);
    return saved;
}

/* ---- text generation */

typedef struct writer {
    const settings *settings;
    mf_module model; /* a view with .decode = true: each call takes one token and uses the KV cache */
    mf_function next;
    int64_t filled;       /* positions in the cache */
    unsigned char *bytes; /* the prompt and the generated bytes */
    long long count;
} writer;

static bool empty_cache(writer *w)
{
    const settings *s = w->settings;
    w->filled = 0;
    return mf_nn_init_cache(w->model, MF_SHAPE(1, s->length, s->features), MF_F32) == MF_OK;
}

/* Appends byte number `at` to the cache and returns the byte that the model draws after it; -1 after an error. */
static int feed(writer *w, long long at)
{
    MF_SCOPE;
    mf_value key = mf_random_fold_in(mf_random_key((uint64_t)w->settings->seed), mf_i(at));
    mf_value next = mf_call(w->next, (int)w->bytes[at], key, w->settings->temperature);
    w->filled++;
    return report_error(next) ? -1 : (int)mf_item_i64(next);
}

/* Draws the byte after the last one. A full cache is emptied and refilled with the later half of its bytes: the model was never trained on
 * more than --length tokens. */
static int next_byte(writer *w)
{
    long long at = w->count - 1;
    int next = -1;
    if (w->filled == w->settings->length) {
        if (!empty_cache(w))
            return -1;
        for (long long i = w->count - w->settings->length / 2 - 1; i < at; i++)
            if (i >= 0 && feed(w, i) < 0)
                return -1;
    }
    next = feed(w, at);
    return next;
}

static void put_byte(int c) { putchar(c == '\n' || (isprint(c) && c < 128) ? c : '?'); }

static bool write_text(writer *w)
{
    const settings *s = w->settings;
    long long prompt = (long long)strlen(s->prompt);
    long long from = prompt > s->length ? prompt - s->length : 0; /* the model sees the last --length bytes */
    fputs(s->prompt, stdout);
    w->count = from;
    for (long long i = 0; i < prompt + s->sample - 1; i++) {
        if (i < prompt)
            w->bytes[i] = (unsigned char)s->prompt[i];
        if (i < from)
            continue;
        w->count = i + 1;
        int next = next_byte(w);
        if (next < 0)
            return false;
        if (i + 1 >= prompt) {
            w->bytes[i + 1] = (unsigned char)next;
            put_byte(next);
        }
        if (i + 1 >= prompt)
            fflush(stdout);
    }
    putchar('\n');
    return true;
}

static bool generate(const settings *s, mf_module model)
{
    MF_SCOPE;
    writer w = { .settings = s, .model = mf_nn_view(model, .deterministic = true, .decode = true) };
    if (!s->sample)
        return true;
    w.next = mf_jit(mf_closure(gpt_next, &w.model));
    w.bytes = malloc(strlen(s->prompt) + (size_t)s->sample + 1);
    bool ok = w.bytes && empty_cache(&w) && write_text(&w);
    free(w.bytes);
    return ok;
}

/* ---- the two modes: train, generate */

static mf_module model_of(const settings *s)
{
    gpt_size size = { bytes, (int)s->layers, (int)s->heads, (int)s->features, s->dropout, s->bf16 ? MF_BF16 : MF_DTYPE_DEFAULT };
    return gpt(mf_random_state((uint64_t)s->seed), &size);
}

static bool train(const settings *s)
{
    mf_set_num_cpu_devices((int)s->devices);
    gpt_run r = { .settings = s, .trainer = { model_of(s), optimizer_of(s), s->accumulate } };
    gpt_trainer still = { .model = mf_nn_eval(r.trainer.model) };
    r.step = mf_pmap2(mf_closure(gpt_train_step, &r.trainer), "devices", .donate_argnums = MF_INTS(0));
    r.evaluate = mf_pmap(mf_closure(eval_step, &still), "devices");
    bool ok = start(&r) && train_steps(&r) && test(&r);
    mf_value params = ok ? mf_unreplicate(mf_get(r.state, "params")) : mf_none();
    ok = ok && save(&r, params) && mf_module_update(r.trainer.model, params) == MF_OK && generate(s, r.trainer.model);
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
    if (!path_in(s->out, "gpt.npz", path, sizeof path))
        return false;
    mf_value params = mf_load_tree(path, mf_module_values(model, mf_of_type(MF_PARAM_STATE)));
    return !report_error(params) && mf_module_update(model, params) == MF_OK && generate(s, model);
}

int main(int argc, char **argv)
{
    settings s = { .devices = 8,
                   .steps = 600,
                   .batch = 64,
                   .accumulate = 2,
                   .length = 128,
                   .layers = 4,
                   .heads = 4,
                   .features = 128,
                   .sample = 400,
                   .learning_rate = 2e-3,
                   .dropout = 0.1,
                   .temperature = 0.8,
                   .text = "/usr/share/common-licenses",
                   .out = "out",
                   .prompt = "The " };
    int status;
    if (!read_settings(&s, argc, argv, &status))
        return status;
    bool ok = s.generate ? load(&s) : train(&s);
    status = mf_exit_status();
    return ok ? status : EXIT_FAILURE;
}
