/* The machine's limits, with which bench/ compares the workloads: the rates of multiply-adds on registers and of memcpy.
 * Driven like the workloads, with one JSON line per answer; a figure is the rate of all threads together:
 *
 *     fma_f32_THREADS, fma_bf16_THREADS    floating-point operations per second (two for a multiply-add)
 *     copy_BYTES_THREADS                   bytes per second, read and written, of memcpy from BYTES to BYTES
 *
 * bf16 uses the fastest instructions that the machine has, which may be f32's. Memory is touched before the measurement, and requests huge
 * pages. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { MOST_THREADS = 256, LINE = 64 };
static const double wanted_seconds = 0.02; /* the duration of a measurement */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- multiply-adds: enough independent chains to cover the latency */

typedef double multiply_add(int64_t times); /* returns the number of operations in one iteration */
enum { MOST_WAYS = 3 };

static volatile float sink;

#if defined __x86_64__
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

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

/* Whether the processor has AMX and the kernel permits this process to use it. */
static bool may_use_amx(void)
{
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18, AMX_BF16 = 1 << 22 };
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && d & AMX_BF16 && syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
}

/* Four accumulator tiles and two tiles of each operand: 16 by 16 by 32 per instruction. */
__attribute__((target("amx-tile,amx-bf16"))) static double tiles_bf16(int64_t times)
{
    struct {
        uint8_t palette, first, unused[14];
        uint16_t bytes[16]; /* of a row */
        uint8_t rows[16];
    } shape = { .palette = 1 };
    for (int i = 0; i < 8; i++) {
        shape.bytes[i] = 64;
        shape.rows[i] = 16;
    }
    __asm__ volatile("" : : "r"(&shape) : "memory"); /* some compilers assume that the next line reads only eight bytes */
    _tile_loadconfig(&shape);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_zero(4);
    _tile_zero(5);
    _tile_zero(6);
    _tile_zero(7);
    for (int64_t n = 0; n < times; n++) {
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_release();
    return 4.0 * 2 * 16 * 16 * 32;
}

static int find_ways(bool bf16, multiply_add **ways)
{
    int count = 0;
    ways[count++] = __builtin_cpu_supports("avx512f") ? fma_avx512 : fma_avx2;
    if (bf16 && __builtin_cpu_supports("avx512bf16"))
        ways[count++] = dot_bf16;
    if (bf16 && may_use_amx())
        ways[count++] = tiles_bf16;
    return count;
}
#elif defined __aarch64__
#include <arm_neon.h>

static double fma_neon(int64_t times)
{
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

static int find_ways(bool bf16, multiply_add **ways)
{
    (void)bf16;
    ways[0] = fma_neon;
    return 1;
}
#else
#error "No multiply-add kernel for this processor yet"
#endif

/* ---- threads: all start together and repeat their own part; the slowest one determines the time */

typedef struct task {
    pthread_barrier_t *start;
    multiply_add *way; /* NULL: copy */
    int64_t times;
    char *from, *to;
    size_t bytes;
    double operations; /* of one iteration */
} task;

static void work(task *t)
{
    if (t->way) {
        t->operations = t->way(t->times);
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

/* The seconds that `times` iterations of all tasks take in parallel. */
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
    while (seconds < wanted_seconds / 4) { /* the last round is also the warm-up */
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

/* The rates; 0 if out of memory. */

static double multiply_add_rate(bool bf16, int threads)
{
    multiply_add *ways[MOST_WAYS];
    double best = 0;
    for (int i = find_ways(bf16, ways) - 1; i >= 0; i--) {
        task tasks[MOST_THREADS] = { { 0 } };
        for (int t = 0; t < threads; t++)
            tasks[t].way = ways[i];
        double one = rate(tasks, threads);
        best = one > best ? one : best;
    }
    return best;
}

static double copy_rate(size_t bytes, int threads)
{
    task tasks[MOST_THREADS] = { { 0 } };
    size_t share = bytes / (size_t)threads / LINE * LINE;
    char *from = memory(bytes), *to = memory(bytes);
    for (int i = 0; from && to && i < threads; i++) {
        size_t at = (size_t)i * share;
        tasks[i] = (task){ .from = from + at, .to = to + at, .bytes = i + 1 < threads ? share : bytes - at };
    }
    double found = from && to ? rate(tasks, threads) : 0;
    if (from)
        munmap(from, bytes);
    if (to)
        munmap(to, bytes);
    return found;
}

static bool answer(const char *name)
{
    int threads = 0;
    long long bytes = 0;
    bool f32 = sscanf(name, "fma_f32_%d", &threads) == 1, bf16 = !f32 && sscanf(name, "fma_bf16_%d", &threads) == 1;
    bool copy = !f32 && !bf16 && sscanf(name, "copy_%lld_%d", &bytes, &threads) == 2 && bytes >= LINE;
    if (!(f32 || bf16 || copy) || threads < 1 || threads > MOST_THREADS)
        return false;
    double found = copy ? copy_rate((size_t)bytes, threads) : multiply_add_rate(bf16, threads);
    if (found > 0)
        printf("{\"name\": \"%s\", \"rate\": %.6g}\n", name, found);
    return found > 0;
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
