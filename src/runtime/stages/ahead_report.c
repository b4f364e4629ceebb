/* Reports on a call ahead of time: its program as text, the types of its arguments and results, and its costs. Costs are the ops' .cost,
 * multiplied by devices and trip counts; memory comes from the plan. */
#include "runtime/stages/ahead.h"

#include "ops/ops.h"
#include "passes/passes.h"
#include "runtime/compile/planner.h"
#include "stablehlo/hlo_module.h"

#include <manyfold/array.h>
#include <manyfold/stages.h>
#include <math.h>

/* ---- texts */

/* Prints a program under a line that says for how many devices it is. */
static void print_lowered(mf_text *t, const mf_program *p)
{
    mf_text_add(t, "# replicas = %d, partitions = 1\n", mf_span_of(p));
    mf_program_print(t, p);
}

const char *mf_program_text_n(mf_function function, const mf_value *arguments, int count)
{
    MF_ENTER(MF_FORK_WORDS);
    mf_error_object *error = NULL;
    mf_text text = { 0 };
    mf_signature s;
    MF_LEAVES(storage);
    mf_function_object *f;
    mf_traced *t = mf_ahead_trace_here(function, arguments, count, &s, &storage, &f, &error);
    if (error)
        mf_text_put(&text, mf_error_text(error));
    else
        mf_program_print(&text, t->program);
    mf_drop(t);
    mf_drop(error);
    return mf_text_to_scope(&text);
}

/* Prints the module that a plugin would get. */
static mf_error_object *print_stablehlo(mf_text *t, const mf_ahead *o)
{
    mf_error_object *error = NULL;
    int replicas = mf_span_of(o->program);
    mf_program *p = mf_hlo_fit_maps(o->program, mf_hlo_place_of(o->program, replicas), &error);
    if (p)
        error = mf_hlo_module(t, o->traced->name, p, replicas, o->donated, NULL, false);
    mf_drop(p);
    return error;
}

const char *(mf_as_text)(mf_function stage, mf_text_form form)
{
    MF_ENTER(MF_FORK_WORDS);
    mf_error_object *error = NULL;
    const mf_ahead *o = mf_ahead_of(stage, &error);
    mf_text t = { 0 };
    if (o && form == MF_TEXT_DEFAULT)
        form = o->executable ? MF_TEXT_OPTIMIZED : MF_TEXT_TRACED;
    if (o && form == MF_TEXT_PLAN && !o->executable)
        error = mf_error_new(MF_ERROR_ARGUMENT, "a plan is made by compiling: this function is only lowered");
    else if (o && form == MF_TEXT_STABLEHLO)
        error = print_stablehlo(&t, o);
    else if (o && form != MF_TEXT_PLAN && form != MF_TEXT_TRACED && form != MF_TEXT_OPTIMIZED)
        error = mf_error_new(MF_ERROR_ARGUMENT, "mf_as_text: there is no form %d", (int)form);
    if (error) {
        mf_text_free(&t); /* the unfinished module */
        mf_text_put(&t, mf_error_text(error));
    } else if (form == MF_TEXT_PLAN) {
        mf_executable_describe(&t, o->executable);
    } else if (form != MF_TEXT_STABLEHLO) {
        print_lowered(&t, form == MF_TEXT_TRACED ? o->traced->program : o->program);
    }
    mf_drop(error);
    return mf_text_to_scope(&t);
}

/* ---- types */

/* A tree of structs; statics stay as they are. NULL: memory is out. */
static mf_object *tree_of_types(const mf_structure *s, const mf_type *const *types, mf_object *const *statics)
{
    mf_object **leaves = mf_calloc((size_t)s->leaf_count + 1, sizeof *leaves), *tree = NULL;
    bool good = leaves;
    for (int i = 0, next = 0; good && i < s->leaf_count; i++) {
        leaves[i] = statics && statics[i] ? mf_retain(statics[i]) : mf_struct_new(types[next++]);
        good = leaves[i];
    }
    if (good)
        tree = mf_tree_build(s, leaves);
    for (int i = 0; leaves && i < s->leaf_count; i++)
        mf_drop(leaves[i]);
    mf_free(leaves);
    return tree;
}

static mf_object *result_types(const mf_traced *t)
{
    int n = mf_traced_result_count(t);
    const mf_type **types = mf_alloc(((size_t)n + 1) * sizeof *types);
    for (int i = 0; types && i < n; i++)
        types[i] = t->program->out[i]->type;
    mf_object *tree = types ? tree_of_types(t->result, types, t->result_statics) : NULL;
    mf_free(types);
    return tree;
}

static mf_object *argument_types(const mf_ahead *o)
{
    mf_object *parts[MF_MAX_ARGUMENTS] = { 0 }, **statics = mf_calloc((size_t)o->leaf_count + 1, sizeof *statics);
    const mf_type **types = mf_alloc(((size_t)o->leaf_count + 1) * sizeof *types);
    bool good = statics && types;
    for (int a = 0, leaf = 0; good && a < o->arg_count; a++) {
        int n = o->structures[a]->leaf_count, typed = 0;
        for (int i = 0; i < n; i++, leaf++) {
            statics[i] = o->leaves[leaf].object;
            if (o->leaves[leaf].type)
                types[typed++] = o->leaves[leaf].type;
        }
        parts[a] = tree_of_types(o->structures[a], types, statics);
        good = parts[a];
    }
    mf_object *tuple = good ? mf_tree_node(MF_NODE_TUPLE, NULL, parts, o->arg_count) : NULL;
    for (int a = 0; a < o->arg_count; a++)
        mf_drop(parts[a]);
    mf_free(statics);
    mf_free((void *)types);
    return tuple;
}

