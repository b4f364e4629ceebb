/* manyfold/function.h - functions as values: C functions, closures, and the transforms jit,
 * grad, vmap, pmap, with control flow. */
#ifndef MANYFOLD_FUNCTION_H
#define MANYFOLD_FUNCTION_H
#ifndef MF_CHECK_HEADERS_
#pragma GCC system_header
#endif

#include <manyfold/arity.h>
#include <manyfold/tree.h>

MF_BEGIN_

/* ------------------------------------------------------------------ functions */
/* A transform of one's own: a function of any number of arguments, traced and compiled as
 * call(context, f, arguments, count), which calls f. The context's bytes are copied; with call
 * and f they are its identity, as a closure's are. name, or NULL, in messages: "name(f)". */
typedef mf_value (*mf_decorator)(const void *context, mf_function f, const mf_value *arguments,
                                 int count);
mf_function mf_decorate_n(mf_function f, const char *name, mf_decorator call, const void *context,
                          size_t size);
mf_function mf_partial_n(mf_function f, const mf_value *first, int count);
mf_value mf_call_n(mf_function f, const mf_value *arguments, int count);

#ifndef __cplusplus
/* clang-format off */
#define mf_fn(f) __extension__ ({ \
    __auto_type mf_t_ = (f); \
    _Static_assert(MF_IS_(mf_t_, MF_FUNCTIONS_), \
                   "this is no mf_function, no mf_module and no C function that takes " \
                   "up to 16 mf_values and gives one"); \
    _Generic(mf_t_, MF_FUNCTIONS_, default: (mf_no_function_)0)(mf_t_); })
/* clang-format on */
/* A function whose first parameter is void *context. The context's bytes are copied; the
 * identity, and with it the cache, is the function and those bytes. Pointers inside compare as
 * pointers, and what they point to must not change. Padding between members counts: a struct
 * that has some is traced anew when the padding differs, so leave none, or memset the struct to
 * 0 before its members are set. */
/* clang-format off */
#define mf_closure(f, ...) __extension__ ({ \
    _Static_assert(MF_IS_(f, MF_CLOSURES_), \
                   "a closure's C function takes a void * (its context), then up to 16 " \
                   "mf_values, and gives an mf_value"); \
    _Generic((f), MF_CLOSURES_, default: (mf_no_function_)0)(f, __VA_ARGS__, sizeof *(__VA_ARGS__)); })
/* clang-format on */
#define mf_decorate(f, name, call, ...) \
    mf_decorate_n(mf_fn(f), name, call, __VA_ARGS__, sizeof *(__VA_ARGS__))
#endif

/* jax.pmap: f runs once for each row of the mapped arguments, each on a device of its own.
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
/* jax.vmap: the same on one device, as operations on arrays with one more dimension. */
typedef struct mf_vmap_options {
    const char *axis_name;
    mf_axis in_axes, out_axes;
    int64_t axis_size;
    mf_reserved reserved_;
} mf_vmap_options;
typedef struct mf_jit_options {
    mf_ints static_argnums, donate_argnums;
    mf_reserved reserved_;
} mf_jit_options;
/* One argnum gives a bare gradient, several a tuple. allow_int: arguments of integers and bools
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
/* The tree as it is, its arrays named for policies */
mf_value mf_checkpoint_name(mf_value tree, const char *name);
/* The tree as it is; no pass merges or rewrites across it. */
mf_value mf_optimization_barrier(mf_value tree);
/* prevent_cse_off: what is computed again may be merged with what was computed first (in the
 * body of a scan nothing could be). */
typedef struct mf_remat_options {
    bool prevent_cse_off;
    mf_ints static_argnums;
    mf_policy policy;
    mf_reserved reserved_;
} mf_remat_options;
mf_function mf_pmap_opt(mf_function f, const mf_pmap_options *o);
mf_function mf_vmap_opt(mf_function f, const mf_vmap_options *o);
mf_function mf_jit_opt(mf_function f, const mf_jit_options *o);
mf_function mf_grad_opt(mf_function f, const mf_grad_options *o);
mf_function mf_value_and_grad_opt(mf_function f, const mf_grad_options *o);
mf_function mf_remat_opt(mf_function f, const mf_remat_options *o);
mf_value mf_jvp_n(mf_function f, mf_value primals, mf_value tangents); /* (out, tangent out) */
/* out, or with has_aux f's tuple (out, aux); *pullback, which belongs to the scope, takes a
 * cotangent like out and gives a tuple of one an argument. */
typedef struct mf_vjp_options {
    bool has_aux;
    mf_reserved reserved_;
} mf_vjp_options;
mf_value mf_vjp_opt(mf_function f, mf_value primals, mf_function *pullback,
                    const mf_vjp_options *o);
