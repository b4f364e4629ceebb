/* Error values: a code, one sentence, the op and the shapes in it, and the user's return address.
 * Invariant: an error is immutable but for `observed`; one that dies unobserved is reported once through the hook. */
#ifndef MF_BASE_ERROR_H
#define MF_BASE_ERROR_H

#include "base/object.h"
#include <stdarg.h>
#include <string.h>

typedef struct mf_error_object mf_error_object;
struct mf_error_object {
    mf_object object;
    mf_status status;
    const void *address; /* where the user called us, or NULL */
    _Atomic bool observed;
    _Atomic(char *) located;         /* message with the place, likewise */
    const void *related;             /* a second place, or NULL: where the scope of a stale handle was closed */
    mf_error_object *before, *after; /* among all living errors, oldest first */
    const char *message;             /* the sentence; behind the struct or immortal */
};

extern const mf_class mf_error_class;

/* A new error (one reference). Never NULL: when memory is out, the one static out-of-memory error. */
mf_error_object *mf_error_new(mf_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));
mf_error_object *mf_error_new_at(const void *address, mf_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));
mf_error_object *mf_error_out_of_memory(void);
/* Prefixes the message ("in cond: ..."); takes the reference on e, keeps its status and address. */
mf_error_object *mf_error_wrap(mf_error_object *e, const char *format, ...) __attribute__((format(printf, 2, 3)));
void mf_error_set_address(mf_error_object *e, const void *address); /* only if it has none yet */
const char *mf_error_text(mf_error_object *e);                      /* message with place; marks it observed */
const char *mf_error_place_text(mf_error_object *e); /* "file:line" or "symbol+0x12"; NULL when unknown; lives as long as e */
void mf_error_see(mf_error_object *e);               /* marks it observed: somebody has dealt with it */
void mf_error_ignore(
    mf_error_object *e); /* marks it observed and drops it: what a try that may fail does with its error. NULL is allowed */
/* For functions that leave the world of values: takes the reference, remembers the first for mf_exit_status, returns the status. NULL gives MF_OK. */
mf_status mf_error_remember(mf_error_object *e);
/* Waits until nothing is running any more; the runtime sets it, NULL before. Called by mf_exit_status. */
extern void (*_Atomic mf_drain_hook)(void);
extern mf_error_object mf_error_memory_object, mf_error_fork_object; /* the two static ones: out of memory; used in the child of a fork */
extern _Atomic bool mf_process_forked;                               /* in the child of a fork every call is an error */
void mf_error_watch_forks(void);
void mf_warn(const char *format, ...) __attribute__((format(printf, 1, 2))); /* one line on stderr: "manyfold: warning: ..." */
void mf_warn_once(_Atomic bool *said, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The user's return address for the public entry point that is running. MF_ENTER at the top of a public function records it
 * (outermost wins, so a wrapper built on other public functions reports its own caller); errors made inside pick it up. */
/* Few bytes that every call reads: they lie in the static block of thread-local memory, where reading them is one instruction. */
#define MF_THREAD_LOCAL_HOT __attribute__((tls_model("initial-exec"))) _Thread_local
extern MF_THREAD_LOCAL_HOT const void *mf_entry_address;
/* How many handles of other threads this one has pinned (base/handle.c); those of a public function end when it returns. */
extern MF_THREAD_LOCAL_HOT uint32_t mf_pinned;
void mf_unpin_to(uint32_t count);
typedef struct mf_entry {
    const void *address;
    uint32_t pinned;
} mf_entry;
static inline void mf_entry_leave_(const mf_entry *before)
{
    mf_entry_address = before->address;
    if (mf_pinned != before->pinned)
        mf_unpin_to(before->pinned);
}
#define MF_ENTER                                                                                                         \
    const mf_entry mf_entry_before_ __attribute__((cleanup(mf_entry_leave_), unused)) = { mf_entry_address, mf_pinned }; \
    if (!mf_entry_address)                                                                                               \
    mf_entry_address = __builtin_return_address(0)
/* The same for texts: where that address lies in the library itself, the user's place further out. Slow. NULL when there is none. */
const void *mf_entry_place(void);
/* The user's function that is being called, and where it returns to: set by who calls it, for mf_entry_place. */
typedef struct mf_callee {
    const void *back, *function;
} mf_callee;
extern _Thread_local mf_callee mf_entry_callee;
static inline mf_callee mf_callee_at(void (*function)(void), const void *back)
{
    mf_callee c = { back, NULL };
    memcpy(&c.function, &function, sizeof c.function);
    return c;
}

#endif
