/* A compiled segment: steps in order, and where each value lies.
 * Invariant: a kernel is immutable once it is compiled, except for its steps' tiers; a run changes only its scratch and its results. */
#ifndef MF_BACKEND_NATIVE_NATIVE_KERNEL_H
#define MF_BACKEND_NATIVE_NATIVE_KERNEL_H

#include "backend/native/step.h"

struct mf_build; /* segment_build.h */

typedef enum mf_value_place { MF_PLACE_INPUT, MF_PLACE_OUTPUT, MF_PLACE_SCRATCH, MF_PLACE_CONSTANT } mf_value_place;
typedef struct mf_native_value {
    mf_value_place place;
    int index;        /* of the input or output */
    int64_t offset;   /* bytes from the beginning of that */
    const void *data; /* of a constant */
} mf_native_value;

typedef struct mf_native_plan {
    int step_count, value_count;
    mf_native_step **steps;
    mf_native_value *values;
    size_t scratch_bytes;
    int *alias; /* by output */
    int literal_count;
    mf_literal **literals; /* constants, retained */
    double cost;
    mf_kernel_work work;
} mf_native_plan;
/* Orders b's units, places the values, numbers the steps' operands (buffer_assignment.c). b->error on failure. */
void mf_native_place(struct mf_build *b, const bool *donatable, mf_native_plan *plan);

typedef struct mf_native_kernel {
    mf_kernel kernel;
    mf_arena arena;      /* of everything below */
    mf_program *program; /* the steps' equations */
    mf_native_plan plan;
    struct mf_cleanup *cleanups;           /* segment_build.h */
    struct mf_native_kernel *inner, *next; /* inner: kernels that its steps run, owned; next: in the list of those of another kernel */
    bool flat;                             /* one step, which can run over the consecutive elements of several runs as over those of one */
} mf_native_kernel;

/* Finds where the plan.value_count values of a run lie; the next function then runs the steps. */
void mf_native_find_values(const mf_native_kernel *k, const void *const *in, void *const *out, char *scratch, void **values);
static inline mf_error_object *mf_native_run_steps(const mf_native_kernel *k, void *const *values, char *scratch)
{
    mf_error_object *error = NULL;
    for (int i = 0; i < k->plan.step_count && !error; i++)
        error = k->plan.steps[i]->run(k->plan.steps[i], values, scratch);
    return error;
}

#endif
