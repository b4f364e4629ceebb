/* The devices of all clients, in one table; the virtual CPU devices, of any number on any number of cores; and the number of worker
 * threads.
 * Invariant: a client's number of devices is fixed at the first use of one of them. A handle holds the client's index and the device's
 * id. */
#include "runtime/device.h"

#include "runtime/comm.h"
#include "runtime/compile/segment_compiler.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST     65536
#define TAG      ((uint64_t)0x6d66646576ull << 24) /* marks device handles, so that an arbitrary number is no device */
#define TAG_MASK (~(uint64_t)0 << 24)

typedef struct client_devices {
    _Atomic int total; /* 0: not used yet */
    mf_device *at;
} client_devices;

static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP; /* recursive: a client's device_count may ask for another client's */
static int asked;                                                     /* by mf_set_num_cpu_devices; 0: not set */
static client_devices table[MF_MOST_CLIENTS];                         /* by the client's index */

int mf_bound_core_count(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : (int)sysconf(_SC_NPROCESSORS_ONLN);
    return count < 1 ? 1 : count;
}

int mf_machine_share(void)
{
    const char *processes = getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
    processes = processes ? processes : getenv("MPI_LOCALNRANKS");
    long local = processes ? strtol(processes, NULL, 10) : 1, online = sysconf(_SC_NPROCESSORS_ONLN);
    return local < 1 ? (int)online : online < local ? 1 : (int)(online / local);
}

/* Processes that their launcher has not bound to cores share the machine. */
int mf_core_count(void)
{
    int bound = mf_bound_core_count(), share = mf_machine_share();
    return bound == sysconf(_SC_NPROCESSORS_ONLN) && share < bound ? share : bound;
}

/* A positive number from the environment, or 0; warns once if it is invalid. */
static int from_environment(const char *name, _Atomic bool *warned)
{
    const char *text = getenv(name);
    char *end;
    if (!text || !*text)
        return 0;
    long n = strtol(text, &end, 10);
    if (*end || n < 1 || n > MOST) {
        mf_warn_once(warned, "%s=%s is ignored: it must be a number from 1 to %d", name, text, MOST);
        return 0;
    }
    return (int)n;
}

int mf_worker_count(void)
{
    static _Atomic bool warned;
    int count = from_environment("MF_NUM_THREADS", &warned);
    return count ? count : mf_core_count();
}

int mf_own_cpu_device_count(void)
{
    static _Atomic bool warned;
    int count = asked ? asked : from_environment("MF_NUM_CPU_DEVICES", &warned);
    return count ? count : mf_core_count();
}

int mf_cpu_device_count(const mf_client *client)
{
    (void)client;
    const mf_comm *c = mf_comm_of_process();
    return c ? c->first_device[c->size] : mf_own_cpu_device_count();
}

/* ------------------------------------------------------------------ the table */

/* Makes the devices of the client with this index; the lock is held. */
static void make_devices(client_devices *d, int index)
{
    int count = mf_client_at(index)->device_count(mf_client_at(index));
    count = count > MOST ? MOST : count;
    d->at = mf_alloc((size_t)count * sizeof *d->at);
    for (int i = 0; d->at && i < count; i++)
        d->at[i].handle = TAG | (uint64_t)index << 16 | (uint64_t)i;
    atomic_store_explicit(&d->total, count, memory_order_release);
}

static const client_devices *devices_at(int index)
{
    static const client_devices none;
    client_devices *d = index < 0 ? NULL : &table[index];
    if (d && atomic_load_explicit(&d->total, memory_order_acquire))
        return d;
    MF_PARENT_ONLY(&none);
    if (!d)
        return &none;
    pthread_mutex_lock(&lock);
    if (!atomic_load(&d->total))
        make_devices(d, index);
    pthread_mutex_unlock(&lock);
    return d;
}

int mf_device_total(const mf_client *client) { return devices_at(mf_client_index(client))->total; }

const mf_client *mf_device_client(mf_device d)
{
    int index = (int)(d.handle >> 16 & 0xff);
    const mf_client *client = (d.handle & TAG_MASK) == TAG ? mf_client_at(index) : NULL;
    return client && (int)(d.handle & 0xffff) < mf_device_total(client) ? client : NULL;
}

mf_device mf_device_of(const mf_client *client, int id)
{
    const client_devices *d = devices_at(mf_client_index(client));
    return d->at && id >= 0 && id < d->total ? d->at[id] : (mf_device){ 0 };
}

