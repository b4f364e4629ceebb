/* The elementary functions of f32 as IR: kernels/tile/polynomial.def and kernels/float16.def by math.inc; and what both precisions
 * share. */
#include "backend/native/llvm/llvm.h"

#include "backend/native/kernels/kernels.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

mf_ir_value mf_ir_rare(mf_ir *ir, mf_dtype dtype, uintptr_t lanes, mf_ir_value m, mf_ir_value x, mf_ir_value r, uintptr_t function)
{
    int n = ir->next++, w = ir->width, align = mf_dtype_size(dtype);
    const char *scalar = mf_ir_scalar(dtype);
    char before[24], inside[24], behind[24];
    memcpy(before, ir->label, sizeof before);
    snprintf(inside, sizeof inside, "rare%d", n);
    snprintf(behind, sizeof behind, "usual%d", n);
    mf_ir_value any = mf_ir_op(ir, "call i1 @llvm.vector.reduce.or.v%di1(<%d x i1> %s)", w, w, m);
    mf_ir_line(ir, "br i1 %s, label %%%s, label %%%s", any, inside, behind);
    mf_ir_label(ir, inside);
    mf_ir_value bytes = mf_ir_op(ir, "zext <%d x i1> %s to <%d x i8>", w, m, w);
    mf_ir_line(ir, "store <%d x %s> %s, ptr %%rare.x, align %d", w, scalar, x, align);
    mf_ir_line(ir, "store <%d x %s> %s, ptr %%rare.r, align %d", w, scalar, r, align);
    mf_ir_line(ir, "store <%d x i8> %s, ptr %%rare.m, align 1", w, bytes);
    mf_ir_line(ir, "call void inttoptr (i64 %llu to ptr)(ptr %%rare.x, ptr %%rare.r, ptr %%rare.m, i64 %d, ptr inttoptr (i64 %llu to ptr))",
               (unsigned long long)lanes, w, (unsigned long long)function);
    mf_ir_value other = mf_ir_op(ir, "load <%d x %s>, ptr %%rare.r, align %d", w, scalar, align);
    mf_ir_line(ir, "br label %%%s", behind);
    mf_ir_label(ir, behind);
    return mf_ir_op(ir, "phi <%d x %s> [ %s, %%%s ], [ %s, %%%s ]", w, scalar, r, before, other, inside);
}

#define FLOAT      MF_F32
#define FLOAT_C    float
#define REAL       "float"
#define LETTERS    "f32"
#define WORD_DTYPE MF_U32
#define WORD_C     uint32_t
#define WORD       "i32"
#include "backend/native/llvm/emit/math.inc"

static mf_ir_value choose(const char *compare, mf_ir_value a, mf_ir_value b) { return selected(float_op(compare, a, b), a, b); }

/* AVX-512 instructions on 16 lanes, which LLVM does not split: v * 2^n; and r clamped to [-1, 1], or 1 for NaN. */
static mf_ir_value scaled(mf_ir_value v, mf_ir_value n)
{
    return mf_ir_op(
        at, "call <16 x float> @llvm.x86.avx512.mask.scalef.ps.512(<16 x float> %s, <16 x float> %s, <16 x float> %s, i16 -1, i32 4)", v, n,
        v);
}

static mf_ir_value within_one(mf_ir_value r, mf_ir_value one)
{
    return mf_ir_op(
        at, "call <16 x float> @llvm.x86.avx512.mask.range.ps.512(<16 x float> %s, <16 x float> %s, i32 2, <16 x float> %s, i16 -1, i32 4)",
        r, one, r);
}

static mf_ir_value lanes_of(mf_ir_value a, mf_ir_value b, int width, int from, int count)
{
    mf_text order = { 0 };
    for (int k = 0; k < count; k++)
        mf_text_add(&order, "%si32 %d", k ? ", " : "", from + k);
    mf_ir_value made = mf_ir_op(at, "shufflevector <%d x float> %s, <%d x float> %s, <%d x i32> <%s>", width, a, width, b, count,
                                order.at ? order.at : "");
    at->failed |= order.failed;
    mf_text_free(&order);
    return made;
}

static mf_ir_value sixteen_at_once(mf_ir_value (*one)(mf_ir_value, mf_ir_value), mf_ir_value a, mf_ir_value b)
{
    if (W == 16)
        return one(a, b);
    mf_ir_value low = one(lanes_of(a, "poison", W, 0, 16), lanes_of(b, "poison", W, 0, 16));
    mf_ir_value high = one(lanes_of(a, "poison", W, 16, 16), lanes_of(b, "poison", W, 16, 16));
    return lanes_of(low, high, 16, 0, 32);
}

static bool scales(void) { return (W == 16 || W == 32) && mf_kernels_avx512(); }

