/* manyfold/io.h - NumPy's files, safetensors, and checkpoints.
 *
 * Arrays of any shape and of every dtype but keys are saved and loaded as they are; trees by the
 * paths of their leaves. What is loaded belongs to the innermost scope. Errors: MF_ERROR_IO
 * naming file, offset and what was expected; a file that is no regular file (a folder, a FIFO, a
 * device) is one. Any thread, also several with one path: who loads sees the whole of what one of
 * them saved. */
#ifndef MANYFOLD_IO_H
#define MANYFOLD_IO_H
#ifndef MF_CHECK_HEADERS_
#pragma GCC system_header
#endif

#include <manyfold/numpy.h>

MF_BEGIN_

/* Saving writes a file beside the path's (symbolic links are followed), flushes it to the disk,
 * renames it and flushes the folder: whenever the process or the machine stops, the old file is
 * there or the new one. The permissions stay as they are. */
/* -> (...): format 1.0 to 3.0, C or Fortran order, either endianness */
mf_value mf_load_npy(const char *path);
/* x -> file: bf16 is written as its bits, dtype '<V2' */
mf_status mf_save_npy(const char *path, mf_value array);
/* tree -> file: leaves by path: "conv1/kernel"; an empty key, "." and ".." are errors */
mf_status mf_save_npz(const char *path, mf_value tree);

/* max_bytes: what the members of an archive may claim to be in all; 0: 64 MiB and 128 times the
 * archive's size. partial: of mf_load_tree, that the file may have arrays that like has not. */
typedef struct mf_load_options {
    int64_t max_bytes;
    bool partial;
    mf_reserved reserved_;
} mf_load_options;
/* -> dict: of arrays; stored or deflated members */
mf_value mf_load_npz_opt(const char *path, const mf_load_options *o);
/* tree -> tree: the arrays of an npz or a safetensors file in the structure of like; names, shapes
 * and dtypes must agree: with .partial, those of like */
mf_value mf_load_tree_opt(const char *path, mf_value like, const mf_load_options *o);

/* safetensors: BOOL, U8 to U64, I8 to I64, F16, BF16, F32, F64 and C64, of at most 8 dimensions; of
 * files with others (c128, 8-bit floats) and of headers that the format forbids (holes, overlaps,
 * names twice, sizes that do not fit) nothing is read. Reading maps the file into memory and copies
 * from there what is asked for: no other program may shorten it meanwhile (to replace it is
 * harmless). What is written has the format's own order and alignment. */
typedef struct mf_load_safetensors_options {
    const char *prefix; /* only arrays whose names begin so */
    mf_reserved reserved_;
} mf_load_safetensors_options;
typedef struct mf_save_safetensors_options {
    mf_value metadata; /* dict of strings */
    mf_reserved reserved_;
} mf_save_safetensors_options;
/* -> dict: of arrays by name, which may have slashes and dots */
mf_value mf_load_safetensors_opt(const char *path, const mf_load_safetensors_options *o);
/* -> dict: of strings, "__metadata__"; empty where the file has none */
mf_value mf_load_safetensors_metadata(const char *path);
/* tree -> file: leaves by path: "conv1/kernel"; MF_ERROR_ARGUMENT for names twice */
mf_status mf_save_safetensors_opt(const char *path, mf_value tree,
                                  const mf_save_safetensors_options *o);

/* (h, w, channels) -> file: or (h, w): a PNG, grey, with alpha (2 channels, or 4), or of red, green
 * and blue (3); u8, or floats from 0 to 1, clipped and rounded */
mf_status mf_save_png(const char *path, mf_value image);
/* (n, h, w, ...) -> (H, W, ...): torchvision's make_grid: images, with channels or without, beside
 * one another, nrow of them, and below, padding pixels of pad_value around each; it fills the last
 * row, too. MF_ERROR_SHAPE for what are no images, or none; MF_ERROR_ARGUMENT for other numbers */
typedef struct mf_make_grid_options {
    mf_reserved begin_;
    int64_t nrow MF_DEFAULT_(8), padding MF_DEFAULT_(2);
    double pad_value;
    mf_reserved reserved_;
} mf_make_grid_options;
mf_value mf_make_grid_opt(mf_value images, const mf_make_grid_options *o);

