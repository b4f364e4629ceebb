/* Manyfold's side of the benchmark: the workloads of peers/jax_bench.py under the same names, driven one repetition at a time over standard
 * input, with one JSON line per answer, so that a driver can alternate between the two programs.
 *
 *     workloads [--devices 8] --list | --small | [--repeat 7] --only NAME...
 *
 * --list prints the names, --small the names that the test suite runs; --only needs no driver. first_call_NAME requests the time of a
 * workload's first call. In a job, each process has --devices devices; process 0 reads, answers, and tells the others the number of
 * calls. */
#include "workloads/workload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int devices = 8;
mf_value held[8];

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* This process's peak memory; getrusage() would include the parent's before exec. */
static double rss_mib(void)
{
    char line[256];
    double kib = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, "VmHWM:", 6) == 0)
            kib = strtod(line + 6, NULL);
    if (f)
        fclose(f);
    return kib / 1024;
}

mf_value normal(uint64_t seed, mf_shape shape) { return mf_random_normal(mf_random_key(seed), shape, MF_F32); }

static const workload *find(const char *name)
{
    for (int l = 0; l < workload_list_count; l++)
        for (int i = 0; i < workload_lists[l]->count; i++)
            if (strcmp(workload_lists[l]->rows[i].name, name) == 0)
                return &workload_lists[l]->rows[i];
    return NULL;
}

static char failure[400];

/* Process 0's value. */
static double agree(double x) { return mf_process_count() > 1 ? mf_item_f64(mf_broadcast_one_to_all(mf_scalar(x, MF_F64))) : x; }

static bool agree_line(char *line, size_t size, bool there)
{
    double word[32] = { 0 };
    if (mf_process_count() < 2)
        return there;
    MF_SCOPE;
    memcpy(word, line, size < sizeof word ? size : sizeof word);
    if (!there)
        memset(word, 0, sizeof word);
    mf_value bytes = mf_broadcast_one_to_all(mf_from_host(MF_U8, MF_SHAPE(sizeof word), word));
    mf_to_host(bytes, MF_U8, word, sizeof word);
    memcpy(line, word, size < sizeof word ? size : sizeof word);
    return *line;
}

void finish(mf_value v)
{
    if (mf_block_until_ready(v) != MF_OK && !*failure)
        snprintf(failure, sizeof failure, "%s", mf_error(v));
}

static double timed(const workload *w, int calls)
{
    double start = now();
    for (int i = 0; i < calls; i++) {
        MF_SCOPE;
        w->call();
    }
    return (now() - start) / calls;
}

/* The mean over calls that last 20 ms together, as on the peer's side: other workloads have evicted the caches, and most of a round should
 * run warm. */
static double round_of(const workload *w, int *calls)
{
    const double least = 0.02;
    double seconds = agree(timed(w, *calls = w->calls));
    return *calls * seconds < least ? timed(w, *calls = (int)(least / seconds) + 1) : seconds;
}

/* Loops are compiled to machine code shortly after they have proved hot. Warm calls are those after that, as they are those after the
 * peer's compilation. */
static void warm_up(const workload *w)
{
    double start = now();
    do
        timed(w, 1);
    while (agree(now() - start < 0.15 || (mf_compiler_read().waiting && now() - start < 10)) != 0);
}

/* Prepares a workload and returns the seconds of its first call. Only one workload's state is alive at a time, so memory figures are its
 * own. */
static double make_ready(const workload *w)
{
    static const workload *current;
    static double first;
    if (current == w)
        return first;
    for (size_t i = 0; i < sizeof held / sizeof *held; i++)
        mf_clear(&held[i]);
    {
        MF_SCOPE;
        w->prepare(w);
        for (size_t i = 0; i < sizeof held / sizeof *held; i++)
            if (held[i].handle)
                finish(held[i]);
    }
    first = timed(w, 1);
    timed(w, 1);
    current = w;
    return first;
}

/* Answers one name; false after an error in a workload, whose state may then be invalid. */
static bool run(const char *name, double startup)
{
    bool first = strncmp(name, "first_call_", 11) == 0;
    double seconds = startup;
    int calls = 1;
    if (strcmp(name, "startup") != 0) {
        const workload *w = find(first ? name + 11 : name);
        if (!w) {
            printf("{\"name\": \"%s\", \"error\": \"unknown workload\"}\n", name);
            return true;
        }
        static const workload *warm;
        seconds = make_ready(w);
        if (!first && warm != w)
            warm_up(w);
        warm = first ? NULL : w;
        if (!first)
            seconds = round_of(w, &calls);
    }
    if (mf_process_index())
        return true;
    const char *message = failure;
    if (*failure || mf_first_error(&message) != MF_OK) {
        printf("{\"name\": \"%s\", \"error\": \"", name);
        for (; *message; message++)
            putchar(strchr("\"\\\n\r\t", *message) ? ' ' : *message);
        printf("\"}\n");
        return false;
    }
    printf("{\"peer\": \"manyfold\", \"devices\": %d, \"name\": \"%s\", \"seconds\": %.9g, \"calls\": %d, \"rss_mib\": %.1f}\n", devices,
           name, seconds, calls, rss_mib());
    return true;
}

static int list(bool small)
{
    for (int l = 0; l < workload_list_count; l++)
        for (int i = 0; i < workload_lists[l]->count; i++)
            if (!small || workload_lists[l]->rows[i].small)
                puts(workload_lists[l]->rows[i].name);
    return 0;
}

static int usage(void)
{
    fprintf(stderr, "usage: workloads [--devices N] --list | --small | [--repeat N] --only NAME...\n"
                    "       without --list, --small and --only: reads names from standard input\n");
    return 2;
}

static int serve(double startup)
{
    bool first = mf_process_index() == 0, fine = true;
    if (first)
        printf("{\"name\": \"ready\", \"peer\": \"manyfold\", \"seconds\": %.9g}\n", startup);
    fflush(stdout);
    char line[256] = "";
    while (fine && agree_line(line, sizeof line, first && fgets(line, sizeof line, stdin))) {
        line[strcspn(line, "\r\n")] = 0;
        if (*line)
            fine = run(line, startup);
        fflush(stdout);
    }
    return fine ? mf_exit_status() : 1;
}

int main(int argc, char **argv)
{
    double start = now();
    int repeat = 7, only = 0;
    for (int i = 1; i < argc && !only; i++) {
        if (strcmp(argv[i], "--list") == 0 || strcmp(argv[i], "--small") == 0)
            return list(argv[i][2] == 's');
        else if (strcmp(argv[i], "--devices") == 0 && i + 1 < argc)
            devices = atoi(argv[++i]);
        else if (strcmp(argv[i], "--repeat") == 0 && i + 1 < argc)
            repeat = atoi(argv[++i]);
        else if (strcmp(argv[i], "--only") == 0 && i + 1 < argc)
            only = i + 1;
        else
            return usage();
    }
    mf_set_num_cpu_devices(devices);
    mf_devices();
    double startup = now() - start;
    if (!only)
        return serve(startup);
    for (int i = 0; i < repeat; i++)
        for (int k = only; k < argc; k++)
            if (!run(argv[k], startup))
                return 1;
    return mf_exit_status();
}
