/* IDX files, the format of MNIST and similar datasets, plain or gzip'd: two zero bytes, a type byte, a rank byte, big-endian sizes, then
 * the elements, big-endian. Invariant: a file is read completely or refused; an error names the file, the offset in the uncompressed bytes
 * and what was expected there. The sizes in a header are not trusted: memory grows with the bytes that were actually read. */
#include "data/idx.h"

#include "data/source.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define FIRST_BYTES  ((size_t)64 << 20) /* enough for MNIST-like datasets in one allocation */
#define ABSURD_BYTES ((int64_t)1 << 40)

typedef struct source {
    const char *path;
    gzFile file;
    int64_t offset;
} source;

static mf_value out_of_memory(const char *path, size_t bytes)
{
    return mf_make_error(MF_ERROR_MEMORY, "%s: out of memory for %zu bytes", path, bytes);
}

/* ---- reading */

/* Why gzread stopped before it had everything. */
static const char *reason(const source *s)
{
    int code = Z_OK;
    const char *words = gzerror(s->file, &code);
    if (code == Z_ERRNO)
        return strerror(errno);
    if (code == Z_OK || code == Z_BUF_ERROR)
        return "the file is truncated";
    return *words ? words : "the gzip stream is corrupt";
}

/* Returns the number of bytes read; fewer than `size` only at the end of the file or after an error. */
static size_t read_bytes(source *s, void *out, size_t size)
{
    size_t done = 0;
    while (done < size) {
        size_t rest = size - done;
        int n = gzread(s->file, (char *)out + done, rest < 1u << 30 ? (unsigned)rest : 1u << 30);
        if (n <= 0)
            break;
        done += (size_t)n;
    }
    s->offset += (int64_t)done;
    return done;
}

static mf_value read_header_word(source *s, const char *what, unsigned char word[4])
{
    int64_t at = s->offset;
    size_t n = read_bytes(s, word, 4);
    if (n == 4)
        return (mf_value){ 0 };
    return mf_make_error(MF_ERROR_IO, "%s: at offset %lld: expected %s (4 bytes), found %zu bytes: %s", s->path, (long long)at, what, n,
                         reason(s));
}

/* ---- the header */

static mf_dtype dtype_of_code(unsigned code)
{
    switch (code) {
    case 0x08: return MF_U8;
    case 0x09: return MF_I8;
    case 0x0B: return MF_I16;
    case 0x0C: return MF_I32;
    case 0x0D: return MF_F32;
    case 0x0E: return MF_F64;
    default: return MF_DTYPE_DEFAULT;
    }
}

static int64_t bytes_of(mf_dtype dtype) { return (int64_t)mf_data_width(dtype); }

static mf_value read_magic(source *s, idx_array *array)
{
    unsigned char magic[4];
    mf_value error = read_header_word(s, "the magic number", magic);
    if (error.handle)
        return error;
    array->dtype = dtype_of_code(magic[2]);
    if (magic[0] || magic[1] || array->dtype == MF_DTYPE_DEFAULT)
        return mf_make_error(
            MF_ERROR_IO,
            "%s: at offset 0: expected the magic number of an IDX file (00 00, a type from 08 09 0b 0c 0d 0e, the rank), found "
            "%02x %02x %02x %02x",
            s->path, magic[0], magic[1], magic[2], magic[3]);
    if (magic[3] > MF_MAX_RANK)
        return mf_make_error(MF_ERROR_IO, "%s: at offset 3: expected a rank of at most %d, found %d", s->path, MF_MAX_RANK, magic[3]);
    array->shape.rank = magic[3];
    return (mf_value){ 0 };
}

static mf_value read_sizes(source *s, idx_array *array)
{
    int64_t reach = 1; /* the product of the nonzero sizes: a zero must not hide absurd ones */
    array->count = 1;
    for (int i = 0; i < array->shape.rank; i++) {
        unsigned char word[4];
        char what[48];
        int64_t at = s->offset;
        snprintf(what, sizeof what, "the size of dimension %d of %d", i, array->shape.rank);
        mf_value error = read_header_word(s, what, word);
        if (error.handle)
            return error;
        int64_t size = (int64_t)word[0] << 24 | word[1] << 16 | word[2] << 8 | word[3];
        array->shape.dims[i] = size;
        if (size && reach > ABSURD_BYTES / bytes_of(array->dtype) / size)
            return mf_make_error(
                MF_ERROR_IO, "%s: at offset %lld: expected %s, found %lld, which makes more than 2^40 bytes of data: the header is corrupt",
                s->path, (long long)at, what, (long long)size);
        array->count *= size;
        reach *= size ? size : 1;
    }
    return (mf_value){ 0 };
}

