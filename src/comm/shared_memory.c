/* The shared memory: one unnamed file. Its maker tells the other processes where it is in /proc, and they open it there; a secret in its
 * first page proves that it is the right one. The file is sparse: each process has a range as large as the machine's memory, and reuses
 * what it has used before.
 * Invariants: the file never shrinks, so no reader faults when an owner dies; no page is touched before the system has provided it; a
 * process cannot write what others own, except for the rings and the words of offers. */
#include "comm/shared_memory.h"

#include "array/array.h"
#include "base/memory/alloc.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#define HUGE_PAGE ((size_t)2 << 20)
#define PAGE      ((size_t)4096)
#define MOST      ((size_t)16 << 40) /* of all ranges together: a process's address space is 128 TiB */
#define SKIP      UINT64_MAX         /* in place of a length: the next message is at the ring's beginning */
#define UNIT      16

/* ------------------------------------------------------------------ rings */

static size_t record_bytes(size_t count) { return (sizeof(uint64_t) + count + UNIT - 1) / UNIT * UNIT; }

static bool has_room(mf_ring *r, uint64_t end)
{
    if (end - r->seen > MF_RING_BYTES)
        r->seen = atomic_load_explicit(&r->taken, memory_order_acquire);
    return end - r->seen <= MF_RING_BYTES;
}

bool mf_ring_put(mf_ring *r, const mf_ring_part parts[3])
{
    uint64_t put = atomic_load_explicit(&r->put, memory_order_relaxed), count = parts[0].count + parts[1].count + parts[2].count;
    size_t needed = record_bytes(count), left = MF_RING_BYTES - put % MF_RING_BYTES, skipped = left < needed ? left : 0;
    if (!has_room(r, put + skipped + needed))
        return false;
    if (skipped)
        memcpy(r->bytes + put % MF_RING_BYTES, &(uint64_t){ SKIP }, sizeof(uint64_t));
    put += skipped;
    unsigned char *to = r->bytes + put % MF_RING_BYTES;
    memcpy(to, &count, sizeof count);
    to += sizeof count;
    for (int i = 0; i < 3; i++)
        if (parts[i].count) {
            memcpy(to, parts[i].at, parts[i].count);
            to += parts[i].count;
        }
    atomic_store_explicit(&r->put, put + needed, memory_order_release);
    return true;
}

bool mf_ring_holds_some(mf_ring *r)
{
    return atomic_load_explicit(&r->put, memory_order_acquire) != atomic_load_explicit(&r->taken, memory_order_relaxed);
}

const unsigned char *mf_ring_next(mf_ring *r, size_t *count)
{
    uint64_t taken = atomic_load_explicit(&r->taken, memory_order_relaxed), length;
    if (atomic_load_explicit(&r->put, memory_order_acquire) == taken)
        return NULL;
    memcpy(&length, r->bytes + taken % MF_RING_BYTES, sizeof length);
    if (length == SKIP && taken % MF_RING_BYTES) {
        atomic_store_explicit(&r->taken, taken + MF_RING_BYTES - taken % MF_RING_BYTES, memory_order_release);
        return mf_ring_next(r, count);
    }
    size_t rest = MF_RING_BYTES - taken % MF_RING_BYTES - sizeof length;
    *count = length <= rest ? (size_t)length : SIZE_MAX;
    return r->bytes + taken % MF_RING_BYTES + sizeof length;
}

void mf_ring_take(mf_ring *r, size_t count)
{
    uint64_t taken = atomic_load_explicit(&r->taken, memory_order_relaxed);
    atomic_store_explicit(&r->taken, taken + record_bytes(count), memory_order_release);
}

/* ------------------------------------------------------------------ the layout */

static size_t offers_bytes(void) { return MF_OFFERS * sizeof(uint64_t); }

