/* The public functions, and ops without one, compared with JAX's answers in tests/oracle/ops/, on the default backend. Gradients
 * (`<op>_vjp`) use mf_vjp. Functions that the library does not have are listed in `we_have`; no case is skipped silently. */
#include "ops/ops.h"
#include "trace/trace.h"

#include "check.h"
#include "ops/oracle.h"

/* ---- functions of one, two and three operands by name */
typedef struct function1 {
    const char *name;
    mf_value (*call)(mf_value);
} function1;
static const function1 unary[] = {
    { "exp", mf_exp },
    { "log", mf_log },
    { "log1p", mf_log1p },
    { "expm1", mf_expm1 },
    { "tanh", mf_tanh },
    { "sigmoid", mf_sigmoid },
    { "sin", mf_sin },
    { "cos", mf_cos },
    { "sqrt", mf_sqrt },
    { "rsqrt", mf_rsqrt },
    { "erf", mf_erf },
    { "erf_inv", mf_erf_inv },
    { "neg", mf_neg },
    { "abs", mf_abs },
    { "sign", mf_sign },
    { "floor", mf_floor },
    { "ceil", mf_ceil },
    { "round", mf_round },
    { "square", mf_square },
    { "isnan", mf_isnan },
    { "isinf", mf_isinf },
    { "isfinite", mf_isfinite },
    { "relu", mf_relu },
    { "gelu", mf_gelu },
    { "silu", mf_silu },
    { "softplus", mf_softplus },
    { "gelu_exact", mf_gelu_exact },
    { "hard_swish", mf_hard_swish },
    { "bitwise_not", mf_bitwise_not },
    { "population_count", mf_population_count },
    { "real", mf_real },
    { "imag", mf_imag },
    { "conj", mf_conj },
    { "angle", mf_angle },
    { "trace", mf_trace },
    { "cholesky", mf_cholesky },
    { "det", mf_det },
    { "inv", mf_inv },
    { "pinv", mf_pinv },
    { "clz", mf_clz },
    { "logical_not", mf_logical_not },
};

typedef struct function2 {
    const char *name;
    mf_value (*call)(mf_value, mf_value);
} function2;
static const function2 binary[] = {
    { "add", mf_add },
    { "sub", mf_sub },
    { "mul", mf_mul },
    { "div", mf_lax_div },
    { "rem", mf_lax_rem },
    { "true_divide", mf_div },
    { "floor_divide", mf_floor_divide },
    { "remainder", mf_remainder },
    { "maximum", mf_maximum },
    { "minimum", mf_minimum },
    { "pow", mf_pow },
    { "power", mf_pow },
    { "float_power", mf_pow },
    { "atan2", mf_atan2 },
    { "eq", mf_equal },
    { "ne", mf_not_equal },
    { "lt", mf_less },
    { "le", mf_less_equal },
    { "gt", mf_greater },
    { "ge", mf_greater_equal },
    { "bitwise_and", mf_bitwise_and },
    { "bitwise_or", mf_bitwise_or },
    { "bitwise_xor", mf_bitwise_xor },
    { "logical_and", mf_logical_and },
    { "logical_or", mf_logical_or },
    { "logical_xor", mf_logical_xor },
    { "shift_left", mf_left_shift },
    { "shift_right_logical", mf_right_shift_logical },
    { "dot", mf_dot },
    { "matmul", mf_matmul },
    { "outer", mf_outer },
    { "inner", mf_inner },
    { "vdot", mf_vdot },
    { "logaddexp", mf_logaddexp },
    { "complex", mf_complex },
    { "solve_spd", mf_solve_spd },
    { "solve", mf_solve },
    { "solve_wide", mf_solve },
    { "cho_solve", mf_cho_solve },
    { "random_gamma_grad", mf_random_gamma_grad },
};

/* ---- reductions */
typedef struct reduction {
    const char *name;
    mf_value (*call)(mf_value, const mf_reduce_options *);
} reduction;
static const reduction reductions[] = {
    { "sum", mf_sum_opt }, { "prod", mf_prod_opt }, { "max", mf_max_opt }, { "min", mf_min_opt }, { "any", mf_any_opt },
    { "all", mf_all_opt }, { "mean", mf_mean_opt }, { "var", mf_var_opt }, { "std", mf_std_opt },
};

typedef struct along {
    const char *name;
    mf_value (*call)(mf_value, mf_axis);
} along;
static const along alongs[] = {
    { "argmax", mf_argmax },
    { "argmin", mf_argmin },
    { "cumsum", mf_cumsum },
    { "cumprod", mf_cumprod },
    { "cummax", mf_cummax },
    { "cummin", mf_cummin },
    { "logsumexp", mf_logsumexp },
    { "softmax", mf_softmax },
    { "log_softmax", mf_log_softmax },
    { "sort", mf_sort },
    { "argsort", mf_argsort },
    { "cumlogsumexp", mf_cumlogsumexp },
    { "sort_descending", mf_sort_descending },
    { "argsort_descending", mf_argsort_descending },
};

static bool over_all(const oracle_case *c) { return !oracle_text(c, "axis") || oracle_is(c, "axis", "all"); }

