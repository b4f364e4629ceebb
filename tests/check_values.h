/* Checks of values: their printed text, equality, and errors whose message contains a given part. */
#ifndef TESTS_CHECK_VALUES_H
#define TESTS_CHECK_VALUES_H

#include "check.h"

#include <manyfold.h>

#define TEXT(v, expected)              \
    do {                               \
        const char *text_ = mf_str(v); \
        CHECK_STR(text_, expected);    \
    } while (0)
#define SAME(a, b)                                             \
    do {                                                       \
        mf_value same_a_ = (a), same_b_ = (b);                 \
        CHECK(mf_item_bool(mf_array_equal(same_a_, same_b_))); \
    } while (0)
/* For values, modules, functions and optimizers: the handle of any of them can be an error. */
#define FAILS(made, part)                          \
    do {                                           \
        mf_value e_ = { .handle = (made).handle }; \
        CHECK(mf_is_error(e_));                    \
        CHECK_CONTAINS(mf_error(e_), part);        \
    } while (0)

#endif
