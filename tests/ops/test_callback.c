/* Calls from a running program to the host: mf_debug_print, mf_pure_callback, mf_io_callback, in every transform. */
#include "check_values.h"

#include <stdatomic.h>
#include <stdio.h>

__attribute__((constructor)) static void four_devices(void) { setenv("MF_NUM_CPU_DEVICES", "4", 1); }

/* ---- printing, captured */

static char printed[1 << 14];
static void keep_line(const char *line, void *context)
{
    (void)context;
    size_t at = strlen(printed);
    snprintf(printed + at, sizeof printed - at, "%s;", line);
}
static void listen(void)
{
    printed[0] = 0;
    mf_set_print_hook(keep_line, NULL);
}
/* Waits for v and returns what has been printed. */
static const char *heard(mf_value v)
{
    mf_block_until_ready(v);
    return printed;
}
static int lines(const char *line)
{
    int count = 0;
    for (const char *at = printed; (at = strstr(at, line)); at += strlen(line))
        count += at == printed || at[-1] == ';';
    return count;
}

static mf_value talkative(mf_value x)
{
    mf_debug_print("first {}", x);
    mf_value y = mf_mul(x, 2);
    mf_debug_print("then {y} and {}, {{braces}}", y, mf_dict("a", x, "b", mf_tuple(1, 2.5)));
    mf_debug_print("last");
    return mf_sum(y);
}

TEST(prints_in_order)
{
    listen();
    mf_value x = mf_arange(2, MF_F32);
    const char *all = "first [0. 1.];then [0. 2.] and {'a': [0. 1.], 'b': (1, 2.5)}, {braces};last;";
    TEXT(talkative(x), "2.0");
    CHECK_STR(printed, all);
    mf_function f = mf_jit(talkative);
    for (int i = 0; i < 3; i++) { /* also when the program comes from the cache */
        listen();
        CHECK_STR(heard(mf_call(f, x)), all);
    }
    listen();
    CHECK_STR(heard(mf_call(mf_jit(mf_grad(talkative)), x)), all);
    CHECK_CONTAINS(mf_program_text(talkative, x),
                   "debug_print[format=\"then {} and {{'a': {}, 'b': ({}, {})}}, {{braces}}\", batch=()] d a");
}

static mf_value says_device(mf_value x)
{
    mf_debug_print("a {}", mf_axis_index("i"));
    mf_value sum = mf_psum(x, "i");
    mf_debug_print("b {}", sum);
    mf_debug_print("c {}", mf_axis_index("i"));
    return sum;
}

TEST(prints_once_a_device_and_once_a_row)
{
    for (int way = 0; way < 4; way++) {
        listen();
        mf_value x = mf_arange(4, MF_F32);
        mf_function f = way < 2 ? mf_pmap(says_device, "i") : mf_vmap(says_device, "i");
        heard(mf_call(way % 2 ? mf_jit(f) : f, x));
        for (int d = 0; d < 4; d++) {
            char a[8], c[8];
            snprintf(a, sizeof a, "a %d;", d);
            snprintf(c, sizeof c, "c %d;", d);
            CHECK_EQ_INT(lines(a), 1);
            CHECK_EQ_INT(lines(c), 1);
            CHECK(strstr(printed, a) < strstr(printed, "b 6.0;"));
            CHECK(strstr(printed, c) > strstr(printed, "b 6.0;"));
        }
        CHECK_EQ_INT(lines("b 6.0;"), way < 2 ? 4 : 1); /* the sum is the same for all rows, so it is printed once */
    }
    listen();
    heard(mf_call(mf_vmap(mf_vmap(talkative)), mf_reshape(mf_arange(4, MF_F32), MF_SHAPE(2, 2, 1))));
    CHECK(strncmp(printed, "first [0.];first [1.];first [2.];first [3.];then [0.] and", 50) == 0);
}

static mf_value unused_print(mf_value x)
{
    mf_debug_print("here {}", 1);
    return x;
}
static mf_value prints_in_map(mf_value x) { return mf_call(mf_pmap(unused_print, .out_axes = 0), x); }

TEST(nothing_removes_a_print)
{
    listen();
    mf_value x = mf_arange(3, MF_F32);
    heard(mf_call(mf_jit(unused_print), x));
    CHECK_STR(printed, "here 1;");
    listen();
    heard(mf_call(mf_jit(prints_in_map), x));
    CHECK_STR(printed, "here 1;here 1;here 1;"); /* once on each device, although the value is the same */
}

