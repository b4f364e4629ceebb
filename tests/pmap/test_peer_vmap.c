/* Counterparts of the peer's tests of vmap around and within pmap. */
#include "peer.h"

FN(same, v)
FN(twice, mf_mul(2, v))

/* ---- vmap of pmap */

TEST(leading_axis) { EXPECT_SAME(mf_call(mf_vmap(mf_pmap(same, "i")), WAVES(2, 8, 5, 6)), WAVES(2, 8, 5, 6)); }

TEST(other_axes)
{
    mf_value x = WAVES(8, 2, 5, 6);
    EXPECT_SAME(mf_call(mf_vmap(mf_pmap(same, "i"), .in_axes = 2, .out_axes = 2), x), x);
    EXPECT_SAME(mf_call(mf_vmap(mf_pmap(same, "i"), .in_axes = -1, .out_axes = -1), x), x);
}

FN3(three, a, b, c, mf_tuple(a, b, c))

TEST(tuples)
{
    mf_value x = WAVES(8, 2, 5, 6), y = WAVES(8, 3, 2), z1 = WAVES(8, 20), z2 = WAVES(2, 8, 20);
    mf_axis in = mf_axes(1, 2, mf_axes(MF_NONE, 0)), out = mf_axes(1, 2, 0);
    mf_value r = mf_call(mf_vmap(mf_pmap(three, "i"), .in_axes = in, .out_axes = out), x, y, mf_tuple(z1, z2));
    EXPECT_SAME(mf_get(r, 0), x);
    EXPECT_SAME(mf_get(r, 1), y);
    EXPECT_SAME(mf_get(r, 2, 0), mf_broadcast_to(z1, MF_SHAPE(2, 8, 20)));
    EXPECT_SAME(mf_get(r, 2, 1), z2);
}

static mf_value draw_and_forget(mf_value key)
{
    (void)mf_random_normal(key, MF_SHAPE0, MF_F32);
    return mf_f(0);
}
FN(on_every_device, mf_call(mf_pmap(draw_and_forget), mf_broadcast_to(v, MF_SHAPE(8, 2))))

TEST(keys)
{
    mf_value r = mf_call(mf_vmap(on_every_device), mf_random_split(mf_random_key(1), 13));
    EXPECT_SAME(r, mf_zeros(MF_SHAPE(13, 8), MF_F32));
}

FN2(second, x, y, ((void)x, y))
FN2(with_point, q, points, mf_tuple(q, mf_call(mf_pmap(second, .in_axes = mf_axes(0, MF_NONE)), points, q)))
static mf_value with_point_step(void *points, mf_value carry, mf_value q) { return mf_tuple(carry, with_point(q, *(mf_value *)points)); }

TEST(unmapped_argument_that_is_batched)
{
    mf_value points = mf_ones(MF_SHAPE(8), MF_F32), qs = mf_reshape(I32(0, 0, 3, 3, 2, 2), MF_SHAPE(3, 2));
    mf_value one_by_one = mf_get(mf_scan(mf_closure(with_point_step, &points), mf_none(), qs), 1);
    EXPECT_SAME(mf_call(mf_vmap(with_point, .in_axes = mf_axes(0, MF_NONE)), qs, points), one_by_one);
}

TEST(a_name_shadowed)
{
    for (int outer = 1; outer <= 2; outer++) {
        mf_value x = mf_ones(MF_SHAPE(outer, 1), MF_F32);
        EXPECT_SAME(mf_call(mf_vmap(mf_pmap(twice, "i"), "i"), x), mf_mul(x, 2));
        EXPECT_SAME(mf_call(mf_vmap(mf_vmap(twice, "i"), "i"), x), mf_mul(x, 2));
    }
}

/* Sums of one, two or three arguments, any of them with a batch axis, a mapped axis or neither at any place, and results at any place:
 * every combination of a few, against picking elements by hand. */
FN(sum_1, v)
FN2(sum_2, a, b, mf_add(a, b))
FN3(sum_3, a, b, c, mf_add(mf_add(a, b), c))

typedef struct combination {
    int count, rank, shapes[3][3], batch[3], mapped[3], batch_out, mapped_out; /* -1: none */
} combination;

