/* manyfold/data.h - data sets: reading files, sources of rows, and loaders of batches.
 *
 * A dataset is a tree of arrays of shapes (n, ...) with the same n; a batch is a tree of shapes
 * (batch_size, ...). What is loaded is on the host, and has been read when the function returns, in
 * the dtypes that the comment gives. Datasets belong to the innermost scope; a source or loader
 * belongs to no scope and is closed by hand. Any thread, but each loader one thread at a time.
 * Errors: MF_ERROR_IO for a missing, truncated or corrupt file, with the file, the offset and what
 * was expected there.
 *     mf_value train = mf_load_fashion_mnist(NULL, "train");
 *     mf_loader *l = mf_loader_open(train, .batch_size = 128, .shuffle = true);
 *     for (mf_value batch; mf_loader_next(l, &batch);)   one epoch; call it again for the next
 *         params = step(params, batch);
 *     mf_loader_close(l); */
#ifndef MANYFOLD_DATA_H
#define MANYFOLD_DATA_H
#ifndef MF_CHECK_HEADERS_
#pragma GCC system_header
#endif

#include <manyfold/numpy.h>

MF_BEGIN_

/* ---- reading files into memory */
/* -> (n, ...): an IDX file, plain or gzipped, of u8, i8, i16, i32, f32 or f64, in that dtype */
mf_value mf_load_idx(const char *path);
/* -> dict of (n, ...): Fashion-MNIST, split "train" or "test": {"image": f32 (n, 32, 32, 1), in [0,
 * 1], padded with zeros from 28 x 28, "label": i32 (n)}. folder NULL: where Debian's package
 * dataset-fashion-mnist installs it */
mf_value mf_load_fashion_mnist(const char *folder, const char *split);
/* -> dict of (n, ...): CIFAR-10, binary version, split "train" or "test": {"image": f32 (n, 32, 32,
 * 3), in [0, 1], "label": i32 (n)} */
mf_value mf_load_cifar10(const char *folder, const char *split);
/* -> dict of (n): a CSV file: a column of numbers for each name in the first line, or with
 * .no_header under the names "0", "1", .... .dtype: f32 by default; for integers and bool each
 * field must be a whole number that the dtype holds. .delimiter: a comma by default (0). Fields may
 * be quoted, an empty field is NaN, blank lines are skipped. MF_ERROR_IO names the line and the
 * column */
typedef struct mf_load_csv_options {
    char delimiter;
    bool no_header;
    mf_dtype dtype;
    mf_reserved reserved_;
} mf_load_csv_options;
mf_value mf_load_csv_opt(const char *path, const mf_load_csv_options *o);

/* ---- sources: rows that are read only when a loader needs them, on the loader's threads. A source
 * is never NULL, except out of memory; errors in opening it show in the loader. Files are mapped
 * into memory, so no other program may truncate them while they are in use. */
typedef struct mf_source mf_source;
/* tree of (n, ...) -> source: the rows of arrays, which are copied to host memory */
mf_source *mf_source_arrays(mf_value dataset);
/* paths -> source: .npy files with the same number of rows, in C order: a tree of strings, such as
 * mf_dict("image", "x.npy", "label", "y.npy") */
mf_source *mf_source_npy(mf_value paths);
/* -> source: {"image": u8 (height, width, channels), "label": i32 ()} of a folder that has a folder
 * of .png, .jpg and .jpeg files for each class; classes are numbered in the order of their names
 * (mf_source_class). A folder without folders gives the images alone. .height, .width: those of the
 * first image by default; an image of another size is an error, or with .resize is resized by
 * mf_image_resize's linear filter and rounded. .channels: 3 by default (0), whatever the files
 * have; transparent pixels become black. Read with libpng and libjpeg, which are loaded for the
 * first image. MF_ERROR_IO names the file, and how far the library got. */
