/* Recognises convolutions. Gradients come as convolutions too (ops/linalg/conv.c): of the dilated cotangent with the reversed kernel,
 * and of the operand with the cotangent as the kernel. Here they are recognised as gradients, on the layouts in which they lie. */
#include "backend/native/products/conv_step.h"

static int64_t product_of(const mf_type *t, const mf_intlist *spec)
{
    int64_t n = 1;
    for (int i = 2; i < spec->count; i++)
        n *= t->dims[spec->at[i]];
    return n;
}

static bool all_one(const mf_intlist *list)
{
    for (int i = 0; i < list->count; i++)
        if (list->at[i] != 1)
            return false;
    return true;
}

static void strides_of(const mf_layout *l, const mf_intlist *spec, int first, int second, int64_t *out)
{
    out[0] = l->strides[spec->at[first]];
    out[1] = l->strides[spec->at[second]];
    for (int i = 2; i < spec->count; i++)
        out[i] = l->strides[spec->at[i]];
}

static void sizes_of(const mf_layout *l, const mf_intlist *spec, int64_t *out)
{
    for (int i = 2; i < spec->count; i++)
        out[i - 2] = l->dims[spec->at[i]];
}

/* The upper padding with which `in` gives `out` places; of the `stride` possible ones, the one that oneDNN accepts. */
static int64_t high_padding(const mf_dnnl_conv *d, int i, int64_t out)
{
    int64_t least = (out - 1) * d->stride[i] + (d->kernel[i] - 1) * d->dilation[i] + 1 - d->in[i] - d->pad_low[i];
    return least < 0 && least + d->stride[i] > 0 ? 0 : least;
}

static void forward(mf_dnnl_conv *d, const mf_conv_params *p, const mf_layout *x, const mf_layout *w, const mf_layout *y)
{
    d->kind = MF_DNNL_FORWARD;
    d->batch = x->dims[p->lhs_spec->at[0]];
    d->in_channels = x->dims[p->lhs_spec->at[1]];
    d->out_channels = w->dims[p->rhs_spec->at[0]];
    d->groups = p->feature_group_count;
    sizes_of(x, p->lhs_spec, d->in);
    sizes_of(w, p->rhs_spec, d->kernel);
    strides_of(x, p->lhs_spec, 0, 1, d->x_strides);
    strides_of(w, p->rhs_spec, 0, 1, d->w_strides);
    strides_of(y, p->out_spec, 0, 1, d->y_strides);
    for (int i = 0; i < d->spatial; i++) {
        d->stride[i] = p->window_strides->at[i];
        d->dilation[i] = p->rhs_dilation->at[i];
        d->pad_low[i] = p->padding_low->at[i];
        d->pad_high[i] = high_padding(d, i, y->dims[p->out_spec->at[i + 2]]);
    }
}

/* x = the result, dy = lhs, w = the kernel before it was reversed (of a transposed convolution: its reversed kernel). x gets from place
 * q and kernel place k where q s + k d - P = x, so P = (K - 1) d - low. */
static void backward_data(mf_dnnl_conv *d, const mf_conv_params *p, const mf_layout *dy, const mf_layout *w, const mf_layout *x)
{
    d->kind = MF_DNNL_BACKWARD_DATA;
    d->batch = x->dims[p->out_spec->at[0]];
    d->in_channels = x->dims[p->out_spec->at[1]];
    d->out_channels = dy->dims[p->lhs_spec->at[1]];
    d->groups = 1;
    sizes_of(x, p->out_spec, d->in);
    sizes_of(w, p->rhs_spec, d->kernel);
    strides_of(x, p->out_spec, 0, 1, d->x_strides);
    strides_of(w, p->rhs_spec, 1, 0, d->w_strides);
    strides_of(dy, p->lhs_spec, 0, 1, d->y_strides);
    for (int i = 0; i < d->spatial; i++) {
        d->stride[i] = p->lhs_dilation->at[i];
        d->dilation[i] = p->rhs_dilation->at[i];
        d->pad_low[i] = (d->kernel[i] - 1) * d->dilation[i] - p->padding_low->at[i];
        d->pad_high[i] = high_padding(d, i, dy->dims[p->lhs_spec->at[i + 2]]);
    }
}

/* The kernel is a cotangent: lhs' batch dimension has the channels, and its feature dimension the examples; the result's places are the
 * kernel's. */
