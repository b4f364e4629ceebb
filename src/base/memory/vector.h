/* Arrays whose length is known only at run time. MF_VECTOR grows (by mf_grow): a zeroed one is empty, mf_free(v.at) frees it.
 * MF_SMALL_ARRAY has a fixed length. */
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
#define mf_vector_reserve(v, more) (mf_grow(&(v)->at, &(v)->capacity, (v)->count + (more), sizeof *(v)->at))
/* Appends an element; false when memory is out. */
#define mf_vector_push(v, ...) (mf_vector_reserve(v, 1) ? ((v)->at[(v)->count++] = (__VA_ARGS__), true) : false)

/* Declares `type *name`, an array of `count` uninitialised elements that lives until the end of the block: on the stack up to `few`
 * elements, else on the heap; NULL when out of memory. The macro is a declaration and cannot be the body of an if. */
#define MF_SMALL_ARRAY(type, name, few, count)                             \
    type name##_few[few];                                                  \
    __attribute__((cleanup(mf_small_array_end))) void *name##_more = NULL; \
    type *name = (size_t)(count) <= (few) ? name##_few : (name##_more = mf_alloc((size_t)(count) * sizeof(type)))
static inline void mf_small_array_end(void *more)
{
    if (*(void **)more) /* tested here, so that the usual case makes no call */
        mf_free(*(void **)more);
}

#endif
