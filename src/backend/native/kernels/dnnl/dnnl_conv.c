/* Convolutions for oneDNN: their descriptors, and the layouts that it is given. */
#include "dnnl_primitive.h"

#include <string.h>

static int64_t or1(int64_t n) { return n ? n : 1; }

static int64_t out_size(const mf_dnnl_conv *c, int i)
{
    int64_t window = (c->kernel[i] - 1) * or1(c->dilation[i]) + 1;
    int64_t extent = c->in[i] + c->pad_low[i] + c->pad_high[i] - window;
    return extent < 0 ? 0 : extent / or1(c->stride[i]) + 1;
}

/* Strides of N-spatial-C data, listed {n, c, spatial...}. */
static void activation_strides(int64_t *s, const int64_t *given, const int64_t *dims, int rank)
{
    if (given[0] || given[1]) {
        for (int i = 0; i < rank; i++)
            s[i] = given[i];
        return;
    }
    int64_t step = dims[1];
    s[1] = 1;
    for (int i = rank - 1; i >= 2; i--, step *= dims[i + 1])
        s[i] = step;
    s[0] = step;
}

/* {o, i, spatial...} of spatial-I-O weights; with groups o splits into {group, o}. Returns the rank. */
static int weight_dims(const mf_dnnl_conv *c, int64_t *dims, int64_t *s)
{
    int64_t groups = or1(c->groups), o = c->out_channels, i = c->in_channels / groups, step = o * i;
    int64_t strides[2 + MF_DNNL_SPATIAL] = { 1, o };
    for (int d = c->spatial - 1; d >= 0; d--) {
        strides[2 + d] = step;
        step *= c->kernel[d];
    }
    const int64_t *from = c->w_strides[0] || c->w_strides[1] ? c->w_strides : strides;
    int rank = 0;
    if (groups > 1) {
        dims[rank] = groups;
        s[rank++] = o / groups * from[0];
    }
    dims[rank] = o / groups;
    s[rank++] = from[0];
    dims[rank] = i;
    s[rank++] = from[1];
    for (int d = 0; d < c->spatial; d++) {
        dims[rank] = c->kernel[d];
        s[rank++] = from[2 + d];
    }
    return rank;
}

enum { ANY_X = 1, ANY_W = 2, ANY_Y = 4, ANY_ALL = 7 }; /* operands whose layout the library chooses */
enum { LONG_ROW = 1 << 15 };

typedef struct conv_descs {
    desc x, w, y;
} conv_descs;

static bool make_conv_descs(const mf_dnnl_conv *c, unsigned any, conv_descs *out)
{
    int rank = 2 + c->spatial;
    int64_t x[2 + MF_DNNL_SPATIAL] = { c->batch, c->in_channels }, y[2 + MF_DNNL_SPATIAL] = { c->batch, c->out_channels };
    int64_t w[3 + MF_DNNL_SPATIAL], xs[2 + MF_DNNL_SPATIAL], ys[2 + MF_DNNL_SPATIAL], ws[3 + MF_DNNL_SPATIAL];
    for (int i = 0; i < c->spatial; i++) {
        x[2 + i] = c->in[i];
        y[2 + i] = out_size(c, i);
    }
    activation_strides(xs, c->x_strides, x, rank);
    activation_strides(ys, c->y_strides, y, rank);
    int weight_rank = weight_dims(c, w, ws);
    return mf_dnnl_desc_make(&out->x, rank, x, any & ANY_X ? NULL : xs, c->dtype) &&
           mf_dnnl_desc_make(&out->w, weight_rank, w, any & ANY_W ? NULL : ws, c->kind == MF_DNNL_BACKWARD_WEIGHTS ? MF_F32 : c->dtype) &&
           mf_dnnl_desc_make(&out->y, rank, y, any & ANY_Y ? NULL : ys, c->dtype);
}

typedef struct conv_steps {
    dnnl_dims_t stride, dilation, low, high;
} conv_steps;

static conv_steps make_steps(const mf_dnnl_conv *c)
{
    conv_steps s;
    memset(&s, 0, sizeof s);
    for (int i = 0; i < c->spatial; i++) {
        s.stride[i] = or1(c->stride[i]);
        s.dilation[i] = or1(c->dilation[i]) - 1;
        s.low[i] = c->pad_low[i];
        s.high[i] = c->pad_high[i];
    }
    return s;
}

#if DNNL_VERSION_MAJOR >= 3

static dnnl_status_t forward_desc(dnnl_primitive_desc_t *pd, conv_descs *d, conv_steps *s)
{
    return mf_dnnl.dnnl_convolution_forward_primitive_desc_create(pd, mf_dnnl.engine, dnnl_forward_training, dnnl_convolution_direct, d->x,
                                                                  d->w, NULL, d->y, s->stride, s->dilation, s->low, s->high, mf_dnnl.attr);
}

