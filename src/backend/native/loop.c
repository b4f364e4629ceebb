/* while and scan over small values as one step: condition and body are kernels of their own, whose values are placed once for the even
 * and once for the odd iterations, so an iteration is nothing but their steps. What is carried lies in two places by turns.
 * Invariant: every variable inside is small, so that copying what a body hands on unchanged costs little; a loop over large values is
 * left to the runtime, which moves memory along instead. */
#include "backend/native/native.h"
#include "ops/params.h"

#include <string.h>

enum { SMALL_BYTES = 4096, MOST_EQUATIONS = 256 };

typedef struct moving { /* a value of the body that lies elsewhere in every iteration */
    int value;
    int64_t bytes;
} moving;

typedef struct loop_step {
    mf_native_step step;
    mf_native_kernel *cond, *body; /* cond NULL: a scan */
    int cond_consts, body_consts, carry;
    int64_t length;  /* of a scan */
    bool reverse;    /* of a scan */
    int64_t *offset; /* by carry, and one more: the size of each of the two places */
    int moving_count;
    moving *moving;
    int places; /* room for pointers to operands and results of the condition or the body */
} loop_step;

/* ------------------------------------------------------------------ which */

static bool program_is_small(const mf_program *p)
{
    if (p->eqn_count > MOST_EQUATIONS)
        return false;
    for (int v = 0; v < p->var_count; v++)
        if (p->vars[v]->type->bytes > SMALL_BYTES)
            return false;
    for (int i = 0; i < p->eqn_count; i++) {
        const mf_eqn *e = p->eqns[i];
        bool loop = e->op == &mf_op_while || e->op == &mf_op_scan;
        if (loop ? !mf_native_takes_loop(e) : e->op->evaluate == mf_evaluate_by_runtime || (e->op->flags & ~(unsigned)MF_OP_ELEMENTWISE))
            return false;
    }
    return true;
}

bool mf_native_takes_loop(const mf_eqn *e)
{
    int count = mf_params_program_count(e->op, e->params);
    for (int i = 0; i < count; i++)
        if (!program_is_small(*mf_params_program_at(e->op, e->params, i)))
            return false;
    return true;
}

/* ------------------------------------------------------------------ running */

typedef struct turns {
    const loop_step *s;
    void *const *values; /* of the step */
    char *carry[2], *flag, *cond_scratch, *body_scratch;
    void **cond[2], **body[2]; /* values */
} turns;

static size_t aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }

static char *take(char **room, size_t bytes)
{
    char *at = *room;
    *room += aligned(bytes);
    return at;
}

static size_t value_bytes(const mf_native_kernel *k) { return (size_t)k->plan.value_count * sizeof(void *); }

static void place_cond(turns *t, int turn, const void **in)
{
    const loop_step *s = t->s;
    void *out[1] = { t->flag };
    for (int i = 0; i < s->cond_consts; i++)
        in[i] = mf_step_in(&s->step, t->values, i);
    for (int i = 0; i < s->carry; i++)
        in[s->cond_consts + i] = t->carry[turn] + s->offset[i];
    mf_native_find_values(s->cond, in, out, t->cond_scratch, t->cond[turn]);
}

/* The turn's first iteration is number `turn`. */
static void place_body(turns *t, int turn, const void **in, void **out)
{
    const loop_step *s = t->s;
    const mf_program *p = s->body->program;
    int first = s->body_consts + s->carry;
    for (int i = 0; i < s->body_consts; i++)
        in[i] = mf_step_in(&s->step, t->values, s->cond_consts + i);
    for (int i = 0; i < s->carry; i++) {
        in[s->body_consts + i] = t->carry[turn] + s->offset[i];
        out[i] = t->carry[1 - turn] + s->offset[i];
    }
    int64_t index = turn < s->length ? s->reverse ? s->length - 1 - turn : turn : 0;
    for (int i = first; i < p->in_count; i++)
        in[i] = mf_step_in(&s->step, t->values, i) + index * p->in[i]->type->bytes;
    for (int o = s->carry; o < p->out_count; o++)
        out[o] = mf_step_out(&s->step, t->values, o) + index * p->out[o]->type->bytes;
    mf_native_find_values(s->body, in, out, t->body_scratch, t->body[turn]);
}

static void lay_out(turns *t, char *room)
{
    const loop_step *s = t->s;
    size_t carry_bytes = (size_t)s->offset[s->carry], places = (size_t)s->places * sizeof(void *);
    t->flag = take(&room, sizeof(int64_t));
    for (int turn = 0; turn < 2; turn++) {
        t->carry[turn] = take(&room, carry_bytes);
        t->body[turn] = (void **)(void *)take(&room, value_bytes(s->body));
        if (s->cond)
            t->cond[turn] = (void **)(void *)take(&room, value_bytes(s->cond));
    }
    const void **in = (const void **)(void *)take(&room, places);
    void **out = (void **)(void *)take(&room, places);
    t->body_scratch = take(&room, s->body->kernel.scratch_bytes);
    t->cond_scratch = room;
    for (int turn = 0; turn < 2; turn++) {
        place_body(t, turn, in, out);
        if (s->cond)
            place_cond(t, turn, in);
    }
}

