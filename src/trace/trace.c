/* The stack of traces, lifting of operands, capture, and binding of ops. See trace.h for the invariant. */
#include "trace/trace.h"

#include "base/vector.h"
#include "trace/dispatch.h"
#include "trace/function.h"
#include "trace/known.h"
#include "trace/state/state.h"

#include <stdarg.h>
#include <string.h>

typedef struct mf_capture {
    mf_tracer *outer; /* retained */
    mf_variable *input;
} mf_capture;

typedef struct mf_trace_cell {
    mf_state_cell *cell; /* retained */
    const mf_structure *read_structure;
    const mf_type **outside_types;
    mf_variable **inputs;
    mf_object *value; /* what a read gives now; retained */
    bool written;
    const mf_structure *write_structure; /* found when the trace ends; NULL when only read */
} mf_trace_cell;

/* A cell that was made in the trace: what it holds is the trace's own, no input and no output. */
typedef struct mf_own_cell {
    mf_state_cell *cell; /* retained */
    mf_object *value;    /* retained */
} mf_own_cell;

struct mf_tracing {
    mf_tracing *outer;
    uint64_t id;
    const char *name;
    const mf_client *client;
    const mf_cell_rules *rules;
    mf_builder builder;
    mf_variable **arguments;
    mf_capture *captures;
    mf_trace_cell *cells;
    mf_own_cell *own;
    bool impure;
    mf_error_object *failure; /* what the call being traced has become, or NULL */
    int refused;              /* reads */
    int argument_count, argument_capacity, capture_count, capture_capacity, cell_count, cell_capacity, own_count, own_capacity;
};

static _Thread_local mf_tracing *innermost;
static _Atomic uint64_t last_trace_id;

static void tracer_destroy(mf_object *o)
{
    mf_drop(((mf_tracer *)o)->literal);
    mf_drop(((mf_tracer *)o)->known);
}
const mf_class mf_tracer_class = { "tracer", tracer_destroy };

mf_tracing *mf_trace_current(void) { return innermost; }
const mf_axis_env *mf_trace_env(void) { return innermost ? innermost->builder.env : NULL; }
const mf_client *mf_trace_client(void) { return innermost ? innermost->client : mf_client_default(); }
void mf_trace_set_client(mf_tracing *t, const mf_client *client) { t->client = client; }
mf_trace_suspended mf_trace_suspend(void)
{
    mf_trace_suspended s = { innermost, mf_cell_frames_swap(NULL) };
    innermost = NULL;
    return s;
}

void mf_trace_resume(mf_trace_suspended s)
{
    innermost = s.trace;
    (void)mf_cell_frames_swap(s.frames);
}

mf_builder *mf_trace_builder(mf_tracing *t) { return &t->builder; }

mf_tracing *mf_trace_begin(const char *name, const mf_axis_env *env, const mf_cell_rules *rules)
{
    mf_tracing *t = mf_calloc(1, sizeof *t);
    if (!t)
        return NULL;
    t->id = atomic_fetch_add(&last_trace_id, 1) + 1;
    t->name = name;
    t->rules = rules;
    t->outer = innermost;
    t->client = mf_trace_client();
    mf_builder_init(&t->builder, env);
    if (!t->builder.program) {
        mf_builder_abandon(&t->builder);
        mf_free(t);
        return NULL;
    }
    innermost = t;
    return t;
}

mf_object *mf_trace_tracer(mf_tracing *t, mf_variable *v)
{
    mf_tracer *r = v ? mf_object_new(&mf_tracer_class, sizeof *r) : NULL;
    if (!r)
        return &mf_error_out_of_memory()->object;
    r->trace_id = t->id;
    r->trace_name = t->name;
    r->var = v;
    r->type = v->type;
    return &r->object;
}

void mf_trace_fail(mf_tracing *t, mf_error_object *e)
{
    if (!t->failure)
        t->failure = mf_retain(e);
    else
        mf_error_join(t->failure, e);
}

