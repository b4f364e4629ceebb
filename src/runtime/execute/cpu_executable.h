/* The CPU's executable, between the file that loads it and runs it at once (executable.c) and the one that makes its runs futures
 * (run_future.c). */
#ifndef MF_RUNTIME_EXECUTE_CPU_EXECUTABLE_H
#define MF_RUNTIME_EXECUTE_CPU_EXECUTABLE_H

#include "runtime/execute/run.h"

typedef struct mf_cpu_executable {
    mf_executable base;
    const mf_segment_compiler *compiler;
    mf_plan *plan;
    mf_block *block;
    const mf_intlist *processes; /* of a plan that is spread: which take part (comm.h) */
    mf_axis_set
        *held; /* by input: along which of the axes that the plan asks about it is supposed to be held once; NULL: it asks nothing */
    _Atomic bool said_shared; /* that donated memory could not be reused */
    _Atomic(const void *) called_at;
    _Atomic(mf_run_state *) spare;
} mf_cpu_executable;

/* ---- executable.c: what a run begins with and ends with */
void mf_cpu_give_run_state(mf_cpu_executable *x, mf_run_state *s); /* for the next run */
bool mf_cpu_is_donated(const mf_cpu_executable *x, int i);         /* by every call */
/* A ready array becomes a register: one that is given up gives its reference, of the others the reading ends. False: memory is out. */
bool mf_cpu_bind(mf_cpu_executable *x, mf_run_state *s, int i, mf_array *a, bool given);
/* The program's own fiber, ready. False: memory is out. */
bool mf_cpu_begin(mf_cpu_executable *x, mf_run_state *s);
mf_error_object *mf_cpu_outcome(mf_run_state *s); /* of a run that is over: NULL or a new reference */
/* Arrays for the results, that lie as they will; future (may be NULL) fills them. False: memory is out. */
bool mf_cpu_make_results(const mf_cpu_executable *x, mf_array *const *in, mf_future *future, mf_array **out);
/* The memory of a result, laid as its array says. False: memory is out. */
bool mf_cpu_fill_result(mf_array *a, mf_register *r, const mf_value_layout *l);

/* ---- run_future.c */
typedef struct mf_run mf_run;
/* A run of s, of whose inputs so many are pending. NULL: memory is out. */
mf_run *mf_run_new(mf_cpu_executable *x, mf_run_state *s, mf_array *const *in, int pending);
/* Begins it once its inputs are there; *out are its results. attend: a small run whose inputs are there, and beside which nothing runs, is
 * this thread's as long as it goes on without a pause. Waits first where too much is in flight. */
void mf_run_enqueue(mf_run *r, mf_array *const *in, mf_array **out, bool attend);

#endif
