/* The worker pool: threads that step ready fibers of any run and run pieces of parallel loops. Invariants: the pool's lock guards every
 * run's ready list, the list of runs and the loops; at most as many threads work at a time as there are cores to use, including helpers
 * that wait for a result. A thread without work spins for a moment if there is a core to spare (for longer while others work), and then
 * sleeps: waking a sleeper takes tens of microseconds. The pool is started when first needed, and joined when the process ends. */
#include "runtime/profile/profiler.h"
#include "runtime/comm.h"
#include "runtime/device.h"
#include "runtime/execute/run.h"

#include "base/thread/cancel.h"
#include "base/thread/stack.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define MOST_AT_ONCE      32
#define SPIN_NS           50000   /* about what waking a sleeper costs */
#define LONG_SPIN_NS      2000000 /* a device's segment, for which others wait at a rendezvous; a sleeper might wake on a busy core */
#define YIELD_NS          10000   /* if a yield takes longer, another thread has run */
#define POLL_NS           1000000
#define POLL_PAUSES       20
#define BRIEF_INTERVAL_NS 200000
#define BRIEF_WAKE_NS     1000000
#define TAKEN_BY_HELPERS  ((uint64_t)1 << 32)

typedef struct parallel_loop { /* on the stack of the thread that runs it */
    struct parallel_loop *next;
    const mf_run_state *run; /* the run whose fiber runs the loop; NULL: an inline run */
    mf_parallel_fn fn;
    void *context;
    int64_t count, start;   /* number of pieces, which are on a circle; the piece at which it begins */
    bool backwards;         /* the owner goes backwards from there; helpers go the other way */
    _Atomic uint64_t taken; /* pieces taken by the owner, plus TAKEN_BY_HELPERS times those taken by helpers */
    int inside;             /* number of helpers in it */
} parallel_loop;

typedef struct waiter { /* on the stack of a thread that waits for a result and helps meanwhile */
    struct waiter *next;
    const mf_run_state *run; /* the run that it may help; NULL: any */
} waiter;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t work, news; /* workers sleep on the first one, helpers and owners of loops on the second one */
    _Atomic bool started;
    bool stopping, may_spin, polling;
    int workers, working, limit, sleeping, waiting;
    int outside_workers;            /* threads outside the pool that work: they run loops of inline runs */
    int spinning, spinning_workers; /* threads that spin for an event and do not work; the workers among them */
    _Atomic unsigned int work_events,
        news_events; /* event counts: of work offered; of results and ends. Incremented after the lock is released */
    pthread_t *threads;
    mf_run_state *first, *last; /* runs with ready fibers */
    parallel_loop *loops;
    double met;                 /* where the last loop's owner met its helpers, as a fraction of the circle */
    int64_t brief_at, woken_at; /* when the last brief loop began; when one last woke a worker */
    waiter *waiters;
} pool = { .lock = PTHREAD_MUTEX_INITIALIZER, .work = PTHREAD_COND_INITIALIZER, .news = PTHREAD_COND_INITIALIZER };

static _Thread_local bool counted;                    /* this thread counts in pool.working */
static _Thread_local const mf_run_state *current_run; /* the run whose fiber this thread steps */
static _Thread_local bool went_forwards;              /* this thread's direction in its last loop */

/* ------------------------------------------------------------------ waiting; called with the lock held, which is released meanwhile */

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static unsigned int event_count(bool worker)
{
    return atomic_load_explicit(&pool.work_events, memory_order_acquire) +
           (worker ? 0 : atomic_load_explicit(&pool.news_events, memory_order_acquire));
}

/* The thread that will bring an event works, so at least one core is busy. */
static bool has_spare_core(bool works)
{
    int others = pool.working + pool.outside_workers - works;
    return pool.may_spin && (others > 1 ? others : 1) + pool.spinning < pool.limit;
}

/* Spins until `until`; whether an event came since `before`. */
static bool spin_for_event(bool worker, unsigned int before, int64_t until)
{
    do
        for (int i = 0; i < 16 && event_count(worker) == before; i++)
            relax();
    while (event_count(worker) == before && mf_profile_now() < until);
    return event_count(worker) != before;
}

/* The same for longer, but ends (false) if another thread wants the core. */
static bool spin_yielding(bool worker, unsigned int before, int64_t until)
{
    for (int64_t now = mf_profile_now(), yielded; now < until; now = yielded) {
        if (spin_for_event(worker, before, now + SPIN_NS / 16))
            return true;
        now = mf_profile_now();
        sched_yield();
        yielded = mf_profile_now();
        if (yielded - now > YIELD_NS)
            break;
    }
    return false;
}

