/* Steps: what a kernel of the native engine is a list of. A step is one loop, or one call of a leaf kernel, over values that lie in memory.
 * Invariants: a step is immutable but for its tier (llvm/tier_up.h), and reads and writes only its values and its own piece of scratch.
 *
 * A new kind of step is a file in steps/ or products/: a struct that begins with mf_native_step, a `run`, and a function
 * mf_build_...(segment_build.h) that recognises its equations. Beyond `run`, a step may say how it goes row by row (`parts`), so that steps
 * over the same rows can be joined (fusion/rows/row_fusion.h); what it computes (`form`), so that a loop around it can become machine code; and
 * what it makes once before a loop's rounds (`hoisted`). */
#ifndef MF_BACKEND_NATIVE_STEP_H
#define MF_BACKEND_NATIVE_STEP_H

#include "ir/op.h"
#include "runtime/compile/segment_compiler.h"

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

/* What a step computes, for llvm/emit/repeat.c, which makes one function of a loop and all steps in it. Elements are counted from
 * where a value begins in its memory; `place` says which one of an operand goes into an element of the result. */
typedef enum mf_form_kind {
    MF_FORM_GROUP,
    MF_FORM_COPY,    /* the operand, of this type */
    MF_FORM_FOLD,    /* place(s, 0, result, k) for k < length, in the order of kernels/reduce/reduce.inc */
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

/* What a step of a loop's body makes once, before the first round, of an operand that is the same in all rounds (loop-invariant code, hoisted
 * out of the loop). Where such a step's `prepared` is not 0, values[prepared] is that. */
typedef struct mf_step_hoisted {
    int operand;
    size_t (*bytes)(const mf_native_step *s);
    void (*make)(const mf_native_step *s, const void *operand, void *to); /* to: 64-byte aligned */
} mf_step_hoisted;

struct mf_native_step {
    mf_error_object *(*run)(const mf_native_step *s, void *const *values, char *scratch);
    const mf_eqn *eqn;                                 /* the one it stands for, or NULL */
    const mf_row_parts *parts;                         /* NULL: it runs as a whole only */
    const mf_step_hoisted *hoisted;                    /* NULL: it makes nothing before a loop's rounds */
    void (*form)(const mf_native_step *s, mf_form *f); /* f is zero; NULL: a loop around it is not compiled */
    bool flat; /* parts->run takes any number of "rows": all that it makes and reads, once more behind it */
    int in_count, out_count;
    int *in, *out; /* values */
    int prepared;  /* the value that parts->prepare or hoisted->make fills */
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

#endif
