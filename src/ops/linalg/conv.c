/* conv_general_dilated: convolutions over any number of spatial dimensions, with XLA's dimension numbers as lists of positions.
 *
 * Invariant: rules refer to dimensions only through the specs (batch or out feature, feature or in feature, spatial ...), so every layout
 * is handled alike. The transposes are convolutions too: of the dilated cotangent with the reversed kernel, and of the operand with
 * the cotangent as the kernel. Evaluation sums over the kernel's places in row-major order and then over the input features, in f32 for
 * f16, bf16 and f32, in f64 for f64; integers wrap. */
#include "base/memory/alloc.h"
#include "ops/shape/shape.h"

#include <string.h>

/* ---- type */
static bool is_spec(const mf_intlist *spec, int rank) { return spec->count == rank && shape_distinct(spec, rank); }

static mf_error_object *check_lists(const mf_type_context *c, const mf_conv_params *p, int spatial)
{
    const mf_intlist *lists[] = { p->window_strides, p->lhs_dilation, p->rhs_dilation, p->padding_low, p->padding_high };
    static const char *const names[] = { "window_strides", "lhs_dilation", "rhs_dilation", "padding_low", "padding_high" };
    for (int k = 0; k < 5; k++) {
        if (lists[k]->count != spatial)
            return mf_type_error(c, MF_ERROR_SHAPE, "%s must have one entry for each of the %d spatial dimensions, not %d", names[k],
                                 spatial, lists[k]->count);
        mf_error_object *e = shape_check_steps(c, names[k], lists[k], k < 3);
        if (e)
            return e;
    }
    return NULL;
}

static mf_error_object *check_groups(const mf_type_context *c, const mf_conv_params *p)
{
    int64_t batch = c->in[0]->dims[p->lhs_spec->at[0]], features = c->in[0]->dims[p->lhs_spec->at[1]];
    int64_t out = c->in[1]->dims[p->rhs_spec->at[0]], in = c->in[1]->dims[p->rhs_spec->at[1]];
    int64_t by_feature = p->feature_group_count, by_batch = p->batch_group_count;
    if (by_feature < 1 || by_batch < 1 || (by_feature > 1 && by_batch > 1))
        return mf_type_error(c, MF_ERROR_ARGUMENT,
                             "feature_group_count and batch_group_count must be positive and not both above 1 (%lld, %lld)",
                             (long long)by_feature, (long long)by_batch);
    if (features % by_feature || features / by_feature != in)
        return mf_type_error(c, MF_ERROR_SHAPE,
                             "lhs has %lld features, not the kernel's %lld input features times feature_group_count %lld",
                             (long long)features, (long long)in, (long long)by_feature);
    if (out % by_feature || out % by_batch || batch % by_batch)
        return mf_type_error(c, MF_ERROR_SHAPE, "the kernel's %lld output features and the batch of %lld must divide into the groups",
                             (long long)out, (long long)batch);
    return NULL;
}

static mf_error_object *conv_type(mf_type_context *c)
{
    const mf_conv_params *p = c->params;
    const mf_type *x = c->in[0], *w = c->in[1];
    int64_t dims[MF_RANK];
    if (x->dtype != w->dtype || (!mf_dtype_is_float(x->dtype) && !mf_dtype_is_int(x->dtype)))
        return mf_type_error(c, MF_ERROR_DTYPE, "lhs and the kernel must have one floating or integer dtype");
    if (x->rank < 2 || w->rank != x->rank)
        return mf_type_error(c, MF_ERROR_SHAPE, "lhs and the kernel must have one rank of at least 2");
    if (!is_spec(p->lhs_spec, x->rank) || !is_spec(p->rhs_spec, x->rank) || !is_spec(p->out_spec, x->rank))
        return mf_type_error(c, MF_ERROR_AXIS, "each dimension specification must name all %d dimensions once", x->rank);
    mf_error_object *e = check_lists(c, p, x->rank - 2);
    if (!e)
        e = check_groups(c, p);
    if (e)
        return e;
    dims[p->out_spec->at[0]] = x->dims[p->lhs_spec->at[0]] / p->batch_group_count;
    dims[p->out_spec->at[1]] = w->dims[p->rhs_spec->at[0]];
    for (int i = 0; i < x->rank - 2; i++)
        dims[p->out_spec->at[i + 2]] = shape_windows(x->dims[p->lhs_spec->at[i + 2]], p->padding_low->at[i], p->padding_high->at[i],
                                                     p->lhs_dilation->at[i], w->dims[p->rhs_spec->at[i + 2]], p->rhs_dilation->at[i],
                                                     p->window_strides->at[i]);
    c->out[0] = mf_type_get(x->dtype, x->weak && w->weak, x->rank, dims);
    return NULL;
}

