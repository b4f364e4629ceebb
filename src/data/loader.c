/* Batches of a dataset. The arrays are read to the host once, when the loader opens; a batch is rows copied together and made an array.
 * Invariants: every row comes exactly once an epoch, in one process of those that share it, save those of a last smaller batch that is
 * dropped; the order depends on shuffle_seed and the epoch's number alone; the batch handed out stays whole until the next call,
 * whatever scopes close meanwhile.
 *
 * The order: SplitMix64 (Steele, Lea, Flood 2014) from the state shuffle_seed + epoch drives a Fisher-Yates shuffle of 0 .. n-1, from the
 * last place down; the draw below k is the first output not above the greatest multiple of k, modulo k. Epochs count from 0. */
#include <manyfold.h>

#include <limits.h>
#include <stdlib.h>
#include <string.h>

typedef struct column {
    mf_dtype dtype;
    mf_shape shape; /* of the whole array */
    size_t row;     /* bytes */
    char *data;     /* every row */
    char *batch;    /* where a batch's rows are copied together */
} column;

struct mf_loader {
    mf_loader_options options;
    column *columns;
    int column_count;
    int64_t rows, next, epoch; /* next: the first row of the coming batch */
    int64_t share, share_size; /* of each batch, the first row that is made here, and how many are */
    int64_t *order;            /* NULL: as the rows stand */
    float *mask;               /* of pad_last */
    mf_value structure;        /* kept: the dataset's tree with a small leaf for each array */
    mf_value current;          /* kept: the batch that was handed out */
    mf_value error;            /* kept: shown by the first next of every epoch */
};

/* What open returns when there is no memory even for a loader. */
static struct mf_loader no_loader;
static _Thread_local bool told_of_no_loader; /* the error was handed out, the epoch's end was not */

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

static void shuffle(mf_loader *l)
{
    uint64_t state = l->options.shuffle_seed + (uint64_t)l->epoch;
    for (int64_t i = 0; i < l->rows; i++)
        l->order[i] = i;
    for (int64_t i = l->rows - 1; i > 0; i--) {
        int64_t k = (int64_t)draw_below(&state, (uint64_t)i + 1), row = l->order[i];
        l->order[i] = l->order[k];
        l->order[k] = row;
    }
}

/* ---- opening */

static size_t width(mf_dtype dtype)
{
    switch (dtype) {
    case MF_BOOL:
    case MF_I8:
    case MF_U8: return 1;
    case MF_I16:
    case MF_U16:
    case MF_F16:
    case MF_BF16: return 2;
    case MF_I32:
    case MF_U32:
    case MF_F32: return 4;
    case MF_I64:
    case MF_U64:
    case MF_F64:
    case MF_C64: return 8;
    case MF_C128: return 16;
    default: return 0;
    }
}

static mf_value out_of_memory(void) { return mf_make_error(MF_ERROR_MEMORY, "mf_loader_open: out of memory"); }

static mf_value read_column(column *c, mf_value leaf, int64_t share_size)
{
    int64_t count = mf_size(leaf);
    if (mf_is_error(leaf))
        return leaf;
    c->dtype = mf_dtype_of(leaf);
    c->shape = mf_shape_of(leaf);
    if (c->shape.rank < 1 || !width(c->dtype))
        return mf_make_error(MF_ERROR_SHAPE, "mf_loader_open: a leaf of the dataset is no array with rows: %s%s", mf_str_dtype(c->dtype),
                             c->shape.rank < 0 ? "" : mf_str_shape(c->shape));
    c->row = c->shape.dims[0] ? (size_t)(count / c->shape.dims[0]) * width(c->dtype) : 0;
    c->data = malloc((size_t)count * width(c->dtype) + 1);
    c->batch = malloc((size_t)share_size * c->row + 1);
    if (!c->data || !c->batch)
        return out_of_memory();
    mf_status status = mf_to_host(leaf, c->dtype, c->data, (size_t)count);
    if (status == MF_OK)
        return (mf_value){ 0 };
    const char *why = mf_error(leaf);
    return mf_make_error(status, "mf_loader_open: the dataset could not be read%s%s", why ? ": " : "", why ? why : "");
}

