/* Collectives that join or cut operands: all_gather, psum_scatter, all_to_all. See collective.c for their common invariants. Under vmap
 * over one of several names, the other names' part stays a collective, name by name; with groups the members are two dimensions. */
#include "ops/collective/collective.h"

/* ---- all_gather and psum_scatter, each the other's transpose */

static const mf_gather_axis_params *gather_of(const mf_eqn *e) { return e->params; }

static const mf_param gather_params[] = {
    MF_PARAM_AS(mf_gather_axis_params, axes, MF_PARAM_NAMES, MF_ROLE_AXES),
    MF_PARAM(mf_gather_axis_params, axis, MF_PARAM_INT),
    MF_PARAM(mf_gather_axis_params, tiled, MF_PARAM_BOOL),
    MF_PARAM_AS(mf_gather_axis_params, groups, MF_PARAM_INTS, MF_ROLE_GROUPS),
    MF_PARAM_AS(mf_gather_axis_params, group_size, MF_PARAM_INT, MF_ROLE_GROUP_SIZE),
    { 0 },
};

/* t with another size along an axis. */
static const mf_type *resized(const mf_type *t, int64_t axis, int64_t size)
{
    const mf_type *rest = mf_type_without_axis(t, (int)axis);
    return rest ? mf_type_insert_axis(rest, (int)axis, size) : NULL;
}

static mf_error_object *all_gather_type_rule(mf_type_context *c)
{
    const mf_gather_axis_params *p = c->params;
    mf_error_object *error = collective_check(c, p->axes, p->groups, p->group_size, false);
    if (error)
        return error;
    const mf_type *t = c->in[0];
    int64_t n = collective_participants(c->env, p->axes, p->groups, p->group_size);
    if (p->axis < 0 || p->axis >= t->rank + !p->tiled)
        return mf_type_error(c, MF_ERROR_AXIS, "axis %lld is out of range", (long long)p->axis);
    c->out[0] = p->tiled ? resized(t, p->axis, t->dims[p->axis] * n) : mf_type_insert_axis(t, (int)p->axis, n);
    return NULL;
}

static mf_error_object *psum_scatter_type_rule(mf_type_context *c)
{
    const mf_gather_axis_params *p = c->params;
    mf_error_object *error = collective_check(c, p->axes, p->groups, p->group_size, false);
    if (error)
        return error;
    const mf_type *t = c->in[0];
    int64_t n = collective_participants(c->env, p->axes, p->groups, p->group_size);
    if (t->dtype == MF_BOOL)
        return mf_type_error(c, MF_ERROR_DTYPE, "a bool must be converted to an integer first");
    if (p->axis < 0 || p->axis >= t->rank)
        return mf_type_error(c, MF_ERROR_AXIS, "scatter_dimension %lld is out of range", (long long)p->axis);
    if (p->tiled ? t->dims[p->axis] % n != 0 : t->dims[p->axis] != n)
        return mf_type_error(c, MF_ERROR_SHAPE,
                             "the operand's size %lld along scatter_dimension %lld must be %s the %lld members of the axis",
                             (long long)t->dims[p->axis], (long long)p->axis, p->tiled ? "divisible by" : "equal to", (long long)n);
    c->out[0] = p->tiled ? resized(t, p->axis, t->dims[p->axis] / n) : mf_type_without_axis(t, (int)p->axis);
    return NULL;
}

static void all_gather_transpose(mf_builder *b, const mf_eqn *e, const bool *linear, mf_variable *const *in, mf_variable *const *ct,
                                 mf_variable **ct_in)
{
    (void)linear, (void)in;
    ct_in[0] = mf_emit(b, &mf_op_psum_scatter, e->params, 1, ct[0]);
}

static void psum_scatter_transpose(mf_builder *b, const mf_eqn *e, const bool *linear, mf_variable *const *in, mf_variable *const *ct,
                                   mf_variable **ct_in)
{
    (void)linear, (void)in;
    ct_in[0] = mf_emit(b, &mf_op_all_gather, e->params, 1, ct[0]);
}

