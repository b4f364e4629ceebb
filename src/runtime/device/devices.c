/* Devices: virtual CPU devices, any number on any number of cores, and how many threads work for them. Invariant: the number of devices
 * is fixed at its first use. */
#include "runtime/executable.h"

#include <manyfold/device.h>

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST 65536
#define TAG  ((uint64_t)0x6d66646576ull << 24) /* marks device handles, so that other numbers are no devices */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int asked;          /* by mf_set_num_cpu_devices; 0: nobody has */
static _Atomic int total;  /* 0: not used yet */
static mf_device *devices; /* total of them */

int mf_core_count(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : (int)sysconf(_SC_NPROCESSORS_ONLN);
    return count < 1 ? 1 : count;
}

/* A positive number from the environment, or 0; says so once when it is none. */
static int from_environment(const char *name, _Atomic bool *said)
{
    const char *text = getenv(name);
    char *end;
    if (!text || !*text)
        return 0;
    long n = strtol(text, &end, 10);
    if (*end || n < 1 || n > MOST) {
        mf_warn_once(said, "%s=%s is ignored: it must be a number from 1 to %d", name, text, MOST);
        return 0;
    }
    return (int)n;
}

int mf_worker_count(void)
{
    static _Atomic bool said;
    int count = from_environment("MF_NUM_THREADS", &said);
    return count ? count : mf_core_count();
}

/* Under a launcher each process would do the whole work by itself, which nobody means. */
static void tell_of_launcher(void)
{
    static const struct {
        const char *launcher, *size, *rank;
    } known[] = { { "mpirun", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK" },
                  { "mpiexec", "PMI_SIZE", "PMI_RANK" },
                  { "srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID" } };
    static _Atomic bool said;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const char *size = getenv(known[i].size), *rank = getenv(known[i].rank);
        if (size && strtol(size, NULL, 10) > 1 && (!rank || strtol(rank, NULL, 10) == 0))
            mf_warn_once(&said,
                         "%s started %s processes, but only one is supported so far: each of them knows its own devices alone and does "
                         "the whole work",
                         known[i].launcher, size);
    }
}

int mf_device_total(void)
{
    static _Atomic bool said;
    int known = atomic_load_explicit(&total, memory_order_acquire);
    if (known)
        return known;
    MF_PARENT_ONLY(0);
    pthread_mutex_lock(&lock);
    known = atomic_load(&total);
    if (!known) {
        tell_of_launcher();
        known = asked ? asked : from_environment("MF_NUM_CPU_DEVICES", &said);
        known = known ? known : mf_core_count();
        devices = mf_alloc((size_t)known * sizeof *devices);
        for (int i = 0; devices && i < known; i++)
            devices[i].handle = TAG | (uint64_t)i;
        atomic_store_explicit(&total, known, memory_order_release);
    }
    pthread_mutex_unlock(&lock);
    return known;
}

mf_error_object *mf_device_set_total(int n)
{
    if (n < 1 || n > MOST)
        return mf_error_new(MF_ERROR_ARGUMENT, "mf_set_num_cpu_devices: %d; there can be 1 to %d devices", n, MOST);
    pthread_mutex_lock(&lock);
    int known = atomic_load(&total);
    if (!known)
        asked = n;
    pthread_mutex_unlock(&lock);
    if (known && known != n)
        return mf_error_new(MF_ERROR_DEVICE,
                            "mf_set_num_cpu_devices(%d): devices were used already, and there are %d; call it before anything "
                            "else, or set MF_NUM_CPU_DEVICES",
                            n, known);
    return NULL;
}

/* ------------------------------------------------------------------ the public functions */

mf_status mf_set_num_cpu_devices(int count)
{
    MF_ENTER(MF_FORK_STATUS);
    return mf_error_remember(mf_device_set_total(count));
}

int mf_device_count(void) { return mf_device_total(); }

int mf_local_device_count(void) { return mf_device_total(); }

int mf_process_index(void) { return 0; }

int mf_process_count(void) { return 1; }

mf_device_list mf_devices(void)
{
    static const mf_device none; /* for who takes the first without asking how many there are */
    int count = mf_device_total();
    return devices ? (mf_device_list){ count, devices } : (mf_device_list){ 0, &none };
}

mf_device_list mf_local_devices(void) { return mf_devices(); }

mf_device_list mf_devices_of(const char *backend)
{
    bool known = !backend || !strcmp(backend, mf_client_cpu.platform) || mf_backend_find(backend);
    return known ? mf_devices() : (mf_device_list){ 0, NULL };
}

int mf_device_id(mf_device d)
{
    uint64_t id = d.handle ^ TAG;
    return id < (uint64_t)mf_device_total() ? (int)id : -1;
}

const char *mf_device_platform(mf_device d) { return mf_device_id(d) < 0 ? NULL : mf_client_cpu.platform; }

static int64_t clip(int64_t at, int64_t count)
{
    if (at < 0)
        at += count;
    return at < 0 ? 0 : at > count ? count : at;
}

mf_device_list mf_device_slice(mf_device_list list, int64_t start, int64_t stop)
{
    int64_t from = clip(start, list.count), to = clip(stop, list.count);
    return from < to ? (mf_device_list){ (int)(to - from), list.at + from } : (mf_device_list){ 0, list.at };
}
