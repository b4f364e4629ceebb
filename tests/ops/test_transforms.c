/* Jacobians, linear maps, maps and scans along an axis, and None as a cotangent: the programs of tests/oracle/transforms.py against JAX's
 * answers, alone and in jit, vmap, pmap and grad; and their errors. */
#include "check.h"
#include "ops/oracle.h"

/* ---- what is transformed */

static mf_value mixed(mf_value x, mf_value w) { return mf_mul(mf_tanh(mf_dot(w, x)), mf_get(x, 0)); }

static mf_value of_tree(mf_value p)
{
    mf_value x = mf_get(p, "x");
    return mf_dict("m", mixed(x, mf_get(p, "w")), "s", mf_sum(mf_integer_pow(x, 3)));
}

static mf_value energy(mf_value p) { return mf_sum(mf_square(mixed(mf_get(p, "x"), mf_get(p, "w")))); }
static mf_value energy_of_two(mf_value x, mf_value w) { return energy(mf_dict("x", x, "w", w)); }
static mf_value with_aux(mf_value x, mf_value w) { return mf_tuple(mixed(x, w), mf_sum(x)); }
static mf_value holomorphic(mf_value z) { return mf_mul(mf_sin(z), mf_get(z, 0)); }

static mf_value affine(mf_value a, mf_value b)
{
    mf_value scale = mf_get(b, 0);
    return mf_tuple(mf_mul(mf_get(a, 0), scale), mf_add(mf_mul(mf_get(a, 1), scale), mf_get(b, 1)));
}

static mf_value product(mf_value x, mf_value w) { return mf_dot(w, x); }
static mf_value product_forward(mf_value x, mf_value w) { return mf_tuple(mf_dot(w, x), w); }
static mf_value product_backward(mf_value w, mf_value ct) { return mf_tuple(mf_dot(mf_mul(ct, 2), w), mf_none()); }
static mf_value half_known(mf_value x, mf_value w)
{
    return mf_sum(mf_square(mf_call(mf_custom_vjp(product, product_forward, product_backward), x, w)));
}

static mf_value tree_product(mf_value p) { return mf_dot(mf_get(p, "w"), mf_get(p, "x")); }
static mf_value tree_forward(mf_value p) { return mf_tuple(tree_product(p), p); }
static mf_value tree_backward(mf_value p, mf_value ct)
{
    return mf_tuple(mf_dict("w", mf_none(), "x", mf_dot(mf_mul(ct, 3), mf_get(p, "w"))));
}
static mf_value half_of_tree(mf_value p) { return mf_sum(mf_square(mf_call(mf_custom_vjp(tree_product, tree_forward, tree_backward), p))); }

/* ---- the programs */

static mf_value both(mf_value x, mf_value w) { return mf_dict("x", x, "w", w); }

static mf_value jacfwd(mf_value x, mf_value w) { return mf_call(mf_jacfwd(mixed), x, w); }
static mf_value jacrev(mf_value x, mf_value w) { return mf_call(mf_jacrev(mixed), x, w); }
static mf_value jacfwd_both(mf_value x, mf_value w) { return mf_call(mf_jacfwd(mixed, MF_INTS(0, 1)), x, w); }
static mf_value jacrev_both(mf_value x, mf_value w) { return mf_call(mf_jacrev(mixed, MF_INTS(-1, 0)), x, w); }
static mf_value jacfwd_tree(mf_value x, mf_value w) { return mf_call(mf_jacfwd(of_tree), both(x, w)); }
static mf_value jacrev_tree(mf_value x, mf_value w) { return mf_call(mf_jacrev(of_tree), both(x, w)); }
static mf_value jacfwd_aux(mf_value x, mf_value w) { return mf_call(mf_jacfwd(with_aux, .has_aux = true), x, w); }
static mf_value jacrev_aux(mf_value x, mf_value w) { return mf_call(mf_jacrev(with_aux, MF_INTS(1), .has_aux = true), x, w); }
static mf_value complexes(mf_value x, mf_value w) { return mf_complex(x, mf_get(w, 0)); }
static mf_value jacfwd_complex(mf_value x, mf_value w)
{
    return mf_real(mf_call(mf_jacfwd(holomorphic, .holomorphic = true), complexes(x, w)));
}
static mf_value jacrev_complex(mf_value x, mf_value w)
{
    return mf_imag(mf_call(mf_jacrev(holomorphic, .holomorphic = true), complexes(x, w)));
}
static mf_value hessian(mf_value x, mf_value w) { return mf_call(mf_hessian(energy), both(x, w)); }
static mf_value hessian_both(mf_value x, mf_value w) { return mf_call(mf_hessian(energy_of_two, MF_INTS(0, 1)), x, w); }

