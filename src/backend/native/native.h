/* The native engine, the CPU's default segment compiler: the map of its files. A segment becomes a list of steps over values, which lie in
 * operands, results, constants or one block of scratch memory planned at compile time.
 *
 *   native.c                 what the runtime calls: compile a segment, run a kernel   native_kernel.h: what a kernel is
 *   make_steps.c             walks the equations and makes units of them               segment_build.h: the segment meanwhile
 *     fusion/fuse.c, lower.c elementwise equations become groups, each one loop        fusion/group.h
 *     products/, steps/      equations with a kernel of their own become steps         step.h
 *     fusion/loop_step.c     a while or scan over rather small values is one step      fusion/loop_step.h
 *     fusion/loop_rows.c     scans whose rows are apart; loop_feed.c: products that go into their rounds
 *   buffer_assignment.c      orders the units and places the values
 *     fusion/fused_loop.c    groups become steps, which tile_loop.c runs at first
 *     fusion/rows/           steps over the same rows are joined                       fusion/rows/row_fusion.h
 *   llvm/tier_up.c           has machine code made for steps that prove hot            llvm/tier_up.h; llvm/emit/ writes it
 *   kernels/                 C functions on raw pointers, which the first tier runs    kernels/kernels.h
 *
 * Invariants: a finished kernel is immutable but for its steps' tiers; a step reads and writes only its values and its own piece of scratch;
 * both tiers give the same bits. */
#ifndef MF_BACKEND_NATIVE_NATIVE_H
#define MF_BACKEND_NATIVE_NATIVE_H

#include "ir/reducer.h"

#include <manyfold/base.h>

bool mf_native_runs_here(void); /* the machine has the instructions that the kernels need at least */
/* The arithmetic of collectives (steps/all_reduce.c), as mf_segment_compiler's reduce. */
bool mf_native_all_reduce(mf_reducer how, mf_dtype dtype, const void *const *in, int n, void *out, int64_t count, int64_t from, int64_t to);

#endif
