/* Equations with nested programs, collectives, and programs made by a transform: batched or differentiated. A body takes some of the
 * surrounding values as inputs. Loops keep each carry within the range of its initial value. There are no collectives under a predicate
 * that differs between devices. */
#include "generate_scope.h"
#include "passes/passes.h"
#include "transform/transform.h"

#include <math.h>
#include <string.h>

#define NOT_MAPPED INT64_MIN
enum { MOST = 8 };

/* A program under construction, and the operands that it will get. */
typedef struct body {
    scope s;
    int in_count, out_count;
    mf_variable *in[MOST], *out[MOST]; /* operands outside; results inside */
    fact facts[MOST];                  /* of the results */
} body;

static const mf_axis_env *env_of(const scope *s) { return s->b.env; }

static body body_open(scope *around, const mf_axis_env *env)
{
    body b = { .s = scope_open(around->g, env, around->depth + 1) };
    b.s.collectives = around->collectives;
    return b;
}

/* inside: the type of the program's input, which is the whole operand or a slice. */
static mf_variable *body_input(body *b, slot operand, const mf_type *inside, bool uniform)
{
    fact f = operand.f;
    f.uniform = uniform && f.uniform;
    mf_variable *v = mf_builder_input(&b->s.b, inside);
    b->in[b->in_count++] = operand.v;
    scope_add(&b->s, v, f);
    return v;
}

static void body_output(body *b, slot x)
{
    b->facts[b->out_count] = x.f;
    b->facts[b->out_count].uniform = false;
    b->out[b->out_count++] = x.v;
}

/* One to three results. */
static void body_outputs(body *b)
{
    for (int n = 1 + pick(b->s.g, 3); n > 0 && b->out_count < 5; n--)
        body_output(b, scope_result(&b->s));
}

static mf_program *body_close(body *b, scope *around)
{
    mf_error_object *error = NULL;
    mf_program *p = mf_builder_finish(&b->s.b, b->out, b->out_count, &error);
    if (!p)
        mf_builder_fail(&around->b, error);
    return p;
}

static void add_results(scope *s, const mf_eqn *e, const fact *facts)
{
    for (int o = 0; o < e->out_count && !s->b.error; o++)
        scope_add(s, e->out[o], facts ? facts[o] : fact_any());
}

static slot any_slot(scope *s) { return s->at[pick(s->g, s->count)]; }

static void some_inputs(body *b, scope *around)
{
    for (int n = 1 + pick(around->g, 4); n > 0; n--) {
        slot x = any_slot(around);
        body_input(b, x, x.v->type, true);
    }
}

/* ------------------------------------------------------------------ calls */

static void add_call(scope *s)
{
    body b = body_open(s, env_of(s));
    some_inputs(&b, s);
    scope_fill(&b.s, 1 + pick(s->g, 4));
    body_outputs(&b);
    mf_program *p = body_close(&b, s);
    if (!p)
        return;
    mf_jit_params call = { p, mf_intern("f") };
    mf_remat_params again = { .program = p, .name = call.name, .names = mf_names_intern(NULL, 0), .prevent_cse = chance(s->g, 50) };
    again.policy = chance(s->g, 40) ? NULL : mf_intern(chance(s->g, 50) ? "everything_saveable" : "dots_saveable");
    bool jit = chance(s->g, 50);
    add_results(s, mf_emit_eqn(&s->b, jit ? &mf_op_jit : &mf_op_remat, jit ? (const void *)&call : &again, b.in, b.in_count), b.facts);
    mf_drop(p);
}

/* ------------------------------------------------------------------ maps */

static int64_t devices_of(const mf_axis_env *env)
{
    int64_t n = 1;
    for (; env; env = env->outer)
        n *= env->is_pmap ? env->size : 1;
    return n;
}

/* A value of the scope with one more dimension of this size, and what remains without it. */
static slot with_axis(scope *s, slot x, int64_t size, int64_t *axis)
{
    const mf_type *t = x.v->type;
    if (t->size * size > 4096 || t->rank > 4)
        t = mf_type_with_shape(t, 1, (const int64_t[]){ 3 });
    *axis = chance(s->g, 60) ? 0 : pick(s->g, t->rank + 1);
    return scope_reshaped(s, x, mf_type_insert_axis(t, (int)*axis, size));
}

