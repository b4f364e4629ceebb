/* vjp, linearize and linear_transpose as functions: a program that runs at once, and a linear one that becomes a function holding the
 * values that it needs of the first. Cells written by the inner function are auxiliary results, as in gradient.c. */
#include "ops/emit.h"
#include "trace/function.h"
#include "transform/rules/sweep.h"
#include "transform/rules/tangent.h"
#include "transform/transform.h"

#include <manyfold/transforms.h>
#include <string.h>

/* ---- linear functions: a program over the arguments of a call and the held values */

typedef struct linear_options {
    mf_object *program;        /* retained mf_traced; its typed leaves: the arguments' leaves, then the held ones */
    mf_object *held;           /* retained tree or leaf */
    const mf_structure *takes; /* structure of the argument or, if many, of the tuple of arguments */
    const char *each, *like;   /* for messages: "cotangent", "result" */
    bool many;
    uint64_t serial;
} linear_options;

static void linear_destroy(mf_function_object *f)
{
    linear_options *o = f->options;
    mf_drop(o->program);
    mf_drop(o->held);
}

static mf_error_object *check_given(const mf_function_object *f, mf_object *given, const mf_structure *s, mf_object *const *leaves, int n)
{
    const linear_options *o = f->options;
    mf_error_object *inside = (mf_error_object *)mf_first_error_in(given);
    if (inside)
        return mf_retain(inside);
    if (s != o->takes)
        return mf_error_new(MF_ERROR_TREE, "%s: the %s's tree differs from the %s's", f->name, o->each, o->like);
    for (int i = 0; i < n; i++) {
        const mf_type *wanted = ((mf_traced *)o->program)->program->in[i]->type, *is = mf_object_type(leaves[i]);
        if (is != wanted && (!is || !mf_type_same_shape(is, wanted) || is->dtype != wanted->dtype))
            return mf_error_new(MF_ERROR_DTYPE, "%s: %s %d is %s, the %s %s", f->name, o->each, i, is ? mf_type_name(is) : "no array",
                                o->like, mf_type_name(wanted));
    }
    return NULL;
}

static mf_value linear_call(mf_function_object *f, const mf_value *arguments, int count)
{
    const linear_options *o = f->options;
    if (!o->many && count != 1)
        return mf_fail(MF_ERROR_ARGUMENT, "a pullback takes one %s, a tree like the %s, not %d arguments", o->each, o->like, count);
    mf_object *given = mf_object_of(o->many ? mf_tuple_n(arguments, count) : arguments[0]), *const * leaves, *self, *const * held, *one;
    int n = 0, m = 0;
    if (!given)
        return mf_fail(MF_ERROR_ARGUMENT, "%s: an unset value", f->name);
    const mf_structure *s = mf_tree_flatten(given, &leaves, &n, &self);
    mf_error_object *wrong = check_given(f, given, s, leaves, n);
    if (wrong)
        return mf_value_new(wrong);
    mf_tree_flatten(o->held, &held, &m, &one);
    mf_object **all = mf_alloc(((size_t)n + (size_t)m + 1) * sizeof *all);
    if (!all)
        return mf_value_new(mf_error_out_of_memory());
    memcpy(all, leaves, (size_t)n * sizeof *all);
    memcpy(all + n, held, (size_t)m * sizeof *all);
    mf_value v = mf_traced_apply((mf_traced *)o->program, all, NULL);
    mf_free(all);
    return v;
}

/* When the function is transformed, the values that it holds become captures. Its trace is not cached, since every such function is new. */
static mf_traced *linear_trace(mf_function_object *f, const mf_signature *s, mf_error_object **error)
{
    mf_traced *t = mf_trace_by_calling(f, s, error);
    if (t)
        t->impure = true;
    return t;
}
static const mf_function_class linear_class = { .name = "pullback", .trace = linear_trace, .call = linear_call, .destroy = linear_destroy };

static mf_function linear_function(mf_traced *program, mf_object *held, linear_options o)
{
    static _Atomic uint64_t serial;
    linear_options options;
    memset(&options, 0, sizeof options);
    options.program = mf_retain(&program->object);
    options.held = held;
    options.takes = o.takes;
    options.each = o.each;
    options.like = o.like;
    options.many = o.many;
    options.serial = atomic_fetch_add(&serial, 1);
    return mf_function_make(&linear_class, NULL, &options, sizeof options);
}

/* ---- their programs */

/* A builder, and the lists for wiring an inner program into the new one: its inputs and outputs, and the new program's outputs. */
typedef struct wiring {
    mf_builder b;
    mf_variable **in, **out, **chosen;
} wiring;

