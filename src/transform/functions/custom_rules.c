/* custom_jvp and custom_vjp as functions: the inner function's program becomes one equation that carries the user's rule. The rule's C
 * functions are traced when a derivative is needed, under the axes that were in scope when the call was recorded. A rule must not capture
 * traced values and must not touch states. */
#include "ops/control/custom.h"

#include "ops/emit.h"
#include "trace/function.h"
#include "transform/transform.h"

#include <manyfold/transforms.h>
#include <string.h>

typedef struct custom_options {
    mf_object *first, *second; /* retained functions: the jvp rule; or the forward and backward rules */
} custom_options;

static void options_destroy(mf_function_object *f)
{
    custom_options *o = f->options;
    mf_drop(o->first);
    mf_drop(o->second);
}

static int options_depth(const void *options)
{
    const custom_options *o = options;
    int first = ((const mf_function_object *)o->first)->depth, second = o->second ? ((const mf_function_object *)o->second)->depth : 0;
    return first > second ? first : second;
}

/* A rule: the user's functions, and the structures of the call's arguments and result. */
typedef struct custom_rule {
    mf_custom_rule rule;
    mf_function_object *first, *second; /* retained */
    int arg_count;
    const mf_structure *arguments[MF_MAX_ARGUMENTS], *result;
} custom_rule;

static void rule_destroy(mf_object *o)
{
    mf_drop(((custom_rule *)o)->first);
    mf_drop(((custom_rule *)o)->second);
}
static const mf_class custom_rule_class = { "custom rule", rule_destroy };

/* ---- tracing a rule's function on trees of typed leaves */

static mf_traced *trace_rule(const custom_rule *r, mf_function_object *f, const mf_structure *const *structures, int arg_count,
                             const mf_type *const *types, int count, mf_error_object **error)
{
    mf_leaf *leaves = mf_calloc((size_t)count + 1, sizeof *leaves);
    if (!leaves) {
        *error = mf_error_out_of_memory();
        return NULL;
    }
    for (int i = 0; i < count; i++)
        leaves[i].type = types[i];
    mf_signature s = { .env = r->rule.env, .client = mf_trace_client(), .arg_count = arg_count, .leaf_count = count, .leaves = leaves };
    memcpy(s.structures, structures, (size_t)arg_count * sizeof *structures);
    mf_traced *t = mf_function_trace(f, &s, error);
    mf_free(leaves);
    if (*error && ((*error)->status == MF_ERROR_SCOPE || (*error)->status == MF_ERROR_TRACER))
        *error = mf_error_wrap(
            *error, "the derivative rule %s used a value from outside that is gone when the rule is traced: pass it as an argument",
            f->name);
    if (t && (t->capture_count || t->cell_count)) {
        *error = t->capture_count
                     ? mf_error_new(MF_ERROR_TRACER, "the derivative rule %s captured a traced value of %s: pass it as an argument",
                                    f->name, t->captures[0]->trace_name)
                     : mf_error_new(MF_ERROR_ARGUMENT, "the derivative rule %s touches a state", f->name);
        mf_drop(t);
        return NULL;
    }
    return t;
}

static bool is_pair(const mf_traced *t, const mf_structure *first)
{
    return t->result->kind == MF_NODE_TUPLE && t->result->child_count == 2 && (!first || t->result->children[0] == first);
}

static const mf_structure *arguments_tuple(const custom_rule *r)
{
    return mf_structure_node(MF_NODE_TUPLE, NULL, r->arguments, r->arg_count);
}

/* A builder into which a program p is inlined: p's inputs, its outputs, and the outputs chosen for the new program. */
typedef struct rewrap {
    mf_builder b;
    mf_variable **in, **out, **chosen;
} rewrap;

/* results: the number of outputs to be chosen if it may exceed p's. */
static bool rewrap_begin(rewrap *w, const custom_rule *r, const mf_program *p, int results, mf_error_object **error)
{
    int capacity = results > p->out_count ? results : p->out_count;
    mf_builder_init(&w->b, r->rule.env);
    w->in = mf_calloc((size_t)p->in_count + 1, sizeof *w->in);
    w->out = mf_calloc((size_t)p->out_count + 1, sizeof *w->out);
    w->chosen = mf_calloc((size_t)capacity + 1, sizeof *w->chosen);
    if (w->in && w->out && w->chosen)
        return true;
    *error = mf_error_out_of_memory();
    return false;
}

static mf_program *rewrap_end(rewrap *w, int count, mf_error_object **error)
{
    mf_program *q = NULL;
    if (*error)
        mf_builder_abandon(&w->b);
    else
        q = mf_builder_finish(&w->b, w->chosen, count, error);
    mf_free(w->in);
    mf_free(w->out);
    mf_free(w->chosen);
    return q;
}

