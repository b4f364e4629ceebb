/* Every example of jax.pmap's reference page in C, in the page's order; then its other parameters one by one, and the error message of
 * wrong uses. An error is a value: mf_error returns its message and marks it as handled, and the program continues. */
#include <manyfold.h>

#include <stdio.h>

static mf_value square(mf_value x) { return mf_pow(x, 2); }
static mf_value normalize(mf_value x) { return mf_div(x, mf_psum(x, "i")); }
static mf_value sum_of_squares(mf_value x) { return mf_psum(mf_pow(x, 2), "i"); }
static mf_value add_total(mf_value x) { return mf_add(x, mf_psum(x, "i")); }
static mf_value add_and_double(mf_value x, mf_value y) { return mf_tuple(mf_add(x, y), mf_mul(y, 2.0)); }
static mf_value multiply(mf_value x, mf_value y) { return mf_mul(x, y); }
static mf_value twice(mf_value x) { return mf_mul(x, 2); }
static mf_value add_keyword(mf_value x, mf_value kwargs) { return mf_add(x, mf_get(kwargs, "y")); }

static mf_value normalize_grid(mf_value x)
{
    mf_value row_normed = mf_div(x, mf_psum(x, "rows"));
    mf_value col_normed = mf_div(x, mf_psum(x, "cols"));
    mf_value doubly_normed = mf_div(x, mf_psum(x, "rows", "cols"));
    return mf_tuple(row_normed, col_normed, doubly_normed);
}

static void print_error(const char *what, mf_value v)
{
    const char *message = mf_error(v);
    printf("%s: %s\n", what, message ? message : "no error!");
}

/* ---- pure maps */

static void maps(void)
{
    mf_print(mf_call(mf_pmap(square), mf_arange(8)));

    /* Fewer rows than devices: the first devices are used. A library function can be mapped directly. */
    mf_value x = mf_reshape(mf_arange(12, MF_F32), MF_SHAPE(3, 2, 2));
    mf_value y = mf_pow(mf_reshape(mf_arange(12, MF_F32), MF_SHAPE(3, 2, 2)), 2);
    mf_print(mf_call(mf_pmap(mf_dot), x, y));

    /* More rows than devices. */
    print_error("error", mf_call(mf_pmap(square), mf_arange(9)));

    /* None in in_axes: the argument is broadcast, not mapped. */
    mf_print(mf_call(mf_pmap(add_and_double, .in_axes = mf_axes(0, MF_NONE)), mf_arange(2, MF_F32), 4.0));
}

/* ---- collectives */

static void collectives(void)
{
    mf_value out = mf_call(mf_pmap(normalize, "i"), mf_arange(4, MF_F32));
    mf_print(out);
    mf_print(mf_sum(out));

    mf_value row_normed, col_normed, doubly_normed;
    mf_function grid = mf_pmap(mf_pmap(normalize_grid, "cols"), "rows");
    mf_value x = mf_reshape(mf_arange(8, MF_F32), MF_SHAPE(4, 2));
    mf_unpack(mf_call(grid, x), &row_normed, &col_normed, &doubly_normed);
    mf_print(mf_sum(row_normed, .axis = 0));
    mf_print(mf_sum(col_normed, .axis = 1));
    mf_print(mf_sum(doubly_normed, .axis = mf_axes(0, 1)));

    /* The page runs this example on two processes with four devices each (distributed.c); here it runs in one process. */
    mf_print(mf_call(mf_pmap(add_total, "i"), mf_arange(8)));

    /* Two disjoint groups of devices: devices[:6] and devices[-2:]. */
    mf_function f1 = mf_pmap(normalize, "i", .devices = mf_device_slice(mf_devices(), 0, 6));
    mf_function f2 = mf_pmap(sum_of_squares, "i", .devices = mf_device_slice(mf_devices(), -2, MF_END));
    mf_print(mf_call(f1, mf_arange(6, MF_F32)));
    mf_print(mf_call(f2, mf_array(MF_F32, MF_SHAPE(2), 2, 3)));
}

/* ---- the parameters that the page's examples do not use */

static void parameters(void)
{
    mf_value eight = mf_arange(8, MF_F32);
    mf_print(mf_call(mf_pmap(add_keyword), eight, mf_kwargs("y", eight)));
    mf_print(mf_call(mf_pmap(multiply, .static_broadcasted_argnums = MF_INTS(1)), eight, 3));
    mf_print(mf_call(mf_pmap(twice, .in_axes = 1, .out_axes = 1), mf_reshape(eight, MF_SHAPE(2, 4))));
    mf_print(mf_call(mf_pmap(square, .axis_size = 8, .backend = "cpu", .donate_argnums = MF_INTS(0)), eight));
    print_error("donated", mf_add(eight, 1));
}

static void wrong_uses(void)
{
    mf_value eight = mf_arange(8, MF_F32);
    mf_device_list all = mf_devices();
    mf_device twice_the_same[] = { all.at[0], all.at[0] };
    mf_device_list repeated = { 2, twice_the_same };
    mf_function inner = mf_pmap(square);
    print_error("static", mf_call(mf_pmap(multiply, .static_broadcasted_argnums = MF_INTS(1)), eight));
    print_error("devices", mf_call(mf_pmap(square, .devices = all), mf_arange(1, MF_F32)));
    print_error("repeated", mf_call(mf_pmap(square, .devices = repeated), mf_arange(2, MF_F32)));
    print_error("nested", mf_call(mf_pmap(inner), mf_zeros(MF_SHAPE(4, 4))));
    print_error("out_axes", mf_call(mf_pmap(square, .out_axes = MF_NONE), eight));
}

int main(void)
{
    mf_set_num_cpu_devices(8);
    maps();
    collectives();
    parameters();
    wrong_uses();
    return mf_exit_status();
}
