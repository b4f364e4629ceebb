/* The evaluator of evaluate.h. Every function here is the obvious loop. */
#include "transform/evaluate.h"

#include "ops/params.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ values */

value value_new(const mf_type *type, int64_t replicas) { return (value){ type, calloc((size_t)(type->bytes * replicas) + 16, 1) }; }

void value_free(value *values, int count)
{
    for (int i = 0; i < count; i++)
        free(values[i].data);
}

static char *place(const value *v, int64_t replica, int64_t element)
{
    return v->data + replica * v->type->bytes + element * mf_dtype_size(v->type->dtype);
}

double value_at(const value *v, int64_t replica, int64_t element) { return mf_load_f64(v->type->dtype, place(v, replica, element)); }

void value_set(value *v, int64_t replica, int64_t element, double x) { mf_store_f64(v->type->dtype, place(v, replica, element), x); }

value value_random(const mf_type *type, int64_t replicas, unsigned *seed)
{
    value v = value_new(type, replicas);
    for (int64_t i = 0; i < type->size * replicas; i++) {
        *seed = *seed * 1664525u + 1013904223u;
        double x = (double)(*seed >> 8) / (1 << 24);
        value_set(&v, 0, i, mf_dtype_is_inexact(type->dtype) ? 2 * x - 1 : x > 0.5);
    }
    return v;
}

/* out[outer, at + i, inner] = in[outer, i, inner] for the `from` rows along a dimension; `to` rows in out. */
static void copy_rows(char *out, int64_t to, int64_t at, const char *in, int64_t from, int64_t outer, size_t inner)
{
    for (int64_t o = 0; o < outer; o++)
        memcpy(out + (size_t)(o * to + at) * inner, in + (size_t)(o * from) * inner, (size_t)from * inner);
}

/* The number of elements before a dimension, and of bytes after it. */
static int64_t outer_of(const mf_type *t, int64_t axis)
{
    int64_t n = 1;
    for (int64_t i = 0; i < axis; i++)
        n *= t->dims[i];
    return n;
}

static size_t inner_of(const mf_type *t, int64_t axis)
{
    size_t n = (size_t)mf_dtype_size(t->dtype);
    for (int64_t i = axis; i < t->rank; i++)
        n *= (size_t)t->dims[i];
    return n;
}

/* Copies row i of n of src along an axis to dst, and the reverse. */
static void take_row(char *dst, const char *src, const mf_type *slice, int64_t axis, int64_t n, int64_t i)
{
    size_t inner = inner_of(slice, axis);
    for (int64_t o = 0; o < outer_of(slice, axis); o++)
        memcpy(dst + (size_t)o * inner, src + (size_t)(o * n + i) * inner, inner);
}

static void put_row(char *dst, const char *src, const mf_type *slice, int64_t axis, int64_t n, int64_t i)
{
    copy_rows(dst, n, i, src, 1, outer_of(slice, axis), inner_of(slice, axis));
}

/* ------------------------------------------------------------------ replicas */

static int64_t replicas_of(const mf_axis_env *env) { return env ? env->size * replicas_of(env->outer) : 1; }

/* The distance between neighbours along a binder: inner axes vary fastest. */
static int64_t stride_of(const mf_axis_env *env, const mf_axis_env *binder)
{
    int64_t stride = 1;
    for (; env != binder; env = env->outer)
        stride *= env->size;
    return stride;
}

static int64_t total(const mf_axis_env *env, const mf_namelist *axes)
{
    int64_t n = 1;
    for (int i = 0; i < axes->count; i++)
        n *= mf_axis_env_find(env, axes->at[i])->size;
    return n;
}

/* The replica's number among the members of the axes, and the replica of another number. */
static int64_t member_of(const mf_axis_env *env, const mf_namelist *axes, int64_t replica)
{
    int64_t member = 0;
    for (int i = 0; i < axes->count; i++) {
        const mf_axis_env *binder = mf_axis_env_find(env, axes->at[i]);
        member = member * binder->size + replica / stride_of(env, binder) % binder->size;
    }
    return member;
}

