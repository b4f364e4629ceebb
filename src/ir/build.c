/* The builder: appends inputs, constants and equations to a program, and infers types by the ops' rules. Invariant: while `error` is NULL,
 * every equation in the program is typed and its operands are defined before it. After the first error nothing more is appended, and every
 * variable returned is the poison variable, a scalar whose dimensions read as 1, so that rules can continue harmlessly. A constant appears
 * once: constants that mf_literal_same calls equal share a variable. */
#include "ir/op.h"
#include <stdarg.h>
#include <string.h>

/* ---- poison */
#define ONES4 1, 1, 1, 1
static const mf_type poison_type = { MF_F32, false, 0, 1, 4, { ONES4, ONES4, ONES4, ONES4 } };
static mf_variable poison_var = { &poison_type, 0, NULL, NULL, 0 };
#define P8  &poison_var, &poison_var, &poison_var, &poison_var, &poison_var, &poison_var, &poison_var, &poison_var
#define P64 P8, P8, P8, P8, P8, P8, P8, P8
static mf_variable *poison_list[] = { P64, P64, P64, P64 }; /* used when there is no memory for a longer list */
static const mf_op poison_op = { .name = "error" };
static mf_eqn poison_eqn = { &poison_op, NULL, 0, (int)(sizeof poison_list / sizeof poison_list[0]), poison_list, poison_list, NULL };

/* A failed equation has as many results as a rule might read: as many as a nested program has, and at least as many as there are
 * operands. */
static mf_eqn *make_poison(mf_builder *b, const mf_op *op, const void *params, int in_count)
{
    int want = in_count;
    for (int i = 0, n = mf_params_program_count(op, params); i < n; i++)
        if ((*mf_params_program_at(op, params, i))->out_count > want)
            want = (*mf_params_program_at(op, params, i))->out_count;
    if (want <= poison_eqn.out_count || !b->program)
        return &poison_eqn;
    mf_eqn *e = mf_arena_alloc(&b->program->arena, sizeof *e);
    mf_variable **list = mf_arena_alloc(&b->program->arena, (size_t)want * sizeof *list);
    if (!e || !list)
        return &poison_eqn;
    for (int i = 0; i < want; i++)
        list[i] = &poison_var;
    *e = (mf_eqn){ &poison_op, NULL, 0, want, list, list, NULL };
    return e;
}

/* ---- begin and end */
void mf_builder_init(mf_builder *b, const mf_axis_env *env)
{
    *b = (mf_builder){ .env = env, .program = mf_object_new(&mf_program_class, sizeof(mf_program)) };
    if (!b->program)
        mf_builder_fail(b, mf_error_out_of_memory());
}

void mf_builder_fail(mf_builder *b, mf_error_object *e)
{
    if (b->error) {
        mf_error_ignore(e); /* it follows from the first error, so it is not reported */
        return;
    }
    if (b->address)
        mf_error_set_address(e, b->address);
    b->error = e;
}

void mf_builder_abandon(mf_builder *b)
{
    mf_drop(b->program);
    mf_drop(b->error);
    mf_hash_map_free(&b->constants);
    *b = (mf_builder){ .env = b->env };
}

static bool set_outputs(mf_builder *b, mf_variable *const *out, int out_count)
{
    mf_program *p = b->program;
    p->out = mf_arena_alloc(&p->arena, (size_t)out_count * sizeof *p->out + 1);
    if (!p->out) {
        mf_builder_fail(b, mf_error_out_of_memory());
        return false;
    }
    for (int i = 0; i < out_count; i++) {
        mf_variable *v = out[i];
        if (!v || v->id >= p->var_count || p->vars[v->id] != v) {
            mf_builder_fail(b, mf_error_new(MF_ERROR_TRACER, "result %d of a program belongs to another program", i));
            return false;
        }
        p->out[i] = v;
    }
    p->out_count = out_count;
    return true;
}

mf_program *mf_builder_finish(mf_builder *b, mf_variable *const *out, int out_count, mf_error_object **error)
{
    mf_program *p = NULL;
    if (!b->error && set_outputs(b, out, out_count)) {
        p = b->program;
        b->program = NULL;
    } else {
        *error = b->error;
        b->error = NULL;
    }
    mf_builder_abandon(b);
    return p;
}

/* ---- variables */
static mf_variable *new_var(mf_builder *b, const mf_type *type)
{
    mf_program *p = b->program;
    mf_variable *v = mf_arena_alloc(&p->arena, sizeof *v);
    if (!v || !mf_grow(&p->vars, &b->var_capacity, p->var_count + 1, sizeof *p->vars))
        return NULL;
    v->type = type;
    v->id = p->var_count;
    p->vars[p->var_count++] = v;
    return v;
}

