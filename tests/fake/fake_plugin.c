/* A fake PJRT plugin that computes nothing: every result is a copy of an argument. It counts the objects that it creates and the copies
 * that it makes, and fails on demand. If possible it does not copy host memory but reads it until the buffer is destroyed. It is a shared
 * object, opened like a vendor's plugin; tests look up the functions that control it by name (fake_plugin.h). */
#include "fake/fake_plugin.h"

#include "backend/pjrt/pjrt_api.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

enum { DEVICES = 4, SLOTS = 100, MOST_DIMS = 16 };

typedef struct fault {
    int code;
    char words[96];
} fault;

typedef struct event {
    struct event *next;
    bool fails, pending, of_call;
    void (*callback)(void *error, void *context);
    void *context;
} event;

typedef struct buffer {
    int type, rank;
    int64_t dims[MOST_DIMS];
    size_t bytes;
    bool deleted;
    event *done;             /* ends when the host's memory is no longer read */
    const unsigned char *at; /* in host memory, or in the buffer's own */
    unsigned char own[];
} buffer;

typedef struct executable {
    size_t outputs;
    bool donates;
} executable;

static _Atomic int awaits, compiles, calls, failing_call, events, failing_event, living[FAKE_KINDS], peak[FAKE_KINDS], copies[FAKE_WAYS];
static char the_client, the_devices[DEVICES];
static void *const devices[DEVICES] = { &the_devices[0], &the_devices[1], &the_devices[2], &the_devices[3] };

static void *made(int kind, size_t bytes)
{
    void *o = calloc(1, bytes);
    if (!o)
        abort();
    int count = ++living[kind], most = peak[kind];
    while (count > most && !atomic_compare_exchange_weak(&peak[kind], &most, count))
        continue;
    return o;
}

static void gone(int kind, void *o)
{
    living[kind]--;
    free(o);
}

static void *failure(const char *function, int code)
{
    fault *f = made(FAKE_ERROR, sizeof *f);
    f->code = code;
    snprintf(f->words, sizeof f->words, "the fake plugin refuses call %d, %s", (int)calls, function);
    return f;
}

/* At the top of each function: whether this call is the one that must fail. */
#define ENTER                    \
    if (++calls == failing_call) \
    return failure(__func__, 8)

static event *new_event(void)
{
    event *e = made(FAKE_EVENT, sizeof *e);
    e->fails = ++events == failing_event;
    return e;
}

/* ---- errors and events */

static void *error_destroy(void *a)
{
    gone(FAKE_ERROR, ((pjrt_one *)a)->object);
    return NULL;
}

static void *error_message(void *a)
{
    pjrt_words_of *w = a;
    w->words_out = ((fault *)w->object)->words;
    w->count_out = strlen(w->words_out);
    return NULL;
}

static void *error_code(void *a)
{
    pjrt_int_of *i = a;
    i->out.number = ((fault *)i->object)->code;
    return NULL;
}

static void *event_destroy(void *a)
{
    gone(FAKE_EVENT, ((pjrt_one *)a)->object);
    ENTER;
    return NULL;
}

static void *event_await(void *a)
{
    ENTER;
    awaits++;
    const event *e = ((pjrt_one *)a)->object;
    if (e->pending)
        abort(); /* it would wait forever */
    return e->fails ? failure("an event", 13) : NULL;
}

/* Events of calls may be delayed: a thread ends them, oldest first, with a pause before each. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t news;
    event *first, **end;
    _Atomic int rest; /* in ns; 0: not delayed */
} late = { .lock = PTHREAD_MUTEX_INITIALIZER, .news = PTHREAD_COND_INITIALIZER, .end = &late.first };

static void come(event *e)
{
    e->pending = false;
    if (e->callback)
        e->callback(e->fails ? failure("an event", 13) : NULL, e->context);
}

static void *event_on_ready(void *a)
{
    ENTER;
    pjrt_on_ready *r = a;
    event *e = r->event;
    e->callback = r->callback;
    e->context = r->context;
    pthread_mutex_lock(&late.lock);
    bool queued = e->pending && e->of_call;
    if (queued) {
        *late.end = e;
        late.end = &e->next;
        pthread_cond_signal(&late.news);
    }
    pthread_mutex_unlock(&late.lock);
    if (!queued && !e->pending)
        come(e);
    return NULL;
}

