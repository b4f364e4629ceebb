/* A process may exit at any time, by any thread and from anywhere, whatever is queued or running: it ends with its status, at once and
 * silently. The program runs itself with a kind of work and a way to exit as arguments. */
#define main check_main
#include "check.h"
#undef main

#include <manyfold.h>
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STATUS = 7 };
extern char **environ;

static const char *work, *way;
static atomic_int rounds;

static bool is(const char *given, const char *wanted) { return !strcmp(given, wanted); }

/* ---- the child */

static mf_value convolved(mf_value x) { return mf_conv_general_dilated(x, mf_ones(MF_SHAPE(3, 3, 8, 8), MF_F32)); }
static mf_value each(mf_value x) { return mf_psum(mf_sum(mf_matmul(x, x)), "i"); }

static mf_value ending(mf_value x)
{
    static atomic_flag ends = ATOMIC_FLAG_INIT; /* only one exit per process: a second one is undefined */
    if (is(way, "callback") && !atomic_flag_test_and_set(&ends))
        exit(STATUS);
    return x;
}

static mf_value calling(mf_value x) { return mf_psum(mf_pure_callback(ending, x, x), "i"); }

static void queue(mf_value large)
{
    MF_SCOPE;
    if (is(work, "matmul"))
        mf_matmul(large, large);
    else if (is(work, "convolution"))
        mf_call(mf_jit(convolved), mf_ones(MF_SHAPE(8, 64, 64, 8), MF_F32));
    else if (is(work, "elementwise"))
        mf_exp(mf_sin(mf_broadcast_to(large, MF_SHAPE(8, 400, 400))));
    else if (is(work, "pmap"))
        mf_call(mf_pmap(each, .axis_name = "i"), mf_ones(MF_SHAPE(2, 300, 300), MF_F32));
    else
        mf_call(mf_pmap(calling, .axis_name = "i"), mf_ones(MF_SHAPE(2, 300000), MF_F32));
    rounds++;
}

static void *end_soon(void *unused)
{
    MF_SCOPE;
    (void)mf_item_f64(mf_add(1, 2));
    while (rounds < 20)
        usleep(100);
    exit(STATUS);
    return unused;
}

static void *for_ever(void *unused)
{
    mf_value x = mf_ones(MF_SHAPE(300, 300), MF_F32);
    for (;; rounds++) {
        MF_SCOPE;
        mf_block_until_ready(mf_matmul(x, x));
    }
    return unused;
}

static void use_at_the_end(void)
{
    MF_SCOPE;
    if (mf_item_f64(mf_sum(mf_add(mf_arange(1000, MF_F32), 1))) != 500500)
        _exit(1);
}

static int end_in_work(void)
{
    pthread_t thread;
    mf_set_num_cpu_devices(2);
    mf_value large = mf_ones(MF_SHAPE(400, 400), MF_F32);
    if (is(way, "handler"))
        atexit(use_at_the_end);
    if (is(way, "thread"))
        pthread_create(&thread, NULL, end_soon, NULL);
    for (int i = 0; i < 2 && is(way, "while others work"); i++)
        pthread_create(&thread, NULL, for_ever, NULL);
    for (int i = 0; i < 30 || is(way, "thread"); i++)
        queue(large);
    if (is(way, "at once"))
        _exit(STATUS);
    if (is(way, "exit"))
        exit(STATUS);
    if (is(way, "last thread"))
        exit((pthread_create(&thread, NULL, end_soon, NULL), pthread_exit(NULL), 1));
    while (is(way, "callback") && is(work, "callback")) /* only one exit per process, as above */
        pause();
    return STATUS;
}

/* ---- the test */

static int run(const char *self, const char *kind, const char *end, char *said, size_t size)
{
    int out[2], status = -1;
    pid_t child;
    posix_spawn_file_actions_t actions;
    if (!CHECK(pipe(out) == 0))
        return -1;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDERR_FILENO);
    char *const arguments[] = { (char *)(uintptr_t)self, (char *)(uintptr_t)kind, (char *)(uintptr_t)end, NULL };
    int failed = posix_spawn(&child, self, &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(out[1]);
    ssize_t n = failed ? 0 : read(out[0], said, size - 1);
    said[n > 0 ? n : 0] = 0;
    close(out[0]);
    return failed || waitpid(child, &status, 0) != child ? -1 : WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static void end_in_all_ways(const char *kind)
{
    static const char *const ways[] = { "return", "exit", "thread", "while others work", "handler", "at once", "last thread", "callback" };
    char said[1024];
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        for (int round = 0; round < 3; round++)
            if (!CHECK_EQ_INT(run("/proc/self/exe", kind, ways[i], said, sizeof said), STATUS) || !CHECK_STR(said, ""))
                CHECK_NOTE("%s, %s", kind, ways[i]);
}

TEST(matmul) { end_in_all_ways("matmul"); }
TEST(convolution) { end_in_all_ways("convolution"); }
TEST(elementwise) { end_in_all_ways("elementwise"); }
TEST(pmap) { end_in_all_ways("pmap"); }
TEST(callback) { end_in_all_ways("callback"); }

/* Called by the leak checker, which reports the C library's memory for a main thread that has ended: pthread_exit does not run its list of
 * destructors, and the thread's memory is no longer searched. */
__attribute__((visibility("default"))) int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void) { return way && is(way, "last thread"); }

int main(int argc, char **argv)
{
    if (argc != 3)
        return check_main(argc, argv);
    work = argv[1];
    way = argv[2];
    alarm(100);
    return end_in_work();
}
