/* Cancellation of the calling thread (pthread_cancel). Invariant: a cancelled thread never leaves the library in the middle of something.
 * Functions that may block, touch files or call the user's functions disable cancellation until they return; those that only compute
 * contain no cancellation point. */
#ifndef MF_BASE_THREAD_CANCEL_H
#define MF_BASE_THREAD_CANCEL_H

#include <pthread.h>

static inline int mf_cancel_hold(void) /* returns the previous state, for mf_cancel_free */
{
    int before = PTHREAD_CANCEL_ENABLE;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    return before;
}
static inline void mf_cancel_free(int before) { pthread_setcancelstate(before, &before); }
static inline void mf_cancel_free_at_(const int *before) { mf_cancel_free(*before); }

/* At the top of a block: no cancellation until the block is left. */
#define MF_UNCANCELLED const int mf_cancel_here_ __attribute__((cleanup(mf_cancel_free_at_), unused)) = mf_cancel_hold()

#endif
