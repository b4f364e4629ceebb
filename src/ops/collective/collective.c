/* Collectives: psum, pmax, pmin, ppermute and axis_index over named axes; those that join or cut operands are in collective_exchange.c.
 * Invariants: every name is bound where the equation is; several names are counted row-major, the first outermost. Groups are a list of the
 * members of each group in turn; an empty list is one group of all. Gradients are pmap's: psum transposes to psum. Under vmap over one of
 * the names a collective becomes arithmetic on the batch dimension; over another name it works on a batch. */
#include "ops/collective/collective.h"

#include <math.h>
#include <string.h>

/* ---- psum, pmax, pmin */

static const mf_collective_params *sum_of(const mf_eqn *e) { return e->params; }

static mf_error_object *reduce_type_rule(mf_type_context *c)
{
    const mf_collective_params *p = c->params;
    mf_error_object *error = collective_check(c, p->axes, p->groups, p->group_size, true);
    if (!error && c->in[0]->dtype == MF_BOOL && c->op == &mf_op_psum)
        error = mf_type_error(c, MF_ERROR_DTYPE, "a bool must be converted to an integer first");
    if (!error && mf_dtype_is_complex(c->in[0]->dtype) && c->op != &mf_op_psum)
        error = mf_type_error(c, MF_ERROR_DTYPE, "is defined for floats, integers and bool");
    c->out[0] = c->in_count ? c->in[0] : NULL;
    return error;
}

/* Over whole axes a result is the same everywhere. Over groups it may differ between them, and over groups of different sizes it does even
 * if the operand is the same everywhere. */
static void reduce_variance(const mf_eqn *e, const mf_axis_env *env, const uint64_t *in, uint64_t *out)
{
    const mf_collective_params *p = sum_of(e);
    uint64_t bits = collective_bits_of(env, p->axes);
    out[0] = !p->groups->count ? in[0] & ~bits : mf_ints_has(p->groups, -1) ? in[0] | bits : in[0];
}

