/* Declared variance decides what out_axes=None may be given: it follows from in_axes alone, whatever the layout of the arrays. */
#include "numbers.h"

#define FN(name, expression) \
    static mf_value name(mf_value v) { return (expression); }

__attribute__((constructor)) static void eight_devices(void) { setenv("MF_NUM_CPU_DEVICES", "8", 1); }

#define X4      mf_arange(4, MF_F32)
#define NONE(f) mf_call(mf_pmap(f, "i", .out_axes = MF_NONE), X4)
#define PAIRS   mf_list(mf_list(0, 1), mf_list(2, 3))

FN(same, v)
FN(sum, mf_psum(v, "i"))
FN(mean, mf_pmean(v, "i"))
FN(largest, mf_pmax(v, "i"))
FN(gathered, mf_all_gather(v, 0, "i"))
FN(gathered_tiled, mf_all_gather(mf_expand_dims(v, 0), 0, "i", .tiled = true))
FN(pair_sum, mf_psum(v, "i", .axis_index_groups = PAIRS))
FN(pair_gathered, mf_all_gather(v, 0, "i", .axis_index_groups = PAIRS))
FN(moved, mf_ppermute(v, "i", mf_list(mf_tuple(0, 1))))
FN(sum_moved, mf_ppermute(mf_psum(v, "i"), "i", mf_list(mf_tuple(0, 1))))
FN(scattered, mf_psum_scatter(mf_broadcast_to(v, MF_SHAPE(4)), 0, "i"))
FN(exchanged, mf_all_to_all(mf_broadcast_to(v, MF_SHAPE(4)), 0, 0, "i"))
FN(plus_index, mf_add(mf_mul(mf_psum(v, "i"), 0), mf_axis_index("i")))
static mf_value sum_of_index(mf_value v) { return (void)v, mf_psum(mf_axis_index("i"), "i"); }
FN(from_two, mf_pbroadcast(v, "i", 2))

TEST(collectives)
{
    EXPECT(NONE(sum), 6);
    EXPECT(NONE(mean), 1.5);
    EXPECT(NONE(largest), 3);
    EXPECT(NONE(gathered), 0, 1, 2, 3);
    EXPECT(NONE(gathered_tiled), 0, 1, 2, 3);
    EXPECT(NONE(sum_of_index), 6);
    EXPECT(NONE(from_two), 2);
    EXPECT_ERROR(NONE(same), "varies");
    EXPECT_ERROR(NONE(pair_sum), "varies");
    EXPECT_ERROR(NONE(pair_gathered), "varies");
    EXPECT_ERROR(NONE(moved), "varies");
    EXPECT_ERROR(NONE(sum_moved), "varies");
    EXPECT_ERROR(NONE(scattered), "varies");
    EXPECT_ERROR(NONE(exchanged), "varies");
    EXPECT_ERROR(NONE(plus_index), "varies");
}

static mf_value one(mf_value v) { return (void)v, mf_scalar(1, MF_F32); }
static mf_value two(mf_value v) { return (void)v, mf_scalar(2, MF_F32); }
FN(cond_by_own, mf_cond(mf_greater(v, 1), one, two, v))
FN(cond_by_sum, mf_cond(mf_greater(mf_psum(v, "i"), 1), one, two, v))
FN(cond_one_branch, mf_cond(mf_greater(mf_psum(v, "i"), 1), one, same, v))
FN(cond_sum_in_both, mf_cond(mf_greater(mf_psum(v, "i"), 1), sum, mean, v))

TEST(branches_join_their_predicate)
{
    EXPECT_ERROR(NONE(cond_by_own), "varies");
    EXPECT(NONE(cond_by_sum), 1);
    EXPECT_ERROR(NONE(cond_one_branch), "varies");
    EXPECT(NONE(cond_sum_in_both), 6);
}

