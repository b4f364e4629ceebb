/* Maps in lockstep: a small map whose devices only compute and reduce runs without fibers, instruction by instruction for all devices at
 * once, on the calling thread. A value of all devices is a stack of rows, so a kernel gets pointers to the first rows, and steps. If the
 * map spans processes, its fiber is suspended at each reduction until the other processes' contributions have arrived.
 * Invariants: the instructions are those of the map's two blocks in the order of their common schedule, so results are the same to the
 * bit; rows of different devices never overlap; a result's memory is written by one instruction, or copied at the end. */
#include "runtime/compile/planner.h"
#include "runtime/collectives/collectives.h"

#include <string.h>

#define MOST_STACK  ((size_t)256 << 10) /* bytes of intermediate values: beyond this, running device after device uses the cache better */
#define MOST_COPIED 4096                /* bytes of a constant that is a result; outside of lockstep larger ones are shared */

typedef enum value_place { NOWHERE, IN_OPERAND, IN_RESULT, IN_STACK, IN_CONSTANT } value_place;

typedef struct value { /* by register: first those of the device block, then those of the uniform block */
    value_place place;
    int index;     /* of the operand or the result, or of the constant in its block's list */
    size_t offset; /* in the stack */
    int64_t step;  /* between devices; 0: one for all. An operand's is known at run time */
} value;

typedef struct action {
    const mf_instr *instr;
    bool uniform;
    int *in, *out; /* indices of values */
} action;

struct mf_lockstep {
    int value_count, device_count, action_count; /* device_count: values of the device block */
    value *values;
    action *actions;
    size_t stack_bytes, kernel_bytes, bytes; /* bytes: all of the scratch */
    int most_operands;
    bool *late; /* by result: its memory comes from an exchange, which adds up the processes' contributions */
};

/* ------------------------------------------------------------------ planning */

static bool reduces(const mf_instr *in)
{
    const mf_participants *m = in->participants;
    if (m->axis_count != 1 || m->levels[0] != 0 || m->groups)
        return false;
    for (int k = 0; k < in->out_count; k++)
        if (m->eqns[k]->op->collective != MF_COLLECTIVE_REDUCE)
            return false;
    return true;
}

static bool can_step(const mf_instr *in)
{
    switch (in->kind) {
    case MF_DO_SEGMENT:
    case MF_DO_ALIAS:
    case MF_DO_AWAIT: return true;
    case MF_DO_COLLECTIVE: return reduces(in);
    case MF_DO_AXIS_INDEX: return in->participants->axis_count == 1 && in->participants->levels[0] == 0;
    default: return false;
    }
}

static bool all_can(const mf_block *b)
{
    for (int t = 0; t < b->instr_count; t++)
        if (!can_step(b->instrs[t]))
            return false;
    return true;
}

static bool is_spread(const mf_map_plan *plan) { return plan->axis_size != plan->size; }

static const mf_type *type_of(const mf_map_plan *plan, int v)
{
    int count = plan->device->register_count;
    return v < count ? plan->device->types[v] : plan->uniform->types[v - count];
}

static int value_of(const mf_map_plan *plan, bool uniform, int ref)
{
    int count = plan->device->register_count;
    return uniform ? count + ref : ref >= 0 ? ref : count + ~ref;
}

/* The result in whose memory this register is computed: a stacked result, or a uniform one. -1: none. */
static int destination_of(const mf_map_plan *plan, int v, bool same_for_all)
{
    for (int o = 0; o < plan->out_count; o++)
        if (plan->out[o].forward < 0 && plan->out[o].uniform == same_for_all && value_of(plan, false, plan->device->out[o]) == v)
            return o;
    return -1;
}

static void place_written(mf_lockstep *l, const mf_map_plan *plan, int v, bool same_for_all)
{
    value *to = &l->values[v];
    const mf_type *type = type_of(plan, v);
    int o = destination_of(plan, v, same_for_all);
    to->step = same_for_all ? 0 : type->bytes;
    if (o >= 0) {
        to->place = IN_RESULT;
        to->index = o;
        return;
    }
    to->place = IN_STACK;
    to->offset = l->stack_bytes;
    l->stack_bytes += ((size_t)(type->bytes * (same_for_all ? 1 : plan->size)) + 63) & ~(size_t)63;
}

