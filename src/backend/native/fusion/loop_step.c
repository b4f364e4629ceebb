/* while and scan over rather small values as one step. Condition and body are kernels of their own. The carry alternates between two
 * buffers, so the kernels' values are placed once for even and once for odd iterations, and an iteration only runs their steps.
 * The second tier is the whole loop as one function (llvm/emit/repeat.c), to which a run switches between two iterations. A loop without
 * such a function that takes long and whose rows are independent becomes one loop for each part of the rows, all in parallel (loop_rows.c).
 * What such a loop stacks is written in rows at once if it is only read that way, and operands with separate rows are copied a round at a
 * time.
 * Invariant: the carry is small or made anew in every iteration, so copying what a body passes on unchanged costs little; other loops
 * are left to the runtime, which moves memory instead. */
#include "backend/native/fusion/loop_step.h"
#include "backend/native/llvm/tier_up.h"
#include "ops/params.h"

#include <stdatomic.h>
#include <string.h>

/* LOOK: iterations between two checks for a second tier. SOON: nanoseconds of a run that are worth compiling if the program runs a few
 * times. PARTS: nanoseconds of a run that are worth several cores. */
enum { SMALL_BYTES = 4096, MOST_BYTES = 1 << 16, MOST_EQUATIONS = 256, LOOK = 64, SOON = 100000, PARTS = 200000 };

typedef struct moving { /* a value of the body that moves by `bytes` with every iteration */
    int value;
    int64_t bytes;
} moving;

typedef struct transposed_result { /* a stacked result [round, row, ...] that is stored as [row, round, ...] */
    int result;
    size_t offset; /* of a round's part, in the buffer for them */
} transposed_result;

typedef struct gathered_operand { /* an operand whose rows of one round are not contiguous */
    int input;                    /* of the body */
    int64_t at, round, row;       /* bytes: offset of the first round's first row; strides of rounds and of rows */
    size_t offset;                /* of a round's part, in the buffer for them */
} gathered_operand;

typedef struct hoisted_part { /* what a step of the body makes once per run */
    const mf_native_step *step;
    size_t offset;
} hoisted_part;

typedef struct loop_step {
    mf_native_step step;
    mf_loop_plan plan;
    const mf_program *whole; /* the body for all rows; plan.body is for one part */
    int parts;
    int hoisted_count;
    hoisted_part *hoisted;
    size_t hoisted_bytes;
    int64_t *offset; /* by carry, plus one: the size of each of the two buffers */
    int moving_count;
    moving *moving;
    int transposed_count;
    transposed_result *transposed;
    int gathered_count;
    gathered_operand *gathered;
    size_t rows_bytes; /* size of the buffer for a round's transposed results and gathered operands */
    int places;        /* number of pointers to operands and results of the condition or the body */
} loop_step;

/* ------------------------------------------------------------------ which loops */

/* A larger carry is made anew in every iteration, by an equation that would not write over the last one. */
static bool carries_well(const mf_variable *v)
{
    const mf_eqn *e = v->producer;
    return v->type->bytes <= SMALL_BYTES || (e && ((e->op->flags & MF_OP_ELEMENTWISE) || e->op == &mf_op_dot_general));
}

/* The first `consts` inputs are read in place, so they may be large. */
static bool takes_program(const mf_program *p, int64_t consts)
{
    if (p->eqn_count > MOST_EQUATIONS)
        return false;
    for (int64_t i = 0; i < p->var_count; i++) {
        bool constant = false;
        for (int64_t k = 0; k < consts && !constant; k++)
            constant = p->in[k] == p->vars[i];
        if (!constant && p->vars[i]->type->bytes > MOST_BYTES)
            return false;
    }
    for (int i = 0; i < p->eqn_count; i++) {
        const mf_eqn *e = p->eqns[i];
        bool loop = e->op->flags & MF_OP_LOOP;
        if (loop ? !mf_native_takes_loop(e) : e->op->evaluate == mf_evaluate_by_runtime || (e->op->flags & ~(unsigned)MF_OP_ELEMENTWISE))
            return false;
    }
    return true;
}

