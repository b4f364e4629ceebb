/* Signals belong to the host: the library's threads block them, and a signal that arrives while a call waits, reads or writes a file has no
 * effect on the call. */
#include "check.h"

#include <manyfold.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>
#include <unistd.h>

static atomic_int caught, caught_elsewhere;
static pthread_t host;

static void catch (int number)
{
    (void)number;
    atomic_fetch_add(pthread_equal(pthread_self(), host) ? &caught : &caught_elsewhere, 1);
}

static void when(int number)
{
    struct sigaction how = { .sa_handler = catch }; /* no SA_RESTART: interrupted system calls fail with EINTR */
    sigemptyset(&how.sa_mask);
    sigaction(number, &how, NULL);
    host = pthread_self();
    caught = caught_elsewhere = 0;
}

static mf_value each(mf_value x) { return mf_psum(mf_sum(mf_matmul(x, x)), "i"); }
static mf_value waves(mf_value x) { return mf_add(mf_mul(mf_sin(x), mf_cos(x)), mf_tanh(mf_exp(x))); }

/* Uses the library such that it has started every kind of thread. */
static void work(void)
{
    MF_SCOPE;
    mf_value x = mf_ones(MF_SHAPE(2, 100, 100), MF_F32), y = mf_div(mf_arange(100000, MF_F32), 1e5);
    CHECK_NEAR(mf_item_f64(mf_get(mf_call(mf_pmap(each, .axis_name = "i"), x), 0)), 2e6, 0);
    for (int i = 0; i < 100; i++) {
        MF_SCOPE;
        CHECK_EQ_INT(mf_block_until_ready(mf_call(mf_jit(waves), y)), MF_OK);
    }
}

TEST(no_thread_of_the_library_takes_a_signal)
{
    static const int numbers[] = { SIGUSR1, SIGALRM, SIGCHLD, SIGTERM, SIGINT };
    sigset_t set, before;
    mf_set_num_cpu_devices(2);
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        when(numbers[i]);
        sigaddset(&set, numbers[i]);
    }
    work();
    pthread_sigmask(SIG_BLOCK, &set, &before);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        kill(getpid(), numbers[i]);
    work();
    CHECK_EQ_INT(caught, 0);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    CHECK_EQ_INT(caught, (int)(sizeof numbers / sizeof *numbers));
    CHECK_EQ_INT(caught_elsewhere, 0);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        signal(numbers[i], SIG_DFL);
}

static void use_files(mf_value x)
{
    MF_SCOPE;
    char npy[64], npz[64];
    snprintf(npy, sizeof npy, "/tmp/mf_signals_%d.npy", (int)getpid());
    snprintf(npz, sizeof npz, "/tmp/mf_signals_%d.npz", (int)getpid());
    CHECK_EQ_INT(mf_save_npy(npy, x), MF_OK);
    CHECK_NEAR(mf_item_f64(mf_sum(mf_load_npy(npy))), mf_item_f64(mf_sum(x)), 0);
    CHECK_EQ_INT(mf_save_npz(npz, mf_dict("a", x)), MF_OK);
    CHECK_NEAR(mf_item_f64(mf_sum(mf_get(mf_load_npz(npz), "a"))), mf_item_f64(mf_sum(x)), 0);
    unlink(npy);
    unlink(npz);
}

TEST(calls_that_are_interrupted_go_on)
{
    mf_value x = mf_ones(MF_SHAPE(300, 300), MF_F32), wrong = mf_add(x, mf_ones(MF_SHAPE(3), MF_F32));
    when(SIGALRM);
    setitimer(ITIMER_REAL, &(struct itimerval){ { 0, 300 }, { 0, 300 } }, NULL);
    for (int round = 0; round < 10 || caught < 50; round++) {
        work();
        use_files(x);
        mf_clear_caches();
    }
    const char *place = mf_error_place(wrong); /* from another program, through a pipe */
    setitimer(ITIMER_REAL, &(struct itimerval){ { 0, 0 }, { 0, 0 } }, NULL);
    signal(SIGALRM, SIG_DFL);
    CHECK(place && strlen(place) > 2);
    CHECK(strchr(place, ':') || strchr(place, '+')); /* a line, or a symbol and an offset: not a part of one */
    CHECK_EQ_INT(caught_elsewhere, 0);
}
