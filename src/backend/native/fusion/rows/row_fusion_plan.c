/* Joined steps as one graph over a row; see row_fusion.h. What a step hands to another one becomes an edge; what a later phase needs is
 * computed again if that costs little, else kept in a buffer of one row.
 * Invariants: nodes come after their operands; a phase reads of earlier phases only row nodes and what is kept. */
#include "backend/native/llvm/tier_up.h"

enum {
    AGAIN = 3, /* up to so many light operations are repeated rather than kept */
    MOST_NODES = 400,
    ALIGN = 64,
    LEAST_AT_ONCE = 4, /* with longer rows, two at once are no faster, and slower where they are written */
    MOST_AT_ONCE = 16,
    NEAR_BYTES = 32 << 10 /* of the rows at once: stays in the nearest cache from phase to phase */
};

typedef struct planner {
    mf_build *b;
    mf_rows_plan *plan;
    int *maker;          /* by value: the node that makes it, or -1 */
    const bool *outside; /* by value */
    int *cost;           /* by node: cost of computing it in a later phase */
} planner;

/* ------------------------------------------------------------------ walks over memory */

/* Whether factors [first, end) have a single stride as a whole. */
static bool one_stride(const mf_factors *f, const int64_t *strides, int first, int end, int64_t *stride)
{
    int64_t size = 1;
    *stride = first < end ? strides[end - 1] : 0;
    for (int d = end - 1; d >= first; size *= f->at[d--])
        if (strides[d] != *stride * size)
            return false;
    return true;
}

static bool walk_of(const mf_layout *l, int64_t n, int64_t rows, mf_rows_node *at)
{
    mf_factors f = { .count = n > 1, .at = { n } };
    int64_t dims[] = { rows, n / rows }, strides[MF_FACTORS], done = 1;
    int outer = 0;
    if (!mf_factors_refine(&f, dims, 2) || !mf_factors_refine(&f, l->dims, l->rank))
        return false;
    for (; done < rows; outer++)
        done *= f.at[outer];
    mf_layout_strides(l, &f, strides);
    at->offset = l->offset;
    return one_stride(&f, strides, 0, outer, &at->row_stride) && one_stride(&f, strides, outer, f.count, &at->column_stride);
}

/* ------------------------------------------------------------------ nodes */

static int append(planner *p, const mf_node *x, const mf_rows_node *at)
{
    mf_rows_plan *plan = p->plan;
    plan->group.nodes[plan->group.count] = *x;
    plan->nodes[plan->group.count] = *at;
    return plan->group.count++;
}

/* The node that reads the same elements for another step already, or -1. They are shared because prefetching has to know the last use of
 * an element. */
static int same_load(const planner *p, mf_dtype dtype, const mf_rows_node *at)
{
    for (int i = 0; i < p->plan->group.count; i++) {
        const mf_rows_node *other = &p->plan->nodes[i];
        if (other->load == at->load && p->plan->group.nodes[i].dtype == dtype && other->row == at->row && other->offset == at->offset &&
            other->row_stride == at->row_stride && other->column_stride == at->column_stride)
            return i;
    }
    return -1;
}

/* The node that made what this load reads, if it reads it element by element; else -1. */
static int edge(const planner *p, const mf_node *x, const mf_rows_node *at, int value)
{
    int made = p->maker[value];
    bool from_row = p->plan->nodes[made].row;
    bool plain = from_row ? at->row_stride == 1 && (at->row || at->column_stride == 0)
                          : !at->row && at->row_stride == p->plan->columns && at->column_stride == 1;
    return plain && at->offset == 0 && p->plan->group.nodes[made].dtype == x->dtype ? made : -1;
}

static bool store(planner *p, int node, int value)
{
    mf_rows_node *at = &p->plan->nodes[node];
    p->maker[value] = node;
    if (!p->outside[value])
        return true;
    bool free = at->store < 0;
    at->store = free ? value : at->store;
    return free;
}

