/* manyfold/transforms.h - transforms of functions: jit, pmap, vmap, grad and the other derivatives,
 * remat, and custom derivative rules.
 *
 * The result of a transform takes the same trees as f; shapes are those of f, with a mapped axis
 * added or removed. All transforms compose, in any nesting. A transform computes nothing by itself:
 * a wrong option or argument is the error of the call. Argument numbers count from 0. Functions are
 * interned, except those that are said to belong to the scope; any thread. Errors: MF_ERROR_SHAPE,
 * MF_ERROR_DTYPE, MF_ERROR_AXIS, MF_ERROR_TREE and MF_ERROR_ARGUMENT, which name the argument.
 * Differences from JAX are stated with the function. */
#ifndef MANYFOLD_TRANSFORMS_H
#define MANYFOLD_TRANSFORMS_H
#ifndef MF_CHECK_HEADERS_
#pragma GCC system_header
#endif

#include <manyfold/function.h>

MF_BEGIN_

/* ---- compiling and mapping */
/* jax.jit. Static arguments are numbers, strings, static bytes or modules, and are compared by
 * value (modules by identity): each new one is traced anew. Donated arguments give their memory to
 * results, and are MF_ERROR_DONATED afterwards. */
typedef struct mf_jit_options {
    mf_ints static_argnums, donate_argnums;
    mf_reserved reserved_;
} mf_jit_options;
mf_function mf_jit_opt(mf_function f, const mf_jit_options *o);
/* jax.pmap: maps f over devices: f of (...) -> (...) becomes a function of (n, ...) -> (n, ...)
 * that runs f once for each row of the mapped arguments, each on a device of its own:
 *     mf_call(mf_pmap(f, "i", .in_axes = mf_axes(0, MF_NONE)), rows, same)
 * in_axes, out_axes: one axis for all arguments or results, or mf_axes(...) with one for each; 0 by
 * default, MF_NONE: not mapped. If no argument is mapped, f runs axis_size times, or once on each
 * of `devices`, or else on every local device. A result with out_axes MF_NONE must not vary over
 * the axis.
 * Over several processes (manyfold/distributed.h) each process passes and gets the rows of its own
 * devices; the axis size, indices and collectives are global. All processes that own one of the
 * devices make the same calls. The axis runs over `devices` in their order, or else over all
 * devices, process by process. A nested map takes consecutive devices, which may belong to several
 * processes, but the part of each process must be a grid: the same inner indices for each of its
 * outer ones. Where a process's rows fit several axis sizes, the largest counts; axis_size selects
 * another.
 * Arguments with MF_NONE are each process's own values, which are not compared, as in JAX. So a
 * result with out_axes MF_NONE is the same in all processes only where it follows from collectives
 * or from arguments that are. mf_check_replicated and mf_set_checks("replicated") compare them. */
typedef struct mf_pmap_options {
    const char *axis_name; /* first, so that mf_pmap(f, "i") reads as in JAX */
    mf_axis in_axes, out_axes;
    mf_ints static_broadcasted_argnums, donate_argnums;
    /* Empty: the first local ones. Of the outermost map only */
    mf_device_list devices;
    /* A platform, or "native" or "reference" of the CPU; NULL: the platform of `devices`, else of
     * the committed arguments, else the default one. All maps of one program use the same */
    const char *backend;
    int64_t axis_size; /* over all processes */
    /* Mapped arguments whose rows are all equal. This is checked (mf_check_replicated), and lets
     * results that follow from them be unmapped. Needs axis_name */
    mf_ints replicated_argnums;
    mf_reserved reserved_;
} mf_pmap_options;
mf_function mf_pmap_opt(mf_function f, const mf_pmap_options *o);
/* jax.vmap: maps f on one device, as operations on arrays with one more dimension. If no argument
 * is mapped, axis_size must be given (MF_ERROR_AXIS). */
typedef struct mf_vmap_options {
    const char *axis_name;
    mf_axis in_axes, out_axes;
    int64_t axis_size;
    mf_reserved reserved_;
} mf_vmap_options;
mf_function mf_vmap_opt(mf_function f, const mf_vmap_options *o);

