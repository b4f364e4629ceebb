/* Convolutions by oneDNN. The gradients come as convolutions too (ops/conv.c): of the spread cotangent with the reversed kernel, and of
 * the operand with the cotangent as the kernel; here they are recognised and run as what they are, on the layouts as they lie.
 * Invariants: which primitive runs and how the batch is cut into tasks follows from shapes and dtypes alone; partial sums of the weights'
 * gradient are joined in one fixed tree. */
#include "backend/native/native.h"
#include "backend/native/kernels/dnnl.h"
#include "backend/native/kernels/kernels.h"

#include <string.h>

/* Multiply-adds of a task: several hundred microseconds. */
#define TASK_PRODUCT 1e8
enum { MOST_TASKS = 16 };

typedef struct conv_step {
    mf_native_step step;
    mf_dnnl_conv d;    /* of a whole task */
    mf_dtype from;     /* stored; d.dtype: computed */
    int64_t offset[2]; /* elements, of the operands */
    int64_t counts[3]; /* elements of the operands' memory and of the result, when they are converted */
    int64_t skip[2];   /* elements from task to task, of in0 and in1 or the result */
    const mf_dnnl_primitive *whole, *rest;
    int64_t tasks;
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

/* x = the result, dy = lhs, w = the kernel before it was reversed: x gets from place q and kernel place k where q s + k d - P = x, so
 * P = (K - 1) d - low. */
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
    w = kernel->layout;
    if (!grouped && all_one(p->window_strides) && kernel->kind == MF_VAR_VIEW && unreversed(&w, p->rhs_spec) && plain(&w) &&
        product_of(e->in[1]->type, p->rhs_spec) > 1) {
        roots[1] = b->program->vars[kernel->root];
        backward_data(&s->d, p, &x, &w, &y);
    } else if (!read_operand(b, e->in[1], &roots[1], &w) || !all_one(p->lhs_dilation)) {
        return false;
    } else if (!grouped && product_of(e->in[1]->type, p->rhs_spec) > product_of(e->out[0]->type, p->out_spec)) {
        backward_weights(&s->d, p, &x, &w, &y);
    } else {
        forward(&s->d, p, &x, &w, &y);
    }
    s->offset[0] = x.offset;
    s->offset[1] = w.offset;
    return mf_build_materialise(b, roots[1]);
}

/* ------------------------------------------------------------------ running */

typedef struct conv_task {
    const conv_step *s;
    const char *in0, *in1;
    char *out, *parts, *scratch;
    _Atomic bool failed;
} conv_task;

static size_t aligned(int64_t bytes) { return ((size_t)bytes + 63) / 64 * 64; }

static void run_task(void *context, int64_t i)
{
    conv_task *t = context;
    const conv_step *s = t->s;
    int64_t size = mf_dtype_size(s->d.dtype);
    bool weights = s->d.kind == MF_DNNL_BACKWARD_WEIGHTS;
    const char *in1 = weights ? t->in1 + i * s->skip[1] * size : t->in1;
    char *out = !weights ? t->out + i * s->skip[1] * size : s->tasks == 1 ? t->out : t->parts + (size_t)i * aligned(s->counts[2] * size);
    const mf_dnnl_primitive *p = i == s->tasks - 1 && s->rest ? s->rest : s->whole;
    if (!mf_dnnl_run(p, t->in0 + i * s->skip[0] * size, in1, out, t->scratch + (size_t)i * s->task_scratch))
        atomic_store(&t->failed, true);
}

static void join_parts(const conv_step *s, conv_task *t)
{
    const void *parts[MOST_TASKS];
    for (int64_t i = 0; i < s->tasks; i++)
        parts[i] = t->parts + (size_t)i * aligned(s->counts[2] * mf_dtype_size(s->d.dtype));
    mf_all_reduce(MF_FOLD_SUM, s->d.dtype, parts, (size_t)s->tasks, t->out, (size_t)s->counts[2], false);
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

static mf_error_object *run(const mf_native_step *step, void *const *values, char *scratch)
{
    const conv_step *s = (const conv_step *)(const void *)step;
    char *room = scratch + step->scratch_offset, *out = mf_step_out(step, values, 0);
    int64_t size = mf_dtype_size(s->d.dtype);
    conv_task t = { .s = s, .out = out };
    t.in0 = widened(s, mf_step_in(step, values, 0), s->counts[0], &room) + s->offset[0] * size;
    t.in1 = widened(s, mf_step_in(step, values, 1), s->counts[1], &room) + s->offset[1] * size;
    if (s->from != s->d.dtype) {
        t.out = room;
        room += aligned(s->counts[2] * size);
    }
    t.parts = room;
    if (s->tasks > 1 && s->d.kind == MF_DNNL_BACKWARD_WEIGHTS)
        room += (size_t)s->tasks * aligned(s->counts[2] * size);
    t.scratch = room;
    if (s->tasks == 1)
        run_task(&t, 0);
    else
        mf_native_parallel(s->tasks, run_task, &t);
    if (s->tasks > 1 && s->d.kind == MF_DNNL_BACKWARD_WEIGHTS)
        join_parts(s, &t);
    if (t.out != out)
        mf_native_convert(s->from, out, s->d.dtype, t.out, s->counts[2]);
    return atomic_load(&t.failed) ? mf_error_out_of_memory() : NULL;
}

/* ------------------------------------------------------------------ compilation */

/* Cuts the batch; dy follows x. */
static bool make_primitives(conv_step *s, double work)
{
    int64_t batch = s->d.batch, tasks = (int64_t)(work / TASK_PRODUCT);
    tasks = tasks < 1 ? 1 : tasks > MOST_TASKS ? MOST_TASKS : tasks;
    int64_t each = (batch + tasks - 1) / tasks;
    s->tasks = (batch + each - 1) / each;
    int64_t last = batch - (s->tasks - 1) * each;
    bool data = s->d.kind == MF_DNNL_BACKWARD_DATA;
    s->skip[0] = each * (data ? s->d.y_strides[0] : s->d.x_strides[0]);
    s->skip[1] = each * (data ? s->d.x_strides[0] : s->d.y_strides[0]);
    s->d.batch = last;
    s->rest = last != each ? mf_dnnl_conv_create(&s->d) : NULL;
    s->d.batch = each;
    s->whole = mf_dnnl_conv_create(&s->d);
    if (!s->whole || (last != each && !s->rest))
        return false;
    s->task_scratch = mf_dnnl_scratch_bytes(s->whole);
    if (s->rest && mf_dnnl_scratch_bytes(s->rest) > s->task_scratch)
        s->task_scratch = mf_dnnl_scratch_bytes(s->rest);
    s->task_scratch = aligned((int64_t)s->task_scratch);
    return true;
}

static void plan_scratch(conv_step *s)
{
    int64_t size = mf_dtype_size(s->d.dtype);
    s->step.scratch_bytes = (size_t)s->tasks * s->task_scratch;
    for (int i = 0; i < 3 && s->from != s->d.dtype; i++)
        s->step.scratch_bytes += aligned(s->counts[i] * size);
    if (s->tasks > 1 && s->d.kind == MF_DNNL_BACKWARD_WEIGHTS)
        s->step.scratch_bytes += (size_t)s->tasks * aligned(s->counts[2] * size);
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
    if (!make_primitives(s, flops / 2))
        return false;
    plan_scratch(s);
    s->step.run = run;
    s->step.cost = 500 + flops / 60;
    mf_build_step(b, &s->step, roots, 2, e->out, 1);
    return true;
}
