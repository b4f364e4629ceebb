/* Files as they are read: regular ones alone. Public API only. */
#ifndef MF_IO_REGULAR_H
#define MF_IO_REGULAR_H

#include <manyfold.h>

/* A regular file, opened to be read; -1 and errno, or -1 and 0 where it is none: nothing that could be waited for is opened. */
int mf_open_regular(const char *path);
/* That the file could not be opened or read, by errno as it is left there. */
mf_value mf_unreadable(const char *path);

/* A regular file, mapped to be read. Of an empty one nothing is mapped. */
typedef struct mf_mapping {
    unsigned char *bytes;
    size_t size;
} mf_mapping;

/* Error or unset. */
mf_value mf_map_regular(const char *path, mf_mapping *m);
void mf_unmap(mf_mapping *m);

#endif
