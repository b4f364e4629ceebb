/* A plugin's events as futures. Invariant: a future ends when the events of all its devices have completed, with the first error among
 * them; waiters are woken by the plugin's thread. */
#include "backend/pjrt/pjrt.h"

#include "base/memory/alloc.h"
#include "base/memory/intern.h"
#include "runtime/profile/profiler.h"

#include <string.h>

typedef struct listener {
    struct listener *next;
    void (*fn)(void *);
    void *context;
} listener;

typedef struct arrival {
    struct run_event *run;
    void *event;
    int device; /* -1: none */
} arrival;

typedef struct run_event {
    mf_future future;
    pjrt_client *client;
    listener *callbacks; /* guarded by the client's lock, as are the members below */
    mf_error_object *failed;
    _Atomic int left;
    bool has_collectives;
    const void *location;
    const char *name; /* on the profiler's tracks */
    int64_t start;    /* 0: not recorded */
    int *devices;     /* the devices whose parts of the run end with any device's event; NULL: each event ends its own device's part */
    int device_count;
    pjrt_findings *findings; /* of the program, or NULL */
    uint64_t *found;
    bool shared; /* the program is shared by several lines */
    int added;
    arrival arrivals[]; /* one per event */
} run_event;

static void event_destroy(mf_object *o)
{
    mf_drop(((run_event *)o)->future.error);
    mf_drop(((run_event *)o)->failed);
    mf_drop(((run_event *)o)->findings);
    mf_free(((run_event *)o)->found);
    mf_free(((run_event *)o)->devices);
}
static const mf_class event_class = { "plugin's event", event_destroy };

static bool is_pending(const mf_future *f) { return !atomic_load_explicit(&f->state, memory_order_acquire); }

static void wait(mf_future *f)
{
    pjrt_client *c = ((run_event *)f)->client;
    pthread_mutex_lock(&c->lock);
    while (is_pending(f))
        pthread_cond_wait(&c->changed, &c->lock);
    pthread_mutex_unlock(&c->lock);
}

/* If the listener cannot be allocated, the calling thread waits and then calls fn. */
static void then(mf_future *f, void (*fn)(void *), void *context)
{
    run_event *e = (run_event *)f;
    listener *c = mf_alloc(sizeof *c);
    if (!c) {
        wait(f);
        fn(context);
        return;
    }
    *c = (listener){ NULL, fn, context };
    pthread_mutex_lock(&e->client->lock);
    bool later = is_pending(f);
    if (later) {
        c->next = e->callbacks;
        e->callbacks = c;
    }
    pthread_mutex_unlock(&e->client->lock);
    if (later)
        return;
    mf_free(c);
    fn(context);
}

mf_future *pjrt_future_new(pjrt_client *c, int count, bool has_collectives, const void *location)
{
    run_event *e = mf_object_new(&event_class, sizeof *e + (size_t)count * sizeof *e->arrivals);
    if (!e)
        return NULL;
    e->future.wait = wait;
    e->future.then = then;
    e->client = c;
    e->left = count;
    e->has_collectives = has_collectives;
    e->location = location;
    return &e->future;
}

/* The lock is held. */
static listener *end(run_event *e)
{
    listener *list = e->callbacks;
    e->callbacks = NULL;
    if (!e->failed && e->findings)
        e->failed = pjrt_findings_error(e->findings, e->found, e->location, e->shared);
    e->future.error = e->failed;
    e->failed = NULL;
    e->client->in_flight[e->has_collectives]--;
    atomic_store_explicit(&e->future.state, e->future.error ? 2 : 1, memory_order_release);
    pthread_cond_broadcast(&e->client->changed);
    return list;
}

/* An event has completed. Takes both references. */
static void arrive(run_event *e, mf_error_object *error)
{
    listener *list = NULL;
    if (error) {
        pthread_mutex_lock(&e->client->lock);
        mf_error_object *first = e->failed;
        e->failed = first ? first : error;
        pthread_mutex_unlock(&e->client->lock);
        mf_error_ignore(first ? error : NULL);
    }
    if (atomic_fetch_sub(&e->left, 1) == 1) {
        pthread_mutex_lock(&e->client->lock);
        list = end(e);
        pthread_mutex_unlock(&e->client->lock);
    }
    for (listener *next; list; list = next) {
        next = list->next;
        list->fn(list->context);
        mf_free(list);
    }
    mf_drop(e);
}

void pjrt_future_record(mf_future *f, const char *name, const int *devices, int count)
{
    run_event *e = (run_event *)f;
    e->start = mf_profile_begin();
    e->name = e->start && !name ? mf_intern("program") : name;
    e->devices = e->start && devices ? mf_alloc((size_t)count * sizeof *devices) : NULL; /* out of memory: only its own device */
    if (!e->devices)
        return;
    memcpy(e->devices, devices, (size_t)count * sizeof *devices);
    e->device_count = count;
}

static void record(const run_event *e, const arrival *a)
{
    for (int k = 0; k < e->device_count; k++)
        mf_profile_device(e->start, e->devices[k], e->name, e->location);
    if (!e->device_count)
        mf_profile_device(e->start, a->device, e->name, e->location);
}

static void came(void *error, void *context)
{
    const arrival *a = context;
    run_event *e = a->run;
    if (e->start && a->device >= 0)
        record(e, a);
    mf_error_object *failed = error ? pjrt_error(e->client, PJRT_LOADED_EXECUTE, e->location, error) : NULL;
    pjrt_destroy(e->client, PJRT_EVENT_DESTROY, a->event);
    arrive(e, failed);
}

void pjrt_future_add(mf_future *f, void *event, int device)
{
    run_event *e = mf_retain((run_event *)f);
    arrival *a = &e->arrivals[e->added++];
    *a = (arrival){ e, event, device };
    if (!event) {
        arrive(e, NULL);
        return;
    }
    pjrt_on_ready args = { PJRT_HEAD(pjrt_on_ready), event, came, a };
    mf_error_object *error = pjrt_call(e->client, PJRT_EVENT_ON_READY, e->location, &args);
    if (!error)
        return;
    /* no callback will come: wait for the event here, and fail the call */
    mf_error_ignore(pjrt_await(e->client, event, e->location));
    arrive(e, error);
}

void pjrt_future_fail(mf_future *f, mf_error_object *error) { arrive(mf_retain((run_event *)f), error); }

uint64_t *pjrt_future_findings(mf_future *f, const pjrt_executable *x)
{
    run_event *e = (run_event *)f;
    e->found = mf_calloc((size_t)x->replicas, sizeof *e->found);
    e->findings = e->found ? mf_retain(x->findings) : NULL;
    e->shared = x->base.shares_locations;
    return e->found;
}

void pjrt_enter_flight(pjrt_client *c, bool has_collectives)
{
    pthread_mutex_lock(&c->lock);
    while (c->in_flight[has_collectives] >= (has_collectives ? PJRT_IN_FLIGHT : PJRT_UNREAD))
        pthread_cond_wait(&c->changed, &c->lock);
    c->in_flight[has_collectives]++;
    pthread_mutex_unlock(&c->lock);
}

void pjrt_leave_flight(pjrt_client *c, bool has_collectives)
{
    pthread_mutex_lock(&c->lock);
    c->in_flight[has_collectives]--;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
}
