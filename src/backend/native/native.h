/* What the files of the native engine share. A segment becomes a list of steps over values, which lie in operands, results, constants or
 * one block of scratch memory planned at compile time.
 *
 * The way of a compilation: make_steps.c walks the equations and makes units - fused groups of elementwise equations (fusion/fuse.c,
 * lower.c) and steps with a kernel of their own (products/ and steps/, else steps/evaluate.c); buffer_assignment.c orders the units and
 * places the values; fusion/fused_loop.c turns groups into steps; fusion/row_fusion.c joins steps over the same rows (row_fusion_plan.c,
 * llvm/emit/emit_rows.c). Both begin with tile kernels; llvm/tier_up.c has the rest of llvm/ make machine code for them. A loop over
 * rather small values is a step too (fusion/loop_step.c), and one function in the end (llvm/emit/emit_loop.c).
 * Invariants: a finished kernel is immutable but for its steps' tiers (llvm/tier_up.c); a step reads and writes only its values and its
 * own piece of scratch. */
#ifndef MF_BACKEND_NATIVE_NATIVE_H
#define MF_BACKEND_NATIVE_NATIVE_H

#include "backend/native/fusion/layout.h"
#include "base/vector.h"
#include "runtime/compile/segment_compiler.h"

/* ------------------------------------------------------------------ steps */

typedef struct mf_native_step mf_native_step;

/* What a step can do that goes over rows: equal leading parts of all that it makes. */
typedef struct mf_row_parts {
    int64_t (*rows)(const mf_native_step *s); /* of a reduction: how many it reduces; NULL or 0: any number that `can` accepts */
    bool (*can)(const mf_native_step *s, int64_t rows);
    /* Whether row r of its results needs of operand k no more than the r-th of `rows` equal parts of that operand's memory. */
    bool (*inside)(const mf_native_step *s, int k, int64_t rows, int64_t elements);
    const struct mf_group_plan *(*group)(const mf_native_step *s); /* NULL: it is no group of loops */
    mf_reducer (*fold)(const mf_native_step *s);                   /* of a reduction. Both are missing where a step is neither */
    /* Rows [from, to) alone. values point to where row 0 is or would be; scratch as for run, and nobody else's. False: out of memory. */
    bool (*run)(const mf_native_step *s, void *const *values, char *scratch, int64_t rows, int64_t from, int64_t to);
    size_t (*scratch)(const mf_native_step *s); /* what `run` needs, where that is not scratch_bytes */
    /* Before the rows begin: fills values[s->prepared], of so many bytes, from operands that no joined step makes. False: out of memory.
     * May be NULL, or ask for no bytes; then it does not fill. */
    size_t (*prepared_bytes)(const mf_native_step *s);
    bool (*prepare)(const mf_native_step *s, void *const *values, char *scratch);
    int64_t block_bytes; /* of a step that works long on a row: how much of the rows may be at hand; 0: little */
    /* Of a fold over all rows, whose result is no row's: `run` puts what rows come to into values[s->prepared], and when all rows are done
     * `finish` makes the result of it. It takes the rows in multiples of `unit`, and has those of one multiple of `span` in order; both are
     * powers of two, and 1 where they are NULL. `finish` is NULL where results go by rows. */
    int64_t (*unit)(const mf_native_step *s, int64_t rows);
    int64_t (*span)(const mf_native_step *s, int64_t rows);
    bool (*finish)(const mf_native_step *s, void *const *values); /* false: out of memory */
} mf_row_parts;

/* What a step computes, for llvm/repeat.c, which makes one function of a loop and all steps in it. Elements are counted from where a value
 * begins in its memory; `place` says which one of an operand goes into an element of the result. */
