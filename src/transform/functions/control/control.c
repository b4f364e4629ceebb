/* cond, switch, while_loop, fori_loop and scan as functions: the bodies are traced, given common inputs, and bound as one equation, which
 * runs at once outside a trace. Operands of an equation: the bodies' captures, then the caller's operands, then cells. */
#include "ops/ops.h"
#include "trace/dispatch.h"
#include "transform/functions/control/branches.h"
#include "transform/functions/control/unroll.h"

#include <manyfold/control.h>
#include <manyfold/numpy.h>
#include <manyfold/array.h>
#include <string.h>

static mf_error_object *refuse_statics(const mf_function_object *f, const mf_traced *t)
{
    for (int i = 0; t->result_statics && i < t->result->leaf_count; i++)
        if (t->result_statics[i])
            return mf_error_new(MF_ERROR_ARGUMENT, "%s returned a static from control flow", f->name);
    return NULL;
}

/* Traces f on these arguments. */
static mf_traced *trace_body(mf_function function, const mf_value *arguments, int count, mf_error_object **error)
{
    mf_function_object *f = mf_function_of(function, error);
    mf_signature s;
    MF_LEAVES(storage);
    if (f)
        *error = mf_signature_make(&s, &storage, f, arguments, count);
    mf_traced *t = *error ? NULL : mf_function_trace(f, &s, error);
    if (t)
        *error = refuse_statics(f, t);
    if (*error) {
        mf_drop(t);
        t = NULL;
    }
    return t;
}

/* Handles for the leaves of a value; an error if one is not an array. */
static mf_error_object *leaf_values(mf_value v, const char *what, const mf_structure **structure, mf_values *out)
{
    mf_object *o = mf_object_of(v), *const * leaves, *self;
    if (!o)
        return mf_error_new(MF_ERROR_ARGUMENT, "%s is an unset value", what);
    int count;
    *structure = mf_tree_flatten(o, &leaves, &count, &self);
    for (int i = 0; i < count; i++) {
        if (mf_object_is(leaves[i], &mf_error_class))
            return mf_retain(leaves[i]);
        if (!mf_object_type(leaves[i]))
            return mf_error_new(MF_ERROR_ARGUMENT, "%s: a leaf is %s, not an array", what, leaves[i]->kind->name);
        if (!mf_vector_push(out, mf_value_of(leaves[i])))
            return mf_error_out_of_memory();
    }
    return NULL;
}

/* The result of a control op as the user's tree, after the cells were written back. */
static mf_value finish(const mf_shared *u, const mf_structure *result, const mf_value *out)
{
    mf_object *first = result->leaf_count + u->cell_types.count ? mf_object_of(out[0]) : NULL;
    if (mf_object_is(first, &mf_error_class))
        return out[0];
    mf_error_object *e = mf_shared_store(u, out + result->leaf_count);
    return e ? mf_value_new(e) : mf_tree_of_values(result, out);
}

/* ---- cond and switch */

static mf_error_object *branches_differ(const char *op, const mf_traced *a, const mf_traced *b, int index)
{
    mf_text t = { 0 };
    mf_structure_difference(&t, a->result, b->result);
    mf_error_object *e = mf_error_new(MF_ERROR_TREE, "%s: the results of branch 0 and branch %d must have the same tree: %s", op, index,
                                      t.at ? t.at : "");
    mf_text_free(&t);
    return e;
}

/* The common types of all branches. They may differ in weak flags; then the result is strong. */
static mf_error_object *common_types(const char *op, mf_traced *const *t, int count, const mf_type **types)
{
    for (int i = 0; i < t[0]->result->leaf_count; i++) {
        types[i] = t[0]->program->out[i]->type;
        for (int k = 1; k < count; k++) {
            const mf_type *other = t[k]->program->out[i]->type;
            if (other == types[i])
                continue;
            if (mf_type_strong(other) != mf_type_strong(types[i]))
                return mf_error_new(MF_ERROR_DTYPE,
                                    "%s: result %d is %s in branch 0 and %s in branch %d; all branches must give the same types", op, i,
                                    mf_type_name(types[i]), mf_type_name(other), k);
            types[i] = mf_type_strong(types[i]);
        }
    }
    return NULL;
}

