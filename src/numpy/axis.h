/* Reading an axis option, with errors in the function's own name. */
#ifndef MF_NUMPY_AXIS_H
#define MF_NUMPY_AXIS_H

#include <manyfold.h>

/* The axis from the front; MF_ALL makes one dimension of *x. -1 and an error in *x when there is none such. */
int numpy_axis(mf_value *x, mf_axis axis, const char *op);
/* The axes that it names, several too; count is -1 with an error in *x. */
mf_ints numpy_axes(mf_value *x, mf_axis axis, const char *op);
/* Whether x can be reduced over them, where MF_NONE is NumPy's None, all of them; if not, *x is the error. */
bool numpy_reduces(mf_value *x, mf_axis axis, const char *op);

#endif
