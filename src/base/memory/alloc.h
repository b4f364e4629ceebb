/* Host memory for structures (not for array data: that is the backends' allocator, array/buffer_cache.c).
 * A debug build can make any of these calls fail (MF_FAIL_ALLOC=n fails the n-th), so every caller handles NULL.
 * An arena is a bump allocator freed at once; programs and traces live in one each. */
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

/* Whether so many bytes are to be had, before a library is called that does not bear their lack. Another thread may take them meanwhile. */
bool mf_memory_to_spare(size_t bytes);
/* Whether code may be written to memory and run: where the system refuses it (systemd's MemoryDenyWriteExecute, SELinux without
 * execmem), it refuses it to LLVM and oneDNN, which write to memory that is not executable yet and take the right to write away before
 * it runs. */
bool mf_memory_may_execute(void);

typedef struct mf_arena {
    struct mf_arena_block *head;
} mf_arena;                                      /* zero-initialised is empty */
void *mf_arena_alloc(mf_arena *a, size_t bytes); /* zeroed, 16-byte aligned; aborts never: NULL when out of memory */
void mf_arena_free(mf_arena *a);

/* A growing array of pointers or structs: mf_grow(&v.at, &v.capacity, v.count + 1, sizeof *v.at). False when out of memory. */
int mf_grow(void *array_pointer, int *capacity, int needed, size_t element);

/* Fault injection for the tests: the n-th allocation from now fails (0 switches it off). Debug builds only have an effect. */
void mf_alloc_fail_after(int64_t n);
int mf_alloc_must_fail(
    void); /* counts one allocation; nonzero when it is the one to fail (for allocators of their own, array/buffer_cache.c) */

#endif
