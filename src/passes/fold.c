/* Constant folding. Ops are folded by their own evaluate, except float results of ops that backends approximate (exp and the like, and
 * products): these are computed by running the op as it would run outside any function. Invariant: a folded program gives the same bits as
 * the unfolded one on the default backend. Results stay small, and a value that is one number everywhere stays a broadcast scalar. */
#include "ops/emit.h"
#include "passes/rewrite.h"
#include "passes/analysis/splat.h"
#include "trace/inspect/known.h"

static bool is_exact(const mf_eqn *e)
{
    for (int i = 0; i < e->out_count && e->op->approximate; i++)
        if (mf_dtype_is_inexact(e->out[i]->type->dtype))
            return false;
    return true;
}

/* ---- the pass's state: for each variable of the new program, the number of constant elements that it follows from; 0: it depends on an
 * input */
typedef struct folding {
    mf_known known;
    int64_t *elements;
    int capacity;
} folding;

static int64_t elements_behind(const folding *f, const mf_variable *v)
{
    if (v->constant)
        return mf_literal_is_contiguous(v->constant) ? v->type->size : 0;
    return v->id < f->capacity ? f->elements[v->id] : 0;
}

static void note_elements(mf_rewrite *r, const mf_variable *v, int64_t elements)
{
    folding *f = r->state;
    int before = f->capacity;
    if (v->constant || v->type->size > MF_KNOWN_MAX)
        return;
    if (!mf_grow(&f->elements, &f->capacity, v->id + 1, sizeof *f->elements)) {
        mf_builder_fail(r->b, mf_error_out_of_memory());
        return;
    }
    for (int i = before; i < f->capacity; i++)
        f->elements[i] = 0;
    f->elements[v->id] = elements;
}

/* The number of constant elements that e's results follow from; 0 if they do not follow from constants alone. */
static int64_t elements_of(const folding *f, const mf_eqn *e, mf_variable *const *in)
{
    int64_t sum = e->in_count ? 0 : e->op == &mf_op_iota;
    for (int i = 0; i < e->in_count; i++) {
        int64_t behind = elements_behind(f, in[i]);
        if (!behind)
            return 0;
        sum += behind;
    }
    return sum;
}

/* Folding a result that is larger than its operands would replace a broadcast, which is free, by a constant, which is not. A generated
 * (iota) or broadcast value is folded only where a later op has made it smaller. */
static bool worth_folding(const mf_eqn *e, mf_variable *const *in, int64_t elements)
{
    int64_t given = 0, widest = 0;
    for (int i = 0; i < e->out_count; i++)
        given += e->out[i]->type->size;
    for (int i = 0; i < e->in_count; i++)
        widest = in[i]->type->size > widest ? in[i]->type->size : widest;
    return elements && e->in_count && given <= MF_KNOWN_MAX && (given <= elements || given < widest);
}

/* ---- evaluating */
static mf_error_object *evaluate_rule(mf_rewrite *r, const mf_eqn *e, mf_literal *const *in, mf_literal **results)
{
    const void **from = mf_rewrite_alloc(r, e->in_count, sizeof *from);
    void **to = mf_rewrite_alloc(r, e->out_count, sizeof *to);
    if (!from || !to)
        return mf_error_out_of_memory();
    for (int i = 0; i < e->in_count; i++)
        from[i] = in[i]->data;
    for (int i = 0; i < e->out_count; i++)
        if (!(results[i] = mf_literal_new(e->out[i]->type, &to[i])))
            return mf_error_out_of_memory();
    return e->op->evaluate(e, from, to);
}

static mf_error_object *run(const mf_eqn *e, mf_literal *const *in, mf_literal **results)
{
    mf_error_object *error = mf_eqn_evaluate_alone(e, in, results);
    for (int i = 0; i < e->out_count && !error; i++) {
        mf_literal *l = results[i];
        results[i] = mf_literal_contiguous(l);
        mf_drop(l);
        if (!results[i])
            return mf_error_out_of_memory();
    }
    return error;
}