static void *bring_late(void *unused)
{
    prctl(PR_SET_TIMERSLACK, 1); /* ns */
    pthread_mutex_lock(&late.lock);
    while (late.rest || late.first) {
        event *e = late.first;
        if (!e) {
            pthread_cond_wait(&late.news, &late.lock);
            continue;
        }
        late.first = e->next;
        late.end = late.first ? late.end : &late.first;
        pthread_mutex_unlock(&late.lock);
        nanosleep(&(struct timespec){ 0, late.rest }, NULL);
        come(e);
        pthread_mutex_lock(&late.lock);
    }
    pthread_mutex_unlock(&late.lock);
    return unused;
}

/* ---- the client */

static void *plugin_initialize(void *a)
{
    (void)a;
    ENTER;
    return NULL;
}

static int64_t stablehlo[2][3] = { { 1, 13, 3 }, { 0, 9, 0 } };
static const char *const stablehlo_names[] = { "stablehlo_current_version", "stablehlo_minimum_version" };

static void *plugin_attributes(void *a)
{
    ENTER;
    static pjrt_named_value list[3];
    pjrt_attributes *ask = a;
    list[0] = (pjrt_named_value){ { sizeof *list, NULL }, "xla_version", 11, PJRT_INT64, { .integer = 2 }, 1 };
    for (int i = 0; i < 2; i++)
        list[1 + i] = (pjrt_named_value){
            { sizeof *list, NULL }, stablehlo_names[i], 25, PJRT_INT64_LIST, { .integers = stablehlo[i] }, 3
        };
    ask->list_out = list;
    ask->count_out = 3;
    return NULL;
}

static char options[1024];

static void record_list(const pjrt_named_value *v, char *at, size_t room)
{
    size_t used = (size_t)snprintf(at, room, "%.*s list", (int)v->name_size, v->name);
    for (size_t i = 0; i < v->value_size && used < room; i++)
        used += (size_t)snprintf(at + used, room - used, " %lld", (long long)v->value.integers[i]);
    if (used < room)
        snprintf(at + used, room - used, ", ");
}

static void record(const pjrt_named_value *v)
{
    size_t at = strlen(options), room = sizeof options - at;
    int name = (int)v->name_size;
    switch (v->kind) {
    case PJRT_INT64: snprintf(options + at, room, "%.*s integer %lld, ", name, v->name, (long long)v->value.integer); break;
    case PJRT_INT64_LIST: record_list(v, options + at, room); break;
    case PJRT_FLOAT: snprintf(options + at, room, "%.*s float %g, ", name, v->name, (double)v->value.real); break;
    case PJRT_BOOL: snprintf(options + at, room, "%.*s truth %d, ", name, v->name, v->value.truth); break;
    default: snprintf(options + at, room, "%.*s string %.*s, ", name, v->name, (int)v->value_size, v->value.string); break;
    }
}

static bool is_named(const pjrt_named_value *v, const char *name)
{
    return v->name_size == strlen(name) && !memcmp(v->name, name, v->name_size);
}

static bool has_option(const pjrt_client_create *c, const char *name)
{
    for (size_t i = 0; i < c->option_count; i++)
        if (is_named(&c->options[i], name))
            return true;
    return false;
}

/* The key-value store that the last client was given. */
static pjrt_client_create store;

static void *client_create(void *a)
{
    ENTER;
    pjrt_client_create *c = a;
    options[0] = 0;
    store = *c;
    for (size_t i = 0; i < c->option_count; i++)
        record(&c->options[i]);
    if (has_option(c, "alone") && has_option(c, "num_nodes"))
        return failure("an option that it does not know, num_nodes", 3);
    for (size_t i = 0; i < c->option_count; i++)
        if (strncmp(c->options[i].name, "unknown", c->options[i].name_size) == 0)
            return failure("an option that it does not know", 3);
    living[FAKE_CLIENT]++;
    c->client_out = &the_client;
    return NULL;
}

static void *client_destroy(void *a)
{
    (void)a;
    living[FAKE_CLIENT]--;
    ENTER;
    return NULL;
}

static const char *platform = "fake";

static void *client_platform(void *a)
{
    ENTER;
    pjrt_words_of *w = a;
    w->words_out = platform;
    w->count_out = strlen(platform);
    return NULL;
}

static void *client_devices(void *a)
{
    ENTER;
    pjrt_devices_of *d = a;
    d->devices_out = devices;
    d->count_out = DEVICES;
    return NULL;
}

static void *device_description(void *a)
{
    ENTER;
    pjrt_one_more *d = a;
    d->out = d->object;
    return NULL;
}

