/* Deep nesting gives a result, or an error that tells the maximum depth, and everything runs on a thread with the smallest stack that the
 * header promises to suffice. */
#include "check.h"

#include <limits.h>
#include <manyfold.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LEAST (1 << 20) /* sanitized frames are larger */
#else
#define LEAST (128 << 10)
#endif
#define DEEP 100000
#define FINE 200

static void quiet(mf_status status, const char *message, void *context)
{
    (void)status;
    (void)message;
    (void)context;
}

/* Runs the test's body on a thread with that stack; the C library's minimum is added if it is larger. */
static void on_least_stack(void *(*body)(void *))
{
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    REQUIRE(pthread_attr_setstacksize(&attributes, LEAST) == 0);
    REQUIRE(pthread_create(&thread, &attributes, body, NULL) == 0);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attributes);
}

/* ---- trees */
static mf_value same(mf_value x) { return x; }

static mf_value nested(int depth, bool dict)
{
    mf_value x = mf_f(1);
    for (int i = 0; i < depth; i++)
        x = dict ? mf_dict("a", x) : mf_list(x);
    return x;
}

static void use_tree(mf_value x, int depth)
{
    mf_value y = mf_tree_map(same, x), leaf = x;
    for (int i = 0; i < depth; i++)
        leaf = mf_get(leaf, mf_tree_leaves(x).handle && mf_is_error(mf_get(leaf, "a")) ? mf_i(0) : mf_string("a"));
    CHECK_NEAR(mf_item_f64(leaf), 1, 0);
    CHECK(!mf_is_error(y) && strlen(mf_str(y)) > (size_t)depth);
    CHECK(!mf_is_error(mf_tree_unflatten(x, mf_tree_leaves(x))));
    CHECK(!mf_is_error(mf_call(mf_jit(same), x)));
    CHECK(mf_is_error(mf_tree_map(same, x, mf_list(x))));
    mf_value part = mf_tree_unflatten(x, mf_list(x)); /* twice as deep */
    CHECK(mf_is_error(part));
    CHECK_CONTAINS(mf_error(part), "256 deep");
}

static void *trees(void *unused)
{
    MF_SCOPE;
    for (int dict = 0; dict < 2; dict++) {
        use_tree(nested(FINE, dict), FINE);
        mf_value x = nested(DEEP, dict);
        CHECK(mf_is_error(x));
        CHECK_CONTAINS(mf_error(x), "256 deep");
    }
    return unused;
}

static void *axes(void *unused)
{
    MF_SCOPE;
    mf_axis a = 0;
    for (int i = 0; i < 1000; i++)
        a = mf_axes_n(&a, 1);
    CHECK(mf_is_error(mf_call(mf_vmap(same, .in_axes = a), mf_ones(MF_SHAPE(2), MF_F32))));
    return unused;
}

/* ---- programs */
static const char *what;

static mf_value zero(mf_value x) { return mf_mul(x, 0); }
static mf_value one_more(void *f, mf_value x) { return mf_call(*(mf_function *)f, x); }

static mf_value descend(void *context, mf_value x)
{
    int depth = *(int *)context - 1;
    mf_function f = mf_closure(descend, &depth);
    if (depth < 0)
        return mf_add(x, 1);
    if (!strcmp(what, "cond"))
        return mf_cond(mf_greater(x, 0), f, zero, x);
    if (!strcmp(what, "jit"))
        return mf_call(mf_jit(f), x);
    if (!strcmp(what, "grad"))
        return mf_call(mf_grad(f), x);
    if (!strcmp(what, "remat"))
        return mf_call(mf_remat(f), x);
    return mf_get(mf_call(mf_vmap(f), mf_expand_dims(x, 0)), 0);
}

static void *programs(void *unused)
{
    static const char *const kinds[] = { "cond", "jit", "grad", "remat", "vmap" };
    static const int depths[] = { 5, 100, 2000 };
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (size_t d = 0; d < sizeof depths / sizeof *depths; d++) {
            MF_SCOPE;
            what = kinds[k];
            mf_value v = mf_call(mf_jit(mf_closure(descend, &depths[d])), mf_f(1));
            (void)mf_block_until_ready(v);
            if (!CHECK(mf_is_error(v) ? depths[d] > 5 && *mf_error(v) : depths[d] < 2000))
                CHECK_NOTE("%s %d deep: %s", what, depths[d], mf_is_error(v) ? mf_error(v) : "a result");
        }
    return unused;
}