/* ---- the elements */

static mf_value truncated(const source *s, int64_t wanted, size_t found)
{
    return mf_make_error(MF_ERROR_IO, "%s: at offset %lld: expected %lld bytes of data from offset %lld on, found %zu: %s", s->path,
                         (long long)s->offset, (long long)wanted, (long long)(s->offset - (int64_t)found), found, reason(s));
}

static mf_value read_elements(source *s, idx_array *array)
{
    size_t wanted = (size_t)(array->count * bytes_of(array->dtype)), capacity = 0, done = 0;
    char *data = NULL;
    do {
        size_t next = capacity ? capacity * 2 : FIRST_BYTES;
        next = next < wanted ? next : wanted;
        char *more = realloc(data, next ? next : 1);
        if (!more) {
            free(data);
            return out_of_memory(s->path, wanted);
        }
        data = more;
        capacity = next;
        done += read_bytes(s, data + done, capacity - done);
    } while (done == capacity && capacity < wanted);
    if (done < wanted) {
        free(data);
        return truncated(s, (int64_t)wanted, done);
    }
    array->data = data;
    return (mf_value){ 0 };
}

/* Checks that the file ends here; reading the end makes zlib verify the gzip checksum. */
static mf_value read_end(source *s)
{
    char byte;
    int64_t at = s->offset;
    if (read_bytes(s, &byte, 1) == 1)
        return mf_make_error(MF_ERROR_IO, "%s: at offset %lld: expected the end of the file, found more bytes", s->path, (long long)at);
    int code = Z_OK;
    (void)gzerror(s->file, &code);
    if (code != Z_OK && code != Z_STREAM_END)
        return mf_make_error(MF_ERROR_IO, "%s: at offset %lld: expected the end of the file and its checksum: %s", s->path, (long long)at,
                             reason(s));
    return (mf_value){ 0 };
}

static void to_machine_order(idx_array *array)
{
    const union {
        uint16_t number;
        unsigned char first;
    } order = { 1 };
    int64_t size = bytes_of(array->dtype);
    unsigned char *at = array->data;
    if (!order.first || size == 1)
        return;
    for (int64_t i = 0; i < array->count; i++, at += size)
        for (int64_t k = 0; k < size / 2; k++) {
            unsigned char byte = at[k];
            at[k] = at[size - 1 - k];
            at[size - 1 - k] = byte;
        }
}

/* ---- whole files */

static mf_value read_source(source *s, idx_array *array)
{
    mf_value error = read_magic(s, array);
    if (!error.handle)
        error = read_sizes(s, array);
    if (!error.handle)
        error = read_elements(s, array);
    if (!error.handle)
        error = read_end(s);
    if (error.handle) {
        free(array->data);
        array->data = NULL;
        return error;
    }
    to_machine_order(array);
    return error;
}

mf_value idx_read(const char *path, idx_array *array)
{
    memset(array, 0, sizeof *array);
    errno = 0;
    source s = { .path = path, .file = path ? gzopen(path, "rb") : NULL };
    if (!s.file)
        return mf_make_error(MF_ERROR_IO, "%s: at offset 0: expected an IDX file: %s", path ? path : "(no path)",
                             path ? strerror(errno ? errno : ENOMEM) : "a path is needed");
    (void)gzbuffer(s.file, 1u << 18);
    mf_value error = read_source(&s, array);
    (void)gzclose_r(s.file);
    return error;
}

mf_value mf_load_idx(const char *path)
{
    MF_LAYER;
    idx_array array;
    mf_value error = idx_read(path, &array);
    if (error.handle)
        return error;
    mf_value v = mf_from_host(array.dtype, array.shape, array.data);
    free(array.data);
    return v;
}

bool data_path(char *out, size_t size, const char *folder, const char *name)
{
    int n = snprintf(out, size, "%s/%s", folder, name);
    return n >= 0 && (size_t)n < size;
}

mf_value data_labelled_images(mf_shape shape, float *images, int32_t *labels)
{
    mf_value image = mf_from_host(MF_F32, shape, images), label = mf_from_host(MF_I32, MF_SHAPE(shape.dims[0]), labels);
    free(images);
    free(labels);
    return mf_dict("image", image, "label", label);
}
