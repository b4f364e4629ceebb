/* Plans: what compilation makes of programs. A program becomes a block: registers, and instructions in a fixed order. Straight-line
 * equations are grouped into as few segments as their dependencies allow; collectives that are ready at the same point are one instruction,
 * so that they share one rendezvous.
 *
 * The body of a map becomes two blocks. Equations that every device computes alike (their variance does not include the mapped axis, and
 * they do not communicate over it) are the block `uniform`, which one fiber runs for all devices; the rest is the block `device`. They
 * share the registers of the uniform block: a reference r >= 0 names a register of the executing block, ~r one of the uniform block.
 * Invariants: a plan is immutable; both blocks of a map keep the order of one common schedule, and each waits only for what is earlier
 * in it, so waiting cannot deadlock. */
#ifndef MF_RUNTIME_PLAN_PLAN_H
#define MF_RUNTIME_PLAN_PLAN_H

#include "ops/ops.h"
#include "runtime/compile/segment_compiler.h"
#include "runtime/profile/profiler.h"

#define MF_LEVELS 16 /* the most nested maps, and axis names in one collective */

typedef struct mf_instr mf_instr;
typedef struct mf_block mf_block;
typedef struct mf_map_plan mf_map_plan;
typedef struct mf_lockstep mf_lockstep;

typedef enum mf_instr_kind {
    MF_DO_SEGMENT,    /* a kernel of the segment compiler */
    MF_DO_ALIAS,      /* results are operands with another shape */
    MF_DO_AXIS_INDEX, /* this device's position */
    MF_DO_COLLECTIVE, /* one or several, over the same axes */
    MF_DO_CALL,       /* cond, or a call that was not inlined */
    MF_DO_WHILE,
    MF_DO_SCAN,
    MF_DO_MAP,
    MF_DO_AWAIT, /* waits until all operands (registers of the uniform block) are there */
} mf_instr_kind;

/* A group's members, as positions along the collective's axes. */
typedef struct mf_rank_group {
    int64_t count, first, step; /* step 0: not evenly spaced */
} mf_rank_group;

/* A ppermute, by rank: the rank whose operand it gets, and the rank that gets its operand; -1: none. */
typedef struct mf_permutation {
    const int *sources, *targets;
} mf_permutation;

/* The participants of a collective. Level 0 is the innermost map around the equation, level 1 the next one out. */
typedef struct mf_participants {
    int axis_count;
    int levels[MF_LEVELS]; /* in the order of the names: ranks are row-major, the first name outermost */
    int64_t sizes[MF_LEVELS];
    int top;                  /* the greatest level */
    int64_t member_count;     /* of the largest group */
    const mf_intlist *groups; /* the members of each group in turn, each padded with -1; NULL: one group of all */
    mf_rank_group *each_group;
    int *places;                  /* by position: its index in groups; -1: in none */
    mf_permutation *permutations; /* by result; NULLs for other collectives */
    const mf_namelist *axes;      /* for error messages */
    bool detached;                /* the device's own block reads no result before it waits for it, so members go on at once */
    /* Its number among the plan's collectives, the same in every process: which collectives are joined, and in which order they come,
     * depends on declared variance alone, never on what is held once. */
    int ordinal;
    const mf_eqn **eqns;               /* by result */
    _Atomic uint64_t check;            /* a hash of what is computed, without groups; 0: not known yet */
    _Atomic(const char *) description; /* what is computed, in words for other processes; NULL: not made yet */
} mf_participants;

/* The layout of a value of the top level, known before anything runs: the layout of one of the program's inputs, the layout of a map's
 * result, or contiguous, which is all zeros. */
typedef struct mf_value_layout {
    bool unknown;                /* control flow gives it more than one layout: it is made contiguous when it leaves the program */
    int like, sharded_like;      /* number of an input, from 1; 0: none */
    const int64_t *strides;      /* if it is like no input; NULL: contiguous */
    const mf_sharding *sharding; /* if it is placed like no input; NULL: where the program runs */
    mf_axis_set held;            /* the axes along which it is held once */
} mf_value_layout;

struct mf_instr {
    mf_instr_kind kind;
    int in_count, out_count;
    int *in, *out;
    bool *moves; /* by operand: its register dies here and this is its last mention, so it may be moved */
    int last_use_count;
    int *last_uses;            /* registers of the executing block that are not read afterwards */
    int position;              /* in the common schedule */
    const mf_eqn *eqn;         /* the first one; NULL in a plan that was read from text */
    const char *label;         /* what it does, in a plan that was read from text; else NULL, see source */
    mf_profile_source *source; /* all equations of a segment or collective */
    mf_kernel *kernel;
    mf_participants *participants;
    int block_count; /* call: branches; while: condition, body; scan: body */
    mf_block **blocks;
    mf_map_plan *map;
};

