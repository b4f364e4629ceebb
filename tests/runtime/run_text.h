/* Running programs given as text: what the runtime's tests share. Inputs are f32 arrays that count 0, 1, 2, ...; results are read as
 * doubles. Everything waits unless it says otherwise. */
#ifndef MF_TESTS_RUN_TEXT_H
#define MF_TESTS_RUN_TEXT_H

#include "passes/passes.h"
#include "runtime/compile/segment_compiler.h"
#include "runtime/device.h"
#include "runtime/executable.h"

/* NULL and *error; `donated` may be NULL. */
mf_executable *executable_for(const char *text, const bool *donated, mf_array *const *in,
                              mf_error_object **error); /* for arrays that lie as these */
mf_executable *executable_of(const char *text, const bool *donated, mf_error_object **error);
/* An array of this type ("f32[8,3]"), counting up from `first`. */
mf_array *counting(const char *type, double first);
/* The same numbers, but held once along its first axis: every row is the first. */
mf_array *held_once(const char *type, double first);
/* Runs once on counting inputs; the result `which` as doubles (room for `count`). False with the error's text in the buffer. */
extern char run_error[2048];
bool run_text(const char *text, int which, double *out, int64_t count);
/* Starts a run. */
bool start(mf_executable *x, mf_array *const *in, mf_array **out);
bool read_array(mf_array *a, double *out, int64_t count);
void drop_all(mf_array **arrays, int count);
/* Whether the native engine compiles every loop that it can, or those where it pays. Nothing to do without that engine. */
void compile_all_loops(bool all);

#endif
