/* .npy files: reads header versions 1.0 to 3.0, C and Fortran order, both byte orders; writes 1.0, C order, little-endian. Invariant: the
 * file's size is checked against its header before memory for the array is allocated; an error names the offset. */
#include "io/numpy/npy.h"

#include "io/regular.h"
#include "io/replace.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct npy_dtype {
    mf_dtype dtype;
    const char *code; /* kind and size, as in '<f4' */
    int size, part;   /* bytes in an element, and in the unit that is reversed to change the byte order */
} dtypes[] = {
    { MF_BOOL, "b1", 1, 1 }, { MF_I8, "i1", 1, 1 },     { MF_I16, "i2", 2, 2 },  { MF_I32, "i4", 4, 4 },
    { MF_I64, "i8", 8, 8 },  { MF_U8, "u1", 1, 1 },     { MF_U16, "u2", 2, 2 },  { MF_U32, "u4", 4, 4 },
    { MF_U64, "u8", 8, 8 },  { MF_F16, "f2", 2, 2 },    { MF_F32, "f4", 4, 4 },  { MF_F64, "f8", 8, 8 },
    { MF_C64, "c8", 8, 4 },  { MF_C128, "c16", 16, 8 }, { MF_BF16, "V2", 2, 2 }, /* bfloat16 as ml_dtypes stores it: NumPy has none */
};
enum { DTYPES = sizeof dtypes / sizeof *dtypes, HEADER = 10 };

static const unsigned char magic[8] = { 0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0 }; /* followed by the version that is written */

typedef struct npy_header {
    const struct npy_dtype *dtype;
    bool swapped, fortran;
    mf_shape shape;
    size_t count, data; /* elements; offset of the first */
} npy_header;

/* ---- the header */

static const struct npy_dtype *dtype_of_code(const char *code, size_t length)
{
    for (int i = 0; i < DTYPES; i++)
        if (strlen(dtypes[i].code) == length && memcmp(dtypes[i].code, code, length) == 0)
            return &dtypes[i];
    return NULL;
}

/* The text behind 'key': in the header's Python dict; NULL if the key is missing. */
static const char *field(const char *header, const char *key)
{
    char quoted[32];
    snprintf(quoted, sizeof quoted, "'%s'", key);
    const char *at = strstr(header, quoted);
    if (!at)
        return NULL;
    at += strlen(quoted);
    at += strspn(at, " ");
    return *at == ':' ? at + 1 + strspn(at + 1, " ") : NULL;
}

static bool parse_shape(const char *at, npy_header *h)
{
    if (!at || *at != '(')
        return false;
    size_t reach = 1; /* the product of the nonzero sizes: a zero must not hide absurd ones */
    h->shape.rank = 0;
    h->count = 1;
    for (at++;;) {
        at += strspn(at, " ,");
        if (*at == ')')
            return true;
        char *end;
        errno = 0;
        long long d = strtoll(at, &end, 10);
        if (end == at || d < 0 || errno || h->shape.rank == MF_MAX_RANK || (d && reach > ((size_t)1 << 52) / (size_t)d))
            return false;
        h->shape.dims[h->shape.rank++] = d;
        h->count *= (size_t)d;
        reach *= d ? (size_t)d : 1;
        at = *end == 'L' ? end + 1 : end; /* Python 2's suffix of a long */
    }
}

/* Parses the header's text. Returns NULL, or what was expected there. */
static const char *parse_fields(const char *text, npy_header *h)
{
    const uint16_t one = 1;
    bool little = *(const unsigned char *)&one == 1;
    const char *descr = field(text, "descr"), *order = field(text, "fortran_order");
    if (!descr || *descr != '\'' || !descr[1] || !strchr("<>|=", descr[1]))
        return "a plain dtype such as '<f4' as 'descr'";
    h->dtype = dtype_of_code(descr + 2, strcspn(descr + 2, "'"));
    if (!h->dtype)
        return "a dtype of bool, integers, floats or complex numbers as 'descr'";
    h->swapped = descr[1] == (little ? '>' : '<');
    if (!order || (strncmp(order, "True", 4) != 0 && strncmp(order, "False", 5) != 0))
        return "'fortran_order': True or False";
    h->fortran = *order == 'T';
    return parse_shape(field(text, "shape"), h) ? NULL : "a tuple of at most 8 sizes, which make less than 2^52 elements, as 'shape'";
}

