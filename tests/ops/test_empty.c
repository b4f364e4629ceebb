/* Arrays without elements, and maps without rows. What is expected is what jax 0.10.2 gives for the expression in the row, as
 *     jax.tree.map(lambda a: (a.shape, a.tolist()), eval(row)) */
#include <manyfold.h>

#include "check.h"

static mf_value empty(void) { return mf_zeros(MF_SHAPE(0), MF_F32); }
static mf_value wide(void) { return mf_zeros(MF_SHAPE(3, 0), MF_F32); }
static mf_value rows(void) { return mf_zeros(MF_SHAPE(0, 3), MF_F32); }

static void check_shape(mf_value x, mf_shape expected, const char *jax)
{
    mf_shape s = mf_shape_of(x);
    bool same = s.rank == expected.rank;
    for (int i = 0; same && i < s.rank; i++)
        same = s.dims[i] == expected.dims[i];
    if (!CHECK(same))
        CHECK_NOTE("%s: %s", jax, mf_error(x) ? mf_error(x) : mf_str(x));
}

TEST(softmax_of_nothing_is_nothing)
{
    MF_SCOPE;
    check_shape(mf_softmax(wide()), MF_SHAPE(3, 0), "jax.nn.softmax(jnp.zeros((3, 0)))");
    check_shape(mf_log_softmax(wide()), MF_SHAPE(3, 0), "jax.nn.log_softmax(jnp.zeros((3, 0)))");
    check_shape(mf_softmax(rows(), 0), MF_SHAPE(0, 3), "jax.nn.softmax(jnp.zeros((0, 3)), axis=0)");
    CHECK_STR(mf_str(mf_logsumexp(wide(), 1)), "[-inf -inf -inf]"); /* jax.nn.logsumexp(jnp.zeros((3, 0)), axis=1) */
    CHECK_STR(mf_str(mf_logsumexp(empty())), "-inf");
    check_shape(mf_logsumexp(rows(), 1), MF_SHAPE(0), "jax.nn.logsumexp(jnp.zeros((0, 3)), axis=1)");
    check_shape(mf_cumlogsumexp(wide(), 1), MF_SHAPE(3, 0), "lax.cumlogsumexp(jnp.zeros((3, 0)), axis=1)");
}

/* ---- maps */
static mf_value plus_one(mf_value x) { return mf_add(x, 1); }
static mf_value dot_ones(mf_value x) { return mf_dot(x, mf_ones(MF_SHAPE(3, 2), MF_F32)); }
static mf_value greatest(mf_value x) { return mf_max(x); }
static mf_value place_of_greatest(mf_value x) { return mf_argmax(x); }
static mf_value sorted(mf_value x) { return mf_sort(x); }
static mf_value sum_of_squares(mf_value x) { return mf_sum(mf_square(x)); }
static mf_value below_3(mf_value x) { return mf_less(x, 3); }
static mf_value climbed(mf_value x) { return mf_while(below_3, plus_one, x); }
static mf_value same(mf_value x) { return x; }
static mf_value chosen(mf_value x) { return mf_cond(mf_greater(x, 0), plus_one, same, x); }
static mf_value push(mf_value c, mf_value x) { return mf_tuple(mf_add(c, x), c); }
static mf_value scanned(mf_value x) { return mf_get(mf_scan(push, x, mf_arange(3, MF_F32)), 1); }
static mf_value drawn(mf_value key) { return mf_random_normal(key, MF_SHAPE(3), MF_F32); }
static mf_value inverse(mf_value x) { return mf_inv(x); }
static mf_value summed(mf_value x) { return mf_psum(x, "i"); }
static mf_value most(mf_value x) { return mf_pmax(x, "i"); }
static mf_value averaged(mf_value x) { return mf_pmean(x, "i"); }
static mf_value gathered(mf_value x) { return mf_all_gather(x, 0, "i"); }
static mf_value place(mf_value x) { return mf_add(mf_mul(mf_astype(x, MF_I32), 0), mf_axis_index("i")); }

TEST(a_vmap_of_no_rows_gives_no_rows)
{
    MF_SCOPE;
    check_shape(mf_call(mf_vmap(plus_one), empty()), MF_SHAPE(0), "jax.vmap(lambda x: x + 1)(empty)");
    check_shape(mf_call(mf_jit(mf_vmap(plus_one)), empty()), MF_SHAPE(0), "jax.jit(jax.vmap(lambda x: x + 1))(empty)");
    check_shape(mf_call(mf_vmap(mf_vmap(plus_one)), rows()), MF_SHAPE(0, 3), "jax.vmap(jax.vmap(lambda x: x + 1))(rows)");
    check_shape(mf_call(mf_vmap(mf_vmap(plus_one)), wide()), MF_SHAPE(3, 0), "jax.vmap(jax.vmap(lambda x: x + 1))(wide)");
    check_shape(mf_call(mf_vmap(dot_ones), rows()), MF_SHAPE(0, 2), "jax.vmap(lambda x: x @ jnp.ones((3, 2)))(rows)");
    check_shape(mf_call(mf_vmap(greatest), rows()), MF_SHAPE(0), "jax.vmap(jnp.max)(rows)");
    check_shape(mf_call(mf_vmap(place_of_greatest), rows()), MF_SHAPE(0), "jax.vmap(jnp.argmax)(rows)");
    check_shape(mf_call(mf_vmap(sorted), rows()), MF_SHAPE(0, 3), "jax.vmap(jnp.sort)(rows)");
    check_shape(mf_call(mf_vmap(mf_grad(sum_of_squares)), rows()), MF_SHAPE(0, 3), "jax.vmap(jax.grad(lambda x: (x**2).sum()))(rows)");
    check_shape(mf_call(mf_vmap(inverse), mf_zeros(MF_SHAPE(0, 3, 3), MF_F32)), MF_SHAPE(0, 3, 3), "jax.vmap(jnp.linalg.inv)(...)");
    check_shape(mf_call(mf_vmap(drawn), mf_zeros(MF_SHAPE(0, 2), MF_U32)), MF_SHAPE(0, 3),
                "jax.vmap(lambda k: jax.random.normal(k, (3,)))(...)");
    check_shape(mf_map(mf_fn(plus_one), empty()), MF_SHAPE(0), "lax.map(lambda x: x + 1, empty)");
}

