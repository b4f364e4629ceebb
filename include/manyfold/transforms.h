/* manyfold/transforms.h - from function to function: jit, pmap, vmap, grad and the other
 * derivatives, remat, and rules of one's own.
 *
 * What a transform gives takes trees as f does; shapes are those of f, with a mapped axis more or
 * less. All compose, in any nesting. A transform itself computes nothing: what does not fit is the
 * result of the call. Functions are interned, but those that are said to belong to the scope; any
 * thread. Errors: MF_ERROR_SHAPE, MF_ERROR_DTYPE, MF_ERROR_AXIS, MF_ERROR_TREE and
 * MF_ERROR_ARGUMENT name the argument. Differences from JAX stand at the function. */
#ifndef MANYFOLD_TRANSFORMS_H
#define MANYFOLD_TRANSFORMS_H
#ifndef MF_CHECK_HEADERS_
#pragma GCC system_header
#endif

#include <manyfold/function.h>

MF_BEGIN_

/* ---- compiling and mapping */
/* jax.jit. Static arguments are compared by value; donated ones give their memory to results. */
typedef struct mf_jit_options {
    mf_ints static_argnums, donate_argnums;
    mf_reserved reserved_;
} mf_jit_options;
mf_function mf_jit_opt(mf_function f, const mf_jit_options *o);
/* jax.pmap: of an f from (...) to (...) a function from (n, ...) to (n, ...): f runs once for each
 * row of the mapped arguments, each on a device of its own.
 * in_axes and out_axes: an axis for all, or mf_axes of one an argument, MF_NONE where nothing is
 * mapped; where no argument is, f runs .axis_size times, else on all .devices, else on every
 * local device. What does not fit is the result of the call.
 * Over several processes mapped arguments and results have a row for each index whose devices are
 * this process's; the size, indices and collectives are global, MF_NONE is each process's own
 * value, and all processes that have one of the devices make the same calls. Nobody compares
 * those values: a result of out_axes MF_NONE is the same everywhere as far as it follows from
 * collectives, and where it follows from arguments with MF_NONE that differ it is each process's
 * own, as in JAX; mf_check_replicated and mf_set_checks("replicated") compare them. The axis goes
 * over .devices in their order, else over all devices process by process; a map inside takes
 * consecutive ones, of several processes too where an index of the outer map has such, but what a
 * process has must be a grid: of each outer index the same inner ones.
 * Where rows fit several sizes of such an axis the greatest counts; .axis_size says another. */
typedef struct mf_pmap_options {
    const char *axis_name; /* first, so that mf_pmap(f, "i") reads as in JAX */
    mf_axis in_axes, out_axes;
    mf_ints static_broadcasted_argnums, donate_argnums;
    /* none: the first local ones. Of the outermost map alone */
    mf_device_list devices;
    /* A platform, or of the CPU "native" or "reference"; NULL: that of devices, else of the
     * arguments that were put somewhere, else the default. The maps of one program name one */
    const char *backend;
    int64_t axis_size; /* over all processes */
    /* Mapped arguments whose rows are all equal: declared so, and checked (mf_check_replicated).
     * Needs axis_name */
    mf_ints replicated_argnums;
    mf_reserved reserved_;
} mf_pmap_options;
mf_function mf_pmap_opt(mf_function f, const mf_pmap_options *o);
/* jax.vmap: the same on one device, as operations on arrays with one more dimension. */
typedef struct mf_vmap_options {
    const char *axis_name;
    mf_axis in_axes, out_axes;
    int64_t axis_size;
    mf_reserved reserved_;
} mf_vmap_options;
mf_function mf_vmap_opt(mf_function f, const mf_vmap_options *o);

/* ---- derivatives */
/* jax.grad and value_and_grad: of an f whose result is a float scalar, the gradient by arguments,
 * of their shapes and dtypes. One argnum gives a bare gradient, several a tuple. has_aux: f gives
 * (result, aux). allow_int: arguments of integers and bools
 * may be named too; their gradients are zeros of their own type, in place of JAX's float0.
 * states: gradients with respect to the states that f reads and the filter accepts, a dict of
 * dicts by their paths as mf_module_values gives (in no module: by "0", "1", ... as f reads
 * them); with argnums a tuple of those and the arguments' (nnx.DiffState, brainstate's
 * grad_states). What the filter leaves out stays as it is: freezing is a filter. */
typedef struct mf_grad_options {
    mf_ints argnums;
    bool has_aux, holomorphic, allow_int;
    mf_filter states;
    mf_reserved reserved_;
} mf_grad_options;
mf_function mf_grad_opt(mf_function f, const mf_grad_options *o);
mf_function mf_value_and_grad_opt(mf_function f, const mf_grad_options *o);
/* jax.jacfwd, jax.jacrev, jax.hessian: of an f from (n) to (m) a function from (n) to (m, n): f's
 * result with, in place of each array, the Jacobian by the argument: its tree, with in place of
 * each array one of the result's dimensions, then the argument's. With several argnums a tuple of
 * such trees. jacfwd runs once for each element of the arguments, jacrev for each of the result,
 * batched; the Hessian is jacfwd of jacrev. has_aux: f gives (result, aux), the function
 * (Jacobian, aux). MF_ERROR_DTYPE for integers, for complex numbers unless .holomorphic says that
 * f is (jacfwd; jacrev takes complex arguments, as grad does); MF_ERROR_SHAPE where a Jacobian's
 * rank would be above 8. */
