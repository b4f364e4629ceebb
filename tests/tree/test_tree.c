/* Trees: creation, indexing, changes, mapping, records, static data. */
#include "tree/tree.h"
#include "base/memory/alloc.h"
#include "check.h"

#include <manyfold.h>

static mf_value leaf(double x) { return mf_scalar(x, MF_F32); }

TEST(dict_keys_are_sorted)
{
    MF_SCOPE;
    mf_value d = mf_dict("w", 1, "b", 2, "a", mf_tuple(3, 4));
    CHECK_EQ_INT(mf_len(d), 3);
    CHECK_STR(mf_key(d, 0), "a");
    CHECK_STR(mf_key(d, 2), "w");
    CHECK(mf_key(d, 3) == NULL && mf_key(mf_tuple(1), 0) == NULL);
    CHECK_STR(mf_str(d), "{'a': (3, 4), 'b': 2, 'w': 1}");
    CHECK_CONTAINS(mf_error(mf_dict("a", 1, "a", 2)), "the key 'a' stands there twice");
    CHECK_CONTAINS(mf_error(mf_dict("a")), "pairs");
    CHECK_CONTAINS(mf_error(mf_dict(1, 2)), "key 0 is no string");
}

TEST(equal_structures_are_one)
{
    MF_SCOPE;
    mf_value a = mf_tuple(mf_dict("x", 1), mf_none(), mf_list(2)), b = mf_tuple(mf_dict("x", leaf(5)), mf_none(), mf_list("s"));
    CHECK(((mf_tree *)mf_object_of(a))->structure == ((mf_tree *)mf_object_of(b))->structure);
    CHECK_STR(mf_str(b), "({'x': 5.0}, None, ['s'])");
    CHECK_STR(mf_str(mf_tuple(1)), "(1,)");
    CHECK_STR(mf_str(mf_none()), "None");
    CHECK_STR(mf_str(mf_i(MF_NONE)), "None");
    CHECK_EQ_INT(mf_len(mf_none()), 0);
}

TEST(indexing)
{
    MF_SCOPE;
    mf_value t = mf_dict("metrics", mf_list(1, mf_dict("accuracy", 0.5)), "n", 7);
    CHECK_NEAR(mf_item_f64(mf_get(t, "metrics", 1, "accuracy")), 0.5, 0);
    CHECK_EQ_INT(mf_item_i64(mf_get(t, "metrics", -2)), 1);
    CHECK_STR(mf_str(mf_get(mf_tuple(0, 1, 2, 3), mf_range(1, MF_END))), "(1, 2, 3)");
    CHECK_STR(mf_str(mf_get(mf_list(0, 1, 2, 3), mf_range(-3, -1))), "[1, 2]");
    CHECK_STR(mf_str(mf_get(mf_list(0, 1, 2, 3), ((mf_slice){ true, MF_END, MF_NONE, -1 }))), "[3, 2, 1, 0]");
    CHECK_STR(mf_str(mf_get(mf_tuple(0, 1, 2, 3), ((mf_slice){ true, -1, 0, -2 }))), "(3, 1)");
    CHECK_STR(mf_str(mf_get(mf_tuple(0, 1, 2, 3), ((mf_slice){ true, 1, -9, -1 }))), "(1, 0)");
    CHECK_STR(mf_str(mf_get(mf_list(0, 1, 2, 3), ((mf_slice){ true, 2, 0, INT64_MIN }))), "[2]");
    CHECK_STR(mf_str(mf_get(mf_list(0, 1, 2, 3), ((mf_slice){ true, -9, MF_END, INT64_MAX }))), "[0]");
    CHECK_STR(mf_str(mf_get(mf_list(0, 1, 2, 3), ((mf_slice){ true, -9, -5, -1 }))), "[]");
    CHECK_STR(mf_str(mf_get(mf_list_n(NULL, 0), ((mf_slice){ true, MF_END, MF_NONE, -1 }))), "[]");
    CHECK_STR(mf_error(mf_get(t, "loss")), "mf_get: no key 'loss' in a dict with keys {metrics, n}");
    CHECK_STR(mf_error(mf_get(t, "metrics", 2)), "mf_get: no item 2 in a list of 2");
    CHECK_CONTAINS(mf_error(mf_get(t, "metrics", 0.5)), "by a string or an integer, not by float32[]");
    CHECK_CONTAINS(mf_error(mf_get(t, 0)), "no item 0 in a dict");
    mf_value error = mf_make_error(MF_ERROR_IO, "gone");
    CHECK_STR(mf_error(mf_get(error, "x")), "gone");
    CHECK_STR(mf_error(mf_get(mf_tuple(error), 0, "x")), "gone");
    CHECK(mf_is_error(mf_tuple(1, error)));
}