static mf_program *trace_jvp(const mf_custom_rule *rule, const mf_type *const *types, int count, mf_error_object **error)
{
    const custom_rule *r = (const custom_rule *)rule;
    const mf_type **both = mf_alloc(((size_t)(2 * count) + 1) * sizeof *both);
    if (!both) {
        *error = mf_error_out_of_memory();
        return NULL;
    }
    for (int i = 0; i < count; i++) {
        both[i] = types[i];
        both[count + i] = mf_type_strong(types[i]);
    }
    const mf_structure *tuple = arguments_tuple(r), *structures[] = { tuple, tuple };
    mf_traced *t = trace_rule(r, r->first, structures, 2, both, 2 * count, error);
    mf_free(both);
    if (!t)
        return NULL;
    rewrap w;
    int n = 0;
    if (!is_pair(t, r->result) || t->result->children[1] != r->result)
        *error = mf_error_new(MF_ERROR_TREE,
                              "the custom_jvp rule %s must return a pair of results and tangents, trees like the function's result",
                              r->first->name);
    if (rewrap_begin(&w, r, t->program, 0, error) && !*error) {
        for (int i = 0; i < count; i++)
            w.in[i] = mf_builder_input(&w.b, t->program->in[i]->type);
        for (int i = count; i < 2 * count; i++) {
            const mf_type *type = t->program->in[i]->type;
            w.in[i] = mf_dtype_is_inexact(type->dtype) ? mf_builder_input(&w.b, type) : e_full(&w.b, type, 0);
        }
        mf_inline(&w.b, t->program, w.in, w.out);
        int results = r->result->leaf_count;
        for (int i = 0; i < results; i++)
            w.chosen[n++] = w.out[i];
        for (int i = 0; i < results; i++)
            if (w.out[i] && mf_dtype_is_inexact(w.out[i]->type->dtype))
                w.chosen[n++] = w.out[results + i];
    }
    mf_program *q = rewrap_end(&w, n, error);
    mf_drop(t);
    return q;
}

static mf_program *trace_forward(const mf_custom_rule *rule, const mf_type *const *types, int count, mf_error_object **error)
{
    const custom_rule *r = (const custom_rule *)rule;
    mf_traced *t = trace_rule(r, r->first, r->arguments, r->arg_count, types, count, error);
    if (t && !is_pair(t, r->result)) {
        *error = mf_error_new(MF_ERROR_TREE, "the custom_vjp forward rule %s must return a pair of the function's result and residuals",
                              r->first->name);
        mf_drop(t);
        return NULL;
    }
    mf_program *p = t ? mf_retain(t->program) : NULL;
    mf_drop(t);
    return p;
}

/* The structure of the residuals: the second part of the forward rule's result, whose trace for these primals is found in the cache. */
static const mf_structure *residual_structure(const custom_rule *r, const mf_type *const *primals, int count, mf_error_object **error)
{
    mf_traced *t = trace_rule(r, r->first, r->arguments, r->arg_count, primals, count, error);
    const mf_structure *s = t && is_pair(t, r->result) ? t->result->children[1] : NULL;
    mf_drop(t);
    return s;
}

/* For each leaf of the arguments: which of the cotangents `given` belongs to it, or -1 where None stands for it or for a tree around it.
 * False: the trees differ. at[0] counts the leaves of `given`, at[1] those of `wanted`. */
static bool match_cotangents(const mf_structure *given, const mf_structure *wanted, int *at, int *found)
{
    if (given == wanted || given->kind == MF_NODE_NONE) {
        for (int i = 0; i < wanted->leaf_count; i++)
            found[at[1]++] = given->kind == MF_NODE_NONE ? -1 : at[0]++;
        return true;
    }
    bool same = given->kind == wanted->kind && given->child_count == wanted->child_count && given->keys == wanted->keys;
    for (int i = 0; same && i < given->child_count; i++)
        same = match_cotangents(given->children[i], wanted->children[i], at, found);
    return same;
}

static bool find_cotangents(const custom_rule *r, const mf_traced *t, int *found)
{
    const mf_structure *tuple = arguments_tuple(r);
    if (match_cotangents(t->result, tuple, (int[2]){ 0 }, found))
        return true;
    return r->arg_count == 1 && match_cotangents(t->result, r->arguments[0], (int[2]){ 0 }, found);
}

