/* Collectives: psum, pmax, pmin, all_gather, psum_scatter, all_to_all, ppermute and axis_index over named axes.
 * Invariants: every name is bound where the equation stands; several names count row-major, the first outermost; groups are the members
 * of each group in turn, all of one size, and an empty list is one group of all. Gradients are pmap's: psum transposes to psum.
 * Under vmap over one of the names a collective becomes arithmetic on the batch dimension; over another name it works on a batch. */
#include "ops/nested.h"

#include <string.h>

/* ------------------------------------------------------------------ axes and groups */

static void list_scope(mf_text *t, const mf_axis_env *env)
{
    int count = 0;
    for (; env; env = env->outer)
        if (env->name)
            mf_text_add(t, "%s%s", count++ ? ", " : "", env->name);
    if (!count)
        mf_text_put(t, "none");
}

static mf_error_object *check_axes(const mf_type_context *c, const mf_namelist *axes)
{
    for (int i = 0; i < axes->count; i++) {
        if (mf_axis_env_find(c->env, axes->at[i]))
            continue;
        mf_text names = { 0 };
        list_scope(&names, c->env);
        mf_error_object *e = mf_error_new(MF_ERROR_AXIS, "%s: unbound axis name: %s. The following axis names are in scope: %s",
                                          c->op->name, axes->at[i], names.at && !names.failed ? names.at : "");
        mf_text_free(&names);
        return e;
    }
    return NULL;
}

/* Members of all axes together; they must be bound. */
static int64_t total_size(const mf_axis_env *env, const mf_namelist *axes)
{
    int64_t size = 1;
    for (int i = 0; i < axes->count; i++) {
        const mf_axis_env *binder = mf_axis_env_find(env, axes->at[i]);
        size *= binder ? binder->size : 1;
    }
    return size;
}

static int64_t participants(const mf_axis_env *env, const mf_namelist *axes, const mf_intlist *groups, int64_t group_size)
{
    return groups->count ? group_size : total_size(env, axes);
}

static mf_error_object *check_groups(const mf_type_context *c, const mf_namelist *axes, const mf_intlist *groups, int64_t group_size)
{
    int64_t size = total_size(c->env, axes);
    if (!groups->count)
        return NULL;
    if (groups->count != size || group_size < 1 || size % group_size)
        return mf_type_error(c, MF_ERROR_AXIS, "axis_index_groups must be groups of equal size that cover all %lld members of the axis",
                             (long long)size);
    for (int64_t member = 0; member < size; member++)
        if (!mf_ints_has(groups, member))
            return mf_type_error(c, MF_ERROR_AXIS, "axis_index_groups must hold every index once; %lld is missing", (long long)member);
    return NULL;
}

static mf_error_object *check(const mf_type_context *c, const mf_namelist *axes, const mf_intlist *groups, int64_t group_size)
{
    mf_error_object *error = c->in_count == 1 ? NULL : mf_type_error(c, MF_ERROR_ARGUMENT, "one operand is needed");
    if (!error)
        error = check_axes(c, axes);
    return error ? error : check_groups(c, axes, groups, group_size);
}

/* The names without one. */
static const mf_namelist *without(const mf_namelist *axes, const char *name)
{
    const char *left[64];
    int count = 0;
    for (int i = 0; i < axes->count && count < 64; i++)
        if (axes->at[i] != name)
            left[count++] = axes->at[i];
    return mf_names_intern(left, count);
}

static bool over_batch(const mf_batch_context *c, const mf_namelist *axes)
{
    return c->axis_name && mf_names_find(axes, c->axis_name) >= 0;
}

static const mf_intlist *no_groups(void) { return mf_ints_intern(NULL, 0); }

static void refuse(mf_batch_context *c, const mf_eqn *e, const char *what)
{
    mf_builder_fail(c->b, mf_error_new(MF_ERROR_AXIS, "%s: under vmap over axis %s, %s", e->op->name, c->axis_name, what));
}

/* ------------------------------------------------------------------ variance */

static uint64_t bits_of(const mf_axis_env *env, const mf_namelist *axes)
{
    uint64_t bits = 0;
    for (int i = 0; i < axes->count; i++) {
        const mf_axis_env *binder = mf_axis_env_find(env, axes->at[i]);
        int depth = binder ? mf_axis_env_depth(env, binder) : 64;
        bits |= depth >= 0 && depth < 64 ? (uint64_t)1 << depth : 0;
    }
    return bits;
}