TEST(setting_makes_another_tree)
{
    MF_SCOPE;
    mf_value t = mf_dict("a", mf_tuple(1, 2), "b", 3), u = mf_set(t, 9, "a", 1);
    CHECK_STR(mf_str(u), "{'a': (1, 9), 'b': 3}");
    CHECK_STR(mf_str(t), "{'a': (1, 2), 'b': 3}");
    CHECK_STR(mf_str(mf_set(t, mf_none(), "aa")), "{'a': (1, 2), 'aa': None, 'b': 3}");
    CHECK_CONTAINS(mf_error(mf_set(t, 1, "x", 0)), "no key 'x'");
    CHECK_CONTAINS(mf_error(mf_set(t, 1, "b", 0)), "too many indices for an array of rank 0");
}

TEST(unpacking)
{
    MF_SCOPE;
    mf_value a, b;
    mf_unpack(mf_tuple(1, mf_list(2)), &a, &b);
    CHECK_EQ_INT(mf_item_i64(a), 1);
    CHECK_STR(mf_str(b), "[2]");
    mf_unpack(mf_tuple(1, 2, 3), &a, &b);
    CHECK_CONTAINS(mf_error(a), "(*, *, *) is not a tuple or list of 2");
    CHECK(mf_is_error(b));
    mf_unpack(mf_dict("x", 1, "y", 2), &a, &b);
    CHECK(mf_error(a) != NULL);
    mf_value t = mf_tuple(5, 6);
    mf_unpack(t, &t, &b);
    CHECK_EQ_INT(mf_item_i64(t), 5);
}

/* Unpacked inside a scope into a variable outside: using it is an error of a stale handle. */
TEST(unpacked_into_a_longer_life)
{
    mf_value a, b;
    {
        MF_SCOPE;
        mf_unpack(mf_tuple(1, 2), &a, &b);
    }
    MF_SCOPE;
    CHECK_CONTAINS(mf_error(mf_tuple(a)), "after the scope that owned it had been closed");
    CHECK_EQ_INT(mf_error_status(b), MF_ERROR_SCOPE);
}

TEST(leaves_and_back)
{
    MF_SCOPE;
    mf_value t = mf_dict("a", mf_tuple(1, mf_none()), "b", mf_list(2, 3)), leaves = mf_tree_leaves(t);
    CHECK_STR(mf_str(leaves), "[1, 2, 3]");
    CHECK_STR(mf_str(mf_tree_unflatten(t, mf_list(4, mf_tuple(5, 5), 6))), "{'a': (4, None), 'b': [(5, 5), 6]}");
    CHECK_CONTAINS(mf_error(mf_tree_unflatten(t, mf_list(4))), "1 leaves for a tree that has 3");
    CHECK_STR(mf_str(mf_tree_leaves(leaf(2))), "[2.0]");
}

static int calls;
static mf_value pair(mf_value a, mf_value b)
{
    calls++;
    return mf_tuple(a, b);
}
static mf_value same(mf_value a) { return a; }
static mf_value last(mf_value a, mf_value b)
{
    (void)a;
    return b;
}
static mf_value never(mf_value a)
{
    (void)a;
    calls++;
    return mf_make_error(MF_ERROR_SHAPE, "no shape");
}

