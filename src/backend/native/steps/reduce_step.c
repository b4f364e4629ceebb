/* Reductions over axes: the operand becomes outer × reduced × inner, by joining dimensions or else by a copy, for the row and column
 * kernels. A reduction with few results is cut along the reduced elements, and the partial results are joined.
 * Invariants: the reduced elements are taken in row-major order, so the kernels' order is the op's order. Pieces are subtrees of it, or
 * images: a large operand whose first dimension is reduced is reduced image by image, and then over the images, also when joined with
 * other steps (row_fusion.c). Sums by images of products or squares of values in memory multiply on the fly. */
#include "backend/native/segment_build.h"
#include "backend/native/steps/copy_step.h"
#include "backend/native/kernels/kernels.h"

#include <string.h>

enum {
    TASK_ELEMENTS = 1 << 18,
    FEW_TASKS = 4,
    MOST_PIECES = 16,
    IMAGE_LEAST = 64,          /* least elements of an image, so that its partial result is small beside it */
    IMAGES_ELEMENTS = 1 << 16, /* least elements of all images */
};

typedef struct reduce_step {
    mf_native_step step;
    mf_reducer how;
    mf_dtype dtype;
    int64_t outer, reduced, inner;
    int64_t rows_a_task;   /* rows of outer, or columns of inner if outer is 1 */
    int64_t piece, pieces; /* of the reduced elements; if there are several, they are the tasks */
    int64_t images;        /* 0: not by images */
    const mf_eqn *product; /* the product that is summed by images without being stored; or NULL */
    size_t copy_bytes;
    int rank;                                          /* of the copy; 0: no copy */
    int64_t dims[MF_RANK], from[MF_RANK], to[MF_RANK]; /* bytes */
} reduce_step;

/* For bools, max is "or" and min is "and". */
static bool find_how(const mf_eqn *e, mf_reducer *how)
{
    mf_dtype dtype = e->in[0]->type->dtype;
    bool bits = dtype == MF_BOOL;
    mf_reducer r = e->op->reducer;
    *how = bits && r == MF_REDUCE_OR ? MF_REDUCE_MAX : bits && r == MF_REDUCE_AND ? MF_REDUCE_MIN : r;
    return e->op->reduced == MF_REDUCED_AXES && dtype == e->out[0]->type->dtype && mf_reduce_rows(*how, dtype, NULL, NULL, 0, 0, 0, false);
}

/* Finds outer × reduced × inner without a copy. False: the dimensions are not in that order. */
static bool join_dimensions(reduce_step *s, const mf_type *t, const mf_intlist *axes)
{
    int stage = 0; /* 0: outer, 1: reduced, 2: inner */
    s->outer = s->reduced = s->inner = 1;
    for (int i = 0; i < t->rank; i++) {
        bool gone = mf_ints_has(axes, i);
        if (t->dims[i] == 1)
            continue;
        if (gone && stage == 2)
            return false;
        stage = gone ? 1 : stage ? 2 : 0;
        *(stage == 0 ? &s->outer : stage == 1 ? &s->reduced : &s->inner) *= t->dims[i];
    }
    return true;
}

/* Plans a copy with the reduced dimensions last. */
static void plan_copy(reduce_step *s, const mf_type *t, const mf_intlist *axes)
{
    int64_t strides[MF_RANK], bytes = mf_dtype_size(t->dtype);
    mf_contiguous_strides(t, strides);
    s->outer = s->reduced = s->inner = 1;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < t->rank; i++)
            if (mf_ints_has(axes, i) == (pass == 1)) {
                s->dims[s->rank] = t->dims[i];
                s->from[s->rank++] = strides[i];
                *(pass ? &s->reduced : &s->outer) *= t->dims[i];
            }
    for (int d = s->rank - 1; d >= 0; d--) {
        s->to[d] = bytes;
        bytes *= s->dims[d];
    }
    s->step.scratch_bytes = s->copy_bytes = ((size_t)t->bytes + 63) / 64 * 64;
}

typedef struct reduce_task {
    const reduce_step *s;
    const char *in;
    char *out, *parts;
} reduce_task;

/* The lines that tasks are cut from. */
static int64_t count_lines(const reduce_step *s) { return s->outer > 1 || s->inner == 1 ? s->outer : s->inner; }
static int64_t count_tasks(const reduce_step *s) { return (count_lines(s) + s->rows_a_task - 1) / s->rows_a_task; }

