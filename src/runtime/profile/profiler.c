/* Records slices. Each thread appends to its own chunks and takes no lock; stopping gathers all threads' chunks.
 * Invariants: only its thread changes a buffer; a chunk's slices below its count never change; only its thread frees a buffer's chunks,
 * when it sees that a later session than theirs has begun, so a session's slices exist while it is being written. */
#include "runtime/profile/profiler.h"

#include "base/memory/alloc.h"
#include "base/thread/cancel.h"
#include "base/entry.h"
#include "base/memory/intern.h"
#include "base/text/string.h"
#include "base/thread/thread_end.h"
#include "runtime/comm.h"

#include <manyfold/profiler.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CHUNK_SLICES 1022
#define MOST_CHUNKS  4096 /* per thread: 200 MB */

typedef struct chunk {
    struct chunk *older;
    _Atomic int count;
    mf_profile_slice at[CHUNK_SLICES];
} chunk;

typedef struct buffer {
    struct buffer *next;
    _Atomic bool taken; /* in use by a living thread */
    int number, chunks;
    _Atomic uint64_t session; /* the session of its slices */
    _Atomic(chunk *) newest;
    _Atomic int64_t dropped;
} buffer;

_Atomic bool mf_profile_on;
static _Atomic uint64_t session;
static _Atomic(buffer *) buffers; /* only grows: buffers of threads that have ended are reused */
static _Atomic int buffer_count;
static _Thread_local buffer *mine;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows: the start and the end of a session */
static FILE *file;                                       /* NULL: no session */
static pid_t recorded;                                   /* the process that started the session */
static int64_t begin;

