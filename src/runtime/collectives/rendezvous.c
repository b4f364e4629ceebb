/* Collectives: members put their operands down in a rendezvous and are suspended; the last one to come does the arithmetic, hands out the
 * results and makes everybody ready again. Results that are the same for all are written once and shared.
 * Invariants: members of a rendezvous executed one and the same instruction in the same iterations of the loops around it, and agree in
 * every coordinate that the collective does not run over; sums are one balanced tree over the members in rank order, whoever computes
 * them and in however many pieces. */
#include "runtime/collectives/collectives.h"

#include <string.h>

/* ------------------------------------------------------------------ who, and which rendezvous */

static mf_step fail(mf_fiber *f, const mf_instr *in, mf_error_object *e)
{
    if (in->eqn->address)
        mf_error_set_address(e, in->eqn->address);
    mf_run_state_fail(f->stage, e);
    return MF_STEP_FAILED;
}

/* This fiber's position along the collective's axes, row-major in the order of the names. */
static int64_t position(const mf_fiber *f, const mf_participants *m)
{
    int64_t at = 0;
    for (int a = 0; a < m->axis_count; a++) {
        const mf_fiber *holder = f;
        for (int level = 0; level < m->levels[a]; level++)
            holder = holder->map->parent;
        at = at * m->sizes[a] + holder->map->plan->first + holder->index;
    }
    return at;
}

static bool runs_over(const mf_participants *m, int level)
{
    for (int a = 0; a < m->axis_count; a++)
        if (m->levels[a] == level)
            return true;
    return false;
}

/* Fills the key; the map at which the members meet. NULL: too deep. */
static mf_map *find_key(const mf_fiber *f, const mf_participants *m, int64_t *key, int *count)
{
    const mf_fiber *at = f;
    mf_map *map = NULL;
    for (int level = 0; level <= m->top; level++, at = map->parent) {
        for (const mf_frame *frame = at->top; frame; frame = frame->below)
            if (frame->iteration >= 0) {
                if (*count == MF_KEY_MAX)
                    return NULL;
                key[(*count)++] = frame->iteration;
            }
        if (*count == MF_KEY_MAX)
            return NULL;
        if (!runs_over(m, level))
            key[(*count)++] = at->index;
        map = at->map;
    }
    return map;
}

/* The rank in its group, which enters the key. */
static int64_t rank_in_group(const mf_participants *m, int64_t at, int64_t *key, int *count)
{
    if (!m->groups)
        return at;
    for (int i = 0; i < m->groups->count; i++)
        if (m->groups->at[i] == at) {
            key[(*count)++] = i / m->member_count;
            return i % m->member_count;
        }
    return -1;
}

static size_t rendezvous_bytes(const mf_instr *in)
{
    return sizeof(mf_rendezvous) +
           (size_t)in->participants->member_count * (sizeof(mf_participant) + (size_t)in->in_count * sizeof(mf_register)) + 16;
}

/* Of the group that a key's last number names; groups of different sizes end in -1. */
static int64_t members_of(const mf_participants *m, const int64_t *key, int count)
{
    int64_t n = m->member_count;
    if (m->groups)
        while (m->groups->at[key[count - 1] * m->member_count + n - 1] < 0)
            n--;
    return n;
}

static mf_rendezvous *new_rendezvous(mf_run_state *s, const mf_instr *in, mf_map *top, const int64_t *key, int count)
{
    mf_rendezvous *g = mf_run_state_get(s, rendezvous_bytes(in));
    if (!g)
        return NULL;
    int64_t n = in->participants->member_count;
    mf_register *registers = (mf_register *)(((uintptr_t)(g + 1) + 15) & ~(uintptr_t)15);
    g->members = (mf_participant *)(void *)(registers + n * in->in_count);
    for (int64_t i = 0; i < n; i++)
        g->members[i].in = registers + i * in->in_count;
    g->instr = in;
    g->member_count = members_of(in->participants, key, count);
    g->top = top;
    g->key_count = count;
    memcpy(g->key, key, (size_t)count * sizeof *key);
    g->next = top->rendezvous;
    top->rendezvous = g;
    return g;
}

static mf_rendezvous *find_rendezvous(mf_map *top, const mf_instr *in, const int64_t *key, int count)
{
    for (mf_rendezvous *g = top->rendezvous; g; g = g->next)
        if (g->instr == in && g->key_count == count && !memcmp(g->key, key, (size_t)count * sizeof *key))
            return g;
    return NULL;
}

static void unlink_rendezvous(mf_rendezvous *g)
{
    mf_rendezvous **at = &g->top->rendezvous;
    while (*at != g)
        at = &(*at)->next;
    *at = g->next;
}

void mf_rendezvous_free(mf_run_state *s, mf_rendezvous *g)
{
    const mf_instr *in = g->instr;
    for (int64_t i = 0; i < in->participants->member_count; i++)
        for (int k = 0; k < in->in_count; k++)
            mf_register_release(&g->members[i].in[k]);
    mf_run_state_put(s, g, rendezvous_bytes(in));
}

/* ------------------------------------------------------------------ arriving and going on */

