/* Eight threads at once: they call, map and differentiate, read, donate, delete and release each other's arrays, forget all programs, open
 * and leave scopes, and make mistakes. Every number is exact, or the error is one that another thread's doing explains; in the end no
 * handle is left. Half a minute, or MF_STRESS_SECONDS (make stress: an hour); the seeds are printed and fixed, MF_STRESS_SEED moves them. */
#include "array/array.h"
#include "base/handles/handle.h"
#include "check.h"

#include <manyfold.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

enum { THREADS = 8, SLOTS = 16, ELEMENTS = 64, SECONDS = 30, DEVICES = 4 };

typedef struct stressed {
    uint64_t seed, state;
    int64_t rounds, errors;
    double until;
} stressed;

static _Atomic uint64_t slots[SLOTS]; /* kept arrays, each filled with one number; a thread that replaces one releases the old array */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int draw(stressed *s, int below)
{
    s->state ^= s->state << 13;
    s->state ^= s->state >> 7;
    s->state ^= s->state << 17;
    return (int)(s->state % (uint64_t)below);
}

static double setting(const char *name, double otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtod(text, NULL) : otherwise;
}

/* ------------------------------------------------------------------ functions of arrays of one number */

static mf_value of(double number) { return mf_full(MF_SHAPE(ELEMENTS), mf_scalar(number, MF_F32)); }
static mf_value affine(mf_value x) { return mf_add(mf_mul(x, 2), 1); }
static mf_value total(mf_value x) { return mf_sum(mf_mul(x, x)); }
static mf_value shared_sum(mf_value x) { return mf_psum(mf_add(x, mf_axis_index("i")), "i"); }
static mf_value grows(void *by, mf_value x) { return mf_add(x, *(double *)by); }
static mf_value add_up(mf_value carry, mf_value x) { return mf_tuple(mf_add(carry, x), carry); }

/* Whether all elements are the number. */
static bool is(mf_value x, double number)
{
    mf_value low = mf_min(x), high = mf_max(x);
    return mf_item_f64(low) == number && mf_item_f64(high) == number;
}

/* For another thread's array: whether all elements are one number, or it has been destroyed. */
static bool is_one_or_gone(stressed *s, mf_value x, bool twice_and_one)
{
    mf_status status = mf_block_until_ready(x);
    if (status) {
        (void)mf_error(x);
        s->errors++;
        return status == MF_ERROR_DONATED || status == MF_ERROR_SCOPE;
    }
    mf_value low = mf_min(x), high = mf_max(x);
    status = mf_block_until_ready(mf_tuple(low, high));
    if (status) { /* it was destroyed meanwhile */
        (void)mf_error(low);
        (void)mf_error(high);
        s->errors++;
        return status == MF_ERROR_DONATED || status == MF_ERROR_SCOPE;
    }
    double number = mf_item_f64(low);
    return number == mf_item_f64(high) && number == floor(number) && number >= 0 && (!twice_and_one || fmod(number, 2) == 1);
}

/* ------------------------------------------------------------------ what threads do */

static bool calls(stressed *s)
{
    double by = draw(s, 50), number = draw(s, 100);
    return is(mf_call(mf_jit(affine), of(number)), 2 * number + 1) && is(mf_call(mf_jit(mf_closure(grows, &by)), of(number)), number + by);
}

static bool maps(stressed *s)
{
    double number = draw(s, 100);
    mf_value x = mf_full(MF_SHAPE(DEVICES, ELEMENTS), mf_scalar(number, MF_F32));
    bool right = is(mf_call(mf_pmap(shared_sum, "i"), x), DEVICES * number + DEVICES * (DEVICES - 1) / 2);
    return is(mf_call(mf_vmap(affine), x), 2 * number + 1) && right;
}

static bool differentiates(stressed *s)
{
    double number = draw(s, 100);
    return is(mf_call(mf_jit(mf_grad(total)), of(number)), 2 * number) && is(mf_call(mf_grad(total), of(number)), 2 * number);
}

static bool scans(stressed *s)
{
    double number = draw(s, 100);
    return mf_item_f64(mf_get(mf_scan(add_up, 0.0, of(number)), 0)) == ELEMENTS * number;
}

static bool donates_own(stressed *s)
{
    double number = draw(s, 100);
    mf_value x = of(number), y = mf_call(mf_jit(affine, .donate_argnums = MF_INTS(0)), x);
    bool right = is(y, 2 * number + 1) && mf_block_until_ready(x) == MF_ERROR_DONATED;
    (void)mf_error(x);
    return right;
}

static mf_value shared(stressed *s) { return (mf_value){ atomic_load(&slots[draw(s, SLOTS)]) }; }
static bool reads(stressed *s) { return is_one_or_gone(s, shared(s), false); }
static bool calls_with_shared(stressed *s) { return is_one_or_gone(s, mf_call(mf_jit(affine), shared(s)), true); }
static bool donates_shared(stressed *s)
{
    return is_one_or_gone(s, mf_call(mf_jit(affine, .donate_argnums = MF_INTS(0)), shared(s)), true);
}