static void run_task(void *context, int64_t index)
{
    const reduce_task *t = context;
    const reduce_step *s = t->s;
    int64_t first = index * s->rows_a_task, size = mf_dtype_size(s->dtype), total = count_lines(s);
    int64_t count = total - first < s->rows_a_task ? total - first : s->rows_a_task;
    if (s->inner == 1) {
        mf_reduce_rows(s->how, s->dtype, t->in + first * s->reduced * size, t->out + first * size, (size_t)count, (size_t)s->reduced,
                       s->reduced, false);
    } else if (s->outer == 1) {
        mf_reduce_columns(s->how, s->dtype, t->in + first * size, t->out + first * size, (size_t)s->reduced, (size_t)count, s->inner,
                          false);
    } else {
        for (int64_t i = first; i < first + count; i++)
            mf_reduce_columns(s->how, s->dtype, t->in + i * s->reduced * s->inner * size, t->out + i * s->inner * size, (size_t)s->reduced,
                              (size_t)s->inner, s->inner, false);
    }
}

/* The dtype of partial results. */
static mf_dtype joining(const reduce_step *s) { return s->dtype == MF_F16 || s->dtype == MF_BF16 ? MF_F32 : s->dtype; }

/* The bytes of one piece's results. */
static int64_t part_bytes(const reduce_step *s) { return (s->outer * s->inner * mf_dtype_size(joining(s)) + 63) / 64 * 64; }

static void run_piece(void *context, int64_t index)
{
    const reduce_task *t = context;
    const reduce_step *s = t->s;
    int64_t at = index % s->pieces, row = index / s->pieces, first = at * s->piece;
    size_t n = (size_t)(s->reduced - first < s->piece ? s->reduced - first : s->piece);
    const char *in = t->in + (row * s->reduced + first) * s->inner * mf_dtype_size(s->dtype);
    char *out = t->parts + at * part_bytes(s) + row * s->inner * mf_dtype_size(joining(s));
    if (s->inner == 1)
        mf_reduce_rows(s->how, s->dtype, in, out, 1, n, 0, true);
    else
        mf_reduce_columns(s->how, s->dtype, in, out, n, (size_t)s->inner, s->inner, true);
}

static void join_pieces(const reduce_task *t)
{
    const reduce_step *s = t->s;
    const void *from[MOST_PIECES];
    for (int64_t i = 0; i < s->pieces; i++)
        from[i] = t->parts + i * part_bytes(s);
    bool same = joining(s) == s->dtype;
    mf_all_reduce(s->how, joining(s), from, (size_t)s->pieces, same ? t->out : t->parts, (size_t)(s->outer * s->inner), false);
    if (!same)
        mf_native_convert(s->dtype, t->out, joining(s), t->parts, s->outer * s->inner);
}

/* ------------------------------------------------------------------ by images */

static int64_t image_elements(const reduce_step *s) { return s->reduced / s->images * s->inner; }
static int64_t images_a_task(const reduce_step *s) { return (TASK_ELEMENTS + image_elements(s) - 1) / image_elements(s); }

/* The partial results of the images, and behind them the result before it is rounded. */
static size_t images_bytes(const reduce_step *s) { return (size_t)(s->images + 1) * (size_t)(s->inner * mf_dtype_size(joining(s))); }

static void sum_products(const reduce_step *s, const float *a, const float *b, float *made, int64_t from, int64_t to)
{
    int64_t image = image_elements(s);
    for (int64_t i = from; i < to; i++)
        mf_sum_products(a + i * image, b + i * image, made + i * s->inner, (size_t)(s->reduced / s->images), (size_t)s->inner);
}

static void reduce_images(const reduce_step *s, void *const *values, char *made, int64_t from, int64_t to)
{
    int64_t image = image_elements(s) * mf_dtype_size(s->dtype), result = s->inner * mf_dtype_size(joining(s));
    const char *in = mf_step_in(&s->step, values, 0), *other = mf_step_in(&s->step, values, s->step.in_count - 1);
    if (s->product) {
        sum_products(s, (const float *)(const void *)in, (const float *)(const void *)other, (float *)(void *)made, from, to);
        return;
    }
    for (int64_t i = from; i < to; i++)
        mf_reduce_columns(s->how, s->dtype, in + i * image, made + i * result, (size_t)(s->reduced / s->images), (size_t)s->inner, s->inner,
                          true);
}

typedef struct images_task {
    const reduce_step *s;
    void *const *values;
    char *made;
} images_task;

