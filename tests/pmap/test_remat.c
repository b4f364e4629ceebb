/* What remat keeps and computes again: JAX's policies by its own counts of equations (tests/oracle/remat.txt, made by remat.py), what the
 * passes leave of the second computation, and the memory that it saves. */
#include "peer.h"

/* ---- the policies */

static mf_value names_and_dots(mf_value x, mf_value w)
{
    mf_value a = mf_checkpoint_name(mf_tensordot(x, w, 1), "a");
    mf_value b = mf_checkpoint_name(mf_sin(a), "b");
    mf_value c = mf_checkpoint_name(mf_matmul(b, b), "c");
    return mf_sum(mf_mul(mf_cos(c), c));
}

static bool batched_dots(const mf_saveable *v, const void *context)
{
    (void)context;
    return strcmp(v->op, "dot_general") == 0 && v->batch_dimensions;
}

static mf_policy policy_named(const char *name)
{
    if (strcmp(name, "nothing") == 0)
        return mf_nothing_saveable();
    if (strcmp(name, "everything") == 0)
        return mf_everything_saveable();
    if (strcmp(name, "dots") == 0)
        return mf_dots_saveable();
    if (strcmp(name, "dots_with_no_batch_dims") == 0)
        return mf_dots_with_no_batch_dims_saveable();
    if (strcmp(name, "only_a") == 0)
        return mf_save_only_these_names("a");
    if (strcmp(name, "only_b") == 0)
        return mf_save_only_these_names("b");
    if (strcmp(name, "only_a_c") == 0)
        return mf_save_only_these_names("a", "c");
    if (strcmp(name, "names_but_a") == 0)
        return mf_save_any_names_but_these("a");
    if (strcmp(name, "all_but_a") == 0)
        return mf_save_anything_except_these_names("a");
    if (strcmp(name, "all_but_a_b_c") == 0)
        return mf_save_anything_except_these_names("a", "b", "c");
    CHECK_STR(name, "a_or_batched_dots");
    return mf_save_from_both_policies(mf_save_only_these_names("a"), (mf_policy){ batched_dots, NULL });
}

typedef struct setting {
    mf_policy policy;
    mf_value w;
} setting;

static mf_value over_w(void *w, mf_value x) { return names_and_dots(x, *(mf_value *)w); }

static mf_value gradient(void *given, mf_value x)
{
    setting *s = given;
    mf_function back;
    mf_vjp(mf_remat(mf_closure(over_w, &s->w), .policy = s->policy), mf_tuple(x), &back);
    return mf_get(mf_call(back, mf_scalar(1, MF_F32)), 0);
}

static int occurrences(const char *text, const char *what)
{
    int n = 0;
    for (const char *at = text; at && (at = strstr(at, what)); at += strlen(what))
        n++;
    return n;
}

static mf_value line_of_numbers(FILE *f, mf_shape shape)
{
    float numbers[18];
    int count = 1;
    for (int i = 0; i < shape.rank; i++)
        count *= (int)shape.dims[i];
    for (int i = 0; i < count; i++)
        CHECK_EQ_INT(fscanf(f, "%f", &numbers[i]), 1);
    return mf_from_host(MF_F32, shape, numbers);
}

TEST(policies)
{
    enum { POLICIES = 11 };
    char line[200], name[64];
    setting s[POLICIES];
    int counts[POLICIES][3];
    FILE *f = fopen(MF_TESTS_DIR "/oracle/remat.txt", "r");
    if (!CHECK(f && fgets(line, sizeof line, f)))
        return;
    for (int i = 0; i < POLICIES; i++) {
        CHECK_EQ_INT(fscanf(f, "%63s %d %d %d", name, &counts[i][0], &counts[i][1], &counts[i][2]), 4);
        s[i].policy = policy_named(name);
    }
    mf_value x = line_of_numbers(f, MF_SHAPE(2, 3, 3)), w = line_of_numbers(f, MF_SHAPE(3, 3)), dx = line_of_numbers(f, MF_SHAPE(2, 3, 3));
    fclose(f);
    for (int i = 0; i < POLICIES; i++) {
        s[i].w = w;
        mf_function g = mf_closure(gradient, &s[i]);
        const char *again = strstr(mf_program_text(g, x), "differentiated=true");
        bool good = CHECK_EQ_INT(occurrences(again, " sin "), counts[i][0]) && CHECK_EQ_INT(occurrences(again, " cos "), counts[i][1]) &&
                    CHECK_EQ_INT(occurrences(again, " dot_general["), counts[i][2]) && EXPECT_CLOSE(mf_call(g, x), dx, 1e-5) &&
                    EXPECT_CLOSE(mf_call(mf_jit(g), x), dx, 1e-5) &&
                    EXPECT_CLOSE(mf_call(mf_pmap(g), eight_times(x)), eight_times(dx), 1e-5) &&
                    EXPECT_CLOSE(mf_call(mf_vmap(g), eight_times(x)), eight_times(dx), 1e-5);
        if (!good)
            CHECK_NOTE("policy %d: %s", i, mf_program_text(g, x));
    }
}

