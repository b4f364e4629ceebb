/* Moving averages of gradients, and the steps of Adam's family that are made of them. Trees have the parameters' structure. */
#ifndef MF_OPTIM_MOMENTS_H
#define MF_OPTIM_MOMENTS_H

#include <manyfold.h>

/* decay moments + (1 - decay) updates^order; order is 1 or 2. */
mf_value mf_moment_after(mf_value updates, mf_value moments, double decay, int order);
/* Divided by 1 - decay^count: the average of count steps that began at zero. */
mf_value mf_moment_corrected(mf_value tree, double decay, mf_value count);
/* The corrected first moment; with nesterov, as it will be if the next gradient is the same. */
mf_value mf_moment_ahead(mf_value mu, mf_value updates, double decay, mf_value count, bool nesterov);
/* mu / (sqrt(nu + eps_root) + eps) */
mf_value mf_moment_quotient(mf_value mu, mf_value nu, double eps, double eps_root);
mf_value mf_root_mean_square(mf_value x);              /* () */
mf_value mf_filled_like(mf_value params, double with); /* with in all places, in params' dtypes */

#endif
