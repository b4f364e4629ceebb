/* Cuts a program that a plugin cannot run as a whole into steps that alternate between the plugin and the CPU (XLA: outside compilation).
 * The plugin cannot run host calls, if its programs can make none or each replica would make them, or maps that cannot be replicas beside
 * the others. A map that is part of the program becomes a step of its own, which is loaded, and cut, as a program; any other equation that
 * the plugin cannot run, a branch, a loop or a map inside of a map, runs on the CPU as a whole. If the program is only a map, its body is
 * cut, and each step is the map of a part of the body; values between the steps have a row per device.
 * Invariants: each equation is in one step, after those it depends on; host calls keep the program's order; there are as few steps as
 * that allows, so a program with prints adds one step on the CPU to the plugin's. Each output is given by a step on the plugin, which
 * determines its sharding. */
#include "backend/pjrt/programs/pjrt_cut.h"

#include "base/memory/alloc.h"
#include "ops/control/callback.h"
#include "ops/ops.h"
#include "transform/functions/mapped/pmap.h"

void pjrt_cut_fail(cutting *c, mf_error_object *e)
{
    e = e ? e : mf_error_out_of_memory();
    if (c->error)
        mf_error_ignore(e);
    else
        c->error = e;
}

void *pjrt_cut_alloc(cutting *c, mf_arena *arena, int count, size_t size)
{
    void *p = c->error ? NULL : mf_arena_alloc(arena, ((size_t)count + 1) * size);
    if (!p && !c->error)
        pjrt_cut_fail(c, NULL);
    return p;
}

/* ---- what a program of the plugin can be */

/* calls: whether the plugin's programs can call the host. With several replicas, each would make the call. */
static bool can_run(const mf_eqn *e, mf_hlo_place at, bool calls)
{
    const mf_pmap_params *m = e->op == &mf_op_pmap ? e->params : NULL;
    bool can = !mf_is_host_call(e) || (calls && at.run == 1);
    if (m && !mf_hlo_are_replicas(m, at))
        return mf_hlo_rows_serve(m->program);
    for (int k = 0, n = mf_params_program_count(e->op, e->params); k < n && can; k++) {
        const mf_program *p = *mf_params_program_at(e->op, e->params, k);
        for (int i = 0; i < p->eqn_count && can; i++)
            can = can_run(p->eqns[i], mf_hlo_place_inside(e, at), calls);
    }
    return can;
}

static cutting_place place_of(const mf_eqn *e, const mf_eqn *map, mf_hlo_place at, bool calls)
{
    bool part = e->op == &mf_op_pmap && !map;
    if (part && !mf_hlo_are_replicas(e->params, at))
        return ALONE;
    return can_run(e, at, calls) ? ON_PLUGIN : part ? ALONE : ON_HOST;
}

/* The part of p that is cut, and the place of its equations. */
static const mf_program *body_to_cut(const mf_program *p, const mf_eqn *map, mf_hlo_place *at)
{
    *at = mf_hlo_place_of(p, mf_program_replicas(p));
    if (map)
        *at = mf_hlo_place_inside(map, *at);
    return map ? ((const mf_pmap_params *)map->params)->program : p;
}

bool pjrt_needs_steps(const mf_program *p, bool calls)
{
    mf_hlo_place at;
    const mf_eqn *map = mf_hlo_sole_map(p);
    const mf_program *body = body_to_cut(p, map, &at);
    bool needs = false;
    for (int k = 0; k < body->eqn_count && !needs; k++)
        needs = place_of(body->eqns[k], map, at, calls) != ON_PLUGIN;
    return needs;
}

/* ---- turns */

/* The first turn at which all operands are available. */
static int turn_of_operands(const cutting *c, const mf_eqn *e)
{
    int turn = 0;
    for (int i = 0; i < e->in_count; i++)
        if (!e->in[i]->constant && c->variables[e->in[i]->id].made > turn)
            turn = c->variables[e->in[i]->id].made;
    return turn;
}