static mf_error_object *wrong_cotangents(const custom_rule *r, const mf_traced *t)
{
    mf_text given = { 0 };
    mf_structure_difference(&given, arguments_tuple(r), t->result);
    mf_error_object *e = mf_error_new(MF_ERROR_TREE,
                                      "the custom_vjp backward rule %s must return a tuple of one cotangent an argument, in the arguments' "
                                      "trees: %s",
                                      r->second->name, given.at ? given.at : "");
    mf_text_free(&given);
    return e;
}

/* Without this check the op below would refuse the cotangent, but cannot name the rule. */
static mf_error_object *check_cotangent_shapes(const custom_rule *r, const mf_traced *t, const mf_type *const *primals, int count,
                                               const int *found)
{
    for (int i = 0; i < count; i++) {
        const mf_type *given = found[i] < 0 ? NULL : t->program->out[found[i]]->type, *wanted = primals[i];
        if (given && mf_dtype_is_inexact(wanted->dtype) && !mf_type_same_shape(given, wanted))
            return mf_error_new(MF_ERROR_SHAPE, "the custom_vjp backward rule %s returned cotangent %d as %s, but the argument is %s",
                                r->second->name, i, mf_type_name(given), mf_type_name(wanted));
    }
    return NULL;
}

static mf_program *trace_backward(const mf_custom_rule *rule, const mf_type *const *types, int count, const mf_type *const *primals,
                                  int primal_count, mf_error_object **error)
{
    const custom_rule *r = (const custom_rule *)rule;
    const mf_structure *residuals = residual_structure(r, primals, primal_count, error);
    if (!residuals)
        return NULL;
    /* The cotangent's tree has a leaf for every result; integer results get zeros. The types are those of the forward program's results. */
    mf_traced *forward = trace_rule(r, r->first, r->arguments, r->arg_count, primals, primal_count, error);
    int m = residuals->leaf_count, results = r->result->leaf_count, n = 0;
    const mf_type **all = forward ? mf_alloc(((size_t)(m + results) + 1) * sizeof *all) : NULL;
    mf_traced *t = NULL;
    if (all) {
        for (int i = 0; i < m && i < count; i++)
            all[i] = types[i];
        for (int i = 0; i < results; i++)
            all[m + i] = mf_type_strong(forward->program->out[i]->type);
        t = trace_rule(r, r->second, (const mf_structure *const[]){ residuals, r->result }, 2, all, m + results, error);
    } else if (!*error) {
        *error = mf_error_out_of_memory();
    }
    mf_program *q = NULL;
    if (t) {
        rewrap w;
        int *found = mf_alloc(((size_t)primal_count + 1) * sizeof *found);
        if (!found)
            *error = mf_error_out_of_memory();
        else if (!find_cotangents(r, t, found))
            *error = wrong_cotangents(r, t);
        else
            *error = check_cotangent_shapes(r, t, primals, primal_count, found);
        if (rewrap_begin(&w, r, t->program, primal_count, error) && !*error) {
            for (int i = 0; i < m; i++)
                w.in[i] = mf_builder_input(&w.b, all[i]);
            for (int i = m; i < m + results; i++)
                w.in[i] = mf_dtype_is_inexact(all[i]->dtype) ? mf_builder_input(&w.b, all[i]) : e_full(&w.b, all[i], 0);
            mf_inline(&w.b, t->program, w.in, w.out);
            for (int i = 0; i < primal_count; i++)
                if (mf_dtype_is_inexact(primals[i]->dtype))
                    w.chosen[n++] = found[i] < 0 ? e_full(&w.b, mf_type_strong(primals[i]), 0) : w.out[found[i]];
        }
        q = rewrap_end(&w, n, error);
        mf_free(found);
    }
    mf_free(all);
    mf_drop(forward);
    mf_drop(t);
    return q;
}

/* ---- recording the call */

static custom_rule *make_rule(mf_function_object *f, const mf_signature *s, const mf_structure *result, bool vjp)
{
    custom_rule *r = mf_object_new(&custom_rule_class, sizeof *r);
    if (!r)
        return NULL;
    const custom_options *o = f->options;
    r->rule.head.name = f->inner->name;
    r->rule.env = s->env;
    r->rule.trace_jvp = vjp ? NULL : trace_jvp;
    r->rule.trace_forward = vjp ? trace_forward : NULL;
    r->rule.trace_backward = vjp ? trace_backward : NULL;
    r->first = mf_retain(o->first);
    r->second = mf_retain(o->second);
    r->arg_count = s->arg_count;
    memcpy(r->arguments, s->structures, (size_t)s->arg_count * sizeof *r->arguments);
    r->result = result;
    return r;
}

