/* What a plan's memory and kernels hang on; and memory for what is under construction. The first error sticks: what follows does nothing, so
 * the stages need no checks of their own. */
#include "runtime/compile/planner.h"

void *mf_planner_get(mf_planner *m, size_t count, size_t size)
{
    void *p = m->error ? NULL : mf_arena_alloc(&m->plan->arena, (count + 1) * size);
    if (!p && !m->error)
        m->error = mf_error_out_of_memory();
    return p;
}

int *mf_planner_minus_ones(mf_planner *m, int count)
{
    int *at = mf_planner_get(m, (size_t)count, sizeof *at);
    for (int i = 0; at && i < count; i++)
        at[i] = -1;
    return at;
}

mf_plan *mf_plan_new(const mf_backend *backend, int in_count)
{
    mf_plan *plan = mf_calloc(1, sizeof *plan);
    if (!plan)
        return NULL;
    plan->backend = backend;
    plan->asked = mf_arena_alloc(&plan->arena, ((size_t)in_count + 1) * sizeof *plan->asked);
    if (plan->asked)
        return plan;
    mf_plan_free(plan);
    return NULL;
}

void mf_plan_free(mf_plan *plan)
{
    if (!plan)
        return;
    for (int i = 0; i < plan->kernel_count; i++)
        plan->backend->destroy(plan->kernels[i]);
    for (int i = 0; i < plan->array_count; i++)
        mf_drop(plan->arrays[i]);
    mf_free(plan->kernels);
    mf_free(plan->arrays);
    mf_arena_free(&plan->arena);
    mf_free(plan);
}
