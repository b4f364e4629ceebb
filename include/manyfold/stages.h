/* manyfold/stages.h - ahead-of-time compilation: tracing, lowering and compiling a call before it
 * is made, as jax.jit(f).lower(x).compile(), and inspecting the result.
 *     mf_function lowered = mf_lower(f, mf_struct(MF_SHAPE(8, 4), MF_F32));
 *     mf_function compiled = mf_lowered_compile(lowered);
 *     printf("%g flops\n", mf_cost_analysis(compiled).flops);
 *     mf_value y = mf_call(compiled, x);
 *
 * Only the types of arguments are used: mf_struct(shape, dtype) may stand for an array. States that
 * the function reads are not part of the signature; each call uses their current values. A lowered
 * or compiled function belongs to the scope and is immutable, so any thread may use it. Errors:
 * those of tracing f; MF_ERROR_ARGUMENT for a function that is neither lowered nor compiled. */
#ifndef MANYFOLD_STAGES_H
#define MANYFOLD_STAGES_H
#ifndef MF_CHECK_HEADERS_
#pragma GCC system_header
#endif

#include <manyfold/function.h>

MF_BEGIN_

/* trees -> tree: jax.eval_shape: the result with a struct for each array; nothing is computed */
mf_value mf_eval_shape_n(mf_function f, const mf_value *arguments, int count);
/* trees -> C: jax.make_jaxpr: the traced program of a call as text, or the message of its error.
 * Inside another trace it may refer to values of that. Valid as long as the innermost scope */
const char *mf_program_text_n(mf_function f, const mf_value *arguments, int count);

/* trees -> function: jax.jit(f).lower(x): the call, traced and optimised, to be inspected and
 * compiled */
mf_function mf_lower_n(mf_function f, const mf_value *arguments, int count);
/* lowered.compile(): a new executable at each call. compiler_options: unset, or a dict of "backend"
 * (a name) and "dce", "fold", "simplify" and "cse" (bools: whether the pass runs);
 * MF_ERROR_ARGUMENT for another name, or a value that does not fit. */
typedef struct mf_compile_options {
    mf_value compiler_options;
    mf_reserved reserved_;
} mf_compile_options;
mf_function mf_lowered_compile_opt(mf_function lowered, const mf_compile_options *o);
/* trees -> function: lowers and compiles, for arrays that are placed as these are; ordinary calls
 * of f find the program too. A compiled function takes exactly these trees, types and static
 * arguments ("Argument types differ ..."), and cannot be transformed. */
mf_function mf_compile_n(mf_function f, const mf_value *arguments, int count);

/* ---- inspecting a lowered or compiled function */
/* Which text. MF_TEXT_DEFAULT: of a lowered function the traced program, of a compiled one the
 * optimised program.
 *   MF_TEXT_TRACED, MF_TEXT_OPTIMIZED: that program, of either.
 *   MF_TEXT_PLAN, of a compiled function: what each device does, and in which memory.
 *   MF_TEXT_STABLEHLO: the optimised program as a module for other compilers, in which the devices
 *   of a map are replicas. If the function is a single map, a device takes and returns its own row
 *   (also of a map directly inside it); otherwise every replica has the whole arrays. Weak types
 *   become their dtype, keys pairs of ui32, and donated arguments are marked with the result whose
 *   memory they give. MF_ERROR_ARGUMENT, naming the op, where an op has no StableHLO. */
typedef enum mf_text_form {
    MF_TEXT_DEFAULT = 0,
    MF_TEXT_TRACED,
    MF_TEXT_OPTIMIZED,
    MF_TEXT_PLAN,
    MF_TEXT_STABLEHLO
} mf_text_form;
/* The text, or the message of an error; valid as long as the innermost scope. Programs begin with a
 * line "# replicas = 8, partitions = 1". */
const char *mf_as_text(mf_function stage, mf_text_form form MF_DEFAULT_(MF_TEXT_DEFAULT));
/* -> tree: the types of the arguments, a tuple, and of the result: trees with a struct for each
 * array */
mf_value mf_args_info(mf_function stage);
mf_value mf_out_info(mf_function stage);

/* The work of all devices of this process, by a formula for each op: a product of (m, k) and (k, n)
 * counts 2 m k n flops, an elementwise op 1 for each element, exp and its like as many as they take
 * in additions. Of a lowered function: the traced program; of a compiled one: the optimised
 * program. A scan counts all its iterations, a while loop one, a cond its most expensive branch.
 * NaN on an error, which mf_exit_status remembers. */
typedef struct mf_costs {
    double flops, bytes_accessed;
} mf_costs;
mf_costs mf_cost_analysis(mf_function stage);
/* The memory of a compiled call in this process, in bytes. alias: donated arguments, whose memory
 * results may take. temp: the most that a run needs besides arguments and results, by the plan
 * (values between segments on every device, and scratch memory of each thread). peak: arguments +
 * results - alias + temp. -1 on an error; also for a function that is only lowered. */
typedef struct mf_compiled_memory_stats {
    int64_t argument_size_in_bytes, output_size_in_bytes, alias_size_in_bytes;
    int64_t temp_size_in_bytes, peak_memory_in_bytes;
} mf_compiled_memory_stats;
mf_compiled_memory_stats mf_memory_analysis(mf_function stage);

MF_END_

#include <manyfold/lift/stages.h>

#endif
