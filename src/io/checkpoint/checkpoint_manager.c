/* Checkpoints by step: a folder with a subfolder for each step, written on a thread while the program continues.
 *
 *     FOLDER/1200/    a checkpoint (checkpoint.c); it is complete if it has an index
 *     FOLDER/1200/done-3.npz    "id": a marker that process 3 has written its part; removed once the index is written
 *
 * Invariants: a step's index is written after all parts and removed before them, so a step with an index can be loaded, whichever process
 * is killed. Only files with a checkpoint's names in folders named by a number are ever removed. The thread works on copies of its own and
 * does not communicate with other processes, because its messages would mix with the program's. Process 0's thread learns that all parts
 * are written from the markers in the folder, or from the next call of the manager, in which the processes agree on it. */
#include "io/checkpoint/checkpoint.h"

#include <manyfold/distributed.h>
#include <manyfold/io.h>

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { PATH = 4096, DIGITS = 18, LOOK_MS = 20 };

typedef enum verdict { NOT_KNOWN, ALL_WRITTEN, GIVEN_UP } verdict;

struct mf_checkpoint_manager {
    mf_checkpoint_manager_options options;
    char *folder;
    mf_value error; /* kept: why it could not be opened; else unset */
    int processes, rank;
    bool active, threaded; /* a save is in progress; it runs on the thread */
    pthread_t thread;
    mf_checkpoint saving; /* the save in progress, to which the members below belong */
    char *step_folder;
    mf_value copies; /* kept: tuple of the tree and the rows */
    mf_status part, index;
    pthread_mutex_t lock; /* guards the members below */
    pthread_cond_t changed;
    bool written; /* this process has written its part, or failed to */
    verdict others;
};

/* What open returns if there is no memory for a manager. */
static struct mf_checkpoint_manager no_manager;

static mf_value out_of_memory(void) { return mf_make_error(MF_ERROR_MEMORY, "mf_checkpoint_manager: out of memory"); }

/* The innermost scope reports the error unless it is handled before. */
static mf_status said(mf_value error) { return mf_block_until_ready(error); }

/* Whether this is the child of a fork, which does not have the thread. Allocates nothing. */
static bool is_forked(void) { return mf_kind_of((mf_value){ 0 }) == MF_KIND_ERROR; }

static char *join(const char *folder, const char *name)
{
    size_t size = strlen(folder) + strlen(name) + 2;
    char *path = malloc(size);
    if (path)
        snprintf(path, size, "%s/%s", folder, name);
    return path;
}

/* ------------------------------------------------------------------ the steps of a folder */

/* The step of a folder with this name; -1 if it is not a step's folder. */
static int64_t step_of(const char *name)
{
    size_t n = strspn(name, "0123456789");
    return n && n <= DIGITS && !name[n] && (n == 1 || *name != '0') ? strtoll(name, NULL, 10) : -1;
}

static bool is_complete(const char *folder, const char *name)
{
    char path[PATH];
    return snprintf(path, sizeof path, "%s/%s/index.npz", folder, name) < PATH && access(path, R_OK) == 0;
}

static int descending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x < y) - (x > y);
}

/* The steps that are complete, or those that are not; newest first, malloc'd. NULL if out of memory or if there is no folder. */
static int64_t *find_steps(const char *folder, bool complete, int *count)
{
    DIR *d = opendir(folder);
    int64_t *steps = d ? malloc(sizeof *steps) : NULL;
    *count = 0;
    for (const struct dirent *e; steps && (e = readdir(d));) {
        int64_t step = step_of(e->d_name);
        if (step < 0 || is_complete(folder, e->d_name) != complete)
            continue;
        int64_t *more = realloc(steps, ((size_t)*count + 2) * sizeof *steps);
        if (!more)
            break;
        steps = more;
        steps[(*count)++] = step;
    }
    if (d)
        (void)closedir(d);
    if (steps)
        qsort(steps, (size_t)*count, sizeof *steps, descending);
    return steps;
}

static bool is_marker(const char *name) { return strncmp(name, "done-", 5) == 0 && strstr(name, ".npz"); }

/* Removes all files of a step and its folder, or only its markers. */
static void remove_files(const char *step_folder, bool all)
{
    char path[PATH];
    DIR *d = opendir(step_folder);
    if (all && snprintf(path, sizeof path, "%s/index.npz", step_folder) < PATH)
        (void)unlink(path);
    for (const struct dirent *e; d && (e = readdir(d));)
        if ((is_marker(e->d_name) || (all && mf_checkpoint_is_file(e->d_name))) &&
            snprintf(path, sizeof path, "%s/%s", step_folder, e->d_name) < PATH)
            (void)unlink(path);
    if (d)
        (void)closedir(d);
    if (all)
        (void)rmdir(step_folder);
}

