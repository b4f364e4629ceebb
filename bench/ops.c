/* Single operations, compared with a peer: the cases of peers/jax_ops.py under the same names, "case@bytes", driven one repetition at a
 * time over standard input, with one JSON line per answer. Each case is a jitted function of x, y (f32 [rows, columns], `bytes` each) and i
 * (i32 [rows], row indices), whose values both sides compute by the same formula; it runs on one device with all cores. */
#include <manyfold.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- the operands */

static int64_t rows, columns;

static uint32_t mixed(uint32_t n)
{
    n *= 2654435761u;
    n ^= n >> 16;
    n *= 0x85ebca6bu;
    n ^= n >> 13;
    n *= 0xc2b2ae35u;
    return n ^ n >> 16;
}

static mf_value numbers(uint32_t seed)
{
    int64_t n = rows * columns;
    float *at = malloc((size_t)n * sizeof *at);
    for (int64_t i = 0; at && i < n; i++)
        at[i] = (float)(mixed((uint32_t)i + seed) >> 8) / 8388608.0f - 1.0f;
    mf_value x = mf_from_host(MF_F32, MF_SHAPE(rows, columns), at);
    free(at);
    return x;
}

static mf_value row_numbers(void)
{
    int32_t *at = malloc((size_t)rows * sizeof *at);
    for (int64_t i = 0; at && i < rows; i++)
        at[i] = (int32_t)(mixed((uint32_t)i + 77) % (uint32_t)rows);
    mf_value x = mf_from_host(MF_I32, MF_SHAPE(rows), at);
    free(at);
    return x;
}

/* ---- the cases */

#define CASE(name) static mf_value case_##name(mf_value x, mf_value y, mf_value i)
#define UNUSED     (void)x, (void)y, (void)i
#define GIVES(name, ...)    \
    CASE(name)              \
    {                       \
        UNUSED;             \
        return __VA_ARGS__; \
    }

#define KEY mf_random_fold_in(mf_random_key(1), mf_get(i, 0))