static bool add_node(planner *p, const mf_native_step *s, const mf_group_plan *from, int i, int *map)
{
    const mf_node *x = &from->group->nodes[i];
    mf_rows_node at = { .row = from->n == p->plan->rows, .load = -1, .store = -1, .buffer = -1 };
    mf_node node = *x;
    map[i] = -1;
    if ((x->kind == MF_NODE_LOAD || x->kind == MF_NODE_IOTA) && !walk_of(&x->layout, from->n, p->plan->rows, &at))
        return false;
    if (x->kind == MF_NODE_LOAD) {
        at.load = s->in[from->loads[i].slot];
        if (p->maker[at.load] >= 0) {
            map[i] = edge(p, x, &at, at.load);
            if (map[i] < 0)
                return false;
        } else if (from->out_slot[i] < 0) {
            map[i] = same_load(p, x->dtype, &at);
        }
    }
    for (int k = 0; k < x->in_count; k++) {
        node.in[k] = map[x->in[k]];
        at.phase = p->plan->nodes[node.in[k]].phase > at.phase ? p->plan->nodes[node.in[k]].phase : at.phase;
    }
    map[i] = map[i] >= 0 ? map[i] : append(p, &node, &at);
    return from->out_slot[i] < 0 || store(p, map[i], s->out[from->out_slot[i]]);
}

static bool add_group(planner *p, const mf_native_step *s, const mf_group_plan *from)
{
    if (from->n != p->plan->rows && from->n != p->plan->rows * p->plan->columns)
        return false;
    int *map = mf_build_alloc(p->b, (size_t)from->group->count, sizeof *map);
    for (int i = 0; map && i < from->group->count; i++)
        if (!add_node(p, s, from, i, map))
            return false;
    return map != NULL;
}

static bool add_reduction(planner *p, const mf_native_step *s)
{
    mf_dtype dtype = s->eqn->in[0]->type->dtype;
    int of = p->maker[s->in[0]];
    if (s->parts->rows(s) != p->plan->rows || s->eqn->in[0]->type->size != p->plan->rows * p->plan->columns)
        return false;
    if (of < 0) {
        mf_node load = { .kind = MF_NODE_LOAD, .dtype = dtype };
        mf_rows_node at = { .load = s->in[0], .store = -1, .buffer = -1, .row_stride = p->plan->columns, .column_stride = 1 };
        of = same_load(p, dtype, &at);
        of = of >= 0 ? of : append(p, &load, &at);
    }
    if (p->plan->nodes[of].row)
        return false;
    mf_node node = { .kind = MF_NODE_LOAD, .dtype = dtype, .in_count = 1, .in = { of } };
    mf_rows_node at = { .row = true, .reduces = true, .fold = s->parts->fold(s), .load = -1, .store = -1, .buffer = -1 };
    at.phase = p->plan->nodes[of].phase + 1;
    return store(p, append(p, &node, &at), s->out[0]);
}

/* ------------------------------------------------------------------ values kept for later phases */

static int weight(const mf_node *x)
{
    if (x->kind != MF_NODE_CALL)
        return x->kind == MF_NODE_CONVERT || x->kind == MF_NODE_SELECT;
    return x->weight == 1 ? 1 : 2 * AGAIN;
}

bool mf_rows_keeps(const mf_rows_plan *plan, int node, int phase)
{
    const mf_rows_node *at = &plan->nodes[node];
    return !at->row && at->phase < phase && (at->buffer >= 0 || (at->store >= 0 && at->load < 0));
}