/* The inputs that the trace knows of are all that its program has, or it fails. */
static mf_error_object *fail_without_memory(mf_tracing *t)
{
    mf_trace_fail(t, mf_error_out_of_memory());
    return mf_error_out_of_memory();
}

/* NULL: the trace fails. */
static mf_variable *new_input(mf_tracing *t, const mf_type *type)
{
    mf_variable *v = mf_builder_input(&t->builder, type);
    if (!t->builder.error)
        return v;
    fail_without_memory(t);
    return NULL;
}

mf_object *mf_trace_input(mf_tracing *t, const mf_type *type)
{
    mf_variable *v = new_input(t, type);
    if (!v || !mf_grow(&t->arguments, &t->argument_capacity, t->argument_count + 1, sizeof *t->arguments))
        return &fail_without_memory(t)->object;
    t->arguments[t->argument_count++] = v;
    return mf_trace_tracer(t, v);
}

static mf_tracing *trace_with_id(mf_tracing *from, uint64_t id)
{
    while (from && from->id != id)
        from = from->outer;
    return from;
}

static mf_variable *capture(mf_tracing *t, mf_tracer *outer, mf_error_object **error)
{
    for (int i = 0; i < t->capture_count; i++)
        if (t->captures[i].outer->var == outer->var && t->captures[i].outer->trace_id == outer->trace_id)
            return t->captures[i].input;
    mf_variable *v = new_input(t, outer->type);
    if (!v || !mf_grow(&t->captures, &t->capture_capacity, t->capture_count + 1, sizeof *t->captures)) {
        *error = fail_without_memory(t);
        return NULL;
    }
    t->captures[t->capture_count++] = (mf_capture){ mf_retain(outer), v };
    return v;
}

static mf_variable *lift_tracer(mf_tracing *t, mf_tracer *r, mf_error_object **error)
{
    if (r->trace_id == t->id)
        return r->var;
    if (trace_with_id(t->outer, r->trace_id))
        return capture(t, r, error);
    *error = mf_error_new(MF_ERROR_TRACER, "a traced value of %s escaped: it was used in %s after the trace that made it had ended (%s)",
                          r->trace_name, t->name, mf_type_name(r->type));
    return NULL;
}

/* A program keeps its constants whatever becomes of the array. */
static mf_variable *lift_array(mf_tracing *t, mf_array *a, mf_error_object **error)
{
    mf_literal *kept = mf_literal_of(a, error);
    mf_variable *v = kept ? mf_builder_constant(&t->builder, kept) : NULL;
    mf_drop(kept);
    return v;
}

mf_variable *mf_trace_lift(mf_tracing *t, mf_object *o, mf_error_object **error)
{
    if (mf_object_is(o, &mf_tracer_class))
        return lift_tracer(t, (mf_tracer *)o, error);
    if (mf_object_is(o, &mf_array_class))
        return lift_array(t, (mf_array *)o, error);
    if (mf_object_is(o, &mf_error_class))
        *error = mf_retain(o);
    else
        *error = mf_error_new(MF_ERROR_ARGUMENT, "%s is neither an array nor a number", mf_object_words(o));
    return NULL;
}

/* ---- reading */

static mf_literal *known_literal(mf_tracer *r, mf_error_object **error);

/* The value of an input that was captured: what is known around the trace is known in it. */
static mf_literal *captured_value(void *context, const mf_variable *v, mf_error_object **error)
{
    const mf_tracing *t = context;
    for (int i = 0; i < t->capture_count; i++)
        if (t->captures[i].input == v)
            return known_literal(t->captures[i].outer, error);
    return NULL;
}

static mf_literal *known_literal(mf_tracer *r, mf_error_object **error)
{
    mf_tracing *t = trace_with_id(innermost, r->trace_id);
    *error = NULL;
    if (r->literal || !t)
        return r->literal;
    mf_known k = { .input = captured_value, .context = t };
    r->literal = mf_retain(mf_known_value(&k, r->var, error));
    mf_known_free(&k);
    return r->literal;
}