static size_t head_bytes(int count)
{
    size_t all = PAGE + (size_t)count * ((size_t)count * sizeof(mf_ring) + offers_bytes());
    return (all + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
}

mf_ring *mf_shared_ring(const mf_shared_memory *s, int from, int to)
{
    return (mf_ring *)(void *)(s->at + PAGE) + (size_t)to * (size_t)s->count + from;
}

_Atomic uint64_t *mf_shared_offers(const mf_shared_memory *s, int of)
{
    return (_Atomic uint64_t *)(void *)(mf_shared_ring(s, 0, s->count)) + (size_t)of * MF_OFFERS;
}

unsigned char *mf_shared_range(const mf_shared_memory *s, int of) { return s->at + head_bytes(s->count) + (size_t)of * s->range; }

uint64_t mf_shared_find(const mf_shared_memory *s, const void *bytes, size_t count)
{
    uintptr_t first = (uintptr_t)mf_shared_range(s, s->own), at = (uintptr_t)bytes;
    return at >= first && at - first < s->range && count <= s->range - (at - first) ? at - first + 1 : 0;
}

/* ------------------------------------------------------------------ beginning and end */

/* Allocates pages that nobody has touched. If memory is out, this fails, where a later access would raise a signal. */
static bool commit(const mf_shared_memory *s, void *at, size_t bytes)
{
    if (madvise(at, bytes, 23 /* MADV_POPULATE_WRITE, of Linux 5.14 */) == 0)
        return true;
    return errno == EINVAL && fallocate(s->descriptor, 0, (unsigned char *)at - s->at, (off_t)bytes) == 0;
}

/* At an address aligned for huge pages. */
static bool map(mf_shared_memory *s)
{
    s->bytes = head_bytes(s->count) + (size_t)s->count * s->range;
    unsigned char *p = mmap(NULL, s->bytes + HUGE_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return false;
    size_t skip = (HUGE_PAGE - (uintptr_t)p % HUGE_PAGE) % HUGE_PAGE;
    if (skip)
        munmap(p, skip);
    munmap(p + skip + s->bytes, HUGE_PAGE - skip);
    s->at = p + skip;
    if (mmap(s->at, s->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, s->descriptor, 0) == MAP_FAILED)
        return false;
    unsigned char *first = mf_shared_range(s, 0), *own = mf_shared_range(s, s->own), *after = own + s->range;
    madvise(s->at, s->bytes, MADV_DONTDUMP); /* advice only: a refusal changes nothing */
    madvise(own, s->range, MADV_HUGEPAGE);
    return mprotect(first, (size_t)(own - first), PROT_READ) == 0 && mprotect(after, (size_t)(s->at + s->bytes - after), PROT_READ) == 0 &&
           commit(s, mf_shared_ring(s, 0, s->own), (size_t)s->count * sizeof(mf_ring)) &&
           commit(s, mf_shared_offers(s, s->own), offers_bytes());
}

/* The size of a process's range: the machine's memory. 0: the limit on file sizes is lower than all ranges together. */
static uint64_t choose_range(int count)
{
    struct rlimit most;
    uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE), each = MOST / (uint64_t)count;
    memory = (memory < each ? memory : each) / HUGE_PAGE * HUGE_PAGE;
    bool may = getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur >= head_bytes(count) + (uint64_t)count * memory;
    return may ? memory : 0;
}

bool mf_shared_make(mf_shared_memory *s, int count, mf_shared_invitation *i)
{
    *s = (mf_shared_memory){ .count = count, .descriptor = -1, .range = choose_range(count) };
    *i = (mf_shared_invitation){ .range = s->range };
    if (s->range)
        s->descriptor = memfd_create("manyfold", MFD_CLOEXEC);
    bool made = s->descriptor >= 0 && getrandom(i->secret, sizeof i->secret, 0) == (ssize_t)sizeof i->secret &&
                ftruncate(s->descriptor, (off_t)(head_bytes(count) + (size_t)count * s->range)) == 0 &&
                pwrite(s->descriptor, i->secret, sizeof i->secret, 0) == (ssize_t)sizeof i->secret && map(s);
    if (!made) {
        mf_shared_close(s);
        return false;
    }
    i->process = (int32_t)getpid();
    i->descriptor = s->descriptor;
    return true;
}

bool mf_shared_open(mf_shared_memory *s, int count, int own, const mf_shared_invitation *i)
{
    char path[64], secret[sizeof i->secret];
    *s = (mf_shared_memory){ .count = count, .own = own, .descriptor = -1, .range = i->range };
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)i->process, (int)i->descriptor);
    if (i->process)
        s->descriptor = open(path, O_RDWR | O_CLOEXEC);
    if (s->descriptor >= 0 && pread(s->descriptor, secret, sizeof secret, 0) == (ssize_t)sizeof secret &&
        !memcmp(secret, i->secret, sizeof secret) && map(s))
        return true;
    mf_shared_close(s);
    return false;
}

void mf_shared_close(mf_shared_memory *s)
{
    if (s->at)
        munmap(s->at, s->bytes);
    if (s->descriptor >= 0)
        close(s->descriptor);
    *s = (mf_shared_memory){ .descriptor = -1 };
}

/* ------------------------------------------------------------------ this process's range as a source of memory */

typedef struct freed_block { /* a freed block, whose pages have gone back to the system */
    struct freed_block *next;
    unsigned char *at;
    size_t size;
} freed_block;

static struct {
    const mf_shared_memory *of;
    pthread_mutex_t lock;
    size_t used;
    freed_block *freed;
} source = { .lock = PTHREAD_MUTEX_INITIALIZER };

static unsigned char *take_freed(size_t size)
{
    for (freed_block **at = &source.freed, *h; (h = *at); at = &h->next)
        if (h->size == size) {
            unsigned char *p = h->at;
            *at = h->next;
            mf_free(h);
            return p;
        }
    return NULL;
}

static size_t alignment_of(size_t size) { return size >= HUGE_PAGE ? HUGE_PAGE : size >= PAGE ? PAGE : 64; }

static unsigned char *extend(size_t size)
{
    size_t align = alignment_of(size), first = (source.used + align - 1) / align * align;
    if (first > source.of->range || size > source.of->range - first)
        return NULL;
    source.used = first + size;
    return mf_shared_range(source.of, source.of->own) + first;
}

static void put(void *at, size_t size);

static void *get(size_t size)
{
    pthread_mutex_lock(&source.lock);
    unsigned char *p = take_freed(size);
    if (!p)
        p = extend(size);
    pthread_mutex_unlock(&source.lock);
    uintptr_t first = (uintptr_t)p / PAGE * PAGE, end = ((uintptr_t)p + size + PAGE - 1) / PAGE * PAGE;
    if (!p || commit(source.of, (void *)first, end - first))
        return p;
    put(p, size);
    return NULL;
}

/* A block that cannot be recorded, because memory is out, is not used again. */
static void put(void *at, size_t size)
{
    freed_block *h = mf_alloc(sizeof *h);
    if (size >= PAGE) /* a reader of a loan that was withdrawn finds zeros; the next user gets new pages */
        madvise(at, size / PAGE * PAGE, MADV_REMOVE);
    if (!h)
        return;
    pthread_mutex_lock(&source.lock);
    *h = (freed_block){ source.freed, at, size };
    source.freed = h;
    pthread_mutex_unlock(&source.lock);
}

void mf_shared_begin(const mf_shared_memory *s)
{
    source.of = s;
    mf_memory_share(&(mf_memory_source){ mf_shared_range(s, s->own), s->range, get, put });
}
