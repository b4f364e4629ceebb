/* The cache of traced functions. Its key: function, axis environment, client, communicator, trees, types with weak flags, statics.
 * Everything in a key is interned or retained by its entry, so keys compare by pointer; the communicator is the process's. Programs that
 * captured outer variables are never kept: they belong to their trace. A function that holds values (a partial, a closure over a handle) is
 * rarely made again once nobody holds it. Its programs are dropped after many others have been traced since their last use; any function's
 * programs may be dropped when the cache is full. Invariant: an entry is either ready (has a traced program) or being traced by one thread,
 * for which the others wait. */
#include "trace/cache.h"

#include "base/thread/cancel.h"
#include "base/memory/hash_map.h"
#include "runtime/comm.h"
#include "runtime/profile/profiler.h"
#include "trace/function.h"

#include <pthread.h>
#include <string.h>

/* CACHE_LIMIT: the number of entries, beyond which the least recently used is evicted. PASSING: how many programs, or MiB of their
 * constants, are traced before an unused entry whose function holds values, and is held only by the cache, is dropped. SWEEP: the number
 * of misses between two searches for such entries. */
enum { CACHE_LIMIT = 4096, PASSING = 256, SWEEP = 32 };

struct mf_cache_ticket {
    struct mf_cache_ticket *next; /* in a list of entries to be freed */
    uint64_t hash;
    mf_function_object *function; /* retained */
    const mf_axis_env *env;
    const mf_client *client;
    const mf_comm *comm;
    const mf_cell_rules *rules;
    int arg_count, leaf_count;
    bool has_kwargs;
    const mf_structure *structures[MF_MAX_ARGUMENTS];
    mf_traced *traced; /* NULL while being traced */
    pthread_t owner;
    uint64_t last_use;
    int64_t traced_then; /* the value of traced_now at the last use */
    int64_t start;       /* when tracing began, for the profiler */
    mf_leaf leaves[];    /* the objects of statics are retained */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static mf_hash_map entries;
static uint64_t clock_now;
static int64_t traced_now; /* programs traced so far, plus the MiB of constants in them */
static mf_cache_counters counters;

static uint64_t key_hash(const mf_function_object *f, const mf_signature *s, const mf_comm *comm)
{
    uint64_t h = mf_hash_mix((uintptr_t)f ^ (uintptr_t)comm, (uintptr_t)s->env ^ (uintptr_t)s->client);
    for (int i = 0; i < s->arg_count; i++)
        h = mf_hash_mix(h, (uintptr_t)s->structures[i]);
    for (int i = 0; i < s->leaf_count; i++)
        h = mf_hash_mix(h, s->leaves[i].type ? (uintptr_t)s->leaves[i].type : (uintptr_t)s->leaves[i].identity + 1);
    return h;
}

static bool same_key(const mf_cache_ticket *e, uint64_t hash, const mf_function_object *f, const mf_signature *s, const mf_comm *comm)
{
    if (e->hash != hash || e->function != f || e->env != s->env || e->client != s->client || e->comm != comm || e->rules != s->rules ||
        e->arg_count != s->arg_count || e->leaf_count != s->leaf_count || e->has_kwargs != s->has_kwargs ||
        memcmp(e->structures, s->structures, (size_t)s->arg_count * sizeof *s->structures) != 0)
        return false;
    for (int i = 0; i < s->leaf_count; i++)
        if (e->leaves[i].type != s->leaves[i].type || (!s->leaves[i].type && e->leaves[i].identity != s->leaves[i].identity))
            return false;
    return true;
}

static void entry_free(mf_cache_ticket *e)
{
    mf_drop(e->function);
    mf_drop(e->traced);
    for (int i = 0; i < e->leaf_count; i++)
        mf_drop(e->leaves[i].object);
    mf_free(e);
}

static void unlink_entry(mf_cache_ticket *e)
{
    mf_hash_map_remove(&entries, e->hash, e);
    e->function->cached--;
}

static bool link_entry(mf_cache_ticket *e)
{
    bool linked = mf_hash_map_add(&entries, e->hash, e);
    e->function->cached += linked;
    return linked;
}

static void touch(mf_cache_ticket *e)
{
    e->last_use = ++clock_now;
    e->traced_then = traced_now;
}

/* Removes and returns the least recently used ready entry. The caller frees it after releasing the lock, as destructors take other
 * locks. */
static mf_cache_ticket *evict(void)
{
    mf_cache_ticket *oldest = NULL;
    int at = 0;
    for (mf_cache_ticket *e; (e = mf_hash_map_each(&entries, &at));)
        if (e->traced && (!oldest || e->last_use < oldest->last_use))
            oldest = e;
    if (oldest)
        unlink_entry(oldest);
    return oldest;
}

/* Removes the entries that are not worth keeping and returns them as a list. */
static mf_cache_ticket *sweep(void)
{
    mf_cache_ticket *freed = NULL;
    int at = 0;
    for (mf_cache_ticket *e; (e = mf_hash_map_each(&entries, &at));) {
        bool unused = e->traced && traced_now - e->traced_then > PASSING;
        if (!unused || atomic_load(&e->function->object.count) != e->function->cached || !mf_function_holds_values(e->function))
            continue;
        unlink_entry(e);
        at--;
        e->next = freed;
        freed = e;
    }
    return freed;
}

static void free_list(mf_cache_ticket *freed)
{
    while (freed) {
        mf_cache_ticket *e = freed;
        freed = e->next;
        entry_free(e);
    }
}

int64_t mf_cache_weight(const mf_program *p)
{
    int64_t bytes = 0, nested = 0;
    for (int v = 0; v < p->var_count; v++)
        if (p->vars[v]->constant && mf_literal_is_contiguous(p->vars[v]->constant))
            bytes += p->vars[v]->type->bytes;
    for (int i = 0; i < p->eqn_count; i++)
        for (int k = 0, n = mf_params_program_count(p->eqns[i]->op, p->eqns[i]->params); k < n; k++)
            nested += mf_cache_weight(*mf_params_program_at(p->eqns[i]->op, p->eqns[i]->params, k)) - 1;
    return 1 + (bytes >> 20) + nested;
}

static mf_cache_ticket *entry_new(mf_function_object *f, const mf_signature *s, const mf_comm *comm, uint64_t hash)
{
    mf_cache_ticket *e = mf_calloc(1, sizeof *e + (size_t)s->leaf_count * sizeof *e->leaves);
    if (!e)
        return NULL;
    e->hash = hash;
    e->function = mf_retain(f);
    e->env = s->env;
    e->client = s->client;
    e->comm = comm;
    e->rules = s->rules;
    e->arg_count = s->arg_count;
    e->leaf_count = s->leaf_count;
    e->has_kwargs = s->has_kwargs;
    memcpy(e->structures, s->structures, (size_t)s->arg_count * sizeof *s->structures);
    for (int i = 0; i < s->leaf_count; i++) {
        e->leaves[i] = s->leaves[i];
        e->leaves[i].object = s->leaves[i].type ? NULL : mf_retain(s->leaves[i].object);
    }
    e->owner = pthread_self();
    e->start = mf_profile_begin();
    return e;
}

mf_traced *mf_cache_begin(mf_function_object *f, const mf_signature *s, mf_cache_ticket **ticket)
{
    const mf_comm *comm = mf_comm_current();
    uint64_t hash = key_hash(f, s, comm);
    mf_cache_ticket *evicted = NULL, *freed = NULL;
    mf_traced *found = NULL;
    *ticket = NULL;
    pthread_mutex_lock(&lock);
    for (;;) {
        mf_cache_ticket *busy = NULL;
        int at = -1;
        for (mf_cache_ticket *e; !found && (e = mf_hash_map_next(&entries, hash, &at));) {
            if (!same_key(e, hash, f, s, comm))
                continue;
            if (!e->traced) {
                busy = e;
            } else if (!e->traced->cell_count || mf_traced_cells_match(e->traced)) {
                touch(e);
                found = mf_retain(e->traced);
            }
        }
        if (found || (busy && pthread_equal(busy->owner, pthread_self())))
            break;
        if (!busy) {
            mf_cache_ticket *e = entry_new(f, s, comm, hash);
            if (e) {
                if (counters.traces % SWEEP == 0)
                    freed = sweep();
                if (entries.count >= CACHE_LIMIT)
                    evicted = evict();
                if (!link_entry(e)) { /* trace without the cache */
                    e->next = freed;
                    freed = e;
                    e = NULL;
                }
            }
            *ticket = e;
            break;
        }
        MF_UNCANCELLED;
        pthread_cond_wait(&changed, &lock);
    }
    found ? counters.hits++ : counters.traces++;
    pthread_mutex_unlock(&lock);
    if (evicted)
        entry_free(evicted);
    free_list(freed);
    return found;
}

void mf_cache_end(mf_cache_ticket *ticket, mf_traced *t)
{
    bool keep = t && t->capture_count == 0 && !t->impure;
    int64_t weight = keep ? mf_cache_weight(t->program) : 0;
    if (ticket->start)
        mf_profile_words(ticket->start, MF_TRACK_COMPILER, "trace", ticket->function->name);
    pthread_mutex_lock(&lock);
    if (keep) {
        ticket->traced = mf_retain(t);
        traced_now += weight;
        touch(ticket);
    } else {
        unlink_entry(ticket);
    }
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    if (!keep)
        entry_free(ticket);
}

void mf_cache_count_compilation(void)
{
    pthread_mutex_lock(&lock);
    counters.compilations++;
    pthread_mutex_unlock(&lock);
}

void mf_cache_count_segment(void)
{
    pthread_mutex_lock(&lock);
    counters.segments++;
    pthread_mutex_unlock(&lock);
}

mf_cache_counters mf_cache_traces(void)
{
    pthread_mutex_lock(&lock);
    mf_cache_counters c = counters;
    c.entries = entries.count;
    pthread_mutex_unlock(&lock);
    return c;
}

void mf_cache_clear_traces(void)
{
    mf_cache_ticket *freed = NULL;
    pthread_mutex_lock(&lock);
    int at = 0;
    for (mf_cache_ticket *e; (e = mf_hash_map_each(&entries, &at));)
        if (e->traced) {
            unlink_entry(e);
            at--;
            e->next = freed;
            freed = e;
        }
    pthread_mutex_unlock(&lock);
    free_list(freed);
}
