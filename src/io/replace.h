/* Writing files: a new one takes the place of the old one at once, whole. Public API only. */
#ifndef MF_IO_REPLACE_H
#define MF_IO_REPLACE_H

#include <manyfold.h>
#include <stdio.h>

/* A file that will stand under `path`: written under a name of its own beside it. */
typedef struct mf_replacement {
    const char *path;
    char *target, *beside; /* where path's symbolic links lead; the file that is written */
    int fd;
} mf_replacement;

/* Makes the file, exclusively, with the permissions of what stands there or else those of a new file. What went wrong is remembered. */
mf_status mf_replace_begin(mf_replacement *r, const char *path);
/* The bytes go to the disk, the file to its place, the folder to the disk. `status` is how writing it went: not MF_OK removes it again. */
mf_status mf_replace_end(mf_replacement *r, mf_status status);

/* Writes what a file gets: a status with its error remembered. */
typedef mf_status (*mf_writer)(FILE *f, const char *path, const void *context);
/* Both of the above, and in between what `write` writes. */
mf_status mf_replace_file(const char *path, mf_writer write, const void *context);
/* A message in the innermost scope, for functions that return a status: reported when the scope closes, counted by mf_exit_status. */
mf_status mf_io_fail(mf_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* That the file cannot be written, by errno. */
mf_status mf_unwritable(const char *path);

#endif
