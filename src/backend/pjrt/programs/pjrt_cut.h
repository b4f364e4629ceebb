/* The state of cutting a program into steps (pjrt_cut.c), shared with pjrt_cut_program.c, which makes the steps' programs. */
#ifndef MF_BACKEND_PJRT_PROGRAMS_PJRT_CUT_H
#define MF_BACKEND_PJRT_PROGRAMS_PJRT_CUT_H

#include "backend/pjrt/pjrt.h"
#include "ir/build.h"

typedef enum cutting_place { ON_PLUGIN, ON_HOST, ALONE } cutting_place; /* ALONE: a map, on the plugin, as a step of its own */

/* Even turns are the plugin's; odd ones between them are the host's, or one ALONE equation's. */
typedef struct cutting_eqn {
    int turn;
    cutting_place place;
} cutting_eqn;
typedef struct cutting_variable {
    int made, used;      /* the turn that gives it, 0 if it exists from the start; the last turn that takes it */
    int taken;           /* the last turn whose step has it as an input, + 1 */
    int input, output;   /* its index + 1 among the body's inputs, and the first one + 1 among its outputs; 0: none */
    cutting_place place; /* of what makes it */
} cutting_variable;

typedef struct cutting {
    const mf_program *body;
    const mf_eqn *map;  /* of whose body this is, if the whole program is that map; NULL: the body is the whole program */
    mf_arena all, turn; /* memory for the whole cut; for one turn */
    mf_error_object *error;
    pjrt_steps *steps;
    cutting_eqn *eqns;
    int *sorted, *from;          /* equations by turn, in order; where each turn's equations begin */
    cutting_variable *variables; /* by id */
    mf_variable **made;          /* by id, the variable in the program of the turn */
    int last;                    /* the last turn, even */
} cutting;

typedef struct cutting_step { /* under construction */
    int turn, in_count, out_count;
    const mf_variable **in, **out;
    int64_t *out_axes; /* of a map */
    int *values;       /* by output */
} cutting_step;

void pjrt_cut_fail(cutting *c, mf_error_object *e); /* takes the error (NULL: out of memory); the first one is kept */
/* Zeroed memory with a spare element, from an arena of c's. NULL after a failure. */
void *pjrt_cut_alloc(cutting *c, mf_arena *arena, int count, size_t size);

/* The program of a step, and of an ALONE equation; one reference, or NULL after a failure. The step's inputs become the program's; a
 * constant is not an input. */
mf_program *pjrt_cut_program(cutting *c, cutting_step *s, cutting_place place);
mf_program *pjrt_cut_alone(cutting *c, cutting_step *s, const mf_eqn *e);

#endif
