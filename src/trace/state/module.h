/* Modules: named members, and a C function that is called with the module itself. module.c makes and runs them, members.c reads them,
 * view.c makes modules that differ from another one only in plain members. Invariant: a module's members never change, so equal ones may be
 * shared. */
#ifndef MF_TRACE_STATE_MODULE_H
#define MF_TRACE_STATE_MODULE_H

#include "base/memory/vector.h"
#include "trace/state/state.h"

#include <manyfold/state.h>

typedef struct mf_module_member {
    const char *name; /* interned */
    mf_member_type kind;
    bool first;        /* no module had the state or module before: its path goes through this member */
    mf_object *object; /* retained: a cell, module, function or value; for a list its static */
    double number;
    const char *text; /* interned */
} mf_module_member;

typedef struct mf_module_object {
    mf_object object;
    const char *type;
    void (*call)(void);
    int inputs, count;
    int depth, function_depth; /* of the modules inside; of the functions among its members and theirs */
    bool taken;                /* it is a member of a module; for a view, see its origin */
    mf_module_member *members;
    struct mf_module_object *origin;            /* retained; the module of which this is a view, itself no view; or NULL */
    MF_VECTOR(struct mf_module_object *) views; /* the views of this module; held weakly, guarded by view.c's lock */
} mf_module_object;
extern const mf_class mf_module_class;

/* Borrowed. NULL and an error (a new reference) when the handle does not name a module. */
mf_module_object *mf_module_of(mf_module m, mf_error_object **error);
/* A module without members and with room for that many; NULL when out of memory. */
mf_module_object *mf_module_object_new(const char *type, void (*call)(void), int inputs, int capacity);
const char *mf_module_path(const char *outer, const char *name); /* "outer/name"; interned */
/* m's own state or module of that name, or NULL. */
const mf_module_member *mf_module_holder(const mf_module_object *m, const char *name);
/* Reads the member from a node, except its name. States and modules are retained but not yet adopted. */
mf_error_object *mf_module_member_read(mf_module_member *m, const char *name, const mf_node_ *value);
/* Appends "Affine(...)"; all lines but the first are indented by twice the depth. */
void mf_module_print(mf_text *t, const mf_module_object *m, int depth);
/* Removes a view that is being destroyed from its origin's list. */
void mf_module_view_forget(mf_module_object *view);

#endif
