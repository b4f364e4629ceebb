/* gather and the scatters as steps. At compile time the dimension numbers become a list of what each index contributes (its stride and
 * bound) and the window's shape, with its dense dimensions joined. At run time a block of index vectors becomes a block of offsets; then
 * windows move.
 * Invariants: nothing is read or written outside the operand (ops/index/index_windows.h defines out of bounds); updates of one element
 * are applied in row-major order of their index vectors, whatever the number of workers: work is divided by where updates go. */
#include "backend/native/kernels/kernels.h"
#include "backend/native/segment_build.h"
#include "backend/native/steps/copy_step.h"
#include "ops/index/index_windows.h"

#include <string.h>

enum { BLOCK = 256, TASK_BYTES = 1 << 17, TASKS_FROM = 1 << 19 };

typedef struct index_step {
    mf_native_step step;
    int64_t count; /* index vectors */
    mf_dtype index_dtype;
    int map_count, element;
    bool clip, never_inside;
    int64_t last[MF_RANK], bytes[MF_RANK]; /* by index entry: the greatest start; bytes in the operand that a start of 1 skips */
    int batch_rank;                        /* of the index vectors, row-major */
    int64_t batch[MF_RANK], side[MF_RANK], own[MF_RANK];         /* sizes; bytes on the other side; bytes in the operand */
    int rank;                                                    /* of the window without its run, the part that is dense on both sides */
    int64_t window[MF_RANK], there[MF_RANK], here[MF_RANK], run; /* sizes; bytes in the operand; on the other side; of the run */
    int64_t side_offset;                                         /* of updates, in bytes */
    char fill[16];
    int64_t count_a_task;
    mf_reducer join; /* of all scatters but the plain one */
    mf_dtype dtype;
    int64_t slices, slice; /* of the run: updates are divided among tasks by slices; bytes */
} index_step;

/* ------------------------------------------------------------------ offsets */

static int64_t index_at(mf_dtype dtype, const char *p)
{
    int64_t x = mf_load_i64(dtype, p);
    return dtype == MF_U64 && x < 0 ? INT64_MAX : x;
}

#define OUTSIDE MF_OUTSIDE

static void add_entries(const index_step *s, int k, const char *vectors, int64_t n, int64_t *operand)
{
    int64_t last = s->last[k], bytes = s->bytes[k], size = mf_dtype_size(s->index_dtype), vector_bytes = s->map_count * size;
    for (int64_t i = 0; i < n; i++) {
        int64_t start = index_at(s->index_dtype, vectors + i * vector_bytes + k * size);
        int64_t clipped = start < 0 ? 0 : start > last ? last : start;
        bool inside = s->clip || start == clipped;
        operand[i] = inside && operand[i] != OUTSIDE ? operand[i] + clipped * bytes : OUTSIDE;
    }
}

/* A walk over index vectors, one run along their last dimension at a time. `there`: where the window of the first one would begin in the
 * operand if its indices were 0; `here`: where it begins on the other side. */
typedef struct index_walk {
    int64_t at[MF_RANK], there, here;
} index_walk;

static index_walk walk_from(const index_step *s, int64_t first)
{
    index_walk w = { .there = 0 };
    for (int d = s->batch_rank - 1; d >= 0; d--) {
        w.at[d] = first % s->batch[d];
        first /= s->batch[d];
        w.here += w.at[d] * s->side[d];
        w.there += w.at[d] * s->own[d];
    }
    return w;
}

/* The number of vectors in the next run, at most n, and the bytes between them. */
static int64_t run_of(const index_step *s, const index_walk *w, int64_t n, int64_t *there_step, int64_t *here_step)
{
    int inner = s->batch_rank - 1;
    *there_step = inner < 0 ? 0 : s->own[inner];
    *here_step = inner < 0 ? 0 : s->side[inner];
    return inner < 0 || s->batch[inner] - w->at[inner] > n ? n : s->batch[inner] - w->at[inner];
}

static void walk_on(const index_step *s, index_walk *w, int64_t run)
{
    int inner = s->batch_rank - 1;
    w->there += inner < 0 ? 0 : run * s->own[inner];
    w->here += inner < 0 ? 0 : run * s->side[inner];
    for (int d = inner; d >= 0 && (w->at[d] += d == inner ? run : 1) == s->batch[d]; d--) {
        w->here += (d ? s->side[d - 1] : 0) - s->batch[d] * s->side[d];
        w->there += (d ? s->own[d - 1] : 0) - s->batch[d] * s->own[d];
        w->at[d] = 0;
    }
}

