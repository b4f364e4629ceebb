/* Counterparts of the peer's tests of collectives: every one of them, with axes, tiles, groups, dtypes and trees. */
#include "peer.h"

#define EVENS  mf_list(0, 2, 4, 6)
#define ODDS   mf_list(1, 3, 5, 7)
#define HALVES mf_list(mf_list(0, 1, 2, 3), mf_list(4, 5, 6, 7))

/* ---- all_gather */

FN(gather, mf_all_gather(v, 0, "i"))
FN(gather_last, mf_all_gather(v, -1, "i"))
FN(gather_tiled, mf_all_gather(v, 0, "i", .tiled = true))
FN(gather_last_tiled, mf_all_gather(v, -1, "i", .tiled = true))

TEST(all_gather)
{
    mf_value x = FLOATS(8, 4);
    EXPECT_SAME(mf_call(mf_pmap(gather, "i"), x), eight_times(x));
    EXPECT_SAME(mf_call(mf_pmap(gather_last, "i"), x), eight_times(mf_transpose(x, MF_INTS0)));
    EXPECT_SAME(mf_call(mf_pmap(gather_tiled, "i"), x), eight_times(mf_ravel(x)));
}

TEST(all_gather_of_bool)
{
    mf_value x = mf_equal(mf_remainder(FLOATS(8, 4), 2), 1), r = mf_call(mf_pmap(gather, "i"), x);
    EXPECT_SAME(r, eight_times(x));
    CHECK_EQ_INT(mf_dtype_of(r), MF_BOOL);
}

TEST(all_gather_tiled_along_the_last_axis)
{
    mf_value x = FLOATS(8, 4, 3), joined = mf_reshape(mf_transpose(x, MF_INTS(1, 0, 2)), MF_SHAPE(4, 24));
    EXPECT_SAME(mf_call(mf_pmap(gather_last_tiled, "i"), x), eight_times(joined));
}

/* ---- complex numbers */

FN(minus_sum, mf_sub(v, mf_psum(v, "i")))

TEST(psum_of_complex)
{
    mf_value re = FLOATS(8, 4), im = mf_mul(-2, FLOATS(8, 4)), i = mf_c(0, 1), x = mf_add(re, mf_mul(im, i));
    mf_value r = mf_call(mf_pmap(minus_sum, "i"), x);
    CHECK_EQ_INT(mf_dtype_of(r), MF_C64);
    EXPECT_SAME(mf_real(r), mf_sub(re, mf_sum(re, 0)));
    EXPECT_SAME(mf_imag(r), mf_sub(im, mf_sum(im, 0)));
}

/* ---- psum_scatter */

FN(scatter, mf_psum_scatter(v, 0, "i"))
FN(scatter_tiled, mf_psum_scatter(v, 0, "i", .tiled = true))
FN(scatter_tiled_in_groups, mf_psum_scatter(v, 0, "i", .tiled = true, .axis_index_groups = mf_list(EVENS, ODDS)))

TEST(psum_scatter)
{
    EXPECT_SAME(mf_call(mf_pmap(scatter, "i"), FLOATS(8, 8)), mf_sum(FLOATS(8, 8), 0));
    EXPECT_SAME(mf_call(mf_pmap(scatter_tiled, "i"), FLOATS(8, 32)), mf_reshape(mf_sum(FLOATS(8, 32), 0), MF_SHAPE(8, 4)));
}

TEST(psum_scatter_in_groups)
{
    double expected[8][8];
    for (int device = 0; device < 8; device++)
        for (int k = 0; k < 8; k++) { /* column number of what the device keeps; the sum over rows of its parity */
            int column = device / 2 * 8 + k;
            expected[device][k] = 0;
            for (int row = device % 2; row < 8; row += 2)
                expected[device][k] += row * 32 + column;
        }
    mf_value r = mf_call(mf_pmap(scatter_tiled_in_groups, "i"), FLOATS(8, 32));
    EXPECT_SAME(r, mf_array_n(MF_F32, MF_SHAPE(8, 8), expected[0], 64));
}

