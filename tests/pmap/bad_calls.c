/* See bad_calls.h. In the order of the reference: parameters, sizes, collectives, control flow, compositions, arrays and handles. */
#include "bad_calls.h"

static mf_value same(mf_value x) { return x; }
static mf_value square(mf_value x) { return mf_mul(x, x); }
static mf_value add(mf_value x, mf_value y) { return mf_add(x, y); }
static mf_value normalize(mf_value x) { return mf_div(x, mf_psum(x, "i")); }
static mf_value eight(void) { return mf_arange(8, MF_F32); }

/* ------------------------------------------------------------------ the bad calls */

static mf_value leaf_is_no_array(void) { return mf_call(mf_pmap(same), mf_dict("a", eight(), "b", "text")); }
static mf_value name_is_not_bound(void) { return mf_call(mf_pmap(normalize, "j"), eight()); }
static mf_value in_axes_are_no_prefix(void) { return mf_call(mf_pmap(add, .in_axes = mf_axes(0, 0, 0)), eight(), eight()); }
static mf_value axis_is_beyond_the_rank(void) { return mf_call(mf_pmap(same, .in_axes = 1), eight()); }
static mf_value result_varies(void) { return mf_call(mf_pmap(same, "i", .out_axes = MF_NONE), eight()); }
static mf_value static_is_missing(void) { return mf_call(mf_pmap(add, .static_broadcasted_argnums = MF_INTS(1)), eight()); }
static mf_value static_is_an_array(void) { return mf_call(mf_pmap(add, .static_broadcasted_argnums = MF_INTS(1)), eight(), eight()); }

static mf_value device_comes_twice(void)
{
    mf_device twice[] = { mf_devices().at[0], mf_devices().at[0] };
    return mf_call(mf_pmap(square, .devices = (mf_device_list){ 2, twice }), mf_arange(2, MF_F32));
}

static mf_value no_devices(void)
{
    mf_device none[] = { mf_devices().at[0] };
    return mf_call(mf_pmap(square, .devices = (mf_device_list){ 0, none }), mf_arange(2, MF_F32));
}

static mf_value too_few_elements(void) { return mf_call(mf_pmap(square, .devices = mf_devices()), mf_arange(1, MF_F32)); }

static mf_value inner_map_names_devices(void)
{
    mf_function inner = mf_pmap(square, .devices = mf_device_slice(mf_devices(), 0, 2));
    return mf_call(mf_pmap(inner), mf_ones(MF_SHAPE(2, 2), MF_F32));
}

static mf_value backend_is_unknown(void) { return mf_call(mf_pmap(square, .backend = "quantum"), eight()); }
static mf_value axis_size_differs(void) { return mf_call(mf_pmap(square, .axis_size = 3), eight()); }
static mf_value sizes_differ(void) { return mf_call(mf_pmap(add), eight(), mf_arange(3, MF_F32)); }
static mf_value size_is_zero(void) { return mf_call(mf_pmap(square), mf_zeros(MF_SHAPE(0), MF_F32)); }
static mf_value too_many_elements(void) { return mf_call(mf_pmap(square), mf_arange(9, MF_F32)); }
static mf_value product_is_too_large(void) { return mf_call(mf_pmap(mf_pmap(square)), mf_ones(MF_SHAPE(4, 4), MF_F32)); }
static mf_value scalar_is_mapped(void) { return mf_call(mf_pmap(same), 1.0); }
static mf_value batch_does_not_divide(void) { return mf_shard_batch(mf_ones(MF_SHAPE(10, 3), MF_F32), 8); }

static mf_value donated_is_used(void)
{
    mf_value x = mf_add(eight(), 1);
    (void)mf_block_until_ready(mf_call(mf_pmap(square, .donate_argnums = MF_INTS(0)), x));
    return mf_add(x, 1);
}

static mf_value donated_comes_twice(void)
{
    mf_value y = mf_add(eight(), 1);
    return mf_call(mf_pmap(add, .donate_argnums = MF_INTS(0, 1)), y, y);
}

static mf_value donated_is_out_of_range(void) { return mf_call(mf_pmap(square, .donate_argnums = MF_INTS(3)), eight()); }

