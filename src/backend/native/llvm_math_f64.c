/* The elementary functions of f64 as IR: kernels/polynomial64.def with values that are IR text, as llvm_math.c has those of f32. The tile
 * kernels instantiate the same lines with C vectors, so both give the same bits. */
#include "backend/native/llvm.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The emitter at work on this thread: the definitions have no parameter for it. */
static _Thread_local mf_ir *at;

#define W at->width

static mf_ir_value constant_f64(double c) { return mf_ir_splat(at, MF_F64, &c); }

static mf_ir_value constant_u64(uint64_t c) { return mf_ir_splat(at, MF_U64, &c); }

static mf_ir_value float_op(const char *op, mf_ir_value a, mf_ir_value b) { return mf_ir_op(at, "%s <%d x double> %s, %s", op, W, a, b); }
static mf_ir_value int_op(const char *op, mf_ir_value a, mf_ir_value b) { return mf_ir_op(at, "%s <%d x i64> %s, %s", op, W, a, b); }
static mf_ir_value mask_op(const char *op, mf_ir_value a, mf_ir_value b) { return mf_ir_op(at, "%s <%d x i1> %s, %s", op, W, a, b); }

static mf_ir_value fused(mf_ir_value a, mf_ir_value b, mf_ir_value c)
{
    return mf_ir_op(at, "call <%d x double> @llvm.fma.v%df64(<%d x double> %s, <%d x double> %s, <%d x double> %s)", W, W, W, a, W, b, W,
                    c);
}

static mf_ir_value negated_mask(mf_ir_value m)
{
    bool yes = true;
    return mask_op("xor", m, mf_ir_splat(at, MF_BOOL, &yes));
}

/* Lane by lane in C, where a lane asks for it: hardly ever. */
static void rare_lanes(const double *x, double *r, const uint8_t *mask, int64_t n, double (*function)(double))
{
    for (int64_t i = 0; i < n; i++)
        if (mask[i])
            r[i] = function(x[i]);
}

static mf_ir_value rare(mf_ir_value m, mf_ir_value x, mf_ir_value r, double (*function)(double))
{
    return mf_ir_rare(at, MF_F64, (uintptr_t)rare_lanes, m, x, r, (uintptr_t)function);
}

#define P_F                       mf_ir_value
#define P_I                       mf_ir_value
#define P_M                       mf_ir_value
#define P_C(c)                    constant_f64(c)
#define P_IC(c)                   constant_u64((uint64_t)(c))
#define P_ADD(a, b)               float_op("fadd", a, b)
#define P_SUB(a, b)               float_op("fsub", a, b)
#define P_MUL(a, b)               float_op("fmul", a, b)
#define P_DIV(a, b)               float_op("fdiv", a, b)
#define P_FMA(a, b, c)            fused(a, b, c)
#define P_LT(a, b)                float_op("fcmp olt", a, b)
#define P_LE(a, b)                float_op("fcmp ole", a, b)
#define P_EQ(a, b)                float_op("fcmp oeq", a, b)
#define P_IEQ(a, b)               int_op("icmp eq", a, b)
#define P_MOR(a, b)               mask_op("or", a, b)
#define P_MNOT(a)                 negated_mask(a)
#define P_SELECT(m, yes, no)      mf_ir_op(at, "select <%d x i1> %s, <%d x double> %s, <%d x double> %s", W, m, W, yes, W, no)
#define P_BITS(f)                 mf_ir_op(at, "bitcast <%d x double> %s to <%d x i64>", W, f, W)
#define P_FLOAT(i)                mf_ir_op(at, "bitcast <%d x i64> %s to <%d x double>", W, i, W)
#define P_IADD(a, b)              int_op("add", a, b)
#define P_ISUB(a, b)              int_op("sub", a, b)
#define P_AND(a, b)               int_op("and", a, b)
#define P_OR(a, b)                int_op("or", a, b)
#define P_XOR(a, b)               int_op("xor", a, b)
#define P_SHL(i, n)               int_op("shl", i, constant_u64(n))
#define P_SHR(i, n)               int_op("lshr", i, constant_u64(n))
#define P_RARE(m, x, r, function) rare(m, x, r, function)
#define P_CALL1(name, x)          name##_ir(x)
#define P_FUNCTION1(name)         static mf_ir_value name##_ir(mf_ir_value x)

#include "backend/native/kernels/polynomial64.def"

static const struct {
    const char *name;
    mf_ir_value (*emit)(mf_ir_value x);
} functions[] = {
    { "exp", exp_ir },   { "exp2", exp2_ir },         { "expm1", expm1_ir }, { "log", log_ir }, { "log1p", log1p_ir },
    { "tanh", tanh_ir }, { "logistic", logistic_ir }, { "erf", erf_ir },     { "sin", sin_ir }, { "cos", cos_ir },
};

static int find(const char *name)
{
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (!strcmp(functions[i].name, name))
            return (int)i;
    return -1;
}

bool mf_ir_has_math_f64(const char *name) { return find(name) >= 0; }

mf_ir_value mf_ir_math_f64(mf_ir *ir, const char *name, mf_ir_value x)
{
    at = ir;
    return functions[find(name)].emit(x);
}