/* If there are steps at all, every host call is in a step on the host, so that they have one order. */
static void take_turns(cutting *c, mf_hlo_place at)
{
    int before = -1; /* the last odd turn so far */
    cutting_place place_before = ON_HOST;
    for (int k = 0; k < c->body->eqn_count; k++) {
        const mf_eqn *e = c->body->eqns[k];
        cutting_place place = place_of(e, c->map, at, false);
        int turn = turn_of_operands(c, e);
        if (place == ON_PLUGIN) {
            turn += turn % 2;
        } else {
            turn = turn > before ? turn : before;
            turn += turn % 2 ? 0 : 1;
            turn += turn == before && (place == ALONE || place_before == ALONE) ? 2 : 0;
            before = turn;
            place_before = place;
        }
        c->eqns[k] = (cutting_eqn){ turn, place };
        for (int o = 0; o < e->out_count; o++)
            c->variables[e->out[o]->id] = (cutting_variable){ .made = turn, .used = turn, .place = place };
        c->last = turn + turn % 2 > c->last ? turn + turn % 2 : c->last;
    }
}

static void sort_by_turn(cutting *c)
{
    c->sorted = pjrt_cut_alloc(c, &c->all, c->body->eqn_count, sizeof *c->sorted);
    c->from = pjrt_cut_alloc(c, &c->all, c->last + 2, sizeof *c->from);
    if (c->error)
        return;
    for (int k = 0; k < c->body->eqn_count; k++)
        c->from[c->eqns[k].turn + 2]++;
    for (int turn = 1; turn <= c->last + 2; turn++)
        c->from[turn] += c->from[turn - 1];
    for (int k = 0; k < c->body->eqn_count; k++)
        c->sorted[c->from[c->eqns[k].turn + 1]++] = k;
}

/* ---- values between steps */

/* The turn that gives an output: where its variable is made, on the plugin; inputs, constants and the host's values go through the last
 * step. So does a second output of the same variable of a step that is alone, since each output is an array of its own. */
static int turn_of_output(const cutting *c, int o)
{
    const mf_variable *v = c->body->out[o];
    const cutting_variable *w = &c->variables[v->id];
    bool again = w->output != o + 1 && w->place == ALONE;
    return v->producer && w->place != ON_HOST && !again ? w->made : c->last;
}

/* Whether an output is also the value that other steps take: not of a map, where values between steps have a row per device, but an
 * output is laid out as the map says. */
static bool is_output_as_it_is(const cutting *c, const mf_variable *v, int o)
{
    const cutting_variable *w = &c->variables[v->id];
    return w->output && w->output == o + 1 && !c->map && v->producer && w->place != ON_HOST;
}

static void use(cutting *c, const mf_variable *v, int turn)
{
    if (!v->constant && c->variables[v->id].used < turn)
        c->variables[v->id].used = turn;
}

static void read_uses(cutting *c)
{
    for (int o = c->body->out_count - 1; o >= 0; o--)
        c->variables[c->body->out[o]->id].output = o + 1;
    for (int i = 0; i < c->body->in_count; i++)
        c->variables[c->body->in[i]->id].input = i + 1;
    for (int k = 0; k < c->body->eqn_count; k++)
        for (int i = 0; i < c->body->eqns[k]->in_count; i++)
            use(c, c->body->eqns[k]->in[i], c->eqns[k].turn);
    for (int o = 0; o < c->body->out_count; o++)
        use(c, c->body->out[o], turn_of_output(c, o));
}

static void take(cutting *c, cutting_step *s, const mf_variable *v)
{
    cutting_variable *w = &c->variables[v->id];
    if (v->constant || (v->producer && w->made == s->turn) || w->taken == s->turn + 1)
        return;
    w->taken = s->turn + 1;
    s->in[s->in_count++] = v;
}

static void give(cutting_step *s, const mf_variable *v, int64_t axis, int value)
{
    s->out[s->out_count] = v;
    s->out_axes[s->out_count] = axis;
    s->values[s->out_count++] = value;
}

static void give_output(cutting *c, cutting_step *s, int o)
{
    const mf_variable *v = c->body->out[o];
    bool as_it_is = is_output_as_it_is(c, v, o);
    c->steps->out[o] = as_it_is ? v->id : c->body->var_count + o;
    if (!as_it_is) {
        take(c, s, v);
        give(s, v, c->map ? ((const mf_pmap_params *)c->map->params)->out_axes->at[o] : 0, c->steps->out[o]);
    }
}