bool mf_native_takes_loop(const mf_eqn *e)
{
    const mf_while_params *w = e->params;
    const mf_scan_params *n = e->params;
    bool scan = e->op == &mf_op_scan;
    const mf_program *body = scan ? n->body : w->body;
    for (int64_t o = 0; o < (scan ? n->carry : body->out_count); o++)
        if (!carries_well(body->out[o]))
            return false;
    return (scan || takes_program(w->cond, w->cond_consts)) && takes_program(body, scan ? n->consts : w->body_consts);
}

/* ------------------------------------------------------------------ running */

typedef struct turns {
    const loop_step *s;
    void *const *values; /* of the step */
    char *hoisted;
    int64_t part;
    char *carry[2], *flag, *rows, *cond_scratch, *body_scratch;
    void **cond[2], **body[2]; /* values of the condition, of the body; by turn */
} turns;

static size_t aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }

static char *carve(char **workspace, size_t bytes)
{
    char *at = *workspace;
    *workspace += aligned(bytes);
    return at;
}

static size_t value_bytes(const mf_native_kernel *k) { return (size_t)k->plan.value_count * sizeof(void *); }
/* The body's values, then what is hoisted. */
static size_t body_value_bytes(const loop_step *s) { return value_bytes(s->plan.body) + (size_t)s->hoisted_count * sizeof(void *); }

/* The offset of a round's part of an operand or a result. */
static int64_t at_round(const turns *t, int64_t index, const mf_variable *whole, const mf_variable *part)
{
    return index * whole->type->bytes + t->part * part->type->bytes;
}

static void place_cond(turns *t, int turn, const void **in)
{
    const loop_step *s = t->s;
    void *out[1] = { t->flag };
    for (int i = 0; i < s->plan.cond_consts; i++)
        in[i] = mf_step_in(&s->step, t->values, i);
    for (int i = 0; i < s->plan.carry; i++)
        in[s->plan.cond_consts + i] = t->carry[turn] + s->offset[i];
    mf_native_find_values(s->plan.cond, in, out, t->cond_scratch, t->cond[turn]);
}

/* Places the values for every second iteration, beginning with number `turn`. */
static void place_body(turns *t, int turn, const void **in, void **out)
{
    const loop_step *s = t->s;
    const mf_program *p = s->plan.body->program;
    int first = s->plan.body_consts + s->plan.carry;
    for (int i = 0; i < s->plan.body_consts; i++)
        in[i] = mf_step_in(&s->step, t->values, s->plan.cond_consts + i);
    for (int i = 0; i < s->plan.carry; i++) {
        in[s->plan.body_consts + i] = t->carry[turn] + s->offset[i];
        out[i] = t->carry[1 - turn] + s->offset[i];
    }
    int64_t index = turn < s->plan.length ? s->plan.reverse ? s->plan.length - 1 - turn : turn : 0;
    for (int i = first; i < p->in_count; i++)
        in[i] = mf_step_in(&s->step, t->values, i) + at_round(t, index, s->whole->in[i], p->in[i]);
    for (int o = s->plan.carry; o < p->out_count; o++)
        out[o] = mf_step_out(&s->step, t->values, o) + at_round(t, index, s->whole->out[o], p->out[o]);
    for (int i = 0; i < s->transposed_count; i++)
        out[s->transposed[i].result] = t->rows + s->transposed[i].offset;
    for (int i = 0; i < s->gathered_count; i++)
        in[s->gathered[i].input] = t->rows + s->gathered[i].offset;
    mf_native_find_values(s->plan.body, in, out, t->body_scratch, t->body[turn]);
    for (int i = 0; i < s->hoisted_count; i++)
        t->body[turn][s->hoisted[i].step->prepared] = t->hoisted + s->hoisted[i].offset;
}