static void announce(mf_rendezvous *g, mf_fiber **list)
{
    const mf_instr *in = g->instr;
    for (int64_t i = 0; i < g->member_count; i++) {
        mf_map *map = g->members[i].map;
        bool news = false;
        for (int k = 0; k < in->out_count; k++)
            if (in->out[k] < 0 && !map->there[~in->out[k]])
                map->there[~in->out[k]] = news = true;
        if (news)
            mf_map_wake(map, list);
    }
}

static int64_t operand_bytes(const mf_instr *in)
{
    int64_t bytes = 0;
    for (int k = 0; k < in->out_count; k++)
        bytes += in->participants->eqns[k]->in[0]->type->bytes;
    return bytes;
}

/* The last member f has come: computes, and makes the others ready; f itself goes on. */
static mf_step complete(mf_fiber *f, mf_rendezvous *g)
{
    mf_run_state *s = f->stage;
    const mf_instr *in = g->instr;
    int64_t n = g->member_count;
    mf_fiber *list = NULL, **end = &list;
    int64_t start = mf_profile_begin();
    mf_error_object *error = NULL;
    bool made = mf_rendezvous_compute(g, mf_executable_backend(s->executable), &error);
    if (start)
        mf_run_state_record(s, start, MF_ROW_COLLECTIVES, 0, in->source, operand_bytes(in));
    for (int64_t i = 0; i < n && made; i++)
        if (g->members[i].fiber && g->members[i].fiber != f)
            mf_advance(g->members[i].fiber);
    mf_run_state_lock(s);
    if (made)
        announce(g, &list);
    while (*end)
        end = &(*end)->next;
    for (int64_t i = 0; i < n && made; i++) {
        mf_fiber *other = g->members[i].fiber;
        if (!other || other == f)
            continue;
        other->next = NULL;
        *end = other;
        end = &other->next;
        s->active++;
    }
    mf_rendezvous_free(s, g);
    mf_run_state_unlock(s);
    if (list)
        mf_ready(s, list);
    return made ? MF_STEP_NEXT : fail(f, in, error ? error : mf_error_out_of_memory());
}

static void join(mf_fiber *f, mf_rendezvous *g, int64_t rank)
{
    const mf_instr *in = g->instr;
    mf_participant *m = &g->members[rank];
    m->fiber = in->participants->detached ? NULL : f;
    m->map = f->map;
    m->index = f->index;
    m->device = f->device;
    m->here = true;
    for (int k = 0; k < in->in_count; k++) {
        mf_register *from = mf_operand(f, in->in[k]);
        if (in->moves[k])
            mf_register_move(&m->in[k], from);
        else
            mf_register_copy(&m->in[k], from);
    }
    g->arrived++;
    f->waiting = in;
}

/* An axis of which this process has only a part; NULL: none. */
static const char *spread_axis(const mf_fiber *f, const mf_participants *m)
{
    for (int a = 0; a < m->axis_count; a++) {
        const mf_fiber *holder = f;
        for (int level = 0; level < m->levels[a]; level++)
            holder = holder->map->parent;
        if (holder->map->plan->size != m->sizes[a])
            return m->axes->at[a];
    }
    return NULL;
}

mf_step mf_collective(mf_fiber *f, const mf_instr *in)
{
    mf_run_state *s = f->stage;
    const mf_participants *m = in->participants;
    int64_t key[MF_KEY_MAX + 1];
    int count = 0;
    const char *spread = spread_axis(f, m);
    if (spread)
        return fail(f, in,
                    mf_error_new(MF_ERROR_PEER, "%s: the axis '%s' spans processes, and nothing joins them", in->eqn->op->name, spread));
    mf_map *top = find_key(f, m, key, &count);
    int64_t rank = top ? rank_in_group(m, position(f, m), key, &count) : 0;
    if (!top || rank < 0 || count > MF_KEY_MAX)
        return fail(
            f, in,
            mf_error_new(MF_ERROR_AXIS, !top ? "%s: nested too deeply" : "%s: axis_index_groups leaves a device out", in->eqn->op->name));
    for (int k = 0; k < in->in_count; k++) /* shared ones are packed */
        if (in->in[k] >= 0 && !mf_register_pack(mf_operand(f, in->in[k]), mf_operand_type(f, in->in[k])))
            return fail(f, in, mf_error_out_of_memory());
    mf_run_state_lock(s);
    mf_rendezvous *g = find_rendezvous(top, in, key, count);
    if (!g && !(g = new_rendezvous(s, in, top, key, count))) {
        mf_run_state_unlock(s);
        return fail(f, in, mf_error_out_of_memory());
    }
    join(f, g, rank);
    bool last = g->arrived == g->member_count, detached = m->detached; /* parked, not even the plan is ours to read */
    int64_t left = 1;
    if (last) {
        unlink_rendezvous(g);
        g->members[rank].fiber = f;
    } else if (!detached) {
        left = --s->active;
    }
    mf_run_state_unlock(s);
    if (last)
        return complete(f, g);
    if (!left)
        mf_run_state_over(s);
    return detached ? MF_STEP_NEXT : MF_STEP_PARKED;
}

mf_step mf_axis_index_value(mf_fiber *f, const mf_instr *in)
{
    mf_register *r = mf_operand(f, in->out[0]);
    mf_register_new(r, in->eqn->out[0]->type->bytes);
    mf_store_i64(in->eqn->out[0]->type->dtype, r->data, position(f, in->participants));
    return MF_STEP_NEXT;
}
