/* See small_programs.h. */
#include "small_programs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define X4 mf_arange(4, MF_F32)

/* ------------------------------------------------------------------ operations, one by one */

static mf_value eager(void)
{
    return mf_sum(mf_mul(mf_add(mf_reshape(mf_arange(6, MF_F32), MF_SHAPE(2, 3)), 1), mf_ones(MF_SHAPE(3), MF_F32)));
}

static mf_value shapes(void)
{
    mf_value x = mf_reshape(mf_arange(12, MF_F32), MF_SHAPE(3, 4)), parts = mf_split(x, 2, 1);
    mf_value y = mf_concatenate(mf_list(mf_get(parts, 1), mf_flip(mf_get(parts, 0), 0)), 1);
    y = mf_pad(mf_transpose(y, MF_INTS0), mf_f(0), MF_INTS(0, 1), MF_INTS(1, 0), MF_INTS0);
    return mf_sum(mf_get(mf_roll(y, 1, 0), mf_index_slice(mf_range(1, 4)), 2));
}

static mf_value indices(void)
{
    mf_value x = mf_mul(X4, 2), at = mf_array(MF_I32, MF_SHAPE(2), 1, 3);
    mf_value y = mf_index_add(mf_index_update(x, at, mf_take(x, at, 0)), at, mf_f(1));
    mf_value top = mf_get(mf_top_k(mf_dynamic_slice_in_dim(mf_sort_descending(y, 0), mf_i(1), 2, 0), 1, 0), 0);
    return mf_add(mf_sum(top), mf_sum(mf_argsort(y, 0)));
}

static mf_value algebra(void)
{
    mf_value a = mf_add(mf_matmul(mf_eye(3, MF_F32), mf_eye(3, MF_F32)), mf_eye(3, MF_F32)), b = mf_arange(3, MF_F32);
    return mf_add(mf_sum(mf_solve_spd(a, b)), mf_einsum("ij,j,k->", a, b, b));
}

static mf_value random_numbers(void)
{
    mf_value keys = mf_random_split(mf_random_key(0), 2), x = mf_random_normal(mf_get(keys, 0), MF_SHAPE(8), MF_F32);
    return mf_sum(mf_astype(mf_less(mf_maximum(x, mf_random_uniform(mf_get(keys, 1), MF_SHAPE(8), MF_F32)), 100), MF_F32));
}

static mf_value texts(void)
{
    const char *shown = mf_str(mf_dict("a", mf_add(X4, 1), "b", mf_tuple(mf_none(), mf_c(1, 2))));
    if (!shown || !strstr(shown, "[1. 2. 3. 4.]"))
        return mf_make_error(MF_ERROR_MEMORY, "no text");
    return mf_f(1);
}

static mf_value same(mf_value x) { return x; }

static mf_value trees(void)
{
    mf_value t = mf_dict("b", mf_list(X4, 2.0), "a", mf_tuple(mf_none(), 1)), leaves = mf_tree_leaves(mf_set(t, X4, "a", 1));
    t = mf_tree_map(same, mf_tree_unflatten(t, leaves));
    return mf_add(mf_sum(mf_get(t, "a", 1)), mf_add(mf_get(t, "b", 1), mf_len(leaves)));
}

static mf_value reading(void)
{
    float numbers[4] = { 0 };
    mf_value x = mf_call(mf_pmap(same), X4), y = mf_copy(mf_shard_batch(mf_replicate(X4, mf_devices()), 2));
    mf_status status = mf_to_host(x, MF_F32, numbers, 4);
    if (status || mf_block_until_ready(y))
        return mf_make_error(MF_ERROR_MEMORY, "not read");
    mf_value parts = mf_device_put_sharded(mf_list(1.0, 2.0), mf_device_slice(mf_devices(), 0, 2));
    return mf_add(mf_add(numbers[3], mf_sum(mf_unreplicate(mf_get(y, 0)))), mf_add(mf_sum(parts), mf_shard(x, 2)));
}

/* ------------------------------------------------------------------ transforms */

static mf_value square_sum(mf_value x) { return mf_sum(mf_square(x)); }
static mf_value affine(mf_value x) { return mf_add(mf_mul(mf_tanh(x), 0), x); }
static mf_value jitted(void) { return mf_sum(mf_call(mf_jit(affine), X4)); }
static mf_value gradient(void) { return mf_sum(mf_call(mf_jit(mf_grad(square_sum)), X4)); }
static mf_value pair_loss(mf_value w, mf_value x) { return mf_tuple(mf_sum(mf_mul(w, x)), x); }

