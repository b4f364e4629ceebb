/* Counted objects: everything a handle can name (arrays, trees, tracers, errors, functions, states) starts with an mf_object.
 * Invariant: an object is alive while its count is positive; its class, an address, is its kind. Counting is atomic, so any
 * thread may retain and drop; what an object holds is immutable unless its own file says otherwise. */
#ifndef MF_BASE_HANDLES_OBJECT_H
#define MF_BASE_HANDLES_OBJECT_H

#include <manyfold/base.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mf_object mf_object;

/* A kind of object. Two objects are of one kind when they point to the same class. */
typedef struct mf_class {
    const char *name;
    void (*destroy)(mf_object *o); /* gives up what o holds, not o itself; may be NULL */
} mf_class;

struct mf_object {
    _Atomic int32_t count;
    const mf_class *kind;
};

/* A zeroed object of `size` bytes with count 1, or NULL when memory is out. */
void *mf_object_new(const mf_class *kind, size_t size);
void mf_object_end(mf_object *o); /* its count has reached zero */

/* Returns its argument; NULL is allowed. */
static inline void *mf_retain(const void *object)
{
    mf_object *o = (mf_object *)(uintptr_t)object;
    if (o)
        atomic_fetch_add_explicit(&o->count, 1, memory_order_relaxed);
    return o;
}

/* NULL is allowed. */
static inline void mf_drop(const void *object)
{
    mf_object *o = (mf_object *)(uintptr_t)object;
    if (o && atomic_fetch_sub_explicit(&o->count, 1, memory_order_acq_rel) == 1)
        mf_object_end(o);
}

/* Returns a new reference, or NULL when o is already being destroyed. For tables of weak references; call it with the lock held that the
 * object's destroy function takes. */
void *mf_retain_if_alive(void *object);
/* The count of a static object, which lives as long as the process: no number of drops brings it to zero. */
#define MF_IMMORTAL (INT32_MIN / 2)

static inline bool mf_object_is(const mf_object *o, const mf_class *kind) { return o && o->kind == kind; }

#endif