static mf_value bind_cond(const char *op, mf_value index, mf_traced *const *t, int count, const mf_values *operand, mf_error_object **error)
{
    mf_shared u = { 0 };
    mf_values in = { 0 };
    const mf_type **types = mf_calloc((size_t)t[0]->result->leaf_count + 1, sizeof *types);
    mf_program **programs = mf_calloc((size_t)count, sizeof *programs);
    mf_value result = { 0 }, *out = NULL;
    *error = types && programs ? NULL : mf_error_out_of_memory();
    for (int i = 0; i < count && !*error; i++)
        *error = t[i]->result == t[0]->result ? mf_shared_add(&u, t[i]) : branches_differ(op, t[0], t[i], i);
    if (!*error)
        *error = common_types(op, t, count, types);
    for (int i = 0; i < count && !*error; i++)
        programs[i] = mf_shared_program(&u, &u, t[i], mf_trace_env(), true, types, error);
    if (!*error)
        *error = mf_values_append(&in, &index, 1);
    if (!*error)
        *error = mf_shared_capture_values(&u, &in);
    if (!*error)
        *error = mf_values_append(&in, operand->at, operand->count);
    if (!*error)
        *error = mf_shared_cell_values(&u, &in);
    if (!*error) {
        int results = t[0]->result->leaf_count + u.cell_types.count;
        mf_cond_params params = { { count, programs } };
        out = mf_calloc((size_t)results + 1, sizeof *out);
        if (out && results)
            mf_bind_n(&mf_op_cond, &params, in.at, in.count, out, results);
        if (out)
            result = finish(&u, t[0]->result, out);
    }
    if (!*error && !result.handle)
        *error = mf_error_out_of_memory();
    for (int i = 0; programs && i < count; i++)
        mf_drop(programs[i]);
    mf_shared_free(&u);
    mf_free(in.at);
    mf_free(programs);
    mf_free(types);
    mf_free(out);
    return result;
}

static mf_value cond_of(const char *op, mf_value index, const mf_function *branches, int count, mf_value operand)
{
    mf_traced **t = mf_calloc((size_t)count, sizeof *t);
    mf_values leaves = { 0 };
    mf_value result = { 0 };
    const mf_structure *s;
    mf_error_object *error = t ? leaf_values(operand, "the operand of cond or switch", &s, &leaves) : mf_error_out_of_memory();
    for (int i = 0; i < count && !error; i++)
        t[i] = trace_body(branches[i], &operand, 1, &error);
    if (!error)
        result = bind_cond(op, index, t, count, &leaves, &error);
    for (int i = 0; t && i < count; i++)
        mf_drop(t[i]);
    mf_free(t);
    mf_free(leaves.at);
    return error ? mf_value_new(error) : result;
}

mf_value mf_cond_n(mf_value predicate, mf_function yes, mf_function no, mf_value operand)
{
    MF_ENTER(MF_FORKED);
    mf_value p = mf_expect_array(predicate, "cond's predicate");
    const mf_type *type = mf_value_type(p);
    if (!type)
        return p;
    if (type->rank)
        return mf_fail(MF_ERROR_SHAPE, "cond: the predicate must be a scalar, but it is %s", mf_type_name(type));
    mf_value truth = type->dtype == MF_BOOL ? p : mf_not_equal(p, 0);
    return cond_of("cond", mf_astype(truth, MF_I32), (const mf_function[]){ no, yes }, 2, operand);
}

mf_value mf_switch_n(mf_value index, const mf_function *branches, int count, mf_value operand)
{
    MF_ENTER(MF_FORKED);
    mf_value i = mf_expect_array(index, "switch's index");
    const mf_type *type = mf_value_type(i);
    if (!type)
        return i;
    if (type->rank || !mf_dtype_is_int(type->dtype))
        return mf_fail(MF_ERROR_DTYPE, "switch: the index must be an integer scalar, but it is %s", mf_type_name(type));
    if (count < 1)
        return mf_fail(MF_ERROR_ARGUMENT, "switch takes at least one branch, not %d", count);
    return cond_of("switch", mf_astype(i, MF_I32), branches, count, operand);
}

/* ---- loops: the carry's types must be a fixpoint of the body; a weak type may be made strong once */

static bool only_weak_differs(const mf_type *a, const mf_type *b) { return a != b && mf_type_strong(a) == mf_type_strong(b); }

/* The dtype to which a weak carry is converted, given what the body returns (a C 0 in a loop over floats becomes float); its own if none
 * fits. */
static mf_dtype promoted(const mf_type *in, const mf_type *out)
{
    bool weak;
    return in->weak && mf_type_same_shape(in, out) ? mf_dtype_promote(in->dtype, true, out->dtype, out->weak, &weak) : in->dtype;
}

