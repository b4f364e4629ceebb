/* pmap: the program runs once per device, on slices of the operands. Invariants: in_axes[i] and out_axes[o] are positions in the operand's
 * and result's own shape, INT64_MIN for "the same everywhere". The program's axis is bound by this equation and hides an outer one of the
 * same name; the program of a map without a name mentions none. */
#include "ops/control/nested.h"

#include <stdio.h>
#include <string.h>

#define NOT_MAPPED INT64_MIN

static const mf_pmap_params *map_of(const mf_eqn *e) { return e->params; }

static const mf_axis_env *inner_env(const mf_pmap_params *m, const mf_axis_env *env)
{
    return mf_axis_env_push(env, m->axis_name, m->axis_size, 1);
}

/* A list of axes under construction, with room for `full`. */
typedef struct axes {
    int count;
    int64_t *at;
} axes;

static axes axes_new(mf_arena *arena, int full) { return (axes){ .at = mf_arena_alloc(arena, ((size_t)full + 1) * sizeof(int64_t)) }; }

static void put_axis(axes *a, int64_t axis)
{
    if (a->at)
        a->at[a->count++] = axis;
}

static const mf_intlist *listed(const axes *a) { return a->at ? mf_ints_intern(a->at, a->count) : NULL; }

/* The map with another program; donates nothing. */
static mf_pmap_params with_program(const mf_pmap_params *m, mf_program *p, const axes *in, const axes *out)
{
    mf_pmap_params made = *m;
    made.program = p;
    made.in_axes = listed(in);
    made.out_axes = listed(out);
    made.donated = mf_ints_intern(NULL, 0);
    return made;
}

static void emit_map(mf_builder *b, const mf_pmap_params *m, mf_variable *const *in, int in_count, mf_variable **out)
{
    if (m->in_axes && m->out_axes)
        mf_emit_into(b, &mf_op_pmap, m, in, in_count, out, m->program->out_count);
    else
        nested_fail(b, NULL);
}

static mf_error_object *check_operand(const mf_type_context *c, const mf_pmap_params *m, int i)
{
    const mf_type *t = c->in[i], *inner = m->program->in[i]->type;
    int64_t axis = m->in_axes->at[i];
    if (axis != NOT_MAPPED && (axis < 0 || axis >= t->rank))
        return mf_type_error(c, MF_ERROR_AXIS, "in_axes of operand %d is %lld, which %s does not have", i, (long long)axis,
                             mf_type_name(t));
    if (axis != NOT_MAPPED && t->dims[axis] != mf_pmap_rows(m))
        return mf_type_error(c, MF_ERROR_AXIS, "operand %d has size %lld along its mapped axis %lld, the map %lld", i,
                             (long long)t->dims[axis], (long long)axis, (long long)mf_pmap_rows(m));
    const mf_type *slice = axis == NOT_MAPPED ? t : mf_type_without_axis(t, (int)axis);
    if (!slice || !nested_fits(slice, inner))
        return mf_type_error(c, MF_ERROR_SHAPE, "a slice of operand %d is %s, but the program takes %s", i,
                             slice ? mf_type_name(slice) : "too large", mf_type_name(inner));
    return NULL;
}