typedef struct mf_source_images_options {
    int64_t height, width;
    int channels;
    bool resize;
    mf_reserved reserved_;
} mf_source_images_options;
mf_source *mf_source_images_opt(const char *folder, const mf_source_images_options *o);
/* -> source: {"tokens": i32 (length + 1)}: the bytes of a file, in windows that begin .stride bytes
 * apart; by default (0) length, so that each byte is predicted exactly once */
typedef struct mf_source_text_options {
    int64_t stride;
    mf_reserved reserved_;
} mf_source_text_options;
mf_source *mf_source_text_opt(const char *path, int64_t length, const mf_source_text_options *o);
/* A source of your own: read(context, row, places) writes row number `row` as the bytes of its
 * leaves, one place for each leaf in the order of the tree, and returns an unset value, or an
 * error. It is called on any thread, on several at once, and may use the library. end, which may be
 * NULL, is called with the context when the source is closed. */
typedef mf_value (*mf_source_read)(void *context, int64_t row, void *const *places);
typedef void (*mf_source_end)(void *context);
/* tree -> source: of rows of these shapes and dtypes, given as a tree of mf_struct or arrays */
mf_source *mf_source_new(mf_value row, int64_t rows, mf_source_read read, void *context,
                         mf_source_end end);
int64_t mf_source_rows(const mf_source *s); /* 0 where it could not be opened */
/* The name of class `index` in a folder of images; NULL when out of range. Lives as long as s */
const char *mf_source_class(const mf_source *s, int index);
/* For a source that was not passed to a loader; NULL does nothing */
void mf_source_close(mf_source *s);

/* ---- loaders: batches of a dataset or a source
 *   batch_size: rows in a batch (in the whole batch, with .shard_by_process); it must be given.
 *   shuffle: a new permutation for each epoch, which follows from shuffle_seed.
 *   keep_last, pad_last: the last, smaller batch of an epoch is dropped by default. keep_last keeps
 *   it as it is; pad_last fills it with zeros, and gives every batch a "mask" (f32, 1 for real
 *   rows, 0 for padding), for which the dataset must be a dict. Without either, a dataset of
 *   fewer rows than a batch is an error.
 *   shard_by_process: divides each batch over the devices of all processes, in their order; each
 *   process gets the rows of its own devices, so together they get what one process would. The
 *   number of devices must divide batch_size. Not together with keep_last.
 *   prefetch: how many batches to make ahead, on .workers threads of the loader (0: 1), across the
 *   ends of epochs; 0: none. The batches are the same. A profile (manyfold/profiler.h) shows "make
 *   a batch" on these threads, and "wait for a batch" in mf_loader_next. */
typedef struct mf_loader mf_loader;
typedef struct mf_loader_options {
    int64_t batch_size;
    uint64_t shuffle_seed;
    bool shuffle, keep_last, pad_last, shard_by_process;
    int64_t prefetch, workers;
    mf_reserved reserved_;
} mf_loader_options;
/* tree of (n, ...) -> loader: never NULL: an error shows at the first mf_loader_next. Close it with
 * mf_loader_close */
mf_loader *mf_loader_open_opt(mf_value dataset, const mf_loader_options *o);
/* The same for a source, which the loader owns from then on */
mf_loader *mf_loader_open_source_opt(mf_source *source, const mf_loader_options *o);
/* tree of (batch_size, ...) into *batch; false at the end of an epoch, and the next call begins the
 * next one. On an error *batch is the error, once an epoch. The loader owns the batch until the
 * next call: a loop's condition runs outside the scope of its body */
bool mf_loader_next(mf_loader *l, mf_value *batch);

int64_t mf_loader_batches(const mf_loader *l); /* in an epoch */
/* The number of batches handed out since the loader was opened, and how to return there, also in a
 * loader opened anew with the same options: the batches that follow are the same. After the last
 * batch of an epoch the position is before the first of the next one. MF_ERROR_ARGUMENT for a
 * negative position, or when there are no batches. */
int64_t mf_loader_position(const mf_loader *l);
mf_status mf_loader_seek(mf_loader *l, int64_t position);
void mf_loader_close(mf_loader *l);

MF_END_

#include <manyfold/lift/data.h>

#endif