static void all_gather_variance(const mf_eqn *e, const mf_axis_env *env, const uint64_t *in, uint64_t *out)
{
    out[0] = gather_of(e)->groups->count ? in[0] : in[0] & ~collective_bits_of(env, gather_of(e)->axes);
}

static void psum_scatter_variance(const mf_eqn *e, const mf_axis_env *env, const uint64_t *in, uint64_t *out)
{
    out[0] = in[0] | collective_bits_of(env, gather_of(e)->axes);
}

/* x has its batch in front. Gathers the other names behind it, the last first; then moves the batch dimension to its place among them, and
 * merges the dimensions of all names into one. */
static mf_variable *gather_all(mf_batch_context *c, const mf_gather_axis_params *p, mf_variable *x)
{
    for (int i = p->axes->count - 1; i >= 0; i--) {
        mf_gather_axis_params one = { mf_names_intern(&p->axes->at[i], 1), 1, false, collective_no_groups(), 0 };
        if (p->axes->at[i] != c->axis_name)
            x = mf_emit(c->b, &mf_op_all_gather, &one, 1, x);
    }
    x = c->b->error ? x : e_move_axis(c->b, x, 0, mf_names_find(p->axes, c->axis_name));
    for (int i = 1; i < p->axes->count && !c->b->error; i++)
        x = collective_merge_dimensions(c->b, x, 0);
    x = c->b->error ? x : e_move_axis(c->b, x, 0, (int)p->axis);
    return p->tiled && !c->b->error ? collective_merge_dimensions(c->b, x, (int)p->axis) : x;
}

/* Prepares the operand of an op over the mapped axis, with its batch in front. NULL: the op is over other axes and has been emitted as
 * such, or has been refused. */
static mf_variable *gather_operand(mf_batch_context *c, const mf_eqn *e, mf_variable *x, int axis, mf_variable **out, int *out_axis)
{
    const mf_gather_axis_params *p = gather_of(e);
    if (!collective_over_batch(c, p->axes)) {
        mf_gather_axis_params behind = *p;
        behind.axis++;
        out[0] = mf_emit(c->b, e->op, &behind, 1, e_batched_at(c, x, axis, 0));
        out_axis[0] = 0;
        return NULL;
    }
    if (p->groups->count && p->axes->count > 1) {
        collective_refuse(c, e, "axis_index_groups over several axes can't be mapped");
        return NULL;
    }
    return e_batched_at(c, x, axis, 0);
}

/* Dimensions: groups, positions, the operand's. Moves the positions to the axis, and gives every member of a group the whole. */
static mf_variable *gather_groups(mf_builder *b, const mf_gather_axis_params *p, mf_variable *x)
{
    x = collective_into_groups(b, x, p->groups, p->group_size);
    x = b->error ? x : e_move_axis(b, x, 1, 1 + (int)p->axis);
    x = p->tiled ? collective_merge_dimensions(b, x, 1 + (int)p->axis) : x;
    return collective_out_of_groups(b, b->error ? x : e_broadcast_axis(b, x, 1, p->group_size), p->groups);
}

static void all_gather_batch(mf_batch_context *c, const mf_eqn *e, mf_variable *const *in, const int *in_axis, mf_variable **out,
                             int *out_axis)
{
    const mf_gather_axis_params *p = gather_of(e);
    mf_variable *x = gather_operand(c, e, in[0], in_axis[0], out, out_axis);
    if (!x)
        return;
    out[0] = p->groups->count ? gather_groups(c->b, p, x) : gather_all(c, p, x);
    out_axis[0] = p->groups->count ? 0 : -1;
}

/* The number of members of all these axes; the mapped one may be among them. */
static int64_t members_of(const mf_batch_context *c, const mf_namelist *axes)
{
    const mf_namelist *others = collective_without(axes, c->axis_name);
    return collective_total_size(c->b->env, others) * (others->count < axes->count ? c->size : 1);
}

