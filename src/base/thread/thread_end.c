/* The end of a thread is noticed through one thread-specific key of the C library. A process has about a thousand of these for all its
 * libraries; when they are used up, the list of destructors of C++'s thread_local serves, where it exists.
 * Invariant: the library never sets any key but this one. */
#include "base/thread/thread_end.h"

#include "base/entry.h"

#include <pthread.h>
#include <unistd.h>

#define MOST_FUNCTIONS 4

static void (*_Atomic functions[MOST_FUNCTIONS])(void);
static _Atomic int function_count;
static pthread_key_t key;
static bool have_key;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Thread_local bool watched;

extern int __cxa_thread_atexit_impl(void (*destroy)(void *), void *object, void *library) __attribute__((weak));
extern void *__dso_handle __attribute__((visibility("hidden")));

void mf_thread_end_add(void (*leave)(void))
{
    int i = atomic_fetch_add(&function_count, 1);
    if (i < MOST_FUNCTIONS)
        atomic_store(&functions[i], leave);
}

static void leave_thread(void *unused)
{
    (void)unused;
    if (mf_process_forked())
        return;
    watched = false; /* so that the thread is watched again if the functions below use the library */
    for (int i = 0; i < MOST_FUNCTIONS; i++) {
        void (*leave)(void) = atomic_load(&functions[i]);
        if (leave)
            leave();
    }
}

/* exit runs the first thread's list of destructors while other threads may still be working, so the first thread does nothing here. */
static void leave_thread_but_first(void *unused)
{
    if (getpid() != gettid())
        leave_thread(unused);
}

static void make_key(void) { have_key = pthread_key_create(&key, leave_thread) == 0; }

void mf_thread_watch(void)
{
    static _Atomic bool said;
    if (watched)
        return;
    watched = true;
    pthread_once(&once, make_key);
    if (have_key ? pthread_setspecific(key, &watched) == 0
                 : __cxa_thread_atexit_impl && __cxa_thread_atexit_impl(leave_thread_but_first, NULL, &__dso_handle) == 0)
        return;
    mf_warn_once(&said, "the end of threads cannot be noticed (the process has no thread-specific key left): what they hold stays "
                        "until the process ends");
}