static mf_value call_reduction(const reduction *r, const oracle_case *c, mf_value x)
{
    mf_ints list = oracle_ints(c, "axis");
    mf_axis axes[MF_MAX_RANK];
    for (int i = 0; i < list.count; i++)
        axes[i] = list.at[i];
    mf_reduce_options o = { .axis = over_all(c)       ? MF_ALL
                                    : list.count == 1 ? axes[0]
                                                      : mf_axes_n(axes, list.count),
                            .keepdims = oracle_number(c, "keepdims", 0) != 0,
                            .ddof = (int)oracle_number(c, "ddof", 0) };
    return r->call(x, &o);
}

static mf_value call_reversed(const along *f, mf_value x, mf_axis axis)
{
    static const struct {
        mf_value (*forward)(mf_value, mf_axis), (*call)(mf_value, const mf_cumulative_options *);
    } all[] = { { mf_cumsum, mf_cumsum_opt },
                { mf_cumprod, mf_cumprod_opt },
                { mf_cummax, mf_cummax_opt },
                { mf_cummin, mf_cummin_opt },
                { mf_cumlogsumexp, mf_cumlogsumexp_opt } };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].forward == f->call)
            return all[i].call(x, &(mf_cumulative_options){ .axis = axis, .reverse = true });
    return mf_make_error(MF_ERROR_ARGUMENT, "%s runs forwards only", f->name);
}

static mf_value call_along(const along *f, const oracle_case *c, mf_value x)
{
    if (over_all(c))
        return f->call(mf_ravel(x), 0);
    mf_axis axis = (mf_axis)oracle_number(c, "axis", 0);
    return oracle_number(c, "reverse", 0) != 0 ? call_reversed(f, x, axis) : f->call(x, axis);
}

/* ---- the rest, each by its own attributes */
typedef struct special {
    const char *name;
    mf_value (*call)(const oracle_case *c, const mf_value *x);
} special;

/* The number of operands, without the cotangent. */
static int operand_count(const oracle_case *c) { return c->in_count - (strstr(c->name, "_vjp") != NULL); }
static mf_value rest(const oracle_case *c, const mf_value *x, int from) { return mf_list_n(x + from, operand_count(c) - from); }

static mf_value power(const oracle_case *c, const mf_value *x) { return mf_integer_pow(x[0], (int)oracle_number(c, "y", 0)); }
static mf_value convert(const oracle_case *c, const mf_value *x) { return mf_astype(x[0], oracle_dtype(c, "dtype")); }
static mf_value bitcast(const oracle_case *c, const mf_value *x) { return mf_bitcast(x[0], oracle_dtype(c, "dtype")); }
static mf_value choose(const oracle_case *c, const mf_value *x) { return (void)c, mf_where(x[0], x[1], x[2]); }
static mf_value clamp(const oracle_case *c, const mf_value *x) { return (void)c, mf_bind(&mf_op_clamp, NULL, 3, x[0], x[1], x[2]); }
static mf_value clip(const oracle_case *c, const mf_value *x) { return (void)c, mf_clip(x[0], x[1], x[2]); }

static mf_value arithmetic_shift(const oracle_case *c, const mf_value *x)
{
    (void)c;
    return mf_bind(&mf_op_shift_right_arithmetic, NULL, 2, x[0], x[1]);
}

static mf_value dot_general(const oracle_case *c, const mf_value *x)
{
    return mf_dot_general(x[0], x[1], .lhs_contracting = oracle_ints(c, "lhs_contracting"),
                          .rhs_contracting = oracle_ints(c, "rhs_contracting"), .lhs_batch = oracle_ints(c, "lhs_batch"),
                          .rhs_batch = oracle_ints(c, "rhs_batch"), .preferred_element_type = oracle_dtype(c, "preferred_element_type"));
}

static mf_value convolve(const oracle_case *c, const mf_value *x)
{
    char numbers[64];
    snprintf(numbers, sizeof numbers, "%s", oracle_text(c, "dimension_numbers"));
    char *last = strrchr(numbers, ',');
    memmove(last + 2, last + 1, strlen(last + 1) + 1);
    memcpy(last, "->", 2);
    mf_conv_options o = {
        .window_strides = oracle_ints(c, "window_strides"),
        .lhs_dilation = oracle_ints(c, "lhs_dilation"),
        .rhs_dilation = oracle_ints(c, "rhs_dilation"),
        .padding_low = oracle_column(c, "padding", 0),
        .padding_high = oracle_column(c, "padding", 1),
        .dimension_numbers = numbers,
        .feature_group_count = (int64_t)oracle_number(c, "feature_group_count", 1),
        .batch_group_count = (int64_t)oracle_number(c, "batch_group_count", 1),
    };
    return mf_conv_general_dilated_opt(x[0], x[1], &o);
}

