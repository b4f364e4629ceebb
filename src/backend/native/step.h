/* Steps: a kernel of the native engine is a list of them. A step is one loop, or one call of a leaf kernel, over values in memory.
 * Invariants: a step is immutable except for its tier (llvm/tier_up.h), and reads and writes only its values and its own part of scratch.
 *
 * A new kind of step is a file in steps/ or products/: a struct that begins with mf_native_step, a `run`, and a function mf_build_...
 * (segment_build.h) that recognises its equations. Optionally a step also has `parts`, which run it row by row, so that steps over the
 * same rows can be joined (fusion/rows/row_fusion.h); `form`, which describes what it computes, so that a loop around it can become
 * machine code; and `hoisted`, which it makes once before a loop's rounds. */
#ifndef MF_BACKEND_NATIVE_STEP_H
#define MF_BACKEND_NATIVE_STEP_H

#include "ir/op.h"
#include "runtime/compile/segment_compiler.h"

typedef struct mf_native_step mf_native_step;

/* How a step runs by rows, which are equal leading parts of all of its results. */
typedef struct mf_row_parts {
    int64_t (*rows)(const mf_native_step *s); /* that a reduction reduces; NULL or 0: any number that `can` accepts */
    bool (*can)(const mf_native_step *s, int64_t rows);
    /* Whether row r of its results needs of operand k only the r-th of `rows` equal parts of that operand's memory. */
    bool (*inside)(const mf_native_step *s, int k, int64_t rows, int64_t elements);
    const struct mf_group_plan *(*group)(const mf_native_step *s); /* NULL: not a group */
    mf_reducer (*fold)(const mf_native_step *s);                   /* the reducer of a reduction; NULL: not a reduction */
    /* Runs rows [from, to). values point to where row 0 is or would be; scratch as for run, for this call alone. False: out of memory. */
    bool (*run)(const mf_native_step *s, void *const *values, char *scratch, int64_t rows, int64_t from, int64_t to);
    size_t (*scratch)(const mf_native_step *s); /* bytes that `run` needs, if not scratch_bytes */
    /* prepare runs before the rows, and fills values[s->prepared], of prepared_bytes, from operands that no joined step makes. False:
     * out of memory. It may be NULL, and prepared_bytes may give 0; then nothing is filled. */
    size_t (*prepared_bytes)(const mf_native_step *s);
    bool (*prepare)(const mf_native_step *s, void *const *values, char *scratch);
    int64_t block_bytes; /* of a step that works on a row for long: the bytes of rows to keep in cache; 0: few */
    /* For a fold over all rows, whose result does not belong to a row: `run` puts partial results of rows into values[s->prepared], and
     * after all rows `finish` makes the result of them. Rows come in multiples of `unit`, and those of one multiple of `span` come in
     * order; both are powers of two, and 1 if NULL. `finish` is NULL where results go by rows. */
    int64_t (*unit)(const mf_native_step *s, int64_t rows);
    int64_t (*span)(const mf_native_step *s, int64_t rows);
    bool (*finish)(const mf_native_step *s, void *const *values); /* false: out of memory */
} mf_row_parts;

/* What a step computes, for llvm/emit/repeat.c, which compiles a loop with all of its steps into one function. Elements are counted from
 * the beginning of a value in its memory; `place` says which element of an operand goes into an element of the result. */
typedef enum mf_form_kind {
    MF_FORM_GROUP,
    MF_FORM_COPY,    /* the operand; `type`: its type */
    MF_FORM_FOLD,    /* place(s, 0, result, k) for k < length, in the order of kernels/reduce/reduce.inc */
    MF_FORM_PRODUCT, /* place(s, operand, result, k): sums of products in 16 lanes or in one */
    MF_FORM_MOVE,    /* place(s, operand, result, 0), or -1 if it comes from another operand; the last operand that has a place counts */
    MF_FORM_SLICE,   /* place(s, 0, result, 0), offset by the starts */
    MF_FORM_UPDATE,  /* operand 0, but place(s, 1, k, 0) at place(s, 0, k, 0), offset by the starts */
    MF_FORM_LOOP
} mf_form_kind;
typedef struct mf_form {
    mf_form_kind kind;
    const struct mf_group_plan *group;
    const struct mf_loop_plan *loop;
    const mf_type *type;
    mf_reducer fold;
    int lanes;
    mf_dtype dtype;        /* for the arithmetic of products */
    int64_t count, length; /* count: of results; length: of what each result combines. Update: count of the update's elements */
    int first_start;       /* operands from here on are starts, one per dimension of operand 0 */
    const int64_t *worth;  /* by dimension: how many elements of operand 0 a start of 1 skips */
    int64_t most[MF_RANK]; /* the greatest start */
    int64_t (*place)(const mf_native_step *s, int operand, int64_t result, int64_t k);
} mf_form;

/* What a step of a loop's body makes once, before the first round, from an operand that is the same in all rounds (loop-invariant code
 * motion). If the step's `prepared` is not 0, values[prepared] is the result. */
typedef struct mf_step_hoisted {
    int operand;
    size_t (*bytes)(const mf_native_step *s);
    void (*make)(const mf_native_step *s, const void *operand, void *to); /* to: 64-byte aligned */
} mf_step_hoisted;

struct mf_native_step {
    mf_error_object *(*run)(const mf_native_step *s, void *const *values, char *scratch);
    const mf_eqn *eqn;                                 /* the equation that it computes, or NULL */
    const mf_row_parts *parts;                         /* NULL: it runs as a whole only */
    const mf_step_hoisted *hoisted;                    /* NULL: nothing is hoisted */
    void (*form)(const mf_native_step *s, mf_form *f); /* f is zeroed; NULL: a loop around the step is not compiled */
    bool flat; /* parts->run accepts any number of "rows": copies of all that it reads and makes, one behind the other */
    int in_count, out_count;
    int *in, *out;         /* values */
    int prepared;          /* the value that parts->prepare or hoisted->make fills */
    const int *overwrites; /* by result: 1 + the operand whose memory it may take over if that dies here, or 0; or NULL */
    size_t scratch_bytes, scratch_offset;
    struct mf_tier_up *up; /* llvm/tier_up.c; NULL: there is one tier */
    double cost;           /* nanoseconds */
};

/* `overwrites` of a step with one result, which may take over operand 0. */
extern const int mf_overwrites_first[];

/* The memory of operand i, and of result o. */
static inline const char *mf_step_in(const mf_native_step *s, void *const *values, int i) { return values[s->in[i]]; }
static inline char *mf_step_out(const mf_native_step *s, void *const *values, int o) { return values[s->out[o]]; }

#endif