typedef enum mf_form_kind {
    MF_FORM_GROUP,
    MF_FORM_COPY,    /* the operand, of this type */
    MF_FORM_FOLD,    /* place(s, 0, result, k) for k < length, in the order of kernels/reduce.inc */
    MF_FORM_PRODUCT, /* place(s, operand, result, k): sums of products in 16 lanes or in one */
    MF_FORM_MOVE,    /* place(s, operand, result, 0), or -1: it comes of another one, the last one that has a place for it */
    MF_FORM_SLICE,   /* place(s, 0, result, 0) behind where the starts say */
    MF_FORM_UPDATE,  /* operand 0, but place(s, 1, k, 0) at place(s, 0, k, 0) behind where the starts say */
    MF_FORM_LOOP
} mf_form_kind;
typedef struct mf_form {
    mf_form_kind kind;
    const struct mf_group_plan *group;
    const struct mf_loop_plan *loop;
    const mf_type *type;
    mf_reducer fold;
    int lanes;
    mf_dtype dtype;        /* in which products are computed */
    int64_t count, length; /* of results; of what each is made of. Update: of the update's elements */
    int first_start;       /* operands from here on are starts, one a dimension of operand 0 */
    const int64_t *worth;  /* by dimension: how many elements of operand 0 a start is worth */
    int64_t most[MF_RANK]; /* the greatest start */
    int64_t (*place)(const mf_native_step *s, int operand, int64_t result, int64_t k);
} mf_form;

/* What a step of a loop's body makes, once before the first round, of an operand that is the same in all rounds: where such a step's
 * `prepared` is not 0, values[prepared] is that. */
typedef struct mf_step_held {
    int operand;
    size_t (*bytes)(const mf_native_step *s);
    void (*make)(const mf_native_step *s, const void *operand, void *to); /* to: 64-byte aligned */
} mf_step_held;

struct mf_native_step {
    mf_error_object *(*run)(const mf_native_step *s, void *const *values, char *scratch);
    const mf_eqn *eqn;                                 /* the one it stands for, or NULL */
    const mf_row_parts *parts;                         /* NULL: it runs as a whole only */
    const mf_step_held *held;                          /* NULL: it makes nothing before a loop's rounds */
    void (*form)(const mf_native_step *s, mf_form *f); /* f is zero; NULL: a loop around it is not compiled */
    bool flat; /* parts->run takes any number of "rows": all that it makes and reads, once more behind it */
    int in_count, out_count;
    int *in, *out; /* values */
    int prepared;  /* the value that parts->prepare or held->make fills */
    const int
        *overwrites; /* by result: one plus the operand whose memory it may take over when nobody reads it afterwards, or 0; or NULL */
    size_t scratch_bytes, scratch_offset;
    struct mf_tier_up *up; /* llvm/tier_up.c; NULL: there is one tier */
    double cost;           /* nanoseconds */
};

/* Of a step with one result, which may lie where operand 0 lay. */
extern const int mf_overwrites_first[];

/* Element `offset` on of an operand, whose dtype has this size. */
static inline const char *mf_step_in(const mf_native_step *s, void *const *values, int i) { return values[s->in[i]]; }
static inline char *mf_step_out(const mf_native_step *s, void *const *values, int o) { return values[s->out[o]]; }

/* ------------------------------------------------------------------ groups: straight lines of primitive operations over n elements */

typedef enum mf_graph_kind {
    MF_NODE_LOAD,
    MF_NODE_IOTA,
    MF_NODE_CONSTANT,
    MF_NODE_CALL,
    MF_NODE_SELECT,
    MF_NODE_CONVERT,
    MF_NODE_BITCAST
} mf_graph_kind;

/* Values are of their stored dtype; f16 and bf16 are converted to f32 before arithmetic and back after each equation. */
typedef struct mf_node {
    mf_graph_kind kind;
    mf_dtype dtype;
    const char *name; /* of a call: a name that mf_tile_lookup knows; comparisons too */
    int weight;       /* the row's of that name */
    int in_count, in[3];
    int64_t bits;       /* of a constant, in its dtype */
    int var;            /* load: the variable whose memory is read */
    mf_layout layout;   /* load, iota: over n elements in the shape of layout.dims; an iota's element is its offset there */
    int out_var;        /* the variable in whose memory it is stored, or -1 */
    int f32, f16, bf16; /* itself, converted; -1: not needed so far */
    bool is_bf16;       /* of f32: a value that bf16 has; of a conversion to bf16: from such a one, so that nothing is rounded */
} mf_node;

typedef struct mf_group {
    int64_t n;
    bool complex;       /* of complex numbers and their parts: groups of others keep to themselves, because they can have loops */
    mf_factors factors; /* refine the shapes of all loads */
    int count, capacity;
    mf_node *nodes; /* operands first */
} mf_group;

