/* Compiled loop nests by the text that they were made from: equal groups give equal texts, which are compiled once and kept as long as
 * the process lives.
 * Invariants: the table's lock is never held while something is compiled, so who only looks never waits for a compilation; one text is
 * compiled at a time. */
#include "backend/native/llvm/llvm.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

typedef struct cached_loop {
    struct cached_loop *next;
    uint64_t hash;
    char *text;
    mf_loop_fn *run; /* NULL: could not be compiled */
} cached_loop;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER, making = PTHREAD_MUTEX_INITIALIZER;
static cached_loop *table[256];
static _Atomic bool any; /* stands in it */

bool mf_llvm_can(const mf_group *g)
{
    for (int i = 0; i < g->count; i++)
        if (!mf_ir_node_possible(g, &g->nodes[i]))
            return false;
    return true;
}

int mf_llvm_lanes(void) { return mf_native_avx512() ? 16 : 8; }

void mf_loop_text_free(mf_loop_text *t)
{
    mf_text_free(&t->text);
    *t = (mf_loop_text){ 0 };
}

/* The text is t's from now on; false, with nothing left, when it failed. */
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

static bool find(const mf_loop_text *t, mf_loop_fn **run)
{
    pthread_mutex_lock(&lock);
    const cached_loop *l = table[t->hash % 256];
    while (l && (l->hash != t->hash || strcmp(l->text, t->text.at) != 0))
        l = l->next;
    pthread_mutex_unlock(&lock);
    *run = l ? l->run : NULL;
    return l != NULL;
}

mf_loop_fn *mf_loop_known(mf_loop_writer *write, const void *what)
{
    mf_loop_text t = { 0 };
    mf_loop_fn *run = NULL;
    if (atomic_load_explicit(&any, memory_order_relaxed) && write(what, &t))
        find(&t, &run);
    mf_loop_text_free(&t);
    return run;
}

/* NULL, with nothing kept, when memory is out: another attempt may succeed. */
static mf_loop_fn *make(const mf_loop_text *t)
{
    cached_loop *l = mf_alloc(sizeof *l);
    char *text = mf_strdup(t->text.at);
    if (!l || !text) {
        mf_free(l);
        mf_free(text);
        return NULL;
    }
    *l = (cached_loop){ NULL, t->hash, text, mf_llvm_code(text) };
    pthread_mutex_lock(&lock);
    l->next = table[t->hash % 256];
    table[t->hash % 256] = l;
    atomic_store_explicit(&any, true, memory_order_relaxed);
    pthread_mutex_unlock(&lock);
    return l->run;
}

mf_loop_fn *mf_loop_make(const mf_loop_text *t)
{
    mf_loop_fn *run;
    pthread_mutex_lock(&making);
    if (!find(t, &run))
        run = make(t);
    pthread_mutex_unlock(&making);
    return run;
}
