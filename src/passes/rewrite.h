/* Rewriting a program equation by equation into a new one, as most passes do. Invariant: for every source variable whose equation has been
 * handled, map[id] is a variable of the new program with the same type. The callback handles one equation: it copies it (mf_rewrite_copy)
 * or binds its results to other variables of the same types. */
#ifndef MF_PASSES_REWRITE_H
#define MF_PASSES_REWRITE_H

#include "passes/passes.h"

typedef struct mf_rewrite mf_rewrite;
typedef void (*mf_rewrite_fn)(mf_rewrite *r, const mf_eqn *e,
                              mf_variable **in); /* in: the operands in the new program; may be overwritten */
/* Rewrites p, a nested program of e. One reference, or NULL and *error. */
typedef mf_program *(*mf_rewrite_inside_fn)(const mf_rewrite *r, const mf_eqn *e, const mf_program *p, const mf_axis_env *env,
                                            mf_error_object **error);

struct mf_rewrite {
    mf_builder *b;
    const mf_program *source;
    int index;         /* of the current equation */
    mf_variable **map; /* by id of the source's variables: the new variable */
    mf_arena scratch;  /* freed at the end */
    mf_rewrite_fn equation;
    mf_pass_fn nested;           /* rewrites nested programs; NULL: they are kept */
    mf_rewrite_inside_fn inside; /* the same, when it depends on the enclosing equation; set by begin */
    void *state;                 /* the pass's own */
};

/* A whole pass: makes the inputs, passes every equation to `equation`, and gives the outputs. One reference, or NULL and *error. */
mf_program *mf_rewrite_program(const mf_program *p, const mf_axis_env *env, mf_rewrite_fn equation, mf_pass_fn nested, void *state,
                               mf_error_object **error);
/* The same, calling begin first. */
mf_program *mf_rewrite_program_from(const mf_program *p, const mf_axis_env *env, void (*begin)(mf_rewrite *r), mf_rewrite_fn equation,
                                    mf_pass_fn nested, void *state, mf_error_object **error);
void mf_rewrite_walk(mf_rewrite *r); /* handles every equation of the source; its inputs must be in the map */
/* Handles p's equations by the same callback and builder, as the body of a call e, and binds e's results. */
void mf_rewrite_body(mf_rewrite *r, const mf_program *p, const mf_eqn *e, mf_variable *const *in);
void mf_rewrite_copy(mf_rewrite *r, const mf_eqn *e, mf_variable *const *in); /* copies the equation; nested programs go through `nested` */
/* Emits an equation in place of e, with other params and only some of its results (those with `used`, or all if it has as many as e). */
void mf_rewrite_replace(mf_rewrite *r, const mf_eqn *e, const void *params, mf_variable *const *in, int in_count, const bool *used);
/* Finishes the program of the source's outputs (one reference), or NULL and *error. Ends the builder and frees the scratch memory. */
mf_program *mf_rewrite_finish(mf_rewrite *r, mf_error_object **error);
void mf_rewrite_bind(mf_rewrite *r, const mf_eqn *e, mf_variable *v);                /* binds e's only result to v */
mf_variable *mf_rewrite_use(mf_rewrite *r, const mf_variable *v);                    /* the new program's variable for a source variable */
void *mf_rewrite_alloc(mf_rewrite *r, int count, size_t size);                       /* zeroed scratch; NULL after failing the builder */
mf_variable *mf_rewrite_to_type(mf_builder *b, mf_variable *v, const mf_type *type); /* converts v if its dtype or weak flag differs */

/* Counts how often equations and the program's results use each variable. uses: by id, zeroed by the caller. */
void mf_program_count_uses(const mf_program *p, int *uses);
bool mf_eqn_is_effect(const mf_eqn *e); /* whether e or a nested program has an effect: then it is neither removed nor merged */

#endif