static void lay_out(turns *t, char *workspace)
{
    const loop_step *s = t->s;
    size_t carry_bytes = (size_t)s->offset[s->plan.carry], places = (size_t)s->places * sizeof(void *);
    t->flag = carve(&workspace, sizeof(int64_t));
    t->rows = carve(&workspace, s->rows_bytes);
    for (int turn = 0; turn < 2; turn++) {
        t->carry[turn] = carve(&workspace, carry_bytes);
        t->body[turn] = (void **)(void *)carve(&workspace, body_value_bytes(s));
        if (s->plan.cond)
            t->cond[turn] = (void **)(void *)carve(&workspace, value_bytes(s->plan.cond));
    }
    const void **in = (const void **)(void *)carve(&workspace, places);
    void **out = (void **)(void *)carve(&workspace, places);
    t->body_scratch = carve(&workspace, s->plan.body->kernel.scratch_bytes);
    t->cond_scratch = workspace;
    for (int turn = 0; turn < 2; turn++) {
        place_body(t, turn, in, out);
        if (s->plan.cond)
            place_cond(t, turn, in);
    }
}

static size_t pointer_bytes(const mf_native_step *step) { return aligned(sizeof(void *) * (size_t)(step->in_count + step->out_count)); }

static size_t workspace_bytes(const loop_step *s)
{
    size_t bytes = 2 *
                   (aligned((size_t)s->offset[s->plan.carry]) + aligned(body_value_bytes(s)) + aligned((size_t)s->places * sizeof(void *)));
    if (s->plan.cond)
        bytes += 2 * aligned(value_bytes(s->plan.cond)) + aligned(s->plan.cond->kernel.scratch_bytes);
    return bytes + 64 + s->rows_bytes + aligned(s->plan.body->kernel.scratch_bytes);
}

static int64_t round_of(const loop_step *s, int64_t done) { return s->plan.reverse ? s->plan.length - 1 - done : done; }

/* Copies round `done` of gathered operands from their rows. */
static void get_gathered(const turns *t, int64_t done)
{
    const loop_step *s = t->s;
    for (int i = 0; i < s->gathered_count; i++) {
        const gathered_operand *g = &s->gathered[i];
        const mf_type *part = s->plan.body->program->in[g->input]->type;
        int64_t rows = part->dims[0], bytes = part->bytes / rows;
        const char *from = (const char *)mf_step_in(&s->step, t->values, g->input) + g->at + round_of(s, done) * g->round +
                           t->part * rows * g->row;
        for (int64_t r = 0; r < rows; r++)
            memcpy(t->rows + g->offset + r * bytes, from + r * g->row, (size_t)bytes);
    }
}

/* Copies round `done` of transposed results to their rows. */
static void put_transposed(const turns *t, int64_t done)
{
    const loop_step *s = t->s;
    int64_t rounds = s->plan.length, round = round_of(s, done);
    for (int i = 0; i < s->transposed_count; i++) {
        const mf_type *part = s->plan.body->program->out[s->transposed[i].result]->type;
        int64_t rows = part->dims[0], bytes = part->bytes / rows;
        char *to = (char *)mf_step_out(&s->step, t->values, s->transposed[i].result) + (t->part * rows * rounds + round) * bytes;
        for (int64_t r = 0; r < rows; r++)
            memcpy(to + r * rounds * bytes, t->rows + s->transposed[i].offset + r * bytes, (size_t)bytes);
    }
}

static bool goes_on(const turns *t, int64_t done, int turn, mf_error_object **error)
{
    const mf_native_kernel *cond = t->s->plan.cond;
    if (!cond)
        return done < t->s->plan.length;
    *error = mf_native_run_steps(cond, t->cond[turn], t->cond_scratch);
    return !*error && mf_load_i64(cond->program->out[0]->type->dtype, t->flag);
}