/* Removes all but the newest `keep` of the steps that are complete, or of those that are not. */
static void remove_steps(const char *folder, bool complete, int64_t keep)
{
    int count;
    int64_t *steps = find_steps(folder, complete, &count);
    for (int64_t i = keep; steps && i < count; i++) {
        char path[PATH];
        if (snprintf(path, sizeof path, "%s/%lld", folder, (long long)steps[i]) < PATH)
            remove_files(path, true);
    }
    free(steps);
}

static int64_t newest(const char *folder)
{
    int count;
    int64_t *steps = find_steps(folder, true, &count), step = steps && count ? *steps : -1;
    free(steps);
    return step;
}

/* ------------------------------------------------------------------ opening */

/* Returns an error or unset. */
static mf_value make_folder(const char *folder)
{
    struct stat s;
    if (mkdir(folder, 0777) == 0)
        return (mf_value){ 0 };
    if (errno == EEXIST && stat(folder, &s) == 0 && !S_ISDIR(s.st_mode))
        errno = ENOTDIR;
    else if (errno == EEXIST)
        return (mf_value){ 0 };
    return mf_make_error(MF_ERROR_IO, "%s: cannot be made: %s", folder, strerror(errno));
}

/* Collective. Makes the folder and removes incomplete steps, which killed jobs left. */
static mf_value begin_in(mf_checkpoint_manager *m)
{
    mf_value error = m->rank == 0 ? make_folder(m->folder) : (mf_value){ 0 };
    if (m->rank == 0 && !error.handle)
        remove_steps(m->folder, false, 0);
    mf_checkpoint c = { .folder = m->folder, .processes = m->processes, .rank = m->rank };
    if (m->processes > 1)
        (void)mf_checkpoint_agree(&c, error.handle ? MF_ERROR_IO : MF_OK, "open the folder");
    return error.handle ? error : c.error;
}

mf_checkpoint_manager *mf_checkpoint_manager_open_opt(const char *folder, const mf_checkpoint_manager_options *o)
{
    MF_LAYER;
    MF_SCOPE;
    mf_checkpoint_manager *m = calloc(1, sizeof *m);
    if (!m)
        return &no_manager;
    if (o)
        m->options = *o;
    (void)pthread_mutex_init(&m->lock, NULL);
    (void)pthread_cond_init(&m->changed, NULL);
    m->folder = strdup(folder ? folder : ""); /* which cannot be made, and says so */
    bool forked = is_forked();
    m->processes = forked ? 1 : mf_process_count();
    m->rank = forked ? 0 : mf_process_index();
    mf_value error = { 0 };
    if (!m->folder)
        error = out_of_memory();
    else if (m->options.max_to_keep < 0 || m->options.save_interval_steps < 0)
        error = mf_make_error(MF_ERROR_ARGUMENT, "%s: max_to_keep is %lld and save_interval_steps %lld; neither is negative", folder,
                              (long long)m->options.max_to_keep, (long long)m->options.save_interval_steps);
    else if (m->rank < 0)
        error = mf_make_error(MF_ERROR_PEER, "%s: the job was not joined", folder);
    else if (!forked)
        error = begin_in(m);
    if (error.handle)
        m->error = mf_keep(error);
    return m;
}

/* ------------------------------------------------------------------ on the thread */

static bool marker_path(const mf_checkpoint_manager *m, int process, char *path)
{
    return snprintf(path, PATH, "%s/done-%d.npz", m->step_folder, process) < PATH;
}

static mf_status mark(const mf_checkpoint_manager *m)
{
    char path[PATH];
    return marker_path(m, m->rank, path) ? mf_save_npz(path, mf_dict("id", mf_from_host(MF_I64, MF_SHAPE(1), &m->saving.id))) : MF_ERROR_IO;
}

static bool is_marked(const mf_checkpoint_manager *m, int process)
{
    MF_SCOPE;
    char path[PATH];
    int64_t id = 0;
    if (!marker_path(m, process, path) || access(path, R_OK) != 0)
        return false;
    mf_value found = mf_get(mf_load_npz(path), "id");
    return !mf_error(found) && mf_to_host(found, MF_I64, &id, 1) == MF_OK && id == m->saving.id;
}

