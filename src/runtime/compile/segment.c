/* Segments: the equations of one item become a program of their own for the segment compiler. Invariant: a segment's program has no
 * collectives or calls, and no control flow except for loops that the compiler takes; its inputs and outputs are distinct variables. */
#include "base/memory/vector.h"
#include "passes/passes.h"
#include "runtime/compile/planner.h"
#include "trace/cache.h"

/* The segment's variable for v; NULL: it has none. */
static mf_variable *find(mf_builder *b, mf_variable *const *map, mf_variable *v)
{
    mf_variable *origin = mf_origin(v);
    if (origin->constant)
        return mf_builder_constant(b, origin->constant);
    return map[v->id] ? map[v->id] : map[origin->id];
}

/* Copies a barrier, for those of its operands that the segment has; the others were computed before the segment began. */
static void copy_barrier(mf_builder *b, const mf_eqn *e, mf_variable **map, mf_variable **operands)
{
    int n = 0;
    for (int i = 0; i < e->in_count; i++) {
        mf_variable *v = find(b, map, e->in[i]);
        if (v && !v->constant)
            operands[n++] = v;
    }
    mf_eqn *made = n ? mf_emit_eqn(b, e->op, NULL, operands, n) : NULL;
    for (int i = 0, next = 0; i < e->in_count && made && !b->error; i++) {
        mf_variable *v = find(b, map, e->in[i]);
        if (v && !v->constant)
            map[e->out[i]->id] = made->out[next++];
    }
}

static mf_variable **copy_equations(mf_builder *b, const mf_item *item, mf_variable **map)
{
    mf_variable **operands = NULL;
    int capacity = 0;
    for (int k = 0; k < item->count && !b->error; k++) {
        const mf_eqn *e = item->eqns[k];
        int most = e->in_count > e->out_count ? e->in_count : e->out_count;
        if (!mf_grow(&operands, &capacity, most + 1, sizeof *operands)) {
            mf_builder_fail(b, mf_error_out_of_memory());
            break;
        }
        for (int i = 0; i < e->in_count; i++)
            operands[i] = find(b, map, e->in[i]);
        b->address = e->address;
        if (e->op->flags & MF_OP_BARRIER) {
            copy_barrier(b, e, map, operands);
            continue;
        }
        MF_SMALL_ARRAY(mf_variable *, results, 16, e->out_count);
        if (!results) {
            mf_builder_fail(b, mf_error_out_of_memory());
            break;
        }
        mf_copy_eqn(b, e, operands, results);
        for (int o = 0; o < e->out_count && !b->error; o++)
            map[e->out[o]->id] = results[o];
    }
    return operands;
}

static mf_program *segment_program(const mf_item *item, mf_variable *const *in, int in_count, mf_variable *const *out, int out_count,
                                   int var_count, mf_error_object **error)
{
    mf_builder b;
    mf_builder_init(&b, NULL);
    mf_variable **map = mf_calloc((size_t)var_count + (size_t)out_count + 1, sizeof *map), **results = map ? map + var_count : NULL;
    if (!map)
        mf_builder_fail(&b, mf_error_out_of_memory());
    for (int i = 0; i < in_count && !b.error; i++)
        map[in[i]->id] = mf_builder_input(&b, in[i]->type);
    mf_variable **operands = b.error ? NULL : copy_equations(&b, item, map);
    for (int o = 0; o < out_count && !b.error; o++)
        results[o] = map[out[o]->id];
    mf_program *p = mf_builder_finish(&b, results, b.error ? 0 : out_count, error);
    mf_free(operands);
    mf_free(map);
    if (p && (*error = mf_program_step(p, NULL, "split"))) {
        mf_drop(p);
        p = NULL;
    }
    return p;
}

static mf_kernel *compile_segment(mf_plan *plan, const mf_item *item, mf_variable *const *in, int in_count, const bool *donatable,
                                  mf_variable *const *out, int out_count, int var_count, mf_error_object **error)
{
    mf_kernel *kernel = NULL;
    mf_program *p = segment_program(item, in, in_count, out, out_count, var_count, error);
    if (!p)
        return NULL;
    mf_cache_count_segment();
    *error = plan->compiler->compile(plan->compiler, p, donatable, &kernel);
    mf_drop(p);
    if (*error)
        return NULL;
    if (!mf_grow(&plan->kernels, &plan->kernel_capacity, plan->kernel_count + 1, sizeof *plan->kernels)) {
        plan->compiler->destroy(kernel);
        *error = mf_error_out_of_memory();
        return NULL;
    }
    plan->kernels[plan->kernel_count++] = kernel;
    plan->segment_count++;
    if (kernel->scratch_bytes > plan->scratch_bytes)
        plan->scratch_bytes = kernel->scratch_bytes;
    return kernel;
}

void mf_compile_segments(mf_planner *m)
{
    for (int w = 0; w < 2; w++)
        for (int t = 0; t < m->sides[w].instr_count && !m->error; t++) {
            mf_instr *in = m->sides[w].instrs[t];
            int index = in->position;
            if (in->kind == MF_DO_SEGMENT)
                in->kernel = compile_segment(m->plan, m->item_of[w][t], m->seg_in[index], in->in_count, in->moves, m->seg_out[index],
                                             in->out_count, m->schedule.program->var_count, &m->error);
        }
}
