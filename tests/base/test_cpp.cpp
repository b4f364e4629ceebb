/* The programs of the two training and mapping texts in C++: operators on
 * values, lambdas as functions, options by overloads. */
#include <manyfold.h>

#include <cmath>
#include <cstdio>
#include <cstring>

static int failures;

static void expect(bool right, const char *what, int line)
{
    if (right)
        return;
    std::printf("test_cpp.cpp:%d: %s\n", line, what);
    failures++;
}
#define EXPECT(condition) expect(condition, #condition, __LINE__)
#define EXPECT_TEXT(...)  expect_text(__LINE__, __VA_ARGS__)

static void expect_text(int line, mf_value v, const char *text) { expect(std::strcmp(mf_str_value(v), text) == 0, mf_str_value(v), line); }

/* ---- the reference of jax.pmap, example by example */

static mf_value square(mf_value x) { return mf_pow(x, 2); }

static void reference()
{
    EXPECT_TEXT(mf_call(mf_pmap(square), mf_arange(8)), "[ 0  1  4  9 16 25 36 49]");

    mf_value x = mf_reshape(mf_arange(12, MF_F32), MF_SHAPE(3, 2, 2)), y = mf_pow(x, 2);
    mf_value products = mf_call(mf_pmap([](mf_value a, mf_value b) { return mf_dot(a, b); }), x, y);
    EXPECT(mf_item_f64(products[2][1][1]) == 10 * 81 + 11 * 121);

    mf_value wrong = mf_call(mf_pmap(square), mf_arange(9));
    EXPECT(mf_error(wrong) && std::strstr(mf_error(wrong), "9"));

    mf_pmap_options half = {};
    half.in_axes = mf_axes(0, MF_NONE);
    mf_value pair = mf_call(mf_pmap([](mf_value a, mf_value b) { return mf_tuple(a + b, b * 2.0); }, half), mf_arange(2, MF_F32), 4.0);
    EXPECT_TEXT(pair[0], "[4. 5.]");
    EXPECT_TEXT(pair[1], "[8. 8.]");

    auto normalize = [](mf_value v) { return v / mf_psum(v, "i"); };
    mf_value out = mf_call(mf_pmap(normalize, "i"), mf_arange(4, MF_F32));
    EXPECT_TEXT(out, "[0.         0.16666667 0.33333334 0.5       ]");
    EXPECT(mf_item_f64(mf_sum(out)) == 1);

    auto grid = [](mf_value v) { return mf_tuple(v / mf_psum(v, "rows"), v / mf_psum(v, "cols"), v / mf_psum(v, "rows", "cols")); };
    mf_value normed = mf_call(mf_pmap(mf_pmap(grid, "cols"), "rows"), mf_reshape(mf_arange(8, MF_F32), MF_SHAPE(4, 2)));
    auto several = [](mf_value v) {
        mf_value index = mf_axis_index("rows", "cols"), size = mf_axis_size("rows", "cols") + 10 * mf_axis_size("cols");
        return mf_tuple(mf_pmax(v, "rows", "cols"), mf_pmin(v, "rows", "cols"), mf_pmean(v, "rows", "cols"),
                        mf_all_gather(v, 0, "rows", "cols"), index, size, mf_axis_index("cols"));
    };
    mf_value all = mf_call(mf_pmap(mf_pmap(several, "cols"), "rows"), mf_reshape(mf_arange(8, MF_F32), MF_SHAPE(4, 2)));
    EXPECT_TEXT(mf_stack(mf_list(all[0][3][1], all[1][3][1], all[2][3][1])), "[7.  0.  3.5]");
    EXPECT_TEXT(all[3][2][0], "[0. 1. 2. 3. 4. 5. 6. 7.]");
    EXPECT_TEXT(mf_stack(mf_list(all[4][2][1], all[5][2][1], all[6][2][1])), "[ 5 28  1]");

    mf_reduce_options over_rows = {};
    over_rows.axis = 0;
    EXPECT_TEXT(mf_sum(normed[0], 0), "[1. 1.]");
    EXPECT_TEXT(mf_max(normed[0], mf_axes(0, -1)), "0.5");
    EXPECT_TEXT(mf_sum(normed[0], over_rows), "[1. 1.]");
    EXPECT(std::fabs(mf_item_f64(mf_sum(normed[2])) - 1) < 1e-6);
}

/* ---- the training loop: linear regression, data-parallel */

struct samples {
    mf_value key, x, y;
};

