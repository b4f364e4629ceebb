/* The semantics of maps over processes, compared as text: the known answers of jax 0.4.35 with two processes of four devices, and the error
 * that each process gets when the processes do not do the same. */
#include "check.h"
#include "spread.h"

#include <unistd.h>

__attribute__((constructor)) static void devices(void) { setenv("MF_NUM_CPU_DEVICES", "8", 1); }

static mf_value own(const spread_here *h) { return mf_add(mf_arange(4, MF_F32), 4.0f * (float)h->rank); }

/* The devices of these numbers, in this order. */
#define SOME(...) some_devices((const int[]){ __VA_ARGS__ }, sizeof((const int[]){ __VA_ARGS__ }) / sizeof(int))
static mf_device_list some_devices(const int *ids, size_t count)
{
    static _Thread_local mf_device list[8];
    for (size_t i = 0; i < count; i++)
        list[i] = mf_devices().at[ids[i]];
    return (mf_device_list){ (int)count, list };
}

/* ------------------------------------------------------------------ as in JAX */

static mf_value sum(mf_value x) { return mf_psum(x, "i"); }
static mf_value plus_sum(mf_value x) { return mf_add(x, mf_psum(x, "i")); }
static mf_value index_and_size(mf_value x) { return mf_tuple(mf_axis_index("i"), mf_mul(mf_psum(1, "i"), mf_ones_like(x))); }
static mf_value next(mf_value x)
{
    mf_value pairs[8];
    for (int i = 0; i < 8; i++)
        pairs[i] = mf_tuple(i, (i + 1) % 8);
    return mf_ppermute(x, "i", mf_list_n(pairs, 8));
}
static mf_value pairs_of_four(mf_value x)
{
    return mf_psum(x, "i", .axis_index_groups = mf_list(mf_list(0, 4), mf_list(1, 5), mf_list(2, 6), mf_list(3, 7)));
}
static mf_value scatter(mf_value x) { return mf_psum_scatter(mf_mul(mf_arange(8, MF_F32), x), 0, "i"); }
static mf_value times_own(mf_value x, mf_value w) { return mf_add(mf_mul(x, w), mf_psum(w, "i")); }
static mf_value itself(mf_value x) { return x; }
static mf_value index_and_x(mf_value x) { return mf_tuple(mf_axis_index("i"), x, mf_psum(x, "i")); }
static mf_value square_sum(mf_value x) { return mf_psum(mf_square(x), "i"); }
static mf_value gradient(mf_value x) { return mf_call(mf_grad(square_sum), x); }

static mf_value a_sum(const spread_here *h) { return mf_call(mf_pmap(plus_sum, "i"), own(h)); }
static mf_value an_index(const spread_here *h) { return mf_call(mf_pmap(index_and_size, "i"), own(h)); }
static mf_value a_ring(const spread_here *h) { return mf_call(mf_pmap(next, "i"), own(h)); }
static mf_value in_pairs(const spread_here *h) { return mf_call(mf_pmap(pairs_of_four, "i"), own(h)); }
static mf_value scattered(const spread_here *h) { return mf_call(mf_pmap(scatter, "i"), own(h)); }
static mf_value sum_for_all(const spread_here *h) { return mf_call(mf_pmap(sum, "i", .out_axes = MF_NONE), own(h)); }
static mf_value own_value(const spread_here *h)
{
    return mf_call(mf_pmap(times_own, "i", .in_axes = mf_axes(0, MF_NONE)), own(h), 10.0f + (float)h->rank);
}
static mf_value own_value_out(const spread_here *h)
{
    return mf_call(mf_pmap(itself, "i", .in_axes = MF_NONE, .out_axes = MF_NONE), 10.0f + (float)h->rank);
}
static mf_value reversed(const spread_here *h)
{
    return mf_call(mf_pmap(index_and_x, "i", .devices = SOME(7, 6, 5, 4, 3, 2, 1, 0)), mf_add(mf_arange(4, MF_F32), 0));
    (void)h;
}
static mf_value interleaved(const spread_here *h)
{
    return mf_call(mf_pmap(index_and_x, "i", .devices = SOME(0, 4, 1, 5)), mf_get(own(h), mf_range(0, 2)));
}
static mf_value three_and_one(const spread_here *h)
{
    return mf_call(mf_pmap(index_and_x, "i", .devices = SOME(0, 1, 2, 4)), mf_get(own(h), mf_range(0, h->rank ? 1 : 3)));
}
static mf_value local_ones(const spread_here *h) { return mf_call(mf_pmap(plus_sum, "i", .devices = mf_local_devices()), own(h)); }
static mf_value global_size(const spread_here *h) { return mf_call(mf_pmap(plus_sum, "i", .axis_size = 8), own(h)); }
static mf_value a_gradient(const spread_here *h) { return mf_call(mf_pmap(gradient, "i"), own(h)); }

