/* grad, value_and_grad and jvp as functions, made of the program transforms in rules/. Cells written by the inner function are auxiliary
 * results. Gradients with respect to cells that it reads are computed on request. */
#include "base/memory/vector.h"
#include "passes/passes.h"
#include "trace/dispatch.h"
#include "trace/function.h"
#include "transform/state/diff_states.h"
#include "transform/rules/sweep.h"
#include "transform/rules/tangent.h"
#include "transform/transform.h"

#include <manyfold/function.h>
#include <manyfold/transforms.h>
#include <string.h>

/* ---- grad and value_and_grad */

typedef struct grad_options {
    mf_ints argnums; /* empty: argument 0, and the gradient is not in a tuple */
    bool has_aux, with_value, allow_int, holomorphic;
    const mf_filter_object *states; /* immortal; NULL: none. If set, argument 0 is included only when named */
} grad_options;

static bool chosen(const grad_options *o, int argument, int count)
{
    if (o->argnums.count == 0)
        return argument == 0 && !o->states;
    for (int i = 0; i < o->argnums.count; i++)
        if (o->argnums.at[i] == argument || o->argnums.at[i] + count == argument)
            return true;
    return false;
}

static mf_error_object *check_argnums(const mf_function_object *f, const mf_signature *s, const grad_options *o)
{
    bool named[MF_MAX_ARGUMENTS] = { 0 };
    for (int i = 0; i < o->argnums.count; i++) {
        int64_t at = o->argnums.at[i];
        if (at >= s->arg_count || at < -s->arg_count)
            return mf_error_new(MF_ERROR_ARGUMENT, "%s: argnums names argument %lld, but the call has %d", f->name, (long long)at,
                                s->arg_count);
        at += at < 0 ? s->arg_count : 0;
        if (named[at])
            return mf_error_new(MF_ERROR_ARGUMENT, "%s: argnums names argument %lld twice", f->name, (long long)at);
        named[at] = true;
    }
    return NULL;
}

static mf_error_object *check_arguments(const mf_function_object *f, const mf_signature *s, const grad_options *o)
{
    mf_error_object *wrong = check_argnums(f, s, o);
    if (wrong)
        return wrong;
    for (int i = 0; i < s->leaf_count; i++) {
        if (!chosen(o, mf_signature_argument_of(s, i), s->arg_count))
            continue;
        const mf_type *t = s->leaves[i].type;
        if (t && (o->holomorphic ? mf_dtype_is_complex(t->dtype) : o->allow_int || mf_dtype_is_inexact(t->dtype)))
            continue;
        const char *kind = o->holomorphic ? "grad with holomorphic requires complex inputs"
                                          : "grad requires real- or complex-valued inputs (input dtype that is a sub-dtype of floating)";
        mf_text path = { 0 };
        mf_signature_leaf_path(&path, s, i);
        const char *way = t && !o->holomorphic ? "; .allow_int takes integers and bools: their gradients are zeros" : "";
        mf_error_object *e = mf_error_new(MF_ERROR_DTYPE, "%s, but %s of %s is %s%s", kind, path.at ? path.at : "an argument",
                                          f->inner->name, t ? mf_type_name(t) : "a static", way);
        mf_text_free(&path);
        return e;
    }
    return NULL;
}

/* Checks that the result is a scalar that can be differentiated, with an auxiliary tree beside it if has_aux. */
static mf_error_object *check_result(const mf_function_object *f, const mf_traced *t, const grad_options *o)
{
    const mf_structure *r = t->result, *value = r;
    if (o->has_aux) {
        if (r->kind != MF_NODE_TUPLE || r->child_count != 2)
            return mf_error_new(MF_ERROR_TREE, "%s with has_aux: %s must return a tuple (value, aux)", f->kind->name, f->inner->name);
        value = r->children[0];
    }
    const mf_type *type = value->kind == MF_NODE_LEAF && t->program->out_count && !(t->result_statics && t->result_statics[0])
                              ? t->program->out[0]->type
                              : NULL;
    if (!type)
        return mf_error_new(MF_ERROR_TREE, "gradient only defined for scalar-output functions; %s returned a tree", f->inner->name);
    if (type->rank)
        return mf_error_new(MF_ERROR_SHAPE, "gradient only defined for scalar-output functions; the output of %s had shape %s",
                            f->inner->name, mf_type_name(type));
    if (o->holomorphic && !mf_dtype_is_complex(type->dtype))
        return mf_error_new(MF_ERROR_DTYPE, "grad with holomorphic requires complex outputs; the output of %s is %s", f->inner->name,
                            mf_type_name(type));
    if (!o->holomorphic && !mf_dtype_is_float(type->dtype))
        return mf_error_new(MF_ERROR_DTYPE, "grad requires real-valued outputs; the output of %s is %s%s", f->inner->name,
                            mf_type_name(type),
                            mf_dtype_is_complex(type->dtype) ? "; for a holomorphic function say .holomorphic = true" : "");
    return NULL;
}

