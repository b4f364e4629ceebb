/* Passes over programs: each returns a new program (one reference) or NULL with *error. pipeline.c lists them in order; MF_DUMP=name prints
 * the program after the named step; a debug build verifies after each. */
#ifndef MF_PASSES_PASSES_H
#define MF_PASSES_PASSES_H

#include "ir/op.h"

typedef mf_program *(*mf_pass_fn)(const mf_program *p, const mf_axis_env *env, mf_error_object **error);

mf_program *mf_pass_inline_calls(const mf_program *p, const mf_axis_env *env,
                                 mf_error_object **error);                                       /* jit, remat, custom_*; recursive */
mf_program *mf_pass_dce(const mf_program *p, const mf_axis_env *env, mf_error_object **error);   /* recursive, through the ops' dce */
mf_program *mf_pass_check(const mf_program *p, const mf_axis_env *env, mf_error_object **error); /* adds the checks of MF_CHECK */
mf_program *mf_pass_fold(const mf_program *p, const mf_axis_env *env, mf_error_object **error);  /* folds constants; small results only */
mf_program *mf_pass_simplify(const mf_program *p, const mf_axis_env *env,
                             mf_error_object **error); /* x+0, x*1, reshape of reshape, convert to itself, ... exact rewrites only */
mf_program *mf_pass_cse(const mf_program *p, const mf_axis_env *env, mf_error_object **error);
mf_program *mf_pass_loop_products(const mf_program *p, const mf_axis_env *env,
                                  mf_error_object **error); /* sums of products over the rounds of a loop become one product after it */
mf_program *mf_pass_release(const mf_program *p, const mf_axis_env *env, mf_error_object **error); /* frees results from barriers */
mf_program *mf_optimize(const mf_program *p, const mf_axis_env *env, mf_error_object **error);     /* runs the pipeline */

/* The pipeline without the passes in the mask. mf_pass_mask gives the mask of a pass by name; 0 if there is no such pass or it cannot be
 * left out (inline, check, release). */
mf_program *mf_optimize_without(const mf_program *p, const mf_axis_env *env, unsigned skipped, mf_error_object **error);
unsigned mf_pass_mask(const char *name);

/* Whether MF_DUMP names this step. Steps: trace, jvp, grad, vmap, the passes' names, split (the pieces between collectives), fuse (the
 * engine's loops for a piece). */
bool mf_dump_wants(const char *step);
/* Prints p to stderr when MF_DUMP names the step ("trace,jvp,grad,vmap,dce,fuse" or "all"), and verifies it in debug builds.
 * Transforms and tracing call it too. Returns NULL, or the verifier's error. */
mf_error_object *mf_program_step(const mf_program *p, const mf_axis_env *env, const char *step);

/* Declared variance of every variable of p: masks by variable id over env's binders (bit k: the k-th from the outside). in: one mask per
 * input. Recurses into nested programs. The result is mf_alloc'ed; NULL when out of memory. */
uint64_t *mf_variance_of(const mf_program *p, const mf_axis_env *env, const uint64_t *in);

#endif