static void mapped_inputs(body *b, scope *around, int64_t size, int64_t *axes)
{
    for (int n = 1 + pick(around->g, 4), i = 0; i < n; i++) {
        slot x = any_slot(around);
        axes[i] = NOT_MAPPED;
        if (i == 0 || chance(around->g, 60))
            x = with_axis(around, x, size, &axes[i]);
        bool whole = axes[i] == NOT_MAPPED;
        body_input(b, x, whole ? x.v->type : mf_type_without_axis(x.v->type, (int)axes[i]), whole);
    }
}

static const char *axis_name(scope *s)
{
    static const char *const names[] = { "i", "j", "k", "l" };
    return mf_intern(chance(s->g, 10) ? "i" : names[s->depth & 3]);
}

/* A result that is the same on all devices may be unmapped. */
static void choose_out_axes(body *b, const mf_program *p, const mf_axis_env *inner, const int64_t *in_axes, int64_t *out_axes)
{
    uint64_t own = (uint64_t)1 << mf_axis_env_depth(inner, inner), in[MOST];
    for (int i = 0; i < b->in_count; i++)
        in[i] = (own - 1) | (in_axes[i] == NOT_MAPPED ? 0 : own);
    uint64_t *varies = mf_variance_of(p, inner, in);
    for (int o = 0; o < b->out_count; o++) {
        int rank = p->out[o]->type->rank;
        out_axes[o] = chance(b->s.g, 60) ? 0 : pick(b->s.g, rank + 1);
        if (!(varies[p->out[o]->id] & own) && chance(b->s.g, 70))
            out_axes[o] = NOT_MAPPED;
    }
    mf_free(varies);
}

static void add_pmap(scope *s)
{
    static const int64_t sizes[] = { 2, 4, 3, 8, 1 };
    int64_t size = sizes[pick(s->g, 5)], in_axes[MOST], out_axes[MOST];
    if (devices_of(env_of(s)) * size > GENERATED_DEVICES)
        return;
    const mf_axis_env *inner = mf_axis_env_push(env_of(s), axis_name(s), size, 1);
    body b = body_open(s, inner);
    mapped_inputs(&b, s, size, in_axes);
    scope_fill(&b.s, 2 + pick(s->g, 7));
    body_outputs(&b);
    mf_program *p = body_close(&b, s);
    if (!p)
        return;
    choose_out_axes(&b, p, inner, in_axes, out_axes);
    const mf_intlist *none = mf_ints_intern(NULL, 0);
    mf_pmap_params map = { .program = p,
                           .axis_name = inner->name,
                           .axis_size = size,
                           .in_axes = mf_ints_intern(in_axes, b.in_count),
                           .out_axes = mf_ints_intern(out_axes, b.out_count),
                           .devices = none,
                           .donated = none,
                           .local = none };
    add_results(s, mf_emit_eqn(&s->b, &mf_op_pmap, &map, b.in, b.in_count), b.facts);
    mf_drop(p);
}

static void add_vmap(scope *s)
{
    int64_t size = 2 + pick(s->g, 3), in_axes[MOST];
    int in_axis[MOST], out_axis[MOST];
    mf_error_object *error = NULL;
    const char *name = chance(s->g, 70) ? axis_name(s) : NULL;
    body b = body_open(s, mf_axis_env_push(env_of(s), name, size, 0));
    mapped_inputs(&b, s, size, in_axes);
    scope_fill(&b.s, 1 + pick(s->g, 5));
    body_outputs(&b);
    mf_program *p = body_close(&b, s);
    if (!p)
        return;
    for (int i = 0; i < b.in_count; i++)
        in_axis[i] = in_axes[i] == NOT_MAPPED ? -1 : (int)in_axes[i];
    for (int o = 0; o < b.out_count; o++)
        out_axis[o] = chance(s->g, 50) ? -2 : pick(s->g, p->out[o]->type->rank + 1);
    mf_program *batched = mf_batch_program(p, env_of(s), name, size, in_axis, out_axis, &error);
    mf_drop(p);
    if (!batched) {
        mf_builder_fail(&s->b, mf_error_wrap(error, "vmap"));
        return;
    }
    mf_variable *out[MOST];
    mf_inline(&s->b, batched, b.in, out);
    for (int o = 0; o < b.out_count && !s->b.error; o++)
        scope_add(s, out[o], b.facts[o]);
    mf_drop(batched);
}

