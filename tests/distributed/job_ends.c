/* Ways in which processes end or make the others wait; the argument selects one. test_ends.sh runs them and knows the expected results. */
#include "base/text/symbol.h"
#include "comm/mpi/mpi_library.h"
#include "runtime/comm.h"

#include <dlfcn.h>
#include <manyfold.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static mf_value sum(mf_value x) { return mf_psum(x, "i"); }
static mf_value maximum(mf_value x) { return mf_pmax(x, "i"); }

static mf_value map_of(mf_value (*f)(mf_value))
{
    mf_value r = mf_call(mf_pmap(f, "i"), mf_ones(MF_SHAPE(mf_local_device_count(), 3), MF_F32));
    mf_block_until_ready(r);
    return r;
}

/* Prints one line for each process. */
static void report(mf_value r)
{
    char line[2048];
    int n = snprintf(line, sizeof line, "process %d: %s\n", mf_process_index(), mf_is_error(r) ? mf_error(r) : mf_str(mf_get(r, 0)));
    if (write(1, line, (size_t)n) != n)
        abort();
}

static void rest(double seconds)
{
    nanosleep(&(struct timespec){ (time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9) }, NULL);
}

static mf_value exit_inside(mf_value x)
{
    static atomic_flag exiting = ATOMIC_FLAG_INIT;
    if (atomic_flag_test_and_set(&exiting)) /* in C only one thread may call exit */
        return x;
    exit(0);
}
static mf_value exits(mf_value x) { return mf_psum(mf_pure_callback(exit_inside, x, x), "i"); }

/* ---- the ways, one function each */

static void nothing_else(void) { report(map_of(sum)); }

static void early_return(void)
{
    mf_device_count();
    if (mf_process_index() != 1)
        report(map_of(sum));
}

static void exit_in_callback(void) { report(map_of(mf_process_index() == 1 ? exits : sum)); }

/* The other process continues for a while after this one has ended. */
static void late_work(void)
{
    report(map_of(sum));
    if (mf_process_index() == 1)
        rest(1.5);
}

static void fork_first(bool before)
{
    pid_t child = -1;
    int status = 0;
    if (!before)
        map_of(sum);
    if ((child = fork()) == 0)
        exit(!before && !mf_is_error(map_of(sum)));
    waitpid(child, &status, 0);
    report(map_of(sum));
    if (status)
        printf("the child ended with %d\n", status);
}
static void fork_before(void) { fork_first(true); }
static void fork_after(void) { fork_first(false); }

static void shutdown_first(void)
{
    map_of(sum);
    printf("%s\n", mf_distributed_shutdown() == MF_OK ? "left" : "not left");
    report(map_of(sum));
}

/* The other process ends without having used a device. */
/* Each process maps over its own device and the next one's, so none can begin. */
static void circle_of_parts(void)
{
    mf_distributed_initialize(.timeout = 1);
    int at = mf_process_index(), next = (at + 1) % mf_process_count();
    mf_device two[] = { mf_devices().at[at], mf_devices().at[next] };
    report(mf_call(mf_pmap(sum, "i", .devices = { 2, two }), mf_ones(MF_SHAPE(1, 3), MF_F32)));
}

static void never_joins(void)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK") ? getenv("OMPI_COMM_WORLD_RANK") : getenv("PMI_RANK");
    if (rank && !strcmp(rank, "1")) {
        rest(3);
        return;
    }
    mf_distributed_initialize(.initialization_timeout = 1);
    report(map_of(sum));
}

static void late(void)
{
    mf_distributed_initialize(.timeout = 1);
    map_of(sum);
    if (mf_process_index() == 1)
        rest(2.5);
    report(map_of(sum));
}

static mf_value rest_inside(mf_value x)
{
    if (mf_process_index() == 1)
        rest(2.5);
    return x;
}
static mf_value slow(mf_value x) { return mf_psum(mf_pure_callback(rest_inside, x, x), "i"); }

static void late_inside(void)
{
    mf_distributed_initialize(.timeout = 1);
    map_of(sum);
    report(map_of(slow));
}

static void late_but_in_time(void)
{
    mf_distributed_initialize(.timeout = 30);
    if (mf_process_index() == 1)
        rest(1.5);
    report(map_of(sum));
}

