/* Handles: a 64-bit handle is a slot index (low 32 bits) and the slot's generation (high 32 bits). A slot holds one reference to an
 * object and belongs to one scope, or to none when kept. Scopes are a stack per thread and never cross threads.
 * Invariant: a handle is valid exactly while its slot's generation matches; a stale one is detected in every build. */
#ifndef MF_BASE_HANDLE_H
#define MF_BASE_HANDLE_H

#include "base/error.h"

/* A handle for o in the innermost scope of this thread; takes over the caller's reference. Out of memory: a handle to the static error. */
uint64_t mf_handle_new(void *object);
/* The object behind a handle, borrowed (alive while the handle is). A zero handle gives NULL. A stale one gives an error object that
 * says so (borrowed, alive until the thread's next stale handle). */
mf_object *mf_handle_get(uint64_t handle);
mf_object *mf_handle_get_as(uint64_t handle, const mf_class *kind); /* NULL when stale or of another kind */

static inline mf_value mf_value_new(void *object) { return (mf_value){ mf_handle_new(object) }; } /* takes the reference */
static inline mf_value mf_value_of(const void *object) { return mf_value_new(mf_retain(object)); }
static inline mf_object *mf_object_of(mf_value v) { return mf_handle_get(v.handle); }
mf_value mf_fail(mf_status status, const char *format, ...) __attribute__((format(printf, 2, 3))); /* an error value */

#endif