/* The structure of the arguments' gradients: the chosen argument's, or a tuple of several. */
static const mf_structure *argument_structure(const grad_options *o, const mf_signature *s)
{
    if (o->argnums.count == 0)
        return s->structures[0];
    const mf_structure *parts[MF_MAX_RANK];
    for (int i = 0; i < o->argnums.count; i++)
        parts[i] = s->structures[(o->argnums.at[i] + s->arg_count) % s->arg_count];
    return o->argnums.count == 1 ? parts[0] : mf_structure_node(MF_NODE_TUPLE, NULL, parts, o->argnums.count);
}

/* The structure of all gradients: the states', the arguments', or a tuple of both. */
static const mf_structure *gradient_structure(const grad_options *o, const mf_signature *s, const mf_diff_states *d)
{
    const mf_structure *arguments = d->structure && !o->argnums.count ? NULL : argument_structure(o, s);
    if (!d->structure || !arguments)
        return d->structure ? d->structure : arguments;
    return mf_structure_node(MF_NODE_TUPLE, NULL, (const mf_structure *const[]){ d->structure, arguments }, 2);
}

static int first_leaf(const mf_signature *s, int argument)
{
    int n = 0;
    for (int i = 0; i < argument; i++)
        n += s->structures[i]->leaf_count;
    return n;
}

/* The outputs chosen from the gradient program, so far. */
typedef struct chosen_outputs {
    MF_VECTOR(int) at;
    MF_VECTOR(mf_object *) statics; /* by result leaf: a static (borrowed), or NULL */
    bool some_static, memory;       /* memory: still available */
} chosen_outputs;

/* Chooses the next leaf of the result: output `at` of the program, or a static. */
static void choose_leaf(chosen_outputs *c, int at, mf_object *is_static)
{
    c->memory = c->memory && mf_vector_push(&c->statics, is_static) && (is_static || mf_vector_push(&c->at, at));
    c->some_static |= is_static != NULL;
}

/* Leaves [from, to) of the inner function's result. */
static void choose_results(chosen_outputs *c, const mf_traced *inner, int from, int to)
{
    int out = 0;
    for (int i = 0; i < to; i++) {
        mf_object *is_static = inner->result_statics ? inner->result_statics[i] : NULL;
        if (i >= from)
            choose_leaf(c, out, is_static);
        out += is_static == NULL;
    }
}

/* Chooses the states' gradients. The program's outputs from `first` on are the gradients of the inputs with wrt, in order. */
static void choose_states(chosen_outputs *c, const mf_diff_states *d, const bool *wrt, int first)
{
    for (int i = 0; i < d->at.count; i++) {
        int at = first;
        for (int k = 0; k < d->at.at[i].input; k++)
            at += wrt[k];
        for (int k = 0; k < d->at.at[i].cell->read_structure->leaf_count; k++)
            choose_leaf(c, at + k, NULL);
    }
}

