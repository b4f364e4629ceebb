/* Joins the processes of a job by MPI: a communicator of our own, duplicated from the user's or from MPI_COMM_WORLD, point-to-point
 * messages on it, and the order of shutdown. Invariant: MPI is initialised and finalised here only where nobody had initialised it; a
 * user's own MPI_Finalize ends our part first, by an attribute of MPI_COMM_SELF. */
#include "comm/mpi/mpi_join.h"

#include "comm/messages.h"
#include "comm/mpi/mpi_library.h"
#include "comm/shared_memory.h"
#include "comm/watch.h"

#include "base/memory/alloc.h"
#include "base/memory/intern.h"
#include "base/thread/stack.h"
#include "runtime/profile/profiler.h"

#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <time.h>

static struct {
    mf_link link;
    mf_mpi mpi;
    uintptr_t comm;
    mf_comm *joined;
    bool ours; /* MPI was initialised here, and is finalised here */
    mf_watch_invitation invitation;
    mf_shared_memory shared;
    int *near;  /* the processes that share `shared` */
    bool alone; /* MPI knows no other process */
    bool (*leave)(mf_comm *c, const char *why);
} job;

/* ------------------------------------------------------------------ the link; the communicator's lock is held */

static int link_send(mf_link *l, int to, int tag, const void *bytes, size_t count, uintptr_t *request)
{
    (void)l;
    return job.mpi.MPI_Isend(bytes, (int)count, job.mpi.byte, to, tag, job.comm, request);
}

static int link_receive(mf_link *l, int from, int tag, void *bytes, size_t most, uintptr_t *request)
{
    (void)l;
    return job.mpi.MPI_Irecv(bytes, (int)most, job.mpi.byte, from < 0 ? job.mpi.any_source : from, tag, job.comm, request);
}

static int link_test(mf_link *l, uintptr_t *request, bool *done, size_t *count)
{
    (void)l;
    mf_mpi_status status;
    int flag = 0, came = 0;
    int code = job.mpi.MPI_Test(request, &flag, &status);
    *done = flag;
    if (!code && flag && count) {
        code = job.mpi.MPI_Get_count(&status, job.mpi.byte, &came);
        *count = came > 0 ? (size_t)came : 0;
    }
    return code;
}

static mf_error_object *link_error(mf_link *l, int code)
{
    (void)l;
    return mf_mpi_error(&job.mpi, "a message between processes", code);
}

static void died(void *context, int process) { mf_messages_died(context, process); }

/* ------------------------------------------------------------------ the end */

/* Called by a user's MPI_Finalize, which deletes the attribute. */
static int finalizing(uintptr_t comm, int key, void *value, void *extra)
{
    (void)comm;
    (void)key;
    (void)value;
    (void)extra;
    if (!mf_process_forked())
        mf_watch_end(job.leave(job.joined, "MPI_Finalize was called"));
    return 0;
}

static int copy_nothing(uintptr_t comm, int key, void *extra, void *in, void *out, int *flag)
{
    (void)comm;
    (void)key;
    (void)extra;
    (void)in;
    (void)out;
    *flag = 0;
    return 0;
}

/* Finalises MPI only if all processes answer: MPI would wait for the others for ever, while the launcher deals with them once this
 * process has gone. */
static bool leave(mf_comm *c, const char *why)
{
    bool left = job.leave(c, why);
    mf_watch_end(left);
    if (left && job.ours)
        job.mpi.MPI_Finalize();
    return left;
}

static void at_exit(void)
{
    int finalized = 1;
    if (mf_process_forked())
        return;
    job.mpi.MPI_Finalized(&finalized);
    if (!finalized && job.joined)
        leave(job.joined, "the process exits");
    else if (!finalized && job.alone)
        job.mpi.MPI_Finalize();
}