static mf_value linearized(mf_value x, mf_value w)
{
    mf_function linear;
    mf_value out = mf_linearize(mixed, mf_tuple(x, w), &linear);
    return mf_tuple(out, mf_call(linear, mf_mul(x, 2), w));
}

/* y is last, x and w are bound: captured values in a transposed function. */
static mf_value linear_in_y(mf_value x, mf_value w, mf_value y) { return mf_mul(mf_dot(w, y), mf_get(x, 1)); }
static mf_value transposed(mf_value x, mf_value w)
{
    return mf_get(mf_call(mf_linear_transpose(mf_partial(linear_in_y, x, w), x), mf_cos(x)), 0);
}

static mf_value row_times(mf_value x, mf_value row) { return mf_mul(mf_sum(row), x); }
static mf_value mapped(mf_value x, mf_value w) { return mf_map(mf_partial(row_times, x), w); }
static mf_value two_of_row(mf_value x, mf_value row) { return mf_dict("a", row_times(x, mf_get(row, "a")), "b", mf_exp(mf_get(row, "b"))); }
static mf_value mapped_batches(mf_value x, mf_value w)
{
    return mf_map(mf_partial(two_of_row, x), mf_dict("a", w, "b", x), .batch_size = 2);
}

static mf_value elements(mf_value x, mf_value w, int n)
{
    mf_value line = mf_concatenate(mf_list(x, mf_ravel(w)), 0), again = mf_concatenate(mf_list(line, line, line), 0);
    mf_value a = mf_reshape(mf_slice_in_dim(again, 0, 2 * n, 1, 0), MF_SHAPE(n, 2));
    return mf_tuple(a, mf_sin(a));
}

static mf_value scan_1(mf_value x, mf_value w) { return mf_associative_scan(affine, elements(x, w, 1)); }
static mf_value scan_2(mf_value x, mf_value w) { return mf_associative_scan(affine, elements(x, w, 2)); }
static mf_value scan_3(mf_value x, mf_value w) { return mf_associative_scan(affine, elements(x, w, 3)); }
static mf_value scan_6(mf_value x, mf_value w) { return mf_associative_scan(affine, elements(x, w, 6)); }
static mf_value scan_13(mf_value x, mf_value w) { return mf_associative_scan(affine, elements(x, w, 13)); }
static mf_value scan_reverse(mf_value x, mf_value w) { return mf_associative_scan(affine, elements(x, w, 7), .reverse = true); }
static mf_value counts(void) { return mf_add(mf_arange(5, MF_F32), 1); }
static mf_value scan_axis(mf_value x, mf_value w)
{
    (void)w;
    return mf_associative_scan(mf_mul, mf_outer(x, counts()), .axis = -1);
}
static mf_value scan_matmul(mf_value x, mf_value w)
{
    (void)x;
    return mf_associative_scan(mf_matmul, mf_mul(w, mf_div(mf_reshape(counts(), MF_SHAPE(5, 1, 1)), 4)));
}
static mf_value custom_none(mf_value x, mf_value w) { return mf_call(mf_grad(half_known, MF_INTS(0, 1)), x, w); }
static mf_value custom_none_tree(mf_value x, mf_value w) { return mf_call(mf_grad(half_of_tree), both(x, w)); }

