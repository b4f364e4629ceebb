/* Compilation of a traced program. All stages are called here in order: those of a whole program in mf_compile_program; those common to
 * a program, the programs nested in it, and the body of a map in mf_compile_blocks. Nothing is compiled at run time. */
#include "runtime/compile/compile.h"

#include "base/thread/cancel.h"
#include "passes/passes.h"
#include "runtime/comm.h"
#include "runtime/compile/planner.h"
#include "runtime/profile/profiler.h"
#include "trace/cache.h"

static void make_tables(mf_planner *m)
{
    size_t vars = (size_t)m->schedule.program->var_count, items = (size_t)m->schedule.item_count;
    m->reg = mf_planner_minus_ones(m, m->schedule.program->var_count);
    m->crosses = mf_planner_alloc(m, vars, sizeof *m->crosses);
    m->computed_in = mf_planner_alloc(m, vars, sizeof *m->computed_in);
    m->read_by_device = mf_planner_alloc(m, vars, sizeof *m->read_by_device);
    m->seg_in = mf_planner_alloc(m, items, sizeof *m->seg_in);
    m->seg_out = mf_planner_alloc(m, items, sizeof *m->seg_out);
    for (int w = 0; w < 2; w++) {
        m->sides[w].constant_of = mf_planner_minus_ones(m, m->schedule.program->var_count);
        m->sides[w].known = mf_planner_alloc(m, vars, sizeof(bool));
    }
}

static void free_tables(mf_planner *m)
{
    mf_schedule_free(&m->schedule);
    for (int w = 0; w < 2; w++) {
        mf_free(m->sides[w].types);
        mf_free(m->sides[w].instrs);
        mf_free(m->item_of[w]);
    }
}

/* Bytes of reductions that form one exchange. To begin an exchange early costs one more segment, whose values go through memory; where
 * processes share memory, that pays only for larger exchanges. */
static int64_t bucket_of(const mf_plan *plan)
{
    const mf_comm *c = plan->spread ? mf_comm_current() : NULL;
    return !plan->spread ? 0 : c && c->together ? (int64_t)1 << 20 : (int64_t)64 << 10;
}

mf_blocks mf_compile_blocks(mf_planner *m, const mf_program *p, const mf_axis_env *env, const bool *uniform)
{
    mf_blocks made = { NULL, NULL };
    m->mapped = uniform;
    m->error = m->error ? m->error
                        : mf_schedule_make(&m->schedule, m->plan->compiler, &m->plan->arena, p, env, uniform, bucket_of(m->plan));
    if (!m->error && !mf_schedule_partition(&m->schedule, &m->plan->arena))
        m->error = mf_error_out_of_memory();
    if (!m->error) {
        make_tables(m);
        mf_find_crossings(m);
        mf_reference_inputs(m);
        mf_make_instructions(m); /* also the blocks of nested programs */
        int *out = mf_output_references(m);
        mf_find_last_uses(m, out);
        mf_compile_segments(m);
        mf_make_blocks(m, out, &made);
    }
    free_tables(m);
    return made;
}

mf_block *mf_plan_program(mf_plan *plan, const mf_program *p, const mf_axis_env *env, const mf_value_layout *in, mf_error_object **error)
{
    mf_planner m = { .plan = plan };
    m.layouts = in ? mf_planner_alloc(&m, (size_t)p->var_count, sizeof *m.layouts) : NULL;
    for (int i = 0; m.layouts && i < p->in_count; i++)
        m.layouts[p->in[i]->id] = in[i];
    mf_blocks made = mf_compile_blocks(&m, p, env, NULL);
    *error = m.error;
    return made.device;
}

mf_executable *mf_compile_program(const mf_load_request *load, mf_error_object **error)
{
    MF_UNCANCELLED;
    if ((*error = mf_program_step(load->program, NULL, "trace")))
        return NULL;
    int64_t start = mf_profile_begin();
    mf_program *optimized = mf_optimize(load->program, NULL, error);
    if (start)
        mf_profile_words(start, MF_TRACK_COMPILER, "optimize", NULL);
    if (!optimized)
        return NULL;
    start = mf_profile_begin();
    mf_load_request what = *load;
    what.program = optimized;
    mf_executable *x = mf_executable_load(&what, error);
    if (start)
        mf_profile_words(start, MF_TRACK_COMPILER, "plan and compile", NULL);
    mf_drop(optimized);
    mf_cache_count_compilation();
    return x;
}
