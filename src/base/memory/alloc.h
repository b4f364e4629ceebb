/* Host memory for data structures (array data comes from the backends' allocator, array/buffer_cache.c). A debug build can make any of
 * these calls fail (MF_FAIL_ALLOC=n fails the n-th), so every caller handles NULL. An arena is a bump allocator that is freed as a whole;
 * each program and each trace has one. */
#ifndef MF_BASE_MEMORY_ALLOC_H
#define MF_BASE_MEMORY_ALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void *mf_alloc(size_t bytes);               /* uninitialised; NULL when out of memory */
void *mf_calloc(size_t count, size_t size); /* zeroed */
void *mf_realloc(void *p, size_t bytes);
void mf_free(void *p);
char *mf_strdup(const char *s);

/* Whether that many bytes can be allocated; asked before calling a library that cannot handle a lack of memory. Another thread may take
 * them before the call. */
bool mf_memory_suffices(size_t bytes);
/* Whether memory can be written and then made executable. Where the system refuses that (systemd's MemoryDenyWriteExecute, SELinux without
 * execmem), LLVM and oneDNN cannot generate code: they write to a mapping and then change it from writable to executable. */
bool mf_memory_may_execute(void);

typedef struct mf_arena {
    struct mf_arena_block *head;
} mf_arena;                                      /* zero-initialised is empty */
void *mf_arena_alloc(mf_arena *a, size_t bytes); /* zeroed, 16-byte aligned; NULL when out of memory */
void mf_arena_free(mf_arena *a);

/* A growing array of pointers or structs: mf_grow(&v.at, &v.capacity, v.count + 1, sizeof *v.at). False when out of memory. */
int mf_grow(void *array_pointer, int *capacity, int needed, size_t element);

/* Fault injection for the tests: the n-th allocation from now fails (0 switches it off). Has an effect in debug builds only. */
void mf_alloc_fail_after(int64_t n);
int mf_alloc_must_fail(
    void); /* counts one allocation; nonzero when it is the one to fail. For allocators of their own, such as array/buffer_cache.c */

#endif
