/* The driver: the thread that makes progress on messages where no other thread polls, and sleeps between polls. Invariant: it holds the
 * lock only while it polls, and calls every `done` without it. */
#include "comm/messages/protocol.h"

#include "base/thread/stack.h"
#include "runtime/profile/profiler.h"

#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NAP_MOVING (300 * 1000) /* while payloads move: a wake costs the devices 50 us, and a socket buffers what comes in 300 */
#define NAP_IDLE   (10 * MS)
#define AWAKE_FOR  (50 * MS) /* how long the driver stays awake after the last operation, so that the next one need not wake it */

/* How long to sleep: shorter the more recently something came; longest while a waiting thread polls, or while nothing is awaited. */
static int64_t nap_of(mf_messages *m, int64_t now, int64_t came, bool moves, unsigned *polls)
{
    unsigned before = *polls;
    *polls = atomic_load(&m->polls);
    if (!atomic_load(&m->comm.awaited) || *polls != before)
        return NAP_MAX;
    int64_t nap = (now - came) / 8, most = moves ? NAP_MOVING : NAP_MAX;
    return nap < NAP_MIN ? NAP_MIN : nap < most ? nap : most;
}

/* Sleeps until an operation begins, for NAP_IDLE at most. */
static void sleep_idle(mf_messages *m)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += NAP_IDLE;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&m->lock);
    m->idle = !m->stopping && !atomic_load(&m->comm.awaited);
    if (m->idle)
        pthread_cond_timedwait(&m->news, &m->lock, &until);
    m->idle = false;
    pthread_mutex_unlock(&m->lock);
}

/* Where all cores are busy, a thread that wakes waits for the end of another thread's time slice, some milliseconds. A thread that asks
 * for short slices is scheduled sooner (Linux 6.12; before it, and where it is refused, nothing changes). */
static void ask_for_short_slices(void)
{
    struct { /* struct sched_attr, which glibc does not declare yet */
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime, deadline, period; /* ns */
    } wanted = { .size = sizeof wanted };
    if (syscall(SYS_sched_getattr, 0, &wanted, sizeof wanted, 0) == 0 && wanted.policy == 0 /* SCHED_OTHER */) {
        wanted.runtime = 100 * 1000;
        syscall(SYS_sched_setattr, 0, &wanted, 0);
    }
}

static void *drive(void *at)
{
    mf_messages *m = at;
    int64_t came = mf_profile_now(), awaited = came;
    unsigned polls = 0;
    prctl(PR_SET_TIMERSLACK, 1000); /* ns: so that short naps are short */
    ask_for_short_slices();
    for (bool stopping = false; !stopping;) {
        mf_operation *finished = NULL;
        pthread_mutex_lock(&m->lock);
        bool some = mf_messages_progress(m, &finished), moves = m->moving;
        stopping = m->stopping;
        pthread_mutex_unlock(&m->lock);
        mf_operations_call_back(m, finished);
        int64_t now = mf_profile_now();
        came = some ? now : came;
        awaited = atomic_load(&m->comm.awaited) ? now : awaited;
        if (now - awaited > AWAKE_FOR)
            sleep_idle(m);
        else
            nanosleep(&(struct timespec){ 0, nap_of(m, now, came, moves, &polls) }, NULL);
    }
    return NULL;
}

void mf_driver_stop(mf_messages *m)
{
    pthread_mutex_lock(&m->lock);
    bool running = !m->stopping;
    m->stopping = true;
    pthread_cond_signal(&m->news);
    pthread_mutex_unlock(&m->lock);
    if (running)
        pthread_join(m->driver, NULL);
}

bool mf_driver_start(mf_messages *m) { return mf_thread_make(&m->driver, drive, m); }
