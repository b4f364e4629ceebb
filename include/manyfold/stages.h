/* manyfold/stages.h - ahead of time: calls that are traced, lowered and compiled before they are
 * made, as jax.jit(f).lower(x).compile(), and what they say of themselves.
 *
 * Arguments serve for their types alone: mf_struct(shape, dtype) may stand for an array. State
 * cells that the function reads belong to the call, not to the signature. A stage is a function
 * that belongs to the scope and never changes, so any thread may use it. Errors: those of
 * tracing f; MF_ERROR_ARGUMENT for a function that is neither lowered nor compiled. */
#ifndef MANYFOLD_STAGES_H
#define MANYFOLD_STAGES_H
#ifndef MF_CHECK_HEADERS_
#pragma GCC system_header
#endif

#include <manyfold/function.h>

MF_BEGIN_

/* trees -> tree: the result with a struct for every array (jax.eval_shape); nothing is computed. */
mf_value mf_eval_shape_n(mf_function f, const mf_value *arguments, int count);
/* trees -> C: the traced program of a call, as text (jax.make_jaxpr), or the words of its error.
 * It may read values of the trace around it. Lives as long as the scope. */
const char *mf_program_text_n(mf_function f, const mf_value *arguments, int count);

/* trees -> function: jax.jit(f).lower(x): the call traced and optimised now, an object to look at
 * and to compile. */
mf_function mf_lower_n(mf_function f, const mf_value *arguments, int count);
/* lowered.compile(): a new executable at each call. compiler_options: unset or none, or a dict
 * of "backend" (a name) and "dce", "fold", "simplify", "cse" (whether that pass runs);
 * MF_ERROR_ARGUMENT for any other name and for a value that does not suit it. */
typedef struct mf_compile_options {
    mf_value compiler_options;
    mf_reserved reserved_;
} mf_compile_options;
mf_function mf_lowered_compile_opt(mf_function lowered, const mf_compile_options *o);
/* trees -> function: both at once, for arrays that lie as these do; ordinary calls find it too. A
 * compiled function takes exactly these trees, types and statics ("Argument types differ ..."),
 * and no transform. */
mf_function mf_compile_n(mf_function f, const mf_value *arguments, int count);

/* ---- of a lowered or compiled function */
/* Which text: of a lowered function the program as traced, of a compiled one as optimised; or of
 * either the one that is named. The plan, of a compiled one: what each device does in which
 * memory. StableHLO: the optimised program as a module that other compilers read, all devices of a
 * map being replicas: of a function that is one map, what a device takes and gives is its own row,
 * also of a map inside whose row that is, else every replica has the whole. Weak types are their
 * dtype, keys pairs of uint32, and donated arguments say whose memory they are. MF_ERROR_ARGUMENT
 * where an op has no StableHLO; its words name it. */
typedef enum mf_text_form {
    MF_TEXT_DEFAULT = 0,
    MF_TEXT_TRACED,
    MF_TEXT_OPTIMIZED,
    MF_TEXT_PLAN,
    MF_TEXT_STABLEHLO
} mf_text_form;
/* The text, or the words of an error; lives as long as the scope. Programs open with a line
 * "# replicas = 8, partitions = 1". */
const char *mf_as_text(mf_function stage, mf_text_form form MF_DEFAULT_(MF_TEXT_DEFAULT));
/* -> tree: a tuple of the arguments, and the result: trees with a struct for every array */
mf_value mf_args_info(mf_function stage);
mf_value mf_out_info(mf_function stage);

/* What the ops of all devices of this process come to, by their rows' formulas: a product of
 * (m, k) and (k, n) 2 m k n flops, an elementwise op one an element, exp and its kin as many as
 * they take in additions. Lowered: of the program as traced; compiled: as optimised. A scan counts
 * all its rounds, a while one, a cond its dearest branch. NaN on an error, which mf_exit_status
 * remembers. */
typedef struct mf_costs {
    double flops, bytes_accessed;
} mf_costs;
mf_costs mf_cost_analysis(mf_function stage);
/* The memory of a compiled call in this process. alias: donated arguments, whose memory the
 * results may take. temp: what a run takes at its most beside arguments and results, by the plan
 * (values between segments on every device, and the scratch of each worker). peak: arguments and
 * results, less alias, and temp. -1 on an error, also of a function that is only lowered. */
typedef struct mf_compiled_memory_stats {
    int64_t argument_size_in_bytes, output_size_in_bytes, alias_size_in_bytes;
    int64_t temp_size_in_bytes, peak_memory_in_bytes;
} mf_compiled_memory_stats;
mf_compiled_memory_stats mf_memory_analysis(mf_function stage);

MF_END_

#include <manyfold/lift/stages.h>

#endif