mf_array *mf_trace_known(mf_tracer *r, mf_error_object **error)
{
    *error = NULL;
    mf_literal *l = r->known ? NULL : known_literal(r, error);
    if (l && !(r->known = mf_literal_array(l)))
        *error = mf_error_out_of_memory();
    return r->known;
}

mf_error_object *mf_trace_refuse(const mf_tracer *r, const char *what)
{
    mf_tracing *t = innermost;
    if (t && t->failure) {
        t->refused++;
        return mf_retain(t->failure);
    }
    mf_error_object *e = trace_with_id(t, r->trace_id)
                             ? mf_error_new(MF_ERROR_TRACER,
                                            "%s: C cannot branch on a traced value (%s of %s): use mf_where, mf_cond or mf_while", what,
                                            mf_type_name(r->type), r->trace_name)
                             : mf_error_new(MF_ERROR_TRACER, "%s: a traced value of %s escaped: it was read after its trace had ended (%s)",
                                            what, r->trace_name, mf_type_name(r->type));
    if (t) {
        t->failure = mf_retain(e);
        mf_error_cause = e;
    }
    return e;
}

bool mf_trace_is_stuck(void) { return innermost && innermost->refused > 1000 && innermost->refused % 2; }

/* ---- binding */

const mf_type *mf_object_type(const mf_object *o)
{
    if (mf_object_is(o, &mf_array_class))
        return ((const mf_array *)o)->type;
    if (mf_object_is(o, &mf_tracer_class))
        return ((const mf_tracer *)o)->type;
    return NULL;
}

const mf_type *mf_value_type(mf_value v) { return mf_object_type(mf_object_of(v)); }

static mf_value expect_array(mf_value v, const char *what, int operand)
{
    mf_object *o = mf_object_of(v);
    if (mf_object_type(o))
        return v;
    if (mf_object_is(o, &mf_error_class))
        return mf_value_travelling(v, o);
    if (mf_object_is(o, &mf_tree_class)) {
        mf_error_object *inside = (mf_error_object *)mf_first_error_in(o);
        if (inside)
            return mf_value_of(inside);
    }
    if (!operand)
        return mf_fail(MF_ERROR_ARGUMENT, "%s: the operand is %s, neither an array nor a number", what, mf_object_words(o));
    return mf_fail(MF_ERROR_ARGUMENT, "%s: operand %d is %s, neither an array nor a number", what, operand, mf_object_words(o));
}

mf_value mf_expect_array(mf_value v, const char *what) { return expect_array(v, what, 0); }
mf_value mf_expect_operand(mf_value v, const char *op, int operand) { return expect_array(v, op, operand); }

void mf_errors_join(mf_error_object *first, const mf_value *v, int count)
{
    for (int i = 0; i < count; i++) {
        mf_error_object *e = (mf_error_object *)mf_handle_get_as(v[i].handle, &mf_error_class);
        if (e)
            mf_error_join(first, e);
    }
}

static void give_error(mf_error_object *e, mf_value *out, int out_count)
{
    for (int i = 1; i < out_count; i++)
        out[i] = mf_value_of(e);
    out[0] = mf_value_new(e);
}

/* Inside a program the dimensions of maps come on top; what a user sees ends at MF_MAX_RANK. */
static mf_error_object *check_rank(const mf_op *op, const mf_type *t)
{
    if (!t || t->rank <= MF_MAX_RANK)
        return NULL;
    return mf_error_new(MF_ERROR_SHAPE, "%s: an array has at most %d dimensions, and the result would have %d", op->name, MF_MAX_RANK,
                        t->rank);
}