/* ------------------------------------------------------------------ compilation */

typedef enum mf_var_kind {
    MF_VAR_MEMORY, /* an operand, a constant, or a step's result */
    MF_VAR_VIEW,   /* lies in `root`'s memory as `layout` says; nothing has been made for it */
    MF_VAR_IOTA,   /* likewise, but the elements are the offsets of `layout` themselves */
    MF_VAR_NODE,   /* computed in a group; stored only when somebody asks */
} mf_var_kind;

typedef struct mf_var_state {
    mf_var_kind kind;
    int root;
    mf_layout layout; /* view, iota */
    int unit;         /* memory, node: who makes it; -1: an input or constant */
    int node;         /* in its unit's group, also once it is stored; or -1 */
    int reader;       /* one plus the last group that reads it, 0: none */
    int alias;        /* memory: begins `alias_bytes` into this variable's memory, or -1 */
    int64_t alias_bytes;
    const mf_eqn *only_reader; /* NULL: none, several, or a result of the program */
    int after;                 /* a barrier's unit that who reads it has to wait for, or -1 */
} mf_var_state;

typedef struct mf_unit {
    mf_group *group;      /* or */
    mf_native_step *step; /* what `in` and `out` name are variables until memory.c numbers the values */
    bool dead;            /* merged into another */
    bool barrier;         /* only there to be depended on */
} mf_unit;

typedef struct mf_build {
    const mf_program *program;
    mf_arena *arena;    /* of the kernel */
    int fixed;          /* so many inputs, the first ones, are the same in all rounds of the loop whose body this is */
    mf_var_state *vars; /* by variable; then one for each result that is a copy, and those of `own` */
    mf_variable **own;  /* what steps hand to each other that is no variable of the program */
    int own_count, own_most;
    int unit_count, unit_capacity, dep_capacity;
    mf_unit *units;
    size_t words;                   /* of a row of `depends` */
    uint64_t *depends;              /* unit by unit: on which units it depends, also through others */
    MF_VECTOR(int) after;           /* barriers that the equation at hand waits for */
    struct mf_native_kernel *inner; /* kernels that steps run */
    struct mf_held *held;
    mf_error_object *error;
} mf_build;

/* What the kernel's steps use beside its arena: let go of with the kernel. */
typedef struct mf_held {
    struct mf_held *next;
    void (*let_go)(void *object);
    void *object;
} mf_held;
bool mf_build_hold(mf_build *b, void (*let_go)(void *object), const void *object); /* false: b->error, and it is let go of */
void *mf_build_get(mf_build *b, size_t count, size_t size); /* zeroed, from the arena; NULL and an error when memory is out */
/* The variable's elements will be in memory, row by row. False: out of memory. */
bool mf_build_materialise(mf_build *b, mf_variable *v);
/* Where a variable's elements can be read: in root's memory (materialised by this call) with this layout. */
bool mf_build_read(mf_build *b, mf_variable *v, mf_variable **root, mf_layout *layout);
/* Appends a step for e (NULL is passed through as an error). It reads in[] and makes out[] (memory of their own). */
bool mf_build_step(mf_build *b, mf_native_step *s, mf_variable *const *in, int in_count, mf_variable *const *out, int out_count);
/* A variable for what two steps know of each other; its producer is the equation whose step makes it. At most one for each
 * select_and_scatter_add. */
mf_variable *mf_build_own(mf_build *b, const mf_type *t, mf_eqn *producer);
const mf_type *mf_build_type(const mf_build *b, int var);
/* A step of `size` bytes that starts like mf_native_step. */
void *mf_step_new(mf_build *b, size_t size, const mf_eqn *e);
int mf_unit_new(mf_build *b);
void mf_unit_depend(mf_build *b, int unit, int on);
static inline bool mf_unit_depends(const mf_build *b, int unit, int on)
{
    return b->depends ? b->depends[(size_t)unit * b->words + (size_t)on / 64] >> (on % 64) & 1 : on < unit;
}

