/* manyfold/io.h - NumPy's files. Errors: MF_ERROR_IO naming file, offset and what was expected; a file that is no regular file (a folder, a
 * FIFO, a device) is one. Any thread, also several with one path: who loads sees the whole of what one of them saved. */
#ifndef MANYFOLD_IO_H
#define MANYFOLD_IO_H
#ifndef MF_CHECK_HEADERS_
#pragma GCC system_header
#endif

#include <manyfold/ops.h>

MF_BEGIN_

/* Saving writes a file beside the path's (symbolic links are followed), flushes it to the disk, renames it and flushes the folder: whenever
 * the process or the machine stops, the old file is there or the new one. The permissions stay as they are. */
mf_value  mf_load_npy(const char *path);                  /* format 1.0 to 3.0, C or Fortran order, either endianness */
mf_status mf_save_npy(const char *path, mf_value array);  /* bf16 is written as its bits, dtype '<V2' */
mf_status mf_save_npz(const char *path, mf_value tree);   /* leaves by path: "conv1/kernel"; an empty key, "." and ".." are errors */

/* max_bytes: what the members of an archive may claim to be in all; 0: 64 MiB and 128 times the archive's size. */
typedef struct mf_load_options { int64_t max_bytes; mf_reserved reserved_; } mf_load_options;
mf_value  mf_load_npz_opt(const char *path, const mf_load_options *o);  /* a dict of arrays; stored or deflated members */
/* An npz's arrays in the structure of like; shapes and dtypes must agree. */
mf_value  mf_load_tree_opt(const char *path, mf_value like, const mf_load_options *o);
#ifndef __cplusplus
#define mf_load_npz(...)        mf_load_npz_opt(MF_FIRST_(__VA_ARGS__, 0), MF_OPTIONS_(mf_load_options, __VA_ARGS__))
#define mf_load_tree(path, ...) mf_load_tree_opt(path, MF_FIRST_(__VA_ARGS__, 0), MF_OPTIONS_(mf_load_options, __VA_ARGS__))
#endif

MF_END_

#ifdef __cplusplus
inline mf_value mf_load_npz(const char *path, mf_load_options o = {}) { return mf_load_npz_opt(path, &o); }
inline mf_value mf_load_tree(const char *path, mf_value like, mf_load_options o = {}) { return mf_load_tree_opt(path, like, &o); }
#endif

#endif