/* Dimensions: groups, positions, the operand's. Sums over the positions; each member then keeps its part. */
static mf_variable *scatter_groups(mf_builder *b, const mf_gather_axis_params *p, mf_variable *x)
{
    x = collective_into_groups(b, x, p->groups, p->group_size);
    x = b->error ? x : collective_reduce_dimension(b, &mf_op_psum, x, 1);
    x = p->tiled ? collective_part_dimension(b, x, 1 + (int)p->axis, p->group_size) : x;
    return collective_out_of_groups(b, b->error ? x : e_move_axis(b, x, 1 + (int)p->axis, 1), p->groups);
}

/* Name by name, the outermost first: each name's pieces are a dimension in front of the pieces of the next ones. x has its batch in front.
 * Over the mapped name, the sum over the batch leaves the pieces as the new batch dimension. */
static mf_variable *scatter_names(mf_batch_context *c, const mf_gather_axis_params *p, mf_variable *x)
{
    mf_builder *b = c->b;
    int at = 1 + (int)p->axis;
    const mf_type *type = x->type;
    x = p->axes->count > 1 ? collective_widen(b, x) : x;
    x = p->tiled ? collective_part_dimension(b, x, at, members_of(c, p->axes)) : x;
    for (int i = 0; i < p->axes->count && !b->error; i++) {
        bool mapped = p->axes->at[i] == c->axis_name;
        mf_gather_axis_params one = { mf_names_intern(&p->axes->at[i], 1), at, false, collective_no_groups(), 0 };
        x = i + 1 < p->axes->count ? collective_part_dimension(b, x, at, members_of(c, one.axes)) : x;
        if (!mapped) {
            x = mf_emit(b, &mf_op_psum_scatter, &one, 1, x);
            continue;
        }
        x = b->error ? x : collective_reduce_dimension(b, &mf_op_psum, x, 0);
        x = b->error ? x : e_move_axis(b, x, at - 1, 0);
    }
    return b->error ? x : e_convert_type(b, x, type);
}

static void psum_scatter_batch(mf_batch_context *c, const mf_eqn *e, mf_variable *const *in, const int *in_axis, mf_variable **out,
                               int *out_axis)
{
    const mf_gather_axis_params *p = gather_of(e);
    mf_variable *x = gather_operand(c, e, in[0], in_axis[0], out, out_axis);
    if (!x)
        return;
    out[0] = p->groups->count ? scatter_groups(c->b, p, x) : scatter_names(c, p, x);
    out_axis[0] = 0;
}

static const char *const all_gather_samples[] = {
    "i=2: [axes=(i), axis=0] f32[2,2]{=1,2,3,4} -> f32[2,2,2]{=1,2,3,4,1,2,3,4}",
    "i=2: [axes=(i), axis=0, tiled=true] i32[2,2]{=1,2,3,4} -> i32[2,4]{=1,2,3,4,1,2,3,4}",
    "i=4: [axes=(i), axis=1, tiled=true] f64[4,2,3]",
    "i=4: [axes=(i), axis=1, groups=(0, 2, 1, 3), group_size=2] f64[4,3]",
    NULL,
};

MF_HLO_RULE(gather_hlo)
{
    const mf_gather_axis_params *p = gather_of(e);
    mf_hlo_value x = p->tiled ? in[0] : h_reshape(h, in[0], mf_type_insert_axis(in[0].type, (int)p->axis, 1));
    out[0] = h_op(h, "all_gather", e->out[0]->type, &x, 1, "all_gather_dim = %lld : i64, replica_groups = %s", (long long)p->axis,
                  h_groups(h, p->axes, p->groups, p->group_size));
}