/* Emits into t. The builder's error is taken out again: it becomes this op's value, and tracing may go on. */
static mf_error_object *bind_traced(mf_tracing *t, const mf_op *op, const void *params, mf_object *const *in, int in_count, mf_value *out,
                                    int out_count)
{
    MF_SMALL_ARRAY(mf_variable *, operands, 16, in_count);
    mf_error_object *error = operands ? NULL : mf_error_out_of_memory();
    for (int i = 0; i < in_count && !error; i++)
        operands[i] = mf_trace_lift(t, in[i], &error);
    if (!error) {
        t->builder.address = mf_entry_place();
        mf_eqn *e = mf_emit_eqn(&t->builder, op, params, operands, in_count);
        if (t->builder.error) {
            error = t->builder.error;
            t->builder.error = NULL;
        } else if (!e || e->out_count != out_count) {
            error = e ? mf_error_new(MF_ERROR_ARGUMENT, "%s: gives %d results, %d were expected", op->name, e->out_count, out_count)
                      : mf_error_out_of_memory();
        } else {
            for (int i = 0; i < out_count && !error; i++)
                error = check_rank(op, e->out[i]->type);
            for (int i = 0; i < out_count && !error; i++)
                out[i] = mf_value_new(mf_trace_tracer(t, e->out[i]));
        }
    }
    return error;
}

static mf_error_object *bind_at_once(const mf_op *op, const void *params, mf_object *const *in, int in_count, mf_value *out, int out_count)
{
    for (int i = 0; i < in_count; i++)
        if (mf_object_is(in[i], &mf_tracer_class)) {
            const mf_tracer *r = (const mf_tracer *)in[i];
            return mf_error_new(MF_ERROR_TRACER, "%s: a traced value of %s escaped: it was used after its trace had ended (%s)", op->name,
                                r->trace_name, mf_type_name(r->type));
        } else if (!mf_object_is(in[i], &mf_array_class)) {
            return mf_error_new(MF_ERROR_ARGUMENT, "%s: %s is not an array", op->name, mf_object_words(in[i]));
        }
    MF_SMALL_ARRAY(mf_object *, results, 16, out_count);
    if (!results)
        return mf_error_out_of_memory();
    mf_error_object *error = mf_dispatch_op(NULL, op, params, (mf_array *const *)(const void *)in, in_count, results, out_count);
    for (int i = 0; i < out_count && !error; i++) {
        mf_error_object *e = check_rank(op, mf_object_type(results[i]));
        if (e)
            mf_drop(results[i]);
        out[i] = mf_value_new(e ? (void *)e : results[i]);
    }
    return error;
}

void mf_bind_n(const mf_op *op, const void *params, const mf_value *in, int in_count, mf_value *out, int out_count)
{
    MF_SMALL_ARRAY(mf_object *, objects, 16, in_count);
    mf_error_object *error = objects ? NULL : mf_error_out_of_memory();
    for (int i = 0; i < in_count && !error; i++) {
        objects[i] = mf_object_of(in[i]);
        if (mf_object_is(objects[i], &mf_error_class))
            error = mf_retain(objects[i]);
    }
    if (error)
        mf_errors_join(error, in, in_count);
    if (!error)
        error = innermost ? bind_traced(innermost, op, params, objects, in_count, out, out_count)
                          : bind_at_once(op, params, objects, in_count, out, out_count);
    if (error) {
        mf_error_set_address(error, mf_entry_place());
        give_error(error, out, out_count);
    }
}

mf_value mf_bind(const mf_op *op, const void *params, int in_count, ...)
{
    mf_value small[16], *in = in_count <= 16 ? small : mf_alloc((size_t)in_count * sizeof *in), out;
    if (!in)
        return mf_value_new(mf_error_out_of_memory());
    va_list list;
    va_start(list, in_count);
    for (int i = 0; i < in_count; i++)
        in[i] = va_arg(list, mf_value);
    va_end(list);
    mf_bind_n(op, params, in, in_count, &out, 1);
    if (in != small)
        mf_free(in);
    return out;
}

