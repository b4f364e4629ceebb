/* A temporary folder with files, for the tests in this folder. */
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

/* The path of a file in the folder, which folder_remove will delete; valid until the next call. */
const char *folder_path(folder *f, const char *name);

/* Writes bytes, plain or gzip'd. */
void folder_write(folder *f, const char *name, const void *bytes, size_t size, bool gzip);

/* Writes an IDX file; converts the sizes to big-endian. */
void folder_write_idx(folder *f, const char *name, int type, int rank, const unsigned *sizes, const void *data, size_t bytes);

#endif