static int64_t replica_of(const mf_axis_env *env, const mf_namelist *axes, int64_t replica, int64_t member)
{
    for (int i = axes->count - 1; i >= 0; i--) {
        const mf_axis_env *binder = mf_axis_env_find(env, axes->at[i]);
        int64_t stride = stride_of(env, binder), old = replica / stride % binder->size;
        replica += (member % binder->size - old) * stride;
        member /= binder->size;
    }
    return replica;
}

/* Fills the members of a member's group; gives their number, and *own: its place among them. */
static int64_t group_of(const mf_intlist *groups, int64_t group_size, int64_t members, int64_t member, int64_t *group, int64_t *own)
{
    int64_t n = groups->count ? group_size : members, first = 0;
    for (int i = 0; i < groups->count; i++)
        if (groups->at[i] == member)
            first = i / group_size * group_size;
    for (int64_t i = 0; i < n; i++) {
        group[i] = groups->count ? groups->at[first + i] : i;
        if (group[i] == member)
            *own = i;
    }
    return n;
}

/* ------------------------------------------------------------------ collectives */

typedef struct step { /* the evaluation of one equation */
    const mf_eqn *e;
    const mf_axis_env *env;
    const value *in;
    value *out;
} step;

static bool is(const mf_eqn *e, const char *name) { return !strcmp(e->op->name, name); }

static void run_reduction(const step *s)
{
    const mf_collective_params *p = s->e->params;
    for (int64_t r = 0; r < replicas_of(s->env); r++) {
        int64_t group[64], own = 0;
        int64_t n = group_of(p->groups, p->group_size, total(s->env, p->axes), member_of(s->env, p->axes, r), group, &own);
        for (int64_t i = 0; i < s->in[0].type->size; i++) {
            double sum = 0;
            for (int64_t m = 0; m < n; m++) {
                double x = value_at(&s->in[0], replica_of(s->env, p->axes, r, group[m]), i);
                sum = m == 0 ? x : is(s->e, "psum") ? sum + x : is(s->e, "pmax") ? (x > sum ? x : sum) : x < sum ? x : sum;
            }
            value_set(&s->out[0], r, i, sum);
        }
    }
}

static void run_all_gather(const step *s)
{
    const mf_gather_axis_params *p = s->e->params;
    const mf_type *t = s->in[0].type;
    for (int64_t r = 0; r < replicas_of(s->env); r++) {
        int64_t group[64], own = 0;
        int64_t n = group_of(p->groups, p->group_size, total(s->env, p->axes), member_of(s->env, p->axes, r), group, &own);
        int64_t rows = p->tiled ? t->dims[p->axis] : 1;
        for (int64_t m = 0; m < n; m++)
            copy_rows(place(&s->out[0], r, 0), n * rows, m * rows, place(&s->in[0], replica_of(s->env, p->axes, r, group[m]), 0), rows,
                      outer_of(t, p->axis), inner_of(t, p->axis) / (size_t)rows);
    }
}

static void run_psum_scatter(const step *s)
{
    const mf_gather_axis_params *p = s->e->params;
    const mf_type *t = s->in[0].type;
    size_t element = (size_t)mf_dtype_size(t->dtype);
    for (int64_t r = 0; r < replicas_of(s->env); r++) {
        int64_t group[64], own = 0;
        int64_t n = group_of(p->groups, p->group_size, total(s->env, p->axes), member_of(s->env, p->axes, r), group, &own);
        int64_t rows = t->dims[p->axis] / n, inner = (int64_t)(inner_of(t, p->axis + 1) / element), at = 0;
        for (int64_t o = 0; o < outer_of(t, p->axis); o++)
            for (int64_t i = 0; i < rows * inner; i++) {
                double sum = 0;
                for (int64_t m = 0; m < n; m++)
                    sum += value_at(&s->in[0], replica_of(s->env, p->axes, r, group[m]), (o * n + own) * rows * inner + i);
                value_set(&s->out[0], r, at++, sum);
            }
    }
}