static void *description_id(void *a)
{
    ENTER;
    pjrt_int_of *i = a;
    i->out.number = (int)((char *)i->object - the_devices);
    return NULL;
}

/* The memory statistics of a device: only some of the numbers are reported. */
static void *device_memory(void *a)
{
    ENTER;
    pjrt_memory_stats *m = a;
    int id = (int)((char *)m->device - the_devices);
    m->in_use = 100 + id;
    m->peak = (pjrt_maybe){ 200 + id, true };
    m->allocations = (pjrt_maybe){ 3, true };
    m->limit.number = 5;
    return NULL;
}

/* ---- programs */

/* The number of results that main's signature declares. */
static size_t count_outputs(const pjrt_program *p)
{
    size_t count = 0;
    const char *at = strstr(p->code, "@main("), *end = at ? strstr(at, "{\n") : NULL;
    at = at ? strstr(at, ") -> (") : NULL;
    while (at && end && (at = strstr(at, "tensor<")) && at < end) {
        count++;
        at++;
    }
    return count;
}

static void *client_compile(void *a)
{
    ENTER;
    pjrt_client_compile *c = a;
    if (memcmp(c->program->format, "mlir", 4) != 0 || !c->option_size)
        return failure("a program that is no MLIR", 3);
    compiles++;
    executable *x = made(FAKE_EXECUTABLE, sizeof *x);
    x->outputs = count_outputs(c->program);
    x->donates = strstr(c->program->code, "tf.aliasing_output") != NULL;
    c->loaded_out = x;
    return NULL;
}

static void *get_executable(void *a)
{
    ENTER;
    pjrt_one_more *m = a;
    executable *copy = made(FAKE_EXECUTABLE, sizeof *copy);
    *copy = *(executable *)m->object;
    m->out = copy;
    return NULL;
}

static void *num_outputs(void *a)
{
    ENTER;
    pjrt_number_of *n = a;
    n->out = ((executable *)n->object)->outputs;
    return NULL;
}

/* Serialised as the struct, preceded by a magic word. */
static void forget_serialized(void *s) { free(s); }

static void *serialize(void *a)
{
    ENTER;
    pjrt_executable_serialize *s = a;
    char *bytes = calloc(1, 4 + sizeof(executable));
    if (!bytes)
        abort();
    memcpy(bytes, "fake", 4);
    memcpy(bytes + 4, s->executable, sizeof(executable));
    s->bytes_out = bytes;
    s->count_out = 4 + sizeof(executable);
    s->serialized_out = bytes;
    s->destroy_out = forget_serialized;
    return NULL;
}

static void *load_serialized(void *a)
{
    ENTER;
    pjrt_executable_load *l = a;
    if (l->count != 4 + sizeof(executable) || memcmp(l->bytes, "fake", 4) != 0)
        return failure("bytes that are no executable", 3);
    executable *x = made(FAKE_EXECUTABLE, sizeof *x);
    memcpy(x, l->bytes + 4, sizeof *x);
    l->loaded_out = x;
    return NULL;
}

static void *executable_destroy(void *a)
{
    gone(FAKE_EXECUTABLE, ((pjrt_one *)a)->object);
    ENTER;
    return NULL;
}

static buffer *copy_of(const buffer *b)
{
    buffer *c = made(FAKE_BUFFER, sizeof *c + b->bytes);
    *c = *b;
    c->done = NULL;
    c->at = memcpy(c->own, b->at, b->bytes);
    return c;
}

static void *execute(void *a)
{
    ENTER;
    pjrt_execute *e = a;
    executable *x = e->loaded;
    for (size_t d = 0; d < e->device_count; d++) {
        for (size_t o = 0; o < x->outputs; o++)
            e->outputs[d][o] = copy_of(e->arguments[d][o % e->argument_count]);
        if (x->donates && !e->options->kept_count)
            ((buffer *)e->arguments[d][0])->deleted = true;
        event *ends = new_event();
        ends->of_call = ends->pending = late.rest > 0;
        e->events[d] = ends;
    }
    return NULL;
}

/* ---- buffers */

static const size_t sizes[] = { 0, 1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 4, 8, 2, 8, 16 };

