/* Collectives: members leave their operands in a rendezvous and are suspended. The last one to arrive does the arithmetic, hands out the
 * results and makes the others ready; or, if members are in other processes, begins an exchange, which does so at its end. Results that are
 * the same for all members are written once and shared.
 * Invariants: the members of a rendezvous execute the same instruction in the same iterations of the loops around it, and agree in every
 * coordinate that the collective does not run over; a sum is one balanced tree over the members in rank order, whoever computes it and
 * in however many pieces. */
#include "base/memory/vector.h"
#include "runtime/collectives/collectives.h"

#include <string.h>

/* ------------------------------------------------------------------ finding the rendezvous */

/* This fiber's position along the collective's axes, row-major in the order of the names. */
static int64_t position(const mf_fiber *f, const mf_participants *m)
{
    int64_t at = 0;
    for (int a = 0; a < m->axis_count; a++) {
        const mf_fiber *holder = f;
        for (int level = 0; level < m->levels[a]; level++)
            holder = holder->map->parent;
        at = at * m->sizes[a] + mf_map_index(holder->map->plan, holder->index);
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

/* Fills the key; returns the map at which the members meet. NULL: nested too deeply. */
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
            key[(*count)++] = mf_map_index(at->map->plan, at->index);
        map = at->map;
    }
    return map;
}

/* The rank in its group; the group's number is added to the key. */
static int64_t rank_in_group(const mf_participants *m, int64_t at, int64_t *key, int *count)
{
    int64_t group, rank = mf_rank_at(m, at, &group);
    if (m->groups && rank >= 0)
        key[(*count)++] = group;
    return rank;
}

static void *get_memory(mf_run_state *s, bool lasting, size_t bytes) { return lasting ? mf_calloc(1, bytes) : mf_run_state_get(s, bytes); }

static void put_memory(mf_run_state *s, bool lasting, void *at, size_t bytes)
{
    if (lasting)
        mf_free(at);
    else
        mf_run_state_put(s, at, bytes);
}

static void free_rendezvous(mf_run_state *s, mf_rendezvous *g)
{
    mf_ownership_free(&g->owners);
    put_memory(s, g->lasting, g, mf_rendezvous_bytes(g->here_count, g->instr->in_count));
}

/* Creates the members that are here, none of which has arrived. False: memory is out. */
static bool make_members(mf_rendezvous *g, int64_t group)
{
    const mf_instr *in = g->instr;
    MF_SMALL_ARRAY(int64_t, ranks, 64, g->here_count);
    mf_register *registers = (mf_register *)(((uintptr_t)(g + 1) + 15) & ~(uintptr_t)15);
    g->members = (mf_participant *)(void *)(registers + g->here_count * in->in_count);
    if (!ranks)
        return false;
    if (g->spread)
        mf_members_here(in->participants, g->map, group, ranks);
    for (int64_t i = 0; i < g->here_count; i++) {
        g->members[i].rank = g->spread ? ranks[i] : i;
        g->members[i].in = registers + i * in->in_count;
    }
    return true;
}

/* Not in a list yet; one of its members has this map and index. */
static mf_rendezvous *make_rendezvous(mf_run_state *s, const mf_map *map, int64_t index, const mf_instr *in, mf_map *top,
                                      const int64_t *key, int count, bool spread, bool lasting)
{
    const mf_participants *m = in->participants;
    int64_t group = m->groups ? key[count - 1] : 0, here = spread ? mf_members_here(m, map, group, NULL) : mf_group_count(m, group);
    mf_rendezvous *g = get_memory(s, lasting, mf_rendezvous_bytes(here, in->in_count));
    if (!g)
        return NULL;
    g->lasting = lasting;
    g->instr = in;
    g->here_count = here;
    g->member_count = mf_group_count(m, group);
    g->top = top;
    g->map = map;
    g->index = index;
    g->spread = spread;
    g->key_count = count;
    if (count)
        memcpy(g->key, key, (size_t)count * sizeof *key);
    if (make_members(g, group) && (!spread || mf_rendezvous_find_owners(g, s->comm)))
        return g;
    free_rendezvous(s, g);
    return NULL;
}

/* f is the first member to arrive. */
static mf_rendezvous *new_rendezvous(const mf_fiber *f, const mf_instr *in, mf_map *top, const int64_t *key, int count, bool spread)
{
    mf_rendezvous *g = make_rendezvous(f->run_state, f->map, f->index, in, top, key, count, spread, false);
    if (!g)
        return NULL;
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
    for (int64_t i = 0; i < g->here_count; i++)
        for (int k = 0; k < in->in_count; k++)
            mf_register_release(&g->members[i].in[k]);
    if (!g->exchange) /* a kept exchange owns it */
        free_rendezvous(s, g);
}

