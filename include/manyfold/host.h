/* manyfold/host.h - what a compiled program says to the host while it runs: printing, calls of C
 * functions, and checks. */
#ifndef MANYFOLD_HOST_H
#define MANYFOLD_HOST_H
#ifndef MF_CHECK_HEADERS_
#pragma GCC system_header
#endif

#include <manyfold/function.h>

MF_BEGIN_

/* ------------------------------------------------------------------ printing jax.debug.print:
 * mf_debug_print("loss {} at {}", x, step) prints when the program runs, a line a call. A
 * placeholder, whatever stands between its braces, takes the next value: an array, a number, a
 * string or a tree; {{ and }} are braces. Under pmap each device prints, in the program's order;
 * under vmap a line comes for each row; under grad the forward pass prints; nothing removes it.
 * Lines go to stdout, or to the hook, which must not call the library; from any thread, one at a
 * time. Outside of functions it waits for its values. MF_ERROR_ARGUMENT, remembered for
 * mf_exit_status, for placeholders and values that do not pair up. */
mf_status mf_debug_print_n(const mf_value *format_and_values, int count);
typedef void (*mf_print_hook)(const char *line, void *context);
void mf_set_print_hook(mf_print_hook hook, void *context); /* NULL: stdout */

/* ------------------------------------------------------------------ callbacks jax.pure_callback
 * and io_callback: f is called with arrays that are ready, while the program runs, and its
 * result's arrays go on in the program. `result` announces it: a tree of mf_struct(shape,
 * dtype), or of arrays for their types; none: nobody reads it. What f returns must have this
 * tree, these shapes and dtypes; an error that it returns becomes the call's error. Pure: called
 * as often as the program needs it, at least where its result is used, perhaps never, perhaps
 * once for equal calls. IO: called exactly as often as the program says, in the program's order
 * on each device. Under vmap both are called once a row, one after the other (vmap_method
 * "sequential"); under pmap on each device, at the same time. f runs on the caller's thread or
 * on one of the library's, outside of any trace, and may use the library. Neither has
 * derivatives but by mf_custom_jvp and mf_custom_vjp: MF_ERROR_ARGUMENT. */
mf_value mf_pure_callback_n(mf_function f, mf_value result, const mf_value *arguments, int count);
mf_value mf_io_callback_n(mf_function f, mf_value result, const mf_value *arguments, int count);

/* ------------------------------------------------------------------ checks Opt-in checks of all
 * that is computed, a list by commas; none: off. MF_CHECK in the environment says what a process
 * begins with. Programs are compiled anew, run slower and in more pieces, and give the same
 * numbers. "nan" (jax_debug_nans, but an op at a time inside functions too, as checkify's): an
 * op that gives a NaN of operands that have none ends the call in MF_ERROR_ARGUMENT, which names
 * the op and has the line that called it (mf_error_place); an infinity minus another one is born
 * in psum too, of devices' values that have no NaN. "keys" (jax_debug_key_reuse): a random key
 * from which is drawn, or which is split, a second time is MF_ERROR_ARGUMENT with both lines, in
 * a function when it is traced, outside when the array that holds it is used again; so is one
 * that each turn of a loop uses. Folding data into a key does not use it, and the same seed may
 * be taken again. "replicated": what is the same on all devices of a map (of arguments with
 * MF_NONE, results of collectives, what follows from them, results of out_axes MF_NONE) is
 * computed by each of them instead of once, and compared bit by bit: a function of
 * mf_pure_callback that is not pure, processes that bring different values of MF_NONE, or a fault
 * of the machine or the library, is MF_ERROR_DEVICE with the op, its line and the devices that
 * differ. MF_ERROR_ARGUMENT for a check that there is not. */
mf_status mf_set_checks(const char *list);

MF_END_

#include <manyfold/lift/host.h>

#endif
