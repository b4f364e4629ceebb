/* Shared by the files that make loops with LLVM. */
#ifndef MF_BACKEND_NATIVE_LLVM_LLVM_H
#define MF_BACKEND_NATIVE_LLVM_LLVM_H

#include "backend/native/llvm/tier_up.h"

/* The text of a module under construction. A value is the text by which instructions refer to it: "%12", or a constant. */
typedef struct mf_ir {
    mf_text text;
    mf_arena *strings;
    int next;       /* number of the next value or label */
    int width;      /* lanes of the vectors being emitted */
    char label[24]; /* of the current block */
    bool failed;    /* something cannot be emitted, or memory is out */
} mf_ir;
typedef const char *mf_ir_value;

mf_ir_value mf_ir_format(mf_ir *ir, const char *format, ...) __attribute__((format(printf, 2, 3)));
mf_ir_value mf_ir_op(mf_ir *ir, const char *format, ...) __attribute__((format(printf, 2, 3))); /* "%n = ..." */
void mf_ir_line(mf_ir *ir, const char *format, ...) __attribute__((format(printf, 2, 3)));
void mf_ir_label(mf_ir *ir, const char *label);                          /* begins a block */
mf_ir_value mf_ir_splat(mf_ir *ir, mf_dtype dtype, const void *element); /* a constant vector */

const char *mf_ir_scalar(mf_dtype dtype); /* "float"; "i1" for bool, "i16" for f16 and bf16 */
const char *mf_ir_memory(mf_dtype dtype); /* the type in memory: "i8" for bool */

/* op_ir.c: emits one node; in: its operands' values. NULL and ir->failed if it cannot be emitted. */
mf_ir_value mf_ir_node(mf_ir *ir, const mf_group *g, const mf_node *node, const mf_ir_value *in);
bool mf_ir_node_possible(const mf_group *g, const mf_node *node);
/* math_ir.c: the elementary functions of f32; NULL if the name is none of them. Conversions of 16 bits. */
mf_ir_value mf_ir_math(mf_ir *ir, const char *name, mf_ir_value x, mf_ir_value y);
bool mf_ir_has_math(const char *name);
mf_ir_value mf_ir_math_f64(mf_ir *ir, const char *name, mf_ir_value x); /* math_f64.c */
bool mf_ir_has_math_f64(const char *name);
/* r, with lanes of m replaced by what lanes(x, r, mask, lanes, function) computes of x and r in memory: math_ir.c. */
mf_ir_value mf_ir_rare(mf_ir *ir, mf_dtype dtype, uintptr_t lanes, mf_ir_value m, mf_ir_value x, mf_ir_value r, uintptr_t function);
mf_ir_value mf_ir_convert(mf_ir *ir, mf_dtype from, mf_dtype to, mf_ir_value x); /* op_ir.c */
mf_ir_value mf_ir_widen(mf_ir *ir, mf_dtype from, mf_ir_value x);
mf_ir_value mf_ir_narrow(mf_ir *ir, mf_dtype to, mf_ir_value x);
mf_ir_value mf_ir_cut_bf16(mf_ir *ir, mf_ir_value x); /* of an f32 value that bf16 can represent */

/* emit_loop.c: a value from its representation in memory; a scalar in every lane; the address of an element. */
mf_ir_value mf_ir_from_memory(mf_ir *ir, mf_dtype dtype, mf_ir_value vector);
mf_ir_value mf_ir_broadcast(mf_ir *ir, const char *type, mf_ir_value scalar);
mf_ir_value mf_ir_pointer(mf_ir *ir, mf_ir_value base, mf_dtype dtype, mf_ir_value index);
bool mf_ir_may_be_rare(const mf_group *g);    /* lanes may leave the range of the polynomials */
void mf_ir_rare_memory(mf_ir *ir, int width); /* allocates memory for such lanes, in the entry block */
/* vectors.c: memory and folding, in vectors of ir->width lanes of which the first `live` count; lanes beyond are read as 0. */
mf_ir_value mf_ir_mask(mf_ir *ir, int live);
mf_ir_value mf_ir_read(mf_ir *ir, mf_dtype dtype, mf_ir_value place, int live);
void mf_ir_write(mf_ir *ir, mf_dtype dtype, mf_ir_value v, mf_ir_value place, int live);
/* The widest vector. It has as many lanes as a reduction, so that a vector that folds is whole and gives the bits of
 * kernels/reduce/reduce.inc. */
