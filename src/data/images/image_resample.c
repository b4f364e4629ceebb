/* Resizes images of bytes linearly and, when reducing, with antialiasing, as mf_image_resize does; rounds once, at the end. Invariant: an
 * output pixel sums only the input pixels under its filter, so the time is linear in the pixels of input and output. */
#include "data/images/image_files.h"

#include <math.h>
#include <stdlib.h>

/* Resizes one row or column of m pixels to n. stride and to_stride are in floats. */
static void resample_line(const float *from, int64_t stride, int64_t m, float *to, int64_t to_stride, int64_t n, int channels)
{
    double step = (double)m / (double)n, wide = step > 1 ? step : 1;
    for (int64_t o = 0; o < n; o++) {
        double at = ((double)o + 0.5) * step - 0.5, sum = 0, pixel[3] = { 0 };
        int64_t first = (int64_t)ceil(at - wide), last = (int64_t)floor(at + wide);
        for (int64_t i = first < 0 ? 0 : first; i <= last && i < m; i++) {
            double weight = 1 - fabs(at - (double)i) / wide;
            sum += weight;
            for (int c = 0; c < channels; c++)
                pixel[c] += weight * (double)from[i * stride + c];
        }
        for (int c = 0; c < channels; c++)
            to[o * to_stride + c] = (float)(pixel[c] / sum);
    }
}

bool mf_image_resample(const unsigned char *in, const mf_image_size *from, unsigned char *out, const mf_image_size *to)
{
    int c = from->channels;
    int64_t row = to->width * c;
    float *wide = malloc((size_t)(from->width * c) * sizeof *wide), *rows = malloc((size_t)(from->height * row) * sizeof *rows);
    float *column = malloc((size_t)(to->height * c) * sizeof *column);
    bool ok = wide && rows && column;
    for (int64_t y = 0; ok && y < from->height; y++) {
        for (int64_t i = 0; i < from->width * c; i++)
            wide[i] = in[y * from->width * c + i];
        resample_line(wide, c, from->width, rows + y * row, c, to->width, c);
    }
    for (int64_t x = 0; ok && x < row; x += c) {
        resample_line(rows + x, row, from->height, column, c, to->height, c);
        for (int64_t y = 0; y < to->height; y++)
            for (int k = 0; k < c; k++)
                out[y * row + x + k] = (unsigned char)lrintf(column[y * c + k]);
    }
    free(wide);
    free(rows);
    free(column);
    return ok;
}