static mf_error_object *watch_finalize(void)
{
    int key = 0;
    int (*copy)(uintptr_t, int, void *, void *, void *, int *) = copy_nothing;
    int (*finalized)(uintptr_t, int, void *, void *) = finalizing;
    void *functions[2];
    memcpy(&functions[0], &copy, sizeof copy);
    memcpy(&functions[1], &finalized, sizeof finalized);
    int code = job.mpi.MPI_Comm_create_keyval(functions[0], functions[1], &key, NULL);
    code = code ? code : job.mpi.MPI_Comm_set_attr(job.mpi.self, key, &job);
    return code ? mf_mpi_error(&job.mpi, "MPI_Comm_set_attr", code) : NULL;
}

/* ------------------------------------------------------------------ the beginning */

static mf_error_object *not_joined(double timeout)
{
    return mf_error_new(
        MF_ERROR_PEER,
        "the other processes have not joined within %g s: every process of a job joins at its first use of a device, or calls "
        "mf_distributed_initialize",
        timeout);
}

/* Waits until the request is complete, but not longer than the timeout. */
static mf_error_object *wait_for(uintptr_t *request, const char *what, double timeout)
{
    mf_mpi_status status;
    for (int64_t start = mf_profile_now(); (double)(mf_profile_now() - start) < timeout * 1e9;) {
        int over = 0, code = job.mpi.MPI_Test(request, &over, &status);
        if (code)
            return mf_mpi_error(&job.mpi, what, code);
        if (over)
            return NULL;
        nanosleep(&(struct timespec){ 0, 50000 }, NULL);
    }
    return not_joined(timeout);
}

/* MPI_Init_thread waits for all processes without a limit, and cannot be cancelled: so it runs on a thread that can be left behind. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t over;
    bool is_over;
    int code, level;
} beginning = { .lock = PTHREAD_MUTEX_INITIALIZER, .over = PTHREAD_COND_INITIALIZER };

static void *begin_mpi(void *unused)
{
    int level = 0, code = job.mpi.MPI_Init_thread(NULL, NULL, job.mpi.multiple, &level);
    pthread_mutex_lock(&beginning.lock);
    beginning.code = code;
    beginning.level = level;
    beginning.is_over = true;
    pthread_cond_signal(&beginning.over);
    pthread_mutex_unlock(&beginning.lock);
    return unused;
}

/* False: the time is up. */
static bool begin_in_time(double timeout)
{
    pthread_t thread;
    struct timespec until;
    if (!mf_thread_make(&thread, begin_mpi, NULL)) {
        begin_mpi(NULL);
        return true;
    }
    pthread_detach(thread);
    clock_gettime(CLOCK_REALTIME, &until);
    double end = (double)until.tv_nsec / 1e9 + timeout;
    until.tv_sec += (time_t)end;
    until.tv_nsec = (long)((end - (double)(time_t)end) * 1e9);
    pthread_mutex_lock(&beginning.lock);
    for (int late = 0; !beginning.is_over && !late;)
        late = pthread_cond_timedwait(&beginning.over, &beginning.lock, &until);
    bool over = beginning.is_over;
    pthread_mutex_unlock(&beginning.lock);
    return over;
}

static mf_error_object *initialize(const mf_join_options *how)
{
    int was = 0, level = 0, finalized = 0, code = job.mpi.MPI_Initialized(&was);
    job.mpi.MPI_Finalized(&finalized);
    if (finalized)
        return mf_error_new(MF_ERROR_PEER, "MPI was finalised already");
    if (!was && how->communicator)
        return mf_error_new(MF_ERROR_ARGUMENT, "a communicator was given, but MPI is not initialised");
    if (!code && was)
        code = job.mpi.MPI_Query_thread(&level);
    if (!code && !was) {
        if (!begin_in_time(how->initialization_timeout))
            return not_joined(how->initialization_timeout);
        code = beginning.code;
        level = beginning.level;
    }
    if (code)
        return mf_mpi_error(&job.mpi, "MPI_Init_thread", code);
    job.ours = !was;
    if (atexit(at_exit)) /* registered after MPI's own handlers, so it runs before them */
        return mf_error_out_of_memory();
    if (level >= job.mpi.multiple || (!was && level >= job.mpi.serialized))
        return NULL;
    return mf_error_new(MF_ERROR_PEER,
                        was ? "MPI was initialised with thread level %d: it takes MPI_THREAD_MULTIPLE, for messages travel on threads "
                              "of this library's"
                            : "the MPI library gives thread level %d only; it takes MPI_THREAD_SERIALIZED at least",
                        level);
}