/* Gives nodes that later phases need, and that are expensive, a buffer, unless they are results, which are read back. */
static void find_kept(planner *p)
{
    mf_rows_plan *plan = p->plan;
    for (int i = 0; i < plan->group.count; i++) {
        const mf_node *x = &plan->group.nodes[i];
        mf_rows_node *at = &plan->nodes[i];
        bool later = false;
        p->cost[i] = weight(x);
        for (int k = 0; k < x->in_count; k++)
            p->cost[i] += p->cost[x->in[k]];
        for (int r = i + 1; r < plan->group.count && !later; r++)
            for (int k = 0; k < plan->group.nodes[r].in_count; k++)
                later |= plan->group.nodes[r].in[k] == i && plan->nodes[r].phase - plan->nodes[r].reduces > at->phase;
        bool stored = at->store >= 0 && at->load < 0;
        if (!at->row && later && p->cost[i] > AGAIN && !stored) {
            at->buffer = (int)plan->buffer_bytes;
            plan->buffer_bytes += (size_t)(plan->columns * mf_dtype_size(x->dtype) + ALIGN - 1) / ALIGN * ALIGN;
        }
        if (at->row || at->buffer >= 0 || stored)
            p->cost[i] = 0;
    }
}

/* Several rows at once, so that row nodes are computed for all of them in one vector, and one row's columns do not wait for the row
 * before. */
static int rows_at_once(const mf_rows_plan *plan)
{
    int64_t bytes = (int64_t)plan->buffer_bytes;
    for (int i = 0; i < plan->group.count; i++) {
        const mf_rows_node *at = &plan->nodes[i];
        bool read = at->load >= 0 && at->column_stride, written = at->store >= 0 && !at->row;
        bytes += (2 * read + written) * plan->columns * mf_dtype_size(plan->group.nodes[i].dtype);
    }
    int rows = MOST_AT_ONCE;
    while (rows > 1 && (rows > plan->rows || rows * bytes > NEAR_BYTES))
        rows /= 2;
    return rows < LEAST_AT_ONCE ? 1 : rows;
}

/* ------------------------------------------------------------------ the plan */

static bool fill(planner *p, mf_native_step *const *parts, int count)
{
    for (int i = 0; i < count; i++) {
        const mf_group_plan *group = parts[i]->parts->group(parts[i]);
        if (!(group ? add_group(p, parts[i], group) : add_reduction(p, parts[i])))
            return false;
    }
    return true;
}

static int64_t columns_of(mf_native_step *const *parts, int count, int64_t rows)
{
    for (int i = 0; i < count; i++)
        if (parts[i]->parts->rows && parts[i]->parts->rows(parts[i]) == rows)
            return parts[i]->eqn->in[0]->type->size / rows;
    return 0;
}

mf_rows_plan *mf_rows_plan_make(mf_build *b, mf_native_step *const *parts, int part_count, int64_t rows, int value_count,
                                const bool *outside)
{
    size_t most = 0;
    for (int i = 0; i < part_count; i++) {
        const mf_group_plan *group = parts[i]->parts->group(parts[i]);
        most += group ? (size_t)group->group->count : 2;
    }
    mf_rows_plan *plan = mf_build_alloc(b, 1, sizeof *plan);
    planner p = { b, plan, mf_build_alloc(b, (size_t)value_count, sizeof(int)), outside, mf_build_alloc(b, most, sizeof(int)) };
    mf_node *nodes = mf_build_alloc(b, most, sizeof *nodes);
    mf_rows_node *row_nodes = mf_build_alloc(b, most, sizeof *row_nodes);
    if (b->error || most > MOST_NODES)
        return NULL;
    plan->group.nodes = nodes;
    plan->nodes = row_nodes;
    plan->rows = rows;
    plan->columns = columns_of(parts, part_count, rows);
    plan->value_count = value_count;
    for (int v = 0; v < value_count; v++)
        p.maker[v] = -1;
    if (plan->columns < 2 || !fill(&p, parts, part_count))
        return NULL;
    for (int i = 0; i < plan->group.count; i++)
        plan->phases = plan->nodes[i].phase >= plan->phases ? plan->nodes[i].phase + 1 : plan->phases;
    if (!mf_llvm_can_rows(plan))
        return NULL;
    find_kept(&p);
    plan->at_once = rows_at_once(plan);
    return plan;
}
