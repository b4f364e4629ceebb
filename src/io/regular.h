/* Opening and mapping regular files for reading. Uses the public API only. */
#ifndef MF_IO_REGULAR_H
#define MF_IO_REGULAR_H

#include <manyfold.h>

/* Opens a regular file for reading and returns its descriptor. On failure returns -1; errno is 0 if it is not a regular file. */
int mf_open_regular(const char *path);
/* The error that the file cannot be read, from errno as mf_open_regular left it. */
mf_value mf_unreadable(const char *path);

/* A regular file mapped for reading; NULL bytes if it is empty. */
typedef struct mf_mapping {
    unsigned char *bytes;
    size_t size;
} mf_mapping;

/* Returns an error or unset. */
mf_value mf_map_regular(const char *path, mf_mapping *m);
void mf_unmap(mf_mapping *m);

#endif
