/* nnx.metrics: modules that reduce a batch to sums and accumulate the sums of all batches. Invariant: a metric holds 64-bit sums and
 * counts, so the result does not depend on how the examples are divided among batches and devices. */
#include <manyfold.h>

#include <string.h>

/* ---- the values of a batch */

static bool has(mf_value dict, const char *key)
{
    if (mf_kind_of(dict) != MF_KIND_DICT)
        return false;
    for (int i = 0, n = mf_len(dict); i < n; i++)
        if (strcmp(mf_key(dict, i), key) == 0)
            return true;
    return false;
}

static mf_value value_of(mf_module self, mf_value values, const char *key)
{
    if (has(values, key))
        return mf_get(values, key);
    return mf_is_error(values) ? values
                               : mf_make_error(MF_ERROR_ARGUMENT, "%s: the values of a batch have no '%s'", mf_module_type(self), key);
}

/* {"total", "count"}: the sum and the number of the unmasked values. */
static mf_value sums_of(mf_value values, mf_value batch, mf_dtype dtype)
{
    mf_value all = mf_astype(values, dtype);
    if (!has(batch, "mask") || mf_kind_of(mf_get(batch, "mask")) == MF_KIND_NONE)
        return mf_dict("total", mf_sum(all, .dtype = dtype), "count", mf_scalar((double)mf_size(values), MF_I64));
    mf_value mask = mf_broadcast_to(mf_astype(mf_get(batch, "mask"), MF_BOOL), mf_shape_of(values));
    return mf_dict("total", mf_sum(all, .dtype = dtype, .where = mask), "count", mf_sum(mf_astype(mask, MF_I64), .dtype = MF_I64));
}

static mf_value mean_of(mf_value sums)
{
    mf_value mean = mf_div(mf_astype(mf_get(sums, "total"), MF_F64), mf_astype(mf_get(sums, "count"), MF_F64));
    return mf_astype(mean, MF_F32);
}

static mf_value no_sums(mf_dtype dtype) { return mf_dict("total", mf_scalar(0, dtype), "count", mf_scalar(0, MF_I64)); }

/* ---- averages */

static mf_value average_call(mf_module self, mf_value batch)
{
    mf_value values = value_of(self, batch, mf_member_text(self, "argname"));
    return mf_is_error(values) ? values : sums_of(values, batch, MF_F64);
}

mf_module mf_nn_average(const char *argname)
{
    MF_LAYER;
    return mf_module_new("Average", average_call, "argname", argname ? argname : "values", "sums", mf_hidden_state(no_sums(MF_F64)),
                         "result", mf_fn(mean_of));
}

/* ---- accuracy */

static mf_value check_labels(mf_module self, mf_value logits, mf_value labels, int missing)
{
    mf_shape a = mf_shape_of(logits), b = mf_shape_of(labels);
    mf_dtype d = mf_dtype_of(labels);
    bool fits = a.rank == b.rank + missing;
    for (int i = 0; fits && i < b.rank; i++)
        fits = a.dims[i] == b.dims[i];
    if (mf_is_error(logits) || mf_is_error(labels))
        return mf_is_error(logits) ? logits : labels;
    if (!fits)
        return mf_make_error(MF_ERROR_SHAPE, "%s: labels of the shape %s do not go with logits of the shape %s", mf_module_type(self),
                             mf_str_shape(b), mf_str_shape(a));
    if (d < MF_I8 || d > MF_U64)
        return mf_make_error(MF_ERROR_DTYPE, "%s: labels are integers, not %s", mf_module_type(self), mf_str_dtype(d));
    return (mf_value){ 0 };
}

static mf_value is_among(mf_value logits, mf_value labels, int k)
{
    if (k == 1)
        return mf_equal(mf_argmax(logits, -1), labels);
    mf_value best = mf_get(mf_top_k(logits, k), 1);
    return mf_any(mf_equal(best, mf_expand_dims(labels, -1)), .axis = -1);
}

