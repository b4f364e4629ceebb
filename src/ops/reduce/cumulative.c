/* Cumulative reductions along an axis: cumsum cumprod cummax cummin, from the front or, with reverse, from the back. Invariant: one order:
 * each result is the previous one combined with the next element. f16 and bf16 are computed in f32 and every result is rounded once;
 * integers wrap; max and min propagate NaN, except for complex numbers, and 0 is greater than -0. */
#include "ops/elementwise/loops.h"
#include <math.h>
#include <string.h>

static const mf_cum_params *params_of(const mf_eqn *e) { return e->params; }

/* ---- shared rules */
static mf_error_object *cum_type(mf_type_context *c)
{
    const mf_cum_params *p = c->params;
    mf_error_object *e = mf_type_numeric1(c);
    if (!e && (p->axis < 0 || p->axis >= c->in[0]->rank))
        e = mf_type_error(c, MF_ERROR_AXIS, "axis %lld is no dimension of the operand, which has rank %d", (long long)p->axis,
                          c->in[0]->rank);
    return e;
}

MF_BATCH_RULE(cum_batch)
{
    mf_cum_params wide = *params_of(e);
    wide.axis += wide.axis >= in_axis[0];
    out[0] = mf_emit(c->b, e->op, &wide, 1, in[0]);
    out_axis[0] = in_axis[0];
}

/* x shifted by `by` places along the axis in the running direction; places at the start become `fill`. */
static mf_variable *moved(mf_builder *b, mf_variable *x, const mf_cum_params *p, int64_t by, double fill)
{
    int64_t in[MF_RANK] = { 0 }, out[MF_RANK] = { 0 };
    in[p->axis] = by;
    out[p->axis] = -by;
    return p->reverse ? e_pad(b, x, fill, out, in, NULL) : e_pad(b, x, fill, in, out, NULL);
}

/* ---- evaluation */
typedef struct running {
    float (*single)(float, float);
    double (*real)(double, double);
    int64_t (*integer)(int64_t, int64_t);
    uint64_t (*natural)(uint64_t, uint64_t);
    void (*pair)(double *, const double *); /* x = x op y, as real and imaginary parts; each result is rounded once */
} running;

/* One row of n elements, `step` bytes apart (negative when reversed). */
static void run_single(const running *r, mf_dtype d, const char *x, char *out, int64_t n, int64_t step)
{
    float sum = 0, next;
    for (int64_t i = 0; i < n; i++, x += step, out += step) {
        mf_convert(MF_F32, &next, d, x, 1);
        sum = i ? r->single(sum, next) : next;
        mf_convert(d, out, MF_F32, &sum, 1);
    }
}

static void run_real(const running *r, const char *x, char *out, int64_t n, int64_t step)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++, x += step, out += step) {
        double next = mf_load_f64(MF_F64, x);
        sum = i ? r->real(sum, next) : next;
        mf_store_f64(MF_F64, out, sum);
    }
}

static void run_integer(const running *r, mf_dtype d, const char *x, char *out, int64_t n, int64_t step)
{
    int64_t sum = 0;
    bool is_signed = mf_dtype_is_signed(d);
    for (int64_t i = 0; i < n; i++, x += step, out += step) {
        int64_t next = mf_load_i64(d, x);
        if (i)
            next = is_signed ? r->integer(sum, next) : (int64_t)r->natural((uint64_t)sum, (uint64_t)next);
        sum = next;
        mf_store_i64(d, out, sum);
    }
}

static void run_complex(const running *r, mf_dtype d, const char *x, char *out, int64_t n, int64_t step)
{
    mf_dtype part = d == MF_C64 ? MF_F32 : MF_F64;
    double sum[2] = { 0, 0 }, next[2];
    for (int64_t i = 0; i < n; i++, x += step, out += step) {
        mf_convert(MF_F64, next, part, x, 2);
        if (i)
            r->pair(sum, next);
        else
            memcpy(sum, next, sizeof sum);
        mf_convert(part, out, MF_F64, sum, 2);
        mf_convert(MF_F64, sum, part, out, 2);
    }
}