/* ---- a user-defined policy, inside a map */

FN(wave_of_wave, mf_sin(mf_sin(v)))

static bool is_op(const mf_saveable *v, const void *op) { return strcmp(v->op, op) == 0; }

static mf_value slope(void *policy, mf_value x)
{
    mf_function back;
    mf_value y = mf_vjp(mf_remat(mf_pmap(wave_of_wave), .policy = *(mf_policy *)policy), mf_tuple(x), &back);
    return mf_get(mf_call(back, mf_ones_like(y)), 0);
}

/* Checks the number of sines and cosines in the second half of the program. */
static void check_again(mf_policy policy, int sines, int cosines)
{
    mf_function g = mf_closure(slope, &policy);
    const char *again = strstr(mf_program_text(g, WAVES(8)), "differentiated=true");
    CHECK_EQ_INT(occurrences(again, " sin "), sines);
    CHECK_EQ_INT(occurrences(again, " cos "), cosines);
    EXPECT_SAME(mf_call(g, WAVES(8)), mf_mul(mf_cos(mf_sin(WAVES(8))), mf_cos(WAVES(8))));
}

TEST(policy_of_a_map)
{
    check_again((mf_policy){ is_op, "cos" }, 0, 0);
    check_again((mf_policy){ is_op, "sin" }, 0, 2);
    check_again(mf_nothing_saveable(), 1, 2);
}

FN(scanned_body, mf_tuple(mf_sin(mf_dot(mf_get(v, 0), mf_get(v, 1))), mf_none()))
static mf_value scan_step(mf_value carry, mf_value w) { return scanned_body(mf_tuple(carry, w)); }
static mf_value scanned(mf_value x, mf_value ws) { return mf_sum(mf_get(mf_scan(scan_step, x, ws), 0)); }

/* A value that is saved in the body of a scan is stacked over its iterations. */
TEST(policy_of_a_scan)
{
    mf_value x = WAVES(3), ws = WAVES(5, 3, 3);
    mf_function plain = mf_grad(scanned, .argnums = MF_INTS(0, 1));
    mf_policy policies[] = { mf_nothing_saveable(), mf_dots_saveable(), mf_everything_saveable() };
    int dots[3];
    for (int i = 0; i < 3; i++) {
        mf_function g = mf_grad(mf_remat(scanned, .policy = policies[i]), .argnums = MF_INTS(0, 1));
        EXPECT_CLOSE(mf_call(g, x, ws), mf_call(plain, x, ws), 1e-5);
        EXPECT_CLOSE(mf_call(mf_jit(g), x, ws), mf_call(plain, x, ws), 1e-5);
        dots[i] = occurrences(strstr(mf_program_text(g, x, ws), "differentiated=true"), " dot_general[");
    }
    CHECK_EQ_INT(dots[0], 3);
    CHECK_EQ_INT(dots[1], 2);
    CHECK_EQ_INT(dots[2], 2);
}

TEST(second_derivatives)
{
    mf_policy policies[] = { mf_nothing_saveable(), mf_everything_saveable(), { is_op, "cos" }, mf_save_only_these_names("none") };
    mf_value x = WAVES(4);
    for (int i = 0; i < 4; i++) {
        mf_function f = mf_remat(wave_of_wave, .policy = policies[i]);
        mf_value one = mf_jvp(mf_vmap(mf_grad(f)), mf_tuple(x), mf_tuple(mf_ones_like(x)));
        EXPECT_CLOSE(one, mf_jvp(mf_vmap(mf_grad(wave_of_wave)), mf_tuple(x), mf_tuple(mf_ones_like(x))), 1e-5);
        EXPECT_CLOSE(mf_call(mf_vmap(mf_grad(mf_grad(f))), x), mf_get(one, 1), 1e-5);
    }
}

/* ---- what the passes leave */

static mf_value block(mf_value h, mf_value w)
{
    for (int i = 0; i < 4; i++)
        h = mf_sin(mf_dot(h, w));
    return h;
}

typedef struct chain {
    bool remat, merge;
    mf_policy policy;
} chain;

static mf_value run_chain(void *given, mf_value h, mf_value w)
{
    const chain *c = given;
    for (int i = 0; i < 8; i++)
        h = c->remat ? mf_call(mf_remat(block, .prevent_cse_off = c->merge, .policy = c->policy), h, w) : block(h, w);
    return mf_sum(h);
}

