/* One equation of a random op, with operands like those of one of its samples; and the facts that are known about its results. */
#include "generate_scope.h"
#include "ops/sample.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

bool in_list(const char *name, const char *const *list)
{
    for (; *list; list++)
        if (strcmp(name, *list) == 0)
            return true;
    return false;
}

/* ------------------------------------------------------------------ facts
 * Ops that are not listed say nothing of their results, which are then clamped where a range is asked for. */

static const char *const moves[] = { "broadcast_in_dim",
                                     "reshape",
                                     "transpose",
                                     "rev",
                                     "slice",
                                     "squeeze",
                                     "expand_dims",
                                     "copy",
                                     "stop_gradient",
                                     "sort",
                                     "concatenate",
                                     "dynamic_slice",
                                     "reduce_max",
                                     "reduce_min",
                                     "max",
                                     "min",
                                     "cummax",
                                     "cummin",
                                     "dynamic_update_slice",
                                     "select_n",
                                     "pad",
                                     "ppermute",
                                     "pmax",
                                     "pmin",
                                     "all_gather",
                                     "all_to_all",
                                     NULL };
static const char *const unit[] = { "tanh", "sin", "cos", "erf", "logistic", "sign", NULL };
static const char *const sums[] = { "reduce_sum", "cumsum", "psum", "psum_scatter", NULL };
/* Ops that accept operands of any moderate size: they are not forced into a range. */
static const char *const tolerant[] = { "add", "sub", "mul", "neg", "abs", "square", "reduce_sum", "cumsum", "dot_general", NULL };

static double largest(fact f) { return fmax(fabs(f.low), fabs(f.high)); }

static fact joined(const mf_eqn *e, const fact *in, mf_dtype dtype)
{
    fact f = { 1 / 0.0, -1 / 0.0, true, true };
    for (int i = 0; i < e->in_count; i++) {
        if (e->in[i]->type->dtype != dtype)
            continue;
        f.low = fmin(f.low, in[i].low);
        f.high = fmax(f.high, in[i].high);
        f.whole = f.whole && in[i].whole;
    }
    return f;
}

static fact symmetric(double most, bool whole) { return fact_range(-most, most, whole); }

static fact arithmetic(const mf_eqn *e, const fact *in)
{
    const char *name = e->op->name;
    bool whole = in[0].whole && in[e->in_count - 1].whole;
    double a = largest(in[0]), b = largest(in[e->in_count - 1]);
    if (!strcmp(name, "add") || !strcmp(name, "sub"))
        return symmetric(a + b, whole);
    if (!strcmp(name, "mul") || !strcmp(name, "square"))
        return symmetric(a * b, whole);
    if (!strcmp(name, "neg") || !strcmp(name, "abs"))
        return symmetric(a, whole);
    if (in_list(name, sums))
        return symmetric(a * fmax(1, (double)e->in[0]->type->size) * GENERATED_DEVICES, whole);
    if (!strcmp(name, "floor") || !strcmp(name, "ceil") || !strcmp(name, "round"))
        return symmetric(a + 1, true);
    return fact_any();
}

fact fact_of_result(const mf_eqn *e, const fact *in, int output)
{
    mf_dtype d = e->out[output]->type->dtype;
    fact f = fact_any();
    if (in_list(e->op->name, moves))
        f = joined(e, in, d);
    else if (in_list(e->op->name, unit))
        f = symmetric(1, in[0].whole && strcmp(e->op->name, "sign") == 0);
    else if (e->in_count)
        f = arithmetic(e, in);
    if (strcmp(e->op->name, "pad") == 0 || isnan(f.low) || isnan(f.high))
        f = (fact){ fmin(f.low, 0), fmax(f.high, 0), f.whole, false };
    f.whole = f.whole && largest(f) <= (d == MF_BF16 ? 256 : d == MF_F16 ? 2048 : 1 << 20);
    f.uniform = false;
    if (!mf_dtype_is_float(d)) {
        f = mf_dtype_is_int(d) && in_list(e->op->name, moves) ? f : fact_any(); /* arithmetic wraps around */
        f.whole = true;
    }
    return f;
}

/* ------------------------------------------------------------------ which samples can take part */

typedef struct candidate {
    sample s;
    bool whole;     /* not continuous */
    bool any_float; /* the op takes floats of every width, and all operands of this sample are random ones of one width */
} candidate;