/* Waits until all processes have written their parts, as their markers tell, or until the program's next call decides. */
static bool others_have_written(mf_checkpoint_manager *m)
{
    int marked = 0;
    (void)pthread_mutex_lock(&m->lock);
    while (m->others == NOT_KNOWN) {
        struct timespec until;
        (void)pthread_mutex_unlock(&m->lock);
        while (marked < m->processes && is_marked(m, marked))
            marked++;
        (void)pthread_mutex_lock(&m->lock);
        if (marked == m->processes)
            break;
        (void)clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += LOOK_MS * 1000000L;
        until.tv_sec += until.tv_nsec / 1000000000L;
        until.tv_nsec %= 1000000000L;
        if (m->others == NOT_KNOWN)
            (void)pthread_cond_timedwait(&m->changed, &m->lock, &until);
    }
    bool all = m->others == ALL_WRITTEN || marked == m->processes;
    (void)pthread_mutex_unlock(&m->lock);
    return all;
}

static void write_own(mf_checkpoint_manager *m)
{
    MF_SCOPE;
    m->saving.rows = mf_get(m->copies, 1);
    m->saving.leaves = mf_tree_leaves(m->saving.rows);
    mf_status status = mf_checkpoint_write_part(&m->saving, mf_get(m->copies, 0));
    if (!status && m->processes > 1)
        status = mark(m);
    (void)pthread_mutex_lock(&m->lock);
    m->part = status;
    m->written = true;
    (void)pthread_cond_broadcast(&m->changed);
    (void)pthread_mutex_unlock(&m->lock);
}

/* In process 0: writes the index, which completes the step, and removes old steps. */
static void commit(mf_checkpoint_manager *m)
{
    MF_SCOPE;
    m->saving.rows = mf_get(m->copies, 1);
    m->index = mf_checkpoint_write_index(&m->saving);
    if (m->index)
        return;
    remove_files(m->step_folder, false);
    if (m->options.max_to_keep)
        remove_steps(m->folder, true, m->options.max_to_keep);
}

static void *write_all(void *context)
{
    mf_checkpoint_manager *m = context;
    write_own(m);
    if (m->rank == 0 && !m->part && (m->processes == 1 || others_have_written(m)))
        commit(m);
    return NULL;
}

/* ------------------------------------------------------------------ saving */