static void place_known(mf_lockstep *l, const mf_map_plan *plan, const mf_block *b, int first)
{
    for (int i = 0; i < plan->in_count; i++)
        if (b->in[i] >= 0)
            l->values[first + b->in[i]] = (value){ .place = IN_OPERAND, .index = i };
    for (int c = 0; c < b->constant_count; c++)
        l->values[first + b->constants[c]] = (value){ .place = IN_CONSTANT, .index = c };
}

static void add_action(mf_planner *m, mf_lockstep *l, const mf_map_plan *plan, const mf_instr *in, bool uniform)
{
    action *a = &l->actions[l->action_count];
    *a = (action){ in, uniform, mf_planner_alloc(m, (size_t)in->in_count, sizeof *a->in),
                   mf_planner_alloc(m, (size_t)in->out_count, sizeof *a->out) };
    if (m->error)
        return;
    for (int i = 0; i < in->in_count; i++)
        a->in[i] = value_of(plan, uniform, in->in[i]);
    for (int o = 0; o < in->out_count; o++) {
        a->out[o] = value_of(plan, uniform, in->out[o]);
        if (in->kind == MF_DO_ALIAS)
            l->values[a->out[o]] = l->values[a->in[0]];
        else
            place_written(l, plan, a->out[o], uniform || in->kind == MF_DO_COLLECTIVE);
        if (in->kind == MF_DO_COLLECTIVE && is_spread(plan) && l->values[a->out[o]].place == IN_RESULT)
            l->late[l->values[a->out[o]].index] = true;
    }
    if (in->kind == MF_DO_SEGMENT && in->kernel->scratch_bytes > l->kernel_bytes)
        l->kernel_bytes = in->kernel->scratch_bytes;
    if (in->in_count + in->out_count > l->most_operands)
        l->most_operands = in->in_count + in->out_count;
    l->action_count += in->kind != MF_DO_ALIAS;
}

/* Lists both blocks in the order of their common schedule; nothing has to wait in this order. */
static void list_actions(mf_planner *m, mf_lockstep *l, const mf_map_plan *plan)
{
    const mf_block *b[2] = { plan->device, plan->uniform };
    for (int at[2] = { 0, 0 }; !m->error && (at[0] < b[0]->instr_count || at[1] < b[1]->instr_count);) {
        int side = at[0] == b[0]->instr_count ||
                   (at[1] < b[1]->instr_count && b[1]->instrs[at[1]]->position < b[0]->instrs[at[0]]->position);
        const mf_instr *in = b[side]->instrs[at[side]++];
        if (in->kind != MF_DO_AWAIT)
            add_action(m, l, plan, in, side);
    }
}

mf_lockstep *mf_lockstep_make(mf_planner *m, const mf_map_plan *plan)
{
    if (m->error || !all_can(plan->device) || !all_can(plan->uniform))
        return NULL;
    int values = plan->device->register_count + plan->uniform->register_count,
        most = plan->device->instr_count + plan->uniform->instr_count;
    mf_lockstep *l = mf_planner_alloc(m, 1, sizeof *l);
    if (!l)
        return NULL;
    l->value_count = values;
    l->device_count = plan->device->register_count;
    l->values = mf_planner_alloc(m, (size_t)values, sizeof *l->values);
    l->actions = mf_planner_alloc(m, (size_t)most, sizeof *l->actions);
    l->late = mf_planner_alloc(m, (size_t)plan->out_count, sizeof *l->late);
    if (m->error)
        return NULL;
    place_known(l, plan, plan->device, 0);
    place_known(l, plan, plan->uniform, l->device_count);
    list_actions(m, l, plan);
    for (int o = 0; o < plan->out_count; o++) {
        int v = value_of(plan, false, plan->device->out[o]);
        if (l->values[v].place == IN_CONSTANT && type_of(plan, v)->bytes > MOST_COPIED)
            return NULL;
    }
    l->bytes = l->stack_bytes + ((l->kernel_bytes + 63) & ~(size_t)63) + (size_t)(values + 2 * l->most_operands) * sizeof(void *) +
               (size_t)plan->size * sizeof(void *) + (size_t)plan->in_count * sizeof(int64_t);
    return m->error || l->stack_bytes > MOST_STACK ? NULL : l;
}

/* ------------------------------------------------------------------ runs */