static candidate *candidates;
static int candidate_count, *first_of_op, op_count; /* candidates of the k-th op that has any: first_of_op[k] .. first_of_op[k + 1] */

static bool has_program(const mf_op *op)
{
    for (const mf_param *p = op->params; p && p->name; p++)
        if (p->kind == MF_PARAM_PROGRAM || p->kind == MF_PARAM_PROGRAMS || p->kind == MF_PARAM_RULE)
            return true;
    return false;
}

static bool plain(const mf_op *op)
{
    return !has_program(op) && !(op->flags & (MF_OP_COLLECTIVE | MF_OP_CONTROL | MF_OP_EFFECT)) && op->evaluate != mf_evaluate_by_runtime;
}

static bool ordinary(const mf_type *t) { return mf_dtype_is_float(t->dtype) || mf_dtype_is_int(t->dtype) || t->dtype == MF_BOOL; }

/* Whether the sample is also valid in double precision, with results of the same shapes. */
static bool widens(const sample *s, const mf_program *p)
{
    sample wide;
    _Alignas(16) char params[512];
    mf_error_object *error = NULL;
    sample_as_f64(&wide, s, params, sizeof params);
    mf_program *q = sample_program(&wide, &error);
    bool good = q && q->out_count == p->out_count;
    for (int o = 0; good && o < p->out_count; o++) {
        const mf_type *a = p->out[o]->type, *b = q->out[o]->type;
        good = ordinary(a) && mf_type_same_shape(a, b) && b->dtype == (mf_dtype_is_float(a->dtype) ? MF_F64 : a->dtype);
    }
    mf_error_ignore(error);
    mf_drop(q);
    return good;
}

static bool is_continuous(const sample *s, const mf_program *p)
{
    static const char *const not [] = {
        "rem", "nextafter", "floor", "ceil", "round", "sign", "select_and_scatter_add", "select_and_gather_add", NULL
    };
    bool floats_in = false, all_out = true;
    for (int i = 0; i < s->in_count; i++)
        floats_in = floats_in || mf_dtype_is_float(s->in[i].type->dtype);
    for (int o = 0; o < p->out_count; o++)
        all_out = all_out && mf_dtype_is_float(p->out[o]->type->dtype);
    return !floats_in || (all_out && p->out_count == 1 && !in_list(s->op->name, not ));
}

static bool takes_part(const sample *s, bool *whole)
{
    mf_error_object *error = NULL;
    mf_program *p = sample_program(s, &error);
    bool good = p && strcmp(s->op->name, "bitcast_convert_type") != 0 && widens(s, p);
    int64_t size = 0;
    for (int i = 0; i < s->in_count && good; i++) {
        size += s->in[i].type->size;
        good = ordinary(s->in[i].type) && !s->in[i].type->weak;
    }
    *whole = good && !is_continuous(s, p);
    mf_error_ignore(error);
    mf_drop(p);
    return good && size <= 1024;
}

static bool takes_any_float(const sample *s)
{
    sample half = *s;
    mf_error_object *error = NULL;
    for (const mf_param *p = s->op->params; p && p->name; p++)
        if (p->kind == MF_PARAM_DTYPE)
            return false;
    for (int i = 0; i < s->in_count; i++) {
        if (s->in[i].type->dtype != s->in[0].type->dtype || s->in[i].values)
            return false;
        half.in[i].type = mf_type_with_dtype(s->in[i].type, MF_BF16);
    }
    mf_program *p = s->in_count && mf_dtype_is_float(s->in[0].type->dtype) ? sample_program(&half, &error) : NULL;
    mf_error_ignore(error);
    mf_drop(p);
    return p;
}

/* Samples with exact floats are corner cases, which have their own tests: if an op has a sample with random floats, only that one is
 * used. */
static void drop_corners(int first)
{
    bool random = false;
    for (int i = first; i < candidate_count; i++)
        random = random || candidates[i].any_float;
    for (int i = first; random && i < candidate_count; i++) {
        sample *s = &candidates[i].s;
        if (s->in_count == 0 || !s->in[0].values || !mf_dtype_is_float(s->in[0].type->dtype))
            continue;
        sample_free(s);
        candidates[i--] = candidates[--candidate_count];
    }
}

