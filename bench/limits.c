/* What the machine itself can do, for bench/ to measure the workloads against: fused multiply-adds out of registers, and plain copies.
 * Driven like the workloads, one JSON line an answer; a figure is a rate, over all threads:
 *
 *     fma_f32_THREADS, fma_bf16_THREADS    floating-point operations a second (two for a multiply-add)
 *     copy_BYTES_THREADS                   bytes a second, read and written, of memcpy out of BYTES into BYTES
 *
 * bf16 without an instruction for it is f32. Memory is touched before, and asks for huge pages. */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { MOST_THREADS = 256, LINE = 64 };
static const double wanted_seconds = 0.02; /* of a figure */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- multiply-adds: enough independent chains to cover the latency */

static volatile float sink;

#if defined __x86_64__
#include <immintrin.h>

#define CHAINS(step)      step(0) step(1) step(2) step(3) step(4) step(5) step(6) step(7) step(8) step(9) step(10) step(11)
#define OPERATIONS(lanes) (12.0 * 2 * (lanes))

__attribute__((target("avx512f"))) static double fma_avx512(int64_t times)
{
    __m512 a[12], x = _mm512_set1_ps(0.5f), y = _mm512_set1_ps(1);
    for (int i = 0; i < 12; i++)
        a[i] = _mm512_set1_ps((float)i);
    for (int64_t n = 0; n < times; n++) {
#define STEP(i) a[i] = _mm512_fmadd_ps(a[i], x, y);
        CHAINS(STEP)
#undef STEP
    }
    for (int i = 1; i < 12; i++)
        a[0] = _mm512_add_ps(a[0], a[i]);
    sink = _mm512_reduce_add_ps(a[0]);
    return OPERATIONS(16);
}

__attribute__((target("avx2,fma"))) static double fma_avx2(int64_t times)
{
    __m256 a[12], x = _mm256_set1_ps(0.5f), y = _mm256_set1_ps(1);
    for (int i = 0; i < 12; i++)
        a[i] = _mm256_set1_ps((float)i);
    for (int64_t n = 0; n < times; n++) {
#define STEP(i) a[i] = _mm256_fmadd_ps(a[i], x, y);
        CHAINS(STEP)
#undef STEP
    }
    for (int i = 1; i < 12; i++)
        a[0] = _mm256_add_ps(a[0], a[i]);
    sink = _mm256_cvtss_f32(a[0]);
    return OPERATIONS(8);
}

__attribute__((target("avx512bf16,avx512f"))) static double dot_bf16(int64_t times)
{
    __m512 a[12], one = _mm512_set1_ps(1);
    __m512bh x = _mm512_cvtne2ps_pbh(one, one);
    for (int i = 0; i < 12; i++)
        a[i] = _mm512_set1_ps((float)i);
    for (int64_t n = 0; n < times; n++) {
#define STEP(i) a[i] = _mm512_dpbf16_ps(a[i], x, x);
        CHAINS(STEP)
#undef STEP
    }
    for (int i = 1; i < 12; i++)
        a[0] = _mm512_add_ps(a[0], a[i]);
    sink = _mm512_reduce_add_ps(a[0]);
    return OPERATIONS(32);
}

static double multiply_add(int64_t times, bool bf16)
{
    if (bf16 && __builtin_cpu_supports("avx512bf16"))
        return dot_bf16(times);
    return __builtin_cpu_supports("avx512f") ? fma_avx512(times) : fma_avx2(times);
}
#elif defined __aarch64__
#include <arm_neon.h>

static double multiply_add(int64_t times, bool bf16)
{
    (void)bf16;
    float32x4_t a[16], x = vdupq_n_f32(0.5f), y = vdupq_n_f32(1);
    for (int i = 0; i < 16; i++)
        a[i] = vdupq_n_f32((float)i);
    for (int64_t n = 0; n < times; n++)
        for (int i = 0; i < 16; i++)
            a[i] = vfmaq_f32(y, a[i], x);
    for (int i = 1; i < 16; i++)
        a[0] = vaddq_f32(a[0], a[i]);
    sink = vaddvq_f32(a[0]);
    return 16.0 * 2 * 4;
}
#else
#error "No multiply-add kernel for this processor yet"
#endif

/* ---- threads: all start together, each repeats its own part, and the slowest ends the figure */

