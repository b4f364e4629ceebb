/* Convolutions by oneDNN, and those of 3 by 3 in f32 by our own kernels (Winograd's), where those multiply less. The gradients come as
 * convolutions too (ops/linalg/conv.c): of the spread cotangent with the reversed kernel, and of the operand with the cotangent as the
 * kernel; here they are recognised and run as what they are, on the layouts as they lie.
 * Invariants: which primitive runs and how the batch is cut into tasks follows from shapes and dtypes alone; the weights' gradient adds
 * up image after image in f32, in slots that are joined in one fixed tree; an image comes from the same call alone, among many, and
 * joined with other steps (row_fusion.c).
 * Known: in bf16, where channels (forward, up to 3) or a row's elements (weights, odd) do not fill a pair, oneDNN's code for AMX takes
 * the neighbours times zero, so a NaN or infinity of the operand spreads to results beside those that it belongs to. */
#include "backend/native/products/conv_zeros.h"
#include "backend/native/segment_build.h"
#include "backend/native/steps/copy_step.h"
#include "backend/native/kernels/dnnl/dnnl.h"
#include "backend/native/kernels/kernels.h"

#include <string.h>

/* Multiply-adds of a task; of a call, which costs a microsecond besides; of one whose result is added to others. */
#define TASK_PRODUCT 2e7
#define CALL_PRODUCT 5e5
#define ADD_PRODUCT  1e6
enum {
    MOST_TASKS = 16,
    BLOCK_BYTES = 512 << 10,
    AT_HAND_BYTES = 1 << 20,
    ADD_READS = 4,            /* times the elements of a result that is added to others, or adding takes too long */
    TILES_KERNEL = 256 * 256, /* pairs of channels */
    LEAST_TILES = 16,         /* of an image, or its kernel takes longer to transform */
    BF16_IMAGES = 4,          /* of a call at least: AMX's begin with cpuid, which takes a virtual machine as long as an image */
};

typedef struct conv_step {
    mf_native_step step;
    mf_dnnl_conv d;                   /* of a whole call */
    mf_dtype from;                    /* stored; d.dtype: computed */
    int64_t offset[2];                /* elements, of the operands */
    int64_t counts[3];                /* elements of the operands' memory and of the result */
    int64_t dims[2][MF_DNNL_SPATIAL]; /* of the operands */
    const mf_dnnl_primitive *whole, *rest;
    bool by_tiles; /* `tiles` computes what is finite, `whole` and `rest` what is not */
    mf_winograd tiles;
    int64_t batch, images, images_a_task, tasks; /* images: of a call */
    mf_conv_zeros zeros;
    bool packed;    /* the sum over images is, until it is complete */
    bool by_images; /* images follow each other in memory, in operand 0 and in the result */
    bool turned;    /* operand 1 is dense and is read the other way round in all spatial dimensions, from a copy */
    size_t task_scratch;
} conv_step;

/* ------------------------------------------------------------------ recognising */

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

/* The upper padding under which `in` gives `out` places; oneDNN wants one that fits, and there are `stride` of them. */
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

/* x = the result, dy = lhs, w = the kernel before it was reversed, or what a transposed convolution's is turned into: x gets from place q
 * and kernel place k where q s + k d - P = x, so P = (K - 1) d - low. */
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

/* The kernel is a cotangent: lhs' batch are the channels and its features the examples; the result's places are the kernel's. */
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

/* Walks the spatial dimensions the other way round; false unless they all run backwards. */
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

/* An operand where it lies, if oneDNN can walk it, else in memory of its own. */
static bool read_operand(mf_build *b, mf_variable *v, mf_variable **root, mf_layout *l)
{
    const mf_var_state *s = &b->vars[v->id];
    if (s->kind == MF_VAR_VIEW && plain(&s->layout))
        return mf_build_read(b, v, root, l);
    *root = v;
    mf_layout_contiguous(l, v->type);
    return mf_build_materialise(b, v);
}

static bool describe(mf_build *b, const mf_eqn *e, conv_step *s, mf_variable **roots)
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
        s->turned = true;
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

/* ------------------------------------------------------------------ running: images */

static size_t aligned(int64_t bytes) { return ((size_t)bytes + 63) / 64 * 64; }

static bool is_data(const conv_step *s) { return s->d.kind == MF_DNNL_BACKWARD_DATA; }
static bool sums(const conv_step *s) { return s->d.kind == MF_DNNL_BACKWARD_WEIGHTS; }