/* Checkpoints of a job: a folder that all its processes write together, and that any number of
 * processes reads. All call these, in the same order, with trees of one structure; a program of
 * one process is a job of one.
 * whole: what is the same in all processes, as process 0 has it; mf_none() for nothing.
 * rows: leaves of one row for each device, as maps take and give them, of which each process has
 * its own; each writes those to a file of its own, and they stand there in the order of the
 * processes.
 * Saving: once all files have reached the disk the folder's index is replaced at once, and then
 * the last checkpoint's files are removed: whoever is killed, the last complete checkpoint can
 * be loaded. The folder is made; the one around it is there.
 * Loading: in the structures of whole and rows, whose names, shapes and dtypes must agree (mf_struct
 * will do): a tuple of both. mf_none() asks for nothing of its kind; with .partial a tree may ask
 * for some of the leaves that are there. Each process gets as many rows as it says, those behind the ones
 * that processes before it asked for, and reads the files that have them. Where all together ask
 * for another number of rows than there are, the rows' own rows are dealt out anew: (8, 2, n) is
 * read as (4, 4, n).
 * Errors, in every process: MF_ERROR_IO with file and member in the one that has it,
 * MF_ERROR_PEER in the others. */
/* tree, tree of (n, ...) -> files */
mf_status mf_save_checkpoint(const char *folder, mf_value whole, mf_value rows);
typedef struct mf_load_checkpoint_options {
    bool partial;
    mf_reserved reserved_;
} mf_load_checkpoint_options;
/* tree, tree of (n, ...) -> tuple of both */
mf_value mf_load_checkpoint_opt(const char *folder, mf_value whole, mf_value rows,
                                const mf_load_checkpoint_options *o);

/* Checkpoints by step while a program goes on, as orbax's CheckpointManager: a folder that has such
 * a checkpoint for each step, in a folder named after it.
 * A tree has all that the rest of the training follows from: parameters, the optimiser's state,
 * mf_module_values of a model, keys (mf_state_value of random states), mf_loader_position, counts.
 * Restored, it has the same bits, in any number of processes and on any devices.
 * Saving copies the arrays, waits for the save before, and returns; a thread writes the files, the
 * index last, and then removes the oldest steps. Whoever is killed, whenever: the newest step that
 * has its index can be restored, and what is left of others goes when the folder is opened again.
 * The processes of a job call all these, in the same order and with the same steps; one thread at a
 * time. Errors of a save come from the next call that looks at it: the next save, wait, close.
 * max_to_keep: the newest so many, 0: all. save_interval_steps: mf_checkpoint_manager_save does
 * nothing at steps that are no multiple, unless .force; 0: 1. synchronous: no thread. */
typedef struct mf_checkpoint_manager mf_checkpoint_manager;
typedef struct mf_checkpoint_manager_options {
    int64_t max_to_keep, save_interval_steps;
    bool synchronous;
    mf_reserved reserved_;
} mf_checkpoint_manager_options;
typedef struct mf_checkpoint_save_options {
    mf_value rows; /* tree of (n, ...), as mf_save_checkpoint's */
    bool force;
    mf_reserved reserved_;
} mf_checkpoint_save_options;
typedef struct mf_checkpoint_restore_options {
    mf_value rows; /* tree of (n, ...), as mf_load_checkpoint's */
    bool partial;  /* as mf_load_checkpoint's */
    mf_reserved reserved_;
} mf_checkpoint_restore_options;
/* The folder is made; the one around it is there. NULL never: an error shows at the first use */
mf_checkpoint_manager *mf_checkpoint_manager_open_opt(const char *folder,
                                                      const mf_checkpoint_manager_options *o);
/* tree -> files. MF_ERROR_ARGUMENT for a step that is there already */
mf_status mf_checkpoint_manager_save_opt(mf_checkpoint_manager *m, int64_t step, mf_value tree,
                                         const mf_checkpoint_save_options *o);
/* The newest complete one; -1: there is none. Waits */
int64_t mf_checkpoint_manager_latest_step(mf_checkpoint_manager *m);
/* tree -> tree: in the structure of like, which must agree as mf_load_checkpoint's (mf_struct will
 * do); with .rows a tuple of both. step -1: the newest. Waits. MF_ERROR_IO where there is none */
mf_value mf_checkpoint_manager_restore_opt(mf_checkpoint_manager *m, int64_t step, mf_value like,
                                           const mf_checkpoint_restore_options *o);
/* Until what is being saved is there, or has failed */
mf_status mf_checkpoint_manager_wait(mf_checkpoint_manager *m);
/* The same, and ends the manager; NULL is none */
mf_status mf_checkpoint_manager_close(mf_checkpoint_manager *m);

MF_END_

#include <manyfold/lift/io.h>

#endif
