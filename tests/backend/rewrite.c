/* Rebuilds a program through the builder, so that every copy is checked by the ops' type rules. Invariant: inputs and outputs keep their
 * order, and equations are visited in the order of the text, those of a nested program before its owner. */
#include "rewrite.h"
#include "constant.h"

#include "ops/ops.h"
#include "passes/passes.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_OPERANDS = 512 };

typedef struct rewrite {
    bool widen, noise;
    uint64_t seed;
    int target, at; /* the equation to cut, -1: none; the number of the next equation */
    cut_way way;
    bool cut; /* the cut was made */
} rewrite;

static mf_program *walk(rewrite *r, const mf_program *p, const mf_axis_env *env, mf_error_object **error);

static mf_dtype widest(mf_dtype d) { return mf_dtype_is_float(d) ? MF_F64 : mf_dtype_is_complex(d) ? MF_C128 : d; }

static const mf_type *retyped(const rewrite *r, const mf_type *t)
{
    return r->widen ? mf_type_get(widest(t->dtype), t->weak, t->rank, t->dims) : t;
}

/* ------------------------------------------------------------------ params */

typedef union room {
    _Alignas(16) char bytes[512];
} room;

static bool convert_programs(rewrite *r, const mf_eqn *e, room *params, const mf_axis_env *env, mf_program_list *lists,
                             mf_error_object **error)
{
    const mf_axis_env *inner = mf_params_env(e->op, e->params, env);
    bool good = true;
    for (const mf_param *f = e->op->params; f && f->name; f++) {
        void *at = params->bytes + f->offset;
        if (f->kind == MF_PARAM_PROGRAM && *(mf_program **)at) {
            mf_program *made = good ? walk(r, *(mf_program **)at, inner, error) : NULL;
            *(mf_program **)at = made;
            good = made != NULL;
        }
        if (f->kind != MF_PARAM_PROGRAMS)
            continue;
        mf_program_list *list = at, old = *list;
        *lists = *list = (mf_program_list){ .at = calloc((size_t)old.count + 1, sizeof *old.at) };
        for (int i = 0; i < old.count && good; i++)
            good = (list->at[list->count++] = walk(r, old.at[i], inner, error)) != NULL;
    }
    return good;
}

static void drop_programs(const mf_eqn *e, room *params, mf_program_list *lists)
{
    for (const mf_param *f = e->op->params; f && f->name; f++) {
        void *at = params->bytes + f->offset;
        if (f->kind == MF_PARAM_PROGRAM)
            mf_drop(*(mf_program **)at);
        for (int i = 0; f->kind == MF_PARAM_PROGRAMS && i < ((mf_program_list *)at)->count; i++)
            mf_drop(((mf_program_list *)at)->at[i]);
    }
    free(lists->at);
}

static void convert_dtypes(const rewrite *r, const mf_op *op, room *params)
{
    for (const mf_param *f = op->params; r->widen && f && f->name; f++)
        if (f->kind == MF_PARAM_DTYPE) {
            mf_dtype *d = (mf_dtype *)(void *)(params->bytes + f->offset);
            *d = widest(*d);
        }
}

/* ------------------------------------------------------------------ what a copy differs in */

mf_variable *emit_filled(mf_builder *b, const mf_type *type, double element)
{
    mf_array *a = mf_dtype_is_inexact(type->dtype) ? mf_array_scalar_f64(type->dtype, false, element)
                                                   : mf_array_scalar_i64(type->dtype, false, (int64_t)element);
    mf_variable *v = constant_array(b, a);
    mf_drop(a);
    if (type->rank == 0)
        return v;
    mf_broadcast_params to = { mf_ints_intern(type->dims, type->rank), mf_ints_intern(NULL, 0) };
    return mf_emit(b, &mf_op_broadcast_in_dim, &to, 1, v);
}

static mf_variable *random_shares(rewrite *r, mf_builder *b, const mf_type *type, double scale)
{
    mf_array *a = mf_array_new(type);
    double *p = mf_array_data(a);
    for (int64_t i = 0; i < type->size; i++) {
        r->seed = r->seed * 6364136223846793005u + 1442695040888963407u;
        p[i] = scale * ((double)(r->seed >> 11) * 0x1p-52 - 1);
    }
    mf_variable *v = constant_array(b, a);
    mf_drop(a);
    return v;
}

/* x, changed by at most two roundings of its own dtype, unless it is exact in that; doubles by a unit in the last place. */
static mf_variable *disturbed(rewrite *r, mf_builder *b, mf_variable *x, mf_dtype own)
{
    if (own == MF_F64) {
        mf_variable *moved = mf_emit(b, &mf_op_mul, NULL, 2, x, random_shares(r, b, mf_type_strong(x->type), 0x1p-52));
        return mf_emit(b, &mf_op_add, NULL, 2, x, moved);
    }
    mf_variable *low = mf_emit(b, &mf_op_convert_element_type, &(mf_convert_params){ own, false }, 1, x);
    mf_variable *back = mf_emit(b, &mf_op_convert_element_type, &(mf_convert_params){ MF_F64, false }, 1, low);
    mf_variable *error = mf_emit(b, &mf_op_sub, NULL, 2, back, x);
    /* infinity minus infinity is NaN: if the rounding error overflows, nothing is added */
    mf_variable *finite = mf_emit(b, &mf_op_is_finite, NULL, 1, error), *none = emit_filled(b, error->type, 0);
    mf_variable *rounds = mf_emit(b, &mf_op_and, NULL, 2, finite, mf_emit(b, &mf_op_ne, NULL, 2, error, none));
    double unit = own == MF_F16 ? 0x1p-11 : own == MF_BF16 ? 0x1p-8 : 0x1p-24;
    mf_variable *moved = mf_emit(b, &mf_op_mul, NULL, 2, x, random_shares(r, b, mf_type_strong(x->type), 2 * unit));
    moved = mf_emit(b, &mf_op_select_n, NULL, 3, rounds, none, moved);
    return mf_emit(b, &mf_op_add, NULL, 2, x, moved);
}