typedef struct mf_lockstep_run {
    mf_fiber *fiber;
    int next; /* the next action */
    const mf_instr *map;
    const mf_map_plan *plan;
    const mf_lockstep *lockstep;
    unsigned char *stack, *scratch;
    unsigned char **at;     /* by value: where device 0's is */
    int64_t *in_steps;      /* by operand of the map: bytes between devices */
    void **pointers;        /* operands, then results of an action */
    int64_t *steps;         /* bytes between devices, of these */
    const void **members;   /* by device */
    size_t held_bytes;      /* size of a run that may be suspended; its memory is the run state's */
    mf_map *rendezvous_map; /* for rendezvous; large, so only a run that may be suspended has one */
} run;

static mf_step fail(const run *r, const mf_instr *in, mf_error_object *e) { return mf_step_fail(r->fiber->run_state, in, e); }

/* Whether every operand's slices are contiguous; finds the bytes between them. */
static bool find_steps(const run *r)
{
    const mf_map_plan *plan = r->plan;
    for (int i = 0; i < plan->in_count; i++) {
        const mf_register *from = mf_operand(r->fiber, r->map->in[i]);
        if (plan->device->in[i] >= 0 && !mf_map_slices(from, plan->types[i], plan->shards[i], plan->axes[i], &r->in_steps[i]))
            return false;
        if (plan->uniform->in[i] < 0)
            continue;
        r->in_steps[i] = 0;
        if (plan->axes[i] == INT64_MIN && from->strides)
            return false;
    }
    return true;
}

static int64_t step_of(const run *r, int v)
{
    const value *x = &r->lockstep->values[v];
    return x->place == IN_OPERAND ? r->in_steps[x->index] : x->step;
}

/* Whether result o is a uniform operand: then they share memory, which may be large. */
static bool is_operand(const run *r, int o)
{
    return r->plan->out[o].uniform && r->lockstep->values[value_of(r->plan, false, r->plan->device->out[o])].place == IN_OPERAND;
}

static bool make_results(const run *r)
{
    for (int o = 0; o < r->plan->out_count; o++) {
        const mf_map_output *out = &r->plan->out[o];
        mf_register *to = mf_operand(r->fiber, r->map->out[o]);
        if (r->lockstep->late[o])
            continue;
        if (out->forward >= 0) {
            mf_register_copy(to, mf_operand(r->fiber, r->map->in[out->forward]));
            if (!to->buffer && !mf_register_own(to, out->type))
                return false;
            continue;
        }
        if (out->donor >= 0 && !out->uniform && mf_map_donate(r->plan, r->map, o, mf_operand(r->fiber, r->map->in[out->donor]), to))
            continue;
        if (is_operand(r, o)) {
            mf_register_copy(
                to, mf_operand(r->fiber, r->map->in[r->lockstep->values[value_of(r->plan, false, r->plan->device->out[o])].index]));
            to->strides = NULL;
            if (!mf_register_own(to, out->shard))
                return false;
            continue;
        }
        if (!mf_register_new(to, out->shard->bytes * (out->uniform ? 1 : r->plan->size)))
            return false;
    }
    return true;
}

static void find_values(const run *r)
{
    const mf_lockstep *l = r->lockstep;
    for (int v = 0; v < l->value_count; v++) {
        const value *x = &l->values[v];
        const mf_block *b = v < l->device_count ? r->plan->device : r->plan->uniform;
        switch (x->place) {
        case IN_OPERAND: r->at[v] = mf_operand(r->fiber, r->map->in[x->index])->data; break;
        case IN_RESULT: r->at[v] = mf_operand(r->fiber, r->map->out[x->index])->data; break;
        case IN_STACK: r->at[v] = r->stack + x->offset; break;
        case IN_CONSTANT: r->at[v] = (void *)(uintptr_t)b->literals[x->index]->data; break;
        case NOWHERE: break;
        }
    }
}

