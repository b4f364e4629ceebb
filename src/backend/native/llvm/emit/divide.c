/* Division by a loop-invariant number: multiplies by its reciprocal and corrects the quotient with the remainder. AVX-512 divides 16 floats
 * in 10 cycles, and this takes 5. Invariant: the bits are those of the division.
 * With r the reciprocal rounded to nearest, and q any quotient that is less than one unit off, q + r (x - q y) in fused operations is x
 * / y rounded to nearest (Markstein's theorem), as long as nothing leaves the range of normal numbers. x r may be more than a unit off,
 * so the first step makes a quotient that satisfies the theorem, and the second step applies it. If a lane is outside the safe range,
 * all lanes are divided; zeros are safe, and keep their sign because the divisor is positive. */
#include "backend/native/llvm/llvm.h"

#include "backend/native/kernels/kernels.h"

#include <string.h>

enum {
    BIAS = 127,
    MANTISSA = 23,
    FAR = 100,
    NEAR = 20
}; /* 2^-FAR <= |x| < 2^FAR, 2^-NEAR <= y < 2^NEAR: quotients and remainders are normal */

static uint32_t power_bits(int exponent) { return (uint32_t)(BIAS + exponent) << MANTISSA; }

bool mf_ir_is_divisor(const mf_group *g, int node)
{
    if (!mf_kernels_avx512())
        return false;
    for (int i = 0; i < g->count; i++) {
        const mf_node *x = &g->nodes[i];
        if (x->kind == MF_NODE_CALL && x->dtype == MF_F32 && x->in_count == 2 && x->in[1] == node && !strcmp(x->name, "div"))
            return true;
    }
    return false;
}

mf_ir_divisor mf_ir_divisor_of(mf_ir *ir, mf_ir_value y)
{
    mf_ir_value above = mf_ir_op(ir, "sub i32 %s, %u", mf_ir_op(ir, "bitcast float %s to i32", y), power_bits(-NEAR));
    mf_ir_value usual = mf_ir_op(ir, "icmp ult i32 %s, %u", above, power_bits(NEAR) - power_bits(-NEAR)); /* false for negative divisors */
    return (mf_ir_divisor){
        .value = y,
        .reciprocal = mf_ir_op(ir, "fdiv float 1.0, %s", y),
        .span = mf_ir_op(ir, "select i1 %s, i32 %u, i32 0", usual, 2 * (power_bits(FAR) - power_bits(-FAR))),
        .zero = mf_ir_op(ir, "select i1 %s, i32 0, i32 1", usual),
    };
}

static mf_ir_value fused(mf_ir *ir, mf_ir_value a, mf_ir_value b, mf_ir_value c)
{
    int w = ir->width;
    return mf_ir_op(ir, "call <%d x float> @llvm.fma.v%df32(<%d x float> %s, <%d x float> %s, <%d x float> %s)", w, w, w, a, w, b, w, c);
}

static mf_ir_value negated(mf_ir *ir, mf_ir_value a) { return mf_ir_op(ir, "fneg <%d x float> %s", ir->width, a); }

/* Whether a lane of x, or the divisor, is out of range; doubling x's bits drops the sign. */
static mf_ir_value is_rare(mf_ir *ir, mf_ir_value x, const mf_ir_divisor *d)
{
    int w = ir->width;
    mf_ir_value bits = mf_ir_op(ir, "bitcast <%d x float> %s to <%d x i32>", w, x, w);
    mf_ir_value twice = mf_ir_op(ir, "add <%d x i32> %s, %s", w, bits, bits);
    mf_ir_value above = mf_ir_op(ir, "sub <%d x i32> %s, %s", w, twice, mf_ir_splat(ir, MF_U32, &(uint32_t){ 2 * power_bits(-FAR) }));
    mf_ir_value far = mf_ir_op(ir, "icmp uge <%d x i32> %s, %s", w, above, mf_ir_broadcast(ir, "i32", d->span));
    mf_ir_value some = mf_ir_op(ir, "icmp ne <%d x i32> %s, %s", w, twice, mf_ir_broadcast(ir, "i32", d->zero));
    return mf_ir_op(ir, "call i1 @llvm.vector.reduce.or.v%di1(<%d x i1> %s)", w, w, mf_ir_op(ir, "and <%d x i1> %s, %s", w, far, some));
}

mf_ir_value mf_ir_divide(mf_ir *ir, mf_ir_value x, const mf_ir_divisor *d)
{
    int w = ir->width, n = ir->next++;
    mf_ir_value y = mf_ir_broadcast(ir, "float", d->value), r = mf_ir_broadcast(ir, "float", d->reciprocal);
    mf_ir_value q = mf_ir_op(ir, "fmul <%d x float> %s, %s", w, x, r), minus = negated(ir, x);
    for (int round = 0; round < 2; round++)
        q = fused(ir, negated(ir, fused(ir, y, q, minus)), r, q);
    mf_ir_value rare = is_rare(ir, x, d), before = mf_ir_format(ir, "%s", ir->label);
    mf_ir_line(ir, "br i1 %s, label %%divide%d, label %%divided%d", rare, n, n);
    mf_ir_label(ir, mf_ir_format(ir, "divide%d", n));
    mf_ir_value slow = mf_ir_op(ir, "fdiv <%d x float> %s, %s", w, x, y);
    mf_ir_line(ir, "br label %%divided%d", n);
    mf_ir_label(ir, mf_ir_format(ir, "divided%d", n));
    return mf_ir_op(ir, "phi <%d x float> [ %s, %%%s ], [ %s, %%divide%d ]", w, q, before, slow, n);
}