/* Elements from image to image of operand 0 and of the result, of a convolution that gives images. */
static int64_t in_image(const conv_step *s) { return is_data(s) ? s->d.y_strides[0] : s->d.x_strides[0]; }
static int64_t out_image(const conv_step *s) { return is_data(s) ? s->d.x_strides[0] : s->d.y_strides[0]; }

typedef struct weights {
    const void *plain;  /* in the computing dtype */
    const void *packed; /* as `tiles` or `whole` likes them, or NULL */
} weights;

typedef struct image_task {
    const conv_step *s;
    const char *in;
    char *out, *scratch;
    weights w;
    _Atomic bool failed;
} image_task;

/* Room for the weights turned round, for them in the computing dtype, and for them packed, one behind the other. */
static size_t turned_bytes(const conv_step *s) { return s->turned ? aligned(s->counts[1] * mf_dtype_size(s->from)) : 0; }
static size_t widened_bytes(const conv_step *s) { return s->from != s->d.dtype ? aligned(s->counts[1] * mf_dtype_size(s->d.dtype)) : 0; }

static size_t packed_bytes(const conv_step *s)
{
    return s->by_tiles ? (size_t)mf_winograd_packed(&s->tiles) * sizeof(float) : mf_dnnl_packed_bytes(s->whole);
}

static size_t weights_bytes(const conv_step *s) { return turned_bytes(s) + widened_bytes(s) + aligned((int64_t)packed_bytes(s)); }

/* Where the weights are, as all calls take them: in `made`, of weights_bytes, or where they were. */
static weights find_weights(const conv_step *s, const char *in, char *made)
{
    char *widened = made + turned_bytes(s), *packed = widened + widened_bytes(s);
    const char *plain = widened_bytes(s) ? widened : s->turned ? made : in;
    return (weights){ plain + s->offset[1] * mf_dtype_size(s->d.dtype), packed_bytes(s) ? packed : NULL };
}

/* The kernel the other way round in its spatial dimensions. */
static void turn(const conv_step *s, const char *in, char *out)
{
    const mf_type *t = s->step.eqn->in[1]->type;
    const mf_intlist *spec = ((const mf_conv_params *)s->step.eqn->params)->rhs_spec;
    int64_t to[MF_RANK], from[MF_RANK];
    mf_contiguous_strides(t, to);
    memcpy(from, to, sizeof from);
    for (int i = 2; i < spec->count; i++) {
        int64_t *stride = &from[spec->at[i]];
        in += (t->dims[spec->at[i]] - 1) * *stride;
        *stride = -*stride;
    }
    mf_copy_strided(t->rank, t->dims, mf_dtype_size(t->dtype), out, to, in, from);
}

/* False: out of memory. */
static bool make_weights(const conv_step *s, const char *in, char *made, char *scratch)
{
    weights w = find_weights(s, in, made);
    if (s->turned)
        turn(s, in, made);
    if (s->from != s->d.dtype)
        mf_native_convert(s->d.dtype, made + turned_bytes(s), s->from, s->turned ? made : in, s->counts[1]);
    if (s->by_tiles) {
        /* a gradient's kernel is read from its last place on */
        const int64_t *row = s->d.w_strides + 2, last = is_data(s) ? 2 * (row[0] + row[1]) : 0;
        mf_winograd_pack(&s->tiles, (const float *)w.plain + last, (float *)(uintptr_t)w.packed);
        return true;
    }
    return !w.packed || mf_dnnl_pack(s->whole, w.plain, (void *)(uintptr_t)w.packed, scratch);
}

static bool run_direct(const image_task *t, const mf_dnnl_primitive *p, const char *in, char *result, char *room)
{
    const conv_step *s = t->s;
    bool packed = !s->by_tiles && t->w.packed && (p == s->whole || mf_dnnl_same_packing(p, s->whole));
    return packed ? mf_dnnl_run_packed(p, in, t->w.packed, result, room) : mf_dnnl_run(p, in, t->w.plain, result, room);
}