/* ------------------------------------------------------------------ errors */

static mf_value two_rows(const spread_here *h) { return mf_call(mf_pmap(sum, "i"), mf_get(own(h), mf_range(0, 2))); }
static mf_value local_size(const spread_here *h) { return mf_call(mf_pmap(sum, "i", .axis_size = 4), own(h)); }
static mf_value varying(const spread_here *h) { return mf_call(mf_pmap(itself, "i", .out_axes = MF_NONE), own(h)); }
static mf_value unequal(mf_value x) { return mf_check_replicated(mf_mul(x, 1), "i"); }
static mf_value not_replicated(const spread_here *h) { return mf_call(mf_pmap(unequal, "i"), own(h)); }

#define VARIES \
    "pmap(itself): out_axes is none for the result, but its value varies over the mapped axis 'i' through argument 0; use a collective such as psum to make it the same on all devices, or map it with out_axes=0"
#define DIFFERS "check_replicated: the value differs over the axis i: devices 1, 2, 3, 4, 5, 6, 7 hold other bits than device 0"

static const struct {
    const char *name;
    spread_program run;
    const char *words[2];
} answers[] = {
    { "psum", a_sum, { "[28. 29. 30. 31.]", "[32. 33. 34. 35.]" } },
    { "index and size", an_index, { "([0 1 2 3], [8. 8. 8. 8.])", "([4 5 6 7], [8. 8. 8. 8.])" } },
    { "ppermute", a_ring, { "[7. 0. 1. 2.]", "[3. 4. 5. 6.]" } },
    { "groups", in_pairs, { "[ 4.  6.  8. 10.]", "[ 4.  6.  8. 10.]" } },
    { "psum_scatter", scattered, { "[ 0. 28. 56. 84.]", "[112. 140. 168. 196.]" } },
    { "out_axes=None", sum_for_all, { "28.0", "28.0" } },
    { "in_axes=None is each one's own", own_value, { "[ 84.  94. 104. 114.]", "[128. 139. 150. 161.]" } },
    { "and goes out as such", own_value_out, { "10.0", "11.0" } },
    { "devices reversed", reversed, { "([4 5 6 7], [0. 1. 2. 3.], [12. 12. 12. 12.])", "([0 1 2 3], [0. 1. 2. 3.], [12. 12. 12. 12.])" } },
    { "devices interleaved", interleaved, { "([0 2], [0. 1.], [10. 10.])", "([1 3], [4. 5.], [10. 10.])" } },
    { "three devices and one", three_and_one, { "([0 1 2], [0. 1. 2.], [7. 7. 7.])", "([3], [4.], [7.])" } },
    { "local devices", local_ones, { "[6. 7. 8. 9.]", "[26. 27. 28. 29.]" } },
    { "global axis_size", global_size, { "[28. 29. 30. 31.]", "[32. 33. 34. 35.]" } },
    { "gradient of psum", a_gradient, { "[ 0. 16. 32. 48.]", "[ 64.  80.  96. 112.]" } },
    { "too few rows",
      two_rows,
      { "Leading axis size of input to pmapped function must equal the number of local devices passed to pmap. Got axis_size=2, num_local_devices=4 (process 0 of 2; the map has 8 devices in all).",
        "Leading axis size of input to pmapped function must equal the number of local devices passed to pmap. Got axis_size=2, num_local_devices=4 (process 1 of 2; the map has 8 devices in all)." } },
    { "axis_size is global",
      local_size,
      { "pmap: specified axis_size 4 doesn't match received axis_size 8: process 0 has 4 rows of its own",
        "pmap: specified axis_size 4 doesn't match received axis_size 8: process 1 has 4 rows of its own" } },
    { "a result that varies", varying, { VARIES, VARIES } },
    { "not replicated", not_replicated, { DIFFERS, DIFFERS } },
};