static mf_error_object *carry_differs(const char *op, const mf_structure *carry, int leaf, const mf_type *in, const mf_type *out)
{
    mf_text path = { 0 };
    mf_structure_leaf_path(&path, carry, leaf);
    mf_error_object *e = mf_error_new(
        MF_ERROR_DTYPE, "%s: the body's carry output and carry input must have equal types: carry%s went in as %s and came out as %s", op,
        path.count ? path.at : "", mf_type_name(in), mf_type_name(out));
    mf_text_free(&path);
    return e;
}

/* Checks that the body returns the carry's types. *again: some leaf of `carry` was weak and has been converted to a strong type or to the
 * body's dtype, so the body must be traced again. */
static mf_error_object *check_carry(const char *op, const mf_traced *body, const mf_structure *wanted, const mf_structure *given,
                                    mf_value *carry, bool *again)
{
    *again = false;
    if (wanted != given) {
        mf_text t = { 0 };
        mf_structure_difference(&t, wanted, given);
        mf_error_object *e = mf_error_new(MF_ERROR_TREE, "%s: the body must return a carry with the same tree as it got: %s", op,
                                          t.at ? t.at : "");
        mf_text_free(&t);
        return e;
    }
    for (int i = 0; i < wanted->leaf_count; i++) {
        const mf_type *in = mf_value_type(carry[i]), *out = body->program->out[i]->type;
        if (in == out)
            continue;
        mf_dtype dtype = promoted(in, out);
        if (!only_weak_differs(in, out) && dtype == in->dtype)
            return carry_differs(op, wanted, i, in, out);
        if (in->weak) {
            carry[i] = mf_astype(carry[i], dtype);
            *again = true;
        }
    }
    return NULL;
}

/* ---- while */

/* Operands: the test's captures, the body's captures, the carry, and the cells of both. */
static mf_error_object *while_operands(const mf_shared *test, const mf_shared *body, const mf_values *carry, mf_values *in)
{
    mf_error_object *error = mf_shared_capture_values(test, in);
    if (!error)
        error = mf_shared_capture_values(body, in);
    if (!error)
        error = mf_values_append(in, carry->at, carry->count);
    return error ? error : mf_shared_cell_values(body, in);
}

static mf_value bind_while(mf_traced *test, mf_traced *body, const mf_structure *s, const mf_values *carry, mf_error_object **error)
{
    mf_shared u = { 0 }, w = { 0 }; /* the body's and the test's; the cells of both are in u and are carried */
    mf_values in = { 0 };
    const mf_type **types = mf_calloc((size_t)s->leaf_count + 1, sizeof *types);
    mf_value *out = NULL, result = { 0 };
    mf_while_params params = { 0 };
    *error = types ? mf_shared_add(&u, body) : mf_error_out_of_memory();
    if (!*error)
        *error = mf_shared_add(&w, test);
    if (!*error)
        *error = mf_shared_add_cells(&u, test);
    for (int i = 0; !*error && i < s->leaf_count; i++)
        types[i] = mf_value_type(carry->at[i]);
    if (!*error)
        params.body = mf_shared_program(&u, &u, body, mf_trace_env(), true, types, error);
    if (params.body)
        params.cond = mf_shared_program(&w, &u, test, mf_trace_env(), false, NULL, error);
    if (params.cond)
        *error = while_operands(&w, &u, carry, &in);
    if (!*error) {
        int results = s->leaf_count + u.cell_types.count;
        params.cond_consts = w.captures.count;
        params.body_consts = u.captures.count;
        out = mf_calloc((size_t)results + 1, sizeof *out);
        if (out && results)
            mf_bind_n(&mf_op_while, &params, in.at, in.count, out, results);
        if (out)
            result = finish(&u, s, out);
    }
    if (!*error && !result.handle)
        *error = mf_error_out_of_memory();
    mf_drop(params.body);
    mf_drop(params.cond);
    mf_shared_free(&u);
    mf_shared_free(&w);
    mf_free(in.at);
    mf_free(types);
    mf_free(out);
    return result;
}