/* ---- state cells */

static mf_trace_cell *find_cell(mf_tracing *t, mf_state_cell *c)
{
    for (int i = 0; i < t->cell_count; i++)
        if (t->cells[i].cell == c)
            return &t->cells[i];
    return NULL;
}

/* Where t keeps the value of a cell that was made in it; NULL: the cell is older. */
static mf_object **own_value(mf_tracing *t, const mf_state_cell *c)
{
    for (int i = 0; i < t->own_count; i++)
        if (t->own[i].cell == c)
            return &t->own[i].value;
    return NULL;
}

bool mf_trace_own_cell(mf_tracing *t, mf_state_cell *c)
{
    if (!mf_grow(&t->own, &t->own_capacity, t->own_count + 1, sizeof *t->own))
        return false;
    t->own[t->own_count++] = (mf_own_cell){ mf_retain(c), mf_cell_value(c) };
    return true;
}

/* The value of c around t: the enclosing trace's or the cell's own. A new reference. */
static mf_object *value_outside(mf_tracing *t, mf_state_cell *c, mf_error_object **error)
{
    if (!t->outer)
        return mf_cell_value(c);
    mf_object *o = mf_trace_cell_read(t->outer, c, error);
    return o ? mf_retain(o) : NULL;
}

/* Makes inputs for the cell's leaves as they are outside; only their types matter here, the values are bound by the caller. */
static mf_trace_cell *touch_cell(mf_tracing *t, mf_state_cell *c, mf_error_object **error)
{
    mf_trace_cell *found = find_cell(t, c);
    if (found)
        return found;
    mf_object *outside = value_outside(t, c, error), *self;
    if (!outside)
        return NULL;
    mf_object *const *leaves;
    int count;
    const mf_structure *s = mf_tree_flatten(outside, &leaves, &count, &self);
    mf_variable **inputs = mf_arena_alloc(&t->builder.program->arena, ((size_t)count + 1) * sizeof *inputs);
    const mf_type **types = mf_arena_alloc(&t->builder.program->arena, ((size_t)count + 1) * sizeof *types);
    mf_object **tracers = mf_calloc((size_t)count + 1, sizeof *tracers);
    for (int i = 0; i < count && inputs && types && tracers && !*error; i++) {
        types[i] = mf_object_type(leaves[i]);
        const mf_type *type = types[i] ? mf_cell_inner_type(t->rules, c, types[i]) : NULL;
        if (types[i] && !type)
            *error = mf_error_new(MF_ERROR_AXIS, "%s of type %s is mapped over an axis that it does not have", mf_cell_label(c),
                                  mf_type_name(types[i]));
        else if (!type)
            *error = mf_error_new(MF_ERROR_ARGUMENT, "%s holds %s, which a traced function cannot read", mf_cell_label(c),
                                  leaves[i]->kind->name);
        else if (!(inputs[i] = new_input(t, type)))
            *error = mf_error_out_of_memory();
        else
            tracers[i] = mf_trace_tracer(t, inputs[i]);
    }
    mf_object *value = tracers && inputs && types && !*error ? mf_tree_build(s, tracers) : NULL;
    if (!value && !*error)
        *error = mf_error_out_of_memory();
    for (int i = 0; tracers && i < count; i++)
        mf_drop(tracers[i]);
    mf_free(tracers);
    mf_drop(outside);
    if (!value || !mf_grow(&t->cells, &t->cell_capacity, t->cell_count + 1, sizeof *t->cells)) {
        mf_drop(value);
        if (!*error)
            *error = mf_error_out_of_memory();
        mf_trace_fail(t, *error);
        return NULL;
    }
    t->cells[t->cell_count] = (mf_trace_cell){ mf_retain(c), s, types, inputs, value, false, NULL };
    return &t->cells[t->cell_count++];
}