static samples draw(int devices)
{
    const int64_t n = 100 * (int64_t)devices;
    mf_value keys = mf_random_split(mf_random_key(0), 5);
    mf_value w = mf_random_normal(keys[1], MF_SHAPE(5)), b = mf_random_normal(keys[2], MF_SHAPE());
    mf_value x = mf_random_normal(keys[3], MF_SHAPE(n, 5));
    return { keys[0], x, mf_dot(x, w) + b + mf_random_normal(keys[4], MF_SHAPE(n)) * 0.1 };
}

static void training()
{
    const int devices = 8;
    samples s = draw(devices);
    mf_value keys = mf_random_split(s.key, 3);
    mf_value params = mf_tuple(mf_random_normal(keys[1], MF_SHAPE(5)), mf_random_normal(keys[2], MF_SHAPE()));
    params = mf_replicate(params, mf_local_devices());
    mf_value x = mf_reshape(s.x, MF_SHAPE(devices, 100, 5)), y = mf_reshape(s.y, MF_SHAPE(devices, 100));

    const double learning_rate = 0.05; /* captured: a closure over eight bytes */
    auto step = [learning_rate](mf_value p, mf_value xs, mf_value ys) {
        auto loss = [](mf_value q, mf_value a, mf_value b) { return mf_mean(mf_square(mf_dot(a, q[0]) + q[1] - b)); };
        mf_value made = mf_call(mf_value_and_grad(loss), p, xs, ys);
        mf_value gradients = mf_pmean(made[1], "batch");
        return mf_tuple(p[0] - learning_rate * gradients[0], p[1] - learning_rate * gradients[1], mf_pmean(made[0], "batch"));
    };
    mf_function train = mf_pmap(step, "batch");
    double first = 0, last = 0;
    for (int epoch = 0; epoch < 50; epoch++) {
        mf_value next = mf_call(train, params, x, y);
        params = mf_tuple(next[0], next[1]);
        last = mf_item_f64(next[2][0]);
        first = epoch ? first : last;
    }
    EXPECT(last < 0.05 && first > 1);
    EXPECT(mf_item_f64(mf_max(mf_abs(params[0] - params[0][0]))) == 0); /* the same on every device */
}

/* ---- the rest of the face */

static void operators()
{
    mf_value a = mf_arange(4);
    EXPECT_TEXT(2 * a + 1, "[1 3 5 7]");
    EXPECT_TEXT(-a % 3, "[0 2 1 0]");
    EXPECT_TEXT(a / 2, "[0.  0.5 1.  1.5]");
    EXPECT_TEXT(a >= 2, "[False False  True  True]");
    EXPECT_TEXT((a << 1) | 1, "[1 3 5 7]");
    EXPECT_TEXT(~a ^ a, "[-1 -1 -1 -1]");
    EXPECT_TEXT(a[mf_slice{ true, 1, 3, 0 }], "[1 2]");
    mf_value d = mf_dict("loss", 2.5, "steps", a);
    EXPECT(mf_item_f64(d["steps"][3]) == 3 && mf_item_f64(d["loss"]) == 2.5);
    a += 1;
    a *= a;
    EXPECT_TEXT(a, "[ 1  4  9 16]");
    EXPECT(mf_item_f64(mf_call(mf_vmap([](mf_value v) { return mf_sum(v); }), mf_ones(MF_SHAPE(2, 3)))[1]) == 3);
    mf_value carried = mf_scan([](mf_value c, mf_value v) { return mf_tuple(c + v, c); }, 0.0, mf_arange(5, MF_F32));
    EXPECT(mf_item_f64(carried[0]) == 10);
    mf_value branch = mf_cond(
        true, [](mf_value v) { return v + 1; }, [](mf_value v) { return v - 1; }, 1.0);
    EXPECT(mf_item_f64(branch) == 2);
}

/* ---- what C has macros for */

static mf_value affine(mf_module self, mf_value x)
{
    return x * mf_state_value(mf_member_state(self, "scale")) + mf_member_number(self, "offset");
}

static mf_value both_of(mf_module self, mf_value x, mf_value y)
{
    return mf_call(mf_member_function(self, "act"), x) * y * mf_member_value(self, "mask") + (int)mf_member_ints(self, "axes").at[1];
}

static mf_value how_many(mf_module, const mf_value *, int count) { return count; }

