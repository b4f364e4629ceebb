/* Calls of every public function that takes a shape, a list, a count or an axis, one per line: test_lengths.c passes invalid values,
 * test_memory.c valid ones while memory is short. scripts/check_lengths.py compares the lines with the headers. Invariant: a call reads no
 * caller memory beyond what is given here, whatever the length is. */
#ifndef MF_TESTS_SAFETY_LENGTHS_H
#define MF_TESTS_SAFETY_LENGTHS_H

#include <manyfold.h>

static mf_value key(void) { return mf_random_key(1); }
static mf_value vector(void) { return mf_ones(MF_SHAPE(4), MF_F32); }
static mf_value line(void) { return mf_ones(MF_SHAPE(1, 4, 1), MF_F32); }
static mf_value weights(void) { return mf_ones(MF_SHAPE(2, 1, 1), MF_F32); }
static mf_value half(mf_value x) { return mf_mul(mf_sum(x), 0.5); }
static mf_value both(mf_value x, mf_value y) { return mf_add(x, y); }
static const float numbers[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };

/* Converts the status of a function that returns no value to a value. */
static mf_value said(mf_status status) { return status ? mf_make_error(status, "said") : mf_f(0); }
static mf_value handle_of(uint64_t handle) { return (mf_value){ handle }; }

static mf_value square(void) { return mf_ones(MF_SHAPE(4, 4), MF_F32); }
static mf_value shown(const char *text) { return text ? mf_f(1) : mf_make_error(MF_ERROR_MEMORY, "no text"); }
static mf_value sized(int64_t size) { return size < 0 ? mf_make_error(MF_ERROR_MEMORY, "no size") : mf_f(0); }
static mf_value unpacked(int count)
{
    mf_value parts[1] = { { 0 } }, *at[1] = { &parts[0] };
    mf_unpack_n(mf_list(7), at, count < 0 ? count : 1);
    return count < 0 ? mf_f(0) : parts[0];
}
static mf_value devices_shown(mf_device_list list) { return shown(mf_str_devices(list)); }

/* In a map over rows of 4 by 4, along the axis that the context names. */
static mf_value gathered(void *axis, mf_value x) { return mf_all_gather(x, *(int *)axis, "i"); }
static mf_value scattered(void *axis, mf_value x) { return mf_psum_scatter(x, *(int *)axis, "i"); }
static mf_value exchanged(void *axis, mf_value x) { return mf_all_to_all(x, *(int *)axis, 0, "i"); }
static mf_value exchanged_to(void *axis, mf_value x) { return mf_all_to_all(x, 0, *(int *)axis, "i"); }
static mf_value swapped(void *axis, mf_value x) { return mf_pswapaxes(x, *(int *)axis, "i"); }
static mf_value handed(void *axis, mf_value x) { return mf_pbroadcast(x, "i", *(int *)axis); }
static mf_value rows(void) { return mf_ones(MF_SHAPE(4, 4, 4), MF_F32); }
#define IN_MAP(f, axis) mf_call(mf_vmap(mf_closure(f, &(int){ axis }), "i"), rows())

static mf_value batch_of(int64_t size)
{
    mf_loader *l = mf_loader_open(vector(), .batch_size = size);
    mf_value batch, first = mf_loader_next(l, &batch) ? mf_copy(batch) : mf_make_error(MF_ERROR_ARGUMENT, "no batch");
    mf_loader_close(l);
    return first;
}

static mf_value batch_at(int64_t position)
{
    mf_loader *l = mf_loader_open(vector(), .batch_size = 2);
    mf_status status = mf_loader_seek(l, position);
    mf_value batch = mf_none();
    bool next = status == MF_OK && mf_loader_next(l, &batch);
    mf_status why = status != MF_OK ? status : mf_is_error(batch) ? mf_error_status(batch) : MF_ERROR_ARGUMENT;
    mf_value found = next ? mf_copy(batch) : mf_make_error(why, "no batch");
    mf_loader_close(l);
    return found;
}

static mf_value read_one(void *context, int64_t row, void *const *places)
{
    (void)context;
    *(float *)places[0] = (float)row;
    return (mf_value){ 0 };
}

/* The first batch of a source, with prefetching. */
static mf_value read_ahead(mf_source *source, int64_t prefetch, int64_t workers)
{
    mf_loader *l = mf_loader_open_source(source, .batch_size = 1, .prefetch = prefetch, .workers = workers);
    mf_value batch, first = mf_loader_next(l, &batch)
                                ? mf_is_error(batch) ? mf_make_error(mf_error_status(batch), "%s", mf_error(batch)) : mf_copy(batch)
                                : mf_make_error(MF_ERROR_ARGUMENT, "no batch");
    mf_loader_close(l);
    return first;
}
static mf_source *ones(int64_t rows) { return mf_source_new(mf_struct(MF_SHAPE0, MF_F32), rows, read_one, NULL, NULL); }
static mf_value class_of(int index)
{
    mf_source *s = ones(4);
    mf_value said_of = mf_source_class(s, index) ? mf_f(1) : mf_make_error(MF_ERROR_ARGUMENT, "no class");
    mf_source_close(s);
    return said_of;
}

static mf_value stepped(int64_t steps, int64_t done)
{
    mf_progress *p = mf_progress_open("", steps, .done = done, .silent = true);
    mf_progress_step(p, NULL);
    mf_progress_close(p);
    return steps < 0 || done < 0 ? mf_make_error(MF_ERROR_ARGUMENT, "no loop") : mf_f(0);
}

static mf_value logged(int64_t step)
{
    mf_logbook *b = mf_logbook_open("/no such folder/logs");
    mf_status status = mf_logbook_write(b, step, mf_f(1));
    (void)mf_logbook_close(b);
    return said(status);
}

static mf_value saved(int64_t step, int64_t kept, int64_t interval)
{
    mf_checkpoint_manager *m = mf_checkpoint_manager_open("/no such folder/steps", .max_to_keep = kept, .save_interval_steps = interval);
    mf_value made = said(mf_checkpoint_manager_save(m, step, vector()));
    (void)mf_checkpoint_manager_close(m);
    return made;
}

