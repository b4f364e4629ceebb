/* Makes units of equations: decides what each variable is (memory, a view, a node of a group), and makes steps for equations that are
 * not loops over elements. Invariants: a view's root is no view; a unit depends on the units that make what it reads, and `depends` is
 * transitively closed. */
#include "backend/native/segment_build.h"

#include <string.h>

/* With more units dependencies are not tracked: every unit then depends on all before it, and only neighbours fuse. */
#define TRACKED_UNITS 6000

void *mf_build_alloc(mf_build *b, size_t count, size_t size)
{
    void *p = b->error ? NULL : mf_arena_alloc(b->arena, (count + 1) * size);
    if (!p && !b->error)
        b->error = mf_error_out_of_memory();
    return p;
}

bool mf_build_hold(mf_build *b, void (*release)(void *object), const void *object)
{
    mf_cleanup *h = mf_build_alloc(b, 1, sizeof *h);
    if (h) {
        *h = (mf_cleanup){ b->cleanups, release, (void *)(uintptr_t)object };
        b->cleanups = h;
    } else {
        release((void *)(uintptr_t)object);
    }
    return h != NULL;
}

void *mf_step_new(mf_build *b, size_t size, const mf_eqn *e)
{
    mf_native_step *s = mf_build_alloc(b, 1, size);
    if (s)
        s->eqn = e;
    return s;
}

/* ------------------------------------------------------------------ units */

int mf_unit_new(mf_build *b)
{
    if (!b->error && !mf_grow(&b->units, &b->unit_capacity, b->unit_count + 1, sizeof *b->units))
        b->error = mf_error_out_of_memory();
    if (!b->error && b->depends && (size_t)b->unit_count / 64 >= b->words)
        b->error = mf_error_out_of_memory(); /* cannot happen: `words` has room for every unit that the equations can ask for */
    if (b->error)
        return 0;
    b->units[b->unit_count++] = (mf_unit){ 0 };
    for (int i = 0; i < b->after.count; i++)
        mf_unit_depend(b, b->unit_count - 1, b->after.at[i]);
    return b->unit_count - 1;
}

static uint64_t *row(const mf_build *b, int unit) { return b->depends + (size_t)unit * b->words; }

void mf_unit_depend(mf_build *b, int unit, int on)
{
    if (b->error || on < 0 || on == unit || !b->depends || mf_unit_depends(b, unit, on))
        return;
    uint64_t *mine = row(b, unit), *more = row(b, on);
    for (size_t w = 0; w < b->words; w++)
        mine[w] |= more[w];
    mine[on / 64] |= (uint64_t)1 << (on % 64);
    for (int u = 0; u < b->unit_count; u++)
        if (u != unit && mf_unit_depends(b, u, unit))
            for (size_t w = 0; w < b->words; w++)
                row(b, u)[w] |= mine[w];
}

/* ------------------------------------------------------------------ variables */

/* Gives v's node memory: v's own, or that of the variable that got it first. */
static void store_node(mf_build *b, mf_variable *v)
{
    mf_var_state *s = &b->vars[v->id];
    mf_node *node = &b->units[s->unit].group->nodes[s->node];
    s->kind = MF_VAR_MEMORY;
    if (node->out_var < 0)
        node->out_var = v->id;
    else
        s->alias = node->out_var;
}

mf_variable *mf_build_own(mf_build *b, const mf_type *t, mf_eqn *producer)
{
    const mf_program *p = b->program;
    mf_variable *v = b->own_count < b->own_most && t ? mf_build_alloc(b, 1, sizeof *v) : NULL;
    if (!v)
        return NULL;
    *v = (mf_variable){ .type = t, .id = p->var_count + p->out_count + b->own_count, .producer = producer };
    b->own[b->own_count++] = v;
    return v;
}

const mf_type *mf_build_type(const mf_build *b, int var)
{
    const mf_program *p = b->program;
    if (var < p->var_count)
        return p->vars[var]->type;
    return var < p->var_count + p->out_count ? p->out[var - p->var_count]->type : b->own[var - p->var_count - p->out_count]->type;
}

static bool copy_view(mf_build *b, mf_variable *v);

bool mf_build_materialise(mf_build *b, mf_variable *v)
{
    mf_var_state *s = &b->vars[v->id];
    if (s->kind == MF_VAR_NODE)
        store_node(b, v);
    else if (s->kind == MF_VAR_IOTA)
        mf_fuse_copy(b, v);
    else if (s->kind == MF_VAR_VIEW)
        return copy_view(b, v);
    return !b->error;
}

