/* CIFAR-10's binary version: records of a label byte and the 3072 bytes of a 32x32 image, stored as planes. Invariant: images are f32 in
 * [0, 1] (byte / 255), NHWC with three channels; labels are below 10. */
#include "data/idx.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 32, CHANNELS = 3, PIXELS = SIDE * SIDE, RECORD = 1 + CHANNELS * PIXELS, CLASSES = 10, PER_FILE = 10000 };

typedef struct dataset {
    float *images;
    int32_t *labels;
    int64_t count;
} dataset;

/* CHW bytes to HWC floats. */
static void convert_planes(float *out, const unsigned char *planes)
{
    for (int pixel = 0; pixel < PIXELS; pixel++)
        for (int channel = 0; channel < CHANNELS; channel++)
            *out++ = (float)planes[channel * PIXELS + pixel] / 255.0f;
}

static mf_value read_record(const char *path, FILE *file, int number, dataset *d)
{
    unsigned char record[RECORD];
    size_t n = fread(record, 1, RECORD, file);
    long long offset = (long long)number * RECORD;
    if (n != RECORD)
        return mf_make_error(MF_ERROR_IO, "%s: at offset %lld: expected record %d of %d (%d bytes), found %zu bytes: %s", path, offset,
                             number, PER_FILE, RECORD, n, ferror(file) ? strerror(errno) : "the file is truncated");
    if (record[0] >= CLASSES)
        return mf_make_error(MF_ERROR_IO, "%s: at offset %lld: expected a label below 10, found %d", path, offset, record[0]);
    convert_planes(d->images + d->count * CHANNELS * PIXELS, record + 1);
    d->labels[d->count++] = record[0];
    return (mf_value){ 0 };
}

static mf_value read_file(const char *path, dataset *d)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return mf_make_error(MF_ERROR_IO, "%s: at offset 0: expected %d records of CIFAR-10: %s", path, PER_FILE, strerror(errno));
    mf_value error = { 0 };
    for (int i = 0; i < PER_FILE && !error.handle; i++)
        error = read_record(path, file, i, d);
    if (!error.handle && fgetc(file) != EOF)
        error = mf_make_error(MF_ERROR_IO, "%s: at offset %lld: expected the end of the file, found more bytes", path,
                              (long long)PER_FILE * RECORD);
    (void)fclose(file);
    return error;
}

static mf_value free_after(dataset *d, mf_value error)
{
    free(d->images);
    free(d->labels);
    return error;
}

static mf_value read_files(const char *folder, const char *const *names, int count)
{
    dataset d = { .count = 0 };
    size_t capacity = (size_t)count * PER_FILE;
    d.images = malloc(capacity * CHANNELS * PIXELS * sizeof *d.images);
    d.labels = malloc(capacity * sizeof *d.labels);
    if (!d.images || !d.labels)
        return free_after(&d, mf_make_error(MF_ERROR_MEMORY, "%s: out of memory for %zu images", folder, capacity));
    for (int i = 0; i < count; i++) {
        char path[4096];
        if (!data_path(path, sizeof path, folder, names[i]))
            return free_after(&d, mf_make_error(MF_ERROR_ARGUMENT, "mf_load_cifar10: the folder's name is too long"));
        mf_value error = read_file(path, &d);
        if (error.handle)
            return free_after(&d, error);
    }
    return data_labelled_images(MF_SHAPE(d.count, SIDE, SIDE, CHANNELS), d.images, d.labels);
}

mf_value mf_load_cifar10(const char *folder, const char *split)
{
    MF_LAYER;
    static const char *const train[] = { "data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
                                         "data_batch_5.bin" };
    static const char *const test[] = { "test_batch.bin" };
    if (!folder)
        return mf_make_error(MF_ERROR_ARGUMENT, "mf_load_cifar10: a folder is needed");
    if (split && strcmp(split, "train") == 0)
        return read_files(folder, train, 5);
    if (split && strcmp(split, "test") == 0)
        return read_files(folder, test, 1);
    return mf_make_error(MF_ERROR_ARGUMENT, "mf_load_cifar10: the split is \"train\" or \"test\", not \"%s\"", split ? split : "(null)");
}
