/* The cost of a call of each workload of the benchmark, in counts that do not depend on the machine. counts.<backend>.txt has a line for
 * each workload; a count that changes fails the test, so that a lost fusion or alias, or an additional copy, is noticed although the
 * results are right. To update the files after an intended change: MF_GOLDEN_WRITE=1 build/tests/bench/test_counts, and again with
 * MF_BACKEND=reference; then review the difference.
 *     equations    of all programs that the first call loads, after the passes; the bodies of maps, branches and loops count once
 *     steps        that compute them: kernels, and what moves elements
 *     copies       steps that only move elements
 *     bytes        that steps read and write
 *     collectives  rendezvous
 *     others       instructions between segments: control flow, maps, views, waiting
 * and of a small one, where neither threads nor oneDNN have a say:
 *     arrays       blocks of array memory that a warm call asks for
 *     blocks       of other memory that the library asks the system for in a warm call
 * Invariant: a line is the same for every instruction set and number of workers; variants of this test run it so. */
#include "../bench/workloads/workload.h"
#include "check.h"
#include "failing_malloc.h"

#include "array/array.h"
#include "runtime/executable.h"
#include "runtime/plan/plan.h"

int devices = 4;
mf_value held[8];

void finish(mf_value v) { CHECK(mf_block_until_ready(v) == MF_OK || CHECK_NOTE("%s", mf_error(v))); }
mf_value normal(uint64_t seed, mf_shape shape) { return mf_random_normal(mf_random_key(seed), shape, MF_F32); }

/* One worker, and oneDNN without bf16 instructions: on machines that have them, images are processed in fours and steps are fused
 * differently. */
__attribute__((constructor)) static void as_everywhere(void)
{
    setenv("MF_NUM_THREADS", "1", 1);
    setenv("DNNL_MAX_CPU_ISA", "AVX2", 1);
}

enum { CALLS = 12 };

/* ---- counting */

enum { EQUATIONS, STEPS, COPIES, BYTES, COLLECTIVES, OTHERS, ARRAYS, BLOCKS, COUNTS };
static const char *const words[COUNTS] = { "equations", "steps", "copies", "bytes", "collectives", "others", "arrays", "blocks" };
static int64_t found[COUNTS];

static void count_block(const mf_block *b)
{
    for (int i = 0; i < b->instr_count; i++) {
        const mf_instr *in = b->instrs[i];
        found[COLLECTIVES] += in->kind == MF_DO_COLLECTIVE;
        found[OTHERS] += in->kind != MF_DO_COLLECTIVE && in->kind != MF_DO_SEGMENT;
        if (in->kernel) {
            found[EQUATIONS] += in->kernel->work.equations;
            found[STEPS] += in->kernel->work.steps;
            found[COPIES] += in->kernel->work.copies;
            found[BYTES] += in->kernel->work.bytes;
        }
        for (int k = 0; k < in->block_count; k++)
            count_block(in->blocks[k]);
    }
}

static void count_plan(const mf_plan *plan)
{
    count_block(plan->top);
    for (const mf_map_plan *m = plan->maps; m; m = m->next) {
        count_block(m->device);
        count_block(m->uniform);
    }
}

static void call(const workload *w)
{
    MF_SCOPE;
    w->call();
}

/* The minimum over some calls: the first calls allocate what later runs reuse, and the thread that compiles loops allocates, too. */
static void count_warm_calls(const workload *w)
{
    found[ARRAYS] = found[BLOCKS] = INT64_MAX;
    for (int i = 0; i < CALLS; i++) {
        int64_t before = mf_memory_read().requests;
        failing_start(INT32_MAX, false);
        call(w);
        int64_t blocks = atomic_load(&failing.at) + INT32_MAX - 1, arrays = mf_memory_read().requests - before;
        failing_stop();
        found[BLOCKS] = blocks < found[BLOCKS] ? blocks : found[BLOCKS];
        found[ARRAYS] = arrays < found[ARRAYS] ? arrays : found[ARRAYS];
    }
}

static void count(const workload *w)
{
    MF_SCOPE;
    memset(found, 0, sizeof found);
    for (size_t i = 0; i < sizeof held / sizeof *held; i++)
        mf_clear(&held[i]);
    w->prepare(w);
    mf_plan_watch = count_plan;
    call(w);
    mf_plan_watch = NULL;
    if (w->small)
        count_warm_calls(w);
}

/* ---- comparing */

static void write_line(FILE *f, const workload *w)
{
    fprintf(f, "%-28s", w->name);
    for (int c = 0; c < (w->small ? COUNTS : ARRAYS); c++)
        fprintf(f, " %s %lld", words[c], (long long)found[c]);
    fprintf(f, "\n");
}

static bool find_line(FILE *f, const char *name, char *line, int size)
{
    size_t n = strlen(name);
    rewind(f);
    while (fgets(line, size, f))
        if (!strncmp(line, name, n) && line[n] == ' ')
            return true;
    return false;
}

static bool counts_here(const workload *w, int which)
{
    if (!w->small && which >= ARRAYS)
        return false;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return which < ARRAYS; /* memory caches are off, and runs take other paths */
#else
    return which >= 0;
#endif
}

static void compare(FILE *f, const workload *w)
{
    const char *name = w->name;
    char line[512];
    if (!CHECK(find_line(f, name, line, sizeof line))) {
        CHECK_NOTE("there is no line for %s: write the file anew, see the head of this test", name);
        return;
    }
    for (int c = 0; c < COUNTS; c++) {
        const char *at = strstr(line + strlen(name), words[c]);
        long long expected = at ? strtoll(at + strlen(words[c]), NULL, 10) : -1;
        if (counts_here(w, c) && !CHECK(found[c] == expected))
            CHECK_NOTE("%s: %s %s from %lld to %lld%s", name, words[c], found[c] > expected ? "grew" : "shrank", expected,
                       (long long)found[c],
                       found[c] > expected ? "" : ": if that is meant, write the file anew, see the head of this test");
    }
}

/* Large workloads are counted only if a round has several calls: the others are the same with larger arrays. For the reference backend,
 * which executes a step for each equation, the small ones suffice. */
static bool is_counted(const workload *w)
{
    return !w->threads && (w->small || (w->calls >= 3 && !strcmp(mf_default_backend(), "native")));
}

TEST(what_a_call_costs)
{
    SKIP_UNLESS_GCC();
    char path[512];
    bool renew = getenv("MF_GOLDEN_WRITE");
    mf_set_num_cpu_devices(devices);
    mf_executable_inline_below(1e18); /* every run stays on this thread, so that what it caches is this thread's */
    snprintf(path, sizeof path, "%s/bench/counts.%s.txt", MF_TESTS_DIR, mf_default_backend());
    FILE *f = fopen(path, renew ? "w" : "r");
    REQUIRE(CHECK(f));
    for (int l = 0; l < workload_list_count; l++)
        for (int i = 0; i < workload_lists[l]->count; i++) {
            const workload *w = &workload_lists[l]->rows[i];
            if (!is_counted(w))
                continue;
            count(w);
            (renew ? write_line : compare)(f, w);
        }
    fclose(f);
    for (size_t i = 0; i < sizeof held / sizeof *held; i++)
        mf_clear(&held[i]);
}