static mf_value argument(const combination *c, int k)
{
    mf_shape s = { .rank = c->rank };
    for (int i = 0; i < c->rank; i++)
        s.dims[i] = c->shapes[k][i];
    for (int pass = 0; pass < 2; pass++) {
        int axis = pass ? c->batch[k] : c->mapped[k];
        if (axis < 0)
            continue;
        memmove(s.dims + axis + 1, s.dims + axis, (size_t)(s.rank - axis) * sizeof *s.dims);
        s.dims[axis] = pass ? 3 : 8;
        s.rank++;
    }
    return mf_add(mf_sin(mf_mul(0.3 + k, filled_in_order(MF_F32, s))), k);
}

static mf_value element(mf_value x, int axis, int i) { return axis < 0 ? x : mf_squeeze(mf_slice_in_dim(x, i, i + 1, 1, axis), axis); }

static void check_combination(const combination *c)
{
    MF_SCOPE;
    mf_value x[3] = { { 0 }, { 0 }, { 0 } }, rows[3], r;
    mf_axis vmap_in[3], pmap_in[3];
    mf_function f = c->count == 1 ? mf_fn(sum_1) : c->count == 2 ? mf_fn(sum_2) : mf_fn(sum_3);
    for (int k = 0; k < c->count; k++) {
        x[k] = argument(c, k);
        vmap_in[k] = c->batch[k] < 0 ? MF_NONE : c->batch[k];
        pmap_in[k] = c->mapped[k] < 0 ? MF_NONE : c->mapped[k];
    }
    mf_function p = mf_pmap(f, .in_axes = mf_axes_n(pmap_in, c->count), .out_axes = c->mapped_out);
    r = mf_call_n(mf_vmap(p, .in_axes = mf_axes_n(vmap_in, c->count), .out_axes = c->batch_out), x, c->count);
    for (int b = 0; b < 3; b++) {
        mf_value devices[8];
        for (int d = 0; d < 8; d++) {
            mf_value e[3];
            for (int k = 0; k < c->count; k++)
                e[k] = element(element(x[k], c->batch[k], b), c->mapped[k], d);
            devices[d] = mf_call_n(f, e, c->count);
        }
        rows[b] = mf_stack(mf_list_n(devices, 8), c->mapped_out);
    }
    if (!EXPECT_SAME(r, mf_stack(mf_list_n(rows, 3), c->batch_out)))
        CHECK_NOTE("%d arguments, batch %d %d %d, mapped %d %d %d, results %d %d", c->count, c->batch[0], c->batch[1], c->batch[2],
                   c->mapped[0], c->mapped[1], c->mapped[2], c->batch_out, c->mapped_out);
}

TEST(every_combination_of_axes)
{
    static const int shapes[3][3][3] = { { { 3 }, { 3 }, { 3 } },
                                         { { 3, 4 }, { 3, 1 }, { 1, 4 } },
                                         { { 2, 3, 4 }, { 2, 1, 4 }, { 2, 1, 4 } } };
    static const int ranks[3] = { 1, 2, 3 };
    unsigned seed = 5;
    for (int i = 0; i < 60; i++) {
        combination c = { .count = 1 + i % 3 };
        int family = i / 3 % 3;
        c.rank = ranks[family];
        memcpy(c.shapes, shapes[family], sizeof c.shapes);
        bool batched = false, mapped = false;
        for (int k = 0; k < c.count; k++) {
            seed = seed * 1103515245u + 12345;
            c.mapped[k] = (int)(seed >> 16) % (c.rank + 2) - 1;
            int rank = c.rank + (c.mapped[k] >= 0);
            c.batch[k] = (int)(seed >> 8 & 255) % (rank + 2) - 1;
            batched |= c.batch[k] >= 0;
            mapped |= c.mapped[k] >= 0;
        }
        if (!batched)
            c.batch[0] = 0;
        if (!mapped)
            c.mapped[0] = c.rank;
        c.mapped_out = (int)(seed >> 20) % (c.rank + 1);
        c.batch_out = (int)(seed >> 24) % (c.rank + 2);
        check_combination(&c);
    }
}

/* ---- collectives over a mapped and a batched axis: exchanging pmap and vmap makes no difference */

#define OVER_BOTH(name, collective) FN2(name, x, y, mf_add(x, collective(mf_matmul(x, y), "i", "j")))
OVER_BOTH(sum_of_both, mf_psum)
OVER_BOTH(mean_of_both, mf_pmean)
OVER_BOTH(max_of_both, mf_pmax)
OVER_BOTH(min_of_both, mf_pmin)

