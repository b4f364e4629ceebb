/* Every collective over one name and several, in pmap and in vmap, against what JAX answered: all cases of tests/oracle/collectives.txt,
 * and of narrow.txt, whose sums of 16-bit floats round once.
 * A case "<map>_<body>" maps the body over 'i', a case "<map>_<map>_<body>" over 'i' and, inside, over 'j'. */
#include "check.h"
#include "known.h"
#include "spread.h"

#define BODY(name, expression) \
    static mf_value name(mf_value x) { return (expression); }
#define PAIR(a, b) mf_tuple(a, b)

BODY(psum, mf_psum(x, "i"))
BODY(pmean, mf_pmean(x, "i"))
BODY(pmax, mf_pmax(x, "i"))
BODY(pmin, mf_pmin(x, "i"))
BODY(all_gather, mf_all_gather(x, 0, "i"))
BODY(all_gather_axis1, mf_all_gather(x, 1, "i"))
BODY(all_gather_axis2, mf_all_gather(x, 2, "i"))
BODY(all_gather_tiled_axis0, mf_all_gather(x, 0, "i", .tiled = true))
BODY(all_gather_tiled_axis1, mf_all_gather(x, 1, "i", .tiled = true))
BODY(psum_scatter_dim0, mf_psum_scatter(x, 0, "i"))
BODY(psum_scatter_dim1, mf_psum_scatter(x, 1, "i"))
BODY(psum_scatter_tiled_dim0, mf_psum_scatter(x, 0, "i", .tiled = true))
BODY(psum_scatter_tiled_dim1, mf_psum_scatter(x, 1, "i", .tiled = true))
BODY(all_to_all_0_0, mf_all_to_all(x, 0, 0, "i"))
BODY(all_to_all_0_1, mf_all_to_all(x, 0, 1, "i"))
BODY(all_to_all_1_0, mf_all_to_all(x, 1, 0, "i"))
BODY(all_to_all_1_1, mf_all_to_all(x, 1, 1, "i"))
BODY(all_to_all_tiled_0_0, mf_all_to_all(x, 0, 0, "i", .tiled = true))
BODY(all_to_all_tiled_0_1, mf_all_to_all(x, 0, 1, "i", .tiled = true))
BODY(all_to_all_tiled_1_0, mf_all_to_all(x, 1, 0, "i", .tiled = true))
BODY(all_to_all_tiled_1_1, mf_all_to_all(x, 1, 1, "i", .tiled = true))
BODY(axis_index, mf_add(x, mf_axis_index("i")))
BODY(psum_constant, mf_mul(x, mf_psum(1, "i")))
BODY(pmax_nan, mf_tuple(mf_pmax(x, "i"), mf_pmin(x, "i"), mf_psum(x, "i")))
BODY(ppermute_partial, mf_ppermute(x, "i", mf_list(PAIR(0, 2), PAIR(3, 1))))
BODY(ppermute_none, mf_ppermute(x, "i", mf_list_n(NULL, 0)))
BODY(pshuffle, mf_pshuffle(x, "i", mf_list(2, 0, 3, 1)))
BODY(psum_from_one, mf_psum(mf_where(mf_equal(mf_axis_index("i"), 2), x, 0), "i"))

#define GROUPS_01_23 mf_list(mf_list(0, 1), mf_list(2, 3))
#define GROUPS_02_13 mf_list(mf_list(0, 2), mf_list(1, 3))
#define GROUPS_30_21 mf_list(mf_list(3, 0), mf_list(2, 1))
#define GROUPS_0123  mf_list(mf_list(0, 1, 2, 3))
BODY(psum_groups_01_23, mf_psum(x, "i", .axis_index_groups = GROUPS_01_23))
BODY(psum_groups_02_13, mf_psum(x, "i", .axis_index_groups = GROUPS_02_13))
BODY(psum_groups_30_21, mf_psum(x, "i", .axis_index_groups = GROUPS_30_21))
BODY(psum_groups_0123, mf_psum(x, "i", .axis_index_groups = GROUPS_0123))
BODY(all_gather_groups_01_23, mf_all_gather(x, 0, "i", .axis_index_groups = GROUPS_01_23))
BODY(all_gather_groups_02_13, mf_all_gather(x, 0, "i", .axis_index_groups = GROUPS_02_13))
BODY(all_gather_groups_30_21, mf_all_gather(x, 0, "i", .axis_index_groups = GROUPS_30_21))
BODY(all_gather_groups_0123, mf_all_gather(x, 0, "i", .axis_index_groups = GROUPS_0123))

