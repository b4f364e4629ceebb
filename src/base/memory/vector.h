/* Arrays of one type whose count is known only when running: MF_VECTOR grows, over mf_grow: zeroes are an empty one, mf_free(v.at) ends it.
 * MF_SMALL_ARRAY does not. */
#ifndef MF_BASE_MEMORY_VECTOR_H
#define MF_BASE_MEMORY_VECTOR_H

#include "base/memory/alloc.h"

#include <stdbool.h>

#define MF_VECTOR(type)      \
    struct {                 \
        type *at;            \
        int count, capacity; \
    }

/* Room for `more` elements beyond count; false when memory is out. */
#define mf_vector_room(v, more) (mf_grow(&(v)->at, &(v)->capacity, (v)->count + (more), sizeof *(v)->at))
/* Appends an element; false when memory is out. */
#define mf_vector_push(v, ...) (mf_vector_room(v, 1) ? ((v)->at[(v)->count++] = (__VA_ARGS__), true) : false)

/* Declares `type *name` of `count` elements, uninitialised, that end with the block: on the stack up to `few`, else in memory; NULL when that
 * is out. The macro is a declaration and cannot be the body of an if. */
#define MF_SMALL_ARRAY(type, name, few, count)                             \
    type name##_few[few];                                                  \
    __attribute__((cleanup(mf_small_array_end))) void *name##_more = NULL; \
    type *name = (size_t)(count) <= (few) ? name##_few : (name##_more = mf_alloc((size_t)(count) * sizeof(type)))
static inline void mf_small_array_end(void *more)
{
    if (*(void **)more) /* seldom, and no call then */
        mf_free(*(void **)more);
}

#endif
