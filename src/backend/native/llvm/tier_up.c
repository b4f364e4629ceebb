/* The second compile tier: loop nests compiled by LLVM on a thread of its own, which replace the tile kernels while calls run.
 *
 * A step begins with tile kernels, which need no compilation. Once its runs have taken about as long as a compilation would (2 ms), it
 * requests its loop. The thread begins a moment later, so that a program that does its work once and ends never loads libLLVM. Measured:
 * tile kernels are ready in 0.02 ms, loops in 3 to 18 ms, libLLVM in 15 to 25 ms; loops run 1.1 times (elementary functions) to 5 times
 * (chains of cheap operations) as fast.
 * Invariants: both tiers give the same bits; a step's loop changes once, from NULL; any failure leaves the first tier in place. The
 * thread reads a step's request only while `reading` is true, and the end of the step waits for that; only the end of the process waits
 * for compilations. */
#include "backend/native/llvm/llvm.h"
#include "base/thread/cancel.h"
#include "base/thread/stack.h"
#include "runtime/profile/profiler.h"

#include <manyfold/debug.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { LEAST_RUNS = 3, WAIT_MS = 30, NICE = 5 };

_Atomic mf_tiers mf_native_tiers;
static const mf_tiers default_tiers = MF_TIERS_BACKGROUND;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t work, news; /* the thread sleeps on the first one; threads that wait for it, on the second one */
    bool made, started, stopping, reading, urgent;
    pthread_t thread;
    mf_tier_up *first, *last, *current; /* waiting; being compiled, or NULL if its step has ended meanwhile */
    int64_t waiting;                    /* including the one being compiled */
    mf_compiler_counters done;
} up = { .lock = PTHREAD_MUTEX_INITIALIZER, .news = PTHREAD_COND_INITIALIZER };

/* ------------------------------------------------------------------ modes */

static mf_tiers from_environment(void)
{
    static _Atomic bool warned;
    static const struct {
        const char *name;
        mf_tiers tiers;
    } known[] = { { "background", MF_TIERS_BACKGROUND }, { "1", MF_TIERS_FIRST }, { "2", MF_TIERS_SECOND }, { "loops", MF_TIERS_LOOPS } };
    const char *text = getenv("MF_COMPILE_TIER");
    if (!text || !*text)
        return default_tiers;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(text, known[i].name))
            return known[i].tiers;
    mf_warn_once(&warned, "MF_COMPILE_TIER=%s is ignored: it can be background, 1, 2 or loops", text);
    return default_tiers;
}

static mf_tiers asked(void)
{
    static _Atomic mf_tiers environment;
    mf_tiers tiers = atomic_load(&mf_native_tiers);
    if (tiers == MF_TIERS_AS_ASKED && (tiers = atomic_load(&environment)) == MF_TIERS_AS_ASKED)
        atomic_store(&environment, tiers = from_environment());
    return tiers;
}

/* ------------------------------------------------------------------ making a loop */

static double seconds_since(int64_t start) { return 1e-9 * (double)(mf_profile_now() - start); }

/* The lock is held. */
static void count(const mf_cached_loop *loop, double seconds)
{
    up.done.seconds += seconds;
    loop && loop->run ? up.done.loops++ : up.done.failures++;
}

static void take(mf_tier_up *t, mf_cached_loop *loop)
{
    t->cached = loop;
    atomic_store_explicit(&t->loop, loop ? loop->run : NULL, memory_order_release);
}

static void make_now(void *of)
{
    mf_tier_up *t = of;
    int64_t start = mf_profile_now();
    mf_loop_text text = { 0 };
    mf_cached_loop *loop = t->write(t->what, &text) ? mf_loop_make(&text) : NULL;
    mf_loop_text_free(&text);
    take(t, loop);
    pthread_mutex_lock(&up.lock);
    count(loop, seconds_since(start));
    pthread_mutex_unlock(&up.lock);
}

bool mf_tier_up_wanted(mf_tier_up_hints hints)
{
    mf_tiers tiers = asked();
    return tiers == MF_TIERS_LOOPS || (tiers == MF_TIERS_SECOND && hints.soon) || (tiers == MF_TIERS_BACKGROUND && hints.pays);
}

static void end(void *object);

