/* Maps that cannot be replicas where they stand: because their size does not divide the number of replicas that are there, or because they
 * name other devices than the program runs on. What such a map computes becomes the program of all of its rows, as vmap makes it, which every
 * replica around it runs.
 * Invariant: the program that comes out takes and gives what the one that went in does; a map that vmap does not take stays, and the module
 * is refused (hlo_axes.c). */
#include "ops/rows.h"
#include "passes/rewrite.h"
#include "stablehlo/hlo_module.h"
#include "transform/transform.h"

/* Where an equation stands. */
typedef struct standing {
    int64_t run; /* the replicas that are there, for maps to share among them */
    const mf_intlist *devices;
} standing;

static bool can_be_replicas(const standing *at, const mf_pmap_params *m)
{
    return at->run % m->axis_size == 0 && (!m->devices->count || m->devices == at->devices);
}

/* A loop in a branch or in another loop runs, in the program of all rows, for rows that are not there too, and might not end. */
bool mf_hlo_rows_end(const mf_program *p, bool inside)
{
    for (int i = 0; i < p->eqn_count; i++) {
        const mf_eqn *e = p->eqns[i];
        if (inside && e->op == &mf_op_while)
            return false;
        bool apart = inside || e->op == &mf_op_while || e->op == &mf_op_cond;
        for (int k = 0, n = mf_params_program_count(e->op, e->params); k < n; k++)
            if (!mf_hlo_rows_end(*mf_params_program_at(e->op, e->params, k), apart))
                return false;
    }
    return true;
}

mf_program *mf_hlo_over_rows(const mf_pmap_params *m, const mf_axis_env *env)
{
    const mf_program *p = m->program;
    mf_arena arena = { 0 };
    int *in = mf_arena_alloc(&arena, ((size_t)p->in_count + 1) * sizeof *in);
    int *out = mf_arena_alloc(&arena, ((size_t)p->out_count + 1) * sizeof *out);
    mf_error_object *error = NULL;
    for (int i = 0; in && i < p->in_count; i++)
        in[i] = m->in_axes->at[i] == MF_NONE ? -1 : (int)m->in_axes->at[i];
    for (int o = 0; out && o < p->out_count; o++)
        out[o] = m->out_axes->at[o] == MF_NONE ? -1 : (int)m->out_axes->at[o];
    mf_program *rows = in && out ? mf_batch_program(p, env, m->axis_name, m->axis_size, in, out, &error) : NULL;
    mf_error_ignore(error);
    mf_arena_free(&arena);
    return rows;
}

static mf_program *fit_program(const mf_program *p, const mf_axis_env *env, standing at, mf_error_object **error);

/* The equation with nested programs that fit where they stand. */
static void copy(mf_rewrite *r, const mf_eqn *e, mf_variable **in)
{
    standing at = *(const standing *)r->state;
    int count = mf_params_program_count(e->op, e->params);
    void *params = count ? mf_params_copy(&r->scratch, e->op, e->params) : NULL;
    if (!params) {
        if (count)
            mf_builder_fail(r->b, mf_error_out_of_memory());
        mf_rewrite_copy(r, e, in);
        return;
    }
    at.run /= e->op == &mf_op_pmap && can_be_replicas(&at, e->params) ? ((const mf_pmap_params *)e->params)->axis_size : 1;
    for (int k = 0; k < count && !r->b->error; k++) {
        mf_program **nested = mf_params_program_at(e->op, params, k);
        mf_error_object *error = NULL;
        mf_program *made = fit_program(*nested, mf_params_env(e->op, e->params, r->b->env), at, &error);
        if (made) {
            mf_drop(*nested);
            *nested = made;
        } else {
            mf_builder_fail(r->b, error);
        }
    }
    mf_rewrite_replace(r, e, params, in, e->in_count, NULL);
    mf_params_drop(e->op, params);
}

static void fit(mf_rewrite *r, const mf_eqn *e, mf_variable **in)
{
    const mf_pmap_params *m = e->op == &mf_op_pmap ? e->params : NULL;
    bool misfit = m && !can_be_replicas(r->state, m) && mf_hlo_rows_end(m->program, false);
    mf_program *rows = misfit ? mf_hlo_over_rows(m, r->b->env) : NULL;
    if (rows)
        mf_rewrite_body(r, rows, e, in);
    else
        copy(r, e, in);
    mf_drop(rows);
}

static mf_program *fit_program(const mf_program *p, const mf_axis_env *env, standing at, mf_error_object **error)
{
    return mf_rewrite_program(p, env, fit, NULL, &at, error);
}

static bool all_can(const mf_program *p, standing at)
{
    for (int i = 0; i < p->eqn_count; i++) {
        const mf_eqn *e = p->eqns[i];
        const mf_pmap_params *m = e->op == &mf_op_pmap ? e->params : NULL;
        if (m && !can_be_replicas(&at, m))
            return false;
        standing inside = { m ? at.run / m->axis_size : at.run, at.devices };
        for (int k = 0, n = mf_params_program_count(e->op, e->params); k < n; k++)
            if (!all_can(*mf_params_program_at(e->op, e->params, k), inside))
                return false;
    }
    return true;
}

/* The list that a map of p names, as long as there are replicas: the first such one. */
static const mf_intlist *named_devices(const mf_program *p, int64_t replicas)
{
    const mf_intlist *found = NULL;
    for (int i = 0; i < p->eqn_count && !found; i++) {
        const mf_eqn *e = p->eqns[i];
        const mf_intlist *list = e->op == &mf_op_pmap ? ((const mf_pmap_params *)e->params)->devices : NULL;
        found = list && list->count == replicas ? list : NULL;
        for (int k = 0, n = mf_params_program_count(e->op, e->params); k < n && !found; k++)
            found = named_devices(*mf_params_program_at(e->op, e->params, k), replicas);
    }
    return found;
}

bool mf_hlo_names_others(const mf_program *p, const mf_intlist *devices)
{
    for (int i = 0; i < p->eqn_count; i++) {
        const mf_eqn *e = p->eqns[i];
        const mf_intlist *list = e->op == &mf_op_pmap ? ((const mf_pmap_params *)e->params)->devices : NULL;
        if (list && list->count && list != devices)
            return true;
        for (int k = 0, n = mf_params_program_count(e->op, e->params); k < n; k++)
            if (mf_hlo_names_others(*mf_params_program_at(e->op, e->params, k), devices))
                return true;
    }
    return false;
}

mf_program *mf_hlo_fit_maps(const mf_program *p, int64_t replicas, const mf_intlist **devices, mf_error_object **error)
{
    *devices = named_devices(p, replicas);
    standing at = { replicas, *devices };
    return all_can(p, at) ? mf_retain(p) : fit_program(p, NULL, at, error);
}
