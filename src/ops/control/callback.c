/* Ops that call the host while the program runs: debug_print, pure_callback, io_callback. Operands have `batch` leading dimensions that
 * maps added: the host is called once for each of their rows, in order. Invariants: calls with an effect happen on each device of a map in
 * the program's order (runtime/compile/schedule/schedule.c), as often as the program says; no pass evaluates any of these in advance;
 * derivatives need a custom rule around them. */
#include "ops/control/callback.h"

#include "base/thread/cancel.h"
#include "base/memory/vector.h"
#include "ops/elementwise/loops.h"
#include "ops/control/nested.h"
#include "trace/dispatch.h"
#include "trace/function.h"

#include <manyfold/function.h>
#include <manyfold/array.h>
#include <manyfold/debug.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* ---- shared by the three */

static const mf_intlist *batch_of(const mf_eqn *e) { return *(const mf_intlist *const *)mf_params_role(e->op, e->params, MF_ROLE_BATCH); }

static int64_t rows_of(const mf_intlist *batch)
{
    int64_t rows = 1;
    for (int i = 0; i < batch->count; i++)
        rows *= batch->at[i];
    return rows;
}

/* t with the batch dimensions in front. */
static const mf_type *type_of_rows(const mf_type *t, const mf_intlist *batch)
{
    for (int i = batch->count - 1; t && i >= 0; i--)
        t = mf_type_insert_axis(t, 0, batch->at[i]);
    return t;
}

static const mf_type *type_of_row(const mf_type *t, const mf_intlist *batch)
{
    for (int i = 0; i < batch->count; i++)
        t = mf_type_without_axis(t, 0);
    return t;
}

static mf_error_object *check_batch(const mf_type_context *c, const mf_intlist *batch)
{
    for (int i = 0; i < c->in_count; i++) {
        bool fits = c->in[i]->rank >= batch->count;
        for (int k = 0; fits && k < batch->count; k++)
            fits = c->in[i]->dims[k] == batch->at[k];
        if (!fits)
            return mf_type_error(c, MF_ERROR_SHAPE, "operand %d does not begin with the batch's dimensions", i);
    }
    return NULL;
}

/* Adds a dimension in front of the batch. */
static void emit_batched(mf_batch_context *c, const mf_eqn *e, void *params, const mf_intlist **batch, mf_variable *const *in,
                         const int *in_axis, mf_variable **out, int *out_axis)
{
    const mf_intlist *before = *batch;
    int64_t dims[MF_MAX_RANK] = { c->size };
    if (before->count + 1 > MF_MAX_RANK) {
        nested_fail(c->b, mf_error_new(MF_ERROR_SHAPE, "%s: more than %d maps", e->op->name, MF_MAX_RANK));
        return;
    }
    mf_variable **moved = nested_alloc(c->b, e->in_count, sizeof *moved);
    for (int i = 0; i < before->count; i++)
        dims[i + 1] = before->at[i];
    *batch = mf_ints_intern(dims, before->count + 1);
    for (int i = 0; moved && i < e->in_count; i++)
        moved[i] = e_batched_at(c, in[i], in_axis[i], 0);
    mf_emit_into(c->b, e->op, params, moved ? moved : in, e->in_count, out, e->out_count);
    for (int i = 0; i < e->out_count; i++)
        out_axis[i] = 0;
}

/* The call happens on each device of all enclosing maps, whatever its operands. */
static void varies_everywhere(const mf_eqn *e, const mf_axis_env *env, const uint64_t *in, uint64_t *out)
{
    (void)in;
    for (int i = 0; i < e->out_count; i++)
        out[i] = env ? ((uint64_t)2 << mf_axis_env_depth(env, env)) - 1 : 0;
}

/* Row r of operand i, as an array of its own. */
static mf_array *row_of(const mf_eqn *e, const void *const *in, int i, int64_t r)
{
    const mf_type *t = type_of_row(e->in[i]->type, batch_of(e));
    return t ? mf_array_from_host(t, (const char *)in[i] + r * t->bytes) : NULL;
}

/* For clients that can call the host. */
MF_HLO_RULE(host_call_hlo)
{
    if (h_calls_host(h))
        h_host_call(h, e, in, out);
    else
        h_fail(h, mf_error_new_at(e->address, MF_ERROR_ARGUMENT, "%s has no StableHLO: it calls the host", e->op->name));
}