/* ---- derivatives */
/* Merges dimension `from` into dimension `into` (counted without `from`) as its outer part. */
static mf_variable *join(mf_builder *b, mf_variable *x, int from, int into)
{
    int order[MF_RANK], n = 0;
    int64_t dims[MF_RANK];
    const mf_type *t = x->type;
    for (int i = 0; i < t->rank; i++) {
        if (i == into)
            order[i] = from;
        if (i == into)
            continue;
        n += n == from;
        order[i] = n++;
    }
    for (int i = 0, k = 0; i < t->rank; i++) {
        if (i == into)
            continue;
        dims[k] = t->dims[order[i]] * (i == into + 1 ? t->dims[from] : 1);
        k++;
    }
    return b->error ? x : e_reshape(b, e_transpose(b, x, order), t->rank - 1, dims);
}

/* Splits dimension `axis` into two, the outer one of size `outer`. */
static mf_variable *divide(mf_builder *b, mf_variable *x, int axis, int64_t outer)
{
    int64_t dims[MF_RANK + 1];
    const mf_type *t = x->type;
    for (int i = 0; i < t->rank; i++)
        dims[i + (i > axis)] = t->dims[i];
    if (b->error)
        return x;
    dims[axis + 1] = outer ? t->dims[axis] / outer : 0;
    dims[axis] = outer;
    return e_reshape(b, x, t->rank + 1, dims);
}

static const mf_intlist *swapped(const mf_intlist *spec)
{
    int64_t at[MF_RANK];
    for (int i = 0; i < spec->count; i++)
        at[i] = spec->at[i < 2 ? 1 - i : i];
    return mf_ints_intern(at, spec->count);
}

static const mf_intlist *spatial_axes(const mf_intlist *spec) { return mf_ints_intern(spec->at + 2, spec->count - 2); }

/* The dilated extents in spatial dimension i, from which the transposes' paddings are computed. */
typedef struct extents {
    int64_t in, kernel, out, low;
} extents;

static extents extents_of(const mf_eqn *e, int i)
{
    const mf_conv_params *p = e->params;
    return (extents){ shape_dilated(e->in[0]->type->dims[p->lhs_spec->at[i + 2]], p->lhs_dilation->at[i]),
                      shape_dilated(e->in[1]->type->dims[p->rhs_spec->at[i + 2]], p->rhs_dilation->at[i]),
                      shape_dilated(e->out[0]->type->dims[p->out_spec->at[i + 2]], p->window_strides->at[i]), p->padding_low->at[i] };
}

static mf_variable *transpose_lhs(mf_builder *b, const mf_eqn *e, mf_variable *ct, mf_variable *w)
{
    const mf_conv_params *p = e->params;
    int64_t low[MF_RANK], high[MF_RANK], groups = p->feature_group_count * p->batch_group_count;
    int spatial = p->lhs_spec->count - 2, out = (int)p->rhs_spec->at[0], in = (int)p->rhs_spec->at[1];
    for (int i = 0; i < spatial; i++) {
        extents x = extents_of(e, i);
        low[i] = x.kernel - x.low - 1;
        high[i] = x.in + x.kernel - 1 - x.out - low[i];
    }
    if (groups > 1)
        w = join(b, divide(b, w, out, groups), out, in); /* the groups are now among the input features */
    mf_conv_params back = { p->lhs_dilation,
                            mf_ints_intern(low, spatial),
                            mf_ints_intern(high, spatial),
                            p->window_strides,
                            p->rhs_dilation,
                            p->out_spec,
                            swapped(p->rhs_spec),
                            p->lhs_spec,
                            groups,
                            1 };
    mf_variable *x = mf_emit(b, e->op, &back, 2, ct, e_rev(b, w, spatial_axes(p->rhs_spec)));
    if (p->batch_group_count > 1) {
        int batch = (int)p->lhs_spec->at[0], feature = (int)p->lhs_spec->at[1];
        x = join(b, divide(b, x, feature, p->batch_group_count), feature, batch);
    }
    return x;
}

