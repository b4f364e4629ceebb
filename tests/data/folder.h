/* A temporary folder with files in it, for the tests of this room. */
#ifndef MANYFOLD_TESTS_DATA_FOLDER_H
#define MANYFOLD_TESTS_DATA_FOLDER_H

#include <stdbool.h>
#include <stddef.h>

typedef struct folder {
    char path[64];
    char names[16][64];
    int count;
} folder;

bool folder_make(folder *f);
void folder_remove(folder *f);

/* Path of a file in the folder, which folder_remove will delete; the string lasts until the next call. */
const char *folder_path(folder *f, const char *name);

/* Writes bytes as they are, or gzip'd. */
void folder_write(folder *f, const char *name, const void *bytes, size_t size, bool gzip);

/* Writes an IDX file: sizes are big-endian already turned by this. */
void folder_write_idx(folder *f, const char *name, int type, int rank, const unsigned *sizes, const void *data, size_t bytes);

#endif