static mf_value restored(int64_t step)
{
    mf_checkpoint_manager *m = mf_checkpoint_manager_open("/no such folder/steps");
    mf_value made = mf_checkpoint_manager_restore(m, step, vector());
    (void)mf_checkpoint_manager_close(m);
    return made;
}

static mf_value called(mf_module m, mf_value x) { return (void)m, x; }
static const mf_transform_part_ *frozen(void)
{
    static mf_transform_part_ parts[2];
    parts[0] = mf_transform_part_filter(mf_everything());
    parts[1] = mf_transform_part_transform(mf_set_to_zero());
    return parts;
}
static mf_module affine(void) { return mf_module_new("m", called, "k", mf_param_state(mf_scalar(1, MF_F32))); }
static mf_value called_with(mf_module m, mf_value x, mf_value y) { return (void)m, mf_add(x, y); }

static mf_value windowed(mf_ints l)
{
    mf_module m = mf_module_n("m", (mf_fm)called, 1, (mf_node_[]){ mf_node_name("k"), mf_node_ints(l) }, 2);
    return mf_is_error(handle_of(m.handle)) ? handle_of(m.handle) : mf_reduce_window_sum(vector(), .window = mf_member_ints(m, "k"));
}
static mf_module module_of_one(void) { return mf_module_new("m", called, "k", 0); }
static mf_module attention(void) { return mf_nn_multi_head_attention(mf_random_state(1), 2, 4); }

/* s: a shape */
#define SHAPES(X)                                                          \
    X(mf_from_host(MF_F32, s, numbers))                                    \
    X(mf_array_n(MF_F32, s, (double[]){ 1, 2, 3, 4 }, 4))                  \
    X(mf_struct(s, MF_F32))                                                \
    X(said(mf_nn_init_cache(attention(), s, MF_F32)))                      \
    X(handle_of(mf_nn_einsum(mf_random_state(1), "ab,b->a", s).handle))    \
    X(mf_nn_initialize_carry(mf_nn_gru_cell(mf_random_state(1), 2, 2), s)) \
    X(mf_image_resize(vector(), s, MF_RESIZE_LINEAR))                      \
    X(mf_zeros(s, MF_F32))                                                 \
    X(mf_ones(s, MF_F32))                                                  \
    X(mf_full(s, mf_f(1)))                                                 \
    X(mf_reshape(vector(), s))                                             \
    X(mf_broadcast_to(vector(), s))                                        \
    X(mf_dynamic_slice(vector(), mf_list(0), s))                           \
    X(mf_iota(MF_I32, s, 0))                                               \
    X(mf_random_bits(key(), s, MF_U32))                                    \
    X(mf_random_uniform(key(), s, MF_F32))                                 \
    X(mf_random_uniform_in(key(), s, MF_F32, mf_f(0), mf_f(2)))            \
    X(mf_random_normal(key(), s, MF_F32))                                  \
    X(mf_random_truncated_normal(key(), -1, 1, s, MF_F32))                 \
    X(mf_random_randint(key(), s, mf_i(0), mf_i(5), MF_I32))               \
    X(mf_random_bernoulli(key(), 0.5, s))                                  \
    X(mf_random_exponential(key(), s, MF_F32))                             \
    X(mf_random_gumbel(key(), s, MF_F32))                                  \
    X(mf_random_laplace(key(), s, MF_F32))                                 \
    X(mf_random_cauchy(key(), s, MF_F32))                                  \
    X(mf_random_gamma(key(), 2.0, s, MF_F32))                              \
    X(mf_random_loggamma(key(), 2.0, s, MF_F32))                           \
    X(mf_random_orthogonal(key(), 2, s, MF_F32))                           \
    X(mf_random_poisson(key(), 4.0, s, MF_I32))                            \
    X(mf_random_binomial(key(), 4.0, 0.5, s, MF_F32))                      \
    X(mf_unravel_index(mf_i(3), s))                                        \
    X(mf_ravel_multi_index(mf_tuple(mf_i(3)), s))                          \
    X(mf_random_categorical(key(), vector(), 0, s))                        \
    X(mf_random_choice(key(), mf_i(5), s))                                 \
    X(mf_random_choice(key(), vector(), s, .without_replacement = true))   \
    X(mf_random_choice(key(), vector(), s, .p = vector()))                 \
    X(mf_initialize(mf_init_zeros(), key(), s, MF_F32))                    \
    X(mf_initialize(mf_init_orthogonal(1), key(), s, MF_F32))              \
    X(mf_initialize(mf_init_he_normal(), key(), s, MF_F32))                \
    X(mf_eval_shape(mf_fn(half), mf_struct(s, MF_F32)))

/* s: a shape. Draws that are made of those above, and allocate where they do */
#define COMPOSED_DRAWS(X)                                                  \
    X(mf_random_beta(key(), 2.0, 3.0, s, MF_F32))                          \
    X(mf_random_chisquare(key(), 2.0, s, MF_F32))                          \
    X(mf_random_f(key(), 2.0, 3.0, s, MF_F32))                             \
    X(mf_random_t(key(), 2.0, s, MF_F32))                                  \
    X(mf_random_generalized_normal(key(), 2, s, MF_F32))                   \
    X(mf_random_dirichlet(key(), vector(), s, MF_F32))                     \
    X(mf_random_ball(key(), 2, 2, s, MF_F32))                              \
    X(mf_random_multivariate_normal(key(), vector(), square(), s, MF_F32)) \
    X(mf_random_logistic(key(), s, MF_F32))                                \
    X(mf_random_maxwell(key(), s, MF_F32))                                 \
    X(mf_random_rademacher(key(), s, MF_I32))                              \
    X(mf_random_lognormal(key(), 1.0, s, MF_F32))                          \
    X(mf_random_pareto(key(), 1.0, s, MF_F32))                             \
    X(mf_random_rayleigh(key(), 1.0, s, MF_F32))                           \
    X(mf_random_wald(key(), 1.0, s, MF_F32))                               \
    X(mf_random_weibull_min(key(), 1.0, 1.0, s, MF_F32))                   \
    X(mf_random_triangular(key(), 0.0, 1.0, 2.0, s, MF_F32))               \
    X(mf_random_geometric(key(), 0.5, s, MF_I32))

