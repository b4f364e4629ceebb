/* convert_element_type and bitcast_convert_type. Invariant: only array/types/cast.c knows how numbers convert: integers wrap, float to
 * integer saturates and NaN gives 0, conversion to bool tests for nonzero, f16 and bf16 round to nearest even. */
#include "ir/kernel.h"
#include "ops/elementwise/loops.h"
#include <string.h>

static const mf_param convert_params[] = {
    MF_PARAM(mf_convert_params, dtype, MF_PARAM_DTYPE),
    MF_PARAM(mf_convert_params, weak, MF_PARAM_BOOL),
    { 0 },
};

/* ---- convert_element_type */
static mf_error_object *convert_type(mf_type_context *c)
{
    const mf_convert_params *p = c->params;
    mf_error_object *e = mf_check_operands(c, 1);
    if (e)
        return e;
    const mf_type *t = c->in[0];
    if ((p->dtype == MF_KEY) != (t->dtype == MF_KEY) || p->dtype == MF_DTYPE_DEFAULT)
        return mf_type_error(c, MF_ERROR_DTYPE, "there is no conversion from %s to %s", mf_dtype_name(t->dtype), mf_dtype_name(p->dtype));
    c->out[0] = mf_type_get(p->dtype, p->weak, t->rank, t->dims);
    return NULL;
}

MF_JVP_RULE(convert_jvp)
{
    mf_dtype dtype = ((const mf_convert_params *)e->params)->dtype;
    mf_copy_eqn(b, e, in, out);
    tout[0] = mf_dtype_is_inexact(dtype) ? e_convert(b, tin[0], dtype) : NULL;
}

MF_TRANSPOSE_RULE(convert_transpose)
{
    (void)linear, (void)in;
    ct_in[0] = e_convert(b, ct[0], e->in[0]->type->dtype);
}

MF_EVALUATE_RULE(convert_evaluate)
{
    const mf_type *from = e->in[0]->type, *to = e->out[0]->type;
    if (from->dtype == to->dtype)
        memmove(out[0], in[0], (size_t)to->bytes);
    else
        mf_convert(to->dtype, out[0], from->dtype, in[0], to->size);
    return NULL;
}

MF_LOWER_RULE(convert_lower) { return k->convert(k, e->out[0]->type->dtype, in[0]); }

static const char *const convert_samples[] = {
    "[dtype=i32] f32[6]{=1.9,-1.9,3e10,-3e10,nan,inf} -> i32[6]{=1,-1,2147483647,-2147483648,0,2147483647}",
    "[dtype=u8] f32[4]{=300,-1,254.9,nan} -> u8[4]{=255,0,254,0}",
    "[dtype=i8] f32[5]{=127.9,128,-128.9,-129,nan} -> i8[5]{=127,127,-128,-128,0}",
    "[dtype=u16] f64[5]{=65535.9,65536,-0.9,-inf,nan} -> u16[5]{=65535,65535,0,0,0}",
    "[dtype=i32] f64[5]{=2147483647.9,2147483648,-2147483648.9,-2147483649,nan} -> i32[5]{=2147483647,2147483647,-2147483648,-2147483648,0}",
    "[dtype=u32] f32[5]{=4294967040,4294967296,-0.9,-inf,nan} -> u32[5]{=4294967040,4294967295,0,0,0}",
    "[dtype=i64] f32[5]{=1e10,inf,-1e10,-inf,nan} -> i64[5]{=10000000000,9223372036854775807,-10000000000,-9223372036854775808,0}",
    "[dtype=i8] i32[3]{=128,-129,5} -> i8[3]{=-128,127,5}",
    "[dtype=bool] f32[4]{=0,-0.0,nan,0.5} -> bool[4]{=0,0,1,1}",
    "[dtype=f32] bool[2]{=0,1} -> f32[2]{=0,1}",
    "[dtype=f32] i32[1]{=16777217} -> f32[1]{=16777216}",
    "[dtype=bf16] f32[3]{=1.00390625,1.01171875,3.4e38} -> bf16[3]{=1,1.015625,inf}",
    "[dtype=f16] f32[3]{=65519,65520,1.00048828125} -> f16[3]{=65504,inf,1}",
    "[dtype=f32] f64[2,3]{-2:2}",
    "[dtype=f64] f32[2,3]{-2:2}",
    "[dtype=f32, weak=true] f32[3]{-2:2}",
    "[dtype=c64] f32[2]{=1,-2} -> c64[2]{=1,0,-2,0}",
    "[dtype=f32] c64[2]{=1,5,-2,3} -> f32[2]{=1,-2}",
    "[dtype=bool] c64[2]{=0,5,0,0} -> bool[2]{=1,0}",
    "[dtype=c128] c64[2]{-2:2}",
    "[dtype=i64] u32[1]{=4294967295} -> i64[1]{=4294967295}",
    NULL,
};
/* Complex to real takes the real part; conversion to bool tests for nonzero. */
MF_HLO_RULE(convert_hlo)
{
    mf_dtype from = in[0].type->dtype, to = e->out[0]->type->dtype;
    mf_hlo_value x = in[0];
    if (from == to) {
        out[0] = x;
    } else if (to == MF_BOOL) {
        out[0] = h_compare(h, "NE", false, x, h_full(h, x.type, 0));
    } else if (mf_dtype_is_complex(from) && mf_dtype_is_complex(to)) {
        out[0] = h_op(h, "convert", e->out[0]->type, &x, 1, NULL);
    } else if (mf_dtype_is_complex(to)) {
        mf_hlo_value re = h_convert(h, x, to == MF_C64 ? MF_F32 : MF_F64);
        out[0] = h_op(h, "complex", e->out[0]->type, (mf_hlo_value[]){ re, h_full(h, re.type, 0) }, 2, NULL);
    } else {
        out[0] = h_convert(h, mf_dtype_is_complex(from) ? h_part(h, "real", x) : x, to);
    }
}

