/* The gradient of a convolution's weights, a sum over images.
 * Invariant: image after image is added up in f32, in slots that are joined in one fixed tree, both alone and joined with other steps. */
#include "backend/native/products/conv_step.h"
#include "backend/native/steps/copy_step.h"

#include <string.h>

enum { AT_HAND_BYTES = 1 << 20 }; /* of a cotangent whose images wait for a call */

/* A slot adds up its images, call after call; the slots are added up in a tree. */
typedef struct weight_task {
    const mf_conv_step *s;
    const char *x, *dy;
    char *slots, *scratch;
    bool marks; /* places that are NaN are found call by call, not at the end */
    _Atomic bool failed;
} weight_task;

/* Elements of a sum in oneDNN's format; the marks of conv_zeros.c follow it. */
static int64_t sum_count(const mf_conv_step *s)
{
    return s->packed ? (int64_t)(mf_dnnl_packed_bytes(s->whole) / sizeof(float)) : s->counts[2];
}
static size_t sum_bytes(const mf_conv_step *s) { return mf_conv_aligned(sum_count(s) * (int64_t)sizeof(float)); }
static size_t slot_bytes(const mf_conv_step *s) { return sum_bytes(s) + mf_conv_aligned((int64_t)mf_conv_zeros_marks(&s->zeros)); }
static size_t weights_call_bytes(const mf_conv_step *s) { return sum_bytes(s) + s->task_scratch; }

/* Memory for the slots and for joining them: their sum, its unpacked form, and oneDNN's scratch. */
static size_t slots_bytes(const mf_conv_step *s)
{
    return (size_t)s->tasks * slot_bytes(s) + sum_bytes(s) + mf_conv_aligned(s->counts[2] * (int64_t)sizeof(float)) + s->task_scratch;
}

static char *slot_of(const mf_conv_step *s, char *slots, int64_t image)
{
    return slots + (size_t)(image / s->images_a_task) * slot_bytes(s);
}

/* Marks the places of the slot that the zeros around images [at, to) make NaN; see conv_zeros.c. */
static void mark(const weight_task *t, int64_t at, int64_t to)
{
    const mf_conv_step *s = t->s;
    char *slot = slot_of(s, t->slots, at), *marks = slot + sum_bytes(s);
    if (at % s->images_a_task == 0)
        memset(marks, 0, mf_conv_zeros_marks(&s->zeros));
    mf_conv_zeros_mark(&s->zeros, t->dy - s->offset[1] * mf_dtype_size(s->d.dtype), at, to, (const float *)(const void *)slot, sum_count(s),
                       marks);
}

/* Adds images [at, to) of one call to their slot; workspace: weights_call_bytes. */
static bool add_call(const weight_task *t, int64_t at, int64_t to, char *workspace)
{
    const mf_conv_step *s = t->s;
    int64_t size = mf_dtype_size(s->d.dtype);
    bool first = at % s->images_a_task == 0;
    char *slot = slot_of(s, t->slots, at), *out = first ? slot : workspace;
    const mf_dnnl_primitive *p = to - at == s->images ? s->whole : s->rest;
    const char *x = t->x + at * s->d.x_strides[0] * size, *dy = t->dy + at * s->d.y_strides[0] * size;
    char *scratch = workspace + sum_bytes(s);
    const float *images = (const float *)(const void *)x, *cotangents = (const float *)(const void *)dy;
    bool ok = (s->by_tiles && mf_winograd_weights(&s->tiles, to - at, images, cotangents, (float *)(void *)out, scratch)) ||
              (s->packed ? mf_dnnl_run_packed(p, x, dy, out, scratch) : mf_dnnl_run(p, x, dy, out, scratch));
    if (!first)
        mf_all_reduce(MF_REDUCE_SUM, MF_F32, (const void *const[]){ slot, out }, 2, slot, (size_t)sum_count(s), false);
    return ok;
}

/* Adds images [from, to) call by call; from begins a call. False: out of memory. */
static bool add_images(const weight_task *t, int64_t from, int64_t to, char *workspace)
{
    bool ok = true;
    for (int64_t at = from; at < to; at += t->s->images) {
        int64_t behind = at + t->s->images < to ? at + t->s->images : to;
        ok = add_call(t, at, behind, workspace) && ok;
        if (t->marks)
            mark(t, at, behind);
    }
    return ok;
}

static void run_weight_task(void *context, int64_t i)
{
    weight_task *t = context;
    const mf_conv_step *s = t->s;
    int64_t from = i * s->images_a_task, to = from + s->images_a_task < s->batch ? from + s->images_a_task : s->batch;
    if (!add_images(t, from, to, t->scratch + (size_t)i * weights_call_bytes(s)))
        atomic_store(&t->failed, true);
}