bool mf_tier_up_begin(mf_build *b, mf_tier_up *t, mf_loop_writer *write, const void *what, mf_tier_up_hints hints)
{
    mf_tiers tiers = asked();
    int64_t most = MF_TIER_UP_AFTER / LEAST_RUNS;
    t->write = write;
    t->what = what;
    if (tiers == MF_TIERS_LOOPS || (tiers == MF_TIERS_SECOND && hints.soon)) {
        (void)mf_call_with_stack(make_now, t); /* LLVM needs much stack; without it the first tier does the work */
    } else if (tiers == MF_TIERS_BACKGROUND && hints.pays) {
        t->each = hints.cost < 1 ? 1 : hints.cost < (double)most ? (int64_t)hints.cost : most;
        take(t, hints.large ? NULL : mf_loop_known(write, what));
    }
    return mf_build_hold(b, end, t) && (t->each || mf_tier_up_loop(t));
}

/* ------------------------------------------------------------------ the thread */

/* When the process ends, libLLVM's destructors must not find the thread at work. llvm.c ensures that once libLLVM is loaded; but while it
 * is being loaded its first destructors are registered already. A thread's own destructors run before all handlers when it calls exit, so
 * the main thread gets one, and so do other threads when they first call the library. Those threads may just be ending: they wait until no
 * thread is inside LLVM, and keep threads from entering for as long as exit takes to reach `stop`.
 * The exit of a thread that never called the library may have destroyed a part of what is being loaded when it gets here. A loader that
 * has not finished after a while never will, and it holds the dynamic linker's lock, without which exit cannot end; then the process
 * ends at once, with its status. */
enum { LOADING_MS = 1000 };

static bool close_compiler(bool before_handlers, int status)
{
    if (before_handlers || mf_llvm_idle(LOADING_MS))
        return mf_llvm_close();
    fflush(NULL);
    _exit(status);
}

static void stop(bool before_handlers, int status)
{
    if (mf_process_forked())
        return;
    pthread_mutex_lock(&up.lock);
    bool join = up.started;
    up.started = false;
    up.stopping = true;
    pthread_cond_broadcast(&up.news);
    if (up.made)
        pthread_cond_signal(&up.work);
    pthread_mutex_unlock(&up.lock);
    if (close_compiler(before_handlers, status) && join)
        pthread_join(up.thread, NULL);
}

static void stop_first(void *unused) { (void)unused, stop(true, 0); }

#ifdef __GLIBC__
static void stop_with(int status, void *unused) { (void)unused, stop(false, status); }
static bool stop_at_exit(void) { return on_exit(stop_with, NULL) == 0; }
#else
static void stop_last(void) { stop(true, 0); }
static bool stop_at_exit(void) { return atexit(stop_last) == 0; }
#endif

extern int __cxa_thread_atexit_impl(void (*destroy)(void *), void *object, void *library) __attribute__((weak));
extern void *__dso_handle __attribute__((visibility("hidden")));

static bool on_main_thread(void) { return syscall(SYS_gettid) == getpid(); }

static void hold(void)
{
    if (!on_main_thread())
        mf_llvm_hold(LOADING_MS);
}

__attribute__((constructor)) static void stop_before_handlers(void)
{
    if (__cxa_thread_atexit_impl && on_main_thread())
        __cxa_thread_atexit_impl(stop_first, NULL, &__dso_handle);
}

/* If another thread calls exit while libLLVM is being loaded, it comes to llvm.c's handler as soon as that is registered; a moment later
 * it is known whether it did. */
static void open_llvm(void)
{
    static bool tried; /* used by this thread only */
    if (!tried && mf_llvm_open())
        nanosleep(&(struct timespec){ 0, 2000000 }, NULL);
    tried = true;
}