static const struct {
    const char *name;
    mf_fn2 call;
} programs[] = {
    { "jacfwd", jacfwd },
    { "jacrev", jacrev },
    { "jacfwd_both", jacfwd_both },
    { "jacrev_both", jacrev_both },
    { "jacfwd_tree", jacfwd_tree },
    { "jacrev_tree", jacrev_tree },
    { "jacfwd_aux", jacfwd_aux },
    { "jacrev_aux", jacrev_aux },
    { "jacfwd_complex", jacfwd_complex },
    { "jacrev_complex", jacrev_complex },
    { "hessian", hessian },
    { "hessian_both", hessian_both },
    { "linearize", linearized },
    { "linear_transpose", transposed },
    { "map", mapped },
    { "map_batches", mapped_batches },
    { "scan_1", scan_1 },
    { "scan_2", scan_2 },
    { "scan_3", scan_3 },
    { "scan_6", scan_6 },
    { "scan_13", scan_13 },
    { "scan_reverse", scan_reverse },
    { "scan_axis", scan_axis },
    { "scan_matmul", scan_matmul },
    { "custom_none", custom_none },
    { "custom_none_tree", custom_none_tree },
};

/* ---- the contexts */

static mf_value squares(mf_fn2 *program, mf_value x, mf_value w)
{
    mf_value leaves = mf_tree_leaves((*program)(x, w)), sum = mf_f(0);
    for (int i = 0; i < mf_len(leaves); i++)
        sum = mf_add(sum, mf_sum(mf_square(mf_get(leaves, i))));
    return sum;
}
static mf_value squares_of(void *program, mf_value x, mf_value w) { return squares(program, x, w); }

static mf_value in_context(const oracle_case *c, mf_fn2 f)
{
    mf_axis first = mf_axes(0, MF_NONE);
    if (oracle_is(c, "context", "jit"))
        return mf_call(mf_jit(f), c->in[0], c->in[1]);
    if (oracle_is(c, "context", "vmap"))
        return mf_call(mf_vmap(f, .in_axes = first), c->in[0], c->in[1]);
    if (oracle_is(c, "context", "pmap"))
        return mf_call(mf_pmap(f, .in_axes = first), c->in[0], c->in[1]);
    if (oracle_is(c, "context", "grad"))
        return mf_call(mf_grad(mf_closure(squares_of, &f)), c->in[0], c->in[1]);
    return f(c->in[0], c->in[1]);
}

static void check_program(const oracle_case *c)
{
    for (size_t p = 0; p < sizeof programs / sizeof *programs; p++)
        if (strcmp(programs[p].name, c->name) == 0) {
            mf_value out = in_context(c, programs[p].call), leaves = mf_is_error(out) ? out : mf_tree_leaves(out);
            CHECK(mf_is_error(out) || mf_len(leaves) == c->out_count);
            for (int i = 0; i < c->out_count; i++)
                if (!oracle_same(c, i, mf_is_error(out) ? out : mf_get(leaves, i), c->out[i], false))
                    CHECK_NOTE("in %s", oracle_text(c, "context"));
            return;
        }
    CHECK(!"a program of this name");
    CHECK_NOTE("%s", c->name);
}

TEST(known_answers)
{
    mf_set_num_cpu_devices(2);
    oracle_read("transforms.txt", check_program);
}

/* ---- errors and corners */

static mf_value triple(mf_value x) { return mf_mul(x, 3); }
static mf_value as_integers(mf_value x) { return mf_astype(x, MF_I32); }
static mf_value curved(mf_value x) { return mf_mul(x, mf_sin(x)); }
static mf_value grown(mf_value a, mf_value b) { return mf_concatenate(mf_list(a, b), 0); }
static mf_value short_backward(mf_value w, mf_value ct) { return (void)w, mf_tuple(ct, mf_none(), mf_none()); }

