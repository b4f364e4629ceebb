/* Handles: a 64-bit handle is a slot index (low 32 bits) and the slot's generation (high 32 bits). A slot holds one reference to an object
 * and belongs to one scope, or to none when kept. Scopes form a stack per thread and never cross threads. Invariants: a handle is valid
 * exactly while its slot's generation matches. A stale handle is detected in every build, however often its slot has been reused. The
 * object that a look-up returns stays alive until the public function that asked returns, whatever handles other threads end. */
#ifndef MF_BASE_HANDLES_HANDLE_H
#define MF_BASE_HANDLES_HANDLE_H

#include "base/entry.h"

/* A handle for o in the innermost scope of this thread; takes over the caller's reference. Out of memory: a handle to the static error. */
uint64_t mf_handle_new(void *object);
/* The object behind a handle, borrowed: alive as long as the handle. If other threads may end the handle (it is kept, or another thread's),
 * the object stays alive until the running public function (MF_ENTER) returns. A zero handle gives NULL. A stale one gives an error object
 * that says so (borrowed, alive until the thread's next stale handle). */
mf_object *mf_handle_get(uint64_t handle);
mf_object *mf_handle_get_as(uint64_t handle, const mf_class *kind); /* NULL when stale or of another kind */

uint64_t mf_handle_new_kept(void *object); /* as mf_handle_new, but owned by no scope: ends by mf_release */
/* The one kept handle for o, which never ends: made by the first call and stored in *at. Does not take the reference. */
uint64_t mf_handle_keep_one(_Atomic uint64_t *at, mf_object *o);
/* Ends a handle and makes a new one for o, which takes the reference, in the same slot and scope. Returns 0 and changes nothing when that
 * is not possible: the handle is stale, or another thread is reading it. */
uint64_t mf_handle_replace(uint64_t handle, void *o);
void mf_handle_end(uint64_t handle);   /* ends it now if this thread owns it or nobody does; a stale handle is left alone */
bool mf_handle_ended(uint64_t handle); /* whether it was a handle and has ended; any 64 bits are allowed */
int64_t mf_handle_live_count(void);    /* for tests: the number of live handles in the process */

/* ---- between handle.c and scope.c */
typedef struct mf_slot {
    _Atomic uint32_t generation; /* odd: alive; even: free, or ended and still pinned */
    _Atomic uint32_t pins;       /* calls on other threads that are reading the object; with MF_SLOT_ENDED the last of them releases it */
    uint32_t before, after;      /* neighbours in its scope's list (0: none); after: also the next in a list of free slots */
    _Atomic uint32_t named;      /* the generation in which the slot was taken; later odd ones are values that mf_assign has put there */
    _Atomic(mf_object *) object;
    mf_scope *scope;              /* NULL when kept */
    _Atomic(const void *) thread; /* the scope's thread; NULL when kept: any thread may end it */
    _Atomic(const void *) closed; /* free slot: where its scope was last closed; taken slot: where mf_assign replaced the value, or NULL */
} mf_slot;
#define MF_SLOT_ENDED UINT32_C(0x80000000)
mf_slot *mf_slot_of(uint64_t handle, uint32_t *index); /* NULL unless the handle is alive */
mf_slot *mf_slot_at(uint32_t index);                   /* the index must have been handed out */
/* Ends a slot that is in no list any more: releases the object and frees the slot. If several threads try, one succeeds. */
void mf_slot_end(uint32_t index, mf_slot *slot, uint32_t generation, const void *where);
void mf_handles_leave_thread(void);                             /* hands this thread's free slots back */
mf_scope *mf_scope_innermost(void);                             /* never NULL: a thread's outermost scope needs no memory */
void mf_scope_take(mf_scope *s, uint32_t index, mf_slot *slot); /* puts the slot into the scope */
void mf_scope_lose(uint32_t index, mf_slot *slot);              /* takes it out; does nothing when the slot is kept */
extern const char mf_scope_of_trace[1];                         /* used as the place where a trace's scope was closed */
void mf_scope_close_of_trace(mf_scope *scope);                  /* closes a scope that was opened for the values of a traced function */
bool mf_slot_is_mine(const mf_slot *slot);                      /* in a scope of this thread: no other thread ends or moves it */
bool mf_slot_is_kept(const mf_slot *slot);                      /* in no scope: any thread may end it */
extern _Thread_local const void *mf_this_thread;                /* an address that identifies this thread; NULL before its first scope */

static inline mf_value mf_value_new(void *object) { return (mf_value){ mf_handle_new(object) }; } /* takes the reference */
static inline mf_value mf_value_of(const void *object) { return mf_value_new(mf_retain(object)); }
static inline mf_object *mf_object_of(mf_value v) { return mf_handle_get(v.handle); }
/* Returns v, whose object is o, as a result. For a stale handle it makes a value of the error o, which must then be handled. */
static inline mf_value mf_value_travelling(mf_value v, const void *o)
{
    return mf_handle_get_as(v.handle, &mf_error_class) ? v : mf_value_of(o);
}
mf_value mf_fail(mf_status status, const char *format, ...) __attribute__((format(printf, 2, 3))); /* an error value */

typedef void (*mf_thread_leaves)(void);
/* Called when a thread that has used the library ends; on a thread that calls exit, before exit's handlers. Set once; may be NULL. */
extern _Atomic(mf_thread_leaves) mf_on_thread_leaves;

#endif