static mf_error_object *pmap_type_rule(mf_type_context *c)
{
    const mf_pmap_params *m = c->params;
    const mf_program *p = m->program;
    if (c->in_count != p->in_count || m->in_axes->count != c->in_count || m->out_axes->count != p->out_count)
        return mf_type_error(c, MF_ERROR_ARGUMENT, "%d operands and %d in_axes for a program of %d inputs", c->in_count, m->in_axes->count,
                             p->in_count);
    if (m->axis_size < 1)
        return mf_type_error(c, MF_ERROR_AXIS, "the mapped axis has size %lld; it must be at least 1", (long long)m->axis_size);
    for (int k = 0; k < m->local->count; k++)
        if (m->local->at[k] < (k ? m->local->at[k - 1] + 1 : 0) || m->local->at[k] >= m->axis_size)
            return mf_type_error(c, MF_ERROR_AXIS, "local[%d] is %lld; indices along an axis of size %lld ascend", k,
                                 (long long)m->local->at[k], (long long)m->axis_size);
    for (int i = 0; i < c->in_count; i++) {
        mf_error_object *error = check_operand(c, m, i);
        if (error)
            return error;
    }
    const mf_type **out = mf_type_outputs(c, p->out_count);
    for (int o = 0; out && o < p->out_count; o++) {
        int64_t axis = m->out_axes->at[o];
        const mf_type *t = p->out[o]->type;
        if (axis != NOT_MAPPED && (axis < 0 || axis > t->rank))
            return mf_type_error(c, MF_ERROR_AXIS, "out_axes of result %d is %lld, but a slice of it is %s", o, (long long)axis,
                                 mf_type_name(t));
        out[o] = axis == NOT_MAPPED ? t : mf_type_insert_axis(t, (int)axis, mf_pmap_rows(m));
    }
    return NULL;
}

/* Tangents are mapped like their primals. */
static void pmap_jvp(mf_builder *b, const mf_eqn *e, mf_variable *const *in, mf_variable *const *tin, mf_variable **out, mf_variable **tout)
{
    const mf_pmap_params *m = map_of(e);
    mf_error_object *error = NULL;
    bool *has = nested_alloc(b, e->in_count, sizeof *has), *gives = nested_alloc(b, e->out_count, sizeof *gives);
    nested_list operands = nested_list_new(b, 2 * e->in_count);
    mf_variable **results = nested_alloc(b, 2 * e->out_count, sizeof *results);
    if (b->error)
        return;
    axes in_axes = axes_new(&b->program->arena, 2 * e->in_count), out_axes = axes_new(&b->program->arena, 2 * e->out_count);
    for (int i = 0; i < e->in_count; i++) {
        has[i] = tin[i];
        nested_put(&operands, in[i]);
        put_axis(&in_axes, m->in_axes->at[i]);
    }
    for (int i = 0; i < e->in_count; i++)
        if (tin[i]) {
            nested_put(&operands, tin[i]);
            put_axis(&in_axes, m->in_axes->at[i]);
        }
    mf_program *p = mf_jvp_program(m->program, inner_env(m, b->env), has, gives, &error);
    if (!p) {
        nested_fail(b, error);
        return;
    }
    for (int pass = 0; pass < 2; pass++)
        for (int o = 0; o < e->out_count; o++)
            if (!pass || gives[o])
                put_axis(&out_axes, m->out_axes->at[o]);
    mf_pmap_params made = with_program(m, p, &in_axes, &out_axes);
    emit_map(b, &made, operands.at, operands.count, results);
    for (int o = 0, t = e->out_count; o < e->out_count; o++) {
        out[o] = results[o];
        tout[o] = gives[o] ? results[t++] : NULL;
    }
    mf_drop(p);
}

static void pmap_emit_known(mf_partial_context *c, const mf_eqn *e, const nested_parts *parts, mf_variable **out)
{
    const mf_pmap_params *m = map_of(e);
    axes in_axes = axes_new(&c->arena, parts->known_in_count), out_axes = axes_new(&c->arena, parts->known->out_count);
    mf_variable **in = mf_partial_alloc(c, e->in_count, sizeof *in);
    if (!in)
        return;
    for (int i = 0; i < parts->known_in_count; i++)
        put_axis(&in_axes, m->in_axes->at[parts->known_from[i]]);
    for (int o = 0; o < e->out_count; o++)
        if (parts->known_out[o])
            put_axis(&out_axes, m->out_axes->at[o]);
    while (out_axes.at && out_axes.count < parts->known->out_count)
        put_axis(&out_axes, 0); /* residuals */
    nested_known_operands(c, e, parts, in);
    mf_pmap_params made = with_program(m, parts->known, &in_axes, &out_axes);
    if (parts->known->out_count)
        emit_map(&c->known_builder, &made, in, parts->known_in_count, out);
}