static mf_value chain(mf_value x)
{
    for (int i = 0; i < 3000; i++)
        x = mf_sin(x);
    return x;
}

static void *chains(void *unused)
{
    MF_SCOPE;
    CHECK(isfinite(mf_item_f64(mf_call(mf_grad(chain), mf_f(1)))));
    return unused;
}

static void *wrapped(void *unused)
{
    MF_SCOPE;
    mf_function f = mf_fn(same), g = mf_fn(same);
    for (int i = 0; i < 2000; i++) {
        f = mf_jit(f);
        g = mf_closure(one_more, &g);
    }
    mf_value v = mf_call(f, 1.0), w = mf_call(g, 1.0);
    (void)mf_block_until_ready(v);
    CHECK(!mf_is_error(v) || *mf_error(v));
    CHECK(!mf_is_error(w) || *mf_error(w));
    CHECK(mf_str(f) != NULL);
    return unused;
}

static mf_value grow_partial(mf_value x, mf_value y) { return mf_add(x, y); }

static mf_function around(mf_function f, int kind)
{
    switch (kind) {
    case 0: return mf_jit(f);
    case 1: return mf_remat(f);
    case 2: return mf_custom_jvp(f, f);
    case 3: return mf_custom_vjp(same, f, grow_partial);
    default: return mf_partial_n(f, NULL, 0);
    }
}

/* Even destroying them recursively would overflow the stack. */
static void *functions_of_any_depth(void *unused)
{
    for (int kind = 0; kind < 5; kind++) {
        MF_SCOPE;
        mf_function f = mf_fn(same);
        for (int i = 0; i < FINE; i++)
            f = around(f, kind);
        CHECK(!mf_is_error((mf_value){ f.handle }));
        for (int i = 0; i < DEEP / 4; i++)
            f = around(f, kind);
        CHECK_CONTAINS(mf_error((mf_value){ f.handle }), "256 deep");
    }
    return unused;
}

static mf_value pass_on(mf_module self, mf_value x) { return mf_call(mf_member_module(self, "inner"), x); }
static mf_value stay(mf_module self, mf_value x) { return mf_mul(x, mf_state_value(mf_member_state(self, "w"))); }

static void *modules(void *unused)
{
    MF_SCOPE;
    mf_module m = mf_module_new("Leaf", stay, "w", mf_param_state(mf_f(2)));
    for (int i = 0; i < FINE; i++)
        m = mf_module_new("Deep", pass_on, "inner", m);
    mf_value values = mf_module_values(m, mf_everything()), v = mf_call(m, 3.0), pure = mf_call(mf_module_pure(m), values, 3.0);
    CHECK(mf_is_error(v) ? *mf_error(v) : mf_item_f64(v) == 6); /* as deep as functions can nest on this stack */
    CHECK(!mf_is_error(pure) || *mf_error(pure));
    CHECK(!mf_is_error(values));
    CHECK(strlen(mf_str(m)) > FINE);
    for (int i = 0; i < DEEP / 4; i++)
        m = mf_module_new("Deep", pass_on, "inner", m);
    CHECK_CONTAINS(mf_str(m), "256 deep");
    return unused;
}

static void *policies(void *unused)
{
    MF_SCOPE;
    const char *words = NULL;
    while (mf_first_error(&words)) { /* errors of the other tests */
    }
    mf_policy p = mf_dots_saveable();
    for (int i = 0; i < FINE; i++)
        p = mf_save_from_both_policies(p, mf_dots_with_no_batch_dims_saveable());
    CHECK(isfinite(mf_item_f64(mf_call(mf_grad(mf_remat(zero, .policy = p)), 1.0))));
    CHECK_EQ_INT(mf_first_error(&words), MF_OK);
    for (int i = 0; i < FINE; i++)
        p = mf_save_from_both_policies(mf_dots_saveable(), p);
    CHECK_EQ_INT(mf_first_error(&words), MF_ERROR_ARGUMENT);
    CHECK_CONTAINS(words, "256 deep");
    return unused;
}