static mf_error_object *duplicate(const mf_join_options *how)
{
    static uintptr_t request; /* static, like job.comm: MPI may still write to both after a timeout */
    uintptr_t from = job.mpi.world;
    if (how->communicator)
        from = job.mpi.from_int ? job.mpi.from_int(*how->communicator) : (uintptr_t)(unsigned)*how->communicator;
    if (!from || from == job.mpi.null) /* MPI would end the program here */
        return mf_error_new(MF_ERROR_ARGUMENT, "the communicator that was given, %d, is MPI_COMM_NULL, or none", *how->communicator);
    int code = job.mpi.MPI_Comm_idup(from, &job.comm, &request);
    mf_error_object *error = code ? mf_mpi_error(&job.mpi, "MPI_Comm_idup", code)
                                  : wait_for(&request, "MPI_Comm_idup", how->initialization_timeout);
    if (error)
        return error;
    code = job.mpi.MPI_Comm_set_errhandler(job.comm, job.mpi.errors_return);
    return code ? mf_mpi_error(&job.mpi, "MPI_Comm_set_errhandler", code) : NULL;
}

static mf_error_object *move(bool send, int other, int tag, void *at, size_t bytes, double timeout)
{
    uintptr_t request = 0;
    int code = send ? link_send(NULL, other, tag, at, bytes, &request) : link_receive(NULL, other, tag, at, bytes, &request);
    return code ? link_error(NULL, code) : wait_for(&request, "joining", timeout);
}

/* Identifies this machine, or the container that has its own host name and network. */
static uint64_t name_machine(void)
{
    char text[512] = "";
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
    size_t count = f ? fread(text, 1, 128, f) : 0;
    if (f)
        fclose(f);
    ssize_t more = readlink("/proc/self/ns/net", text + count, 128);
    count += more > 0 ? (size_t)more : 0;
    if (gethostname(text + count, sizeof text - count - 1) == 0)
        count += strlen(text + count);
    return mf_hash(text, count, 0);
}

typedef struct introduction {
    uint64_t machine;
    uint64_t memory; /* processes share memory if they have the same value here; 0: with nobody */
    int64_t devices;
} introduction;

static uint64_t name_memory(uint64_t machine)
{
    const char *wanted = getenv("MF_SHARED_MEMORY");
    if (!wanted || !*wanted)
        return machine;
    return strcmp(wanted, "off") ? mf_hash(wanted, strlen(wanted), machine) | 1 : 0;
}

/* Gathers the introductions of all processes, and where process 0 listens, by way of process 0. After a timeout MPI may still write to
 * the memory used here, so none of it is freed. */
static mf_error_object *introduce(int rank, int size, const mf_join_options *how, introduction *all)
{
    double timeout = how->initialization_timeout;
    uint64_t machine = name_machine();
    all[rank] = (introduction){ machine, name_memory(machine), how->devices };
    size_t bytes = (size_t)size * sizeof *all;
    mf_error_object *error = NULL;
    if (rank) {
        error = move(true, 0, 1, &all[rank], sizeof *all, timeout);
        error = error ? error : move(false, 0, 2, all, bytes, timeout);
        return error ? error : move(false, 0, 3, &job.invitation, sizeof job.invitation, timeout);
    }
    bool one_machine = true;
    for (int p = 1; p < size && !error; p++) {
        error = move(false, p, 1, &all[p], sizeof *all, timeout);
        one_machine &= all[p].machine == machine;
    }
    if (!error && size > 1)
        mf_watch_invite(one_machine, &job.invitation);
    for (int p = 1; p < size && !error; p++) {
        error = move(true, p, 2, all, bytes, timeout);
        error = error ? error : move(true, p, 3, &job.invitation, sizeof job.invitation, timeout);
    }
    return error;
}