static void wiring_begin(wiring *w, const mf_axis_env *env, int in, int out, int chosen)
{
    mf_builder_init(&w->b, env);
    w->in = mf_calloc((size_t)in + 1, sizeof *w->in);
    w->out = mf_calloc((size_t)out + 1, sizeof *w->out);
    w->chosen = mf_calloc((size_t)chosen + 1, sizeof *w->chosen);
    if (!w->in || !w->out || !w->chosen)
        mf_builder_fail_memory(&w->b);
}

/* Finishes the program as a traced function without captures. */
static mf_traced *wiring_end(wiring *w, int count, const mf_structure *result, mf_error_object **error)
{
    static const mf_traced nothing;
    mf_program *q = mf_builder_finish(&w->b, w->chosen, w->chosen ? count : 0, error);
    mf_free(w->in);
    mf_free(w->out);
    mf_free(w->chosen);
    return q ? mf_traced_with(&nothing, q, result, NULL) : NULL;
}

static const mf_structure *arguments_of(const mf_signature *s)
{
    return mf_structure_node(MF_NODE_TUPLE, NULL, s->structures, s->arg_count);
}

/* The backward program takes residuals, then cotangents of inexact results, and gives cotangents of inexact inputs. Rearranged: inputs are
 * the cotangents of the first `results` leaves of the result (strong types), then the residuals; outputs are one cotangent per argument
 * leaf. */
static mf_traced *backward_traced(const mf_traced *inner, const mf_signature *s, const mf_program *backward, int results, int residuals,
                                  mf_error_object **error)
{
    const mf_program *p = inner->program;
    int k = residuals, m = 0, next = 0;
    wiring w;
    wiring_begin(&w, s->env, backward->in_count + p->out_count, p->in_count + backward->out_count, s->leaf_count);
    for (int i = 0; i < results && !w.b.error; i++) {
        mf_variable *ct = mf_builder_input(&w.b, mf_type_strong(p->out[i]->type));
        if (mf_dtype_is_inexact(p->out[i]->type->dtype))
            w.in[k++] = ct;
    }
    for (int i = results; i < p->out_count && !w.b.error; i++) /* auxiliary results and written cells */
        if (mf_dtype_is_inexact(p->out[i]->type->dtype))
            w.in[k++] = mf_cotangent_zeros(&w.b, p->out[i]->type);
    for (int i = 0; i < residuals && !w.b.error; i++)
        w.in[i] = mf_builder_input(&w.b, backward->in[i]->type);
    if (!w.b.error)
        mf_inline(&w.b, backward, w.in, w.out);
    for (int i = 0; i < s->leaf_count && !w.b.error; i++)
        w.chosen[m++] = mf_dtype_is_inexact(p->in[i]->type->dtype) ? w.out[next++] : mf_cotangent_zeros(&w.b, p->in[i]->type);
    return wiring_end(&w, m, arguments_of(s), error);
}

/* The linear program takes residuals, then tangents of inexact arguments, and gives the tangents of the results that have one. Rearranged:
 * inputs are a tangent for every argument leaf (strong types), then the residuals; outputs are a tangent for every result leaf. */
static mf_traced *tangent_traced(const mf_traced *inner, const mf_signature *s, const mf_program *linear, const bool *gives, int results,
                                 const mf_structure *result, int residuals, mf_error_object **error)
{
    const mf_program *p = inner->program;
    int k = residuals, next = 0;
    wiring w;
    wiring_begin(&w, s->env, linear->in_count + s->leaf_count, linear->out_count, results);
    for (int i = 0; i < s->leaf_count && !w.b.error; i++) {
        mf_variable *t = mf_builder_input(&w.b, mf_type_strong(p->in[i]->type));
        if (mf_tangent_type(p->in[i]->type))
            w.in[k++] = t;
    }
    for (int i = 0; i < residuals && !w.b.error; i++)
        w.in[i] = mf_builder_input(&w.b, linear->in[i]->type);
    if (!w.b.error)
        mf_inline(&w.b, linear, w.in, w.out);
    for (int i = 0; i < results && !w.b.error; i++)
        w.chosen[i] = gives[i] ? w.out[next++] : mf_cotangent_zeros(&w.b, p->out[i]->type);
    return wiring_end(&w, results, result, error);
}

