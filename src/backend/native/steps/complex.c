/* Complex arithmetic as steps: one pass over the operands, cut into pieces of a fixed number of elements. */
#include "backend/native/kernels/kernels.h"
#include "backend/native/native.h"

enum { PIECE = 1 << 14, PIECES_FROM = 1 << 16 };

typedef struct complex_step {
    mf_native_step step;
    mf_complex_op op;
    bool wide;
    int64_t n;
    int out_size, in_size; /* bytes of an element */
} complex_step;

typedef struct complex_task {
    const complex_step *s;
    const char *x, *y;
    char *out;
} complex_task;

static void run_task(void *context, int64_t index)
{
    const complex_task *t = context;
    const complex_step *s = t->s;
    int64_t first = index * PIECE, n = s->n - first < PIECE ? s->n - first : PIECE;
    mf_complex_loop(s->op, s->wide, t->out + first * s->out_size, t->x + first * s->in_size, t->y + first * s->in_size, n);
}

static mf_error_object *run(const mf_native_step *step, void *const *values, char *scratch)
{
    const complex_step *s = (const complex_step *)(const void *)step;
    const char *x = mf_step_in(step, values, 0);
    complex_task t = { s, x, step->in_count > 1 ? mf_step_in(step, values, 1) : x, mf_step_out(step, values, 0) };
    int64_t tasks = (s->n + PIECE - 1) / PIECE;
    (void)scratch;
    if (s->n >= PIECES_FROM)
        mf_native_parallel(tasks, run_task, &t);
    else
        for (int64_t i = 0; i < tasks; i++)
            run_task(&t, i);
    return NULL;
}

bool mf_build_complex(mf_build *b, const mf_eqn *e)
{
    static const struct {
        const mf_op *row;
        mf_complex_op op;
    } known[] = { { &mf_op_add, MF_COMPLEX_ADD },      { &mf_op_sub, MF_COMPLEX_SUB },    { &mf_op_mul, MF_COMPLEX_MUL },
                  { &mf_op_neg, MF_COMPLEX_NEG },      { &mf_op_square, MF_COMPLEX_MUL }, { &mf_op_conj, MF_COMPLEX_CONJ },
                  { &mf_op_complex, MF_COMPLEX_MAKE }, { &mf_op_real, MF_COMPLEX_REAL },  { &mf_op_imag, MF_COMPLEX_IMAG },
                  { &mf_op_abs, MF_COMPLEX_ABS },      { &mf_op_exp, MF_COMPLEX_EXP } };
    size_t k = 0, count = sizeof known / sizeof *known;
    while (k < count && e->op != known[k].row)
        k++;
    if (k == count)
        return false;
    mf_dtype in = e->in[0]->type->dtype, out = e->out[0]->type->dtype;
    if (!mf_dtype_is_complex(in) && !mf_dtype_is_complex(out))
        return false;
    for (int i = 0; i < e->in_count; i++)
        if (e->in[i]->type->size != e->out[0]->type->size)
            return false;
    complex_step *s = mf_step_new(b, sizeof *s, e);
    if (!s)
        return true;
    s->op = known[k].op;
    s->wide = in == MF_C128 || out == MF_C128;
    s->n = e->out[0]->type->size;
    s->in_size = mf_dtype_size(in);
    s->out_size = mf_dtype_size(out);
    s->step.run = run;
    s->step.cost = 20 + (double)s->n;
    mf_build_step(b, &s->step, e->in, e->in_count, e->out, 1);
    return true;
}
