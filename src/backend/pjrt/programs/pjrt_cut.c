/* Cutting a program that a plugin cannot run as one into steps that it and the CPU run by turns (XLA's word: outside compilation). Calls of
 * the host are such, where the plugin's programs can make none or each replica would make them, and maps that cannot be replicas beside the
 * others. A map that is part of the program becomes a step of its own, which is loaded, and cut, as a program; anything else that cannot be
 * run there, a branch, a loop or a map inside of a map, goes to the CPU as a whole. Of a program that is one map the body is cut, and each
 * step is that map of a part of it; what goes from step to step has a row for each device.
 * Invariants: each equation is in one step, behind what it needs; calls of the host keep the program's order; there are as few steps as that
 * allows, so prints cost one of the CPU's beside the plugin's. Each output is given by a step on the plugin, which settles where it lies. */
#include "backend/pjrt/pjrt.h"

#include "base/alloc.h"
#include "ops/control/callback.h"
#include "ops/rows.h"
#include "passes/rewrite.h"
#include "transform/functions/pmap.h"

typedef enum cutting_place { ON_PLUGIN, ON_HOST, ALONE } cutting_place; /* alone: a map, on the plugin, as a step of its own */

/* Even turns are the plugin's; odd ones lie between them: the host's, or of one equation that is alone. */
typedef struct cutting_eqn {
    int turn;
    cutting_place place;
} cutting_eqn;
typedef struct cutting_variable {
    int made, used;      /* the turn that gives it, 0 where it is there from the beginning; the last turn that takes it */
    int taken;           /* the last turn whose step has it as an input, + 1 */
    int output;          /* the first output that it is, + 1; 0: none */
    cutting_place place; /* of what makes it */
} cutting_variable;

typedef struct cutting {
    const mf_program *body;
    const mf_eqn *map;  /* whose body it is, and which is the whole program; NULL: the body is the whole program */
    mf_arena all, turn; /* memory for all of it; for one turn */
    mf_error_object *error;
    pjrt_steps *steps;
    cutting_eqn *eqns;
    int *sorted, *from;          /* equations by turn, in order; where each turn's begin */
    cutting_variable *variables; /* by id */
    mf_variable **made;          /* the same, in the program of the turn */
    int last;                    /* turn, an even one */
} cutting;

typedef struct cutting_step { /* under construction */
    int turn, in_count, out_count;
    const mf_variable **in, **out;
    int64_t *out_axes; /* of a map */
    int *values;       /* by output */
} cutting_step;

static void fail(cutting *c, mf_error_object *e)
{
    e = e ? e : mf_error_out_of_memory();
    if (c->error)
        mf_error_ignore(e);
    else
        c->error = e;
}

static void *room(cutting *c, mf_arena *arena, int count, size_t size)
{
    void *p = c->error ? NULL : mf_arena_alloc(arena, ((size_t)count + 1) * size);
    if (!p && !c->error)
        fail(c, NULL);
    return p;
}

/* The program that was made, or why it was not. */
static mf_program *finish(cutting *c, mf_builder *b, mf_variable *const *out, int out_count)
{
    mf_error_object *error = NULL;
    mf_program *p = mf_builder_finish(b, out, b->error || c->error ? 0 : out_count, &error);
    if (!p)
        fail(c, error);
    return p;
}

/* ---- what a program of the plugin can be */

/* calls: whether the plugin's programs can call the host. Of several replicas each would make the call. */
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

/* What is cut of p, and where its equations stand. */
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

/* The first turn at which all operands are there. */
static int turn_of_operands(const cutting *c, const mf_eqn *e)
{
    int turn = 0;
    for (int i = 0; i < e->in_count; i++)
        if (!e->in[i]->constant && c->variables[e->in[i]->id].made > turn)
            turn = c->variables[e->in[i]->id].made;
    return turn;
}