static mf_variable *poison_with(mf_builder *b, mf_error_object *e)
{
    mf_builder_fail(b, e);
    return &poison_var;
}

mf_variable *mf_builder_input(mf_builder *b, const mf_type *type)
{
    if (b->error)
        return &poison_var;
    if (!type)
        return poison_with(b, mf_error_out_of_memory());
    mf_program *p = b->program;
    mf_variable *v = mf_grow(&p->in, &b->in_capacity, p->in_count + 1, sizeof *p->in) ? new_var(b, type) : NULL;
    if (!v)
        return poison_with(b, mf_error_out_of_memory());
    return p->in[p->in_count++] = v;
}

static uint64_t constant_hash(const mf_literal *l)
{
    return l->buffer ? mf_hash_mix(0, (uintptr_t)l->buffer) : mf_hash(l->small, sizeof l->small, (uintptr_t)l->type);
}

mf_variable *mf_builder_constant(mf_builder *b, mf_literal *l)
{
    int at = -1;
    if (b->error)
        return &poison_var;
    for (mf_variable *v; l && (v = mf_hash_map_next(&b->constants, constant_hash(l), &at));)
        if (mf_literal_same(v->constant, l))
            return v;
    mf_variable *v = l ? new_var(b, l->type) : NULL;
    if (!v || !mf_hash_map_add(&b->constants, constant_hash(l), v))
        return poison_with(b, mf_error_out_of_memory());
    v->constant = mf_retain(l);
    return v;
}

mf_variable *mf_builder_number(mf_builder *b, mf_dtype dtype, bool weak, double x)
{
    mf_literal *l = mf_literal_number(dtype, weak, x);
    mf_variable *v = mf_builder_constant(b, l);
    mf_drop(l);
    return v;
}

/* ---- equations */
#define SPARE_TYPES 8 /* types beyond the operands, for a rule that reads them before it checks in_count */

/* Integer lists are never NULL, unless interning them ran out of memory. */
static bool has_lists(const mf_op *op, const void *params)
{
    for (const mf_param *p = op->params; p && p->name; p++)
        if ((p->kind == MF_PARAM_INTS || p->kind == MF_PARAM_EXTRA) &&
            !*(const mf_intlist *const *)(const void *)((const char *)params + p->offset))
            return false;
    return true;
}

mf_error_object *mf_type_infer(mf_type_context *c, mf_variable *const *in)
{
    if (!has_lists(c->op, c->params))
        return mf_error_out_of_memory();
    if (c->op->operands && c->in_count != c->op->operands)
        return mf_error_new(MF_ERROR_ARGUMENT, "%s takes %d operand%s, got %d", c->op->name, c->op->operands,
                            c->op->operands > 1 ? "s" : "", c->in_count);
    const mf_type **types = mf_arena_alloc(c->arena, ((size_t)c->in_count + SPARE_TYPES) * sizeof *types);
    if (!types)
        return mf_error_out_of_memory();
    for (int i = 0; i < c->in_count + SPARE_TYPES; i++)
        types[i] = i < c->in_count ? in[i]->type : &poison_type;
    c->in = types;
    mf_error_object *e = c->op->type_rule(c);
    if (e)
        return e;
    for (int i = 0; i < c->out_count; i++)
        if (!c->out[i] && mf_type_memory_was_out())
            return mf_error_out_of_memory();
        else if (!c->out[i])
            return mf_type_error(c, MF_ERROR_SHAPE, "the result is too large or its shape is not valid");
    return c->out_count < 0 ? mf_error_out_of_memory() : NULL;
}

static mf_error_object *check_operands(const mf_builder *b, const mf_op *op, mf_variable *const *in, int in_count)
{
    for (int i = 0; i < in_count; i++) {
        if (!in[i])
            return mf_error_new(MF_ERROR_ARGUMENT, "%s: operand %d is missing", op->name, i);
        if (in[i]->id >= b->program->var_count || b->program->vars[in[i]->id] != in[i])
            return mf_error_new(MF_ERROR_TRACER, "%s: operand %d belongs to another program", op->name, i);
    }
    return NULL;
}

static bool add_results(mf_builder *b, mf_eqn *e, const mf_type_context *c)
{
    for (int i = 0; i < c->out_count; i++) {
        mf_variable *v = new_var(b, c->out[i]);
        if (!v)
            return false;
        v->producer = e;
        v->output = i;
        e->out[i] = v;
    }
    return true;
}