static void all_ways(mf_function f, mf_value x)
{
    mf_value y = mf_call(mf_pmap(mf_pmap(f, "j"), "i"), x, x);
    CHECK(!mf_is_error(y));
    EXPECT_CLOSE(mf_call(mf_vmap(mf_vmap(f, "j"), "i"), x, x), y, 1e-5);
    EXPECT_CLOSE(mf_call(mf_pmap(mf_vmap(f, "j"), "i"), x, x), y, 1e-5);
    EXPECT_CLOSE(mf_call(mf_vmap(mf_pmap(f, "j"), "i"), x, x), y, 1e-5);
}

TEST(collectives_over_a_mapped_and_a_batched_axis)
{
    mf_function all[] = { mf_fn(sum_of_both), mf_fn(mean_of_both), mf_fn(max_of_both), mf_fn(min_of_both) };
    for (int i = 0; i < 4; i++)
        all_ways(all[i], mf_ones(MF_SHAPE(2, 2, 16, 16), MF_F32));
}

TEST(collectives_over_axes_of_different_sizes)
{
    mf_function all[] = { mf_fn(sum_of_both), mf_fn(mean_of_both), mf_fn(max_of_both), mf_fn(min_of_both) };
    for (int i = 0; i < 4; i++)
        all_ways(all[i], FLOATS(4, 2, 16, 16));
}

FN2(plus_permuted, x, y, mf_add(x, mf_ppermute(mf_matmul(x, y), "i", mf_list(mf_tuple(0, 1), mf_tuple(1, 0)))))
FN(three_around, mf_ppermute(v, "i", mf_list(mf_tuple(1, 0), mf_tuple(2, 1), mf_tuple(0, 2))))

TEST(ppermute_with_vmap_inside)
{
    mf_value x = WAVES(2, 2, 16, 16);
    EXPECT_SAME(mf_call(mf_pmap(mf_vmap(plus_permuted), "i"), x, x), mf_call(mf_pmap(mf_pmap(plus_permuted), "i"), x, x));
}

TEST(ppermute_as_vmap)
{
    EXPECT(mf_call(mf_pmap(three_around, "i"), I32(0, 10, 20)), 10, 20, 0);
    EXPECT(mf_call(mf_vmap(three_around, "i"), I32(0, 10, 20)), 10, 20, 0);
}

/* ---- all_to_all */

typedef struct axes {
    int split, concat;
    bool both, swapped;
} axes;
static mf_value exchange(void *context, mf_value v)
{
    const axes *a = context;
    if (!a->both)
        return mf_all_to_all(v, a->split, a->concat, "i");
    return a->swapped ? mf_all_to_all(v, a->split, a->concat, "j", "i") : mf_all_to_all(v, a->split, a->concat, "i", "j");
}

/* Element (target, batch, rest) of the result is element (source, batch, rest) of x, where rest has target at the split axis of x and
 * source at the concat axis of the result. n of everything; by hand. */
static mf_value exchanged_in_vmap(const double *x, int n, axes a, int vmap_axis)
{
    double *y = malloc((size_t)(n * n * n * n * n) * sizeof *y);
    for (int at = 0; at < n * n * n * n * n; at++) {
        int i[5], piece[3], rest[2], from[4], k = 0, source, target, batch;
        for (int d = 4, left = at; d >= 0; d--, left /= n)
            i[d] = left % n;
        target = i[0], batch = i[1];
        source = i[2 + a.concat];
        for (int d = 0; d < 3; d++)
            if (d != a.concat)
                rest[k++] = i[2 + d];
        for (int d = 0, next = 0; d < 3; d++)
            piece[d] = d == a.split ? target : rest[next++];
        for (int d = 0, next = 0; d < 4; d++)
            from[d] = d == vmap_axis ? batch : piece[next++];
        y[at] = x[(((source * n + from[0]) * n + from[1]) * n + from[2]) * n + from[3]];
    }
    mf_value r = mf_array_n(MF_I32, MF_SHAPE(n, n, n, n, n), y, n * n * n * n * n);
    free(y);
    return r;
}

TEST(all_to_all_in_vmap)
{
    enum { n = 4, all = n * n * n * n * n };
    static double x[all];
    mf_to_host(INTS(n, n, n, n, n), MF_F64, x, all);
    for (int k = 0; k < 36; k++) {
        MF_SCOPE;
        axes a = { .split = k / 12, .concat = k / 4 % 3 };
        mf_function f = mf_vmap(mf_closure(exchange, &a), .in_axes = k % 4);
        if (!EXPECT_SAME(mf_call(mf_pmap(f, "i"), INTS(n, n, n, n, n)), exchanged_in_vmap(x, n, a, k % 4)))
            CHECK_NOTE("split %d, concat %d, vmap %d", a.split, a.concat, k % 4);
    }
}