static mf_value keyword(mf_value x, mf_value kwargs) { return mf_add(x, mf_get(kwargs, "y")); }
static mf_value keyword_is_donated(void)
{
    return mf_call(mf_pmap(keyword, .donate_argnums = MF_INTS(1)), eight(), mf_kwargs("y", eight()));
}

static mf_value to_one(mf_value x) { return mf_ppermute(x, "i", mf_list(mf_tuple(0, 1), mf_tuple(2, 1))); }
static mf_value no_permutation(void) { return mf_call(mf_pmap(to_one, "i"), eight()); }

static mf_value grouped(mf_value x) { return mf_psum(x, "i", .axis_index_groups = mf_list(mf_list(0, 1), mf_list(1, 2))); }
static mf_value groups_overlap(void) { return mf_call(mf_pmap(grouped, "i"), eight()); }

static mf_value meet(mf_value x) { return mf_psum(x, "i"); }
static mf_value go_alone(mf_value x) { return mf_cond(mf_less(mf_axis_index("i"), 3), meet, same, x); }
static mf_value devices_disagree(void) { return mf_call(mf_pmap(go_alone, "i"), eight()); }

static mf_value declare(mf_value x) { return mf_check_replicated(x, "i"); }
static mf_value rows_differ(void) { return mf_call(mf_pmap(declare, "i"), eight()); }

static mf_value fails(mf_value x) { return mf_add(x, mf_make_error(MF_ERROR_ARGUMENT, "no luck")); }
static mf_value body_fails(void) { return mf_call(mf_pmap(fails), eight()); }
static mf_value argument_is_an_error(void) { return mf_call(mf_pmap(square), mf_make_error(MF_ERROR_IO, "before")); }

static mf_value shapes_differ(mf_value x) { return mf_add(x, mf_ones(MF_SHAPE(2, 3), MF_F32)); }
static mf_value body_has_bad_shapes(void) { return mf_call(mf_pmap(shapes_differ), mf_ones(MF_SHAPE(8, 2), MF_F32)); }

static mf_value kept_tracer;
static mf_value leak(mf_value x)
{
    kept_tracer = mf_keep(x);
    return x;
}
static mf_value tracer_escapes(void)
{
    mf_clear_caches(); /* so that the call is traced */
    (void)mf_block_until_ready(mf_call(mf_pmap(leak), eight()));
    mf_value v = mf_add(kept_tracer, 1);
    mf_release(kept_tracer);
    return v;
}

static mf_value handle_is_stale(void)
{
    mf_value v;
    {
        MF_SCOPE;
        v = mf_add(eight(), 1);
    }
    return mf_add(v, 1);
}

static mf_value not_scalar(mf_value x) { return mf_call(mf_grad(same), x); }
static mf_value gradient_of_an_array(void) { return mf_call(mf_pmap(not_scalar), mf_ones(MF_SHAPE(8, 2), MF_F32)); }

/* ------------------------------------------------------------------ more of the parameters */

static mf_value no_name_is_bound(void) { return mf_psum(eight(), "rows"); }
static mf_value prefix_parts_deep_inside(void)
{
    return mf_call(mf_pmap(same, .in_axes = mf_axes(mf_axes_dict({ "a", 0 }, { "c", 0 }))), mf_dict("a", eight(), "b", eight()));
}
static mf_value axis_is_below_the_rank(void) { return mf_call(mf_pmap(add, .in_axes = mf_axes(0, -2)), eight(), eight()); }
static mf_value pair(mf_value x) { return mf_tuple(x, x); }
static mf_value out_axes_are_no_prefix(void) { return mf_call(mf_pmap(pair, .out_axes = mf_axes(0, 0, 0)), eight()); }
static mf_value out_axis_is_beyond_the_rank(void) { return mf_call(mf_pmap(pair, .out_axes = mf_axes(0, 2)), eight()); }
static mf_value part_varies(mf_value x) { return mf_dict("sum", mf_psum(x, "i"), "own", x); }
static mf_value a_part_varies(void) { return mf_call(mf_pmap(part_varies, "i", .out_axes = MF_NONE), eight()); }
static mf_value static_is_out_of_range(void) { return mf_call(mf_pmap(square, .static_broadcasted_argnums = MF_INTS(-3)), eight()); }