/* Finds the beginning and length of the header's text. Returns NULL, or what was expected at *offset. */
static const char *find_text(const unsigned char *bytes, size_t size, size_t *begin, size_t *length, size_t *offset)
{
    *offset = 0;
    if (size < HEADER || memcmp(bytes, magic, 6) != 0)
        return "the magic bytes \\x93NUMPY";
    *offset = 6;
    if (bytes[6] < 1 || bytes[6] > 3)
        return "format version 1, 2 or 3";
    *offset = 8;
    *begin = bytes[6] == 1 ? 10 : 12;
    if (size < *begin)
        return "the header's length";
    *length = bytes[8] | (size_t)bytes[9] << 8;
    if (bytes[6] > 1)
        *length |= (size_t)bytes[10] << 16 | (size_t)bytes[11] << 24;
    *offset = size;
    return *length > size - *begin ? "the whole header" : NULL;
}

static mf_value damaged(const char *file, const char *member, size_t offset, const char *expected)
{
    return mf_make_error(MF_ERROR_IO, "%s%s%s: at byte %zu: expected %s", file, member ? ": " : "", member ? member : "", offset, expected);
}

/* ---- the data */

static void swap_bytes(unsigned char *p, size_t count, int part)
{
    for (size_t i = 0; i < count; i++, p += part)
        for (int a = 0, b = part - 1; a < b; a++, b--) {
            unsigned char t = p[a];
            p[a] = p[b];
            p[b] = t;
        }
}

/* Column-major (Fortran) to row-major (C) order. */
static void turn(unsigned char *out, const unsigned char *in, const npy_header *h)
{
    int64_t index[MF_MAX_RANK] = { 0 }, strides[MF_MAX_RANK], step = h->dtype->size, at = 0;
    for (int i = 0; i < h->shape.rank; i++) {
        strides[i] = step;
        step *= h->shape.dims[i];
    }
    for (size_t n = 0; n < h->count; n++, out += h->dtype->size) {
        memcpy(out, in + at, (size_t)h->dtype->size);
        for (int i = h->shape.rank - 1; i >= 0; i--) {
            at += strides[i];
            if (++index[i] < h->shape.dims[i])
                break;
            at -= strides[i] * index[i];
            index[i] = 0;
        }
    }
}

static mf_value rearranged(const npy_header *h, const unsigned char *data)
{
    size_t bytes = h->count * (size_t)h->dtype->size;
    unsigned char *copy = malloc(bytes ? bytes : 1);
    if (!copy)
        return mf_make_error(MF_ERROR_MEMORY, "out of memory");
    if (h->fortran)
        turn(copy, data, h);
    else
        memcpy(copy, data, bytes);
    if (h->swapped)
        swap_bytes(copy, bytes / (size_t)h->dtype->part, h->dtype->part);
    mf_value v = mf_from_host(h->dtype->dtype, h->shape, copy);
    free(copy);
    return v;
}

/* Returns an error or unset. */
static mf_value read_header(const char *file, const char *member, const unsigned char *bytes, size_t size, npy_header *h)
{
    size_t begin = 0, length = 0, offset;
    const char *expected = find_text(bytes, size, &begin, &length, &offset);
    if (expected)
        return damaged(file, member, offset, expected);
    char *text = malloc(length + 1);
    if (!text)
        return mf_make_error(MF_ERROR_MEMORY, "out of memory");
    memcpy(text, bytes + begin, length);
    text[length] = 0;
    expected = parse_fields(text, h);
    free(text);
    if (expected)
        return damaged(file, member, begin, expected);
    h->data = begin + length;
    if (h->count <= (size - h->data) / (size_t)h->dtype->size)
        return (mf_value){ 0 };
    char words[96];
    snprintf(words, sizeof words, "%zu bytes of data from byte %zu on, the file ends here", h->count * (size_t)h->dtype->size, h->data);
    return damaged(file, member, size, words);
}

static bool is_rearranged(const npy_header *h) { return (h->fortran && h->shape.rank > 1) || (h->swapped && h->dtype->part > 1); }

mf_value mf_npy_parse(const char *file, const char *member, const unsigned char *bytes, size_t size)
{
    npy_header h = { .swapped = false };
    mf_value error = read_header(file, member, bytes, size, &h);
    if (error.handle)
        return error;
    return is_rearranged(&h) ? rearranged(&h, bytes + h.data) : mf_from_host(h.dtype->dtype, h.shape, bytes + h.data);
}

mf_value mf_npy_look(const char *file, const unsigned char *bytes, size_t size, size_t *data)
{
    npy_header h = { .swapped = false };
    mf_value error = read_header(file, NULL, bytes, size, &h);
    if (error.handle)
        return error;
    *data = h.data;
    return is_rearranged(&h) ? damaged(file, NULL, HEADER, "C order and little-endian numbers; mf_load_npy reads others")
                             : mf_struct(h.shape, h.dtype->dtype);
}

