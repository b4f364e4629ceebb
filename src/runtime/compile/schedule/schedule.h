/* The schedule: the order in which a program's equations run, grouped into items, each of which becomes an instruction of a plan. Made by
 * schedule.c; sink.c then moves equations between the segments. Working memory of a compilation: no plan keeps it.
 * Invariant: an item's operands are made by earlier items or within it. */
#ifndef MF_RUNTIME_COMPILE_SCHEDULE_SCHEDULE_H
#define MF_RUNTIME_COMPILE_SCHEDULE_SCHEDULE_H

#include "runtime/plan/plan.h"

enum { MF_DEVICE, MF_UNIFORM }; /* sides: which block something belongs to */

typedef struct mf_item { /* what becomes an instruction */
    mf_instr_kind kind;
    int side;
    int count;
    const mf_eqn **eqns;
} mf_item;

typedef struct mf_schedule {
    const mf_program *program;
    const mf_segment_compiler *compiler; /* compiles the segments */
    const mf_axis_env *env;
    int item_count, item_capacity;
    mf_item *items;
    int *made_by;             /* by variable: the item, or -1 for inputs and constants */
    unsigned char *side;      /* by variable: in whose registers its value is */
    const uint64_t *variance; /* by variable; NULL outside maps */
    uint64_t bit;             /* of the innermost binder */
    bool spread;              /* maps span processes */
} mf_schedule;

/* Orders p's equations. uniform_in[i] (NULL: no map, all on the device's side): input i is uniform over the innermost binder of env. bucket:
 * collectives begin as soon as they can, those of about so many bytes together, as where maps span processes; 0: as late as they can. */
mf_error_object *mf_schedule_make(mf_schedule *s, const mf_segment_compiler *compiler, mf_arena *arena, const mf_program *p,
                                  const mf_axis_env *env, const bool *uniform_in, int64_t bucket);
void mf_schedule_free(mf_schedule *s);
/* Smaller arrays stay in a cache, and to cross between segments costs them nothing. For tests; set before compiling. */
enum { MF_SCHEDULE_LARGE_BYTES = 64 << 10 };
extern int64_t mf_schedule_large_bytes;
/* Which segment computes what (sink.c): moves equations to the segments that read them. One equation may then stand in several segments,
 * each of which computes it for itself; made_by names the one that gives it to others, if any. False: out of memory. */
bool mf_schedule_partition(mf_schedule *s, mf_arena *arena);

/* The variable whose value v is: v itself, or what it is the result of a barrier of, since barriers only order. */
static inline mf_variable *mf_origin(mf_variable *v)
{
    while (v->producer && v->producer->op == &mf_op_optimization_barrier)
        v = v->producer->in[v->output];
    return v;
}

#endif
