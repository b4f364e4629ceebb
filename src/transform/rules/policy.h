/* Policies: which values of a rematerialised forward pass are kept for the backward pass. A policy is a name and a list of names, so that
 * programs print and compare; a user's own function gets a name of its own here.
 * Invariant: a name means one function and context for the life of the process. */
#ifndef MF_TRANSFORM_RULES_POLICY_H
#define MF_TRANSFORM_RULES_POLICY_H

#include "ir/op.h"

#include <manyfold/transforms.h>

/* The name of a policy, and the list of names that it is about, if any. NULL (nothing is kept) for the zero policy; out of memory too. */
const char *mf_policy_name(mf_policy policy, const mf_namelist **names);
bool mf_policy_known(const char *name);
/* Whether the policy keeps what e computes. */
bool mf_policy_saves(const char *name, const mf_namelist *names, const mf_eqn *e);

/* p split by a policy. known: p's inputs; outputs p's first `first` outputs, then the values that are kept. again: p's inputs, then the
 * values that are kept; outputs p's other outputs. Only what those need is kept. False and *error. */
typedef struct mf_kept {
    mf_program *known, *again;
    int count;
} mf_kept;
bool mf_keep_by_policy(const mf_program *p, const mf_axis_env *env, const char *policy, const mf_namelist *names, int first, mf_kept *out,
                       mf_error_object **error);

#endif
