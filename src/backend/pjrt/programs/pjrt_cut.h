/* Cutting a program into steps (pjrt_cut.c): what it keeps while it does, for whoever makes the steps' programs (pjrt_cut_program.c). */
#ifndef MF_BACKEND_PJRT_PROGRAMS_CUT_H
#define MF_BACKEND_PJRT_PROGRAMS_CUT_H

#include "backend/pjrt/pjrt.h"
#include "ir/build.h"

typedef enum cutting_place { ON_PLUGIN, ON_HOST, ALONE } cutting_place; /* alone: a map, on the plugin, as a step of its own */

/* Even turns are the plugin's; odd ones lie between them: the host's, or of one equation that is alone. */
typedef struct cutting_eqn {
    int turn;
    cutting_place place;
} cutting_eqn;
typedef struct cutting_variable {
    int made, used;      /* the turn that gives it, 0 where it is there from the beginning; the last turn that takes it */
    int taken;           /* the last turn whose step has it as an input, + 1 */
    int input, output;   /* which of the body's inputs, and the first of its outputs, it is, + 1; 0: none */
    cutting_place place; /* of what makes it */
} cutting_variable;

typedef struct cutting {
    const mf_program *body;
    const mf_eqn *map;  /* whose body it is, and which is the whole program; NULL: the body is the whole program */
    mf_arena all, turn; /* memory for all of it; for one turn */
    mf_error_object *error;
    pjrt_steps *steps;
    cutting_eqn *eqns;
    int *sorted, *from;          /* equations by turn, in order; where each turn's begin */
    cutting_variable *variables; /* by id */
    mf_variable **made;          /* the same, in the program of the turn */
    int last;                    /* turn, an even one */
} cutting;

typedef struct cutting_step { /* under construction */
    int turn, in_count, out_count;
    const mf_variable **in, **out;
    int64_t *out_axes; /* of a map */
    int *values;       /* by output */
} cutting_step;

void pjrt_cut_fail(cutting *c, mf_error_object *e); /* takes the error, NULL: memory is out; the first one counts */
/* Zeroed, one element spare, of an arena of c's. NULL after failing. */
void *pjrt_cut_room(cutting *c, mf_arena *arena, int count, size_t size);

/* The program of a step, and of an equation that is alone; one reference, or NULL after failing. The step's inputs become the program's: a
 * constant is none. */
mf_program *pjrt_cut_program(cutting *c, cutting_step *s, cutting_place place);
mf_program *pjrt_cut_alone(cutting *c, cutting_step *s, const mf_eqn *e);

#endif