static mf_value values_and_gradients(void)
{
    mf_value r = mf_call(mf_value_and_grad(pair_loss, .argnums = MF_INTS(0, 1), .has_aux = true), X4, X4);
    return mf_add(mf_get(r, 0, 0), mf_sum(mf_get(r, 1, 1)));
}

static mf_value forward_and_back(void)
{
    mf_function back;
    mf_value out = mf_vjp(square_sum, mf_tuple(X4), &back), g = mf_call(back, 1.0);
    mf_value tangent = mf_get(mf_jvp(square_sum, mf_tuple(X4), mf_tuple(X4)), 1);
    return mf_add(mf_add(out, tangent), mf_sum(mf_get(g, 0)));
}

static mf_value scale(void *w, mf_value v) { return mf_mul(v, *(mf_value *)w); }
static mf_value row(mf_value w) { return mf_call(mf_vmap(mf_closure(scale, &w)), mf_arange(3, MF_F32)); }
static mf_value batched(void) { return mf_sum(mf_call(mf_vmap(mf_jit(row), .out_axes = 1), mf_array(MF_F32, MF_SHAPE(2), 1, 2))); }

static mf_value cube(mf_value x) { return mf_mul(x, mf_square(x)); }
static mf_value cube_rule(mf_value p, mf_value t)
{
    return mf_tuple(cube(mf_get(p, 0)), mf_mul(mf_get(t, 0), mf_mul(3, mf_square(mf_get(p, 0)))));
}
static mf_value cube_forward(mf_value x) { return mf_tuple(cube(x), x); }
static mf_value cube_backward(mf_value x, mf_value g) { return mf_tuple(mf_mul(g, mf_mul(3, mf_square(x)))); }
static mf_value custom_sum(mf_value x)
{
    mf_value y = mf_call(mf_custom_jvp(cube, cube_rule), x);
    return mf_sum(mf_add(y, mf_call(mf_remat(mf_custom_vjp(cube, cube_forward, cube_backward)), x)));
}
static mf_value custom(void) { return mf_sum(mf_call(mf_jit(mf_grad(custom_sum)), X4)); }

static mf_value add_up(mf_value c, mf_value x) { return mf_tuple(mf_add(c, x), c); }
static mf_value below_9(mf_value c) { return mf_less(c, 9); }
static mf_value twice(mf_value c) { return mf_mul(c, 2); }
static mf_value plus(mf_value i, mf_value c) { return mf_add(c, mf_astype(i, MF_F32)); }
static mf_value control(mf_value x)
{
    mf_value sum = mf_get(mf_scan(add_up, mf_scalar(1, MF_F32), x), 0);
    sum = mf_cond(mf_greater(sum, 3), twice, same, mf_while(below_9, twice, sum));
    return mf_switch(1, mf_fori_loop(0, 3, plus, sum), same, twice, same);
}
static mf_value controlled(void) { return mf_call(mf_jit(control), mf_arange(3, MF_F32)); }
static mf_value scan_loss(mf_value x) { return mf_sum(mf_get(mf_scan(add_up, mf_sum(x), x), 1)); }
static mf_value gradient_of_a_loop(void) { return mf_sum(mf_call(mf_grad(scan_loss), mf_arange(3, MF_F32))); }
static mf_value unrolled_loss(mf_value x) { return mf_sum(mf_get(mf_scan(add_up, mf_sum(x), x, .unroll = 2), 1)); }
static mf_value gradient_of_an_unrolled_loop(void) { return mf_sum(mf_call(mf_grad(unrolled_loss), mf_arange(3, MF_F32))); }

static mf_value ahead(void)
{
    mf_function f = mf_lower(mf_pmap(twice), X4), g = mf_lowered_compile(f);
    const char *text = mf_as_text(f, MF_TEXT_OPTIMIZED), *plan = mf_as_text(g, MF_TEXT_PLAN);
    mf_compiled_memory_stats memory = mf_memory_analysis(g);
    mf_value v = mf_sum(mf_call(g, X4)), shape = mf_out_info(g);
    return text && plan && memory.argument_size_in_bytes != 16 ? mf_make_error(MF_ERROR_ARGUMENT, "wrong costs")
                                                               : mf_add(v, mf_mul(mf_f(0), mf_len(shape)));
}

/* ------------------------------------------------------------------ maps */

static mf_value normalize(mf_value x) { return mf_div(x, mf_psum(x, "i")); }
static mf_value normalized(void) { return mf_sum(mf_call(mf_pmap(normalize, "i"), X4)); }