/* Chooses the arguments' gradients, in the order of argnums. */
static void choose_gradients(chosen_outputs *c, const grad_options *o, const mf_signature *s, int first)
{
    if (!o->argnums.count && o->states)
        return;
    int *position = mf_alloc(((size_t)s->leaf_count + 1) * sizeof *position);
    c->memory = c->memory && position;
    for (int i = 0; position && i < s->leaf_count; i++)
        position[i] = s->leaves[i].type && chosen(o, mf_signature_argument_of(s, i), s->arg_count) ? first++ : -1;
    for (int k = 0; position && k < (o->argnums.count ? o->argnums.count : 1); k++) {
        int argument = o->argnums.count ? (int)((o->argnums.at[k] + s->arg_count) % s->arg_count) : 0;
        for (int i = first_leaf(s, argument), end = i + s->structures[argument]->leaf_count; i < end; i++)
            choose_leaf(c, position[i], NULL);
    }
    mf_free(position);
}

/* Which inputs of f's program to differentiate: those of the chosen arguments and states. */
static bool *chosen_inputs(const grad_options *o, const mf_signature *s, const mf_program *p, const mf_diff_states *d)
{
    bool *wrt = mf_calloc((size_t)p->in_count + 1, sizeof *wrt);
    for (int i = 0, typed = 0; wrt && i < s->leaf_count; i++)
        if (s->leaves[i].type)
            wrt[typed++] = chosen(o, mf_signature_argument_of(s, i), s->arg_count);
    for (int i = 0; wrt && i < d->at.count; i++)
        for (int k = 0; k < d->at.at[i].cell->read_structure->leaf_count; k++)
            wrt[d->at.at[i].input + k] = true;
    return wrt;
}

/* The program that computes f's results and then the gradients. */
static mf_program *gradients_of(const mf_signature *s, const mf_program *p, const bool *wrt, mf_error_object **error)
{
    mf_program *g = wrt ? mf_grad_program(p, s->env, wrt, error) : NULL;
    if (g && (*error = mf_program_step(g, s->env, "grad"))) {
        mf_drop(g);
        return NULL;
    }
    return g;
}

/* Results of the gradient program: [value, aux..., writes...], then gradients. */
static mf_traced *grad_build(mf_function_object *f, const mf_signature *s, mf_traced *inner, const mf_diff_states *d,
                             mf_error_object **error)
{
    const grad_options *o = f->options;
    const mf_program *p = inner->program;
    const mf_structure *gradients = gradient_structure(o, s, d), *result = gradients;
    chosen_outputs c = { .memory = true };
    bool *wrt = chosen_inputs(o, s, p, d);
    mf_program *g = gradients_of(s, p, wrt, error), *q = NULL;
    if (!g) {
        mf_free(wrt);
        return NULL;
    }
    if (o->with_value)
        choose_results(&c, inner, 0, inner->result->leaf_count);
    choose_states(&c, d, wrt, p->out_count);
    choose_gradients(&c, o, s, p->out_count);
    mf_free(wrt);
    if (!o->with_value && o->has_aux)
        choose_results(&c, inner, 1, inner->result->leaf_count);
    for (int i = mf_traced_result_count(inner); i < p->out_count; i++)
        c.memory = c.memory && mf_vector_push(&c.at, i);
    if (o->with_value)
        result = mf_structure_node(MF_NODE_TUPLE, NULL, (const mf_structure *const[]){ inner->result, gradients }, 2);
    else if (o->has_aux)
        result = mf_structure_node(MF_NODE_TUPLE, NULL, (const mf_structure *const[]){ gradients, inner->result->children[1] }, 2);
    if (c.memory)
        q = mf_program_select(g, NULL, g->in_count, c.at.at, c.at.count, error);
    mf_drop(g);
    mf_traced *made = q ? mf_traced_with(inner, q, result, c.some_static ? c.statics.at : NULL) : NULL;
    mf_free(c.at.at);
    mf_free(c.statics.at);
    return made;
}

static mf_traced *grad_trace(mf_function_object *f, const mf_signature *s, mf_error_object **error)
{
    if ((*error = check_arguments(f, s, f->options)))
        return NULL;
    mf_traced *inner = mf_function_trace(f->inner, s, error);
    if (!inner)
        return NULL;
    const grad_options *o = f->options;
    mf_diff_states states = { .structure = NULL };
    *error = check_result(f, inner, o);
    if (!*error && o->states)
        *error = mf_diff_states_find(&states, inner, o->states, o->allow_int, f->inner->name);
    mf_traced *result = *error ? NULL : grad_build(f, s, inner, &states, error);
    mf_diff_states_free(&states);
    if (!result && !*error)
        *error = mf_error_out_of_memory();
    mf_drop(inner);
    return result;
}