TEST(control_flow_in_a_vmap_of_no_rows)
{
    MF_SCOPE;
    check_shape(mf_call(mf_vmap(climbed), empty()), MF_SHAPE(0), "jax.vmap(lambda x: lax.while_loop(...))(empty)");
    check_shape(mf_call(mf_vmap(chosen), empty()), MF_SHAPE(0), "jax.vmap(lambda x: lax.cond(x > 0, ...))(empty)");
    check_shape(mf_call(mf_vmap(scanned), empty()), MF_SHAPE(0, 3), "jax.vmap(lambda x: lax.scan(...)[1])(empty)");
}

TEST(collectives_in_a_vmap_of_no_rows)
{
    MF_SCOPE;
    check_shape(mf_call(mf_vmap(summed, "i"), empty()), MF_SHAPE(0), "jax.vmap(lambda x: lax.psum(x, 'i'), axis_name='i')(empty)");
    check_shape(mf_call(mf_vmap(most, "i"), empty()), MF_SHAPE(0), "jax.vmap(lambda x: lax.pmax(x, 'i'), axis_name='i')(empty)");
    check_shape(mf_call(mf_vmap(averaged, "i"), empty()), MF_SHAPE(0), "jax.vmap(lambda x: lax.pmean(x, 'i'), axis_name='i')(empty)");
    check_shape(mf_call(mf_vmap(gathered, "i"), empty()), MF_SHAPE(0, 0),
                "jax.vmap(lambda x: lax.all_gather(x, 'i'), axis_name='i')(empty)");
    check_shape(mf_call(mf_vmap(place, "i"), empty()), MF_SHAPE(0), "jax.vmap(lambda x: lax.axis_index('i'), axis_name='i')(empty)");
}

/* ---- Jacobians */
static mf_value total(mf_value x) { return mf_sum(x); }
static mf_value none_of(mf_value x) { return mf_slice_in_dim(x, 0, 0, 1, 0); }
static mf_value of_dict(mf_value d) { return mf_add(mf_sum(mf_get(d, "a")), mf_mul(mf_get(d, "b"), 2)); }
static mf_value squares_of_dict(mf_value d) { return mf_add(mf_sum(mf_get(d, "a")), mf_sum(mf_square(mf_get(d, "b")))); }

TEST(jacobians_by_nothing_and_of_nothing)
{
    MF_SCOPE;
    mf_value three = mf_ones(MF_SHAPE(3), MF_F32);
    check_shape(mf_call(mf_jacfwd(plus_one), empty()), MF_SHAPE(0, 0), "jax.jacfwd(lambda x: x + 1)(empty)");
    check_shape(mf_call(mf_jacrev(plus_one), empty()), MF_SHAPE(0, 0), "jax.jacrev(lambda x: x + 1)(empty)");
    check_shape(mf_call(mf_jacfwd(total), empty()), MF_SHAPE(0), "jax.jacfwd(jnp.sum)(empty)");
    check_shape(mf_call(mf_jacrev(total), empty()), MF_SHAPE(0), "jax.jacrev(jnp.sum)(empty)");
    check_shape(mf_call(mf_hessian(total), empty()), MF_SHAPE(0, 0), "jax.hessian(jnp.sum)(empty)");
    check_shape(mf_call(mf_jacfwd(none_of), three), MF_SHAPE(0, 3), "jax.jacfwd(lambda x: x[:0])(jnp.ones(3))");
    check_shape(mf_call(mf_jacrev(none_of), three), MF_SHAPE(0, 3), "jax.jacrev(lambda x: x[:0])(jnp.ones(3))");
}

TEST(jacobians_by_a_dict_with_an_empty_leaf)
{
    MF_SCOPE;
    mf_value d = mf_dict("a", empty(), "b", mf_ones(MF_SHAPE(2), MF_F32));
    mf_value by[] = { mf_call(mf_jacfwd(of_dict), d), mf_call(mf_jacrev(of_dict), d) };
    for (int i = 0; i < 2; i++) {
        check_shape(mf_get(by[i], "a"), MF_SHAPE(2, 0), "jax.jacfwd(lambda d: d['a'].sum() + d['b'] * 2)(d)['a']");
        CHECK_STR(mf_str(mf_get(by[i], "b")), "[[2. 0.]\n [0. 2.]]");
    }
    mf_value h = mf_call(mf_hessian(squares_of_dict), d); /* jax.hessian(lambda d: d['a'].sum() + (d['b']**2).sum())(d) */
    check_shape(mf_get(mf_get(h, "a"), "a"), MF_SHAPE(0, 0), "['a']['a']");
    check_shape(mf_get(mf_get(h, "a"), "b"), MF_SHAPE(0, 2), "['a']['b']");
    check_shape(mf_get(mf_get(h, "b"), "a"), MF_SHAPE(2, 0), "['b']['a']");
    CHECK_STR(mf_str(mf_get(mf_get(h, "b"), "b")), "[[2. 0.]\n [0. 2.]]");
}
