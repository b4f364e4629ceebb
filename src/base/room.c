/* How much of its stack a thread has left. Invariant: a thread's bounds never change, so they are asked for once. */
#include "base/room.h"

#include <pthread.h>
#include <stdint.h>

#define ROOM ((uintptr_t)1 << 20) /* what the packed panels of a product, oneDNN and code generation use, twice over */

#define TIGHT ((uintptr_t)48 << 10) /* what a function that nests no further needs, from tracing to running */

static _Thread_local struct {
    uintptr_t lowest, from, size; /* a frame in the size bytes from `from` on has room below it; size 0: not asked yet */
} roomy;

static void measure(void)
{
    pthread_attr_t attributes;
    void *lowest;
    size_t size;
    roomy.from = UINTPTR_MAX;
    roomy.size = 1;
    if (pthread_getattr_np(pthread_self(), &attributes))
        return;
    if (!pthread_attr_getstack(&attributes, &lowest, &size)) {
        roomy.lowest = (uintptr_t)lowest;
        if (size > ROOM) {
            roomy.from = (uintptr_t)lowest + ROOM;
            roomy.size = size - ROOM;
        }
    }
    pthread_attr_destroy(&attributes);
}

bool mf_stack_has_room(void)
{
    if (!roomy.size)
        measure();
    return (uintptr_t)__builtin_frame_address(0) - roomy.from < roomy.size;
}

bool mf_stack_ends(void)
{
    if (!roomy.size)
        measure();
    return (uintptr_t)__builtin_frame_address(0) - roomy.lowest < TIGHT;
}