TEST(mapping)
{
    MF_SCOPE;
    mf_value t = mf_dict("a", mf_tuple(1, mf_none()), "b", 2);
    CHECK_STR(mf_str(mf_tree_map(same, t)), "{'a': (1, None), 'b': 2}");
    CHECK_STR(mf_str(mf_tree_map(pair, t, 7)), "{'a': ((1, 7), None), 'b': (2, 7)}");
    CHECK_STR(mf_str(mf_tree_map(pair, 1, 2)), "(1, 2)");
    CHECK_CONTAINS(mf_error(mf_tree_map(pair, t, mf_dict("a", mf_tuple(1, 1), "b", 1))), "tree 1 part at ['a'][1]: None against a leaf");
    CHECK_CONTAINS(mf_error(mf_tree_map(pair, t, mf_dict("a", 1, "c", 1))),
                   "at the top: a dict with keys {a, b} against a dict with keys {a, c}");
    calls = 0;
    CHECK_STR(mf_error(mf_tree_map(never, t)), "no shape");
    CHECK_EQ_INT(calls, 1);
    CHECK_EQ_INT(mf_item_i64(mf_tree_reduce(mf_fn(last), t, mf_i(0))), 2);
}

MF_RECORD(train_state, params, opt_state, step);

TEST(records)
{
    MF_SCOPE;
    train_state s = { .params = mf_tuple(1, 2), .opt_state = mf_none(), .step = leaf(3) };
    mf_value packed = train_state_pack(s);
    CHECK_STR(mf_str(packed), "{'opt_state': None, 'params': (1, 2), 'step': 3.0}");
    train_state back = train_state_unpack(packed);
    CHECK_NEAR(mf_item_f64(back.step), 3, 0);
    back = train_state_unpack(mf_dict("step", 1));
    CHECK_CONTAINS(mf_error(back.params), "train_state: the value has no field 'params'");
    CHECK(mf_error(back.opt_state) && mf_error(back.step));
    s.step = (mf_value){ 0 };
    CHECK_CONTAINS(mf_error(train_state_pack(s)), "unset");
}

TEST(equal_statics_are_one_object)
{
    MF_SCOPE;
    CHECK(mf_object_of(mf_string("mean")) == mf_object_of(mf_string("mean")));
    CHECK(mf_object_of(mf_string("mean")) != mf_object_of(mf_string("sum")));
    int bytes = 3;
    CHECK(mf_object_of(mf_static_bytes(&bytes, sizeof bytes)) == mf_object_of(mf_static_bytes(&bytes, sizeof bytes)));
    CHECK(mf_object_of(mf_index_slice(mf_range(0, 2))) == mf_object_of(mf_index_slice(mf_range(0, 2))));
    CHECK(mf_object_of(mf_index_slice(mf_range(0, 2))) != mf_object_of(mf_index_slice(mf_range(0, 3))));
    CHECK_STR(mf_str(mf_string("text")), "text");
    CHECK(mf_error(mf_string(NULL)) != NULL);
    mf_value module;
    {
        MF_SCOPE;
        module = mf_keep(leaf(1));
        mf_module m = { module.handle };
        CHECK(mf_object_of(mf_static(m)) == mf_object_of(mf_static(m)));
    }
    mf_release(module);
}

TEST(keyword_arguments_are_marked)
{
    MF_SCOPE;
    mf_value k = mf_kwargs("scale", 2, "bias", 1);
    CHECK(((mf_tree *)mf_object_of(k))->kwargs);
    CHECK_STR(mf_key(k, 0), "bias");
    CHECK(!((mf_tree *)mf_object_of(mf_dict("scale", 2)))->kwargs);
}

TEST(an_unset_item_is_an_error)
{
    MF_SCOPE;
    CHECK_CONTAINS(mf_error(mf_tuple(1, (mf_value){ 0 })), "item 1 is an unset value");
    CHECK_CONTAINS(mf_error(mf_get((mf_value){ 0 }, 0)), "unset");
}

