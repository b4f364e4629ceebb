/* manyfold/io.h - files: NumPy's .npy and .npz, safetensors, PNG pictures, and checkpoints.
 *
 * Arrays of any shape and every dtype except keys are saved and loaded exactly; trees by the paths
 * of their leaves, "conv1/kernel". What is loaded belongs to the innermost scope. Any thread, also
 * several on one path: whoever loads gets one complete file. Errors: MF_ERROR_IO, naming the file,
 * the offset and what was expected there; also for a path that is no regular file (a folder, FIFO
 * or device).
 *
 * Saving writes a new file next to the old one, flushes it to disk, renames it over the old one and
 * flushes the folder. So if the process or the machine stops, either the old file or the new one is
 * there, complete. Symbolic links are followed, and an existing file's permissions are kept. */
#ifndef MANYFOLD_IO_H
#define MANYFOLD_IO_H
#ifndef MF_CHECK_HEADERS_
#pragma GCC system_header
#endif

#include <manyfold/numpy.h>

MF_BEGIN_

/* ---- NumPy's files */
/* -> (...): versions 1.0 to 3.0 of the format, C or Fortran order, either byte order */
mf_value mf_load_npy(const char *path);
/* x -> file: bf16, which NumPy does not have, is written as its bits, dtype '<V2', and loaded back
 * from these */
mf_status mf_save_npy(const char *path, mf_value array);
/* tree -> file: the leaves under their paths, "conv1/kernel", as np.savez does with a dict; a bare
 * array is "arr_0". An empty key, "." and ".." are errors */
mf_status mf_save_npz(const char *path, mf_value tree);

/* max_bytes: the most that the members of an archive may unpack to, as a defence against hostile
 * files; 0: 64 MiB plus 128 times the archive's size. partial: for mf_load_tree: the file may have
 * more arrays than `like` */
typedef struct mf_load_options {
    int64_t max_bytes;
    bool partial;
    mf_reserved reserved_;
} mf_load_options;
/* -> dict: of arrays by their names; stored and deflated members are read */
mf_value mf_load_npz_opt(const char *path, const mf_load_options *o);
/* tree -> tree: the arrays of an .npz or safetensors file, in the structure of `like`, whose leaves
 * may be mf_struct. Paths, shapes and dtypes must agree, and the file must have no other arrays,
 * unless .partial */
mf_value mf_load_tree_opt(const char *path, mf_value like, const mf_load_options *o);

/* ---- safetensors: BOOL, U8 to U64, I8 to I64, F16, BF16, F32, F64 and C64 (c64), of at most 8
 * dimensions. A file with other dtypes (such as 8-bit floats; c128 cannot be saved), or with a
 * header that the format forbids (holes, overlaps, repeated names, wrong sizes), is refused as a
 * whole. Reading maps the file into memory and copies only what is asked for; no other program may
 * truncate it meanwhile, though replacing it is harmless. Files are written in the format's
 * canonical order and alignment. */
typedef struct mf_load_safetensors_options {
    const char *prefix; /* only the arrays whose names begin with this; NULL: all */
    mf_reserved reserved_;
} mf_load_safetensors_options;
typedef struct mf_save_safetensors_options {
    mf_value metadata; /* dict of strings */
    mf_reserved reserved_;
} mf_save_safetensors_options;
/* -> dict: of arrays by their names, which may contain slashes and dots */
mf_value mf_load_safetensors_opt(const char *path, const mf_load_safetensors_options *o);
/* -> dict: of strings: the file's "__metadata__"; empty where it has none */
mf_value mf_load_safetensors_metadata(const char *path);
/* tree -> file: the leaves under their paths; MF_ERROR_ARGUMENT for a name that occurs twice */
mf_status mf_save_safetensors_opt(const char *path, mf_value tree,
                                  const mf_save_safetensors_options *o);

/* ---- pictures */
/* (h, w, channels) -> file: a PNG of 1 channel (grey), 2 (grey, alpha), 3 (red, green, blue) or 4
 * (with alpha); or (h, w): grey. u8, or floats from 0 to 1, clipped and rounded */
mf_status mf_save_png(const char *path, mf_value image);
/* (n, h, w, ...) -> (H, W, ...): torchvision.utils.make_grid: n images, with channels or without,
 * in rows of .nrow, with .padding pixels of .pad_value around each; unused places of the last row
 * have that value too. MF_ERROR_SHAPE for no images, or arrays that are none; MF_ERROR_ARGUMENT for
 * a wrong option */
typedef struct mf_make_grid_options {
    mf_reserved begin_;
    int64_t nrow MF_DEFAULT_(8), padding MF_DEFAULT_(2);
    double pad_value;
    mf_reserved reserved_;
} mf_make_grid_options;
mf_value mf_make_grid_opt(mf_value images, const mf_make_grid_options *o);

