/* The members of a rendezvous. A member is identified by its rank in its group, which determines its position along the collective's axes,
 * its device, and the process that has this device.
 * Invariant: nothing here loops over members in other processes, unless a list of devices or groups is in an order that cannot be
 * computed. */
#include "runtime/collectives/collectives.h"

int64_t mf_rank_at(const mf_participants *m, int64_t position, int64_t *group)
{
    *group = 0;
    if (!m->groups)
        return position;
    int at = m->places[position];
    *group = at < 0 ? -1 : at / m->member_count;
    return at < 0 ? -1 : at % m->member_count;
}

int64_t mf_group_count(const mf_participants *m, int64_t group) { return m->groups ? m->each_group[group].count : m->member_count; }

static int64_t group_of(const mf_rendezvous *g) { return g->instr->participants->groups ? g->key[g->key_count - 1] : 0; }

/* ------------------------------------------------------------------ the members in this process */

static void sort(int64_t *ranks, int64_t count)
{
    for (int64_t i = 1; i < count; i++) {
        int64_t moved = ranks[i], to = i;
        for (; to > 0 && ranks[to - 1] > moved; to--)
            ranks[to] = ranks[to - 1];
        ranks[to] = moved;
    }
}

static const mf_map_plan *plan_at(const mf_map *map, int level)
{
    for (; level > 0; level--)
        map = map->parent->map;
    return map->plan;
}

/* The position of the i-th of all members here, of any group: a process's indices of nested maps form a grid. */
static int64_t position_here(const mf_participants *m, const mf_map *map, int64_t i)
{
    int64_t position = 0, weight = 1;
    for (int a = m->axis_count - 1; a >= 0; weight *= m->sizes[a--]) {
        const mf_map_plan *p = plan_at(map, m->levels[a]);
        position += weight * mf_map_index(p, i % p->size);
        i /= p->size;
    }
    return position;
}

int64_t mf_members_here(const mf_participants *m, const mf_map *map, int64_t group, int64_t *ranks)
{
    int64_t all = 1, count = 0;
    for (int a = 0; a < m->axis_count; a++)
        all *= plan_at(map, m->levels[a])->size;
    for (int64_t i = 0; i < all; i++) {
        int64_t its, rank = mf_rank_at(m, position_here(m, map, i), &its);
        if (rank < 0 || its != group)
            continue;
        if (ranks)
            ranks[count] = rank;
        count++;
    }
    if (ranks && m->groups) /* groups order their members themselves */
        sort(ranks, count);
    return count;
}

size_t mf_rendezvous_bytes(int64_t members, int operands)
{
    return sizeof(mf_rendezvous) + (size_t)members * (sizeof(mf_participant) + (size_t)operands * sizeof(mf_register)) + 16;
}

mf_participant *mf_rendezvous_member(const mf_rendezvous *g, int64_t rank)
{
    if (g->here_count == g->member_count)
        return &g->members[rank];
    int64_t low = 0, high = g->here_count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (g->members[middle].rank < rank)
            low = middle + 1;
        else
            high = middle;
    }
    return low < g->here_count && g->members[low].rank == rank ? &g->members[low] : NULL;
}

/* ------------------------------------------------------------------ devices and their owners */

/* The device at these indices of the collective's axes; on levels that the collective does not run over (-1) it is at the member's own
 * index, or at the first one if its map's value is uniform. */
static int own_device(const mf_rendezvous *g, const int64_t *along)
{
    const mf_map *map = g->map;
    int64_t index = g->index, position = 0;
    for (int level = 0;; level++) {
        int64_t own = mf_map_index(map->plan, index < 0 ? 0 : index);
        position += (along[level] >= 0 ? along[level] : own) * map->plan->device->span;
        if (level == g->instr->participants->top)
            return mf_map_device_at(map, position);
        index = map->parent->index;
        map = map->parent->map;
    }
}

int mf_rendezvous_device(const mf_rendezvous *g, int64_t rank)
{
    const mf_participants *m = g->instr->participants;
    int64_t at = m->groups ? m->groups->at[group_of(g) * m->member_count + rank] : rank, along[MF_LEVELS];
    for (int level = 0; level < MF_LEVELS; level++)
        along[level] = -1;
    for (int a = m->axis_count - 1; a >= 0; at /= m->sizes[a--])
        along[m->levels[a]] = at % m->sizes[a];
    return own_device(g, along);
}

/* The distance in devices between neighbouring positions along the axes; 0: it is not constant. Axes of size 1 do not matter. */
static int64_t axes_step(const mf_participants *m, const mf_map *map)
{
    int64_t step = 0, whole = 0;
    for (int a = m->axis_count - 1; a >= 0; a--) {
        int64_t span = plan_at(map, m->levels[a])->device->span;
        if (m->sizes[a] == 1)
            continue;
        if (step && span != whole)
            return 0;
        step = step ? step : span;
        whole = span * m->sizes[a];
    }
    return step ? step : 1;
}

/* The difference in device number between neighbouring ranks; 0: it is not constant. */
static int64_t device_step(const mf_rendezvous *g)
{
    const mf_participants *m = g->instr->participants;
    const mf_map *outermost = g->map;
    while (outermost->parent && outermost->parent->map)
        outermost = outermost->parent->map;
    const mf_map_plan *p = outermost->plan;
    int64_t step = axes_step(m, g->map) * (m->groups ? m->each_group[group_of(g)].step : 1);
    if (!p->devices->count)
        return step;
    return p->devices->count == p->axis_size * p->device->span ? step * p->device_step : 0;
}

static int device_of_rank(const void *g, int64_t rank) { return mf_rendezvous_device(g, rank); }

bool mf_rendezvous_find_owners(mf_rendezvous *g, const mf_comm *c)
{
    int64_t step = device_step(g);
    return (step && mf_ownership_line(&g->owners, c, mf_rendezvous_device(g, 0), step, g->member_count)) ||
           mf_ownership_list(&g->owners, c, g->member_count, device_of_rank, g);
}
