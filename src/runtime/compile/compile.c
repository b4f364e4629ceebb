/* The way from a traced program to one that runs, all its stages in order. */
#include "runtime/compile/compile.h"

#include "passes/passes.h"
#include "runtime/profile/profiler.h"
#include "trace/cache.h"

mf_executable *mf_compile_program(const mf_program *p, const bool *donated, mf_array *const *in, mf_error_object **error)
{
    if ((*error = mf_program_step(p, NULL, "trace")))
        return NULL;
    int64_t start = mf_profile_begin();
    mf_program *optimized = mf_optimize(p, NULL, error);
    if (start)
        mf_profile_words(start, MF_ROW_COMPILER, "optimize", NULL);
    if (!optimized)
        return NULL;
    start = mf_profile_begin();
    mf_executable *x = mf_executable_compile(optimized, NULL, donated, in, error);
    if (start)
        mf_profile_words(start, MF_ROW_COMPILER, "plan and compile", NULL);
    mf_drop(optimized);
    mf_cache_count_compilation();
    return x;
}