const mf_client *mf_client_named(const char *name, mf_error_object **error)
{
    const mf_client *found = mf_client_find(name);
    *error = NULL;
    if (found || !name)
        return found;
    return mf_segment_compiler_find(name) ? &mf_client_cpu : mf_client_open(name, error);
}

void mf_client_names(mf_text *t)
{
    for (int i = 0; mf_client_at(i); i++)
        mf_text_add(t, "%s'%s'", i ? ", " : "", mf_client_at(i)->platform);
    for (int i = 0; mf_segment_compilers[i]; i++)
        if (mf_segment_compilers[i]->available())
            mf_text_add(t, ", '%s'", mf_segment_compilers[i]->name);
}

/* This process's number of CPU devices if it is fixed already, else 0. */
static int known_total(void)
{
    const mf_comm *c = mf_comm_joined();
    return c ? c->first_device[c->rank + 1] - c->first_device[c->rank] : atomic_load(&table[0].total);
}

mf_error_object *mf_device_set_total(int n)
{
    if (n < 1 || n > MOST)
        return mf_error_new(MF_ERROR_ARGUMENT, "mf_set_num_cpu_devices: %d; there can be 1 to %d devices", n, MOST);
    pthread_mutex_lock(&lock);
    int known = known_total();
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

int mf_device_count(void) { return mf_devices().count; }

int mf_local_device_count(void) { return mf_local_devices().count; }

static mf_device_list list_of(const mf_client *client)
{
    static const mf_device none; /* for callers that take the first device without checking the count */
    const client_devices *d = devices_at(mf_client_index(client));
    return d->at ? (mf_device_list){ d->total, d->at } : (mf_device_list){ 0, &none };
}

/* The devices of processes `from` to `to` - 1; all devices if there is one process, none if joining failed. */
static mf_device_list devices_between(const mf_comm *c, int from, int to)
{
    const mf_client *client = mf_client_default();
    mf_device_list all = list_of(client);
    if (c && client->alone)
        return all;
    mf_error_object *failure = c ? NULL : mf_comm_failure();
    mf_drop(failure);
    return c ? mf_device_slice(all, c->first_device[from], c->first_device[to]) : failure ? (mf_device_list){ 0, all.at } : all;
}

mf_device_list mf_devices(void)
{
    const mf_comm *c = mf_comm_current();
    return devices_between(c, 0, c ? c->size : 0);
}

mf_device_list mf_local_devices(void)
{
    const mf_comm *c = mf_comm_current();
    return devices_between(c, c ? c->rank : 0, c ? c->rank + 1 : 0);
}

mf_device_list mf_devices_of(const char *backend)
{
    mf_error_object *error = NULL;
    const mf_client *client = backend ? mf_client_named(backend, &error) : mf_client_default();
    if (error)
        mf_error_remember(error);
    return client ? list_of(client) : (mf_device_list){ 0, NULL };
}

int mf_device_id(mf_device d) { return mf_device_client(d) ? (int)(d.handle & 0xffff) : -1; }

int mf_device_process(mf_device d)
{
    const mf_comm *c = mf_comm_current();
    int id = mf_device_id(d);
    if (id < 0)
        return -1;
    return !c ? 0 : mf_device_client(d)->alone ? c->rank : mf_comm_owner(c, id);
}

int mf_device_local_ordinal(mf_device d)
{
    const mf_comm *c = mf_comm_current();
    int process = mf_device_process(d);
    bool all_here = !c || (process >= 0 && mf_device_client(d)->alone);
    return process < 0 ? -1 : mf_device_id(d) - (all_here ? 0 : c->first_device[process]);
}

mf_status mf_device_memory_stats(mf_device d, mf_device_memory_stats_t *out)
{
    MF_ENTER(MF_FORK_STATUS);
    const mf_client *client = mf_device_client(d);
    mf_error_object *error = NULL;
    if (out)
        *out = (mf_device_memory_stats_t){ -1, -1, -1, -1, -1 };
    if (!client || !out)
        error = mf_error_new(MF_ERROR_ARGUMENT, "mf_device_memory_stats: %s", out ? "no device" : "no place for the numbers");
    else if (!client->memory_stats)
        error = mf_error_new(MF_ERROR_DEVICE, "%s counts no memory for each device; mf_memory_stats() has that of the process",
                             client->platform);
    else
        error = client->memory_stats(client, mf_device_local_ordinal(d), out);
    return mf_error_remember(error);
}

const char *mf_device_platform(mf_device d)
{
    const mf_client *client = mf_device_client(d);
    return client ? client->platform : NULL;
}

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
