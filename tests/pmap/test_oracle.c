/* The programs of the reference, the course and the papers, axes and gradients, compared with JAX's answers: all cases of
 * tests/oracle/pmap.txt, by name. */
#include "check.h"
#include "known.h"

#define FN1(name, expression) \
    static mf_value name(mf_value x) { return (expression); }
#define FN2(name, a, b, expression) \
    static mf_value name(mf_value a, mf_value b) { return (expression); }

static mf_function map_of(bool pmap, mf_function f, mf_axis in_axes, mf_axis out_axes)
{
    return pmap ? mf_pmap(f, "i", .in_axes = in_axes, .out_axes = out_axes) : mf_vmap(f, "i", .in_axes = in_axes, .out_axes = out_axes);
}

/* ---- the examples */

FN1(square, mf_square(x))
FN1(twice, mf_mul(x, 2))
FN1(normalize, mf_div(x, mf_psum(x, "i")))
FN1(square_sum, mf_psum(mf_square(x), "i"))
FN1(plus_sum, mf_add(x, mf_psum(x, "i")))
FN1(grid, mf_tuple(mf_div(x, mf_psum(x, "rows")), mf_div(x, mf_psum(x, "cols")), mf_div(x, mf_psum(x, "rows", "cols"))))
FN1(scale_and_sum, mf_tuple(mf_mul(x, 2), mf_psum(mf_sum(mf_mul(x, 2)), "devices")))
FN2(sum_and_double, x, y, mf_tuple(mf_add(x, y), mf_mul(y, 2.0)))
FN2(plus_keyword, x, kwargs, mf_add(x, mf_get(kwargs, "y")))
FN2(times, x, y, mf_mul(x, y))
FN2(plus, x, y, mf_add(x, y))
FN2(scale_and_add, x, y, mf_add(mf_mul(x, 2), y))
FN2(draw, k, s, mf_mul(mf_random_normal(k, MF_SHAPE0, MF_F32), s))

static mf_value masked_mean(void *m, mf_value x)
{
    mf_value mask = *(mf_value *)m;
    return mf_pmean(mf_div(mf_sum(mf_mul(x, mask)), mf_sum(mask)), "devices");
}

static mf_value call_grid(mf_value x) { return mf_call(mf_pmap(mf_pmap(grid, .axis_name = "cols"), .axis_name = "rows"), x); }

static mf_value grid_sums(mf_value x)
{
    mf_value r, c, b;
    mf_unpack(call_grid(x), &r, &c, &b);
    return mf_tuple(mf_sum(r, .axis = 0), mf_sum(c, .axis = 1), mf_sum(b, .axis = mf_axes(0, 1)));
}