/* A call by tiles. Images that are not finite are oneDNN's, so infinities and NaN are where they should be, and others' bits as they were. */
static bool run_tiles(const image_task *t, const mf_dnnl_primitive *p, const float *in, float *result, int64_t count, char *room)
{
    const conv_step *s = t->s;
    if (mf_winograd_images(&s->tiles, count, in, t->w.packed, result, room))
        return true;
    float *direct = (float *)(void *)(room + s->task_scratch);
    if (!run_direct(t, p, (const char *)in, (char *)direct, room))
        return false;
    for (int64_t i = 0; i < count; i++, in += in_image(s), result += out_image(s), direct += out_image(s))
        if (count == 1 || !mf_winograd_images(&s->tiles, 1, in, t->w.packed, result, room))
            memcpy(result, direct, (size_t)out_image(s) * sizeof *result);
    return true;
}

/* One call: `count` images, `at` the first. */
static bool run_call(const image_task *t, const mf_dnnl_primitive *p, int64_t at, int64_t count, char *room)
{
    const conv_step *s = t->s;
    int64_t size = mf_dtype_size(s->d.dtype), stored = mf_dtype_size(s->from);
    int64_t in_count = s->by_images ? count * in_image(s) : s->counts[0], out_count = s->by_images ? count * out_image(s) : s->counts[2];
    const char *in = t->in + at * in_image(s) * stored;
    char *out = t->out + at * out_image(s) * stored, *result = out;
    if (s->from != s->d.dtype) {
        mf_native_convert(s->d.dtype, room, s->from, in, in_count);
        in = room;
        room += aligned(in_count * size);
        result = room;
        room += aligned(out_count * size);
    }
    in += s->offset[0] * size;
    bool ok = s->by_tiles ? run_tiles(t, p, (const float *)(const void *)in, (float *)(void *)result, count, room)
                          : run_direct(t, p, in, result, room);
    if (result != out)
        mf_native_convert(s->from, out, s->d.dtype, result, out_count);
    return ok;
}

static size_t call_bytes(const conv_step *s)
{
    int64_t size = mf_dtype_size(s->d.dtype), in = s->by_images ? s->images * in_image(s) : s->counts[0];
    int64_t out = s->by_images ? s->images * out_image(s) : s->counts[2];
    return s->task_scratch + (s->from != s->d.dtype ? aligned(in * size) + aligned(out * size) : 0) +
           (s->by_tiles ? aligned(out * size) : 0);
}

/* Images [from, to); from is a multiple of a call's images. */
static void run_images(image_task *t, int64_t from, int64_t to, char *room)
{
    const conv_step *s = t->s;
    for (int64_t at = from; at < to; at += s->images) {
        bool all = to - at >= s->images;
        if (!run_call(t, all ? s->whole : s->rest, at, all ? s->images : to - at, room))
            atomic_store(&t->failed, true);
    }
}

static void run_image_task(void *context, int64_t i)
{
    image_task *t = context;
    const conv_step *s = t->s;
    int64_t from = i * s->images_a_task, to = from + s->images_a_task < s->batch ? from + s->images_a_task : s->batch;
    run_images(t, from, to, t->scratch + (size_t)i * call_bytes(s));
}

static mf_error_object *run_all_images(const mf_native_step *step, void *const *values, char *scratch)
{
    const conv_step *s = (const conv_step *)(const void *)step;
    char *made = scratch + step->scratch_offset;
    image_task t = { .s = s, .in = mf_step_in(step, values, 0), .out = mf_step_out(step, values, 0), .scratch = made + weights_bytes(s) };
    if (!make_weights(s, mf_step_in(step, values, 1), made, t.scratch))
        return mf_error_out_of_memory();
    t.w = find_weights(s, mf_step_in(step, values, 1), made);
    mf_parallel_for(s->tasks, run_image_task, &t);
    mf_conv_zeros_apply(&s->zeros, mf_step_in(step, values, 1), s->counts[1], t.out, 0, s->batch);
    return atomic_load(&t.failed) ? mf_error_out_of_memory() : NULL;
}

/* ------------------------------------------------------------------ by rows: some images of what is joined with others */

static const conv_step *of(const mf_native_step *step) { return (const conv_step *)(const void *)step; }

static int64_t count_rows(const mf_native_step *step)
{
    const conv_step *s = of(step);
    return s->batch % s->images == 0 ? s->batch / s->images : 0;
}

static bool can_part(const mf_native_step *step, int64_t rows)
{
    const conv_step *s = of(step);
    return s->batch % rows == 0 && s->batch / rows % s->images == 0;
}

static bool reads_own_row(const mf_native_step *step, int k, int64_t rows, int64_t elements)
{
    const conv_step *s = of(step);
    (void)rows;
    return k == 0 && elements == s->counts[0];
}

