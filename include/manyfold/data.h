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
/* -> dict of (n): a column of numbers for each name of the first line, or with .no_header for each
 * number "0", "1", ...; f32 or .dtype. Fields may stand in quotes; an empty one is NaN; blank lines
 * are left out. Of integers and bool each field is a whole number that the dtype holds, exactly.
 * delimiter 0: a comma. MF_ERROR_IO names line and column */
typedef struct mf_load_csv_options {
    char delimiter;
    bool no_header;
    mf_dtype dtype;
    mf_reserved reserved_;
} mf_load_csv_options;
mf_value mf_load_csv_opt(const char *path, const mf_load_csv_options *o);

/* ---- sources: rows that stay where they are until a loader reads them, on its threads. None is
 * NULL but where memory is short: what went wrong shows in the loader. Files are mapped: no other
 * program may shorten them meanwhile. */
typedef struct mf_source mf_source;
/* tree of (n, ...) -> source: of arrays, which are copied to the host's memory */
mf_source *mf_source_arrays(mf_value dataset);
/* paths -> source: a tree of strings: mf_dict("image", "x.npy", "label", "y.npy"); .npy files with
 * the same number of rows, in C order, mapped into memory */
mf_source *mf_source_npy(mf_value paths);
/* {"image": u8[height,width,channels], "label": i32[]} of a folder with a folder of .png, .jpg and
 * .jpeg files for each class, numbered in the order of their names (mf_source_class); without
 * folders in it the images alone. All have one size: the options', or that of the first; others are
 * errors, or with .resize become it, by mf_image_resize's linear filter, rounded. channels 0: 3,
 * whatever the files have; transparent pixels show black. Through libpng and libjpeg, which
 * are loaded for the first picture. MF_ERROR_IO names the file, and how far the library came. */
typedef struct mf_source_images_options {
    int64_t height, width;
    int channels;
    bool resize;
    mf_reserved reserved_;
} mf_source_images_options;
mf_source *mf_source_images_opt(const char *folder, const mf_source_images_options *o);
/* {"tokens": i32[length + 1]}: a file's bytes, windows that begin .stride bytes one after the other
 * (0: length, so that each byte is predicted once) */
typedef struct mf_source_text_options {
    int64_t stride;
    mf_reserved reserved_;
} mf_source_text_options;
mf_source *mf_source_text_opt(const char *path, int64_t length, const mf_source_text_options *o);
/* Your own: read writes row number `row` as the bytes of its leaves to places, one each, in the
 * order of the tree, and gives an error or an unset value. It is called on any thread, on several
 * at once, and may use the library. end, which may be NULL, is called with the context when the
 * source is closed. */
typedef mf_value (*mf_source_read)(void *context, int64_t row, void *const *places);
typedef void (*mf_source_end)(void *context);
/* tree -> source: of rows with these shapes and dtypes (mf_struct will do) */
mf_source *mf_source_new(mf_value row, int64_t rows, mf_source_read read, void *context,
                         mf_source_end end);
int64_t mf_source_rows(const mf_source *s); /* 0 where it could not be opened */
/* Of a folder of images; NULL beyond. Lives as long as s */
const char *mf_source_class(const mf_source *s, int index);
/* Of one that no loader was given; NULL is none */
void mf_source_close(mf_source *s);

/* ---- batches */
/* Batches of a dataset or a source. The last, smaller batch of an epoch is dropped unless
 * .keep_last, or with .pad_last filled up with zeros, and then the batch has a "mask" (f32, 1
 * for real rows; the dataset must be a dict). Shuffling: a new permutation an epoch from
 * shuffle_seed. With .shard_by_process a batch is divided over the devices of all processes, in
 * their order, and each process gets the rows of its own: all together have what one process
 * would have. batch_size is still that of the whole batch, and the number of devices divides it;
 * not with .keep_last.
 * prefetch: so many batches are made ahead, across the ends of epochs, on threads of the loader's,
 * .workers of them (0: 1); what comes is the same. A trace of the profiler shows when they "make a
 * batch", and when mf_loader_next had to "wait for a batch". */
typedef struct mf_loader mf_loader;
typedef struct mf_loader_options {
    int64_t batch_size;
    uint64_t shuffle_seed;
    bool shuffle, keep_last, pad_last, shard_by_process;
    int64_t prefetch, workers;
    mf_reserved reserved_;
} mf_loader_options;
/* tree of (n, ...) -> loader: NULL never: an error shows at the first next. One thread at a time */
mf_loader *mf_loader_open_opt(mf_value dataset, const mf_loader_options *o);
/* The same of a source, which becomes the loader's */
mf_loader *mf_loader_open_source_opt(mf_source *source, const mf_loader_options *o);
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