static mf_value run_square(const mf_value *in) { return mf_call(mf_pmap(square), in[0]); }
static mf_value run_dot(const mf_value *in) { return mf_call(mf_pmap(mf_dot), in[0], in[1]); }
static mf_value run_in_axes_none(const mf_value *in)
{
    return mf_call(mf_pmap(sum_and_double, .in_axes = mf_axes(0, MF_NONE)), in[0], in[1]);
}
static mf_value run_normalize(const mf_value *in) { return mf_call(mf_pmap(normalize, .axis_name = "i"), in[0]); }
static mf_value run_normalize_sum(const mf_value *in) { return mf_sum(run_normalize(in)); }
static mf_value run_grid(const mf_value *in) { return call_grid(in[0]); }
static mf_value run_grid_sums(const mf_value *in) { return grid_sums(in[0]); }
static mf_value run_first_six(const mf_value *in)
{
    return mf_call(mf_pmap(normalize, "i", .devices = mf_device_slice(mf_devices(), 0, 6)), in[0]);
}
static mf_value run_last_two(const mf_value *in)
{
    return mf_call(mf_pmap(square_sum, "i", .devices = mf_device_slice(mf_devices(), -2, MF_END)), in[0]);
}
static mf_value run_plus_sum(const mf_value *in) { return mf_call(mf_pmap(plus_sum, "i"), in[0]); }
static mf_value run_keyword(const mf_value *in) { return mf_call(mf_pmap(plus_keyword), in[0], mf_kwargs("y", in[1])); }
static mf_value run_static(const mf_value *in) { return mf_call(mf_pmap(times, .static_broadcasted_argnums = MF_INTS(1)), in[0], 3); }
static mf_value run_out_axes(const mf_value *in) { return mf_call(mf_pmap(twice, .in_axes = 1, .out_axes = 1), in[0]); }
static mf_value run_axis_size(const mf_value *in)
{
    return mf_call(mf_pmap(square, .axis_size = 8, .backend = "cpu", .donate_argnums = MF_INTS(0)), in[0]);
}
static mf_value run_twice(const mf_value *in) { return mf_call(mf_pmap(twice), in[0]); }
static mf_value run_scale_and_add(const mf_value *in)
{
    return mf_call(mf_pmap(scale_and_add, .in_axes = mf_axes(0, MF_NONE)), in[0], in[1]);
}
static mf_value run_scale_and_sum(const mf_value *in) { return mf_call(mf_pmap(scale_and_sum, "devices"), in[0]); }
static mf_value run_expected_sum(const mf_value *in)
{
    (void)in;
    return mf_sum(mf_mul(mf_arange(32, MF_DTYPE_DEFAULT), 2));
}
static mf_value run_plus(const mf_value *in) { return mf_call(mf_pmap(plus), in[0], in[1]); }
static mf_value run_pairwise(const mf_value *in)
{
    return mf_call(mf_pmap(plus, .devices = mf_device_slice(mf_devices(), 0, 2)), in[0], in[1]);
}
static mf_value run_add_with_scale(const mf_value *in) { return mf_call(mf_pmap(plus, .in_axes = mf_axes(0, MF_NONE)), in[0], in[1]); }
static mf_value run_shared_key(const mf_value *in)
{
    return mf_call(mf_pmap(draw, .in_axes = mf_axes(MF_NONE, 0)), mf_random_key(0), in[0]);
}
static mf_value run_split_keys(const mf_value *in) { return mf_call(mf_pmap(draw), mf_random_split(mf_random_key(0), 8), in[0]); }
static mf_value run_divergence(const mf_value *in) { return mf_call(mf_pmap(mf_closure(masked_mean, &in[1]), "devices"), in[0]); }

/* ---- axes and devices */

FN1(twice_plus_sum, mf_add(mf_mul(x, 2), mf_psum(x, "i")))
FN2(product_and_sum, x, y, mf_tuple(mf_mul(x, y), mf_psum(x, "i")))
FN1(self_and_sum, mf_tuple(x, mf_psum(x, "i")))
FN2(of_tree, d, s, mf_dict("a", mf_mul(mf_get(d, "a"), s), "b", mf_add(mf_get(d, "b", 0), mf_get(d, "b", 1))))
FN1(plus_index, mf_add(x, mf_axis_index("i")))
FN1(swap, mf_ppermute(x, "i", mf_list(mf_tuple(0, 1), mf_tuple(1, 0))))
FN1(times_size, mf_mul(x, mf_psum(1, "i")))
FN1(pmap_and_one, mf_add(mf_call(mf_pmap(normalize, "i"), x), 1))
static mf_value first_of(mf_value p, mf_value d)
{
    (void)d;
    return p;
}

static mf_value run_axes_tuple(const mf_value *in)
{
    return mf_call(mf_pmap(product_and_sum, "i", .in_axes = mf_axes(1, 0), .out_axes = mf_axes(2, 0)), in[0], in[1]);
}
static mf_value run_axes_none_out(const mf_value *in)
{
    return mf_call(mf_pmap(self_and_sum, "i", .out_axes = mf_axes(0, MF_NONE)), in[0]);
}
static mf_value run_axes_tree(const mf_value *in)
{
    mf_function f = mf_pmap(of_tree, "i", .in_axes = mf_axes(mf_axes_dict({ "a", 1 }, { "b", 0 }), MF_NONE));
    return mf_call(f, mf_dict("a", in[0], "b", mf_tuple(in[1], in[1])), in[2]);
}
static mf_value run_axes_broadcast(const mf_value *in) { return mf_call(mf_pmap(first_of, .in_axes = mf_axes(MF_NONE, 0)), in[0], in[1]); }
static mf_value run_vmap_negative(const mf_value *in) { return mf_call(mf_vmap(twice, .in_axes = -1, .out_axes = -2), in[0]); }
static mf_value run_reversed(const mf_value *in)
{
    mf_device d[8];
    for (int i = 0; i < 8; i++)
        d[i] = mf_devices().at[7 - i];
    return mf_call(mf_pmap(plus_index, "i", .devices = { 8, d }), in[0]);
}
static mf_value run_pairs(const mf_value *in)
{
    mf_device d[] = { mf_devices().at[5], mf_devices().at[2] };
    return mf_call(mf_pmap(swap, "i", .devices = { 2, d }), in[0]);
}
static mf_value run_jit_of_pmap(const mf_value *in) { return mf_call(mf_jit(pmap_and_one), in[0]); }
static mf_value run_pmap_of_jit(const mf_value *in) { return mf_call(mf_pmap(mf_jit(times_size), "i"), in[0]); }