mf_value mf_while_n(mf_function test, mf_function body, mf_value carry)
{
    MF_ENTER(MF_FORKED);
    mf_values leaves = { 0 };
    mf_value result = { 0 };
    const mf_structure *s = NULL;
    mf_traced *tb = NULL, *tt = NULL;
    mf_error_object *error = leaf_values(carry, "while_loop's carry", &s, &leaves);
    for (bool again = true; again && !error;) {
        mf_drop(tb);
        mf_value tree = mf_tree_of_values(s, leaves.at);
        tb = trace_body(body, &tree, 1, &error);
        again = false;
        if (tb)
            error = check_carry("while_loop", tb, s, tb->result, leaves.at, &again);
    }
    if (!error) {
        mf_value tree = mf_tree_of_values(s, leaves.at);
        tt = trace_body(test, &tree, 1, &error);
    }
    if (tt && (tt->result->kind != MF_NODE_LEAF || tt->program->out[0]->type->rank || tt->program->out[0]->type->dtype != MF_BOOL))
        error = mf_error_new(MF_ERROR_DTYPE, "while_loop: the test must return a bool scalar, but it returned %s",
                             tt->result->kind == MF_NODE_LEAF ? mf_type_name(tt->program->out[0]->type) : "a tree");
    for (int i = 0; tt && !error && i < tt->cell_count; i++)
        if (tt->cells[i].write_structure)
            error = mf_error_new(MF_ERROR_ARGUMENT, "while_loop: the test writes %s; only the body may write states",
                                 mf_cell_label(tt->cells[i].cell));
    if (!error)
        result = bind_while(tt, tb, s, &leaves, &error);
    mf_drop(tb);
    mf_drop(tt);
    mf_free(leaves.at);
    return error ? mf_value_new(error) : result;
}

/* ---- scan */

static mf_error_object *scan_length(const mf_value *xs, int count, const mf_scan_options *o, int64_t *length)
{
    if (o->length < 0)
        return mf_error_new(MF_ERROR_ARGUMENT, "scan: length is %lld", (long long)o->length);
    if (!count && !o->length)
        return mf_error_new(MF_ERROR_ARGUMENT, "scan got no values to scan over and .length not provided");
    *length = o->length > 0 ? o->length : -1;
    for (int i = 0; i < count; i++) {
        const mf_type *t = mf_value_type(xs[i]);
        if (!t->rank)
            return mf_error_new(MF_ERROR_SHAPE, "scan: xs must have a leading axis to scan over, but leaf %d is %s", i, mf_type_name(t));
        if (*length >= 0 && t->dims[0] != *length)
            return mf_error_new(MF_ERROR_SHAPE, "scan got values with different leading axis sizes: %lld and %lld", (long long)*length,
                                (long long)t->dims[0]);
        *length = t->dims[0];
    }
    int64_t rounds = o->unroll < *length ? o->unroll : *length;
    if (o->unroll < 0 || rounds > UNROLL_MOST)
        return mf_error_new(MF_ERROR_ARGUMENT, "scan: unroll is %lld; it must be at least 1, and no more than %d rounds are made one",
                            (long long)o->unroll, UNROLL_MOST);
    return NULL;
}

/* Traces f(carry, x). There is no array for x yet, so the signature is made of types. */
static mf_traced *trace_step(mf_function function, const mf_structure *cs, const mf_value *carry, const mf_structure *xs_structure,
                             const mf_value *xs, mf_error_object **error)
{
    mf_function_object *f = mf_function_of(function, error);
    int n = cs->leaf_count + xs_structure->leaf_count;
    mf_leaf *leaves = f ? mf_calloc((size_t)n + 1, sizeof *leaves) : NULL;
    if (!leaves) {
        if (!*error)
            *error = mf_error_out_of_memory();
        return NULL;
    }
    for (int i = 0; i < cs->leaf_count; i++)
        leaves[i].type = mf_value_type(carry[i]);
    for (int i = 0; i < xs_structure->leaf_count; i++)
        leaves[cs->leaf_count + i].type = mf_type_without_axis(mf_value_type(xs[i]), 0);
    mf_signature s = { .env = mf_trace_env(),
                       .client = mf_trace_client(),
                       .arg_count = 2,
                       .structures = { cs, xs_structure },
                       .leaf_count = n,
                       .leaves = leaves };
    mf_traced *t = mf_function_trace(f, &s, error);
    mf_free(leaves);
    if (t)
        *error = refuse_statics(f, t);
    if (t && !*error && (t->result->kind != MF_NODE_TUPLE || t->result->child_count != 2))
        *error = mf_error_new(MF_ERROR_TREE, "scan: the body must return a tuple (carry, y)");
    if (*error) {
        mf_drop(t);
        return NULL;
    }
    return t;
}

/* A scan's body maps (consts, carry, xs) to (carry, ys); a shared program takes (captures, carry, xs, cells). Here the cells join the
 * carry. */