TEST(trees_may_be_empty)
{
    MF_SCOPE;
    CHECK_STR(mf_str(mf_tuple()), "()");
    CHECK_STR(mf_str(mf_list()), "[]");
    CHECK_STR(mf_str(mf_dict()), "{}");
    CHECK_EQ_INT(mf_len(mf_list()), 0);
    CHECK_EQ_INT(mf_kind_of(mf_dict()), MF_KIND_DICT);
}

static mf_value kind_while_tracing(mf_value x) { return mf_i(mf_kind_of(x)); }

TEST(a_value_says_what_it_is)
{
    MF_SCOPE;
    mf_value unset = { 0 }, bad = mf_make_error(MF_ERROR_TREE, "bad");
    const mf_value values[] = {
        unset, bad, mf_none(), mf_tuple(1), mf_list(1), mf_dict("a", 1), mf_f(1), mf_struct(MF_SHAPE(2), MF_F32), mf_string("s")
    };
    const mf_kind kinds[] = { MF_KIND_UNSET, MF_KIND_ERROR, MF_KIND_NONE,   MF_KIND_TUPLE, MF_KIND_LIST,
                              MF_KIND_DICT,  MF_KIND_ARRAY, MF_KIND_STRUCT, MF_KIND_STATIC };
    for (int i = 0; i < 9; i++)
        CHECK_EQ_INT(mf_kind_of(values[i]), kinds[i]);
    CHECK_STR(mf_error(bad), "bad");
    CHECK_EQ_INT(mf_item_i64(mf_call(mf_jit(kind_while_tracing), 1.0)), MF_KIND_TRACER);
}

static mf_value decays(mf_value path, mf_value x)
{
    size_t size;
    const char *name = mf_static_data(path, &size);
    return mf_mul(x, name && strstr(name, "'w'") ? 10 : 1);
}
static mf_value paths_alone(mf_value path, mf_value x, mf_value y) { return (void)x, (void)y, path; }

TEST(mapping_tells_where_a_leaf_stands)
{
    MF_SCOPE;
    mf_value tree = mf_dict("layers", mf_list(mf_dict("w", 1, "b", 2), mf_tuple(3)), "w", 4);
    CHECK_STR(mf_str(mf_tree_map_with_path(decays, tree)), "{'layers': [{'b': 2, 'w': 10}, (3,)], 'w': 40}");
    mf_value paths = mf_tree_leaves(mf_tree_map_with_path(paths_alone, tree, 0));
    size_t size;
    CHECK_STR(mf_static_data(mf_get(paths, 1), &size), "['layers'][0]['w']");
    CHECK_STR(mf_static_data(mf_get(paths, 2), &size), "['layers'][1][0]");
    CHECK_STR(mf_str(mf_call(mf_jit(mf_fn(mf_global_norm)), mf_tuple(3.0, 4.0))), "5.0");
}

#ifndef NDEBUG
static mf_value build_all(void)
{
    mf_value t = mf_dict("w", mf_tuple(1, mf_array(MF_F32, MF_SHAPE(5), 1, 2, 3, 4, 5)), "b", mf_list(mf_none(), "name of a static"));
    t = mf_set(t, mf_zeros(MF_SHAPE(3), MF_F32), "w", 0);
    return mf_tuple(mf_get(t, "w", 1), mf_tree_unflatten(t, mf_tree_leaves(t)), mf_tree_map(same, t));
}

/* Every allocation fails once: the value is an error or complete, and nothing leaks (the sanitizer checks). */
TEST(out_of_memory_anywhere)
{
    int whole = 0;
    for (int n = 1; n < 400 && whole < 3; n++) {
        MF_SCOPE;
        mf_alloc_fail_after(n);
        mf_value v = build_all();
        mf_alloc_fail_after(0);
        if (!mf_is_error(v))
            whole++;
        else
            CHECK(mf_error_status(v) == MF_ERROR_MEMORY || mf_error(v) != NULL);
    }
    CHECK(whole == 3);
}
#endif
