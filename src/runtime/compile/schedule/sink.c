/* Partitioning, after scheduling: moves equations to the segments that read them, where that saves memory traffic between segments. A
 * broadcast is free inside a segment but an array between two, so each segment that reads one makes its own. An elementwise equation that
 * only one later segment reads goes there, unless more bytes would have to cross in its place. A large elementwise result that several
 * segments read is computed in each (rematerialised) if its operands are read there anyway, as those of a normalisation are in its
 * gradient. An equation that the compiler may compute as a part of its only reader goes to the reader's segment.
 * Invariant: no equation moves to an earlier item, to the other side (except for views, which cost nothing), or away from a reader that
 * is not in a segment. */
#include "runtime/compile/schedule/schedule.h"

#include <string.h>

typedef struct sinker {
    mf_schedule *schedule;
    const mf_program *program;
    size_t words;
    uint64_t *items_of;             /* by equation: the items that compute it */
    uint64_t *read_in;              /* by variable: the segments that read it */
    int *readers;                   /* by variable: the number of equations that read it */
    const mf_eqn **reader;          /* by variable: the first of them */
    bool *must_store;               /* by variable: it is a result, or read by an item that is not a segment */
    int *index;                     /* by variable: the equation that computes it, or -1 */
    int counted[16], counted_count; /* variables whose read is counted already in the current cost */
} sinker;

static uint64_t *row(uint64_t *bits, const sinker *k, int i) { return bits + (size_t)i * k->words; }
static bool has(const uint64_t *bits, int i) { return bits[i / 64] >> (i % 64) & 1; }
static int item_of(const sinker *k, const mf_eqn *e) { return k->schedule->made_by[e->out[0]->id]; }

static bool in_segment(const sinker *k, const mf_eqn *e)
{
    return e->out_count > 0 && k->schedule->items[item_of(k, e)].kind == MF_DO_SEGMENT;
}

/* Whether the result is larger than the operands, and free inside a segment. */
static bool is_repeatable(const mf_eqn *e)
{
    return e->op->view == MF_VIEW_GENERATED || (e->op->view == MF_VIEW_STRIDES && e->in[0]->type->bytes < e->out[0]->type->bytes);
}

static bool is_light(const mf_eqn *e) { return e->op->lower != mf_lower_none || e->op->view == MF_VIEW_RESHAPE; }

/* The additional bytes that cross between segments if v is read in a later segment than `own`. */
static int64_t bytes_to_carry(const sinker *k, const mf_variable *v, int own)
{
    int maker = v->constant ? -1 : k->index[v->id];
    if (maker < 0 || k->schedule->made_by[v->id] != own || is_repeatable(k->program->eqns[maker]) || k->must_store[v->id])
        return 0;
    const mf_eqn *e = k->program->eqns[maker];
    int64_t bytes = 0;
    if (k->readers[v->id] > 1 || e->out_count > 1 || !is_light(e))
        return v->type->bytes;
    for (int i = 0; i < e->in_count; i++)
        bytes += bytes_to_carry(k, e->in[i], own);
    return bytes < v->type->bytes ? bytes : v->type->bytes;
}

/* The only segment that reads v, or -1. */
static int only_reader(const sinker *k, const mf_variable *v)
{
    const uint64_t *bits = row(k->read_in, k, v->id);
    int found = -1;
    for (int i = 0; i < k->schedule->item_count; i++)
        if (has(bits, i)) {
            if (found >= 0)
                return -1;
            found = i;
        }
    return found;
}

/* ------------------------------------------------------------------ rematerialisation
 * Costs are in bytes moved. A result is written, which also reads its cache lines first (2), and read in each other segment. An addition
 * takes about as long as moving a byte. This is another measure than bytes_to_carry: there an equation leaves its segment, and what only
 * it reads follows at no cost; here it stays and is computed once more. */
enum { WRITTEN = 2 };
int64_t mf_schedule_large_bytes = MF_SCHEDULE_LARGE_BYTES;

static int64_t work_of(const mf_eqn *e)
{
    const mf_type *t = e->out[0]->type;
    return e->op->view ? 0 : (e->op->weight ? e->op->weight : 1) * t->size;
}

