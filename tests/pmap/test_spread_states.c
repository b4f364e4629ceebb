/* Random states and states of modules under maps that span processes: a process's devices draw and hold what the same devices of one
 * process do. */
#include "check.h"
#include "spread.h"

__attribute__((constructor)) static void devices(void) { setenv("MF_NUM_CPU_DEVICES", "8", 1); }

#define PMAP2(f, ...) mf_pmap2(f, "i", .devices = h->devices, __VA_ARGS__)

/* ------------------------------------------------------------------ random states */

static mf_state random_of(const spread_here *h)
{
    (void)h;
    return mf_random_state(7);
}

static mf_value draw(void *random, mf_value scale)
{
    mf_state r = *(mf_state *)random;
    mf_value first = mf_random_normal(mf_random_next(r), MF_SHAPE(3), MF_F32);
    return mf_tuple(mf_mul(first, scale), mf_random_uniform(mf_random_next(r), MF_SHAPE0, MF_F32));
}

/* Twice, so that what the state holds in between counts. */
static mf_value two_draws(const spread_here *h)
{
    mf_state r = random_of(h);
    mf_function f = PMAP2(mf_closure(draw, &r), .in_axes = 0);
    mf_value scale = spread_rows(h, mf_linspace(1.0, 2.0, 8));
    mf_value first = mf_call(f, scale), second = mf_call(f, scale);
    return mf_dict("rows", mf_tuple(first, second), "same", mf_state_value(r));
}

static const struct {
    const char *name;
    spread_program run;
} cases[] = {
    { "two draws", two_draws },
};

TEST(states_over_processes)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        spread_check(cases[i].name, cases[i].run, NULL, 8, spread_of_eight);
}
