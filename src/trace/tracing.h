/* The state of a trace in progress, shared by trace.c, bind.c and state/trace_cells.c. */
#ifndef MF_TRACE_TRACING_H
#define MF_TRACE_TRACING_H

#include "trace/state/state.h"
#include "trace/trace.h"

typedef struct mf_capture {
    mf_tracer *outer; /* retained */
    mf_variable *input;
} mf_capture;

typedef struct mf_trace_cell {
    mf_state_cell *cell; /* retained */
    const mf_structure *read_structure;
    const mf_type **outside_types;
    mf_variable **inputs;
    mf_object *value; /* the present value; retained */
    bool written;
    const mf_structure *write_structure; /* set when the trace ends; NULL when only read */
} mf_trace_cell;

/* A cell made in the trace: the trace owns its value, which is neither input nor output. */
typedef struct mf_own_cell {
    mf_state_cell *cell; /* retained */
    mf_object *value;    /* retained */
} mf_own_cell;

struct mf_tracing {
    mf_tracing *outer;
    uint64_t id;
    const char *name;
    const mf_client *client;
    const mf_cell_rules *rules;
    mf_builder builder;
    mf_variable **arguments;
    mf_capture *captures;
    mf_trace_cell *cells;
    mf_own_cell *own;
    bool impure;
    mf_error_object *failure; /* the error with which the call being traced has failed, or NULL */
    int refused;              /* number of refused reads */
    int argument_count, argument_capacity, capture_count, capture_capacity, cell_count, cell_capacity, own_count, own_capacity;
};

extern _Thread_local mf_tracing *mf_trace_innermost; /* this thread's; NULL outside any trace */

/* Adds an input to t's program. NULL: out of memory, and the trace fails. */
mf_variable *mf_trace_new_input(mf_tracing *t, const mf_type *type);

#endif
