/* Reductions: reduce_sum reduce_prod reduce_max reduce_min reduce_and reduce_or. argmax and argmin are in arg.c, the public functions in
 * reduce_wrap.c. Invariant: one order, reduce_order.h. f16 and bf16 are reduced in f32 and rounded once; integers wrap; max and min give
 * the first NaN if there is one, and order 0 above -0; a reduction over no elements gives the identity. */
#include "ops/elementwise/loops.h"
#include "ops/reduce/reduce_order.h"
#include "ops/shape/shape.h"
#include <math.h>
#include <string.h>

static const mf_intlist *axes_of(const mf_eqn *e) { return ((const mf_axes_params *)e->params)->axes; }

/* ---- shared rules */
static mf_error_object *reduced_type(mf_type_context *c)
{
    const mf_intlist *axes = ((const mf_axes_params *)c->params)->axes;
    mf_error_object *e = mf_check_operands(c, 1);
    if (e)
        return e;
    const mf_type *t = c->in[0];
    if (!shape_increasing(axes, t->rank))
        return mf_type_error(c, MF_ERROR_AXIS, "axes must increase and be dimensions of the operand, which has rank %d", t->rank);
    int64_t dims[MF_RANK];
    int rank = 0;
    for (int i = 0; i < t->rank; i++)
        if (!mf_ints_has(axes, i))
            dims[rank++] = t->dims[i];
    c->out[0] = mf_type_with_shape(t, rank, dims);
    return NULL;
}

#define REDUCED_TYPE(name, condition, kinds)                                                               \
    static mf_error_object *name(mf_type_context *c)                                                       \
    {                                                                                                      \
        mf_error_object *e = reduced_type(c);                                                              \
        if (e)                                                                                             \
            return e;                                                                                      \
        mf_dtype d = c->in[0]->dtype;                                                                      \
        if (condition)                                                                                     \
            return NULL;                                                                                   \
        return mf_type_error(c, MF_ERROR_DTYPE, "is defined for " kinds ", not for %s", mf_dtype_name(d)); \
    }
REDUCED_TYPE(numeric_type, mf_dtype_is_inexact(d) || mf_dtype_is_int(d), "floats, integers and complex numbers")
REDUCED_TYPE(ordered_type, d != MF_KEY, "floats, integers, complex numbers and bool")
REDUCED_TYPE(logical_type, mf_dtype_is_int(d) || d == MF_BOOL, "integers and bool")

MF_BATCH_RULE(reduce_batch)
{
    mf_axes_params wide = { shape_shifted(axes_of(e), in_axis[0]) };
    out[0] = mf_emit(c->b, e->op, &wide, 1, in[0]);
    out_axis[0] = in_axis[0];
    for (int i = 0; i < wide.axes->count; i++)
        out_axis[0] -= wide.axes->at[i] < in_axis[0];
}

static mf_cost reduce_cost(const mf_eqn *e)
{
    mf_cost cost = mf_cost_bytes(e);
    cost.flops = (double)e->in[0]->type->size;
    return cost;
}

/* Restores the reduced axes of x by broadcasting: each result is repeated for the elements that went into it. */
static mf_variable *broadcast_back(mf_builder *b, mf_variable *x, const mf_eqn *e)
{
    const mf_type *t = e->in[0]->type;
    int64_t places[MF_RANK];
    int count = 0;
    for (int i = 0; i < t->rank; i++)
        if (!mf_ints_has(axes_of(e), i))
            places[count++] = i;
    return e_broadcast(b, x, t->rank, t->dims, mf_ints_intern(places, count));
}

/* ---- evaluation: kept axes first, then row by row */
typedef struct reduction {
    float (*single)(float, float); /* for f32, f16, bf16 */
    double (*real)(double, double);
    uint64_t (*integer)(uint64_t, uint64_t); /* signed integers too, as their bits */
    uint64_t (*natural)(uint64_t, uint64_t);
    double identity;                                               /* for floats */
    enum { ZERO, ONE, LEAST, MOST, ALL_ONES } start;               /* the identity for integers and bool */
    float complex (*complex_single)(float complex, float complex); /* NULL: the parts are reduced separately */
    double complex (*complex_real)(double complex, double complex);
} reduction;