static mf_value ring(mf_value x)
{
    int n = (int)mf_item_i64(mf_axis_size("i"));
    mf_value pairs[16];
    for (int i = 0; i < n; i++)
        pairs[i] = PAIR(i, (i + 1) % n);
    return mf_ppermute(x, "i", mf_list_n(pairs, n));
}

static mf_value tree_sum(mf_value x, mf_value y) { return mf_psum(mf_dict("a", x, "b", mf_tuple(y, 1.0)), "i"); }
static mf_value tree_mean(mf_value x, mf_value y) { return mf_pmean(mf_tuple(x, y), "i"); }

/* inside control flow */
static mf_value add_psum(mf_value c, mf_value t) { return mf_tuple(mf_add(c, mf_psum(t, "i")), c); }
static mf_value shift_and_one(mf_value c, mf_value unused)
{
    (void)unused;
    return mf_tuple(mf_add(ring(c), 1), c);
}
static mf_value same(mf_value v) { return v; }
static mf_value ten_times(mf_value v) { return mf_mul(v, 10); }
static mf_value negative(mf_value v) { return mf_neg(v); }
static mf_value sum_below_100(mf_value c) { return mf_less(mf_psum(c, "i"), 100); }
static mf_value plus_sum(mf_value c) { return mf_add(c, mf_psum(c, "i")); }
static mf_value below_50(mf_value c) { return mf_less(c, 50); }
static mf_value twice(mf_value c) { return mf_mul(c, 2); }
static mf_value plus_mean(mf_value i, mf_value c) { return mf_add(c, mf_mul(mf_pmean(c, "i"), i)); }
BODY(scan_psum, mf_scan(add_psum, mf_scalar(0, MF_F32), x))
BODY(scan_ppermute, mf_scan(shift_and_one, x, mf_none(), .length = 3))
BODY(cond_psum_true, mf_cond(mf_greater(mf_psum(x, "i"), 3), psum, same, x))
BODY(cond_psum_false, mf_cond(mf_greater(mf_psum(x, "i"), 30), psum, same, x))
BODY(cond_varying, mf_cond(mf_equal(mf_remainder(mf_axis_index("i"), 2), 0), ten_times, negative, x))
BODY(while_psum, mf_while(sum_below_100, plus_sum, x))
BODY(while_varying, mf_while(below_50, twice, x))
BODY(fori_pmean, mf_fori_loop(0, 3, plus_mean, x))

/* two names */
BODY(psum_j, mf_psum(x, "j"))
BODY(psum_ij, mf_psum(x, "i", "j"))
BODY(psum_ji, mf_psum(x, "j", "i"))
BODY(pmax_j, mf_pmax(x, "j"))
BODY(pmax_ij, mf_pmax(x, "i", "j"))
BODY(pmax_ji, mf_pmax(x, "j", "i"))
BODY(pmin_j, mf_pmin(x, "j"))
BODY(pmin_ij, mf_pmin(x, "i", "j"))
BODY(pmin_ji, mf_pmin(x, "j", "i"))
BODY(pmean_j, mf_pmean(x, "j"))
BODY(pmean_ij, mf_pmean(x, "i", "j"))
BODY(pmean_ji, mf_pmean(x, "j", "i"))
BODY(all_gather_j, mf_all_gather(x, 0, "j"))
BODY(all_gather_ij, mf_all_gather(x, 0, "i", "j"))
BODY(all_gather_ji, mf_all_gather(x, 0, "j", "i"))
BODY(all_gather_ij_tiled, mf_all_gather(x, 0, "i", "j", .tiled = true))
BODY(psum_scatter_j, mf_psum_scatter(x, 0, "j", .tiled = true))
BODY(psum_scatter_ij, mf_psum_scatter(x, 0, "i", "j", .tiled = true))
BODY(both_indices, mf_add(mf_add(x, mf_mul(10.0, mf_axis_index("i"))), mf_axis_index("j")))
/* In an index over several names, the first name varies slowest. */
BODY(axis_index_ij, mf_add(x, mf_add(mf_mul(mf_axis_index("i"), mf_axis_size("j")), mf_axis_index("j"))))
BODY(axis_index_ji, mf_add(x, mf_add(mf_mul(mf_axis_index("j"), mf_axis_size("i")), mf_axis_index("i"))))
BODY(sizes, mf_add(mf_mul(x, mf_psum(1, "i", "j")), mf_psum(1, "j")))
BODY(square_sum_j, mf_sum(mf_psum(mf_square(x), "j")))
BODY(square_sum_ij, mf_sum(mf_psum(mf_square(x), "i", "j")))
BODY(grad_psum_j, mf_call(mf_grad(square_sum_j), x))
BODY(grad_psum_ij, mf_call(mf_grad(square_sum_ij), x))

