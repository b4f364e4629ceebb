/* The parameter structs of the ops, in one place so that rules of other families and the engines can read them. */
#ifndef MF_OPS_PARAMS_H
#define MF_OPS_PARAMS_H

#include "ir/op.h"

typedef struct mf_axes_params {
    const mf_intlist *axes;
} mf_axes_params; /* reduce_*, rev, squeeze, expand_dims */
typedef struct mf_arg_params {
    int64_t axis;
    mf_dtype index_dtype;
} mf_arg_params; /* argmax, argmin */
typedef struct mf_cum_params {
    int64_t axis;
    bool reverse;
} mf_cum_params; /* cumsum cumprod cummax cummin */
typedef struct mf_power_params {
    int64_t y;
} mf_power_params; /* integer_pow */
typedef struct mf_convert_params {
    mf_dtype dtype;
    bool weak;
} mf_convert_params; /* convert_element_type, bitcast_convert_type */
typedef struct mf_shape_params {
    const mf_intlist *shape;
} mf_shape_params; /* reshape: the new shape */
typedef struct mf_broadcast_params {
    const mf_intlist *shape, *broadcast_dimensions;
} mf_broadcast_params; /* broadcast_in_dim */
typedef struct mf_permutation_params {
    const mf_intlist *permutation;
} mf_permutation_params; /* transpose */
typedef struct mf_slice_params {
    const mf_intlist *start, *limit, *strides;
} mf_slice_params; /* slice: strides has an entry per dimension */
typedef struct mf_sizes_params {
    const mf_intlist *sizes;
} mf_sizes_params; /* dynamic_slice(x, i0, i1, ...) */
typedef struct mf_pad_params {
    const mf_intlist *low, *high, *interior;
} mf_pad_params; /* pad(x, value) */
typedef struct mf_axis_params {
    int64_t axis;
} mf_axis_params; /* concatenate, ... */
typedef struct mf_iota_params {
    mf_dtype dtype;
    const mf_intlist *shape;
    int64_t axis;
} mf_iota_params;
typedef struct mf_dot_params {
    const mf_intlist *lhs_contract, *rhs_contract, *lhs_batch, *rhs_batch;
    mf_dtype preferred;
} mf_dot_params; /* preferred: the result's dtype; 0: the operands' */
/* conv_general_dilated. Dimension numbers as lists of positions: lhs_spec = (batch, feature, spatial...), rhs_spec = (out feature,
 * in feature, spatial...), out_spec as lhs_spec: XLA's ConvDimensionNumbers. */
typedef struct mf_conv_params {
    const mf_intlist *window_strides, *padding_low, *padding_high, *lhs_dilation, *rhs_dilation, *lhs_spec, *rhs_spec, *out_spec;
    int64_t feature_group_count, batch_group_count;
} mf_conv_params;
/* reduce_window_sum, _max and _min, over every dimension of the operand; select_and_scatter_add, select_and_gather_add. */
typedef struct mf_window_params {
    const mf_intlist *window, *strides, *padding_low, *padding_high, *base_dilation, *window_dilation;
} mf_window_params;
/* gather and scatter: XLA's dimension numbers; the index vector is the last dimension of the indices. Out of bounds: mode 0 clamps, 1 fills
 * (gather: NaN or the least integer; scatter: drops), 2 promises that nothing is, 3 fills with zero (the derivative of 1). */
