/* Collectives: members put their operands down in a gathering and are suspended; the last one to come does the arithmetic, hands out the
 * results and makes everybody ready again. Results that are the same for all are written once and shared.
 * Invariants: members of a gathering executed one and the same instruction in the same iterations of the loops around it, and agree in
 * every coordinate that the collective does not run over; sums are one balanced tree over the members in rank order, whoever computes
 * them and in however many pieces. */
#include "runtime/run.h"

#include <string.h>

#define PIECE ((int64_t)256 << 10) /* bytes of all operands that one task reads: they stay in its cache */

/* ------------------------------------------------------------------ who, and which gathering */

static mf_step fail(mf_fiber *f, const mf_instr *in, mf_error_object *e)
{
    if (in->eqn->address)
        mf_error_set_address(e, in->eqn->address);
    mf_stage_fail(f->stage, e);
    return MF_STEP_FAILED;
}

/* This fiber's position along the meeting's axes, row-major in the order of the names. */
static int64_t position(const mf_fiber *f, const mf_meeting *m)
{
    int64_t at = 0;
    for (int a = 0; a < m->axis_count; a++) {
        const mf_fiber *holder = f;
        for (int level = 0; level < m->levels[a]; level++)
            holder = holder->map->parent;
        at = at * m->sizes[a] + holder->index;
    }
    return at;
}

static bool runs_over(const mf_meeting *m, int level)
{
    for (int a = 0; a < m->axis_count; a++)
        if (m->levels[a] == level)
            return true;
    return false;
}

/* Fills the key; the map at which the members meet. NULL: too deep. */
static mf_map *find_key(const mf_fiber *f, const mf_meeting *m, int64_t *key, int *count)
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
static int64_t rank_in_group(const mf_meeting *m, int64_t at, int64_t *key, int *count)
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

static size_t gathering_bytes(const mf_instr *in)
{
    return sizeof(mf_gathering) + (size_t)in->meeting->member_count * (sizeof(mf_member) + (size_t)in->in_count * sizeof(mf_register)) + 16;
}

/* Of the group that a key's last number names; groups of different sizes end in -1. */
static int64_t members_of(const mf_meeting *m, const int64_t *key, int count)
{
    int64_t n = m->member_count;
    if (m->groups)
        while (m->groups->at[key[count - 1] * m->member_count + n - 1] < 0)
            n--;
    return n;
}

static mf_gathering *new_gathering(mf_stage *s, const mf_instr *in, mf_map *top, const int64_t *key, int count)
{
    mf_gathering *g = mf_stage_get(s, gathering_bytes(in));
    if (!g)
        return NULL;
    int64_t n = in->meeting->member_count;
    mf_register *registers = (mf_register *)(((uintptr_t)(g + 1) + 15) & ~(uintptr_t)15);
    g->members = (mf_member *)(void *)(registers + n * in->in_count);
    for (int64_t i = 0; i < n; i++)
        g->members[i].in = registers + i * in->in_count;
    g->instr = in;
    g->member_count = members_of(in->meeting, key, count);
    g->top = top;
    g->key_count = count;
    memcpy(g->key, key, (size_t)count * sizeof *key);
    g->next = top->gatherings;
    top->gatherings = g;
    return g;
}

static mf_gathering *find_gathering(mf_map *top, const mf_instr *in, const int64_t *key, int count)
{
    for (mf_gathering *g = top->gatherings; g; g = g->next)
        if (g->instr == in && g->key_count == count && !memcmp(g->key, key, (size_t)count * sizeof *key))
            return g;
    return NULL;
}

static void unlink_gathering(mf_gathering *g)
{
    mf_gathering **at = &g->top->gatherings;
    while (*at != g)
        at = &(*at)->next;
    *at = g->next;
}

void mf_gathering_free(mf_stage *s, mf_gathering *g)
{
    const mf_instr *in = g->instr;
    for (int64_t i = 0; i < in->meeting->member_count; i++)
        for (int k = 0; k < in->in_count; k++)
            mf_register_release(&g->members[i].in[k]);
    mf_stage_put(s, g, gathering_bytes(in));
}

static void add_number(mf_text *t, int *count, int device)
{
    if (*count < 16)
        mf_text_add(t, "%s%d", *count ? ", " : "", device);
    else if (*count == 16)
        mf_text_put(t, ", ...");
    ++*count;
}