/* Runs iterations until the loop ends, or a second tier exists. Returns their number; its last bit says which buffer holds the carry. */
static int64_t repeat(turns *t, mf_error_object **error)
{
    const loop_step *s = t->s;
    int64_t done = 0;
    for (int turn = 0; goes_on(t, done, turn, error); turn = 1 - turn) {
        void **values = t->body[turn];
        get_gathered(t, done);
        *error = mf_native_run_steps(s->plan.body, values, t->body_scratch);
        if (*error)
            break;
        put_transposed(t, done);
        for (int k = 0; k < s->moving_count && done + 2 < s->plan.length; k++)
            values[s->moving[k].value] = (char *)values[s->moving[k].value] + s->moving[k].bytes;
        if (++done % LOOK == 0 && s->step.up) {
            mf_tier_up_count(s->step.up, LOOK, 1);
            if (mf_tier_up_loop(s->step.up))
                return done;
        }
    }
    if (s->step.up)
        mf_tier_up_count(s->step.up, done % LOOK, 1);
    return done;
}

/* Runs the second tier on the step's operands and results; the carry comes from `carry`, or if NULL from the operands. */
static void run_compiled(const loop_step *s, mf_loop_fn *loop, void *const *values, const char *carry, int64_t from, char *workspace)
{
    void **in = (void **)(void *)workspace, **out = in + s->step.in_count;
    int first = s->plan.cond_consts + s->plan.body_consts;
    for (int i = 0; i < s->step.in_count; i++)
        in[i] = values[s->step.in[i]];
    for (int i = 0; i < s->plan.carry && carry; i++)
        in[first + i] = (char *)(uintptr_t)carry + s->offset[i];
    for (int o = 0; o < s->step.out_count; o++)
        out[o] = values[s->step.out[o]];
    loop(in, out, from, s->plan.length);
}

/* Runs the rounds of one part of the rows; with a single part, of all rows. */
static mf_error_object *run_part(const loop_step *s, void *const *values, char *pointers, char *hoisted, int64_t part, char *workspace)
{
    const mf_program *p = s->plan.body->program;
    turns t = { .s = s, .values = values, .hoisted = hoisted, .part = part };
    mf_error_object *error = NULL;
    lay_out(&t, workspace);
    for (int i = 0; i < s->plan.carry; i++)
        memcpy(t.carry[0] + s->offset[i],
               mf_step_in(&s->step, values, s->plan.cond_consts + s->plan.body_consts + i) + part * p->out[i]->type->bytes,
               (size_t)p->out[i]->type->bytes);
    int64_t done = repeat(&t, &error);
    mf_loop_fn *loop = s->step.up && !error ? mf_tier_up_loop(s->step.up) : NULL;
    if (loop) {
        run_compiled(s, loop, values, t.carry[done % 2], done, pointers);
        return NULL;
    }
    for (int i = 0; i < s->plan.carry && !error; i++)
        memcpy(mf_step_out(&s->step, values, i) + part * p->out[i]->type->bytes, t.carry[done % 2] + s->offset[i],
               (size_t)p->out[i]->type->bytes);
    return error;
}

typedef struct parts_job {
    const loop_step *s;
    void *const *values;
    char *hoisted, *workspaces;
    _Atomic(mf_error_object *) error; /* the first */
} parts_job;

static void run_one_of_parts(void *context, int64_t part)
{
    parts_job *j = context;
    mf_error_object *none = NULL,
                    *error = run_part(j->s, j->values, NULL, j->hoisted, part, j->workspaces + (size_t)part * workspace_bytes(j->s));
    if (error && !atomic_compare_exchange_strong(&j->error, &none, error))
        mf_drop(error);
}

