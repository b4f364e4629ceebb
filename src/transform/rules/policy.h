/* Policies: which values of a rematerialised forward pass are saved for the backward pass. A policy is a name and a list of names, so that
 * programs can be printed and compared; a user's own function is given a name here. Invariant: a name means one function and context for
 * the life of the process. */
#ifndef MF_TRANSFORM_RULES_POLICY_H
#define MF_TRANSFORM_RULES_POLICY_H

#include "ir/op.h"

#include <manyfold/transforms.h>

/* The name of a policy, and the list of names that it uses, if any. NULL (saves nothing) for the zero policy, and when out of memory. */
const char *mf_policy_name(mf_policy policy, const mf_namelist **names);
bool mf_policy_known(const char *name);
/* Whether the policy saves the results of e. */
bool mf_policy_saves(const char *name, const mf_namelist *names, const mf_eqn *e);

/* Splits p by a policy. known takes p's inputs and gives p's first `first` outputs, then the saved values. again takes p's inputs, then the
 * saved values, and gives p's other outputs. Only values that again needs are saved. False and *error on failure. */
typedef struct mf_kept {
    mf_program *known, *again;
    int count;
} mf_kept;
bool mf_keep_by_policy(const mf_program *p, const mf_axis_env *env, const char *policy, const mf_namelist *names, int first, mf_kept *out,
                       mf_error_object **error);

#endif