FN(map_gather, mf_call(mf_pmap(gather, "i"), v))
FN(map_scatter, mf_call(mf_pmap(scatter, "i"), v))

TEST(vmap_of_gather_and_scatter)
{
    mf_value x = WAVES(4, 8, 8), gathered[4], scattered[4];
    for (int i = 0; i < 4; i++) {
        gathered[i] = map_gather(mf_get(x, i));
        scattered[i] = map_scatter(mf_get(x, i));
    }
    EXPECT_SAME(mf_call(mf_vmap(mf_pmap(gather, "i")), x), mf_stack(mf_list_n(gathered, 4), 0));
    EXPECT_SAME(mf_call(mf_vmap(mf_pmap(scatter, "i")), x), mf_stack(mf_list_n(scattered, 4), 0));
}

/* ---- trees */

FN(max, mf_pmax(v, "i"))
FN(min, mf_pmin(v, "i"))
FN(sum, mf_psum(v, "i"))
FN(mean, mf_pmean(v, "i"))
FN(exchange, mf_all_to_all(v, 0, 0, "i"))
FN(rotate, mf_ppermute(v, "i", rotation(8, 1)))

FN(max_of_rows, mf_broadcast_to(mf_max(v, 0), mf_shape_of(v)))
FN(min_of_rows, mf_broadcast_to(mf_min(v, 0), mf_shape_of(v)))
FN(sum_of_rows, mf_broadcast_to(mf_sum(v, 0), mf_shape_of(v)))
FN(mean_of_rows, mf_broadcast_to(mf_mean(v, 0), mf_shape_of(v)))
FN(transposed, mf_transpose(v, MF_INTS0))
FN(rotated, mf_concatenate(mf_list(mf_get(v, mf_range(7, 8)), mf_get(v, mf_range(0, 7))), 0))

static mf_value block(int from, mf_dtype dtype)
{
    return mf_reshape(mf_astype(mf_arange_opt((int64_t)from * 64, (int64_t)(from + 1) * 64, MF_I32), dtype), MF_SHAPE(8, 8));
}

TEST(trees)
{
    mf_value x = mf_dict("a", block(1, MF_I32), "b", block(2, MF_I32), "c", block(4, MF_I32));
    EXPECT_SAME(mf_call(mf_pmap(max, "i"), x), mf_tree_map(max_of_rows, x));
    EXPECT_SAME(mf_call(mf_pmap(min, "i"), x), mf_tree_map(min_of_rows, x));
    EXPECT_SAME(mf_call(mf_pmap(sum, "i"), x), mf_tree_map(sum_of_rows, x));
    EXPECT_SAME(mf_call(mf_pmap(mean, "i"), x), mf_tree_map(mean_of_rows, x));
    EXPECT_SAME(mf_call(mf_pmap(exchange, "i"), x), mf_tree_map(transposed, x));
    EXPECT_SAME(mf_call(mf_pmap(rotate, "i"), x), mf_tree_map(rotated, x));
}

TEST(trees_of_different_dtypes)
{
    mf_value x = mf_dict("a", block(1, MF_F32), "b", block(2, MF_I32), "c", block(4, MF_F32), "d", block(6, MF_I32));
    EXPECT_SAME(mf_call(mf_pmap(max, "i"), x), mf_tree_map(max_of_rows, x));
    EXPECT_SAME(mf_call(mf_pmap(min, "i"), x), mf_tree_map(min_of_rows, x));
    EXPECT_SAME(mf_call(mf_pmap(sum, "i"), x), mf_tree_map(sum_of_rows, x));
    EXPECT_SAME(mf_call(mf_pmap(mean, "i"), x), mf_tree_map(mean_of_rows, x));
    CHECK_EQ_INT(mf_dtype_of(mf_get(mf_call(mf_pmap(sum, "i"), x), "d")), MF_I32);
}