/* Once there are steps, all calls of the host are steps: so they have one order. */
static void take_turns(cutting *c, mf_hlo_place at)
{
    int before = -1; /* the last turn between the plugin's */
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
    c->sorted = room(c, &c->all, c->body->eqn_count, sizeof *c->sorted);
    c->from = room(c, &c->all, c->last + 2, sizeof *c->from);
    if (c->error)
        return;
    for (int k = 0; k < c->body->eqn_count; k++)
        c->from[c->eqns[k].turn + 2]++;
    for (int turn = 1; turn <= c->last + 2; turn++)
        c->from[turn] += c->from[turn - 1];
    for (int k = 0; k < c->body->eqn_count; k++)
        c->sorted[c->from[c->eqns[k].turn + 1]++] = k;
}

/* ---- what goes from step to step */

/* An output is given where its variable is made, on the plugin; what is an input, a constant or the host's goes through the last step. So does
 * what another output of a step that is alone is already, for each output is an array of its own. */
static int turn_of_output(const cutting *c, int o)
{
    const mf_variable *v = c->body->out[o];
    const cutting_variable *w = &c->variables[v->id];
    bool again = w->output != o + 1 && w->place == ALONE;
    return v->producer && w->place != ON_HOST && !again ? w->made : c->last;
}

/* Without a map an output that a step gives is the value that others take; of a map's what others take has a row for each device, and an
 * output lies as the map says. */
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