/* Collects the variables that the equations of a turn take and give. */
static void read_turn(cutting *c, cutting_step *s)
{
    for (int n = c->from[s->turn]; n < c->from[s->turn + 1]; n++) {
        const mf_eqn *e = c->body->eqns[c->sorted[n]];
        for (int i = 0; i < e->in_count; i++)
            take(c, s, e->in[i]);
        for (int o = 0; o < e->out_count; o++) {
            const cutting_variable *w = &c->variables[e->out[o]->id];
            if (w->used > s->turn || w->place == ALONE || is_output_as_it_is(c, e->out[o], w->output - 1))
                give(s, e->out[o], 0, e->out[o]->id);
        }
    }
    for (int o = 0; o < c->body->out_count; o++)
        if (turn_of_output(c, o) == s->turn)
            give_output(c, s, o);
}

/* ---- steps */

static void put_step(cutting *c, const cutting_step *s, cutting_place place, mf_program *program)
{
    pjrt_step step = { .program = program, .on_host = place == ON_HOST, .out_count = s->out_count };
    step.in = mf_calloc((size_t)s->in_count + 1, sizeof *step.in);
    step.out = mf_calloc((size_t)s->out_count + 1, sizeof *step.out);
    for (int i = 0; step.in && i < s->in_count; i++)
        step.in[i] = s->in[i]->id;
    for (int o = 0; step.out && o < s->out_count; o++)
        step.out[o] = s->values[o];
    if (step.in && step.out && mf_vector_push(&c->steps->list, step))
        return;
    pjrt_cut_fail(c, NULL);
    mf_free(step.in);
    mf_free(step.out);
    mf_drop(program);
}

static void cut_turn(cutting *c, int turn)
{
    cutting_step s = { .turn = turn };
    const mf_eqn *e = NULL; /* the turn's last */
    cutting_place place = ON_PLUGIN;
    int operands = c->body->out_count, results = c->body->out_count;
    for (int n = c->from[turn]; n < c->from[turn + 1]; n++) {
        e = c->body->eqns[c->sorted[n]];
        place = c->eqns[c->sorted[n]].place;
        operands += e->in_count;
        results += e->out_count;
    }
    s.in = pjrt_cut_alloc(c, &c->turn, operands, sizeof *s.in);
    s.out = pjrt_cut_alloc(c, &c->turn, results, sizeof *s.out);
    s.out_axes = pjrt_cut_alloc(c, &c->turn, results, sizeof *s.out_axes);
    s.values = pjrt_cut_alloc(c, &c->turn, results, sizeof *s.values);
    if (!c->error)
        read_turn(c, &s);
    if (c->error || (!e && !s.out_count))
        return;
    mf_program *program = place == ALONE ? pjrt_cut_alone(c, &s, e) : pjrt_cut_program(c, &s, place);
    if (program)
        put_step(c, &s, place, program);
}

static void begin(cutting *c, const mf_program *p)
{
    c->steps->value_count = c->body->var_count + c->body->out_count;
    c->steps->in = mf_calloc((size_t)p->in_count + 1, sizeof *c->steps->in);
    c->steps->out = mf_calloc((size_t)p->out_count + 1, sizeof *c->steps->out);
    c->eqns = pjrt_cut_alloc(c, &c->all, c->body->eqn_count, sizeof *c->eqns);
    c->variables = pjrt_cut_alloc(c, &c->all, c->body->var_count, sizeof *c->variables);
    c->made = pjrt_cut_alloc(c, &c->all, c->body->var_count, sizeof *c->made);
    if (!c->steps->in || !c->steps->out)
        pjrt_cut_fail(c, NULL);
    for (int i = 0; i < p->in_count && !c->error; i++)
        c->steps->in[i] = c->map ? -1 : p->in[i]->id;
    for (int i = 0; i < p->in_count && c->map && !c->error; i++)
        for (int k = 0; k < c->map->in_count; k++)
            if (c->map->in[k] == p->in[i])
                c->steps->in[i] = c->body->in[k]->id;
}

mf_error_object *pjrt_cut(const mf_program *p, pjrt_steps *steps)
{
    mf_hlo_place at;
    cutting c = { .map = mf_hlo_sole_map(p), .steps = steps };
    c.body = body_to_cut(p, c.map, &at);
    begin(&c, p);
    if (!c.error)
        take_turns(&c, at);
    if (!c.error)
        sort_by_turn(&c);
    if (!c.error)
        read_uses(&c);
    for (int turn = 0; turn <= c.last && !c.error; turn++) {
        cut_turn(&c, turn);
        mf_arena_free(&c.turn);
    }
    mf_arena_free(&c.all);
    mf_arena_free(&c.turn);
    return c.error;
}