/* ------------------------------------------------------------------ psum, pmax, pmin */

static const mf_collective_params *sum_of(const mf_eqn *e) { return e->params; }

static mf_error_object *reduce_type_rule(mf_type_context *c)
{
    const mf_collective_params *p = c->params;
    mf_error_object *error = check(c, p->axes, p->groups, p->group_size);
    if (!error && c->in[0]->dtype == MF_BOOL && c->op == &mf_op_psum)
        error = mf_type_error(c, MF_ERROR_DTYPE, "a bool must be converted to an integer first");
    c->out[0] = c->in_count ? c->in[0] : NULL;
    return error;
}

/* Over the whole of its axes a result is the same everywhere; over groups it may differ between them. */
static void reduce_variance(const mf_eqn *e, const mf_axis_env *env, const uint64_t *in, uint64_t *out)
{
    out[0] = sum_of(e)->groups->count ? in[0] : in[0] & ~bits_of(env, sum_of(e)->axes);
}

/* Rows of x along dimension 0 in another order; -1 gives zeros. Runs of rows stay together. */
static mf_var *pick_rows(mf_builder *b, mf_var *x, const int64_t *order, int count)
{
    mf_var **parts = nested_room(b, count, sizeof *parts);
    int made = 0;
    for (int i = 0, run; i < count && !b->error; i += run) {
        for (run = 1; i + run < count && (order[i] < 0 ? order[i + run] < 0 : order[i + run] == order[i] + run); run++) {
        }
        if (order[i] >= 0) {
            parts[made++] = e_slice_axis(b, x, 0, order[i], order[i] + run);
            continue;
        }
        const mf_type *row = mf_type_without_axis(x->type, 0), *zeros = row ? mf_type_insert_axis(row, 0, run) : NULL;
        parts[made++] = zeros ? e_full(b, zeros, 0) : mf_poison(b);
    }
    return b->error ? mf_poison(b) : e_concatenate(b, parts, made, 0);
}

static mf_var *reduce_dimension(mf_builder *b, const mf_op *op, mf_var *x, int axis)
{
    const mf_op *reduce = op == &mf_op_psum ? &mf_op_reduce_sum : op == &mf_op_pmax ? &mf_op_reduce_max : &mf_op_reduce_min;
    return mf_emit(b, reduce, &(mf_axes_params){ mf_ints_of(1, axis) }, 1, x);
}

/* x has its batch in front: rows go group by group, are reduced within each, and every member gets its group's result. */
static mf_var *reduce_groups(mf_builder *b, const mf_op *op, mf_var *x, const mf_intlist *groups, int64_t group_size)
{
    int64_t dims[MF_RANK + 1], count = groups->count;
    int64_t *back = nested_room(b, groups->count, sizeof *back);
    if (!b->error && x->type->rank >= MF_RANK)
        nested_fail(b, mf_error_new(MF_ERROR_SHAPE, "%s: too many dimensions", op->name));
    if (b->error)
        return mf_poison(b);
    for (int i = 0; i < groups->count; i++)
        back[groups->at[i]] = i;
    x = pick_rows(b, x, groups->at, groups->count);
    dims[0] = count / group_size;
    dims[1] = group_size;
    for (int i = 1; i < x->type->rank; i++)
        dims[i + 1] = x->type->dims[i];
    mf_var *sums = reduce_dimension(b, op, e_reshape(b, x, x->type->rank + 1, dims), 1);
    mf_var *all = e_reshape(b, e_broadcast_axis(b, sums, 1, group_size), x->type->rank, x->type->dims);
    return pick_rows(b, all, back, groups->count);
}

/* Unbatched operands: every member holds the same, so a sum is a multiple and an extremum is the operand. */
static mf_var *reduce_equal(mf_builder *b, const mf_op *op, mf_var *x, int64_t members)
{
    return op == &mf_op_psum && members != 1 ? e_scale(b, x, (double)members) : x;
}