static mf_value entries(mf_value y) { return mf_astype(mf_mul(mf_abs(y), (double)columns - 1), MF_I32); }
GIVES(take_rows, mf_take(x, i, 0))
GIVES(take_along, mf_take_along_axis(x, entries(y), 1))
GIVES(scatter_add_rows, mf_index_add(mf_zeros_like(x), i, x))
GIVES(scatter_set_rows, mf_index_update(y, i, x))
GIVES(scatter_max_rows, mf_index_max(y, i, x))
GIVES(bincount, mf_bincount(mf_astype(mf_mul(mf_abs(mf_ravel(y)), 255), MF_I32), 256))
static mf_value summed(mf_value x, mf_value i) { return mf_sum(mf_square(mf_take(x, i, 0))); }
GIVES(embedding_grad, mf_call(mf_grad(summed), x, i))
GIVES(dropout, mf_where(mf_random_bernoulli(KEY, 0.9, MF_SHAPE(rows, columns)), mf_div(x, 0.9), 0))
GIVES(bits, mf_random_bits(KEY, MF_SHAPE(rows, columns), MF_U32))
GIVES(uniform, mf_random_uniform(KEY, MF_SHAPE(rows, columns), MF_F32))
GIVES(normal, mf_random_normal(KEY, MF_SHAPE(rows, columns), MF_F32))
GIVES(categorical, mf_random_categorical(KEY, x, -1, MF_SHAPE0))
GIVES(permutation, mf_random_permutation(KEY, rows *columns))
GIVES(argmax_last, mf_argmax(x, -1))
GIVES(argmax_first, mf_argmax(x, 0))
GIVES(concat_last, mf_concatenate(mf_list(x, y), 1))
GIVES(concat_first, mf_concatenate(mf_list(x, y), 0))
GIVES(pad_edges, mf_pad(x, mf_f(0), MF_INTS(1, 1), MF_INTS(1, 1), MF_INTS(0, 0)))
GIVES(pad_interior, mf_pad(x, mf_f(0), MF_INTS(0, 0), MF_INTS(0, 0), MF_INTS(0, 1)))
GIVES(dynamic_slice, mf_dynamic_slice_in_dim(x, mf_get(i, 0), mf_dim(x, 0) / 2, 0))
GIVES(dynamic_update, mf_dynamic_update_slice_in_dim(x, mf_slice_in_dim(y, 0, rows / 2, 1, 0), mf_get(i, 0), 0))
GIVES(one_hot, mf_one_hot(i, (int)columns))
GIVES(tril, mf_tril(x, 0))
GIVES(where, mf_where(mf_greater(x, y), x, 0))
GIVES(cumsum_last, mf_cumsum(x, 1))
GIVES(cumsum_first, mf_cumsum(x, 0))
GIVES(cumsum_long, mf_cumsum(mf_ravel(x), 0))
GIVES(cumprod_last, mf_cumprod(x, 1))
GIVES(cummax_last, mf_cummax(x, 1))
GIVES(cumlogsumexp_last, mf_cumlogsumexp(x, 1))
GIVES(logsumexp_last, mf_logsumexp(x, -1))
GIVES(logsumexp_first, mf_logsumexp(x, 0))
GIVES(softmax_first, mf_softmax(x, 0))
GIVES(sort_last, mf_sort(x, 1))
GIVES(sort_first, mf_sort(x, 0))
GIVES(sort_long, mf_sort(mf_ravel(x), 0))
GIVES(argsort_last, mf_argsort(x, 1))
GIVES(argsort_long, mf_argsort(mf_ravel(x), 0))
GIVES(sort_i32_long, mf_sort(mf_bitcast(mf_ravel(x), MF_I32), 0))
GIVES(top_k, mf_top_k(x, 8, 1))
GIVES(searchsorted, mf_searchsorted(mf_cumsum(mf_abs(mf_get(x, 0)), 0), mf_mul(mf_ravel(y), 32), false))
GIVES(transpose, mf_transpose(x, MF_INTS0))
GIVES(transpose_middle, mf_transpose(mf_reshape(x, MF_SHAPE(-1, 8, 8)), MF_INTS(0, 2, 1)))
GIVES(flip_last, mf_flip(x, mf_axes(1)))
GIVES(roll_last, mf_roll(x, 3, 1))
GIVES(tile_columns, mf_tile(x, MF_INTS(1, 2)))
GIVES(sum_first, mf_sum(x, 0))
GIVES(sum_middle, mf_sum(mf_reshape(x, MF_SHAPE(-1, 8, 8)), 1))
GIVES(sum_last, mf_sum(x, 1))
GIVES(sum_outer, mf_sum(mf_reshape(x, MF_SHAPE(-1, 8, 8)), mf_axes(0, 2)))
GIVES(max_first, mf_max(x, 0))
GIVES(var_last, mf_var(x, -1))
GIVES(any_last, mf_any(mf_greater(x, 0.99), -1))
GIVES(sum_i32, mf_sum(mf_bitcast(x, MF_I32)))
GIVES(window_sum, mf_reduce_window_sum(x, .window = MF_INTS(1, 5), .strides = MF_INTS(1, 1), .padding = MF_SAME))
GIVES(window_max, mf_reduce_window_max(x, .window = MF_INTS(3, 3), .strides = MF_INTS(1, 1), .padding = MF_SAME))
GIVES(window_min, mf_reduce_window_min(x, .window = MF_INTS(2, 2), .strides = MF_INTS(2, 2)))
GIVES(window_i32, mf_reduce_window_max(mf_bitcast(x, MF_I32), .window = MF_INTS(2, 2), .strides = MF_INTS(2, 2)))
CASE(int_dot)
{
    UNUSED;
    mf_value a = mf_astype(mf_mul(x, 100), MF_I32), b = mf_astype(mf_mul(mf_slice_in_dim(y, 0, 8, 1, 0), 100), MF_I32);
    return mf_matmul(a, mf_transpose(b, MF_INTS0));
}
GIVES(dot_f64, mf_matmul(mf_astype(x, MF_F64), mf_transpose(mf_astype(mf_slice_in_dim(y, 0, 8, 1, 0), MF_F64), MF_INTS0)))
GIVES(dot_batch, mf_matmul(mf_reshape(x, MF_SHAPE(-1, 8, 8)), mf_reshape(y, MF_SHAPE(-1, 8, 8))))
GIVES(dot_batch_3, mf_matmul(mf_reshape(mf_get(x, mf_range(0, rows / 9 * 9)), MF_SHAPE(-1, 3, 3)),
                             mf_reshape(mf_get(y, mf_range(0, rows / 9 * 9)), MF_SHAPE(-1, 3, 3))))