static mf_variable *transpose_rhs(mf_builder *b, const mf_eqn *e, mf_variable *ct, mf_variable *x)
{
    const mf_conv_params *p = e->params;
    int64_t high[MF_RANK];
    int spatial = p->lhs_spec->count - 2;
    if (ct->type->size == 0)
        return NULL; /* a convolution cannot have an empty kernel */
    for (int i = 0; i < spatial; i++) {
        extents s = extents_of(e, i);
        high[i] = s.out - s.in + s.kernel - s.low - 1;
    }
    mf_conv_params back = { p->rhs_dilation,      p->padding_low,        mf_ints_intern(high, spatial), p->lhs_dilation,
                            p->window_strides,    swapped(p->lhs_spec),  swapped(p->out_spec),          swapped(p->rhs_spec),
                            p->batch_group_count, p->feature_group_count };
    return mf_emit(b, e->op, &back, 2, x, ct);
}

static void conv_transpose(mf_builder *b, const mf_eqn *e, const bool *linear, mf_variable *const *in, mf_variable *const *ct,
                           mf_variable **ct_in)
{
    if (linear[0] && linear[1])
        mf_transpose_none(b, e, linear, in, ct, ct_in);
    else if (linear[0])
        ct_in[0] = transpose_lhs(b, e, ct[0], in[1]);
    else
        ct_in[1] = transpose_rhs(b, e, ct[0], in[0]);
}

/* ---- batching: the new dimension is merged into the batch or the features */
/* Dimension `axis` of x (counted without the batch dimension) consists of groups; merges the batch dimension inside them. */
static mf_variable *join_within(mf_builder *b, mf_variable *x, int batch, int axis, int64_t groups)
{
    x = divide(b, x, axis + (batch <= axis), groups);
    x = join(b, x, batch + (axis < batch), axis + 1);
    return join(b, x, axis, axis);
}

static mf_variable *batch_both(mf_builder *b, const mf_eqn *e, mf_variable *const *in, const int *in_axis, int64_t size)
{
    mf_conv_params p = *(const mf_conv_params *)e->params;
    bool by_batch = p.batch_group_count > 1;
    mf_variable *x = join(b, in[0], in_axis[0], (int)p.lhs_spec->at[by_batch ? 0 : 1]),
                *w = join(b, in[1], in_axis[1], (int)p.rhs_spec->at[0]);
    *(by_batch ? &p.batch_group_count : &p.feature_group_count) *= size;
    return divide(b, mf_emit(b, e->op, &p, 2, x, w), (int)p.out_spec->at[1], size);
}

static mf_variable *batch_lhs(mf_builder *b, const mf_eqn *e, mf_variable *const *in, int axis, int64_t size)
{
    const mf_conv_params *p = e->params;
    int batch = (int)p->lhs_spec->at[0];
    mf_variable *x = p->batch_group_count > 1 ? join_within(b, in[0], axis, batch, p->batch_group_count) : join(b, in[0], axis, batch);
    return divide(b, mf_emit(b, e->op, p, 2, x, in[1]), (int)p->out_spec->at[0], size);
}

static mf_variable *batch_rhs(mf_builder *b, const mf_eqn *e, mf_variable *const *in, int axis, int64_t size)
{
    const mf_conv_params *p = e->params;
    int feature = (int)p->rhs_spec->at[0], out = (int)p->out_spec->at[1];
    int64_t groups = p->feature_group_count * p->batch_group_count;
    mf_variable *w = groups > 1 ? join_within(b, in[1], axis, feature, groups) : join(b, in[1], axis, feature);
    mf_variable *y = mf_emit(b, e->op, p, 2, in[0], w);
    if (groups == 1)
        return divide(b, y, out, size);
    y = divide(b, divide(b, y, out, groups), out + 1, size);
    return join(b, y, out, out + 1); /* groups and features merged again, behind the batch dimension */
}

static void conv_batch(mf_batch_context *c, const mf_eqn *e, mf_variable *const *in, const int *in_axis, mf_variable **out, int *out_axis)
{
    const mf_conv_params *p = e->params;
    bool lhs = in_axis[0] >= 0, rhs = in_axis[1] >= 0;
    out_axis[0] = (int)p->out_spec->at[lhs && !rhs ? 0 : 1];
    if (lhs && rhs)
        out[0] = batch_both(c->b, e, in, in_axis, c->size);
    else
        out[0] = lhs ? batch_lhs(c->b, e, in, in_axis[0], c->size) : batch_rhs(c->b, e, in, in_axis[1], c->size);
}