static void read_samples(void)
{
    candidates = calloc(4096, sizeof *candidates);
    first_of_op = calloc((size_t)mf_op_count() + 2, sizeof *first_of_op);
    for (int i = 0; i < mf_op_count(); i++) {
        const mf_op *op = mf_op_at(i);
        int before = candidate_count;
        for (const char *const *text = op->samples; plain(op) && *text && candidate_count < 4096; text++) {
            candidate *c = &candidates[candidate_count];
            if (sample_read(&c->s, op, *text) && takes_part(&c->s, &c->whole)) {
                c->any_float = takes_any_float(&c->s);
                candidate_count++;
            } else {
                sample_free(&c->s);
            }
        }
        drop_corners(before);
        if (candidate_count > before)
            first_of_op[++op_count] = candidate_count;
    }
}

__attribute__((destructor)) static void forget_samples(void)
{
    for (int i = 0; i < candidate_count; i++)
        sample_free(&candidates[i].s);
    free(candidates);
    free(first_of_op);
}

/* ------------------------------------------------------------------ equations */

/* A random op, preferably with a sample whose operands exist already. */
static const candidate *pick_candidate(scope *s)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_samples);
    int op = pick(s->g, op_count), first = first_of_op[op];
    const candidate *c = NULL;
    for (int tries = 0; tries < 6; tries++) {
        c = &candidates[first + pick(s->g, first_of_op[op + 1] - first)];
        int64_t size = 1;
        bool there = true;
        for (int i = 0; i < c->s.in_count; i++) {
            size *= c->s.in[i].type->size;
            there = there && scope_find(s, c->s.in[i].type->dtype, false).v;
        }
        if ((there || c->any_float) && (size || chance(s->g, 20)))
            break;
    }
    return c;
}

/* The width of an existing float, for ops that take any. */
static mf_dtype width_for(scope *s, const candidate *c)
{
    mf_dtype d = MF_DTYPE_DEFAULT;
    for (int tries = 0; c->any_float && tries < 6 && !mf_dtype_is_float(d); tries++)
        d = s->at[pick(s->g, s->count)].v->type->dtype;
    return c->any_float && mf_dtype_is_float(d) ? d : MF_DTYPE_DEFAULT;
}

/* Ops whose operands all have the same shape accept any shape: prefers an existing one to the sample's. */
static const mf_type *shape_for(scope *s, const sample *x)
{
    if (!(x->op->flags & MF_OP_ELEMENTWISE) || !s->count || chance(s->g, 20))
        return NULL;
    for (int i = 1; i < x->in_count; i++)
        if (!mf_type_same_shape(x->in[0].type, x->in[i].type))
            return NULL;
    const mf_type *t = s->at[pick(s->g, s->count)].v->type;
    return t->size <= 2048 ? t : NULL;
}

static slot operand(scope *s, const candidate *c, const sample_operand *o, const mf_type *shape, mf_dtype width)
{
    mf_dtype d = width ? width : o->type->dtype;
    const mf_type *type = mf_type_with_dtype(shape ? shape : o->type, d);
    bool inexact = mf_dtype_is_float(d), anything = c->s.op->flags & MF_OP_ELEMENTWISE;
    if (o->values && !anything && o->type->size <= 64 && (!inexact || chance(s->g, 30))) {
        mf_array *a = sample_array(o, 0);
        slot x = { constant_array(&s->b, a), fact_any() };
        x.f.whole = !inexact;
        mf_drop(a);
        return x;
    }
    double low = o->values ? -2 : o->low, high = o->values ? 2 : o->high;
    if (!inexact && anything)
        return scope_value(s, type, -1 / 0.0, 1 / 0.0, true);
    if (in_list(c->s.op->name, tolerant))
        low = -16, high = 16;
    return scope_value(s, type, low, high, inexact && c->whole);
}

void add_row(scope *s)
{
    const candidate *c = pick_candidate(s);
    const mf_type *shape = shape_for(s, &c->s);
    mf_dtype width = width_for(s, c);
    mf_variable *in[SAMPLE_MAX];
    fact facts[SAMPLE_MAX];
    for (int i = 0; i < c->s.in_count; i++) {
        slot x = operand(s, c, &c->s.in[i], shape, width);
        in[i] = x.v;
        facts[i] = x.f;
    }
    mf_eqn *e = mf_emit_eqn(&s->b, c->s.op, c->s.params, in, c->s.in_count);
    for (int o = 0; o < e->out_count && !s->b.error; o++)
        scope_add(s, e->out[o], fact_of_result(e, facts, o));
}
