/* The caching allocator of array memory. Blocks belong to size classes (four per doubling, at most a quarter wasted) and return to their
 * class's list, so a program that repeats itself asks the system for nothing. Blocks that stay unused through a whole window of requests
 * are returned to the system. Large blocks are mappings of their own with huge-page advice. Invariant: a block's class follows from its
 * size alone, which the caller passes to both get and put. Under AddressSanitizer every block comes from malloc with its exact size, so
 * that out-of-bounds reads are detected. */
#include "array/array.h"

#include "base/memory/alloc.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define UNIT      64
#define LARGE     ((size_t)4 << 20)
#define HUGE_PAGE ((size_t)2 << 20)
#define CLASSES   240
#define MOST      ((size_t)1 << 56)
#define WINDOW    (1 << 15)           /* requests after which unused blocks are released */
#define IDLE      ((size_t)256 << 10) /* the smallest block size for which that is worth it */

#if defined(__SANITIZE_ADDRESS__)
#define CHECKED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CHECKED 1
#endif
#endif
#ifndef CHECKED
#define CHECKED 0
#endif

typedef struct bin { /* one size class; on a cache line of its own */
    _Alignas(64) pthread_mutex_t lock;
    void *first;    /* free blocks, each holding the address of the next */
    int64_t count;  /* the number of free blocks */
    int64_t unused; /* the least count since the window began: that many blocks were not needed */
} bin;

static void *from_system(size_t size);
static void to_system(void *p, size_t size);

/* A source of blocks with its free lists: the process's own memory, or the memory shared with others, if there is some. */
typedef struct cache {
    mf_memory_source from;
    bin bins[CLASSES];
} cache;
static cache own = { .from = { .get = from_system, .put = to_system } }, shared;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Atomic int64_t live_bytes, peak_bytes, cached_bytes, system_allocations, requests;

static void init_bins(void)
{
    for (int i = 0; i < CLASSES; i++) {
        pthread_mutex_init(&own.bins[i].lock, NULL);
        pthread_mutex_init(&shared.bins[i].lock, NULL);
    }
}

/* Up to 1 KiB one class per 64 bytes; above, four per doubling. */
static int class_of(size_t bytes, size_t *size)
{
    size_t units = bytes ? (bytes + UNIT - 1) / UNIT : 1;
    if (units <= 16) {
        *size = units * UNIT;
        return (int)units - 1;
    }
    int shift = 61 - __builtin_clzll((unsigned long long)units - 1);
    size_t quarter = (units - 1) >> shift; /* 4 to 7 */
    *size = ((quarter + 1) << shift) * UNIT;
    return 16 + (shift - 2) * 4 + (int)quarter - 4;
}

/* ---- the system's side */