/* ---- all_to_all */

typedef struct axes {
    int split, concat;
} axes;
static mf_value exchange_over_i(void *a, mf_value v) { return mf_all_to_all(v, ((axes *)a)->split, ((axes *)a)->concat, "i"); }
static mf_value exchange_over_both(void *a, mf_value v) { return mf_all_to_all(v, ((axes *)a)->split, ((axes *)a)->concat, "i", "j"); }

/* What all_to_all over axis 0 of a stacked x does: that axis goes behind concat, the split axis comes in front. By hand, element by
 * element. */
static mf_value exchanged(mf_value x, axes a, int n, mf_dtype dtype)
{
    double *from = malloc(2 * (size_t)(n * n * n) * sizeof *from), *to = from + n * n * n;
    mf_to_host(x, MF_F64, from, (size_t)(n * n * n));
    for (int source = 0; source < n; source++)
        for (int target = 0; target < n; target++)
            for (int k = 0; k < n; k++) { /* the piece for target: its other index is k */
                int at = a.split == 0 ? target * n + k : k * n + target;
                int there = a.concat == 0 ? source * n + k : k * n + source;
                to[target * n * n + there] = from[source * n * n + at];
            }
    mf_value r = mf_array_n(dtype, MF_SHAPE(n, n, n), to, n * n * n);
    free(from);
    return r;
}

TEST(all_to_all)
{
    static const mf_dtype dtypes[] = { MF_BOOL, MF_I8,  MF_I16, MF_I32,  MF_I64, MF_U8, MF_U16,
                                       MF_U32,  MF_U64, MF_F16, MF_BF16, MF_F32, MF_F64 };
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
        for (int k = 0; k < 4; k++) {
            MF_SCOPE;
            axes a = { k / 2, k % 2 };
            mf_value x = mf_astype(mf_floor(mf_mul(100, mf_abs(WAVES(8, 8, 8)))), dtypes[d]);
            mf_value r = mf_call(mf_pmap(mf_closure(exchange_over_i, &a), "i"), x);
            if (!EXPECT_SAME(r, exchanged(x, a, 8, dtypes[d])) || !CHECK_EQ_INT(mf_dtype_of(r), dtypes[d]))
                CHECK_NOTE("%s, split %d, concat %d", mf_str(dtypes[d]), a.split, a.concat);
        }
}

TEST(all_to_all_of_complex)
{
    for (int k = 0; k < 4; k++) {
        axes a = { k / 2, k % 2 };
        mf_value re = WAVES(8, 8, 8), im = mf_cos(FLOATS(8, 8, 8));
        mf_value r = mf_call(mf_pmap(mf_closure(exchange_over_i, &a), "i"), mf_add(re, mf_mul(im, mf_c(0, 1))));
        CHECK_EQ_INT(mf_dtype_of(r), MF_C64);
        EXPECT_SAME(mf_real(r), exchanged(re, a, 8, MF_F32));
        EXPECT_SAME(mf_imag(r), exchanged(im, a, 8, MF_F32));
    }
}

TEST(all_to_all_over_two_names)
{
    for (int k = 0; k < 4; k++) {
        axes a = { k / 2, k % 2 };
        mf_value x = INTS(4, 4, 4), two = mf_reshape(x, MF_SHAPE(2, 2, 4, 4));
        mf_value r = mf_call(mf_pmap(mf_pmap(mf_closure(exchange_over_both, &a), "j"), "i"), two);
        EXPECT_SAME(mf_reshape(r, MF_SHAPE(4, 4, 4)), exchanged(x, a, 4, MF_I32));
    }
}

FN(exchange_in_groups, mf_all_to_all(v, 0, 0, "i", .axis_index_groups = mf_list(EVENS, ODDS)))