bool mf_is_host_call(const mf_eqn *e) { return e->op->stablehlo == host_call_hlo; }

/* ---- debug_print */

static const mf_param debug_print_params[] = { MF_PARAM(mf_debug_print_params, format, MF_PARAM_NAME),
                                               MF_PARAM_AS(mf_debug_print_params, batch, MF_PARAM_INTS, MF_ROLE_BATCH),
                                               { 0 } };

int mf_format_placeholders(const char *format)
{
    int count = 0;
    for (const char *s = format; *s; s++) {
        if (*s != '{' && *s != '}')
            continue;
        if (s[1] == *s) {
            s++;
            continue;
        }
        const char *end = *s == '{' ? strpbrk(s + 1, "{}") : NULL;
        if (!end || *end != '}')
            return -1;
        s = end;
        count++;
    }
    return count;
}

static mf_error_object *debug_print_type(mf_type_context *c)
{
    const mf_debug_print_params *p = c->params;
    int wanted = p->format ? mf_format_placeholders(p->format) : -1;
    c->out[0] = mf_type_scalar(MF_BOOL, false);
    if (wanted != c->in_count)
        return mf_type_error(c, MF_ERROR_ARGUMENT, wanted < 0 ? "a brace stands alone" : "the format has %d placeholders", wanted);
    return check_batch(c, p->batch);
}

static void debug_print_batch(mf_batch_context *c, const mf_eqn *e, mf_variable *const *in, const int *in_axis, mf_variable **out,
                              int *out_axis)
{
    mf_debug_print_params p = *(const mf_debug_print_params *)e->params;
    emit_batched(c, e, &p, &p.batch, in, in_axis, out, out_axis);
    out_axis[0] = -1;
}

static struct {
    pthread_mutex_t lock;
    mf_print_hook hook;
    void *context;
} printing = { .lock = PTHREAD_MUTEX_INITIALIZER };

void mf_set_print_hook(mf_print_hook hook, void *context)
{
    MF_PARENT_ONLY();
    pthread_mutex_lock(&printing.lock);
    printing.hook = hook;
    printing.context = context;
    pthread_mutex_unlock(&printing.lock);
}

static void put_line(const char *line)
{
    MF_UNCANCELLED;
    pthread_mutex_lock(&printing.lock);
    if (printing.hook) {
        printing.hook(line, printing.context);
    } else {
        puts(line);
        fflush(stdout);
    }
    pthread_mutex_unlock(&printing.lock);
}

/* Prints the format with the arrays in place of the placeholders, ignoring what is between the braces. */
static mf_error_object *print_line(const char *format, mf_array *const *values)
{
    mf_text t = { 0 };
    mf_text_put(&t, "");
    for (const char *s = format; *s; s++) {
        bool brace = *s == '{' || *s == '}';
        if (brace && s[1] != *s) {
            mf_array_print(&t, *values++);
            s = strchr(s, '}');
            continue;
        }
        mf_text_putn(&t, s, 1);
        s += brace;
    }
    bool failed = t.failed;
    if (!failed)
        put_line(t.at);
    mf_text_free(&t);
    return failed ? mf_error_out_of_memory() : NULL;
}

MF_EVALUATE_RULE(debug_print_evaluate)
{
    const mf_debug_print_params *p = e->params;
    mf_error_object *error = NULL;
    mf_array **values = mf_calloc((size_t)e->in_count + 1, sizeof *values);
    *(bool *)out[0] = false;
    for (int64_t r = 0, rows = rows_of(p->batch); r < rows && !error; r++) {
        bool good = values != NULL;
        for (int i = 0; good && i < e->in_count; i++)
            good = (values[i] = row_of(e, in, i, r)) != NULL;
        error = good ? print_line(p->format, values) : mf_error_out_of_memory();
        for (int i = 0; values && i < e->in_count; i++) {
            mf_drop(values[i]);
            values[i] = NULL;
        }
    }
    mf_free(values);
    return error;
}