mf_object *mf_trace_cell_read(mf_tracing *t, mf_state_cell *c, mf_error_object **error)
{
    mf_object **own = own_value(t, c);
    mf_trace_cell *touched = own ? NULL : touch_cell(t, c, error);
    return own ? *own : touched ? touched->value : NULL;
}

mf_object *mf_trace_cell_peek(mf_state_cell *c)
{
    for (mf_tracing *t = innermost; t; t = t->outer) {
        mf_object **own = own_value(t, c);
        mf_trace_cell *touched = own ? NULL : find_cell(t, c);
        if (own || touched)
            return mf_retain(own ? *own : touched->value);
    }
    return mf_cell_value(c);
}

mf_error_object *mf_trace_cell_write(mf_tracing *t, mf_state_cell *c, mf_object *value)
{
    mf_object **own = own_value(t, c);
    if (own) {
        mf_drop(*own);
        *own = mf_retain(value);
        return NULL;
    }
    mf_error_object *error = NULL;
    mf_trace_cell *touched = touch_cell(t, c, &error);
    if (!touched)
        return error;
    mf_drop(touched->value);
    touched->value = mf_retain(value);
    touched->written = true;
    return NULL;
}

void mf_trace_mark_impure(const mf_tracing *outer)
{
    for (mf_tracing *t = innermost; t && t != outer; t = t->outer)
        t->impure = true;
}

/* ---- the end of a trace */

static void release(mf_tracing *t)
{
    for (int i = 0; i < t->capture_count; i++)
        mf_drop(t->captures[i].outer);
    for (int i = 0; i < t->cell_count; i++) {
        mf_drop(t->cells[i].value);
        mf_drop(t->cells[i].cell);
    }
    for (int i = 0; i < t->own_count; i++) {
        mf_drop(t->own[i].value);
        mf_drop(t->own[i].cell);
    }
    mf_drop(t->failure);
    mf_free(t->own);
    mf_free(t->arguments);
    mf_free(t->captures);
    mf_free(t->cells);
    mf_free(t);
}

/* Inputs were made in the order of first use; the contract's order is arguments, captures, cells. */
static void order_inputs(mf_tracing *t)
{
    mf_variable **in = t->builder.program->in;
    int n = 0;
    for (int i = 0; i < t->argument_count; i++)
        in[n++] = t->arguments[i];
    for (int i = 0; i < t->capture_count; i++)
        in[n++] = t->captures[i].input;
    for (int i = 0; i < t->cell_count; i++)
        for (int k = 0; k < t->cells[i].read_structure->leaf_count; k++)
            in[n++] = t->cells[i].inputs[k];
}

/* Appends the leaves of o to out as variables of t; statics go to `statics` (may be NULL: then they are an error). */
static bool lift_tree(mf_tracing *t, mf_object *o, const char *what, mf_variable ***out, int *count, int *capacity, mf_object **statics,
                      const mf_structure **structure, mf_error_object **error)
{
    mf_object *const *leaves, *self;
    int n;
    *structure = mf_tree_flatten(o, &leaves, &n, &self);
    for (int i = 0; i < n; i++) {
        if (mf_object_is(leaves[i], &mf_static_class) && statics) {
            statics[i] = mf_retain(leaves[i]);
            continue;
        }
        mf_variable *v = mf_trace_lift(t, leaves[i], error);
        if (!v) {
            if ((*error)->status == MF_ERROR_ARGUMENT && !mf_object_is(leaves[i], &mf_error_class)) {
                mf_text path = { 0 };
                mf_structure_leaf_path(&path, *structure, i);
                *error = mf_error_wrap(*error, "%s%s%s", what, path.count ? " at " : "", path.count ? path.at : "");
                mf_text_free(&path);
            }
            return false;
        }
        if (!mf_grow(out, capacity, *count + 1, sizeof **out)) {
            *error = mf_error_out_of_memory();
            return false;
        }
        (*out)[(*count)++] = v;
    }
    return true;
}