MF_REDUCE_IN_ORDER(reduce_f32, float)
MF_REDUCE_IN_ORDER(reduce_f64, double)
MF_REDUCE_IN_ORDER(reduce_u64, uint64_t)
MF_REDUCE_IN_ORDER(reduce_c64, float complex)
MF_REDUCE_IN_ORDER(reduce_c128, double complex)

/* The operand with its reduced axes last; a copy (*owned) unless it has that layout. NULL when out of memory. */
static const char *rows_of(const mf_eqn *e, const void *in, void **owned)
{
    const mf_type *t = e->in[0]->type;
    const mf_intlist *axes = axes_of(e);
    int64_t own[MF_RANK], strides[MF_RANK], dims[MF_RANK], out_strides[MF_RANK];
    int count = 0, moved = 0;
    mf_contiguous_strides(t, own);
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < t->rank; i++)
            if (mf_ints_has(axes, i) == pass) {
                moved |= i != count;
                dims[count] = t->dims[i];
                strides[count++] = own[i];
            }
    *owned = NULL;
    if (!moved || t->size == 0)
        return in;
    *owned = mf_alloc((size_t)t->bytes);
    mf_contiguous_strides(mf_type_with_shape(t, t->rank, dims), out_strides);
    if (*owned)
        mf_copy_strided(t->rank, dims, mf_dtype_size(t->dtype), *owned, out_strides, in, strides);
    return *owned;
}

static uint64_t start_of(const reduction *r, mf_dtype d)
{
    switch (r->start) {
    case ZERO: return 0;
    case ONE: return 1;
    case ALL_ONES: return d == MF_BOOL ? 1 : UINT64_MAX;
    case LEAST: return mf_dtype_is_signed(d) ? (uint64_t)INT64_MIN : 0;
    default: return mf_dtype_is_signed(d) ? (uint64_t)INT64_MAX : UINT64_MAX;
    }
}

/* Converts the 64-bit least and greatest integers to those of a narrower dtype. */
static uint64_t fit(mf_dtype d, uint64_t x)
{
    int bits = 8 * mf_dtype_size(d);
    if (d == MF_BOOL)
        return x != 0;
    if (bits == 64 || (x != (uint64_t)INT64_MIN && x != (uint64_t)INT64_MAX && x != UINT64_MAX))
        return x;
    if (!mf_dtype_is_signed(d))
        return x >> (64 - bits);
    return x == UINT64_MAX ? x : (uint64_t)((int64_t)x >> (64 - bits));
}

/* Reduces one row of n elements; `wide` has room for them in the computing type. */
static void reduce_row(const reduction *r, mf_dtype d, const char *row, int64_t n, void *wide, void *out)
{
    if (d == MF_C64 && r->complex_single) {
        float complex y = reduce_c64((const float complex *)(const void *)row, n, (float complex)r->identity, r->complex_single);
        memcpy(out, &y, sizeof y);
    } else if (d == MF_C128 && r->complex_real) {
        double complex y = reduce_c128((const double complex *)(const void *)row, n, r->identity, r->complex_real);
        memcpy(out, &y, sizeof y);
    } else if (mf_dtype_is_complex(d)) {
        mf_dtype part = d == MF_C64 ? MF_F32 : MF_F64;
        int size = mf_dtype_size(part);
        char *parts = wide;
        for (int which = 0; which < 2; which++) {
            for (int64_t i = 0; i < n; i++)
                memcpy(parts + i * size, row + (2 * i + which) * size, (size_t)size);
            reduce_row(r, part, parts, n, parts, (char *)out + which * size);
        }
    } else if (d == MF_F64) {
        double y = reduce_f64((const double *)(const void *)row, n, r->identity, r->real);
        memcpy(out, &y, sizeof y);
    } else if (mf_dtype_is_float(d)) {
        mf_convert(MF_F32, wide, d, row, n);
        float y = reduce_f32(wide, n, (float)r->identity, r->single);
        mf_convert(d, out, MF_F32, &y, 1);
    } else {
        bool is_signed = mf_dtype_is_signed(d);
        mf_convert(is_signed ? MF_I64 : MF_U64, wide, d, row, n);
        uint64_t y = reduce_u64(wide, n, fit(d, start_of(r, d)), is_signed ? r->integer : r->natural);
        mf_convert(d, out, MF_U64, &y, 1);
    }
}