static void backward_weights(mf_dnnl_conv *d, const mf_conv_params *p, const mf_layout *x, const mf_layout *dy, const mf_layout *w)
{
    d->kind = MF_DNNL_BACKWARD_WEIGHTS;
    d->batch = x->dims[p->lhs_spec->at[1]];
    d->in_channels = x->dims[p->lhs_spec->at[0]];
    d->out_channels = dy->dims[p->rhs_spec->at[0]];
    d->groups = 1;
    sizes_of(x, p->lhs_spec, d->in);
    sizes_of(w, p->out_spec, d->kernel);
    strides_of(x, p->lhs_spec, 1, 0, d->x_strides);
    strides_of(w, p->out_spec, 1, 0, d->w_strides);
    strides_of(dy, p->rhs_spec, 1, 0, d->y_strides);
    for (int i = 0; i < d->spatial; i++) {
        d->stride[i] = p->rhs_dilation->at[i];
        d->dilation[i] = p->window_strides->at[i];
        d->pad_low[i] = p->padding_low->at[i];
        d->pad_high[i] = high_padding(d, i, dy->dims[p->rhs_spec->at[i + 2]]);
    }
}

/* Reverses the spatial dimensions; false unless all of them run backwards. */
static bool unreversed(mf_layout *w, const mf_intlist *spec)
{
    for (int i = 2; i < spec->count; i++) {
        int64_t a = spec->at[i];
        if (w->dims[a] == 1)
            continue;
        if (w->strides[a] >= 0)
            return false;
        w->offset += (w->dims[a] - 1) * w->strides[a];
        w->strides[a] = -w->strides[a];
    }
    return true;
}

static bool plain(const mf_layout *l)
{
    for (int i = 0; i < l->rank; i++)
        if (l->strides[i] <= 0 && l->dims[i] != 1)
            return false;
    return true;
}

/* Reads an operand in place if oneDNN can walk it, else from memory of its own. */
static bool read_operand(mf_build *b, mf_variable *v, mf_variable **root, mf_layout *l)
{
    const mf_var_state *s = &b->vars[v->id];
    if (s->kind == MF_VAR_VIEW && plain(&s->layout))
        return mf_build_read(b, v, root, l);
    *root = v;
    mf_layout_contiguous(l, v->type);
    return mf_build_materialise(b, v);
}

bool mf_conv_describe(mf_build *b, const mf_eqn *e, mf_conv_step *s, mf_variable **roots)
{
    const mf_conv_params *p = e->params;
    mf_layout x, w, y;
    const mf_var_state *kernel = &b->vars[e->in[1]->id];
    mf_layout_contiguous(&y, e->out[0]->type);
    if (!read_operand(b, e->in[0], &roots[0], &x))
        return false;
    s->d.spatial = e->in[0]->type->rank - 2;
    bool grouped = p->feature_group_count > 1;
    mf_layout as_read = kernel->layout;
    w = kernel->layout;
    if (!grouped && all_one(p->window_strides) && kernel->kind == MF_VAR_VIEW && unreversed(&w, p->rhs_spec) && plain(&w) &&
        product_of(e->in[1]->type, p->rhs_spec) > 1) {
        roots[1] = b->program->vars[kernel->root];
        backward_data(&s->d, p, &x, &w, &y);
    } else if (!read_operand(b, e->in[1], &roots[1], &w)) {
        return false;
    } else if (!all_one(p->lhs_dilation)) { /* a transposed convolution */
        if (grouped || !all_one(p->window_strides) || !mf_build_materialise(b, e->in[1]))
            return false;
        s->reversed = true;
        roots[1] = e->in[1];
        mf_layout_contiguous(&w, e->in[1]->type);
        as_read = w;
        backward_data(&s->d, p, &x, &w, &y);
    } else if (!grouped && product_of(e->in[1]->type, p->rhs_spec) > product_of(e->out[0]->type, p->out_spec)) {
        as_read = w;
        backward_weights(&s->d, p, &x, &w, &y);
    } else {
        as_read = w;
        forward(&s->d, p, &x, &w, &y);
    }
    mf_conv_zeros_plan(&s->zeros, e, &as_read);
    s->offset[0] = x.offset;
    s->offset[1] = w.offset;
    s->batch = s->d.batch;
    for (int i = 0; i < s->d.spatial; i++) {
        s->dims[0][i] = x.dims[p->lhs_spec->at[i + 2]];
        s->dims[1][i] = w.dims[p->rhs_spec->at[i + 2]];
    }
    return mf_build_materialise(b, roots[1]);
}