TEST(all_to_all_as_vmap)
{
    for (int k = 0; k < 9; k++) {
        MF_SCOPE;
        axes a = { .split = k / 3, .concat = k % 3 };
        mf_value x = INTS(8, 8, 8, 8);
        EXPECT_SAME(mf_call(mf_pmap(mf_closure(exchange, &a), "i"), x), mf_call(mf_vmap(mf_closure(exchange, &a), "i"), x));
    }
}

TEST(all_to_all_over_two_names_as_vmap)
{
    for (int k = 0; k < 18; k++) {
        MF_SCOPE;
        axes a = { k / 3 % 3, k % 3, true, k >= 9 };
        mf_value x = INTS(2, 2, 4, 4, 4);
        mf_function f = mf_closure(exchange, &a);
        mf_value mapped = mf_call(mf_pmap(mf_pmap(f, "j"), "i"), x);
        EXPECT_SAME(mf_call(mf_vmap(mf_vmap(f, "j"), "i"), x), mapped);
        EXPECT_SAME(mf_call(mf_vmap(mf_pmap(f, "j"), "i"), x), mapped);
        EXPECT_SAME(mf_call(mf_pmap(mf_vmap(f, "j"), "i"), x), mapped);
    }
}

/* ---- all_gather and psum_scatter */

FN(gather, mf_all_gather(v, 0, "i"))
FN(scatter, mf_psum_scatter(v, 0, "i"))
FN(gather_tiled, mf_all_gather(v, 0, "i", .tiled = true))
FN(scatter_tiled, mf_psum_scatter(v, 0, "i", .tiled = true))

TEST(gather_and_scatter_with_vmap_inside)
{
    mf_value x = WAVES(2, 2, 2, 64);
    EXPECT_SAME(mf_call(mf_pmap(mf_vmap(gather), "i"), x), mf_call(mf_pmap(mf_pmap(gather), "i"), x));
    EXPECT_SAME(mf_call(mf_pmap(mf_vmap(scatter), "i"), x), mf_call(mf_pmap(mf_pmap(scatter), "i"), x));
}

TEST(gather_and_scatter_as_vmap)
{
    mf_function all[] = { mf_fn(gather), mf_fn(scatter), mf_fn(gather_tiled), mf_fn(scatter_tiled) };
    for (int i = 0; i < 4; i++)
        EXPECT_SAME(mf_call(mf_vmap(all[i], "i"), INTS(4, 4, 8)), mf_call(mf_pmap(all[i], "i"), INTS(4, 4, 8)));
}

FN(scatter_over_both, mf_psum_scatter(v, 1, "i", "j"))
FN(scatter_tiled_over_both, mf_psum_scatter(v, 1, "j", "i", .tiled = true))

TEST(psum_scatter_over_two_names_as_vmap)
{
    mf_function all[] = { mf_fn(scatter_over_both), mf_fn(scatter_tiled_over_both) };
    for (int i = 0; i < 2; i++) {
        mf_value x = WAVES(4, 2, 3, 8, 2), mapped = mf_call(mf_pmap(mf_pmap(all[i], "j"), "i"), x);
        EXPECT_SAME(mf_call(mf_vmap(mf_vmap(all[i], "j"), "i"), x), mapped);
        EXPECT_SAME(mf_call(mf_vmap(mf_pmap(all[i], "j"), "i"), x), mapped);
        EXPECT_SAME(mf_call(mf_pmap(mf_vmap(all[i], "j"), "i"), x), mapped);
    }
}

/* Groups under vmap, which JAX refuses, work as under pmap. */
#define GROUPS mf_list(mf_list(6, 1, 4, 3), mf_list(0, 5, 2, 7))
FN(gather_in_groups, mf_all_gather(v, 1, "i", .axis_index_groups = GROUPS))
FN(gather_tiled_in_groups, mf_all_gather(v, 1, "i", .axis_index_groups = GROUPS, .tiled = true))
FN(scatter_in_groups, mf_psum_scatter(v, 0, "i", .axis_index_groups = GROUPS))
FN(scatter_tiled_in_groups, mf_psum_scatter(v, 1, "i", .axis_index_groups = GROUPS, .tiled = true))
FN(exchange_in_groups, mf_all_to_all(v, 0, 1, "i", .axis_index_groups = GROUPS))
FN(exchange_tiled_in_groups, mf_all_to_all(v, 1, 0, "i", .axis_index_groups = GROUPS, .tiled = true))
FN(sums_in_groups, mf_tuple(mf_psum(v, "i", .axis_index_groups = GROUPS), mf_pmean(v, "i", .axis_index_groups = GROUPS),
                            mf_pmax(v, "i", .axis_index_groups = GROUPS), mf_pmin(v, "i", .axis_index_groups = GROUPS)))