static mf_value cube_and_note(mf_value x, mf_value w) { return mf_tuple(mf_mul(mf_mul(x, x), mf_mul(x, w)), mf_tuple(mf_sin(x), mf_i(7))); }

TEST(linearize_beside_an_aux)
{
    mf_function linear;
    mf_value out = mf_linearize(cube_and_note, mf_tuple(2.0f, 3.0f), &linear, .has_aux = true);
    CHECK_NEAR(mf_item_f64(mf_get(out, 0)), 24, 0);
    CHECK_NEAR(mf_item_f64(mf_get(out, 1, 0)), 0.90929743, 1e-6);
    CHECK_EQ_INT(mf_item_i64(mf_get(out, 1, 1)), 7);
    CHECK_STR(mf_str(mf_call(linear, 1.0f, 0.0f)), "36.0"); /* of the result only */
    CHECK_STR(mf_str(mf_call(linear, 0.5f, 1.0f)), "26.0");
}

static mf_value tangent_of_product(mf_value x, mf_value w)
{
    return mf_jvp(mf_custom_vjp(product, product_forward, product_backward), mf_tuple(x, w), mf_tuple(x, w));
}
static mf_value jacobian_of_product(mf_value x, mf_value w)
{
    return mf_call(mf_jacfwd(mf_custom_vjp(product, product_forward, product_backward)), x, w);
}

/* A backward rule that was run as a tangent would give numbers. */
TEST(a_custom_vjp_has_no_tangents)
{
    mf_value x = mf_arange(3, MF_F32), w = mf_ones(MF_SHAPE(3), MF_F32);
    const char *words = "can't apply forward-mode differentiation (jvp) to a custom_vjp function";
    mf_fn2 calls[] = { tangent_of_product, jacobian_of_product };
    for (int i = 0; i < 2; i++) {
        CHECK_CONTAINS(mf_error(calls[i](x, w)), words);
        CHECK_CONTAINS(mf_error(mf_call(mf_jit(calls[i]), x, w)), words);
        CHECK_CONTAINS(mf_error(mf_call(mf_vmap(calls[i]), mf_stack(mf_list(x, x)), mf_stack(mf_list(w, w)))), words);
    }
}

static mf_value saved(mf_value x) { return mf_tuple(triple(x), mf_none()); }
static mf_value summed(mf_value none, mf_value cotangent) { return (void)none, mf_tuple(mf_sum(cotangent)); }