static bool copy_view(mf_build *b, mf_variable *v)
{
    mf_var_state *s = &b->vars[v->id];
    mf_variable *root = b->program->vars[s->root];
    if (!mf_build_materialise(b, root))
        return false;
    if (!mf_layout_is_contiguous(&s->layout)) {
        mf_fuse_copy(b, v);
        return !b->error;
    }
    s->kind = MF_VAR_MEMORY;
    s->alias = root->id;
    s->alias_bytes = s->layout.offset * mf_dtype_size(v->type->dtype);
    s->unit = b->vars[root->id].unit;
    s->node = -1;
    return true;
}

bool mf_build_read(mf_build *b, mf_variable *v, mf_variable **root, mf_layout *layout)
{
    mf_var_state *s = &b->vars[v->id];
    if (s->kind == MF_VAR_VIEW) {
        *root = b->program->vars[s->root];
        *layout = s->layout;
    } else {
        *root = v;
        mf_layout_contiguous(layout, v->type);
    }
    return mf_build_materialise(b, *root);
}

bool mf_build_step(mf_build *b, mf_native_step *s, mf_variable *const *in, int in_count, mf_variable *const *out, int out_count)
{
    if (!s || b->error)
        return false;
    s->in = mf_build_alloc(b, (size_t)in_count, sizeof *s->in);
    s->out = mf_build_alloc(b, (size_t)out_count, sizeof *s->out);
    for (int i = 0; i < in_count && !b->error; i++)
        mf_build_materialise(b, in[i]);
    int unit = mf_unit_new(b);
    if (b->error)
        return false;
    b->units[unit].step = s;
    s->in_count = in_count;
    s->out_count = out_count;
    for (int i = 0; i < in_count; i++) {
        s->in[i] = in[i]->id;
        mf_unit_depend(b, unit, b->vars[in[i]->id].unit);
    }
    for (int o = 0; o < out_count; o++) {
        s->out[o] = out[o]->id;
        b->vars[out[o]->id].kind = MF_VAR_MEMORY;
        b->vars[out[o]->id].unit = unit;
    }
    return true;
}

/* ------------------------------------------------------------------ equations */

static bool make_view(mf_build *b, const mf_eqn *e)
{
    if (e->in_count != 1 || e->out_count != 1)
        return false;
    const mf_var_state *from = &b->vars[e->in[0]->id];
    mf_var_state *to = &b->vars[e->out[0]->id];
    to->after = from->after;
    if (from->kind == MF_VAR_NODE && mf_is_reshape(e)) {
        to->kind = MF_VAR_NODE;
        to->unit = from->unit;
        to->node = from->node;
        return true;
    }
    mf_layout layout;
    if (from->kind == MF_VAR_VIEW || from->kind == MF_VAR_IOTA)
        layout = from->layout;
    else
        mf_layout_contiguous(&layout, e->in[0]->type);
    if (!mf_layout_of_view(&to->layout, e, &layout)) {
        if (!mf_is_reshape(e) || !mf_build_materialise(b, e->in[0]))
            return false;
        mf_layout_contiguous(&to->layout, e->out[0]->type);
        to->kind = MF_VAR_VIEW;
        to->root = e->in[0]->id;
        return true;
    }
    to->kind = from->kind == MF_VAR_IOTA ? MF_VAR_IOTA : MF_VAR_VIEW;
    to->root = from->kind == MF_VAR_VIEW ? from->root : e->in[0]->id;
    return true;
}

/* A barrier is a unit without work: it depends on what makes its operands, and its results are the operands, to be read after it. */
static bool make_barrier(mf_build *b, const mf_eqn *e)
{
    if (!(e->op->flags & MF_OP_BARRIER))
        return false;
    int unit = mf_unit_new(b);
    if (b->error)
        return true;
    b->units[unit].barrier = true;
    for (int i = 0; i < e->in_count; i++) {
        const mf_var_state *from = &b->vars[e->in[i]->id];
        mf_var_state *to = &b->vars[e->out[i]->id];
        mf_unit_depend(b, unit, from->kind == MF_VAR_VIEW ? b->vars[from->root].unit : from->unit);
        to->kind = from->kind;
        to->unit = from->unit;
        to->node = from->node;
        to->root = from->root;
        to->layout = from->layout;
        to->after = unit;
        if (from->kind == MF_VAR_MEMORY) {
            to->kind = MF_VAR_VIEW;
            to->unit = to->node = -1;
            to->root = e->in[i]->id;
            mf_layout_contiguous(&to->layout, e->in[i]->type);
        }
    }
    return true;
}

