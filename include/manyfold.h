/* manyfold.h - jax.pmap and its friends for C: the whole public API.
 *
 * Five rules explain the whole header.
 *   1. One handle, mf_value, for all that flows: arrays, tracers, trees, none, statics, errors.
 *   All-zero bits mean "unset".
 *   2. Wherever a value is taken in C, a C number or string may stand instead: mf_mul(x, 2),
 *   mf_call(f, x, 0.05), mf_dict("w", w).
 *   3. Options come last, by name, zero is the default, save where zero is a choice: mf_sum(x,
 *   .axis = 0). An option that is an mf_value takes one, and no C number: .nan = mf_f(7). `mf_thing`
 *   is also a plain function with every option at its default, so it can be passed on:
 *   mf_pmap(mf_dot). `mf_thing_opt` takes a pointer.
 *   4. Every handle belongs to the innermost open scope of the calling thread. mf_assign stores
 *   into a variable that lives longer.
 *   5. An error is a value and travels. Functions that leave the value world return mf_status,
 *   or a NaN / 0, and are remembered by mf_exit_status. */
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
