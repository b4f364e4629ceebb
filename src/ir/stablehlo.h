/* The interface of the StableHLO emitter for the ops' rules: each rule appends its equation's operations, as text in MLIR's generic form.
 * src/stablehlo/ implements it. Invariants: a value is a name (%3) with its array type; weak types count as their dtype, and an element of
 * a key is a ui64 (two words of ui32 outside the module). After the first error only that error matters. A map's program is one program for
 * all its devices, which are replicas: each axis in scope has a stride, by which the replica's number gives the index along it. */
#ifndef MF_IR_STABLEHLO_H
#define MF_IR_STABLEHLO_H

#include "ir/op.h"

struct mf_hlo_value {
    int name; /* negative: the module's argument -1 - name */
    const mf_type *type;
};

#define MF_HLO_RULE(rule) static void rule(mf_hlo *h, const mf_eqn *e, const mf_hlo_value *in, mf_hlo_value *out)
/* In an op's definition: the single operation that it is, whose results have the equation's types; or why StableHLO cannot express it. */
#define MF_HLO(operation) .stablehlo = mf_hlo_by_name, .hlo = (operation)
#define MF_NO_HLO(reason) .stablehlo = mf_hlo_none, .hlo = (reason)
#define MF_HLO_BY(rule)   .stablehlo = (rule)
void mf_hlo_by_name(mf_hlo *h, const mf_eqn *e, const mf_hlo_value *in, mf_hlo_value *out);
void mf_hlo_none(mf_hlo *h, const mf_eqn *e, const mf_hlo_value *in, mf_hlo_value *out);
void mf_hlo_same(mf_hlo *h, const mf_eqn *e, const mf_hlo_value *in, mf_hlo_value *out); /* the results are the operands */
void mf_hlo_call(mf_hlo *h, const mf_eqn *e, const mf_hlo_value *in, mf_hlo_value *out); /* emits the first program in place */

void h_fail(mf_hlo *h, mf_error_object *e); /* takes the reference; NULL: out of memory */
bool h_failed(const mf_hlo *h);
void *h_alloc(mf_hlo *h, int64_t count, size_t size); /* zeroed, with room for one element more; lives as long as h. NULL after a failure */

/* ---- operations. `op` without a dialect is StableHLO's; `format` gives the attributes, NULL none. */
mf_hlo_value h_op(mf_hlo *h, const char *op, const mf_type *type, const mf_hlo_value *in, int count, const char *format, ...)
    __attribute__((format(printf, 6, 7)));
void h_ops(mf_hlo *h, const char *op, const mf_hlo_value *in, int in_count, mf_hlo_value *out,
           int out_count);                                                        /* the results have the types in out */
mf_hlo_value h_unary(mf_hlo *h, const char *op, mf_hlo_value x);                  /* the result has x's type */
mf_hlo_value h_binary(mf_hlo *h, const char *op, mf_hlo_value x, mf_hlo_value y); /* the result has x's type */
/* direction: "LT" and so on; total: IEEE's total order of floats. Complex numbers compare by real part, then by imaginary part. */
mf_hlo_value h_compare(mf_hlo *h, const char *direction, bool total, mf_hlo_value x, mf_hlo_value y);
mf_hlo_value h_atan2(mf_hlo *h, mf_hlo_value y, mf_hlo_value x);
mf_hlo_value h_select(mf_hlo *h, mf_hlo_value predicate, mf_hlo_value yes, mf_hlo_value no);
mf_hlo_value h_convert(mf_hlo *h, mf_hlo_value x, mf_dtype dtype); /* real numbers only */
mf_hlo_value h_part(mf_hlo *h, const char *which, mf_hlo_value x); /* which: "real" or "imag"; x is complex */
mf_hlo_value h_conjugate(mf_hlo *h, mf_hlo_value x);               /* x is complex */
mf_hlo_value h_reshape(mf_hlo *h, mf_hlo_value x, const mf_type *type);
mf_hlo_value h_broadcast(mf_hlo *h, mf_hlo_value x, const mf_type *type, const mf_intlist *where);
mf_hlo_value h_iota(mf_hlo *h, const mf_type *type, int64_t axis);
/* x, a counter 0, 1, 2, ...: in modules for XLA's CPU a few integers behind a barrier, because XLA's compiler takes hours over values
 * computed from a known counter in hundreds of steps. */
mf_hlo_value h_count(mf_hlo *h, mf_hlo_value x);
mf_hlo_value h_slice(mf_hlo *h, mf_hlo_value x, const mf_type *type, const int64_t *start, const int64_t *limit, const int64_t *strides);
mf_hlo_value h_pad(mf_hlo *h, mf_hlo_value x, mf_hlo_value value, const int64_t *low, const int64_t *high, const int64_t *interior);
/* h_row: the row at index (a scalar) along the axis, without that axis. h_put_row: x with that row replaced. */
mf_hlo_value h_row(mf_hlo *h, mf_hlo_value x, mf_hlo_value index, int axis);
mf_hlo_value h_put_row(mf_hlo *h, mf_hlo_value x, mf_hlo_value row, mf_hlo_value index, int axis);

/* ---- constants */
mf_hlo_value h_bytes(mf_hlo *h, const mf_type *type, const void *element); /* every element is *element */
mf_hlo_value h_full(mf_hlo *h, const mf_type *type, double x);
mf_hlo_value h_scalar(mf_hlo *h, mf_dtype dtype, double x);
mf_hlo_value h_literal(mf_hlo *h, mf_literal *l);