/* ------------------------------------------------------------------ arithmetic */

typedef struct job { /* one result of one gathering */
    mf_gathering *g;
    int k;
    int64_t n;
    const mf_type *in, *out;
    const mf_backend *backend;
    const void **from; /* operands by rank */
} job;

typedef struct cut {
    const mf_backend *backend;
    const void **members;
    int64_t n;
    mf_reducer how;
    mf_dtype dtype;
    int64_t count, piece;
    void *out;
    _Atomic bool failed;
} cut;

static void reduce_piece(void *context, int64_t i)
{
    cut *c = context;
    int64_t from = i * c->piece, to = from + c->piece < c->count ? from + c->piece : c->count;
    if (!c->backend->reduce(c->how, c->dtype, c->members, (int)c->n, c->out, c->count, from, to))
        atomic_store(&c->failed, true);
}

bool mf_collective_reduce(const mf_backend *backend, const mf_eqn *e, const void **members, int64_t n, void *out)
{
    mf_reducer how = e->op == &mf_op_pmax ? MF_REDUCE_MAX : e->op == &mf_op_pmin ? MF_REDUCE_MIN : MF_REDUCE_SUM;
    cut c = { backend, members, n, how, e->in[0]->type->dtype, e->in[0]->type->size, 0, out, false };
    if (mf_dtype_is_complex(c.dtype)) { /* sums of pairs */
        c.dtype = c.dtype == MF_C64 ? MF_F32 : MF_F64;
        c.count *= 2;
    }
    c.piece = PIECE / (n * mf_dtype_size(c.dtype));
    c.piece = c.piece < 1024 ? 1024 : c.piece & ~(int64_t)63;
    if (c.count <= 2 * c.piece) {
        c.piece = c.count;
        if (c.count)
            reduce_piece(&c, 0);
        return !atomic_load(&c.failed);
    }
    mf_parallel_for((c.count + c.piece - 1) / c.piece, reduce_piece, &c);
    return !atomic_load(&c.failed);
}

/* Where member `rank` gets result k: its own register, or the shared one of its map (which the first of the map fills). */
static void deliver(const job *j, int64_t rank, const mf_register *value)
{
    mf_member *m = &j->g->members[rank];
    int ref = j->g->instr->out[j->k];
    mf_register *to = ref >= 0 ? &m->fiber->top->registers[ref] : &m->map->once->registers[~ref];
    if (!to->data)
        mf_register_copy(to, value);
}

static void deliver_to_all(const job *j, mf_register *value)
{
    for (int64_t i = 0; i < j->n; i++)
        deliver(j, i, value);
    mf_register_release(value);
}

static bool do_reduce(const job *j)
{
    mf_register sum = { 0 };
    if (!mf_register_new(&sum, j->out->bytes))
        return false;
    if (!mf_collective_reduce(j->backend, j->g->instr->meeting->eqns[j->k], j->from, j->n, sum.data)) {
        mf_register_release(&sum);
        return false;
    }
    deliver_to_all(j, &sum);
    return true;
}

/* Part i of n of a whole along an axis: its strides within the whole, and the bytes from part to part. An axis of the parts' own
 * (axis_is_new) has one part an index. */
static int64_t part_strides(const mf_type *whole, int64_t axis, bool axis_is_new, int64_t n, int64_t *strides)
{
    int64_t all[MF_RANK], step;
    mf_contiguous_strides(whole, all);
    step = axis_is_new ? all[axis] : all[axis] * (whole->dims[axis] / n);
    for (int i = 0, k = 0; i < whole->rank; i++)
        if (!axis_is_new || i != axis)
            strides[k++] = all[i];
    return step;
}

static bool do_all_gather(const job *j)
{
    const mf_gather_axis_params *p = j->g->instr->meeting->eqns[j->k]->params;
    mf_register all = { 0 };
    int64_t to[MF_RANK], from[MF_RANK];
    if (!mf_register_new(&all, j->out->bytes))
        return false;
    int64_t step = part_strides(j->out, p->axis, !p->tiled, j->n, to);
    mf_contiguous_strides(j->in, from);
    for (int64_t i = 0; i < j->n; i++)
        mf_copy_strided(j->in->rank, j->in->dims, mf_dtype_size(j->in->dtype), all.data + i * step, to, j->from[i], from);
    deliver_to_all(j, &all);
    return true;
}