/* ------------------------------------------------------------------ derivatives */

/* A tangent or cotangent, as a new operand. */
static slot direction(scope *s, const mf_type *t) { return scope_value(s, mf_tangent_type(t), -1, 1, false); }

/* False if an op has no derivative (an extremum over devices). */
static bool add_jvp(scope *s, const mf_program *p, const body *b)
{
    bool has[MOST], gives[MOST] = { false };
    mf_error_object *error = NULL;
    mf_variable *in[2 * MOST], *out[2 * MOST];
    int count = b->in_count;
    for (int i = 0; i < b->in_count; i++) {
        in[i] = b->in[i];
        has[i] = mf_tangent_type(in[i]->type) && (i == 0 || chance(s->g, 70));
        if (has[i])
            in[count++] = direction(s, in[i]->type).v;
    }
    mf_program *j = mf_jvp_program(p, env_of(s), has, gives, &error);
    if (!j) {
        mf_error_ignore(error);
        return false;
    }
    mf_inline(&s->b, j, in, out);
    for (int o = 0; o < j->out_count && !s->b.error; o++)
        scope_add(s, out[o], o < b->out_count ? b->facts[o] : fact_any());
    mf_drop(j);
    return true;
}

/* False if an op has no transpose (a loop of unknown length). */
static bool add_vjp(scope *s, const mf_program *p, const body *b)
{
    mf_program *forward, *backward;
    mf_error_object *error = NULL;
    mf_variable *out[512], *in[512];
    int residuals = 0;
    if (!mf_vjp_program(p, env_of(s), p->in_count, NULL, &forward, &backward, &residuals, &error)) {
        mf_error_ignore(error);
        return false;
    }
    if (forward->out_count < 512 && backward->in_count < 512) {
        mf_inline(&s->b, forward, b->in, out);
        int count = residuals;
        memcpy(in, out + b->out_count, (size_t)residuals * sizeof *in);
        for (int o = 0; o < b->out_count && !s->b.error; o++) {
            scope_add(s, out[o], b->facts[o]);
            if (mf_tangent_type(out[o]->type))
                in[count++] = direction(s, out[o]->type).v;
        }
        mf_inline(&s->b, backward, in, out);
        for (int o = 0; o < backward->out_count && !s->b.error; o++)
            scope_add(s, out[o], fact_any());
    }
    mf_drop(forward);
    mf_drop(backward);
    return true;
}

static void add_derivative(scope *s)
{
    body b = body_open(s, env_of(s));
    some_inputs(&b, s);
    scope_fill(&b.s, 1 + pick(s->g, 5));
    body_outputs(&b);
    mf_program *p = body_close(&b, s);
    if (p && (chance(s->g, 25) || !add_vjp(s, p, &b)))
        (void)add_jvp(s, p, &b);
    mf_drop(p);
}

/* ------------------------------------------------------------------ control flow */

static slot scalar_i32(scope *s, bool *uniform)
{
    slot x = { 0 };
    for (int tries = 0; tries < 10 && !x.v; tries++) {
        slot found = scope_find(s, MF_I32, true);
        if (found.v && found.v->type->rank == 0)
            x = found;
    }
    if (!x.v)
        x = scope_fresh(s, mf_type_scalar(MF_I32, false), fact_range(0, 3, true));
    *uniform = x.f.uniform;
    return scope_ranged(s, x, 0, 3);
}