#define P_SQRT(a)                mf_ir_op(at, "call <%d x float> @llvm.sqrt.v%df32(<%d x float> %s)", W, W, W, a)
#define P_LESSER(a, b)           choose("fcmp olt", a, b)
#define P_GREATER(a, b)          choose("fcmp ogt", a, b)
#define P_SCALE(v, n, i)         (scales() ? sixteen_at_once(scaled, v, n) : P_SCALE_IN_STEPS(v, i))
#define P_REST(r)                (scales() ? sixteen_at_once(within_one, r, P_C(1.0f)) : (r))
#define P_EXPONENT(x, low, high) (scales() ? (x) : P_CLAMP(x, low, high))
#define P_ITOF(i)                cast_op("sitofp", WORD, i, REAL)
#define P_IMUL(a, b)             int_op("mul", a, b)
#define P_SAR(i, n)              int_op("ashr", i, word(n))
#define P_CALL2(name, x, y)      name##_ir(x, y)
#define P_FUNCTION2(name)        static mf_ir_value name##_ir(mf_ir_value x, mf_ir_value y)
#define P_WIDEN(name)            P_FUNCTION1(name)
#define P_NARROW(name)           P_FUNCTION1(name)

#include "backend/native/kernels/float16.def"
#include "backend/native/kernels/tile/polynomial.def"

/* The other functions of f32 that the tile kernels have, following kernels/tile/tile.inc. */
P_FUNCTION1(sign)
{
    mf_ir_value one = P_FLOAT(P_OR(P_BITS(P_C(1.0f)), P_SIGN_OF(x)));
    return P_SELECT(P_MOR(P_EQ(x, P_C(0.0f)), P_ISNAN(x)), x, one);
}

P_FUNCTION1(round)
{
    mf_ir_value a = P_ABS(x), r = P_SUB(P_ADD(a, P_C(0x1p23f)), P_C(0x1p23f));
    return P_SELECT(P_LT(a, P_C(0x1p23f)), P_WITH_SIGN(r, P_SIGN_OF(x)), x);
}

P_FUNCTION1(floor)
{
    mf_ir_value r = P_CALL1(round, x), below = P_SUB(r, P_SELECT(P_LT(x, r), P_C(1.0f), P_C(0.0f)));
    return P_SELECT(P_EQ(r, x), x, below);
}

P_FUNCTION1(ceil) { return P_NEG(P_CALL1(floor, P_NEG(x))); }

typedef struct function {
    const char *name;
    mf_ir_value (*one)(mf_ir_value x);
    mf_ir_value (*two)(mf_ir_value x, mf_ir_value y);
} function;

static const function functions[] = {
    { "exp", exp_ir, NULL },     { "exp2", exp2_ir, NULL },       { "expm1", expm1_ir, NULL }, { "log", log_ir, NULL },
    { "log1p", log1p_ir, NULL }, { "tanh", tanh_ir, NULL },       { "erf", erf_ir, NULL },     { "logistic", logistic_ir, NULL },
    { "sin", sin_ir, NULL },     { "cos", cos_ir, NULL },         { "tan", tan_ir, NULL },     { "rsqrt", rsqrt_ir, NULL },
    { "cbrt", cbrt_ir, NULL },   { "erf_inv", erf_inv_ir, NULL }, { "sign", sign_ir, NULL },   { "round", round_ir, NULL },
    { "floor", floor_ir, NULL }, { "ceil", ceil_ir, NULL },       { "pow", NULL, pow_ir },
};

static const function *find(const char *name)
{
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (!strcmp(functions[i].name, name))
            return &functions[i];
    return NULL;
}

bool mf_ir_has_math(const char *name) { return find(name) != NULL; }

mf_ir_value mf_ir_math(mf_ir *ir, const char *name, mf_ir_value x, mf_ir_value y)
{
    const function *f = find(name);
    at = ir;
    return f->one ? f->one(x) : f->two(x, y);
}

mf_ir_value mf_ir_widen(mf_ir *ir, mf_dtype from, mf_ir_value x)
{
    at = ir;
    mf_ir_value wide = mf_ir_op(ir, "zext <%d x i16> %s to <%d x i32>", W, x, W);
    return from == MF_F16 ? f16_to_f32_ir(wide) : bf16_to_f32_ir(wide);
}

mf_ir_value mf_ir_cut_bf16(mf_ir *ir, mf_ir_value x)
{
    at = ir;
    return mf_ir_op(ir, "trunc <%d x i32> %s to <%d x i16>", W, P_SHR(P_BITS(x), 16), W);
}

mf_ir_value mf_ir_narrow(mf_ir *ir, mf_dtype to, mf_ir_value x)
{
    at = ir;
    mf_ir_value bits = to == MF_F16 ? f32_to_f16_ir(x) : f32_to_bf16_ir(x);
    return mf_ir_op(ir, "trunc <%d x i32> %s to <%d x i16>", W, bits, W);
}
