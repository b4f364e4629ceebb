/* TensorBoard's event files. A record is a length, its checksum, bytes and their checksum. The bytes are an Event in protocol buffers
 * format (tensorflow/core/util/event.proto and framework/summary.proto), of which these fields are written:
 *
 *     Event:   1 wall_time (double), 2 step (int64), 3 file_version (string), 5 summary
 *     Summary: 1 value, repeated:    1 tag (string), 2 simple_value (float)
 *
 * Invariant: a record is written completely, or the function returns false. */
#include "train/event_file.h"

#include <stdlib.h>
#include <string.h>

/* CRC32C (Castagnoli, bit-reflected), masked as in TFRecord files. */
static uint32_t masked_crc(const unsigned char *bytes, size_t size)
{
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < size; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    }
    crc = ~crc;
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

static size_t put_le(unsigned char *out, uint64_t x, size_t size)
{
    for (size_t i = 0; i < size; i++)
        out[i] = (unsigned char)(x >> 8 * i & 255);
    return size;
}

static size_t put_varint(unsigned char *out, uint64_t x)
{
    size_t n = 0;
    for (; x > 127; x >>= 7)
        out[n++] = (unsigned char)(x | 128);
    out[n++] = (unsigned char)x;
    return n;
}

static bool write_record(FILE *f, const unsigned char *bytes, size_t size)
{
    unsigned char head[12], tail[4];
    (void)put_le(head, size, 8);
    (void)put_le(head + 8, masked_crc(head, 8), 4);
    (void)put_le(tail, masked_crc(bytes, size), 4);
    return fwrite(head, 1, sizeof head, f) == sizeof head && fwrite(bytes, 1, size, f) == size && fwrite(tail, 1, 4, f) == 4;
}

static size_t put_time(unsigned char *out, double time)
{
    uint64_t bits;
    memcpy(&bits, &time, sizeof bits);
    out[0] = 1 << 3 | 1;
    return 1 + put_le(out + 1, bits, 8);
}

bool mf_event_begin(FILE *f, double time)
{
    static const char version[] = "brain.Event:2";
    unsigned char event[64];
    size_t n = put_time(event, time);
    event[n++] = 3 << 3 | 2;
    n += put_varint(event + n, sizeof version - 1);
    memcpy(event + n, version, sizeof version - 1);
    return write_record(f, event, n + sizeof version - 1);
}

/* Writes one Summary.Value without its own tag and length, and returns its size; with a NULL `out` only the size. */
static size_t put_value(unsigned char *out, const char *name, double value)
{
    unsigned char length[10];
    size_t n = strlen(name), digits = put_varint(length, n);
    float narrow = (float)value;
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof bits);
    if (out) {
        *out++ = 1 << 3 | 2;
        memcpy(out, length, digits);
        memcpy(out + digits, name, n); /* length-prefixed, so no NUL: NOLINT(bugprone-not-null-terminated-result) */
        out[digits + n] = 2 << 3 | 5;
        (void)put_le(out + digits + n + 1, bits, 4);
    }
    return 1 + digits + n + 5;
}

bool mf_event_write(FILE *f, double time, int64_t step, const char *const *names, const double *values, int count)
{
    unsigned char digits[10];
    size_t summary = 0, n;
    for (int i = 0; i < count; i++) {
        size_t size = put_value(NULL, names[i], values[i]);
        summary += 1 + put_varint(digits, size) + size;
    }
    unsigned char *event = malloc(64 + summary);
    if (!event)
        return false;
    n = put_time(event, time);
    event[n++] = 2 << 3 | 0;
    n += put_varint(event + n, (uint64_t)step);
    event[n++] = 5 << 3 | 2;
    n += put_varint(event + n, summary);
    for (int i = 0; i < count; i++) {
        event[n++] = 1 << 3 | 2;
        n += put_varint(event + n, put_value(NULL, names[i], values[i]));
        n += put_value(event + n, names[i], values[i]);
    }
    bool whole = write_record(f, event, n);
    free(event);
    return whole;
}