static mf_value read_columns(mf_loader *l, mf_value leaves)
{
    for (int i = 0; i < l->column_count; i++) {
        mf_value error = read_column(&l->columns[i], mf_get(leaves, i), l->share_size);
        if (error.handle)
            return error;
        int64_t rows = l->columns[i].shape.dims[0];
        if (i && rows != l->rows)
            return mf_make_error(MF_ERROR_SHAPE, "mf_loader_open: the dataset's arrays have %lld and %lld rows; one leading size is needed",
                                 (long long)l->rows, (long long)rows);
        l->rows = rows;
    }
    return (mf_value){ 0 };
}

static mf_value check_options(const mf_loader *l, mf_value dataset)
{
    const mf_loader_options *o = &l->options;
    if (o->batch_size < 1)
        return mf_make_error(MF_ERROR_ARGUMENT, "mf_loader_open: batch_size is %lld; it must be at least 1", (long long)o->batch_size);
    if (o->pad_last && o->keep_last)
        return mf_make_error(MF_ERROR_ARGUMENT, "mf_loader_open: keep_last and pad_last exclude each other");
    if (o->pad_last && !mf_key(dataset, 0))
        return mf_make_error(MF_ERROR_TREE, "mf_loader_open: pad_last adds a \"mask\" to each batch, so the dataset must be a dict");
    for (int i = 0; o->pad_last && i < mf_len(dataset); i++)
        if (strcmp(mf_key(dataset, i), "mask") == 0)
            return mf_make_error(MF_ERROR_TREE, "mf_loader_open: pad_last adds a \"mask\" to each batch, and the dataset has one already");
    return (mf_value){ 0 };
}

/* The devices are in order of their processes, and so are their rows. */
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

static mf_value placeholder(mf_value leaf)
{
    (void)leaf;
    return mf_b(false);
}

static mf_value fill(mf_loader *l, mf_value dataset)
{
    if (mf_is_error(dataset))
        return dataset;
    mf_value error = check_options(l, dataset);
    error = error.handle ? error : find_share(l);
    if (error.handle)
        return error;
    mf_value leaves = mf_tree_leaves(dataset), structure = mf_tree_map(placeholder, dataset);
    if (mf_is_error(leaves) || mf_is_error(structure))
        return mf_is_error(leaves) ? leaves : structure;
    int count = mf_len(leaves);
    l->columns = calloc((size_t)(count > 0 ? count : 0) + 1, sizeof *l->columns);
    if (!l->columns)
        return out_of_memory();
    l->column_count = count;
    l->structure = mf_keep(structure);
    error = count < 1 ? mf_make_error(MF_ERROR_TREE, "mf_loader_open: the dataset has no arrays") : read_columns(l, leaves);
    if (error.handle)
        return error;
    l->order = l->options.shuffle ? malloc(((size_t)l->rows + 1) * sizeof *l->order) : NULL;
    l->mask = l->options.pad_last ? malloc(((size_t)l->share_size + 1) * sizeof *l->mask) : NULL;
    return (l->options.shuffle && !l->order) || (l->options.pad_last && !l->mask) ? out_of_memory() : (mf_value){ 0 };
}

mf_loader *mf_loader_open_opt(mf_value dataset, const mf_loader_options *o)
{
    MF_LAYER;
    MF_SCOPE;
    mf_loader *l = calloc(1, sizeof *l);
    if (!l) {
        told_of_no_loader = false;
        return &no_loader;
    }
    if (o)
        l->options = *o;
    mf_value error = fill(l, dataset);
    if (error.handle)
        l->error = mf_keep(error);
    return l;
}

/* ---- batches */

static int64_t smaller_last(const mf_loader *l)
{
    return l->options.keep_last || l->options.pad_last ? l->rows % l->options.batch_size : 0;
}