static mf_value loop_body(mf_value carry, mf_value x)
{
    mf_debug_print("step {}", x);
    return mf_tuple(mf_add(carry, x), x);
}
static mf_value scanned(mf_value xs)
{
    mf_debug_print("before");
    mf_value r = mf_get(mf_scan(loop_body, 0.0f, xs), 0);
    mf_debug_print("after {}", r);
    return r;
}
static mf_value yes(mf_value x)
{
    mf_debug_print("yes {}", x);
    return x;
}
static mf_value no(mf_value x)
{
    mf_debug_print("no {}", x);
    return mf_neg(x);
}
static mf_value branching(mf_value x) { return mf_cond(mf_greater(x, 1.0), yes, no, x); }
static mf_value small(mf_value x) { return mf_less(x, 3.0); }
static mf_value count_up(mf_value x)
{
    mf_debug_print("at {}", x);
    return mf_add(x, 1.0);
}
static mf_value counting(mf_value x) { return mf_while(small, count_up, x); }
static mf_value unread_loop(mf_value xs)
{
    (void)mf_scan(loop_body, 0.0f, xs);
    return mf_f(1);
}

TEST(prints_inside_control_flow)
{
    mf_value xs = mf_arange(3, MF_F32);
    for (int i = 0; i < 2; i++) {
        listen();
        heard(i ? mf_call(mf_jit(scanned), xs) : scanned(xs));
        CHECK_STR(printed, "before;step 0.0;step 1.0;step 2.0;after 3.0;");
        listen();
        heard(i ? mf_call(mf_jit(branching), 2.0) : branching(mf_f(2)));
        CHECK_STR(printed, "yes 2.0;");
        listen();
        heard(i ? mf_call(mf_jit(counting), 1.0) : counting(mf_f(1)));
        CHECK_STR(printed, "at 1.0;at 2.0;");
    }
    listen();
    heard(mf_call(mf_jit(unread_loop), xs));
    CHECK_STR(printed, "step 0.0;step 1.0;step 2.0;");
    listen();
    heard(mf_call(mf_jit(mf_grad(scanned)), xs));
    CHECK_STR(printed, "before;step 0.0;step 1.0;step 2.0;after 3.0;");
    listen();
    heard(mf_call(mf_pmap(scanned), mf_ones(MF_SHAPE(4, 3), MF_F32)));
    CHECK_EQ_INT(lines("step 1.0;"), 12);
    CHECK_EQ_INT(lines("after 3.0;"), 4);
}

TEST(a_print_that_cannot_be)
{
    listen();
    CHECK_EQ_INT(mf_debug_print("{} {}", 1), MF_ERROR_ARGUMENT);
    CHECK_EQ_INT(mf_debug_print("{", 1), MF_ERROR_ARGUMENT);
    CHECK_EQ_INT(mf_debug_print(1), MF_ERROR_ARGUMENT);
    CHECK_EQ_INT(mf_exit_status(), 1);
    CHECK_STR(printed, "");
}

static mf_value print_two(mf_value a, mf_value b)
{
    mf_debug_print("{} {}", a, b);
    return mf_f(0);
}

TEST(a_print_under_more_maps_than_dimensions)
{
    listen();
    mf_value a = mf_ones(MF_SHAPE(1, 1, 1, 1, 1, 1, 1, 1), MF_F32), b = mf_ones(MF_SHAPE(1), MF_F32);
    mf_function f = mf_vmap(print_two, .in_axes = mf_axes(MF_NONE, 0), .out_axes = MF_NONE);
    for (int i = 0; i < 8; i++)
        f = mf_vmap(f, .in_axes = mf_axes(0, MF_NONE), .out_axes = MF_NONE);
    CHECK_CONTAINS(mf_error(mf_call(f, a, b)), "debug_print: more than 8 maps");
}

/* ---- callbacks */

static _Atomic int calls;
static mf_value host_double(mf_value x)
{
    atomic_fetch_add(&calls, 1);
    float data[64];
    int64_t n = mf_size(x);
    mf_to_host(x, MF_F32, data, (size_t)n);
    for (int i = 0; i < n; i++)
        data[i] *= 2;
    return mf_from_host(MF_F32, mf_shape_of(x), data);
}
static mf_value struct_like(mf_value x) { return mf_struct(mf_shape_of(x), mf_dtype_of(x)); }
static mf_value doubled(mf_value x) { return mf_add(mf_pure_callback(host_double, struct_like(x), x), 1); }
static mf_value doubled_io(mf_value x) { return mf_add(mf_io_callback(host_double, struct_like(x), x), 1); }

