/* Promises about donated arguments: results reuse their memory, but never while another holder may read it; then the call copies and warns,
 * once. */
#include "peer.h"
#include "warnings.h"

FN(square, mf_mul(v, v))
FN(squares, mf_tree_map(square, v))
FN(same, v)
FN2(sum, a, b, mf_add(a, b))
FN2(swapped, a, b, mf_tuple(b, a))
FN2(with_keyword, a, keywords, mf_add(a, mf_get(keywords, "y")))

static mf_value rows(void) { return mf_add(FLOATS(8, 1024), 1); }

TEST(beside_a_view_the_call_copies_and_says_so_once)
{
    mf_function f = mf_pmap(square, "said_once", .donate_argnums = MF_INTS(0));
    mf_value expected = square(rows());
    catch_warnings();
    for (int i = 0; i < 3; i++) {
        mf_value x = rows(), view = mf_get(x, 3), y = mf_call(f, x);
        EXPECT_SAME(y, expected);
        EXPECT_SAME(view, mf_get(rows(), 3));
        CHECK(mf_is_deleted(x) && !mf_is_deleted(view));
    }
    CHECK_EQ_INT(count_warnings("the donated memory of argument 0, float32[8,1024], is not reused but copied"), 1);
}

static mf_value add_to_b(mf_value scale, mf_value tree) { return mf_dict("a", mf_get(tree, "a"), "b", mf_mul(mf_get(tree, "b"), scale)); }

TEST(what_is_said_names_the_leaf_and_the_call)
{
    mf_value b = rows(), view = mf_get(b, 3);
    catch_warnings();
    mf_block_until_ready(mf_call(mf_jit(add_to_b, .donate_argnums = MF_INTS(1)), 2, mf_dict("a", 1, "b", b)));
    CHECK_EQ_INT(
        count_warnings("jit(add_to_b): the donated memory of argument 1['b'], float32[8,1024], is not reused but copied: a view or "
                       "an unfinished call still reads it ("),
        1);
    EXPECT_SAME(view, mf_get(rows(), 3));
}

TEST(nothing_is_said_when_nobody_looks)
{
    mf_function f = mf_pmap(squares, "unsaid", .donate_argnums = MF_INTS(0)), g = mf_jit(squares, .donate_argnums = MF_INTS(0));
    mf_value weights = mf_add(mf_arange(1024, MF_F32), 1);
    catch_warnings();
    mf_value state = mf_dict("a", rows(), "b", rows());
    for (int i = 0; i < 5; i++) /* a training loop */
        state = mf_call(i % 2 ? f : g, state);
    mf_block_until_ready(state);
    mf_block_until_ready(mf_call(f, mf_dict("a", rows(), "b", mf_replicate(weights, mf_devices())))); /* held once: nothing can be reused */
    CHECK_EQ_INT(count_warnings("donated"), 0);
}

TEST(a_tree_gives_all_its_leaves)
{
    mf_value x = mf_dict("a", rows(), "b", mf_tuple(mf_add(rows(), 1), mf_none()));
    EXPECT_SAME(mf_get(mf_call(mf_pmap(squares, .donate_argnums = MF_INTS(0)), x), "b", 0), square(mf_add(rows(), 1)));
    mf_value leaves = mf_tree_leaves(x);
    for (int i = 0; i < mf_len(leaves); i++)
        CHECK(mf_is_deleted(mf_get(leaves, i)));
    EXPECT_ERROR(mf_add(mf_get(x, "a"), 1), "Array has been deleted with shape=float32[8,1024].");
    EXPECT_ERROR(mf_call(mf_pmap(squares), x), "Array has been deleted with shape=float32[8,1024].");
}