int64_t mf_loader_batches(const mf_loader *l)
{
    if (l == &no_loader || l->error.handle)
        return 0;
    return l->rows / l->options.batch_size + (smaller_last(l) != 0);
}

/* Rows first .. first + count - 1 of the epoch, and zeros up to `size`. */
static mf_value copy_rows(const mf_loader *l, const column *c, int64_t first, int64_t count, int64_t size)
{
    const char *from = c->data + (size_t)first * c->row;
    if (l->order || count < size) {
        for (int64_t i = 0; i < count; i++)
            memcpy(c->batch + (size_t)i * c->row, c->data + (size_t)(l->order ? l->order[first + i] : first + i) * c->row, c->row);
        memset(c->batch + (size_t)count * c->row, 0, (size_t)(size - count) * c->row);
        from = c->batch;
    }
    mf_shape shape = c->shape;
    shape.dims[0] = size;
    return mf_from_host(c->dtype, shape, from);
}

static mf_value with_mask(const mf_loader *l, mf_value batch, int64_t count)
{
    for (int64_t i = 0; i < l->share_size; i++)
        l->mask[i] = i < count ? 1.0f : 0.0f;
    return mf_set(batch, mf_from_host(MF_F32, MF_SHAPE(l->share_size), l->mask), "mask");
}

/* count: rows of the batch from `first` on. */
static mf_value make_batch(const mf_loader *l, int64_t first, int64_t count)
{
    count -= l->share;
    count = count < 0 ? 0 : count < l->share_size ? count : l->share_size;
    first += l->share;
    int64_t size = l->options.pad_last ? l->share_size : count;
    mf_value *leaves = malloc((size_t)l->column_count * sizeof *leaves);
    if (!leaves)
        return mf_make_error(MF_ERROR_MEMORY, "mf_loader_next: out of memory");
    for (int i = 0; i < l->column_count; i++)
        leaves[i] = copy_rows(l, &l->columns[i], first, count, size);
    mf_value batch = mf_tree_unflatten(l->structure, mf_list_n(leaves, l->column_count));
    free(leaves);
    return l->options.pad_last && !mf_is_error(batch) ? with_mask(l, batch, count) : batch;
}

static bool end_epoch(mf_loader *l)
{
    l->next = 0;
    l->epoch++;
    return false;
}

static bool hand_out(mf_loader *l, mf_value batch, mf_value *out)
{
    l->current = mf_keep(batch);
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
    if (l == &no_loader) { /* once an epoch, as below */
        told_of_no_loader = !told_of_no_loader;
        if (told_of_no_loader)
            *batch = out_of_memory();
        return told_of_no_loader;
    }
    MF_SCOPE;
    take_back(l);
    if (l->error.handle) /* once an epoch, so that a loop until the end does end */
        return l->next++ == 0 ? hand_out(l, l->error, batch) : end_epoch(l);
    int64_t rest = l->rows - l->next, size = l->options.batch_size;
    if (rest < size && !(rest > 0 && smaller_last(l)))
        return end_epoch(l);
    if (l->next == 0 && l->order)
        shuffle(l);
    int64_t count = rest < size ? rest : size;
    mf_value made = make_batch(l, l->next, count);
    l->next += count;
    return hand_out(l, made, batch);
}

int64_t mf_loader_position(const mf_loader *l)
{
    int64_t batches = mf_loader_batches(l);
    return batches ? l->epoch * batches + (l->next + l->options.batch_size - 1) / l->options.batch_size : 0;
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
    l->epoch = position / batches;
    l->next = position % batches * l->options.batch_size;
    if (l->next && l->order)
        shuffle(l);
    return MF_OK;
}

void mf_loader_close(mf_loader *l)
{
    MF_LAYER;
    if (!l || l == &no_loader)
        return;
    take_back(l);
    if (l->error.handle)
        mf_release(l->error);
    if (l->structure.handle)
        mf_release(l->structure);
    for (int i = 0; i < l->column_count; i++) {
        free(l->columns[i].data);
        free(l->columns[i].batch);
    }
    free(l->columns);
    free(l->order);
    free(l->mask);
    free(l);
}
