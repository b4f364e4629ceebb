/* A gradient transformation: a rule, numbers, a schedule, a mask, and inner transformations. Invariant: it is interned, with all bytes set,
 * and never freed. So equal options give the same transformation and the same handle, closures over it compare equal, and a function that
 * uses it is not traced again. Its state is a plain tree, so init and update run inside every transform. */
#ifndef MF_OPTIM_TRANSFORMATION_H
#define MF_OPTIM_TRANSFORMATION_H

#include <manyfold.h>

typedef struct mf_transformation mf_transformation;

/* A kind of transformation. Its state is a dict with these keys, an empty tuple if there are none, or the tuple of its parts' states. */
typedef struct mf_transformation_rule {
    const char *name;
    const char *keys;      /* sorted, as in a dict: "count, mu, nu" */
    const char *inner_key; /* the key whose value is the state of parts[0]; NULL: none */
    bool tuple_of_parts;
    bool flat; /* a chain whose state is one dict with the items of all parts and one shared "count" */
    mf_value (*init)(const mf_transformation *t, mf_value params);
    mf_value (*update)(const mf_transformation *t, mf_value updates, mf_value *state, mf_value params);
} mf_transformation_rule;

/* The rule defines the meaning of number and flag. */
struct mf_transformation {
    const mf_transformation_rule *rule;
    const char *name; /* for error messages; never freed */
    double number[5];
    int64_t flag[2];
    int64_t dtype;        /* of the accumulators; 0: the parameters' dtype */
    mf_function schedule; /* kept (mf_function_keep); 0: none */
    mf_filter mask;       /* kept; 0: none */
    mf_function mask_fn;  /* kept; 0: none */
    int64_t count;
    mf_optimizer parts[];
};

/* Interns *t with these parts appended. Returns a transformation that fails with MF_ERROR_MEMORY if memory runs out; 0 in the child of a
 * fork. */
mf_optimizer mf_transformation_make(const mf_transformation *t, const mf_optimizer *parts, int count);
/* A flat chain of those parts, at most 8, that are set. */
mf_optimizer mf_flat_chain(const char *name, const mf_optimizer *given, int given_count);
/* A transformation that fails with this message when it is used. */
mf_optimizer mf_transformation_wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));
mf_optimizer mf_transformation_no_memory(void);
/* NULL if the handle is no transformation, and in the child of a fork. */
const mf_transformation *mf_transformation_of(mf_optimizer handle);
/* The transformation's number, which a module's member can hold, and the reverse; NULL if no transformation has that number. */
int mf_transformation_number(mf_optimizer handle);
const mf_transformation *mf_transformation_numbered(double number);
mf_value mf_transformation_init(mf_optimizer part, mf_value params);
mf_value mf_transformation_update(mf_optimizer part, mf_value updates, mf_value *state, mf_value params);

/* Whether mask and mask_fn accept the leaf at this path, "['a'][0]"; if unset they accept every leaf. */
bool mf_transformation_accepts(const mf_transformation *t, mf_value path, mf_value leaf);
mf_function mf_kept_schedule(mf_function f); /* unset stays unset */
mf_filter mf_kept_mask(mf_filter f);

/* Zeros with the shapes of like, in dtype; 0: in like's dtypes. */
mf_value mf_zeros_in(mf_value like, int64_t dtype);
mf_value mf_tree_in(mf_value tree, int64_t dtype); /* converted to dtype; 0: unchanged */
mf_value mf_count_zero(void);
mf_value mf_count_after(mf_value count);
mf_value mf_scaled(mf_value tree, mf_value by); /* by: a C number, or an array, which is converted to each leaf's dtype */

#endif