/* The forward program with a pair as result: the results as one tree, and the residuals as a list. */
static mf_traced *forward_traced(const mf_traced *inner, mf_program *forward, int residuals, mf_error_object **error)
{
    int results = mf_traced_result_count(inner), writes = inner->program->out_count - results,
        *order = mf_alloc(((size_t)forward->out_count + 1) * sizeof *order);
    const mf_structure **items = mf_alloc(((size_t)residuals + 1) * sizeof *items);
    mf_traced *t = NULL;
    if (order && items) {
        int n = 0;
        for (int i = 0; i < results; i++)
            order[n++] = i;
        for (int i = 0; i < residuals; i++) {
            order[n++] = results + writes + i;
            items[i] = mf_structure_leaf();
        }
        for (int i = 0; i < writes; i++)
            order[n++] = results + i;
        mf_program *q = mf_program_select(forward, NULL, forward->in_count, order, n, error);
        const mf_structure *list = mf_structure_node(MF_NODE_LIST, NULL, items, residuals);
        t = q ? mf_traced_with(inner, q, mf_structure_node(MF_NODE_TUPLE, NULL, (const mf_structure *const[]){ inner->result, list }, 2),
                               NULL)
              : NULL;
    }
    mf_free(order);
    mf_free(items);
    return t;
}

/* ---- vjp and linearize: both programs are kept with the traced function that they come from, so a second call compiles nothing */

typedef enum derivative { VJP, VJP_AUX, LINEARIZE, LINEARIZE_AUX } derivative;

static bool is_linearize(derivative kind) { return kind == LINEARIZE || kind == LINEARIZE_AUX; }
static const char *word_of(derivative kind) { return is_linearize(kind) ? "linearize" : "vjp"; }
static bool has_aux(derivative kind) { return kind == VJP_AUX || kind == LINEARIZE_AUX; }

/* The structure of the result, or of its first half if there is an auxiliary one. */
static const mf_structure *result_of(const mf_traced *inner, derivative kind)
{
    return has_aux(kind) ? inner->result->children[0] : inner->result;
}

typedef struct split_halves {
    mf_object object;
    mf_traced *forward, *linear;
} split_halves;

static void split_halves_destroy(mf_object *o)
{
    mf_drop(((split_halves *)o)->forward);
    mf_drop(((split_halves *)o)->linear);
}
static const mf_class split_halves_class = { "halves", split_halves_destroy };

/* The number of arrays in that structure. */
static int differentiated(const mf_traced *inner, derivative kind)
{
    int n = 0, count = result_of(inner, kind)->leaf_count;
    for (int i = 0; i < count; i++)
        n += !inner->result_statics || !inner->result_statics[i];
    return n;
}

static bool split_vjp(split_halves *h, const mf_traced *inner, const mf_signature *s, derivative kind, mf_error_object **error)
{
    mf_program *forward = NULL, *backward = NULL;
    int residuals = 0, results = differentiated(inner, kind), all = mf_traced_result_count(inner);
    bool *auxiliary = mf_calloc((size_t)inner->program->out_count + 1, sizeof *auxiliary);
    for (int i = results; auxiliary && i < all; i++)
        auxiliary[i] = true;
    if (auxiliary && mf_vjp_program(inner->program, s->env, s->leaf_count, auxiliary, &forward, &backward, &residuals, error)) {
        h->forward = forward_traced(inner, forward, residuals, error);
        h->linear = h->forward ? backward_traced(inner, s, backward, results, residuals, error) : NULL;
    }
    mf_drop(forward);
    mf_drop(backward);
    mf_free(auxiliary);
    return h->linear;
}

static bool split_linear(split_halves *h, const mf_traced *inner, const mf_signature *s, derivative kind, mf_error_object **error)
{
    const mf_program *p = inner->program;
    mf_program *forward = NULL, *linear = NULL;
    int residuals = 0, results = differentiated(inner, kind);
    bool *wrt = mf_calloc((size_t)p->in_count + (size_t)p->out_count + 1, sizeof *wrt), *gives = wrt ? wrt + p->in_count : NULL;
    for (int i = 0; wrt && i < s->leaf_count; i++)
        wrt[i] = mf_tangent_type(p->in[i]->type);
    for (int o = 0; wrt && o < results; o++)
        gives[o] = true;
    if (wrt && mf_linearize_program(p, s->env, wrt, gives, &forward, &linear, &residuals, error)) {
        h->forward = forward_traced(inner, forward, residuals, error);
        h->linear = h->forward ? tangent_traced(inner, s, linear, gives, results, result_of(inner, kind), residuals, error) : NULL;
    }
    mf_drop(forward);
    mf_drop(linear);
    mf_free(wrt);
    return h->linear;
}