/* A residual that is an input of the map is passed as that operand, with its axis; the others are stacked. */
static void pmap_emit_unknown(mf_partial_context *c, const mf_eqn *e, const bool *known, const nested_parts *parts, mf_variable **out)
{
    const mf_pmap_params *m = map_of(e);
    int full = e->in_count + parts->residual_count, count = 0, made_at = parts->known_out_count;
    axes in_axes = axes_new(&c->arena, full), out_axes = axes_new(&c->arena, parts->unknown->out_count);
    mf_variable **in = mf_partial_alloc(c, full, sizeof *in);
    if (!in)
        return;
    for (int r = 0; r < parts->residual_count; r++) {
        int from = parts->forward[r];
        in[count++] = from >= 0 ? mf_partial_unknown(c, e->in[from]) : mf_partial_residual(c, out[made_at++]);
        put_axis(&in_axes, from >= 0 ? m->in_axes->at[from] : 0);
    }
    for (int i = 0; i < e->in_count; i++)
        if (!known[i]) {
            in[count++] = mf_partial_unknown(c, e->in[i]);
            put_axis(&in_axes, m->in_axes->at[i]);
        }
    for (int o = 0; o < e->out_count; o++)
        if (!parts->known_out[o])
            put_axis(&out_axes, m->out_axes->at[o]);
    mf_pmap_params made = with_program(m, parts->unknown, &in_axes, &out_axes);
    if (parts->unknown->out_count)
        emit_map(&c->unknown_builder, &made, in, count, out);
}

static void pmap_partial_eval(mf_partial_context *c, const mf_eqn *e)
{
    nested_parts parts;
    bool *known = nested_known(c, e);
    if (!known || !nested_split(c, inner_env(map_of(e), c->env), map_of(e)->program, known, NULL, &parts))
        return;
    mf_variable **out = mf_partial_alloc(c, e->out_count + parts.residual_count, sizeof *out);
    if (out) {
        pmap_emit_known(c, e, &parts, out);
        nested_set_known(c, e, &parts, out);
        if (!mf_partial_failed(c))
            pmap_emit_unknown(c, e, known, &parts, out);
        nested_set_unknown(c, e, &parts, out);
    }
    nested_parts_drop(&parts);
}

/* Gives a map without a name one that its program does not use, so that cotangents can be summed over it. */
static const char *name_for_sum(const mf_pmap_params *m)
{
    char name[32];
    if (m->axis_name)
        return m->axis_name;
    for (int i = 0;; i++) {
        snprintf(name, sizeof name, "_map%d", i);
        if (!mf_program_mention(m->program, mf_intern(name)))
            return mf_intern(name);
    }
}

/* Inside the map: divides the cotangents of results that are the same everywhere by the axis size on the way in, and sums the cotangents of
 * operands that are the same everywhere on the way out. plain: the number of t's inputs that are not cotangents. */
static mf_program *sum_unmapped_cotangents(const mf_pmap_params *m, const mf_program *t, const mf_axis_env *env, int plain, const bool *has,
                                           const bool *gives, mf_error_object **error)
{
    mf_builder b;
    mf_builder_init(&b, env);
    mf_variable **in = nested_alloc(&b, t->in_count, sizeof *in), **out = nested_alloc(&b, t->out_count, sizeof *out);
    const mf_namelist *names = mf_names_intern(&m->axis_name, 1);
    mf_collective_params sum = { names, mf_ints_intern(NULL, 0), 0 };
    for (int i = 0; i < t->in_count && !b.error; i++)
        in[i] = mf_builder_input(&b, t->in[i]->type);
    for (int o = 0, at = plain; o < m->program->out_count && !b.error; o++) {
        if (has[o] && m->out_axes->at[o] == NOT_MAPPED && m->axis_size > 1)
            in[at] = e_div(&b, in[at], e_full(&b, in[at]->type, (double)m->axis_size));
        at += has[o];
    }
    if (!b.error)
        mf_inline(&b, t, in, out);
    for (int i = 0, at = 0; i < m->program->in_count && !b.error; i++) {
        if (gives[i] && m->in_axes->at[i] == NOT_MAPPED)
            out[at] = mf_emit(&b, &mf_op_psum, &sum, 1, out[at]);
        at += gives[i];
    }
    return mf_builder_finish(&b, out, b.error ? 0 : t->out_count, error);
}

