/* Decides which elementwise equations run in one loop. An equation joins the group that computes one of its operands, or a group that reads
 * the same memory, if they have the same number of elements and nothing between them needs the group's results first.
 * Invariants: a group's values are functions of an element's row-major number, so reshapes cost nothing inside; the shapes of its loads
 * have a common refinement; units never depend on each other in a cycle. */
#include "backend/native/segment_build.h"

#include <string.h>

enum { MOST_NODES = 300, CANDIDATES = 4 };

/* An operand: a node of some group, or what a new load node has to read. */
typedef struct operand {
    mf_variable *v;
    bool is_node; /* of its unit's group, with the same elements */
    mf_node load;
} operand;

static bool is_number(mf_dtype d) { return d >= MF_BOOL && d <= MF_C128; }

/* ------------------------------------------------------------------ operands */

/* The value of a constant whose elements are all equal. */
static bool splat_constant(const mf_variable *v, int64_t *bits)
{
    const mf_literal *l = v->constant;
    if (!l || mf_dtype_size(v->type->dtype) > (int)sizeof *bits || mf_literal_is_contiguous(l) > (v->type->size == 1))
        return false;
    for (int i = 0; i < v->type->rank; i++)
        if (v->type->dims[i] != 1 && l->strides[i] != 0)
            return false;
    *bits = 0;
    memcpy(bits, l->data, (size_t)mf_dtype_size(v->type->dtype));
    return true;
}

/* Whether the group computes the value, stored or not. */
static bool is_node_of(const mf_build *b, const mf_var_state *s, int unit)
{
    bool kind = s->kind == MF_VAR_NODE || s->kind == MF_VAR_MEMORY;
    return kind && unit >= 0 && s->unit == unit && b->units[unit].group && s->node >= 0;
}

/* The unit that makes what the operand reads; -1: none. */
static int unit_of(const mf_build *b, const operand *o) { return b->vars[o->is_node ? o->v->id : o->load.var].unit; }

static void describe(const mf_build *b, mf_variable *v, int64_t n, operand *o)
{
    const mf_var_state *s = &b->vars[v->id];
    *o = (operand){ .v = v };
    if (is_node_of(b, s, s->unit) && v->type->size == n) {
        o->is_node = true;
        return;
    }
    o->load = (mf_node){ .kind = s->kind == MF_VAR_IOTA ? MF_NODE_IOTA : MF_NODE_LOAD, .dtype = v->type->dtype, .var = v->id };
    if (s->kind == MF_VAR_VIEW || s->kind == MF_VAR_IOTA)
        o->load.layout = s->layout;
    else
        mf_layout_contiguous(&o->load.layout, v->type);
    if (s->kind == MF_VAR_VIEW)
        o->load.var = s->root;
    if (v->type->size != n) /* a scalar among arrays */
        o->load.layout = (mf_layout){ .rank = 1, .dims = { n }, .offset = o->load.layout.offset };
    if (o->load.kind == MF_NODE_LOAD && splat_constant(b->program->vars[o->load.var], &o->load.bits))
        o->load.kind = MF_NODE_CONSTANT;
}

static bool same_load(const mf_node *a, const mf_node *b)
{
    if (a->kind != b->kind || a->dtype != b->dtype)
        return false;
    if (a->kind == MF_NODE_CONSTANT)
        return a->bits == b->bits;
    const mf_layout *x = &a->layout, *y = &b->layout;
    if ((a->kind == MF_NODE_LOAD && a->var != b->var) || x->offset != y->offset)
        return false;
    if (mf_layout_is_contiguous(x) && mf_layout_is_contiguous(y))
        return true;
    return x->rank == y->rank && !memcmp(x->dims, y->dims, (size_t)x->rank * sizeof *x->dims) &&
           !memcmp(x->strides, y->strides, (size_t)x->rank * sizeof *x->strides);
}

/* The operand's node in the group; adds a load if the group does not have one. */
static int operand_node(mf_build *b, mf_group *g, int unit, const operand *o)
{
    const mf_var_state *s = &b->vars[o->v->id];
    if (o->is_node && s->unit == unit)
        return s->node;
    mf_node load = o->load;
    if (o->is_node) { /* in another group: through memory */
        load = (mf_node){ .kind = MF_NODE_LOAD, .dtype = o->v->type->dtype, .var = o->v->id };
        mf_layout_contiguous(&load.layout, o->v->type);
    }
    for (int i = 0; i < g->count; i++)
        if (same_load(&g->nodes[i], &load))
            return i;
    if (load.kind == MF_NODE_LOAD && (!mf_build_materialise(b, b->program->vars[load.var])))
        return -1;
    if (load.kind != MF_NODE_CONSTANT && !mf_factors_refine(&g->factors, load.layout.dims, load.layout.rank))
        return -1;
    return mf_node_append(b, g, &load);
}

