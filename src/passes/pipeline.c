/* The passes in order, and the step that dumps and verifies after each. Invariant: every pass returns a program that verifies; a debug
 * build checks that. A new pass gets a file of its own and a line here. */
#include "passes/passes.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    mf_pass_fn run;
} passes[] = {
    { "inline", mf_pass_inline_calls },
    { "dce", mf_pass_dce },
    { "check", mf_pass_check },
    { "fold", mf_pass_fold },
    { "simplify", mf_pass_simplify },
    { "cse", mf_pass_cse },
    { "products", mf_pass_loop_products },
    { "dce", mf_pass_dce }, /* removes what the rewrites left unused */
    { "release", mf_pass_release },
};

static bool list_has(const char *list, const char *step)
{
    size_t length = strlen(step);
    for (const char *s = list; *s; s += *s == ',') {
        size_t n = strcspn(s, ",");
        if ((n == length && strncmp(s, step, n) == 0) || (n == 3 && strncmp(s, "all", 3) == 0))
            return true;
        s += n;
    }
    return false;
}

static void dump(const mf_program *p, const char *step)
{
    mf_text t = { 0 };
    mf_text_add(&t, "-- %s\n", step);
    mf_program_print(&t, p);
    if (!t.failed)
        fputs(t.at, stderr);
    mf_text_free(&t);
}

bool mf_dump_wants(const char *step)
{
    const char *list = getenv("MF_DUMP");
    return list && list_has(list, step);
}

mf_error_object *mf_program_step(const mf_program *p, const mf_axis_env *env, const char *step)
{
    if (mf_dump_wants(step))
        dump(p, step);
#ifndef NDEBUG
    mf_error_object *error = mf_program_verify(p, env);
    return error ? mf_error_wrap(error, "after %s", step) : NULL;
#else
    (void)env;
    return NULL;
#endif
}

static mf_program *run_pass(mf_program *p, int index, const mf_axis_env *env, mf_error_object **error)
{
    mf_program *made = passes[index].run(p, env, error);
    mf_drop(p);
    mf_error_object *invalid = made ? mf_program_step(made, env, passes[index].name) : NULL;
    if (!invalid)
        return made;
    mf_drop(made);
    *error = invalid;
    return NULL;
}

static const int pass_count = (int)(sizeof passes / sizeof passes[0]);

unsigned mf_pass_mask(const char *name)
{
    unsigned mask = 0;
    for (int i = 0; i < pass_count; i++)
        if (passes[i].run != mf_pass_inline_calls && passes[i].run != mf_pass_release && passes[i].run != mf_pass_check &&
            strcmp(passes[i].name, name) == 0)
            mask |= 1u << i;
    return mask;
}

mf_program *mf_optimize_without(const mf_program *p, const mf_axis_env *env, unsigned skipped, mf_error_object **error)
{
    mf_program *at = mf_retain(p);
    for (int i = 0; at && i < pass_count; i++)
        if (!(skipped >> i & 1))
            at = run_pass(at, i, env, error);
    return at;
}

mf_program *mf_optimize(const mf_program *p, const mf_axis_env *env, mf_error_object **error)
{
    return mf_optimize_without(p, env, 0, error);
}
