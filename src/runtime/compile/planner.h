/* What plan.c, last_use.c and map_plan.c share: the blocks of one program under construction. The first error sticks: what follows does
 * nothing, so the steps need no checks of their own. */
#ifndef MF_RUNTIME_COMPILE_PLANNER_H
#define MF_RUNTIME_COMPILE_PLANNER_H

#include "runtime/compile/plan.h"

typedef struct mf_side { /* one block under construction */
    int reg_count, reg_capacity, instr_count, instr_capacity;
    const mf_type **types;
    mf_instr **instrs;
    int *constant_of; /* by variable: its constant register here, or -1 */
    bool *known;      /* by variable of the once side: this block need not wait for it any more */
} mf_side;

typedef struct mf_maker {
    mf_plan *plan;
    mf_schedule s;
    bool mapped;
    mf_value_layout *layouts; /* by variable; NULL in the body of a map */
    mf_side sides[2];
    int *reg;                          /* by variable: its register on the side of its value, or -1 */
    bool *crosses;                     /* by variable: read by an item that does not compute it */
    int *computed_in;                  /* by variable: the last item looked at that computes it, plus one */
    bool *read_by_device;              /* by variable: some item of the device's side reads it */
    mf_variable ***seg_in, ***seg_out; /* by item: the kernel's variables */
    const mf_item **item_of[2];        /* by side and instruction; NULL for waiting */
    mf_error_object *error;
} mf_maker;

void *mf_maker_get(mf_maker *m, size_t count, size_t size); /* zeroed, of the plan; NULL after an error */
int *mf_maker_minus_ones(mf_maker *m, int count);
/* Schedules p; once_in as for mf_schedule_make. False after an error; finish in any case. */
bool mf_maker_start(mf_maker *m, const mf_program *p, const mf_axis_env *env, const bool *once_in);
void mf_maker_blocks(mf_maker *m, mf_block **device, mf_block **once);
void mf_maker_finish(mf_maker *m);
void mf_maker_deaths(mf_maker *m, const int *out);                   /* lives.c: fills die and takes; out: references of the results */
mf_lockstep *mf_lockstep_make(mf_maker *m, const mf_map_plan *plan); /* lockstep.c; NULL: it cannot be, or m has an error */
int mf_span_of(const mf_program *p);                                 /* devices that one run of p occupies */

#endif