static void *filters(void *unused)
{
    MF_SCOPE;
    mf_filter f = mf_path_contains("a");
    for (int i = 0; i < FINE; i++)
        f = mf_filter_not(f);
    CHECK(strlen(mf_str(f)) > FINE);
    for (int i = 0; i < DEEP; i++)
        f = mf_filter_all_n(&f, 1);
    CHECK_CONTAINS(mf_str(f), "256 deep");
    return unused;
}

TEST(trees_nested_deep) { mf_set_error_hook(quiet, NULL), on_least_stack(trees); }
TEST(axes_nested_deep) { on_least_stack(axes); }
TEST(programs_nested_deep) { on_least_stack(programs); }
TEST(long_chains) { on_least_stack(chains); }
TEST(functions_around_functions) { on_least_stack(wrapped); }
TEST(functions_of_any_depth_end) { on_least_stack(functions_of_any_depth); }
TEST(modules_nested_deep) { on_least_stack(modules); }
TEST(policies_nested_deep) { on_least_stack(policies); }
TEST(filters_nested_deep) { on_least_stack(filters); }

/* ---- typical programs on the smallest stack */
static mf_value normalised(mf_value x) { return mf_div(x, mf_psum(x, "i")); }
static mf_value loss(mf_value w, mf_value x) { return mf_sum(mf_square(mf_tanh(mf_matmul(x, w)))); }
static mf_value convolved(mf_value x) { return mf_conv_general_dilated(x, mf_ones(MF_SHAPE(3, 3, 3, 8), MF_F32)); }
static mf_value image_loss(mf_value x) { return mf_sum(mf_square(convolved(x))); }
static mf_value running(mf_value c, mf_value x) { return mf_tuple(mf_add(c, x), c); }
static mf_value below(mf_value x) { return mf_less(x, 10); }
static mf_value next(mf_value x) { return mf_add(x, 1); }

static mf_value matrix(int n, mf_dtype dtype) { return mf_ones(MF_SHAPE(n, n), dtype); }
static mf_value image(void) { return mf_ones(MF_SHAPE(2, 32, 32, 3), MF_F32); }