typedef struct body {
    const char *name;
    mf_value (*run)(mf_value);
} body;

static const body over_i[] = {
    { "psum", psum },
    { "pmean", pmean },
    { "pmax", pmax },
    { "pmin", pmin },
    { "all_gather", all_gather },
    { "axis_index", axis_index },
    { "ppermute_ring", ring },
    { "psum_scalar", psum },
    { "psum_constant", psum_constant },
    { "psum_inexact", psum },
    { "pmean_int", pmean },
    { "psum_bool", psum },
    { "psum_i32_wraps", psum },
    { "psum_u8_wraps", psum },
    { "psum_f16", psum },
    { "pmax_nan", pmax_nan },
    { "psum_groups_01_23", psum_groups_01_23 },
    { "psum_groups_02_13", psum_groups_02_13 },
    { "psum_groups_30_21", psum_groups_30_21 },
    { "psum_groups_0123", psum_groups_0123 },
    { "all_gather_groups_01_23", all_gather_groups_01_23 },
    { "all_gather_groups_02_13", all_gather_groups_02_13 },
    { "all_gather_groups_30_21", all_gather_groups_30_21 },
    { "all_gather_groups_0123", all_gather_groups_0123 },
    { "all_gather_axis0", all_gather },
    { "all_gather_axis1", all_gather_axis1 },
    { "all_gather_axis2", all_gather_axis2 },
    { "all_gather_tiled_axis0", all_gather_tiled_axis0 },
    { "all_gather_tiled_axis1", all_gather_tiled_axis1 },
    { "psum_scatter_dim0", psum_scatter_dim0 },
    { "psum_scatter_dim1", psum_scatter_dim1 },
    { "psum_scatter_tiled_dim0", psum_scatter_tiled_dim0 },
    { "psum_scatter_tiled_dim1", psum_scatter_tiled_dim1 },
    { "psum_scatter_8_tiled", psum_scatter_tiled_dim0 },
    { "all_to_all_0_0", all_to_all_0_0 },
    { "all_to_all_0_1", all_to_all_0_1 },
    { "all_to_all_1_0", all_to_all_1_0 },
    { "all_to_all_1_1", all_to_all_1_1 },
    { "all_to_all_tiled_0_0", all_to_all_tiled_0_0 },
    { "all_to_all_tiled_0_1", all_to_all_tiled_0_1 },
    { "all_to_all_tiled_1_0", all_to_all_tiled_1_0 },
    { "all_to_all_tiled_1_1", all_to_all_tiled_1_1 },
    { "ppermute_partial", ppermute_partial },
    { "ppermute_none", ppermute_none },
    { "pshuffle", pshuffle },
    { "pswapaxes", all_to_all_1_1 },
    { "pswapaxes_0", all_to_all_0_0 },
    { "psum_from_one", psum_from_one },
    { "scan_psum", scan_psum },
    { "scan_ppermute", scan_ppermute },
    { "cond_psum_true", cond_psum_true },
    { "cond_psum_false", cond_psum_false },
    { "cond_varying", cond_varying },
    { "while_psum", while_psum },
    { "while_varying", while_varying },
    { "fori_pmean", fori_pmean },
};

static const body over_ij[] = {
    { "psum_i", psum },
    { "psum_j", psum_j },
    { "psum_ij", psum_ij },
    { "psum_ji", psum_ji },
    { "pmax_i", pmax },
    { "pmax_j", pmax_j },
    { "pmax_ij", pmax_ij },
    { "pmax_ji", pmax_ji },
    { "pmin_i", pmin },
    { "pmin_j", pmin_j },
    { "pmin_ij", pmin_ij },
    { "pmin_ji", pmin_ji },
    { "pmean_i", pmean },
    { "pmean_j", pmean_j },
    { "pmean_ij", pmean_ij },
    { "pmean_ji", pmean_ji },
    { "all_gather_i", all_gather },
    { "all_gather_j", all_gather_j },
    { "all_gather_ij", all_gather_ij },
    { "all_gather_ji", all_gather_ji },
    { "all_gather_ij_tiled", all_gather_ij_tiled },
    { "psum_scatter_j", psum_scatter_j },
    { "psum_scatter_ij", psum_scatter_ij },
    { "all_to_all_i", all_to_all_0_0 },
    { "ppermute_i", ring },
    { "axis_index", both_indices },
    { "axis_index_ij", axis_index_ij },
    { "axis_index_ji", axis_index_ji },
    { "size", sizes },
    { "grad_psum_j", grad_psum_j },
    { "grad_psum_ij", grad_psum_ij },
};

