/* Complex numbers and their parts: complex real imag conj. Invariant: derivatives follow JAX: a cotangent c and a tangent t are paired as
 * the real part of c t, without conjugation, so the gradient of a real-valued function of z = x + iy is df/dx - i df/dy. */
#include "ops/elementwise/loops.h"
#include <string.h>

/* The dtype of the parts, and of the whole. */
static mf_dtype part_of(mf_dtype d) { return d == MF_C64 ? MF_F32 : MF_F64; }
static mf_dtype whole_of(mf_dtype d) { return d == MF_F32 ? MF_C64 : MF_C128; }

static mf_error_object *one_complex(mf_type_context *c)
{
    mf_error_object *e = mf_check_operands(c, 1);
    if (!e && !mf_dtype_is_complex(c->in[0]->dtype))
        e = mf_type_error(c, MF_ERROR_DTYPE, "is defined for complex numbers, not for %s", mf_dtype_name(c->in[0]->dtype));
    return e;
}

static mf_error_object *part_type(mf_type_context *c)
{
    mf_error_object *e = one_complex(c);
    if (!e)
        c->out[0] = mf_type_with_dtype(c->in[0], part_of(c->in[0]->dtype));
    return e;
}

static mf_error_object *conj_type(mf_type_context *c)
{
    mf_error_object *e = one_complex(c);
    c->out[0] = c->in_count ? c->in[0] : NULL;
    return e;
}

static mf_error_object *complex_type(mf_type_context *c)
{
    mf_error_object *e = mf_type_float2(c);
    if (e)
        return e;
    mf_dtype d = c->in[0]->dtype;
    if (d != MF_F32 && d != MF_F64)
        return mf_type_error(c, MF_ERROR_DTYPE, "the parts must be float32 or float64, not %s", mf_dtype_name(d));
    c->out[0] = mf_type_with_dtype(c->in[0], whole_of(d));
    return NULL;
}

/* Copies elements of `size` bytes, at distances `from` in the input and `to` in the output. */
static void copy_parts(const mf_type *t, int size, char *out, int to, const char *in, int from)
{
    for (int64_t i = 0; i < t->size; i++)
        memmove(out + i * to, in + i * from, (size_t)size);
}

#define COMPLEX_ROW(word, type, derivative, back, text, ...) \
    const mf_op mf_op_##word = {                             \
        .name = #word,                                       \
        MF_ELEMENTWISE_ROW,                                  \
        .type_rule = type,                                   \
        .jvp = derivative,                                   \
        .transpose = back,                                   \
        .cost = mf_cost_elementwise,                         \
        .lower = mf_lower_none,                              \
        .evaluate = word##_evaluate,                         \
        __VA_ARGS__,                                         \
        .samples = text,                                     \
    }

static mf_variable *pair(mf_builder *b, mf_variable *re, mf_variable *im) { return e_binary(b, &mf_op_complex, re, im); }

/* ---- complex */
MF_TRANSPOSE_RULE(complex_transpose)
{
    (void)e, (void)in;
    ct_in[0] = linear[0] ? e_unary(b, &mf_op_real, ct[0]) : NULL;
    ct_in[1] = linear[1] ? e_neg(b, e_unary(b, &mf_op_imag, ct[0])) : NULL;
}

MF_EVALUATE_RULE(complex_evaluate)
{
    const mf_type *t = e->out[0]->type;
    int size = mf_dtype_size(e->in[0]->type->dtype);
    copy_parts(t, size, out[0], 2 * size, in[0], size);
    copy_parts(t, size, (char *)out[0] + size, 2 * size, in[1], size);
    return NULL;
}

static const char *const complex_samples[] = {
    "f32[2]{=1,2} f32[2]{=3,-4} -> c64[2]{=1,3,2,-4}",
    "f64[2,3]{-2:2} f64[2,3]{-2:2}",
    NULL,
};
COMPLEX_ROW(complex, complex_type, mf_jvp_linear, complex_transpose, complex_samples, MF_HLO("complex"));

/* ---- real, imag */
MF_TRANSPOSE_RULE(real_transpose)
{
    (void)e, (void)linear, (void)in;
    ct_in[0] = pair(b, ct[0], e_zeros_like(b, ct[0]));
}

MF_TRANSPOSE_RULE(imag_transpose)
{
    (void)e, (void)linear, (void)in;
    ct_in[0] = pair(b, e_zeros_like(b, ct[0]), e_neg(b, ct[0]));
}

MF_EVALUATE_RULE(real_evaluate)
{
    int size = mf_dtype_size(e->out[0]->type->dtype);
    copy_parts(e->out[0]->type, size, out[0], size, in[0], 2 * size);
    return NULL;
}

MF_EVALUATE_RULE(imag_evaluate)
{
    int size = mf_dtype_size(e->out[0]->type->dtype);
    copy_parts(e->out[0]->type, size, out[0], size, (const char *)in[0] + size, 2 * size);
    return NULL;
}

static const char *const real_samples[] = { "c64[2]{=1,3,2,-4} -> f32[2]{=1,2}", "c128[2,3]{-2:2}", NULL };
COMPLEX_ROW(real, part_type, mf_jvp_linear, real_transpose, real_samples, MF_HLO("real"));
static const char *const imag_samples[] = { "c64[2]{=1,3,2,-4} -> f32[2]{=3,-4}", "c128[2,3]{-2:2}", NULL };
COMPLEX_ROW(imag, part_type, mf_jvp_linear, imag_transpose, imag_samples, MF_HLO("imag"));

/* ---- conj */
MF_TRANSPOSE_RULE(conj_transpose)
{
    (void)e, (void)linear, (void)in;
    ct_in[0] = e_unary(b, &mf_op_conj, ct[0]);
}

MF_EVALUATE_RULE(conj_evaluate)
{
    mf_dtype part = part_of(e->out[0]->type->dtype);
    int size = mf_dtype_size(part);
    const char *x = in[0];
    char *y = out[0];
    memmove(y, x, (size_t)e->out[0]->type->bytes);
    for (int64_t i = 0; i < e->out[0]->type->size; i++)
        mf_store_f64(part, y + (2 * i + 1) * size, -mf_load_f64(part, y + (2 * i + 1) * size));
    return NULL;
}

static const char *const conj_samples[] = { "c64[2]{=1,3,2,-4} -> c64[2]{=1,-3,2,4}", "c128[2,3]{-2:2}", NULL };
MF_HLO_RULE(conj_hlo)
{
    (void)e;
    out[0] = h_conjugate(h, in[0]);
}
COMPLEX_ROW(conj, conj_type, mf_jvp_linear, conj_transpose, conj_samples, MF_HLO_BY(conj_hlo));
