/* Prefetching: threads take the numbers of batches in turn, make the batches and store them in a ring buffer. Invariants: batch n is stored
 * in place n modulo place_count, so it is made only after the batch before it in that place has been taken; there are two locks, and the
 * caller never takes `turn`, under which rows are chosen and shuffled, so it waits only for its batch. */
#include "data/loader.h"

#include <signal.h>
#include <stdlib.h>

typedef struct helper {
    mf_prefetch *all;
    mf_bench bench;
    pthread_t thread;
    bool started;
} helper;

struct mf_prefetch {
    mf_loader *loader;
    helper *helpers;
    int64_t helper_count;
    pthread_mutex_t turn; /* taken before lock; guards the loader's order, and makes helpers take numbers one at a time */
    pthread_mutex_t lock; /* guards the members below */
    pthread_cond_t made, taken;
    int64_t next;        /* the next batch to be made */
    int64_t wanted;      /* the next batch that the caller will take */
    uint64_t generation; /* changes with every seek: batches begun before it are dropped */
    bool stop;
    int64_t place_count;
    mf_value *places; /* kept batches; unset: empty */
};

/* Waits until there is room for another batch and takes its number. False if the prefetcher is being closed. */
static bool take_number(mf_prefetch *p, int64_t *number, uint64_t *generation)
{
    (void)pthread_mutex_lock(&p->lock);
    while (!p->stop && p->next >= p->wanted + p->place_count)
        (void)pthread_cond_wait(&p->taken, &p->lock);
    bool go_on = !p->stop;
    if (go_on) {
        *number = p->next++;
        *generation = p->generation;
    }
    (void)pthread_mutex_unlock(&p->lock);
    return go_on;
}

/* Drops a batch that nobody has requested; mf_error_status marks its error, if it is one, as handled. */
static void discard(mf_value batch)
{
    (void)mf_error_status(batch);
    mf_release(batch);
}

static void put_batch(mf_prefetch *p, int64_t number, uint64_t generation, mf_value batch)
{
    (void)pthread_mutex_lock(&p->lock);
    bool wanted = generation == p->generation && !p->stop;
    if (wanted) {
        p->places[number % p->place_count] = batch;
        (void)pthread_cond_broadcast(&p->made);
    }
    (void)pthread_mutex_unlock(&p->lock);
    if (!wanted)
        discard(batch);
}

static void *make_batches(void *context)
{
    helper *h = context;
    mf_prefetch *p = h->all;
    for (;;) {
        MF_SCOPE;
        int64_t number, began;
        uint64_t generation;
        (void)pthread_mutex_lock(&p->turn);
        bool go_on = take_number(p, &number, &generation);
        if (go_on) {
            began = mf_profiler_begin();
            mf_bench_choose(&h->bench, p->loader, number);
        }
        (void)pthread_mutex_unlock(&p->turn);
        if (!go_on)
            return NULL;
        mf_value batch = mf_bench_make(&h->bench, p->loader);
        (void)mf_block_until_ready(batch);
        batch = mf_keep(batch);
        mf_profiler_end(began, "make a batch");
        put_batch(p, number, generation, batch);
    }
}

/* Makes an error of a helper thread anew, so that it belongs to the call that takes the batch. */
static mf_value remake_error(mf_value batch)
{
    mf_value error = mf_keep(mf_make_error(mf_error_status(batch), "%s", mf_error(batch)));
    mf_release(batch);
    return error;
}

mf_value mf_prefetch_take(mf_prefetch *p, int64_t position)
{
    (void)pthread_mutex_lock(&p->lock);
    mf_value *at = &p->places[position % p->place_count];
    int64_t began = at->handle ? 0 : mf_profiler_begin();
    while (!at->handle)
        (void)pthread_cond_wait(&p->made, &p->lock);
    mf_value batch = *at;
    *at = (mf_value){ 0 };
    p->wanted = position + 1;
    (void)pthread_cond_broadcast(&p->taken);
    (void)pthread_mutex_unlock(&p->lock);
    if (began)
        mf_profiler_end(began, "wait for a batch");
    return mf_is_error(batch) ? remake_error(batch) : batch;
}

static void clear_places(mf_prefetch *p)
{
    for (int64_t i = 0; i < p->place_count; i++)
        if (p->places[i].handle) {
            discard(p->places[i]);
            p->places[i] = (mf_value){ 0 };
        }
}

void mf_prefetch_seek(mf_prefetch *p, int64_t position)
{
    (void)pthread_mutex_lock(&p->lock);
    p->generation++;
    p->next = p->wanted = position;
    clear_places(p);
    (void)pthread_cond_broadcast(&p->taken);
    (void)pthread_mutex_unlock(&p->lock);
}

/* All signals are blocked in the helpers: they are for the program's own threads. */
static void start(helper *h)
{
    sigset_t all, before;
    sigfillset(&all);
    (void)pthread_sigmask(SIG_BLOCK, &all, &before);
    h->started = mf_bench_open(&h->bench, h->all->loader) && pthread_create(&h->thread, NULL, make_batches, h) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
}

mf_prefetch *mf_prefetch_open(mf_loader *l, int64_t position)
{
    mf_prefetch *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->loader = l;
    p->place_count = l->options.prefetch;
    p->helper_count = l->options.workers ? l->options.workers : 1;
    p->next = p->wanted = position;
    p->places = calloc((size_t)p->place_count, sizeof *p->places);
    p->helpers = calloc((size_t)p->helper_count, sizeof *p->helpers);
    (void)pthread_mutex_init(&p->turn, NULL);
    (void)pthread_mutex_init(&p->lock, NULL);
    (void)pthread_cond_init(&p->made, NULL);
    (void)pthread_cond_init(&p->taken, NULL);
    bool any = false;
    for (int64_t i = 0; p->places && p->helpers && i < p->helper_count; i++) {
        p->helpers[i].all = p;
        start(&p->helpers[i]);
        any |= p->helpers[i].started;
    }
    if (any)
        return p;
    mf_prefetch_close(p);
    return NULL;
}

void mf_prefetch_close(mf_prefetch *p)
{
    (void)pthread_mutex_lock(&p->lock);
    p->stop = true;
    (void)pthread_cond_broadcast(&p->taken);
    (void)pthread_mutex_unlock(&p->lock);
    for (int64_t i = 0; p->helpers && i < p->helper_count; i++) {
        if (p->helpers[i].started)
            (void)pthread_join(p->helpers[i].thread, NULL);
        mf_bench_close(&p->helpers[i].bench, p->loader);
    }
    if (p->places)
        clear_places(p);
    (void)pthread_mutex_destroy(&p->turn);
    (void)pthread_mutex_destroy(&p->lock);
    (void)pthread_cond_destroy(&p->made);
    (void)pthread_cond_destroy(&p->taken);
    free(p->places);
    free(p->helpers);
    free(p);
}