static const mf_function_class grad_class = { .name = "grad", .trace = grad_trace, .static_argnums = mf_inner_statics };
static const mf_function_class value_and_grad_class = { .name = "value_and_grad", .trace = grad_trace, .static_argnums = mf_inner_statics };

static mf_function make_grad(const mf_function_class *kind, mf_function f, const mf_grad_options *o, bool with_value)
{
    grad_options options;
    memset(&options, 0, sizeof options);
    mf_error_object *error = NULL;
    options.argnums = mf_ints_plain(o->argnums, "grad: argnums", &error);
    if (error)
        return (mf_function){ mf_handle_new(error) };
    options.has_aux = o->has_aux;
    options.with_value = with_value;
    options.allow_int = o->allow_int;
    options.holomorphic = o->holomorphic;
    if (o->states.handle && !(options.states = mf_filter_of(o->states, &error)))
        return (mf_function){ mf_handle_new(error) };
    return mf_function_wrap(kind, f, &options, sizeof options);
}

mf_function mf_grad_opt(mf_function f, const mf_grad_options *o)
{
    MF_ENTER((mf_function){ MF_FORK_HANDLE });
    static const mf_grad_options none;
    o = o ? o : &none;
    return make_grad(&grad_class, f, o, false);
}

mf_function mf_value_and_grad_opt(mf_function f, const mf_grad_options *o)
{
    MF_ENTER((mf_function){ MF_FORK_HANDLE });
    static const mf_grad_options none;
    o = o ? o : &none;
    return make_grad(&value_and_grad_class, f, o, true);
}

/* ---- jvp: a function of (primals, tangents), both tuples of the arguments */

/* The signature of the inner function, whose arguments come as one tuple. */
static mf_error_object *untuple(const mf_function_object *f, const mf_signature *s, const char *what, mf_signature *inner)
{
    const mf_structure *tuple = s->structures[0];
    if ((tuple->kind != MF_NODE_TUPLE && tuple->kind != MF_NODE_LIST) || tuple->child_count > MF_MAX_ARGUMENTS)
        return mf_error_new(MF_ERROR_TREE, "%s: %s must be a tuple of the arguments of %s", f->kind->name, what, f->inner->name);
    *inner = (mf_signature){ .env = s->env,
                             .client = s->client,
                             .rules = s->rules,
                             .arg_count = tuple->child_count,
                             .leaf_count = tuple->leaf_count,
                             .leaves = s->leaves };
    for (int i = 0; i < tuple->child_count; i++)
        inner->structures[i] = tuple->children[i];
    return NULL;
}

static mf_error_object *check_tangents(const mf_function_object *f, const mf_signature *s)
{
    if (s->structures[0] != s->structures[1]) {
        mf_text t = { 0 };
        mf_structure_difference(&t, s->structures[0], s->structures[1]);
        mf_error_object *e = mf_error_new(MF_ERROR_TREE, "jvp of %s: primals and tangents must have the same tree: %s", f->inner->name,
                                          t.at ? t.at : "");
        mf_text_free(&t);
        return e;
    }
    int n = s->structures[0]->leaf_count;
    for (int i = 0; i < n; i++) {
        const mf_type *p = s->leaves[i].type, *t = s->leaves[n + i].type;
        if (!p || !t || !mf_type_same_shape(p, t) || (mf_dtype_is_inexact(p->dtype) && p->dtype != t->dtype))
            return mf_error_new(MF_ERROR_DTYPE, "jvp of %s: primal %d is %s, its tangent %s", f->inner->name, i,
                                p ? mf_type_name(p) : "a static", t ? mf_type_name(t) : "a static");
    }
    return NULL;
}

