/* Image files, decoded to bytes. Uses the public API only. */
#ifndef MF_DATA_IMAGES_IMAGE_FILES_H
#define MF_DATA_IMAGES_IMAGE_FILES_H

#include <manyfold.h>
#include <stdio.h>

typedef struct mf_image_size {
    int64_t height, width;
    int channels; /* 1: grey; 3: red, green, blue */
} mf_image_size;

/* Decodes a file to `out`, (height, width, channels); the image must have the size *size. With a NULL `out`, only sets the height and width
 * in *size. Returns unset, or an error that names the file and the offset that the decoder reached. */
mf_value mf_image_read(const char *path, mf_image_size *size, unsigned char *out);
/* The same for an open file of that format. */
mf_value mf_png_read(const char *path, FILE *file, mf_image_size *size, unsigned char *out);
mf_value mf_jpeg_read(const char *path, FILE *file, mf_image_size *size, unsigned char *out);

/* Resizes an image; the number of channels stays. False if out of memory. */
bool mf_image_resample(const unsigned char *in, const mf_image_size *from, unsigned char *out, const mf_image_size *to);

/* Sets *size or, if compare, checks that it is the same. Returns unset, or an error. */
mf_value mf_image_agree(const char *path, mf_image_size *size, int64_t height, int64_t width, bool compare);
/* A symbol of a library, which is loaded when the first image needs it. On failure returns NULL and sets *error. */
void *mf_image_symbol(const char *path, const char *library, const char *symbol, mf_value *error);

#endif