TEST(two_processes_of_four_devices)
{
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        static spread_texts words;
        spread_print(answers[i].run, NULL, 8, "00001111", &words);
        for (int p = 0; p < 2; p++)
            if (!CHECK_STR(words.of[p], answers[i].words[p]))
                CHECK_NOTE("case %s: process %d", answers[i].name, p);
    }
}

/* ------------------------------------------------------------------ unmapped values that differ between processes */

static mf_value twice_own(mf_value x, mf_value w) { return mf_add(mf_psum(x, "i"), mf_mul(w, 2)); }
static mf_value checked_own(mf_value x, mf_value w) { return mf_add(mf_psum(x, "i"), mf_check_replicated(w, "i")); }
static mf_value second(mf_value x, mf_value w)
{
    (void)x;
    return w;
}

/* Maps with an unmapped second argument: their result if it is 10 in all processes, and if it is 10 + rank. */
static const struct {
    const char *name;
    mf_value (*body)(mf_value, mf_value);
    const char *same, *own[2]; /* own: by process, for 10 + rank, when checks are off; NULL: the map checks it itself, so it fails */
} nones[] = {
    { "computed", twice_own, "[48. 48. 48. 48.]", { "[48. 48. 48. 48.]", "[50. 50. 50. 50.]" } },
    { "given on", second, "[10. 10. 10. 10.]", { "[10. 10. 10. 10.]", "[11. 11. 11. 11.]" } },
    { "asked", checked_own, "[38. 38. 38. 38.]", { NULL, NULL } },
};

typedef struct none_case {
    int index;
    bool differs;
} none_case;

static mf_value map_of_none(const spread_here *h)
{
    const none_case *c = h->context;
    return mf_call(mf_pmap(nones[c->index].body, "i", .in_axes = mf_axes(0, MF_NONE)), own(h), 10.0f + (c->differs ? (float)h->rank : 0));
}

TEST(values_of_none_are_compared_when_asked)
{
    for (int checks = 0; checks < 2; checks++) {
        mf_set_checks(checks ? "replicated" : "");
        for (none_case c = { 0 }; c.index < (int)(sizeof nones / sizeof *nones); c.index += c.differs, c.differs ^= true) {
            static spread_texts words;
            spread_print(map_of_none, &c, 8, "00001111", &words);
            for (int p = 0; p < 2; p++) {
                const char *own_words = nones[c.index].own[p];
                bool good = !c.differs ? CHECK_STR(words.of[p], nones[c.index].same)
                            : own_words && !checks
                                ? CHECK_STR(words.of[p], own_words)
                                : CHECK_CONTAINS(words.of[p], "differs over the axis i: devices 4, 5, 6, 7 hold other bits");
                if (!good)
                    CHECK_NOTE("case %s: process %d", nones[c.index].name, p);
            }
        }
    }
    mf_set_checks("");
}

/* ------------------------------------------------------------------ a part of the processes */

static mf_value ones(int rows) { return mf_ones(MF_SHAPE(rows), MF_F32); }
static mf_value map_over(mf_device_list devices, int rows) { return mf_call(mf_pmap(plus_sum, "i", .devices = devices), ones(rows)); }

/* Devices 0 to 5 belong to three processes. Some maps involve only two of them, while the third one makes other calls. */
static mf_value by_parts(const spread_here *h)
{
    mf_value first = h->rank < 2 ? map_over(SOME(0, 1, 2, 3), 2) : map_over(SOME(4, 5), 2);
    mf_value second = h->rank > 0 ? map_over(SOME(5, 2, 4), h->rank) : mf_none();
    mf_value third = map_over((mf_device_list){ 0 }, 2);
    mf_value fourth = h->rank == 1 ? mf_none() : map_over(SOME(0, 4), 1);
    return mf_tuple(first, second, third, fourth, map_over((mf_device_list){ 0 }, 2));
}