TEST(parts_of_one_array_are_donated_together)
{
    mf_value whole = FLOATS(2, 8, 1024), parts = mf_tuple(mf_get(whole, 0), mf_get(whole, 1));
    catch_warnings();
    mf_value r = mf_call(mf_pmap(squares, .donate_argnums = MF_INTS(0)), parts), again = FLOATS(2, 8, 1024);
    CHECK_EQ_INT(count_warnings("is not reused but copied"), 1);
    EXPECT_SAME(mf_get(r, 0), square(mf_get(again, 0)));
    EXPECT_SAME(mf_get(r, 1), square(mf_get(again, 1)));
    EXPECT_SAME(whole, again);
    CHECK(mf_is_deleted(mf_get(parts, 0)) && mf_is_deleted(mf_get(parts, 1)));
}

TEST(a_view_may_be_another_argument)
{
    mf_value x = rows(), row = mf_get(x, 0);
    mf_function f = mf_pmap(sum, .in_axes = mf_axes(0, MF_NONE), .donate_argnums = MF_INTS(0));
    catch_warnings();
    EXPECT_SAME(mf_call(f, x, row), mf_add(rows(), mf_get(rows(), 0)));
    CHECK_EQ_INT(count_warnings("is not reused but copied"), 1);
    EXPECT_SAME(row, mf_get(rows(), 0));
}

TEST(one_array_is_named_once)
{
    mf_value x = rows();
    EXPECT_ERROR(mf_call(mf_pmap(sum, .donate_argnums = MF_INTS(0)), x, x), "donate the same array twice");
    EXPECT_ERROR(mf_call(mf_pmap(squares, .donate_argnums = MF_INTS(0)), mf_tuple(x, x)), "donate the same array twice");
    mf_value state = mf_dict("ema", x, "params", x);
    EXPECT_ERROR(mf_call(mf_pmap(squares, .donate_argnums = MF_INTS(0)), state), "argument 0['ema'] and argument 0['params']; mf_copy");
    EXPECT_SAME(x, rows());
}

TEST(what_is_handed_on_is_not_copied)
{
    mf_value x = rows(), y = mf_copy(x);
    mf_block_until_ready(y);
    const void *of_x = mf_unsafe_buffer_pointer(x), *of_y = mf_unsafe_buffer_pointer(y);
    mf_value r = mf_call(mf_pmap(swapped, .donate_argnums = MF_INTS(0, 1)), x, y);
    CHECK(mf_unsafe_buffer_pointer(mf_get(r, 0)) == of_y && mf_unsafe_buffer_pointer(mf_get(r, 1)) == of_x);
    CHECK(mf_is_deleted(x) && mf_is_deleted(y));
    EXPECT_SAME(mf_get(r, 0), rows());
}

TEST(argnums)
{
    mf_value x = rows();
    EXPECT_ERROR(mf_call(mf_pmap(with_keyword, .donate_argnums = MF_INTS(1)), x, mf_kwargs("y", rows())),
                 "donate_argnums of pmap(with_keyword) names argument 1, but the call has 1 positional argument");
    EXPECT_ERROR(mf_call(mf_pmap(square, .donate_argnums = MF_INTS(-2)), x), "names argument -2");
    EXPECT_ERROR(mf_call(mf_pmap(sum, .donate_argnums = MF_INTS(1), .static_broadcasted_argnums = MF_INTS(1)), x, 2),
                 "argument 1 is both static and donated");
    CHECK(!mf_is_deleted(x));
    EXPECT_SAME(mf_call(mf_pmap(with_keyword, .donate_argnums = MF_INTS(0)), x, mf_kwargs("y", rows())), mf_mul(rows(), 2));
    CHECK(mf_is_deleted(x));
    EXPECT_SAME(mf_call(mf_pmap(square, .donate_argnums = MF_INTS(-1, 0)), x = rows()), square(rows()));
    CHECK(mf_is_deleted(x));
}

/* As in JAX, only the outermost call donates. */
TEST(inside_jit_nothing_is_donated)
{
    mf_value x = rows();
    EXPECT_SAME(mf_call(mf_jit(mf_pmap(same, .donate_argnums = MF_INTS(0))), x), rows());
    CHECK(!mf_is_deleted(x));
}
