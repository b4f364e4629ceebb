/* The reference compiler: slow and obvious, always available. A kernel is the segment's program; running it evaluates one equation after
 * another with the ops' plain loops. Invariant: temporaries have offsets in the scratch memory planned by their lifetimes, so that two
 * that are alive at the same time never overlap; a result may take an operand's memory only if the operand's last use is before the
 * result is written, or is that very equation and it is elementwise. */
#include "runtime/compile/segment_compiler.h"

#include "base/memory/vector.h"

#include <limits.h>
#include <string.h>

#define ALIGN(n) (((n) + 63) & ~(size_t)63)

typedef enum place { AT_INPUT, AT_OUTPUT, AT_SCRATCH, AT_CONSTANT } place;

typedef struct where { /* where a variable's elements are */
    place place;
    size_t at; /* index, or offset in the scratch memory */
} where;

typedef struct reference_kernel {
    mf_kernel kernel;
    mf_program *program;
    where *vars;            /* by id */
    mf_literal **constants; /* contiguous */
    int constant_count;
    int most; /* operands and results of the widest equation */
} reference_kernel;

static bool always(void) { return true; }

/* ------------------------------------------------------------------ planning */

static void find_last_uses(const mf_program *p, int *last)
{
    for (int v = 0; v < p->var_count; v++)
        last[v] = -1;
    for (int e = 0; e < p->eqn_count; e++)
        for (int i = 0; i < p->eqns[e]->in_count; i++)
            last[p->eqns[e]->in[i]->id] = e;
}

typedef struct space { /* a used range of the scratch memory */
    size_t from, to;
    int last;
} space;

/* First fit among the ranges alive when equation `now` runs. */
static size_t fit(space *spaces, int *count, size_t bytes, int now, int last)
{
    size_t at = 0;
    int kept = 0;
    for (int i = 0; i < *count; i++)
        if (spaces[i].last >= now)
            spaces[kept++] = spaces[i];
    *count = kept;
    for (int i = 0; i < *count; i++) /* in order of `from` */
        if (spaces[i].from < at + bytes && spaces[i].to > at)
            at = spaces[i].to;
    int place = *count;
    while (place > 0 && spaces[place - 1].from > at) {
        spaces[place] = spaces[place - 1];
        place--;
    }
    spaces[place] = (space){ at, at + bytes, last };
    ++*count;
    return at;
}

static bool plan_scratch(reference_kernel *k, const int *last)
{
    const mf_program *p = k->program;
    space *spaces = mf_alloc(((size_t)p->var_count + 1) * sizeof *spaces);
    int count = 0;
    if (!spaces)
        return false;
    for (int e = 0; e < p->eqn_count; e++)
        for (int o = 0; o < p->eqns[e]->out_count; o++) {
            const mf_variable *v = p->eqns[e]->out[o];
            if (k->vars[v->id].place != AT_SCRATCH)
                continue;
            size_t bytes = ALIGN((size_t)v->type->bytes + 1);
            int until = last[v->id] < e ? e : last[v->id];
            k->vars[v->id].at = fit(spaces, &count, bytes, e, until);
            if (k->vars[v->id].at + bytes > k->kernel.scratch_bytes)
                k->kernel.scratch_bytes = k->vars[v->id].at + bytes;
        }
    mf_free(spaces);
    return true;
}

static bool place_vars(reference_kernel *k)
{
    const mf_program *p = k->program;
    for (int v = 0; v < p->var_count; v++) {
        k->vars[v] = (where){ AT_SCRATCH, 0 };
        if (!p->vars[v]->constant)
            continue;
        k->vars[v] = (where){ AT_CONSTANT, (size_t)k->constant_count };
        if (!(k->constants[k->constant_count++] = mf_literal_contiguous(p->vars[v]->constant)))
            return false;
    }
    for (int i = 0; i < p->in_count; i++)
        k->vars[p->in[i]->id] = (where){ AT_INPUT, (size_t)i };
    for (int o = p->out_count - 1; o >= 0; o--)
        if (p->out[o]->producer)
            k->vars[p->out[o]->id] = (where){ AT_OUTPUT, (size_t)o };
    return true;
}

static int index_of(const mf_program *p, const mf_eqn *e)
{
    int at = 0;
    while (p->eqns[at] != e)
        at++;
    return at;
}

/* Marks an operand whose memory was given away as living on, so that it is not given away twice. */
static void find_aliases(reference_kernel *k, int *last, const bool *donatable)
{
    const mf_program *p = k->program;
    for (int o = 0; o < p->out_count; o++) {
        const mf_variable *out = p->out[o];
        k->kernel.alias[o] = -1;
        if (!out->producer || k->vars[out->id].at != (size_t)o)
            continue;
        int made = index_of(p, out->producer);
        for (int i = 0; i < p->in_count && donatable && k->kernel.alias[o] < 0; i++) {
            const mf_variable *in = p->in[i];
            bool in_place = last[in->id] == made && (out->producer->op->flags & MF_OP_ELEMENTWISE) && in->type->dtype == out->type->dtype &&
                            mf_type_same_shape(in->type, out->type) && out->producer->out_count == 1;
            if (donatable[i] && in->type->bytes == out->type->bytes && (last[in->id] < made || in_place)) {
                k->kernel.alias[o] = i;
                last[in->id] = INT_MAX;
            }
        }
    }
}

