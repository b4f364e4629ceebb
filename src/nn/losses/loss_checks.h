/* Checks of the arguments of losses. Each returns unset, or an error that names the loss. */
#ifndef MF_NN_LOSSES_LOSS_CHECKS_H
#define MF_NN_LOSSES_LOSS_CHECKS_H

#include <manyfold.h>

/* The combined error if a or b is an error. */
mf_value loss_check_both(mf_value a, mf_value b);
/* An error if x is an error itself, or is no array of floats. what: what it is, in the plural. */
mf_value loss_check_floats(const char *loss, const char *what, mf_value x);
/* Both: x is checked, and other is no error. */
mf_value loss_check_floats_with(const char *loss, const char *what, mf_value x, mf_value other);
/* The same for two arrays, which must have equal shapes: Optax demands it where broadcasting would hide a mistake. */
mf_value loss_check_same(const char *loss, mf_value predictions, mf_value targets);

#endif
