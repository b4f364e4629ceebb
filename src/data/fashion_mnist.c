/* Fashion-MNIST, from its four gzip'd IDX files. Invariant: images are f32 in [0, 1] (byte / 255), NHWC with one channel, padded with two
 * rows and columns of zeros on each side to 32x32, so that two poolings give 8x8; labels are below 10. */
#include "data/idx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEBIAN_FOLDER "/usr/share/datasets/fashion-mnist"

enum { SIDE = 28, BORDER = 2, PADDED = SIDE + 2 * BORDER, CLASSES = 10 };

/* Fills the inner pixels; the borders keep calloc's zeros. */
static void convert_bytes(float *out, const unsigned char *bytes, int64_t count)
{
    float level[256];
    for (int i = 0; i < 256; i++)
        level[i] = (float)i / 255.0f;
    for (int64_t n = 0; n < count; n++)
        for (int row = 0; row < SIDE; row++) {
            float *to = out + (n * PADDED + row + BORDER) * PADDED + BORDER;
            for (int column = 0; column < SIDE; column++)
                *to++ = level[*bytes++];
        }
}

static mf_value check_images(const char *path, const idx_array *a)
{
    if (a->dtype != MF_U8 || a->shape.rank != 3)
        return mf_make_error(MF_ERROR_IO, "%s: at offset 2: expected bytes in 3 dimensions (08 03), found %s in %d", path,
                             mf_str_dtype(a->dtype), a->shape.rank);
    if (a->shape.dims[1] != SIDE || a->shape.dims[2] != SIDE)
        return mf_make_error(MF_ERROR_IO, "%s: at offset 8: expected images of 28x28, found %lldx%lld", path, (long long)a->shape.dims[1],
                             (long long)a->shape.dims[2]);
    return (mf_value){ 0 };
}

static mf_value check_labels(const char *path, const idx_array *a, int64_t images)
{
    if (a->dtype != MF_U8 || a->shape.rank != 1)
        return mf_make_error(MF_ERROR_IO, "%s: at offset 2: expected bytes in 1 dimension (08 01), found %s in %d", path,
                             mf_str_dtype(a->dtype), a->shape.rank);
    if (a->count != images)
        return mf_make_error(MF_ERROR_IO, "%s: at offset 4: expected %lld labels, one an image, found %lld", path, (long long)images,
                             (long long)a->count);
    const unsigned char *label = a->data;
    for (int64_t i = 0; i < a->count; i++)
        if (label[i] >= CLASSES)
            return mf_make_error(MF_ERROR_IO, "%s: at offset %lld: expected a label below 10, found %d", path, 8 + (long long)i, label[i]);
    return (mf_value){ 0 };
}

static mf_value convert(const char *path, const idx_array *images, const idx_array *labels)
{
    int64_t n = images->count / (SIDE * SIDE);
    float *image = calloc((size_t)n * PADDED * PADDED + 1, sizeof *image);
    int32_t *label = malloc(((size_t)n + 1) * sizeof *label);
    if (!image || !label) {
        free(image);
        free(label);
        return mf_make_error(MF_ERROR_MEMORY, "%s: out of memory for %lld images", path, (long long)n);
    }
    convert_bytes(image, images->data, n);
    for (int64_t i = 0; i < n; i++)
        label[i] = ((const unsigned char *)labels->data)[i];
    return data_labelled_images(MF_SHAPE(n, PADDED, PADDED, 1), image, label);
}

static mf_value load(const char *image_path, const char *label_path)
{
    idx_array images, labels = { .data = NULL };
    mf_value v = idx_read(image_path, &images);
    if (!v.handle)
        v = check_images(image_path, &images);
    if (!v.handle)
        v = idx_read(label_path, &labels);
    if (!v.handle)
        v = check_labels(label_path, &labels, images.shape.dims[0]);
    if (!v.handle)
        v = convert(image_path, &images, &labels);
    free(images.data);
    free(labels.data);
    return v;
}

mf_value mf_load_fashion_mnist(const char *folder, const char *split)
{
    MF_LAYER;
    bool train = split && strcmp(split, "train") == 0;
    if (!train && !(split && strcmp(split, "test") == 0))
        return mf_make_error(MF_ERROR_ARGUMENT, "mf_load_fashion_mnist: the split is \"train\" or \"test\", not \"%s\"",
                             split ? split : "(null)");
    char images[4096], labels[4096];
    folder = folder ? folder : DEBIAN_FOLDER;
    if (!data_path(images, sizeof images, folder, train ? "train-images-idx3-ubyte.gz" : "t10k-images-idx3-ubyte.gz") ||
        !data_path(labels, sizeof labels, folder, train ? "train-labels-idx1-ubyte.gz" : "t10k-labels-idx1-ubyte.gz"))
        return mf_make_error(MF_ERROR_ARGUMENT, "mf_load_fashion_mnist: the folder's name is too long");
    return load(images, labels);
}
