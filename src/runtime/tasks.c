/* The worker pool: threads that step ready fibers of any run and pieces of parallel loops. Invariants: the pool's lock guards every
 * stage's ready list, the list of stages and the loops; at most as many threads work at a time as there are cores to use, helpers that wait
 * for a result included; who has nothing to do sleeps. The pool is made at first need and joined when the process ends. */
#include "runtime/run.h"

#include <stdlib.h>
#include <string.h>

#define MOST_AT_ONCE 32

typedef struct loop { /* on the stack of the thread that runs it */
    struct loop *next;
    mf_parallel_fn fn;
    void *context;
    int64_t count;
    _Atomic int64_t taken;
    int inside; /* helpers that are in it */
} loop;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t work, news; /* workers sleep on the first, helpers and owners of loops on the second */
    bool started, stopping;
    int workers, working, limit, sleeping, waiting;
    pthread_t *threads;
    mf_stage *first, *last; /* stages with ready fibers */
    loop *loops;
} pool = { .lock = PTHREAD_MUTEX_INITIALIZER, .work = PTHREAD_COND_INITIALIZER, .news = PTHREAD_COND_INITIALIZER };

static _Thread_local bool counted; /* this thread is one of those that work */

/* ------------------------------------------------------------------ a thread's own memory */

#define SCRATCH_KEPT  ((size_t)1 << 20) /* more is worth a visit to the allocator of arrays */
#define SCRATCH_ALIGN 64

/* Small scratch stays with its thread and is no array's memory: what is live does not depend on which threads happened to work. */
static _Thread_local struct {
    char *kept; /* kept_bytes, and SCRATCH_ALIGN more */
    size_t kept_bytes;
    void *large;
    size_t large_bytes;
    void **pointers;
    int capacity;
} own;

static pthread_key_t own_key;
static pthread_once_t own_once = PTHREAD_ONCE_INIT;

static void own_end(void *unused)
{
    (void)unused;
    mf_scratch_done();
    mf_free(own.kept);
    mf_free(own.pointers);
    memset(&own, 0, sizeof own);
}

static void own_make(void) { pthread_key_create(&own_key, own_end); }

static void own_touch(void)
{
    pthread_once(&own_once, own_make);
    pthread_setspecific(own_key, &own);
}

void mf_scratch_done(void)
{
    mf_memory_put(own.large, own.large_bytes);
    own.large = NULL;
}

static void *large_scratch(size_t bytes)
{
    mf_scratch_done();
    own_touch();
    own.large = mf_memory_get(bytes);
    own.large_bytes = bytes;
    return own.large;
}

void *mf_scratch(size_t bytes)
{
    if (bytes > SCRATCH_KEPT)
        return large_scratch(bytes);
    if (bytes > own.kept_bytes) {
        own_touch();
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
    own_touch();
    int capacity = own.capacity;
    if (!mf_grow(&own.pointers, &capacity, count + 1, sizeof *own.pointers))
        return NULL;
    own.capacity = capacity;
    return own.pointers;
}

/* ------------------------------------------------------------------ ready fibers; the lock is held */

static void list_stage(mf_stage *s)
{
    if (s->listed)
        return;
    s->listed = true;
    s->list_after = NULL;
    s->list_before = pool.last;
    *(pool.last ? &pool.last->list_after : &pool.first) = s;
    pool.last = s;
}

static void unlist_stage(mf_stage *s)
{
    *(s->list_before ? &s->list_before->list_after : &pool.first) = s->list_after;
    *(s->list_after ? &s->list_after->list_before : &pool.last) = s->list_before;
    s->listed = false;
}

/* Fibers to step one after the other: when there are many, several, so that the lock is not taken for each; near the end, one. */
static mf_fiber *take_ready(mf_stage *s)
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
            unlist_stage(s);
    }
    last->next = NULL;
    return first;
}

static void step_all(mf_fiber *list)
{
    for (mf_fiber *next; list; list = next) {
        next = list->next; /* once stepped, the fiber may be anywhere */
        list->next = NULL;
        mf_fiber_step(list);
    }
}

static void wake(int count)
{
    if (pool.waiting)
        pthread_cond_broadcast(&pool.news);
    for (int i = 0; i < count && i < pool.sleeping; i++)
        pthread_cond_signal(&pool.work);
}

void mf_ready(mf_stage *s, mf_fiber *list)
{
    mf_fiber *last = list;
    int count = 1;
    for (; last->next; last = last->next)
        count++;
    if (s->shared)
        pthread_mutex_lock(&pool.lock);
    *(s->ready_last ? &s->ready_last->next : &s->ready_first) = list;
    s->ready_last = last;
    if (!s->shared)
        return;
    s->ready_count += count;
    list_stage(s);
    wake(count);
    pthread_mutex_unlock(&pool.lock);
}

/* ------------------------------------------------------------------ parallel loops */