/* Finds a body by name, or by the name before the last _ (the rest is the size of the axis). */
static mf_value (*find(const body *bodies, size_t count, const char *name))(mf_value)
{
    size_t whole = strlen(name), stem = whole;
    while (stem && name[stem - 1] >= '0' && name[stem - 1] <= '9')
        stem--;
    for (int pass = 0; pass < 2; pass++, whole = stem ? stem - 1 : 0)
        for (size_t i = 0; i < count; i++)
            if (strlen(bodies[i].name) == whole && !strncmp(bodies[i].name, name, whole))
                return bodies[i].run;
    return NULL;
}

static mf_function map_of(bool pmap, mf_function f, const char *axis) { return pmap ? mf_pmap(f, axis) : mf_vmap(f, axis); }

/* the four that do not fit the pattern */
static mf_value own_sum(mf_value e) { return mf_psum(e, "i"); }
static mf_value shadowed(mf_value r) { return mf_add(mf_psum(r, "i"), mf_call(mf_vmap(own_sum, "i"), r)); }
static mf_value weighted(void *b, mf_value v) { return mf_add(mf_mul(v, mf_psum(*(mf_value *)b, "i")), mf_psum(v, "j")); }
static mf_value inner_map(mf_value a, mf_value b) { return mf_call(mf_pmap(mf_closure(weighted, &b), "j"), a); }
static mf_value times_outer(void *w, mf_value v) { return mf_add(mf_mul(v, *(mf_value *)w), mf_psum(v, "j")); }
static mf_value inner_closure(void *x, mf_value w) { return mf_call(mf_pmap(mf_closure(times_outer, &w), "j"), *(mf_value *)x); }
static mf_value three(mf_value x) { return mf_div(x, mf_psum(x, "a", "c")); }

static mf_value program(const char *name, const mf_value *in)
{
    if (!strcmp(name, "shadowed_name"))
        return mf_call(mf_vmap(shadowed, "i"), in[0]);
    if (!strcmp(name, "inner_map_over_part"))
        return mf_call(mf_pmap(inner_map, "i"), in[0], in[1]);
    if (!strcmp(name, "closure_over_outer"))
        return mf_call(mf_vmap(mf_closure(inner_closure, &in[0])), in[1]);
    if (!strcmp(name, "pmap_three_levels"))
        return mf_call(mf_pmap(mf_pmap(mf_pmap(three, "c"), "b"), "a"), in[0]);
    bool outer = name[0] == 'p', nested = !strncmp(name + 5, "pmap_", 5) || !strncmp(name + 5, "vmap_", 5);
    if (nested) {
        mf_value (*f)(mf_value) = find(over_ij, sizeof over_ij / sizeof *over_ij, name + 10);
        return f ? mf_call(map_of(outer, map_of(name[5] == 'p', mf_fn(f), "j"), "i"), in[0]) : (mf_value){ 0 };
    }
    if (!strcmp(name + 5, "psum_tree"))
        return mf_call(map_of(outer, mf_fn(tree_sum), "i"), in[0], in[1]);
    if (!strcmp(name + 5, "pmean_tree"))
        return mf_call(map_of(outer, mf_fn(tree_mean), "i"), in[0], in[1]);
    mf_value (*f)(mf_value) = find(over_i, sizeof over_i / sizeof *over_i, name + 5);
    return f ? mf_call(map_of(outer, mf_fn(f), "i"), in[0]) : (mf_value){ 0 };
}

static const known_skip skips[] = {
    { "pmap_pmax_nan", "XLA's all-reduce on CPUs loses a NaN, its vmap keeps it: ours wins in both" },
    { NULL, NULL },
};

TEST(collectives_as_in_jax)
{
    CHECK_EQ_INT(mf_set_num_cpu_devices(8), MF_OK);
    known_run("collectives.txt", program, 278, skips);
}