const mf_op mf_op_debug_print = {
    .name = "debug_print",
    .flags = MF_OP_EFFECT | MF_OP_HOST,
    .params = debug_print_params,
    .params_size = sizeof(mf_debug_print_params),
    .type_rule = debug_print_type,
    .jvp = mf_jvp_zero,
    .transpose = mf_transpose_none,
    .partial_eval = mf_partial_eval_all_or_nothing,
    .dce = mf_dce_whole,
    .batch = debug_print_batch,
    .variance = varies_everywhere,
    .cost = mf_cost_bytes,
    .lower = mf_lower_none,
    .evaluate = debug_print_evaluate,
    MF_HLO_BY(host_call_hlo),
    .samples = nested_no_samples,
};

/* ---- callbacks */

static void host_call_destroy(mf_object *o)
{
    mf_host_call *h = (mf_host_call *)o;
    mf_drop(h->function);
    mf_free(h->arguments);
    mf_free(h->types);
}
const mf_class mf_host_call_class = { "callback", host_call_destroy };

static const mf_param callback_params[] = { MF_PARAM(mf_callback_params, call, MF_PARAM_RULE),
                                            MF_PARAM_AS(mf_callback_params, batch, MF_PARAM_INTS, MF_ROLE_BATCH),
                                            { 0 } };

static const mf_host_call *call_of(const mf_eqn *e) { return ((const mf_callback_params *)e->params)->call; }

static mf_error_object *callback_type(mf_type_context *c)
{
    const mf_callback_params *p = c->params;
    int n = p->call->result->leaf_count, leaves = 0;
    const mf_type **out = mf_type_outputs(c, n ? n : 1);
    if (!out)
        return mf_error_out_of_memory();
    out[0] = mf_type_scalar(MF_BOOL, false);
    for (int i = 0; i < n; i++)
        out[i] = type_of_rows(p->call->types[i], p->batch);
    for (int i = 0; i < p->call->argument_count; i++)
        leaves += p->call->arguments[i]->leaf_count;
    if (leaves != c->in_count)
        return mf_type_error(c, MF_ERROR_ARGUMENT, "%s takes %d operands", p->call->head.name, leaves);
    return check_batch(c, p->batch);
}

MF_JVP_RULE(callback_jvp)
{
    (void)in, (void)tin;
    nested_fail(b, mf_error_new(MF_ERROR_ARGUMENT,
                                "%s callbacks do not support JVP (%s). Please use mf_custom_jvp or mf_custom_vjp to use callbacks while "
                                "taking gradients",
                                e->op->flags & MF_OP_EFFECT ? "IO" : "Pure", call_of(e)->head.name));
    for (int i = 0; i < e->out_count; i++) {
        out[i] = mf_poison(b);
        tout[i] = NULL;
    }
}

static void callback_batch(mf_batch_context *c, const mf_eqn *e, mf_variable *const *in, const int *in_axis, mf_variable **out,
                           int *out_axis)
{
    mf_callback_params p = *(const mf_callback_params *)e->params;
    emit_batched(c, e, &p, &p.batch, in, in_axis, out, out_axis);
    if (!p.call->result->leaf_count)
        out_axis[0] = -1;
}

/* The arguments of one call, built from its leaves, in the innermost scope. */
static bool make_arguments(const mf_host_call *h, mf_array *const *leaves, mf_value *arguments)
{
    for (int i = 0; i < h->argument_count; i++) {
        mf_object *o = mf_tree_build(h->arguments[i], (mf_object *const *)(const void *)leaves);
        if (!o)
            return false;
        arguments[i] = mf_value_new(o);
        leaves += h->arguments[i]->leaf_count;
    }
    return true;
}

static mf_error_object *wrong_result(const mf_host_call *h, const mf_structure *given)
{
    mf_text t = { 0 };
    mf_structure_difference(&t, h->result, given);
    mf_error_object *e = mf_error_new(MF_ERROR_TREE, "the result of callback %s is not the tree that was announced: %s", h->head.name,
                                      t.at ? t.at : "");
    mf_text_free(&t);
    return e;
}

static mf_error_object *take_leaf(const mf_host_call *h, mf_object *o, const mf_type *type, char *out)
{
    const mf_type *given = mf_object_type(o);
    if (!given || !mf_type_same_shape(given, type) || given->dtype != type->dtype)
        return mf_error_new(MF_ERROR_DTYPE, "callback %s gave %s where %s was announced", h->head.name,
                            given ? mf_type_name(given) : o->kind->name, mf_type_name(type));
    return mf_array_copy_out((mf_array *)o, type->dtype, out);
}