static size_t prepared_bytes(const mf_native_step *step) { return weights_bytes(of(step)); }

static bool prepare(const mf_native_step *step, void *const *values, char *scratch)
{
    const conv_step *s = of(step);
    return !weights_bytes(s) || make_weights(s, mf_step_in(step, values, 1), values[step->prepared], scratch + step->scratch_offset);
}

static bool run_part(const mf_native_step *step, void *const *values, char *scratch, int64_t rows, int64_t from, int64_t to)
{
    const conv_step *s = of(step);
    int64_t each = s->batch / rows;
    image_task t = { .s = s, .in = mf_step_in(step, values, 0), .out = mf_step_out(step, values, 0) };
    t.w = find_weights(s, mf_step_in(step, values, 1), weights_bytes(s) ? values[step->prepared] : NULL);
    run_images(&t, from * each, to * each, scratch + step->scratch_offset);
    mf_conv_zeros_apply(&s->zeros, mf_step_in(step, values, 1), s->counts[1], t.out, from * each, to * each);
    return !atomic_load(&t.failed);
}

static size_t part_scratch(const mf_native_step *step) { return call_bytes(of(step)); }

static const mf_row_parts parts = { .rows = count_rows,
                                    .can = can_part,
                                    .inside = reads_own_row,
                                    .run = run_part,
                                    .scratch = part_scratch,
                                    .prepared_bytes = prepared_bytes,
                                    .prepare = prepare,
                                    .block_bytes = BLOCK_BYTES };

/* Whether image after image of an operand fills its memory, so that a part of the images is a part of the memory. */
static bool fills(const conv_step *s, int operand, const int64_t *strides, int64_t channels)
{
    int64_t most = s->offset[operand] + (channels - 1) * strides[1];
    for (int i = 0; i < s->d.spatial; i++)
        most += (s->dims[operand][i] - 1) * strides[2 + i];
    return s->batch * strides[0] == s->counts[operand] && most < strides[0];
}

/* All that has images: operand 0 and the result, or where it is a sum over them both operands. */
static bool goes_by_images(const conv_step *s)
{
    const mf_dnnl_conv *d = &s->d;
    if (sums(s))
        return fills(s, 0, d->x_strides, d->in_channels) && fills(s, 1, d->y_strides, d->out_channels);
    return s->batch * out_image(s) == s->counts[2] &&
           (is_data(s) ? fills(s, 0, d->y_strides, d->out_channels) : fills(s, 0, d->x_strides, d->in_channels));
}

/* ------------------------------------------------------------------ running: weights */

/* The images of a slot come one call after the other, and add up in it; the slots add up in a tree. */
typedef struct weight_task {
    const conv_step *s;
    const char *x, *dy;
    char *slots, *scratch;
    bool marks; /* what zeros spoil is found out call by call, not at the end */
    _Atomic bool failed;
} weight_task;

/* Elements of a sum as oneDNN has it, and behind them the marks of conv_zeros.c. */
static int64_t sum_count(const conv_step *s)
{
    return s->packed ? (int64_t)(mf_dnnl_packed_bytes(s->whole) / sizeof(float)) : s->counts[2];
}
static size_t sum_bytes(const conv_step *s) { return aligned(sum_count(s) * (int64_t)sizeof(float)); }
static size_t slot_bytes(const conv_step *s) { return sum_bytes(s) + aligned((int64_t)mf_conv_zeros_marks(&s->zeros)); }
static size_t weights_call_bytes(const conv_step *s) { return sum_bytes(s) + s->task_scratch; }

/* The slots, and what joining them takes: their sum, the same unpacked, and oneDNN's scratch. */
static size_t slots_bytes(const conv_step *s)
{
    return (size_t)s->tasks * slot_bytes(s) + sum_bytes(s) + aligned(s->counts[2] * (int64_t)sizeof(float)) + s->task_scratch;
}

static char *slot_of(const conv_step *s, char *slots, int64_t image) { return slots + (size_t)(image / s->images_a_task) * slot_bytes(s); }

/* Marks in their slot what the zeros around images [at, to) spoil; see conv_zeros.c. */
static void mark(const weight_task *t, int64_t at, int64_t to)
{
    const conv_step *s = t->s;
    char *slot = slot_of(s, t->slots, at), *marks = slot + sum_bytes(s);
    if (at % s->images_a_task == 0)
        memset(marks, 0, mf_conv_zeros_marks(&s->zeros));
    mf_conv_zeros_mark(&s->zeros, t->dy - s->offset[1] * mf_dtype_size(s->d.dtype), at, to, (const float *)(const void *)slot, sum_count(s),
                       marks);
}

