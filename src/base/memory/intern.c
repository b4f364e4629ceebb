/* Interning: immortal copies of bytes, found without a lock. Invariant: an entry, once reachable, never changes or moves. A table that
 * grows keeps its old buckets, reachable through `previous`, for readers that still use them. */
#include "base/memory/intern.h"

#include "base/memory/vector.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>

typedef struct entry {
    uint64_t hash;
    size_t size;
    _Alignas(16) unsigned char bytes[];
} entry;

typedef struct link {
    struct link *next;
    entry *entry;
} link;

typedef struct buckets {
    struct buckets *previous;
    size_t mask;
    _Atomic(link *) at[];
} buckets;

struct mf_interner {
    pthread_mutex_t lock;
    size_t count;
    _Atomic(buckets *) table;
};

/* ---- hashing */

static uint64_t fold(uint64_t a, uint64_t b)
{
    __extension__ typedef unsigned __int128 wide;
    wide r = (wide)a * b;
    return (uint64_t)r ^ (uint64_t)(r >> 64);
}

static uint64_t read_word(const unsigned char *p, size_t n)
{
    uint64_t x = 0;
    if (n)
        memcpy(&x, p, n);
    return x;
}

uint64_t mf_hash(const void *bytes, size_t size, uint64_t seed)
{
    const unsigned char *p = bytes;
    uint64_t h = seed ^ 0xa0761d6478bd642fu;
    size_t left = size;
    for (; left >= 16; left -= 16, p += 16)
        h = fold(read_word(p, 8) ^ 0xe7037ed1a0b428dbu, read_word(p + 8, 8) ^ h);
    uint64_t a = read_word(p, left > 8 ? 8 : left), b = left > 8 ? read_word(p + 8, left - 8) : 0;
    return fold(fold(a ^ 0x8ebc6af09c88c6e3u, b ^ h), (uint64_t)size ^ 0x589965cc75374cc3u);
}

/* ---- the table */

static buckets *new_buckets(size_t n, buckets *previous)
{
    buckets *b = mf_calloc(1, sizeof *b + n * sizeof b->at[0]);
    if (!b)
        return NULL;
    b->mask = n - 1;
    b->previous = previous;
    return b;
}

mf_interner *mf_interner_static(_Atomic(mf_interner *) *slot)
{
    mf_interner *t = atomic_load_explicit(slot, memory_order_acquire);
    if (t)
        return t;
    mf_interner *fresh = mf_calloc(1, sizeof *fresh);
    buckets *b = fresh ? new_buckets(64, NULL) : NULL;
    if (!b) {
        mf_free(fresh);
        return NULL;
    }
    pthread_mutex_init(&fresh->lock, NULL);
    atomic_init(&fresh->table, b);
    if (atomic_compare_exchange_strong(slot, &t, fresh))
        return fresh;
    pthread_mutex_destroy(&fresh->lock);
    mf_free(b);
    mf_free(fresh);
    return t;
}

static entry *find(buckets *b, uint64_t hash, const void *bytes, size_t size)
{
    for (link *l = atomic_load_explicit(&b->at[hash & b->mask], memory_order_acquire); l; l = l->next)
        if (l->entry->hash == hash && l->entry->size == size && !memcmp(l->entry->bytes, bytes, size))
            return l->entry;
    return NULL;
}

static bool insert(buckets *b, entry *e)
{
    link *l = mf_alloc(sizeof *l);
    if (!l)
        return false;
    _Atomic(link *) *head = &b->at[e->hash & b->mask];
    *l = (link){ atomic_load_explicit(head, memory_order_relaxed), e };
    atomic_store_explicit(head, l, memory_order_release);
    return true;
}