/* Makes the inner program with captures first, as the equation needs it, and a program of that equation with inputs in the usual order. */
static mf_program *call_program(const mf_traced *inner, const mf_signature *s, const mf_op *op, custom_rule *r, mf_error_object **error)
{
    const mf_program *p = inner->program;
    int captures = inner->capture_count, typed = p->in_count - captures, n = 0;
    rewrap w;
    mf_program *front = NULL;
    if (rewrap_begin(&w, r, p, 0, error)) {
        for (int i = 0; i < captures; i++)
            w.in[typed + i] = mf_builder_input(&w.b, p->in[typed + i]->type);
        for (int i = 0; i < typed; i++)
            w.in[i] = mf_builder_input(&w.b, p->in[i]->type);
        mf_inline(&w.b, p, w.in, w.out);
        for (; n < p->out_count; n++)
            w.chosen[n] = w.out[n];
    }
    front = rewrap_end(&w, n, error);
    if (!front)
        return NULL;
    mf_builder b;
    mf_builder_init(&b, s->env);
    mf_variable **operands = mf_calloc((size_t)p->in_count + 1, sizeof *operands);
    mf_custom_params params = { front, r, captures };
    mf_eqn *e = NULL;
    if (operands) {
        for (int i = 0; i < p->in_count; i++) {
            mf_variable *v = mf_builder_input(&b, p->in[i]->type);
            operands[i < typed ? captures + i : i - typed] = v;
        }
        e = mf_emit_eqn(&b, op, &params, operands, p->in_count);
    } else {
        mf_builder_fail(&b, mf_error_out_of_memory());
    }
    mf_program *q = mf_builder_finish(&b, e ? e->out : NULL, e ? e->out_count : 0, error);
    mf_free(operands);
    mf_drop(front);
    return q;
}

static mf_traced *custom_trace(mf_function_object *f, const mf_signature *s, const mf_op *op, bool vjp, mf_error_object **error)
{
    for (int i = 0; i < s->leaf_count; i++)
        if (!s->leaves[i].type) {
            *error = mf_error_new(MF_ERROR_ARGUMENT, "%s: static arguments cannot pass a custom derivative", f->name);
            return NULL;
        }
    mf_traced *inner = mf_function_trace(f->inner, s, error);
    int results = inner ? mf_traced_result_count(inner) : 0;
    if (inner && (results != inner->program->out_count || results != inner->result->leaf_count))
        *error = mf_error_new(MF_ERROR_ARGUMENT, "%s: the function must not write states or return statics", f->name);
    custom_rule *r = inner && !*error ? make_rule(f, s, inner->result, vjp) : NULL;
    mf_program *p = r ? call_program(inner, s, op, r, error) : NULL;
    mf_traced *t = p ? mf_traced_with(inner, p, inner->result, inner->result_statics) : NULL;
    if (!t && !*error)
        *error = mf_error_out_of_memory();
    mf_drop(r);
    mf_drop(inner);
    return t;
}

static mf_traced *jvp_trace(mf_function_object *f, const mf_signature *s, mf_error_object **error)
{
    return custom_trace(f, s, &mf_op_custom_jvp_call, false, error);
}

static mf_traced *vjp_trace(mf_function_object *f, const mf_signature *s, mf_error_object **error)
{
    return custom_trace(f, s, &mf_op_custom_vjp_call, true, error);
}

static const mf_function_class custom_jvp_class = {
    .name = "custom_jvp", .trace = jvp_trace, .destroy = options_destroy, .depth = options_depth
};
static const mf_function_class custom_vjp_class = {
    .name = "custom_vjp", .trace = vjp_trace, .destroy = options_destroy, .depth = options_depth
};

static mf_function make_custom(const mf_function_class *kind, mf_function f, mf_function first, mf_function second, bool two)
{
    mf_error_object *error = NULL;
    mf_function_object *a = mf_function_of(first, &error), *b = two && a ? mf_function_of(second, &error) : NULL;
    if (error)
        return (mf_function){ mf_handle_new(error) };
    custom_options o = { mf_retain(a), mf_retain(b) };
    return mf_function_wrap(kind, f, &o, sizeof o);
}

mf_function mf_custom_jvp_n(mf_function f, mf_function rule)
{
    MF_ENTER((mf_function){ MF_FORK_HANDLE });
    return make_custom(&custom_jvp_class, f, rule, rule, false);
}

mf_function mf_custom_vjp_n(mf_function f, mf_function forward, mf_function backward)
{
    MF_ENTER((mf_function){ MF_FORK_HANDLE });
    return make_custom(&custom_vjp_class, f, forward, backward, true);
}
