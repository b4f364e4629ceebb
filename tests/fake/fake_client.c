#include "fake/fake_client.h"

#include "array/literal.h"
#include "base/memory/alloc.h"
#include "runtime/device.h"
#include "runtime/executable.h"

#include <manyfold/device.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- memory */

_Atomic int fake_buffers, fake_reads;
static _Thread_local bool fetching;                         /* while a run's operands are read, which does not count in fake_reads */
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER; /* held while a buffer is readable, by the thread that made it so */

static size_t pages(const mf_buffer *b)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (b->bytes / page + 1) * page;
}

static void open_buffer(const mf_buffer *b)
{
    pthread_mutex_lock(&opening);
    mprotect(b->data, pages(b), PROT_READ | PROT_WRITE);
}
static void shut_buffer(const mf_buffer *b)
{
    mprotect(b->data, pages(b), PROT_NONE);
    pthread_mutex_unlock(&opening);
}

static bool allocate(mf_buffer *b)
{
    void *at = mmap(NULL, pages(b), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return false;
    b->data = at;
    fake_buffers++;
    return true;
}
static void release(mf_buffer *b)
{
    munmap(b->data, pages(b));
    fake_buffers--;
}
static bool from_host(mf_buffer *b, const void *bytes)
{
    open_buffer(b);
    memcpy(b->data, bytes, b->bytes);
    shut_buffer(b);
    return true;
}
static mf_error_object *to_host(const mf_buffer *b, int64_t from, int64_t count, void *out)
{
    if (b->ready && atomic_load(&b->ready->state) != 1)
        abort(); /* read without waiting */
    fake_reads += !fetching;
    open_buffer(b);
    memcpy(out, (const char *)b->data + from, (size_t)count);
    shut_buffer(b);
    return NULL;
}

/* ---- events */

typedef struct callback {
    struct callback *next;
    void (*fn)(void *);
    void *context;
} callback;

typedef struct event {
    mf_future future;
    mf_future *after; /* the CPU's run, which it waits for first; NULL: none */
    callback *callbacks;
} event;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all events and deliveries */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static void event_destroy(mf_object *o)
{
    mf_drop(((event *)o)->future.error);
    mf_drop(((event *)o)->after);
}
static const mf_class event_class = { "fake event", event_destroy };

static bool is_pending(const mf_future *f) { return f && !atomic_load_explicit(&f->state, memory_order_acquire); }

static void event_wait(mf_future *f)
{
    mf_future *after = ((event *)f)->after;
    if (is_pending(after))
        after->wait(after);
    pthread_mutex_lock(&lock);
    while (is_pending(f))
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

static void event_then(mf_future *f, void (*fn)(void *), void *context)
{
    event *e = (event *)f;
    callback *c = malloc(sizeof *c);
    if (!c)
        abort();
    *c = (callback){ NULL, fn, context };
    pthread_mutex_lock(&lock);
    bool later = is_pending(f);
    if (later) {
        c->next = e->callbacks;
        e->callbacks = c;
    }
    pthread_mutex_unlock(&lock);
    if (later)
        return;
    free(c);
    fn(context);
}

static event *event_new(mf_future *after)
{
    event *e = mf_object_new(&event_class, sizeof *e);
    if (!e)
        return NULL;
    e->future.wait = event_wait;
    e->future.then = event_then;
    e->after = mf_retain(after);
    return e;
}

/* error: the failure, or NULL. */
static void event_end(mf_future *f, const mf_error_object *error)
{
    pthread_mutex_lock(&lock);
    event *e = (event *)f;
    callback *list = e->callbacks;
    e->callbacks = NULL;
    f->error = mf_retain(error);
    atomic_store_explicit(&f->state, error ? 2 : 1, memory_order_release);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    for (callback *c = list, *next; c; c = next) {
        next = c->next;
        c->fn(c->context);
        free(c);
    }
}

/* ---- operands: copied to the CPU when they are ready */

/* The sharding on the same devices of another client. */
static const mf_sharding *as_on(const mf_client *client, const mf_sharding *p)
{
    return p->committed ? mf_sharding_get(client, p->axis_count, p->axes, p->device_count, p->devices) : mf_sharding_default(client);
}

typedef struct operand {
    mf_array *from, *to;
    bool donated;
} operand;

static void operand_came(void *context)
{
    operand *o = context;
    const mf_future *f = o->from->future;
    int64_t low, bytes;
    mf_strides_extent(o->from->type, o->from->strides, &low, &bytes);
    fetching = true;
    if (!f || atomic_load(&f->state) == 1)
        mf_error_ignore(mf_buffer_to_host(o->from->buffer, o->from->offset + low, bytes, o->to->buffer->data));
    fetching = false;
    if (!o->donated)
        mf_array_end_read(o->from);
    mf_future *coming = mf_retain(o->to->future);
    mf_error_object *error = coming ? mf_retain(f->error) : NULL;
    mf_drop(o->from);
    mf_drop(o->to); /* before the event: from then on only the run may hold it */
    free(o);
    if (coming)
        event_end(coming, error);
    mf_drop(error);
    mf_drop(coming);
}

/* The CPU's copy of a, which is being read or donated. NULL if out of memory. */
static mf_array *fetch(mf_array *a, bool donated)
{
    int64_t low, bytes;
    mf_strides_extent(a->type, a->strides, &low, &bytes);
    mf_buffer *b = mf_buffer_new((size_t)bytes);
    mf_array *to = b ? mf_array_wrap(a->type, b, -low, a->strides, as_on(&mf_client_cpu, a->sharding)) : NULL;
    event *coming = to && is_pending(a->future) ? event_new(a->future) : NULL;
    operand *o = to && (coming || !is_pending(a->future)) ? malloc(sizeof *o) : NULL;
    mf_drop(b);
    if (!o) {
        mf_drop(coming);
        mf_drop(to);
        return NULL;
    }
    to->is_number = a->is_number;
    memcpy(to->number, a->number, sizeof a->number);
    to->future = coming ? &coming->future : NULL;
    *o = (operand){ mf_retain(a), mf_retain(to), donated };
    if (coming)
        a->future->then(a->future, operand_came, o);
    else
        operand_came(o);
    return to;
}

/* ---- results: a thread delivers them to the devices, call by call */

typedef struct delivery {
    struct delivery *next;
    event *over;
    int count;
    mf_array **from, **to; /* the CPU's arrays, and this client's */
} delivery;

static delivery *queue, **queue_end = &queue;
static int held_device = -1;

void fake_hold_device(int device)
{
    pthread_mutex_lock(&lock);
    held_device = device;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void drop_all(mf_array **arrays, int count)
{
    for (int i = 0; i < count; i++)
        mf_drop(arrays[i]);
}

/* Delivers the parts of one device or, if not of_it, of all others. */
static mf_error_object *deliver_parts(mf_array *to, const mf_literal *l, int device, bool of_it)
{
    for (int k = mf_buffer_count(to->buffer) - 1; k >= 0; k--) {
        if ((mf_buffer_at(to->buffer, k)->device == device) != of_it)
            continue;
        if (!mf_array_put_part(to, k, l))
            return mf_error_out_of_memory();
        if (mf_buffer_at(to->buffer, k)->ready)
            event_end(mf_buffer_at(to->buffer, k)->ready, NULL);
    }
    return NULL;
}

static mf_error_object *deliver_array(mf_array *from, mf_array *to)
{
    mf_error_object *error = NULL;
    mf_literal *l = mf_literal_of(from, &error);
    pthread_mutex_lock(&lock);
    int device = held_device;
    pthread_mutex_unlock(&lock);
    error = l ? deliver_parts(to, l, device, false) : error;
    pthread_mutex_lock(&lock);
    while (held_device >= 0 && held_device == device)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    error = !error ? deliver_parts(to, l, device, true) : error;
    mf_drop(l);
    for (int k = 0; error && k < mf_buffer_count(to->buffer); k++)
        if (is_pending(mf_buffer_at(to->buffer, k)->ready))
            event_end(mf_buffer_at(to->buffer, k)->ready, error);
    return error;
}

static void deliver(delivery *d)
{
    mf_error_object *failed = NULL;
    for (int i = 0; i < d->count; i++) {
        mf_error_object *error = deliver_array(d->from[i], d->to[i]);
        if (failed)
            mf_error_ignore(error);
        else
            failed = error;
    }
    drop_all(d->from, d->count);
    drop_all(d->to, d->count); /* before the events: whoever waits for them may ask whether it is the only holder */
    event_end(&d->over->future, failed);
    mf_drop(failed);
    mf_drop(d->over);
    free(d->from);
    free(d);
}

static void *deliver_all(void *unused)
{
    (void)unused;
    for (;;) {
        pthread_mutex_lock(&lock);
        while (!queue)
            pthread_cond_wait(&changed, &lock);
        delivery *d = queue;
        queue = d->next;
        if (!queue)
            queue_end = &queue;
        pthread_mutex_unlock(&lock);
        deliver(d);
    }
    return NULL;
}

static void start_deliveries(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, deliver_all, NULL) || pthread_detach(thread))
        abort();
}

static void computed(void *context)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    delivery *d = context;
    pthread_once(&once, start_deliveries);
    pthread_mutex_lock(&lock);
    *queue_end = d;
    queue_end = &d->next;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

/* This client's array for a result of the CPU. NULL if out of memory. */
static mf_array *result_for(const mf_array *from, event *over)
{
    const mf_sharding *p = as_on(&fake_client, from->sharding);
    mf_array *to = p ? mf_array_on_devices(p, from->type, from->strides) : NULL;
    bool enough = to;
    for (int k = 0; enough && k < mf_buffer_count(to->buffer); k++) {
        event *e = event_new(over->after);
        enough = e;
        mf_buffer_at(to->buffer, k)->ready = e ? &e->future : NULL;
    }
    if (to)
        to->future = mf_retain(over);
    if (enough)
        return to;
    mf_drop(to);
    return NULL;
}

/* Starts a delivery; takes the references to the CPU's arrays. */
static mf_error_object *send(mf_array **from, int count, mf_array **out)
{
    delivery *d = malloc(sizeof *d);
    mf_array **arrays = malloc(2 * (size_t)count * sizeof *arrays);
    event *over = event_new(from[0]->future);
    int made = 0;
    while (d && arrays && over && made < count && (out[made] = result_for(from[made], over)))
        made++;
    if (made < count) {
        drop_all(out, made);
        drop_all(from, count);
        mf_drop(over);
        free(arrays);
        free(d);
        return mf_error_out_of_memory();
    }
    *d = (delivery){ .over = over, .count = count, .from = arrays, .to = arrays + count };
    for (int i = 0; i < count; i++) {
        d->from[i] = from[i];
        d->to[i] = mf_retain(out[i]);
    }
    if (over->after)
        over->after->then(over->after, computed, d);
    else
        computed(d);
    return NULL;
}

/* ---- programs: a wrapper of the CPU's executable */

typedef struct fake_executable {
    mf_executable base;
    mf_executable *inside;
} fake_executable;

static void fake_destroy(mf_object *o)
{
    mf_drop(((fake_executable *)o)->inside);
    mf_executable_end(&((fake_executable *)o)->base);
}
static const mf_class fake_class = { "fake executable", fake_destroy };

static mf_error_object *load(const mf_load_request *what, mf_executable **loaded)
{
    mf_load_request inside = *what;
    inside.client = &mf_client_cpu;
    fake_executable *x = mf_object_new(&fake_class, sizeof *x);
    if (!x)
        return mf_error_out_of_memory();
    mf_error_object *error = mf_executable_init(&x->base, what) ? mf_backend_cpu.load(&inside, &x->inside) : mf_error_out_of_memory();
    if (error) {
        mf_drop(x);
        return error;
    }
    x->base.supposes = x->inside->supposes;
    *loaded = &x->base;
    return NULL;
}

static bool fits(const mf_executable *x, mf_array *const *in) { return mf_executable_fits(((const fake_executable *)x)->inside, in); }

static bool is_donated(const mf_executable *x, int i) { return x->donated && x->donated[i]; }

/* Undoes begin for the first `count` inputs: they are no longer being read, and donated ones belong to the caller again. */
static void leave(const mf_executable *x, mf_array *const *in, int from, int count)
{
    for (int i = 0; i < count; i++)
        if (is_donated(x, i))
            atomic_store(&in[i]->deleted, NULL);
        else if (i >= from)
            mf_array_end_read(in[i]);
}

/* Marks each input as being read, and deletes the donated ones. After an error nothing is changed. */
static mf_error_object *begin(const mf_executable *x, mf_array *const *in, int count)
{
    for (int i = 0; i < count; i++) {
        const char *before = NULL;
        const mf_future *f = in[i]->future;
        mf_error_object *error = NULL;
        if (f && atomic_load(&f->state) == 2)
            error = mf_retain(f->error);
        else if (!is_donated(x, i))
            error = mf_array_begin(in[i]);
        else if (!atomic_compare_exchange_strong(&in[i]->deleted, &before, "donated"))
            error = mf_array_wait(in[i]);
        if (error) {
            leave(x, in, 0, i);
            return error;
        }
    }
    return NULL;
}

/* Aborts if an array does not have the expected type, which a real device would not notice. */
static void expect(const mf_array *a, const mf_type *wanted)
{
    int64_t at;
    if (mf_array_client(a) != &fake_client || a->type->dtype != wanted->dtype || !mf_type_same_shape(a->type, wanted))
        abort();
    for (int k = 0; k < a->sharding->device_count && a->type->size; k++)
        if (mf_array_part(a, k, &at)->device != a->sharding->devices[k])
            abort();
}

static mf_error_object *execute(mf_executable *base, mf_array *const *in, const bool *moved, mf_array **out)
{
    (void)moved; /* nothing is computed in place */
    int count = base->program->in_count, results = base->program->out_count, fetched = 0;
    mf_array **here = calloc((size_t)count + (size_t)results + 1, sizeof *here), **computed_here = here + count;
    mf_error_object *error = here ? begin(base, in, count) : mf_error_out_of_memory();
    if (error) {
        free(here);
        return error;
    }
    for (; fetched < count && !error; fetched++) {
        expect(in[fetched], base->program->in[fetched]->type);
        here[fetched] = fetch(in[fetched], is_donated(base, fetched));
        if (!here[fetched]) {
            error = mf_error_out_of_memory();
            break;
        }
    }
    error = error ? error : mf_executable_run(((fake_executable *)base)->inside, here, NULL, computed_here);
    error = error || !results ? error : send(computed_here, results, out);
    if (error)
        leave(base, in, fetched, count);
    for (int i = 0; i < count && !error; i++)
        if (is_donated(base, i) && !here[i]->future) /* a pending array is still to be fetched */
            mf_drop(mf_array_give_up(in[i]));
    drop_all(here, fetched);
    free(here);
    return error;
}

static void describe(mf_text *t, const mf_executable *x) { mf_executable_describe(t, ((const fake_executable *)x)->inside); }

static int64_t temporary_bytes(const mf_executable *x) { return mf_executable_temporary_bytes(((const fake_executable *)x)->inside); }

static const mf_backend fake_backend = { load, fits, execute, describe, temporary_bytes };

static int device_count(const mf_client *c)
{
    (void)c;
    return mf_device_total(&mf_client_cpu);
}

const mf_client fake_client = {
    .platform = "fake",
    .separate_memory = true,
    .allocate = allocate,
    .release = release,
    .from_host = from_host,
    .to_host = to_host,
    .device_count = device_count,
    .backend = &fake_backend,
};

void fake_client_register(void)
{
    if (mf_client_register(&fake_client))
        abort();
}

__attribute__((constructor)) static void choose(void)
{
    const char *name = getenv("MF_TEST_CLIENT");
    if (name && strcmp(name, fake_client.platform) != 0 && mf_set_default_backend(name))
        abort();
    if (!name || strcmp(name, fake_client.platform) != 0)
        return;
    fake_client_register();
    atomic_store(&mf_client_chosen, &fake_client);
}
