/* The native compiler: the embedded CPU engine behind the interface of segment compilers. native.h lists its files.
 * Invariant: a kernel is immutable once it is compiled, except for its steps' tiers (llvm/tier_up.c); a run changes only its scratch,
 * its results and its stack. */
#include "backend/native/native.h"

#include "backend/native/fusion/loop_step.h"
#include "backend/native/kernels/kernels.h"
#include "backend/native/llvm/tier_up.h"
#include "passes/passes.h"
#include "runtime/compile/segment_compiler.h"

#include <string.h>

enum { FEW_VALUES = 32 };

bool mf_native_runs_here(void)
{
#if defined(__x86_64__)
    return strcmp(mf_kernels_isa(), "generic") != 0; /* the floor is AVX2 with FMA */
#else
    return true;
#endif
}

static void destroy_kernel(mf_native_kernel *k)
{
    for (mf_cleanup *h = k->cleanups; h; h = h->next)
        h->release(h->object);
    for (mf_native_kernel *inner = k->inner, *next; inner; inner = next) { /* a step's second tier reads inner kernels until it ends */
        next = inner->next;
        destroy_kernel(inner);
    }
    for (int i = 0; i < k->plan.literal_count; i++)
        mf_drop(k->plan.literals[i]);
    mf_drop(k->program);
    mf_arena_free(&k->arena);
    mf_free(k);
}

static void end_build(mf_build *b)
{
    for (int u = 0; u < b->unit_count; u++)
        if (b->units[u].group)
            mf_free(b->units[u].group->nodes);
    mf_free(b->units);
    mf_free(b->depends);
    mf_free(b->vars);
}

/* Whether operands and results all have the same number of elements: otherwise a slice of an operand would be followed by the part that
 * was not read, not by the next slice. */
static bool is_flat(const mf_program *p, const mf_native_plan *plan)
{
    for (int i = 0; i < p->in_count; i++)
        if (p->in[i]->type->size != p->out[0]->type->size)
            return false;
    for (int i = 0; i < plan->value_count; i++)
        if ((plan->values[i].place != MF_PLACE_INPUT && plan->values[i].place != MF_PLACE_OUTPUT) || plan->values[i].offset)
            return false;
    return plan->step_count == 1 && plan->steps[0]->flat;
}

static void add_work(mf_kernel_work *to, const mf_kernel_work *more)
{
    to->equations += more->equations;
    to->steps += more->steps;
    to->copies += more->copies;
    to->bytes += more->bytes;
}

static mf_error_object *compile_kernel(const mf_program *segment, const bool *donatable, int fixed, mf_native_kernel **kernel)
{
    mf_native_kernel *k = mf_calloc(1, sizeof *k);
    *kernel = NULL;
    if (!k)
        return mf_error_out_of_memory();
    mf_build b = { .arena = &k->arena, .fixed = fixed };
    b.program = k->program = mf_feed_loops(segment, &b.error);
    if (!b.error)
        mf_build_program(&b);
    if (!b.error && mf_dump_wants("fuse"))
        mf_native_dump(&b);
    if (!b.error)
        mf_native_place(&b, donatable, &k->plan);
    if (!b.error)
        k->flat = is_flat(k->program, &k->plan);
    end_build(&b);
    k->inner = b.inner;
    k->cleanups = b.cleanups;
    k->kernel = (mf_kernel){ &mf_segment_compiler_native, k->plan.scratch_bytes, k->plan.alias, k->plan.cost, k->plan.work };
    for (const mf_native_kernel *inner = k->inner; inner; inner = inner->next)
        add_work(&k->kernel.work, &inner->kernel.work);
    if (b.error)
        destroy_kernel(k);
    else
        *kernel = k;
    return b.error;
}

mf_native_kernel *mf_native_compile_inner(mf_build *b, const mf_program *p, int fixed)
{
    mf_native_kernel *k = NULL;
    b->error = compile_kernel(p, NULL, fixed, &k);
    if (k) {
        k->next = b->inner;
        b->inner = k;
    }
    return k;
}

