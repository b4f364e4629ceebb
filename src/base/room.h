/* Whether the calling thread's stack has room: for the arrays that kernels keep there, for more nesting. And threads that have. */
#ifndef MF_BASE_ROOM_H
#define MF_BASE_ROOM_H

#include <pthread.h>
#include <stdbool.h>

/* False also on a stack that is not the thread's own (a coroutine's). Measured at a thread's first call, then one comparison. */
bool mf_stack_has_room(void);
/* Whether so little is left of the thread's own stack that functions may not call one another deeper. */
bool mf_stack_ends(void);

/* A thread of the library's own. It has room always, whatever the process's limit is, and the host's signals are not for it: but for
 * SIGPROF, which asks every thread, it gets none but its own faults. */
bool mf_thread_make(pthread_t *thread, void *(*run)(void *context), void *context);
/* fn(context) where there is room, here or on a thread that ends with it. False: the system refuses one. */
bool mf_with_room(void (*fn)(void *context), void *context);

#endif
