/* The internals of the second compile tier: loops swapped in during calls, kernels destroyed while their loops are being compiled, and
 * memory that runs out meanwhile. */
#include "backend/native/llvm/tier_up.h"

#include <manyfold/debug.h>

#include "check.h"

#include <pthread.h>
#include <time.h>

/* ------------------------------------------------------------------ kernels */

#define CHAIN                                                                                                                 \
    "program (a: f32[N], b: f32[N]) {\n c: f32[N] = mul a b\n d: f32[N] = sin c\n e: f32[N] = add d a\n f: f32[N] = tanh e\n" \
    " g: f32[N] = sub f b\n h: f32[N] = exp g\n return h, d\n}"

static mf_kernel *compile(mf_program **p, int size, mf_tiers tiers)
{
    char text[512] = CHAIN, sized[640] = "", number[16];
    mf_error_object *error = NULL;
    mf_kernel *k = NULL;
    snprintf(number, sizeof number, "%d", size);
    for (const char *c = text; *c; c++)
        strncat(sized, *c == 'N' ? number : (char[2]){ *c, 0 }, sizeof sized - strlen(sized) - 1);
    *p = mf_program_parse(sized, NULL, &error);
    if (!CHECK(*p))
        return NULL;
    mf_native_tiers = tiers;
    error = mf_segment_compiler_native.compile(&mf_segment_compiler_native, *p, NULL, &k);
    mf_native_tiers = MF_TIERS_AS_ASKED;
    CHECK(!error);
    return k;
}

typedef struct operands {
    size_t bytes;
    float *a, *b, *out[2];
    void *scratch;
} operands;

static operands operands_of(const mf_kernel *k, int size)
{
    operands o = { .bytes = (size_t)size * sizeof(float) };
    float **all[] = { &o.a, &o.b, &o.out[0], &o.out[1] };
    for (int i = 0; i < 4; i++)
        *all[i] = malloc(o.bytes);
    o.scratch = aligned_alloc(64, (k->scratch_bytes + 127) / 64 * 64);
    for (int i = 0; i < size; i++) {
        o.a[i] = (float)(i % 1009) / 100 - 5;
        o.b[i] = (float)(i % 37) / 30 - 0.5f;
    }
    return o;
}

static void operands_free(operands *o)
{
    free(o->a);
    free(o->b);
    free(o->out[0]);
    free(o->out[1]);
    free(o->scratch);
}

static mf_error_object *run(mf_kernel *k, operands *o)
{
    return mf_segment_compiler_native.run(k, (const void *[]){ o->a, o->b }, (void *[]){ o->out[0], o->out[1] }, o->scratch);
}

/* ------------------------------------------------------------------ swapping */

enum { THREADS = 4, LARGE = 300000 };

typedef struct runner {
    mf_kernel *k;
    const operands *expected;
    _Atomic bool *swapped;
    int before, after, wrong; /* runs that began before, and after, the loop was known to be compiled */
} runner;

static void *run_on(void *context)
{
    runner *r = context;
    operands o = operands_of(r->k, LARGE);
    while (r->after < 5) {
        *(atomic_load(r->swapped) ? &r->after : &r->before) += 1;
        memset(o.out[0], 0, o.bytes);
        memset(o.out[1], 0, o.bytes);
        r->wrong += run(r->k, &o) != NULL;
        r->wrong += memcmp(o.out[0], r->expected->out[0], o.bytes) || memcmp(o.out[1], r->expected->out[1], o.bytes);
    }
    operands_free(&o);
    return NULL;
}

TEST(loops_are_swapped_in_under_running_calls)
{
    mf_program *p[2];
    mf_kernel *first = compile(&p[0], LARGE, MF_TIERS_FIRST), *k = compile(&p[1], LARGE, MF_TIERS_BACKGROUND);
    REQUIRE(first && k);
    operands expected = operands_of(first, LARGE);
    CHECK(!run(first, &expected));
    int64_t before = mf_compiler_read().loops;
    _Atomic bool swapped = false;
    runner runners[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        runners[i] = (runner){ .k = k, .expected = &expected, .swapped = &swapped };
        pthread_create(&threads[i], NULL, run_on, &runners[i]);
    }
    while (mf_compiler_read().loops == before) /* they run until it is compiled */
        nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
    atomic_store(&swapped, true);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        CHECK_EQ_INT(runners[i].wrong, 0);
    }
    CHECK(mf_compiler_read().seconds > 0);
    CHECK_EQ_INT(mf_compiler_read().waiting, 0);
    mf_program *q;
    mf_kernel *again = compile(&q, LARGE, MF_TIERS_BACKGROUND); /* finds the compiled loop */
    REQUIRE(again);
    CHECK_EQ_INT(mf_compiler_read().loops, before + 1);
    CHECK(!run(again, &expected));
    mf_segment_compiler_native.destroy(again);
    mf_segment_compiler_native.destroy(k);
    mf_segment_compiler_native.destroy(first);
    mf_drop(p[0]);
    mf_drop(p[1]);
    mf_drop(q);
    operands_free(&expected);
}

/* Kernels are destroyed right after requesting a loop, while it is being emitted or compiled, and after it was swapped in. */
TEST(kernels_end_while_loops_are_made)
{
    for (int i = 0; i < 12; i++) {
        int size = 20000 + 8 * i;
        mf_program *p;
        mf_kernel *k = compile(&p, size, MF_TIERS_BACKGROUND);
        REQUIRE(k);
        operands o = operands_of(k, size);
        for (int r = 0; r < 60; r++)
            CHECK(!run(k, &o));
        if (i % 3)
            nanosleep(&(struct timespec){ 0, (i / 3 * 9 + 20) * 1000000L }, NULL);
        mf_segment_compiler_native.destroy(k);
        operands_free(&o);
        mf_drop(p);
    }
    mf_tier_up_drain();
    CHECK_EQ_INT(mf_compiler_read().waiting, 0);
}

TEST(a_loop_that_cannot_be_made_leaves_the_tiles)
{
    for (int n = 1; n < 24; n++) {
        int size = 30000 + 8 * n;
        mf_program *p;
        mf_kernel *k = compile(&p, size, MF_TIERS_BACKGROUND);
        REQUIRE(k);
        operands o = operands_of(k, size), first = operands_of(k, size);
        CHECK(!run(k, &first));
        for (int r = 0; r < 60; r++)
            CHECK(!run(k, &o));
        mf_alloc_fail_after(n); /* fails an allocation of the thread, in builds with fault injection */
        mf_tier_up_drain();
        mf_alloc_fail_after(0);
        CHECK(!run(k, &o));
        CHECK_BYTES(o.out[0], first.out[0], o.bytes);
        mf_segment_compiler_native.destroy(k);
        operands_free(&o);
        operands_free(&first);
        mf_drop(p);
    }
}
