/* flax.nnx's normalisation layers: BatchNorm (optionally over all devices), InstanceNorm, LayerNorm, GroupNorm, RMSNorm. Invariant:
 * statistics are computed and applied in f32 or wider; the result has the layer's dtype or, if it has none, the input's. */
#include "nn/layer.h"

#include <string.h>

/* ---- statistics */

typedef struct moments {
    mf_value mean, var; /* the reduced dimensions are 1; the mean is unset in RMSNorm */
} moments;

static mf_value wide(mf_value x)
{
    mf_dtype d = mf_dtype_of(x);
    return d == MF_F16 || d == MF_BF16 ? mf_astype(x, MF_F32) : x;
}

/* The tree of means, averaged over the layer's axis_name too, in one collective; unchanged if it has none. */
static mf_value over_devices(mf_module self, mf_value means)
{
    if (mf_member_kind(self, "axis_name") != MF_MEMBER_TEXT)
        return means;
    mf_value groups = mf_member_value(self, "axis_index_groups");
    mf_collective_options o = { .axis_name = mf_member_text(self, "axis_name") };
    if (mf_kind_of(groups) != MF_KIND_NONE)
        o.axis_index_groups = groups;
    return mf_pmean_opt(means, &o);
}

static mf_value mean_of(mf_value x, mf_axis axes, mf_value mask) { return mf_mean(x, .axis = axes, .keepdims = true, .where = mask); }

static moments moments_of(mf_module self, mf_value x, mf_axis axes, mf_value mask, bool use_mean)
{
    moments m = { 0 };
    if (!use_mean) {
        m.var = over_devices(self, mean_of(mf_square(x), axes, mask));
    } else if (layer_has(self, "use_fast_variance")) {
        mf_value square = { 0 }, means = mf_tuple(mean_of(x, axes, mask), mean_of(mf_square(x), axes, mask));
        mf_unpack(over_devices(self, means), &m.mean, &square);
        m.var = mf_maximum(mf_sub(square, mf_square(m.mean)), 0); /* rounding can make it negative */
    } else {
        m.mean = over_devices(self, mean_of(x, axes, mask));
        m.var = over_devices(self, mean_of(mf_square(mf_sub(x, m.mean)), axes, mask));
    }
    return m;
}

/* (x - mean) / sqrt(var + epsilon) * scale + bias, with the parameters in the shape `features`. If the mean has that shape too, the result
 * is computed as (x - c) * factor - (mean - c) * factor with c = stop_gradient(mean): it has the same value and the same derivatives, but
 * the cotangent of the mean is then the bias's gradient times the factor, which saves a second sum over all of x. */
static mf_value normalized(mf_module self, mf_value x, moments m, mf_shape features)
{
    mf_shape one = m.mean.handle ? mf_shape_of(m.mean) : (mf_shape){ 0 };
    bool of_features = m.mean.handle && one.rank == features.rank && !memcmp(one.dims, features.dims, (size_t)one.rank * sizeof *one.dims);
    mf_value centre = of_features ? mf_stop_gradient(m.mean) : m.mean, bias = { 0 };
    mf_value y = m.mean.handle ? mf_sub(x, centre) : x;
    mf_value factor = mf_rsqrt(mf_add(m.var, mf_member_number(self, "epsilon")));
    if (mf_member_kind(self, "scale") == MF_MEMBER_STATE)
        factor = mf_mul(factor, mf_reshape(layer_param(self, "scale", x), features));
    if (mf_member_kind(self, "bias") == MF_MEMBER_STATE)
        bias = mf_reshape(layer_param(self, "bias", x), features);
    if (of_features) {
        mf_value rest = mf_mul(mf_sub(centre, m.mean), factor);
        bias = bias.handle ? mf_add(bias, rest) : rest;
    }
    y = mf_mul(y, factor);
    return bias.handle ? mf_add(y, bias) : y;
}

static mf_value by_own_statistics(mf_module self, mf_value x, mf_axis axes, mf_value mask, bool use_mean, mf_shape features)
{
    mf_value w = wide(x);
    return mf_astype(normalized(self, w, moments_of(self, w, axes, mask, use_mean), features), mf_dtype_of(x));
}