static mf_value loss(mf_value w, mf_value x) { return mf_sum(mf_mul(mf_mul(w, w), x)); }
static mf_value step(mf_value w, mf_value x) { return mf_sub(w, mf_mul(0.25, mf_pmean(mf_call(mf_grad(loss), w, x), "i"))); }
static mf_value trained(void)
{
    mf_function f = mf_pmap(step, .axis_name = "i", .in_axes = mf_axes(MF_NONE, 0), .out_axes = MF_NONE, .donate_argnums = MF_INTS(0));
    mf_value w = mf_call(f, mf_add(mf_ones(MF_SHAPE(2), MF_F32), 0), mf_ones(MF_SHAPE(4, 2), MF_F32));
    return mf_sum(w);
}

static mf_value groups(void) { return mf_list(mf_list(0, 2), mf_list(1, 3)); }
static mf_value exchange(mf_value x)
{
    mf_value v = mf_mul(x, mf_ones(MF_SHAPE(4), MF_F32)), all = mf_all_gather(v, 0, "i"), part = mf_psum_scatter(v, 0, "i");
    v = mf_add(mf_all_to_all(v, 0, 0, "i"), mf_pswapaxes(v, 0, "i"));
    v = mf_add(v, mf_ppermute(v, "i", mf_list(mf_tuple(0, 1), mf_tuple(1, 0))));
    v = mf_add(v, mf_psum(v, "i", .axis_index_groups = groups()));
    x = mf_add(mf_pmax(x, "i"), mf_sub(mf_pmin(x, "i"), mf_pbroadcast(x, "i", 2)));
    x = mf_add(x, mf_add(mf_pargmax(x, "i"), mf_pshuffle(x, "i", mf_list(3, 2, 1, 0))));
    return mf_add(mf_add(mf_sum(all), part), mf_add(mf_sum(v), mf_add(mf_axis_index("i"), x)));
}
static mf_value exchanged(void) { return mf_sum(mf_call(mf_pmap(exchange, "i"), X4)); }

static mf_value both(mf_value x) { return mf_add(mf_psum(x, "i", "j"), mf_psum(x, "j")); }
static mf_value nested(void) { return mf_sum(mf_call(mf_pmap(mf_pmap(both, "j"), "i"), mf_reshape(X4, MF_SHAPE(2, 2)))); }

static mf_value any_below(mf_value c) { return mf_less(mf_psum(c, "i"), 100); }
static mf_value grow(mf_value c) { return mf_add(c, mf_pmax(c, "i")); }
static mf_value spread(mf_value c, mf_value x) { return (void)x, mf_tuple(mf_add(c, mf_psum(c, "i")), mf_none()); }
static mf_value loops(mf_value x) { return mf_get(mf_scan(spread, mf_while(any_below, grow, x), mf_none(), .length = 2), 0); }
static mf_value loops_with_collectives(void) { return mf_sum(mf_call(mf_pmap(loops, "i"), X4)); }

static mf_value times_sum(mf_value x) { return mf_mul(x, mf_psum(x, "i")); }
static mf_value map_loss(mf_value x) { return mf_sum(mf_call(mf_pmap(times_sum, "i"), x)); }
static mf_value gradient_of_a_map(void) { return mf_sum(mf_call(mf_jit(mf_grad(map_loss)), X4)); }
static mf_value map_of_maps(mf_value x) { return mf_call(mf_pmap(times_sum, "i"), x); }
static mf_value batched_map(void) { return mf_sum(mf_call(mf_vmap(map_of_maps), mf_reshape(X4, MF_SHAPE(2, 2)))); }

static mf_value declared(mf_value x) { return mf_check_replicated(mf_psum(x, "i"), "i"); }
static mf_value looked_at(mf_value x) { return mf_check_replicated(mf_sub(x, x), "i"); }
static mf_value checked(void)
{
    mf_value x = X4;
    return mf_add(mf_sum(mf_call(mf_pmap(declared, "i"), x)), mf_sum(mf_call(mf_pmap(looked_at, "i"), x)));
}

static mf_value alone(mf_value x) { return mf_cond(mf_less(mf_axis_index("i"), 2), normalize, same, x); }
static mf_value disagreeing(void) /* always ends in an error */
{
    mf_value v = mf_call(mf_pmap(alone, "i"), X4);
    mf_status status = mf_block_until_ready(v);
    const char *text = mf_error(v);
    return status == MF_OK ? mf_f(0) : text ? mf_f(1) : mf_make_error(MF_ERROR_MEMORY, "no text");
}