GIVES(exp_f64, mf_exp(mf_astype(x, MF_F64)))
GIVES(tanh_f64, mf_tanh(mf_astype(x, MF_F64)))
GIVES(sin_f64, mf_sin(mf_astype(x, MF_F64)))
GIVES(add_f64, mf_add(mf_astype(x, MF_F64), mf_astype(y, MF_F64)))
CASE(complex_mul)
{
    UNUSED;
    mf_value c = mf_complex(x, y);
    return mf_mul(c, mf_conj(c));
}
GIVES(complex_exp, mf_abs(mf_exp(mf_complex(x, y))))
GIVES(to_bf16, mf_astype(x, MF_BF16))
GIVES(to_f16, mf_astype(x, MF_F16))
GIVES(bf16_add, mf_add(mf_astype(x, MF_BF16), mf_astype(y, MF_BF16)))
GIVES(exp, mf_exp(x))
GIVES(add, mf_add(x, y))
static mf_value positive(mf_value x)
{
    mf_value a = mf_reshape(x, MF_SHAPE(-1, 8, 8));
    return mf_add(mf_matmul(a, mf_transpose(a, MF_INTS(0, 2, 1))), mf_eye(8, MF_F32));
}
GIVES(cholesky, mf_cholesky(positive(x)))
GIVES(solve, mf_triangular_solve(mf_add(mf_reshape(x, MF_SHAPE(-1, 8, 8)), mf_mul(8, mf_eye(8, MF_F32))), mf_reshape(y, MF_SHAPE(-1, 8, 8)),
                                 .left_side = true, .lower = true))
static mf_value cell(mf_value h, mf_value x)
{
    mf_value next = mf_tanh(mf_add(mf_mul(h, 0.5), x));
    return mf_tuple(next, next);
}
GIVES(scan_rows, mf_scan(cell, mf_get(y, 0), x))
static mf_value cell_dot(mf_value w, mf_value h, mf_value x)
{
    mf_value next = mf_tanh(mf_add(mf_dot(w, h), x));
    return mf_tuple(next, next);
}
GIVES(scan_rnn, mf_scan(mf_partial(cell_dot, mf_slice_in(y, MF_INTS(0, 0), MF_INTS(16, 16), MF_INTS(1, 1))),
                        mf_get(mf_get(y, 0), mf_range(0, 16)), mf_slice_in(x, MF_INTS(0, 0), MF_INTS(rows, 16), MF_INTS(1, 1))))
static mf_value body(mf_value k, mf_value c) { return mf_add(mf_mul(c, 0.5), mf_astype(k, MF_F32)); }
GIVES(fori_1000, mf_fori_loop(0, 1000, body, mf_get(mf_get(x, 0), 0)))
static mf_value below(mf_value c) { return mf_less(c, 1000); }
static mf_value step(mf_value c) { return mf_add(c, 1); }
GIVES(while_1000, mf_while(below, step, mf_mul(mf_get(mf_get(x, 0), 0), 0)))

/* ---- training: layers, their gradients, an optimiser's update. Images are 8 x 8 with 16 channels; 4 heads of 8 channels */