/* ---- operations with regions: h_open; for each region h_region, its operations and h_return; h_close. Results have the types in out. */
void h_open(mf_hlo *h, const char *op, const mf_hlo_value *in, int in_count, mf_hlo_value *out, int out_count, const char *format, ...)
    __attribute__((format(printf, 7, 8)));
void h_region(mf_hlo *h, mf_hlo_value *arguments, int count); /* the types are given, the names are filled in */
void h_return(mf_hlo *h, const mf_hlo_value *values, int count);
void h_close(mf_hlo *h, const mf_hlo_value *in, int in_count, const mf_hlo_value *out, int out_count);
void h_program(mf_hlo *h, const mf_program *p, const mf_hlo_value *in, mf_hlo_value *out); /* p's equations, in place */
/* The same for the program of a map whose axis has been pushed. An operand with fewer dimensions than the input is already this replica's
 * part along the axes of inner maps; where out[o] has a type of fewer dimensions than the output, such a part is wanted. */
void h_map_program(mf_hlo *h, const mf_program *p, const mf_hlo_value *in, mf_hlo_value *out);
static inline bool h_is_part(const mf_type *type, const mf_variable *of) { return type && type->rank < of->type->rank; }

/* ---- reducers */
mf_dtype h_sum_dtype(mf_dtype dtype); /* in which elements of this dtype are summed: f32 for f16 and bf16 */
mf_dtype h_product_dtype(const mf_hlo *h,
                         mf_dtype dtype); /* in which they are multiplied: f32 for f16 and bf16 if the module is for XLA's CPU */
mf_hlo_value h_join(mf_hlo *h, mf_reducer r, mf_hlo_value x, mf_hlo_value y);
mf_hlo_value h_identity(mf_hlo *h, mf_reducer r, const mf_type *type);
void h_reducer_region(mf_hlo *h, mf_reducer r, mf_dtype dtype);
mf_hlo_value h_reduce(mf_hlo *h, mf_reducer r, mf_hlo_value x, const mf_intlist *axes); /* f16 and bf16 are summed in f32 */

/* ---- axes of maps */
void h_push_axis(mf_hlo *h, const char *name, int64_t size);
void h_pop_axis(mf_hlo *h);
mf_hlo_value h_axis_index(mf_hlo *h, const mf_namelist *axes); /* an i32 */
mf_hlo_value h_innermost_index(mf_hlo *h);
/* The groups of replicas as an attribute; groups as in mf_collective_params. The text lives as long as h. */
const char *h_groups(mf_hlo *h, const mf_namelist *axes, const mf_intlist *groups, int64_t group_size);
int64_t h_group_size(mf_hlo *h, const mf_namelist *axes, const mf_intlist *groups, int64_t group_size);
const char *h_innermost_groups(mf_hlo *h);
const char *h_pairs(mf_hlo *h, const mf_namelist *axes, const mf_intlist *perm); /* pairs of source and target */

/* For each replica the first member of its group. The caller frees it (mf_free). NULL after a failure. */
int *h_roots(mf_hlo *h, const mf_namelist *axes, const mf_intlist *groups, int64_t group_size);

/* ---- findings: errors that the program detects while it runs and the host reports afterwards (stablehlo/hlo_findings.c) */
bool h_reports(const mf_hlo *h);                   /* whether this module reports findings */
bool h_looks_at(const mf_hlo *h, const mf_eqn *e); /* whether the host wants to know what e detects */
/* Reports that e has found something in this operand where `is`, a bool, is true. place: a ui64, or without a type: none. Takes over
 * `first`: for each replica the one that it was compared with, or NULL. */
void h_find(mf_hlo *h, const mf_eqn *e, int operand, mf_hlo_value is, mf_hlo_value place, int *first);
/* The branch index of e (an i32), and whether the loop e continues (a bool), as agreed by all replicas that meet inside; unchanged where
 * none do. */
mf_hlo_value h_agreed_branch(mf_hlo *h, const mf_eqn *e, mf_hlo_value index);
mf_hlo_value h_agreed_round(mf_hlo *h, const mf_eqn *e, mf_hlo_value more);
/* Host calls keep the program's order among themselves and with findings. */
bool h_calls_host(const mf_hlo *h); /* whether this module can call the host */
void h_host_call(mf_hlo *h, const mf_eqn *e, const mf_hlo_value *in,
                 mf_hlo_value *out); /* a call of e's evaluation; an error of it becomes a finding */
/* For rules with regions, which carry the findings so far as one more value. h_put_found appends that value if the module reports findings
 * and returns the new count; h_set_found sets it from here on. */
int h_put_found(const mf_hlo *h, mf_hlo_value *list, int count);
void h_set_found(mf_hlo *h, mf_hlo_value v);

/* ---- attributes; the texts live as long as h */
const char *h_keep(mf_hlo *h, mf_text *t);                                          /* a copy of t's text; frees t */
const char *h_ints(mf_hlo *h, const mf_intlist *list);                              /* array<i64: 1, 2> */
const char *h_array(mf_hlo *h, const int64_t *at, int count);                       /* the same */
const char *h_list(mf_hlo *h, const mf_intlist *list);                              /* [1, 2] */
const char *h_edges(mf_hlo *h, const int64_t *low, const int64_t *high, int count); /* dense<[[l, h], ...]> : tensor<nx2xi64> */

#endif
