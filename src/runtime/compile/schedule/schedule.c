/* Scheduling: the order in which a program's equations run, grouped into items. Greedy: all ordinary equations that can run form one
 * segment; then control flow and maps that are ready run, each an item, so that more ordinary equations become ready; only when nothing
 * else is ready do collectives run, all that have the same members together.
 * A loop that the compiler takes is an ordinary equation, and so is a barrier: it waits for its operands, and readers of its results wait
 * for it. Where a map spans processes, collectives begin early instead: the one whose operands are ready first, together with those that
 * follow until their bytes fill a bucket, is placed as soon as possible, and what does not depend on it goes on meanwhile.
 * Views (broadcasts, transposes), which cost nothing inside a segment but need memory between two, go where they are read.
 * What the host sees (prints, calls with an effect) is on the device's side and keeps the program's order, an item each.
 * Invariant: an item's operands are made by earlier items or within it; a value of the uniform side comes from the device's side only
 * through a collective over the mapped axis. */
#include "runtime/compile/schedule/schedule.h"

#include "passes/passes.h"
#include "runtime/comm.h"
#include "trace/checks/check_list.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ kinds of equations */

static mf_instr_kind kind_of(const mf_schedule *s, const mf_eqn *e)
{
    bool loop = e->op->flags & MF_OP_LOOP;
    if (loop && s->compiler->takes_loop && s->compiler->takes_loop(e))
        return MF_DO_SEGMENT;
    if (e->op == &mf_op_axis_index)
        return MF_DO_AXIS_INDEX;
    if (e->op == &mf_op_pmap)
        return MF_DO_MAP;
    if (e->op == &mf_op_while)
        return MF_DO_WHILE;
    if (e->op == &mf_op_scan)
        return MF_DO_SCAN;
    if (e->op->flags & MF_OP_COLLECTIVE)
        return MF_DO_COLLECTIVE;
    return mf_params_program_count(e->op, e->params) ? MF_DO_CALL : MF_DO_SEGMENT;
}

static bool program_uses_axis(const mf_program *p, const mf_axis_env *env, const mf_axis_env *binder);

/* Whether e, or an equation nested in it, names this binder's axis. */
static bool uses_axis(const mf_eqn *e, const mf_axis_env *env, const mf_axis_env *binder)
{
    if ((e->op->flags & MF_OP_COLLECTIVE) || e->op == &mf_op_axis_index) {
        const mf_namelist *axes;
        const mf_intlist *groups;
        int64_t size;
        mf_collective_members(e, &axes, &groups, &size);
        for (int i = 0; axes && i < axes->count; i++)
            if (mf_axis_env_find(env, axes->at[i]) == binder)
                return true;
    }
    int count = mf_params_program_count(e->op, e->params);
    const mf_axis_env *inner = count ? mf_params_env(e->op, e->params, env) : env;
    for (int i = 0; i < count; i++)
        if (program_uses_axis(*mf_params_program_at(e->op, e->params, i), inner, binder))
            return true;
    return false;
}

static bool program_uses_axis(const mf_program *p, const mf_axis_env *env, const mf_axis_env *binder)
{
    for (int i = 0; i < p->eqn_count; i++)
        if (uses_axis(p->eqns[i], env, binder))
            return true;
    return false;
}

/* Whether e, or an equation nested in it, has all of these flags. */
static bool has_flags_inside(const mf_eqn *e, unsigned flags)
{
    if ((e->op->flags & flags) == flags)
        return true;
    for (int i = 0, n = mf_params_program_count(e->op, e->params); i < n; i++) {
        const mf_program *p = *mf_params_program_at(e->op, e->params, i);
        for (int k = 0; k < p->eqn_count; k++)
            if (has_flags_inside(p->eqns[k], flags))
                return true;
    }
    return false;
}

/* Whether e meets other processes: it has collectives over other axes than this map's, and maps span processes. Which processes take part
 * depends on this map's index, so e has to run at each index. */