#define GROUPS_3012_4567 mf_list(mf_list(3, 0, 1, 2), mf_list(4, 5, 6, 7))
BODY(psum_groups_of_four, mf_psum(x, "i", .axis_index_groups = GROUPS_3012_4567))
static mf_value weighted_sum(void *x, mf_value v) { return mf_sum(mf_mul(mf_psum(v, "i"), *(mf_value *)x)); }
static mf_value weighted_gather(void *x, mf_value v) { return mf_sum(mf_mul(mf_all_gather(v, 0, "i"), *(mf_value *)x)); }
BODY(grad_psum, mf_call(mf_grad(mf_closure(weighted_sum, &x)), x))
BODY(grad_all_gather, mf_call(mf_grad(mf_closure(weighted_gather, &x)), mf_get(x, 0)))

/* Whether the cases' outer and inner maps are pmap; else vmap. */
static bool outer_is_pmap, inner_is_pmap;

static mf_value narrow_program(const char *name, const mf_value *in)
{
    static const body bodies[] = {
        { "psum", psum },
        { "pmean", pmean },
        { "psum_steps", psum },
        { "psum_groups", psum_groups_of_four },
        { "psum_scatter_tiled_dim0", psum_scatter_tiled_dim0 },
        { "psum_scatter_dim1", psum_scatter_dim1 },
        { "grad_psum", grad_psum },
        { "grad_all_gather", grad_all_gather },
    };
    bool nested = !strncmp(name, "pmap_pmap_", 10);
    mf_value (*f)(mf_value) = nested ? find(over_ij, sizeof over_ij / sizeof *over_ij, name + 10)
                                     : find(bodies, sizeof bodies / sizeof *bodies, name + 5);
    mf_function inner = nested ? map_of(inner_is_pmap, mf_fn(f), "j") : mf_fn(f);
    return f ? mf_call(map_of(outer_is_pmap, inner, "i"), in[0]) : (mf_value){ 0 };
}

TEST(sums_of_16_bit_floats_round_once_in_every_map)
{
    for (int maps = 0; maps < 4; maps++) {
        outer_is_pmap = maps & 1;
        inner_is_pmap = maps & 2;
        known_run("narrow.txt", narrow_program, 22, NULL);
    }
}

/* XLA's f16 sum rounds at every step on CPUs, so the comparison is with the f32 sum. */
TEST(sums_of_f16_round_once)
{
    mf_value x = mf_array(MF_F16, MF_SHAPE(8), 2048, 1, 1, 1, 1, 1, 1, 1);
    mf_value (*const sums[])(mf_value) = { psum, psum_groups_of_four };
    for (int i = 0; i < 4; i++) {
        mf_function f = map_of(i & 1, mf_fn(sums[i / 2]), "i");
        CHECK_STR(mf_str(mf_call(f, x)), mf_str(mf_astype(mf_call(f, mf_astype(x, MF_F32)), MF_F16)));
    }
}

TEST(a_nan_wins_in_pmap_as_in_vmap)
{
    mf_value x = mf_array(MF_F32, MF_SHAPE(4), 1, NAN, -INFINITY, 3);
    for (int pmap = 0; pmap < 2; pmap++)
        CHECK_STR(mf_str(mf_call(map_of(pmap, mf_fn(pmax_nan), "i"), x)), "([nan nan nan nan], [nan nan nan nan], [nan nan nan nan])");
}

/* ---- the same over processes: the rows of all of them have the bits that one process gives */

static mf_value program_over_processes(const char *name, const mf_value *in)
{
    static const int shares[][8] = { { 1, 1 }, { 1, 2, 1 }, { 2, 1, 3, 2 }, { 1, 1, 1, 1, 1, 1, 2 } };
    bool vmap = strncmp(name, "pmap_", 5) && strcmp(name, "inner_map_over_part");
    mf_value whole = program(name, in);
    int count = strstr(name, "_tree") || !strcmp(name, "inner_map_over_part") ? 2 : 1;
    int64_t inside = 1; /* the devices for each row */
    mf_shape s = mf_shape_of(in[0]);
    if (!strncmp(name, "pmap_pmap_", 10) || !strcmp(name, "inner_map_over_part"))
        inside = s.dims[1];
    if (!strcmp(name, "pmap_three_levels"))
        inside = s.dims[1] * s.dims[2];
    for (int i = 0; i < 4 && whole.handle && !vmap; i++)
        spread_compare(program, name, in, count, shares[i], (int)inside);
    return whole;
}

TEST(collectives_over_processes) { known_run("collectives.txt", program_over_processes, 278, skips); }