static void run_line(const running *r, mf_dtype d, const char *x, char *out, int64_t n, int64_t step)
{
    if (mf_dtype_is_complex(d))
        run_complex(r, d, x, out, n, step);
    else if (d == MF_F64)
        run_real(r, x, out, n, step);
    else if (mf_dtype_is_float(d))
        run_single(r, d, x, out, n, step);
    else
        run_integer(r, d, x, out, n, step);
}

static mf_error_object *evaluate(const running *r, const mf_eqn *e, const char *in, char *out)
{
    const mf_cum_params *p = params_of(e);
    const mf_type *t = e->in[0]->type;
    int64_t strides[MF_RANK], n = t->dims[p->axis], size = mf_dtype_size(t->dtype);
    if (t->size == 0)
        return NULL;
    mf_contiguous_strides(t, strides);
    int64_t step = strides[p->axis], inner = step / size;
    for (int64_t i = 0; i < t->size / n; i++) {
        int64_t at = i / inner * n * step + i % inner * size + (p->reverse ? (n - 1) * step : 0);
        run_line(r, t->dtype, in + at, out + at, n, p->reverse ? -step : step);
    }
    return NULL;
}

#define RUNNING(name, condition_of_first)                                                      \
    static int64_t name##_integer(int64_t x, int64_t y) { return condition_of_first ? x : y; } \
    static uint64_t name##_natural(uint64_t x, uint64_t y) { return condition_of_first ? x : y; }
RUNNING(max, x > y)
RUNNING(min, x < y)
static float add_single(float x, float y) { return x + y; }
static double add_real(double x, double y) { return x + y; }
static uint64_t add_natural(uint64_t x, uint64_t y) { return x + y; }
static int64_t add_integer(int64_t x, int64_t y) { return (int64_t)add_natural((uint64_t)x, (uint64_t)y); }
static float mul_single(float x, float y) { return x * y; }
static double mul_real(double x, double y) { return x * y; }
static uint64_t mul_natural(uint64_t x, uint64_t y) { return x * y; }
static int64_t mul_integer(int64_t x, int64_t y) { return (int64_t)mul_natural((uint64_t)x, (uint64_t)y); }

static void add_pair(double *x, const double *y)
{
    x[0] += y[0];
    x[1] += y[1];
}
static void mul_pair(double *x, const double *y)
{
    double re = x[0] * y[0] - x[1] * y[1], im = x[0] * y[1] + x[1] * y[0];
    x[0] = re;
    x[1] = im;
}
static void max_pair(double *x, const double *y)
{
    if (!mf_less_pair(y, x))
        memcpy(x, y, 2 * sizeof *x);
}
static void min_pair(double *x, const double *y)
{
    if (!mf_less_pair(x, y))
        memcpy(x, y, 2 * sizeof *x);
}

#define EVALUATE_RUNNING(name, ...)               \
    MF_EVALUATE_RULE(name)                        \
    {                                             \
        static const running r = { __VA_ARGS__ }; \
        return evaluate(&r, e, in[0], out[0]);    \
    }
EVALUATE_RUNNING(cumsum_evaluate, add_single, add_real, add_integer, add_natural, add_pair)
EVALUATE_RUNNING(cumprod_evaluate, mul_single, mul_real, mul_integer, mul_natural, mul_pair)
EVALUATE_RUNNING(cummax_evaluate, mf_greater_single, mf_greater_real, max_integer, max_natural, max_pair)
EVALUATE_RUNNING(cummin_evaluate, mf_lesser_single, mf_lesser_real, min_integer, min_natural, min_pair)

static const mf_param cum_params[] = {
    MF_PARAM(mf_cum_params, axis, MF_PARAM_INT),
    MF_PARAM(mf_cum_params, reverse, MF_PARAM_BOOL),
    { 0 },
};

