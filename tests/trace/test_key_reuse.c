/* MF_CHECK=keys: a random key that is used twice is an error with both uses; what may be done with keys gives none. */
#include "check.h"

#include <manyfold.h>
#include <stdio.h>

__attribute__((constructor)) static void settings(void)
{
    setenv("MF_NUM_CPU_DEVICES", "4", 1);
    setenv("MF_CHECK", "keys", 1);
}

static int first_line, second_line;
/* e names op and this file's two lines. */
#define REUSED(call, words)                                                    \
    do {                                                                       \
        mf_value e_ = (call);                                                  \
        char first_[48], second_[48];                                          \
        snprintf(first_, sizeof first_, "test_key_reuse.c:%d)", first_line);   \
        snprintf(second_, sizeof second_, "test_key_reuse.c:%d", second_line); \
        CHECK(mf_is_error(e_));                                                \
        CHECK_CONTAINS(mf_error(e_), words);                                   \
        CHECK_CONTAINS(mf_error(e_), first_);                                  \
        CHECK_CONTAINS(mf_error_place(e_), second_);                           \
    } while (0)

static mf_value normal(mf_value key) { return mf_random_normal(key, MF_SHAPE(3), MF_F32); }
static mf_value twice(mf_value key)
{
    first_line = __LINE__ + 1;
    mf_value a = mf_random_normal(key, MF_SHAPE(3), MF_F32);
    second_line = __LINE__ + 1;
    mf_value b = mf_random_uniform(key, MF_SHAPE(3), MF_F32);
    return mf_sum(mf_add(a, b));
}
static mf_value a_row_twice(mf_value key)
{
    mf_value keys = mf_random_split(key, 3);
    mf_value a = mf_random_bits(mf_get(keys, 1), MF_SHAPE(2), MF_U32);
    first_line = __LINE__ - 1;
    second_line = __LINE__ + 1;
    return mf_tuple(a, mf_random_split(mf_get(keys, 1), 2));
}
static mf_value jitted_twice(mf_value key)
{
    first_line = second_line = __LINE__ + 1;
    return mf_add(mf_call(mf_jit(normal), key), mf_call(mf_jit(normal), key));
}
static mf_value of_a_branch(mf_value key)
{
    first_line = __LINE__ + 1;
    mf_value a = mf_cond(mf_less(mf_sum(key), 7), normal, normal, key);
    second_line = __LINE__ + 1;
    return mf_tuple(a, mf_random_bits(key, MF_SHAPE(5), MF_U8)); /* never drawn before: in a test the library's places are the user's */
}

TEST(a_key_used_twice_in_a_function)
{
    mf_value keys = mf_random_split(mf_random_key(1), 4);
#define KEY mf_random_key(7)
    REUSED(mf_call(mf_jit(twice), KEY), "random_uniform: this random key was used before, by random_normal (");
    REUSED(mf_call(mf_pmap(twice), keys), "random_uniform");
    REUSED(mf_call(mf_vmap(twice), keys), "random_uniform");
    REUSED(mf_call(mf_jit(a_row_twice), KEY), "random_split: this random key was used before, by random_bits (");
    REUSED(mf_call(mf_jit(jitted_twice), KEY), "normal");
    REUSED(mf_call(mf_jit(of_a_branch), KEY), "random_bits");
}

TEST(a_key_used_twice_outside)
{
    mf_value key = mf_random_key(0);
    first_line = __LINE__ + 1;
    CHECK(!mf_is_error(mf_random_normal(key, MF_SHAPE(3), MF_F32)));
    second_line = __LINE__ + 1;
    REUSED(mf_random_split(key, 2), "random_split: this random key was used before, by random_normal (");
    mf_function f = mf_jit(normal);
    key = mf_random_key(0); /* the seed may be taken again */
    first_line = __LINE__ + 1;
    CHECK(!mf_is_error(mf_call(f, key)));
    second_line = __LINE__ + 1;
    REUSED(mf_call(f, key), "normal");
}

/* ---- loops */

static mf_value the_same_each_turn(void *key, mf_value sum, mf_value x)
{
    return mf_tuple(mf_add(mf_add(sum, x), mf_sum(mf_random_normal(*(mf_value *)key, MF_SHAPE(3), MF_F32))), mf_none());
}
static mf_value over_rows(mf_value key)
{
    return mf_get(mf_scan(mf_closure(the_same_each_turn, &key), mf_f(0), mf_ones(MF_SHAPE(3), MF_F32)), 0);
}
static mf_value next(mf_value key, mf_value x)
{
    mf_value keys = mf_random_split(key, 2);
    return mf_tuple(mf_get(keys, 0), mf_add(x, normal(mf_get(keys, 1))));
}
static mf_value carried(mf_value key) { return mf_scan(next, key, mf_ones(MF_SHAPE(4, 3), MF_F32)); }
static mf_value not_carried_on(mf_value key, mf_value x) { return mf_tuple(key, mf_add(x, normal(key))); }
static mf_value forgotten(mf_value key) { return mf_scan(not_carried_on, key, mf_ones(MF_SHAPE(4, 3), MF_F32)); }