static void reduce_batch(mf_batch_context *c, const mf_eqn *e, mf_var *const *in, const int *in_axis, mf_var **out, int *out_axis)
{
    const mf_collective_params *p = sum_of(e);
    const mf_namelist *rest = without(p->axes, c->axis_name);
    out_axis[0] = in_axis[0];
    if (!over_batch(c, p->axes)) {
        out[0] = mf_emit(c->b, e->op, p, 1, in[0]);
        return;
    }
    if (p->groups->count && rest->count) {
        refuse(c, e, "axis_index_groups over several axes can't be mapped");
        return;
    }
    mf_var *x = in[0];
    if (in_axis[0] < 0) {
        x = reduce_equal(c->b, e->op, x, p->groups->count ? p->group_size : c->size);
    } else if (p->groups->count) {
        x = reduce_groups(c->b, e->op, e_move_axis(c->b, x, in_axis[0], 0), p->groups, p->group_size);
        out_axis[0] = 0;
    } else {
        x = reduce_dimension(c->b, e->op, x, in_axis[0]);
        out_axis[0] = -1;
    }
    mf_collective_params left = { rest, no_groups(), 0 };
    out[0] = rest->count ? mf_emit(c->b, e->op, &left, 1, x) : x;
}

static const mf_param reduce_params[] = { MF_PARAM(mf_collective_params, axes, MF_PARAM_NAMES),
                                          MF_PARAM(mf_collective_params, groups, MF_PARAM_INTS),
                                          MF_PARAM(mf_collective_params, group_size, MF_PARAM_INT),
                                          { NULL, 0, 0 } };

static void psum_transpose(mf_builder *b, const mf_eqn *e, const bool *linear, mf_var *const *in, mf_var *const *ct, mf_var **ct_in)
{
    (void)linear, (void)in;
    ct_in[0] = mf_emit(b, &mf_op_psum, e->params, 1, ct[0]);
}

const mf_op mf_op_psum = {
    .name = "psum",
    .params = reduce_params,
    .params_size = sizeof(mf_collective_params),
    .flags = MF_OP_COLLECTIVE,
    .type_rule = reduce_type_rule,
    .jvp = mf_jvp_linear,
    .transpose = psum_transpose,
    .partial_eval = mf_partial_eval_all_or_nothing,
    .dce = mf_dce_whole,
    .batch = reduce_batch,
    .variance = reduce_variance,
    .cost = mf_cost_elementwise,
    .lower = mf_lower_none,
    .evaluate = mf_evaluate_by_runtime,
    .samples = nested_no_samples,
};

static void extremum_jvp(mf_builder *b, const mf_eqn *e, mf_var *const *in, mf_var *const *tin, mf_var **out, mf_var **tout)
{
    (void)in, (void)tin;
    mf_builder_fail(b, mf_error_new(MF_ERROR_ARGUMENT,
                                    "Differentiation rule for '%s' not implemented. Put the operand in stop_gradient, or "
                                    "use all_gather and a reduction",
                                    e->op->name));
    out[0] = tout[0] = mf_poison(b);
}

const mf_op mf_op_pmax = {
    .name = "pmax",
    .params = reduce_params,
    .params_size = sizeof(mf_collective_params),
    .flags = MF_OP_COLLECTIVE,
    .type_rule = reduce_type_rule,
    .jvp = extremum_jvp,
    .transpose = mf_transpose_none,
    .partial_eval = mf_partial_eval_all_or_nothing,
    .dce = mf_dce_whole,
    .batch = reduce_batch,
    .variance = reduce_variance,
    .cost = mf_cost_elementwise,
    .lower = mf_lower_none,
    .evaluate = mf_evaluate_by_runtime,
    .samples = nested_no_samples,
};

const mf_op mf_op_pmin = {
    .name = "pmin",
    .params = reduce_params,
    .params_size = sizeof(mf_collective_params),
    .flags = MF_OP_COLLECTIVE,
    .type_rule = reduce_type_rule,
    .jvp = extremum_jvp,
    .transpose = mf_transpose_none,
    .partial_eval = mf_partial_eval_all_or_nothing,
    .dce = mf_dce_whole,
    .batch = reduce_batch,
    .variance = reduce_variance,
    .cost = mf_cost_elementwise,
    .lower = mf_lower_none,
    .evaluate = mf_evaluate_by_runtime,
    .samples = nested_no_samples,
};

/* ------------------------------------------------------------------ all_gather and psum_scatter, each the other's transpose */