static void modules_of_any_kind()
{
    mf_module m = mf_module_new("Both", both_of, "act", mf_fn([](mf_value v) { return v + 1; }), "mask", mf_value(2.0), "axes",
                                MF_INTS(3, 4), "mode", "same", "deterministic", false, "dtype", MF_BF16);
    EXPECT_TEXT(mf_call(m, 1.0, 5.0), "24.0");
    EXPECT(mf_member_number(mf_module_view(m, "deterministic", true), "deterministic") == 1);
    mf_nn_view_options still = {};
    still.deterministic = true;
    EXPECT(mf_member_number(mf_nn_view(mf_nn_train(m), still), "deterministic") == 1);
    EXPECT(mf_item_i64(mf_call(mf_module_new("Count", how_many, "k", 1), 1, 2, 3)) == 3);
    mf_state r = mf_random_state(0);
    mf_module row = mf_nn_sequential(mf_nn_linear(r, 2, 3), mf_fn([](mf_value v) { return mf_relu(v); }), mf_nn_linear(r, 3, 1));
    EXPECT(mf_dim(mf_call(row, mf_ones(MF_SHAPE(4, 2))), -1) == 1 && mf_member_count(mf_nn_list(m, row)) == 2);
    mf_module metrics = mf_nn_multi_metric("loss", mf_nn_average("loss"));
    mf_nn_metric_update(metrics, mf_dict("loss", 3.0));
    EXPECT(mf_item_f64(mf_nn_metric_compute(metrics)["loss"]) == 3);
    mf_nn_batch_norm_options wide = {};
    wide.axis = -1, wide.epsilon = 1;
    EXPECT_TEXT(mf_call(mf_nn_batch_norm(r, 1, wide), mf_ones(MF_SHAPE(1, 1))), "[[0.]]");
}

static void modules_and_texts()
{
    mf_state scale = mf_param_state(3.0);
    mf_module m = mf_module_new("Affine", affine, "scale", scale, "offset", 0.5);
    EXPECT_TEXT(mf_call(m, 2.0), "6.5");
    mf_state_set_value(scale, 4.0);
    EXPECT_TEXT(mf_call(mf_jit(m), 2.0), "8.5");
    EXPECT_TEXT(mf_apply(m, mf_module_values(m, mf_everything()), 1.0), "4.5");
    mf_filter some = mf_filter_any(mf_of_type(MF_PARAM_STATE), mf_filter_all(mf_everything(), mf_filter_not(mf_everything())));
    EXPECT(std::strlen(mf_str(some)) > 0 && std::strlen(mf_str_state_axis_rules(MF_STATE_AXES(0, some))) > 0);

    mf_value a, b, x = mf_array(MF_F32, MF_SHAPE(2, 2), 1, 2, 3, 4);
    mf_unpack(mf_tuple(x, 5), &a, &b);
    EXPECT(std::strcmp(mf_str(mf_shape_of(a)), "(2, 2)") == 0 && mf_item_i64(b) == 5);
    mf_take_options clip = {};
    clip.mode = MF_TAKE_CLIP;
    EXPECT_TEXT(mf_take(x, 7, 0, clip), "[3. 4.]");
    mf_function f = [](mf_value v) { return v + 1; };
    EXPECT_TEXT(mf_switch(1, 2.0, mf_exp, f), "3.0");
    EXPECT_TEXT(mf_call([](mf_value v, mf_value w) { return v - w; }, 3, 1), "2");
    mf_remat_options named = {};
    named.policy = mf_save_only_these_names("a", "b");
    EXPECT_TEXT(mf_call(mf_grad(mf_remat([](mf_value v) { return mf_sin(v) * 0 + v; }, named)), 1.0), "1.0");
}

/* ---- functions with a context */

static mf_value scaled(void *context, mf_value x) { return *static_cast<const double *>(context) * x; }

static mf_value repeated(const void *context, mf_function f, const mf_value *arguments, int)
{
    mf_value x = arguments[0];
    for (int i = 0; i < *static_cast<const int *>(context); i++)
        x = mf_call(f, x);
    return x;
}

static void contexts()
{
    const double factor = 1.5;
    EXPECT_TEXT(mf_call(mf_closure(scaled, &factor), 4.0), "6.0");
    const int times = 3;
    EXPECT_TEXT(mf_call(mf_decorate([](mf_value v) { return v * 2; }, "repeated", repeated, &times), 1.0), "8.0");
    mf_vmap_options by_key = {};
    by_key.in_axes = mf_axes(mf_axes_dict("x", 1, "w", MF_NONE));
    mf_value columns = mf_dict("x", mf_array(MF_F32, MF_SHAPE(2, 2), 1, 2, 3, 4), "w", 10.0);
    EXPECT_TEXT(mf_call(mf_vmap([](mf_value d) { return mf_sum(d["x"]) * d["w"]; }, by_key), columns), "[40. 60.]");
}

int main()
{
    mf_set_num_cpu_devices(8);
    reference();
    training();
    operators();
    modules_and_texts();
    modules_of_any_kind();
    contexts();
    std::printf("%s\n", failures ? "failed" : "1 passed, 0 failed");
    return failures ? 1 : mf_exit_status();
}
