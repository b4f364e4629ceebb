/* Transformations whose state is at most the step count: learning rates and schedules, clipping, weight decay, set_to_zero. */
#include "optim/moments.h"
#include "optim/transformation.h"

/* ---- rates. number: step_size or, with a schedule, the sign */

static mf_value scale_update(const mf_transformation *t, mf_value updates, mf_value *state, mf_value params)
{
    (void)state, (void)params;
    return mf_scaled(updates, mf_f(t->number[0]));
}

static mf_value schedule_init(const mf_transformation *t, mf_value params)
{
    (void)t, (void)params;
    return mf_dict("count", mf_count_zero());
}

static mf_value schedule_update(const mf_transformation *t, mf_value updates, mf_value *state, mf_value params)
{
    (void)params;
    mf_value count = mf_get(*state, "count");
    *state = mf_dict("count", mf_count_after(count));
    return mf_scaled(updates, mf_mul(mf_call(t->schedule, count), t->number[0]));
}

static const mf_transformation_rule scale_rule = { "scale", "", .update = scale_update };
static const mf_transformation_rule schedule_rule = { "scale_by_schedule", "count", .init = schedule_init, .update = schedule_update };

static mf_optimizer scaled(const char *name, double by, mf_function schedule)
{
    mf_transformation t = {
        .rule = schedule.handle ? &schedule_rule : &scale_rule, .name = name, .number = { by }, .schedule = mf_kept_schedule(schedule)
    };
    return mf_transformation_make(&t, NULL, 0);
}

mf_optimizer mf_scale_updates(double step_size)
{
    MF_LAYER;
    return scaled("scale", step_size, (mf_function){ 0 });
}

mf_optimizer(mf_scale_by_schedule)(mf_function schedule)
{
    MF_LAYER;
    return schedule.handle ? scaled("scale_by_schedule", 1, schedule) : mf_transformation_wrong("scale_by_schedule: no schedule is given");
}

mf_optimizer mf_scale_by_learning_rate_opt(const mf_scale_by_learning_rate_options *o)
{
    MF_LAYER;
    if (!o)
        return mf_scale_by_learning_rate();
    return scaled("scale_by_learning_rate", o->schedule.handle ? -1 : -o->learning_rate, o->schedule);
}

static mf_value sign_update(const mf_transformation *t, mf_value updates, mf_value *state, mf_value params)
{
    (void)t, (void)state, (void)params;
    return mf_tree_map(mf_sign, updates);
}

static const mf_transformation_rule sign_rule = { "scale_by_sign", "", .update = sign_update };

mf_optimizer mf_scale_by_sign(void)
{
    MF_LAYER;
    return mf_transformation_make(&(mf_transformation){ .rule = &sign_rule, .name = "scale_by_sign" }, NULL, 0);
}

/* ---- clipping. number: the limit */

static mf_value clip_leaf(void *limit, mf_value x) { return mf_clip(x, -*(double *)limit, *(double *)limit); }

static mf_value clip_update(const mf_transformation *t, mf_value updates, mf_value *state, mf_value params)
{
    (void)state, (void)params;
    double limit = t->number[0];
    return mf_tree_map(mf_closure(clip_leaf, &limit), updates);
}

typedef struct norm_limit {
    mf_value norm, fits;
    double limit;
} norm_limit;

static mf_value clip_norm_leaf(void *context, mf_value x)
{
    const norm_limit *c = context;
    return mf_where(c->fits, x, mf_mul(mf_div(x, mf_astype(c->norm, mf_dtype_of(x))), c->limit));
}

static mf_value clip_norm_update(const mf_transformation *t, mf_value updates, mf_value *state, mf_value params)
{
    (void)state, (void)params;
    norm_limit c = { .norm = mf_global_norm(updates), .limit = t->number[0] };
    c.fits = mf_less(c.norm, c.limit);
    return mf_tree_map(mf_closure(clip_norm_leaf, &c), updates);
}

static const mf_transformation_rule clip_rule = { "clip", "", .update = clip_update };
static const mf_transformation_rule clip_norm_rule = { "clip_by_global_norm", "", .update = clip_norm_update };

mf_optimizer mf_clip_updates(double max_delta)
{
    MF_LAYER;
    return mf_transformation_make(&(mf_transformation){ .rule = &clip_rule, .name = "clip", .number = { max_delta } }, NULL, 0);
}

mf_optimizer mf_clip_by_global_norm(double max_norm)
{
    MF_LAYER;
    return mf_transformation_make(&(mf_transformation){ .rule = &clip_norm_rule, .name = "clip_by_global_norm", .number = { max_norm } },
                                  NULL, 0);
}

static mf_value clip_block_leaf(void *threshold, mf_value u)
{
    return mf_div(u, mf_maximum(mf_div(mf_root_mean_square(u), *(double *)threshold), 1));
}

