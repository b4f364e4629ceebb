/* The definition of an op: all that is known about it. An op's identity is the address of its definition; ops/ops.def lists the names. A
 * rule that does not exist is one of the named values below, which says why; the table check refuses NULL. */
#ifndef MF_IR_OP_H
#define MF_IR_OP_H

#include "ir/build.h"
#include "ir/program.h"
#include "ir/reducer.h"

/* ---- parameters: one C struct per op, described field by field so that printing, parsing, comparing, hashing and copying are generic.
 * Every field is plain data or a pointer to something interned or counted. */
typedef enum mf_param_kind {
    MF_PARAM_INT,      /* int64_t */
    MF_PARAM_BOOL,     /* bool */
    MF_PARAM_DOUBLE,   /* double */
    MF_PARAM_DTYPE,    /* mf_dtype */
    MF_PARAM_INTS,     /* const mf_intlist *; not NULL in an equation (an empty list prints as ()) */
    MF_PARAM_EXTRA,    /* the same; omitted from the text when empty */
    MF_PARAM_NAME,     /* const char *, interned; may be NULL */
    MF_PARAM_NAMES,    /* const mf_namelist * */
    MF_PARAM_PROGRAM,  /* mf_program *, counted by the program that owns the equation */
    MF_PARAM_PROGRAMS, /* struct mf_program_list { int count; mf_program **at; } */
    MF_PARAM_RULE      /* const mf_custom_rule * (custom derivatives), counted object; prints as its name */
} mf_param_kind;

typedef struct mf_program_list {
    int count;
    mf_program **at;
} mf_program_list;

/* What a field means to code that does not know the op. */
typedef enum mf_param_role {
    MF_ROLE_NONE,
    MF_ROLE_AXES,       /* the axes over which a collective runs */
    MF_ROLE_GROUPS,     /* its groups of members, concatenated; empty: one group of all */
    MF_ROLE_GROUP_SIZE, /* the number of members of each group */
    MF_ROLE_BOUND_AXIS, /* the axis that the op binds in its nested programs */
    MF_ROLE_BOUND_SIZE, /* that axis's size */
    MF_ROLE_BATCH       /* sizes of the leading dimensions that vmap has added */
} mf_param_role;

typedef struct mf_param {
    const char *name;
    mf_param_kind kind;
    mf_param_role role;
    size_t offset;
} mf_param; /* a list ends with a NULL name */
#define MF_PARAM_AS(type, field, kind, role)      \
    {                                             \
#field, kind, role, offsetof(type, field) \
    }
#define MF_PARAM(type, field, kind) MF_PARAM_AS(type, field, kind, MF_ROLE_NONE)

/* The head of what an MF_PARAM_RULE points to; the rest is known to the transform that made it. */
typedef struct mf_custom_rule_head {
    mf_object object;
    const char *name; /* interned; for printing */
} mf_custom_rule_head;

bool mf_params_equal(const mf_op *op, const void *a, const void *b);
uint64_t mf_params_hash(const mf_op *op, const void *params);
void *mf_params_copy(mf_arena *arena, const mf_op *op, const void *params); /* retains programs and rules */
void mf_params_drop(const mf_op *op, const void *params);                   /* drops programs and rules */
/* The address of the field with this role, or NULL. */
const void *mf_params_role(const mf_op *op, const void *params, mf_param_role role);
/* The members of a collective equation, whatever its op: axes, groups, and the size of each group. */
void mf_collective_members(const mf_eqn *e, const mf_namelist **axes, const mf_intlist **groups, int64_t *group_size);
/* Nested programs in the order of the fields: their number, and the place of the i-th. NULL programs are not counted. */
int mf_params_program_count(const mf_op *op, const void *params);
mf_program **mf_params_program_at(const mf_op *op, const void *params, int index);
/* The axis environment of the nested programs: env and the axis that the op binds. */
const mf_axis_env *mf_params_env(const mf_op *op, const void *params, const mf_axis_env *env);
/* "[axes=(0), tiled=true]", programs last; nothing when the op has no params. indent: the line's, for nested programs. */
void mf_params_print(mf_text *t, const mf_op *op, const void *params, int indent);
/* The inverse: *text starts at "[" and is advanced past "]"; omitted fields are zero or the empty list. The result lives in the arena and
 * holds references like mf_params_copy's. NULL and *error on failure; NULL without an error for an op without params. */
void *mf_params_parse(mf_arena *arena, const mf_op *op, const mf_axis_env *env, const char **text, mf_error_object **error);

/* ---- arguments of the rules */
typedef struct mf_type_context { /* for a type rule */
    const mf_op *op;
    const void *params;
    int in_count;
    const mf_type *const *in;
    const mf_axis_env *env;
    int out_count;       /* set by the rule; initially 1 */
    const mf_type **out; /* room for 1; a rule with more results calls mf_type_outputs */
    mf_arena *arena;
} mf_type_context;
const mf_type **mf_type_outputs(mf_type_context *c, int count);
/* Runs the type rule of c->op on these operands, as the builder and the verifier do; fills c->in. Returns NULL or a new error. */
mf_error_object *mf_type_infer(mf_type_context *c, mf_variable *const *in);
/* An error that begins with the op's name and lists the operands' types, for rules to return. */
mf_error_object *mf_type_error(const mf_type_context *c, mf_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));