static mf_value accuracy_call(mf_module self, mf_value batch)
{
    mf_value logits = value_of(self, batch, "logits"), labels = value_of(self, batch, "labels");
    bool binary = mf_member_number(self, "binary") != 0;
    mf_value wrong = check_labels(self, logits, labels, !binary);
    if (wrong.handle)
        return wrong;
    mf_value right = binary ? mf_equal(mf_greater_equal(logits, mf_member_number(self, "threshold")), mf_greater(labels, 0))
                            : is_among(logits, labels, (int)mf_member_number(self, "k"));
    return sums_of(right, batch, MF_I64);
}

mf_module mf_nn_accuracy_opt(const mf_nn_accuracy_options *o)
{
    MF_LAYER;
    static const mf_nn_accuracy_options none;
    o = o ? o : &none;
    if (o->k < 0 || (o->k > 1 && o->binary))
        return (mf_module){ mf_make_error(MF_ERROR_ARGUMENT, "Accuracy among the first %d classes", o->k).handle };
    return mf_module_new("Accuracy", accuracy_call, "k", o->k ? o->k : 1, "binary", o->binary, "threshold", o->threshold, "sums",
                         mf_hidden_state(no_sums(MF_I64)), "result", mf_fn(mean_of));
}

/* ---- confusion matrix */

static mf_value as_is(mf_value sums) { return sums; }

/* Masked examples and labels that are no class are counted in an extra bin, which is dropped. */
static mf_value confusion_call(mf_module self, mf_value batch)
{
    int n = (int)mf_member_number(self, "num_classes");
    mf_value logits = value_of(self, batch, "logits"), labels = value_of(self, batch, "labels");
    mf_value wrong = check_labels(self, logits, labels, 1);
    if (wrong.handle)
        return wrong;
    mf_value guess = mf_argmax(logits, -1), counts = mf_zeros(MF_SHAPE((int64_t)n * n + 1), MF_I64);
    labels = mf_astype(labels, MF_I32);
    mf_value valid = mf_logical_and(mf_greater_equal(labels, 0), mf_logical_and(mf_less(labels, n), mf_less(guess, n)));
    if (has(batch, "mask") && mf_kind_of(mf_get(batch, "mask")) != MF_KIND_NONE)
        valid = mf_logical_and(valid, mf_astype(mf_get(batch, "mask"), MF_BOOL));
    mf_value place = mf_where(valid, mf_add(mf_mul(labels, n), guess), n * n);
    counts = mf_index_add(counts, mf_ravel(place), mf_scalar(1, MF_I64));
    return mf_reshape(mf_slice_in_dim(counts, 0, (int64_t)n * n, 1, 0), MF_SHAPE(n, n));
}

mf_module mf_nn_confusion_matrix(int num_classes)
{
    MF_LAYER;
    enum { MOST = 1 << 14 };
    if (num_classes < 1 || num_classes > MOST)
        return (mf_module){
            mf_make_error(MF_ERROR_ARGUMENT, "ConfusionMatrix of %d classes; there are from 1 to %d", num_classes, MOST).handle
        };
    return mf_module_new("ConfusionMatrix", confusion_call, "num_classes", num_classes, "sums",
                         mf_hidden_state(mf_zeros(MF_SHAPE(num_classes, num_classes), MF_I64)), "result", mf_fn(as_is));
}

/* ---- several metrics */

/* The batch for one metric: if "mask" is a dict of masks by metric, it is replaced by the metric's own. */
static mf_value batch_for(const char *metric, mf_value batch)
{
    if (!has(batch, "mask") || mf_kind_of(mf_get(batch, "mask")) != MF_KIND_DICT)
        return batch;
    mf_value masks = mf_get(batch, "mask"), own = has(masks, metric) ? mf_get(masks, metric) : mf_none();
    return mf_set(batch, own, "mask");
}

