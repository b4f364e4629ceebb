/* Nested maps over processes. The outer axis spans processes; an inner axis does if the devices of one outer index belong to several
 * processes. The results have the same bits however the devices are spread. The part of a process must be a grid: the same inner indices
 * at each of its outer ones. */
#include "check.h"
#include "spread.h"

__attribute__((constructor)) static void devices(void) { setenv("MF_NUM_CPU_DEVICES", "12", 1); }

static mf_value numbers(mf_shape shape)
{
    int64_t n = 1;
    for (int i = 0; i < shape.rank; i++)
        n *= shape.dims[i];
    return mf_reshape(mf_mul(mf_sin(mf_mul(mf_arange(n, MF_F32), 1.7)), mf_add(mf_remainder(mf_arange(n, MF_F32), 5), 0.3)), shape);
}

/* ------------------------------------------------------------------ bodies */

static mf_value normalised(mf_value x)
{
    mf_value a = mf_abs(x);
    return mf_tuple(mf_div(x, mf_psum(a, "i")), mf_div(x, mf_psum(a, "j")), mf_div(x, mf_psum(a, "i", "j")), mf_psum(x, "j", "i"));
}
static mf_value gathered(mf_value x)
{
    return mf_tuple(mf_all_gather(x, 0, "i"), mf_all_gather(x, 0, "j"), mf_all_gather(x, 0, "i", "j"), mf_all_gather(x, 0, "j", "i"));
}
static mf_value indices(mf_value x)
{
    return mf_tuple(mf_axis_index("i"), mf_axis_index("j"), mf_axis_index("i", "j"), mf_mul(x, mf_psum(1, "i", "j")), mf_axis_size("j"));
}
static mf_value square_sum(mf_value x) { return mf_sum(mf_psum(mf_mul(mf_psum(mf_sin(x), "j"), x), "i")); }
static mf_value gradient(mf_value x) { return mf_call(mf_grad(square_sum), x); }
static mf_value step(mf_value c, mf_value t)
{
    mf_value next = mf_tanh(mf_sub(mf_psum(mf_mul(c, t), "j"), mf_pmean(c, "i")));
    return mf_tuple(next, mf_pmax(next, "i", "j"));
}
static mf_value scanned(mf_value x) { return mf_scan(step, x, mf_arange(4, MF_F32)); }
static mf_value shifted(mf_value x)
{
    int n = (int)mf_item_i64(mf_axis_size("j"));
    mf_value pairs[8];
    for (int k = 0; k < n; k++)
        pairs[k] = mf_tuple(k, (k + 1) % n);
    return mf_ppermute(x, "j", mf_list_n(pairs, n));
}

static mf_value sums_alike(mf_value x) { return mf_tuple(mf_psum(x, "j"), mf_psum(mf_sin(mf_psum(x, "j")), "j"), mf_pmax(x, "i")); }

static mf_value (*const bodies[])(mf_value) = { normalised, gathered, indices, gradient, scanned, shifted };

/* ------------------------------------------------------------------ maps */

typedef struct nested {
    mf_value (*body)(mf_value);
    bool asked; /* the maps state their axis sizes; else these follow from the arguments */
} nested;

static mf_value grid(mf_value v) { return mf_dict("grid", v); }

static mf_value two_maps(const spread_here *h)
{
    const nested *n = h->context;
    int outer = n->asked ? h->axis_size : 0, inner = n->asked ? h->inner_size : 0;
    mf_function f = mf_pmap(mf_pmap(n->body, "j", .axis_size = inner), "i", .devices = h->devices, .axis_size = outer);
    return grid(mf_call(f, spread_grid(h, numbers(MF_SHAPE(h->axis_size, h->inner_size, 3)))));
}

/* The inner map is called in a function inside the outer one, on some of its values. */
static mf_value times(void *w, mf_value x) { return mf_add(mf_mul(x, mf_psum(*(mf_value *)w, "i")), mf_psum(x, "j")); }
static mf_value inside(void *size, mf_value x, mf_value w)
{
    return mf_call(mf_pmap(mf_closure(times, &w), "j", .axis_size = *(int *)size), mf_mul(x, mf_axis_size("i")));
}
static mf_value inner_call(const spread_here *h)
{
    const nested *n = h->context;
    int inner = n->asked ? h->inner_size : 0;
    mf_function f = mf_pmap(mf_closure(inside, &inner), "i", .devices = h->devices, .axis_size = n->asked ? h->axis_size : 0);
    return grid(mf_call(mf_jit(f), spread_grid(h, numbers(MF_SHAPE(h->axis_size, h->inner_size))),
                        spread_rows(h, numbers(MF_SHAPE(h->axis_size)))));
}

