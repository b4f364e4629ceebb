/* Maps that cannot run as replicas where they are, because their size does not divide the number of replicas, or because they name other
 * devices than the program runs on. Such a map is replaced by a program that computes all of its rows, as made by vmap, and every enclosing
 * replica runs that program. Invariant: the values are the same. A map for which that would not hold is left unchanged, and no module is
 * made (hlo_axes.c). It would not hold for checks, since rows that have taken another branch or left a loop are computed all the same and
 * would fail them; nor for calls of the host, which all replicas would repeat. */
#include "ops/control/callback.h"
#include "ops/ops.h"
#include "passes/rewrite.h"
#include "stablehlo/hlo_module.h"
#include "transform/transform.h"

bool mf_hlo_are_replicas(const mf_pmap_params *m, mf_hlo_place at)
{
    return at.run % m->axis_size == 0 && (!m->devices->count || m->devices == at.devices);
}

mf_hlo_place mf_hlo_place_inside(const mf_eqn *e, mf_hlo_place at)
{
    const mf_pmap_params *m = e->op == &mf_op_pmap ? e->params : NULL;
    return m && mf_hlo_are_replicas(m, at) ? (mf_hlo_place){ at.run / m->axis_size, at.devices } : at;
}

/* inside: p is part of a branch or a loop. A loop there might not end for rows that did not take the branch or have left the loop. */
static bool rows_serve(const mf_program *p, bool inside)
{
    for (int i = 0; i < p->eqn_count; i++) {
        const mf_eqn *e = p->eqns[i];
        bool checks = e->op == &mf_op_check_nan || e->op == &mf_op_check_replicated;
        if (mf_is_host_call(e) || (inside && (e->op == &mf_op_while || checks)))
            return false;
        bool inside_region = inside || e->op == &mf_op_while || e->op == &mf_op_cond;
        for (int k = 0, n = mf_params_program_count(e->op, e->params); k < n; k++)
            if (!rows_serve(*mf_params_program_at(e->op, e->params, k), inside_region))
                return false;
    }
    return true;
}

bool mf_hlo_rows_serve(const mf_program *p) { return rows_serve(p, false); }

mf_program *mf_hlo_over_rows(const mf_pmap_params *m, const mf_axis_env *env, mf_error_object **error)
{
    const mf_program *p = m->program;
    mf_arena arena = { 0 };
    int *in = mf_arena_alloc(&arena, ((size_t)p->in_count + 1) * sizeof *in);
    int *out = mf_arena_alloc(&arena, ((size_t)p->out_count + 1) * sizeof *out);
    for (int i = 0; in && i < p->in_count; i++)
        in[i] = m->in_axes->at[i] == MF_NONE ? -1 : (int)m->in_axes->at[i];
    for (int o = 0; out && o < p->out_count; o++)
        out[o] = m->out_axes->at[o] == MF_NONE ? -1 : (int)m->out_axes->at[o];
    mf_program *rows = in && out ? mf_batch_program(p, env, m->axis_name, m->axis_size, in, out, error) : NULL;
    if (!in || !out)
        *error = mf_error_out_of_memory();
    mf_arena_free(&arena);
    return rows;
}

static mf_program *fit_program(const mf_program *p, const mf_axis_env *env, mf_hlo_place at, mf_error_object **error);

static mf_program *fit_inside(const mf_rewrite *r, const mf_eqn *e, const mf_program *p, const mf_axis_env *env, mf_error_object **error)
{
    return fit_program(p, env, mf_hlo_place_inside(e, *(const mf_hlo_place *)r->state), error);
}

static void fit(mf_rewrite *r, const mf_eqn *e, mf_variable **in)
{
    const mf_pmap_params *m = e->op == &mf_op_pmap ? e->params : NULL;
    bool misfit = m && !mf_hlo_are_replicas(m, *(const mf_hlo_place *)r->state) && mf_hlo_rows_serve(m->program);
    mf_error_object *error = NULL;
    mf_program *rows = misfit ? mf_hlo_over_rows(m, r->b->env, &error) : NULL;
    if (error)
        mf_builder_fail(r->b, error);
    else if (rows)
        mf_rewrite_body(r, rows, e, in);
    else
        mf_rewrite_copy(r, e, in);
    mf_drop(rows);
}

static void begin(mf_rewrite *r) { r->inside = fit_inside; }

static mf_program *fit_program(const mf_program *p, const mf_axis_env *env, mf_hlo_place at, mf_error_object **error)
{
    return mf_rewrite_program_from(p, env, begin, fit, NULL, &at, error);
}

static bool all_fit(const mf_program *p, mf_hlo_place at)
{
    for (int i = 0; i < p->eqn_count; i++) {
        const mf_eqn *e = p->eqns[i];
        if (e->op == &mf_op_pmap && !mf_hlo_are_replicas(e->params, at))
            return false;
        for (int k = 0, n = mf_params_program_count(e->op, e->params); k < n; k++)
            if (!all_fit(*mf_params_program_at(e->op, e->params, k), mf_hlo_place_inside(e, at)))
                return false;
    }
    return true;
}

/* The first list of devices, as many as there are replicas, that a map of p names. */
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

mf_hlo_place mf_hlo_place_of(const mf_program *p, int64_t replicas) { return (mf_hlo_place){ replicas, named_devices(p, replicas) }; }

mf_program *mf_hlo_fit_maps(const mf_program *p, mf_hlo_place at, mf_error_object **error)
{
    return all_fit(p, at) ? mf_retain(p) : fit_program(p, NULL, at, error);
}
