/* Resolving axis options, with errors that name the calling function. */
#ifndef MF_NUMPY_AXIS_H
#define MF_NUMPY_AXIS_H

#include <manyfold.h>

/* The axis, counted from the front. MF_ALL flattens *x and gives axis 0. If there is no such axis, returns -1 and sets *x to an error. */
int numpy_axis(mf_value *x, mf_axis axis, const char *op);
/* The axes, one or several, counted from the front. On failure count is -1 and *x is set to an error. */
mf_ints numpy_axes(mf_value *x, mf_axis axis, const char *op);
/* Whether x can be reduced over them, where MF_NONE is NumPy's None, all of them; if not, *x is the error. */
bool numpy_reduces(mf_value *x, mf_axis axis, const char *op);

#endif
