/* The owner of a plan's memory and kernels. */
#include "runtime/plan/plan.h"

mf_plan *mf_plan_new(const mf_segment_compiler *compiler, int in_count)
{
    mf_plan *plan = mf_calloc(1, sizeof *plan);
    if (!plan)
        return NULL;
    plan->compiler = compiler;
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
        plan->compiler->destroy(plan->kernels[i]);
    for (int i = 0; i < plan->literal_count; i++)
        mf_drop(plan->literals[i]);
    mf_free(plan->kernels);
    mf_free(plan->literals);
    mf_arena_free(&plan->arena);
    mf_free(plan);
}