/* The operands in row-major order, with a reference each. */
static mf_error_object *operands(mf_rewrite *r, const mf_eqn *e, mf_variable *const *in, mf_literal **from)
{
    mf_error_object *error = NULL;
    for (int i = 0; i < e->in_count && !error; i++) {
        mf_literal *l = mf_known_value(&((folding *)r->state)->known, in[i], &error);
        from[i] = l ? mf_literal_contiguous(l) : NULL;
        if (!from[i] && !error)
            error = mf_error_out_of_memory();
    }
    return error;
}

/* False leaves the equation unchanged: its error will occur again when the program runs. */
static bool fold(mf_rewrite *r, const mf_eqn *e, mf_variable *const *in, mf_variable **out)
{
    mf_literal **results = mf_rewrite_alloc(r, e->out_count, sizeof *results), **from = mf_rewrite_alloc(r, e->in_count, sizeof *from);
    if (!results || !from)
        return false;
    mf_error_object *error = operands(r, e, in, from);
    if (!error)
        error = is_exact(e) ? evaluate_rule(r, e, from, results) : run(e, from, results);
    for (int i = 0; i < e->in_count; i++)
        mf_drop(from[i]);
    for (int i = 0; i < e->out_count; i++) {
        if (!error)
            out[i] = mf_builder_constant(r->b, results[i]);
        mf_drop(results[i]);
    }
    if (error)
        mf_error_ignore(error);
    return !error;
}

/* ---- elementwise ops on broadcast scalars: apply the op to the scalars, then broadcast */
static mf_variable *fold_splats(mf_rewrite *r, const mf_eqn *e, mf_variable *const *in)
{
    if (!(e->op->flags & MF_OP_ELEMENTWISE) || e->out_count != 1 || e->out[0]->type->rank == 0)
        return NULL;
    mf_variable **scalars = mf_rewrite_alloc(r, e->in_count, sizeof *scalars), *result = NULL;
    for (int i = 0; scalars && i < e->in_count; i++)
        if (!(scalars[i] = mf_splat_of(in[i])))
            return NULL;
    mf_eqn *small = scalars ? mf_emit_eqn(r->b, e->op, e->params, scalars, e->in_count) : NULL; /* dead code once it is evaluated */
    if (!small || r->b->error || small->out[0]->type->rank != 0 || !fold(r, small, scalars, &result))
        return NULL;
    const mf_type *type = e->out[0]->type;
    return e_broadcast(r->b, result, type->rank, type->dims, mf_ints_intern(NULL, 0));
}

static void fold_equation(mf_rewrite *r, const mf_eqn *e, mf_variable **in)
{
    mf_variable **out = mf_rewrite_alloc(r, e->out_count, sizeof *out), *splat;
    if (!out)
        return;
    bool plain = mf_eqn_is_plain(e);
    int64_t elements = plain ? elements_of(r->state, e, in) : 0;
    if (worth_folding(e, in, elements) && fold(r, e, in, out))
        for (int i = 0; i < e->out_count; i++)
            r->map[e->out[i]->id] = out[i];
    else if (plain && e->in_count && (splat = fold_splats(r, e, in)) && splat->type == e->out[0]->type)
        mf_rewrite_bind(r, e, splat);
    else
        mf_rewrite_copy(r, e, in);
    for (int i = 0; elements && !r->b->error && i < e->out_count; i++)
        note_elements(r, r->map[e->out[i]->id], elements);
}

mf_program *mf_pass_fold(const mf_program *p, const mf_axis_env *env, mf_error_object **error)
{
    folding f = { .capacity = 0 };
    mf_program *made = mf_rewrite_program(p, env, fold_equation, mf_pass_fold, &f, error);
    mf_known_free(&f.known);
    mf_free(f.elements);
    return made;
}