void mf_native_drop_inner(mf_build *b)
{
    mf_native_kernel *k = b->inner;
    b->inner = k->next;
    destroy_kernel(k);
}

static mf_error_object *compile(const mf_segment_compiler *self, const mf_program *segment, const bool *donatable, mf_kernel **kernel)
{
    mf_native_kernel *k;
    mf_error_object *error = compile_kernel(segment, donatable, 0, &k);
    (void)self;
    *kernel = error ? NULL : &k->kernel;
    return error;
}

static void destroy(mf_kernel *kernel) { destroy_kernel((mf_native_kernel *)(void *)kernel); }

void mf_native_find_values(const mf_native_kernel *k, const void *const *in, void *const *out, char *scratch, void **values)
{
    for (int i = 0; i < k->plan.value_count; i++) {
        const mf_native_value *v = &k->plan.values[i];
        switch (v->place) {
        case MF_PLACE_INPUT: values[i] = (char *)(uintptr_t)in[v->index] + v->offset; break;
        case MF_PLACE_OUTPUT: values[i] = (char *)out[v->index] + v->offset; break;
        case MF_PLACE_SCRATCH: values[i] = scratch + v->offset; break;
        default: values[i] = (char *)(uintptr_t)v->data + v->offset; break;
        }
    }
}

static mf_error_object *run(mf_kernel *kernel, const void *const *in, void *const *out, void *scratch)
{
    const mf_native_kernel *k = (const mf_native_kernel *)(const void *)kernel;
    void *few[FEW_VALUES], **values = k->plan.value_count <= FEW_VALUES ? few : scratch; /* buffer_assignment.c leaves room for them */
    mf_native_find_values(k, in, out, scratch, values);
    return mf_native_run_steps(k, values, scratch);
}

static bool are_contiguous(const mf_native_kernel *k, const int64_t *in_steps, const int64_t *out_steps)
{
    for (int i = 0; i < k->program->in_count; i++)
        if (in_steps[i] != k->program->in[i]->type->bytes)
            return false;
    for (int o = 0; o < k->program->out_count; o++)
        if (out_steps[o] != k->program->out[o]->type->bytes)
            return false;
    return true;
}

static void next_values(const mf_native_kernel *k, const int64_t *in_steps, const int64_t *out_steps, void **values)
{
    for (int i = 0; i < k->plan.value_count; i++) {
        const mf_native_value *v = &k->plan.values[i];
        if (v->place == MF_PLACE_INPUT)
            values[i] = (char *)values[i] + in_steps[v->index];
        else if (v->place == MF_PLACE_OUTPUT)
            values[i] = (char *)values[i] + out_steps[v->index];
    }
}

static mf_error_object *run_stacked(mf_kernel *kernel, int64_t count, const void *const *in, const int64_t *in_steps, void *const *out,
                                    const int64_t *out_steps, void *scratch)
{
    const mf_native_kernel *k = (const mf_native_kernel *)(const void *)kernel;
    void *few[FEW_VALUES], **values = k->plan.value_count <= FEW_VALUES ? few : scratch;
    mf_error_object *error = NULL;
    mf_native_find_values(k, in, out, scratch, values);
    if (k->flat && are_contiguous(k, in_steps, out_steps)) {
        k->plan.steps[0]->parts->run(k->plan.steps[0], values, scratch, 1, 0, count);
        return NULL;
    }
    for (int64_t n = 0; n < count && !error; n++) {
        error = mf_native_run_steps(k, values, scratch);
        next_values(k, in_steps, out_steps, values);
    }
    return error;
}

const mf_segment_compiler mf_segment_compiler_native = {
    .name = "native",
    .available = mf_native_runs_here,
    .compile = compile,
    .run = run,
    .run_stacked = run_stacked,
    .destroy = destroy,
    .counters = mf_tier_up_counters,
    .takes_loop = mf_native_takes_loop,
    .feeds = mf_native_feeds,
    .reduce = mf_native_all_reduce,
};
