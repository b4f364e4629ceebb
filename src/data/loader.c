/* The data loader: batches of a source's rows. A batch is made when it is requested, or ahead of time on threads (prefetch.c). Invariants:
 * in an epoch every row comes exactly once, in one of the processes, except for the rows of a smaller last batch that is dropped; the order
 * of an epoch depends only on shuffle_seed and the epoch's number, so a batch is determined by its number, whichever thread makes it; a
 * batch stays valid until the next call of mf_loader_next, even if the scope around it ends.
 *
 * The order: SplitMix64 (Steele, Lea, Flood 2014), seeded with shuffle_seed + epoch, drives a Fisher-Yates shuffle of 0 .. n-1 from the
 * last index down. A number below k is the generator's next output modulo k; outputs at or above the greatest multiple of k are rejected.
 * Epochs count from 0. */
#include "data/loader.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_PREFETCHED = 4096, MOST_WORKERS = 256 };

/* What open returns if there is no memory for a loader. */
static struct mf_loader no_loader;
static _Thread_local bool returned_no_loader; /* the error of this epoch has been returned, its end not yet */

/* ---- order */

static uint64_t draw(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static uint64_t draw_below(uint64_t *state, uint64_t k)
{
    uint64_t rest = (UINT64_MAX % k + 1) % k, z;
    do {
        z = draw(state);
    } while (z > UINT64_MAX - rest);
    return z % k;
}

static void shuffle(mf_loader *l, int64_t epoch)
{
    uint64_t state = l->options.shuffle_seed + (uint64_t)epoch;
    for (int64_t i = 0; i < l->source->rows; i++)
        l->order[i] = i;
    for (int64_t i = l->source->rows - 1; i > 0; i--) {
        int64_t k = (int64_t)draw_below(&state, (uint64_t)i + 1), row = l->order[i];
        l->order[i] = l->order[k];
        l->order[k] = row;
    }
    l->order_epoch = epoch;
}

/* ---- opening */

static mf_value out_of_memory(void) { return mf_make_error(MF_ERROR_MEMORY, "mf_loader_open: out of memory"); }

static mf_value check_mask(const mf_loader *l)
{
    mf_value structure = l->source->structure;
    if (!mf_key(structure, 0))
        return mf_make_error(MF_ERROR_TREE, "mf_loader_open: pad_last adds a \"mask\" to each batch, so the dataset must be a dict");
    for (int i = 0; i < mf_len(structure); i++)
        if (strcmp(mf_key(structure, i), "mask") == 0)
            return mf_make_error(MF_ERROR_TREE, "mf_loader_open: pad_last adds a \"mask\" to each batch, and the dataset has one already");
    return (mf_value){ 0 };
}

static mf_value check_options(const mf_loader *l)
{
    const mf_loader_options *o = &l->options;
    if (o->batch_size < 1)
        return mf_make_error(MF_ERROR_ARGUMENT, "mf_loader_open: batch_size is %lld; it must be at least 1", (long long)o->batch_size);
    if (o->prefetch < 0 || o->prefetch > MOST_PREFETCHED || o->workers < 0 || o->workers > MOST_WORKERS)
        return mf_make_error(MF_ERROR_ARGUMENT, "mf_loader_open: prefetch is %lld and workers %lld; expected at most %d and %d",
                             (long long)o->prefetch, (long long)o->workers, MOST_PREFETCHED, MOST_WORKERS);
    if (o->pad_last && o->keep_last)
        return mf_make_error(MF_ERROR_ARGUMENT, "mf_loader_open: keep_last and pad_last exclude each other");
    if (l->source->rows && l->source->rows < o->batch_size && !o->pad_last && !o->keep_last)
        return mf_make_error(MF_ERROR_ARGUMENT,
                             "mf_loader_open: %lld rows are less than one batch of %lld; with .keep_last or .pad_last they are a batch",
                             (long long)l->source->rows, (long long)o->batch_size);
    return o->pad_last ? check_mask(l) : (mf_value){ 0 };
}

/* Sets the share of a batch that this process makes. mf_devices is sorted by process, so the rows are too. */
static mf_value find_share(mf_loader *l)
{
    const mf_loader_options *o = &l->options;
    l->share_size = o->batch_size;
    if (!o->shard_by_process)
        return (mf_value){ 0 };
    mf_device_list all = mf_devices();
    if (o->keep_last || all.count < 1 || o->batch_size % all.count)
        return mf_make_error(MF_ERROR_ARGUMENT,
                             o->keep_last
                                 ? "mf_loader_open: keep_last and shard_by_process exclude each other: a smaller batch has no parts"
                                 : "mf_loader_open: a batch of %lld rows is not divisible by %d devices",
                             (long long)o->batch_size, all.count);
    int64_t each = o->batch_size / all.count;
    for (int i = 0; i < all.count; i++)
        l->share += mf_device_process(all.at[i]) < mf_process_index() ? each : 0;
    l->share_size = each * mf_local_device_count();
    return (mf_value){ 0 };
}

static mf_value fill(mf_loader *l)
{
    if (!l->source)
        return out_of_memory();
    if (l->source->error.handle)
        return l->source->error;
    mf_value error = check_options(l);
    error = error.handle ? error : find_share(l);
    if (error.handle)
        return error;
    l->order = l->options.shuffle ? malloc(((size_t)l->source->rows + 1) * sizeof *l->order) : NULL;
    return (l->options.shuffle && !l->order) || !mf_bench_open(&l->bench, l) ? out_of_memory() : (mf_value){ 0 };
}

mf_loader *mf_loader_open_source_opt(mf_source *source, const mf_loader_options *o)
{
    MF_LAYER;
    MF_SCOPE;
    mf_loader *l = calloc(1, sizeof *l);
    if (!l) {
        mf_source_close(source);
        returned_no_loader = false;
        return &no_loader;
    }
    if (o)
        l->options = *o;
    l->source = source;
    l->order_epoch = -1;
    mf_value error = fill(l);
    if (error.handle)
        l->error = mf_keep(error);
    else if (l->options.prefetch && mf_loader_epoch_batches(l))
        l->prefetch = mf_prefetch_open(l, 0); /* if NULL, batches are made on request */
    return l;
}

mf_loader *mf_loader_open_opt(mf_value dataset, const mf_loader_options *o)
{
    MF_LAYER;
    return mf_loader_open_source_opt(mf_source_arrays(dataset), o);
}

/* ---- a batch */

bool mf_bench_open(mf_bench *b, const mf_loader *l)
{
    bool whole = (b->rows = malloc(((size_t)l->share_size + 1) * sizeof *b->rows)) != NULL;
    whole = (b->bytes = calloc((size_t)l->source->column_count, sizeof *b->bytes)) && whole;
    whole = (!l->options.pad_last || (b->mask = malloc(((size_t)l->share_size + 1) * sizeof *b->mask))) && whole;
    for (int i = 0; i < l->source->column_count && b->bytes; i++)
        whole = (b->bytes[i] = malloc((size_t)l->share_size * l->source->columns[i].size + 1)) && whole;
    return whole;
}

void mf_bench_close(mf_bench *b, const mf_loader *l)
{
    for (int i = 0; b->bytes && i < l->source->column_count; i++)
        free(b->bytes[i]);
    free(b->bytes);
    free(b->rows);
    free(b->mask);
    *b = (mf_bench){ 0 };
}

void mf_bench_choose(mf_bench *b, mf_loader *l, int64_t position)
{
    int64_t batches = mf_loader_epoch_batches(l), epoch = position / batches;
    int64_t first = position % batches * l->options.batch_size, rest = l->source->rows - first;
    int64_t count = (rest < l->options.batch_size ? rest : l->options.batch_size) - l->share;
    if (l->order && l->order_epoch != epoch)
        shuffle(l, epoch);
    b->count = count < 0 ? 0 : count < l->share_size ? count : l->share_size;
    for (int64_t i = 0; i < b->count; i++)
        b->rows[i] = l->order ? l->order[first + l->share + i] : first + l->share + i;
}

/* Reads the rows of a source that has a read function; does nothing for arrays in memory. Returns an error or unset. */
static mf_value read_rows(const mf_bench *b, const mf_loader *l)
{
    const mf_source *s = l->source;
    mf_value error = { 0 };
    void **places = s->read ? malloc((size_t)s->column_count * sizeof *places) : NULL;
    if (s->read && !places)
        return mf_make_error(MF_ERROR_MEMORY, "mf_loader_next: out of memory");
    for (int64_t i = 0; s->read && i < b->count && !error.handle; i++) {
        for (int c = 0; c < s->column_count; c++)
            places[c] = b->bytes[c] + (size_t)i * s->columns[c].size;
        error = s->read(s->context, b->rows[i], places);
    }
    free(places);
    return error;
}

/* A column of the batch: its rows, padded with zeros to `size`. */
static mf_value column_of(const mf_bench *b, const mf_loader *l, int index, int64_t size)
{
    const mf_column *c = &l->source->columns[index];
    char *bytes = b->bytes[index];
    const char *from = bytes;
    if (c->data && !l->order && b->count == size && size)
        from = c->data + (size_t)b->rows[0] * c->size;
    else if (c->data)
        for (int64_t i = 0; i < b->count; i++)
            memcpy(bytes + (size_t)i * c->size, c->data + (size_t)b->rows[i] * c->size, c->size);
    memset(bytes + (size_t)b->count * c->size, 0, (size_t)(size - b->count) * c->size);
    mf_shape shape = { .rank = c->shape.rank + 1, .dims = { size } };
    memcpy(shape.dims + 1, c->shape.dims, sizeof shape.dims - sizeof *shape.dims);
    return mf_from_host(c->dtype, shape, from);
}

static mf_value with_mask(const mf_bench *b, const mf_loader *l, mf_value batch)
{
    for (int64_t i = 0; i < l->share_size; i++)
        b->mask[i] = i < b->count ? 1.0f : 0.0f;
    return mf_set(batch, mf_from_host(MF_F32, MF_SHAPE(l->share_size), b->mask), "mask");
}

mf_value mf_bench_make(const mf_bench *b, const mf_loader *l)
{
    int64_t size = l->options.pad_last ? l->share_size : b->count;
    int count = l->source->column_count;
    mf_value error = read_rows(b, l), *leaves = malloc((size_t)count * sizeof *leaves);
    if (!leaves && !error.handle)
        error = mf_make_error(MF_ERROR_MEMORY, "mf_loader_next: out of memory");
    for (int i = 0; i < count && !error.handle; i++)
        leaves[i] = column_of(b, l, i, size);
    mf_value batch = error.handle ? error : mf_tree_unflatten(l->source->structure, mf_list_n(leaves, count));
    free(leaves);
    return l->options.pad_last && !mf_is_error(batch) ? with_mask(b, l, batch) : batch;
}

/* ---- iteration */

/* Whether this is the child of a fork, which does not have the threads. Allocates nothing. */
static bool is_forked(void) { return mf_kind_of((mf_value){ 0 }) == MF_KIND_ERROR; }

int64_t mf_loader_epoch_batches(const mf_loader *l)
{
    int64_t rows = l->source->rows, rest = l->options.keep_last || l->options.pad_last ? rows % l->options.batch_size : 0;
    return rows / l->options.batch_size + (rest != 0);
}

int64_t mf_loader_batches(const mf_loader *l) { return l == &no_loader || l->error.handle ? 0 : mf_loader_epoch_batches(l); }

static bool end_epoch(mf_loader *l)
{
    l->next = 0;
    l->epoch++;
    return false;
}

/* Returns a kept batch to the caller; the loader owns it until the next call. */
static bool hand_out(mf_loader *l, mf_value kept, mf_value *out)
{
    l->current = kept;
    *out = l->current;
    return true;
}

static void take_back(mf_loader *l)
{
    if (l->current.handle)
        mf_release(l->current);
    l->current = (mf_value){ 0 };
}

bool mf_loader_next(mf_loader *l, mf_value *batch)
{
    MF_LAYER;
    *batch = (mf_value){ 0 };
    if (l == &no_loader) { /* one error for each epoch, as below */
        returned_no_loader = !returned_no_loader;
        if (returned_no_loader)
            *batch = out_of_memory();
        return returned_no_loader;
    }
    MF_SCOPE;
    if (l->prefetch && is_forked()) {
        *batch = mf_none();
        return true;
    }
    take_back(l);
    if (l->error.handle) /* one error for each epoch, so that a loop over an epoch ends */
        return l->next++ == 0 ? hand_out(l, mf_keep(l->error), batch) : end_epoch(l);
    int64_t batches = mf_loader_epoch_batches(l), position = l->epoch * batches + l->next;
    if (l->next >= batches)
        return end_epoch(l);
    l->next++;
    if (l->prefetch)
        return hand_out(l, mf_prefetch_take(l->prefetch, position), batch);
    mf_bench_choose(&l->bench, l, position);
    return hand_out(l, mf_keep(mf_bench_make(&l->bench, l)), batch);
}

int64_t mf_loader_position(const mf_loader *l)
{
    int64_t batches = mf_loader_batches(l);
    return batches ? l->epoch * batches + l->next : 0;
}

mf_status mf_loader_seek(mf_loader *l, int64_t position)
{
    MF_LAYER;
    MF_SCOPE;
    mf_status status = mf_block_until_ready(mf_none()); /* an error in the child of a fork */
    if (status || l == &no_loader)
        return status ? status : mf_block_until_ready(out_of_memory());
    int64_t batches = mf_loader_batches(l);
    if (position < 0 || batches < 1)
        return mf_block_until_ready(l->error.handle
                                        ? l->error
                                        : mf_make_error(MF_ERROR_ARGUMENT, "mf_loader_seek: position %lld of a loader with %lld batches",
                                                        (long long)position, (long long)batches));
    if (l->prefetch && position != mf_loader_position(l))
        mf_prefetch_seek(l->prefetch, position);
    l->epoch = position / batches;
    l->next = position % batches;
    return MF_OK;
}

void mf_loader_close(mf_loader *l)
{
    MF_LAYER;
    MF_SCOPE;
    if (!l || l == &no_loader || (l->prefetch && is_forked()))
        return;
    if (l->prefetch)
        mf_prefetch_close(l->prefetch);
    take_back(l);
    if (l->error.handle)
        mf_release(l->error);
    if (l->source)
        mf_bench_close(&l->bench, l);
    mf_source_close(l->source);
    free(l->order);
    free(l);
}
