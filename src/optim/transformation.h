/* What a gradient transformation is: a rule, numbers, a schedule, a mask, and other transformations. Invariant: it is interned bytes that
 * last, all of them set, so equal options are one transformation, and its handle one number: closures over it compare equal too, and so
 * find what was traced. The state is a plain tree, so init and update run inside every transform. */
#ifndef MF_OPTIM_TRANSFORMATION_H
#define MF_OPTIM_TRANSFORMATION_H

#include <manyfold.h>

typedef struct mf_transformation mf_transformation;

/* A kind of transformation. Its state is a dict of these keys; an empty tuple if it has none; or, of parts, a tuple of theirs. */
typedef struct mf_transformation_rule {
    const char *name;
    const char *keys;      /* in the order of dicts: "count, mu, nu" */
    const char *inner_key; /* of those, the one whose value is the first part's state; NULL: none */
    bool tuple_of_parts;
    bool flat; /* a chain whose state is one dict of what its parts have, with one "count" for all */
    mf_value (*init)(const mf_transformation *t, mf_value params);
    mf_value (*update)(const mf_transformation *t, mf_value updates, mf_value *state, mf_value params);
} mf_transformation_rule;

/* Rules give the numbers their meaning. */
struct mf_transformation {
    const mf_transformation_rule *rule;
    const char *name; /* as users call it, a constant */
    double number[4];
    int64_t flag[2];
    int64_t dtype;        /* of what it accumulates; 0: the parameters' */
    mf_function schedule; /* kept; 0: none */
    mf_filter mask;       /* kept; 0: none */
    mf_function mask_fn;  /* kept; 0: none */
    int64_t count;
    mf_optimizer parts[];
};

/* `t` has no parts; these are appended. Where memory is out it is a transformation that says so; all zero in the child of a fork. */
mf_optimizer mf_transformation_make(const mf_transformation *t, const mf_optimizer *parts, int count);
/* One that says what is wrong when it is used. */
mf_optimizer mf_transformation_wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));
mf_optimizer mf_transformation_no_memory(void);
/* NULL: no transformation, or the child of a fork. */
const mf_transformation *mf_transformation_of(mf_optimizer handle);
/* A constant number of its own, as a module's member holds it, and the way back; NULL: there is none. */
int mf_transformation_number(mf_optimizer handle);
const mf_transformation *mf_transformation_numbered(double number);
mf_value mf_transformation_init(mf_optimizer part, mf_value params);
mf_value mf_transformation_update(mf_optimizer part, mf_value updates, mf_value *state, mf_value params);

/* Whether the mask accepts the leaf at this path, "['a'][0]"; without one everything is accepted. */
bool mf_transformation_accepts(const mf_transformation *t, mf_value path, mf_value leaf);
mf_function mf_kept_schedule(mf_function f); /* unset stays unset */
mf_filter mf_kept_mask(mf_filter f);

/* Of like's shapes and dtypes, or of a dtype. */
mf_value mf_zeros_in(mf_value like, int64_t dtype);
mf_value mf_tree_in(mf_value tree, int64_t dtype); /* converted; 0: as it is */
mf_value mf_count_zero(void);
mf_value mf_count_after(mf_value count);
mf_value mf_scaled(mf_value tree, mf_value by); /* by: a C number, or an array that takes each leaf's dtype */

#endif
