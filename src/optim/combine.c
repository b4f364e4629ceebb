/* Wrappers of transformations: chain, masked, multi_transform, multi_steps (gradient accumulation), apply_if_finite. */
#include "optim/transformation.h"

#include <stdlib.h>

/* ---- chain: the state is a tuple of the parts' states */

/* The tuple of give(t, i, context) for each part i. */
static mf_value of_parts(const mf_transformation *t, mf_value (*give)(const mf_transformation *t, int i, void *context), void *context)
{
    mf_value *all = malloc(((size_t)t->count + 1) * sizeof *all);
    if (!all)
        return mf_make_error(MF_ERROR_MEMORY, "%s: out of memory", t->name);
    for (int i = 0; i < t->count; i++)
        all[i] = give(t, i, context);
    mf_value tuple = mf_tuple_n(all, (int)t->count);
    free(all);
    return tuple;
}

static mf_value chain_part(const mf_transformation *t, int i, void *params)
{
    return mf_transformation_init(t->parts[i], *(mf_value *)params);
}
static mf_value chain_init(const mf_transformation *t, mf_value params) { return of_parts(t, chain_part, &params); }

typedef struct passing {
    mf_value updates, state, params;
} passing;

static mf_value pass_on(const mf_transformation *t, int i, void *context)
{
    passing *p = context;
    mf_value state = mf_get(p->state, i);
    p->updates = mf_transformation_update(t->parts[i], p->updates, &state, p->params);
    return state;
}

static mf_value chain_update(const mf_transformation *t, mf_value updates, mf_value *state, mf_value params)
{
    passing p = { updates, *state, params };
    *state = of_parts(t, pass_on, &p);
    return p.updates;
}

static const mf_transformation_rule chain_rule = { "chain", NULL, .tuple_of_parts = true, .init = chain_init, .update = chain_update };

mf_optimizer mf_chain_n(const mf_optimizer *transformations, int count)
{
    MF_LAYER;
    if (count < 0)
        return mf_transformation_wrong("chain of %d transformations", count);
    return mf_transformation_make(&(mf_transformation){ .rule = &chain_rule, .name = "chain" }, transformations, count);
}

/* ---- masked: the inner transformation sees None for the leaves that the mask rejects; their updates pass unchanged */

static mf_value pruned_leaf(void *transformation, mf_value path, mf_value p, mf_value x)
{
    return mf_transformation_accepts(*(const mf_transformation **)transformation, path, p) ? x : mf_none();
}
static mf_value pruned(const mf_transformation *t, mf_value params, mf_value tree)
{
    return mf_tree_map_with_path(mf_closure(pruned_leaf, &t), params, tree);
}

typedef struct grafting {
    const mf_transformation *t;
    mf_value leaves;
    int *next;
} grafting;

static mf_value grafted_leaf(void *context, mf_value path, mf_value p, mf_value x)
{
    grafting *g = context;
    return mf_transformation_accepts(g->t, path, p) ? mf_get(g->leaves, (*g->next)++) : x;
}

static mf_value masked_init(const mf_transformation *t, mf_value params)
{
    return mf_dict("inner_state", mf_transformation_init(t->parts[0], pruned(t, params, params)));
}

static mf_value masked_update(const mf_transformation *t, mf_value updates, mf_value *state, mf_value params)
{
    mf_value inner = mf_get(*state, "inner_state");
    mf_value part = mf_transformation_update(t->parts[0], pruned(t, params, updates), &inner, pruned(t, params, params));
    int next = 0;
    grafting g = { t, mf_tree_leaves(part), &next };
    *state = mf_dict("inner_state", inner);
    return mf_kind_of(part) == MF_KIND_ERROR ? part : mf_tree_map_with_path(mf_closure(grafted_leaf, &g), params, updates);
}

static const mf_transformation_rule masked_rule = { "masked", "inner_state", .inner_key = "inner_state", .init = masked_init,
                                                    .update = masked_update };