static const mf_type *small_type(scope *s)
{
    const mf_type *t = any_slot(s).v->type;
    return mf_dtype_is_float(t->dtype) && t->size <= 64 ? t : mf_type_get(MF_F32, false, 1, (const int64_t[]){ 4 });
}

static void add_cond(scope *s)
{
    mf_program *branches[3];
    mf_variable *operands[MOST + 1];
    bool uniform;
    int count = 2 + pick(s->g, 2), results = 1 + pick(s->g, 2), made = 0, in_count = 1 + pick(s->g, 3);
    const mf_type *types[2] = { small_type(s), small_type(s) };
    slot index = scalar_i32(s, &uniform), in[3];
    operands[0] = index.v;
    for (int i = 0; i < in_count; i++) {
        in[i] = any_slot(s);
        operands[i + 1] = in[i].v;
    }
    for (; made < count; made++) {
        body b = body_open(s, env_of(s));
        b.s.collectives = s->collectives && uniform;
        for (int i = 0; i < in_count; i++)
            body_input(&b, in[i], in[i].v->type, uniform);
        scope_fill(&b.s, pick(s->g, 4));
        for (int o = 0; o < results; o++)
            body_output(&b, scope_value(&b.s, types[o], -2, 2, false));
        if (!(branches[made] = body_close(&b, s)))
            break;
    }
    if (made == count) {
        mf_cond_params cond = { { count, branches } };
        fact facts[2] = { fact_range(-2, 2, false), fact_range(-2, 2, false) };
        add_results(s, mf_emit_eqn(&s->b, &mf_op_cond, &cond, operands, in_count + 1), facts);
    }
    while (made)
        mf_drop(branches[--made]);
}

/* The carry's types, and their first values in [-2, 2]. */
static int choose_carry(scope *s, slot *carry)
{
    int count = 1 + pick(s->g, 2);
    for (int i = 0; i < count; i++) {
        carry[i] = scope_value(s, small_type(s), -2, 2, false);
        carry[i].f = fact_range(-2, 2, false);
    }
    return count;
}

static void carry_on(body *b, const slot *carry, int count)
{
    for (int i = 0; i < count; i++)
        body_output(b, scope_value(&b->s, carry[i].v->type, -2, 2, false));
}

static void add_scan(scope *s)
{
    slot carry[2], constant = any_slot(s);
    int64_t length = 1 + pick(s->g, 4);
    int count = choose_carry(s, carry), consts = pick(s->g, 2);
    body b = body_open(s, env_of(s));
    if (consts)
        body_input(&b, constant, constant.v->type, true);
    for (int i = 0; i < count; i++)
        body_input(&b, carry[i], carry[i].v->type, false);
    for (int n = pick(s->g, 3); n > 0; n--) {
        const mf_type *t = small_type(s), *all = mf_type_insert_axis(t, 0, length);
        slot x = scope_value(s, all, -2, 2, false);
        body_input(&b, x, t, false);
    }
    scope_fill(&b.s, 1 + pick(s->g, 4));
    carry_on(&b, carry, count);
    if (chance(s->g, 60))
        body_outputs(&b);
    mf_program *p = body_close(&b, s);
    if (!p)
        return;
    mf_scan_params scan = { .body = p, .length = length, .consts = consts, .carry = count, .reverse = chance(s->g, 30) };
    add_results(s, mf_emit_eqn(&s->b, &mf_op_scan, &scan, b.in, b.in_count), b.facts);
    mf_drop(p);
}

static slot less(scope *s, mf_variable *a, mf_variable *b)
{
    return (slot){ mf_emit(&s->b, &mf_op_lt, NULL, 2, a, b), fact_range(0, 1, true) };
}

