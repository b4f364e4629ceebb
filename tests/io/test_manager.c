/* Checkpoints by step: written while the program continues, only the newest kept, and a training that is killed at any moment and
 * resumed. */
#include "check.h"
#include "runtime/comm.h"
#include "threads_comm.h"
#include "warnings.h"

#include <manyfold.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

__attribute__((constructor)) static void devices(void) { setenv("MF_NUM_CPU_DEVICES", "8", 0); }

static char folder[64];

static const char *in_folder(const char *name)
{
    static _Thread_local char path[4][192];
    static _Thread_local int next;
    char *at = path[next++ % 4];
    snprintf(at, sizeof path[0], "%s/%s", folder, name);
    return at;
}

static void remove_folder(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    if (folder[0] && strncmp(folder, "/tmp/mf_manager_", 16) == 0)
        CHECK_EQ_INT(system(command), 0);
}

static void new_folder(void)
{
    if (!folder[0])
        atexit(remove_folder);
    else
        remove_folder();
    snprintf(folder, sizeof folder, "/tmp/mf_manager_XXXXXX");
    if (!mkdtemp(folder))
        abort();
}

static bool is_there(const char *name) { return access(in_folder(name), F_OK) == 0; }

static void ignore(mf_status status, const char *message, void *context) { (void)status, (void)message, (void)context; }

/* The message of the last call's error, which is then handled. */
static const char *said(void)
{
    const char *words = NULL;
    (void)mf_first_error(&words);
    return words;
}

/* ------------------------------------------------------------------ a training */

enum { ROWS = 16, BATCH = 8, STEPS = 24, EVERY = 3 };

static mf_value loss(mf_value params, mf_value x, mf_value y, mf_value noise)
{
    mf_value h = mf_tanh(mf_add(mf_dot(x, mf_get(params, "w")), mf_mul(noise, 0.125)));
    return mf_square(mf_sub(mf_dot(h, mf_get(params, "v")), y));
}

static mf_value over_all(mf_value leaf) { return mf_mean(mf_all_gather(leaf, 0, "i", .tiled = true), 0); }

/* The gradients of all rows are computed two or more at a time, and summed in the same order for any number of devices. */
static mf_value step(void *adam, mf_value state, mf_value batch)
{
    mf_value params = mf_get(state, "params"), opt = mf_get(state, "opt");
    mf_function each = mf_vmap(mf_grad(loss), .in_axes = mf_axes(MF_NONE, 0, 0, 0));
    mf_value grads = mf_call(each, params, mf_get(batch, "x"), mf_get(batch, "y"), mf_get(batch, "noise"));
    params = mf_optim_update(*(mf_optimizer *)adam, mf_tree_map(over_all, grads), &opt, params);
    return mf_dict("params", params, "opt", opt);
}

typedef struct training {
    mf_optimizer adam;
    mf_function step;
    mf_value state;
    mf_state random;
    mf_loader *loader;
} training;

static void begin(training *t)
{
    mf_value key = mf_random_key(3), keys = mf_random_split(key, 4);
    mf_value data = mf_dict("x", mf_random_normal(mf_get(keys, 0), MF_SHAPE(ROWS, 5), MF_F32), "y",
                            mf_random_normal(mf_get(keys, 1), MF_SHAPE(ROWS), MF_F32));
    mf_value params = mf_dict("w", mf_random_normal(mf_get(keys, 2), MF_SHAPE(5, 7), MF_F32), "v",
                              mf_random_normal(mf_get(keys, 3), MF_SHAPE(7), MF_F32));
    t->adam = mf_adam(.learning_rate = 0.05);
    t->random = mf_random_state(11);
    t->loader = mf_loader_open(data, .batch_size = BATCH, .shuffle = true, .shuffle_seed = 5);
    t->step = mf_pmap(mf_closure(step, &t->adam), "i", .in_axes = mf_axes(MF_NONE, 0), .out_axes = MF_NONE, .donate_argnums = MF_INTS(0));
    t->state = mf_dict("params", params, "opt", mf_optim_init(t->adam, params));
}

static mf_value all_of(const training *t)
{
    int64_t position = mf_loader_position(t->loader);
    return mf_dict("state", t->state, "key", mf_state_value(t->random), "position", mf_from_host(MF_I64, MF_SHAPE0, &position));
}

