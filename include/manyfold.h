/* manyfold.h - jax.pmap for C: the whole public API.
 *
 * Five rules explain all headers.
 *   1. One handle type, mf_value, stands for all data: arrays, traced values, trees, None, statics
 *   and errors. All-zero bits are "unset".
 *   2. In C a number or string may be written wherever a value is taken: mf_mul(x, 2), mf_call(f,
 *   x, 0.05), mf_dict("w", w).
 *   3. Options come last, by name; the default is zero, unless the comment says otherwise:
 *   mf_sum(x, .axis = 0). An option of type mf_value takes only a value: .nan = mf_f(7). A function
 *   mf_thing whose options are all optional is also a plain C function, which can be passed on:
 *   mf_pmap(mf_dot). mf_thing_opt takes a pointer to the options.
 *   4. Every handle belongs to the innermost open scope of the calling thread. mf_assign stores
 *   into a variable that lives longer.
 *   5. An error is a value, and is passed on by whatever is done with it. Functions whose result is
 *   not a value return an mf_status, or NaN, 0 or NULL; mf_exit_status remembers the error.
 * manyfold/base.h states the rest: ownership, threads, fork, exit, signals. */
#ifndef MANYFOLD_H
#define MANYFOLD_H
#ifndef MF_CHECK_HEADERS_
#pragma GCC system_header
#endif

/* values */
#include <manyfold/base.h>
#include <manyfold/tree.h>
#include <manyfold/array.h>
/* operations on arrays */
#include <manyfold/numpy.h>
#include <manyfold/lax.h>
#include <manyfold/special.h>
#include <manyfold/stats.h>
#include <manyfold/indexing.h>
#include <manyfold/linalg.h>
#include <manyfold/fft.h>
#include <manyfold/random.h>
#include <manyfold/nn.h>
/* functions */
#include <manyfold/function.h>
#include <manyfold/transforms.h>
#include <manyfold/collective.h>
#include <manyfold/control.h>
#include <manyfold/state.h>
#include <manyfold/optim.h>
/* programs, devices and processes */
#include <manyfold/stages.h>
#include <manyfold/debug.h>
#include <manyfold/profiler.h>
#include <manyfold/device.h>
#include <manyfold/distributed.h>
/* files */
#include <manyfold/augment.h>
#include <manyfold/data.h>
#include <manyfold/io.h>
#include <manyfold/train.h>

#endif
