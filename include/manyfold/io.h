/* manyfold/io.h - NumPy's files. Errors: MF_ERROR_IO naming file, offset and what was expected. */
#ifndef MANYFOLD_IO_H
#define MANYFOLD_IO_H

#include <manyfold/ops.h>

MF_BEGIN_

mf_value  mf_load_npy(const char *path);                  /* format 1.0 to 3.0, C or Fortran order, either endianness */
mf_status mf_save_npy(const char *path, mf_value array);  /* bf16 is written as its bits, dtype '<V2' */
mf_value  mf_load_npz(const char *path);                  /* a dict of arrays; stored or deflated members */
mf_status mf_save_npz(const char *path, mf_value tree);   /* leaves by path: "conv1/kernel"; written beside and renamed, so never half a file */
mf_value  mf_load_tree(const char *path, mf_value like);  /* an npz's arrays in the structure of like; shapes and dtypes must agree */

MF_END_

#endif