static mf_value reduce_window(const oracle_case *c, const mf_value *x)
{
    mf_window_options o = {
        .window = oracle_ints(c, "window_dimensions"),
        .strides = oracle_ints(c, "window_strides"),
        .padding_low = oracle_column(c, "padding", 0),
        .padding_high = oracle_column(c, "padding", 1),
        .base_dilation = oracle_ints(c, "base_dilation"),
        .window_dilation = oracle_ints(c, "window_dilation"),
    };
    if (oracle_is(c, "computation", "max"))
        return mf_reduce_window_max_opt(x[0], &o);
    return oracle_is(c, "computation", "min") ? mf_reduce_window_min_opt(x[0], &o) : mf_reduce_window_sum_opt(x[0], &o);
}

static mf_pool_options pool_options(const oracle_case *c)
{
    return (mf_pool_options){ .window_shape = oracle_ints(c, "window_shape"),
                              .strides = oracle_ints(c, "strides"),
                              .padding = oracle_is(c, "padding_name", "SAME") ? MF_SAME : MF_VALID };
}

static mf_value max_pool(const oracle_case *c, const mf_value *x)
{
    return mf_max_pool_opt(x[0], &(mf_pool_options[]){ pool_options(c) }[0]);
}
static mf_value avg_pool(const oracle_case *c, const mf_value *x)
{
    return mf_avg_pool_opt(x[0], &(mf_pool_options[]){ pool_options(c) }[0]);
}

static mf_value pad(const oracle_case *c, const mf_value *x)
{
    return mf_pad(x[0], x[1], oracle_column(c, "padding_config", 0), oracle_column(c, "padding_config", 1),
                  oracle_column(c, "padding_config", 2));
}

static mf_value slice(const oracle_case *c, const mf_value *x)
{
    return mf_slice_in(x[0], oracle_ints(c, "start_indices"), oracle_ints(c, "limit_indices"), oracle_ints(c, "strides"));
}

static mf_value dynamic_slice(const oracle_case *c, const mf_value *x)
{
    return mf_dynamic_slice(x[0], rest(c, x, 1), oracle_shape(c, "slice_sizes"));
}
static mf_value dynamic_update(const oracle_case *c, const mf_value *x) { return mf_dynamic_update_slice(x[0], x[1], rest(c, x, 2)); }
static mf_value concatenate(const oracle_case *c, const mf_value *x)
{
    return mf_concatenate(rest(c, x, 0), (int)oracle_number(c, "dimension", 0));
}
static mf_value stack(const oracle_case *c, const mf_value *x) { return mf_stack(rest(c, x, 0), (int)oracle_number(c, "axis", 0)); }
static mf_value reshape(const oracle_case *c, const mf_value *x) { return mf_reshape(x[0], oracle_shape(c, "shape")); }
static mf_value transpose(const oracle_case *c, const mf_value *x) { return mf_transpose(x[0], oracle_ints(c, "permutation")); }
static mf_value broadcast_to(const oracle_case *c, const mf_value *x) { return mf_broadcast_to(x[0], oracle_shape(c, "shape")); }
static mf_value squeeze(const oracle_case *c, const mf_value *x)
{
    return mf_squeeze(x[0], over_all(c) ? MF_ALL : (mf_axis)oracle_number(c, "axis", 0));
}
static mf_value tril(const oracle_case *c, const mf_value *x) { return mf_tril(x[0], (int)oracle_number(c, "k", 0)); }
static mf_value triu(const oracle_case *c, const mf_value *x) { return mf_triu(x[0], (int)oracle_number(c, "k", 0)); }
static mf_value at_set(const oracle_case *c, const mf_value *x) { return (void)c, mf_index_update(x[0], x[1], x[2]); }
static mf_value at_add(const oracle_case *c, const mf_value *x) { return (void)c, mf_index_add(x[0], x[1], x[2]); }
static mf_value at_multiply(const oracle_case *c, const mf_value *x) { return (void)c, mf_index_multiply(x[0], x[1], x[2]); }
static mf_value at_min(const oracle_case *c, const mf_value *x) { return (void)c, mf_index_min(x[0], x[1], x[2]); }
static mf_value at_max(const oracle_case *c, const mf_value *x) { return (void)c, mf_index_max(x[0], x[1], x[2]); }
static mf_value einsum(const oracle_case *c, const mf_value *x) { return mf_einsum_n(oracle_text(c, "subscripts"), x, operand_count(c)); }
static mf_value tensordot(const oracle_case *c, const mf_value *x)
{
    if (oracle_text(c, "lhs"))
        return mf_tensordot_axes(x[0], x[1], oracle_ints(c, "lhs"), oracle_ints(c, "rhs"));
    return mf_tensordot(x[0], x[1], (int)oracle_number(c, "axes", 0));
}
static mf_axis one_axis(const oracle_case *c) { return over_all(c) ? MF_ALL : (mf_axis)oracle_number(c, "axis", 0); }
static mf_value roll(const oracle_case *c, const mf_value *x) { return mf_roll(x[0], (int64_t)oracle_number(c, "shift", 0), one_axis(c)); }
static mf_value tile(const oracle_case *c, const mf_value *x) { return mf_tile(x[0], oracle_ints(c, "reps")); }
static mf_value repeat(const oracle_case *c, const mf_value *x)
{
    return mf_repeat(x[0], (int64_t)oracle_number(c, "repeats", 0), one_axis(c));
}
static mf_value top_k(const oracle_case *c, const mf_value *x) { return mf_top_k(x[0], (int64_t)oracle_number(c, "k", 0), -1); }
static mf_value median(const oracle_case *c, const mf_value *x) { return mf_median(x[0], one_axis(c)); }
static mf_value quantile(const oracle_case *c, const mf_value *x) { return mf_quantile(x[0], x[1], one_axis(c)); }
static mf_value diag(const oracle_case *c, const mf_value *x) { return mf_diag(x[0], (int)oracle_number(c, "k", 0)); }
static mf_value diff(const oracle_case *c, const mf_value *x)
{
    return mf_diff(x[0], (int)oracle_number(c, "n", 1), (int)oracle_number(c, "axis", -1));
}
static mf_value meshgrid(const oracle_case *c, const mf_value *x)
{
    mf_value grids = mf_meshgrid(rest(c, x, 0), oracle_is(c, "indexing", "ij"));
    return operand_count(c) == 1 ? mf_get(grids, 0) : grids;
}
static mf_value norm(const oracle_case *c, const mf_value *x)
{
    return mf_norm_opt(x[0], &(mf_norm_options){ .axis = one_axis(c), .ord = oracle_number(c, "ord", 0) });
}
static bool is_set(const oracle_case *c, const char *key) { return oracle_number(c, key, 0) != 0; }
static mf_value triangular_solve(const oracle_case *c, const mf_value *x)
{
    return mf_triangular_solve(x[0], x[1], .left_side = is_set(c, "left_side"), .lower = is_set(c, "lower"),
                               .transpose_a = is_set(c, "transpose_a"), .conjugate_a = is_set(c, "conjugate_a"));
}
static mf_value searchsorted(const oracle_case *c, const mf_value *x) { return mf_searchsorted(x[0], x[1], oracle_is(c, "side", "right")); }
static mf_value bincount(const oracle_case *c, const mf_value *x) { return mf_bincount(x[0], (int64_t)oracle_number(c, "length", 0)); }

