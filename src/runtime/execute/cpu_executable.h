/* The CPU's executable, shared by executable.c, which loads and runs it, and run_future.c, which makes runs futures. */
#ifndef MF_RUNTIME_EXECUTE_CPU_EXECUTABLE_H
#define MF_RUNTIME_EXECUTE_CPU_EXECUTABLE_H

#include "runtime/execute/run.h"

typedef struct mf_cpu_executable {
    mf_executable base;
    const mf_segment_compiler *compiler;
    mf_plan *plan;
    mf_block *block;
    const mf_intlist *processes; /* of a plan whose maps span processes: the processes that take part (comm.h) */
    mf_axis_set *held; /* by input: the axes along which it is supposed to be held once, among those that the plan depends on; NULL: none */
    _Atomic bool warned_shared; /* a warning was given that donated memory could not be reused */
    _Atomic(const void *) called_at;
    _Atomic(mf_run_state *) spare;
} mf_cpu_executable;

/* ---- executable.c: the beginning and the end of a run */
void mf_cpu_give_run_state(mf_cpu_executable *x, mf_run_state *s); /* keeps it for the next run */
bool mf_cpu_is_donated(const mf_cpu_executable *x, int i);         /* donated by every call */
/* Binds a ready array to a register. If it is given up, its reference goes to the register; else the array's read ends. False: memory is
 * out. */
bool mf_cpu_bind(mf_cpu_executable *x, mf_run_state *s, int i, mf_array *a, bool given);
/* Makes the program's fiber, and makes it ready. False: memory is out. */
bool mf_cpu_begin(mf_cpu_executable *x, mf_run_state *s);
mf_error_object *mf_cpu_outcome(mf_run_state *s); /* the error of a run that is over, as a new reference, or NULL */
/* Makes the arrays for the results, with their final layouts; future (may be NULL) will fill them. False: memory is out. */
bool mf_cpu_make_results(const mf_cpu_executable *x, mf_array *const *in, mf_future *future, mf_array **out);
/* Gives a result its memory, laid out as its array says. False: memory is out. */
bool mf_cpu_fill_result(mf_array *a, mf_register *r, const mf_value_layout *l);

/* ---- run_future.c */
typedef struct mf_run mf_run;
/* The future of a run in s, with so many pending inputs. NULL: memory is out. */
mf_run *mf_run_new(mf_cpu_executable *x, mf_run_state *s, mf_array *const *in, int pending);
/* Starts the run once its inputs are ready; *out are its results. attend: if nothing is pending and no other run is in flight, this
 * thread runs it alone for as long as it never has to wait long. First waits if too much is in flight. */
void mf_run_enqueue(mf_run *r, mf_array *const *in, mf_array **out, bool attend);

#endif