static void *map_large(size_t size)
{
    size_t reserved = size + HUGE_PAGE;
    char *p = mmap(NULL, reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    size_t skip = (HUGE_PAGE - (uintptr_t)p % HUGE_PAGE) % HUGE_PAGE;
    if (skip)
        munmap(p, skip);
    munmap(p + skip + size, HUGE_PAGE - skip);
    madvise(p + skip, size, MADV_HUGEPAGE); /* only advice: failure does not matter */
    return p + skip;
}

static void *from_system(size_t size) { return size >= LARGE ? map_large(size) : aligned_alloc(UNIT, size); }

static void to_system(void *p, size_t size)
{
    if (size >= LARGE)
        munmap(p, size);
    else
        free(p);
}

/* ---- counting */

static void count_live(int64_t bytes)
{
    int64_t now = atomic_fetch_add_explicit(&live_bytes, bytes, memory_order_relaxed) + bytes;
    int64_t peak = atomic_load_explicit(&peak_bytes, memory_order_relaxed);
    while (now > peak && !atomic_compare_exchange_weak_explicit(&peak_bytes, &peak, now, memory_order_relaxed, memory_order_relaxed)) {
    }
}

mf_memory_counters mf_memory_read(void)
{
    return (mf_memory_counters){ atomic_load(&live_bytes), atomic_load(&peak_bytes), atomic_load(&cached_bytes),
                                 atomic_load(&system_allocations), atomic_load(&requests) };
}

void mf_memory_reset_peak(void) { atomic_store(&peak_bytes, atomic_load(&live_bytes)); }

/* ---- get and put */

static void *checked_get(size_t bytes)
{
    void *p = NULL;
    if (posix_memalign(&p, UNIT, bytes ? bytes : 1))
        return NULL;
    memset(p, 0xff, bytes); /* NaN, so that a read of uninitialised memory shows */
    atomic_fetch_add_explicit(&system_allocations, 1, memory_order_relaxed);
    count_live((int64_t)bytes);
    return p;
}

static void *pop(bin *b) /* call with the lock held */
{
    void *p = b->first;
    if (!p)
        return NULL;
    memcpy(&b->first, p, sizeof b->first);
    if (--b->count < b->unused)
        b->unused = b->count;
    return p;
}

static void *take_cached(bin *b, size_t size)
{
    pthread_mutex_lock(&b->lock);
    void *p = pop(b);
    pthread_mutex_unlock(&b->lock);
    if (p)
        atomic_fetch_sub_explicit(&cached_bytes, (int64_t)size, memory_order_relaxed);
    return p;
}

static size_t size_of_class(int class)
{
    if (class < 16)
        return ((size_t) class + 1) * UNIT;
    int shift = (class - 16) / 4 + 2;
    return ((size_t)((class - 16) % 4 + 5) << shift) * UNIT;
}

/* Returns blocks to the system: those not needed in the window that ends here, or all. */
static void release(cache *from, int class, bool all)
{
    bin *b = &from->bins[class];
    size_t size = size_of_class(class);
    void *gone = NULL;
    pthread_mutex_lock(&b->lock);
    for (int64_t n = all ? b->count : b->unused; n > 0; n--) {
        void *p = pop(b);
        memcpy(p, &gone, sizeof gone);
        gone = p;
    }
    b->unused = b->count;
    pthread_mutex_unlock(&b->lock);
    while (gone) {
        void *p = gone;
        memcpy(&gone, p, sizeof gone);
        from->from.put(p, size);
        atomic_fetch_sub_explicit(&cached_bytes, (int64_t)size, memory_order_relaxed);
    }
}

static void release_idle(void)
{
    for (int i = 0; i < CLASSES; i++)
        if (size_of_class(i) >= IDLE) {
            release(&own, i, false);
            release(&shared, i, false);
        }
}

static void *ask(cache *from, size_t size)
{
    void *p = from->from.get(size);
    if (p)
        atomic_fetch_add_explicit(&system_allocations, 1, memory_order_relaxed);
    return p;
}

static void *get(cache *from, size_t bytes)
{
    int64_t request = atomic_fetch_add_explicit(&requests, 1, memory_order_relaxed);
    if (bytes > MOST || mf_alloc_must_fail())
        return NULL;
    if (CHECKED && from == &own)
        return checked_get(bytes);
    pthread_once(&once, init_bins);
    if (request % WINDOW == WINDOW - 1)
        release_idle();
    size_t size;
    bin *b = &from->bins[class_of(bytes, &size)];
    void *p = take_cached(b, size);
    if (!p)
        p = ask(from, size);
    if (!p) { /* free blocks of other classes may make room */
        mf_memory_trim();
        p = ask(from, size);
    }
    if (p)
        count_live((int64_t)size);
    return p;
}

void *mf_memory_get(size_t bytes) { return get(&own, bytes); }

void mf_memory_share(const mf_memory_source *from) { shared.from = *from; }

void *mf_memory_get_shared(size_t bytes)
{
    void *p = shared.from.at ? get(&shared, bytes) : NULL;
    return p ? p : get(&own, bytes);
}

static bool is_shared(const void *p) { return (uintptr_t)p - (uintptr_t)shared.from.at < shared.from.bytes; }

void mf_memory_put(void *p, size_t bytes)
{
    if (!p)
        return;
    cache *to = is_shared(p) ? &shared : &own;
    if (CHECKED && to == &own) {
        count_live(-(int64_t)bytes);
        free(p);
        return;
    }
    size_t size;
    bin *b = &to->bins[class_of(bytes, &size)];
    count_live(-(int64_t)size);
    atomic_fetch_add_explicit(&cached_bytes, (int64_t)size, memory_order_relaxed);
    pthread_mutex_lock(&b->lock);
    memcpy(p, &b->first, sizeof b->first);
    b->first = p;
    b->count++;
    pthread_mutex_unlock(&b->lock);
}

void mf_memory_trim(void)
{
    pthread_once(&once, init_bins);
    for (int i = 0; i < CLASSES; i++) {
        release(&own, i, true);
        release(&shared, i, true);
    }
}
