/* Error values: a code, one sentence with the op and the shapes, and the user's return address. Invariant: an error is immutable except for
 * whether it is handled; one that dies unhandled is reported once, through the hook. Only asking for its text or its code handles an error;
 * reading a value, waiting for it or dropping it does not. An error that follows from another one (mf_error_wrap) is handled together with
 * it. */
#ifndef MF_BASE_ERROR_H
#define MF_BASE_ERROR_H

#include "base/handles/object.h"
#include <stdarg.h>
#include <string.h>

typedef struct mf_error_object mf_error_object;
struct mf_error_object {
    mf_object object;
    mf_status status;
    const void *address;             /* where the user called us, or NULL */
    _Atomic int debt;                /* enum mf_error_debt; the root's counts */
    _Atomic(char *) located;         /* message with the location */
    _Atomic(mf_error_object *) root; /* the cause, a reference; NULL: the error is its own root. Set once */
    uint64_t number;                 /* in the order of creation */
    const void *related;             /* a second location, or NULL: where a stale handle ended */
    const char *related_by;          /* "its scope was closed at" */
    _Atomic(const void *) subject;   /* the deleted array that was used, or NULL; all errors so far about one array are handled together */
    mf_error_object *before, *after; /* neighbours in the list of living errors, oldest first */
    const char *function;            /* the name of the function that a handle should have been, interned; or NULL */
    const char *message;             /* the sentence; stored behind the struct, or immortal */
};

extern const mf_class mf_error_class;

enum mf_error_debt { MF_ERROR_OWED, MF_ERROR_HANDLED, MF_ERROR_NOBODYS }; /* NOBODYS: of a stale handle that was only looked at */

/* A new error (one reference). Never NULL: when memory is out, the one static out-of-memory error. */
mf_error_object *mf_error_new(mf_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));
mf_error_object *mf_error_new_at(const void *address, mf_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));
mf_error_object *mf_error_out_of_memory(void);
/* Returns a new error whose message has a prefix ("in cond: ..."). Takes the reference on e and keeps its status and address; the two are
 * handled together. */
mf_error_object *mf_error_wrap(mf_error_object *e, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The cause of the errors that this thread makes, borrowed, or NULL: set while a call that has already failed is traced. */
extern _Thread_local mf_error_object *mf_error_cause;
/* For two errors that meet where only `first` is propagated: handling `first` then handles `other` too. Both are borrowed. */
void mf_error_join(mf_error_object *first, mf_error_object *other);
/* The layer (MF_LAYER) that this thread is in, with a reference on the first error made inside. */
extern _Thread_local mf_layer mf_layer_current;
void mf_error_set_address(mf_error_object *e, const void *address); /* only if it has none yet */
const char *mf_error_text(mf_error_object *e);                      /* message with location; handles it */
const char *mf_error_place_text(mf_error_object *e); /* "file:line" or "symbol+0x12"; NULL when unknown; lives as long as e */
bool mf_error_is_handled(const mf_error_object *e);
void mf_error_handle(mf_error_object *e); /* marks it handled: the user was given its text or its code */
void mf_error_owe(mf_error_object *e);    /* somebody now holds a stale handle's error: from now on it must be handled */
void mf_error_ignore(mf_error_object *e); /* drops the error of an attempt that may fail (or NULL); other holders must still handle it */
/* For public functions that return no value: takes the reference and returns the status. The first unhandled error is kept for
 * mf_exit_status; the others are reported when they are destroyed, like any error. NULL gives MF_OK. */
mf_status mf_error_remember(mf_error_object *e);
/* Waits until no run is in progress. Set by the runtime, NULL before; called by mf_exit_status. */
extern void (*_Atomic mf_drain_hook)(void);
extern mf_error_object mf_error_memory_object, mf_error_fork_object; /* the static errors: out of memory; call in the child of a fork */
void mf_warn(const char *format, ...) __attribute__((format(printf, 1, 2))); /* one line on stderr: "manyfold: warning: ..." */
void mf_warn_once(_Atomic bool *said, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