/* In jit, because concrete indices are bounds-checked. */
static mf_value index1(mf_value x, mf_value i) { return mf_get(x, i); }
static mf_value index2(mf_value x, mf_value i, mf_value j) { return mf_get(x, i, j); }
static mf_value indexed(const oracle_case *c, const mf_value *x)
{
    return operand_count(c) == 2 ? mf_call(mf_jit(index1), x[0], x[1]) : mf_call(mf_jit(index2), x[0], x[1], x[2]);
}

static mf_value flip(const oracle_case *c, const mf_value *x)
{
    mf_ints list = oracle_ints(c, "dimensions");
    mf_axis axes[MF_MAX_RANK];
    for (int i = 0; i < list.count; i++)
        axes[i] = list.at[i];
    return mf_flip(x[0], mf_axes_n(axes, list.count));
}

static mf_value iota(const oracle_case *c, const mf_value *x)
{
    (void)x;
    return mf_iota(oracle_dtype(c, "dtype"), oracle_shape(c, "shape"), (int)oracle_number(c, "dimension", 0));
}

static mf_value linspace(const oracle_case *c, const mf_value *x)
{
    (void)x;
    return mf_linspace(oracle_number(c, "start", 0), oracle_number(c, "stop", 0), (int64_t)oracle_number(c, "num", 0),
                       .dtype = oracle_dtype(c, "dtype"), .exclude_endpoint = oracle_number(c, "endpoint", 1) == 0);
}

static mf_value gamma_draws(const oracle_case *c, const mf_value *x)
{
    (void)c;
    return mf_random_gamma(mf_random_key(3), x[0], mf_shape_of(x[0]), mf_dtype_of(x[0]));
}

static mf_value arange(const oracle_case *c, const mf_value *x)
{
    (void)x;
    return mf_arange_step(oracle_number(c, "start", 0), oracle_number(c, "stop", 0), oracle_number(c, "step", 1), oracle_dtype(c, "dtype"));
}

static const mf_intlist *list_of(const oracle_case *c, const char *key)
{
    mf_ints list = oracle_ints(c, key);
    return mf_ints_intern(list.at, list.count);
}

static mf_value broadcast_in_dim(const oracle_case *c, const mf_value *x)
{
    return mf_bind(&mf_op_broadcast_in_dim, &(mf_broadcast_params){ list_of(c, "shape"), list_of(c, "broadcast_dimensions") }, 1, x[0]);
}

static int64_t mode_of(const oracle_case *c) { return oracle_is(c, "mode", "clip") ? 0 : oracle_is(c, "mode", "fill") ? 1 : 2; }

static mf_value gather(const oracle_case *c, const mf_value *x)
{
    mf_gather_params p = { list_of(c, "offset_dims"),
                           list_of(c, "collapsed_slice_dims"),
                           list_of(c, "start_index_map"),
                           list_of(c, "operand_batching_dims"),
                           list_of(c, "start_indices_batching_dims"),
                           list_of(c, "slice_sizes"),
                           mode_of(c) };
    return mf_bind(&mf_op_gather, &p, 2, x[0], x[1]);
}