/* ---- gradients: bodies that are differentiated inside a map, and whose map is differentiated */

#define RING4 mf_list(mf_tuple(0, 1), mf_tuple(1, 2), mf_tuple(2, 3), mf_tuple(3, 0))
FN1(local, mf_sum(mf_square(x)))
FN1(psum, mf_sum(mf_square(mf_psum(x, "i"))))
FN1(psum_of_square, mf_psum(mf_sum(mf_square(x)), "i"))
FN1(pmean, mf_sum(mf_square(mf_pmean(x, "i"))))
FN1(pmean_of_square, mf_pmean(mf_sum(mf_square(x)), "i"))
FN1(all_gather, mf_sum(mf_mul(mf_square(mf_all_gather(x, 0, "i")), mf_add(1.0, mf_axis_index("i")))))
FN1(all_gather_tiled, mf_sum(mf_square(mf_all_gather(x, 0, "i", .tiled = true))))
FN1(ppermute, mf_sum(mf_mul(x, mf_ppermute(x, "i", RING4))))
FN1(ppermute_partial, mf_sum(mf_mul(x, mf_ppermute(x, "i", mf_list(mf_tuple(0, 1), mf_tuple(2, 3))))))
FN1(axis_index, mf_mul(mf_sum(mf_square(x)), mf_axis_index("i")))
FN2(scan_step, c, t, mf_tuple(mf_add(c, mf_psum(mf_mul(t, c), "i")), mf_none()))
FN1(scan, mf_get(mf_scan(scan_step, mf_scalar(1, MF_F32), x), 0))
FN2(scan_mean_step, c, t, mf_tuple(mf_add(mf_mul(0.5, c), mf_pmean(mf_square(t), "i")), mf_mul(c, t)))
FN1(scan_pmean, mf_sum(mf_get(mf_scan(scan_mean_step, mf_scalar(1, MF_F32), x), 1)))
FN1(with_psum, mf_sum(mf_mul(mf_psum(x, "i"), x)))
FN1(plain_sum, mf_sum(x))
FN1(cond, mf_cond(mf_greater(mf_psum(mf_sum(x), "i"), -1e9), with_psum, plain_sum, x))
FN1(three_times_sum, mf_mul(3, mf_sum(x)))
FN1(cond_varying, mf_cond(mf_greater(mf_axis_index("i"), 1), local, three_times_sum, x))
FN1(over_abs, mf_div(x, mf_psum(mf_add(mf_abs(x), 1), "i")))
FN1(normalized, mf_sum(mf_square(over_abs(x))))
FN1(weighted, mf_sum(mf_mul(mf_mul(x, mf_psum(x, "i")), mf_psum(1, "i"))))
static mf_value fori_step(void *x, mf_value k, mf_value c)
{
    (void)k;
    return mf_add(mf_mul(c, 0.5), mf_div(mf_psum(mf_mul(mf_sum(*(mf_value *)x), c), "i"), 8));
}
FN1(fori, mf_fori_loop(0, 3, mf_closure(fori_step, &x), mf_scalar(1, MF_F32)))
FN1(psum_scatter, mf_sum(mf_square(mf_psum_scatter(x, 0, "i", .tiled = true))))
FN1(all_to_all, mf_sum(mf_mul(mf_square(mf_all_to_all(x, 0, 0, "i")), x)))

