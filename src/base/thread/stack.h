/* The stack of the calling thread: whether it is large enough for kernels, which keep arrays there, and for deeper nesting; and threads whose
 * stack always is. */
#ifndef MF_BASE_THREAD_STACK_H
#define MF_BASE_THREAD_STACK_H

#include <pthread.h>
#include <stdbool.h>

/* At least 1 MiB is left, which is what work needs. False also on a stack that is not the thread's own (a coroutine's). A thread's bounds are
 * asked for at its first call; after that it is one comparison. */
bool mf_stack_has_room(void);
/* So little is left of the thread's own stack that functions may not call one another any deeper. */
bool mf_stack_ends(void);

/* Starts a thread of the library's own, with a stack of 8 MiB whatever the process's limit is. It blocks the host program's signals: all but
 * SIGPROF, with which profilers sample every thread, and those of its own faults. False: the system refuses. */
bool mf_thread_make(pthread_t *thread, void *(*run)(void *context), void *context);
/* Calls fn(context) and waits: here, or on a new thread where this one's stack is too small. False: the system refuses that thread. */
bool mf_call_with_stack(void (*fn)(void *context), void *context);

#endif
