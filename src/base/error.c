/* Error values: making, observing, reporting. Invariant: every error but the two static ones is in the list of the living from its making
 * to its end, oldest first, so the first that nobody has looked at can be found; the list's lock also guards what is remembered. */
#include "base/error.h"

#include "base/alloc.h"
#include "base/handle.h"
#include "base/intern.h"
#include "base/place.h"
#include "base/string.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void (*_Atomic mf_drain_hook)(void);
_Atomic bool mf_process_forked;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static mf_error_object *oldest, *newest, *remembered;
static mf_error_hook hook;
static void *hook_context;
static _Atomic bool any_reported;

static void error_destroy(mf_object *o);
const mf_class mf_error_class = { "error", error_destroy };

mf_error_object mf_error_memory_object = { .object = { MF_IMMORTAL, &mf_error_class },
                                           .status = MF_ERROR_MEMORY,
                                           .message = "out of memory" };
mf_error_object mf_error_fork_object = { .object = { MF_IMMORTAL, &mf_error_class },
                                         .status = MF_ERROR_ARGUMENT,
                                         .observed = true,
                                         .message = "this process is the child of a fork: Manyfold's workers live in the parent, so every "
                                                    "call in the child is an error; fork before first use, or use exec" };

/* ---- forks */

static void in_child(void) { atomic_store(&mf_process_forked, true); }
static void watch(void) { pthread_atfork(NULL, NULL, in_child); }
void mf_error_watch_forks(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch);
}

/* ---- making */

static void join_the_living(mf_error_object *e)
{
    pthread_mutex_lock(&lock);
    e->before = newest;
    *(newest ? &newest->after : &oldest) = e;
    newest = e;
    pthread_mutex_unlock(&lock);
}

static void leave_the_living(mf_error_object *e)
{
    pthread_mutex_lock(&lock);
    *(e->before ? &e->before->after : &oldest) = e->after;
    *(e->after ? &e->after->before : &newest) = e->before;
    pthread_mutex_unlock(&lock);
}

static mf_error_object *make(const void *address, mf_status status, const char *message, size_t length)
{
    mf_error_object *e = mf_object_new(&mf_error_class, sizeof *e + length + 1);
    if (!e)
        return mf_error_out_of_memory();
    char *text = (char *)(e + 1);
    memcpy(text, message, length);
    e->message = text;
    e->status = status;
    e->address = address;
    join_the_living(e);
    return e;
}

static mf_error_object *vmake(const void *address, mf_status status, const char *format, va_list list)
{
    mf_text t = { 0 };
    mf_text_vadd(&t, format, list);
    mf_error_object *e = t.failed || !t.at ? mf_error_out_of_memory() : make(address, status, t.at, t.count);
    mf_text_free(&t);
    return e;
}

mf_error_object *mf_error_new(mf_status status, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    mf_error_object *e = vmake(mf_entry_place(), status, format, list);
    va_end(list);
    return e;
}

mf_error_object *mf_error_new_at(const void *address, mf_status status, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    mf_error_object *e = vmake(address, status, format, list);
    va_end(list);
    return e;
}

mf_error_object *mf_error_out_of_memory(void) { return &mf_error_memory_object; }

static bool is_static(const mf_error_object *e) { return e == &mf_error_memory_object || e == &mf_error_fork_object; }

mf_error_object *mf_error_wrap(mf_error_object *e, const char *format, ...)
{
    if (is_static(e))
        return e;
    mf_text t = { 0 };
    va_list list;
    va_start(list, format);
    mf_text_vadd(&t, format, list);
    va_end(list);
    mf_text_add(&t, ": %s", e->message);
    mf_error_object *outer = t.failed ? mf_error_out_of_memory() : make(e->address, e->status, t.at, t.count);
    mf_text_free(&t);
    if (!is_static(outer))
        outer->related = e->related;
    mf_error_ignore(e);
    return outer;
}

void mf_error_set_address(mf_error_object *e, const void *address)
{
    if (!is_static(e) && !e->address)
        e->address = address;
}

/* ---- words */

const char *mf_error_place_text(mf_error_object *e)
{
    if (!e->address)
        return NULL;
    return mf_place_of(e->address);
}

static char *locate(const mf_error_object *e)
{
    mf_text t = { 0 };
    mf_text_put(&t, e->message);
    const char *place = e->address ? mf_place_of(e->address) : NULL, *related = e->related ? mf_place_of(e->related) : NULL;
    if (place)
        mf_text_add(&t, " (%s)", place);
    if (related)
        mf_text_add(&t, "; its scope was closed at %s", related);
    if (!t.failed)
        return t.at;
    mf_text_free(&t);
    return NULL;
}

