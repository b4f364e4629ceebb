/* Running joined steps: a task takes a range of rows. It either runs a block at a time through all parts, so that what they hand to each
 * other stays in the nearest cache, or all of its rows through the one loop that LLVM made of the parts.
 * Invariant: every row is computed as by the single parts, in the same order of operations. */
#include "backend/native/fusion/rows/rows_step.h"

typedef struct rows_task {
    const mf_rows_step *s;
    mf_loop_fn *loop; /* a compiled loop for all parts, over a range of rows; NULL: part by part */
    void *const *values;
    char *shared, *memories;
    _Atomic uint32_t taken; /* a bit for each task memory in use */
    _Atomic bool failed;
} rows_task;

/* Takes the lowest task memory that is free, so that a thread that runs several tasks stays in the same cache lines. */
static int take_memory(rows_task *t)
{
    uint32_t taken = atomic_load_explicit(&t->taken, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&t->taken, &taken, taken | (taken + 1), memory_order_acquire, memory_order_relaxed))
        ;
    return __builtin_ctz(~taken);
}

static void give_memory(rows_task *t, int at) { atomic_fetch_and_explicit(&t->taken, ~((uint32_t)1 << at), memory_order_release); }

static char *moved(char *p, int64_t bytes) { return (char *)((uintptr_t)p + (uintptr_t)bytes); }

/* A part that gathers runs when as many rows as its unit are there, or no more come. */
static bool run_part(const mf_rows_step *s, const mf_native_step *part, void **pointers, char *memory, int64_t from, int64_t to,
                     int64_t end)
{
    int64_t unit = mf_rows_unit(s, part);
    bool runs = to % unit == 0 || to == end;
    return !runs || part->parts->run(part, pointers, memory, s->rows, from / unit * unit, to);
}

/* end: the end of the task. */
static bool run_block(const mf_rows_step *s, void **pointers, char *memory, int64_t from, int64_t to, int64_t end)
{
    for (int v = 0; v < s->value_count; v++) {
        const mf_rows_value *x = &s->values[v];
        int64_t first = x->period > s->rows_a_block ? from / x->period * x->period : from;
        if (x->outside < 0 && x->same < 0 && !x->kept)
            pointers[v] = moved(memory, (int64_t)x->at - first * x->bytes);
    }
    for (int v = 0; v < s->value_count; v++)
        if (s->values[v].same >= 0)
            pointers[v] = pointers[s->values[v].same];
    bool ok = true;
    for (int i = 0; i < s->part_count; i++)
        ok = run_part(s, s->parts[i], pointers, memory, from, to, end) && ok;
    return ok;
}

/* Sets the pointers of values outside of the task's memory. */
static void **find_pointers(const rows_task *t, char *memory)
{
    const mf_rows_step *s = t->s;
    void **pointers = (void **)(void *)memory;
    for (int v = 0; v < s->value_count; v++) {
        int k = s->values[v].outside;
        if (k >= 0)
            pointers[v] = t->values[k < s->step.in_count ? s->step.in[k] : s->step.out[k - s->step.in_count]];
        else if (s->values[v].kept)
            pointers[v] = t->shared + s->values[v].at;
    }
    return pointers;
}

static void run_rows(rows_task *t, char *memory, int64_t from, int64_t to)
{
    const mf_rows_step *s = t->s;
    void **pointers = find_pointers(t, memory);
    if (t->loop) {
        t->loop(pointers, (void *const *)(void *)(memory + s->buffers_at), from, to);
        return;
    }
    for (; from < to; from += s->rows_a_block)
        if (!run_block(s, pointers, memory, from, to - from < s->rows_a_block ? to : from + s->rows_a_block, to))
            atomic_store(&t->failed, true);
}

static void run_task(void *context, int64_t index)
{
    rows_task *t = context;
    const mf_rows_step *s = t->s;
    int64_t from = index * s->rows_a_task, to = s->rows - from < s->rows_a_task ? s->rows : from + s->rows_a_task;
    int at = take_memory(t);
    run_rows(t, t->memories + (size_t)at * s->task_bytes, from, to);
    give_memory(t, at);
}

static bool prepare(const rows_task *t)
{
    void **pointers = find_pointers(t, t->memories);
    bool ok = true;
    for (int i = 0; i < t->s->part_count && ok; i++) {
        const mf_native_step *part = t->s->parts[i];
        if (part->parts->prepare)
            ok = part->parts->prepare(part, pointers, t->memories);
    }
    return ok;
}

static bool finish(const rows_task *t)
{
    void **pointers = find_pointers(t, t->memories);
    bool ok = true;
    for (int i = 0; i < t->s->part_count; i++)
        if (mf_step_gathers(t->s->parts[i]))
            ok = t->s->parts[i]->parts->finish(t->s->parts[i], pointers) && ok;
    return ok;
}

mf_error_object *mf_rows_step_run(const mf_native_step *step, void *const *values, char *scratch)
{
    const mf_rows_step *s = (const mf_rows_step *)(const void *)step;
    rows_task t = { .s = s, .values = values, .shared = scratch + step->scratch_offset };
    t.memories = t.shared + s->shared_bytes;
    if (s->shared_bytes && !prepare(&t))
        return mf_error_out_of_memory();
    if (step->up && !(t.loop = mf_tier_up_loop(step->up)))
        mf_tier_up_count(step->up, 1, 1);
    mf_parallel_for(s->tasks, run_task, &t);
    bool finished = !s->gathers || finish(&t);
    return finished && !atomic_load(&t.failed) ? NULL : mf_error_out_of_memory();
}