/* Borrowed from inner. */
static const split_halves *halves_of(mf_traced *inner, const mf_signature *s, derivative kind, mf_error_object **error)
{
    _Atomic(mf_object *) *place = &inner->halves[kind];
    mf_object *known = atomic_load(place);
    if (known)
        return (const split_halves *)known;
    split_halves *made = mf_object_new(&split_halves_class, sizeof *made);
    if (!made || !(is_linearize(kind) ? split_linear(made, inner, s, kind, error) : split_vjp(made, inner, s, kind, error))) {
        if (!*error)
            *error = mf_error_out_of_memory();
        mf_drop(made);
        return NULL;
    }
    if (atomic_compare_exchange_strong(place, &known, &made->object))
        return made;
    mf_drop(made); /* another thread has stored its own */
    return (const split_halves *)known;
}

static mf_value split_run(const mf_signature *s, mf_traced *inner, derivative kind, mf_function *linear, mf_error_object **error)
{
    mf_value nothing = { 0 };
    const split_halves *h = halves_of(inner, s, kind, error);
    mf_object **leaves = h ? mf_alloc(((size_t)s->leaf_count + 1) * sizeof *leaves) : NULL;
    if (!leaves) {
        *error = *error ? *error : mf_error_out_of_memory();
        return nothing;
    }
    for (int i = 0; i < s->leaf_count; i++)
        leaves[i] = s->leaves[i].object;
    mf_object *pair = mf_object_of(mf_traced_apply(h->forward, leaves, NULL));
    mf_free(leaves);
    if (!mf_object_is(pair, &mf_tree_class)) {
        *error = mf_object_is(pair, &mf_error_class) ? mf_retain(pair) : mf_error_out_of_memory();
        return nothing;
    }
    linear_options o = { .takes = result_of(inner, kind), .each = "cotangent", .like = "result" };
    if (is_linearize(kind))
        o = (linear_options){ .takes = arguments_of(s), .each = "tangent", .like = "argument", .many = true };
    *linear = linear_function(h->linear, mf_tree_child((mf_tree *)pair, 1), o);
    return mf_value_new(mf_tree_child((mf_tree *)pair, 0));
}

/* A call by its abstract side: signature, function and traced function. */
typedef struct abstract_call {
    mf_signature s;
    mf_leaves storage;
    mf_function_object *f;
    mf_traced *inner;
} abstract_call;

static mf_error_object *abstract_begin(abstract_call *c, mf_function function, const mf_value *arguments, int count, bool types_only)
{
    mf_error_object *error = NULL;
    *c = (abstract_call){ .f = mf_function_of(function, &error) };
    if (!error)
        error = types_only ? mf_signature_of_types(&c->s, &c->storage, c->f, arguments, count)
                           : mf_signature_make(&c->s, &c->storage, c->f, arguments, count);
    if (!error)
        c->inner = mf_function_trace(c->f, &c->s, &error);
    return error;
}

static void abstract_end(abstract_call *c)
{
    mf_drop(c->inner);
    mf_leaves_end(&c->storage);
}

/* Stores the arguments in a tuple or list; returns their count, or -1 and *error. */
static int arguments_in(mf_value primals, mf_value *arguments, const char *what, mf_error_object **error)
{
    mf_object *o = mf_object_of(primals);
    mf_tree *t = mf_object_is(o, &mf_tree_class) ? (mf_tree *)o : NULL;
    if (!t || t->structure->child_count > MF_MAX_ARGUMENTS) {
        *error = mf_object_is(o, &mf_error_class)
                     ? mf_retain(o)
                     : mf_error_new(MF_ERROR_TREE, "%s: primals must be a tuple of the function's arguments", what);
        return -1;
    }
    for (int i = 0; i < t->structure->child_count; i++)
        arguments[i] = mf_value_new(mf_tree_child(t, i));
    return t->structure->child_count;
}

static mf_error_object *check_split(const abstract_call *c, derivative kind)
{
    const mf_structure *r = c->inner->result;
    if (mf_signature_typed_count(&c->s) != c->s.leaf_count)
        return mf_error_new(MF_ERROR_ARGUMENT, "%s: an argument of %s is a static; mf_partial binds it", word_of(kind), c->f->name);
    return has_aux(kind) && (r->kind != MF_NODE_TUPLE || r->child_count != 2)
               ? mf_error_new(MF_ERROR_TREE, "%s with has_aux: %s must return a tuple (result, aux)", word_of(kind), c->f->name)
               : NULL;
}