/* ------------------------------------------------------------------ arriving and going on */

static void publish_results(mf_rendezvous *g, mf_fiber **list)
{
    const mf_instr *in = g->instr;
    for (int64_t i = 0; i < g->here_count; i++) {
        mf_map *map = g->members[i].map;
        bool news = false;
        for (int k = 0; k < in->out_count && g->members[i].here; k++)
            if (in->out[k] < 0 && !map->published[~in->out[k]])
                map->published[~in->out[k]] = news = true;
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

bool mf_rendezvous_complete(mf_run_state *s, mf_rendezvous *g, const mf_exchange *x, const mf_fiber *self)
{
    const mf_instr *in = g->instr;
    int64_t n = g->here_count;
    mf_fiber *list = NULL, **end = &list;
    int64_t start = mf_profile_begin();
    mf_error_object *error = NULL;
    bool made = g->lockstep ? mf_lockstep_deliver(g->lockstep, g, x)
                            : mf_rendezvous_deliver(g, x, mf_executable_compiler(s->executable), &error);
    if (start)
        mf_run_state_record(s, start, MF_TRACK_COLLECTIVES, 0, in->source, operand_bytes(in));
    for (int64_t i = 0; i < n && made; i++)
        if (g->members[i].fiber && g->members[i].fiber != self)
            mf_advance(g->members[i].fiber);
    mf_run_state_lock(s);
    if (made && !g->lockstep) /* a lockstep run's fiber continues in place of the exchange's */
        publish_results(g, &list);
    while (*end)
        end = &(*end)->next;
    for (int64_t i = 0; i < n && made; i++) {
        mf_fiber *other = g->members[i].fiber;
        if (!other || other == self)
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
    if (!made)
        mf_step_fail(s, in, error ? error : mf_error_out_of_memory());
    return made;
}

/* Members of other maps get this operand itself, and may outlive this map: so it must not be a slice of memory that this map owns. */
static bool is_lent(const mf_instr *in, int k)
{
    mf_collective_kind kind = in->participants->eqns[k]->op->collective;
    return in->participants->top > 0 && (kind == MF_COLLECTIVE_PERMUTE || kind == MF_COLLECTIVE_COMPARE);
}

/* False: memory is out. */
static bool join(mf_fiber *f, mf_rendezvous *g, int64_t rank)
{
    const mf_instr *in = g->instr;
    mf_participant *m = mf_rendezvous_member(g, rank);
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
        if (is_lent(in, k) && !mf_register_own(&m->in[k], mf_operand_type(f, in->in[k])))
            return false;
    }
    g->arrived++;
    f->waiting = in;
    return true;
}

/* The name of an axis that this process has only a part of; NULL: none. */
static const char *spread_axis(const mf_fiber *f, const mf_participants *m)
{
    for (int a = 0; a < m->axis_count; a++) {
        const mf_fiber *holder = f;
        for (int level = 0; level < m->levels[a]; level++)
            holder = holder->map->parent;
        if (holder->map->plan->size != holder->map->plan->axis_size)
            return m->axes->at[a];
    }
    return NULL;
}

static bool is_ours(const mf_rendezvous *g, const mf_run_state *s, int64_t rank)
{
    return !g->spread || (g->owners.count && mf_comm_owner(s->comm, mf_rendezvous_device(g, rank)) == s->comm->rank);
}

static mf_error_object *not_ours(const mf_rendezvous *g, const mf_run_state *s, int64_t rank)
{
    const char *op = g->instr->eqn->op->name;
    int device = mf_rendezvous_device(g, rank);
    if (!g->owners.count)
        return mf_error_new(MF_ERROR_PEER, "%s: its maps have more devices than the processes together", op);
    return mf_error_new(MF_ERROR_PEER, "%s: this process runs device %d, which process %d has", op, device, mf_comm_owner(s->comm, device));
}

mf_rendezvous *mf_rendezvous_at_once(mf_run_state *s, const mf_instr *in, mf_map *map)
{
    mf_rendezvous *kept = mf_exchange_take_kept(s, in);
    if (kept) {
        kept->top = map;
        kept->map = map;
        return kept;
    }
    mf_rendezvous *g = make_rendezvous(s, map, 0, in, map, NULL, 0, true, true);
    mf_error_object *error = g ? NULL : mf_error_out_of_memory();
    for (int64_t i = 0; i < map->plan->size && !error; i++) { /* rank order is row order */
        g->members[i].here = true;
        if (!is_ours(g, s, g->members[i].rank))
            error = not_ours(g, s, g->members[i].rank);
    }
    if (!error)
        return g;
    mf_step_fail(s, in, error);
    mf_run_state_lock(s);
    if (g)
        mf_rendezvous_free(s, g);
    mf_run_state_unlock(s);
    return NULL;
}

/* Member f leaves its operands; the last member of this process to arrive completes the rendezvous, or begins the exchange. */
static mf_step join_rendezvous(mf_fiber *f, const mf_instr *in, mf_map *top, const int64_t *key, int count, int64_t rank, bool spread)
{
    mf_run_state *s = f->run_state;
    mf_run_state_lock(s);
    mf_rendezvous *g = find_rendezvous(top, in, key, count);
    bool ours = (g || (g = new_rendezvous(f, in, top, key, count, spread))) && is_ours(g, s, rank);
    if (!ours) {
        mf_run_state_unlock(s);
        return mf_step_fail(s, in, g ? not_ours(g, s, rank) : mf_error_out_of_memory());
    }
    if (!join(f, g, rank)) {
        mf_run_state_unlock(s);
        return mf_step_fail(s, in, mf_error_out_of_memory());
    }
    bool last = g->arrived == g->here_count,
         detached = in->participants->detached; /* read now: once f is suspended, the plan may go away */
    bool here = last && !g->spread;
    bool behind = !last && spread && !s->comm->together; /* lets the exchange begin before this fiber goes on */
    int64_t left = 1;
    if (last)
        unlink_rendezvous(g);
    if (here)
        mf_rendezvous_member(g, rank)->fiber = f;
    else if (last && detached) /* the exchange is active beside f, and the map waits for it; not detached, it takes f's place */
        s->active++, top->remaining++;
    else if (!last && !detached)
        left = --s->active;
    mf_run_state_unlock(s);
    if (here)
        return mf_rendezvous_complete(s, g, NULL, f) ? MF_STEP_NEXT : MF_STEP_FAILED;
    if (last && !mf_exchange_begin(s, g)) {
        mf_run_state_lock(s);
        s->active -= detached;
        mf_rendezvous_free(s, g);
        mf_run_state_unlock(s);
        return MF_STEP_FAILED;
    }
    if (!left)
        mf_run_state_over(s);
    return !detached ? MF_STEP_SUSPENDED : behind ? MF_STEP_YIELD : MF_STEP_NEXT;
}

mf_step mf_collective(mf_fiber *f, const mf_instr *in)
{
    const mf_participants *m = in->participants;
    int64_t key[MF_KEY_MAX + 1];
    int count = 0;
    const char *spread = spread_axis(f, m);
    if (spread && !f->run_state->comm)
        return mf_step_fail(
            f->run_state, in,
            mf_error_new(MF_ERROR_PEER, "%s: the axis '%s' spans processes, and nothing joins them", in->eqn->op->name, spread));
    mf_map *top = find_key(f, m, key, &count);
    int64_t rank = top ? rank_in_group(m, position(f, m), key, &count) : 0;
    if (!top || rank < 0 || count > MF_KEY_MAX)
        return mf_step_fail(
            f->run_state, in,
            mf_error_new(MF_ERROR_AXIS, !top ? "%s: nested too deeply" : "%s: axis_index_groups leaves a device out", in->eqn->op->name));
    for (int k = 0; k < in->in_count; k++) /* uniform operands are made contiguous */
        if (in->in[k] >= 0 &&
            !(is_lent(in, k) ? mf_register_own : mf_register_pack)(mf_operand(f, in->in[k]), mf_operand_type(f, in->in[k])))
            return mf_step_fail(f->run_state, in, mf_error_out_of_memory());
    return join_rendezvous(f, in, top, key, count, rank, spread != NULL);
}

mf_step mf_axis_index_value(mf_fiber *f, const mf_instr *in)
{
    mf_register *r = mf_operand(f, in->out[0]);
    mf_register_new(r, in->eqn->out[0]->type->bytes);
    mf_store_i64(in->eqn->out[0]->type->dtype, r->data, position(f, in->participants));
    return MF_STEP_NEXT;
}