static mf_value power(mf_value x, mf_value n) { return mf_pow(x, n); }
static mf_value keyword(mf_value x, mf_value kwargs) { return mf_add(x, mf_get(kwargs, "y")); }
static mf_value arguments(void)
{
    mf_value a = mf_call(mf_pmap(power, .static_broadcasted_argnums = MF_INTS(1)), X4, 2);
    mf_value b = mf_call(mf_pmap(keyword, .devices = mf_device_slice(mf_devices(), -2, MF_END)), mf_arange(2, MF_F32),
                         mf_kwargs("y", mf_ones(MF_SHAPE(2), MF_F32)));
    return mf_add(mf_sum(a), mf_sum(b));
}

/* ------------------------------------------------------------------ states, layers, optimisers */

static mf_value affine_call(mf_module self, mf_value x)
{
    mf_state w = mf_member_state(self, "w");
    return mf_mul(x, mf_state_set_value(w, mf_add(mf_state_value(w), 1)));
}
static mf_value module_of_states(void)
{
    mf_module m = mf_module_new("affine", affine_call, "w", mf_param_state(mf_ones(MF_SHAPE(4), MF_F32)), "n", 2);
    mf_state_axis_rules rules = MF_STATE_AXES(0, mf_of_type(MF_PARAM_STATE));
    mf_function f = mf_pmap2(m, .axis_name = "i", .state_in_axes = rules, .state_out_axes = rules);
    mf_value v = mf_sum(mf_call(f, X4));
    mf_module_update(m, mf_module_values(m, mf_everything()));
    return mf_add(v, mf_sum(mf_state_value(mf_member_state(m, "w"))));
}

static mf_value more(void *cell, mf_value x)
{
    mf_state_set_value(*(mf_state *)cell, mf_add(mf_state_value(*(mf_state *)cell), x));
    return x;
}
static mf_value cells_in_place(void)
{
    mf_state cell = mf_hidden_state(mf_add(mf_ones(MF_SHAPE(512), MF_F32), 0));
    mf_function f = mf_jit(mf_closure(more, &cell)), g = mf_pmap(f, .in_axes = MF_NONE, .out_axes = MF_NONE, .axis_size = 4);
    mf_value calls = mf_add(mf_add(mf_call(f, 1), mf_call(g, 1)), mf_add(mf_call(f, 1), mf_call(g, 1)));
    return mf_add(mf_max(mf_state_value(cell)), calls);
}

static mf_value layers(void)
{
    mf_state rngs = mf_random_state(0);
    mf_module conv = mf_nn_conv(rngs, 1, 2, .kernel_size = MF_INTS(3, 3)), linear = mf_nn_linear(rngs, 2, 3);
    mf_value x = mf_call(conv, mf_ones(MF_SHAPE(2, 8, 8, 1), MF_F32));
    x = mf_call(linear, mf_mean(mf_max_pool(mf_relu(x), .window_shape = MF_INTS(2, 2), .strides = MF_INTS(2, 2)), mf_axes(1, 2)));
    return mf_add(mf_mul(mf_sum(mf_softmax_cross_entropy_with_integer_labels(x, mf_arange(2, MF_I32))), 0), 1);
}

static mf_value optimised(void)
{
    mf_optimizer adam = mf_adam(.learning_rate = 0.5), sgd = mf_sgd(.learning_rate = 0.5, .momentum = 0.9);
    mf_value w = mf_dict("w", X4), one = mf_optim_init(adam, w), two = mf_optim_init(sgd, w);
    mf_value a = mf_optim_update(adam, w, &one, w), b = mf_optim_update(sgd, w, &two, w);
    return mf_add(mf_sum(mf_get(a, "w")), mf_sum(mf_get(b, "w")));
}

static mf_value large_products(void) /* computed by oneDNN and cut into tasks */
{
    mf_value a = mf_ones(MF_SHAPE(96, 96), MF_F32), x = mf_ones(MF_SHAPE(2, 16, 16, 8), MF_F32), k = mf_ones(MF_SHAPE(3, 3, 8, 8), MF_F32);
    return mf_add(mf_max(mf_matmul(a, a)), mf_max(mf_conv_general_dilated(x, k)));
}

/* ------------------------------------------------------------------ files */