static mf_value clip_block_update(const mf_transformation *t, mf_value updates, mf_value *state, mf_value params)
{
    (void)state, (void)params;
    double threshold = t->number[0];
    return mf_tree_map(mf_closure(clip_block_leaf, &threshold), updates);
}

static const mf_transformation_rule clip_block_rule = { "clip_by_block_rms", "", .update = clip_block_update };

mf_optimizer mf_clip_by_block_rms(double threshold)
{
    MF_LAYER;
    return mf_transformation_make(&(mf_transformation){ .rule = &clip_block_rule, .name = "clip_by_block_rms", .number = { threshold } },
                                  NULL, 0);
}

/* adaptive_grad_clip. number: clipping, eps. The norm of each unit: of a vector as a whole, of a matrix's column, of a kernel's output. */
static mf_value unit_norm(mf_value x)
{
    int rank = mf_ndim(x), wide = 0;
    for (int i = 0; i < rank; i++)
        wide += mf_dim(x, i) != 1;
    mf_axis over = wide <= 1 ? MF_ALL : rank <= 3 ? 0 : rank == 4 ? mf_axes(0, 1, 2) : mf_axes(0, 1, 2, 3);
    return mf_sqrt(mf_sum(mf_square(x), .axis = over, .keepdims = true));
}

static mf_value clip_unit_leaf(void *numbers, mf_value g, mf_value p)
{
    const double *c = numbers;
    if (mf_ndim(g) > 5)
        return mf_make_error(MF_ERROR_SHAPE, "adaptive_grad_clip: parameters have at most 5 dimensions, not %d", mf_ndim(g));
    mf_value norm = unit_norm(g), most = mf_mul(mf_maximum(unit_norm(p), c[1]), c[0]);
    return mf_where(mf_less(norm, most), g, mf_mul(g, mf_div(most, mf_maximum(norm, 1e-6))));
}

static mf_value clip_unit_update(const mf_transformation *t, mf_value updates, mf_value *state, mf_value params)
{
    (void)state;
    double numbers[2] = { t->number[0], t->number[1] };
    return mf_tree_map(mf_closure(clip_unit_leaf, &numbers), updates, params);
}

static const mf_transformation_rule clip_unit_rule = { "adaptive_grad_clip", "", .update = clip_unit_update };

mf_optimizer(mf_adaptive_grad_clip)(double clipping, double eps)
{
    MF_LAYER;
    return mf_transformation_make(
        &(mf_transformation){ .rule = &clip_unit_rule, .name = "adaptive_grad_clip", .number = { clipping, eps } }, NULL, 0);
}

/* ---- weight decay. number: weight_decay */

static mf_value decay_leaf(void *transformation, mf_value path, mf_value g, mf_value p)
{
    const mf_transformation *t = *(const mf_transformation **)transformation;
    return mf_transformation_accepts(t, path, p) ? mf_add(g, mf_mul(p, t->number[0])) : g;
}

static mf_value decay_update(const mf_transformation *t, mf_value updates, mf_value *state, mf_value params)
{
    (void)state;
    return t->number[0] == 0 ? updates : mf_tree_map_with_path(mf_closure(decay_leaf, &t), updates, params);
}

static const mf_transformation_rule decay_rule = { "add_decayed_weights", "", .update = decay_update };

mf_optimizer mf_add_decayed_weights_opt(const mf_add_decayed_weights_options *o)
{
    MF_LAYER;
    if (!o)
        return mf_add_decayed_weights();
    return mf_transformation_make(&(mf_transformation){ .rule = &decay_rule,
                                                        .name = "add_decayed_weights",
                                                        .number = { o->weight_decay },
                                                        .mask = mf_kept_mask(o->mask),
                                                        .mask_fn = mf_kept_schedule(o->mask_fn) },
                                  NULL, 0);
}

/* ---- zeros */

static mf_value known_leaf(mf_value x) { return mf_where(mf_isnan(x), mf_zeros_like(x), x); }
static mf_value known_update(const mf_transformation *t, mf_value updates, mf_value *state, mf_value params)
{
    (void)t, (void)state, (void)params;
    return mf_tree_map(known_leaf, updates);
}

static const mf_transformation_rule known_rule = { "zero_nans", "", .update = known_update };

mf_optimizer mf_zero_nans(void)
{
    MF_LAYER;
    return mf_transformation_make(&(mf_transformation){ .rule = &known_rule, .name = "zero_nans" }, NULL, 0);
}

static mf_value zero_leaf(mf_value x) { return mf_zeros_like(x); }
static mf_value zero_update(const mf_transformation *t, mf_value updates, mf_value *state, mf_value params)
{
    (void)t, (void)state, (void)params;
    return mf_tree_map(zero_leaf, updates);
}

static const mf_transformation_rule zero_rule = { "set_to_zero", "", .update = zero_update };

mf_optimizer mf_set_to_zero(void)
{
    MF_LAYER;
    return mf_transformation_make(&(mf_transformation){ .rule = &zero_rule, .name = "set_to_zero" }, NULL, 0);
}