size_t mf_npy_width(mf_dtype dtype)
{
    for (int i = 0; i < DTYPES; i++)
        if (dtypes[i].dtype == dtype)
            return (size_t)dtypes[i].size;
    return 0;
}

unsigned char *mf_npy_format(const char *file, mf_value array, size_t *size, mf_status *status)
{
    mf_shape shape = mf_shape_of(array);
    mf_dtype dtype = mf_dtype_of(array);
    const struct npy_dtype *d = NULL;
    for (int i = 0; i < DTYPES; i++)
        d = dtypes[i].dtype == dtype ? &dtypes[i] : d;
    *status = mf_block_until_ready(array); /* records the error, if it is one */
    if (*status)
        return NULL;
    if (shape.rank < 0 || !d) {
        *status = mf_io_fail(MF_ERROR_ARGUMENT, "%s: only arrays of numbers can be written, not %s", file, mf_str(array));
        return NULL;
    }
    char header[512];
    int n = snprintf(header, sizeof header, "{'descr': '%s%s', 'fortran_order': False, 'shape': (", d->size == 1 ? "|" : "<", d->code);
    for (int i = 0; i < shape.rank; i++)
        n += snprintf(header + n, sizeof header - (size_t)n, "%lld%s", (long long)shape.dims[i],
                      i + 1 < shape.rank ? ", "
                      : shape.rank == 1  ? ","
                                         : "");
    n += snprintf(header + n, sizeof header - (size_t)n, "), }");
    size_t padded = ((size_t)HEADER + (size_t)n + 1 + 63) / 64 * 64, count = (size_t)mf_size(array), bytes = count * (size_t)d->size;
    unsigned char *out = malloc(padded + bytes);
    if (!out) {
        *status = mf_io_fail(MF_ERROR_MEMORY, "%s: out of memory", file);
        return NULL;
    }
    memcpy(out, magic, sizeof magic);
    out[8] = (unsigned char)((padded - HEADER) & 255);
    out[9] = (unsigned char)((padded - HEADER) >> 8);
    memcpy(out + HEADER, header, (size_t)n);
    memset(out + HEADER + n, ' ', padded - HEADER - (size_t)n);
    out[padded - 1] = '\n';
    *status = mf_to_host(array, dtype, out + padded, count);
    const uint16_t one = 1;
    if (*(const unsigned char *)&one != 1)
        swap_bytes(out + padded, bytes / (size_t)d->part, d->part);
    if (*status) {
        free(out);
        return NULL;
    }
    *size = padded + bytes;
    return out;
}

/* ---- files */

static unsigned char *read_whole(const char *path, size_t *size)
{
    int fd = mf_open_regular(path);
    FILE *f = fd >= 0 ? fdopen(fd, "rb") : NULL;
    if (!f)
        return NULL;
    unsigned char *bytes = NULL;
    size_t capacity = 0, n = 0, got = 1;
    while (got) {
        if (n == capacity) {
            unsigned char *more = realloc(bytes, capacity = capacity ? capacity * 2 : 1 << 16);
            if (!more) {
                errno = ENOMEM;
                goto failed;
            }
            bytes = more;
        }
        got = fread(bytes + n, 1, capacity - n, f);
        n += got;
    }
    if (ferror(f))
        goto failed;
    fclose(f);
    *size = n;
    return bytes;
failed:
    fd = errno;
    fclose(f);
    free(bytes);
    errno = fd;
    return NULL;
}

mf_value mf_load_npy(const char *path)
{
    MF_LAYER;
    size_t size;
    unsigned char *bytes = read_whole(path, &size);
    if (!bytes)
        return mf_unreadable(path);
    mf_value v = mf_npy_parse(path, NULL, bytes, size);
    free(bytes);
    return v;
}

typedef struct npy_bytes {
    const unsigned char *at;
    size_t size;
} npy_bytes;

static mf_status write_bytes(FILE *f, const char *path, const void *context)
{
    const npy_bytes *b = context;
    return fwrite(b->at, 1, b->size, f) == b->size ? MF_OK : mf_unwritable(path);
}

mf_status(mf_save_npy)(const char *path, mf_value array)
{
    MF_LAYER;
    MF_SCOPE;
    size_t size;
    mf_status status;
    unsigned char *bytes = mf_npy_format(path, array, &size, &status);
    if (!bytes)
        return status;
    status = mf_replace_file(path, write_bytes, &(npy_bytes){ bytes, size });
    free(bytes);
    return status;
}