/* fuse.c: e becomes part of a group; false: it cannot (or memory is out: b->error). */
bool mf_fuse(mf_build *b, const mf_eqn *e);
void mf_fuse_copy(mf_build *b, mf_variable *v); /* stores a view or iota: a group of one load */
/* lower.c: appends e's operations on these nodes; the result's node, or -1 when some operation has no kernel. */
int mf_lower(mf_build *b, mf_group *g, const mf_eqn *e, const int *in);
bool mf_touches_complex(const mf_eqn *e);                          /* an operand or the result is complex: its kernel has the row's name */
int mf_node_append(mf_build *b, mf_group *g, const mf_node *node); /* -1: out of memory */

/* Steps with kernels of their own: true when made (or failed: b->error), false when not theirs. */
bool mf_build_dot(mf_build *b, const mf_eqn *e);
bool mf_build_integer_dot(mf_build *b, const mf_eqn *e);
bool mf_build_conv(mf_build *b, const mf_eqn *e);
bool mf_build_pool(mf_build *b, const mf_eqn *e);
bool mf_build_window(mf_build *b, const mf_eqn *e);
/* A window reaches so far beyond the operand that nothing but the row's own evaluation, which keeps to what is inside, ends in time. */
bool mf_window_reaches_far(const mf_eqn *e, const mf_type *operand);
bool mf_build_reduce(mf_build *b, const mf_eqn *e);
bool mf_build_cut(mf_build *b, const mf_eqn *e);
bool mf_build_index(mf_build *b, const mf_eqn *e);
bool mf_build_line(mf_build *b, const mf_eqn *e);
bool mf_build_sort(mf_build *b, const mf_eqn *e);
bool mf_build_top_k(mf_build *b, const mf_eqn *e);
bool mf_build_loop(mf_build *b, const mf_eqn *e);
void mf_build_evaluate(mf_build *b, const mf_eqn *e);
void mf_build_program(mf_build *b); /* all equations, then the program's outputs are in memory */

/* conv_zeros.c: what the zeros in a convolution's padding and between its dilated elements add, when the kernel is not finite. */
typedef struct mf_conv_zeros {
    const mf_eqn *eqn;
    mf_layout kernel; /* of operand 1 in the memory that holds it */
    int spatial;
    int64_t in[MF_RANK], window[MF_RANK], out[MF_RANK];
    bool some, hidden; /* a place of the kernel misses the elements at some place of the result; at all of them */
} mf_conv_zeros;
void mf_conv_zeros_plan(mf_conv_zeros *z, const mf_eqn *e, const mf_layout *kernel);
/* After the convolution wrote the images [from, to); `kernel` is the whole memory, of kernel_count elements. */
void mf_conv_zeros_apply(const mf_conv_zeros *z, const void *kernel, int64_t kernel_count, void *out, int64_t from, int64_t to);
/* The same where the sum is over operand 0's features, in parts that are added: after a part, of features [from, to), which lie together in
 * the kernel, gave `made`, what is to be spoiled is marked in so many bytes, and carried out on the result. */
size_t mf_conv_zeros_marks(const mf_conv_zeros *z); /* 0: there is nothing to do */
void mf_conv_zeros_mark(const mf_conv_zeros *z, const void *kernel, int64_t from, int64_t to, const float *made, int64_t count,
                        char *marks);
void mf_conv_zeros_apply_marks(const mf_conv_zeros *z, const char *marks, void *out);

/* dump.c: the units on stderr, one a line: what MF_DUMP=fuse asks for. */
void mf_native_dump(const mf_build *b);

/* steps/group.c: the step of a finished group. in_place[k]: out k may share memory with load's variable in_place[k], or -1. */
mf_native_step *mf_group_step(mf_build *b, mf_group *g);
bool mf_group_copies(const mf_native_step *s); /* it is such a step, and only moves elements */
/* Whether the group may overwrite the memory of `var` with the values of its store to `out`: the same elements at the same places. */
bool mf_group_in_place(const mf_group *g, int var, int out_dtype_size, const mf_program *p);

/* ------------------------------------------------------------------ groups, finished */

typedef struct mf_load {
    int slot;       /* in step->in; -1: iota */
    int64_t offset; /* elements */
    int64_t strides[MF_FACTORS];
    bool flat, splat; /* element i is at offset + i; all are at offset */
} mf_load;