static bool exchanges_by_index(const mf_schedule *s, const mf_eqn *e)
{
    bool spread = s->spread || (e->op == &mf_op_pmap && ((const mf_pmap_params *)e->params)->local->count);
    for (int i = 0, n = mf_params_program_count(e->op, e->params); i < n && !spread; i++)
        spread = mf_program_spans(*mf_params_program_at(e->op, e->params, i));
    return spread && has_flags_inside(e, MF_OP_COLLECTIVE);
}

/* Whether the host sees e, or an equation nested in it. */
static bool is_observable(const mf_eqn *e) { return has_flags_inside(e, MF_OP_EFFECT | MF_OP_HOST); }

/* ------------------------------------------------------------------ sides */

static bool is_uniform_value(const mf_schedule *s, const mf_variable *v) { return v->constant || s->side[v->id] == MF_UNIFORM; }

static bool operands_once(const mf_schedule *s, const mf_eqn *e)
{
    for (int i = 0; i < e->in_count; i++)
        if (!is_uniform_value(s, e->in[i]))
            return false;
    return true;
}

static bool results_uniform(const mf_schedule *s, const mf_eqn *e)
{
    for (int o = 0; o < e->out_count; o++)
        if (s->variance[e->out[o]->id] & s->bit)
            return false;
    return true;
}

static bool has_groups(const mf_eqn *e)
{
    const mf_namelist *axes;
    const mf_intlist *groups;
    int64_t size;
    mf_collective_members(e, &axes, &groups, &size);
    return groups && groups->count;
}

/* A barrier is not executed: each result is on its operand's side. */
static int side_of_barrier(mf_schedule *s, const mf_eqn *e)
{
    for (int i = 0; i < e->in_count; i++)
        s->side[e->out[i]->id] = is_uniform_value(s, e->in[i]) ? MF_UNIFORM : MF_DEVICE;
    return operands_once(s, e) ? MF_UNIFORM : MF_DEVICE;
}

/* The side that executes e. Its results are on the same side, except that a collective of all devices makes its results equal, and so
 * uniform (with groups each device keeps its own). What meets other processes runs on every device, so how often processes meet does
 * not depend on which operands are held once. */
static int side_of(mf_schedule *s, const mf_eqn *e)
{
    if (e->op->flags & MF_OP_BARRIER)
        return side_of_barrier(s, e);
    bool compared = mf_check_is_on(MF_CHECK_REPLICATED) && !(e->op->flags & MF_OP_COLLECTIVE); /* each device keeps its own */
    bool uniform = s->variance && results_uniform(s, e) && !is_observable(e) && !compared;
    bool talking = uniform && uses_axis(e, s->env, s->env);
    int side = uniform && !talking && operands_once(s, e) && !exchanges_by_index(s, e) ? MF_UNIFORM : MF_DEVICE;
    bool shared = side == MF_UNIFORM || (uniform && talking && kind_of(s, e) == MF_DO_COLLECTIVE && !has_groups(e));
    for (int o = 0; o < e->out_count; o++)
        s->side[e->out[o]->id] = shared ? MF_UNIFORM : MF_DEVICE;
    return side;
}

/* ------------------------------------------------------------------ ordering */

typedef struct list_scheduler {
    mf_schedule *schedule;
    mf_arena *arena;
    int left;             /* equations not yet placed */
    int64_t bucket;       /* bytes of operands of collectives that begin early together; 0: none does */
    unsigned char *state; /* by equation: side, and PLACED */
    unsigned char *kind;
    bool *observable;       /* by equation: is_observable */
    int next_observable;    /* the first observable equation that is not placed yet */
    bool *available;        /* by variable */
    bool *wanted;           /* by equation: only these may be placed; NULL: all */
    int *maker;             /* by variable: the equation that computes it, or -1 */
    unsigned char *readers; /* by variable: working memory of postpone_views */
    const mf_eqn **picked;
} list_scheduler;
enum { PLACED = 2 };

/* Moves uniform views that only segments of the devices read to the devices' side: on the uniform side they would be written to memory,
 * and read back by every device. elsewhere: by variable, working memory: whether anything else reads it. */