static const struct {
    const char *name;
    mf_fn1 body;
} bodies[] = {
    { "local", local },
    { "psum", psum },
    { "psum_of_square", psum_of_square },
    { "pmean", pmean },
    { "pmean_of_square", pmean_of_square },
    { "all_gather", all_gather },
    { "all_gather_tiled", all_gather_tiled },
    { "ppermute", ppermute },
    { "ppermute_partial", ppermute_partial },
    { "axis_index", axis_index },
    { "scan", scan },
    { "scan_pmean", scan_pmean },
    { "cond", cond },
    { "cond_varying", cond_varying },
    { "normalize", normalized },
    { "weighted", weighted },
    { "fori", fori },
    { "psum_scatter", psum_scatter },
    { "all_to_all", all_to_all },
};

typedef struct weighted_map {
    bool pmap;
    mf_fn1 body;
    mf_value c;
} weighted_map;

static mf_value sum_of_map(void *context, mf_value x)
{
    weighted_map *w = context;
    return mf_sum(mf_mul(mf_call(map_of(w->pmap, mf_fn(w->body), 0, 0), x), w->c));
}

static mf_value gradient(const char *name, const mf_value *in)
{
    bool inside = name[0] != 'g', pmap = inside ? name[0] == 'p' : name[8] == 'p';
    const char *body = inside ? strstr(name, "_grad_inside_") + 13 : name + 13;
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++)
        if (!strcmp(bodies[i].name, body)) {
            if (inside)
                return mf_call(map_of(pmap, mf_grad(bodies[i].body), 0, 0), in[0]);
            weighted_map w = { pmap, bodies[i].body, in[1] };
            return mf_call(mf_grad(mf_closure(sum_of_map, &w)), in[0]);
        }
    return (mf_value){ 0 };
}

/* ---- gradients, the others; each for both maps */

typedef struct other {
    bool pmap;
    mf_value x;
} other;

FN2(square_of_product, w, x, mf_square(mf_sum(mf_mul(w, x))))
FN2(square_of_psum, w, x, mf_square(mf_psum(mf_sum(mf_mul(w, x)), "i")))
FN2(pmean_of_products, w, x, mf_pmean(square_of_product(w, x), "i"))
#define OTHER(name, argument, expression)                  \
    static mf_value name(void *context, mf_value argument) \
    {                                                      \
        other *o = context;                                \
        return (expression);                               \
    }
OTHER(loss_in_axes_none, w, mf_sum(mf_call(map_of(o->pmap, mf_fn(square_of_product), mf_axes(MF_NONE, 0), 0), w, o->x)))
OTHER(loss_in_axes_none_psum, w, mf_sum(mf_call(map_of(o->pmap, mf_fn(square_of_psum), mf_axes(MF_NONE, 0), 0), w, o->x)))
OTHER(loss_in_axes_none_pmean, w, mf_get(mf_call(map_of(o->pmap, mf_fn(pmean_of_products), mf_axes(MF_NONE, 0), 0), w, o->x), 0))
OTHER(loss_out_axes_none, x, mf_call(map_of(o->pmap, mf_fn(psum_of_square), 0, MF_NONE), x))
static mf_value times_sum(void *w, mf_value x) { return mf_mul(mf_psum(mf_sum(mf_mul(*(mf_value *)w, x)), "i"), x); }
OTHER(loss_closure, w, mf_sum(mf_call(map_of(o->pmap, mf_closure(times_sum, &w), 0, 0), o->x)))
FN1(square_times_sum, mf_mul(mf_square(x), mf_psum(x, "i")))
OTHER(loss_axes, x, mf_sum(mf_call(map_of(o->pmap, mf_fn(square_times_sum), 1, 1), x)))

static mf_value loss_and_aux(void *x, mf_value w) { return mf_tuple(mf_sum(mf_square(mf_mul(w, *(mf_value *)x))), mf_sum(*(mf_value *)x)); }
FN2(value_and_gradient, w, x, mf_call(mf_value_and_grad(mf_closure(loss_and_aux, &x), .has_aux = true), w))