static mf_error_object *evaluate(const reduction *r, const mf_eqn *e, const void *in, void *out)
{
    const mf_type *t = e->in[0]->type, *to = e->out[0]->type;
    int64_t size = mf_dtype_size(t->dtype), n = 1;
    for (int i = 0; i < axes_of(e)->count; i++)
        n *= t->dims[axes_of(e)->at[i]];
    void *owned, *wide = mf_alloc((size_t)n * sizeof(uint64_t) + 1);
    const char *rows = rows_of(e, in, &owned);
    bool fine = wide && (rows || !in);
    for (int64_t i = 0; fine && i < to->size; i++)
        reduce_row(r, t->dtype, rows + i * n * size, n, wide, (char *)out + i * size);
    mf_free(owned);
    mf_free(wide);
    return fine ? NULL : mf_error_out_of_memory();
}

#define EVALUATE_REDUCTION(name, ...)               \
    MF_EVALUATE_RULE(name)                          \
    {                                               \
        static const reduction r = { __VA_ARGS__ }; \
        return evaluate(&r, e, in[0], out[0]);      \
    }

static float add_single(float x, float y) { return x + y; }
static double add_real(double x, double y) { return x + y; }
static uint64_t add_bits(uint64_t x, uint64_t y) { return x + y; }
static float mul_single(float x, float y) { return x * y; }
static double mul_real(double x, double y) { return x * y; }
static uint64_t mul_bits(uint64_t x, uint64_t y) { return x * y; }
/* By the textbook formula: C's special handling of infinities differs from XLA's results. */
static float complex mul_complex_single(float complex x, float complex y)
{
    float a = crealf(x), b = cimagf(x), c = crealf(y), d = cimagf(y);
    float parts[2] = { a * c - b * d, a * d + b * c };
    float complex z;
    memcpy(&z, parts, sizeof z);
    return z;
}
static double complex mul_complex_real(double complex x, double complex y)
{
    double a = creal(x), b = cimag(x), c = creal(y), d = cimag(y);
    double parts[2] = { a * c - b * d, a * d + b * c };
    double complex z;
    memcpy(&z, parts, sizeof z);
    return z;
}
static uint64_t max_integer(uint64_t x, uint64_t y) { return (int64_t)y > (int64_t)x ? y : x; }
static uint64_t max_natural(uint64_t x, uint64_t y) { return y > x ? y : x; }
static float complex max_complex_single(float complex x, float complex y) { return (float complex)mf_greater_complex(x, y); }
static uint64_t min_integer(uint64_t x, uint64_t y) { return (int64_t)y < (int64_t)x ? y : x; }
static uint64_t min_natural(uint64_t x, uint64_t y) { return y < x ? y : x; }
static float complex min_complex_single(float complex x, float complex y) { return (float complex)mf_lesser_complex(x, y); }
static uint64_t and_bits(uint64_t x, uint64_t y) { return x & y; }
static uint64_t or_bits(uint64_t x, uint64_t y) { return x | y; }
EVALUATE_REDUCTION(sum_evaluate, add_single, add_real, add_bits, add_bits, 0, ZERO, NULL, NULL)
EVALUATE_REDUCTION(prod_evaluate, mul_single, mul_real, mul_bits, mul_bits, 1, ONE, mul_complex_single, mul_complex_real)
EVALUATE_REDUCTION(max_evaluate, mf_greater_single, mf_greater_real, max_integer, max_natural, -INFINITY, LEAST, max_complex_single,
                   mf_greater_complex)
