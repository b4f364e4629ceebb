/* The schedule: the order in which a program's equations run, grouped into items, each of which becomes an instruction of a plan.
 * schedule.c makes it; sink.c then moves equations between the segments. It is working memory of a compilation, and plans do not keep it.
 * Invariant: an item's operands are made by earlier items or within it. */
#ifndef MF_RUNTIME_COMPILE_SCHEDULE_SCHEDULE_H
#define MF_RUNTIME_COMPILE_SCHEDULE_SCHEDULE_H

#include "runtime/plan/plan.h"

enum { MF_DEVICE, MF_UNIFORM }; /* sides: the block that something belongs to */

typedef struct mf_item { /* becomes one instruction */
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
    int *made_by;             /* by variable: the item that computes it, or -1 for inputs and constants */
    unsigned char *side;      /* by variable: the side whose registers hold it */
    const uint64_t *variance; /* by variable; NULL outside maps */
    uint64_t bit;             /* the innermost binder's bit in `variance` */
    bool spread;              /* maps span processes */
} mf_schedule;

/* Orders p's equations. uniform_in[i]: input i is uniform over the innermost binder of env (NULL: no map, all on the device's side).
 * bucket: collectives begin as early as possible, those of about so many bytes together, as where maps span processes; 0: as late as
 * possible. */
mf_error_object *mf_schedule_make(mf_schedule *s, const mf_segment_compiler *compiler, mf_arena *arena, const mf_program *p,
                                  const mf_axis_env *env, const bool *uniform_in, int64_t bucket);
void mf_schedule_free(mf_schedule *s);
/* Smaller arrays stay in a cache, so crossing between segments costs nothing for them. Set by tests, before compiling. */
enum { MF_SCHEDULE_LARGE_BYTES = 64 << 10 };
extern int64_t mf_schedule_large_bytes;
/* Moves equations to the segments that read them (sink.c). An equation may then be in several segments, each of which computes it for
 * itself; made_by is the one that gives its result to others, if any. False: out of memory. */
bool mf_schedule_partition(mf_schedule *s, mf_arena *arena);

/* The variable whose value v has: v itself or, if a barrier makes it, the barrier's operand, since barriers only order. */
static inline mf_variable *mf_origin(mf_variable *v)
{
    while (v->producer && v->producer->op == &mf_op_optimization_barrier)
        v = v->producer->in[v->output];
    return v;
}

#endif