static mf_program *transposed_body(mf_builder *b, const mf_pmap_params *m, const bool *linear, const bool *has, bool *gives, int plain)
{
    mf_error_object *error = NULL;
    const mf_axis_env *env = inner_env(m, b->env);
    mf_program *t = mf_transpose_program(m->program, env, linear, has, gives, &error);
    mf_program *p = t ? sum_unmapped_cotangents(m, t, env, plain, has, gives, &error) : NULL;
    mf_drop(t);
    if (!p)
        nested_fail(b, error);
    return p;
}

static void pmap_transpose(mf_builder *b, const mf_eqn *e, const bool *linear, mf_variable *const *in, mf_variable *const *ct,
                           mf_variable **ct_in)
{
    mf_pmap_params m = *map_of(e);
    bool *has = nested_alloc(b, e->out_count, sizeof *has), *gives = nested_alloc(b, e->in_count, sizeof *gives);
    nested_list operands = nested_list_new(b, e->in_count + e->out_count);
    mf_variable **results = nested_alloc(b, e->in_count, sizeof *results);
    if (b->error)
        return;
    axes in_axes = axes_new(&b->program->arena, e->in_count + e->out_count), out_axes = axes_new(&b->program->arena, e->in_count);
    m.axis_name = name_for_sum(&m);
    for (int i = 0; i < e->in_count; i++)
        if (!linear[i]) {
            nested_put(&operands, in[i]);
            put_axis(&in_axes, m.in_axes->at[i]);
        }
    int plain = operands.count;
    for (int o = 0; o < e->out_count; o++)
        if ((has[o] = ct[o])) {
            nested_put(&operands, ct[o]);
            put_axis(&in_axes, m.out_axes->at[o]);
        }
    mf_program *p = transposed_body(b, &m, linear, has, gives, plain);
    if (!p)
        return;
    for (int i = 0; i < e->in_count; i++)
        if (gives[i])
            put_axis(&out_axes, m.in_axes->at[i]);
    mf_pmap_params made = with_program(&m, p, &in_axes, &out_axes);
    emit_map(b, &made, operands.at, operands.count, results);
    for (int i = 0, from = 0; i < e->in_count; i++)
        ct_in[i] = gives[i] ? results[from++] : NULL;
    mf_drop(p);
}

static bool pmap_dce(const mf_eqn *e, const bool *used_out, bool *used_in, const void **params)
{
    const mf_pmap_params *m = map_of(e);
    mf_error_object *error = NULL;
    mf_arena arena = { 0 };
    axes in = axes_new(&arena, e->in_count), out = axes_new(&arena, e->out_count), donated = axes_new(&arena, e->in_count);
    mf_program *p = nested_prune(m->program, used_out, used_in, &error);
    mf_pmap_params *smaller = p ? mf_alloc(sizeof *smaller) : NULL;
    for (int i = 0; smaller && i < e->in_count; i++)
        if (used_in[i]) {
            put_axis(&in, m->in_axes->at[i]);
            if (m->donated->count)
                put_axis(&donated, m->donated->at[i]);
        }
    for (int o = 0; smaller && o < e->out_count; o++)
        if (used_out[o])
            put_axis(&out, m->out_axes->at[o]);
    if (smaller) {
        *smaller = with_program(m, p, &in, &out);
        smaller->donated = listed(&donated);
    }
    if (!smaller || !smaller->in_axes || !smaller->out_axes || !smaller->donated) {
        mf_drop(p);
        mf_free(smaller);
        smaller = NULL;
    }
    nested_forget(error);
    mf_arena_free(&arena);
    *params = smaller;
    return smaller;
}

