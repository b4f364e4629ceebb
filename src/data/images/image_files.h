/* Pictures in files, as bytes of pixels. Public API only. */
#ifndef MF_DATA_IMAGE_FILES_H
#define MF_DATA_IMAGE_FILES_H

#include <manyfold.h>
#include <stdio.h>

typedef struct mf_image_size {
    int64_t height, width;
    int channels; /* 1: grey; 3: red, green, blue */
} mf_image_size;

/* Reads a file into `out`, row by row, pixel by pixel; it has to have the size. out NULL: only finds its height and width. Error, which names
 * the file and how far the library came, or unset. */
mf_value mf_image_read(const char *path, mf_image_size *size, unsigned char *out);
/* The same of an open file, by what it is. */
mf_value mf_png_read(const char *path, FILE *file, mf_image_size *size, unsigned char *out);
mf_value mf_jpeg_read(const char *path, FILE *file, mf_image_size *size, unsigned char *out);

/* Of another size, with as many channels. False: out of memory. */
bool mf_image_resample(const unsigned char *in, const mf_image_size *from, unsigned char *out, const mf_image_size *to);

/* Notes the size, or compares: an error where there is another. */
mf_value mf_image_agree(const char *path, mf_image_size *size, int64_t height, int64_t width, bool compare);
/* A symbol of a library that is loaded when the first picture needs it; NULL and *error. */
void *mf_image_symbol(const char *path, const char *library, const char *symbol, mf_value *error);

#endif
