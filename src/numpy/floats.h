/* Which dtypes functions of real analysis compute in. */
#ifndef MF_NUMPY_FLOATS_H
#define MF_NUMPY_FLOATS_H

#include <manyfold.h>

/* Integers and bools become floats, those of 64 bits f64 and others f32; anything else stays, errors too. */
mf_value numpy_float(mf_value x);
bool numpy_is_complex(mf_value x);

#endif