/* ---- cost and evaluation */
static mf_cost conv_cost(const mf_eqn *e)
{
    const mf_conv_params *p = e->params;
    mf_cost cost = mf_cost_bytes(e);
    int64_t out = e->in[1]->type->dims[p->rhs_spec->at[0]], taps = out ? e->in[1]->type->size / out : 0; /* products per result */
    cost.flops = 2.0 * (double)e->out[0]->type->size * (double)taps;
    return cost;
}

/* The operands as N-spatial-C and spatial-I-O, the result as N-spatial-O. */
typedef struct problem {
    const mf_conv_params *p;
    int spatial;
    int64_t batch, groups, in_features, features, out_features; /* in_features per group; batch of the result; features of lhs */
    int64_t in[MF_RANK], kernel[MF_RANK], out[MF_RANK];
    int64_t in_count, kernel_count, out_count;
} problem;

static int64_t sizes_of(const mf_type *t, const mf_intlist *spec, int64_t *out)
{
    int64_t n = 1;
    for (int i = 2; i < spec->count; i++)
        n *= out[i - 2] = t->dims[spec->at[i]];
    return n;
}

static problem problem_of(const mf_eqn *e)
{
    const mf_conv_params *p = e->params;
    const mf_type *x = e->in[0]->type, *w = e->in[1]->type, *y = e->out[0]->type;
    problem s = { .p = p, .spatial = p->lhs_spec->count - 2, .groups = p->feature_group_count * p->batch_group_count };
    s.batch = y->dims[p->out_spec->at[0]];
    s.features = x->dims[p->lhs_spec->at[1]];
    s.in_features = w->dims[p->rhs_spec->at[1]];
    s.out_features = w->dims[p->rhs_spec->at[0]];
    s.in_count = sizes_of(x, p->lhs_spec, s.in);
    s.kernel_count = sizes_of(w, p->rhs_spec, s.kernel);
    s.out_count = sizes_of(y, p->out_spec, s.out);
    return s;
}

static void step(int rank, int64_t *at, const int64_t *counts)
{
    for (int i = rank - 1; i >= 0 && ++at[i] == counts[i]; i--)
        at[i] = 0;
}

/* The place in lhs that meets kernel place k at result place o; -1 in the padding or between dilated elements, where there are zeros. */
static int64_t meets(const problem *s, const int64_t *o, const int64_t *k)
{
    int64_t index = 0;
    for (int i = 0; i < s->spatial; i++) {
        int64_t at = o[i] * s->p->window_strides->at[i] - s->p->padding_low->at[i] + k[i] * s->p->rhs_dilation->at[i];
        int64_t d = s->p->lhs_dilation->at[i];
        if (at < 0 || at % d || at / d >= s->in[i])
            return -1;
        index = index * s->in[i] + at / d;
    }
    return index;
}

/* One result place of one example: sums over the kernel's places in row-major order; within one over groups, input features, output
 * features. */
#define CONVOLVE(name, type)                                                                                                   \
    static void name##_place(const problem *s, const int64_t *o, int64_t n, const type *x, const type *w, type *y)             \
    {                                                                                                                          \
        int64_t k[MF_RANK] = { 0 }, width = s->out_features / s->groups;                                                       \
        bool by_batch = s->p->batch_group_count > 1;                                                                           \
        for (int64_t c = 0; c < s->kernel_count; c++, step(s->spatial, k, s->kernel), w += s->in_features * s->out_features) { \
            int64_t at = meets(s, o, k);                                                                                       \
            for (int64_t g = 0; g < s->groups; g++) {                                                                          \
                int64_t example = by_batch ? g * s->batch + n : n, first = by_batch ? 0 : g * s->in_features;                  \
                for (int64_t i = 0; i < s->in_features; i++) {                                                                 \
                    type from = at < 0 ? 0 : x[(example * s->in_count + at) * s->features + first + i];                        \
                    for (int64_t f = g * width; f < (g + 1) * width; f++)                                                      \
                        y[f] += from * w[i * s->out_features + f];                                                             \
                }                                                                                                              \
            }                                                                                                                  \
        }                                                                                                                      \
    }                                                                                                                          \
    static void name(const problem *s, const type *x, const type *w, type *y)                                                  \
    {                                                                                                                          \
        for (int64_t n = 0; n < s->batch; n++) {                                                                               \
            int64_t o[MF_RANK] = { 0 };                                                                                        \
            for (int64_t c = 0; c < s->out_count; c++, step(s->spatial, o, s->out), y += s->out_features)                      \
                name##_place(s, o, n, x, w, y);                                                                                \
        }                                                                                                                      \
    }
