/* Between the files that write a loop as one function: the text under construction, and the model of a kernel's memory. */
#ifndef MF_BACKEND_NATIVE_LLVM_EMIT_REPEAT_H
#define MF_BACKEND_NATIVE_LLVM_EMIT_REPEAT_H

#include "backend/native/llvm/llvm.h"

/* Of a text: instructions, bytes on the stack. Of a value: elements. Of constants, all together: vectors in registers. */
enum { MF_REPEAT_VALUES = 12000, MF_REPEAT_STACK = 1 << 18, MF_REPEAT_ELEMENTS = 16384, MF_REPEAT_HELD = 64 };

/* Bytes [from, to) of a place: in registers, or at an address. */
typedef struct mf_cell {
    mf_value_place place;
    int index;
    int64_t from, to;
    mf_ir_vectors in;    /* or */
    mf_ir_value address; /* or */
    const char *data;
    bool fixed; /* the same in all rounds of all loops */
    bool owned; /* on the stack, and nobody else's: may be written over when it is read for the last time */
} mf_cell;

typedef struct mf_cells { /* of one kernel */
    const mf_native_kernel *kernel;
    int count;
    mf_cell *at; /* the newest last */
} mf_cells;

typedef struct mf_repeat { /* at work on one text */
    mf_ir *ir;
    mf_text *before; /* of the outermost loop that is being written; NULL: none is */
    bool has_rare_room;
    int held;      /* vectors that were read before the loops */
    int64_t stack; /* bytes */
} mf_repeat;

/* Memory as long as the text is written; NULL, and the text fails. */
void *mf_repeat_room(mf_repeat *r, int64_t count, size_t size);
int64_t *mf_repeat_counting(mf_repeat *r, int64_t n); /* 0, 1, 2, ... */
static inline void mf_repeat_give_up(mf_repeat *r) { r->ir->failed = true; }
/* Between the two, text goes before the outermost loop. It may have blocks of its own. */
void mf_repeat_leave(mf_repeat *r);
void mf_repeat_return(mf_repeat *r);
mf_ir_value mf_repeat_stack(mf_repeat *r, int64_t bytes);
/* Part number `at`, of so many bytes, of what is stacked. */
mf_ir_value mf_repeat_part(mf_repeat *r, mf_ir_value base, mf_ir_value at, int64_t bytes);

/* cells.c: what lies at c.place from now on. */
void mf_cells_put(mf_cells *m, mf_cell c);
void mf_cells_write(mf_repeat *r, mf_cells *m, int value, mf_ir_vectors v);
/* Where bytes [from, to) of a value lie, counted from its first; false when nobody has written them. */
bool mf_cells_find(const mf_cells *m, int value, int64_t from, int64_t to, mf_cell *found);
/* Elements index[0 .. n), from the value's first on. */
mf_ir_vectors mf_cells_read(mf_repeat *r, const mf_cells *m, int value, mf_dtype dtype, const int64_t *index, int64_t n);
static inline bool mf_cells_can(mf_dtype d) { return d >= MF_BOOL && d <= MF_F64; }

/* emit_sums.c: reductions and products. */
void mf_repeat_sums(mf_repeat *r, mf_cells *m, const mf_native_step *s, const mf_form *f);

#endif