TEST(all_to_all_in_groups)
{
    mf_value x = INTS(8, 4); /* rows of one parity are transposed among themselves */
    EXPECT_SAME(mf_call(mf_pmap(exchange_in_groups, "i"), x),
                mf_reshape(mf_swapaxes(mf_reshape(x, MF_SHAPE(4, 2, 4)), 0, 2), MF_SHAPE(8, 4)));
}

FN(swap, mf_pswapaxes(v, 1, "i"))

TEST(pswapaxes) { EXPECT_SAME(mf_call(mf_pmap(swap, "i"), INTS(8, 3, 8, 5)), mf_swapaxes(INTS(8, 3, 8, 5), 0, 2)); }

/* ---- psum over groups and several names */

FN(sum_over_both, mf_psum(v, "i", "j"))
FN(minus_constant_of_half, mf_sub(v, mf_psum(2.0, "i", .axis_index_groups = HALVES)))
FN(minus_half, mf_sub(v, mf_psum(v, "i", .axis_index_groups = HALVES)))

TEST(psum_over_two_names)
{
    mf_value x = FLOATS(4, 2, 4);
    EXPECT_SAME(mf_call(mf_pmap(mf_pmap(sum_over_both, "i"), "j"), x),
                mf_broadcast_to(mf_sum(x, .axis = mf_axes(0, 1)), MF_SHAPE(4, 2, 4)));
}

TEST(psum_of_a_constant_in_groups) { EXPECT_SAME(mf_call(mf_pmap(minus_constant_of_half, "i"), FLOATS(8, 4)), mf_sub(FLOATS(8, 4), 8)); }

static mf_value minus_sums_of(mf_value x, int first) /* of the rows below `first`, and of the others */
{
    mf_value a = mf_get(x, mf_range(0, first)), b = mf_get(x, mf_range(first, 8));
    return mf_concatenate(mf_list(mf_sub(a, mf_sum(a, 0)), mf_sub(b, mf_sum(b, 0))), 0);
}

TEST(psum_in_groups) { EXPECT_SAME(mf_call(mf_pmap(minus_half, "i"), FLOATS(8, 4)), minus_sums_of(FLOATS(8, 4), 4)); }

#define UNEVEN mf_list(mf_list(0, 1), mf_list(2, 3, 4, 5, 6, 7))
FN(minus_uneven, mf_sub(v, mf_psum(v, "i", .axis_index_groups = UNEVEN)))
FN(uneven_extremes, mf_tuple(mf_pmax(v, "i", .axis_index_groups = UNEVEN), mf_pmin(v, "i", .axis_index_groups = UNEVEN),
                             mf_pmean(v, "i", .axis_index_groups = UNEVEN), mf_psum(1, "i", .axis_index_groups = UNEVEN)))
FN(gather_uneven, mf_all_gather(v, 0, "i", .axis_index_groups = UNEVEN))
FN(psum_with_a_gap, mf_psum(v, "i", .axis_index_groups = mf_list(mf_list(0, 1), mf_list(2, 3, 4, 5, 6))))

TEST(psum_in_uneven_groups)
{
    mf_value x = FLOATS(8, 4), r = mf_call(mf_pmap(uneven_extremes, "i"), FLOATS(8));
    EXPECT_SAME(mf_call(mf_pmap(minus_uneven, "i"), x), minus_sums_of(x, 2));
    EXPECT_SAME(mf_call(mf_vmap(minus_uneven, "i"), x), minus_sums_of(x, 2));
    EXPECT(r, 1, 1, 7, 7, 7, 7, 7, 7, 0, 0, 2, 2, 2, 2, 2, 2, .5, .5, 4.5, 4.5, 4.5, 4.5, 4.5, 4.5, 2, 2, 6, 6, 6, 6, 6, 6);
    EXPECT_SAME(mf_call(mf_vmap(uneven_extremes, "i"), FLOATS(8)), r);
    EXPECT_ERROR(mf_call(mf_pmap(gather_uneven, "i"), x), "one size");
    EXPECT_ERROR(mf_call(mf_pmap(psum_with_a_gap, "i"), x), "axis_index_groups");
}