/* Whether v, which an equation of the item `reader` reads, has to be in memory for other readers. */
static bool crosses(const sinker *k, const mf_variable *v, int reader)
{
    const int maker = k->schedule->made_by[v->id];
    if (maker != reader || k->must_store[v->id])
        return true;
    for (int r = maker + 1; r < k->schedule->item_count; r++)
        if (has(row(k->read_in, k, v->id), r))
            return true;
    return false;
}

static int64_t cost_to_read(sinker *k, const mf_variable *v, int reader, int item, int64_t most);

/* The additional cost if `item` also computes e; stops once it exceeds `most`. */
static int64_t cost_to_repeat(sinker *k, const mf_eqn *e, int item, int64_t most)
{
    int64_t cost = work_of(e);
    for (int o = 0; o < e->in_count && cost <= most; o++)
        cost += cost_to_read(k, e->in[o], item_of(k, e), item, most - cost);
    return cost;
}

/* The additional cost if `item` also reads v, an operand of an equation in `reader`. */
static int64_t cost_to_read(sinker *k, const mf_variable *v, int reader, int item, int64_t most)
{
    const int before = k->counted_count;
    for (int i = 0; i < before; i++)
        if (k->counted[i] == v->id)
            return 0;
    if (v->constant || v->type->bytes < mf_schedule_large_bytes || has(row(k->read_in, k, v->id), item))
        return 0;
    const mf_eqn *e = k->index[v->id] < 0 ? NULL : k->program->eqns[k->index[v->id]];
    bool repeatable = e && in_segment(k, e) && e->out_count == 1 && (is_light(e) || is_repeatable(e));
    int64_t read = crosses(k, v, reader) ? v->type->bytes : (1 + WRITTEN) * v->type->bytes;
    int64_t repeated = repeatable ? cost_to_repeat(k, e, item, read < most ? read : most) : read;
    if (repeated >= read)
        k->counted_count = before;
    if (k->counted_count < (int)(sizeof k->counted / sizeof *k->counted))
        k->counted[k->counted_count++] = v->id;
    return repeated < read ? repeated : read;
}

/* Whether all segments that read e's result should compute it themselves. */
static bool pays_to_repeat(sinker *k, const mf_eqn *e, int own)
{
    const mf_variable *v = e->out[0];
    if (v->type->bytes < mf_schedule_large_bytes || k->must_store[v->id] || !is_light(e) || !crosses(k, v, own))
        return false;
    int64_t saved = WRITTEN * v->type->bytes;
    for (int r = own + 1; r < k->schedule->item_count; r++)
        if (has(row(k->read_in, k, v->id), r)) {
            if (k->schedule->items[r].side != k->schedule->items[own].side)
                return false;
            k->counted_count = 0;
            int64_t most = v->type->bytes + v->type->bytes / 2, cost = cost_to_repeat(k, e, r, most);
            if (cost > most) /* more memory than v would stay live for it, and operands could be overwritten only later */
                return false;
            saved += v->type->bytes - cost;
        }
    return saved > 0;
}

static void choose_items(sinker *k, int i)
{
    const mf_eqn *e = k->program->eqns[i];
    uint64_t *at = row(k->items_of, k, i);
    int own = item_of(k, e), target;
    at[own / 64] |= (uint64_t)1 << (own % 64);
    if (!in_segment(k, e) || e->out_count != 1 || !k->readers[e->out[0]->id])
        return;
    const mf_variable *v = e->out[0];
    if (is_repeatable(e) || pays_to_repeat(k, e, own)) {
        if (!k->must_store[v->id])
            memset(at, 0, k->words * sizeof *at);
        for (size_t w = 0; w < k->words; w++)
            at[w] |= row(k->read_in, k, v->id)[w];
        return;
    }
    bool feeds = k->readers[v->id] == 1 && k->schedule->compiler->feeds && k->schedule->compiler->feeds(e, k->reader[v->id]);
    bool view = e->op->view == MF_VIEW_STRIDES; /* needs no memory beside its reader, even if that has moved */
    target = k->must_store[v->id] || !(is_light(e) || feeds || view) ? -1 : only_reader(k, v);
    if (target <= own || k->schedule->items[target].side != k->schedule->items[own].side)
        return;
    int64_t carried = 0;
    for (int o = 0; o < e->in_count; o++)
        carried += bytes_to_carry(k, e->in[o], own);
    bool spares = carried < v->type->bytes || (view && carried == v->type->bytes);
    if (!spares && !feeds)
        return;
    memset(at, 0, k->words * sizeof *at);
    at[target / 64] |= (uint64_t)1 << (target % 64);
}