typedef struct mf_group_plan {
    const mf_group *group;
    int64_t n;
    int rank;
    int64_t dims[MF_FACTORS]; /* factors, with neighbours joined where all loads allow it */
    mf_load *loads;           /* by node */
    int *out_slot;            /* by node: in step->out, or -1 */
} mf_group_plan;

/* A compiled loop nest: iterations [from, to) of mf_loop_rows, see llvm/emit.c. in, out: pointers by slot. */
typedef void mf_loop_fn(void *const *in, void *const *out, int64_t from, int64_t to);
int64_t mf_loop_rows(const mf_group_plan *plan);

/* llvm/loops.c. The text of a loop nest, with its memory; it calls the function mf_loop. */
typedef struct mf_loop_text {
    mf_text text;
    uint64_t hash;
} mf_loop_text;
typedef bool mf_loop_writer(const void *what, mf_loop_text *t); /* false: memory is out, or there is no text */
struct mf_rows_plan;
bool mf_llvm_can(const mf_group *g); /* there is a text */
bool mf_llvm_can_rows(const struct mf_rows_plan *plan);
bool mf_llvm_can_sum(const mf_form *f); /* of a product or fold, within a loop */
bool mf_loop_write(const mf_group_plan *plan, mf_loop_text *t);
void mf_loop_text_free(mf_loop_text *t);
/* Loops that were compiled, by their texts. Who gets one lets go of it; up to mf_loop_cache_most are kept that nobody uses. */
typedef struct mf_cached_loop {
    mf_loop_fn *run; /* NULL: LLVM cannot compile it */
    uint64_t hash;
    char *text;
    void *code;   /* llvm.c's */
    int64_t last; /* when it was got last, in gets */
    int users;    /* guarded by the table's lock, as `last` is */
} mf_cached_loop;
mf_cached_loop *mf_loop_make(const mf_loop_text *t);                    /* compiled now unless it is known; NULL: memory is out */
mf_cached_loop *mf_loop_known(mf_loop_writer *write, const void *what); /* compiled before, or NULL; waits for no compilation */
void mf_loop_let_go(mf_cached_loop *l);                                 /* NULL: nothing */
int mf_loop_cache_count(void);
extern _Atomic int mf_loop_cache_most; /* for tests */

/* llvm/tier_up.c: two tiers. Tile kernels run at once; a compiled loop replaces them, which gives the same bits. */
typedef enum mf_tiers {
    MF_TIERS_AS_ASKED,   /* MF_COMPILE_TIER; in the background when it says nothing */
    MF_TIERS_BACKGROUND, /* the second, made by a thread of its own, once the first has been at work for a while */
    MF_TIERS_FIRST,      /* tile kernels only */
    MF_TIERS_SECOND,     /* loops at once, where they pay */
    MF_TIERS_LOOPS,      /* loops at once, wherever there is a text, however small */
} mf_tiers;
extern _Atomic mf_tiers mf_native_tiers; /* for tests: what compilations from now on do */

typedef struct mf_tier_up {     /* a step's; immutable but for the atomics and the queue's part */
    _Atomic(mf_loop_fn *) loop; /* NULL: the first tier */
    mf_cached_loop *held;       /* that it is of; guarded by the queue's lock once the step runs */
    _Atomic int64_t spent;      /* nanoseconds in the first tier, estimated */
    int64_t each;               /* of a run; 0: there is no second tier to come */
    mf_loop_writer *write;
    const void *what;
    struct mf_tier_up *next; /* waiting, as the queue's lock allows */
} mf_tier_up;
typedef struct mf_tier_up_hints {
    double cost; /* nanoseconds of a run in the first tier */
    bool pays;   /* the loop is worth its compilation if the program runs long */
    bool soon;   /* even if it runs a few times only */
    bool large;  /* its text takes milliseconds to write: whether it is known already is asked once it is hot */
} mf_tier_up_hints;
bool mf_tier_up_wanted(mf_tier_up_hints hints); /* the mode asks for a second tier, now or later */
/* Does what the mode asks for. False: there is and will be no second tier. `what` lives as long as the step, with whose kernel it ends. */
bool mf_tier_up_begin(mf_build *b, mf_tier_up *t, mf_loop_writer *write, const void *what, mf_tier_up_hints hints);
void mf_tier_up_ask(mf_tier_up *t);
void mf_tier_up_drain(void); /* waits until nothing is waiting to be compiled; for tests */
enum { MF_TIER_UP_AFTER = 2000000 };
/* A run of `part` of `whole` in the first tier begins. One of all crosses the line. */
static inline void mf_tier_up_count(mf_tier_up *t, int64_t part, int64_t whole)
{
    if (!t->each || atomic_load_explicit(&t->spent, memory_order_relaxed) >= MF_TIER_UP_AFTER)
        return;
    int64_t took = 1 + (part == whole ? t->each : (int64_t)((double)t->each * (double)part / (double)whole));
    int64_t before = atomic_fetch_add_explicit(&t->spent, took, memory_order_relaxed);
    if (before < MF_TIER_UP_AFTER && before + took >= MF_TIER_UP_AFTER)
        mf_tier_up_ask(t);
}
static inline mf_loop_fn *mf_tier_up_loop(mf_tier_up *t) { return atomic_load_explicit(&t->loop, memory_order_acquire); }
struct mf_compiler_counters;
void mf_tier_up_counters(struct mf_compiler_counters *out);