/* ---- arguments */

/* The arguments of a call: an input and optionally a mask. Returns unset, or an error. */
static mf_value check_inputs(mf_module self, const mf_value *inputs, int count, mf_value *x, mf_value *mask)
{
    if (count < 1 || count > 2)
        return mf_make_error(MF_ERROR_ARGUMENT, "%s takes an input and perhaps a mask, not %d arguments", mf_module_type(self), count);
    *x = layer_input(self, inputs[0]);
    *mask = count == 2 ? inputs[1] : (mf_value){ 0 };
    bool wrong = mf_kind_of(inputs[0]) == MF_KIND_ERROR || (count == 2 && mf_kind_of(inputs[1]) == MF_KIND_ERROR);
    return !wrong ? (mf_value){ 0 } : count == 2 ? mf_add(inputs[0], inputs[1]) : inputs[0];
}

/* Reads the axes in the list `member`: is_in[axis], and the axes in ascending order in at[0 .. *count). Returns unset, or an error if x has
 * no such axis. */
static mf_value axes_of(mf_module self, const char *member, mf_value x, bool *is_in, mf_axis *at, int *count)
{
    mf_ints list = mf_member_ints(self, member);
    int rank = mf_ndim(x);
    for (int i = 0; i < MF_MAX_RANK; i++)
        is_in[i] = false;
    for (int i = 0; i < list.count; i++) {
        int64_t axis = list.at[i] < 0 ? list.at[i] + rank : list.at[i];
        if (axis < 0 || axis >= rank)
            return mf_make_error(MF_ERROR_AXIS, "%s: entry %d of %s, %lld, is no dimension of an input of the shape %s",
                                 mf_module_type(self), i, member, (long long)list.at[i], mf_str_shape(mf_shape_of(x)));
        is_in[axis] = true;
    }
    *count = 0;
    for (int i = 0; i < rank; i++)
        if (is_in[i])
            at[(*count)++] = i;
    return (mf_value){ 0 };
}

/* Sets *features to the shape in which the parameters broadcast to x. Returns unset, or an error. */
static mf_value feature_shape(mf_module self, mf_value x, const bool *is_feature, mf_shape *features)
{
    mf_shape shape = mf_shape_of(x);
    int64_t size = 1, wanted = (int64_t)mf_member_number(self, "num_features");
    *features = shape;
    for (int i = 0; i < shape.rank; i++) {
        features->dims[i] = is_feature[i] ? shape.dims[i] : 1;
        size *= features->dims[i];
    }
    if (size == wanted)
        return (mf_value){ 0 };
    return mf_make_error(MF_ERROR_SHAPE, "%s: an input of the shape %s has %lld features, the layer %lld", mf_module_type(self),
                         mf_str_shape(shape), (long long)size, (long long)wanted);
}

/* ---- construction */

typedef struct norm_options {
    bool no_bias, no_scale, no_fast_variance;
    mf_dtype dtype, param_dtype;
    mf_initializer bias_init, scale_init;
    double epsilon;
    const char *axis_name;
    mf_value axis_index_groups;
} norm_options;

static void add_members(layer_members *m, mf_state rngs, int num_features, const norm_options *o)
{
    mf_shape shape = MF_SHAPE(num_features);
    if (!o->no_scale)
        layer_add_param(m, "scale", rngs, o->scale_init, mf_init_ones(), shape, o->param_dtype);
    if (!o->no_bias)
        layer_add_param(m, "bias", rngs, o->bias_init, mf_init_zeros(), shape, o->param_dtype);
    layer_add(m, "num_features", mf_node_int(num_features));
    layer_add(m, "epsilon", mf_node_double(o->epsilon));
    layer_add(m, "use_fast_variance", mf_node_int(!o->no_fast_variance));
    layer_add(m, "dtype", mf_node_int((int)o->dtype));
    layer_add(m, "axis_name", o->axis_name ? mf_node_name(o->axis_name) : mf_node_value(mf_none()));
    layer_add(m, "axis_index_groups", mf_node_value(o->axis_index_groups.handle ? o->axis_index_groups : mf_none()));
}