TEST(maps_over_a_part_of_the_processes)
{
    static const char *const expected[] = { "([5. 5.], None, [7. 7.], [3.], [7. 7.])", "([5. 5.], [4.], [7. 7.], None, [7. 7.])",
                                            "([3. 3.], [4. 4.], [7. 7.], [3.], [7. 7.])" };
    static spread_texts words;
    spread_print(by_parts, NULL, 6, "001122", &words);
    for (int p = 0; p < 3; p++)
        CHECK_STR(words.of[p], expected[p]);
}

/* A map over devices of other processes only is an error, but none of them waits for this process: the numbers of the calls still agree. */
static mf_value not_ours(const spread_here *h)
{
    mf_value first = map_over(SOME(0, 1), h->rank ? 0 : 2), second = map_over(SOME(0, 1), 2);
    const char *said = mf_error(second);
    mf_value none = h->rank ? mf_i(said && strstr(said, "none of the map's 2 devices")) : second;
    mf_error(first);
    return mf_tuple(none, map_over(SOME(0, 1, 2, 3), 2), map_over((mf_device_list){ 0 }, 2));
}

TEST(maps_in_which_a_process_takes_no_part)
{
    static spread_texts words;
    spread_print(not_ours, NULL, 4, "0011", &words);
    CHECK_STR(words.of[0], "([3. 3.], [5. 5.], [5. 5.])");
    CHECK_STR(words.of[1], "(1, [5. 5.], [5. 5.])");
}

/* ------------------------------------------------------------------ something fails in process 1 */

static mf_value fails_at_home(void *rank, mf_value x)
{
    mf_value s = mf_psum(x, "i");
    return *(int *)rank ? mf_make_error(MF_ERROR_ARGUMENT, "no luck today") : s;
}
static mf_value fails_later(void *rank, mf_value x)
{
    mf_value s = mf_call(mf_pmap(sum, "i"), x);
    return *(int *)rank ? mf_make_error(MF_ERROR_ARGUMENT, "no luck today") : s;
}
static mf_value extremum(mf_value x) { return mf_pmax(x, "i"); }
static mf_value draw_by(void *random, mf_value x)
{
    return mf_mul(mf_random_normal(mf_random_next(*(mf_state *)random), MF_SHAPE0, MF_F32), mf_psum(x, "i"));
}

static mf_value bad_value(const spread_here *h) { return h->rank ? mf_make_error(MF_ERROR_IO, "the file is gone") : own(h); }

static mf_value other_rows(const spread_here *h) { return mf_call(mf_pmap(sum, "i"), mf_get(own(h), mf_range(0, h->rank ? 2 : 4))); }
static mf_value bad_argument(const spread_here *h) { return mf_call(mf_pmap(sum, "i"), bad_value(h)); }
static mf_value bad_argument_of_jit(const spread_here *h) { return mf_call(mf_jit(mf_pmap(sum, "i")), bad_value(h)); }
static mf_value bad_type(const spread_here *h)
{
    return mf_call(mf_compile(mf_pmap(sum, "i"), own(h)), h->rank ? mf_astype(own(h), MF_I32) : own(h));
}
static mf_value bad_body(const spread_here *h) { return mf_call(mf_pmap(mf_closure(fails_at_home, &h->rank), "i"), own(h)); }
static mf_value bad_caller(const spread_here *h) { return mf_call(mf_jit(mf_closure(fails_later, &h->rank)), own(h)); }
static mf_value donated_twice(const spread_here *h)
{
    mf_value x = own(h);
    mf_function f = mf_pmap(sum, "i", .donate_argnums = MF_INTS(0));
    mf_value first = mf_call(f, x), second = mf_call(f, h->rank ? x : own(h));
    return mf_is_error(first) ? first : second;
}
static mf_value bad_state(const spread_here *h)
{
    mf_state s = mf_random_state(1);
    mf_function f = mf_pmap2(mf_closure(draw_by, &s), "i", .in_axes = 0);
    mf_value first = mf_call(f, own(h));
    return mf_is_error(first) ? first : mf_call(f, h->rank ? mf_get(own(h), mf_range(0, 1)) : own(h));
}
static mf_value pending_failure(const spread_here *h)
{
    mf_value x = mf_call(mf_pmap(itself, .devices = mf_local_devices()), own(h));
    x = h->rank ? mf_check_replicated(mf_mul(x, mf_arange(4, MF_F32)), NULL) : x;
    return mf_call(mf_pmap(sum, "i"), x);
}
/* A callback fails on a device of process 1. */
static mf_value refuse(mf_value x) { return mf_item_f64(x) == 6 ? mf_make_error(MF_ERROR_IO, "six is refused") : mf_mul(x, 2); }
static mf_value asks_host(mf_value x) { return mf_psum(mf_pure_callback(refuse, mf_struct(MF_SHAPE0, MF_F32), x), "i"); }
static mf_value bad_callback(const spread_here *h) { return mf_call(mf_pmap(asks_host, "i"), own(h)); }
static mf_value no_sum(mf_value x) { return mf_add(mf_neg(x), mf_axis_index("i")); }
static mf_value forgotten(const spread_here *h) { return mf_call(h->rank ? mf_pmap(no_sum, "i") : mf_pmap(sum, "i"), own(h)); }
static mf_value other_function(const spread_here *h) { return mf_call(h->rank ? mf_pmap(extremum, "i") : mf_pmap(sum, "i"), own(h)); }