/* Parts along the leading axis are views of the one sum. */
static bool do_psum_scatter(const job *j)
{
    const mf_gather_axis_params *p = j->g->instr->meeting->eqns[j->k]->params;
    mf_register sum = { 0 };
    int64_t from[MF_RANK], to[MF_RANK];
    if (!mf_register_new(&sum, j->in->bytes))
        return false;
    bool made = mf_collective_reduce(j->backend, j->g->instr->meeting->eqns[j->k], j->from, j->n, sum.data);
    int64_t step = part_strides(j->in, p->axis, !p->tiled, j->n, from);
    mf_contiguous_strides(j->out, to);
    for (int64_t i = 0; i < j->n && made; i++) {
        mf_register part = { 0 };
        if (p->axis == 0) {
            mf_register_view(&part, &sum, i * step);
        } else if ((made = mf_register_new(&part, j->out->bytes))) {
            mf_copy_strided(j->out->rank, j->out->dims, mf_dtype_size(j->out->dtype), part.data, to, sum.data + i * step, from);
        }
        if (made)
            deliver(j, i, &part);
        mf_register_release(&part);
    }
    mf_register_release(&sum);
    return made;
}

static bool do_all_to_all(const job *j)
{
    const mf_all_to_all_params *p = j->g->instr->meeting->eqns[j->k]->params;
    int64_t from[MF_RANK], to[MF_RANK], dims[MF_RANK];
    int rank = 0;
    int64_t split = part_strides(j->in, p->split_axis, !p->tiled, j->n, from);
    int64_t join = part_strides(j->out, p->concat_axis, !p->tiled, j->n, to);
    for (int i = 0; i < j->in->rank; i++)
        if (p->tiled || i != p->split_axis)
            dims[rank++] = p->tiled && i == p->split_axis ? j->in->dims[i] / j->n : j->in->dims[i];
    for (int64_t r = 0; r < j->n; r++) {
        mf_register all = { 0 };
        if (!mf_register_new(&all, j->out->bytes))
            return false;
        for (int64_t s = 0; s < j->n; s++)
            mf_copy_strided(rank, dims, mf_dtype_size(j->in->dtype), all.data + s * join, to, (const char *)j->from[s] + r * split, from);
        deliver(j, r, &all);
        mf_register_release(&all);
    }
    return true;
}

/* Nothing is copied: a target holds its source's operand. */
static bool do_ppermute(const job *j)
{
    const mf_permute_params *p = j->g->instr->meeting->eqns[j->k]->params;
    for (int i = 0; p->perm && i + 1 < p->perm->count; i += 2) {
        int64_t source = p->perm->at[i], target = p->perm->at[i + 1];
        if (source >= 0 && source < j->n && target >= 0 && target < j->n)
            deliver(j, target, &j->g->members[source].in[j->k]);
    }
    mf_register zeros = { 0 };
    if (!mf_register_new(&zeros, j->out->bytes))
        return false;
    memset(zeros.data, 0, (size_t)j->out->bytes);
    deliver_to_all(j, &zeros); /* who has something keeps it */
    return true;
}

/* Every member's operand against that of the first; then all share it. */
static bool do_check(const job *j, mf_error_object **error)
{
    const mf_replicated_params *p = j->g->instr->meeting->eqns[j->k]->params;
    mf_text differ = { 0 };
    int count = 0;
    for (int64_t i = 1; i < j->n; i++)
        if (j->from[i] != j->from[0] && memcmp(j->from[i], j->from[0], (size_t)j->in->bytes) != 0)
            add_number(&differ, &count, j->g->members[i].device);
    if (count)
        *error = mf_error_new(MF_ERROR_DEVICE, "check_replicated: %s differs over the axis %s: device%s %s %s other bits than device %d",
                              *p->leaf ? p->leaf : "the value", p->axes->at[0], count > 1 ? "s" : "", differ.at ? differ.at : "",
                              count > 1 ? "hold" : "holds", j->g->members[0].device);
    mf_text_free(&differ);
    for (int64_t i = 0; i < j->n && !count; i++)
        deliver(j, i, &j->g->members[0].in[j->k]);
    return !count;
}