/* Nothing is mapped inside, so the inner map takes all devices of the outer index. */
static mf_value inner_index(mf_value x) { return mf_add(mf_mul(x, mf_axis_index("j")), mf_psum(mf_axis_index("j"), "i", "j")); }
static mf_value unmapped_inside(mf_value x) { return mf_call(mf_pmap(inner_index, "j", .in_axes = MF_NONE), x); }
static mf_value inner_unmapped(const spread_here *h)
{
    mf_function f = mf_pmap(unmapped_inside, "i", .devices = h->devices, .axis_size = h->axis_size);
    return grid(mf_call(f, spread_rows(h, numbers(MF_SHAPE(h->axis_size)))));
}

/* The result of the inner map is not used; but it still determines how many devices an outer index has. */
static mf_value unused(mf_value x)
{
    mf_call(mf_pmap(inner_index, "j", .in_axes = MF_NONE), x);
    return mf_psum(x, "i");
}
static mf_value inner_unused(const spread_here *h)
{
    mf_function f = mf_pmap(unused, "i", .devices = h->devices, .axis_size = h->axis_size);
    return mf_dict("rows", mf_call(f, spread_rows(h, numbers(MF_SHAPE(h->axis_size)))));
}

/* The operands are equal at all indices of the outer axis, although the other processes along the inner axis differ from one index to the
 * next; and only the processes of odd rank hold the operand once. */
static mf_value alike(const spread_here *h)
{
    const nested *n = h->context;
    mf_function inner = mf_pmap(n->body, "j", .axis_size = h->inner_size);
    mf_function none = mf_pmap(inner, "i", .devices = h->devices, .axis_size = h->axis_size, .in_axes = MF_NONE);
    mf_function f = mf_pmap(inner, "i", .devices = h->devices, .axis_size = h->axis_size);
    mf_value row = numbers(MF_SHAPE(1, h->inner_size, 3)), all = mf_broadcast_to(row, MF_SHAPE(h->axis_size, h->inner_size, 3));
    mf_value own = mf_get(spread_grid(h, all), 0), held = mf_broadcast_to(own, MF_SHAPE(h->row_count, h->column_count, 3));
    return grid(mf_tuple(mf_call(none, own), mf_call(f, h->rank % 2 ? held : mf_add(mf_zeros_like(held), own))));
}

/* Random keys that differ along both axes. */
static mf_value draw(void *random, mf_value x)
{
    return mf_mul(x, mf_random_normal(mf_random_next(*(mf_state *)random), MF_SHAPE0, MF_F32));
}
static mf_value drawn(const spread_here *h)
{
    mf_state r = mf_random_state(5);
    mf_function f = mf_pmap2(mf_pmap2(mf_closure(draw, &r), "j", .axis_size = h->inner_size), "i", .devices = h->devices,
                             .axis_size = h->axis_size);
    mf_value x = spread_grid(h, numbers(MF_SHAPE(h->axis_size, h->inner_size))), first = mf_call(f, x);
    return mf_dict("grid", mf_tuple(first, mf_call(f, x)), "same", mf_state_value(r));
}

/* Three maps, i, j and k: a column of the grid is a pair of indices along j and k. */
typedef struct three_levels {
    int j, k; /* number of indices in this process */
} three_levels;

static mf_value three(mf_value x)
{
    return mf_tuple(mf_div(x, mf_psum(x, "i", "k")), mf_psum(mf_mul(x, mf_axis_index("j")), "j"), mf_psum(x, "k"));
}
static mf_value flat(mf_value x)
{
    mf_shape s = mf_shape_of(x);
    return mf_reshape(x, MF_SHAPE(s.dims[0], s.dims[1] * s.dims[2]));
}
static mf_value three_maps(const spread_here *h)
{
    const three_levels *n = h->context;
    mf_function f = mf_pmap(mf_pmap(mf_pmap(three, "k", .axis_size = 3), "j", .axis_size = 2), "i", .devices = h->devices, .axis_size = 2);
    mf_shape s = MF_SHAPE(h->row_count, h->size == 1 ? 2 : n->j, h->size == 1 ? 3 : n->k);
    return grid(mf_tree_map(flat, mf_call(f, mf_reshape(spread_grid(h, numbers(MF_SHAPE(2, 6))), s))));
}

/* ------------------------------------------------------------------ the spreads */

/* First, all devices of an outer index are in one process, so the sizes follow from the arguments; then they are in several, and the maps
 * state the sizes. */
static const char *const whole_groups[] = { "000011112222", "000000001111", "000022221111", "111100001111", NULL };
static const char *const split_groups[] = { "000100010001", "001100110011", "012301230123", "010101010101", "012201220122", NULL };