/* Spins for a moment, or for as long as devices that work meanwhile may take to a rendezvous; whether an event came. If none came, the
 * caller still has to look for work before it sleeps: an event may be about to be counted. */
static bool spin(bool worker, bool works)
{
    unsigned int before = event_count(worker);
    bool others_work = pool.working + pool.outside_workers > works;
    pool.spinning += !works; /* a working thread has its core already */
    pool.spinning_workers += worker;
    pthread_mutex_unlock(&pool.lock);
    int64_t now = mf_profile_now();
    bool came = spin_for_event(worker, before, now + SPIN_NS) || (others_work && spin_yielding(worker, before, now + LONG_SPIN_NS));
    pthread_mutex_lock(&pool.lock);
    pool.spinning -= !works;
    pool.spinning_workers -= worker;
    return came;
}

/* Where messages between processes are awaited, one of the waiting threads makes progress on them, and yields its core to threads that
 * want it. False: nothing is awaited, or another thread does so; otherwise the caller has to look for work, as after spin. *in_vain:
 * nothing has come for long. */
static bool poll_messages(bool worker, bool works, bool *in_vain)
{
    mf_comm *c = mf_comm_joined();
    unsigned int before = event_count(worker);
    if (pool.polling || !c || !c->poll || !atomic_load_explicit(&c->awaited, memory_order_relaxed))
        return false;
    pool.polling = true;
    pool.spinning += !works;
    pool.spinning_workers += worker;
    pthread_mutex_unlock(&pool.lock);
    int64_t end = mf_profile_now() + POLL_NS;
    mf_comm_activity activity = c->poll(c);
    bool in_time = true;
    for (int i = 0; activity != MF_COMM_IDLE && in_time && event_count(worker) == before; i++) {
        if (i < POLL_PAUSES)
            relax();
        else
            sched_yield();
        activity = c->poll(c);
        in_time = activity == MF_COMM_MOVES || mf_profile_now() < end;
    }
    pthread_mutex_lock(&pool.lock);
    pool.polling = false;
    pool.spinning -= !works;
    pool.spinning_workers -= worker;
    *in_vain = !in_time;
    return true;
}

/* Polls messages, or spins if there is a core to spare, unless *in_vain says that the last attempt was in vain; else sleeps. */
static void wait_for_result(bool works, bool *in_vain)
{
    if (!*in_vain && poll_messages(false, works, in_vain))
        return;
    if (!*in_vain && has_spare_core(works)) {
        *in_vain = !spin(false, works);
        return;
    }
    MF_UNCANCELLED;
    pool.waiting++;
    pthread_cond_wait(&pool.news, &pool.lock);
    pool.waiting--;
}

static void wait_for_work(bool *in_vain)
{
    if (!*in_vain && poll_messages(true, false, in_vain))
        return;
    if (!*in_vain && has_spare_core(false)) {
        *in_vain = !spin(true, false);
        return;
    }
    pool.sleeping++;
    pthread_cond_wait(&pool.work, &pool.lock);
    pool.sleeping--;
}

/* Releases the lock, then counts an event, and wakes as many threads as there is work of `run` (NULL: an inline run), or all that wait
 * for news if work is 0; a woken thread finds the lock free. Threads that wait for that run are preferred to sleepers: one thread more
 * than there are cores would share a core for milliseconds. */
static void unlock_and_notify(int work, const mf_run_state *run)
{
    int sleepers = work - pool.spinning_workers;
    for (waiter *w = pool.waiters; w; w = w->next)
        sleepers -= !w->run || w->run == run;
    bool waiting = pool.waiting > 0;
    sleepers = sleepers < pool.sleeping ? sleepers : pool.sleeping;
    pthread_mutex_unlock(&pool.lock);
    atomic_fetch_add_explicit(work ? &pool.work_events : &pool.news_events, 1, memory_order_release);
    if (waiting)
        pthread_cond_broadcast(&pool.news);
    for (int i = 0; i < sleepers; i++)
        pthread_cond_signal(&pool.work);
}

/* ------------------------------------------------------------------ ready fibers; the lock is held */

static void list_run(mf_run_state *s)
{
    if (s->listed)
        return;
    s->listed = true;
    s->list_after = NULL;
    s->list_before = pool.last;
    *(pool.last ? &pool.last->list_after : &pool.first) = s;
    pool.last = s;
}