static void move_views_to_devices(list_scheduler *o, bool *elsewhere)
{
    mf_schedule *s = o->schedule;
    const mf_program *p = s->program;
    for (int k = 0; k < p->out_count; k++)
        elsewhere[p->out[k]->id] = true;
    for (int i = p->eqn_count - 1; i >= 0; i--) {
        const mf_eqn *e = p->eqns[i];
        if (e->op->flags & MF_OP_BARRIER) {
            for (int k = 0; k < e->in_count; k++)
                elsewhere[e->in[k]->id] |= elsewhere[e->out[k]->id];
            continue;
        }
        bool ordinary = o->kind[i] == MF_DO_SEGMENT;
        if (ordinary && e->op->view && !elsewhere[e->out[0]->id])
            o->state[i] = s->side[e->out[0]->id] = MF_DEVICE;
        bool inside = ordinary && o->state[i] == MF_DEVICE;
        for (int k = 0; k < e->in_count && !inside; k++)
            elsewhere[e->in[k]->id] = true;
    }
}

static bool ready(const list_scheduler *o, int index)
{
    const mf_eqn *e = o->schedule->program->eqns[index];
    if (o->observable[index] && index != o->next_observable)
        return false;
    for (int i = 0; i < e->in_count; i++)
        if (!e->in[i]->constant && !o->available[e->in[i]->id])
            return false;
    return true;
}

static void place(list_scheduler *o, int index, int item)
{
    const mf_eqn *e = o->schedule->program->eqns[index];
    o->state[index] |= PLACED;
    o->left--;
    while (o->next_observable < o->schedule->program->eqn_count &&
           (!o->observable[o->next_observable] || (o->state[o->next_observable] & PLACED)))
        o->next_observable++;
    for (int k = 0; k < e->out_count; k++) {
        o->available[e->out[k]->id] = true;
        o->schedule->made_by[e->out[k]->id] = item;
    }
}

static bool add_item(list_scheduler *o, mf_instr_kind kind, int side, int count)
{
    mf_schedule *s = o->schedule;
    const mf_eqn **eqns = mf_arena_alloc(o->arena, (size_t)count * sizeof *eqns);
    if (!eqns || !mf_grow(&s->items, &s->item_capacity, s->item_count + 1, sizeof *s->items))
        return false;
    memcpy(eqns, o->picked, (size_t)count * sizeof *eqns);
    s->items[s->item_count++] = (mf_item){ kind, side, count, eqns };
    return true;
}

static bool is_open(const list_scheduler *o, int index, int side)
{
    return !(o->state[index] & PLACED) && (o->state[index] & 1) == side && (!o->wanted || o->wanted[index]);
}

static void unplace(list_scheduler *o, int index)
{
    const mf_eqn *e = o->schedule->program->eqns[index];
    o->state[index] &= (unsigned char)~PLACED;
    o->left++;
    for (int k = 0; k < e->out_count; k++) {
        o->available[e->out[k]->id] = false;
        o->schedule->made_by[e->out[k]->id] = -1;
    }
}

/* Takes views out of a segment if only later segments read them. In one segment with its reader a view needs no memory, and a product
 * may be computed differently from it; so where collectives cut the segments must not affect its bits. Returns how many equations are
 * left. */
static int postpone_views(list_scheduler *o, int side, int count)
{
    enum { NOW = 1, LATER = 2 };
    const mf_program *p = o->schedule->program;
    int left = 0;
    memset(o->readers, 0, (size_t)p->var_count);
    for (int k = 0; k < p->out_count; k++)
        o->readers[p->out[k]->id] = NOW;
    for (int i = p->eqn_count - 1; i >= 0; i--) {
        const mf_eqn *e = p->eqns[i];
        bool here = (o->state[i] & PLACED) && e->out_count && o->schedule->made_by[e->out[0]->id] == o->schedule->item_count;
        if (here && e->op->view && o->readers[e->out[0]->id] == LATER)
            unplace(o, i);
        bool later = !(o->state[i] & PLACED) && o->kind[i] == MF_DO_SEGMENT && (o->state[i] & 1) == side && !o->observable[i];
        for (int k = 0; k < e->in_count; k++)
            o->readers[e->in[k]->id] |= later ? LATER : NOW;
    }
    for (int k = 0; k < count; k++)
        if (!o->picked[k]->out_count || (o->state[o->maker[o->picked[k]->out[0]->id]] & PLACED))
            o->picked[left++] = o->picked[k];
    return left;
}