static inline bool mf_instr_is_last_use(const mf_instr *in, int reg)
{
    for (int i = 0; i < in->last_use_count; i++)
        if (in->last_uses[i] == reg)
            return true;
    return false;
}

struct mf_block {
    int register_count;
    const mf_type **types; /* by register */
    int in_count, out_count;
    int *in;                            /* the register of an input, or -1 if this block does not read it */
    int *out;                           /* references */
    const mf_value_layout *out_layouts; /* at the top level and in its control flow; else NULL */
    bool *out_moves;                    /* by output: the last mention of its register, so it may be moved */
    int *destination;                   /* by register: the output in whose memory it may be computed, or -1 */
    int constant_count;
    int *constants;        /* registers that hold constants in every frame */
    mf_literal **literals; /* the constants */
    int instr_count;
    mf_instr **instrs;
    double cost; /* estimated nanoseconds */
    int span;    /* number of devices that one run of this block occupies */
};

typedef struct mf_map_output {
    bool uniform;                /* one copy for all devices */
    const mf_type *shard, *type; /* the type of one device's part, and of the whole */
    int64_t strides[MF_RANK];    /* of the result; along the mapped axis: the shard's bytes, or 0 if uniform */
    bool contiguous;
    int donor;   /* the mapped input whose memory the result may take over, or -1 */
    int forward; /* the mapped input that is this result, along the same axis, or -1: it shares its memory */
    const mf_sharding *sharding;
} mf_map_output;

struct mf_map_plan {
    struct mf_map_plan *next; /* in the plan's list */
    const bool *held;         /* by input: taken as uniform although it is mapped, because it is held once; NULL: none */
    int64_t size;             /* devices in this process: rows of operands and results */
    int64_t axis_size;        /* devices in all processes */
    const mf_intlist *local;  /* the indices of this process's devices along the axis; empty: all */
    int in_count, out_count;
    const int64_t *axes;             /* of the inputs; INT64_MIN: not mapped */
    const mf_type **shards, **types; /* of the inputs: the type of one device's part, and of the whole */
    mf_block *device, *uniform;
    mf_map_output *out;
    const mf_intlist *devices; /* may be empty */
    int64_t device_step;       /* between neighbouring devices; 0: not constant */
    mf_lockstep *lockstep;     /* how one thread runs all devices at once; NULL: impossible or not worth it */
};

/* The index along the axis of a row; -1, for uniform values, stays -1. */
static inline int64_t mf_map_index(const mf_map_plan *m, int64_t row) { return row >= 0 && m->local->count ? m->local->at[row] : row; }

typedef struct mf_plan {
    mf_arena arena;
    const mf_segment_compiler *compiler;
    int kernel_count, kernel_capacity, literal_count, literal_capacity;
    mf_kernel **kernels;
    mf_literal **literals;
    mf_block *top;      /* the program's block */
    mf_map_plan *maps;  /* newest first */
    mf_axis_set *asked; /* by input of the program: the axes for which the plan supposes whether it is held once along them */
    int segment_count, collective_count;
    bool spread;          /* a map spans processes: runs are never inline */
    size_t scratch_bytes; /* of the largest kernel */
} mf_plan;

mf_plan *mf_plan_new(const mf_segment_compiler *compiler, int in_count);
void mf_plan_free(mf_plan *plan);

extern void (*mf_plan_watch)(const mf_plan *plan); /* for tests: called with each program's plan before it runs; set before compiling */

/* A plan as text, and back. A plan that was read has no kernels and no equations, so it can be inspected and verified, but not run.
 * plan_print.c has the grammar. NULL and *error. */
void mf_plan_print(mf_text *t, const mf_plan *plan);
mf_plan *mf_plan_parse(const char *text, mf_error_object **error);
/* Checks the invariants of plans: what is read was written and is still there; a value is moved by its last reader only; devices wait
 * for uniform values before they read them. NULL or an error. */
mf_error_object *mf_plan_verify(const mf_plan *plan);
double mf_map_cost(const mf_map_plan *map); /* estimated nanoseconds */
/* The peak memory of a run with so many workers, not counting arguments and results. */
int64_t mf_plan_temporary_bytes(const mf_plan *plan, int workers);

#endif