/* Member m's piece for this replica lands at m along concat_axis. */
static void run_all_to_all(const step *s)
{
    const mf_all_to_all_params *p = s->e->params;
    const mf_type *t = s->in[0].type;
    int64_t split = p->split_axis, concat = p->concat_axis;
    for (int64_t r = 0; r < replicas_of(s->env); r++) {
        int64_t group[64], own = 0;
        int64_t n = group_of(p->groups, p->group_size, total(s->env, p->axes), member_of(s->env, p->axes, r), group, &own);
        int64_t rows = t->dims[split] / n;
        const mf_type *piece = mf_type_without_axis(t, (int)split);
        piece = p->tiled ? mf_type_insert_axis(piece, (int)split, rows) : piece;
        int64_t height = p->tiled ? piece->dims[concat] : 1;
        char *data = malloc((size_t)piece->bytes + 1);
        for (int64_t m = 0; m < n; m++) {
            take_row(data, place(&s->in[0], replica_of(s->env, p->axes, r, group[m]), 0), piece, split, n, own);
            copy_rows(place(&s->out[0], r, 0), n * height, m * height, data, height, outer_of(piece, concat),
                      inner_of(piece, concat) / (size_t)height);
        }
        free(data);
    }
}

static void run_ppermute(const step *s)
{
    const mf_permute_params *p = s->e->params;
    for (int64_t r = 0; r < replicas_of(s->env); r++)
        for (int i = 0; i + 1 < p->perm->count; i += 2)
            if (p->perm->at[i + 1] == member_of(s->env, p->axes, r))
                memcpy(place(&s->out[0], r, 0), place(&s->in[0], replica_of(s->env, p->axes, r, p->perm->at[i]), 0),
                       (size_t)s->in[0].type->bytes);
}

static void run_axis_index(const step *s)
{
    const mf_axis_name_params *p = s->e->params;
    for (int64_t r = 0; r < replicas_of(s->env); r++)
        value_set(&s->out[0], r, 0, (double)member_of(s->env, p->axes, r));
}

/* ------------------------------------------------------------------ control flow */

static void copy_replica(value *to, const value *from, int64_t replica)
{
    memcpy(place(to, replica, 0), place(from, replica, 0), (size_t)from->type->bytes);
}

static bool run_cond(const step *s)
{
    const mf_cond_params *p = s->e->params;
    int count = p->branches.count, outs = s->e->out_count;
    bool good = true;
    for (int k = 0; k < count && good; k++) {
        value *one = calloc((size_t)outs + 1, sizeof *one);
        good = evaluate(p->branches.at[k], s->env, s->in + 1, one);
        for (int64_t r = 0; r < replicas_of(s->env) && good; r++) {
            int64_t index = (int64_t)value_at(&s->in[0], r, 0);
            if ((index < 0 ? 0 : index >= count ? count - 1 : index) == k)
                for (int o = 0; o < outs; o++)
                    copy_replica(&s->out[o], &one[o], r);
        }
        value_free(one, outs);
        free(one);
    }
    return good;
}

static bool while_round(const step *s, value *carry, bool *active)
{
    const mf_while_params *p = s->e->params;
    int nc = (int)p->cond_consts, nb = (int)p->body_consts, n = s->e->out_count;
    value *in = calloc((size_t)s->e->in_count + 1, sizeof *in), test = { 0 }, *next = calloc((size_t)n + 1, sizeof *next);
    memcpy(in, s->in, (size_t)nc * sizeof *in);
    memcpy(in + nc, carry, (size_t)n * sizeof *in);
    bool good = evaluate(p->cond, s->env, in, &test);
    memcpy(in, s->in + nc, (size_t)nb * sizeof *in);
    memcpy(in + nb, carry, (size_t)n * sizeof *in);
    good = good && evaluate(p->body, s->env, in, next);
    *active = false;
    for (int64_t r = 0; r < replicas_of(s->env) && good; r++)
        if (value_at(&test, r, 0) != 0) {
            *active = true;
            for (int o = 0; o < n; o++)
                copy_replica(&carry[o], &next[o], r);
        }
    value_free(&test, 1);
    value_free(next, n);
    free(next);
    free(in);
    return good;
}

