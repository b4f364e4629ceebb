/* The members of a collective, as far as the program determines them. What would take a loop over all members in each run is found here
 * once: each device's position in its group, whether a group's members are evenly spaced, the partners of a permutation.
 * Invariant: no table is longer than the axis. */
#include "runtime/compile/planner.h"

#include "ops/ops.h"

static int64_t greatest(const mf_participants *p)
{
    int64_t size = 1;
    for (int a = 0; a < p->axis_count; a++)
        size *= p->sizes[a];
    return size;
}

/* The members of a group, padded with -1 to the length of the largest group. */
static mf_rank_group look_at_group(const int64_t *at, int64_t most)
{
    mf_rank_group g = { 0, at[0], most > 1 && at[1] >= 0 ? at[1] - at[0] : 1 };
    for (; g.count < most && at[g.count] >= 0; g.count++)
        if (at[g.count] != g.first + g.count * g.step)
            g.step = 0;
    return g;
}

static void find_groups(mf_planner *m, mf_participants *p)
{
    int64_t most = p->member_count, count = most ? p->groups->count / most : 0, size = greatest(p);
    p->each_group = mf_planner_alloc(m, (size_t)count, sizeof *p->each_group);
    p->places = mf_planner_minus_ones(m, (int)size);
    for (int64_t i = 0; i < count && !m->error; i++)
        p->each_group[i] = look_at_group(p->groups->at + i * most, most);
    for (int i = 0; i < p->groups->count && !m->error; i++)
        if (p->groups->at[i] >= 0 && p->groups->at[i] < size && p->places[p->groups->at[i]] < 0)
            p->places[p->groups->at[i]] = i;
}

void mf_find_permutations(mf_planner *m, mf_participants *p, int count)
{
    p->permutations = mf_planner_alloc(m, (size_t)count, sizeof *p->permutations);
    for (int k = 0; k < count && !m->error; k++) {
        const mf_permute_params *pairs = p->eqns[k]->params;
        if (p->eqns[k]->op->collective != MF_COLLECTIVE_PERMUTE)
            continue;
        int *sources = mf_planner_minus_ones(m, (int)p->member_count), *targets = mf_planner_minus_ones(m, (int)p->member_count);
        p->permutations[k] = (mf_permutation){ sources, targets };
        for (int i = 0; pairs->perm && i + 1 < pairs->perm->count && !m->error; i += 2) {
            sources[pairs->perm->at[i + 1]] = (int)pairs->perm->at[i];
            targets[pairs->perm->at[i]] = (int)pairs->perm->at[i + 1];
        }
    }
}

void mf_find_participants(mf_planner *m, const mf_item *item, mf_participants *participants)
{
    int64_t group_size;
    mf_collective_members(item->eqns[0], &participants->axes, &participants->groups, &group_size);
    participants->axis_count = participants->axes ? participants->axes->count : 0;
    if (participants->axis_count > MF_LEVELS) {
        m->error = mf_error_new(MF_ERROR_AXIS, "%s: more than %d axis names", item->eqns[0]->op->name, MF_LEVELS);
        return;
    }
    participants->member_count = 1;
    for (int a = 0; a < participants->axis_count; a++) {
        const char *name = participants->axes->at[a];
        int level = mf_axis_env_level(m->schedule.env, name);
        if (level < 0 || level >= MF_LEVELS) {
            m->error = mf_error_new(MF_ERROR_AXIS, "%s: unbound axis name: %s", item->eqns[0]->op->name, name);
            return;
        }
        participants->levels[a] = level;
        participants->sizes[a] = mf_axis_env_find(m->schedule.env, name)->size;
        participants->top = level > participants->top ? level : participants->top;
        participants->member_count *= participants->sizes[a];
    }
    if (participants->groups && !participants->groups->count)
        participants->groups = NULL;
    if (participants->groups) {
        participants->member_count = group_size;
        find_groups(m, participants);
    }
    participants->detached = item->side == MF_DEVICE && m->mapped && !participants->top &&
                             !participants->groups; /* the last member to arrive ends it */
    for (int k = 0; k < item->count; k++) {
        const mf_variable *v = item->eqns[k]->out[0];
        participants->detached &= m->schedule.side[v->id] == MF_UNIFORM && (m->plan->spread || !m->read_by_device[v->id]);
    }
}