/* Finds where the windows of the index vectors [first, first + n) begin, in the operand and on the other side. */
static void find_offsets(const index_step *s, const char *indices, int64_t first, int64_t n, int64_t *operand, int64_t *side)
{
    int64_t size = mf_dtype_size(s->index_dtype), there_step, here_step;
    index_walk w = walk_from(s, first);
    for (int64_t i = 0, run; i < n; i += run, walk_on(s, &w, run)) {
        run = run_of(s, &w, n - i, &there_step, &here_step);
        mf_count_offsets(w.there, there_step, run, operand + i);
        mf_count_offsets(w.here, here_step, run, side + i);
    }
    for (int64_t i = 0; i < n && s->never_inside; i++)
        operand[i] = OUTSIDE;
    const char *vectors = indices + first * s->map_count * size;
    for (int k = 0; k < s->map_count; k++)
        if (s->index_dtype == MF_I32)
            mf_add_indices((const int32_t *)(const void *)vectors + k, s->map_count, n, s->last[k], s->bytes[k], s->clip, operand);
        else
            add_entries(s, k, vectors, n, operand);
}

/* ------------------------------------------------------------------ gather */

typedef struct gather_task {
    const index_step *s;
    const char *in, *indices;
    char *out;
} gather_task;

#define MOVE(size)                  \
    for (int64_t i = 0; i < n; i++) \
    memcpy(out + side[i], operand[i] == OUTSIDE ? s->fill : in + operand[i], (size_t)(size))

static void fill_run(const index_step *s, char *out) { mf_native_fill(out, s->run / s->element, s->element, s->fill); }

static void gather_windows(const index_step *s, char *out, const char *in, const int64_t *operand, const int64_t *side, int64_t n)
{
    static const int64_t held_once[MF_RANK];
    for (int64_t i = 0; i < n; i++) {
        bool inside = operand[i] != OUTSIDE;
        if (s->rank == 0 && inside)
            memcpy(out + side[i], in + operand[i], (size_t)s->run);
        else if (s->rank == 0)
            fill_run(s, out + side[i]);
        else
            mf_copy_strided(s->rank, s->window, s->element, out + side[i], s->here, inside ? in + operand[i] : s->fill,
                            inside ? s->there : held_once);
    }
}

/* Whether windows are single elements with one index each: then offsets are not stored. */
static bool takes_elements(const index_step *s)
{
    return s->rank == 0 && s->run == s->element && s->map_count == 1 && s->index_dtype == MF_I32 && !s->never_inside;
}

static void take_elements(const gather_task *t, int64_t first, int64_t end)
{
    const index_step *s = t->s;
    index_walk w = walk_from(s, first);
    const int32_t *index = (const int32_t *)(const void *)t->indices;
    for (int64_t run, there_step, here_step; first < end; first += run, walk_on(s, &w, run)) {
        run = run_of(s, &w, end - first, &there_step, &here_step);
        mf_take_run(s->element, t->out + w.here, here_step, t->in + w.there, there_step, index + first, run, s->last[0], s->bytes[0],
                    s->clip ? NULL : s->fill);
    }
}

static void run_gather_task(void *context, int64_t index)
{
    const gather_task *t = context;
    const index_step *s = t->s;
    int64_t first = index * s->count_a_task, end = first + s->count_a_task < s->count ? first + s->count_a_task : s->count;
    if (takes_elements(s)) {
        take_elements(t, first, end);
        return;
    }
    int64_t operand[BLOCK], side[BLOCK];
    const char *in = t->in;
    char *out = t->out;
    for (; first < end; first += BLOCK) {
        int64_t n = end - first < BLOCK ? end - first : BLOCK;
        find_offsets(s, t->indices, first, n, operand, side);
        if (s->rank || s->run != s->element) {
            gather_windows(s, out, in, operand, side, n);
            continue;
        }
        switch (s->element) {
        case 1: MOVE(1); break;
        case 2: MOVE(2); break;
        case 4: MOVE(4); break;
        case 8: MOVE(8); break;
        default: MOVE(16); break;
        }
    }
}

static mf_error_object *run_gather(const mf_native_step *step, void *const *values, char *scratch)
{
    const index_step *s = (const index_step *)(const void *)step;
    gather_task t = { s, mf_step_in(step, values, 0), mf_step_in(step, values, 1), mf_step_out(step, values, 0) };
    int64_t tasks = (s->count + s->count_a_task - 1) / s->count_a_task;
    (void)scratch;
    mf_parallel_for(tasks, run_gather_task, &t);
    return NULL;
}

/* ------------------------------------------------------------------ scatter */

typedef struct scatter_task {
    const index_step *s;
    const char *updates, *indices;
    char *out;
} scatter_task;

static void join_windows(const index_step *s, char *out, const char *in, int axis)
{
    if (axis == s->rank)
        mf_join_run(s->join, s->dtype, out, in, s->run / s->element);
    else
        for (int64_t i = 0; i < s->window[axis]; i++)
            join_windows(s, out + i * s->there[axis], in + i * s->here[axis], axis + 1);
}