/* length: needed, and at least 1, when xs is none */
typedef struct mf_scan_options {
    int64_t length;
    bool reverse;
    mf_reserved reserved_;
} mf_scan_options;
/* f(carry, x) gives (carry, y); result (carry, ys) */
mf_value mf_scan_opt(mf_function f, mf_value carry, mf_value xs, const mf_scan_options *o);
/* The index is clamped */
mf_value mf_switch_n(mf_value index, const mf_function *branches, int count, mf_value operand);
/* body(i, carry) gives carry */
mf_value mf_fori_loop_n(mf_value lower, mf_value upper, mf_function body, mf_value carry);
/* rule(primals, tangents), two tuples, gives (out, tangent out) */
mf_function mf_custom_jvp_n(mf_function f, mf_function rule);
void mf_clear_caches(void); /* forgets every traced and compiled program */
/* Programs are kept by function, by the types of its arguments and by its statics, 4,096 of
 * them, and 4,096 of single ops outside transforms; beyond, those unused for longest go. A
 * function that holds values - a partial, a closure over one, a module - and that nobody has any
 * more keeps its programs until 256 others, or 256 MiB of constants, have been traced since;
 * keep the function to keep them. */
/* segments: straight-line pieces compiled */
typedef struct mf_cache_counters {
    int64_t traces, hits, compilations, segments, entries, ops;
} mf_cache_counters;
/* Entries and ops now, the others since the start of the process */
mf_cache_counters mf_cache_read(void);
/* Fused loops have two tiers with the same bits: precompiled kernels that run at once, and
 * machine code that LLVM makes on a thread of its own, of low priority, once a loop's runs have
 * taken about as long as its compilation (2 ms); it is swapped in under running calls.
 * MF_COMPILE_TIER in the environment: background (so, the default), 1 (precompiled kernels
 * only), 2 (machine code before the first run, where it pays), loops (the same for every loop,
 * however small: for tests). mf_clear_caches calls waiting compilations off. Any thread. The
 * process may end at any time by main or by any thread that has called the library. The exit of
 * another thread while libLLVM is being loaded (once, 20 ms) may crash: C++ libraries cannot
 * bear to be destroyed while they are constructed. MF_COMPILE_TIER=1 never loads it. */
typedef struct mf_compiler_counters {
    /* Loops that have machine code; that could not get it and keep the first tier; that wait for
     * it */
    int64_t loops, failures, waiting;
    double seconds; /* spent on it */
} mf_compiler_counters;
mf_compiler_counters mf_compiler_read(void); /* since the start of the process */
/* yes(operand) or no(operand), of which the predicate, a scalar, picks one. Their results have
 * one tree (MF_ERROR_TREE) and one type a leaf. */
mf_value mf_cond_n(mf_value predicate, mf_function yes, mf_function no, mf_value operand);
/* carry = body(carry) while test(carry), a bool scalar that writes no state. The body keeps the
 * carry's tree (MF_ERROR_TREE) and types. It has no reverse mode. */
mf_value mf_while_n(mf_function test, mf_function body, mf_value carry);
/* forward(x, ...) gives (out, residuals); backward(residuals, cotangent of out) a tuple of one
 * cotangent an argument (MF_ERROR_TREE), in which None stands for zeros, of an array or of a
 * whole tree. */
mf_function mf_custom_vjp_n(mf_function f, mf_function forward, mf_function backward);
#ifndef __cplusplus
#define MF_NAMES_(...) (const char *const[]){ __VA_ARGS__ }, MF_COUNT_(__VA_ARGS__)
#define mf_save_only_these_names(...) mf_save_only_these_names_n(MF_NAMES_(__VA_ARGS__))
#define mf_save_any_names_but_these(...) mf_save_any_names_but_these_n(MF_NAMES_(__VA_ARGS__))
#define mf_save_anything_except_these_names(...) \
    mf_save_anything_except_these_names_n(MF_NAMES_(__VA_ARGS__))
#define mf_switch(index, operand, ...)                                              \
    mf_switch_n(mf_v(index), (const mf_function[]){ MF_EACH_(mf_fn, __VA_ARGS__) }, \
                MF_COUNT_(__VA_ARGS__), mf_v(operand))
#endif

MF_END_

#ifdef __cplusplus
inline mf_function mf_fn(mf_function f) { return f; }
inline mf_function mf_fn(mf_module m) { return mf_fn_module(m); }
/* A lambda, or another function object that can be copied bit by bit: a closure over what it has
 * captured, whose bytes are its identity (see mf_closure). One that captures nothing is a function
 * of C. The call operator is const, takes mf_values and gives one. */
template <class F, class... A> inline mf_value mf_run_object_(void *object, A... a)
{
    return (*static_cast<const F *>(object))(a...);
}
template <class F, class... A>
inline mf_function mf_fn_of_object_(const F &f, mf_value (F::*)(A...) const)
{
    static_assert(__is_trivially_copyable(F), "what a lambda captures is copied bit by bit");
    if constexpr (__is_empty(F))
        return mf_fn(static_cast<mf_value (*)(A...)>(f));
    else
        return mf_closure_of_(static_cast<mf_value (*)(void *, A...)>(mf_run_object_<F, A...>), &f,
                              sizeof f);
}
template <class F> inline auto mf_fn(const F &f) -> decltype(mf_fn_of_object_(f, &F::operator()))
{
    return mf_fn_of_object_(f, &F::operator());
}
template <class... A> inline mf_axis mf_axes(A... a)
{
    const mf_axis v[] = { mf_axis(a)... };
    return mf_axes_n(v, (int)sizeof...(A));
}
#endif

#include <manyfold/lift/function.h>

#endif
