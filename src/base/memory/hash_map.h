/* A hash map from hashes to pointers, for tables that know their own keys: the caller computes the hash, and compares the entries with it.
 *
 *     int at = -1;
 *     for (thing *t; (t = mf_hash_map_next(&map, hash, &at));)
 *         if (t->key == key)
 *             ...
 *
 * Open addressing, with hashes stored beside the pointers so that a look-up touches only what it finds. A zeroed struct is an empty map.
 * Invariant: at most half of the places are taken, and no place is free between the one that a hash maps to and the entries that have
 * this hash. There is no lock; intern.c and ops/table.c, which are read without locking, have tables of their own. */
#ifndef MF_BASE_MEMORY_HASH_MAP_H
#define MF_BASE_MEMORY_HASH_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mf_hash_map_place {
    uint64_t hash;
    void *value; /* NULL: free */
} mf_hash_map_place;

typedef struct mf_hash_map {
    mf_hash_map_place *places;
    int count, capacity; /* capacity is a power of two, or 0 */
} mf_hash_map;

/* The next value with this hash, in order of insertion, or NULL. *at is -1 for the first call and is kept by the caller in between. */
static inline void *mf_hash_map_next(const mf_hash_map *m, uint64_t hash, int *at)
{
    int mask = m->capacity - 1;
    if (mask < 0)
        return NULL;
    int i = *at < 0 ? (int)(hash & (uint64_t)mask) : (*at + 1) & mask;
    while (m->places[i].value && m->places[i].hash != hash)
        i = (i + 1) & mask;
    *at = i;
    return m->places[i].value;
}

/* Adds a value, not NULL; entries with the same hash stay. False: out of memory, the map is unchanged. */
bool mf_hash_map_add(mf_hash_map *m, uint64_t hash, void *value);
/* False when it is not in the map. */
bool mf_hash_map_remove(mf_hash_map *m, uint64_t hash, const void *value);
/* Iterates over all values; *at is 0 for the first call. The last value returned may be removed if *at is then decremented; some values may
 * then come twice. */
static inline void *mf_hash_map_each(const mf_hash_map *m, int *at)
{
    while (*at < m->capacity)
        if (m->places[(*at)++].value)
            return m->places[*at - 1].value;
    return NULL;
}
void mf_hash_map_free(mf_hash_map *m); /* frees the places, not the values; the map is then empty */

#endif