static mf_value no_device(void)
{
    mf_device odd[] = { mf_devices().at[0], { 12345 } };
    return mf_call(mf_pmap(square, .devices = (mf_device_list){ 2, odd }), mf_arange(2, MF_F32));
}

static mf_value axis_size_is_negative(void) { return mf_call(mf_pmap(square, .axis_size = -8), eight()); }
static mf_value replicas_are_not_equal(void) { return mf_call(mf_pmap(square, "i", .replicated_argnums = MF_INTS(0)), eight()); }
static mf_value replicated_without_a_name(void) { return mf_call(mf_pmap(square, .replicated_argnums = MF_INTS(0)), eight()); }
static mf_value replicated_is_out_of_range(void) { return mf_call(mf_pmap(square, "i", .replicated_argnums = MF_INTS(2)), eight()); }
static mf_value keyword_is_a_scalar(void) { return mf_call(mf_pmap(keyword), eight(), mf_kwargs("y", 1.0)); }
static mf_value keyword_has_another_size(void) { return mf_call(mf_pmap(keyword), eight(), mf_kwargs("y", mf_arange(3, MF_F32))); }
static mf_value too_few_arguments(void) { return mf_call(mf_pmap(add), eight()); }
static mf_value no_function(void) { return mf_call(mf_pmap((mf_fn1)NULL), eight()); }
static mf_value unset_result(mf_value x) { return (void)x, (mf_value){ 0 }; }
static mf_value result_is_unset(void) { return mf_call(mf_pmap(unset_result), eight()); }
static mf_value argument_is_unset(void) { return mf_call(mf_pmap(square), (mf_value){ 0 }); }

/* ------------------------------------------------------------------ more of the collectives */

static mf_value rows(void) { return mf_ones(MF_SHAPE(8, 8), MF_F32); }
static mf_value threes(void) { return mf_ones(MF_SHAPE(8, 3), MF_F32); }
static mf_value halves(void) { return mf_list(mf_list(0, 1, 2), mf_list(3, 4, 5, 6, 7)); }

