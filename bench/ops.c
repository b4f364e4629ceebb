/* Single operations side by side with a peer: the cases of peers/jax_ops.py under the same names, "case@bytes", driven one repetition at
 * a time over standard input, one JSON line an answer. Each case is a jitted function of x, y (f32 [rows, columns], `bytes` each) and i
 * (i32 [rows], row numbers), whose values both sides compute by one formula; it runs on one device with all cores. */
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

CASE(take_rows)
{
    UNUSED;
    return mf_take(x, i, 0);
}
CASE(take_along)
{
    UNUSED;
    return mf_take_along_axis(x, mf_astype(mf_mul(mf_abs(y), (double)columns - 1), MF_I32), 1);
}
CASE(scatter_add_rows)
{
    UNUSED;
    return mf_index_add(mf_zeros_like(x), i, x);
}
CASE(scatter_set_rows)
{
    UNUSED;
    return mf_index_update(y, i, x);
}
CASE(scatter_max_rows)
{
    UNUSED;
    return mf_index_max(y, i, x);
}
CASE(bincount)
{
    UNUSED;
    return mf_bincount(mf_astype(mf_mul(mf_abs(mf_ravel(y)), 255), MF_I32), 256);
}
static mf_value summed(mf_value x, mf_value i) { return mf_sum(mf_square(mf_take(x, i, 0))); }
CASE(embedding_grad)
{
    UNUSED;
    return mf_call(mf_grad(summed), x, i);
}
CASE(dropout)
{
    UNUSED;
    return mf_where(mf_random_bernoulli(mf_random_fold_in(mf_random_key(1), mf_get(i, 0)), 0.9, MF_SHAPE(rows, columns)), mf_div(x, 0.9),
                    0);
}
CASE(bits)
{
    UNUSED;
    return mf_random_bits(mf_random_fold_in(mf_random_key(1), mf_get(i, 0)), MF_SHAPE(rows, columns), MF_U32);
}
CASE(uniform)
{
    UNUSED;
    return mf_random_uniform(mf_random_fold_in(mf_random_key(1), mf_get(i, 0)), MF_SHAPE(rows, columns), MF_F32);
}
CASE(normal)
{
    UNUSED;
    return mf_random_normal(mf_random_fold_in(mf_random_key(1), mf_get(i, 0)), MF_SHAPE(rows, columns), MF_F32);
}
CASE(categorical)
{
    UNUSED;
    return mf_random_categorical(mf_random_fold_in(mf_random_key(1), mf_get(i, 0)), x, -1, MF_SHAPE(rows));
}
CASE(permutation)
{
    UNUSED;
    return mf_random_permutation(mf_random_fold_in(mf_random_key(1), mf_get(i, 0)), rows * columns);
}
CASE(argmax_last)
{
    UNUSED;
    return mf_argmax(x, -1);
}
CASE(argmax_first)
{
    UNUSED;
    return mf_argmax(x, 0);
}
CASE(concat_last)
{
    UNUSED;
    return mf_concatenate(mf_list(x, y), 1);
}
CASE(concat_first)
{
    UNUSED;
    return mf_concatenate(mf_list(x, y), 0);
}
CASE(pad_edges)
{
    UNUSED;
    return mf_pad(x, mf_f(0), MF_INTS(1, 1), MF_INTS(1, 1), MF_INTS(0, 0));
}
CASE(pad_interior)
{
    UNUSED;
    return mf_pad(x, mf_f(0), MF_INTS(0, 0), MF_INTS(0, 0), MF_INTS(0, 1));
}
CASE(dynamic_slice)
{
    UNUSED;
    return mf_dynamic_slice_in_dim(x, mf_get(i, 0), mf_dim(x, 0) / 2, 0);
}
CASE(dynamic_update)
{
    UNUSED;
    return mf_dynamic_update_slice_in_dim(x, mf_slice_in_dim(y, 0, rows / 2, 1, 0), mf_get(i, 0), 0);
}
CASE(one_hot)
{
    UNUSED;
    return mf_one_hot(i, (int)columns);
}
CASE(tril)
{
    UNUSED;
    return mf_tril(x, 0);
}
CASE(where)
{
    UNUSED;
    return mf_where(mf_greater(x, y), x, 0);
}
CASE(cumsum_last)
{
    UNUSED;
    return mf_cumsum(x, 1);
}
CASE(cumsum_first)
{
    UNUSED;
    return mf_cumsum(x, 0);
}
CASE(cumsum_long)
{
    UNUSED;
    return mf_cumsum(mf_ravel(x), 0);
}
CASE(cumprod_last)
{
    UNUSED;
    return mf_cumprod(x, 1);
}
CASE(cummax_last)
{
    UNUSED;
    return mf_cummax(x, 1);
}
CASE(cumlogsumexp_last)
{
    UNUSED;
    return mf_cumlogsumexp(x, 1);
}
CASE(logsumexp_last)
{
    UNUSED;
    return mf_logsumexp(x, -1);
}
CASE(logsumexp_first)
{
    UNUSED;
    return mf_logsumexp(x, 0);
}
CASE(softmax_first)
{
    UNUSED;
    return mf_softmax(x, 0);
}
CASE(sort_last)
{
    UNUSED;
    return mf_sort(x, 1);
}
CASE(sort_first)
{
    UNUSED;
    return mf_sort(x, 0);
}
CASE(sort_long)
{
    UNUSED;
    return mf_sort(mf_ravel(x), 0);
}
CASE(argsort_last)
{
    UNUSED;
    return mf_argsort(x, 1);
}
CASE(argsort_long)
{
    UNUSED;
    return mf_argsort(mf_ravel(x), 0);
}
CASE(sort_i32_long)
{
    UNUSED;
    return mf_sort(mf_bitcast(mf_ravel(x), MF_I32), 0);
}
CASE(top_k)
{
    UNUSED;
    return mf_top_k(x, 8, 1);
}
CASE(searchsorted)
{
    UNUSED;
    return mf_searchsorted(mf_cumsum(mf_abs(mf_get(x, 0)), 0), mf_mul(mf_ravel(y), 32), false);
}
CASE(transpose)
{
    UNUSED;
    return mf_transpose(x, MF_INTS0);
}
CASE(transpose_middle)
{
    UNUSED;
    return mf_transpose(mf_reshape(x, MF_SHAPE(-1, 8, 8)), MF_INTS(0, 2, 1));
}
CASE(flip_last)
{
    UNUSED;
    return mf_flip(x, mf_axes(1));
}
CASE(roll_last)
{
    UNUSED;
    return mf_roll(x, 3, 1);
}
CASE(tile_columns)
{
    UNUSED;
    return mf_tile(x, MF_INTS(1, 2));
}
CASE(sum_first)
{
    UNUSED;
    return mf_sum(x, 0);
}
CASE(sum_middle)
{
    UNUSED;
    return mf_sum(mf_reshape(x, MF_SHAPE(-1, 8, 8)), 1);
}
CASE(sum_last)
{
    UNUSED;
    return mf_sum(x, 1);
}
CASE(sum_outer)
{
    UNUSED;
    return mf_sum(mf_reshape(x, MF_SHAPE(-1, 8, 8)), mf_axes(0, 2));
}
CASE(max_first)
{
    UNUSED;
    return mf_max(x, 0);
}
CASE(var_last)
{
    UNUSED;
    return mf_var(x, -1);
}
CASE(any_last)
{
    UNUSED;
    return mf_any(mf_greater(x, 0.99), -1);
}
CASE(sum_i32)
{
    UNUSED;
    return mf_sum(mf_bitcast(x, MF_I32));
}
CASE(window_sum)
{
    UNUSED;
    return mf_reduce_window_sum(x, .window = MF_INTS(1, 5), .strides = MF_INTS(1, 1), .padding = MF_SAME);
}
CASE(window_max)
{
    UNUSED;
    return mf_reduce_window_max(x, .window = MF_INTS(3, 3), .strides = MF_INTS(1, 1), .padding = MF_SAME);
}
CASE(window_min)
{
    UNUSED;
    return mf_reduce_window_min(x, .window = MF_INTS(2, 2), .strides = MF_INTS(2, 2));
}
CASE(window_i32)
{
    UNUSED;
    return mf_reduce_window_max(mf_bitcast(x, MF_I32), .window = MF_INTS(2, 2), .strides = MF_INTS(2, 2));
}
CASE(int_dot)
{
    UNUSED;
    mf_value a = mf_astype(mf_mul(x, 100), MF_I32), b = mf_astype(mf_mul(mf_slice_in_dim(y, 0, 8, 1, 0), 100), MF_I32);
    return mf_matmul(a, mf_transpose(b, MF_INTS0));
}
CASE(dot_f64)
{
    UNUSED;
    return mf_matmul(mf_astype(x, MF_F64), mf_transpose(mf_astype(mf_slice_in_dim(y, 0, 8, 1, 0), MF_F64), MF_INTS0));
}
CASE(dot_batch)
{
    UNUSED;
    return mf_matmul(mf_reshape(x, MF_SHAPE(-1, 8, 8)), mf_reshape(y, MF_SHAPE(-1, 8, 8)));
}
CASE(dot_batch_3)
{
    UNUSED;
    return mf_matmul(mf_reshape(mf_get(x, mf_range(0, rows / 9 * 9)), MF_SHAPE(-1, 3, 3)),
                     mf_reshape(mf_get(y, mf_range(0, rows / 9 * 9)), MF_SHAPE(-1, 3, 3)));
}
CASE(exp_f64)
{
    UNUSED;
    return mf_exp(mf_astype(x, MF_F64));
}
CASE(tanh_f64)
{
    UNUSED;
    return mf_tanh(mf_astype(x, MF_F64));
}
CASE(sin_f64)
{
    UNUSED;
    return mf_sin(mf_astype(x, MF_F64));
}
CASE(add_f64)
{
    UNUSED;
    return mf_add(mf_astype(x, MF_F64), mf_astype(y, MF_F64));
}
CASE(complex_mul)
{
    UNUSED;
    mf_value c = mf_complex(x, y);
    return mf_mul(c, mf_conj(c));
}
CASE(complex_exp)
{
    UNUSED;
    return mf_abs(mf_exp(mf_complex(x, y)));
}
CASE(to_bf16)
{
    UNUSED;
    return mf_astype(x, MF_BF16);
}
CASE(to_f16)
{
    UNUSED;
    return mf_astype(x, MF_F16);
}
CASE(bf16_add)
{
    UNUSED;
    return mf_add(mf_astype(x, MF_BF16), mf_astype(y, MF_BF16));
}
CASE(exp)
{
    UNUSED;
    return mf_exp(x);
}
CASE(add)
{
    UNUSED;
    return mf_add(x, y);
}
static mf_value positive(mf_value x)
{
    mf_value a = mf_reshape(x, MF_SHAPE(-1, 8, 8));
    return mf_add(mf_matmul(a, mf_transpose(a, MF_INTS(0, 2, 1))), mf_eye(8, MF_F32));
}
CASE(cholesky)
{
    UNUSED;
    return mf_cholesky(positive(x));
}
CASE(solve)
{
    UNUSED;
    return mf_triangular_solve(mf_add(mf_reshape(x, MF_SHAPE(-1, 8, 8)), mf_mul(8, mf_eye(8, MF_F32))), mf_reshape(y, MF_SHAPE(-1, 8, 8)),
                               .left_side = true, .lower = true);
}
static mf_value cell(mf_value h, mf_value x)
{
    mf_value next = mf_tanh(mf_add(mf_mul(h, 0.5), x));
    return mf_tuple(next, next);
}
CASE(scan_rows)
{
    UNUSED;
    return mf_scan(cell, mf_get(y, 0), x);
}
static mf_value cell_dot(mf_value w, mf_value h, mf_value x)
{
    mf_value next = mf_tanh(mf_add(mf_dot(w, h), x));
    return mf_tuple(next, next);
}
CASE(scan_rnn)
{
    UNUSED;
    return mf_scan(mf_partial(cell_dot, mf_slice_in(y, MF_INTS(0, 0), MF_INTS(16, 16), MF_INTS(1, 1))),
                   mf_get(mf_get(y, 0), mf_range(0, 16)), mf_slice_in(x, MF_INTS(0, 0), MF_INTS(rows, 16), MF_INTS(1, 1)));
}
static mf_value body(mf_value k, mf_value c) { return mf_add(mf_mul(c, 0.5), mf_astype(k, MF_F32)); }
CASE(fori_1000)
{
    UNUSED;
    return mf_fori_loop(0, 1000, body, mf_get(mf_get(x, 0), 0));
}
static mf_value below(mf_value c) { return mf_less(c, 1000); }
static mf_value step(mf_value c) { return mf_add(c, 1); }
CASE(while_1000)
{
    UNUSED;
    return mf_while(below, step, mf_mul(mf_get(mf_get(x, 0), 0), 0));
}

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
    C(while_1000)
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
