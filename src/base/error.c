/* Error values: making, handling, reporting. Invariant: every error but the two static ones is in a list of living errors, oldest first,
 * from its creation to its destruction, so that the first unhandled one can be found. The list's lock also guards what is remembered and
 * what was reported. */
#include "base/error.h"

#include "base/memory/alloc.h"
#include "base/thread/cancel.h"
#include "base/handles/handle.h"
#include "base/memory/intern.h"
#include "base/text/location.h"
#include "base/text/string.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void (*_Atomic mf_drain_hook)(void);
_Atomic unsigned char mf_process = MF_PROCESS_FRESH;
_Thread_local mf_error_object *mf_error_cause;
_Thread_local mf_layer mf_layer_current;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static mf_error_object *oldest, *newest, *remembered;
static uint64_t made; /* guarded by the lock */
static mf_error_hook hook;
static void *hook_context;

/* Errors that were reported when they were destroyed. Without a hook each location is printed once, however often a loop makes the
 * error. */
#define MOST_LOCATIONS 256
static struct {
    mf_status status; /* the status of the first such error; MF_OK: none, or mf_first_error has returned it */
    const char *text;
    uint64_t number;
    struct {
        const void *address;
        mf_status status;
    } locations[MOST_LOCATIONS];
    int location_count;
    int64_t repeated;
} reported;

static void error_destroy(mf_object *o);
const mf_class mf_error_class = { "error", error_destroy };

mf_error_object mf_error_memory_object = { .object = { MF_IMMORTAL, &mf_error_class },
                                           .status = MF_ERROR_MEMORY,
                                           .message = "out of memory" };
mf_error_object mf_error_fork_object = { .object = { MF_IMMORTAL, &mf_error_class },
                                         .status = MF_FORK_STATUS,
                                         .debt = MF_ERROR_HANDLED,
                                         .message = "this process is the child of a fork: Manyfold's workers live in the parent, so every "
                                                    "call in the child is an error; fork before first use, or use exec" };

/* ---- forks */

static void in_child(void)
{
    unsigned char used = MF_PROCESS_USED;
    atomic_compare_exchange_strong(&mf_process, &used, MF_PROCESS_FORKED);
}

static void watch(void) { pthread_atfork(NULL, NULL, in_child); }

bool mf_process_begin(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    unsigned char fresh = MF_PROCESS_FRESH;
    if (mf_process_forked())
        return false;
    pthread_once(&once, watch);
    atomic_compare_exchange_strong(&mf_process, &fresh, MF_PROCESS_USED);
    return true;
}

/* ---- making */

static void append_to_list(mf_error_object *e)
{
    pthread_mutex_lock(&lock);
    e->before = newest;
    *(newest ? &newest->after : &oldest) = e;
    newest = e;
    e->number = ++made;
    pthread_mutex_unlock(&lock);
}

static void remove_from_list(mf_error_object *e)
{
    pthread_mutex_lock(&lock);
    *(e->before ? &e->before->after : &oldest) = e->after;
    *(e->after ? &e->after->before : &newest) = e->before;
    pthread_mutex_unlock(&lock);
}

static mf_error_object *root_of(const mf_error_object *e)
{
    const mf_error_object *r = e;
    for (const mf_error_object *next; (next = atomic_load_explicit(&r->root, memory_order_acquire));)
        r = next;
    return (mf_error_object *)(uintptr_t)r;
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
    append_to_list(e);
    if (mf_error_cause)
        mf_error_join(mf_error_cause, e);
    if (mf_layer_current.error)
        mf_error_join(mf_layer_current.error, e);
    else if (mf_layer_current.entered)
        mf_layer_current.error = mf_retain(e);
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
    mf_error_object *e = vmake(mf_entry_location(), status, format, list);
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
    if (!is_static(outer)) {
        outer->related = e->related;
        outer->related_by = e->related_by;
        mf_error_join(e, outer);
    }
    mf_drop(e);
    return outer;
}

