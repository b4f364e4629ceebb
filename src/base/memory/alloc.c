/* Host memory for structures: malloc with fault injection, arenas, and growing arrays. Invariant: nothing here aborts; NULL is the answer. */
#include "base/memory/alloc.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ARENA_FIRST = 480, ARENA_BLOCK = 4064 }; /* the first block's bytes, and where doubling stops: most programs are small */

#ifndef NDEBUG
static _Atomic int64_t fail_countdown; /* allocations left until the one that fails; 0: off */
static _Atomic int fail_read;

static void read_environment(void)
{
    if (atomic_exchange(&fail_read, 1))
        return;
    const char *s = getenv("MF_FAIL_ALLOC");
    if (s)
        atomic_store(&fail_countdown, strtoll(s, NULL, 10));
}

void mf_alloc_fail_after(int64_t n)
{
    atomic_store(&fail_read, 1);
    atomic_store(&fail_countdown, n);
}

int mf_alloc_must_fail(void)
{
    if (!atomic_load_explicit(&fail_read, memory_order_relaxed))
        read_environment();
    if (!atomic_load_explicit(&fail_countdown, memory_order_relaxed))
        return 0;
    int64_t before = atomic_fetch_sub(&fail_countdown, 1);
    if (before <= 0) /* another thread had reached the failing allocation */
        atomic_fetch_add(&fail_countdown, 1);
    return before == 1;
}
#else
void mf_alloc_fail_after(int64_t n) { (void)n; }
int mf_alloc_must_fail(void) { return 0; }
#endif

void *mf_alloc(size_t bytes) { return mf_alloc_must_fail() ? NULL : malloc(bytes ? bytes : 1); }

/* Small allocations go through malloc, which uses the thread's own cache; glibc's calloc does not. */
void *mf_calloc(size_t count, size_t size)
{
    enum { SMALL = 1024 };
    if (count > SMALL || size > SMALL || count * size > SMALL)
        return mf_alloc_must_fail() ? NULL : calloc(count ? count : 1, size ? size : 1);
    void *made = mf_alloc(count * size);
    __asm__ volatile("" : : "r"(made) : "memory"); /* keeps the compiler from merging the two into a calloc */
    return made ? memset(made, 0, count * size) : NULL;
}

void *mf_realloc(void *p, size_t bytes) { return mf_alloc_must_fail() ? NULL : realloc(p, bytes ? bytes : 1); }
void mf_free(void *p) { free(p); }

/* Up to FEW bytes the allocator is tried, since it may have free memory; for more a mapping is tried, as the allocator would need one. */
bool mf_memory_suffices(size_t bytes)
{
    enum { FEW = 1 << 16 };
    void *few = mf_alloc(bytes < FEW ? bytes : FEW);
    if (!few)
        return false;
    __asm__ volatile("" : : "r"(few) : "memory"); /* keeps the compiler from dropping the pair */
    mf_free(few);
    if (bytes <= FEW)
        return true;
    void *many = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return many != MAP_FAILED && munmap(many, bytes) == 0;
}

bool mf_memory_may_execute(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *code = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bool allowed = code != MAP_FAILED && mprotect(code, page, PROT_READ | PROT_EXEC) == 0;
    if (code != MAP_FAILED)
        munmap(code, page);
    return allowed;
}

char *mf_strdup(const char *s)
{
    size_t n = strlen(s) + 1;
    char *copy = mf_alloc(n);
    return copy ? memcpy(copy, s, n) : NULL;
}

struct mf_arena_block {
    struct mf_arena_block *next;
    size_t size, used;
    _Alignas(16) unsigned char bytes[];
};

void *mf_arena_alloc(mf_arena *a, size_t bytes)
{
    if (bytes > SIZE_MAX / 2)
        return NULL;
    bytes = (bytes + 15) & ~(size_t)15;
    struct mf_arena_block *b = a->head;
    if (!b || b->size - b->used < bytes) {
        size_t doubled = b ? 2 * b->size + sizeof *b : ARENA_FIRST, block = doubled < ARENA_BLOCK ? doubled : ARENA_BLOCK;
        size_t size = bytes > block ? bytes : block;
        b = mf_calloc(1, sizeof *b + size);
        if (!b)
            return NULL;
        b->size = size;
        if (a->head && bytes > ARENA_BLOCK / 2 && a->head->used < a->head->size / 2) { /* a large piece leaves the open block in use */
            b->next = a->head->next;
            a->head->next = b;
        } else {
            b->next = a->head;
            a->head = b;
        }
    }
    void *p = b->bytes + b->used;
    b->used += bytes;
    return p;
}

void mf_arena_free(mf_arena *a)
{
    for (struct mf_arena_block *b = a->head, *next; b; b = next) {
        next = b->next;
        mf_free(b);
    }
    a->head = NULL;
}

int mf_grow(void *array_pointer, int *capacity, int needed, size_t element)
{
    if (needed <= *capacity)
        return 1;
    int64_t wanted = *capacity < 8 ? 8 : (int64_t)*capacity * 2;
    if (wanted < needed)
        wanted = needed;
    if (needed < 0 || wanted > INT32_MAX)
        return 0;
    void *old;
    memcpy(&old, array_pointer, sizeof old); /* the caller's pointer has another type, so it is read as bytes */
    void *p = mf_realloc(old, (size_t)wanted * element);
    if (!p)
        return 0;
    memcpy(array_pointer, &p, sizeof p);
    *capacity = (int)wanted;
    return 1;
}