/* False with *error, or without when memory is out. */
static bool compute(mf_gathering *g, const mf_backend *backend, mf_error_object **error)
{
    const mf_instr *in = g->instr;
    int64_t n = g->member_count;
    const void **from = mf_alloc((size_t)n * sizeof *from);
    bool made = from;
    for (int k = 0; k < in->out_count && made; k++) {
        const mf_eqn *e = in->meeting->eqns[k];
        job j = { g, k, n, e->in[0]->type, e->out[0]->type, backend, from };
        for (int64_t i = 0; i < n; i++)
            from[i] = g->members[i].in[k].data;
        if (e->op == &mf_op_all_gather)
            made = do_all_gather(&j);
        else if (e->op == &mf_op_psum_scatter)
            made = do_psum_scatter(&j);
        else if (e->op == &mf_op_all_to_all)
            made = do_all_to_all(&j);
        else if (e->op == &mf_op_ppermute)
            made = do_ppermute(&j);
        else if (e->op == &mf_op_check_replicated)
            made = do_check(&j, error);
        else
            made = do_reduce(&j);
    }
    mf_free(from);
    return made;
}

/* ------------------------------------------------------------------ arriving and going on */

static void announce(mf_gathering *g, mf_fiber **list)
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
        bytes += in->meeting->eqns[k]->in[0]->type->bytes;
    return bytes;
}

/* The last member f has come: computes, and makes the others ready; f itself goes on. */
static mf_step complete(mf_fiber *f, mf_gathering *g)
{
    mf_stage *s = f->stage;
    const mf_instr *in = g->instr;
    int64_t n = g->member_count;
    mf_fiber *list = NULL, **end = &list;
    int64_t start = mf_profile_begin();
    mf_error_object *error = NULL;
    bool made = compute(g, mf_executable_backend(s->executable), &error);
    if (start)
        mf_profile_equations(start, MF_ROW_COLLECTIVES, 0, in->source, operand_bytes(in));
    for (int64_t i = 0; i < n && made; i++)
        if (g->members[i].fiber && g->members[i].fiber != f)
            mf_advance(g->members[i].fiber);
    mf_stage_lock(s);
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
    mf_gathering_free(s, g);
    mf_stage_unlock(s);
    if (list)
        mf_ready(s, list);
    return made ? MF_STEP_NEXT : fail(f, in, error ? error : mf_error_out_of_memory());
}

static void join(mf_fiber *f, mf_gathering *g, int64_t rank)
{
    const mf_instr *in = g->instr;
    mf_member *m = &g->members[rank];
    m->fiber = in->meeting->detached ? NULL : f;
    m->map = f->map;
    m->index = f->index;
    m->device = f->device;
    m->here = true;
    for (int k = 0; k < in->in_count; k++) {
        mf_register *from = mf_operand(f, in->in[k]);
        if (in->takes[k])
            mf_register_move(&m->in[k], from);
        else
            mf_register_copy(&m->in[k], from);
    }
    g->arrived++;
    f->waiting = in;
}

mf_step mf_collective(mf_fiber *f, const mf_instr *in)
{
    mf_stage *s = f->stage;
    const mf_meeting *m = in->meeting;
    int64_t key[MF_KEY_MAX + 1];
    int count = 0;
    mf_map *top = find_key(f, m, key, &count);
    int64_t rank = top ? rank_in_group(m, position(f, m), key, &count) : 0;
    if (!top || rank < 0 || count > MF_KEY_MAX)
        return fail(
            f, in,
            mf_error_new(MF_ERROR_AXIS, !top ? "%s: nested too deeply" : "%s: axis_index_groups leaves a device out", in->eqn->op->name));
    for (int k = 0; k < in->in_count; k++) /* shared ones are packed */
        if (in->in[k] >= 0 && !mf_register_pack(mf_operand(f, in->in[k]), mf_operand_type(f, in->in[k])))
            return fail(f, in, mf_error_out_of_memory());
    mf_stage_lock(s);
    mf_gathering *g = find_gathering(top, in, key, count);
    if (!g && !(g = new_gathering(s, in, top, key, count))) {
        mf_stage_unlock(s);
        return fail(f, in, mf_error_out_of_memory());
    }
    join(f, g, rank);
    bool last = g->arrived == g->member_count, detached = m->detached; /* parked, not even the plan is ours to read */
    int64_t left = 1;
    if (last) {
        unlink_gathering(g);
        g->members[rank].fiber = f;
    } else if (!detached) {
        left = --s->active;
    }
    mf_stage_unlock(s);
    if (last)
        return complete(f, g);
    if (!left)
        mf_stage_over(s);
    return detached ? MF_STEP_NEXT : MF_STEP_PARKED;
}

