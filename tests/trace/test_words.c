/* What errors call the things that they speak of: operands by their number, values by what they are. */
#include "check.h"

#include <manyfold.h>

TEST(operands_are_named)
{
    MF_SCOPE;
    mf_value x = mf_ones(MF_SHAPE(2), MF_F32), tree = mf_dict("a", x, "b", x);
    const struct {
        mf_value result;
        const char *words;
    } cases[] = {
        { mf_mul(x, "two"), "mul: operand 2 is a string, neither an array nor a number" },
        { mf_mul(mf_none(), x), "mul: operand 1 is None, " },
        { mf_add(x, MF_NONE), "add: operand 2 is None, " },
        { mf_sub(x, mf_tuple(x, x)), "sub: operand 2 is a tuple of 2, " },
        { mf_where(x, tree, 1), "where: operand 2 is a dict with keys {a, b}, " },
        { mf_exp("e"), "exp: the operand is a string, " },
        { mf_sum(mf_none()), "the operand is None, " },
        { mf_mul(x, (mf_value){ 0 }), "mul: operand 2 is an unset value, " },
        { mf_call(mf_jit(mf_exp), mf_none()), "exp: the operand is None, " },
    };
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++) {
        const char *message = mf_error(cases[i].result);
        if (!CHECK(message && strstr(message, cases[i].words)))
            CHECK_NOTE("case %d: %s", i, message ? message : "no error");
    }
}

TEST(a_static_string_needs_no_size)
{
    CHECK_STR(mf_static_data(mf_string("two"), NULL), "two");
    size_t size = 7;
    CHECK(!mf_static_data(mf_f(2), NULL));
    CHECK(!mf_static_data(mf_f(2), &size));
}
