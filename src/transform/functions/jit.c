/* jit and remat: a call of the inner function becomes one equation that holds its program. At the top level that equation is the whole
 * program, so jit costs nothing there; inside other traces it keeps the inner program together. */
#include "base/memory/vector.h"
#include "ops/ops.h"
#include "trace/dispatch.h"
#include "trace/function.h"
#include "transform/rules/policy.h"

#include <string.h>

typedef struct call_options {
    mf_ints static_argnums, donate_argnums;
    bool prevent_cse; /* this and policy are remat's */
    mf_policy policy;
} call_options;

static mf_traced *trace_call(mf_function_object *f, const mf_signature *s, const mf_op *op, mf_error_object **error)
{
    const call_options *o = f->options;
    mf_traced *inner = mf_function_trace(f->inner, s, error);
    if (!inner)
        return NULL;
    mf_jit_params jit = { inner->program, f->inner->name };
    mf_remat_params remat = { .program = inner->program, .name = f->inner->name, .prevent_cse = o->prevent_cse };
    remat.policy = mf_policy_name(o->policy, &remat.names);
    const void *params = op == &mf_op_remat ? (const void *)&remat : &jit;
    MF_SMALL_ARRAY(const mf_type *, types, 64, inner->program->in_count);
    mf_traced *result = NULL;
    if (types) {
        for (int i = 0; i < inner->program->in_count; i++)
            types[i] = inner->program->in[i]->type;
        mf_program *p = mf_program_of_eqn(s->env, op, params, types, inner->program->in_count, error);
        result = p ? mf_traced_with(inner, p, inner->result, inner->result_statics) : NULL;
    }
    if (!result && !*error)
        *error = mf_error_out_of_memory();
    mf_drop(inner);
    return result;
}

static mf_traced *jit_trace(mf_function_object *f, const mf_signature *s, mf_error_object **error)
{
    return trace_call(f, s, &mf_op_jit, error);
}
static mf_traced *remat_trace(mf_function_object *f, const mf_signature *s, mf_error_object **error)
{
    return trace_call(f, s, &mf_op_remat, error);
}
static const mf_ints *call_statics(const mf_function_object *f) { return &((const call_options *)f->options)->static_argnums; }
static const mf_ints *call_donated(const mf_function_object *f) { return &((const call_options *)f->options)->donate_argnums; }

static const mf_function_class jit_class = {
    .name = "jit", .trace = jit_trace, .static_argnums = call_statics, .donate_argnums = call_donated
};
static const mf_function_class remat_class = { .name = "remat", .trace = remat_trace, .static_argnums = call_statics };

mf_function mf_jit_opt(mf_function f, const mf_jit_options *o)
{
    MF_ENTER((mf_function){ MF_FORK_HANDLE });
    static const mf_jit_options none;
    o = o ? o : &none;
    call_options options;
    memset(&options, 0, sizeof options);
    mf_error_object *error = NULL;
    options.static_argnums = mf_ints_plain(o->static_argnums, "jit: static_argnums", &error);
    options.donate_argnums = mf_ints_plain(o->donate_argnums, "jit: donate_argnums", &error);
    if (error)
        return (mf_function){ mf_handle_new(error) };
    return mf_function_wrap(&jit_class, f, &options, sizeof options);
}

mf_function mf_remat_opt(mf_function f, const mf_remat_options *o)
{
    MF_ENTER((mf_function){ MF_FORK_HANDLE });
    static const mf_remat_options none;
    o = o ? o : &none;
    call_options options;
    memset(&options, 0, sizeof options);
    mf_error_object *error = NULL;
    options.static_argnums = mf_ints_plain(o->static_argnums, "remat: static_argnums", &error);
    if (error)
        return (mf_function){ mf_handle_new(error) };
    options.prevent_cse = !o->prevent_cse_off;
    options.policy = o->policy;
    return mf_function_wrap(&remat_class, f, &options, sizeof options);
}