TEST(groups_under_vmap)
{
    mf_function all[] = { mf_fn(gather_in_groups),        mf_fn(gather_tiled_in_groups), mf_fn(scatter_in_groups),
                          mf_fn(scatter_tiled_in_groups), mf_fn(exchange_in_groups),     mf_fn(exchange_tiled_in_groups),
                          mf_fn(sums_in_groups) };
    mf_value x = WAVES(8, 4, 8);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        EXPECT_SAME(mf_call(mf_vmap(all[i], "i"), x), mf_call(mf_pmap(all[i], "i"), x));
}

/* ---- maps of maps: a matrix times vectors, row by row, batched, spread over the devices */

typedef struct matrix_product {
    mf_value x;
} matrix_product;
static mf_value row_times(void *y, mf_value carry, mf_value row) { return mf_tuple(carry, mf_dot(row, *(mf_value *)y)); }
OVER(rows_times, z, mf_get(mf_scan(mf_closure(row_times, &w), mf_none(), z), 1))
static mf_value spread_times(void *context, mf_value y)
{
    mf_value x = ((matrix_product *)context)->x, r;
    mf_shape s = mf_shape_of(x), t;
    r = mf_call(mf_pmap(mf_closure(rows_times, &y)), mf_reshape(x, MF_SHAPE(8, s.dims[0] / 8, s.dims[1])));
    t = mf_shape_of(r);
    t.dims[1] *= 8;
    memmove(t.dims, t.dims + 1, (size_t)--t.rank * sizeof *t.dims);
    return mf_reshape(r, t);
}
static mf_value spread_times_step(void *context, mf_value carry, mf_value y) { return mf_tuple(carry, spread_times(context, y)); }
static mf_value plain_times_step(void *x, mf_value carry, mf_value y) { return mf_tuple(carry, rows_times(&y, ((matrix_product *)x)->x)); }

TEST(batched_product_with_rows_on_the_devices)
{
    matrix_product p = { WAVES(80, 50) };
    mf_value y = WAVES(10, 50, 1), r = mf_call(mf_vmap(mf_closure(spread_times, &p)), y), rows[10];
    for (int i = 0; i < 10; i++)
        rows[i] = mf_matmul(p.x, mf_get(y, i));
    EXPECT_CLOSE(r, mf_stack(mf_list_n(rows, 10), 0), 1e-4);
}

TEST(vmap_scan_and_pmap_in_every_order)
{
    matrix_product p = { WAVES(40, 5) };
    mf_value y = WAVES(5, 5), by_vmap = mf_call(mf_vmap(mf_closure(spread_times, &p)), y), rows[5];
    EXPECT_CLOSE(mf_get(mf_scan(mf_closure(spread_times_step, &p), mf_none(), y), 1), by_vmap, 1e-5);
    EXPECT_CLOSE(mf_get(mf_scan(mf_closure(plain_times_step, &p), mf_none(), y), 1), by_vmap, 1e-5);
    for (int i = 0; i < 5; i++) {
        mf_value row = mf_get(y, i);
        rows[i] = rows_times(&row, p.x);
    }
    EXPECT_CLOSE(mf_stack(mf_list_n(rows, 5), 0), by_vmap, 1e-5);
}

/* Repeated products with a matrix that is spread over the devices, in a scan. */
OVER(dot_with, z, mf_dot(z, w))
static mf_value power_step(void *a, mf_value carry, mf_value i)
{
    mf_value spread = mf_reshape(*(mf_value *)a, MF_SHAPE(8, 2, 16));
    return mf_tuple(mf_reshape(mf_call(mf_pmap(mf_closure(dot_with, &carry)), spread), MF_SHAPE(16)), i);
}

TEST(power_iteration_by_pmap_in_scan)
{
    mf_value a = mf_mul(0.3, WAVES(16, 16)), b = WAVES(16), expected = b;
    for (int i = 0; i < 5; i++)
        expected = mf_dot(a, expected);
    EXPECT_CLOSE(mf_get(mf_scan(mf_closure(power_step, &a), b, mf_arange(5, MF_I32)), 0), expected, 1e-5);
}
