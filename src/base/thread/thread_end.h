/* What the library keeps for a thread ends with the thread. */
#ifndef MF_BASE_THREAD_THREAD_END_H
#define MF_BASE_THREAD_THREAD_END_H

#include <stdbool.h>

/* leave() is called in every watched thread when it ends, after the functions that were added before. Once for each function. */
void mf_thread_end_add(void (*leave)(void));
/* Watches this thread from now on; where that fails, what it keeps stays until the process ends, with one warning. */
void mf_thread_watch(void);

#endif
