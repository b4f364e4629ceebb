/* Nested maps with every collective over the inner name, the outer one and both, inside jit, vmap, jvp and grad. JAX 0.4.35's nested
 * pmaps say what comes out (tests/oracle/nested.txt); here pmap of pmap, pmap of vmap, vmap of pmap and vmap of vmap all have to give
 * it. */
#include "peer.h"

typedef struct names {
    const char *first, *second;
    int size;
} names;
static const struct {
    const char *label;
    names a;
} all_names[] = { { "i", { "i", NULL, 4 } }, { "j", { "j", NULL, 2 } }, { "ij", { "i", "j", 8 } }, { "ji", { "j", "i", 8 } } };

/* ---- bodies, over the names a */

#define BODY(name, expression)                      \
    static mf_value name(void *context, mf_value x) \
    {                                               \
        const names a = *(names *)context;          \
        return (expression);                        \
    }
#define A a.first, a.second
BODY(psum, mf_psum(x, A))
BODY(pmean, mf_pmean(x, A))
BODY(pmax, mf_pmax(x, A))
BODY(pmin, mf_pmin(x, A))
BODY(all_gather_0, mf_all_gather(x, 0, A))
BODY(all_gather_1, mf_all_gather(x, 1, A))
BODY(all_gather_tiled, mf_all_gather(x, 1, A, .tiled = true))
BODY(psum_scatter_0, mf_psum_scatter(x, 0, A, .tiled = true))
BODY(psum_scatter_1, mf_psum_scatter(x, 1, A, .tiled = true))
BODY(all_to_all_tiled_01, mf_all_to_all(x, 0, 1, A, .tiled = true))
BODY(all_to_all_tiled_10, mf_all_to_all(x, 1, 0, A, .tiled = true))
BODY(axis_index, mf_mul(x, mf_add(1.0, mf_axis_index(A))))
BODY(axis_size, mf_mul(x, mf_psum(1, A)))
BODY(normalize, mf_div(mf_sin(x), mf_add(2.0, mf_psum(mf_square(mf_cos(x)), A))))
BODY(ppermute, mf_ppermute(x, a.first, rotation(a.size, 1)))
BODY(ppermute_one, mf_ppermute(x, a.first, mf_list(mf_tuple(0, a.size - 1))))
BODY(pshuffle, mf_pshuffle(x, a.first, a.size == 4 ? mf_list(3, 2, 1, 0) : mf_list(1, 0)))
BODY(pswapaxes, mf_pswapaxes(mf_get(x, mf_range(0, a.size)), 0, a.first))
BODY(all_to_all, mf_all_to_all(mf_get(x, mf_range(0, a.size)), 0, 1, a.first))

static const struct {
    const char *name;
    mf_fc1 run;
} bodies[] = {
    { "psum", psum },
    { "pmean", pmean },
    { "pmax", pmax },
    { "pmin", pmin },
    { "all_gather_0", all_gather_0 },
    { "all_gather_1", all_gather_1 },
    { "all_gather_tiled", all_gather_tiled },
    { "psum_scatter_0", psum_scatter_0 },
    { "psum_scatter_1", psum_scatter_1 },
    { "all_to_all_tiled_01", all_to_all_tiled_01 },
    { "all_to_all_tiled_10", all_to_all_tiled_10 },
    { "axis_index", axis_index },
    { "axis_size", axis_size },
    { "normalize", normalize },
    { "ppermute", ppermute },
    { "ppermute_one", ppermute_one },
    { "pshuffle", pshuffle },
    { "pswapaxes", pswapaxes },
    { "all_to_all", all_to_all },
};

/* ---- contexts, around the maps or inside them */

/* ((a k) mod m - b) / 16 for element k */
static mf_value sixteenths(mf_shape shape, int64_t a, int64_t m, int64_t b)
{
    int64_t size = 1;
    for (int i = 0; i < shape.rank; i++)
        size *= shape.dims[i];
    mf_value whole = mf_sub(mf_remainder(mf_mul(mf_arange(size, MF_I32), a), m), b);
    return mf_reshape(mf_div(mf_astype(whole, MF_F32), 16), shape);
}
static mf_value weight(mf_value r) { return sixteenths(mf_shape_of(r), 29, 31, 15); }

static mf_value loss(void *f, mf_value x)
{
    mf_value r = mf_call(*(mf_function *)f, x);
    return mf_sum(mf_mul(mf_sin(r), weight(r)));
}
static mf_function gradient_of_loss(mf_function f) { return mf_grad(mf_closure(loss, &f)); }

static mf_function map_of(bool pmap, mf_function f, const char *name) { return pmap ? mf_pmap(f, name) : mf_vmap(f, name); }
static mf_function maps_of(int kind, mf_function f) { return map_of(kind < 2, map_of(kind % 2 == 0, f, "j"), "i"); }

static mf_value batch_of(mf_value x, int axis) { return mf_stack(mf_list(x, mf_mul(x, 2), mf_neg(x)), axis); }

