/* manyfold/data.h - data sets and batches.
 *
 * A dataset is a tree of arrays of shapes (n, ...), with one n; a batch is one of (batch_size,
 * ...). What is read is there when a function returns, on the host, in the dtypes that its
 * comment says. Datasets belong to the innermost scope; any thread, a loader one at a time.
 * Errors: MF_ERROR_IO for a missing, truncated or corrupt file, with the file, the offset and
 * what was expected there. */
#ifndef MANYFOLD_DATA_H
#define MANYFOLD_DATA_H
#ifndef MF_CHECK_HEADERS_
#pragma GCC system_header
#endif

#include <manyfold/numpy.h>

MF_BEGIN_

/* ---- files */
/* -> (n, ...): one IDX file, gzip'd or plain: u8, i8, i16, i32, f32, f64 */
mf_value mf_load_idx(const char *path);
/* -> dict of (n, ...): "train" or "test": {"image": f32[n,32,32,1] in [0, 1], zero-padded from
 * 28, "label": i32[n]}; folder NULL: where Debian's package puts it */
mf_value mf_load_fashion_mnist(const char *folder, const char *split);
/* -> dict of (n, ...): binary version: {"image": f32[n,32,32,3], "label": i32[n]} */
mf_value mf_load_cifar10(const char *folder, const char *split);

/* ---- batches */
/* Batches of a dataset on the host. The last, smaller batch of an epoch is dropped unless
 * .keep_last, or with .pad_last filled up with zeros, and then the batch has a "mask" (f32, 1
 * for real rows; the dataset must be a dict). Shuffling: a new permutation an epoch from
 * shuffle_seed. With .shard_by_process a batch is divided over the devices of all processes, in
 * their order, and each process gets the rows of its own: all together have what one process
 * would have. batch_size is still that of the whole batch, and the number of devices divides it;
 * not with .keep_last. */
typedef struct mf_loader mf_loader;
typedef struct mf_loader_options {
    int64_t batch_size;
    uint64_t shuffle_seed;
    bool shuffle, keep_last, pad_last, shard_by_process;
    mf_reserved reserved_;
} mf_loader_options;
/* tree of (n, ...) -> loader: NULL never: an error shows at the first next. One thread at a time */
mf_loader *mf_loader_open_opt(mf_value dataset, const mf_loader_options *o);
/* tree of (batch_size, ...) into *batch; false at the end of an epoch. The loader owns batch
 * until the next call (a while condition runs outside the body's scope) */
bool mf_loader_next(mf_loader *l, mf_value *batch);

int64_t mf_loader_batches(const mf_loader *l); /* an epoch's */
/* Batches handed out since it was opened, and the way back there, also in a loader opened anew:
 * what follows is what would have followed. Behind the last batch of an epoch it stands before the
 * first of the next one. MF_ERROR_ARGUMENT: a negative position, or there are no batches. */
int64_t mf_loader_position(const mf_loader *l);
mf_status mf_loader_seek(mf_loader *l, int64_t position);
void mf_loader_close(mf_loader *l);

MF_END_

#include <manyfold/lift/data.h>

#endif