/* Only process 1 lists the devices in another order: reversed, not at a constant stride, or with the devices of one
 * process permuted. */
static mf_value gathered(mf_value x) { return mf_tuple(mf_all_gather(x, 0, "i"), mf_psum(x, "i")); }
static mf_value over(const spread_here *h, mf_device_list devices)
{
    return mf_call(mf_pmap(gathered, "i", .devices = devices), mf_get(own(h), mf_range(0, devices.count / 2)));
}
static mf_value reversed_there(const spread_here *h) { return over(h, h->rank ? SOME(5, 4, 1, 0) : SOME(0, 1, 4, 5)); }
static mf_value crossed_there(const spread_here *h) { return over(h, h->rank ? SOME(5, 1, 4, 0) : SOME(0, 1, 4, 5)); }
static mf_value turned_there(const spread_here *h) { return over(h, h->rank ? SOME(1, 0, 2, 5, 4, 6) : SOME(0, 1, 2, 5, 4, 6)); }

static const struct {
    const char *name;
    spread_program run;
    const char *words[2];
} failures[] = {
    { "other rows", other_rows, { "peer: process 1: Leading axis size", "Got axis_size=2, num_local_devices=4 (process 1 of 2" } },
    { "an error as argument", bad_argument, { "peer: process 1: the file is gone", "the file is gone" } },
    { "an error as argument of jit", bad_argument_of_jit, { "peer: process 1: the file is gone", "the file is gone" } },
    { "another type than compiled for", bad_type, { "peer: process 1: Argument types differ", "Argument types differ" } },
    { "the body fails", bad_body, { "peer: process 1: no luck today", "no luck today" } },
    { "the function around fails", bad_caller, { "peer: process 1: no luck today", "no luck today" } },
    { "a donated argument", donated_twice, { "peer: process 1: Array has been deleted", "Array has been deleted" } },
    { "rows beside a state", bad_state, { "peer: process 1: ", "Got axis_size=1" } },
    { "an operand that fails late", pending_failure, { "peer: process 1: check_replicated", "check_replicated" } },
    { "a callback", bad_callback, { "peer: process 1: ", "six is refused" } },
    { "a forgotten collective", forgotten, { "peer: process 1 ended its call 0 without this collective", "[0. 0. 0. 0.]" } },
    { "devices reversed there", reversed_there, { "computes something else here", "computes something else here" } },
    { "devices crossed there", crossed_there, { "computes something else here", "computes something else here" } },
    { "devices turned there", turned_there, { "computes something else here", "computes something else here" } },
    { "another function", other_function, { "computes something else here", "computes something else here" } },
};