/* A barrier is not executed: what reads its result reads its operand, perhaps on the other side. */
static void read_through(sinker *k, int result, int operand)
{
    k->must_store[operand] |= k->must_store[result];
    for (size_t w = 0; w < k->words; w++)
        row(k->read_in, k, operand)[w] |= row(k->read_in, k, result)[w];
}

static void note_reads(sinker *k, int i)
{
    const mf_eqn *e = k->program->eqns[i];
    bool segment = in_segment(k, e);
    for (int o = 0; o < e->in_count; o++) {
        int v = e->in[o]->id;
        k->readers[v]++;
        k->reader[v] = e;
        k->must_store[v] |= !segment;
        for (size_t w = 0; segment && w < k->words; w++)
            row(k->read_in, k, v)[w] |= row(k->items_of, k, i)[w];
        if (e->op->flags & MF_OP_BARRIER)
            read_through(k, e->out[o]->id, v);
    }
}

static bool rebuild(sinker *k, mf_arena *arena, int item)
{
    int count = 0;
    for (int i = 0; i < k->program->eqn_count; i++)
        count += has(row(k->items_of, k, i), item);
    const mf_eqn **eqns = mf_arena_alloc(arena, ((size_t)count + 1) * sizeof *eqns);
    if (!eqns)
        return false;
    count = 0;
    for (int i = 0; i < k->program->eqn_count; i++)
        if (has(row(k->items_of, k, i), item))
            eqns[count++] = k->program->eqns[i];
    k->schedule->items[item].eqns = eqns;
    k->schedule->items[item].count = count;
    return true;
}

/* Updates made_by: an item that still computes an equation stays its maker, else the first one that does becomes it. */
static void name_makers(sinker *k)
{
    for (int i = 0; i < k->program->eqn_count; i++) {
        const mf_eqn *e = k->program->eqns[i];
        if (!e->out_count || has(row(k->items_of, k, i), item_of(k, e)))
            continue;
        int first = 0;
        while (first < k->schedule->item_count && !has(row(k->items_of, k, i), first))
            first++;
        k->schedule->made_by[e->out[0]->id] = first;
    }
}

bool mf_schedule_partition(mf_schedule *s, mf_arena *arena)
{
    const mf_program *p = s->program;
    size_t vars = (size_t)p->var_count + 1, words = ((size_t)s->item_count + 63) / 64;
    sinker k = { .schedule = s, .program = p, .words = words };
    if (s->item_count < 2)
        return true;
    k.items_of = mf_arena_alloc(arena, ((size_t)p->eqn_count + 1) * words * sizeof *k.items_of);
    k.read_in = mf_arena_alloc(arena, vars * words * sizeof *k.read_in);
    k.readers = mf_arena_alloc(arena, vars * sizeof *k.readers);
    k.reader = mf_arena_alloc(arena, vars * sizeof(const mf_eqn *));
    k.must_store = mf_arena_alloc(arena, vars * sizeof *k.must_store);
    k.index = mf_arena_alloc(arena, vars * sizeof *k.index);
    if (!k.items_of || !k.read_in || !k.readers || !k.reader || !k.must_store || !k.index)
        return false;
    for (int v = 0; v < p->var_count; v++)
        k.index[v] = -1;
    for (int i = 0; i < p->eqn_count; i++)
        for (int o = 0; o < p->eqns[i]->out_count; o++)
            k.index[p->eqns[i]->out[o]->id] = i;
    for (int o = 0; o < p->out_count; o++)
        k.must_store[p->out[o]->id] = true;
    for (int i = p->eqn_count - 1; i >= 0; i--)
        if (p->eqns[i]->out_count) {
            choose_items(&k, i);
            note_reads(&k, i);
        }
    bool ok = true;
    for (int i = 0; i < s->item_count && ok; i++)
        if (s->items[i].kind == MF_DO_SEGMENT)
            ok = rebuild(&k, arena, i);
    if (ok)
        name_makers(&k);
    return ok;
}