FN(gather_parity, mf_all_gather(v, 0, "i", .axis_index_groups = mf_list(EVENS, ODDS)))
FN(gather_mixed, mf_all_gather(v, 0, "i", .axis_index_groups = mf_list(mf_list(0, 6, 4, 2), mf_list(5, 1, 3, 7))))

TEST(all_gather_in_groups)
{
    mf_value x = FLOATS(8, 4), rows[8];
    for (int i = 0; i < 8; i++)
        rows[i] = mf_get(mf_reshape(x, MF_SHAPE(4, 2, 4)), mf_range(0, 4), i % 2);
    EXPECT_SAME(mf_call(mf_pmap(gather_parity, "i"), x), mf_stack(mf_list_n(rows, 8), 0));
}

TEST(all_gather_in_interleaved_groups)
{
    mf_value x = FLOATS(8, 4), even = mf_take(x, I32(0, 6, 4, 2), 0), odd = mf_take(x, I32(5, 1, 3, 7), 0), rows[8];
    for (int i = 0; i < 8; i++)
        rows[i] = i % 2 ? odd : even;
    EXPECT_SAME(mf_call(mf_pmap(gather_mixed, "i"), x), mf_stack(mf_list_n(rows, 8), 0));
}

/* Powers of two, one a device: a sum says who took part. */
FN(over_i, mf_psum(v, "i"))
FN(over_j, mf_psum(v, "j"))
FN(over_ji, mf_psum(v, "j", "i"))

TEST(who_takes_part)
{
    mf_value x = mf_reshape(I32(1, 2, 4, 8, 16, 32, 64, 128), MF_SHAPE(4, 2));
    EXPECT(mf_call(mf_pmap(mf_pmap(over_i, "j"), "i"), x), 85, 170, 85, 170, 85, 170, 85, 170); /* 0 2 4 6; 1 3 5 7 */
    EXPECT(mf_call(mf_pmap(mf_pmap(over_j, "j"), "i"), x), 3, 3, 12, 12, 48, 48, 192, 192);
    EXPECT(mf_call(mf_pmap(mf_pmap(sum_over_both, "j"), "i"), x), 255, 255, 255, 255, 255, 255, 255, 255);
    EXPECT(mf_call(mf_pmap(mf_pmap(over_ji, "j"), "i"), x), 255, 255, 255, 255, 255, 255, 255, 255);
}

/* ---- pbroadcast, ppermute, pshuffle */

FN(from_zero, mf_pbroadcast(v, "i", 0))
FN(vmapped_from_zero, mf_call(mf_vmap(from_zero), v))

TEST(pbroadcast)
{
    EXPECT_SAME(mf_call(mf_pmap(from_zero, "i"), INTS(8, 4)), eight_times(mf_arange(4, MF_I32)));
    mf_value bools = mf_call(mf_pmap(from_zero, "i"), mf_array(MF_BOOL, MF_SHAPE(2), 1, 0));
    EXPECT(bools, 1, 1);
    CHECK_EQ_INT(mf_dtype_of(bools), MF_BOOL);
}

TEST(pbroadcast_under_vmap)
{
    EXPECT_SAME(mf_call(mf_pmap(vmapped_from_zero, "i"), FLOATS(8, 4, 4)), eight_times(mf_get(FLOATS(8, 4, 4), 0)));
}

TEST(pbroadcast_differentiated) { EXPECT(mf_call(mf_pmap(mf_grad(from_zero), "i"), FLOATS(8)), 8, 0, 0, 0, 0, 0, 0, 0); }

TEST(ppermute) { EXPECT_SAME(mf_call(mf_pmap(rotate, "i"), INTS(8, 4)), rotated(INTS(8, 4))); }