static void unlist_run(mf_run_state *s)
{
    *(s->list_before ? &s->list_before->list_after : &pool.first) = s->list_after;
    *(s->list_after ? &s->list_after->list_before : &pool.last) = s->list_before;
    s->listed = false;
}

/* Takes fibers to step one after the other: several when there are many, so that the lock is not taken for each; near the end, one. */
static mf_fiber *take_ready(mf_run_state *s)
{
    mf_fiber *first = s->ready_first, *last = first;
    if (!first)
        return NULL;
    int64_t count = s->ready_count / (4 * (int64_t)pool.limit + 1), taken = 1;
    for (; taken < count && taken < MOST_AT_ONCE; taken++)
        last = last->next;
    s->ready_count -= taken;
    s->ready_first = last->next;
    if (!s->ready_first) {
        s->ready_last = NULL;
        if (s->listed)
            unlist_run(s);
    }
    last->next = NULL;
    return first;
}

/* Steps fibers of one run. */
static void step_all(mf_fiber *list)
{
    const mf_run_state *before = current_run;
    current_run = list->run_state;
    for (mf_fiber *next; list; list = next) {
        next = list->next; /* once stepped, the fiber may be anywhere */
        list->next = NULL;
        mf_fiber_step(list);
    }
    current_run = before;
}

/* Fibers that end an exchange go to the front: other processes may wait for what they send. */
static void append(mf_run_state *s, mf_fiber *list, mf_fiber *last)
{
    if (list->exchange) {
        last->next = s->ready_first;
        s->ready_first = list;
        s->ready_last = s->ready_last ? s->ready_last : last;
        return;
    }
    *(s->ready_last ? &s->ready_last->next : &s->ready_first) = list;
    s->ready_last = last;
}

static mf_fiber nothing; /* the value of `handed_over` for an attended run to which no fibers have come */

/* Hands fibers to the thread that attends the run. False: none does. */
static bool hand_over(mf_run_state *s, mf_fiber *list, mf_fiber *last)
{
    mf_fiber *before = atomic_load_explicit(&s->handed_over, memory_order_acquire);
    do {
        if (!before)
            return false;
        last->next = before == &nothing ? NULL : before;
    } while (!atomic_compare_exchange_weak_explicit(&s->handed_over, &before, list, memory_order_release, memory_order_acquire));
    return true;
}

void mf_ready(mf_run_state *s, mf_fiber *list)
{
    mf_fiber *last = list;
    int count = 1;
    for (; last->next; last = last->next)
        count++;
    if (!s->shared) {
        append(s, list, last);
        return;
    }
    if (hand_over(s, list, last))
        return;
    pthread_mutex_lock(&pool.lock);
    append(s, list, last);
    s->ready_count += count;
    list_run(s);
    unlock_and_notify(count, s);
}

/* ------------------------------------------------------------------ start */

static void *worker(void *unused);

/* Does nothing if the pool was started; the lock is held. */
static void start(void)
{
    if (pool.started || pool.stopping)
        return;
    int wanted = mf_worker_count();
    pool.threads = mf_calloc((size_t)wanted, sizeof *pool.threads);
    pool.limit = wanted;
    pool.may_spin = wanted <= mf_core_count();
    while (pool.threads && pool.workers < wanted && mf_thread_make(&pool.threads[pool.workers], worker, NULL))
        pool.workers++;
    pool.started = pool.workers > 0;
    if (!pool.started) {
        mf_free(pool.threads);
        pool.threads = NULL;
        pool.limit = 0;
    }
}

bool mf_tasks_start(void)
{
    if (atomic_load_explicit(&pool.started, memory_order_acquire))
        return true;
    pthread_mutex_lock(&pool.lock);
    start();
    bool started = pool.started;
    pthread_mutex_unlock(&pool.lock);
    return started;
}

/* ------------------------------------------------------------------ parallel loops */

static int64_t pieces_taken(uint64_t taken) { return (int64_t)(taken % TAKEN_BY_HELPERS + taken / TAKEN_BY_HELPERS); }

/* A loop begins where the last one ended, and its threads reverse their direction: so each core begins with data that its own cache
 * still holds, and repeated loops read less from memory. The lock is held. */
static void begin_loop(parallel_loop *l)
{
    l->start = (int64_t)(pool.met * (double)l->count + 0.5) % l->count;
    l->backwards = went_forwards;
}

static void end_loop(const parallel_loop *l, int64_t owners)
{
    int64_t met = l->backwards ? l->start - owners + l->count : l->start + owners;
    pool.met = (double)(met % l->count) / (double)l->count;
}