static void make_hoisted(const loop_step *s, void *const *values, char *to)
{
    for (int i = 0; i < s->hoisted_count; i++) {
        const mf_native_step *h = s->hoisted[i].step;
        const mf_native_value *v = &s->plan.body->plan.values[h->in[h->hoisted->operand]];
        h->hoisted->make(h, mf_step_in(&s->step, values, s->plan.cond_consts + v->index) + v->offset, to + s->hoisted[i].offset);
    }
}

static mf_error_object *run(const mf_native_step *step, void *const *values, char *scratch)
{
    const loop_step *s = (const loop_step *)(const void *)step;
    mf_loop_fn *loop = step->up ? mf_tier_up_loop(step->up) : NULL;
    char *pointers = scratch + step->scratch_offset, *to = pointers + pointer_bytes(step), *workspaces = to + s->hoisted_bytes;
    if (loop) {
        run_compiled(s, loop, values, NULL, 0, pointers);
        return NULL;
    }
    make_hoisted(s, values, to);
    if (s->parts == 1)
        return run_part(s, values, pointers, to, 0, workspaces);
    parts_job j = { .s = s, .values = values, .hoisted = to, .workspaces = workspaces };
    mf_parallel_for(s->parts, run_one_of_parts, &j);
    return atomic_load(&j.error);
}

/* ------------------------------------------------------------------ the second tier */

static bool has_text(const mf_loop_plan *plan);

static bool kernel_has_text(const mf_native_kernel *k)
{
    for (int i = 0; i < k->plan.step_count; i++) {
        mf_form f = { 0 };
        if (!k->plan.steps[i]->form)
            return false;
        k->plan.steps[i]->form(k->plan.steps[i], &f);
        bool sums = f.kind == MF_FORM_PRODUCT || f.kind == MF_FORM_FOLD;
        if (f.kind == MF_FORM_GROUP  ? !mf_llvm_can(f.group->group)
            : f.kind == MF_FORM_LOOP ? !has_text(f.loop)
                                     : sums && !mf_llvm_can_sum(&f))
            return false;
    }
    return true;
}

static bool has_text(const mf_loop_plan *plan) { return (!plan->cond || kernel_has_text(plan->cond)) && kernel_has_text(plan->body); }

static void form_of(const mf_native_step *step, mf_form *f)
{
    f->kind = MF_FORM_LOOP;
    f->loop = &((const loop_step *)(const void *)step)->plan;
}

static bool write_loop(const void *plan, mf_loop_text *t) { return mf_loop_write_repeat(plan, t); }

static void add_second_tier(mf_build *b, loop_step *s, double turn)
{
    mf_tier_up_hints hints = { .cost = turn, .pays = s->plan.cond || s->plan.length > 1, .soon = s->step.cost >= SOON, .large = true };
    if (!mf_tier_up_wanted(hints) || !has_text(&s->plan))
        return;
    mf_tier_up *up = mf_build_alloc(b, 1, sizeof *up);
    if (!up || !mf_tier_up_begin(b, up, write_loop, &s->plan, hints))
        return;
    s->step.up = up;
    s->step.cost /= mf_tier_up_loop(up) ? 10 : 1;
}

/* ------------------------------------------------------------------ compilation */

static bool is_transposed(const loop_step *s, int result)
{
    for (int i = 0; i < s->transposed_count; i++)
        if (s->transposed[i].result == result)
            return true;
    return false;
}

/* The transpose of rounds and rows, if it is the only reader of the stacked result. */
static const mf_eqn *turn_of(const mf_build *b, const mf_variable *stacked)
{
    const mf_eqn *t = b->vars[stacked->id].only_reader;
    if (!t || t->op != &mf_op_transpose || !stacked->type->size)
        return NULL;
    const mf_intlist *from = ((const mf_permutation_params *)t->params)->permutation;
    for (int i = 0; i < from->count; i++)
        if (from->at[i] != (i < 2 ? 1 - i : i))
            return NULL;
    return from->count >= 2 ? t : NULL;
}

