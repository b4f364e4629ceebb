/* Scopes: per thread, a stack of lists of slots. Invariant: a slot is in the list of exactly the scope that it names, and only the scope's
 * thread changes the list. A thread's outermost scope needs no memory and closes when the thread ends. */
#include "base/handles/handle.h"

#include "base/memory/alloc.h"
#include "base/thread/thread_end.h"

#include <pthread.h>

#define PILED_UP 100000

struct mf_scope {
    mf_scope *outer;
    const void *thread; /* the address of this thread's outermost scope */
    uint32_t first, last;
    int64_t count;
};

static _Thread_local mf_scope outermost;
_Thread_local const void *mf_this_thread;
static _Thread_local mf_scope *innermost, *spare;
static mf_scope *shared_spare; /* scopes are never freed: a wrong mf_scope pointer may still refer to one */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void close_until(mf_scope *s, const void *where);

static void leave_thread(void)
{
    if (innermost)
        close_until(&outermost, NULL);
    mf_handles_leave_thread();
    pthread_mutex_lock(&lock);
    while (spare) {
        mf_scope *s = spare;
        spare = s->outer;
        s->outer = shared_spare;
        shared_spare = s;
    }
    pthread_mutex_unlock(&lock);
    innermost = NULL;
}

/* A thread's own destructors run before the handlers of exit. A destructor of a thread-specific key would not run at exit at all. */
extern int __cxa_thread_atexit_impl(void (*destroy)(void *), void *object, void *library) __attribute__((weak));
extern void *__dso_handle __attribute__((visibility("hidden")));
_Atomic(mf_thread_leaves) mf_on_thread_leaves;

static void thread_leaves(void *unused)
{
    mf_thread_leaves call = atomic_load(&mf_on_thread_leaves);
    (void)unused;
    if (call && !mf_process_forked())
        call();
}

static void watch(void) { mf_thread_end_add(leave_thread); }

mf_scope *mf_scope_innermost(void)
{
    if (innermost)
        return innermost;
    pthread_once(&once, watch);
    mf_thread_watch();
    if (__cxa_thread_atexit_impl)
        __cxa_thread_atexit_impl(thread_leaves, NULL, &__dso_handle);
    outermost.thread = mf_this_thread = &outermost;
    return innermost = &outermost;
}

bool mf_slot_is_kept(const mf_slot *slot) { return !atomic_load_explicit(&slot->thread, memory_order_relaxed); }

bool mf_slot_is_mine(const mf_slot *slot)
{
    const void *thread = atomic_load_explicit(&slot->thread, memory_order_relaxed);
    return thread && thread == mf_this_thread;
}

/* ---- the list of a scope */

void mf_scope_take(mf_scope *s, uint32_t index, mf_slot *slot)
{
    static _Atomic bool said;
    slot->scope = s;
    atomic_store_explicit(&slot->thread, s->thread, memory_order_relaxed);
    slot->before = s->last;
    slot->after = 0;
    *(s->last ? &mf_slot_at(s->last)->after : &s->first) = index;
    s->last = index;
    if (++s->count > PILED_UP && !atomic_load_explicit(&said, memory_order_relaxed))
        mf_warn_once(
            &said,
            "more than %d values have piled up in a scope; write MF_SCOPE; at the top of the loop's body, so that each round gives back "
            "what it made, and mf_assign what must outlive it",
            PILED_UP);
}

void mf_scope_lose(uint32_t index, mf_slot *slot)
{
    mf_scope *s = slot->scope;
    if (!s)
        return;
    (void)index;
    *(slot->before ? &mf_slot_at(slot->before)->after : &s->first) = slot->after;
    *(slot->after ? &mf_slot_at(slot->after)->before : &s->last) = slot->before;
    s->count--;
    slot->scope = NULL;
    atomic_store_explicit(&slot->thread, NULL, memory_order_relaxed);
}

/* Ends the oldest first, so that unhandled errors are reported in order. */
static void end_all(mf_scope *s, const void *where)
{
    while (s->first) {
        uint32_t index = s->first;
        mf_slot *slot = mf_slot_at(index);
        mf_scope_lose(index, slot);
        mf_slot_end(index, slot, atomic_load_explicit(&slot->generation, memory_order_relaxed), where);
    }
}

/* ---- the stack */