TEST(errors_say_what_is_wrong)
{
    mf_value x = mf_arange_step(0, 3, 1, MF_F32), n = mf_arange(3, MF_I32), high = mf_zeros(MF_SHAPE(1, 1, 1, 1, 1), MF_F32);
    mf_function f = mf_linear_transpose(curved, x), forgetful = mf_custom_vjp(product, product_forward, short_backward), linear;
    CHECK_CONTAINS(mf_error(mf_call(mf_jacfwd(triple), n)), "jacfwd requires real-valued arguments, but got int32");
    CHECK_CONTAINS(mf_error(mf_call(mf_jacrev(as_integers), x)), "jacrev requires real-valued results, but got int32");
    CHECK_CONTAINS(mf_error(mf_call(mf_jacfwd(triple, .holomorphic = true), x)), "requires complex arguments, but got float32");
    CHECK_CONTAINS(mf_error(mf_call(mf_jacfwd(triple, MF_INTS(2)), x)), "argnums names argument 2, but the call has 1");
    CHECK_CONTAINS(mf_error(mf_call(mf_jacrev(triple), high)), "more than 8 dimensions");
    CHECK_CONTAINS(mf_error(mf_call(mf_jacrev(triple, .has_aux = true), x)), "must return a tuple (result, aux)");
    CHECK(mf_error(mf_call(f, x)));
    CHECK_CONTAINS(mf_error(mf_call(mf_linear_transpose(triple, n), n)), "needs floating or complex arguments");
    CHECK_CONTAINS(mf_error(mf_linearize(triple, mf_tuple(x), &linear, .has_aux = true)), "linearize with has_aux: triple must return");
    mf_linearize(triple, mf_tuple(x), &linear);
    CHECK_CONTAINS(mf_error(mf_call(linear, n)), "tangent 0 is int32[3], the argument float32[3]");
    CHECK_CONTAINS(mf_error(mf_call(linear, x, x)), "the tangent's tree differs");
    CHECK_CONTAINS(mf_error(mf_linearize(triple, x, &linear)), "primals must be a tuple");
    CHECK_CONTAINS(mf_error(mf_map(triple, mf_f(3))), "one length along axis 0");
    CHECK_CONTAINS(mf_error(mf_map(triple, x, .batch_size = -1)), "negative");
    CHECK_CONTAINS(mf_error(mf_associative_scan(mf_add, x, .axis = 1)), "axis 1 is out of bounds");
    CHECK_CONTAINS(mf_error(mf_associative_scan(grown, x)), "structure and shapes");
    CHECK_CONTAINS(mf_error(mf_associative_scan(mf_add, mf_tuple(x, mf_arange(4, MF_F32)))), "one length along axis 0");
    mf_vjp(forgetful, mf_tuple(x, mf_eye(3, MF_F32)), &linear);
    CHECK_CONTAINS(mf_error(mf_call(linear, x)), "one cotangent an argument, in the arguments' trees: at the top: a tuple of 2");
    CHECK_CONTAINS(mf_error(mf_call(mf_jacrev(mf_custom_vjp(triple, saved, summed)), x)),
                   "backward rule summed returned cotangent 0 as float32[], but the argument is float32[3]");
}

static mf_value is_small(mf_value x) { return mf_less(x, 100); }
static mf_value doubled_while_small(mf_value x) { return mf_while(is_small, triple, x); }
static mf_value with_infinite_aux(mf_value x) { return mf_tuple(triple(x), mf_log(x)); }
static mf_value of_string(mf_value x, mf_value how) { return mf_error(how) ? how : mf_square(x); }

TEST(corners)
{
    mf_function linear, pullback;
    mf_value infinite = mf_vjp(with_infinite_aux, mf_tuple(mf_f(0)), &pullback, .has_aux = true);
    CHECK_STR(mf_str(infinite), "(0.0, -inf)");
    CHECK_STR(mf_str(mf_call(pullback, 1.0)), "(3.0,)");
    CHECK_NEAR(mf_item_f64(mf_linearize(doubled_while_small, mf_tuple(2.0), &linear)), 162, 0);
    CHECK_NEAR(mf_item_f64(mf_call(linear, 1.0)), 81, 0);
    CHECK_STR(mf_str(mf_call(mf_vmap(linear), mf_arange(3, MF_F32))), "[  0.  81. 162.]");
    CHECK_STR(mf_str(mf_call(mf_jacfwd(of_string), mf_f(3), "statics pass")), "6.0");
    CHECK_STR(mf_str(mf_map(triple, mf_zeros(MF_SHAPE(0, 2), MF_F32), .batch_size = 3)), "[]");
    CHECK_STR(mf_str(mf_map(triple, mf_arange(5, MF_F32), .batch_size = 2)), "[ 0.  3.  6.  9. 12.]");
    CHECK_STR(mf_str(mf_associative_scan(mf_add, mf_zeros(MF_SHAPE(0), MF_F32))), "[]");
    CHECK_STR(mf_str(mf_associative_scan(mf_maximum, mf_array(MF_F32, MF_SHAPE(3), -0.0, -1, -0.0))), "[-0. -0. -0.]");
    CHECK_STR(mf_str(mf_associative_scan(mf_logical_or, mf_array(MF_BOOL, MF_SHAPE(4), 0, 1, 0, 0))), "[False  True  True  True]");
}