static void traced_destroy(mf_object *o)
{
    mf_traced *t = (mf_traced *)o;
    mf_drop(t->program);
    for (int i = 0; t->result_statics && i < t->result->leaf_count; i++)
        mf_drop(t->result_statics[i]);
    for (int i = 0; i < t->capture_count; i++)
        mf_drop(t->captures[i]);
    for (int i = 0; i < t->cell_count; i++)
        mf_drop(t->cells[i].cell);
    mf_drop(atomic_load(&t->executable));
    for (size_t i = 0; i < sizeof t->halves / sizeof *t->halves; i++)
        mf_drop(atomic_load(&t->halves[i]));
    mf_arena_free(&t->arena);
}
const mf_class mf_traced_class = { "traced program", traced_destroy };

/* Fills what the traced program says of captures and cells. */
static bool describe(mf_traced *r, mf_tracing *t)
{
    r->captures = mf_arena_alloc(&r->arena, ((size_t)t->capture_count + 1) * sizeof *r->captures);
    r->cells = mf_arena_alloc(&r->arena, ((size_t)t->cell_count + 1) * sizeof *r->cells);
    if (!r->captures || !r->cells)
        return false;
    for (int i = 0; i < t->capture_count; i++)
        r->captures[r->capture_count++] = mf_retain(t->captures[i].outer);
    for (int i = 0; i < t->cell_count; i++) {
        const mf_trace_cell *from = &t->cells[i];
        mf_touched_cell *to = &r->cells[r->cell_count++];
        *to = (mf_touched_cell){ mf_retain(from->cell), from->read_structure, NULL, from->write_structure, from->cell->name };
        to->read_types = mf_arena_alloc(&r->arena, ((size_t)from->read_structure->leaf_count + 1) * sizeof *to->read_types);
        if (!to->read_types)
            return false;
        for (int k = 0; k < from->read_structure->leaf_count; k++)
            to->read_types[k] = from->outside_types[k];
    }
    return true;
}

mf_traced *mf_trace_end(mf_tracing *t, mf_object *result, mf_error_object **error)
{
    mf_variable **out = NULL;
    int count = 0, capacity = 0;
    if (t->failure) {
        if (*error) {
            mf_error_join(t->failure, *error); /* both are this call's */
            mf_error_ignore(*error);
        }
        *error = mf_retain(t->failure);
        result = NULL;
    }
    mf_traced *r = result ? mf_object_new(&mf_traced_class, sizeof *r) : NULL;
    bool ok = r != NULL;
    if (result && !r)
        *error = mf_error_out_of_memory();
    if (ok) {
        mf_object *const *leaves, *self;
        int n;
        mf_tree_flatten(result, &leaves, &n, &self);
        r->result_statics = mf_arena_alloc(&r->arena, ((size_t)n + 1) * sizeof *r->result_statics);
        const mf_structure *s = NULL;
        ok = r->result_statics && lift_tree(t, result, "the result", &out, &count, &capacity, r->result_statics, &s, error);
        r->result = s ? s : mf_structure_none();
    }
    for (int i = 0; ok && i < t->cell_count; i++)
        if (t->cells[i].written)
            ok = lift_tree(t, t->cells[i].value, "a state's value", &out, &count, &capacity, NULL, &t->cells[i].write_structure, error);
    if (ok && !describe(r, t)) {
        *error = mf_error_out_of_memory();
        ok = false;
    }
    if (ok) {
        r->impure = t->impure;
        if (!t->builder.error)
            order_inputs(t);
        r->program = mf_builder_finish(&t->builder, out, count, error);
        ok = r->program != NULL;
    } else {
        mf_builder_abandon(&t->builder);
    }
    innermost = t->outer;
    mf_error_cause = innermost ? innermost->failure : NULL;
    mf_free(out);
    release(t);
    if (!ok) {
        if (result && !*error)
            *error = mf_error_out_of_memory();
        mf_drop(r);
        return NULL;
    }
    return r;
}