/* ---- checkpoints of a job: a folder that all its processes write together, and that any number of
 * processes can read. All processes call these functions, in the same order, with trees of one
 * structure; a program of one process is a job of one.
 *     mf_save_checkpoint("checkpoint", params, mf_none());
 *     mf_value both = mf_load_checkpoint("checkpoint", params, mf_none());
 *     params = mf_get(both, 0);
 *   whole: a tree that is the same in all processes; process 0 writes it. mf_none(): nothing.
 *   rows: a tree whose leaves have one row for each device, as maps take and return them. Each
 *   process passes those of its own devices and writes them to a file of its own; in the checkpoint
 *   they follow one another in the order of the processes. mf_none(): nothing.
 * Saving: when all files are on disk, the folder's index is replaced atomically, and then the files
 * of the previous checkpoint are removed. Whichever process is killed, whenever, the last complete
 * checkpoint can be loaded. The folder is made if needed; its parent must exist.
 * Loading: gives a tuple of (whole, rows) in the structures of the arguments, whose paths, shapes
 * and dtypes must agree (leaves may be mf_struct). mf_none() loads nothing of its kind; with
 * .partial a tree may ask for only some of the leaves. Each process gets as many rows as its `rows`
 * has, following those of the processes before it, and reads only the files that hold them. Where
 * all processes together ask for another number of rows than was saved, the elements are
 * redistributed over rows: a leaf saved as (8, 2, n) can be loaded as (4, 4, n).
 * Errors, in every process: MF_ERROR_IO, with file and member, in the one where it happened,
 * MF_ERROR_PEER in the others. */
/* tree, tree of (n, ...) -> files: whole and rows */
mf_status mf_save_checkpoint(const char *folder, mf_value whole, mf_value rows);
typedef struct mf_load_checkpoint_options {
    bool partial;
    mf_reserved reserved_;
} mf_load_checkpoint_options;
/* tree, tree of (n, ...) -> tuple of both: whole and rows */
mf_value mf_load_checkpoint_opt(const char *folder, mf_value whole, mf_value rows,
                                const mf_load_checkpoint_options *o);

/* ---- checkpoints by step, written in the background, as orbax's CheckpointManager: a folder with
 * a checkpoint for each step, in a folder named after it.
 * Save everything that the rest of the training depends on: parameters, the optimiser's state,
 * mf_module_values of a model, keys (mf_state_value of random states), mf_loader_position, counts.
 * What is restored has the same bits, in any number of processes and on any devices.
 * Saving copies the arrays, waits for the previous save, and returns; a thread writes the files,
 * the index last, and then removes the oldest steps. Whichever process is killed, whenever, the
 * newest step that has its index can be restored; incomplete ones are removed when the folder is
 * opened again.
 * All processes of a job call these functions, in the same order and with the same steps; one
 * thread at a time. An error of a background save is returned by the next save, wait or close.
 *   max_to_keep: how many steps to keep, the newest ones; 0: all.
 *   save_interval_steps: mf_checkpoint_manager_save does nothing at steps that are not a multiple
 *   of it, unless .force; 0: 1.
 *   synchronous: saving returns when the files are written; there is no thread. */
typedef struct mf_checkpoint_manager mf_checkpoint_manager;
typedef struct mf_checkpoint_manager_options {
    int64_t max_to_keep, save_interval_steps;
    bool synchronous;
    mf_reserved reserved_;
} mf_checkpoint_manager_options;
typedef struct mf_checkpoint_save_options {
    mf_value rows; /* tree of (n, ...), as in mf_save_checkpoint */
    bool force;
    mf_reserved reserved_;
} mf_checkpoint_save_options;
typedef struct mf_checkpoint_restore_options {
    mf_value rows; /* tree of (n, ...), as in mf_load_checkpoint */
    bool partial;  /* as in mf_load_checkpoint */
    mf_reserved reserved_;
} mf_checkpoint_restore_options;
/* Never NULL: an error shows at the first use. The folder is made if needed; its parent must
 * exist */
mf_checkpoint_manager *mf_checkpoint_manager_open_opt(const char *folder,
                                                      const mf_checkpoint_manager_options *o);
/* tree -> files. MF_ERROR_ARGUMENT for a step that exists already */
mf_status mf_checkpoint_manager_save_opt(mf_checkpoint_manager *m, int64_t step, mf_value tree,
                                         const mf_checkpoint_save_options *o);
/* The newest complete step, or -1. Waits for a save in progress */
int64_t mf_checkpoint_manager_latest_step(mf_checkpoint_manager *m);
/* tree -> tree: in the structure of `like`, whose paths, shapes and dtypes must agree (leaves may
 * be mf_struct); with .rows a tuple of (tree, rows). step -1: the newest. Waits for a save in
 * progress. MF_ERROR_IO when there is no such step */
mf_value mf_checkpoint_manager_restore_opt(mf_checkpoint_manager *m, int64_t step, mf_value like,
                                           const mf_checkpoint_restore_options *o);
/* Waits until the save in progress is complete, or has failed */
mf_status mf_checkpoint_manager_wait(mf_checkpoint_manager *m);
/* The same, then frees the manager; NULL does nothing */
mf_status mf_checkpoint_manager_close(mf_checkpoint_manager *m);

MF_END_

#include <manyfold/lift/io.h>

#endif