/* All signals are blocked in the thread: they are for the program's own threads. */
static bool start_thread(mf_checkpoint_manager *m)
{
    sigset_t all, before;
    sigfillset(&all);
    (void)pthread_sigmask(SIG_BLOCK, &all, &before);
    bool started = pthread_create(&m->thread, NULL, write_all, m) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

static mf_status own_part(mf_checkpoint_manager *m)
{
    (void)pthread_mutex_lock(&m->lock);
    while (!m->written)
        (void)pthread_cond_wait(&m->changed, &m->lock);
    (void)pthread_mutex_unlock(&m->lock);
    return m->part;
}

/* Collective. Waits for the save in progress, if there is one, and returns its status. */
static mf_status finish_save(mf_checkpoint_manager *m)
{
    if (!m->active)
        return MF_OK;
    mf_status status = own_part(m);
    if (m->processes > 1)
        status = mf_checkpoint_agree(&m->saving, status, "write its part");
    (void)pthread_mutex_lock(&m->lock);
    m->others = status ? GIVEN_UP : ALL_WRITTEN;
    (void)pthread_cond_broadcast(&m->changed);
    (void)pthread_mutex_unlock(&m->lock);
    if (m->threaded)
        (void)pthread_join(m->thread, NULL);
    else if (m->rank == 0 && !status)
        commit(m);
    status = status ? status : m->index;
    if (m->processes > 1)
        status = mf_checkpoint_agree(&m->saving, status, "write the index");
    mf_checkpoint_end(&m->saving);
    mf_release(m->copies);
    free(m->step_folder);
    m->active = false;
    return status;
}

/* An error if the manager is unusable. */
static mf_status check(const mf_checkpoint_manager *m)
{
    mf_status status = is_forked() ? mf_block_until_ready(mf_none()) : MF_OK;
    return status ? status : m == &no_manager ? said(out_of_memory()) : m->error.handle ? said(m->error) : MF_OK;
}

/* Collective. Makes the step's folder and returns whether the step can be saved. */
static mf_status begin_step(mf_checkpoint_manager *m, int64_t step, mf_value tree, mf_value rows)
{
    char name[32];
    snprintf(name, sizeof name, "%lld", (long long)step);
    m->step_folder = join(m->folder, name);
    mf_value error = { 0 };
    if (!m->step_folder)
        error = out_of_memory();
    else if (m->rank == 0 && is_complete(m->folder, name))
        error = mf_make_error(MF_ERROR_ARGUMENT, "%s: step %lld has been saved already", m->folder, (long long)step);
    mf_status status = mf_checkpoint_begin(&m->saving, m->step_folder ? m->step_folder : m->folder, error.handle ? error : tree, rows);
    if (status) {
        mf_checkpoint_end(&m->saving);
        free(m->step_folder);
    }
    return status;
}

/* Starts the save with copies, so the program may change or donate the arrays meanwhile. */
static mf_status hand_over(mf_checkpoint_manager *m, mf_value tree, mf_value rows)
{
    mf_value copies = mf_tuple(mf_copy(tree), mf_copy(rows));
    m->copies = mf_keep(copies);
    m->saving.error = (mf_value){ 0 };
    m->part = m->index = MF_OK;
    m->written = false;
    m->others = NOT_KNOWN;
    m->active = true;
    m->threaded = !m->options.synchronous && start_thread(m);
    if (m->threaded)
        return MF_OK;
    write_own(m);
    return finish_save(m);
}

mf_status mf_checkpoint_manager_save_opt(mf_checkpoint_manager *m, int64_t step, mf_value tree, const mf_checkpoint_save_options *o)
{
    MF_LAYER;
    MF_SCOPE;
    mf_status status = check(m);
    if (status)
        return status;
    int64_t interval = m->options.save_interval_steps ? m->options.save_interval_steps : 1;
    if (step < 0 || step >= INT64_C(1000000000000000000))
        return said(mf_make_error(MF_ERROR_ARGUMENT, "%s: %lld is no step to save: expected 0 to 10^18 - 1", m->folder, (long long)step));
    if (step % interval && !(o && o->force))
        return MF_OK;
    mf_value rows = o && o->rows.handle ? o->rows : mf_none();
    status = finish_save(m);
    if (!status && !(status = begin_step(m, step, tree, rows)))
        return hand_over(m, tree, rows);
    return status;
}

mf_status mf_checkpoint_manager_wait(mf_checkpoint_manager *m)
{
    MF_LAYER;
    MF_SCOPE;
    mf_status status = check(m);
    return status ? status : finish_save(m);
}

mf_status mf_checkpoint_manager_close(mf_checkpoint_manager *m)
{
    MF_LAYER;
    MF_SCOPE;
    if (!m || m == &no_manager || is_forked())
        return m && is_forked() ? mf_block_until_ready(mf_none()) : MF_OK;
    mf_status status = finish_save(m);
    if (m->error.handle)
        mf_release(m->error);
    (void)pthread_mutex_destroy(&m->lock);
    (void)pthread_cond_destroy(&m->changed);
    free(m->folder);
    free(m);
    return status;
}

/* ------------------------------------------------------------------ loading */

int64_t mf_checkpoint_manager_latest_step(mf_checkpoint_manager *m)
{
    MF_LAYER;
    MF_SCOPE;
    if (check(m))
        return -1;
    (void)finish_save(m);
    int64_t step = m->rank == 0 ? newest(m->folder) : -1;
    if (m->processes > 1)
        return mf_item_i64(mf_broadcast_one_to_all(mf_from_host(MF_I64, MF_SHAPE(1), &step)));
    return step;
}

mf_value mf_checkpoint_manager_restore_opt(mf_checkpoint_manager *m, int64_t step, mf_value like, const mf_checkpoint_restore_options *o)
{
    MF_LAYER;
    MF_SCOPE;
    if (m == &no_manager)
        return mf_escape(out_of_memory());
    if (m->error.handle) /* a new error, because m->error is released with the manager */
        return mf_escape(mf_make_error(mf_error_status(m->error), "%s", mf_error(m->error)));
    if (is_forked())
        return mf_none();
    char path[PATH];
    if (step < 0)
        step = mf_checkpoint_manager_latest_step(m);
    else
        (void)finish_save(m);
    if (step < 0)
        return mf_escape(mf_make_error(MF_ERROR_IO, "%s: there is no complete checkpoint", m->folder));
    if (snprintf(path, sizeof path, "%s/%lld", m->folder, (long long)step) >= PATH)
        return mf_escape(mf_make_error(MF_ERROR_IO, "%.64s...: the path is longer than %d bytes", m->folder, PATH - 1));
    bool rows = o && o->rows.handle;
    mf_value both = mf_load_checkpoint(path, like, rows ? o->rows : mf_none(), .partial = o && o->partial);
    return mf_escape(mf_is_error(both) || rows ? both : mf_get(both, 0));
}
