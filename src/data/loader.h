/* The internals of a loader: how batches are made, and the threads that make them ahead of time. Uses the public API only. */
#ifndef MF_DATA_LOADER_H
#define MF_DATA_LOADER_H

#include "data/source.h"

#include <pthread.h>

/* The buffers for making one batch: the numbers of its rows, their bytes by column, and the mask. */
typedef struct mf_bench {
    int64_t *rows, count; /* count: of real rows; the rest of share_size is padding */
    char **bytes;
    float *mask;
} mf_bench;

typedef struct mf_prefetch mf_prefetch;

struct mf_loader {
    mf_loader_options options;
    mf_source *source;
    int64_t share, share_size; /* this process's rows of each batch: the first one, and their number */
    int64_t next, epoch;       /* the next batch of the current epoch; at its end, the number of batches */
    int64_t *order;            /* the rows' order in order_epoch; NULL: not shuffled */
    int64_t order_epoch;       /* -1: none yet */
    mf_bench bench;            /* for the calling thread */
    mf_value current;          /* kept: the batch that was returned last */
    mf_value error;            /* kept: returned by the first mf_loader_next of every epoch */
    mf_prefetch *prefetch;     /* NULL: batches are made on request */
};

int64_t mf_loader_epoch_batches(const mf_loader *l);
bool mf_bench_open(mf_bench *b, const mf_loader *l);
void mf_bench_close(mf_bench *b, const mf_loader *l);
/* Sets the rows of batch number `position`, counted from the first epoch on. May shuffle, so only one thread at a time may call it. */
void mf_bench_choose(mf_bench *b, mf_loader *l, int64_t position);
/* Makes that batch. Any thread may call it: it only reads the loader. */
mf_value mf_bench_make(const mf_bench *b, const mf_loader *l);

/* ---- prefetching: batches made ahead of time, on threads (prefetch.c) */
/* Starts at batch number `position`. NULL if there is no memory or no thread. */
mf_prefetch *mf_prefetch_open(mf_loader *l, int64_t position);
/* Waits for batch number `position`, which must follow the one taken last, and returns it, kept; the caller releases it. */
mf_value mf_prefetch_take(mf_prefetch *p, int64_t position);
void mf_prefetch_seek(mf_prefetch *p, int64_t position);
void mf_prefetch_close(mf_prefetch *p);

#endif