static mf_value psum_other(mf_value x) { return mf_psum(x, "i", "k"); }
static mf_value second_name_is_not_bound(void) { return mf_call(mf_pmap(psum_other, "i"), eight()); }
static mf_value index_other(mf_value x) { return mf_add(x, mf_axis_index("k")); }
static mf_value index_of_no_name(void) { return mf_call(mf_pmap(index_other, "i"), eight()); }
static mf_value size_other(mf_value x) { return mf_add(x, mf_axis_size("k")); }
static mf_value size_of_no_name(void) { return mf_call(mf_pmap(size_other, "i"), eight()); }
static mf_value too_far(mf_value x) { return mf_ppermute(x, "i", mf_list(mf_tuple(0, 8))); }
static mf_value target_is_no_device(void) { return mf_call(mf_pmap(too_far, "i"), eight()); }
static mf_value no_pairs(mf_value x) { return mf_ppermute(x, "i", mf_list(1, 2)); }
static mf_value pairs_are_none(void) { return mf_call(mf_pmap(no_pairs, "i"), eight()); }
static mf_value shuffle_twice(mf_value x) { return mf_pshuffle(x, "i", mf_list(0, 0, 2, 3, 4, 5, 6, 7)); }
static mf_value shuffle_is_no_permutation(void) { return mf_call(mf_pmap(shuffle_twice, "i"), eight()); }
static mf_value shuffle_few(mf_value x) { return mf_pshuffle(x, "i", mf_list(1, 0)); }
static mf_value shuffle_is_too_short(void) { return mf_call(mf_pmap(shuffle_few, "i"), eight()); }
static mf_value from_nobody(mf_value x) { return mf_pbroadcast(x, "i", 8); }
static mf_value source_is_no_device(void) { return mf_call(mf_pmap(from_nobody, "i"), eight()); }
static mf_value gather_far(mf_value x) { return mf_all_gather(x, 5, "i"); }
static mf_value gather_axis_is_beyond(void) { return mf_call(mf_pmap(gather_far, "i"), eight()); }
static mf_value gather_tiled(mf_value x) { return mf_all_gather(x, 0, "i", .tiled = true); }
static mf_value tiled_gather_of_a_scalar(void) { return mf_call(mf_pmap(gather_tiled, "i"), eight()); }
static mf_value gather_grouped(mf_value x) { return mf_all_gather(x, 0, "i", .axis_index_groups = halves()); }
static mf_value gather_groups_differ(void) { return mf_call(mf_pmap(gather_grouped, "i"), eight()); }
static mf_value scatter(mf_value x) { return mf_psum_scatter(x, 0, "i"); }
static mf_value scatter_size_differs(void) { return mf_call(mf_pmap(scatter, "i"), threes()); }
static mf_value scatter_tiled(mf_value x) { return mf_psum_scatter(x, 0, "i", .tiled = true); }
static mf_value scatter_does_not_divide(void) { return mf_call(mf_pmap(scatter_tiled, "i"), threes()); }
static mf_value scatter_far(mf_value x) { return mf_psum_scatter(x, 3, "i"); }
static mf_value scatter_axis_is_beyond(void) { return mf_call(mf_pmap(scatter_far, "i"), rows()); }
static mf_value exchange(mf_value x) { return mf_all_to_all(x, 0, 0, "i"); }
static mf_value exchange_size_differs(void) { return mf_call(mf_pmap(exchange, "i"), threes()); }
static mf_value exchange_tiled(mf_value x) { return mf_all_to_all(x, 0, 0, "i", .tiled = true); }
static mf_value exchange_does_not_divide(void) { return mf_call(mf_pmap(exchange_tiled, "i"), threes()); }
static mf_value exchange_far(mf_value x) { return mf_all_to_all(x, 0, 4, "i"); }
static mf_value exchange_axis_is_beyond(void) { return mf_call(mf_pmap(exchange_far, "i"), rows()); }
static mf_value swap(mf_value x) { return mf_pswapaxes(x, 0, "i"); }
static mf_value swap_size_differs(void) { return mf_call(mf_pmap(swap, "i"), threes()); }
static mf_value argmax_of_two(mf_value x) { return mf_pargmax(x, "i", "j"); }
static mf_value extremum_of_two_names(void) { return mf_call(mf_pmap(mf_pmap(argmax_of_two, "j"), "i"), mf_ones(MF_SHAPE(2, 4), MF_F32)); }
static mf_value few_groups(mf_value x) { return mf_psum(x, "i", .axis_index_groups = mf_list(mf_list(0, 1))); }
static mf_value groups_leave_some_out(void) { return mf_call(mf_pmap(few_groups, "i"), eight()); }
static mf_value far_groups(mf_value x) { return mf_pmax(x, "i", .axis_index_groups = mf_list(mf_list(0, 1, 2, 3), mf_list(4, 5, 6, 9))); }
static mf_value groups_name_no_device(void) { return mf_call(mf_pmap(far_groups, "i"), eight()); }
static mf_value odd_groups(mf_value x) { return mf_psum(x, "i", .axis_index_groups = mf_i(3)); }
static mf_value groups_are_no_list(void) { return mf_call(mf_pmap(odd_groups, "i"), eight()); }
static mf_value two_named(mf_value x) { return mf_psum(x, "i", "j", .axis_index_groups = mf_list(mf_list(0), mf_list(1))); }
static mf_value groups_of_two_names(void) { return mf_call(mf_pmap(mf_pmap(two_named, "j"), "i"), mf_ones(MF_SHAPE(2, 2), MF_F32)); }

/* ------------------------------------------------------------------ control flow and compositions */