static int64_t read_clock(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t mf_profile_now(void) { return read_clock(CLOCK_MONOTONIC); }
int64_t mf_profile_now_coarse(void) { return read_clock(CLOCK_MONOTONIC_COARSE); }

/* ------------------------------------------------------------------ labels */

static const mf_profile_label *intern_label(const mf_profile_label *label)
{
    static _Atomic(mf_interner *) labels;
    return label->name ? mf_interner_get(mf_interner_static(&labels), label, sizeof *label) : NULL;
}

static bool named_before(const mf_profile_source *s, int index)
{
    for (int i = 0; i < index; i++)
        if (s->eqns[i]->op == s->eqns[index]->op)
            return true;
    return false;
}

/* Names every operation and lists every location once, in the order of the equations. */
static const mf_profile_label *label_of(mf_profile_source *s)
{
    const mf_profile_label *known = atomic_load_explicit(&s->label, memory_order_acquire);
    if (known)
        return known;
    mf_profile_label label;
    memset(&label, 0, sizeof label);
    mf_text names = { 0 };
    for (int i = 0; i < s->count; i++) {
        if (!named_before(s, i))
            mf_text_add(&names, "%s%s", i ? ", " : "", s->eqns[i]->op->name);
        int k = 0;
        while (k < MF_PROFILE_LOCATIONS && label.locations[k] && label.locations[k] != s->eqns[i]->address)
            k++;
        if (k < MF_PROFILE_LOCATIONS)
            label.locations[k] = s->eqns[i]->address;
    }
    label.name = names.at && !names.failed ? mf_intern(names.at) : NULL;
    mf_text_free(&names);
    known = intern_label(&label);
    atomic_store_explicit(&s->label, known, memory_order_release);
    return known;
}

/* ------------------------------------------------------------------ buffers */

static void leave_thread(void)
{
    if (mine)
        atomic_store_explicit(&mine->taken, false, memory_order_release);
    mine = NULL;
}

static void watch_threads(void) { mf_thread_end_add(leave_thread); }

static buffer *take_over(void)
{
    for (buffer *b = atomic_load_explicit(&buffers, memory_order_acquire); b; b = b->next) {
        bool taken = false;
        if (atomic_compare_exchange_strong(&b->taken, &taken, true))
            return b;
    }
    return NULL;
}

static buffer *find_own_buffer(void)
{
    if (mine)
        return mine;
    pthread_once(&once, watch_threads);
    buffer *b = take_over();
    if (!b && (b = mf_calloc(1, sizeof *b))) {
        b->number = atomic_fetch_add(&buffer_count, 1);
        atomic_init(&b->taken, true);
        b->next = atomic_load(&buffers);
        while (!atomic_compare_exchange_weak(&buffers, &b->next, b)) {
        }
    }
    if (b)
        mf_thread_watch();
    return mine = b;
}

/* Frees what is left of an earlier session. */
static void enter_session(buffer *b, uint64_t now)
{
    chunk *c = atomic_load_explicit(&b->newest, memory_order_relaxed);
    atomic_store_explicit(&b->newest, NULL, memory_order_relaxed);
    for (chunk *older; c; c = older) {
        older = c->older;
        mf_free(c);
    }
    b->chunks = 0;
    atomic_store_explicit(&b->dropped, 0, memory_order_relaxed);
    atomic_store_explicit(&b->session, now, memory_order_release);
}

static chunk *find_buffer_with_space(buffer *b)
{
    chunk *c = atomic_load_explicit(&b->newest, memory_order_relaxed);
    if (c && atomic_load_explicit(&c->count, memory_order_relaxed) < CHUNK_SLICES)
        return c;
    chunk *fresh = b->chunks < MOST_CHUNKS ? mf_alloc(sizeof *fresh) : NULL;
    if (!fresh) {
        atomic_fetch_add_explicit(&b->dropped, 1, memory_order_relaxed);
        return NULL;
    }
    fresh->older = c;
    atomic_init(&fresh->count, 0);
    b->chunks++;
    atomic_store_explicit(&b->newest, fresh, memory_order_release);
    return fresh;
}

static void record(int64_t start, mf_track_kind track, int index, const mf_profile_label *label, int64_t bytes)
{
    int64_t end = mf_profile_now();
    uint64_t now = atomic_load_explicit(&session, memory_order_acquire);
    buffer *b = label ? find_own_buffer() : NULL;
    if (!b)
        return;
    if (atomic_load_explicit(&b->session, memory_order_relaxed) != now)
        enter_session(b, now);
    chunk *c = find_buffer_with_space(b);
    if (!c)
        return;
    int at = atomic_load_explicit(&c->count, memory_order_relaxed);
    if (track == MF_TRACK_HOST || track == MF_TRACK_COMPILER)
        index = b->number;
    c->at[at] = (mf_profile_slice){ start, end, label, bytes, track, index };
    atomic_store_explicit(&c->count, at + 1, memory_order_release);
}

void mf_profile_equations(int64_t start, mf_track_kind track, int index, mf_profile_source *source, int64_t bytes)
{
    record(start, track, index, label_of(source), bytes);
}

void mf_profile_equations_of(int64_t start, mf_track_kind track, int index, mf_profile_source *source, int64_t bytes, const void *location)
{
    const mf_profile_label *known = label_of(source);
    mf_profile_label label;
    memset(&label, 0, sizeof label);
    label.name = known ? known->name : NULL;
    label.locations[0] = location;
    record(start, track, index, intern_label(&label), bytes);
}

void mf_profile_words(int64_t start, mf_track_kind track, const char *verb, const char *object)
{
    mf_profile_label label;
    char name[256];
    memset(&label, 0, sizeof label);
    snprintf(name, sizeof name, "%s%s%s", verb, *verb && object ? " " : "", object ? object : "");
    label.name = mf_intern(name);
    label.locations[0] = mf_entry_location();
    record(start, track, 0, intern_label(&label), 0);
}

void mf_profile_device(int64_t start, int index, const char *name, const void *location)
{
    mf_profile_label label;
    memset(&label, 0, sizeof label);
    label.name = name;
    label.locations[0] = location;
    record(start, MF_TRACK_DEVICE, index, intern_label(&label), 0);
}

/* ------------------------------------------------------------------ the end of a session */

/* Copies the session's slices to `to`, or only counts them. */
static int64_t gather(mf_profile_slice *to, int64_t capacity, int64_t *dropped)
{
    int64_t count = 0;
    *dropped = 0;
    for (buffer *b = atomic_load_explicit(&buffers, memory_order_acquire); b; b = b->next) {
        if (atomic_load_explicit(&b->session, memory_order_acquire) != atomic_load(&session))
            continue;
        *dropped += atomic_load_explicit(&b->dropped, memory_order_relaxed);
        for (chunk *c = atomic_load_explicit(&b->newest, memory_order_acquire); c; c = c->older) {
            int n = atomic_load_explicit(&c->count, memory_order_acquire);
            for (int i = 0; i < n && to && count + i < capacity; i++)
                to[count + i] = c->at[i];
            count += n;
        }
    }
    return to && count > capacity ? capacity : count;
}

/* The lock is held and recording is off. A slice that is still being recorded is late, and left out. */
static mf_error_object *write_session(void)
{
    int64_t dropped, capacity = gather(NULL, 0, &dropped);
    mf_profile_slice *slices = mf_alloc((size_t)capacity * sizeof *slices);
    FILE *to = file;
    file = NULL;
    if (!slices) {
        fclose(to);
        return mf_error_out_of_memory();
    }
    bool written = mf_profile_write(to, slices, gather(slices, capacity, &dropped), begin, dropped);
    mf_free(slices);
    return written ? NULL : mf_error_new(MF_ERROR_IO, "mf_profiler_stop_trace: the trace could not be written: %s", strerror(errno));
}

static mf_error_object *start_session(const char *path)
{
    mf_error_object *error = NULL;
    pthread_mutex_lock(&lock);
    if (file)
        error = mf_error_new(MF_ERROR_ARGUMENT, "mf_profiler_start_trace: a trace is under way already; stop it first%s",
                             getenv("MF_PROFILE") ? " (MF_PROFILE started one)" : "");
    else if (!path || !(file = fopen(path, "we")))
        error = mf_error_new(path ? MF_ERROR_IO : MF_ERROR_ARGUMENT, "mf_profiler_start_trace: %s: %s", path ? path : "(NULL)",
                             path ? strerror(errno) : "no path");
    if (!error) {
        recorded = getpid();
        begin = mf_profile_now();
        atomic_fetch_add(&session, 1);
        atomic_store(&mf_profile_on, true);
    }
    pthread_mutex_unlock(&lock);
    return error;
}

mf_status mf_profiler_start_trace(const char *path)
{
    MF_ENTER(MF_FORK_STATUS);
    MF_UNCANCELLED;
    return mf_error_remember(start_session(path));
}

mf_status mf_profiler_stop_trace(void)
{
    MF_ENTER(MF_FORK_STATUS);
    MF_UNCANCELLED;
    void (*drain)(void) = atomic_load(&mf_drain_hook);
    if (drain && atomic_load(&mf_profile_on))
        drain();
    pthread_mutex_lock(&lock);
    atomic_store(&mf_profile_on, false);
    mf_error_object *error = file ? write_session() : mf_error_new(MF_ERROR_ARGUMENT, "mf_profiler_stop_trace: no trace is under way");
    pthread_mutex_unlock(&lock);
    return mf_error_remember(error);
}

/* ------------------------------------------------------------------ the user's own slices */

int64_t mf_profiler_begin(void)
{
    MF_PARENT_ONLY(0);
    return mf_profile_begin();
}

void mf_profiler_end(int64_t began, const char *name)
{
    if (!began)
        return;
    MF_ENTER();
    MF_UNCANCELLED;
    mf_profile_words(began, MF_TRACK_HOST, name ? name : "", NULL);
}

/* ------------------------------------------------------------------ MF_PROFILE */

/* Process 1 of a job writes trace.1.json in place of trace.json: all processes start with the same environment. */
static void name_of_process(char *to, size_t capacity, const char *path)
{
    const char *name = strrchr(path, '/'), *end = strrchr(name ? name : path, '.');
    int rank = mf_launched_rank(), stem = end ? (int)(end - path) : (int)strlen(path);
    if (rank < 0)
        (void)snprintf(to, capacity, "%s", path);
    else
        (void)snprintf(to, capacity, "%.*s.%d%s", stem, path, rank, path + stem);
}

__attribute__((constructor)) static void start_from_environment(void)
{
    char path[4096]; /* PATH_MAX */
    const char *asked = getenv("MF_PROFILE");
    if (!asked || !*asked)
        return;
    name_of_process(path, sizeof path, asked);
    mf_error_object *error = start_session(path);
    if (error)
        mf_warn("MF_PROFILE: %s", error->message);
    mf_error_ignore(error);
}

/* Runs after the workers have ended (destructors run in descending order of their numbers). Writes a trace that was not stopped. */
__attribute__((destructor(101))) static void write_at_exit(void)
{
    atomic_store(&mf_profile_on, false);
    mf_error_object *error = file && recorded == getpid() ? write_session() : NULL;
    if (error)
        mf_warn("%s", error->message);
    mf_error_ignore(error);
}