bool mf_native_avx512(void); /* all_reduce.c: the kernels' instruction set */

bool mf_native_runs_here(void); /* all_reduce.c */
/* native.c: mf_parallel_for and mf_parallel_for_brief, here without their header. */
void mf_native_parallel(int64_t count, void (*fn)(void *context, int64_t index), void *context);
void mf_native_parallel_brief(int64_t count, void (*fn)(void *context, int64_t index), void *context);
bool mf_native_all_reduce(mf_reducer how, mf_dtype dtype, const void *const *in, int n, void *out, int64_t count, int64_t from, int64_t to);

/* steps/copy.c: as mf_copy_strided, helped by idle workers; at most MF_FACTORS axes. mf_native_move: bytes that lie together or are in
 * place. */
void mf_native_copy(int rank, const int64_t *dims, int element, void *out, const int64_t *to, const void *in, const int64_t *from);
void mf_native_move(void *out, const void *in, int64_t bytes);
/* Where element number i of a copy, row by row, comes from: bytes, as `from` has them. */
static inline int64_t mf_place_in_copy(int rank, const int64_t *dims, const int64_t *from, int64_t i)
{
    int64_t bytes = 0;
    for (int d = rank - 1; d >= 0; i /= dims[d--])
        bytes += i % dims[d] * from[d];
    return bytes;
}
void mf_native_fill(void *out, int64_t count, int element, const void *value);

void mf_native_convert(mf_dtype to, void *out, mf_dtype from, const void *in, int64_t count); /* dtypes that have a tile kernel */

/* fusion/row_fusion_plan.c: joined steps as one graph over a row. Nodes of a row have one value a row (what is reduced, and what follows
 * from it), the others one for each of its columns. A row is gone through in phases: what needs a reduction's result comes in a phase
 * behind it. */
typedef struct mf_rows_node {
    bool row, reduces; /* a reduction has one operand and is of the row */
    mf_reducer fold;
    int phase;
    int load, store;                           /* values, or -1 */
    int64_t offset, row_stride, column_stride; /* of loads and iotas, in elements */
    int buffer;                                /* bytes from the start of a row's buffers where it is kept for later phases, or -1 */
} mf_rows_node;

typedef struct mf_rows_plan {
    mf_group group;
    mf_rows_node *nodes; /* by node of the group */
    int64_t rows, columns;
    int phases, value_count;
    int at_once;         /* rows that go through a phase before the next phase begins; a power of two */
    size_t buffer_bytes; /* of a row */
} mf_rows_plan;
/* The plan of steps whose operands and results are numbers below value_count, of which those `outside` are in memory. NULL when they
 * are not of that form, when a loop of it has no text, or b->error. */
mf_rows_plan *mf_rows_plan_make(mf_build *b, mf_native_step *const *parts, int part_count, int64_t rows, int value_count,
                                const bool *outside);
bool mf_rows_keeps(const mf_rows_plan *plan, int node, int phase);  /* in that phase it is read from memory: made before, and kept */
bool mf_loop_write_rows(const mf_rows_plan *plan, mf_loop_text *t); /* llvm/loops.c; the loop's `in` are the values, `out` the buffers */