/* Measures the compiled gradient of the chain (in a map, or alone): sines, products, and bytes of temporaries. */
static void measure(chain c, bool map, int *sines, int *dots, int64_t *bytes)
{
    mf_function g = mf_grad(mf_closure(run_chain, &c));
    mf_value type = map ? mf_struct(MF_SHAPE(2, 32, 32), MF_F32) : mf_struct(MF_SHAPE(32, 32), MF_F32);
    mf_function compiled = mf_compile(map ? mf_pmap(g) : mf_jit(g), type, type);
    const char *text = mf_as_text(compiled, MF_TEXT_OPTIMIZED);
    *sines = occurrences(text, " sin ");
    *dots = occurrences(text, " dot_general[");
    *bytes = mf_memory_analysis(compiled).temp_size_in_bytes;
}

TEST(what_is_computed_again_stays)
{
    for (int map = 0; map < 2; map++) {
        int sines[4], dots[4];
        int64_t bytes[4];
        measure((chain){ .remat = false }, map, &sines[0], &dots[0], &bytes[0]);
        measure((chain){ .remat = true }, map, &sines[1], &dots[1], &bytes[1]);
        measure((chain){ .remat = true, .merge = true }, map, &sines[2], &dots[2], &bytes[2]);
        measure((chain){ .remat = true, .policy = mf_dots_saveable() }, map, &sines[3], &dots[3], &bytes[3]);
        CHECK_EQ_INT(dots[0], 64);      /* 32 forward (the last only for its cosine), 32 back */
        CHECK_EQ_INT(dots[1], 64 + 28); /* the last dot of the chain's result is needed once */
        CHECK_EQ_INT(dots[2], dots[0]); /* merged */
        CHECK_EQ_INT(sines[2], sines[0]);
        CHECK_EQ_INT(dots[3], dots[0]); /* kept */
        CHECK(sines[1] > sines[0] + 16);
        CHECK(bytes[1] * 2 < bytes[0]); /* 8 + 4 matrices in place of 32 */
        CHECK(bytes[2] * 2 > bytes[0]);
        CHECK(bytes[3] * 2 > bytes[0]);
    }
}

/* ---- layers that reduce rows: what is computed again may not begin before its cotangents are there, or nothing is saved */

enum { LAYERS = 8, ROWS = 256, WIDTH = 64, HEADS = 4, SEQUENCE = 64 };

static mf_value softmax_of(mf_value y) { return mf_softmax(y, -1); }
static mf_value normalised(mf_value y)
{
    y = mf_sub(y, mf_mean(y, .axis = -1, .keepdims = true));
    return mf_mul(y, mf_rsqrt(mf_add(mf_mean(mf_square(y), .axis = -1, .keepdims = true), 1e-5)));
}
static mf_value dropped(mf_value y)
{
    return mf_where(mf_random_bernoulli(mf_random_key(7), 0.9, mf_shape_of(y)), mf_div(y, 0.9), mf_zeros_like(y));
}
static mf_value attended(mf_value y)
{
    mf_value h = mf_reshape(y, MF_SHAPE(ROWS / SEQUENCE, SEQUENCE, HEADS, WIDTH / HEADS));
    mf_value s = mf_softmax(mf_einsum("bqhd,bkhd->bhqk", h, h), -1);
    return mf_reshape(mf_einsum("bhqk,bkhd->bqhd", s, h), MF_SHAPE(ROWS, WIDTH));
}
static mf_value centred(mf_value y) { return mf_sub(y, mf_pmean(mf_mean(y, .axis = -1, .keepdims = true), "i")); }

typedef struct stack {
    mf_value (*part)(mf_value y);
    bool remat, first; /* first: the part works on what the layer before it gave */
} stack;

static mf_value stack_layer(void *given, mf_value x, mf_value w)
{
    const stack *s = given;
    mf_value y = s->first ? mf_dot(mf_gelu(s->part(x)), w) : s->part(mf_tanh(mf_dot(x, w)));
    return mf_add(x, mf_tanh(mf_dot(mf_gelu(mf_dot(y, w)), w)));
}

static mf_value stack_loss(void *given, mf_value x, mf_value w)
{
    const stack *s = given;
    mf_function layer = mf_closure(stack_layer, s);
    for (int i = 0; i < LAYERS; i++)
        x = mf_call(s->remat ? mf_remat(layer) : layer, x, w);
    return mf_mean(mf_square(x));
}

/* Bytes that the gradient needs between its arguments and its results, on one device or on two. */
static int64_t stack_bytes(stack s, bool map)
{
    mf_function g = mf_grad(mf_closure(stack_loss, &s));
    mf_value x = map ? mf_struct(MF_SHAPE(2, ROWS, WIDTH), MF_F32) : mf_struct(MF_SHAPE(ROWS, WIDTH), MF_F32);
    mf_value w = mf_struct(MF_SHAPE(WIDTH, WIDTH), MF_F32);
    mf_function compiled = mf_compile(map ? mf_pmap(g, "i", .in_axes = mf_axes(0, MF_NONE)) : mf_jit(g), x, w);
    return mf_memory_analysis(compiled).temp_size_in_bytes;
}