static bool run_while(const step *s)
{
    const mf_while_params *p = s->e->params;
    bool good = true, active = true;
    for (int o = 0; o < s->e->out_count; o++)
        memcpy(s->out[o].data, s->in[p->cond_consts + p->body_consts + o].data, (size_t)(s->out[o].type->bytes * replicas_of(s->env)));
    for (int round = 0; good && active && round < 1000; round++)
        good = while_round(s, s->out, &active);
    return good;
}

static bool scan_round(const step *s, int64_t i, value *carry)
{
    const mf_scan_params *p = s->e->params;
    int first = (int)p->consts, xs = first + (int)p->carry, ins = s->e->in_count, outs = s->e->out_count;
    int64_t n = replicas_of(s->env);
    value *in = calloc((size_t)ins + 1, sizeof *in), *out = calloc((size_t)outs + 1, sizeof *out);
    for (int k = 0; k < ins; k++) {
        in[k] = k < first ? s->in[k] : k < xs ? carry[k - first] : value_new(p->body->in[k]->type, n);
        for (int64_t r = 0; k >= xs && r < n; r++)
            take_row(place(&in[k], r, 0), place(&s->in[k], r, 0), in[k].type, 0, p->length, i);
    }
    bool good = evaluate(p->body, s->env, in, out);
    for (int o = 0; good && o < outs; o++) {
        if (o < p->carry)
            memcpy(carry[o].data, out[o].data, (size_t)(carry[o].type->bytes * n));
        for (int64_t r = 0; o >= p->carry && r < n; r++)
            put_row(place(&s->out[o], r, 0), place(&out[o], r, 0), out[o].type, 0, p->length, i);
    }
    value_free(in + xs, ins - xs);
    value_free(out, outs);
    free(in);
    free(out);
    return good;
}

static bool run_scan(const step *s)
{
    const mf_scan_params *p = s->e->params;
    bool good = true;
    for (int o = 0; o < p->carry; o++)
        memcpy(s->out[o].data, s->in[p->consts + o].data, (size_t)(s->out[o].type->bytes * replicas_of(s->env)));
    for (int64_t i = 0; i < p->length && good; i++)
        good = scan_round(s, p->reverse ? p->length - 1 - i : i, s->out);
    return good;
}

/* ------------------------------------------------------------------ maps */

static bool run_pmap(const step *s)
{
    const mf_pmap_params *p = s->e->params;
    const mf_axis_env *env = mf_axis_env_push(s->env, p->axis_name, p->axis_size, 1);
    int ins = s->e->in_count, outs = s->e->out_count;
    int64_t n = p->axis_size, outer = replicas_of(s->env);
    value *in = calloc((size_t)ins + 1, sizeof *in), *out = calloc((size_t)outs + 1, sizeof *out);
    for (int k = 0; k < ins; k++) {
        in[k] = value_new(p->program->in[k]->type, outer * n);
        for (int64_t r = 0; r < outer * n; r++)
            if (p->in_axes->at[k] == INT64_MIN)
                memcpy(place(&in[k], r, 0), place(&s->in[k], r / n, 0), (size_t)in[k].type->bytes);
            else
                take_row(place(&in[k], r, 0), place(&s->in[k], r / n, 0), in[k].type, p->in_axes->at[k], n, r % n);
    }
    bool good = evaluate(p->program, env, in, out);
    for (int o = 0; good && o < outs; o++)
        for (int64_t r = 0; r < outer * n; r++)
            if (p->out_axes->at[o] != INT64_MIN)
                put_row(place(&s->out[o], r / n, 0), place(&out[o], r, 0), out[o].type, p->out_axes->at[o], n, r % n);
            else if (r % n == 0)
                memcpy(place(&s->out[o], r / n, 0), place(&out[o], r, 0), (size_t)out[o].type->bytes);
    value_free(in, ins);
    value_free(out, outs);
    free(in);
    free(out);
    return good;
}

/* ------------------------------------------------------------------ equations */

