/* debug_print, pure_callback and io_callback: the public functions. Invariant: a call with concrete arrays runs at once and is complete
 * when the function returns; with tracers it becomes an equation. */
#include "ops/control/callback.h"
#include "base/memory/vector.h"
#include "ops/elementwise/loops.h"
#include "ops/control/nested.h"
#include "lax/wrap.h"
#include "trace/dispatch.h"
#include "trace/function.h"
#include <manyfold/array.h>
#include <manyfold/debug.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

typedef struct call_operands {
    MF_VECTOR(mf_value) at;
} call_operands;

static mf_error_object *add_operand(call_operands *o, mf_object *leaf, const char *what)
{
    mf_value v = mf_expect_array(mf_value_of(leaf), what);
    if (!mf_value_type(v))
        return mf_retain(mf_object_of(v));
    return mf_vector_push(&o->at, v) ? NULL : mf_error_out_of_memory();
}

/* Outside traces: evaluates the op on the operands in host memory. */
static mf_error_object *run_at_once(const mf_op *op, const void *params, const call_operands *in, const mf_type *const *types,
                                    int out_count, mf_object **out)
{
    int n = in->at.count;
    mf_variable *vars = mf_calloc((size_t)n + 1, sizeof *vars), **at = mf_calloc((size_t)n + 1, sizeof *at);
    mf_literal **operands = mf_calloc((size_t)n + 1, sizeof *operands), **results = mf_calloc((size_t)out_count + 1, sizeof *results);
    const void **data = mf_calloc((size_t)n + 1, sizeof *data);
    void **to = mf_calloc((size_t)out_count + 1, sizeof *to);
    mf_error_object *error = vars && at && operands && results && data && to ? NULL : mf_error_out_of_memory();
    for (int i = 0; i < n && !error; i++) {
        mf_array *a = (mf_array *)mf_object_of(in->at.at[i]);
        operands[i] = mf_literal_rows_of(a, &error);
        data[i] = operands[i] ? operands[i]->data : NULL;
        vars[i] = (mf_variable){ .type = a->type };
        at[i] = &vars[i];
    }
    for (int i = 0; i < out_count && !error; i++)
        if (!(results[i] = mf_literal_new(types[i], &to[i])))
            error = mf_error_out_of_memory();
    if (!error)
        error = op->evaluate(&(mf_eqn){ .op = op, .params = params, .in_count = n, .in = at }, data, to);
    for (int i = 0; i < out_count && !error; i++)
        if (!(out[i] = (mf_object *)mf_literal_array(results[i])))
            error = mf_error_out_of_memory();
    for (int i = 0; operands && i < n; i++)
        mf_drop(operands[i]);
    for (int i = 0; results && i < out_count; i++)
        mf_drop(results[i]);
    mf_free(vars);
    mf_free(at);
    mf_free(operands);
    mf_free(results);
    mf_free(data);
    mf_free(to);
    return error;
}

static bool all_arrays(const call_operands *in)
{
    for (int i = 0; i < in->at.count; i++)
        if (!mf_object_is(mf_object_of(in->at.at[i]), &mf_array_class))
            return false;
    return true;
}

/* Gives the results as leaves with a reference each. */
static mf_error_object *bind_host(const mf_op *op, const void *params, const call_operands *in, const mf_type *const *types, int count,
                                  mf_object **out)
{
    mf_error_object *error = NULL;
    if (!mf_trace_current() && all_arrays(in))
        return run_at_once(op, params, in, types, count, out);
    mf_value *values = mf_calloc((size_t)count + 1, sizeof *values);
    if (!values)
        return mf_error_out_of_memory();
    mf_bind_n(op, params, in->at.at, in->at.count, values, count);
    for (int i = 0; i < count; i++) {
        mf_object *o = mf_object_of(values[i]);
        if (!error && mf_object_is(o, &mf_error_class))
            error = mf_retain(o);
        out[i] = mf_retain(o);
    }
    mf_free(values);
    return error;
}

