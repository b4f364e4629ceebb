/* Convolutions that give images, forward and the gradient of the operand: by oneDNN, or by tiles (Winograd).
 * Invariant: an image is computed by the same call alone, among many, and when joined with other steps (row_fusion.c). */
#include "backend/native/products/conv_step.h"
#include "backend/native/steps/copy_step.h"

#include <string.h>

enum { BLOCK_BYTES = 512 << 10 }; /* of the current rows, where images are joined with other steps */

typedef struct weights {
    const void *plain;  /* in the dtype of the arithmetic */
    const void *packed; /* packed for `tiles` or `whole`, or NULL */
} weights;

typedef struct image_task {
    const mf_conv_step *s;
    const char *in;
    char *out, *scratch;
    weights w;
    _Atomic bool failed;
} image_task;

/* Sizes of the reversed weights, of the weights in the dtype of the arithmetic, and of the packed weights, which follow one another. */
static size_t reversed_bytes(const mf_conv_step *s) { return s->reversed ? mf_conv_aligned(s->counts[1] * mf_dtype_size(s->from)) : 0; }
static size_t widened_bytes(const mf_conv_step *s)
{
    return s->from != s->d.dtype ? mf_conv_aligned(s->counts[1] * mf_dtype_size(s->d.dtype)) : 0;
}

static size_t packed_bytes(const mf_conv_step *s)
{
    return s->by_tiles ? (size_t)mf_winograd_packed(&s->tiles) * sizeof(float) : mf_dnnl_packed_bytes(s->whole);
}

static size_t weights_bytes(const mf_conv_step *s)
{
    return reversed_bytes(s) + widened_bytes(s) + mf_conv_aligned((int64_t)packed_bytes(s));
}

/* The weights as all calls take them: in `made`, of weights_bytes, or in place. */
static weights find_weights(const mf_conv_step *s, const char *in, char *made)
{
    char *widened = made + reversed_bytes(s), *packed = widened + widened_bytes(s);
    const char *plain = widened_bytes(s) ? widened : s->reversed ? made : in;
    return (weights){ plain + s->offset[1] * mf_dtype_size(s->d.dtype), packed_bytes(s) ? packed : NULL };
}

/* Reverses the kernel in its spatial dimensions. */
static void turn(const mf_conv_step *s, const char *in, char *out)
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
static bool make_weights(const mf_conv_step *s, const char *in, char *made, char *scratch)
{
    weights w = find_weights(s, in, made);
    if (s->reversed)
        turn(s, in, made);
    if (s->from != s->d.dtype)
        mf_native_convert(s->d.dtype, made + reversed_bytes(s), s->from, s->reversed ? made : in, s->counts[1]);
    if (s->by_tiles) {
        /* a gradient's kernel is read backwards from its last place */
        const int64_t *row = s->d.w_strides + 2, last = mf_conv_is_data(s) ? 2 * (row[0] + row[1]) : 0;
        mf_winograd_pack(&s->tiles, (const float *)w.plain + last, (float *)(uintptr_t)w.packed);
        return true;
    }
    return !w.packed || mf_dnnl_pack(s->whole, w.plain, (void *)(uintptr_t)w.packed, scratch);
}

static bool run_direct(const image_task *t, const mf_dnnl_primitive *p, const char *in, char *result, char *workspace)
{
    const mf_conv_step *s = t->s;
    bool packed = !s->by_tiles && t->w.packed && (p == s->whole || mf_dnnl_same_packing(p, s->whole));
    return packed ? mf_dnnl_run_packed(p, in, t->w.packed, result, workspace) : mf_dnnl_run(p, in, t->w.plain, result, workspace);
}

/* Runs a call by tiles. Images that are not finite are left to oneDNN, so that infinities and NaN are in the right places, and the
 * others' bits do not change. */
static bool run_tiles(const image_task *t, const mf_dnnl_primitive *p, const float *in, float *result, int64_t count, char *workspace)
{
    const mf_conv_step *s = t->s;
    if (mf_winograd_images(&s->tiles, count, in, t->w.packed, result, workspace))
        return true;
    float *direct = (float *)(void *)(workspace + s->task_scratch);
    if (!run_direct(t, p, (const char *)in, (char *)direct, workspace))
        return false;
    for (int64_t i = 0; i < count; i++, in += mf_conv_in_image(s), result += mf_conv_out_image(s), direct += mf_conv_out_image(s))
        if (count == 1 || !mf_winograd_images(&s->tiles, 1, in, t->w.packed, result, workspace))
            memcpy(result, direct, (size_t)mf_conv_out_image(s) * sizeof *result);
    return true;
}

/* Runs one call: `count` images, `at` the first one. */
static bool run_call(const image_task *t, const mf_dnnl_primitive *p, int64_t at, int64_t count, char *workspace)
{
    const mf_conv_step *s = t->s;
    int64_t size = mf_dtype_size(s->d.dtype), stored = mf_dtype_size(s->from);
    int64_t in_count = s->by_images ? count * mf_conv_in_image(s) : s->counts[0],
            out_count = s->by_images ? count * mf_conv_out_image(s) : s->counts[2];
    const char *in = t->in + at * mf_conv_in_image(s) * stored;
    char *out = t->out + at * mf_conv_out_image(s) * stored, *result = out;
    if (s->from != s->d.dtype) {
        mf_native_convert(s->d.dtype, workspace, s->from, in, in_count);
        in = workspace;
        workspace += mf_conv_aligned(in_count * size);
        result = workspace;
        workspace += mf_conv_aligned(out_count * size);
    }
    in += s->offset[0] * size;
    bool ok = s->by_tiles ? run_tiles(t, p, (const float *)(const void *)in, (float *)(void *)result, count, workspace)
                          : run_direct(t, p, in, result, workspace);
    if (result != out)
        mf_native_convert(s->from, out, s->d.dtype, result, out_count);
    return ok;
}