#define GRADIENT(name, ...)                                       \
    static mf_value name##_of(mf_value x, mf_value y, mf_value i) \
    {                                                             \
        UNUSED;                                                   \
        return mf_sum(__VA_ARGS__);                               \
    }                                                             \
    GIVES(name, mf_call(mf_grad(name##_of), x, y, i))

static mf_value images(mf_value x) { return mf_reshape(x, MF_SHAPE(-1, 8, 8, 16)); }
static mf_value heads(mf_value x) { return mf_reshape(x, MF_SHAPE(-1, 32, 4, 8)); }
static mf_value classes(mf_value i) { return mf_remainder(i, mf_i(columns)); }

static mf_value normalised(mf_value x, mf_axis axis)
{
    mf_value apart = mf_sub(x, mf_mean(x, .axis = axis, .keepdims = true));
    return mf_mul(apart, mf_rsqrt(mf_add(mf_var(x, .axis = axis, .keepdims = true), 1e-5)));
}

static mf_value attention(mf_value x, mf_value y)
{
    mf_value scores = mf_mul(mf_einsum("bthd,bshd->bhts", heads(x), heads(y)), 0.35);
    return mf_einsum("bhts,bshd->bthd", mf_softmax(scores, -1), heads(y));
}

static mf_value first_of(mf_value y, mf_shape shape)
{
    int64_t n = 1;
    for (int k = 0; k < shape.rank; k++)
        n *= shape.dims[k];
    return mf_reshape(mf_slice_in_dim(mf_ravel(y), 0, n, 1, 0), shape);
}

static mf_value conv_1x1(mf_value x, mf_value y) { return mf_conv_general_dilated(images(x), first_of(y, MF_SHAPE(1, 1, 16, 16))); }

static mf_value conv_depthwise(mf_value x, mf_value y)
{
    return mf_conv_general_dilated(images(x), first_of(y, MF_SHAPE(3, 3, 1, 16)), .padding = MF_SAME, .feature_group_count = 16);
}

static mf_value conv_3x3(mf_value x, mf_value y)
{
    return mf_conv_general_dilated(images(x), first_of(y, MF_SHAPE(3, 3, 16, 4)), .padding = MF_SAME);
}

#define POOL .window_shape = MF_INTS(2, 2), .strides = MF_INTS(2, 2)

GIVES(softmax_last, mf_softmax(x, -1))
GIVES(log_softmax_last, mf_log_softmax(x, -1))
GRADIENT(softmax_grad, mf_mul(mf_softmax(x, -1), y))
GRADIENT(log_softmax_grad, mf_mul(mf_log_softmax(x, -1), y))
GRADIENT(cross_entropy_grad, mf_softmax_cross_entropy_with_integer_labels(x, classes(i)))
GIVES(batch_norm, normalised(images(x), mf_axes(0, 1, 2)))
GRADIENT(batch_norm_grad, mf_mul(normalised(images(x), mf_axes(0, 1, 2)), images(y)))
GIVES(layer_norm, normalised(x, -1))
GRADIENT(layer_norm_grad, mf_mul(normalised(x, -1), y))
GIVES(std_first, mf_std(x, 0))
GIVES(var_all, mf_var(x))
GIVES(mean_last, mf_mean(x, -1))
GIVES(norm_all, mf_sqrt(mf_sum(mf_square(x))))
GIVES(gelu, mf_gelu(x))
GRADIENT(gelu_grad, mf_mul(mf_gelu(x), y))
GIVES(silu, mf_silu(x))
GRADIENT(relu_grad, mf_mul(mf_relu(x), y))
GIVES(attention, attention(x, y))
GRADIENT(attention_grad, attention(x, y))
GIVES(avg_pool, mf_avg_pool(images(x), POOL))
GRADIENT(avg_pool_grad, mf_square(mf_avg_pool(images(x), POOL)))
GIVES(max_pool, mf_max_pool(images(x), POOL))
GRADIENT(max_pool_grad, mf_square(mf_max_pool(images(x), POOL)))
GIVES(conv_1x1, conv_1x1(x, y))
GRADIENT(conv_1x1_grad, mf_square(conv_1x1(x, y)))
GRADIENT(conv_1x1_kernel_grad, mf_square(conv_1x1(y, x)))
GIVES(conv_depthwise, conv_depthwise(x, y))
GRADIENT(conv_depthwise_grad, mf_square(conv_depthwise(x, y)))
GRADIENT(conv_depthwise_kernel_grad, mf_square(conv_depthwise(y, x)))
GIVES(conv_3x3, conv_3x3(x, y))
GRADIENT(conv_3x3_grad, mf_square(conv_3x3(x, y)))
GRADIENT(conv_3x3_kernel_grad, mf_square(conv_3x3(y, x)))
GIVES(conv_transposed, mf_conv_general_dilated(images(x), first_of(y, MF_SHAPE(3, 3, 16, 4)), .padding_low = MF_INTS(1, 1),
                                               .padding_high = MF_INTS(2, 2), .lhs_dilation = MF_INTS(2, 2)))
GIVES(dot_weights, mf_einsum("ri,rj->ij", x, y))
GIVES(dot_rows, mf_matmul(x, first_of(y, MF_SHAPE(columns, 16))))
GIVES(dot_bf16, mf_matmul(mf_astype(x, MF_BF16), mf_astype(first_of(y, MF_SHAPE(columns, 16)), MF_BF16)))
GRADIENT(cumsum_grad, mf_square(mf_cumsum(x, 0)))
GRADIENT(max_grad, mf_max(x, -1))
GRADIENT(take_along_grad, mf_take_along_axis(x, entries(y), 1))
GRADIENT(sort_grad, mf_mul(mf_sort(x, 1), y))
CASE(adam)
{
    UNUSED;
    mf_value m = mf_add(mf_mul(y, 0.9), mf_mul(x, 0.1)), v = mf_add(mf_mul(mf_square(y), 0.999), mf_mul(mf_square(x), 0.001));
    return mf_tuple(mf_sub(x, mf_div(mf_mul(m, 1e-3), mf_add(mf_sqrt(v), 1e-8))), m, v);
}

/* ---- further operations that programs often use */

GIVES(split_last, mf_split(x, 2, 1))
GIVES(split_first, mf_split(x, 4, 0))
GIVES(stack_last, mf_stack(mf_list(x, y), -1))
GIVES(repeat_rows, mf_repeat(x, 2, 0))
GIVES(clip, mf_clip(x, -0.5, 0.5))
GIVES(take_columns, mf_take(x, classes(mf_get(i, mf_range(0, 16))), 1))
GIVES(prod_last, mf_prod(x, -1))
GIVES(min_all, mf_min(x))
GIVES(sum_bf16, mf_sum(mf_astype(x, MF_BF16), -1))
GIVES(median_last, mf_median(x, 1))
GIVES(log, mf_log(mf_abs(x)))
GIVES(tanh, mf_tanh(x))
GIVES(sin, mf_sin(mf_mul(x, 10)))
GIVES(sigmoid, mf_sigmoid(x))
GIVES(erf, mf_erf(x))
GIVES(pow, mf_pow(mf_abs(x), y))
GIVES(rem_i32, mf_remainder(mf_bitcast(x, MF_I32), 1000))
GIVES(div_i32, mf_lax_div(mf_bitcast(x, MF_I32), mf_bitwise_or(mf_bitcast(y, MF_I32), mf_scalar(1, MF_I32))))
GIVES(truncated_normal, mf_random_truncated_normal(KEY, -2, 2, MF_SHAPE(rows, columns), MF_F32))
GIVES(randint, mf_random_randint(KEY, MF_SHAPE(rows, columns), mf_i(0), mf_i(1000), MF_I32))
GIVES(gumbel, mf_random_gumbel(KEY, MF_SHAPE(rows, columns), MF_F32))

/* clang-format off */
#define CASES(C) \
    C(take_rows) C(take_along) C(scatter_add_rows) C(scatter_set_rows) C(scatter_max_rows) C(bincount) C(embedding_grad) \
    C(dropout) C(bits) C(uniform) C(normal) C(categorical) C(permutation) C(argmax_last) C(argmax_first) C(concat_last) \
    C(concat_first) C(pad_edges) C(pad_interior) C(dynamic_slice) C(dynamic_update) C(one_hot) C(tril) C(where) C(cumsum_last) \
    C(cumsum_first) C(cumsum_long) C(cumprod_last) C(cummax_last) C(cumlogsumexp_last) C(logsumexp_last) C(logsumexp_first) \
    C(softmax_first) C(sort_last) C(sort_first) C(sort_long) C(argsort_last) C(argsort_long) C(sort_i32_long) C(top_k) \
    C(searchsorted) C(transpose) C(transpose_middle) C(flip_last) C(roll_last) C(tile_columns) C(sum_first) C(sum_middle) \
    C(sum_last) C(sum_outer) C(max_first) C(var_last) C(any_last) C(sum_i32) C(window_sum) C(window_max) C(window_min) \
    C(window_i32) C(int_dot) C(dot_f64) C(dot_batch) C(dot_batch_3) C(exp_f64) C(tanh_f64) C(sin_f64) C(add_f64) C(complex_mul) \
    C(complex_exp) C(to_bf16) C(to_f16) C(bf16_add) C(exp) C(add) C(cholesky) C(solve) C(scan_rows) C(scan_rnn) C(fori_1000) \
    C(while_1000) C(softmax_last) C(log_softmax_last) C(softmax_grad) C(log_softmax_grad) C(cross_entropy_grad) C(batch_norm) \
    C(batch_norm_grad) C(layer_norm) C(layer_norm_grad) C(std_first) C(var_all) C(mean_last) C(norm_all) C(gelu) C(gelu_grad) \
    C(silu) C(relu_grad) C(attention) C(attention_grad) C(avg_pool) C(avg_pool_grad) C(max_pool) C(max_pool_grad) C(conv_1x1) \
    C(conv_1x1_grad) C(conv_1x1_kernel_grad) C(conv_depthwise) C(conv_depthwise_grad) C(conv_depthwise_kernel_grad) C(conv_3x3) \
    C(conv_3x3_grad) C(conv_3x3_kernel_grad) C(conv_transposed) C(dot_weights) C(dot_rows) C(dot_bf16) C(cumsum_grad) \
    C(max_grad) C(take_along_grad) C(sort_grad) C(adam) C(split_last) C(split_first) C(stack_last) C(repeat_rows) C(clip) \
    C(take_columns) C(prod_last) C(min_all) C(sum_bf16) C(median_last) C(log) C(tanh) C(sin) C(sigmoid) C(erf) C(pow) C(rem_i32) \
    C(div_i32) C(truncated_normal) C(randint) C(gumbel)
/* clang-format on */

typedef mf_value one_case(mf_value x, mf_value y, mf_value i);
static const struct {
    const char *name;
    one_case *run;
} cases[] = {
#define ROW(name) { #name, case_##name },
    CASES(ROW)
};
enum { COUNT = sizeof cases / sizeof *cases };

/* ---- the driver's protocol */

static one_case *running;
static mf_value operands[3];

static double timed(int calls)
{
    double start = now();
    for (int k = 0; k < calls; k++) {
        MF_SCOPE;
        mf_block_until_ready(mf_call(mf_jit(running), operands[0], operands[1], operands[2]));
    }
    return (now() - start) / calls;
}

static bool prepare(const char *name)
{
    static char last[256];
    static int64_t bytes;
    char word[128];
    long long size;
    if (!strcmp(name, last))
        return true;
    if (sscanf(name, "%100[^@]@%lld", word, &size) != 2 || size < 1024)
        return false;
    running = NULL;
    for (int k = 0; k < COUNT; k++)
        if (!strcmp(cases[k].name, word))
            running = cases[k].run;
    snprintf(last, sizeof last, "%s", name);
    if (!running)
        return false;
    if (size != bytes) {
        MF_SCOPE;
        bytes = size;
        columns = bytes <= 65536 ? 16 : 256;
        rows = bytes / 4 / columns;
        mf_assign(&operands[0], numbers(1));
        mf_assign(&operands[1], numbers(1000003));
        mf_assign(&operands[2], row_numbers());
    }
    return true;
}

static void run(const char *name)
{
    const char *message;
    if (!prepare(name)) {
        printf("{\"name\": \"%s\", \"error\": \"unknown workload\"}\n", name);
        fflush(stdout);
        return;
    }
    timed(1);
    double once = timed(1);
    int calls = once > 0.02 ? 1 : (int)(0.02 / (once + 1e-6)) + 1;
    double seconds = timed(calls);
    if (mf_first_error(&message) != MF_OK)
        printf("{\"name\": \"%s\", \"error\": \"%s\"}\n", name, message);
    else
        printf("{\"peer\": \"manyfold\", \"name\": \"%s\", \"seconds\": %.9g, \"calls\": %d, \"rss_mib\": 0}\n", name, seconds, calls);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    char line[256];
    if (argc > 1 && !strcmp(argv[1], "--list")) {
        for (int k = 0; k < COUNT; k++)
            printf("%s\n", cases[k].name);
        return 0;
    }
    mf_set_num_cpu_devices(1);
    printf("{\"name\": \"ready\"}\n");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\r\n")] = 0;
        if (*line)
            run(line);
    }
    return mf_exit_status();
}