#define SCALE_OPTIONS(o)                                                                                                        \
    .no_scale = (o)->no_scale, .no_fast_variance = (o)->no_fast_variance, .dtype = (o)->dtype, .param_dtype = (o)->param_dtype, \
    .scale_init = (o)->scale_init, .epsilon = (o)->epsilon, .axis_name = (o)->axis_name, .axis_index_groups = (o)->axis_index_groups
#define NORM_OPTIONS(o)                                                        \
    {                                                                          \
        SCALE_OPTIONS(o), .no_bias = (o)->no_bias, .bias_init = (o)->bias_init \
    }

/* ---- batches */

/* Moves a running average towards the statistic of this batch, without derivatives. Returns its next value, or an error. */
static mf_value move(mf_module self, const char *name, mf_value to)
{
    mf_state state = mf_member_state(self, name);
    double momentum = mf_member_number(self, "momentum");
    mf_value now = mf_state_value(state), next = mf_astype(mf_stop_gradient(mf_reshape(to, mf_shape_of(now))), mf_dtype_of(now));
    return mf_state_set_value(state, mf_add(mf_mul(now, momentum), mf_mul(next, 1 - momentum)));
}

static mf_value batch_norm_call(mf_module self, const mf_value *inputs, int count)
{
    mf_value x = { 0 }, mask = { 0 }, wrong = check_inputs(self, inputs, count, &x, &mask);
    bool is_feature[MF_MAX_RANK];
    mf_axis features_at[MF_MAX_RANK], reduced[MF_MAX_RANK];
    mf_shape features = { 0 };
    int feature_count, n = 0;
    wrong = wrong.handle ? wrong : axes_of(self, "axis", x, is_feature, features_at, &feature_count);
    wrong = wrong.handle ? wrong : feature_shape(self, x, is_feature, &features);
    if (wrong.handle)
        return wrong;
    for (int i = 0; i < mf_ndim(x); i++)
        if (!is_feature[i])
            reduced[n++] = i;
    mf_value w = wide(x);
    moments m;
    if (layer_has(self, "use_running_average")) {
        m = (moments){ mf_reshape(layer_param(self, "mean", w), features), mf_reshape(layer_param(self, "var", w), features) };
    } else {
        m = moments_of(self, w, mf_axes_n(reduced, n), mask, true);
        mf_value mean = move(self, "mean", m.mean), var = move(self, "var", m.var);
        if (mf_kind_of(mean) == MF_KIND_ERROR || mf_kind_of(var) == MF_KIND_ERROR)
            return mf_kind_of(mean) == MF_KIND_ERROR ? mean : var;
    }
    return mf_astype(normalized(self, w, m, features), mf_dtype_of(x));
}

mf_module mf_nn_batch_norm_opt(mf_state rngs, int num_features, const mf_nn_batch_norm_options *o)
{
    MF_LAYER;
    if (!o)
        return mf_nn_batch_norm(rngs, num_features);
    mf_value wrong = layer_check_count("BatchNorm", "num_features", num_features);
    if (wrong.handle)
        return layer_error(wrong);
    norm_options norm = NORM_OPTIONS(o);
    layer_members m = { 0 };
    layer_add(&m, "mean", mf_node_state(mf_batch_state(mf_zeros(MF_SHAPE(num_features), MF_F32))));
    layer_add(&m, "var", mf_node_state(mf_batch_state(mf_ones(MF_SHAPE(num_features), MF_F32))));
    add_members(&m, rngs, num_features, &norm);
    layer_add(&m, "use_running_average", mf_node_int(o->use_running_average));
    layer_add(&m, "axis", mf_node_ints(MF_INTS(o->axis)));
    layer_add(&m, "momentum", mf_node_double(o->momentum));
    return mf_module_n("BatchNorm", (mf_fm)batch_norm_call, MF_ANY_NUMBER_, m.at, m.count);
}

/* ---- instances */