EVALUATE_REDUCTION(min_evaluate, mf_lesser_single, mf_lesser_real, min_integer, min_natural, INFINITY, MOST, min_complex_single,
                   mf_lesser_complex)
EVALUATE_REDUCTION(and_evaluate, NULL, NULL, and_bits, and_bits, 0, ALL_ONES, NULL, NULL)
EVALUATE_REDUCTION(or_evaluate, NULL, NULL, or_bits, or_bits, 0, ZERO, NULL, NULL)

static const mf_param axes_params[] = { MF_PARAM(mf_axes_params, axes, MF_PARAM_INTS), { 0 } };

MF_HLO_RULE(reduce_hlo) { out[0] = h_reduce(h, e->op->reducer, in[0], axes_of(e)); }

/* The fields that the ops share. */
#define REDUCE_ROW                                                                                                                     \
    .params = axes_params, .params_size = sizeof(mf_axes_params), .partial_eval = mf_partial_eval_all_or_nothing, .dce = mf_dce_whole, \
    .batch = reduce_batch, .variance = mf_variance_join, .cost = reduce_cost, .lower = mf_lower_none, MF_HLO_BY(reduce_hlo)

/* ---- reduce_sum */
MF_TRANSPOSE_RULE(sum_transpose)
{
    (void)linear, (void)in;
    ct_in[0] = broadcast_back(b, ct[0], e);
}

static const char *const sum_samples[] = {
    "[axes=(0)] f32[3,4]{-2:2}",
    "[axes=(1)] f64[3,4]{-2:2}",
    "[axes=(0,2)] f32[2,3,4]{-2:2}",
    "[axes=(0,1)] f32[2,3]{=1,2,3,4,5,6} -> f32[]{=21}",
    "[axes=()] f32[2]{=1,2} -> f32[2]{=1,2}",
    "[axes=(0)] f32[5000]{-1:1}",
    "[axes=(0)] bf16[16]{=256,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1} -> bf16[]{=272}",
    "[axes=(0)] f16[3]{=2048,1,1} -> f16[]{=2050}",
    "[axes=(0)] i32[2]{=2147483647,1} -> i32[]{=-2147483648}",
    "[axes=(1)] u8[2,2]{=200,100,1,2} -> u8[2]{=44,3}",
    "[axes=(1)] f32[2,0]{0:1} -> f32[2]{=0,0}",
    "[axes=(0)] c64[2]{=1,2,3,-4} -> c64[]{=4,-2}",
    "[axes=(0)] c128[3,2]{-2:2}",
    NULL,
};
const mf_op mf_op_reduce_sum = {
    .name = "reduce_sum",
    .reduced = MF_REDUCED_AXES,
    .reducer = MF_REDUCE_SUM,
    REDUCE_ROW,
    .type_rule = numeric_type,
    .jvp = mf_jvp_linear,
    .transpose = sum_transpose,
    .evaluate = sum_evaluate,
    .samples = sum_samples,
};

/* ---- reduce_prod: the derivative with respect to each element is the product of the others, without division, so zeros are no special
 * case */
static mf_variable *product_before(mf_builder *b, mf_variable *rows, bool reverse)
{
    int64_t one[MF_RANK] = { 0 }, less[MF_RANK] = { 0 };
    int last = rows->type->rank - 1;
    one[last] = 1;
    less[last] = -1;
    mf_variable *product = mf_emit(b, &mf_op_cumprod, &(mf_cum_params){ last, reverse }, 1, rows);
    return e_pad(b, product, 1, reverse ? less : one, reverse ? one : less, NULL);
}

/* x with the reduced axes last and merged into one. */
static mf_variable *as_rows(mf_builder *b, mf_variable *x, const mf_eqn *e)
{
    const mf_type *t = e->in[0]->type;
    int order[MF_RANK], count = 0, kept;
    int64_t dims[MF_RANK], n = 1;
    for (int i = 0; i < t->rank; i++)
        if (!mf_ints_has(axes_of(e), i)) {
            dims[count] = t->dims[i];
            order[count++] = i;
        }
    kept = count;
    for (int i = 0; i < axes_of(e)->count; i++) {
        order[count++] = (int)axes_of(e)->at[i];
        n *= t->dims[axes_of(e)->at[i]];
    }
    dims[kept] = n;
    return e_reshape(b, e_transpose(b, x, order), kept + 1, dims);
}