/* Consecutive rows are taken in one slice. */
mf_variable *collective_pick_rows(mf_builder *b, mf_variable *x, const int64_t *order, int count)
{
    mf_variable **parts = nested_alloc(b, count, sizeof *parts);
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

mf_variable *collective_reduce_dimension(mf_builder *b, const mf_op *op, mf_variable *x, int axis)
{
    const mf_op *reduce = op == &mf_op_psum ? &mf_op_reduce_sum : op == &mf_op_pmax ? &mf_op_reduce_max : &mf_op_reduce_min;
    return mf_emit(b, reduce, &(mf_axes_params){ mf_ints_of(1, axis) }, 1, x);
}

mf_variable *collective_into_groups(mf_builder *b, mf_variable *x, const mf_intlist *groups, int64_t group_size)
{
    int64_t dims[MF_RANK + 1];
    if (!b->error && x->type->rank >= MF_RANK)
        nested_fail(b, mf_error_new(MF_ERROR_SHAPE, "a collective over groups of a mapped axis: too many dimensions"));
    if (b->error)
        return mf_poison(b);
    x = collective_pick_rows(b, x, groups->at, groups->count);
    dims[0] = groups->count / group_size;
    dims[1] = group_size;
    for (int i = 1; i < x->type->rank; i++)
        dims[i + 1] = x->type->dims[i];
    return e_reshape(b, x, x->type->rank + 1, dims);
}

mf_variable *collective_out_of_groups(mf_builder *b, mf_variable *x, const mf_intlist *groups)
{
    int64_t *back = nested_alloc(b, groups->count, sizeof *back);
    int members = 0;
    for (int i = 0; back && i < groups->count; i++)
        if (groups->at[i] >= 0) {
            back[groups->at[i]] = i;
            members++;
        }
    return back ? collective_pick_rows(b, collective_merge_dimensions(b, x, 0), back, members) : mf_poison(b);
}

mf_variable *collective_merge_dimensions(mf_builder *b, mf_variable *x, int axis)
{
    int64_t dims[MF_RANK];
    int rank = 0;
    for (int i = 0; i < x->type->rank; i++) {
        if (i == axis + 1)
            dims[rank - 1] *= x->type->dims[i];
        else
            dims[rank++] = x->type->dims[i];
    }
    return b->error ? mf_poison(b) : e_reshape(b, x, rank, dims);
}

mf_variable *collective_part_dimension(mf_builder *b, mf_variable *x, int axis, int64_t n)
{
    int64_t dims[MF_RANK + 1];
    int rank = 0;
    if (!b->error && x->type->rank >= MF_RANK)
        nested_fail(b, mf_error_new(MF_ERROR_SHAPE, "a collective over a mapped axis: too many dimensions"));
    if (b->error)
        return mf_poison(b);
    for (int i = 0; i < x->type->rank; i++) {
        if (i == axis)
            dims[rank++] = n;
        dims[rank++] = i == axis ? x->type->dims[i] / n : x->type->dims[i];
    }
    return e_reshape(b, x, rank, dims);
}

/* Fills the gaps of a short group with members that do not change its result: zeros for a sum (pick_rows gives them for -1); for an
 * extremum, its first member again. */
static const mf_intlist *fill_gaps(mf_builder *b, const mf_op *op, const mf_intlist *groups, int64_t group_size)
{
    int64_t *full = op == &mf_op_psum ? NULL : nested_alloc(b, groups->count, sizeof *full);
    for (int i = 0; full && i < groups->count; i++)
        full[i] = groups->at[groups->at[i] >= 0 ? i : i / (int)group_size * (int)group_size];
    return full ? mf_ints_intern(full, groups->count) : groups;
}

/* x has its batch in front. Reduces it within each group and gives every member its group's result. */
static mf_variable *reduce_groups(mf_builder *b, const mf_op *op, mf_variable *x, const mf_intlist *groups, int64_t group_size)
{
    x = collective_into_groups(b, x, fill_gaps(b, op, groups, group_size), group_size);
    mf_variable *sums = b->error ? x : collective_reduce_dimension(b, op, x, 1);
    return collective_out_of_groups(b, b->error ? x : e_broadcast_axis(b, sums, 1, group_size), groups);
}

/* For an unbatched operand all members hold the same, so a sum is a multiple and an extremum is the operand. */
static mf_variable *reduce_equal(mf_builder *b, const mf_op *op, mf_variable *x, int64_t members)
{
    return op == &mf_op_psum && members != 1 ? e_scale(b, x, (double)members) : x;
}

/* For a sum of 16-bit floats in two steps, over the batch and over other names: rounds only after the second. */
mf_variable *collective_widen(mf_builder *b, mf_variable *x)
{
    bool narrow = !b->error && (x->type->dtype == MF_F16 || x->type->dtype == MF_BF16);
    return narrow ? e_convert(b, x, MF_F32) : x;
}

static void reduce_batch(mf_batch_context *c, const mf_eqn *e, mf_variable *const *in, const int *in_axis, mf_variable **out, int *out_axis)
{
    const mf_collective_params *p = sum_of(e);
    const mf_namelist *rest = collective_without(p->axes, c->axis_name);
    out_axis[0] = in_axis[0];
    if (!collective_over_batch(c, p->axes)) {
        out[0] = mf_emit(c->b, e->op, p, 1, in[0]);
        return;
    }
    if (p->groups->count && rest->count) {
        collective_refuse(c, e, "axis_index_groups over several axes can't be mapped");
        return;
    }
    mf_variable *x = rest->count && e->op == &mf_op_psum ? collective_widen(c->b, in[0]) : in[0];
    bool uneven = p->groups->count != c->size && p->groups->count;
    if (in_axis[0] < 0 && !uneven) {
        x = reduce_equal(c->b, e->op, x, p->groups->count ? p->group_size : c->size);
    } else if (p->groups->count) {
        x = reduce_groups(c->b, e->op, e_batched_at(c, x, in_axis[0], 0), p->groups, p->group_size);
        out_axis[0] = 0;
    } else {
        x = collective_reduce_dimension(c->b, e->op, x, in_axis[0]);
        out_axis[0] = -1;
    }
    mf_collective_params left = { rest, collective_no_groups(), 0 };
    x = rest->count ? mf_emit(c->b, e->op, &left, 1, x) : x;
    out[0] = c->b->error ? x : e_convert_type(c->b, x, in[0]->type);
}

static const mf_param reduce_params[] = { MF_PARAM_AS(mf_collective_params, axes, MF_PARAM_NAMES, MF_ROLE_AXES),
                                          MF_PARAM_AS(mf_collective_params, groups, MF_PARAM_INTS, MF_ROLE_GROUPS),
                                          MF_PARAM_AS(mf_collective_params, group_size, MF_PARAM_INT, MF_ROLE_GROUP_SIZE),
                                          { 0 } };

static void psum_transpose(mf_builder *b, const mf_eqn *e, const bool *linear, mf_variable *const *in, mf_variable *const *ct,
                           mf_variable **ct_in)
{
    (void)linear, (void)in;
    ct_in[0] = mf_emit(b, &mf_op_psum, e->params, 1, ct[0]);
}

static const char *const psum_samples[] = {
    "i=4: [axes=(i)] f32[4,2]{=1,2,3,4,5,6,7,8} -> f32[4,2]{=16,20,16,20,16,20,16,20}",
    "i=4: [axes=(i), groups=(0, 2, 1, 3), group_size=2] i32[4]{=1,2,3,4} -> i32[4]{=4,6,4,6}",
    "i=3: [axes=(i)] bf16[3,4]",
    "i=4: [axes=(i)] f64[4,3]",
    "i=4: [axes=(i), groups=(0, 3, 1, 2), group_size=2] f64[4]",
    "i=4: [axes=(i), groups=(0, 2, 3, 1, -1, -1), group_size=3] i32[4]{=1,2,3,4} -> i32[4]{=8,2,8,8}",
    "i=2: [axes=(i)] c64[2,3]",
    NULL,
};

/* A float's bits as an integer that is ordered as the floats are. The function is its own inverse. */
static mf_hlo_value ordered_bits(mf_hlo *h, mf_hlo_value bits)
{
    mf_dtype d = bits.type->dtype;
    mf_hlo_value zero = h_full(h, bits.type, 0), rest = h_identity(h, MF_REDUCE_MIN, mf_type_scalar(d, false));
    mf_hlo_value flipped = h_binary(h, "xor", bits, h_broadcast(h, rest, bits.type, mf_ints_of(0)));
    return h_select(h, h_compare(h, "LT", false, bits, zero), flipped, bits);
}

/* Converts floats whose extremum is wanted to integers, because plugins may lose a NaN or choose either of 0 and -0. A NaN becomes the
 * integer that wins. */
static mf_hlo_value as_ordered(mf_hlo *h, mf_hlo_value x, mf_reducer r)
{
    const mf_type *t = x.type;
    mf_hlo_value winner = h_full(h, t, r == MF_REDUCE_MAX ? NAN : -NAN), is_nan = h_compare(h, "NE", false, x, x);
    mf_hlo_value plain = h_select(h, is_nan, winner, x);
    return ordered_bits(h, h_op(h, "bitcast_convert", mf_type_with_dtype(t, t->dtype == MF_F32 ? MF_I32 : MF_I64), &plain, 1, NULL));
}

/* 16-bit floats are reduced as f32. */
MF_HLO_RULE(reduce_hlo)
{
    const mf_collective_params *p = sum_of(e);
    mf_dtype given = in[0].type->dtype, wide = h_sum_dtype(given);
    bool ordered = mf_dtype_is_float(given) && e->op->reducer != MF_REDUCE_SUM;
    mf_hlo_value x = h_convert(h, in[0], wide);
    if (ordered)
        x = as_ordered(h, x, e->op->reducer);
    mf_hlo_value y = { 0, x.type };
    h_open(h, "all_reduce", &x, 1, &y, 1, "replica_groups = %s", h_groups(h, p->axes, p->groups, p->group_size));
    h_reducer_region(h, e->op->reducer, x.type->dtype);
    h_close(h, &x, 1, &y, 1);
    if (ordered) {
        mf_hlo_value bits = ordered_bits(h, y);
        y = h_op(h, "bitcast_convert", mf_type_with_dtype(bits.type, wide), &bits, 1, NULL);
    }
    out[0] = h_convert(h, y, given);
}

const mf_op mf_op_psum = {
    .name = "psum",
    .reduced = MF_REDUCED_DEVICES,
    .reducer = MF_REDUCE_SUM,
    .collective = MF_COLLECTIVE_REDUCE,
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
    MF_HLO_BY(reduce_hlo),
    .samples = psum_samples,
};

static void extremum_jvp(mf_builder *b, const mf_eqn *e, mf_variable *const *in, mf_variable *const *tin, mf_variable **out,
                         mf_variable **tout)
{
    (void)in, (void)tin;
    mf_builder_fail(b, mf_error_new(MF_ERROR_ARGUMENT,
                                    "Differentiation rule for '%s' not implemented. Put the operand in stop_gradient, or "
                                    "use all_gather and a reduction",
                                    e->op->name));
    out[0] = tout[0] = mf_poison(b);
}

static const char *const pmax_samples[] = {
    "i=4: [axes=(i)] f32[4,2]{=1,-0.0,nan,4,-5,0,7,-8} -> f32[4,2]{=nan,4,nan,4,nan,4,nan,4}",
    "i=4: [axes=(i), groups=(0, 2, 1, 3), group_size=2] i32[4]{=1,2,3,4} -> i32[4]{=3,4,3,4}",
    "i=3: [axes=(i)] u8[3,5]{0:200}",
    NULL,
};

const mf_op mf_op_pmax = {
    .name = "pmax",
    .reduced = MF_REDUCED_DEVICES,
    .reducer = MF_REDUCE_MAX,
    .collective = MF_COLLECTIVE_REDUCE,
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
    MF_HLO_BY(reduce_hlo),
    .samples = pmax_samples,
};

static const char *const pmin_samples[] = {
    "i=4: [axes=(i)] f32[4,2]{=1,0,3,-0.0,-5,0,7,8} -> f32[4,2]{=-5,-0.0,-5,-0.0,-5,-0.0,-5,-0.0}",
    "i=3: [axes=(i)] i8[3,5]{-100:100}",
    NULL,
};

const mf_op mf_op_pmin = {
    .name = "pmin",
    .reduced = MF_REDUCED_DEVICES,
    .reducer = MF_REDUCE_MIN,
    .collective = MF_COLLECTIVE_REDUCE,
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
    MF_HLO_BY(reduce_hlo),
    .samples = pmin_samples,
};

/* ---- ppermute */

static const mf_permute_params *permute_of(const mf_eqn *e) { return e->params; }

static const mf_param permute_params[] = { MF_PARAM_AS(mf_permute_params, axes, MF_PARAM_NAMES, MF_ROLE_AXES),
                                           MF_PARAM(mf_permute_params, perm, MF_PARAM_INTS),
                                           { 0 } };

bool collective_find_misfit(const int64_t *perm, int count, int64_t size, int *at)
{
    unsigned char *seen = mf_calloc((size_t)size, 1); /* 1: seen as a source; 2: as a target */
    *at = -1;
    for (int i = 0; seen && i < count && *at < 0; i++) {
        unsigned char as = i % 2 ? 2 : 1;
        if (perm[i] < 0 || perm[i] >= size || seen[perm[i]] & as)
            *at = i;
        else
            seen[perm[i]] |= as;
    }
    bool looked = seen;
    mf_free(seen);
    return looked;
}

static mf_error_object *ppermute_type_rule(mf_type_context *c)
{
    const mf_permute_params *p = c->params;
    mf_error_object *error = collective_check(c, p->axes, collective_no_groups(), 0, false);
    if (error)
        return error;
    int64_t n = collective_total_size(c->env, p->axes);
    int misfit;
    if (!collective_find_misfit(p->perm->at, p->perm->count, n, &misfit))
        return mf_error_out_of_memory();
    misfit = p->perm->count % 2 ? 0 : misfit;
    c->out[0] = c->in[0];
    if (misfit < 0)
        return NULL;
    return mf_type_error(c, MF_ERROR_AXIS,
                         "`perm` does not represent a permutation: sources and targets must be distinct and from 0 to "
                         "%lld; %s %lld is not",
                         (long long)n - 1, misfit % 2 ? "target" : "source", (long long)p->perm->at[misfit]);
}

static void ppermute_transpose(mf_builder *b, const mf_eqn *e, const bool *linear, mf_variable *const *in, mf_variable *const *ct,
                               mf_variable **ct_in)
{
    (void)linear, (void)in;
    const mf_intlist *perm = permute_of(e)->perm;
    int64_t *inverse = nested_alloc(b, perm->count, sizeof *inverse);
    for (int i = 0; inverse && i < perm->count; i++)
        inverse[i] = perm->at[i ^ 1];
    mf_permute_params p = { permute_of(e)->axes, inverse ? mf_ints_intern(inverse, perm->count) : NULL };
    ct_in[0] = p.perm ? mf_emit(b, &mf_op_ppermute, &p, 1, ct[0]) : mf_poison(b);
}

static void ppermute_variance(const mf_eqn *e, const mf_axis_env *env, const uint64_t *in, uint64_t *out)
{
    out[0] = in[0] | collective_bits_of(env, permute_of(e)->axes);
}

static void ppermute_batch(mf_batch_context *c, const mf_eqn *e, mf_variable *const *in, const int *in_axis, mf_variable **out,
                           int *out_axis)
{
    const mf_permute_params *p = permute_of(e);
    out_axis[0] = in_axis[0];
    if (!collective_over_batch(c, p->axes)) {
        out[0] = mf_emit(c->b, e->op, p, 1, in[0]);
        return;
    }
    if (p->axes->count > 1) {
        collective_refuse(c, e, "several axes can't be mapped");
        return;
    }
    int64_t *from = nested_alloc(c->b, (int)c->size, sizeof *from);
    for (int64_t i = 0; from && i < c->size; i++)
        from[i] = -1;
    for (int i = 0; from && i + 1 < p->perm->count; i += 2)
        from[p->perm->at[i + 1]] = p->perm->at[i];
    out[0] = from ? collective_pick_rows(c->b, e_batched_at(c, in[0], in_axis[0], 0), from, (int)c->size) : mf_poison(c->b);
    out_axis[0] = 0;
}

static const char *const ppermute_samples[] = {
    "i=4: [axes=(i), perm=(0, 1, 1, 2, 3, 0)] f32[4]{=1,2,3,4} -> f32[4]{=4,1,2,0}",
    "i=3: [axes=(i), perm=(0, 1, 1, 2, 2, 0)] i32[3,2]{=1,2,3,4,5,6} -> i32[3,2]{=5,6,1,2,3,4}",
    "i=4: [axes=(i), perm=(0, 2, 2, 1)] f64[4,2,3]",
    NULL,
};

MF_HLO_RULE(permute_hlo)
{
    const mf_permute_params *p = permute_of(e);
    out[0] = h_op(h, "collective_permute", e->out[0]->type, in, 1, "source_target_pairs = %s", h_pairs(h, p->axes, p->perm));
}

const mf_op mf_op_ppermute = {
    .name = "ppermute",
    .collective = MF_COLLECTIVE_PERMUTE,
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
    MF_HLO_BY(permute_hlo),
    .samples = ppermute_samples,
};

/* ---- axis_index */

static const mf_axis_name_params *index_of(const mf_eqn *e) { return e->params; }

static const mf_param index_params[] = { MF_PARAM_AS(mf_axis_name_params, axes, MF_PARAM_NAMES, MF_ROLE_AXES), { 0 } };

static mf_error_object *axis_index_type_rule(mf_type_context *c)
{
    c->out[0] = mf_type_scalar(MF_I32, false);
    if (c->in_count)
        return mf_type_error(c, MF_ERROR_ARGUMENT, "it takes no operand");
    return collective_check_axes(c, ((const mf_axis_name_params *)c->params)->axes);
}

static void axis_index_variance(const mf_eqn *e, const mf_axis_env *env, const uint64_t *in, uint64_t *out)
{
    (void)in;
    out[0] = collective_bits_of(env, index_of(e)->axes);
}

/* The index is a sum over the names, each index times the sizes of the names after it; the mapped name's own index is an iota. */
static void axis_index_batch(mf_batch_context *c, const mf_eqn *e, mf_variable *const *in, const int *in_axis, mf_variable **out,
                             int *out_axis)
{
    const mf_namelist *axes = index_of(e)->axes;
    mf_builder *b = c->b;
    mf_variable *sum = NULL;
    int64_t factor = 1;
    (void)in, (void)in_axis;
    for (int i = axes->count - 1; i >= 0; i--) {
        bool mapped = axes->at[i] == c->axis_name;
        mf_axis_name_params one = { mf_names_intern(&axes->at[i], 1) };
        mf_variable *index = mapped ? e_iota(b, MF_I32, 1, &c->size, 0)
                                    : e_broadcast_axis(b, mf_emit(b, &mf_op_axis_index, &one, 0), 0, c->size);
        index = factor == 1 ? index : e_scale(b, index, (double)factor);
        sum = sum ? e_add(b, sum, index) : index;
        factor *= mapped ? c->size : collective_total_size(b->env, one.axes);
    }
    out[0] = sum;
    out_axis[0] = 0;
}

static const char *const axis_index_samples[] = {
    "i=4: [axes=(i)] -> i32[4]{=0,1,2,3}",
    NULL,
};

MF_HLO_RULE(index_hlo)
{
    (void)in;
    out[0] = h_axis_index(h, index_of(e)->axes);
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
    MF_HLO_BY(index_hlo),
    .samples = axis_index_samples,
};