static mf_value split(mf_function function, mf_value primals, derivative kind, mf_function *linear)
{
    mf_error_object *error = NULL;
    mf_value arguments[MF_MAX_ARGUMENTS], out = { 0 };
    abstract_call c = { 0 };
    int count = arguments_in(primals, arguments, word_of(kind), &error);
    if (!error)
        error = abstract_begin(&c, function, arguments, count, false);
    if (!error)
        error = check_split(&c, kind);
    if (!error)
        out = split_run(&c.s, c.inner, kind, linear, &error);
    abstract_end(&c);
    if (!error)
        return out;
    *linear = (mf_function){ mf_handle_new(mf_retain(error)) };
    return mf_value_new(error);
}

mf_value mf_vjp_opt(mf_function function, mf_value primals, mf_function *pullback, const mf_vjp_options *o)
{
    if (mf_process_forked())
        pullback->handle = MF_FORK_HANDLE;
    MF_ENTER(MF_FORKED);
    return split(function, primals, o && o->has_aux ? VJP_AUX : VJP, pullback);
}

mf_value mf_linearize_opt(mf_function function, mf_value primals, mf_function *linear, const mf_linearize_options *o)
{
    if (mf_process_forked())
        linear->handle = MF_FORK_HANDLE;
    MF_ENTER(MF_FORKED);
    return split(function, primals, o && o->has_aux ? LINEARIZE_AUX : LINEARIZE, linear);
}

/* ---- linear_transpose */

static mf_error_object *check_transposable(const abstract_call *c)
{
    const mf_traced *inner = c->inner;
    int typed = mf_signature_typed_count(&c->s);
    if (inner->cell_count)
        return mf_error_new(MF_ERROR_ARGUMENT, "linear_transpose: %s touches a state", c->f->name);
    for (int i = 0; i < typed + inner->program->out_count; i++) {
        const mf_type *t = (i < typed ? inner->program->in[i] : inner->program->out[i - typed])->type;
        if (!mf_tangent_type(t))
            return mf_error_new(MF_ERROR_DTYPE, "linear_transpose needs floating or complex arguments and results, but %s %d of %s is %s",
                                i < typed ? "argument" : "result", i < typed ? i : i - typed, c->f->name, mf_type_name(t));
    }
    return typed == c->s.leaf_count && mf_traced_result_count(inner) == inner->result->leaf_count
               ? NULL
               : mf_error_new(MF_ERROR_ARGUMENT, "linear_transpose: %s takes or gives a static", c->f->name);
}

/* The captured values are those that the function holds: inputs of the transposed program before the cotangents. */
static mf_traced *transposed_traced(const abstract_call *c, mf_error_object **error)
{
    const mf_program *p = c->inner->program;
    size_t count = (size_t)p->in_count * 2 + (size_t)p->out_count + 1;
    bool *linear = mf_calloc(count, sizeof *linear), *out_ct = linear ? linear + p->in_count : NULL,
         *has_ct = linear ? out_ct + p->in_count : NULL;
    if (!linear) {
        *error = mf_error_out_of_memory();
        return NULL;
    }
    for (int i = 0; i < p->in_count; i++)
        linear[i] = out_ct[i] = i < c->s.leaf_count;
    for (int o = 0; o < p->out_count; o++)
        has_ct[o] = true;
    mf_program *t = mf_transpose_program(p, c->s.env, linear, has_ct, out_ct, error);
    mf_traced *made = t ? backward_traced(c->inner, &c->s, t, p->out_count, c->inner->capture_count, error) : NULL;
    mf_drop(t);
    mf_free(linear);
    return made;
}

static mf_object *captures_of(const mf_traced *t)
{
    mf_object **items = mf_alloc(((size_t)t->capture_count + 1) * sizeof *items), *list = NULL;
    for (int i = 0; items && i < t->capture_count; i++)
        items[i] = &t->captures[i]->object;
    if (items)
        list = mf_tree_node(MF_NODE_LIST, NULL, items, t->capture_count);
    mf_free(items);
    return list;
}

mf_function mf_linear_transpose_n(mf_function function, const mf_value *arguments, int count)
{
    MF_ENTER((mf_function){ MF_FORK_HANDLE });
    abstract_call c;
    mf_function made = { 0 };
    mf_error_object *error = abstract_begin(&c, function, arguments, count, true);
    if (!error)
        error = check_transposable(&c);
    mf_traced *t = error ? NULL : transposed_traced(&c, &error);
    mf_object *held = t ? captures_of(c.inner) : NULL;
    if (held)
        made = linear_function(t, held, (linear_options){ .takes = c.inner->result, .each = "cotangent", .like = "result" });
    else
        made = (mf_function){ mf_handle_new(error ? error : mf_error_out_of_memory()) };
    mf_drop(t);
    abstract_end(&c);
    return made;
}