/* Copies the function's result to row r of the results. */
static mf_error_object *take_result(const mf_host_call *h, mf_value v, void *const *out, int64_t r)
{
    mf_object *o = mf_object_of(v), *const * leaves, *self;
    mf_error_object *inside = (mf_error_object *)mf_first_error_in(o);
    int n;
    if (inside)
        return mf_retain(inside);
    if (!o)
        return mf_error_new(MF_ERROR_ARGUMENT, "callback %s returned an unset value", h->head.name);
    const mf_structure *s = mf_tree_flatten(o, &leaves, &n, &self);
    if (!h->result->leaf_count) /* the result is not used */
        return NULL;
    mf_error_object *error = s == h->result ? NULL : wrong_result(h, s);
    for (int i = 0; i < n && !error; i++)
        error = take_leaf(h, leaves[i], h->types[i], (char *)out[i] + r * h->types[i]->bytes);
    return error;
}

/* Calls the function outside any trace: the thread may be tracing while it helps a run. */
static mf_error_object *call_host(const mf_host_call *h, mf_array *const *leaves, void *const *out, int64_t r)
{
    void *memory = mf_run_memory_suspend();
    if (!memory)
        return mf_error_out_of_memory();
    mf_trace_suspended suspended = mf_trace_suspend();
    mf_scope *scope = mf_scope_open();
    mf_value arguments[MF_MAX_ARGUMENTS];
    mf_error_object *error = make_arguments(h, leaves, arguments) ? NULL : mf_error_out_of_memory();
    if (!error)
        error = take_result(h, mf_call_n((mf_function){ mf_handle_new(mf_retain(h->function)) }, arguments, h->argument_count), out, r);
    mf_scope_close(scope);
    mf_trace_resume(suspended);
    mf_run_memory_resume(memory);
    return error;
}

MF_EVALUATE_RULE(callback_evaluate)
{
    const mf_host_call *h = call_of(e);
    mf_error_object *error = NULL;
    mf_array **leaves = mf_calloc((size_t)e->in_count + 1, sizeof *leaves);
    if (!h->result->leaf_count)
        *(bool *)out[0] = false;
    for (int64_t r = 0, rows = rows_of(batch_of(e)); r < rows && !error; r++) {
        bool good = leaves != NULL;
        for (int i = 0; good && i < e->in_count; i++)
            good = (leaves[i] = row_of(e, in, i, r)) != NULL;
        error = good ? call_host(h, leaves, out, r) : mf_error_out_of_memory();
        for (int i = 0; leaves && i < e->in_count; i++) {
            mf_drop(leaves[i]);
            leaves[i] = NULL;
        }
    }
    mf_free(leaves);
    return error;
}

const mf_op mf_op_pure_callback = {
    .name = "pure_callback",
    .flags = MF_OP_HOST,
    .params = callback_params,
    .params_size = sizeof(mf_callback_params),
    .type_rule = callback_type,
    .jvp = callback_jvp,
    .transpose = mf_transpose_none,
    .partial_eval = mf_partial_eval_all_or_nothing,
    .dce = mf_dce_whole,
    .batch = callback_batch,
    .variance = mf_variance_join,
    .cost = mf_cost_bytes,
    .lower = mf_lower_none,
    .evaluate = callback_evaluate,
    MF_HLO_BY(host_call_hlo),
    .samples = nested_no_samples,
};

const mf_op mf_op_io_callback = {
    .name = "io_callback",
    .flags = MF_OP_EFFECT | MF_OP_HOST,
    .params = callback_params,
    .params_size = sizeof(mf_callback_params),
    .type_rule = callback_type,
    .jvp = callback_jvp,
    .transpose = mf_transpose_none,
    .partial_eval = mf_partial_eval_all_or_nothing,
    .dce = mf_dce_whole,
    .batch = callback_batch,
    .variance = varies_everywhere,
    .cost = mf_cost_bytes,
    .lower = mf_lower_none,
    .evaluate = callback_evaluate,
    MF_HLO_BY(host_call_hlo),
    .samples = nested_no_samples,
};