/* Adds the *count picked equations as a segment; resets *count. */
static bool add_segment(list_scheduler *o, int side, int *count, bool *moved)
{
    int left = *count ? postpone_views(o, side, *count) : 0;
    *count = 0;
    *moved |= left > 0;
    return !left || add_item(o, MF_DO_SEGMENT, side, left);
}

/* Places all ordinary equations of one side that are ready; axis_index, which has no operands, goes first. False: memory is out. */
static bool place_ordinary(list_scheduler *o, int side, bool *moved)
{
    const mf_program *p = o->schedule->program;
    int count = 0;
    for (int i = 0; i < p->eqn_count; i++) {
        if (!is_open(o, i, side) || o->kind[i] != MF_DO_AXIS_INDEX)
            continue;
        o->picked[0] = p->eqns[i];
        place(o, i, o->schedule->item_count);
        *moved = true;
        if (!add_item(o, MF_DO_AXIS_INDEX, side, 1))
            return false;
    }
    for (int i = 0; i < p->eqn_count; i++) {
        if (!is_open(o, i, side) || o->kind[i] != MF_DO_SEGMENT || !ready(o, i))
            continue;
        if (o->observable[i] && !add_segment(o, side, &count, moved))
            return false;
        o->picked[count++] = p->eqns[i];
        place(o, i, o->schedule->item_count);
        if (o->observable[i] && !add_segment(o, side, &count, moved))
            return false;
    }
    return add_segment(o, side, &count, moved);
}

static bool place_control(list_scheduler *o, bool *moved)
{
    const mf_program *p = o->schedule->program;
    for (int i = 0; i < p->eqn_count; i++) {
        int kind = o->kind[i], side = o->state[i] & 1;
        if ((o->state[i] & PLACED) || kind == MF_DO_SEGMENT || kind == MF_DO_AXIS_INDEX || kind == MF_DO_COLLECTIVE || !ready(o, i))
            continue;
        o->picked[0] = p->eqns[i];
        place(o, i, o->schedule->item_count);
        *moved = true;
        if (!add_item(o, (mf_instr_kind)kind, side, 1))
            return false;
    }
    return true;
}

static bool same_members(const mf_eqn *a, const mf_eqn *b)
{
    const mf_namelist *axes_a, *axes_b;
    const mf_intlist *groups_a, *groups_b;
    int64_t size_a, size_b;
    mf_collective_members(a, &axes_a, &groups_a, &size_a);
    mf_collective_members(b, &axes_b, &groups_b, &size_b);
    int count_a = groups_a ? groups_a->count : 0, count_b = groups_b ? groups_b->count : 0;
    return axes_a == axes_b && count_a == count_b && (!count_a || (groups_a == groups_b && size_a == size_b));
}

/* Places the first collective that is ready, and all other ready ones with the same members. */
static bool place_collectives(list_scheduler *o, bool *moved)
{
    const mf_program *p = o->schedule->program;
    int count = 0, side = 0;
    for (int i = 0; i < p->eqn_count; i++) {
        if ((o->state[i] & PLACED) || o->kind[i] != MF_DO_COLLECTIVE || !ready(o, i))
            continue;
        if (count && (side != (o->state[i] & 1) || !same_members(o->picked[0], p->eqns[i])))
            continue;
        side = o->state[i] & 1;
        o->picked[count++] = p->eqns[i];
    }
    for (int i = 0, k = 0; i < p->eqn_count && k < count; i++)
        if (p->eqns[i] == o->picked[k]) {
            place(o, i, o->schedule->item_count);
            k++;
        }
    *moved = count > 0;
    return !count || add_item(o, MF_DO_COLLECTIVE, side, count);
}

