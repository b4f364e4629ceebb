#include "base/memory/hash_map.h"

#include "base/memory/alloc.h"

enum { FIRST = 16, MOST = 1 << 29 };

static void put(mf_hash_map_place *places, int capacity, uint64_t hash, void *value)
{
    int i = (int)(hash & (uint64_t)(capacity - 1));
    while (places[i].value)
        i = (i + 1) & (capacity - 1);
    places[i] = (mf_hash_map_place){ hash, value };
}

/* Values of equal hash keep their order: entries are moved in the order of their places, beginning behind a free place. */
static bool grow(mf_hash_map *m)
{
    int capacity = m->capacity ? 2 * m->capacity : FIRST, start = 0;
    mf_hash_map_place *places = m->capacity < MOST ? mf_calloc((size_t)capacity, sizeof *places) : NULL;
    if (!places)
        return false;
    while (start < m->capacity && m->places[start].value)
        start++;
    for (int i = 0; i < m->capacity; i++) {
        const mf_hash_map_place *p = &m->places[(start + i) & (m->capacity - 1)];
        if (p->value)
            put(places, capacity, p->hash, p->value);
    }
    mf_free(m->places);
    m->places = places;
    m->capacity = capacity;
    return true;
}

bool mf_hash_map_add(mf_hash_map *m, uint64_t hash, void *value)
{
    if (2 * (m->count + 1) > m->capacity && !grow(m))
        return false;
    put(m->places, m->capacity, hash, value);
    m->count++;
    return true;
}

bool mf_hash_map_remove(mf_hash_map *m, uint64_t hash, const void *value)
{
    int at = -1, mask = m->capacity - 1;
    for (const void *v; (v = mf_hash_map_next(m, hash, &at)) != value;)
        if (!v)
            return false;
    if (at < 0)
        return false;
    m->count--;
    for (int k = (at + 1) & mask; m->places[k].value; k = (k + 1) & mask) /* close the gap */
        if (((k - (int)m->places[k].hash) & mask) >= ((k - at) & mask)) {
            m->places[at] = m->places[k];
            at = k;
        }
    m->places[at] = (mf_hash_map_place){ 0 };
    return true;
}

void mf_hash_map_free(mf_hash_map *m)
{
    mf_free(m->places);
    *m = (mf_hash_map){ 0 };
}
