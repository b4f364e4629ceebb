/* Convolutions by oneDNN, and those of 3 by 3 in f32 by our own kernels (Winograd), where these multiply less. This file cuts the batch
 * into calls and tasks; conv_step.h lists the other files.
 * Invariant: which primitive runs and how the batch is cut follows from shapes and dtypes alone.
 * Known: in bf16, where channels (forward, up to 3) or a row's elements (weights, odd) do not fill a pair, oneDNN's code for AMX
 * multiplies their neighbours by zero, so a NaN or infinity of the operand spreads to results beside those that it belongs to. */
#include "backend/native/products/conv_step.h"

/* Least multiply-adds of a task; of a call, which has an overhead of a microsecond; and of a call whose result is added to others. */
#define TASK_PRODUCT 2e7
#define CALL_PRODUCT 5e5
#define ADD_PRODUCT  1e6
enum {
    ADD_READS = 4,            /* elements read per element of a result that is added to others; with fewer, adding takes too long */
    TILES_KERNEL = 256 * 256, /* pairs of channels at most */
    LEAST_TILES = 16,         /* of an image at least; with fewer, transforming its kernel takes longer */
    BF16_IMAGES = 4,          /* of a call at least: AMX code begins with cpuid, which takes as long as an image on a virtual machine */
};

/* Whether the operand's images follow one another in its memory, so that a part of the images is a part of the memory. */
static bool fills(const mf_conv_step *s, int operand, const int64_t *strides, int64_t channels)
{
    int64_t most = s->offset[operand] + (channels - 1) * strides[1];
    for (int i = 0; i < s->d.spatial; i++)
        most += (s->dims[operand][i] - 1) * strides[2 + i];
    return s->batch * strides[0] == s->counts[operand] && most < strides[0];
}

/* Whether all operands with images fill their memory: operand 0 and the result, or for a sum over images both operands. */
static bool goes_by_images(const mf_conv_step *s)
{
    const mf_dnnl_conv *d = &s->d;
    if (mf_conv_sums(s))
        return fills(s, 0, d->x_strides, d->in_channels) && fills(s, 1, d->y_strides, d->out_channels);
    return s->batch * mf_conv_out_image(s) == s->counts[2] &&
           (mf_conv_is_data(s) ? fills(s, 0, d->y_strides, d->out_channels) : fills(s, 0, d->x_strides, d->in_channels));
}

/* Whether a call of so many multiply-adds does not pay: it is short, or reads more weights than images, or adds more than it computes. */
static bool too_few(const mf_conv_step *s, double work)
{
    if (mf_conv_sums(s))
        return work < ADD_PRODUCT || s->images * (s->counts[0] + s->counts[1]) / s->batch < ADD_READS * s->counts[2];
    return work < CALL_PRODUCT || s->images * (s->counts[0] + s->counts[2]) / s->batch < s->counts[1];
}

static int64_t images_of_a_task(const mf_conv_step *s, double work)
{
    int64_t tasks = work < TASK_PRODUCT                        ? 1
                    : work < MF_CONV_MOST_TASKS * TASK_PRODUCT ? (int64_t)(work / TASK_PRODUCT)
                                                               : MF_CONV_MOST_TASKS;
    return ((s->batch + tasks - 1) / tasks + s->images - 1) / s->images * s->images;
}

/* The images of a slot: a power of two of calls. */
static int64_t images_of_a_slot(const mf_conv_step *s)
{
    int64_t images = s->images;
    while (images * MF_CONV_MOST_TASKS < s->batch)
        images *= 2;
    return images;
}

/* Cuts the batch into calls and tasks. Calls are as small as still pays, whatever the batch and the caller: so the same images are
 * computed by the same calls in any company. */
static void cut(mf_conv_step *s, double work)
{
    s->images = s->d.dtype == MF_BF16 ? BF16_IMAGES : 1;
    while (s->images < s->batch && too_few(s, (double)s->images * work / (double)s->batch))
        s->images *= 2;
    s->images = s->images < s->batch ? s->images : s->batch;
    s->by_images = goes_by_images(s);
    if (!s->by_images && !mf_conv_sums(s) && s->from != s->d.dtype)
        s->images = s->batch; /* its images are interleaved in memory, and converted together */
    s->images_a_task = mf_conv_sums(s) ? images_of_a_slot(s) : images_of_a_task(s, work);
    s->tasks = (s->batch + s->images_a_task - 1) / s->images_a_task;
}

/* NULL: impossible, or b->error. */
static const mf_dnnl_primitive *make_primitive(mf_build *b, const mf_conv_step *s)
{
    bool no_memory;
    const mf_dnnl_primitive *p = mf_dnnl_conv_create(&s->d, &no_memory);
    if (no_memory)
        b->error = mf_error_out_of_memory();
    return p && mf_build_hold(b, mf_dnnl_release, p) ? p : NULL;
}

/* Whether tiles multiply so much less that transforming them pays, and the transformed kernel fits a cache. For images this depends on a
 * single image. */