/* l: a list */
#define LISTS(X)                                                                                                             \
    X(mf_transpose(vector(), l))                                                                                             \
    X(mf_pad(vector(), 0.0f, l, MF_INTS(0), MF_INTS(0)))                                                                     \
    X(mf_pad(vector(), 0.0f, MF_INTS(0), l, MF_INTS(0)))                                                                     \
    X(mf_pad(vector(), 0.0f, MF_INTS(0), MF_INTS(0), l))                                                                     \
    X(mf_slice_in(vector(), l, MF_INTS(4), MF_INTS(1)))                                                                      \
    X(mf_slice_in(vector(), MF_INTS(0), l, MF_INTS(1)))                                                                      \
    X(mf_tile(vector(), l))                                                                                                  \
    X(mf_tensordot_axes(vector(), vector(), l, MF_INTS(0)))                                                                  \
    X(mf_tensordot_axes(vector(), vector(), l, l))                                                                           \
    X(mf_dot_general(vector(), vector(), .lhs_contracting = l, .rhs_contracting = l))                                        \
    X(mf_dot_general(vector(), vector(), .lhs_batch = l, .rhs_batch = l))                                                    \
    X(mf_reduce_window_sum(vector(), .window = l))                                                                           \
    X(mf_reduce_window_max(vector(), .window = MF_INTS(2), .padding_low = l))                                                \
    X(mf_reduce_window_min(vector(), .window = MF_INTS(2), .padding_high = l))                                               \
    X(mf_reduce_window_sum(vector(), .window = MF_INTS(2), .strides = l))                                                    \
    X(mf_reduce_window_sum(vector(), .window = MF_INTS(2), .base_dilation = l))                                              \
    X(mf_reduce_window_sum(vector(), .window = MF_INTS(2), .window_dilation = l))                                            \
    X(mf_max_pool(line(), .window_shape = l))                                                                                \
    X(mf_avg_pool(line(), .window_shape = MF_INTS(2), .strides = l))                                                         \
    X(mf_conv_general_dilated(line(), weights(), .dimension_numbers = "NWC,WIO->NWC", .window_strides = l))                  \
    X(mf_conv_general_dilated(line(), weights(), .dimension_numbers = "NWC,WIO->NWC", .lhs_dilation = l))                    \
    X(mf_conv_general_dilated(line(), weights(), .dimension_numbers = "NWC,WIO->NWC", .rhs_dilation = l))                    \
    X(mf_conv_general_dilated(line(), weights(), .dimension_numbers = "NWC,WIO->NWC", .padding_low = l))                     \
    X(mf_conv_general_dilated(line(), weights(), .dimension_numbers = "NWC,WIO->NWC", .padding_high = l))                    \
    X(mf_fftn(vector(), .axes = l))                                                                                          \
    X(mf_fftn(vector(), .s = l))                                                                                             \
    X(mf_irfftn(vector(), .s = l, .axes = l))                                                                                \
    X(mf_fft2(mf_ones(MF_SHAPE(4, 4), MF_F32), .axes = l))                                                                   \
    X(mf_call(mf_jit(both, .static_argnums = l), vector(), vector()))                                                        \
    X(mf_call(mf_jit(both, .donate_argnums = l), vector(), vector()))                                                        \
    X(mf_call(mf_remat(both, .static_argnums = l), vector(), vector()))                                                      \
    X(mf_call(mf_grad(half, .argnums = l), vector()))                                                                        \
    X(mf_call(mf_value_and_grad(half, .argnums = l), vector()))                                                              \
    X(mf_call(mf_jacfwd(half, .argnums = l), vector()))                                                                      \
    X(mf_call(mf_jacrev(half, .argnums = l), vector()))                                                                      \
    X(mf_call(mf_hessian(half, .argnums = l), vector()))                                                                     \
    X(mf_call(mf_pmap(half, .static_broadcasted_argnums = l), mf_ones(MF_SHAPE(1, 2), MF_F32)))                              \
    X(mf_call(mf_pmap(half, .donate_argnums = l), mf_ones(MF_SHAPE(1, 2), MF_F32)))                                          \
    X(mf_call(mf_pmap(half, .axis_name = "i", .replicated_argnums = l), mf_ones(MF_SHAPE(1, 2), MF_F32)))                    \
    X(mf_ifftn(vector(), .axes = l))                                                                                         \
    X(mf_rfftn(vector(), .s = l))                                                                                            \
    X(mf_ifft2(square(), .axes = l))                                                                                         \
    X(mf_rfft2(square(), .axes = l))                                                                                         \
    X(mf_irfft2(square(), .axes = l))                                                                                        \
    X(handle_of(mf_nn_linear_general(mf_random_state(1), l, MF_INTS(2)).handle))                                             \
    X(handle_of(mf_nn_linear_general(mf_random_state(1), MF_INTS(2), l).handle))                                             \
    X(handle_of(mf_nn_linear_general(mf_random_state(1), MF_INTS(2), MF_INTS(2), .axis = l).handle))                         \
    X(handle_of(mf_nn_linear_general(mf_random_state(1), MF_INTS(2), MF_INTS(2), .batch_sizes = l).handle))                  \
    X(handle_of(mf_nn_conv(mf_random_state(1), 1, 1, .kernel_size = l).handle))                                              \
    X(handle_of(mf_nn_conv(mf_random_state(1), 1, 1, .kernel_size = MF_INTS(1), .strides = l).handle))                       \
    X(handle_of(mf_nn_conv(mf_random_state(1), 1, 1, .kernel_size = MF_INTS(1), .kernel_dilation = l).handle))               \
    X(handle_of(mf_nn_conv(mf_random_state(1), 1, 1, .kernel_size = MF_INTS(1), .input_dilation = l).handle))                \
    X(handle_of(mf_nn_conv_transpose(mf_random_state(1), 1, 1, .kernel_size = l).handle))                                    \
    X(handle_of(mf_nn_conv_transpose(mf_random_state(1), 1, 1, .kernel_size = MF_INTS(1), .strides = l).handle))             \
    X(mf_call(mf_nn_conv(mf_random_state(1), 1, 1, .kernel_size = MF_INTS(1), .padding_low = l, .padding_high = l), line())) \
    X(mf_call(mf_nn_dropout(mf_random_state(1), 0.5, .broadcast_dims = l), vector()))                                        \
    X(mf_call(mf_nn_layer_norm(mf_random_state(1), 4, .reduction_axes = l), vector()))                                       \
    X(mf_call(mf_nn_instance_norm(mf_random_state(1), 4, .feature_axes = l), vector()))                                      \
    X(mf_call(mf_nn_layer_norm(mf_random_state(1), 4, .feature_axes = l), vector()))                                         \
    X(mf_call(mf_nn_rms_norm(mf_random_state(1), 4, .reduction_axes = l), vector()))                                         \
    X(mf_min_pool(line(), .window_shape = l))                                                                                \
    X(mf_avg_pool(line(), .window_shape = MF_INTS(2), .padding_low = l, .padding_high = l))                                  \
    X(windowed(l))                                                                                                           \
    X(mf_call(mf_pmap2(half, .static_broadcasted_argnums = l), mf_ones(MF_SHAPE(1, 2), MF_F32)))                             \
    X(mf_call(mf_pmap2(half, .donate_argnums = l), mf_ones(MF_SHAPE(1, 2), MF_F32)))