static void measure(reference_kernel *k)
{
    const mf_program *p = k->program;
    k->kernel.cost = 20;
    k->kernel.work.equations = k->kernel.work.steps = p->eqn_count;
    for (int o = 0; o < p->out_count; o++)
        k->kernel.work.copies += k->vars[p->out[o]->id].place != AT_OUTPUT || k->vars[p->out[o]->id].at != (size_t)o;
    for (int e = 0; e < p->eqn_count; e++) {
        const mf_eqn *eqn = p->eqns[e];
        mf_cost c = eqn->op->cost(eqn);
        k->kernel.cost += 30 + c.flops * 2 + c.bytes * 0.2;
        for (int i = 0; i < eqn->in_count; i++)
            k->kernel.work.bytes += eqn->in[i]->type->bytes;
        for (int o = 0; o < eqn->out_count; o++)
            k->kernel.work.bytes += eqn->out[o]->type->bytes;
        if (eqn->in_count + eqn->out_count > k->most)
            k->most = eqn->in_count + eqn->out_count;
    }
}

/* ------------------------------------------------------------------ the interface */

static void destroy(mf_kernel *kernel)
{
    reference_kernel *k = (reference_kernel *)kernel;
    for (int c = 0; c < k->constant_count; c++)
        mf_drop(k->constants[c]);
    mf_free(k->constants);
    mf_free(k->vars);
    mf_free(k->kernel.alias);
    mf_drop(k->program);
    mf_free(k);
}

static mf_error_object *compile(const mf_segment_compiler *self, const mf_program *segment, const bool *donatable, mf_kernel **kernel)
{
    reference_kernel *k = mf_calloc(1, sizeof *k);
    size_t vars = (size_t)segment->var_count + 1;
    int *last = mf_alloc(vars * sizeof *last);
    if (k) {
        k->kernel.compiler = self;
        k->program = mf_retain(segment);
        k->vars = mf_calloc(vars, sizeof *k->vars);
        k->constants = mf_calloc(vars, sizeof *k->constants);
        k->kernel.alias = mf_calloc((size_t)segment->out_count + 1, sizeof *k->kernel.alias);
    }
    bool made = k && last && k->vars && k->constants && k->kernel.alias && place_vars(k);
    if (made) {
        find_last_uses(segment, last);
        made = plan_scratch(k, last);
        find_aliases(k, last, donatable);
        measure(k);
    }
    mf_free(last);
    if (!made && k)
        destroy(&k->kernel);
    *kernel = made ? &k->kernel : NULL;
    return made ? NULL : mf_error_out_of_memory();
}

static void *address(const reference_kernel *k, const mf_variable *v, const void *const *in, void *const *out, char *scratch)
{
    where w = k->vars[v->id];
    switch (w.place) {
    case AT_INPUT: return (void *)(uintptr_t)in[w.at];
    case AT_OUTPUT: return out[w.at];
    case AT_CONSTANT: return (void *)(uintptr_t)k->constants[w.at]->data;
    default: return scratch + w.at;
    }
}

/* Copies results that are an input, a constant, or a repeated result. */
static void copy_rest(const reference_kernel *k, const void *const *in, void *const *out, char *scratch)
{
    const mf_program *p = k->program;
    for (int o = 0; o < p->out_count; o++) {
        void *from = address(k, p->out[o], in, out, scratch);
        if (from != out[o] && p->out[o]->type->bytes)
            memcpy(out[o], from, (size_t)p->out[o]->type->bytes);
    }
}

static mf_error_object *run(mf_kernel *kernel, const void *const *in, void *const *out, void *scratch)
{
    const reference_kernel *k = (const reference_kernel *)kernel;
    const mf_program *p = k->program;
    MF_SMALL_ARRAY(void *, pointers, 32, k->most);
    mf_error_object *error = pointers ? NULL : mf_error_out_of_memory();
    for (int e = 0; e < p->eqn_count && !error; e++) {
        const mf_eqn *eqn = p->eqns[e];
        for (int i = 0; i < eqn->in_count; i++)
            pointers[i] = address(k, eqn->in[i], in, out, scratch);
        for (int o = 0; o < eqn->out_count; o++)
            pointers[eqn->in_count + o] = address(k, eqn->out[o], in, out, scratch);
        error = eqn->op->evaluate(eqn, (const void *const *)pointers, pointers + eqn->in_count);
        if (error && eqn->address)
            mf_error_set_address(error, eqn->address);
    }
    if (!error)
        copy_rest(k, in, out, scratch);
    return error;
}

bool mf_reference_reduce(mf_reducer how, mf_dtype dtype, const void *const *in, int n, void *out, int64_t count, int64_t from, int64_t to);

const mf_segment_compiler mf_segment_compiler_reference = {
    .name = "reference",
    .available = always,
    .compile = compile,
    .run = run,
    .destroy = destroy,
    .reduce = mf_reference_reduce,
};