static bool tiles_pay(const mf_conv_step *s)
{
    const mf_winograd *g = &s->tiles;
    double direct = 9.0 * (double)g->out[0] * (double)g->out[1], tiles = (double)mf_winograd_tiles(g);
    return 16 * tiles <= 0.6 * direct &&
           (mf_conv_sums(s) ? (double)s->batch * tiles >= (double)mf_winograd_block_tiles(g) : tiles >= LEAST_TILES) &&
           mf_winograd_packed(g) <= 16 * TILES_KERNEL && mf_winograd_is_fast();
}

/* Decides whether the convolution goes by tiles, after the batch was cut. */
static void plan_tiles(mf_conv_step *s)
{
    const mf_dnnl_conv *d = &s->d;
    mf_winograd *g = &s->tiles;
    bool data = mf_conv_is_data(s), fits = d->spatial == 2 && d->dtype == MF_F32 && d->groups == 1;
    fits = fits && s->by_images && d->x_strides[1] == 1 && d->y_strides[1] == 1;
    int64_t channels[2] = { d->in_channels, d->out_channels };
    for (int i = 0; i < 2 && fits; i++) {
        int64_t out = d->in[i] + d->pad_low[i] + d->pad_high[i] - 2;
        fits = d->kernel[i] == 3 && d->stride[i] == 1 && d->dilation[i] == 1 && channels[i] % MF_WINOGRAD_CHANNELS == 0;
        g->channels[i] = channels[data ? 1 - i : i];
        g->in[i] = data ? out : d->in[i];
        g->out[i] = data ? d->in[i] : out;
        g->pad[i] = data ? 2 - d->pad_low[i] : d->pad_low[i];
        g->w[i] = d->w_strides[(i == 0) != data];
        g->w[2 + i] = data ? -d->w_strides[2 + i] : d->w_strides[2 + i];
        g->x[1 + i] = (data ? d->y_strides : d->x_strides)[2 + i];
        g->y[1 + i] = (data ? d->x_strides : d->y_strides)[2 + i];
    }
    g->x[0] = (data ? d->y_strides : d->x_strides)[0];
    g->y[0] = (data ? d->x_strides : d->y_strides)[0];
    s->by_tiles = fits && tiles_pay(s);
}

static bool make_primitives(mf_build *b, mf_conv_step *s)
{
    int64_t last = s->batch % s->images;
    s->d.batch = last;
    s->rest = last ? make_primitive(b, s) : NULL;
    s->d.batch = s->images;
    s->whole = b->error ? NULL : make_primitive(b, s);
    if (!s->whole || (last && !s->rest))
        return false;
    s->task_scratch = mf_dnnl_scratch_bytes(s->whole);
    if (s->rest && mf_dnnl_scratch_bytes(s->rest) > s->task_scratch)
        s->task_scratch = mf_dnnl_scratch_bytes(s->rest);
    if (s->by_tiles && mf_winograd_scratch(&s->tiles, mf_conv_sums(s)) > s->task_scratch)
        s->task_scratch = mf_winograd_scratch(&s->tiles, mf_conv_sums(s));
    s->task_scratch = mf_conv_aligned((int64_t)s->task_scratch);
    return true;
}

static bool is_ours(const mf_eqn *e)
{
    const mf_conv_params *p = e->params;
    if (e->op != &mf_op_conv_general_dilated)
        return false;
    mf_dtype dtype = e->in[0]->type->dtype;
    return (dtype == MF_F32 || dtype == MF_BF16 || dtype == MF_F16) && e->out[0]->type->dtype == dtype && p->batch_group_count == 1 &&
           e->in[0]->type->rank > 2 && e->in[0]->type->rank <= 2 + MF_DNNL_SPATIAL && e->in[0]->type->size && e->in[1]->type->size &&
           mf_dnnl_supports(MF_F32);
}

bool mf_build_conv(mf_build *b, const mf_eqn *e)
{
    mf_variable *roots[2];
    mf_conv_step *s = is_ours(e) ? mf_step_new(b, sizeof *s, e) : NULL;
    if (!s)
        return b->error != NULL;
    s->from = e->in[0]->type->dtype;
    s->d.dtype = s->from == MF_BF16 && mf_dnnl_supports(MF_BF16) ? MF_BF16 : MF_F32;
    if (!mf_conv_describe(b, e, s, roots))
        return b->error != NULL;
    double flops = e->op->cost(e).flops;
    s->counts[0] = roots[0]->type->size;
    s->counts[1] = roots[1]->type->size;
    s->counts[2] = e->out[0]->type->size;
    cut(s, flops / 2);
    plan_tiles(s);
    if (!make_primitives(b, s))
        return b->error != NULL;
    if (mf_conv_sums(s))
        mf_conv_plan_weights(s);
    else
        mf_conv_plan_images(s);
    s->step.cost = 500 + flops / 60;
    mf_build_step(b, &s->step, roots, 2, e->out, 1);
    return true;
}