static mf_value scatter_by(const mf_op *op, const oracle_case *c, const mf_value *x)
{
    mf_scatter_params p = {
        list_of(c, "update_window_dims"),    list_of(c, "inserted_window_dims"),          list_of(c, "scatter_dims_to_operand_dims"),
        list_of(c, "operand_batching_dims"), list_of(c, "scatter_indices_batching_dims"), mode_of(c)
    };
    return mf_bind(op, &p, 3, x[0], x[1], x[2]);
}

static mf_value scatter(const oracle_case *c, const mf_value *x) { return scatter_by(&mf_op_scatter, c, x); }
static mf_value scatter_add(const oracle_case *c, const mf_value *x) { return scatter_by(&mf_op_scatter_add, c, x); }

static mf_value scatter_mul(const oracle_case *c, const mf_value *x) { return scatter_by(&mf_op_scatter_mul, c, x); }
static mf_value scatter_min(const oracle_case *c, const mf_value *x) { return scatter_by(&mf_op_scatter_min, c, x); }
static mf_value scatter_max(const oracle_case *c, const mf_value *x) { return scatter_by(&mf_op_scatter_max, c, x); }

static mf_value take(const oracle_case *c, const mf_value *x)
{
    mf_take_mode mode = oracle_is(c, "mode", "clip") ? MF_TAKE_CLIP : oracle_is(c, "mode", "wrap") ? MF_TAKE_WRAP : MF_TAKE_FILL;
    return over_all(c) ? mf_take(mf_ravel(x[0]), x[1], 0, mode) : mf_take(x[0], x[1], (int)oracle_number(c, "axis", 0), .mode = mode);
}

static mf_value take_along(const oracle_case *c, const mf_value *x)
{
    return mf_take_along_axis(x[0], x[1], (int)oracle_number(c, "axis", 0));
}

static mf_value one_hot(const oracle_case *c, const mf_value *x)
{
    return mf_one_hot(x[0], (int)oracle_number(c, "num_classes", 0), .axis = (int)oracle_number(c, "axis", -1),
                      .dtype = oracle_dtype(c, "dtype"));
}

static mf_value eye(const oracle_case *c, const mf_value *x)
{
    (void)x;
    int64_t n = (int64_t)oracle_number(c, "N", 0);
    return mf_eye(n, MF_F32, .columns = (int64_t)oracle_number(c, "M", (double)n), .k = (int64_t)oracle_number(c, "k", 0));
}

static mf_value cross_entropy(const oracle_case *c, const mf_value *x)
{
    (void)c;
    mf_value picked = mf_mul(mf_one_hot(x[1], 3), mf_log_softmax(x[0], -1));
    return mf_neg(mf_mean(mf_sum(picked, .axis = -1)));
}

/* ---- factorisations: the part that the case names; of vectors, whose sign is arbitrary, the absolute values */
static mf_value part_of(const oracle_case *c, mf_value factors, const char *names, bool signs)
{
    const char *part = oracle_text(c, "part");
    mf_value x = part && !mf_is_error(factors) ? mf_get(factors, (int)(strchr(names, part[0]) - names)) : factors;
    if (part && strcmp(part + 1, "norms") == 0)
        return mf_sum(mf_square(mf_abs(x)), .axis = -1);
    return signs ? x : mf_abs(x);
}

static mf_value qr(const oracle_case *c, const mf_value *x)
{
    mf_qr_mode mode = oracle_is(c, "qr_mode", "complete") ? MF_QR_COMPLETE : oracle_is(c, "qr_mode", "r") ? MF_QR_R : MF_QR_REDUCED;
    return part_of(c, mf_qr(x[0], mode), "qr", true);
}

static mf_value eigh(const oracle_case *c, const mf_value *x)
{
    mf_triangle triangle = oracle_is(c, "uplo", "L") ? MF_TRIANGLE_LOWER : oracle_is(c, "uplo", "U") ? MF_TRIANGLE_UPPER : MF_TRIANGLE_BOTH;
    return part_of(c, mf_eigh(x[0], triangle), "wv", oracle_is(c, "part", "w"));
}

static mf_value svd(const oracle_case *c, const mf_value *x)
{
    if (oracle_is(c, "part", "values"))
        return mf_svd(x[0], .compute_uv = false);
    return part_of(c, mf_svd(x[0], .full_matrices = oracle_number(c, "full", 0) != 0), "usv", false);
}

static mf_value slogdet(const oracle_case *c, const mf_value *x) { return part_of(c, mf_slogdet(x[0]), "sl", true); }

static mf_value nan_to_num(const oracle_case *c, const mf_value *x)
{
    if (!oracle_text(c, "nan"))
        return mf_nan_to_num(x[0]);
    return mf_nan_to_num(x[0], .nan = mf_f(oracle_number(c, "nan", 0)), .posinf = mf_f(oracle_number(c, "posinf", 0)),
                         .neginf = mf_f(oracle_number(c, "neginf", 0)));
}
static mf_value leaky_relu(const oracle_case *c, const mf_value *x)
{
    return oracle_text(c, "parameter") ? mf_leaky_relu(x[0], oracle_number(c, "parameter", 0)) : mf_leaky_relu(x[0]);
}
static mf_value elu(const oracle_case *c, const mf_value *x)
{
    return oracle_text(c, "parameter") ? mf_elu(x[0], oracle_number(c, "parameter", 0)) : mf_elu(x[0]);
}

