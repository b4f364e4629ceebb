/* Which processes there are, and which devices each of them has. Invariants: devices are numbered process by process; whether this
 * process is one of several is determined once, at the first use of a device or a map; the communicator stays allocated, also after
 * leaving. */
#include "runtime/comm.h"

#include "base/entry.h"
#include "base/text/location.h"
#include "base/text/string.h"
#include "runtime/device.h"

#include <manyfold/distributed.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#define TIMEOUT 300.0 /* seconds */

enum { UNKNOWN, ALONE, JOINED, FAILED };

static _Thread_local mf_comm *of_thread;
static struct {
    pthread_mutex_t lock;
    _Atomic int state;
    mf_comm *comm;
    mf_error_object *failure;
} process = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* ------------------------------------------------------------------ launchers */

static long number_from(const char *name)
{
    const char *text = getenv(name);
    return text ? strtol(text, NULL, 10) : 0;
}

/* A launcher's name, and the variables with the number of processes that it started and the rank of this one. */
typedef struct launcher {
    const char *name, *size, *rank;
} launcher;

static const launcher launchers[] = { { "mpirun", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK" },
                                      { "mpiexec", "PMI_SIZE", "PMI_RANK" },
                                      { "srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID" } };

static const launcher *find_launcher(void)
{
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++)
        if (number_from(launchers[i].size) > 0)
            return &launchers[i];
    return NULL;
}

int mf_launched_rank(void)
{
    const launcher *l = find_launcher();
    return l && number_from(l->size) > 1 && getenv(l->rank) ? (int)number_from(l->rank) : -1;
}

/* Whether this process was launched as one of several. A launcher's number of processes is believed; if only PMIX_RANK is set, MPI has
 * to tell the number. */
static bool was_launched(mf_join_options *how)
{
    static _Atomic bool warned;
    const char *wanted = getenv("MF_DISTRIBUTED");
    if (wanted && !strcmp(wanted, "off"))
        return false;
    if (wanted && *wanted)
        mf_warn_once(&warned, "MF_DISTRIBUTED=%s is ignored: it may be off", wanted);
    const launcher *l = find_launcher();
    how->launcher = l ? l->name : "the launcher";
    how->launched = l ? (int)number_from(l->size) : 0;
    return l ? how->launched > 1 : getenv("PMIX_RANK") != NULL;
}

/* mpirun binds each process to one core unless told otherwise. */
static void warn_of_binding(const mf_join_options *how, const mf_comm *c)
{
    if (how->launcher && c->rank == 0 && mf_bound_core_count() == 1 && mf_machine_share() > 1)
        mf_warn("%s has bound this process to one core, which all its devices share, where there are %d for each: --bind-to none, or "
                "--map-by slot:PE=n, gives it more",
                how->launcher, mf_machine_share());
}

/* ------------------------------------------------------------------ joining */

/* Joins, or finds that this process is alone. The lock is held. */
static void join(mf_join_options *how)
{
    bool launched = was_launched(how);
    if (!launched && !how->communicator) {
        atomic_store(&process.state, ALONE);
        return;
    }
    if (!launched)
        how->launcher = NULL;
    how->devices = mf_own_cpu_device_count();
    process.failure = mf_comm_join(how, &process.comm);
    if (!process.failure)
        warn_of_binding(how, process.comm);
    atomic_store_explicit(&process.state, process.failure ? FAILED : JOINED, memory_order_release);
}

mf_comm *mf_comm_of_process(void)
{
    int state = atomic_load_explicit(&process.state, memory_order_acquire);
    if (state == UNKNOWN && !mf_process_forked()) {
        pthread_mutex_lock(&process.lock);
        if (atomic_load(&process.state) == UNKNOWN)
            join(&(mf_join_options){ .initialization_timeout = TIMEOUT, .timeout = TIMEOUT });
        pthread_mutex_unlock(&process.lock);
    }
    return process.comm;
}

