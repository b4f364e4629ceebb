/* PNG files, written with zlib only: filter 0, one IDAT chunk. Invariant: a file is replaced atomically, when it is complete. */
#include "io/replace.h"

#include <manyfold/io.h>

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { MOST_SIDE = 1 << 16 };

static void put_be(unsigned char *out, uint32_t x)
{
    for (int i = 0; i < 4; i++)
        out[i] = (unsigned char)(x >> (24 - 8 * i) & 255);
}

static bool write_chunk(FILE *f, const char *name, const unsigned char *bytes, size_t size)
{
    unsigned char head[8], tail[4];
    put_be(head, (uint32_t)size);
    memcpy(head + 4, name, 4);
    uLong sum = crc32(crc32(0, head + 4, 4), bytes, (uInt)size);
    put_be(tail, (uint32_t)sum);
    return fwrite(head, 1, 8, f) == 8 && fwrite(bytes, 1, size, f) == size && fwrite(tail, 1, 4, f) == 4;
}

typedef struct raster {
    uint32_t height, width;
    size_t channels;
    unsigned char *lines; /* each preceded by its filter's number, 0 */
} raster;

static mf_status write_png(FILE *f, const char *path, const void *context)
{
    const raster *r = context;
    static const unsigned char signature[8] = { 0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n' }, colours[5] = { 0, 0, 4, 2, 6 };
    size_t size = (size_t)r->height * (r->width * r->channels + 1);
    uLongf packed_size = compressBound((uLong)size);
    unsigned char *packed = malloc(packed_size), head[13] = { 0 };
    put_be(head, r->width);
    put_be(head + 4, r->height);
    head[8] = 8;
    head[9] = colours[r->channels];
    bool whole = packed && compress2(packed, &packed_size, r->lines, (uLong)size, 6) == Z_OK && packed_size < INT32_MAX;
    whole = whole && fwrite(signature, 1, 8, f) == 8 && write_chunk(f, "IHDR", head, 13) && write_chunk(f, "IDAT", packed, packed_size);
    free(packed);
    return whole && write_chunk(f, "IEND", head, 0) ? MF_OK : mf_unwritable(path);
}

/* Converts the image to lines of bytes. Reports the error if it fails. */
static mf_status read_image(raster *r, const char *path, mf_value image)
{
    mf_status status = mf_block_until_ready(image);
    if (status)
        return status;
    mf_shape s = mf_shape_of(image);
    mf_dtype dtype = mf_dtype_of(image);
    int64_t channels = s.rank == 3 ? s.dims[2] : 1;
    bool floats = dtype == MF_F32 || dtype == MF_F16 || dtype == MF_BF16 || dtype == MF_F64;
    if (s.rank < 2 || s.rank > 3 || channels < 1 || channels > 4 || s.dims[0] < 1 || s.dims[1] < 1 || s.dims[0] > MOST_SIDE ||
        s.dims[1] > MOST_SIDE || (dtype != MF_U8 && !floats))
        return mf_io_fail(MF_ERROR_SHAPE, "%s: expected an image of shape (h, w), or (h, w, 1 to 4), of u8 or floats, found %s%s", path,
                          mf_str_dtype(dtype), mf_str_shape(s));
    size_t line = (size_t)(s.dims[1] * channels), count = line * (size_t)s.dims[0];
    unsigned char *bytes = malloc(count);
    *r = (raster){ (uint32_t)s.dims[0], (uint32_t)s.dims[1], (size_t)channels, calloc((size_t)s.dims[0], line + 1) };
    if (!bytes || !r->lines) {
        free(bytes);
        return mf_io_fail(MF_ERROR_MEMORY, "%s: out of memory", path);
    }
    mf_value levels = floats ? mf_round(mf_mul(mf_clip(mf_astype(image, MF_F32), 0.0, 1.0), 255.0)) : image;
    status = mf_to_host(levels, MF_U8, bytes, count);
    for (size_t y = 0; y < r->height; y++)
        memcpy(r->lines + y * (line + 1) + 1, bytes + y * line, line);
    free(bytes);
    return status;
}

mf_status(mf_save_png)(const char *path, mf_value image)
{
    MF_LAYER;
    MF_SCOPE;
    raster r = { 0 };
    mf_status status = read_image(&r, path, image);
    if (!status)
        status = mf_replace_file(path, write_png, &r);
    free(r.lines);
    return status;
}