/* Adds images [at, to) of one call to their slot; room: weights_call_bytes. */
static bool add_call(const weight_task *t, int64_t at, int64_t to, char *room)
{
    const conv_step *s = t->s;
    int64_t size = mf_dtype_size(s->d.dtype);
    bool first = at % s->images_a_task == 0;
    char *slot = slot_of(s, t->slots, at), *out = first ? slot : room;
    const mf_dnnl_primitive *p = to - at == s->images ? s->whole : s->rest;
    const char *x = t->x + at * s->d.x_strides[0] * size, *dy = t->dy + at * s->d.y_strides[0] * size;
    char *scratch = room + sum_bytes(s);
    const float *images = (const float *)(const void *)x, *cotangents = (const float *)(const void *)dy;
    bool ok = (s->by_tiles && mf_winograd_weights(&s->tiles, to - at, images, cotangents, (float *)(void *)out, scratch)) ||
              (s->packed ? mf_dnnl_run_packed(p, x, dy, out, scratch) : mf_dnnl_run(p, x, dy, out, scratch));
    if (!first)
        mf_all_reduce(MF_REDUCE_SUM, MF_F32, (const void *const[]){ slot, out }, 2, slot, (size_t)sum_count(s), false);
    return ok;
}

/* The same of images [from, to) call by call; from begins one. False: out of memory. */
static bool add_images(const weight_task *t, int64_t from, int64_t to, char *room)
{
    bool ok = true;
    for (int64_t at = from; at < to; at += t->s->images) {
        int64_t behind = at + t->s->images < to ? at + t->s->images : to;
        ok = add_call(t, at, behind, room) && ok;
        if (t->marks)
            mark(t, at, behind);
    }
    return ok;
}

static void run_weight_task(void *context, int64_t i)
{
    weight_task *t = context;
    const conv_step *s = t->s;
    int64_t from = i * s->images_a_task, to = from + s->images_a_task < s->batch ? from + s->images_a_task : s->batch;
    if (!add_images(t, from, to, t->scratch + (size_t)i * weights_call_bytes(s)))
        atomic_store(&t->failed, true);
}

/* False: out of memory. */
static bool join_slots(const conv_step *s, char *slots, char *out)
{
    const void *from[MOST_TASKS] = { slots };
    char *room = slots + (size_t)s->tasks * slot_bytes(s), *plain = s->from == MF_F32 ? out : room + sum_bytes(s);
    char *sum = s->packed ? room : plain;
    for (int64_t i = 1; i < s->tasks; i++)
        from[i] = slots + (size_t)i * slot_bytes(s);
    mf_all_reduce(MF_REDUCE_SUM, MF_F32, from, (size_t)s->tasks, sum, (size_t)sum_count(s), false);
    bool ok = !s->packed || mf_dnnl_unpack(s->whole, sum, plain, slots + slots_bytes(s) - s->task_scratch);
    if (plain != out)
        mf_native_convert(s->from, out, MF_F32, plain, s->counts[2]);
    return ok;
}

/* An operand in the computing dtype; room moves on behind what was written. */
static const char *widened(const conv_step *s, const char *in, int64_t count, char **room)
{
    if (s->from == s->d.dtype)
        return in;
    char *out = *room;
    mf_native_convert(s->d.dtype, out, s->from, in, count);
    *room += aligned(count * mf_dtype_size(s->d.dtype));
    return out;
}

static mf_error_object *run_weights(const mf_native_step *step, void *const *values, char *scratch)
{
    const conv_step *s = (const conv_step *)(const void *)step;
    char *room = scratch + step->scratch_offset, *out = mf_step_out(step, values, 0);
    int64_t size = mf_dtype_size(s->d.dtype);
    weight_task t = { .s = s };
    t.x = widened(s, mf_step_in(step, values, 0), s->counts[0], &room) + s->offset[0] * size;
    t.dy = widened(s, mf_step_in(step, values, 1), s->counts[1], &room) + s->offset[1] * size;
    t.slots = room;
    t.scratch = room + slots_bytes(s);
    mf_parallel_for(s->tasks, run_weight_task, &t);
    bool joined = join_slots(s, t.slots, out);
    mf_conv_zeros_apply(&s->zeros, mf_step_in(step, values, 1), s->counts[1], out, 0,
                        step->eqn->out[0]->type->dims[((const mf_conv_params *)step->eqn->params)->out_spec->at[0]]);
    return joined && !atomic_load(&t.failed) ? NULL : mf_error_out_of_memory();
}