mf_optimizer mf_masked_opt(mf_optimizer inner, const mf_masked_options *o)
{
    MF_LAYER;
    if (!o)
        return mf_masked(inner);
    mf_transformation t = {
        .rule = &masked_rule, .name = "masked", .mask = mf_kept_mask(o->mask), .mask_fn = mf_kept_schedule(o->mask_fn)
    };
    return mf_transformation_make(&t, &inner, 1);
}

/* ---- multi_transform: a masked transformation for each filter; a leaf belongs to the first filter that accepts it */

mf_transform_part_ mf_transform_part_filter(mf_filter which) { return (mf_transform_part_){ .is_filter = true, .which = which }; }
mf_transform_part_ mf_transform_part_transform(mf_optimizer transform) { return (mf_transform_part_){ .transform = transform }; }

static mf_value check_leaf(void *transformation, mf_value path, mf_value x)
{
    const mf_transformation *t = *(const mf_transformation **)transformation;
    size_t size = 0;
    const char *words = mf_static_data(path, &size);
    for (int i = 0; i < t->count; i++)
        if (mf_transformation_accepts(mf_transformation_of(t->parts[i]), path, x))
            return mf_none();
    return mf_make_error(MF_ERROR_ARGUMENT, "multi_transform: no filter accepts the parameter %s; the last one may be mf_everything()",
                         words && *words ? words : "(the whole tree)");
}

static mf_value partition_init(const mf_transformation *t, mf_value params)
{
    mf_value all = mf_tree_map_with_path(mf_closure(check_leaf, &t), params);
    return mf_kind_of(all) == MF_KIND_ERROR ? all : chain_init(t, params);
}

static const mf_transformation_rule partition_rule = { "multi_transform", NULL, .tuple_of_parts = true, .init = partition_init,
                                                       .update = chain_update };

/* Accepts what filter i accepts and no filter before it. */
static mf_filter first_accepting(const mf_transform_part_ *parts, const mf_filter *filters, int i)
{
    mf_filter both[] = { parts[2 * i].which, mf_filter_not(mf_filter_any_n(filters, i)) };
    return i ? mf_filter_all_n(both, 2) : both[0];
}

mf_optimizer mf_multi_transform_n(const mf_transform_part_ *parts, int count)
{
    MF_LAYER;
    int pairs = count / 2;
    if (count < 2 || count % 2)
        return mf_transformation_wrong("multi_transform: pairs of a filter and a transformation are needed, not %d arguments", count);
    for (int i = 0; i < count; i++)
        if (parts[i].is_filter != (i % 2 == 0))
            return mf_transformation_wrong("multi_transform: argument %d is no %s", i + 1, i % 2 ? "transformation" : "filter");
    MF_SCOPE;
    mf_filter *filters = malloc((size_t)pairs * sizeof *filters);
    mf_optimizer *all = malloc((size_t)pairs * sizeof *all), made;
    for (int i = 0; filters && all && i < pairs; i++) {
        filters[i] = parts[2 * i].which;
        all[i] = mf_masked(parts[2 * i + 1].transform, .mask = first_accepting(parts, filters, i));
    }
    if (filters && all)
        made = mf_transformation_make(&(mf_transformation){ .rule = &partition_rule, .name = "multi_transform" }, all, pairs);
    else
        made = mf_transformation_no_memory();
    free(filters);
    free(all);
    return made;
}

/* ---- multi_steps: averages every_k gradients for one update. flag: every_k */

typedef struct emission {
    mf_value emit, mini_step;
} emission;

static mf_value mean_leaf(void *context, mf_value g, mf_value mean)
{
    mf_value n = mf_add(((emission *)context)->mini_step, 1);
    return mf_add(mean, mf_div(mf_sub(g, mean), mf_astype(n, mf_dtype_of(mean))));
}

static mf_value chosen_leaf(void *context, mf_value now, mf_value before)
{
    return mf_astype(mf_where(((emission *)context)->emit, now, before), mf_dtype_of(before));
}
static mf_value emitted_leaf(void *context, mf_value x) { return mf_where(((emission *)context)->emit, x, mf_zeros_like(x)); }
static mf_value held_leaf(void *context, mf_value x) { return mf_where(((emission *)context)->emit, mf_zeros_like(x), x); }
static mf_value dtype_of_leaf(mf_value x, mf_value like) { return mf_astype(x, mf_dtype_of(like)); }

