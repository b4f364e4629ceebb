/* Transforms: each maps a program to a program, so each is tested on text. All take the axis environment in which the program was traced,
 * return a new program (one reference) or NULL with *error, and leave their input unchanged. */
#ifndef MF_TRANSFORM_TRANSFORM_H
#define MF_TRANSFORM_TRANSFORM_H

#include "ir/op.h"

/* Forward mode. Inputs of the result: p's inputs, then a tangent for each input with has_tangent[i]. Outputs: p's outputs, then a tangent
 * for each output with out_tangent[o]. out_tangent is read and written: where it is true on entry the tangent is given even when it is zero
 * (instantiated); on return it says which tangents are there. Integer and bool outputs never have one. */
mf_program *mf_jvp_program(const mf_program *p, const mf_axis_env *env, const bool *has_tangent, bool *out_tangent,
                           mf_error_object **error);

/* Partial evaluation. known_in[i] tells which inputs are known. known: inputs are the known ones in order; outputs the known outputs in
 * order, then the residuals. unknown: inputs are the residuals, then the unknown inputs; outputs the unknown outputs in order. known_out is
 * set on return: which outputs are known. Where force_unknown[o] (may be NULL), the unknown program gives the output even if it is
 * known. */
typedef struct mf_partial_result {
    mf_program *known, *unknown;
    int residual_count;
} mf_partial_result;
bool mf_partial_eval_program(const mf_program *p, const mf_axis_env *env, const bool *known_in, const bool *force_unknown, bool *known_out,
                             mf_partial_result *result, mf_error_object **error);

/* Transposes p, linear in the inputs with linear[i]. Inputs of the result: the other inputs in order, then a cotangent for each
 * output with has_ct[o]. Outputs: a cotangent for each linear input with out_ct[i]; out_ct is read and written like out_tangent
 * (true on entry: instantiate zeros). Indices of linear and out_ct are input positions of p. */
mf_program *mf_transpose_program(const mf_program *p, const mf_axis_env *env, const bool *linear, const bool *has_ct, bool *out_ct,
                                 mf_error_object **error);

/* Where the batch dimension of an output should be: at an axis (moved there, or broadcast if the output is not batched), or one of
 * these. */
enum {
    MF_BATCH_NONE = -1,     /* the output must not be batched, else an error names it */
    MF_BATCH_ANYWHERE = -2, /* anywhere */
    MF_BATCH_FIRST = -3     /* at 0 if it is batched */
};
/* Batching. in_axis[i]: the mapped axis of input i, MF_BATCH_NONE = not mapped. out_axis is read and written: on return, where the batch
 * dimension is. env is the environment outside the map. */
mf_program *mf_batch_program(const mf_program *p, const mf_axis_env *env, const char *axis_name, int64_t size, const int *in_axis,
                             int *out_axis, mf_error_object **error);

/* Reverse mode: value and gradients. p's first output is the scalar to differentiate, the others are auxiliary and passed on. The result
 * takes p's inputs and gives p's outputs, then the gradient for each input with wrt[i] (zeros instantiated). */
mf_program *mf_grad_program(const mf_program *p, const mf_axis_env *env, const bool *wrt, mf_error_object **error);

/* vjp in two programs: forward gives p's outputs, then residuals; backward takes residuals, then a cotangent for each inexact output in
 * order, and gives a cotangent for each inexact one of the first `arguments` inputs in order (zeros instantiated). The other inputs are
 * captured values, by which nothing is differentiated. Cotangents of outputs with auxiliary[o] (which may be NULL) are ignored. */
bool mf_vjp_program(const mf_program *p, const mf_axis_env *env, int arguments, const bool *auxiliary, mf_program **forward,
                    mf_program **backward, int *residuals, mf_error_object **error);

/* The same without transposing: linear takes residuals, then a tangent for each input with wrt[i], and gives a tangent for each output with
 * gives[o], which is read and written like out_tangent, except that zeros are not instantiated. */
bool mf_linearize_program(const mf_program *p, const mf_axis_env *env, const bool *wrt, bool *gives, mf_program **forward,
                          mf_program **linear, int *residuals, mf_error_object **error);

const mf_type *mf_tangent_type(const mf_type *t); /* NULL for types without tangents (integers, bool) */

#endif