typedef struct mf_batch_context { /* for vmap */
    const char *axis_name;        /* interned; NULL when the map has no name */
    int64_t size;
    mf_builder *b;
} mf_batch_context;

typedef struct mf_partial_context mf_partial_context; /* transform/rules/partial.h */

typedef struct mf_cost {
    double flops, bytes;
} mf_cost;

typedef struct mf_kernel_builder mf_kernel_builder; /* ir/kernel.h: elementwise lowering */
typedef uintptr_t mf_kernel_value;
typedef struct mf_hlo mf_hlo; /* ir/stablehlo.h: StableHLO */
typedef struct mf_hlo_value mf_hlo_value;

typedef enum mf_op_flag {
    MF_OP_ELEMENTWISE = 1,  /* all operands and results have one shape; batch, cost and variance follow */
    MF_OP_COLLECTIVE = 2,   /* waits for the other devices of its axes: a program is cut into segments here */
    MF_OP_CONTROL = 4,      /* has nested programs that the runtime steps through */
    MF_OP_EFFECT = 8,       /* never removed or merged (check_replicated) */
    MF_OP_HOST = 16,        /* calls the host: never constant-folded; with an effect, runs in the program's order on each device */
    MF_OP_FAILS = 32,       /* may fail at run time other than for lack of memory; so may ops with an effect or that call the host */
    MF_OP_CALL = 64,        /* runs its first program once, on its operands */
    MF_OP_LOOP = 128,       /* runs its programs repeatedly */
    MF_OP_BARRIER = 256,    /* its results are its operands, one to one */
    MF_OP_SPLITS = 512,     /* its first program may get further operands and results, stacked if it runs many times */
    MF_OP_NEVER_RUN = 1024, /* a placeholder that transposition removes; if a program still has it, its evaluate reports the mistake */
} mf_op_flag;

/* Whether a result is a view: needs no memory of its own when the operands are in memory. */
typedef enum mf_view {
    MF_VIEW_NONE,      /* it needs memory */
    MF_VIEW_GENERATED, /* its elements follow from their index; needs no memory */
    MF_VIEW_STRIDES,   /* the first operand's elements under other strides */
    MF_VIEW_RESHAPE,   /* the first operand's elements, each once and in order; the same memory where the sizes in bytes agree */
} mf_view;

/* What the op's reducer reduces to one element or combines with an existing one. */
typedef enum mf_reduced {
    MF_REDUCED_NOTHING,
    MF_REDUCED_AXES,
    MF_REDUCED_PREFIXES, /* along a row */
    MF_REDUCED_WINDOWS,
    MF_REDUCED_INDICES, /* updates of the same element */
    MF_REDUCED_DEVICES
} mf_reduced;

/* What the members of a collective need from each other. */
typedef enum mf_collective_kind {
    MF_COLLECTIVE_NONE,
    MF_COLLECTIVE_REDUCE,     /* all operands, reduced */
    MF_COLLECTIVE_SCATTER,    /* each a piece of the reduced operand */
    MF_COLLECTIVE_GATHER,     /* all operands */
    MF_COLLECTIVE_ALL_TO_ALL, /* a piece of each operand */
    MF_COLLECTIVE_PERMUTE,    /* one member's operand */
    MF_COLLECTIVE_COMPARE     /* whether all operands are equal */
} mf_collective_kind;