static mf_program *scan_body(const mf_shared *u, const mf_program *shared, int carry, int xs, int ys, mf_error_object **error)
{
    mf_builder b;
    mf_builder_init(&b, mf_trace_env());
    mf_variable **in = mf_calloc((size_t)shared->in_count + 1, sizeof *in), **out = mf_calloc((size_t)shared->out_count + 1, sizeof *out);
    mf_variable **order = mf_calloc((size_t)shared->out_count + 1, sizeof *order);
    mf_program *body = NULL;
    int first = u->captures.count + carry, cells = u->cell_types.count;
    if (in && out && order) {
        for (int i = 0; i < first; i++)
            in[i] = mf_builder_input(&b, shared->in[i]->type);
        for (int i = 0; i < cells; i++)
            in[first + xs + i] = mf_builder_input(&b, u->cell_types.at[i]);
        for (int i = 0; i < xs; i++)
            in[first + i] = mf_builder_input(&b, shared->in[first + i]->type);
        mf_inline(&b, shared, in, out);
        memcpy(order, out, (size_t)carry * sizeof *order);
        memcpy(order + carry, out + carry + ys, (size_t)cells * sizeof *order);
        memcpy(order + carry + cells, out + carry, (size_t)ys * sizeof *order);
        body = mf_builder_finish(&b, order, shared->out_count, error);
    } else {
        mf_builder_abandon(&b);
        *error = mf_error_out_of_memory();
    }
    mf_free(in);
    mf_free(out);
    mf_free(order);
    return body;
}

/* Operands: captures, carry, cells and xs. */
static mf_error_object *scan_operands(const mf_shared *u, const mf_values *carry, const mf_values *xs, mf_values *in)
{
    mf_error_object *error = mf_shared_capture_values(u, in);
    if (!error)
        error = mf_values_append(in, carry->at, carry->count);
    if (!error)
        error = mf_shared_cell_values(u, in);
    return error ? error : mf_values_append(in, xs->at, xs->count);
}

/* Returns an unset value when out of memory. */
static mf_value call_scan(const mf_shared *u, const mf_traced *t, const mf_scan_params *params, int64_t unroll, int carry,
                          const mf_values *in)
{
    int cells = u->cell_types.count, results = t->result->leaf_count + cells;
    size_t ys = (size_t)(t->result->leaf_count - carry), size = sizeof *in->at;
    mf_value *out = mf_calloc((size_t)(2 * results) + 1, size), result = { 0 };
    if (!out)
        return result;
    mf_error_object *error = NULL;
    if (results && unroll > 1)
        error = mf_bind_unrolled_scan(params, unroll, in->at, in->count, out, results);
    else if (results)
        mf_bind_n(&mf_op_scan, params, in->at, in->count, out, results);
    if (error) {
        mf_free(out);
        return mf_value_new(error);
    }
    mf_value *ordered = out + results; /* back to the order results, cells */
    memcpy(ordered, out, (size_t)carry * size);
    memcpy(ordered + carry, out + carry + cells, ys * size);
    memcpy(ordered + carry + ys, out + carry, (size_t)cells * size);
    result = finish(u, t->result, ordered);
    mf_free(out);
    return result;
}

static mf_value bind_scan(mf_traced *t, const mf_values *carry, const mf_values *xs, int64_t length, const mf_scan_options *o,
                          mf_error_object **error)
{
    mf_shared u = { 0 };
    mf_values in = { 0 };
    const mf_type **types = mf_calloc((size_t)mf_traced_result_count(t) + 1, sizeof *types);
    mf_value result = { 0 };
    mf_scan_params params = { .length = length, .reverse = o->reverse };
    int carried = carry->count, results = t->result->leaf_count;
    *error = types ? mf_shared_add(&u, t) : mf_error_out_of_memory();
    for (int i = 0; !*error && i < results; i++)
        types[i] = i < carried ? mf_value_type(carry->at[i]) : t->program->out[i]->type;
    mf_program *shared = *error ? NULL : mf_shared_program(&u, &u, t, mf_trace_env(), true, types, error);
    if (shared)
        params.body = scan_body(&u, shared, carried, xs->count, results - carried, error);
    if (params.body)
        *error = scan_operands(&u, carry, xs, &in);
    if (!*error) {
        params.consts = u.captures.count;
        params.carry = carried + u.cell_types.count;
        result = call_scan(&u, t, &params, o->unroll < length ? o->unroll : length, carried, &in);
    }
    if (!*error && !result.handle)
        *error = mf_error_out_of_memory();
    mf_drop(shared);
    mf_drop(params.body);
    mf_shared_free(&u);
    mf_free(in.at);
    mf_free(types);
    return result;
}