/* Only for a loop in parts of the rows, which no second tier replaces. out: the variables that the step makes. */
static void find_transposed(mf_build *b, loop_step *s, const mf_eqn *e, mf_variable **out)
{
    s->transposed = mf_build_alloc(b, (size_t)e->out_count, sizeof *s->transposed);
    for (int o = 0; o < e->out_count && !b->error; o++) {
        const mf_eqn *turn = s->parts > 1 && o >= s->plan.carry ? turn_of(b, e->out[o]) : NULL;
        out[o] = turn ? turn->out[0] : e->out[o];
        if (!turn)
            continue;
        s->transposed[s->transposed_count++] = (transposed_result){ o, s->rows_bytes };
        s->rows_bytes += aligned((size_t)s->plan.body->program->out[o]->type->bytes);
    }
}

/* Whether a round's rows are not contiguous, but each row is. */
static bool lies_by_rows(const mf_layout *l, const mf_type *type)
{
    int64_t inner = 1;
    for (int d = type->rank - 1; d > 1; inner *= type->dims[d--])
        if (l->strides[d] != inner && type->dims[d] > 1)
            return false;
    return type->rank > 1 && type->size && l->strides[1] != inner;
}

/* Only for a loop in parts of the rows, as above. in: the variables that the step reads. */
static void find_gathered(mf_build *b, loop_step *s, const mf_eqn *e, mf_variable **in)
{
    s->gathered = mf_build_alloc(b, (size_t)e->in_count, sizeof *s->gathered);
    for (int i = 0; i < e->in_count && !b->error; i++) {
        const mf_var_state *v = &b->vars[e->in[i]->id];
        const mf_type *t = e->in[i]->type;
        in[i] = e->in[i];
        if (s->parts == 1 || i < s->plan.body_consts + s->plan.carry || v->kind != MF_VAR_VIEW || !lies_by_rows(&v->layout, t))
            continue;
        int size = mf_dtype_size(t->dtype);
        s->gathered[s->gathered_count++] = (gathered_operand){ i, v->layout.offset * size, v->layout.strides[0] * size,
                                                               v->layout.strides[1] * size, s->rows_bytes };
        s->rows_bytes += aligned((size_t)s->plan.body->program->in[i]->type->bytes);
        in[i] = b->program->vars[v->root];
    }
}

static bool is_gathered(const loop_step *s, int input)
{
    for (int i = 0; i < s->gathered_count; i++)
        if (s->gathered[i].input == input)
            return true;
    return false;
}

static void find_moving(mf_build *b, loop_step *s)
{
    int first = s->plan.body_consts + s->plan.carry;
    s->moving = mf_build_alloc(b, (size_t)s->plan.body->plan.value_count, sizeof *s->moving);
    for (int i = 0; i < s->plan.body->plan.value_count && !b->error && !s->plan.cond; i++) {
        const mf_native_value *v = &s->plan.body->plan.values[i];
        int64_t bytes = 0;
        if (v->place == MF_PLACE_INPUT && v->index >= first && !is_gathered(s, v->index))
            bytes = s->whole->in[v->index]->type->bytes;
        else if (v->place == MF_PLACE_OUTPUT && v->index >= s->plan.carry && !is_transposed(s, v->index))
            bytes = s->whole->out[v->index]->type->bytes;
        if (bytes)
            s->moving[s->moving_count++] = (moving){ i, s->plan.reverse ? -2 * bytes : 2 * bytes };
    }
}

static void place_carry(mf_build *b, loop_step *s)
{
    s->offset = mf_build_alloc(b, (size_t)s->plan.carry + 1, sizeof *s->offset);
    for (int i = 0; i < s->plan.carry && !b->error; i++)
        s->offset[i + 1] = s->offset[i] + (int64_t)aligned((size_t)s->plan.body->program->out[i]->type->bytes);
}