/* Returns the number of pieces that it ran. */
static int64_t run_pieces(parallel_loop *l, bool helper)
{
    bool backwards = l->backwards != helper;
    for (int64_t done = 0;; done++) {
        uint64_t taken = atomic_fetch_add_explicit(&l->taken, helper ? TAKEN_BY_HELPERS : 1, memory_order_relaxed);
        if (pieces_taken(taken) >= l->count) {
            went_forwards = !backwards;
            return done;
        }
        int64_t before = (int64_t)(helper ? taken / TAKEN_BY_HELPERS : taken % TAKEN_BY_HELPERS);
        l->fn(l->context, (backwards ? l->start - 1 - before + l->count : l->start + before) % l->count);
    }
}

/* A loop that still has pieces; of this run, if one is given. */
static parallel_loop *open_loop(const mf_run_state *run)
{
    for (parallel_loop *l = pool.loops; l; l = l->next)
        if ((!run || l->run == run) && pieces_taken(atomic_load_explicit(&l->taken, memory_order_relaxed)) < l->count)
            return l;
    return NULL;
}

static void close_loop(parallel_loop *l)
{
    parallel_loop **at = &pool.loops;
    while (*at != l)
        at = &(*at)->next;
    *at = l->next;
    for (bool in_vain = false; l->inside;) /* helpers are in their last piece */
        wait_for_result(true, &in_vain);
}

/* A sleeper would come when a brief loop is over, and waking it costs the owner more than it saves. But where brief loops follow one
 * another, a worker is woken for the next ones; only now and then, because there may be no core for it. The lock is held. */
static bool is_worth_waking(void)
{
    int64_t now = mf_profile_now(), since = now - pool.brief_at;
    pool.brief_at = now;
    if (since > BRIEF_INTERVAL_NS || now - pool.woken_at < BRIEF_WAKE_NS)
        return false;
    pool.woken_at = now;
    return true;
}

static void parallel_for(int64_t count, mf_parallel_fn fn, void *context, bool brief)
{
    if (count < 2) {
        if (count)
            fn(context, 0);
        return;
    }
    parallel_loop l = { .run = current_run, .fn = fn, .context = context, .count = count };
    pthread_mutex_lock(&pool.lock);
    start();
    begin_loop(&l);
    if (pool.limit < 2) {
        pthread_mutex_unlock(&pool.lock);
        run_pieces(&l, false);
        return;
    }
    /* The loop is offered even if all cores are busy: one may become free a microsecond later, and the loop may take milliseconds. */
    int outside_worker = !counted, free = pool.limit - pool.working - outside_worker;
    pool.outside_workers += outside_worker;
    l.next = pool.loops;
    pool.loops = &l;
    if (free > 0 && (!brief || is_worth_waking())) {
        unlock_and_notify(count - 1 < free ? (int)count - 1 : free, current_run);
    } else {
        pthread_mutex_unlock(&pool.lock);
        if (free > 0)
            atomic_fetch_add_explicit(&pool.work_events, 1, memory_order_release);
    }
    int64_t owners = run_pieces(&l, false);
    pthread_mutex_lock(&pool.lock);
    close_loop(&l);
    end_loop(&l, owners);
    pool.outside_workers -= outside_worker;
    pthread_mutex_unlock(&pool.lock);
}

void mf_parallel_for(int64_t count, mf_parallel_fn fn, void *context) { parallel_for(count, fn, context, false); }
void mf_parallel_for_brief(int64_t count, mf_parallel_fn fn, void *context) { parallel_for(count, fn, context, true); }

/* ------------------------------------------------------------------ work */

/* Does one piece of work, if there is any and this thread may work. The lock is held before and after. */
static bool work_once(mf_run_state *preferred)
{
    if (!counted && pool.working >= pool.limit)
        return false;
    parallel_loop *l = open_loop(preferred);
    mf_fiber *f = l ? NULL : preferred ? take_ready(preferred) : pool.first ? take_ready(pool.first) : NULL;
    if (!l && !f)
        return false;
    bool comes = !counted;
    pool.working += comes;
    counted = true;
    if (l)
        l->inside++;
    pthread_mutex_unlock(&pool.lock);
    if (l)
        run_pieces(l, true);
    else
        step_all(f);
    pthread_mutex_lock(&pool.lock);
    if (comes) {
        counted = false;
        pool.working--;
    }
    if (l && --l->inside == 0) {
        unlock_and_notify(0, NULL);
        pthread_mutex_lock(&pool.lock);
    }
    return true;
}