/* The result of the call that fails, and then of a correct call: the processes are still in step. */
static char messages[2][1024];
static mf_value then_a_good_call(const spread_here *h)
{
    mf_value failed = failures[*(const int *)h->context].run(h);
    mf_block_until_ready(failed);
    snprintf(messages[h->rank], sizeof *messages, "%s%s", mf_error_status(failed) == MF_ERROR_PEER ? "peer: " : "",
             mf_is_error(failed) ? mf_error(failed) : mf_str(failed));
    return mf_call(mf_pmap(plus_sum, "i"), own(h));
}

TEST(what_fails_in_one_process_is_an_error_in_the_others)
{
    for (int i = 0; i < (int)(sizeof failures / sizeof *failures); i++) {
        static spread_texts words;
        spread_print(then_a_good_call, &i, 8, "00001111", &words);
        bool good = CHECK_STR(words.of[0], "[28. 29. 30. 31.]") && CHECK_STR(words.of[1], "[32. 33. 34. 35.]");
        for (int p = 0; p < 2; p++)
            good &= CHECK_CONTAINS(messages[p], failures[i].words[p]);
        if (!good)
            CHECK_NOTE("case %s", failures[i].name);
    }
}

/* A call that fails because of another process also leaves the states unchanged. */
static mf_value count_up(void *state, mf_value x)
{
    mf_state s = *(mf_state *)state;
    return mf_state_set_value(s, mf_add(mf_state_value(s), mf_psum(mf_sum(x), "i")));
}
static mf_value counted(const spread_here *h)
{
    mf_state s = mf_hidden_state(mf_arange(3, MF_F32));
    mf_function f = mf_pmap2(mf_closure(count_up, &s), "i", .in_axes = 0, .out_axes = MF_NONE);
    mf_value good = mf_call(f, own(h)), bad = mf_call(f, h->rank ? mf_get(own(h), mf_range(0, 1)) : own(h));
    mf_block_until_ready(bad);
    snprintf(messages[h->rank], sizeof *messages, "%s", mf_is_error(bad) ? mf_error(bad) : mf_str(bad));
    mf_value kept = mf_copy(mf_state_value(s));
    return mf_tuple(good, kept, mf_call(f, own(h)));
}

TEST(states_are_as_before_a_call_that_fails_elsewhere)
{
    static spread_texts words;
    spread_print(counted, NULL, 8, "00001111", &words);
    for (int p = 0; p < 2; p++)
        CHECK_STR(words.of[p], "([28. 29. 30.], [28. 29. 30.], [56. 57. 58.])");
    CHECK_CONTAINS(messages[0], "process 1: Leading axis size");
    CHECK_CONTAINS(messages[1], "Leading axis size");
}

/* ------------------------------------------------------------------ each process passes a value of its own */

static mf_value body_of_all(mf_value w)
{
    mf_value groups = mf_list(mf_list(0, 4), mf_list(1, 5), mf_list(2, 6), mf_list(3, 7));
    return mf_tuple(mf_psum(w, "i"), mf_pmean(w, "i"), mf_pmax(w, "i"), mf_pmin(w, "i"), mf_all_gather(w, 0, "i"), next(w),
                    mf_psum(w, "i", .axis_index_groups = groups), mf_pargmax(w, "i"), mf_pbroadcast(w, "i", 6),
                    mf_psum_scatter(mf_mul(mf_arange(8, MF_F32), w), 0, "i"), mf_all_to_all(mf_mul(mf_arange(8, MF_F32), w), 0, 0, "i"));
}
static mf_value as_rows(void *w, mf_value x) { return body_of_all(mf_add(*(mf_value *)w, mf_mul(x, 0))); }

/* All devices of a process have the value that this process passes unmapped, or that its function captures, as if it had been mapped. */
static mf_value own_everywhere(const spread_here *h)
{
    mf_value w = mf_scalar(10.0 + h->rank, MF_F32), x = mf_mul(own(h), 0);
    mf_value mapped = mf_call(mf_pmap(body_of_all, "i"), mf_add(x, w)), plain = mf_call(mf_pmap(body_of_all, "i", .in_axes = MF_NONE), w),
             captured = mf_call(mf_pmap(mf_closure(as_rows, &w), "i"), x);
    mf_value leaves = mf_tree_leaves(mf_tuple(mapped, plain, captured)), equal[64];
    int n = mf_len(mf_tree_leaves(mapped));
    for (int i = 0; i < 2 * n; i++)
        equal[i] = mf_array_equal(mf_get(leaves, i % n), mf_get(leaves, n + i));
    return mf_all(mf_stack(mf_list_n(equal, 2 * n), 0));
}

