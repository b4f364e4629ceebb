/* Tracing: running a C function on tracers writes a program. A trace is a builder with identity; traces nest on a stack per thread.
 * Invariant: every op between mf_trace_begin and mf_trace_end on this thread goes into the innermost trace; an operand of an outer
 * trace becomes a captured input of every trace between; one of a finished trace is an error naming both. */
#ifndef MF_TRACE_TRACE_H
#define MF_TRACE_TRACE_H

#include "ir/op.h"
#include "tree/tree.h"

typedef struct mf_tracing mf_tracing;

typedef struct mf_tracer {
    mf_object object;
    uint64_t trace_id;      /* never reused */
    const char *trace_name; /* interned, for messages: "grad(loss)" */
    mf_variable *var;       /* dangles once the trace has ended: the id says so */
    const mf_type *type;
    mf_literal *literal; /* its value, once somebody has asked for it and it follows from constants; retained */
    mf_array *known;     /* the same, as an array that can be read; retained */
} mf_tracer;
extern const mf_class mf_tracer_class;

mf_tracing *mf_trace_current(void);     /* NULL outside any trace */
const mf_axis_env *mf_trace_env(void);  /* of the innermost trace; NULL outside */
const mf_client *mf_trace_client(void); /* for which the innermost trace is made; outside, the default one */

/* ---- what op wrappers use */
/* Applies op to leaves. Outside a trace it runs at once through the cache of one-op programs. An error operand is the result.
 * out gets n_out fresh values (all the same error on failure). */
void mf_bind_n(const mf_op *op, const void *params, const mf_value *in, int in_count, mf_value *out, int out_count);
mf_value mf_bind(const mf_op *op, const void *params, int in_count, ...); /* one result; mf_value arguments */
/* The errors among v are handled with `first`, which is what the call gives for them all. */
void mf_errors_join(mf_error_object *first, const mf_value *v, int count);
/* v as an array whose elements can be read, borrowed; or NULL and an error (a reference) that names `what`. */
mf_array *mf_readable(mf_value v, const char *what, mf_error_object **error);
/* The value of r where it follows from constants alone (trace/inspect/known.h), borrowed from r; NULL, with *error when an op failed. */
mf_array *mf_trace_known(mf_tracer *r, mf_error_object **error);
/* The call that is being traced becomes this error (retained), or an earlier one. */
void mf_trace_fail(mf_tracing *t, mf_error_object *e);
/* Somebody wants the numbers of r: the call that is being traced becomes this error, of which a reference is returned. */
mf_error_object *mf_trace_refuse(const mf_tracer *r, const char *what);
/* Whether the answer to a refused read should be the other one for once: a loop in C that waits for it would never end. */
bool mf_trace_is_stuck(void);
/* The type of an array or tracer; NULL for anything else. */
const mf_type *mf_value_type(mf_value v);
const mf_type *mf_object_type(const mf_object *o);
/* v as an array or tracer; other leaves and trees give an error value naming the op, and which operand, from 1, where there are several;
 * errors pass. */
mf_value mf_expect_array(mf_value v, const char *op);
mf_value mf_expect_operand(mf_value v, const char *op, int operand);
mf_error_object *mf_no_array(const char *what, mf_object *o); /* a new reference: the error that o is, or one that says it is no array */

/* What is called from inside a run on this thread is in no trace and no frame of cells, whatever the thread is tracing: it helped while it
 * waited. */
typedef struct mf_trace_suspended {
    mf_tracing *trace;
    struct mf_cell_frame *frames;
} mf_trace_suspended;
mf_trace_suspended mf_trace_suspend(void);
void mf_trace_resume(mf_trace_suspended s);

/* ---- what those use that trace functions (trace_function.c, state/) */
struct mf_state_cell;
struct mf_cell_rules;
mf_tracing *mf_trace_begin(const char *name, const mf_axis_env *env,
                           const struct mf_cell_rules *rules);    /* innermost from now on; NULL when memory is out */
void mf_trace_set_client(mf_tracing *t, const mf_client *client); /* other than that of the trace around it */
mf_object *mf_trace_input(mf_tracing *t, const mf_type *type);    /* a new tracer: an argument */
/* The variable in t of an array, a tracer of t or of an outer trace (captured). NULL and *error otherwise. */
mf_variable *mf_trace_lift(mf_tracing *t, mf_object *o, mf_error_object **error);
mf_object *mf_trace_tracer(mf_tracing *t, mf_variable *v);
mf_builder *mf_trace_builder(mf_tracing *t);
/* What t traces depends on something that no key tells: it must not be cached. From the innermost up to, not including, `outer`. */
void mf_trace_mark_impure(const mf_tracing *outer);
/* Ends the trace (it must be the innermost). With result: the traced program; without: abandons. */
struct mf_traced *mf_trace_end(mf_tracing *t, mf_object *result, mf_error_object **error);
/* Cells, as this trace sees them: the current value, or NULL and *error. */
mf_object *mf_trace_cell_read(mf_tracing *t, struct mf_state_cell *c, mf_error_object **error);
mf_object *mf_trace_cell_peek(struct mf_state_cell *c); /* the value seen from the current trace, without touching; a new reference */
/* c was made in t: its value belongs to t from now on, and ends with it. False when memory is out. */
bool mf_trace_own_cell(mf_tracing *t, struct mf_state_cell *c);
mf_error_object *mf_trace_cell_write(mf_tracing *t, struct mf_state_cell *c, mf_object *value);

#endif