/* Compiles the first loop in the queue. The lock is held before and after. */
static void make_one(void)
{
    mf_loop_text text = { 0 };
    mf_tier_up *t = up.current = up.first;
    if (!(up.first = t->next))
        up.last = NULL;
    up.reading = true;
    pthread_mutex_unlock(&up.lock);

    int64_t slice = mf_profile_begin();
    int64_t start = mf_profile_now();
    bool written = t->write(t->what, &text);
    pthread_mutex_lock(&up.lock);
    up.reading = false;
    pthread_cond_broadcast(&up.news);
    bool wanted = up.current && written && !up.stopping;
    pthread_mutex_unlock(&up.lock);

    if (wanted)
        open_llvm();
    mf_cached_loop *loop = wanted ? mf_loop_make(&text) : NULL;
    if (slice)
        mf_profile_words(slice, MF_TRACK_COMPILER, "optimise", "a loop");
    mf_loop_text_free(&text);
    pthread_mutex_lock(&up.lock);
    if (wanted || !written)
        count(loop, seconds_since(start));
    if (up.current)
        take(t, loop);
    else
        mf_loop_release(loop);
    up.current = NULL;
    up.waiting--;
    pthread_cond_broadcast(&up.news);
}

/* Waits a moment after the first request: the program may be about to end, or to request more. The lock is held. */
static void wait_for_more(void)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += WAIT_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    while (!up.stopping && !up.urgent && pthread_cond_timedwait(&up.work, &up.lock, &until) == 0) {
    }
}

static void *work(void *unused)
{
    id_t self = (id_t)syscall(SYS_gettid);
    int nice = getpriority(PRIO_PROCESS, self) + NICE;
    (void)unused;
    setpriority(PRIO_PROCESS, self, nice < 19 ? nice : 19);
    pthread_mutex_lock(&up.lock);
    while (!up.stopping) {
        if (!up.first) {
            pthread_cond_wait(&up.work, &up.lock);
            continue;
        }
        wait_for_more();
        while (up.first && !up.stopping)
            make_one();
    }
    pthread_mutex_unlock(&up.lock);
    return NULL;
}

/* Starts the thread; the lock is held. Signals are left to the host's threads. */
static void start(void)
{
    pthread_condattr_t clock;
    if (!up.made) {
        pthread_condattr_init(&clock);
        pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
        up.made = pthread_cond_init(&up.work, &clock) == 0 && stop_at_exit();
        pthread_condattr_destroy(&clock);
    }
    up.started = up.made && mf_thread_make(&up.thread, work, NULL);
}

/* ------------------------------------------------------------------ the queue */

void mf_tier_up_ask(mf_tier_up *t)
{
    atomic_store(&mf_on_thread_leaves, hold);
    pthread_mutex_lock(&up.lock);
    if (!up.started && !up.stopping)
        start();
    if (up.started) {
        t->next = NULL;
        *(up.last ? &up.last->next : &up.first) = t;
        up.last = t;
        up.waiting++;
        pthread_cond_signal(&up.work);
    }
    pthread_mutex_unlock(&up.lock);
}

static bool unlink_waiting(const mf_tier_up *t)
{
    mf_tier_up **at = &up.first, *before = NULL;
    while (*at && *at != t) {
        before = *at;
        at = &(*at)->next;
    }
    if (!*at)
        return false;
    *at = t->next;
    if (up.last == t)
        up.last = before;
    up.waiting--;
    return true;
}

static void wait_for_news(void)
{
    MF_UNCANCELLED;
    pthread_cond_wait(&up.news, &up.lock);
}

/* Makes sure that the thread does not read the request any more, nor take it. */
static void cancel_request(mf_tier_up *t)
{
    pthread_mutex_lock(&up.lock);
    if (!unlink_waiting(t) && up.current == t) {
        while (up.reading && up.current == t)
            wait_for_news();
        if (up.current == t)
            up.current = NULL;
    }
    pthread_mutex_unlock(&up.lock);
}

/* Released with the step's kernel, when nothing runs the step any more. In the child of a fork the thread does not exist. */
static void end(void *object)
{
    mf_tier_up *t = object;
    if (mf_process_forked())
        return;
    if (atomic_load_explicit(&t->spent, memory_order_relaxed) >= MF_TIER_UP_AFTER)
        cancel_request(t);
    mf_loop_release(t->cached);
}

void mf_tier_up_drain(void)
{
    pthread_mutex_lock(&up.lock);
    up.urgent = true;
    if (up.made)
        pthread_cond_signal(&up.work);
    while (up.waiting && up.started)
        wait_for_news();
    up.urgent = false;
    pthread_mutex_unlock(&up.lock);
}

void mf_tier_up_counters(mf_compiler_counters *out)
{
    pthread_mutex_lock(&up.lock);
    *out = up.done;
    out->waiting = up.waiting;
    pthread_mutex_unlock(&up.lock);
}