/* Windows that extend to one end of the axis, which XLA computes as a tree. */
MF_HLO_RULE(cum_hlo)
{
    const mf_cum_params *p = params_of(e);
    const mf_type *t = e->out[0]->type;
    int64_t ones[MF_RANK], window[MF_RANK], low[MF_RANK] = { 0 }, high[MF_RANK] = { 0 };
    if (!t->size) {
        out[0] = in[0];
        return;
    }
    for (int i = 0; i < t->rank; i++)
        ones[i] = window[i] = 1;
    window[p->axis] = t->dims[p->axis];
    *(p->reverse ? &high[p->axis] : &low[p->axis]) = t->dims[p->axis] - 1;
    mf_hlo_value operands[2] = { in[0], h_identity(h, e->op->reducer, mf_type_scalar(t->dtype, false)) };
    out[0].type = t;
    h_open(h, "reduce_window", operands, 2, out, 1,
           "base_dilations = %s, padding = %s, window_dilations = %s, window_dimensions = %s, window_strides = %s",
           h_array(h, ones, t->rank), h_edges(h, low, high, t->rank), h_array(h, ones, t->rank), h_array(h, window, t->rank),
           h_array(h, ones, t->rank));
    h_reducer_region(h, e->op->reducer, t->dtype);
    h_close(h, operands, 2, out, 1);
}

/* The fields that the ops share. */
#define CUM_ROW                                                                                                                        \
    .params = cum_params, .params_size = sizeof(mf_cum_params), .type_rule = cum_type, .partial_eval = mf_partial_eval_all_or_nothing, \
    .dce = mf_dce_whole, .batch = cum_batch, .variance = mf_variance_join, .cost = mf_cost_elementwise, .lower = mf_lower_none,        \
    MF_HLO_BY(cum_hlo)

/* ---- cumsum */
MF_TRANSPOSE_RULE(cumsum_transpose)
{
    mf_cum_params back = *params_of(e);
    back.reverse = !back.reverse;
    (void)linear, (void)in;
    ct_in[0] = mf_emit(b, &mf_op_cumsum, &back, 1, ct[0]);
}

static const char *const cumsum_samples[] = {
    "[axis=0] f32[4]{=1,2,3,4} -> f32[4]{=1,3,6,10}",
    "[axis=0, reverse=true] f32[4]{=1,2,3,4} -> f32[4]{=10,9,7,4}",
    "[axis=1] f64[2,3,2]{-2:2}",
    "[axis=0, reverse=true] f32[3,2]{-2:2}",
    "[axis=0] i8[3]{=100,100,1} -> i8[3]{=100,-56,-55}",
    "[axis=0] bf16[4]{=256,1,1,1} -> bf16[4]{=256,256,258,260}",
    "[axis=0] c64[3]{=1,2,3,-4,0,1} -> c64[3]{=1,2,4,-2,4,-1}",
    "[axis=1, reverse=true] c128[2,3]{-2:2}",
    "[axis=1] f32[2,0]{0:1}",
    NULL,
};
const mf_op mf_op_cumsum = {
    .name = "cumsum",
    .reduced = MF_REDUCED_PREFIXES,
    .reducer = MF_REDUCE_SUM,
    CUM_ROW,
    .jvp = mf_jvp_linear,
    .transpose = cumsum_transpose,
    .evaluate = cumsum_evaluate,
    .samples = cumsum_samples,
};

/* ---- cumprod: pairs (product, tangent) are combined by the product rule, in log2(n) doublings without division, so zeros are no special
 * case */
MF_JVP_RULE(cumprod_jvp)
{
    const mf_cum_params *p = params_of(e);
    mf_copy_eqn(b, e, in, out);
    mf_variable *product = in[0], *tangent = tin[0];
    for (int64_t by = 1; by < in[0]->type->dims[p->axis]; by *= 2) {
        mf_variable *before = moved(b, product, p, by, 1), *tangent_before = moved(b, tangent, p, by, 0);
        tangent = e_add(b, e_mul(b, tangent_before, product), e_mul(b, tangent, before));
        product = e_mul(b, before, product);
    }
    tout[0] = tangent;
}