/* n: a count of elements in the caller's memory, so a count that is too large is detected only if there is a limit. one: a value */
#define COUNTS(X)                                                                                                                         \
    X(mf_tuple_n(one, n))                                                                                                                 \
    X(mf_list_n(one, n))                                                                                                                  \
    X(mf_dict_n(one, 2 * n))                                                                                                              \
    X(mf_kwargs_n(one, 2 * n))                                                                                                            \
    X(mf_get_n(mf_list(1), one, n))                                                                                                       \
    X(mf_set_n(mf_list(1), one[0], one, n))                                                                                               \
    X(mf_tree_map_n(mf_fn(half), one, n))                                                                                                 \
    X(mf_tree_map_with_path_n(mf_fn(both), one, n))                                                                                       \
    X(mf_call_n(mf_fn(half), one, n))                                                                                                     \
    X(mf_call_n(mf_jit(half), one, n))                                                                                                    \
    X(mf_call_n(mf_vmap(half), one, n))                                                                                                   \
    X(mf_call_n(mf_partial(mf_fn(both), 1.0), one, n))                                                                                    \
    X(handle_of(mf_partial_n(mf_fn(half), one, n).handle))                                                                                \
    X(mf_eval_shape_n(mf_fn(half), one, n))                                                                                               \
    X(handle_of(mf_lower_n(mf_jit(half), one, n).handle))                                                                                 \
    X(handle_of(mf_compile_n(mf_jit(half), one, n).handle))                                                                               \
    X(mf_call_n(mf_linear_transpose_n(mf_fn(half), one, n), one, 1))                                                                      \
    X(mf_switch_n(mf_i(0), (mf_function[]){ mf_fn(half) }, n, one[0]))                                                                    \
    X(handle_of(mf_filter_all_n((mf_filter[]){ mf_filter_any_n(NULL, 0) }, n).handle))                                                    \
    X(handle_of(mf_filter_any_n((mf_filter[]){ mf_filter_all_n(NULL, 0) }, n).handle))                                                    \
    X(handle_of(mf_module_n("m", (mf_fm)called, 1, (mf_node_[]){ mf_node_name("k"), mf_node_int(1) }, 2 * n).handle))                     \
    X(mf_optim_init(mf_chain_n((mf_optimizer[]){ mf_sgd() }, n), one[0]))                                                                 \
    X(mf_optim_init(mf_multi_transform_n(frozen(), 2 * n), one[0]))                                                                       \
    X(mf_optim_init(mf_adafactor(.min_dim_size_to_factor = n), vector()))                                                                 \
    X(mf_call(mf_piecewise_constant_schedule_n(0.5, (double[]){ 1, 0.5 }, 2 * n), 3))                                                     \
    X(mf_module_split_n(affine(), (mf_filter[]){ mf_everything() }, n))                                                                   \
    X(handle_of(mf_module_merge_n(affine(), (mf_value[]){ mf_dict("k", 1) }, n).handle))                                                  \
    X(handle_of(mf_state_axes_n((mf_axis_part_[]){ mf_axis_part_axis(0), mf_axis_part_states(mf_filter_any_n(NULL, 0)) }, 2 * n).handle)) \
    X(mf_einsum_n("i", one, n))                                                                                                           \
    X(mf_at_set_n(vector(), one[0], one, n))                                                                                              \
    X(mf_at_add_n(vector(), one[0], one, n))                                                                                              \
    X(mf_at_multiply_n(vector(), one[0], one, n))                                                                                         \
    X(mf_at_min_n(vector(), one[0], one, n))                                                                                              \
    X(mf_at_max_n(vector(), one[0], one, n))                                                                                              \
    X(mf_array_n(MF_F32, MF_SHAPE(1), (double[]){ 1 }, n))                                                                                \
    X(mf_linspace(0, 1, n))                                                                                                               \
    X(mf_eye(n, MF_F32))                                                                                                                  \
    X(mf_split(vector(), n, 0))                                                                                                           \
    X(mf_repeat(vector(), n, 0))                                                                                                          \
    X(mf_logspace(0, 1, n))                                                                                                               \
    X(mf_logspace(0, 1, n, .base = 2))                                                                                                    \
    X(mf_geomspace(1, 2, n))                                                                                                              \
    X(mf_hanning(n))                                                                                                                      \
    X(mf_hamming(n))                                                                                                                      \
    X(mf_blackman(n))                                                                                                                     \
    X(mf_bartlett(n))                                                                                                                     \
    X(mf_kaiser(n, 1))                                                                                                                    \
    X(mf_tril_indices(n, 2))                                                                                                              \
    X(mf_tril_indices(2, n))                                                                                                              \
    X(mf_triu_indices(n, 2))                                                                                                              \
    X(mf_triu_indices(2, n))                                                                                                              \
    X(mf_argwhere(vector(), n))                                                                                                           \
    X(mf_flatnonzero(vector(), n))                                                                                                        \
    X(mf_polyder(vector(), n))                                                                                                            \
    X(mf_polyint(vector(), n))                                                                                                            \
    X(mf_ctc_loss(rows(), square(), mf_zeros(MF_SHAPE(4, 4), MF_I32), square(), .blank_id = n))                                           \
    X(mf_diff(vector(), n, 0))                                                                                                            \
    X(mf_bincount(mf_arange(4, MF_I32), n))                                                                                               \
    X(mf_segment_sum(vector(), mf_arange(4, MF_I32), n))                                                                                  \
    X(mf_segment_prod(vector(), mf_arange(4, MF_I32), n))                                                                                 \
    X(mf_segment_max(vector(), mf_arange(4, MF_I32), n))                                                                                  \
    X(mf_segment_min(vector(), mf_arange(4, MF_I32), n))                                                                                  \
    X(mf_array_split(vector(), n, 0))                                                                                                     \
    X(mf_tri(n, 2, 0, MF_F32))                                                                                                            \
    X(mf_tri(2, n, 0, MF_F32))                                                                                                            \
    X(mf_histogram(vector(), n))                                                                                                          \
    X(mf_unique(vector(), n))                                                                                                             \
    X(mf_unique(vector(), n, .fill_value = mf_f(0)))                                                                                      \
    X(mf_nonzero(vector(), n))                                                                                                            \
    X(mf_vander(vector(), .columns = n))                                                                                                  \
    X(mf_polygamma(n, vector()))                                                                                                          \
    X(mf_expn(n, vector()))                                                                                                               \
    X(mf_bessel_jn(vector(), n, 3))                                                                                                       \
    X(mf_bessel_jn(vector(), 0, n))                                                                                                       \
    X(mf_polyfit(vector(), vector(), n))                                                                                                  \
    X(mf_multigammaln(vector(), n))                                                                                                       \
    X(mf_random_ball(key(), n, 2, MF_SHAPE(2), MF_F32))                                                                                   \
    X(mf_random_orthogonal(key(), n, MF_SHAPE0, MF_F32))                                                                                  \
    X(mf_one_hot(mf_arange(4, MF_I32), n))                                                                                                \
    X(mf_top_k(vector(), n, 0))                                                                                                           \
    X(mf_tensordot(vector(), vector(), n))                                                                                                \
    X(mf_dynamic_slice_in_dim(vector(), 0, n, 0))                                                                                         \
    X(mf_slice_in_dim(vector(), 0, 4, n, 0))                                                                                              \
    X(mf_random_split(key(), n))                                                                                                          \
    X(mf_shard_batch(vector(), n))                                                                                                        \
    X(mf_replicate(vector(), (mf_device_list){ n, mf_devices().at }))                                                                     \
    X(mf_place(vector(), (mf_device_list){ n, mf_devices().at }))                                                                         \
    X(mf_device_put_sharded(mf_list(1), (mf_device_list){ n, mf_devices().at }))                                                          \
    X(mf_call(mf_pmap(half, .devices = { n, mf_devices().at }), mf_ones(MF_SHAPE(1, 2), MF_F32)))                                         \
    X(mf_call(mf_pmap(half, .axis_size = n), mf_ones(MF_SHAPE(1, 2), MF_F32)))                                                            \
    X(mf_call(mf_vmap(half, .axis_size = n), mf_ones(MF_SHAPE(1, 2), MF_F32)))                                                            \
    X(mf_map(half, mf_ones(MF_SHAPE(4, 2), MF_F32), .batch_size = n))                                                                     \
    X(mf_scan(both, 0.0, mf_none(), .length = n))                                                                                         \
    X(mf_scan(both, 0.0, mf_none(), .length = 3, .unroll = n))                                                                            \
    X(mf_call(mf_nn_rnn(mf_nn_gru_cell(mf_random_state(1), 2, 2), .unroll = n), mf_ones(MF_SHAPE(1, 2, 2), MF_F32)))                      \
    X(mf_fori_loop(0, 3, mf_fn_2((mf_fn2)0), vector()))                                                                                   \
    X(mf_fft(vector(), .n = n))                                                                                                           \
    X(mf_irfft(vector(), .n = n))                                                                                                         \
    X(mf_fftfreq(n, 1))                                                                                                                   \
    X(mf_rfftfreq(n, 1))                                                                                                                  \
    X(mf_sum(vector(), mf_axes_n((mf_axis[]){ 0 }, n)))                                                                                   \
    X(sized(mf_axes_of(0, (int)n).count == 1 ? 1 : -1))                                                                                   \
    X(mf_conv_general_dilated(line(), weights(), .dimension_numbers = "NWC,WIO->NWC", .feature_group_count = n))                          \
    X(mf_conv_general_dilated(line(), weights(), .dimension_numbers = "NWC,WIO->NWC", .batch_group_count = n))                            \
    X(said(mf_set_num_cpu_devices(n)))                                                                                                    \
    X(said(mf_to_host(vector(), MF_F32, (float[4]){ 0 }, (size_t)n)))                                                                     \
    X(mf_sum(vector(), mf_axes_dict_n((mf_named_axis[]){ { "a", 0 } }, n)))                                                               \
    X(shown(mf_member_name(module_of_one(), n)))                                                                                          \
    X(handle_of(mf_module_view_n(module_of_one(), (mf_node_[]){ mf_node_name("k"), mf_node_int(1) }, 2 * n).handle))                      \
    X(handle_of(mf_module_n("m", (mf_fm)called_with, 2, (mf_node_[]){ mf_node_name("k"), mf_node_int(1) }, 2 * n).handle))                \
    X(said(mf_debug_print_n(&(mf_value){ mf_string("").handle }, n)))                                                                     \
    X(mf_pure_callback_n(mf_fn(half), mf_struct(MF_SHAPE(), MF_F32), one, n))                                                             \
    X(mf_io_callback_n(mf_fn(half), mf_struct(MF_SHAPE(), MF_F32), one, n))                                                               \
    X(mf_ifft(vector(), .n = n))                                                                                                          \
    X(mf_rfft(vector(), .n = n))                                                                                                          \
    X(mf_hfft(vector(), .n = n))                                                                                                          \
    X(mf_ihfft(vector(), .n = n))                                                                                                         \
    X(handle_of(mf_nn_conv(mf_random_state(1), n, 1, .kernel_size = MF_INTS(1)).handle))                                                  \
    X(handle_of(mf_nn_conv(mf_random_state(1), 1, n, .kernel_size = MF_INTS(1)).handle))                                                  \
    X(handle_of(mf_nn_conv(mf_random_state(1), 1, 1, .feature_group_count = n).handle))                                                   \
    X(handle_of(mf_nn_conv_transpose(mf_random_state(1), n, 1).handle))                                                                   \
    X(handle_of(mf_nn_embed(mf_random_state(1), n, 1).handle))                                                                            \
    X(handle_of(mf_nn_embed(mf_random_state(1), 1, n).handle))                                                                            \
    X(handle_of(mf_nn_batch_norm(mf_random_state(1), n).handle))                                                                          \
    X(handle_of(mf_nn_layer_norm(mf_random_state(1), n).handle))                                                                          \
    X(handle_of(mf_nn_rms_norm(mf_random_state(1), n).handle))                                                                            \
    X(handle_of(mf_nn_instance_norm(mf_random_state(1), n).handle))                                                                       \
    X(handle_of(mf_nn_group_norm(mf_random_state(1), n).handle))                                                                          \
    X(handle_of(mf_nn_group_norm(mf_random_state(1), 4, .num_groups = n).handle))                                                         \
    X(handle_of(mf_nn_group_norm(mf_random_state(1), 4, .group_size = n).handle))                                                         \
    X(handle_of(mf_nn_confusion_matrix(n).handle))                                                                                        \
    X(handle_of(mf_nn_accuracy(.k = n).handle))                                                                                           \
    X(handle_of(mf_nn_at(mf_nn_list(module_of_one()), n).handle))                                                                         \
    X(handle_of(mf_nn_list_n((mf_module[]){ module_of_one() }, n).handle))                                                                \
    X(handle_of(mf_nn_sequential_n((mf_function[]){ mf_fn(half) }, n).handle))                                                            \
    X(handle_of(mf_nn_multi_metric_n((mf_node_[]){ mf_node_name("k"), mf_node_module(module_of_one()) }, 2 * n).handle))                  \
    X(handle_of(mf_nn_linear(mf_random_state(1), n, 1).handle))                                                                           \
    X(handle_of(mf_nn_linear(mf_random_state(1), 1, n).handle))                                                                           \
    X(handle_of(mf_nn_multi_head_attention(mf_random_state(1), n, 4).handle))                                                             \
    X(handle_of(mf_nn_multi_head_attention(mf_random_state(1), 1, n).handle))                                                             \
    X(handle_of(mf_nn_multi_head_attention(mf_random_state(1), 1, 4, .qkv_features = n).handle))                                          \
    X(handle_of(mf_nn_multi_head_attention(mf_random_state(1), 1, 4, .out_features = n).handle))                                          \
    X(handle_of(mf_nn_multi_head_attention(mf_random_state(1), 4, 4, .num_kv_heads = n).handle))                                          \
    X(handle_of(mf_nn_multi_head_attention(mf_random_state(1), 1, 4, .in_kv_features = n).handle))                                        \
    X(handle_of(mf_nn_simple_cell(mf_random_state(1), n, 1).handle))                                                                      \
    X(handle_of(mf_nn_simple_cell(mf_random_state(1), 1, n).handle))                                                                      \
    X(handle_of(mf_nn_gru_cell(mf_random_state(1), n, 1).handle))                                                                         \
    X(handle_of(mf_nn_gru_cell(mf_random_state(1), 1, n).handle))                                                                         \
    X(handle_of(mf_nn_lstm_cell(mf_random_state(1), n, 1).handle))                                                                        \
    X(handle_of(mf_nn_lstm_cell(mf_random_state(1), 1, n).handle))                                                                        \
    X(handle_of(mf_nn_optimized_lstm_cell(mf_random_state(1), n, 1).handle))                                                              \
    X(handle_of(mf_nn_optimized_lstm_cell(mf_random_state(1), 1, n).handle))                                                              \
    X(mf_flip_sequences(square(), .num_batch_dims = n))                                                                                   \
    X(batch_of(n))                                                                                                                        \
    X(mf_load_npz("/no such file", .max_bytes = n))                                                                                       \
    X(read_ahead(ones(4), n, 1))                                                                                                          \
    X(read_ahead(ones(4), 1, n))                                                                                                          \
    X(read_ahead(ones(n), 0, 0))                                                                                                          \
    X(read_ahead(mf_source_images("/no such folder", .height = n), 0, 0))                                                                 \
    X(read_ahead(mf_source_text("/no such file", n), 0, 0))                                                                               \
    X(class_of(n))                                                                                                                        \
    X(mf_augment_crop(key(), mf_ones(MF_SHAPE(2, 3, 3, 1), MF_F32), .padding = n))                                                        \
    X(mf_augment_crop(key(), mf_ones(MF_SHAPE(2, 3, 3, 1), MF_F32), .height = n))                                                         \
    X(mf_augment_cutout(key(), mf_ones(MF_SHAPE(2, 3, 3, 1), MF_F32), n))                                                                 \
    X(stepped(n, 1))                                                                                                                      \
    X(stepped(7, n))                                                                                                                      \
    X(logged(n))                                                                                                                          \
    X(saved(n, 1, 1))                                                                                                                     \
    X(restored(n))                                                                                                                        \
    X(saved(1, n, 1))                                                                                                                     \
    X(saved(1, 1, n))                                                                                                                     \
    X(mf_make_grid(rows(), .nrow = n))                                                                                                    \
    X(mf_make_grid(rows(), .padding = n))                                                                                                 \
    X(mf_load_tree("/no such file", vector(), .max_bytes = n))                                                                            \
    X(mf_call(mf_pmap2(half, .axis_size = n), mf_ones(MF_SHAPE(1, 2), MF_F32)))                                                           \
    X(mf_call(mf_vmap2(half, .axis_size = n), mf_ones(MF_SHAPE(1, 2), MF_F32)))                                                           \
    X(mf_call(mf_stateful_mapping(half, .axis_size = n), mf_ones(MF_SHAPE(1, 2), MF_F32)))