static void *from_host(void *a)
{
    ENTER;
    pjrt_buffer_from_host *f = a;
    size_t bytes = sizes[f->type];
    for (size_t i = 0; i < f->rank; i++)
        bytes *= (size_t)f->dims[i];
    bool alias = f->semantics == PJRT_ZERO_COPY && (uintptr_t)f->data % 64 == 0;
    buffer *b = made(FAKE_BUFFER, sizeof *b + (alias ? 0 : bytes));
    b->type = f->type;
    b->rank = (int)f->rank;
    memcpy(b->dims, f->dims, f->rank * sizeof *f->dims);
    b->bytes = bytes;
    b->at = alias ? f->data : memcpy(b->own, f->data, bytes);
    f->buffer_out = b;
    event *done = f->done_out = new_event();
    if (alias) {
        done->pending = true;
        b->done = done;
    }
    copies[FAKE_FROM_HOST]++;
    copies[FAKE_ALIAS] += alias;
    return NULL;
}

static void *copy_to_device(void *a)
{
    ENTER;
    pjrt_copy_to_device *c = a;
    c->buffer_out = copy_of(c->buffer);
    copies[FAKE_TO_DEVICE]++;
    return NULL;
}

static void *buffer_destroy(void *a)
{
    buffer *b = ((pjrt_one *)a)->object;
    if (b->done)
        come(b->done);
    gone(FAKE_BUFFER, ((pjrt_one *)a)->object);
    ENTER;
    return NULL;
}

static void *is_deleted(void *a)
{
    ENTER;
    pjrt_int_of *i = a;
    i->out.truth = ((buffer *)i->object)->deleted;
    return NULL;
}

static void *to_host(void *a)
{
    ENTER;
    pjrt_buffer_to_host *t = a;
    const buffer *b = t->buffer;
    if (b->deleted || t->bytes < b->bytes)
        return failure("a buffer that is gone", 3);
    memcpy(t->to, b->at, b->bytes);
    copies[FAKE_TO_HOST]++;
    t->event_out = new_event();
    return NULL;
}

static void *ready_event(void *a)
{
    ENTER;
    ((pjrt_one_more *)a)->out = new_event();
    return NULL;
}

static void *unsafe_pointer(void *a)
{
    ENTER;
    pjrt_number_of *n = a;
    const buffer *b = n->object;
    if (b->deleted)
        return failure("a buffer that is gone", 3);
    n->out = (uintptr_t)b->at;
    copies[FAKE_IN_SIGHT]++;
    return NULL;
}

/* ---- the function table, and the functions that control the plugin */

static struct {
    pjrt_head head;
    struct {
        pjrt_head head;
        int major, minor;
    } version;
    pjrt_function functions[SLOTS];
} table = {
    { sizeof table, NULL },
    { { sizeof table.version, NULL }, 0, 115 },
    {
        [PJRT_ERROR_DESTROY] = error_destroy,
        [PJRT_ERROR_MESSAGE] = error_message,
        [PJRT_ERROR_CODE] = error_code,
        [PJRT_PLUGIN_INITIALIZE] = plugin_initialize,
        [PJRT_PLUGIN_ATTRIBUTES] = plugin_attributes,
        [PJRT_EVENT_DESTROY] = event_destroy,
        [PJRT_EVENT_AWAIT] = event_await,
        [PJRT_EVENT_ON_READY] = event_on_ready,
        [PJRT_CLIENT_CREATE] = client_create,
        [PJRT_CLIENT_DESTROY] = client_destroy,
        [PJRT_CLIENT_PLATFORM_NAME] = client_platform,
        [PJRT_CLIENT_ADDRESSABLE_DEVICES] = client_devices,
        [PJRT_CLIENT_COMPILE] = client_compile,
        [PJRT_CLIENT_BUFFER_FROM_HOST] = from_host,
        [PJRT_DESCRIPTION_ID] = description_id,
        [PJRT_DEVICE_DESCRIPTION] = device_description,
        [PJRT_EXECUTABLE_DESTROY] = executable_destroy,
        [PJRT_EXECUTABLE_NUM_OUTPUTS] = num_outputs,
        [PJRT_DEVICE_MEMORY_STATS] = device_memory,
        [PJRT_EXECUTABLE_SERIALIZE] = serialize,
        [PJRT_EXECUTABLE_LOAD] = load_serialized,
        [PJRT_LOADED_DESTROY] = executable_destroy,
        [PJRT_LOADED_GET_EXECUTABLE] = get_executable,
        [PJRT_LOADED_EXECUTE] = execute,
        [PJRT_BUFFER_DESTROY] = buffer_destroy,
        [PJRT_BUFFER_IS_DELETED] = is_deleted,
        [PJRT_BUFFER_COPY_TO_DEVICE] = copy_to_device,
        [PJRT_BUFFER_TO_HOST] = to_host,
        [PJRT_BUFFER_READY_EVENT] = ready_event,
        [PJRT_BUFFER_UNSAFE_POINTER] = unsafe_pointer,
    },
};

