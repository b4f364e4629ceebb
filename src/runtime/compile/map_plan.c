/* Makes the plan of a map: the plan of its body, the layout of its results, and which operands' memory they may take over.
 * Invariant: whether an operand is held once decides what is computed once and held once, but never affects a bit of a result. */
#include "runtime/compile/planner.h"

#include "transform/functions/mapped/pmap.h"

/* The mapped axes of a result from the outermost map to the innermost; a result of a map directly inside has that map's axis too. */
static int sharding_axes(const mf_eqn *e, int o, int *axes, const mf_pmap_params **maps, int *spans, int count)
{
    const mf_pmap_params *params = e->params;
    const mf_variable *inner = params->program->out[o];
    int64_t k = params->out_axes->at[o];
    int from = count;
    if (k == INT64_MIN || count == MF_RANK)
        return count;
    maps[count] = params;
    spans[count] = (int)mf_pmap_span(params);
    axes[count++] = (int)k;
    if (inner->producer && inner->producer->op == &mf_op_pmap)
        count = sharding_axes(inner->producer, inner->output, axes, maps, spans, count);
    for (int i = from + 1; i < count; i++)
        axes[i] += axes[i] >= k;
    return count;
}

static const mf_sharding *sharding_of(mf_planner *m, const mf_eqn *e, int o)
{
    const mf_pmap_params *params = e->params;
    int axes[MF_RANK], spans[MF_RANK], count;
    const mf_pmap_params *maps[MF_RANK];
    int64_t total = 1;
    count = sharding_axes(e, o, axes, maps, spans, 0);
    for (int i = 0; i < count; i++)
        total *= mf_pmap_rows(maps[i]);
    int *devices = mf_planner_alloc(m, (size_t)total, sizeof *devices);
    for (int64_t d = 0; devices && d < total; d++) {
        int64_t rest = d, id = 0;
        for (int i = count - 1; i >= 0; i--) {
            int64_t rows = mf_pmap_rows(maps[i]), row = rest % rows;
            id += (maps[i]->local->count ? maps[i]->local->at[row] : row) * spans[i];
            rest /= rows;
        }
        devices[d] = params->devices && params->devices->count > id ? (int)params->devices->at[id] : (int)id;
    }
    return devices ? mf_sharding_get(&mf_client_cpu, count, axes, (int)total, devices) : NULL;
}

/* Whether a device's result may be computed in the memory of its mapped input: only segments read the input, and none after the segment
 * that writes the result; in that segment the kernel decides (alias). */
static bool can_donate(const mf_block *b, int in, int out)
{
    int r = b->in[in], writer = -1;
    if (r < 0 || b->out[out] < 0 || b->destination[b->out[out]] != out || b->types[r]->bytes != b->types[b->out[out]]->bytes)
        return false;
    for (int t = 0; t < b->instr_count; t++) {
        const mf_instr *at = b->instrs[t];
        int reads = -1, writes = -1;
        for (int i = 0; i < at->in_count && at->kind != MF_DO_AWAIT; i++)
            reads = at->in[i] == r ? i : reads;
        for (int o = 0; o < at->out_count; o++)
            writes = at->out[o] == b->out[out] ? o : writes;
        if (reads >= 0 && (at->kind != MF_DO_SEGMENT || writer >= 0))
            return false;
        if (writes >= 0 && reads >= 0 && at->kernel->alias[writes] != reads)
            return false;
        writer = writes >= 0 ? t : writer;
    }
    for (int o = 0; o < b->out_count; o++)
        if (b->out[o] == r || (o != out && b->out[o] == b->out[out]))
            return false;
    return writer >= 0;
}

static void find_donors(mf_planner *m, mf_map_plan *plan, const mf_pmap_params *params)
{
    bool *given = mf_planner_alloc(m, (size_t)plan->in_count, sizeof *given);
    for (int o = 0; o < plan->out_count && !m->error; o++) {
        plan->out[o].donor = -1;
        for (int i = 0; i < plan->in_count && plan->out[o].donor < 0 && !plan->out[o].uniform; i++)
            if (!given[i] && params->in_axes->at[i] == params->out_axes->at[o] && plan->shards[i] == plan->out[o].shard &&
                can_donate(plan->device, i, o)) {
                plan->out[o].donor = i;
                given[i] = true;
            }
    }
}

