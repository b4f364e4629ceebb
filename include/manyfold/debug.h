/* manyfold/debug.h - debugging: prints, callbacks to C functions and checks inside compiled
 * programs, and the library's counters. Profiling is manyfold/profiler.h. As jax.debug,
 * jax.pure_callback, jax.experimental.io_callback and checkify.
 *
 * Prints and callbacks take trees of any shapes, and stay in compiled programs: under vmap they
 * happen once for each row, under pmap on each device, in the program's order. Arguments of hooks
 * and callbacks are valid until these return. Errors: MF_ERROR_ARGUMENT for arguments that do not
 * match, and for unknown names. Any thread. */
#ifndef MANYFOLD_DEBUG_H
#define MANYFOLD_DEBUG_H
#ifndef MF_CHECK_HEADERS_
#pragma GCC system_header
#endif

#include <manyfold/function.h>

MF_BEGIN_

/* ---- printing */
/* trees -> a line: jax.debug.print: mf_debug_print("loss {} at {}", x, step) prints a line whenever
 * the program runs this place. A placeholder, whatever stands between its braces, prints the next
 * value: an array, number, string or tree; {{ and }} print braces. Under pmap each device prints,
 * under vmap each row, under grad the forward pass; prints are never optimised away. Lines go to
 * stdout, or to the hook, from any thread, one at a time; the hook must not call the library.
 * Outside of traced functions it waits for its values. MF_ERROR_ARGUMENT, remembered for
 * mf_exit_status, where placeholders and values differ in number. */
mf_status mf_debug_print_n(const mf_value *format_and_values, int count);
typedef void (*mf_print_hook)(const char *line, void *context);
void mf_set_print_hook(mf_print_hook hook, void *context); /* NULL: stdout */

/* ---- callbacks */
/* result, trees -> result: jax.pure_callback and jax.experimental.io_callback: f is called while
 * the program runs, with arrays that have been computed; the arrays that it returns continue in the
 * program. `result` announces these: a tree of mf_struct(shape, dtype), or of arrays for their
 * types; mf_none(): there are none. f's result must have its structure, shapes and dtypes; an error
 * that f returns becomes the call's error.
 * mf_pure_callback may call f any number of times: at least once if its result is used, perhaps
 * never, perhaps once for several equal calls. mf_io_callback calls f exactly as often as the
 * program says, and on each device in the program's order. Under vmap both call f for one row after
 * the other (vmap_method "sequential"); under pmap for each device, concurrently. f runs on the
 * calling thread or one of the library's, outside of any trace, and may use the library.
 * Derivatives need mf_custom_jvp or mf_custom_vjp (MF_ERROR_ARGUMENT). */
mf_value mf_pure_callback_n(mf_function f, mf_value result, const mf_value *arguments, int count);
mf_value mf_io_callback_n(mf_function f, mf_value result, const mf_value *arguments, int count);

/* ---- checks */
/* Turns on checks of everything that is computed; list is a comma-separated list of names, empty
 * for none. A process starts with MF_CHECK of the environment. Programs are then compiled anew and
 * run slower, in more pieces, with the same results. MF_ERROR_ARGUMENT for an unknown check.
 *   "nan" (as jax_debug_nans, but for each op also inside functions, as checkify): an op that
 *   produces a NaN from operands without NaN is an MF_ERROR_ARGUMENT that names the op; its place
 *   (mf_error_place) is the line that called it. This includes psum, of inf and -inf on different
 *   devices.
 *   "keys" (as jax_debug_key_reuse): to draw from a random key, or split it, a second time is an
 *   MF_ERROR_ARGUMENT with both lines: inside a function when it is traced, outside when the array
 *   that holds the key is used again; also a key that each iteration of a loop uses.
 *   mf_random_fold_in does not use up a key, and making a key from the same seed again is allowed.
 *   "replicated": what is the same on all devices of a map (arguments with MF_NONE, results of
 *   collectives, what follows from them, results with out_axes MF_NONE) is computed by each device
 *   instead of once, and compared bit by bit. A difference is an MF_ERROR_DEVICE with the op, its
 *   line, and the devices. Causes: an impure function in mf_pure_callback, processes that pass
 *   different values for MF_NONE, or a fault of the machine or the library. */
mf_status mf_set_checks(const char *list);

/* ---- caches and counters */
void mf_clear_caches(void); /* forgets all traced and compiled programs, and cancels compilations */
/* The caches: 4,096 programs, by function, argument types and static arguments, and 4,096 single
 * ops outside of functions; beyond that the least recently used ones are dropped. Programs of a
 * function that holds values (a partial, a closure over one, a module) and that nobody refers to
 * any more are dropped once 256 others, or 256 MiB of constants, have been traced; likewise control
 * flow outside of functions whose functions hold arrays. To keep such programs, keep the function.
 * entries and ops are current numbers, the others count since the process started; segments are
 * compiled pieces of straight-line code. */
typedef struct mf_cache_counters {
    int64_t traces, hits, compilations, segments, entries, ops;
} mf_cache_counters;
mf_cache_counters mf_cache_read(void);
/* Fused loops run in two tiers with the same bits: precompiled kernels at once, and machine code
 * that LLVM makes on a low-priority thread once a loop has run for about as long as its compilation
 * takes (2 ms); running calls switch over. MF_COMPILE_TIER of the environment: "background" (this,
 * the default), "1" (precompiled kernels only), "2" (machine code before the first run, where it
 * pays), "loops" (the same for every loop, for tests). libLLVM is loaded when first needed, which
 * takes 20 ms; if a thread that has never called this library ends the process at that moment, the
 * process may crash, because C++ libraries cannot be destroyed while they are being initialised.
 * MF_COMPILE_TIER=1 never loads it. */
typedef struct mf_compiler_counters {
    /* Loops with machine code; loops that could not get it, and stay in the first tier; loops that
     * wait for it */
    int64_t loops, failures, waiting;
    double seconds; /* spent on it */
} mf_compiler_counters;
mf_compiler_counters mf_compiler_read(void); /* since the start of the process */

MF_END_

#include <manyfold/lift/debug.h>

#endif