typedef struct task {
    pthread_barrier_t *start;
    int kind; /* 0: f32, 1: bf16, 2: copy */
    int64_t times;
    char *from, *to;
    size_t bytes;
    double operations; /* of one time */
} task;

static void work(task *t)
{
    if (t->kind < 2) {
        t->operations = multiply_add(t->times, t->kind == 1);
        return;
    }
    for (int64_t n = 0; n < t->times; n++) {
        memcpy(t->to, t->from, t->bytes);
        __asm__ volatile("" : : "r"(t->to), "r"(t->from) : "memory");
    }
    t->operations = 2 * (double)t->bytes;
}

static void *thread(void *argument)
{
    task *t = argument;
    pthread_barrier_wait(t->start);
    work(t);
    return NULL;
}

/* Seconds of `times` turns of all tasks, side by side. */
static double together(task *tasks, int threads, int64_t times)
{
    pthread_t others[MOST_THREADS];
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, (unsigned)threads);
    for (int i = 0; i < threads; i++) {
        tasks[i].times = times;
        tasks[i].start = &start;
        if (i && pthread_create(&others[i], NULL, thread, &tasks[i]) != 0)
            abort();
    }
    pthread_barrier_wait(&start);
    double began = now();
    work(&tasks[0]);
    for (int i = 1; i < threads; i++)
        pthread_join(others[i], NULL);
    double seconds = now() - began;
    pthread_barrier_destroy(&start);
    for (int i = 0; i < threads; i++)
        tasks[i].start = NULL;
    return seconds;
}

static double rate(task *tasks, int threads)
{
    int64_t times = 1;
    double seconds = together(tasks, threads, times);
    while (seconds < wanted_seconds / 4) { /* the last one before is a warm-up too */
        times *= 2;
        seconds = together(tasks, threads, times);
    }
    times = (int64_t)((double)times * wanted_seconds / seconds) + 1;
    seconds = together(tasks, threads, times);
    double operations = 0;
    for (int i = 0; i < threads; i++)
        operations += tasks[i].operations;
    return operations * (double)times / seconds;
}

static char *memory(size_t bytes)
{
    char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    madvise(p, bytes, MADV_HUGEPAGE);
    memset(p, 1, bytes);
    return p;
}

/* ---- the driver's protocol */

static bool answer(const char *name)
{
    task tasks[MOST_THREADS] = { { 0 } };
    int threads = 0;
    long long bytes = 0;
    char *from = NULL, *to = NULL;
    int kind = 0;
    if (sscanf(name, "fma_f32_%d", &threads) != 1) {
        kind = 1;
        if (sscanf(name, "fma_bf16_%d", &threads) != 1) {
            kind = 2;
            if (sscanf(name, "copy_%lld_%d", &bytes, &threads) != 2 || bytes < LINE)
                return false;
        }
    }
    if (threads < 1 || threads > MOST_THREADS)
        return false;
    if (kind == 2 && (!(from = memory((size_t)bytes)) || !(to = memory((size_t)bytes))))
        return false;
    size_t share = (size_t)bytes / (size_t)threads / LINE * LINE;
    for (int i = 0; i < threads; i++)
        tasks[i] = (task){ .kind = kind,
                           .from = from ? from + (size_t)i * share : NULL,
                           .to = to ? to + (size_t)i * share : NULL,
                           .bytes = i + 1 < threads ? share : (size_t)bytes - (size_t)i * share };
    printf("{\"name\": \"%s\", \"rate\": %.6g}\n", name, rate(tasks, threads));
    if (from)
        munmap(from, (size_t)bytes);
    if (to)
        munmap(to, (size_t)bytes);
    return true;
}

int main(int argc, char **argv)
{
    char line[256];
    for (int i = 1; i < argc; i++)
        if (!answer(argv[i])) {
            fprintf(stderr, "usage: limits [fma_f32_THREADS | fma_bf16_THREADS | copy_BYTES_THREADS]...\n");
            return 2;
        }
    if (argc > 1)
        return 0;
    printf("{\"name\": \"ready\"}\n");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\r\n")] = 0;
        if (*line && !answer(line))
            printf("{\"name\": \"%s\", \"error\": \"unknown limit\"}\n", line);
        fflush(stdout);
    }
    return 0;
}