#define PIS mf_add(M_PI, FLOATS(8))
FN(shift, mf_ppermute(v, "i", mf_get(rotation(8, 1), mf_range(0, 7)))) /* nothing comes to 0 */
FN(shift_loss, mf_sum(mf_mul(PIS, mf_call(mf_pmap(shift, "i"), v))))
FN(rotate_loss, mf_sum(mf_mul(PIS, mf_call(mf_pmap(rotate, "i"), v))))

TEST(ppermute_differentiated)
{
    mf_value after = mf_add(M_PI, F32(1, 2, 3, 4, 5, 6, 7));
    EXPECT_SAME(mf_call(mf_grad(shift_loss), FLOATS(8)), mf_concatenate(mf_list(after, mf_zeros(MF_SHAPE(1), MF_F32)), 0));
}

TEST(cyclic_ppermute_differentiated)
{
    EXPECT_SAME(mf_call(mf_grad(rotate_loss), FLOATS(8)), mf_add(M_PI, F32(1, 2, 3, 4, 5, 6, 7, 0)));
    EXPECT_SAME(mf_jvp(mf_grad(rotate_loss), mf_tuple(FLOATS(8)), mf_tuple(FLOATS(8))),
                mf_tuple(mf_add(M_PI, F32(1, 2, 3, 4, 5, 6, 7, 0)), mf_zeros(MF_SHAPE(8), MF_F32)));
}

FN(shuffle, mf_pshuffle(v, "i", mf_list(7, 0, 1, 2, 3, 4, 5, 6)))
FN(bad_shuffle, mf_pshuffle(v, "i", mf_list(1, 1, 2, 3, 4, 5, 6, 7)))

TEST(pshuffle)
{
    EXPECT(mf_call(mf_pmap(shuffle, "i"), INTS(8)), 7, 0, 1, 2, 3, 4, 5, 6);
    EXPECT_ERROR(mf_call(mf_pmap(bad_shuffle, "i"), INTS(8)), "`perm` does not represent a permutation");
}

/* Pairs from a program's own loop, neither sorted nor a literal. */
static mf_value permute_by_computed_pairs(mf_value v)
{
    mf_value pairs[8];
    for (int i = 7; i >= 0; i--)
        pairs[7 - i] = mf_tuple((i + 7) % 8, i);
    return mf_ppermute(v, "i", mf_tuple_n(pairs, 8));
}

TEST(ppermute_by_computed_pairs) { EXPECT(mf_call(mf_pmap(permute_by_computed_pairs, "i"), FLOATS(8)), 7, 0, 1, 2, 3, 4, 5, 6); }

/* Rule 30 on 40 cells, five a device: neighbours' edge cells come by ppermute. */
static mf_value rule_30(mf_value cells)
{
    mf_value right = mf_ppermute(mf_get(cells, mf_range(0, 1)), "i", rotation(8, -1));
    mf_value left = mf_ppermute(mf_get(cells, mf_range(4, 5)), "i", rotation(8, 1));
    mf_value wide = mf_concatenate(mf_list(left, cells, right), 0);
    return mf_bitwise_xor(mf_get(wide, mf_range(0, 5)), mf_bitwise_or(mf_get(wide, mf_range(1, 6)), mf_get(wide, mf_range(2, 7))));
}

TEST(halo_exchange)
{
    bool here[40] = { [20] = true }, seen[40];
    mf_value board = mf_from_host(MF_BOOL, MF_SHAPE(8, 5), here);
    for (int step = 0; step < 12; step++) {
        bool next[40];
        for (int i = 0; i < 40; i++)
            next[i] = here[(i + 39) % 40] ^ (here[i] | here[(i + 1) % 40]);
        memcpy(here, next, sizeof here);
        board = mf_call(mf_pmap(rule_30, "i"), board);
        REQUIRE(mf_to_host(board, MF_BOOL, seen, 40) == MF_OK);
        CHECK_BYTES(seen, here, sizeof here);
    }
}

