/* Stack space: whether the calling thread has enough for kernels, which keep arrays on the stack, and for deeper nesting; and threads that
 * always have enough. */
#ifndef MF_BASE_THREAD_STACK_H
#define MF_BASE_THREAD_STACK_H

#include <pthread.h>
#include <stdbool.h>

/* Whether at least 1 MiB is left, which is what work needs. False also on a stack that is not the thread's own (a coroutine's). The first
 * call on a thread looks its bounds up; later calls are one comparison. */
bool mf_stack_has_room(void);
/* Whether so little of the thread's own stack is left that functions must not nest any deeper. */
bool mf_stack_ends(void);

/* Starts a thread of the library's own, with a stack of 8 MiB whatever the process's limit. It blocks all signals except SIGPROF, with
 * which profilers sample every thread, and those that report its own faults. False: the system refused. */
bool mf_thread_make(pthread_t *thread, void *(*run)(void *context), void *context);
/* Calls fn(context) and returns when it is done; runs it on a new thread if this one's stack is too small. False: the system refused the
 * thread. */
bool mf_call_with_stack(void (*fn)(void *context), void *context);

#endif