static char folder[64];
static char *path_of(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static mf_value npy(void)
{
    mf_status status = mf_save_npy(path_of("x.npy"), X4);
    mf_value v = mf_load_npy(path_of("x.npy"));
    return status ? mf_make_error(status, "not written") : mf_sum(v);
}

static mf_value npz(void)
{
    mf_value t = mf_dict("w", X4, "conv", mf_dict("kernel", mf_ones(MF_SHAPE(2, 2), MF_F32)));
    mf_status status = mf_save_npz(path_of("x.npz"), t);
    mf_value again = mf_load_tree(path_of("x.npz"), t), flat = mf_load_npz(path_of("x.npz"));
    return status ? mf_make_error(status, "not written") : mf_add(mf_sum(mf_get(again, "conv", "kernel")), mf_sum(mf_get(flat, "w")));
}

static mf_value idx(void) { return mf_sum(mf_load_idx(path_of("a.idx"))); }
static mf_value cifar(void) /* of a file with two records, which is always an error */
{
    mf_value v = mf_load_cifar10(folder, "test");
    return mf_error_status(v) == MF_ERROR_IO ? mf_f(1) : v;
}

static mf_value batches(void)
{
    mf_value data = mf_dict("id", mf_arange(10, MF_I32), "x", mf_ones(MF_SHAPE(10, 2), MF_F32)), batch, sum = mf_i(0);
    mf_loader *l = mf_loader_open(data, .batch_size = 4, .shuffle = true, .shuffle_seed = 3, .pad_last = true);
    while (mf_loader_next(l, &batch)) {
        sum = mf_add(sum, mf_sum(mf_get(batch, "id")));
        if (mf_is_error(sum))
            break;
    }
    mf_loader_close(l);
    return sum;
}

static mf_value profiled(void)
{
    mf_status status = mf_profiler_start_trace(path_of("trace.json"));
    mf_value v = mf_sum(mf_call(mf_pmap(normalize, "i"), X4));
    (void)mf_block_until_ready(v);
    return status | mf_profiler_stop_trace() ? mf_make_error(MF_ERROR_MEMORY, "no profile") : v;
}

/* ------------------------------------------------------------------ all of them */

const small_program small_programs[] = {
    { "eager", eager, 21 },
    { "shapes", shapes, 17 },
    { "indices", indices, 10 },
    { "algebra", algebra, 19.5 },
    { "random_numbers", random_numbers, 8 },
    { "texts", texts, 1 },
    { "trees", trees, 11 },
    { "reading", reading, 14 },
    { "jitted", jitted, 6 },
    { "gradient", gradient, 12 },
    { "values_and_gradients", values_and_gradients, 20 },
    { "forward_and_back", forward_and_back, 54 },
    { "batched", batched, 9 },
    { "custom", custom, 84 },
    { "controlled", controlled, 70 },
    { "gradient_of_a_loop", gradient_of_a_loop, 12 },
    { "gradient_of_an_unrolled_loop", gradient_of_an_unrolled_loop, 12 },
    { "ahead", ahead, 12 },
    { "normalized", normalized, 1 },
    { "trained", trained, 1 },
    { "exchanged", exchanged, 350 },
    { "nested", nested, 36 },
    { "loops_with_collectives", loops_with_collectives, 4650 },
    { "gradient_of_a_map", gradient_of_a_map, 48 },
    { "batched_map", batched_map, 26 },
    { "checked", checked, 24 },
    { "disagreeing", disagreeing, 1 },
    { "arguments", arguments, 17 },
    { "module_of_states", module_of_states, 20 },
    { "cells_in_place", cells_in_place, 9 },
    { "layers", layers, 1 },
    { "optimised", optimised, 7.5 },
    { "large_products", large_products, 168 },
    { "npy", npy, 6 },
    { "npz", npz, 10 },
    { "idx", idx, 10 },
    { "cifar", cifar, 1 },
    { "batches", batches, 45 },
    { "profiled", profiled, 1 },
};
const int small_program_count = sizeof small_programs / sizeof *small_programs;

static void write_idx(void)
{
    static const unsigned char bytes[] = { 0, 0, 8, 1, 0, 0, 0, 4, 1, 2, 3, 4 };
    FILE *f = fopen(path_of("a.idx"), "wb");
    if (f && fwrite(bytes, 1, sizeof bytes, f) == sizeof bytes)
        (void)fclose(f);
}

static void write_cifar(void)
{
    static unsigned char record[3073];
    FILE *f = fopen(path_of("test_batch.bin"), "wb");
    for (int i = 0; f && i < 2; i++)
        (void)fwrite(record, 1, sizeof record, f);
    if (f)
        (void)fclose(f);
}

void small_programs_open(void)
{
    setenv("MF_NUM_CPU_DEVICES", "4", 1);
    strcpy(folder, "/tmp/manyfold_small_XXXXXX");
    if (mkdtemp(folder)) {
        write_idx();
        write_cifar();
    }
}

void small_programs_close(void)
{
    static const char *const names[] = { "a.idx", "test_batch.bin", "x.npy", "x.npz", "trace.json" };
    for (int i = 0; i < 5; i++)
        (void)unlink(path_of(names[i]));
    (void)rmdir(folder);
}
