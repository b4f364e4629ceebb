/* The hash map, compared with a plain list: lookups, order, and the rest after removals, with frequent hash collisions. */
#include "check.h"

#include "base/memory/hash_map.h"

#include <stdlib.h>

enum { VALUES = 200, STEPS = 20000 };

/* The hash of v; kinds > 0 makes values share a bucket, or the whole hash. */
static uint64_t hash_of(int v, int kinds) { return kinds ? (uint64_t)(v % kinds) * 0x100000001u : (uint64_t)v * 0x9e3779b97f4a7c15u; }

static int list[VALUES], list_count, values[VALUES];

static bool listed(int v)
{
    for (int i = 0; i < list_count; i++)
        if (list[i] == v)
            return true;
    return false;
}

/* Checks that the values with this hash are found in insertion order, and that iteration visits all values. */
static bool same_as_list(const mf_hash_map *m, int kinds, uint64_t hash)
{
    int at = -1, each = 0, seen = 0;
    for (int i = 0; i < list_count; i++)
        if (hash_of(list[i], kinds) == hash && mf_hash_map_next(m, hash, &at) != &values[list[i]])
            return false;
    if (mf_hash_map_next(m, hash, &at))
        return false;
    for (int *v; (v = mf_hash_map_each(m, &each)); seen++)
        if (!listed((int)(v - values)))
            return false;
    return seen == list_count && m->count == list_count;
}

static void unlist(int v)
{
    int kept = 0;
    for (int i = 0; i < list_count; i++)
        if (list[i] != v)
            list[kept++] = list[i];
    list_count = kept;
}

static void try_hashes(int kinds)
{
    mf_hash_map m = { 0 };
    unsigned seed = (unsigned)kinds + 1;
    list_count = 0;
    for (int step = 0; step < STEPS; step++) {
        int v = rand_r(&seed) % VALUES;
        uint64_t hash = hash_of(v, kinds);
        if (!listed(v)) {
            REQUIRE(CHECK(mf_hash_map_add(&m, hash, &values[v])));
            list[list_count++] = v;
        } else {
            REQUIRE(CHECK(mf_hash_map_remove(&m, hash, &values[v])));
            unlist(v);
        }
        if (!CHECK(same_as_list(&m, kinds, hash))) {
            CHECK_NOTE("%d kinds of hashes, step %d", kinds, step);
            break;
        }
        CHECK(!mf_hash_map_remove(&m, hash, &list_count));
    }
    mf_hash_map_free(&m);
    CHECK_EQ_INT(m.count + m.capacity, 0);
}

TEST(hashes_of_their_own) { try_hashes(0); }
TEST(one_hash) { try_hashes(1); }
TEST(few_hashes) { try_hashes(7); }
TEST(neighbours) { try_hashes(97); }

TEST(an_empty_map_has_nothing)
{
    mf_hash_map m = { 0 };
    int at = -1, each = 0;
    CHECK(!mf_hash_map_next(&m, 5, &at) && !mf_hash_map_each(&m, &each) && !mf_hash_map_remove(&m, 5, values));
    mf_hash_map_free(&m);
}

TEST(values_go_while_they_are_gone_through)
{
    mf_hash_map m = { 0 };
    for (int v = 0; v < VALUES; v++)
        CHECK(mf_hash_map_add(&m, hash_of(v, 13), &values[v]));
    int each = 0;
    for (int *v; (v = mf_hash_map_each(&m, &each));)
        if ((v - values) % 3)
            each -= mf_hash_map_remove(&m, hash_of((int)(v - values), 13), v);
    CHECK_EQ_INT(m.count, (VALUES + 2) / 3);
    for (int v = 0; v < VALUES; v++) {
        int at = -1;
        bool found = false;
        for (const int *x; (x = mf_hash_map_next(&m, hash_of(v, 13), &at));)
            found = found || x == &values[v];
        CHECK(found == (v % 3 == 0));
    }
    mf_hash_map_free(&m);
}