static size_t room_bytes(const loop_step *s)
{
    size_t bytes = 2 * (aligned((size_t)s->offset[s->carry]) + aligned(value_bytes(s->body)) + aligned((size_t)s->places * sizeof(void *)));
    if (s->cond)
        bytes += 2 * aligned(value_bytes(s->cond)) + aligned(s->cond->kernel.scratch_bytes);
    return bytes + 64 + aligned(s->body->kernel.scratch_bytes);
}

/* Both give the turn whose place holds the carry in the end. */
static mf_error_object *repeat_while(turns *t, int *last)
{
    const loop_step *s = t->s;
    mf_dtype dtype = s->cond->program->out[0]->type->dtype;
    for (int turn = 0;; turn = 1 - turn) {
        mf_error_object *error = mf_native_run_steps(s->cond, t->cond[turn], t->cond_scratch);
        *last = turn;
        if (error || !mf_load_i64(dtype, t->flag))
            return error;
        error = mf_native_run_steps(s->body, t->body[turn], t->body_scratch);
        if (error)
            return error;
    }
}

static mf_error_object *repeat_scan(turns *t, int *last)
{
    const loop_step *s = t->s;
    mf_error_object *error = NULL;
    int turn = 0;
    for (int64_t i = 0; i < s->length && !error; i++, turn = 1 - turn) {
        void **values = t->body[turn];
        error = mf_native_run_steps(s->body, values, t->body_scratch);
        for (int k = 0; k < s->moving_count && i + 2 < s->length; k++)
            values[s->moving[k].value] = (char *)values[s->moving[k].value] + s->moving[k].bytes;
    }
    *last = turn;
    return error;
}

static mf_error_object *run(const mf_native_step *step, void *const *values, char *scratch)
{
    const loop_step *s = (const loop_step *)(const void *)step;
    const mf_program *p = s->body->program;
    turns t = { .s = s, .values = values };
    int last = 0;
    lay_out(&t, scratch + step->scratch_offset);
    for (int i = 0; i < s->carry; i++)
        memcpy(t.carry[0] + s->offset[i], mf_step_in(step, values, s->cond_consts + s->body_consts + i), (size_t)p->out[i]->type->bytes);
    mf_error_object *error = s->cond ? repeat_while(&t, &last) : repeat_scan(&t, &last);
    for (int i = 0; i < s->carry && !error; i++)
        memcpy(mf_step_out(step, values, i), t.carry[last] + s->offset[i], (size_t)p->out[i]->type->bytes);
    return error;
}

/* ------------------------------------------------------------------ compilation */

static void find_moving(mf_build *b, loop_step *s)
{
    const mf_program *p = s->body->program;
    int first = s->body_consts + s->carry;
    s->moving = mf_build_get(b, (size_t)s->body->plan.value_count, sizeof *s->moving);
    for (int i = 0; i < s->body->plan.value_count && !b->error && !s->cond; i++) {
        const mf_native_value *v = &s->body->plan.values[i];
        int64_t bytes = 0;
        if (v->place == MF_PLACE_INPUT && v->index >= first)
            bytes = p->in[v->index]->type->bytes;
        else if (v->place == MF_PLACE_OUTPUT && v->index >= s->carry)
            bytes = p->out[v->index]->type->bytes;
        if (bytes)
            s->moving[s->moving_count++] = (moving){ i, s->reverse ? -2 * bytes : 2 * bytes };
    }
}

static void place_carry(mf_build *b, loop_step *s)
{
    s->offset = mf_build_get(b, (size_t)s->carry + 1, sizeof *s->offset);
    for (int i = 0; i < s->carry && !b->error; i++)
        s->offset[i + 1] = s->offset[i] + (int64_t)aligned((size_t)s->body->program->out[i]->type->bytes);
}

static void compile_programs(mf_build *b, loop_step *s, const mf_eqn *e)
{
    const mf_while_params *w = e->params;
    const mf_scan_params *n = e->params;
    bool scan = e->op == &mf_op_scan;
    if (!scan)
        s->cond = mf_native_compile_inner(b, w->cond);
    if (!b->error)
        s->body = mf_native_compile_inner(b, scan ? n->body : w->body);
    s->cond_consts = scan ? 0 : (int)w->cond_consts;
    s->body_consts = scan ? (int)n->consts : (int)w->body_consts;
    s->carry = scan ? (int)n->carry : e->out_count;
    s->length = scan ? n->length : 0;
    s->reverse = scan && n->reverse;
}

bool mf_build_loop(mf_build *b, const mf_eqn *e)
{
    if (e->op != &mf_op_while && e->op != &mf_op_scan)
        return false;
    loop_step *s = mf_step_new(b, sizeof *s, e);
    if (!s)
        return true;
    compile_programs(b, s, e);
    if (!b->error)
        place_carry(b, s);
    if (!b->error)
        find_moving(b, s);
    if (b->error)
        return true;
    int most = s->body->program->in_count, out = s->body->program->out_count;
    most = s->cond && s->cond->program->in_count > most ? s->cond->program->in_count : most;
    s->places = most > out ? most : out;
    s->step.scratch_bytes = room_bytes(s);
    s->step.run = run;
    double turn = s->body->kernel.cost + (s->cond ? s->cond->kernel.cost : 0) + 20;
    s->step.cost = (s->cond ? 1000 : (double)s->length) * turn; /* nobody knows how often a while turns */
    mf_build_step(b, &s->step, e->in, e->in_count, e->out, e->out_count);
    return true;
}