TEST(loops)
{
    mf_value e = mf_call(mf_jit(over_rows), KEY);
    CHECK(mf_is_error(e));
    CHECK_CONTAINS(mf_error(e), "random_normal: each turn of the loop uses the same random key");
    e = mf_call(mf_jit(forgotten), KEY);
    CHECK(mf_is_error(e));
    CHECK_CONTAINS(mf_error(e), "each turn of the loop uses the same random key");
    CHECK(!mf_is_error(mf_call(mf_jit(carried), KEY)));
}

/* ---- what is no reuse */

static mf_value rows_apart(mf_value key)
{
    mf_value keys = mf_random_split(key, 3);
    return mf_add(normal(mf_get(keys, 0)), mf_add(normal(mf_get(keys, 1)), normal(mf_get(keys, 2))));
}
static mf_value folded(mf_value key)
{
    mf_value a = normal(mf_random_fold_in(key, 1)), b = normal(mf_random_fold_in(key, mf_i(2)));
    return mf_add(mf_add(a, b), normal(key));
}
static mf_value branches(mf_value key) { return mf_cond(mf_less(mf_sum(key), 7), normal, normal, key); }
static mf_value loss(mf_value w, mf_value key) { return mf_sum(mf_mul(mf_sin(mf_mul(w, normal(key))), w)); }
static mf_value remat_gradient(mf_value key) { return mf_call(mf_grad(mf_remat(loss)), mf_ones(MF_SHAPE(3), MF_F32), key); }
static mf_state stream;
static mf_value from_a_state(mf_value key)
{
    return mf_add(normal(key), mf_add(normal(mf_random_next(stream)), normal(mf_random_next(stream))));
}
static mf_value all_distributions(mf_value key)
{
    mf_value k = mf_random_split(key, 14), s = mf_scalar(0, MF_F32), x = mf_arange(6, MF_F32);
    mf_shape six = MF_SHAPE(6);
#define K(i)   mf_get(k, i)
#define AND(v) s = mf_add(s, mf_sum(mf_astype(v, MF_F32)))
    AND(mf_random_bits(K(0), six, MF_U64));
    AND(mf_random_truncated_normal(K(1), -1, 1, six, MF_F32));
    AND(mf_random_randint(K(2), six, mf_i(0), mf_i(9), MF_I32));
    AND(mf_random_permutation(K(3), x));
    AND(mf_random_bernoulli(K(4), 0.5, six));
    AND(mf_random_exponential(K(5), six, MF_F32));
    AND(mf_random_gumbel(K(6), six, MF_F32));
    AND(mf_random_laplace(K(7), six, MF_F32));
    AND(mf_random_cauchy(K(8), six, MF_F32));
    AND(mf_random_gamma(K(9), 2.0, six, MF_F32));
    AND(mf_random_categorical(K(10), x, 0, six));
    AND(mf_random_choice(K(11), x, MF_SHAPE(2), .without_replacement = true));
    AND(mf_random_choice(K(12), x, MF_SHAPE(2), .p = mf_softmax(x, 0)));
    AND(mf_random_choice(K(13), x, MF_SHAPE(2)));
    return s;
}

TEST(what_is_no_reuse)
{
    stream = mf_random_state(3);
    mf_value keys = mf_random_split(mf_random_key(1), 4);
    struct {
        const char *name;
        mf_function f;
        mf_value key;
    } cases[] = {
        { "rows apart", mf_jit(rows_apart), KEY }, { "folded", mf_jit(folded), KEY },
        { "branches", mf_jit(branches), KEY },     { "remat", mf_jit(remat_gradient), KEY },
        { "states", mf_jit(from_a_state), KEY },   { "distributions", mf_jit(all_distributions), KEY },
        { "pmap", mf_pmap(rows_apart), keys },     { "vmap", mf_vmap(folded), mf_random_split(mf_random_key(2), 4) },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mf_value r = mf_call(cases[i].f, cases[i].key);
        if (!CHECK(!mf_is_error(r)))
            CHECK_NOTE("%s: %s", cases[i].name, mf_error(r));
        r = mf_call(cases[i].f, mf_add(cases[i].key, 1)); /* another key, the program from the cache */
        if (!CHECK(!mf_is_error(r)))
            CHECK_NOTE("%s: %s", cases[i].name, mf_error(r));
    }
    mf_value outside = all_distributions(KEY);
    if (!CHECK(!mf_is_error(outside)))
        CHECK_NOTE("%s", mf_error(outside));
}

TEST(off_again)
{
    CHECK_EQ_INT(mf_set_checks("nan"), MF_OK);
    CHECK(!mf_is_error(mf_call(mf_jit(twice), KEY)));
    CHECK_EQ_INT(mf_set_checks("replicated,keys"), MF_OK);
    CHECK(mf_is_error(mf_call(mf_jit(twice), KEY)));
    CHECK_EQ_INT(mf_set_checks("key"), MF_ERROR_ARGUMENT);
}