static const mf_gather_axis_params *gather_of(const mf_eqn *e) { return e->params; }

static const mf_param gather_params[] = {
    MF_PARAM(mf_gather_axis_params, axes, MF_PARAM_NAMES),     MF_PARAM(mf_gather_axis_params, axis, MF_PARAM_INT),
    MF_PARAM(mf_gather_axis_params, tiled, MF_PARAM_BOOL),     MF_PARAM(mf_gather_axis_params, groups, MF_PARAM_INTS),
    MF_PARAM(mf_gather_axis_params, group_size, MF_PARAM_INT), { NULL, 0, 0 },
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
    mf_error_object *error = check(c, p->axes, p->groups, p->group_size);
    if (error)
        return error;
    const mf_type *t = c->in[0];
    int64_t n = participants(c->env, p->axes, p->groups, p->group_size);
    if (p->axis < 0 || p->axis >= t->rank + !p->tiled)
        return mf_type_error(c, MF_ERROR_AXIS, "axis %lld is out of range", (long long)p->axis);
    c->out[0] = p->tiled ? resized(t, p->axis, t->dims[p->axis] * n) : mf_type_insert_axis(t, (int)p->axis, n);
    return NULL;
}

static mf_error_object *psum_scatter_type_rule(mf_type_context *c)
{
    const mf_gather_axis_params *p = c->params;
    mf_error_object *error = check(c, p->axes, p->groups, p->group_size);
    if (error)
        return error;
    const mf_type *t = c->in[0];
    int64_t n = participants(c->env, p->axes, p->groups, p->group_size);
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

static void all_gather_transpose(mf_builder *b, const mf_eqn *e, const bool *linear, mf_var *const *in, mf_var *const *ct, mf_var **ct_in)
{
    (void)linear, (void)in;
    ct_in[0] = mf_emit(b, &mf_op_psum_scatter, e->params, 1, ct[0]);
}

static void psum_scatter_transpose(mf_builder *b, const mf_eqn *e, const bool *linear, mf_var *const *in, mf_var *const *ct, mf_var **ct_in)
{
    (void)linear, (void)in;
    ct_in[0] = mf_emit(b, &mf_op_all_gather, e->params, 1, ct[0]);
}

static void all_gather_variance(const mf_eqn *e, const mf_axis_env *env, const uint64_t *in, uint64_t *out)
{
    out[0] = gather_of(e)->groups->count ? in[0] : in[0] & ~bits_of(env, gather_of(e)->axes);
}

static void psum_scatter_variance(const mf_eqn *e, const mf_axis_env *env, const uint64_t *in, uint64_t *out)
{
    out[0] = in[0] | bits_of(env, gather_of(e)->axes);
}

/* Dimension axis and the one behind it as one; and one dimension as two, the first of size n. */
static mf_var *merge_dimensions(mf_builder *b, mf_var *x, int axis)
{
    int64_t dims[MF_RANK];
    int rank = 0;
    for (int i = 0; i < x->type->rank; i++) {
        if (i == axis + 1)
            dims[rank - 1] *= x->type->dims[i];
        else
            dims[rank++] = x->type->dims[i];
    }
    return e_reshape(b, x, rank, dims);
}

static mf_var *part_dimension(mf_builder *b, mf_var *x, int axis, int64_t n)
{
    int64_t dims[MF_RANK + 1];
    int rank = 0;
    for (int i = 0; i < x->type->rank; i++) {
        if (i == axis)
            dims[rank++] = n;
        dims[rank++] = i == axis ? x->type->dims[i] / n : x->type->dims[i];
    }
    return e_reshape(b, x, rank, dims);
}

/* x has its batch in front. The other names are gathered behind it, the last first; then the batch dimension takes its place among
 * them, and the dimensions of all names become one. */
static mf_var *gather_all(mf_batch_context *c, const mf_gather_axis_params *p, mf_var *x)
{
    for (int i = p->axes->count - 1; i >= 0; i--) {
        mf_gather_axis_params one = { mf_names_intern(&p->axes->at[i], 1), 1, false, no_groups(), 0 };
        if (p->axes->at[i] != c->axis_name)
            x = mf_emit(c->b, &mf_op_all_gather, &one, 1, x);
    }
    x = c->b->error ? x : e_move_axis(c->b, x, 0, mf_names_find(p->axes, c->axis_name));
    for (int i = 1; i < p->axes->count && !c->b->error; i++)
        x = merge_dimensions(c->b, x, 0);
    x = c->b->error ? x : e_move_axis(c->b, x, 0, (int)p->axis);
    return p->tiled && !c->b->error ? merge_dimensions(c->b, x, (int)p->axis) : x;
}

static void gather_pass_through(mf_batch_context *c, const mf_eqn *e, mf_var *x, int axis, mf_var **out, int *out_axis)
{
    mf_gather_axis_params p = *gather_of(e);
    p.axis++;
    out[0] = mf_emit(c->b, e->op, &p, 1, e_batched_at(c, x, axis, 0));
    out_axis[0] = 0;
}

static void all_gather_batch(mf_batch_context *c, const mf_eqn *e, mf_var *const *in, const int *in_axis, mf_var **out, int *out_axis)
{
    const mf_gather_axis_params *p = gather_of(e);
    if (!over_batch(c, p->axes)) {
        gather_pass_through(c, e, in[0], in_axis[0], out, out_axis);
        return;
    }
    if (p->groups->count) {
        refuse(c, e, "axis_index_groups can't be mapped");
        return;
    }
    out[0] = gather_all(c, p, e_batched_at(c, in[0], in_axis[0], 0));
    out_axis[0] = -1;
}

/* The sum over the batch; then every member has its piece, so the pieces are the new batch dimension. */
static void psum_scatter_batch(mf_batch_context *c, const mf_eqn *e, mf_var *const *in, const int *in_axis, mf_var **out, int *out_axis)
{
    const mf_gather_axis_params *p = gather_of(e);
    if (!over_batch(c, p->axes)) {
        gather_pass_through(c, e, in[0], in_axis[0], out, out_axis);
        return;
    }
    if (p->groups->count || p->axes->count > 1) {
        refuse(c, e, "neither axis_index_groups nor several axes can be mapped");
        return;
    }
    mf_var *sum = in_axis[0] < 0 ? reduce_equal(c->b, &mf_op_psum, in[0], c->size) : reduce_dimension(c->b, &mf_op_psum, in[0], in_axis[0]);
    out[0] = p->tiled && !c->b->error ? part_dimension(c->b, sum, (int)p->axis, c->size) : sum;
    out_axis[0] = (int)p->axis;
}

const mf_op mf_op_all_gather = {
    .name = "all_gather",
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
    .samples = nested_no_samples,
};

const mf_op mf_op_psum_scatter = {
    .name = "psum_scatter",
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
    .samples = nested_no_samples,
};

/* ------------------------------------------------------------------ all_to_all */

static const mf_all_to_all_params *exchange_of(const mf_eqn *e) { return e->params; }

static const mf_param exchange_params[] = {
    MF_PARAM(mf_all_to_all_params, axes, MF_PARAM_NAMES),
    MF_PARAM(mf_all_to_all_params, split_axis, MF_PARAM_INT),
    MF_PARAM(mf_all_to_all_params, concat_axis, MF_PARAM_INT),
    MF_PARAM(mf_all_to_all_params, tiled, MF_PARAM_BOOL),
    MF_PARAM(mf_all_to_all_params, groups, MF_PARAM_INTS),
    MF_PARAM(mf_all_to_all_params, group_size, MF_PARAM_INT),
    { NULL, 0, 0 },
};

/* Not tiled: the split dimension, one piece a member, goes, and one of all members comes at concat_axis. Tiled: the split dimension
 * shrinks and the other grows. */
static mf_error_object *all_to_all_type_rule(mf_type_context *c)
{
    const mf_all_to_all_params *p = c->params;
    mf_error_object *error = check(c, p->axes, p->groups, p->group_size);
    if (error)
        return error;
    const mf_type *t = c->in[0];
    int64_t n = participants(c->env, p->axes, p->groups, p->group_size), s = p->split_axis, k = p->concat_axis;
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

static void all_to_all_transpose(mf_builder *b, const mf_eqn *e, const bool *linear, mf_var *const *in, mf_var *const *ct, mf_var **ct_in)
{
    (void)linear, (void)in;
    mf_all_to_all_params p = *exchange_of(e);
    p.split_axis = exchange_of(e)->concat_axis;
    p.concat_axis = exchange_of(e)->split_axis;
    ct_in[0] = mf_emit(b, &mf_op_all_to_all, &p, 1, ct[0]);
}

static void all_to_all_variance(const mf_eqn *e, const mf_axis_env *env, const uint64_t *in, uint64_t *out)
{
    out[0] = in[0] | bits_of(env, exchange_of(e)->axes);
}

/* The batch dimension and the pieces change places. x: batch in front. */
static mf_var *exchange(mf_batch_context *c, const mf_all_to_all_params *p, mf_var *x)
{
    mf_builder *b = c->b;
    int split = (int)p->split_axis, concat = (int)p->concat_axis;
    if (!p->tiled) {
        x = e_move_axis(b, x, split + 1, 0); /* pieces, batch, rest */
        return b->error ? x : e_move_axis(b, x, 1, concat + 1);
    }
    x = part_dimension(b, x, split + 1, c->size);
    x = b->error ? x : e_move_axis(b, x, split + 1, 0); /* pieces, batch, the operand's dimensions */
    x = b->error ? x : e_move_axis(b, x, 1, concat + 1);
    return b->error ? x : merge_dimensions(b, x, concat + 1);
}

static void all_to_all_batch(mf_batch_context *c, const mf_eqn *e, mf_var *const *in, const int *in_axis, mf_var **out, int *out_axis)
{
    mf_all_to_all_params p = *exchange_of(e);
    mf_var *x = e_batched_at(c, in[0], in_axis[0], 0);
    out_axis[0] = 0;
    if (over_batch(c, p.axes)) {
        if (p.groups->count || p.axes->count > 1)
            refuse(c, e, "neither axis_index_groups nor several axes can be mapped");
        else
            out[0] = exchange(c, &p, x);
        return;
    }
    p.split_axis++;
    p.concat_axis++;
    out[0] = mf_emit(c->b, e->op, &p, 1, x);
}

const mf_op mf_op_all_to_all = {
    .name = "all_to_all",
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
    .samples = nested_no_samples,
};

/* ------------------------------------------------------------------ ppermute */

static const mf_permute_params *permute_of(const mf_eqn *e) { return e->params; }

static const mf_param permute_params[] = { MF_PARAM(mf_permute_params, axes, MF_PARAM_NAMES),
                                           MF_PARAM(mf_permute_params, perm, MF_PARAM_INTS),
                                           { NULL, 0, 0 } };

static mf_error_object *ppermute_type_rule(mf_type_context *c)
{
    const mf_permute_params *p = c->params;
    mf_error_object *error = check(c, p->axes, no_groups(), 0);
    if (error)
        return error;
    int64_t n = total_size(c->env, p->axes);
    for (int i = 0; i < p->perm->count; i++) {
        bool good = p->perm->count % 2 == 0 && p->perm->at[i] >= 0 && p->perm->at[i] < n;
        for (int j = i & 1; j < i && good; j += 2)
            good = p->perm->at[j] != p->perm->at[i];
        if (!good)
            return mf_type_error(c, MF_ERROR_AXIS,
                                 "`perm` does not represent a permutation: sources and targets must be distinct and from 0 to "
                                 "%lld; %s %lld is not",
                                 (long long)n - 1, i & 1 ? "target" : "source", (long long)p->perm->at[i]);
    }
    c->out[0] = c->in[0];
    return NULL;
}

static void ppermute_transpose(mf_builder *b, const mf_eqn *e, const bool *linear, mf_var *const *in, mf_var *const *ct, mf_var **ct_in)
{
    (void)linear, (void)in;
    const mf_intlist *perm = permute_of(e)->perm;
    int64_t *inverse = nested_room(b, perm->count, sizeof *inverse);
    for (int i = 0; inverse && i < perm->count; i++)
        inverse[i] = perm->at[i ^ 1];
    mf_permute_params p = { permute_of(e)->axes, inverse ? mf_ints_intern(inverse, perm->count) : NULL };
    ct_in[0] = p.perm ? mf_emit(b, &mf_op_ppermute, &p, 1, ct[0]) : mf_poison(b);
}

static void ppermute_variance(const mf_eqn *e, const mf_axis_env *env, const uint64_t *in, uint64_t *out)
{
    out[0] = in[0] | bits_of(env, permute_of(e)->axes);
}

static void ppermute_batch(mf_batch_context *c, const mf_eqn *e, mf_var *const *in, const int *in_axis, mf_var **out, int *out_axis)
{
    const mf_permute_params *p = permute_of(e);
    out_axis[0] = in_axis[0];
    if (!over_batch(c, p->axes)) {
        out[0] = mf_emit(c->b, e->op, p, 1, in[0]);
        return;
    }
    if (p->axes->count > 1) {
        refuse(c, e, "several axes can't be mapped");
        return;
    }
    int64_t *from = nested_room(c->b, (int)c->size, sizeof *from);
    for (int64_t i = 0; from && i < c->size; i++)
        from[i] = -1;
    for (int i = 0; from && i + 1 < p->perm->count; i += 2)
        from[p->perm->at[i + 1]] = p->perm->at[i];
    out[0] = from ? pick_rows(c->b, e_batched_at(c, in[0], in_axis[0], 0), from, (int)c->size) : mf_poison(c->b);
    out_axis[0] = 0;
}

const mf_op mf_op_ppermute = {
    .name = "ppermute",
    .params = permute_params,
    .params_size = sizeof(mf_permute_params),
    .flags = MF_OP_COLLECTIVE,
    .type_rule = ppermute_type_rule,
    .jvp = mf_jvp_linear,
    .transpose = ppermute_transpose,
    .partial_eval = mf_partial_eval_all_or_nothing,
    .dce = mf_dce_whole,
    .batch = ppermute_batch,
    .variance = ppermute_variance,
    .cost = mf_cost_bytes,
    .lower = mf_lower_none,
    .evaluate = mf_evaluate_by_runtime,
    .samples = nested_no_samples,
};

/* ------------------------------------------------------------------ axis_index */

static const mf_axis_name_params *index_of(const mf_eqn *e) { return e->params; }

static const mf_param index_params[] = { MF_PARAM(mf_axis_name_params, axes, MF_PARAM_NAMES), { NULL, 0, 0 } };

static mf_error_object *axis_index_type_rule(mf_type_context *c)
{
    c->out[0] = mf_type_scalar(MF_I32, false);
    if (c->in_count)
        return mf_type_error(c, MF_ERROR_ARGUMENT, "it takes no operand");
    return check_axes(c, ((const mf_axis_name_params *)c->params)->axes);
}

static void axis_index_variance(const mf_eqn *e, const mf_axis_env *env, const uint64_t *in, uint64_t *out)
{
    (void)in;
    out[0] = bits_of(env, index_of(e)->axes);
}

/* The index is a sum over the names, each times the sizes of those behind it; the mapped name's own index is an iota. */
static void axis_index_batch(mf_batch_context *c, const mf_eqn *e, mf_var *const *in, const int *in_axis, mf_var **out, int *out_axis)
{
    const mf_namelist *axes = index_of(e)->axes;
    mf_builder *b = c->b;
    mf_var *sum = NULL;
    int64_t factor = 1;
    (void)in, (void)in_axis;
    for (int i = axes->count - 1; i >= 0; i--) {
        bool mapped = axes->at[i] == c->axis_name;
        mf_axis_name_params one = { mf_names_intern(&axes->at[i], 1) };
        mf_var *index = mapped ? e_iota(b, MF_I32, 1, &c->size, 0)
                               : e_broadcast_axis(b, mf_emit(b, &mf_op_axis_index, &one, 0), 0, c->size);
        index = factor == 1 ? index : e_scale(b, index, (double)factor);
        sum = sum ? e_add(b, sum, index) : index;
        factor *= mapped ? c->size : total_size(b->env, one.axes);
    }
    out[0] = sum;
    out_axis[0] = 0;
}

const mf_op mf_op_axis_index = {
    .name = "axis_index",
    .params = index_params,
    .params_size = sizeof(mf_axis_name_params),
    .flags = 0,
    .type_rule = axis_index_type_rule,
    .jvp = mf_jvp_zero,
    .transpose = mf_transpose_none,
    .partial_eval = mf_partial_eval_all_or_nothing,
    .dce = mf_dce_whole,
    .batch = axis_index_batch,
    .variance = axis_index_variance,
    .cost = mf_cost_bytes,
    .lower = mf_lower_none,
    .evaluate = mf_evaluate_by_runtime,
    .samples = nested_no_samples,
};
