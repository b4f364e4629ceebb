/* The emitter interface for an op's .lower: one abstract vector value per operand, in the dtype in which the op computes. The native engine
 * fills in this table, so a lowering does not depend on LLVM. The engine passes f16 and bf16 values as f32 and rounds them after each op. A
 * bool is a value of its own kind (a mask). */
#ifndef MF_IR_KERNEL_H
#define MF_IR_KERNEL_H

#include "ir/op.h"

struct mf_kernel_builder {
    /* float and integer arithmetic in the dtype of the operands; integers wrap, division and shifts as JAX defines them */
    mf_kernel_value (*add)(mf_kernel_builder *k, mf_kernel_value a, mf_kernel_value b);
    mf_kernel_value (*sub)(mf_kernel_builder *k, mf_kernel_value a, mf_kernel_value b);
    mf_kernel_value (*mul)(mf_kernel_builder *k, mf_kernel_value a, mf_kernel_value b);
    mf_kernel_value (*div)(mf_kernel_builder *k, mf_kernel_value a, mf_kernel_value b);
    mf_kernel_value (*constant)(mf_kernel_builder *k, mf_dtype dtype, double x);
    /* compare: "eq" "ne" "lt" "le" "gt" "ge" give a mask; select(mask, yes, no) */
    mf_kernel_value (*compare)(mf_kernel_builder *k, const char *how, mf_kernel_value a, mf_kernel_value b);
    mf_kernel_value (*select)(mf_kernel_builder *k, mf_kernel_value mask, mf_kernel_value yes, mf_kernel_value no);
    mf_kernel_value (*convert)(mf_kernel_builder *k, mf_dtype to, mf_kernel_value a);
    mf_kernel_value (*bitcast)(mf_kernel_builder *k, mf_dtype to, mf_kernel_value a);
    /* a named function of the engine: "exp" "log" "log1p" "expm1" "tanh" "logistic" "erf" "sin" "cos" "tan" "sqrt" "rsqrt" "cbrt" "pow"
     * "floor" "ceil" "round" "abs" "neg" "sign" "max" "min" (NaN-propagating) "rem" "and" "or" "xor" "not" "shl" "shr_logical"
     * "shr_arithmetic" "is_finite" "atan2" */
    mf_kernel_value (*call)(mf_kernel_builder *k, const char *name, const mf_kernel_value *in, int count);
};
/* For ops whose lowering is a call of the function of their own name. */
mf_kernel_value mf_lower_by_name(mf_kernel_builder *k, const mf_eqn *e, const mf_kernel_value *in);

#endif