MF_JVP_RULE(prod_jvp)
{
    mf_copy_eqn(b, e, in, out);
    if (axes_of(e)->count == 0) {
        tout[0] = tin[0];
        return;
    }
    mf_variable *x = as_rows(b, in[0], e), *t = as_rows(b, tin[0], e);
    mf_variable *others = e_mul(b, product_before(b, x, false), product_before(b, x, true));
    tout[0] = e_reduce_sum(b, e_mul(b, t, others), mf_ints_of(1, x->type->rank - 1));
}

static const char *const prod_samples[] = {
    "[axes=(0)] f32[3,4]{-2:2}",
    "[axes=(0,2)] f64[2,3,2]{-2:2}",
    "[axes=(1)] f64[2,3]{=1,0,3,0,0,2}",
    "[axes=(0)] f32[3]{=2,0,3} -> f32[]{=0}",
    "[axes=(0)] bf16[3]{=2,4,3} -> bf16[]{=24}",
    "[axes=(0)] i32[2]{=65536,65537} -> i32[]{=65536}",
    "[axes=(0)] c64[3]{=1,2,3,-4,0,1} -> c64[]{=-2,11}",
    "[axes=(0,2)] c128[2,3,2]{-2:2}",
    "[axes=(1)] c128[2,3]{=1,2,0,0,3,1,0,0,0,0,2,-1}",
    "[axes=(1)] f32[2,0]{0:1} -> f32[2]{=1,1}",
    NULL,
};
const mf_op mf_op_reduce_prod = {
    .name = "reduce_prod",
    .reduced = MF_REDUCED_AXES,
    .reducer = MF_REDUCE_PROD,
    REDUCE_ROW,
    .type_rule = numeric_type,
    .jvp = prod_jvp,
    .transpose = mf_transpose_none,
    .evaluate = prod_evaluate,
    .samples = prod_samples,
};

/* ---- reduce_max, reduce_min: elements equal to the result share its tangent equally */
MF_JVP_RULE(extreme_jvp)
{
    mf_copy_eqn(b, e, in, out);
    mf_variable *is_it = e_convert(b, e_compare(b, &mf_op_eq, in[0], broadcast_back(b, out[0], e)), tin[0]->type->dtype);
    mf_variable *count = e_reduce_sum(b, is_it, axes_of(e));
    tout[0] = e_div(b, e_reduce_sum(b, e_mul(b, tin[0], is_it), axes_of(e)), count);
}

static const char *const max_samples[] = {
    "[axes=(0)] f32[3,4]{-2:2}",
    "[axes=(0,2)] f64[2,3,4]{-2:2}",
    "[axes=(1)] f32[2,3]{=1,nan,3,-5,-1,-2} -> f32[2]{=nan,-1}",
    "[axes=(1)] f32[3,2]{=-0.0,0,0,-0.0,-0.0,-0.0} -> f32[3]{=0,0,-0.0}",
    "[axes=(0)] f64[2,3]{=-0.0,0,-0.0,0,-0.0,-0.0} -> f64[3]{=0,0,-0.0}",
    "[axes=(0)] bf16[2,3]{=-0.0,0,-0.0,0,-0.0,-0.0} -> bf16[3]{=0,0,-0.0}",
    "[axes=(0)] i8[3]{=-128,-5,-7} -> i8[]{=-5}",
    "[axes=(0)] u64[2]{=18446744073709551615,5} -> u64[]{=18446744073709551615}",
    "[axes=(0)] bool[2]{=0,1} -> bool[]{=1}",
    "[axes=(1)] f32[2,0]{0:1} -> f32[2]{=-inf,-inf}",
    "[axes=(1)] i32[1,0]{0:1} -> i32[1]{=-2147483648}",
    "[axes=(0)] bf16[3]{-2:2}",
    "[axes=(0)] c64[4]{=1,2,1,-1,0,5,1,3} -> c64[]{=1,3}",
    NULL,
};
const mf_op mf_op_reduce_max = {
    .name = "reduce_max",
    .reduced = MF_REDUCED_AXES,
    .reducer = MF_REDUCE_MAX,
    REDUCE_ROW,
    .type_rule = ordered_type,
    .jvp = extreme_jvp,
    .transpose = mf_transpose_none,
    .evaluate = max_evaluate,
    .samples = max_samples,
};

