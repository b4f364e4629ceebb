/* The verifier: checks the invariants of finished programs (ir/program.h). It trusts nothing but the lengths of the lists. Contract for
 * passes: every program that a pass returns must verify; a debug build checks that after each pass. */
#include "ir/op.h"

#define DEEPEST 256

typedef struct verifier {
    const mf_program *program;
    const mf_axis_env *env;
    bool *defined; /* by id */
    int depth;
} verifier;

static mf_error_object *verify(const mf_program *p, const mf_axis_env *env, int depth);

static bool is_ours(const verifier *v, const mf_variable *var)
{
    const mf_program *p = v->program;
    return var && var->id >= 0 && var->id < p->var_count && p->vars[var->id] == var;
}

static bool is_usable(const verifier *v, const mf_variable *var)
{
    return is_ours(v, var) && (var->constant ? var->constant->type == var->type && !var->producer : v->defined[var->id]);
}

static mf_error_object *bad(const mf_eqn *e, int index, const char *what, int which)
{
    return mf_error_new(MF_ERROR_ARGUMENT, "invalid program: equation %d (%s): %s %d", index, e->op->name, what, which);
}

static mf_error_object *check_inputs(const verifier *v)
{
    for (int i = 0; i < v->program->in_count; i++) {
        const mf_variable *var = v->program->in[i];
        if (!is_ours(v, var) || v->defined[var->id] || var->constant || var->producer)
            return mf_error_new(MF_ERROR_ARGUMENT, "invalid program: input %d is not a fresh variable of it", i);
        v->defined[var->id] = true;
    }
    return NULL;
}

static mf_error_object *check_operands(const verifier *v, const mf_eqn *e, int index)
{
    for (int i = 0; i < e->in_count; i++)
        if (!is_usable(v, e->in[i]))
            return bad(e, index, "used before it is defined: operand", i);
    return NULL;
}

static mf_error_object *check_results(const verifier *v, const mf_eqn *e, int index)
{
    for (int i = 0; i < e->out_count; i++) {
        const mf_variable *var = e->out[i];
        if (!is_ours(v, var) || v->defined[var->id] || var->constant || var->producer != e || var->output != i)
            return bad(e, index, "not a fresh variable of the program: result", i);
        v->defined[var->id] = true;
    }
    return NULL;
}

static mf_error_object *check_types(const verifier *v, const mf_eqn *e, int index, mf_arena *arena)
{
    const mf_type *one = NULL;
    mf_type_context c = {
        .op = e->op, .params = e->params, .in_count = e->in_count, .env = v->env, .out_count = 1, .out = &one, .arena = arena
    };
    mf_error_object *error = mf_type_infer(&c, e->in);
    if (error)
        return mf_error_wrap(error, "invalid program: equation %d", index);
    if (c.out_count != e->out_count)
        return bad(e, index, "the type rule gives another number of results than", e->out_count);
    for (int i = 0; i < e->out_count; i++)
        if (c.out[i] != e->out[i]->type)
            return bad(e, index, "the type rule gives another type for result", i);
    return NULL;
}

static mf_error_object *check_nested(const verifier *v, const mf_eqn *e, int index)
{
    const mf_axis_env *env = mf_params_env(e->op, e->params, v->env);
    for (int i = 0, n = mf_params_program_count(e->op, e->params); i < n; i++) {
        mf_error_object *error = verify(*mf_params_program_at(e->op, e->params, i), env, v->depth + 1);
        if (error)
            return mf_error_wrap(error, "in equation %d (%s)", index, e->op->name);
    }
    return NULL;
}

static mf_error_object *check_eqn(const verifier *v, const mf_eqn *e, int index)
{
    if (!e->op || (e->op->params && !e->params))
        return mf_error_new(MF_ERROR_ARGUMENT, "invalid program: equation %d has no op or params", index);
    mf_arena arena = { 0 };
    mf_error_object *error = check_operands(v, e, index);
    if (!error)
        error = check_nested(v, e, index);
    if (!error)
        error = check_types(v, e, index, &arena);
    if (!error)
        error = check_results(v, e, index);
    mf_arena_free(&arena);
    return error;
}

static mf_error_object *check_vars(const verifier *v)
{
    for (int i = 0; i < v->program->var_count; i++) {
        const mf_variable *var = v->program->vars[i];
        if (!var || var->id != i || !var->type)
            return mf_error_new(MF_ERROR_ARGUMENT, "invalid program: variable %d has another id or no type", i);
    }
    return NULL;
}

static mf_error_object *check_outputs(const verifier *v)
{
    for (int i = 0; i < v->program->out_count; i++)
        if (!is_usable(v, v->program->out[i]))
            return mf_error_new(MF_ERROR_ARGUMENT, "invalid program: output %d is not defined in it", i);
    return NULL;
}

static mf_error_object *verify(const mf_program *p, const mf_axis_env *env, int depth)
{
    if (depth > DEEPEST)
        return mf_error_new(MF_ERROR_ARGUMENT, "invalid program: nested more than %d deep", DEEPEST);
    verifier v = { p, env, mf_calloc((size_t)p->var_count + 1, sizeof *v.defined), depth };
    if (!v.defined)
        return mf_error_out_of_memory();
    mf_error_object *error = check_vars(&v);
    if (!error)
        error = check_inputs(&v);
    for (int i = 0; !error && i < p->eqn_count; i++)
        error = check_eqn(&v, p->eqns[i], i);
    if (!error)
        error = check_outputs(&v);
    mf_free(v.defined);
    return error;
}

mf_error_object *mf_program_verify(const mf_program *p, const mf_axis_env *env) { return verify(p, env, 0); }
