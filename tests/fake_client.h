/* A client of a device that the host cannot see into: its memory is unreadable but within the client's own calls, so code of the host that
 * touches it crashes. */
#ifndef TESTS_FAKE_CLIENT_H
#define TESTS_FAKE_CLIENT_H

#include "array/client.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int fake_buffers; /* that live */

static size_t fake_pages(const mf_buffer *b)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (b->bytes / page + 1) * page;
}
static void fake_open(const mf_buffer *b) { mprotect(b->data, fake_pages(b), PROT_READ | PROT_WRITE); }
static void fake_shut(const mf_buffer *b) { mprotect(b->data, fake_pages(b), PROT_NONE); }

static bool fake_allocate(mf_buffer *b)
{
    void *at = mmap(NULL, fake_pages(b), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    b->data = at == MAP_FAILED ? NULL : at;
    fake_buffers += b->data != NULL;
    return b->data != NULL;
}
static void fake_release(mf_buffer *b)
{
    munmap(b->data, fake_pages(b));
    fake_buffers--;
}
static void fake_from_host(mf_buffer *b, const void *bytes)
{
    fake_open(b);
    memcpy(b->data, bytes, b->bytes);
    fake_shut(b);
}
static void fake_to_host(const mf_buffer *b, int64_t from, int64_t count, void *out)
{
    fake_open(b);
    memcpy(out, (const char *)b->data + from, (size_t)count);
    fake_shut(b);
}

static const mf_client fake_client = { "fake", fake_allocate, fake_release, fake_from_host, fake_to_host, NULL };

#endif