/* ---- derivatives */
/* jax.grad and jax.value_and_grad: for an f whose result is a real scalar, the gradient with
 * respect to arguments, in their shapes and dtypes; value_and_grad returns (result, gradient).
 *   argnums: the arguments, number 0 by default. One gives a bare gradient, several a tuple.
 *   has_aux: f returns (result, aux); grad returns (gradient, aux), value_and_grad ((result, aux),
 *   gradient).
 *   holomorphic: f is a holomorphic function of complex arguments, and its result is complex.
 *   allow_int: arguments of integers and bools are allowed; their gradients are zeros of their own
 *   dtype, in place of JAX's float0.
 *   states: the gradient with respect to the states (manyfold/state.h) that f reads and the filter
 *   accepts: a dict of dicts by their paths, as from mf_module_values (states outside modules: "0",
 *   "1", ... in the order in which f reads them). With argnums the result is a tuple: the states'
 *   gradients, then the arguments'. States that the filter rejects are constants, so a filter
 *   freezes parameters. As nnx.DiffState and brainstate's grad_states. */
typedef struct mf_grad_options {
    mf_ints argnums;
    bool has_aux, holomorphic, allow_int;
    mf_filter states;
    mf_reserved reserved_;
} mf_grad_options;
mf_function mf_grad_opt(mf_function f, const mf_grad_options *o);
mf_function mf_value_and_grad_opt(mf_function f, const mf_grad_options *o);
/* jax.jacfwd, jax.jacrev and jax.hessian: for an f of (n) -> (m) a function of (n) -> (m, n). The
 * result is f's tree with, in place of each array, the Jacobian with respect to the argument: the
 * argument's tree with, in place of each array, one whose dimensions are the result's, then the
 * argument's. Several argnums (0 by default) give a tuple of such trees. jacfwd pushes forward one
 * tangent for each element of the arguments, jacrev pulls back one cotangent for each element of
 * the result, all batched by vmap; hessian is jacfwd of jacrev. has_aux: f returns (result, aux),
 * the function (Jacobian, aux). MF_ERROR_DTYPE for integers, and for complex numbers unless
 * .holomorphic is set (jacfwd; jacrev takes complex arguments, as grad does); MF_ERROR_SHAPE where
 * a Jacobian would have more than 8 dimensions. */
typedef struct mf_jacobian_options {
    mf_ints argnums;
    bool has_aux, holomorphic;
    mf_reserved reserved_;
} mf_jacobian_options;
mf_function mf_jacfwd_opt(mf_function f, const mf_jacobian_options *o);
mf_function mf_jacrev_opt(mf_function f, const mf_jacobian_options *o);
mf_function mf_hessian_opt(mf_function f, const mf_jacobian_options *o);
/* tuple, tuple -> tuple: jax.jvp: of arguments and a tangent for each, (f's result, its tangent).
 * There is no float0: the tangent of an integer or bool argument may be any array of its shape and
 * is not read, and the tangent of an integer or bool result is zeros. */
mf_value mf_jvp_n(mf_function f, mf_value primals, mf_value tangents);
/* tuple -> tree: jax.vjp: f's result, and in *pullback, which belongs to the scope, a function from
 * a cotangent like the result to a tuple with one cotangent for each argument. has_aux: f returns
 * (result, aux), and so does this. */
typedef struct mf_vjp_options {
    bool has_aux;
    mf_reserved reserved_;
} mf_vjp_options;
mf_value mf_vjp_opt(mf_function f, mf_value primals, mf_function *pullback,
                    const mf_vjp_options *o);
/* tuple -> tree: jax.linearize: f's result, and in *linear, which belongs to the scope, a function
 * from one tangent for each argument to the result's tangent, without computing f again. has_aux: f
 * returns (result, aux), and so does this; *linear returns the result's tangent alone. To transform
 * or jit *linear itself traces it anew at each call; so do pullbacks. */
typedef struct mf_linearize_options {
    bool has_aux;
    mf_reserved reserved_;
} mf_linearize_options;
mf_value mf_linearize_opt(mf_function f, mf_value primals, mf_function *linear,
                          const mf_linearize_options *o);
/* trees -> function: jax.linear_transpose: for a linear f, the function from a cotangent like its
 * result to the tuple of the arguments' cotangents. Only the types of the arguments are used. It
 * belongs to the scope. Its call is MF_ERROR_ARGUMENT where f is not linear, MF_ERROR_DTYPE for
 * integers. */