typedef struct mf_gather_params {
    const mf_intlist *offset_dims, *collapsed_slice_dims, *start_index_map, *operand_batching_dims, *start_indices_batching_dims,
        *slice_sizes;
    int64_t mode;
} mf_gather_params;
typedef struct mf_scatter_params {
    const mf_intlist *update_window_dims, *inserted_window_dims, *scatter_dims_to_operand_dims, *operand_batching_dims,
        *scatter_indices_batching_dims;
    int64_t mode;
} mf_scatter_params;
typedef struct mf_solve_params {
    bool left_side, lower, transpose_a, conjugate_a, unit_diagonal;
} mf_solve_params; /* triangular_solve; conjugate_a only with transpose_a */
typedef struct mf_qr_params {
    bool full_matrices;
} mf_qr_params; /* qr */
typedef struct mf_svd_params {
    bool full_matrices, compute_uv;
} mf_svd_params; /* svd */
typedef struct mf_fft_params {
    int64_t kind, length; /* mf_fft_kind of ops/fft/fft.h; length of the real row, or of the complex one */
} mf_fft_params;          /* fft: along the last dimension */
typedef struct mf_sort_params {
    int64_t axis, keys;
} mf_sort_params; /* sort: orders all operands by the first `keys` of them; stable */
typedef struct mf_top_k_params {
    int64_t k;
} mf_top_k_params; /* top_k: along the last dimension */
/* collectives */
typedef struct mf_collective_params {
    const mf_namelist *axes;
    const mf_intlist *groups;
    int64_t group_size;
} mf_collective_params; /* psum pmax pmin; groups: the members of each in turn, empty = one group of all */
typedef struct mf_replicated_params {
    const mf_namelist *axes;
    const char *leaf;   /* path of the leaf in the user's tree, for the message */
} mf_replicated_params; /* check_replicated */
typedef struct mf_gather_axis_params {
    const mf_namelist *axes;
    int64_t axis;
    bool tiled;
    const mf_intlist *groups;
    int64_t group_size;
} mf_gather_axis_params; /* all_gather, psum_scatter (axis = scatter dimension) */
typedef struct mf_all_to_all_params {
    const mf_namelist *axes;
    int64_t split_axis, concat_axis;
    bool tiled;
    const mf_intlist *groups;
    int64_t group_size;
} mf_all_to_all_params;
typedef struct mf_permute_params {
    const mf_namelist *axes;
    const mf_intlist *perm;
} mf_permute_params; /* perm: source, target, source, target ... */
typedef struct mf_axis_name_params {
    const mf_namelist *axes;
} mf_axis_name_params; /* axis_index (row-major over several) */
/* calls and control flow; programs are closed, operands are in the order of their inputs */
typedef struct mf_jit_params {
    mf_program *program;
    const char *name;
} mf_jit_params;
typedef struct mf_remat_params {
    mf_program *program; /* this and name as in mf_jit_params */
    const char *name;
    const char *policy; /* see transform/rules/policy.h; NULL: nothing is saved */
    const mf_namelist *names;
    bool prevent_cse;    /* recomputed values are not merged with the original ones */
    bool differentiated; /* the program recomputes values for a backward pass */
} mf_remat_params;       /* jax.checkpoint */
typedef struct mf_name_params {
    const char *name;
} mf_name_params; /* checkpoint_name */
typedef struct mf_cond_params {
    mf_program_list branches;
} mf_cond_params; /* cond(index i32, operands...): clamped index */
typedef struct mf_while_params {
    mf_program *cond, *body;
    int64_t cond_consts, body_consts;
} mf_while_params; /* operands: cond consts, body consts, carry */
typedef struct mf_scan_params {
    mf_program *body;
    int64_t length, consts, carry;
    bool reverse;
} mf_scan_params; /* operands: consts, carry, xs; results: carry, ys */
typedef struct mf_pmap_params {
    mf_program *program;
    const char *axis_name, *name;         /* axis_name may be NULL */
    int64_t axis_size;                    /* over all processes: the value of psum(1) */
    const mf_intlist *local;              /* the indices of this process, ascending; operands and results have a row for each; empty: all */
    const mf_intlist *in_axes, *out_axes; /* INT64_MIN = None */
    const mf_intlist *devices;            /* global ids, including those for inner maps; empty: the first ones */
    const mf_intlist *donated;            /* per operand 0 or 1; may be empty */
    const char *backend;
} mf_pmap_params;
static inline int64_t mf_pmap_rows(const mf_pmap_params *m) { return m->local->count ? m->local->count : m->axis_size; }
typedef struct mf_custom_params {
    mf_program *program;
    const void *rule;
    int64_t consts;
} mf_custom_params; /* custom_jvp_call, custom_vjp_call; rule: ops/control/custom.h */
typedef struct mf_custom_linear_params {
    mf_program *backward;
    int64_t residuals;
} mf_custom_linear_params; /* custom_linear(residuals, tangents) */

struct mf_host_call;
typedef struct mf_debug_print_params { /* one operand per placeholder; gives an unused bool */
    const char *format;
    const mf_intlist *batch; /* leading dimensions of the operands: one line is printed per row */
} mf_debug_print_params;

typedef struct mf_callback_params {
    const struct mf_host_call *call; /* ops/control/callback.h */
    const mf_intlist *batch;
} mf_callback_params;

typedef struct mf_check_nan_params {
    const char *op;  /* the op whose results the first operands are */
    int64_t results; /* the number of these */
} mf_check_nan_params;

#endif