static mf_value replicated_own(mf_value w) { return mf_check_replicated(w, "i"); }
static mf_value check_of_own(const spread_here *h)
{
    return mf_call(mf_pmap(replicated_own, "i", .in_axes = MF_NONE), 10.0f + (float)h->rank);
}

TEST(what_a_process_has_of_its_own)
{
    static spread_texts words;
    spread_print(own_everywhere, NULL, 8, "00001111", &words);
    for (int p = 0; p < 2; p++)
        CHECK_STR(words.of[p], "True");
    spread_print(check_of_own, NULL, 8, "00001111", &words);
    for (int p = 0; p < 2; p++)
        CHECK_CONTAINS(words.of[p], "devices 4, 5, 6, 7 hold other bits than device 0");
}

/* ------------------------------------------------------------------ devices of other processes */

static mf_value put_elsewhere(const spread_here *h) { return mf_device_put(own(h), mf_devices().at[7 - 4 * h->rank]); }
static mf_value place_elsewhere(const spread_here *h) { return mf_place(mf_add(mf_arange(8, MF_F32), h->rank), mf_devices()); }
static mf_value replicate_elsewhere(const spread_here *h) { return mf_replicate(own(h), mf_devices()); }
static mf_value shard_elsewhere(const spread_here *h)
{
    mf_value x = own(h);
    return mf_device_put_sharded(mf_list(x, x, x, x, x, x, x, x), mf_devices());
}

TEST(devices_of_other_processes)
{
    static const struct {
        const char *name;
        spread_program run;
    } cases[] = {
        { "put", put_elsewhere }, { "place", place_elsewhere }, { "replicate", replicate_elsewhere }, { "put sharded", shard_elsewhere }
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static spread_texts words;
        spread_print(cases[i].run, NULL, 8, "00001111", &words);
        for (int p = 0; p < 2; p++)
            if (!CHECK_CONTAINS(words.of[p], p ? "which process 0 has" : "which process 1 has"))
                CHECK_NOTE("case %s: process %d", cases[i].name, p);
    }
}

/* ------------------------------------------------------------------ a process fails while the others have borrowed from each other */

static mf_value rest_and_fail(mf_value x)
{
    (void)x;
    usleep(20000); /* so that the others have borrowed before */
    return mf_make_error(MF_ERROR_IO, "the disk is full");
}
static mf_value sum_of_nothing(mf_value x) { return mf_psum(mf_pure_callback(rest_and_fail, x, x), "i"); }
static mf_value one_fails(const spread_here *h)
{
    mf_value x = mf_ones(MF_SHAPE(h->row_count, 3000), MF_F32);
    return mf_call(mf_pmap(h->rank == 2 ? sum_of_nothing : sum, "i"), x);
}

TEST(an_error_while_others_hold_loans)
{
    static spread_texts words;
    spread_algorithm(1);                                  /* by reduce-scatter */
    spread_print(one_fails, NULL, 8, "00112233", &words); /* the job counts loans that are not returned */
    for (int p = 0; p < 4; p++)
        CHECK_CONTAINS(words.of[p], "the disk is full");
    spread_algorithm(0);
}

/* A process finds that a loan was withdrawn before it learns that the owner has failed. */
static mf_value wide_sum(const spread_here *h) { return mf_call(mf_pmap(sum, "i"), mf_ones(MF_SHAPE(h->row_count, 3000), MF_F32)); }

TEST(a_borrower_of_withdrawn_bytes_gets_the_reason)
{
    static spread_texts words;
    spread_algorithm(1);
    spread_fail_when_read(2);
    for (int i = 0; i < 20; i++) {
        spread_print(wide_sum, NULL, 8, "00112233", &words);
        for (int p = 0; p < 4; p++)
            CHECK_CONTAINS(words.of[p], "the disk is full");
    }
    spread_fail_when_read(-1);
    spread_algorithm(0);
}
