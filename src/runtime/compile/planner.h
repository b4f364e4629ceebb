/* What the stages of compilation share: the blocks of one program under construction. The first error sticks: after it every function
 * does nothing, so callers need no checks. */
#ifndef MF_RUNTIME_COMPILE_PLANNER_H
#define MF_RUNTIME_COMPILE_PLANNER_H

#include "runtime/compile/schedule/schedule.h"

typedef struct mf_side { /* one block under construction */
    int reg_count, reg_capacity, instr_count, instr_capacity;
    const mf_type **types;
    mf_instr **instrs;
    int *constant_of; /* by variable: its constant register here, or -1 */
    bool *known;      /* by variable of the uniform side: this block has already waited for it */
} mf_side;

typedef struct mf_planner {
    mf_plan *plan;
    mf_schedule schedule;
    bool mapped;
    mf_value_layout *layouts; /* by variable; NULL in the body of a map */
    mf_side sides[2];
    int *reg;                          /* by variable: its register on its side, or -1 */
    bool *crosses;                     /* by variable: read by an item other than the one that computes it, or an output */
    int *computed_in;                  /* by variable: 1 + the last item visited that computes it */
    bool *read_by_device;              /* by variable: an item of the device side reads it */
    mf_variable ***seg_in, ***seg_out; /* by item: the variables that its kernel reads and writes */
    const mf_item **item_of[2];        /* by side and instruction; NULL for an await */
    mf_error_object *error;
} mf_planner;

void *mf_planner_alloc(mf_planner *m, size_t count, size_t size); /* zeroed memory of the plan's arena; NULL after an error */
int *mf_planner_minus_ones(mf_planner *m, int count);
int mf_reference(mf_planner *m, int where, mf_variable *v); /* the reference by which block `where` names v */

typedef struct mf_blocks {
    mf_block *device, *uniform;
} mf_blocks;

/* ---- the stages, in the order in which compile.c calls them; scheduling and partitioning are in schedule/schedule.h */
void mf_find_crossings(mf_planner *m);        /* registers.c */
void mf_visit_item(mf_planner *m, int index); /* sets computed_in for the values that this item computes */
void mf_reference_inputs(mf_planner *m);
void mf_make_instructions(mf_planner *m);                                                     /* instructions.c */
void mf_find_participants(mf_planner *m, const mf_item *item, mf_participants *participants); /* participants.c */
void mf_find_permutations(mf_planner *m, mf_participants *p, int count);                      /* for so many equations */
int *mf_output_references(mf_planner *m);                                                     /* blocks.c */
void mf_find_last_uses(mf_planner *m, const int *out);         /* last_use.c: sets last_uses and moves; out: references of the results */
void mf_compile_segments(mf_planner *m);                       /* segment.c */
void mf_make_blocks(mf_planner *m, int *out, mf_blocks *made); /* blocks.c */

/* ---- layouts of values (layouts.c) */
mf_value_layout mf_layout_of_value(const mf_planner *m, mf_variable *v);
mf_value_layout *mf_layouts_of_operands(mf_planner *m, const mf_eqn *e); /* NULL in the body of a map */
bool mf_layout_same(const mf_value_layout *a, const mf_value_layout *b, const mf_type *t);
void mf_layout_join(mf_value_layout *to, const mf_value_layout *other, const mf_type *t);
void mf_layout_pack(mf_planner *m, mf_variable *v); /* v is made contiguous in place */
/* Which mapped operands of a map are held once; NULL: unknown. If an input of the program decides that, the plan is specialised for it
 * from now on. */
const bool *mf_layout_held_operands(mf_planner *m, const mf_eqn *e);
void mf_layout_results(mf_planner *m, const mf_eqn *e, const mf_map_plan *map);
void mf_layout_outputs(mf_planner *m, mf_block *b);

/* ---- nested programs and maps (compile.c, map_plan.c) */
/* The block of a program at the top level or in control flow. in: the layouts of its inputs; NULL in the body of a map. NULL and *error. */
mf_block *mf_plan_program(mf_plan *plan, const mf_program *p, const mf_axis_env *env, const mf_value_layout *in, mf_error_object **error);
/* The plan of a map and its body. held, by operand: it is held once although it is mapped, so the body treats it as uniform; NULL: none
 * is. */
mf_map_plan *mf_plan_map(mf_plan *plan, const mf_eqn *map, const mf_axis_env *body_env, const bool *held, mf_error_object **error);
/* Runs all stages for p. uniform: the inputs that are the same on all devices; NULL outside of maps. Sets m->error on failure. */
mf_blocks mf_compile_blocks(mf_planner *m, const mf_program *p, const mf_axis_env *env, const bool *uniform);
double mf_instr_cost(const mf_instr *in, const mf_side *d);            /* cost.c */
mf_lockstep *mf_lockstep_make(mf_planner *m, const mf_map_plan *plan); /* lockstep.c; NULL: impossible or not worth it, or m has an error */
int mf_span_of(const mf_program *p);                                   /* number of devices that one run of p occupies */

#endif