static mf_value evaluate(const char *context, int kind, mf_function body)
{
    mf_value x = sixteenths(MF_SHAPE(4, 2, 8, 8), 37, 41, 20);
    mf_function f = maps_of(kind, body);
    if (!strcmp(context, "plain"))
        return mf_call(f, x);
    if (!strcmp(context, "jit"))
        return mf_call(mf_jit(f), x);
    if (!strcmp(context, "vmap"))
        return mf_call(mf_vmap(f), batch_of(x, 0));
    if (!strcmp(context, "vmap_2_1"))
        return mf_call(mf_vmap(f, .in_axes = 2, .out_axes = 1), batch_of(x, 2));
    if (!strcmp(context, "jvp"))
        return mf_get(mf_jvp(f, mf_tuple(x), mf_tuple(mf_square(x))), 1);
    if (!strcmp(context, "grad"))
        return mf_call(gradient_of_loss(f), x);
    if (!strcmp(context, "jit_grad"))
        return mf_call(mf_jit(gradient_of_loss(f)), x);
    return strcmp(context, "grad_inside") ? mf_none() : mf_call(maps_of(kind, gradient_of_loss(body)), x);
}

/* ---- the comparison */

static bool has_sums(mf_value r, const char *dims, double sum, double weighted)
{
    char text[64] = "";
    mf_shape s = mf_shape_of(r);
    if (mf_is_error(r) && !CHECK(!mf_is_error(r)))
        return CHECK_NOTE("%s", mf_error(r));
    for (int i = 0, n = 0; i < s.rank; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, "%s%d", i ? "," : "", (int)s.dims[i]);
    if (!CHECK_STR(text, dims))
        return false;
    double tolerance = 1e-6 * sqrt((double)mf_size(r)) * fmax(1, mf_item_f64(mf_max(mf_abs(r))));
    mf_value wide = mf_astype(r, MF_F64);
    return CHECK_NEAR(mf_item_f64(mf_sum(wide)), sum, tolerance) &&
           CHECK_NEAR(mf_item_f64(mf_sum(mf_mul(wide, mf_astype(weight(r), MF_F64)))), weighted, tolerance);
}

static mf_function body_called(const char *name, const char *label)
{
    const names *a = NULL;
    for (size_t i = 0; i < sizeof all_names / sizeof *all_names; i++)
        if (!strcmp(all_names[i].label, label))
            a = &all_names[i].a;
    for (size_t i = 0; a && i < sizeof bodies / sizeof *bodies; i++)
        if (!strcmp(bodies[i].name, name))
            return mf_closure(bodies[i].run, a);
    return (mf_function){ 0 };
}

TEST(collectives_in_nested_maps_in_every_context)
{
    char name[32], label[4], context[16], dims[32], line[256];
    double sum, weighted;
    int cases = 0;
    FILE *f = fopen(MF_TESTS_DIR "/oracle/nested.txt", "r");
    REQUIRE(f);
    while (fgets(line, sizeof line, f))
        if (sscanf(line, "%31s %3s %15s %31s %lf %lf", name, label, context, dims, &sum, &weighted) == 6 && name[0] != '#')
            for (int kind = 0; kind < 4; kind++, cases++) {
                MF_SCOPE;
                if (!has_sums(evaluate(context, kind, body_called(name, label)), dims, sum, weighted))
                    CHECK_NOTE("%s over %s, %s, %s of %s", name, label, context, kind < 2 ? "pmap" : "vmap", kind % 2 ? "vmap" : "pmap");
            }
    fclose(f);
    CHECK_EQ_INT(cases, 4 * 490);
}

/* Gathers over both names, which JAX's nested pmaps refuse. Here the four ways must agree. */
TEST(gathers_over_both_names)
{
    static const char *const gathers[] = { "all_gather_0",   "all_gather_1",        "all_gather_tiled",   "psum_scatter_0",
                                           "psum_scatter_1", "all_to_all_tiled_01", "all_to_all_tiled_10" };
    static const char *const contexts[] = { "plain", "jit", "vmap", "vmap_2_1", "jvp", "grad", "jit_grad", "grad_inside" };
    for (int b = 0; b < 7; b++)
        for (int c = 0; c < 8; c++)
            for (int order = 0; order < 2; order++) {
                MF_SCOPE;
                mf_function body = body_called(gathers[b], order ? "ji" : "ij");
                mf_value expected = evaluate(contexts[c], 3, body);
                for (int kind = 0; kind < 3; kind++)
                    if (!EXPECT_CLOSE(evaluate(contexts[c], kind, body), expected, 1e-5))
                        CHECK_NOTE("%s, %s", gathers[b], contexts[c]);
            }
}

/* Over the name of a vmap only, an extremum is a reduction, which has a derivative. */
TEST(extremes_over_a_pmap_have_no_derivative)
{
    for (int kind = 0; kind < 3; kind++)
        for (int b = 0; b < 2; b++)
            EXPECT_ERROR(evaluate("grad", kind, body_called(b ? "pmin" : "pmax", kind < 2 ? "i" : "j")),
                         b ? "Differentiation rule for 'pmin' not implemented" : "Differentiation rule for 'pmax' not implemented");
}