static bool next_step(training *t)
{
    MF_SCOPE;
    mf_value batch;
    while (!mf_loader_next(t->loader, &batch)) {
    }
    batch = mf_set(batch, mf_random_normal(mf_random_next(t->random), MF_SHAPE(BATCH, 7), MF_F32), "noise");
    mf_value next = mf_call(t->step, t->state, mf_shard_batch(batch, mf_local_device_count()));
    if (!CHECK(!mf_is_error(next)))
        return CHECK_NOTE("%s", mf_error(next));
    mf_assign(&t->state, next);
    return true;
}

/* Trains to the end, resuming from the checkpoint in the folder; writes the result to a file. */
static bool train(const char *path, const char *end)
{
    MF_SCOPE;
    training t;
    begin(&t);
    mf_checkpoint_manager *m = mf_checkpoint_manager_open(path, .max_to_keep = 2, .save_interval_steps = EVERY);
    int64_t done = mf_checkpoint_manager_latest_step(m);
    if (done >= 0) {
        mf_value found = mf_checkpoint_manager_restore(m, done, all_of(&t));
        if (!CHECK(!mf_is_error(found)))
            return CHECK_NOTE("%s", mf_error(found));
        t.state = mf_get(found, "state");
        mf_state_set_value(t.random, mf_get(found, "key"));
        CHECK_EQ_INT(mf_loader_seek(t.loader, mf_item_i64(mf_get(found, "position"))), MF_OK);
    }
    bool good = true;
    for (int64_t i = done < 0 ? 0 : done; i < STEPS && good; i++)
        good = next_step(&t) && mf_checkpoint_manager_save(m, i + 1, all_of(&t)) == MF_OK;
    CHECK_EQ_INT(mf_checkpoint_manager_close(m), MF_OK);
    good = good && CHECK_EQ_INT(mf_save_safetensors(end, all_of(&t)), MF_OK);
    mf_loader_close(t.loader);
    return good;
}

