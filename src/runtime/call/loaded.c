/* What the executables of all backends have in common. */
#include "runtime/executable.h"
#include "runtime/device.h"

#include "ops/ops.h"

#include <string.h>

/* Whether a run can end in an error other than lack of memory: an op can fail, or calls the host; devices may deadlock because control
 * flow depends on their values; or a map spans processes, and another process may fail. */
static bool may_fail(const mf_program *p, bool depends)
{
    for (int i = 0; i < p->eqn_count; i++) {
        const mf_eqn *e = p->eqns[i];
        if (e->op == &mf_op_pmap && mf_pmap_rows(e->params) < ((const mf_pmap_params *)e->params)->axis_size)
            return true;
        bool inside = depends || e->op == &mf_op_cond || e->op == &mf_op_while;
        if ((e->op->flags & (MF_OP_FAILS | MF_OP_EFFECT | MF_OP_HOST)) || (depends && (e->op->flags & MF_OP_COLLECTIVE)))
            return true;
        for (int k = 0, n = mf_params_program_count(e->op, e->params); k < n; k++)
            if (may_fail(*mf_params_program_at(e->op, e->params, k), inside))
                return true;
    }
    return false;
}

bool mf_executable_init(mf_executable *x, const mf_load_request *load)
{
    size_t count = (size_t)load->program->in_count;
    x->client = load->client;
    x->backend = load->client->backend;
    x->program = mf_retain(load->program);
    x->function = load->function;
    x->may_fail = may_fail(load->program, false);
    if (!load->donated)
        return true;
    x->donated = mf_alloc((count + 1) * sizeof *x->donated);
    if (x->donated)
        memcpy(x->donated, load->donated, count * sizeof *x->donated);
    return x->donated;
}

void mf_executable_end(mf_executable *x)
{
    mf_free(x->input_words);
    mf_free(x->donated);
    mf_drop(atomic_load(&x->next));
    mf_drop(x->program);
}

/* Adds one name to those found before. */
static mf_error_object *add_name(const char *name, const mf_client **client, const char **compiler)
{
    mf_error_object *error = NULL;
    const mf_client *named = name ? mf_client_named(name, &error) : NULL;
    if (!name || error)
        return error;
    if (!named)
        return mf_error_new(MF_ERROR_DEVICE, "pmap: there is no backend '%s' here", name);
    const char *kind = strcmp(name, named->platform) ? name : NULL, *before = *compiler ? *compiler : *client ? (*client)->platform : NULL;
    if ((*client && *client != named) || (kind && *compiler && strcmp(kind, *compiler) != 0))
        return mf_error_new(MF_ERROR_DEVICE, "pmap: a program runs on one backend, but its maps name '%s' and '%s'", before, name);
    *client = named;
    *compiler = kind ? kind : *compiler;
    return NULL;
}

static mf_error_object *add_names(const mf_program *p, const mf_client **client, const char **compiler)
{
    mf_error_object *error = NULL;
    for (int i = 0; i < p->eqn_count && !error; i++) {
        const mf_eqn *e = p->eqns[i];
        if (e->op == &mf_op_pmap)
            error = add_name(((const mf_pmap_params *)e->params)->backend, client, compiler);
        for (int k = 0, n = mf_params_program_count(e->op, e->params); k < n && !error; k++)
            error = add_names(*mf_params_program_at(e->op, e->params, k), client, compiler);
    }
    return error;
}

mf_error_object *mf_program_backend(const mf_program *p, const mf_client **client, const char **compiler)
{
    *client = NULL;
    *compiler = NULL;
    return add_names(p, client, compiler);
}

/* Fails for ops that must never run: a backward rule in the place of a tangent would give wrong numbers. */
static mf_error_object *check_can_run(const mf_program *p)
{
    mf_error_object *error = NULL;
    for (int i = 0; i < p->eqn_count && !error; i++) {
        const mf_eqn *e = p->eqns[i];
        error = e->op->flags & MF_OP_NEVER_RUN ? e->op->evaluate(e, NULL, NULL) : NULL;
        if (error && e->address)
            mf_error_set_address(error, e->address);
        for (int k = 0, n = mf_params_program_count(e->op, e->params); k < n && !error; k++)
            error = check_can_run(*mf_params_program_at(e->op, e->params, k));
    }
    return error;
}

mf_executable *mf_executable_load(const mf_load_request *load, mf_error_object **error)
{
    mf_load_request what = *load;
    const mf_client *named;
    const char *compiler;
    mf_executable *x = NULL;
    if ((*error = mf_program_backend(what.program, &named, &compiler)) || (*error = check_can_run(what.program)))
        return NULL;
    what.compiler = what.compiler ? what.compiler : compiler;
    what.client = what.client ? what.client : named ? named : mf_client_default();
    if (named && named != what.client)
        *error = mf_error_new(MF_ERROR_DEVICE, "the program's maps name the backend %s, and it is to run on %s", named->platform,
                              what.client->platform);
    else if (!what.client->backend)
        *error = mf_error_new(MF_ERROR_DEVICE, "devices of %s hold memory, but run no programs", what.client->platform);
    else if (!(*error = what.client->backend->load(&what, &x)))
        x->named = named;
    return *error ? NULL : x;
}

void mf_executable_append(mf_executable *first, mf_executable *x)
{
    while (mf_executable_next(first))
        first = mf_executable_next(first);
    atomic_store_explicit(&first->next, x, memory_order_release);
}

void mf_executable_name_input(mf_executable *x, int i, const char *words)
{
    if (!x->input_words)
        x->input_words = mf_calloc((size_t)x->program->in_count + 1, sizeof *x->input_words);
    if (x->input_words)
        x->input_words[i] = words;
}

void mf_executable_describe(mf_text *t, const mf_executable *x) { x->backend->describe(t, x); }

int64_t mf_executable_temporary_bytes(const mf_executable *x) { return x->backend->temporary_bytes ? x->backend->temporary_bytes(x) : 0; }