enum { MF_IR_LANES = MF_REDUCE_LANES };
bool mf_ir_can_fold(mf_reducer how, mf_dtype dtype);
mf_ir_value mf_ir_identity(mf_ir *ir, mf_reducer how, mf_dtype dtype);
mf_ir_value mf_ir_join(mf_ir *ir, mf_reducer how, mf_dtype dtype, int width, mf_ir_value a, mf_ir_value b);
mf_ir_value mf_ir_fold_lanes(mf_ir *ir, mf_reducer how, mf_dtype dtype, mf_ir_value v); /* of MF_IR_LANES, to a vector of one */

/* vectors.c: n elements as vectors of at most 16 lanes; the last one is filled up with copies of elements, or 0. */
typedef struct mf_ir_vectors {
    mf_dtype dtype;
    int64_t n;
    int width, count;
    mf_ir_value *at;
} mf_ir_vectors;
mf_ir_vectors mf_ir_vectors_new(mf_ir *ir, mf_dtype dtype, int64_t n);
int mf_ir_live(const mf_ir_vectors *v, int i); /* the number of lanes of vector i that are elements */
/* Elements index[0 .. n) from memory at an address, from vectors, and from constant data. */
mf_ir_vectors mf_ir_gather(mf_ir *ir, mf_dtype dtype, mf_ir_value address, const int64_t *index, int64_t n);
mf_ir_vectors mf_ir_pick(mf_ir *ir, const mf_ir_vectors *from, const int64_t *index, int64_t n);
mf_ir_vectors mf_ir_literal(mf_ir *ir, mf_dtype dtype, const char *data, const int64_t *index, int64_t n);
mf_ir_vectors mf_ir_gathered(mf_ir *ir, mf_dtype dtype, const mf_ir_value *each, int64_t n);      /* from vectors of one lane */
void mf_ir_scatter(mf_ir *ir, const mf_ir_vectors *v, mf_ir_value address, const int64_t *index); /* stores to these elements */
/* v, with elements replaced by w's where index, by element of v, is not -1. */
mf_ir_vectors mf_ir_blend(mf_ir *ir, const mf_ir_vectors *v, const mf_ir_vectors *w, const int64_t *index);
mf_ir_value mf_ir_element(mf_ir *ir, mf_dtype dtype, const void *element); /* "float 0x..." */

/* divide.c: division of f32 by a loop-invariant divisor, prepared by scalars before the loop. */
typedef struct mf_ir_divisor {
    mf_ir_value value, reciprocal; /* value NULL: none */
    mf_ir_value span, zero;        /* for comparison with the bits of a dividend */
} mf_ir_divisor;
bool mf_ir_is_divisor(const mf_group *g, int node); /* a node divides by this one, and preparing the division pays here */
mf_ir_divisor mf_ir_divisor_of(mf_ir *ir, mf_ir_value y);
mf_ir_value mf_ir_divide(mf_ir *ir, mf_ir_value x, const mf_ir_divisor *d); /* like fdiv */

/* emit_rows.c: emits the function @mf_loop of joined steps. */
void mf_ir_rows(mf_ir *ir, const mf_rows_plan *plan);

/* emit_loop.c: emits the function @mf_loop of a plan. */
void mf_ir_loops(mf_ir *ir, const mf_group_plan *plan);
/* repeat.c: the same for all rounds of a while or scan. */
void mf_ir_repeat(mf_ir *ir, const mf_loop_plan *plan);
int mf_llvm_lanes(void); /* f32 lanes of a vector register of this machine */
/* llvm.c: the machine code of the function @mf_loop in a text; *code is passed to mf_llvm_free. NULL: impossible. The first call loads
 * libLLVM. Any thread. */
mf_loop_fn *mf_llvm_code(const char *text, void **code);
void mf_llvm_free(void *code); /* when nothing runs it any more */
bool mf_llvm_open(void);       /* loads libLLVM; false: impossible */
/* Waits until no thread is inside; from then on nothing is compiled, for good. False, at once, if waiting is impossible: the caller
 * itself is inside (LLVM ends the process), or in the child of a fork. */
bool mf_llvm_close(void);
bool mf_llvm_idle(int ms); /* whether no thread is inside, after waiting for so long at most */
void mf_llvm_hold(int ms); /* the same, and for a moment from now on no thread enters: the caller may be about to end the process */

#endif