static dnnl_status_t backward_desc(dnnl_primitive_desc_t *pd, mf_dnnl_conv_kind kind, conv_descs *d, conv_steps *s,
                                   dnnl_primitive_desc_t hint)
{
    if (kind == MF_DNNL_BACKWARD_DATA)
        return mf_dnnl.dnnl_convolution_backward_data_primitive_desc_create(pd, mf_dnnl.engine, dnnl_convolution_direct, d->x, d->w, d->y,
                                                                            s->stride, s->dilation, s->low, s->high, hint, mf_dnnl.attr);
    return mf_dnnl.dnnl_convolution_backward_weights_primitive_desc_create(
        pd, mf_dnnl.engine, dnnl_convolution_direct, d->x, d->w, NULL, d->y, s->stride, s->dilation, s->low, s->high, hint, mf_dnnl.attr);
}

#else

static dnnl_status_t forward_desc(dnnl_primitive_desc_t *pd, conv_descs *d, conv_steps *s)
{
    dnnl_convolution_desc_t op;
    dnnl_status_t status = mf_dnnl.dnnl_dilated_convolution_forward_desc_init(&op, dnnl_forward_training, dnnl_convolution_direct, &d->x,
                                                                              &d->w, NULL, &d->y, s->stride, s->dilation, s->low, s->high);
    return status != dnnl_success ? status : mf_dnnl.dnnl_primitive_desc_create(pd, &op, mf_dnnl.attr, mf_dnnl.engine, NULL);
}

static dnnl_status_t backward_desc(dnnl_primitive_desc_t *pd, mf_dnnl_conv_kind kind, conv_descs *d, conv_steps *s,
                                   dnnl_primitive_desc_t hint)
{
    dnnl_convolution_desc_t op;
    dnnl_status_t status = kind == MF_DNNL_BACKWARD_DATA
                               ? mf_dnnl.dnnl_dilated_convolution_backward_data_desc_init(&op, dnnl_convolution_direct, &d->x, &d->w, &d->y,
                                                                                          s->stride, s->dilation, s->low, s->high)
                               : mf_dnnl.dnnl_dilated_convolution_backward_weights_desc_init(
                                     &op, dnnl_convolution_direct, &d->x, &d->w, NULL, &d->y, s->stride, s->dilation, s->low, s->high);
    return status != dnnl_success ? status : mf_dnnl.dnnl_primitive_desc_create(pd, &op, mf_dnnl.attr, mf_dnnl.engine, hint);
}

#endif

static void free_conv_descs(conv_descs *d)
{
    mf_dnnl_desc_free(&d->x);
    mf_dnnl_desc_free(&d->w);
    mf_dnnl_desc_free(&d->y);
}

static bool choose_backward(mf_dnnl_primitive *p, const mf_dnnl_conv *c, unsigned any, conv_descs *d, conv_steps *s)
{
    dnnl_primitive_desc_t hint = NULL;
    conv_descs ahead = { 0 };
    mf_dnnl_conv forward = *c;
    forward.kind = MF_DNNL_FORWARD;
    bool hinted = make_conv_descs(&forward, any, &ahead) && mf_dnnl_ok(forward_desc(&hint, &ahead, s));
    bool ok = hinted && mf_dnnl_ok(backward_desc(&p->desc, c->kind, d, s, hint));
    if (hinted)
        mf_dnnl.dnnl_primitive_desc_destroy(hint);
    free_conv_descs(&ahead);
    return ok;
}

static bool choose_conv(mf_dnnl_primitive *p, const mf_dnnl_conv *c, unsigned any)
{
    conv_descs d = { 0 };
    conv_steps s = make_steps(c);
    bool ok = make_conv_descs(c, any, &d) &&
              (c->kind == MF_DNNL_FORWARD ? mf_dnnl_ok(forward_desc(&p->desc, &d, &s)) : choose_backward(p, c, any, &d, &s));
    free_conv_descs(&d);
    return ok;
}

/* With the weights' layout free, the AVX-512 code (brgconv) is planned column by column, 5 us each: a row of 2,000,000 takes 9 s before
 * its first result. With the weights in place oneDNN uses matrix products (gemm), which are as fast for such rows and planned at once. */
static bool has_long_rows(const mf_dnnl_conv *c) { return c->kind == MF_DNNL_FORWARD && c->in[c->spatial - 1] >= LONG_ROW; }

/* Measured: N-spatial-C activations in place with free weights are as fast as blocked ones, which cost two reorders. Only if the
 * caller's strides leave the library nothing but plain loops are the activations reordered too. */