/* The tests below run this in processes of their own. It must be the first test, so that nothing has run before. */
TEST(child)
{
    const char *path = getenv("MF_TEST_TRAIN");
    if (!path)
        return;
    snprintf(folder, sizeof folder, "%s", path); /* _exit skips the atexit handler that would remove the folder */
    bool good = train(in_folder("steps"), in_folder("end"));
    _exit(good && mf_exit_status() == 0 ? 0 : 1);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Trains in a separate process, which is killed after `seconds` if it is still running. False if it was killed. */
static bool train_apart(int device_count, double seconds)
{
    char count[16];
    snprintf(count, sizeof count, "%d", device_count);
    setenv("MF_TEST_TRAIN", folder, 1);
    setenv("MF_NUM_CPU_DEVICES", count, 1);
    int status = 0;
    double until = now() + seconds;
    pid_t child = vfork();
    if (child == 0) {
        execl("/proc/self/exe", "test_manager", "child", (char *)NULL);
        _exit(9);
    }
    while (waitpid(child, &status, seconds > 0 ? WNOHANG : 0) == 0) {
        usleep(200);
        if (now() >= until)
            (void)kill(child, SIGKILL);
    }
    unsetenv("MF_TEST_TRAIN");
    setenv("MF_NUM_CPU_DEVICES", "8", 1);
    if (!(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) && !CHECK_EQ_INT(status, 0))
        CHECK_NOTE("%d devices", device_count);
    return WIFEXITED(status);
}

static mf_value differs(mf_value a, mf_value b) { return mf_any(mf_not_equal(a, b)); }

static void check_same(mf_value a, mf_value b)
{
    mf_value leaves = mf_tree_leaves(mf_tree_map(differs, a, b));
    if (!CHECK(!mf_is_error(leaves) && mf_len(leaves) > 0))
        CHECK_NOTE("%s", mf_error(leaves));
    for (int i = 0; i < mf_len(leaves); i++)
        CHECK(!mf_item_bool(mf_get(leaves, i)));
}

static void read_end(char *out, size_t room, size_t *size)
{
    FILE *f = fopen(in_folder("end"), "rb");
    REQUIRE(f);
    *size = fread(out, 1, room, f);
    fclose(f);
}

static bool can_be_resumed(void)
{
    char name[32];
    for (int i = EVERY; i <= STEPS; i += EVERY) {
        snprintf(name, sizeof name, "steps/%d/index.npz", i);
        if (is_there(name))
            return true;
    }
    return false;
}

/* MF_KILLS kills, at random moments, each followed by a restart with another number of devices. */
TEST(a_training_that_is_killed_ends_as_if_nobody_had)
{
    static char undisturbed[1 << 16], killed[1 << 16];
    size_t size = 0, killed_size = 0;
    const char *wish = getenv("MF_KILLS"), *checked = getenv("MF_SANITIZE");
    int kills = wish ? atoi(wish) : checked && *checked ? 20 : 100, done = 0, ends = 0, resumed = 0;
    double began = now();
    new_folder();
    CHECK(train_apart(4, 0));
    double whole = now() - began;
    read_end(undisturbed, sizeof undisturbed, &size);
    srand(17);
    new_folder();
    while (done < kills || !ends) {
        int device_count = 1 << rand() % 3;
        resumed += can_be_resumed();
        bool ended = train_apart(device_count, done < kills ? whole * (0.1 + 0.9 * rand() / RAND_MAX) : 0);
        done += !ended;
        if (!ended)
            continue;
        read_end(killed, sizeof killed, &killed_size);
        CHECK_EQ_UINT(killed_size, size);
        CHECK_BYTES(killed, undisturbed, size);
        ends++;
        new_folder();
    }
    CHECK(resumed > kills / 4);
    if (wish)
        CHECK_NOTE("%d kills, %d of which were gone on from, %d ends", done, resumed, ends);
}

/* ------------------------------------------------------------------ what is kept */

static mf_value numbers(double x)
{
    return mf_dict("a", mf_full(MF_SHAPE(3), mf_f(x)), "b", mf_tuple(mf_i(7), mf_full(MF_SHAPE(2, 2), mf_f(-x))));
}

TEST(the_newest_are_kept_and_nothing_else_is_touched)
{
    MF_SCOPE;
    new_folder();
    mf_checkpoint_manager *m = mf_checkpoint_manager_open(in_folder("c"), .max_to_keep = 2, .save_interval_steps = 10);
    CHECK_EQ_INT(mf_checkpoint_manager_latest_step(m), -1);
    for (int i = 5; i <= 40; i += 5) {
        CHECK_EQ_INT(mf_checkpoint_manager_save(m, i, numbers(i)), MF_OK);
        if (i == 5)
            (void)mkdir(in_folder("c/notes"), 0777);
    }
    CHECK_EQ_INT(mf_checkpoint_manager_wait(m), MF_OK);
    CHECK(is_there("c/30/index.npz") && is_there("c/40/index.npz") && !is_there("c/20") && !is_there("c/10") && !is_there("c/35"));
    CHECK_EQ_INT(mf_checkpoint_manager_save(m, 45, numbers(45), .force = true), MF_OK);
    CHECK_EQ_INT(mf_checkpoint_manager_latest_step(m), 45);
    check_same(mf_checkpoint_manager_restore(m, -1, numbers(0)), numbers(45));
    check_same(mf_checkpoint_manager_restore(m, 40, numbers(0)), numbers(40));
    CHECK_EQ_INT(mf_checkpoint_manager_close(m), MF_OK);
    /* left by a process killed while it saved step 50; and a folder that belongs to somebody else */
    CHECK_EQ_INT(mkdir(in_folder("c/50"), 0777), 0);
    fclose(fopen(in_folder("c/50/a-whole.npz"), "wb"));
    fclose(fopen(in_folder("c/50/a-whole.npz.aB3dEf.tmp"), "wb"));
    CHECK_EQ_INT(mkdir(in_folder("c/60"), 0777), 0);
    fclose(fopen(in_folder("c/60/results.txt"), "wb"));
    m = mf_checkpoint_manager_open(in_folder("c"));
    CHECK(!is_there("c/50") && is_there("c/60/results.txt") && is_there("c/notes"));
    CHECK_EQ_INT(mf_checkpoint_manager_latest_step(m), 45);
    CHECK_EQ_INT(mf_checkpoint_manager_close(m), MF_OK);
}

/* The copy that is written is of the state at the call, whatever later calls use the memory for. */
TEST(saving_goes_on_beside_donations)
{
    MF_SCOPE;
    new_folder();
    training t;
    begin(&t);
    mf_checkpoint_manager *m = mf_checkpoint_manager_open(in_folder("c"));
    mf_value seen[6], structure = mf_copy(all_of(&t));
    for (int i = 0; i < 6; i++) {
        seen[i] = mf_copy(all_of(&t));
        CHECK_EQ_INT(mf_checkpoint_manager_save(m, i, all_of(&t)), MF_OK);
        CHECK(next_step(&t));
    }
    for (int i = 0; i < 6; i++)
        check_same(mf_checkpoint_manager_restore(m, i, structure), seen[i]);
    CHECK_EQ_INT(mf_checkpoint_manager_close(m), MF_OK);
    mf_loader_close(t.loader);
}

TEST(errors_name_the_folder_and_the_member)
{
    MF_SCOPE;
    new_folder();
    mf_set_error_hook(ignore, NULL);
    mf_checkpoint_manager *none = mf_checkpoint_manager_open(NULL);
    CHECK_EQ_INT(mf_checkpoint_manager_save(none, 1, numbers(1)), MF_ERROR_IO);
    CHECK_CONTAINS(said(), "cannot be made");
    (void)mf_checkpoint_manager_close(none);
    mf_checkpoint_manager *m = mf_checkpoint_manager_open(in_folder("c"));
    CHECK_CONTAINS(mf_error(mf_checkpoint_manager_restore(m, -1, numbers(0))), "c: there is no complete checkpoint");
    CHECK_CONTAINS(mf_error(mf_checkpoint_manager_restore(m, 3, numbers(0))), "c/3/index.npz: cannot be read");
    CHECK_EQ_INT(mf_checkpoint_manager_save(m, 3, numbers(3)), MF_OK);
    CHECK_EQ_INT(mf_checkpoint_manager_save(m, 3, numbers(4)), MF_ERROR_ARGUMENT);
    CHECK_CONTAINS(said(), "c: step 3 has been saved already");
    CHECK_EQ_INT(mf_checkpoint_manager_save(m, -1, numbers(4)), MF_ERROR_ARGUMENT);
    CHECK_CONTAINS(said(), "-1 is no step to save");
    CHECK_EQ_INT(mf_checkpoint_manager_save(m, 4, mf_make_error(MF_ERROR_SHAPE, "of before")), MF_ERROR_SHAPE);
    CHECK_CONTAINS(said(), "of before");
    CHECK_CONTAINS(mf_error(mf_checkpoint_manager_restore(m, 3, mf_dict("a", mf_zeros(MF_SHAPE(4), MF_F32)))),
                   "whole/a: expected float32(4,), the file has float32(3,)");
    CHECK_CONTAINS(mf_error(mf_checkpoint_manager_restore(m, 3, mf_dict("other", 1))), "expected an array named whole/other");
    mf_value more = mf_dict("bias", mf_f(1), "kernel", mf_f(2), "scale", mf_f(3)), part = mf_dict("kernel", mf_f(0));
    CHECK_EQ_INT(mf_checkpoint_manager_save(m, 5, mf_dict("dense", more), .rows = mf_dict("a", mf_ones(MF_SHAPE(8), MF_F32))), MF_OK);
    CHECK_CONTAINS(mf_error(mf_checkpoint_manager_restore(m, 5, mf_dict("dense", part))),
                   "-whole.npz: the file has whole/dense/bias, which is not asked for");
    check_same(mf_checkpoint_manager_restore(m, 5, mf_dict("dense", part), .partial = true), mf_dict("dense", mf_dict("kernel", mf_f(2))));
    check_same(mf_checkpoint_manager_restore(m, 3, numbers(0)), numbers(3));
    CHECK_EQ_INT(mf_checkpoint_manager_close(m), MF_OK);
    CHECK_EQ_INT(mf_checkpoint_manager_close(NULL), MF_OK);
    m = mf_checkpoint_manager_open("/proc/nowhere/c");
    CHECK_EQ_INT(mf_checkpoint_manager_save(m, 1, numbers(1)), MF_ERROR_IO);
    CHECK_CONTAINS(said(), "/proc/nowhere/c: ");
    CHECK_EQ_INT(mf_checkpoint_manager_latest_step(m), -1);
    CHECK(mf_is_error(mf_checkpoint_manager_restore(m, -1, numbers(0))));
    CHECK_EQ_INT(mf_checkpoint_manager_close(m), MF_OK);
    fclose(fopen(in_folder("file"), "wb"));
    m = mf_checkpoint_manager_open(in_folder("file"));
    CHECK_EQ_INT(mf_checkpoint_manager_wait(m), MF_ERROR_IO);
    CHECK_EQ_INT(mf_checkpoint_manager_close(m), MF_OK);
    while (said()) {
    }
    mf_set_error_hook(NULL, NULL);
}

/* The writing thread has no caller, so its error has no place. */
TEST(an_error_of_the_thread_has_no_place_in_the_c_library)
{
    MF_SCOPE;
    new_folder();
    struct rlimit before, small = { 4096, RLIM_INFINITY };
    mf_checkpoint_manager *m = mf_checkpoint_manager_open(in_folder("large"));
    mf_value large = mf_ones(MF_SHAPE(1 << 16), MF_F32);
    (void)getrlimit(RLIMIT_FSIZE, &before);
    small.rlim_max = before.rlim_max;
    (void)signal(SIGXFSZ, SIG_IGN);
    catch_warnings();
    CHECK_EQ_INT(setrlimit(RLIMIT_FSIZE, &small), 0);
    CHECK_EQ_INT(mf_checkpoint_manager_save(m, 1, mf_dict("w", large)), MF_OK);
    CHECK_EQ_INT(mf_checkpoint_manager_wait(m), MF_ERROR_IO);
    (void)setrlimit(RLIMIT_FSIZE, &before);
    CHECK_EQ_INT(count_warnings("pthread_create"), 0);
    CHECK_CONTAINS(said(), "File too large");
    CHECK_EQ_INT(mf_checkpoint_manager_close(m), MF_OK);
}

/* ------------------------------------------------------------------ jobs */

typedef struct trial {
    int shares[JOB_MOST], size;
    bool synchronous, broken;
    mf_status status[JOB_MOST];
    int64_t latest[JOB_MOST];
} trial;

static mf_value own_rows(const trial *t, int rank, double x)
{
    int first = 0;
    for (int i = 0; i < rank; i++)
        first += t->shares[i];
    return mf_get(mf_add(mf_arange(8, MF_F32), x), mf_range(first, first + t->shares[rank]));
}

static void save_rank(void *context, int rank)
{
    trial *t = context;
    MF_SCOPE;
    mf_checkpoint_manager *m = mf_checkpoint_manager_open(in_folder("c"), .max_to_keep = 2, .synchronous = t->synchronous);
    t->status[rank] = MF_OK;
    for (int i = 0; i < 5 && !t->status[rank]; i++) {
        mf_value rows = own_rows(t, rank, i);
        rows = t->broken && rank == 1 && i == 3 ? mf_f(1) : rows;
        t->status[rank] = mf_checkpoint_manager_save(m, i, numbers(i), .rows = mf_dict("r", rows));
    }
    mf_status status = mf_checkpoint_manager_close(m);
    t->status[rank] = t->status[rank] ? t->status[rank] : status;
}

static void load_rank(void *context, int rank)
{
    trial *t = context;
    MF_SCOPE;
    mf_checkpoint_manager *m = mf_checkpoint_manager_open(in_folder("c"));
    int64_t step_there = t->latest[rank] = mf_checkpoint_manager_latest_step(m);
    mf_value rows = mf_dict("r", own_rows(t, rank, (double)step_there));
    mf_value found = mf_checkpoint_manager_restore(m, -1, numbers(0), .rows = rows);
    t->status[rank] = mf_error_status(found);
    if (!t->status[rank])
        check_same(found, mf_tuple(numbers((double)step_there), rows));
    (void)mf_checkpoint_manager_close(m);
}

static trial run(const char *shares, bool synchronous, bool broken, void (*each)(void *, int))
{
    static uint64_t seed;
    trial t = { .synchronous = synchronous, .broken = broken };
    for (; shares[t.size]; t.size++)
        t.shares[t.size] = shares[t.size] - '0';
    mf_clear_caches();
    if (t.size == 1)
        each(&t, 0);
    else
        job_run(t.size, t.shares, ++seed, each, &t);
    return t;
}

TEST(jobs_save_together_and_any_number_of_processes_goes_on)
{
    static const char *const spreads[] = { "8", "44", "2222", "35" };
    for (int from = 0; from < 4; from++)
        for (int synchronous = 0; synchronous < 2; synchronous++) {
            new_folder();
            trial t = run(spreads[from], synchronous, false, save_rank);
            for (int p = 0; p < t.size; p++)
                CHECK_EQ_INT(t.status[p], MF_OK);
            CHECK(is_there("c/4/index.npz") && is_there("c/3/index.npz") && !is_there("c/2") && !is_there("c/4/done-0.npz"));
            t = run(spreads[(from + 1 + synchronous) % 4], false, false, load_rank);
            for (int p = 0; p < t.size; p++)
                if (!CHECK_EQ_INT(t.status[p], MF_OK) || !CHECK_EQ_INT(t.latest[p], 4))
                    CHECK_NOTE("from %s", spreads[from]);
        }
}

TEST(an_error_of_one_process_is_an_error_of_all)
{
    new_folder();
    mf_set_error_hook(ignore, NULL);
    trial t = run("224", false, true, save_rank);
    for (int p = 0; p < t.size; p++)
        CHECK_EQ_INT(t.status[p], p == 1 ? MF_ERROR_SHAPE : MF_ERROR_PEER);
    while (said()) {
    }
    mf_set_error_hook(NULL, NULL);
    t = run("44", false, false, load_rank);
    for (int p = 0; p < t.size; p++)
        CHECK_EQ_INT(t.latest[p], 2);
}
