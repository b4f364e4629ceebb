/* Estimated nanoseconds of instructions and maps. They decide about inline execution, and never affect a result. */
#include "runtime/compile/planner.h"

#define DEVICE_COST 80 /* nanoseconds of overhead per device of a map */

double mf_map_cost(const mf_map_plan *map)
{
    /* In lockstep the devices share most of the overhead: as measured, half of a small program's time. */
    double device = map->lockstep ? map->device->cost / 2 : map->device->cost + DEVICE_COST;
    return (double)map->size * device + map->uniform->cost;
}

double mf_instr_cost(const mf_instr *in, const mf_side *d)
{
    double cost = 50;
    switch (in->kind) {
    case MF_DO_SEGMENT: return in->kernel->cost;
    case MF_DO_COLLECTIVE:
        for (int i = 0; i < in->in_count; i++)
            cost += in->in[i] >= 0 ? 0.04 * (double)d->types[in->in[i]]->bytes : 0;
        return cost + 100;
    case MF_DO_CALL:
        for (int i = 0; i < in->block_count; i++)
            cost = in->blocks[i]->cost > cost ? in->blocks[i]->cost : cost;
        return cost;
    case MF_DO_WHILE: return 100 * (in->blocks[0]->cost + in->blocks[1]->cost + 100); /* the number of iterations is unknown */
    case MF_DO_SCAN: return (double)((const mf_scan_params *)in->eqn->params)->length * (in->blocks[0]->cost + 100);
    case MF_DO_MAP: return mf_map_cost(in->map);
    default: return cost;
    }
}