/* Failing to grow is no error: the chains just get longer. */
static void grow(mf_interner *t)
{
    buckets *old = atomic_load(&t->table), *b = new_buckets((old->mask + 1) * 4, old);
    if (!b)
        return;
    for (size_t i = 0; i <= old->mask; i++)
        for (link *l = atomic_load(&old->at[i]); l; l = l->next)
            if (!insert(b, l->entry)) {
                for (size_t k = 0; k <= b->mask; k++)
                    for (link *m = atomic_load(&b->at[k]), *next; m; m = next) {
                        next = m->next;
                        mf_free(m);
                    }
                mf_free(b);
                return;
            }
    atomic_store_explicit(&t->table, b, memory_order_release);
}

static entry *add(mf_interner *t, uint64_t hash, const void *bytes, size_t size)
{
    entry *e = mf_alloc(sizeof *e + size + 1);
    if (!e)
        return NULL;
    e->hash = hash;
    e->size = size;
    if (size)
        memcpy(e->bytes, bytes, size);
    e->bytes[size] = 0; /* strings are interned without their terminator: this adds it */
    if (t->count >= atomic_load(&t->table)->mask)
        grow(t);
    if (!insert(atomic_load(&t->table), e)) {
        mf_free(e);
        return NULL;
    }
    t->count++;
    return e;
}

const void *mf_interner_get(mf_interner *t, const void *bytes, size_t size)
{
    if (!t)
        return NULL;
    uint64_t hash = mf_hash(bytes, size, 0);
    entry *e = find(atomic_load_explicit(&t->table, memory_order_acquire), hash, bytes, size);
    if (!e) {
        pthread_mutex_lock(&t->lock);
        e = find(atomic_load(&t->table), hash, bytes, size);
        if (!e)
            e = add(t, hash, bytes, size);
        pthread_mutex_unlock(&t->lock);
    }
    return e ? e->bytes : NULL;
}

/* ---- strings and lists */

static _Atomic(mf_interner *) strings, lists, names;

const char *mf_intern_n(const char *s, size_t length) { return s ? mf_interner_get(mf_interner_static(&strings), s, length) : NULL; }
const char *mf_intern(const char *s) { return s ? mf_intern_n(s, strlen(s)) : NULL; }

const mf_intlist *mf_ints_intern(const int64_t *at, int count)
{
    MF_SMALL_ARRAY(int64_t, blob, 33, (size_t)count + 1);
    if (!blob || count < 0)
        return NULL;
    blob[0] = 0;
    memcpy(blob, &count, sizeof count);
    if (count)
        memcpy(blob + 1, at, (size_t)count * sizeof *at);
    return mf_interner_get(mf_interner_static(&lists), blob, ((size_t)count + 1) * sizeof *blob);
}

const mf_intlist *mf_ints_of(int count, ...)
{
    int64_t at[32];
    va_list list;
    va_start(list, count);
    for (int i = 0; i < count && i < 32; i++)
        at[i] = va_arg(list, int);
    va_end(list);
    return mf_ints_intern(at, count < 32 ? count : 32);
}

const mf_namelist *mf_names_intern(const char *const *at, int count)
{
    MF_SMALL_ARRAY(const char *, blob, 17, (size_t)count + 1);
    if (!blob || count < 0)
        return NULL;
    blob[0] = NULL;
    memcpy(blob, &count, sizeof count);
    bool whole = true;
    for (int i = 0; i < count; i++) {
        blob[i + 1] = mf_intern(at[i]);
        whole = whole && (blob[i + 1] || !at[i]);
    }
    return whole ? mf_interner_get(mf_interner_static(&names), blob, ((size_t)count + 1) * sizeof *blob) : NULL;
}

bool mf_ints_has(const mf_intlist *list, int64_t x)
{
    for (int i = 0; list && i < list->count; i++)
        if (list->at[i] == x)
            return true;
    return false;
}

int mf_names_find(const mf_namelist *list, const char *name)
{
    for (int i = 0; list && i < list->count; i++)
        if (list->at[i] == name || (name && list->at[i] && !strcmp(list->at[i], name)))
            return i;
    return -1;
}
