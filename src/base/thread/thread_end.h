/* Frees what the library keeps for a thread when the thread ends. */
#ifndef MF_BASE_THREAD_THREAD_END_H
#define MF_BASE_THREAD_THREAD_END_H

#include <stdbool.h>

/* Adds a function that every watched thread calls when it ends, in the order of addition. Call once for each function. */
void mf_thread_end_add(void (*leave)(void));
/* Watches this thread from now on. If that is impossible, what the library keeps for it stays until the process ends; this is warned of
 * once. */
void mf_thread_watch(void);

#endif