/* ---- axis_index */

FN(plus_index, mf_add(v, mf_axis_index("i")))
FN(plus_index_j, mf_add(v, mf_axis_index("j")))
FN(plus_index_ij, mf_add(v, mf_axis_index("i", "j")))
FN(plus_index_ji, mf_add(v, mf_axis_index("j", "i")))
FN2(add_both_and_index, carry, i, mf_tuple(mf_add(mf_add(carry, i), mf_axis_index("i")), mf_none()))
FN(scan_index, mf_get(mf_scan(add_both_and_index, mf_zeros(MF_SHAPE0, MF_I32), v), 0))

TEST(axis_index) { EXPECT(mf_call(mf_pmap(plus_index, "i"), mf_ones(MF_SHAPE(8), MF_I32)), 1, 2, 3, 4, 5, 6, 7, 8); }

TEST(axis_index_nested)
{
    mf_value ones = mf_ones(MF_SHAPE(2, 2), MF_I32);
    EXPECT(mf_call(mf_pmap(mf_pmap(plus_index_j, "j"), "i"), ones), 1, 2, 1, 2);
    EXPECT(mf_call(mf_pmap(mf_pmap(plus_index, "j"), "i"), ones), 1, 1, 2, 2);
}

TEST(axis_index_over_two_names)
{
    mf_value ones = mf_ones(MF_SHAPE(2, 2), MF_I32);
    EXPECT(mf_call(mf_pmap(mf_pmap(plus_index_ij, "j"), "i"), ones), 1, 2, 3, 4);
    EXPECT(mf_call(mf_pmap(mf_pmap(plus_index_ji, "j"), "i"), ones), 1, 3, 2, 4);
}

TEST(axis_index_in_a_scan) { EXPECT(mf_call(mf_pmap(scan_index, "i"), mf_ones(MF_SHAPE(8, 10), MF_I32)), 10, 20, 30, 40, 50, 60, 70, 80); }

/* ---- pargmax, pargmin */

FN(where_max, mf_pargmax(v, "i"))
FN(where_min, mf_pargmin(v, "i"))
FN(beside_argmax, mf_mul(v, mf_add(mf_pargmax(v, "i"), 1)))
FN(sum_beside_argmax, mf_sum(mf_call(mf_pmap(beside_argmax, "i"), v)))

TEST(pargmax_and_pargmin)
{
    static const mf_shape shapes[] = { { 1, { 4 } }, { 2, { 2, 2 } }, { 2, { 2, 4 } }, { 2, { 4, 2 } } };
    static const mf_dtype dtypes[] = { MF_F32, MF_I32 };
    for (int k = 0; k < 16; k++) {
        mf_shape s = shapes[k / 4];
        int axis = k / 2 % 2;
        if (axis >= s.rank)
            continue;
        mf_value x = mf_astype(mf_mul(10, mf_sin(filled_in_order(MF_F32, s))), dtypes[k % 2]);
        EXPECT_SAME(mf_call(mf_pmap(where_max, "i", .in_axes = axis, .out_axes = MF_NONE), x), mf_argmax(x, axis));
        EXPECT_SAME(mf_call(mf_pmap(where_min, "i", .in_axes = axis, .out_axes = MF_NONE), x), mf_argmin(x, axis));
    }
    mf_value ties = F32(1, 5, 5, 1), nan = F32(1, 5, NAN, NAN);
    EXPECT(mf_call(mf_grad(sum_beside_argmax), ties), 2, 2, 2, 2);
    EXPECT(mf_call(mf_pmap(where_max, "i", .out_axes = MF_NONE), ties), 1);
    EXPECT(mf_call(mf_pmap(where_min, "i", .out_axes = MF_NONE), ties), 0);
    EXPECT(mf_call(mf_pmap(where_max, "i", .out_axes = MF_NONE), nan), 2); /* as argmax; JAX has no answer here */
}