typedef struct batch {
    mf_value x, y;
} batch;
static mf_value squared_error(void *context, mf_value w)
{
    batch *b = context;
    return mf_mean(mf_square(mf_sub(mf_dot(b->x, w), b->y)));
}
static mf_value training_step(mf_value w, mf_value x, mf_value y)
{
    batch b = { x, y };
    mf_value loss, gradient;
    mf_unpack(mf_call(mf_value_and_grad(mf_closure(squared_error, &b)), w), &loss, &gradient);
    return mf_tuple(mf_sub(w, mf_mul(0.1, mf_pmean(gradient, "i"))), mf_pmean(loss, "i"));
}

FN1(scatter, mf_psum_scatter(x, 0, "i", .tiled = true))
FN1(gather, mf_all_gather(x, 0, "i"))
FN1(exchange, mf_all_to_all(x, 1, 0, "i"))
FN1(sum_in_pairs, mf_psum(x, "i", .axis_index_groups = mf_list(mf_list(0, 1), mf_list(2, 3))))
FN1(cubes, mf_psum(mf_sum(mf_mul(mf_mul(x, x), x)), "i"))
FN1(sum_of_gradient, mf_sum(mf_call(mf_grad(cubes), x)))

static mf_value pull(bool pmap, mf_fn1 f, const mf_value *in)
{
    mf_function pullback;
    mf_value out = mf_vjp(map_of(pmap, mf_fn(f), 0, 0), mf_tuple(in[0]), &pullback);
    return mf_is_error(out) ? out : mf_call(pullback, in[1]);
}

static mf_value of_map(bool pmap, const char *name, const mf_value *in)
{
    other o = { pmap, in[0] }; /* most are functions of w, given x and w */
    if (!strcmp(name, "grad_of_?map_in_axes_none"))
        return mf_call(mf_grad(mf_closure(loss_in_axes_none, &o)), in[1]);
    if (!strcmp(name, "grad_of_?map_in_axes_none_psum"))
        return mf_call(mf_grad(mf_closure(loss_in_axes_none_psum, &o)), in[1]);
    if (!strcmp(name, "grad_of_?map_in_axes_none_pmean"))
        return mf_call(mf_grad(mf_closure(loss_in_axes_none_pmean, &o)), in[1]);
    if (!strcmp(name, "grad_of_?map_closure"))
        return mf_call(mf_grad(mf_closure(loss_closure, &o)), in[1]);
    o.x = (mf_value){ 0 };
    if (!strcmp(name, "grad_of_?map_out_axes_none"))
        return mf_call(mf_grad(mf_closure(loss_out_axes_none, &o)), in[0]);
    if (!strcmp(name, "grad_of_?map_axes"))
        return mf_call(mf_grad(mf_closure(loss_axes, &o)), in[0]);
    if (!strcmp(name, "value_and_grad_in_?map"))
        return mf_call(map_of(pmap, mf_fn(value_and_gradient), mf_axes(MF_NONE, 0), 0), in[1], in[0]);
    if (!strcmp(name, "training_step_in_?map"))
        return mf_call(map_of(pmap, mf_fn(training_step), mf_axes(MF_NONE, 0, 0), 0), in[0], in[1], in[2]);
    if (!strcmp(name, "jvp_of_?map"))
        return mf_jvp(map_of(pmap, mf_fn(over_abs), 0, 0), mf_tuple(in[0]), mf_tuple(in[1]));
    if (!strcmp(name, "vjp_of_?map_scatter"))
        return pull(pmap, scatter, in);
    if (!strcmp(name, "vjp_of_?map_gather"))
        return pull(pmap, gather, in);
    if (!strcmp(name, "vjp_of_?map_all_to_all"))
        return pull(pmap, exchange, in);
    if (!strcmp(name, "vjp_of_?map_groups"))
        return pull(pmap, sum_in_pairs, in);
    if (!strcmp(name, "hessian_in_?map"))
        return mf_call(map_of(pmap, mf_grad(sum_of_gradient), 0, 0), in[0]);
    return (mf_value){ 0 };
}