static mf_value below(mf_value x) { return mf_less(x, 6); }
static mf_value climb(mf_value x) { return mf_add(x, mf_add(1, mf_mul(0, mf_psum(x, "i")))); }
static mf_value count_up(mf_value x) { return mf_while(below, climb, x); }
static mf_value turns_differ(void) { return mf_call(mf_pmap(count_up, "i"), eight()); }
static mf_value sum_first(mf_value x) { return mf_sum(mf_call(mf_pmap(count_up, "i"), x)); }
static mf_value gradient_of_a_while(void) { return mf_call(mf_grad(sum_first), mf_ones(MF_SHAPE(8), MF_F32)); }
static mf_value to_pair(mf_value x) { return mf_tuple(x, x); }
static mf_value either(mf_value x) { return mf_cond(mf_less(x, 2), same, to_pair, x); }
static mf_value branches_differ(void) { return mf_call(mf_pmap(either), eight()); }
static mf_value widen(mf_value c, mf_value x) { return mf_tuple(mf_mul(mf_ones(MF_SHAPE(2), MF_F32), mf_add(c, x)), x); }
static mf_value scan_widening(mf_value x) { return mf_get(mf_scan(widen, mf_sum(x), x), 0); }
static mf_value carry_changes(void) { return mf_call(mf_pmap(scan_widening), rows()); }
static mf_value of_integers(void) { return mf_call(mf_grad(square), mf_scalar(3, MF_I32)); }
static mf_value argnum_is_out_of_range(void) { return mf_call(mf_grad(square, .argnums = MF_INTS(1)), 1.0); }
static mf_value tangent_has_another_shape(void) { return mf_jvp(square, mf_tuple(eight()), mf_tuple(mf_ones(MF_SHAPE(3), MF_F32))); }
static mf_value batches_differ(void) { return mf_call(mf_vmap(mf_pmap(add)), rows(), mf_ones(MF_SHAPE(4, 8), MF_F32)); }
static mf_value wrong_rule(mf_value p, mf_value t) { return (void)t, mf_get(p, 0); }
static mf_value with_a_string(mf_value x) { return mf_tuple(mf_sin(x), mf_string("a")); }
static mf_value with_a_string_rule(mf_value primals, mf_value tangents)
{
    return mf_tuple(with_a_string(mf_get(primals, 0)), with_a_string(mf_get(tangents, 0)));
}
static mf_value first_of_two(mf_value x) { return mf_get(mf_call(mf_custom_jvp(with_a_string, with_a_string_rule), x), 0); }
static mf_value rule_of_a_static(void) { return mf_call(mf_grad(first_of_two), mf_f(0.5)); }
static mf_value ruled(mf_value x) { return mf_call(mf_grad(mf_custom_jvp(same, wrong_rule)), x); }
static mf_value rule_gives_no_pair(void) { return mf_call(mf_pmap(ruled), eight()); }

static mf_function compiled_square(void) { return mf_compile(mf_pmap(square), eight()); }
static mf_value compiled_for_another_type(void) { return mf_call(compiled_square(), mf_arange(8, MF_I32)); }
static mf_value compiled_for_another_tree(void) { return mf_call(compiled_square(), mf_tuple(eight())); }
static mf_value gradient_of_the_compiled(void) { return mf_call(mf_grad(compiled_square()), eight()); }

/* ------------------------------------------------------------------ arrays and handles */

static mf_value mapped(void) { return mf_call(mf_pmap(square), eight()); }
static mf_value shard_is_beyond(void) { return mf_shard(mapped(), 8); }
static mf_value index_is_beyond(void) { return mf_get(mapped(), 8); }
static mf_value too_many_indices(void) { return mf_get(mapped(), 0, 0); }
static mf_value reshape_does_not_fit(void) { return mf_reshape(mapped(), MF_SHAPE(3, 3)); }
static mf_value deleted_is_read(void)
{
    mf_value v = mapped();
    return mf_delete(v) ? (mf_value){ 0 } : mf_sum(v);
}
static mf_value parts_differ(void) { return mf_device_put_sharded(mf_list(1.0, eight()), mf_device_slice(mf_devices(), 0, 2)); }
static mf_value too_many_rows(void) { return mf_place(threes(), mf_device_slice(mf_devices(), 0, 2)); }

static mf_value released(void)
{
    mf_value kept = mf_keep(mapped());
    mf_release(kept);
    mf_release(kept); /* a second time is harmless */
    return mf_call(mf_pmap(square), kept);
}

static mf_value handle_is_nonsense(void) { return mf_add((mf_value){ 0x123456789abcdef1u }, 1); }

/* ------------------------------------------------------------------ all of them */