static mf_value multi_call(mf_module self, mf_value batch)
{
    mf_value all = mf_dict();
    for (int i = 0, n = mf_member_count(self); i < n; i++) {
        const char *name = mf_member_name(self, i);
        mf_value sums = mf_call(mf_member_module(self, name), batch_for(name, batch));
        if (mf_is_error(sums))
            return sums;
        all = mf_set(all, sums, name);
    }
    return all;
}

mf_module mf_nn_multi_metric_n(const mf_node_ *metrics, int count)
{
    MF_LAYER;
    mf_module m = mf_module_n("MultiMetric", (mf_fm)multi_call, 1, metrics, count);
    for (int i = 0, n = mf_member_count(m); i < n; i++)
        if (mf_member_kind(m, mf_member_name(m, i)) != MF_MEMBER_MODULE)
            return (mf_module){ mf_make_error(MF_ERROR_ARGUMENT, "MultiMetric: member %s is no metric", mf_member_name(m, i)).handle };
    return m;
}

/* ---- update, result, reset */

static bool holds_sums(mf_module m) { return mf_member_kind(m, "sums") == MF_MEMBER_STATE; }

static mf_value add_sums(mf_module m, mf_value sums)
{
    if (holds_sums(m)) {
        mf_state state = mf_member_state(m, "sums");
        return mf_state_set_value(state, mf_tree_map(mf_add, mf_state_value(state), sums));
    }
    for (int i = 0, n = mf_member_count(m); i < n; i++) {
        const char *name = mf_member_name(m, i);
        mf_value held = mf_member_kind(m, name) == MF_MEMBER_MODULE ? add_sums(mf_member_module(m, name), mf_get(sums, name)) : sums;
        if (mf_is_error(held))
            return held;
    }
    return sums;
}

mf_value mf_nn_metric_update_opt(mf_module metric, mf_value batch, const mf_nn_metric_options *o)
{
    MF_LAYER;
    mf_value sums = mf_call(metric, batch);
    if (o && o->axis_name)
        sums = mf_psum(sums, o->axis_name);
    if (mf_is_error(sums))
        return sums;
    mf_value held = add_sums(metric, sums);
    return mf_is_error(held) ? held : sums;
}

mf_value(mf_nn_metric_result)(mf_module metric, mf_value sums)
{
    MF_LAYER;
    if (mf_member_kind(metric, "result") == MF_MEMBER_FUNCTION)
        return mf_call(mf_member_function(metric, "result"), sums);
    if (mf_member_count(metric) < 0)
        return mf_state_value(mf_member_state(metric, "sums")); /* the module's own error */
    mf_value all = mf_dict();
    for (int i = 0, n = mf_member_count(metric); i < n; i++) {
        const char *name = mf_member_name(metric, i);
        all = mf_set(all, mf_nn_metric_result(mf_member_module(metric, name), mf_get(sums, name)), name);
    }
    return all;
}

static mf_value held_sums(mf_module m)
{
    if (holds_sums(m))
        return mf_state_value(mf_member_state(m, "sums"));
    mf_value all = mf_dict();
    for (int i = 0, n = mf_member_count(m); i < n; i++)
        all = mf_set(all, held_sums(mf_member_module(m, mf_member_name(m, i))), mf_member_name(m, i));
    return all;
}

mf_value mf_nn_metric_compute(mf_module metric)
{
    MF_LAYER;
    return mf_nn_metric_result(metric, held_sums(metric));
}

mf_status mf_nn_metric_reset(mf_module metric)
{
    MF_LAYER;
    if (holds_sums(metric)) {
        mf_state state = mf_member_state(metric, "sums");
        return mf_error_status(mf_state_set_value(state, mf_tree_map(mf_zeros_like, mf_state_value(state))));
    }
    if (mf_member_count(metric) < 0)
        return mf_error_status(mf_state_value(mf_member_state(metric, "sums")));
    mf_status status = MF_OK;
    for (int i = 0, n = mf_member_count(metric); i < n && status == MF_OK; i++)
        status = mf_nn_metric_reset(mf_member_module(metric, mf_member_name(metric, i)));
    return status;
}