/* n: a size that may be beyond memory, or 64 bits */
#define SIZES(X)                                                                  \
    X(mf_arange(n, MF_I64))                                                       \
    X(mf_linspace(0, 1, n))                                                       \
    X(mf_make_grid(rows(), .padding = n))                                         \
    X(mf_eye(n, MF_F32))                                                          \
    X(mf_eye(3, MF_F32, .columns = n))                                            \
    X(mf_bincount(mf_arange(4, MF_I32), n))                                       \
    X(mf_segment_sum(vector(), mf_arange(4, MF_I32), n))                          \
    X(mf_segment_max(vector(), mf_arange(4, MF_I32), n))                          \
    X(mf_tri(n, 2, 0, MF_F32))                                                    \
    X(mf_tri(2, n, 0, MF_F32))                                                    \
    X(mf_histogram(vector(), n))                                                  \
    X(mf_unique(vector(), n))                                                     \
    X(mf_nonzero(vector(), n))                                                    \
    X(mf_top_k(vector(), n, 0))                                                   \
    X(mf_repeat(vector(), n, 0))                                                  \
    X(mf_dynamic_slice_in_dim(vector(), 0, n, 0))                                 \
    X(mf_fft(vector(), .n = n))                                                   \
    X(mf_irfft(vector(), .n = n))                                                 \
    X(mf_fftfreq(n, 1))                                                           \
    X(mf_rfftfreq(n, 1))                                                          \
    X(mf_random_permutation(key(), mf_i(n)))                                      \
    X(mf_random_choice(key(), mf_i(n), MF_SHAPE(2), .without_replacement = true)) \
    X(mf_call(mf_vmap(half, .axis_size = n), 1.0))                                \
    X(mf_call(mf_pmap(half, .axis_size = n), 1.0))                                \
    X(mf_sum(vector(), .axis = n))                                                \
    X(said(mf_to_host(vector(), MF_F32, (float[4]){ 0 }, (size_t)n)))