#define REPERTOIRE(X)                                                                        \
    X(mf_add(matrix(64, MF_F32), 1))                                                         \
    X(mf_sum(mf_mul(matrix(1000, MF_F32), 2)))                                               \
    X(mf_matmul(matrix(64, MF_F32), matrix(64, MF_F32)))                                     \
    X(mf_matmul(matrix(500, MF_F32), matrix(500, MF_F32)))                                   \
    X(mf_matmul(matrix(300, MF_F64), matrix(300, MF_F64)))                                   \
    X(mf_matmul(matrix(300, MF_BF16), matrix(300, MF_BF16)))                                 \
    X(mf_matmul(matrix(70, MF_I32), matrix(70, MF_I32)))                                     \
    X(mf_matmul(matrix(70, MF_C64), matrix(70, MF_C64)))                                     \
    X(mf_call(mf_grad(loss), matrix(64, MF_F32), matrix(64, MF_F32)))                        \
    X(mf_call(mf_jit(mf_grad(loss)), matrix(300, MF_F32), matrix(300, MF_F32)))              \
    X(mf_call(mf_pmap(normalised, .axis_name = "i"), mf_ones(MF_SHAPE(1), MF_F32)))          \
    X(mf_call(mf_vmap(convolved), mf_ones(MF_SHAPE(2, 1, 8, 8, 3), MF_F32)))                 \
    X(mf_call(mf_jit(convolved), image()))                                                   \
    X(mf_call(mf_jit(mf_grad(image_loss)), image()))                                         \
    X(mf_max_pool(image(), .window_shape = MF_INTS(2, 2)))                                   \
    X(mf_avg_pool(image(), .window_shape = MF_INTS(3, 3)))                                   \
    X(mf_sort(mf_ones(MF_SHAPE(100000), MF_F32), 0))                                         \
    X(mf_argsort(mf_ones(MF_SHAPE(10000), MF_F32), 0))                                       \
    X(mf_get(mf_top_k(mf_ones(MF_SHAPE(10000), MF_F32), 10, 0), 0))                          \
    X(mf_median(mf_ones(MF_SHAPE(10000), MF_F32), 0))                                        \
    X(mf_cumsum(mf_ones(MF_SHAPE(10000), MF_F32), 0))                                        \
    X(mf_transpose(matrix(700, MF_F32), MF_INTS0))                                           \
    X(mf_pad(matrix(700, MF_F32), 0.0f, MF_INTS(1, 1), MF_INTS(1, 1), MF_INTS(1, 1)))        \
    X(mf_take(matrix(300, MF_F32), mf_arange(200, MF_I32), 0))                               \
    X(mf_index_add(matrix(300, MF_F32), mf_arange(200, MF_I32), 1))                          \
    X(mf_get(mf_scan(running, mf_f(0), mf_ones(MF_SHAPE(100), MF_F32)), 0))                  \
    X(mf_while(below, next, mf_f(0)))                                                        \
    X(mf_einsum("ij,jk->ik", matrix(64, MF_F32), matrix(64, MF_F32)))                        \
    X(mf_einsum("ij,jk,kl->il", matrix(64, MF_F32), matrix(64, MF_F32), matrix(64, MF_F32))) \
    X(mf_cholesky(mf_eye(64, MF_F32)))                                                       \
    X(mf_get(mf_qr(mf_eye(64, MF_F32)), 0))                                                  \
    X(mf_get(mf_svd(mf_eye(64, MF_F64)), 1))                                                 \
    X(mf_get(mf_eigh(mf_eye(64, MF_F32)), 0))                                                \
    X(mf_solve(mf_eye(64, MF_F32), mf_ones(MF_SHAPE(64), MF_F32)))                           \
    X(mf_fft(mf_ones(MF_SHAPE(1000), MF_F32)))                                               \
    X(mf_fftn(matrix(127, MF_F32)))                                                          \
    X(mf_random_normal(mf_random_key(1), MF_SHAPE(1000), MF_F32))                            \
    X(mf_random_gamma(mf_random_key(1), 2.0, MF_SHAPE(100), MF_F32))                         \
    X(mf_random_permutation(mf_random_key(1), mf_i(1000)))                                   \
    X(mf_call(mf_jacrev(next), mf_ones(MF_SHAPE(5), MF_F32)))                                \
    X(mf_call(mf_hessian(image_loss), mf_ones(MF_SHAPE(1, 3, 3, 3), MF_F32)))

static void *repertoire(void *unused)
{
    int have_lapack = !mf_is_error(mf_cholesky(mf_eye(2, MF_F32)));
#define X(call)                                                                             \
    {                                                                                       \
        MF_SCOPE;                                                                           \
        mf_value v = call;                                                                  \
        (void)mf_block_until_ready(v);                                                      \
        if (!CHECK(!mf_is_error(v) || (!have_lapack && mf_error_status(v) == MF_ERROR_IO))) \
            CHECK_NOTE("%s: %s", #call, mf_error(v));                                       \
        CHECK(mf_is_error(v) || *mf_str(v));                                                \
    }
    REPERTOIRE(X)
#undef X
    return unused;
}

static void *files(void *unused)
{
    MF_SCOPE;
    char npy[64], npz[64];
    snprintf(npy, sizeof npy, "/tmp/mf_depth_%d.npy", (int)getpid());
    snprintf(npz, sizeof npz, "/tmp/mf_depth_%d.npz", (int)getpid());
    mf_value x = matrix(64, MF_F32);
    CHECK_EQ_INT(mf_save_npy(npy, x), MF_OK);
    CHECK(!mf_is_error(mf_load_npy(npy)));
    CHECK_EQ_INT(mf_save_npz(npz, mf_dict("a", x)), MF_OK);
    CHECK(!mf_is_error(mf_load_npz(npz)));
    CHECK(*mf_error(mf_add(x, mf_ones(MF_SHAPE(3), MF_F32))));
    CHECK(*mf_program_text(mf_fn(convolved), image()));
    unlink(npy);
    unlink(npz);
    return unused;
}

TEST(everything_on_the_least_stack) { on_least_stack(repertoire); }
TEST(files_and_text_on_the_least_stack) { on_least_stack(files); }