/* ------------------------------------------------------------------ joining */

/* Whether the group of this unit can read the operand without a cycle. */
static bool operand_fits(const mf_build *b, int unit, const operand *o)
{
    int made_by = unit_of(b, o);
    if (made_by < 0)
        return true;
    if (made_by == unit)
        return o->is_node; /* a loop cannot read back results that it stores itself */
    return !mf_unit_depends(b, made_by, unit);
}

static bool all_fit(const mf_build *b, int unit, const operand *in, int in_count)
{
    for (int i = 0; i < b->after.count; i++)
        if (mf_unit_depends(b, b->after.at[i], unit))
            return false;
    for (int i = 0; i < in_count; i++)
        if (!operand_fits(b, unit, &in[i]))
            return false;
    return true;
}

static bool fits(const mf_build *b, int unit, const operand *in, int in_count, int64_t n, bool complex, int more)
{
    const mf_group *g = b->units[unit].group;
    if (!g || b->units[unit].dead || g->n != n || g->complex != complex || g->count + more > MOST_NODES)
        return false;
    mf_factors factors = g->factors;
    if (!all_fit(b, unit, in, in_count))
        return false;
    for (int i = 0; i < in_count; i++) {
        if (!in[i].is_node && in[i].load.kind != MF_NODE_CONSTANT &&
            !mf_factors_refine(&factors, in[i].load.layout.dims, in[i].load.layout.rank))
            return false;
    }
    return true;
}

/* Whether the group waits for nothing new: joining does not delay it. */
static bool knows_all(const mf_build *b, int unit, const operand *in, int in_count)
{
    for (int i = 0; i < b->after.count; i++)
        if (!mf_unit_depends(b, unit, b->after.at[i]))
            return false;
    for (int i = 0; i < in_count; i++) {
        int made_by = unit_of(b, &in[i]);
        if (made_by >= 0 && made_by != unit && !mf_unit_depends(b, unit, made_by))
            return false;
    }
    return true;
}

static void move_dependencies(mf_build *b, int to, int from)
{
    for (int u = 0; u < b->unit_count; u++)
        if (mf_unit_depends(b, from, u))
            mf_unit_depend(b, to, u);
    for (int u = 0; u < b->unit_count; u++)
        if (u != from && mf_unit_depends(b, u, from))
            mf_unit_depend(b, u, to);
}

/* Merges two groups that do not depend on each other. */
static bool merge(mf_build *b, int to, int from)
{
    mf_group *g = b->units[to].group, *old = b->units[from].group;
    mf_factors factors = g->factors;
    if (!b->depends || g->complex != old->complex || mf_unit_depends(b, to, from) || mf_unit_depends(b, from, to) ||
        g->count + old->count > MOST_NODES || !mf_factors_refine(&factors, old->factors.at, old->factors.count))
        return false;
    int *map = mf_alloc((size_t)old->count * sizeof *map + 1);
    if (!map)
        return false;
    for (int i = 0; i < old->count; i++) {
        mf_node node = old->nodes[i];
        bool leaf = node.kind == MF_NODE_LOAD || node.kind == MF_NODE_IOTA || node.kind == MF_NODE_CONSTANT;
        map[i] = -1;
        for (int k = 0; leaf && node.out_var < 0 && k < g->count && map[i] < 0; k++)
            if (same_load(&g->nodes[k], &node))
                map[i] = k;
        for (int k = 0; k < node.in_count; k++)
            node.in[k] = map[node.in[k]];
        if (map[i] < 0) {
            map[i] = mf_node_append(b, g, &node);
            if (map[i] >= 0)
                g->nodes[map[i]].out_var = old->nodes[i].out_var;
        }
    }
    for (int v = 0; v < b->program->var_count && !b->error; v++)
        if (b->vars[v].unit == from) {
            b->vars[v].unit = to;
            b->vars[v].node = b->vars[v].node < 0 ? -1 : map[b->vars[v].node];
        }
    g->factors = factors;
    b->units[from].dead = true;
    move_dependencies(b, to, from);
    mf_free(map);
    return !b->error;
}

static int new_group(mf_build *b, int64_t n, bool complex)
{
    int unit = mf_unit_new(b);
    mf_group *g = mf_build_alloc(b, 1, sizeof *g);
    if (!g)
        return -1;
    g->n = n;
    g->complex = complex;
    g->factors.count = n > 1;
    g->factors.at[0] = n;
    b->units[unit].group = g;
    return unit;
}