static mf_variable *simpler(const rewrite *r, mf_builder *b, const mf_eqn *e, int output, mf_variable *const *map)
{
    const mf_type *type = e->out[output]->type;
    if (r->way != CUT_TO_OPERAND)
        return type->weak || mf_dtype_is_complex(type->dtype) ? NULL : emit_filled(b, type, r->way == CUT_TO_ONES);
    for (int i = 0; i < e->in_count; i++)
        if (e->in[i]->type == type)
            return map[e->in[i]->id];
    return NULL;
}

static bool cut_equation(rewrite *r, mf_builder *b, const mf_eqn *e, mf_variable **map)
{
    mf_variable *out[32];
    if (e->out_count > 32)
        return false;
    for (int o = 0; o < e->out_count; o++)
        if (!(out[o] = simpler(r, b, e, o, map)))
            return false;
    for (int o = 0; o < e->out_count; o++)
        map[e->out[o]->id] = out[o];
    return r->cut = true;
}

/* ------------------------------------------------------------------ the walk */

static void copy_equation(rewrite *r, mf_builder *b, const mf_eqn *e, mf_variable **map)
{
    room params;
    mf_program_list lists = { 0 };
    mf_variable *in[MOST_OPERANDS];
    mf_error_object *error = NULL;
    if (e->op->params_size > sizeof params || e->in_count > MOST_OPERANDS) {
        mf_builder_fail(b, mf_error_new(MF_ERROR_ARGUMENT, "%s is too large to be rewritten", e->op->name));
        return;
    }
    if (e->params)
        memcpy(params.bytes, e->params, e->op->params_size);
    bool good = convert_programs(r, e, &params, b->env, &lists, &error);
    convert_dtypes(r, e->op, &params);
    for (int i = 0; i < e->in_count; i++)
        in[i] = map[e->in[i]->id];
    mf_eqn *made = good ? mf_emit_eqn(b, e->op, e->params ? params.bytes : NULL, in, e->in_count) : NULL;
    drop_programs(e, &params, &lists);
    if (!good)
        mf_builder_fail(b, error);
    for (int o = 0; o < e->out_count; o++) {
        mf_dtype own = e->out[o]->type->dtype;
        mf_variable *out = made ? made->out[o] : NULL;
        map[e->out[o]->id] = r->noise && out && mf_dtype_is_float(own) ? disturbed(r, b, out, own) : out;
    }
}

static mf_variable *copy_constant(const rewrite *r, mf_builder *b, const mf_variable *v)
{
    const mf_type *type = retyped(r, v->type);
    if (type == v->type)
        return mf_builder_constant(b, v->constant);
    void *to;
    mf_literal *rows = mf_literal_contiguous(v->constant), *wide = mf_literal_new(type, &to);
    mf_convert(type->dtype, to, v->type->dtype, rows->data, type->size);
    mf_variable *made = mf_builder_constant(b, wide);
    mf_drop(rows);
    mf_drop(wide);
    return made;
}

static mf_program *walk(rewrite *r, const mf_program *p, const mf_axis_env *env, mf_error_object **error)
{
    mf_builder b;
    mf_builder_init(&b, env);
    mf_variable **map = calloc((size_t)p->var_count + 1, sizeof(mf_variable *)),
                **out = calloc((size_t)p->out_count + 1, sizeof(mf_variable *));
    for (int i = 0; i < p->in_count; i++)
        map[p->in[i]->id] = mf_builder_input(&b, retyped(r, p->in[i]->type));
    for (int i = 0; i < p->var_count; i++)
        if (p->vars[i]->constant)
            map[i] = copy_constant(r, &b, p->vars[i]);
    for (int i = 0; i < p->eqn_count && !b.error; i++)
        if (r->at++ != r->target || !cut_equation(r, &b, p->eqns[i], map))
            copy_equation(r, &b, p->eqns[i], map);
    for (int o = 0; o < p->out_count; o++)
        out[o] = map[p->out[o]->id];
    mf_program *made = mf_builder_finish(&b, out, p->out_count, error);
    free(map);
    free(out);
    return made;
}

mf_program *program_in_f64(const mf_program *p, mf_error_object **error)
{
    rewrite r = { .widen = true, .target = -1 };
    return walk(&r, p, NULL, error);
}

mf_program *program_with_noise(const mf_program *p, uint64_t seed, mf_error_object **error)
{
    rewrite r = { .widen = true, .noise = true, .seed = seed, .target = -1 };
    return walk(&r, p, NULL, error);
}

mf_program *program_with_cut(const mf_program *p, int target, cut_way way)
{
    rewrite r = { .target = target, .way = way };
    mf_error_object *error = NULL;
    mf_program *made = walk(&r, p, NULL, &error), *live = NULL;
    if (made && r.cut)
        live = mf_pass_dce(made, NULL, &error);
    mf_error_ignore(error);
    mf_drop(made);
    return live;
}

int program_equations(const mf_program *p)
{
    int count = p->eqn_count;
    for (int i = 0; i < p->eqn_count; i++) {
        const mf_eqn *e = p->eqns[i];
        for (int k = 0; k < mf_params_program_count(e->op, e->params); k++)
            count += program_equations(*mf_params_program_at(e->op, e->params, k));
    }
    return count;
}