typedef struct early { /* a collective that depends on ordinary equations only */
    int index, last;   /* last: the last of these */
} early;

static int by_last(const void *a, const void *b)
{
    const early *x = a, *y = b;
    return x->last != y->last ? (x->last > y->last) - (x->last < y->last) : (x->index > y->index) - (x->index < y->index);
}

/* Lists the collectives that depend on ordinary equations only, those whose operands come first at the front. last: working memory, by
 * equation. Returns their number. */
static int list_early(const list_scheduler *o, int *last, early *list)
{
    const mf_program *p = o->schedule->program;
    int count = 0;
    for (int i = 0; i < p->eqn_count; i++) {
        last[i] = 0; /* INT_MAX: it depends on other equations than ordinary ones */
        for (int k = 0; k < p->eqns[i]->in_count; k++) {
            const mf_variable *v = p->eqns[i]->in[k];
            int maker = v->constant ? -1 : o->maker[v->id];
            if (maker < 0 || (o->state[maker] & PLACED))
                continue;
            bool ordinary = o->kind[maker] == MF_DO_SEGMENT || o->kind[maker] == MF_DO_AXIS_INDEX;
            int needed = !ordinary ? INT_MAX : last[maker] > maker ? last[maker] : maker;
            last[i] = needed > last[i] ? needed : last[i];
        }
        if (o->kind[i] == MF_DO_COLLECTIVE && !(o->state[i] & PLACED) && last[i] < INT_MAX)
            list[count++] = (early){ i, last[i] };
    }
    qsort(list, (size_t)count, sizeof *list, by_last);
    return count;
}

/* Marks the collectives to begin next, and everything they depend on; false: there are none. */
static bool want_early(const list_scheduler *o, const early *list, int count, bool *wanted)
{
    const mf_program *p = o->schedule->program;
    int64_t bytes = 0;
    for (int i = 0; i < count && bytes < o->bucket; i++)
        if (!i || same_members(p->eqns[list[0].index], p->eqns[list[i].index])) {
            wanted[list[i].index] = true;
            bytes += p->eqns[list[i].index]->in[0]->type->bytes;
        }
    for (int i = p->eqn_count - 1; i >= 0; i--)
        for (int k = 0; wanted[i] && !(o->state[i] & PLACED) && k < p->eqns[i]->in_count; k++) {
            const mf_variable *v = p->eqns[i]->in[k];
            if (!v->constant && o->maker[v->id] >= 0)
                wanted[o->maker[v->id]] = true;
        }
    return count > 0;
}

/* False when memory is out. */
static bool place_early(list_scheduler *o, bool *moved)
{
    size_t count = (size_t)o->schedule->program->eqn_count + 1;
    bool *wanted = mf_calloc(count, sizeof *wanted);
    int *last = mf_alloc(count * sizeof *last);
    early *list = mf_alloc(count * sizeof *list);
    bool made = wanted && last && list, any = made && want_early(o, list, list_early(o, last, list), wanted);
    o->wanted = wanted;
    for (bool again = any; made && again;) {
        again = false;
        made = place_ordinary(o, MF_UNIFORM, &again) && place_ordinary(o, MF_DEVICE, &again);
    }
    o->wanted = NULL;
    made = made && (!any || place_collectives(o, moved));
    mf_free(wanted);
    mf_free(last);
    mf_free(list);
    return made;
}

static mf_error_object *order(list_scheduler *o)
{
    while (o->left) {
        bool moved = false;
        if (o->bucket && !place_early(o, &moved))
            return mf_error_out_of_memory();
        if (moved)
            continue;
        if (!place_ordinary(o, MF_UNIFORM, &moved) || !place_ordinary(o, MF_DEVICE, &moved) || !place_control(o, &moved))
            return mf_error_out_of_memory();
        if (!moved && !place_collectives(o, &moved))
            return mf_error_out_of_memory();
        if (!moved)
            return mf_error_new(MF_ERROR_ARGUMENT, "an equation uses a variable that nothing defines");
    }
    return NULL;
}