CONVOLVE(convolve_f32, float)
CONVOLVE(convolve_f64, double)
CONVOLVE(convolve_u64, uint64_t)

/* Converts N-spatial-O in `dtype` to the result's own layout and dtype. */
static bool give(const mf_eqn *e, mf_dtype dtype, const void *sum, void *out)
{
    const mf_type *t = e->out[0]->type;
    const mf_intlist *spec = ((const mf_conv_params *)e->params)->out_spec;
    int64_t dims[MF_RANK], own[MF_RANK], to[MF_RANK], from[MF_RANK], step_bytes = mf_dtype_size(t->dtype);
    void *rounded = mf_alloc((size_t)t->bytes + 16);
    if (!rounded)
        return false;
    mf_contiguous_strides(t, own);
    mf_convert(t->dtype, rounded, dtype, sum, t->size);
    for (int i = 0; i < t->rank; i++) {
        int64_t axis = spec->at[i == 0 ? 0 : i == t->rank - 1 ? 1 : i + 1];
        dims[i] = t->dims[axis];
        to[i] = own[axis];
    }
    for (int i = t->rank - 1; i >= 0; step_bytes *= dims[i--])
        from[i] = step_bytes;
    mf_copy_strided(t->rank, dims, mf_dtype_size(t->dtype), out, to, rounded, from);
    mf_free(rounded);
    return true;
}

static mf_error_object *conv_evaluate(const mf_eqn *e, const void *const *in, void *const *out)
{
    const mf_conv_params *p = e->params;
    const mf_type *x = e->in[0]->type, *w = e->in[1]->type, *y = e->out[0]->type;
    mf_dtype dtype = x->dtype == MF_F64 ? MF_F64 : mf_dtype_is_float(x->dtype) ? MF_F32 : MF_I64;
    int64_t x_order[MF_RANK], w_order[MF_RANK];
    int rank = x->rank;
    for (int i = 0; i < rank - 2; i++) {
        x_order[i + 1] = p->lhs_spec->at[i + 2];
        w_order[i] = p->rhs_spec->at[i + 2];
    }
    x_order[0] = p->lhs_spec->at[0];
    x_order[rank - 1] = p->lhs_spec->at[1];
    w_order[rank - 2] = p->rhs_spec->at[1];
    w_order[rank - 1] = p->rhs_spec->at[0];
    void *a = shape_packed(x, in[0], x_order, dtype), *b = shape_packed(w, in[1], w_order, dtype);
    void *sum = mf_calloc((size_t)y->size + 1, (size_t)mf_dtype_size(dtype));
    bool fine = a && b && sum;
    problem s = problem_of(e);
    if (fine && dtype == MF_F32)
        convolve_f32(&s, a, b, sum);
    if (fine && dtype == MF_F64)
        convolve_f64(&s, a, b, sum);
    if (fine && dtype == MF_I64)
        convolve_u64(&s, a, b, sum);
    fine = fine && give(e, dtype, sum, out[0]);
    mf_free(a);
    mf_free(b);
    mf_free(sum);
    return fine ? NULL : mf_error_out_of_memory();
}

static const mf_param conv_params[] = {
    MF_PARAM(mf_conv_params, window_strides, MF_PARAM_INTS),
    MF_PARAM(mf_conv_params, padding_low, MF_PARAM_INTS),
    MF_PARAM(mf_conv_params, padding_high, MF_PARAM_INTS),
    MF_PARAM(mf_conv_params, lhs_dilation, MF_PARAM_INTS),
    MF_PARAM(mf_conv_params, rhs_dilation, MF_PARAM_INTS),
    MF_PARAM(mf_conv_params, lhs_spec, MF_PARAM_INTS),
    MF_PARAM(mf_conv_params, rhs_spec, MF_PARAM_INTS),
    MF_PARAM(mf_conv_params, out_spec, MF_PARAM_INTS),
    MF_PARAM(mf_conv_params, feature_group_count, MF_PARAM_INT),
    MF_PARAM(mf_conv_params, batch_group_count, MF_PARAM_INT),
    { 0 },
};
/* clang-format off */
#define NHWC(strides, low, high, lhs_dilation, rhs_dilation, features, batches) \
    "[window_strides=(" strides "), padding_low=(" low "), padding_high=(" high "), lhs_dilation=(" lhs_dilation "), rhs_dilation=(" rhs_dilation "), " \
    "lhs_spec=(0,3,1,2), rhs_spec=(3,2,0,1), out_spec=(0,3,1,2), feature_group_count=" features ", batch_group_count=" batches "] "