static mf_value types_of_stage(mf_function stage, bool results)
{
    mf_error_object *error = NULL;
    const mf_ahead *o = mf_ahead_of(stage, &error);
    if (!o)
        return mf_value_new(error);
    mf_object *tree = results ? result_types(o->traced) : argument_types(o);
    return mf_value_new(tree ? (void *)tree : mf_error_out_of_memory());
}

mf_value(mf_args_info)(mf_function stage)
{
    MF_ENTER(MF_FORKED);
    return types_of_stage(stage, false);
}

mf_value(mf_out_info)(mf_function stage)
{
    MF_ENTER(MF_FORKED);
    return types_of_stage(stage, true);
}

mf_value mf_eval_shape_n(mf_function function, const mf_value *arguments, int count)
{
    MF_ENTER(MF_FORKED);
    mf_error_object *error = NULL;
    mf_signature s;
    MF_LEAVES(storage);
    mf_function_object *f = mf_function_of(function, &error);
    if (!error)
        error = mf_signature_of_types(&s, &storage, f, arguments, count);
    mf_traced *t = error ? NULL : mf_function_trace(f, &s, &error);
    mf_object *tree = t ? result_types(t) : NULL;
    if (!tree && !error)
        error = mf_error_out_of_memory();
    mf_drop(t);
    return mf_value_new(error ? (void *)error : tree);
}

/* ---- costs */

static mf_cost cost_of_program(const mf_program *p);

/* A while counts as one iteration, a cond as its most expensive branch; for a function with rules of its own the rules do not count. */
static mf_cost cost_of(const mf_eqn *e)
{
    int nested = mf_params_program_count(e->op, e->params);
    if (!nested)
        return e->op->cost(e);
    mf_cost sum = { 0, 0 }, most = { 0, 0 }, first = { 0, 0 };
    for (int k = 0; k < nested; k++) {
        mf_cost one = cost_of_program(*mf_params_program_at(e->op, e->params, k));
        sum = (mf_cost){ sum.flops + one.flops, sum.bytes + one.bytes };
        most = (mf_cost){ fmax(most.flops, one.flops), fmax(most.bytes, one.bytes) };
        first = k ? first : one;
    }
    if (e->op == &mf_op_while)
        return sum;
    if (e->op == &mf_op_cond)
        return most;
    double times = e->op == &mf_op_pmap   ? (double)mf_pmap_rows(e->params)
                   : e->op == &mf_op_scan ? (double)((const mf_scan_params *)e->params)->length
                                          : 1;
    return (mf_cost){ times * first.flops, times * first.bytes };
}

static mf_cost cost_of_program(const mf_program *p)
{
    mf_cost sum = { 0, 0 };
    for (int i = 0; i < p->eqn_count; i++) {
        mf_cost one = cost_of(p->eqns[i]);
        sum = (mf_cost){ sum.flops + one.flops, sum.bytes + one.bytes };
    }
    return sum;
}

mf_costs(mf_cost_analysis)(mf_function stage)
{
    mf_costs costs = { NAN, NAN };
    MF_ENTER(costs);
    mf_error_object *error = NULL;
    const mf_ahead *o = mf_ahead_of(stage, &error);
    mf_drop(error); /* the error hook has reported it; it is returned to nobody */
    if (!o)
        return costs;
    mf_cost sum = cost_of_program(o->executable ? o->program : o->traced->program);
    return (mf_costs){ sum.flops, sum.bytes };
}

mf_compiled_memory_stats(mf_memory_analysis)(mf_function stage)
{
    mf_compiled_memory_stats m = { -1, -1, -1, -1, -1 };
    MF_ENTER(m);
    mf_error_object *error = NULL;
    const mf_ahead *o = mf_ahead_of(stage, &error);
    if (o && !o->executable)
        error = mf_error_new(MF_ERROR_ARGUMENT, "what memory a call takes is known of a compiled function: this one is only lowered");
    mf_drop(error); /* as above */
    if (!o || !o->executable)
        return m;
    const mf_program *p = o->traced->program;
    m = (mf_compiled_memory_stats){ .temp_size_in_bytes = mf_executable_temporary_bytes(o->executable) };
    for (int i = 0; i < p->in_count; i++)
        m.argument_size_in_bytes += p->in[i]->type->bytes;
    for (int i = 0; i < p->out_count; i++)
        m.output_size_in_bytes += p->out[i]->type->bytes;
    for (int i = 0; o->donated && i < p->in_count - mf_traced_read_count(o->traced); i++)
        m.alias_size_in_bytes += o->donated[i] ? p->in[i]->type->bytes : 0;
    m.peak_memory_in_bytes = m.argument_size_in_bytes + m.output_size_in_bytes - m.alias_size_in_bytes + m.temp_size_in_bytes;
    return m;
}