static mf_error_object *run_kernel(const run *r, const action *a)
{
    const mf_instr *in = a->instr;
    mf_kernel *k = in->kernel;
    void **out = r->pointers + in->in_count;
    int64_t *out_steps = r->steps + in->in_count;
    for (int i = 0; i < in->in_count; i++) {
        r->pointers[i] = r->at[a->in[i]];
        r->steps[i] = step_of(r, a->in[i]);
    }
    for (int o = 0; o < in->out_count; o++) {
        out[o] = r->at[a->out[o]];
        out_steps[o] = r->lockstep->values[a->out[o]].step;
    }
    const void *const *from = (const void *const *)r->pointers;
    if (a->uniform)
        return k->compiler->run(k, from, out, r->scratch);
    if (k->compiler->run_stacked)
        return k->compiler->run_stacked(k, r->plan->size, from, r->steps, out, out_steps, r->scratch);
    mf_error_object *e = NULL;
    for (int64_t d = 0; d < r->plan->size && !e; d++) {
        e = k->compiler->run(k, from, out, r->scratch);
        for (int i = 0; i < in->in_count + in->out_count; i++)
            r->pointers[i] = (char *)r->pointers[i] + r->steps[i];
    }
    return e;
}

static mf_error_object *run_collective(const run *r, const action *a)
{
    const mf_instr *in = a->instr;
    for (int k = 0; k < in->out_count; k++) {
        const mf_eqn *e = in->participants->eqns[k];
        int64_t step = step_of(r, a->in[k]);
        for (int64_t d = 0; d < r->plan->size; d++)
            r->members[d] = r->at[a->in[k]] + d * step;
        if (!mf_collective_reduce(mf_executable_compiler(r->fiber->run_state->executable), e, e->in[0]->type->dtype, r->members,
                                  r->plan->size, e->in[0]->type->size, r->at[a->out[k]]))
            return mf_error_out_of_memory();
    }
    return NULL;
}

static void run_axis_index(const run *r, const action *a)
{
    const mf_type *type = type_of(r->plan, a->out[0]);
    for (int64_t d = 0; d < r->plan->size; d++)
        mf_store_i64(type->dtype, r->at[a->out[0]] + d * type->bytes, mf_map_index(r->plan, d));
}

static mf_error_object *run_action(const run *r, const action *a)
{
    if (a->instr->kind == MF_DO_SEGMENT)
        return run_kernel(r, a);
    if (a->instr->kind == MF_DO_COLLECTIVE)
        return run_collective(r, a);
    run_axis_index(r, a);
    return NULL;
}

/* Copies results that were not computed in place, and sets all results' layout and sharding. */
static void end_results(const run *r)
{
    for (int o = 0; o < r->plan->out_count; o++) {
        const mf_map_output *out = &r->plan->out[o];
        mf_register *to = mf_operand(r->fiber, r->map->out[o]);
        int v = value_of(r->plan, false, r->plan->device->out[o]);
        to->sharding = r->fiber->map ? NULL : out->sharding;
        if (out->forward >= 0)
            continue;
        to->strides = out->contiguous ? NULL : out->strides;
        if ((r->lockstep->values[v].place == IN_RESULT && r->lockstep->values[v].index == o) || is_operand(r, o) || !out->shard->bytes)
            continue;
        int64_t bytes = out->shard->bytes, step = step_of(r, v);
        for (int64_t d = 0; d < (out->uniform ? 1 : r->plan->size); d++)
            memcpy(to->data + d * bytes, r->at[v] + d * step, (size_t)bytes);
    }
}

/* ------------------------------------------------------------------ with other processes */

static bool begin_exchange(run *r, const action *a)
{
    mf_run_state *s = r->fiber->run_state;
    mf_rendezvous *g = mf_rendezvous_at_once(s, a->instr, r->rendezvous_map);
    if (!g)
        return false;
    g->lockstep = r;
    for (int64_t d = 0; d < r->plan->size; d++)
        for (int k = 0; k < a->instr->in_count; k++)
            g->members[d].in[k] = (mf_register){ .data = r->at[a->in[k]] + d * step_of(r, a->in[k]) };
    r->fiber->waiting = a->instr;
    if (mf_exchange_begin(s, g)) /* another thread may continue r from here */
        return true;
    mf_run_state_lock(s);
    mf_rendezvous_free(s, g);
    mf_run_state_unlock(s);
    return false;
}

mf_fiber *mf_lockstep_fiber(const run *r) { return r->fiber; }

