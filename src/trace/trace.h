/* Tracing: running a C function on tracers, which writes a program. A trace is a builder with an identity; traces nest on a stack per
 * thread. Invariant: every op between mf_trace_begin and mf_trace_end on this thread goes into the innermost trace; an operand of an outer
 * trace becomes a captured input of every trace between; an operand of a finished trace is an error that names both traces. */
#ifndef MF_TRACE_TRACE_H
#define MF_TRACE_TRACE_H

#include "ir/op.h"
#include "tree/tree.h"

typedef struct mf_tracing mf_tracing;

typedef struct mf_tracer {
    mf_object object;
    uint64_t trace_id;      /* never reused */
    const char *trace_name; /* interned, for messages: "grad(loss)" */
    mf_variable *var;       /* dangling once the trace has ended, which the id shows */
    const mf_type *type;
    mf_literal *literal; /* its value, if it was asked for and follows from constants; retained */
    mf_array *known;     /* the same as a readable array; retained */
} mf_tracer;
extern const mf_class mf_tracer_class;

mf_tracing *mf_trace_current(void);     /* NULL outside any trace */
const mf_axis_env *mf_trace_env(void);  /* the axes of the innermost trace; NULL outside */
const mf_client *mf_trace_client(void); /* the client of the innermost trace; outside, the default one */

/* ---- for wrappers of ops */
/* Applies op to leaves. Outside a trace it runs at once, through the cache of one-op programs. An error operand is the result. out receives
 * out_count new values (all the same error on failure). */
void mf_bind_n(const mf_op *op, const void *params, const mf_value *in, int in_count, mf_value *out, int out_count);
mf_value mf_bind(const mf_op *op, const void *params, int in_count, ...); /* for ops with one result; the arguments are mf_values */
/* Joins the errors among v to `first`, which the call returns for them all. */
void mf_errors_join(mf_error_object *first, const mf_value *v, int count);
/* v as an array whose elements can be read, borrowed; or NULL and an error (a reference) that names `what`. */
mf_array *mf_readable(mf_value v, const char *what, mf_error_object **error);
/* The value of r if it follows from constants (trace/inspect/known.h), borrowed from r. Else NULL, with *error if an op failed. */
mf_array *mf_trace_known(mf_tracer *r, mf_error_object **error);
/* Fails the call being traced with this error (retained), unless it has failed before. */
void mf_trace_fail(mf_tracing *t, mf_error_object *e);
/* For a read of r's elements: fails the call being traced and returns a reference on the error. */
mf_error_object *mf_trace_refuse(const mf_tracer *r, const char *what);
/* Whether a refused read should return its alternative answer this time, since a loop in C that waits for it would never end. */
bool mf_trace_is_stuck(void);
/* The type of an array or tracer; NULL for anything else. */
const mf_type *mf_value_type(mf_value v);
const mf_type *mf_object_type(const mf_object *o);
/* v as an array or tracer. Other leaves and trees give an error value that names the op and, if it has several, the operand, counted from
 * 1. Errors are passed on. */
mf_value mf_expect_array(mf_value v, const char *op);
mf_value mf_expect_operand(mf_value v, const char *op, int operand);
mf_error_object *mf_no_array(const char *what, mf_object *o); /* a new reference on the error o, or on one that says it is no array */

/* A callback from inside a run belongs to no trace and no frame of cells, whatever the thread is tracing: the thread may be helping another
 * run while it waits. */
typedef struct mf_trace_suspended {
    mf_tracing *trace;
    struct mf_cell_frame *frames;
} mf_trace_suspended;
mf_trace_suspended mf_trace_suspend(void);
void mf_trace_resume(mf_trace_suspended s);

/* ---- for code that traces functions (trace_function.c, state/) */
struct mf_state_cell;
struct mf_cell_rules;
mf_tracing *mf_trace_begin(const char *name, const mf_axis_env *env,
                           const struct mf_cell_rules *rules);    /* makes it the innermost; NULL when out of memory */
void mf_trace_set_client(mf_tracing *t, const mf_client *client); /* instead of the enclosing trace's */
mf_object *mf_trace_input(mf_tracing *t, const mf_type *type);    /* a new tracer for an argument */
/* The variable in t for an array, a tracer of t, or one of an outer trace (captured). Else NULL and *error. */
mf_variable *mf_trace_lift(mf_tracing *t, mf_object *o, mf_error_object **error);
mf_object *mf_trace_tracer(mf_tracing *t, mf_variable *v);
mf_builder *mf_trace_builder(mf_tracing *t);
/* Marks the traces from the innermost up to but excluding `outer` as not cacheable: they depend on something that is in no key. */
void mf_trace_mark_impure(const mf_tracing *outer);
/* Ends the trace, which must be the innermost. With a result it returns the traced program; a NULL result abandons the trace. */
struct mf_traced *mf_trace_end(mf_tracing *t, mf_object *result, mf_error_object **error);
/* The current value of a cell as this trace sees it, or NULL and *error. */
mf_object *mf_trace_cell_read(mf_tracing *t, struct mf_state_cell *c, mf_error_object **error);
mf_object *mf_trace_cell_peek(struct mf_state_cell *c); /* seen from the current trace, without making it an input; a new reference */
/* Makes t the owner of c, which was made in it: t keeps its value and drops it at the end. False when out of memory. */
bool mf_trace_own_cell(mf_tracing *t, struct mf_state_cell *c);
mf_error_object *mf_trace_cell_write(mf_tracing *t, struct mf_state_cell *c, mf_object *value);

#endif