const bad_call bad_calls[] = {
    { "leaf_is_no_array", leaf_is_no_array, "['b']" },
    { "name_is_not_bound", name_is_not_bound, "unbound axis name: i. The following axis names are in scope: j" },
    { "no_name_is_bound", no_name_is_bound, "in scope: none" },
    { "in_axes_are_no_prefix", in_axes_are_no_prefix, "in_axes" },
    { "axis_is_beyond_the_rank", axis_is_beyond_the_rank, "rank 1" },
    { "result_varies", result_varies, "varies" },
    { "static_is_missing", static_is_missing, "was called with only 1 positional argument" },
    { "static_is_an_array", static_is_an_array, "static argument 1" },
    { "device_comes_twice", device_comes_twice, "twice" },
    { "no_devices", no_devices, "empty" },
    { "too_few_elements", too_few_elements, "num_local_devices=8" },
    { "inner_map_names_devices", inner_map_names_devices, "devices" },
    { "backend_is_unknown", backend_is_unknown, "'cpu'" },
    { "axis_size_differs", axis_size_differs, "8" },
    { "sizes_differ", sizes_differ, "pmap got inconsistent sizes" },
    { "size_is_zero", size_is_zero, "size 0" },
    { "too_many_elements", too_many_elements, "requires 9 replicas, but only 8" },
    { "product_is_too_large", product_is_too_large, "requires 16 local devices" },
    { "scalar_is_mapped", scalar_is_mapped, "rank 0" },
    { "batch_does_not_divide", batch_does_not_divide, "10" },
    { "donated_is_used", donated_is_used, "Array has been deleted with shape=float32[8]." },
    { "donated_comes_twice", donated_comes_twice, "donate" },
    { "donated_is_out_of_range", donated_is_out_of_range, "donate_argnums" },
    { "keyword_is_donated", keyword_is_donated, "donate" },
    { "no_permutation", no_permutation, "does not represent a permutation" },
    { "groups_overlap", groups_overlap, "axis_index_groups" },
    { "devices_disagree", devices_disagree, "devices" },
    { "rows_differ", rows_differ, "differ" },
    { "body_fails", body_fails, "no luck" },
    { "argument_is_an_error", argument_is_an_error, "before" },
    { "body_has_bad_shapes", body_has_bad_shapes, "float32" },
    { "tracer_escapes", tracer_escapes, "escaped" },
    { "handle_is_stale", handle_is_stale, "scope" },
    { "gradient_of_an_array", gradient_of_an_array, "scalar" },
    { "prefix_parts_deep_inside", prefix_parts_deep_inside,
      "at [0] the axes are {'a': 0, 'c': 0}, but the value is a dict with keys {a, b}" },
    { "axis_is_below_the_rank", axis_is_below_the_rank, "axis -2 of argument 1, which has rank 1" },
    { "out_axes_are_no_prefix", out_axes_are_no_prefix, "the axes are (0, 0, 0), but the value is a tuple of 2" },
    { "out_axis_is_beyond_the_rank", out_axis_is_beyond_the_rank, "the mapped axis of the result[1] at 2" },
    { "a_part_varies", a_part_varies, "the result['own'], but its value varies over the mapped axis 'i' through argument 0" },
    { "static_is_out_of_range", static_is_out_of_range, "static_broadcasted_argnums=(-3,)" },
    { "no_device", no_device, "devices[1] is no device" },
    { "axis_size_is_negative", axis_size_is_negative, "axis_size is -8" },
    { "replicas_are_not_equal", replicas_are_not_equal, "devices 1, 2, 3, 4, 5, 6, 7 hold other bits than device 0" },
    { "replicated_without_a_name", replicated_without_a_name, "replicated_argnums needs an axis_name" },
    { "replicated_is_out_of_range", replicated_is_out_of_range, "replicated_argnums names argument 2 of 1" },
    { "keyword_is_a_scalar", keyword_is_a_scalar, "keyword argument ['y'], which has rank 0" },
    { "keyword_has_another_size", keyword_has_another_size, "one axis had size 3: axis 0 of keyword argument ['y'] of type float32[3]" },
    { "too_few_arguments", too_few_arguments, "takes 2 arguments but was called with 1" },
    { "no_function", no_function, "a NULL function" },
    { "result_is_unset", result_is_unset, "returned an unset value" },
    { "argument_is_unset", argument_is_unset, "argument 0 of pmap(square) is an unset value" },
    { "second_name_is_not_bound", second_name_is_not_bound, "unbound axis name: k. The following axis names are in scope: i" },
    { "index_of_no_name", index_of_no_name, "axis_index: unbound axis name: k" },
    { "size_of_no_name", size_of_no_name, "axis_size: unbound axis name: k" },
    { "target_is_no_device", target_is_no_device, "an index lies outside the axis" },
    { "pairs_are_none", pairs_are_none, "a list of (source, target) pairs is needed" },
    { "shuffle_is_no_permutation", shuffle_is_no_permutation, "a source is named twice" },
    { "shuffle_is_too_short", shuffle_is_too_short, "it has 2 entries, the axis i has size 8" },
    { "source_is_no_device", source_is_no_device, "source 8 lies outside the axis i of size 8" },
    { "gather_axis_is_beyond", gather_axis_is_beyond, "axis 5 is out of bounds for rank 1" },
    { "tiled_gather_of_a_scalar", tiled_gather_of_a_scalar, "axis 0 is out of bounds for rank 0" },
    { "gather_groups_differ", gather_groups_differ, "axis_index_groups must all be of one size" },
    { "scatter_size_differs", scatter_size_differs, "size 3 along scatter_dimension 0 must be equal to the 8 members" },
    { "scatter_does_not_divide", scatter_does_not_divide, "size 3 along scatter_dimension 0 must be divisible by the 8 members" },
    { "scatter_axis_is_beyond", scatter_axis_is_beyond, "axis 3 is out of bounds for rank 1" },
    { "exchange_size_differs", exchange_size_differs, "size 3 along split_axis must be equal to the 8 members" },
    { "exchange_does_not_divide", exchange_does_not_divide, "size 3 along split_axis must be divisible by the 8 members" },
    { "exchange_axis_is_beyond", exchange_axis_is_beyond, "axis 4 is out of bounds for rank 1" },
    { "swap_size_differs", swap_size_differs, "size 3" },
    { "extremum_of_two_names", extremum_of_two_names, "over one axis name only" },
    { "groups_leave_some_out", groups_leave_some_out, "cover all 8 members of the axis" },
    { "groups_name_no_device", groups_name_no_device, "must hold every index once; 7 is missing" },
    { "groups_are_no_list", groups_are_no_list, "must be a list of lists of indices" },
    { "groups_of_two_names", groups_of_two_names, "cover all 4 members of the axis" },
    { "turns_differ", turns_differ, "psum over 'i' was reached by devices 0, 1, 2, 3, 4, 5, but devices 6, 7 never come to it" },
    { "gradient_of_a_while", gradient_of_a_while, "Reverse-mode differentiation does not work for while loops" },
    { "branches_differ", branches_differ, "branch 0 and branch 1 must have the same tree" },
    { "carry_changes", carry_changes, "carry went in as float32[] and came out as float32[2]" },
    { "of_integers", of_integers, "argument 0 of square is int32[]" },
    { "argnum_is_out_of_range", argnum_is_out_of_range, "argnums names argument 1" },
    { "tangent_has_another_shape", tangent_has_another_shape, "primal 0 is float32[8], its tangent float32[3]" },
    { "batches_differ", batches_differ, "axis had size 4: axis 0 of argument 1 of type float32[4,8]" },
    { "rule_of_a_static", rule_of_a_static, "the function must not write states or return statics" },
    { "rule_gives_no_pair", rule_gives_no_pair, "must return a pair of results and tangents" },
    { "compiled_for_another_type", compiled_for_another_type, "argument 0 compiled with float32[8] and called with int32[8]" },
    { "compiled_for_another_tree", compiled_for_another_tree, "compiled with an input tree that does not match" },
    { "gradient_of_the_compiled", gradient_of_the_compiled, "was called under a transform" },
    { "shard_is_beyond", shard_is_beyond, "shard 8 of an array on 8 devices" },
    { "index_is_beyond", index_is_beyond, "index 8 is out of bounds for axis 0 with size 8" },
    { "too_many_indices", too_many_indices, "too many indices" },
    { "reshape_does_not_fit", reshape_does_not_fit, "cannot reshape array of shape float32[8] (size 8) into shape (3, 3)" },
    { "deleted_is_read", deleted_is_read, "Array has been deleted with shape=float32[8]." },
    { "parts_differ", parts_differ, "part 0 is float32[] and part 1 is float32[8]" },
    { "too_many_rows", too_many_rows, "has not one row for each of 2 devices" },
    { "released", released, "after the scope that owned it had been closed" },
    { "handle_is_nonsense", handle_is_nonsense, "after the scope that owned it had been closed" },
};
const int bad_call_count = sizeof bad_calls / sizeof *bad_calls;
