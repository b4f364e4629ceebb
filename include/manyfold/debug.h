/* manyfold/debug.h - what a program says while it runs: prints, calls of C functions, checks, and
 * what the library counts. Where the time goes is manyfold/profiler.h.
 *
 * Prints and callbacks take trees of any shapes, and stay in compiled programs: under vmap they
 * come once a row, under pmap on each device, in the program's order. What hooks and callbacks are
 * given lives until they return. Errors: MF_ERROR_ARGUMENT for what does not pair up and for names
 * that there are not. Any thread. As jax.debug, jax.pure_callback, jax.experimental.io_callback
 * and checkify. */
#ifndef MANYFOLD_DEBUG_H
#define MANYFOLD_DEBUG_H
#ifndef MF_CHECK_HEADERS_
#pragma GCC system_header
#endif

#include <manyfold/function.h>

MF_BEGIN_

/* ---- printing */
/* trees -> a line: jax.debug.print: mf_debug_print("loss {} at {}", x, step) prints when the
 * program runs, a line a call. A placeholder, whatever stands between its braces, takes the next
 * value: an array, a number, a string or a tree; {{ and }} are braces. Under pmap each device
 * prints, in the program's order; under vmap a line comes for each row; under grad the forward pass
 * prints; nothing removes it. Lines go to stdout, or to the hook, which must not call the library;
 * from any thread, one at a time. Outside of functions it waits for its values. MF_ERROR_ARGUMENT,
 * remembered for mf_exit_status, for placeholders and values that do not pair up. */
mf_status mf_debug_print_n(const mf_value *format_and_values, int count);
typedef void (*mf_print_hook)(const char *line, void *context);
void mf_set_print_hook(mf_print_hook hook, void *context); /* NULL: stdout */

/* ---- callbacks */
/* result, trees -> result: jax.pure_callback and io_callback: f is called with arrays that are
 * ready, while the program runs, and its result's arrays go on in the program. `result` announces
 * it: a tree of mf_struct(shape, dtype), or of arrays for their types; none: nobody reads it. What
 * f returns must have this tree, these shapes and dtypes; an error that it returns becomes the
 * call's error. Pure: called as often as the program needs it, at least where its result is used,
 * perhaps never, perhaps once for equal calls. IO: called exactly as often as the program says, in
 * the program's order on each device. Under vmap both are called once a row, one after the other
 * (vmap_method "sequential"); under pmap on each device, at the same time. f runs on the caller's
 * thread or on one of the library's, outside of any trace, and may use the library. Neither has
 * derivatives but by mf_custom_jvp and mf_custom_vjp: MF_ERROR_ARGUMENT. */
mf_value mf_pure_callback_n(mf_function f, mf_value result, const mf_value *arguments, int count);
mf_value mf_io_callback_n(mf_function f, mf_value result, const mf_value *arguments, int count);

/* ---- checks */
/* Opt-in checks of all that is computed, a list by commas; none: off. MF_CHECK in the environment
 * says what a process begins with. Programs are compiled anew, run slower and in more pieces, and
 * give the same numbers. MF_ERROR_ARGUMENT for a check that there is not.
 * "nan" (jax_debug_nans, but an op at a time inside functions too, as checkify's): an op that gives
 * a NaN of operands that have none ends the call in MF_ERROR_ARGUMENT, which names the op and has
 * the line that called it (mf_error_place); an infinity minus another one is born in psum too, of
 * devices' values that have no NaN.
 * "keys" (jax_debug_key_reuse): a random key from which is drawn, or which is split, a second time
 * is MF_ERROR_ARGUMENT with both lines, in a function when it is traced, outside when the array
 * that holds it is used again; so is one that each turn of a loop uses. Folding data into a key
 * does not use it, and the same seed may be taken again.
 * "replicated": what is the same on all devices of a map (of arguments with MF_NONE, results of
 * collectives, what follows from them, results of out_axes MF_NONE) is computed by each of them
 * instead of once, and compared bit by bit: a function of mf_pure_callback that is not pure,
 * processes that bring different values of MF_NONE, or a fault of the machine or the library, is
 * MF_ERROR_DEVICE with the op, its line and the devices that differ. */
mf_status mf_set_checks(const char *list);

/* ---- what is kept, and what is counted */
void mf_clear_caches(void); /* forgets every traced and compiled program */
/* Programs are kept by function, by the types of its arguments and by its statics, 4,096 of
 * them, and 4,096 of single ops outside transforms; beyond, those unused for longest go. A
 * function that holds values - a partial, a closure over one, a module - and that nobody has any
 * more keeps its programs until 256 others, or 256 MiB of constants, have been traced since, and
 * so does control flow outside transforms whose functions hold arrays; keep the function to keep
 * them. Entries and ops are those now, the others those since the start
 * of the process; segments are straight-line pieces compiled. */
typedef struct mf_cache_counters {
    int64_t traces, hits, compilations, segments, entries, ops;
} mf_cache_counters;
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

MF_END_

#include <manyfold/lift/debug.h>

#endif