static bool make_iota(mf_build *b, const mf_eqn *e)
{
    const mf_iota_params *p = e->params;
    mf_dtype dtype = e->out[0]->type->dtype;
    if (e->op != &mf_op_iota || (dtype != MF_I32 && dtype != MF_F32 && dtype != MF_I64 && dtype != MF_U32))
        return false;
    mf_var_state *s = &b->vars[e->out[0]->id];
    s->kind = MF_VAR_IOTA;
    mf_layout_contiguous(&s->layout, e->out[0]->type);
    for (int i = 0; i < s->layout.rank; i++)
        s->layout.strides[i] = i == p->axis;
    return true;
}

static bool is_empty(const mf_eqn *e)
{
    for (int o = 0; o < e->out_count; o++)
        if (e->out[o]->type->size)
            return false;
    return true;
}

/* Only loops may have no operands. */
static bool has_step(mf_build *b, const mf_eqn *e)
{
    bool made = e->in_count && (mf_build_dot(b, e) || mf_build_integer_dot(b, e) || mf_build_conv(b, e) || mf_build_window(b, e) ||
                                mf_build_pool(b, e) || mf_build_reduce(b, e) || mf_build_cut(b, e) || mf_build_index(b, e) ||
                                mf_build_line(b, e) || mf_build_sort(b, e) || mf_build_top_k(b, e));
    return made || mf_build_loop(b, e);
}

static void find_barriers(mf_build *b, const mf_eqn *e)
{
    b->after.count = 0;
    for (int i = 0; i < e->in_count; i++) {
        int after = b->vars[e->in[i]->id].after;
        if (after >= 0 && !mf_vector_push(&b->after, after) && !b->error)
            b->error = mf_error_out_of_memory();
    }
}

static void build_equation(mf_build *b, const mf_eqn *e)
{
    if (is_empty(e) || b->vars[e->out[0]->id].unit >= 0)
        return; /* the results have no bytes, or a reader of them has made them already: products/dot_step.c */
    find_barriers(b, e);
    bool made = make_barrier(b, e) || make_view(b, e) || make_iota(b, e) || (!b->error && mf_fuse(b, e));
    if (!made && !b->error && !has_step(b, e))
        mf_build_evaluate(b, e);
}

static void find_only_readers(mf_build *b)
{
    const mf_program *p = b->program;
    int *readers = mf_build_alloc(b, (size_t)p->var_count, sizeof *readers);
    for (int i = 0; readers && i < p->eqn_count; i++)
        for (int k = 0; k < p->eqns[i]->in_count; k++) {
            int v = p->eqns[i]->in[k]->id;
            b->vars[v].only_reader = ++readers[v] == 1 ? p->eqns[i] : NULL;
        }
    for (int o = 0; readers && o < p->out_count; o++)
        b->vars[p->out[o]->id].only_reader = NULL;
}

static void start(mf_build *b)
{
    const mf_program *p = b->program;
    int most = 2 * p->eqn_count + p->out_count + 64;
    for (int i = 0; i < p->eqn_count; i++)
        b->own_most += p->eqns[i]->op == &mf_op_select_and_scatter_add;
    int vars = p->var_count + p->out_count + b->own_most;
    b->own = mf_build_alloc(b, (size_t)b->own_most, sizeof *b->own);
    b->vars = mf_calloc((size_t)vars + 1, sizeof *b->vars);
    if (most <= TRACKED_UNITS) {
        b->words = ((size_t)most + 63) / 64;
        b->depends = mf_calloc((size_t)most * b->words + 1, sizeof *b->depends);
    }
    if (!b->vars || (most <= TRACKED_UNITS && !b->depends)) {
        b->error = mf_error_out_of_memory();
        return;
    }
    for (int v = 0; v < vars; v++) {
        b->vars[v].unit = -1;
        b->vars[v].alias = -1;
        b->vars[v].node = -1;
        b->vars[v].after = -1;
        b->vars[v].root = v;
    }
}

void mf_build_program(mf_build *b)
{
    const mf_program *p = b->program;
    start(b);
    if (!b->error)
        find_only_readers(b);
    for (int i = 0; i < p->eqn_count && !b->error; i++)
        build_equation(b, p->eqns[i]);
    b->after.count = 0;
    for (int o = 0; o < p->out_count && !b->error; o++)
        mf_build_materialise(b, p->out[o]);
    mf_free(b->after.at);
    b->after.at = NULL;
}