static void run_images(void *context, int64_t index)
{
    const images_task *t = context;
    int64_t from = index * images_a_task(t->s), to = from + images_a_task(t->s);
    reduce_images(t->s, t->values, t->made, from, to < t->s->images ? to : t->s->images);
}

static void join_images(const reduce_step *s, char *made, char *out)
{
    bool same = joining(s) == s->dtype;
    char *result = same ? out : made + (size_t)s->images * (size_t)(s->inner * mf_dtype_size(joining(s)));
    mf_reduce_columns(s->how, joining(s), made, result, (size_t)s->images, (size_t)s->inner, s->inner, false);
    if (!same)
        mf_native_convert(s->dtype, out, joining(s), result, s->inner);
}

static mf_error_object *run_by_images(const mf_native_step *step, void *const *values, char *scratch)
{
    const reduce_step *s = (const reduce_step *)(const void *)step;
    images_task task = { s, values, scratch + step->scratch_offset };
    mf_parallel_for((s->images + images_a_task(s) - 1) / images_a_task(s), run_images, &task);
    join_images(s, task.made, mf_step_out(step, values, 0));
    return NULL;
}

/* ------------------------------------------------------------------ as a whole */

static mf_error_object *run(const mf_native_step *step, void *const *values, char *scratch)
{
    const reduce_step *s = (const reduce_step *)(const void *)step;
    char *workspace = scratch + step->scratch_offset;
    reduce_task task = { s, mf_step_in(step, values, 0), mf_step_out(step, values, 0), workspace };
    if (s->rank) {
        mf_native_copy(s->rank, s->dims, mf_dtype_size(s->dtype), workspace, s->to, task.in, s->from);
        task.in = workspace;
        task.parts += s->copy_bytes;
    }
    if (s->pieces > 1) {
        mf_parallel_for(s->outer * s->pieces, run_piece, &task);
        join_pieces(&task);
    } else {
        mf_parallel_for(count_tasks(s), run_task, &task);
    }
    return NULL;
}

/* ------------------------------------------------------------------ by rows */

static const reduce_step *of(const mf_native_step *step) { return (const reduce_step *)(const void *)step; }
static int64_t count_rows(const mf_native_step *step) { return of(step)->outer; }
static bool can_part(const mf_native_step *step, int64_t rows) { return of(step)->outer % rows == 0; }

static bool reads_own_row(const mf_native_step *step, int k, int64_t rows, int64_t elements)
{
    (void)k;
    (void)rows;
    return elements == of(step)->outer * of(step)->reduced;
}

static bool run_part(const mf_native_step *step, void *const *values, char *scratch, int64_t rows, int64_t from, int64_t to)
{
    const reduce_step *s = of(step);
    int64_t size = mf_dtype_size(s->dtype), times = s->outer / rows, first = from * times;
    (void)scratch;
    mf_reduce_rows(s->how, s->dtype, mf_step_in(step, values, 0) + first * s->reduced * size, mf_step_out(step, values, 0) + first * size,
                   (size_t)((to - from) * times), (size_t)s->reduced, s->reduced, false);
    return true;
}

static const mf_group_plan *no_group(const mf_native_step *step) { return (void)step, NULL; }
static mf_reducer fold_of(const mf_native_step *step) { return of(step)->how; }

static const mf_row_parts parts = {
    .rows = count_rows, .can = can_part, .inside = reads_own_row, .group = no_group, .fold = fold_of, .run = run_part
};

/* By images: a row is several images, or a part of one. */
static bool can_gather(const mf_native_step *step, int64_t rows) { return of(step)->images % rows == 0; }
static bool gathers_own_row(const mf_native_step *step, int k, int64_t rows, int64_t elements)
{
    (void)k;
    (void)rows;
    return elements == of(step)->reduced * of(step)->inner;
}

static size_t gathered_bytes(const mf_native_step *step) { return images_bytes(of(step)); }
static size_t no_scratch(const mf_native_step *step) { return (void)step, 0; }

static bool gather_part(const mf_native_step *step, void *const *values, char *scratch, int64_t rows, int64_t from, int64_t to)
{
    const reduce_step *s = of(step);
    int64_t each = s->images / rows;
    (void)scratch;
    reduce_images(s, values, values[step->prepared], from * each, to * each);
    return true;
}

static bool finish(const mf_native_step *step, void *const *values)
{
    join_images(of(step), values[step->prepared], mf_step_out(step, values, 0));
    return true;
}