/* operands: limit; constant; counter, carry */
static void add_while(scope *s)
{
    bool uniform;
    slot limit = scalar_i32(s, &uniform), carry[2], constant = any_slot(s);
    int count = choose_carry(s, carry);
    mf_variable *operands[MOST + 2] = { limit.v };
    body test = body_open(s, env_of(s)), b = body_open(s, env_of(s));
    b.s.collectives = s->collectives && uniform;
    mf_variable *most = body_input(&test, limit, limit.v->type, false);
    body_input(&b, constant, constant.v->type, uniform);
    mf_array *zero = mf_array_scalar_i64(MF_I32, false, 0), *one = mf_array_scalar_i64(MF_I32, false, 1);
    slot counter = { constant_array(&s->b, zero), fact_range(0, 3, true) };
    mf_variable *at = body_input(&test, counter, counter.v->type, false), *now = body_input(&b, counter, counter.v->type, false);
    for (int i = 0; i < count; i++) {
        body_input(&test, carry[i], carry[i].v->type, false);
        body_input(&b, carry[i], carry[i].v->type, false);
    }
    body_output(&test, less(&test.s, at, most));
    slot next = { mf_emit(&b.s.b, &mf_op_add, NULL, 2, now, constant_array(&b.s.b, one)), fact_range(0, 4, true) };
    scope_fill(&b.s, 1 + pick(s->g, 4));
    body_output(&b, next);
    carry_on(&b, carry, count);
    mf_program *cond = body_close(&test, s), *p = body_close(&b, s);
    memcpy(operands + 1, b.in, (size_t)b.in_count * sizeof *operands);
    if (cond && p) {
        mf_while_params loop = { cond, p, 1, 1 };
        add_results(s, mf_emit_eqn(&s->b, &mf_op_while, &loop, operands, b.in_count + 1), b.facts);
    }
    mf_drop(cond);
    mf_drop(p);
    mf_drop(zero);
    mf_drop(one);
}

/* ------------------------------------------------------------------ collectives */

typedef struct members {
    const mf_namelist *axes;
    const mf_intlist *groups;
    int64_t group_size, count; /* count: the members of a group */
} members;

static bool choose_members(scope *s, members *m, bool groups, bool one)
{
    const char *names[8];
    int64_t sizes[8], total = 1, at[GENERATED_DEVICES];
    int count = 0;
    for (const mf_axis_env *e = env_of(s); e && count < 8; e = e->outer)
        if (e->name && mf_axis_env_find(env_of(s), e->name) == e) {
            names[count] = e->name;
            sizes[count++] = e->size;
        }
    if (!count)
        return false;
    int first = pick(s->g, count), last = one || chance(s->g, 60) ? first + 1 : count;
    for (int i = first; i < last; i++)
        total *= sizes[i];
    *m = (members){ mf_names_intern(names + first, last - first), mf_ints_intern(NULL, 0), 0, total };
    if (!groups || last != first + 1 || total % 2 || total > GENERATED_DEVICES || chance(s->g, 70))
        return true;
    bool interleaved = chance(s->g, 50);
    for (int64_t i = 0; i < total; i++)
        at[i] = interleaved ? i % 2 * (total / 2) + i / 2 : total - 1 - i;
    m->group_size = m->count = interleaved ? 2 : total / 2;
    m->groups = mf_ints_intern(at, (int)total);
    return true;
}

static mf_eqn *emit1(scope *s, const mf_op *op, const void *params, slot x) { return mf_emit_eqn(&s->b, op, params, &x.v, 1); }

/* x reshaped so that its first dimension has `size`, not too large. */
static slot led_by(scope *s, slot x, int64_t size)
{
    int64_t dims[2] = { size, 1 + pick(s->g, 4) };
    return scope_reshaped(s, x, mf_type_with_shape(x.v->type, 2, dims));
}

static mf_eqn *emit_exchange(scope *s, slot x, const members *m)
{
    bool tiled = chance(s->g, 50);
    mf_gather_axis_params gather = { m->axes, 0, tiled, m->groups, m->group_size };
    mf_all_to_all_params all = { m->axes, 0, pick(s->g, 2), tiled, m->groups, m->group_size };
    switch (pick(s->g, 3)) {
    case 0:
        x = led_by(s, x, 1 + pick(s->g, 3));
        gather.axis = pick(s->g, 2);
        return emit1(s, &mf_op_all_gather, &gather, x);
    case 1: return emit1(s, &mf_op_psum_scatter, &gather, led_by(s, x, tiled ? 2 * m->count : m->count));
    default: return emit1(s, &mf_op_all_to_all, &all, led_by(s, x, tiled ? 2 * m->count : m->count));
    }
}