/* ------------------------------------------------------------------ weights by rows: what images that are at hand add to them */

/* Rows that make so many images, both powers of two; 0: they do not. */
static int64_t rows_of(const conv_step *s, int64_t images, int64_t rows)
{
    int64_t each = s->batch / rows, count = images > each ? images / each : 1;
    return images % each && each % images ? 0 : (count & (count - 1)) ? 0 : count;
}

static int64_t rows_a_call(const mf_native_step *step, int64_t rows) { return rows_of(of(step), of(step)->images, rows); }
static int64_t rows_a_slot(const mf_native_step *step, int64_t rows) { return rows_of(of(step), of(step)->images_a_task, rows); }

static bool can_gather(const mf_native_step *step, int64_t rows)
{
    return of(step)->batch % rows == 0 && rows_a_call(step, rows) && rows_a_slot(step, rows);
}

static bool gathers_own_row(const mf_native_step *step, int k, int64_t rows, int64_t elements)
{
    (void)rows;
    return elements == of(step)->counts[k];
}

static size_t gathered_bytes(const mf_native_step *step) { return slots_bytes(of(step)); }
static size_t gather_scratch(const mf_native_step *step) { return weights_call_bytes(of(step)); }

static bool gather_part(const mf_native_step *step, void *const *values, char *scratch, int64_t rows, int64_t from, int64_t to)
{
    const conv_step *s = of(step);
    int64_t each = s->batch / rows, size = mf_dtype_size(s->d.dtype);
    weight_task t = { .s = s, .slots = values[step->prepared], .marks = true };
    t.x = mf_step_in(step, values, 0) + s->offset[0] * size;
    t.dy = mf_step_in(step, values, 1) + s->offset[1] * size;
    return add_images(&t, from * each, to * each, scratch + step->scratch_offset);
}

static bool finish(const mf_native_step *step, void *const *values)
{
    const conv_step *s = of(step);
    char *slots = values[step->prepared], *out = mf_step_out(step, values, 0);
    bool joined = join_slots(s, slots, out);
    for (int64_t at = 0; at < s->batch && mf_conv_zeros_marks(&s->zeros); at += s->images_a_task)
        mf_conv_zeros_apply_marks(&s->zeros, slot_of(s, slots, at) + sum_bytes(s), out);
    return joined;
}

static const mf_row_parts gathering = { .can = can_gather,
                                        .inside = gathers_own_row,
                                        .run = gather_part,
                                        .scratch = gather_scratch,
                                        .prepared_bytes = gathered_bytes,
                                        .unit = rows_a_call,
                                        .span = rows_a_slot,
                                        .finish = finish };

/* ------------------------------------------------------------------ compilation */

/* A call of so many multiply-adds does not pay: it is short, or reads more weights than images, or adds more than it makes a sum of. */
static bool too_few(const conv_step *s, double work)
{
    if (sums(s))
        return work < ADD_PRODUCT || s->images * (s->counts[0] + s->counts[1]) / s->batch < ADD_READS * s->counts[2];
    return work < CALL_PRODUCT || s->images * (s->counts[0] + s->counts[2]) / s->batch < s->counts[1];
}

static int64_t images_of_a_task(const conv_step *s, double work)
{
    int64_t tasks = work < TASK_PRODUCT ? 1 : work < MOST_TASKS * TASK_PRODUCT ? (int64_t)(work / TASK_PRODUCT) : MOST_TASKS;
    return ((s->batch + tasks - 1) / tasks + s->images - 1) / s->images * s->images;
}

/* A power of two of calls. */
static int64_t images_of_a_slot(const conv_step *s)
{
    int64_t images = s->images;
    while (images * MOST_TASKS < s->batch)
        images *= 2;
    return images;
}

/* Cuts the batch into calls and tasks. Calls are as small as still pays, whatever the batch and whoever asks for them: the same images in
 * other company come from the same calls. */