static mf_eqn *append(mf_builder *b, const mf_type_context *c, mf_variable *const *in)
{
    mf_program *p = b->program;
    mf_eqn *e = mf_arena_alloc(&p->arena, sizeof *e);
    mf_variable **vars = mf_arena_alloc(&p->arena, (size_t)(c->in_count + c->out_count) * sizeof *vars + 1);
    if (!e || !vars || !mf_grow(&p->eqns, &b->eqn_capacity, p->eqn_count + 1, sizeof *p->eqns))
        return NULL;
    *e = (mf_eqn){ .op = c->op, .in_count = c->in_count, .out_count = c->out_count, .in = vars, .out = vars + c->in_count };
    e->address = b->address ? b->address : mf_entry_address;
    for (int i = 0; i < c->in_count; i++)
        vars[i] = in[i];
    if (!add_results(b, e, c))
        return NULL;
    e->params = mf_params_copy(&p->arena, c->op, c->params); /* last, because it retains the nested programs */
    if (!e->params && c->op->params)
        return NULL;
    p->eqns[p->eqn_count++] = e;
    return e;
}

mf_eqn *mf_emit_eqn(mf_builder *b, const mf_op *op, const void *params, mf_variable *const *in, int in_count)
{
    if (b->error)
        return make_poison(b, op, params, in_count);
    const mf_type *out = NULL;
    mf_type_context c = {
        .op = op, .params = params, .in_count = in_count, .env = b->env, .out_count = 1, .out = &out, .arena = &b->program->arena
    };
    mf_error_object *error = check_operands(b, op, in, in_count);
    if (!error)
        error = mf_type_infer(&c, in);
    mf_eqn *e = error ? NULL : append(b, &c, in);
    if (e)
        return e;
    mf_builder_fail(b, error ? error : mf_error_out_of_memory());
    return make_poison(b, op, params, in_count);
}

mf_variable *mf_emit(mf_builder *b, const mf_op *op, const void *params, int in_count, ...)
{
    mf_variable *in[MF_EMIT_MAX];
    if (in_count > MF_EMIT_MAX)
        return poison_with(b, mf_error_new(MF_ERROR_ARGUMENT, "%s: mf_emit takes at most %d operands", op->name, MF_EMIT_MAX));
    va_list args;
    va_start(args, in_count);
    for (int i = 0; i < in_count; i++)
        in[i] = va_arg(args, mf_variable *);
    va_end(args);
    mf_eqn *e = mf_emit_eqn(b, op, params, in, in_count);
    return e->out_count > 0 ? e->out[0] : &poison_var;
}

/* ---- copying */
void mf_copy_eqn(mf_builder *b, const mf_eqn *e, mf_variable *const *in, mf_variable **out)
{
    const void *before = b->address;
    if (e->address)
        b->address = e->address;
    mf_eqn *copy = mf_emit_eqn(b, e->op, e->params, in, e->in_count);
    if (!b->error && copy->out_count != e->out_count)
        mf_builder_fail(b,
                        mf_error_new(MF_ERROR_ARGUMENT, "%s: %d results where there were %d", e->op->name, copy->out_count, e->out_count));
    for (int i = 0; i < e->out_count; i++)
        out[i] = b->error ? &poison_var : copy->out[i];
    b->address = before;
}

static void inline_with(mf_builder *b, const mf_program *p, mf_variable **map, mf_variable **operands)
{
    for (int k = 0; k < p->eqn_count && !b->error; k++) {
        const mf_eqn *e = p->eqns[k];
        for (int i = 0; i < e->in_count; i++) {
            mf_variable *v = e->in[i];
            operands[i] = v->constant ? mf_builder_constant(b, v->constant) : map[v->id];
        }
        mf_copy_eqn(b, e, operands, operands);
        for (int i = 0; i < e->out_count; i++)
            map[e->out[i]->id] = operands[i];
    }
}

static int widest(const mf_program *p)
{
    int most = 0;
    for (int i = 0; i < p->eqn_count; i++) {
        most = p->eqns[i]->in_count > most ? p->eqns[i]->in_count : most;
        most = p->eqns[i]->out_count > most ? p->eqns[i]->out_count : most;
    }
    return most;
}

void mf_inline(mf_builder *b, const mf_program *p, mf_variable *const *in, mf_variable **out)
{
    mf_variable **map = b->error ? NULL : mf_calloc((size_t)p->var_count + (size_t)widest(p) + 1, sizeof *map);
    if (!map && !b->error)
        mf_builder_fail(b, mf_error_out_of_memory());
    if (map) {
        for (int i = 0; i < p->in_count; i++)
            map[p->in[i]->id] = in[i];
        inline_with(b, p, map, map + p->var_count);
    }
    for (int i = 0; i < p->out_count; i++) {
        mf_variable *v = p->out[i];
        out[i] = b->error ? &poison_var : v->constant ? mf_builder_constant(b, v->constant) : map[v->id];
    }
    mf_free(map);
}