const mf_op mf_op_all_gather = {
    .name = "all_gather",
    .collective = MF_COLLECTIVE_GATHER,
    .params = gather_params,
    .params_size = sizeof(mf_gather_axis_params),
    .flags = MF_OP_COLLECTIVE,
    .type_rule = all_gather_type_rule,
    .jvp = mf_jvp_linear,
    .transpose = all_gather_transpose,
    .partial_eval = mf_partial_eval_all_or_nothing,
    .dce = mf_dce_whole,
    .batch = all_gather_batch,
    .variance = all_gather_variance,
    .cost = mf_cost_bytes,
    .lower = mf_lower_none,
    .evaluate = mf_evaluate_by_runtime,
    MF_HLO_BY(gather_hlo),
    .samples = all_gather_samples,
};

static const char *const psum_scatter_samples[] = {
    "i=2: [axes=(i), axis=0] f32[2,2]{=1,2,3,4} -> f32[2]{=4,6}",
    "i=2: [axes=(i), axis=0, tiled=true] i32[2,4]{=1,2,3,4,5,6,7,8} -> i32[2,2]{=6,8,10,12}",
    "i=4: [axes=(i), axis=1, tiled=true] f64[4,2,8]",
    "i=4: [axes=(i), axis=1, groups=(0, 2, 1, 3), group_size=2] f64[4,3,2]",
    NULL,
};

MF_HLO_RULE(scatter_hlo)
{
    const mf_gather_axis_params *p = gather_of(e);
    mf_dtype narrow = in[0].type->dtype, dtype = h_sum_dtype(narrow);
    const mf_type *t = mf_type_with_dtype(e->out[0]->type, dtype), *piece = p->tiled ? t : mf_type_insert_axis(t, (int)p->axis, 1);
    mf_hlo_value x = h_convert(h, in[0], dtype), y = { 0, piece };
    h_open(h, "reduce_scatter", &x, 1, &y, 1, "replica_groups = %s, scatter_dimension = %lld : i64",
           h_groups(h, p->axes, p->groups, p->group_size), (long long)p->axis);
    h_reducer_region(h, MF_REDUCE_SUM, dtype);
    h_close(h, &x, 1, &y, 1);
    out[0] = h_convert(h, h_reshape(h, y, t), narrow);
}

const mf_op mf_op_psum_scatter = {
    .name = "psum_scatter",
    .reduced = MF_REDUCED_DEVICES,
    .reducer = MF_REDUCE_SUM,
    .collective = MF_COLLECTIVE_SCATTER,
    .params = gather_params,
    .params_size = sizeof(mf_gather_axis_params),
    .flags = MF_OP_COLLECTIVE,
    .type_rule = psum_scatter_type_rule,
    .jvp = mf_jvp_linear,
    .transpose = psum_scatter_transpose,
    .partial_eval = mf_partial_eval_all_or_nothing,
    .dce = mf_dce_whole,
    .batch = psum_scatter_batch,
    .variance = psum_scatter_variance,
    .cost = mf_cost_elementwise,
    .lower = mf_lower_none,
    .evaluate = mf_evaluate_by_runtime,
    MF_HLO_BY(scatter_hlo),
    .samples = psum_scatter_samples,
};

/* ---- all_to_all */

static const mf_all_to_all_params *exchange_of(const mf_eqn *e) { return e->params; }

static const mf_param exchange_params[] = {
    MF_PARAM_AS(mf_all_to_all_params, axes, MF_PARAM_NAMES, MF_ROLE_AXES),
    MF_PARAM(mf_all_to_all_params, split_axis, MF_PARAM_INT),
    MF_PARAM(mf_all_to_all_params, concat_axis, MF_PARAM_INT),
    MF_PARAM(mf_all_to_all_params, tiled, MF_PARAM_BOOL),
    MF_PARAM_AS(mf_all_to_all_params, groups, MF_PARAM_INTS, MF_ROLE_GROUPS),
    MF_PARAM_AS(mf_all_to_all_params, group_size, MF_PARAM_INT, MF_ROLE_GROUP_SIZE),
    { 0 },
};

/* Not tiled: the split dimension (one piece per member) is removed, and a dimension of all members is added at concat_axis. Tiled: the
 * split dimension shrinks and the other one grows. */
