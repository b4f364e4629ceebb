/* See folder.h. */
#include "folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

bool folder_make(folder *f)
{
    memset(f, 0, sizeof *f);
    strcpy(f->path, "/tmp/manyfold_data_XXXXXX");
    return mkdtemp(f->path) != NULL;
}

const char *folder_path(folder *f, const char *name)
{
    static char path[160];
    bool known = false;
    for (int i = 0; i < f->count; i++)
        known = known || strcmp(f->names[i], name) == 0;
    if (!known && f->count < 16)
        snprintf(f->names[f->count++], sizeof f->names[0], "%s", name);
    snprintf(path, sizeof path, "%s/%s", f->path, name);
    return path;
}

void folder_remove(folder *f)
{
    for (int i = 0; i < f->count; i++) {
        char path[160];
        snprintf(path, sizeof path, "%s/%s", f->path, f->names[i]);
        (void)unlink(path);
    }
    (void)rmdir(f->path);
}

void folder_write(folder *f, const char *name, const void *bytes, size_t size, bool gzip)
{
    gzFile file = gzopen(folder_path(f, name), gzip ? "wb" : "wbT"); /* T: uncompressed */
    if (file && size)
        (void)gzwrite(file, bytes, (unsigned)size);
    if (file)
        (void)gzclose(file);
}

void folder_write_idx(folder *f, const char *name, int type, int rank, const unsigned *sizes, const void *data, size_t bytes)
{
    size_t header = 4 + 4 * (size_t)rank;
    unsigned char *all = calloc(header + bytes, 1);
    if (!all)
        return;
    all[2] = (unsigned char)type;
    all[3] = (unsigned char)rank;
    for (int i = 0; i < rank; i++)
        for (int k = 0; k < 4; k++)
            all[4 + 4 * i + k] = (unsigned char)(sizes[i] >> (24 - 8 * k));
    if (bytes)
        memcpy(all + header, data, bytes);
    folder_write(f, name, all, header + bytes, true);
    free(all);
}