static void put_escaped(mf_text *t, const char *s)
{
    for (; *s; s++) {
        mf_text_putn(t, s, 1);
        if (*s == '{' || *s == '}')
            mf_text_putn(t, s, 1);
    }
}

/* Writes a value in place of a placeholder: {} for an array, a tree with {} for its arrays, or a static's text. */
static mf_error_object *put_value(mf_text *t, mf_object *o, call_operands *in)
{
    if (!o)
        return mf_error_new(MF_ERROR_ARGUMENT, "mf_debug_print: an unset value");
    if (mf_object_type(o)) {
        mf_text_put(t, "{}");
        return add_operand(in, o, "mf_debug_print");
    }
    const mf_tree *tree = mf_object_is(o, &mf_tree_class) ? (const mf_tree *)o : NULL;
    if (!tree) {
        if (mf_object_is(o, &mf_error_class))
            return mf_retain(o);
        put_escaped(t, mf_str_value(mf_value_of(o)));
        return NULL;
    }
    static const char *const open[] = { "", "None", "(", "[", "{{" }, *const shut[] = { "", "", ")", "]", "}}" };
    const mf_structure *s = tree->structure;
    mf_error_object *error = NULL;
    mf_text_put(t, open[s->kind]);
    for (int i = 0; i < s->child_count && !error; i++) {
        mf_object *child = mf_tree_child(tree, i);
        mf_text_put(t, i ? ", " : "");
        if (s->kind == MF_NODE_DICT) {
            mf_text_put(t, "'");
            put_escaped(t, s->keys->at[i]);
            mf_text_put(t, "': ");
        }
        error = put_value(t, child, in);
        mf_drop(child);
    }
    mf_text_put(t, s->kind == MF_NODE_TUPLE && s->child_count == 1 ? ",)" : shut[s->kind]);
    return error;
}

/* The user's format with everything but arrays filled in. */
static mf_error_object *make_format(mf_text *t, const char *format, const mf_value *values, int count, call_operands *in)
{
    int wanted = mf_format_placeholders(format);
    if (wanted != count)
        return wanted < 0 ? mf_error_new(MF_ERROR_ARGUMENT, "mf_debug_print: a brace stands alone in \"%s\"; {{ and }} are braces", format)
                          : mf_error_new(MF_ERROR_ARGUMENT, "mf_debug_print: \"%s\" has %d placeholders, but there are %d values", format,
                                         wanted, count);
    mf_error_object *error = NULL;
    for (const char *s = format; *s && !error; s++) {
        bool brace = *s == '{' || *s == '}';
        if (brace && s[1] != *s) {
            error = put_value(t, mf_object_of(*values++), in);
            s = strchr(s, '}');
            continue;
        }
        mf_text_putn(t, s, brace ? 2 : 1);
        s += brace;
    }
    return error;
}

mf_status mf_debug_print_n(const mf_value *format_and_values, int count)
{
    MF_ENTER(MF_FORK_STATUS);
    mf_object *first = count > 0 ? mf_object_of(format_and_values[0]) : NULL, *out = NULL;
    const char *format = mf_static_text(first);
    call_operands in = { .at = { 0 } };
    mf_text t = { 0 };
    mf_text_put(&t, "");
    mf_error_object *error = format ? make_format(&t, format, format_and_values + 1, count - 1, &in)
                                    : mf_error_new(MF_ERROR_ARGUMENT, "mf_debug_print: the format is no string");
    if (!error && t.failed)
        error = mf_error_out_of_memory();
    const mf_type *type = mf_type_scalar(MF_BOOL, false);
    if (!error)
        error = bind_host(&mf_op_debug_print, &(mf_debug_print_params){ mf_intern(t.at), mf_ints_of(0) }, &in, &type, 1, &out);
    mf_drop(out);
    mf_text_free(&t);
    mf_free(in.at.at);
    return mf_error_remember(error);
}