static const char *const min_samples[] = {
    "[axes=(0)] f32[3,4]{-2:2}",
    "[axes=(0,2)] f64[2,3,4]{-2:2}",
    "[axes=(1)] f32[2,3]{=1,nan,3,-5,-1,-2} -> f32[2]{=nan,-5}",
    "[axes=(1)] f32[3,2]{=-0.0,0,0,-0.0,0,0} -> f32[3]{=-0.0,-0.0,0}",
    "[axes=(0)] f64[2,3]{=-0.0,0,0,0,-0.0,0} -> f64[3]{=-0.0,-0.0,0}",
    "[axes=(0)] f16[2,3]{=-0.0,0,0,0,-0.0,0} -> f16[3]{=-0.0,-0.0,0}",
    "[axes=(0)] i8[3]{=-128,-5,-7} -> i8[]{=-128}",
    "[axes=(0)] bool[2]{=0,1} -> bool[]{=0}",
    "[axes=(1)] u8[1,0]{0:1} -> u8[1]{=255}",
    "[axes=(1)] i16[1,0]{0:1} -> i16[1]{=32767}",
    "[axes=(0)] f16[3]{-2:2}",
    "[axes=(0)] c128[4]{=1,2,1,-1,0,5,0,3} -> c128[]{=0,3}",
    NULL,
};
const mf_op mf_op_reduce_min = {
    .name = "reduce_min",
    .reduced = MF_REDUCED_AXES,
    .reducer = MF_REDUCE_MIN,
    REDUCE_ROW,
    .type_rule = ordered_type,
    .jvp = extreme_jvp,
    .transpose = mf_transpose_none,
    .evaluate = min_evaluate,
    .samples = min_samples,
};

/* ---- reduce_and, reduce_or */
static const char *const and_samples[] = {
    "[axes=(1)] bool[2,2]{=1,1,0,1} -> bool[2]{=1,0}",
    "[axes=(0)] i32[2]{=12,10} -> i32[]{=8}",
    "[axes=(1)] bool[2,0]{0:1} -> bool[2]{=1,1}",
    "[axes=(0)] u8[2,3]{0:255}",
    NULL,
};
const mf_op mf_op_reduce_and = {
    .name = "reduce_and",
    .reduced = MF_REDUCED_AXES,
    .reducer = MF_REDUCE_AND,
    REDUCE_ROW,
    .type_rule = logical_type,
    .jvp = mf_jvp_zero,
    .transpose = mf_transpose_none,
    .evaluate = and_evaluate,
    .samples = and_samples,
};

static const char *const or_samples[] = {
    "[axes=(1)] bool[2,2]{=0,0,0,1} -> bool[2]{=0,1}",
    "[axes=(0)] i32[2]{=12,10} -> i32[]{=14}",
    "[axes=(1)] bool[2,0]{0:1} -> bool[2]{=0,0}",
    "[axes=(0)] u8[2,3]{0:255}",
    NULL,
};
const mf_op mf_op_reduce_or = {
    .name = "reduce_or",
    .reduced = MF_REDUCED_AXES,
    .reducer = MF_REDUCE_OR,
    REDUCE_ROW,
    .type_rule = logical_type,
    .jvp = mf_jvp_zero,
    .transpose = mf_transpose_none,
    .evaluate = or_evaluate,
    .samples = or_samples,
};
