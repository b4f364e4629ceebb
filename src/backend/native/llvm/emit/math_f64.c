/* The elementary functions of f64 as IR: kernels/tile/polynomial64.def by math.inc, like math_ir.c for f32. */
#include "backend/native/llvm/llvm.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define FLOAT      MF_F64
#define FLOAT_C    double
#define REAL       "double"
#define LETTERS    "f64"
#define WORD_DTYPE MF_U64
#define WORD_C     uint64_t
#define WORD       "i64"
#include "backend/native/llvm/emit/math.inc"

#include "backend/native/kernels/tile/polynomial64.def"

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
