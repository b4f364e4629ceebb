/* A growing array of one type, over mf_grow: zeroes are an empty one, mf_free(v.at) ends it. */
#ifndef MF_BASE_VECTOR_H
#define MF_BASE_VECTOR_H

#include "base/alloc.h"

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

#endif