/* False: out of memory. */
static bool join_slots(const mf_conv_step *s, char *slots, char *out)
{
    const void *from[MF_CONV_MOST_TASKS] = { slots };
    char *workspace = slots + (size_t)s->tasks * slot_bytes(s), *plain = s->from == MF_F32 ? out : workspace + sum_bytes(s);
    char *sum = s->packed ? workspace : plain;
    for (int64_t i = 1; i < s->tasks; i++)
        from[i] = slots + (size_t)i * slot_bytes(s);
    mf_all_reduce(MF_REDUCE_SUM, MF_F32, from, (size_t)s->tasks, sum, (size_t)sum_count(s), false);
    bool ok = !s->packed || mf_dnnl_unpack(s->whole, sum, plain, slots + slots_bytes(s) - s->task_scratch);
    if (plain != out)
        mf_native_convert(s->from, out, MF_F32, plain, s->counts[2]);
    return ok;
}

/* An operand in the dtype of the arithmetic; advances workspace past what was written. */
static const char *widened(const mf_conv_step *s, const char *in, int64_t count, char **workspace)
{
    if (s->from == s->d.dtype)
        return in;
    char *out = *workspace;
    mf_native_convert(s->d.dtype, out, s->from, in, count);
    *workspace += mf_conv_aligned(count * mf_dtype_size(s->d.dtype));
    return out;
}

static mf_error_object *run_weights(const mf_native_step *step, void *const *values, char *scratch)
{
    const mf_conv_step *s = (const mf_conv_step *)(const void *)step;
    char *workspace = scratch + step->scratch_offset, *out = mf_step_out(step, values, 0);
    int64_t size = mf_dtype_size(s->d.dtype);
    weight_task t = { .s = s };
    t.x = widened(s, mf_step_in(step, values, 0), s->counts[0], &workspace) + s->offset[0] * size;
    t.dy = widened(s, mf_step_in(step, values, 1), s->counts[1], &workspace) + s->offset[1] * size;
    t.slots = workspace;
    t.scratch = workspace + slots_bytes(s);
    mf_parallel_for(s->tasks, run_weight_task, &t);
    bool joined = join_slots(s, t.slots, out);
    mf_conv_zeros_apply(&s->zeros, mf_step_in(step, values, 1), s->counts[1], out, 0,
                        step->eqn->out[0]->type->dims[((const mf_conv_params *)step->eqn->params)->out_spec->at[0]]);
    return joined && !atomic_load(&t.failed) ? NULL : mf_error_out_of_memory();
}

/* ------------------------------------------------------------------ weights by rows: adds images while they are in the cache */

/* The number of rows that have so many images, if both are powers of two; else 0. */
static int64_t rows_of(const mf_conv_step *s, int64_t images, int64_t rows)
{
    int64_t each = s->batch / rows, count = images > each ? images / each : 1;
    return images % each && each % images ? 0 : (count & (count - 1)) ? 0 : count;
}

static int64_t rows_a_call(const mf_native_step *step, int64_t rows) { return rows_of(mf_conv_of(step), mf_conv_of(step)->images, rows); }
static int64_t rows_a_slot(const mf_native_step *step, int64_t rows)
{
    return rows_of(mf_conv_of(step), mf_conv_of(step)->images_a_task, rows);
}

static bool can_gather(const mf_native_step *step, int64_t rows)
{
    return mf_conv_of(step)->batch % rows == 0 && rows_a_call(step, rows) && rows_a_slot(step, rows);
}

static bool gathers_own_row(const mf_native_step *step, int k, int64_t rows, int64_t elements)
{
    (void)rows;
    return elements == mf_conv_of(step)->counts[k];
}

static size_t gathered_bytes(const mf_native_step *step) { return slots_bytes(mf_conv_of(step)); }
static size_t gather_scratch(const mf_native_step *step) { return weights_call_bytes(mf_conv_of(step)); }

static bool gather_part(const mf_native_step *step, void *const *values, char *scratch, int64_t rows, int64_t from, int64_t to)
{
    const mf_conv_step *s = mf_conv_of(step);
    int64_t each = s->batch / rows, size = mf_dtype_size(s->d.dtype);
    weight_task t = { .s = s, .slots = values[step->prepared], .marks = true };
    t.x = mf_step_in(step, values, 0) + s->offset[0] * size;
    t.dy = mf_step_in(step, values, 1) + s->offset[1] * size;
    return add_images(&t, from * each, to * each, scratch + step->scratch_offset);
}

static bool finish(const mf_native_step *step, void *const *values)
{
    const mf_conv_step *s = mf_conv_of(step);
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

void mf_conv_plan_weights(mf_conv_step *s)
{
    int64_t size = mf_dtype_size(s->d.dtype);
    s->packed = !s->by_tiles && mf_dnnl_packed_bytes(s->whole) && (!s->rest || mf_dnnl_same_packing(s->whole, s->rest));
    int64_t at_hand = s->images * s->d.y_strides[0] * size; /* of the cotangent, until a call takes it */
    s->step.run = run_weights;
    s->step.scratch_bytes = slots_bytes(s) + (size_t)s->tasks * weights_call_bytes(s);
    for (int i = 0; i < 2 && s->from != s->d.dtype; i++)
        s->step.scratch_bytes += mf_conv_aligned(s->counts[i] * size);
    s->step.parts = s->by_images && s->from == s->d.dtype && at_hand <= AT_HAND_BYTES ? &gathering : NULL;
}
