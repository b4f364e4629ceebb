/* Plans: what compile makes of programs. A program becomes a block: registers and instructions in one fixed order. Straight-line
 * equations are grouped into as few segments as their dependencies allow; collectives that are ready at the same point are one
 * instruction, so that they cost one rendezvous.
 *
 * The body of a map becomes two blocks. What every device computes alike - equations whose variance does not include the mapped axis, and
 * that talk over it to nobody - is the block `uniform`, run by one fiber for all; the rest is the block `device`. They share the registers
 * of the uniform block: a reference r >= 0 names a register of the executing block, ~r one of the uniform block.
 * Invariants: a plan is immutable; both blocks of a map keep the order of one common schedule, and each waits only for what stands
 * earlier in it, so waiting is free of cycles. */
#ifndef MF_RUNTIME_PLAN_PLAN_H
#define MF_RUNTIME_PLAN_PLAN_H

#include "ops/ops.h"
#include "runtime/compile/segment_compiler.h"
#include "runtime/profile/profiler.h"

#define MF_LEVELS 16 /* nested maps, and names in one collective */

typedef struct mf_instr mf_instr;
typedef struct mf_block mf_block;
typedef struct mf_map_plan mf_map_plan;
typedef struct mf_lockstep mf_lockstep;

typedef enum mf_instr_kind {
    MF_DO_SEGMENT,    /* a kernel of the segment compiler */
    MF_DO_ALIAS,      /* results are operands under another shape */
    MF_DO_AXIS_INDEX, /* this device's position */
    MF_DO_COLLECTIVE, /* one or several, over the same axes */
    MF_DO_CALL,       /* cond, or a call that nobody inlined */
    MF_DO_WHILE,
    MF_DO_SCAN,
    MF_DO_MAP,
    MF_DO_AWAIT, /* until all operands (registers of the uniform block) are there */
} mf_instr_kind;

/* A group's members, at positions along the collective's axes. */
typedef struct mf_rank_group {
    int64_t count, first, step; /* step 0: they do not lie at equal distances */
} mf_rank_group;

/* Of a ppermute, by rank: whose operand it gets, and who gets its; -1: nobody's, nobody. */
typedef struct mf_permutation {
    const int *sources, *targets;
} mf_permutation;

/* Who takes part in a collective. Level 0 is the innermost map around the equation, level 1 the next one out. */
typedef struct mf_participants {
    int axis_count;
    int levels[MF_LEVELS]; /* in the order of the names: ranks count row-major, the first name outermost */
    int64_t sizes[MF_LEVELS];
    int top;                  /* the greatest level */
    int64_t member_count;     /* of the largest group */
    const mf_intlist *groups; /* members of each group in turn, filled up with -1; NULL: one group of all */
    mf_rank_group *each_group;
    int *places;                  /* by position: where it stands in groups; -1: in none */
    mf_permutation *permutations; /* by result; of those that are none: NULLs */
    const mf_namelist *axes;      /* for messages */
    bool detached;                /* no result is read by the device's own block before it waits for it: members go on at once */
    int ordinal;         /* among the plan's collectives. The same in every process: which collectives join and how they follow one another
                                 depends on declared variance alone, never on what is held once */
    const mf_eqn **eqns; /* by result */
    _Atomic uint64_t check;      /* a hash of that, without groups; 0: not known yet */
    _Atomic(const char *) words; /* what is computed, for other processes; NULL: none has been told yet */
} mf_participants;

/* How a value of the top level lies, known before anything runs: as one of the program's inputs does, as a map lays its results, or row by
 * row, which is what zeros say. */
typedef struct mf_value_layout {
    bool unknown;                /* control flow gives it in more than one layout: it is laid row by row when it leaves the program */
    int like, sharded_like;      /* an input, counted from 1; 0: none */
    const int64_t *strides;      /* where it is like no input; NULL: row by row */
    const mf_sharding *sharding; /* where it is placed like no input; NULL: where the program runs */
    mf_axis_set held;            /* it is held once along these */
} mf_value_layout;