typedef struct mf_jacobian_options {
    mf_ints argnums;
    bool has_aux, holomorphic;
    mf_reserved reserved_;
} mf_jacobian_options;
mf_function mf_jacfwd_opt(mf_function f, const mf_jacobian_options *o);
mf_function mf_jacrev_opt(mf_function f, const mf_jacobian_options *o);
mf_function mf_hessian_opt(mf_function f, const mf_jacobian_options *o);
/* tuple, tuple -> tuple: jax.jvp: of the arguments and a tangent for each, (out, tangent out). There
 * is no float0: the tangent of integers and bools is any array of their shape, which is not read,
 * and that of such a result is zeros. */
mf_value mf_jvp_n(mf_function f, mf_value primals, mf_value tangents);
/* tuple -> tree: jax.vjp: f of the arguments; *pullback, which belongs to the scope, takes a
 * cotangent like out and gives a tuple of one an argument. has_aux: f gives (out, aux), and so
 * does this. */
typedef struct mf_vjp_options {
    bool has_aux;
    mf_reserved reserved_;
} mf_vjp_options;
mf_value mf_vjp_opt(mf_function f, mf_value primals, mf_function *pullback,
                    const mf_vjp_options *o);
/* tuple -> tree: jax.linearize: f of the arguments; *linear, which belongs to the scope, takes
 * tangents, one an argument, and gives the result's without computing f again. has_aux: f gives
 * (result, aux); *linear gives the result's alone. Transformed or jitted by itself it is traced
 * anew at each call, as pullbacks are. */
typedef struct mf_linearize_options {
    bool has_aux;
    mf_reserved reserved_;
} mf_linearize_options;
mf_value mf_linearize_opt(mf_function f, mf_value primals, mf_function *linear,
                          const mf_linearize_options *o);
/* trees -> function: jax.linear_transpose: of a linear f, whose arguments serve for their types
 * alone, the function from a cotangent, a tree like the result, to the tuple of the arguments'. It
 * belongs to the scope. MF_ERROR_ARGUMENT from its first call where f is not linear,
 * MF_ERROR_DTYPE for integers. */
mf_function mf_linear_transpose_n(mf_function f, const mf_value *arguments, int count);
/* jax.custom_jvp: rule(primals, tangents), two tuples, gives (out, tangent out). */
mf_function mf_custom_jvp_n(mf_function f, mf_function rule);
/* jax.custom_vjp: forward(x, ...) gives (out, residuals); backward(residuals, cotangent of out) a
 * tuple of one cotangent an argument (MF_ERROR_TREE), or of a sole argument the cotangent itself;
 * None stands for zeros, of an array or of a whole tree. */
mf_function mf_custom_vjp_n(mf_function f, mf_function forward, mf_function backward);

/* ---- rematerialisation */
/* What remat keeps of a forward pass for the backward pass; everything else is computed again. A
 * policy is asked once an operation, while programs are transformed, on any thread; it must
 * answer the same each time, and context must live as long as the process. */
typedef struct mf_saveable {
    /* As in mf_program_text: "dot_general"; of mf_checkpoint_name the name, else NULL */
    const char *op, *name;
    int64_t batch_dimensions, bytes; /* of a dot_general; of the results */
} mf_saveable;
/* All zero: nothing is kept */
typedef struct mf_policy {
    bool (*saves)(const mf_saveable *value, const void *context);
    const void *context;
} mf_policy;
mf_policy mf_nothing_saveable(void);
mf_policy mf_everything_saveable(void);
mf_policy mf_dots_saveable(void);
mf_policy mf_dots_with_no_batch_dims_saveable(void);
/* By the names of mf_checkpoint_name: those; the named values but those; all values, named or
 * not, but those. */
mf_policy mf_save_only_these_names_n(const char *const *names, int count);
mf_policy mf_save_any_names_but_these_n(const char *const *names, int count);
mf_policy mf_save_anything_except_these_names_n(const char *const *names, int count);
mf_policy mf_save_from_both_policies(mf_policy first, mf_policy second); /* what either keeps */
/* jax.checkpoint. prevent_cse_off: what is computed again may be merged with what was computed
 * first (in the body of a scan nothing could be). */
typedef struct mf_remat_options {
    bool prevent_cse_off;
    mf_ints static_argnums;
    mf_policy policy;
    mf_reserved reserved_;
} mf_remat_options;
mf_function mf_remat_opt(mf_function f, const mf_remat_options *o);
/* tree -> tree: as it is, its arrays named for policies */
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