/* steps/rows.c: joins steps over the same rows, so that what they hand on to each other stays in the cache. */
typedef struct mf_steps {
    int count, var_count;
    mf_native_step **at;  /* in an order in which they can run; operands and results are variables */
    int *unit;            /* by step; -1: none */
    int *barriers;        /* by step: how many barriers stand before it */
    const int *root;      /* by variable: in whose memory it lies */
    const int64_t *shift; /* by variable: bytes from there */
    const int64_t *bytes; /* by variable */
    const bool *kept;     /* by variable: a root that somebody reads afterwards */
} mf_steps;
void mf_rows_join(mf_build *b, mf_steps *steps);
/* When steps are joined: where it pays, wherever it can be, or never. For tests; set before compiling. */
typedef enum mf_rows_use { MF_ROWS_WHERE_IT_PAYS, MF_ROWS_ALWAYS, MF_ROWS_NEVER } mf_rows_use;
extern mf_rows_use mf_native_rows_use;

/* memory.c */
typedef enum mf_value_place { MF_PLACE_INPUT, MF_PLACE_OUTPUT, MF_PLACE_SCRATCH, MF_PLACE_CONSTANT } mf_value_place;
typedef struct mf_native_value {
    mf_value_place place;
    int index;        /* of the input or output */
    int64_t offset;   /* bytes from there */
    const void *data; /* of a constant */
} mf_native_value;

typedef struct mf_native_plan {
    int step_count, value_count;
    mf_native_step **steps;
    mf_native_value *values;
    size_t scratch_bytes;
    int *alias; /* by output */
    int literal_count;
    mf_literal **literals; /* constants that are held */
    double cost;
    mf_kernel_work work;
} mf_native_plan;
/* Orders the units, places the values, numbers the steps' operands. b->error on failure. */
void mf_native_place(mf_build *b, const bool *donatable, mf_native_plan *plan);

/* ------------------------------------------------------------------ kernels */

typedef struct mf_native_kernel {
    mf_kernel kernel;
    mf_arena arena;      /* all below */
    mf_program *program; /* the steps' equations */
    mf_native_plan plan;
    mf_held *held;
    struct mf_native_kernel *inner, *next; /* those its steps run, owned; the next one of those of another kernel */
    bool flat; /* one step, which treats the elements of several runs that lie one after the other as those of one */
} mf_native_kernel;

/* A kernel for a step of b, which owns it; the first `fixed` inputs are the same in all runs of a loop over it. NULL: b->error. */
mf_native_kernel *mf_native_compile_inner(mf_build *b, const mf_program *p, int fixed);
void mf_native_drop_inner(mf_build *b); /* the newest, which no step runs */
/* Where the values of a run lie, of which there are plan.value_count; then the run. */
void mf_native_find_values(const mf_native_kernel *k, const void *const *in, void *const *out, char *scratch, void **values);
static inline mf_error_object *mf_native_run_steps(const mf_native_kernel *k, void *const *values, char *scratch)
{
    mf_error_object *error = NULL;
    for (int i = 0; i < k->plan.step_count && !error; i++)
        error = k->plan.steps[i]->run(k->plan.steps[i], values, scratch);
    return error;
}

/* steps/loop.c: loops over small values run as steps; others are the runtime's. */
bool mf_native_takes_loop(const mf_eqn *e);
/* fusion/loop_rows.c: the body for the first of *parts equal parts of the rows that all but its first `consts` inputs and all results have
 * along their first dimension; NULL: it cannot be cut, rows are too few, or b->error. The caller drops it. */
mf_program *mf_loop_cut_rows(mf_build *b, const mf_program *body, int64_t consts, int *parts);
typedef struct mf_loop_plan {
    const mf_native_kernel *cond, *body; /* cond NULL: a scan */
    int cond_consts, body_consts, carry;
    int64_t length; /* of a scan */
    bool reverse;   /* of a scan */
} mf_loop_plan;
bool mf_loop_write_repeat(const mf_loop_plan *plan, mf_loop_text *t); /* llvm/loops.c; runs the rounds [from, to) of a scan */

#endif
