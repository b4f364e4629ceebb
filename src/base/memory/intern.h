/* Interning: equal things have one address for the life of the process, so the warm path compares pointers.
 * Strings, integer lists and name lists are interned here; types in array/types/type.h, tree structures in tree/structure.c. Thread-safe. */
#ifndef MF_BASE_MEMORY_INTERN_H
#define MF_BASE_MEMORY_INTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mf_intlist {
    int count;
    int64_t at[];
} mf_intlist;

typedef struct mf_namelist {
    int count;
    const char *at[]; /* interned strings, too */
} mf_namelist;

const char *mf_intern(const char *s); /* NULL gives NULL */
const char *mf_intern_n(const char *s, size_t length);
const mf_intlist *mf_ints_intern(const int64_t *at, int count);
const mf_intlist *mf_ints_of(int count, ...); /* int arguments, for rules: mf_ints_of(2, 0, 1) */
const mf_namelist *mf_names_intern(const char *const *at, int count);
bool mf_ints_has(const mf_intlist *list, int64_t x);
int mf_names_find(const mf_namelist *list, const char *name); /* -1 when absent */

/* Hash of bytes (wyhash-like mixing); the seed chains calls. */
uint64_t mf_hash(const void *bytes, size_t size, uint64_t seed);
static inline uint64_t mf_hash_mix(uint64_t h, uint64_t x)
{
    h ^= x + 0x9e3779b97f4a7c15u + (h << 6) + (h >> 2);
    h *= 0xff51afd7ed558ccdu;
    return h ^ (h >> 32);
}

/* A table of interned blobs, for the other interners: returns the one immortal copy of `size` bytes at `bytes`. */
typedef struct mf_interner mf_interner;
mf_interner *mf_interner_static(_Atomic(mf_interner *) *slot); /* created at first use */
const void *mf_interner_get(mf_interner *table, const void *bytes, size_t size);

#endif