static const char *const conv_samples[] = {
    NHWC("1,1", "1,1", "1,1", "1,1", "1,1", "1", "1") "f32[2,5,4,2]{-2:2} f32[3,3,2,3]{-2:2}",
    NHWC("2,3", "0,1", "1,0", "1,1", "1,1", "1", "1") "f32[1,6,7,2]{-2:2} f32[3,2,2,2]{-2:2}",
    NHWC("1,1", "2,1", "2,0", "1,1", "2,3", "1", "1") "f64[1,7,7,1]{-2:2} f64[3,2,1,2]{-2:2}",
    NHWC("1,2", "2,2", "1,2", "2,3", "1,1", "1", "1") "f32[1,4,3,2]{-2:2} f32[3,3,2,2]{-2:2}",
    NHWC("1,1", "-1,0", "1,-1", "1,1", "1,1", "1", "1") "f32[1,5,5,2]{-2:2} f32[3,3,2,2]{-2:2}",
    NHWC("1,1", "1,1", "1,1", "1,1", "1,1", "2", "1") "f32[1,4,4,4]{-2:2} f32[3,3,2,6]{-2:2}",
    NHWC("2,2", "0,0", "1,1", "1,1", "1,1", "4", "1") "f32[1,5,5,4]{-2:2} f32[3,3,1,4]{-2:2}",
    NHWC("1,1", "1,1", "1,1", "1,1", "1,1", "1", "2") "f32[4,4,4,2]{-2:2} f32[3,3,2,4]{-2:2}",
    NHWC("1,1", "0,0", "0,0", "1,1", "1,1", "1", "1") "i32[1,4,4,1]{-9:9} i32[2,2,1,1]{-9:9}",
    NHWC("1,1", "0,0", "0,0", "1,1", "1,1", "1", "1") "bf16[1,3,3,2]{-2:2} bf16[2,2,2,2]{-2:2}",
    NHWC("1,1", "-1,0", "1,-1", "1,1", "1,1", "1", "1") "bf16[1,5,5,2]{-2:2} bf16[3,3,2,2]{-2:2}",
    NHWC("1,1", "0,0", "0,0", "1,1", "1,1", "1", "1") "f32[1,2,2,1]{-2:2} f32[3,3,1,1]{-2:2}",
    "[window_strides=(1,2), padding_low=(1,0), padding_high=(0,1), lhs_dilation=(1,1), rhs_dilation=(1,1), "
    "lhs_spec=(0,1,2,3), rhs_spec=(0,1,2,3), out_spec=(0,1,2,3), feature_group_count=2, batch_group_count=1] f32[1,4,5,5]{-2:2} f32[4,2,3,2]{-2:2}",
    "[window_strides=(2), padding_low=(1), padding_high=(1), lhs_dilation=(1), rhs_dilation=(1), "
    "lhs_spec=(0,2,1), rhs_spec=(2,1,0), out_spec=(0,1,2), feature_group_count=1, batch_group_count=1] f32[2,7,2]{-2:2} f32[3,2,3]{-2:2}",
    /* the zeros around and between elements are multiplied too */
    NHWC("1,1", "1,0", "0,0", "1,1", "1,1", "1", "1") "f32[1,2,1,1]{=1,1} f32[2,1,1,2]{=nan,1,2,1} -> f32[1,2,1,2]{=nan,1,nan,2}",
    NHWC("1,1", "0,0", "0,0", "2,1", "1,1", "1", "1") "f32[1,2,1,1]{=1,1} f32[1,1,1,2]{=inf,1} -> f32[1,3,1,2]{=inf,1,nan,0,inf,1}",
    NHWC("1,1", "2,0", "2,0", "1,1", "1,1", "2", "1") "f32[1,2,1,2]{=1,1,1,1} f32[2,1,1,2]{=1,2,inf,1} -> f32[1,5,1,2]{=nan,0,inf,1,inf,3,nan,2,nan,0}",
    "[lhs_spec=(0,1), rhs_spec=(1,0), out_spec=(0,1), feature_group_count=1, batch_group_count=1] f32[2,3]{=1,2,3,4,5,6} f32[3,1]{=1,1,1} "
    "-> f32[2,1]{=6,15}",
    NULL,
};
/* clang-format on */
/* The spatial dimensions of a spec: all but the first two. */
static const char *spatial_of(mf_hlo *h, const mf_intlist *spec) { return h_list(h, mf_ints_intern(spec->at + 2, spec->count - 2)); }