static const char *const cumprod_samples[] = {
    "[axis=0] f32[4]{=1,2,3,4} -> f32[4]{=1,2,6,24}",
    "[axis=1, reverse=true] f32[2,3]{=1,2,3,4,5,6} -> f32[2,3]{=6,6,3,120,30,6}",
    "[axis=0] f64[5,2]{-2:2}",
    "[axis=0, reverse=true] f64[4]{=2,0,3,-1}",
    "[axis=0] i32[3]{=65536,65536,3} -> i32[3]{=65536,0,0}",
    "[axis=0] c64[3]{=1,2,3,-4,0,1} -> c64[3]{=1,2,11,2,-2,11}",
    "[axis=1, reverse=true] c128[2,3]{-2:2}",
    NULL,
};
const mf_op mf_op_cumprod = {
    .name = "cumprod",
    .reduced = MF_REDUCED_PREFIXES,
    .reducer = MF_REDUCE_PROD,
    CUM_ROW,
    .jvp = cumprod_jvp,
    .transpose = mf_transpose_none,
    .evaluate = cumprod_evaluate,
    .samples = cumprod_samples,
};

/* ---- cummax, cummin: tangents are combined as for max and min: ties share equally, and a NaN has no tangent. How a tie of several
 * elements is shared depends on the order of combination, which is JAX's: neighbours first, then the pairs as a row of half the length. */
typedef struct ranked {
    mf_variable *best, *tangent;
} ranked;

static mf_variable *every_second(mf_builder *b, mf_variable *x, int axis, int64_t first, int64_t limit)
{
    int64_t start[MF_RANK] = { 0 }, end[MF_RANK], strides[MF_RANK];
    for (int i = 0; i < x->type->rank; i++) {
        end[i] = x->type->dims[i];
        strides[i] = 1;
    }
    start[axis] = first;
    end[axis] = limit;
    strides[axis] = 2;
    return e_slice(b, x, start, end, strides);
}

static mf_variable *interleaved(mf_builder *b, mf_variable *even, mf_variable *odd, int axis)
{
    int64_t none[MF_RANK] = { 0 }, one[MF_RANK] = { 0 };
    one[axis] = 1;
    bool longer = even->type->dims[axis] > odd->type->dims[axis];
    return e_add(b, e_pad(b, even, 0, none, longer ? none : one, one), e_pad(b, odd, 0, one, longer ? one : none, one));
}

/* The share of x's tangent, where x is y or z and the better of these is the result: 0, 1/2 or 1. */
static mf_variable *share(mf_builder *b, mf_variable *x, mf_variable *y, mf_variable *z)
{
    mf_variable *one = e_full(b, x->type, 1), *tied = e_select(b, e_compare(b, &mf_op_eq, y, z), e_full(b, x->type, 0.5), one);
    return e_select(b, e_compare(b, &mf_op_eq, x, z), tied, e_zeros_like(b, x));
}

static ranked join(mf_builder *b, const mf_op *better, ranked x, ranked y)
{
    mf_variable *best = e_binary(b, better, x.best, y.best);
    mf_variable *first = e_mul(b, x.tangent, share(b, x.best, y.best, best));
    return (ranked){ best, e_add(b, first, e_mul(b, y.tangent, share(b, y.best, x.best, best))) };
}

