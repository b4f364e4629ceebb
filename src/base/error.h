/* Error values: a code, one sentence, the op and the shapes in it, and the user's return address.
 * Invariant: an error is immutable but for whether it is handled; one that dies unhandled is reported once through the hook. Only who asks
 * for its words or its code handles it: reading a value, waiting for it or dropping it never does. An error that follows from another one
 * (mf_error_wrap) is handled together with that one. */
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
    _Atomic int debt;                /* enum mf_error_debt; that of the root counts */
    _Atomic(char *) located;         /* message with the location */
    _Atomic(mf_error_object *) root; /* what it follows from, a reference, or NULL: itself. Set once */
    uint64_t number;                 /* in the order of making */
    const void *related;             /* a second location, or NULL: where a stale handle ended */
    const char *related_by;          /* "its scope was closed at" */
    _Atomic(const void *) subject;   /* the deleted array that was used, or NULL: all errors so far about one are handled together */
    mf_error_object *before, *after; /* among all living errors, oldest first */
    const char *function;            /* that a handle was to be, interned; or NULL */
    const char *message;             /* the sentence; behind the struct or immortal */
};

extern const mf_class mf_error_class;

enum mf_error_debt { MF_ERROR_OWED, MF_ERROR_HANDLED, MF_ERROR_NOBODYS }; /* nobody's: a look at a stale handle, until somebody has it */

/* A new error (one reference). Never NULL: when memory is out, the one static out-of-memory error. */
mf_error_object *mf_error_new(mf_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));
mf_error_object *mf_error_new_at(const void *address, mf_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));
mf_error_object *mf_error_out_of_memory(void);
/* Prefixes the message ("in cond: ..."); takes the reference on e, keeps its status and address, and is handled when e is. */
mf_error_object *mf_error_wrap(mf_error_object *e, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* What the errors that this thread makes follow from, borrowed: set while a call is traced that has already failed. NULL: from nothing. */
extern _Thread_local mf_error_object *mf_error_cause;
/* Only `first` goes on from where both came together: whoever handles it has handled the other one too. Both are borrowed. */
void mf_error_join(mf_error_object *first, mf_error_object *other);
/* What the layer that is entered (MF_LAYER) has made so far: its first error, a reference. */
extern _Thread_local mf_layer mf_layer_current;
void mf_error_set_address(mf_error_object *e, const void *address); /* only if it has none yet */
const char *mf_error_text(mf_error_object *e);                      /* message with location; handles it */
const char *mf_error_place_text(mf_error_object *e); /* "file:line" or "symbol+0x12"; NULL when unknown; lives as long as e */
bool mf_error_is_handled(const mf_error_object *e);
void mf_error_handle(mf_error_object *e); /* its words or its code were given to the user */
void mf_error_owe(mf_error_object *e);    /* a stale handle's error has become somebody's: it wants to be handled from now on */
void mf_error_ignore(mf_error_object *e); /* drops what a try that may fail gave; who else holds it still owes a look. NULL is allowed */
/* For functions that leave the world of values: takes the reference, returns the status; the first unhandled one is kept for
 * mf_exit_status, the others are reported at their end as any error. NULL gives MF_OK. */
mf_status mf_error_remember(mf_error_object *e);
/* Waits until nothing is running any more; the runtime sets it, NULL before. Called by mf_exit_status. */
extern void (*_Atomic mf_drain_hook)(void);
extern mf_error_object mf_error_memory_object, mf_error_fork_object; /* the two static ones: out of memory; used in the child of a fork */
void mf_warn(const char *format, ...) __attribute__((format(printf, 1, 2))); /* one line on stderr: "manyfold: warning: ..." */
void mf_warn_once(_Atomic bool *said, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