/* Whether the process is stopped (SIGSTOP) or gone. */
static bool has_stopped(int process)
{
    char name[64], state = 0;
    snprintf(name, sizeof name, "/proc/%d/stat", process);
    FILE *f = fopen(name, "r");
    bool read = f && fscanf(f, "%*d (%*[^)]) %c", &state) == 1;
    if (f)
        fclose(f);
    return !read || state == 'T';
}

static void stopped(void)
{
    mf_distributed_initialize(.timeout = 1);
    pid_t own = getpid();
    int of_other = (int)mf_item_i64(mf_get(mf_process_allgather(mf_scalar(own, MF_I32)), 1));
    map_of(sum);
    while (mf_process_index() == 0 && !has_stopped(of_other)) /* otherwise it would be asked before, and would answer */
        rest(0.01);
    if (mf_process_index() == 1) {
        if (fork() == 0) {
            rest(3);
            kill(own, SIGCONT);
            _exit(0);
        }
        kill(own, SIGSTOP);
    }
    report(map_of(sum));
}

static void quiet(mf_status status, const char *message, void *unused)
{
    (void)status;
    (void)message;
    (void)unused;
}

/* A process is killed between two calls. */
static void kill_self(int rank)
{
    map_of(sum);
    if (mf_process_index() == rank)
        kill(getpid(), SIGKILL);
    report(map_of(sum));
    report(map_of(maximum));
}
static void killed(void) { kill_self(1); }
static void first_killed(void) { kill_self(0); }

/* A process is killed while large payloads are transferred. */
static void *kill_soon(void *unused)
{
    rest(0.3);
    kill(getpid(), SIGKILL);
    return unused;
}

static void killed_moving(void)
{
    pthread_t killer;
    mf_value x = mf_ones(MF_SHAPE(mf_local_device_count(), 1 << 18), MF_F32);
    map_of(sum);
    if (mf_process_index() == 1)
        pthread_create(&killer, NULL, kill_soon, NULL);
    for (;;) {
        MF_SCOPE;
        mf_value r = mf_call(mf_pmap(sum, "i"), x);
        if (mf_block_until_ready(r) != MF_OK) {
            report(r);
            break;
        }
    }
    report(map_of(sum));
}

/* A process is killed while the others wait for the value of a key. */
static void killed_waiting(void)
{
    map_of(sum);
    if (mf_process_index() == 1)
        kill_soon(NULL);
    for (int i = 0; i < 2; i++) {
        char line[512];
        void *value;
        size_t count;
        mf_error_object *error = mf_comm_current()->get(mf_comm_current(), "key", 3, 60, &value, &count);
        int n = snprintf(line, sizeof line, "process %d: %s\n", mf_process_index(), error ? error->message : "good");
        mf_error_ignore(error);
        if (write(1, line, (size_t)n) != n)
            abort();
    }
}

static void *call_sum(void *unused)
{
    MF_SCOPE;
    for (int i = 0; i < 50; i++)
        map_of(sum);
    return unused;
}

static void *call_maximum(void *unused)
{
    MF_SCOPE;
    for (int i = 0; i < 50; i++)
        map_of(maximum);
    return unused;
}

static mf_value round_of(mf_value i, mf_value x)
{
    (void)i;
    return mf_tanh(mf_psum(x, "i"));
}
static mf_value rounds(mf_value x) { return mf_fori_loop(0, 2, round_of, x); }

static void *call_rounds(void *unused)
{
    MF_SCOPE;
    for (int i = 0; i < 10; i++)
        map_of(rounds);
    return unused;
}

/* Whatever the results of the calls are, all calls end, and the program too. */
static void threads_in_any_order(void)
{
    void *(*const calls[3])(void *) = { call_sum, call_maximum, call_rounds };
    pthread_t threads[3];
    mf_set_error_hook(quiet, NULL);
    map_of(sum);
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, calls[i], NULL);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    printf("ended\n");
}

static void twice(void)
{
    mf_status first = mf_distributed_initialize(), second = mf_distributed_initialize();
    printf("%d %d\n", first == MF_OK, second == MF_ERROR_ARGUMENT);
    report(map_of(sum));
}

/* A program that uses MPI itself. */
static mf_mpi mpi;

static void start_mpi(bool threads)
{
    int given;
    mf_error_object *e = mf_mpi_open(&mpi);
    if (e || mpi.MPI_Init_thread(NULL, NULL, threads ? mpi.multiple : 0, &given)) { /* 0: MPI_THREAD_SINGLE, in every ABI */
        printf("no MPI: %s\n", e ? e->message : "");
        exit(1);
    }
}