static size_t call_bytes(const mf_conv_step *s)
{
    int64_t size = mf_dtype_size(s->d.dtype), in = s->by_images ? s->images * mf_conv_in_image(s) : s->counts[0];
    int64_t out = s->by_images ? s->images * mf_conv_out_image(s) : s->counts[2];
    return s->task_scratch + (s->from != s->d.dtype ? mf_conv_aligned(in * size) + mf_conv_aligned(out * size) : 0) +
           (s->by_tiles ? mf_conv_aligned(out * size) : 0);
}

/* Runs images [from, to); from is a multiple of a call's images. */
static void run_images(image_task *t, int64_t from, int64_t to, char *workspace)
{
    const mf_conv_step *s = t->s;
    for (int64_t at = from; at < to; at += s->images) {
        bool all = to - at >= s->images;
        if (!run_call(t, all ? s->whole : s->rest, at, all ? s->images : to - at, workspace))
            atomic_store(&t->failed, true);
    }
}

static void run_image_task(void *context, int64_t i)
{
    image_task *t = context;
    const mf_conv_step *s = t->s;
    int64_t from = i * s->images_a_task, to = from + s->images_a_task < s->batch ? from + s->images_a_task : s->batch;
    run_images(t, from, to, t->scratch + (size_t)i * call_bytes(s));
}

static mf_error_object *run_all_images(const mf_native_step *step, void *const *values, char *scratch)
{
    const mf_conv_step *s = (const mf_conv_step *)(const void *)step;
    char *made = scratch + step->scratch_offset;
    image_task t = { .s = s, .in = mf_step_in(step, values, 0), .out = mf_step_out(step, values, 0), .scratch = made + weights_bytes(s) };
    if (!make_weights(s, mf_step_in(step, values, 1), made, t.scratch))
        return mf_error_out_of_memory();
    t.w = find_weights(s, mf_step_in(step, values, 1), made);
    mf_parallel_for(s->tasks, run_image_task, &t);
    mf_conv_zeros_apply(&s->zeros, mf_step_in(step, values, 1), s->counts[1], t.out, 0, s->batch);
    return atomic_load(&t.failed) ? mf_error_out_of_memory() : NULL;
}

/* ------------------------------------------------------------------ by rows: some images, joined with other steps */

static int64_t count_rows(const mf_native_step *step)
{
    const mf_conv_step *s = mf_conv_of(step);
    return s->batch % s->images == 0 ? s->batch / s->images : 0;
}

static bool can_part(const mf_native_step *step, int64_t rows)
{
    const mf_conv_step *s = mf_conv_of(step);
    return s->batch % rows == 0 && s->batch / rows % s->images == 0;
}

static bool reads_own_row(const mf_native_step *step, int k, int64_t rows, int64_t elements)
{
    const mf_conv_step *s = mf_conv_of(step);
    (void)rows;
    return k == 0 && elements == s->counts[0];
}

static size_t prepared_bytes(const mf_native_step *step) { return weights_bytes(mf_conv_of(step)); }

static bool prepare(const mf_native_step *step, void *const *values, char *scratch)
{
    const mf_conv_step *s = mf_conv_of(step);
    return !weights_bytes(s) || make_weights(s, mf_step_in(step, values, 1), values[step->prepared], scratch + step->scratch_offset);
}

static bool run_part(const mf_native_step *step, void *const *values, char *scratch, int64_t rows, int64_t from, int64_t to)
{
    const mf_conv_step *s = mf_conv_of(step);
    int64_t each = s->batch / rows;
    image_task t = { .s = s, .in = mf_step_in(step, values, 0), .out = mf_step_out(step, values, 0) };
    t.w = find_weights(s, mf_step_in(step, values, 1), weights_bytes(s) ? values[step->prepared] : NULL);
    run_images(&t, from * each, to * each, scratch + step->scratch_offset);
    mf_conv_zeros_apply(&s->zeros, mf_step_in(step, values, 1), s->counts[1], t.out, from * each, to * each);
    return !atomic_load(&t.failed);
}

static size_t part_scratch(const mf_native_step *step) { return call_bytes(mf_conv_of(step)); }

static const mf_row_parts parts = { .rows = count_rows,
                                    .can = can_part,
                                    .inside = reads_own_row,
                                    .run = run_part,
                                    .scratch = part_scratch,
                                    .prepared_bytes = prepared_bytes,
                                    .prepare = prepare,
                                    .block_bytes = BLOCK_BYTES };

void mf_conv_plan_images(mf_conv_step *s)
{
    s->step.run = run_all_images;
    s->step.scratch_bytes = weights_bytes(s) + (size_t)s->tasks * call_bytes(s);
    s->step.parts = s->by_images ? &parts : NULL;
}
