/* Sixteen threads compile at once, each things of its own and some that another one compiles too: ops, functions, derivatives, maps, loops,
 * branches and products of shapes that nobody had before, while programs are forgotten under them. Every number is exact; in the end no array
 * is left. For the thread checker above all (make sanitize-thread TESTS=safety/test_compiling). */
#include "check.h"

#include <manyfold.h>
#include <pthread.h>
#include <stdatomic.h>

enum { THREADS = 16, ROUNDS = 12, DEVICES = 2, STEPS = 3 };

__attribute__((constructor)) static void devices(void) { setenv("MF_NUM_CPU_DEVICES", "2", 1); }

typedef struct work {
    int n; /* the number of elements: unique to this round of this thread, or of two threads */
    double number;
} work;

static mf_value all(const work *w) { return mf_full(MF_SHAPE(w->n), mf_scalar(w->number, MF_F32)); }
static double first(mf_value x) { return mf_item_f64(mf_max(x)); }

static mf_value affine(void *c, mf_value x) { return mf_add(mf_mul(x, 2), ((const work *)c)->n); }
static mf_value energy(void *c, mf_value x) { return mf_mul(mf_sum(mf_square(x)), ((const work *)c)->n); }
static mf_value add_up(void *c, mf_value carry, mf_value x) { return mf_tuple(mf_add(carry, mf_mul(x, ((const work *)c)->n)), mf_none()); }
static mf_value summed(mf_value x) { return mf_psum(x, "i"); }
static mf_value negated(mf_value x) { return mf_neg(x); }
static mf_value same(mf_value x) { return x; }
static mf_value below(mf_value x) { return mf_less(mf_max(x), 1000); }
static mf_value doubled(mf_value x) { return mf_mul(x, 2); }
static mf_value product(mf_value a, mf_value b) { return mf_matmul(a, b); }

static bool ops(const work *w)
{
    return first(mf_sub(mf_exp(mf_sub(all(w), w->number)), mf_reshape(all(w), MF_SHAPE(1, w->n)))) == 1 - w->number;
}
static bool functions(const work *w) { return first(mf_call(mf_jit(mf_closure(affine, w)), all(w))) == 2 * w->number + w->n; }
static bool derivatives(const work *w) { return first(mf_call(mf_jit(mf_grad(mf_closure(energy, w))), all(w))) == 2 * w->number * w->n; }
static bool maps(const work *w)
{
    mf_value x = mf_full(MF_SHAPE(DEVICES, w->n), mf_scalar(w->number, MF_F32));
    return first(mf_call(mf_pmap(summed, "i"), x)) == DEVICES * w->number &&
           first(mf_call(mf_vmap(mf_closure(affine, w)), x)) == 2 * w->number + w->n;
}
static bool loops(const work *w)
{
    mf_value xs = mf_full(MF_SHAPE(STEPS, w->n), mf_scalar(w->number, MF_F32));
    double most = first(mf_while(below, doubled, all(w)));
    return first(mf_get(mf_scan(mf_closure(add_up, w), mf_zeros(MF_SHAPE(w->n), MF_F32), xs), 0)) == STEPS * w->number * w->n &&
           most >= 1000 && most < 2000;
}
static bool branches(const work *w) { return first(mf_cond(mf_greater(mf_max(all(w)), 0), negated, same, all(w))) == -w->number; }
static bool products(const work *w)
{
    mf_value a = mf_full(MF_SHAPE(w->n, 20), mf_scalar(w->number, MF_F32));
    return first(mf_call(product, a, mf_ones(MF_SHAPE(20, w->n), MF_F32))) == 20 * w->number;
}
static bool ahead(const work *w)
{
    mf_function f = mf_compile(mf_jit(mf_closure(affine, w)), mf_struct(MF_SHAPE(w->n), MF_F32));
    return first(mf_call(f, all(w))) == 2 * w->number + w->n;
}
static bool forgets(const work *w)
{
    if (w->n % 8 == 0)
        mf_clear_caches();
    return true;
}

static const struct {
    const char *name;
    bool (*run)(const work *w);
} kinds[] = { { "ops", ops },           { "functions", functions }, { "derivatives", derivatives },
              { "maps", maps },         { "loops", loops },         { "branches", branches },
              { "products", products }, { "ahead of time", ahead }, { "forgets", forgets } };
enum { KINDS = sizeof kinds / sizeof *kinds };

static pthread_barrier_t start;
static _Atomic int wrong[KINDS];

static void *compile(void *context)
{
    int me = (int)(intptr_t)context;
    pthread_barrier_wait(&start);
    for (int round = 0; round < ROUNDS; round++)
        for (int k = 0; k < KINDS; k++) {
            MF_SCOPE;
            int kind = (k + me) % KINDS, who = round % 2 ? me / 2 : me; /* in every other round two threads use the same sizes */
            work w = { 3 + who + THREADS * round, 1 + me % 7 };
            if (!kinds[kind].run(&w))
                wrong[kind]++;
        }
    return NULL;
}

TEST(sixteen_threads_compile_at_once)
{
    pthread_t threads[THREADS];
    mf_clear_caches();
    int64_t before = mf_memory_stats().live_bytes;
    pthread_barrier_init(&start, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, compile, (void *)(intptr_t)i) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&start);
    for (int k = 0; k < KINDS; k++)
        if (!CHECK_EQ_INT(wrong[k], 0))
            CHECK_NOTE("%s", kinds[k].name);
    const char *message = NULL;
    CHECK(mf_first_error(&message) == MF_OK || CHECK_NOTE("%s", message));
    mf_clear_caches();
    CHECK_EQ_INT(mf_memory_stats().live_bytes, before);
}