/* Crops negative padding and inserts the dilation in advance, because XLA's CPU reads out of bounds if a padding is negative. */
static mf_hlo_value cut_operand(mf_hlo *h, const mf_conv_params *p, mf_hlo_value x)
{
    int64_t low[MF_RANK] = { 0 }, high[MF_RANK] = { 0 }, interior[MF_RANK] = { 0 };
    for (int i = 0; i < p->padding_low->count; i++) {
        int64_t d = p->lhs_spec->at[2 + i];
        low[d] = p->padding_low->at[i];
        high[d] = p->padding_high->at[i];
        interior[d] = p->lhs_dilation->at[i] - 1;
    }
    return h_pad(h, x, h_scalar(h, x.type->dtype, 0), low, high, interior);
}

MF_HLO_RULE(conv_hlo)
{
    const mf_conv_params *p = e->params;
    const mf_intlist *l = p->lhs_spec, *r = p->rhs_spec, *o = p->out_spec, *low = p->padding_low, *high = p->padding_high;
    const mf_intlist *dilation = p->lhs_dilation;
    const mf_type *type = e->out[0]->type;
    mf_hlo_value operands[2];
    for (int i = 0; i < 2; i++)
        operands[i] = h_convert(h, in[i], h_product_dtype(h, in[i].type->dtype));
    int64_t zeros[MF_RANK] = { 0 }, ones[MF_RANK];
    bool cuts = false;
    for (int i = 0; i < low->count; i++) {
        cuts = cuts || low->at[i] < 0 || high->at[i] < 0;
        ones[i] = 1;
    }
    if (cuts) {
        operands[0] = cut_operand(h, p, operands[0]);
        dilation = mf_ints_intern(ones, low->count);
        low = high = mf_ints_intern(zeros, low->count);
    }
    out[0] = h_op(h, "convolution", mf_type_with_dtype(type, h_product_dtype(h, type->dtype)), operands, 2,
                  "batch_group_count = %lld : i64, dimension_numbers = #stablehlo.conv<raw input_batch_dimension = %lld, "
                  "input_feature_dimension = %lld, input_spatial_dimensions = %s, kernel_output_feature_dimension = %lld, "
                  "kernel_input_feature_dimension = %lld, kernel_spatial_dimensions = %s, output_batch_dimension = %lld, "
                  "output_feature_dimension = %lld, output_spatial_dimensions = %s>, feature_group_count = %lld : i64, "
                  "lhs_dilation = %s, padding = %s, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>], "
                  "rhs_dilation = %s, window_strides = %s",
                  (long long)p->batch_group_count, (long long)l->at[0], (long long)l->at[1], spatial_of(h, l), (long long)r->at[0],
                  (long long)r->at[1], spatial_of(h, r), (long long)o->at[0], (long long)o->at[1], spatial_of(h, o),
                  (long long)p->feature_group_count, h_ints(h, dilation), h_edges(h, low->at, high->at, low->count),
                  h_ints(h, p->rhs_dilation), h_ints(h, p->window_strides));
    out[0] = h_convert(h, out[0], type->dtype);
}

const mf_op mf_op_conv_general_dilated = {
    .name = "conv_general_dilated",
    .approximate = true,
    .params = conv_params,
    .params_size = sizeof(mf_conv_params),
    .type_rule = conv_type,
    .jvp = e_jvp_bilinear,
    .transpose = conv_transpose,
    .partial_eval = mf_partial_eval_all_or_nothing,
    .dce = mf_dce_whole,
    .batch = conv_batch,
    .variance = mf_variance_join,
    .cost = conv_cost,
    .lower = mf_lower_none,
    .evaluate = conv_evaluate,
    MF_HLO_BY(conv_hlo),
    .samples = conv_samples,
};
