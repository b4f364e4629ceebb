/* Traces, from beginning to traced program: inputs, captures, known values of tracers. See trace.h for the invariant. */
#include "trace/tracing.h"

#include "trace/function.h"
#include "trace/inspect/known.h"

_Thread_local mf_tracing *mf_trace_innermost;
static _Atomic uint64_t last_trace_id;

static void tracer_destroy(mf_object *o)
{
    mf_drop(((mf_tracer *)o)->literal);
    mf_drop(((mf_tracer *)o)->known);
}
const mf_class mf_tracer_class = { "tracer", tracer_destroy };

mf_tracing *mf_trace_current(void) { return mf_trace_innermost; }
const mf_axis_env *mf_trace_env(void) { return mf_trace_innermost ? mf_trace_innermost->builder.env : NULL; }
const mf_client *mf_trace_client(void) { return mf_trace_innermost ? mf_trace_innermost->client : mf_client_default(); }
void mf_trace_set_client(mf_tracing *t, const mf_client *client) { t->client = client; }
mf_trace_suspended mf_trace_suspend(void)
{
    mf_trace_suspended s = { mf_trace_innermost, mf_cell_frames_swap(NULL) };
    mf_trace_innermost = NULL;
    return s;
}

void mf_trace_resume(mf_trace_suspended s)
{
    mf_trace_innermost = s.trace;
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
    t->outer = mf_trace_innermost;
    t->client = mf_trace_client();
    mf_builder_init(&t->builder, env);
    if (!t->builder.program) {
        mf_builder_abandon(&t->builder);
        mf_free(t);
        return NULL;
    }
    mf_trace_innermost = t;
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

/* The trace must know all inputs of its program; after losing one it fails. */
static mf_error_object *fail_without_memory(mf_tracing *t)
{
    mf_trace_fail(t, mf_error_out_of_memory());
    return mf_error_out_of_memory();
}

mf_variable *mf_trace_new_input(mf_tracing *t, const mf_type *type)
{
    mf_variable *v = mf_builder_input(&t->builder, type);
    if (!t->builder.error)
        return v;
    fail_without_memory(t);
    return NULL;
}

mf_object *mf_trace_input(mf_tracing *t, const mf_type *type)
{
    mf_variable *v = mf_trace_new_input(t, type);
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
    mf_variable *v = mf_trace_new_input(t, outer->type);
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

/* A program keeps its constants even if the array is deleted. */
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

/* The value of an input that is a capture: a value known in the outer trace is known in this one. */
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
    mf_tracing *t = trace_with_id(mf_trace_innermost, r->trace_id);
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
    mf_tracing *t = mf_trace_innermost;
    if (t && t->failure) {
        t->refused++;
        return mf_retain(t->failure);
    }
    mf_error_object *e = trace_with_id(t, r->trace_id)
                             ? mf_error_new(MF_ERROR_TRACER,
                                            "%s: C cannot branch on a traced value (%s of %s): use mf_where, mf_cond or mf_while, "
                                            "or make the argument static",
                                            what, mf_type_name(r->type), r->trace_name)
                             : mf_error_new(MF_ERROR_TRACER, "%s: a traced value of %s escaped: it was read after its trace had ended (%s)",
                                            what, r->trace_name, mf_type_name(r->type));
    if (t) {
        t->failure = mf_retain(e);
        mf_error_cause = e;
    }
    return e;
}

bool mf_trace_is_stuck(void) { return mf_trace_innermost && mf_trace_innermost->refused > 1000 && mf_trace_innermost->refused % 2; }

void mf_trace_mark_impure(const mf_tracing *outer)
{
    for (mf_tracing *t = mf_trace_innermost; t && t != outer; t = t->outer)
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

/* Appends the variables in t of o's leaves to out; statics go to `statics` (NULL: a static is an error). */
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

/* Fills in the captures and cells of the traced program. */
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
            mf_error_join(t->failure, *error); /* both belong to this call */
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
    mf_trace_innermost = t->outer;
    mf_error_cause = mf_trace_innermost ? mf_trace_innermost->failure : NULL;
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