static bool deletes(stressed *s)
{
    mf_status status = mf_delete(shared(s));
    s->errors += status != MF_OK;
    return status == MF_OK || status == MF_ERROR_DONATED || status == MF_ERROR_SCOPE;
}

static bool exchanges(stressed *s)
{
    mf_value fresh = mf_keep(of(draw(s, 100)));
    mf_release((mf_value){ atomic_exchange(&slots[draw(s, SLOTS)], fresh.handle) });
    return true;
}

static mf_value deep(int depth, mf_value x)
{
    MF_SCOPE;
    return mf_escape(depth ? deep(depth - 1, mf_add(x, 1)) : x);
}

static bool opens_scopes(stressed *s)
{
    int depth = draw(s, 20);
    double number = draw(s, 100);
    return is(deep(depth, of(number)), number + depth);
}

static bool is_error(mf_value v, mf_status status)
{
    bool right = mf_block_until_ready(v) == status && mf_error(v) && mf_error_status(v) == status;
    return right;
}

static mf_value fails(mf_value x) { return mf_add(x, mf_ones(MF_SHAPE(3), MF_F32)); }

static bool makes_mistakes(stressed *s)
{
    s->errors += 3;
    mf_value x = of(draw(s, 100));
    return is_error(mf_add(x, mf_ones(MF_SHAPE(3), MF_F32)), MF_ERROR_SHAPE) && is_error(mf_call(mf_jit(fails), x), MF_ERROR_SHAPE) &&
           is_error(mf_sum(x, 7), MF_ERROR_AXIS);
}

/* Ops of ever new shapes. */
static bool fills_caches(stressed *s)
{
    int rows = 1 + draw(s, 200), columns = 1 + draw(s, 30);
    return is(mf_add(mf_ones(MF_SHAPE(rows, columns), MF_F32), 1), 2);
}

static bool clears(stressed *s)
{
    if (draw(s, 8) == 0)
        mf_clear_caches();
    if (draw(s, 8) == 0)
        mf_memory_trim();
    return true;
}

static const struct deed {
    const char *name;
    bool (*run)(stressed *s);
} deeds[] = { { "calls", calls },
              { "maps", maps },
              { "differentiates", differentiates },
              { "scans", scans },
              { "donates its own", donates_own },
              { "reads", reads },
              { "calls with another's", calls_with_shared },
              { "donates another's", donates_shared },
              { "deletes", deletes },
              { "exchanges", exchanges },
              { "exchanges", exchanges },
              { "opens scopes", opens_scopes },
              { "makes mistakes", makes_mistakes },
              { "fills caches", fills_caches },
              { "clears", clears } };

static void *work(void *context)
{
    stressed *s = context;
    while (now() < s->until && !check_failures) {
        MF_SCOPE;
        const struct deed *d = &deeds[draw(s, sizeof deeds / sizeof *deeds)];
        if (!CHECK(d->run(s)))
            CHECK_NOTE("%s, in round %lld of seed %llu", d->name, (long long)s->rounds, (unsigned long long)s->seed);
        s->rounds++;
    }
    return NULL;
}

static void quiet(mf_status status, const char *message, void *context) { (void)status, (void)message, (void)context; }

TEST(eight_threads)
{
    pthread_t threads[THREADS];
    stressed s[THREADS];
    double until = now() + setting("MF_STRESS_SECONDS", SECONDS), first = setting("MF_STRESS_SEED", 1);
    int64_t rounds = 0, errors = 0;
    (void)mf_set_num_cpu_devices(DEVICES);
    mf_set_error_hook(quiet, NULL);
    int64_t handles = mf_handle_live_count();
    for (int i = 0; i < SLOTS; i++) {
        MF_SCOPE;
        atomic_store(&slots[i], mf_keep(of(i)).handle);
    }
    for (int i = 0; i < THREADS; i++) {
        s[i] = (stressed){ .seed = (uint64_t)first + (uint64_t)i, .until = until };
        s[i].state = s[i].seed * 0x9e3779b97f4a7c15u;
        CHECK(pthread_create(&threads[i], NULL, work, &s[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        rounds += s[i].rounds;
        errors += s[i].errors;
    }
    for (int i = 0; i < SLOTS; i++)
        mf_release((mf_value){ atomic_load(&slots[i]) });
    printf("(seeds %d to %d: %lld rounds, %lld errors) ", (int)first, (int)first + THREADS - 1, (long long)rounds, (long long)errors);
    mf_clear_caches();
    CHECK(mf_handle_live_count() <= handles);
    CHECK(rounds > THREADS && errors > 0);
    mf_set_error_hook(NULL, NULL);
}
