/* Walking a program equation by equation into a new one: what most passes share.
 * Invariant: map[id] is the new program's variable for a source variable whose equation was passed; it has the same type. A callback
 * handles one equation: it copies it (mf_rewrite_copy) or binds its results to something else of the same types. */
#ifndef MF_PASSES_REWRITE_H
#define MF_PASSES_REWRITE_H

#include "passes/passes.h"

typedef struct mf_rewrite mf_rewrite;
typedef void (*mf_rewrite_fn)(mf_rewrite *r, const mf_eqn *e,
                              mf_variable **in); /* in: the operands, in the new program; may be overwritten */
/* What becomes of p, a program of e's. One reference, or NULL and *error. */
typedef mf_program *(*mf_rewrite_inside_fn)(const mf_rewrite *r, const mf_eqn *e, const mf_program *p, const mf_axis_env *env,
                                            mf_error_object **error);

struct mf_rewrite {
    mf_builder *b;
    const mf_program *source;
    int index;         /* of the equation at hand */
    mf_variable **map; /* by id of the source's variables */
    mf_arena scratch;  /* freed at the end */
    mf_rewrite_fn equation;
    mf_pass_fn nested;           /* what becomes of nested programs; NULL: they are kept */
    mf_rewrite_inside_fn inside; /* the same, where that depends on what they are nested in; set by begin */
    void *state;                 /* the pass's own */
};

/* The whole pass: inputs, every equation through `equation`, outputs. One reference, or NULL and *error. */
mf_program *mf_rewrite_program(const mf_program *p, const mf_axis_env *env, mf_rewrite_fn equation, mf_pass_fn nested, void *state,
                               mf_error_object **error);
/* The same; begin is called first. */
mf_program *mf_rewrite_program_from(const mf_program *p, const mf_axis_env *env, void (*begin)(mf_rewrite *r), mf_rewrite_fn equation,
                                    mf_pass_fn nested, void *state, mf_error_object **error);
void mf_rewrite_walk(mf_rewrite *r); /* every equation of the source, whose inputs are in the map */
/* p's equations through the same callback into the same builder, as the body of a call of `e`: binds e's results. */
void mf_rewrite_body(mf_rewrite *r, const mf_program *p, const mf_eqn *e, mf_variable *const *in);
void mf_rewrite_copy(mf_rewrite *r, const mf_eqn *e, mf_variable *const *in); /* the equation as it is, nested programs through `nested` */
/* An equation in place of e with some of its results (those with `used`, or all when it has as many as e) and other params. */
void mf_rewrite_replace(mf_rewrite *r, const mf_eqn *e, const void *params, mf_variable *const *in, int in_count, const bool *used);
/* The program of the source's outputs (one reference), or NULL and *error. Ends the builder and the scratch memory. */
mf_program *mf_rewrite_finish(mf_rewrite *r, mf_error_object **error);
void mf_rewrite_bind(mf_rewrite *r, const mf_eqn *e, mf_variable *v);                /* the only result of e is v */
mf_variable *mf_rewrite_use(mf_rewrite *r, const mf_variable *v);                    /* a source variable in the new program */
void *mf_rewrite_room(mf_rewrite *r, int count, size_t size);                        /* zeroed scratch; NULL after failing the builder */
mf_variable *mf_rewrite_to_type(mf_builder *b, mf_variable *v, const mf_type *type); /* v, converted when its dtype or weak flag differs */

/* Adds up how often equations and the program's results read each variable; uses: zeros, by id. */
void mf_program_count_uses(const mf_program *p, int *uses);
bool mf_eqn_is_effect(const mf_eqn *e); /* itself or inside its nested programs: neither removed nor merged */

#endif