TEST(callbacks_under_every_transform)
{
    mf_value x = mf_arange(4, MF_F32), rows = mf_reshape(mf_arange(8, MF_F32), MF_SHAPE(4, 2));
    for (int io = 0; io < 2; io++) {
        mf_function f = mf_fn(io ? doubled_io : doubled);
        TEXT(mf_call(f, x), "[1. 3. 5. 7.]");
        TEXT(mf_call(mf_jit(f), x), "[1. 3. 5. 7.]");
        calls = 0;
        TEXT(mf_call(mf_vmap(f), rows), "[[ 1.  3.]\n [ 5.  7.]\n [ 9. 11.]\n [13. 15.]]");
        CHECK_EQ_INT(calls, 4);
        calls = 0;
        TEXT(mf_call(mf_pmap(f), rows), "[[ 1.  3.]\n [ 5.  7.]\n [ 9. 11.]\n [13. 15.]]");
        CHECK_EQ_INT(calls, 4);
        calls = 0;
        TEXT(mf_call(mf_pmap(mf_vmap(f)), rows), "[[ 1.  3.]\n [ 5.  7.]\n [ 9. 11.]\n [13. 15.]]");
        CHECK_EQ_INT(calls, 8);
        calls = 0;
        TEXT(mf_call(mf_vmap(mf_vmap(f), .in_axes = 1, .out_axes = 1), rows), "[[ 1.  3.]\n [ 5.  7.]\n [ 9. 11.]\n [13. 15.]]");
        CHECK_EQ_INT(calls, 8);
    }
}

static mf_value step_by_host(mf_value carry, mf_value x)
{
    mf_value next = mf_pure_callback(host_double, struct_like(carry), carry);
    return mf_tuple(mf_add(next, x), next);
}
static mf_value scan_by_host(mf_value xs) { return mf_scan(step_by_host, mf_scalar(1, MF_F32), xs); }
static mf_value either_by_host(mf_value x) { return mf_cond(mf_greater(mf_sum(x), 0.0), doubled, doubled_io, x); }
static mf_value below_100(mf_value x) { return mf_less(x, 100.0); }
static mf_value while_by_host(mf_value x) { return mf_while(below_100, doubled, x); }

TEST(callbacks_in_control_flow)
{
    mf_value xs = mf_arange(3, MF_F32);
    TEXT(mf_call(mf_jit(scan_by_host), xs), "(12.0, [ 2.  4. 10.])");
    TEXT(scan_by_host(xs), "(12.0, [ 2.  4. 10.])");
    TEXT(mf_call(mf_jit(either_by_host), xs), "[1. 3. 5.]");
    TEXT(mf_call(mf_jit(while_by_host), mf_scalar(1, MF_F32)), "127.0");
    TEXT(mf_get(mf_call(mf_pmap(scan_by_host), mf_broadcast_to(xs, MF_SHAPE(4, 3))), 0), "[12. 12. 12. 12.]");
}

/* Several arguments, trees as results, a closure, and calls of the library inside. */
static mf_value statistics(void *scale, mf_value x, mf_value pair)
{
    mf_value s = mf_mul(mf_sum(x), *(double *)scale);
    return mf_dict("sum", mf_astype(s, MF_F32), "shifted", mf_call(mf_jit(mf_fn(mf_add)), x, mf_get(pair, "by")));
}
static mf_value with_statistics(mf_value x)
{
    double scale = 10;
    mf_value said = mf_dict("sum", mf_struct((mf_shape){ 0 }, MF_F32), "shifted", struct_like(x));
    return mf_pure_callback(mf_closure(statistics, &scale), said, x, mf_dict("by", mf_scalar(3, MF_F32)));
}

static int order[16], ordered;
static mf_value note(mf_value i)
{
    order[ordered++] = (int)mf_item_i64(i);
    return mf_none();
}
static mf_value noting(mf_value x)
{
    (void)mf_io_callback(note, mf_none(), 1);
    mf_value y = mf_mul(x, 3);
    (void)mf_io_callback(note, mf_none(), mf_astype(mf_sum(y), MF_I32));
    (void)mf_io_callback(note, mf_none(), 2);
    (void)mf_pure_callback(note, mf_none(), 99); /* its result is unused */
    return x;
}