static uint64_t *variance_inside(const mf_program *p, const mf_axis_env *env, const bool *uniform_in, uint64_t bit)
{
    uint64_t *in = mf_alloc(((size_t)p->in_count + 1) * sizeof *in);
    if (!in)
        return NULL;
    for (int i = 0; i < p->in_count; i++)
        in[i] = uniform_in[i] ? bit - 1 : 2 * bit - 1;
    uint64_t *mask = mf_variance_of(p, env, in);
    mf_free(in);
    return mask;
}

static bool allocate_orderer(mf_schedule *s, list_scheduler *o)
{
    const mf_program *p = s->program;
    size_t eqns = (size_t)p->eqn_count + 1, vars = (size_t)p->var_count + 1;
    s->made_by = mf_arena_alloc(o->arena, vars * sizeof *s->made_by);
    s->side = mf_arena_alloc(o->arena, vars);
    o->state = mf_arena_alloc(o->arena, eqns);
    o->kind = mf_arena_alloc(o->arena, eqns);
    o->observable = mf_arena_alloc(o->arena, eqns);
    o->available = mf_arena_alloc(o->arena, vars);
    o->picked = mf_arena_alloc(o->arena, eqns * sizeof *o->picked);
    o->maker = mf_arena_alloc(o->arena, vars * sizeof *o->maker);
    o->readers = mf_arena_alloc(o->arena, vars);
    return o->readers && o->maker && s->made_by && s->side && o->state && o->kind && o->observable && o->available && o->picked;
}

mf_error_object *mf_schedule_make(mf_schedule *s, const mf_segment_compiler *compiler, mf_arena *arena, const mf_program *p,
                                  const mf_axis_env *env, const bool *uniform_in, int64_t bucket)
{
    list_scheduler o = { .schedule = s, .arena = arena, .left = p->eqn_count, .bucket = bucket };
    *s = (mf_schedule){ .program = p, .compiler = compiler, .env = env, .spread = bucket > 0 };
    if (!allocate_orderer(s, &o))
        return mf_error_out_of_memory();
    for (int i = 0; i < p->var_count; i++)
        s->made_by[i] = o.maker[i] = -1;
    for (int i = 0; i < p->eqn_count; i++)
        for (int k = 0; k < p->eqns[i]->out_count; k++)
            o.maker[p->eqns[i]->out[k]->id] = i;
    if (uniform_in) {
        int depth = mf_axis_env_depth(env, env);
        s->bit = depth < 63 ? (uint64_t)1 << depth : 0;
        s->variance = s->bit ? variance_inside(p, env, uniform_in, s->bit) : NULL;
        if (s->bit && !s->variance)
            return mf_error_out_of_memory();
    }
    for (int i = 0; i < p->in_count; i++) {
        o.available[p->in[i]->id] = true;
        s->side[p->in[i]->id] = uniform_in && uniform_in[i] ? MF_UNIFORM : MF_DEVICE;
    }
    for (int i = 0; i < p->eqn_count; i++) {
        o.kind[i] = (unsigned char)kind_of(s, p->eqns[i]);
        o.state[i] = (unsigned char)side_of(s, p->eqns[i]);
        o.observable[i] = is_observable(p->eqns[i]);
    }
    while (o.next_observable < p->eqn_count && !o.observable[o.next_observable])
        o.next_observable++;
    bool *elsewhere = uniform_in ? mf_arena_alloc(arena, (size_t)p->var_count + 1) : NULL;
    if (elsewhere)
        move_views_to_devices(&o, elsewhere);
    else if (uniform_in)
        return mf_error_out_of_memory();
    return order(&o);
}

void mf_schedule_free(mf_schedule *s)
{
    mf_free((void *)(uintptr_t)s->variance);
    mf_free(s->items);
    s->variance = NULL;
    s->items = NULL;
}