static bool choose_layouts(mf_dnnl_primitive *p, const mf_dnnl_conv *c)
{
    for (int i = has_long_rows(c) ? 0 : 1; i < 2; i++) {
        if (!choose_conv(p, c, i ? ANY_W : 0))
            continue;
        if (!mf_dnnl_is_reference(p->desc))
            return true;
        mf_dnnl.dnnl_primitive_desc_destroy(p->desc);
        p->desc = NULL;
    }
    return choose_conv(p, c, ANY_ALL);
}

static bool build_conv(mf_dnnl_primitive *p, const void *problem)
{
    const mf_dnnl_conv *c = problem;
    conv_descs user = { 0 };
    bool made = make_conv_descs(c, 0, &user);
    mf_dnnl_operand *o = p->operands;
    switch (c->kind) {
    case MF_DNNL_FORWARD:
        o[MF_DNNL_IN0] = (mf_dnnl_operand){ .argument = DNNL_ARG_SRC, .user = user.x };
        o[MF_DNNL_IN1] = (mf_dnnl_operand){ .argument = DNNL_ARG_WEIGHTS, .user = user.w };
        o[MF_DNNL_OUT] = (mf_dnnl_operand){ .argument = DNNL_ARG_DST, .user = user.y };
        break;
    case MF_DNNL_BACKWARD_DATA:
        o[MF_DNNL_IN0] = (mf_dnnl_operand){ .argument = DNNL_ARG_DIFF_DST, .user = user.y };
        o[MF_DNNL_IN1] = (mf_dnnl_operand){ .argument = DNNL_ARG_WEIGHTS, .user = user.w };
        o[MF_DNNL_OUT] = (mf_dnnl_operand){ .argument = DNNL_ARG_DIFF_SRC, .user = user.x };
        break;
    case MF_DNNL_BACKWARD_WEIGHTS:
        o[MF_DNNL_IN0] = (mf_dnnl_operand){ .argument = DNNL_ARG_SRC, .user = user.x };
        o[MF_DNNL_IN1] = (mf_dnnl_operand){ .argument = DNNL_ARG_DIFF_DST, .user = user.y };
        o[MF_DNNL_OUT] = (mf_dnnl_operand){ .argument = DNNL_ARG_DIFF_WEIGHTS, .user = user.w };
        break;
    }
    p->packed = c->kind == MF_DNNL_BACKWARD_WEIGHTS ? MF_DNNL_OUT : MF_DNNL_IN1;
    return made && choose_layouts(p, c) && mf_dnnl_finish(p);
}

static void conv_key(int64_t *key, const mf_dnnl_conv *c)
{
    const int64_t head[] = { 1, c->kind, c->dtype, c->spatial, c->batch, c->in_channels, c->out_channels, c->groups };
    const int64_t *spatial[] = { c->in, c->kernel, c->stride, c->dilation, c->pad_low, c->pad_high };
    const int64_t *strides[] = { c->x_strides, c->w_strides, c->y_strides };
    int at = mf_dnnl_key_put(key, 0, head, 8);
    for (int i = 0; i < 6; i++)
        at = mf_dnnl_key_put(key, at, spatial[i], c->spatial);
    for (int i = 0; i < 3; i++)
        at = mf_dnnl_key_put(key, at, strides[i], 2 + c->spatial);
}

/* oneDNN generates code for each position of padding and stride: 100,000 take a second and 100 MiB. */
enum { MOST_PLACES = 4096 };

static bool conv_valid(const mf_dnnl_conv *c)
{
    if (c->spatial < 1 || c->spatial > MF_DNNL_SPATIAL || !mf_dnnl_is_size(c->batch) || !mf_dnnl_is_size(c->in_channels) ||
        !mf_dnnl_is_size(c->out_channels))
        return false;
    for (int i = 0; i < c->spatial; i++)
        if (!mf_dnnl_is_size(c->in[i]) || !mf_dnnl_is_size(c->kernel[i]) || !mf_dnnl_is_size(out_size(c, i)) ||
            c->pad_low[i] > MOST_PLACES || c->pad_high[i] > MOST_PLACES || c->stride[i] > MOST_PLACES)
            return false;
    return c->in_channels % or1(c->groups) == 0 && c->out_channels % or1(c->groups) == 0;
}

const mf_dnnl_primitive *mf_dnnl_conv_create(const mf_dnnl_conv *conv, bool *no_memory)
{
    int64_t key[MF_DNNL_KEY_WORDS] = { 0 };
    *no_memory = false;
    if (!conv_valid(conv) || !mf_dnnl_supports(conv->dtype))
        return NULL;
    conv_key(key, conv);
    return mf_dnnl_get(key, build_conv, conv, no_memory);
}