struct mf_op {
    const char *name;
    unsigned flags;
    const mf_param *params; /* NULL: none */
    size_t params_size;
    int operands; /* the exact number, which the builder checks before the type rule; 0: the type rule checks */
    mf_view view;
    mf_reduced reduced;
    mf_reducer reducer;            /* if anything is reduced */
    mf_collective_kind collective; /* if it is a collective that exchanges data */
    int weight;                    /* of an elementwise op: the time per element, in additions; 0 means 1 */
    /* Backends may use functions or an order of summation of their own, whose results are close to the reference's. All other ops give the
     * same bits on all backends. */
    bool approximate;
    /* The number of trailing dimensions of the first operand that are computed as a unit; all leading dimensions are a batch that every
     * operand and result has. 2 for matrices, 1 for vectors; 0: no batch. */
    int unit_rank;
    /* Computes the result types. Returns NULL or a new error. */
    mf_error_object *(*type_rule)(mf_type_context *c);
    /* in: primals in the new program; tin: tangents, NULL = zero. Fills out (primals) and tout (NULL = zero). Called only when at
     * least one tangent is not NULL. */
    void (*jvp)(mf_builder *b, const mf_eqn *e, mf_variable *const *in, mf_variable *const *tin, mf_variable **out, mf_variable **tout);
    /* The equation is linear in the inputs with linear[i]; in[i] is a variable where not linear, NULL where linear. ct: cotangents
     * of the outputs, NULL = zero (at least one is not). Fills ct_in for linear inputs (NULL = zero). */
    void (*transpose)(mf_builder *b, const mf_eqn *e, const bool *linear, mf_variable *const *in, mf_variable *const *ct,
                      mf_variable **ct_in);
    /* Splits the equation into a known and an unknown part; mf_partial_eval_all_or_nothing for all but calls and control flow. */
    void (*partial_eval)(mf_partial_context *c, const mf_eqn *e);
    /* Makes a smaller equation when only some outputs are used (at least one is). False: keep it whole. True: used_in says which operands
     * remain; *params is a new struct in mf_alloc'ed memory that holds a reference on each of its programs and rules (the caller emits the
     * equation with it, then drops and frees it); and the new equation has the used outputs in order, or all of them. */
    bool (*dce)(const mf_eqn *e, const bool *used_out, bool *used_in, const void **params);
    /* in_axis[i]: the batch dimension of in[i], -1 = not batched. Fills out and out_axis. */
    void (*batch)(mf_batch_context *c, const mf_eqn *e, mf_variable *const *in, const int *in_axis, mf_variable **out, int *out_axis);
    /* Declared variance: bit k of a mask is set if the value varies over the k-th binder of env, counted from the outermost. */
    void (*variance)(const mf_eqn *e, const mf_axis_env *env, const uint64_t *in, uint64_t *out);
    mf_cost (*cost)(const mf_eqn *e);
    /* The native engine's scalar or vector lowering of an elementwise op: takes one value per operand and returns the result.
     * mf_lower_none: not elementwise; the engine has a kernel of its own or uses evaluate. */
    mf_kernel_value (*lower)(mf_kernel_builder *k, const mf_eqn *e, const mf_kernel_value *in);
    /* StableHLO: appends the operations and fills out. hlo: for mf_hlo_by_name the operation, for mf_hlo_none the reason why there is
     * none. */
    void (*stablehlo)(mf_hlo *h, const mf_eqn *e, const mf_hlo_value *in, mf_hlo_value *out);
    const char *hlo;
    /* The reference: plain loops over contiguous operands, results preallocated. mf_evaluate_by_runtime for control flow and collectives,
     * which the runtime steps through. */
    mf_error_object *(*evaluate)(const mf_eqn *e, const void *const *in, void *const *out);
    /* Texts for the table-driven tests, ending with NULL: "[axes=(0,)] f32[3,4]{0.1:2}". After a type: {lo:hi} the range of random values,
     * {=1,2,3} exact values; after "->" exact expected results, "-> i32[2]{=5,-1}". Grammar: tests/ops/README.md. */
    const char *const *samples;
};

/* ---- named defaults */
mf_error_object *mf_type_like_first(mf_type_context *c); /* the result has the first operand's type; all operands must be alike */
void mf_jvp_zero(mf_builder *b, const mf_eqn *e, mf_variable *const *in, mf_variable *const *tin, mf_variable **out,
                 mf_variable **tout); /* no tangent: integers, comparisons */
void mf_jvp_linear(mf_builder *b, const mf_eqn *e, mf_variable *const *in, mf_variable *const *tin, mf_variable **out,
                   mf_variable **tout); /* linear in all operands together */
void mf_transpose_none(mf_builder *b, const mf_eqn *e, const bool *linear, mf_variable *const *in, mf_variable *const *ct,
                       mf_variable **ct_in); /* not linear: transposing it is an error that names the op */
void mf_partial_eval_all_or_nothing(mf_partial_context *c, const mf_eqn *e);
bool mf_dce_whole(const mf_eqn *e, const bool *used_out, bool *used_in, const void **params);
/* Moves every batch dimension to the front and broadcasts the unbatched operands. Right for ops whose params hold unchanged with one more
 * leading axis. */
void mf_batch_elementwise(mf_batch_context *c, const mf_eqn *e, mf_variable *const *in, const int *in_axis, mf_variable **out,
                          int *out_axis);
void mf_variance_join(const mf_eqn *e, const mf_axis_env *env, const uint64_t *in, uint64_t *out);
mf_cost mf_cost_elementwise(const mf_eqn *e); /* one flop per output element */
mf_cost mf_cost_bytes(const mf_eqn *e);       /* reads its operands, writes its results, no flops */
mf_kernel_value mf_lower_none(mf_kernel_builder *k, const mf_eqn *e, const mf_kernel_value *in);
mf_error_object *mf_evaluate_by_runtime(const mf_eqn *e, const void *const *in, void *const *out);

/* ---- the table (ops/table.c) */
int mf_op_count(void);
const mf_op *mf_op_at(int index);
const mf_op *mf_op_find(const char *name, int length); /* NULL when unknown */

#endif