static mf_error_object *all_to_all_type_rule(mf_type_context *c)
{
    const mf_all_to_all_params *p = c->params;
    mf_error_object *error = collective_check(c, p->axes, p->groups, p->group_size, false);
    if (error)
        return error;
    const mf_type *t = c->in[0];
    int64_t n = collective_participants(c->env, p->axes, p->groups, p->group_size), s = p->split_axis, k = p->concat_axis;
    if (s < 0 || s >= t->rank || k < 0 || k >= t->rank)
        return mf_type_error(c, MF_ERROR_AXIS, "split_axis %lld or concat_axis %lld is out of range", (long long)s, (long long)k);
    if (p->tiled ? t->dims[s] % n != 0 : t->dims[s] != n)
        return mf_type_error(c, MF_ERROR_SHAPE, "the operand's size %lld along split_axis must be %s the %lld members of the axis",
                             (long long)t->dims[s], p->tiled ? "divisible by" : "equal to", (long long)n);
    if (p->tiled) {
        const mf_type *shrunk = resized(t, s, t->dims[s] / n);
        c->out[0] = shrunk ? resized(shrunk, k, shrunk->dims[k] * n) : NULL;
    } else {
        const mf_type *rest = mf_type_without_axis(t, (int)s);
        c->out[0] = rest ? mf_type_insert_axis(rest, (int)k, n) : NULL;
    }
    return NULL;
}

static void all_to_all_transpose(mf_builder *b, const mf_eqn *e, const bool *linear, mf_variable *const *in, mf_variable *const *ct,
                                 mf_variable **ct_in)
{
    (void)linear, (void)in;
    mf_all_to_all_params p = *exchange_of(e);
    p.split_axis = exchange_of(e)->concat_axis;
    p.concat_axis = exchange_of(e)->split_axis;
    ct_in[0] = mf_emit(b, &mf_op_all_to_all, &p, 1, ct[0]);
}

static void all_to_all_variance(const mf_eqn *e, const mf_axis_env *env, const uint64_t *in, uint64_t *out)
{
    out[0] = in[0] | collective_bits_of(env, exchange_of(e)->axes);
}

/* Dimensions: groups, positions, the operand's. Exchanges positions and pieces. */
static mf_variable *exchange_groups(mf_builder *b, const mf_all_to_all_params *p, mf_variable *x)
{
    int split = (int)p->split_axis + 2, concat = (int)p->concat_axis + 2;
    x = collective_into_groups(b, x, p->groups, p->group_size);
    x = p->tiled ? collective_part_dimension(b, x, split, p->group_size) : x;
    x = b->error ? x : e_move_axis(b, x, split, 1); /* groups, pieces, positions, rest */
    x = b->error ? x : e_move_axis(b, x, 2, concat);
    x = p->tiled ? collective_merge_dimensions(b, x, concat) : x;
    return collective_out_of_groups(b, x, p->groups);
}

/* Name by name, the outermost first: each exchanges its pieces, a dimension of their own, for those that arrive from its members. x has its
 * batch in front. In the end the dimensions are merged and moved to concat_axis. */
static mf_variable *exchange_names(mf_batch_context *c, const mf_all_to_all_params *p, mf_variable *x)
{
    mf_builder *b = c->b;
    int split = (int)p->split_axis + 1, concat = (int)p->concat_axis + 1, count = p->axes->count;
    x = p->tiled ? collective_part_dimension(b, x, split, members_of(c, p->axes)) : x;
    for (int i = 0; i < count && !b->error; i++) {
        const mf_namelist *name = mf_names_intern(&p->axes->at[i], 1);
        bool mapped = p->axes->at[i] == c->axis_name;
        int at = split + i;
        x = i + 1 < count ? collective_part_dimension(b, x, at, members_of(c, name)) : x;
        if (!mapped) {
            x = mf_emit(b, &mf_op_all_to_all, &(mf_all_to_all_params){ name, at, at, false, collective_no_groups(), 0 }, 1, x);
            continue;
        }
        x = b->error ? x : e_move_axis(b, x, at, 0); /* pieces, batch, rest */
        x = b->error ? x : e_move_axis(b, x, 1, at);
    }
    for (int i = 1; i < count && !b->error; i++)
        x = collective_merge_dimensions(b, x, split);
    x = b->error ? x : e_move_axis(b, x, split, concat);
    return p->tiled ? collective_merge_dimensions(b, x, concat) : x;
}

