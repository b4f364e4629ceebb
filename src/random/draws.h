/* What draws have in common. */
#ifndef MF_RANDOM_DRAWS_H
#define MF_RANDOM_DRAWS_H

#include <manyfold.h>

/* The elements of a shape; -1 of what is none. */
int64_t random_count(mf_shape shape);
/* MF_DTYPE_DEFAULT is f32. */
mf_dtype random_float(mf_dtype dtype);
bool random_is_float(mf_dtype dtype);
/* The error of a distribution that has no numbers of this dtype. */
mf_value random_no_float(const char *what, mf_dtype dtype);

#endif
