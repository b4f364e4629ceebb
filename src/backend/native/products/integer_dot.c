/* Products of integers: both operands are copied to matrices of words as wide as the result needs; tasks are rows of the left one.
 * Invariant: words wrap, so the order of the sums does not matter; signed numbers are sign-extended. */
#include "backend/native/kernels/kernels.h"
#include "backend/native/segment_build.h"
#include "backend/native/steps/copy_step.h"

#include <string.h>

enum { TASK_PRODUCTS = 1 << 18 };

/* An operand as batch × rows × columns, and where its elements come from. */
typedef struct integer_side {
    int rank;
    int64_t dims[MF_RANK], to[MF_RANK], from[MF_RANK];
    int64_t count;
    mf_dtype dtype;
} integer_side;

typedef struct integer_dot_step {
    mf_native_step step;
    integer_side a, b;
    int64_t batches, m, n, k, rows_a_task;
    bool wide; /* words of 64 bits, else of 32 */
    mf_dtype to;
} integer_dot_step;

static int64_t add_axes(integer_side *s, const mf_type *t, const int64_t *strides, const mf_intlist *list)
{
    int64_t size = 1;
    for (int i = 0; i < list->count; i++) {
        s->dims[s->rank] = t->dims[list->at[i]];
        s->from[s->rank++] = strides[list->at[i]];
        size *= t->dims[list->at[i]];
    }
    return size;
}

static int64_t add_free(integer_side *s, const mf_type *t, const int64_t *strides, const mf_intlist *contract, const mf_intlist *batch)
{
    int64_t size = 1;
    for (int i = 0; i < t->rank; i++) {
        if (mf_ints_has(contract, i) || mf_ints_has(batch, i))
            continue;
        s->dims[s->rank] = t->dims[i];
        s->from[s->rank++] = strides[i];
        size *= t->dims[i];
    }
    return size;
}

static void end_side(integer_side *s, const mf_type *t)
{
    int64_t bytes = mf_dtype_size(t->dtype);
    s->dtype = t->dtype;
    s->count = t->size;
    for (int d = s->rank - 1; d >= 0; d--) {
        s->to[d] = bytes;
        bytes *= s->dims[d];
    }
}

static void plan(integer_dot_step *s, const mf_eqn *e)
{
    const mf_dot_params *p = e->params;
    const mf_type *x = e->in[0]->type, *y = e->in[1]->type;
    int64_t strides[MF_RANK];
    mf_contiguous_strides(x, strides);
    s->batches = add_axes(&s->a, x, strides, p->lhs_batch);
    s->m = add_free(&s->a, x, strides, p->lhs_contract, p->lhs_batch);
    s->k = add_axes(&s->a, x, strides, p->lhs_contract);
    end_side(&s->a, x);
    mf_contiguous_strides(y, strides);
    add_axes(&s->b, y, strides, p->rhs_batch);
    add_axes(&s->b, y, strides, p->rhs_contract);
    s->n = add_free(&s->b, y, strides, p->rhs_contract, p->rhs_batch);
    end_side(&s->b, y);
    s->to = e->out[0]->type->dtype;
    s->wide = mf_dtype_size(s->to) == 8;
    int64_t row = s->n * s->k + 1;
    s->rows_a_task = row >= TASK_PRODUCTS ? 4 : (TASK_PRODUCTS / row + 3) / 4 * 4;
}

/* ------------------------------------------------------------------ running */

typedef struct integer_dot_task {
    const integer_dot_step *s;
    const char *a, *b;
    char *c;
    int64_t tasks; /* per batch */
} integer_dot_task;

static void run_task(void *context, int64_t index)
{
    const integer_dot_task *t = context;
    const integer_dot_step *s = t->s;
    int64_t batch = index / t->tasks, first = index % t->tasks * s->rows_a_task, size = s->wide ? 8 : 4;
    int64_t rows = s->m - first < s->rows_a_task ? s->m - first : s->rows_a_task;
    mf_integer_dot(s->wide, rows, s->n, s->k, t->a + (batch * s->m + first) * s->k * size, t->b + batch * s->k * s->n * size,
                   t->c + (batch * s->m + first) * s->n * size);
}

static size_t aligned(int64_t bytes) { return ((size_t)bytes + 63) / 64 * 64; }

static bool is_in_order(const integer_side *x)
{
    for (int d = 0; d < x->rank; d++)
        if (x->dims[d] != 1 && x->from[d] != x->to[d])
            return false;
    return true;
}

/* The operand as contiguous words; advances workspace past what was written. */
static const char *prepared(const integer_dot_step *s, const integer_side *x, const char *in, char **workspace)
{
    mf_dtype word = s->wide ? MF_I64 : MF_I32;
    int size = mf_dtype_size(x->dtype);
    const char *laid = in;
    if (!is_in_order(x)) {
        mf_native_copy(x->rank, x->dims, size, *workspace, x->to, in, x->from);
        laid = *workspace;
        *workspace += aligned(x->count * size);
    }
    if (size == mf_dtype_size(word))
        return laid;
    char *words = *workspace;
    mf_native_convert(word, words, x->dtype, laid, x->count);
    *workspace += aligned(x->count * (s->wide ? 8 : 4));
    return words;
}

static mf_error_object *run(const mf_native_step *step, void *const *values, char *scratch)
{
    const integer_dot_step *s = (const integer_dot_step *)(const void *)step;
    char *workspace = scratch + step->scratch_offset, *out = mf_step_out(step, values, 0);
    const char *a = prepared(s, &s->a, mf_step_in(step, values, 0), &workspace),
               *b = prepared(s, &s->b, mf_step_in(step, values, 1), &workspace);
    bool narrow = mf_dtype_size(s->to) < 4;
    integer_dot_task t = { s, a, b, narrow ? workspace : out, (s->m + s->rows_a_task - 1) / s->rows_a_task };
    if (t.tasks * s->batches == 1 || s->batches * s->m * s->n * s->k < TASK_PRODUCTS)
        for (int64_t i = 0; i < t.tasks * s->batches; i++)
            run_task(&t, i);
    else
        mf_parallel_for(t.tasks * s->batches, run_task, &t);
    if (narrow)
        mf_native_convert(s->to, out, MF_I32, workspace, s->batches * s->m * s->n);
    return NULL;
}

bool mf_build_integer_dot(mf_build *b, const mf_eqn *e)
{
    if (e->op != &mf_op_dot_general)
        return false;
    mf_dtype x = e->in[0]->type->dtype, to = e->out[0]->type->dtype;
    if (!mf_dtype_is_int(x) || !mf_dtype_is_int(to) || x != e->in[1]->type->dtype || mf_dtype_size(x) > mf_dtype_size(to) ||
        e->in[0]->type->size == 0 || e->in[1]->type->size == 0)
        return false;
    integer_dot_step *s = mf_step_new(b, sizeof *s, e);
    if (!s)
        return true;
    plan(s, e);
    int64_t word = s->wide ? 8 : 4;
    s->step.scratch_bytes = aligned(s->a.count * 8) + aligned(s->b.count * 8) + aligned(s->a.count * word) + aligned(s->b.count * word);
    if (mf_dtype_size(s->to) < 4)
        s->step.scratch_bytes += aligned(e->out[0]->type->size * 4);
    s->step.run = run;
    s->step.cost = 30 + (double)s->batches * (double)s->m * (double)s->n * (double)s->k * 0.1;
    mf_build_step(b, &s->step, e->in, 2, e->out, 1);
    return true;
}
