/* Metrics: the result does not depend on how the examples are divided among batches and devices. */
#include "check_values.h"

enum { DEVICES = 4, EXAMPLES = 48, CLASSES = 5 };

static mf_module every_metric(void)
{
    return mf_nn_multi_metric("loss", mf_nn_average("loss"), "accuracy", mf_nn_accuracy(), "top2", mf_nn_accuracy(.k = 2), "confusion",
                              mf_nn_confusion_matrix(CLASSES));
}

static mf_value examples(void)
{
    mf_value logits = mf_random_normal(mf_random_key(1), MF_SHAPE(EXAMPLES, CLASSES), MF_F32);
    mf_value labels = mf_random_randint(mf_random_key(2), MF_SHAPE(EXAMPLES), 0, CLASSES, MF_I32);
    mf_value loss = mf_random_uniform(mf_random_key(3), MF_SHAPE(EXAMPLES), MF_F32);
    mf_value mask = mf_random_bernoulli(mf_random_key(4), 0.7, MF_SHAPE(EXAMPLES));
    return mf_dict("logits", logits, "labels", labels, "loss", loss, "mask", mask);
}

static mf_value rows(mf_value tree, int from, int to)
{
    const char *const keys[] = { "logits", "labels", "loss", "mask" };
    mf_value part = mf_dict();
    for (int i = 0; i < 4; i++)
        part = mf_set(part, mf_get(tree, keys[i], mf_range(from, to)), keys[i]);
    return part;
}

static mf_value update(void *context, mf_value batch) { return mf_nn_metric_update(*(mf_module *)context, batch, .axis_name = "devices"); }

static bool same(mf_value a, mf_value b)
{
    const char *const keys[] = { "loss", "accuracy", "top2", "confusion" };
    bool all = true;
    for (int i = 0; i < 4; i++)
        all &= mf_item_bool(mf_array_equal(mf_get(a, keys[i]), mf_get(b, keys[i])));
    return all;
}

TEST(sums_are_exact_over_batches_and_devices)
{
    MF_SCOPE;
    mf_set_num_cpu_devices(DEVICES);
    mf_value all = examples();
    mf_module whole = every_metric(), batches = every_metric(), spread = every_metric();
    mf_nn_metric_update(whole, all);
    mf_value expected = mf_nn_metric_compute(whole);
    REQUIRE(CHECK_STR(mf_error(expected), NULL));
    for (int i = 0, k = 1; i < EXAMPLES; i += k, k = k % 7 + 3)
        mf_nn_metric_update(batches, rows(all, i, i + k < EXAMPLES ? i + k : EXAMPLES));
    CHECK(same(mf_nn_metric_compute(batches), expected));
    mf_function f = mf_pmap(mf_closure(update, &spread), .axis_name = "devices");
    for (int i = 0; i < EXAMPLES; i += 2 * DEVICES)
        CHECK_STR(mf_error(mf_call(f, mf_shard_batch(rows(all, i, i + 2 * DEVICES), DEVICES))), NULL);
    CHECK(same(mf_nn_metric_compute(spread), expected));
    CHECK_EQ_INT(mf_nn_metric_reset(spread), MF_OK);
    CHECK(isnan(mf_item_f64(mf_get(mf_nn_metric_compute(spread), "loss"))));
}