/* Where the two mapped dimensions go. An operand has its vmapped dimension at v; its pmapped dimension, at m without counting v, is at m
 * or, from v on, at m + 1. A slice then has the vmapped dimension at v, or at v - 1 if it is behind the pmapped one. In results the vmapped
 * one is first. */
static void batch_operand(int64_t axis, int batched, int64_t *new_axis, int *inner)
{
    *new_axis = axis;
    *inner = batched;
    if (batched < 0 || axis == NOT_MAPPED)
        return;
    *new_axis = axis < batched ? axis : axis + 1;
    *inner = batched > *new_axis ? batched - 1 : batched;
}

static void pmap_batch(mf_batch_context *c, const mf_eqn *e, mf_variable *const *in, const int *in_axis, mf_variable **out, int *out_axis)
{
    const mf_pmap_params *m = map_of(e);
    mf_error_object *error = NULL;
    int *inner_in = nested_alloc(c->b, e->in_count, sizeof *inner_in);
    if (c->b->error)
        return;
    axes in_axes = axes_new(&c->b->program->arena, e->in_count), out_axes = axes_new(&c->b->program->arena, e->out_count);
    const char *name = m->axis_name && m->axis_name == c->axis_name ? NULL : c->axis_name; /* hidden by this map's */
    for (int i = 0; i < e->in_count; i++) {
        int64_t axis;
        batch_operand(m->in_axes->at[i], in_axis[i], &axis, &inner_in[i]);
        put_axis(&in_axes, axis);
    }
    for (int o = 0; o < e->out_count; o++)
        out_axis[o] = MF_BATCH_FIRST;
    mf_program *p = mf_batch_program(m->program, inner_env(m, c->b->env), name, c->size, inner_in, out_axis, &error);
    if (!p) {
        nested_fail(c->b, error);
        return;
    }
    for (int o = 0; o < e->out_count; o++) {
        int64_t axis = m->out_axes->at[o];
        put_axis(&out_axes, axis == NOT_MAPPED || out_axis[o] < 0 ? axis : axis + 1);
    }
    mf_pmap_params made = with_program(m, p, &in_axes, &out_axes);
    emit_map(c->b, &made, in, e->in_count, out);
    mf_drop(p);
}

/* Inside, mapped operands vary over the axis and the others do not; outside, nothing varies over it. */
static void pmap_variance(const mf_eqn *e, const mf_axis_env *env, const uint64_t *in, uint64_t *out)
{
    const mf_pmap_params *m = map_of(e);
    const mf_axis_env *inner = inner_env(m, env);
    int depth = inner ? mf_axis_env_depth(inner, inner) : 63;
    uint64_t bit = depth < 64 ? (uint64_t)1 << depth : 0;
    uint64_t *masks = mf_alloc(((size_t)e->in_count + 1) * sizeof *masks);
    for (int i = 0; masks && i < e->in_count; i++)
        masks[i] = in[i] | (m->in_axes->at[i] == NOT_MAPPED ? 0 : bit);
    if (masks)
        nested_variance(m->program, inner, masks, out);
    for (int o = 0; o < e->out_count; o++)
        out[o] = (masks ? out[o] : ~(uint64_t)0) & ~bit;
    mf_free(masks);
}

static mf_cost pmap_cost(const mf_eqn *e)
{
    mf_cost one = nested_cost(map_of(e)->program);
    return (mf_cost){ one.flops * (double)mf_pmap_rows(map_of(e)), one.bytes * (double)mf_pmap_rows(map_of(e)) };
}

static const mf_param pmap_params[] = {
    MF_PARAM_AS(mf_pmap_params, axis_name, MF_PARAM_NAME, MF_ROLE_BOUND_AXIS),
    MF_PARAM_AS(mf_pmap_params, axis_size, MF_PARAM_INT, MF_ROLE_BOUND_SIZE),
    MF_PARAM(mf_pmap_params, local, MF_PARAM_EXTRA),
    MF_PARAM(mf_pmap_params, in_axes, MF_PARAM_INTS),
    MF_PARAM(mf_pmap_params, out_axes, MF_PARAM_INTS),
    MF_PARAM(mf_pmap_params, devices, MF_PARAM_INTS),
    MF_PARAM(mf_pmap_params, donated, MF_PARAM_INTS),
    MF_PARAM(mf_pmap_params, name, MF_PARAM_NAME),
    MF_PARAM(mf_pmap_params, backend, MF_PARAM_NAME),
    MF_PARAM(mf_pmap_params, program, MF_PARAM_PROGRAM),
    { 0 },
};