/* As MPI_Comm_c2f converts it: only Open MPI has other numbers than in C. */
static int in_fortran(uintptr_t handle, int of_open_mpi) { return strcmp(mpi.abi, "Open MPI") ? (int)handle : of_open_mpi; }

static void own_mpi(void)
{
    start_mpi(true);
    int world = in_fortran(mpi.world, 0);
    mf_distributed_initialize(.communicator = &world);
    report(map_of(sum));
    printf("finalised: %d\n", mpi.MPI_Finalize());
    report(map_of(sum));
}

static void own_mpi_null(void)
{
    start_mpi(true);
    int null = in_fortran(mpi.null, 2);
    mf_set_error_hook(quiet, NULL);
    printf("argument: %d\n", mf_distributed_initialize(.communicator = &null) == MF_ERROR_ARGUMENT);
    mpi.MPI_Finalize();
}

/* A communicator of some of MPI's processes, in another order: the last ones form a job; the first one runs alone. */
static void own_mpi_part(void)
{
    start_mpi(true);
    const void *inside;
    Dl_info library;
    memcpy(&inside, &mpi.MPI_Finalize, sizeof inside);
    void *handle = dladdr(inside, &library) ? dlopen(library.dli_fname, RTLD_NOW | RTLD_NOLOAD) : NULL;
    int (*split)(uintptr_t, int, int, uintptr_t *), (*to_int)(uintptr_t);
    uintptr_t part = 0;
    int rank = 0;
    mpi.MPI_Comm_rank(mpi.world, &rank);
    if (!mf_symbol_bind(handle, "MPI_Comm_split", &split) || split(mpi.world, rank > 0, -rank, &part) ||
        (mpi.from_int && !mf_symbol_bind(handle, "MPI_Comm_toint", &to_int) && !mf_symbol_bind(handle, "MPI_Comm_c2f", &to_int))) {
        printf("no communicator: %s\n", dlerror());
        exit(1);
    }
    int number = mpi.from_int ? to_int(part) : (int)part;
    mf_distributed_initialize(.communicator = &number);
    printf("rank %d is process %d of %d\n", rank, mf_process_index(), mf_process_count());
    report(map_of(sum));
    mpi.MPI_Finalize();
}

static void own_mpi_unsaid(void)
{
    int finalized = 0;
    start_mpi(true);
    report(map_of(sum));
    mf_distributed_shutdown();
    mpi.MPI_Finalized(&finalized);
    printf("finalised: %d\n", finalized);
    mpi.MPI_Finalize();
}

static void own_mpi_without_threads(void)
{
    start_mpi(false);
    report(map_of(sum));
    mpi.MPI_Finalize();
}

/* The program starts MPI itself after the library has used it; whatever MPI does then is up to MPI. */
static void own_mpi_after(void)
{
    report(map_of(sum));
    start_mpi(true);
    report(map_of(sum));
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } ways[] = { { "nothing_else", nothing_else },
                 { "early_return", early_return },
                 { "exit_in_callback", exit_in_callback },
                 { "late_work", late_work },
                 { "fork_before", fork_before },
                 { "fork_after", fork_after },
                 { "shutdown_first", shutdown_first },
                 { "circle_of_parts", circle_of_parts },
                 { "never_joins", never_joins },
                 { "late", late },
                 { "late_inside", late_inside },
                 { "late_but_in_time", late_but_in_time },
                 { "stopped", stopped },
                 { "killed", killed },
                 { "first_killed", first_killed },
                 { "killed_moving", killed_moving },
                 { "killed_waiting", killed_waiting },
                 { "threads_in_any_order", threads_in_any_order },
                 { "twice", twice },
                 { "own_mpi", own_mpi },
                 { "own_mpi_after", own_mpi_after },
                 { "own_mpi_null", own_mpi_null },
                 { "own_mpi_part", own_mpi_part },
                 { "own_mpi_unsaid", own_mpi_unsaid },
                 { "own_mpi_without_threads", own_mpi_without_threads } };
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (size_t i = 0; argc > 1 && i < sizeof ways / sizeof *ways; i++)
        if (!strcmp(argv[1], ways[i].name))
            ways[i].run();
    return 0;
}