TEST(they_are_what_they_say)
{
    MF_SCOPE;
    mf_value all = examples(), mask = mf_get(all, "mask");
    mf_module m = every_metric();
    mf_nn_metric_update(m, all);
    mf_value result = mf_nn_metric_compute(m), confusion = mf_get(result, "confusion");
    static float logits[EXAMPLES][CLASSES], loss[EXAMPLES];
    static int32_t labels[EXAMPLES], counts[EXAMPLES];
    int64_t matrix[CLASSES][CLASSES] = { { 0 } }, got[CLASSES][CLASSES];
    int count = 0, right = 0, second = 0;
    double sum = 0;
    mf_to_host(mf_get(all, "logits"), MF_F32, logits, EXAMPLES * CLASSES);
    mf_to_host(mf_get(all, "loss"), MF_F32, loss, EXAMPLES);
    mf_to_host(mf_get(all, "labels"), MF_I32, labels, EXAMPLES);
    mf_to_host(mask, MF_I32, counts, EXAMPLES);
    for (int i = 0; i < EXAMPLES; i++) {
        int above = 0, best = 0;
        for (int c = 0; c < CLASSES; c++) {
            above += logits[i][c] > logits[i][labels[i]];
            best = logits[i][c] > logits[i][best] ? c : best;
        }
        if (!counts[i])
            continue;
        count++;
        right += above == 0;
        second += above <= 1;
        sum += loss[i];
        matrix[labels[i]][best]++;
    }
    CHECK_NEAR(mf_item_f64(mf_get(result, "loss")), sum / count, 1e-7);
    CHECK_NEAR(mf_item_f64(mf_get(result, "accuracy")), (double)right / count, 1e-7);
    CHECK_NEAR(mf_item_f64(mf_get(result, "top2")), (double)second / count, 1e-7);
    mf_to_host(confusion, MF_I64, got, CLASSES * CLASSES);
    CHECK(memcmp(got, matrix, sizeof got) == 0);
    mf_value half = mf_call(mf_nn_accuracy(.binary = true, .threshold = 0.5), mf_dict("logits", loss[0], "labels", 1));
    CHECK_EQ_INT(mf_item_i64(mf_get(half, "total")), loss[0] >= 0.5F);
}

/* The sums can be carried by the caller, without the module's state. */
TEST(sums_are_plain_trees)
{
    MF_SCOPE;
    mf_module m = every_metric();
    mf_value all = examples(), a = mf_call(mf_jit(m), rows(all, 0, 20)), b = mf_call(mf_jit(m), rows(all, 20, EXAMPLES));
    mf_nn_metric_update(m, all);
    CHECK(same(mf_nn_metric_result(m, mf_tree_map(mf_add, a, b)), mf_nn_metric_compute(m)));
    mf_module own = mf_nn_multi_metric("a", mf_nn_average("loss"), "b", mf_nn_average("loss"));
    mf_value masks = mf_dict("a", mf_arange(2, MF_I32)), batch = mf_dict("loss", mf_array(MF_F32, MF_SHAPE(2), 1, 3), "mask", masks);
    mf_value result = mf_nn_metric_result(own, mf_call(own, batch));
    CHECK_NEAR(mf_item_f64(mf_get(result, "a")), 3, 0);
    CHECK_NEAR(mf_item_f64(mf_get(result, "b")), 2, 0);
}

TEST(wrong_batches_are_named)
{
    MF_SCOPE;
    mf_value x = mf_ones(MF_SHAPE(2, 3), MF_F32), labels = mf_zeros(MF_SHAPE(2), MF_I32);
    FAILS(mf_nn_metric_update(mf_nn_average("loss"), mf_dict("values", 1)), "Average: the values of a batch have no 'loss'");
    FAILS(mf_nn_metric_update(every_metric(), mf_dict("loss", 1, "logits", x)), "Accuracy: the values of a batch have no 'labels'");
    FAILS(mf_call(mf_nn_accuracy(), mf_dict("logits", x, "labels", x)), "Accuracy: labels of the shape (2, 3) do not go with logits");
    FAILS(mf_call(mf_nn_accuracy(), mf_dict("logits", x, "labels", mf_zeros(MF_SHAPE(2), MF_F32))),
          "Accuracy: labels are integers, not float32");
    FAILS(mf_call(mf_nn_confusion_matrix(3), mf_dict("logits", x, "labels", mf_zeros(MF_SHAPE(3), MF_I32))), "ConfusionMatrix: labels");
    FAILS(mf_nn_confusion_matrix(0), "ConfusionMatrix of 0 classes");
    FAILS(mf_nn_accuracy(.k = -1), "Accuracy among the first -1 classes");
    FAILS(mf_nn_multi_metric("a", 1), "MultiMetric: member a is no metric");
    mf_value outside = mf_call(mf_nn_confusion_matrix(3), mf_dict("logits", x, "labels", mf_sub(labels, 1)));
    CHECK_EQ_INT(mf_item_i64(mf_sum(outside)), 0);
}