mf_scope *mf_scope_open(void)
{
    MF_PARENT_ONLY(NULL);
    mf_scope *outer = mf_scope_innermost(), *s = spare;
    if (s) {
        spare = s->outer;
    } else {
        pthread_mutex_lock(&lock);
        s = shared_spare;
        if (s)
            shared_spare = s->outer;
        pthread_mutex_unlock(&lock);
        if (!s && !(s = mf_alloc(sizeof *s)))
            return NULL; /* values then live in the enclosing scope: longer than needed, but safely */
    }
    *s = (mf_scope){ .outer = outer, .thread = &outermost };
    return innermost = s;
}

/* Closes every scope down to and including s (the outermost is emptied and stays). */
static void close_until(mf_scope *s, const void *where)
{
    for (;;) {
        mf_scope *closing = innermost;
        if (closing != &outermost)
            innermost = closing->outer; /* before end_all: a destructor may call the error hook, whose values need a scope */
        end_all(closing, where);
        if (closing == &outermost)
            return;
        closing->outer = spare;
        closing->thread = NULL;
        spare = closing;
        if (closing == s)
            return;
    }
}

static void close_scope(mf_scope *scope, const void *where)
{
    static _Atomic bool said;
    MF_PARENT_ONLY();
    if (!scope)
        return;
    const mf_scope *s = innermost;
    while (s && s != scope)
        s = s->outer;
    if (!s)
        mf_warn_once(&said, "a scope was closed twice, or by another thread than the one that opened it; nothing was done");
    else
        close_until(scope, where);
}

const char mf_scope_of_trace[1] = "";
void mf_scope_close_of_trace(mf_scope *scope) { close_scope(scope, mf_scope_of_trace); }
void mf_scope_close(mf_scope *scope) { close_scope(scope, __builtin_return_address(0)); }
void mf_scope_close_at_(mf_scope **scope) { close_scope(*scope, __builtin_return_address(0)); }

/* ---- moving values between scopes */

mf_value(mf_escape)(mf_value v)
{
    MF_ENTER(MF_FORKED);
    if (!v.handle)
        return v;
    mf_scope *from = mf_scope_innermost();
    uint32_t index;
    mf_slot *slot = mf_slot_of(v.handle, &index);
    if (!slot) {
        v = mf_value_of(mf_handle_get(v.handle)); /* the error of the stale handle, as a value in the innermost scope */
        slot = mf_slot_of(v.handle, &index);
    }
    if (slot && mf_slot_is_mine(slot) && slot->scope == from && from->outer) {
        mf_scope_lose(index, slot);
        mf_scope_take(from->outer, index, slot);
    }
    return v;
}

/* A new handle in scope `owner` (NULL: kept) for the object that v names. */
static mf_value name_in(mf_scope *owner, mf_value v)
{
    mf_object *o = mf_handle_get(v.handle);
    if (!o)
        return (mf_value){ 0 };
    mf_value fresh = { mf_handle_new_kept(mf_retain(o)) };
    uint32_t index;
    mf_slot *slot = mf_slot_of(fresh.handle, &index);
    if (owner && slot && o != &mf_error_memory_object.object && o != &mf_error_fork_object.object)
        mf_scope_take(owner, index, slot);
    return fresh;
}

void(mf_assign)(mf_value *variable, mf_value v)
{
    MF_ENTER();
    if (variable->handle == v.handle)
        return;
    (void)mf_scope_innermost();
    mf_value before = *variable;
    uint32_t index;
    mf_slot *slot = mf_slot_of(before.handle, &index);
    if (slot && !mf_slot_is_mine(slot) && !mf_slot_is_kept(slot)) {
        *variable = mf_fail(MF_ERROR_SCOPE,
                            "mf_assign: the variable's value belongs to a scope of another thread; keep values that threads "
                            "share with mf_keep");
        return;
    }
    mf_object *o = slot ? mf_retain(mf_handle_get(v.handle)) : NULL;
    uint64_t replaced = o ? mf_handle_replace(before.handle, o) : 0;
    if (replaced) {
        variable->handle = replaced;
        return;
    }
    mf_drop(o);
    *variable = name_in(!slot ? &outermost : mf_slot_is_mine(slot) ? slot->scope : NULL, v);
    mf_handle_end(before.handle);
}

void mf_clear(mf_value *variable)
{
    uint64_t before = variable->handle;
    variable->handle = 0;
    MF_ENTER();
    mf_handle_end(before);
}

mf_value(mf_keep)(mf_value v)
{
    MF_ENTER(MF_FORKED);
    return name_in(NULL, v);
}

void(mf_release)(mf_value v)
{
    MF_ENTER();
    mf_handle_end(v.handle);
}
