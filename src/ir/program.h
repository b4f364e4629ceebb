/* Programs: straight-line lists of equations over typed variables, with nested programs in the parameters of control flow and maps.
 * Invariant: a finished program is immutable, every variable is defined before use, ids are dense (0 .. var_count-1) so that passes keep
 * their data in plain arrays, and types are those of the ops' type rules. A program is closed: captured values became inputs. */
#ifndef MF_IR_PROGRAM_H
#define MF_IR_PROGRAM_H

#include "array/literal.h"
#include "base/memory/alloc.h"
#include "base/memory/intern.h"

typedef struct mf_op mf_op; /* ir/op.h */
typedef struct mf_eqn mf_eqn;

typedef struct mf_variable {
    const mf_type *type;
    int id;
    mf_literal *constant; /* a reference; NULL if it is no constant */
    mf_eqn *producer;     /* NULL for inputs and constants */
    int output;           /* its position among the producer's outputs */
} mf_variable;

struct mf_eqn {
    const mf_op *op;
    const void *params; /* the op's own struct; NULL when it has none */
    int in_count, out_count;
    mf_variable **in, **out;
    const void *address; /* the user's return address, for errors and profiles */
};

typedef struct mf_program {
    mf_object object;
    mf_arena arena;
    int in_count, out_count, eqn_count, var_count;
    mf_variable **in, **out;
    mf_eqn **eqns;
    mf_variable **vars; /* by id */
} mf_program;
extern const mf_class mf_program_class;

/* Named axes in scope, innermost first; interned, so environments compare by pointer. NULL is the empty environment. */
typedef struct mf_axis_env {
    const struct mf_axis_env *outer;
    const char *name; /* interned; NULL for an anonymous map */
    int64_t size;
    int is_pmap;              /* 1: devices; 0: vmap */
    const mf_intlist *inside; /* of a pmap where one index spans processes: by device of an index, whether it is in this process */
} mf_axis_env;
const mf_axis_env *mf_axis_env_push(const mf_axis_env *outer, const char *name, int64_t size, int is_pmap);
const mf_axis_env *mf_axis_env_push_spread(const mf_axis_env *outer, const char *name, int64_t size,
                                           const mf_intlist *inside);          /* of a pmap */
const mf_axis_env *mf_axis_env_find(const mf_axis_env *env, const char *name); /* innermost binder, or NULL */
int mf_axis_env_depth(const mf_axis_env *env, const mf_axis_env *binder);      /* 0 = the outermost binder in env */
int mf_axis_env_level(const mf_axis_env *env, const char *name);               /* 0 = the innermost binder in env; -1: name is not bound */

void mf_program_print(mf_text *t, const mf_program *p);
/* Parses what mf_program_print wrote; env as for the builder. Bad text gives NULL and *error (line, column, what was expected). */
mf_program *mf_program_parse(const char *text, const mf_axis_env *env, mf_error_object **error);
/* Returns NULL, or an error that names the equation. Checks definition before use, dense ids, types against the type rules, nested
 * programs. */
mf_error_object *mf_program_verify(const mf_program *p, const mf_axis_env *env);
bool mf_program_equal(const mf_program *a, const mf_program *b); /* structural equality */
uint64_t mf_program_hash(const mf_program *p);

#endif