const char *mf_error_text(mf_error_object *e)
{
    mf_error_see(e);
    char *text = atomic_load(&e->located);
    if (text || is_static(e))
        return text ? text : e->message;
    char *fresh = locate(e);
    if (!fresh)
        return e->message;
    if (atomic_compare_exchange_strong(&e->located, &text, fresh))
        return fresh;
    mf_free(fresh);
    return text;
}

void mf_error_see(mf_error_object *e)
{
    if (!atomic_load_explicit(&e->observed, memory_order_relaxed))
        atomic_store(&e->observed, true);
}

void mf_error_ignore(mf_error_object *e)
{
    if (!e)
        return;
    if (!is_static(e))
        mf_error_see(e);
    mf_drop(e);
}

/* ---- reporting */

static void report(mf_error_object *e)
{
    pthread_mutex_lock(&lock);
    mf_error_hook chosen = hook;
    void *context = hook_context;
    pthread_mutex_unlock(&lock);
    atomic_store(&any_reported, true);
    const char *text = mf_error_text(e);
    if (chosen)
        chosen(e->status, text, context);
    else
        fprintf(stderr, "manyfold: error: %s\n", text);
}

static void error_destroy(mf_object *o)
{
    mf_error_object *e = (mf_error_object *)o;
    leave_the_living(e);
    if (!atomic_load(&e->observed) && !atomic_load(&mf_process_forked))
        report(e);
    mf_free(atomic_load(&e->located));
}

void mf_set_error_hook(mf_error_hook chosen, void *context)
{
    pthread_mutex_lock(&lock);
    hook = chosen;
    hook_context = context;
    pthread_mutex_unlock(&lock);
}

mf_status mf_error_remember(mf_error_object *e)
{
    if (!e)
        return MF_OK;
    mf_status status = e->status;
    pthread_mutex_lock(&lock);
    mf_error_object *rest = e;
    if (!remembered || atomic_load(&remembered->observed)) {
        rest = remembered;
        remembered = e;
    }
    pthread_mutex_unlock(&lock);
    if (rest != e)
        mf_drop(rest);
    else
        mf_error_ignore(rest);
    return status;
}

/* The oldest living error that nobody has looked at, with a reference, or NULL. */
static mf_error_object *first_unseen(void)
{
    pthread_mutex_lock(&lock);
    mf_error_object *e = oldest;
    while (e && (atomic_load(&e->observed) || !mf_retain_if_alive(e)))
        e = e->after;
    if (!e && remembered && !atomic_load(&remembered->observed))
        e = mf_retain(remembered); /* the static out-of-memory error is in no list */
    pthread_mutex_unlock(&lock);
    return e;
}

mf_status mf_first_error(const char **message)
{
    if (message)
        *message = NULL;
    mf_error_object *e = atomic_load(&mf_process_forked) ? &mf_error_fork_object : first_unseen();
    if (!e)
        return MF_OK;
    mf_status status = e->status;
    if (message)
        *message = mf_intern(mf_error_text(e)); /* immortal: nobody owns it */
    mf_error_see(e);
    mf_drop(e);
    return status;
}

int mf_exit_status(void)
{
    if (atomic_load(&mf_process_forked)) {
        fprintf(stderr, "manyfold: error: %s\n", mf_error_fork_object.message);
        return EXIT_FAILURE;
    }
    void (*drain)(void) = atomic_load(&mf_drain_hook);
    if (drain)
        drain();
    mf_error_object *e = first_unseen();
    int status = e || atomic_load(&any_reported) ? EXIT_FAILURE : EXIT_SUCCESS;
    if (e)
        fprintf(stderr, "manyfold: error: %s\n", mf_error_text(e));
    for (; e; e = first_unseen()) { /* later ones mostly follow from it: printed once, seen all */
        mf_error_see(e);
        mf_drop(e);
    }
    fflush(stdout);
    return status;
}

/* ---- warnings */

static void warn(const char *format, va_list list)
{
    mf_text t = { 0 };
    mf_text_vadd(&t, format, list);
    fprintf(stderr, "manyfold: warning: %s\n", t.at ? t.at : format);
    mf_text_free(&t);
}

void mf_warn(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    warn(format, list);
    va_end(list);
}

void mf_warn_once(_Atomic bool *said, const char *format, ...)
{
    if (atomic_exchange(said, true))
        return;
    va_list list;
    va_start(list, format);
    warn(format, list);
    va_end(list);
}

mf_value mf_fail(mf_status status, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    mf_error_object *e = vmake(mf_entry_place(), status, format, list);
    va_end(list);
    return mf_value_new(e);
}

mf_value mf_make_error(mf_status status, const char *format, ...)
{
    MF_ENTER;
    va_list list;
    va_start(list, format);
    mf_error_object *e = vmake(mf_entry_place(), status == MF_OK ? MF_ERROR_ARGUMENT : status, format, list);
    va_end(list);
    return mf_value_new(e);
}