mf_step mf_axis_index_value(mf_fiber *f, const mf_instr *in)
{
    mf_register *r = mf_operand(f, in->out[0]);
    mf_register_new(r, in->eqn->out[0]->type->bytes);
    mf_store_i64(in->eqn->out[0]->type->dtype, r->data, position(f, in->meeting));
    return MF_STEP_NEXT;
}

/* ------------------------------------------------------------------ disagreement */

static void list_axes(mf_text *t, const mf_meeting *m)
{
    for (int a = 0; a < m->axis_count; a++)
        mf_text_add(t, "%s'%s'", a ? ", " : "", m->axes->at[a]);
}

/* The device that a missing member would be: the coordinates of a present one with its own along the meeting's axes. */
static int device_of_rank(const mf_gathering *g, const mf_member *present, int64_t rank)
{
    const mf_meeting *m = g->instr->meeting;
    int64_t at = m->groups ? m->groups->at[g->key[g->key_count - 1] * m->member_count + rank] : rank;
    int64_t coordinate[MF_LEVELS], index[MF_LEVELS], position = 0;
    for (int level = 0; level < MF_LEVELS; level++)
        coordinate[level] = -1;
    for (int a = m->axis_count - 1; a >= 0; a--) {
        coordinate[m->levels[a]] = at % m->sizes[a];
        at /= m->sizes[a];
    }
    const mf_map *map = present->map, *maps[MF_LEVELS] = { map };
    int64_t own = present->index;
    for (int level = 0; level <= m->top; level++, own = map->parent->index, map = map->parent->map) {
        maps[level] = map;
        index[level] = coordinate[level] >= 0 ? coordinate[level] : own < 0 ? 0 : own;
    }
    for (int level = m->top; level >= 0; level--)
        position += index[level] * maps[level]->plan->device->span;
    return mf_map_device_at(maps[m->top], position);
}

static const char *whereabouts(const mf_stage *s, int device)
{
    for (const mf_fiber *f = s->live; f; f = f->live_after)
        if (f->device == device && f->index >= 0 && f->waiting && f->waiting->kind == MF_DO_COLLECTIVE && f->top)
            return f->waiting->eqn->op->name;
    return NULL;
}

static void describe_gathering(mf_text *t, const mf_stage *s, const mf_gathering *g)
{
    const mf_meeting *m = g->instr->meeting;
    const mf_member *present = NULL;
    int here = 0, away = 0, first = -1;
    mf_text_add(t, "%s over ", g->instr->eqn->op->name);
    list_axes(t, m);
    mf_text_put(t, " was reached by devices ");
    for (int64_t i = 0; i < g->member_count; i++)
        if (g->members[i].here) {
            present = &g->members[i];
            add_number(t, &here, present->device);
        }
    mf_text_put(t, ", but devices ");
    for (int64_t i = 0; i < g->member_count; i++)
        if (!g->members[i].here) {
            int device = device_of_rank(g, present, i);
            first = first < 0 ? device : first;
            add_number(t, &away, device);
        }
    const char *elsewhere = whereabouts(s, first);
    if (elsewhere)
        mf_text_add(t, " took another way: device %d waits in another %s", first, elsewhere);
    else
        mf_text_put(t, " never come to it");
}

mf_error_object *mf_disagreement(mf_stage *s)
{
    mf_text t = { 0 };
    const void *address = NULL;
    for (mf_map *m = s->maps; m && !t.count; m = m->live_after)
        if (m->gatherings) {
            describe_gathering(&t, s, m->gatherings);
            address = m->gatherings->instr->eqn->address;
        }
    if (!t.count)
        mf_text_put(&t, "the devices wait for each other");
    mf_error_object *e = mf_error_new(MF_ERROR_DEVICE,
                                      "The devices disagree: %s. Control flow must agree among the devices of a collective.",
                                      t.at && !t.failed ? t.at : "");
    if (address)
        mf_error_set_address(e, address);
    mf_text_free(&t);
    return e;
}