static void all_to_all_batch(mf_batch_context *c, const mf_eqn *e, mf_variable *const *in, const int *in_axis, mf_variable **out,
                             int *out_axis)
{
    mf_all_to_all_params p = *exchange_of(e);
    mf_variable *x = e_batched_at(c, in[0], in_axis[0], 0);
    out_axis[0] = 0;
    if (collective_over_batch(c, p.axes)) {
        if (p.groups->count && p.axes->count > 1)
            collective_refuse(c, e, "axis_index_groups over several axes can't be mapped");
        else
            out[0] = p.groups->count ? exchange_groups(c->b, &p, x) : exchange_names(c, &p, x);
        return;
    }
    p.split_axis++;
    p.concat_axis++;
    out[0] = mf_emit(c->b, e->op, &p, 1, x);
}

static const char *const all_to_all_samples[] = {
    "i=2: [axes=(i), split_axis=0, concat_axis=0] f32[2,2]{=1,2,3,4} -> f32[2,2]{=1,3,2,4}",
    "i=2: [axes=(i), split_axis=0, concat_axis=1, tiled=true] i32[2,2,1]{=1,2,3,4} -> i32[2,1,2]{=1,3,2,4}",
    "i=4: [axes=(i), split_axis=1, concat_axis=0, tiled=true] f64[4,2,8]",
    "i=4: [axes=(i), split_axis=0, concat_axis=1, tiled=true, groups=(0, 2, 1, 3), group_size=2] f64[4,2,3]",
    NULL,
};

/* Not tiled: received pieces are concatenated along a new dimension of size 1, and the split dimension is left with size 1. */
MF_HLO_RULE(exchange_hlo)
{
    const mf_all_to_all_params *p = exchange_of(e);
    int64_t split = p->split_axis, concat = p->concat_axis;
    const mf_type *result = e->out[0]->type;
    mf_hlo_value x = in[0];
    if (!p->tiled && split != concat) { /* concat_axis does not count the split axis */
        concat += split < concat;
        x = h_reshape(h, x, mf_type_insert_axis(x.type, (int)concat, 1));
        split += concat < split;
        result = mf_type_insert_axis(result, (int)split, 1);
    }
    mf_hlo_value y = h_op(h, "all_to_all", result, &x, 1,
                          "concat_dimension = %lld : i64, replica_groups = %s, split_count = %lld : i64, split_dimension = %lld : i64",
                          (long long)concat, h_groups(h, p->axes, p->groups, p->group_size),
                          (long long)h_group_size(h, p->axes, p->groups, p->group_size), (long long)split);
    out[0] = h_reshape(h, y, e->out[0]->type);
}

const mf_op mf_op_all_to_all = {
    .name = "all_to_all",
    .collective = MF_COLLECTIVE_ALL_TO_ALL,
    .params = exchange_params,
    .params_size = sizeof(mf_all_to_all_params),
    .flags = MF_OP_COLLECTIVE,
    .type_rule = all_to_all_type_rule,
    .jvp = mf_jvp_linear,
    .transpose = all_to_all_transpose,
    .partial_eval = mf_partial_eval_all_or_nothing,
    .dce = mf_dce_whole,
    .batch = all_to_all_batch,
    .variance = all_to_all_variance,
    .cost = mf_cost_bytes,
    .lower = mf_lower_none,
    .evaluate = mf_evaluate_by_runtime,
    MF_HLO_BY(exchange_hlo),
    .samples = all_to_all_samples,
};