mf_value mf_scan_opt(mf_function f, mf_value carry, mf_value xs, const mf_scan_options *o)
{
    MF_ENTER(MF_FORKED);
    static const mf_scan_options none;
    o = o ? o : &none;
    mf_values leaves = { 0 }, x = { 0 };
    mf_value result = { 0 };
    const mf_structure *cs = NULL, *ks = NULL;
    mf_traced *t = NULL;
    int64_t length = 0;
    mf_error_object *error = leaf_values(carry, "scan's carry", &cs, &leaves);
    if (!error)
        error = leaf_values(xs, "scan's xs", &ks, &x);
    if (!error)
        error = scan_length(x.at, x.count, o, &length);
    for (bool again = true; again && !error;) {
        mf_drop(t);
        t = trace_step(f, cs, leaves.at, ks, x.at, &error);
        again = false;
        if (t)
            error = check_carry("scan", t, cs, t->result->children[0], leaves.at, &again);
    }
    if (!error)
        result = bind_scan(t, &leaves, &x, length, o, &error);
    mf_drop(t);
    mf_free(leaves.at);
    mf_free(x.at);
    return error ? mf_value_new(error) : result;
}

/* ---- fori_loop: a scan over (i, carry) if the bounds are known numbers, so that it has a reverse mode; else a while over (i, upper,
 * carry) */

static mf_value fori_step(void *context, mf_value carry, mf_value unused)
{
    mf_function body = *(mf_function *)context;
    mf_value i = mf_get(carry, 0), next = mf_call_n(body, (const mf_value[]){ i, mf_get(carry, 1) }, 2);
    return mf_tuple(mf_tuple(mf_add(i, 1), next), unused);
}

/* Reads a bound that is an array, waiting for it. */
static bool known_bound(mf_value v, int64_t *number)
{
    mf_array *a = mf_object_is(mf_object_of(v), &mf_array_class) ? (mf_array *)mf_object_of(v) : NULL;
    if (!a || a->type->rank)
        return false;
    unsigned char element[16];
    mf_error_object *error = mf_array_element(a, element);
    if (error)
        mf_error_ignore(error); /* the op that uses the bound reports it */
    else
        *number = mf_load_i64(a->type->dtype, element);
    return !error;
}

static mf_value fori_test(mf_value carry) { return mf_less(mf_get(carry, 0), mf_get(carry, 1)); }

static mf_value fori_body(void *context, mf_value carry)
{
    mf_function body = *(mf_function *)context;
    mf_value i = mf_get(carry, 0), next = mf_call_n(body, (const mf_value[]){ i, mf_get(carry, 2) }, 2);
    return mf_tuple(mf_add(i, 1), mf_get(carry, 1), next);
}

mf_value mf_fori_loop_n(mf_value lower, mf_value upper, mf_function body, mf_value carry)
{
    MF_ENTER(MF_FORKED);
    mf_value low = mf_expect_array(lower, "fori_loop's lower bound"), high = mf_expect_array(upper, "fori_loop's upper bound");
    const mf_type *a = mf_value_type(low), *b = mf_value_type(high);
    if (!a || !b)
        return a ? high : low;
    if (a->rank || b->rank || !mf_dtype_is_int(a->dtype) || !mf_dtype_is_int(b->dtype))
        return mf_fail(MF_ERROR_DTYPE, "fori_loop: the bounds must be integer scalars, but they are %s and %s", mf_type_name(a),
                       mf_type_name(b));
    bool weak;
    mf_dtype dtype = mf_dtype_promote(a->dtype, a->weak, b->dtype, b->weak, &weak);
    int64_t first, last;
    if (known_bound(low, &first) && known_bound(high, &last) && !__builtin_sub_overflow(last, first, &last)) {
        mf_scan_options o = { .length = last > 0 ? last : 0 };
        mf_value rounds = last > 0 ? mf_none() : mf_zeros(MF_SHAPE(0), MF_BOOL); /* a length of 0 would mean "not given" */
        mf_value start = mf_tuple(mf_astype(low, dtype), carry);
        return mf_get(mf_get(mf_scan_opt(mf_closure(fori_step, &body), start, rounds, &o), 0), 1);
    }
    mf_value all = mf_tuple(mf_astype(low, dtype), mf_astype(high, dtype), carry);
    return mf_get(mf_while_n(mf_fn(fori_test), mf_closure(fori_body, &body), all), 2);
}