static void *worker(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&pool.lock);
    for (bool in_vain = true; !pool.stopping;)
        if (work_once(NULL))
            in_vain = false;
        else
            wait_for_work(&in_vain);
    pthread_mutex_unlock(&pool.lock);
    return NULL;
}

/* A helper that stops helping, or waits for something that none of these threads brings, gives its place to a worker. */
static void pass_on(void)
{
    if ((pool.first || pool.loops) && pool.sleeping && pool.working < pool.limit)
        pthread_cond_signal(&pool.work);
}

/* w: what it may help meanwhile; NULL: nothing. */
static void wait_to_help(waiter *w, bool *in_vain)
{
    if (w) {
        w->next = pool.waiters;
        pool.waiters = w;
        pass_on();
    }
    wait_for_result(counted, in_vain);
    waiter **at = &pool.waiters;
    while (w && *at != w)
        at = &(*at)->next;
    if (w)
        *at = w->next;
}

void mf_tasks_help(mf_run_state *(*run)(void *context), bool (*done)(void *context), void *context)
{
    MF_UNCANCELLED;
    pthread_mutex_lock(&pool.lock);
    for (bool in_vain = false; !done(context);) {
        mf_run_state *s = run ? run(context) : NULL;
        bool helps = (s || !run) && mf_stack_has_room();
        if (helps && work_once(s))
            in_vain = false;
        else if (!done(context))
            wait_to_help(helps ? &(waiter){ .run = s } : NULL, &in_vain);
    }
    pass_on();
    pthread_mutex_unlock(&pool.lock);
}

static bool any_handed_over(const mf_run_state *s) { return atomic_load_explicit(&s->handed_over, memory_order_acquire) != &nothing; }

/* Polls for what this thread is waiting for. False: it takes too long. */
static bool poll_for_fibers(const mf_run_state *s)
{
    mf_comm *c = mf_comm_joined();
    if (!c || !c->poll)
        return false;
    int64_t end = 0; /* set after some polls: most waits are over before */
    bool in_time = true;
    for (int i = 0; in_time && !any_handed_over(s); i++) {
        if (i > POLL_PAUSES)
            sched_yield();
        else if (i)
            relax();
        int64_t now = i % 8 || !i ? 0 : mf_profile_now();
        end = now && !end ? now + SPIN_NS : end;
        in_time = c->poll(c) != MF_COMM_IDLE && now <= end;
    }
    return in_time;
}

void mf_tasks_keep(mf_run_state *s) { atomic_store_explicit(&s->handed_over, &nothing, memory_order_relaxed); }

void mf_tasks_attend(mf_run_state *s, bool (*over)(void *context), void *context)
{
    MF_UNCANCELLED;
    for (bool in_time = true; in_time && !over(context);)
        if (any_handed_over(s))
            step_all(atomic_exchange_explicit(&s->handed_over, &nothing, memory_order_acquire));
        else
            in_time = poll_for_fibers(s) || any_handed_over(s);
    if (over(context)) /* the run state may belong to another run by now */
        return;
    mf_fiber *rest = atomic_exchange_explicit(&s->handed_over, NULL, memory_order_acq_rel);
    if (rest != &nothing)
        mf_ready(s, rest);
}

bool mf_tasks_is_worker(void) { return counted; }

void mf_tasks_lock(void) { pthread_mutex_lock(&pool.lock); }

void mf_tasks_unlock(bool news)
{
    if (news)
        unlock_and_notify(0, NULL);
    else
        pthread_mutex_unlock(&pool.lock);
}

/* ------------------------------------------------------------------ stop */

/* Other threads of the program may go on until the process has ended. */
__attribute__((destructor)) static void stop(void)
{
    if (mf_process_forked())
        return;
    pthread_mutex_lock(&pool.lock);
    pthread_t *threads = pool.threads;
    int workers = pool.workers;
    pool.stopping = true;
    pthread_cond_broadcast(&pool.work);
    pthread_mutex_unlock(&pool.lock);
    for (int i = 0; i < workers; i++)
        if (!pthread_equal(threads[i], pthread_self()) || pthread_detach(threads[i])) /* a callback may call exit */
            pthread_join(threads[i], NULL);
    pthread_mutex_lock(&pool.lock);
    pool.threads = NULL;
    pool.workers = 0;
    pool.started = false;
    pthread_mutex_unlock(&pool.lock);
    mf_free(threads);
    mf_scratch_end();
}