/* Processes of one machine share memory where the system grants it to all of them; the first one makes it. */
static mf_error_object *share(int rank, int size, const mf_join_options *how, const introduction *all)
{
    static mf_shared_invitation invitation;
    static int good;
    int count = 0, own = 0;
    double timeout = how->initialization_timeout;
    mf_error_object *error = NULL;
    job.shared.descriptor = -1;
    job.near = mf_alloc((size_t)size * sizeof *job.near);
    if (!job.near)
        return mf_error_out_of_memory();
    for (int p = 0; p < size; p++)
        if (all[rank].memory && all[p].memory == all[rank].memory) {
            own = p == rank ? count : own;
            job.near[count++] = p;
        }
    if (count < 2)
        return NULL;
    if (own) {
        error = move(false, job.near[0], 4, &invitation, sizeof invitation, timeout);
        good = !error && mf_shared_open(&job.shared, count, own, &invitation);
        error = error ? error : move(true, job.near[0], 5, &good, sizeof good, timeout);
        error = error ? error : move(false, job.near[0], 6, &good, sizeof good, timeout);
    } else {
        bool all_good = mf_shared_make(&job.shared, count, &invitation);
        for (int i = 1; i < count && !error; i++)
            error = move(true, job.near[i], 4, &invitation, sizeof invitation, timeout);
        for (int i = 1; i < count && !error; i++) {
            error = move(false, job.near[i], 5, &good, sizeof good, timeout);
            all_good &= good != 0;
        }
        good = all_good;
        for (int i = 1; i < count && !error; i++)
            error = move(true, job.near[i], 6, &good, sizeof good, timeout);
    }
    if (error || !good)
        mf_shared_close(&job.shared);
    return error;
}

/* A library that belongs to another MPI than the launcher does takes each process for a job of its own. */
static mf_error_object *check_size(const mf_join_options *how, int size)
{
    if (how->communicator || !how->launched || how->launched == size)
        return NULL;
    return mf_error_new(
        MF_ERROR_PEER,
        "%s started %d processes, but %s knows %d: the library and the launcher belong to different MPIs (MF_MPI_LIBRARY names the "
        "library; srun may need --mpi=pmix or --mpi=pmi2)",
        how->launcher, how->launched, job.mpi.abi, size);
}

static mf_error_object *open_job(const mf_join_options *how, int *rank, int *size, int **first_device)
{
    mf_error_object *error = mf_mpi_open(&job.mpi);
    if (!error)
        error = initialize(how);
    if (!error)
        error = duplicate(how);
    if (error)
        return error;
    job.mpi.MPI_Comm_size(job.comm, size);
    job.mpi.MPI_Comm_rank(job.comm, rank);
    job.alone = *size == 1 && job.ours;
    error = check_size(how, *size);
    if (error)
        return error;
    introduction *all = mf_calloc((size_t)*size, sizeof *all);
    *first_device = mf_calloc((size_t)*size + 1, sizeof **first_device);
    if (!all || !*first_device)
        return mf_error_out_of_memory();
    error = introduce(*rank, *size, how, all);
    if (error)
        return error;
    for (int p = 0; p < *size; p++)
        (*first_device)[p + 1] = (*first_device)[p] + (int)all[p].devices;
    error = share(*rank, *size, how, all);
    mf_free(all);
    return error;
}

mf_error_object *mf_mpi_join(const mf_join_options *how, mf_comm **joined)
{
    int rank = 0, size = 0, *first_device;
    mf_error_object *error = open_job(how, &rank, &size, &first_device);
    if (error)
        return error;
    job.link = (mf_link){
        .most = 1 << 30, .tags = 32768, .send = link_send, .receive = link_receive, .test = link_test, .error = link_error
    };
    mf_comm *c = mf_messages_new(&job.link, rank, size, first_device, how->timeout, &error);
    if (!c)
        return error;
    if (job.shared.at && !mf_messages_share(c, &job.shared, job.near))
        return mf_error_out_of_memory();
    if (job.shared.at)
        mf_shared_begin(&job.shared);
    job.leave = c->leave;
    c->leave = leave;
    *joined = job.joined = c;
    if (!mf_watch_begin(rank, size, &job.invitation, died, c))
        mf_warn("process %d has no connection to process 0: only by their silence will the death of others be found", rank);
    return job.ours ? NULL : watch_finalize();
}