bool mf_lockstep_deliver(run *r, const mf_rendezvous *g, const mf_exchange *x)
{
    const action *a = &r->lockstep->actions[r->next - 1];
    bool made = true;
    for (int k = 0; k < g->instr->out_count && made; k++) {
        const value *to = &r->lockstep->values[a->out[k]];
        mf_register sum = { 0 };
        made = mf_exchange_reduce(x, k, &sum);
        if (made && to->place == IN_RESULT)
            mf_register_move(mf_operand(r->fiber, r->map->out[to->index]), &sum);
        else if (made && sum.data)
            memcpy(r->at[a->out[k]], sum.data, (size_t)type_of(r->plan, a->out[k])->bytes);
        mf_register_release(&sum);
    }
    r->fiber->next = NULL;
    find_values(r);
    return made;
}

/* ------------------------------------------------------------------ from action to action */

static mf_step continue_run(run *r)
{
    while (r->next < r->lockstep->action_count) {
        const action *a = &r->lockstep->actions[r->next++];
        if (a->instr->kind == MF_DO_COLLECTIVE && is_spread(r->plan))
            return begin_exchange(r, a) ? MF_STEP_SUSPENDED : MF_STEP_FAILED;
        mf_error_object *e = run_action(r, a);
        if (e)
            return fail(r, a->instr, e);
    }
    end_results(r);
    return MF_STEP_NEXT;
}

/* scratch: of l->bytes. False: an operand's layout does not allow it. */
static bool begin(run *r, unsigned char *scratch, mf_step *step)
{
    const mf_lockstep *l = r->lockstep;
    r->stack = scratch;
    r->scratch = scratch + l->stack_bytes;
    r->at = (unsigned char **)(void *)(r->scratch + ((l->kernel_bytes + 63) & ~(size_t)63));
    r->pointers = (void **)(void *)(r->at + l->value_count);
    r->steps = (int64_t *)(void *)(r->pointers + l->most_operands);
    r->members = (const void **)(void *)(r->steps + l->most_operands);
    r->in_steps = (int64_t *)(void *)(r->members + r->plan->size);
    if (!find_steps(r))
        return false;
    if (!make_results(r)) {
        *step = fail(r, r->map, mf_error_out_of_memory());
        return true;
    }
    find_values(r);
    *step = continue_run(r);
    return true;
}

static bool run_in_scratch(mf_fiber *f, const mf_instr *in, const mf_map_plan *plan, mf_step *step)
{
    unsigned char *scratch = mf_scratch(plan->lockstep->bytes);
    bool made = scratch && begin(&(run){ .fiber = f, .map = in, .plan = plan, .lockstep = plan->lockstep }, scratch, step);
    mf_scratch_done();
    return made;
}

static void free_run(mf_fiber *f, run *r)
{
    f->lockstep = NULL;
    mf_run_state_lock(f->run_state);
    mf_run_state_put(f->run_state, r, r->held_bytes);
    mf_run_state_unlock(f->run_state);
}

/* Runs in memory of the run state, so that another thread may continue. */
static bool run_suspendable(mf_fiber *f, const mf_instr *in, const mf_map_plan *plan, mf_step *step)
{
    typedef struct held {
        run r;
        mf_map rendezvous_map;
    } held;
    size_t bytes = sizeof(held) + 64 + plan->lockstep->bytes;
    mf_run_state_lock(f->run_state);
    held *h = mf_run_state_get(f->run_state, bytes);
    mf_run_state_unlock(f->run_state);
    if (!h)
        return false;
    run *r = f->lockstep = &h->r;
    h->rendezvous_map = (mf_map){ .plan = plan, .parent = f };
    *r = (run){
        .fiber = f, .map = in, .plan = plan, .lockstep = plan->lockstep, .held_bytes = bytes, .rendezvous_map = &h->rendezvous_map
    };
    bool made = begin(r, (unsigned char *)(((uintptr_t)(h + 1) + 63) & ~(uintptr_t)63), step);
    if (!made || *step != MF_STEP_SUSPENDED)
        free_run(f, r);
    return made;
}

bool mf_lockstep_run(mf_fiber *f, const mf_instr *in, const mf_map_plan *plan, mf_step *step)
{
    run *r = f->lockstep;
    if (r) {
        *step = continue_run(r);
        if (*step != MF_STEP_SUSPENDED)
            free_run(f, r);
        return true;
    }
    bool spread = is_spread(plan), may = !spread || (f->run_state->comm && !f->map);
    return may && (spread ? run_suspendable : run_in_scratch)(f, in, plan, step);
}
