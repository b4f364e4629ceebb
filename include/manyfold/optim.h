/* manyfold/optim.h - optimisers over trees of parameters; formulas are optax's. An optimiser is a
 * constant: its state is a tree that mf_optim_init makes and mf_optim_update moves on, so both
 * work inside every transform.
 *
 * Parameters and gradients are trees of one structure, of floats of any shapes; the state has a
 * leaf of a parameter's shape for each moment, and a count. An optimiser lives as long as the
 * process; values belong to the innermost scope; any thread. Errors: MF_ERROR_ARGUMENT for a
 * handle that is no optimiser, MF_ERROR_TREE where the trees differ. */
#ifndef MANYFOLD_OPTIM_H
#define MANYFOLD_OPTIM_H
#ifndef MF_CHECK_HEADERS_
#pragma GCC system_header
#endif

#include <manyfold/numpy.h>

MF_BEGIN_

/* optax.adam: .schedule, a function from the count of steps to the learning rate, in its place */
typedef struct mf_adam_options {
    mf_reserved begin_;
    double learning_rate MF_DEFAULT_(1e-3), b1 MF_DEFAULT_(0.9), b2 MF_DEFAULT_(0.999),
        eps MF_DEFAULT_(1e-8);
    mf_function schedule;
    mf_reserved reserved_;
} mf_adam_options;
/* optax.sgd */
typedef struct mf_sgd_options {
    mf_reserved begin_;
    double learning_rate, momentum;
    bool nesterov;
    mf_reserved reserved_;
} mf_sgd_options;
mf_optimizer mf_adam_opt(const mf_adam_options *o);
mf_optimizer mf_sgd_opt(const mf_sgd_options *o);
/* tree -> tree: the state before the first step */
mf_value mf_optim_init(mf_optimizer o, mf_value params);
/* tree, tree -> tree: of gradients and parameters the new parameters; *opt_state moves on.
 * MF_ERROR_TREE for the state of another optimizer, which stays as it is */
mf_value mf_optim_update(mf_optimizer o, mf_value grads, mf_value *opt_state, mf_value params);

MF_END_

#include <manyfold/lift/optim.h>

#endif
