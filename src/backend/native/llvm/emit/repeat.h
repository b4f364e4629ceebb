/* Shared by the files that write a loop as one function: the text under construction, and the model of a kernel's memory. */
#ifndef MF_BACKEND_NATIVE_LLVM_EMIT_REPEAT_H
#define MF_BACKEND_NATIVE_LLVM_EMIT_REPEAT_H

#include "backend/native/llvm/llvm.h"

/* Limits: of a text's instructions; of its bytes on the stack; of a value's elements; of vectors in registers for all constants
 * together. */
enum { MF_REPEAT_VALUES = 12000, MF_REPEAT_STACK = 1 << 18, MF_REPEAT_ELEMENTS = 16384, MF_REPEAT_HELD = 64 };

/* Bytes [from, to) of a place: in registers, at an address, or constant data. */
typedef struct mf_cell {
    mf_value_place place;
    int index;
    int64_t from, to;
    mf_ir_vectors in;
    mf_ir_value address;
    const char *data;
    bool fixed; /* the same in all rounds of all loops */
    bool owned; /* on the stack and not shared: may be overwritten when it is read for the last time */
} mf_cell;

typedef struct mf_cells { /* of one kernel */
    const mf_native_kernel *kernel;
    int count;
    mf_cell *at; /* newest last */
} mf_cells;

typedef struct mf_repeat { /* the writing of one text */
    mf_ir *ir;
    mf_text *before; /* the text before the outermost loop that is being written; NULL: not in a loop */
    bool has_rare_memory;
    int held;      /* number of vectors read before the loops */
    int64_t stack; /* bytes */
} mf_repeat;

/* Memory for as long as the text is being written. NULL: the text fails. */
void *mf_repeat_alloc(mf_repeat *r, int64_t count, size_t size);
int64_t *mf_repeat_counting(mf_repeat *r, int64_t n); /* 0, 1, 2, ... */
static inline void mf_repeat_give_up(mf_repeat *r) { r->ir->failed = true; }
/* Text written between these two goes before the outermost loop. It may have blocks of its own. */
void mf_repeat_leave(mf_repeat *r);
void mf_repeat_return(mf_repeat *r);
mf_ir_value mf_repeat_stack(mf_repeat *r, int64_t bytes);
/* The address of part number `at`, of so many bytes, of a stacked value. */
mf_ir_value mf_repeat_part(mf_repeat *r, mf_ir_value base, mf_ir_value at, int64_t bytes);

/* cells.c: sets the content of the bytes at c.place. */
void mf_cells_put(mf_cells *m, mf_cell c);
void mf_cells_write(mf_repeat *r, mf_cells *m, int value, mf_ir_vectors v);
/* Finds bytes [from, to) of a value, counted from its first byte. False: they were not written. */
bool mf_cells_find(const mf_cells *m, int value, int64_t from, int64_t to, mf_cell *found);
/* Elements index[0 .. n), counted from the value's first. */
mf_ir_vectors mf_cells_read(mf_repeat *r, const mf_cells *m, int value, mf_dtype dtype, const int64_t *index, int64_t n);
static inline bool mf_cells_can(mf_dtype d) { return d >= MF_BOOL && d <= MF_F64; }

/* emit_sums.c: reductions and products. */
void mf_repeat_sums(mf_repeat *r, mf_cells *m, const mf_native_step *s, const mf_form *f);

#endif