static mf_value instance_norm_call(mf_module self, const mf_value *inputs, int count)
{
    mf_value x = { 0 }, mask = { 0 }, wrong = check_inputs(self, inputs, count, &x, &mask);
    bool is_feature[MF_MAX_RANK];
    mf_axis features_at[MF_MAX_RANK], reduced[MF_MAX_RANK];
    mf_shape features = { 0 };
    int feature_count, n = 0;
    wrong = wrong.handle ? wrong : axes_of(self, "feature_axes", x, is_feature, features_at, &feature_count);
    if (!wrong.handle && is_feature[0])
        wrong = mf_make_error(MF_ERROR_AXIS, "InstanceNorm: feature_axes name the first dimension, which is the batch's");
    wrong = wrong.handle ? wrong : feature_shape(self, x, is_feature, &features);
    if (wrong.handle)
        return wrong;
    for (int i = 1; i < mf_ndim(x); i++)
        if (!is_feature[i])
            reduced[n++] = i;
    if (n == 0)
        return mf_make_error(MF_ERROR_SHAPE, "InstanceNorm: an input of the shape %s has no positions to take statistics of",
                             mf_str_shape(mf_shape_of(x)));
    return by_own_statistics(self, x, mf_axes_n(reduced, n), mask, true, features);
}

mf_module mf_nn_instance_norm_opt(mf_state rngs, int num_features, const mf_nn_instance_norm_options *o)
{
    MF_LAYER;
    if (!o)
        return mf_nn_instance_norm(rngs, num_features);
    mf_value wrong = layer_check_count("InstanceNorm", "num_features", num_features);
    if (wrong.handle)
        return layer_error(wrong);
    norm_options norm = NORM_OPTIONS(o);
    layer_members m = { 0 };
    add_members(&m, rngs, num_features, &norm);
    layer_add(&m, "feature_axes", mf_node_ints(o->feature_axes.count ? o->feature_axes : MF_INTS(-1)));
    return mf_module_n("InstanceNorm", (mf_fm)instance_norm_call, MF_ANY_NUMBER_, m.at, m.count);
}

/* ---- LayerNorm and RMSNorm */

static mf_value by_axes(mf_module self, const mf_value *inputs, int count, bool use_mean)
{
    mf_value x = { 0 }, mask = { 0 }, wrong = check_inputs(self, inputs, count, &x, &mask);
    bool is_feature[MF_MAX_RANK], is_reduced[MF_MAX_RANK];
    mf_axis at[MF_MAX_RANK], reduced[MF_MAX_RANK];
    mf_shape features = { 0 };
    int n, reduced_count = 0;
    wrong = wrong.handle ? wrong : axes_of(self, "feature_axes", x, is_feature, at, &n);
    wrong = wrong.handle ? wrong : axes_of(self, "reduction_axes", x, is_reduced, reduced, &reduced_count);
    wrong = wrong.handle ? wrong : feature_shape(self, x, is_feature, &features);
    if (wrong.handle)
        return wrong;
    return by_own_statistics(self, x, mf_axes_n(reduced, reduced_count), mask, use_mean, features);
}

static mf_value layer_norm_call(mf_module self, const mf_value *inputs, int count) { return by_axes(self, inputs, count, true); }
static mf_value rms_norm_call(mf_module self, const mf_value *inputs, int count) { return by_axes(self, inputs, count, false); }

static void add_axes(layer_members *m, mf_ints reduction_axes, mf_ints feature_axes)
{
    layer_add(m, "reduction_axes", mf_node_ints(reduction_axes.count ? reduction_axes : MF_INTS(-1)));
    layer_add(m, "feature_axes", mf_node_ints(feature_axes.count ? feature_axes : MF_INTS(-1)));
}

mf_module mf_nn_layer_norm_opt(mf_state rngs, int num_features, const mf_nn_layer_norm_options *o)
{
    MF_LAYER;
    if (!o)
        return mf_nn_layer_norm(rngs, num_features);
    mf_value wrong = layer_check_count("LayerNorm", "num_features", num_features);
    if (wrong.handle)
        return layer_error(wrong);
    norm_options norm = NORM_OPTIONS(o);
    layer_members m = { 0 };
    add_members(&m, rngs, num_features, &norm);
    add_axes(&m, o->reduction_axes, o->feature_axes);
    return mf_module_n("LayerNorm", (mf_fm)layer_norm_call, MF_ANY_NUMBER_, m.at, m.count);
}

