/* Counted objects. Invariant: an object is destroyed once, by the thread that brings its count to zero. */
#include "base/handles/object.h"

#include "base/memory/alloc.h"

void *mf_object_new(const mf_class *kind, size_t size)
{
    mf_object *o = mf_calloc(1, size);
    if (!o)
        return NULL;
    atomic_init(&o->count, 1);
    o->kind = kind;
    return o;
}

void mf_object_end(mf_object *o)
{
    if (o->kind->destroy)
        o->kind->destroy(o);
    mf_free(o);
}

void *mf_retain_if_alive(void *object)
{
    mf_object *o = object;
    int32_t n = atomic_load(&o->count);
    while (n != 0)
        if (atomic_compare_exchange_weak(&o->count, &n, n + 1))
            return o;
    return NULL;
}