/* Scatters windows of one run: the part of each of so many bytes from `from` on. */
static void scatter_runs(const scatter_task *t, const int64_t *operand, const int64_t *side, int64_t n, int64_t from, int64_t bytes)
{
    const index_step *s = t->s;
    for (int64_t i = 0; i < n; i++) {
        if (operand[i] == OUTSIDE)
            continue;
        char *out = t->out + operand[i] + from;
        const char *in = t->updates + side[i] + from;
        if (s->join == MF_REDUCE_SET)
            memcpy(out, in, (size_t)bytes);
        else
            mf_join_run(s->join, s->dtype, out, in, bytes / s->element);
    }
}

static void run_scatter_task(void *context, int64_t index)
{
    const scatter_task *t = context;
    const index_step *s = t->s;
    int64_t operand[BLOCK], side[BLOCK], from = index * s->slice, bytes = s->run - from < s->slice ? s->run - from : s->slice;
    for (int64_t first = 0; first < s->count; first += BLOCK) {
        int64_t n = s->count - first < BLOCK ? s->count - first : BLOCK;
        find_offsets(s, t->indices, first, n, operand, side);
        if (s->rank == 0 && s->run == s->element && mf_line_knows(s->dtype)) {
            mf_join_each(s->join, s->dtype, t->out, operand, t->updates, side, n);
            continue;
        }
        if (s->rank == 0) {
            scatter_runs(t, operand, side, n, from, bytes);
            continue;
        }
        for (int64_t i = 0; i < n; i++) {
            if (operand[i] == OUTSIDE)
                continue;
            if (s->join == MF_REDUCE_SET)
                mf_copy_strided(s->rank, s->window, s->element, t->out + operand[i], s->there, t->updates + side[i], s->here);
            else
                join_windows(s, t->out + operand[i], t->updates + side[i], 0);
        }
    }
}

static mf_error_object *run_scatter(const mf_native_step *step, void *const *values, char *scratch)
{
    const index_step *s = (const index_step *)(const void *)step;
    scatter_task t = { s, mf_step_in(step, values, 2) + s->side_offset, mf_step_in(step, values, 1), mf_step_out(step, values, 0) };
    (void)scratch;
    mf_native_move(t.out, mf_step_in(step, values, 0), step->eqn->in[0]->type->bytes);
    if (s->slices == 1)
        run_scatter_task(&t, 0);
    else
        mf_parallel_for(s->slices, run_scatter_task, &t);
    return NULL;
}

/* ------------------------------------------------------------------ compilation */

/* Plans the index vectors' dimensions; joins neighbours where both sides allow it. */
static void plan_batch(index_step *s, const index_numbers *d, const mf_type *indices, const int64_t *operand_strides,
                       const int64_t *batch_strides)
{
    for (int i = 0; i < indices->rank - 1; i++) {
        int64_t own = 0, side = batch_strides[i], n = indices->dims[i];
        for (int k = 0; k < d->operand_batching->count; k++)
            if (d->indices_batching->at[k] == i)
                own = operand_strides[d->operand_batching->at[k]];
        s->count *= n;
        if (n == 1) /* otherwise a walk along it would have runs of one vector */
            continue;
        int last = s->batch_rank - 1;
        bool one = last >= 0 && s->side[last] == side * n && s->own[last] == own * n;
        last += !one;
        s->batch[last] = one ? s->batch[last] * n : n;
        s->side[last] = side;
        s->own[last] = own;
        s->batch_rank = last + 1;
    }
}

/* Plans the window's dimensions; joins the last ones into a run while they are dense on both sides. */
static void plan_window(index_step *s, const int64_t *size, const int64_t *there, const int64_t *here, int rank)
{
    s->run = s->element;
    for (int i = 0; i < rank; i++) {
        if (size[i] == 1)
            continue;
        int last = s->rank - 1;
        bool one = last >= 0 && s->there[last] == there[i] * size[i] && s->here[last] == here[i] * size[i];
        last += !one;
        s->window[last] = one ? s->window[last] * size[i] : size[i];
        s->there[last] = there[i];
        s->here[last] = here[i];
        s->rank = last + 1;
    }
    int last = s->rank - 1;
    if (last == 0 && s->there[0] == s->element && s->here[0] == s->element) {
        s->run = s->window[0] * s->element;
        s->rank = 0;
    }
}