static const mf_row_parts gathering = { .can = can_gather,
                                        .inside = gathers_own_row,
                                        .run = gather_part,
                                        .scratch = no_scratch,
                                        .prepared_bytes = gathered_bytes,
                                        .finish = finish };

/* ------------------------------------------------------------------ the step */

static int64_t place(const mf_native_step *step, int operand, int64_t result, int64_t k)
{
    const reduce_step *s = of(step);
    int64_t at = (result / s->inner * s->reduced + k) * s->inner + result % s->inner, size = mf_dtype_size(s->dtype);
    (void)operand;
    return s->rank ? mf_place_in_copy(s->rank, s->dims, s->from, at) / size : at;
}

static void form_of(const mf_native_step *step, mf_form *f)
{
    const reduce_step *s = of(step);
    f->kind = MF_FORM_FOLD;
    f->fold = s->how;
    f->dtype = s->dtype;
    f->count = s->outer * s->inner;
    f->length = s->reduced;
    f->place = place;
}

static void cut(reduce_step *s, int64_t size)
{
    int64_t row = s->outer > 1 || s->inner == 1 ? s->reduced * s->inner : s->reduced;
    s->rows_a_task = row >= TASK_ELEMENTS || row == 0 ? 1 : (TASK_ELEMENTS / row + 63) / 64 * 64; /* columns in whole cache lines */
    if (size <= TASK_ELEMENTS)
        s->rows_a_task = INT64_MAX / 2;
    s->piece = MF_REDUCE_CHUNK;
    s->pieces = 1;
    if (size < 2 * TASK_ELEMENTS || count_tasks(s) >= FEW_TASKS)
        return;
    while (s->piece * s->inner < TASK_ELEMENTS || s->piece * MOST_PIECES < s->reduced)
        s->piece *= 2;
    s->pieces = (s->reduced + s->piece - 1) / s->piece;
    if (s->pieces > 1)
        s->step.scratch_bytes += (size_t)(s->pieces * part_bytes(s));
}

/* An image is one index of the first dimension, if that is reduced. */
static void find_images(reduce_step *s, const mf_type *t, const mf_intlist *axes)
{
    int first = 0;
    while (first < t->rank && t->dims[first] == 1)
        first++;
    bool goes = !s->rank && s->outer == 1 && s->inner > 1 && first < t->rank && mf_ints_has(axes, first);
    if (goes && t->size >= IMAGES_ELEMENTS && s->reduced / t->dims[first] >= IMAGE_LEAST)
        s->images = t->dims[first];
}

/* A product of two values in memory, or the square of one, that has no other reader. */
static const mf_eqn *find_product(const mf_build *b, const reduce_step *s, const mf_eqn *e)
{
    const mf_eqn *p = e->in[0]->producer;
    bool square = p && p->op == &mf_op_square;
    if (!p || (!square && p->op != &mf_op_mul) || s->how != MF_REDUCE_SUM || s->dtype != MF_F32)
        return NULL;
    bool fits = b->vars[e->in[0]->id].kind == MF_VAR_NODE && b->vars[e->in[0]->id].only_reader == e;
    for (int i = 0; i < p->in_count; i++)
        fits = fits && b->vars[p->in[i]->id].kind == MF_VAR_MEMORY;
    return fits ? p : NULL;
}

bool mf_build_reduce(mf_build *b, const mf_eqn *e)
{
    mf_reducer how;
    if (!find_how(e, &how))
        return false;
    reduce_step *s = mf_step_new(b, sizeof *s, e);
    if (!s)
        return true;
    const mf_type *t = e->in[0]->type;
    const mf_intlist *axes = ((const mf_axes_params *)e->params)->axes;
    s->how = how;
    s->dtype = t->dtype;
    if (!join_dimensions(s, t, axes))
        plan_copy(s, t, axes);
    find_images(s, t, axes);
    if (s->images) {
        s->step.run = run_by_images;
        s->step.scratch_bytes = images_bytes(s);
        s->step.parts = &gathering;
        s->product = find_product(b, s, e);
    } else {
        cut(s, t->size);
        s->step.run = run;
        s->step.form = form_of;
        s->step.parts = s->inner == 1 && !s->rank && t->size ? &parts : NULL;
    }
    s->step.cost = 20 + (double)t->size * (s->rank ? 0.6 : 0.15);
    mf_build_step(b, &s->step, s->product ? s->product->in : e->in, s->product ? s->product->in_count : 1, e->out, 1);
    return true;
}