mf_function mf_linear_transpose_n(mf_function f, const mf_value *arguments, int count);
/* jax.custom_jvp: rule(primals, tangents) takes two tuples and returns (result, its tangent). */
mf_function mf_custom_jvp_n(mf_function f, mf_function rule);
/* jax.custom_vjp: forward(x, ...) returns (result, residuals); backward(residuals, cotangent of the
 * result) returns a tuple with one cotangent for each argument, or for a sole argument the
 * cotangent itself; anything else is MF_ERROR_TREE. None stands for zeros, of an array or of a
 * whole tree. */
mf_function mf_custom_vjp_n(mf_function f, mf_function forward, mf_function backward);

/* ---- rematerialisation */
/* Which values of the forward pass remat saves for the backward pass; all others are computed
 * again. A policy is asked once for each operation while a program is transformed, on any thread.
 * It must always give the same answer, and its context must live as long as the process. */
typedef struct mf_saveable {
    /* The op's name as in mf_program_text, such as "dot_general"; the name that
     * mf_checkpoint_name gave, or NULL */
    const char *op, *name;
    int64_t batch_dimensions, bytes; /* of a dot_general, its batch dimensions; of the results */
} mf_saveable;
/* All zero: save nothing */
typedef struct mf_policy {
    bool (*saves)(const mf_saveable *value, const void *context);
    const void *context;
} mf_policy;
mf_policy mf_nothing_saveable(void);
mf_policy mf_everything_saveable(void);
mf_policy mf_dots_saveable(void);                    /* matrix products */
mf_policy mf_dots_with_no_batch_dims_saveable(void); /* those without batch dimensions */
/* Policies by the names of mf_checkpoint_name: save the values with these names; the named values
 * except these; all values, named or not, except these. The names are copied. */
mf_policy mf_save_only_these_names_n(const char *const *names, int count);
mf_policy mf_save_any_names_but_these_n(const char *const *names, int count);
mf_policy mf_save_anything_except_these_names_n(const char *const *names, int count);
mf_policy mf_save_from_both_policies(mf_policy first,
                                     mf_policy second); /* saves what either does */
/* jax.checkpoint (remat): f, whose intermediate values the backward pass computes again, except
 * those that the policy saves; by default none. prevent_cse_off: common-subexpression elimination
 * may merge what is computed again with the first computation, which is safe inside the body of a
 * scan. static_argnums: as mf_jit's. */
typedef struct mf_remat_options {
    bool prevent_cse_off;
    mf_ints static_argnums;
    mf_policy policy;
    mf_reserved reserved_;
} mf_remat_options;
mf_function mf_remat_opt(mf_function f, const mf_remat_options *o);
/* tree -> tree: unchanged; names its arrays for policies */
mf_value mf_checkpoint_name(mf_value tree, const char *name);
#ifndef __cplusplus
#define MF_NAMES_(...) (const char *const[]){ MF_NUMBERS_(__VA_ARGS__) }, MF_LENGTH_(__VA_ARGS__)
#define mf_save_only_these_names(...) mf_save_only_these_names_n(MF_NAMES_(__VA_ARGS__))
#define mf_save_any_names_but_these(...) mf_save_any_names_but_these_n(MF_NAMES_(__VA_ARGS__))
#define mf_save_anything_except_these_names(...) \
    mf_save_anything_except_these_names_n(MF_NAMES_(__VA_ARGS__))
#endif

MF_END_

#ifdef __cplusplus
template <class... N> inline mf_policy mf_save_only_these_names(N... names)
{
    const char *const v[] = { names... };
    return mf_save_only_these_names_n(v, (int)sizeof...(N));
}
template <class... N> inline mf_policy mf_save_any_names_but_these(N... names)
{
    const char *const v[] = { names... };
    return mf_save_any_names_but_these_n(v, (int)sizeof...(N));
}
template <class... N> inline mf_policy mf_save_anything_except_these_names(N... names)
{
    const char *const v[] = { names... };
    return mf_save_anything_except_these_names_n(v, (int)sizeof...(N));
}
#endif

#include <manyfold/lift/transforms.h>

#endif