TEST(remat_saves_memory_where_rows_are_reduced)
{
    static mf_value (*const parts[])(mf_value) = { softmax_of, normalised, dropped, attended };
    for (int i = 0; i < 16; i++) {
        stack s = { .part = parts[i / 4], .first = i & 1 };
        int64_t plain = stack_bytes(s, i & 2);
        s.remat = true;
        int64_t again = stack_bytes(s, i & 2);
        if (!CHECK(plain > LAYERS * 4 * ROWS * WIDTH * 4) ||
            !CHECK(again * 2 < plain)) /* of one layer in place of eight, and eight inputs */
            CHECK_NOTE("case %d: %lld bytes, with remat %lld", i, (long long)plain, (long long)again);
    }
}

/* A collective in the layer cuts the program into segments, whose order saves memory, too. */
TEST(remat_saves_memory_across_collectives)
{
    int64_t peak[2];
    mf_value x = WAVES(2, ROWS, WIDTH), w = mf_mul(0.1, WAVES(WIDTH, WIDTH)), results[2];
    for (int again = 0; again < 2; again++) {
        stack s = { .part = centred, .remat = again };
        mf_function f = mf_pmap(mf_grad(mf_closure(stack_loss, &s)), "i", .in_axes = mf_axes(0, MF_NONE));
        mf_block_until_ready(x);
        mf_memory_stats_reset();
        int64_t before = mf_memory_stats().live_bytes;
        results[again] = mf_call(f, x, w);
        mf_block_until_ready(results[again]);
        peak[again] = mf_memory_stats().peak_bytes - before;
    }
    EXPECT_SAME(results[1], results[0]);
    if (!CHECK(peak[1] * 2 < peak[0]))
        CHECK_NOTE("%lld bytes, with remat %lld", (long long)peak[0], (long long)peak[1]);
}

TEST(what_is_computed_again_is_the_same)
{
    mf_value h = WAVES(8, 5, 5), w = mf_mul(0.3, mf_cos(WAVES(5, 5)));
    chain plain = { 0 }, again = { .remat = true };
    mf_function f = mf_grad(mf_closure(run_chain, &plain), .argnums = MF_INTS(0, 1)),
                g = mf_grad(mf_closure(run_chain, &again), .argnums = MF_INTS(0, 1));
    EXPECT_SAME(mf_call(mf_pmap(g, .in_axes = mf_axes(0, MF_NONE)), h, w), mf_call(mf_pmap(f, .in_axes = mf_axes(0, MF_NONE)), h, w));
    EXPECT_SAME(mf_call(mf_jit(g), mf_get(h, 0), w), mf_call(f, mf_get(h, 0), w));
}

/* ---- barriers and names */

FN(twice_apart, mf_add(mf_sin(v), mf_sin(mf_optimization_barrier(v))))
FN(twice, mf_add(mf_sin(v), mf_sin(v)))
FN(tree_through, mf_optimization_barrier(mf_dict("a", v, "b", mf_tuple(mf_mul(v, v), mf_none()))))
FN(tree_named, mf_checkpoint_name(mf_dict("a", v, "b", mf_tuple(mf_mul(v, v), "text")), "n"))

TEST(barriers)
{
    CHECK_EQ_INT(occurrences(mf_as_text(mf_lower(mf_jit(twice), FLOATS(4)), MF_TEXT_OPTIMIZED), " sin "), 1);
    CHECK_EQ_INT(occurrences(mf_as_text(mf_lower(mf_jit(twice_apart), FLOATS(4)), MF_TEXT_OPTIMIZED), " sin "), 2);
    CHECK_EQ_INT(occurrences(mf_as_text(mf_lower(mf_jit(twice_apart), FLOATS(4)), MF_TEXT_OPTIMIZED), "optimization_barrier"),
                 1); /* keeps the order, runs nothing */
    EXPECT_SAME(mf_call(mf_pmap(mf_grad(twice_apart)), WAVES(8)), mf_mul(2, mf_cos(WAVES(8))));
    EXPECT(mf_call(mf_pmap(tree_through), FLOATS(4)), 0, 1, 2, 3, 0, 1, 4, 9);
    EXPECT(tree_through(FLOATS(3)), 0, 1, 2, 0, 1, 4);
    CHECK_STR(mf_str(mf_get(tree_named(FLOATS(2)), "b")), "([0. 1.], 'text')");
    EXPECT_ERROR(mf_optimization_barrier(mf_make_error(MF_ERROR_SHAPE, "mine")), "mine");
    EXPECT_ERROR(mf_checkpoint_name(1.0f, NULL), "needs a name");
}