FN1(square_times_both, mf_mul(mf_square(x), mf_psum(x, "i", "j")))
FN1(sum_of_nested, mf_sum(mf_call(mf_pmap(mf_pmap(square_times_both, "j"), "i"), x)))
FN1(sine_times_index, mf_mul(mf_sin(x), mf_axis_index("i")))
FN1(sine_square, mf_square(mf_psum(mf_sum(mf_sin(x)), "i")))
static mf_value run_grad_nested(const mf_value *in) { return mf_call(mf_grad(sum_of_nested), in[0]); }
static mf_value run_vmap_of_pmap(const mf_value *in) { return mf_call(mf_vmap(mf_pmap(over_abs, "i")), in[0]); }
static mf_value run_vmap_grad(const mf_value *in) { return mf_call(mf_pmap(mf_vmap(mf_grad(sine_times_index)), "i"), in[0]); }
static mf_value run_remat(const mf_value *in) { return mf_call(mf_pmap(mf_grad(mf_remat(sine_square)), "i"), in[0]); }

static const struct {
    const char *name;
    mf_value (*run)(const mf_value *in);
} programs[] = {
    { "reference_square", run_square },
    { "reference_dot", run_dot },
    { "reference_in_axes_none", run_in_axes_none },
    { "reference_normalize", run_normalize },
    { "reference_normalize_sum", run_normalize_sum },
    { "reference_grid", run_grid },
    { "reference_grid_sums", run_grid_sums },
    { "reference_first_six", run_first_six },
    { "reference_last_two", run_last_two },
    { "reference_two_process_sum", run_plus_sum },
    { "reference_keyword", run_keyword },
    { "reference_static", run_static },
    { "reference_out_axes", run_out_axes },
    { "reference_axis_size", run_axis_size },
    { "course_scale_by_two", run_twice },
    { "course_scale_and_add", run_scale_and_add },
    { "course_scale_and_sum", run_scale_and_sum },
    { "course_expected_sum", run_expected_sum },
    { "course_scale_by_two_1", run_twice },
    { "course_scale_by_two_2", run_twice },
    { "course_scale_by_two_4", run_twice },
    { "course_scale_and_sum_1", run_scale_and_sum },
    { "course_scale_and_sum_2", run_scale_and_sum },
    { "course_scale_and_sum_4", run_scale_and_sum },
    { "parallel_affine", run_plus },
    { "parallel_pairwise", run_pairwise },
    { "parallel_add_with_scale", run_add_with_scale },
    { "parallel_shared_key", run_shared_key },
    { "parallel_split_keys", run_split_keys },
    { "training_divergence", run_divergence },
    { "axes_tuple", run_axes_tuple },
    { "axes_none_out", run_axes_none_out },
    { "axes_tree", run_axes_tree },
    { "axes_broadcast", run_axes_broadcast },
    { "axes_vmap_negative", run_vmap_negative },
    { "devices_reversed", run_reversed },
    { "devices_pairs", run_pairs },
    { "jit_of_pmap", run_jit_of_pmap },
    { "pmap_of_jit", run_pmap_of_jit },
    { "grad_nested_pmap", run_grad_nested },
    { "vmap_of_pmap", run_vmap_of_pmap },
    { "pmap_of_vmap_grad", run_vmap_grad },
    { "remat_in_pmap", run_remat },
};

static mf_value program(const char *name, const mf_value *in)
{
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        if (!strcmp(programs[i].name, name))
            return programs[i].run(in);
    if (!strncmp(name, "axes_", 5))
        return mf_call(mf_pmap(twice_plus_sum, "i", .in_axes = name[5] - '0', .out_axes = name[7] - '0'), in[0]);
    char pattern[96];
    snprintf(pattern, sizeof pattern, "%s", name);
    char *map = strstr(pattern, "pmap");
    bool pmap = map != NULL;
    if (!map)
        map = strstr(pattern, "vmap");
    if (!map)
        return (mf_value){ 0 };
    *map = '?';
    mf_value result = of_map(pmap, pattern, in);
    return result.handle || (!strstr(name, "_grad_inside_") && strncmp(name, "grad_of_", 8)) ? result : gradient(name, in);
}

TEST(programs_as_in_jax)
{
    CHECK_EQ_INT(mf_set_num_cpu_devices(8), MF_OK);
    known_run("pmap.txt", program, 151, NULL);
}
