/* What failed checks say, whoever finds it out: a client that runs them as ops, or one whose program reports them. */
#ifndef MF_OPS_CHECKS_H
#define MF_OPS_CHECKS_H

#include "ir/op.h"

/* Of a check_replicated: `count` devices, which `differ` lists, hold other bits than device `first`. location: NULL: the equation's. */
mf_error_object *mf_replicated_error(const mf_eqn *e, const void *location, const char *differ, int count, int first);
/* Of a check_nan: the element of its operand is a NaN. */
mf_error_object *mf_nan_error(const mf_eqn *e, const void *location, int operand, int64_t element);

#endif