static ranked run_forward(mf_builder *b, const mf_op *better, ranked x, int axis)
{
    int64_t n = x.best->type->dims[axis], pairs = n / 2, rest = (n - 1) / 2; /* rest: the number of even places after the first */
    if (n < 2)
        return x;
    ranked first = { every_second(b, x.best, axis, 0, 2 * pairs), every_second(b, x.tangent, axis, 0, 2 * pairs) };
    ranked second = { every_second(b, x.best, axis, 1, n), every_second(b, x.tangent, axis, 1, n) };
    ranked odd = run_forward(b, better, join(b, better, first, second), axis);
    ranked even = { e_slice_axis(b, x.best, axis, 0, 1), e_slice_axis(b, x.tangent, axis, 0, 1) };
    if (rest) {
        ranked before = { e_slice_axis(b, odd.best, axis, 0, rest), e_slice_axis(b, odd.tangent, axis, 0, rest) };
        ranked own = { every_second(b, x.best, axis, 2, n), every_second(b, x.tangent, axis, 2, n) };
        ranked later = join(b, better, before, own);
        even.best = e_concatenate(b, (mf_variable *[]){ even.best, later.best }, 2, axis);
        even.tangent = e_concatenate(b, (mf_variable *[]){ even.tangent, later.tangent }, 2, axis);
    }
    return (ranked){ interleaved(b, even.best, odd.best, axis), interleaved(b, even.tangent, odd.tangent, axis) };
}

MF_JVP_RULE(extreme_jvp)
{
    const mf_cum_params *p = params_of(e);
    const mf_intlist *axes = mf_ints_intern(&p->axis, 1);
    ranked line = { in[0], tin[0] };
    mf_copy_eqn(b, e, in, out);
    if (p->reverse)
        line = (ranked){ e_rev(b, line.best, axes), e_rev(b, line.tangent, axes) };
    line = run_forward(b, e->op == &mf_op_cummax ? &mf_op_max : &mf_op_min, line, (int)p->axis);
    tout[0] = p->reverse ? e_rev(b, line.tangent, axes) : line.tangent;
}

static const char *const cummax_samples[] = {
    "[axis=0] f32[5]{=1,3,2,nan,5} -> f32[5]{=1,3,3,nan,nan}",
    "[axis=1] f32[2,3]{=-0.0,0,-0.0,0,-0.0,0} -> f32[2,3]{=-0.0,0,0,0,0,0}",
    "[axis=0, reverse=true] bf16[3,2]{=-0.0,0,0,-0.0,-0.0,-0.0} -> bf16[3,2]{=0,0,0,-0.0,-0.0,-0.0}",
    "[axis=0, reverse=true] i32[4]{=1,-2,-3,-1} -> i32[4]{=1,-1,-1,-1}",
    "[axis=1] f64[2,5]{-2:2}",
    "[axis=0, reverse=true] f64[4,2]{-2:2}",
    "[axis=0] u8[3]{=200,100,255} -> u8[3]{=200,200,255}",
    "[axis=0] c64[4]{=1,2,1,-1,0,5,2,0} -> c64[4]{=1,2,1,2,1,2,2,0}",
    NULL,
};
const mf_op mf_op_cummax = {
    .name = "cummax",
    .reduced = MF_REDUCED_PREFIXES,
    .reducer = MF_REDUCE_MAX,
    CUM_ROW,
    .jvp = extreme_jvp,
    .transpose = mf_transpose_none,
    .evaluate = cummax_evaluate,
    .samples = cummax_samples,
};

static const char *const cummin_samples[] = {
    "[axis=0] f32[5]{=3,1,2,nan,0} -> f32[5]{=3,1,1,nan,nan}",
    "[axis=1] f16[2,3]{=0,-0.0,0,-0.0,0,-0.0} -> f16[2,3]{=0,-0.0,-0.0,-0.0,-0.0,-0.0}",
    "[axis=0, reverse=true] i32[4]{=1,-2,3,4} -> i32[4]{=-2,-2,3,4}",
    "[axis=1] f64[2,5]{-2:2}",
    "[axis=0] bf16[4]{-2:2}",
    "[axis=0, reverse=true] c64[4]{=1,2,1,-1,0,5,2,0} -> c64[4]{=0,5,0,5,0,5,2,0}",
    NULL,
};
const mf_op mf_op_cummin = {
    .name = "cummin",
    .reduced = MF_REDUCED_PREFIXES,
    .reducer = MF_REDUCE_MIN,
    CUM_ROW,
    .jvp = extreme_jvp,
    .transpose = mf_transpose_none,
    .evaluate = cummin_evaluate,
    .samples = cummin_samples,
};
