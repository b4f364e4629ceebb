/* Processes, simulated as threads, that communicate by the library's own messages: correct programs succeed, even if some processes compute
 * or pause meanwhile; and of processes that wait for each other forever, each gets an error. */
#include "check.h"
#include "queue_link.h"

#include "runtime/collectives/collectives.h"
#include "runtime/collectives/schedule/relay_schedule.h"

#include <manyfold.h>
#include <time.h>

__attribute__((constructor)) static void devices(void)
{
    setenv("MF_NUM_CPU_DEVICES", "8", 1);
    setenv("MF_NUM_THREADS", "4", 1);
}

enum { DEVICES = 2 };

static mf_value sum(mf_value x) { return mf_psum(x, "i"); }
static mf_value maximum(mf_value x) { return mf_pmax(x, "i"); }
static mf_value round_of(mf_value i, mf_value c)
{
    (void)i;
    return mf_mul(mf_psum(c, "i"), 0.125f);
}
static mf_value rounds(mf_value x) { return mf_fori_loop(0, 3, round_of, x); }
static mf_value rounds_first(mf_value x) { return mf_psum(rounds(x), "i"); }
static mf_value rounds_last(mf_value x) { return rounds(mf_psum(x, "i")); }
static mf_value several(mf_value x)
{
    mf_value a = mf_psum(mf_sin(x), "i"), b = mf_pmax(mf_mul(x, 2), "i"), c = mf_all_gather(x, 0, "i");
    return mf_add(mf_add(a, b), mf_add(mf_sum(c), mf_psum(mf_mul(a, b), "i")));
}
static void sleep_for(double seconds) { nanosleep(&(struct timespec){ 0, (long)(seconds * 1e9) }, NULL); }
static mf_value sleep_inside(mf_value x, mf_value seconds)
{
    sleep_for(mf_item_f64(seconds));
    return x;
}
static mf_value sleeps_first(mf_value x, mf_value seconds) { return mf_psum(mf_pure_callback(sleep_inside, x, x, seconds), "i"); }

static mf_value map_of(mf_value (*f)(mf_value), int64_t width)
{
    mf_value r = mf_call(mf_pmap(f, "i"), mf_ones(MF_SHAPE(DEVICES, width), MF_F32));
    mf_block_until_ready(r);
    return r;
}

static void check_good(mf_value r, int size, const char *name)
{
    if (!CHECK(!mf_is_error(r)) || !CHECK_EQ_INT(mf_item_i64(mf_get(r, 0, 0)), DEVICES * size))
        CHECK_NOTE("after %s: %s", name, mf_is_error(r) ? mf_error(r) : mf_str(r));
}

/* ------------------------------------------------------------------ what goes well */

static const int64_t widths[] = { 1, 300, 9000, 40000 }; /* inline with the header, offered, in pieces */

static void go_on(void *size, int rank)
{
    for (int i = 0; i < 12; i++) {
        MF_SCOPE;
        int64_t width = widths[i % 4];
        if (i % 5 == rank)
            sleep_for(0.12);
        mf_value x = mf_ones(MF_SHAPE(DEVICES, width), MF_F32);
        mf_value r = mf_call(mf_pmap(sleeps_first, "i", .in_axes = mf_axes(0, MF_NONE)), x, i % 3 == rank ? 0.15 : 0.0);
        check_good(r, *(int *)size, "a rest");
        r = map_of(i % 2 ? several : rounds_first, width);
        if (!CHECK(!mf_is_error(r)))
            CHECK_NOTE("%s", mf_error(r));
    }
}

TEST(who_computes_or_rests_keeps_nobody_from_waiting)
{
    for (int size = 2; size <= 4; size++) {
        mf_clear_caches();
        atomic_store(&mf_algorithm_forced, size == 4 ? MF_ALGORITHM_DOUBLING : -1);
        CHECK(queue_job_run(size, DEVICES, (uint64_t)size, 100, go_on, &size));
    }
}

/* ------------------------------------------------------------------ what does not */

static const struct {
    const char *name;
    mf_value (*odd)(mf_value), (*even)(mf_value);
} crosses[] = {
    { "a loop and none", rounds, sum },
    { "a loop and another op", maximum, rounds },
    { "a loop before and after", rounds_first, rounds_last },
};

typedef struct crossing {
    int index, size;
    int64_t width;
    int named; /* the processes that got the error */
} crossing;

static void cross(void *context, int rank)
{
    crossing *c = context;
    MF_SCOPE;
    check_good(map_of(sum, c->width), c->size, "a beginning");
    mf_value r = map_of(rank == 1 ? crosses[c->index].odd : crosses[c->index].even, c->width);
    if (!CHECK_EQ_INT(mf_error_status(r), MF_ERROR_PEER) || !CHECK_CONTAINS(mf_error(r), " wait for each other: "))
        CHECK_NOTE("%s, process %d of %d", crosses[c->index].name, rank, c->size);
    if (mf_is_error(r) && !strncmp(mf_error(r), "processes ", 10))
        __atomic_fetch_add(&c->named, 1, __ATOMIC_SEQ_CST);
    check_good(map_of(sum, c->width), c->size, crosses[c->index].name);
}

TEST(deadlocks)
{
    for (int index = 0; index < (int)(sizeof crosses / sizeof *crosses); index++)
        for (int size = 2; size <= 4; size++)
            for (int w = 0; w < 4; w++) {
                crossing c = { index, size, widths[w], 0 };
                atomic_store(&mf_algorithm_forced, w == 1 ? MF_ALGORITHM_DOUBLING : w == 2 ? MF_ALGORITHM_HALVING : -1);
                mf_clear_caches();
                CHECK(queue_job_run(size, DEVICES, (uint64_t)(index * 100 + size * 10 + w), 100, cross, &c));
                CHECK(c.named > 0);
            }
}

/* Three processes; the second one pauses before it joins one of the two collectives in which the others wait. */
static void come_late(void *context, int rank)
{
    int size = *(int *)context;
    MF_SCOPE;
    if (rank == 1)
        sleep_for(0.3);
    mf_value r = map_of(rank == 2 ? rounds : sum, 5);
    CHECK_CONTAINS(mf_error(r), " wait for each other: ");
    check_good(map_of(sum, 5), size, "one that is late");
}

TEST(one_comes_late_to_it)
{
    int size = 3;
    mf_clear_caches();
    CHECK(queue_job_run(size, DEVICES, 5, 100, come_late, &size));
}
