/* How much of its stack a thread has left, and threads whose stack is large enough. Invariants: a thread's stack bounds never change, so
 * they are asked for once. The system maps the first thread's stack page by page as it is written, and kills the process when there is no
 * memory for a page. So the pages that a kernel will need are touched here, in advance, while there is memory to spare. */
#include "base/thread/stack.h"

#include "base/memory/alloc.h"
#include "base/thread/cancel.h"

#include <signal.h>
#include <stdint.h>
#include <unistd.h>

/* Sizes in bytes. */
#define OWN_THREAD ((size_t)8 << 20)      /* stack of the library's own threads */
#define ENOUGH     ((uintptr_t)1 << 20)   /* what work needs: twice what the packed panels of a product, oneDNN and code generation use */
#define KERNELS    ((uintptr_t)192 << 10) /* 1.5 times what the largest of our kernels, the one with packed panels of a product, uses */
#define GROWTH     ((uintptr_t)256 << 10) /* how far the first thread's stack is mapped ahead at a time */
#define LAST       ((uintptr_t)48 << 10)  /* what a function that does not nest further needs, from tracing to running */

static _Thread_local struct {
    uintptr_t lowest, above; /* the bounds; above is 0 before they are asked for, 1 if they are unknown */
    uintptr_t mapped;        /* the stack is backed by memory from this address upwards */
} stack;

static void measure(void)
{
    pthread_attr_t attributes;
    void *lowest;
    size_t size;
    stack.above = 1;
    if (pthread_getattr_np(pthread_self(), &attributes))
        return;
    if (!pthread_attr_getstack(&attributes, &lowest, &size)) {
        stack.lowest = (uintptr_t)lowest;
        stack.mapped = gettid() == getpid() ? UINTPTR_MAX : stack.lowest;
        stack.above = (uintptr_t)lowest + size;
    }
    pthread_attr_destroy(&attributes);
}

/* Not inlined, so that its large frame exists only while it runs. Writes from the top down, the direction in which the system expects a
 * stack to grow. */
__attribute__((noinline)) static void grow(void)
{
    enum { PAGE = 4096 };
    volatile char pages[GROWTH];
    for (size_t at = GROWTH; at; at -= PAGE)
        pages[at - PAGE] = 0;
    stack.mapped = (uintptr_t)&pages[0];
}

static bool is_mapped(uintptr_t frame)
{
    if (frame - KERNELS < stack.mapped && mf_memory_suffices(GROWTH))
        grow();
    return frame - KERNELS >= stack.mapped;
}

bool mf_stack_has_room(void)
{
    if (!stack.above)
        measure();
    uintptr_t frame = (uintptr_t)__builtin_frame_address(0), size = stack.above - stack.lowest;
    return size > ENOUGH && frame - stack.lowest - ENOUGH < size - ENOUGH && is_mapped(frame);
}

bool mf_stack_ends(void)
{
    if (!stack.above)
        measure();
    return (uintptr_t)__builtin_frame_address(0) - stack.lowest < LAST;
}

bool mf_thread_make(pthread_t *thread, void *(*run)(void *context), void *context)
{
    static const int kept[] = { SIGPROF, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS };
    sigset_t none, before;
    pthread_attr_t large;
    sigfillset(&none);
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        sigdelset(&none, kept[i]);
    bool set = pthread_attr_init(&large) == 0 && pthread_attr_setstacksize(&large, OWN_THREAD) == 0;
    pthread_sigmask(SIG_BLOCK, &none, &before); /* the new thread inherits the mask */
    bool made = pthread_create(thread, set ? &large : NULL, run, context) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&large);
    return made;
}

typedef struct job {
    void (*fn)(void *context);
    void *context;
} job;

static void *do_job(void *of)
{
    const job *j = of;
    j->fn(j->context);
    return NULL;
}

bool mf_call_with_stack(void (*fn)(void *context), void *context)
{
    MF_UNCANCELLED;
    pthread_t thread;
    if (mf_stack_has_room())
        return fn(context), true;
    return mf_thread_make(&thread, do_job, &(job){ fn, context }) && pthread_join(thread, NULL) == 0;
}
