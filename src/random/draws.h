/* Helpers that all draws share. */
#ifndef MF_RANDOM_DRAWS_H
#define MF_RANDOM_DRAWS_H

#include <manyfold.h>

/* The number of elements of a shape; -1 if it is invalid. */
int64_t random_count(mf_shape shape);
/* The dtype itself; f32 for MF_DTYPE_DEFAULT. */
mf_dtype random_float(mf_dtype dtype);
bool random_is_float(mf_dtype dtype);
/* The error that the distribution `what` needs a float dtype. */
mf_value random_no_float(const char *what, mf_dtype dtype);

#endif
