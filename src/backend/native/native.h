/* The native engine, the CPU's default segment compiler: an overview of its files. A segment becomes a list of steps over values, which lie
 * in operands, results, constants or one block of scratch memory planned at compile time.
 *
 *   native.c                 what the runtime calls: compile a segment, run a kernel   native_kernel.h: a kernel
 *   make_steps.c             walks the equations and makes units of them               segment_build.h: a segment under construction
 *     fusion/fuse.c, lower.c elementwise equations become groups, each one loop        fusion/group.h
 *     products/, steps/      equations with a kernel of their own become steps         step.h
 *     fusion/loop_step.c     a while or scan over rather small values is one step      fusion/loop_step.h
 *     fusion/loop_rows.c     scans with independent rows; loop_feed.c: products computed inside such loops
 *   buffer_assignment.c      orders the units and places the values
 *     fusion/fused_loop.c    groups become steps, which tile_loop.c runs at first
 *     fusion/rows/           steps over the same rows are joined                       fusion/rows/row_fusion.h
 *   llvm/tier_up.c           has machine code made for steps that prove hot            llvm/tier_up.h; llvm/emit/ writes it
 *   kernels/                 C functions on raw pointers, which the first tier runs    kernels/kernels.h
 *
 * Invariants: a finished kernel is immutable except for its steps' tiers; a step reads and writes only its values and its own part of
 * scratch; both tiers give the same bits. */
#ifndef MF_BACKEND_NATIVE_NATIVE_H
#define MF_BACKEND_NATIVE_NATIVE_H

#include "ir/reducer.h"

#include <manyfold/base.h>

bool mf_native_runs_here(void); /* whether this machine has the instructions that the kernels require */
/* The arithmetic of collectives (steps/all_reduce.c), see mf_segment_compiler's reduce. */
bool mf_native_all_reduce(mf_reducer how, mf_dtype dtype, const void *const *in, int n, void *out, int64_t count, int64_t from, int64_t to);

#endif
