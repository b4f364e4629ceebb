/* Runs programs given as text, for the runtime's tests. Inputs are f32 arrays of 0, 1, 2, ...; results are read as doubles. All functions
 * wait for results unless they say otherwise. */
#ifndef MF_TESTS_RUN_TEXT_H
#define MF_TESTS_RUN_TEXT_H

#include "passes/passes.h"
#include "runtime/compile/segment_compiler.h"
#include "runtime/device.h"
#include "runtime/executable.h"

/* NULL and *error; `donated` may be NULL. */
mf_executable *executable_for(const char *text, const bool *donated, mf_array *const *in,
                              mf_error_object **error); /* compiled for arrays with the layouts of these */
mf_executable *executable_of(const char *text, const bool *donated, mf_error_object **error);
/* An array of this type ("f32[8,3]"), counting from `first`. */
mf_array *counting(const char *type, double first);
/* The same, but held once along its first axis: every row is the first row. */
mf_array *held_once(const char *type, double first);
/* Runs once on counting inputs; reads the result number `which` as doubles (`out` has room for `count`). On failure returns false with the
 * error's message in run_error. */
extern char run_error[2048];
bool run_text(const char *text, int which, double *out, int64_t count);
/* Starts a run without waiting for it. */
bool start(mf_executable *x, mf_array *const *in, mf_array **out);
bool read_array(mf_array *a, double *out, int64_t count);
void drop_all(mf_array **arrays, int count);
/* Sets whether the native engine compiles every loop that it can, or only those where it pays. Does nothing without that engine. */
void compile_all_loops(bool all);

#endif
