/* Folders of images as a source: a folder for each class, as in torchvision's ImageFolder. Invariants: rows are sorted by the names of the
 * classes, then of the files; a row is read and decoded when it is requested. */
#include "data/images/image_files.h"

#include "data/idx.h"
#include "data/source.h"

#include <manyfold/data.h>

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_SIDE = 1 << 16, MOST_PIXELS = 1 << 27 };

/* ---- one picture */

void *mf_image_symbol(const char *path, const char *library, const char *symbol, mf_value *error)
{
    void *loaded = dlopen(library, RTLD_NOW | RTLD_LOCAL), *found = loaded ? dlsym(loaded, symbol) : NULL; /* the library stays loaded */
    if (!found)
        *error = mf_make_error(MF_ERROR_IO, "%s: %s is needed to read it: %s", path, library, dlerror());
    return found;
}

mf_value mf_image_agree(const char *path, mf_image_size *size, int64_t height, int64_t width, bool compare)
{
    if (height < 1 || width < 1 || height > MOST_SIDE || width > MOST_SIDE)
        return mf_make_error(MF_ERROR_IO, "%s: expected a picture of at most %d by %d pixels, found %lld by %lld", path, MOST_SIDE,
                             MOST_SIDE, (long long)height, (long long)width);
    if (compare && (height != size->height || width != size->width))
        return mf_make_error(MF_ERROR_IO,
                             "%s: expected a picture of %lld by %lld pixels (height by width), as all have, found %lld by %lld", path,
                             (long long)size->height, (long long)size->width, (long long)height, (long long)width);
    if (!compare) {
        size->height = height;
        size->width = width;
    }
    return (mf_value){ 0 };
}

/* The first bytes of a file, not its name, tell its format. */
mf_value mf_image_read(const char *path, mf_image_size *size, unsigned char *out)
{
    unsigned char first[8] = { 0 };
    int fd = mf_open_regular(path);
    FILE *file = fd >= 0 ? fdopen(fd, "rb") : NULL;
    if (!file) {
        mf_value error = mf_unreadable(path);
        if (fd >= 0)
            (void)close(fd);
        return error;
    }
    size_t n = fread(first, 1, sizeof first, file);
    rewind(file);
    mf_value error;
    if (n >= 3 && memcmp(first, "\xff\xd8\xff", 3) == 0)
        error = mf_jpeg_read(path, file, size, out);
    else if (n == 8 && memcmp(first, "\x89PNG\r\n\x1a\n", 8) == 0)
        error = mf_png_read(path, file, size, out);
    else
        error = mf_make_error(MF_ERROR_IO, "%s: at offset 0: expected the first bytes of a PNG or a JPEG", path);
    (void)fclose(file);
    return error;
}

/* ---- listing folders */

typedef struct entries {
    char **at;
    int64_t count, capacity;
    bool failed; /* out of memory */
} entries;

static void add(entries *e, const char *folder, const char *name)
{
    if (e->count + 1 >= e->capacity) {
        int64_t capacity = e->capacity ? e->capacity * 2 : 64;
        char **more = realloc(e->at, (size_t)capacity * sizeof *more);
        e->failed |= !more;
        if (!more)
            return;
        e->at = more;
        e->capacity = capacity;
    }
    size_t size = (folder ? strlen(folder) + 1 : 0) + strlen(name) + 1;
    char *path = malloc(size);
    e->failed |= !path;
    if (!path)
        return;
    snprintf(path, size, "%s%s%s", folder ? folder : "", folder ? "/" : "", name);
    e->at[e->count++] = path;
    e->at[e->count] = NULL;
}