static const char *const pmap_samples[] = {
    "[axis_name=i, axis_size=2, in_axes=(0, None), out_axes=(1), program=(x: f32[2], y: f32[]) {\n"
    "s: f32[2] = psum[axes=(i), groups=(), group_size=0] x\n"
    "z: f32[2] = sub s x\n"
    "return z }] f32[2,2]{=1,2,3,4} f32[]{=0} -> f32[2,2]{=3,1,4,2}",
    "[axis_size=3, in_axes=(0, 1), out_axes=(0), program=(x: f64[2], y: f64[2]) {\n"
    "z: f64[2] = mul x y\n"
    "return z }] f64[3,2] f64[2,3]",
    NULL,
};

/* Gathers the rows of a result from all replicas. */
static mf_hlo_value gathered(mf_hlo *h, const mf_eqn *e, int o, mf_hlo_value row)
{
    int64_t axis = map_of(e)->out_axes->at[o];
    if (axis == NOT_MAPPED)
        return row;
    const mf_type *one = row.type ? mf_type_insert_axis(row.type, (int)axis, 1) : NULL;
    row = h_reshape(h, row, one);
    return h_op(h, "all_gather", e->out[o]->type, &row, 1, "all_gather_dim = %lld : i64, replica_groups = %s", (long long)axis,
                h_innermost_groups(h));
}

/* A map within a program: every replica has the whole operands, takes its row, and in the end receives the rows of the others, except where
 * an operand is already, or a result may stay, the replica's own part (h_map_program). A map that is the whole program is emitted by the
 * module. */
MF_HLO_RULE(pmap_hlo)
{
    const mf_pmap_params *m = map_of(e);
    mf_hlo_value *rows = h_alloc(h, e->in_count, sizeof *rows), *results = h_alloc(h, e->out_count, sizeof *results);
    if (m->local->count)
        h_fail(h, mf_error_new_at(e->address, MF_ERROR_ARGUMENT, "pmap has no StableHLO where this process has a part of the map"));
    if (!rows || !results || h_failed(h))
        return;
    h_push_axis(h, m->axis_name, m->axis_size);
    for (int i = 0; i < e->in_count && !h_failed(h); i++)
        rows[i] = m->in_axes->at[i] == NOT_MAPPED || h_is_part(in[i].type, e->in[i])
                      ? in[i]
                      : h_row(h, in[i], h_innermost_index(h), (int)m->in_axes->at[i]);
    for (int o = 0; o < e->out_count; o++)
        results[o].type = h_is_part(out[o].type, e->out[o]) ? out[o].type : NULL;
    h_map_program(h, m->program, rows, results);
    for (int o = 0; o < e->out_count && !h_failed(h); o++)
        out[o] = h_is_part(out[o].type, e->out[o]) ? results[o] : gathered(h, e, o, results[o]);
    h_pop_axis(h);
}

const mf_op mf_op_pmap = {
    .name = "pmap",
    .params = pmap_params,
    .params_size = sizeof(mf_pmap_params),
    .flags = MF_OP_CONTROL | MF_OP_SPLITS,
    .type_rule = pmap_type_rule,
    .jvp = pmap_jvp,
    .transpose = pmap_transpose,
    .partial_eval = pmap_partial_eval,
    .dce = pmap_dce,
    .batch = pmap_batch,
    .variance = pmap_variance,
    .cost = pmap_cost,
    .lower = mf_lower_none,
    .evaluate = mf_evaluate_by_runtime,
    MF_HLO_BY(pmap_hlo),
    .samples = pmap_samples,
};
