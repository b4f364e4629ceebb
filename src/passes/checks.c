/* Opt-in checks. With "nan" every equation that computes inexact numbers is followed by one that looks for a NaN that its operands do not
 * have. Invariant: values stay what they are; a program that was compiled without a check does not have it, so changing the checks clears
 * the caches. The pass stands behind the removal of dead code, which nobody asked about, and before all that rewrites. */
#include "passes/checks.h"

#include "ops/params.h"
#include "ops/rows.h"
#include "passes/rewrite.h"

#include <manyfold/function.h>
#include <manyfold/host.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static _Atomic bool nan_on;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static mf_error_object *set_checks(const char *list)
{
    bool nan = false;
    for (const char *s = list ? list : ""; *s; s += *s == ',') {
        size_t n = strcspn(s, ",");
        if (n && (n != 3 || strncmp(s, "nan", 3) != 0))
            return mf_error_new(MF_ERROR_ARGUMENT, "there is no check '%.*s': the checks are 'nan'", (int)(n < 100 ? n : 100), s);
        nan |= n > 0;
        s += n;
    }
    atomic_store(&nan_on, nan);
    return NULL;
}

static void read_environment(void)
{
    mf_error_object *error = set_checks(getenv("MF_CHECK"));
    if (!error)
        return;
    mf_warn("MF_CHECK: %s", mf_error_text(error));
    mf_error_ignore(error);
}

bool mf_checks_nan(void)
{
    pthread_once(&once, read_environment);
    return atomic_load_explicit(&nan_on, memory_order_relaxed);
}

mf_status mf_set_checks(const char *list)
{
    MF_ENTER(MF_FORK_STATUS);
    pthread_once(&once, read_environment);
    mf_error_object *error = set_checks(list);
    if (!error)
        mf_clear_caches();
    return mf_error_remember(error);
}

/* ---- the pass */

static bool computes(const mf_eqn *e)
{
    if ((e->op->flags & (MF_OP_COLLECTIVE | MF_OP_CONTROL | MF_OP_EFFECT)) || mf_params_program_count(e->op, e->params))
        return false; /* what is inside is looked at by itself; a collective's NaN may be another device's */
    for (int i = 0; i < e->out_count; i++)
        if (mf_dtype_is_inexact(e->out[i]->type->dtype))
            return true;
    return false;
}

static void check_equation(mf_rewrite *r, const mf_eqn *e, mf_variable **in)
{
    int count = 0, results = 0;
    mf_variable **looked_at = mf_rewrite_room(r, e->in_count + e->out_count, sizeof(mf_variable *));
    mf_rewrite_copy(r, e, in);
    if (r->b->error || !looked_at || !computes(e))
        return;
    for (int i = 0; i < e->out_count; i++)
        if (mf_dtype_is_inexact(e->out[i]->type->dtype))
            looked_at[count++] = r->map[e->out[i]->id];
    results = count;
    for (int i = 0; i < e->in_count; i++)
        if (mf_dtype_is_inexact(in[i]->type->dtype))
            looked_at[count++] = in[i];
    mf_emit_eqn(r->b, &mf_op_check_nan, &(mf_check_nan_params){ mf_intern(e->op->name), results }, looked_at, count);
}

mf_program *mf_pass_check(const mf_program *p, const mf_axis_env *env, mf_error_object **error)
{
    return mf_checks_nan() ? mf_rewrite_program(p, env, check_equation, mf_pass_check, NULL, error) : mf_retain((mf_program *)(uintptr_t)p);
}
