/* Handles: a 64-bit handle is a slot index (low 32 bits) and the slot's generation (high 32 bits). A slot holds one reference to an
 * object and belongs to one scope, or to none when kept. Scopes are a stack per thread and never cross threads.
 * Invariants: a handle is valid exactly while its slot's generation matches; a stale one is detected in every build, however often the slot
 * has been used since. What a look-up gives stays alive until the public function that asked returns, whatever other threads end. */
#ifndef MF_BASE_HANDLES_HANDLE_H
#define MF_BASE_HANDLES_HANDLE_H

#include "base/entry.h"

/* A handle for o in the innermost scope of this thread; takes over the caller's reference. Out of memory: a handle to the static error. */
uint64_t mf_handle_new(void *object);
/* The object behind a handle, borrowed: alive while the handle is, and if other threads may end the handle (it is kept, or another
 * thread's) until the public function (MF_ENTER) that is running returns. A zero handle gives NULL. A stale one gives an error object
 * that says so (borrowed, alive until the thread's next stale handle). */
mf_object *mf_handle_get(uint64_t handle);
mf_object *mf_handle_get_as(uint64_t handle, const mf_class *kind); /* NULL when stale or of another kind */

uint64_t mf_handle_new_kept(void *object); /* likewise, but owned by no scope: ends by mf_release */
/* The one kept handle for o, which is for ever: *at has it once somebody asked. Does not take the reference. */
uint64_t mf_handle_keep_one(_Atomic uint64_t *at, mf_object *o);
/* A new handle for o (a reference) in the slot of one that ends by that, and so in its scope; 0 and nothing done when it is stale. */
uint64_t mf_handle_replace(uint64_t handle, void *o);
void mf_handle_end(uint64_t handle);   /* ends it now, whoever owns it on this thread; a stale handle is left alone */
bool mf_handle_ended(uint64_t handle); /* whether it was one and is no more; any 64 bits may be asked about */
int64_t mf_handle_live_count(void);    /* for tests: handles now alive in the whole process */

/* ---- between handle.c and scope.c */
typedef struct mf_slot {
    _Atomic uint32_t generation; /* odd: alive; even: free, or ended and still pinned */
    _Atomic uint32_t pins;       /* calls on other threads that read the object; MF_SLOT_ENDED: the last of them gives it up */
    uint32_t before, after;      /* in its scope's list (0 ends it), or in a list of free slots */
    _Atomic uint32_t named;      /* the generation in which the slot was taken: later ones are values that mf_assign has put there */
    _Atomic(mf_object *) object;
    mf_scope *scope;              /* NULL when kept */
    _Atomic(const void *) thread; /* the scope's; NULL when kept: any thread may end it */
    _Atomic(const void *) closed; /* of a free slot: where its scope was closed last; of a taken one: where mf_assign changed it, or NULL */
} mf_slot;
#define MF_SLOT_ENDED UINT32_C(0x80000000)
mf_slot *mf_slot_of(uint64_t handle, uint32_t *index); /* NULL unless it is alive */
mf_slot *mf_slot_at(uint32_t index);                   /* of an index that was given out */
/* Out of every list already: gives up the object, frees the slot. Of several threads that try, one does. */
void mf_slot_end(uint32_t index, mf_slot *slot, uint32_t generation, const void *where);
void mf_handles_leave_thread(void);                             /* hands this thread's free slots back */
mf_scope *mf_scope_innermost(void);                             /* this thread's; never NULL: the outermost needs no memory */
void mf_scope_take(mf_scope *s, uint32_t index, mf_slot *slot); /* the slot joins the scope */
void mf_scope_lose(uint32_t index, mf_slot *slot);              /* and leaves it; nothing to do when kept */
extern const char mf_scope_of_trace[1];                         /* stands for the place where a trace's scope was closed */
void mf_scope_close_of_trace(mf_scope *scope);                  /* by who opened it for the values of a function that was traced */
bool mf_slot_is_mine(const mf_slot *slot);                      /* in a scope of this thread: nobody else ends or moves it */
bool mf_slot_is_kept(const mf_slot *slot);                      /* in none: any thread may end it */
extern _Thread_local const void *mf_this_thread;                /* an address of its own; NULL before its first scope */

static inline mf_value mf_value_new(void *object) { return (mf_value){ mf_handle_new(object) }; } /* takes the reference */
static inline mf_value mf_value_of(const void *object) { return mf_value_new(mf_retain(object)); }
static inline mf_object *mf_object_of(mf_value v) { return mf_handle_get(v.handle); }
/* v as a result, o being its object: itself, but of a stale handle the error that says so, made here and owed a look. */
static inline mf_value mf_value_travelling(mf_value v, const void *o)
{
    return mf_handle_get_as(v.handle, &mf_error_class) ? v : mf_value_of(o);
}
mf_value mf_fail(mf_status status, const char *format, ...) __attribute__((format(printf, 2, 3))); /* an error value */

typedef void (*mf_thread_leaves)(void);
/* Called when a thread that has used the library ends, and when it calls exit, before exit's handlers. Set once, NULL: nothing is. */
extern _Atomic(mf_thread_leaves) mf_on_thread_leaves;

#endif