static void run_pieces(loop *l)
{
    for (;;) {
        int64_t i = atomic_fetch_add_explicit(&l->taken, 1, memory_order_relaxed);
        if (i >= l->count)
            return;
        l->fn(l->context, i);
    }
}

static loop *open_loop(void)
{
    for (loop *l = pool.loops; l; l = l->next)
        if (atomic_load_explicit(&l->taken, memory_order_relaxed) < l->count)
            return l;
    return NULL;
}

static void close_loop(loop *l)
{
    loop **at = &pool.loops;
    while (*at != l)
        at = &(*at)->next;
    *at = l->next;
    while (l->inside) { /* they are in their last piece */
        pool.waiting++;
        pthread_cond_wait(&pool.news, &pool.lock);
        pool.waiting--;
    }
}

void mf_parallel_for(int64_t count, mf_parallel_fn fn, void *context)
{
    if (count < 2) {
        if (count)
            fn(context, 0);
        return;
    }
    loop l = { .fn = fn, .context = context, .count = count };
    pthread_mutex_lock(&pool.lock);
    int busy = pool.working + !counted;
    int free = pool.limit - busy;
    bool helped = pool.sleeping > 0 && free > 0;
    if (helped) {
        l.next = pool.loops;
        pool.loops = &l;
        wake(count - 1 < free ? (int)count - 1 : free);
    }
    pthread_mutex_unlock(&pool.lock);
    run_pieces(&l);
    if (!helped)
        return;
    pthread_mutex_lock(&pool.lock);
    close_loop(&l);
    pthread_mutex_unlock(&pool.lock);
}

/* ------------------------------------------------------------------ working */

/* One piece of work, if there is some and this thread may: the lock is held, and held again afterwards. */
static bool work_once(mf_stage *preferred)
{
    if (!counted && pool.working >= pool.limit)
        return false;
    loop *l = preferred ? NULL : open_loop();
    mf_fiber *f = l ? NULL : preferred ? take_ready(preferred) : pool.first ? take_ready(pool.first) : NULL;
    if (!l && !f)
        return false;
    bool enter = !counted;
    pool.working += enter;
    counted = true;
    if (l)
        l->inside++;
    pthread_mutex_unlock(&pool.lock);
    if (l)
        run_pieces(l);
    else
        step_all(f);
    pthread_mutex_lock(&pool.lock);
    if (l && --l->inside == 0 && pool.waiting)
        pthread_cond_broadcast(&pool.news);
    if (enter) {
        counted = false;
        pool.working--;
    }
    return true;
}

static void *worker(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&pool.lock);
    while (!pool.stopping) {
        if (work_once(NULL))
            continue;
        pool.sleeping++;
        pthread_cond_wait(&pool.work, &pool.lock);
        pool.sleeping--;
    }
    pthread_mutex_unlock(&pool.lock);
    return NULL;
}

/* A helper that stops helping leaves its place to a worker. */
static void pass_on(void)
{
    if ((pool.first || pool.loops) && pool.sleeping)
        pthread_cond_signal(&pool.work);
}

void mf_tasks_help(mf_stage *(*stage)(void *context), bool (*done)(void *context), void *context)
{
    pthread_mutex_lock(&pool.lock);
    while (!done(context)) {
        mf_stage *s = stage ? stage(context) : NULL;
        if ((s || !stage) && work_once(s))
            continue;
        if (done(context))
            break;
        pool.waiting++;
        pthread_cond_wait(&pool.news, &pool.lock);
        pool.waiting--;
    }
    pass_on();
    pthread_mutex_unlock(&pool.lock);
}

bool mf_tasks_is_worker(void) { return counted; }

void mf_tasks_lock(void) { pthread_mutex_lock(&pool.lock); }

void mf_tasks_unlock(bool news)
{
    if (news && pool.waiting)
        pthread_cond_broadcast(&pool.news);
    pthread_mutex_unlock(&pool.lock);
}

/* ------------------------------------------------------------------ beginning and end */

__attribute__((destructor)) static void stop(void)
{
    if (!pool.started || atomic_load(&mf_process_forked))
        return;
    pthread_mutex_lock(&pool.lock);
    pool.stopping = true;
    pthread_cond_broadcast(&pool.work);
    pthread_mutex_unlock(&pool.lock);
    for (int i = 0; i < pool.workers; i++)
        pthread_join(pool.threads[i], NULL);
    mf_free(pool.threads);
    pool.threads = NULL;
    pool.workers = 0;
    pool.started = false;
    own_end(NULL);
}

/* The lock is held. */
static void start(void)
{
    int wanted = mf_worker_count();
    pool.threads = mf_calloc((size_t)wanted, sizeof *pool.threads);
    pool.limit = wanted;
    while (pool.threads && pool.workers < wanted && !pthread_create(&pool.threads[pool.workers], NULL, worker, NULL))
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
    mf_error_watch_forks();
    pthread_mutex_lock(&pool.lock);
    if (!pool.started && !pool.stopping)
        start();
    bool started = pool.started;
    pthread_mutex_unlock(&pool.lock);
    return started;
}