static void plan(index_step *s, const index_numbers *d, const mf_eqn *e, const mf_type *side, const int64_t *strides, const int64_t *size)
{
    const mf_type *x = e->in[0]->type, *indices = e->in[1]->type;
    index_windows w;
    index_open(&w, d, x, indices, NULL, side, strides, size);
    s->count = 1;
    s->dtype = x->dtype;
    s->element = mf_dtype_size(x->dtype);
    s->index_dtype = indices->dtype;
    s->map_count = d->map->count;
    s->clip = d->mode == INDEX_CLIP;
    for (int k = 0; k < s->map_count; k++) {
        int64_t i = d->map->at[k];
        s->last[k] = x->dims[i] - size[i];
        s->bytes[k] = w.operand_strides[i];
    }
    for (int i = 0; i < x->rank; i++)
        s->never_inside |= !(size[i] > 0 || index_is_kept(d, i)) || x->dims[i] < size[i];
    plan_batch(s, d, indices, w.operand_strides, w.batch_strides);
    plan_window(s, size, w.operand_strides, w.side_strides, x->rank);
}

static void build_gather(mf_build *b, const mf_eqn *e)
{
    index_numbers d = index_numbers_of_gather(e->params);
    const mf_type *x = e->in[0]->type;
    index_step *s = mf_step_new(b, sizeof *s, e);
    int64_t size[MF_RANK];
    if (!s)
        return;
    index_fill_value(x->dtype, d.mode, s->fill);
    if (d.mode == INDEX_IN_BOUNDS)
        d.mode = INDEX_CLIP;
    for (int i = 0; i < x->rank; i++)
        size[i] = ((const mf_gather_params *)e->params)->slice_sizes->at[i];
    plan(s, &d, e, e->out[0]->type, NULL, size);
    int64_t window = e->out[0]->type->bytes / s->count;
    s->count_a_task = s->count;
    if (e->out[0]->type->bytes >= TASKS_FROM)
        s->count_a_task = window >= TASK_BYTES ? 1 : TASK_BYTES / window;
    s->step.run = run_gather;
    s->step.cost = 20 + (double)s->count * 2 + (double)e->out[0]->type->bytes / 8;
    mf_build_step(b, &s->step, e->in, 2, e->out, 1);
}

/* Finds where updates lie; they are copied unless the windows' dimensions have the strides of a copy. */
static bool read_updates(mf_build *b, index_step *s, const index_numbers *d, mf_variable *v, mf_variable **root, int64_t *strides)
{
    const mf_type *t = v->type;
    mf_layout layout;
    bool dense = true;
    mf_contiguous_strides(t, strides);
    if (t->size == 0 || !mf_build_read(b, v, root, &layout))
        return t->size == 0;
    for (int i = 0; i < t->rank; i++) {
        layout.strides[i] *= mf_dtype_size(t->dtype);
        dense &= t->dims[i] == 1 || layout.strides[i] == strides[i] || !mf_ints_has(d->window, i);
    }
    if (!dense) {
        *root = v;
        return mf_build_materialise(b, v);
    }
    memcpy(strides, layout.strides, (size_t)t->rank * sizeof *strides);
    s->side_offset = layout.offset * mf_dtype_size(t->dtype);
    return true;
}

static void build_scatter(mf_build *b, const mf_eqn *e)
{
    index_numbers d = index_numbers_of_scatter(e->params);
    mf_variable *in[] = { e->in[0], e->in[1], e->in[2] };
    const mf_type *x = e->in[0]->type, *u = e->in[2]->type;
    index_step *s = mf_step_new(b, sizeof *s, e);
    int64_t size[MF_RANK], strides[MF_RANK];
    if (!s)
        return;
    for (int i = 0, next = 0; i < x->rank; i++)
        size[i] = index_is_kept(&d, i) ? u->dims[d.window->at[next++]] : 1;
    if (!read_updates(b, s, &d, e->in[2], &in[2], strides))
        return;
    plan(s, &d, e, u, strides, size);
    s->join = e->op->reducer;
    s->slices = 1;
    s->slice = s->run;
    if (s->rank == 0 && u->bytes >= TASKS_FROM && s->run >= 512) {
        s->slice = (s->run / 4 + 63) / 64 * 64;
        s->slices = (s->run + s->slice - 1) / s->slice;
    }
    if (u->size == 0)
        s->count = 0;
    s->step.overwrites = mf_overwrites_first;
    s->step.run = run_scatter;
    s->step.cost = 20 + (double)s->count * 2 + (double)x->bytes / 8 + (double)u->bytes / 4;
    mf_build_step(b, &s->step, in, 3, e->out, 1);
}

bool mf_build_index(mf_build *b, const mf_eqn *e)
{
    bool scatter = e->op->reduced == MF_REDUCED_INDICES && (e->op->reducer == MF_REDUCE_SET || mf_line_knows(e->in[0]->type->dtype));
    if (scatter)
        build_scatter(b, e);
    else if (e->op == &mf_op_gather)
        build_gather(b, e);
    return scatter || e->op == &mf_op_gather;
}
