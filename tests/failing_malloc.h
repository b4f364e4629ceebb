/* Makes allocations of the library's own code fail on demand, in every build: a test that includes this is linked with --wrap (see
 * CMakeLists.txt), so each call of malloc and similar functions, mmap and pthread_create in the library's objects comes here first. It does
 * not reach allocations inside other libraries (LLVM, oneDNN, LAPACK, libzip, zlib, the C library); for those safety/test_memory_inside.c
 * has its own allocator. Invariant: `blocks` counts the blocks that were allocated here and not freed. Only one source file of a program
 * may include this. */
#ifndef MF_TESTS_FAILING_MALLOC_H
#define MF_TESTS_FAILING_MALLOC_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static struct {
    _Atomic int64_t at, until, blocks; /* the next allocation has number `at`; those from 0 to until - 1 fail */
    _Atomic bool armed, failed;
} failing;

/* The n-th allocation from now on fails (n = 1: the next one) and, with `all`, every later one. */
static inline void failing_start(int64_t n, bool all)
{
    atomic_store(&failing.at, 1 - n);
    atomic_store(&failing.until, all ? INT64_MAX : 1);
    atomic_store(&failing.failed, false);
    atomic_store(&failing.armed, true);
}

/* Whether an allocation has failed since failing_start. */
static inline bool failing_stop(void)
{
    atomic_store(&failing.armed, false);
    return atomic_load(&failing.failed);
}

static inline int64_t failing_blocks(void) { return atomic_load(&failing.blocks); }

static bool must_fail(void)
{
    if (!atomic_load_explicit(&failing.armed, memory_order_relaxed))
        return false;
    int64_t at = atomic_fetch_add(&failing.at, 1);
    if (at < 0 || at >= atomic_load(&failing.until))
        return false;
    atomic_store(&failing.failed, true);
    errno = ENOMEM;
    return true;
}

static void *counted(void *p)
{
    if (p)
        atomic_fetch_add_explicit(&failing.blocks, 1, memory_order_relaxed);
    return p;
}

void *__real_malloc(size_t), *__real_calloc(size_t, size_t), *__real_realloc(void *, size_t), *__real_aligned_alloc(size_t, size_t);
void *__real_mmap(void *, size_t, int, int, int, off_t);
int __real_posix_memalign(void **, size_t, size_t), __real_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
void __real_free(void *);
void *__wrap_malloc(size_t), *__wrap_calloc(size_t, size_t), *__wrap_realloc(void *, size_t), *__wrap_aligned_alloc(size_t, size_t);
void *__wrap_mmap(void *, size_t, int, int, int, off_t);
int __wrap_posix_memalign(void **, size_t, size_t), __wrap_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
void __wrap_free(void *);
char *__wrap_strdup(const char *), *__wrap_strndup(const char *, size_t);

void *__wrap_malloc(size_t n) { return must_fail() ? NULL : counted(__real_malloc(n)); }
void *__wrap_calloc(size_t n, size_t size) { return must_fail() ? NULL : counted(__real_calloc(n, size)); }
void *__wrap_aligned_alloc(size_t to, size_t n) { return must_fail() ? NULL : counted(__real_aligned_alloc(to, n)); }

void *__wrap_realloc(void *p, size_t n)
{
    if (must_fail())
        return NULL;
    void *q = __real_realloc(p, n);
    return p ? q : counted(q);
}

int __wrap_posix_memalign(void **p, size_t to, size_t n)
{
    int status = must_fail() ? ENOMEM : __real_posix_memalign(p, to, n);
    if (!status)
        (void)counted(*p);
    return status;
}

void __wrap_free(void *p)
{
    if (p)
        atomic_fetch_sub_explicit(&failing.blocks, 1, memory_order_relaxed);
    __real_free(p);
}

char *__wrap_strndup(const char *s, size_t most)
{
    size_t n = strnlen(s, most);
    char *copy = __wrap_malloc(n + 1);
    if (!copy)
        return NULL;
    copy[n] = 0;
    return memcpy(copy, s, n);
}

char *__wrap_strdup(const char *s) { return __wrap_strndup(s, SIZE_MAX); }

void *__wrap_mmap(void *at, size_t n, int rights, int flags, int file, off_t offset)
{
    return must_fail() ? MAP_FAILED : __real_mmap(at, n, rights, flags, file, offset);
}

int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *how, void *(*run)(void *), void *context)
{
    return must_fail() ? EAGAIN : __real_pthread_create(t, how, run, context);
}

#endif