static void find_last_uses(cutting *c)
{
    for (int o = c->body->out_count - 1; o >= 0; o--)
        c->variables[c->body->out[o]->id].output = o + 1;
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

/* Which variables the equations of a turn take and give. */
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

/* ---- programs */

static mf_variable *variable_of(mf_builder *b, mf_variable *const *made, const mf_variable *v)
{
    return v->constant ? mf_builder_constant(b, v->constant) : made[v->id];
}

static void put_equation(cutting *c, mf_builder *b, const mf_eqn *e)
{
    mf_variable **in = room(c, &c->turn, e->in_count, sizeof *in), **out = room(c, &c->turn, e->out_count, sizeof *out);
    if (!in || !out)
        return;
    for (int i = 0; i < e->in_count; i++)
        in[i] = variable_of(b, c->made, e->in[i]);
    b->address = e->address;
    mf_copy_eqn(b, e, in, out);
    for (int o = 0; o < e->out_count && !b->error; o++)
        c->made[e->out[o]->id] = out[o];
}

/* What the host made of a map inside, through a map of the same devices that changes nothing: so it lies on all of them. */
static mf_variable *through_map(mf_builder *b, const mf_variable *made, mf_variable *v)
{
    const mf_pmap_params *m = made->producer && made->producer->op == &mf_op_pmap ? made->producer->params : NULL;
    mf_builder inner;
    mf_error_object *error = NULL;
    if (!m || b->error || m->out_axes->at[made->output] == MF_NONE)
        return v;
    mf_pmap_params same = *m;
    const mf_variable *row = m->program->out[made->output];
    mf_builder_init(&inner, mf_axis_env_push(b->env, m->axis_name, m->axis_size, 1));
    mf_variable *in = mf_builder_input(&inner, row->type), *out = through_map(&inner, row, in);
    same.program = mf_builder_finish(&inner, &out, 1, &error);
    same.in_axes = same.out_axes = mf_ints_intern(&m->out_axes->at[made->output], 1);
    same.donated = mf_ints_intern(NULL, 0);
    if (same.program && same.in_axes && same.donated)
        v = mf_emit(b, &mf_op_pmap, &same, 1, v);
    else
        mf_builder_fail(b, error ? error : mf_error_out_of_memory());
    mf_drop(same.program);
    return v;
}

static mf_variable *result_of(cutting *c, const cutting_step *s, mf_builder *b, int o)
{
    const mf_variable *v = s->out[o];
    bool passes = !v->constant && c->map && s->values[o] >= c->body->var_count && c->variables[v->id].place == ON_HOST;
    return passes ? through_map(b, v, variable_of(b, c->made, v)) : variable_of(b, c->made, v);
}

/* The turn's equations as a program. One that gives nothing gives a truth, for there is to be something that comes when it has ended. */
static mf_program *body_of(cutting *c, const cutting_step *s, const mf_axis_env *env)
{
    mf_builder b;
    mf_variable **out = room(c, &c->turn, s->out_count, sizeof *out);
    if (c->error)
        return NULL;
    mf_builder_init(&b, env);
    for (int i = 0; i < s->in_count && !b.error; i++)
        c->made[s->in[i]->id] = mf_builder_input(&b, s->in[i]->type);
    for (int n = c->from[s->turn]; n < c->from[s->turn + 1] && !b.error && !c->error; n++)
        put_equation(c, &b, c->body->eqns[c->sorted[n]]);
    for (int o = 0; o < s->out_count && !b.error && !c->error; o++)
        out[o] = result_of(c, s, &b, o);
    if (!s->out_count)
        out[0] = mf_builder_number(&b, MF_BOOL, false, 1);
    return finish(c, &b, out, s->out_count ? s->out_count : 1);
}

/* The operand of the map that is its body's input, and its axis; NULL: v is none, and has a row for each device. */
static const mf_variable *operand_of(const cutting *c, const mf_variable *v, int64_t *axis)
{
    *axis = 0;
    for (int i = 0; i < c->body->in_count; i++)
        if (c->body->in[i] == v) {
            *axis = ((const mf_pmap_params *)c->map->params)->in_axes->at[i];
            return c->map->in[i];
        }
    return NULL;
}

/* What the map of the step takes; a constant is no value of the steps, and goes from its inputs. */
static mf_variable **operands_of(cutting *c, mf_builder *b, cutting_step *s, int64_t *axes)
{
    const mf_pmap_params *m = c->map->params;
    mf_variable **in = room(c, &c->turn, s->in_count, sizeof *in);
    int count = s->in_count;
    s->in_count = 0;
    for (int i = 0; in && i < count && !b->error; i++) {
        const mf_variable *v = s->in[i], *operand = operand_of(c, v, &axes[i]);
        const mf_type *type = operand ? operand->type : mf_type_insert_axis(v->type, 0, m->axis_size);
        if (!type)
            mf_builder_fail(b, mf_error_new(MF_ERROR_SHAPE, "a map that runs in steps has a value of %d axes, and no room for one more",
                                            v->type->rank));
        else if (operand && operand->constant)
            in[i] = mf_builder_constant(b, operand->constant);
        else
            in[i] = mf_builder_input(b, type);
        if (!operand || !operand->constant)
            s->in[s->in_count++] = v;
    }
    return in;
}

/* Where a map inside is a step of the host's, the others still leave it its devices. */
static const mf_intlist *devices_of(cutting *c, const mf_pmap_params *m)
{
    int64_t count = m->axis_size * mf_pmap_span(m);
    int64_t *ids = room(c, &c->turn, (int)count, sizeof *ids);
    for (int64_t i = 0; ids && i < count; i++)
        ids[i] = i;
    return m->devices->count || count == m->axis_size ? m->devices : ids ? mf_ints_intern(ids, (int)count) : NULL;
}

/* The map of that body. */
static mf_program *map_of(cutting *c, cutting_step *s, mf_program *body)
{
    mf_builder b;
    mf_pmap_params m = *(const mf_pmap_params *)c->map->params;
    int64_t *axes = room(c, &c->turn, body->in_count, sizeof *axes);
    if (c->error)
        return NULL;
    mf_builder_init(&b, NULL);
    b.address = c->map->address;
    mf_variable **in = operands_of(c, &b, s, axes);
    m.devices = devices_of(c, &m);
    m.program = body;
    m.in_axes = mf_ints_intern(axes, body->in_count);
    m.out_axes = mf_ints_intern(s->out_axes, body->out_count);
    m.donated = mf_ints_intern(NULL, 0);
    if (!m.devices || !m.in_axes || !m.out_axes || !m.donated)
        mf_builder_fail(&b, mf_error_out_of_memory());
    mf_eqn *e = b.error || c->error ? NULL : mf_emit_eqn(&b, &mf_op_pmap, &m, in, body->in_count);
    return finish(c, &b, e ? e->out : NULL, body->out_count);
}

/* The equation with an input for each operand, which is what a map is cut by. */
static mf_program *alone(cutting *c, cutting_step *s, const mf_eqn *e)
{
    mf_builder b;
    mf_variable **in = room(c, &c->turn, e->in_count, sizeof *in), **out = room(c, &c->turn, e->out_count, sizeof *out);
    s->in = room(c, &c->turn, e->in_count, sizeof *s->in);
    s->in_count = 0;
    if (c->error)
        return NULL;
    mf_builder_init(&b, NULL);
    for (int i = 0; i < e->in_count && !b.error; i++) {
        in[i] = e->in[i]->constant ? mf_builder_constant(&b, e->in[i]->constant) : mf_builder_input(&b, e->in[i]->type);
        if (!e->in[i]->constant)
            s->in[s->in_count++] = e->in[i];
    }
    b.address = e->address;
    if (!b.error)
        mf_copy_eqn(&b, e, in, out);
    return finish(c, &b, out, e->out_count);
}

/* The CPU's devices are others, so no map inside names any. */
static mf_program *without_devices(const mf_program *p, const mf_axis_env *env, mf_error_object **error);
static void forget_devices(mf_rewrite *r, const mf_eqn *e, mf_variable **in)
{
    mf_pmap_params m;
    if (e->op != &mf_op_pmap) {
        mf_rewrite_copy(r, e, in);
        return;
    }
    m = *(const mf_pmap_params *)e->params;
    m.devices = mf_ints_intern(NULL, 0);
    if (m.devices)
        mf_rewrite_replace(r, e, &m, in, e->in_count, NULL);
    else
        mf_builder_fail(r->b, mf_error_out_of_memory());
}
static mf_program *without_devices(const mf_program *p, const mf_axis_env *env, mf_error_object **error)
{
    return mf_rewrite_program(p, env, forget_devices, without_devices, NULL, error);
}

static mf_program *program_of(cutting *c, cutting_step *s, cutting_place place)
{
    const mf_pmap_params *m = c->map ? c->map->params : NULL;
    mf_error_object *error = NULL;
    mf_program *p = body_of(c, s, m ? mf_axis_env_push(NULL, m->axis_name, m->axis_size, 1) : NULL);
    mf_program *mapped = p && m ? map_of(c, s, p) : mf_retain(p);
    mf_program *there = mapped && place == ON_HOST ? without_devices(mapped, NULL, &error) : mf_retain(mapped);
    if (!there)
        fail(c, error);
    mf_drop(p);
    mf_drop(mapped);
    return there;
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
    fail(c, NULL);
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
    s.in = room(c, &c->turn, operands, sizeof *s.in);
    s.out = room(c, &c->turn, results, sizeof *s.out);
    s.out_axes = room(c, &c->turn, results, sizeof *s.out_axes);
    s.values = room(c, &c->turn, results, sizeof *s.values);
    if (!c->error)
        read_turn(c, &s);
    if (c->error || (!e && !s.out_count))
        return;
    mf_program *program = place == ALONE ? alone(c, &s, e) : program_of(c, &s, place);
    if (program)
        put_step(c, &s, place, program);
}

static void begin(cutting *c, const mf_program *p)
{
    c->steps->value_count = c->body->var_count + c->body->out_count;
    c->steps->in = mf_calloc((size_t)p->in_count + 1, sizeof *c->steps->in);
    c->steps->out = mf_calloc((size_t)p->out_count + 1, sizeof *c->steps->out);
    c->eqns = room(c, &c->all, c->body->eqn_count, sizeof *c->eqns);
    c->variables = room(c, &c->all, c->body->var_count, sizeof *c->variables);
    c->made = room(c, &c->all, c->body->var_count, sizeof *c->made);
    if (!c->steps->in || !c->steps->out)
        fail(c, NULL);
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
        find_last_uses(&c);
    for (int turn = 0; turn <= c.last && !c.error; turn++) {
        cut_turn(&c, turn);
        mf_arena_free(&c.turn);
    }
    mf_arena_free(&c.all);
    mf_arena_free(&c.turn);
    return c.error;
}
