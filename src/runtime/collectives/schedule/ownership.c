/* See ownership.h. The ranks are on a line of devices, which passes through the processes in order. If the line's step is at most the
 * number of devices of the smallest process, the line skips no process, and each process's run of ranks follows from its first device.
 * If the step is at least the number of devices of the largest process, no process has two ranks. */
#include "runtime/collectives/schedule/ownership.h"

#include "base/memory/alloc.h"
#include "base/memory/intern.h"

static int64_t device_of(const mf_ownership *o, int64_t rank) { return o->device + rank * o->step; }

static int64_t distance(int64_t a, int64_t b) { return a < b ? b - a : a - b; }

bool mf_ownership_line(mf_ownership *o, const mf_comm *c, int64_t device, int64_t step, int64_t count)
{
    int64_t width = distance(step, 0), last = device + step * (count - 1);
    bool dense = count == 1 || (step && width <= c->least_devices), sparse = c->most_devices && width >= c->most_devices;
    if (count < 1 || (!dense && !sparse) || device < 0 || last < 0 || device > INT32_MAX || last > INT32_MAX)
        return false;
    int from = mf_comm_owner(c, (int)device), to = mf_comm_owner(c, (int)last);
    if (from < 0 || to < 0)
        return false;
    *o = (mf_ownership){ .count = count, .ordered = true, .comm = c, .device = device, .step = step, .sparse = !dense };
    o->runs = dense ? 1 + distance(from, to) : count;
    o->hash = mf_hash_mix(mf_hash_mix((uint64_t)device, count > 1 ? (uint64_t)step : 0), (uint64_t)count);
    return true;
}

bool mf_ownership_list(mf_ownership *o, const mf_comm *c, int64_t count, int (*device)(const void *context, int64_t rank),
                       const void *context)
{
    int64_t capacity = 0;
    mf_owned_run *list = NULL;
    int direction = 0;
    *o = (mf_ownership){ .count = count, .ordered = true, .comm = c };
    for (int64_t rank = 0; rank < o->count; rank++) {
        int at = device(context, rank), process = mf_comm_owner(c, at), before = o->runs ? list[o->runs - 1].process : -1;
        o->hash = mf_hash_mix(o->hash, (uint64_t)at);
        if (process < 0)
            o->count = 0;
        if (process < 0 || process == before)
            continue;
        if (o->runs == capacity) {
            capacity = capacity ? 2 * capacity : 16;
            mf_owned_run *more = mf_realloc(list, (size_t)capacity * sizeof *list);
            if (!more) {
                mf_free(list);
                return false;
            }
            list = more;
        }
        int algorithm = before < 0 ? 0 : process > before ? 1 : -1;
        o->ordered &= !algorithm || !direction || algorithm == direction;
        direction = algorithm ? algorithm : direction;
        list[o->runs++] = (mf_owned_run){ rank, process };
    }
    o->list = list;
    return true;
}

void mf_ownership_free(mf_ownership *o)
{
    mf_free((void *)(uintptr_t)o->list);
    o->list = NULL;
}

size_t mf_ownership_bytes(const mf_ownership *o) { return o->list ? (size_t)o->runs * sizeof *o->list : 0; }

int mf_ownership_process(const mf_ownership *o, int64_t run)
{
    if (o->list)
        return o->list[run].process;
    if (o->sparse)
        return mf_comm_owner(o->comm, (int)device_of(o, run));
    return mf_comm_owner(o->comm, (int)o->device) + (int)(o->step < 0 ? -run : run);
}

int64_t mf_ownership_first(const mf_ownership *o, int64_t run)
{
    if (run <= 0 || run >= o->runs)
        return run <= 0 ? 0 : o->count;
    if (o->list)
        return o->list[run].first;
    if (o->sparse)
        return run;
    int process = mf_ownership_process(o, run);
    int64_t width = o->step ? distance(o->step, 0) : 1; /* a single rank has no step */
    int64_t beyond = o->step > 0 ? o->comm->first_device[process] - o->device : o->device + 1 - o->comm->first_device[process + 1];
    return (beyond + width - 1) / width;
}

int64_t mf_ownership_run_of(const mf_ownership *o, int64_t rank)
{
    if (!o->list)
        return o->sparse ? rank : distance(mf_comm_owner(o->comm, (int)device_of(o, rank)), mf_comm_owner(o->comm, (int)o->device));
    int64_t low = 0, high = o->runs; /* list[low].first <= rank < list[high].first */
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        *(rank < o->list[middle].first ? &high : &low) = middle;
    }
    return low;
}