TEST(groups_in_one_process)
{
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++)
        spread_check("two maps", two_maps, &(nested){ .body = bodies[i] }, 3, whole_groups);
    spread_check("a call inside", inner_call, &(nested){ 0 }, 3, whole_groups);
    spread_check("nothing mapped inside", inner_unmapped, NULL, 3, whole_groups);
    spread_check("inner map not used", inner_unused, NULL, 3, whole_groups);
    spread_check("random keys", drawn, NULL, 3, whole_groups);
}

TEST(groups_that_span_processes)
{
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++)
        spread_check("two maps", two_maps, &(nested){ .body = bodies[i], .asked = true }, 3, split_groups);
    spread_check("a call inside", inner_call, &(nested){ .asked = true }, 3, split_groups);
    spread_check("nothing mapped inside", inner_unmapped, NULL, 3, split_groups);
    spread_check("inner map not used", inner_unused, NULL, 3, split_groups);
    spread_check("random keys", drawn, NULL, 3, split_groups);
}

TEST(rows_that_are_alike)
{
    static const char *const owners[] = { "012201220122", "001200130014", "000100010001", "001100110022", NULL };
    mf_value (*const all[])(mf_value) = { sums_alike, gathered, indices, shifted };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        spread_check("rows that are alike", alike, &(nested){ .body = all[i] }, 3, owners);
}

TEST(three_levels_over_processes)
{
    static const struct {
        three_levels here;
        const char *owners[2];
    } cases[] = {
        { { 2, 1 }, { "012012012012", NULL } },
        { { 1, 3 }, { "000111000111", NULL } },
        { { 1, 3 }, { "000111222333", NULL } },
        { { 2, 3 }, { "000000111111", NULL } },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        spread_check("three maps", three_maps, &cases[i].here, 2, cases[i].owners);
}

/* A collective names the axes in another order than the maps, and one of them has a single index. Some processes have no device of the map,
 * though they would if the devices of i were a contiguous range. */
static mf_value crosswise(mf_value x) { return mf_all_gather(x, 0, "j", "k", "i"); }
static mf_value four_of_all(const spread_here *h)
{
    int here = h->size == 1 ? 2 : 1;
    if (h->rank > 1)
        return mf_ones(MF_SHAPE0, MF_F32);
    mf_function inner = mf_pmap(mf_pmap(crosswise, "k", .axis_size = 1), "j", .axis_size = 2);
    mf_function f = mf_pmap(inner, "i", .devices = { 4, mf_devices().at }, .axis_size = 2);
    mf_value x = mf_reshape(mf_add(mf_arange(2 * here, MF_F32), 2 * h->rank), MF_SHAPE(here, 2, 1));
    return mf_get(mf_get(mf_get(mf_call(f, x), 0), 0), 0);
}

TEST(an_axis_of_one_between_two)
{
    static const char *const owners[] = { "001122222222", "001122334455", "001111111111", NULL };
    static spread_texts whole, part;
    spread_print(four_of_all, NULL, 12, "000000000000", &whole);
    for (int i = 0; owners[i]; i++)
        for (int way = 0; way < 4; way++) {
            spread_algorithm(way);
            spread_print(four_of_all, NULL, 12, owners[i], &part);
            for (int p = 0; p < 2; p++)
                if (!CHECK_STR(part.of[p], whole.of[0]))
                    CHECK_NOTE("way %d: process %d of %s", way, p, owners[i]);
        }
}

/* ------------------------------------------------------------------ errors */

static mf_value smaller_inside(const spread_here *h)
{
    mf_function f = mf_pmap(mf_pmap(normalised, "j", .axis_size = 3), "i", .devices = h->devices, .axis_size = 3);
    return mf_call(f, spread_grid(h, numbers(MF_SHAPE(3, 4))));
}
static mf_value wrong_columns(const spread_here *h)
{
    mf_function f = mf_pmap(mf_pmap(normalised, "j"), "i", .devices = h->devices, .axis_size = 3);
    return mf_call(f, numbers(MF_SHAPE(3, 5)));
}

TEST(errors_say_what_does_not_fit)
{
    static const struct {
        const char *name, *owners;
        spread_program run;
        const char *words;
    } cases[] = {
        { "no grid", "001101010011", two_maps, "what a process has of nested maps must be a grid" },
        { "smaller inside", "001100110011", smaller_inside, "axis_size=3, but the map has 4 devices" },
        { "wrong columns", "001100110011", wrong_columns, "Got axis_size=5, num_local_devices=2" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static spread_texts words;
        spread_print(cases[i].run, &(nested){ .body = normalised, .asked = true }, 3, cases[i].owners, &words);
        for (int p = 0; p < 2; p++)
            if (!CHECK_CONTAINS(words.of[p], cases[i].words))
                CHECK_NOTE("case %s: process %d", cases[i].name, p);
    }
}
