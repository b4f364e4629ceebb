/* Segment compilers, the private interface of the CPU's backend: they compile straight-line segments (no collectives, no calls, no control
 * flow except for loops that the compiler takes) and do the arithmetic of collectives. The CPU's executable handles everything between
 * segments: devices, tasks, control flow, memory that crosses segments. To load and run a program, use runtime/executable.h.
 * Contract: kernels are immutable after compile, and several threads may run one at once, each with its own scratch. Operands and
 * results are contiguous, and aligned only as their elements require. A result pointer is disjoint from all operands or, where alias[o]
 * == i and the runtime chose so, equal to operand i. */
#ifndef MF_RUNTIME_COMPILE_SEGMENT_COMPILER_H
#define MF_RUNTIME_COMPILE_SEGMENT_COMPILER_H

#include "ir/op.h"

typedef struct mf_segment_compiler mf_segment_compiler;
struct mf_compiler_counters; /* manyfold/function.h */

/* What a run of a kernel does, as its compiler decided: the same on every machine. A loop's body counts once. */
typedef struct mf_kernel_work {
    int equations;     /* that it computes */
    int steps, copies; /* its steps, and those of them that only move data */
    int64_t bytes;     /* that its steps read and write */
} mf_kernel_work;

typedef struct mf_kernel { /* compilers embed it as the first member of their own */
    const mf_segment_compiler *compiler;
    size_t scratch_bytes; /* temporaries, 64-byte aligned; planned at compile time */
    int *alias;           /* by output: the input whose memory it may take over, or -1; owned by the kernel */
    double cost;          /* estimated nanoseconds per run: decides about inline execution */
    mf_kernel_work work;
} mf_kernel;

/* Calls fn(context, i) for i in [0, count), in any order, on this thread and on idle workers; returns when all calls are done. */
typedef void (*mf_parallel_fn)(void *context, int64_t index);
void mf_parallel_for(int64_t count, mf_parallel_fn fn, void *context); /* runtime/pool/thread_pool.c; runs inline if no worker is idle */
/* The same for less than 100 microseconds of work, for which it wakes hardly any worker. */
void mf_parallel_for_brief(int64_t count, mf_parallel_fn fn, void *context);

struct mf_segment_compiler {
    const char *name;        /* "reference", "native" */
    bool (*available)(void); /* whether this machine can run it */
    /* donatable[i]: input i is dead after this segment, so an output of the same size may take over its memory. Returns NULL and
     * *kernel, or an error. */
    mf_error_object *(*compile)(const mf_segment_compiler *self, const mf_program *segment, const bool *donatable, mf_kernel **kernel);
    mf_error_object *(*run)(mf_kernel *k, const void *const *in, void *const *out, void *scratch);
    /* Like `count` runs whose operands and results are `steps` bytes apart; 0 (operands only): the same for all. NULL: there is no
     * faster way than single runs. */
    mf_error_object *(*run_stacked)(mf_kernel *k, int64_t count, const void *const *in, const int64_t *in_steps, void *const *out,
                                    const int64_t *out_steps, void *scratch);
    void (*destroy)(mf_kernel *k);
    void (*counters)(struct mf_compiler_counters *out); /* of its code generation; NULL: it has none */
    /* Whether this while or scan may be an equation of a segment, else the runtime steps through it. NULL: never. */
    bool (*takes_loop)(const mf_eqn *e);
    /* Whether e, which only `reader` reads, may be computed as a part of it, with other bits than by itself; NULL: never. Such an
     * equation is put into its reader's segment, so that the presence of collectives does not affect its bits. */
    bool (*feeds)(const mf_eqn *e, const mf_eqn *reader);
    /* out = a balanced tree over in[0..n) in order: neighbours pair up level by level, an odd one moves up. Computes the elements [from,
     * to) of `count`, so that the runtime may split the work. The caller has converted bool sums to i32, and complex sums to sums of
     * their parts. f16 and bf16 are reduced in f32 and rounded once, at the end; the first of several NaNs wins, and +0 is above -0:
     * every compiler gives the same bits. False: out of memory; out is not written. */
    bool (*reduce)(mf_reducer how, mf_dtype dtype, const void *const *in, int n, void *out, int64_t count, int64_t from, int64_t to);
};

extern const mf_segment_compiler mf_segment_compiler_reference;
extern const mf_segment_compiler mf_segment_compiler_native;
extern const mf_segment_compiler *const mf_segment_compilers[];        /* wire.c: in order of preference, the reference last, then NULL */
const mf_segment_compiler *mf_segment_compiler_find(const char *name); /* NULL: unknown, or not available here */
const mf_segment_compiler *mf_segment_compiler_default(void);          /* the one that MF_BACKEND names, else the first that is available */

#endif
