/* Segment compilers, the private interface of the CPU's backend: they compile straight-line segments (no collectives, no calls, no control
 * flow but the loops that the compiler takes) and do the arithmetic of collectives. The CPU's executable owns everything between segments:
 * devices, tasks, control flow, memory that crosses segments. Who only wants to load and run a program needs runtime/executable.h.
 * Contract: kernels are immutable after compile and run from several threads at once, each with its own scratch. Operands and results
 * are contiguous row by row (pointers need only the alignment of their elements). A result pointer is either disjoint from all
 * operands or, where alias[o] == i and the runtime chose so, equal to operand i. */
#ifndef MF_RUNTIME_SEGMENT_COMPILER_H
#define MF_RUNTIME_SEGMENT_COMPILER_H

#include "ir/op.h"

typedef struct mf_segment_compiler mf_segment_compiler;
struct mf_compiler_counters; /* manyfold/function.h */

/* What a run of a kernel does, by the decisions of its compiler alone: the same on every machine. A loop's body counts once. */
typedef struct mf_kernel_work {
    int equations;     /* that it computes, ... */
    int steps, copies; /* ... in so many steps, of which these only move what is there already */
    int64_t bytes;     /* that the steps read and write */
} mf_kernel_work;

typedef struct mf_kernel { /* compilers embed it at the front of their own */
    const mf_segment_compiler *compiler;
    size_t scratch_bytes; /* temporaries, 64-byte aligned; planned at compile time */
    int *alias;           /* by output: the input whose memory it may take over, or -1; owned by the kernel */
    double cost;          /* estimated nanoseconds a run: chooses inline execution */
    mf_kernel_work work;
} mf_kernel;

/* fn(context, i) for i in [0, count), in any order, on any thread, helped by idle workers; returns when all are done. */
typedef void (*mf_parallel_fn)(void *context, int64_t index);
void mf_parallel_for(int64_t count, mf_parallel_fn fn, void *context); /* runtime/pool/thread_pool.c; runs inline when nothing is idle */
/* The same of less than 100 microseconds: hardly wakes anybody for it. */
void mf_parallel_for_brief(int64_t count, mf_parallel_fn fn, void *context);

struct mf_segment_compiler {
    const char *name;        /* "reference", "native" */
    bool (*available)(void); /* this machine can run it */
    /* donatable[i]: input i is dead after this segment, so an output of equal size may take its memory. Gives NULL and *kernel, or an
     * error. */
    mf_error_object *(*compile)(const mf_segment_compiler *self, const mf_program *segment, const bool *donatable, mf_kernel **kernel);
    mf_error_object *(*run)(mf_kernel *k, const void *const *in, void *const *out, void *scratch);
    /* As `count` runs whose operands and results lie steps[] bytes apart, 0: the same for all (operands only). NULL: there is no faster
     * way. */
    mf_error_object *(*run_stacked)(mf_kernel *k, int64_t count, const void *const *in, const int64_t *in_steps, void *const *out,
                                    const int64_t *out_steps, void *scratch);
    void (*destroy)(mf_kernel *k);
    void (*counters)(struct mf_compiler_counters *out); /* of its compiler; NULL: it has none */
    /* Whether this while or scan may be an equation of a segment; NULL: never. Another one is stepped through by the runtime. */
    bool (*takes_loop)(const mf_eqn *e);
    /* Whether e, which `reader` alone reads, may be computed with it, to other bits than by itself; NULL: never. Such an equation stands in its
     * reader's segment, so that collectives do not decide. */
    bool (*feeds)(const mf_eqn *e, const mf_eqn *reader);
    /* out = a balanced tree over in[0..n) in order: neighbours pair up level by level, an odd one moves up. The elements [from, to) of
     * count, so that the runtime may cut it. bool sums are i32's business before; sums of complex numbers come as sums of their parts.
     * f16 and bf16 run in f32 and round once, at the end; of several NaN the first wins, 0 is above -0: the bits are the same by every
     * compiler. False: out of memory, and out is not written. */
    bool (*reduce)(mf_reducer how, mf_dtype dtype, const void *const *in, int n, void *out, int64_t count, int64_t from, int64_t to);
};

extern const mf_segment_compiler mf_segment_compiler_reference;
extern const mf_segment_compiler mf_segment_compiler_native;
extern const mf_segment_compiler *const mf_segment_compilers[]; /* wire.c: in the order of preference, the reference last, then NULL */
const mf_segment_compiler *mf_segment_compiler_find(const char *name); /* NULL when unknown or not available here */
const mf_segment_compiler *mf_segment_compiler_default(void);          /* MF_BACKEND or native where it is available, else reference */

#endif
