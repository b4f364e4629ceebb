/* How much of its stack a thread has left, and threads with enough of it. Invariants: a thread's bounds never change, so they are asked
 * for once; the first thread's stack, which the system maps when it is first written to, and ends the process where it cannot, is written to
 * here, where there is memory to spare, before a kernel needs it. */
#include "base/room.h"

#include "base/alloc.h"
#include "base/cancel.h"

#include <signal.h>
#include <stdint.h>
#include <unistd.h>

#define ROOM ((uintptr_t)1 << 20) /* what the packed panels of a product, oneDNN and code generation use, twice over */

#define KERNEL_STACK ((size_t)8 << 20)

#define KERNELS ((uintptr_t)192 << 10) /* what the packed panels of a product take, the most of our kernels, and half as much again */
#define GROWTH  ((uintptr_t)256 << 10)

#define TIGHT ((uintptr_t)48 << 10) /* what a function that nests no further needs, from tracing to running */

static _Thread_local struct {
    uintptr_t lowest, above; /* the stack's bounds; above 0: not asked yet, 1: not known */
    uintptr_t mapped;        /* from here on the stack is there */
} roomy;

static void measure(void)
{
    pthread_attr_t attributes;
    void *lowest;
    size_t size;
    roomy.above = 1;
    if (pthread_getattr_np(pthread_self(), &attributes))
        return;
    if (!pthread_attr_getstack(&attributes, &lowest, &size)) {
        roomy.lowest = (uintptr_t)lowest;
        roomy.mapped = gettid() == getpid() ? UINTPTR_MAX : roomy.lowest;
        roomy.above = (uintptr_t)lowest + size;
    }
    pthread_attr_destroy(&attributes);
}

/* A frame of its own, so that nobody has one so large who only asks. From the top down, as the system expects a stack to grow. */
__attribute__((noinline)) static void grow(void)
{
    enum { PAGE = 4096 };
    volatile char pages[GROWTH];
    for (size_t at = GROWTH; at; at -= PAGE)
        pages[at - PAGE] = 0;
    roomy.mapped = (uintptr_t)&pages[0];
}

static bool is_mapped(uintptr_t frame)
{
    if (frame - KERNELS < roomy.mapped && mf_memory_to_spare(GROWTH))
        grow();
    return frame - KERNELS >= roomy.mapped;
}

bool mf_stack_has_room(void)
{
    if (!roomy.above)
        measure();
    uintptr_t frame = (uintptr_t)__builtin_frame_address(0), size = roomy.above - roomy.lowest;
    return size > ROOM && frame - roomy.lowest - ROOM < size - ROOM && is_mapped(frame);
}

bool mf_stack_ends(void)
{
    if (!roomy.above)
        measure();
    return (uintptr_t)__builtin_frame_address(0) - roomy.lowest < TIGHT;
}

bool mf_thread_make(pthread_t *thread, void *(*run)(void *context), void *context)
{
    static const int kept[] = { SIGPROF, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS };
    sigset_t none, before;
    pthread_attr_t roomy;
    sigfillset(&none);
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        sigdelset(&none, kept[i]);
    bool large = pthread_attr_init(&roomy) == 0 && pthread_attr_setstacksize(&roomy, KERNEL_STACK) == 0;
    pthread_sigmask(SIG_BLOCK, &none, &before); /* which the new one takes over */
    bool made = pthread_create(thread, large ? &roomy : NULL, run, context) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&roomy);
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

bool mf_with_room(void (*fn)(void *context), void *context)
{
    MF_UNCANCELLED;
    pthread_t thread;
    if (mf_stack_has_room())
        return fn(context), true;
    return mf_thread_make(&thread, do_job, &(job){ fn, context }) && pthread_join(thread, NULL) == 0;
}