static bool run_arithmetic(const step *s)
{
    const void *in[64];
    void *out[16];
    for (int64_t r = 0; r < replicas_of(s->env); r++) {
        for (int i = 0; i < s->e->in_count; i++)
            in[i] = place(&s->in[i], r, 0);
        for (int o = 0; o < s->e->out_count; o++)
            out[o] = place(&s->out[o], r, 0);
        mf_error_object *error = s->e->op->evaluate(s->e, in, out);
        if (error) {
            printf("evaluate: %s\n", error->message);
            mf_error_handle(error);
            mf_drop(error);
            return false;
        }
    }
    return true;
}

static bool run_call(const step *s, const mf_program *p)
{
    value *made = calloc((size_t)p->out_count + 1, sizeof *made);
    bool good = evaluate(p, s->env, s->in, made);
    for (int o = 0; o < p->out_count && good; o++)
        memcpy(s->out[o].data, made[o].data, (size_t)(s->out[o].type->bytes * replicas_of(s->env)));
    value_free(made, p->out_count);
    free(made);
    return good;
}

static bool run_step(const step *s)
{
    static const struct {
        const char *name;
        void (*run)(const step *s);
    } collectives[] = { { "psum", run_reduction },
                        { "pmax", run_reduction },
                        { "pmin", run_reduction },
                        { "all_gather", run_all_gather },
                        { "psum_scatter", run_psum_scatter },
                        { "all_to_all", run_all_to_all },
                        { "ppermute", run_ppermute },
                        { "axis_index", run_axis_index } };
    for (size_t i = 0; i < sizeof collectives / sizeof collectives[0]; i++)
        if (is(s->e, collectives[i].name))
            return collectives[i].run(s), true;
    if (is(s->e, "jit") || is(s->e, "remat"))
        return run_call(s, ((const mf_jit_params *)s->e->params)->program);
    if (is(s->e, "custom_jvp_call") || is(s->e, "custom_vjp_call"))
        return run_call(s, ((const mf_custom_params *)s->e->params)->program);
    if (is(s->e, "cond"))
        return run_cond(s);
    if (is(s->e, "while"))
        return run_while(s);
    if (is(s->e, "scan"))
        return run_scan(s);
    return is(s->e, "pmap") ? run_pmap(s) : run_arithmetic(s);
}

static value constant_value(const mf_variable *v, int64_t replicas)
{
    value made = value_new(v->type, replicas);
    mf_literal *rows = mf_literal_contiguous(v->constant);
    for (int64_t r = 0; r < replicas; r++)
        memcpy(place(&made, r, 0), rows->data, (size_t)v->type->bytes);
    mf_drop(rows);
    return made;
}

static bool run_equation(const mf_eqn *e, const mf_axis_env *env, value *vars)
{
    value *in = calloc((size_t)e->in_count + 1, sizeof *in), *out = calloc((size_t)e->out_count + 1, sizeof *out);
    for (int i = 0; i < e->in_count; i++)
        in[i] = vars[e->in[i]->id];
    for (int o = 0; o < e->out_count; o++)
        vars[e->out[o]->id] = out[o] = value_new(e->out[o]->type, replicas_of(env));
    bool good = run_step(&(step){ e, env, in, out });
    free(in);
    free(out);
    return good;
}

static value copied(const value *v, int64_t replicas)
{
    value made = value_new(v->type, replicas);
    memcpy(made.data, v->data, (size_t)(v->type->bytes * replicas));
    return made;
}

bool evaluate(const mf_program *p, const mf_axis_env *env, const value *in, value *out)
{
    int64_t n = replicas_of(env);
    value *vars = calloc((size_t)p->var_count + 1, sizeof *vars);
    bool good = true;
    for (int i = 0; i < p->var_count; i++)
        if (p->vars[i]->constant)
            vars[i] = constant_value(p->vars[i], n);
    for (int i = 0; i < p->in_count; i++)
        vars[p->in[i]->id] = copied(&in[i], n);
    for (int k = 0; k < p->eqn_count && good; k++)
        good = run_equation(p->eqns[k], env, vars);
    for (int o = 0; o < p->out_count && good; o++)
        out[o] = copied(&vars[p->out[o]->id], n);
    value_free(vars, p->var_count);
    free(vars);
    return good;
}