static mf_eqn *emit_permutation(scope *s, slot x, const members *m)
{
    int64_t pairs[2 * 64], n = m->count > 64 ? 64 : m->count, shift = pick(s->g, (int)n), left_out = pick(s->g, 3) == 0;
    for (int64_t i = 0; i < n; i++) {
        pairs[2 * i] = i;
        pairs[2 * i + 1] = (i + shift) % n;
    }
    mf_permute_params permute = { m->axes, mf_ints_intern(pairs, (int)(2 * (n - left_out))) };
    return emit1(s, &mf_op_ppermute, &permute, x);
}

static void add_collective(scope *s)
{
    int which = pick(s->g, 10);
    members m;
    slot x = any_slot(s);
    if (!s->collectives || !choose_members(s, &m, which != 5 && which != 6, which == 5))
        return;
    if (which == 6) {
        mf_eqn *e = mf_emit_eqn(&s->b, &mf_op_axis_index, &(mf_axis_name_params){ m.axes }, NULL, 0);
        add_results(s, e, &(fact){ 0, (double)m.count, true, false });
        return;
    }
    if (x.v->type->dtype == MF_BOOL)
        x = scope_value(s, mf_type_get(MF_F32, false, 1, (const int64_t[]){ 6 }), -2, 2, false);
    mf_collective_params all = { m.axes, m.groups, m.group_size };
    mf_eqn *e = which < 3    ? emit1(s, &mf_op_psum, &all, x)
                : which == 3 ? emit1(s, &mf_op_pmax, &all, x)
                : which == 4 ? emit1(s, &mf_op_pmin, &all, x)
                : which == 5 ? emit_permutation(s, x, &m)
                             : emit_exchange(s, x, &m);
    fact f = s->b.error ? fact_any() : fact_of_result(e, &x.f, 0);
    if (which == 0 && !s->b.error && m.groups->count == 0) /* the result is the same on all devices: declared, and checked */
        e = mf_emit_eqn(&s->b, &mf_op_check_replicated, &(mf_replicated_params){ m.axes, mf_intern("sum") }, &e->out[0], 1);
    add_results(s, e, &f);
}

/* ------------------------------------------------------------------ complex numbers
 * Scopes hold real ones: (a + b i) (conj(b) + a i), taken apart again. */

static void add_complex(scope *s)
{
    const mf_type *t = small_type(s);
    if (mf_dtype_size(t->dtype) < 4)
        t = mf_type_with_dtype(t, MF_F32);
    slot a = scope_value(s, t, -2, 2, false), b = scope_value(s, t, -2, 2, false);
    mf_variable *z = mf_emit(&s->b, &mf_op_complex, NULL, 2, a.v, b.v), *w = mf_emit(&s->b, &mf_op_complex, NULL, 2, b.v, a.v);
    z = mf_emit(&s->b, &mf_op_mul, NULL, 2, z, mf_emit(&s->b, &mf_op_conj, NULL, 1, w));
    mf_variable *parts[2] = { mf_emit(&s->b, &mf_op_real, NULL, 1, z), mf_emit(&s->b, &mf_op_imag, NULL, 1, z) };
    for (int i = 0; i < 2 && !s->b.error; i++)
        scope_add(s, parts[i], fact_range(-8, 8, false));
}

void add_nested(scope *s)
{
    if (env_of(s) && chance(s->g, 60)) {
        add_collective(s);
        return;
    }
    if (s->depth > 2 || !s->count)
        return;
    switch (pick(s->g, 10)) {
    case 9: add_complex(s); break;
    case 0: add_call(s); break;
    case 1: add_cond(s); break;
    case 2: add_scan(s); break;
    case 3: add_while(s); break;
    case 4: add_vmap(s); break;
    case 5: add_derivative(s); break;
    default: add_pmap(s); break;
    }
}