void mf_error_join(mf_error_object *first, mf_error_object *other)
{
    pthread_mutex_lock(&lock);
    mf_error_object *root = root_of(first), *joins = root_of(other);
    if (root != joins && !is_static(root) && !is_static(joins) && !mf_error_is_handled(root)) /* a handled error explains no new one */
        atomic_store_explicit(&joins->root, mf_retain(root), memory_order_release);
    pthread_mutex_unlock(&lock);
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
    return mf_location_of(e->address);
}

static char *locate(const mf_error_object *e)
{
    mf_text t = { 0 };
    mf_text_put(&t, e->message);
    const char *location = e->address ? mf_location_of(e->address) : NULL, *related = e->related ? mf_location_of(e->related) : NULL;
    if (location)
        mf_text_add(&t, " (%s)", location);
    if (related)
        mf_text_add(&t, "; %s %s", e->related_by, related);
    if (!t.failed)
        return t.at;
    mf_text_free(&t);
    return NULL;
}

const char *mf_error_text(mf_error_object *e)
{
    mf_error_handle(e);
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

/* ---- handling */

bool mf_error_is_handled(const mf_error_object *e)
{
    return atomic_load_explicit(&root_of(e)->debt, memory_order_acquire) != MF_ERROR_OWED;
}

/* Every use of a deleted array makes an error with its own location, but all of them have one cause, so they are handled together. */
static void handle_all_about(const void *subject)
{
    pthread_mutex_lock(&lock);
    for (const mf_error_object *e = oldest; e; e = e->after)
        if (e->subject == subject)
            atomic_store(&root_of(e)->debt, MF_ERROR_HANDLED);
    pthread_mutex_unlock(&lock);
}

void mf_error_handle(mf_error_object *e)
{
    if (mf_error_is_handled(e))
        return;
    mf_error_object *root = root_of(e);
    atomic_store(&root->debt, MF_ERROR_HANDLED);
    if (root->subject)
        handle_all_about(root->subject);
}

void mf_error_owe(mf_error_object *e)
{
    int nobodys = MF_ERROR_NOBODYS;
    atomic_compare_exchange_strong(&e->debt, &nobodys, MF_ERROR_OWED);
}

/* Whether e has no cause, or holds the only reference to its cause: then no other error will report it. */
static bool is_last_of_family(const mf_error_object *e)
{
    const mf_error_object *root = atomic_load(&e->root);
    return !root || atomic_load(&root->object.count) == 1;
}

void mf_error_ignore(mf_error_object *e)
{
    if (e && mf_layer_current.error == e) { /* an ignored error explains no later one */
        mf_layer_current.error = NULL;
        mf_drop(e);
    }
    if (e && !is_static(e) && atomic_load(&e->object.count) == 1 && is_last_of_family(e))
        mf_error_handle(e);
    mf_drop(e);
}

/* ---- reporting */

/* Whether no line was printed for this location yet. Call with the lock held. */
static bool is_news(const mf_error_object *e)
{
    for (int i = 0; i < reported.location_count; i++)
        if (e->address && reported.locations[i].address == e->address && reported.locations[i].status == e->status)
            return false;
    if (reported.location_count < MOST_LOCATIONS) {
        reported.locations[reported.location_count].address = e->address;
        reported.locations[reported.location_count++].status = e->status;
    }
    return true;
}

/* Called when an error dies unhandled. */
static void report(mf_error_object *e)
{
    MF_UNCANCELLED;
    const char *text = mf_error_text(e);
    pthread_mutex_lock(&lock);
    mf_error_hook chosen = hook;
    void *context = hook_context;
    if (!reported.status) {
        reported.status = e->status;
        reported.text = mf_intern(text);
        reported.number = e->number;
    }
    bool tell = chosen || is_news(e);
    reported.repeated += !tell;
    pthread_mutex_unlock(&lock);
    if (chosen)
        chosen(e->status, text, context);
    else if (tell)
        fprintf(stderr, "manyfold: error: %s\n", text);
}

static void error_destroy(mf_object *o)
{
    mf_error_object *e = (mf_error_object *)o;
    remove_from_list(e);
    if (!mf_error_is_handled(e) && is_last_of_family(e) && !mf_process_forked())
        report(e);
    mf_drop(atomic_load(&e->root));
    mf_free(atomic_load(&e->located));
}

void mf_set_error_hook(mf_error_hook chosen, void *context)
{
    MF_PARENT_ONLY();
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
    mf_error_owe(e);
    pthread_mutex_lock(&lock);
    mf_error_object *rest = e, *kept = NULL;
    if (!remembered || mf_error_is_handled(remembered)) {
        rest = remembered;
        remembered = e;
    } else if (e->subject && remembered->subject == e->subject) {
        kept = mf_retain(remembered);
    }
    pthread_mutex_unlock(&lock);
    if (kept) /* a second use of the same deleted array */
        mf_error_join(kept, e);
    mf_drop(kept);
    mf_drop(rest);
    return status;
}

/* The oldest living error that nobody has handled, with a reference, or NULL. */
static mf_error_object *first_unhandled(void)
{
    pthread_mutex_lock(&lock);
    mf_error_object *e = oldest;
    while (e && (mf_error_is_handled(e) || !mf_retain_if_alive(e)))
        e = e->after;
    if (!e && remembered && !mf_error_is_handled(remembered))
        e = mf_retain(remembered); /* the static out-of-memory error is in no list */
    pthread_mutex_unlock(&lock);
    return e;
}

/* Takes the first error that was reported at its destruction if it is older than e. Taking it handles it. */
static mf_status take_reported(const mf_error_object *e, const char **text)
{
    mf_status status = MF_OK;
    pthread_mutex_lock(&lock);
    if (reported.status && (!e || reported.number < e->number)) {
        status = reported.status;
        *text = reported.text;
        reported.status = MF_OK;
    }
    pthread_mutex_unlock(&lock);
    return status;
}

mf_status mf_first_error(const char **message)
{
    if (message)
        *message = MF_FORK_WORDS;
    MF_PARENT_ONLY(MF_FORK_STATUS);
    const char *text = NULL;
    mf_error_object *e = first_unhandled();
    mf_status status = take_reported(e, &text);
    if (!status && e) {
        status = e->status;
        text = mf_intern(mf_error_text(e)); /* interned, hence immortal: the caller need not free it */
    }
    mf_drop(e);
    if (message)
        *message = text;
    return status;
}

int mf_exit_status(void)
{
    MF_UNCANCELLED;
    if (mf_process_forked())
        fprintf(stderr, "manyfold: error: %s\n", MF_FORK_WORDS);
    MF_PARENT_ONLY(EXIT_FAILURE);
    void (*drain)(void) = atomic_load(&mf_drain_hook);
    if (drain)
        drain();
    mf_error_object *e = first_unhandled();
    pthread_mutex_lock(&lock);
    int status = e || reported.status ? EXIT_FAILURE : EXIT_SUCCESS;
    int64_t repeated = reported.repeated;
    reported.repeated = 0;
    pthread_mutex_unlock(&lock);
    if (repeated)
        fprintf(stderr, "manyfold: error: %lld more like those reported, from the same places\n", (long long)repeated);
    if (e)
        fprintf(stderr, "manyfold: error: %s\n", mf_error_text(e));
    for (; e; e = first_unhandled()) { /* the later ones mostly follow from the first: print one, handle all */
        mf_error_handle(e);
        mf_drop(e);
    }
    fflush(stdout);
    return status;
}

/* ---- warnings */

static void warn(const char *format, va_list list)
{
    MF_UNCANCELLED;
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
    mf_error_object *e = vmake(mf_entry_location(), status, format, list);
    va_end(list);
    return mf_value_new(e);
}

mf_value mf_make_error(mf_status status, const char *format, ...)
{
    MF_ENTER(MF_FORKED);
    va_list list;
    va_start(list, format);
    mf_error_object *e = vmake(mf_entry_location(), status == MF_OK ? MF_ERROR_ARGUMENT : status, format, list);
    va_end(list);
    return mf_value_new(e);
}