static void compile_programs(mf_build *b, loop_step *s, const mf_eqn *e)
{
    const mf_while_params *w = e->params;
    const mf_scan_params *n = e->params;
    bool scan = e->op == &mf_op_scan;
    if (!scan)
        s->plan.cond = mf_native_compile_inner(b, w->cond, (int)w->cond_consts);
    s->whole = scan ? n->body : w->body;
    if (!b->error)
        s->plan.body = mf_native_compile_inner(b, s->whole, (int)(scan ? n->consts : w->body_consts));
    s->plan.cond_consts = scan ? 0 : (int)w->cond_consts;
    s->plan.body_consts = scan ? (int)n->consts : (int)w->body_consts;
    s->plan.carry = scan ? (int)n->carry : e->out_count;
    s->plan.length = scan ? n->length : 0;
    s->plan.reverse = scan && n->reverse;
}

static double cost_of_turn(const loop_step *s) { return s->plan.body->kernel.cost + (s->plan.cond ? s->plan.cond->kernel.cost : 0) + 20; }

/* Makes a body for a part of the rows, if that is worth it. */
static void cut_rows(mf_build *b, loop_step *s)
{
    s->parts = 1;
    if (s->plan.cond || cost_of_turn(s) * (double)s->plan.length < PARTS || has_text(&s->plan))
        return;
    mf_program *body = mf_loop_cut_rows(b, s->whole, s->plan.body_consts, &s->parts);
    if (!body)
        return;
    mf_native_drop_inner(b);
    s->plan.body = mf_native_compile_inner(b, body, s->plan.body_consts);
    mf_drop(body);
}

static void find_hoisted(mf_build *b, loop_step *s)
{
    const mf_native_plan *plan = &s->plan.body->plan;
    s->hoisted = mf_build_alloc(b, (size_t)plan->step_count, sizeof *s->hoisted);
    for (int i = 0; i < plan->step_count && !b->error; i++) {
        mf_native_step *h = plan->steps[i];
        if (!h->hoisted)
            continue;
        h->prepared = plan->value_count + s->hoisted_count;
        s->hoisted[s->hoisted_count++] = (hoisted_part){ h, s->hoisted_bytes };
        s->hoisted_bytes += aligned(h->hoisted->bytes(h));
    }
}

bool mf_build_loop(mf_build *b, const mf_eqn *e)
{
    if (!(e->op->flags & MF_OP_LOOP))
        return false;
    loop_step *s = mf_step_new(b, sizeof *s, e);
    if (!s)
        return true;
    compile_programs(b, s, e);
    if (!b->error)
        cut_rows(b, s);
    if (!b->error)
        find_hoisted(b, s);
    mf_variable **results = mf_build_alloc(b, (size_t)e->out_count, sizeof *results),
                **operands = mf_build_alloc(b, (size_t)e->in_count, sizeof *operands);
    if (!b->error)
        find_transposed(b, s, e, results);
    if (!b->error)
        find_gathered(b, s, e, operands);
    if (!b->error)
        place_carry(b, s);
    if (!b->error)
        find_moving(b, s);
    if (b->error)
        return true;
    int most = s->plan.body->program->in_count, out = s->plan.body->program->out_count;
    most = s->plan.cond && s->plan.cond->program->in_count > most ? s->plan.cond->program->in_count : most;
    s->places = most > out ? most : out;
    s->step.in_count = e->in_count;
    s->step.out_count = e->out_count;
    s->step.scratch_bytes = pointer_bytes(&s->step) + s->hoisted_bytes + (size_t)s->parts * workspace_bytes(s);
    s->step.run = run;
    s->step.form = s->parts == 1 ? form_of : NULL; /* plan.body is for a part of the rows only */
    double turn = cost_of_turn(s) * s->parts;
    s->step.cost = (s->plan.cond ? 1000 : (double)s->plan.length) * turn; /* the number of iterations of a while is unknown */
    if (s->parts == 1)
        add_second_tier(b, s, turn);
    mf_build_step(b, &s->step, operands, e->in_count, results, e->out_count);
    return true;
}