static void cut(conv_step *s, double work)
{
    s->images = s->d.dtype == MF_BF16 ? BF16_IMAGES : 1;
    while (s->images < s->batch && too_few(s, (double)s->images * work / (double)s->batch))
        s->images *= 2;
    s->images = s->images < s->batch ? s->images : s->batch;
    s->by_images = goes_by_images(s);
    if (!s->by_images && !sums(s) && s->from != s->d.dtype)
        s->images = s->batch; /* its images are mingled in memory, and converted together */
    s->images_a_task = sums(s) ? images_of_a_slot(s) : images_of_a_task(s, work);
    s->tasks = (s->batch + s->images_a_task - 1) / s->images_a_task;
}

/* NULL: there is none, or b->error. */
static const mf_dnnl_primitive *make_primitive(mf_build *b, const conv_step *s)
{
    bool no_memory;
    const mf_dnnl_primitive *p = mf_dnnl_conv_create(&s->d, &no_memory);
    if (no_memory)
        b->error = mf_error_out_of_memory();
    return p && mf_build_hold(b, mf_dnnl_let_go, p) ? p : NULL;
}

/* Whether tiles multiply so much less that transforming them pays, and the kernel's points fit a cache. Of images that is a matter of one. */
static bool tiles_pay(const conv_step *s)
{
    const mf_winograd *g = &s->tiles;
    double direct = 9.0 * (double)g->out[0] * (double)g->out[1], tiles = (double)mf_winograd_tiles(g);
    return 16 * tiles <= 0.6 * direct && (sums(s) ? (double)s->batch * tiles >= MF_WINOGRAD_BLOCK : tiles >= LEAST_TILES) &&
           mf_winograd_packed(g) <= 16 * TILES_KERNEL && mf_winograd_is_fast();
}

/* Decides whether the convolution goes by tiles, once the batch is cut. */
static void plan_tiles(conv_step *s)
{
    const mf_dnnl_conv *d = &s->d;
    mf_winograd *g = &s->tiles;
    bool data = is_data(s), fits = d->spatial == 2 && d->dtype == MF_F32 && d->groups == 1;
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

static bool make_primitives(mf_build *b, conv_step *s)
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
    if (s->by_tiles && mf_winograd_scratch(&s->tiles, sums(s)) > s->task_scratch)
        s->task_scratch = mf_winograd_scratch(&s->tiles, sums(s));
    s->task_scratch = aligned((int64_t)s->task_scratch);
    return true;
}

static void plan_images(conv_step *s)
{
    s->step.run = run_all_images;
    s->step.scratch_bytes = weights_bytes(s) + (size_t)s->tasks * call_bytes(s);
    s->step.parts = s->by_images ? &parts : NULL;
}

static void plan_weights(conv_step *s)
{
    int64_t size = mf_dtype_size(s->d.dtype);
    s->packed = !s->by_tiles && mf_dnnl_packed_bytes(s->whole) && (!s->rest || mf_dnnl_same_packing(s->whole, s->rest));
    int64_t at_hand = s->images * s->d.y_strides[0] * size; /* of the cotangent, until a call takes it */
    s->step.run = run_weights;
    s->step.scratch_bytes = slots_bytes(s) + (size_t)s->tasks * weights_call_bytes(s);
    for (int i = 0; i < 2 && s->from != s->d.dtype; i++)
        s->step.scratch_bytes += aligned(s->counts[i] * size);
    s->step.parts = s->by_images && s->from == s->d.dtype && at_hand <= AT_HAND_BYTES ? &gathering : NULL;
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
    conv_step *s = is_ours(e) ? mf_step_new(b, sizeof *s, e) : NULL;
    if (!s)
        return b->error != NULL;
    s->from = e->in[0]->type->dtype;
    s->d.dtype = s->from == MF_BF16 && mf_dnnl_supports(MF_BF16) ? MF_BF16 : MF_F32;
    if (!describe(b, e, s, roots))
        return b->error != NULL;
    double flops = e->op->cost(e).flops;
    s->counts[0] = roots[0]->type->size;
    s->counts[1] = roots[1]->type->size;
    s->counts[2] = e->out[0]->type->size;
    cut(s, flops / 2);
    plan_tiles(s);
    if (!make_primitives(b, s))
        return b->error != NULL;
    if (sums(s))
        plan_weights(s);
    else
        plan_images(s);
    s->step.cost = 500 + flops / 60;
    mf_build_step(b, &s->step, roots, 2, e->out, 1);
    return true;
}
