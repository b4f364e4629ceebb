/* Shared by the elementwise families: evaluation loops over every dtype, type rules by kind of dtype, short forms for ops and rules.
 * Invariant of the loops: f64 is computed in double; f32, f16 and bf16 are computed exactly or in double, rounded to f32, and f16 and bf16
 * from there (one rounding after each op). Integers are widened to 64 bits, computed there and truncated, so they wrap and no rule depends
 * on a width. */
#ifndef MF_OPS_ELEMENTWISE_LOOPS_H
#define MF_OPS_ELEMENTWISE_LOOPS_H

#include "ops/emit.h"

#include <complex.h>
#undef I /* complex.h defines it as a macro */

/* One function per kind of number; NULL where the op is not defined (its type rule has refused that kind). */
typedef struct mf_loop1 {
    double (*real)(double x);
    int64_t (*integer)(int64_t x);
    uint64_t (*natural)(uint64_t x); /* unsigned integers, and bool as 0 and 1 */
    float (*single)(float x);        /* used instead of `real` for f32, f16 and bf16; may be NULL */
} mf_loop1;
typedef struct mf_loop2 {
    double (*real)(double x, double y);
    int64_t (*integer)(int64_t x, int64_t y);
    uint64_t (*natural)(uint64_t x, uint64_t y);
    float (*single)(float x, float y);
} mf_loop2;
typedef struct mf_loop_compare {
    bool (*real)(double x, double y);
    bool (*integer)(int64_t x, int64_t y);
    bool (*natural)(uint64_t x, uint64_t y);
} mf_loop_compare;
/* Complex numbers, computed in double and rounded once. */
typedef double complex (*mf_complex1)(double complex x);
typedef double complex (*mf_complex2)(double complex x, double complex y);
void mf_run_complex1(mf_complex1 rule, mf_dtype dtype, int64_t count, const void *x, void *out);
void mf_run_complex2(mf_complex2 rule, mf_dtype dtype, int64_t count, const void *x, const void *y, void *out);
void mf_run_loop1(const mf_loop1 *rule, mf_dtype dtype, int64_t count, const void *x, void *out);
void mf_run_loop2(const mf_loop2 *rule, mf_dtype dtype, int64_t count, const void *x, const void *y, void *out);
void mf_run_compare(const mf_loop_compare *rule, mf_dtype dtype, int64_t count, const void *x, const void *y, void *out);

/* IEEE 754's maximum and minimum: a NaN wins, and 0 is greater than -0. */
double mf_greater_real(double x, double y);
double mf_lesser_real(double x, double y);
float mf_greater_single(float x, float y);
float mf_lesser_single(float x, float y);
/* Complex numbers in JAX's order: by real part, then by imaginary part. If two cannot be compared, the second is the result. */
bool mf_less_pair(const double x[2], const double y[2]);
double complex mf_greater_complex(double complex x, double complex y);
double complex mf_lesser_complex(double complex x, double complex y);
uint64_t mf_power_natural(uint64_t x, uint64_t y); /* x to the y, wrapping */

/* ---- type rules: operands of one type, of a dtype for which the op is defined */
mf_error_object *mf_type_float1(mf_type_context *c);  /* one operand: f16 bf16 f32 f64 */
mf_error_object *mf_type_float2(mf_type_context *c);  /* two operands of one type */
mf_error_object *mf_type_number1(mf_type_context *c); /* floats and integers */
mf_error_object *mf_type_number2(mf_type_context *c);
mf_error_object *mf_type_inexact1(mf_type_context *c); /* floats and complex numbers */
mf_error_object *mf_type_numeric1(mf_type_context *c); /* floats, integers and complex numbers */
mf_error_object *mf_type_numeric2(mf_type_context *c);
mf_error_object *mf_type_ordered2(mf_type_context *c); /* floats, integers, complex numbers, bool */
mf_error_object *mf_type_logical1(mf_type_context *c); /* integers, bool */
mf_error_object *mf_type_logical2(mf_type_context *c);
mf_error_object *mf_type_integer2(mf_type_context *c);
mf_error_object *mf_check_operands(const mf_type_context *c, int count); /* checks the number of operands */

/* ---- ops: the fields that all elementwise ops share */
#define MF_ELEMENTWISE_ROW                                                                                                          \
    .flags = MF_OP_ELEMENTWISE, .partial_eval = mf_partial_eval_all_or_nothing, .dce = mf_dce_whole, .batch = mf_batch_elementwise, \
    .variance = mf_variance_join

/* ---- the heads of rules */
#define MF_JVP_RULE(name) \
    static void name(mf_builder *b, const mf_eqn *e, mf_variable *const *in, mf_variable *const *tin, mf_variable **out, mf_variable **tout)
#define MF_TRANSPOSE_RULE(name)                                                                                          \
    static void name(mf_builder *b, const mf_eqn *e, const bool *linear, mf_variable *const *in, mf_variable *const *ct, \
                     mf_variable **ct_in)
#define MF_BATCH_RULE(name) \
    static void name(mf_batch_context *c, const mf_eqn *e, mf_variable *const *in, const int *in_axis, mf_variable **out, int *out_axis)
#define MF_LOWER_RULE(name)    static mf_kernel_value name(mf_kernel_builder *k, const mf_eqn *e, const mf_kernel_value *in)
#define MF_EVALUATE_RULE(name) static mf_error_object *name(const mf_eqn *e, const void *const *in, void *const *out)

/* Defines the evaluation of an op by one of the loops; the arguments initialise the rule. */
#define MF_EVALUATE1(name, ...)                                                            \
    MF_EVALUATE_RULE(name)                                                                 \
    {                                                                                      \
        static const mf_loop1 rule = { __VA_ARGS__ };                                      \
        mf_run_loop1(&rule, e->out[0]->type->dtype, e->out[0]->type->size, in[0], out[0]); \
        return NULL;                                                                       \
    }
/* The same, with a function of its own for complex numbers. */
#define MF_EVALUATE1_COMPLEX(name, of_complex, ...)                        \
    MF_EVALUATE_RULE(name)                                                 \
    {                                                                      \
        static const mf_loop1 rule = { __VA_ARGS__ };                      \
        const mf_type *t = e->out[0]->type;                                \
        if (mf_dtype_is_complex(t->dtype))                                 \
            mf_run_complex1(of_complex, t->dtype, t->size, in[0], out[0]); \
        else                                                               \
            mf_run_loop1(&rule, t->dtype, t->size, in[0], out[0]);         \
        return NULL;                                                       \
    }
#define MF_EVALUATE2_COMPLEX(name, of_complex, ...)                               \
    MF_EVALUATE_RULE(name)                                                        \
    {                                                                             \
        static const mf_loop2 rule = { __VA_ARGS__ };                             \
        const mf_type *t = e->out[0]->type;                                       \
        if (mf_dtype_is_complex(t->dtype))                                        \
            mf_run_complex2(of_complex, t->dtype, t->size, in[0], in[1], out[0]); \
        else                                                                      \
            mf_run_loop2(&rule, t->dtype, t->size, in[0], in[1], out[0]);         \
        return NULL;                                                              \
    }
#define MF_EVALUATE2(name, ...)                                                                   \
    MF_EVALUATE_RULE(name)                                                                        \
    {                                                                                             \
        static const mf_loop2 rule = { __VA_ARGS__ };                                             \
        mf_run_loop2(&rule, e->out[0]->type->dtype, e->out[0]->type->size, in[0], in[1], out[0]); \
        return NULL;                                                                              \
    }

#endif
