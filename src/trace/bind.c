/* Binding: applying an op to values. In a trace that adds an equation, outside it runs the op at once. Invariant: if an operand is an
 * error, that error is the result. */
#include "base/memory/vector.h"
#include "trace/dispatch.h"
#include "trace/tracing.h"

#include <stdarg.h>

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

/* Inside programs maps add dimensions; arrays that a user sees have at most MF_MAX_RANK. */
static mf_error_object *check_rank(const mf_op *op, const mf_type *t)
{
    if (!t || t->rank <= MF_MAX_RANK)
        return NULL;
    return mf_error_new(MF_ERROR_SHAPE, "%s: an array has at most %d dimensions, and the result would have %d", op->name, MF_MAX_RANK,
                        t->rank);
}

/* Emits into t. An error of the builder is taken out of it and becomes this op's value, so tracing can go on. */
static mf_error_object *bind_traced(mf_tracing *t, const mf_op *op, const void *params, mf_object *const *in, int in_count, mf_value *out,
                                    int out_count)
{
    MF_SMALL_ARRAY(mf_variable *, operands, 16, in_count);
    mf_error_object *error = operands ? NULL : mf_error_out_of_memory();
    for (int i = 0; i < in_count && !error; i++)
        operands[i] = mf_trace_lift(t, in[i], &error);
    if (!error) {
        t->builder.address = mf_entry_location();
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
        error = mf_trace_innermost ? bind_traced(mf_trace_innermost, op, params, objects, in_count, out, out_count)
                                   : bind_at_once(op, params, objects, in_count, out, out_count);
    if (error) {
        mf_error_set_address(error, mf_entry_location());
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