TEST(what_callbacks_take_and_give)
{
    mf_value x = mf_arange(3, MF_F32);
    TEXT(mf_call(mf_jit(with_statistics), x), "{'shifted': [3. 4. 5.], 'sum': 30.0}");
    TEXT(mf_call(mf_vmap(with_statistics), mf_stack(mf_list(x, x), 0)), "{'shifted': [[3. 4. 5.]\n [3. 4. 5.]], 'sum': [30. 30.]}");
    mf_function f = mf_jit(noting);
    for (int i = 0; i < 2; i++) {
        ordered = 0;
        mf_block_until_ready(mf_call(f, x));
        CHECK_EQ_INT(ordered, 3);
        CHECK_EQ_INT(order[0], 1);
        CHECK_EQ_INT(order[1], 9);
        CHECK_EQ_INT(order[2], 2);
    }
}

/* ---- derivatives and errors */

static mf_value host_square(mf_value x) { return mf_square(x); }
static mf_value by_host(mf_value x) { return mf_pure_callback(host_square, struct_like(x), x); }
static mf_value square_rule(mf_value primals, mf_value tangents)
{
    mf_value x = mf_get(primals, 0);
    return mf_tuple(by_host(x), mf_mul(mf_mul(2, x), mf_get(tangents, 0)));
}
static mf_value beside(mf_value x, mf_value y) { return mf_mul(x, by_host(y)); }

TEST(derivatives_by_custom_rules_alone)
{
    mf_value x = mf_scalar(3, MF_F32);
    FAILS(mf_call(mf_grad(by_host), x), "Pure callbacks do not support JVP");
    FAILS(mf_call(mf_grad(doubled_io), x), "IO callbacks do not support JVP");
    TEXT(mf_call(mf_grad(mf_custom_jvp(by_host, square_rule)), x), "6.0");
    TEXT(mf_call(mf_grad(beside), mf_scalar(2, MF_F32), x), "9.0"); /* it does not depend on x */
}

static mf_value fails(mf_value x)
{
    (void)x;
    return mf_make_error(MF_ERROR_IO, "the disk is full");
}
static mf_value wrong_shape(mf_value x) { return mf_sum(x); }
static mf_value wrong_dtype(mf_value x) { return mf_astype(x, MF_I32); }
static mf_value wrong_tree(mf_value x) { return mf_tuple(x, x); }
static mf_value nothing(mf_value x)
{
    (void)x;
    return (mf_value){ 0 };
}
static mf_value run_fails(mf_value x) { return mf_pure_callback(fails, struct_like(x), x); }
static mf_value run_fails_io(mf_value x)
{
    (void)mf_io_callback(fails, mf_none(), x);
    return x;
}
static mf_value run_wrong_shape(mf_value x) { return mf_pure_callback(wrong_shape, struct_like(x), x); }
static mf_value run_wrong_dtype(mf_value x) { return mf_pure_callback(wrong_dtype, struct_like(x), x); }
static mf_value run_wrong_tree(mf_value x) { return mf_pure_callback(wrong_tree, struct_like(x), x); }
static mf_value run_nothing(mf_value x) { return mf_pure_callback(nothing, struct_like(x), x); }
static mf_value run_unannounced(mf_value x) { return mf_pure_callback(nothing, mf_string("f32"), x); }

TEST(errors_become_the_calls)
{
    mf_value x = mf_arange(4, MF_F32), rows = mf_ones(MF_SHAPE(4, 2), MF_F32);
    for (int i = 0; i < 2; i++) {
        FAILS(i ? mf_call(mf_jit(run_fails), x) : run_fails(x), "the disk is full");
        FAILS(i ? mf_call(mf_jit(run_wrong_shape), x) : run_wrong_shape(x), "gave float32[] where float32[4] was announced");
        FAILS(i ? mf_call(mf_jit(run_wrong_dtype), x) : run_wrong_dtype(x), "gave int32[4] where float32[4] was announced");
        FAILS(i ? mf_call(mf_jit(run_wrong_tree), x) : run_wrong_tree(x), "not the tree that was announced");
        FAILS(i ? mf_call(mf_jit(run_nothing), x) : run_nothing(x), "returned an unset value");
        FAILS(i ? mf_call(mf_jit(run_unannounced), x) : run_unannounced(x), "neither a struct nor an array");
    }
    FAILS(mf_call(mf_jit(run_fails_io), x), "the disk is full");
    FAILS(mf_call(mf_pmap(run_fails), rows), "the disk is full");
    FAILS(mf_call(mf_pmap(run_fails_io), rows), "the disk is full");
    FAILS(mf_call(mf_vmap(run_fails), rows), "the disk is full");
}