const void *GetPjrtApi(void);
const void *GetPjrtApi(void) { return &table; }

void fake_plugin_fail(int call, int event_number)
{
    compiles = awaits = calls = events = 0;
    failing_call = call;
    failing_event = event_number;
}

int fake_plugin_calls(void) { return calls; }
const char *fake_plugin_options(void) { return options; }
int fake_plugin_events(void) { return events; }
int fake_plugin_awaits(void) { return awaits; }
int fake_plugin_compiles(void) { return compiles; }
int fake_plugin_living(int kind) { return living[kind]; }
int fake_plugin_most(int kind) { return atomic_exchange(&peak[kind], living[kind]); }

void fake_plugin_be_late(int nanoseconds)
{
    static pthread_t thread;
    pthread_mutex_lock(&late.lock);
    bool begins = nanoseconds && !late.rest, ends = !nanoseconds && late.rest;
    late.rest = nanoseconds;
    pthread_cond_signal(&late.news);
    pthread_mutex_unlock(&late.lock);
    if (begins && pthread_create(&thread, NULL, bring_late, NULL))
        abort();
    if (ends)
        pthread_join(thread, NULL);
}

int fake_plugin_copies(int way) { return atomic_exchange(&copies[way], 0); }

static void *make_error(int code, const char *words, size_t count)
{
    fault *f = made(FAKE_ERROR, sizeof *f);
    f->code = code;
    snprintf(f->words, sizeof f->words, "%.*s", (int)count, words);
    return f;
}
static pjrt_make_error *const the_make_error = make_error;

/* Returns the error's code (0: none) and copies its message to `value`; destroys the error. */
static int code_of(fault *f, void *value, size_t *count)
{
    int code = f ? f->code : 0;
    if (f && value)
        snprintf(value, *count, "%s", f->words);
    if (f)
        gone(FAKE_ERROR, f);
    return code;
}

bool fake_plugin_has_store(void) { return store.get && store.put && store.try_get; }

int fake_plugin_put(const void *key, size_t key_size, const void *value, size_t count)
{
    pjrt_key_put ask = { { sizeof ask, NULL }, key, key_size, value, count, &the_make_error, store.put_context };
    return code_of(store.put(&ask), NULL, NULL);
}

static int take(void *failed, const char *found, size_t found_size, void (*free_value)(char *), void *value, size_t *count)
{
    if (failed)
        return code_of(failed, value, count);
    memcpy(value, found, found_size < *count ? found_size : *count);
    *count = found_size;
    free_value((char *)(uintptr_t)found);
    return 0;
}

int fake_plugin_get(const void *key, size_t key_size, int milliseconds, void *value, size_t *count)
{
    pjrt_key_get ask = { { sizeof ask, NULL }, key, key_size, milliseconds, &the_make_error, store.get_context, NULL, 0, NULL };
    pjrt_key_try_get try = { { sizeof try, NULL }, key, key_size, &the_make_error, store.try_get_context, NULL, 0, NULL };
    if (milliseconds < 0) {
        void *failed = store.try_get(&try);
        return take(failed, try.value_out, try.count_out, try.free_value_out, value, count);
    }
    void *failed = store.get(&ask);
    return take(failed, ask.value_out, ask.count_out, ask.free_value_out, value, count);
}

void fake_plugin_version(int major, int minor, size_t table_size, int lacking)
{
    static pjrt_function gone_from;
    static int gone_at = -1;
    if (gone_at >= 0)
        table.functions[gone_at] = gone_from;
    gone_at = lacking;
    if (lacking >= 0) {
        gone_from = table.functions[lacking];
        table.functions[lacking] = NULL;
    }
    table.version.major = major;
    table.version.minor = minor;
    table.head.size = table_size ? table_size : sizeof table;
}

bool fake_plugin_has(int function) { return function < SLOTS && table.functions[function]; }

void fake_plugin_stablehlo(const int64_t *current, const int64_t *minimum)
{
    memcpy(stablehlo[0], current, sizeof stablehlo[0]);
    memcpy(stablehlo[1], minimum, sizeof stablehlo[1]);
}

void fake_plugin_platform(const char *name) { platform = name; }
