/* Small maps as one program. On a CPU a map's replicas are threads that wait for one another, which takes longer than small ones compute;
 * so such a map becomes the program over all its rows, as vmap makes it, which one device runs.
 * Invariant: it gives what the replicas give, except for the order in which floats are summed; a map that vmap rejects, or whose results
 * vmap might change, stays one of replicas. */
#include "backend/pjrt/pjrt.h"

#include "ops/ops.h"

/* Operations plus bytes of all devices; above this, the threads of several devices pay off. */
static const double most_work = 4e6;

/* Whether the program over all rows gives the same: inner maps have devices of their own; and max and min of floats are exact between
 * replicas only, where they are computed on integers. */
static bool serves(const mf_program *p)
{
    for (int i = 0; i < p->eqn_count; i++) {
        const mf_eqn *e = p->eqns[i];
        bool extremum = e->op->collective && (e->op->reducer == MF_REDUCE_MAX || e->op->reducer == MF_REDUCE_MIN);
        if (e->op == &mf_op_pmap || (extremum && mf_dtype_is_float(e->in[0]->type->dtype)))
            return false;
        for (int k = 0, n = mf_params_program_count(e->op, e->params); k < n; k++)
            if (!serves(*mf_params_program_at(e->op, e->params, k)))
                return false;
    }
    return true;
}

static bool same_types(const mf_program *p, const mf_program *rows)
{
    bool same = rows && rows->out_count == p->out_count;
    for (int o = 0; same && o < p->out_count; o++)
        same = rows->out[o]->type->dtype == p->out[o]->type->dtype && mf_type_same_shape(rows->out[o]->type, p->out[o]->type);
    return same;
}

/* The program's input, or one of its constants. */
static mf_variable *operand_of(mf_builder *b, const mf_program *p, mf_variable *const *given, const mf_variable *v)
{
    for (int i = 0; i < p->in_count; i++)
        if (p->in[i] == v)
            return given[i];
    return mf_builder_constant(b, v->constant);
}

/* XLA turns division by a broadcast number into multiplication by its reciprocal, which rounds twice; a replica, with a scalar of its
 * own, divides. */
static bool is_shared_denominator(const mf_eqn *e)
{
    const mf_eqn *producer = e->op == &mf_op_div ? e->in[1]->producer : NULL;
    return producer && producer->op == &mf_op_broadcast_in_dim && !producer->in[0]->constant;
}

/* Emits the equations of rows; values: by variable, those of its inputs are set. */
static void put_equations(mf_builder *b, const mf_program *rows, mf_variable **values)
{
    for (int k = 0; k < rows->eqn_count && !b->error; k++) {
        const mf_eqn *e = rows->eqns[k];
        mf_variable **in = mf_arena_alloc(&b->program->arena, ((size_t)e->in_count + 1) * sizeof *in);
        mf_variable **out = mf_arena_alloc(&b->program->arena, ((size_t)e->out_count + 1) * sizeof *out);
        if (!in || !out) {
            mf_builder_fail(b, mf_error_out_of_memory());
            return;
        }
        for (int i = 0; i < e->in_count; i++)
            in[i] = e->in[i]->constant ? mf_builder_constant(b, e->in[i]->constant) : values[e->in[i]->id];
        b->address = e->address;
        if (is_shared_denominator(e))
            in[1] = mf_emit(b, &mf_op_optimization_barrier, NULL, 1, in[1]);
        mf_copy_eqn(b, e, in, out);
        for (int o = 0; o < e->out_count; o++)
            values[e->out[o]->id] = out[o];
    }
}

static mf_program *with_inputs_of(mf_builder *b, const mf_program *p, const mf_eqn *map, const mf_program *rows)
{
    mf_variable **given = mf_arena_alloc(&b->program->arena, ((size_t)p->in_count + 1) * sizeof *given);
    mf_variable **values = mf_arena_alloc(&b->program->arena, ((size_t)rows->var_count + 1) * sizeof *values);
    mf_variable **out = mf_arena_alloc(&b->program->arena, ((size_t)map->out_count + 1) * sizeof *out);
    mf_error_object *error = given && values && out ? NULL : mf_error_out_of_memory();
    if (error)
        mf_builder_fail(b, error);
    for (int i = 0; i < p->in_count && !b->error; i++)
        given[i] = mf_builder_input(b, p->in[i]->type);
    for (int i = 0; i < map->in_count && !b->error; i++)
        values[rows->in[i]->id] = operand_of(b, p, given, map->in[i]);
    if (!b->error)
        put_equations(b, rows, values);
    for (int o = 0; o < map->out_count && !b->error; o++)
        out[o] = rows->out[o]->constant ? mf_builder_constant(b, rows->out[o]->constant) : values[rows->out[o]->id];
    mf_program *made = mf_builder_finish(b, out, b->error ? 0 : map->out_count, &error);
    mf_error_ignore(error);
    return made;
}

mf_program *pjrt_stack(const mf_program *p, const mf_eqn *map)
{
    const mf_pmap_params *m = map->params;
    mf_cost work = map->op->cost(map);
    mf_builder b;
    if (!(work.flops + work.bytes < most_work) || !serves(m->program) || !mf_hlo_rows_serve(m->program))
        return NULL;
    mf_builder_init(&b, NULL);
    mf_error_object *error = NULL;
    mf_program *rows = b.error ? NULL : mf_hlo_over_rows(m, NULL, &error), *made = NULL;
    mf_error_ignore(error);
    if (same_types(p, rows))
        made = with_inputs_of(&b, p, map, rows);
    else
        mf_builder_abandon(&b);
    mf_drop(rows);
    return made;
}
