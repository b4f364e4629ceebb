/* grad and value_and_grad as users call them: what may be differentiated, and what the gradients look like. */
#include "check.h"

#include <manyfold.h>

#define TEXT(v, expected)              \
    do {                               \
        const char *text_ = mf_str(v); \
        CHECK_STR(text_, expected);    \
    } while (0)
#define FAILS(call, part)                   \
    do {                                    \
        mf_value e_ = (call);               \
        CHECK(mf_is_error(e_));             \
        CHECK_CONTAINS(mf_error(e_), part); \
    } while (0)

/* ---- allow_int */

static mf_value scaled_sum(mf_value n, mf_value x) { return mf_sum(mf_mul(mf_get(n, 0), x)); }
static mf_value count_alone(mf_value n, mf_value b) { return mf_where(b, mf_mul(1.5, n), 0.0); }
static mf_value itself(mf_value n) { return n; }

TEST(integers_have_zeros)
{
    mf_value n = mf_arange(3, MF_I32), x = mf_arange(2, MF_F32);
    TEXT(mf_call(mf_grad(scaled_sum, .allow_int = true), n, x), "[0 0 0]");
    TEXT(mf_call(mf_grad(scaled_sum, .allow_int = true, .argnums = MF_INTS(0, 1)), n, x), "([0 0 0], [0. 0.])");
    mf_value g = mf_call(mf_jit(mf_grad(count_alone, .allow_int = true, .argnums = MF_INTS(0, 1))), 3, mf_b(true));
    TEXT(g, "(0, False)");
    CHECK_EQ_INT(mf_dtype_of(mf_get(g, 0)), MF_I32);
    FAILS(mf_call(mf_grad(scaled_sum), n, x), "argument 0 of scaled_sum is int32[3]");
    FAILS(mf_call(mf_grad(itself, .allow_int = true), 3), "grad requires real-valued outputs; the output of itself is int32[]");
    FAILS(mf_call(mf_grad(itself, .allow_int = true), mf_string("a")), "a static");
}