mf_module mf_nn_rms_norm_opt(mf_state rngs, int num_features, const mf_nn_rms_norm_options *o)
{
    MF_LAYER;
    if (!o)
        return mf_nn_rms_norm(rngs, num_features);
    mf_value wrong = layer_check_count("RMSNorm", "num_features", num_features);
    if (wrong.handle)
        return layer_error(wrong);
    norm_options norm = { SCALE_OPTIONS(o), .no_bias = true };
    layer_members m = { 0 };
    add_members(&m, rngs, num_features, &norm);
    add_axes(&m, o->reduction_axes, o->feature_axes);
    return mf_module_n("RMSNorm", (mf_fm)rms_norm_call, MF_ANY_NUMBER_, m.at, m.count);
}

/* ---- GroupNorm: statistics over a group of features and all positions of an example */

/* (n, ..., features) -> (n, ..., groups, size) */
static mf_value grouped(mf_value x, int64_t groups)
{
    mf_shape shape = mf_shape_of(x);
    int last = shape.rank - 1;
    shape.dims[last + 1] = groups > 0 ? shape.dims[last] / groups : 0;
    shape.dims[last] = groups;
    shape.rank++;
    return mf_reshape(x, shape);
}

/* (n, 1..., groups, 1) -> (n, 1..., features): each group's statistic, repeated for its features */
static mf_value for_features(mf_value statistic, int64_t size) { return mf_repeat(mf_squeeze(statistic, -1), size, -1); }

static mf_value group_norm_call(mf_module self, const mf_value *inputs, int count)
{
    mf_value x = { 0 }, mask = { 0 }, wrong = check_inputs(self, inputs, count, &x, &mask);
    int64_t features = (int64_t)mf_member_number(self, "num_features"), groups = (int64_t)mf_member_number(self, "num_groups");
    wrong = wrong.handle ? wrong : layer_check_features(self, x, features);
    if (!wrong.handle && (mf_ndim(x) < 2 || mf_ndim(x) >= MF_MAX_RANK))
        wrong = mf_make_error(MF_ERROR_SHAPE, "GroupNorm: an input of the shape %s has no batch dimension and features",
                              mf_str_shape(mf_shape_of(x)));
    if (wrong.handle)
        return wrong;
    mf_value w = wide(x);
    int rank = mf_ndim(w), n = 0;
    mf_axis reduced[MF_MAX_RANK];
    for (int i = 1; i < rank - 1; i++)
        reduced[n++] = i;
    reduced[n++] = rank;
    moments m = moments_of(self, grouped(w, groups), mf_axes_n(reduced, n), mask.handle ? grouped(mask, groups) : mask, true);
    m = (moments){ for_features(m.mean, features / groups), for_features(m.var, features / groups) };
    mf_shape shape = { .rank = 1, .dims = { features } };
    return mf_astype(normalized(self, w, m, shape), mf_dtype_of(x));
}

mf_module mf_nn_group_norm_opt(mf_state rngs, int num_features, const mf_nn_group_norm_options *o)
{
    MF_LAYER;
    if (!o)
        return mf_nn_group_norm(rngs, num_features);
    mf_value wrong = layer_check_count("GroupNorm", "num_features", num_features);
    if (wrong.handle)
        return layer_error(wrong);
    int by = o->group_size ? o->group_size : o->num_groups;
    if (by < 1 || num_features % by)
        return layer_error(mf_make_error(MF_ERROR_ARGUMENT,
                                         o->group_size ? "GroupNorm: %d features do not divide into groups of %d"
                                                       : "GroupNorm: %d features do not divide into %d groups",
                                         num_features, by));
    int groups = o->group_size ? num_features / by : by;
    norm_options norm = NORM_OPTIONS(o);
    layer_members m = { 0 };
    add_members(&m, rngs, num_features, &norm);
    layer_add(&m, "num_groups", mf_node_int(groups));
    return mf_module_n("GroupNorm", (mf_fm)group_norm_call, MF_ANY_NUMBER_, m.at, m.count);
}
