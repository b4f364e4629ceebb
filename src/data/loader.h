/* A loader's inside: what batches are made of, and who makes them ahead. Public API only. */
#ifndef MF_DATA_LOADER_H
#define MF_DATA_LOADER_H

#include "data/source.h"

#include <pthread.h>

/* Room for one batch that is being made: the rows' numbers, their bytes by column, and the mask. */
typedef struct mf_bench {
    int64_t *rows, count; /* count: rows that there are; the others of share_size are filled up */
    char **bytes;
    float *mask;
} mf_bench;

typedef struct mf_prefetch mf_prefetch;

struct mf_loader {
    mf_loader_options options;
    mf_source *source;
    int64_t share, share_size; /* of each batch, the first row that is made here, and how many are */
    int64_t next, epoch;       /* the coming batch of the epoch that is handed out; at the end, the number of batches */
    int64_t *order;            /* of the epoch below; NULL: as the rows stand */
    int64_t order_epoch;       /* -1: of none */
    mf_bench bench;            /* of the thread that calls */
    mf_value current;          /* kept: the batch that was handed out */
    mf_value error;            /* kept: shown by the first next of every epoch */
    mf_prefetch *prefetch;     /* NULL: batches are made when they are asked for */
};

int64_t mf_loader_epoch_batches(const mf_loader *l);
bool mf_bench_open(mf_bench *b, const mf_loader *l);
void mf_bench_close(mf_bench *b, const mf_loader *l);
/* Notes which rows batch number `position` (from the first epoch on) has. By one thread at a time: it may shuffle. */
void mf_bench_choose(mf_bench *b, mf_loader *l, int64_t position);
/* Makes that batch. By any thread: it only reads the loader. */
mf_value mf_bench_make(const mf_bench *b, const mf_loader *l);

/* ---- batches made ahead, on threads (prefetch.c) */
/* From batch number `position` on. NULL: there is no memory, or no thread. */
mf_prefetch *mf_prefetch_open(mf_loader *l, int64_t position);
/* The batch of that number, which is the one behind the last: kept, and the caller's. Waits. */
mf_value mf_prefetch_take(mf_prefetch *p, int64_t position);
void mf_prefetch_seek(mf_prefetch *p, int64_t position);
void mf_prefetch_close(mf_prefetch *p);

#endif
