/* Runs ops without kernels here: the op's own evaluation as one step, or in pieces if the op works on each element, or on each matrix or
 * line of a batch, independently. Invariant: the pieces' shape depends on the op's shape alone. */
#include "backend/native/kernels/kernels.h"
#include "backend/native/segment_build.h"
#include "ops/fft/fft.h"

#include <stdatomic.h>
#include <string.h>

enum { MOST_OPERANDS = 4, PIECE = 1 << 13, PIECES_FROM = 1 << 15 };

typedef mf_error_object *evaluation(const mf_eqn *e, const void *const *in, void *const *out);

typedef struct evaluate_step {
    mf_native_step step;
    evaluation *evaluate;         /* the op's evaluation, or one for this machine with the same bits */
    int64_t count, each;          /* count: elements or units; each: of them per piece; 0: not in pieces */
    mf_eqn whole, last;           /* equations for a piece, and for the rest */
    int64_t bytes[MOST_OPERANDS]; /* by operand and result: bytes per element or unit */
} evaluate_step;

static mf_error_object *run(const mf_native_step *s, void *const *values, char *scratch)
{
    void *few[16], **pointers = s->scratch_bytes ? (void **)(void *)(scratch + s->scratch_offset) : few;
    for (int i = 0; i < s->in_count; i++)
        pointers[i] = values[s->in[i]];
    for (int o = 0; o < s->out_count; o++)
        pointers[s->in_count + o] = values[s->out[o]];
    return ((const evaluate_step *)(const void *)s)->evaluate(s->eqn, (const void *const *)pointers, pointers + s->in_count);
}

/* ------------------------------------------------------------------ pieces */

typedef struct evaluate_task {
    const evaluate_step *s;
    void *const *values;
    _Atomic(mf_error_object *) error; /* the first */
} evaluate_task;

static void run_piece(void *context, int64_t index)
{
    evaluate_task *t = context;
    const evaluate_step *s = t->s;
    const mf_native_step *step = &s->step;
    int64_t first = index * s->each;
    void *pointers[MOST_OPERANDS];
    for (int i = 0; i < step->in_count; i++)
        pointers[i] = (char *)t->values[step->in[i]] + first * s->bytes[i];
    for (int o = 0; o < step->out_count; o++)
        pointers[step->in_count + o] = (char *)t->values[step->out[o]] + first * s->bytes[step->in_count + o];
    const mf_eqn *e = s->count - first < s->each ? &s->last : &s->whole;
    mf_error_object *error = s->evaluate(e, (const void *const *)pointers, pointers + step->in_count), *none = NULL;
    if (error && !atomic_compare_exchange_strong(&t->error, &none, error))
        mf_drop(error);
}

static mf_error_object *run_pieces(const mf_native_step *step, void *const *values, char *scratch)
{
    evaluate_task t = { .s = (const evaluate_step *)(const void *)step, .values = values };
    (void)scratch;
    mf_parallel_for((t.s->count + t.s->each - 1) / t.s->each, run_piece, &t);
    return atomic_load(&t.error);
}

static const mf_type *type_at(const mf_eqn *e, int i) { return (i < e->in_count ? e->in[i] : e->out[i - e->in_count])->type; }

/* Makes the equation for `count` elements or units, which replace the leading dimensions. False: out of memory. */
static bool cut(mf_build *b, const mf_eqn *e, int64_t count, int leading, mf_eqn *made)
{
    int total = e->in_count + e->out_count;
    mf_variable *vars = mf_build_alloc(b, (size_t)total, sizeof *vars), **at = mf_build_alloc(b, (size_t)total, sizeof *at);
    if (!vars || !at)
        return false;
    for (int i = 0; i < total; i++) {
        const mf_type *t = type_at(e, i);
        int64_t dims[MF_RANK] = { count };
        for (int d = leading; d < t->rank; d++)
            dims[1 + d - leading] = t->dims[d];
        vars[i] = (mf_variable){ .type = mf_type_get(t->dtype, t->weak, 1 + t->rank - leading, dims) };
        if (!vars[i].type)
            return false;
        at[i] = &vars[i];
    }
    *made = *e;
    made->in = at;
    made->out = at + e->in_count;
    return true;
}

/* The number of independent elements or units, which is the same in all operands and results, and the dimensions that count them; 0:
 * they are not independent. */
static int64_t independent(const mf_eqn *e, int *leading)
{
    int64_t count = 1;
    if ((!e->op->unit_rank && !(e->op->flags & MF_OP_ELEMENTWISE)) || e->in_count + e->out_count > MOST_OPERANDS)
        return 0;
    *leading = e->in[0]->type->rank - e->op->unit_rank;
    for (int d = 0; d < *leading; d++)
        count *= e->in[0]->type->dims[d];
    return *leading > 0 ? count : 0;
}

/* Pieces of about PIECE elements, or of fewer where an element is a lot of work. */
static void plan_pieces(mf_build *b, evaluate_step *s, const mf_eqn *e)
{
    int leading = 0;
    double work = e->op->cost(e).flops / 32, size = (double)e->out[0]->type->size;
    work = work > size ? work : size;
    s->count = work < PIECES_FROM ? 0 : independent(e, &leading);
    if (s->count < 2)
        return;
    s->each = (int64_t)(PIECE / (work / (double)s->count)) + 1;
    if (!cut(b, e, s->each, leading, &s->whole) || !cut(b, e, s->count % s->each ? s->count % s->each : s->each, leading, &s->last))
        return;
    for (int i = 0; i < e->in_count + e->out_count; i++)
        s->bytes[i] = type_at(e, i)->bytes / s->count;
    s->step.run = run_pieces;
}

#if defined(__x86_64__)
static mf_error_object *fft_avx2(const mf_eqn *e, const void *const *in, void *const *out)
{
    return mf_fft_evaluate(e, in, out, mf_fft_lines_f32_avx2, mf_fft_lines_f64_avx2);
}

static mf_error_object *fft_avx512(const mf_eqn *e, const void *const *in, void *const *out)
{
    return mf_fft_evaluate(e, in, out, mf_fft_lines_f32_avx512, mf_fft_lines_f64_avx512);
}
#endif

static evaluation *evaluation_of(const mf_op *op)
{
#if defined(__x86_64__)
    const char *isa = mf_kernels_isa();
    if (op == &mf_op_fft && strcmp(isa, "generic") != 0)
        return strcmp(isa, "avx512") == 0 ? fft_avx512 : fft_avx2;
#endif
    return op->evaluate;
}

void mf_build_evaluate(mf_build *b, const mf_eqn *e)
{
    evaluate_step *s = mf_step_new(b, sizeof *s, e);
    if (!s)
        return;
    int count = e->in_count + e->out_count;
    mf_cost cost = e->op->cost(e);
    s->step.run = run;
    s->evaluate = evaluation_of(e->op);
    s->step.scratch_bytes = count > 16 ? (size_t)count * sizeof(void *) : 0;
    s->step.cost = 20 + cost.flops + cost.bytes / 2; /* plain loops */
    plan_pieces(b, s, e);
    mf_build_step(b, &s->step, e->in, e->in_count, e->out, e->out_count);
}