static void forget(entries *e)
{
    for (int64_t i = 0; i < e->count; i++)
        free(e->at[i]);
    free(e->at);
    *e = (entries){ 0 };
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static bool is_picture(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot && *name != '.' && (strcasecmp(dot, ".png") == 0 || strcasecmp(dot, ".jpg") == 0 || strcasecmp(dot, ".jpeg") == 0);
}

static bool is_folder(const char *parent, const char *name)
{
    char path[4096];
    struct stat s;
    return *name != '.' && data_path(path, sizeof path, parent, name) && stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

/* Adds the names of a folder's subfolders, or the paths of its images, in sorted order. False if it cannot be read (see errno). */
static bool list(entries *e, const char *folder, bool folders)
{
    DIR *d = opendir(folder);
    int64_t before = e->count;
    if (!d)
        return false;
    for (const struct dirent *entry; (entry = readdir(d));)
        if (folders ? is_folder(folder, entry->d_name) : is_picture(entry->d_name))
            add(e, folders ? NULL : folder, entry->d_name);
    (void)closedir(d);
    if (e->count > before)
        qsort(e->at + before, (size_t)(e->count - before), sizeof *e->at, by_name);
    return true;
}

/* ---- the source */

typedef struct image_folder {
    entries files;
    int32_t *labels; /* NULL: no classes */
    mf_image_size size;
    bool resize; /* images of other sizes are resized; else they are an error */
} image_folder;

static mf_value out_of_memory(const char *path) { return mf_make_error(MF_ERROR_MEMORY, "%s: out of memory", path); }

static void end(void *context)
{
    image_folder *f = context;
    forget(&f->files);
    free(f->labels);
    free(f);
}

static mf_value read_resized(const char *path, mf_image_size *size, unsigned char *out)
{
    mf_image_size found = { .channels = size->channels };
    mf_value error = mf_image_read(path, &found, NULL);
    if (error.handle || (found.height == size->height && found.width == size->width))
        return error.handle ? error : mf_image_read(path, size, out);
    int64_t wider = found.width > size->width ? found.width : size->width; /* the first pass resizes rows and keeps the height */
    if (found.height * wider > MOST_PIXELS)
        return mf_make_error(MF_ERROR_IO,
                             "%s: expected a picture of at most %d pixels to resize, also with the new width, found %lld by %lld", path,
                             MOST_PIXELS, (long long)found.height, (long long)found.width);
    unsigned char *whole = malloc((size_t)(found.height * found.width * found.channels));
    error = whole ? mf_image_read(path, &found, whole) : out_of_memory(path);
    if (!error.handle && !mf_image_resample(whole, &found, out, size))
        error = out_of_memory(path);
    free(whole);
    return error;
}

/* The columns are in the order of the dict's keys: image, label. */
static mf_value read_image(void *context, int64_t row, void *const *places)
{
    const image_folder *f = context;
    mf_image_size size = f->size;
    if (f->labels)
        *(int32_t *)places[1] = f->labels[row];
    return f->resize ? read_resized(f->files.at[row], &size, places[0]) : mf_image_read(f->files.at[row], &size, places[0]);
}

/* Adds the files of a class, with its label. Returns an error or unset. */
static mf_value add_class(image_folder *f, const char *folder, const char *name, int32_t label)
{
    char path[4096];
    int64_t before = f->files.count;
    if (!data_path(path, sizeof path, folder, name) || !list(&f->files, path, false))
        return mf_unreadable(path);
    int32_t *labels = realloc(f->labels, ((size_t)f->files.count + 1) * sizeof *labels);
    f->labels = labels ? labels : f->labels;
    if (!labels || f->files.failed)
        return out_of_memory(folder);
    for (int64_t i = before; i < f->files.count; i++)
        labels[i] = label;
    return (mf_value){ 0 };
}

static mf_value find_files(image_folder *f, entries *classes, const char *folder)
{
    if (!list(classes, folder, true))
        return mf_unreadable(folder);
    mf_value error = { 0 };
    for (int64_t i = 0; i < classes->count && !error.handle; i++)
        error = add_class(f, folder, classes->at[i], (int32_t)i);
    if (!error.handle && !classes->count && !list(&f->files, folder, false))
        error = mf_unreadable(folder);
    if (!error.handle && (f->files.failed || classes->failed))
        error = out_of_memory(folder);
    if (!error.handle && !f->files.count)
        error = mf_make_error(MF_ERROR_IO, "%s: expected files .png, .jpg or .jpeg, or folders of them, found none", folder);
    return error;
}

static mf_value find_size(image_folder *f, const mf_source_images_options *o)
{
    f->resize = o && o->resize;
    f->size.channels = o && o->channels ? o->channels : 3;
    if (f->size.channels != 1 && f->size.channels != 3)
        return mf_make_error(MF_ERROR_ARGUMENT, "mf_source_images: channels is %d; pictures have 1 or 3", f->size.channels);
    if (o && (o->height || o->width))
        return mf_image_agree("mf_source_images", &f->size, o->height, o->width, false);
    return mf_image_read(f->files.at[0], &f->size, NULL);
}

mf_source *mf_source_images_opt(const char *folder, const mf_source_images_options *o)
{
    MF_LAYER;
    MF_SCOPE;
    entries classes = { 0 };
    image_folder *f = calloc(1, sizeof *f);
    mf_value error = f ? find_files(f, &classes, folder) : out_of_memory(folder);
    if (!error.handle)
        error = find_size(f, o);
    if (error.handle) {
        forget(&classes);
        if (f)
            end(f);
        return mf_source_failed(error);
    }
    mf_value image = mf_struct(MF_SHAPE(f->size.height, f->size.width, f->size.channels), MF_U8);
    mf_value row = f->labels ? mf_dict("image", image, "label", mf_struct(MF_SHAPE0, MF_I32)) : mf_dict("image", image);
    mf_source *s = mf_source_new(row, f->files.count, read_image, f, end);
    if (s && classes.count)
        s->classes = classes.at;
    else
        forget(&classes);
    return s;
}