mf_comm *mf_comm_current(void) { return of_thread ? of_thread : mf_comm_of_process(); }

mf_comm *mf_comm_joined(void) { return atomic_load_explicit(&process.state, memory_order_acquire) == JOINED ? process.comm : NULL; }

mf_error_object *mf_comm_failure(void) { return mf_comm_current() ? NULL : mf_retain(process.failure); }

void mf_comm_set(mf_comm *c) { of_thread = c; }

static bool is_time(double seconds) { return seconds > 0 && seconds <= 1e9; }

mf_status mf_distributed_initialize_opt(const mf_distributed_options *o)
{
    MF_ENTER(MF_FORK_STATUS);
    static const mf_distributed_options none;
    o = o ? o : &none;
    mf_join_options how = { .communicator = o->communicator,
                            .initialization_timeout = o->initialization_timeout ? o->initialization_timeout : TIMEOUT,
                            .timeout = o->timeout ? o->timeout : TIMEOUT };
    mf_error_object *error = NULL;
    if (!is_time(how.timeout) || !is_time(how.initialization_timeout))
        return mf_error_remember(mf_error_new(MF_ERROR_ARGUMENT,
                                              "mf_distributed_initialize: a timeout is %g s, not more than 0 and up to 1e9",
                                              is_time(how.timeout) ? how.initialization_timeout : how.timeout));
    pthread_mutex_lock(&process.lock);
    if (atomic_load(&process.state) != UNKNOWN)
        error = mf_error_new(MF_ERROR_ARGUMENT, "mf_distributed_initialize: it comes before the first use of a device or a map, and once");
    else
        join(&how);
    pthread_mutex_unlock(&process.lock);
    return mf_error_remember(error ? error : mf_comm_failure());
}

mf_status mf_distributed_shutdown(void)
{
    MF_ENTER(MF_FORK_STATUS);
    mf_comm *c = mf_comm_joined();
    if (c && !c->leave(c, "mf_distributed_shutdown was called"))
        return mf_error_remember(
            mf_error_new(MF_ERROR_PEER, "mf_distributed_shutdown: this process had left, or others give no sign of life"));
    return MF_OK;
}

/* ------------------------------------------------------------------ who has what */

int mf_process_index(void)
{
    const mf_comm *c = mf_comm_current();
    return c ? c->rank : atomic_load(&process.state) == FAILED ? -1 : 0;
}

int mf_process_count(void)
{
    const mf_comm *c = mf_comm_current();
    return c ? c->size : atomic_load(&process.state) != FAILED;
}

void mf_comm_count_devices(mf_comm *c)
{
    for (int p = 0; p < c->size; p++) {
        int devices = c->first_device[p + 1] - c->first_device[p];
        c->least_devices = !p || devices < c->least_devices ? devices : c->least_devices;
        c->most_devices = devices > c->most_devices ? devices : c->most_devices;
    }
}

int mf_comm_owner(const mf_comm *c, int device)
{
    int low = 0, high = c->size; /* first_device[low] <= device < first_device[high] */
    if (device < c->first_device[0] || device >= c->first_device[c->size])
        return -1;
    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        *(device < c->first_device[middle] ? &high : &low) = middle;
    }
    return low;
}

void mf_comm_explain(mf_text *t, mf_error_object *why)
{
    mf_text_put(t, why->message);
    mf_location_encode(t, " (", why->address, ")");
}

void mf_comm_abort(mf_comm *c, uint64_t call, mf_error_object *why)
{
    mf_text t = { 0 };
    mf_comm_explain(&t, why);
    if (why->status != MF_ERROR_PEER) { /* a PEER error already names the call of the process that failed */
        mf_text_add(&t, ", in its call %llu", (unsigned long long)(call % ((uint64_t)1 << MF_CALL_BITS)));
        mf_comm_describe(&t, mf_comm_record(c, call));
    }
    c->abort(c, call, t.at && !t.failed ? t.at : why->message);
    mf_text_free(&t);
}
