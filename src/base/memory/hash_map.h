/* A hash map from hashes to pointers, for tables that know their own keys: the caller hashes, and looks through what has the hash.
 *
 *     int at = -1;
 *     for (thing *t; (t = mf_hash_map_next(&map, hash, &at));)
 *         if (t->key == key)
 *             ...
 *
 * Open addressing with hashes beside the pointers, so that a look-up touches what it finds and nothing else. Zeroes are an empty map.
 * Invariant: at most half of the places are taken, and from the place of a hash to what has it none is free. It has no lock; intern.c and
 * ops/table.c, which are read without one, have tables of their own. */
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
    int count, capacity; /* the latter a power of two, or 0 */
} mf_hash_map;

/* The next value with this hash, in the order in which they were added; *at is -1 for the first and is kept between. NULL: no more. */
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

/* Appends a value, not NULL, whether others have the hash or not. False, and nothing is changed: memory is out. */
bool mf_hash_map_add(mf_hash_map *m, uint64_t hash, void *value);
/* False: it is not there. */
bool mf_hash_map_remove(mf_hash_map *m, uint64_t hash, const void *value);
/* All values: *at is 0 for the first. The one that came last may be removed if *at is then counted down by one; some may then come twice. */
static inline void *mf_hash_map_each(const mf_hash_map *m, int *at)
{
    while (*at < m->capacity)
        if (m->places[(*at)++].value)
            return m->places[*at - 1].value;
    return NULL;
}
void mf_hash_map_free(mf_hash_map *m); /* the values are the caller's; m is empty */

#endif