/* a: an axis, or an index, of arrays of 4 by 4 */
#define AXES(X)                                                                                         \
    X(mf_initialize(mf_init_variance_scaling(1, .in_axis = a), key(), MF_SHAPE(4, 4), MF_F32))          \
    X(mf_call(mf_nn_batch_norm(mf_random_state(1), 4, .axis = a), square()))                            \
    X(mf_softmax_cross_entropy(square(), square(), .axis = a))                                          \
    X(mf_softmax_cross_entropy_with_integer_labels(square(), mf_zeros(MF_SHAPE(4), MF_I32), .axis = a)) \
    X(mf_kl_divergence(square(), square(), .axis = a))                                                  \
    X(mf_kl_divergence_with_log_targets(square(), square(), .axis = a))                                 \
    X(mf_cosine_similarity(square(), square(), .axis = a))                                              \
    X(mf_cosine_distance(square(), square(), .axis = a))                                                \
    X(mf_swapaxes(square(), a, 0))                                                                      \
    X(mf_swapaxes(square(), 0, a))                                                                      \
    X(mf_moveaxis(square(), a, 0))                                                                      \
    X(mf_moveaxis(square(), 0, a))                                                                      \
    X(mf_expand_dims(square(), a))                                                                      \
    X(mf_squeeze(square(), a))                                                                          \
    X(mf_flip(square(), a))                                                                             \
    X(mf_concatenate(mf_list(square(), square()), a))                                                   \
    X(mf_stack(mf_list(square(), square()), a))                                                         \
    X(mf_split(square(), 2, a))                                                                         \
    X(mf_slice_in_dim(square(), 0, 1, 1, a))                                                            \
    X(mf_dynamic_slice_in_dim(square(), 0, 1, a))                                                       \
    X(mf_dynamic_update_slice_in_dim(square(), square(), 0, a))                                         \
    X(mf_iota(MF_I32, MF_SHAPE(4, 4), a))                                                               \
    X(mf_repeat(square(), 2, a))                                                                        \
    X(mf_roll(square(), 1, a))                                                                          \
    X(mf_diagonal(square(), 0, a, 0))                                                                   \
    X(mf_diagonal(square(), 0, 0, a))                                                                   \
    X(mf_unwrap(vector(), 1, a))                                                                        \
    X(mf_vecdot(square(), square(), a))                                                                 \
    X(mf_lexsort(mf_list(square(), square()), a))                                                       \
    X(mf_nancumsum(square(), a))                                                                        \
    X(mf_nancumprod(square(), a))                                                                       \
    X(mf_triplet_margin_loss(square(), square(), square(), .axis = a))                                  \
    X(mf_generalized_kl_divergence(square(), square(), .axis = a))                                      \
    X(mf_logmeanexp(square(), a))                                                                       \
    X(mf_diff(square(), 1, a))                                                                          \
    X(mf_take(square(), 0, a))                                                                          \
    X(mf_take_opt(square(), mf_i(0), a, &(mf_take_options){ .mode = MF_TAKE_CLIP }))                    \
    X(mf_take_along_axis(square(), mf_zeros(MF_SHAPE(4, 4), MF_I32), a))                                \
    X(mf_one_hot(mf_arange(4, MF_I32), 4, .axis = a))                                                   \
    X(mf_sum(square(), a))                                                                              \
    X(mf_prod(square(), a))                                                                             \
    X(mf_mean(square(), a))                                                                             \
    X(mf_var(square(), a))                                                                              \
    X(mf_std(square(), a))                                                                              \
    X(mf_max(square(), a))                                                                              \
    X(mf_min(square(), a))                                                                              \
    X(mf_any(square(), a))                                                                              \
    X(mf_all(square(), a))                                                                              \
    X(mf_argmax(square(), a))                                                                           \
    X(mf_argmin(square(), a))                                                                           \
    X(mf_cumsum(square(), a))                                                                           \
    X(mf_cumsum(square(), a, .reverse = true))                                                          \
    X(mf_cumprod(square(), a))                                                                          \
    X(mf_cumprod(square(), a, .reverse = true))                                                         \
    X(mf_cummax(square(), a))                                                                           \
    X(mf_cummax(square(), a, .reverse = true))                                                          \
    X(mf_cummin(square(), a))                                                                           \
    X(mf_cummin(square(), a, .reverse = true))                                                          \
    X(mf_cumlogsumexp(square(), a))                                                                     \
    X(mf_cumlogsumexp(square(), a, .reverse = true))                                                    \
    X(mf_sort(square(), a))                                                                             \
    X(mf_argsort(square(), a))                                                                          \
    X(mf_sort_descending(square(), a))                                                                  \
    X(mf_argsort_descending(square(), a))                                                               \
    X(mf_top_k(square(), 2, a))                                                                         \
    X(mf_median(square(), a))                                                                           \
    X(mf_nanmean(square(), a))                                                                          \
    X(mf_nansum(square(), a))                                                                           \
    X(mf_average(square(), square(), a))                                                                \
    X(mf_nanprod(square(), a))                                                                          \
    X(mf_nanmax(square(), a))                                                                           \
    X(mf_nanmin(square(), a))                                                                           \
    X(mf_nanvar(square(), a))                                                                           \
    X(mf_nanstd(square(), a))                                                                           \
    X(mf_nanargmax(square(), a))                                                                        \
    X(mf_nanargmin(square(), a))                                                                        \
    X(mf_nanmedian(square(), a))                                                                        \
    X(mf_nanquantile(square(), 0.5, a))                                                                 \
    X(mf_nanpercentile(square(), 50, a))                                                                \
    X(mf_percentile(square(), 50, a))                                                                   \
    X(mf_ptp(square(), a))                                                                              \
    X(mf_count_nonzero(square(), a))                                                                    \
    X(mf_append(square(), square(), a))                                                                 \
    X(mf_array_split(square(), 2, a))                                                                   \
    X(mf_glu(square(), a))                                                                              \
    X(mf_standardize(square(), .axis = a))                                                              \
    X(mf_trapezoid(square(), .axis = a))                                                                \
    X(mf_gradient(square(), 1, a))                                                                      \
    X(mf_quantile(square(), 0.5, a))                                                                    \
    X(mf_sort_key_value(square(), square(), a))                                                         \
    X(mf_logsumexp(square(), a))                                                                        \
    X(mf_softmax(square(), a))                                                                          \
    X(mf_log_softmax(square(), a))                                                                      \
    X(mf_norm(square(), .axis = a))                                                                     \
    X(mf_fft(square(), .axis = a))                                                                      \
    X(mf_ifft(square(), .axis = a))                                                                     \
    X(mf_rfft(square(), .axis = a))                                                                     \
    X(mf_irfft(square(), .axis = a))                                                                    \
    X(mf_hfft(square(), .axis = a))                                                                     \
    X(mf_ihfft(square(), .axis = a))                                                                    \
    X(mf_fftshift(square(), a))                                                                         \
    X(mf_ifftshift(square(), a))                                                                        \
    X(mf_associative_scan(both, square(), .axis = a))                                                   \
    X(mf_random_permutation(key(), square(), .axis = a))                                                \
    X(mf_random_choice(key(), square(), MF_SHAPE(2), .axis = a))                                        \
    X(mf_random_categorical(key(), square(), a, MF_SHAPE(2)))                                           \
    X(mf_call(mf_vmap(half, .in_axes = a), square()))                                                   \
    X(mf_call(mf_vmap(half, .out_axes = a), square()))                                                  \
    X(mf_call(mf_pmap(half, .in_axes = a), mf_ones(MF_SHAPE(1, 4), MF_F32)))                            \
    X(mf_call(mf_pmap(half, .out_axes = a), mf_ones(MF_SHAPE(1, 4), MF_F32)))                           \
    X(mf_call(mf_vmap2(half, .in_axes = a), square()))                                                  \
    X(IN_MAP(gathered, a))                                                                              \
    X(IN_MAP(scattered, a))                                                                             \
    X(IN_MAP(exchanged, a))                                                                             \
    X(IN_MAP(exchanged_to, a))                                                                          \
    X(IN_MAP(swapped, a))                                                                               \
    X(IN_MAP(handed, a))                                                                                \
    X(sized(mf_dim(square(), a)))                                                                       \
    X(mf_shard(square(), a))                                                                            \
    X(shown(mf_key(mf_dict("k", 1), a)))