static mf_value plus_own(mf_value c, mf_value t) { return mf_tuple(mf_add(c, t), mf_none()); }
static mf_value plus_sum(mf_value c, mf_value t) { return mf_tuple(mf_add(c, mf_psum(t, "i")), mf_none()); }
static mf_value chain(mf_value c, mf_value t) /* variance needs three rounds to reach the first */
{
    mf_value a, b, d;
    mf_unpack(c, &a, &b, &d);
    return mf_tuple(mf_tuple(b, d, mf_add(d, t)), mf_none());
}
#define ZERO mf_scalar(0, MF_F32)
FN(carry_own, mf_get(mf_scan(plus_own, ZERO, mf_broadcast_to(v, MF_SHAPE(3))), 0))
FN(carry_sum, mf_get(mf_scan(plus_sum, ZERO, mf_broadcast_to(v, MF_SHAPE(3))), 0))
FN(carry_chain, mf_get(mf_scan(chain, mf_tuple(ZERO, ZERO, ZERO), mf_broadcast_to(v, MF_SHAPE(3))), 0, 0))
FN(below_3, mf_less(v, 3))
FN(one_more, mf_add(v, 1))
FN(first_below_3, mf_less(mf_get(v, 0), 3))
FN(count_both, mf_tuple(mf_add(mf_get(v, 0), 1), mf_add(mf_get(v, 1), 1)))
FN(loop_by_own, mf_get(mf_while(first_below_3, count_both, mf_tuple(v, ZERO)), 1))
FN(loop_by_sum, mf_while(below_3, one_more, mf_mul(mf_psum(v, "i"), 0)))

TEST(loops_take_a_fixpoint)
{
    EXPECT_ERROR(NONE(carry_own), "varies");
    EXPECT(NONE(carry_sum), 18);
    EXPECT_ERROR(NONE(carry_chain), "varies");
    EXPECT_ERROR(NONE(loop_by_own), "varies");
    EXPECT(NONE(loop_by_sum), 3);
}

static mf_value second(mf_value a, mf_value b) { return (void)a, mf_mul(b, 2); }
static mf_value both(mf_value a, mf_value b) { return mf_tuple(mf_mul(b, 2), mf_dict("k", mf_add(a, b))); }

TEST(the_error_names_result_axis_and_input)
{
    EXPECT(mf_call(mf_pmap(second, "i", .in_axes = mf_axes(0, MF_NONE), .out_axes = MF_NONE), X4, 5.0), 10);
    mf_value e = mf_call(mf_pmap(both, "i", .in_axes = mf_axes(0, MF_NONE), .out_axes = MF_NONE), X4, 5.0);
    EXPECT_ERROR(e, "['k']");
    EXPECT_ERROR(e, "'i'");
    EXPECT_ERROR(e, "argument 0");
}

FN(inner_sum, mf_psum(v, "j"))
FN(outer_sum, mf_psum(v, "i"))
FN(both_sums, mf_psum(v, "i", "j"))

TEST(every_axis_for_itself)
{
    mf_value grid = mf_reshape(mf_arange(8, MF_F32), MF_SHAPE(4, 2));
    EXPECT(mf_call(mf_pmap(mf_pmap(inner_sum, "j", .out_axes = MF_NONE), "i"), grid), 1, 5, 9, 13);
    EXPECT(mf_call(mf_pmap(mf_pmap(outer_sum, "j"), "i", .out_axes = MF_NONE), grid), 12, 16);
    EXPECT(mf_call(mf_pmap(mf_pmap(both_sums, "j", .out_axes = MF_NONE), "i", .out_axes = MF_NONE), grid), 28);
    EXPECT_ERROR(mf_call(mf_pmap(mf_pmap(inner_sum, "j", .out_axes = MF_NONE), "i", .out_axes = MF_NONE), grid), "'i'");
    EXPECT_ERROR(mf_call(mf_pmap(mf_pmap(outer_sum, "j", .out_axes = MF_NONE), "i"), grid), "'j'");
    EXPECT(mf_call(mf_vmap(mf_pmap(outer_sum, "i", .out_axes = MF_NONE)), mf_reshape(mf_arange(8, MF_F32), MF_SHAPE(2, 4))), 6, 22);
}

TEST(the_layout_never_decides)
{
    mf_value alike = mf_broadcast_to(F32(1, 2), MF_SHAPE(4, 2)), from_map = mf_call(mf_pmap(sum, "i"), alike);
    EXPECT(from_map, 4, 8, 4, 8, 4, 8, 4, 8);
    EXPECT_ERROR(mf_call(mf_pmap(same, "i", .out_axes = MF_NONE), alike), "varies");
    EXPECT_ERROR(mf_call(mf_pmap(same, "i", .out_axes = MF_NONE), from_map), "varies");
}
