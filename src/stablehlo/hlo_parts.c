/* Parts: which rows of arguments and results each replica has. If the whole program is one map, each replica has its own row. The same
 * holds for a map directly inside that one: its result is never gathered, and its argument is never whole on one device. Invariant:
 * mf_hlo_parts gives, for a program's inputs and outputs, the types that h_map_program takes and gives. */
#include "ops/ops.h"
#include "stablehlo/hlo.h"

const mf_eqn *mf_hlo_sole_map(const mf_program *p)
{
    const mf_eqn *e = p->eqn_count == 1 && p->eqns[0]->op == &mf_op_pmap ? p->eqns[0] : NULL;
    if (!e || e->out_count != p->out_count || ((const mf_pmap_params *)e->params)->local->count)
        return NULL;
    for (int o = 0; o < e->out_count; o++)
        if (p->out[o] != e->out[o])
            return NULL;
    for (int i = 0; i < e->in_count; i++)
        for (int k = 0; k < i; k++)
            if (!e->in[i]->constant && e->in[k] == e->in[i])
                return NULL;
    return e;
}

int hlo_uses(const mf_program *p, const mf_variable *v, const mf_eqn **by, int *operand)
{
    int uses = 0;
    for (int k = 0; k < p->eqn_count; k++)
        for (int i = 0; i < p->eqns[k]->in_count; i++)
            if (p->eqns[k]->in[i] == v) {
                uses++;
                if (by) {
                    *by = p->eqns[k];
                    *operand = i;
                }
            }
    for (int o = 0; o < p->out_count; o++)
        uses += p->out[o] == v;
    return uses;
}

static bool may_cut(const mf_hlo_part *part, const mf_pmap_params *m, int64_t run)
{
    return part->count < MF_RANK && run % m->axis_size == 0;
}

/* Adds an axis. The axes added next are numbered as if it were absent, until end_cut renumbers them. */
static int begin_cut(mf_hlo_part *part, int64_t axis, int64_t size, int64_t stride)
{
    part->cuts[part->count++] = (mf_hlo_cut){ (int)axis, size, stride };
    return part->count;
}

static void end_cut(mf_hlo_part *part, int from)
{
    for (int i = from; i < part->count; i++)
        part->cuts[i].axis += part->cuts[i].axis >= part->cuts[from - 1].axis;
}

/* run: the number of replicas for one index of the axes outside. */
static void cut_output(mf_hlo_part *part, const mf_eqn *e, int o, int64_t run)
{
    const mf_pmap_params *m = e->params;
    const mf_variable *row = m->program->out[o];
    if (m->out_axes->at[o] == MF_NONE || !may_cut(part, m, run))
        return;
    int from = begin_cut(part, m->out_axes->at[o], m->axis_size, run / m->axis_size);
    if (row->producer && row->producer->op == &mf_op_pmap)
        cut_output(part, row->producer, row->output, run / m->axis_size);
    end_cut(part, from);
}

/* A row is cut further by an inner map if only that map uses it. */
static void cut_input(mf_hlo_part *part, const mf_eqn *e, int i, int64_t run)
{
    const mf_pmap_params *m = e->params;
    const mf_eqn *inside = NULL;
    bool mapped = m->in_axes->at[i] != MF_NONE;
    int operand = 0, from = 0;
    if (!may_cut(part, m, run))
        return;
    if (mapped)
        from = begin_cut(part, m->in_axes->at[i], m->axis_size, run / m->axis_size);
    if (hlo_uses(m->program, m->program->in[i], &inside, &operand) == 1 && inside && inside->op == &mf_op_pmap)
        cut_input(part, inside, operand, run / m->axis_size);
    if (mapped)
        end_cut(part, from);
}

const mf_eqn *mf_hlo_parts(const mf_program *p, int64_t replicas, mf_hlo_part *in, mf_hlo_part *out)
{
    const mf_eqn *map = mf_hlo_sole_map(p);
    for (int i = 0; i < p->in_count; i++) {
        in[i].count = 0;
        for (int k = 0; map && k < map->in_count; k++)
            if (map->in[k] == p->in[i])
                cut_input(&in[i], map, k, replicas);
    }
    for (int o = 0; o < p->out_count; o++) {
        out[o].count = 0;
        if (map)
            cut_output(&out[o], map, o, replicas);
    }
    return map;
}

int mf_hlo_part_axes(const mf_hlo_part *part, int rank, int *axes)
{
    bool cut[MF_RANK] = { false };
    int count = 0;
    for (int i = 0; i < part->count; i++)
        cut[part->cuts[i].axis] = true;
    for (int i = 0; i < rank; i++)
        if (!cut[i])
            axes[count++] = i;
    return count;
}

const mf_type *mf_hlo_part_type(const mf_hlo_part *part, const mf_type *type)
{
    int64_t dims[MF_RANK];
    int axes[MF_RANK], rank = mf_hlo_part_axes(part, type->rank, axes);
    for (int i = 0; i < rank; i++)
        dims[i] = type->dims[axes[i]];
    return part->count ? mf_type_get(type->dtype, type->weak, rank, dims) : type;
}

int64_t mf_hlo_part_count(const mf_hlo_part *part)
{
    int64_t n = 1;
    for (int i = 0; i < part->count; i++)
        n *= part->cuts[i].size;
    return n;
}

int64_t mf_hlo_part_index(const mf_hlo_part *part, int64_t replica)
{
    int64_t index = 0;
    for (int i = 0; i < part->count; i++)
        index = index * part->cuts[i].size + replica / part->cuts[i].stride % part->cuts[i].size;
    return index;
}

int64_t mf_hlo_part_first(const mf_hlo_part *part, int64_t index)
{
    int64_t replica = 0;
    for (int i = part->count - 1; i >= 0; i--) {
        replica += index % part->cuts[i].size * part->cuts[i].stride;
        index /= part->cuts[i].size;
    }
    return replica;
}

int64_t mf_hlo_part_offset(const mf_hlo_part *part, int64_t replica, const int64_t *strides)
{
    int64_t offset = 0;
    for (int i = 0; i < part->count; i++)
        offset += replica / part->cuts[i].stride % part->cuts[i].size * strides[part->cuts[i].axis];
    return offset;
}

mf_hlo_value hlo_cut(mf_hlo *h, mf_hlo_value v, const mf_variable *of, const mf_type *part)
{
    int depth = h->depth;
    while (!h->error && h_is_part(part, of) && v.type->rank > part->rank) {
        const mf_pmap_params *m = of->producer->params;
        h_push_axis(h, m->axis_name, m->axis_size);
        v = h_row(h, v, h_innermost_index(h), (int)m->out_axes->at[of->output]);
        of = m->program->out[of->output];
    }
    h->depth = depth;
    return v;
}