struct mf_instr {
    mf_instr_kind kind;
    int in_count, out_count;
    int *in, *out;
    bool *moves; /* by operand: its register dies here and this is its last mention, so it may be moved */
    int last_use_count;
    int *last_uses;            /* registers of the executing block that nobody reads afterwards */
    int position;              /* in the common schedule */
    const mf_eqn *eqn;         /* the first; NULL in a plan that was read from text */
    const char *label;         /* what it does, in a plan that was read from text; else NULL: source tells it */
    mf_profile_source *source; /* all that a segment or collective consists of */
    mf_kernel *kernel;
    mf_participants *participants;
    int block_count; /* call: branches; while: condition, body; scan: body */
    mf_block **blocks;
    mf_map_plan *map;
};

struct mf_block {
    int register_count;
    const mf_type **types; /* by register */
    int in_count, out_count;
    int *in;                            /* the register of an input, or -1 where the other block or nobody reads it */
    int *out;                           /* references */
    const mf_value_layout *out_layouts; /* at the top level and in its control flow; else NULL */
    bool *out_moves;                    /* by output: the last mention of its register, so it may be moved */
    int *destination;                   /* by register: the output whose memory it may be written to straight away, or -1 */
    int constant_count;
    int *constants;        /* registers that hold constants in every frame */
    mf_literal **literals; /* theirs */
    int instr_count;
    mf_instr **instrs;
    double cost; /* estimated nanoseconds */
    int span;    /* devices that one run of this block occupies */
};

typedef struct mf_map_output {
    bool uniform;                /* one copy for all */
    const mf_type *shard, *type; /* one device's, and with the mapped axis */
    int64_t strides[MF_RANK];    /* of the result: the mapped axis has the shard's bytes, or 0 where uniform */
    bool contiguous;
    int donor;   /* the mapped input whose memory may become the result's, or -1 */
    int forward; /* the mapped input that the result is, along the same axis, or -1: its memory is shared */
    const mf_sharding *sharding;
} mf_map_output;

struct mf_map_plan {
    struct mf_map_plan *next; /* of the plan */
    const bool *held;         /* by input: taken as uniform although it is mapped, because it is held once; NULL: none */
    int64_t size;             /* devices of this process: rows of operands and results */
    int64_t axis_size;        /* devices of all processes */
    const mf_intlist *local;  /* their indices along the axis; empty: all */
    int in_count, out_count;
    const int64_t *axes;             /* of the inputs; INT64_MIN: not mapped */
    const mf_type **shards, **types; /* of the inputs: one device's, and with the mapped axis */
    mf_block *device, *uniform;
    mf_map_output *out;
    const mf_intlist *devices; /* may be empty */
    int64_t device_step;       /* from one to the next of them; 0: it is not always the same */
    mf_lockstep *lockstep;     /* how all devices are run at once by one thread; NULL where that cannot be, or does not pay */
};

/* A row's index along the axis; -1, what is the same for all, keeps it. */
static inline int64_t mf_map_index(const mf_map_plan *m, int64_t row) { return row >= 0 && m->local->count ? m->local->at[row] : row; }

/* What a plan's memory and kernels hang on. */
typedef struct mf_plan {
    mf_arena arena;
    const mf_segment_compiler *compiler;
    int kernel_count, kernel_capacity, literal_count, literal_capacity;
    mf_kernel **kernels;
    mf_literal **literals;
    mf_block *top;      /* the program's */
    mf_map_plan *maps;  /* the newest first */
    mf_axis_set *asked; /* by input of the program: the axes of which the plan supposes whether it is held once along them */
    int segment_count, collective_count;
    bool spread;          /* a map spans processes: runs are never inline */
    size_t scratch_bytes; /* the largest */
} mf_plan;

mf_plan *mf_plan_new(const mf_segment_compiler *compiler, int in_count);
void mf_plan_free(mf_plan *plan);

extern void (*mf_plan_watch)(const mf_plan *plan); /* for tests: sees each plan of a program before it runs; set before compiling */

/* The plan as text, and back: a plan that is read has no kernels and no equations, so it can be looked at and verified, not run. The
 * text is in plan_print.c. NULL and *error. */
void mf_plan_print(mf_text *t, const mf_plan *plan);
mf_plan *mf_plan_parse(const char *text, mf_error_object **error);
/* Whether the invariants of plans hold: what is read was written and is still there, who moves a value is its last reader, devices wait
 * for what is computed once. NULL or an error. */
mf_error_object *mf_plan_verify(const mf_plan *plan);
double mf_map_cost(const mf_map_plan *map); /* estimated nanoseconds */
/* What a run takes at its most beside its arguments and results, by so many workers. */
int64_t mf_plan_temporary_bytes(const mf_plan *plan, int workers);

#endif
