/* Adafactor (arXiv:1804.04235): the second moments of a large matrix are kept as their means over rows and over columns.
 * Invariant: what is not kept is an array of one zero, so that the state has the parameters' structure. */
#include "optim/moments.h"
#include "optim/transformation.h"

/* ---- factored second moments. number: decay_rate, epsilon; flag: min_dim_size_to_factor (0: never), decay_offset */
typedef struct factors {
    int row_axis, column_axis; /* the greatest dimension, over which v_row is the mean, and the second greatest */
    bool has;
} factors;

/* Of equal dimensions the last one is the greatest. */
static int greatest(mf_shape shape, int but)
{
    int at = -1;
    for (int i = 0; i < shape.rank; i++)
        if (i != but && (at < 0 || shape.dims[i] >= shape.dims[at]))
            at = i;
    return at;
}

static factors factors_of(const mf_transformation *t, mf_value x)
{
    mf_shape shape = mf_shape_of(x);
    if (t->flag[0] == 0 || shape.rank < 2)
        return (factors){ 0 };
    int row = greatest(shape, -1), column = greatest(shape, row);
    return (factors){ row, column, shape.dims[column] >= t->flag[0] };
}

/* The three kinds of a leaf's state. */
typedef enum factored_part { ROWS, COLUMNS, ALL } factored_part;

typedef struct averaging {
    const mf_transformation *t;
    mf_value decay; /* set in an update */
    int64_t which;
} averaging;

static bool keeps(const averaging *a, factors f) { return f.has == (a->which != ALL); }

static mf_value nothing_of(mf_value like) { return mf_zeros(MF_SHAPE(1), mf_dtype_of(like)); }

static mf_value zeros_leaf(void *context, mf_value p)
{
    const averaging *a = context;
    factors f = factors_of(a->t, p);
    if (!keeps(a, f))
        return nothing_of(p);
    return a->which == ALL ? mf_zeros_like(p) : mf_sum(mf_zeros_like(p), a->which == ROWS ? f.row_axis : f.column_axis);
}

static mf_value average_leaf(void *context, mf_value g, mf_value v)
{
    const averaging *a = context;
    factors f = factors_of(a->t, g);
    if (!keeps(a, f))
        return nothing_of(v);
    mf_value square = mf_add(mf_square(g), a->t->number[1]);
    if (a->which != ALL)
        square = mf_mean(square, a->which == ROWS ? f.row_axis : f.column_axis);
    mf_value mixed = mf_add(mf_mul(v, a->decay), mf_mul(square, mf_sub(1, a->decay)));
    return mf_astype(mixed, mf_dtype_of(v));
}

static mf_value step_leaf(void *context, mf_value g, mf_value rows, mf_value columns, mf_value all)
{
    factors f = factors_of(((const averaging *)context)->t, g);
    if (!f.has)
        return mf_mul(g, mf_pow(all, -0.5));
    int within = f.column_axis > f.row_axis ? f.column_axis - 1 : f.column_axis;
    mf_value share = mf_div(rows, mf_mean(rows, .axis = within, .keepdims = true));
    mf_value by_row = mf_expand_dims(mf_pow(share, -0.5), f.row_axis), by_column = mf_expand_dims(mf_pow(columns, -0.5), f.column_axis);
    return mf_mul(mf_mul(g, by_row), by_column);
}

static mf_value factored_init(const mf_transformation *t, mf_value params)
{
    mf_value made[3];
    for (int64_t i = 0; i < 3; i++)
        made[i] = mf_tree_map(mf_closure(zeros_leaf, (&(averaging){ .t = t, .which = i })), params);
    return mf_dict("count", mf_count_zero(), "v", made[ALL], "v_col", made[COLUMNS], "v_row", made[ROWS]);
}

static mf_value factored_update(const mf_transformation *t, mf_value updates, mf_value *state, mf_value params)
{
    (void)params;
    mf_value count = mf_get(*state, "count"), step = mf_astype(mf_add(mf_sub(count, t->flag[1]), 1), MF_F32), next[3];
    averaging a = { .t = t, .decay = mf_sub(1, mf_pow(step, -t->number[0])) };
    const mf_value before[] = { mf_get(*state, "v_row"), mf_get(*state, "v_col"), mf_get(*state, "v") };
    for (a.which = 0; a.which < 3; a.which++)
        next[a.which] = mf_tree_map(mf_closure(average_leaf, &a), updates, before[a.which]);
    *state = mf_dict("count", mf_count_after(count), "v", next[ALL], "v_col", next[COLUMNS], "v_row", next[ROWS]);
    return mf_tree_map(mf_closure(step_leaf, &a), updates, next[ROWS], next[COLUMNS], next[ALL]);
}

static const mf_transformation_rule factored_rule = { "scale_by_factored_rms", "count, v, v_col, v_row", .init = factored_init,
                                                      .update = factored_update };

/* ---- steps in proportion to the parameters. number: min_scale */
static mf_value proportional_leaf(void *least, mf_value u, mf_value p)
{
    return mf_mul(u, mf_maximum(mf_root_mean_square(p), *(double *)least));
}

static mf_value proportional_update(const mf_transformation *t, mf_value updates, mf_value *state, mf_value params)
{
    (void)state;
    double least = t->number[0];
    return mf_tree_map(mf_closure(proportional_leaf, &least), updates, params);
}

static const mf_transformation_rule proportional_rule = { "scale_by_param_block_rms", "", .update = proportional_update };

mf_optimizer mf_adafactor_opt(const mf_adafactor_options *o)
{
    MF_LAYER;
    if (!o)
        return mf_adafactor();
    if (o->min_dim_size_to_factor < 0)
        return mf_transformation_wrong("adafactor: min_dim_size_to_factor must not be negative, not %lld",
                                       (long long)o->min_dim_size_to_factor);
    const mf_optimizer unset = { 0 };
    const mf_transformation factored = { .rule = &factored_rule,
                                         .name = "adafactor",
                                         .number = { o->decay_rate, o->eps },
                                         .flag = { o->no_factored                  ? 0
                                                   : o->min_dim_size_to_factor > 0 ? o->min_dim_size_to_factor
                                                                                   : 1,
                                                   o->decay_offset } };
    const mf_transformation proportional = { .rule = &proportional_rule, .name = "adafactor", .number = { 1e-3 } };
    bool has_rate = o->schedule.handle || o->learning_rate != 0;
    mf_optimizer rate = o->schedule.handle ? mf_scale_by_schedule(o->schedule) : mf_scale_updates(o->learning_rate);
    mf_optimizer parts[] = {
        mf_transformation_make(&factored, NULL, 0),
        o->clipping_threshold > 0 ? mf_clip_by_block_rms(o->clipping_threshold) : unset,
        has_rate ? rate : unset,
        o->no_multiply_by_parameter_scale ? unset : mf_transformation_make(&proportional, NULL, 0),
        o->momentum != 0 ? mf_ema(.decay = o->momentum, .debias = false, .accumulator_dtype = MF_F32) : unset,
        o->weight_decay_rate != 0 ? mf_add_decayed_weights(o->weight_decay_rate, o->mask, o->mask_fn) : unset,
        mf_scale_updates(-1),
    };
    return mf_flat_chain("adafactor", parts, 7);
}