static int forwarded(const mf_pmap_params *params, int o)
{
    for (int i = 0; i < params->program->in_count; i++)
        if (params->program->in[i] == params->program->out[o] && params->in_axes->at[i] == params->out_axes->at[o])
            return i;
    return -1;
}

static void set_output(mf_planner *m, const mf_map_plan *plan, const mf_eqn *e, int o, mf_map_output *out)
{
    const mf_pmap_params *params = e->params;
    const mf_variable *v = params->program->out[o];
    int64_t k = params->out_axes->at[o], step = mf_dtype_size(v->type->dtype);
    out->shard = v->type;
    out->type = e->out[o]->type;
    out->uniform = k == INT64_MIN || plan->device->out[o] < 0 || (m->schedule.variance && !(m->schedule.variance[v->id] & m->schedule.bit));
    out->sharding = sharding_of(m, e, o);
    out->forward = out->uniform ? -1 : forwarded(params, o);
    int64_t mapped = out->uniform ? 0 : v->type->bytes;
    for (int i = out->type->rank - 1; i >= 0; i--) {
        out->strides[i] = i == k ? mapped : step;
        step *= i == k ? 1 : out->type->dims[i];
    }
    out->contiguous = k == INT64_MIN || out->type->size == 0 || out->type->dims[k] == 1 || (!out->uniform && k == 0);
}

/* Inputs that are not mapped or that are held once. */
static const bool *uniform_inputs(mf_planner *m, const mf_pmap_params *params, const bool *held)
{
    int count = params->program->in_count;
    bool *uniform = mf_planner_alloc(m, (size_t)count, sizeof *uniform);
    for (int i = 0; uniform && i < count; i++)
        uniform[i] = params->in_axes->at[i] == INT64_MIN || (held && held[i]);
    return uniform;
}

/* The distance between neighbouring devices; 0: it is not constant. */
static int64_t step_of(const mf_intlist *devices)
{
    int64_t step = devices->count > 1 ? devices->at[1] - devices->at[0] : 1;
    for (int i = 1; i < devices->count; i++)
        if (devices->at[i] - devices->at[i - 1] != step)
            return 0;
    return step;
}

mf_map_plan *mf_plan_map(mf_plan *plan, const mf_eqn *map, const mf_axis_env *body_env, const bool *held, mf_error_object **error)
{
    mf_planner m = { .plan = plan };
    const mf_pmap_params *params = map->params;
    const mf_program *p = params->program;
    mf_map_plan *made = mf_planner_alloc(&m, 1, sizeof *made);
    const bool *uniform = made ? uniform_inputs(&m, params, held) : NULL;
    if (made && uniform) {
        made->size = mf_pmap_rows(params);
        made->axis_size = params->axis_size;
        made->local = params->local;
        plan->spread |= params->local->count > 0;
        made->held = held;
        made->in_count = p->in_count;
        made->out_count = p->out_count;
        made->axes = params->in_axes->at;
        made->devices = params->devices;
        made->device_step = step_of(params->devices);
        made->shards = mf_planner_alloc(&m, (size_t)p->in_count, sizeof *made->shards);
        made->out = mf_planner_alloc(&m, (size_t)p->out_count, sizeof *made->out);
        made->types = mf_planner_alloc(&m, (size_t)p->in_count, sizeof *made->types);
        for (int i = 0; i < p->in_count && !m.error; i++) {
            made->shards[i] = p->in[i]->type;
            made->types[i] = map->in[i]->type;
        }
        mf_blocks b = mf_compile_blocks(&m, p, body_env, uniform);
        made->device = b.device;
        made->uniform = b.uniform;
        if (b.device && b.uniform)
            b.device->span = b.uniform->span = (int)mf_pmap_span(params);
        for (int o = 0; o < p->out_count && !m.error; o++)
            set_output(&m, made, map, o, &made->out[o]);
        find_donors(&m, made, params);
        made->lockstep = mf_lockstep_make(&m, made);
    }
    *error = m.error;
    if (m.error)
        return NULL;
    made->next = plan->maps;
    return plan->maps = made;
}