/* The function with its default axis. */
static mf_value of_default(const oracle_case *c, const mf_value *x)
{
    const char *name = c->name + strlen("default_");
#define CASE(f)                \
    if (strcmp(name, #f) == 0) \
    return mf_##f(x[0])
    CASE(argmax);
    CASE(argmin);
    CASE(cumsum);
    CASE(cumprod);
    CASE(cummax);
    CASE(cummin);
    CASE(cumlogsumexp);
    CASE(sort);
    CASE(argsort);
    CASE(median);
    CASE(diff);
    CASE(softmax);
    CASE(log_softmax);
    CASE(logsumexp);
    CASE(flip);
    CASE(tril);
    CASE(triu);
    CASE(diag);
    CASE(squeeze);
    CASE(stack);
    CASE(concatenate);
#undef CASE
    return mf_make_error(MF_ERROR_ARGUMENT, "no %s", c->name);
}

static mf_value of_rows(const oracle_case *c, const mf_value *x)
{
    int axis = (int)oracle_number(c, "axis", 0);
    return strcmp(c->name, "rows_stack") == 0 ? mf_stack(x[0], axis) : mf_concatenate(x[0], axis);
}

/* Operands: x, the update, three arrays of indices; the paths are numbered as in ops.py. */
static mf_value at_path(const oracle_case *c, const mf_value *x)
{
    const mf_value all = mf_index_slice(mf_range(0, MF_END)), i = x[2], j = x[3], far = x[4];
    const mf_value backwards = mf_index_slice((mf_slice){ true, MF_END, MF_NONE, -1 });
    const mf_value paths[][2] = { { all, mf_i(1) },
                                  { mf_i(1), mf_i(2) },
                                  { mf_index_slice(mf_range(0, 2)), mf_index_slice(mf_range(1, MF_END)) },
                                  { all, j },
                                  { i, j },
                                  { mf_index_slice((mf_slice){ true, 0, MF_END, 2 }), backwards },
                                  { mf_expand_dims(i, 1), j },
                                  { all, far },
                                  { mf_i(-1), { 0 } },
                                  { all, mf_i(1) } };
    const mf_value *path = paths[(int)oracle_number(c, "path", 0)];
    int count = path[1].handle ? 2 : 1;
    static const struct {
        const char *name;
        mf_value (*call)(mf_value, mf_value, const mf_value *, int);
    } methods[] = {
        { "set", mf_at_set_n }, { "add", mf_at_add_n }, { "multiply", mf_at_multiply_n }, { "min", mf_at_min_n }, { "max", mf_at_max_n }
    };
    for (size_t m = 0; m < sizeof methods / sizeof *methods; m++)
        if (oracle_is(c, "method", methods[m].name))
            return methods[m].call(x[0], x[1], path, count);
    return mf_make_error(MF_ERROR_ARGUMENT, "no such method");
}

/* ---- Fourier transforms */
typedef struct line_transform {
    const char *name;
    mf_value (*call)(mf_value, const mf_fft_options *);
} line_transform;
static const line_transform line_transforms[] = {
    { "fft", mf_fft_opt },     { "ifft", mf_ifft_opt }, { "rfft", mf_rfft_opt },
    { "irfft", mf_irfft_opt }, { "hfft", mf_hfft_opt }, { "ihfft", mf_ihfft_opt },
};
typedef struct grid_transform {
    const char *name;
    mf_value (*call)(mf_value, const mf_fftn_options *);
} grid_transform;
static const grid_transform grid_transforms[] = {
    { "fftn", mf_fftn_opt }, { "ifftn", mf_ifftn_opt }, { "rfftn", mf_rfftn_opt }, { "irfftn", mf_irfftn_opt },
    { "fft2", mf_fft2_opt }, { "ifft2", mf_ifft2_opt }, { "rfft2", mf_rfft2_opt }, { "irfft2", mf_irfft2_opt },
};

static mf_fft_norm norm_of(const oracle_case *c)
{
    return oracle_is(c, "norm", "ortho") ? MF_FFT_ORTHO : oracle_is(c, "norm", "forward") ? MF_FFT_FORWARD : MF_FFT_BACKWARD;
}

static mf_value line_transformed(const line_transform *f, const oracle_case *c, mf_value x)
{
    mf_fft_options o = { .n = (int64_t)oracle_number(c, "n", 0), .axis = (int)oracle_number(c, "axis", -1), .norm = norm_of(c) };
    return f->call(x, &o);
}

static mf_value grid_transformed(const grid_transform *f, const oracle_case *c, mf_value x)
{
    return f->call(x, &(mf_fftn_options){ .s = oracle_ints(c, "lengths"), .axes = oracle_ints(c, "axes"), .norm = norm_of(c) });
}

static mf_value fftfreq(const oracle_case *c, const mf_value *x)
{
    (void)x;
    return mf_fftfreq((int64_t)oracle_number(c, "n", 0), oracle_number(c, "d", 1));
}
static mf_value rfftfreq(const oracle_case *c, const mf_value *x)
{
    (void)x;
    return mf_rfftfreq((int64_t)oracle_number(c, "n", 0), oracle_number(c, "d", 1));
}
static mf_axis axis_of(const oracle_case *c) { return over_all(c) ? MF_ALL : (mf_axis)oracle_number(c, "axis", 0); }
static mf_value fftshift(const oracle_case *c, const mf_value *x) { return mf_fftshift(x[0], axis_of(c)); }
static mf_value ifftshift(const oracle_case *c, const mf_value *x) { return mf_ifftshift(x[0], axis_of(c)); }

static const special specials[] = {
    { "fftfreq", fftfreq },
    { "rfftfreq", rfftfreq },
    { "fftshift", fftshift },
    { "ifftshift", ifftshift },
    { "qr", qr },
    { "eigh", eigh },
    { "svd", svd },
    { "slogdet", slogdet },
    { "nan_to_num", nan_to_num },
    { "leaky_relu", leaky_relu },
    { "elu", elu },
    { "rows_stack", of_rows },
    { "rows_concatenate", of_rows },
    { "at_path", at_path },
    { "integer_pow", power },
    { "convert_element_type", convert },
    { "bitcast_convert_type", bitcast },
    { "select", choose },
    { "where", choose },
    { "clamp", clamp },
    { "clip", clip },
    { "shift_right_arithmetic", arithmetic_shift },
    { "dot_general", dot_general },
    { "conv_general_dilated", convolve },
    { "reduce_window", reduce_window },
    { "max_pool", max_pool },
    { "avg_pool", avg_pool },
    { "pad", pad },
    { "slice", slice },
    { "dynamic_slice", dynamic_slice },
    { "dynamic_update_slice", dynamic_update },
    { "concatenate", concatenate },
    { "stack", stack },
    { "reshape", reshape },
    { "transpose", transpose },
    { "broadcast_to", broadcast_to },
    { "broadcast_in_dim", broadcast_in_dim },
    { "squeeze", squeeze },
    { "tril", tril },
    { "triu", triu },
    { "at_set", at_set },
    { "at_add", at_add },
    { "index", indexed },
    { "rev", flip },
    { "iota", iota },
    { "linspace", linspace },
    { "random_gamma", gamma_draws },
    { "arange", arange },
    { "gather", gather },
    { "scatter", scatter },
    { "scatter_add", scatter_add },
    { "scatter_mul", scatter_mul },
    { "scatter_min", scatter_min },
    { "scatter_max", scatter_max },
    { "at_multiply", at_multiply },
    { "at_min", at_min },
    { "at_max", at_max },
    { "einsum", einsum },
    { "tensordot", tensordot },
    { "roll", roll },
    { "tile", tile },
    { "repeat", repeat },
    { "searchsorted", searchsorted },
    { "top_k", top_k },
    { "median", median },
    { "quantile", quantile },
    { "diag", diag },
    { "diff", diff },
    { "meshgrid", meshgrid },
    { "norm", norm },
    { "triangular_solve", triangular_solve },
    { "bincount", bincount },
    { "take", take },
    { "take_along_axis", take_along },
    { "one_hot", one_hot },
    { "eye", eye },
    { "cross_entropy", cross_entropy },
};

/* ---- a case */
#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

/* Whether the case is about `name`, as a value or as a gradient. */
static bool about(const oracle_case *c, const char *name)
{
    size_t n = strlen(name);
    return strncmp(c->name, name, n) == 0 && (c->name[n] == 0 || strcmp(c->name + n, "_vjp") == 0);
}

static mf_value call(const oracle_case *c, const mf_value *x)
{
    if (strncmp(c->name, "default_", strlen("default_")) == 0)
        return of_default(c, x);
    for (int i = 0; i < COUNT(unary); i++)
        if (about(c, unary[i].name))
            return unary[i].call(x[0]);
    for (int i = 0; i < COUNT(binary); i++)
        if (about(c, binary[i].name))
            return binary[i].call(x[0], x[1]);
    for (int i = 0; i < COUNT(reductions); i++)
        if (about(c, reductions[i].name))
            return call_reduction(&reductions[i], c, x[0]);
    for (int i = 0; i < COUNT(alongs); i++)
        if (about(c, alongs[i].name))
            return call_along(&alongs[i], c, x[0]);
    for (int i = 0; i < COUNT(line_transforms); i++)
        if (about(c, line_transforms[i].name))
            return line_transformed(&line_transforms[i], c, x[0]);
    for (int i = 0; i < COUNT(grid_transforms); i++)
        if (about(c, grid_transforms[i].name))
            return grid_transformed(&grid_transforms[i], c, x[0]);
    for (int i = 0; i < COUNT(specials); i++)
        if (about(c, specials[i].name))
            return specials[i].call(c, x);
    return mf_make_error(MF_ERROR_ARGUMENT, "this test knows no function called %s", c->name);
}

/* The function of the differentiated operands; the others are constants. Successive cases have the same address, so the line number
 * distinguishes them. */
typedef struct context {
    const oracle_case *c;
    const char *file;
    int64_t line;
} context;

static mf_value with_chosen(void *p, const mf_value *chosen)
{
    const oracle_case *c = ((context *)p)->c;
    mf_value x[ORACLE_MAX];
    mf_ints which = oracle_ints(c, "argnums");
    memcpy(x, c->in, sizeof x);
    for (int i = 0; i < which.count; i++)
        x[which.at[i]] = chosen[i];
    return call(c, x);
}

static mf_value chosen1(void *p, mf_value a) { return with_chosen(p, (mf_value[]){ a }); }
static mf_value chosen2(void *p, mf_value a, mf_value b) { return with_chosen(p, (mf_value[]){ a, b }); }
static mf_value chosen3(void *p, mf_value a, mf_value b, mf_value d) { return with_chosen(p, (mf_value[]){ a, b, d }); }

static bool sign_matters;

static void check_gradient(const oracle_case *c)
{
    context about_it = { c, c->file, c->line };
    mf_ints which = oracle_ints(c, "argnums");
    mf_value chosen[3];
    for (int i = 0; i < which.count && i < 3; i++)
        chosen[i] = c->in[which.at[i]];
    mf_function f = which.count == 1   ? mf_closure(chosen1, &about_it)
                    : which.count == 2 ? mf_closure(chosen2, &about_it)
                                       : mf_closure(chosen3, &about_it);
    mf_function pullback;
    mf_value out = mf_vjp(f, mf_tuple_n(chosen, which.count), &pullback);
    mf_value back = mf_is_error(out) ? out : mf_call(pullback, c->in[c->in_count - 1]);
    for (int i = 0; i < c->out_count; i++)
        if (!oracle_same(c, i, mf_is_error(back) ? back : mf_get(back, i), c->out[i], false))
            return;
}

static void check_case(const oracle_case *c)
{
    if (strstr(c->name, "_vjp"))
        check_gradient(c);
    else {
        mf_value out = call(c, c->in);
        for (int i = 0; i < c->out_count; i++)
            oracle_same(c, i, c->out_count == 1 || mf_is_error(out) ? out : mf_get(out, i), c->out[i], sign_matters);
    }
}

/* Runs the case alone, and as the second of two in a map: the first has zeros in place of the first operand. */
static mf_value call1(void *p, mf_value a) { return call(((context *)p)->c, (mf_value[]){ a }); }
static mf_value call2(void *p, mf_value a, mf_value b) { return call(((context *)p)->c, (mf_value[]){ a, b }); }
static mf_value call3(void *p, mf_value a, mf_value b, mf_value d) { return call(((context *)p)->c, (mf_value[]){ a, b, d }); }

static void check_mapped(const oracle_case *c)
{
    context about_it = { c, c->file, c->line };
    mf_value stacked[3];
    check_case(c);
    if (c->in_count < 1 || c->in_count > 3 || strstr(c->name, "_vjp"))
        return;
    for (int i = 0; i < c->in_count; i++)
        stacked[i] = mf_stack(mf_list(i == 0 ? mf_zeros_like(c->in[i]) : c->in[i], c->in[i]), 0);
    mf_function f = c->in_count == 1   ? mf_closure(call1, &about_it)
                    : c->in_count == 2 ? mf_closure(call2, &about_it)
                                       : mf_closure(call3, &about_it);
    mf_value mapped[] = { mf_call_n(mf_vmap(f), stacked, c->in_count), mf_call_n(mf_pmap(f), stacked, c->in_count) };
    for (int m = 0; m < 2; m++)
        for (int i = 0; i < c->out_count; i++) {
            mf_value whole = c->out_count == 1 || mf_is_error(mapped[m]) ? mapped[m] : mf_get(mapped[m], i);
            oracle_same(c, i, mf_is_error(whole) ? whole : mf_get(whole, 1), c->out[i], sign_matters);
        }
}

static void check_file(const char *file, bool zeros)
{
    sign_matters = zeros;
    oracle_read(file, check_case);
}

TEST(elementwise) { check_file("ops/elementwise.txt", true); }
TEST(integers) { check_file("ops/integers.txt", true); }
TEST(conversions) { check_file("ops/conversions.txt", true); }
TEST(choosing) { check_file("ops/choosing.txt", true); }
TEST(reductions) { check_file("ops/reductions.txt", false); }
TEST(products) { check_file("ops/products.txt", false); }
TEST(convolutions) { check_file("ops/convolutions.txt", false); }
TEST(windows) { check_file("ops/windows.txt", false); }
TEST(shapes) { check_file("ops/shapes.txt", false); }
TEST(indexing) { check_file("ops/indexing.txt", false); }
TEST(gradients) { check_file("ops/gradients.txt", false); }
TEST(more) { check_file("ops/more.txt", false); }
TEST(fourier) { check_file("ops/fourier.txt", false); }
TEST(linear_algebra)
{
    mf_set_num_cpu_devices(2);
    sign_matters = false;
    oracle_read("ops/linear_algebra.txt", check_mapped);
}

TEST(everyday) { check_file("ops/everyday.txt", true); }

TEST(dtypes)
{
    mf_set_num_cpu_devices(2);
    sign_matters = false;
    oracle_read("ops/dtypes.txt", check_mapped);
}
