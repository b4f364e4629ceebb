/* Modules: named members and a C function that is called with the module itself. module.c makes and runs them, members.c reads them,
 * view.c makes those that differ from another in numbers alone. Invariant: a module's members never change, so equal ones may be shared. */
#ifndef MF_TRACE_STATE_MODULE_H
#define MF_TRACE_STATE_MODULE_H

#include "base/memory/vector.h"
#include "trace/state/state.h"

#include <manyfold/state.h>

typedef struct mf_module_member {
    const char *name; /* interned */
    mf_member_type kind;
    bool first;        /* no other module had the state or module before: its paths go through here */
    mf_object *object; /* retained; a cell, a module, a function, a value, of a list its static */
    double number;
    const char *text; /* interned */
} mf_module_member;

typedef struct mf_module_object {
    mf_object object;
    const char *type;
    void (*call)(void);
    int inputs, count;
    int depth, function_depth; /* of the modules in it; of the functions among its members and theirs */
    bool taken;                /* is a member of a module; of a view its origin's counts */
    mf_module_member *members;
    struct mf_module_object *origin;            /* retained: what this is a view of, itself no view; NULL */
    MF_VECTOR(struct mf_module_object *) views; /* of this; held weakly, guarded by the views' lock */
} mf_module_object;
extern const mf_class mf_module_class;

/* NULL and an error (a new reference) where the handle names no module. Borrowed. */
mf_module_object *mf_module_of(mf_module m, mf_error_object **error);
/* A module without members, with room for so many; NULL when memory is out. */
mf_module_object *mf_module_object_new(const char *type, void (*call)(void), int inputs, int room);
const char *mf_module_path(const char *outer, const char *name); /* "outer/name"; interned */
/* The state or module of m that has the name; NULL: it has none. */
const mf_module_member *mf_module_holder(const mf_module_object *m, const char *name);
/* What the node says, but for its name; states and modules are retained and not yet taken. */
mf_error_object *mf_module_member_read(mf_module_member *m, const char *name, const mf_node_ *value);
/* "Affine(...)", its lines indented twice as far as the depth; the first is where the text stands. */
void mf_module_print(mf_text *t, const mf_module_object *m, int depth);
/* Of a module that goes: its origin forgets it. */
void mf_module_view_forget(mf_module_object *view);

#endif
