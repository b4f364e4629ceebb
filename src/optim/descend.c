/* Transformations whose state is at most the step count: learning rates and schedules, clipping, weight decay, set_to_zero. */
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
