/* A thread's working memory: scratch for kernels, and arrays for the pointers they get. It grows, is kept between steps, and ends with the
 * thread.
 * Invariant: a run that is started by a callback gets memory of its own (mf_run_memory_suspend), so memory in use is not handed out
 * twice. */
#include "base/thread/thread_end.h"
#include "runtime/execute/run.h"
#include "trace/dispatch.h"

#include <string.h>

#define SCRATCH_KEPT  ((size_t)1 << 20) /* larger scratch comes from the allocator of arrays */
#define SCRATCH_ALIGN 64

/* Small scratch stays with its thread and does not count as array memory, so the amount of live memory does not depend on which threads
 * have worked. */
typedef struct thread_memory {
    char *kept; /* kept_bytes + SCRATCH_ALIGN bytes */
    size_t kept_bytes;
    void *large;
    size_t large_bytes;
    void **pointers;
    int capacity;
} thread_memory;
static _Thread_local thread_memory own;

static pthread_once_t once = PTHREAD_ONCE_INIT;

void mf_scratch_end(void)
{
    mf_scratch_done();
    mf_free(own.kept);
    mf_free(own.pointers);
    memset(&own, 0, sizeof own);
}

static void add_end(void) { mf_thread_end_add(mf_scratch_end); }

void *mf_run_memory_suspend(void)
{
    thread_memory *suspended = mf_alloc(sizeof *suspended);
    if (suspended) {
        *suspended = own;
        memset(&own, 0, sizeof own);
    }
    return suspended;
}

void mf_run_memory_resume(void *suspended)
{
    mf_scratch_end();
    own = *(thread_memory *)suspended;
    mf_free(suspended);
}

static void watch_thread(void)
{
    pthread_once(&once, add_end);
    mf_thread_watch();
}

void mf_scratch_done(void)
{
    mf_memory_put(own.large, own.large_bytes);
    own.large = NULL;
}

static void *large_scratch(size_t bytes)
{
    mf_scratch_done();
    watch_thread();
    own.large = mf_memory_get(bytes);
    own.large_bytes = bytes;
    return own.large;
}

void *mf_scratch(size_t bytes)
{
    if (bytes > SCRATCH_KEPT)
        return large_scratch(bytes);
    if (bytes > own.kept_bytes) {
        watch_thread();
        mf_free(own.kept);
        own.kept = mf_alloc(bytes + SCRATCH_ALIGN);
        own.kept_bytes = own.kept ? bytes : 0;
    }
    return own.kept ? own.kept + (SCRATCH_ALIGN - (uintptr_t)own.kept % SCRATCH_ALIGN) % SCRATCH_ALIGN : NULL;
}

void **mf_pointers(int count)
{
    if (count < own.capacity)
        return own.pointers;
    watch_thread();
    int capacity = own.capacity;
    if (!mf_grow(&own.pointers, &capacity, count + 1, sizeof *own.pointers))
        return NULL;
    own.capacity = capacity;
    return own.pointers;
}