const mf_op mf_op_convert_element_type = {
    .name = "convert_element_type",
    MF_ELEMENTWISE_ROW,
    .params = convert_params,
    .params_size = sizeof(mf_convert_params),
    .type_rule = convert_type,
    .jvp = convert_jvp,
    .transpose = convert_transpose,
    .cost = mf_cost_elementwise,
    .lower = convert_lower,
    .evaluate = convert_evaluate,
    MF_HLO_BY(convert_hlo),
    .samples = convert_samples,
};

/* ---- bitcast_convert_type: the same bytes under another dtype of the same width */
static mf_error_object *bitcast_type(mf_type_context *c)
{
    const mf_convert_params *p = c->params;
    mf_error_object *e = mf_check_operands(c, 1);
    if (e)
        return e;
    const mf_type *t = c->in[0];
    if (mf_dtype_size(p->dtype) != mf_dtype_size(t->dtype) || t->dtype == MF_KEY || p->dtype == MF_KEY)
        return mf_type_error(c, MF_ERROR_DTYPE, "%s and %s are not of one width", mf_dtype_name(t->dtype), mf_dtype_name(p->dtype));
    if ((t->dtype == MF_BOOL) != (p->dtype == MF_BOOL))
        return mf_type_error(c, MF_ERROR_DTYPE, "bool has no bits to give or take");
    c->out[0] = mf_type_get(p->dtype, p->weak, t->rank, t->dims);
    return NULL;
}

MF_EVALUATE_RULE(bitcast_evaluate)
{
    memmove(out[0], in[0], (size_t)e->out[0]->type->bytes);
    return NULL;
}

/* The engine computes f16 and bf16 as f32, so it has no 16 bits to reinterpret. */
MF_LOWER_RULE(bitcast_lower)
{
    if (mf_dtype_size(e->out[0]->type->dtype) == 2)
        return 0;
    return k->bitcast(k, e->out[0]->type->dtype, in[0]);
}

static const char *const bitcast_samples[] = {
    "[dtype=u32] f32[3]{=1,-0.0,inf} -> u32[3]{=1065353216,2147483648,2139095040}",
    "[dtype=f32] u32[1]{=1065353216} -> f32[1]{=1}",
    "[dtype=u16] bf16[1]{=1} -> u16[1]{=16256}",
    "[dtype=f16] u16[1]{=15360} -> f16[1]{=1}",
    "[dtype=i64] f64[1]{=1} -> i64[1]{=4607182418800017408}",
    "[dtype=u8] i8[2]{=-1,5} -> u8[2]{=255,5}",
    NULL,
};
const mf_op mf_op_bitcast_convert_type = {
    .name = "bitcast_convert_type",
    MF_ELEMENTWISE_ROW,
    .params = convert_params,
    .params_size = sizeof(mf_convert_params),
    .type_rule = bitcast_type,
    .jvp = mf_jvp_zero,
    .transpose = mf_transpose_none,
    .cost = mf_cost_elementwise,
    .lower = bitcast_lower,
    .evaluate = bitcast_evaluate,
    MF_HLO("bitcast_convert"),
    .samples = bitcast_samples,
};
