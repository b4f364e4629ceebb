/* The errors of failed checks, whoever detects the failure: a client that runs checks as ops, or one whose program reports them. */
#ifndef MF_OPS_CHECKS_H
#define MF_OPS_CHECKS_H

#include "ir/op.h"

/* For a check_replicated: `count` devices, listed in `differ`, hold other bits than device `first`. location: NULL means the equation's. */
mf_error_object *mf_replicated_error(const mf_eqn *e, const void *location, const char *differ, int count, int first);
/* For a check_nan: that element of that operand is a NaN. */
mf_error_object *mf_nan_error(const mf_eqn *e, const void *location, int operand, int64_t element);

#endif
