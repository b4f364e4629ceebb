/* manyfold/lax.h - what is made of the transforms: Jacobians, linear maps, and functions along
 * an axis.
 *
 * All of it may stand in jitted, mapped and differentiated functions, and takes such functions. */
#ifndef MANYFOLD_LAX_H
#define MANYFOLD_LAX_H
#ifndef MF_CHECK_HEADERS_
#pragma GCC system_header
#endif

#include <manyfold/function.h>

MF_BEGIN_

/* jax.jacfwd, jax.jacrev, jax.hessian: a function of f's arguments that gives f's result with,
 * in place of each array, the Jacobian by the argument: its tree, with in place of each array
 * one of the result's dimensions, then the argument's. With several argnums a tuple of such
 * trees. jacfwd runs once for each element of the arguments, jacrev for each of the result,
 * batched; the Hessian is jacfwd of jacrev. has_aux: f gives (result, aux), the function
 * (Jacobian, aux). MF_ERROR_DTYPE for integers, for complex numbers unless .holomorphic says
 * that f is (jacfwd; jacrev takes complex arguments, as grad does); MF_ERROR_SHAPE where a
 * Jacobian's rank would be above 8. */
typedef struct mf_jacobian_options {
    mf_ints argnums;
    bool has_aux, holomorphic;
    mf_reserved reserved_;
} mf_jacobian_options;
mf_function mf_jacfwd_opt(mf_function f, const mf_jacobian_options *o);
mf_function mf_jacrev_opt(mf_function f, const mf_jacobian_options *o);
mf_function mf_hessian_opt(mf_function f, const mf_jacobian_options *o);
/* jax.linearize: f(primals), a tuple of the arguments; *linear takes tangents, one an argument,
 * and gives the result's without computing f again. jax.linear_transpose: of a linear f, whose
 * arguments serve for their types alone, the function from a cotangent, a tree like the result,
 * to the tuple of the arguments'; MF_ERROR_ARGUMENT from its first call where f is not linear,
 * MF_ERROR_DTYPE for integers. Both functions belong to the scope. Transformed or jitted by
 * themselves they are traced anew at each call, as pullbacks are. */
/* has_aux: f gives (result, aux); *linear gives the result's alone */
typedef struct mf_linearize_options {
    bool has_aux;
    mf_reserved reserved_;
} mf_linearize_options;
mf_value mf_linearize_opt(mf_function f, mf_value primals, mf_function *linear,
                          const mf_linearize_options *o);
mf_function mf_linear_transpose_n(mf_function f, const mf_value *arguments, int count);
/* lax.map: f of each slice along axis 0 of xs, one after the other, stacked again; .batch_size:
 * so many at a time, vmapped. */
typedef struct mf_map_options {
    int64_t batch_size;
    mf_reserved reserved_;
} mf_map_options;
mf_value mf_map_opt(mf_function f, mf_value xs, const mf_map_options *o);
/* lax.associative_scan: along the axis the combinations of all elements so far, in about 2
 * log2(n) steps that f(a, b) takes as a whole: a and b are trees like elems with many elements
 * along the axis, so f works elementwise over it. .reverse: from the end. */
typedef struct mf_associative_scan_options {
    bool reverse;
    int axis;
    mf_reserved reserved_;
} mf_associative_scan_options;
mf_value mf_associative_scan_opt(mf_function f, mf_value elems,
                                 const mf_associative_scan_options *o);

MF_END_

#include <manyfold/lift/lax.h>

#endif