static mf_value multi_init(const mf_transformation *t, mf_value params)
{
    return mf_dict("acc_grads", mf_zeros_in(params, MF_F32), "gradient_step", mf_count_zero(), "inner_opt_state",
                   mf_transformation_init(t->parts[0], params), "mini_step", mf_count_zero());
}

static mf_value multi_update(const mf_transformation *t, mf_value updates, mf_value *state, mf_value params)
{
    mf_value before = mf_get(*state, "inner_opt_state"), inner = before, step = mf_get(*state, "gradient_step");
    emission e = { .mini_step = mf_get(*state, "mini_step") };
    mf_value mean = mf_tree_map(mf_closure(mean_leaf, &e), updates, mf_get(*state, "acc_grads"));
    mf_value final = mf_transformation_update(t->parts[0], mf_tree_map(dtype_of_leaf, mean, updates), &inner, params);
    e.emit = mf_equal(e.mini_step, t->flag[0] - 1);
    *state = mf_dict("acc_grads", mf_tree_map(mf_closure(held_leaf, &e), mean), "gradient_step",
                     mf_where(e.emit, mf_count_after(step), step), "inner_opt_state",
                     mf_tree_map(mf_closure(chosen_leaf, &e), inner, before), "mini_step",
                     mf_where(e.emit, 0, mf_count_after(e.mini_step)));
    return mf_tree_map(mf_closure(emitted_leaf, &e), final);
}

static const mf_transformation_rule multi_rule = { "multi_steps", "acc_grads, gradient_step, inner_opt_state, mini_step",
                                                   .inner_key = "inner_opt_state", .init = multi_init, .update = multi_update };

mf_optimizer mf_multi_steps(mf_optimizer inner, int every_k)
{
    MF_LAYER;
    if (every_k < 1)
        return mf_transformation_wrong("multi_steps: a step of %d gradients; at least 1 is needed", every_k);
    return mf_transformation_make(&(mf_transformation){ .rule = &multi_rule, .name = "multi_steps", .flag = { every_k } }, &inner, 1);
}

/* ---- apply_if_finite: skips updates with gradients that are not finite. flag: max_consecutive_errors */

static mf_value finite_init(const mf_transformation *t, mf_value params)
{
    return mf_dict("inner_state", mf_transformation_init(t->parts[0], params), "last_finite",
                   mf_array_n(MF_BOOL, MF_SHAPE0, (double[]){ 1 }, 1), "notfinite_count", mf_count_zero(), "total_notfinite",
                   mf_count_zero());
}

static mf_value finite_update(const mf_transformation *t, mf_value updates, mf_value *state, mf_value params)
{
    mf_value before = mf_get(*state, "inner_state"), inner = before, finite = mf_tree_all_finite(updates);
    mf_value count = mf_where(finite, 0, mf_count_after(mf_get(*state, "notfinite_count"))), total = mf_get(*state, "total_notfinite");
    emission e = { .emit = mf_logical_or(finite, mf_greater(count, t->flag[0])) };
    mf_value final = mf_transformation_update(t->parts[0], updates, &inner, params);
    *state = mf_dict("inner_state", mf_tree_map(mf_closure(chosen_leaf, &e), inner, before), "last_finite", finite, "notfinite_count",
                     count, "total_notfinite", mf_where(finite, total, mf_count_after(total)));
    return mf_tree_map(mf_closure(emitted_leaf, &e), final);
}

static const mf_transformation_rule finite_rule = { "apply_if_finite", "inner_state, last_finite, notfinite_count, total_notfinite",
                                                    .inner_key = "inner_state", .init = finite_init, .update = finite_update };

mf_optimizer mf_apply_if_finite(mf_optimizer inner, int max_consecutive_errors)
{
    MF_LAYER;
    mf_transformation t = { .rule = &finite_rule, .name = "apply_if_finite", .flag = { max_consecutive_errors } };
    return mf_transformation_make(&t, &inner, 1);
}
