/* Writing files: a complete new file atomically replaces the old one. Uses the public API only. */
#ifndef MF_IO_REPLACE_H
#define MF_IO_REPLACE_H

#include <manyfold.h>
#include <stdio.h>

/* A replacement of the file `path`, written to a temporary file in the same folder. */
typedef struct mf_replacement {
    const char *path;
    char *target, *beside; /* path with its symbolic links resolved; the temporary file */
    int fd;
} mf_replacement;

/* Creates the temporary file, exclusively, with the permissions of the existing file or else of a new one. The scope reports a failure. */
mf_status mf_replace_begin(mf_replacement *r, const char *path);
/* Flushes the file, renames it to its target and flushes the folder. If `status`, the result of writing it, is not MF_OK, removes it. */
mf_status mf_replace_end(mf_replacement *r, mf_status status);

/* Writes the contents of a file. On failure reports the error (mf_io_fail) and returns its status. */
typedef mf_status (*mf_writer)(FILE *f, const char *path, const void *context);
/* mf_replace_begin, `write`, mf_replace_end. */
mf_status mf_replace_file(const char *path, mf_writer write, const void *context);
/* Makes an error in the innermost scope, for functions that return a status. The scope reports it when it closes; mf_exit_status counts
 * it. */
mf_status mf_io_fail(mf_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Fails with the error that the file cannot be written, from errno. */
mf_status mf_unwritable(const char *path);

#endif