/* Chooses the group for an equation with these operands, and merges the other operands' groups into it where possible. */
static int choose_group(mf_build *b, const operand *in, int in_count, int64_t n, bool complex, int more)
{
    int unit = -1;
    for (int i = 0; i < in_count && unit < 0; i++)
        if (in[i].is_node && fits(b, unit_of(b, &in[i]), in, in_count, n, complex, more))
            unit = unit_of(b, &in[i]);
    for (int i = 0; i < in_count && unit < 0; i++) {
        int last = in[i].load.kind == MF_NODE_LOAD && !in[i].is_node ? b->vars[in[i].load.var].reader - 1 : -1;
        if (last >= 0 && knows_all(b, last, in, in_count) && fits(b, last, in, in_count, n, complex, more))
            unit = last;
    }
    for (int i = 0; i < in_count && unit >= 0; i++)
        if (in[i].is_node && unit_of(b, &in[i]) != unit && all_fit(b, unit_of(b, &in[i]), in, in_count))
            merge(b, unit, unit_of(b, &in[i]));
    return unit >= 0 ? unit : new_group(b, n, complex);
}

/* ------------------------------------------------------------------ equations */

/* The number of nodes that e takes, or -1 if one of its operations has no kernel. */
static int probe(mf_build *b, const mf_eqn *e)
{
    mf_group g = { .n = e->out[0]->type->size };
    int in[3];
    for (int i = 0; i < e->in_count; i++) {
        mf_node load = { .kind = MF_NODE_LOAD, .dtype = e->in[i]->type->dtype };
        in[i] = mf_node_append(b, &g, &load);
    }
    int made = b->error ? -1 : mf_lower(b, &g, e, in), count = g.count;
    mf_free(g.nodes);
    return made < 0 ? -1 : count;
}

static bool is_fusable(const mf_eqn *e)
{
    if (e->out_count != 1 || e->in_count < 1 || e->in_count > 3 || (e->op->lower == mf_lower_none && !mf_touches_complex(e)) ||
        !is_number(e->out[0]->type->dtype))
        return false;
    for (int i = 0; i < e->in_count; i++) {
        const mf_type *t = e->in[i]->type;
        if (!is_number(t->dtype) || (t->size != e->out[0]->type->size && t->size != 1))
            return false;
    }
    return true;
}

static void note_reader(mf_build *b, int unit, const operand *o)
{
    if (!o->is_node && o->load.kind == MF_NODE_LOAD)
        b->vars[o->load.var].reader = unit + 1;
}

bool mf_fuse(mf_build *b, const mf_eqn *e)
{
    int more = is_fusable(e) ? probe(b, e) : -1, nodes[3];
    if (more < 0)
        return false;
    int64_t n = e->out[0]->type->size;
    operand in[3];
    for (int i = 0; i < e->in_count; i++)
        describe(b, e->in[i], n, &in[i]);
    int unit = choose_group(b, in, e->in_count, n, mf_touches_complex(e), more);
    if (unit < 0)
        return false;
    mf_group *g = b->units[unit].group;
    for (int i = 0; i < b->after.count; i++)
        mf_unit_depend(b, unit, b->after.at[i]);
    for (int i = 0; i < e->in_count; i++) {
        nodes[i] = operand_node(b, g, unit, &in[i]);
        if (nodes[i] < 0) {
            b->units[unit].dead = g->count == 0; /* a new group whose operands' shapes have no common refinement */
            return false;
        }
        note_reader(b, unit, &in[i]);
        if (g->nodes[nodes[i]].kind == MF_NODE_LOAD)
            mf_unit_depend(b, unit, b->vars[g->nodes[nodes[i]].var].unit);
    }
    int made = mf_lower(b, g, e, nodes);
    if (made < 0)
        return false;
    mf_var_state *s = &b->vars[e->out[0]->id];
    s->kind = MF_VAR_NODE;
    s->unit = unit;
    s->node = made;
    return true;
}

void mf_fuse_copy(mf_build *b, mf_variable *v)
{
    mf_var_state *s = &b->vars[v->id];
    mf_node load = {
        .kind = s->kind == MF_VAR_IOTA ? MF_NODE_IOTA : MF_NODE_LOAD, .dtype = v->type->dtype, .var = s->root, .layout = s->layout
    };
    int unit = new_group(b, v->type->size, mf_dtype_is_complex(v->type->dtype));
    if (unit < 0)
        return;
    mf_group *g = b->units[unit].group;
    mf_factors_refine(&g->factors, load.layout.dims, load.layout.rank);
    int node = mf_node_append(b, g, &load);
    if (node < 0)
        return;
    g->nodes[node].out_var = v->id;
    if (load.kind == MF_NODE_LOAD)
        mf_unit_depend(b, unit, b->vars[s->root].unit);
    s->kind = MF_VAR_MEMORY;
    s->unit = unit;
    s->node = node;
}