/* n: any number is legal, or an error. one: a value; names: a name */
#define NUMBERS(X)                                                                                               \
    X(batch_at(n))                                                                                               \
    X(mf_tril(square(), n))                                                                                      \
    X(mf_triu(square(), n))                                                                                      \
    X(mf_diag(square(), n))                                                                                      \
    X(mf_matrix_power(square(), n))                                                                              \
    X(mf_rot90(square(), n))                                                                                     \
    X(mf_call(mf_join_schedules(mf_constant_schedule(1), n, mf_constant_schedule(2)), 3))                        \
    X(mf_diagonal(square(), n))                                                                                  \
    X(mf_tril_indices(3, 3, n))                                                                                  \
    X(mf_triu_indices(3, 3, n))                                                                                  \
    X(mf_tri(3, 3, n, MF_F32))                                                                                   \
    X(mf_roll(vector(), n, 0))                                                                                   \
    X(mf_roll(vector(), n, MF_ALL))                                                                              \
    X(mf_integer_pow(vector(), n))                                                                               \
    X(mf_eye(3, MF_F32, .k = n))                                                                                 \
    X(mf_var(vector(), .ddof = n))                                                                               \
    X(mf_get(vector(), mf_index_slice(mf_range(n, 2))))                                                          \
    X(mf_get(vector(), mf_index_slice(mf_range(1, n))))                                                          \
    X(devices_shown(mf_device_slice(mf_devices(), n, MF_END)))                                                   \
    X(devices_shown(mf_device_slice(mf_devices(), 0, n)))                                                        \
    X(devices_shown((mf_device_list){ n < 0 ? n : 0, mf_devices().at }))                                         \
    X(shown(mf_str_shape((mf_shape){ .rank = n })))                                                              \
    X(shown(mf_program_text_n(mf_fn(half), one, n < 0 ? n : 1)))                                                 \
    X(unpacked(n))                                                                                               \
    X(mf_call(mf_grad(mf_remat(half, .policy = mf_save_only_these_names_n(names, n < 0 ? n : 1))), vector()))    \
    X(mf_call(mf_grad(mf_remat(half, .policy = mf_save_any_names_but_these_n(names, n < 0 ? n : 1))), vector())) \
    X(mf_call(mf_grad(mf_remat(half, .policy = mf_save_anything_except_these_names_n(names, n < 0 ? n : 1))), vector()))

#endif
