/* Makes an array a constant of a program, for tests that build programs by hand. */
#ifndef TESTS_CONSTANT_H
#define TESTS_CONSTANT_H

#include "ir/build.h"

static inline mf_variable *constant_array(mf_builder *b, mf_array *a)
{
    mf_error_object *error = NULL;
    mf_literal *l = a ? mf_literal_of(a, &error) : NULL;
    mf_variable *v = mf_builder_constant(b, l);
    mf_drop(l);
    mf_drop(error);
    return v;
}

#endif