/* Inputs of the result: primals, all tangents, captures, cells. Outputs: results, tangents, written cells. */
static mf_program *jvp_wrap(const mf_traced *inner, const mf_signature *s, const mf_program *j, const bool *has, const bool *out_tangent,
                            mf_error_object **error)
{
    const mf_program *p = inner->program;
    int n = s->structures[0]->leaf_count, results = mf_traced_result_count(inner);
    mf_builder b;
    mf_builder_init(&b, s->env);
    mf_variable **in = mf_calloc((size_t)j->in_count + 1, sizeof *in),
                **out = mf_calloc((size_t)j->out_count + (size_t)p->out_count + 1, sizeof *out);
    mf_variable **chosen_out = mf_calloc((size_t)(2 * p->out_count) + 1, sizeof *chosen_out);
    mf_program *q = NULL;
    if (in && out && chosen_out) {
        int k = p->in_count, m = 0;
        for (int i = 0; i < n; i++)
            in[i] = mf_builder_input(&b, p->in[i]->type);
        for (int i = 0; i < n; i++) {
            mf_variable *t = mf_builder_input(&b, s->leaves[n + i].type);
            if (has[i])
                in[k++] = t;
        }
        for (int i = n; i < p->in_count; i++)
            in[i] = mf_builder_input(&b, p->in[i]->type);
        mf_inline(&b, j, in, out);
        for (int i = 0; i < results; i++)
            chosen_out[m++] = out[i];
        for (int i = 0, next = p->out_count; i < p->out_count; i++) {
            mf_variable *t = out_tangent[i] ? out[next++] : NULL;
            if (i < results && t)
                chosen_out[m++] = t;
            else if (i < results)
                chosen_out[m++] = mf_cotangent_zeros(&b, p->out[i]->type);
        }
        for (int i = results; i < p->out_count; i++)
            chosen_out[m++] = out[i];
        q = mf_builder_finish(&b, chosen_out, m, error);
    } else {
        mf_builder_abandon(&b);
        *error = mf_error_out_of_memory();
    }
    mf_free(in);
    mf_free(out);
    mf_free(chosen_out);
    return q;
}

static mf_traced *jvp_trace(mf_function_object *f, const mf_signature *s, mf_error_object **error)
{
    mf_signature inner_signature;
    if (s->arg_count != 2)
        *error = mf_error_new(MF_ERROR_ARGUMENT, "jvp takes primals and tangents");
    else if (!(*error = untuple(f, s, "primals", &inner_signature)))
        *error = check_tangents(f, s);
    mf_traced *inner = *error ? NULL : mf_function_trace(f->inner, &inner_signature, error);
    if (!inner)
        return NULL;
    const mf_program *p = inner->program;
    int n = s->structures[0]->leaf_count, results = mf_traced_result_count(inner);
    bool *has = mf_calloc((size_t)(p->in_count + p->out_count) + 1, sizeof *has), *out_tangent = has ? has + p->in_count : NULL;
    mf_traced *result = NULL;
    if (has) {
        for (int i = 0; i < n; i++)
            has[i] = mf_dtype_is_inexact(p->in[i]->type->dtype);
        for (int i = 0; i < results; i++)
            out_tangent[i] = mf_dtype_is_inexact(p->out[i]->type->dtype);
        mf_program *j = mf_jvp_program(p, s->env, has, out_tangent, error);
        if (j && (*error = mf_program_step(j, s->env, "jvp"))) {
            mf_drop(j);
            j = NULL;
        }
        mf_program *q = j ? jvp_wrap(inner, s, j, has, out_tangent, error) : NULL;
        const mf_structure *pair = mf_structure_node(MF_NODE_TUPLE, NULL, (const mf_structure *const[]){ inner->result, inner->result }, 2);
        result = q ? mf_traced_with(inner, q, pair, NULL) : NULL;
        mf_drop(j);
    }
    if (!result && !*error)
        *error = mf_error_out_of_memory();
    mf_free(has);
    mf_drop(inner);
    return result;
}

static const mf_function_class jvp_class = { .name = "jvp", .trace = jvp_trace };

mf_value mf_jvp_n(mf_function f, mf_value primals, mf_value tangents)
{
    MF_ENTER(MF_FORKED);
    return mf_call_n(mf_function_wrap(&jvp_class, f, NULL, 0), (const mf_value[]){ primals, tangents }, 2);
}
