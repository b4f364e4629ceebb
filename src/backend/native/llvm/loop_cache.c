/* Compiled loop nests, found by the text that they were made from: equal groups give equal texts, which are compiled once. A limited number
 * of loops that no kernel uses are kept, the most recently used ones.
 * Invariants: the table's lock is not held during a compilation, so a lookup never waits for one; one text is compiled at a time; a loop
 * in use stays in the table and keeps its code. */
#include "backend/native/llvm/llvm.h"

#include "backend/native/kernels/kernels.h"
#include "base/memory/hash_map.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

_Atomic int mf_loop_cache_most = 1024;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER, making = PTHREAD_MUTEX_INITIALIZER;
static mf_hash_map table; /* guarded by `lock` */
static int64_t gets;
static _Atomic int loops; /* number in the table; read without the lock */

bool mf_llvm_can(const mf_group *g)
{
    for (int i = 0; i < g->count; i++)
        if (!mf_ir_node_possible(g, &g->nodes[i]))
            return false;
    return true;
}

int mf_llvm_lanes(void) { return mf_kernels_avx512() ? 16 : 8; }

void mf_loop_text_free(mf_loop_text *t)
{
    mf_text_free(&t->text);
    *t = (mf_loop_text){ 0 };
}

/* Moves the text into t. False: emission failed, and everything is freed. */
static bool take(mf_loop_text *t, mf_ir *ir)
{
    *t = (mf_loop_text){ ir->text, 0 };
    ir->text = (mf_text){ 0 };
    if (ir->failed || t->text.failed)
        mf_loop_text_free(t);
    else
        t->hash = mf_hash(t->text.at, strlen(t->text.at), 0);
    return t->text.at != NULL;
}

#define WRITER(name, plan_type, emit)                 \
    bool name(const plan_type *plan, mf_loop_text *t) \
    {                                                 \
        mf_arena strings = { 0 };                     \
        mf_ir ir = { .strings = &strings };           \
        emit(&ir, plan);                              \
        mf_arena_free(&strings);                      \
        return take(t, &ir);                          \
    }
WRITER(mf_loop_write, mf_group_plan, mf_ir_loops)
WRITER(mf_loop_write_rows, mf_rows_plan, mf_ir_rows)
WRITER(mf_loop_write_repeat, mf_loop_plan, mf_ir_repeat)
#undef WRITER

/* NULL: not in the table. */
static mf_cached_loop *find(const mf_loop_text *t)
{
    pthread_mutex_lock(&lock);
    int at = -1;
    mf_cached_loop *l;
    while ((l = mf_hash_map_next(&table, t->hash, &at)) && strcmp(l->text, t->text.at) != 0)
        ;
    if (l) {
        l->users++;
        l->last = ++gets;
    }
    pthread_mutex_unlock(&lock);
    return l;
}

mf_cached_loop *mf_loop_known(mf_loop_writer *write, const void *what)
{
    mf_loop_text t = { 0 };
    mf_cached_loop *l = atomic_load_explicit(&loops, memory_order_relaxed) && write(what, &t) ? find(&t) : NULL;
    mf_loop_text_free(&t);
    return l;
}

void mf_loop_release(mf_cached_loop *l)
{
    pthread_mutex_lock(&lock);
    if (l)
        l->users--;
    pthread_mutex_unlock(&lock);
}

int mf_loop_cache_count(void) { return atomic_load(&loops); }

/* The unused loop that was used least recently, or NULL. The lock is held. */
static mf_cached_loop *find_oldest(void)
{
    mf_cached_loop *oldest = NULL;
    int at = 0;
    for (mf_cached_loop *l; (l = mf_hash_map_each(&table, &at));)
        if (!l->users && (!oldest || l->last < oldest->last))
            oldest = l;
    return oldest;
}

static mf_cached_loop *take_oldest(void)
{
    pthread_mutex_lock(&lock);
    mf_cached_loop *l = loops < mf_loop_cache_most ? NULL : find_oldest();
    if (l && mf_hash_map_remove(&table, l->hash, l))
        loops--;
    pthread_mutex_unlock(&lock);
    return l;
}

static void free_loop(mf_cached_loop *l)
{
    if (l->code)
        mf_llvm_free(l->code);
    mf_free(l->text);
    mf_free(l);
}

/* NULL: memory is out, and nothing is kept; another attempt may succeed. */
static mf_cached_loop *make(const mf_loop_text *t)
{
    mf_cached_loop *l = mf_calloc(1, sizeof *l);
    char *text = mf_strdup(t->text.at);
    if (!l || !text) {
        mf_free(l);
        mf_free(text);
        return NULL;
    }
    for (mf_cached_loop *old; (old = take_oldest());)
        free_loop(old);
    *l = (mf_cached_loop){ .hash = t->hash, .text = text, .users = 1 };
    l->run = mf_llvm_code(text, &l->code);
    pthread_mutex_lock(&lock);
    l->last = ++gets;
    bool kept = mf_hash_map_add(&table, t->hash, l);
    loops += kept;
    pthread_mutex_unlock(&lock);
    if (!kept)
        free_loop(l);
    return kept ? l : NULL;
}

mf_cached_loop *mf_loop_make(const mf_loop_text *t)
{
    pthread_mutex_lock(&making);
    mf_cached_loop *l = find(t);
    if (!l)
        l = make(t);
    pthread_mutex_unlock(&making);
    return l;
}