/* Reads the types of the results: structs, or arrays used for their types. */
static mf_error_object *announce(mf_host_call *h, mf_object *o)
{
    mf_object *const *leaves, *self;
    int n;
    if (!o || mf_object_is(o, &mf_error_class))
        return o ? mf_retain(o) : mf_error_new(MF_ERROR_ARGUMENT, "callback %s: the announced result is unset", h->head.name);
    h->result = mf_tree_flatten(o, &leaves, &n, &self);
    h->types = mf_calloc((size_t)n + 1, sizeof *h->types);
    if (!h->types)
        return mf_error_out_of_memory();
    for (int i = 0; i < n; i++) {
        const mf_type *t = mf_struct_type(leaves[i]) ? mf_struct_type(leaves[i]) : mf_object_type(leaves[i]);
        if (!t)
            return mf_error_new(MF_ERROR_ARGUMENT, "callback %s: an announced result is %s, neither a struct nor an array", h->head.name,
                                leaves[i]->kind->name);
        h->types[i] = mf_type_strong(t);
    }
    return NULL;
}

static mf_error_object *take_arguments(mf_host_call *h, const mf_value *arguments, int count, call_operands *in)
{
    if (count < 0 || count > MF_MAX_ARGUMENTS)
        return mf_error_new(MF_ERROR_ARGUMENT, "callback %s: %d arguments; at most %d are possible (pass a tree)", h->head.name, count,
                            MF_MAX_ARGUMENTS);
    h->arguments = mf_calloc((size_t)count + 1, sizeof *h->arguments);
    h->argument_count = count;
    mf_error_object *error = h->arguments ? NULL : mf_error_out_of_memory();
    for (int i = 0; i < count && !error; i++) {
        mf_object *o = mf_object_of(arguments[i]), *const * leaves, *self;
        int n = 0;
        if (!o)
            return mf_error_new(MF_ERROR_ARGUMENT, "callback %s: argument %d is an unset value", h->head.name, i);
        h->arguments[i] = mf_tree_flatten(o, &leaves, &n, &self);
        for (int k = 0; k < n && !error; k++)
            error = add_operand(in, leaves[k], h->head.name);
    }
    return error;
}

static mf_error_object *call_back(const mf_op *op, mf_host_call *h, const call_operands *in, mf_value *result)
{
    int n = h->result->leaf_count, count = n ? n : 1;
    const mf_type *unread = mf_type_scalar(MF_BOOL, false);
    mf_object **out = mf_calloc((size_t)count, sizeof *out);
    mf_callback_params p = { h, mf_ints_of(0) };
    mf_error_object *error = out ? bind_host(op, &p, in, n ? h->types : &unread, count, out) : mf_error_out_of_memory();
    mf_object *tree = error ? NULL : mf_tree_build(h->result, out);
    if (tree)
        *result = mf_value_new(tree);
    else if (!error)
        error = mf_error_out_of_memory();
    for (int i = 0; out && i < count; i++)
        mf_drop(out[i]);
    mf_free(out);
    return error;
}

static mf_value callback(const mf_op *op, mf_function f, mf_value announced, const mf_value *arguments, int count)
{
    mf_error_object *error = NULL;
    mf_function_object *function = mf_function_of(f, &error);
    mf_host_call *h = error ? NULL : mf_object_new(&mf_host_call_class, sizeof *h);
    call_operands in = { .at = { 0 } };
    mf_value result = { 0 };
    if (h) {
        h->head.name = function->name;
        h->function = mf_retain(&function->object);
        error = announce(h, mf_object_of(announced));
    } else if (!error) {
        error = mf_error_out_of_memory();
    }
    if (!error)
        error = take_arguments(h, arguments, count, &in);
    if (!error)
        error = call_back(op, h, &in, &result);
    mf_free(in.at.at);
    mf_drop(h);
    if (error)
        mf_error_set_address(error, mf_entry_location());
    return error ? mf_value_new(error) : result;
}

mf_value mf_pure_callback_n(mf_function f, mf_value result, const mf_value *arguments, int count)
{
    MF_ENTER(MF_FORKED);
    return callback(&mf_op_pure_callback, f, result, arguments, count);
}

mf_value mf_io_callback_n(mf_function f, mf_value result, const mf_value *arguments, int count)
{
    MF_ENTER(MF_FORKED);
    return callback(&mf_op_io_callback, f, result, arguments, count);
}
